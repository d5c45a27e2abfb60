"""Matrix products. Contracted factors come in one order on both sides; a constant side follows any."""

from __future__ import annotations

from itertools import product as product_of

from layoutsolve.graph import Dim, Shape
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, Between, Dims, Placed, Rule, Site, Step, rule

LARGE = 96
"""Rows from which on it matters which side of a product is prepared."""

_WITHOUT_GEMM = ("int32", "int64", "uint32", "uint64")
"""Plain types that ONNX Runtime multiplies as a MatMul only."""

P, K, M, N = ("p",), ("k",), ("m",), ("n",)


@rule("Gemm")
def gemm(site: Site) -> Rule | None:
    """``[p, k] x [k, m] + [m]``: stored either way round, operands swapped, or as MatMul where ``p`` is several
    dimensions.

    A quantised product keeps to forms that have an integer kernel: Gemm with the weights on the right, or a 1x1 Conv of
    one image, which takes and gives ``[k, p]``.
    """
    if site.attribute("alpha", 1.0) != 1.0 or site.attribute("beta", 1.0) != 1.0:
        return None
    inputs = (0, 1) if site.input(2) is None else (0, 1, 2)
    left: Dims = (K, P) if site.attribute("transA", 0) else (P, K)
    right: Dims = (M, K) if site.attribute("transB", 0) else (K, M)
    bias: tuple[Dims, ...] = (_bias(site.required(2).shape),) if len(inputs) == 3 else ()
    constant, bare = site.constant(1) is not None, len(inputs) == 2
    free = (frozenset("pkm") if constant else frozenset("p")) - _whole(site)
    plain = bias in ((), ((M,),))
    if plain and (constant or site.floating or (bare and _integer(site))):
        forms = kernels(site, products(P, "k", "m", free, biased=not bare))
    else:
        forms = [(kind, Placed((data, (M, K), *bias, (P, M)), free)) for kind, data in (("NT", (P, K)), ("TT", (K, P)))]
    if plain and constant and len(forms) == 2:
        planes = (((), K, P, ()), (M, K, (), ()), *bias, ((), M, P, ()))
        forms.append(("Conv", Placed(planes, free)))
    if not constant:
        forms += [
            (kind, Placed((data, (K, M), *bias, (P, M)), free)) for kind, data in (("NN", (P, K)), ("TN", (K, P)))
        ]

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return product(forms[row.form][0], None if bare else Between("product", site.real, shapes[-1]))

    ways = tuple(form for _, form in forms)
    return Rule(inputs, (left, right, *bias, (P, M)), ways, rewrite, kind=lambda row: forms[row.form][0])


def products(
    rows: tuple[str, ...], contracted: str, produced: str, free: frozenset[str], biased: bool
) -> list[tuple[str, Placed]]:
    """The ways to multiply ``[rows, contracted]`` by weights ``[produced, contracted]``, each with its kind.

    As a Gemm of two stored dimensions with either side either way round, or as a MatMul with the rows in any
    arrangement, before the contracted dimension or around it.
    """
    p, k, m = rows, (contracted,), (produced,)
    line: tuple[Dims, ...] = ((m,),) if biased else ()
    column: tuple[Dims, ...] = ((m, ()),) if biased else ()
    around, columns = free - {*rows}, frozenset(range(1, 2 + biased))
    return [
        ("NT", Placed(((p, k), (m, k), *line, (p, m)), free, mixed=True)),
        ("TT", Placed(((k, p), (m, k), *line, (p, m)), free, mixed=True)),
        ("MatMul", Placed(((k,), (k, m), *line, (m,)), around, prefix=rows, columns=columns)),
        ("swapped NN", Placed(((k, p), (m, k), *column, (m, p)), free, mixed=True)),
        ("swapped NT", Placed(((p, k), (m, k), *column, (m, p)), free, mixed=True)),
        ("swapped MatMul", Placed(((k,), (m, k), *column, (m,)), around, prefix=rows, suffix=True, columns=columns)),
    ]


def kernels(site: Site, forms: list[tuple[str, Placed]]) -> list[tuple[str, Placed]]:
    """Those products that ONNX Runtime computes as they are written, the first of them first.

    Where the weights alone are quantised it rounds the data of a MatMul. Where all is quantised and a bias is added, it
    has an integer kernel for weights on the right.
    """
    if site.floating or (site.input(2) is None and _integer(site)):
        return forms
    if site.required(0).quant is None and site.output().quant is None:
        return [form for form in forms if not form[0].endswith("MatMul")]
    return [form for form in forms if form[0] in ("NT", "TT")]


def product(kind: str, unbiased: Between | None) -> tuple[Step, ...]:
    """The operators of a product of data and weights: a Gemm that transposes as ``kind`` says, MatMul and Add, or Conv.

    ``unbiased`` is the product to which a bias is added, None where there is no bias.
    """
    swapped = kind.startswith("swapped")
    operands: tuple[int, int] = (1, 0) if swapped else (0, 1)
    if kind.endswith("MatMul"):
        if unbiased is None:
            return (Step("MatMul", operands, (0,)),)
        return (Step("MatMul", operands, (unbiased,)), Step("Add", (unbiased.name, 2), (0,)))
    if kind == "Conv":
        return (Step("Conv", (0, 1) if unbiased is None else (0, 1, 2), (0,), {"kernel_shape": (1, 1)}),)
    transposed = {"transA": int(kind[-2] == "T"), "transB": int(kind[-1] == "T")}
    return (Step("Gemm", operands if unbiased is None else (*operands, 2), (0,), transposed),)


def _integer(site: Site) -> bool:
    """Whether data, weights and result are quantised."""
    values = [site.required(0), site.required(1), site.output()]
    return all(value.quant is not None for value in values)


