"""SOFTMAX of int8 and uint8, as LiteRT computes it in float32: a table of exponentials, summed sequentially."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.exact.builder import looked_up_at, quant_in, scale_of, step, store, stored, zero_of
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.operators.shared.common import cast_to


@exactly("SOFTMAX")
def softmax(call: Call) -> None:
    """SOFTMAX over the last axis."""
    x, slot = call.input(0), call.slot()
    before, after = quant_in(call, x), quant_in(call, slot)
    if not x.shape:
        raise ModelError(f"{call.origin} reads a scalar")
    axis = len(x.shape) - 1
    slope = -scale_of(before) * np.float32(call.option("beta", 0.0))
    powers = np.exp((slope * np.arange(256).astype(np.float32)).astype(np.float64)).astype(np.float32)
    counts, shape = stored(call, x, "int32"), (*x.shape[:-1], 1)
    most = call.write("ReduceMax", [counts, call.vector([axis], "axes")], shape, call.temporary("most", "int32"))
    shares = looked_up_at(call, step(call, "Sub", most, counts), powers)
    sums = call.write(
        "CumSum",
        [shares, call.constant(axis, "axis", "int64")],
        x.shape,
        call.temporary("sums"),
        exclusive=0,
        reverse=0,
    )
    ends = [call.vector([each], label) for each, label in ((-1, "last"), (1 << 31, "end"), (axis, "axes"))]
    total = call.write("Slice", [sums, *ends], shape, call.temporary("total"))
    scaled = step(call, "Mul", total, np.array(scale_of(after)))
    inverse = step(call, "Div", call.constant(1.0, "one", "float32"), scaled)
    found = step(call, "Mul", shares, inverse)
    whole = step(call, "Floor", step(call, "Add", cast_to(call, found, "float64"), 0.5))
    store(call, step(call, "Add", whole, float(zero_of(after))))
