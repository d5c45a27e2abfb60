"""Sums and products of two operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.exact.builder import (
    REMEDY,
    every_byte,
    every_number,
    finish,
    in_vectors,
    looked_up,
    numbers,
    quant_in,
    scale_of,
    step,
    store,
    stored,
    write_doubles,
    zero_of,
)
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import agree, limits
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.activation import repeated
from layoutsolve.frontend.tflite.operators.shared.common import cast_to
from layoutsolve.ir.graph import Array, Dim, Shape, Value

_SHIFT = 20
"""The bits behind the point with which LiteRT adds bytes."""

_NARROW = 1 << 15
"""Products are 16 bits wide in LiteRT's kernel on vectors."""


@exactly("ADD", "SUB")
def added(call: Call) -> None:
    """ADD and SUB: both operands in steps of twice the larger scale, with 20 bits behind the point."""
    operands, slot = call.inputs(), call.slot()
    scales = [np.float64(scale_of(quant_in(call, each))) for each in operands]
    largest, sign = 2 * max(scales), -1 if call.operator.name == "SUB" else 1
    rescalings = [Rescaling.by(scale / largest) for scale in scales]
    result = Rescaling.by(largest / ((1 << _SHIFT) * np.float64(scale_of(quant_in(call, slot)))))
    run = _run(call, *operands)
    pairs = list(zip(operands, rescalings, strict=True))

    def sums(scaled: Callable[[Rescaling, Array], Array]) -> Array:
        first, second = (scaled(rescaling, every_number(call, each)) for each, rescaling in pairs)
        found: Array = np.add.outer(first, sign * second).ravel()
        _check_sums(call, result, found)
        return found

    def write(scaled: Callable[[Rescaling, Array], Array]) -> Value:
        tables = [scaled(rescaling, _all(call, each)).astype(np.float64) for each, rescaling in pairs]
        terms = [looked_up(call, each, table) for each, table in zip(operands, tables, strict=True)]
        return step(call, call.operator.name.title(), *terms)

    vectors = _before if run.before else _floored
    bounds = limits(slot.dtype)
    either = [np.clip(result(sums(each)) + _zero(call), *bounds) for each in (_rounded, vectors)]
    if call.operator.name == "SUB" or np.array_equal(*either):
        total = write(_rounded)
    elif (inside := run.inside(call)) is None:
        total = write(vectors)
    else:
        given = [call.constant(inside, "in_vectors"), write(vectors), write(_rounded)]
        shape = broadcast([each.shape for each in operands], call.arithmetic)
        total = call.write("Where", given, shape, call.temporary("total", "float64"), real="float64")
    store(call, write_doubles(call, total, result.as_doubles(_zero(call))))


def _rounded(rescaling: Rescaling, numbers_: Array) -> Array:
    """An operand of ADD or SUB: rounded twice, as it is computed for single elements."""
    return rescaling(numbers_ << _SHIFT)


def _before(rescaling: Rescaling, numbers_: Array) -> Array:
    """The same in vectors of int8: divided by the power of two first."""
    return (((numbers_ << _SHIFT) >> rescaling.shift) * rescaling.whole + (1 << 30)) >> 31


def _floored(rescaling: Rescaling, numbers_: Array) -> Array:
    """The same in other vectors: divided by the power of two without rounding."""
    return (((numbers_ << _SHIFT) * rescaling.whole + (1 << 30)) >> 31) >> rescaling.shift


@dataclass(frozen=True)
class _Run:
    """How many elements of ADD, those of the last dimensions, LiteRT computes in one go: ``size`` at a time as vectors,
    those left over one by one. ``before`` is whether vectors are divided first.
    """

    dims: Shape
    size: int
    before: bool

    def inside(self, call: Call) -> Array | None:
        """Which elements are in vectors, None for all."""
        if prod(dim for dim in self.dims if isinstance(dim, int)) % self.size == 0:
            return None
        return in_vectors(call, self.dims, self.size)


