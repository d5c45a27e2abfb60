"""Operators that work along axes: reductions, softmax, arg max, cumulative sums, the k largest."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Shape
from layoutsolve.solver.problem import Row
from layoutsolve.solver.rule import Arranged, Dims, Rule, Site, Step, int64, numbered, position, positions, rule


@rule(
    "ReduceL1",
    "ReduceL2",
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
    axes = range(len(shape)) if not given else [axis % len(shape) for axis in given]
    dims = numbered(shape)
    reduced = frozenset(label for axis in axes for label in dims[axis])
    kept = tuple(() if axis in axes else labels for axis, labels in enumerate(dims))
    if not site.attribute("keepdims", 1):
        kept = tuple(labels for axis, labels in enumerate(kept) if axis not in axes)
    forms = (Arranged(frame=0), Arranged(frame=0, dropped=reduced))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        where = positions(row.arrangement, reduced)
        return site.same({"keepdims": int(row.form == 0), "noop_with_empty_axes": 1}, {1: int64(*where)})

    return Rule((0,), (dims, kept), forms, rewrite)


def _along(shape: Shape, axis: int, label: str) -> Dims:
    """Numbered dimensions, but for the axis, which is labelled even where its size is 1."""
    return tuple((label,) if index == axis else labels for index, labels in enumerate(numbered(shape)))


@rule("Softmax", "LogSoftmax")
def softmax(site: Site) -> Rule:
    """The axis stays whole, the others follow any layout."""
    shape = site.output().shape
    dims = _along(shape, site.attribute("axis", -1) % len(shape), "k")
    form = Arranged(frame=1, alone=frozenset("k"))
    return Rule(
        (0,),
        (dims, dims),
        (form,),
        lambda row, shapes: site.same({"axis": position(row.arrangement, "k")}),
        solid=frozenset("k"),
    )


@rule("CumSum")
def cumsum(site: Site) -> Rule | None:
    """As softmax; the axis is an input."""
    axes = site.integers(1)
    if axes is None:
        return None
    shape = site.output().shape
    dims = _along(shape, axes[0] % len(shape), "k")
    form = Arranged(frame=1, alone=frozenset("k"))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same(inputs={1: np.array(position(row.arrangement, "k"), np.int64)})

    return Rule((0,), (dims, dims), (form,), rewrite, solid=frozenset("k"))


@rule("ArgMax", "ArgMin")
def arg(site: Site) -> Rule:
    """The axis stays whole and in order, since the result counts along it."""
    shape = site.required(0).shape
    axis = site.attribute("axis", 0) % len(shape)
    dims = _along(shape, axis, "k")
    kept = tuple(() if index == axis else labels for index, labels in enumerate(dims))
    if not site.attribute("keepdims", 1):
        kept = kept[:axis] + kept[axis + 1 :]
    whole = frozenset("k")
    forms = (Arranged(frame=0, alone=whole), Arranged(frame=0, alone=whole, dropped=whole))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k"), "keepdims": int(row.form == 0)})

    return Rule((0,), (dims, kept), forms, rewrite, solid=whole)


@rule("TopK")
def topk(site: Site) -> Rule | None:
    """The axis stays whole and in order; its size changes."""
    if site.constant(1) is None:
        return None
    shape = site.required(0).shape
    axis = site.attribute("axis", -1) % len(shape)
    whole = frozenset("k")
    before, after = _along(shape, axis, "k:i"), _along(shape, axis, "k:o")
    form = Arranged(frame=0, alone=whole)
    return Rule(
        (0,),
        (before, *(after for name in site.node.outputs if name)),
        (form,),
        lambda row, shapes: site.same({"axis": position(row.arrangement, "k")}),
        solid=whole,
    )
