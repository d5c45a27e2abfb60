"""Drawn graph of a model: its operators, inputs and outputs, with their descriptions, in a tab for each subgraph."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from layoutsolve.base.wording import printable
from layoutsolve.inspection.folding import fold
from layoutsolve.inspection.layered_drawing import drawing

LONGEST, CHARACTER, MARGIN = 26, 7, 18
"""Characters of a label, and pixels of one and of what is around it."""

SHORT = {"QuantizeLinear": "Q", "DequantizeLinear": "DQ"}
"""Labels of operators of which there are more than of all others."""

INPUT, OUTPUT = "input", "output"

MANY, MOST = 40, 2500
"""A tab of more nodes, up to so many, is folded at first."""


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
            "folded": [self._fold(begin, end) for _, begin, end in self.tabs],
        }

    def _fold(self, begin: int, end: int) -> dict[str, object] | None:
        """A tab as it is seen at once, None where it is small: the numbers and places of its nodes, for each block the
        label, the place, and the nodes that it stands for; and the lines between all of these, blocks behind nodes.
        """
        nodes = self.nodes[begin:end]
        if not MANY < len(nodes) <= MOST:
            return None
        folded, count = fold(nodes), len(nodes)
        blocks = range(count, count + len(folded.blocks))
        label_of = {number: f"× {folded.blocks[number - count].times - 1} more" for number in blocks}
        listed = [*folded.shown, *blocks]  # as the page has them; they are drawn in an order of execution
        ordered = sorted(listed, key=lambda number: folded.behind[number - count][0] if number >= count else number)
        widths = [
            CHARACTER * len(label_of[each]) + MARGIN if each >= count else _width(nodes[each]) for each in ordered
        ]
        at, index = ({number: place for place, number in enumerate(some)} for some in (ordered, listed))
        ties = [(at[one], at[other]) for one, other in folded.ties]
        drawn = drawing(widths, ties)
        lines = [
            [index[one], index[other], *(each for point in drawn.bends.get(tie, ()) for each in point)]
            for (one, other), tie in zip(folded.ties, ties, strict=True)
        ]
        shown = [[begin + number, *drawn.places[at[number]]] for number in folded.shown]
        more = [
            [label_of[number], *drawn.places[at[number]], widths[at[number]], [begin + each for each in hidden]]
            for number, hidden in zip(blocks, folded.behind, strict=True)
        ]
        return {"nodes": shown, "more": more, "lines": lines}

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