def _run(call: Call, a: Value, b: Value) -> _Run:
    """The run of an ADD: the last dimensions that both operands have, or that the same one lacks."""
    shape = broadcast([a.shape, b.shape], call.arithmetic)
    dims, kind = list[Dim](), ""
    for axis in range(1, len(shape) + 1):
        first, second = (each.shape[-axis] if axis <= len(each.shape) else 1 for each in (a, b))
        found = "same" if first == second else "first" if first == 1 else "second"
        if shape[-axis] != 1 and kind not in ("", found):
            break
        kind = kind if shape[-axis] == 1 else found
        dims.insert(0, shape[-axis])
    together = kind in ("", "same") and a.dtype == "int8"
    return _Run(tuple(dims), 16 if together else 8, together)


def _all(call: Call, value: Value) -> Array:
    """What all bytes are, less the zero point of a tensor."""
    return every_byte(value) - zero_of(quant_in(call, value))


def _zero(call: Call) -> int:
    return zero_of(quant_in(call, call.slot()))


def _check_sums(call: Call, rescaling: Rescaling, sums: Array) -> None:
    """Raise where doubles differ for one of all sums that there can be."""
    zero, bounds = _zero(call), limits(call.slot().dtype)
    expected, found = rescaling(sums) + zero, rescaling.as_doubles(zero)(sums)
    if not np.array_equal(np.clip(expected, *bounds), np.clip(found, *bounds)):
        raise GapError("its results need more bits than there are", REMEDY)


@exactly("MAXIMUM", "MINIMUM")
def extremum(call: Call) -> None:
    """MAXIMUM and MINIMUM of what is stored."""
    a, b, slot = call.input(0), call.input(1), call.slot()
    if not agree(a.quant, slot.quant) or not agree(b.quant, slot.quant):
        raise GapError("--quant exact covers operands that are quantized as the output is", REMEDY)
    op = {"MAXIMUM": "Max", "MINIMUM": "Min"}[call.operator.name]
    chosen = step(call, op, stored(call, a, "float32"), stored(call, b, "float32"))
    call.write("Cast", [chosen], chosen.shape, slot, storage=True, to=slot.dtype)


@exactly("PRELU")
def prelu(call: Call) -> None:
    """PRELU: a product where the input is below zero."""
    x, slopes, slot = call.input(0), call.input(1), call.slot()
    scale, after = scale_of(quant_in(call, x)), scale_of(quant_in(call, slot))
    repeated(call, x, slopes)
    below = Rescaling.by(np.float64(scale * scale_of(quant_in(call, slopes)) / after))
    above = Rescaling.by(np.float64(scale / after))
    products = np.multiply.outer(np.minimum(_all(call, x), 0), every_number(call, slopes)).ravel()
    _check_sums(call, below, products)
    positive = np.where(_all(call, x) > 0, above(_all(call, x)), 0)
    negative = step(call, "Mul", step(call, "Min", numbers(call, x), 0.0), numbers(call, slopes))
    scaled = write_doubles(call, negative, below.as_doubles(_zero(call)))
    store(call, step(call, "Add", scaled, looked_up(call, x, positive.astype(np.float64))))


@exactly("MUL")
def multiplied(call: Call) -> None:
    """MUL."""
    a, b, slot = call.input(0), call.input(1), call.slot()
    factor = scale_of(quant_in(call, a)) * scale_of(quant_in(call, b)) / scale_of(quant_in(call, slot))
    products = np.multiply.outer(every_number(call, a), every_number(call, b))
    least, greatest = int(products.min()), int(products.max())
    if max(-least, greatest) * float(factor) + 255 >= _NARROW:
        raise GapError("its products are wider than LiteRT's kernel is", REMEDY)
    product = step(call, "Mul", numbers(call, a), numbers(call, b))
    finish(call, product, Rescaling.by(np.float64(factor)), (least, greatest))


@exactly("EXP")
def exponential(call: Call) -> None:
    """EXP of floats, rounded once, as the platform's C library does it but for a few in a thousand at most."""
    x, slot = call.input(0), call.slot()
    if x.dtype != "float32" or slot.dtype != "float32":
        raise GapError("--quant exact does not cover it on quantized tensors", REMEDY)
    wide = cast_to(call, x, "float64")
    power = call.write("Exp", [wide], x.shape, call.temporary("power", "float64"))
    call.write("Cast", [power], x.shape, slot, real="float32", to="float32")
