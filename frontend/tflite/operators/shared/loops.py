"""Loops that count their iterations, and the lists that they fill, one element after the other.

Converters of recurrent networks carry a list of all that the steps give through a loop, and put it together anew in
each turn: what is before the element, the element, what is behind it. ONNX's Loop collects elements without that, where
it is known how many turns there are, and that each of them fills in the next element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from layoutsolve.frontend.tflite.lowering.quantization import agree
from layoutsolve.ir.graph import Array, Node, Value

_COMPARED: Mapping[str, tuple[int, int]] = {
    "Greater": (1, 0),
    "GreaterOrEqual": (1, 1),
    "Less": (0, 0),
    "LessOrEqual": (0, 1),
}
"""By comparison, which operand is the smaller one where it holds, and 1 where they may be equal."""

_END = np.iinfo(np.int64).max
"""Where a Slice ends that goes to the end."""

_FAR = 1 << 31
"""What the integers of 32 bits end before."""

_DEEP = 64
"""How many operators in a row may compute an integer."""

_AXES, _STEPS = 3, 4
"""The inputs of a Slice that may be left out."""

_PARTS = 3
"""Of what a list is put together in each turn."""


@dataclass(frozen=True)
class _Line:
    """Integers that grow evenly: those of the first turn, and by how much they grow with each."""

    first: Array
    growth: Array

    def at(self, turn: int) -> Array:
        """The integers of a turn."""
        return np.asarray(self.first + turn * self.growth)


class Turns:
    """Iterations of a loop whose body is written: there is a first one, and ``again`` is whether another follows.

    ``carried`` has by what is carried, as a turn is given it, what it is before the loop and at the end of a turn.
    ``count`` is how many turns there are, None where that is not known.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        values: Mapping[str, Value],
        carried: Mapping[str, tuple[Value, Value]],
        again: Value,
    ) -> None:
        self.values, self.carried = values, carried
        self._made = {name: node for node in nodes for name in node.outputs}
        ends = [following.name for _, following in carried.values()]
        self._reads = Counter([*(name for node in nodes for name in node.inputs), *ends])
        self._lines: dict[str, _Line | None] = {}
        self._depth = 0
        self.count: int | None = None
        self.count = self._counted(again.name)
        self._lines.clear()  # more of them are known now

    def element(self, now: str) -> Value | None:
        """What is filled into a list as its next element, [1, ...], where each iteration does that and nothing else to
        it, until the list is full.
        """
        initial, following = self.carried[now]
        node = self._made.get(following.name)
        if node is not None and node.op == "ScatterND":
            return self._set(node, now)
        if node is None or node.op != "Concat" or node.attributes["axis"] != 0 or len(node.inputs) != _PARTS:
            return None
        before, name, after = node.inputs
        element = self.values[name]
        if initial.shape[:1] != (self.count,) or element.shape != (1, *initial.shape[1:]):
            return None
        alike = element.dtype == initial.dtype and agree(element.quant, initial.quant)
        others = self._reads[now] > _PARTS - 1 or any(self._reads[each] > 1 for each in (before, after, following.name))
        if not alike or not agree(following.quant, initial.quant) or others:
            return None
        return element if self._is_part(before, now, behind=False) and self._is_part(after, now, behind=True) else None

    def _set(self, node: Node, now: str) -> Value | None:
        """What is set as the next element of a list in each turn, where nothing else is done to it until it is full."""
        initial, following = self.carried[now]
        line, element = self._line(node.inputs[1]), self.values[node.inputs[2]]
        if node.inputs[0] != now or line is None or line.first.shape != (1, 1) or line.first.any():
            return None
        alike = element.dtype == initial.dtype and agree(element.quant, initial.quant)
        if not alike or element.shape != (1, *initial.shape[1:]) or initial.shape[:1] != (self.count,):
            return None
        apart = self._reads[now] == 1 and self._reads[following.name] == 1 and (line.growth == 1).all()
        return element if apart and node.attributes.get("reduction", "none") == "none" else None

    # -- how many there are ----------------------------------------------------------------------------------------

    def _counted(self, again: str) -> int | None:
        """How many turns there are; None where that is not known."""
        counts, names, seen = list[int](), [again], set[str]()
        while names:
            name = names.pop()
            if name in seen:
                continue
            seen.add(name)
            node, data = self._made.get(name), self._constant(name)
            if data is not None and data.all():
                continue
            if node is not None and node.op in ("And", "Identity", "Reshape"):
                names += node.inputs[: 1 + (node.op == "And")]
                continue
            count = None if node is None else self._last(node)
            if count is None:
                return None
            counts.append(count)
        count = min(counts, default=None)
        read = [line for line in self._lines.values() if line is not None]
        return None if any(_is_far(line.at(count or 0)) for line in read) else count

    def _last(self, node: Node) -> int | None:
        """The number of the first turn after which a comparison does not hold."""
        apart = self._apart(node)
        if apart is None or apart.first.size != 1:
            return None
        first, growth = int(apart.first.reshape(())), int(apart.growth.reshape(()))
        if first >= 0:
            return 1
        return 1 - first // growth if growth > 0 else None

    def _apart(self, node: Node) -> _Line | None:
        """What is below 0 as long as a comparison holds."""
        if node.op not in _COMPARED:
            return None
        smaller, equal = _COMPARED[node.op]
        one, other = self._line(node.inputs[smaller]), self._line(node.inputs[1 - smaller])
        if one is None or other is None or _is_far(one.first, other.first):
            return None
        return _Line(np.asarray(one.first - other.first - equal), np.asarray(one.growth - other.growth))

    # -- parts of a list -------------------------------------------------------------------------------------------

    def _is_part(self, name: str, now: str, behind: bool) -> bool:
        """Whether a value is what lies before the element of the turn in a list, or all that lies behind it."""
        node = self._made.get(name)
        if node is None or node.op != "Slice" or node.inputs[0] != now:
            return False
        shape = self.values[now].shape
        starts, ends = (self._line(each) for each in node.inputs[1:_AXES])
        if starts is None or ends is None:
            return False
        axes, steps = (
            self._constant(node.inputs[place]) if node.inputs[place:] and node.inputs[place] else default
            for place, default in ((_AXES, np.arange(len(starts.first))), (_STEPS, np.ones(1)))
        )
        if axes is None or steps is None or (steps != 1).any():
            return False
        begins, stops = np.zeros((2, len(shape)), np.int64), np.zeros((2, len(shape)), np.int64)
        stops[0] = _END
        begins[:, axes], stops[:, axes] = (starts.first, starts.growth), (ends.first, ends.growth)
        to_end = (stops[1] == 0) & (stops[0] >= [size if isinstance(size, int) else _END for size in shape])
        whole = (begins[:, 1:] == 0).all() and to_end[1:].all()
        if behind:
            return bool(whole and (begins[:, 0] == 1).all() and to_end[0])
        return bool(whole and (begins[:, 0] == 0).all() and (stops[:, 0] == (0, 1)).all())

    # -- integers --------------------------------------------------------------------------------------------------

    def _line(self, name: str) -> _Line | None:
        """The integers that a value is in each turn, where they grow evenly."""
        if name not in self._lines and self._depth < _DEEP:
            self._depth += 1
            self._lines[name] = self._found(name)
            self._depth -= 1
        return self._lines.get(name)

    def _found(self, name: str) -> _Line | None:
        value, node, data = self.values[name], self._made.get(name), self._constant(name)
        if value.dtype not in ("int32", "int64") or value.quant is not None:
            return None
        if data is not None:
            return _Line(data.astype(np.int64), np.zeros(data.shape, np.int64))
        if name in self.carried:
            return self._counter(name)
        shape = tuple(size for size in value.shape if isinstance(size, int))
        if node is None or node.domain or len(shape) != len(value.shape):
            return None
        if node.op == "Where":
            return self._chosen(node)
        given = [self._line(each) for each in node.inputs[: 1 if node.op in ("Cast", "Reshape") else None]]
        lines = [line for line in given if line is not None]
        if len(lines) < len(given):
            return None
        pair = [[line.first for line in lines], [line.growth for line in lines]]
        if node.op in ("Cast", "Identity", "Reshape"):
            first, growth = (np.asarray(parts[0]).reshape(shape) for parts in pair)
        elif node.op == "Concat":
            first, growth = (np.concatenate(parts, node.attributes["axis"]) for parts in pair)
        elif node.op in ("Add", "Sub"):
            sign = 1 if node.op == "Add" else -1
            first, growth = (np.asarray(one + sign * other) for one, other in pair)
            if _is_far(*pair[0], *pair[1], first, first + (self.count or 0) * growth):
                return None
        else:
            return None
        return _Line(first, growth)

    def _counter(self, now: str) -> _Line | None:
        """What is carried, if it grows by the same number in each turn."""
        initial, following = self.carried[now]
        node = self._made.get(following.name)
        if initial.data is None or node is None or node.op not in ("Add", "Sub") or now not in node.inputs:
            return None
        if node.op == "Sub" and node.inputs[0] != now:
            return None
        by = self._constant(node.inputs[1 - node.inputs.index(now)])
        if by is None or by.size != 1 or initial.data.size != 1:
            return None
        growth = np.full(initial.data.shape, by.reshape(()), np.int64)
        return _Line(initial.data.astype(np.int64), growth if node.op == "Add" else -growth)

    def _chosen(self, node: Node) -> _Line | None:
        """The same of two lines in all turns, number by number."""
        condition, *names = node.inputs
        compared = self._made.get(condition)
        apart = None if compared is None or self.count is None else self._apart(compared)
        one, other = (self._line(name) for name in names)
        if apart is None or self.count is None or one is None or other is None:
            return None
        holds = apart.at(0) < 0
        if (holds != (apart.at(self.count - 1) < 0)).any():
            return None
        return _Line(np.where(holds, one.first, other.first), np.where(holds, one.growth, other.growth))

    def _constant(self, name: str) -> Array | None:
        return self.values[name].data


def _is_far(*numbers: Array) -> bool:
    """Whether any integer does not fit into 32 bits."""
    return any(((each >= _FAR) | (each < -_FAR)).any() for each in numbers)
