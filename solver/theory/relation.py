"""Relations: how the layouts of an operator's ports go together, independent of what the operator computes.

The dimensions of an operator's tensors are labelled, as in einsum: a label that two ports share is one dimension of the
operator's index space. Factors of labels are *slots*. There are two kinds of relation, and they cover every operator:

* :class:`Arranged`: the slots may come in any order and grouping, and every port follows it. Elementwise operators,
  reductions, concatenation, slicing and so on: their axes are renumbered.
* :class:`Placed`: every port has its dimensions in a fixed sequence, only the factors within some of them are free.
  Convolutions, pooling, matrix products, and everything opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.theory.layout import Group, Layout, order
from layoutsolve.solver.theory.row import FREE, Arrangement, Price, Slot

UNITS, MORE = 4, 2
"""The most dimensions of size 1 that a layout has, and how many more than in the source; as many as there, anyway.

Operators may add one each time that a layout goes round through them.
"""


@dataclass(frozen=True)
class Arranged:
    """Any arrangement of the slots.

    ``alone`` labels make up a stored dimension by themselves. ``heads`` begin theirs. ``dropped`` labels are
    missing from the outputs, dimension and all, ``gained`` ones from the inputs. ``frame`` is the port that has
    every label: its logical layout is the operator's. With ``apart`` no port has a label of another one: each is in
    an order of its own, without dimensions for the labels of others. Labels that occur at some ports only broadcast
    at the others; with ``broadcast`` those ports may leave out leading dimensions of size 1, but for the ports in
    ``complete``. A label in ``heads`` shares its stored dimension with labels in ``tails`` alone. ``pinned`` ports
    always have their logical layout, or where they are ``backwards`` too that with its dimensions in reverse, where
    they are ``bare`` that without those of size 1. How fast a row is depends on where the ``sensitive`` labels lie.
    A label in ``spread`` is stored as the dimensions that it has in the source, one after the other. ``price`` is
    what each row costs by itself: Transposes and Reshapes that it is written with.
    """

    frame: int
    alone: frozenset[str] = frozenset()
    heads: frozenset[str] = frozenset()
    tails: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    gained: frozenset[str] = frozenset()
    apart: bool = False
    broadcast: bool = False
    complete: frozenset[int] = frozenset()
    pinned: frozenset[int] = frozenset()
    backwards: frozenset[int] = frozenset()
    bare: frozenset[int] = frozenset()
    sensitive: frozenset[str] = frozenset()
    spread: frozenset[str] = frozenset()
    price: Price = FREE

    def pin(self, number: int, logical: Layout) -> Layout:
        """The layout of a pinned port, given its logical one."""
        if number in self.bare:
            return tuple(filter(None, logical))
        return logical[::-1] if number in self.backwards else logical

    def renumbered(self, ports: Callable[[Iterable[int]], frozenset[int]]) -> Arranged:
        """The form of an operator that has other numbers for these ports."""
        (frame,) = ports([self.frame])
        complete, pinned, backwards, bare = map(ports, (self.complete, self.pinned, self.backwards, self.bare))
        return replace(self, frame=frame, complete=complete, pinned=pinned, backwards=backwards, bare=bare)


@dataclass(frozen=True)
class Placed:
    """Fixed dimensions: ``places`` has for each port its stored dimensions, each a sequence of labels.

    The factors of a label in ``free`` may come in any order, the same at all ports; with ``mixed`` those of
    neighbouring free labels of one place may be mixed, else they stay in the place's sequence of labels. ``prefix``
    labels come before the places of each port that has them, in any arrangement; with ``suffix`` some of them may
    follow instead, together as the last dimension. ``columns`` are ports that stay without prefix and suffix (a matrix
    of weights). A port among the ``short`` ones leaves out leading dimensions of the prefix that it has no label of,
    which broadcasting supplies, one among the ``bare`` ones leaves them out wherever they are. ``price`` is what each
    row costs by itself. ``turned`` labels are stored in the order of their names by
    another form that is alike but for that and costs as much: only layouts that have this order lead to this form.
    """

    places: tuple[tuple[tuple[str, ...], ...], ...]
    free: frozenset[str] = frozenset()
    prefix: tuple[str, ...] = ()
    suffix: bool = False
    mixed: bool = False
    columns: frozenset[int] = frozenset()
    short: frozenset[int] = frozenset()
    bare: frozenset[int] = frozenset()
    price: Price = FREE
    turned: frozenset[str] = frozenset()


Form = Arranged | Placed


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """A port of an operator: its tensor's logical layout and, for each slot, the atoms that stand for it here.

    A slot with no atoms here is a dimension of size 1, or is not there at all: both broadcast. ``symbolic`` atoms have
    sizes that are known by name only; so many that layouts leave out are ``unseen``.
    """

    logical: Layout
    atoms: Mapping[Slot, Group]
    constant: bool = False
    symbolic: frozenset[int] = frozenset()
    unseen: int = 0
    slots: Mapping[int, Slot] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", {atom: slot for slot, group in self.atoms.items() for atom in group})

    @property
    def units(self) -> int:
        """The most dimensions of size 1 that a layout may have here; atoms that are not seen may be some."""
        units = self.logical.count(())
        return max(units, min(units + MORE, UNITS)) + self.unseen

    def expressible(self, layout: Layout) -> bool:
        """Whether a layout needs no product of symbolic sizes that no tensor has: it would have to be computed."""
        return len(self.symbolic) < 2 or all(
            len(self.symbolic.intersection(group)) < 2 or group in self.logical for group in layout
        )

    def expand(self, group: Iterable[Slot]) -> Group:
        """The atoms of this port that a group of slots stands for."""
        parts = [self.atoms.get(slot, ()) for slot in group]
        return parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))

    def readings(self, layout: Layout) -> Iterator[Arrangement]:
        """The arrangements of slots that a layout of this port suggests.

        A slot of several atoms that the layout tears apart is gathered where its first and where its last atom lies.
        """
        torn = {slot for slot, group in self.atoms.items() if len(group) > 1 and not _contains(layout, group)}
        for last in (False, True) if torn else (False,):
            yield self._reading(layout, torn, last)

    def _reading(self, layout: Layout, torn: set[Slot], last: bool) -> Arrangement:
        groups: list[tuple[Slot, ...]] = []
        for group in layout:
            current: list[Slot] = []
            for atom in group:
                slot = self.slots[atom]
                atoms = self.atoms[slot]
                if slot in torn:
                    if atom == _outermost(layout, atoms, last):
                        groups += [tuple(current)] if current else []
                        groups.append((slot,))
                        current = []
                elif atom == atoms[0]:
                    current.append(slot)
            if current or not group:
                groups.append(tuple(current))
        return tuple(groups)


def _contains(layout: Layout, atoms: Group) -> bool:
    """Whether ``atoms`` lie side by side in one stored dimension."""
    return any(group[start : start + len(atoms)] == atoms for group in layout for start in range(len(group)))


def _outermost(layout: Layout, atoms: Group, last: bool) -> int:
    lying = [atom for atom in order(layout) if atom in atoms]
    return lying[-1 if last else 0]


def cut(groups: Iterable[tuple[Slot, ...]], border: Callable[[Slot, Slot], bool]) -> Arrangement:
    """Stored dimensions cut wherever there is a border between two neighbouring slots."""
    pieces: list[tuple[Slot, ...]] = []
    for group in groups:
        start = 0
        for index in range(1, len(group)):
            if border(group[index - 1], group[index]):
                pieces.append(group[start:index])
                start = index
        pieces.append(group[start:])
    return tuple(pieces)


def parted(ports: Iterable[Port], left: Slot, right: Slot) -> bool:
    """Whether some port has one of two slots without the other, so that they cannot share a stored dimension."""
    return any((left in port.atoms) != (right in port.atoms) for port in ports)
