"""Cases of operators that are laid out as others are: on bytes, and those that ONNX Runtime alone has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.graphs import GraphBuilder
from tests.solver.cases import RELATED, Random, case, dims, result, tensor

PRIVATE = "com.microsoft:"


def own(builder: GraphBuilder, name: str, *inputs: str, shape: Sequence[Any], dtype: str, **attributes: Any) -> str:
    """An operator of any domain; inputs that are left out at the end are not written."""
    domain, _, op = name.rpartition(":")
    given = list(inputs)
    while given and not given[-1]:
        given.pop()
    made = builder.op(op, *given, shape=shape, dtype=dtype, **attributes)
    builder.nodes[-1] = replace(builder.nodes[-1], domain=domain)
    return made


def number(builder: GraphBuilder, random: Random, value: float, dtype: str = "float32") -> str:
    """A single number, constant or computed."""
    if random.random() < 0.7:
        return builder.constant(value, dtype)
    zero = builder.op("Mul", builder.input(), builder.constant(0.0), shape=())
    made = builder.op("Add", zero, builder.constant(value), shape=())
    return made if dtype == "float32" else builder.op("Cast", made, shape=(), dtype=dtype, to=dtype)


def step(builder: GraphBuilder, random: Random, dtype: str = "uint8") -> list[str]:
    """A step and a zero."""
    scale = float(2.0 ** -random.integers(1, 4))
    return [number(builder, random, scale), number(builder, random, int(random.integers(0, 4)), dtype)]


def weights(builder: GraphBuilder, random: Random, shape: Sequence[int], channels: int) -> list[str]:
    """Constant bytes, with a step and a zero for each channel or for all."""
    data = builder.constant(random.integers(-9, 9, shape), "int8")
    if random.random() < 0.5:
        return [data, *step(builder, random, "int8")]
    scales = np.exp2(-random.integers(1, 4, channels))
    return [data, builder.constant(scales), builder.constant(np.zeros(channels), "int8")]


def image(random: Random) -> tuple[int, int, int, int]:
    batch, channels, *space = (int(random.choice(each)) for each in ((1, 2), (2, 4, 6), (3, 4), (3, 4)))
    return batch, channels, space[0], space[1]


def turned(shape: Sequence[int], last: bool) -> list[int]:
    """The shape of an image, whose channels come last or second."""
    return [shape[0], *shape[2:], shape[1]] if last else [*shape]


@case("ConvInteger", "QLinearConv", f"{PRIVATE}QLinearConv", f"{PRIVATE}FusedConv", among=RELATED)
def convolution(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    (batch, channels, *space), count = image(random), int(random.choice([2, 4]))
    group, size = int(random.choice([1, 2])), int(random.choice([1, 2]))
    last = op == f"{PRIVATE}QLinearConv" and bool(random.integers(0, 2))
    kernel = (count, channels // group, size, size)
    out = turned([batch, count, *(dim - size + 1 for dim in space)], last)
    how: dict[str, Any] = {"group": group, "kernel_shape": [size, size], **({"channels_last": 1} if last else {})}
    if op == f"{PRIVATE}FusedConv":
        x, rest = tensor(builder, random, [batch, channels, *space]), [builder.weights(*kernel)]
        rest += [builder.weights(count), tensor(builder, random, out)][: int(random.integers(0, 3))]
        y = own(builder, op, x, *rest, shape=out, dtype="float32", activation="Relu", **how)
        return [result(builder, random, y)]
    x = tensor(builder, random, turned([batch, channels, *space], last), "uint8")
    data, scale, zero = weights(builder, random, kernel, count)
    if op == "ConvInteger":
        y = own(builder, op, x, data, number(builder, random, 3, "uint8"), shape=out, dtype="int32", **how)
        return [result(builder, random, y)]
    bias = [builder.constant(random.integers(-9, 9, count), "int32")] if random.random() < 0.6 else []
    given = [x, *step(builder, random), data, scale, zero, *step(builder, random), *bias]
    return [result(builder, random, own(builder, op, *given, shape=out, dtype="uint8", **how))]


@case(f"{PRIVATE}NhwcMaxPool", f"{PRIVATE}QLinearAveragePool", f"{PRIVATE}QLinearGlobalAveragePool", among=RELATED)
def pooling(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    always, every = op.endswith("NhwcMaxPool"), op.endswith("GlobalAveragePool")
    last, (batch, channels, *space) = always or bool(random.integers(0, 2)), image(random)
    x = tensor(builder, random, turned([batch, channels, *space], last), "uint8")
    out = turned([batch, channels, *([1, 1] if every else [dim - 1 for dim in space])], last)
    how: dict[str, Any] = {} if always else {"channels_last": int(last)}
    if not every:
        how["kernel_shape"] = [2, 2]
    numbers = [] if always else [*step(builder, random), *step(builder, random)]
    return [result(builder, random, own(builder, op, x, *numbers, shape=out, dtype="uint8", **how))]


@case(
    "MatMulInteger",
    "QLinearMatMul",
    *(PRIVATE + op for op in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat")),
    among=RELATED,
)
def product(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Of bytes, or of numbers that become such; the right side is constant but for some of these, of which some have a
    constant left side.
    """
    batch, (m, k, n) = dims(random, int(random.integers(0, 3)), (1, 2, 4)), dims(random, 3, (2, 4))
    dynamic, shape = op.endswith("DynamicQuantizeMatMul"), [*batch, m, n]
    x = tensor(builder, random, [*batch, m, k], "float32" if dynamic else "uint8")
    data, scale, zero = weights(builder, random, [k, n], n)
    bias = [builder.constant(random.normal(size=n))] if random.random() < 0.5 else []
    if dynamic:
        given = [x, data, scale, zero, *bias]
        return [result(builder, random, own(builder, op, *given, shape=shape, dtype="float32"))]
    left = step(builder, random)
    alike = random.random() < 0.5
    if op != "MatMulInteger" and alike:  # operands of the same type
        data, (scale, zero) = builder.constant(random.integers(0, 9, [k, n]), "uint8"), step(builder, random)
    if random.random() < 0.3 and (op == "MatMulInteger" or alike):
        x = builder.constant(random.integers(0, 9, [m, k]), "uint8")
        data, zero = tensor(builder, random, [*batch, k, n], "uint8"), number(builder, random, 2, "uint8")
        scale = number(builder, random, 0.25)
    if op == "MatMulInteger":
        other = data if random.random() < 0.7 else tensor(builder, random, [k, n], "uint8")
        kind = builder.values[other].dtype
        given = [x, other, left[1], zero if other == data else number(builder, random, 2, kind)]
        shape = shape if builder.values[x].data is None or other == data else [m, n]
        return [result(builder, random, own(builder, op, *given, shape=shape, dtype="int32"))]
    if op == "QLinearMatMul":
        given = [x, *left, data, scale, zero, *step(builder, random)]
        return [result(builder, random, own(builder, op, *given, shape=shape, dtype="uint8"))]
    given = [x, data, left[0], scale, left[1], zero, *bias]
    return [result(builder, random, own(builder, op, *given, shape=shape, dtype="float32"))]