def _whole(site: Site) -> frozenset[str]:
    """What is contracted keeps its order where a side is quantised per block: out of order it would take floats."""
    quants = [site.required(port).quant for port in (0, 1)]
    return frozenset("k" if any(quant is not None and quant.block for quant in quants) else ())


def _bias(shape: Shape) -> Dims:
    """A bias is added to every row, or has rows of its own."""
    return (M,) if len(shape) == 1 else ((P if shape[0] != 1 else ()), M)


@rule("MatMul")
def matmul(site: Site) -> Rule | None:
    """``[..., m, k] x [..., k, n]``, or the operands swapped and everything transposed; a Gemm where there is no batch.

    Batch dimensions come in any arrangement; where the right side has none, so do the rows of the left side.
    """
    left, right, result = site.required(0).shape, site.required(1).shape, site.output().shape
    if min(len(left), len(right)) < 2:
        return None
    batch = len(result) - 2
    labels = tuple(f"b{axis}" for axis in range(batch))
    matrix = len(right) == 2
    dims = (_batched(left, batch, "mk"), _batched(right, batch, "kn"), _batched(result, batch, "mn"))
    free, columns = frozenset("mkn") - _whole(site), frozenset({1} if matrix else ())
    rows, lines = ((), (*labels, "m")) if matrix else ((M,), labels)
    forms = [
        ("MatMul", Placed(((*rows, K), (K, N), (*rows, N)), free - {*lines}, prefix=lines, columns=columns)),
        ("swapped MatMul", Placed(((K, M), (N, K), (N, M)), free, prefix=labels, columns=columns)),
    ]
    if CONTRIB in site.domains and site.floating and labels and (matrix or dims[0][:-2] == dims[1][:-2]):
        forms += _fused(labels, matrix)
    if all(dim == 1 for dim in result[:-2]) and site.output().dtype not in _WITHOUT_GEMM:
        for kind, one, other in (("NT", (M, K), (N, K)), ("TN", (K, M), (K, N)), ("TT", (K, M), (N, K))):
            forms.append((kind, Placed((one, other, (M, N)), free)))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        kind = forms[row.form][0]
        return _fused_product(kind) if kind.startswith("fused") else product(kind, None)

    ways = tuple(form for _, form in forms)
    size = " from large" if _large(left[-2], right[-1]) else ""
    swapped = " of weights" if site.constant(1) is not None else size

    def way(row: Row) -> str:
        form = forms[row.form][0]
        return form + swapped if form == "swapped MatMul" else form

    return Rule((0, 1), dims, ways, rewrite, kind=way)


def _large(rows: Dim, columns: Dim) -> bool:
    """Whether the left side is large beside the right one. Kernels prepare the right side of each product."""
    return isinstance(rows, int) and isinstance(columns, int) and rows >= max(2 * columns, LARGE)


def _fused(labels: tuple[str, ...], matrix: bool) -> list[tuple[str, Placed]]:
    """The forms of FusedMatMul, named by the swap of operands and the dimensions of both, with ``b`` for the batch.

    Each operand is transposed or not, in its matrices or between its rows and all of its batch, which then has to be
    one stored dimension at every port. A right side that is one ``matrix`` stays as it is.
    """
    free, forms = frozenset("mkn").union(labels), []
    if matrix:
        sides = ((K, M), (K, N), (M, N)), ((M, K), (N, K), (N, M))
        names = "fused bkm bkn", "fused swapped bnk bmk"
        return [
            (name, Placed(side, frozenset("mkn"), prefix=labels, columns=frozenset({1})))
            for name, side in zip(names, sides, strict=True)
        ]
    for way, one, other, made in (("fused", "mk", "kn", "mn"), ("fused swapped", "nk", "km", "nm")):
        for left, right in product_of(_ways(one), _ways(other)):
            ports = [left, right, f"b{made}"] if way == "fused" else [right, left, f"b{made}"]
            if left[0] == right[0] == "b":
                matrices = tuple(((port[1],), (port[2],)) for port in ports)
                form = Placed(matrices, free, prefix=labels)
            else:
                form = Placed(tuple(_places(port, labels) for port in ports), free, mixed=True)
            forms.append((f"{way} {left} {right}", form))
    return forms


def _ways(matrix: str) -> list[str]:
    """The dimensions of an operand as FusedMatMul takes it: the batch before its matrix, or between its parts."""
    first, second = matrix[0], matrix[1]
    return [f"b{first}{second}", f"b{second}{first}", f"{first}b{second}", f"{second}b{first}"]


def _places(letters: str, labels: tuple[str, ...]) -> Dims:
    return tuple(labels if letter == "b" else (letter,) for letter in letters)


def _fused_product(kind: str) -> tuple[Step, ...]:
    """The FusedMatMul of a form: an operand's rows or columns come last where it is transposed."""
    *way, left, right = kind.split()
    swapped = "swapped" in way
    attributes = {}
    for side, letters, rows in (("A", left, "n" if swapped else "m"), ("B", right, "k")):
        attributes[f"trans{side}"] = int(letters.replace("b", "")[0] != rows)
        attributes[f"transBatch{side}"] = int(letters[1] == "b")
    return (Step("FusedMatMul", (1, 0) if swapped else (0, 1), (0,), attributes, CONTRIB),)


def _batched(shape: Shape, batch: int, matrix: str) -> Dims:
    """The labels of one operand: batch dimensions aligned from the right, then its matrix."""
    offset = batch - (len(shape) - 2)
    leading = tuple((f"b{offset + axis}",) if dim != 1 else () for axis, dim in enumerate(shape[:-2]))
    return (*leading, *((label,) for label in matrix))
