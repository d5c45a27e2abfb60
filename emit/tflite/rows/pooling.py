"""Pooling: the largest elements of windows, and their means."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import moves, same_integers
from layoutsolve.emit.tflite.rows.windows import (
    IMAGE,
    VALID,
    Window,
    check_image,
    padded,
    padding_of,
    window_of,
)
from layoutsolve.ir.graph import Array, Dim, product


def _pools(call: Call) -> bool:
    """Whether integers are pooled in the same steps."""
    return same_integers(call) and moves(call)


@row("MaxPool", quantized=_pools)
def max_pool(call: Call) -> None:
    """MaxPool: padding is the lowest value."""
    if len(call.node.outputs) > 1 and call.node.outputs[1]:
        raise ExpressionError("it gives the places of what it takes", "compute them with ArgMax")
    _pool(call, "MAX_POOL_2D")


def _averages(call: Call) -> bool:
    """Whether bytes are pooled in the same steps, at once, and no mean is corrected, which is done in floats."""
    if not _pools(call):
        return False
    first, *others = _passes(call)
    if others or not first.needs_pad(means=True):
        return not others
    return first.is_known and first.corrections is None


@row("AveragePool", quantized=_averages)
def average_pool(call: Call) -> None:
    """AveragePool: where padding is none that its kernel has, the mean of a window is corrected by its elements."""
    _pool(call, "AVERAGE_POOL_2D")


@dataclass(frozen=True)
class Pooled:
    """A window over images of the shape ``read``, which makes such of the shape ``made`` of them; padding behind is
    ``stated`` to be so much, and is ``counted`` among what a mean is of.
    """

    window: Window
    read: tuple[Dim, ...]
    made: tuple[Dim, ...]
    stated: tuple[int, ...]
    counted: bool

    @property
    def is_known(self) -> bool:
        """Whether the sizes of images are."""
        return all(isinstance(size, int) for size in (*self.read[1:-1], *self.made[1:-1]))

    def needs_pad(self, means: bool) -> bool:
        """Whether the kernel does not pad as this does."""
        counts = self.counted and any((*self.window.before, *self.window.behind))
        return padding_of(self.window, self.read[1:-1]) is None or (means and counts)

    @property
    def corrections(self) -> Array | None:
        """By what the means of whole windows are multiplied to be those of the elements that count: of the image, or of
        the padding as well. None where it is 1 everywhere.
        """
        if self.counted and not self.is_known:  # whose windows reach no further than what is stated
            return None
        sides = []
        for axis, size in enumerate(self.read[1:-1]):
            start, count = self.window.before[axis], self.made[1 + axis]
            if not isinstance(size, int) or not isinstance(count, int):
                raise ExpressionError("the size of the image that it pools is dynamic", "fix it with --shape")
            low, high = (0, start + size + self.stated[axis]) if self.counted else (start, start + size)
            firsts = np.arange(count) * self.window.strides[axis]
            sides.append(np.minimum(firsts + self.window.kernel[axis], high) - np.maximum(firsts, low))
        counts = sides[0][:, None] * sides[1][None, :]
        factors = prod(self.window.kernel) / counts.astype(np.float64)
        return None if (factors == 1.0).all() else factors[None, :, :, None].astype(np.float32)


def _passes(call: Call) -> list[Pooled]:
    """What a node pools, as images, one after the other: a line of pixels is one of height 1. A volume is pooled along
    height and width, and then along its depth.
    """
    read, made = call.value(0).shape, call.output.shape
    check_image(call, len(read))
    kernel = tuple(call.attribute("kernel_shape"))
    stated = tuple(call.attribute("pads") or (0,) * 2 * len(kernel))[len(kernel) :]
    window = window_of(call, kernel, read[1:-1], made[1:-1])
    if any(each != 1 for each in window.dilations):
        raise ExpressionError("its windows are dilated", "use windows without dilations")
    counted = bool(call.attribute("count_include_pad", 0)) and any((*window.before, *window.behind))
    if len(read) == IMAGE:
        return [Pooled(window, read, made, stated, counted)]
    if len(read) < IMAGE:
        images = (read[0], 1, *read[1:]), (made[0], 1, *made[1:])
        return [Pooled(window.of_line(), *images, (0, *stated), counted)]
    count, depth = product(read[:2]), (read[0], read[1], product(made[2:4]), made[4])
    return [
        Pooled(window.along(1, 2), (count, *read[2:]), (count, *made[2:]), stated[1:], counted),
        Pooled(window.along(0), depth, (*made[:2], *depth[2:]), (stated[0], 0), counted),
    ]


def _pool(call: Call, operator: str) -> None:
    tensor, made, passes = call.tensor(0), call.output, _passes(call)
    for number, pooled in enumerate(passes, 1):
        final = number == len(passes)
        own = final and pooled.made == made.shape
        into = call.target() if own else call.temporary(pooled.made, made.dtype, made.quant)
        _on_images(call, operator, pooled, call.reshape(tensor, pooled.read), into, call.activation if final else 0)
        tensor = into
    if tensor != call.target():
        call.reshape(tensor, made.shape, call.target())


def _on_images(call: Call, operator: str, pooled: Pooled, tensor: int, into: int, activation: int) -> None:
    """Write the pooling of images, and what corrects it."""
    window, factors = pooled.window, None
    padding, means = padding_of(window, pooled.read[1:-1]), operator == "AVERAGE_POOL_2D"
    if pooled.needs_pad(means):
        factors = pooled.corrections if means else None
        tensor, _ = padded(call, tensor, pooled.read, window, None if means else -np.inf)
        padding = VALID
    options = {
        "padding": padding,
        "stride_h": window.strides[0],
        "stride_w": window.strides[1],
        "filter_height": window.kernel[0],
        "filter_width": window.kernel[1],
    }
    if factors is None:
        call.write(operator, [tensor], [into], **options, fused_activation_function=activation)
        return
    whole = call.draft.like(into, pooled.made)
    call.write(operator, [tensor], [whole], **options)
    call.write("MUL", [whole, call.constant(factors, "float32")], [into], fused_activation_function=activation)
