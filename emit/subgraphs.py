"""Control flow and state: the graphs of branches and loops, and the inputs and outputs that states become.

What ties regions together is written as the operator that opens them has it. A Join hands on what one of two branches
gives. A Carry begins with what is there before a loop, and tells what it is in a turn, and after the last one. A Turn
tells the number of a turn, and that it goes on. An Element is what a turn of a Scan is given of a tensor, a Stack what
is collected of all turns. A State is what an output has left in the run before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.writer import Body, Writer
from layoutsolve.ir.graph import OPENING, STATE, Node, Region
from layoutsolve.ir.names import short
from layoutsolve.proto.messages import GraphProto, NodeProto, TensorProto, ValueInfoProto, attribute, port


def following_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """Names of the states in the metadata, each with that of the output that replaces it."""
    return {name[len(STATE) :]: output for name, output in metadata.items() if name.startswith(STATE)}


@dataclass(eq=False)
class _Flow:
    """An operator with regions in the making, and what ties these to what is around them: by operator, in order."""

    proto: NodeProto
    node: Node
    ties: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))

    def ends(self, op: str, number: int) -> list[str]:
        """An input of each of the ties of a kind."""
        return [tie.inputs[number] for tie in self.ties[op]]

    @property
    def results(self) -> list[str]:
        """What the operator gives."""
        return [tie.outputs[-1] for op in ("Join", "Carry", "Stack") for tie in self.ties[op]]


class Regions:
    """What ties the subgraphs of a model together; what opens them is complete when all nodes are written."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.graph = writer, writer.graph
        self.flows: dict[Region, _Flow] = {}

    def note(self, node: Node) -> None:
        """Enter an operator of :data:`layoutsolve.ir.graph.CONTROL`, in its place among all nodes."""
        if node.op in OPENING:
            proto = NodeProto(op_type=node.op)
            around = self.writer.body
            around.nodes.append(proto)
            self.writer.bodies.update({region: Body(around) for region in node.regions})
            self.flows[node.regions[0]] = _Flow(proto, node)
        elif node.op == "State":
            if node.inputs[0]:
                self._initial_state(node)
        else:
            self.flows[node.regions[0]].ties[node.op].append(node)
            if node.op not in ("Element", "Turn"):
                self.writer.describe(node.outputs[-1])

    def close(self) -> None:
        """Give each operator with subgraphs its graphs, the inner ones first."""
        fill = {"If": self._fill_if, "Loop": self._fill_loop, "Scan": self._fill_scan}
        for flow in reversed(self.flows.values()):
            fill[flow.node.op](flow)
            results = [self.writer.name(name) for name in flow.results]
            flow.proto.output.extend(results)
            origin = flow.node.origin
            title = short(str(origin or results[0]))
            own = origin.name if origin is not None and origin.operator == flow.node.op else ""
            flow.proto.name = self.writer.taken.unique(own or f"{flow.node.op}:{title}")
            if origin is not None:
                self.writer.origins[flow.proto.name] = origin

    def next_state(self, node: Node) -> ValueInfoProto:
        """Write the output that holds a state's next value."""
        public = self.writer.taken.derived(self.writer.name(node.outputs[0]), "next")
        self.writer.node("Identity", [self.writer.stored(node.inputs[1])], [public])
        return self.writer.info(self.graph.values[node.inputs[1]], public)

    def _initial_state(self, node: Node) -> None:
        """An input that has an initializer may be left out: so the model begins where its source does."""
        initial = self.graph.values[node.inputs[0]]
        self.writer.initializer(self.writer.name(node.outputs[0]), initial.dtype, initial.constant)

    def _fill_if(self, flow: _Flow) -> None:
        self.writer.here = flow.node.region
        flow.proto.input.append(self.writer.stored(flow.node.inputs[0]))
        for branch, region in enumerate(flow.node.regions):
            self._attach(flow.proto, region, [], self._results(region, flow.ends("Join", branch)))

    def _fill_loop(self, flow: _Flow) -> None:
        (region,) = flow.node.regions
        first, again, *trips = flow.node.inputs
        before = [self.writer.stored(name) if name else "" for name in (*(trips or [""]), first)]
        flow.proto.input.extend([*before, *(self._start(flow, name) for name in flow.ends("Carry", 0))])
        inputs = [*self._counted(flow), *self._infos(flow, "Carry")]
        ends = [again, *flow.ends("Carry", 1), *flow.ends("Stack", 0)]
        self._attach(flow.proto, region, inputs, self._results(region, ends))

    def _counted(self, flow: _Flow) -> list[ValueInfoProto]:
        """What a loop tells its body: the number of the turn, and that it goes on."""
        told = next((tie.outputs for tie in flow.ties["Turn"]), ("", ""))
        taken, kinds = self.writer.taken, (("turn", TensorProto.INT64), ("going", TensorProto.BOOL))
        return [
            self.writer.info(self.graph.values[name], name) if name else port(taken.unique(wish), kind, [])
            for name, (wish, kind) in zip(told, kinds, strict=True)
        ]

    def _infos(self, flow: _Flow, op: str) -> list[ValueInfoProto]:
        """What ties of a kind give a region."""
        names = [tie.outputs[0] for tie in flow.ties[op]]
        return [self.writer.info(self.graph.values[name], name) for name in names]

    def _fill_scan(self, flow: _Flow) -> None:
        (region,) = flow.node.regions
        sources = [self.writer.stored(name) for name in flow.ends("Element", 0)]
        flow.proto.input.extend([*(self._start(flow, name) for name in flow.ends("Carry", 0)), *sources])
        inputs = [*self._infos(flow, "Carry"), *self._infos(flow, "Element")]
        ends = [*flow.ends("Carry", 1), *flow.ends("Stack", 0)]
        flow.proto.attribute.append(attribute("num_scan_inputs", len(sources)))
        for op, kind in (("Element", "scan_input"), ("Stack", "scan_output")):
            for plural, key in (("axes", "axis"), ("directions", "direction")):
                numbers = [tie.attributes[key] for tie in flow.ties[op]]
                if any(numbers):
                    flow.proto.attribute.append(attribute(f"{kind}_{plural}", numbers))
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
