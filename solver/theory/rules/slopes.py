"""PRelu written by other operators: ``Relu(x) + slope * Min(x, 0)``, of which one summand is always zero."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Array, Shape
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Idiom, Rule, Site, Step

IMAGE = 4
"""The stored dimensions of what runtimes keep in blocks of channels."""


@idiom("PRelu", "limits")
def limits(site: Site, rule: Rule) -> Idiom | None:
    """The sum itself, in any layout."""
    if _slopes(site) is None:
        return None

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        below, scaled, above = (Between(name, "float32", shapes[-1]) for name in ("below", "scaled", "above"))
        return (
            Step("Min", (0, np.zeros((), np.float32)), (below,)),
            Step("Mul", (below.name, 1), (scaled,)),
            Step("Relu", (0,), (above,)),
            Step("Add", (above.name, scaled.name), (0,)),
        )

    return write


@idiom("PRelu", "depthwise")
def depthwise(site: Site, rule: Rule) -> Idiom | None:
    """``Min(x, 0)`` as ``Relu`` between two changes of sign, the second one with the slopes: convolutions of one pixel,
    where an image lies channels-first and has a slope for each channel. Runtimes that keep images in blocks of channels
    need not leave that format.
    """
    slopes, varying = _slopes(site), {label for labels in rule.dims[1] for label in labels}
    if slopes is None or len(varying) != 1:
        return None
    (label,) = varying

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...] | None:
        channels = row.arrangement[1] if len(row.arrangement) == IMAGE == len(shapes[-1]) else ()
        if not channels or channels != tuple((label, factor) for factor in range(len(channels))):
            return None
        if shapes[-1][1] != slopes.size:
            return None
        names = ("above", "negated", "below", "scaled")
        above, negated, below, scaled = (Between(name, "float32", shapes[-1]) for name in names)
        return (
            Step("Relu", (0,), (above,)),
            by_channel(0, np.full(slopes.size, -1, np.float32), negated),
            Step("Relu", (negated.name,), (below,)),
            by_channel(below.name, -slopes.reshape(-1), scaled),
            Step("Add", (above.name, scaled.name), (0,)),
        )

    return write


def _slopes(site: Site) -> Array | None:
    """The slopes of a PRelu of floats where they are known and finite, so that nothing times a slope is nothing."""
    slopes = site.constant(1)
    if slopes is None or not site.floating or site.output().dtype != "float32":
        return None
    return slopes if np.isfinite(slopes).all() else None


def by_channel(data: int | str, factors: Array, result: int | Between = 0) -> Step:
    """A product with a factor for each channel, as a convolution of one pixel."""
    kernel = factors.reshape(-1, 1, 1, 1)
    return Step("Conv", (data, kernel), (result,), {"kernel_shape": (1, 1), "group": len(kernel)})
