"""Random models of operators on bytes, for ``--quant exact``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant

SIZES = (1, 7, 8, 9, 16, 17, 40)
"""Of channels: LiteRT's kernels round those left over from vectors otherwise."""


@dataclass
class Network:
    """A model of one operator in the making. Scales are powers of two for every other seed, so that halves occur."""

    dtype: str
    seed: int
    builder: Builder = field(default_factory=Builder)
    given: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def quant(self, low: float = 0.004, high: float = 0.1, dtype: str = "") -> Quant:
        limits = np.iinfo(dtype or self.dtype)
        exponents = np.log2([low, high])
        exponent = self.random.uniform(*exponents)
        scale = 2.0 ** (np.rint(exponent) if self.seed % 2 else exponent)
        return Quant([float(np.float32(scale))], [int(self.random.integers(limits.min, limits.max, endpoint=True))])

    def bytes(self, *shape: int, dtype: str = "") -> Array:
        limits = np.iinfo(dtype or self.dtype)
        return self.random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype or self.dtype)

    def input(self, *shape: int, quant: Quant | None = None, **more: Any) -> int:
        self.given.append(self.bytes(*shape))
        return self.builder.input(f"x{len(self.given)}", shape, self.dtype, quant=quant or self.quant(), **more)

    def output(self, *shape: int, quant: Quant | None = None) -> int:
        return self.builder.tensor("y", shape, self.dtype, quant=quant or self.quant())

    def choice(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def finish(self, name: str, inputs: Sequence[int], output: int, **options: Any) -> bytes:
        self.builder.operator(name, inputs, [output], options)
        return self.builder.finish(output)


Family = Callable[[Network, str], bytes]


def convolution(net: Network, name: str) -> bytes:
    depthwise, kernel = name == "DEPTHWISE_CONV_2D", net.choice((1, 1), (3, 3), (2, 3))
    seen, count = net.choice(*SIZES), net.choice(*SIZES)
    multiplier = net.choice(1, 2) if depthwise else 1
    count = seen * multiplier if depthwise else count
    stride, padding = net.choice(1, 2), net.choice("SAME", "VALID")
    step = net.quant()
    x = net.input(1, 6, 5, seen, quant=step)
    form = (1, *kernel, count) if depthwise else (count, *kernel, seen)
    weights, bias = kernels(net, step, form, 3 if depthwise else 0, count)
    lost = [window - 1 if padding == "VALID" else 0 for window in kernel]
    sizes = [-(-(size - less) // stride) for size, less in zip((6, 5), lost, strict=True)]
    more = {"depth_multiplier": multiplier} if depthwise else {}
    chosen = net.choice("NONE", "RELU", "RELU6")
    y = net.output(1, *sizes, count, quant=net.quant(0.05, 2.0))
    return net.finish(
        name, [x, weights, bias], y, padding=padding, stride_h=stride, stride_w=stride, dilation_h_factor=1,
        dilation_w_factor=1, fused_activation_function=chosen, **more,
    )  # fmt: skip


def kernels(net: Network, step: Quant, form: tuple[int, ...], axis: int, count: int) -> tuple[int, int]:
    single = net.dtype == "uint8" or net.seed % 3 == 0
    scales = [scale for _ in range(1 if single else count) for scale in net.quant(0.001, 0.05).scale]
    zeros = net.quant().zero_point if net.dtype == "uint8" else [0] * len(scales)
    data = net.bytes(*form)
    data = np.maximum(data, -127).astype(np.int8) if net.dtype == "int8" else data
    weights = net.builder.constant("weights", data, net.dtype, Quant(scales, zeros, axis))
    bias = net.random.integers(-20_000, 20_000, count).astype(np.int32)
    steps = Quant([step.scale[0] * scale for scale in scales], [0] * len(scales))
    return weights, net.builder.constant("bias", bias, "int32", steps)


def transposed_convolution(net: Network, name: str) -> bytes:
    seen, count = net.choice(*SIZES), net.choice(16, 32) if net.dtype == "uint8" else net.choice(*SIZES)
    shape, step = (1, 6, 8, count), net.quant()
    weights, bias = kernels(net, step, (count, 2, 2, seen), 0, count)
    given = [
        net.builder.constant("shape", np.array(shape, np.int32)),
        weights,
        net.input(1, 3, 4, seen, quant=step),
        bias,
    ]
    return net.finish(
        name, given, net.output(*shape, quant=net.quant(0.05, 2.0)), padding="SAME", stride_h=2, stride_w=2
    )


def dense(net: Network, name: str) -> bytes:
    seen, count = net.choice(*SIZES, 3000), net.choice(*SIZES)
    step = net.quant()
    weights, bias = kernels(net, step, (count, seen), 0, count)
    y = net.output(5, count, quant=net.quant(0.05, 20.0))
    return net.finish(
        name, [net.input(5, seen, quant=step), weights, bias], y, fused_activation_function=net.choice("NONE", "RELU")
    )


def binary(net: Network, name: str) -> bytes:
    size, chosen = net.choice(*SIZES), net.choice("NONE", "RELU", "RELU_N1_TO_1")
    x = net.input(2, 3, size)
    other = net.choice((2, 3, size), (size,), (1,))
    fixed = net.builder.constant("fixed", net.bytes(*other), net.dtype, net.quant())
    y = net.output(2, 3, size, quant=net.quant(0.05, 0.5))
    return net.finish(name, [x, fixed if net.seed % 3 else net.input(*other)], y, fused_activation_function=chosen)


def extremum(net: Network, name: str) -> bytes:
    size, quant = net.choice(*SIZES), net.quant()
    given = [net.input(2, size, quant=quant), net.input(net.choice(1, size), quant=quant)]
    return net.finish(name, given, net.output(2, size, quant=quant))


def prelu(net: Network, name: str) -> bytes:
    shape = (1, 3, 2, net.choice(*SIZES))
    slopes = net.builder.constant("slopes", net.bytes(1, 1, shape[-1]), net.dtype, net.quant())
    open_ = {"signature": (1, -1, 2, -1)} if net.choice(True, False) else {}
    return net.finish(name, [net.input(*shape, **open_), slopes], net.output(*shape))


def unary(net: Network, name: str) -> bytes:
    size = net.choice(*SIZES, 333)
    shape = (2, 3, size)
    quants: Mapping[str, tuple[float, int]] = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
    if name in quants:
        scale, zero = quants[name]
        zero += 128 if net.dtype == "uint8" else 0
        return net.finish(name, [net.input(*shape)], net.output(*shape, quant=Quant([scale], [zero])))
    if name == "LEAKY_RELU":
        alpha, quant = net.choice(net.random.uniform(-1.5, 0.5), -0.75, -0.5, -0.25, 0.5), net.quant()
        scaled = net.choice(quant, net.quant(0.02, 0.2))
        return net.finish(name, [net.input(*shape, quant=quant)], net.output(*shape, quant=scaled), alpha=float(alpha))
    return net.finish(name, [net.input(*shape)], net.output(*shape, quant=net.quant(0.02, 0.2)))


def softmax(net: Network, name: str) -> bytes:
    size, zero = net.choice(*SIZES[1:], 333), -128 if net.dtype == "int8" else 0
    y = net.output(3, size, quant=Quant([1 / 256], [zero]))
    return net.finish(name, [net.input(3, size)], y, beta=net.choice(1.0, 0.5))


def pool(net: Network, name: str) -> bytes:
    size, window, quant = net.choice(*SIZES), net.choice(2, 3, 5), net.quant()
    chosen = net.choice("NONE", "RELU", "RELU6")
    x, y = net.input(1, 6, 7, size, quant=quant), net.output(1, 6, 7, size, quant=quant)
    return net.finish(
        name, [x], y, padding="SAME", stride_h=1, stride_w=1, filter_height=window, filter_width=window,
        fused_activation_function=chosen,
    )  # fmt: skip


def resize(net: Network, name: str) -> bytes:
    size, after, quant = net.choice(*SIZES), net.choice((9, 14), (3, 3), (1, 5), (7, 11), (40, 32)), net.quant()
    aligned = net.choice(True, False)
    given = [net.input(2, 5, 4, size, quant=quant), net.builder.constant("size", np.array(after, np.int32))]
    y, half = net.output(2, *after, size, quant=quant), not aligned and net.choice(True, False)
    return net.finish(name, given, y, align_corners=aligned, half_pixel_centers=half)


def mean(net: Network, name: str) -> bytes:
    size, axes, keep = net.choice(*SIZES), net.choice([1, 2], [1], [2, 3], [3]), net.choice(True, False)
    shape = (2, 5, 4, size)
    left = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    given = [net.input(*shape), net.builder.constant("axes", np.array(axes, np.int32))]
    return net.finish(name, given, net.output(*left, quant=net.quant(0.004, 0.05)), keep_dims=keep)


def reduced(net: Network, name: str) -> bytes:
    size, axes, keep, quant = net.choice(*SIZES), net.choice([1, 2], [1], [3]), net.choice(True, False), net.quant()
    shape = (2, 5, 4, size)
    left = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    given = [net.input(*shape, quant=quant), net.builder.constant("axes", np.array(axes, np.int32))]
    return net.finish(name, given, net.output(*left, quant=quant), keep_dims=keep)


def place(net: Network, name: str) -> bytes:
    """Bytes that are often equal."""
    shape, axis = (2, net.choice(3, 40), net.choice(*SIZES)), net.choice(0, 1, 2)
    x = net.input(*shape)
    net.given[-1] //= 32
    left = [dim for number, dim in enumerate(shape) if number != axis]
    given = [x, net.builder.constant("axis", np.array(axis, np.int32))]
    kind = net.choice("int32", "int64")
    return net.finish(name, given, net.builder.tensor("y", left, kind), output_type={"int32": 2, "int64": 4}[kind])


def concatenation(net: Network, name: str) -> bytes:
    size, quant = net.choice(*SIZES), net.quant()
    others = [quant if net.dtype == "int8" else net.quant() for _ in range(2)]
    given = [net.input(2, size, quant=each) for each in others]
    return net.finish(name, given, net.output(2, 2 * size, quant=quant), axis=1, fused_activation_function="NONE")


def quantize(net: Network, name: str) -> bytes:
    shape = (2, net.choice(*SIZES, 333))
    if net.seed % 3 == 0:
        return net.finish(name, [net.input(*shape)], net.output(*shape))
    quant = net.quant()
    steps = net.random.integers(-600, 600, shape) / 2 * quant.scale[0]
    net.given.append(np.nextafter(steps.astype(np.float32), net.random.choice([-9, 0, 9], shape).astype(np.float32)))
    return net.finish(name, [net.builder.input("x", shape)], net.output(*shape, quant=quant))


def dequantize(net: Network, name: str) -> bytes:
    shape = (2, net.choice(*SIZES, 333))
    return net.finish(name, [net.input(*shape)], net.builder.tensor("y", shape))


def recurrent(net: Network, name: str) -> bytes:
    """LSTM with int16 cells, over one step, some, or so many that they are a loop; bytes at the ends of their range and
    large weights saturate it.
    """
    units, seen, batch, limit = net.choice(1, 5, 8), net.choice(2, 7), net.choice(1, 3), net.choice(0.0, 0.3, 10.0)
    times, coupled, major = net.choice(1, 3, 40), bool(net.random.integers(2)), bool(net.random.integers(2))
    step, output, build = net.quant(0.01, 0.02), net.quant(0.004, 0.02), net.builder
    shape = (batch, seen) if name == "LSTM" else (times, batch, seen) if major else (batch, times, seen)
    x = net.input(*shape, quant=step)
    net.given[0][..., 0] = net.random.choice([-128, 127], shape[:-1])
    scale, gates = net.quant(0.001, 0.05).scale, range(1 if coupled else 0, 4)

    def each(label: str, *form: int) -> list[int]:
        kept = {gate: np.maximum(net.bytes(*form), -127) for gate in gates}
        return [build.constant(f"{label}{gate}", kept[gate], "int8", Quant(scale, [0])) for gate in kept]

    def biases() -> list[int]:
        drawn = [net.random.integers(-9000, 9000, units).astype(np.int32) for _ in gates]
        return [
            build.constant(f"bias{at}", data, "int32", Quant([step.scale[0] * scale[0]], [0]))
            for at, data in enumerate(drawn)
        ]

    missing = [-1] if coupled else []
    given = [x, *missing, *each("entering", units, seen), *missing, *each("recurrent", units, units)]
    given += [-1, -1, -1, *missing, *biases(), -1, -1]
    given.append(build.tensor("hidden", (batch, units), "int8", quant=output, variable=True))
    cell = Quant([2.0 ** -int(net.random.integers(9, 16))], [0])
    given.append(build.tensor("cell", (batch, units), "int16", quant=cell, variable=True))
    between = [
        build.tensor(f"between{at}", (0,), "int8" if at == 4 else "float32", quant=output if at == 4 else None)
        for at in range(5)
    ]
    y = net.output(*shape[:-1], units, quant=output)
    options = {"fused_activation_function": "TANH", "cell_clip": limit}
    more = {} if name == "LSTM" else {"time_major": major}
    build.operator(name, [*given, -1, -1, -1, -1], [y], {**options, **more}, intermediates=between)
    return build.finish(y)


FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), recurrent),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), convolution),
    **dict.fromkeys(("ADD", "SUB", "MUL"), binary),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), extremum),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), pool),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), place),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), reduced),
    "CONCATENATION": concatenation,
    "DEQUANTIZE": dequantize,
    "FULLY_CONNECTED": dense,
    "MEAN": mean,
    "PRELU": prelu,
    "QUANTIZE": quantize,
    "RESIZE_BILINEAR": resize,
    "SOFTMAX": softmax,
    "TRANSPOSE_CONV": transposed_convolution,
}
"""How the operators are made that are no functions of single bytes."""
