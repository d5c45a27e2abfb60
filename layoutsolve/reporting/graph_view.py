"""Drawn graph of a model: its operators, inputs and outputs, with their descriptions, in a tab for each subgraph."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from layoutsolve.base.wording import printable
from layoutsolve.reporting.layered_drawing import drawing

LONGEST, CHARACTER, MARGIN = 26, 7, 18
"""Characters of a label, and pixels of one and of what is around it."""

SHORT = {"QuantizeLinear": "Q", "DequantizeLinear": "DQ"}
"""Labels of operators of which there are more than of all others."""

INPUT, OUTPUT = "input", "output"


@dataclass
class Drawn:
    """An operator, or an end of a graph: the numbers of the tensors that it ``reads`` and ``gives``, the lines that are
    told of it and of why it is there, the numbers of the operators of the source that it ``comes`` from, and its
    ``share`` of the time, and the numbers of the tabs of the graphs that it ``opens``.

    ``kind`` is 'end', 'transpose', 'reshape', 'slow', 'quant' or '' for all others; ``order`` one of :data:`ORDERS`.
    """

    op: str
    name: str
    reads: list[int]
    gives: list[int]
    kind: str = ""
    order: str = "none"
    facts: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    comes: list[int] = field(default_factory=list)
    share: str = ""
    opens: list[int] = field(default_factory=list)


ORDERS = ("same", "first", "other", "none")
"""What the colour of a tensor tells: it has the source's order of dimensions, channels first, another order, or none,
because at most one dimension is larger than 1, or because it is not a tensor of the source.
"""


@dataclass(frozen=True)
class Tensor:
    """A tensor: its type with its shape, and for one of the source in which order ``dims`` it is stored."""

    name: str
    kind: str
    constant: bool = False
    dims: str = ""


@dataclass
class Side:
    """The source or the written model. A tab has a title, the number of its first node and that behind its last."""

    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Drawn] = field(default_factory=list)
    tabs: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, tensor: Tensor) -> int:
        """Enter a tensor; its number."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def end(self, op: str, tensor: int, order: str = "none") -> None:
        """Enter an input or output of a graph."""
        read, given = ([tensor], []) if op == OUTPUT else ([], [tensor])
        self.nodes.append(Drawn(op, self.tensors[tensor].name, read, given, "end", order))

    def as_dict(self) -> dict[str, object]:
        """All of it with the places of nodes, as the page's program takes it: an edge is two nodes, and where it
        bends.
        """
        places: list[tuple[int, int]] = []
        edges: list[list[int]] = []
        for _, begin, end in self.tabs:
            self._draw(begin, end, places, edges)
        return {
            "tensors": [
                [printable(each.name), printable(each.kind), int(each.constant), each.dims] for each in self.tensors
            ],
            "tabs": [[printable(title), begin, end] for title, begin, end in self.tabs],
            "nodes": [_plain(node, *place) for node, place in zip(self.nodes, places, strict=True)],
            "edges": edges,
        }

    def _draw(self, begin: int, end: int, places: list[tuple[int, int]], edges: list[list[int]]) -> None:
        nodes = self.nodes[begin:end]
        makers = {tensor: number for number, node in enumerate(nodes) for tensor in node.gives}
        read = ((makers[each], number) for number, node in enumerate(nodes) for each in node.reads if each in makers)
        ties = list(dict.fromkeys(read))
        drawn = drawing([_width(node) for node in nodes], ties)
        places += drawn.places
        for first, last in ties:
            bends = drawn.bends.get((first, last), ())
            edges.append([begin + first, begin + last, *(number for point in bends for number in point)])


def label(op: str) -> str:
    """What is written in the box of an operator."""
    shown = SHORT.get(op, printable(op))
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _width(node: Drawn) -> int:
    """How wide its box is; that of a Transpose has corners at its sides."""
    return CHARACTER * len(label(node.op)) + MARGIN * (2 if node.kind == "transpose" else 1)


def _plain(node: Drawn, x: int, y: int) -> dict[str, object]:
    """A node as plain data, in which what is empty is left out."""
    told = {key: value for key, value in asdict(node).items() if value}
    told |= {"op": printable(node.op), "name": printable(node.name), "label": label(node.op)}
    if node.share:
        told["share"] = printable(node.share)
    for key in ("facts", "why"):
        if key in told:
            told[key] = [printable(line) for line in told[key]]
    return {**told, "x": x, "y": y, "w": _width(node)}
