"""Which letter each dimension of a tensor has, and what a layout is in these letters.

Operators with a data format say what the dimensions of their tensors are. From there letters go through views and
through operators that follow the layouts of what they read. Images that nothing says anything about are taken to be as
the source has images; dimensions of all other tensors are A, B, C and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.conversion.graph_io import FIRST, LETTERS
from layoutsolve.ir.graph import Dim, Shape, product
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.theory.layout import Group, Layout
from layoutsolve.solver.theory.rule import Dims, Rule, unnamed

_PASSES = 8
"""How often letters are passed on through the whole graph, forth and back."""


def letters_of(assignment: Assignment) -> dict[str, str]:
    """The letters of the dimensions of each tensor that is computed, or given, and of constants at lettered ports."""
    found = _Letters(assignment)
    for _ in range(_PASSES):
        if not found.passed_on():
            break
    return found.result()


class _Letters:
    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.known: dict[str, str] = {}
        for operator in assignment.problem.operators:
            rule = assignment.rules.get(operator.node)
            if rule is not None and rule.letters:
                for name, text in zip(operator.tensors, rule.letters, strict=False):
                    self._learn(name, text)

    def _learn(self, name: str, text: str) -> bool:
        value = self.assignment.graph.values[name]
        if name in self.known or not text or len(text) != len(value.shape):
            return False
        self.known[name] = text
        return True

    def passed_on(self) -> bool:
        """Pass letters on once, forth and back; whether that told anything new."""
        problem, fresh = self.assignment.problem, False
        for variable in problem.variables:
            if len(variable.readings) > 1:
                fresh |= self._through_views(variable.readings)
        for operators in (problem.operators, reversed(problem.operators)):
            for operator in operators:
                rule = self.assignment.rules.get(operator.node)
                if rule is not None and not rule.letters:
                    fresh |= self._through(rule, operator.tensors)
        return fresh

    def _through_views(self, readings: Mapping[str, Layout]) -> bool:
        """Views of one tensor have its dimensions, as far as they keep them whole."""
        of = {
            group: letter
            for name, layout in readings.items()
            if name in self.known
            for group, letter in zip(layout, self.known[name], strict=True)
            if group
        }
        fresh = False
        for name, layout in readings.items():
            if of and name not in self.known:
                fresh |= self._learn(name, _filled([of.get(group, "") if group else None for group in layout]))
        return fresh

    def _through(self, rule: Rule, tensors: Sequence[str]) -> bool:
        """An operator that follows has dimensions of the same label at several ports."""
        of: dict[tuple[str, ...], str] = {}
        for dims, name in zip(rule.dims, tensors, strict=True):
            for labels, letter in zip(_plain(dims), self.known.get(name, ""), strict=False):
                if labels:
                    of.setdefault(labels, letter)
        fresh = False
        for dims, name in zip(rule.dims, tensors, strict=True):
            if of and name not in self.known:
                found = [of.get(labels, "") if labels else None for labels in _plain(dims)]
                fresh |= self._learn(name, _filled(found))
        return fresh

    def result(self) -> dict[str, str]:
        """The letters of all tensors, of images by what the source calls them, of others in alphabetical order."""
        graph = self.assignment.graph
        image = FIRST if graph.imports else LETTERS
        names = (name for name, value in graph.values.items() if value.data is None)
        found = {name: image.get(len(graph.values[name].shape), "") for name in names}
        return {name: text or unnamed(len(graph.values[name].shape)) for name, text in (found | self.known).items()}


def _plain(dims: Dims) -> list[tuple[str, ...]]:
    """The labels of dimensions without their variants."""
    return [tuple(label.partition(":")[0] for label in labels) for labels in dims]


def _filled(found: Sequence[str | None]) -> str:
    """The letters of a tensor where those of all dimensions above 1 are known; '' where they are not, or are one twice.
    Dimensions of size 1 get the letters of images that are left, as far as there are any.
    """
    known = [letter for letter in found if letter]
    if "" in found or not known or len(set(known)) < len(known):
        return ""
    rest = iter([letter for letter in "NCDHW" if letter not in known] + [*unnamed(26)[::-1]])
    return "".join(letter or next(rest) for letter in found)


def text_of(layout: Layout, logical: Layout, letters: str, sizes: Sequence[Dim]) -> str:
    """A layout in letters: ``NHWC``, ``NCHW16c`` where a part of a dimension lies elsewhere, ``N(HWC)`` where several
    dimensions are stored as one.
    """
    home = {atom: (letter, group) for letter, group in zip(letters, logical, strict=True) for atom in group}
    units = [letter for letter, group in zip(letters, logical, strict=True) if not group]
    return "".join(_stored(group, home, units, sizes) for group in layout)


def _stored(group: Group, home: Mapping[int, tuple[str, Group]], units: list[str], sizes: Sequence[Dim]) -> str:
    if not group:
        return units.pop(0) if units else "1"
    runs: list[list[int]] = []
    for atom in group:
        whole = home[atom][1]
        follows = runs and runs[-1][-1] in whole and whole.index(runs[-1][-1]) + 1 < len(whole)
        if follows and whole[whole.index(runs[-1][-1]) + 1] == atom:
            runs[-1].append(atom)
        else:
            runs.append([atom])
    parts = []
    for run in runs:
        letter, whole = home[run[0]]
        outer = run[0] == whole[0]
        parts.append(letter if outer else f"{product(sizes[atom] for atom in run)}{letter.lower()}")
    return parts[0] if len(parts) == 1 else f"({''.join(parts)})"


def order_of(layout: Layout, logical: Layout) -> list[int] | None:
    """The permutation of whole dimensions that a layout is, None where it is none."""
    if sorted(layout) != sorted(logical):
        return None
    rest: list[Group | None] = list(logical)
    found = []
    for group in layout:
        found.append(rest.index(group))
        rest[found[-1]] = None
    return found


def shown(shape: Shape) -> list[int | str]:
    """Sizes as a plan has them: numbers, or texts where they are known by name."""
    return [dim if isinstance(dim, int) else str(dim) for dim in shape]
