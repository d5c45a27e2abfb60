"""For every rule, random operators over tensors whose dimensions are factored at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from layoutsolve.graph import Graph
from layoutsolve.solver.rules.elementwise import BROADCASTING, UNARY
from tests.graphs import GraphBuilder

Random = np.random.Generator
Case = Callable[[GraphBuilder, Random], Sequence[str]]
"""Adds one operator (with its views) to a builder and returns the graph's outputs."""

CASES: dict[str, Case] = {}


def case(*operators: str) -> Callable[[Callable[..., Sequence[str]]], Callable[..., Sequence[str]]]:
    """Register a case for each of some operators; it is called with the operator's name as a third argument."""

    def register(function: Callable[..., Sequence[str]]) -> Callable[..., Sequence[str]]:
        for operator in operators:
            CASES[operator] = lambda builder, random, operator=operator: function(builder, random, operator)
        return function

    return register


def graph_of(operator: str, seed: int) -> tuple[Graph, Random]:
    """A random graph around one operator, and the generator to go on with."""
    random = np.random.default_rng([seed, *operator.encode()])
    builder = GraphBuilder(seed)
    outputs = CASES[operator](builder, random)
    return builder.graph(*outputs), random


def dims(random: Random, rank: int, sizes: Sequence[int] = (1, 2, 3, 4, 6)) -> list[int]:
    """A random shape; often with products, so that dimensions can be factored."""
    return [int(random.choice(sizes)) for _ in range(rank)]


def split(random: Random, shape: Sequence[int]) -> list[int]:
    """A shape of the same number of elements with some dimensions cut into factors."""
    cut: list[int] = []
    for dim in shape:
        factors = [factor for factor in (2, 3) if dim % factor == 0 and dim > factor]
        if factors and random.random() < 0.6:
            factor = int(random.choice(factors))
            cut += [dim // factor, factor] if random.random() < 0.5 else [factor, dim // factor]
        else:
            cut.append(dim)
    return cut


def tensor(
    builder: GraphBuilder, random: Random, shape: Sequence[int], dtype: str = "float32", quant: Any = None
) -> str:
    """An input whose dimensions are factored, permuted sometimes, and read as ``shape``."""
    factored = split(random, shape)
    if random.random() < 0.5 or len(factored) > 6:
        return builder.reshape(builder.input(*factored, dtype=dtype, quant=quant), *shape)
    perm = [int(axis) for axis in random.permutation(len(factored))]
    given = builder.input(*[factored[axis] for axis in perm], dtype=dtype, quant=quant)
    return builder.reshape(builder.transpose(given, *[perm.index(axis) for axis in range(len(perm))]), *shape)


def result(builder: GraphBuilder, random: Random, name: str) -> str:
    """An output: the tensor with its dimensions factored."""
    shape = [int(str(dim)) for dim in builder.shape(name)]
    return builder.reshape(name, *split(random, shape))


def constant_like(builder: GraphBuilder, random: Random, shape: Sequence[int]) -> str:
    return builder.constant(random.normal(size=shape))


INTEGER = {
    "BitShift": "uint32",
    "BitwiseAnd": "int32",
    "BitwiseNot": "int32",
    "BitwiseOr": "int32",
    "BitwiseXor": "int32",
}
BOOLEAN = {"And", "Or", "Xor", "Not"}
COMPARING = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN"}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Cast": {"to": "float32"},
    "BitShift": {"direction": "LEFT"},
    "Mod": {"fmod": 1},
}


@case(*UNARY)
def unary(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    dtype = "bool" if op in BOOLEAN else INTEGER.get(op, "float32")
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))), dtype)
    rest = [builder.constant(-0.5), builder.constant(0.5)] if op == "Clip" else []
    out = "bool" if op in COMPARING else dtype
    y = builder.op(op, x, *rest, shape=builder.shape(x), dtype=out, **ATTRIBUTES.get(op, {}))
    return [result(builder, random, y)]


@case(*BROADCASTING)
def broadcasting(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    dtype = "bool" if op in BOOLEAN else INTEGER.get(op, "float32")
    count = 3 if op == "Where" else 2
    operands = []
    for number in range(count):
        own = [1 if number and random.random() < 0.3 else dim for dim in shape]
        own = own[int(random.integers(0, len(own))) :] if number and random.random() < 0.3 else own
        kind = "bool" if op == "Where" and number == 0 else dtype
        if number == count - 1 and random.random() < 0.4:
            operands.append(
                builder.constant(random.integers(0, 2, own) if kind != "float32" else random.normal(size=own), kind)
            )
        else:
            operands.append(tensor(builder, random, own, kind))
    if op == "Where":
        shape = list(np.broadcast_shapes(*(tuple(map(int, map(str, builder.shape(name)))) for name in operands)))
    out = "bool" if op in COMPARING else dtype
    y = builder.op(op, *operands, shape=shape, dtype=out, **ATTRIBUTES.get(op, {}))
    return [result(builder, random, y)]


@case(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
def reduce(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axes = sorted(random.choice(len(shape), int(random.integers(1, len(shape) + 1)), replace=False).tolist())
    keep = int(random.integers(0, 2))
    out = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, builder.constant(axes, "int64"), shape=out, keepdims=keep))]


