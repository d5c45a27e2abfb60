"""Normalisation of images by numbers that are known, or by their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.ir.graph import Array, Shape
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position, positions
from layoutsolve.solver.theory.rule import Between, Dims, Rule, Site, Step, Way, image, marked, numbered, rule
from layoutsolve.solver.theory.rules.space import turned

CHANNEL = "k"
"""The label of the dimension that has numbers of its own."""

SECOND = 1
"""Where operators want that dimension."""


@rule("BatchNormalization")
def batch_normalization(site: Site) -> Rule | None:
    """The operator where channels are the second stored dimension, else a product and a sum; the others follow any
    layout.
    """
    shape, numbers = site.required(0).shape, [site.required(number) for number in range(1, 5)]
    given = [each.real.astype(np.float64) for each in numbers if each.data is not None]
    if len(given) < len(numbers) or site.attribute("training_mode", 0) or len(site.node.outputs) > 1 or len(shape) < 2:
        return None
    if any(data.shape != shape[SECOND : SECOND + 1] for data in given):
        return None
    scale, bias, mean, variance = given
    factor = scale / np.sqrt(variance + site.attribute("epsilon", 1e-5))
    dims = tuple((CHANNEL,) if axis == SECOND else labels for axis, labels in enumerate(numbered(shape)))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        where, rank = position(row.arrangement, CHANNEL), len(row.arrangement)
        if where == SECOND:
            return site.same()

        def along(data: Array) -> Array:
            return data.astype(site.real).reshape([-1 if axis == where else 1 for axis in range(rank)])

        scaled = Between("scaled", site.real, shapes[0])
        return (
            Step("Mul", (0, along(factor)), (scaled,)),
            Step("Add", ("scaled", along(bias - mean * factor)), (0,)),
        )

    alone = frozenset({CHANNEL})
    return Rule((0,), (dims, dims), (Way(Arranged(frame=0, alone=alone), rewrite),), solid=alone)


@rule("InstanceNormalization")
def instance_normalization(site: Site) -> Rule | None:
    """Batch and channels first, and behind them the pixels of an image in any order, as many dimensions or one."""
    if site.constant(1) is None or site.constant(2) is None:
        return None
    rank = len(site.required(0).shape) - 2
    space = tuple((f"s{axis}",) for axis in range(rank))
    places = ((("n",), ("c",), *space), (("c",),), (("c",),), (("n",), ("c",), *space))
    free = frozenset({"n", "c", *(label for (label,) in space)})
    way = Way(Placed(places, free=free), site.unchanged, f"channels-first, {site.output().dtype}")
    pixels: Dims = (("n",), ("c",), tuple(label for (label,) in space))
    together = replace(way, form=Placed((pixels, *places[1:3], pixels), free=free, mixed=True))
    data, ways = image("NC", rank + 2), (way, *turned(way, rank, (0, 3)), *([together] if rank > 1 else []))
    return Rule((0, 1, 2), places, ways, letters=(data, "C", "C", data) if data else ())


@rule("MeanVarianceNormalization")
def mean_variance(site: Site) -> Rule:
    """Any layout: the axes follow it."""
    shape = site.output().shape
    axes = site.axes(site.attribute("axes", (0, 2, 3)), len(shape))
    dims = marked(shape, axes, "n")
    labels = frozenset(f"k{axis}" for axis in axes)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axes": tuple(sorted(positions(row.arrangement, labels)))})

    return Rule((0,), (dims, dims), (Way(Arranged(frame=0, alone=labels), rewrite),), solid=labels)
