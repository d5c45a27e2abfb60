"""QuantizeLinear and DequantizeLinear as annotations of what is stored between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.draft import Draft
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.ir.graph import CAPTURES, Node, Quant, Value

STORED = ("int8", "uint8", "int16", "uint16", "int32", "int4", "uint4")
"""The types of whole numbers that stand for real ones."""


def parameters(call: Call, dtype: str, rank: int) -> Quant | None:
    """Scale and zero point of a node; None where they are computed, are not of float32 and the stored
    type, or fit no axis.
    """
    scale = call.constant(1)
    zero = call.constant(2) if call.has(2) else None
    if scale is None or scale.dtype != np.float32 or (call.has(2) and zero is None) or dtype not in STORED:
        return None
    if zero is not None and call.value(2).dtype != dtype:
        return None
    if zero is None:
        zero = np.zeros(scale.shape, {"int4": "int8", "uint4": "uint8"}.get(dtype, dtype))
    if (
        not (np.isfinite(scale).all() and (scale > 0).all())
        or (scale.shape != zero.shape and (scale.size, zero.size) != (1, 1))
        or call.attribute("block_size", 0)
    ):
        return None
    if dtype == "int32" and zero.any():  # 32 bits are sums of products elsewhere, whose zero is 0
        return None
    if scale.size == 1 and scale.ndim < 2:
        return Quant(scale.reshape(1), zero.reshape(1))
    axis = call.attribute("axis", 1)
    axis += rank if axis < 0 else 0
    if scale.ndim != 1 or not 0 <= axis < rank:
        return None
    size = call.value(0).shape[axis]
    return Quant(scale, zero, axis) if not isinstance(size, int) or size == scale.size else None


@lowering("DequantizeLinear")
def dequantize(call: Call) -> bool:
    """Lower DequantizeLinear: an annotation of the stored tensor; with other parameters it is another tensor."""
    draft, name = call.draft, call.outputs[0]
    if not call.known(0) or draft.is_real(call.inputs[0]):
        return False
    source = draft.alias.get(call.inputs[0], call.inputs[0])
    value = draft.value(source)
    quant = parameters(call, value.dtype, len(value.shape))
    if quant is None or draft.types.element(name) != "float32":
        return False
    if quant.axis is not None and value.data is None:
        return False
    own = value.name
    if value.quant is None or not value.quant.matches(quant):
        own = draft.names.derived(name, "stored")
        if value.data is not None:
            draft.add(Value(own, value.dtype, value.shape, quant, value.data))
        else:
            draft.add(replace(value, name=own, quant=quant))
            call.emit("Identity", [value.name], [own], storage=True)
    if name in draft.outputs:
        draft.add(Value(name, "float32", value.shape))
        call.emit("Identity", [own], [name])
    else:
        draft.real[name] = own
    return True


@lowering("QuantizeLinear")
def quantize(call: Call) -> bool:
    """What computes the floats writes them as they are stored, if nothing else reads them."""
    draft, name = call.draft, call.outputs[0]
    dtype = draft.types.element(name)
    if not call.known(0) or not dtype or call.attribute("precision", 0):
        return False
    value, real = call.value(0), draft.is_real(call.inputs[0])
    quant = parameters(call, dtype, len(value.shape))
    if quant is None or quant.axis is not None or (value.dtype != "float32" and not real):
        return False
    if real and value.quant is not None and value.quant.matches(quant) and value.dtype == dtype:
        if name not in draft.outputs:
            draft.alias[name] = value.name
            return True
        draft.add(Value(name, dtype, value.shape, quant))
        call.emit("Identity", [value.name], [name], storage=True)
        return True
    source = draft.alias.get(call.inputs[0], call.inputs[0])
    index = draft.producers.get(value.name)
    producer = None if index is None else draft.nodes[index]
    alone = draft.uses.get(call.inputs[0]) == 1 == draft.uses.get(source) and not {source, value.name} & draft.outputs
    if alone and not real and producer is not None and index is not None and _computes(draft, producer, value):
        draft.nodes[index] = replace(producer, outputs=(name,))
        draft.producers[name] = index
        del draft.values[value.name]
    else:
        call.emit("Identity", [value.name], [name])
    draft.add(Value(name, dtype, value.shape, quant))
    return True


def _computes(draft: Draft, node: Node, value: Value) -> bool:
    """Whether a node writes real numbers alone, which it may write in steps as well."""
    plain = len(node.outputs) == 1 and not node.storage and not node.domain and node.region is draft.region
    moves = node.op in ("Transpose", "Reshape", "DepthToSpace", "SpaceToDepth")
    if not plain or moves or CAPTURES in node.attributes:
        return False
    return value.quant is None and value.data is None and draft.values[value.name] is value