@case("LayerNormalization")
def layer_normalization(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (1, 2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    x = tensor(builder, random, shape)
    count = int(random.integers(1, 3))
    constants = [constant_like(builder, random, shape[axis:]) for _ in range(count)]
    y = builder.op(op, x, *constants, shape=shape, axis=axis - len(shape), epsilon=1e-3)
    return [result(builder, random, y)]


@case("Softmax", "LogSoftmax", "CumSum")
def along(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axis = int(random.integers(0, len(shape)))
    x = tensor(builder, random, shape)
    if op == "CumSum":
        y = builder.op(op, x, builder.constant(axis, "int64"), shape=shape, reverse=int(random.integers(0, 2)))
    else:
        y = builder.op(op, x, shape=shape, axis=axis)
    return [result(builder, random, y)]


@case("ArgMax", "ArgMin")
def arg(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axis, keep = int(random.integers(0, len(shape))), int(random.integers(0, 2))
    out = [1 if index == axis else dim for index, dim in enumerate(shape) if keep or index != axis]
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, shape=out, dtype="int64", axis=axis, keepdims=keep))]


@case("TopK")
def topk(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)), (2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    out = [2 if index == axis else dim for index, dim in enumerate(shape)]
    x = tensor(builder, random, shape)
    values, indices = builder.many(op, x, builder.constant([2], "int64"), shapes=[out, out], axis=axis)
    builder.retype(indices, "int64")
    return [values, indices]


@case("Concat")
def concat(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axis = int(random.integers(0, len(shape)))
    parts = [
        [int(random.choice([1, 2, 4, 6])) if index == axis else dim for index, dim in enumerate(shape)]
        for _ in range(2)
    ]
    names = [tensor(builder, random, part) for part in parts]
    whole = [sum(part[axis] for part in parts) if index == axis else dim for index, dim in enumerate(shape)]
    return [result(builder, random, builder.op(op, *names, shape=whole, axis=axis))]


@case("Split")
def split_(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axis = int(random.integers(0, len(shape)))
    sizes = [int(random.choice([1, 2, 4])) for _ in range(2)]
    shape[axis] = sum(sizes)
    parts = [[size if index == axis else dim for index, dim in enumerate(shape)] for size in sizes]
    x = tensor(builder, random, shape)
    return builder.many(op, x, builder.constant(sizes, "int64"), shapes=parts, axis=axis)


@case("Tile")
def tile(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    repeats = [int(random.choice([1, 1, 2])) for _ in shape]
    x = tensor(builder, random, shape)
    out = [dim * count for dim, count in zip(shape, repeats, strict=True)]
    return [result(builder, random, builder.op(op, x, builder.constant(repeats, "int64"), shape=out))]


@case("Expand")
def expand(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    out = dims(random, int(random.integers(1, 5)))
    shape = [1 if random.random() < 0.4 else dim for dim in out]
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, builder.constant(out, "int64"), shape=out))]


@case("Shape")
def shape(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))))
    return [builder.op(op, x, shape=[len(builder.shape(x))], dtype="int64")]


