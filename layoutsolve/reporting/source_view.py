"""The source as it is stated in its file, to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from layoutsolve.base.wording import brief, printable
from layoutsolve.frontend import Model, listed, parse
from layoutsolve.frontend.tflite.lowering.draft import tensor_names
from layoutsolve.io.source import Content
from layoutsolve.ir.graph import Origin
from layoutsolve.reporting.graph_view import INPUT, OUTPUT, Drawn, Side, Tensor

if TYPE_CHECKING:
    from layoutsolve.frontend.onnx.listing import ListedGraph, ListedTensor

SUBGRAPHS = ("subgraph", "subgraph_index")
"""How the names of options end that have the number of a subgraph."""

Numbers = dict[tuple[int, int], int]
"""The number of each operator that is drawn, by those of its subgraph and its own."""


def source_side(content: Content, defined: bool = False) -> tuple[Side, Numbers]:
    """All subgraphs of a model, and which operator is which; some of ONNX may be those that it defines them by."""
    model = parse(content.data, content.folder, content.called, defined=defined)
    return tflite_side(model) if isinstance(model, Model) else _of_onnx(listed(model))


def source_text(content: Content) -> str:
    """Text of a model as its file states it: a line for each input, output and operator with its tensors."""
    side, _ = source_side(content)

    def told(numbers: Sequence[int]) -> str:
        tensors = (side.tensors[number] for number in numbers)
        return ", ".join(f"{'constant ' if each.constant else ''}{each.name}: {each.kind}" for each in tensors) or "-"

    lines = [f"source {content.name}"]
    for title, begin, end in side.tabs:
        lines.append(f"graph {title}")
        for node in side.nodes[begin:end]:
            operands = ", ".join(filter(None, (told(node.reads), *node.facts)))
            ends = f"{node.op} {told(node.reads or node.gives)}"
            lines.append(ends if node.kind == "end" else f"  {told(node.gives)} = {node.op}({operands})  # {node.name}")
    return "\n".join(map(printable, lines))


def tflite_side(model: Model) -> tuple[Side, Numbers]:
    """All subgraphs of a TensorFlow Lite model, and which operator is which."""
    side, numbers, subgraphs = Side(), Numbers(), model.subgraphs
    names = tensor_names(model)  # as messages call them
    for position, subgraph in enumerate(subgraphs):
        begin = len(side.nodes)
        at = [
            side.add(
                Tensor(
                    each.name if position else names[each.index],
                    f"{each.dtype}[{','.join(map(str, each.shape))}]",
                    each.data is not None,
                )
            )
            for each in subgraph.tensors
        ]
        for number in subgraph.inputs:
            side.end(INPUT, at[number])
        for operator in subgraph.operators:
            numbers[position, operator.index] = len(side.nodes)
            reads, gives = ([at[each] for each in ends if each >= 0] for ends in (operator.inputs, operator.outputs))
            name = str(Origin(position, operator.index, operator.name))
            facts = [f"{key} {brief(value)}" for key, value in operator.options.items()]
            drawn = Drawn(operator.name, name, reads, gives, facts=facts)
            drawn.opens = [
                value
                for key, value in operator.options.items()
                if key.endswith(SUBGRAPHS) and isinstance(value, int) and 0 <= value < len(subgraphs)
            ]
            side.nodes.append(drawn)
        for number in subgraph.outputs:
            side.end(OUTPUT, at[number])
        side.tabs.append((subgraph.name or f"subgraph {position}", begin, len(side.nodes)))
    return side, numbers


def _of_onnx(graphs: Sequence[ListedGraph]) -> tuple[Side, Numbers]:
    side, numbers = Side(), Numbers()
    for number, graph in enumerate(graphs):
        begin, at = len(side.nodes), dict[str, int]()

        def places(tensors: Sequence[ListedTensor], at: dict[str, int] = at) -> list[int]:
            for each in tensors:
                if each.name not in at:
                    at[each.name] = side.add(Tensor(each.name, f"{each.dtype}{each.shape}", each.constant))
            return [at[each.name] for each in tensors]

        for place in places(graph.inputs):
            side.end(INPUT, place)
        for node in graph.nodes:
            numbers[number, node.index] = len(side.nodes)
            name, ends = str(Origin(number, node.index, node.op)), (places(node.inputs), places(node.outputs))
            facts = [f"'{node.name}'"] if node.name else []
            facts += map(brief, node.facts)
            side.nodes.append(Drawn(node.op, name, *ends, facts=facts, opens=list(node.opens)))
        for place in places(graph.outputs):
            side.end(OUTPUT, place)
        side.tabs.append((graph.title, begin, len(side.nodes)))
    return side, numbers
