"""Convolutions, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import is_coarse_layer, multiplies
from layoutsolve.emit.tflite.rows.windows import (
    IMAGE,
    SAME,
    VALID,
    Window,
    check_image,
    image_of_line,
    padded,
    padding_of,
    window_of,
)
from layoutsolve.frontend.tflite.lowering.rounding import lifted
from layoutsolve.ir.graph import Array, Quant, Value

_MOST_DENSE = 1 << 22
"""The most elements of weights that are written with zeros between groups."""


def _is_product(call: Call) -> bool:
    """Whether a kernel computes a product of quantized numbers by constant weights in its own steps."""
    data, weights, made = call.value(0), call.value(1), call.output
    if made.quant is None or weights.data is None or data.dtype != made.dtype or len(data.shape) > IMAGE:
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
    check_image(call, rank)
    shape, space, order = list(value.shape), list(value.shape[1:-1]), call.order(1)
    logical = [call.sizes(weights)[place] for place in order]
    window = window_of(call, logical[2:], space, made.shape[1:-1])
    if rank > IMAGE:
        _volume(call, window, logical[0])
        return
    depthwise = order == (rank - 1, 0, *range(1, rank - 1))
    if not depthwise and order != (0, rank - 1, *range(1, rank - 1)):
        raise ExpressionError("its weights are in no order that LiteRT has", "report it: the plan is wrong")
    tensor, kernel, final = call.tensor(0), call.tensor(1), list(made.shape)
    if rank == 3:
        tensor, shape = image_of_line(call, tensor, shape)
        kernel = _along_height(call, weights, kernel)
        space, final = [1, *space], [made.shape[0], 1, *made.shape[1:]]
        window = window.of_line()
    padding = padding_of(window, space)
    if padding is None:
        tensor, shape = padded(call, tensor, shape, window, None)
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


def _volume(call: Call, window: Window, channels: int) -> None:
    """Write a convolution of three dimensions in space; one in groups has zeros between them."""
    value, groups = call.value(0), call.attribute("group", 1)
    if call.order(1) != _VOLUME:
        raise ExpressionError("its weights are in no order that LiteRT has", "make them constants")
    tensor, padding, kernel = call.tensor(0), padding_of(window, value.shape[1:-1]), call.tensor(1)
    if padding is None:
        tensor, _ = padded(call, tensor, value.shape, window, None)
        padding = VALID
    if groups > 1:
        weights = call.known(1, "weights")
        (*sides, read, made), rows = weights.shape, channels // groups
        if weights.size * groups > _MOST_DENSE:
            raise ExpressionError("it is a convolution of volumes in many groups", "split it into one for each group")
        dense = np.zeros((*sides, read * groups, made), weights.dtype)
        for group in range(groups):
            columns = slice(group * rows, (group + 1) * rows)
            dense[..., group * read : (group + 1) * read, columns] = weights[..., columns]
        kernel = call.draft.constant(dense, call.result)
    call.write("CONV_3D", [tensor, kernel, added_to(call, channels)], **_options(call, window, padding))


_VOLUME = (4, 3, 0, 1, 2)
"""The dimensions of weights as CONV_3D has them: depth, height, width, channels that are read, and that are made."""


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
    """ConvTranspose: TRANSPOSE_CONV or CONV_3D_TRANSPOSE, and a SLICE of what it computes beyond the result."""
    value, made = call.value(0), call.output
    rank = len(value.shape)
    check_image(call, rank)
    space, sizes = list(call.sizes(value, slice(1, -1))), call.sizes(made, slice(1, -1))
    strides = tuple(call.attribute("strides") or (1,) * len(space))
    full = [(size - 1) * stride + extent for size, stride, extent in zip(space, strides, _extents(call), strict=True)]
    before, tensor, final = _before(call, full, sizes), call.tensor(0), list(made.shape)
    if rank == 3:
        tensor, _ = image_of_line(call, tensor, value.shape)
        strides, space, full, before, sizes = (1, *strides), [1, *space], [1, *full], [0, *before], (1, *sizes)
        final = [final[0], 1, *final[1:]]
    weights, bias = _kernel(call), added_to(call, call.sizes(made, slice(-1, None))[0])
    same = all(map(_is_same, sizes, strides, space, before, full))
    larger = [max(whole, size + start) for whole, size, start in zip(full, sizes, before, strict=True)]
    computed = final if same else [final[0], *larger, final[-1]]
    options = {f"stride_{side}": each for side, each in zip("dhw"[-len(strides) :], strides, strict=True)}
    last = call.target() if computed == list(made.shape) else call.temporary(computed, made.dtype, made.quant)
    inputs, operator = [call.extents(computed), weights, tensor, bias], "TRANSPOSE_CONV"
    if rank > IMAGE:
        operator, options = "CONV_3D_TRANSPOSE", {**options, **{f"dilation_{side}_factor": 1 for side in "dhw"}}
    call.write(operator, inputs, [last], padding=SAME if same else VALID, **options)
    if computed != final:
        arguments = [call.constant([0, *before, 0]), call.counts(final)]
        cut = call.target() if rank != 3 else call.temporary(final, made.dtype, made.quant)
        call.write("SLICE", [last, *arguments], [cut])
        last = cut
    if rank == 3:
        call.reshape(last, made.shape, call.target())


def _extents(call: Call) -> list[int]:
    """How far each window of a transposed convolution reaches."""
    sizes, order = call.sizes(call.value(1)), call.order(1)
    return [(sizes[place] - 1) * dilation + 1 for place, dilation in zip(order[2:], _dilations(call), strict=True)]


def _kernel(call: Call) -> int:
    """The weights of a transposed convolution as its kernel has them: those of the result's channels first, or last but
    one in a volume.
    """
    order, rank = call.order(1), len(call.value(1).shape)
    if call.data(1) is None:
        if order != _STORED[rank] or call.attribute("group", 1) > 1 or any(each > 1 for each in _dilations(call)):
            raise ExpressionError("its weights are computed, and it has groups or dilations", "make them constants")
        (first, *rest), given = call.value(1).shape, call.tensor(1)
        return given if rank != 3 else call.reshape(given, [first, 1, *rest])
    kernel = _dense(call, call.known(1, "weights").transpose(order)).transpose(np.argsort(_STORED[rank]))
    return _stored_kernel(call, np.ascontiguousarray(kernel if rank != 3 else kernel[:, None]))


_STORED = {3: (2, 0, 1), 4: (3, 0, 1, 2), 5: _VOLUME}
"""By rank, the dimensions of weights as kernels have them."""


def _dilations(call: Call) -> tuple[int, ...]:
    return tuple(call.attribute("dilations") or (1,) * (len(call.value(1).shape) - 2))


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
    groups, dilations, quant = call.attribute("group", 1), _dilations(call), call.value(1).quant
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
    if any(each != 1 for each in dilations):
        sizes = [(size - 1) * each + 1 for size, each in zip(weights.shape[2:], dilations, strict=True)]
        spread = np.full((*weights.shape[:2], *sizes), zero, weights.dtype)
        spread[(slice(None), slice(None), *(slice(None, None, each) for each in dilations))] = weights
        weights = spread
    return weights
