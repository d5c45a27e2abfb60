"""Operators that take or put slices by index, reverse parts of sequences, or transform along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Dim, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Changed, Dims, Rule, Site, Step, Way, numbered, rule, static
from layoutsolve.solver.theory.rule import sizes as sizes_of
from layoutsolve.solver.theory.rules.fixed_format import orders

MERGED = 3
"""The most dimensions beside batch and time of a ReverseSequence for which ways to merge them are listed."""


@rule("GatherND")
def gather_nd(site: Site) -> Rule | None:
    """What is indexed comes first, and what is not behind it in any arrangement, as one dimension too. The dimensions
    of the indices come in any arrangement, where there is no batch that they share with the data. Where indices are
    constant, what is indexed comes in any order, in which the entries of each index are stored.
    """
    return _indexed(site, site.attribute("batch_dims", 0))


@rule("ScatterND")
def scatter_nd(site: Site) -> Rule | None:
    """As GatherND; the dimensions of the indices, in whose order slices are put, stay in order, but where indices are
    constant and no two are the same.
    """
    return _indexed(site, 0)


def _indexed(site: Site, batches: int) -> Rule | None:
    """The rule of slices of data at indices: of GatherND, and of ScatterND, which reads what GatherND gives."""
    data, indices, scattered = site.required(0).shape, site.required(1), site.node.op == "ScatterND"
    depth, outer = indices.shape[-1], len(indices.shape) - 1
    if not isinstance(depth, int) or not 0 <= batches <= outer or batches + depth > len(data):
        return None
    inner = tuple((f"r{axis}",) if data[axis] != 1 else () for axis in range(batches + depth, len(data)))
    rest = tuple(label for labels in inner for label in labels)
    batch = tuple((f"b{axis}",) for axis in range(batches))
    rows = tuple((f"o{axis}",) if indices.shape[axis] != 1 else () for axis in range(batches, outer))
    labels = tuple(label for labels in rows for label in labels)
    moving = not batches and (not scattered or _different(site.constant(1)))
    lead: Dims = () if moving else rows

    def ports(first: Dims, order: Sequence[int], behind: Dims) -> tuple[Dims, ...]:
        whole = (*batch, *((f"i{axis}",) for axis in order), *behind)
        gathered = (*batch, *first, *behind)
        return whole, (*batch, *first, ("depth",)), gathered, *([whole] if scattered else [])

    def way(order: Sequence[int], behind: Dims, kind: str) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if list(order) == sorted(order):
                return site.same()
            return site.same(inputs={1: Changed(1, lambda data: np.ascontiguousarray(data[..., list(order)]))})

        places = ports(lead, order, behind)
        form = Placed(places, frozenset(rest), mixed=kind == "together")
        if moving:
            form = replace(form, prefix=labels, columns=bare)
        return Way(form, rewrite, kind)

    bare = frozenset({0, 3} if scattered else {0})  # ports without the dimensions of the indices
    every = orders(depth) if site.changeable(1) else [tuple(range(depth))]
    ways = [way(order, inner, "apart") for order in every]
    if len(rest) > 1:
        ways += [way(order, (rest,), "together") for order in every]
    dims = ports(rows, range(depth), inner)
    solid = frozenset(f"i{axis}" for axis in range(depth)) | {"depth", *(label for (label,) in batch)}
    inputs = (0, 1, 2) if scattered else (0, 1)
    return Rule(inputs, dims, tuple(ways), solid=solid if moving else solid.union(labels))


def _different(indices: Array | None) -> bool:
    """Whether indices are known, and no two of them are the same."""
    if indices is None:
        return False
    lines = indices.reshape(-1, indices.shape[-1])
    return bool((lines >= 0).all()) and len(np.unique(lines, axis=0)) == len(lines)


@dataclass(frozen=True)
class _Lines:
    """The stored dimension in which the batch lies, by labels: what comes ``before`` it, and what ``after`` it."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def lengths(self, site: Site, sizes: Mapping[str, Dim], lines: Dim) -> tuple[tuple[Step, ...], int | str | Array]:
        """The length of each of so many ``lines``: what has to be written before, and what names it."""
        if not (self.before or self.after):
            return (), 1
        steps, count = sizes_of((lines,))
        known, found = site.constant(1), Between("lengths", "int64", (lines,))
        if sizes["b"] == 1:
            return (*steps, Step("Expand", (1, count), (found,))), found.name
        inner = prod(static(sizes[label]) for label in self.after)
        where = np.arange(static(lines)) // inner % static(sizes["b"])
        if known is not None:
            return (), known[where]
        return (Step("Gather", (1, where), (found,), {"axis": 0}),), found.name


