"""Normalisation of images by numbers that are known, or by their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.graph import Array, Shape
from layoutsolve.solver.theory.row import Row, position, positions
from layoutsolve.solver.theory.rule import (
    Arranged,
    Between,
    Dims,
    Placed,
    Rule,
    Site,
    Step,
    Way,
    image,
    int64,
    marked,
    numbered,
    rule,
)
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


IMAGES = ([0, 2, 3], [0, 1, 2, 3])
"""The axes of an image that ONNX Runtime has a kernel of MeanVarianceNormalization for."""

LEAST = 1e-9
"""What is added to a standard deviation there."""


@rule("MeanVarianceNormalization")
def mean_variance(site: Site) -> Rule:
    """Any layout: written out where the operator has no kernel for the axes."""
    shape, dtype = site.output().shape, site.output().dtype
    axes = site.axes(site.attribute("axes", (0, 2, 3)), len(shape))
    dims = marked(shape, axes, "n")
    labels = frozenset(f"k{axis}" for axis in axes)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        where = sorted(positions(row.arrangement, labels))
        if len(shapes[0]) == len(shape) and (where in IMAGES or where == sorted(axes)):
            return site.same({"axes": tuple(where)})
        kept = tuple(1 if axis in where else dim for axis, dim in enumerate(shapes[0]))
        found, least = int64(*where), np.array(LEAST, dtype)
        full, reduced = (
            {name: Between(name, dtype, each) for name in names}
            for each, names in (
                (shapes[0], ("squares", "centred")),
                (kept, ("mean", "mean square", "squared mean", "variance", "deviation", "shifted")),
            )
        )
        return (
            Step("ReduceMean", (0, found), (reduced["mean"],)),
            Step("Mul", (0, 0), (full["squares"],)),
            Step("ReduceMean", ("squares", found), (reduced["mean square"],)),
            Step("Mul", ("mean", "mean"), (reduced["squared mean"],)),
            Step("Sub", ("mean square", "squared mean"), (reduced["variance"],)),
            Step("Sqrt", ("variance",), (reduced["deviation"],)),
            Step("Add", ("deviation", least), (reduced["shifted"],)),
            Step("Sub", (0, "mean"), (full["centred"],)),
            Step("Div", ("centred", "shifted"), (0,)),
        )

    return Rule((0,), (dims, dims), (Way(Arranged(frame=0, alone=labels), rewrite),), solid=labels)
