"""Convolutions. Data have channels last in TFLite; weights are OHWI, 1HWO (depthwise) or DHWIO (three-dimensional)."""

from __future__ import annotations

from typing import Any

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span, automatic, same_pads
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.dilated_convolution import EXPLICIT_PADS
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import real_dtype
from layoutsolve.frontend.tflite.operators.padding import write_pad
from layoutsolve.frontend.tflite.operators.shared.common import (
    as_multiplied,
    bias_of,
    effective,
    first_slot,
    from_channels_first,
    hybrid_weights,
    ranked,
    static,
    to_channels_first,
    windows,
    write_activated,
)
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Shape, Size, Value, product

_VALID = 1
"""The schema's number of the padding VALID."""


@lowers("CONV_2D", signature="FQ FN FI? -> =", per_tensor=(0,))
def conv_2d(call: Call) -> None:
    """CONV_2D; filters that see fewer channels than there are make groups."""
    x = ranked(call, call.input(0), 4)
    weights = ranked(call, hybrid_weights(call, x, 1), 4)
    _, height, width, seen = static(call, weights.shape, "filter shape")
    channels = x.shape[3]
    if not isinstance(channels, int) or seen == 0 or channels == 0 or channels % seen:
        raise ModelError(f"{call.origin} has {channels} input channels, its filter sees {seen}")
    kernel = call.transposed(weights, (0, 3, 1, 2), "weights", pattern=True)
    _convolve(call, x, kernel, (height, width), *_steps_2d(call), group=channels // seen)


@lowers("DEPTHWISE_CONV_2D", signature="FQ FN FI? -> =", per_tensor=(0,))
def depthwise_conv_2d(call: Call) -> None:
    """DEPTHWISE_CONV_2D: one group per input channel, each with as many outputs as the multiplier."""
    x, weights = ranked(call, call.input(0), 4), ranked(call, call.input(1), 4)
    one, height, width, outputs = static(call, weights.shape, "filter shape")
    channels = x.shape[3]
    if not isinstance(channels, int) or one != 1 or channels == 0 or outputs % channels:
        raise ModelError(f"{call.origin} has {channels} input channels and the filter {list(weights.shape)}")
    kernel = call.transposed(weights, (3, 0, 1, 2), "weights", pattern=True)
    _convolve(call, x, kernel, (height, width), *_steps_2d(call), group=channels)


@lowers("CONV_3D", signature="F F F? -> =")
def conv_3d(call: Call) -> None:
    """CONV_3D."""
    x, weights = ranked(call, call.input(0), 5), ranked(call, call.input(1), 5)
    *window, seen, _ = static(call, weights.shape, "filter shape")
    if x.shape[4] != seen:
        raise ModelError(f"{call.origin} has {x.shape[4]} input channels, its filter sees {seen}")
    kernel = call.transposed(weights, (4, 3, 0, 1, 2), "weights", pattern=True)
    strides = tuple(call.option(f"stride_{axis}") for axis in "dhw")
    dilations = tuple(call.option(f"dilation_{axis}_factor", 1) for axis in "dhw")
    _convolve(call, x, kernel, tuple(window), strides, dilations, group=1)


def _steps_2d(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    strides = (call.option("stride_h"), call.option("stride_w"))
    return strides, (call.option("dilation_h_factor", 1), call.option("dilation_w_factor", 1))


def _convolve(
    call: Call,
    x: Value,
    kernel: Value,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int,
) -> None:
    _check_types(call, x, kernel)
    kernel = as_multiplied(call, x, kernel, call.optional(2))
    outputs = kernel.shape[0]
    padding = _computed_padding(call, x.shape[1:-1], window, strides, dilations)
    if padding:
        call = call.restated({**call.operator.options, "padding": _VALID})
        x = write_pad(call, x, [(0, 0), *padding, (0, 0)], call.like("padded", x))
    spatial, attributes = windows(call, x.shape[1:-1], window, strides, dilations)
    if group != 1:
        attributes["group"] = group
    bias = bias_of(call, call.optional(2), x, kernel, outputs)
    shape = (x.shape[0], outputs, *spatial)
    result = write_activated(
        call, "Conv", [to_channels_first(call, x), kernel, bias], shape, first_slot(call), **attributes
    )
    from_channels_first(call, result)


def _computed_padding(
    call: Call, spatial: Shape, window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> list[tuple[Dim, Dim]]:
    """The padding SAME where it depends on a dynamic size in a way for which Conv has no word; else nothing."""
    axes = list(zip(spatial, window, strides, effective(window, dilations), strict=True))
    if call.option("padding") != 0 or call.option(EXPLICIT_PADS, None) is not None or min(*strides, *window) < 1:
        return []
    plain = all(automatic(*axis[:3]) and axis[3] == 1 for axis in axes)
    known = [same_pads(*axis) for axis in axes]
    if plain or None not in known:
        return []
    sizes, found = call.arithmetic, list[tuple[Dim, Dim]]()
    for (size, kernel, stride, dilation), pads in zip(axes, known, strict=True):
        if pads is not None:
            found.append(pads)
            continue
        covered = product((sizes.quotient(sizes.total((size, stride - 1)), stride), stride))
        around = sizes.total((covered, (kernel - 1) * dilation + 1 - stride))
        amount = sizes.largest((sizes.difference(around, size), 0), "padding")
        before = sizes.quotient(amount, 2)
        found.append((before, sizes.difference(amount, before)))
    return found


def _check_types(call: Call, x: Value, kernel: Value) -> None:
    if real_dtype(x) != "float32" or real_dtype(kernel) != "float32":
        raise GapError(f"it convolves {x.dtype} with {kernel.dtype}", "use float32, or quantized types with parameters")


@lowers("TRANSPOSE_CONV", signature="I FN FQ FI? -> =2", per_tensor=(2,))
def transpose_conv(call: Call) -> None:
    """TRANSPOSE_CONV: the gradient of a convolution, whose output shape is an input of its own."""
    weights = ranked(call, call.input(1), 4)
    outputs, height, width, _ = static(call, weights.shape, "filter shape")
    strides = (call.option("stride_h"), call.option("stride_w"))
    kernel = call.transposed(weights, (3, 0, 1, 2), "weights", pattern=True)
    _convolve_backwards(call, kernel, outputs, (height, width), strides, (1, 1))


@lowers("CONV_3D_TRANSPOSE", signature="I F F F? -> =2")
def conv_3d_transpose(call: Call) -> None:
    """CONV_3D_TRANSPOSE."""
    weights = ranked(call, call.input(1), 5)
    *window, outputs, _ = static(call, weights.shape, "filter shape")
    strides = tuple(call.option(f"stride_{axis}") for axis in "dhw")
    dilations = tuple(call.option(f"dilation_{axis}_factor", 1) for axis in "dhw")
    kernel = call.transposed(weights, (4, 3, 0, 1, 2), "weights", pattern=True)
    _convolve_backwards(call, kernel, outputs, tuple(window), strides, dilations)


def _convolve_backwards(
    call: Call,
    kernel: Value,
    outputs: int,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> None:
    """Write a transposed convolution of the third input; ``kernel`` has input channels, output channels, space."""
    rank = len(kernel.shape)
    x = ranked(call, call.input(2), rank)
    stated = call.tensor().shape
    known = call.content(call.input(0)) is not None or len(stated) != rank or call.draft.dynamic
    sizes = call.dims(0, "output shape") if known else stated
    if len(sizes) != rank or sizes[-1] != outputs or x.shape[-1] != kernel.shape[0]:
        raise ModelError(f"{call.origin} states the output shape {list(map(str, sizes))} for {outputs} channels")
    if min(*strides, *dilations, *window) < 1:
        raise ModelError(f"{call.origin} has a stride, dilation or kernel size below 1")
    _check_types(call, x, kernel)
    kernel = as_multiplied(call, x, kernel, call.optional(3))
    attributes: dict[str, Any] = {"kernel_shape": window, "strides": strides}
    dilations = effective(window, dilations)
    if any(dilation != 1 for dilation in dilations):
        attributes["dilations"] = dilations
    axes = zip(x.shape[1:-1], sizes[1:-1], window, strides, dilations, strict=True)
    kept = [_kept(call, *axis) for axis in axes]
    attributes["pads"] = (*(axis.before for axis in kept), *(axis.after for axis in kept))
    if any(axis.extra for axis in kept):
        attributes["output_padding"] = tuple(axis.extra for axis in kept)
    bias = bias_of(call, call.optional(3), x, kernel, outputs)
    shape = (x.shape[0], outputs, *(axis.size for axis in kept))
    inputs = [to_channels_first(call, x), kernel, bias]
    spans = {number: axis.span for number, axis in enumerate(kept, 2) if axis.span is not None}
    result = first_slot(call, "whole" if spans else "nchw")
    whole = write_activated(call, "ConvTranspose", inputs, shape, result, **attributes)
    if spans:
        whole = take(call, whole, spans, first_slot(call), dict(enumerate(sizes[1:-1], 2)))
    from_channels_first(call, whole)


@dataclass(frozen=True)
class _Kept:
    """What is left of an axis of a transposed convolution: elements cut off before and after, and extra ones at the end
    give ``size`` elements; where they are not known in numbers, ``span`` is cut out of all.
    """

    before: int
    after: int
    extra: int
    size: Dim
    span: Span | None = None


def _kept(call: Call, size: Dim, out: Dim, kernel: int, stride: int, dilation: int) -> _Kept:
    """What is to be kept so that ``out`` elements are left."""
    sizes, extent = call.arithmetic, (kernel - 1) * dilation + 1
    before: Dim = 0
    if call.option("padding") == 0:
        covered = product((sizes.quotient(sizes.total((out, stride - 1)), stride), stride))
        around = sizes.total((covered, extent - stride))
        before = sizes.quotient(sizes.largest((sizes.difference(around, out), 0), "padding"), 2)
    whole = sizes.total((product((size, stride)), extent - stride))
    after = sizes.difference(whole, sizes.total((before, out)))
    if isinstance(before, Size) or isinstance(after, Size):
        return _Kept(0, 0, stride - 1, sizes.total((whole, stride - 1)), Span(before, sizes.total((before, out))))
    if after < 0 and -after >= stride:
        raise GapError("its output is larger than stride times input plus kernel", "reduce the output shape")
    return _Kept(before, max(after, 0), max(-after, 0), out)
