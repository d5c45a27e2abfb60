"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.custom.options import flag, integer, number
from layoutsolve.frontend.tflite.operators.shared.common import ranked, static
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Array, Dim, Shape, Value

_UNROLLED = 256
"""How many boxes soft suppression may select: it is written as that many rounds."""

_TABLED = 256
"""Up to how many boxes their overlaps are computed at once, each by each, instead of in each round."""


def _scalar(call: Call, position: int, what: str) -> float:
    """An input that is one constant number."""
    content = call.content(call.input(position))
    if content is None:
        raise GapError(f"its {what} is computed at run time", f"make the {what} constant in the source model")
    if content.size != 1:
        raise ModelError(f"{call.origin} has {content.size} numbers as its {what}")
    value = float(np.asarray(content, np.float64).reshape(-1)[0])
    if not np.isfinite(value):
        raise ModelError(f"{call.origin} has {value} as its {what}")
    return value


def _filled(call: Call, value: Value, count: int, slot: Slot) -> Value:
    """Write rows followed by zeros, cut to ``count`` rows."""
    rest = value.shape[1:]
    shape = call.vector([count, *static(call, rest, "shape")], "shape")
    zero = call.constant(0, "zero", value.dtype)
    zeros = call.write("Expand", [zero, shape], (count, *rest), call.temporary("zeros", value.dtype))
    rows: Dim = call.arithmetic.total((value.shape[0], count))
    both = call.write("Concat", [value, zeros], (rows, *rest), call.temporary("filled", value.dtype), axis=0)
    return take(call, both, {0: Span(0, count)}, slot, {0: count})


def _counted(call: Call, rows: Value, dtype: str, slot: Slot) -> Value:
    """Write the number of rows, as a vector of one number."""
    count = call.write("Shape", [rows], (1,), call.temporary("rows", "int64"), real="int64", start=0, end=1)
    return call.write("Cast", [count], (1,), slot, real=dtype, to=dtype)


def _column(call: Call, table: Value, column: int, label: str) -> Value:
    """A column of a table of integers, as a vector."""
    cut = take(call, table, {1: Span(column, column + 1)}, call.like("column", table))
    return call.reshaped(cut, table.shape[:1], label)


def _suppressed(
    call: Call, boxes: Value, scores: Value, most: int, overlap: float, score: Value | float, unit: int
) -> Value:
    """Write a NonMaxSuppression of ``[1, n, 4]`` and ``[1, classes, n]``: rows of batch, class, box."""
    limit = score if isinstance(score, Value) else call.constant([score], "score_threshold", "float32")
    inputs = [boxes, scores, call.vector([most], "most"), call.constant([overlap], "overlap", "float32"), limit]
    found = call.temporary("selected", "int64")
    return call.write("NonMaxSuppression", inputs, (call.unknown(unit), 3), found, real="int64")


@lowers("NON_MAX_SUPPRESSION_V4", signature="F F I F F -> I I")
@lowers("NON_MAX_SUPPRESSION_V5", signature="F F I F F F -> I F I")
def suppression(call: Call) -> None:
    """NON_MAX_SUPPRESSION_V4 and V5: indices of the boxes selected, filled up with zeros, and how many there are.

    A box has to overlap by less than the threshold in TFLite, in ONNX it may reach it.
    """
    boxes, scores = ranked(call, call.input(0), 2), ranked(call, call.input(1), 1)
    if boxes.shape[1] != 4 or real_dtype(boxes) != "float32" or real_dtype(scores) != "float32":
        raise ModelError(f"{call.origin} suppresses boxes {boxes} by scores {scores}")
    if not call.agree(boxes.shape[:1], scores.shape):
        raise ModelError(f"{call.origin} has {scores.shape[0]} scores for {boxes.shape[0]} boxes")
    (room,) = call.integers(2, "number of boxes")
    overlap = _scalar(call, 3, "threshold of overlaps")
    sigma = _scalar(call, 5, "sigma") if call.arity > 5 else 0.0
    if room < 0 or sigma < 0:
        raise ModelError(f"{call.origin} selects {room} boxes with the sigma {sigma}")
    if overlap > 1:
        raise GapError(
            "its threshold of overlaps is above 1, with which LiteRT selects the best box again and again",
            "use a threshold of at most 1",
        )
    if sigma > 0:
        _soft(call, boxes, scores, room, overlap, sigma)
        return
    most = room
    if overlap <= 0:
        most, overlap = min(room, 1), 1.0
    below = float(np.nextafter(np.float32(overlap), np.float32(-1)))
    count = boxes.shape[0]
    table = call.reshaped(boxes, (1, count, 4), "boxes")
    rows = call.reshaped(scores, (1, 1, count), "scores")
    limit = call.reshaped(call.input(4), (1,), "score_threshold")
    selected = _suppressed(call, table, rows, most, below, limit, 0)
    indices = _column(call, selected, 2, "indices")
    narrow = call.write("Cast", [indices], indices.shape, call.temporary("narrow", "int32"), real="int32", to="int32")
    _filled(call, narrow, room, call.slot(0))
    if call.arity > 5:
        found = call.write("Gather", [scores, indices], indices.shape, call.temporary("found"), axis=0)
        _filled(call, found, room, call.slot(1))
    last = call.slot(len(call.operator.outputs) - 1)
    call.reshape(_counted(call, indices, "int32", call.temporary("count", "int32")), (), last)


