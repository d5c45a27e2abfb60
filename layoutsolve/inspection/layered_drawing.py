"""Where the nodes of a graph are drawn: in layers from top to bottom, with few crossings and straight lines.

In the manner of Sugiyama, Tagawa and Toda (1981): a node lies below all that it reads, a line that passes layers has a
place in each of them, rows are put in the order of the barycentres of what they are tied to, and places are the nearest
to those of their neighbours that leave room (isotonic regression, by pooling adjacent violators).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

STEP = 52
"""From one layer to the next, in pixels."""

GAP, LANE = 18, 10
"""Room between two nodes of a layer, and what a line that passes takes."""

SWEEPS = 6
"""How often rows are ordered, and then placed."""

LANES = 40
"""Places of passing lines for each node that there may be: the longest lines beyond are drawn straight."""

SIDE, STRAIGHT = 0.001, 8.0
"""The weight of a tie to a node that reads nothing, and of one within a line; that of others is 1."""

Point = tuple[int, int]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Drawing:
    """The centre of each node, and for each edge the points between its ends at which it bends."""

    places: tuple[Point, ...]
    bends: dict[Edge, tuple[Point, ...]]


def drawing(widths: Sequence[int], edges: Iterable[Edge]) -> Drawing:
    """Place nodes, given in an order of execution by their widths; ``edges`` lead from earlier to later ones, others
    have no part in it.
    """
    ahead = sorted({(first, last) for first, last in edges if first < last})
    graph = _Layers([*map(float, widths)], ahead)
    graph.arrange()
    at = [(round(x), STEP * layer) for x, layer in zip(graph.x, graph.layer, strict=True)]
    bends = {
        edge: tuple(_bends([at[edge[0]], *(at[lane] for lane in graph.lanes(edge)), at[edge[1]]])) for edge in ahead
    }
    return Drawing(tuple(at[: len(widths)]), bends)


def _bends(points: Sequence[Point]) -> Iterable[Point]:
    """The points at which a line changes its direction."""
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if point[0] - before[0] != after[0] - point[0]:
            yield point


@dataclass
class _Layers:
    """Nodes, behind them the lanes of passing lines; a tie joins two of neighbouring layers."""

    widths: list[float]
    edges: list[Edge]
    layer: list[int] = field(init=False)
    x: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.count = len(self.widths)
        self.reads: dict[int, list[int]] = defaultdict(list)
        self.read_by: dict[int, list[int]] = defaultdict(list)
        for first, last in self.edges:
            self.reads[last].append(first)
            self.read_by[first].append(last)
        self.layer = self._depths()
        self.above: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.below: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.line: dict[int, list[int]] = {}
        self._tie()
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for number, layer in enumerate(self.layer):
            self.rows[layer].append(number)
        self.x = [0.0] * len(self.layer)

    def _depths(self) -> list[int]:
        """The layer of each node; one that reads nothing lies just above the first that reads it."""
        depth = [0] * self.count
        for number in range(self.count):
            depth[number] = max((depth[each] + 1 for each in self.reads[number]), default=0)
        for number in range(self.count):
            if not self.reads[number] and self.read_by[number]:
                depth[number] = min(depth[each] for each in self.read_by[number]) - 1
        return depth

    def _tie(self) -> None:
        """Give lines that pass layers their lanes, one for all that read a node, the shortest lines first."""
        farthest = {first: max(self.layer[last] for last in self.read_by[first]) for first, _ in self.edges}
        room = LANES * self.count
        for first in sorted(farthest, key=lambda number: (farthest[number] - self.layer[number], number)):
            room -= farthest[first] - self.layer[first] - 1
            if room < 0:
                break
            self._lay(first, farthest[first])
        for first, last in self.edges:
            line = self.line.get(first, [])
            passed = self.layer[last] - self.layer[first] - 1
            if passed <= len(line):
                self._join(line[passed - 1] if passed else first, last, 1.0 if self.reads[first] else SIDE)

    def _lay(self, first: int, until: int) -> None:
        line = self.line[first] = []
        for layer in range(self.layer[first] + 1, until):
            number = len(self.layer)
            self.layer.append(layer)
            self.widths.append(LANE)
            self._join(line[-1] if line else first, number, STRAIGHT if line else 1.0)
            line.append(number)

    def _join(self, upper: int, lower: int, weight: float) -> None:
        self.below[upper].append((lower, weight))
        self.above[lower].append((upper, weight))

    def lanes(self, edge: Edge) -> list[int]:
        """What an edge passes."""
        return self.line.get(edge[0], [])[: self.layer[edge[1]] - self.layer[edge[0]] - 1]

    def arrange(self) -> None:
        """Order all rows and place what is in them."""
        for row in self.rows:
            self._number(row)
        for sweep in range(SWEEPS):
            for row, ties in self._walk(sweep):
                row.sort(key=lambda number: self._barycentre(number, ties))
                self._number(row)
        for row in self.rows:
            self._pack(row, [0.0] * len(row))
        for sweep in range(SWEEPS):
            for row, ties in self._walk(sweep):
                self._pack(row, [self._barycentre(number, ties) for number in row])

    def _walk(self, sweep: int) -> Iterable[tuple[list[int], dict[int, list[tuple[int, float]]]]]:
        """The rows from above, tied to those above, and the other way round by turns."""
        rows, ties = (self.rows, self.above) if sweep % 2 == 0 else (self.rows[::-1], self.below)
        return ((row, ties) for row in rows)

    def _number(self, row: Sequence[int]) -> None:
        for place, number in enumerate(row):
            self.x[number] = float(place)

    def _barycentre(self, number: int, ties: dict[int, list[tuple[int, float]]]) -> float:
        tied = ties.get(number)
        if not tied:
            return self.x[number]
        return sum(self.x[other] * weight for other, weight in tied) / sum(weight for _, weight in tied)

    def _pack(self, row: Sequence[int], wanted: Sequence[float]) -> None:
        """Place a row as near to what is wanted as its widths allow."""
        offsets, offset = [], 0.0
        for number, after in zip(row, [*row[1:], None], strict=True):
            offsets.append(offset)
            offset += (self.widths[number] + (self.widths[after] if after is not None else 0.0)) / 2 + GAP
        free = [want - offset for want, offset in zip(wanted, offsets, strict=True)]
        weights = [1.0 if self.above.get(number) else SIDE for number in row]
        for number, place, offset in zip(row, _rising(free, weights), offsets, strict=True):
            self.x[number] = place + offset


def _rising(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The rising numbers that are nearest to given ones: the least weighted sum of squares."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            before = pools.pop()
            total = before[1] + pool[1]
            pool = ((before[0] * before[1] + pool[0] * pool[1]) / total, total, before[2] + pool[2])
        pools.append(pool)
    return [value for value, _, count in pools for _ in range(count)]
