"""Small reference graphs for tests of the solver and the emitter, and ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from layoutsolve.emit import serialise
from layoutsolve.ir.graph import Array, Graph, Node, Quant, Region, Shape, Size, Value, product

onnxruntime.set_default_logger_severity(4)


class GraphBuilder:
    """Builds a reference graph; every method returns the name of the tensor it adds."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.region: Region | None = None

    def _add(
        self, shape: Sequence[Any], dtype: str, quant: Quant | None = None, data: Array | None = None, name: str = ""
    ) -> str:
        name = name or f"t{len(self.values)}"
        self.values[name] = Value(name, dtype, tuple(shape), quant, data)
        return name

    def shape(self, name: str) -> Shape:
        return self.values[name].shape

    def input(self, *shape: Any, dtype: str = "float32", quant: Quant | None = None, name: str = "") -> str:
        self.inputs.append(self._add(shape, dtype, quant, name=name))
        return self.inputs[-1]

    def constant(self, data: Any, dtype: str = "float32", quant: Quant | None = None) -> str:
        array = np.asarray(data, dtype)
        return self._add(array.shape, dtype, quant, array)

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:], initial=1.0)))

    def op(
        self,
        op: str,
        *inputs: str,
        shape: Sequence[Any],
        dtype: str = "float32",
        quant: Quant | None = None,
        **attributes: Any,
    ) -> str:
        output = self._add(shape, dtype, quant)
        storage = op in ("Transpose", "Reshape") and quant is not None
        self.nodes.append(Node(op, inputs, (output,), attributes, storage=storage, region=self.region))
        return output

    def many(
        self, op: str, *inputs: str, shapes: Sequence[Sequence[Any]], dtype: str = "float32", **attributes: Any
    ) -> list[str]:
        outputs = [self._add(shape, dtype) for shape in shapes]
        self.nodes.append(Node(op, inputs, tuple(outputs), attributes, region=self.region))
        return outputs

    def retype(self, name: str, dtype: str) -> None:
        """Change what a tensor holds, where the outputs of one operator differ."""
        value = self.values[name]
        self.values[name] = Value(name, dtype, value.shape, value.quant)

    def relu(self, x: str) -> str:
        return self.op("Relu", x, shape=self.shape(x))

    def add(self, x: str, y: str) -> str:
        return self.op("Add", x, y, shape=np.broadcast_shapes(self.shape(x), self.shape(y)))  # type: ignore[arg-type]

    def transpose(self, x: str, *perm: int, pattern: bool = False) -> str:
        value = self.values[x]
        output = self.op(
            "Transpose", x, shape=[value.shape[axis] for axis in perm], dtype=value.dtype, quant=value.quant, perm=perm
        )
        if pattern:
            self.nodes[-1] = replace(self.nodes[-1], pattern=True)
        return output

    def reshape(self, x: str, *shape: Any) -> str:
        value = self.values[x]
        vector = self.constant([-1 if isinstance(dim, Size) else dim for dim in shape], "int64")
        assert product(shape) == product(value.shape)
        return self.op("Reshape", x, vector, shape=shape, dtype=value.dtype, quant=value.quant)

    def channels_last(self, op: str, x: str, *rest: str, shape: Sequence[Any], **attributes: Any) -> str:
        """An operator with ONNX's data format, between Transposes from and to channels-last."""
        rank = len(self.shape(x))
        inner = self.transpose(x, 0, rank - 1, *range(1, rank - 1), pattern=True)
        inner = self.op(op, inner, *rest, shape=(shape[0], shape[-1], *shape[1:-1]), **attributes)
        return self.transpose(inner, 0, *range(2, rank), 1, pattern=True)

    def conv(self, x: str, channels: int, kernel: int = 1, group: int = 1, dilation: int = 2) -> str:
        """A convolution with SAME padding and stride 1 over a channels-last tensor. By default its kernel has gaps: it
        wants channels first, unless that has a single element.
        """
        shape = self.shape(x)
        space = len(shape) - 2
        weights = self.weights(channels, shape[-1] // group, *[kernel] * space)  # type: ignore[operator]
        attributes = {"pads": [dilation * (kernel // 2)] * (2 * space), "dilations": [dilation] * space}
        return self.channels_last(
            "Conv", x, weights, self.weights(channels), shape=(*shape[:-1], channels), group=group, **attributes
        )

    def dense(self, x: str, units: int) -> str:
        """A fully connected layer on ``[rows, features]``."""
        rows, features = self.shape(x)
        weights, bias = self.weights(units, features), self.weights(units)  # type: ignore[arg-type]
        return self.op("Gemm", x, weights, bias, shape=(rows, units), transB=1)

    def _like(self, name: str) -> str:
        value = self.values[name]
        return self._add(value.shape, value.dtype, value.quant)

    def loop(self, turns: int, body: Callable[..., Sequence[str]], *initial: str) -> list[str]:
        """A loop of ``turns`` turns that carries ``initial``; ``body`` writes one turn and returns what it hands on."""
        region = Region("body", self.region)
        one, limit = self.constant(1, "int64"), self.constant(turns, "int64")
        starts = [self.constant(0, "int64"), *initial]
        now = [self._like(name) for name in starts]
        around, self.nodes, self.region = self.nodes, [], region
        count = self.op("Add", now[0], one, shape=(), dtype="int64")
        again = self.op("Less", count, limit, shape=(), dtype="bool")
        following = [count, *body(*now[1:])]
        inside, self.nodes, self.region = self.nodes, around, region.parent
        first = self.constant(turns > 0, "bool")
        self.nodes.append(Node("Loop", (first, again), (), region=self.region, regions=(region,)))
        last = [self._like(name) for name in starts]
        for start, after, before, result in zip(starts, following, now, last, strict=True):
            ports = (start, after), (before, result)
            self.nodes.append(Node("Carry", *ports, storage=True, region=self.region, regions=(region,)))
        self.nodes += inside
        return last[1:]

    def branch(self, condition: str, *branches: Callable[[], str]) -> str:
        """One value from two branches, each of which writes its own."""
        regions = Region("then_branch", self.region), Region("else_branch", self.region)
        self.nodes.append(Node("If", (condition,), (), region=self.region, regions=regions))
        results = []
        for region, write in zip(regions, branches, strict=True):
            self.region = region
            results.append(write())
        self.region = regions[0].parent
        joined = self._like(results[0])
        self.nodes.append(Node("Join", tuple(results), (joined,), storage=True, region=self.region, regions=regions))
        return joined

    def scan(
        self, x: str, axis: int, place: int, body: Callable[[str], str], backwards: tuple[int, int] = (0, 0)
    ) -> str:
        """A Scan along an axis of a tensor; what a turn's ``body`` writes is collected along another axis."""
        around, region = self.region, Region("body", self.region)
        shape = self.shape(x)
        element = self._add([*shape[:axis], *shape[axis + 1 :]], self.values[x].dtype)
        reading, writing = ({"axis": at, "direction": back} for at, back in zip((axis, place), backwards, strict=True))
        ends = {"storage": True, "region": around, "regions": (region,)}
        self.nodes.append(Node("Scan", (), (), region=around, regions=(region,)))
        self.nodes.append(Node("Element", (x,), (element,), reading, **ends))
        self.region = region
        made = body(element)
        self.region = around
        inner = self.shape(made)
        result = self._add([*inner[:place], shape[axis], *inner[place:]], self.values[made].dtype)
        self.nodes.append(Node("Stack", (made,), (result,), writing, **ends))
        return result

    def state(self, *shape: int) -> tuple[str, Callable[[str], None]]:
        """A value that lives from run to run, and how to say what it becomes."""
        now, initial = self._add(shape, "float32"), self.weights(*shape)

        def become(following: str) -> None:
            self.nodes.insert(0, Node("State", (initial, following), (now,), storage=True))

        return now, become

    def graph(self, *outputs: str) -> Graph:
        return Graph("test", self.values, tuple(self.nodes), tuple(self.inputs), outputs)


def run(graph: Graph, feeds: Sequence[Array]) -> list[Array]:
    """The outputs of a graph written as it stands."""
    return computed(serialise(graph), feeds)[: len(graph.outputs)]


def computed(model: onnx.ModelProto, feeds: Sequence[Array]) -> list[Array]:
    """The outputs that ONNX Runtime computes for a model, without any optimisation; what ONNX's reference evaluator
    does where ONNX Runtime has no kernel.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    written = model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])
    except NotImplemented:
        made = ReferenceEvaluator(onnx.ModelProto.FromString(written))
        return list(made.run(None, dict(zip(made.input_names, feeds, strict=True))))
    names = [item.name for item in session.get_inputs()]
    return list(session.run(None, dict(zip(names, feeds, strict=True))))


def assert_same(graph: Graph, other: Graph, data: Sequence[Array], rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise AssertionError unless another graph gives what a graph does: the very same numbers, without tolerances."""
    for expected, found in zip(run(graph, data), run(other, data), strict=True):
        if rtol or atol:
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(found, expected)


def feeds(graph: Graph, seed: int = 0) -> list[Array]:
    """Random inputs, symbolic dimensions as 2."""
    random = np.random.default_rng(seed)
    result = []
    for name in graph.inputs:
        value = graph.values[name]
        shape = [2 if isinstance(dim, Size) else dim for dim in value.shape]
        data = random.normal(size=shape) if value.dtype == "float32" else random.integers(0, 2, shape)
        texts = value.dtype == "string"
        result.append(np.asarray(data).astype(str).astype(object) if texts else np.asarray(data).astype(value.dtype))
    return result
