"""Products of computed matrices, either of which is transposed as it is read: BATCH_MATMUL of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as product_of

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.offer import form
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, Rewrite, Rule, Site, Step, Way
from layoutsolve.solver.theory.rules.contraction import batches, numbers

WRITES = "MatMul of transposed operands that are computed: BATCH_MATMUL with adj_x and adj_y"


@form("MatMul", "litert", writes=WRITES)
def batched(site: Site, rule: Rule) -> Iterator[Way]:
    """Matrices behind their batch; one that has none stays by itself."""
    ranks = [len(site.required(number).shape) for number in (0, 1)]
    labels = batches(len(site.output().shape) - 2)
    if not labels:
        yield from _ways(site, ("m", "k", "n"), (), frozenset())
    elif min(ranks) > 1:
        yield from _ways(site, ("m", "k", "n"), labels, frozenset(side for side in (0, 1) if ranks[side] == 2))


@form("Gemm", "litert", writes=WRITES)
def single(site: Site, rule: Rule) -> Iterator[Way]:
    """Two matrices, to which nothing is added."""
    if site.input(2) is None and site.attribute("alpha", 1.0) == 1.0:
        yield from _ways(site, ("p", "k", "m"), (), frozenset())


def _ways(site: Site, letters: tuple[str, str, str], labels: tuple[str, ...], columns: frozenset[int]) -> Iterator[Way]:
    """The ways to store two matrices and their product; kinds tell how the operands are stored, as in ``TN``."""
    if site.constant(0) is not None or site.constant(1) is not None:
        return
    m, k, n = ((letter,) for letter in letters)
    for swapped, left, right in product_of((False, True), "NT", "NT"):
        made = (n, m) if swapped else (m, n)
        first = (k, made[0]) if left == "T" else (made[0], k)
        second = (made[1], k) if right == "T" else (k, made[1])
        places = (second, first, made) if swapped else (first, second, made)
        form = Placed(places, frozenset(letters), prefix=labels, columns=columns)
        kind = f"adjoint {'swapped ' if swapped else ''}{left}{right}"
        yield Way(form, _rewrite(swapped, left, right), f"{kind}, {numbers(site)}", swapped=swapped)


def _rewrite(swapped: bool, left: str, right: str) -> Rewrite:
    transposed = {"transA": int(left == "T"), "transB": int(right == "T")}
    steps = (Step("FusedMatMul", (1, 0) if swapped else (0, 1), (0,), transposed, CONTRIB),)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return steps

    return rewrite
