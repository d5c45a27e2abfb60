"""Operators along an axis that pick, put or count by index, and what else names its axis."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.kind import Along
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import Dims, Rule, Site, Step, Way, marked, numbered, rule
from layoutsolve.solver.theory.rules.fixed_format import orders


@rule("GatherElements", "ScatterElements")
def elements(site: Site) -> Rule:
    """The axis stays whole, and so do the others along which indices are fewer than the data."""
    data, part = site.required(0).shape, site.required(1).shape
    axis = site.axis(0, len(data))
    along = [at for at, (one, other) in enumerate(zip(data, part, strict=True)) if at == axis or one != other]
    whole, some = marked(data, along, "i"), marked(data, along, "o")
    labels, label = frozenset(f"k{at}" for at in along), f"k{axis}"

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    way = Way(Arranged(frame=0, alone=labels, sensitive=frozenset({label})), rewrite, Along(label))
    gathered = site.node.op == "GatherElements"
    inputs, dims = ((0, 1), (whole, some, some)) if gathered else ((0, 1, 2), (whole, some, some, whole))
    return Rule(inputs, dims, (way,), solid=labels)


@rule("TensorScatter")
def cache(site: Site) -> Rule | None:
    """The batch comes first, and all else in any order."""
    shape = site.required(0).shape
    axis = site.axis(-2, len(shape))
    if not axis:
        return None
    whole: Dims = (("b",), *marked(shape, [axis], "i")[1:])
    places: Dims = (("b",), *((f"k{axis}",) if at == axis else labels for at, labels in enumerate(whole) if at))
    part: Dims = (("b",), *marked(shape, [axis], "o")[1:])
    vector: tuple[Dims, ...] = () if site.input(2) is None else ((("b",),),)
    label = f"k{axis}"
    free = frozenset(each for labels in places for each in labels if each != label)

    def way(order: Sequence[int]) -> Way:
        stored = (places[0], *(places[1 + at] for at in order))

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({"axis": stored.index((label,))})

        kind = "in another order" if list(order) != sorted(order) else "as in the source"
        return Way(Placed((stored, stored, *vector, stored), free), rewrite, kind)

    ways = tuple(way(order) for order in orders(len(shape) - 1))
    inputs = (0, 1, 2) if vector else (0, 1)
    return Rule(inputs, (whole, part, *vector, whole), ways, solid=frozenset({label}))


@rule("Compress")
def compress(site: Site) -> Rule | None:
    """The axis stays whole; without one elements are taken in the order of the source."""
    if site.attribute("axis") is None:
        return None
    shape = site.required(0).shape
    axis = site.axis(0, len(shape))
    label = f"k{axis}"
    return _along(site, label, marked(shape, [axis], "i"), [1], marked(site.output().shape, [axis], "o"))


@rule("CenterCropPad")
def center_crop_pad(site: Site) -> Rule:
    """The axes that are cut or padded stay whole, and are named in another place."""
    shape, result = site.required(0).shape, site.output().shape
    axes = site.axes(site.attribute("axes", tuple(range(len(shape)))), len(shape))
    whole = frozenset(f"k{axis}" for axis in axes)
    given = () if site.constant(1) is not None else (1,)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axes": tuple(position(row.arrangement, f"k{axis}") for axis in axes)})

    form = Arranged(frame=0, alone=whole, pinned=frozenset(range(1, 1 + len(given))))
    dims = (marked(shape, axes, "i"), *((("vector",),) for _ in given), marked(result, axes, "o"))
    return Rule((0, *given), dims, (Way(form, rewrite),), solid=whole | {"vector"})


@rule("Unique")
def unique(site: Site) -> Rule | None:
    """Along an axis, where what is first stays first; or all elements where nothing asks where they were. Sorted
    subtensors come in an order that depends on that of their elements.
    """
    shape, axis = site.required(0).shape, site.attribute("axis")
    written = [bool(name) for name in site.node.outputs]
    counted = sum(written[1:])
    if axis is None:
        if not site.attribute("sorted", 1) or any(written[1:3]):
            return None
        dims = numbered(shape)
        form = Arranged(frame=0, pinned=frozenset(range(1, 2 + counted)))
        vectors: tuple[Dims, ...] = tuple(((f"v{port}",),) for port in range(1 + counted))
        solid = frozenset(f"v{port}" for port in range(1 + counted))
        return Rule((0,), (dims, *vectors), (Way(form, site.unchanged),), solid=solid)
    if site.attribute("sorted", 1):
        return None
    axis = site.axis(0, len(shape))
    return _along(site, f"k{axis}", marked(shape, [axis], "i"), [], marked(site.output().shape, [axis], "o"), counted)


def _along(site: Site, label: str, before: Dims, read: Sequence[int], after: Dims, more: int = 0) -> Rule:
    """A rule of one axis, with vectors that are read, and ``more`` that are written behind the first result."""
    inputs = [number for number in read if site.input(number) is not None and site.constant(number) is None]
    names: list[Dims] = [((f"v{number}",),) for number in range(len(inputs) + more)]
    ports = (*range(1, 1 + len(inputs)), *range(2 + len(inputs), 2 + len(inputs) + more))
    along = frozenset({label})

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    form = Arranged(frame=0, alone=along, pinned=frozenset(ports), sensitive=along)
    dims = (before, *names[: len(inputs)], after, *names[len(inputs) :])
    return Rule(
        (0, *inputs),
        dims,
        (Way(form, rewrite, Along(label)),),
        solid=along | {name for each in names for (name,) in each},
    )


@rule("OneHot")
def one_hot(site: Site) -> Rule:
    """What is counted is a dimension by itself, anywhere among the others."""
    result = site.output().shape
    axis = site.axis(-1, len(result))
    label = f"k{axis}"
    after, along = marked(result, [axis], "o"), frozenset({label})
    pair = () if site.constant(2) is not None else (2,)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    form = Arranged(
        frame=1 + len(pair), alone=along, gained=along, pinned=frozenset(range(1, 1 + len(pair))), sensitive=along
    )
    dims = (after[:axis] + after[axis + 1 :], *((("pair",),) for _ in pair), after)
    return Rule((0, *pair), dims, (Way(form, rewrite, Along(label)),), solid=along | {"pair"})


@rule("DequantizeLinear", "QuantizeLinear")
def quantized(site: Site) -> Rule | None:
    """Any layout where there is one scale; else the axis that has several stays whole, and so does one in blocks."""
    shape, scale = site.output().shape, site.required(1).shape
    dims = numbered(shape)
    if scale in ((), (1,)):
        return Rule((0,), (dims, dims), (Way(Arranged(frame=1), site.unchanged),))
    axis = site.attribute("axis", 1)
    if not -len(shape) <= axis < len(shape):
        return None
    axis = site.axis(1, len(shape))
    label, blocked = f"k{axis}", len(scale) > 1
    along = frozenset({label})
    data = marked(shape, [axis], "i")
    numbers = marked(shape, [axis], "s") if blocked else ((f"{label}:i",),)
    if blocked and any(one != other for at, (one, other) in enumerate(zip(shape, scale, strict=True)) if at != axis):
        return None
    every = [number for number in (1, 2) if site.input(number) is not None]
    read = every if blocked else [number for number in every if site.constant(number) is None]

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    pinned = frozenset[int]() if blocked else frozenset(range(1, 1 + len(read)))
    form = Arranged(frame=0, alone=along, pinned=pinned, sensitive=along)
    ports = (data, *(numbers for _ in read), data)
    return Rule((0, *read), ports, (Way(form, rewrite, Along(label)),), solid=along)
