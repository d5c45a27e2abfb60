"""Numbers for each cell of an image, read at any place in it; and short names for writing them."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.ir.graph import Dim, Shape, Value


def written(call: Call, op: str, inputs: Sequence[Value], shape: Shape, label: str, dtype: str = "float32") -> Value:
    """A node without attributes that gives numbers of a type."""
    return call.write(op, inputs, shape, call.temporary(label, dtype), real=dtype)


def reduced(call: Call, op: str, value: Value, axis: int, label: str) -> Value:
    """A reduction along one axis, which goes."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    slot = call.temporary(label, value.dtype)
    return call.write(op, [value, call.vector([axis], "axes")], shape, slot, keepdims=0)


def gathered(call: Call, data: Value, rows: Value, label: str) -> Value:
    """Rows of a table by their numbers."""
    shape = (*rows.shape, *data.shape[1:])
    return call.write("Gather", [data, rows], shape, call.temporary(label, data.dtype), axis=0)


def cast(call: Call, value: Value, dtype: str) -> Value:
    """The same numbers in another type."""
    return call.write("Cast", [value], value.shape, call.temporary("cast", dtype), real=dtype, to=dtype)


def largest(call: Call, scores: Value, k: Value, count: Dim) -> tuple[Value, Value]:
    """The largest scores in order and where they are. Among equal ones the first come first."""
    slots = [((count,), call.temporary("largest")), ((count,), call.temporary("places", "int64"))]
    values, places = call.write_many("TopK", [scores, k], slots, axis=0, largest=1, sorted=1)
    return values, places


class Field:
    """Numbers for each cell of an image, to be read at any place in it."""

    def __init__(self, call: Call, value: Value, size: tuple[int, int], scale: float) -> None:
        height, width = size
        self.channels, count = value.shape[3], height * width
        (channels,) = static(call, [self.channels], "channels")
        flat = call.reshaped(value, (count * channels,), "flat")
        op, more = ("Identity", []) if scale == 1 else ("Mul", [call.constant(scale, "scale", "float32")])
        self.flat = written(call, op, [flat, *more], flat.shape, "numbers")
        self.last = call.constant([height - 1, width - 1], "last", "float32")
        self.zero = call.constant(0, "zero", "float32")
        down, right = width * channels, channels
        corners = [[down, down, 0, 0], [right, 0, right, 0], [0, 0, down, down], [0, right, 0, right]]
        self.corners = call.constant(corners, "corners", "float32")
        self.signs = call.constant([-1, 1], "signs", "float32")
        self.ends = call.constant([1, 0], "ends", "float32")

    def at(self, call: Call, places: Value, channels: Value) -> Value:
        """The numbers at ``places`` [n, m, 2] of ``channels``, which are floats [n, m, k, 1] or like that: [n, m,
        k], interpolated between the four cells around each place.
        """
        n, m, _ = places.shape
        k = channels.shape[-2]
        low, high = (written(call, op, [places], places.shape, op.lower()) for op in ("Floor", "Ceil"))
        both = call.write("Concat", [low, high], (n, m, 4), call.temporary("cells"), axis=2)
        around = written(call, "MatMul", [both, self.corners], (n, m, 4), "around")
        around = call.reshaped(around, (n, m, 1, 4), "around")
        where = cast(call, written(call, "Add", [around, channels], (n, m, k, 4), "where"), "int64")
        found = call.reshaped(gathered(call, self.flat, where, "found"), (n, m, k, 2, 2), "corners")
        beyond = call.reshaped(written(call, "Sub", [places, low], places.shape, "beyond"), (n, m, 2, 1), "beyond")
        signed = written(call, "Mul", [beyond, self.signs], (n, m, 2, 2), "signed")
        weights = written(call, "Add", [signed, self.ends], (n, m, 2, 2), "weights")
        slots = [((n, m, 1, 2), call.temporary("part")) for _ in range(2)]
        rows, columns = call.write_many("Split", [weights, call.vector([1, 1], "split")], slots, axis=2)
        columns = call.reshaped(columns, (n, m, 1, 1, 2), "columns")
        across = written(call, "Mul", [found, columns], (n, m, k, 2, 2), "weighted")
        across = reduced(call, "ReduceSum", across, 4, "across")
        return reduced(call, "ReduceSum", written(call, "Mul", [across, rows], across.shape, "weighted"), 3, "number")

    def moved(self, call: Call, places: Value, channels: Value) -> Value:
        """Places moved by the offsets that are stated there, and kept within the image."""
        return self.within(call, written(call, "Add", [places, self.at(call, places, channels)], places.shape, "far"))

    def within(self, call: Call, places: Value) -> Value:
        """Places kept within the image."""
        above = written(call, "Max", [places, self.zero], places.shape, "above")
        return written(call, "Min", [above, self.last], places.shape, "place")
