"""Einsum as products of matrices, for a runtime that has no Einsum.

Two operands at a time: labels that both have and the result lacks are what is summed over, labels that all have are a
batch. What stands in what order is left to views, which cost nothing where layouts follow. Without a label to sum over
it is a product element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.einsum_equation import ELLIPSIS, terms_of
from layoutsolve.ir.graph import Graph, Node, Value
from layoutsolve.ir.names import Names


def products(graph: Graph) -> Graph:
    """The same graph without Einsums of floats whose sizes are known; others stay."""
    if not any(node.op == "Einsum" for node in graph.nodes):
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for node in graph.nodes:
        if node.op == "Einsum" and not node.domain and _is_plain(graph, node):
            nodes += _Product(node, values, taken).nodes
        else:
            nodes.append(node)
    return used(graph, nodes, values)


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether no term has a label twice, no label two sizes, and all are known and of floats."""
    terms, result = terms_of(node.attributes["equation"])
    shapes = [graph.values[name].shape for name in node.inputs]
    if ELLIPSIS in "".join((*terms, result)) or any(len({*term}) < len(term) for term in (*terms, result)):
        return False
    pairs = {pair for term, shape in zip(terms, shapes, strict=True) for pair in zip(term, shape, strict=True)}
    known = len(pairs) == len({label for label, _ in pairs}) and all(isinstance(size, int) for _, size in pairs)
    return known and all(graph.values[name].in_floats for name in (*node.inputs, *node.outputs))


@dataclass(frozen=True)
class _Term:
    """A tensor, and the labels of its dimensions."""

    name: str
    labels: str


class _Product:
    """The nodes in place of one Einsum."""

    def __init__(self, node: Node, values: dict[str, Value], taken: Names) -> None:
        self.node, self.values, self.taken = node, values, taken
        self.nodes: list[Node] = []
        terms, result = terms_of(node.attributes["equation"])
        self.sizes: dict[str, int] = {
            label: size
            for name, term in zip(node.inputs, terms, strict=True)
            for label, size in zip(term, values[name].shape, strict=True)
            if isinstance(size, int)  # as all are
        }
        left, *rest = (_Term(name, term) for name, term in zip(node.inputs, terms, strict=True))
        left = self._summed(left, {*result}.union(*(term.labels for term in rest)))
        for number, right in enumerate(rest):
            later = {*result}.union(*(term.labels for term in rest[number + 1 :]))
            left = self._joined(left, self._summed(right, {*left.labels, *later}), later)
        made = self._turned(left, result)
        self.nodes.append(Node("Identity", (made.name,), node.outputs, {}, node.origin, region=node.region))

    def _joined(self, left: _Term, right: _Term, later: set[str]) -> _Term:
        """The product of two operands, summed over what only they have."""
        both = [label for label in left.labels if label in right.labels]
        batch = "".join(label for label in both if label in later)
        inner = "".join(label for label in both if label not in later)
        rows, columns = ("".join(each for each in term.labels if each not in both) for term in (left, right))
        if not inner:
            one = self._shaped(self._turned(left, batch + rows), [*batch, *rows, *("" for _ in columns)])
            other = self._shaped(self._turned(right, batch + columns), [*batch, *("" for _ in rows), *columns])
            return self._write("Mul", (one.name, other.name), batch + rows + columns)
        one = self._shaped(self._turned(left, batch + rows + inner), [*batch, rows, inner])
        other = self._shaped(self._turned(right, batch + inner + columns), [*batch, inner, columns])
        shape = [*(self.sizes[label] for label in batch), self._size(rows), self._size(columns)]
        product = self._value("product", shape)
        self._add("MatMul", (one.name, other.name), product)
        return self._shaped(_Term(product, batch + rows + columns), [*batch, *rows, *columns])

    def _summed(self, term: _Term, wanted: set[str]) -> _Term:
        """A term, summed over the labels that nothing else has."""
        axes = [axis for axis, label in enumerate(term.labels) if label not in wanted]
        if not axes:
            return term
        labels = "".join(label for label in term.labels if label in wanted)
        return self._write("ReduceSum", (term.name, self._integers(axes)), labels, keepdims=0, noop_with_empty_axes=0)

    def _turned(self, term: _Term, labels: str) -> _Term:
        """A term whose labels stand in another order."""
        if term.labels == labels:
            return term
        return self._write("Transpose", (term.name,), labels, perm=tuple(term.labels.index(each) for each in labels))

    def _shaped(self, term: _Term, groups: Sequence[str]) -> _Term:
        """A term in which some labels are one dimension, or none is a dimension of size 1."""
        shape = [self._size(group) for group in groups]
        if list(self.values[term.name].shape) == shape:
            return term
        made = self._value("shaped", shape)
        self._add("Reshape", (term.name, self._integers(shape)), made)
        return _Term(made, term.labels)

    def _size(self, labels: str) -> int:
        return prod(self.sizes[label] for label in labels)

    def _write(self, op: str, inputs: tuple[str, ...], labels: str, **attributes: object) -> _Term:
        made = self._value(op.lower(), [self._size(label) for label in labels])
        self._add(op, inputs, made, **attributes)
        return _Term(made, labels)

    def _add(self, op: str, inputs: tuple[str, ...], made: str, **attributes: object) -> None:
        self.nodes.append(Node(op, inputs, (made,), attributes, self.node.origin, region=self.node.region))

    def _value(self, label: str, shape: Sequence[int]) -> str:
        name = self.taken.derived(self.node.outputs[0], label)
        self.values[name] = replace(self.values[self.node.outputs[0]], name=name, shape=tuple(shape))
        return name

    def _integers(self, numbers: Sequence[int]) -> str:
        name = self.taken.derived(self.node.outputs[0], "sizes")
        self.values[name] = Value(name, "int64", (len(numbers),), None, np.array(numbers, np.int64))
        return name
