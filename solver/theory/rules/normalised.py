"""Normalisation of images by numbers that are known, or by their own."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Array, Shape
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import Arranged, Between, Placed, Rule, Site, Step, Way, image, numbered, rule

CHANNEL = "k"
"""The label of the dimension that has numbers of its own."""

SECOND = 1
"""Where operators want that dimension."""


@rule("BatchNormalization")
def batch_normalization(site: Site) -> Rule | None:
    """The operator where channels are the second stored dimension, else a product and a sum; the others follow any
    layout.
    """
    shape, numbers = site.required(0).shape, [site.constant(number) for number in range(1, 5)]
    given = [data.astype(np.float64) for data in numbers if data is not None]
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
    """Batch and channels first, and behind them the pixels of an image in any order."""
    if site.constant(1) is None or site.constant(2) is None:
        return None
    rank = len(site.required(0).shape) - 2
    space = tuple((f"s{axis}",) for axis in range(rank))
    places = ((("n",), ("c",), *space), (("c",),), (("c",),), (("n",), ("c",), *space))
    free = frozenset({"n", "c", *(label for (label,) in space)})
    way = Way(Placed(places, free=free), site.unchanged, f"channels-first, {site.output().dtype}")
    data = image("NC", rank + 2)
    return Rule((0, 1, 2), places, (way,), letters=(data, "C", "C", data) if data else ())
