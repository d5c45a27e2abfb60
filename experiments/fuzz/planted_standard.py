"""Planted optima with every operator of ONNX's standard domain that has a rule: small networks around each, hidden.

Networks of :mod:`experiments.fuzz.planted_models` have the operators that exporters write most, each as often as these
do. Here the seed says which operator a network is made around, one after the other, so that each occurs in as many; the
rest of the network, the disguise and what is held against the base are those of :mod:`experiments.fuzz.planted_models`.
How an operator runs in another order follows from ONNX's definition of it alone; where no order but its own is defined,
pairs of Transposes lie around it. ONNX's reference evaluator computes what ONNX Runtime has no kernel of. The exit
status is 1 if there is any miss.

    python -m experiments.fuzz.planted_standard --count 2000 --seed 1
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from experiments.fuzz import planted_models
from experiments.fuzz.planted_models import (
    REDUCTIONS,
    Net,
    Node,
    Perm,
    Turned,
    inverse,
    lifted,
    shuffled,
    without,
)

FLOAT, INT32, INT64, BOOL, STRING = (
    getattr(TensorProto, name) for name in ("FLOAT", "INT32", "INT64", "BOOL", "STRING")
)

SINCE: Mapping[str, int] = {
    "AffineGrid": 20, "Attention": 23, "BitCast": 26, "CausalConvWithState": 27, "CumProd": 26, "DFT": 20,
    "DeformConv": 19, "Gelu": 20, "GroupNormalization": 21, "RMSNormalization": 23, "RegexFullMatch": 20,
    "RotaryEmbedding": 23, "StringConcat": 20, "StringSplit": 20, "SwiGLU": 28, "Swish": 24, "TensorScatter": 24,
}  # fmt: skip
"""The first operator sets of those that 18 has not, or not in the form that is written here."""

UNTIL: Mapping[str, int] = {"GlobalLpPool": 21, "MaxRoiPool": 21}
"""The last operator sets of which anything computes an operator."""

UNTURNED = frozenset(
    {"AffineGrid", "CausalConvWithState", "Col2Im", "GRU", "LSTM", "RNN", "RotaryEmbedding", "STFT",
     "TfIdfVectorizer"}
)  # fmt: skip
"""Operators that run in one order alone."""

WITHIN: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Asinh", "Atan", "Ceil", "Cos", "Cosh", "Gelu", "Round", "Sinh", "Swish", "Erf", "Selu"), ()),
    **dict.fromkeys(("Acos", "Asin", "Tan"), ("Sin",)),
    "Acosh": ("Cosh",), "Atanh": ("Tanh", "Tanh"), "Log": ("Softplus",), "Sqrt": ("Abs",), "Reciprocal": ("Exp",),
}  # fmt: skip
"""Functions of single elements, and what has to come before where they are not defined for all."""


# --- networks ---------------------------------------------------------------------------------------------------------


@dataclass
class StandardNet(Net):
    """A network with operators of any operator set, some with graphs in them."""

    def written_out(self, node: Node) -> onnx.NodeProto:
        if node.op not in ("If", "Loop", "Scan"):
            return super().written_out(node)
        attrs, inputs = dict(node.attrs), list(node.inputs)
        given = [(name, self.shapes[name]) for name in node.inputs if name]
        if node.op == "If":  # what branches read is an input here, behind the condition
            (_, inputs), (_, (x, shape)) = ((None, inputs[:1]), given)
            for name, op in zip(("then_branch", "else_branch"), attrs.pop("ops"), strict=True):
                attrs[name] = _body(f"{node.name}/{op}", [], [helper.make_node(op, [x], ["y"])], [("y", shape)])
        elif node.op == "Loop":
            shape = self.shapes[inputs[2]]
            made = [
                helper.make_node("Identity", ["c"], ["d"]),
                helper.make_node(attrs.pop("inner"), ["x"], ["a"]),
                helper.make_node("Add", ["a", "x"], ["y"]),
            ]
            ends = [("i", (), INT64), ("c", (), BOOL), ("x", shape, FLOAT)]
            attrs["body"] = _body(f"{node.name}/body", ends, made, [("d", (), BOOL), ("y", shape)])
        else:
            shape = self.shapes[inputs[0]]
            made = [
                helper.make_node("Add", ["s", "x"], ["t"]),
                helper.make_node(attrs.pop("inner"), ["t"], ["y"]),
            ]
            ends = [("s", shape, FLOAT), ("x", shape, FLOAT)]
            attrs["body"] = _body(f"{node.name}/body", ends, made, [("t", shape), ("y", shape)])
        return helper.make_node(node.op, inputs, node.outputs, name=node.name, **attrs)

    def turned(self, node: Node, rng: random.Random) -> Turned | None:
        if node.op in UNTURNED:
            return None
        for ops, function in TURNED:
            if node.op in ops:
                return function(self, node, rng)
        return super().turned(node, rng)

    def matching(self, x: str, op: str, *rest: str, dtype: int = FLOAT, **attrs: Any) -> str:
        """An operator whose result has the shape of its first input."""
        y = str(self.add(op, x, *rest, **attrs))
        self.shapes[y], self.types[y] = self.shapes[x], dtype
        return y

    def appended(self, op: str, inputs: list[str], *shapes: Sequence[int], **attrs: Any) -> list[str]:
        """An operator whose shapes are known; its results."""
        outputs = [self.fresh(op.lower()) for _ in shapes]
        for name, shape in zip(outputs, shapes, strict=True):
            self.shapes[name], self.types[name] = tuple(shape), FLOAT
        self.nodes.append(Node(op, inputs, outputs, attrs, self.fresh("node")))
        return outputs

    def numbers(self) -> np.random.Generator:
        """Random numbers for constants."""
        return np.random.default_rng(self.rng.randrange(1 << 30))


def _body(
    name: str, ends: Sequence[tuple[Any, ...]], nodes: list[onnx.NodeProto], outs: Sequence[tuple[Any, ...]]
) -> onnx.GraphProto:
    inputs = [helper.make_tensor_value_info(each, kind, shape) for each, shape, kind in ends]
    results = [helper.make_tensor_value_info(each[0], each[2] if len(each) > 2 else FLOAT, each[1]) for each in outs]
    return helper.make_graph(nodes, name.replace("/", "_"), inputs, results)


# --- blocks -----------------------------------------------------------------------------------------------------------

Block = Callable[[StandardNet, str, str], str]
BLOCKS: dict[str, tuple[str, Block]] = {}
"""The block of each operator, and the kind of shape that it reads."""


def block(kind: str, *ops: str) -> Callable[[Block], Block]:
    """Register the block of some operators."""

    def register(function: Block) -> Block:
        BLOCKS.update(dict.fromkeys(ops, (kind, function)))
        return function

    return register


@block("any", *WITHIN)
def within(net: StandardNet, x: str, op: str) -> str:
    """A function of single elements."""
    for each in WITHIN[op]:
        x = str(net.add(each, x))
    return str(net.add(op, x))


def integers(net: StandardNet, x: str, dtype: int = INT32) -> str:
    """Small integers."""
    y = str(net.add("Mul", x, net.const(np.float32(4))))
    y = str(net.add("Abs", y)) if dtype == TensorProto.UINT32 else y
    return str(net.add("Cast", y, to=dtype))


def sizes_of(net: StandardNet, shape: Sequence[int]) -> list[int]:
    """Sizes that broadcast to a shape."""
    sizes = [size if net.rng.random() < 0.6 else 1 for size in shape]
    return sizes[net.rng.randrange(len(sizes)) :]


@block("any", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor")
def bits(net: StandardNet, x: str, op: str) -> str:
    """Operators on the bits of integers."""
    sizes = sizes_of(net, net.shapes[x])
    if op == "BitCast":
        y = net.matching(x, op, dtype=INT32, to=INT32)
        y = net.matching(y, "BitwiseAnd", net.const(np.int32(0x7FFFFFFF)), dtype=INT32)
        return net.matching(y, op, to=FLOAT)
    kind = TensorProto.UINT32 if op == "BitShift" else INT32
    y = integers(net, x, kind)
    other = net.const(net.numbers().integers(0, 4, sizes).astype(helper.tensor_dtype_to_np_dtype(kind)))
    if op == "BitwiseNot":
        y = str(net.add(op, y))
    elif op == "BitShift":
        y = str(net.add(op, y, other, direction=net.rng.choice(["LEFT", "RIGHT"])))
    else:
        y = str(net.add(op, y, other if net.rng.random() < 0.6 else integers(net, str(net.add("Neg", x)))))
    return str(net.add("Cast", y, to=FLOAT))


@block("any", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Not")
def logic(net: StandardNet, x: str, op: str) -> str:
    """A choice of elements."""
    test = str(net.add("Greater", x, net.weights(*sizes_of(net, net.shapes[x]))))
    if op in ("And", "Or", "Xor"):
        test = str(net.add(op, test, net.add("Less", x, net.const(np.float32(0.7)))))
    elif op in ("IsInf", "IsNaN"):
        test = str(net.add("Or", test, net.add(op, x)))
    elif op == "Not":
        test = str(net.add(op, test))
    elif op == "Equal":
        test = str(net.add(op, net.add("Floor", x), net.add("Round", x)))
    else:
        test = str(net.add(op, x, net.weights(*sizes_of(net, net.shapes[x]))))
    return str(net.add("Where", test, x, net.add("Neg", x)))


@block("any", "CastLike", "Identity", "Cast")
def cast(net: StandardNet, x: str, op: str) -> str:
    """A type of another one."""
    if op == "Cast":
        return str(net.add(op, net.add(op, x, to=TensorProto.DOUBLE), to=FLOAT))
    return str(net.add(op, x, *([net.const(np.float32(1))] if op == "CastLike" else [])))


@block("any", "Size", "Shape")
def size(net: StandardNet, x: str, op: str) -> str:
    """A number that depends on sizes."""
    axis = net.rng.randrange(len(net.shapes[x]))
    found = net.add(op, x, **({} if op == "Size" else {"start": axis, "end": axis + 1}))
    scaled = net.add("Mul", net.add("Cast", found, to=FLOAT), net.const(np.float32(0.125)))
    return str(net.add("Mul", x, scaled))


@block("any", "ConstantOfShape")
def filled(net: StandardNet, x: str, op: str) -> str:
    """A constant of given sizes."""
    half = onnx.numpy_helper.from_array(np.asarray([0.5], np.float32))
    return str(net.add(net.rng.choice(["Mul", "Add"]), x, net.add(op, net.ints(*net.shapes[x]), value=half)))


@block("matrix", "EyeLike")
def identity(net: StandardNet, x: str, op: str) -> str:
    """A diagonal."""
    return str(net.add("Add", x, net.add(op, x, k=net.rng.choice([-1, 0, 1]))))


@block("any", "If", "Loop", "Scan")
def regions(net: StandardNet, x: str, op: str) -> str:
    """Operators with graphs in them."""
    rng = net.rng
    inner = rng.choice(["Tanh", "Sigmoid", "Sin"])
    if op == "If":
        total = net.add("ReduceSum", x, keepdims=0)
        test = net.add("Greater", total, net.const(np.float32(0)))
        return net.appended(op, [str(test), x], net.shapes[x], ops=[inner, "Neg"])[0]
    if op == "Loop":
        return net.appended(op, [net.const(np.int64(2)), "", x], net.shapes[x], inner=inner)[0]
    axis = rng.randrange(len(net.shapes[x]))
    rest = [each for at, each in enumerate(net.shapes[x]) if at != axis]
    attrs = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": [axis], "inner": inner}
    return net.appended(op, [net.weights(*rest), x], rest, net.shapes[x], **attrs)[1]


@block("image", "GlobalLpPool", "GlobalMaxPool", "GlobalAveragePool")
def whole(net: StandardNet, x: str, op: str) -> str:
    """A pool over all of an image, and what it scales."""
    return str(net.add("Mul", x, net.add("Sigmoid", net.add(op, x))))


@block("image", "GroupNormalization", "InstanceNormalization", "BatchNormalization", "LRN", "MeanVarianceNormalization")
def normalised(net: StandardNet, x: str, op: str) -> str:
    """A normalisation of images."""
    channels, rank = net.shapes[x][1], len(net.shapes[x])
    if op == "LRN":
        return str(net.add(op, x, size=3))
    if op == "MeanVarianceNormalization":
        return str(net.add(op, x, axes=net.rng.choice([[*range(2, rank)], [0, *range(2, rank)]])))
    vectors = [net.positive(channels) for _ in range(4 if op[0] == "B" else 2)]
    return net.matching(x, op, *vectors, **({"num_groups": 2} if op[0] == "G" else {}))


@block("any", "RMSNormalization", "LayerNormalization")
def lines(net: StandardNet, x: str, op: str) -> str:
    """A normalisation of the last dimensions."""
    rank = len(net.shapes[x])
    axis = net.rng.choice([rank - 1, net.rng.randrange(rank)])
    return str(net.add(op, x, net.positive(*net.shapes[x][axis:]), axis=axis - rank))


@block("any", *REDUCTIONS, "ReduceLogSum")
def reduction(net: StandardNet, x: str, op: str) -> str:
    """A reduction, with its dimensions or without."""
    rank = len(net.shapes[x])
    axes = net.ints(*sorted(net.rng.sample(range(rank), net.rng.randint(1, rank - 1))))
    y = str(net.add("Exp", x)) if op == "ReduceLogSum" else x
    if net.rng.random() < 0.5:
        return str(net.add(op, y, axes, keepdims=0))
    return str(net.add(net.rng.choice(["Sub", "Mul", "Max"]), x, net.add(op, y, axes, keepdims=1)))


@block("any", "ArgMin", "ArgMax")
def chosen(net: StandardNet, x: str, op: str) -> str:
    """The places of the least or the largest."""
    found = net.add(op, x, axis=net.rng.randrange(len(net.shapes[x])), keepdims=net.rng.choice([0, 1]))
    return str(net.add("Cast", found, to=FLOAT))


@block("any", "CumProd", "CumSum", "LpNormalization", "Hardmax", "LogSoftmax", "Softmax")
def along(net: StandardNet, x: str, op: str) -> str:
    """An operator along an axis."""
    axis = net.rng.randrange(len(net.shapes[x]))
    if op.startswith("Cum"):
        return net.matching(x, op, net.const(np.int64(axis)), exclusive=net.rng.choice([0, 1]))
    return str(net.add(op, x, axis=axis))


@block("any", "CenterCropPad")
def cropped(net: StandardNet, x: str, op: str) -> str:
    """Some dimensions cut, or padded."""
    shape = net.shapes[x]
    axes = net.rng.sample(range(len(shape)), net.rng.randint(1, 2))
    return str(net.add(op, x, net.ints(*[max(1, shape[axis] + net.rng.choice([-1, 2])) for axis in axes]), axes=axes))


@block("any", "Mean", "Sum", "Max", "Min")
def several(net: StandardNet, x: str, op: str) -> str:
    """Several operands."""
    return str(net.add(op, x, net.weights(*sizes_of(net, net.shapes[x])), net.add("Tanh", x)))


@block("any", "Mod", "PRelu", "Pow", "Div", "Sub", "Add", "Mul", "Clip")
def arithmetic(net: StandardNet, x: str, op: str) -> str:
    """Two operands."""
    if op == "Clip":
        return str(net.add(op, x, net.const(np.float32(-0.5)), ""))
    other = net.positive(*sizes_of(net, net.shapes[x]))
    more = {"fmod": 1} if op == "Mod" else {}
    return str(net.add(op, net.add("Abs", x) if op == "Pow" else x, other, **more))


@block("any", "Unique")
def unique(net: StandardNet, x: str, op: str) -> str:
    """What differs, of numbers whose values are known though not their places."""
    even = net.const((np.arange(math.prod(net.shapes[x])).reshape(net.shapes[x]) % 2).astype(np.float32))
    y = str(net.add("Add", net.add("Clip", x, net.const(np.float32(0)), net.const(np.float32(0))), even))
    found = str(net.add(op, y))
    net.shapes[found] = (2,)
    return str(net.add("Mul", x, net.add("ReduceSum", found, keepdims=0)))


@block("any", "RegexFullMatch", "StringConcat", "StringSplit")
def texts(net: StandardNet, x: str, op: str) -> str:
    """Texts."""
    text = lambda each: net.matching(each, "Cast", dtype=STRING, to=STRING)  # noqa: E731
    y = text(integers(net, x))
    if op == "RegexFullMatch":
        return str(net.add("Where", net.matching(y, op, dtype=BOOL, pattern="-?[02468]"), x, net.add("Neg", x)))
    if op == "StringConcat":
        y = net.matching(y, op, text(str(net.add("Abs", integers(net, x)))), dtype=STRING)
        return net.matching(y, "Cast", to=FLOAT)
    found, count = net.add(op, y, outs=2, delimiter="x", maxsplit=1)
    net.shapes[found], net.types[found] = (*net.shapes[x], 1), STRING
    net.shapes[count], net.types[count] = net.shapes[x], INT64
    return net.matching(found, "Cast", to=FLOAT)


@block("lines", "TfIdfVectorizer")
def grams(net: StandardNet, x: str, op: str) -> str:
    """How often numbers occur in a line."""
    how: dict[str, Any] = {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF"}
    how |= {"ngram_counts": [0], "ngram_indexes": [0, 1, 2], "pool_int64s": [0, 1, 2]}
    y = str(net.add(op, integers(net, x, INT64), **how))
    net.shapes[y] = (net.shapes[x][0], 3)
    return y


@block("any", "OneHot")
def one_hot(net: StandardNet, x: str, op: str) -> str:
    """A dimension of ones and zeros."""
    y = net.add("Mod", integers(net, x, INT64), net.const(np.int64(3)))
    values = net.const(np.asarray([0.25, 1.5], np.float32))
    return str(net.add(op, y, net.const(np.int64(3)), values, axis=net.rng.randrange(len(net.shapes[x]) + 1)))


@block("complex", "DFT")
def transform(net: StandardNet, x: str, op: str) -> str:
    """A Fourier transform along an axis."""
    axis = net.rng.randrange(1, len(net.shapes[x]) - 1)
    return str(
        net.add(op, x, "", net.const(np.int64(axis)), inverse=net.rng.choice([0, 1]) if net.shapes[x][-1] == 2 else 0)
    )


@block("signal", "STFT")
def spectrum(net: StandardNet, x: str, op: str) -> str:
    """Spectra of windows."""
    window = net.const(np.hanning(8).astype(np.float32))
    return str(net.add(op, x, net.const(np.int64(4)), window, net.const(np.int64(8)), onesided=1))


@block("squares", "AffineGrid")
def grid(net: StandardNet, x: str, op: str) -> str:
    """Places of pixels, by matrices."""
    return str(net.add(op, x, net.ints(net.shapes[x][0], 3, 4, 5)))


@block("image", "RoiAlign", "MaxRoiPool")
def boxes(net: StandardNet, x: str, op: str) -> str:
    """Boxes that are cut out of images."""
    n, _, h, w = net.shapes[x]
    numbers, count = net.numbers(), net.rng.choice([1, 3])
    corners = np.sort(numbers.uniform(0, 1, (count, 2, 2)), axis=1) * [w - 1, h - 1]
    if op == "MaxRoiPool":
        corners = np.round(corners)
    rois = np.concatenate([corners[:, 0], corners[:, 1]], 1).astype(np.float32)
    which = numbers.integers(0, n, count)
    size = [net.rng.choice([1, 2]), net.rng.choice([2, 3])]
    if op == "MaxRoiPool":
        return str(
            net.add(op, x, net.const(np.concatenate([which[:, None], rois], 1).astype(np.float32)), pooled_shape=size)
        )
    how = {
        "output_height": size[0],
        "output_width": size[1],
        "sampling_ratio": 2,
    }
    return str(net.add(op, x, net.const(rois), net.const(which.astype(np.int64)), **how))


@block("columns", "Col2Im")
def columns(net: StandardNet, x: str, op: str) -> str:
    """An image of its blocks."""
    return str(net.add(op, x, net.ints(4, 6), net.ints(2, 2), strides=[2, 2]))


@block("image", "DeformConv")
def deformed(net: StandardNet, x: str, op: str) -> str:
    """A convolution at places that are shifted."""
    n, c, h, w = net.shapes[x]
    kernel = [net.rng.choice([1, 2]), 2]
    space = [h - kernel[0] + 1, w - kernel[1] + 1]
    taps = math.prod(kernel)
    given = [x, net.weights(4, c, *kernel), net.weights(n, 2 * taps, *space)]
    if net.rng.random() < 0.5:
        given += [net.weights(4), net.positive(n, taps, *space)]
    return str(net.add(op, *given, kernel_shape=kernel))


@block("image", "ConvInteger", "QLinearConv")
def bytewise(net: StandardNet, x: str, op: str) -> str:
    """A convolution of integers."""
    scale, zero = net.const(np.float32(0.05)), net.const(np.uint8(128))
    y, numbers = str(net.add("QuantizeLinear", x, scale, zero)), net.numbers()
    w = net.const(numbers.integers(-9, 9, (4, net.shapes[x][1], 1, 3)).astype(np.int8))
    s, z = net.const(np.float32(0.01)), net.const(np.int8(0))
    space = {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1]}
    if op == "QLinearConv":
        return str(net.add("DequantizeLinear", net.add(op, y, scale, zero, w, s, z, scale, zero, **space), scale, zero))
    return str(net.add("Cast", net.add(op, y, w, zero, z, **space), to=FLOAT))


@block("any", "MatMulInteger", "QLinearMatMul")
def products(net: StandardNet, x: str, op: str) -> str:
    """A product of integers."""
    scale, zero = net.const(np.float32(0.05)), net.const(np.uint8(128))
    y, numbers = str(net.add("QuantizeLinear", x, scale, zero)), net.numbers()
    columns, kind = net.rng.choice([4, 6]), net.rng.choice([np.int8, np.uint8])
    data = numbers.integers(0 if kind is np.uint8 else -9, 9, (net.shapes[x][-1], columns)).astype(kind)
    vector = net.rng.random() < 0.3
    z = net.const(np.full(columns, 1, kind) if vector else np.asarray(1, kind))
    if op == "MatMulInteger":
        return str(net.add("Cast", net.add(op, y, net.const(data), zero, z), to=FLOAT))
    s = net.const(np.full(columns, 0.01, np.float32) if vector else np.float32(0.01))
    found = net.add(op, y, scale, zero, net.const(data), s, z, scale, zero)
    return str(net.add("DequantizeLinear", found, scale, zero))


@block("image", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(net: StandardNet, x: str, op: str) -> str:
    """A loss of classes."""
    shape = net.shapes[x]
    target = net.const(net.numbers().integers(0, shape[1], (shape[0], *shape[2:])))
    rest = [net.positive(shape[1])] if net.rng.random() < 0.5 else []
    return str(net.add(op, x, target, *rest, reduction=net.rng.choice(["none", "none", "mean", "sum"])))


@block("heads", "Attention")
def attention(net: StandardNet, x: str, op: str) -> str:
    """Attention with keys and values of its own, or of x."""
    keys, values = (
        (x, net.add("Tanh", x)) if net.rng.random() < 0.5 else [net.weights(*net.shapes[x]) for _ in range(2)]
    )
    return net.matching(x, op, keys, values, is_causal=net.rng.choice([0, 1]))


@block("heads", "RotaryEmbedding")
def rotary(net: StandardNet, x: str, op: str) -> str:
    """Features that are rotated by their places."""
    b, _, s, d = net.shapes[x]
    return net.matching(x, op, net.weights(b, s, d // 2), net.weights(b, s, d // 2))


@block("tokens", "GRU", "LSTM", "RNN")
def recurrent(net: StandardNet, x: str, op: str) -> str:
    """A recurrent network along the first dimension."""
    gates, hidden = {"GRU": 3, "LSTM": 4, "RNN": 1}[op], 4
    w, r = net.weights(1, gates * hidden, net.shapes[x][2]), net.weights(1, gates * hidden, hidden)
    return str(net.add("Squeeze", net.add(op, x, w, r, hidden_size=hidden), net.ints(1)))


@block("tokens", "CausalConvWithState")
def causal(net: StandardNet, x: str, op: str) -> str:
    """A convolution of what came before."""
    channels = net.shapes[x][1]
    y, state = net.add(op, x, net.weights(channels, 1, 3), net.weights(channels), outs=2)
    net.shapes[y], net.types[y] = net.shapes[x], FLOAT
    net.shapes[state], net.types[state] = (*net.shapes[x][:2], 2), FLOAT
    return str(y)


@block("any", "TensorScatter")
def cached(net: StandardNet, x: str, op: str) -> str:
    """What is written into a cache."""
    shape = net.shapes[x]
    axis = net.rng.randrange(1, len(shape))
    cache = net.weights(*[size + 2 * (at == axis) for at, size in enumerate(shape)])
    y = str(net.add(op, cache, x, net.ints(*[1] * shape[0]), axis=axis))
    net.shapes[y], net.types[y] = net.shapes[cache], FLOAT
    return y


@block("any", "SwiGLU")
def gated(net: StandardNet, x: str, op: str) -> str:
    """A gated product."""
    return net.matching(x, op, str(net.add("Tanh", x)))


@block("tokens", "ReverseSequence")
def reversed_lines(net: StandardNet, x: str, op: str) -> str:
    """Lines that are reversed as far as they go."""
    return str(net.add(op, x, net.ints(*[2] * net.shapes[x][0]), batch_axis=0, time_axis=1))


@block("image", "SpaceToDepth", "DepthToSpace")
def blocks(net: StandardNet, x: str, op: str) -> str:
    """Space to depth, or back."""
    shape = net.shapes[x]
    if op == "DepthToSpace":
        y = x if shape[1] % 4 == 0 else net.add("Concat", x, x, net.add("Neg", x), x, axis=1)
        return str(net.add(op, y, blocksize=2, mode=net.rng.choice(["DCR", "CRD"])))
    pads = [0] * 6 + [shape[2] % 2, shape[3] % 2]
    return str(net.add(op, net.add("Pad", x, net.ints(*pads)), blocksize=2))


@block("image", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GridSample", "Resize")
def images(net: StandardNet, x: str, op: str) -> str:
    """Windows on images."""
    n, c = net.shapes[x][:2]
    if op == "GridSample":
        places = net.const(net.numbers().uniform(-0.9, 0.9, (n, 3, 5, 2)).astype(np.float32))
        return str(net.add(op, x, places, mode="linear" if net.opset > 19 else "bilinear"))
    if op == "Resize":
        return str(
            net.add(
                op, x, "", net.const(np.asarray([1, 1, 2, 1], np.float32)), mode=net.rng.choice(["nearest", "linear"])
            )
        )
    kernel = [net.rng.choice([1, 2, 3]), net.rng.choice([1, 2])]
    if op.startswith("Conv"):
        return str(net.add(op, x, net.weights(*([4, c] if op == "Conv" else [c, 4]), *kernel), kernel_shape=kernel))
    return str(net.add(op, x, kernel_shape=kernel))


SHAPES: Mapping[str, Callable[[random.Random], Sequence[int]]] = {
    "any": lambda rng: [rng.choice([2, 3]), *rng.sample([3, 4, 5, 6], rng.choice([1, 2, 3]))],
    "image": lambda rng: [rng.choice([1, 2]), rng.choice([4, 6]), *rng.sample([3, 4, 5, 6], 2)],
    "tokens": lambda rng: [rng.choice([2, 3]), *rng.sample([4, 5, 6], 2)],
    "matrix": lambda rng: rng.sample([3, 4, 5], 2),
    "lines": lambda rng: [rng.choice([2, 3]), rng.choice([4, 6])],
    "complex": lambda rng: [*rng.sample([2, 3, 4, 5], rng.choice([2, 3])), rng.choice([1, 2])],
    "signal": lambda rng: [rng.choice([2, 3]), 16, 1],
    "squares": lambda rng: [rng.choice([1, 4]), 2, 3],
    "columns": lambda rng: [rng.choice([1, 2]), 4 * rng.choice([1, 3]), 6],
    "heads": lambda rng: [2, rng.choice([2, 3]), rng.choice([4, 5]), rng.choice([4, 6])],
}
"""A shape of each kind."""


def base(seed: int) -> tuple[Net, int]:
    """A network around the operator that the seed says, and how many Transposes it has."""
    rng = random.Random(f"standard {seed}")
    op = sorted(BLOCKS)[seed % len(BLOCKS)]
    kind, made = BLOCKS[op]
    first, last = SINCE.get(op, 18), UNTIL.get(op, 23)
    net = StandardNet(rng, opset=rng.choice([first, *[each for each in (18, 20, 21, 23) if first < each <= last]]))
    shape = list(SHAPES[kind](rng))
    planted = int(rng.random() < 0.2 and len(shape) > 2)
    x = net.input(*([shape[0], *shape[2:], shape[1]] if planted else shape))
    if planted:
        x = net.transpose(x, (0, len(shape) - 1, *range(1, len(shape) - 1)))
    if rng.random() < 0.5:
        x = rng.choice([planted_models.unary, planted_models.broadcast])(net, x)
    x = made(net, x, op)
    for _ in range(rng.randint(0, 2)):
        if net.types[x] != FLOAT or len(net.shapes[x]) < 2:
            break
        x = rng.choice(
            [planted_models.unary, planted_models.broadcast, planted_models.reduction, planted_models.along]
        )(net, x)
    net.outputs = [name for name in net.outputs if name != x] + [x]
    net.prune()
    if any(0 in net.shapes[name] for node in net.nodes for name in node.outputs if name):
        raise ValueError("an empty tensor")
    return net, planted


# --- how operators run in other orders --------------------------------------------------------------------------------


def _single(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """All outputs follow the first input."""
    perm = shuffled(rng, range(len(net.shapes[node.inputs[0]])))
    return Turned({0: perm}, dict.fromkeys(range(len(node.outputs)), perm))


def _pieces(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Texts, and a last dimension of their pieces."""
    rank = len(net.shapes[node.inputs[0]])
    perm = shuffled(rng, range(rank))
    return Turned({0: perm}, {0: (*perm, rank), 1: perm})


