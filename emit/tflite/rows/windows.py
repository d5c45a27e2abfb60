"""Windows over images, channels-last: what convolutions and pooling share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite import kernels
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.ir.graph import Dim, symbol

SAME, VALID = range(2)
"""The ways of padding, by their numbers in the schema."""

IMAGE = 4
"""The dimensions of an image."""


@dataclass(frozen=True)
class Window:
    """A window's size, steps and dilations along each dimension in space, and the padding before and behind it."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    def along(self, *axes: int) -> Window:
        """The window along one of its dimensions, with one element along the other of an image, or along two."""
        single = len(axes) == 1
        parts = self._parts
        return Window(
            *(tuple(part[axis] for axis in axes) + (unit,) * single for part, unit in zip(parts, _UNITS, strict=True))
        )

    def of_line(self) -> Window:
        """The window on an image of height 1 that one on a line of pixels is."""
        return Window(*((unit, *part) for unit, part in zip(_UNITS, self._parts, strict=True)))

    @property
    def _parts(self) -> tuple[tuple[int, ...], ...]:
        return self.kernel, self.strides, self.dilations, self.before, self.behind

    @property
    def extents(self) -> list[int]:
        """How far a window reaches."""
        return [(size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True)]


_UNITS = (1, 1, 1, 0, 0)
"""The parts of a window along a dimension that it does not go along."""


def window_of(call: Call, kernel: Sequence[int], sizes: Sequence[Dim], results: Sequence[Dim]) -> Window:
    """The window of a node on images of some sizes, which makes images of other sizes of them."""
    count = len(kernel)
    strides, dilations = (tuple(call.attribute(name) or (1,) * count) for name in ("strides", "dilations"))
    padding, how = tuple(call.attribute("pads") or (0,) * 2 * count), call.attribute("auto_pad", "NOTSET")
    window = Window(tuple(kernel), strides, dilations, padding[:count], padding[count:])
    reached = [
        (result - 1) * stride + extent - size if isinstance(size, int) and isinstance(result, int) else None
        for result, stride, extent, size in zip(results, strides, window.extents, sizes, strict=True)
    ]  # beyond the image, by all windows; of a dynamic size it is not known
    if how in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            total if total is not None else _reaching(call, extent, stride)
            for total, extent, stride in zip(reached, window.extents, strides, strict=True)
        ]
        if min(totals) < -1:
            reason = "its stride passes over elements, by which ONNX Runtime's padding by auto_pad is negative"
            raise ExpressionError(reason, "export the model with pads in numbers")
        totals = [max(total, 0) for total in totals]
        small, large = tuple(each // 2 for each in totals), tuple(-(-each // 2) for each in totals)
        before, behind = (small, large) if how == "SAME_UPPER" else (large, small)
        return Window(window.kernel, strides, dilations, before, behind)
    if None in reached and call.attribute("ceil_mode", 0) and max(strides) > 1:
        raise ExpressionError(f"the size of the image '{call.value(0).name}' is dynamic", "fix it with --shape")
    behind = tuple(
        max(total - start, 0) if total is not None else stated
        for total, start, stated in zip(reached, window.before, window.behind, strict=True)
    )  # less than stated or, where sizes are rounded up, more
    return Window(window.kernel, strides, dilations, window.before, behind)


def _reaching(call: Call, extent: int, stride: int) -> int:
    """How far windows reach beyond an image that keeps its size, which is dynamic, where they are at each element."""
    if stride != 1:
        raise ExpressionError(f"the size of the image '{call.value(0).name}' is dynamic", "fix it with --shape")
    return extent - 1


def padding_of(window: Window, sizes: Sequence[Dim]) -> int | None:
    """The way of padding that a window has, None where it is neither, or not for all that a dynamic size may be."""
    if not any((*window.before, *window.behind)):
        return VALID
    for size, stride, extent, before, behind in zip(
        sizes, window.strides, window.extents, window.before, window.behind, strict=True
    ):
        if not isinstance(size, int) and stride != 1:
            return None
        total = max((-(-size // stride) - 1) * stride + extent - size, 0) if isinstance(size, int) else extent - 1
        if (before, behind) != (total // 2, total - total // 2):
            return None
    return SAME


def padded(call: Call, tensor: int, shape: Sequence[Dim], window: Window, value: float | None) -> tuple[int, list[Dim]]:
    """An image with the window's padding around it, of what a quantized 0 is or of a ``value``."""
    amounts = [(0, 0), *zip(window.before, window.behind, strict=True), (0, 0)]
    larger = [
        size if not sum(pair) else size + sum(pair) if isinstance(size, int) else symbol(f"{call.result}/{axis}")
        for axis, (size, pair) in enumerate(zip(shape, amounts, strict=True))
    ]
    pads = call.constant(amounts)
    if value is None:
        return call.move("PAD", tensor, [pads], larger), larger
    dtype = call.draft.tensors[tensor].dtype
    if dtype not in kernels.TYPES["PADV2"]:
        raise ExpressionError(f"PADV2 has no kernel for {dtype}", "cast it to float32")
    filled = np.iinfo(dtype).min if dtype != "float32" else value
    constant = call.constant(filled, dtype)
    if call.draft.tensors[tensor].quant is not None:
        constant = call.number("lowest", filled, dtype, call.value(0).quant)
    return call.move("PADV2", tensor, [pads, constant], larger), larger


_LINE = 3


def check_image(call: Call, rank: int) -> None:
    """Raise unless the first input of a node is an image in channels-last order."""
    if rank < _LINE:
        raise ExpressionError("it reads no image", "give it three dimensions or more")
    if call.order(0) != (0, rank - 1, *range(1, rank - 1)):
        reason = "it is computed on images channels-last alone, and neither all sizes nor what is around it allow that"
        raise ExpressionError(reason, "state its sizes with --shape")


def image_of_line(call: Call, tensor: int, shape: Sequence[Dim]) -> tuple[int, list[Dim]]:
    """A line of pixels as an image of height 1."""
    image = [shape[0], 1, *shape[1:]]
    return call.reshape(tensor, image), image
