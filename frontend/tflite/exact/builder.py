"""What the exact lowerings write with. Every node reads and gives stored integers, or plain numbers: none is quantized.

Integers below 2^24 are exact in float32, and so is every sum of them in whatever order it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.exact.rescaling import Doubles, Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.registry import own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, activation, cast_to, stored_bounds
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Array, Quant, Shape, Value

WHOLE = 1 << 24
"""Below it all integers are exact in float32."""

REMEDY = "convert the model with --quant qdq"


class OnNumbers(Call):
    """The same operator on plain floats that are given in place of its inputs, without its activation."""

    def __init__(self, call: Call, given: Mapping[int, Value | None], label: str, name: str = "") -> None:
        super().__init__(call.lowering, call.operator)
        options = {**call.operator.options, "fused_activation_function": 0}
        self.operator = replace(call.operator, name=name or call.operator.name, options=options)
        self.origin = call.origin
        self._given = dict(given)
        self._slot = call.temporary(label)

    def optional(self, position: int) -> Value | None:
        """An input: what is given for it, if anything is."""
        return self._given[position] if position in self._given else super().optional(position)

    def declared(self, position: int) -> str:
        """The type of an input."""
        value = self._given.get(position)
        return super().declared(position) if value is None else "float32"

    def tensor(self, position: int = 0) -> Tensor:
        """The tensor of an output, as if it were of floats."""
        return replace(super().tensor(position), dtype="float32", quant=None)

    def slot(self, position: int = 0) -> Slot:
        """Where the result goes: to a value in between."""
        return self._slot

    def restated(self, options: Mapping[str, Any], name: str | None = None) -> Call:
        """The same with other options."""
        call = copy(self)
        call.operator = replace(self.operator, name=name or self.operator.name, options=options)
        return call

    def lowered(self) -> Value:
        """The result, as the operator's usual lowering writes it."""
        own_lowering(self.operator.name)(self)
        return self.draft.values[self._slot.name]


def quant_in(call: Call, value: Value | Slot) -> Quant:
    """Quantization parameters of an int8 or uint8 tensor; others are not covered."""
    if value.dtype not in BYTES or value.quant is None or value.quant.axis is not None:
        raise GapError(f"--quant exact covers bytes, not '{value.name}' of {value.dtype}", REMEDY)
    return value.quant


def scale_of(quant: Quant) -> np.float32:
    """The scale of a whole tensor."""
    return np.float32(quant.scale[0])


def zero_of(quant: Quant) -> int:
    """The zero point of a whole tensor."""
    return int(quant.zero_point[0])


def reach(call: Call, value: Value) -> tuple[int, int]:
    """The least and the greatest number that bytes can be, less their zero point."""
    zero = zero_of(quant_in(call, value))
    low, high = limits(value.dtype)
    return low - zero, high - zero


def every_byte(value: Value) -> Array:
    """All bytes of a tensor's type."""
    low, high = limits(value.dtype)
    return np.arange(low, high + 1)


def every_number(call: Call, value: Value) -> Array:
    """All numbers that bytes can be, less their zero point."""
    found: Array = every_byte(value) if value.data is None else np.unique(value.data).astype(np.int64)
    return found - zero_of(quant_in(call, value))


def in_vectors(call: Call, shape: Shape, size: int) -> Array:
    """Which elements LiteRT computes as vectors of a size, not one by one because they are left over."""
    sizes = [dim for dim in shape if isinstance(dim, int)]
    if len(sizes) != len(shape):
        raise GapError("LiteRT rounds by the number of its elements, which is dynamic", REMEDY)
    elements = prod(sizes)
    call.draft.ask(elements)
    return (np.arange(elements) < elements // size * size).reshape(sizes)


def step(call: Call, op: str, *given: Value | Array | float) -> Value:
    """An operator on numbers of one type, that of the first value."""
    first = next(each for each in given if isinstance(each, Value))
    label = op.lower()
    values = [each if isinstance(each, Value) else call.constant(each, label, first.dtype) for each in given]
    shape = broadcast([value.shape for value in values], call.arithmetic)
    return call.write(op, values, shape, call.temporary(label, first.dtype))


def stored(call: Call, value: Value, dtype: str) -> Value:
    """What a tensor stores, as numbers of another type."""
    if value.data is not None:
        return call.constant(value.data, "stored", dtype)
    return call.write("Cast", [value], value.shape, call.temporary("stored", dtype), storage=True, to=dtype)


def numbers(call: Call, value: Value, dtype: str = "float32") -> Value:
    """What a tensor stores, less its zero point."""
    zero = zero_of(quant_in(call, value))
    if value.data is not None:
        return call.constant(value.data.astype(np.int64) - zero, "numbers", dtype)
    found = stored(call, value, dtype)
    return step(call, "Sub", found, np.array(zero)) if zero else found


def looked_up(call: Call, value: Value, table: Array, slot: Slot | None = None) -> Value:
    """The entries of a table, one for each byte from the least on."""
    low, _ = limits(value.dtype)
    if value.data is not None:
        found = table[value.data.astype(np.int64) - low]
        return call.constant(found, "looked_up") if slot is None else call.known(slot, found)
    # Gather counts negative numbers from the end
    return looked_up_at(call, stored(call, value, "int32"), np.roll(table, low), slot)


def looked_up_at(call: Call, places: Value, table: Array, slot: Slot | None = None) -> Value:
    """The entries of a table at places."""
    entries = call.constant(table, "table")
    target = slot or call.temporary("looked_up", entries.dtype)
    storage = target.quant is not None
    return call.write("Gather", [entries, places], places.shape, target, storage=storage, real=entries.dtype, axis=0)


def store(call: Call, whole: Value) -> Value:
    """Write the output, which stores whole numbers within the bounds of its activation."""
    slot = call.slot()
    limited = step(call, "Clip", whole, *map(float, stored_bounds(activation(call), slot)))
    return call.write("Cast", [limited], whole.shape, slot, storage=True, to=slot.dtype)


def write_doubles(call: Call, sums: Value, doubles: Doubles) -> Value:
    """Write the rescaling of numbers in doubles."""
    x = cast_to(call, sums, "float64")
    lifted = step(call, "Mul", x, _shared(doubles.factor))
    if doubles.signed.any():
        lifted = step(call, "Add", lifted, step(call, "Mul", step(call, "Sign", x), _shared(doubles.signed)))
    return step(call, "Floor", step(call, "Add", lifted, _shared(doubles.added)))


def _shared(numbers: Array) -> Array:
    """A number per channel, or one for all where they are equal."""
    return numbers.reshape(-1)[0] if (numbers == numbers.reshape(-1)[0]).all() else numbers


def finish(
    call: Call, sums: Value, rescaling: Rescaling, span: tuple[Array | int, Array | int], zero: int | None = None
) -> Value:
    """Write the output, which stores rescaled sums: integers from ``span[0]`` to ``span[1]``, one or one per channel.
    ``zero`` is what is added to them, by default the zero point.
    """
    slot = call.slot()
    added = zero_of(quant_in(call, slot)) if zero is None else zero
    low, high = map(np.asarray, span)
    if not rescaling.holds(added, low, high, *limits(slot.dtype)):
        raise GapError("its results need more bits than there are", REMEDY)
    return store(call, write_doubles(call, sums, rescaling.as_doubles(added)))
