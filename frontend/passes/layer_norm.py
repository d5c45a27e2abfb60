"""Layer normalisation, which TensorFlow Lite has no operator for: it is written by means, squares and a root.

There are many ways to write it, so it is recognised by what is computed. Every value behind the root is followed as a
polynomial of the tensor x, its mean m and the reciprocal r of its deviation; where it is ``a*x*r - a*m*r + b`` with
constants a and b, it is one LayerNormalization with scale a and bias b.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import live, unlike, used
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Shape, Value, static_elements

Powers = tuple[int, int, int]
"""Of x, m and r in a term."""

Polynomial = Mapping[Powers, Array]
"""Terms by their powers. Factors have the rank of the value, or are single numbers."""

Readers = dict[str, list[int]]
"""The indices of the nodes that read a value."""

_BYTES = 4

_ONE, _X, _M, _R = (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)
_ROOT, _XR, _MR = (0, 0, -1), (1, 0, 1), (0, 1, 1)
_LEGAL = frozenset({_ONE, _X, _M, _R, _ROOT, _XR, _MR})


@dataclass(frozen=True)
class _Statistics:
    """The deviation of ``source`` over its dimensions from ``axis`` on, that a root computes."""

    source: str
    mean: str
    root: str
    axis: int
    epsilon: float


@np.errstate(all="ignore")
def recognise(graph: Graph, budget: Budget | None = None) -> Graph:
    """The same graph with LayerNormalization in place of operators that compute it, where the ``budget`` has room for
    its constants: they are spread over all that is normalised.
    """
    budget, values = budget or Budget(), dict(graph.values)
    readers: Readers = {}
    for index, node in enumerate(graph.nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(index)
    replaced: dict[int, Node] = {}
    for node in graph.nodes:
        found = _statistics(graph, node) if node.op == "Sqrt" else None
        if found is not None:
            terms = _Walk(graph, readers, found).terms
            for name in _results(graph, readers, found, terms):
                index = graph.producers[name]
                if not budget.affords(2 * static_elements(graph.values[name].shape[found.axis :]) * _BYTES):
                    continue
                replaced[index] = _written(graph.nodes[index], found, terms[name], values)
    if not replaced:
        return graph
    written = [replaced.get(index, node) for index, node in enumerate(graph.nodes)]
    nodes = live(written, graph.outputs, values, graph.formulas)
    return used(graph, nodes, values)


def _statistics(graph: Graph, root: Node) -> _Statistics | None:
    """What a root computes: ``Sqrt(ReduceMean((x - ReduceMean(x))^2) + epsilon)`` over the last dimensions of x."""
    shifted = _producer(graph, root.inputs[0], "Add")
    if shifted is None:
        return None
    for variance, added in (shifted.inputs, shifted.inputs[::-1]):
        epsilon = graph.constant(added)
        mean_square = _producer(graph, _unreshaped(graph, variance), "ReduceMean")
        centred = mean_square and _producer(graph, _squared(graph, mean_square.inputs[0]), "Sub")
        if epsilon is None or epsilon.size != 1:
            continue
        mean = centred and _producer(graph, _unreshaped(graph, centred.inputs[1]), "ReduceMean")
        if mean_square and centred and mean and centred.inputs[0] == mean.inputs[0]:
            axis = _common_axis(graph, mean, mean_square)
            names = (*root.outputs, *mean.outputs, *centred.inputs, *centred.outputs, variance, added)
            if axis is None or not all(graph.values[name].in_floats for name in names):
                continue
            if graph.values[centred.inputs[1]].shape == _kept(graph.values[mean.inputs[0]].shape, axis):
                return _Statistics(mean.inputs[0], mean.outputs[0], root.outputs[0], axis, float(epsilon.reshape(())))
    return None


def _producer(graph: Graph, name: str, op: str) -> Node | None:
    node = graph.producer(name)
    return node if node is not None and node.op == op else None


def _squared(graph: Graph, name: str) -> str:
    """What a value is the square of, as a product or a power; '' where it is none."""
    if product := _producer(graph, name, "Mul"):
        return product.inputs[0] if len(set(product.inputs)) == 1 else ""
    power = _producer(graph, name, "Pow")
    exponent = None if power is None else graph.constant(power.inputs[1])
    if power is None or exponent is None or exponent.size != 1 or exponent.reshape(()) != 2:
        return ""
    return power.inputs[0]


def _unreshaped(graph: Graph, name: str) -> str:
    """The value that a Reshape gives or takes dimensions of size 1, or the value itself."""
    node = _producer(graph, name, "Reshape")
    return node.inputs[0] if node is not None and _keeps(graph, node) else name


def _keeps(graph: Graph, node: Node) -> bool:
    before, after = (graph.values[name].shape for name in (node.inputs[0], node.outputs[0]))
    return [dim for dim in before if dim != 1] == [dim for dim in after if dim != 1]


def _common_axis(graph: Graph, *means: Node) -> int | None:
    """From which dimension on two means are taken; None where they differ, or leave out a later or a symbolic one."""
    shape = graph.values[means[0].inputs[0]].shape
    found = set()
    for node in means:
        axes = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if axes is None or graph.values[node.inputs[0]].shape != shape:
            return None
        given = {int(axis) % len(shape) for axis in axes.reshape(-1)}
        found.add(tuple(axis for axis in sorted(given) if shape[axis] != 1))
    first, *others = found
    if others or not first:
        return None
    behind = tuple(axis for axis in range(first[0], len(shape)) if shape[axis] != 1)
    return first[0] if first == behind and all(isinstance(size, int) for size in shape[first[0] :]) else None


def _kept(shape: Shape, axis: int) -> Shape:
    """The shape of a mean over the dimensions from ``axis`` on that keeps them with size 1."""
    return (*shape[:axis], *(1 for _ in shape[axis:]))


class _Walk:
    """Finds the polynomials of all values that depend on nothing but x, m, r and constants."""

    def __init__(self, graph: Graph, readers: Readers, found: _Statistics) -> None:
        self.graph = graph
        self.full = graph.values[found.source].shape
        self.kept = _kept(self.full, found.axis)
        one = np.ones((), np.float32)
        self.terms: dict[str, Polynomial] = {found.source: {_X: one}, found.mean: {_M: one}, found.root: {_ROOT: one}}
        waiting = sorted({index for name in self.terms for index in readers.get(name, ())})
        last = -1
        while waiting:
            index = heappop(waiting)
            node = graph.nodes[index]
            if index == last or node.outputs[0] in self.terms:
                continue
            last = index
            terms = self._computed(node)
            if terms and _LEGAL.issuperset(terms) and graph.values[node.outputs[0]].in_floats:
                self.terms[node.outputs[0]] = terms
                for reader in readers.get(node.outputs[0], ()):
                    heappush(waiting, reader)

    def _computed(self, node: Node) -> Polynomial | None:
        """The polynomial of a node's result, None where it is none."""
        if node.op == "Reshape":
            terms = self.terms.get(node.inputs[0], {})
            plain = terms and _keeps(self.graph, node) and all(factor.size == 1 for factor in terms.values())
            return {powers: factor.reshape(()) for powers, factor in terms.items()} if plain else None
        operands = [self._operand(name) for name in node.inputs]
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands) or not self._aligned(node):
            return None
        if node.op == "Neg":
            return {powers: -factor for powers, factor in given[0].items()}
        if node.op == "Reciprocal":
            return _reciprocal(given[0])
        if node.op in ("Add", "Sub"):
            sign = np.float32(1 if node.op == "Add" else -1)
            return _sum([*given[0].items(), *((powers, sign * factor) for powers, factor in given[1].items())])
        if node.op in ("Mul", "Div"):
            right = given[1] if node.op == "Mul" else _reciprocal(given[1])
            return None if right is None else _product(given[0], right)
        return None

    def _operand(self, name: str) -> Polynomial | None:
        data = self.graph.constant(name)
        if data is None:
            return self.terms.get(name)
        return {_ONE: data} if self.graph.values[name].in_floats and np.all(np.isfinite(data)) else None

    def _aligned(self, node: Node) -> bool:
        """Whether operands meet in the dimensions that they mean.

        A result is as x; or as its mean, whatever dimensions of size 1 that has, where all constants are numbers.
        """
        shape = self.graph.values[node.outputs[0]].shape
        computed = [self.graph.values[name].shape for name in node.inputs if name in self.terms]
        if shape == self.full:
            return all(each in (self.full, self.kept) for each in computed)
        constants = [data for name in node.inputs if (data := self.graph.constant(name)) is not None]
        return all(each == shape for each in computed) and all(data.size == 1 for data in constants)


