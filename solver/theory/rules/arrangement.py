"""Operators that put tensors together, take them apart or repeat them along axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from layoutsolve.ir.graph import Dim, Shape, Size, Value, product, reshape_entries
from layoutsolve.solver.theory.factor import blocks, factors
from layoutsolve.solver.theory.kind import Along, Kind, cutting
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Price, Row, position
from layoutsolve.solver.theory.rule import (
    Dims,
    Rule,
    Site,
    Step,
    Way,
    int64,
    integers,
    marked,
    numbered,
    reordered,
    rule,
    sizes,
    static,
)
from layoutsolve.solver.theory.rules.elementwise import aligned


@rule("Concat")
def concat(site: Site) -> Rule | None:
    """Only the leading factor of the axis is joined; a trailing factor that all operands share may lie anywhere."""
    shape = site.output().shape
    axis = site.attribute("axis") % len(shape)
    inputs = tuple(range(len(site.node.inputs)))
    shapes = [*(site.required(number).shape for number in inputs), shape]
    if len({(*each[:axis], *each[axis + 1 :]) for each in shapes}) > 1:
        return None  # sizes that have names, and are known by others of them to be what they have to be
    dims, extents = joined(shapes, axis, site.tails.get("k"))
    form = Arranged(frame=len(inputs), heads=frozenset("k"), tails=frozenset("t"), sensitive=frozenset("k"))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k")})

    kind = _cutting(site, shapes, axis, extents, range(len(inputs)))
    return Rule(inputs, dims, (Way(form, rewrite, kind),), extents, frozenset("k"))


@rule("Split")
def split(site: Site) -> Rule | None:
    """Concat, backwards. An axis along which sizes are known by name alone stays whole, in the parts of the source."""
    shape = site.required(0).shape
    axis = site.attribute("axis", 0) % len(shape)
    parts = [site.output(number).shape for number in range(len(site.node.outputs))]
    if any(isinstance(part[axis], Size) for part in parts):
        return _split_whole(site, joined([shape, *parts], axis, None)[0])
    dims, extents = joined([shape, *parts], axis, site.tails.get("k"))
    form = Arranged(frame=0, heads=frozenset("k"), tails=frozenset("t"), sensitive=frozenset("k"))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        where = position(row.arrangement, "k")
        return site.same({"axis": where}, {1: int64(*(static(stored[where]) for stored in shapes[1:]))})

    kind = _cutting(site, [shape, *parts], axis, extents, range(1, len(parts) + 1))
    return Rule((0,), dims, (Way(form, rewrite, kind),), extents, frozenset("k"))


def _cutting(site: Site, shapes: Sequence[Shape], axis: int, extents: Mapping[str, Dim], parts: range) -> Kind:
    """The kind of a Concat or Split, given which ports are parts."""
    return cutting("k", site.output().dtype, parts.start, [extents.get(f"k:{at}", shapes[at][axis]) for at in parts])


def _split_whole(site: Site, dims: tuple[Dims, ...]) -> Rule:
    """Split along an axis that is a dimension by itself."""
    computed = (1,) if site.input(1) is not None and site.constant(1) is None else ()
    along, vector = frozenset("k"), tuple((("parts",),) for _ in computed)
    form = Arranged(frame=0, alone=along, pinned=frozenset(computed), sensitive=along)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k")})

    ports = (dims[0], *vector, *dims[1:])
    return Rule((0, *computed), ports, (Way(form, rewrite, Along("k")),), solid=along | {"parts"})


def joined(shapes: list[Shape], axis: int, tail: int | None) -> tuple[tuple[Dims, ...], dict[str, Dim]]:
    """Labels of tensors that differ along an axis: ``k:0``, ``k:1``, ... there, and ``t`` for the factor that they
    share.
    """
    dims = []
    for number, shape in enumerate(shapes):
        touched = (f"k:{number}",) if tail is None else (f"k:{number}", "t")
        dims.append(tuple(touched if index == axis else labels for index, labels in enumerate(numbered(shape))))
    if tail is None:
        return tuple(dims), {}
    return tuple(dims), {
        "t": tail,
        **{f"k:{number}": static(shape[axis]) // tail for number, shape in enumerate(shapes)},
    }


@rule("Reshape")
def reshape(site: Site) -> Rule | None:
    """A Reshape some of whose blocks of dimensions are entangled: they stay together, the others follow any layout.

    Where an entangled block is one stored dimension on both sides there is nothing to do.
    """
    before, after = site.required(0).shape, site.output().shape
    parts = blocks(before, after)
    if parts is None or site.dims(1) is None or 0 in before:
        return None
    dims: tuple[list[tuple[str, ...]], ...] = ([()] * len(before), [()] * len(after))
    extents: dict[str, Dim] = {}
    for number, block in enumerate(parts):
        sides = [[shape[axis] for axis in axes] for shape, axes in zip((before, after), block, strict=True)]
        if number in site.entangled:
            for side, axes in enumerate(block):
                for index, axis in enumerate(axes):
                    dims[side][axis] = (f"k{number}:{side}.{index}",)
            continue
        common = factors(*sides)
        if common is None:
            return None
        for side, axes in enumerate(block):
            labels = iter((f"d{number}.{index}", size) for index, size in enumerate(common))
            for axis in axes:
                dims[side][axis] = _filled((before, after)[side][axis], labels)
        if len(common) > 1:
            extents.update({f"d{number}.{index}": size for index, size in enumerate(common)})
    solid = frozenset(f"k{number}" for number in site.entangled)

    def nothing(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return ()

    def regrouped(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        entries = reshape_entries(shapes[0], shapes[-1])
        steps, target = sizes(shapes[-1]) if entries is None else ((), int64(*entries))
        return (*steps, Step("Reshape", (0, target)))

    spread = Arranged(frame=0, alone=solid, spread=solid, price=Price(reshapes=1))
    ways = (Way(Arranged(frame=0), nothing, "nothing"), Way(spread, regrouped, "operator"))
    return Rule((0,), (tuple(dims[0]), tuple(dims[1])), ways, extents, solid)


def _filled(size: Dim, labels: Iterator[tuple[str, Dim]]) -> tuple[str, ...]:
    """The next labels that make up a dimension."""
    found: list[str] = []
    total: Dim = 1
    while total != size:
        label, factor = next(labels)
        found.append(label)
        total = product((total, factor))
    return tuple(found)


@rule("Tile")
def tile(site: Site) -> Rule | None:
    """Repeated axes stay whole."""
    repeats = site.dims(1)
    shape = site.required(0).shape
    if repeats is None:
        return None
    touched = [axis for axis, count in enumerate(repeats) if count != 1]
    before = marked(shape, touched, "i")
    after = marked(site.output().shape, touched, "o")
    labels = frozenset(f"k{axis}" for axis in touched)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        counts: list[Dim] = [1] * len(row.arrangement)
        for axis in touched:
            counts[position(row.arrangement, f"k{axis}")] = repeats[axis]
        steps, vector = sizes(counts)
        return (*steps, *site.same(inputs={1: vector}))

    return Rule((0,), (before, after), (Way(Arranged(frame=1, alone=labels), rewrite),), solid=labels)


@rule("Expand")
def expand(site: Site) -> Rule | None:
    """Broadcasting to a given shape; where that depends on data, its dimensions stay whole and the shape follows."""
    return to_shape(site, 1, site.required(0).shape)


@rule("ConstantOfShape")
def filled(site: Site) -> Rule | None:
    """As Expand of a single number."""
    return to_shape(site, 0, None)


def to_shape(site: Site, number: int, data: Shape | None) -> Rule | None:
    """The rule of an operator whose input of a ``number`` is the shape of its result, given the sizes of the data that
    it repeats, None where it reads none.
    """
    shape = site.output().shape
    read, first = ((), ()) if data is None else ((0,), (aligned(data, shape)[0],))
    if site.dims(number) is not None:

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            steps, vector = sizes(shapes[-1])
            return (*steps, *site.same(inputs={number: vector}))

        apart = frozenset[str]() if data is None else aligned(data, shape)[1]
        way = Way(Arranged(frame=len(read), alone=apart), rewrite)
        return Rule(read, (*first, numbered(shape)), (way,), solid=apart)
    dims = tuple((f"d{axis}",) for axis in range(len(shape)))
    labels = frozenset(label for (label,) in dims)
    form = Arranged(frame=1 + len(read), alone=labels, pinned=frozenset({len(read)}))

    def following(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        axes = {position(row.arrangement, label): axis for axis, (label,) in enumerate(dims)}
        picks = [axes.get(index) for index in range(len(row.arrangement))]
        steps, vector = reordered(number, picks, len(shape), 1)
        return (*steps, *site.same(inputs={number: vector}))

    return Rule((*read, number), (*first, (("vector",),), dims), (Way(form, following),), solid=labels | {"vector"})


@rule("Shape")
def shape(site: Site) -> Rule | None:
    """The sizes of a tensor in another layout are picked back into the order of its logical dimensions."""
    rank = len(site.required(0).shape)
    dims = tuple((f"d{axis}",) for axis in range(rank))
    asked = dims[slice(site.attribute("start", 0), site.attribute("end"))]
    labels = frozenset(label for (label,) in dims)
    form = Arranged(frame=0, alone=labels, pinned=frozenset({1}))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        picks = [position(row.arrangement, label) for (label,) in dims]
        if picks == list(range(len(row.arrangement))):
            return site.same()
        picks = [position(row.arrangement, label) for (label,) in asked]
        stored = Step("Shape", (0,), (integers("stored", len(row.arrangement)),))
        return (stored, Step("Gather", ("stored", int64(*picks)), (0,), {"axis": 0}))

    return Rule((0,), (dims, (("vector",),)), (Way(form, rewrite),), solid=labels | {"vector"})


@rule("Gather")
def gather(site: Site) -> Rule | None:
    """One axis is replaced by as many indices; it stays whole, the others follow any layout. Where one entry is picked
    its dimension is kept with size 1 or left out, whichever fits. The entries of a table lie as the numbers do for
    which they are looked up.
    """
    table, indices = site.required(0), site.required(1)
    if len(indices.shape) != 1 and indices.data is None and len(table.shape) == 1:
        same = numbered(indices.shape)
        if table.data is not None:
            return Rule((1,), (same, same), (Way(Arranged(frame=1), site.unchanged),))
        way = Way(Arranged(frame=2, pinned=frozenset({0})), site.unchanged)
        return Rule((0, 1), ((("table",),), same, same), (way,), solid=frozenset({"table"}))
    if len(indices.shape) != 1:
        return None
    shape = site.required(0).shape
    axis = site.attribute("axis", 0) % len(shape)
    inputs = (0,) if indices.data is not None else (0, 1)
    dims = [
        marked(shape, [axis], "i"),
        *([(("index",),)] if len(inputs) == 2 else []),
        marked(site.output().shape, [axis], "o"),
    ]
    label = f"k{axis}"
    along = frozenset({label})
    form = Arranged(frame=0, alone=along, pinned=frozenset(range(1, len(inputs))), sensitive=along)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    ways = [Way(form, rewrite, Along(label))]
    if indices.shape == (1,):
        data = indices.data
        known = {} if data is None else {1: Value(indices.name, indices.dtype, (), data=data.reshape(()))}

        def dropping(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({"axis": position(row.arrangement, label)}, known)

        ways.append(Way(replace(form, dropped=along, bare=form.pinned), dropping, Along(label)))
    return Rule(inputs, tuple(dims), tuple(ways), solid=along | {"index"})


@rule("DepthToSpace", "SpaceToDepth")
def depth_space(site: Site) -> Rule:
    """A regrouping of factors: one operator between stored dimensions, or nothing at all where the factors lie apart
    anyway. Rows and columns may be in exchange, and then those of a block are as well.
    """
    deepening = site.node.op == "SpaceToDepth"
    shallow, deep = (site.required(0), site.output()) if deepening else (site.output(), site.required(0))
    block = site.attribute("blocksize")
    extents: dict[str, Dim] = {"a": block, "b": block, "c": shallow.shape[1], "h": deep.shape[2], "w": deep.shape[3]}
    given = site.attribute("mode", "DCR")
    modes: dict[str, Dims] = {"DCR": (("n",), ("a", "b", "c"), ("h",), ("w",))}
    if not deepening or given == "CRD":  # SpaceToDepth has the attribute from opset 28 on
        modes["CRD"] = (("n",), ("c", "a", "b"), ("h",), ("w",))
    exchanged = {"a": "b", "b": "a", "h": "w", "w": "h"}

    def exchange(dims: Dims) -> Dims:
        return tuple(tuple(exchanged.get(name, name) for name in place) for place in dims)

    def ports(stacked: Dims, turned: bool = False) -> tuple[Dims, Dims]:
        both: tuple[Dims, Dims] = (("n",), ("c",), ("h", "a"), ("w", "b")), stacked
        if turned:
            both = exchange(both[0]), exchange(both[1])
        return both if deepening else (both[1], both[0])

    def way(mode: str, turned: bool) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same() if given == mode else site.same({"mode": mode})

        return Way(Placed(ports(modes[mode], turned), free=frozenset("nchw")), rewrite, mode)

    nothing = Way(Arranged(frame=0), lambda row, shapes: (), "nothing")
    ways = (*(way(mode, turned) for turned in (False, True) for mode in modes), nothing)
    return Rule((0,), ports(modes[given]), ways, extents, letters=("NCHW", "NCHW"))
