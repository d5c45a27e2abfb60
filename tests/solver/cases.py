"""For every rule, random operators over tensors whose dimensions are factored at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Graph, Quant, Size, symbol
from layoutsolve.solver.theory.rules.elementwise import BROADCASTING, UNARY
from tests.graphs import GraphBuilder

Random = np.random.Generator
Case = Callable[[GraphBuilder, Random], Sequence[str]]
"""Adds one operator (with its views) to a builder and returns the graph's outputs."""

CASES: dict[str, Case] = {}
RELATED: dict[str, Case] = {}
"""Those of operators that are laid out as others are, in :mod:`tests.solver.siblings`."""

YOUNGER = {
    "AffineGrid": 20, "Attention": 23, "BitCast": 26, "CausalConvWithState": 27, "CumProd": 26, "DeformConv": 19,
    "DequantizeLinear": 21, "GroupNormalization": 21, "QuantizeLinear": 21, "RMSNormalization": 23,
    "RegexFullMatch": 20, "RotaryEmbedding": 23, "StringConcat": 20, "StringSplit": 20, "SwiGLU": 28, "Swish": 24,
    "TensorScatter": 24,
}  # fmt: skip
"""The operator sets of those operators that are younger than what is written, as sources in ONNX have them."""


def case(
    *operators: str, among: dict[str, Case] = CASES
) -> Callable[[Callable[..., Sequence[str]]], Callable[..., Sequence[str]]]:
    """Register a case for each of some operators; it is called with the operator's name as a third argument."""

    def register(function: Callable[..., Sequence[str]]) -> Callable[..., Sequence[str]]:
        for operator in operators:
            among[operator] = lambda builder, random, operator=operator: function(builder, random, operator)
        return function

    return register


def graph_of(operator: str, seed: int) -> tuple[Graph, Random]:
    """A random graph around one operator, and the generator to go on with."""
    random = np.random.default_rng([seed, *operator.encode()])
    builder = GraphBuilder(seed)
    outputs = {**CASES, **RELATED}[operator](builder, random)
    version = YOUNGER.get(operator)
    return replace(builder.graph(*outputs), imports={} if version is None else {"": version}), random


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


def vector(builder: GraphBuilder, random: Random, numbers: Sequence[int]) -> str:
    """A vector of integers, constant or computed."""
    known = builder.constant(list(numbers), "int64")
    if random.random() < 0.6:
        return known
    count = [len(numbers)]
    zeros = builder.op(
        "Mul", builder.input(*count, dtype="int64"), builder.constant(0, "int64"), shape=count, dtype="int64"
    )
    return builder.op("Add", zeros, known, shape=count, dtype="int64")


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
    "BitCast": {"to": 6},
    "Cast": {"to": "float32"},
    "BitShift": {"direction": "LEFT"},
    "Mod": {"fmod": 1},
}


@case(*UNARY)
def unary(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    dtype = "bool" if op in BOOLEAN else INTEGER.get(op, "float32")
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))), dtype)
    rest = [builder.constant(-0.5), builder.constant(0.5)] if op == "Clip" else []
    out = "bool" if op in COMPARING else "int32" if op == "BitCast" else dtype
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


