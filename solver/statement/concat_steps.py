"""Concatenations in steps: neighbours that leave the same trailing factor alone are joined before the others.

A detection head writes maps as ``[N, A, B, H, W]``, which are rows ``[N, (H W A), B]`` to be joined. With one A for all
maps they are joined as they are, on ``[N, A, B, (H W)]``. Where A differs, that works for those who share it: joined
first, they need one Transpose together.

Steps are free choices that a graph is given before its layout problem is stated (:func:`in_steps`). Of solutions that
cost the same the one is taken in which the fewest steps are moved (``joined`` of a
:class:`~layoutsolve.solver.theory.variable.Variable`), and one that is not is written together with the concatenation
that it belongs to (:mod:`layoutsolve.emit.concats`). An assignment is one of the graph in steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from layoutsolve.ir.graph import Dim, Graph, Node, Value, product
from layoutsolve.ir.names import Names
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.relation import Placed

FEWEST = 3
"""The fewest operands with which a concatenation can be made in steps."""


def in_steps(graph: Graph) -> Graph:
    """The graph with every Concat split whose operands fall into runs of different trailing factors."""
    wide = {
        number
        for number, node in enumerate(graph.nodes)
        if node.op == "Concat" and not node.domain and len(node.inputs) >= FEWEST and is_known(graph, node)
    }
    if not wide:
        return graph
    factors, taken, values = _Factors(graph), Names(graph.values), dict(graph.values)
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        nodes += _stepped(node, factors.neighbours(node), values, taken) if number in wide else [node]
    return replace(graph, values=values, nodes=tuple(nodes)) if len(nodes) > len(graph.nodes) else graph


def is_known(graph: Graph, node: Node) -> bool:
    """Whether a concatenation is one of values of which the rank is known, and the same."""
    values = [graph.values[name] for name in (*node.inputs, *node.outputs)]
    return all(each.foreign is None and len(each.shape) == len(values[0].shape) for each in values)


def _stepped(node: Node, neighbours: Sequence[Sequence[str]], values: dict[str, Value], taken: Names) -> list[Node]:
    """A Concat with each of some runs of its operands joined before it; adds the values between."""
    if len(neighbours) < 2:
        return [node]
    steps: list[Node] = []
    operands: list[str] = []
    result = values[node.outputs[0]]
    axis = node.attributes["axis"] % len(result.shape)
    for run in neighbours:
        if len(run) == 1:
            operands += run
            continue
        name = taken.derived(result.name, str(len(steps)))
        size = sum(dim for operand in run if isinstance(dim := values[operand].shape[axis], int))
        values[name] = replace(result, name=name, shape=(*result.shape[:axis], size, *result.shape[axis + 1 :]))
        steps.append(replace(node, inputs=tuple(run), outputs=(name,)))
        operands.append(name)
    return [*steps, replace(node, inputs=tuple(operands))]


class _Factors:
    """The trailing factors of operands: what data along an axis has behind the part that lies together in memory."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.atoms = Atoms(graph)

    def neighbours(self, node: Node) -> list[list[str]]:
        """The operands of a Concat in runs of the same trailing factor."""
        values, result = self.graph.values, self.graph.values[node.outputs[0]]
        axis = node.attributes["axis"] % len(result.shape)
        along_channels = result.quant is not None and result.quant.axis is not None
        if along_channels or any(not isinstance(values[name].shape[axis], int) for name in node.inputs):
            return [list(node.inputs)]
        found: list[tuple[list[str], frozenset[Dim] | None]] = []
        for name in node.inputs:
            tails = None if values[name].data is not None else self._tails(name, axis)
            if found and (common := _common(found[-1][1], tails)) != frozenset():
                found[-1][0].append(name)
                found[-1] = found[-1][0], common
            else:
                found.append(([name], tails))
        return [operands for operands, _ in found]

    def _tails(self, name: str, axis: int) -> frozenset[Dim]:
        """The trailing factors of a tensor's axis: 1 or all of it where the whole axis lies together."""
        layout, leaves = self.atoms.reading(name)
        own = [leaves[atom] for atom in layout[axis]]
        together = set(pairwise(self._source(name, own)))
        tail = next((index for index, pair in enumerate(pairwise(own), 1) if pair not in together), None)
        if tail is None:
            return frozenset({1, self.graph.values[name].shape[axis]})
        return frozenset({product(self.atoms.size(leaf) for leaf in own[tail:])})

    def _source(self, name: str, own: Sequence[int]) -> list[int]:
        """The factors of the tensor that an axis comes from, in order: the nearest one with a fixed data format."""
        before = len(self.graph.nodes)
        while (number := self.graph.producers.get(name)) is not None and number < before:
            node = self.graph.nodes[number]
            if number in self.atoms.views:
                name, before = node.inputs[0], number
                continue
            if isinstance(self.atoms.rule(number).forms[0], Placed):
                break
            computed = (each for each in node.inputs if each and self.graph.values[each].data is None)
            following = next((each for each in computed if {*own}.issubset(self.atoms.reading(each)[1])), None)
            if following is None:
                break
            name, before = following, number
        return self.atoms.reading(name)[1]


def _common(one: frozenset[Dim] | None, other: frozenset[Dim] | None) -> frozenset[Dim] | None:
    """The trailing factors that two operands leave alone; None for any, of constants."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
