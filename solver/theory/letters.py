"""Layout strings such as ``NHWC`` or ``NCHW16c``: the order in which a port stores its dimensions.

A rule names the dimensions of an operator as ONNX has them by a letter each: ``NCHW`` for an
image, ``OIHW`` for a kernel. A text gives them in another order. ``16c`` is a *block*: of the dimension ``C`` the
innermost 16, so that ``NCHW16c`` stores ``[N, C / 16, H, W, 16]``. Several blocks of one letter nest from left to
right, as ``OIHW4i16o4i`` has them.

:func:`form` makes a way of one text for each port. It is a form like all others, so that everything that is known of
forms holds for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from math import prod

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.functions import PLAN, Function, Recast
from layoutsolve.ir.graph import Dim, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Dims, Rewrite, Rule, Step, Way

_TOKEN = re.compile(r"([1-9][0-9]{0,5})([a-z])|([A-Z])")

LONGEST = 32
"""The most characters of a text."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A stored dimension: what is left of the dimension ``name``, or a ``block`` of it."""

    name: str
    block: int = 0


Letters = tuple[Letter, ...]


def letters(text: str) -> Letters:
    """Stored dimensions of a layout string. Raises :class:`ValueError` with what is wrong with it."""
    found: list[Letter] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"'{text[place:]}' is neither a letter of a dimension (C) nor a block of one (16c)")
        size, small, large = token.groups()
        found.append(Letter(large) if large else Letter(small.upper(), int(size)))
        place = token.end()
    whole = [each.name for each in found if not each.block]
    if len(text) > LONGEST or not whole:
        raise ValueError(f"it must have a letter for each dimension, and at most {LONGEST} characters")
    for name in whole:
        if whole.count(name) > 1:
            raise ValueError(f"it has the dimension {name} more than once")
    for each in found:
        if each.block and each.name not in whole:
            raise ValueError(f"it has a block of {each.name}, but not the dimension itself")
        if each.block == 1:
            raise ValueError(f"a block of {each.name} has one element: leave it out")
    return tuple(found)


def blocks(text: Letters, name: str) -> tuple[int, ...]:
    """The sizes of the blocks of a dimension, from the outermost to the innermost."""
    return tuple(each.block for each in text if each.block and each.name == name)


class MisfitError(Exception):
    """A form that an operator cannot have, and why."""


def form(rule: Rule, shapes: Sequence[Shape], texts: Mapping[int, str], price: int, facts: str) -> Way:
    """Form in which an operator stores some of its ports, by number, in given layout strings, and the others as in
    ONNX.

    ``shapes`` are those of all ports, ``facts`` of the numbers that it computes with. Each row of it costs ``price``
    Transposes. Raises :class:`MisfitError` where the operator has no such form.
    """
    first, fixed, plain = _first(rule)
    stored = tuple(texts.get(port, each) for port, each in enumerate(plain))
    own = [letters(text) if text else () for text in stored]
    for wanted, text, each in zip(plain, stored, own, strict=True):
        if {letter.name for letter in each} != set(wanted):
            raise MisfitError(f"{text} is not about the dimensions {wanted}")
    sizes = _sizes(rule, shapes)
    split = _factors(fixed.places, plain, own, sizes)
    labels = {label: tuple(each) for label, each in split.items()}
    places = tuple(
        tuple(_place(dims[names.index(each.name)], each, text, labels, split, sizes) for each in text)
        for dims, names, text in zip(fixed.places, plain, own, strict=True)
    )
    free = fixed.free | {name for label in fixed.free for name in labels.get(label, ())}
    placed = replace(fixed, places=places, free=free, price=Price(hidden=price))
    named = [text for port, text in enumerate(stored) if port in texts]
    ends = "_".join(named[:-1] if len(named) > 1 and named[-1] == named[0] else named)
    rewrite = _rewrite(rule, first, plain, own, ends)
    return Way(placed, rewrite, f"{' '.join(named)}, {facts}", first.sizes, split, stored)


def _first(rule: Rule) -> tuple[Way, Placed, tuple[str, ...]]:
    """The way of a rule that forms are made of, its form, and the letters of what it stores at each port: the one that
    stores the dimensions as the node has them, or the first one, whose dimensions are found by their labels.
    """
    dims = tuple(tuple(tuple(name.partition(":")[0] for name in names) for names in each) for each in rule.dims)
    known = {name for each in dims for names in each for name in names}
    placed = [(way, way.form) for way in rule.ways if isinstance(way.form, Placed) and not way.form.prefix]
    if not rule.letters or not placed:
        raise MisfitError("its dimensions have no letters")
    for way, form in placed:
        if all(_alike(*each, known) for each in zip(form.places, dims, strict=True)):
            return way, form, rule.letters
    way, form = placed[0]
    return way, form, tuple(_turned(*each) for each in zip(form.places, dims, rule.letters, strict=True))


def _alike(places: Dims, dims: Dims, known: Collection[str]) -> bool:
    """Whether places are the dimensions of a port in their order; those of size 1 may have any labels there."""
    pairs = zip(places, dims, strict=False)
    return len(places) == len(dims) and all(
        not names or names == tuple(name for name in place if name in known) for place, names in pairs
    )


