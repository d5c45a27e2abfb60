"""STABLEHLO_SORT: tensors sorted along an axis by a subgraph that compares two elements of each, as TopK and
GatherElements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import listed
from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.common import cast_to, store
from layoutsolve.frontend.tflite.operators.stablehlo.elementwise import unquantized
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.ir.graph import Array, Value

_SORTED: Mapping[str, str] = {
    **{dtype: dtype for dtype in ("float32", "float64", "int32", "int64")},
    **dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32"),
    "float16": "float32",
    "uint32": "int64",
}
"""What keys of a type are sorted as: ONNX Runtime has no TopK for others."""

_EQUAL, _DIFFERENT, _GREATER, _LESS = 0, 1, 3, 5
_TOTAL = 2
"""Directions of STABLEHLO_COMPARE, and the type of comparison in which -0 is less than 0, and NaN greater than all."""

_DIRECTIONS = {"EQUAL": _EQUAL, "NOT_EQUAL": _DIFFERENT, "GREATER": _GREATER, "LESS": _LESS}
_SELECTS = ("SELECT", "SELECT_V2", "STABLEHLO_SELECT")
_SELECT_INPUTS, _TEST_INPUTS = 3, 2

_ONE_ORDER = "compare elements of one operand by less-than or greater-than"


@dataclass(frozen=True)
class _Element:
    """An argument of a comparator, by number, or what equals it. The sign of a ``zero`` is its own, positive, or that
    of the ``other`` element where that is a zero as well. NaN has its own sign, a positive one, or is that element.
    """

    argument: int
    zero: Literal["own", "positive", "other"] = "own"
    nan: Literal["own", "positive", "other"] = "own"


@dataclass(frozen=True)
class _Test:
    """A comparison of two elements, or of one with a constant."""

    direction: int
    total: bool
    sides: tuple[Any, Any]


@dataclass(frozen=True)
class _Order:
    """By which operand elements are sorted, whether the largest come first, and whether NaN is larger than all."""

    operand: int
    descending: bool
    nan_last: bool


@lowers("STABLEHLO_SORT", signature="FZB FZB* -> FZB FZB*")
def sort(call: Call) -> None:
    """Tensors sorted along an axis by the elements of one of them; equal ones stay in their order.

    LiteRT has no kernel. Where the comparator says nothing about NaN, neither does StableHLO.
    """
    unquantized(call)
    operands = call.inputs()
    shape = operands[0].shape
    if len(call.operator.outputs) != len(operands) or not all(call.agree(shape, each.shape) for each in operands):
        raise ModelError(f"{call.origin} sorts tensors of different shapes, or gives another number of them")
    axis = axis_of(call.option("dimension"), len(shape))
    order = _order(call, [each.dtype for each in operands])
    if 0 in shape:
        for position, each in enumerate(operands):
            store(call, each, call.slot(position))
        return
    key = operands[order.operand]
    if key.dtype not in _SORTED:
        raise GapError(f"it sorts by {key.dtype}", "sort by int32, int64 or float32")
    wide = cast_to(call, key, _SORTED[key.dtype], "key")
    places = _places_with_nan(call, wide, axis, order) if order.nan_last else _places(call, wide, axis, order)
    for position, each in enumerate(operands):
        call.write("GatherElements", [each, places], shape, call.slot(position), axis=axis)


def _places(call: Call, key: Value, axis: int, order: _Order) -> Value:
    """Where each element of a sorted tensor comes from. Of equal ones TopK gives the first one first."""
    k = call.sizes((key.shape[axis],), "k")
    slots = [(key.shape, call.temporary("sorted", key.dtype)), (key.shape, call.temporary("places", "int64"))]
    return call.write_many("TopK", [key, k], slots, axis=axis, largest=int(order.descending), sorted=1)[1]


def _places_with_nan(call: Call, key: Value, axis: int, order: _Order) -> Value:
    """The same where NaN is larger than all: numbers are sorted, then what is NaN is, which leaves these in order."""
    nan = call.write("IsNaN", [key], key.shape, call.temporary("nan", "bool"), real="bool")
    zero = call.constant(0, "zero", key.dtype)
    numbers = call.write("Where", [nan, zero, key], key.shape, call.temporary("numbers", key.dtype), real=key.dtype)
    first = _places(call, numbers, axis, order)
    kinds = call.write("Cast", [nan], key.shape, call.temporary("kinds", "int32"), real="int32", to="int32")
    taken = call.write("GatherElements", [kinds, first], key.shape, call.temporary("taken", "int32"), axis=axis)
    second = _places(call, taken, axis, order)
    return call.write("GatherElements", [first, second], key.shape, call.temporary("both", "int64"), axis=axis)


# -- the comparator ------------------------------------------------------------------------------------------------


def _order(call: Call, dtypes: list[str]) -> _Order:
    """The order that a comparator is, given the types of the operands, of each of which it has two elements."""
    comparator = call.subgraph(call.option("comparator_subgraph_index"))
    types = [comparator.tensors[index].dtype for index in dict.fromkeys(comparator.inputs)]
    if types != [dtype for dtype in dtypes for _ in range(2)] or len(comparator.outputs) != 1:
        raise ModelError(f"{call.origin} compares elements of {listed(dtypes)} by a subgraph that is not for these")
    test = _followed(comparator)
    if not isinstance(test, _Test) or not all(isinstance(each, _Element) for each in test.sides):
        raise GapError("it sorts by a function of its own", _ONE_ORDER)
    left, right = test.sides
    descending = (test.direction == _GREATER) != (left.argument > right.argument)
    if not _are_pair(left, right) or test.direction not in (_GREATER, _LESS):
        raise GapError("it sorts by several operands, or by what is no order", _ONE_ORDER)
    operand = left.argument // 2
    total = test.total and dtypes[operand].startswith("float")
    zeros, nans = {left.zero, right.zero}, {left.nan, right.nan}
    if total and (zeros not in ({"own", "other"}, {"positive"}) or nans == {"own"}):
        raise GapError("it sorts by the signs of zeros and NaN", "sort by a comparison of floats, not in total order")
    return _Order(operand, descending, total and "positive" in nans and "other" not in nans)


def _followed(comparator: Subgraph) -> object:
    """What a comparator gives: elements, constants and tests are followed through its operators, all else is None."""
    found: dict[int, object] = {each.index: each.data for each in comparator.tensors if each.data is not None}
    found |= {index: _Element(argument) for argument, index in enumerate(comparator.inputs)}
    for operator in comparator.operators:
        given, result = [found.get(index) for index in operator.inputs], None
        if operator.name in _SELECTS and len(given) == _SELECT_INPUTS:
            result = _selected(*given)
        elif len(given) == _TEST_INPUTS:
            result = _test(operator, (given[0], given[1]))
        found.update(dict.fromkeys(operator.outputs, result))
    return found.get(comparator.outputs[0])


def _test(operator: Operator, sides: tuple[object, object]) -> _Test | None:
    options = operator.options
    if operator.name == "STABLEHLO_COMPARE":
        total = options.get("compare_type") == _TOTAL
        return _Test(int(options.get("comparison_direction", 0)), total, sides)
    direction = _DIRECTIONS.get(operator.name)
    return None if direction is None else _Test(direction, False, sides)


def _selected(test: object, chosen: object, other: object) -> object:
    """What a selection gives: the element that it is on numbers, with what becomes of its zeros and of NaN."""
    if isinstance(chosen, _Element) and isinstance(other, _Element) and chosen == other:
        return chosen
    if not isinstance(test, _Test) or test.total or test.direction not in (_EQUAL, _DIFFERENT):
        return None
    if test.direction == _DIFFERENT:
        chosen, other = other, chosen
    one, two = test.sides if isinstance(test.sides[0], _Element) else test.sides[::-1]
    if not isinstance(one, _Element):
        return None
    if isinstance(two, _Element) and two.argument == one.argument:  # which only NaN is not equal to itself
        return _without_nan(one, chosen, other)
    if not isinstance(other, _Element):
        return None
    if isinstance(two, _Element) and isinstance(chosen, _Element):
        met = _are_pair(one, two) and _are_pair(chosen, other) and other.argument in (one.argument, two.argument)
        return replace(other, zero="other") if met else None
    positive = _is(two, 0.0) and _is(chosen, 0.0) and not np.signbit(np.asarray(chosen)).any()
    return replace(other, zero="positive") if positive and one.argument == other.argument else None


def _without_nan(element: _Element, number: object, instead: object) -> object:
    """An element with something in its place where it is NaN."""
    if not isinstance(number, _Element) or number.argument != element.argument:
        return None
    if isinstance(instead, _Element):
        own = instead.argument == number.argument
        return replace(number, nan=instead.nan if own else "other") if own or _are_pair(instead, number) else None
    positive = _is(instead, np.nan) and not np.signbit(np.asarray(instead)).any()
    return replace(number, nan="positive") if positive else None


def _are_pair(one: _Element, other: _Element) -> bool:
    """Whether two elements are of the same operand."""
    return one.argument ^ 1 == other.argument


def _is(side: object, number: float) -> bool:
    """Whether one side of a comparison is a constant that is this number."""
    data: Array | None = side if isinstance(side, np.ndarray) else None
    return data is not None and data.size == 1 and bool(np.array_equal(data.reshape(()), number, equal_nan=True))
