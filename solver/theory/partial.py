"""What is left of a rule where some dimensions do not factor into its labels.

A dimension that is a product of labels may have been factored in another way by a neighbour: the channels of a grouped
convolution, the blocks of pixels. Such a dimension then stays whole, and so do, in order, the labels that it has. Forms
that keep its factors together can do without them; forms that tear it apart cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from layoutsolve.solver.theory.relation import Form, Placed
from layoutsolve.solver.theory.rule import Dims, Rewrite, Rule, Way

Dimension = tuple[int, int]
"""A port and one of its dimensions, both by number."""


def partial(rule: Rule, whole: Collection[Dimension], unchanged: Rewrite) -> Rule | None:
    """The rule with some dimensions ``whole``, and with those ways that do not need their factors.

    Where none of these has the source's layouts there is one more that has, in which the operator is ``unchanged``; but
    not of a rule that is closed. None where no way is left.
    """
    renamed = {(port, axis): f"{port}.{axis}" for port, axis in whole}
    dims = tuple(
        tuple((renamed[port, axis],) if (port, axis) in renamed else labels for axis, labels in enumerate(each))
        for port, each in enumerate(rule.dims)
    )
    before, after = _plain(rule.dims), _plain(dims)
    gone = frozenset(label for port, axis in whole for label in before[port][axis])
    forms = ((way, _kept(way, before, renamed, gone)) for way in rule.ways)
    ways = [replace(way, form=form) for way, form in forms if form is not None]
    if not ways:
        return None
    placed = (way.form.places for way in ways if isinstance(way.form, Placed))
    if not rule.closed and not any(_stripped(places, _labels(after)) == after for places in placed):
        ways.append(Way(Placed(after), unchanged, "as in the source"))
    solid = rule.solid | frozenset(renamed.values())
    return Rule(rule.inputs, dims, tuple(ways), rule.sizes, solid, closed=rule.closed, otherwise=rule.otherwise)


def _plain(dims: Iterable[Dims]) -> tuple[Dims, ...]:
    """Labels without their variants, as forms have them."""
    return tuple(tuple(tuple(label.partition(":")[0] for label in labels) for labels in each) for each in dims)


def _labels(dims: Iterable[Dims]) -> frozenset[str]:
    return frozenset(label for each in dims for labels in each for label in labels)


def _stripped(places: Iterable[Dims], known: frozenset[str]) -> tuple[Dims, ...]:
    """Places without labels that no dimension has: those of size 1."""
    return tuple(tuple(tuple(label for label in place if label in known) for place in port) for port in places)


def _kept(way: Way, dims: tuple[Dims, ...], whole: dict[Dimension, str], gone: frozenset[str]) -> Form | None:
    """The form of a way in which some dimensions are one label each; None where it tears one apart."""
    form = way.form
    if not isinstance(form, Placed) or gone.intersection((*form.prefix, *way.factors, *way.loose)):
        return None
    known = _labels(dims).union(*way.factors.values())
    ports = [list(port) for port in _stripped(form.places, known)]
    for (port, axis), name in whole.items():
        found = [_replaced(place, dims[port][axis], name) for place in ports[port]]
        if sum(place is not None for place in found) != 1:
            return None
        ports[port] = [before if after is None else after for before, after in zip(ports[port], found, strict=True)]
    return replace(form, places=tuple(map(tuple, ports)), free=form.free - gone)


def _replaced(place: Sequence[str], labels: tuple[str, ...], name: str) -> tuple[str, ...] | None:
    """A place with a run of labels replaced by one name; None where they are not all in it, one after the other."""
    for start in range(len(place) - len(labels) + 1) if labels else ():
        if tuple(place[start : start + len(labels)]) == labels:
            return (*place[:start], name, *place[start + len(labels) :])
    return None