def _soft(call: Call, boxes: Value, scores: Value, most: int, overlap: float, sigma: float) -> None:
    """Soft suppression, one round per box: the best is selected, and all scores decay by their overlap with it."""
    if most > _UNROLLED:
        raise GapError(
            f"it selects up to {most} boxes by soft suppression, which needs a loop above {_UNROLLED}",
            f"select at most {_UNROLLED} boxes, or set sigma to 0",
        )
    count, limit = boxes.shape[0], call.reshaped(call.input(4), (1,), "score_threshold")
    sides = _sides(call, boxes)
    wide = isinstance(count, int) and count <= _TABLED
    table = _table(call, sides, overlap, sigma) if wide else None
    never = call.constant(-np.inf, "never", "float32")
    above = call.write("Greater", [scores, limit], (count,), call.temporary("above", "bool"), real="bool")
    left = call.write("Where", [above, scores, never], (count,), call.temporary("left"), real="float32")
    best: list[Value] = []
    values: list[Value] = []
    for _ in range(most):
        index = call.temporary("best", "int64")
        best.append(call.write("ArgMax", [left], (1,), index, real="int64", axis=0, keepdims=1))
        values.append(call.write("Gather", [left, best[-1]], (1,), call.temporary("score"), axis=0))
        if table is None:
            may, row = _decays(call, _rows(call, sides, best[-1], 1), sides, (count,), overlap, sigma)
        else:
            may, row = (call.reshaped(each, (count,), "row") for each in _rows(call, table, best[-1], 1))
        left = call.write("Mul", [left, row], (count,), call.temporary("decayed"))
        left = call.write("Where", [may, left, never], (count,), call.temporary("left"), real="float32")
    _finish_soft(call, best, values, limit)


def _rows(call: Call, values: Sequence[Value], index: Value, count: int) -> list[Value]:
    """The rows of several values at some indices."""
    return [
        call.write("Gather", [value, index], (count, *value.shape[1:]), call.like("rows", value), axis=0)
        for value in values
    ]


def _sides(call: Call, boxes: Value) -> list[Value]:
    """The lower corners of boxes and the upper ones, ``[n, 2]`` each, and their areas, ``[n]``."""
    count = boxes.shape[0]
    ends = [take(call, boxes, {1: Span(at, at + 2)}, call.temporary("end"), {1: 2}) for at in (0, 2)]
    low, high = (call.write(op, ends, (count, 2), call.temporary(op.lower())) for op in ("Min", "Max"))
    extents = call.write("Sub", [high, low], (count, 2), call.temporary("sides"))
    axes = call.vector([-1], "last")
    area = call.write("ReduceProd", [extents, axes], (count,), call.temporary("area"), keepdims=0)
    return [low, high, area]


def _table(call: Call, sides: Sequence[Value], overlap: float, sigma: float) -> tuple[Value, Value]:
    """What :func:`_decays` gives for each box by each: ``[n, n]``."""
    count = sides[0].shape[0]
    columns = [call.reshaped(each, (count, 1, *each.shape[1:]), "columns") for each in sides]
    rows = [call.reshaped(each, (1, *each.shape), "rows") for each in sides]
    return _decays(call, columns, rows, (count, count), overlap, sigma)


