"""How the inputs and outputs of a converted model are stored, as facts for its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import LAYOUT, Graph
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.theory.layout import permutation

LETTERS: Mapping[int, str] = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
"""The usual names of the dimensions of channels-last tensors, by rank."""

FIRST: Mapping[int, str] = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""Those of channels-first ones, as a source in ONNX has them."""


@dataclass(frozen=True)
class End:
    """A graph input or output: ``stored = transpose(source, permutation)``.

    ``name`` is the public one, ``tensor`` the graph's; ``chosen`` says that the solver was free to choose, ``first``
    that images have their channels first in the source. ``letters`` are those that whoever asked for its order has
    given the dimensions of the source, '' for the usual ones.
    """

    name: str
    tensor: str
    permutation: tuple[int, ...]
    chosen: bool
    first: bool = False
    letters: str = ""

    @property
    def moved(self) -> bool:
        """Whether it is stored in another order of dimensions than in the source model."""
        return self.permutation != tuple(range(len(self.permutation)))

    def __str__(self) -> str:
        return f"{self.name}: {self.stored}"

    @property
    def stored(self) -> str:
        """How it is stored, in words."""
        by = ", chosen by the solver" if self.chosen else ""
        numbers = " ".join(map(str, self.permutation))
        letters = self.letters or (FIRST if self.first else LETTERS).get(len(self.permutation), "")
        if not letters:
            return f"stored with permutation {numbers}{by}"
        stored = "".join(letters[axis] for axis in self.permutation)
        return f"stored as {stored} instead of {letters} (permutation {numbers}{by})"


def ends_of(graph: Graph, boundary: Boundary, assignment: Assignment, inputs: bool) -> list[End]:
    """All inputs (or outputs) of the graph, in its order; constants are stored as in the source model.

    An output that is an input as well is stored as that input is.
    """
    fixed = boundary.fixed(graph)
    found = []
    for name in graph.inputs if inputs else graph.outputs:
        asked = fixed.inputs[name] if name in fixed.inputs else fixed.outputs[name]
        reads = not inputs and name not in fixed.inputs
        stored = tuple(range(len(graph.values[name].shape)))
        if (name, reads) in assignment.ends:
            stored = permutation(*assignment.ends[name, reads])
        public = graph.names.get(name, name)
        letters = _letters(boundary, (name, public))
        found.append(End(public, name, stored, asked is None, bool(graph.imports), letters))
    return found


def _letters(boundary: Boundary, names: Sequence[str]) -> str:
    """The letters of the dimensions in the source of what is asked for in an order, '' where that has none."""
    asked = (boundary.layouts, boundary.inputs, boundary.outputs)
    choices = [each.get(name) for each in asked if not isinstance(each, (str, tuple)) for name in names]
    return next((choice[0] for choice in choices if isinstance(choice, tuple)), "")


def states_of(assignment: Assignment) -> list[End]:
    """The states of the graph: each is an input, and an output that replaces it, stored in the same way."""
    graph, found = assignment.graph, []
    for number, operator in enumerate(assignment.problem.operators):
        if operator.node >= 0 and graph.nodes[operator.node].op == "State":
            name = graph.nodes[operator.node].outputs[0]
            logical = assignment.problem.variables[operator.ports[-1]].readings[name]
            found.append(End(name, name, permutation(logical, assignment.row(number).layouts[-1]), True))
    return found


def every_end(graph: Graph, boundary: Boundary, assignment: Assignment) -> list[End]:
    """All inputs, outputs and states; a tensor that is both, or an output twice, is there once."""
    both = (ends_of(graph, boundary, assignment, inputs) for inputs in (True, False))
    ends = {end.tensor: end for ends in both for end in ends}
    return [*ends.values(), *states_of(assignment)]


def metadata(ends: Sequence[End], told: Mapping[str, str] | None = None) -> dict[str, str]:
    """Metadata of the inputs and outputs that are not stored as in the source model; an ONNX source may have ``told``
    that of itself, and of its own source.
    """
    found = {}
    for end in ends:
        before = (told or {}).get(f"{LAYOUT}{end.name}", "").split()
        known = sorted(before) == sorted(map(str, range(len(end.permutation))))
        if end.moved:
            order = [before[axis] if known else str(axis) for axis in end.permutation]
            found[f"{LAYOUT}{end.name}"] = " ".join(order)
    return found
