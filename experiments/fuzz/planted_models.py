"""Planted optima in whole ONNX models: networks as exporters write them, hidden by exact equivalences, solved again.

A *base* is a small network with no Transpose, or with one. It is disguised: operators are conjugated (Transposes in
front of what they read, the operator rewritten to that order of dimensions, Transposes behind what they write), edges
get pairs of moves that undo each other, products are turned, operands swapped, constants stored otherwise, Reshapes
factored; then neighbouring Transposes are merged, split, or written as Reshapes where they move dimensions of size 1
alone. Nothing here asks how layoutsolve works: models are made with onnx.helper and numpy, and held against the base
in ONNX Runtime. The result may have no more Transposes than the base where it is called optimal, nor more than one
above it at all; it computes the same; converting it again finds no fewer; and other objectives never end above the
source in their own count. Prints a table by operator of the base and what is left of each miss after steps and
operators were taken away while it persists, the most frequent kind first. The exit status is 1 if there is any.

    python -m experiments.fuzz.planted_models --count 2000 --seed 1
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

import layoutsolve
from layoutsolve.solver.statement.proof_scope import HEADS

OPSET = 18
OPEN = 11
"""A batch that is written as an open size: no other size is a multiple of it."""

SELDOM = 50
"""An operator is told that is in fewer of 10,000 models."""

Perm = tuple[int, ...]
Array = Any


# --- networks ---------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """An operator of a network."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass
class Net:
    """A network whose shapes are known, in a form that is easily rewritten."""

    rng: random.Random
    nodes: list[Node] = field(default_factory=list)
    consts: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    count: int = 0
    opset: int = OPSET

    def fresh(self, stem: str) -> str:
        """A name that is not taken."""
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, *shape: int, dtype: int = onnx.TensorProto.FLOAT) -> str:
        """A new input."""
        name = self.fresh("in")
        self.inputs.append(name)
        self.shapes[name], self.types[name] = tuple(shape), dtype
        return name

    def const(self, array: Array) -> str:
        """A constant."""
        name = self.fresh("c")
        self.consts[name] = np.asarray(array)
        self.shapes[name] = self.consts[name].shape
        self.types[name] = helper.np_dtype_to_tensor_dtype(self.consts[name].dtype)
        return name

    def weights(self, *shape: int) -> str:
        """Random weights."""
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        return self.const((numbers.standard_normal(shape) * 0.4).astype(np.float32))

    def positive(self, *shape: int) -> str:
        """Random weights above 0."""
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        return self.const(numbers.uniform(0.5, 1.5, shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        """A vector of integers."""
        return self.const(np.asarray(values, np.int64))

    def add(self, op: str, *inputs: str, outs: int = 1, **attrs: Any) -> Any:
        """An operator, whose shapes onnx infers."""
        node = Node(op, list(inputs), [self.fresh(op.lower()) for _ in range(outs)], attrs, self.fresh("node"))
        given = [name for name in dict.fromkeys(inputs) if name and name not in self.consts]
        held = [
            numpy_helper.from_array(self.consts[name], name) for name in dict.fromkeys(inputs) if name in self.consts
        ]
        ends = [helper.make_tensor_value_info(name, self.types[name], self.shapes[name]) for name in given]
        made = self.written_out(node)
        graph = helper.make_graph([made], "g", ends, [onnx.ValueInfoProto(name=name) for name in node.outputs], held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        found = onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True)
        for value in found.graph.output:
            self.shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            self.types[value.name] = value.type.tensor_type.elem_type
        self.nodes.append(node)
        return node.outputs[0] if outs == 1 else tuple(node.outputs)

    def written_out(self, node: Node) -> onnx.NodeProto:
        """An operator as a model has it."""
        return helper.make_node(node.op, node.inputs, node.outputs, name=node.name, **node.attrs)

    def tensor(self, like: str, shape: Sequence[int], stem: str = "t") -> str:
        """A name for a tensor of this shape, of the type of another one."""
        name = self.fresh(stem)
        self.shapes[name], self.types[name] = tuple(shape), self.types[like]
        return name

    def transpose(self, source: str, perm: Perm, target: str = "") -> str:
        """A Transpose of a tensor."""
        target = target or self.tensor(source, [self.shapes[source][p] for p in perm])
        self.nodes.append(Node("Transpose", [source], [target], {"perm": list(perm)}, self.fresh("node")))
        return target

    def reshape(self, source: str, shape: Sequence[int], target: str = "") -> str:
        """A Reshape of a tensor."""
        target = target or self.tensor(source, shape)
        self.nodes.append(Node("Reshape", [source, self.ints(*shape)], [target], {}, self.fresh("node")))
        return target

    def producers(self) -> dict[str, Node]:
        """What writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def readers(self, name: str) -> list[Node]:
        """What reads a tensor."""
        return [node for node in self.nodes if name in node.inputs]

    def pulled(self, name: str) -> bool:
        """Whether a tensor is a constant that another step has pulled apart."""
        made = self.producers().get(name)
        while made is not None and made.inputs:
            if made.inputs[0] in self.consts:
                return True
            made = self.producers().get(made.inputs[0])
        return False

    def rename(self, old: str, new: str) -> None:
        """Let all that read a tensor read another one."""
        for node in self.nodes:
            node.inputs = [new if name == old else name for name in node.inputs]

    def prune(self) -> None:
        """Sort the operators, and drop what nothing reads."""
        made, order, seen = self.producers(), list[Node](), set[str]()

        def visit(name: str) -> None:
            node = made.get(name)
            if node is None or node.name in seen:
                return
            seen.add(node.name)
            for source in node.inputs:
                visit(source)
            order.append(node)

        for name in self.outputs:
            visit(name)
        self.nodes = order
        read = {name for node in order for name in node.inputs}
        self.inputs = [name for name in self.inputs if name in read or name in self.outputs]

    def model(self) -> onnx.ModelProto:
        """The network as an ONNX model."""
        self.prune()
        info = helper.make_tensor_value_info
        consts, shapes = self.opened()
        nodes = [self.written_out(node) for node in self.nodes]
        read = dict.fromkeys(name for node in self.nodes for name in node.inputs if name in consts)
        held = [numpy_helper.from_array(np.array(consts[name], order="C"), name) for name in read]
        ends = [
            [info(name, self.types[name], shapes.get(name, self.shapes[name])) for name in names]
            for names in (self.inputs, self.outputs)
        ]
        graph = helper.make_graph(nodes, "planted", ends[0], ends[1], held)
        version = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[version], ir_version=8 if self.opset == OPSET else 10)

    def opened(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Constants and the shapes of ends with the batch open, where it is one that may be and no constant has it."""
        read = {name for node in self.nodes for name in node.inputs if name in self.consts}
        sizes = {size for name in read for size in self.consts[name].shape}
        if not any(self.shapes[name][:1] == (OPEN,) for name in self.inputs) or any(s % OPEN == 0 for s in sizes if s):
            return self.consts, {}
        consts = dict(self.consts)
        for node in self.nodes:
            if node.op in ("Reshape", "Expand", "Resize", "Slice"):
                name = node.inputs[-1 if node.op == "Resize" else 2 if node.op == "Slice" else 1]
                held = consts[name] if name in consts else self.consts[name]
                if held.dtype != np.int64:
                    continue
                if node.op in ("Resize", "Slice") and np.any((held > 0) & (held % OPEN == 0)):
                    return self.consts, {}
                other = np.where((held > 0) & (held % OPEN == 0), -1 if node.op == "Reshape" else 1, held)
                if np.sum(other < 0) > 1 and node.op == "Reshape":
                    return self.consts, {}
                consts[name] = other
        shapes = dict[str, Any]()
        for name in (*self.inputs, *self.outputs):
            shapes[name] = [size if size % OPEN else f"n{size // OPEN}" for size in self.shapes[name]]
        return consts, shapes

    def source(self) -> bytes:
        """The network as a file."""
        return self.model().SerializeToString()

    def text(self) -> str:
        """The network as a person reads it, without its constants."""
        return text(self.model())

    @property
    def planted(self) -> int:
        """How many Transposes it needs by construction, before it is disguised."""
        return sum(node.op == "Transpose" for node in self.nodes)

    def turned(self, node: Node, rng: random.Random) -> Turned | None:
        """An operator in other orders of dimensions."""
        return turned(self, node, rng)

    def rewritten(self, kind: str, node: Node, rng: random.Random) -> bool:
        """Apply an equivalence of some operators alone."""
        if kind == "product":
            return blocks_as_views(self, node, 1) or pointwise_as_product(self, node)
        if kind == "channels":
            return channels_shuffled(self, node, rng)
        return kind == "flat" and flattened_otherwise(self, node, rng)

    def data(self, seed: int) -> dict[str, Array]:
        """Random inputs."""
        numbers = np.random.default_rng(seed)
        kinds = {name: helper.tensor_dtype_to_np_dtype(self.types[name]) for name in self.inputs}
        return {name: numbers.standard_normal(self.shapes[name]).astype(kind) for name, kind in kinds.items()}

    def results(self, data: dict[str, Array]) -> list[Array]:
        """What the network computes."""
        return computed(self.model(), {name: data[name] for name in self.inputs})

    def converted(self, objective: str) -> layoutsolve.Conversion:
        """The network as layoutsolve writes it."""
        return layoutsolve.convert(self.source(), objective=objective)

    def written(self, made: layoutsolve.Conversion, data: dict[str, Array], level: str) -> list[Array]:
        """What is computed by what layoutsolve has written."""
        return computed(made.model, {port.name: data[port.name] for port in made.model.graph.input}, level)

    def runs(self, data: dict[str, Array], level: str) -> bool:
        """Whether the network itself runs at a level of ONNX Runtime's optimiser."""
        return runs(self.model(), {name: data[name] for name in self.inputs}, level)

    def copy(self) -> Net:
        """A copy that may be rewritten."""
        return replace(
            self,
            nodes=deepcopy(self.nodes),
            consts=dict(self.consts),
            inputs=list(self.inputs),
            outputs=list(self.outputs),
            shapes=dict(self.shapes),
            types=dict(self.types),
        )


# --- bases ------------------------------------------------------------------------------------------------------------

UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Celu", "Selu", "Softplus", "Softsign", "Abs")
UNARY += ("Neg", "Exp", "Erf", "LeakyRelu", "ThresholdedRelu", "Shrink", "Mish", "Floor", "Sin", "Identity", "Sign")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare")
REDUCTIONS += ("ReduceLogSumExp", "ReduceProd")
ALONG = ("Softmax", "LogSoftmax", "Hardmax", "CumSum", "LpNormalization", "TopK", "ArgMax", "GatherElements", "Pad")
ALONG += ("ScatterElements", "Gather", "Split", "Slice", "Concat", "Tile", "Compress", "Reverse", "Expand")
SYMMETRIC = ("Add", "Mul", "Max", "Min", "ADD", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
UNUSUAL = (
    "lower",
    "gather",
    "gather_nd",
    "one_hot",
    "all",
    "layer",
    "pad",
    "slice",
    "split",
    "logic",
    "mod",
    "diagonal",
)
UNUSUAL += ("dynamic", "reverse", "det", "scatter_nd", "matmul", "clip", "dropout", "sum", "sizes")


def unary(net: Net, x: str) -> str:
    """An activation."""
    return str(net.add(net.rng.choice(UNARY), x))


def convolution(net: Net, x: str) -> str:
    """A convolution with what follows it."""
    rng, channels = net.rng, net.shapes[x][1]
    spatial = len(net.shapes[x]) - 2
    groups = rng.choice([1, 1, 1, channels, 2])
    outs = channels if groups == channels else rng.choice([4, 6, 8])
    kernel = [rng.choice([1, 3]) if min(net.shapes[x][2:]) > 2 else 1 for _ in range(spatial)]
    if rng.random() < 0.3:
        kernel = [1] * spatial
    pads = [k // 2 for k in kernel]
    w = net.weights(outs, channels // groups, *kernel)
    bias = [net.weights(outs)] if rng.random() < 0.6 else []
    attrs: dict[str, Any] = {"kernel_shape": kernel, "group": groups, "pads": pads + pads}
    if rng.random() < 0.2:
        attrs["strides"] = [rng.choice([1, 2]) for _ in kernel]
    y = net.add("Conv", x, w, *bias, **attrs)
    if rng.random() < 0.3:
        y = net.add("BatchNormalization", y, *[net.positive(outs) for _ in range(4)])
    return unary(net, y) if rng.random() < 0.6 else str(y)


def residual(net: Net, x: str) -> str:
    """A residual around a convolution."""
    c = net.shapes[x][1]
    spatial = len(net.shapes[x]) - 2
    y = net.add("Conv", x, net.weights(c, c, *[3] * spatial), kernel_shape=[3] * spatial, pads=[1] * (2 * spatial))
    return str(net.add(net.rng.choice(["Add", "Mul", "Sub", "Max"]), x, y))


def gate(net: Net, x: str) -> str:
    """Squeeze and excitation."""
    c = net.shapes[x][1]
    spatial = len(net.shapes[x]) - 2
    axes = list(range(2, 2 + spatial))
    way = net.rng.choice(["GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax"])
    y = net.add(way, x) if way.startswith("Global") else net.add(way, x, net.ints(*axes), keepdims=1)
    y = net.add("Conv", y, net.weights(c, c, *[1] * spatial))
    return str(net.add("Mul", x, net.add(net.rng.choice(["Sigmoid", "HardSigmoid"]), y)))


def transposed(net: Net, x: str) -> str:
    """A ConvTranspose."""
    c, spatial = net.shapes[x][1], len(net.shapes[x]) - 2
    strides = [net.rng.choice([1, 2]) for _ in range(spatial)]
    return str(
        net.add("ConvTranspose", x, net.weights(c, 4, *[2] * spatial), strides=strides, kernel_shape=[2] * spatial)
    )


def pool(net: Net, x: str) -> str:
    """A pooling."""
    rng, spatial = net.rng, len(net.shapes[x]) - 2
    kernel = [rng.choice([1, 2, 3]) if size > 3 else 1 for size in net.shapes[x][2:]]
    pads = [k // 2 for k in kernel] + [0] * spatial if rng.random() < 0.5 else [0] * 2 * spatial
    op = rng.choice(["MaxPool", "AveragePool", "LpPool"])
    more = {"count_include_pad": rng.choice([0, 1])} if op == "AveragePool" else {}
    return str(net.add(op, x, kernel_shape=kernel, pads=pads, strides=[rng.choice([1, k]) for k in kernel], **more))


def upsampling(net: Net, x: str) -> str:
    """A Resize of pixels."""
    spatial = len(net.shapes[x]) - 2
    scales = np.asarray([1, 1, *[net.rng.choice([1, 2]) for _ in range(spatial)]], np.float32)
    mode = net.rng.choice(["nearest", "linear"])
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    return str(
        net.add("Resize", x, "", net.const(scales), mode=mode, coordinate_transformation_mode="asymmetric", **more)
    )


def instance(net: Net, x: str) -> str:
    """A normalisation of images."""
    c = net.shapes[x][1]
    op = net.rng.choice(
        ["InstanceNormalization", "BatchNormalization", "LRN", "MeanVarianceNormalization", "LpNormalization"]
    )
    if op == "LRN":
        return str(net.add(op, x, size=3))
    if op == "MeanVarianceNormalization":
        return str(net.add(op, x, axes=list(range(2, len(net.shapes[x])))))
    if op == "LpNormalization":
        return str(net.add(op, x, axis=1, p=net.rng.choice([1, 2])))
    return str(net.add(op, x, *[net.positive(c) for _ in range(2 if op[0] == "I" else 4)]))


def quantized(net: Net, x: str) -> str:
    """A quantized tensor, per tensor or per axis."""
    axis = net.rng.randrange(len(net.shapes[x]))
    if net.rng.random() < 0.5:
        scale, zero, more = net.const(np.float32(0.05)), net.const(np.uint8(120)), {}
    else:
        size = net.shapes[x][axis]
        scale = net.const(np.linspace(0.02, 0.06, size, dtype=np.float32))
        zero, more = net.const(np.arange(size).astype(np.uint8) + 110), {"axis": axis}
    return str(net.add("DequantizeLinear", net.add("QuantizeLinear", x, scale, zero, **more), scale, zero, **more))


def along(net: Net, x: str) -> str:
    """An operator along an axis."""
    rng, shape = net.rng, net.shapes[x]
    axis = rng.randrange(len(shape))
    op = rng.choice(ALONG)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    if op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        return str(net.add(op, x, axis=axis))
    if op == "CumSum":
        return str(net.add(op, x, net.const(np.int64(axis)), exclusive=rng.choice([0, 1]), reverse=rng.choice([0, 1])))
    if op == "TopK":
        values, chosen = net.add(op, x, net.ints(max(1, shape[axis] // 2)), outs=2, axis=axis)
        if rng.random() < 0.3:
            net.outputs.append(chosen)
        return str(values)
    if op == "ArgMax":
        found = net.add(rng.choice(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=1)
        return str(net.add("Cast", found, to=onnx.TensorProto.FLOAT))
    if op in ("GatherElements", "ScatterElements"):
        picked = np.argsort(numbers.random(shape), axis=axis).astype(np.int64)
        if op == "GatherElements":
            return str(net.add(op, x, net.const(picked), axis=axis))
        return str(net.add(op, x, net.const(picked), net.weights(*shape), axis=axis))
    if op == "Gather":
        size = rng.randint(1, shape[axis] + 1)
        return str(net.add(op, x, net.const(numbers.integers(0, shape[axis], size)), axis=axis))
    if op == "Split" and shape[axis] % 2 == 0:
        one, other = net.add(op, x, outs=2, axis=axis, num_outputs=2)
        return str(net.add(rng.choice(["Mul", "Add", "Sub"]), one, net.add("Sigmoid", other)))
    if op == "Slice":
        return str(net.add(op, x, net.ints(0), net.ints(shape[axis]), net.ints(axis), net.ints(rng.choice([1, 2]))))
    if op == "Reverse":
        return str(net.add("Slice", x, net.ints(-1), net.ints(-(1 << 40)), net.ints(axis), net.ints(-1)))
    if op == "Pad":
        pads = [0] * (2 * len(shape))
        pads[axis], pads[axis + len(shape)] = 1, rng.choice([0, 1])
        mode = rng.choice(["constant", "edge", "reflect"]) if shape[axis] > 1 else "constant"
        return str(net.add(op, x, net.ints(*pads), mode=mode))
    if op == "Concat":
        return str(net.add(op, x, net.add("Neg", x) if rng.random() < 0.5 else net.weights(*shape), axis=axis))
    if op == "Tile":
        return str(net.add(op, x, net.ints(*[2 if i == axis else 1 for i in range(len(shape))])))
    if op == "Compress":
        keep = np.arange(shape[axis]) % 3 != 1
        y = str(net.add(op, x, net.const(keep), axis=axis))
        net.shapes[y] = (*shape[:axis], int(keep.sum()), *shape[axis + 1 :])
        return y
    if op == "Expand":
        y = net.add("ReduceMean", x, net.ints(axis), keepdims=1)
        return str(net.add(op, y, net.ints(*shape)))
    return unary(net, x)


def reduction(net: Net, x: str) -> str:
    """A reduction that keeps its dimensions, and what it is taken off."""
    rank = len(net.shapes[x])
    axes = sorted(net.rng.sample(range(rank), net.rng.randint(1, 2)))
    y = net.add(net.rng.choice(REDUCTIONS), x, net.ints(*axes), keepdims=1)
    return str(net.add(net.rng.choice(["Sub", "Mul", "Add", "Min"]), x, y))


def broadcast(net: Net, x: str) -> str:
    """Arithmetic with a constant that broadcasts."""
    rng, shape = net.rng, net.shapes[x]
    sizes = [size if rng.random() < 0.5 else 1 for size in shape]
    sizes = sizes[rng.randrange(len(sizes)) :]
    op = rng.choice(["Add", "Mul", "Sub", "Div", "PRelu", "Where", "Clip", "Max", "Pow"])
    if op == "Where":
        test = net.add(rng.choice(["Greater", "Less", "GreaterOrEqual"]), x, net.weights(*sizes))
        return str(net.add(op, test, x, net.weights(*sizes)))
    if op == "Clip":
        return str(net.add(op, x, net.const(np.float32(-0.5)), net.const(np.float32(0.9))))
    if op == "Pow":
        return str(net.add(op, net.add("Abs", x), net.positive(*sizes)))
    return str(net.add(op, x, net.positive(*sizes)))


def shuffle(net: Net, x: str) -> str:
    """Channels grouped and joined again, by Reshapes, with an operator between."""
    shape = net.shapes[x]
    y = net.reshape(x, [shape[0], 2, shape[1] // 2, *shape[2:]])
    y = net.add("Softmax", y, axis=1) if net.rng.random() < 0.5 else reduction(net, y)
    return net.reshape(y, shape)


def blocks(net: Net, x: str) -> str:
    """Space to depth, or back."""
    shape = net.shapes[x]
    if shape[1] % 4 == 0 and net.rng.random() < 0.6:
        return str(net.add("DepthToSpace", x, blocksize=2, mode=net.rng.choice(["DCR", "CRD"])))
    if shape[2] % 2 == 0 and shape[3] % 2 == 0:
        return str(net.add("SpaceToDepth", x, blocksize=2))
    return unary(net, x)


def head(net: Net, x: str) -> str:
    """A detection head: pixels joined, two branches concatenated."""
    shape = net.shapes[x]
    spatial = len(shape) - 2
    both = []
    for _ in range(2):
        y = net.add("Conv", x, net.weights(4, shape[1], *[1] * spatial))
        both.append(net.reshape(y, [shape[0], 4, math.prod(shape[2:])]))
    return str(net.add("Concat", *both, axis=net.rng.choice([1, 2])))


def dense(net: Net, x: str) -> str:
    """A product by weights."""
    width, rank = net.shapes[x][-1], len(net.shapes[x])
    out = net.rng.choice([4, 6])
    if rank == 2 and net.rng.random() < 0.7:
        return str(
            net.add(
                "Gemm",
                x,
                net.weights(out, width),
                net.weights(out),
                transB=1,
                alpha=net.rng.choice([1.0, 1.0, 1.0, 0.5]),
            )
        )
    if net.rng.random() < 0.3:
        letters = "abcdef"[: rank - 1]
        return str(net.add("Einsum", x, net.weights(width, out), equation=f"{letters}y,yz->{letters}z"))
    y = net.add("MatMul", x, net.weights(width, out))
    return str(net.add("Add", y, net.weights(out)))


def mixing(net: Net, x: str) -> str:
    """A product along tokens, weights first."""
    tokens = net.shapes[x][-2]
    return str(net.add("Add", net.add("MatMul", net.weights(tokens, tokens), x), x))


def normalised(net: Net, x: str) -> str:
    """Layer normalisation."""
    width = net.shapes[x][-1]
    return str(net.add("LayerNormalization", x, net.positive(width), net.weights(width), axis=-1))


def attention(net: Net, x: str) -> str:
    """Attention of one head, keys by an Einsum or stored with the features first."""
    width = net.shapes[x][-1]
    q, v = (net.add("MatMul", x, net.weights(width, 4)) for _ in range(2))
    lead = "abcd"[: len(net.shapes[x]) - 2]
    if net.rng.random() < 0.5:
        scores = net.add(
            "Einsum", q, net.add("MatMul", x, net.weights(width, 4)), equation=f"{lead}qd,{lead}kd->{lead}qk"
        )
    else:
        scores = net.add("MatMul", q, net.weights(*net.shapes[x][:-2], 4, 5))
        v = net.weights(*net.shapes[x][:-2], 5, 4)
    return str(net.add("MatMul", net.add("Softmax", scores, axis=-1), v))


def contraction(net: Net, x: str) -> str:
    """An Einsum of two activations."""
    rank = len(net.shapes[x])
    letters = "abcde"[:rank]
    drop = net.rng.randrange(rank)
    kept = letters[:drop] + letters[drop + 1 :]
    return str(net.add("Einsum", x, net.add("Sigmoid", x), equation=f"{letters},{letters}->{kept}"))


def dropped(net: Net, x: str) -> str:
    """A reduction that drops a dimension."""
    axis = net.rng.randrange(len(net.shapes[x]))
    if net.rng.random() < 0.4:
        found = net.add("ArgMax", x, axis=axis, keepdims=0)
        return str(net.add("Cast", found, to=onnx.TensorProto.FLOAT))
    return str(net.add(net.rng.choice(REDUCTIONS), x, net.ints(axis), keepdims=0))


def recurrent(net: Net, x: str) -> str:
    """A recurrent network along the first dimension."""
    width = net.shapes[x][2]
    op = net.rng.choice(["GRU", "LSTM", "RNN"])
    gates, hidden = {"GRU": 3, "LSTM": 4, "RNN": 1}[op], 4
    w, r = net.weights(1, gates * hidden, width), net.weights(1, gates * hidden, hidden)
    y = net.add(op, x, w, r, hidden_size=hidden)
    return str(net.add("Squeeze", y, net.ints(1)))


def unsqueezed(net: Net, x: str) -> str:
    """A dimension of size 1 that comes, and one that goes."""
    axis = net.rng.randrange(len(net.shapes[x]) + 1)
    y = unary(net, net.add("Unsqueeze", x, net.ints(axis)))
    return str(net.add("Squeeze", y, net.ints(axis)))


def triangle(net: Net, x: str) -> str:
    """A causal mask, or pairs of what is alike."""
    return str(net.add("Trilu", x, upper=net.rng.choice([0, 1])))


def unusual(net: Net, x: str) -> str:
    """Operators in ways that exporters seldom write."""
    rng, shape = net.rng, net.shapes[x]
    rank = len(shape)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    axis = rng.randrange(rank)
    way = rng.choice(UNUSUAL)
    if way == "lower" and rank > 1:
        lead = rng.randint(1, rank - 1)
        y = net.add("ReduceMean", x, net.ints(*range(lead)), keepdims=0)
        return str(net.add(rng.choice(["Add", "Mul", "Sub", "Max"]), *rng.sample([x, y], 2)))
    if way == "gather":
        chosen = numbers.integers(0, shape[axis], rng.choice([(), (2, 3)]))
        return str(net.add("Gather", x, net.const(np.asarray(chosen, np.int64)), axis=axis))
    if way in ("gather_nd", "scatter_nd"):
        depth = rng.randint(1, min(rank, 2))
        chosen = np.stack([numbers.integers(0, size, 3) for size in shape[:depth]], 1)
        if way == "gather_nd":
            return str(net.add("GatherND", x, net.const(chosen)))
        chosen = np.asarray([[0] * depth, [1 if size > 1 else 0 for size in shape[:depth]]], np.int64)
        if not chosen[1].any():
            return unary(net, x)
        return str(net.add("ScatterND", x, net.const(chosen), net.weights(2, *shape[depth:])))
    if way == "one_hot":
        found = net.add("ArgMax", x, axis=axis, keepdims=0)
        values = net.const(np.asarray([0.25, 1.5], np.float32))
        return str(net.add("OneHot", found, net.const(np.int64(shape[axis])), values, axis=rng.choice([-1, axis])))
    if way == "all":
        return str(net.add("Div", x, net.add("ReduceL2", net.add("Exp", x), keepdims=1)))
    if way == "layer":
        sizes = shape[axis:]
        return str(net.add("LayerNormalization", x, net.positive(*sizes), net.weights(*sizes), axis=axis - rank))
    if way == "pad":
        return str(
            net.add("Pad", x, net.ints(1, 2), net.const(np.float32(0.5)), net.ints(axis - rank), mode="constant")
        )
    if way == "slice":
        size = shape[0]
        return str(net.add("Slice", x, net.ints(0), net.ints(size)))
    if way == "split" and shape[axis] > 2:
        one, other = net.add("Split", x, net.ints(1, shape[axis] - 1), outs=2, axis=axis - rank)
        return str(net.add("Mul", one, other))
    if way == "logic":
        test = net.add("And", net.add("Greater", x, net.weights(1)), net.add("Not", net.add("IsNaN", x)))
        return str(net.add("Where", test, x, net.add("Neg", x)))
    if way == "mod":
        return str(net.add("Mod", x, net.positive(*shape), fmod=1))
    if way == "diagonal" and rank > 2:
        letters = "abcdef"[:rank]
        return str(net.add("Einsum", x, net.weights(shape[axis]), equation=f"{letters},{letters[axis]}->{letters}"))
    if way == "dynamic":
        y, scale, zero = net.add("DynamicQuantizeLinear", x, outs=3)
        return str(net.add("DequantizeLinear", y, scale, zero))
    if way == "reverse" and rank > 2:
        return str(net.add("ReverseSequence", x, net.ints(*[2] * shape[0]), batch_axis=0, time_axis=1))
    if way == "det" and rank > 2:
        return str(
            net.add(
                "Det",
                net.add("Einsum", x, x, equation=f"{'abc'[: rank - 2]}yz,{'abc'[: rank - 2]}xz->{'abc'[: rank - 2]}yx"),
            )
        )
    if way == "matmul" and rank > 2:
        return str(net.add("MatMul", x, net.weights(*[1] * (rank - 2), shape[-1], 4)))
    if way == "clip":
        return str(net.add("Clip", x, "", net.const(np.float32(0.7))))
    if way == "dropout":
        return str(net.add("Dropout", x))
    if way == "sum":
        return str(net.add(rng.choice(["Sum", "Mean", "Max"]), x, net.add("Tanh", x), net.weights(*shape)))
    if way == "sizes":
        sizes = [*shape[:-1], shape[-1] + 2]
        return str(
            net.add(
                "Resize",
                x,
                "",
                "",
                net.ints(*sizes),
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
        )
    return unary(net, x)


def classified(net: Net, x: str) -> str:
    """Images flattened for a dense layer."""
    shape = net.shapes[x]
    if math.prod(shape[1:]) > 600:
        return unary(net, x)
    y = net.add("Flatten", x, axis=1)
    return str(net.add("Gemm", y, net.weights(4, math.prod(shape[1:])), net.weights(4), transB=1))


def integers(net: Net, x: str) -> str:
    """A product of integers."""
    shape = net.shapes[x]
    scale, zero = net.const(np.float32(0.05)), net.const(np.uint8(128))
    y = net.add("QuantizeLinear", x, scale, zero)
    numbers = np.random.default_rng(net.rng.randrange(1 << 30))
    c = shape[1]
    if len(shape) == 4:
        w = net.const(numbers.integers(-9, 9, (4, c, 1, 3)).astype(np.int8))
        s, z = net.const(np.float32(0.01)), net.const(np.int8(0))
        if net.rng.random() < 0.5:
            y = net.add("QLinearConv", y, scale, zero, w, s, z, scale, zero, kernel_shape=[1, 3], pads=[0, 1, 0, 1])
            return str(net.add("DequantizeLinear", y, scale, zero))
        y = net.add("ConvInteger", y, w, zero, z, kernel_shape=[1, 3], pads=[0, 1, 0, 1])
    else:
        w = net.const(numbers.integers(0, 9, (shape[-1], 4)).astype(np.uint8))
        y = net.add("MatMulInteger", y, w, zero)
    return str(net.add("Cast", y, to=onnx.TensorProto.FLOAT))


def sampled(net: Net, x: str) -> str:
    """Pixels sampled at places of a grid."""
    numbers = np.random.default_rng(net.rng.randrange(1 << 30))
    grid = numbers.uniform(-0.9, 0.9, (net.shapes[x][0], 3, 5, 2)).astype(np.float32)
    return str(net.add("GridSample", x, net.const(grid), mode="bilinear", padding_mode="zeros"))


Block = Callable[[Net, str], str]
IMAGE: tuple[Block, ...] = (
    convolution,
    convolution,
    residual,
    gate,
    transposed,
    pool,
    upsampling,
    instance,
    shuffle,
    blocks,
)
ANY: tuple[Block, ...] = (
    unary,
    quantized,
    along,
    along,
    along,
    reduction,
    broadcast,
    broadcast,
    unsqueezed,
    contraction,
)
ANY += (unusual, unusual, unusual)
TOKENS: tuple[Block, ...] = (dense, dense, mixing, normalised, attention, recurrent, triangle)


def base(seed: int, blocks_most: int = 4) -> tuple[Net, int]:
    """A network and how many Transposes it has."""
    rng = random.Random(seed)
    net = Net(rng)
    kind = rng.choice(["image", "image", "image", "tokens", "tokens", "line", "volume", "matrix"])
    batch = rng.choice([1, 1, 2, OPEN])
    shape = {
        "image": (batch, rng.choice([4, 6, 8]), *rng.sample([3, 5, 6, 7], 2)),
        "tokens": (batch, *rng.sample([3, 4, 5, 6], 2)),
        "line": (batch, rng.choice([4, 6]), rng.choice([5, 7])),
        "volume": (1, 4, *rng.sample([3, 4, 5], 3)),
        "matrix": (3, 6),
    }[kind]
    planted = int(rng.random() < 0.2 and len(shape) > 2)
    x = net.input(*([shape[0], *shape[2:], shape[1]] if planted else shape))
    if planted:  # channels come last, as readers of images give them
        x = net.transpose(x, (0, len(shape) - 1, *range(1, len(shape) - 1)))
    for _ in range(rng.randint(1, blocks_most)):
        rank, choice = len(net.shapes[x]), list[Block](ANY)
        if kind in ("image", "line", "volume") and rank == len(shape) and rank > 2:
            choice += [block for block in IMAGE if block is not blocks or rank == 4]
            choice += [integers, sampled] if rank == 4 else []
        elif rank in (2, 3):
            choice += [block for block in TOKENS if block is not recurrent or rank == 3]
        if rank > 2 and rng.random() < 0.15:
            choice = [head, dropped, classified] if kind != "tokens" else [dropped]
        block = rng.choice(choice)
        if block is contraction and rank < 3:
            continue
        if block is shuffle and net.shapes[x][1] % 2:
            continue
        x = block(net, x)
    net.outputs = [name for name in net.outputs if name != x] + [x]
    if not net.nodes:
        net.outputs = [unary(net, x)]
    net.prune()
    if any(0 in net.shapes[name] for node in net.nodes for name in node.outputs if name):
        raise ValueError("an empty tensor")
    return net, planted


# --- conjugation ------------------------------------------------------------------------------------------------------


@dataclass
class Turned:
    """How an operator is rewritten: orders of what it reads and writes, and what else of it changes."""

    ins: dict[int, Perm]
    outs: dict[int, Perm]
    attrs: dict[str, Any] = field(default_factory=dict)
    consts: dict[int, Array] = field(default_factory=dict)
    inputs: list[int] | None = None


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes another one."""
    return tuple(perm.index(i) for i in range(len(perm)))


def shuffled(rng: random.Random, items: Sequence[int]) -> Perm:
    """The items in a random order; rotations and swaps are more frequent than others, as exporters write these."""
    items = list(items)
    way = rng.random()
    if way < 0.3 and len(items) > 1:
        return (*items[-1:], *items[:-1]) if rng.random() < 0.5 else (*items[1:], items[0])
    if way < 0.45 and len(items) > 1:
        i = rng.randrange(len(items) - 1)
        items[i], items[i + 1] = items[i + 1], items[i]
        return tuple(items)
    rng.shuffle(items)
    return tuple(items)


def lifted(array: Array, rank: int) -> Array:
    """A constant with leading dimensions of size 1."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def without(perm: Perm, axes: Sequence[int]) -> Perm:
    """A permutation of what is left when axes are dropped."""
    rest = [axis for axis in range(len(perm)) if axis not in axes]
    return tuple(rest.index(axis) for axis in perm if axis in rest)


def axes_of(net: Net, node: Node, port: int) -> list[int]:
    """Axes that a constant gives."""
    rank = len(net.shapes[node.inputs[0]])
    return [int(axis) % rank for axis in np.ravel(net.consts[node.inputs[port]])]


def turned(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """An operator in other orders of dimensions, from what ONNX defines it as."""
    op, attrs = node.op, node.attrs
    shapes = [net.shapes.get(name, ()) for name in node.inputs]
    rank = len(shapes[0])
    constant = [name in net.consts for name in node.inputs]
    perm = shuffled(rng, range(rank))
    back = inverse(perm)
    if op in UNARY or op in ("Cast", "Not", "IsNaN", "Dropout"):
        return Turned({0: perm}, {0: perm})
    if op in (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "PRelu",
        "Where",
        "Max",
        "Min",
        "Pow",
        "Greater",
        "Less",
        "GreaterOrEqual",
        "Clip",
        "And",
        "Mod",
        "Sum",
        "Mean",
    ):
        rank = len(net.shapes[node.outputs[0]])
        lowest = min([rank, *[len(shape) for shape, held in zip(shapes, constant, strict=True) if not held]])
        if op == "Clip":
            lowest = rank
        trailing = shuffled(rng, range(lowest))  # what dimensions of a lower rank stand for stays behind
        perm = tuple(shuffled(rng, range(rank - lowest))) + tuple(axis + rank - lowest for axis in trailing)
        made = Turned({}, {0: perm})
        for i, shape in enumerate(shapes):
            if op == "Clip" and i:
                continue
            if constant[i]:
                array = net.consts[node.inputs[i]]
                if array.ndim:
                    moved = lifted(array, rank).transpose(perm)
                    while moved.ndim and moved.shape[0] == 1 and rng.random() < 0.5:
                        moved = moved[0]
                    made.consts[i] = moved
            elif len(shape) == rank:
                made.ins[i] = perm
            elif len(shape) == lowest:
                made.ins[i] = trailing
            else:
                return None
        return made
    if op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "TopK"):
        axis = back[attrs.get("axis", -1) % rank]
        return Turned({0: perm}, dict.fromkeys(range(len(node.outputs)), perm), {"axis": axis})
    if op == "Concat":
        made = Turned({}, {0: perm}, {"axis": back[attrs["axis"] % rank]})
        for i, name in enumerate(node.inputs):
            if constant[i]:
                made.consts[i] = net.consts[name].transpose(perm)
            else:
                made.ins[i] = perm
        return made
    if op == "Split":
        return Turned({0: perm}, dict.fromkeys(range(len(node.outputs)), perm), {"axis": back[attrs["axis"] % rank]})
    if op == "CumSum":
        return Turned({0: perm}, {0: perm}, consts={1: np.int64(back[int(net.consts[node.inputs[1]])])})
    if op in ("ArgMax", "ArgMin"):
        axis = attrs["axis"]
        out = perm if attrs["keepdims"] else without(perm, [axis])
        return Turned({0: perm}, {0: out}, {"axis": back[axis]})
    if op in REDUCTIONS and len(node.inputs) == 1:
        return Turned({0: perm}, {0: perm} if attrs["keepdims"] else {})
    if op in REDUCTIONS:
        axes = axes_of(net, node, 1)
        out = perm if attrs["keepdims"] else without(perm, axes)
        return Turned({0: perm}, {0: out}, consts={1: np.asarray([back[axis] for axis in axes], np.int64)})
    if op == "MeanVarianceNormalization":
        return Turned({0: perm}, {0: perm}, {"axes": [back[axis] for axis in attrs["axes"]]})
    if op in ("GatherElements", "ScatterElements"):
        moved = {i: net.consts[node.inputs[i]].transpose(perm) for i in range(1, len(shapes))}
        return Turned({0: perm}, {0: perm}, {"axis": back[attrs["axis"]]}, moved)
    if op == "Gather":
        axis, more = attrs["axis"], len(shapes[1])
        wide = list[int]()
        for one in perm:
            wide += range(axis, axis + more) if one == axis else [one + (more - 1 if one > axis else 0)]
        return Turned({0: perm}, {0: tuple(wide)}, {"axis": back[axis]})
    if op in ("GatherND", "ScatterND"):
        depth = shapes[1][-1]
        first, rest = shuffled(rng, range(depth)), shuffled(rng, range(rank - depth))
        whole = (*first, *[axis + depth for axis in rest])
        picked = {1: net.consts[node.inputs[1]][:, list(first)]}
        if op == "GatherND":
            return Turned({0: whole}, {0: (0, *[axis + 1 for axis in rest])}, consts=picked)
        picked[2] = net.consts[node.inputs[2]].transpose((0, *[axis + 1 for axis in rest]))
        return Turned({0: whole}, {0: whole}, consts=picked)
    if op == "OneHot":
        axis = attrs["axis"] % (rank + 1)
        wide_perm = shuffled(rng, range(rank + 1))
        return Turned({0: without(wide_perm, [axis])}, {0: wide_perm}, {"axis": wide_perm.index(axis)})
    if op == "ReverseSequence":
        rest = shuffled(rng, range(2, rank))
        return (
            Turned({0: (1, 0, *rest)}, {0: (1, 0, *rest)}, {"batch_axis": 1, "time_axis": 0})
            if (attrs["batch_axis"] == 0)
            else None
        )
    if op == "Det":
        lead = shuffled(rng, range(rank - 2))
        return Turned({0: (*lead, *shuffled(rng, (rank - 2, rank - 1)))}, {0: lead})
    if op == "DynamicQuantizeLinear":
        return Turned({0: perm}, {0: perm})
    if op == "GridSample":
        return Turned({0: (0, 1, 3, 2)}, {}, consts={1: np.flip(net.consts[node.inputs[1]], -1)})
    if op == "MatMulInteger":
        whole = (*shuffled(rng, range(rank - 1)), rank - 1)
        return Turned({0: whole}, {0: whole})
    if op in ("QLinearConv", "ConvInteger"):
        perm, kernel, pads = (0, 1, 3, 2), attrs["kernel_shape"], attrs["pads"]
        port = 3 if op == "QLinearConv" else 1
        changed = {"kernel_shape": kernel[::-1], "pads": [pads[i] for i in (1, 0, 3, 2)]}
        return Turned({0: perm}, {0: perm}, changed, {port: net.consts[node.inputs[port]].transpose(perm)})
    if op in ("Compress",):
        return Turned({0: perm}, {0: perm}, {"axis": back[attrs["axis"]]})
    if op == "Slice":
        axes = axes_of(net, node, 3) if len(node.inputs) > 3 else [0]
        if len(node.inputs) == 3:
            if perm[0] != 0:
                return None
            return Turned({0: perm}, {0: perm})
        return Turned({0: perm}, {0: perm}, consts={3: np.asarray([back[axis] for axis in axes], np.int64)})
    if op == "Pad":
        pads = net.consts[node.inputs[1]]
        if len(node.inputs) > 3:
            return Turned({0: perm}, {0: perm}, consts={3: np.asarray([back[axes_of(net, node, 3)[0]]], np.int64)})
        return Turned({0: perm}, {0: perm}, consts={1: pads.reshape(2, rank)[:, list(perm)].reshape(-1)})
    if op in ("Tile", "Expand"):
        return Turned({0: perm}, {0: perm}, consts={1: net.consts[node.inputs[1]][list(perm)]})
    if op in ("QuantizeLinear", "DequantizeLinear"):
        return Turned({0: perm}, {0: perm}, {"axis": back[attrs["axis"]]} if "axis" in attrs else {})
    if op == "Resize":
        return Turned({0: perm}, {0: perm}, consts={len(node.inputs) - 1: net.consts[node.inputs[-1]][list(perm)]})
    if op in ("Squeeze", "Unsqueeze"):
        axes = [int(axis) for axis in net.consts[node.inputs[1]]]
        if op == "Squeeze":
            axes = [axis % rank for axis in axes]
            out = without(perm, axes)
            return Turned({0: perm}, {0: out}, consts={1: np.asarray([back[axis] for axis in axes], np.int64)})
        wide = shuffled(rng, range(rank + 1))
        return Turned({0: without(wide, axes)}, {0: wide}, consts={1: np.asarray([wide.index(axes[0])], np.int64)})
    if op == "Transpose":
        out = shuffled(rng, range(rank))
        return Turned({0: perm}, {0: out}, {"perm": [back[attrs["perm"][axis]] for axis in out]})
    if op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        space = shuffled(rng, range(rank - 2))
        perm = (0, 1, *[axis + 2 for axis in space])
        changed: dict[str, Any] = {}
        for key in ("kernel_shape", "strides", "dilations"):
            if key in attrs:
                changed[key] = [attrs[key][axis] for axis in space]
        if "pads" in attrs:
            changed["pads"] = [attrs["pads"][axis + part * (rank - 2)] for part in (0, 1) for axis in space]
        moved = {1: net.consts[node.inputs[1]].transpose(perm)} if op.startswith("Conv") else {}
        return Turned({0: perm}, {0: perm}, changed, moved)
    if op in ("InstanceNormalization", "BatchNormalization", "GlobalAveragePool", "GlobalMaxPool", "LRN"):
        perm = (0, 1, *shuffled(rng, range(2, rank)))
        return Turned({0: perm}, {0: perm})
    if op == "LayerNormalization":
        axis = attrs["axis"] % rank
        tail = shuffled(rng, range(rank - axis))
        perm = (*shuffled(rng, range(axis)), *[one + axis for one in tail])
        moved = {i: net.consts[node.inputs[i]].transpose(tail) for i in (1, 2)}
        return Turned({0: perm}, {0: perm}, consts=moved)
    if op == "Trilu":
        lead = shuffled(rng, range(rank - 2))
        if rng.random() < 0.6:
            perm = (*lead, rank - 1, rank - 2)
            return Turned({0: perm}, {0: perm}, {"upper": 1 - attrs["upper"]})
        perm = (*lead, rank - 2, rank - 1)
        return Turned({0: perm}, {0: perm})
    if op == "Gemm":
        flags = (attrs.get("transA", 0), attrs.get("transB", 0))
        return Turned({0: (1, 0)}, {}, {"transA": 1 - flags[0]})
    if op == "MatMul":
        ranks = [len(shape) for shape in shapes]
        out = len(net.shapes[node.outputs[0]])
        if min(ranks) < 2 or any(r not in (2, out) for r in ranks):
            return None
        lead = shuffled(rng, range(out - 2))
        swap = rng.random() < 0.5
        end = (out - 1, out - 2) if swap else (out - 2, out - 1)
        made = Turned({}, {0: (*lead, *end)}, inputs=[1, 0] if swap else None)
        if not swap and ranks == [out, 2] and out > 2:  # all but the last dimension of a product by a matrix are alike
            whole = (*shuffled(rng, range(out - 1)), out - 1)
            return Turned({0: whole}, {0: whole})
        for i, r in enumerate(ranks):
            own = (*lead, *end) if r == out else ((1, 0) if swap else (0, 1))
            if constant[i]:
                made.consts[i] = net.consts[node.inputs[i]].transpose(own)
            else:
                made.ins[i] = own
        return made
    if op == "Einsum":
        left, right = attrs["equation"].split("->")
        terms, made = left.split(","), Turned({}, {})
        for i, term in enumerate(terms):
            own = shuffled(rng, range(len(term)))
            terms[i] = "".join(term[axis] for axis in own)
            if constant[i]:
                made.consts[i] = net.consts[node.inputs[i]].transpose(own)
            else:
                made.ins[i] = own
        own = shuffled(rng, range(len(right)))
        made.outs[0] = own
        made.attrs["equation"] = ",".join(terms) + "->" + "".join(right[axis] for axis in own)
        return made
    if op == "Reshape":
        return regrouped(net, node, rng)
    return None


def regrouped(net: Net, node: Node, rng: random.Random) -> Turned | None:
    """A Reshape with the groups of dimensions that it keeps together in another order."""
    source, target = net.shapes[node.inputs[0]], net.shapes[node.outputs[0]]
    groups, i, j = list[tuple[list[int], list[int]]](), 0, 0
    while i < len(source) and j < len(target):
        ins, outs, a, b = [i], [j], source[i], target[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b and i < len(source):
                a, ins, i = a * source[i], [*ins, i], i + 1
            elif j < len(target):
                b, outs, j = b * target[j], [*outs, j], j + 1
            else:
                return None
        groups.append((ins, outs))
    if i < len(source) or j < len(target):
        return None
    order = shuffled(rng, range(len(groups)))
    ins = tuple(axis for g in order for axis in groups[g][0])
    outs = tuple(axis for g in order for axis in groups[g][1])
    return Turned({0: ins}, {0: outs}, consts={1: np.asarray([target[axis] for axis in outs], np.int64)})


def conjugate(net: Net, node: Node, rng: random.Random) -> bool:
    """Let an operator run in other orders, between Transposes."""
    if any(net.pulled(name) for name in node.inputs):
        return False
    made = net.turned(node, rng)
    if made is None:
        return False
    for i, perm in made.ins.items():
        node.inputs[i] = net.transpose(node.inputs[i], perm)
    for i, array in made.consts.items():
        node.inputs[i] = net.const(array)
    for i, perm in made.outs.items():
        old = node.outputs[i]
        node.outputs[i] = net.tensor(old, [net.shapes[old][p] for p in perm])
        net.transpose(node.outputs[i], inverse(perm), old)
    node.attrs = {**node.attrs, **made.attrs}
    if made.inputs:
        node.inputs = [node.inputs[i] for i in made.inputs]
    return True


# --- the disguise -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """An equivalence at an operator of the base, by a seed of its own so that others may be left out."""

    kind: str
    node: str
    seed: int


STEPS = (
    "conjugate",
    "conjugate",
    "conjugate",
    "conjugate",
    "pair",
    "product",
    "swap",
    "pull",
    "factor",
    "views",
    "channels",
    "flat",
)


def pointwise_as_product(net: Net, node: Node) -> bool:
    """A convolution of one pixel as a product of channels that come last."""
    if node.op != "Conv" or node.attrs.get("group", 1) != 1 or len(node.inputs) < 2:
        return False
    w = net.consts.get(node.inputs[1])
    if w is None:
        return False
    if set(w.shape[2:]) != {1} or set(node.attrs.get("strides", [1])) != {1}:
        return False
    rank = w.ndim
    y = net.transpose(node.inputs[0], (0, *range(2, rank), 1))
    shape = [*net.shapes[y][:-1], w.shape[0]]
    out, product = node.outputs[0], net.tensor(y, shape)
    rest = node.inputs[2:]
    node.op, node.attrs = "MatMul", {}
    node.inputs, node.outputs = [y, net.const(w.reshape(w.shape[:2]).T)], [product]
    if rest:
        total = net.tensor(y, shape)
        net.nodes.append(Node("Add", [product, rest[0]], [total], {}, net.fresh("node")))
        product = total
    net.transpose(product, (0, rank - 1, *range(1, rank - 1)), out)
    return True


def blocks_as_views(net: Net, node: Node, channels: int) -> bool:
    """Pixels that are shuffled, by a Reshape, a Transpose and a Reshape; which dimension has the channels."""
    if node.op not in ("DepthToSpace", "SpaceToDepth", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"):
        return False
    deepening = node.op[0] == "S"
    size = node.attrs.get("blocksize", node.attrs.get("block_size"))
    deep, shallow = (
        net.shapes[name] for name in (node.outputs + node.inputs if deepening else node.inputs + node.outputs)
    )
    space = [axis for axis in range(1, 4) if axis != channels]
    depth = "cab" if node.attrs.get("mode") == "CRD" else "abc"
    names = {channels: (depth, "c"), space[0]: ("h", "ha"), space[1]: ("w", "wb"), 0: ("n", "n")}
    sizes = {"n": deep[0], "a": size, "b": size, "c": shallow[channels], "h": deep[space[0]], "w": deep[space[1]]}
    before, after = ("".join(names[axis][side] for axis in range(4)) for side in ((1, 0) if deepening else (0, 1)))
    y = net.reshape(node.inputs[0], [sizes[letter] for letter in before])
    y = net.transpose(y, tuple(before.index(letter) for letter in after))
    net.nodes.remove(node)
    net.reshape(y, net.shapes[node.outputs[0]], node.outputs[0])
    return True


def channels_shuffled(net: Net, node: Node, rng: random.Random) -> bool:
    """Weights that give channels in another order, and a channel shuffle that undoes it."""
    if len(node.inputs) < 2 or node.inputs[1] not in net.consts or node.op not in ("Conv", "MatMul"):
        return False
    w, out = net.consts[node.inputs[1]], node.outputs[0]
    shape, axis = net.shapes[out], 1 if node.op == "Conv" else len(net.shapes[out]) - 1
    size, place = shape[axis], 0 if node.op == "Conv" else w.ndim - 1
    if node.attrs.get("group", 1) != 1 or size % 2 or (node.op == "MatMul" and w.ndim != 2):
        return False
    groups = rng.choice([2, size // 2])
    order = np.arange(size).reshape(groups, -1).T.reshape(-1)  # channel i of the rewritten one is channel order[i]
    node.inputs[1] = net.const(np.take(w, order, axis=place))
    if node.op == "Conv" and len(node.inputs) > 2:
        node.inputs[2] = net.const(net.consts[node.inputs[2]][order])
    node.outputs[0] = net.tensor(out, shape)
    y = net.reshape(node.outputs[0], [*shape[:axis], size // groups, groups, *shape[axis + 1 :]])
    swap = list(range(len(shape) + 1))
    swap[axis], swap[axis + 1] = axis + 1, axis
    net.reshape(net.transpose(y, tuple(swap)), shape, out)
    return True


def flattened_otherwise(net: Net, node: Node, rng: random.Random) -> bool:
    """Images flattened in another order, with the weights of the dense layer behind rearranged."""
    if node.op != "Flatten":
        return False
    readers = net.readers(node.outputs[0])
    if len(readers) != 1 or readers[0].op != "Gemm" or readers[0].attrs.get("transA") or node.outputs[0] in net.outputs:
        return False
    sizes = net.shapes[node.inputs[0]][1:]
    order = shuffled(rng, range(len(sizes)))
    w = net.consts.get(readers[0].inputs[1])
    if w is None:
        return False
    whole = w.reshape(w.shape[0], *sizes).transpose((0, *[axis + 1 for axis in order]))
    readers[0].inputs[1] = net.const(whole.reshape(w.shape))
    node.inputs[0] = net.transpose(node.inputs[0], (0, *[axis + 1 for axis in order]))
    return True


def apply(net: Net, step: Step) -> bool:
    """Apply a step, if its operator is there."""
    node = next((node for node in net.nodes if node.name == step.node), None)
    if node is None:
        return False
    rng = random.Random(step.seed)
    if step.kind == "conjugate":
        return conjugate(net, node, rng)
    if step.kind in ("channels", "flat", "product"):
        return net.rewritten(step.kind, node, rng)
    if step.kind == "swap":
        if node.op in SYMMETRIC and len(node.inputs) == 2:
            node.inputs.reverse()
            return True
        return False
    if step.kind == "pair":
        source = node.inputs[0]
        if source in net.consts or not net.shapes[source]:
            return False
        perm = shuffled(rng, range(len(net.shapes[source])))
        middle = net.transpose(source, perm)
        if rng.random() < 0.3:
            two = shuffled(rng, range(len(perm)))
            middle, perm = net.transpose(middle, two), tuple(perm[axis] for axis in two)
        back = net.transpose(middle, inverse(perm))
        node.inputs = [back if name == source else name for name in node.inputs]
        return True
    if step.kind == "views":
        source = node.inputs[0]
        shape = net.shapes[source]
        if source in net.consts or len(shape) < 2:
            return False
        i = rng.randrange(len(shape) - 1)
        flat = net.reshape(source, [*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]])
        node.inputs[0] = net.reshape(flat, shape)
        return True
    if step.kind == "pull":
        for i, name in enumerate(node.inputs):
            array = net.consts.get(name)
            if array is not None and array.ndim > 1 and array.dtype == np.float32 and node.op not in ("Resize", "Conv"):
                perm = shuffled(rng, range(array.ndim))
                node.inputs[i] = net.transpose(net.const(array.transpose(perm)), inverse(perm))
                return True
        return False
    if step.kind == "factor" and node.op == "Reshape":
        shape = net.shapes[node.outputs[0]]
        node.inputs[0] = net.reshape(node.inputs[0], [math.prod(shape)])
        return True
    return False


def tidied(net: Net, seed: int) -> None:
    """Merge neighbouring Transposes, share equal ones, split some, and write some as Reshapes."""
    rng = random.Random(seed)
    merged = True
    while merged:
        merged, made = False, net.producers()
        for node in net.nodes:
            before = made.get(node.inputs[0])
            if node.op != "Transpose" or before is None or before.op != "Transpose":
                continue
            if rng.random() < 0.95:
                perm = before.attrs["perm"]
                node.attrs = {"perm": [perm[axis] for axis in node.attrs["perm"]]}
                node.inputs = [before.inputs[0]]
                merged = True
        for node in list(net.nodes):
            if node.op == "Transpose" and node.attrs["perm"] == sorted(node.attrs["perm"]):
                if node.outputs[0] in net.outputs:
                    node.op, node.attrs = "Identity", {}
                else:
                    net.nodes.remove(node)
                    net.rename(node.outputs[0], node.inputs[0])
                merged = True
        net.prune()
    seen = dict[Any, Node]()
    for node in list(net.nodes):
        if node.op != "Transpose":
            continue
        key = (node.inputs[0], *node.attrs["perm"])
        if key in seen and node.outputs[0] not in net.outputs and rng.random() < 0.7:
            net.nodes.remove(node)
            net.rename(node.outputs[0], seen[key].outputs[0])
        else:
            seen[key] = node
    for node in list(net.nodes):
        shape = net.shapes[node.inputs[0]]
        if node.op == "Transpose":
            perm = tuple(node.attrs["perm"])
            real = [axis for axis in perm if shape[axis] != 1]
            if real == sorted(real) and rng.random() < 0.4:
                node.op, node.attrs = "Reshape", {}
                node.inputs = [node.inputs[0], net.ints(*[shape[axis] for axis in perm])]
            elif rng.random() < 0.1:
                first = shuffled(rng, range(len(perm)))
                node.inputs = [net.transpose(node.inputs[0], first)]
                node.attrs = {"perm": [first.index(axis) for axis in perm]}
    net.prune()


@dataclass
class Case:
    """A base, how it is disguised, and how many Transposes are planted."""

    base: Net
    planted: int
    steps: list[Step]
    seed: int

    def hidden(self) -> tuple[Net, list[Step]]:
        """The disguised network, and the steps that did something."""
        net, done = self.base.copy(), list[Step]()
        for step in self.steps:
            if apply(net, step):
                done.append(step)
        tidied(net, self.seed)
        return net, done


def case(seed: int, made: Callable[[int], tuple[Net, int]] = base) -> Case:
    """A random case."""
    net, planted = made(seed)
    rng = random.Random(f"steps {seed}")
    share = rng.choice([0.4, 0.7, 1.0])
    steps = [
        Step(rng.choice(STEPS), node.name, rng.randrange(1 << 30))
        for node in net.nodes
        for _ in range(rng.choice([1, 1, 2]))
        if rng.random() < share
    ]
    rng.shuffle(steps)
    return Case(net, planted, steps, seed)


# --- what becomes of it -----------------------------------------------------------------------------------------------


def computed(model: onnx.ModelProto, data: dict[str, Array], level: str = "none") -> list[Array]:
    """What a model computes in ONNX Runtime, or in ONNX's reference evaluator where that has no kernel."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if level == "none" else levels.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except NotImplemented:
        return list(ReferenceEvaluator(onnx.ModelProto.FromString(model.SerializeToString())).run(None, data))
    return list(session.run(None, data))


def runs(model: onnx.ModelProto, data: dict[str, Array], level: str) -> bool:
    """Whether ONNX Runtime runs a model."""
    try:
        computed(model, data, level)
    except Exception:
        return False
    return True


def close(one: list[Array], other: list[Array]) -> bool:
    """Whether two models compute the same up to rounding; an element in fifty may fall to the other side of a step."""
    for a, b in zip(one, other, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        with np.errstate(all="ignore"):
            a, b = a.astype(np.float64), b.astype(np.float64)
            near = np.isclose(
                a, b, rtol=2e-3, atol=2e-4 * max(1.0, float(np.max(np.abs(a[np.isfinite(a)]), initial=0)))
            )
            near |= (a == b) | (np.isnan(a) & np.isnan(b))
        if np.mean(~near) > 0.02:
            return False
    return True


def counted(model: onnx.ModelProto, *kinds: str) -> int:
    """Operators of some kinds."""
    return sum(node.op_type in kinds for node in model.graph.node)


def moved_bytes(model: onnx.ModelProto) -> int:
    """Bytes that the Transposes of a model write, symbolic dimensions as 1, as the solver counts them."""
    found = onnx.shape_inference.infer_shapes(model)
    sizes = {}
    for value in [*found.graph.value_info, *found.graph.output]:
        kind = value.type.tensor_type
        width = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
        dims = (d.dim_value if d.HasField("dim_value") else 1 for d in kind.shape.dim)
        sizes[value.name] = width * math.prod(dims)
    return sum(sizes.get(node.output[0], 0) for node in model.graph.node if node.op_type == "Transpose")


@dataclass
class Outcome:
    """What became of a case: a kind, and what there is to be told."""

    kind: str
    told: str = ""


MISSES = ("above, optimal", "above by 2", "wrong", "again", "objective")
VIEWS = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


def outcome(found: Case, objectives: bool = False, thorough: bool = True) -> Outcome:
    """Convert what a case is hidden as."""
    net, _ = found.hidden()
    net.prune()
    data = found.base.data(found.seed)
    try:
        truth, hidden = found.base.results(data), net.results(data)
    except Exception as error:
        return Outcome("not run", str(error)[:200])
    if not close(truth, hidden):
        return Outcome("disguise")
    try:
        made = net.converted("min-transpose")
    except layoutsolve.ConversionError as error:
        return Outcome("refused", str(error)[:200])
    left, status = counted(made.model, "Transpose"), made.report["status"]
    if thorough:
        for level in ("none", "all"):
            try:
                same = close(truth, net.written(made, data, level))
            except Exception as error:
                if level == "all" and not net.runs(data, level):
                    continue  # nor does the source
                return Outcome("wrong", f"level {level}: {str(error)[:160]}")
            if not same:
                return Outcome("wrong", f"level {level}")
    kept = {name: count for name, count in made.assignment.kept.items() if not name.endswith(HEADS)}
    told = f"{left} for {found.planted}, {status}" + (f", kept {dict(kept)}" if kept else "")
    if left > found.planted and status == "optimal":
        return Outcome("above, optimal" if not kept else "above, kept", told)
    if left > found.planted + 1:
        return Outcome("above by 2", told)
    if thorough:
        bare = onnx.ModelProto.FromString(made.model.SerializeToString())
        del bare.metadata_props[:]
        again = layoutsolve.convert(bare.SerializeToString(), objective="min-transpose")
        fewer = counted(again.model, "Transpose")
        if fewer < left:
            return Outcome("again", f"{left} and then {fewer}")
    if objectives:
        source = net.model()
        for objective in ("min-executed", "min-nodes", "min-bytes"):
            other = layoutsolve.convert(source.SerializeToString(), objective=objective).model
            pairs = {
                "Transposes": (counted(source, "Transpose"), counted(other, "Transpose")),
                "min-nodes": (counted(source, *VIEWS), counted(other, *VIEWS)),
                "min-bytes": (moved_bytes(source), moved_bytes(other)),
            }
            for what in ("Transposes", objective):
                before, behind = pairs.get(what, (0, 0))
                if behind > before:
                    return Outcome("objective", f"{objective}: {before} {what} in the source, {behind} in the result")
    return Outcome("as planted" if left <= found.planted else "feasible")


def smaller(found: Case, kind: str, objectives: bool) -> Case:
    """A case of the same outcome from which neither a step nor an operator can be taken."""

    def persists(other: Case) -> bool:
        try:
            return outcome(other, objectives, kind not in ("above, optimal", "above by 2", "above, kept")).kind == kind
        except Exception:
            return False

    changed = True
    while changed:
        changed = False
        for step in list(found.steps):
            other = replace(found, steps=[one for one in found.steps if one is not step])
            if persists(other):
                found, changed = other, True
        for node in list(found.base.nodes):
            for cut in (bypassed, ended, begun):
                net = cut(found.base, node.name)
                if net is None or not 0 < len(net.nodes) < len(found.base.nodes):
                    continue
                other = replace(found, base=net, planted=net.planted)
                if persists(other):
                    found, changed = other, True
                    break
    return found


def _node(net: Net, name: str) -> Node | None:
    return next((node for node in net.nodes if node.name == name), None)


def bypassed(base: Net, name: str) -> Net | None:
    """A network without an operator that keeps the shape."""
    net = base.copy()
    node = _node(net, name)
    if node is None or net.shapes[node.inputs[0]] != net.shapes[node.outputs[0]] or node.inputs[0] in net.consts:
        return None
    if net.types[node.inputs[0]] != net.types[node.outputs[0]] or node.outputs[0] in net.outputs:
        return None
    net.rename(node.outputs[0], node.inputs[0])
    net.prune()
    return net


def ended(base: Net, name: str) -> Net | None:
    """A network that ends before an operator."""
    net = base.copy()
    node = _node(net, name)
    if node is None:
        return None
    made = net.producers()
    ends = [one for one in net.outputs if one not in node.outputs]
    ends += [one for one in node.inputs if one in made and one not in ends]
    if not ends or not set(node.outputs) & set(net.outputs):
        return None
    net.outputs = ends
    net.prune()
    return net


def begun(base: Net, name: str) -> Net | None:
    """A network of which what an operator writes is an input."""
    net = base.copy()
    node = _node(net, name)
    if node is None or set(node.outputs) & set(net.outputs):
        return None
    net.nodes.remove(node)
    net.inputs += node.outputs
    net.prune()
    return net


def text(model: onnx.ModelProto) -> str:
    """A model as onnx prints it, without its constants."""
    short = onnx.ModelProto.FromString(model.SerializeToString())
    for held in short.graph.initializer:
        if math.prod(held.dims) > 8:
            held.ClearField("raw_data")
    return str(onnx.printer.to_text(short.graph))


def main(
    arguments: Sequence[str] | None = None,
    made: Callable[[int], tuple[Net, int]] = base,
    told: str = __doc__ or "",
    suffix: str = "onnx",
) -> int:
    """Make cases of bases, convert them, and tell what was missed."""
    parser = argparse.ArgumentParser(description=told.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many models")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no other model after as many")
    parser.add_argument("--objectives", type=int, default=4, help="try other objectives with every n-th model, 0: none")
    parser.add_argument("--keep", type=Path, help="folder in which the smallest model of each kind of miss is kept")
    options = parser.parse_args(arguments)
    rows, totals = defaultdict[str, Counter[str]](Counter), Counter[str]()
    kinds = defaultdict[str, list[tuple[int, str, Net]]](list)
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - began > options.seconds:
            break
        try:
            found = case(seed, made)
        except (onnx.shape_inference.InferenceError, ValueError):
            totals["no base"] += 1
            continue
        also = suffix == "onnx" and bool(options.objectives) and seed % options.objectives == 0
        result = outcome(found, also)
        totals[result.kind] += 1
        for op in {node.op for node in found.base.nodes}:
            rows[op][result.kind] += 1
        if result.kind in (*MISSES, "above, kept", "refused", "disguise"):
            least = smaller(found, result.kind, also)
            net, _ = least.hidden()
            pattern = " ".join(sorted({node.op for node in least.base.nodes}))
            again = outcome(least, also)
            key = f"{result.kind}: {pattern}"
            kinds[key].append((seed, again.told, net))
            print(f"{seed}: {key} ({result.told})", flush=True)
    columns = (
        "as planted",
        "feasible",
        "above, optimal",
        "above, kept",
        "above by 2",
        "again",
        "objective",
        "wrong",
        "refused",
        "not run",
    )
    print(f"{'operator':26} {'tried':>6} " + " ".join(f"{column:>14}" for column in columns))
    for op, row in sorted(rows.items()):
        print(f"{op:26} {sum(row.values()):6} " + " ".join(f"{row[column]:14}" for column in columns))
    print(dict(totals))
    tried = max(1, sum(totals.values()))
    names = {each.name for each in onnx.defs.get_all_schemas() if not each.domain}
    seldom = {name: count for name in sorted(names) if (count := sum(rows[name].values())) * 10_000 < SELDOM * tried}
    print(f"fewer than {SELDOM} in 10,000 have: " + ", ".join(f"{name} ({count})" for name, count in seldom.items()))
    for key, found_here in sorted(kinds.items(), key=lambda item: -len(item[1])):
        seed, why, net = min(found_here, key=lambda one: len(one[2].nodes))
        print(f"\n{len(found_here)} x {key} ({why}), seed {seed}\n{net.text()}")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            name = "".join(c if c.isalnum() else "_" for c in key)[:90]
            (options.keep / f"{name}_{seed}.{suffix}").write_bytes(net.source())
    return int(any(totals[kind] for kind in MISSES))


if __name__ == "__main__":
    sys.exit(main())
