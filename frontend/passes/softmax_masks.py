"""Rows of attention in which a mask hides everything, for a runtime whose sums are finite.

Minus infinity is added to what is hidden, so that a softmax of such a row gives what is no number, and exporters put 0
in its place, where that is so or where all of a row is minus infinity. LiteRT's ADD gives the last finite number
instead, of which a softmax makes equal parts; and XNNPACK has no kernels for that. Here masks stay finite, and parts
are multiplied by 1 where a row has anything to see, else by 0: by nothing where the masks are constants that leave
something of each row. Scores are taken to be numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from layoutsolve.frontend.passes import mask_spellings
from layoutsolve.frontend.passes.attention_masks import LARGEST, PASSING
from layoutsolve.frontend.passes.composing import Composer
from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.ir.graph import Graph, Node, Shape, Value
from layoutsolve.ir.names import Names

HIDDEN = -LARGEST / 8
"""What is added to what is hidden: next to it no score matters, and of so many masks sums are finite."""

MOST_MASKS = 8

_FINITE, _LOW, _HIDING, _LIMITED, _UNKNOWN = range(5)
"""What a value may hold: numbers, those that are as low as what is hidden too, or minus infinity as well, or what a sum
with limits has made of it, the last finite number; or anything.
"""

_NUMBERS = frozenset(("Conv", "Erf", "Gemm", "LayerNormalization", "MatMul", "Sigmoid", "Softmax", "Tanh"))
_LIMITING = frozenset(("Add", "Div", "Mul", "Sub"))
_LIMITED_TO = (_FINITE, _LOW, _LIMITED, _UNKNOWN, _UNKNOWN)
_WHOLE = _LIMITING | {"Cast", "Concat", "Max", "Min", "Neg"}
"""Operators all of whose inputs matter for what they give."""


def finite(graph: Graph) -> Graph:
    """The same graph in which masks are finite, and zeros for what is no number are products with 0."""
    if not any(_zeroed(graph, node) for node in graph.nodes):
        return graph
    graph = mask_spellings.added(graph)
    found = {node: softmax for node in graph.nodes if (softmax := _zeroed(graph, node)) is not None}
    kinds, values, taken = _kinds(graph), dict(graph.values), Names(graph.values)
    nodes, masks = list[Node](), dict[object, str]()
    for node in graph.nodes:
        softmax = found.get(node)
        made = None if softmax is None else _Masked(graph, kinds, Composer(node, values, taken), masks)
        written = None if made is None or softmax is None else made.written(softmax)
        nodes += [node] if written is None else written
    return rewritten(graph, nodes, values)


def _zeroed(graph: Graph, node: Node) -> Node | None:
    """The softmax in which a node puts 0 in rows that are hidden."""
    if node.op != "Where" or node.domain or node.storage:
        return None
    for port, hidden in ((2, True), (1, False)):
        softmax, zero = graph.producer(node.inputs[port]), graph.constant(node.inputs[3 - port])
        if softmax is None or softmax.op != "Softmax" or softmax.domain or zero is None or zero.size != 1 or zero.any():
            continue
        floats = all(graph.values[name].in_floats for name in (*softmax.inputs, *softmax.outputs, *node.outputs))
        if floats and softmax.region is node.region and _tells(graph, node.inputs[0], softmax, hidden):
            return softmax
    return None


def _tells(graph: Graph, name: str, softmax: Node, hidden: bool) -> bool:
    """Whether a value tells which rows are hidden, or which are not: by what is no number in the result, or by what is
    minus infinity in all that is read of a row.
    """
    test = graph.producer(name)
    if test is None or test.domain or test.region is not softmax.region:
        return False
    (read, *more), (result,) = test.inputs, softmax.outputs
    if test.op == "Not":
        return _tells(graph, read, softmax, not hidden)
    if test.op == "IsNaN" or (test.op == "Equal" and read == result):
        return hidden == (test.op == "IsNaN") and {read, *more} == {result}
    low = test.op == "Equal" and any(end is not None and np.isneginf(end).all() for end in map(graph.constant, more))
    if low or test.op == "IsInf":
        row = graph.producer(read)
        return hidden and row is not None and row.op == "ReduceMax" and _is_row(graph, row, softmax)
    reduced = _plain(graph, name)
    if reduced is None or reduced.op != ("ReduceMin" if hidden else "ReduceMax"):
        return False
    return _is_row(graph, reduced, softmax, infinite=hidden)


def _plain(graph: Graph, name: str) -> Node | None:
    """What computes a value, but for what it is cast to."""
    node = graph.producer(name)
    while node is not None and node.op == "Cast":
        node = graph.producer(node.inputs[0])
    return node


def _is_row(graph: Graph, reduced: Node, softmax: Node, infinite: bool | None = None) -> bool:
    """Whether a reduction is along the rows of a softmax: of what that reads, or of where that is minus infinity, or
    where it is not.
    """
    shape, axes = graph.values[softmax.inputs[0]].shape, graph.constant(reduced.inputs[-1])
    if axes is None or not shape or len(reduced.inputs) != 2 or reduced.attributes.get("keepdims", 1) != 1:
        return False
    if [each % len(shape) for each in axes.ravel()] != [softmax.attributes.get("axis", -1) % len(shape)]:
        return False
    if infinite is None:
        return reduced.inputs[0] == softmax.inputs[0]
    node = _plain(graph, reduced.inputs[0])
    while node is not None and node.op == "Not":
        node, infinite = _plain(graph, node.inputs[0]), not infinite
    if node is None or node.op != "Equal" or not infinite:
        return False
    ends = [graph.constant(each) for each in node.inputs if each != softmax.inputs[0]]
    return len(ends) == 1 and ends[0] is not None and bool(np.isneginf(ends[0]).all())


def _kinds(graph: Graph) -> Mapping[str, int]:
    """By value what it may hold."""
    found = {name: _own_kind(value) for name, value in graph.values.items() if graph.producer(name) is None}
    for node in graph.nodes:
        ports = PASSING.get(node.op, ())
        read = [name for port, name in enumerate(node.inputs) if name and (node.op in _WHOLE or port in ports)]
        kind = max((found.get(name, _HIDING) for name in read), default=_HIDING)
        if node.domain or node.op in _NUMBERS:
            kind = _HIDING if node.domain else _FINITE
        elif node.op in _LIMITING:
            kind = _UNKNOWN if kind == _LOW and _enlarges(graph, node) else _LIMITED_TO[kind]
        found.update((name, kind if _in_floats(graph.values[name]) else _FINITE) for name in node.outputs if name)
    return found


def _enlarges(graph: Graph, node: Node) -> bool:
    """Whether a node is a product by more than 1, which makes infinite what is low."""
    known = [data for data in map(graph.constant, node.inputs) if data is not None]
    return node.op == "Mul" and any((np.abs(data) > 1).any() and (data > HIDDEN).all() for data in known)


def _own_kind(value: Value) -> int:
    """What a constant may hold, or an input."""
    if not _in_floats(value) or value.data is None:
        return _HIDING if _in_floats(value) else _FINITE
    infinite, low = np.isneginf(value.data), bool((value.data <= HIDDEN).any())
    if not infinite.any():
        return _UNKNOWN if not np.isfinite(value.data).all() else _LOW if low else _FINITE
    return _HIDING if (value.data[~infinite] > HIDDEN).all() and not np.isposinf(value.data).any() else _UNKNOWN


def _in_floats(value: Value) -> bool:
    return value.dtype in ("float16", "float32", "float64") and value.quant is None


class _Masked:
    """What is written for one softmax. ``masks`` are what was written of masks for others, by what tells them apart."""

    def __init__(self, graph: Graph, kinds: Mapping[str, int], made: Composer, masks: dict[object, str]) -> None:
        self.graph, self.kinds, self.made, self.masks = graph, kinds, made, masks

    def written(self, softmax: Node) -> list[Node] | None:
        """All nodes in place of a softmax and its zeros, None where they stay."""
        sums, hiding = self._parts(softmax.inputs[0])
        shape = self.graph.values[softmax.inputs[0]].shape
        axis = softmax.attributes.get("axis", -1) % max(len(shape), 1) - len(shape)
        if all(self.kinds[name] == _LOW for name in hiding):
            return self.made.end(softmax.outputs[0])
        known = all(
            self.kinds[name] in (_HIDING, _LIMITED) and len(self.graph.values[name].shape) >= -axis for name in hiding
        )
        if not shape or not sums or len(hiding) > MOST_MASKS or not known:
            return None
        made, whole = self.made, {name: self._bounded(name) for name in hiding}
        for node in sums:
            read = [whole.get(name, name) for name in node.inputs]
            whole[node.outputs[0]] = made.write("Add", read, self.graph.values[node.outputs[0]].shape)
        parts = made.write("Softmax", (whole[softmax.inputs[0]],), shape, axis=axis + len(shape))
        seen = self._seen(hiding, axis, shape)
        return made.end(made.write("Mul", (parts, seen), shape) if seen else parts)

    def _parts(self, name: str) -> tuple[list[Node], list[str]]:
        """The sums that a value is, in the order of execution, and what is added that may be no plain number."""
        sums, hiding, waiting = dict[Node, None](), dict[str, None](), [name]
        for name in waiting:  # which grows on the way
            node = self.graph.producer(name)
            if self.kinds[name] == _FINITE or node in sums:
                continue
            if node is not None and node.op == "Add" and not node.domain and node.region is self.made.node.region:
                sums[node] = None
                waiting += node.inputs
            else:
                hiding[name] = None
        return sorted(sums, key=lambda node: self.graph.producers[node.outputs[0]]), [*hiding]

    def _bounded(self, name: str) -> str:
        """A mask with a finite number for what it hides."""
        value, made = self.graph.values[name], self.made
        key = self._key(name), made.node.region, "bounded"
        if key not in self.masks:
            if value.data is not None:
                self.masks[key] = made.constant(np.maximum(value.data, np.float32(HIDDEN)), "mask")
            else:
                low = made.constant(np.array(HIDDEN, np.float32), "hidden")
                self.masks[key] = made.write("Max", (name, low), value.shape, "mask")
        return self.masks[key]

    def _seen(self, hiding: Sequence[str], axis: int, shape: Shape) -> str:
        """1 for each row that has something to see, else 0; '' where all have, whatever the model is given."""
        made, masks = self.made, [self.graph.values[name] for name in hiding]
        known = [mask.data for mask in masks if mask.data is not None]
        if len(known) == len(masks):
            least = reduce(np.minimum, known)
            rows = (least.max(axis, keepdims=True) > HIDDEN).astype(np.float32)
            return "" if rows.all() else made.constant(rows, "seen")
        key = (*map(self._key, hiding), axis, made.node.region)
        if key not in self.masks:
            rank = max(len(mask.shape) for mask in masks)
            full = [(*(1 for _ in range(rank - len(mask.shape))), *mask.shape) for mask in masks]
            wide = [
                size if any(each != 1 for each in along) else 1
                for size, *along in zip(shape[-rank:], *full, strict=True)
            ]
            lowest = made.write("Min", hiding, wide) if len(hiding) > 1 else hiding[0]
            few = [1 if place == rank + axis else size for place, size in enumerate(wide)]
            row = made.write("ReduceMax", (lowest, made.integers([axis + rank])), few, keepdims=1)
            end = made.constant(np.array(-LARGEST, np.float32), "least")
            limited = any(self.kinds[name] == _LIMITED for name in hiding)
            test = made.write("Greater" if limited else "GreaterOrEqual", (row, end), few)
            made.values[test] = replace(made.values[test], dtype="bool")
            self.masks[key] = made.write("Cast", (test,), few, to="float32")
        return self.masks[key]

    def _key(self, name: str) -> object:
        """What tells a mask from others: what it is computed of, and how."""
        node = self.graph.producer(name)
        if node is None:
            return name
        read = (self.graph.values[each] for each in node.inputs if each)
        return node.op, node.domain, str(node.attributes), *(_content(each) for each in read)


def _content(value: Value) -> object:
    small = value.data is not None and value.data.nbytes <= _SMALL
    return (value.dtype, value.shape, value.constant.tobytes()) if small else value.name


_SMALL = 64
