"""GridSample: the pixels around each point gathered, and weighted."""

from __future__ import annotations

from dataclasses import dataclass

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.ir.graph import Shape

_IMAGE = 4
_BORDER = {"zeros": 1, "border": 0, "reflection": 0}
_MOST = 1 << 24
"""The largest number of a pixel that floats have."""


@dataclass(frozen=True)
class _Side:
    """One coordinate of all points, in pixels: the numbers of the pixel before each and of the one behind it, as
    floats, and the weights of both. The nearest pixel alone has no second one.
    """

    first: int
    second: int = -1
    weight: int = -1
    other: int = -1


@row("GridSample")
def grid_sample(call: Call) -> None:
    """GridSample of images, channels-last."""
    mode = call.attribute("mode", "linear")
    if len(call.value(0).shape) != _IMAGE or call.order(0) != (0, 3, 1, 2):
        raise ExpressionError("it samples what is no image", "sample images")
    if "cubic" in mode:
        raise ExpressionError("it interpolates between 16 pixels", "use mode=linear")
    batch, *_, channels = call.value(0).shape
    edge, points = _BORDER[call.attribute("padding_mode", "zeros")], call.value(1).shape[:-1]
    rows, columns = (size + 2 * edge for size in call.sizes(call.value(0), slice(1, 3)))
    image = call.tensor(0)
    if edge:
        around = call.constant([[0, 0], [edge, edge], [edge, edge], [0, 0]])
        image = call.move("PAD", image, [around], [batch, rows, columns, channels])
    if rows * columns > _MOST:
        raise ExpressionError(f"its image has more than {_MOST} pixels", "sample smaller ones")
    pixels = call.reshape(image, [batch, rows * columns, channels])
    x, y = (_side(call, number, size, edge, mode == "nearest") for number, size in enumerate((columns, rows)))

    def gathered(column: int, line: int, into: int | None = None) -> int:
        place = call.step("MUL", [line, call.constant(columns, "float32")], (*points, 1))
        flat = call.reshape(call.step("ADD", [place, column], (*points, 1)), points)
        number = call.temporary(points, "int32")
        call.draft.write("CAST", [flat], [number], {})
        made = call.draft.like(pixels, (*points, channels)) if into is None else into
        call.draft.write("GATHER", [pixels, number], [made], {"axis": 1, "batch_dims": 1})
        return made

    if mode == "nearest":
        gathered(x.first, y.first, call.target())
        return
    lines = [_weighted(call, [gathered(each, line) for each in (x.first, x.second)], x) for line in (y.first, y.second)]
    _weighted(call, lines, y, call.target())


def _weighted(call: Call, pair: list[int], side: _Side, into: int | None = None) -> int:
    """The sum of two, each by how near it is."""
    shape = (*call.value(1).shape[:-1], call.value(0).shape[-1])
    one, other = (call.step("MUL", [*each], shape) for each in zip(pair, (side.weight, side.other), strict=True))
    made = call.draft.like(one, shape) if into is None else into
    call.draft.write("ADD", [one, other], [made], {})
    return made


def _side(call: Call, number: int, size: int, edge: int, nearest: bool) -> _Side:
    """A coordinate of all points in an image of so many pixels, of which the first and last ``edge`` are padding."""
    points: Shape = (*call.value(1).shape[:-1], 1)
    own, aligned = size - 2 * edge, bool(call.attribute("align_corners", 0))

    def by(operator: str, one: int, other: float) -> int:
        return call.step(operator, [one, call.constant(other, "float32")], points)

    begin = call.constant([*(0 for _ in points[1:]), number])
    place = call.move("SLICE", call.tensor(1), [begin, call.counts(points)], points)
    inner = (("MUL", 0.5), ("MUL", own - 1)) if aligned else (("MUL", own), ("SUB", 1), ("MUL", 0.5))
    for operator, other in (("ADD", 1), *inner):
        place = by(operator, place, other)
    if nearest:
        place = call.step("ROUND", [place], points)
    low, reach = (0.0, own - 1) if aligned else (-0.5, own)
    if call.attribute("padding_mode", "zeros") == "reflection" and reach:
        place = by("FLOOR_MOD", by("SUB", place, low), 2.0 * reach)
        place = call.step("ABS", [by("SUB", place, reach)], points)
        place = call.step("SUB", [call.constant(low + reach, "float32"), place], points)
    place = by("MINIMUM", by("MAXIMUM", by("ADD", place, edge) if edge else place, 0), size - 1)
    if nearest:
        return _Side(place)
    first = by("MINIMUM", call.step("FLOOR", [place], points), max(size - 2, 0))
    behind = by("ADD", first, 1)
    before, rest = (call.step("SUB", [*each], points) for each in ((place, first), (behind, place)))
    return _Side(first, behind if size > 1 else first, rest, before)
