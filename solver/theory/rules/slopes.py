"""PRelu and LeakyRelu written by other operators: ``Relu(x) + slope * Min(x, 0)``, of which one summand is always zero,
and of bytes ``(1 - slope) * Relu(x) + slope * x``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from layoutsolve.ir.graph import BYTES, Array, Quant, Shape, static_elements
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Idiom, Rewrite, Rule, Site, Step

IMAGE = 4
"""The stored dimensions of what runtimes keep in blocks of channels."""

FEWEST = 8192
"""The elements from which on two operators in place of one gain time."""

ROUNDED = 2.0**-22
"""What a few sums and products of float32 may be off, by their largest number."""

SMALLEST = 1e-30
"""The least scale of which shares are still numbers that float32 has in full."""


@idiom(
    "PRelu",
    "normalization",
    writes="PRelu of images channels-first, float: Relu, two BatchNormalizations, Relu and Add",
)
def normalization(site: Site, rule: Rule) -> Idiom | None:
    """``Min(x, 0)`` as ``Relu`` between two changes of sign, the second one with the slopes: BatchNormalization, where
    an image lies channels-first and has a slope for each channel. Runtimes that keep images in blocks of channels need
    not leave that format, others take it for the products that it is.
    """
    return _between_signs(site, rule, _normalised)


@idiom("PRelu", "depthwise", writes="the same, a 1x1 convolution as the first of them")
def depthwise(site: Site, rule: Rule) -> Idiom | None:
    """The same with a convolution of one pixel as the first of them."""
    return _between_signs(site, rule, by_channel)


@idiom("PRelu", "limits", writes="PRelu, float: `Relu(x) + slope * Min(x, 0)`")
def limits(site: Site, rule: Rule) -> Idiom | None:
    """The sum itself, in any layout."""
    if _slopes(site) is None:
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...]:
        below, scaled, above = (Between(name, "float32", shapes[-1]) for name in ("below", "scaled", "above"))
        return (
            Step("Min", (0, np.zeros((), np.float32)), (below,)),
            Step("Mul", (below.name, 1), (scaled,)),
            Step("Relu", (0,), (above,)),
            Step("Add", (above.name, scaled.name), (0,)),
        )

    return write


@idiom("LeakyRelu", "sum", writes="int8 LeakyRelu of images: an integer Clip, and an Add of it and the input")
def total(site: Site, rule: Rule) -> Idiom | None:
    """The sum of what is stored, once above zero and once as it is, in steps of their shares: runtimes add faster than
    they look up. Only where no result is so near half a step that the two might round it differently.
    """
    data, result, slope = site.required(0), site.output(), site.attribute("alpha", 0.01)
    before, after = data.quant, result.quant
    if before is None or after is None or before.axis is not None or after.axis is not None or not 0 < slope < 1:
        return None
    if data.dtype not in BYTES or data.dtype != result.dtype or site.node.storage or _near_half(before, after, slope):
        return None
    zero, highest = before.zero_point.reshape(()), np.array(np.iinfo(data.dtype).max, data.dtype)

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        if static_elements(shapes[-1]) < FEWEST:
            return None
        shares = [
            Between(name, data.dtype, shapes[-1], replace(before, scale=before.scale * np.float32(share)))
            for name, share in (("above", 1 - slope), ("all", slope))
        ]
        return (
            Step("Clip", (0, zero, highest), (shares[0],), storage=True),
            Step("Identity", (0,), (shares[1],), storage=True),
            Step("Add", ("above", "all"), (0,)),
        )

    return write


def _near_half(before: Quant, after: Quant, slope: float) -> bool:
    """Whether some byte's result lies as near to half a step as sums of float32 may be off, or steps are too far apart
    to tell.
    """
    limits = np.iinfo(before.zero_point.dtype)
    steps = np.arange(limits.min, limits.max + 1) - float(before.zero_point[0])
    ratio = float(before.scale[0]) / float(after.scale[0])
    if min(before.scale[0], after.scale[0]) < SMALLEST or ratio > len(steps):
        return True
    found = ratio * np.where(steps > 0, steps, slope * steps) + float(after.zero_point[0])
    kept = found[(found > limits.min - 1) & (found < limits.max + 1)]
    return bool((np.abs(kept - np.floor(kept) - 0.5) < ROUNDED * len(steps) * (1 + 2 * ratio)).any())


def _slopes(site: Site) -> Array | None:
    """The slopes of a PRelu of floats where they are known and finite, so that nothing times a slope is nothing."""
    slopes = site.constant(1)
    if slopes is None or not site.floating or site.output().dtype != "float32":
        return None
    return slopes if np.isfinite(slopes).all() else None


def _between_signs(site: Site, rule: Rule, turned: Callable[[int, Array, Between], Step]) -> Idiom | None:
    slopes, varying = _slopes(site), {label for labels in rule.dims[1] for label in labels}
    if slopes is None or len(varying) != 1:
        return None
    (label,) = varying

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        channels = row.arrangement[1] if len(row.arrangement) == IMAGE == len(shapes[-1]) else ()
        if not channels or channels != tuple((label, factor) for factor in range(len(channels))):
            return None
        if shapes[-1][1] != slopes.size:
            return None
        names = ("above", "negated", "below", "scaled")
        above, negated, below, scaled = (Between(name, "float32", shapes[-1]) for name in names)
        return (
            Step("Relu", (0,), (above,)),
            turned(0, np.full(slopes.size, -1, np.float32), negated),
            Step("Relu", (negated.name,), (below,)),
            _normalised(below.name, -slopes.reshape(-1), scaled),
            Step("Add", (above.name, scaled.name), (0,)),
        )

    return write


def _normalised(data: int | str, factors: Array, result: Between) -> Step:
    """A product with a factor for each channel, as a normalisation that does nothing else."""
    zeros, ones = np.zeros_like(factors), np.ones_like(factors)
    return Step("BatchNormalization", (data, factors, zeros, zeros, ones), (result,), {"epsilon": 0.0})


def by_channel(data: int | str, factors: Array, result: int | Between = 0) -> Step:
    """A product with a factor for each channel, as a convolution of one pixel."""
    kernel = factors.reshape(-1, 1, 1, 1)
    return Step("Conv", (data, kernel), (result,), {"kernel_shape": (1, 1), "group": len(kernel)})
