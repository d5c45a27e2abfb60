"""The rule of a node: that of its operator where it covers the node, else that of an opaque one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import CAPTURES, Shape
from layoutsolve.solver.theory.relation import Form, Placed
from layoutsolve.solver.theory.rule import RULES, Dims, Rewrite, Rule, Site, Way, operator_name, unnamed


def known_rule(site: Site) -> Rule | None:
    """What is known about a node, with all its ways."""
    function = RULES.get(operator_name(site.node))
    if function is None or _per_channel(site) or _is_foreign(site):
        return None
    if not site.node.given:
        return _with_numbers(site, function(site))
    try:
        found = _with_numbers(site, function(site))
        return found if found is not None and _covers(site, found) else None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # what the rule does not cover
        return None


def _with_numbers(site: Site, found: Rule | None) -> Rule | None:
    """A rule that has single numbers that are computed as ports as well: bounds of a Clip, steps and zeros."""
    if found is None:
        return None
    values, numbers = site.graph.values, dict[int, Extra]()
    for number, name in enumerate(site.node.inputs):
        computed = name and number not in found.inputs and values[name].data is None
        if computed and values[name].shape in NUMBERS and not _is_size(site, name):
            numbers[number] = NUMBERS[values[name].shape]
    return extended(found, numbers) if numbers else found


def _is_size(site: Site, name: str) -> bool:
    """Whether a vector is of sizes that are written anew."""
    producer = site.graph.producer(name)
    return producer is not None and producer.op == "Sizes"


@dataclass(frozen=True, slots=True)
class Extra:
    """An input beside those of a rule: ``dims`` gives its dimensions of those that the first result has. It has none
    of what comes before a form's places, but where it is as large as the result (``whole``).
    """

    dims: Callable[[Dims], Dims]
    whole: bool = False


NUMBERS: Mapping[Shape, Extra] = {(): Extra(lambda dims: ()), (1,): Extra(lambda dims: ((),))}
"""The shapes of single numbers, which have no layout."""


def extended(found: Rule, extras: Mapping[int, Extra]) -> Rule:
    """A rule with more inputs, by their numbers."""
    count, added = len(found.inputs), len(extras)
    apart = frozenset(count + index for index, each in enumerate(extras.values()) if not each.whole)

    def ports(numbers: Iterable[int]) -> frozenset[int]:
        return frozenset(number if number < count else number + added for number in numbers)

    def grown(dims: tuple[Dims, ...]) -> tuple[Dims, ...]:
        return (*dims[:count], *(each.dims(dims[count]) for each in extras.values()), *dims[count:])

    def form(before: Form) -> Form:
        if isinstance(before, Placed):
            columns, short, bare = map(ports, (before.columns, before.short, before.bare))
            return replace(before, places=grown(before.places), columns=columns | apart, short=short, bare=bare)
        moved = before.renumbered(ports)
        return replace(moved, pinned=moved.pinned | apart)

    def rewrite(way: Way) -> Rewrite:
        return lambda row, shapes: way.rewrite(row, (*shapes[:count], *shapes[count + added :]))

    ways = tuple(replace(way, form=form(way.form), rewrite=rewrite(way)) for way in found.ways)
    letters, dims = found.letters, grown(found.dims)
    if letters:
        named = (unnamed(len(each)) for each in dims[count : count + added])
        letters = (*letters[:count], *named, *letters[count:])
    return replace(found, inputs=(*found.inputs, *extras), dims=dims, ways=ways, letters=letters)


def _is_foreign(site: Site) -> bool:
    """Whether nothing is known about what an operator touches, or it has graphs in it that read tensors."""
    names = [name for name in (*site.node.inputs, *site.node.outputs) if name]
    return CAPTURES in site.node.attributes or any(site.graph.values[name].foreign is not None for name in names)


def _covers(site: Site, found: Rule) -> bool:
    """Whether a rule knows of everything that an operator computes with: inputs that are no ports are constants, or
    sizes that are written anew.
    """
    others = [name for number, name in enumerate(site.node.inputs) if name and number not in found.inputs]
    values = site.graph.values
    ports = [*(site.node.inputs[number] for number in found.inputs), *filter(None, site.node.outputs)]
    if [len(dims) for dims in found.dims] != [len(values[name].shape) for name in ports]:
        return False  # what the file says of a tensor contradicts its operators
    if not found.ways or not all(_is_placed(found.dims, way) for way in found.ways):
        return False  # likewise
    return all(values[name].data is not None or _is_size(site, name) for name in others)


def _is_placed(dims: Sequence[Dims], way: Way) -> bool:
    """Whether a way has a place for the labels of every port, its frame or the port's own places."""
    form, ports = way.form, [_factored(_names(each), way) for each in dims]
    if isinstance(form, Placed):
        return all(_names(places) | {*form.prefix} >= labels for places, labels in zip(form.places, ports, strict=True))
    followers = [labels for number, labels in enumerate(ports) if number not in form.pinned and not form.apart]
    return all(ports[form.frame] >= labels for labels in followers)


def _factored(labels: set[str], way: Way) -> set[str]:
    """Labels, or those that a way has in their place."""
    return {name for label in labels for name in way.factors.get(label, (label,))}


def _names(dims: Dims) -> set[str]:
    """The labels of dimensions, of whatever variant."""
    return {label.partition(":")[0] for labels in dims for label in labels}


def _per_channel(site: Site) -> bool:
    """Whether the meaning of a computed tensor depends on an axis of it, which then has to stay where it is."""
    values = (site.graph.values[name] for name in (*site.node.inputs, *site.node.outputs) if name)
    return not site.node.storage and any(
        value.data is None and value.quant is not None and value.quant.axis is not None for value in values
    )


def opaque(site: Site) -> Rule:
    """The rule of an operator that nothing is known about: every tensor that it touches keeps its logical layout."""
    inputs = tuple(
        number for number, name in enumerate(site.node.inputs) if name and site.graph.values[name].data is None
    )
    values = [site.required(number) for number in inputs] + [
        site.graph.values[name] for name in site.node.outputs if name
    ]
    dims = tuple(tuple((f"{port}.{axis}",) for axis in range(len(value.shape))) for port, value in enumerate(values))
    solid = frozenset(label for port in dims for labels in port for label in labels)
    return Rule(inputs, dims, (Way(Placed(dims), site.unchanged),), solid=solid, kept=True)
