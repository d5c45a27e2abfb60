"""PosenetDecoderOp of Coral: people's poses, from a network's heatmaps of keypoints and their displacements.

The skeleton is a tree. A pose grows from one keypoint, its root, along the edges: from where a keypoint is, the network
tells where the next one must be. On a tree the order in which keypoints are visited makes no difference, so all roots
grow at once, each round by the keypoints that are one edge further away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.control import write_loop
from layoutsolve.frontend.tflite.operators.custom.options import integer, number
from layoutsolve.frontend.tflite.operators.custom.posenet_skeleton import EDGES, KEYPOINTS, rounds_of_roots
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, ranked, static, to_channels_first
from layoutsolve.frontend.tflite.operators.shared.pixel_grids import Field, cast, gathered, largest, reduced, written
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Array, Dim, Region, Shape, Value

_REFINEMENTS, _MASK_REFINEMENTS = 5, 2
"""How often a place is corrected by the offsets that are stated where it is believed to be."""

_MASK = 33
"""The height and width for which the kernel writes masks, whatever those of its inputs are."""

_MOST, _EXACT = 512, 1 << 24
"""The most poses that are compared with each other; the numbers up to which float32 counts exactly."""


Step = Callable[[Call, Value, Sequence[Value]], list[Value]]
"""A turn of a loop: given its number and what is carried, it gives that anew."""


@dataclass(frozen=True)
class _Settings:
    most: int
    score: float
    stride: int
    radius: float

    @property
    def square(self) -> np.float32:
        """The square of the radius, in cells."""
        radius = np.float32(self.radius) / np.float32(self.stride)
        return np.float32(radius * radius)


def _settings(call: Call) -> _Settings:
    options = call.settings()
    found = _Settings(
        integer(call, options, "max_detections"),
        number(call, options, "score_threshold"),
        integer(call, options, "stride"),
        number(call, options, "nms_radius"),
    )
    if found.most < 1 or found.stride < 1 or not np.isfinite([found.score, found.radius]).all():
        raise ModelError(f"{call.origin} has options that no kernel accepts: {options}")
    if found.most > _MOST:
        raise GapError(f"it detects up to {found.most} poses", f"detect at most {_MOST}")
    return found


@lowers("CUSTOM:PosenetDecoderOp", signature=("PU PU PU -> P P P P", "PU PU PU PU -> P P P P P"))
def posenet(call: Call) -> None:
    """PosenetDecoderOp: keypoints of poses [1, n, 17, 2], their scores, the scores of poses, how many there are, and
    perhaps a mask for each. Rows beyond that number are zero.
    """
    settings = _settings(call)
    channels = (KEYPOINTS, 2 * KEYPOINTS, 4 * len(EDGES), 2 * KEYPOINTS)[: call.arity]
    inputs = [ranked(call, call.input(at), 4) for at in range(call.arity)]
    height, width = static(call, inputs[0].shape[1:3], "input size")
    masked = [(_MASK, _MASK)] if call.arity == 4 else []
    sizes = [(height, width)] * 3 + masked
    if [value.shape for value in inputs] != [(1, *size, count) for size, count in zip(sizes, channels, strict=True)]:
        raise ModelError(f"{call.origin} decodes {', '.join(map(str, inputs))}")
    if height * width * max(channels) >= _EXACT or not height * width:
        raise GapError(f"it decodes {height} by {width} cells", "use a smaller image, or a larger stride")
    heat, *offsets = (
        Field(call, value, size, 1.0 if at == 0 else 1.0 / settings.stride)
        for at, (value, size) in enumerate(zip(inputs, sizes, strict=True))
    )
    roots = _roots(call, inputs[0], heat, offsets[0], settings)
    poses, scores = _grown(call, roots, heat, offsets[0], offsets[1])
    results = _rescored(call, *_accepted(call, roots, poses, scores, settings), settings)
    if masked:
        _masks(call, offsets[2], results, settings)


# -- where poses begin -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Roots:
    """Keypoints that may be the first of a pose, the best first; one of them at least, though it be none.

    ``cell`` is a number of its own for each, ``keypoint`` which one it is, ``place`` where, ``good`` whether it is one.
    """

    cell: Value
    keypoint: Value
    place: Value
    good: Value

    @property
    def count(self) -> Dim:
        return self.cell.shape[0]


def _roots(call: Call, x: Value, heat: Field, offsets: Field, settings: _Settings) -> _Roots:
    """The cells whose score is above the threshold and the best among their neighbours."""
    width = x.shape[2]
    (total,) = static(call, heat.flat.shape, "size")
    peak = call.reshaped(_peaks(call, x, _log_odds(settings.score)), (total,), "peak")
    lowest = call.constant(-np.inf, "lowest", "float32")
    scores = written(call, "Where", [peak, heat.flat, lowest], (total,), "scores")
    found = reduced(call, "ReduceSum", cast(call, peak, "int64"), 0, "found")
    one, all_ = call.vector([1], "one"), call.vector([total], "all")
    more = written(call, "Add", [call.reshaped(found, (1,), "found"), one], (1,), "more", "int64")
    count = call.fresh("candidates")
    k = written(call, "Min", [more, all_], (1,), "k", "int64")
    best, cell = largest(call, scores, k, count)
    good = written(call, "Greater", [best, lowest], (count,), "good", "bool")

    def divided(op: str, value: Value, by: Dim) -> Value:
        (known,) = static(call, (by,), "width")
        return written(call, op, [value, call.constant(known, "by", "int64")], value.shape, op.lower(), "int64")

    keypoint, at = divided("Mod", cell, KEYPOINTS), divided("Div", cell, KEYPOINTS)
    corner = [call.reshaped(divided(op, at, width), (count, 1), "corner") for op in ("Div", "Mod")]
    start = call.write("Concat", corner, (count, 2), call.temporary("start", "int64"), axis=1)
    first = written(call, "Add", [divided("Mul", at, 2 * KEYPOINTS), keypoint], (count,), "first", "int64")
    first = call.reshaped(first, (count, 1), "first")
    where = written(call, "Add", [first, call.vector([0, KEYPOINTS], "both")], (count, 2), "where", "int64")
    offset = gathered(call, offsets.flat, where, "offset")
    far = written(call, "Add", [cast(call, start, "float32"), offset], (count, 2), "far")
    return _Roots(cell, keypoint, offsets.within(call, far), good)


def _log_odds(chance: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(-np.log(1.0 / (np.float32(chance) + np.float64(1e-6)) - 1.0)))


def _peaks(call: Call, x: Value, least: float) -> Value:
    """Whether a score is at least ``least`` and none of those beside it is higher."""
    first = to_channels_first(call, x)
    stored = x.quant is not None and x.dtype in BYTES
    attributes: dict[str, Any] = {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}
    slot = call.temporary("highest", x.dtype, x.quant)
    highest = call.write("MaxPool", [first], first.shape, slot, storage=stored, **attributes)
    limits = [highest, call.constant(least, "least", "float32")]
    high, enough = (written(call, "GreaterOrEqual", [first, limit], first.shape, "high", "bool") for limit in limits)
    both = written(call, "And", [high, enough], first.shape, "peak", "bool")
    return call.transposed(both, (0, 2, 3, 1), "peak", pattern=True)


# -- how poses grow ----------------------------------------------------------------------------------------------------


def _grown(call: Call, roots: _Roots, heat: Field, short: Field, mid: Field) -> tuple[Value, Value]:
    """The pose that grows from each root, [n, 17, 2], and the chances of its keypoints, [n, 17]."""
    rounds, count = rounds_of_roots(), roots.count
    length, _, wide = rounds.keypoint.shape

    def columns(table: Array, *steps: int) -> Array:
        """Numbers of channels: of the offset down, and of that to the right."""
        return np.stack([table + step for step in steps], -1).reshape(-1, wide, len(steps), 1)

    reached = np.where(rounds.keypoint == KEYPOINTS, 0, rounds.keypoint)
    before = call.constant(rounds.before.reshape(-1, wide, 1), "before", "int64")
    target = call.constant(columns(rounds.keypoint, 0, 0)[..., 0], "target", "int64")
    edges = call.constant(columns(rounds.edge, 0, len(EDGES)), "edges", "float32")
    reached_channels = call.constant(columns(reached, 0, KEYPOINTS), "channels", "float32")
    initial = _initial(call, roots)

    def grow(call: Call, turn: Value, now: Value) -> Value:
        turns = call.constant(KEYPOINTS, "roots", "int64")
        start = written(call, "Mul", [turn, turns], (1,), "start", "int64")
        row = written(call, "Add", [start, roots.keypoint], (count,), "row", "int64")
        origin = gathered(call, before, row, "origin")
        source = call.write("GatherND", [now, origin], (count, wide, 2), call.temporary("source"), batch_dims=1)
        there = mid.moved(call, source, gathered(call, edges, row, "edge"))
        channels = gathered(call, reached_channels, row, "channels")
        for _ in range(_REFINEMENTS):
            there = short.moved(call, there, channels)
        given = [now, gathered(call, target, row, "target"), there]
        return call.write("ScatterElements", given, now.shape, call.temporary("grown"), axis=1)

    (whole,) = _repeated(call, length, [initial], lambda inner, turn, now: [grow(inner, turn, now[0])])
    poses = take(call, whole, {1: Span(0, KEYPOINTS)}, call.temporary("poses"), {1: KEYPOINTS})
    each = call.constant(np.arange(KEYPOINTS).reshape(-1, 1, 1), "each", "float32")
    logits = call.reshaped(heat.at(call, poses, each), (count, KEYPOINTS), "logits")
    return poses, written(call, "Sigmoid", [logits], logits.shape, "chances")


def _initial(call: Call, roots: _Roots) -> Value:
    """A pose [18, 2] for each root, of which nothing is known but the root; its last row takes what leads nowhere."""
    count, room = roots.count, (roots.count, KEYPOINTS + 1, 2)
    shape = call.sizes(room, "room")
    empty = written(call, "Expand", [call.constant(0, "zero", "float32"), shape], room, "empty")
    index = call.reshaped(roots.keypoint, (count, 1, 1), "index")
    pair = call.sizes((count, 1, 2), "pair")
    index = written(call, "Expand", [index, pair], (count, 1, 2), "index", "int64")
    place = call.reshaped(roots.place, (count, 1, 2), "place")
    return call.write("ScatterElements", [empty, index, place], room, call.temporary("initial"), axis=1)


def _repeated(call: Call, most: int, initial: Sequence[Value], step: Step) -> list[Value]:
    """Write a Loop of ``most`` turns. A step is given the turn's number and what is carried, and gives that anew."""
    draft, zero, one = call.draft, call.vector([0], "turn"), call.vector([1], "one")
    begins = [zero, *initial]
    now = [
        draft.add(Value(draft.names.derived(each.name, "now"), each.dtype, each.shape, each.quant)) for each in begins
    ]
    first, region, start = call.constant(True, "first", "bool"), Region("body", call.lowering.region), len(draft.nodes)
    inner = call.within(region)
    turn, *carried = now
    after = step(inner, turn, carried)
    following = written(inner, "Add", [turn, one], (1,), "following", "int64")
    ends = [
        (before, present, next_, before.shape, call.like("last", before))
        for before, present, next_ in zip(begins, now, [following, *after], strict=True)
    ]
    return write_loop(call, region, start, [first], ends, most)[1:]


