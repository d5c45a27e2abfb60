"""Planted optima in TensorFlow Lite models: networks of known optimum, hidden by exact equivalences, solved again.

A *base* is a small network of TensorFlow Lite operators, images with their channels last, which ONNX states without any
Transpose where images come and go with their channels second; but for one to each product with an operand that is
transposed within the operator, which ONNX's MatMul does not do. It is disguised as
:mod:`experiments.fuzz.planted_models` does it: operators run in other orders of dimensions between TRANSPOSEs, edges
get pairs of moves that undo each other, operands are swapped, constants stored otherwise, RESHAPEs factored, channels
shuffled. How an operator runs in another order follows from TensorFlow Lite's definition of it alone. LiteRT computes
the base and the disguise; what is written computes the same. The exit status is 1 if there is any miss.

    python -m experiments.fuzz.planted_tflite --count 2000 --seed 1
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import layoutsolve
from experiments.fuzz import planted_models
from experiments.fuzz.planted_models import (
    Array,
    Net,
    Node,
    Perm,
    Turned,
    blocks_as_views,
    inverse,
    lifted,
    regrouped,
    shuffled,
    without,
)
from tests.builder import Builder
from tests.truth import litert

UNARY = ("RELU", "RELU6", "LOGISTIC", "TANH", "ABS", "NEG", "ELU", "HARD_SWISH", "SQUARE", "GELU", "LEAKY_RELU", "SIN")
UNARY += ("EXP", "FLOOR", "COS", "RELU_N1_TO_1", "SIGN", "CEIL")
BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "DIV")
COMPARISONS = ("GREATER", "LESS", "GREATER_EQUAL")
REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
WINDOWS = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")
EACH = {"PAD": "paddings", "MIRROR_PAD": "paddings", "TILE": "multiples", "SLICE": "sizes", "BROADCAST_TO": "shape"}
"""Operators with a number for each dimension, and the attribute that has it."""

CONSTANTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(REDUCTIONS, ("axes",)),
    "TRANSPOSE": ("perm",), "RESHAPE": ("shape",), "PAD": ("paddings",), "MIRROR_PAD": ("paddings",),
    "TILE": ("multiples",), "SLICE": ("begin", "sizes"), "BROADCAST_TO": ("shape",), "REVERSE_V2": ("axes",),
    "CUMSUM": ("axis",), "ARG_MAX": ("axis",), "ARG_MIN": ("axis",), "RESIZE_BILINEAR": ("size",),
    "RESIZE_NEAREST_NEIGHBOR": ("size",), "TOPK_V2": ("k",), "EXPAND_DIMS": ("axis",),
}  # fmt: skip
"""Attributes that are inputs of an operator in the file, behind the others."""

FIRST: Mapping[str, str] = {"SPLIT": "axis", "TRANSPOSE_CONV": "shape"}
"""Attributes that are an input in front of the others."""


@dataclass
class LiteNet(Net):
    """A network of TensorFlow Lite operators. A constant input that says how an operator runs is an attribute here, by
    the names of :data:`CONSTANTS`; Transposes and Reshapes are called as in ONNX.
    """

    def op(
        self, op: str, inputs: Sequence[str], *shapes: Sequence[int], dtype: int = TensorProto.FLOAT, **attrs: Any
    ) -> str:
        """Add an operator; the name of its first result."""
        outputs = []
        for shape in shapes:
            outputs.append(self.fresh(op.lower()))
            self.shapes[outputs[-1]], self.types[outputs[-1]] = tuple(shape), dtype
        self.nodes.append(Node(op, list(inputs), outputs, attrs, self.fresh("node")))
        return outputs[0]

    def like(self, op: str, x: str, *rest: str, **attrs: Any) -> str:
        """Add an operator whose result has the shape of its first operand."""
        return self.op(op, [x, *rest], self.shapes[x], **attrs)

    def images(self, names: Sequence[str]) -> dict[str, str]:
        """How some ends are stored: images with their channels second."""
        return {"*": "keep", **{name: "nchw" for name in names if len(self.shapes[name]) == 4}}

    def source(self) -> bytes:
        self.prune()
        b, places = Builder(), dict[str, int]()
        kinds = {TensorProto.FLOAT: "float32", TensorProto.BOOL: "bool", TensorProto.INT64: "int32"}
        for name in self.inputs:
            places[name] = b.input(name, self.shapes[name])
        for node in self.nodes:
            for name in [*node.inputs, *node.outputs]:
                if name in self.consts and name not in places:
                    places[name] = b.constant(name, np.ascontiguousarray(self.consts[name]))
                elif name not in places:
                    places[name] = b.tensor(name, self.shapes[name], kinds[self.types[name]])
            op, attrs, inputs = node.op, dict(node.attrs), [places[name] for name in node.inputs]
            if op in ("Transpose", "Identity"):
                op, attrs = "TRANSPOSE", {"perm": attrs.get("perm", [*range(len(self.shapes[node.outputs[0]]))])}
            elif op == "Reshape":
                op, attrs, inputs = "RESHAPE", {"shape": self.consts[node.inputs[1]]}, inputs[:1]
            for at, name in enumerate(CONSTANTS.get(op, ())):
                inputs.append(b.constant(f"{node.name}/{at}", np.asarray(attrs.pop(name), np.int32)))
            if op in FIRST:
                inputs.insert(0, b.constant(f"{node.name}/first", np.asarray(attrs.pop(FIRST[op]), np.int32)))
            b.operator(op, inputs, [places[name] for name in node.outputs], attrs)
        return b.finish(*[places[name] for name in self.outputs])

    @property
    def planted(self) -> int:
        return sum(node.attrs["adj_x"] + node.attrs["adj_y"] for node in self.nodes if node.op == "BATCH_MATMUL")

    def text(self) -> str:
        self.prune()
        lines = [f"{name}: {list(self.shapes[name])}" for name in self.inputs]
        for node in self.nodes:
            told = {**node.attrs, **({"shape": self.consts[node.inputs[1]].tolist()} if node.op == "Reshape" else {})}
            shapes = [f"{name}{list(self.shapes[name])}" for name in node.outputs]
            held = [f"{name}{list(self.shapes[name])}" if name in self.consts else name for name in node.inputs]
            lines.append(f"{', '.join(shapes)} = {node.op}({', '.join(held)}) {told}")
        return "\n".join([*lines, f"outputs {', '.join(self.outputs)}"])

    def results(self, data: dict[str, Array]) -> list[Array]:
        return list(litert().run(self.source(), [data[name] for name in self.inputs]).results)

    def converted(self, objective: str) -> layoutsolve.Conversion:
        ends = {"inputs": self.images(self.inputs), "outputs": self.images(self.outputs)}
        return layoutsolve.convert(self.source(), objective=objective, **ends)

    def written(self, made: layoutsolve.Conversion, data: dict[str, Array], level: str) -> list[Array]:
        given = {port.name: data[port.name] for port in made.model.graph.input}
        given = {name: each.transpose(0, 3, 1, 2) if each.ndim == 4 else each for name, each in given.items()}
        found = planted_models.computed(made.model, given, level)
        kinds = [helper.tensor_dtype_to_np_dtype(self.types[name]) for name in self.outputs]
        found = [each.transpose(0, 2, 3, 1) if each.ndim == 4 else each for each in found]
        return [each.astype("int32") if kind == np.int64 else each for each, kind in zip(found, kinds, strict=True)]

    def runs(self, data: dict[str, Array], level: str) -> bool:
        return True

    def turned(self, node: Node, rng: random.Random) -> Turned | None:
        return turned(self, node, rng)

    def rewritten(self, kind: str, node: Node, rng: random.Random) -> bool:
        if kind == "product":
            return blocks_as_views(self, node, 3) or pointwise_as_dense(self, node, rng)
        return channels_shuffled(self, node, rng) if kind == "channels" else flattened_otherwise(self, node, rng)


# --- bases ------------------------------------------------------------------------------------------------------------


def unary(net: LiteNet, x: str) -> str:
    """An activation."""
    op = net.rng.choice(UNARY)
    return net.like(op, x, **({"alpha": 0.25} if op == "LEAKY_RELU" else {}))


def window(net: LiteNet, x: str, kernel: Sequence[int], gaps: bool = False) -> tuple[dict[str, Any], list[int]]:
    """Options of a window, and the height and width that it leads to."""
    rng, sizes = net.rng, list(net.shapes[x][1:3])
    padding = "SAME" if rng.random() < 0.6 or min(sizes) < 4 else "VALID"
    strides = [rng.choice([1, 1, 2]) for _ in sizes]
    dilations = [rng.choice([1, 2]) if gaps and set(strides) == {1} and padding == "SAME" else 1 for _ in sizes]
    lost = [k - 1 if padding == "VALID" else 0 for k in kernel]
    given = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    if gaps:
        given |= {"dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}
    return given, [-(-(size - less) // stride) for size, less, stride in zip(sizes, lost, strides, strict=True)]


def convolution(net: LiteNet, x: str) -> str:
    """A convolution, perhaps of one channel each, with an activation of its own."""
    rng, (n, _, _, c) = net.rng, net.shapes[x]
    kernel = [rng.choice([1, 2, 3]) for _ in range(2)] if rng.random() < 0.7 else [1, 1]
    given, sizes = window(net, x, kernel, gaps=True)
    given["fused_activation_function"] = rng.choice(["NONE", "RELU", "RELU6"])
    if rng.random() < 0.3:
        w = net.weights(1, *kernel, c)
        return net.op("DEPTHWISE_CONV_2D", [x, w, net.weights(c)], (n, *sizes, c), depth_multiplier=1, **given)
    outs = rng.choice([4, 6, 8])
    return net.op("CONV_2D", [x, net.weights(outs, *kernel, c), net.weights(outs)], (n, *sizes, outs), **given)


def pool(net: LiteNet, x: str) -> str:
    """A pooling."""
    n, h, w, c = net.shapes[x]
    kernel = [net.rng.choice([1, 2, 3]) if size > 3 else 1 for size in (h, w)]
    given, sizes = window(net, x, kernel)
    op = net.rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"])
    return net.op(op, [x], (n, *sizes, c), filter_height=kernel[0], filter_width=kernel[1], **given)


def upsampling(net: LiteNet, x: str) -> str:
    """A larger image."""
    n, h, w, c = net.shapes[x]
    size = [h * net.rng.choice([1, 2]), w * net.rng.choice([1, 2])]
    corners, centres = net.rng.choice([(False, True), (False, False)])
    op = net.rng.choice(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
    return net.op(op, [x], (n, *size, c), size=size, align_corners=corners, half_pixel_centers=centres)


def transposed(net: LiteNet, x: str) -> str:
    """A transposed convolution."""
    n, h, w, c = net.shapes[x]
    strides, size = [net.rng.choice([1, 2]) for _ in range(2)], [net.rng.choice([2, 3]) for _ in range(2)]
    shape = (n, h * strides[0], w * strides[1], 4)
    given = {"padding": "SAME", "stride_h": strides[0], "stride_w": strides[1], "shape": shape}
    return net.op("TRANSPOSE_CONV", [net.weights(4, *size, c), x], shape, **given)


def residual(net: LiteNet, x: str) -> str:
    """A residual around a convolution."""
    c = net.shapes[x][3]
    given = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    y = net.like("CONV_2D", x, net.weights(c, 3, 3, c), net.weights(c), **given)
    return net.like(net.rng.choice(["ADD", "MUL", "SUB", "MAXIMUM"]), x, y)


def gate(net: LiteNet, x: str) -> str:
    """Squeeze and excitation."""
    n, _, _, c = net.shapes[x]
    y = net.op("MEAN", [x], (n, 1, 1, c), axes=[1, 2], keep_dims=True)
    y = net.like("CONV_2D", y, net.weights(c, 1, 1, c), net.weights(c), padding="SAME", stride_h=1, stride_w=1)
    return net.like("MUL", x, net.like("LOGISTIC", y))


def prelu(net: LiteNet, x: str) -> str:
    """A slope for each channel."""
    return net.like("PRELU", x, net.weights(1, 1, net.shapes[x][3]))


def blocks(net: LiteNet, x: str) -> str:
    """Space to depth, or back."""
    n, h, w, c = net.shapes[x]
    if c % 4 == 0:
        return net.op("DEPTH_TO_SPACE", [x], (n, 2 * h, 2 * w, c // 4), block_size=2)
    if h % 2 == 0 and w % 2 == 0:
        return net.op("SPACE_TO_DEPTH", [x], (n, h // 2, w // 2, 4 * c), block_size=2)
    return unary(net, x)


def dense(net: LiteNet, x: str) -> str:
    """A dense layer on the last dimension."""
    width, outs = net.shapes[x][-1], net.rng.choice([4, 6])
    given = {"keep_num_dims": True, "fused_activation_function": net.rng.choice(["NONE", "RELU"])}
    inputs = [x, net.weights(outs, width), net.weights(outs)]
    return net.op("FULLY_CONNECTED", inputs, (*net.shapes[x][:-1], outs), **given)


def normalised(net: LiteNet, x: str) -> str:
    """Layer normalisation, as converters write it."""
    shape = (*net.shapes[x][:-1], 1)
    axes = {"axes": [len(shape) - 1], "keep_dims": True}
    y = net.like("SUB", x, net.op("MEAN", [x], shape, **axes))
    spread = net.op("MEAN", [net.like("SQUARE", y)], shape, **axes)
    spread = net.op("RSQRT", [net.op("ADD", [spread, net.const(np.float32(0.1))], shape)], shape)
    return net.like("MUL", net.like("MUL", y, spread), net.weights(net.shapes[x][-1]))


def attention(net: LiteNet, x: str) -> str:
    """Attention of one head."""
    *lead, rows, _ = net.shapes[x]
    q, k, v = (dense(net, x) for _ in range(3))
    width = min(net.shapes[each][-1] for each in (q, k))
    q, k = (
        net.op("SLICE", [each], (*lead, rows, width), begin=[0] * (len(lead) + 2), sizes=[*lead, rows, width])
        for each in (q, k)
    )
    scores = net.op("BATCH_MATMUL", [q, k], (*lead, rows, rows), adj_x=False, adj_y=True)
    scores = net.like("SOFTMAX", scores, beta=1.0)
    return net.op("BATCH_MATMUL", [scores, v], (*lead, rows, net.shapes[v][-1]), adj_x=False, adj_y=False)


def broadcast(net: LiteNet, x: str) -> str:
    """Arithmetic with a constant that broadcasts."""
    shape = net.shapes[x]
    sizes = [size if net.rng.random() < 0.5 else 1 for size in shape][net.rng.randrange(len(shape)) :]
    if net.rng.random() < 0.15:
        test = net.op(net.rng.choice(COMPARISONS), [x, net.weights(*sizes)], shape, dtype=TensorProto.BOOL)
        return net.op("SELECT_V2", [test, x, net.like("NEG", x)], shape)
    operands = [x, net.positive(*sizes)]
    op = net.rng.choice(BINARY)
    return net.op(op, operands if op == "DIV" else net.rng.sample(operands, 2), shape)


def along(net: LiteNet, x: str) -> str:
    """An operator along an axis."""
    rng, shape = net.rng, net.shapes[x]
    rank, axis = len(shape), rng.randrange(len(shape))
    op = rng.choice(ALONG)
    longer = lambda more: (*shape[:axis], shape[axis] + more, *shape[axis + 1 :])  # noqa: E731
    if op == "SOFTMAX":
        return net.like(op, x, beta=1.0)
    if op == "CONCATENATION":
        other = net.like("NEG", x) if rng.random() < 0.6 else net.weights(*shape)
        return net.op(op, rng.sample([x, other], 2), longer(shape[axis]), axis=axis)
    if op == "SPLIT" and shape[axis] % 2 == 0:
        half = longer(-shape[axis] // 2)
        one = net.op(op, [x], half, half, axis=axis, num_splits=2)
        return net.op("MUL", [one, net.like("LOGISTIC", net.nodes[-1].outputs[1])], half)
    if op in ("PAD", "MIRROR_PAD") and (op == "PAD" or shape[axis] > 1):
        paddings = [[0, 0] for _ in shape]
        paddings[axis] = [1, rng.choice([0, 1])]
        return net.op(
            op, [x], longer(sum(paddings[axis])), paddings=paddings, **({"mode": "REFLECT"} if op[0] == "M" else {})
        )
    if op == "TILE":
        return net.op(op, [x], longer(shape[axis]), multiples=[2 if each == axis else 1 for each in range(rank)])
    if op == "SLICE" and shape[axis] > 1:
        begin = [int(each == axis) for each in range(rank)]
        return net.op(op, [x], longer(-1), begin=begin, sizes=list(longer(-1)))
    if op == "GATHER":
        picked = net.const(np.asarray([rng.randrange(shape[axis]) for _ in range(3)], np.int32))
        return net.op(op, [x, picked], longer(3 - shape[axis]), axis=axis)
    if op == "REVERSE_V2":
        return net.like(op, x, axes=[axis])
    if op == "CUMSUM":
        return net.like(op, x, axis=axis, exclusive=rng.random() < 0.5, reverse=rng.random() < 0.5)
    if op == "BROADCAST_TO":
        y = net.op("SUM", [x], longer(1 - shape[axis]), axes=[axis], keep_dims=True)
        return net.op(op, [y], shape, shape=list(shape))
    if op == "PACK" and rank < 4:
        y = net.op(op, [x, unary(net, x)], (*shape[:axis], 2, *shape[axis:]), axis=axis, values_count=2)
        return net.op("SUM", [y], shape, axes=[axis], keep_dims=False)
    if op == "ARG_MAX":
        found = net.op(
            op,
            [x],
            [shape[each] for each in range(rank) if each != axis],
            dtype=TensorProto.INT64,
            axis=axis,
            output_type=2,
        )
        found = net.op("CAST", [found], net.shapes[found])
        y = net.reshape(found, longer(1 - shape[axis]))
        return net.like("ADD", x, y)
    if op == "reduction":
        axes = sorted(rng.sample(range(rank), rng.randint(1, 2)))
        y = net.op(
            rng.choice(REDUCTIONS),
            [x],
            [1 if each in axes else size for each, size in enumerate(shape)],
            axes=axes,
            keep_dims=True,
        )
        return net.like(rng.choice(["SUB", "MUL", "ADD"]), x, y)
    return net.like(op, x) if op in ("L2_NORMALIZATION", "LOG_SOFTMAX") else unary(net, x)


def shuffle(net: LiteNet, x: str) -> str:
    """Channels grouped and joined again, with an operator between."""
    shape = net.shapes[x]
    if shape[-1] % 2:
        return unary(net, x)
    y = net.reshape(x, [*shape[:-1], 2, shape[-1] // 2])
    axes, kept = [len(shape) - 1], [*shape[:-1], 1, shape[-1] // 2]
    y = net.like("SUB", y, net.op("REDUCE_MAX", [y], kept, axes=axes, keep_dims=True))
    return net.reshape(y, shape)


def classified(net: LiteNet, x: str) -> str:
    """An image flattened, or averaged, for a dense layer."""
    shape, rng = net.shapes[x], net.rng
    size = math.prod(shape[1:])
    if rng.random() < 0.4 or size > 600:
        y = net.op(rng.choice(REDUCTIONS), [x], (shape[0], shape[3]), axes=[1, 2], keep_dims=False)
    else:
        y = net.reshape(x, [shape[0], size])
    inputs = [y, net.weights(4, net.shapes[y][1]), net.weights(4)]
    return net.op("FULLY_CONNECTED", inputs, (shape[0], 4), keep_num_dims=False)


ALONG = (
    "SOFTMAX",
    "LOG_SOFTMAX",
    "CONCATENATION",
    "SPLIT",
    "PAD",
    "MIRROR_PAD",
    "TILE",
    "SLICE",
    "GATHER",
    "REVERSE_V2",
)
ALONG += ("CUMSUM", "ARG_MAX", "PACK", "BROADCAST_TO", "L2_NORMALIZATION", "reduction", "reduction")
Block = Callable[[LiteNet, str], str]
IMAGE: tuple[Block, ...] = (convolution, convolution, pool, upsampling, transposed, residual, gate, prelu, blocks)
ANY: tuple[Block, ...] = (unary, broadcast, broadcast, along, along, along, along, shuffle, dense, normalised)


def base(seed: int) -> tuple[LiteNet, int]:
    """A network, and how many Transposes it needs."""
    rng = random.Random(f"tflite {seed}")
    net = LiteNet(rng)
    images = rng.random() < 0.65
    spatial = rng.sample([3, 4, 5, 6], 2)
    x = net.input(rng.choice([1, 1, 2]), *(spatial if images else spatial[:1]), rng.choice([4, 6, 8]))
    for _ in range(rng.randint(1, 4)):
        choice = [*ANY, *(IMAGE if images else (attention, dense, normalised))]
        if math.prod(net.shapes[x]) > 1500:
            choice = [pool] if images else [unary]
        x = rng.choice(choice)(net, x)
    if images and rng.random() < 0.3:
        x = classified(net, x)
    net.outputs = [x]
    net.prune()
    return net, net.planted


# --- how operators run in other orders --------------------------------------------------------------------------------


def turned(net: LiteNet, node: Node, rng: random.Random) -> Turned | None:
    """An operator in another order of dimensions, from what TensorFlow Lite defines it as."""
    op, attrs = node.op, node.attrs
    shapes = [net.shapes[name] for name in node.inputs]
    rank = len(shapes[0])
    perm = shuffled(rng, range(rank))
    back = inverse(perm)
    if op in (*UNARY, "RSQRT", "CAST"):
        return Turned({0: perm}, {0: perm})
    if op in (*BINARY, *COMPARISONS, "SELECT_V2", "PRELU"):
        return _broadcast(net, node, rng)
    if op in WINDOWS:
        swap, changed = (0, 2, 1, 3), dict(attrs)
        for one, other in (
            ("stride_h", "stride_w"),
            ("filter_height", "filter_width"),
            ("dilation_h_factor", "dilation_w_factor"),
        ):
            if one in attrs:
                changed[one], changed[other] = attrs[other], attrs[one]
        return Turned(
            {0: swap}, {0: swap}, changed, {1: net.consts[node.inputs[1]].transpose(swap)} if len(shapes) > 1 else {}
        )
    if op == "TRANSPOSE_CONV":
        swap, (n, h, w, c) = (0, 2, 1, 3), attrs["shape"]
        changed = {"stride_h": attrs["stride_w"], "stride_w": attrs["stride_h"], "shape": (n, w, h, c)}
        return Turned({1: swap}, {0: swap}, changed, {0: net.consts[node.inputs[0]].transpose(swap)})
    if op.startswith("RESIZE"):
        return Turned({0: (0, 2, 1, 3)}, {0: (0, 2, 1, 3)}, {"size": attrs["size"][::-1]})
    if op in (*REDUCTIONS, "REVERSE_V2", "ARG_MAX"):
        given = [attrs["axis"]] if op == "ARG_MAX" else attrs["axes"]
        out = perm if op == "REVERSE_V2" or attrs.get("keep_dims") else without(perm, given)
        axes = [back[axis] for axis in given]
        return Turned({0: perm}, {0: out}, {"axis": axes[0]} if op == "ARG_MAX" else {"axes": axes})
    if op in ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "FULLY_CONNECTED"):
        last = (*shuffled(rng, range(rank - 1)), rank - 1)
        return Turned({0: last}, {0: last}) if op[0] != "F" or attrs["keep_num_dims"] else None
    if op in ("CONCATENATION", "SPLIT", "CUMSUM", "GATHER"):
        made = Turned({}, dict.fromkeys(range(len(node.outputs)), perm), {"axis": back[attrs["axis"]]})
        for port, name in enumerate(node.inputs[: 1 if op == "GATHER" else None]):
            if name in net.consts:
                made.consts[port] = net.consts[name].transpose(perm)
            else:
                made.ins[port] = perm
        return made
    if op == "PACK":
        wide = shuffled(rng, range(rank + 1))
        narrow = without(wide, [attrs["axis"]])
        return Turned(dict.fromkeys(range(len(shapes)), narrow), {0: wide}, {"axis": wide.index(attrs["axis"])})
    if op in EACH:
        names = ("begin", "sizes") if op == "SLICE" else (EACH[op],)
        return Turned({0: perm}, {0: perm}, {name: [attrs[name][axis] for axis in perm] for name in names})
    if op == "BATCH_MATMUL":
        lead, swap = shuffled(rng, range(rank - 2)), rng.random() < 0.5
        sides = [rng.random() < 0.4 for _ in range(2)]
        flags = [attrs["adj_x"] ^ sides[0], attrs["adj_y"] ^ sides[1]]
        ends = [(rank - 1, rank - 2) if side else (rank - 2, rank - 1) for side in sides]
        made = Turned({port: (*lead, *end) for port, end in enumerate(ends)}, {0: (*lead, rank - 2, rank - 1)})
        if swap:  # the transpose of a product is the product of the transposes, the other way round
            made.outs[0] = (*lead, rank - 1, rank - 2)
            made.inputs, flags = [1, 0], [not flags[1], not flags[0]]
        made.attrs = {"adj_x": flags[0], "adj_y": flags[1]}
        return made
    if op == "Transpose":
        out = shuffled(rng, range(rank))
        return Turned({0: perm}, {0: out}, {"perm": [back[attrs["perm"][axis]] for axis in out]})
    return regrouped(net, node, rng) if op == "Reshape" else None


def _broadcast(net: LiteNet, node: Node, rng: random.Random) -> Turned | None:
    """An operator on single elements: dimensions that an operand lacks stay in front."""
    rank = len(net.shapes[node.outputs[0]])
    perm = shuffled(rng, range(rank))
    made = Turned({}, {0: perm})
    for port, name in enumerate(node.inputs):
        if name in net.consts:
            array = net.consts[name]
            if array.ndim:
                moved = lifted(array, rank).transpose(perm)
                while moved.shape[0] == 1 and moved.ndim > 1 and (rng.random() < 0.5 or node.op == "PRELU"):
                    moved = moved[0]
                if node.op == "PRELU" and moved.ndim != rank - 1:
                    return None
                made.consts[port] = moved
        elif len(net.shapes[name]) == rank:
            made.ins[port] = perm
        else:
            return None
    return made


def _last_weights(net: LiteNet, node: Node) -> Array | None:
    """The weights of an operator whose first dimension is the channels that it gives."""
    if node.op not in ("CONV_2D", "FULLY_CONNECTED") or not {*node.inputs[1:]} <= {*net.consts}:
        return None
    return net.consts[node.inputs[1]]


def channels_shuffled(net: LiteNet, node: Node, rng: random.Random) -> bool:
    """Weights that give channels in another order, and a channel shuffle that undoes it."""
    w, out = _last_weights(net, node), node.outputs[0]
    shape = net.shapes[out]
    if w is None or shape[-1] % 2:
        return False
    groups = rng.choice([2, shape[-1] // 2])
    order = np.arange(shape[-1]).reshape(groups, -1).T.reshape(-1)
    node.inputs[1:] = [net.const(net.consts[name][order]) for name in node.inputs[1:]]
    node.outputs[0] = net.tensor(out, shape)
    y = net.reshape(node.outputs[0], [*shape[:-1], shape[-1] // groups, groups])
    rank: int = len(shape)
    swap: Perm = (*range(rank - 1), rank, rank - 1)
    net.reshape(net.transpose(y, swap), shape, out)
    return True


def pointwise_as_dense(net: LiteNet, node: Node, rng: random.Random) -> bool:
    """A convolution of one pixel as a dense layer, of pixels in one dimension or as they are."""
    w, strides = _last_weights(net, node), [node.attrs.get("stride_h"), node.attrs.get("stride_w")]
    if node.op != "CONV_2D" or w is None or w.shape[1:3] != (1, 1) or strides != [1, 1]:
        return False
    x, out, shape = node.inputs[0], node.outputs[0], net.shapes[node.outputs[0]]
    if rng.random() < 0.5:
        pixels = math.prod(shape[:3])
        x = net.reshape(x, [pixels, w.shape[3]])
        node.outputs[0] = net.tensor(out, [pixels, shape[3]])
        net.reshape(node.outputs[0], shape, out)
    node.op, node.inputs = "FULLY_CONNECTED", [x, net.const(w[:, 0, 0]), *node.inputs[2:]]
    node.attrs = {
        "keep_num_dims": True,
        "fused_activation_function": node.attrs.get("fused_activation_function", "NONE"),
    }
    return True


def flattened_otherwise(net: LiteNet, node: Node, rng: random.Random) -> bool:
    """An image flattened in another order, with the weights of the dense layer behind rearranged."""
    readers = net.readers(node.outputs[0])
    if (
        node.op != "Reshape"
        or len(readers) != 1
        or readers[0].op != "FULLY_CONNECTED"
        or readers[0].attrs["keep_num_dims"]
    ):
        return False
    sizes, w = net.shapes[node.inputs[0]][1:], _last_weights(net, readers[0])
    if w is None or net.shapes[node.outputs[0]] != (net.shapes[node.inputs[0]][0], math.prod(sizes)):
        return False
    order = tuple(axis + 1 for axis in shuffled(rng, range(len(sizes))))
    whole = w.reshape(w.shape[0], *sizes).transpose((0, *order))
    readers[0].inputs[1] = net.const(whole.reshape(w.shape))
    node.inputs[0] = net.transpose(node.inputs[0], (0, *order))
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Make cases, convert them, and tell what was missed."""
    return planted_models.main(arguments, base, __doc__ or "", "tflite")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
