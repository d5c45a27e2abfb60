"""Resize that names the axes which it resamples."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Shape
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Idiom, Rule, Site, Step

SCALES = 2
"""The first input of a Resize that says how much."""


@idiom("Resize", "axes")
def axes(site: Site, rule: Rule) -> Idiom:
    """Scales or sizes of those dimensions alone that change. ONNX Runtime's optimiser fails where it moves a Transpose
    through such a Resize.
    """

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...] | None:
        steps = rule.ways[row.form].rewrite(row, shapes)
        numbers = [item if isinstance(item, np.ndarray) else None for item in steps[0].inputs]
        changed = [index for index, (one, other) in enumerate(zip(*shapes, strict=True)) if one != other]
        if len(steps) != 1 or not changed or all(each is None for each in numbers[SCALES:]):
            return None
        (step,) = steps
        inputs = tuple(item if each is None else each[changed] for item, each in zip(step.inputs, numbers, strict=True))
        return (Step(step.op, inputs, step.outputs, {**step.attributes, "axes": tuple(changed)}),)

    return write
