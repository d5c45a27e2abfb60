"""STABLEHLO_SORT, of which LiteRT has no kernel: numpy says what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Part
from tests.conformance.cases import Model, Operand, Table, cases
from tests.conformance.types import _operand

LESS, GREATER, TOTAL = 5, 3, 2
"""Directions of a comparison, and the type of one in total order."""

Comparator = Callable[[Part, Sequence[int], str], int]
"""Writes the operators of a comparator, given its arguments and the type of the key, and gives its result."""


def compared(part: Part, left: int, right: int, direction: int, total: bool = False) -> int:
    """A comparison of two scalars."""
    result = part.tensor("result", (), "bool")
    options = {"comparison_direction": direction, "compare_type": TOTAL if total else 0}
    part.operator("STABLEHLO_COMPARE", [left, right], [result], options)
    return result


def chosen(part: Part, condition: int, one: int, other: int, dtype: str) -> int:
    """A selection between two scalars."""
    result = part.tensor("chosen", (), dtype)
    part.operator("STABLEHLO_SELECT", [condition, one, other], [result], {})
    return result


def canonical(part: Part, x: int, dtype: str) -> int:
    """A number whose zeros are positive, and NaN as well, as JAX and PyTorch/XLA write it before they compare."""
    zero, nan = (part.constant(f"c{number}", np.array(number, dtype)) for number in (0.0, np.nan))
    without = chosen(part, compared(part, x, zero, 0), zero, x, dtype)
    return chosen(part, compared(part, x, x, 1), nan, without, dtype)


def _by(key: int, direction: int, turned: bool, total: bool) -> Comparator:
    def write(part: Part, arguments: Sequence[int], dtype: str) -> int:
        left, right = arguments[2 * key : 2 * key + 2]
        if total:
            left, right = (canonical(part, each, dtype) for each in (left, right))
        first, second = (right, left) if turned else (left, right)
        return compared(part, first, second, direction, total)

    return write


def sorting(
    operands: Sequence[Operand], expected: Sequence[Array], axis: int, key: int, comparator: Comparator
) -> Model:
    """A model that sorts operands by one of them."""
    builder = Builder()
    given, made = (
        [
            make(f"{name}{at}", each.least.shape, each.dtype, signature=each.signature)
            for at, each in enumerate(operands)
        ]
        for make, name in ((builder.input, "x"), (builder.tensor, "y"))
    )
    part = builder.part()
    arguments = [part.input(f"a{at}", (), each.dtype) for at, each in enumerate(operands) for _ in range(2)]
    part.outputs(comparator(part, arguments, operands[key].dtype))
    options = {"dimension": axis, "is_stable": True, "comparator_subgraph_index": 1}
    builder.operator("STABLEHLO_SORT", given, made, options)
    return Model(builder.finish(*made), tuple(each.values for each in operands), tuple(expected))


@cases("STABLEHLO_SORT")
def sorts(table: Table) -> None:
    """Every type of key, along every axis, in both directions, alone and with others; some keys are equal."""
    types = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "int16", "uint32", "bool")
    for at, (dtype, descending) in enumerate(product(types, (False, True))):
        x = _operand(table, dtype, 3, 4, 5)
        keys = Operand(np.asarray(x.values if at % 4 else np.round(x.values)).astype(dtype), dtype)
        _add(table, f"{dtype}-{'down' if descending else 'up'}", keys, at % 3, at % 3, descending, bool(at & 4), False)
    rows = table.real(3, 5).dynamic(0, 1)
    _add(table, "dynamic", rows, 1, 0, False, False, False)
    _add(table, "dynamic-nan", rows, 0, 0, True, False, True)
    _add(table, "empty", Operand(np.zeros((2, 0), np.float32)), 1, 1, False, False, True)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, np.nan, -1.5, 1.5, -0.0, np.inf, 0.0], np.float32)
    for dtype, descending in product(("float32", "float16"), (False, True)):
        keys = Operand(np.stack([special, np.roll(special, 5)]).astype(dtype), dtype)
        _add(table, f"{dtype}-nan-{'down' if descending else 'up'}", keys, 1, 1, descending, False, True)


def _add(
    table: Table, label: str, keys: Operand, axis: int, carried: int, descending: bool, turned: bool, total: bool
) -> None:
    shape = keys.values.shape
    others = [_operand(table, ("float32", "int32", "bool")[at], *shape) for at in range(carried)]
    operands = [*others[:1], keys, *others[1:]]
    key = min(len(others), 1)
    ranks = np.unique(keys.values, return_inverse=True)[1].reshape(shape)  # NaN comes last, zeros are equal
    places = np.argsort(-ranks if descending else ranks, axis, kind="stable")
    expected = [np.take_along_axis(each.values, places, axis) for each in operands]
    direction = LESS if descending == turned else GREATER
    table.add_model(
        label, partial(sorting, operands, expected, axis, key, _by(key, direction, turned, total)), tolerance=0
    )
