"""Einsum as products of matrices, for a runtime that has no Einsum.

Two operands at a time: labels that both have and the result lacks are what is summed over, labels that all have are a
batch. What stands in what order is left to views, which cost nothing where layouts follow. Without a label to sum over
it is a product element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.composing import Composer, means_floats, replaced
from layoutsolve.ir.einsum_equation import ELLIPSIS, terms_of
from layoutsolve.ir.graph import Dim, Graph, Node, Size, Value, product
from layoutsolve.ir.names import Names


def products(graph: Graph) -> Graph:
    """The same graph without Einsums of floats whose sizes are known, but for that of one label; others stay."""
    return replaced(graph, "Einsum", _is_plain, lambda *given: _Product(*given).all())


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether no term has a label twice, no label two sizes, and all are of floats, and known but for one label's."""
    terms, result = terms_of(node.attributes["equation"])
    shapes = [graph.values[name].shape for name in node.inputs]
    if ELLIPSIS in "".join((*terms, result)) or any(len({*term}) < len(term) for term in (*terms, result)):
        return False
    if [len(term) for term in terms] != [len(shape) for shape in shapes]:  # which a runtime refuses
        return False
    pairs = {pair for term, shape in zip(terms, shapes, strict=True) for pair in zip(term, shape, strict=True)}
    known = len(pairs) == len({label for label, _ in pairs}) and sum(isinstance(size, Size) for _, size in pairs) <= 1
    return known and all(means_floats(graph.values[name]) for name in (*node.inputs, *node.outputs))


@dataclass(frozen=True)
class _Term:
    """A tensor, and the labels of its dimensions."""

    name: str
    labels: str


class _Product(Composer):
    """The nodes in place of one Einsum."""

    def __init__(self, node: Node, values: dict[str, Value], taken: Names) -> None:
        super().__init__(node, values, taken)
        terms, self.labels = terms_of(node.attributes["equation"])
        self.sizes: dict[str, Dim] = {
            label: size
            for name, term in zip(node.inputs, terms, strict=True)
            for label, size in zip(term, values[name].shape, strict=True)
        }
        self.terms = [_Term(self.real(number), term) for number, term in enumerate(terms)]

    def all(self) -> list[Node]:
        """Write all nodes."""
        left, *rest = self.terms
        left = self._summed(left, {*self.labels}.union(*(term.labels for term in rest)))
        for number, right in enumerate(rest):
            later = {*self.labels}.union(*(term.labels for term in rest[number + 1 :]))
            left = self._joined(left, self._summed(right, {*left.labels, *later}), later)
        return self.end(self._turned(left, self.labels).name)

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
        made = self.write("MatMul", (one.name, other.name), shape, "product")
        return self._shaped(_Term(made, batch + rows + columns), [*batch, *rows, *columns])

    def _summed(self, term: _Term, wanted: set[str]) -> _Term:
        """A term, summed over the labels that nothing else has."""
        axes = [axis for axis, label in enumerate(term.labels) if label not in wanted]
        if not axes:
            return term
        labels = "".join(label for label in term.labels if label in wanted)
        return self._write("ReduceSum", (term.name, self.integers(axes)), labels, keepdims=0, noop_with_empty_axes=0)

    def _turned(self, term: _Term, labels: str) -> _Term:
        """A term whose labels stand in another order."""
        if term.labels == labels:
            return term
        return self._write("Transpose", (term.name,), labels, perm=tuple(term.labels.index(each) for each in labels))

    def _shaped(self, term: _Term, groups: Sequence[str]) -> _Term:
        """A term in which some labels are one dimension, or none is a dimension of size 1."""
        return _Term(self.reshape(term.name, [self._size(group) for group in groups]), term.labels)

    def _size(self, labels: str) -> Dim:
        return product(self.sizes[label] for label in labels)

    def _write(self, op: str, inputs: tuple[str, ...], labels: str, **attributes: object) -> _Term:
        return _Term(self.write(op, inputs, [self._size(label) for label in labels], **attributes), labels)
