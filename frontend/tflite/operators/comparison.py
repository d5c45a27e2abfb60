"""Comparisons, logic and selection."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.data_movement import MOVING
from layoutsolve.frontend.tflite.lowering.quantization import agree
from layoutsolve.frontend.tflite.lowering.registry import INT16, lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import real_dtype
from layoutsolve.frontend.tflite.operators.elementwise import operands
from layoutsolve.frontend.tflite.operators.shared.common import as_stored, cast_to, write_where
from layoutsolve.ir.graph import Shape, Value

_COMPARISONS = {
    "EQUAL": "Equal",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
}
_FRACTIONS = 256
"""Into how many parts LiteRT divides 1 where it compares quantized numbers."""

_LOGIC = {"LOGICAL_AND": "And", "LOGICAL_OR": "Or"}


def _compared(call: Call) -> tuple[Value, Value, Shape]:
    """Both operands as LiteRT compares them: quantized ones as multiples of 1/256, unless that makes no difference."""
    a, b, shape = operands(call)
    if a.quant is None or b.quant is None:
        return a, b, shape
    if agree(a.quant, b.quant) and (a.quant.scale >= 1 / _FRACTIONS).all():
        return a, b, shape
    if call.operator.name in MOVING and a.dtype in MOVING[call.operator.name].dtypes:
        return a, b, shape
    factor = call.constant(_FRACTIONS, "fractions", "float32")
    rounded = []
    for value in (a, b):
        counted = call.write("Mul", [value, factor], value.shape, call.temporary("counted"))
        rounded.append(call.write("Round", [counted], value.shape, call.temporary("rounded")))
    return rounded[0], rounded[1], shape


@lowers("EQUAL", signature="FZBS = -> B", per_tensor=True)
@lowers("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", signature="FZ = -> B", per_tensor=True)
def compare(call: Call) -> None:
    """Comparisons that ONNX has."""
    a, b, shape = _compared(call)
    call.write(_COMPARISONS[call.operator.name], [a, b], shape, call.slot(), real="bool")


@lowers("NOT_EQUAL", signature="FZBS = -> B", quantized=INT16)
def not_equal(call: Call) -> None:
    """NOT_EQUAL."""
    a, b, shape = _compared(call)
    equal = call.write("Equal", [a, b], shape, call.temporary("equal", "bool"), real="bool")
    call.write("Not", [equal], shape, call.slot())


@lowers(*_LOGIC, signature="B B -> B")
def logic(call: Call) -> None:
    """LOGICAL_AND and LOGICAL_OR."""
    a, b, shape = operands(call)
    call.write(_LOGIC[call.operator.name], [a, b], shape, call.slot())


@lowers("LOGICAL_NOT", signature="B -> B")
def logical_not(call: Call) -> None:
    """LOGICAL_NOT."""
    x = call.input(0)
    call.write("Not", [x], x.shape, call.slot())


@lowers("SELECT", "SELECT_V2", signature="B FZBS =1 -> =1")
def select(call: Call) -> None:
    """SELECT and SELECT_V2; the condition of the former may be a vector over the first axis."""
    condition, a, b = call.input(0), call.input(1), call.input(2)
    if condition.dtype != "bool" or real_dtype(a) != real_dtype(b):
        raise ModelError(f"{call.origin} chooses between {real_dtype(a)} and {real_dtype(b)} by {condition.dtype}")
    if call.operator.name == "SELECT" and len(condition.shape) == 1 and len(a.shape) > 1:
        condition = call.reshaped(condition, (*condition.shape, *[1] * (len(a.shape) - 1)), "rows")
    shape = broadcast([condition.shape, a.shape, b.shape], call.arithmetic)
    write_where(call, condition, a, b, shape, call.slot())


@lowers("WHERE", signature="FZB -> I")
def where(call: Call) -> None:
    """WHERE: the indices of what is true, a row each; ONNX gives a column each. Stored integers are true but for 0."""
    x = as_stored(call, call.input(0))
    if x.dtype != "bool":
        x = call.write("Cast", [x], x.shape, call.temporary("bool", "bool"), real="bool", to="bool")
    rank, count = len(x.shape), call.unknown(0)
    columns = call.write("NonZero", [x], (rank, count), call.temporary("columns", "int64"), real="int64")
    call.transpose(columns, (1, 0), call.slot())


@lowers("BUCKETIZE", signature="FZ -> I")
def bucketize(call: Call) -> None:
    """BUCKETIZE: how many boundaries are not above a number. A number that is none is beyond all of them."""
    x, slot = call.input(0), call.slot()
    boundaries = np.asarray(call.option("boundaries", ()), np.float32)
    if (np.diff(boundaries) < 0).any():
        raise ModelError(f"{call.origin} has boundaries that are not sorted")
    if x.dtype not in ("float32", "float64", "int32", "int64"):
        raise GapError(f"it sorts {x.dtype} into buckets", "use float32 or int32")
    wide = cast_to(call, x, "float32") if x.dtype != "float64" else x
    column = call.reshaped(wide, (*x.shape, 1), "column")
    shape, rank = (*x.shape, len(boundaries)), len(x.shape)
    fixed = call.constant(boundaries, "boundaries", wide.dtype)
    below = call.write("Less", [column, fixed], shape, call.temporary("below", "bool"), real="bool")
    passed = call.write("Not", [below], shape, call.temporary("passed", "bool"))
    counted = [cast_to(call, passed, "int32", "ones"), call.vector([rank], "axes")]
    call.write("ReduceSum", counted, x.shape, slot, keepdims=0)
