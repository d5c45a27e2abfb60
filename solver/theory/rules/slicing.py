"""Operators that cut, pad or resample along some axes and leave the others alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.graph import Dim, Shape, Size
from layoutsolve.solver.theory.kind import Among, Marked
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import (  # fmt: skip
    Arranged,
    Dims,
    Placed,
    Rule,
    Site,
    Step,
    Way,
    int64,
    marked,
    reordered,
    rule,
    static,
)
from layoutsolve.solver.theory.rule import sizes as vector_of
from layoutsolve.solver.theory.rules.blocks import in_blocks


def touching(
    site: Site, axes: list[int], tails: Mapping[str, int]
) -> tuple[tuple[Dims, Dims], dict[str, Dim], Arranged, frozenset[str]]:
    """The labels, sizes and form of an operator that changes some axes, up to a trailing factor ``t...`` of each."""
    before, after = site.required(0).shape, site.output().shape
    dims = [list(marked(before, axes, "i")), list(marked(after, axes, "o"))]
    sizes: dict[str, Dim] = {}
    for axis in axes:
        tail = tails.get(f"k{axis}")
        if tail is not None:
            sizes[f"t{axis}"] = tail
            for port, variant, shape in ((0, "i", before), (1, "o", after)):
                sizes[f"k{axis}:{variant}"] = static(shape[axis]) // tail
                dims[port][axis] = (f"k{axis}:{variant}", f"t{axis}")
    whole = frozenset(f"k{axis}" for axis in axes)
    form = Arranged(frame=0, heads=whole, tails=frozenset(f"t{axis}" for axis in axes), sensitive=whole)
    return (tuple(dims[0]), tuple(dims[1])), sizes, form, whole


UNCHANGED = (Step("Identity", (0,), (0,)),)
"""What is written for a scalar: ONNX Runtime cuts and pads none, not even by nothing."""


@rule("Slice")
def slice_(site: Site) -> Rule | None:
    """The axes that are cut stay whole, up to a trailing factor that every cut falls between."""
    starts, ends, steps = site.integers(1), site.integers(2), site.integers(4)
    rank = len(site.required(0).shape)
    axes = site.integers(3) if site.input(3) is not None else tuple(range(rank))
    if axes is None:
        return None
    if starts is None or ends is None or (steps is None and site.input(4) is not None):
        return _computed_slice(site, [axis % rank for axis in axes])
    cuts = {
        axis % rank: (start, end, step)
        for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True)
    }
    shape = site.required(0).shape
    tails = {}
    for axis, (start, end, step) in cuts.items():
        tail = site.tails.get(f"k{axis}")
        dim = shape[axis]
        if (
            tail
            and step == 1
            and isinstance(dim, int)
            and not (_clamped(start, dim) % tail or _clamped(end, dim) % tail)
        ):
            tails[f"k{axis}"] = tail
            cuts[axis] = (_clamped(start, dim), _clamped(end, dim), 1)
    dims, sizes, form, whole = touching(site, sorted(cuts), tails)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        if not row.arrangement:
            return UNCHANGED
        where = {axis: position(row.arrangement, f"k{axis}") for axis in cuts}
        scaled = {
            axis: [_scaled(cuts[axis][side], shape[axis], shapes[0][where[axis]]) for side in (0, 1)] for axis in cuts
        }
        ordered = sorted(cuts, key=lambda axis: where[axis])
        return site.same(
            inputs={
                1: int64(*(scaled[axis][0] for axis in ordered)),
                2: int64(*(scaled[axis][1] for axis in ordered)),
                3: int64(*(where[axis] for axis in ordered)),
                4: int64(*(cuts[axis][2] for axis in ordered)),
            }
        )

    return Rule((0,), dims, (Way(form, rewrite, Among(whole)),), sizes, whole)


def _computed_slice(site: Site, axes: list[int]) -> Rule | None:
    """Where cuts are computed, the axes stay whole, and are named in another place. Of the others, what has size 1 must
    be known to keep it.
    """
    sizes = zip(site.required(0).shape, site.output().shape, strict=True)
    if any((given == 1) != (made == 1) for axis, (given, made) in enumerate(sizes) if axis not in axes):
        return None
    vectors = [number for number in (1, 2, 4) if site.input(number) is not None and site.constant(number) is None]
    whole = frozenset(f"k{axis}" for axis in axes)
    before, after = marked(site.required(0).shape, axes, "i"), marked(site.output().shape, axes, "o")
    names: list[Dims] = [((f"v{number}",),) for number in vectors]
    form = Arranged(frame=0, alone=whole, pinned=frozenset(range(1, len(vectors) + 1)), sensitive=whole)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same(inputs={3: int64(*(position(row.arrangement, f"k{axis}") for axis in axes))})

    solid = whole | {f"v{number}" for number in vectors}
    return Rule((0, *vectors), (before, *names, after), (Way(form, rewrite, Among(whole)),), solid=solid)


def _clamped(index: int, size: int) -> int:
    return max(0, min(size, index + size if index < 0 else index))


def _scaled(amount: int, logical: Dim, stored: Dim) -> int:
    """An index or a width along a dimension in units of the stored one, which may lack or add trailing factors."""
    return amount if logical == stored else amount * static(stored) // static(logical)


@rule("Pad")
def pad(site: Site) -> Rule | None:
    """The axes that are padded stay whole, up to a trailing factor that divides the padding."""
    shape = site.required(0).shape
    pads, given = site.dims(1), site.integers(3)
    if pads is None and site.input(3) is None:
        return _computed_pad(site)
    if pads is None or (given is None and site.input(3) is not None):
        return None
    axes = [axis % len(shape) for axis in given] if given is not None else list(range(len(shape)))
    count = len(axes)
    widths = {
        axis: (pads[index], pads[index + count])
        for index, axis in enumerate(axes)
        if pads[index] or pads[index + count]
    }
    constant = site.attribute("mode", "constant") == "constant"
    tails = {
        f"k{axis}": tail
        for axis, (before, after) in widths.items()
        if (tail := site.tails.get(f"k{axis}")) and constant and not (static(before) % tail or static(after) % tail)
    }
    dims, sizes, form, whole = touching(site, sorted(widths), tails)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        rank = len(row.arrangement)
        if not rank:
            return UNCHANGED
        amounts: list[Dim] = [0] * (2 * rank)
        for axis, sides in widths.items():
            where = position(row.arrangement, f"k{axis}")
            for side, amount in enumerate(sides):
                scaled = amount if isinstance(amount, Size) else _scaled(amount, shape[axis], shapes[0][where])
                amounts[where + side * rank] = scaled
        steps, vector = vector_of(amounts)
        (step,) = site.same(inputs={1: vector})
        return (*steps, Step(step.op, step.inputs[:3], step.outputs, step.attributes))

    filler = _computed_filler(site)
    ports = (dims[0], *_scalars(site, filler), dims[1])
    scalar = replace(form, pinned=frozenset(range(1, 1 + len(filler))))
    return Rule((0, *filler), ports, (Way(scalar, rewrite, Among(whole)),), sizes, whole)


def _computed_filler(site: Site) -> tuple[int, ...]:
    """The port of the number that is filled in, a scalar, where it is computed."""
    value = site.input(2)
    return () if value is None or value.data is not None else (2,)


def _scalars(site: Site, filler: Sequence[int]) -> tuple[Dims, ...]:
    """The labels of a number, which may come as a vector of one."""
    return tuple(((),) * len(site.required(number).shape) for number in filler)


def _computed_pad(site: Site) -> Rule:
    """Where the padding is computed, every dimension stays whole, and the padding follows."""
    rank = len(site.required(0).shape)
    axes = range(rank)
    whole = frozenset(f"k{axis}" for axis in axes)
    before, after = marked(site.required(0).shape, axes, "i"), marked(site.output().shape, axes, "o")
    filler = _computed_filler(site)
    form = Arranged(frame=0, alone=whole, pinned=frozenset(range(1, 2 + len(filler))), sensitive=whole)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        order = {position(row.arrangement, f"k{axis}"): axis for axis in axes}
        found = [order.get(index) for index in range(len(row.arrangement))]
        ends = [None if axis is None else axis + rank for axis in found]
        steps, vector = reordered(1, [*found, *ends], 2 * rank, 0)
        return (*steps, *site.same(inputs={1: vector}))

    dims: tuple[Dims, ...] = (before, (("pads",),), *_scalars(site, filler), after)
    return Rule((0, 1, *filler), dims, (Way(form, rewrite, Among(whole)),), solid=whole | {"pads"})


DIMENSIONS = 4
"""Of so many dimensions runtimes have kernels of their own for Resize; where there are more, all are counted."""


PAIRS = ((1, 2), (2, 3), (0, 1), (0, 2), (0, 3), (1, 3))
"""The dimensions of an image that may be resampled together: with channels last, with channels first, and others."""


@rule("Resize")
def resize(site: Site) -> Rule | None:
    """Resampled axes stay whole. Interpolation takes an image, in any order of rows before columns and of batch before
    channels; that by four neighbours of each pixel or more takes channels first. What lies in blocks of channels stays
    there where it is enlarged by whole numbers.
    """
    shape, result = site.required(0).shape, site.output().shape
    rank, dtype = len(shape), site.required(0).dtype
    given = _resize_factors(site)
    cropped = site.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    stretched = site.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
    if given is None or site.attribute("axes") is not None or cropped or not stretched:
        return None
    number, factors = given
    scales = [factor for factor in factors if isinstance(factor, float)]
    mode = site.attribute("mode", "nearest")
    nearest = mode == "nearest"
    axes = [
        axis
        for axis in range(rank)
        if shape[axis] != result[axis] or factors[axis] != (1.0 if number == 2 else shape[axis])
    ]
    pair = next((each for each in PAIRS if set(axes) <= set(each)), None)
    if not nearest:
        if rank != 4 or pair is None:
            return None
        axes = [*pair]
    others = [axis for axis in range(rank) if axis not in axes]
    resampled = frozenset(f"k{axis}" for axis in axes)
    dims = (marked(shape, axes, "i"), marked(result, axes, "o"))
    sides = [(shape[axis], result[axis]) for axis in axes]
    enlarged = all(isinstance(old, int) and isinstance(new, int) and new % old == 0 for old, new in sides)

    def resized(where: Mapping[int, int], shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        if number == 3:
            steps, vector = vector_of(shapes[1])
            return (*steps, *site.same(inputs={number: vector}))
        stored = np.ones(len(shapes[0]), np.float32)
        for axis, index in where.items():
            stored[index] = scales[axis]
        return site.same(inputs={number: stored})

    def anywhere(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return resized({axis: position(row.arrangement, f"k{axis}") for axis in axes}, shapes)

    def interpolating(letters: str, order: Sequence[int] = axes) -> Way:
        """The operator with resampled dimensions (R) in some places, in an order, and the others (K) around them."""
        kept, moved = iter([dims[0][axis] for axis in others]), iter([(f"k{axis}",) for axis in order])
        places = tuple(next(moved if letter == "R" else kept) for letter in letters)
        where = dict(zip(order, (index for index, letter in enumerate(letters) if letter == "R"), strict=True))

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return resized(where, shapes)

        form = Placed((places, places), free=frozenset(f"d{axis}" for axis in others))
        channels = shape[others[-1]]
        sizes = {"channels": channels} if isinstance(channels, int) else {}
        blocked = letters == "KKRR" and dtype == "float32" and enlarged and in_blocks(site, 0)
        return Way(form, rewrite, f"{mode} {letters}{' in blocks' if blocked else ''}, {dtype}", sizes)

    ways: tuple[Way, ...]
    if nearest:
        form = Arranged(frame=0, alone=resampled, sensitive=resampled)
        ways = (Way(form, anywhere, Marked("nearest", resampled, dtype, max(rank, DIMENSIONS))),)
    elif mode == "linear":
        forms = "KKRR", "KRRK", "RRKK", "RKKR", "KRKR", "RKRK"
        ways = tuple(interpolating(letters, order) for order in (axes, axes[::-1]) for letters in forms)
    else:
        ways = tuple(interpolating("KKRR", order) for order in (axes, axes[::-1]))
    return Rule((0,), dims, ways, solid=resampled)


def _resize_factors(site: Site) -> tuple[int, list[float | Dim]] | None:
    """The number of the input that says how much to resize, and its content."""
    scales = site.constant(2)
    if scales is not None and scales.size:
        return 2, [float(item) for item in scales.reshape(-1)]
    sizes = site.dims(3)
    return (3, [*sizes]) if sizes else None