@case(f"{PRIVATE}FusedGemm", f"{PRIVATE}QGemm", among=RELATED)
def gemm(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    p, k, m = dims(random, 3, (2, 4, 6))
    flags = {"transA": int(random.integers(0, 2)), "transB": int(random.integers(0, 2))}
    one, other = [k, p] if flags["transA"] else [p, k], [m, k] if flags["transB"] else [k, m]
    if op.endswith("FusedGemm"):
        x, rest = tensor(builder, random, one), [builder.weights(*other), builder.weights(m)]
        rest[0] = rest[0] if random.random() < 0.6 else tensor(builder, random, other)
        how: dict[str, Any] = {"activation": "Relu", "alpha": 0.5, "beta": 2.0, **flags}
        return [result(builder, random, own(builder, op, x, *rest, shape=[p, m], dtype="float32", **how))]
    x = tensor(builder, random, one, "uint8")
    given = [x, *step(builder, random), *weights(builder, random, other, m)]
    given.append(builder.constant(random.integers(-9, 9, m), "int32") if random.random() < 0.6 else "")
    dtype = "uint8" if random.random() < 0.6 else "float32"
    given += step(builder, random) if dtype == "uint8" else []
    return [result(builder, random, own(builder, op, *given, shape=[p, m], dtype=dtype, alpha=0.5, **flags))]


@case(f"{PRIVATE}FusedMatMul", f"{PRIVATE}TransposeMatMul", among=RELATED)
def fused(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, (m, k, n) = dims(random, int(random.integers(0, 3)), (1, 2, 4)), dims(random, 3, (2, 4))
    flags = {name: int(random.integers(0, 2)) for name in ("transA", "transB")}
    sides = [[k, m] if flags["transA"] else [m, k], [n, k] if flags["transB"] else [k, n]]
    own_batch = [1 if random.random() < 0.3 else dim for dim in batch] if random.random() < 0.7 else []
    shapes = [[*batch, *sides[0]], [*own_batch, *sides[1]]]
    if op.endswith("FusedMatMul") and batch and own_batch == batch and random.random() < 0.5:
        for number_, name in enumerate(("transBatchA", "transBatchB")):
            flags[name] = int(random.integers(0, 2))
            if flags[name]:
                first, *middle, last = *shapes[number_][-2:-1], *batch, shapes[number_][-1]
                shapes[number_] = [first, *middle, last]
    x = tensor(builder, random, shapes[0])
    y = builder.weights(*shapes[1]) if random.random() < 0.4 else tensor(builder, random, shapes[1])
    how: dict[str, Any] = {"alpha": 0.5, **flags}
    return [result(builder, random, own(builder, op, x, y, shape=[*batch, m, n], dtype="float32", **how))]


@case(
    *(PRIVATE + op for op in ("Gelu", "QuickGelu", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax")),
    among=RELATED,
)
def unary(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape, linear = dims(random, int(random.integers(1, 5))), "QLinear" in op
    how: dict[str, Any] = {}
    if op.endswith("Softmax"):
        old, axis = bool(random.integers(0, 2)), int(random.integers(0, len(shape)))
        how = {"opset": 12 if old else 13, "axis": len(shape) - 1 if old and random.random() < 0.7 else axis}
    dtype = "uint8" if linear else "float32"
    x = tensor(builder, random, shape, dtype)
    numbers = [*step(builder, random), *step(builder, random)] if linear else []
    return [result(builder, random, own(builder, op, x, *numbers, shape=shape, dtype=dtype, **how))]


@case(f"{PRIVATE}QuantizeLinear", f"{PRIVATE}DequantizeLinear", among=RELATED)
def stored(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape, before, after = dims(random, int(random.integers(1, 5))), "float32", "uint8"
    if op.endswith("DequantizeLinear"):
        before, after = after, before
    x = tensor(builder, random, shape, before)
    return [result(builder, random, own(builder, op, x, *step(builder, random), shape=shape, dtype=after))]


@case(*(PRIVATE + op for op in ("QLinearAdd", "QLinearMul", "QLinearWhere", "QLinearConcat")), among=RELATED)
def several(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (1, 2, 4))
    if op.endswith("Concat"):
        axis = int(random.integers(0, len(shape)))
        parts = [tensor(builder, random, shape, "uint8") for _ in range(2)]
        given = [*step(builder, random), *(each for x in parts for each in (x, *step(builder, random)))]
        whole = [2 * dim if at == axis else dim for at, dim in enumerate(shape)]
        return [result(builder, random, own(builder, op, *given, shape=whole, dtype="uint8", axis=axis))]
    x, other = tensor(builder, random, shape, "uint8"), [dim if random.random() < 0.7 else 1 for dim in shape]
    y = tensor(builder, random, other, "uint8")
    numbers = [step(builder, random) for _ in range(3)]
    if op.endswith("Where"):  # whose kernel crashes where these are computed
        numbers = [[builder.constant(0.5 * at), builder.constant(at, "uint8")] for at in (1, 2, 3)]
    given = [x, *numbers[0], y, *numbers[1], *numbers[2]]
    if op.endswith("Where"):
        given = [tensor(builder, random, shape, "bool"), *given]
    return [result(builder, random, own(builder, op, *given, shape=shape, dtype="uint8"))]


_LINES = ("BiasGelu", "FastGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "MatMulNBits")


@case(*(PRIVATE + op for op in _LINES), among=RELATED)
def lines(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Operators whose last dimension stays the last one."""
    shape, how = [*dims(random, 2, (1, 2, 3, 6)), 4], dict[str, Any]()
    if op.endswith("NBits"):
        x, blocks = tensor(builder, random, [*shape[:2], 32]), random.integers(0, 255, (4, 2, 8))
        rest = [builder.constant(blocks, "uint8"), builder.constant(random.uniform(0.1, 1, 8))]
        how = {"K": 32, "N": 4, "bits": 4, "block_size": 16}
        return [result(builder, random, own(builder, op, x, *rest, shape=shape, dtype="float32", **how))]
    x, bias = tensor(builder, random, shape), builder.weights(4)
    bias = bias if random.random() < 0.7 else tensor(builder, random, [4])
    if op.endswith("Gelu"):
        rest = [] if op.endswith("FastGelu") and random.random() < 0.4 else [bias]
        return [result(builder, random, own(builder, op, x, *rest, shape=shape, dtype="float32"))]
    given = [x, tensor(builder, random, shape), bias]
    if op.endswith("SkipLayerNormalization") and random.random() < 0.5:
        given += [builder.weights(4), *([builder.weights(4)] if random.random() < 0.5 else [])]
    return [result(builder, random, own(builder, op, *given, shape=shape, dtype="float32", epsilon=1e-3))]
