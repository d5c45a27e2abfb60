"""Writing a graph as an ONNX model: quantisation annotations become QuantizeLinear and DequantizeLinear.

The quant pattern is ``op -> QuantizeLinear -> stored tensor -> DequantizeLinear -> op``. A stored tensor has one of
each at most, however many operators read it, so a graph of O operators over T quantised tensors has at most O + 2T
nodes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from layoutsolve.budget import Budget
from layoutsolve.emit.barriers import guard
from layoutsolve.emit.check import check
from layoutsolve.emit.external import External
from layoutsolve.emit.sizes import computed
from layoutsolve.emit.tensors import TYPES, stored_bytes, tensor
from layoutsolve.errors import LoweringError, OptionError
from layoutsolve.graph import CONTROL, Array, Dim, Graph, Node, Origin, Quant, Region, Value, memory
from layoutsolve.names import Names, short

LOWEST_OPSET = 18
"""The oldest operator set that is written: the one in which all Reduce operators take their axes as input."""

HIGHEST_OPSET = 24

STATE = "layoutsolve.state."
"""The prefix of the metadata that tell for each input that is a state which output replaces it."""

_BYTES_PER_DIMENSION = 8
"""About what a dimension takes in the description of a tensor, and the rest of it."""

_OPSET_OF_OPERATOR = {"DFT": 20, "Gelu": 20}
_OPSET_OF_STRINGS = {"Equal": 19}
_VERSIONS = {"ai.onnx.ml": 3}
"""The version of other domains, where it is not 1: that of opset 18's time."""

_OPSET_OF_STORAGE = {"int16": 21, "uint16": 21, "int4": 21, "uint4": 21}
_OPSET_OF_BLOCKS = 21


def required_opset(graph: Graph) -> int:
    """The lowest operator set, from :data:`LOWEST_OPSET` on, that carries the graph."""
    operators = (_OPSET_OF_OPERATOR.get(node.op, LOWEST_OPSET) for node in graph.nodes if not node.domain)
    texts = (
        _OPSET_OF_STRINGS.get(node.op, LOWEST_OPSET)
        for node in graph.nodes
        if any(name and graph.values[name].dtype == "string" for name in node.inputs)
    )
    stored = (
        _OPSET_OF_BLOCKS if value.quant.block else _OPSET_OF_STORAGE.get(value.dtype, LOWEST_OPSET)
        for value in graph.values.values()
        if value.quant
    )
    return max([LOWEST_OPSET, *operators, *texts, *stored])


def serialise(
    graph: Graph, opset: int | None = None, external: External | None = None, budget: Budget | None = None
) -> onnx.ModelProto:
    """The ONNX model of a graph; its larger constants are left to ``external`` if that is given.

    All that is written counts in the ``budget``. Constants that lie in the same memory are written once.

    ``opset`` defaults to the lowest one that carries the graph. Raises :class:`OptionError` where ``opset`` is too
    low for the graph or outside of what is written at all.
    """
    lowest = required_opset(graph)
    version = lowest if opset is None else opset
    if not lowest <= version <= HIGHEST_OPSET:
        raise OptionError(f"opset {version} cannot carry this model: use one from {lowest} to {HIGHEST_OPSET}")
    writer = _Writer(computed(graph), external, budget or Budget())
    model, origins = writer.model(version), writer.origins
    del writer  # the parts that the model is a copy of
    check(model, origins)
    return model


_Infos = list[onnx.ValueInfoProto]


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a graph, those of branches and loops included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


