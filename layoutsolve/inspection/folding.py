"""A graph with less in it, to be seen at once: without QuantizeLinear and DequantizeLinear, and with repeated blocks as
one that tells how often it comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

HIDDEN = ("QuantizeLinear", "DequantizeLinear")
"""Operators that stand for how numbers are stored."""

SHORTEST, LONGEST = 3, 96
"""The fewest and the most operators of a block."""

Tie = tuple[int, int]


class Node(Protocol):
    """An operator, or an end of a graph, whose ``kind`` is 'end': the numbers of the tensors that it reads and
    gives.
    """

    op: str
    kind: str
    reads: list[int]
    gives: list[int]


@dataclass(frozen=True)
class Block:
    """A block of operators that comes again: the places of the first one, its length, and how often it comes in all."""

    start: int
    length: int
    times: int

    @property
    def again(self) -> range:
        """The places of what comes again."""
        return range(self.start + self.length, self.start + self.length * self.times)


@dataclass
class Folded:
    """What is left: the numbers of nodes that are shown, of nodes that each of the blocks stands for, and the ties
    between these, in which a block has a number from ``count`` on.
    """

    count: int
    shown: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    behind: list[list[int]] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)


def fold(nodes: Sequence[Node]) -> Folded:
    """Fold the nodes of a graph, which are in an order of execution."""
    makers: dict[int, int] = {}
    for number, node in enumerate(nodes):
        for each in node.gives:
            makers.setdefault(each, number)

    def made_by(tensor: int) -> set[int]:
        """The shown nodes that a tensor comes from, through those that are hidden."""
        found, waiting, seen = set[int](), [tensor], {tensor}
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is None:
                continue
            if nodes[maker].op not in HIDDEN:
                found.add(maker)
                continue
            new = [each for each in nodes[maker].reads if each not in seen]
            seen.update(new)
            waiting += new
        return found

    shown = [number for number, node in enumerate(nodes) if node.op not in HIDDEN]
    reads = {number: set[int]().union(*map(made_by, nodes[number].reads)) for number in shown}
    inner = [number for number in shown if nodes[number].kind != "end"]
    blocks = _blocks([(nodes[each].op, nodes[each].kind) for each in inner], _relative(inner, reads))
    folded, stands = Folded(len(nodes), blocks=blocks), dict[int, int]()
    for place, block in enumerate(blocks):
        again = [inner[each] for each in block.again]
        folded.behind.append(again)
        stands.update(dict.fromkeys(again, len(nodes) + place))
    folded.shown = [number for number in shown if number not in stands]
    pairs = ((stands.get(maker, maker), stands.get(number, number)) for number in shown for maker in reads[number])
    folded.ties = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    return folded


def _relative(inner: Sequence[int], reads: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """How far before each node those stand that it reads."""
    places = {number: place for place, number in enumerate(inner)}
    return [
        tuple(sorted(place - places[maker] for maker in reads[number] if maker in places))
        for place, number in enumerate(inner)
    ]


def _blocks(labels: Sequence[tuple[str, str]], relative: Sequence[tuple[int, ...]]) -> list[Block]:
    """The blocks that come again, one after the other, the one that hides most at each place."""
    found, start = list[Block](), 0
    while start < len(labels):
        best = None
        for length in range(SHORTEST, min(LONGEST, (len(labels) - start) // 2) + 1):
            block = Block(start, length, _times(labels, relative, start, length))
            if len(block.again) > (0 if best is None else len(best.again)):
                best = block
        if best is None:
            start += 1
            continue
        found.append(best)
        start += best.length * best.times
    return found


def _times(labels: Sequence[tuple[str, str]], relative: Sequence[tuple[int, ...]], start: int, length: int) -> int:
    """How often a block comes: the same operators, which read what stands as far before them. What is more than a block
    away may be anything, and so may be what the first block reads of what is before it.
    """

    def near(place: int, at: int, most: int) -> tuple[int, ...]:
        return tuple(each for each in relative[place + at] if each <= most)

    times = 1
    while start + length * (times + 1) <= len(labels):
        before, after = start + length * (times - 1), start + length * times
        for at in range(length):
            if labels[before + at] != labels[after + at]:
                return times
            most = at if times == 1 else at + length
            if near(before, at, most) != near(after, at, most):
                return times
        times += 1
    return times
