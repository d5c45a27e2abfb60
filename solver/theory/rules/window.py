"""Operators with a fixed data format: batch, channels, then space. Convolution, pooling, local normalisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from math import prod
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Dim, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import FREE, Price, Row
from layoutsolve.solver.theory.rule import (
    Between,
    Changed,
    Dims,
    Rule,
    Site,
    Step,
    Way,
    image,
    int64,
    rule,
    sizes,
    static,
    unnamed,
)
from layoutsolve.solver.theory.rules import channels_last_windows
from layoutsolve.solver.theory.rules.contraction import line_counts, numbers, products
from layoutsolve.solver.theory.rules.space import attributes, stored, turned


def _space(name: str, count: int) -> Dims:
    return tuple((f"{name}{index}",) for index in range(count))


def _whole(*names: str, count: int) -> frozenset[str]:
    return frozenset(f"{name}{index}" for name in names for index in range(count))


@rule("Conv", "ConvTranspose")
def convolution(site: Site) -> Rule:
    """Batch and channels may be factored in any order, groups outermost; constant kernels follow."""
    if _pointwise(site):
        return pointwise(site)
    data, kernel = site.required(0), site.required(1)
    groups = site.attribute("group", 1)
    rank = len(data.shape) - 2
    transposed = site.node.op == "ConvTranspose"
    contracted, produced = (kernel.shape[0], kernel.shape[1]) if transposed else (kernel.shape[1], kernel.shape[0])
    each = (contracted, _divided(produced, groups)) if not transposed else (_divided(contracted, groups), produced)
    sizes: dict[str, Dim] = {"g": groups, "c": each[0], "o": each[1]}
    inward, outward = ("g", "c"), ("g", "o")
    channels: Dims = (inward, ("o",)) if transposed else (outward, ("c",))
    places: list[Dims] = [(("n",), inward, *_space("s", rank)), (*channels, *_space("k", rank))]
    inputs = (0, 1) if site.input(2) is None else (0, 1, 2)
    places += [(outward,)] * (len(inputs) - 2)
    places.append((("n",), outward, *_space("p", rank)))
    constant = all(site.constant(number) is not None for number in inputs[1:])
    free = frozenset("ngco") if constant else frozenset("n")
    first = Placed(tuple(places), free=free)
    counts = {"channels": contracted, "produced": produced}
    facts = {name: count for name, count in counts.items() if groups == 1 and isinstance(count, int)}
    way = Way(first, site.unchanged, f"channels-first, {numbers(site)}", facts)
    others = (
        (channels_last_windows.writing,)
        if transposed
        else (channels_last_windows.reading, channels_last_windows.reversing)
    )
    images = _images(places)
    known = (channels_last_windows.window(site, order) for order in permutations(range(rank)))
    forms = [(window, stored(first, window.order, images)) for window in known if window is not None]
    last = [found for window, each in forms for other in others if (found := other(site, each, window)) is not None]
    return Rule(
        inputs,
        _dense(places, sizes),
        (way, *last, *turned(way, rank, images)),
        sizes,
        _whole("s", "k", "p", count=rank),
        letters=_letters(rank, "IO" if transposed else "OI", len(inputs)),
    )


def _images(places: Sequence[Dims]) -> list[int]:
    """The ports that have dimensions of space: all but a bias."""
    return [port for port, dims in enumerate(places) if len(dims) > 1]


def _letters(rank: int, kernel: str, inputs: int) -> tuple[str, ...]:
    """The letters of an image, a kernel, perhaps a bias, and what is made of them."""
    data = image("NC", rank + 2)
    return (data, image(kernel, rank + 2), *["O"] * (inputs - 2), data) if data else ()


def _pointwise(site: Site) -> bool:
    """Whether a convolution multiplies every pixel by the same constant matrix."""
    kernel = site.required(1).shape[2:]
    constant = all(site.constant(number) is not None for number in range(1, len(site.node.inputs)))
    still = all(stride == 1 for stride in site.attribute("strides", ())) and not any(site.attribute("pads", ()))
    unpadded = site.attribute("auto_pad", "NOTSET") == "NOTSET"
    one = all(size == 1 for size in kernel) and site.attribute("group", 1) == 1
    return site.node.op == "Conv" and one and still and unpadded and constant


def pointwise(site: Site) -> Rule:
    """A 1x1 convolution is a product ``[pixels, c] x [c, o]``: pixels and channels may come either way round."""
    rank = len(site.required(0).shape) - 2
    space = _space("s", rank)
    pixels = ("n", *(label for (label,) in space))
    units = ((),) * rank
    biased = site.input(2) is not None
    bias: tuple[Dims, ...] = ((("o",),),) if biased else ()
    dims = ((("n",), ("c",), *space), (("o",), ("c",), *units), *bias, (("n",), ("o",), *space))
    facts = numbers(site)
    conv = Way(Placed(dims, free=frozenset("nco")), site.unchanged, f"channels-first, {facts}")
    free, added = frozenset({*pixels, "c", "o"}), site.real if biased else ""
    ways = (conv, *products(pixels, "c", "o", free, added, facts, line_counts(site, 1)))
    inputs = (0, 1, 2) if biased else (0, 1)
    ways = (*ways, *turned(conv, rank, _images(dims)))
    return Rule(inputs, dims, ways, letters=_letters(rank, "OI", len(inputs)))


def _divided(size: Dim, groups: int) -> int:
    return int(str(size)) // groups


def _dense(places: list[Dims], sizes: dict[str, Dim]) -> tuple[Dims, ...]:
    """The labels of dimensions without those of size 1, which would make every dimension look like a product."""
    return tuple(tuple(tuple(label for label in labels if sizes.get(label) != 1) for labels in dims) for dims in places)


@rule("AveragePool", "MaxPool", "LpPool")
def pooling(site: Site) -> Rule | None:
    """Batch and channels, which are alike to a window, may be factored in any order and change places."""
    if len(site.node.outputs) > 1:
        return None
    rank, free = len(site.required(0).shape) - 2, frozenset("nc")
    space, kind = (_space("s", rank), _space("p", rank)), f"channels-first, {site.output().dtype}"
    dims = tuple((("n",), ("c",), *each) for each in space)
    heads: list[Dims] = [(("n",), ("c",))]
    if 1 not in site.required(0).shape[:2]:
        heads += [(("c",), ("n",)), ((), ("n", "c"))]
    forms = [Placed(tuple((*head, *each) for each in space), free, mixed=True) for head in heads]
    ways = [Way(form, site.unchanged, kind) for form in forms]
    ways += [way for each in ways for way in turned(each, rank, (0, 1))]
    return Rule((0,), dims, tuple(ways), solid=_whole("s", "p", count=rank), letters=_named(rank))


@rule("LRN")
def local_response(site: Site) -> Rule:
    """Channels keep their order, since neighbours matter; everything else may come in any order, before or behind."""
    rank, kind = len(site.required(0).shape) - 2, f"channels-first, {site.output().dtype}"
    dims: Dims = (("n",), ("c",), *_space("s", rank))
    pixels, units = ("n", *(label for (label,) in dims[2:])), ((),) * (rank - 1)
    around = [(before, tuple(each for each in pixels if each not in before)) for before in _subsets(pixels)]
    forms: list[Dims] = [dims, *((before, ("c",), after, *units) for before, after in around)]
    ways = tuple(Way(Placed((places, places), frozenset(pixels), mixed=True), site.unchanged, kind) for places in forms)
    return Rule((0,), (dims, dims), ways, solid=frozenset("c"), letters=_named(rank))


def _subsets(labels: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for count in range(len(labels) + 1):
        yield from combinations(labels, count)


def _named(rank: int) -> tuple[str, ...]:
    """The letters of an image, and of one that is made of it."""
    data = image("NC", rank + 2)
    return (data, data) if data else ()


@rule("GridSample")
def sampled(site: Site) -> Rule:
    """Channels may be factored in any order, and so may the batch, which the grid has too. What is sampled is in the
    order in which the grid's points are; what it is sampled from may have its dimensions of space in another order,
    and the coordinates of points come in that order: those that are constant are stored so, others are gathered.
    """
    rank, grid = len(site.required(0).shape) - 2, site.required(1)

    def places(space: Sequence[int], points: Sequence[int]) -> tuple[Dims, ...]:
        image, made = (tuple((f"{name}{axis}",) for axis in axes) for name, axes in (("s", space), ("p", points)))
        return (("n",), ("c",), *image), (("n",), *made, ("k",)), (("n",), ("c",), *made)

    def way(space: Sequence[int], points: Sequence[int]) -> Way:
        form = Placed(
            places(space, points),
            free=frozenset("nc"),
            price=FREE if site.changeable(1) or [*space] == sorted(space) else Price(hidden=1),
        )
        picked = [rank - 1 - axis for axis in reversed(space)]  # the last coordinate is that along the first dimension

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if picked == sorted(picked):
                return site.same()
            gathered = Between("grid", grid.dtype, shapes[1], grid.quant)
            return _picked(site, 1, len(shapes[1]) - 1, picked, gathered)

        return Way(form, rewrite, f"channels-first, {site.output().dtype}")

    images = [*permutations(range(rank))] if site.changeable(1) or site.floating else [tuple(range(rank))]
    ways = [way(space, points) for space in images for points in permutations(range(rank))]
    solid, data = _whole("s", "p", count=rank) | {"k"}, image("NC", rank + 2)
    letters = (data, unnamed(rank + 2), data) if data else ()
    return Rule((0, 1), places(images[0], range(rank)), tuple(ways), solid=solid, letters=letters)


def _picked(
    site: Site, number: int, axis: int, order: Sequence[int], made: Between, inputs: Mapping[int, Any] | None = None
) -> tuple[Step, ...]:
    """The node with what an input has along an axis in another order, stored so or gathered, and with other inputs."""
    if site.changeable(number):
        changed = Changed(number, lambda data: np.ascontiguousarray(np.take(data, order, axis)))
        return site.same(inputs={number: changed, **(inputs or {})})
    step = Step("Gather", (number, int64(*order)), (made,), {"axis": axis})
    return (step, *site.same(inputs={number: made.name, **(inputs or {})}))


@rule("AffineGrid")
def affine_grid(site: Site) -> Rule:
    """Points of space in any order: the columns of each matrix are those of the coordinates, the last one first."""
    shape, theta = site.output().shape, site.required(0)
    rank, known = len(shape) - 2, site.dims(1)

    def places(space: Sequence[int]) -> tuple[Dims, ...]:
        return (("n",), ("i",), ("j",)), (("n",), *((f"s{axis}",) for axis in space), ("k",))

    def way(space: Sequence[int]) -> Way:
        columns = [*(rank - 1 - space[rank - 1 - at] for at in range(rank)), rank]

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if known is None or [*space] == sorted(space):
                return site.same()
            steps, asked = sizes((*known[:2], *(known[2 + axis] for axis in space)))
            turned = Between("theta", theta.dtype, shapes[0], theta.quant)
            return (*steps, *_picked(site, 0, 2, columns, turned, {1: asked}))

        return Way(
            Placed(places(space), frozenset("n")),
            rewrite,
            "as in the source" if [*space] == sorted(space) else "exchanged",
        )

    orders = [*permutations(range(rank))] if known is not None and site.floating else [tuple(range(rank))]
    ways = tuple(map(way, orders))
    return Rule((0,), places(orders[0]), ways, solid=_whole("s", count=rank) | {*"ijk"})


@rule("Col2Im")
def column_to_image(site: Site) -> Rule | None:
    """Blocks and their places in any order of space, where their numbers are known; else as in the source."""
    data, result, kernel = site.required(0).shape, site.output().shape, site.integers(2)
    rank = len(result) - 2
    blocks = None if kernel is None or site.integers(1) is None else _blocks(site, kernel)
    if blocks is None or not isinstance(data[1], int):
        dims: tuple[Dims, ...] = ((("n",), ("b",), ("l",)), (("n",), ("c",), *_space("s", rank)))
        solid = frozenset("bcl") | _whole("s", count=rank)
        return Rule((0,), dims, (Way(Placed(dims, frozenset("n")), site.unchanged, "as in the source"),), solid=solid)
    counts: dict[str, Dim] = {"c": static(result[1])}
    counts |= {f"k{axis}": size for axis, size in enumerate(kernel or ())}
    counts |= {f"l{axis}": size for axis, size in enumerate(blocks)}

    def places(space: Sequence[int]) -> tuple[Dims, ...]:
        kernels, blocks, image = (tuple(f"{name}{axis}" for axis in space) for name in "kls")
        return (("n",), ("c", *kernels), blocks), (("n",), ("c",), *((label,) for label in image))

    def way(space: Sequence[int]) -> Way:

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if [*space] == sorted(space):
                return site.same()
            vectors = {
                number: int64(*(each[axis] for axis in space))
                for number in (1, 2)
                if (each := site.integers(number)) is not None
            }
            return site.same(attributes(site.node.attributes, tuple(space)), vectors)

        return Way(
            Placed(places(space), frozenset("nc")),
            rewrite,
            "as in the source" if [*space] == sorted(space) else "exchanged",
        )

    ways = tuple(way(space) for space in permutations(range(rank)))
    return Rule((0,), _dense([*places(range(rank))], counts), ways, counts, _whole("k", "l", "s", count=rank))


def _blocks(site: Site, kernel: Sequence[int]) -> list[int] | None:
    """How many blocks there are along each dimension of space, None where that contradicts what is read."""
    rank, image, given = len(kernel), site.integers(1) or (), site.node.attributes
    taps = int(np.prod(kernel))
    strides, gaps = (given.get(name) or (1,) * rank for name in ("strides", "dilations"))
    pads = given.get("pads") or (0,) * 2 * rank
    found = [
        (image[axis] + pads[axis] + pads[axis + rank] - gaps[axis] * (kernel[axis] - 1) - 1) // strides[axis] + 1
        for axis in range(rank)
    ]
    return found if prod(found) == site.required(0).shape[2] and taps else None