@case("Reshape")
def reshape(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Blocks of dimensions without common factors, between others that have some."""
    blocks = [([6, 4], [8, 3]), ([4, 1, 6], [3, 8]), ([2, 3], [3, 1, 2]), ([4], [4]), ([2, 3], [6]), ([6], [2, 3])]
    chosen = [blocks[int(random.integers(0, 2))], *(blocks[int(index)] for index in random.integers(2, len(blocks), 2))]
    order = random.permutation(len(chosen))
    before, after = ([dim for index in order for dim in chosen[index][side]] for side in (0, 1))
    return [result(builder, random, builder.reshape(tensor(builder, random, before), *after))]


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
    return [result(builder, random, builder.op(op, x, vector(builder, random, out), shape=out))]


@case("Shape")
def shape(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))))
    return [builder.op(op, x, shape=[len(builder.shape(x))], dtype="int64")]


@case("Gather")
def gather(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    if random.random() < 0.3:
        table = builder.constant(random.normal(size=9), "float32") if random.random() < 0.5 else builder.input(9)
        places = builder.op("Cast", tensor(builder, random, shape), shape=shape, dtype="int32", to="int32")
        return [result(builder, random, builder.op(op, table, places, shape=shape, axis=0))]
    if random.random() < 0.5:
        count = int(random.choice([1, 3]))
        indices = builder.constant(random.integers(0, 2, count), "int64")
    else:
        count = int(random.choice([1, 2]))
        indices = builder.input(count, dtype="int64")
    x = tensor(builder, random, shape)
    out = [count if index == axis else dim for index, dim in enumerate(shape)]
    return [result(builder, random, builder.op(op, x, indices, shape=out, axis=axis))]


@case("GatherND")
def gather_nd(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch = [2] * int(random.integers(0, 2))
    shape = [*batch, *dims(random, int(random.integers(1, 4)), (2, 4, 6))]
    depth = int(random.integers(1, min(2, len(shape) - len(batch)) + 1))
    places = [*batch, 3, depth]
    if random.random() < 0.5:
        indices = builder.constant(random.integers(0, 2, places), "int64")
    else:
        indices = builder.input(*places, dtype="int64")
    x, out = tensor(builder, random, shape), [*batch, 3, *shape[len(batch) + depth :]]
    return [result(builder, random, builder.op(op, x, indices, shape=out, batch_dims=len(batch)))]


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
    cuts = [vector(builder, random, each) for each in (starts, ends)]
    rest = [builder.constant(axes, "int64"), vector(builder, random, steps)]
    if axes == [*range(len(axes))] and all(step == 1 for step in steps):
        rest = []
    return [result(builder, random, builder.op(op, x, *cuts, *rest, shape=out))]


@case("Pad")
def pad(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    mode = str(random.choice(["constant", "reflect", "edge"]))
    shape = dims(random, int(random.integers(1, 5)), (1, 4, 6) if mode == "constant" else (3, 4, 6))
    before, after = ([int(random.choice([0, 0, 1, 2])) for _ in shape] for _ in range(2))
    if random.random() < 0.1:  # nothing is padded, of what may be a scalar
        shape, before, after = [1] * len(shape), [0] * len(shape), [0] * len(shape)
    out = [sum(sides) for sides in zip(shape, before, after, strict=True)]
    x = tensor(builder, random, shape)
    value = []
    if mode == "constant":
        value = [builder.constant(0.5) if random.integers(2) else builder.reshape(builder.input(1))]
    return [
        result(
            builder,
            random,
            builder.op(op, x, vector(builder, random, [*before, *after]), *value, shape=out, mode=mode),
        )
    ]


@case("Resize")
def resize(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    mode = str(random.choice(["nearest", "linear", "cubic"]))
    n, h, w, c = dims(random, 4, (1, 2, 4))
    out = [n, h * int(random.choice([1, 2])), w * int(random.choice([1, 2, 3])), c]
    how = {"coordinate_transformation_mode": str(random.choice(["asymmetric", "half_pixel"])), "nearest_mode": "floor"}
    if mode != "cubic" and random.random() < 0.4:
        return [result(builder, random, volume(builder, random, [n, c, h, w, 3], mode, how))]
    x = tensor(builder, random, [n, h, w, c])
    if mode == "cubic":
        x, out = builder.transpose(x, 0, 3, 1, 2), [n, c, *out[1:3]]
    if random.random() < 0.5:
        y = builder.op(op, x, "", "", builder.constant(out, "int64"), shape=out, mode=mode, **how)
    else:
        scales = [after / int(str(before)) for before, after in zip(builder.shape(x), out, strict=True)]
        y = builder.op(op, x, "", builder.constant(scales), shape=out, mode=mode, **how)
    return [result(builder, random, y)]


def volume(builder: GraphBuilder, random: Random, sizes: Sequence[int], mode: str, how: dict[str, str]) -> str:
    """A line, a matrix or a volume that is resampled, also by axes alone, or a part of it."""
    rank = int(random.choice([2, 3, 5]))
    shape = list(sizes[-rank:])
    first = 0 if rank < 5 else 2
    axes = sorted(
        random.choice(np.arange(first, rank), int(random.integers(1, rank - first + 1)), replace=False).tolist()
    )
    out = [2 * dim if axis in axes else dim for axis, dim in enumerate(shape)]
    x = tensor(builder, random, shape)
    if random.random() < 0.3:
        named = {"axes": axes, **how}
        return builder.op("Resize", x, "", builder.constant([2.0] * len(axes)), shape=out, mode=mode, **named)
    if mode == "linear" and random.random() < 0.3:
        ends = [(0.25, 0.75) if axis in axes else (0.0, 1.0) for axis in range(rank)]
        part, cut = builder.constant(np.transpose(ends).reshape(-1)), "tf_crop_and_resize"
        sizes = builder.constant(shape, "int64")
        return builder.op("Resize", x, part, "", sizes, shape=shape, mode=mode, coordinate_transformation_mode=cut)
    return builder.op("Resize", x, "", "", builder.constant(out, "int64"), shape=out, mode=mode, **how)


@case("Conv", "ConvTranspose")
def convolution(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    space = int(random.choice([1, 2, 2, 3]))
    group = int(random.choice([1, 2]))
    shape = [int(random.choice([1, 2])), *dims(random, space, (3, 4)), group * int(random.choice([1, 2, 4]))]
    channels = group * int(random.choice([1, 2, 4]))
    if op == "Conv" and random.random() < 0.3:
        return [result(builder, random, quantized_pointwise(builder, random, shape, channels))]
    x = tensor(builder, random, shape)
    kernel = [int(random.choice([1, 2])) for _ in range(space)]
    sizes = (shape[-1], channels // group) if op == "ConvTranspose" else (channels, shape[-1] // group)
    rest = [builder.weights(*sizes, *kernel)] if random.random() < 0.8 else [tensor(builder, random, [*sizes, *kernel])]
    rest += [builder.weights(channels)] if random.random() < 0.7 else []
    moves = [window(random, size) for size in kernel]
    attributes = windows(random, kernel, moves)
    if op == "ConvTranspose":
        padding = {"pads": [each.pads[end] for end in (0, 1) for each in moves]}
        grown = [
            (dim - 1) * each.stride + each.reach - each.padded for dim, each in zip(shape[1:-1], moves, strict=True)
        ]
        attributes = {name: value for name, value in attributes.items() if name != "auto_pad"} | padding
    else:
        grown = [each.made(dim, "auto_pad" in attributes) for dim, each in zip(shape[1:-1], moves, strict=True)]
    y = builder.channels_last(op, x, *rest, shape=[shape[0], *grown, channels], group=group, **attributes)
    return [result(builder, random, y)]


@dataclass(frozen=True)
class Window:
    """How a kernel moves along a dimension: its stride, how far it reaches, and what it is padded by at both ends."""

    stride: int
    reach: int
    gap: int
    pads: tuple[int, int]

    @property
    def padded(self) -> int:
        return sum(self.pads)

    def made(self, dim: int, same: bool = False) -> int:
        """How many results there are of so many elements; all that a stride leaves where these are the ``same``."""
        return -(-dim // self.stride) if same else (dim + self.padded - self.reach) // self.stride + 1


def window(random: Random, size: int) -> Window:
    """A random window of so many elements."""
    stride, gap = (int(random.choice([1, 1, 2])) for _ in range(2))
    pads = int(random.integers(0, size)), int(random.integers(0, size))
    return Window(stride, gap * (size - 1) + 1, gap, pads)


def windows(random: Random, kernel: Sequence[int], moves: Sequence[Window]) -> dict[str, Any]:
    """The attributes that say how a kernel moves, some of which stay unsaid where they are what they are by default."""
    found: dict[str, Any] = {"kernel_shape": [*kernel], "dilations": [each.gap for each in moves]}
    found |= {"strides": [each.stride for each in moves], "pads": [each.pads[end] for end in (0, 1) for each in moves]}
    if all(each.gap == 1 and each.stride <= each.reach for each in moves) and random.random() < 0.2:
        found |= {"auto_pad": "SAME_UPPER"}
        del found["pads"]
    return found


@case("AveragePool", "MaxPool", "LpPool")
def pooling(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    space = int(random.choice([1, 2, 2, 2, 3]))
    shape = [*dims(random, 1, (1, 2, 4)), *dims(random, space, (2, 4, 6)), *dims(random, 1, (1, 2, 4, 6))]
    x = tensor(builder, random, shape)
    kernel = dims(random, space, (1, 2))
    moves = [replace(window(random, size), gap=1, reach=size) for size in kernel]
    attributes = windows(random, kernel, moves)
    del attributes["dilations"]
    space_made = [each.made(dim, "auto_pad" in attributes) for dim, each in zip(shape[1:-1], moves, strict=True)]
    y = builder.channels_last(op, x, shape=[shape[0], *space_made, shape[-1]], **attributes)
    return [result(builder, random, y)]


@case("LRN")
def local_response(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    x = tensor(builder, random, dims(random, 4, (2, 4, 6)))
    return [result(builder, random, builder.channels_last(op, x, shape=builder.shape(x), size=3))]


@case("BatchNormalization", "InstanceNormalization")
def normalisation(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(3, 6)), (1, 2, 3, 4))
    channels = shape[-1]
    given = [builder.weights(channels) for _ in range(2)]
    if op == "BatchNormalization":
        given += [builder.weights(channels), builder.constant(random.uniform(0.5, 2, channels))]
    return [result(builder, random, builder.channels_last(op, tensor(builder, random, shape), *given, shape=shape))]


@case("Gemm")
def gemm(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    p, k, m = dims(random, 3, (1, 2, 4, 6))
    trans_a, trans_b = int(random.integers(0, 2)), int(random.integers(0, 2))
    sizes = [m, k] if trans_b else [k, m]
    kind = str(random.choice(["float", "weights alone", "integers", "blocks"]))
    if kind == "blocks":
        return [result(builder, random, blocked_product(builder, random, (p, k, m), op))]
    if kind != "float":
        return [result(builder, random, quantized_gemm(builder, random, (p, k, m), kind == "integers"))]
    x = tensor(builder, random, [k, p] if trans_a else [p, k])
    weights = builder.weights(*sizes) if random.random() < 0.7 else tensor(builder, random, sizes)
    bias = [builder.weights(m)] if random.random() < 0.6 else []
    if random.random() < 0.3:
        bias = [tensor(builder, random, [p if random.random() < 0.7 else 1, m if random.random() < 0.7 else 1])]
    how: dict[str, Any] = {"transA": trans_a, "transB": trans_b}
    if random.random() < 0.3:
        how |= {"alpha": 0.5, "beta": -1.5}
    return [result(builder, random, builder.op(op, x, weights, *bias, shape=[p, m], **how))]


def quantized_gemm(builder: GraphBuilder, random: Random, sizes: tuple[int, int, int], integers: bool) -> str:
    """A product of 8-bit weights and data of 8 bits, or floats."""
    p, k, m = sizes
    quant, dtype, rest = quantized(builder, random, (m, k), integers)
    x = tensor(builder, random, [p, k], dtype, quant)
    return builder.op("Gemm", x, *rest, shape=[p, m], dtype=dtype, quant=quant, transB=1)


def blocked_product(builder: GraphBuilder, random: Random, sizes: tuple[int, int, int], op: str) -> str:
    """A product of floats and 8-bit weights that are quantized per block of what is contracted."""
    p, k, m = sizes
    block = int(random.choice([size for size in (1, 2, 3) if k % size == 0]))
    axis, attributes = (1, {"transB": 1}) if op == "Gemm" else (0, {})
    shape, grid = ((m, k), (m, k // block)) if axis else ((k, m), (k // block, m))
    quant = Quant(np.exp2(-random.integers(1, 4, grid)).astype(np.float32), np.zeros(grid, np.int8), axis, block)
    weights = builder.constant(random.integers(-9, 9, shape), "int8", quant)
    return builder.op(op, tensor(builder, random, [p, k]), weights, shape=[p, m], **attributes)


def quantized_pointwise(builder: GraphBuilder, random: Random, shape: list[int], channels: int) -> str:
    """A 1x1 convolution with 8-bit weights over data of 8 bits, or floats."""
    weights = (channels, shape[-1], *[1] * (len(shape) - 2))
    quant, dtype, rest = quantized(builder, random, weights, random.random() < 0.6)
    planes = [shape[0], shape[-1], *shape[1:-1]]
    x = tensor(builder, random, planes, dtype, quant)
    strides = [1] * (len(shape) - 2)
    return builder.op(
        "Conv", x, *rest, shape=[shape[0], channels, *shape[1:-1]], dtype=dtype, quant=quant, strides=strides
    )


def quantized(
    builder: GraphBuilder, random: Random, sizes: tuple[int, ...], integers: bool
) -> tuple[Quant | None, str, list[str]]:
    """Quantization and type of the data, and 8-bit weights, per channel or not, with a bias or not."""
    step = np.array([0.25], np.float32)
    axis = 0 if random.random() < 0.5 else None
    scale = step if axis is None else np.exp2(-random.integers(1, 4, sizes[0])).astype(np.float32)
    weights = Quant(scale, np.zeros(scale.size, np.int8), axis)
    rest = [builder.constant(random.integers(-9, 9, sizes), "int8", weights)]
    if random.random() < 0.6:
        offsets = Quant(scale * step, np.zeros(scale.size, np.int32), axis) if integers else None
        rest.append(builder.constant(random.integers(-9, 9, sizes[0]), "int32" if integers else "float32", offsets))
    return (Quant(step, np.zeros(1, np.int8)), "int8", rest) if integers else (None, "float32", rest)


@case("MatMul")
def matmul(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch = dims(random, int(random.integers(0, 3)), (1, 2, 4))
    m, k, n = dims(random, 3, (1, 2, 4))
    if random.random() < 0.2:
        return [result(builder, random, blocked_product(builder, random, (m, 2 * k, n), op))]
    own = [1 if random.random() < 0.3 else dim for dim in batch] if random.random() < 0.7 else []
    left, own = ([], batch) if random.random() < 0.15 else (batch, own)
    x = tensor(builder, random, [*left, m, k])
    y = constant_like(builder, random, [*own, k, n]) if random.random() < 0.4 else tensor(builder, random, [*own, k, n])
    return [result(builder, random, builder.op(op, x, y, shape=[*batch, m, n]))]


@case("DynamicQuantizeLinear")
def dynamic(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))))
    y, step, zero = builder.many(op, x, shapes=[builder.shape(x), (), ()])
    builder.retype(y, "uint8")
    builder.retype(zero, "uint8")
    return [result(builder, random, y), step, zero]


@case("Carry")
def carry(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """A loop over two tensors, which swap places or not; the rule's other inputs may be constant."""
    shape = dims(random, int(random.integers(1, 5)))
    x = tensor(builder, random, shape)
    y = constant_like(builder, random, shape) if random.random() < 0.3 else tensor(builder, random, shape)
    swapped = random.random() < 0.5

    def body(a: str, b: str) -> Sequence[str]:
        c = builder.reshape(builder.reshape(builder.add(a, b), *split(random, shape)), *shape)
        return (b, c) if swapped else (c, b)

    last = builder.loop(int(random.integers(0, 4)), body, x, y)
    return [result(builder, random, name) for name in last]


@case("Element", "Stack")
def scan(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Elements may be moved in a turn."""
    shape = dims(random, int(random.integers(1, 5)))
    axis, place = (int(random.integers(len(shape))) for _ in range(2))
    perm = random.permutation(len(shape) - 1).tolist()

    def body(element: str) -> str:
        return builder.transpose(builder.relu(element), *perm) if perm else builder.relu(element)

    backwards = int(random.integers(2)), int(random.integers(2))
    return [result(builder, random, builder.scan(tensor(builder, random, shape), axis, place, body, backwards))]


@case("Join")
def join(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    x, y = tensor(builder, random, shape), tensor(builder, random, shape)
    condition = builder.input(dtype="bool")
    other = (lambda: constant_like(builder, random, shape)) if random.random() < 0.3 else (lambda: y)
    joined = builder.branch(condition, lambda: builder.relu(builder.add(x, y)), other)
    return [result(builder, random, joined)]


@case("State")
def state(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    now, become = builder.state(*shape)
    total = builder.add(tensor(builder, random, shape), now)
    become(total)
    return [result(builder, random, total), result(builder, random, builder.relu(now))]


@case("GridSample")
def grid_sample(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    n, c, h, w, rows, columns = dims(random, 6, (1, 2, 4))
    x = tensor(builder, random, [n, c, h, w])
    if random.random() < 0.5:
        grid = builder.constant(random.uniform(-1.2, 1.2, (n, rows, columns, 2)))
    else:
        grid = tensor(builder, random, [n, rows, columns, 2])
    return [result(builder, random, builder.op(op, x, grid, shape=[n, c, rows, columns], padding_mode="border"))]


@case("ai.onnx.ml:LabelEncoder")
def label_encoder(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    domain, name = op.split(":")
    x = tensor(builder, random, dims(random, int(random.integers(1, 5))), "int64")
    table = {"keys_int64s": (0, 1), "values_int64s": (7, 5), "default_int64": -1}
    y = builder.op(name, x, shape=builder.shape(x), dtype="int64", **table)
    builder.nodes[-1] = replace(builder.nodes[-1], domain=domain)
    return [result(builder, random, y)]


@case("ScatterElements")
def scatter_elements(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)), (1, 2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    part = [1 if at == axis else dim for at, dim in enumerate(shape)]
    line = builder.input(1, dtype="int64")
    places = builder.reshape(line, *[1] * len(shape))
    places = builder.op("Expand", places, builder.constant(part, "int64"), shape=part, dtype="int64")
    if shape[axis] == 1:
        places = builder.constant(np.zeros(part), "int64")
    x, updates = tensor(builder, random, shape), tensor(builder, random, part)
    return [result(builder, random, builder.op(op, x, places, updates, shape=shape, axis=axis))]


@case("ScatterND")
def scatter_nd(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 4, 6))
    depth = int(random.integers(1, min(2, len(shape)) + 1))
    if random.random() < 0.5:
        places = builder.constant(random.integers(0, 2, (2, 1, depth)), "int64")
    else:
        places = builder.input(2, 1, depth, dtype="int64")
    x, updates = tensor(builder, random, shape), tensor(builder, random, [2, 1, *shape[depth:]])
    return [result(builder, random, builder.op(op, x, places, updates, shape=shape, reduction="add"))]


@case("ReverseSequence")
def reverse_sequence(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape: list[Any] = dims(random, int(random.choice([2, 3, 4, 4, 5, 6])), (1, 2, 2, 3, 3, 4))
    batch = int(random.integers(0, 2))
    if random.random() < 0.3:
        shape[batch] = 1
    static = random.random() < 0.7
    if not static:
        shape = [symbol(f"n{axis}") if random.random() < 0.4 else dim for axis, dim in enumerate(shape)]
    count, steps = ((2 if isinstance(dim, Size) else dim) for dim in (shape[batch], shape[1 - batch]))
    if random.random() < 0.5:
        lengths = builder.constant(random.integers(1, steps + 1, count), "int64")
    else:
        lengths = builder.input(shape[batch], dtype="int64")
    x = tensor(builder, random, shape) if static else builder.input(*shape)
    y = builder.op(op, x, lengths, shape=shape, batch_axis=batch, time_axis=1 - batch)
    return [result(builder, random, y) if static else y]


@case("DFT")
def dft(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(2, 5)), (1, 2, 4, 6))
    axis, real = int(random.integers(0, len(shape))), bool(random.integers(0, 2))
    out = [dim // 2 + 1 if at == axis and real else dim for at, dim in enumerate(shape)]
    x = tensor(builder, random, [*shape, 1 if real else 2])
    rest = [builder.constant(shape[axis], "int64"), builder.constant(axis, "int64")]
    return [result(builder, random, builder.op(op, x, *rest, shape=[*out, 2], onesided=int(real)))]


@case("GRU", "LSTM", "RNN")
def recurrent(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    time, batch, features, units = dims(random, 4, (1, 2, 4))
    gates, states = {"GRU": (3, 1), "LSTM": (4, 2), "RNN": (1, 1)}[op]
    x = builder.transpose(tensor(builder, random, [batch, time, features]), 1, 0, 2, pattern=True)
    direction = str(random.choice(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    weights = [builder.weights(ways, gates * units, size) for size in (features, units)]
    if random.random() < 0.2:
        weights[0] = tensor(builder, random, [ways, gates * units, features])
    lengths = ""
    if random.random() < 0.4:
        lengths = builder.op("Cast", tensor(builder, random, [batch], "bool"), shape=[batch], dtype="int32", to="int32")
    rest = [
        builder.weights(ways, 2 * gates * units),
        lengths,
        *(tensor(builder, random, [ways, batch, units]) for _ in range(states)),
    ]
    shapes = [[time, ways, batch, units], *[[ways, batch, units]] * states]
    y, *after = builder.many(op, x, *weights, *rest, shapes=shapes, hidden_size=units, direction=direction)
    y = builder.transpose(builder.reshape(y, time, ways * batch, units), 1, 0, 2, pattern=True)
    return [result(builder, random, name) for name in (y, *after)]
