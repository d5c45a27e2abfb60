"""Tables from strings to numbers and back. What a table holds is resolved while converting: it never changes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, write_where
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.frontend.tflite.reading.strings import strings
from layoutsolve.ir.graph import Array, Value

DOMAIN = "ai.onnx.ml"
_KINDS = (("string", "int64"), ("int64", "string"))
_REMEDY = "fill the table with constants when the model is loaded"


def _content(call: Call) -> tuple[str, Array, Array]:
    """The type of the keys of the table that is the first input, its distinct keys, and their values."""
    if not call.operator.inputs or call.operator.inputs[0] == -1:
        raise ModelError(f"{call.origin} lacks its input 0")
    number = call.lowering.subgraph.tables.get(call.operator.inputs[0])
    if number is None:
        raise GapError("its table comes from elsewhere", _REMEDY)
    if number not in call.draft.tables:
        raise GapError("its table is not filled before", _REMEDY)
    subgraph, operator = call.draft.tables[number]
    keys, values = (subgraph.tensors[index] for index in operator.inputs[1:])
    if (keys.dtype, values.dtype) not in _KINDS or keys.shape != values.shape:
        raise ModelError(f"{call.origin} has a table from {keys.dtype}{keys.shape} to {values.dtype}{values.shape}")
    call.draft.ask(prod(keys.shape))
    pairs = zip(_elements(call, keys), _elements(call, values), strict=True)
    table: dict[Any, Any] = {}
    for key, value in pairs:
        table.setdefault(key, value)
    return keys.dtype, _array(list(table), keys.dtype), _array(list(table.values()), values.dtype)


def _elements(call: Call, tensor: Tensor) -> list[Any]:
    if tensor.data is None and not prod(tensor.shape):
        return []
    if tensor.data is None:
        raise GapError("its table is filled with what is computed at run time", _REMEDY)
    texts = tensor.dtype == "string"
    data = strings(tensor, call.draft.budget.spend) if texts else tensor.data
    return list(data.reshape(-1).tolist())


def _array(items: list[Any], dtype: str) -> Array:
    found = np.empty(len(items), object if dtype == "string" else dtype)
    found[:] = items
    return found


@lowers("HASHTABLE", signature="-> R")
@lowers("HASHTABLE_IMPORT", signature="R IS IS ->")
def table(call: Call) -> None:
    """HASHTABLE and HASHTABLE_IMPORT write nothing: whoever looks something up finds what first filled the table."""
    subgraph, operator = call.lowering.subgraph, call.operator
    if operator.name == "HASHTABLE" and len(operator.outputs) != 1:
        raise ModelError(f"{call.origin} has {len(operator.outputs)} outputs, not 1")
    number = subgraph.tables.get(operator.inputs[0]) if operator.inputs else None
    if operator.name == "HASHTABLE_IMPORT" and number is not None:
        if call.lowering.region is not None:
            raise GapError("it fills a table in a branch or loop", _REMEDY)
        call.draft.tables.setdefault(number, (subgraph, operator))


@lowers("HASHTABLE_SIZE", signature="R -> I")
def size(call: Call) -> None:
    """HASHTABLE_SIZE: the number of keys, as a vector of one."""
    _, keys, _ = _content(call)
    call.known(call.slot(), np.array([len(keys)], np.int64))


@lowers("HASHTABLE_FIND", signature="R IS IS -> =2")
def find(call: Call) -> None:
    """HASHTABLE_FIND: the value of each key, or the default."""
    dtype, keys, values = _content(call)
    wanted, default = call.input(1), call.content(call.input(2))
    if wanted.dtype != dtype:
        raise ModelError(f"{call.origin} looks {wanted.dtype} up in a table of {dtype}")
    if default is None:
        raise GapError("its default is computed at run time", "make the default constant in the source model")
    if default.size < 1 or call.input(2).dtype == dtype:
        raise ModelError(f"{call.origin} has the default {call.input(2)}")
    first = default.reshape(-1)[0]
    result = "int64" if dtype == "string" else "string"
    if not len(keys):
        _all_default(call, wanted, first, result)
        return
    _encode(call, wanted, (dtype, keys), (result, values), first, call.slot())


def _all_default(call: Call, wanted: Value, default: Any, dtype: str) -> None:
    rank = len(wanted.shape)
    shape = call.write("Shape", [wanted], (rank,), call.temporary("shape", "int64"), real="int64")
    value = call.constant(default, "default", dtype)
    call.write("Expand", [value, shape], wanted.shape, call.slot())


def _encode(
    call: Call, wanted: Value, keys: tuple[str, Array], values: tuple[str, Array], default: Any, slot: Slot
) -> Value:
    """Write a LabelEncoder from keys to values, each with its type."""
    attributes: dict[str, Any] = {
        f"keys_{keys[0]}s": tuple(keys[1].tolist()),
        f"values_{values[0]}s": tuple(values[1].tolist()),
        f"default_{values[0]}": default if values[0] == "string" else int(default),
    }
    return call.write("LabelEncoder", [wanted], wanted.shape, slot, real=values[0], domain=DOMAIN, **attributes)


@lowers("HASHTABLE_LOOKUP", signature="I I FZS -> =2 U")
def lookup(call: Call) -> None:
    """HASHTABLE_LOOKUP: the row of each key, zeros where there is none, and whether there is one."""
    wanted, keys, values = call.input(0), call.content(call.input(1)), call.input(2)
    if keys is None:
        raise GapError("its keys are computed at run time", "make the keys constant in the source model")
    if keys.ndim != 1 or not values.shape or values.shape[0] != len(keys) or not len(keys) or len(wanted.shape) != 1:
        raise ModelError(f"{call.origin} looks {wanted} up among {len(keys)} keys of {values}")
    slot, hits = call.slot(0), call.slot(1)
    distinct, first = np.unique(keys, return_index=True)
    places = call.temporary("places", "int64")
    place = _encode(call, as_int64(call, wanted), ("int64", distinct), ("int64", first), -1, places)
    zero = call.constant(0, "zero", "int64")
    hit = call.write("GreaterOrEqual", [place, zero], wanted.shape, call.temporary("hit", "bool"), real="bool")
    row = call.write("Max", [place, zero], wanted.shape, call.temporary("row", "int64"))
    shape = (*wanted.shape, *values.shape[1:])
    storage = moves([values], values.dtype, values.quant)
    found = call.write("Gather", [values, row], shape, call.like("found", values), storage=storage, axis=0)
    here = call.reshaped(hit, (*wanted.shape, *[1] * (len(shape) - 1)), "here")
    nothing = call.constant(b"" if values.dtype == "string" else 0, "nothing", values.dtype, values.quant)
    write_where(call, here, found, nothing, shape, slot)
    call.write("Cast", [hit], wanted.shape, hits, real=hits.dtype, to=hits.dtype)
