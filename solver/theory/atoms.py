"""Atoms of a whole graph: which dimensions are products of which factors, and which rule every node then has.

Links are made from the most certain to the least: the rules whose dimensions correspond one to one, then the views of
the source model, then the rules that need a dimension to be a product (groups of a convolution, blocks of pixels),
then the trailing factors that an operation along an axis leaves alone. Where a link has no common refinement with
what is linked already, the node is linked after all others, in as many of its dimensions as possible: forms that need
the others are not available, and a node of which no form is left is opaque.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field, replace

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Dim, Graph, Size
from layoutsolve.solver.theory import rules
from layoutsolve.solver.theory.factor import Factoring, blocks
from layoutsolve.solver.theory.layout import Layout, grouped
from layoutsolve.solver.theory.markers import without
from layoutsolve.solver.theory.node_rule import opaque
from layoutsolve.solver.theory.offer import EVERYTHING, Offer, named, rule_of
from layoutsolve.solver.theory.partial import Dimension, partial
from layoutsolve.solver.theory.relation import Arranged, Placed, Port
from layoutsolve.solver.theory.row import Slot
from layoutsolve.solver.theory.rule import Rule, Site, Way

__all__ = ["Atoms", "rules"]

Axes = list[int]


@dataclass(slots=True)
class _Linked:
    """A node's rule with the axis of each label and of each dimension of each port; ``factors`` has those of the labels
    that single ways have, by the way's number.
    """

    rule: Rule
    labels: dict[str, int]
    ports: list[Axes]
    factors: dict[int, dict[str, int]] = field(default_factory=dict)


class Atoms:
    """The factoring of a graph.

    ``views`` are the numbers of the nodes that are views; every other node has an entry in ``rules``.
    ``opaque_views`` names Transposes and Reshapes, by number, that are to be treated as operators; ``offer`` says which
    ways to run operators there are.
    """

    def __init__(self, graph: Graph, opaque_views: Collection[int] = (), offer: Offer = EVERYTHING) -> None:
        self.graph, self.offer = graph, offer
        self._factoring = Factoring()
        self._axes: dict[str, Axes] = {
            name: [self._factoring.axis(dim) for dim in value.shape]
            for name, value in graph.values.items()
            if value.data is None
        }
        self.views = self._find_views(opaque_views)
        self._linked: dict[int, _Linked] = {}
        self._ports: dict[object, Port] = {}
        self._unseen: frozenset[int] = frozenset()
        self._link_all()
        self._split: dict[int, list[int]] = {}

    def without(self, factors: Collection[int]) -> Atoms:
        """The same factoring, in which layouts leave some factors out; these are the axes that atoms are."""
        made = copy(self)
        made._unseen, made._ports = frozenset(factors), {}
        return made

    def rule(self, number: int) -> Rule:
        """The rule of a node that is not a view."""
        return self._linked[number].rule

    def factored(self, number: int) -> Collection[int]:
        """The numbers of those ways of a node that have labels of their own."""
        return self._linked[number].factors

    def reading(self, name: str) -> tuple[Layout, list[int]]:
        """A tensor's logical layout in atoms of its own, numbered in order, and the axis that each atom is.

        The layout leaves out what is not seen, which has its number all the same.
        """
        return self._reading(self._axes[name])

    def _reading(self, axes: Axes) -> tuple[Layout, list[int]]:
        parts = [self._leaves(axis) for axis in axes]
        leaves = [leaf for part in parts for leaf in part]
        layout = grouped(range(len(leaves)), map(len, parts))
        if self._unseen:
            layout = tuple(tuple(atom for atom in group if leaves[atom] not in self._unseen) for group in layout)
        return layout, leaves

    def _leaves(self, axis: int) -> list[int]:
        """The factors of an axis, when all are linked."""
        if axis not in self._split:
            self._split[axis] = self._factoring.leaves([axis])
        return self._split[axis]

    def size(self, axis: int) -> int | Size:
        """The size of an atom's axis."""
        return self._factoring.size(axis)

    def seen_through(self, number: int, source: Layout) -> Layout:
        """The logical layout of a view's output, given that of its input."""
        node = self.graph.nodes[number]
        if node.op == "Transpose":
            return tuple(source[axis] for axis in _perm(node.attributes, len(source)))
        leaves = (self._leaves(axis) for axis in self._axes[node.outputs[0]])
        counts = [sum(leaf not in self._unseen for leaf in each) for each in leaves]
        return grouped((atom for group in source for atom in group), counts)

    def constant_reading(self, number: int, port: int) -> tuple[Layout, list[int]]:
        """As :meth:`reading`, for a constant at a port, which is factored for that port alone."""
        return self._reading(self._linked[number].ports[port])

    def port(
        self, number: int, port: int, logical: Layout, sizes: Sequence[Dim], constant: bool, way: int | None = None
    ) -> Port:
        """A port of a node, given the logical layout of its tensor and the sizes of its atoms; as a ``way`` with labels
        of its own has it, or as all others have.

        Those that behave alike are the same one.
        """
        linked = self._linked[number]
        factors = {} if way is None else linked.rule.ways[way].factors
        solid = linked.rule.solid if way is None else linked.rule.solid - linked.rule.ways[way].loose
        axes = linked.labels if way is None else {**linked.labels, **linked.factors[way]}
        atoms: dict[Slot, tuple[int, ...]] = {}
        for whole, group in zip(linked.rule.dims[port], logical, strict=True):
            rest = iter(group)
            for label in (name for each in whole for name in factors.get(each, (each,))) if factors else whole:
                name = label.partition(":")[0]
                leaves = enumerate(self._leaves(axes[label]))
                own = {index: next(rest) for index, leaf in leaves if leaf not in self._unseen}
                if name in solid:
                    atoms[name, 0] = (*atoms.get((name, 0), ()), *own.values())
                else:
                    atoms.update({(name, index): (atom,) for index, atom in own.items()})
        symbolic = frozenset(atom for atom, size in enumerate(sizes) if isinstance(size, Size))
        unseen = len(sizes) - sum(map(len, logical))
        key = (logical, tuple(atoms.items()), constant, symbolic, unseen)
        if key not in self._ports:
            self._ports[key] = Port(logical, atoms, constant, symbolic, unseen)
        return self._ports[key]

    def _find_views(self, opaque_views: Collection[int]) -> set[int]:
        """Transposes are views from the start: the dimensions of their outputs are those of their inputs."""
        views = set()
        for number, node in enumerate(self.graph.nodes):
            if node.op in ("Transpose", "Reshape") and number not in opaque_views and node.inputs[0] in self._axes:
                if any(self.graph.values[name].foreign is not None for name in (node.inputs[0], *node.outputs)):
                    continue
                views.add(number)
                if node.op == "Transpose":
                    source = self._axes[node.inputs[0]]
                    self._axes[node.outputs[0]] = [source[axis] for axis in _perm(node.attributes, len(source))]
        return views

    def _link_all(self) -> None:
        nodes = range(len(self.graph.nodes))
        ruled = {number: self._rule(number) for number in nodes if number not in self.views}
        plain = [number for number, found in ruled.items() if not found.composite]
        failed: dict[int, Rule] = {}
        for number in plain:
            self._link_or_wait(number, ruled[number], failed)
        for number in sorted(self.views):
            node = self.graph.nodes[number]
            pair = (self._axes[node.inputs[0]], self._axes[node.outputs[0]])
            if node.op == "Reshape" and not self._factoring.link([pair]):
                self.views.remove(number)
                self._link_or_wait(number, self._entangled(number), failed)
        for number, found in ruled.items():
            if found.composite:
                self._link_or_wait(number, found, failed)
        for number, linked in self._linked.items():
            if any(way.factors for way in linked.rule.ways):
                self._linked[number] = self._link_factors(number, linked)
        for number in plain:
            if number in self._linked:
                self._link_tails(number)
        for number, found in failed.items():
            linked = self._link_partially(number, found)
            owned = any(way.factors for way in linked.rule.ways)
            self._linked[number] = self._link_factors(number, linked) if owned else linked
        for number, linked in self._linked.items():
            if linked.rule.cuts and self.offer.cuts and number not in failed:
                self._linked[number] = self._cut(number, linked)
        for number, linked in self._linked.items():
            if any(way.loose for way in linked.rule.ways):
                self._linked[number] = self._loosened(linked)

    def _cut(self, number: int, linked: _Linked) -> _Linked:
        """With more ways, where the graph splits labels that these are for."""
        parts = {label: self._factoring.leaves([linked.labels[label]]) for label in sorted(linked.rule.cuts)}
        cuts = {label: tuple(map(self._factoring.size, found)) for label, found in parts.items() if len(found) > 1}
        if not cuts:
            return linked
        found = rule_of(replace(self._site(number), cuts=cuts), self.offer)
        return self._link_factors(number, _Linked(found, linked.labels, linked.ports))

    def _loosened(self, linked: _Linked) -> _Linked:
        """Without those ways that tell factors apart where there are none."""
        kept = [
            at
            for at, way in enumerate(linked.rule.ways)
            if not way.loose or any(len(self._factoring.leaves([linked.labels[name]])) > 1 for name in way.loose)
        ]
        ways = tuple(linked.rule.ways[at] for at in kept)
        own = {
            at: linked.factors.get(before, {})
            for at, before in enumerate(kept)
            if before in linked.factors or ways[at].loose
        }
        return _Linked(replace(linked.rule, ways=ways), linked.labels, linked.ports, own)

    def _rule(self, number: int) -> Rule:
        """The rule of a node that is no view; a Transpose or Reshape that is not to be one is opaque."""
        site = self._site(number)
        return opaque(site) if site.node.op in ("Transpose", "Reshape") else rule_of(site, self.offer)

    def _entangled(self, number: int) -> Rule:
        """The rule of a Reshape that has no common refinement: its blocks are linked but for those that have none."""
        site = self._site(number)
        before, after = (self._axes[name] for name in (site.node.inputs[0], site.node.outputs[0]))
        entangled = {
            index
            for index, (left, right) in enumerate(blocks(site.required(0).shape, site.output().shape) or [])
            if not self._factoring.link([([before[axis] for axis in left], [after[axis] for axis in right])])
        }
        return rule_of(replace(site, entangled=frozenset(entangled)), self.offer)

    def _site(self, number: int, tails: Mapping[str, int] | None = None) -> Site:
        return Site(self.graph, self.graph.nodes[number], tails or {})

    def _link_or_wait(self, number: int, wanted: Rule, failed: dict[int, Rule]) -> None:
        linked = self._link(number, wanted)
        if linked is None:
            failed[number] = wanted
        else:
            self._linked[number] = linked

    def _link(self, number: int, wanted: Rule) -> _Linked | None:
        """Make the labels of a rule equal at all its ports; None, and nothing changed, where that is impossible."""
        linked = self._labelled(number, wanted)
        return linked if self._factoring.link(pair for _, pair in _pairs(linked)) else None

    def _link_partially(self, number: int, wanted: Rule) -> _Linked:
        """Link those dimensions that can be; the others stay whole, and the rule keeps the ways that allow it."""
        site = self._site(number)
        if any(isinstance(form, Placed) for form in wanted.forms):
            linked = self._labelled(number, wanted)
            whole = [place for place, pair in _pairs(linked) if not self._factoring.link([pair])]
            left = partial(wanted, whole, without(site).unchanged)
            if left is not None:
                labels = {f"{port}.{axis}": linked.ports[port][axis] for port, axis in whole}
                return _Linked(left, linked.labels | labels, linked.ports)
        return self._without_ways(number, wanted)

    def _without_ways(self, number: int, wanted: Rule) -> _Linked:
        """A node none of whose ways is available keeps its layouts, unless its rule says otherwise, or is closed."""
        site, otherwise = self._site(number), wanted.otherwise
        if otherwise is not None:
            return self._link(number, otherwise) or self._link_partially(number, otherwise)
        if wanted.closed:
            raise OptionError(
                f"no form of the target fits {named(site)}: its neighbours factor its dimensions in other ways; "
                f"give the target one more form"
            )
        return self._labelled(number, opaque(site))

    def _link_factors(self, number: int, linked: _Linked) -> _Linked:
        """Link what single ways need as products; ways of which that is impossible are not available."""
        ways: list[Way] = []
        factors: dict[int, dict[str, int]] = {}
        for way in linked.rule.ways:
            own = {name: self._factoring.axis(size) for each in way.factors.values() for name, size in each.items()}
            pairs = [([linked.labels[label]], [own[name] for name in each]) for label, each in way.factors.items()]
            if self._factoring.link(pairs):
                factors |= {len(ways): own} if own else {}
                ways.append(way)
        if not ways:
            return self._without_ways(number, linked.rule)
        return _Linked(replace(linked.rule, ways=tuple(ways)), linked.labels, linked.ports, factors)

    def _labelled(self, number: int, wanted: Rule) -> _Linked:
        """A rule with an axis for each label, before they are made equal at all ports."""
        ports = [self._port_axes(name) for name in port_names(self.graph, number, wanted)]
        labels: dict[str, int] = {}
        for dims, axes in zip(wanted.dims, ports, strict=True):
            for names, axis in zip(dims, axes, strict=True):
                for label in names:
                    if label not in labels:
                        size = wanted.sizes.get(label, self._factoring.size(axis))
                        labels[label] = axis if names == (label,) else self._factoring.axis(size)
        return _Linked(wanted, labels, ports)

    def _port_axes(self, name: str) -> Axes:
        """The axes of a tensor's dimensions; a constant gets new ones for every reader, which may want it in its own
        order.
        """
        if name in self._axes:
            return self._axes[name]
        return [self._factoring.axis(dim) for dim in self.graph.values[name].shape]

    def _link_tails(self, number: int) -> None:
        """Let a node that works along an axis leave a trailing factor of it alone, if some neighbour factors the axis
        so.
        """
        linked = self._linked[number]
        form = linked.rule.forms[0]
        if not isinstance(form, Arranged) or not form.heads:
            return
        tails: dict[str, int] = {}
        for head in sorted(form.heads):
            for tail in self._tails(linked, head):
                candidate = rule_of(self._site(number, {**tails, head: tail}), self.offer)
                if candidate.composite and (better := self._link(number, candidate)) is not None:
                    self._linked[number] = better
                    tails[head] = tail
                    break

    def _tails(self, linked: _Linked, head: str) -> Iterator[int]:
        """The products of trailing factors that divide an axis at all ports, the largest first."""
        axes = [axis for label, axis in linked.labels.items() if label.partition(":")[0] == head]
        sizes = [self._factoring.size(axis) for axis in axes]
        numbers = [size for size in sizes if isinstance(size, int)]
        if len(numbers) < len(sizes):
            return
        found = {tail for axis in axes for tail in self._suffixes(axis) if all(size % tail == 0 for size in numbers)}
        yield from sorted(found, reverse=True)

    def _suffixes(self, axis: int) -> Sequence[int]:
        leaves = self._factoring.leaves([axis])
        result, total = [], 1
        for leaf in reversed(leaves[1:]):
            size = self._factoring.size(leaf)
            total *= size if isinstance(size, int) else 1
            result.append(total)
        return result


def _pairs(linked: _Linked) -> Iterator[tuple[Dimension, tuple[Axes, Axes]]]:
    """For every dimension of every port the axes that are to be equal products."""
    for port, (dims, axes) in enumerate(zip(linked.rule.dims, linked.ports, strict=True)):
        for at, (names, axis) in enumerate(zip(dims, axes, strict=True)):
            yield (port, at), ([axis], [linked.labels[label] for label in names])


def port_names(graph: Graph, number: int, found: Rule) -> list[str]:
    """The tensors at the ports of a node: those inputs that its rule names, and all outputs that it has."""
    node = graph.nodes[number]
    return [node.inputs[index] for index in found.inputs] + [name for name in node.outputs if name]


def _perm(attributes: Mapping[str, object], rank: int) -> tuple[int, ...]:
    perm = attributes.get("perm")
    return tuple(perm) if isinstance(perm, (tuple, list)) else tuple(range(rank))[::-1]
