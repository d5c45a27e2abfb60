"""Matrix products. Contracted factors come in one order on both sides; a constant side follows any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from layoutsolve.ir.graph import PACKED, Dim, Shape, static_elements
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Changed, Dims, Rewrite, Rule, Site, Step, Way, int64, rule, unnamed

P, K, M, N = ("p",), ("k",), ("m",), ("n",)

FLOATS, MOST_CUT = frozenset(("float16", "bfloat16", "float32", "float64")), 4
"""Types of weights of which products of heads are offered, and the most factors that their heads are among."""

OTHERWISE: Mapping[str, str] = {
    "NN": "swapped NN", "NT": "swapped NT", "TN": "swapped NT", "TT": "swapped NT", "MatMul": "swapped MatMul",
    "swapped NN": "NN", "swapped NT": "NT", "swapped TN": "TN", "swapped TT": "TT", "swapped MatMul": "swapped MatMul",
}  # fmt: skip
"""For each kind of product the one that takes as long where its left operand is the constant one, whichever way round
that is stored. With operands swapped a MatMul may have one product for each row of the constant, which is not fast.
"""

PANEL = 16
"""Columns of a product of floats that kernels compute at once; fewer take as long, or longer."""


WHOLE = frozenset(("int32", "int64", "uint32", "uint64"))
"""Types of which runtimes have products, but no Gemm."""


@rule("Gemm")
def gemm(site: Site) -> Rule | None:
    """``[p, k] x [k, m] + [m]``: stored either way round, operands swapped, as MatMul where ``p`` is several
    dimensions, or as a 1x1 Conv of one image, which takes and gives ``[k, p]``.
    """
    if not site.floating and any(site.attribute(name, 1.0) != 1.0 for name in ("alpha", "beta")):
        return None
    inputs = (0, 1) if site.input(2) is None else (0, 1, 2)
    left: Dims = (K, P) if site.attribute("transA", 0) else (P, K)
    right: Dims = (M, K) if site.attribute("transB", 0) else (K, M)
    bias: tuple[Dims, ...] = (_bias(site.required(2).shape, site.output().shape),) if len(inputs) == 3 else ()
    constant, biased, facts = site.constant(1) is not None, site.real if bias else "", numbers(site)
    known = constant or site.constant(0) is not None
    free = (frozenset("pkm") if known else frozenset("p")) - whole(site)
    if bias in ((), ((M,),)):
        ways = list(products(P, "k", "m", free, biased, facts))
        if constant:
            planes = (((), K, P, ()), (M, K, (), ()), *bias, ((), M, P, ()))
            ways.append(product("Conv", Placed(planes, free), facts, biased))
    else:
        ways = _by_stored((M, K), ("NT", "TT", "swapped NN", "swapped NT"), bias, free, (facts, biased))
    if not constant:
        ways += _by_stored((K, M), ("NN", "TN", "swapped TN", "swapped TT"), bias, free, (facts, biased))
    if known and not constant and not bias:
        ways += _by_matrix(P, ("m",), free, facts)
    ways = _as_priced(site, ways)
    if bias in ((), ((M,),)):
        ways += _by_head(site, *((P, "m") if constant else (M, "p")), (), facts, biased)
    letters = (
        "CN" if site.attribute("transA", 0) else "NC",
        "OI" if site.attribute("transB", 0) else "IO",
        *("O" if each == (M,) else unnamed(len(each)) for each in bias),
        "NC",
    )
    ways = [replace(way, rewrite=_scaled(site, way.rewrite)) for way in ways]
    cuts = _splitting(site, "m" if constant else "p") if bias in ((), ((M,),)) else frozenset()
    return Rule(inputs, (left, right, *bias, (P, M)), tuple(ways), letters=letters, cuts=cuts)


def _by_stored(
    matrix: Dims, kinds: Sequence[str], bias: tuple[Dims, ...], free: frozenset[str], told: tuple[str, str]
) -> list[Way]:
    """The products by a matrix that is stored so, with data either way round, by their ``kinds``: two with the result
    in rows, and two with the result and the bias in columns.
    """
    column = tuple((M, ()) if each == (M,) else each[::-1] for each in bias)
    stored = (
        ((P, K), bias, (P, M)),
        ((K, P), bias, (P, M)),
        ((K, P), column, (M, P)),
        ((P, K), column, (M, P)),
    )
    return [
        product(kind, Placed((data, matrix, *added, made), free), *told)
        for kind, (data, added, made) in zip(kinds, stored, strict=True)
    ]


def _scaled(site: Site, rewrite: Rewrite) -> Rewrite:
    """The rewrite of a product with the factors of a Gemm: its own attributes, or constants that are multiplied by them
    and what is computed in a Mul.
    """
    factors = {name: float(site.attribute(name, 1.0)) for name in ("alpha", "beta")}
    if set(factors.values()) == {1.0}:
        return rewrite

    def scaled(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        *before, step = rewrite(row, shapes)
        if step.op == "Gemm":
            return (*before, replace(step, attributes={**step.attributes, **factors}))
        written, known = list[Step](), dict[int, int | str | Changed]()
        wanted = {1 if site.changeable(1) else 0: factors["alpha"], 2: factors["beta"]}
        for number, factor in wanted.items():
            value = site.input(number)
            if value is None or factor == 1.0:
                continue
            scale = np.array(factor, value.dtype)
            if site.changeable(number):
                known[number] = Changed(number, partial(np.multiply, scale))
            else:
                shape = shapes[number]
                written.append(Step("Mul", (number, scale), (Between(f"scaled{number}", value.dtype, shape),)))
                known[number] = f"scaled{number}"
        return (
            *written,
            *(
                replace(
                    each, inputs=tuple(known.get(item, item) if isinstance(item, int) else item for item in each.inputs)
                )
                for each in (*before, step)
            ),
        )

    return scaled


def _by_matrix(rows: tuple[str, ...], lines: tuple[str, ...], free: frozenset[str], facts: str) -> Iterator[Way]:
    """The ways to multiply by a matrix ``[rows, k]`` on the left: data has its ``lines`` in any arrangement around what
    is contracted, or all before it and the matrix on the right.
    """
    around, matrix = free - {*lines}, frozenset({0})
    for kind, form in (
        ("MatMul", Placed(((rows, K), (K,), (rows,)), around, prefix=lines, suffix=True, columns=matrix)),
        ("swapped MatMul", Placed(((K, rows), (K,), (rows,)), around, prefix=lines, columns=matrix)),
    ):
        yield product(kind, form, facts)


def line_counts(site: Site, produced: int) -> dict[str, int]:
    """How many lines of data a product of floats by constant weights has, given the axis of its result that these
    produce, and how many of them are left beside whole panels, where that is known.
    """
    shape = site.output().shape
    if not site.floating or not all(isinstance(size, int) and size for size in shape):
        return {}
    count = static_elements(shape) // int(str(shape[produced]))
    return {"lines": count, "left over": count % PANEL}


def _as_priced(site: Site, ways: Sequence[Way]) -> list[Way]:
    """Ways of a product with the lines that constant weights multiply, and with the kinds as which they take as long:
    others where its left operand alone is constant.
    """
    left, right = (site.constant(number) is not None for number in (0, 1))
    counts = line_counts(site, -1 if right else -2) if left or right else {}
    ways = [replace(way, sizes={**way.sizes, **counts}) for way in ways]
    if right or not left:
        return ways
    found, matrix = [], len(site.required(1).shape) == 2
    for way in ways:
        written, *facts = str(way.kind).split(", ")
        kind = OTHERWISE[written]
        if kind == "swapped MatMul" and written == "swapped MatMul" and len(site.required(0).shape) == 2 and not matrix:
            kind = "MatMul"
        elif site.node.op == "MatMul" and kind == "swapped MatMul" and (matrix or written == "MatMul"):
            kind = "swapped MatMul of weights"
        found.append(replace(way, kind=", ".join((kind, *facts))))
    return found


def products(
    rows: tuple[str, ...],
    contracted: str,
    produced: str,
    free: frozenset[str],
    biased: str,
    facts: str,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Way]:
    """The ways to multiply ``[rows, contracted]`` by weights ``[produced, contracted]``; ``biased`` is as in
    :func:`product`.

    As a Gemm of two stored dimensions with either side either way round, or as a MatMul with the rows in any
    arrangement, before the contracted dimension or around it.
    """
    p, k, m = rows, (contracted,), (produced,)
    line: tuple[Dims, ...] = ((m,),) if biased else ()
    column: tuple[Dims, ...] = ((m, ()),) if biased else ()
    around, columns = free - {*rows}, frozenset(range(1, 2 + bool(biased)))
    for kind, form in (
        ("NT", Placed(((p, k), (m, k), *line, (p, m)), free, mixed=True)),
        ("TT", Placed(((k, p), (m, k), *line, (p, m)), free, mixed=True)),
        ("MatMul", Placed(((k,), (k, m), *line, (m,)), around, prefix=rows, columns=columns)),
        ("swapped NN", Placed(((k, p), (m, k), *column, (m, p)), free, mixed=True)),
        ("swapped NT", Placed(((p, k), (m, k), *column, (m, p)), free, mixed=True)),
        ("swapped MatMul", Placed(((k,), (m, k), *column, (m,)), around, prefix=rows, suffix=True, columns=columns)),
    ):
        yield product(kind, form, facts, biased, sizes)


def product(kind: str, form: Placed, facts: str, biased: str = "", sizes: Mapping[str, int] | None = None) -> Way:
    """Product of data and weights: a Gemm that transposes as in ``kind``, MatMul and Add, or Conv.

    ``facts`` are of the numbers that it multiplies, ``biased`` is the type of the product to which a bias is added, ''
    where there is no bias.
    """

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return _steps(kind, Between("product", biased, shapes[-1]) if biased else None)

    return Way(form, rewrite, f"{kind}, {facts}", sizes or {}, swapped=kind.startswith("swapped"))


def _steps(kind: str, unbiased: Between | None) -> tuple[Step, ...]:
    swapped = kind.startswith("swapped")
    operands: tuple[int, int] = (1, 0) if swapped else (0, 1)
    if "MatMul" in kind:
        if unbiased is None:
            return (Step("MatMul", operands, (0,)),)
        return (Step("MatMul", operands, (unbiased,)), Step("Add", (unbiased.name, 2), (0,)))
    if kind == "Conv":
        return (Step("Conv", (0, 1, 2)[: 2 + (unbiased is not None)], (0,), {"kernel_shape": (1, 1)}),)
    transposed = {"transA": int(kind[-2] == "T"), "transB": int(kind[-1] == "T")}
    return (Step("Gemm", operands if unbiased is None else (*operands, 2), (0,), transposed),)


def numbers(site: Site) -> str:
    """What a product is of: the type of its result, and what is quantized.

    Floats times quantized weights are a product of floats, as what the weights mean is computed when a model is loaded;
    but not where they have 4 bits or are quantized per block, for which runtimes have kernels of their own.
    """
    result, data, weights = site.output(), site.required(0), site.required(1)
    if site.floating:
        return result.dtype
    if data.quant is not None and weights.quant is not None and result.quant is not None:
        return f"{result.dtype}, quantized" + ("" if site.input(2) is None else " with bias")
    if data.quant is not None or result.quant is not None or weights.data is None:
        wide = data.quant is not None and data.dtype.endswith("16")  # for which no runtime has a kernel
        return f"{result.dtype}, partly quantized{' to 16 bits' if wide else ''}"
    packed = weights.dtype in PACKED or (weights.quant is not None and weights.quant.block)
    return f"{result.dtype}, quantized weights" if packed else result.dtype


def whole(site: Site) -> frozenset[str]:
    """What is contracted keeps its order where a side is quantized per block: out of order it would take floats."""
    quants = [site.required(port).quant for port in (0, 1)]
    return frozenset("k" if any(quant is not None and quant.block for quant in quants) else ())


def _bias(shape: Shape, result: Shape) -> Dims:
    """A bias is added to every row, or has rows of its own, or is a number for each row or for all."""
    sizes = zip((P, M)[2 - len(shape) :], shape, result[2 - len(shape) :], strict=True)
    return tuple(labels if dim == whole and (dim != 1 or labels == M) else () for labels, dim, whole in sizes)


@rule("MatMul")
def matmul(site: Site) -> Rule | None:
    """``[..., m, k] x [..., k, n]``, or the operands swapped and everything transposed; a Gemm where there is no batch.

    Batch dimensions come in any arrangement; where the right side has none, so do the rows of the left side, before or
    around what is contracted. Either side may be a matrix: where the left one is, so do the columns of the right side.
    """
    left, right, result = site.required(0).shape, site.required(1).shape, site.output().shape
    if min(len(left), len(right)) < 2:
        return None
    batch = len(result) - 2
    labels, matrix, facts = batches(batch), len(right) == 2, numbers(site)
    dims = (_batched(left, batch, "mk"), _batched(right, batch, "kn"), _batched(result, batch, "mn"))
    free, columns = frozenset("mkn") - whole(site), frozenset({1} if matrix else {0} if len(left) == 2 else ())
    rows, lines = ((), (*labels, "m")) if matrix else ((M,), labels)
    plain = Placed(((*rows, K), (K, N), (*rows, N)), free - {*lines}, prefix=lines, columns=columns)
    turned = Placed(((K, M), (N, K), (N, M)), free, prefix=labels, columns=columns)
    if matrix:
        turned = Placed(((K,), (N, K), (N,)), free - {*lines}, prefix=lines, suffix=True, columns=columns)
    swapped = "swapped MatMul of weights" if site.constant(1) is not None else "swapped MatMul"
    ways = [product("MatMul", plain, facts), product(swapped, turned, facts, sizes=_sides(left[-2], right[-1]))]
    if len(left) == 2 and not matrix:
        ways += _by_matrix(M, (*labels, "n"), free, facts)
    if facts not in WHOLE and (matrix or all(dim == 1 for dim in result[:-2])):
        p = lines if matrix else M
        forms = [
            ("NT", (p, K), (N, K), (p, N)), ("TN", (K, p), (K, N), (p, N)), ("TT", (K, p), (N, K), (p, N)),
            ("swapped NT", (p, K), (N, K), (N, p)), ("swapped TN", (K, p), (K, N), (N, p)),
            ("swapped TT", (p, K), (K, N), (N, p)),
        ]  # fmt: skip
        computed = site.constant(1) is None  # else it is stored as the others want it
        for kind, *places in forms if computed else forms[:4]:
            ways.append(product(kind, Placed(tuple(places), free | {*p}, mixed=True), facts))
    ways, produced = _as_priced(site, ways), "n" if site.constant(1) is not None else "m"
    ways += _by_head(site, M if produced == "n" else N, produced, labels, facts)
    return Rule((0, 1), dims, tuple(ways), cuts=_splitting(site, produced))


def _splitting(site: Site, produced: str) -> frozenset[str]:
    """The labels of a matrix of floats that products of heads may split."""
    weights = site.required(1 if site.constant(1) is not None else 0)
    held = weights.data is not None and len(weights.shape) == 2 and site.floating
    return frozenset((produced, "k") if held and weights.dtype in FLOATS else ())


def _by_head(
    site: Site, rows: tuple[str, ...], produced: str, lines: tuple[str, ...], facts: str, biased: str = ""
) -> Iterator[Way]:
    """The ways to multiply by a matrix whose ``produced`` or contracted label the graph splits, as into heads of
    attention: a product for each of some of its factors, with weights that are split likewise. Where these are
    contracted, what all products give is summed.
    """
    weights = 1 if site.constant(1) is not None else 0
    data, last = 1 - weights, 2 + bool(biased)

    def line(n: tuple[str, ...]) -> Dims:
        return ((), n) if weights else (rows, ())

    for label in (produced, "k"):
        sizes = site.cuts.get(label, ())
        names = tuple(f"{label}{number}" for number in range(len(sizes)))
        factors = {label: dict(zip(names, sizes, strict=True))}
        for heads in (
            each
            for count in range(1, len(names) if len(names) <= MOST_CUT else 0)
            for each in combinations(names, count)
        ):
            rest, summed = tuple(name for name in names if name not in heads), label == "k"
            k, n = (rest, (produced,)) if summed else (K, rest)
            for turned in (False, True):
                places: dict[int, tuple[tuple[str, ...], ...]] = {
                    data: (rows, k), weights: (k, n), **({2: line(n)} if biased else {}), last: (rows, n)
                }  # fmt: skip
                form = Placed(
                    tuple(places[port][::-1] if turned else places[port] for port in sorted(places)),
                    frozenset((*rows, *k, *n)),
                    prefix=(*lines, *heads),
                    short=frozenset(() if summed else (data,)),
                    bare=frozenset((2, last) if summed else ()),
                )
                operands = (weights, data) if turned else (data, weights)
                kind = f"{'swapped ' if turned else ''}MatMul {'summed over' if summed else 'of'} heads, {facts}"
                rewrite = _of_heads(operands, heads if summed else (), site.real, biased)
                yield Way(form, rewrite, kind, factors=factors, swapped=operands == (1, 0))


def _of_heads(operands: tuple[int, int], summed: tuple[str, ...], dtype: str, biased: str) -> Rewrite:
    """A MatMul of batches, the sum over those that are ``summed``, and the bias."""

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        axes = [axis for axis, group in enumerate(row.arrangement) if any(slot[0] in summed for slot in group)]
        product = list(shapes[-1])
        for axis in axes:
            product.insert(axis, shapes[operands[0]][axis])
        names = ["product", *(["total"] if axes else []), *(["biased"] if biased else [])]
        made: list[int | Between] = [Between(names[0], dtype, tuple(product))]
        made += [Between(name, dtype, shapes[-1]) for name in names[1:]]
        made[-1] = 0
        steps = [Step("MatMul", operands, (made[0],))]
        if axes:
            steps.append(Step("ReduceSum", (names[0], int64(*axes)), (made[1],), {"keepdims": 0}))
        if biased:
            steps.append(Step("Add", (names[-2], 2), (0,)))
        return tuple(steps)

    return rewrite


def batches(count: int) -> tuple[str, ...]:
    """The labels of so many batch dimensions."""
    return tuple(f"b{axis}" for axis in range(count))


def _sides(rows: Dim, columns: Dim) -> dict[str, int]:
    """How large the left side is, and how many times as large as the right one, where that is known."""
    if not isinstance(rows, int) or not isinstance(columns, int):
        return {}
    return {"left": rows, "left by right": rows // max(columns, 1)}


def _batched(shape: Shape, batch: int, matrix: str) -> Dims:
    """The labels of one operand: batch dimensions aligned from the right, then its matrix."""
    offset = batch - (len(shape) - 2)
    leading = tuple((f"b{offset + axis}",) if dim != 1 else () for axis, dim in enumerate(shape[:-2]))
    return (*leading, *((label,) for label in matrix))
