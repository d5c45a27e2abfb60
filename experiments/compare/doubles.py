"""What a model of ONNX computes where real numbers have 64 bits: how far are others from that?

ONNX's own reference evaluates it, with constants, casts and inputs of 32 and 16 bits as ones of 64. Its Resize goes
point by point, which takes minutes for an image; here it is a product along each dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_resize import Resize as Pointwise

from layoutsolve.ir.graph import Array

REAL = (TensorProto.FLOAT, TensorProto.FLOAT16)


def exact(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    """The results of a model in numbers of 64 bits. Raises what the reference raises for operators it does not have."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    for each in wide.opset_import:
        if each.domain == "" and each.version == 18:
            each.version = 19  # the first that the reference has QuantizeLinear of; nothing else changes its meaning
    given = {name: data.astype(np.float64) if data.dtype.kind == "f" else data for name, data in inputs.items()}
    return [np.asarray(each) for each in ReferenceEvaluator(wide, new_ops=[Resize]).run(None, given)]


def off(found: Array, truth: Array) -> float:
    """How far numbers are from the exact ones, by the range of these."""
    if found.dtype.kind != "f" or found.shape != truth.shape:
        return float("nan")
    span = max(float(np.abs(truth).max(initial=0.0)), 1e-300)
    return float(np.abs(found.astype(np.float64) - truth).max(initial=0.0)) / span


def _widen(graph: onnx.GraphProto) -> None:
    """Make all real numbers of a graph, and of those in it, ones of 64 bits."""
    for constant in graph.initializer:
        if constant.data_type in REAL:
            constant.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float64), constant.name)
            )
    for port in (*graph.input, *graph.output, *graph.value_info):
        if port.type.tensor_type.elem_type in REAL:
            port.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in REAL:
                attribute.i = TensorProto.DOUBLE
            elif attribute.t.data_type in REAL:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
            if attribute.HasField("g"):
                _widen(attribute.g)


class Resize(OpRun):
    """Resize without a region or antialiasing, dimension by dimension."""

    op_domain = ""

    def _run(self, x: Array, roi: Any = None, scales: Any = None, sizes: Any = None, **given: Any) -> tuple[Array]:
        plain = not given.get("antialias") and not given.get("axes") and given["mode"] in ("nearest", "linear")
        if not plain or given["coordinate_transformation_mode"] not in _PLACES:
            made: tuple[Array] = Pointwise(self.onnx_node, self.run_params)._run(x, roi, scales, sizes, **given)
            return made
        for axis, size in enumerate(x.shape):
            scale = float(scales[axis]) if sizes is None or not len(sizes) else float(sizes[axis]) / size
            count = int(np.floor(size * scale)) if sizes is None or not len(sizes) else int(sizes[axis])
            if count != size:
                x = _resized(x, axis, scale, count, given)
        return (x,)


_PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def _resized(x: Array, axis: int, scale: float, count: int, given: dict[str, Any]) -> Array:
    """An array with another size of one dimension."""
    size, places = x.shape[axis], np.arange(count, dtype=np.float64)
    how = given["coordinate_transformation_mode"]
    if how == "align_corners":
        places = places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    elif how == "asymmetric":
        places = places / scale
    else:
        places = (places + 0.5) / scale - 0.5 if how == "half_pixel" or count > 1 else np.zeros(1)
    if given["mode"] == "nearest":
        rounding = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_floor": lambda each: np.ceil(each - 0.5),
            "round_prefer_ceil": lambda each: np.floor(each + 0.5),
        }
        at = rounding[given["nearest_mode"]](places).astype(np.int64).clip(0, size - 1)
        return np.take(x, at, axis)
    low = np.floor(places).astype(np.int64)
    share = (places - low).reshape([-1 if place == axis else 1 for place in range(x.ndim)])
    before, after = (np.take(x, each.clip(0, size - 1), axis) for each in (low, low + 1))
    made: Array = before * (1 - share) + after * share
    return made