def _decays(
    call: Call, chosen: Sequence[Value], sides: Sequence[Value], shape: Shape, overlap: float, sigma: float
) -> tuple[Value, Value]:
    """Whether boxes may stay when others are chosen, and the factors by which their scores decay, of ``shape``."""

    def write(op: str, inputs: Sequence[Value], label: str, more: Shape = ()) -> Value:
        return call.write(op, inputs, (*shape, *more), call.temporary(label))

    ends = [write(op, [chosen[at], sides[at]], op.lower(), (2,)) for op, at in (("Min", 1), ("Max", 0))]
    shared = write("Relu", [write("Sub", ends, "in", (2,))], "shared", (2,))
    axes = call.vector([-1], "last")
    common = call.write("ReduceProd", [shared, axes], shape, call.temporary("common"), keepdims=0)
    total = write("Add", [chosen[2], sides[2]], "total")
    ratio = write("Div", [common, write("Sub", [total, common], "union")], "ratio")
    zero = call.constant(0, "zero", "float32")
    meet = call.write("Greater", [common, zero], shape, call.temporary("meet", "bool"), real="bool")
    ratio = call.write("Where", [meet, ratio, zero], shape, call.temporary("overlaps"), real="float32")
    most = call.constant(overlap, "overlap", "float32")
    kept = call.write("Less", [ratio, most], shape, call.temporary("kept", "bool"), real="bool")
    scale = call.constant(max(-0.5 / sigma, float(np.finfo(np.float32).min)), "scale", "float32")
    square = write("Mul", [write("Mul", [ratio, scale], "scaled"), ratio], "square")
    return kept, write("Exp", [square], "decay")


def _finish_soft(call: Call, best: Sequence[Value], values: Sequence[Value], limit: Value) -> None:
    """Write the outputs of all rounds; a round whose best score is not above the limit has selected nothing."""
    most = len(best)
    if not most:
        call.known(call.slot(0), np.zeros(0, np.int32))
        call.known(call.slot(1), np.zeros(0, np.float32))
        call.known(call.slot(2), np.zeros((), np.int32))
        return
    indices = call.write("Concat", best, (most,), call.temporary("indices", "int64"), axis=0)
    scores = call.write("Concat", values, (most,), call.temporary("scores"), axis=0)
    good = call.write("Greater", [scores, limit], (most,), call.temporary("good", "bool"), real="bool")
    narrow = call.write("Cast", [indices], (most,), call.temporary("narrow", "int32"), real="int32", to="int32")
    zeros = (call.constant(0, "zero", dtype) for dtype in ("int32", "float32"))
    for position, (value, zero) in enumerate(zip((narrow, scores), zeros, strict=True)):
        call.write("Where", [good, value, zero], (most,), call.slot(position), real=value.dtype)
    ones = call.write("Cast", [good], (most,), call.temporary("ones", "int32"), real="int32", to="int32")
    call.write("ReduceSum", [ones, call.vector([0], "all")], (), call.slot(2), keepdims=0)


@dataclass(frozen=True)
class _Settings:
    """The options of TFLite_Detection_PostProcess; ``scales`` divide y, x, height and width."""

    most: int
    classes_per_box: int
    boxes_per_class: int
    classes: int
    regular: bool
    score: float
    overlap: float
    scales: Array


def _settings(call: Call, options: Mapping[str, Any]) -> _Settings:
    found = _Settings(
        integer(call, options, "max_detections"),
        integer(call, options, "max_classes_per_detection"),
        integer(call, options, "detections_per_class", 100),
        integer(call, options, "num_classes"),
        flag(call, options, "use_regular_nms"),
        number(call, options, "nms_score_threshold"),
        number(call, options, "nms_iou_threshold"),
        np.array([number(call, options, f"{axis}_scale") for axis in "yxhw"], np.float64),
    )
    counts = (found.most, found.classes_per_box, found.boxes_per_class, found.classes)
    if min(counts[1:]) < 1 or found.most < 0 or not 0 < found.overlap <= 1 or not found.scales.all():
        raise ModelError(f"{call.origin} has options that no kernel accepts: {dict(options)}")
    return found


