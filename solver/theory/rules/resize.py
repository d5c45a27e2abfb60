"""Resize that names the axes which it resamples."""

from __future__ import annotations

import numpy as np

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Idiom, Rewrite, Rule, Site, Step

REGION = 1
"""The input of a Resize that says which part of each dimension is resampled."""

SCALES = 2
"""The first input of a Resize that says how much."""

SPATIAL = [1, 2]
"""The axes of an image that lies channels-last."""

FEW = 16
"""With fewer channels OpenVINO is faster where a single axis is not named."""


@idiom("Resize", "axes", writes="Resize of one image, channels-last: names the axes that it resamples")
def axes(site: Site, rule: Rule) -> Idiom:
    """Scales or sizes of an image's rows and columns alone, where it lies channels-last and is the only one of its
    batch.
    """

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        shape, result = shapes[0], shapes[-1]
        steps = plain(row, shapes)
        if len(steps) != 1:
            return None
        numbers = [item if isinstance(item, np.ndarray) else None for item in steps[0].inputs]
        changed = [index for index, (one, other) in enumerate(zip(shape, result, strict=True)) if one != other]
        if len(shape) != 4 or shape[0] != 1 or all(each is None for each in numbers[SCALES:]):
            return None
        if numbers[REGION] is not None:  # a part of each dimension is resampled, also of those that keep their sizes
            return None
        few = not isinstance(shape[3], int) or shape[3] < FEW
        if changed != SPATIAL and (few or changed not in ([1], [2])):
            return None
        (step,) = steps
        inputs = tuple(item if each is None else each[SPATIAL] for item, each in zip(step.inputs, numbers, strict=True))
        return (Step(step.op, inputs, step.outputs, {**step.attributes, "axes": tuple(SPATIAL)}),)

    return write
