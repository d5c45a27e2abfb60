"""Transposed int8 convolutions as convolutions, which give the results of all phases of a stride as channels.

Runtimes have no kernel on bytes for them. With a stride of two, results at even places are windows of what is read, and
so are those at odd places, by other weights of the kernel. A convolution has both as channels, which are then moved to
space. As in :mod:`grouped`, ONNX Runtime removes the Transposes around its kernels: what is left moves whole pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Shape, Size, Value, static_elements
from layoutsolve.solver.theory.offer import form
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Between, Rule, Site, Step, Way, int64, static
from layoutsolve.solver.theory.rules.contraction import numbers
from layoutsolve.solver.theory.rules.pixel_groups import (  # fmt: skip
    FIRST,
    IMAGE,
    LAST,
    asked,
    channels_last,
    on_bytes,
    repeated,
    stored,
)

BESIDE = (0, 1, 3, 2, 4)
"""The order that puts the phases of lines beside the lines."""


@dataclass(frozen=True)
class _Phases:
    """How a transposed kernel moves along one dimension of space: its size, its ``stride``, what is left out before
    the first result, and how many numbers there are and are made.
    """

    size: int
    stride: int
    before: int
    given: int
    made: int

    @property
    def offsets(self) -> dict[tuple[int, int], int]:
        """For each phase and place of the kernel that meet, how far from its own place a result looks."""
        pairs = ((phase, place) for phase in range(self.stride) for place in range(self.size))
        distances = {(phase, place): phase + self.before - place for phase, place in pairs}
        return {pair: distance // self.stride for pair, distance in distances.items() if distance % self.stride == 0}

    @property
    def reach(self) -> range:
        """The offsets that a window covers."""
        return range(min(self.offsets.values()), max(self.offsets.values()) + 1)

    @property
    def groups(self) -> int:
        """How often all phases have a result."""
        return -(-self.made // self.stride)

    @property
    def pads(self) -> tuple[int, int]:
        """What the convolution is padded by, before and after."""
        return -self.reach.start, self.groups - self.given + self.reach.stop - 1


@form(
    "ConvTranspose",
    "ort-cpu",
    writes="int8 ConvTranspose, with `--objective min-latency`: sub-pixel decomposition into a Conv",
    kinds=("phases",),
)
def phases(site: Site, rule: Rule) -> Iterator[Way]:
    """A transposed convolution with the Transposes that move its phases to space."""
    first, moves = rule.ways[0].form, _moves(site)
    if moves is None or not isinstance(first, Placed):
        return
    weights, bias, result = site.required(1), site.input(2), site.output()
    high, wide = moves
    count, (batch, produced, *made) = high.stride * wide.stride, result.shape
    still = high.stride == 1 or wide.groups == 1
    windows: Shape = (batch, static(produced) * count, high.groups, wide.groups)
    split: Shape = (batch, high.groups, wide.groups, high.stride, static(produced) * wide.stride)
    whole: Shape = (batch, high.groups * high.stride, wide.groups * wide.stride, produced)
    even = [*whole[1:3]] == made

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        def of(name: str, shape: Shape) -> Between:
            return Between(name, result.dtype, shape, result.quant)

        operands = [_kernel(weights, high, wide)] + ([] if bias is None else [repeated(bias, count)])
        turned = tuple(split[axis] for axis in BESIDE)
        moved = (
            stored("Reshape", "results", asked(split), made=of("split", split)),
            stored("Transpose", "split", made=of("turned", turned), perm=BESIDE),
        )
        ends = int64(*map(static, made))
        cut = stored("Slice", "whole", int64(0, 0), ends, int64(1, 2), made=of("cut", channels_last(result.shape)))
        return (
            Step("Conv", (0, *operands), (of("windows", windows),), _attributes(high, wide)),
            stored("Transpose", "windows", made=of("results", channels_last(windows)), perm=LAST),
            *(() if still else moved),
            stored("Reshape", "results" if still else "turned", asked(whole), made=of("whole", whole)),
            *(() if even else (cut,)),
            stored("Transpose", "whole" if even else "cut", made=0, perm=FIRST),
        )

    elements = static_elements(windows) * (1 if still else 2) + static_elements(result.shape)
    own = Price(transposes=2 if still else 3, reshapes=1 if still else 2, bytes=elements)
    yield Way(replace(first, free=first.free - {"n", "g", "c", "o"}, price=own), rewrite, f"phases, {numbers(site)}")


def _moves(site: Site) -> tuple[_Phases, _Phases] | None:
    """How the kernel of a transposed convolution of images of bytes moves down and along lines. None where it has gaps
    or groups, its padding is not known or wider than itself, or its stride is longer, which would leave phases empty.
    """
    kernel, given, made = site.required(1).shape, site.required(0).shape, site.output().shape
    plain = site.attribute("group", 1) == 1 and site.attribute("auto_pad", "NOTSET") == "NOTSET"
    if len(kernel) != IMAGE or not plain or site.attribute("output_shape") or not on_bytes(site, 1):
        return None
    if max(site.attribute("dilations", (1, 1))) > 1 or any(isinstance(dim, Size) for dim in (*given[1:], *made[1:])):
        return None
    high, wide = (_phases(site, axis, kernel[axis + 2], given[axis + 2], made[axis + 2]) for axis in (0, 1))
    dense = all(each.size >= each.stride and min(each.pads) >= 0 for each in (high, wide))
    return (high, wide) if dense else None


def _phases(site: Site, axis: int, size: Dim, given: Dim, made: Dim) -> _Phases:
    stride, before = site.attribute("strides", (1, 1))[axis], site.attribute("pads", (0,) * IMAGE)[axis]
    return _Phases(static(size), stride, before, static(given), static(made))


def _attributes(high: _Phases, wide: _Phases) -> dict[str, tuple[int, ...]]:
    """Those of a convolution that gives all phases."""
    pads = tuple(each.pads[end] for end in (0, 1) for each in (high, wide))
    return {"kernel_shape": (len(high.reach), len(wide.reach)), "strides": (1, 1), "pads": pads}


def _kernel(weights: Value, high: _Phases, wide: _Phases) -> Value:
    """A kernel of all phases: for each of them the weights that meet in it, at the places that they look at."""
    data = weights.constant
    contracted, produced = data.shape[:2]
    reach = len(high.reach), len(wide.reach)
    found = np.zeros((high.stride, wide.stride, produced, contracted, *reach), data.dtype)
    for (row, above), up in high.offsets.items():
        for (column, beside), along in wide.offsets.items():
            place = up - high.reach.start, along - wide.reach.start
            found[row, column, :, :, place[0], place[1]] = data[:, :, above, beside].T
    return repeated(weights, high.stride * wide.stride, found.reshape(-1, contracted, *reach))