def _sum(terms: Iterable[tuple[Powers, Array]]) -> Polynomial:
    total: dict[Powers, Array] = {}
    for powers, factor in terms:
        total[powers] = total[powers] + factor if powers in total else factor
    return {powers: factor for powers, factor in total.items() if np.any(factor)}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    def multiplied() -> Iterator[tuple[Powers, Array]]:
        for (x, m, r), factor in left.items():
            for (other_x, other_m, other_r), other in right.items():
                yield (x + other_x, m + other_m, r + other_r), factor * other

    return _sum(multiplied())


def _reciprocal(terms: Polynomial) -> Polynomial | None:
    """One over a power of r alone."""
    if len(terms) != 1:
        return None
    (((x, m, r), factor),) = terms.items()
    return None if x or m or not r or not np.all(factor == 1) else {(0, 0, -r): factor}


def _normal(terms: Polynomial, count: int) -> bool:
    """Whether a polynomial is a normalisation, scaled and shifted alike wherever the last ``count`` indices agree."""
    if not {_XR, _MR} <= set(terms) <= {_XR, _MR, _ONE}:
        return False
    alike = all(size == 1 for factor in terms.values() for size in factor.shape[:-count])
    return alike and bool(np.all(terms[_XR] == -terms[_MR]))


def _results(graph: Graph, readers: Readers, found: _Statistics, terms: Mapping[str, Polynomial]) -> list[str]:
    """The values that are to be computed as normalisations: the last of each chain, or what several nodes read."""
    shape = graph.values[found.source].shape
    normal = [
        name for name in terms if graph.values[name].shape == shape and _normal(terms[name], len(shape) - found.axis)
    ]
    results: list[str] = []
    behind: set[str] = set()
    for name in normal:
        following = [graph.nodes[index].outputs[0] for index in readers.get(name, ())]
        ends = len(following) != 1 or following[0] not in normal or name in graph.results
        if behind.intersection(graph.nodes[graph.producers[name]].inputs):
            behind.add(name)
        elif ends:
            results.append(name)
            behind.add(name)
    return results


def _written(node: Node, found: _Statistics, terms: Polynomial, values: dict[str, Value]) -> Node:
    """The operator that computes a normalisation, whose constants are entered."""
    name = node.outputs[0]
    sizes = tuple(int(str(size)) for size in values[name].shape[found.axis :])
    inputs = [found.source, _constant(values, f"{name}/scale", terms[_XR], sizes)]
    if _ONE in terms:
        inputs.append(_constant(values, f"{name}/bias", terms[_ONE], sizes))
    attributes = {"axis": -len(sizes), "epsilon": found.epsilon}
    return replace(node, op="LayerNormalization", inputs=tuple(inputs), outputs=(name,), attributes=attributes)


def _constant(values: dict[str, Value], name: str, factor: Array, sizes: tuple[int, ...]) -> str:
    name = unlike(name, values)
    data = np.broadcast_to(factor.reshape(factor.shape[-len(sizes) :]), sizes).astype(np.float32)
    values[name] = Value(name, "float32", sizes, None, np.ascontiguousarray(data))
    return name
