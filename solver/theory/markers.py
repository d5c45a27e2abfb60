"""Markers: tensors of 0 bytes whose order of dimensions encodes whether the tensor beside them is in a backend.

A marker is of a tensor and of a backend with a name. Operators read and write markers in the order that belongs to the
backend of each of their ways. So what it costs to hand data from one backend to another is stated as what it costs to
move a marker. What runs in a backend takes data from any other one for the same price, so that it has a row for each
place where what it reads may come from: in that the markers of the other backends are as they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeVar

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import NOTHING, Shape
from layoutsolve.solver.theory.node_rule import opaque
from layoutsolve.solver.theory.relation import Form, Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Dims, Rewrite, Rule, Site, Step, Way, unnamed

MARKS = "markers"
"""The attribute of a node with markers: its :class:`Marks`."""

HERE, THERE = (("b/0",), ("b/1",)), (("b/1",), ("b/0",))
"""How a marker lies beside what is not in its backend, and beside what is."""

SHAPE: Shape = (2, 3)
"""That of a marker."""

Item = TypeVar("Item")

VARIANTS = 64
"""The most combinations of backends from which one operator may take what it reads."""


@dataclass(frozen=True)
class Marks:
    """The markers of a node, which are the last of its inputs and of its outputs: for each that is ``read`` the tensor
    that it is beside, by number, and its backend; for each that is ``written`` its backend. ``sources`` has for each of
    those tensors the backends with a name in which it may be written.
    """

    read: tuple[tuple[int, str], ...]
    written: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]

    def variants(self, backend: str) -> Iterator[tuple[tuple[bool, ...], tuple[bool, ...]]]:
        """For each combination of where a node that runs in a backend may take its tensors from: whether what it reads
        and what it writes is said to be in the backends of the markers.
        """
        written = tuple(each == backend for each in self.written)
        for sources in product(*self._sources(backend)):
            yield tuple(each in (backend, sources[tensor]) for tensor, each in self.read), written

    def _sources(self, backend: str) -> list[tuple[str, ...]]:
        """Where each tensor may be taken from so that it matters: nothing without a name takes data as they are."""
        return [("", *(each for each in own if backend and each != backend)) for own in self.sources]

    def count(self, backend: str) -> int:
        """How many variants there are."""
        return prod(map(len, self._sources(backend)))


def without(site: Site) -> Site:
    """A node without its markers; the very site where it has none."""
    if MARKS not in site.node.attributes:
        return site
    node, values = site.node, site.graph.values
    inputs, outputs = (
        tuple(name for name in names if not name or values[name].dtype != NOTHING)
        for names in (node.inputs, node.outputs)
    )
    attributes = {name: value for name, value in node.attributes.items() if name != MARKS}
    return replace(site, node=replace(node, inputs=inputs, outputs=outputs, attributes=attributes))


def coupled(rule: Rule, bare: Site, site: Site) -> Rule:
    """The rule of a node with its markers, which come behind its own inputs and outputs, given that without them.

    Raises :class:`OptionError` where what it reads may come from too many combinations of backends.
    """
    found = _coupled(rule, bare, site)
    otherwise = rule.otherwise if rule.otherwise is not None or rule.closed else opaque(bare)
    return found if otherwise is None else replace(found, otherwise=_coupled(otherwise, bare, site))


def _coupled(rule: Rule, bare: Site, site: Site) -> Rule:
    marks: Marks = site.node.attributes[MARKS]
    ports = _Ports(len(rule.inputs), len(rule.dims), len(marks.read), len(marks.written))
    if any(marks.count(way.backend) > VARIANTS for way in rule.ways):
        raise OptionError(
            f"{bare.node.op} of {bare.node.origin or bare.node.outputs[0]} reads too many tensors that may be written "
            "in several backends: give the target fewer backends for it"
        )
    ways = []
    for way in rule.ways:
        rewrite = _knowing(way, ports)  # the very same of all variants, by which they are known
        for read, written in marks.variants(way.backend):
            ways.append(replace(way, form=ports.beside(way.form, read, written), rewrite=rewrite))
    inputs = (*rule.inputs, *range(len(bare.node.inputs), len(site.node.inputs)))
    dims = ports.grown(rule.dims, *([HERE] * len(each) for each in ports.new))
    named = ([unnamed(len(SHAPE))] * len(each) for each in ports.new)
    letters = ports.grown(rule.letters, *named) if rule.letters else ()
    return replace(rule, inputs=inputs, dims=dims, ways=tuple(ways), letters=letters, otherwise=None)


def uncoupled(rule: Rule, marks: Marks) -> tuple[Rule, list[int]]:
    """A rule without its markers, and the number that each of its ways has there."""
    read, written = len(marks.read), len(marks.written)
    ports = _Ports(len(rule.inputs) - read, len(rule.dims) - read - written, read, written)
    ways, numbers = list[Way](), list[int]()
    for way in rule.ways:
        bare = replace(way, form=ports.bare(way.form))
        if not ways or ways[-1] != bare:
            ways.append(bare)
        numbers.append(len(ways) - 1)
    inputs, dims = rule.inputs[: ports.count], ports.own(rule.dims)
    letters = ports.own(rule.letters) if rule.letters else ()
    return replace(rule, inputs=inputs, dims=dims, ways=tuple(ways), letters=letters), numbers


class _Ports:
    """The ports of a node with markers: ``count`` inputs of its own and those that are ``read``, then its own outputs
    and those that are ``written``; without these there are ``total``.
    """

    def __init__(self, count: int, total: int, read: int, written: int) -> None:
        self.count, self.total, self.read = count, total, read
        self.all = total + read + written
        self.new = range(count, count + read), range(total + read, self.all)

    def own(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """What there is for each port, without that for markers."""
        return tuple(item for port, item in enumerate(items) if not any(port in each for each in self.new))

    def grown(self, items: Sequence[Item], read: Iterable[Item], written: Iterable[Item]) -> tuple[Item, ...]:
        """What there is for each port, with that for markers."""
        return (*items[: self.count], *read, *items[self.count :], *written)

    def beside(self, form: Form, read: Sequence[bool], written: Sequence[bool]) -> Form:
        """A form with markers, of which it is said whether they are in their backends."""
        new = frozenset((*self.new[0], *self.new[1]))
        if isinstance(form, Placed):
            lying: list[list[Dims]] = [[THERE if each else HERE for each in said] for said in (read, written)]
            places = self.grown(form.places, *lying)
            return replace(form, places=places, columns=self._shifted(form.columns) | new)
        said = zip((*self.new[0], *self.new[1]), (*read, *written), strict=True)
        moved = form.renumbered(self._shifted)
        backwards = moved.backwards | {port for port, inside in said if inside}
        return replace(moved, pinned=moved.pinned | new, backwards=backwards)

    def bare(self, form: Form) -> Form:
        """A form without markers."""
        if isinstance(form, Placed):
            return replace(form, places=self.own(form.places), columns=self._back(form.columns))
        return form.renumbered(self._back)

    def _shifted(self, ports: Iterable[int]) -> frozenset[int]:
        return frozenset(port if port < self.count else port + self.read for port in ports)

    def _back(self, ports: Iterable[int]) -> frozenset[int]:
        places: Mapping[int, int] = {port: place for place, port in enumerate(self.own(range(self.all)))}
        return frozenset(places[port] for port in ports if port in places)


def _knowing(way: Way, ports: _Ports) -> Rewrite:
    """The rewrite of a way that knows nothing of markers, whether or not they are among the ports."""

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return way.rewrite(row, ports.own(shapes) if len(shapes) == ports.all else shapes)

    return rewrite