# -- which poses are given ---------------------------------------------------------------------------------------------


def _squares(call: Call, one: Value, other: Value, shape: Shape) -> Value:
    """Squared distances of places, whose coordinates are the last axis of ``shape``."""
    apart = written(call, "Sub", [one, other], shape, "apart")
    return reduced(call, "ReduceSum", written(call, "Mul", [apart, apart], shape, "squared"), len(shape) - 1, "square")


def _mean(call: Call, chances: Value) -> Value:
    total = reduced(call, "ReduceSum", chances, 1, "total")
    return written(call, "Div", [total, call.constant(KEYPOINTS, "count", "float32")], total.shape, "mean")


def _accepted(
    call: Call, roots: _Roots, poses: Value, chances: Value, settings: _Settings
) -> tuple[Value, Value, Value]:
    """Poses, chances and scores of those poses whose root is not at a keypoint of a better one, the best first.

    Where there are fewer than is room for, the score of the rest is minus infinity.
    """
    count, most = roots.count, settings.most
    scores = _mean(call, chances)
    least = call.constant(settings.score, "score_threshold", "float32")
    enough = written(call, "GreaterOrEqual", [scores, least], (count,), "enough", "bool")
    alive = written(call, "And", [enough, roots.good], (count,), "alive", "bool")
    none = written(call, "And", [alive, call.constant(False, "false", "bool")], (count,), "none", "bool")
    radius = call.constant(settings.square, "radius", "float32")

    def accept(call: Call, turn: Value, now: Sequence[Value]) -> list[Value]:
        alive, accepted = now
        slot, number = call.temporary("next", "int64"), cast(call, alive, "int32")
        best = call.write("ArgMax", [number], (1,), slot, real="int64", axis=0, keepdims=1)
        pose = call.reshaped(gathered(call, poses, best, "pose"), (KEYPOINTS, 2), "pose")
        same = gathered(call, pose, roots.keypoint, "same")
        distance = _squares(call, roots.place, same, (count, 2))
        far = written(call, "Greater", [distance, radius], (count,), "far", "bool")
        cell = gathered(call, roots.cell, best, "cell")
        this = written(call, "Equal", [roots.cell, cell], (count,), "this", "bool")
        taken = written(call, "And", [this, alive], (count,), "taken", "bool")
        return [
            written(call, "And", [alive, far], (count,), "left", "bool"),
            written(call, "Or", [accepted, taken], (count,), "accepted", "bool"),
        ]

    _, accepted = _repeated(call, most, [alive, none], accept)
    return _best(call, poses, chances, (accepted, scores), most)