@case("Gather")
def gather(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    if random.random() < 0.5:
        count = int(random.choice([1, 3]))
        indices = builder.constant(random.integers(0, 2, count), "int64")
    else:
        count, indices = 2, builder.input(2, dtype="int64")
    x = tensor(builder, random, shape)
    out = [count if index == axis else dim for index, dim in enumerate(shape)]
    return [result(builder, random, builder.op(op, x, indices, shape=out, axis=axis))]


@case("DepthToSpace", "SpaceToDepth")
def depth_space(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    n, h, w, c = dims(random, 4, (1, 2, 3))
    shallow, deep = (n, h * 2, w * 2, c), (n, h, w, c * 4)
    before, after = (deep, shallow) if op == "DepthToSpace" else (shallow, deep)
    mode = {"mode": str(random.choice(["DCR", "CRD"]))} if op == "DepthToSpace" else {}
    x = tensor(builder, random, before)
    return [result(builder, random, builder.channels_last(op, x, shape=after, blocksize=2, **mode))]


@case("Slice")
def slice_(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 4, 6, 12))
    axes = sorted(random.choice(len(shape), int(random.integers(1, len(shape) + 1)), replace=False).tolist())
    out, starts, ends, steps = list(shape), [], [], []
    for axis in axes:
        start = int(random.integers(0, shape[axis]))
        end = int(random.integers(start + 1, shape[axis] + 1))
        step = int(random.choice([1, 1, 2]))
        out[axis] = len(range(start, end, step))
        starts.append(start - shape[axis] if random.random() < 0.3 else start)
        ends.append(end)
        steps.append(step)
    x = tensor(builder, random, shape)
    rest = [builder.constant(vector, "int64") for vector in (starts, ends, axes, steps)]
    return [result(builder, random, builder.op(op, x, *rest, shape=out))]


@case("Pad")
def pad(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (3, 4, 6))
    mode = str(random.choice(["constant", "reflect", "edge"]))
    before, after = ([int(random.choice([0, 0, 1, 2])) for _ in shape] for _ in range(2))
    out = [sum(sides) for sides in zip(shape, before, after, strict=True)]
    x = tensor(builder, random, shape)
    value = [builder.constant(0.5)] if mode == "constant" else []
    return [
        result(
            builder,
            random,
            builder.op(op, x, builder.constant([*before, *after], "int64"), *value, shape=out, mode=mode),
        )
    ]


@case("Resize")
def resize(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    mode = str(random.choice(["nearest", "linear"]))
    n, h, w, c = dims(random, 4, (1, 2, 4))
    out = [n, h * int(random.choice([1, 2])), w * int(random.choice([2, 3])), c]
    x = tensor(builder, random, [n, h, w, c])
    how = {"coordinate_transformation_mode": str(random.choice(["asymmetric", "half_pixel"])), "nearest_mode": "floor"}
    if random.random() < 0.5:
        y = builder.op(op, x, "", "", builder.constant(out, "int64"), shape=out, mode=mode, **how)
    else:
        scales = [after / before for before, after in zip([n, h, w, c], out, strict=True)]
        y = builder.op(op, x, "", builder.constant(scales), shape=out, mode=mode, **how)
    return [result(builder, random, y)]


@case("Conv", "ConvTranspose")
def convolution(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    space = int(random.integers(1, 3))
    group = int(random.choice([1, 2]))
    shape = [int(random.choice([1, 2])), *dims(random, space, (3, 4)), group * int(random.choice([1, 2, 4]))]
    channels = group * int(random.choice([1, 2, 4]))
    x = tensor(builder, random, shape)
    kernel = [int(random.choice([1, 2]))] * space
    sizes = (shape[-1], channels // group) if op == "ConvTranspose" else (channels, shape[-1] // group)
    rest = [builder.weights(*sizes, *kernel)] if random.random() < 0.8 else [tensor(builder, random, [*sizes, *kernel])]
    rest += [builder.weights(channels)] if random.random() < 0.7 else []
    growth = (kernel[0] - 1) * (1 if op == "ConvTranspose" else -1)
    grown = [dim + growth for dim in shape[1:-1]]
    y = builder.channels_last(op, x, *rest, shape=[shape[0], *grown, channels], group=group)
    return [result(builder, random, y)]


@case("AveragePool", "MaxPool", "LpPool")
def pooling(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, 4, (2, 4, 6))
    x = tensor(builder, random, shape)
    out = [shape[0], shape[1] // 2, shape[2] // 2, shape[3]]
    return [result(builder, random, builder.channels_last(op, x, shape=out, kernel_shape=[2, 2], strides=[2, 2]))]


@case("LRN")
def local_response(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    x = tensor(builder, random, dims(random, 4, (2, 4, 6)))
    return [result(builder, random, builder.channels_last(op, x, shape=builder.shape(x), size=3))]


@case("Gemm")
def gemm(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    p, k, m = dims(random, 3, (1, 2, 4, 6))
    trans_a, trans_b = int(random.integers(0, 2)), int(random.integers(0, 2))
    x = tensor(builder, random, [k, p] if trans_a else [p, k])
    sizes = [m, k] if trans_b else [k, m]
    weights = builder.weights(*sizes) if random.random() < 0.7 else tensor(builder, random, sizes)
    bias = [builder.weights(m)] if random.random() < 0.6 else []
    return [result(builder, random, builder.op(op, x, weights, *bias, shape=[p, m], transA=trans_a, transB=trans_b))]


@case("MatMul")
def matmul(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch = dims(random, int(random.integers(0, 3)), (1, 2, 4))
    m, k, n = dims(random, 3, (1, 2, 4))
    x = tensor(builder, random, [*batch, m, k])
    own = [1 if random.random() < 0.3 else dim for dim in batch] if random.random() < 0.7 else []
    y = constant_like(builder, random, [*own, k, n]) if random.random() < 0.4 else tensor(builder, random, [*own, k, n])
    return [result(builder, random, builder.op(op, x, y, shape=[*batch, m, n]))]
