"""Convolutions and pooling: windows over images, channels-last."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite import kernels
from layoutsolve.emit.tflite.draft import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import is_coarse_layer, moves, multiplies, same_integers
from layoutsolve.frontend.tflite.lowering.rounding import lifted
from layoutsolve.ir.graph import Array, Dim, Quant, Value

SAME, VALID = range(2)
"""The ways of padding, by their numbers in the schema."""

_IMAGE = 4
"""The dimensions of an image."""

_MOST_DENSE = 1 << 22
"""The most elements of weights that are written with zeros between groups."""


@dataclass(frozen=True)
class Window:
    """A window's size, steps and dilations along each dimension in space, and the padding before and behind it."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def extents(self) -> list[int]:
        """How far a window reaches."""
        return [(size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True)]


def _window(call: Call, kernel: Sequence[int], sizes: Sequence[int], results: Sequence[int]) -> Window:
    """The window of a node on images of some sizes, which makes images of other sizes of them."""
    count = len(kernel)
    strides, dilations = (tuple(call.attribute(name) or (1,) * count) for name in ("strides", "dilations"))
    padding, how = tuple(call.attribute("pads") or (0,) * 2 * count), call.attribute("auto_pad", "NOTSET")
    window = Window(tuple(kernel), strides, dilations, padding[:count], padding[count:])
    if how in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            (result - 1) * stride + extent - size
            for result, stride, extent, size in zip(results, strides, window.extents, sizes, strict=True)
        ]
        if min(totals) < -1:
            reason = "its stride passes over elements, by which ONNX Runtime's padding by auto_pad is negative"
            raise ExpressionError(reason, "export the model with pads in numbers")
        totals = [max(total, 0) for total in totals]
        small, large = tuple(each // 2 for each in totals), tuple(-(-each // 2) for each in totals)
        before, behind = (small, large) if how == "SAME_UPPER" else (large, small)
        return Window(window.kernel, strides, dilations, before, behind)
    rest = [
        (result - 1) * stride + extent - size - start
        for result, stride, extent, size, start in zip(
            results, strides, window.extents, sizes, window.before, strict=True
        )
    ]  # what the windows really reach, less than stated or, where sizes are rounded up, more
    behind = tuple(max(need, 0) for need in rest)
    return Window(window.kernel, strides, dilations, window.before, behind)


def _padding(window: Window, sizes: Sequence[int]) -> int | None:
    """The way of padding that a window has, None where it is neither."""
    if not any((*window.before, *window.behind)):
        return VALID
    for size, stride, extent, before, behind in zip(
        sizes, window.strides, window.extents, window.before, window.behind, strict=True
    ):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        if (before, behind) != (total // 2, total - total // 2):
            return None
    return SAME


def _padded(
    call: Call, tensor: int, shape: Sequence[Dim], window: Window, value: float | None
) -> tuple[int, list[Dim]]:
    """An image with the window's padding around it, of what a quantized 0 is or of a ``value``."""
    amounts = [(0, 0), *zip(window.before, window.behind, strict=True), (0, 0)]
    larger = [size if not sum(pair) else size + sum(pair) for size, pair in zip(shape, amounts, strict=True)]  # type: ignore[operator]
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


def _image(call: Call, rank: int) -> None:
    """Raise unless the first input of a node is an image in channels-last order."""
    if call.order(0) != (0, rank - 1, *range(1, rank - 1)):
        raise ExpressionError(
            "no operator has it on images in this order of dimensions", "report it: the plan is wrong"
        )


def _spread(call: Call, value: Value) -> tuple[list[Dim], list[int]]:
    """An image's shape, and its sizes in space, which must be known."""
    space = [size for size in value.shape[1:-1] if isinstance(size, int)]
    if len(space) != len(value.shape) - 2:
        raise ExpressionError(f"the size of the image '{value.name}' is dynamic", "fix it with --shape")
    return list(value.shape), space


def _along_a_line(call: Call, tensor: int, shape: Sequence[Dim]) -> tuple[int, list[Dim]]:
    """A line of pixels as an image of height 1."""
    image = [shape[0], 1, *shape[1:]]
    return call.reshape(tensor, image), image


def _is_product(call: Call) -> bool:
    """Whether a kernel computes a product of quantized numbers by constant weights in its own steps."""
    data, weights, made = call.value(0), call.value(1), call.output
    if made.quant is None or weights.data is None or data.dtype != made.dtype or len(data.shape) > _IMAGE:
        return False
    if is_coarse_layer(call):
        return False
    return multiplies(data, weights) and not (call.has(2) and call.data(2) is None)


def added_to(call: Call, channels: int) -> int:
    """What a convolution adds to each channel."""
    if call.has(2) and call.data(2) is None:
        return call.tensor(2)
    return bias_of(call, call.data(2), channels)


def bias_of(call: Call, added: Array | None, channels: int) -> int:
    """What a product adds to each channel: floats, or integers in steps of the product of both scales. Kernels on int8
    round as if one was added, which is taken off: what comes from TensorFlow Lite has it in ONNX.
    """
    data, weights, made = call.value(0).quant, call.value(1).quant, call.output.quant
    if data is None or weights is None:
        return call.constant(np.zeros(channels) if added is None else added.reshape(-1), "float32")
    scale = data.scale * weights.scale
    wide = call.value(0).dtype == "int16"
    stored = np.zeros(channels, np.int64)
    if added is not None:
        given = call.value(2)
        if given.quant is not None and np.allclose(given.quant.scale, scale, rtol=1e-6):
            stored = added.reshape(-1).astype(np.int64)
        else:
            real = added.reshape(-1) if given.quant is None else given.quant.real(added).reshape(-1)
            stored = np.rint(real.astype(np.float64) / scale).astype(np.int64)
        if made is not None and not wide:
            stored = stored - lifted(scale / made.scale)
    limits = np.iinfo(np.int64 if wide else np.int32)
    stored = np.clip(stored, limits.min, limits.max)
    quant = Quant(scale.astype(np.float32), np.zeros(scale.size, np.int32), None if scale.size == 1 else 0)
    dtype = "int64" if wide else "int32"
    name = call.draft.names.derived(call.result, "bias")
    return call.draft.add(name, dtype, (channels,), quant, stored.astype(dtype))


@row("Conv", quantized=_is_product)
def convolution(call: Call) -> None:
    """Conv: CONV_2D, DEPTHWISE_CONV_2D or CONV_3D, on a line of pixels as on an image of height 1."""
    value, weights, made = call.value(0), call.value(1), call.output
    rank = len(value.shape)
    _image(call, rank)
    shape, space = _spread(call, value)
    results = [int(size) for size in made.shape[1:-1]]  # type: ignore[arg-type]
    order, _data = call.order(1), call.data(1)
    logical = [call.sizes(weights)[place] for place in order]
    window = _window(call, logical[2:], space, results)
    if rank == 5:
        _volume(call, window, call.known(1, "weights").transpose(order), shape, space)
        return
    depthwise = order == (rank - 1, 0, *range(1, rank - 1))
    if not depthwise and order != (0, rank - 1, *range(1, rank - 1)):
        raise ExpressionError("its weights are in no order that LiteRT has", "report it: the plan is wrong")
    tensor, kernel, final = call.tensor(0), call.tensor(1), list(made.shape)
    if rank == 3:
        tensor, shape = _along_a_line(call, tensor, shape)
        kernel = _along_height(call, weights, kernel)
        space, final = [1, *space], [made.shape[0], 1, *made.shape[1:]]
        window = _along_line(window)
    padding = _padding(window, space)
    if padding is None:
        tensor, shape = _padded(call, tensor, shape, window, None)
        padding = VALID
    channels = logical[0]
    bias = added_to(call, channels)
    options = _options(call, window, padding)
    if depthwise:
        options["depth_multiplier"] = channels // int(value.shape[-1])  # type: ignore[arg-type]
    operator = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    if rank == 3:
        between = call.temporary(final, made.dtype, made.quant)
        call.write(operator, [tensor, kernel, bias], [between], **options)
        call.reshape(between, made.shape, call.target())
    else:
        call.write(operator, [tensor, kernel, bias], **options)


def _options(call: Call, window: Window, padding: int) -> dict[str, Any]:
    """How a convolution goes over an image, or over a volume."""
    sides = "dhw"[-len(window.strides) :]
    return {
        "padding": padding,
        **{f"stride_{side}": each for side, each in zip(sides, window.strides, strict=True)},
        **{f"dilation_{side}_factor": each for side, each in zip(sides, window.dilations, strict=True)},
        "fused_activation_function": call.activation,
    }


def _along_line(window: Window) -> Window:
    """The window on an image of height 1 that one on a line of pixels is."""
    parts = window.kernel, window.strides, window.dilations, window.before, window.behind
    return Window(*((first, *each) for first, each in zip((1, 1, 1, 0, 0), parts, strict=True)))


def _along_height(call: Call, weights: Value, kernel: int) -> int:
    """Weights of a line of pixels as those of an image of height 1."""
    shape = [weights.shape[0], 1, *weights.shape[1:]]
    if weights.data is None:
        return call.reshape(kernel, shape)
    quant = weights.quant
    if quant is not None and quant.axis:
        quant = Quant(quant.scale, quant.zero_point, quant.axis + 1)
    return call.draft.add(
        call.draft.names.derived(weights.name, "image"), weights.dtype, tuple(shape), quant, weights.data[:, None]
    )


def _volume(call: Call, window: Window, logical: Array, shape: list[Dim], space: list[int]) -> None:
    """Write a convolution of three dimensions in space."""
    if call.attribute("group", 1) != 1:
        raise ExpressionError("it is a convolution of volumes in groups", "split it into one for each group")
    tensor, padding = call.tensor(0), _padding(window, space)
    if padding is None:
        tensor, shape = _padded(call, tensor, shape, window, None)
        padding = VALID
    kernel = call.draft.constant(np.ascontiguousarray(logical.transpose(2, 3, 4, 1, 0)), call.result)
    call.write("CONV_3D", [tensor, kernel, added_to(call, logical.shape[0])], **_options(call, window, padding))


def _is_transposed(call: Call) -> bool:
    """Whether a kernel computes a transposed convolution in steps: by weights of one scale, or with one for each
    channel of the result where these are in no groups.
    """
    weights, order = call.value(1).quant, call.order(1)
    if weights is None or not _is_product(call) or call.activation:
        return False
    return weights.axis is None or (order[1] == weights.axis and call.attribute("group", 1) == 1)


@row("ConvTranspose", quantized=_is_transposed)
def transposed_convolution(call: Call) -> None:
    """ConvTranspose: TRANSPOSE_CONV, and a SLICE of what it computes beyond the result."""
    value, made = call.value(0), call.output
    rank = len(value.shape)
    _image(call, rank)
    if rank > 4:
        raise ExpressionError(
            "it is a transposed convolution of volumes", "write it as a convolution of two dimensions"
        )
    shape, space = _spread(call, value)
    (batch, *others), sizes = made.shape, call.sizes(made, slice(1, -1))
    kernel = _dense(call, call.known(1, "weights").transpose(call.order(1)))
    count = rank - 2
    strides = tuple(call.attribute("strides") or (1,) * count)
    full = [(size - 1) * stride + extent for size, stride, extent in zip(space, strides, kernel.shape[2:], strict=True)]
    before, tensor, final = _before(call, full, sizes), call.tensor(0), list(made.shape)
    if rank == 3:
        tensor, shape = _along_a_line(call, tensor, shape)
        kernel, strides, space = kernel[:, :, None], (1, *strides), [1, *space]
        full, before, sizes, final = [1, *full], [0, *before], (1, *sizes), [batch, 1, *others]
    weights = _stored_kernel(call, np.ascontiguousarray(kernel.transpose(1, 2, 3, 0)))
    bias = added_to(call, kernel.shape[1])
    same = all(map(_is_same, sizes, strides, space, before, full))
    larger = [max(whole, size + start) for whole, size, start in zip(full, sizes, before, strict=True)]
    computed = final if same else [batch, *larger, final[3]]
    options = {"padding": SAME if same else VALID, "stride_h": strides[0], "stride_w": strides[1]}
    last = call.target() if computed == list(made.shape) else call.temporary(computed, made.dtype, made.quant)
    call.write("TRANSPOSE_CONV", [call.extents(computed), weights, tensor, bias], [last], **options)
    if computed != final:
        arguments = [call.constant([0, *before, 0]), call.counts(final)]
        cut = call.target() if rank == 4 else call.temporary(final, made.dtype, made.quant)
        call.write("SLICE", [last, *arguments], [cut])
        last = cut
    if rank != 4:
        call.reshape(last, made.shape, call.target())


def _is_same(size: int, stride: int, read: int, start: int, whole: int) -> bool:
    """Whether padding SAME cuts off what is computed beyond the result, along a dimension: as much on either side."""
    return -(-size // stride) == read and start == max(whole - size, 0) // 2


def _stored_kernel(call: Call, kernel: Array) -> int:
    """Weights of a transposed convolution, a row for each result, with the scales that they have."""
    value = call.value(1)
    quant = value.quant
    if quant is None:
        return call.draft.constant(kernel, call.result)
    rows = Quant(quant.scale, quant.zero_point, None if quant.axis is None else 0)
    return call.draft.add(call.draft.names.derived(value.name, "rows"), value.dtype, kernel.shape, rows, kernel)


def _before(call: Call, full: Sequence[int], result: Sequence[int]) -> list[int]:
    """How much of what a transposed convolution computes is cut off in front: of an odd number the greater half, unless
    it is SAME_UPPER.
    """
    how, count = call.attribute("auto_pad", "NOTSET"), len(full)
    if how == "NOTSET" and call.attribute("output_shape") is None:
        return [int(each) for each in (call.attribute("pads") or (0,) * count)[:count]]
    extra = call.attribute("output_padding") or (0,) * count
    totals = [max(whole + more - size, 0) for whole, more, size in zip(full, extra, result, strict=True)]
    return [total // 2 if how == "SAME_UPPER" else total - total // 2 for total in totals]


def _dense(call: Call, weights: Array) -> Array:
    """Weights of a transposed convolution, inputs first, without groups and dilations: zeros stand between them."""
    groups, dilations, quant = call.attribute("group", 1), call.attribute("dilations"), call.value(1).quant
    zero = 0 if quant is None else int(quant.zero_point[0])
    if groups > 1:
        read, written = weights.shape[0] // groups, weights.shape[1]
        if weights.size * groups > _MOST_DENSE:
            raise ExpressionError("it is a transposed convolution of many groups", "split it into one for each group")
        dense = np.full((weights.shape[0], written * groups, *weights.shape[2:]), zero, weights.dtype)
        for group in range(groups):
            rows = slice(group * read, (group + 1) * read)
            dense[rows, group * written : (group + 1) * written] = weights[rows]
        weights = dense
    if dilations is not None and any(each != 1 for each in dilations):
        sizes = [(size - 1) * each + 1 for size, each in zip(weights.shape[2:], dilations, strict=True)]
        spread = np.full((*weights.shape[:2], *sizes), zero, weights.dtype)
        spread[(slice(None), slice(None), *(slice(None, None, each) for each in dilations))] = weights
        weights = spread
    return weights


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
    """Whether bytes are pooled in the same steps, and no mean is corrected, which is done in floats."""
    if not _pools(call):
        return False
    pooled = _pooled(call)
    return not pooled.needs_pad(means=True) or pooled.corrections is None


@row("AveragePool", quantized=_averages)
def average_pool(call: Call) -> None:
    """AveragePool: where padding is none that its kernel has, the mean of a window is corrected by its elements."""
    _pool(call, "AVERAGE_POOL_2D")


@dataclass(frozen=True)
class Pooled:
    """A window over images of a ``size``, and the ``shape`` of what it makes; padding behind is ``stated`` to be so
    much, and is ``counted`` among what a mean is of.
    """

    window: Window
    size: tuple[int, ...]
    shape: tuple[Dim, ...]
    stated: tuple[int, ...]
    counted: bool

    def needs_pad(self, means: bool) -> bool:
        """Whether the kernel does not pad as this does."""
        return _padding(self.window, self.size) is None or (means and self.counted)

    @property
    def corrections(self) -> Array | None:
        """By what means of whole windows are multiplied, None where it is 1 everywhere."""
        return _corrections(self.window, self.size, self.shape[1:-1], self.counted, self.stated)


def _pooled(call: Call) -> Pooled:
    """What a node pools; a line of pixels is an image of height 1."""
    value, made = call.value(0), call.output
    rank = len(value.shape)
    _image(call, rank)
    if rank not in (3, 4):
        raise ExpressionError("it pools volumes", "pool along two dimensions, then along the third")
    _shape, size = _spread(call, value)
    results = [int(each) for each in made.shape[1:-1]]  # type: ignore[arg-type]
    kernel = tuple(call.attribute("kernel_shape"))
    stated = tuple(call.attribute("pads") or (0,) * 2 * len(kernel))[len(kernel) :]
    window, shape = _window(call, kernel, size, results), made.shape
    if any(each != 1 for each in window.dilations):
        raise ExpressionError("its windows are dilated", "use windows without dilations")
    if rank == 3:
        size, shape, stated = [1, *size], (shape[0], 1, *shape[1:]), (0, *stated)
        window = _along_line(window)
    counted = bool(call.attribute("count_include_pad", 0)) and any((*window.before, *window.behind))
    return Pooled(window, tuple(size), shape, stated, counted)


def _pool(call: Call, operator: str) -> None:
    pooled = _pooled(call)
    window, made = pooled.window, call.output
    rank, final = len(made.shape), list(pooled.shape)
    tensor, shape = call.tensor(0), list(call.value(0).shape)
    if rank == 3:
        tensor, shape = _along_a_line(call, tensor, shape)
    padding, factors = _padding(window, pooled.size), None
    means = operator == "AVERAGE_POOL_2D"
    if pooled.needs_pad(means):
        factors = pooled.corrections if means else None
        tensor, shape = _padded(call, tensor, shape, window, None if means else -np.inf)
        padding = VALID
    options = {
        "padding": padding,
        "stride_h": window.strides[0],
        "stride_w": window.strides[1],
        "filter_height": window.kernel[0],
        "filter_width": window.kernel[1],
        "fused_activation_function": call.activation if factors is None else 0,
    }
    if rank == 4 and factors is None:
        call.write(operator, [tensor], **options)
        return
    between = call.temporary(final, made.dtype, made.quant)
    call.write(operator, [tensor], [between], **options)
    if factors is not None:
        constant = call.constant(factors, "float32")
        if rank == 4:
            call.write("MUL", [between, constant], fused_activation_function=call.activation)
            return
        between = call.step("MUL", [between, constant], final, fused_activation_function=call.activation)
    call.reshape(between, made.shape, call.target())


def _corrections(
    window: Window, sizes: Sequence[int], results: Sequence[Dim], counted: bool, stated: Sequence[int]
) -> Array | None:
    """By what the means of whole windows are multiplied to be those of the elements that count: of the image, or of
    the padding as well, which is stated to be so much behind it. None where it is 1 everywhere.
    """
    sides = []
    for axis, size in enumerate(sizes):
        start = window.before[axis]
        low, high = (0, start + size + stated[axis]) if counted else (start, start + size)
        firsts = np.arange(int(results[axis])) * window.strides[axis]  # type: ignore[arg-type]
        sides.append(np.minimum(firsts + window.kernel[axis], high) - np.maximum(firsts, low))
    counts = sides[0][:, None] * sides[1][None, :]
    factors = prod(window.kernel) / counts.astype(np.float64)
    return None if (factors == 1.0).all() else factors[None, :, :, None].astype(np.float32)
