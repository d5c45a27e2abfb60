"""Convolutions in two and three dimensions, forward, depthwise and transposed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from tests.builder import Quant
from tests.conformance.cases import COMPUTED, Operand, Table, cases, declare, result, stored

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
GEOMETRIES = (
    # height, width, kernel, stride, dilation
    (7, 6, (3, 3), (1, 1), (1, 1)),
    (7, 6, (1, 1), (1, 1), (1, 1)),
    (7, 6, (1, 1), (2, 2), (1, 1)),
    (8, 7, (3, 3), (2, 2), (1, 1)),
    (8, 7, (2, 5), (2, 1), (1, 1)),
    (9, 8, (3, 2), (3, 2), (1, 1)),
    (9, 9, (3, 3), (1, 1), (2, 3)),
    (9, 8, (2, 3), (2, 2), (2, 1)),
    (5, 5, (4, 4), (1, 1), (1, 1)),
    (4, 1, (3, 1), (2, 1), (1, 1)),
)


def options(stride: tuple[int, int], padding: str, activation: str = "NONE", **more: Any) -> Mapping[str, Any]:
    """The options that convolutions and pooling share."""
    common = {"stride_h": stride[0], "stride_w": stride[1], "padding": padding}
    return {**common, "fused_activation_function": activation, **more}


def dilated(dilation: tuple[int, int]) -> dict[str, Any]:
    """The options of a dilation."""
    return {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}


def weights(table: Table, dtype: str, shape: tuple[int, ...], axis: int | None) -> Operand:
    """Constant weights in [-1, 1]; quantized per channel of ``axis`` unless that is None."""
    if dtype == "float32":
        return table.real(*shape).fixed
    if dtype == "uint8":
        return table.quantized(dtype, *shape).fixed
    data = table.random.integers(-127, 128, shape).astype(np.int8)
    count = 1 if axis is None else shape[axis]
    scales = table.random.uniform(0.4, 1.0, count) / 127
    return Operand(data, "int8", Quant([float(np.float32(scale)) for scale in scales], [0] * count, axis or 0), True)


def bias(table: Table, source: Operand, kernel: Operand, count: int) -> Operand:
    """A constant bias in [-1, 1], in the scale of the products."""
    if source.quant is None or kernel.quant is None:
        return table.real(count).fixed
    scales = np.float32(source.quant.scale[0]) * np.array(kernel.quant.scale, np.float32)
    data = np.rint(table.random.uniform(-1, 1, count) / scales)
    dtype = "int64" if source.dtype == "int16" else "int32"
    quant = Quant(scales.tolist(), [0] * len(scales), 0)
    return Operand(data.astype(dtype), dtype, quant, True)


QUANTIZED = (("int8", True), ("int8", False), ("uint8", False), ("int16", True))
"""Types of activations, and whether weights are quantized per channel."""


@cases("CONV_2D", "DEPTHWISE_CONV_2D")
def geometry(table: Table) -> None:
    for (height, width, kernel, stride, dilation), padding in product(GEOMETRIES, ("SAME", "VALID")):
        for channels, multiplier in ((3, 4),) if table.operator == "CONV_2D" else ((3, 1), (2, 3)):
            sizes = [f"{kind}{each[0]}{each[1]}" for kind, each in zip("ksd", (kernel, stride, dilation), strict=True)]
            label = "-".join([f"{height}x{width}", *sizes, padding])
            for dtype, per_channel in (("float32", False), *QUANTIZED[:1]):
                _conv(table, f"{dtype}-{label}-m{multiplier}", dtype, per_channel, (2, height, width, channels),
                      kernel, stride, dilation, padding, multiplier)  # fmt: skip


@cases("CONV_2D", "DEPTHWISE_CONV_2D")
def kinds(table: Table) -> None:
    for (dtype, per_channel), activation in product((("float32", False), *QUANTIZED), ACTIVATIONS):
        if dtype == "int16" and activation == "RELU_N1_TO_1":
            continue
        label = f"{dtype}-{'channel' if per_channel else 'tensor'}-{activation}"
        _conv(table, label, dtype, per_channel, (1, 6, 5, 4), (3, 3), (1, 1), (1, 1), "SAME", 2, activation)
    for dtype, per_channel in (("float32", False), *QUANTIZED):
        label = f"{dtype}-{'channel' if per_channel else 'tensor'}"
        _conv(table, f"{label}-square", dtype, per_channel, (1, 4, 4, 4), (3, 3), (1, 1), (1, 1), "SAME", 1)


def _conv(
    table: Table, label: str, dtype: str, per_channel: bool, shape: tuple[int, ...], kernel: tuple[int, int],
    stride: tuple[int, int], dilation: tuple[int, int], padding: str, multiplier: int, activation: str = "NONE",
) -> None:  # fmt: skip
    depthwise = table.operator == "DEPTHWISE_CONV_2D"
    count = shape[3] * multiplier if depthwise else multiplier
    source = table.numbers(dtype, *shape)
    form = (1, *kernel, count) if depthwise else (count, *kernel, shape[3])
    axis = (3 if depthwise else 0) if per_channel else None
    kernels = weights(table, dtype, form, axis)
    more = {**dilated(dilation), **({"depth_multiplier": multiplier} if depthwise else {})}
    inputs = [source, kernels, bias(table, source, kernels, count)]
    span = 3.0 if depthwise else 5.0
    low = 0.0 if activation in ("RELU", "RELU6") and multiplier == 2 else -span
    table.add(label, inputs, result(dtype, low, span), options(stride, padding, activation, **more))


@cases("CONV_2D", "DEPTHWISE_CONV_2D")
def exact(table: Table) -> None:
    """A multiplier of 15 bits shows in every channel at the end of the 16-bit range."""
    source = table.quantized("int16", 1, 5, 5, 6)
    form = (8, 1, 1, 6) if table.operator == "CONV_2D" else (1, 1, 1, 6)
    kernels = weights(table, "int8", form, 0 if table.operator == "CONV_2D" else 3)
    added = bias(table, source, kernels, 8 if form[0] == 8 else 6)
    more = {} if table.operator == "CONV_2D" else {"depth_multiplier": 1}
    chosen = options((1, 1), "VALID", "NONE", **more)
    table.add("int16-exact", [source, kernels, added], result("int16", -2, 2), chosen, steps=0)


@cases("CONV_2D")
def grouped(table: Table) -> None:
    for dtype, groups in product(("float32", "int8"), (2, 4)):
        source = table.numbers(dtype, 1, 5, 6, 8)
        kernels = weights(table, dtype, (12, 3, 3, 8 // groups), 0)
        inputs = [source, kernels, bias(table, source, kernels, 12)]
        table.add(f"{dtype}-groups{groups}", inputs, result(dtype, -4, 4), options((1, 1), "SAME", **dilated((1, 1))))


@cases("CONV_2D")
def unusual(table: Table) -> None:
    common = options((1, 1), "SAME", "RELU", **dilated((1, 1)))
    kernels, offsets = table.real(4, 3, 3, 2), table.real(4)
    table.add("computed-weights", [table.real(1, 5, 5, 2), kernels, offsets.fixed], options=common)
    table.add("dynamic-batch", [table.real(3, 5, 5, 2).dynamic(0), kernels.fixed, offsets.fixed], options=common)
    table.add("dynamic-size", [table.real(1, 6, 5, 2).dynamic(1, 2), kernels.fixed, offsets.fixed], options=common)
    strided = options((2, 2), "VALID", **dilated((1, 1)))
    table.add(
        "dynamic-size-valid", [table.real(1, 6, 5, 2).dynamic(1, 2), kernels.fixed, offsets.fixed], options=strided
    )
    hybrid = weights(table, "int8", (4, 3, 3, 2), 0)
    table.add("hybrid", [table.real(1, 5, 5, 2), hybrid, offsets.fixed], options=common, tolerance=0.02)


TRANSPOSED = (
    # output height and width, kernel, stride
    (8, 8, (2, 2), (2, 2)),
    (8, 7, (3, 3), (2, 2)),
    (9, 8, (4, 3), (2, 1)),
    (7, 6, (3, 3), (1, 1)),
    (9, 9, (2, 2), (3, 3)),
    (10, 9, (5, 5), (2, 2)),
)


@cases("TRANSPOSE_CONV")
def transposed(table: Table) -> None:
    for (height, width, kernel, stride), padding in product(TRANSPOSED, ("SAME", "VALID")):
        size = [_forward(*each, padding) for each in zip((height, width), kernel, stride, strict=True)]
        if min(size) < 1:
            continue
        label = f"{height}x{width}-k{kernel[0]}{kernel[1]}-s{stride[0]}{stride[1]}-{padding}"
        for (dtype, per_channel), biased in product((("float32", False), *QUANTIZED), (True, False)):
            kind = f"{dtype}-{'channel' if per_channel else 'tensor'}-{'bias' if biased else 'unbiased'}"
            if dtype not in ("float32", "int8") and stride != (2, 2):
                continue
            source = table.numbers(dtype, 1, *size, 3)
            kernels = weights(table, dtype, (4, *kernel, 3), 0 if per_channel else None)
            inputs = [stored(1, height, width, 4), kernels, source]
            inputs += [bias(table, source, kernels, 4)] if biased else []
            table.add(f"{kind}-{label}", inputs, result(dtype, -4, 4), options(stride, padding))


def _forward(size: int, kernel: int, stride: int, padding: str) -> int:
    return -(-size // stride) if padding == "SAME" else -(-(size - kernel + 1) // stride)


@cases("TRANSPOSE_CONV")
def transposed_fused(table: Table) -> None:
    for activation in ACTIVATIONS[1:3]:
        kernels = table.real(4, 3, 3, 3).fixed
        table.add(
            f"float32-{activation}", [stored(1, 8, 8, 4), kernels, table.real(1, 4, 4, 3), table.real(4).fixed],
            options=options((2, 2), "SAME", activation),
        )  # fmt: skip


def _volume(
    stride: tuple[int, int, int], padding: str, dilation: int = 1, activation: str = "NONE"
) -> Mapping[str, Any]:
    more = {"stride_d": stride[0], "dilation_d_factor": dilation}
    return options(stride[1:], padding, activation, **more, **dilated((dilation, dilation)))


@cases("CONV_3D")
def volumes(table: Table) -> None:
    for padding, stride, dilation in product(("SAME", "VALID"), ((1, 1, 1), (2, 1, 2), (1, 2, 2)), (1, 2)):
        inputs = [table.real(2, 6, 7, 6, 2), table.real(2, 3, 2, 2, 4).fixed, table.real(4).fixed]
        label = f"float32-{padding}-s{''.join(map(str, stride))}-d{dilation}"
        if dilation == 1 or stride == (1, 1, 1):
            table.add(label, inputs, options=_volume(stride, padding, dilation))
    table.add("float32-unbiased", [*inputs[:2]], options=_volume((1, 1, 1), "SAME", activation="RELU"))


@cases("CONV_3D_TRANSPOSE")
def volumes_transposed(table: Table) -> None:
    for padding, stride in product(("SAME", "VALID"), ((1, 1, 1), (2, 1, 2), (2, 2, 2))):
        out = (5, 6, 7)
        size = [_forward(*each, padding) for each in zip(out, (2, 3, 2), stride, strict=True)]
        inputs = [stored(1, *out, 4), table.real(2, 3, 2, 4, 2).fixed, table.real(1, *size, 2)]
        label = f"float32-{padding}-s{''.join(map(str, stride))}"
        table.add(label, inputs, options=_volume(stride, padding))
        table.add(f"{label}-bias", [*inputs, table.real(4).fixed], options=_volume(stride, padding))
    for padding, activation in product(("SAME", "VALID"), ("NONE", "RELU6")):
        size = [_forward(each, 2 * kernel - 1, 1, padding) for each, kernel in zip(out, (2, 3, 2), strict=True)]
        inputs = [stored(2, *out, 4), table.real(2, 3, 2, 4, 2).fixed, table.real(2, *size, 2), table.real(4).fixed]
        table.add(f"float32-{padding}-dilated-{activation}", inputs, options=_volume((1, 1, 1), padding, 2, activation))


declare("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", parameters=COMPUTED)
