"""Operators that put elements by index, reverse parts of sequences, or transform along an axis."""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import Shape
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import (
    Arranged,
    Dims,
    Placed,
    Rule,
    Site,
    Step,
    along,
    marked,
    numbered,
    position,
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
    return Rule(
        (0, 1, 2),
        (whole, part, part, whole),
        (Arranged(frame=0, alone=labels),),
        lambda row, shapes: site.same({"axis": position(row.arrangement, label)}),
        solid=labels,
        kind=along(label),
    )


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
    forms = [Placed(ports(inner), free=free)]
    if len(rest) > 1:
        forms.append(Placed(ports((rest,)), free=free, mixed=True))
    solid = frozenset(label for dims in (*indexed, *moved) for label in dims)
    return Rule(inputs, ports(inner), tuple(forms), lambda row, shapes: site.same(), solid=solid)


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

    behind: tuple[Dims, ...] = (inner,) if len(rest) < 2 else (inner, (rest,))
    ways = [(first, dims) for first in (("b", "t"), ("t", "b")) for dims in behind]
    forms = tuple(Placed(ports(((a,), (b,), *dims)), free=frozenset(rest), mixed=True) for (a, b), dims in ways)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        first = ways[row.form][0]
        return site.same({"batch_axis": first.index("b"), "time_axis": first.index("t")})

    return Rule(inputs, ports(logical), forms, rewrite, solid=frozenset("bt"))


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
    return Rule((0,), dims, (Placed(places, prefix=prefix),), rewrite, solid=frozenset("scpe"))
