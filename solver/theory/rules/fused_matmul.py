"""Batched products as FusedMatMul, an operator of ONNX Runtime's own domain that transposes its operands inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as product_of
from types import MappingProxyType

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.offer import form
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, Dims, Rule, Site, Step, Way, rule
from layoutsolve.solver.theory.rules.contraction import K, M, N, batches, numbers


@form("MatMul", CONTRIB, writes="MatMul of a transposed operand, float: FusedMatMul")
def fused(site: Site, rule: Rule) -> Iterator[Way]:
    """Each operand is transposed or not, in its matrices or between its rows and all of its batch, which then has to be
    one stored dimension at every port. A right side that is one matrix stays as it is.

    Kinds name the swap of operands and the dimensions of both, with ``b`` for the batch.
    """
    labels = batches(len(site.output().shape) - 2)
    matrix = len(site.required(1).shape) == 2
    if not site.floating or not labels or not (matrix or rule.dims[0][:-2] == rule.dims[1][:-2]):
        return
    facts = numbers(site)
    for kind, placed in _by_matrix(labels) if matrix else _by_batch(labels):
        yield _way(kind, placed, facts)


@rule(f"{CONTRIB}:FusedMatMul", f"{CONTRIB}:TransposeMatMul")
def given(site: Site) -> Rule | None:
    """One that the source has, which may transpose its operands in other ways, as that one would."""
    left, right = ("".join(_own(site, side)) for side in (("A", "m", "k"), ("B", "k", "n")))
    shapes = site.required(0).shape, site.required(1).shape, site.output().shape
    labels, matrix = batches(len(shapes[2]) - 2), len(shapes[1]) == 2
    if min(map(len, shapes)) < 2 or (len(labels) > 1 and "b" in (left[1], right[1])):
        return None
    dims = tuple(_operand(*each, len(labels)) for each in zip(shapes, (left, right, "bmn"), strict=True))
    batched = [{label for group in each for label in group if label[0] == "b"} for each in dims]
    found = [*_aligned(labels, matrix)]
    if matrix:
        found += _by_matrix(labels) if labels else _swapped()
    elif labels and batched[0] == batched[1]:
        found += _by_batch(labels)
    elif "b" in (left[1], right[1]):
        return None
    forms = sorted(found, key=lambda each: each[0] != f"fused {left} {right}")
    alpha = {"alpha": site.attribute("alpha")} if "alpha" in site.node.attributes else {}
    ways = (_way(kind, placed, numbers(site), alpha) for kind, placed in forms)
    return Rule((0, 1), dims, tuple(ways))


def _own(site: Site, side: tuple[str, str, str]) -> Iterator[str]:
    """The dimensions of an operand as the source has it."""
    name, *matrix = side
    first, second = matrix[::-1] if site.attribute(f"trans{name}", 0) else matrix
    yield from (first, "b", second) if site.attribute(f"transBatch{name}", 0) else ("b", first, second)


def _operand(shape: Shape, letters: str, count: int) -> Dims:
    """The labels of an operand; batch dimensions are aligned from the right."""
    offset, start = count - (len(shape) - 2), letters.index("b")
    batch = shape[start : start + len(shape) - 2]
    labels = tuple((f"b{offset + axis}",) if dim != 1 else () for axis, dim in enumerate(batch))
    first, second = ((letter,) for letter in letters if letter != "b")
    return (*labels, first, second) if start == 0 else (first, *labels, second)


def _aligned(labels: tuple[str, ...], matrix: bool) -> Iterator[tuple[str, Placed]]:
    """Each matrix either way round behind its batch, and with a right side that is one, all rows in any arrangement."""
    free, columns = frozenset("mkn"), frozenset({1} if matrix else ())
    for left, right in product_of(("mk", "km"), ("kn", "nk")):
        sides = _places(left, ()), _places(right, ()), (M, N)
        yield f"fused b{left} b{right}", Placed(sides, free, prefix=labels, columns=columns)
    if matrix:
        for right in ("kn", "nk"):
            line = Placed(((K,), _places(right, ()), (N,)), frozenset("kn"), prefix=(*labels, "m"), columns=columns)
            yield f"fused bmk b{right}", line


def _by_matrix(labels: tuple[str, ...]) -> Iterator[tuple[str, Placed]]:
    sides = ((K, M), (K, N), (M, N)), ((M, K), (N, K), (N, M))
    for kind, side in zip(("fused bkm bkn", "fused swapped bnk bmk"), sides, strict=True):
        yield kind, Placed(side, frozenset("mkn"), prefix=labels, columns=frozenset({1}))


def _swapped() -> Iterator[tuple[str, Placed]]:
    """Two matrices with operands swapped, each either way round."""
    for left, right in product_of(("nk", "kn"), ("km", "mk")):
        places = _places(right, ()), _places(left, ()), (N, M)
        yield f"fused swapped b{left} b{right}", Placed(places, frozenset("mkn"))


def _by_batch(labels: tuple[str, ...]) -> Iterator[tuple[str, Placed]]:
    free = frozenset("mkn").union(labels)
    for way, one, other, made in (("fused", "mk", "kn", "mn"), ("fused swapped", "nk", "km", "nm")):
        for left, right in product_of(_orders(one), _orders(other)):
            ports = [left, right, f"b{made}"] if way == "fused" else [right, left, f"b{made}"]
            if left[0] == right[0] == "b":
                matrices = tuple(((port[1],), (port[2],)) for port in ports)
                yield f"{way} {left} {right}", Placed(matrices, free, prefix=labels)
            else:
                yield f"{way} {left} {right}", Placed(tuple(_places(port, labels) for port in ports), free, mixed=True)


def _orders(matrix: str) -> list[str]:
    """The dimensions of an operand as FusedMatMul takes it: the batch before its matrix, or between its parts."""
    first, second = matrix[0], matrix[1]
    return [f"b{first}{second}", f"b{second}{first}", f"{first}b{second}", f"{second}b{first}"]


def _places(letters: str, labels: tuple[str, ...]) -> Dims:
    return tuple(labels if letter == "b" else (letter,) for letter in letters)


def _way(kind: str, placed: Placed, facts: str, alpha: Mapping[str, float] = MappingProxyType({})) -> Way:
    """The FusedMatMul of a form: an operand's rows or columns come last where it is transposed."""
    *way, left, right = kind.split()
    swapped = "swapped" in way
    attributes: dict[str, float] = {**alpha}
    for side, letters, rows in (("A", left, "n" if swapped else "m"), ("B", right, "k")):
        attributes[f"trans{side}"] = int(letters.replace("b", "")[0] != rows)
        attributes[f"transBatch{side}"] = int(letters[1] == "b")
    steps = (Step("FusedMatMul", (1, 0) if swapped else (0, 1), (0,), attributes, CONTRIB),)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return steps

    return Way(placed, rewrite, f"{kind}, {facts}")