def _best(
    call: Call, poses: Value, chances: Value, graded: tuple[Value, Value], most: int
) -> tuple[Value, Value, Value]:
    """So many of the poses that are accepted, as their score says, with their chances and scores."""
    accepted, scores = graded
    lowest = call.constant(-np.inf, "lowest", "float32")
    known = written(call, "Where", [accepted, scores, lowest], scores.shape, "known")
    room = call.constant(np.full(most, -np.inf), "room", "float32")
    whole: Dim = call.arithmetic.total((scores.shape[0], most))
    padded = call.write("Concat", [known, room], (whole,), call.temporary("padded"), axis=0)
    best, places = largest(call, padded, call.vector([most], "k"), most)
    real = written(call, "Greater", [best, lowest], (most,), "real", "bool")
    rows = written(call, "Where", [real, places, call.constant(0, "first", "int64")], (most,), "rows", "int64")
    return gathered(call, poses, rows, "poses"), gathered(call, chances, rows, "chances"), best


def _rescored(call: Call, poses: Value, chances: Value, scores: Value, settings: _Settings) -> tuple[Value, Value]:
    """Write the outputs. Keypoints at those of a better pose do not count for the score.

    Returns the poses [n, 17, 2] and whether each is one.
    """
    most = settings.most
    call.draft.ask(most * most)
    seen = _seen(call, poses, settings)
    zero, lowest = call.constant(0, "zero", "float32"), call.constant(-np.inf, "lowest", "float32")
    counted = _mean(call, written(call, "Where", [seen, chances, zero], chances.shape, "counted"))
    real = written(call, "Greater", [scores, lowest], (most,), "real", "bool")
    counted = written(call, "Where", [real, counted, lowest], (most,), "counted")
    final, order = largest(call, counted, call.vector([most], "k"), most)
    least = call.constant(settings.score, "score_threshold", "float32")
    given = written(call, "GreaterOrEqual", [final, least], (most,), "given", "bool")
    stride = call.constant(settings.stride, "stride", "float32")
    pixels = written(call, "Mul", [gathered(call, poses, order, "poses"), stride], poses.shape, "pixels")
    whole = []
    for position, value in enumerate((pixels, gathered(call, chances, order, "chances"), final)):
        mask = call.reshaped(given, (most, *[1] * (len(value.shape) - 1)), "given")
        whole.append(written(call, "Where", [mask, value, zero], value.shape, "filled"))
        call.reshape(whole[-1], (1, *value.shape), call.slot(position))
    number_ = reduced(call, "ReduceSum", cast(call, given, "float32"), 0, "number")
    call.reshape(number_, (1,), call.slot(3))
    return whole[0], given


