"""The source as it is stated in its file, to be drawn."""

from __future__ import annotations

from layoutsolve.errors import OptionError
from layoutsolve.frontend import Model, parse
from layoutsolve.graph import Origin
from layoutsolve.reporting.drawn import INPUT, OUTPUT, Drawn, Side, Tensor
from layoutsolve.source import Content
from layoutsolve.wording import brief

SUBGRAPHS = ("subgraph", "subgraph_index")
"""How the names of options end that have the number of a subgraph."""

Numbers = dict[tuple[int, int], int]
"""The number of each operator that is drawn, by those of its subgraph and its own."""


def source_side(content: Content) -> tuple[Side, Numbers]:
    """All subgraphs of a model, and which operator is which."""
    side, numbers = Side(), Numbers()
    model = parse(content.data, content.folder)
    if not isinstance(model, Model):
        raise OptionError("a report shows models of TensorFlow Lite: leave --report out")
    subgraphs = model.subgraphs
    for position, subgraph in enumerate(subgraphs):
        begin = len(side.nodes)
        at = [
            side.add(Tensor(each.name, f"{each.dtype}[{','.join(map(str, each.shape))}]", each.data is not None))
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
