"""Constant operators, computed at once; and vectors of symbolic sizes, followed as far as they go.

An operator all of whose inputs are known is evaluated by numpy. Shapes are known even where sizes are symbolic: then
the elements are objects, and what SHAPE, STRIDED_SLICE, PACK and their like make of them is noted beside the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layoutsolve.frontend.tflite.constant_kernels import (
    GROWTH,
    NUMBERS,
    UnknownError,
)
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.operators.shared.common import copy
from layoutsolve.frontend.tflite.size_kernels import EVALUATORS, VIEWS
from layoutsolve.ir.budget import SIMPLE
from layoutsolve.ir.graph import PACKED, Array, Size

_WIDEST = 8
_BROKEN = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError)


def fold(call: Call) -> bool:
    """Write the outputs as constants, if they are. Symbolic ones are noted, and the operator is still to be lowered."""
    evaluator = None if call.reads_complex else EVALUATORS.get(call.operator.name)
    if evaluator is None or _same(call) or (not call.draft.reading.exact and _alias(call)):
        return evaluator is not None
    arrays = _known_inputs(call)
    if arrays is None or GROWTH * _WIDEST * sum(array.size for array in arrays) > call.draft.budget.left:
        return False
    ahead = call.operator.name in NUMBERS
    work = (GROWTH + 1) * sum(array.size for array in arrays)
    if not call.draft.budget.computes(work if ahead else work // SIMPLE):
        return False
    if ahead and any(array.dtype == object for array in arrays):
        return False
    try:
        with np.errstate(all="ignore"):
            results = [_array(result) for result in evaluator(call, arrays)]
    except (UnknownError, *_BROKEN):
        return False
    slots = [call.slot(position) for position in range(len(results))]
    if ahead and any(result.dtype.name != slot.dtype for result, slot in zip(results, slots, strict=True)):
        return False
    finished = [_concrete(result, slot.dtype) for result, slot in zip(results, slots, strict=True)]
    if any(result is None for result in finished):
        for result, slot in zip(results, slots, strict=True):
            call.draft.budget.spend(result.nbytes)
            call.draft.contents[slot.name] = result
        return False
    known = [number for number in finished if number is not None]
    if not call.draft.budget.folds([number for number in known if not _is_stored(number, arrays)]):
        return False
    for number, slot in zip(known, slots, strict=True):
        call.known(slot, number)
    return True


def _array(result: Any) -> Array:
    """A result as an array: numpy gives a single size as it is."""
    if not isinstance(result, Size):
        return np.asarray(result)
    array = np.empty((), object)
    array[()] = result
    return array


def _is_stored(result: Array, arrays: Sequence[Array]) -> bool:
    """Whether a result is one of the inputs, read as it lies in memory: it takes no bytes of its own."""
    return result.flags.c_contiguous and any(np.may_share_memory(result, array) for array in arrays)


def _same(call: Call) -> bool:
    """A QUANTIZE between equal parameters gives what it reads, as it is stored."""
    if call.operator.name != "QUANTIZE":
        return False
    value, slot = call.input(0), call.slot()
    if slot.tensor is None or value.quant is None or value.dtype != slot.dtype or not value.quant.matches(slot.quant):
        return False
    if slot.tensor.index in call.lowering.subgraph.results:
        copy(call, value)
    else:
        call.lowering.bind(slot.tensor.index, value)
    return True


def _alias(call: Call) -> bool:
    """A dequantized constant is the constant itself: it means the same. An output is stored as it is declared."""
    if call.operator.name != "DEQUANTIZE":
        return False
    value, slot = call.input(0), call.slot()
    if value.data is None or value.quant is None or slot.tensor is None or slot.dtype != "float32":
        return False
    if slot.tensor.index in call.lowering.subgraph.results:
        return False
    call.lowering.bind(slot.tensor.index, value)
    return True


def _known_inputs(call: Call) -> list[Array] | None:
    if call.operator.name == "SHAPE":
        shape = call.input(0).shape
        sizes = np.empty(len(shape), object)
        sizes[:] = shape
        return [sizes]
    if any(index != -1 and call.lowering.subgraph.tensors[index].dtype == "string" for index in call.operator.inputs):
        return None
    arrays = [_known(call, position) for position in range(call.arity)]
    known = [array for array in arrays if array is not None]
    if len(known) != len(arrays):
        return None
    if any(array.dtype == object for array in known):
        whole = all(array.dtype.kind in "Oiub" for array in known)
        return [array.astype(object) for array in known] if whole else None
    return known


def _known(call: Call, position: int) -> Array | None:
    value = call.optional(position)
    content = None if value is None else call.content(value)
    if value is None or content is None or value.quant is None:
        return content
    if call.declared(position) == "float32":
        return value.quant.real(content)
    return content if call.operator.name in VIEWS else None


def _concrete(result: Array, dtype: str) -> Array | None:
    """The result as an array of numbers, None where it holds a symbol."""
    if result.dtype == object:
        if any(isinstance(entry, Size) for entry in result.reshape(-1)):
            return None
        return np.array(result.tolist(), dtype).reshape(result.shape)
    if dtype in (*PACKED, "string") or result.dtype == dtype:
        return result
    return np.asarray(result, dtype)
