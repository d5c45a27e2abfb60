"""The constants with which tensors are quantized and dequantized."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.writer import Writer
from layoutsolve.ir.graph import Quant


def parameters_of(
    writer: Writer, name: str, quant: Quant, dtype: str | None = None
) -> tuple[list[str], dict[str, int]]:
    """The constants and the attributes with which a tensor is quantized or dequantized, stored as its own type or
    another one.
    """
    dtype = dtype or writer.graph.values[name].dtype
    scale = writer.alike(quant.scale.reshape(()) if quant.axis is None else quant.scale)
    inputs = [writer.shared("float32", scale, lambda: writer.taken.derived(name, "scale"))]
    if dtype != "int32" and (not quant.block or quant.zero_point.any()):
        zero = writer.alike(np.asarray(quant.zero_point).reshape(scale.shape))
        inputs.append(writer.shared(dtype, zero, lambda: writer.taken.derived(name, "zero_point")))
    attributes = {} if quant.axis is None else {"axis": quant.axis}
    return inputs, ({**attributes, "block_size": quant.block} if quant.block else attributes)
