"""Sizes that are computed through floats, as exporters of Resize write them: Shape, Cast to float, Mul or Div by
a factor, Floor or Ceil, Cast to integers.

A float is followed as a size times a fraction, as long as runtimes compute it exactly in single precision: for
sizes up to :data:`LARGEST`. Dimensions are 1 or more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.constants import Constant
from layoutsolve.frontend.onnx.draft import MOST_SIZES
from layoutsolve.frontend.onnx.symbols import is_size
from layoutsolve.ir.graph import Array, Dim, product, quotient
from layoutsolve.proto.messages import TensorProto

LARGEST = 1 << 16
"""The sizes up to which what is followed is exact: single precision has the integers up to 2**24."""

_MOST = (1 << 24) // LARGEST
"""The largest numerator and divisor that is followed."""

_REAL = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}
_WHOLE = (TensorProto.INT64, TensorProto.INT32)


@dataclass(frozen=True)
class Share:
    """A size times a fraction. A denominator that is no power of 2 is that of a single division, which rounds, though
    never across an integer.
    """

    size: Dim
    part: Fraction

    @property
    def exact(self) -> bool:
        """Whether a float holds it."""
        return self.part.denominator & (self.part.denominator - 1) == 0


Functions = Mapping[str, Callable[..., Any]]


def noted(call: Call, moving: Functions, largest: Functions) -> bool:
    """Follow a tensor of floats that are shares of sizes, or the integers that they become. ``moving`` are
    operators that move elements, ``largest`` how many they make room for. Whether it has become a constant; raises what
    such operators raise.
    """
    shares = call.draft.shares
    found = _followed(call, moving, largest)
    if found is None or found.size > MOST_SIZES:
        return False
    items = found.reshape(-1).tolist()
    if not all(isinstance(each, Share) for each in items):  # integers
        if all(map(is_size, items)):
            call.draft.contents[call.outputs[0]] = found
        return False
    dtype = call.draft.types.element(call.outputs[0]) or "float32"
    if all(isinstance(each.size, int) and each.exact for each in items) and dtype in _REAL.values():
        numbers = np.array([float(each.size * each.part) for each in items], dtype).reshape(found.shape)
        call.draft.given[call.outputs[0]] = Constant(dtype, numbers)
        return True
    if all(is_size(each.size) for each in items):
        shares[call.outputs[0]] = found
    return False


def _followed(call: Call, moving: Functions, largest: Functions) -> Array | None:
    first = _shares(call, 0)
    if call.op == "Cast":
        to = call.attribute("to")
        if first is None:
            sizes = call.content(0) if to in _REAL and call.constant(0) is None else None
            return None if sizes is None else _each(lambda size: Share(size, Fraction(1)), sizes)
        if to in _REAL:
            return first
        return _each(lambda share: _cut(call, share, 0), first) if to in _WHOLE else None
    if call.op in ("Mul", "Div"):
        return _multiplied(call, first)
    if first is None:
        return None
    if call.op in ("Floor", "Ceil", "Round"):
        return _each(lambda share: _rounded(call, share), first)
    if call.op in ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Gather", "Slice"):
        others = [call.content(number) for number in range(1, len(call.inputs))]
        present = [each for each in others if each is not None]
        return _moved(call, moving, largest, [first, *present]) if len(present) == len(others) else None
    if call.op == "Concat":
        parts = [_shares(call, number) for number in range(len(call.inputs))]
        known = [part for part in parts if part is not None]
        return _moved(call, moving, largest, known) if len(known) == len(parts) else None
    return None


def _moved(call: Call, moving: Functions, largest: Functions, arrays: Sequence[Array]) -> Array | None:
    if largest[call.op](call, *arrays) > MOST_SIZES:
        return None
    found: Array = moving[call.op](call, *arrays)
    return found


def _shares(call: Call, number: int) -> Array | None:
    """An input of which each element is a share of a size; constants are shares of 1."""
    name = call.draft.alias.get(call.inputs[number], call.inputs[number]) if call.has(number) else ""
    found = call.draft.shares.get(name)
    data = call.constant(number) if found is None else None
    if data is None or data.dtype not in (np.float32, np.float64) or data.size > MOST_SIZES:
        return found
    if not np.isfinite(data).all():
        return None
    return _each(lambda factor: Share(1, Fraction(factor)), data)


def _multiplied(call: Call, first: Array | None) -> Array | None:
    second = _shares(call, 1)
    if first is None or second is None or prod(np.broadcast_shapes(first.shape, second.shape)) > MOST_SIZES:
        return None
    left, right = np.broadcast_arrays(first, second)
    function = _product if call.op == "Mul" else _quotient
    pairs = zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True)
    return _objects([function(one, two) for one, two in pairs], left.shape)


def _product(one: Share, two: Share) -> Share:
    if not (one.exact and two.exact) or (not isinstance(one.size, int) and not isinstance(two.size, int)):
        raise ValueError("rounded")
    return _checked(Share(product((one.size, two.size)), one.part * two.part))


def _quotient(one: Share, two: Share) -> Share:
    if not (one.exact and two.exact) or two.part <= 0:
        raise ValueError("rounded")
    alike = 1 if one.size == two.size else quotient(one.size, two.size) if two.size != 1 else None
    if isinstance(alike, int):
        return Share(1, Fraction(float(np.float32(float(alike * one.part / two.part)))))
    if two.size != 1 or two.part.denominator != 1:
        raise ValueError("by what is no integer")
    return _checked(Share(one.size, one.part / two.part))


def _checked(share: Share) -> Share:
    if not 0 < share.part.numerator <= _MOST or (not share.exact and share.part.denominator > _MOST):
        raise ValueError("beyond what is exact")
    return share


def _rounded(call: Call, share: Share) -> Share:
    if share.part.denominator == 1:
        return share
    if call.op == "Round":
        raise ValueError("ties go to even numbers")
    up = share.part.denominator - 1 if call.op == "Ceil" else 0
    return Share(_cut(call, share, up), Fraction(1))


def _cut(call: Call, share: Share, up: int) -> Dim:
    """A share that is cut off, after so many parts of it are added. Cast cuts off towards zero."""
    whole = product((share.size, share.part.numerator))
    if share.part.denominator == 1:
        return whole
    if not isinstance(share.size, int) and not call.arithmetic.never_negative(share.size):
        raise ValueError("may be negative")
    arithmetic = call.arithmetic
    return arithmetic.quotient(arithmetic.total((whole, up)) if up else whole, share.part.denominator)


def _each(function: Callable[[Any], object], data: Array) -> Array:
    return _objects([function(each) for each in data.reshape(-1).tolist()], data.shape)


def _objects(items: list[object], shape: tuple[int, ...]) -> Array:
    found: Array = np.empty(len(items), object)
    found[:] = items
    return found.reshape(shape)