def _seen(call: Call, poses: Value, settings: _Settings) -> Value:
    """Which keypoints [n, 17] are not at those of a better pose."""
    most = settings.most
    pairs = (most, most, KEYPOINTS)
    one, other = (call.reshaped(poses, shape, "poses") for shape in ((most, 1, KEYPOINTS, 2), (1, most, KEYPOINTS, 2)))
    square = _squares(call, one, other, (*pairs, 2))
    radius = call.constant(settings.square, "radius", "float32")
    near = written(call, "LessOrEqual", [square, radius], pairs, "near", "bool")
    better = call.constant(np.tri(most, k=-1, dtype=bool)[..., None], "better", "bool")
    hidden = cast(call, written(call, "And", [near, better], pairs, "hidden", "bool"), "int32")
    return written(
        call,
        "Equal",
        [reduced(call, "ReduceMax", hidden, 1, "hidden"), call.constant(0, "none", "int32")],
        (most, KEYPOINTS),
        "seen",
        "bool",
    )


def _masks(call: Call, offsets: Field, results: tuple[Value, Value], settings: _Settings) -> None:
    """Write for each pose which cells are nearest to it: where each says that a keypoint is, the poses have that near.

    Without any pose, the first has all cells.
    """
    poses, given = results
    most, cells = settings.most, _MASK * _MASK
    call.draft.ask(cells * most)
    grid = np.stack(np.meshgrid(np.arange(_MASK), np.arange(_MASK), indexing="ij"), -1).reshape(-1, 1, 2)
    places = call.constant(np.repeat(grid, KEYPOINTS, 1), "cells", "float32")
    both = np.arange(KEYPOINTS)[:, None, None] + np.array([0, KEYPOINTS])[:, None]
    channels = call.constant(both, "channels", "float32")
    for _ in range(1 + _MASK_REFINEMENTS):
        places = offsets.moved(call, places, channels)
    stride = call.constant(settings.stride, "stride", "float32")
    pixels = written(call, "Mul", [places, stride], places.shape, "pixels")
    pixels = call.reshaped(pixels, (cells, 1, 2 * KEYPOINTS), "pixels")
    rows = call.reshaped(poses, (1, most, 2 * KEYPOINTS), "rows")
    distance = _squares(call, pixels, rows, (cells, most, 2 * KEYPOINTS))
    never = call.constant(np.inf, "never", "float32")
    distance = written(call, "Where", [given, distance, never], (cells, most), "distance")
    slot = call.temporary("nearest", "int64")
    nearest = call.write("ArgMin", [distance], (cells,), slot, real="int64", axis=1, keepdims=0)
    numbers = call.constant(np.arange(most).reshape(-1, 1), "numbers", "int64")
    mine = written(call, "Equal", [nearest, numbers], (most, cells), "mine", "bool")
    call.reshape(cast(call, mine, "float32"), (1, most, _MASK, _MASK), call.slot(4))
