"""Operators on the bits of integers, of which LiteRT has XOR and a shift to the right."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.rows.binary import Whole
from layoutsolve.emit.tflite.rows.registry import row


def _wide(call: Call) -> list[Whole]:
    """Both operands as int32, which has the bits of all types up to that one."""
    given = [Whole(call, call.tensor(number), call.value(number).shape) for number in range(2)]
    return [each if call.value(number).dtype == "int32" else each.cast("int32") for number, each in enumerate(given)]


@row("BitwiseAnd", "BitwiseOr")
def both(call: Call) -> None:
    """BitwiseAnd: twice what two numbers without their last bits have in common is their sum less what differs, and the
    last bits are multiplied. BitwiseOr: that, and what differs.
    """
    one, other = _wide(call)
    number, two = Whole(call, call.constant(1), ()), Whole(call, call.constant(2), ())
    upper = [each.with_("RIGHT_SHIFT", number) for each in (one, other)]
    last = [each.with_("SUB", high.with_("MUL", two)) for each, high in zip((one, other), upper, strict=True)]
    twice = upper[0].with_("ADD", upper[1]).with_("SUB", upper[0].with_("BITWISE_XOR", upper[1]))
    found = twice.with_("ADD", last[0].with_("MUL", last[1]))
    if call.op == "BitwiseOr":
        found = found.with_("ADD", one.with_("BITWISE_XOR", other))
    _stored(call, found)


@row("BitShift")
def shift(call: Call) -> None:
    """BitShift: to the left a product with a power of two. By fewer bits than none, or more than there are, all are
    shifted, of which a sign stays to the right.
    """
    dtype, known, right = np.dtype(call.output.dtype), call.data(1), call.attribute("direction", "") == "RIGHT"
    bits, (one, count) = 8 * dtype.itemsize, _wide(call)
    inside = None
    if known is None or not ((known >= 0) & (known < bits)).all():
        near = count.with_("FLOOR_MOD", Whole(call, call.constant(bits), ()))
        inside, count = count.with_("EQUAL", near, "bool").cast("int32"), near
    if right and dtype.kind == "i" and inside is not None:
        last = Whole(call, call.constant(bits - 1), ())
        rest = last.with_("MUL", inside)  # 0 of those that stay away from the last one
        count, inside = count.with_("MUL", inside).with_("ADD", last.with_("SUB", rest)), None
    if right and dtype.name == "uint32":
        found = (
            Whole(call, call.tensor(0), call.value(0).shape).with_("RIGHT_SHIFT", count.cast("uint32")).cast("int32")
        )
    elif right:
        found = one.with_("RIGHT_SHIFT", count)
    else:
        found = one.with_("MUL", Whole(call, call.constant(2), ()).with_("POW", count))
    _stored(call, found if inside is None else found.with_("MUL", inside))


def _stored(call: Call, found: Whole) -> None:
    """Write the result: a CAST keeps the last bits."""
    if call.output.dtype == "int32":
        call.reshape(found.tensor, call.output.shape, call.target())
    else:
        call.write("CAST", [found.tensor])
