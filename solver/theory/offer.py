"""Which ways there are to run an operator: those of its rule and those of a target, but for what the target refuses.

A form that only some targets have is stated in a module of its own in :mod:`layoutsolve.solver.theory.rules`, as a
function registered with :func:`form`. The theory knows no target: who asks says what is offered.

An *idiom* writes an operator in another way, which computes the same, for runtimes that are slow at the operator as it
is. It changes nothing in the layouts of its tensors, and is registered with :func:`idiom`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from math import prod

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.solver.theory.markers import coupled, without
from layoutsolve.solver.theory.node_rule import known_rule, opaque
from layoutsolve.solver.theory.rule import Idiom, Rule, Site, Way, operator_name

FormFunction = Callable[[Site, Rule], Iterable[Way]]
"""From a node and the rule that it has without it to further ways, in the labels of that rule."""

FORMS: dict[tuple[str, str], tuple[FormFunction, ...]] = {}
"""By what a target has and by operator, the functions that state forms."""

IdiomFunction = Callable[[Site, Rule], Idiom | None]
"""From a node and its rule to an idiom for it, None where it has none."""

IDIOMS: dict[tuple[str, str], IdiomFunction] = {}
"""By operator and name, the functions that state idioms."""

WRITTEN: dict[str, str] = {}
"""By target or domain and operator of a form, as in 'com.microsoft MatMul', or by operator and name of an idiom, as in
'PRelu limits': what it replaces, and what is written.
"""

KINDS: dict[tuple[str, str], tuple[str, ...]] = {}
"""By target and operator of a form, the kinds of its ways."""

MOST_MADE = 1 << 20
"""The most numbers of a constant that an idiom makes of a model's sizes: these may be anything, whatever the file's."""


def modest(*sizes: int) -> bool:
    """Whether an idiom may make a constant of such a shape, none of which the source holds."""
    return prod(sizes) <= MOST_MADE


def _anything(operator: str, way: Way) -> bool:
    return True


@dataclass(frozen=True)
class Offer:
    """Capabilities of a target.

    ``has`` are the names under which forms of its own are registered, ``runs`` is, given an operator's name and an
    alternative, whether it can be run at all. ``idioms`` are the names of those that are preferred to an operator, the
    best first. ``table`` returns for a node and its rule the rule with the forms that the target has instead, None
    where it has none; where it ``chooses`` backends nodes may have markers. Ways for labels
    that the graph ``cuts`` may be left out, and so may ways with Transposes that are not ``executed``, which only a
    level of what is executed can price. By default there is what ONNX has.
    """

    has: frozenset[str] = frozenset()
    runs: Callable[[str, Way], bool] = _anything
    idioms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: Callable[[Site, Rule | None], Rule | None] | None = None
    chooses: bool = False
    cuts: bool = True
    executed: bool = True


EVERYTHING = Offer()


def form(operator: str, *only: str, writes: str, kinds: tuple[str, ...] = ()) -> Callable[[FormFunction], FormFunction]:
    """Register alternatives of an operator that ``only`` some targets have: names of targets, or of operator domains
    that targets may use. ``docs/forms.md`` has what it ``writes``, and for what; a target that refuses the
    ``kinds`` of its ways is one without it.
    """

    def register(function: FormFunction) -> FormFunction:
        for name in only:
            FORMS[name, operator] = (*FORMS.get((name, operator), ()), function)
            written = f"{name} {operator}"
            WRITTEN[written] = "; ".join(filter(None, (WRITTEN.get(written), writes)))
            KINDS[name, operator] = (*KINDS.get((name, operator), ()), *kinds)
        return function

    return register


def idiom(operator: str, name: str, writes: str) -> Callable[[IdiomFunction], IdiomFunction]:
    """Register an idiom of an operator under a name that targets know it by. ``docs/forms.md`` has what it ``writes``,
    and for what.
    """

    def register(function: IdiomFunction) -> IdiomFunction:
        IDIOMS[operator, name], WRITTEN[f"{operator} {name}"] = function, writes
        return function

    return register


def rule_of(site: Site, offer: Offer = EVERYTHING) -> Rule:
    """Rule of a node with the alternatives that the target runs; opaque where nothing is known about it.

    Raises :class:`OptionError` where all ways are refused.
    """
    bare = without(site) if offer.chooses else site
    if bare is not site:
        return coupled(rule_of(bare, offer), bare, site)
    found = known_rule(site)
    stated = None if offer.table is None else offer.table(site, found)
    if stated is not None and stated.closed:
        return _run(stated, site.node.op, offer)
    found = found if stated is None else stated
    if found is None:
        return opaque(site)
    name = operator_name(site.node)
    own = dict.fromkeys(function for each in sorted(offer.has) for function in FORMS.get((each, name), ()))
    ways = [*found.ways, *(way for function in own for way in function(site, found))]
    offered = [way for way in ways if offer.runs(site.node.op, way) and (offer.executed or way.form.price.hidden >= 0)]
    others = (IDIOMS[name, each](site, found) for each in offer.idioms.get(name, ()))
    if idioms := tuple(each for each in others if each is not None):
        found = replace(found, idioms=idioms)
    if len(offered) == len(found.ways) == len(ways):
        return found
    if not offered and site.node.given:
        return opaque(site)
    if not offered:
        raise OptionError(f"the target refuses every alternative of {named(site)}: choose another target")
    return replace(found, ways=tuple(offered))


def _run(rule: Rule, operator: str, offer: Offer) -> Rule:
    """A closed rule with those of its ways that are run."""
    ways = tuple(way for way in rule.ways if offer.runs(operator, way))
    otherwise = None if rule.otherwise is None else _run(rule.otherwise, operator, offer)
    return replace(rule, ways=ways, otherwise=otherwise)


def named(site: Site) -> str:
    """A node as errors name it."""
    return f"{site.node.op} of {site.node.origin or site.node.op}"