def _turned(places: Dims, dims: Dims, text: str) -> str:
    """The letters of some places, whose labels dimensions have that are called by a text; those of size 1 have none."""
    units = [letter for names, letter in zip(dims, text, strict=True) if not names]
    of = {names: letter for names, letter in zip(dims, text, strict=True) if names}
    missing = [place for place in places if place not in of]
    if len(places) != len(dims) or len(missing) != len(units):
        raise MisfitError("its dimensions have no letters")
    rest = iter(units)
    return "".join(of[place] if place in of else next(rest) for place in places)


def _sizes(rule: Rule, shapes: Sequence[Shape]) -> dict[str, Dim]:
    """The size of each label."""
    sizes = dict(rule.sizes)
    for dims, shape in zip(rule.dims, shapes, strict=True):
        for names, size in zip(dims, shape, strict=True):
            if len(names) == 1:
                sizes.setdefault(names[0], size)
    return sizes


def _present(names: Sequence[str], sizes: Mapping[str, Dim]) -> list[str]:
    """Those labels of a place that are of more than size 1."""
    return [name for name in names if sizes.get(name, 1) != 1]


def _factors(
    places: Sequence[Dims], plain: Sequence[str], own: Sequence[Letters], sizes: Mapping[str, Dim]
) -> dict[str, dict[str, Dim]]:
    """For each label of which some port stores blocks the labels that it then consists of, with their sizes."""
    cuts: dict[str, set[int]] = {}
    for dims, letter, text in zip(places, plain, own, strict=True):
        for name in dict.fromkeys(each.name for each in text if each.block):
            present = _present(dims[letter.index(name)], sizes)
            if not present:
                raise MisfitError(f"{name} has one element, which is no block")
            inner = blocks(text, name)
            cuts.setdefault(present[-1], set()).update(prod(inner[at:]) for at in range(len(inner)))
    found = {}
    for label, each in cuts.items():
        ends, size = [1, *sorted(each)], sizes[label]
        if not isinstance(size, int) or size % ends[-1]:
            raise MisfitError(f"{size} channels are no whole blocks of {ends[-1]}")
        if any(larger % smaller for smaller, larger in pairwise(ends)):
            raise MisfitError(f"blocks of {' and '.join(map(str, ends[1:]))} do not nest")
        nested = [larger // smaller for smaller, larger in pairwise(ends)]
        parts: list[Dim] = [size // ends[-1], *nested[::-1]]
        found[label] = {f"{label}/{at}": part for at, part in enumerate(parts)}
    return found


def _place(
    names: Sequence[str],
    letter: Letter,
    text: Letters,
    labels: Mapping[str, tuple[str, ...]],
    split: Mapping[str, Mapping[str, Dim]],
    sizes: Mapping[str, Dim],
) -> tuple[str, ...]:
    """The labels of one stored dimension."""
    inner = blocks(text, letter.name)
    if not inner:
        return tuple(chain.from_iterable(labels.get(name, (name,)) for name in names))
    last = _present(names, sizes)[-1]
    parts = list(split[last].items())

    def behind(size: int) -> int:
        """Where the parts begin whose product is a size."""
        return next(at for at in range(len(parts) + 1) if prod(int(str(part)) for _, part in parts[at:]) == size)

    if not letter.block:
        outer = tuple(chain.from_iterable(labels.get(name, (name,)) for name in names if name != last))
        return (*outer, *(name for name, _ in parts[: behind(prod(inner))]))
    nesting = [each for each in text if each.block and each.name == letter.name]
    within = prod(inner[next(at for at, each in enumerate(nesting) if each is letter) + 1 :])
    return tuple(name for name, _ in parts[behind(within * letter.block) : behind(within)])


def _rewrite(rule: Rule, first: Way, plain: Sequence[str], own: Sequence[Letters], ends: str) -> Rewrite:
    """The operator as ONNX has it where all ports are stored so, else a function of the model around it."""
    recasts = tuple(_recast(names, text) for names, text in zip(plain, own, strict=True))
    if not any(recasts):
        return first.rewrite

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        (step,) = first.rewrite(row, shapes)
        reading = dict(zip(rule.inputs, recasts, strict=False))
        inputs = tuple(reading.get(item) if isinstance(item, int) else None for item in step.inputs)
        outputs = recasts[len(rule.inputs) :][: len(step.outputs)]
        title = f"{step.op}_{ends}"
        called = Function(title, step.op, step.domain, inputs, outputs)
        return (replace(step, op=title, domain=PLAN, function=called),)

    return rewrite


def _recast(plain: str, text: Letters) -> Recast | None:
    """How a stored tensor becomes that of ONNX, None where it is that."""
    parts = tuple(
        tuple(sorted((at for at, each in enumerate(text) if each.name == name), key=lambda at: text[at].block > 0))
        for name in plain
    )
    blocks_of = tuple(each.block for each in text)
    return None if parts == tuple((at,) for at in range(len(plain))) else Recast(parts, blocks_of)