def _operands(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Operands that broadcast."""
    rank = len(net.shapes[node.outputs[0]])
    perm, made = shuffled(rng, range(rank)), Turned({}, {})
    made.outs[0] = perm
    for i, name in enumerate(node.inputs):
        if name in net.consts:
            made.consts[i] = lifted(net.consts[name], rank).transpose(perm) if net.shapes[name] else net.consts[name]
        elif net.shapes[name] and len(net.shapes[name]) != rank:
            return None
        elif net.shapes[name]:
            made.ins[i] = perm
    return made


def _axis(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """An axis that is an input or an attribute."""
    rank = len(net.shapes[node.inputs[0]])
    perm = shuffled(rng, range(rank))
    back = inverse(perm)
    if node.op == "CumProd":
        return Turned({0: perm}, {0: perm}, consts={1: np.int64(back[int(net.consts[node.inputs[1]])])})
    if node.op == "CenterCropPad":
        return Turned({0: perm}, {0: perm}, {"axes": [back[axis] for axis in node.attrs["axes"]]})
    if node.op == "DFT":
        perm = (*shuffled(rng, range(rank - 1)), rank - 1)
        return Turned({0: perm}, {0: perm}, consts={2: np.int64(perm.index(int(net.consts[node.inputs[2]])))})
    if node.op == "TensorScatter":
        perm = (0, *shuffled(rng, range(1, rank)))
        return Turned(
            {1: perm},
            {0: perm},
            {"axis": perm.index(node.attrs["axis"])},
            {0: net.consts[node.inputs[0]].transpose(perm)},
        )
    if node.op == "Shape":
        start = back[node.attrs["start"]]
        return Turned({0: perm}, {}, {"start": start, "end": start + 1})
    return Turned({0: perm}, {})  # Size, and what is unique of all elements


def _filled(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """A shape, in another order."""
    perm = shuffled(rng, range(len(net.shapes[node.outputs[0]])))
    return Turned({}, {0: perm}, consts={0: net.consts[node.inputs[0]][list(perm)]})


def _matrix(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """The diagonal of a matrix that is transposed."""
    return Turned({0: (1, 0)}, {0: (1, 0)}, {"k": -node.attrs["k"]})


def _regions(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """What runs inside takes each element by itself."""
    port = {"If": 1, "Loop": 2, "Scan": 1}[node.op]
    perm = shuffled(rng, range(len(net.shapes[node.inputs[port]])))
    if node.op != "Scan":
        return Turned({port: perm}, {0: perm})
    (axis,) = node.attrs["scan_input_axes"]
    at, rest = perm.index(axis), without(perm, [axis])
    state = {0: net.consts[node.inputs[0]].transpose(rest)}
    return Turned({1: perm}, {0: rest, 1: perm}, {"scan_input_axes": [at], "scan_output_axes": [at]}, state)


def _spatial(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Dimensions of space in another order."""
    perm = (0, 1, *shuffled(rng, range(2, len(net.shapes[node.inputs[0]]))))
    return Turned({0: perm}, {0: perm})


def _tail(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """The last dimensions among themselves, and those before."""
    rank = len(net.shapes[node.inputs[0]])
    axis = node.attrs["axis"] % rank
    tail = shuffled(rng, range(rank - axis))
    perm = (*shuffled(rng, range(axis)), *[one + axis for one in tail])
    return Turned({0: perm}, {0: perm}, consts={1: net.consts[node.inputs[1]].transpose(tail)})


def _log_sum(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """As a sum."""
    return planted_models.turned(net, Node("ReduceSum", node.inputs, node.outputs, node.attrs), rng)


SWAP: Perm = (0, 1, 3, 2)
"""Height and width exchanged."""


def _boxes(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Height and width exchanged, with the coordinates of boxes."""
    rois = net.consts[node.inputs[1]]
    if node.op == "MaxRoiPool":
        attrs = {"pooled_shape": node.attrs["pooled_shape"][::-1]}
        return Turned({0: SWAP}, {0: SWAP}, attrs, {1: rois[:, [0, 2, 1, 4, 3]]})
    attrs = {"output_height": node.attrs["output_width"], "output_width": node.attrs["output_height"]}
    return Turned({0: SWAP}, {0: SWAP}, attrs, {1: rois[:, [1, 0, 3, 2]]})


def _deformed(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Height and width exchanged, with the kernel and what its taps are shifted by."""
    kernel = node.attrs["kernel_shape"]
    offset = net.consts[node.inputs[2]]
    n, _, h, w = offset.shape
    moved = {1: net.consts[node.inputs[1]].transpose(SWAP)}
    taps = offset.reshape(n, *kernel, 2, h, w).transpose(0, 2, 1, 3, 5, 4)[:, :, :, ::-1]
    moved[2] = taps.reshape(n, -1, w, h)
    if len(node.inputs) > 4:
        moved[4] = net.consts[node.inputs[4]].reshape(n, *kernel, h, w).transpose(0, 2, 1, 4, 3).reshape(n, -1, w, h)
    return Turned({0: SWAP}, {0: SWAP}, {"kernel_shape": kernel[::-1]}, moved)


def _products(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """All but the last dimension of lines in any order, or the operands the other way round."""
    rank = len(net.shapes[node.inputs[0]])
    places = (0, 1, 2, 3) if node.op == "MatMulInteger" else (0, 3, 2, 5)
    weights, zero = (net.consts[node.inputs[each]] for each in (places[1], places[3]))
    if rank == 2 and not zero.shape and rng.random() < 0.5:
        order = [1, 0, 3, 2] if node.op == "MatMulInteger" else [3, 4, 5, 0, 1, 2, 6, 7]
        return Turned({0: (1, 0)}, {0: (1, 0)}, consts={places[1]: weights.T}, inputs=order)
    whole = (*shuffled(rng, range(rank - 1)), rank - 1)
    return Turned({0: whole}, {0: whole})


def _loss(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Batch and space in any order."""
    rank = len(net.shapes[node.inputs[0]])
    rest = shuffled(rng, [0, *range(2, rank)])
    perm = (rest[0], 1, *rest[1:])
    own = without(perm, [1])
    outs = {0: own} if net.shapes[node.outputs[0]] else {}
    return Turned({0: perm}, outs, consts={1: net.consts[node.inputs[1]].transpose(own)})


def _attention(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """Batch and heads exchanged."""
    swap = (1, 0, 2, 3)
    made = Turned({0: swap}, {0: swap})
    for i in (1, 2):
        if node.inputs[i] in net.consts:
            made.consts[i] = net.consts[node.inputs[i]].transpose(swap)
        else:
            made.ins[i] = swap
    return made


TURNED: Sequence[tuple[frozenset[str], Callable[[Net, Node, random.Random], Turned | None]]] = (
    (frozenset({*WITHIN, "BitCast", "BitwiseNot", "CastLike", "IsInf", "RegexFullMatch"}), _single),
    (frozenset({"StringSplit"}), _pieces),
    (
        frozenset({"BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "LessOrEqual", "Or", "Xor",
                   "StringConcat", "SwiGLU"}),
        _operands,
    ),
    (frozenset({"CenterCropPad", "CumProd", "DFT", "Shape", "Size", "TensorScatter", "Unique"}), _axis),
    (frozenset({"ConstantOfShape"}), _filled),
    (frozenset({"EyeLike"}), _matrix),
    (frozenset({"If", "Loop", "Scan"}), _regions),
    (frozenset({"GlobalLpPool", "GroupNormalization"}), _spatial),
    (frozenset({"RMSNormalization", "LayerNormalization"}), _tail),
    (frozenset({"ReduceLogSum"}), _log_sum),
    (frozenset({"RoiAlign", "MaxRoiPool"}), _boxes),
    (frozenset({"DeformConv"}), _deformed),
    (frozenset({"MatMulInteger", "QLinearMatMul"}), _products),
    (frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}), _loss),
    (frozenset({"Attention"}), _attention),
)  # fmt: skip
"""How operators run in other orders that :mod:`experiments.fuzz.planted_models` does not state."""


if __name__ == "__main__":
    sys.exit(planted_models.main(made=base, told=__doc__ or ""))
