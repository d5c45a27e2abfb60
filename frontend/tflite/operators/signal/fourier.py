"""Fourier transforms, and what takes their complex results apart."""

from __future__ import annotations

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.padding import write_pad
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Value


@lowers("RFFT2D", signature="F I -> C")
def rfft_2d(call: Call) -> None:
    """RFFT2D over the last two axes, cropped or padded with zeros to its length: of the width, then of the height."""
    x, lengths = call.input(0), call.integers(1, "length")
    rank = len(x.shape)
    if rank < 2 or len(lengths) != 2 or x.dtype != "float32":
        raise ModelError(f"{call.origin} transforms {x.dtype} of rank {rank} with {len(lengths)} lengths")
    height, width = lengths
    if any(length < 1 or length & (length - 1) for length in lengths):
        raise GapError(f"its length {list(lengths)} is not of powers of two, as LiteRT has it", "use powers of two")
    if width == 1:
        raise GapError("it transforms rows of one number, for which LiteRT gives no meaningful result", "leave it out")
    x = _fitted(call, x, rank - 2, height)
    x = _fitted(call, x, rank - 1, width)
    real = call.reshaped(x, (*x.shape, 1), "real")
    slot = call.complex_slot()
    rows = (*x.shape[:-1], width // 2 + 1, 2)
    if height == 1:
        call.write("DFT", _transformed(call, real, width, rank - 1), rows, slot, onesided=1)
        return
    half = call.write("DFT", _transformed(call, real, width, rank - 1), rows, call.temporary("rows"), onesided=1)
    call.write("DFT", _transformed(call, half, height, rank - 2), rows, slot)


def _transformed(call: Call, x: Value, length: int, axis: int) -> list[Value | None]:
    return [x, call.constant(length, "length", "int64"), call.constant(axis, "axis", "int64")]


def _fitted(call: Call, x: Value, axis: int, length: int) -> Value:
    """One axis cropped, or padded with zeros at the end, to a length."""
    (size,) = static(call, [x.shape[axis]], "size")
    if size > length:
        return take(call, x, {axis: Span(0, length)}, call.temporary("cropped"))
    if size < length:
        pads = [(0, length - size if position == axis else 0) for position in range(len(x.shape))]
        return write_pad(call, x, pads, call.temporary("padded"))
    return x


@lowers("REAL", "IMAG", signature="C -> F")
def part(call: Call) -> None:
    """REAL and IMAG of complex numbers."""
    x = call.complex_input(0)
    at, last = (0 if call.operator.name == "REAL" else 1), len(x.shape) - 1
    cut = take(call, x, {last: Span(at, at + 1)}, call.temporary("part"))
    call.reshape(cut, x.shape[:-1], call.slot())


@lowers("COMPLEX_ABS", signature="C -> F")
def complex_abs(call: Call) -> None:
    """COMPLEX_ABS: the root of the sum of squares of both parts."""
    x = call.complex_input(0)
    call.write("ReduceL2", [x, call.vector([len(x.shape) - 1], "axes")], x.shape[:-1], call.slot(), keepdims=0)
