"""The written model, to be drawn: where each operator comes from, in which order it stores, and why it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import onnx
from onnx import helper

from layoutsolve.base.wording import brief, counted
from layoutsolve.emit import located
from layoutsolve.frontend.tflite.reading.model import VIEWS
from layoutsolve.inspection.explanation import Explanation, lines_of
from layoutsolve.ir.graph import Node
from layoutsolve.proto.messages import TYPES, permutation
from layoutsolve.proto.scopes import captures, graphs_of
from layoutsolve.reporting.graph_view import INPUT, OUTPUT, Drawn, Side, Tensor
from layoutsolve.reporting.source_view import Numbers, tflite_side
from layoutsolve.solver.explanation.explain import Explained, dimensions, source_names
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.theory.layout import Layout, order

if TYPE_CHECKING:
    from layoutsolve.result import Conversion
    from layoutsolve.tflite_result import TfliteConversion

MOVES = ("Transpose", "Reshape")
QUANTIZING = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

_NAMES = {code: name for name, code in TYPES.items()}


def written_side(conversion: Conversion, explanation: Explanation, sources: Numbers) -> Side:
    """The model of a conversion with all its graphs, given which operator of the source is which."""
    side = _Written if conversion.to == "onnx" else _InTflite
    return side(conversion, explanation, sources).result()


def order_of(logical: Layout, stored: Layout) -> str:
    """Which of :data:`ORDERS` a tensor is stored in, given its own layout in the source."""
    found = order(stored)
    if len(found) < 2:
        return "none"
    if found == order(logical):
        return "same"
    turned = (logical[0], logical[-1], *logical[1:-1]) if len(logical) > 2 else logical
    return "first" if found == order(turned) else "other"


Permutation = tuple[int, ...] | None
"""What a Transpose does, None for other operators."""


class _Written:
    def __init__(self, conversion: Conversion, explanation: Explanation, sources: Numbers) -> None:
        self.conversion, self.assignment = conversion, conversion.assignment
        self.origins = {
            name: (sources[origin.subgraph, origin.index], str(origin)) for name, origin in conversion.origins.items()
        }
        self.titles = {title: number for number, title in self.origins.values()}
        applied, self.located = located(self.assignment)
        self.own = source_names(self.assignment.graph)
        self.explained = dict(_explained(applied.nodes, applied.names, explanation))
        self.slow = dict(self._slow())
        self.side = Side()
        self.known: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self.constants: set[str] = set()
        self.leads: dict[str, tuple[str, Permutation]] = {}

    def result(self) -> Side:
        self._graph(self.conversion.model.graph, "main graph")
        return self.side

    def _slow(self) -> Iterator[tuple[str, str]]:
        """What an operator gives whose kernel transposes inside, or takes as long, and what is told of that."""
        names = {place: name for name, place in self.located.items()}
        for number, operator in enumerate(self.assignment.problem.operators):
            row = self.assignment.row(number)
            if operator.node >= 0 and row.price.hidden > 0:
                for port in zip(operator.ports[operator.inputs :], row.layouts[operator.inputs :], strict=True):
                    if port in names:
                        yield names[port], self._loss(operator, row.price.hidden, row.form)

    def _loss(self, operator: Operator, hidden: int, form: int) -> str:
        kind = self.assignment.rules[operator.node].ways[form].kind
        which = f" ({kind})" if isinstance(kind, str) and kind else ""
        noun = f"a layout penalty of {counted(hidden, 'Transpose')}"
        where = f"in this layout the kernel of {self.assignment.goal.target.name}"
        return f"{noun}: {where}{which} transposes inside, or takes a path that is as slow"

    def _graph(self, graph: onnx.GraphProto, title: str) -> None:
        """A graph, and behind it those of its branches and loops."""
        begin = len(self.side.nodes)
        self._describe(graph)
        for port in graph.input:
            self.side.end(INPUT, self._tensor(port.name), self._order(port.name))
        for node, about in zip(graph.node, self._abouts(graph), strict=True):
            self.side.nodes.append(self._operator(node, about))
        for port in graph.output:
            self.side.end(OUTPUT, self._tensor(port.name), self._order(port.name))
        self.side.tabs.append((title, begin, len(self.side.nodes)))
        for node, drawn in zip(graph.node, self.side.nodes[begin + len(graph.input) :], strict=False):
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    drawn.opens.append(len(self.side.tabs))
                    self._graph(attribute.g, f"{attribute.name} of {node.name}")

    def _describe(self, graph: onnx.GraphProto) -> None:
        """Enter what the file says of tensors. What is quantized, or dequantized, has the shape of what is stored."""
        kinds = {port.name: _kind(port) for port in (*graph.input, *graph.output, *graph.value_info)}
        constants = {each.name: f"{_NAMES[each.data_type]}{_shape(each.dims)}" for each in graph.initializer}
        known = {**self.kinds, **constants, **kinds}
        for node in graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                stored, real = (node.input[0], node.output[0])[:: 1 if node.op_type == "DequantizeLinear" else -1]
                if stored in known:
                    known.setdefault(real, f"float32[{known[stored].partition('[')[2]}")
        self.kinds = known
        for name in constants.keys() - kinds.keys():
            self.constants.add(name)

    def _abouts(self, graph: onnx.GraphProto) -> list[str]:
        """For each node the stored tensor that it is about: its result, that of the operator that it is a part of, or
        what it dequantizes; '' for none, and for what is computed from constants alone.
        """
        wanted: dict[str, tuple[str, object, Permutation]] = {}
        found, fixed = [], self._fixed(graph)
        for node in reversed(graph.node):
            origin = self.origins.get(node.name)
            stored = [name for name in node.output if name in self.located]
            if not stored and node.op_type == "DequantizeLinear" and node.input[0] in self.located:
                stored = [node.input[0]]
            read = (wanted[name] for name in node.output if name in wanted and name not in fixed)
            later = [(about, turned) for about, by, turned in read if by == origin]
            about = next(iter((*stored, *(about for about, turned in later if turned is None))), "")
            if stored and later and later[0][0] != about:
                self.leads.setdefault(about, later[0])
            wanted.update((name, (about, origin, permutation(node))) for name in node.input)
            found.append(about)
        return found[::-1]

    def _fixed(self, graph: onnx.GraphProto) -> set[str]:
        """The tensors of a graph that are constants, or computed from these alone."""
        fixed = set(self.constants)
        for node in graph.node:
            if all(name in fixed for name in node.input if name) and not any(graphs_of(node)):
                fixed.update(node.output)
        return fixed

    def _operator(self, node: onnx.NodeProto, about: str) -> Drawn:
        inner = sorted(captures(node))
        read = dict.fromkeys((*node.input, *inner))
        reads, gives = ([self._tensor(name) for name in names if name] for names in (read, node.output))
        op = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        origin = self.origins.get(node.name)
        drawn = Drawn(op, node.name, reads, gives, order=self._order(about), facts=_facts(node))
        drawn.comes = [] if origin is None else [origin[0]]
        if node.op_type in MOVES:
            drawn.kind = node.op_type.lower()
        elif node.op_type in QUANTIZING:
            drawn.kind = "quant"
        elif about in self.slow:
            drawn.kind, drawn.why = "slow", [self.slow[about]]
        self._explain(drawn, [self.explained.get((node.op_type, name)) for name in (*node.output, about)])
        return drawn

    def _explain(self, drawn: Drawn, told: Sequence[Explained | None]) -> None:
        """Note why a Transpose or a Reshape is there: the first that is told of it."""
        for item in [each for each in told if each is not None][:1]:
            drawn.why = lines_of([item])
            tied = [self.titles[title] for title in (item.after, *item.before) if title in self.titles]
            drawn.comes = drawn.comes or list(dict.fromkeys(tied))

    def _tensor(self, name: str) -> int:
        """The number of a tensor, whose type the file need not say."""
        if name not in self.known:
            tensor = Tensor(name, self.kinds.get(name, ""), name in self.constants, self._dims(name))
            self.known[name] = self.side.add(tensor)
        return self.known[name]

    def _own(self, name: str) -> tuple[Layout, Layout] | None:
        """The layout of a tensor in the source, and how it is stored; None for what the source does not have."""
        if name not in self.located:
            return None
        number, layout = self.located[name]
        readings = self.assignment.problem.variables[number].readings
        return next(((readings[each], layout) for each in readings if each in self.own), None)

    def _dims(self, name: str) -> str:
        found = self._own(name)
        return "" if found is None else dimensions(*found)

    def _order(self, name: str) -> str:
        """Which of :data:`ORDERS` a tensor is in."""
        found = self._led(name)
        return "none" if found is None else order_of(*found)

    def _led(self, name: str) -> tuple[Layout, Layout] | None:
        """As for a tensor of the source; what lies within an operator is told by what is made of it there."""
        found = self._own(name)
        if found is not None or name not in self.leads:
            return found
        later, turned = self.leads[name]
        found = self._led(later)
        if found is None or turned is None:
            return found
        logical, stored = found
        if len(turned) != len(stored):
            return None
        return logical, tuple(stored[turned.index(axis)] for axis in range(len(stored)))


class _InTflite(_Written):
    """A model in TensorFlow Lite, whose operators are about their own results."""

    def result(self) -> Side:
        self.side, _ = tflite_side(cast("TfliteConversion", self.conversion).written)
        _, begin, end = self.side.tabs[self.conversion.main]
        for node in self.side.nodes[begin:end]:
            self._tell(node)
        numbers = {each for node in self.side.nodes[begin:end] for each in (*node.reads, *node.gives)}
        for number in numbers:
            tensor = self.side.tensors[number]
            self.side.tensors[number] = replace(tensor, dims=self._dims(tensor.name))
        return self.side

    def _tell(self, node: Drawn) -> None:
        """Note the order of what an operator or an end is about, where it comes from, and why it is there."""
        about = self.side.tensors[next(iter((*node.gives, *node.reads)))].name
        node.order = self._order(about)
        if node.kind == "end":
            return
        node.comes = [self.origins[node.name][0]] if node.name in self.origins else []
        move = {"TRANSPOSE": "Transpose", **dict.fromkeys(VIEWS, "Reshape")}.get(node.op, "")
        if move:
            node.kind = move.lower()
        elif node.op in ("QUANTIZE", "DEQUANTIZE"):
            node.kind = "quant"
        elif about in self.slow:
            node.kind, node.why = "slow", [self.slow[about]]
        self._explain(node, [self.explained.get((move, about))])


def _explained(
    nodes: Sequence[Node], names: Mapping[str, str], explanation: Explanation
) -> Iterator[tuple[tuple[str, str], Explained]]:
    """By its operator and its result, why each Transpose and Reshape is there: they are told in the order of nodes."""
    moves = [node for node in nodes if node.op in MOVES]
    for node, item in zip(moves, explanation.operators, strict=True):
        yield (node.op, names.get(node.outputs[0], node.outputs[0])), item


def _kind(port: onnx.ValueInfoProto) -> str:
    tensor = port.type.tensor_type
    return f"{_NAMES[tensor.elem_type]}{_shape(each.dim_param or each.dim_value for each in tensor.shape.dim)}"


def _shape(dims: Iterable[object]) -> str:
    return f"[{','.join(map(str, dims))}]"


def _facts(node: onnx.NodeProto) -> list[str]:
    """The attributes of a node, but for its graphs."""
    found = []
    for each in node.attribute:
        value = helper.get_attribute_value(each)
        if isinstance(value, onnx.TensorProto):
            value = f"{_NAMES[value.data_type]}{_shape(value.dims)}"
        if not isinstance(value, onnx.GraphProto):
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            found.append(f"{each.name} {text if isinstance(text, str) else brief(text)}")
    return sorted(found)