def _lines(labels: Sequence[str], sizes: Mapping[str, Dim]) -> Iterator[_Lines]:
    """The ways to merge some labels with the batch.

    A batch of size 1 has one length for all, so that it is no matter on which side of it they lie. Else all sizes have
    to be numbers.
    """
    one = sizes["b"] == 1
    if len(labels) > MERGED or not (one or isinstance(sizes["b"], int)):
        return
    sides = [(0, 1) if one else (0, 1, 2) if isinstance(sizes[label], int) else (0,) for label in labels]
    for chosen in list(product(*sides))[1:]:
        before, after = (
            tuple(label for label, at in zip(labels, chosen, strict=True) if at == side) for side in (1, 2)
        )
        yield _Lines(before, after)


@rule("ReverseSequence")
def reverse_sequence(site: Site) -> Rule | None:
    """Batch and time come first, either way round; the other dimensions are one, in any arrangement.

    Some of them may lie around the batch instead, as one dimension with it: each line of ``[(before b after), t,
    rest]`` has the length of its ``b``.
    """
    shape = site.required(0).shape
    names = ("b", "t") if site.attribute("batch_axis", 1) == 0 else ("t", "b")
    logical: Dims = ((names[0],), (names[1],), *numbered(shape)[2:])
    sizes = {label: dim for labels, dim in zip(logical, shape, strict=True) for label in labels}
    others = tuple(label for label in sizes if label not in names)
    lengths: tuple[Dims, ...] = () if site.constant(1) is not None else ((("b",),),)

    def way(order: str, lines: _Lines, behind: Dims, kind: str) -> Way:
        stored: Mapping[str, tuple[str, ...]] = {"b": (*lines.before, "b", *lines.after), "t": ("t",)}
        dims = (*(stored[label] for label in order), *behind)
        axes = {"batch_axis": order.index("b"), "time_axis": order.index("t")}

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            steps, counted = lines.lengths(site, sizes, shapes[0][axes["batch_axis"]])
            return (*steps, *site.same(axes, {1: counted}))

        return Way(Placed((dims, *lengths, dims), free=frozenset(others), mixed=True), rewrite, kind)

    orders = (("bt", "batch first"), ("tb", "time first"))
    behind: list[tuple[str, Dims]] = [("apart", logical[2:]), *([("together", (others,))] if len(others) > 1 else [])]
    ways = [way(order, _Lines(), dims, f"{first}, {how}") for order, first in orders for how, dims in behind]
    for lines in _lines(others, sizes):
        rest = tuple(label for label in others if label not in (*lines.before, *lines.after))
        ways += [way(order, lines, (rest,) if rest else (), f"{first}, merged batch") for order, first in orders]
    return Rule((0, 1)[: 1 + len(lengths)], (logical, *lengths, logical), tuple(ways), solid=frozenset("bt"))


FEW = 3
"""The most dimensions beside a transformed one of which all orders are listed."""


@rule("DFT")
def dft(site: Site) -> Rule | None:
    """The parts of the numbers come last, the axis anywhere before them: whatever else there is lies before the axis in
    any arrangement, or some of it behind it, in any order where there are few.

    The axis is an attribute in operator sets before 20.
    """
    named = site.attribute("axis")
    axes = ((-2,) if site.input(2) is None else site.integers(2)) if named is None else (named,)
    if axes is None:
        return None
    before = site.required(0).shape
    axis = axes[0] % len(before)
    ahead, following = numbered(before)[:axis], numbered(before)[axis + 1 : -1]

    def way(prefix: Sequence[str], lead: Dims, behind: Dims, kind: str) -> Way:
        places = tuple((*lead, (line,), *behind, (parts,)) for line, parts in (("s", "c"), ("p", "e")))

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            at = len(shapes[0]) - len(behind) - 2
            return site.same({"axis": at}) if named is not None else site.same(inputs={2: np.array(at, np.int64)})

        return Way(Placed(places, prefix=tuple(prefix), free=frozenset(_labels(behind))), rewrite, kind)

    def ways_with(rest: Dims, behind: Dims, kind: str) -> list[Way]:
        """With the rest before the axis; where all of that has size 1, also with none of it, if something is behind."""
        prefix = _labels(rest)
        leads: dict[Dims, None] = dict.fromkeys(
            [()] if prefix else [() if behind else ((),), rest or ((),)[: not behind]]
        )
        return [way(prefix, lead, behind, kind) for lead in leads]

    others = (*ahead, *following)
    ways = ways_with(others, (), "the axis last")
    orders = [each for count in range(1, len(others) + 1) for each in permutations(others, count)]
    for behind in orders if len(others) <= FEW else [following] if following else []:
        rest = tuple(each for each in others if each not in behind)
        ways += ways_with(rest, behind, "the axis before others")
    dims = tuple((*ahead, (line,), *following, (parts,)) for line, parts in (("s", "c"), ("p", "e")))
    return Rule((0,), dims, tuple(ways), solid=frozenset("scpe"))


def _labels(dims: Dims) -> tuple[str, ...]:
    return tuple(label for labels in dims for label in labels)