class _Body:
    """The graph of one region in the making. ``real`` are the values that are dequantised in it or around it."""

    def __init__(self, outer: _Body | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.infos: list[onnx.ValueInfoProto] = []
        self.made: set[str] = set()
        self.real: ChainMap[str, str] = outer.real.new_child() if outer else ChainMap()


@dataclass(eq=False)
class _Flow:
    """An If or a Loop in the making, with its Joins or Carries."""

    proto: onnx.NodeProto
    node: Node
    ties: list[Node] = field(default_factory=list)


class _Writer:
    """One model in the making. Names of new tensors derive from the stored tensor's and are made unique."""

    def __init__(self, graph: Graph, external: External | None, budget: Budget) -> None:
        self.graph, self.external, self.budget = graph, external, budget
        self.taken = Names([*graph.values, *graph.names.values()])
        self.public = self._public_names()
        self.bodies: dict[Region | None, _Body] = {None: _Body()}
        self.here: Region | None = None
        self.origin: Origin | None = None
        self.origins: dict[str, Origin] = {}
        self.flows: dict[Region, _Flow] = {}
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.stored: dict[tuple[object, ...], tuple[str, Array]] = {}

    def _public_names(self) -> dict[str, str]:
        """What each graph input or output is called in the file; a tensor that is both keeps its input name."""
        names = self.graph.names
        public = {name: names.get(name, name) for name in self.graph.outputs}
        public.update({name: names.get(name, name) for name in self.graph.inputs})
        return public

    def model(self, version: int) -> onnx.ModelProto:
        for node in self.graph.nodes:
            self.here, self.origin = node.region, node.origin
            self._write(node)
        self.origin = None
        self._close_regions()
        self.here = None
        states = [node for node in self.graph.nodes if node.op == "State"]
        names = [*self.graph.inputs, *(node.outputs[0] for node in states)]
        inputs = [self._info(self.graph.values[name], self._name(name)) for name in names]
        outputs = self._outputs() + [self._next_state(node) for node in states]
        graph = helper.make_graph(
            self.bodies[None].nodes,
            self.graph.name,
            inputs,
            outputs,
            list(self.initializers.values()),
            value_info=self.bodies[None].infos,
        )
        guard(graph, version, self.taken.unique)
        opsets = [helper.make_opsetid("", version)]
        others = sorted({node.domain for node in self.graph.nodes if node.domain})
        model = helper.make_model(
            graph,
            opset_imports=opsets + [helper.make_opsetid(domain, _VERSIONS.get(domain, 1)) for domain in others],
            producer_name="layoutsolve",
            ir_version=helper.find_min_ir_version_for(opsets),
        )
        pairs = zip(
            (self._name(node.outputs[0]) for node in states), outputs[len(outputs) - len(states) :], strict=True
        )
        facts = {**self.graph.metadata, **{f"{STATE}{name}": after.name for name, after in pairs}}
        helper.set_model_props(model, dict(sorted(facts.items())))
        return model

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        """The outputs; one that is a constant, an input, or listed twice is copied, since each needs a name of its
        own.
        """
        produced = {name for node in self.graph.nodes if node.op != "State" for name in node.outputs}
        seen: set[str] = set()
        infos = []
        for name in self.graph.outputs:
            value = self.graph.values[name]
            public = self.graph.names.get(name, name)
            if name not in produced or name in seen:
                source = self._stored(name)
                public = self.taken.unique(public) if public == source or public in seen else public
                self._node("Identity", [source], [public])
            seen.add(name)
            infos.append(self._info(value, public))
        return infos

    # -- control flow ------------------------------------------------------------------------------------------------

    def _control(self, node: Node) -> None:
        """Note what ties regions together; an If or Loop is complete when all nodes are written."""
        if node.op in ("If", "Loop"):
            proto = onnx.NodeProto(op_type=node.op)
            self.bodies[self.here].nodes.append(proto)
            self.bodies.update({region: _Body(self.bodies[self.here]) for region in node.regions})
            self.flows[node.regions[0]] = _Flow(proto, node)
        elif node.op == "State":
            if node.inputs[0]:
                self._initial_state(node)
        else:
            self.flows[node.regions[0]].ties.append(node)
            self._describe(node.outputs[-1])

    def _close_regions(self) -> None:
        """Give each If and Loop its graphs, the inner ones first."""
        for flow in reversed(self.flows.values()):
            fill = self._fill_loop if flow.node.op == "Loop" else self._fill_if
            fill(flow)
            results = [self._name(tie.outputs[-1]) for tie in flow.ties]
            flow.proto.output.extend(results)
            flow.proto.name = self.taken.unique(f"{flow.node.op}:{short(str(flow.node.origin or results[0]))}")

    def _fill_if(self, flow: _Flow) -> None:
        self.here = flow.node.region
        flow.proto.input.append(self._stored(flow.node.inputs[0]))
        for branch, region in enumerate(flow.node.regions):
            names = [tie.inputs[branch] for tie in flow.ties]
            self._attach(flow.proto, region, [], self._results(region, names))

    def _fill_loop(self, flow: _Flow) -> None:
        (region,) = flow.node.regions
        starts = [tie.inputs[0] for tie in flow.ties]
        flow.proto.input.extend(["", self._stored(flow.node.inputs[0]), *(self._start(flow, name) for name in starts)])
        turn, going = self.taken.unique("turn"), self.taken.unique("going")
        inputs = [
            helper.make_tensor_value_info(turn, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            *(self._info(self.graph.values[tie.outputs[0]], tie.outputs[0]) for tie in flow.ties),
        ]
        ends = [flow.node.inputs[1], *(tie.inputs[1] for tie in flow.ties)]
        self._attach(flow.proto, region, inputs, self._results(region, ends))

    def _start(self, flow: _Flow, name: str) -> str:
        """What a loop begins with. OpenVINO loses the shape of an empty constant, not of one that is computed."""
        value = self.graph.values[name]
        if value.data is None or value.data.size or value.dtype == "string":
            return self._stored(name)
        self.here = flow.node.region
        sizes = self._shared("int64", np.array(value.data.shape, np.int64), lambda: self.taken.derived(name, "sizes"))
        result = self.taken.derived(name, "none")
        self._node("ConstantOfShape", [sizes], [result], {"value": np.zeros(1, value.data.dtype)})
        nodes = self.bodies[self.here].nodes
        place = next(index for index, node in enumerate(nodes) if node is flow.proto)
        nodes.insert(place, nodes.pop())
        return result

    def _results(self, region: Region, names: list[str]) -> _Infos:
        """The outputs of a region's graph; ONNX wants each computed in it, and listed once."""
        self.here = region
        own = self.bodies[region].made
        seen: set[str] = set()
        infos = []
        for name in names:
            result = self._stored(name)
            if result not in own or result in seen:
                result = self.taken.derived(result, "result")
                self._node("Identity", [self._stored(name)], [result])
            seen.add(result)
            infos.append(self._info(self.graph.values[name], result))
        return infos

    def _attach(
        self,
        proto: onnx.NodeProto,
        region: Region,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
    ) -> None:
        body, name = self.bodies[region], f"{proto.op_type}:{region.role}"
        graph = helper.make_graph(body.nodes, name, inputs, outputs, value_info=body.infos)
        proto.attribute.append(helper.make_attribute(region.role, graph))

    def _initial_state(self, node: Node) -> None:
        """An input that has an initializer may be left out: so the model begins where its source does."""
        initial = self.graph.values[node.inputs[0]]
        assert initial.data is not None
        self._initializer(self._name(node.outputs[0]), initial.dtype, initial.data)

    def _next_state(self, node: Node) -> onnx.ValueInfoProto:
        public = self.taken.derived(self._name(node.outputs[0]), "next")
        self._node("Identity", [self._stored(node.inputs[1])], [public])
        return self._info(self.graph.values[node.inputs[1]], public)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _describe(self, name: str) -> None:
        """State the type of a value that is neither an input nor an output."""
        if name and name not in self.public:
            self.bodies[self.here].infos.append(self._info(self.graph.values[name], name))

    def _info(self, value: Value, name: str) -> onnx.ValueInfoProto:
        self.budget.write(len(name) + _BYTES_PER_DIMENSION * (len(value.shape) + 1), "its tensors")
        return helper.make_tensor_value_info(name, TYPES[value.dtype], [_dimension(dim) for dim in value.shape])

    def _name(self, name: str) -> str:
        return self.public.get(name, name)

    def _node(
        self,
        op: str,
        inputs: list[str],
        outputs: list[str],
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> None:
        name = self.taken.unique(f"{op}:{short(outputs[0]) if outputs else ''}")
        self.budget.write(sum(map(len, (op, name, *inputs, *outputs))), "its operators")
        proto = onnx.NodeProto(op_type=op, name=name, input=inputs, output=outputs, domain=domain)
        for key, value in sorted((attributes or {}).items()):
            try:
                proto.attribute.append(helper.make_attribute(key, _attribute(key, value)))
            except (KeyError, TypeError, ValueError) as error:
                raise LoweringError(f"{self.origin}: {op} has no attribute '{key}' that is {value!r:.80}") from error
        if self.origin is not None:
            self.origins[name] = self.origin
        self.bodies[self.here].nodes.append(proto)
        self.bodies[self.here].made.update(outputs)

    def _initializer(self, name: str, dtype: str, data: Array) -> str:
        self.budget.write(len(name) + stored_bytes(dtype, data), f"the constant '{short(name)}'")
        self.initializers[name] = tensor(name, dtype, data, self.external)
        return name

    def _shared(self, dtype: str, data: Array, name: Callable[[], str]) -> str:
        """The initializer that holds an array; it is written, under the name that ``name`` gives, if there is none."""
        key = (dtype, *memory(data))
        if key not in self.stored:
            self.stored[key] = self._initializer(name(), dtype, data), data
        return self.stored[key][0]

    def _stored(self, name: str) -> str:
        """The name under which the stored tensor is found in the file."""
        value = self.graph.values[name]
        if value.data is None:
            return self._name(name)
        return self._shared(value.dtype, value.data, lambda: name)

    def _real(self, name: str) -> str:
        """The name under which the real numbers of a tensor are found; written once, read by all."""
        value = self.graph.values[name]
        if value.quant is None:
            return self._stored(name)
        real = self.bodies[self.here].real.get(name)
        if real is None:
            real = self.taken.derived(name, "real")
            self._dequantize(name, value.quant, real)
            self.bodies[self.here].real[name] = real
        return real

    def _parameters(self, name: str, dtype: str, quant: Quant) -> tuple[list[str], dict[str, int]]:
        scalar = quant.axis is None
        scale = quant.scale.reshape(()) if scalar else quant.scale
        inputs = [self._shared("float32", scale, lambda: self.taken.derived(name, "scale"))]
        if dtype != "int32" and (not quant.block or quant.zero_point.any()):
            zero = np.asarray(quant.zero_point).reshape(scale.shape)
            inputs.append(self._shared(dtype, zero, lambda: self.taken.derived(name, "zero_point")))
        attributes = {} if quant.axis is None else {"axis": quant.axis}
        return inputs, ({**attributes, "block_size": quant.block} if quant.block else attributes)

    def _dequantize(self, name: str, quant: Quant, real: str) -> None:
        parameters, attributes = self._parameters(name, self.graph.values[name].dtype, quant)
        self._node("DequantizeLinear", [self._stored(name), *parameters], [real], attributes)

    def _quantize(self, real: str, name: str, quant: Quant) -> None:
        parameters, attributes = self._parameters(name, self.graph.values[name].dtype, quant)
        self._node("QuantizeLinear", [real, *parameters], [self._name(name)], attributes)

    def _write(self, node: Node) -> None:
        if node.op in CONTROL:
            self._control(node)
            return
        for name in node.outputs:
            self._describe(name)
        single = len(node.inputs) == len(node.outputs) == 1
        if node.op == "Identity" and single and not node.storage and self._convert(node.inputs[0], node.outputs[0]):
            return
        read = self._stored if node.storage else self._real
        inputs = [read(name) if name else "" for name in node.inputs]
        while inputs and not inputs[-1]:  # OpenVINO takes an empty name at the end for an input
            inputs.pop()
        quantised = [(name, self._quant(name, node)) for name in node.outputs]
        outputs = [self.taken.derived(name, "real") if quant else self._name(name) for name, quant in quantised]
        self._node(node.op, inputs, outputs, node.attributes, node.domain)
        for real, (name, quant) in zip(outputs, quantised, strict=True):
            if quant:
                self._quantize(real, name, quant)

    def _quant(self, name: str, node: Node) -> Quant | None:
        """The parameters with which an output has to be quantised; None where the node writes it as it is."""
        return self.graph.values[name].quant if name and not node.storage else None

    def _convert(self, source: str, target: str) -> bool:
        """Write an Identity between differently stored tensors as quantisation alone; False where both are plain."""
        before, after = self.graph.values[source].quant, self.graph.values[target].quant
        if after is not None:
            self._quantize(self._real(source), target, after)
            return True
        if before is not None:
            self._dequantize(source, before, self._name(target))
            return True
        return False


def _dimension(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _attribute(key: str, value: object) -> object:
    if key in ("to", "dtype") and isinstance(value, str):
        return TYPES[value]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, np.ndarray)):
        return list(value)
    return tensor("", str(value.dtype), value) if isinstance(value, np.ndarray) else value
