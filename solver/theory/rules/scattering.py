"""Operators that put elements by index, reverse parts of sequences, or transform along an axis."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Shape
from layoutsolve.solver.theory.kind import Along
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import (
    Arranged,
    Dims,
    Placed,
    Rule,
    Site,
    Step,
    Way,
    marked,
    numbered,
    rule,
)


@rule("ScatterElements")
def scatter_elements(site: Site) -> Rule | None:
    """The axis stays whole; where updates are as large as the data along all others, those follow any layout."""
    data, updates = site.required(0).shape, site.required(2).shape
    axis = site.attribute("axis", 0) % len(data)
    if any(a != b for at, (a, b) in enumerate(zip(data, updates, strict=True)) if at != axis):
        return None
    whole, part, label = marked(data, [axis], "i"), marked(data, [axis], "o"), f"k{axis}"
    labels = frozenset({label})

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    way = Way(Arranged(frame=0, alone=labels), rewrite, Along(label))
    return Rule((0, 1, 2), (whole, part, part, whole), (way,), solid=labels)


@rule("ScatterND")
def scatter_nd(site: Site) -> Rule | None:
    """The indexed axes come first and in order; the others behind them in any arrangement, as one dimension."""
    data, indices = site.required(0).shape, site.required(1)
    depth, outer = indices.shape[-1], len(indices.shape) - 1
    if not isinstance(depth, int):
        return None
    rest = tuple(f"r{axis}" for axis in range(depth, len(data)) if data[axis] != 1)
    inner = tuple((f"r{axis}",) if data[axis] != 1 else () for axis in range(depth, len(data)))
    indexed = tuple((f"i{axis}",) for axis in range(depth))
    rows = tuple((f"o{axis}",) for axis in range(outer))
    moved = (*rows, ("depth",))
    inputs = (0, 2) if indices.data is not None else (0, 1, 2)

    def ports(behind: Dims) -> tuple[Dims, ...]:
        middle = (moved,) if len(inputs) == 3 else ()
        return ((*indexed, *behind), *middle, (*rows, *behind), (*indexed, *behind))

    free = frozenset(rest)
    ways = [Way(Placed(ports(inner), free=free), site.unchanged, "apart")]
    if len(rest) > 1:
        ways.append(Way(Placed(ports((rest,)), free=free, mixed=True), site.unchanged, "together"))
    solid = frozenset(label for dims in (*indexed, *moved) for label in dims)
    return Rule(inputs, ports(inner), tuple(ways), solid=solid)


@rule("ReverseSequence")
def reverse_sequence(site: Site) -> Rule | None:
    """Batch and time come first, either way round; the other dimensions are one, in any arrangement."""
    shape = site.required(0).shape
    names = {site.attribute("batch_axis", 1): "b", site.attribute("time_axis", 0): "t"}
    inner = numbered(shape)[2:]
    rest = tuple(label for labels in inner for label in labels)
    inputs = (0,) if site.constant(1) is not None else (0, 1)
    logical: Dims = ((names[0],), (names[1],), *inner)

    def ports(dims: Dims) -> tuple[Dims, ...]:
        return (dims, *((("b",),),) * (len(inputs) - 1), dims)

    def way(order: str, behind: Dims, kind: str) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({"batch_axis": order.index("b"), "time_axis": order.index("t")})

        places = ports((*((label,) for label in order), *behind))
        return Way(Placed(places, free=frozenset(rest), mixed=True), rewrite, kind)

    behind: tuple[tuple[str, Dims], ...] = (("apart", inner), *([("together", (rest,))] if len(rest) > 1 else []))
    ways = tuple(
        way(order, dims, f"{first} first, {how}")
        for order, first in (("bt", "batch"), ("tb", "time"))
        for how, dims in behind
    )
    return Rule(inputs, ports(logical), ways, solid=frozenset("bt"))


@rule("DFT")
def dft(site: Site) -> Rule | None:
    """The axis and the parts of the numbers come last, whatever else there is before them in any arrangement."""
    axes = site.integers(2)
    if axes is None:
        return None
    before, after = site.required(0).shape, site.output().shape
    rank = len(before)
    axis = axes[0] % rank
    prefix = tuple(label for at, labels in enumerate(numbered(before)[:-1]) if at != axis for label in labels)

    def labelled(shape: Shape, line: str, parts: str) -> Dims:
        return tuple(
            (line,) if at == axis else (parts,) if at == rank - 1 else labels
            for at, labels in enumerate(numbered(shape))
        )

    lead: Dims = () if prefix else ((),)
    places = ((*lead, ("s",), ("c",)), (*lead, ("p",), ("e",)))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same(inputs={2: np.array(len(shapes[0]) - 2, np.int64)})

    dims = (labelled(before, "s", "c"), labelled(after, "p", "e"))
    return Rule((0,), dims, (Way(Placed(places, prefix=prefix), rewrite),), solid=frozenset("scpe"))
