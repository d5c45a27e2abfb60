"""Operators that work along axes: reductions, softmax, arg max, cumulative sums, the k largest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.ir.graph import Shape, static_elements
from layoutsolve.solver.theory.kind import Along, Runs
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position, positions
from layoutsolve.solver.theory.rule import Between, Dims, Rule, Site, Step, Way, int64, numbered, rule
from layoutsolve.solver.theory.rules.int8_averages import convolved_bytes

UNCHANGED = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
"""What leaves a single number as it is, so that it need not name an axis; the others take its absolute value, say."""

WHOLE = frozenset("k")
"""The label of an axis that stays whole."""

LINES, MANY = 16, 256
"""Rows that are summed, and these or what is in one of them, from which on runtimes go through a matrix row by row."""

PIXELS = 2
"""The dimensions of the pixels of an image."""


@rule(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
def reduce(site: Site) -> Rule | None:
    """The reduced factors may lie anywhere; reduced dimensions are kept with size 1 or left out, whichever fits."""
    shape = site.required(0).shape
    given = site.integers(1)
    if given is None and site.input(1) is not None:
        return None
    dims = numbered(shape)
    if not given and site.attribute("noop_with_empty_axes", 0):
        return Rule((0,), (dims, dims), (Way(Arranged(frame=0), site.unchanged),))
    axes = range(len(shape)) if not given else [axis % len(shape) for axis in given]
    reduced = frozenset(label for axis in axes for label in dims[axis])
    solid = frozenset[str]()
    if not reduced and site.node.op not in UNCHANGED:
        if not shape:
            return Rule((0,), ((), ()), (Way(Arranged(frame=0), site.unchanged),))
        dims, reduced, solid = _axis(shape, axes[0], "k"), WHOLE, WHOLE
    kept = tuple(() if axis in axes else labels for axis, labels in enumerate(dims))
    if not site.attribute("keepdims", 1):
        kept = tuple(labels for axis, labels in enumerate(kept) if axis not in axes)

    def keeping(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return reducing(1, _with_units(shapes[0], positions(row.arrangement, reduced)))

    def dropping(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return reducing(0, positions(row.arrangement, reduced))

    def reducing(keepdims: int, where: Sequence[int]) -> tuple[Step, ...]:
        return site.same({"keepdims": keepdims, "noop_with_empty_axes": 1}, {1: int64(*where)})

    left = ("pixels left out",) if len(reduced) == PIXELS and convolved_bytes(site) else ()
    apart = Runs(reduced, left, merged=not _is_large(shape, axes))
    ways = (
        Way(Arranged(frame=0, alone=solid, sensitive=reduced), keeping, Runs(reduced)),
        Way(Arranged(frame=0, alone=solid, dropped=reduced, sensitive=reduced), dropping, apart),
    )
    return Rule((0,), (dims, kept), ways, solid=solid)


def _is_large(shape: Shape, axes: Sequence[int]) -> bool:
    """Whether runtimes have a faster kernel for so many dimensions that are reduced, or kept, in one run."""
    other = [axis for axis in range(len(shape)) if axis not in axes]
    reduced, kept = (static_elements(tuple(shape[axis] for axis in each)) for each in (axes, other))
    return reduced > LINES and max(reduced, kept) > MANY


def _with_units(shape: Shape, axes: Sequence[int]) -> list[int]:
    """The reduced dimensions, with those of size 1 before and behind them, which changes nothing: runtimes look for
    runs of reduced and of kept dimensions, and take up to seventy times as long where one of size 1 parts or ends them.

    A dimension of size 1 goes with the next larger one, and the last ones with the one before.
    """
    found = list[int]()
    larger = [axis for axis, dim in enumerate(shape) if dim != 1 or axis in axes]
    for axis in range(len(shape)):
        beside = next((each for each in larger if each >= axis), larger[-1] if larger else axis)
        found += [axis] if beside in axes else []
    return found


WIDE = frozenset(("float32", "float64"))
"""Types whose squares are no larger than the type allows."""


@rule("LayerNormalization", "RMSNormalization")
def layer_normalization(site: Site) -> Rule | None:
    """The operator where the normalised dimensions are innermost; written out in any other layout."""
    constants = tuple(range(1, len(site.node.inputs)))
    if any(site.constant(number) is None for number in constants) or len(site.node.outputs) > 1:
        return None
    shape = site.required(0).shape
    first = site.attribute("axis", -1) % len(shape)
    data = numbered(shape)
    if any(site.required(number).shape != shape[first:] for number in constants) or not any(data[first:]):
        return None
    own, around = data[first:], tuple(label for labels in data[:first] for label in labels)
    inner = frozenset(label for labels in own for label in labels)
    operator = Placed((own,) * (len(constants) + 2), inner, prefix=around, columns=frozenset(constants))
    written = Arranged(frame=0)

    def innermost(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": -len(own)})

    def by_steps(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return _normalising(site, _with_units(shapes[0], positions(row.arrangement, inner)), shapes[0])

    dims = (data, *(own for _ in constants), data)
    ways = [Way(operator, innermost, "operator")]
    if site.node.op != "RMSNormalization" or site.real in WIDE:  # it squares in 32 bits, which others would overflow
        ways.append(Way(written, by_steps, "written out"))
    if first and not around:  # nothing before it but dimensions of size 1, which a form has where it says so
        ways.insert(0, Way(Placed(dims, inner), innermost, "operator"))
    return Rule((0, *constants), dims, tuple(ways))


def _normalising(site: Site, where: Sequence[int], shape: Shape) -> tuple[Step, ...]:
    """Normalisation along some axes, written out."""
    axes, epsilon = int64(*where), np.array(site.attribute("epsilon", 1e-5), site.real)
    kept = tuple(1 if axis in where else dim for axis, dim in enumerate(shape))

    def full(name: str) -> Between:
        return Between(name, site.real, shape)

    def reduced(name: str) -> Between:
        return Between(name, site.real, kept)

    centred: int | str = 0 if site.node.op == "RMSNormalization" else "centred"  # which takes the mean to be 0
    centring = (
        Step("ReduceMean", (0, axes), (reduced("mean"),)),
        Step("Sub", (0, "mean"), (full("centred"),)),
    )
    added = range(2, len(site.node.inputs))
    return (
        *(centring if centred else ()),
        Step("Mul", (centred, centred), (full("squares"),)),
        Step("ReduceMean", ("squares", axes), (reduced("variance"),)),
        Step("Add", ("variance", epsilon), (reduced("shifted"),)),
        Step("Sqrt", ("shifted",), (reduced("deviation"),)),
        Step("Div", (centred, "deviation"), (full("normal"),)),
        Step("Mul", ("normal", 1), (full("scaled") if added else 0,)),
        *(Step("Add", ("scaled", number), (0,)) for number in added),
    )


def _axis(shape: Shape, axis: int, label: str) -> Dims:
    """Numbered dimensions, but for the axis, which is labelled even where its size is 1."""
    return tuple((label,) if index == axis else labels for index, labels in enumerate(numbered(shape)))


@rule("Hardmax", "LogSoftmax", "LpNormalization", "Softmax")
def softmax(site: Site) -> Rule:
    """The axis is one stored dimension, the others follow any layout. Its factors may come in any order: with all else
    before them, or some behind them as one dimension.
    """
    shape = site.output().shape
    axis = site.attribute("axis", -1) % len(shape)
    dims = _axis(shape, axis, "k")
    form = Arranged(frame=1, alone=WHOLE, sensitive=WHOLE)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k")})

    def reordered(where: str, place: int, suffix: bool) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({"axis": place})

        return Way(Placed(((("k",),),) * 2, WHOLE, others, suffix), rewrite, where, loose=WHOLE)

    if shape[axis] == 1:  # every element is 1, or 0 of a logarithm: no kernel is faster at that in one layout
        return Rule((0,), (dims, dims), (Way(form, rewrite),), solid=WHOLE)
    others = tuple(label for at, labels in enumerate(dims) for label in labels if at != axis)
    ways = (Way(form, rewrite, Along("k")), reordered("innermost", -1, False), reordered("middle", -2, True))
    return Rule((0,), (dims, dims), ways, solid=WHOLE)


@rule("CumProd", "CumSum")
def cumulative(site: Site) -> Rule | None:
    """As softmax; the axis is an input."""
    axes = site.integers(1)
    if axes is None:
        return None
    shape = site.output().shape
    dims = _axis(shape, axes[0] % len(shape), "k")
    form = Arranged(frame=1, alone=WHOLE, sensitive=WHOLE)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same(inputs={1: np.array(position(row.arrangement, "k"), np.int64)})

    return Rule((0,), (dims, dims), (Way(form, rewrite, Along("k")),), solid=WHOLE)


@rule("ArgMax", "ArgMin")
def arg(site: Site) -> Rule:
    """The axis stays whole and in order, since the result counts along it."""
    shape = site.required(0).shape
    axis = site.attribute("axis", 0) % len(shape)
    dims = _axis(shape, axis, "k")
    kept = tuple(() if index == axis else labels for index, labels in enumerate(dims))
    if not site.attribute("keepdims", 1):
        kept = kept[:axis] + kept[axis + 1 :]

    def keeping(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k"), "keepdims": 1})

    def dropping(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k"), "keepdims": 0})

    ways = (
        Way(Arranged(frame=0, alone=WHOLE, sensitive=WHOLE), keeping, Along("k")),
        Way(Arranged(frame=0, alone=WHOLE, dropped=WHOLE, sensitive=WHOLE), dropping, Along("k")),
    )
    return Rule((0,), (dims, kept), ways, solid=WHOLE)


@rule("TopK")
def topk(site: Site) -> Rule | None:
    """The axis stays whole and in order; its size changes."""
    if site.constant(1) is None:
        return None
    shape = site.required(0).shape
    axis = site.attribute("axis", -1) % len(shape)
    before, after = _axis(shape, axis, "k:i"), _axis(shape, axis, "k:o")
    form = Arranged(frame=0, alone=WHOLE, sensitive=WHOLE)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k")})

    dims = (before, *(after for name in site.node.outputs if name))
    return Rule((0,), dims, (Way(form, rewrite, Along("k")),), solid=WHOLE)
