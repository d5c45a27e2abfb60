"""Which operators a model has, of which types, and what becomes of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from layoutsolve.base.wording import aligned, first_name, printable
from layoutsolve.errors import Gap, UnsupportedError
from layoutsolve.frontend import Model, Reading, listed, lowered, parse
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.io.source import Content
from layoutsolve.ir.graph import CONTROL, KEPT, OPENING, Graph

if TYPE_CHECKING:
    from layoutsolve.frontend.onnx.listing import ListedGraph


@dataclass(frozen=True)
class Kind:
    """Operators of one name and with the same types.

    ``first`` is the place of the first one and ``output`` the first tensor that it writes. ``becomes`` are the ONNX
    operators that they are lowered to: none for those that are views of what they read, or whose results are known, or
    where others cannot be converted. ``written`` counts the operators of the written model that come from them, layout
    and quantization operators included, None where nothing was written. ``refused`` says why they cannot be converted,
    and ``remedy`` what to do.
    """

    operator: str
    types: str
    count: int
    first: str
    output: str
    becomes: tuple[str, ...] = ()
    written: Mapping[str, int] | None = None
    refused: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Inventory:
    """The kinds of operators of a model, the most frequent first; those that cannot be converted last."""

    kinds: tuple[Kind, ...]

    @property
    def converts(self) -> bool:
        """Whether all can be converted."""
        return not any(kind.refused for kind in self.kinds)

    def as_dicts(self) -> list[dict[str, object]]:
        """One dictionary for each kind."""
        return [asdict(kind) for kind in self.kinds]

    def __str__(self) -> str:
        rows = [("count", "operator", "types", "first", "its output", "written as"), *map(self._row, self.kinds)]
        return "\n".join(map(printable, aligned(rows, (0,))))

    def _row(self, kind: Kind) -> tuple[str, ...]:
        counts = kind.written if kind.written is not None else dict.fromkeys(kind.becomes, 0)
        becomes = ", ".join(f"{count} {name}" if count else name for name, count in counts.items())
        if kind.refused:
            becomes = f"NOT CONVERTED: {kind.refused}; {kind.remedy}"
        becomes = becomes or ("-" if self.converts else "")
        return str(kind.count), kind.operator, kind.types, kind.first, first_name(kind.output), becomes


Written = Mapping[tuple[int, int], Sequence[str]]
"""Operators of a written model, by the numbers of the graph and of the operator of the source that they come from."""


def inventory(
    content: Content,
    reading: Reading,
    graph: Graph | None = None,
    written: Written | None = None,
    gaps: Sequence[Gap] = (),
) -> Inventory:
    """The operators of all graphs, with the reference ``graph`` where it is known, what is ``written`` for them, and
    the ``gaps`` that are known of a format that cannot have some of them.

    Raises :class:`ConversionError` where the model cannot be read.
    """
    model = parse(content.data, content.folder, content.called, defined=reading.storage.decomposed)
    operators = [*(_operators(model) if isinstance(model, Model) else _nodes(listed(model)))]
    try:
        graph = graph or (None if gaps else lowered(model, content.name, reading))
    except UnsupportedError as error:
        graph, gaps = None, error.gaps
    lowered_to, refused = _lowered_to(graph), {(gap.subgraph, gap.index): gap for gap in gaps}
    if (0, -1) in refused:  # the whole model
        raise UnsupportedError(gaps)
    kinds: dict[tuple[str, str, str, str], list[tuple[int, int]]] = defaultdict(list)
    outputs = {place: output for place, _, _, output in operators}
    for place, types, name, _ in operators:
        gap = refused.get(place)
        kinds[name, types, gap.reason if gap else "", gap.remedy if gap else ""].append(place)
    found = [
        Kind(
            name,
            types,
            len(places),
            _place(places[0]),
            outputs[places[0]],
            _becomes(lowered_to, places),
            None if written is None else dict(Counter(op for each in places for op in written.get(each, ()))),
            reason,
            remedy,
        )
        for (name, types, reason, remedy), places in kinds.items()
    ]
    return Inventory(tuple(sorted(found, key=_order)))


def _order(kind: Kind) -> tuple[bool, int, str, str]:
    """The most frequent first, and what cannot be converted last."""
    return bool(kind.refused), -kind.count, kind.operator, kind.types


@dataclass(frozen=True)
class Layouts:
    """Layout support of an ONNX operator: its ``treatment`` is ``rule``, ``written`` (as another operator), or ``kept``
    (in its own layout). ``detail`` is the other operator, or the reason.
    """

    operator: str
    treatment: str
    detail: str = ""

    def as_dict(self) -> dict[str, object]:
        """Fields as plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.treatment == "rule":
            return "other layouts by a rule"
        written = self.treatment == "written"
        return f"written as {self.detail}" if written else f"kept in its own layout: {self.detail}"


def onnx_operators() -> tuple[Layouts, ...]:
    """All operators of ONNX and of ONNX Runtime's own domain, as ``domain:Name``, and what becomes of their layouts."""
    from layoutsolve.solver.theory.operators_without_rule import UNRULED, WRITTEN
    from layoutsolve.solver.theory.rules import RULES

    names = {name for name in RULES if name not in INNER}
    found = [Layouts(name, "rule") for name in names]
    found += [Layouts(name, "written", detail) for name, detail in WRITTEN.items()]
    found += [Layouts(name, "kept", reason) for name, reason in UNRULED.items()]
    return tuple(sorted(found, key=lambda each: (":" in each.operator, each.operator)))


INNER = CONTROL - OPENING
"""Operators of the reference graph that are none of ONNX."""


Found = Iterator[tuple[tuple[int, int], str, str, str]]
"""Operators: the numbers of the graph and of the operator, its types, its name and its first output."""


def _operators(model: Model) -> Found:
    for number, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            output = subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
            yield (number, operator.index), _types(*_ends(subgraph, operator)), operator.name, output


def _ends(subgraph: Subgraph, operator: Operator) -> Iterator[list[str]]:
    """The types of what an operator reads, and of what it gives."""
    for ends in (operator.inputs, operator.outputs):
        yield [subgraph.tensors[index].dtype for index in ends if index >= 0]


def _nodes(graphs: Sequence[ListedGraph]) -> Found:
    for number, graph in enumerate(graphs):
        for node in graph.nodes:
            read, given = ([each.dtype for each in ends] for ends in (node.inputs, node.outputs))
            output = node.outputs[0].name if node.outputs else ""
            yield (number, node.index), _types(read, given), node.op, output


def _types(read: Sequence[str], given: Sequence[str]) -> str:
    """The types of what an operator reads, and of what it gives, each once."""
    return f"{' '.join(dict.fromkeys(read))} -> {' '.join(dict.fromkeys(given))}".strip()


def _place(place: tuple[int, int]) -> str:
    subgraph, index = place
    return str(index) if subgraph == 0 else f"{subgraph}.{index}"


def _lowered_to(graph: Graph | None) -> Mapping[tuple[int, int], list[str]]:
    """The ONNX operators that each operator of the source is written as, but for what a layout may spare."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for node in graph.nodes if graph is not None else ():
        if node.origin is not None and not node.pattern:
            found[node.origin.subgraph, node.origin.index].append(node.op.removeprefix(KEPT))
    return found


def _becomes(lowered_to: Mapping[tuple[int, int], list[str]], places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op for place in places for op in lowered_to.get(place, ())))