@lowers("CUSTOM:TFLite_Detection_PostProcess", signature="PU PU = -> P P P P")
def postprocessing(call: Call) -> None:
    """TFLite_Detection_PostProcess: boxes decoded from anchors, suppressed for all classes at once or one by one."""
    settings = _settings(call, call.settings())
    predicted, scores, anchors = (ranked(call, call.input(at), rank) for at, rank in enumerate((3, 3, 2)))
    _, count, width = static(call, predicted.shape, "input shape")
    batch, rows, columns = static(call, scores.shape, "input shape")
    offset = columns - settings.classes
    if (predicted.shape[0], batch, rows, anchors.shape) != (1, 1, count, (count, 4)) or width < 4 or not count:
        raise ModelError(f"{call.origin} decodes {predicted} from {anchors} with {scores}")
    if offset not in (0, 1):
        raise ModelError(f"{call.origin} has {columns} scores for {settings.classes} classes")
    boxes = _decoded(call, call.reshaped(predicted, (count, width), "encodings"), anchors, settings.scales)
    table = call.reshaped(scores, (count, columns), "scores")
    if offset:
        table = take(call, table, {1: Span(1, LAST)}, call.like("classes", table))
    (_one_by_one if settings.regular else _at_once)(call, boxes, table, settings)


def _decoded(call: Call, encodings: Value, anchors: Value, scales: Array) -> Value:
    """Top, left, bottom and right of each box ``[n, 4]``; encodings and anchors have the centre and the size."""
    data = anchors.data
    if data is None:
        raise GapError("its anchors are computed at run time", "make the anchors constant in the source model")
    with np.errstate(all="ignore"):
        known = np.asarray(data if anchors.quant is None else anchors.quant.real(data), np.float64)
    count = encodings.shape[0]

    def part(start: int, label: str) -> Value:
        return take(call, encodings, {1: Span(start, start + 2)}, call.like(label, encodings), {1: 2})

    def write(op: str, inputs: Sequence[Value], label: str) -> Value:
        return call.write(op, inputs, (count, 2), call.temporary(label))

    steps = call.constant(known[:, 2:] / scales[:2], "steps", "float32")
    moved = write("Mul", [part(0, "shift"), steps], "moved")
    centre = write("Add", [moved, call.constant(known[:, :2], "anchors", "float32")], "centre")
    grown = write("Div", [part(2, "growth"), call.constant(scales[2:], "scales", "float32")], "grown")
    half = call.constant(known[:, 2:] / 2, "halves", "float32")
    half = write("Mul", [write("Exp", [grown], "factor"), half], "half")
    corners = [write(op, [centre, half], op.lower()) for op in ("Sub", "Add")]
    return call.write("Concat", corners, (count, 4), call.temporary("boxes"), axis=1)


def _ranks(call: Call, scores: Value, limit: float) -> Value:
    """For each score in its row ``[classes, n]`` how many are not before it, so that equal scores come in order; 0 for
    scores below the limit.

    ONNX says nothing about the order of equal scores, and quantized models have many.
    """
    shape = scores.shape
    (count,) = static(call, shape[1:], "number of boxes")
    k = call.vector([count], "k")

    def sorted_(value: Value, largest: int) -> Value:
        slots = [(shape, call.temporary("sorted", real_dtype(value))), (shape, call.temporary("order", "int64"))]
        return call.write_many("TopK", [value, k], slots, axis=1, largest=largest, sorted=1)[1]

    place = sorted_(sorted_(scores, 1), 0)
    rank = call.write("Sub", [call.vector([count], "count"), place], shape, call.temporary("rank", "int64"))
    real = call.write("Cast", [rank], shape, call.temporary("real"), real="float32", to="float32")
    threshold = call.constant(limit, "limit", "float32")
    good = call.write("GreaterOrEqual", [scores, threshold], shape, call.temporary("good", "bool"), real="bool")
    zero = call.constant(0, "zero", "float32")
    return call.write("Where", [good, real, zero], shape, call.temporary("ranks"), real="float32")


def _selected(call: Call, boxes: Value, scores: Value, settings: _Settings, most: int) -> Value:
    """Suppression within each row of ``scores`` ``[classes, n]``: rows of batch, class, box."""
    ranks = _ranks(call, scores, settings.score)
    table = call.reshaped(boxes, (1, *boxes.shape), "table")
    return _suppressed(call, table, call.reshaped(ranks, (1, *ranks.shape), "by_class"), most, settings.overlap, 0.5, 0)


