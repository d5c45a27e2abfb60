"""Space-to-depth packing of narrow int8 convolutions: neighbouring pixels of a line as one of all their channels.

Kernels on bytes read four channels of a pixel at once and give 16 results; others gather channels one by one. Of a
channels-last image ``[N, H, W, C]`` four pixels are one of ``[N, H, W / 4, 4 C]``, which a kernel of as many pixels as
are touched, with zeros beside its weights, makes the results of all windows that begin in it. A line that is not whole
groups is padded, and what it has too many is cut off. ONNX has channels second: the Transposes are operators of the
file, which ONNX Runtime removes, as its kernels on bytes read and write channels last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Quant, Shape, Size, Value, static_elements
from layoutsolve.solver.theory.offer import form
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Between, Rule, Site, Step, Way, int64, static
from layoutsolve.solver.theory.rules.contraction import numbers

CHANNELS, RESULTS = 4, 16
"""How many channels of a pixel kernels read and write at once, and how many results they give at least."""

TOGETHER = (2, 4, 8, 16)
"""The pixels that are taken as one: the first that are enough, four at least where an image has fewer channels."""

IMAGE = 4
"""The dimensions of images."""

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""The orders that put channels before space, and behind it."""


@dataclass(frozen=True)
class _Window:
    """How a kernel moves along lines of which some pixels are taken ``together``: its size, its stride, and how far
    before a line it begins.
    """

    together: int
    size: int
    stride: int
    before: int

    @property
    def results(self) -> int:
        """How many windows begin in a group of pixels."""
        return self.together // self.stride

    def fills(self, channels: int, produced: int) -> bool:
        """Whether windows begin at the same places of all groups and not all end before their own, and kernels have
        enough channels and results.
        """
        enough = max(self.together, channels) >= CHANNELS and produced * self.results >= RESULTS
        counts = self.together * channels, produced * self.results
        alike = self.together % self.stride == 0 and self.groups.stop > 0
        return enough and alike and not any(count % CHANNELS for count in counts)

    def groups_of(self, width: int, made: int) -> int:
        """How many groups a line of so many pixels is, from which so many results come."""
        return -(-max(width, made * self.stride) // self.together)

    @property
    def groups(self) -> range:
        """The groups of pixels that these touch, from the one in which they begin."""
        last = self.stride * (self.results - 1) + self.size - 1
        return range(-self.before // self.together, (last - self.before) // self.together + 1)


@form(
    "Conv",
    "ort-cpu",
    writes="narrow int8 Conv, with `--objective min-latency`: space-to-depth packing",
    kinds=("grouped", "grouped uneven"),
)
def grouped(site: Site, rule: Rule) -> Iterator[Way]:
    """A convolution that reads channels last, with the Transposes that it is written with."""
    first, window = rule.ways[0].form, _window(site)
    data, weights, bias, result = site.required(0), site.required(1), site.input(2), site.output()
    if window is None or not isinstance(first, Placed) or not _fits(site):
        return
    width, made = static(data.shape[-1]), static(result.shape[-1])
    count = window.groups_of(width, made)
    inward, outward = _grouped(data.shape, window.together, count), _grouped(result.shape, window.results, count)
    whole, full = count * window.together, count * window.results
    operands = [_kernel(weights, window)] + ([] if bias is None else [repeated(bias, window.results)])
    attributes = _attributes(site, window)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        def of(like: Value, name: str, shape: Shape) -> Between:
            return Between(name, like.dtype, shape, like.quant)

        padded, lines = channels_last((*data.shape[:-1], whole)), channels_last((*result.shape[:-1], full))
        more, even = int64(0, 0, 0, 0, 0, 0, whole - width, 0), full == made
        pad = stored("Pad", 0, more, _zero(data), made=of(data, "padded", padded))
        cut = stored(
            "Slice", "lines", int64(0), int64(made), int64(2), made=of(result, "cut", channels_last(result.shape))
        )
        groups, image = of(data, "groups", channels_last(inward)), of(data, "image", inward)
        return (
            *([pad] if whole > width else []),
            stored("Reshape", "padded" if whole > width else 0, asked(groups.shape), made=groups),
            stored("Transpose", "groups", made=image, perm=FIRST),
            Step("Conv", ("image", *operands), (of(result, "windows", outward),), attributes),
            stored("Transpose", "windows", made=of(result, "results", channels_last(outward)), perm=LAST),
            stored("Reshape", "results", asked(lines), made=of(result, "lines", lines)),
            *([] if even else [cut]),
            stored("Transpose", "lines" if even else "cut", made=0, perm=FIRST),
        )

    outer, inner, *space = first.places[0]
    own = Price(transposes=3, reshapes=2, bytes=sum(map(static_elements, (inward, outward, result.shape))))
    placed = Placed(((outer, *space, inner), *first.places[1:]), first.free - {"n", "g", "c", "o"}, price=own)
    name = "grouped" if (whole, full) == (width, made) else "grouped uneven"
    yield Way(placed, rewrite, f"{name}, {numbers(site)}", {"width": width})


def _grouped(shape: Shape, count: int, groups: int) -> Shape:
    """The shape of an image of which so many neighbouring pixels are one."""
    batch, channels, height, _ = shape
    return (batch, static(channels) * count, height, groups)


def channels_last(shape: Shape) -> Shape:
    """The shape of an image whose channels are put last."""
    return tuple(shape[axis] for axis in LAST)


def _zero(image: Value) -> Value:
    """What is stored where an image of bytes is padded."""
    return Value(f"{image.name}/zero", image.dtype, (), image.steps, image.steps.zero_point.reshape(()))


def asked(shape: Shape) -> Array:
    """Shape as an operand of Reshape: 0 for a dynamic batch, which stays."""
    return int64(*(0 if isinstance(dim, Size) else dim for dim in shape))


def _window(site: Site) -> _Window | None:
    """How the kernel of a plain convolution of images moves. None where it has gaps, its padding is not known, or no
    number of pixels is enough.
    """
    kernel, (_, *given), (_, *made) = site.required(1).shape, site.required(0).shape, site.output().shape
    if len(kernel) != IMAGE or site.attribute("group", 1) != 1 or site.attribute("auto_pad", "NOTSET") != "NOTSET":
        return None
    _, stride = site.attribute("strides", (1, 1))
    _, gap = site.attribute("dilations", (1, 1))
    _, before, _, _ = site.attribute("pads", (0,) * IMAGE)
    if gap != 1 or any(isinstance(dim, Size) for dim in (*given, *made, kernel[-1])):
        return None
    windows = (_Window(together, static(kernel[-1]), stride, before) for together in TOGETHER)
    return next((each for each in windows if each.fills(static(given[0]), static(made[0]))), None)


def _fits(site: Site) -> bool:
    """Whether a convolution multiplies bytes by known weights with a sign, and reads or makes few channels."""
    if not on_bytes(site, 0):
        return False
    produced, channels, *space = map(static, site.required(1).shape)
    few = produced < RESULTS or channels < CHANNELS
    return few and max(*space, *site.attribute("strides", (1, 1))) > 1


def on_bytes(site: Site, axis: int) -> bool:
    """Whether an int8 convolution has int8 results, constant quantized weights and bias, and weights of int8 with zero
    point 0. Results are along an ``axis`` of the weights.
    """
    data, weights, bias, result = site.required(0), site.required(1), site.input(2), site.output()
    stored = data.in_bytes and result.in_bytes
    quant = weights.quant
    if weights.data is None or weights.dtype != "int8" or quant is None or quant.axis not in (None, axis):
        return False
    known = bias is None or (bias.data is not None and bias.quant is not None and bias.quant.axis in (None, 0))
    return stored and known and not quant.block and not quant.zero_point.any() and site.node.region is None


def _attributes(site: Site, window: _Window) -> dict[str, Any]:
    """The attributes of the convolution of groups."""
    above, _, below, _ = site.attribute("pads", (0,) * IMAGE)
    height, groups = site.required(1).shape[2], window.groups
    return {
        **site.node.attributes,
        "kernel_shape": (height, len(groups)),
        "strides": (site.attribute("strides", (1, 1))[0], 1),
        "pads": (above, -groups.start, below, groups.stop - 1),
    }


def _kernel(weights: Value, window: _Window) -> Value:
    """A kernel of groups of pixels: for each window that begins in one the weights, at the places of its pixels."""
    data = weights.constant
    produced, channels, height, width = data.shape
    groups = window.groups
    found = np.zeros((window.results, produced, window.together, channels, height, len(groups)), data.dtype)
    for result in range(window.results):
        for place in range(width):
            group, pixel = divmod(window.stride * result + place - window.before, window.together)
            found[result, :, pixel, :, :, group - groups.start] = data[..., place]
    shape = (window.results * produced, window.together * channels, height, len(groups))
    return repeated(weights, window.results, found.reshape(shape))


def stored(op: str, *inputs: int | str | Array | Value, made: Between | int, **attributes: Any) -> Step:
    """A step on integers as they are stored."""
    return Step(op, inputs, (made,), attributes, storage=True)


def repeated(constant: Value, count: int, data: Array | None = None) -> Value:
    """A constant whose results come first and are there for several windows, or ``data`` in its steps."""
    quant = constant.steps
    found = np.tile(constant.constant, count) if data is None else data
    if quant.axis is not None:
        quant = Quant(np.tile(quant.scale, count), np.tile(quant.zero_point, count), 0)
    return replace(constant, shape=found.shape, quant=quant, data=found)
