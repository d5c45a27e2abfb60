"""Concatenations in steps: neighbours that leave the same trailing factor alone are joined before the others.

A detection head writes maps as ``[N, A, B, H, W]``, which are rows ``[N, (H W A), B]`` to be joined. With one A for all
maps they are joined as they are, on ``[N, A, B, (H W)]``. Where A differs, that works for those who share it: joined
first, they need one Transpose together.

Steps are free choices that a graph is given before its layout problem is stated (:func:`in_steps`). Of solutions that
cost the same the one with the fewest steps is taken (:func:`settled`), and a step that nothing is moved after is put
together again with the concatenation that it belongs to (:func:`joined`). An assignment is one of the graph in steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from layoutsolve.graph import Dim, Graph, Node, Value, product
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.price import price_of_moves
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import FREE, Price

FEWEST = 3
"""The fewest operands with which a concatenation can be made in steps."""


def in_steps(graph: Graph) -> Graph:
    """The graph with every Concat split whose operands fall into runs of different trailing factors."""
    wide = {number for number, node in enumerate(graph.nodes) if node.op == "Concat" and len(node.inputs) >= FEWEST}
    if not wide:
        return graph
    factors = _Factors(graph)
    values = dict(graph.values)
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        nodes += _stepped(node, factors.neighbours(node), values) if number in wide else [node]
    return replace(graph, values=values, nodes=tuple(nodes)) if len(nodes) > len(graph.nodes) else graph


def _stepped(node: Node, neighbours: Sequence[Sequence[str]], values: dict[str, Value]) -> list[Node]:
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
        name = f"{result.name}/{len(steps)}"
        while name in values:
            name += "_"
        size = sum(dim for operand in run if isinstance(dim := values[operand].shape[axis], int))
        values[name] = replace(result, name=name, shape=(*result.shape[:axis], size, *result.shape[axis + 1 :]))
        steps.append(replace(node, inputs=tuple(run), outputs=(name,)))
        operands.append(name)
    return [*steps, replace(node, inputs=tuple(operands))]


@dataclass
class _Run:
    """Neighbouring operands, and the trailing factors that all of them leave alone; None for any, of constants."""

    operands: list[str]
    tails: frozenset[Dim] | None


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
        found: list[_Run] = []
        for name in node.inputs:
            tails = None if values[name].data is not None else self._tails(name, axis)
            if found and (common := _common(found[-1].tails, tails)) != frozenset():
                found[-1].operands.append(name)
                found[-1].tails = common
            else:
                found.append(_Run([name], tails))
        return [run.operands for run in found]

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
            whole = (each for each in node.inputs if each and self._has(each, own))
            following = next(whole, None)
            if following is None:
                break
            name, before = following, number
        return self.atoms.reading(name)[1]

    def _has(self, name: str, own: Sequence[int]) -> bool:
        """Whether a tensor that is computed has all factors of an axis."""
        return self.graph.values[name].data is None and set(own).issubset(self.atoms.reading(name)[1])


def _common(one: frozenset[Dim] | None, other: frozenset[Dim] | None) -> frozenset[Dim] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


# -- what is left of them ------------------------------------------------------------------------------------------


class _Steps:
    """The steps of concatenations in a solution, and the operators that take part in them."""

    def __init__(self, graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> None:
        self.problem, self.rows, self.tiers = problem, list(rows), tiers
        self.wanted: dict[int, Counter[Layout]] = {}
        self.between: set[int] = set()
        self.involved: dict[int, None] = {}
        joins = {
            number
            for number, operator in enumerate(problem.operators)
            if operator.node >= 0 and graph.nodes[operator.node].op == "Concat"
        }
        for number in sorted(joins):
            variable = problem.operators[number].ports[-1]
            if [reader in joins for reader, _ in problem.readers[variable]] == [True]:
                self.between.add(variable)
                self.involved.update({number: None, problem.readers[variable][0][0]: None})

    def settle(self, number: int) -> None:
        """Give an operator the row with the fewest steps around it among the cheapest."""
        present = self.rows[number]
        others = [row for row in range(len(self.problem.operators[number].rows)) if row != present]
        if others:
            self._take(number, min([present, *others], key=lambda row: self._cost(number, row)))

    def _take(self, number: int, row: int) -> None:
        """Change the row of an operator, and what is wanted of the tensors that it reads."""
        operator = self.problem.operators[number]
        for change, each in ((-1, self.rows[number]), (1, row)):
            for port in range(operator.inputs):
                wanted, layout = self._wanted(operator.ports[port]), operator.rows[each].layouts[port]
                wanted[layout] += change
                if not wanted[layout]:
                    del wanted[layout]
        self.rows[number] = row

    def _wanted(self, variable: int) -> Counter[Layout]:
        """How many readers want a tensor in each layout."""
        if variable not in self.wanted:
            places = self.problem.readers[variable]
            self.wanted[variable] = Counter(
                chosen(self.problem, self.rows, each).layouts[port] for each, port in places
            )
        return self.wanted[variable]

    def _price(self, variable: int) -> Price:
        writer = self.problem.writers[variable]
        if writer is None:
            return FREE
        written = chosen(self.problem, self.rows, writer[0]).layouts[writer[1]]
        return price_of_moves(self.problem, variable, written, self._wanted(variable).keys())

    def _cost(self, number: int, row: int) -> tuple[int, ...]:
        """What an operator and the tensors around it cost in a row, and how many steps are left there."""
        rows, problem = self.rows, self.problem
        self._take(number, row)
        around = [variable for variable in set(problem.operators[number].ports) if problem.writers[variable]]
        total = sum((self._price(each) for each in around), chosen(problem, rows, number).price)
        return (*ranked(total, self.tiers), sum(self._stays(rows, each) for each in self.between.intersection(around)))

    def _stays(self, rows: Sequence[int], variable: int) -> bool:
        """Whether something is moved after a step."""
        places = (self.problem.writers[variable], self.problem.readers[variable][0])
        layouts = {chosen(self.problem, rows, place[0]).layouts[place[1]] for place in places if place}
        return len(layouts) > 1


def settled(graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> tuple[int, ...]:
    """The rows of a solution with fewer steps that are operators of their own, where that costs nothing."""
    steps = _Steps(graph, problem, rows, tiers)
    for number in steps.involved:
        steps.settle(number)
    return tuple(steps.rows)


def joined(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph with every Concat left out that only another one along the same axis reads, which reads its operands
    instead; ``kept`` are names of tensors that have to stay.
    """
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update([*graph.outputs, *kept])
    single: dict[str, Node] = {}
    gone: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "Concat":
            parts = {name for name in node.inputs if name in single and _continues(graph, single[name], node)}
            gone.update({name: single[name] for name in parts})
            if reads[node.outputs[0]] == 1:
                single[node.outputs[0]] = node
    if not gone:
        return graph
    values = {name: value for name, value in graph.values.items() if name not in gone}
    left = (node for node in graph.nodes if not (node.op == "Concat" and node.outputs[0] in gone))
    return replace(graph, values=values, nodes=tuple(_whole(node, gone) for node in left))


def _whole(node: Node, gone: Mapping[str, Node]) -> Node:
    """A node that reads the operands of concatenations that are left out instead of their results."""
    if gone.keys().isdisjoint(node.inputs):
        return node
    operands: list[str] = []
    stack = list(node.inputs)[::-1]
    while stack:
        name = stack.pop()
        if name in gone:
            stack.extend(gone[name].inputs[::-1])
        else:
            operands.append(name)
    return replace(node, inputs=tuple(operands))


def _continues(graph: Graph, first: Node, node: Node) -> bool:
    """Whether a Concat does what another one began, on values that mean the same."""
    step, whole = (graph.values[each.outputs[0]] for each in (first, node))
    axes = {each.attributes["axis"] % len(whole.shape) for each in (first, node)}
    same = step.quant.matches(whole.quant) if step.quant else whole.quant is None
    return len(axes) == 1 and same and first.storage == node.storage and first.region is node.region