def _at_once(call: Call, boxes: Value, scores: Value, settings: _Settings) -> None:
    """The fast way: a box has the score of its best class, and comes with its best few classes."""
    count = boxes.shape[0]
    most = settings.most
    few = min(settings.classes_per_box, settings.classes)
    slots = [((count, few), call.temporary("best", real_dtype(scores))), ((count, few), call.temporary("at", "int64"))]
    best, classes = call.write_many("TopK", [scores, call.vector([few], "few")], slots, axis=1, largest=1, sorted=1)
    first = best if few == 1 else take(call, best, {1: Span(0, 1)}, call.like("first", best), {1: 1})
    selected = _selected(call, boxes, call.reshaped(first, (1, count), "first"), settings, most)
    box = _column(call, selected, 2, "box")
    rows = box.shape[0]
    numbers = call.write("Cast", [classes], (count, few), call.temporary("numbers"), real="float32", to="float32")
    for position, table in enumerate((boxes, numbers, best)):
        found = call.write("Gather", [table, box], (rows, table.shape[1]), call.temporary("found"), axis=0)
        whole = _filled(call, found, most, call.temporary("whole"))
        call.reshape(
            _per_class(call, whole, settings, few, position == 0), _shape(settings, position), call.slot(position)
        )
    _counted(call, box, "float32", call.slot(3))


def _per_class(call: Call, rows: Value, settings: _Settings, few: int, boxes: bool) -> Value:
    """Room for all classes that a box may have: boxes are repeated for those there are, the rest is zero."""
    most, room = settings.most, settings.classes_per_box
    if room == 1:
        return rows
    inner = (4,) if boxes else ()
    if boxes:
        each = call.reshaped(rows, (most, 1, 4), "each")
        times = call.vector([1, few, 1], "times")
        rows = call.write("Tile", [each, times], (most, few, 4), call.temporary("repeated"))
    if few == room:
        return rows
    rank = len(rows.shape)
    pads = call.vector([0] * rank + [0, room - few, *[0] * len(inner)], "pads")
    return call.write("Pad", [rows, pads], (most, room, *inner), call.temporary("room"), mode="constant")


def _shape(settings: _Settings, position: int) -> tuple[int, ...]:
    count = settings.most * settings.classes_per_box
    return (1, count, 4) if position == 0 else (1, count)


def _one_by_one(call: Call, boxes: Value, scores: Value, settings: _Settings) -> None:
    """The regular way: suppression within each class, and the best of what is left."""
    by_class = call.transposed(scores, (1, 0), "by_class")
    selected = _selected(call, boxes, by_class, settings, settings.boxes_per_class)
    places = take(call, selected, {1: Span(1, LAST)}, call.temporary("places", "int64"), {1: 2})
    rows = selected.shape[0]
    found = call.write("GatherND", [by_class, places], (rows,), call.temporary("scores"))
    size = call.write("Shape", [found], (1,), call.temporary("size", "int64"), real="int64")
    most = call.vector([settings.most], "most")
    k = call.write("Min", [size, most], (1,), call.temporary("k", "int64"))
    kept = call.arithmetic.smallest((rows, settings.most))
    slots = [((kept,), call.temporary("best")), ((kept,), call.temporary("order", "int64"))]
    best, order = call.write_many("TopK", [found, k], slots, axis=0, largest=1, sorted=1)
    chosen = call.write("Gather", [places, order], (kept, 2), call.temporary("chosen", "int64"), axis=0)
    box, number_ = _column(call, chosen, 1, "box"), _column(call, chosen, 0, "class")
    corners = call.write("Gather", [boxes, box], (kept, 4), call.temporary("corners"), axis=0)
    classes = call.write("Cast", [number_], (kept,), call.temporary("classes"), real="float32", to="float32")
    room = settings.most * settings.classes_per_box
    for position, value in enumerate((corners, classes, best)):
        whole = _filled(call, value, room, call.temporary("whole"))
        call.reshape(whole, _shape(settings, position), call.slot(position))
    _counted(call, best, "float32", call.slot(3))
