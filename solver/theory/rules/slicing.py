"""Operators that cut, pad or resample along some axes and leave the others alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Dim, Shape, Size, Value
from layoutsolve.solver.theory.kind import Among, Marked
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import (
    Changed,
    Dims,
    Rule,
    Site,
    Step,
    Way,
    int64,
    marked,
    numbered,
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


Cut = tuple[int, int, int]
"""Where a cut starts and ends, and its step."""

UNCHANGED = (Step("Identity", (0,), (0,)),)
"""What is written for a scalar: ONNX Runtime cuts and pads none, not even by nothing."""


@rule("Slice")
def slice_(site: Site) -> Rule | None:
    """The axes that are cut stay whole, up to a trailing factor that every cut falls between."""
    starts, ends, steps = site.integers(1), site.integers(2), site.integers(4)
    rank = len(site.required(0).shape)
    axes = site.integers(3) if site.input(3) is not None else tuple(range(static(site.required(1).shape[0])))
    if axes is None:
        return None
    if starts is None or ends is None or (steps is None and site.input(4) is not None):
        return _computed_slice(site, [axis % rank for axis in axes])
    cuts = {
        axis % rank: (start, end, step)
        for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True)
    }
    shape = site.required(0).shape
    between = _between_tails(site, cuts)
    cuts |= between
    dims, sizes, form, whole = touching(site, sorted(cuts), {f"k{axis}": site.tails[f"k{axis}"] for axis in between})

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


def _between_tails(site: Site, cuts: Mapping[int, Cut]) -> dict[int, Cut]:
    """The cuts that fall between trailing factors of their axes, in numbers from the beginning."""
    found = {}
    for axis, (start, end, step) in cuts.items():
        tail, dim = site.tails.get(f"k{axis}"), site.required(0).shape[axis]
        if tail and step == 1 and isinstance(dim, int):
            first, last = _clamped(start, dim), _clamped(end, dim)
            if not (first % tail or last % tail):
                found[axis] = first, last, 1
    return found


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
    sides = zip(axes, pads, pads[len(axes) :], strict=False)
    widths = {axis: (before, after) for axis, before, after in sides if before or after}
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

PATTERNS = ("KRRK", "KKRR", "RRKK", "RKRK", "RKKR", "KRKR")
"""The dimensions of an image that may be resampled together: with channels last, with channels first, and others."""

VOLUME = 5
"""The dimensions of an image of three dimensions of space, which lie behind all others."""

UNITY = (0.0, 1.0)
"""The part of a dimension that is resampled where nothing is cut off: all of it."""


@dataclass(frozen=True, slots=True)
class _Resampling:
    """How much each dimension is resampled: by ``scales``, or to the sizes of the result where these are None, of which
    part in a ``region``, if that is given.
    """

    scales: tuple[float, ...] | None
    region: tuple[tuple[float, float], ...] | None

    def resampled(self, before: Shape, after: Shape) -> list[int]:
        """The dimensions that do not stay as they are."""
        scales, region = self.scales or (1.0,) * len(before), self.region or (UNITY,) * len(before)
        return [
            axis
            for axis, sizes in enumerate(zip(before, after, strict=True))
            if sizes[0] != sizes[1] or scales[axis] != 1.0 or region[axis] != UNITY
        ]

    def written(self, site: Site, where: Mapping[int, int], shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        """The operator with the dimensions of the source in some places."""
        rank, steps, inputs = len(shapes[0]), tuple[Step, ...](), dict[int, int | str | Array | Value | Changed]()
        if self.region is not None:
            parts = [UNITY] * rank
            for axis, place in where.items():
                parts[place] = self.region[axis]
            inputs[1] = np.array(parts, site.required(1).dtype).T.reshape(-1)
        if self.scales is None:
            steps, inputs[3] = vector_of(shapes[1])
        else:
            stored = np.ones(rank, np.float32)
            for axis, place in where.items():
                stored[place] = self.scales[axis]
            inputs[2] = stored
        (step,) = site.same(inputs=inputs)
        attributes = {name: value for name, value in step.attributes.items() if name != "axes"}
        return (*steps, replace(step, attributes=attributes))


@rule("Resize")
def resize(site: Site) -> Rule | None:
    """Resampled axes stay whole, in any order. Where elements are repeated the others are in any arrangement.
    Interpolation takes an image, in which resampled dimensions lie side by side, or a volume, before which all others
    lie. What lies in blocks of channels stays there where it is enlarged by whole numbers.
    """
    shape, result = site.required(0).shape, site.output().shape
    rank, dtype, mode = len(shape), site.required(0).dtype, site.attribute("mode", "nearest")
    how = _resampling(site)
    if how is None:
        return None
    axes = how.resampled(shape, result)
    dims, labels = (marked(shape, axes, "i"), marked(result, axes, "o")), frozenset(f"k{axis}" for axis in axes)

    def anywhere(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return how.written(site, {axis: position(row.arrangement, f"k{axis}") for axis in axes}, shapes)

    if not axes:
        return Rule((0,), dims, (Way(Arranged(frame=0), lambda row, shapes: (), "nothing"),))
    if mode == "nearest":
        form = Arranged(frame=0, alone=labels, sensitive=labels)
        kind = Marked("nearest", labels, dtype, max(rank, DIMENSIONS))
        return Rule((0,), dims, (Way(form, anywhere, kind),), solid=labels)
    own = tuple((f"k{axis}",) if axis in axes else each for axis, each in enumerate(dims[0]))
    several = permutations(own) if rank in (2, DIMENSIONS) or mode == "linear" else ()
    if how.region is not None and (mode == "cubic" or site.attribute("antialias", 0)):
        several = ()  # of images with the channels last, ONNX Runtime extrapolates none of these
    found = dict.fromkeys((own, *several))
    ways = [made for places in found if (made := _interpolated(site, how, axes, places)) is not None]
    return Rule((0,), dims, tuple(ways), solid=labels) if ways else None


def _interpolated(site: Site, how: _Resampling, axes: Sequence[int], places: Dims) -> Way | None:
    """The way to interpolate along some axes in one arrangement of the dimensions; None where no kernel knows it."""
    shape, dtype, mode = site.required(0).shape, site.required(0).dtype, site.attribute("mode", "nearest")
    where = {axis: places.index((f"k{axis}",)) for axis in axes}
    letters = _letters(set(where.values()), len(places))
    if letters is None:
        return None

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return how.written(site, where, shapes)

    others = {label: dim for axis, dim in enumerate(shape) if axis not in axes for label in numbered(shape)[axis]}
    innermost = places[-1] if letters == "KRRK" else tuple(others)[-1:]
    channels = others[innermost[0]] if innermost else 1
    told = {"channels": channels} if isinstance(channels, int) else {}
    sides = [(shape[axis], site.output().shape[axis]) for axis in axes]
    known = [(old, new) for old, new in sides if isinstance(old, int) and isinstance(new, int)]
    whole = known == sides and all(new % old == 0 for old, new in known)
    grown = known == sides and all(new >= old for old, new in known)
    fact = " in blocks" if letters == "KKRR" and dtype == "float32" and whole and in_blocks(site, 0) else ""
    if mode == "cubic" and letters == "KRRK" and not (grown or site.attribute("antialias", 0)):
        fact = " shrinking"
    form = Placed((places, places), frozenset(others), mixed=True)
    return Way(form, rewrite, f"{mode} {letters}{fact}, {dtype}", told)


def _letters(resampled: set[int], rank: int) -> str | None:
    """A pattern of resampled and other dimensions, as kernels know it; None where none does."""
    if rank == DIMENSIONS:
        fits = (text for text in PATTERNS if resampled <= {at for at, letter in enumerate(text) if letter == "R"})
        return next(fits, None)
    if not 1 < rank <= VOLUME or (rank == VOLUME and min(resampled) < rank - 3):
        return None
    return "".join("KR"[at in resampled] for at in range(rank)) if rank < VOLUME else "KKRRR"


def _resampling(site: Site) -> _Resampling | None:
    """How much a Resize resamples, None where that is computed, or sizes are followed as far as another one allows."""
    if site.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    shape, given = site.required(0).shape, site.attribute("axes")
    axes = range(len(shape)) if given is None else site.axes(given, len(shape))
    region = None
    if site.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        numbers = site.constant(1)
        if numbers is None:
            return None
        parts = dict(zip(axes, zip(*numbers.reshape(2, -1).tolist(), strict=True), strict=True))
        region = tuple(parts.get(axis, UNITY) for axis in range(len(shape)))
    scales = site.constant(2)
    if scales is not None and scales.size:
        factors = dict(zip(axes, scales.reshape(-1).tolist(), strict=True))
        return _Resampling(tuple(factors.get(axis, 1.0) for axis in range(len(shape))), region)
    return _Resampling(None, region) if site.dims(3) else None
