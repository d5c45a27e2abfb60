"""SVDF: a fully connected layer over the last few inputs, its weights split into features and time."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.recurrent.sequence import activated, real
from layoutsolve.frontend.tflite.operators.recurrent.weights import integers, matrix, vector
from layoutsolve.frontend.tflite.operators.shared.common import ranked, static
from layoutsolve.ir.graph import Array, Value


@lowers("SVDF", signature=("P PN =1 P~ P -> P", "E E EH W~ EH -> E"))
def svdf(call: Call) -> None:
    """SVDF: each filter remembers as many of its products with the input as it has weights in time.

    The state [batch, filters * memory] forgets the oldest product and takes the new one; filters of a rank are summed.
    """
    x, rank = ranked(call, call.input(0), 2), int(call.option("rank"))
    shapes = (*ranked(call, call.input(1), 2).shape[:1], *ranked(call, call.input(2), 2).shape[1:])
    filters, memory = static(call, shapes, "weights' shape")
    batch, features = static(call, x.shape, "input shape")
    if rank < 1 or filters % rank or memory < 1:
        raise ModelError(f"{call.origin} has {filters} filters of rank {rank} that remember {memory} steps")
    state, units = call.input(4), filters // rank
    if state.shape != (batch, filters * memory):
        raise ModelError(f"{call.origin} has a state of shape {list(state.shape)}")
    given, time = matrix(call, 1, filters, features), matrix(call, 2, filters, memory)
    if x.quant is None:
        real(call, x), real(call, state)
        bias = None if call.optional(3) is None else vector(call, 3, units)
    else:
        state, bias = _integers(call, x, state, units)
    after = _remembered(call, x, given.columns(call, "features"), state, (batch, filters, memory))
    call.update(4, call.reshaped(after, state.shape, "after"))
    weighted = call.write("Mul", [after, call.constant(time.real, "time")], after.shape, call.temporary("weighted"))
    grouped = call.reshaped(weighted, (batch, units, rank * memory), "grouped")
    _summed(call, grouped, bias, integer=x.quant is not None)


def _integers(call: Call, x: Value, state: Value, units: int) -> tuple[Value, Array | None]:
    """The state and the bias of the integer kernel. What it remembers has 16 bits, or 8 as in TensorFlow Lite Micro."""
    stored, time = call.input(2).dtype, call.input(2).quant
    if x.dtype != "int8" or call.input(1).dtype != "int8" or state.dtype not in ("int8", "int16"):
        raise GapError(f"it computes with {x.dtype}", "quantize it to int8 with a state of int16")
    if stored != state.dtype or time is None or time.axis is not None or state.quant is None:
        raise ModelError(f"{call.origin} has weights in time that are no {state.dtype} with one scale, as its state is")
    if state.dtype == "int16" and state.quant.zero_point.any():
        raise GapError("its state of 16 bits has a zero point", "quantize the state symmetrically")
    scale = state.quant.scale.astype(np.float64) * time.scale
    bias = None if call.optional(3) is None else integers(call, 3, units, scale)
    return state, bias


def _remembered(call: Call, x: Value, columns: Value, state: Value, shape: tuple[int, int, int]) -> Value:
    """The state after the step, [batch, filters, memory]."""
    batch, filters, memory = shape
    before = call.reshaped(state, shape, "before")
    product = call.write("Gemm", [x, columns], (batch, filters), call.like("product", state))
    newest = call.reshaped(product, (batch, filters, 1), "newest")
    if memory == 1:
        return newest
    bounds = [call.vector([number], label) for number, label in ((1, "start"), (memory, "end"), (2, "axis"))]
    stored = state.quant is not None
    kept = (batch, filters, memory - 1)
    recent = call.write("Slice", [before, *bounds], kept, call.like("recent", state), storage=stored)
    return call.write("Concat", [recent, newest], shape, call.like("state", state), storage=stored, axis=2)


def _summed(call: Call, weighted: Value, bias: Array | None, *, integer: bool) -> None:
    """Write the output. The integer kernel has no activation but the range of its output."""
    slot, shape = call.slot(), weighted.shape[:2]
    code = 0 if integer else int(call.option("fused_activation_function"))
    axes = call.vector([2], "axes")
    last = bias is None and code == 0
    total = call.write("ReduceSum", [weighted, axes], shape, slot if last else call.temporary("sum"), keepdims=0)
    if bias is not None:
        added = [total, call.constant(bias, "bias", "float32")]
        total = call.write("Add", added, shape, slot if code == 0 else call.temporary("biased"))
    activated(call, code, total, slot)
