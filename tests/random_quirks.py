"""What files have that a network drawn from operators lacks: inputs with defaults, unknown ranks, functions, nodes out
of order, what branches and loops quantize, 16 bits; and networks of older operator sets.

All but the last change a model that is there into one that computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from layoutsolve.ir.graph import Array
from layoutsolve.proto.scopes import captures, graphs_of
from tests.random_flow import FIRST, LAST, Inner
from tests.random_onnx import Writer

Quirk = Callable[[ModelProto, np.random.Generator], None]

STORED = ("int8", "uint8", "int16", "uint16")


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all within it."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from graphs(inner)


def out_of_order(model: ModelProto, random: np.random.Generator) -> None:
    """Nodes stand in any order; ONNX Runtime wants those of branches and loops in topological order."""
    nodes = [model.graph.node[int(at)] for at in random.permutation(len(model.graph.node))]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def with_defaults(model: ModelProto, random: np.random.Generator) -> None:
    """Some constants are inputs that have a default: no steps and zeros, for which ONNX Runtime's optimiser ends the
    process.
    """
    bodies = (*graphs(model.graph), *model.functions)
    calls = {each.name: each for each in model.functions}
    steps = {
        name for body in bodies for node in body.node if node.op_type.endswith("Linear") for name in node.input[1:]
    }
    for node in model.graph.node:
        if node.op_type in calls:
            inside = zip(calls[node.op_type].input, node.input, strict=True)
            steps.update(name for inner, name in inside if inner in steps)
    for tensor in model.graph.initializer:
        if random.random() < 0.4 and tensor.name not in steps:
            shape = list(tensor.dims) if random.random() < 0.7 else [None] * len(tensor.dims)
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))


def given(model: ModelProto, random: np.random.Generator) -> dict[str, Array]:
    """Other values for some inputs that have a default: numbers near by, and other positions where these remain in
    range.
    """
    ports, found = {port.name for port in model.graph.input}, {}
    for tensor in model.graph.initializer:
        data = numpy_helper.to_array(tensor)
        if tensor.name not in ports or random.random() < 0.3:
            continue
        if data.dtype == np.float32:
            found[tensor.name] = np.asarray(data * random.uniform(0.5, 1.5, data.shape), np.float32)
        elif (
            data.dtype == np.int64
            and data.ndim == 1
            and data.size > 1
            and (np.sort(data) == np.arange(data.size)).all()
        ):
            found[tensor.name] = random.permutation(data)
    return found


def of_unknown_rank(model: ModelProto, random: np.random.Generator) -> None:
    """Nothing is told of how many dimensions the inputs have, or of those of a tensor on the way."""
    graph = model.graph
    if random.random() < 0.4:
        graph.input[0].type.tensor_type.ClearField("shape")
    else:
        index = int(random.integers(len(graph.node)))
        node = graph.node[index]
        if node.op_type in ("Shape", "Constant") or len(node.output) != 1:
            return
        kinds = {
            info.name: info.type.tensor_type.elem_type
            for info in onnx.shape_inference.infer_shapes(model).graph.value_info
        }
        name = node.output[0]
        if name not in kinds or kinds[name] != TensorProto.FLOAT:
            return
        zero = numpy_helper.from_array(np.array(0), f"{name}_zero")
        graph.initializer.append(zero)
        node.output[0] = f"{name}_known"
        nodes = list(graph.node)
        nodes[index + 1 : index + 1] = [
            helper.make_node("SequenceConstruct", [f"{name}_known"], [f"{name}_all"]),
            helper.make_node("SequenceEmpty", [], [f"{name}_none"]),
            helper.make_node("SequenceInsert", [f"{name}_none", f"{name}_known"], [f"{name}_one"]),
            helper.make_node(
                "SequenceAt", [f"{name}_one" if random.random() < 0.5 else f"{name}_all", zero.name], [name]
            ),
        ]
        del graph.node[:]
        graph.node.extend(nodes)
    for port in graph.output:
        port.type.tensor_type.ClearField("shape")


def with_functions(model: ModelProto, random: np.random.Generator) -> None:
    """Some neighbouring nodes are calls of a function."""
    graph = model.graph
    for number in range(int(random.integers(1, 3))):
        start = int(random.integers(len(graph.node)))
        taken = list(graph.node)[start : start + int(random.integers(1, 5))]
        if any(node.domain or any(True for _ in graphs_of(node)) for node in taken):
            continue
        inside = {name for node in taken for name in node.output}
        others = [node for node in graph.node if all(node is not each for each in taken)]
        read = [name for node in others for name in (*node.input, *captures(node))] + [
            port.name for port in graph.output
        ]
        inputs = list(dict.fromkeys(name for node in taken for name in node.input if name and name not in inside))
        outputs = [name for name in dict.fromkeys(name for node in taken for name in node.output) if name in read]
        if not outputs or not inputs:
            continue
        opset = [each for each in model.opset_import if not each.domain]
        model.functions.append(helper.make_function("own", f"f{number}", inputs, outputs, taken, opset))
        nodes = list(graph.node)
        nodes[start : start + len(taken)] = [helper.make_node(f"f{number}", inputs, outputs, domain="own")]
        del graph.node[:]
        graph.node.extend(nodes)
    if model.functions and all(each.domain != "own" for each in model.opset_import):
        model.opset_import.add(domain="own", version=1)


QUIRKS: tuple[Quirk, ...] = (of_unknown_rank, with_functions, with_defaults, out_of_order)
"""In the sequence in which they are applied."""


def quirky(model: ModelProto, seed: int) -> ModelProto:
    """A model with some of these."""
    made, random = ModelProto(), np.random.default_rng(seed)
    made.CopyFrom(model)
    for quirk in QUIRKS:
        if random.random() < 0.5:
            quirk(made, random)
    return made


# -- quantized ---------------------------------------------------------------------------------------------------------


def random_stored(seed: int) -> tuple[Writer, ModelProto]:
    """A network that moves what is stored in 8 or 16 bits, in branches and loops as well."""
    writer = Writer(seed)
    x = writer.input(2, 4, 4, 6)
    for _ in range(int(writer.random.integers(2, 5))):
        x = _stored(writer, x) if writer.random.random() < 0.6 else _quantizing(writer, x)
    return writer, writer.model(writer.op("Relu", x, shape=writer.shapes[x]), opset=21)


def _stored(writer: Writer, x: str) -> str:
    """Rounded, moved as it is stored or as what that means, and perhaps rounded again in the same steps."""
    random = writer.random
    dtype = str(random.choice(STORED))
    fine = dtype.endswith("16")
    step, zero = (
        writer.constant(0.001 if fine else 0.05),
        writer.constant(random.integers(0, 5) + 30 * dtype.startswith("u"), dtype),
    )
    before, after = (kinds[int(random.integers(len(kinds)))] for kinds in (MOVES, MOVES))
    y = writer.op("QuantizeLinear", x, step, zero, shape=writer.shapes[x])
    if before in STORABLE:
        y = before(writer, y)
    y = writer.op("DequantizeLinear", y, step, zero, shape=writer.shapes[y])
    y = after(writer, y)
    if random.random() < 0.5:
        y = writer.op("QuantizeLinear", y, step, zero, shape=writer.shapes[y])
        y = writer.op("DequantizeLinear", y, step, zero, shape=writer.shapes[y])
    return y


def _turned(writer: Writer, x: str) -> str:
    return writer.transpose(x, [int(axis) for axis in writer.random.permutation(len(writer.shapes[x]))])


def _blocks(writer: Writer, x: str) -> str:
    batch, channels, height, width = writer.shapes[x]
    if channels % 4 == 0:
        return writer.op("DepthToSpace", x, shape=[batch, channels // 4, 2 * height, 2 * width], blocksize=2)
    if height % 2 or width % 2:
        return x
    return writer.op("SpaceToDepth", x, shape=[batch, 4 * channels, height // 2, width // 2], blocksize=2)


def _clipped(writer: Writer, x: str) -> str:
    bounds = ["" if writer.random.random() < 0.3 else writer.constant(bound) for bound in (-0.5, 0.7)]
    return writer.op("Clip", x, *bounds, shape=writer.shapes[x])


def _bounded(writer: Writer, x: str) -> str:
    return writer.op(str(writer.random.choice(["Max", "Min"])), x, writer.constant(0.1), shape=writer.shapes[x])


def _pooled(writer: Writer, x: str) -> str:
    return writer.op("MaxPool", x, shape=writer.shapes[x], kernel_shape=[3, 3], pads=[1] * 4)


def _resized(writer: Writer, x: str) -> str:
    batch, channels, height, width = writer.shapes[x]
    if height * width > 200:
        return x
    scales = writer.constant([1, 1, 2, 2])
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return writer.op("Resize", x, "", scales, shape=[batch, channels, 2 * height, 2 * width], **attributes)


def _padded(writer: Writer, x: str) -> str:
    batch, channels, height, width = writer.shapes[x]
    pads = writer.constant([0, 0, 1, 0, 0, 0, 1, 0], "int64")
    return writer.op("Pad", x, pads, writer.constant(0.0), shape=[batch, channels, height + 2, width])


def _joined(writer: Writer, x: str) -> str:
    shape = list(writer.shapes[x])
    axis = int(writer.random.integers(4))
    if np.prod(shape) > 1000:
        return x
    shape[axis] *= 2
    return writer.op("Concat", x, x, shape=shape, axis=axis)


def _picked(writer: Writer, x: str) -> str:
    axis = int(writer.random.integers(4))
    indices = writer.random.permutation(writer.shapes[x][axis])
    return writer.op("Gather", x, writer.constant(indices, "int64"), shape=writer.shapes[x], axis=axis)


def _flat(writer: Writer, x: str) -> str:
    one, two, three, four = writer.shapes[x]
    flat = writer.op("Reshape", x, writer.constant([one * two, three * four], "int64"), shape=[one * two, three * four])
    turned = writer.transpose(flat, [1, 0])
    return writer.op(
        "Reshape", turned, writer.constant([three, four, one, two], "int64"), shape=[three, four, one, two]
    )


STORABLE = (_turned, _joined, _picked, _flat)
"""What moves elements of any type."""

MOVES = (*STORABLE, _turned, _blocks, _clipped, _bounded, _pooled, _resized, _padded)


def _quantizing(writer: Writer, x: str) -> str:
    """Branches that quantize what they give, or give what they quantize as well."""
    total = writer.op("ReduceSum", x, shape=(), keepdims=0)
    condition = writer.op("Greater", total, writer.constant(0.0), shape=())
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Inner(writer)
        y = inner.op("Sin", inner.transpose(x, LAST), shape=[writer.shapes[x][axis] for axis in LAST])
        step, zero = inner.constant(0.02), inner.constant(inner.random.integers(0, 5), "uint16")
        stored = inner.op("QuantizeLinear", y, step, zero, shape=inner.shapes[y])
        real = inner.op("DequantizeLinear", stored, step, zero, shape=inner.shapes[y])
        ends = [y, real] if inner.random.random() < 0.5 else [inner.result(y), real]
        branches[name] = inner.graph(*ends, told=inner.tells)
    found = [f"{writer.prefix}branch_{len(writer.nodes)}_{number}" for number in range(2)]
    writer.nodes.append(helper.make_node("If", [condition], found, **branches))
    writer.shapes.update(dict.fromkeys(found, tuple(writer.shapes[x][axis] for axis in LAST)))
    both = writer.op("Add", *found, shape=writer.shapes[found[0]])
    return writer.transpose(both, FIRST)


# -- older operator sets -----------------------------------------------------------------------------------------------


class Older:
    """A network of an older operator set, with branches and loops that read what is around them; all keeps its size."""

    def __init__(self, seed: int, opset: int) -> None:
        self.random, self.opset = np.random.default_rng(seed), opset
        self.shape = (2, 3, 4, 4)
        self.constants: list[TensorProto] = []
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def constant(self, data: object, dtype: str = "float32") -> str:
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> NodeProto:
        return helper.make_node(op, inputs, [self.name("t")], **attributes)

    def steps(self, seen: list[str], count: int, depth: int) -> list[NodeProto]:
        """Operators on tensors that are seen; the last one's result is the last that is seen."""
        nodes: list[NodeProto] = []
        for _ in range(count):
            made = self.step(seen, depth)
            nodes += made
            seen.append(made[-1].output[0])
        return nodes

    def step(self, seen: Sequence[str], depth: int) -> list[NodeProto]:
        random = self.random
        x = seen[-1] if random.random() < 0.6 else str(random.choice(seen))
        chosen = int(random.integers(15 if depth < 2 else 13))
        axis = int(random.integers(4))
        if chosen == 0:
            there = [int(each) for each in random.permutation(4)]
            first = self.node("Transpose", x, perm=there)
            middle = self.node(str(random.choice(["Relu", "Tanh", "Sigmoid"])), first.output[0])
            return [first, middle, self.node("Transpose", middle.output[0], perm=np.argsort(there).tolist())]
        if chosen in (1, 2):
            op = str(random.choice(["Softmax", "LogSoftmax", "Hardmax"]))
            return [self.node(op, x, **({"axis": axis} if random.random() < 0.8 else {}))]
        if chosen == 3:
            return [self.node("Add", x, str(random.choice(seen)))]
        if chosen == 4:
            return [self.node("Dropout", x)]
        if chosen == 5:
            if self.opset < 11:
                return [self.node("Clip", x, **({"min": -0.5} if random.random() < 0.5 else {"max": 0.5}))]
            return [self.node("Clip", x, self.constant(-0.5))]
        if chosen == 6:
            numbers = [self.constant(random.uniform(0.5, 1.5, 3)) for _ in range(4)]
            return [self.node("BatchNormalization", x, *numbers)]
        if chosen == 7:
            kernel = self.constant(random.normal(size=(3, 3, 3, 3)) / 5)
            return [self.node("Conv", x, kernel, self.constant(random.normal(size=3)), pads=[1] * 4)]
        if chosen == 8:
            op = str(random.choice(["ReduceMean", "ReduceMax", "ReduceSum"]))
            if op == "ReduceSum" and self.opset >= 13:
                mean = self.node(op, x, self.constant([axis], "int64"))
            else:
                mean = self.node(op, x, axes=[axis])
            return [mean, self.node("Mul", x, mean.output[0])]
        if chosen == 9:
            axes = ([self.constant([0], "int64")], {}) if self.opset >= 13 else ([], {"axes": [0]})
            up = self.node("Unsqueeze", x, *axes[0], **axes[1])
            relu = self.node("Relu", up.output[0])
            return [up, relu, self.node("Squeeze", relu.output[0], *axes[0], **axes[1])]
        if chosen == 10:
            names = [self.name("t"), self.name("t")]
            if self.opset >= 13:
                split = helper.make_node(
                    "Split", [x, self.constant([1, self.shape[axis] - 1], "int64")], names, axis=axis
                )
            else:
                split = helper.make_node("Split", [x], names, axis=axis, split=[1, self.shape[axis] - 1])
            return [split, self.node("Concat", *names[::-1], axis=axis)]
        if chosen == 11:
            if self.opset >= 11:
                pad = self.node("Pad", x, self.constant([0, 0, 1, 0, 0, 0, 0, 1], "int64"))
            else:
                pad = self.node("Pad", x, pads=[0, 0, 1, 0, 0, 0, 0, 1])
            if self.opset >= 10:
                cut = [self.constant(each, "int64") for each in ([1, 0], [9, 4], [2, 3])]
                return [pad, self.node("Slice", pad.output[0], *cut)]
            return [pad, self.node("Slice", pad.output[0], starts=[1, 0], ends=[9, 4], axes=[2, 3])]
        if chosen == 12:
            flat = self.node("Flatten", x, axis=int(random.integers(1, 4)))
            return [flat, self.node("Reshape", flat.output[0], self.constant(self.shape, "int64"))]
        return [self.branch(seen, depth) if chosen == 13 else self.loop(seen, depth)]

    def branch(self, seen: Sequence[str], depth: int) -> NodeProto:
        graphs = {}
        for name in ("then_branch", "else_branch"):
            known = list(seen)
            nodes = self.steps(known, int(self.random.integers(1, 5)), depth + 1)
            port = helper.make_tensor_value_info(known[-1], TensorProto.FLOAT, None)
            graphs[name] = helper.make_graph(nodes, name, [], [port])
        return self.node("If", "condition", **graphs)

    def loop(self, seen: Sequence[str], depth: int) -> NodeProto:
        turn, going, now, on = (self.name(kind) for kind in ("turn", "going", "now", "on"))
        known = [*seen, now]
        nodes = self.steps(known, int(self.random.integers(1, 4)), depth + 1)
        nodes += [helper.make_node("Identity", [going], [on]), self.node("Tanh", known[-1])]
        inputs = [
            helper.make_tensor_value_info(turn, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            helper.make_tensor_value_info(now, TensorProto.FLOAT, self.shape),
        ]
        outputs = [
            helper.make_tensor_value_info(on, TensorProto.BOOL, []),
            helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, self.shape),
        ]
        body = helper.make_graph(nodes, "body", inputs, outputs)
        return self.node(
            "Loop",
            self.constant(int(self.random.integers(1, 3)), "int64"),
            "",
            str(self.random.choice(seen)),
            body=body,
        )


def random_older(seed: int, opset: int) -> ModelProto:
    """A network of an older operator set; it is given ``x``, and the ``condition`` of all branches."""
    older = Older(seed, opset)
    seen = ["x"]
    nodes = older.steps(seen, int(older.random.integers(3, 9)), 0)
    nodes.append(helper.make_node("Relu", [seen[-1]], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, older.shape) for name in "xy"]
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "older", [ends[0], condition], ends[1:], older.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
