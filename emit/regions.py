"""Control flow and state: the graphs of branches and loops, and the inputs and outputs that states become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from layoutsolve.emit.writer import Body, Writer
from layoutsolve.graph import STATE, Node, Region
from layoutsolve.names import short
from layoutsolve.protos import GraphProto, NodeProto, TensorProto, ValueInfoProto, attribute, port
from layoutsolve.records import dataclass


def following_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """The names of the states that metadata tell of, each with that of the output that replaces it."""
    return {name[len(STATE) :]: output for name, output in metadata.items() if name.startswith(STATE)}


@dataclass(eq=False)
class _Flow:
    """An If or a Loop in the making, with its Joins or Carries."""

    proto: NodeProto
    node: Node
    ties: list[Node] = field(default_factory=list)


class Regions:
    """What ties the regions of a model together; an If or Loop is complete when all nodes are written."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.graph = writer, writer.graph
        self.flows: dict[Region, _Flow] = {}

    def note(self, node: Node) -> None:
        """Enter an operator of :data:`layoutsolve.graph.CONTROL`, in its turn among all nodes."""
        if node.op in ("If", "Loop"):
            proto = NodeProto(op_type=node.op)
            around = self.writer.body
            around.nodes.append(proto)
            self.writer.bodies.update({region: Body(around) for region in node.regions})
            self.flows[node.regions[0]] = _Flow(proto, node)
        elif node.op == "State":
            if node.inputs[0]:
                self._initial_state(node)
        else:
            self.flows[node.regions[0]].ties.append(node)
            self.writer.describe(node.outputs[-1])

    def close(self) -> None:
        """Give each If and Loop its graphs, the inner ones first."""
        for flow in reversed(self.flows.values()):
            fill = self._fill_loop if flow.node.op == "Loop" else self._fill_if
            fill(flow)
            results = [self.writer.name(tie.outputs[-1]) for tie in flow.ties]
            flow.proto.output.extend(results)
            title = short(str(flow.node.origin or results[0]))
            flow.proto.name = self.writer.taken.unique(f"{flow.node.op}:{title}")
            if flow.node.origin is not None:
                self.writer.origins[flow.proto.name] = flow.node.origin

    def next_state(self, node: Node) -> ValueInfoProto:
        """Write the output that says what a state is after a run."""
        public = self.writer.taken.derived(self.writer.name(node.outputs[0]), "next")
        self.writer.node("Identity", [self.writer.stored(node.inputs[1])], [public])
        return self.writer.info(self.graph.values[node.inputs[1]], public)

    def _initial_state(self, node: Node) -> None:
        """An input that has an initializer may be left out: so the model begins where its source does."""
        initial = self.graph.values[node.inputs[0]]
        assert initial.data is not None
        self.writer.initializer(self.writer.name(node.outputs[0]), initial.dtype, initial.data)

    def _fill_if(self, flow: _Flow) -> None:
        self.writer.here = flow.node.region
        flow.proto.input.append(self.writer.stored(flow.node.inputs[0]))
        for branch, region in enumerate(flow.node.regions):
            names = [tie.inputs[branch] for tie in flow.ties]
            self._attach(flow.proto, region, [], self._results(region, names))

    def _fill_loop(self, flow: _Flow) -> None:
        (region,) = flow.node.regions
        first = self.writer.stored(flow.node.inputs[0])
        flow.proto.input.extend(["", first, *(self._start(flow, tie.inputs[0]) for tie in flow.ties)])
        turn, going = self.writer.taken.unique("turn"), self.writer.taken.unique("going")
        inputs = [
            port(turn, TensorProto.INT64, []),
            port(going, TensorProto.BOOL, []),
            *(self.writer.info(self.graph.values[tie.outputs[0]], tie.outputs[0]) for tie in flow.ties),
        ]
        ends = [flow.node.inputs[1], *(tie.inputs[1] for tie in flow.ties)]
        self._attach(flow.proto, region, inputs, self._results(region, ends))

    def _start(self, flow: _Flow, name: str) -> str:
        """What a loop begins with. OpenVINO loses the shape of an empty constant, not of one that is computed."""
        value, taken = self.graph.values[name], self.writer.taken
        if value.data is None or value.data.size or value.dtype == "string":
            return self.writer.stored(name)
        self.writer.here = flow.node.region
        shape = np.array(value.data.shape, np.int64)
        sizes = self.writer.shared("int64", shape, lambda: taken.derived(name, "sizes"))
        result = taken.derived(name, "none")
        self.writer.node("ConstantOfShape", [sizes], [result], {"value": np.zeros(1, value.data.dtype)})
        nodes = self.writer.body.nodes
        place = next(index for index, node in enumerate(nodes) if node is flow.proto)
        nodes.insert(place, nodes.pop())
        return result

    def _results(self, region: Region, names: list[str]) -> list[ValueInfoProto]:
        """The outputs of a region's graph; ONNX wants each computed in it, and listed once."""
        self.writer.here = region
        own = self.writer.body.made
        seen: set[str] = set()
        infos = []
        for name in names:
            result = self.writer.stored(name)
            if result not in own or result in seen:
                result = self.writer.taken.derived(result, "result")
                self.writer.node("Identity", [self.writer.stored(name)], [result])
            seen.add(result)
            infos.append(self.writer.info(self.graph.values[name], result))
        return infos

    def _attach(
        self,
        proto: NodeProto,
        region: Region,
        inputs: list[ValueInfoProto],
        outputs: list[ValueInfoProto],
    ) -> None:
        body, name = self.writer.bodies[region], f"{proto.op_type}:{region.role}"
        graph = GraphProto(node=body.nodes, name=name, input=inputs, output=outputs, value_info=body.infos)
        proto.attribute.append(attribute(region.role, graph))
