"""Constants of equal parts: a file is about as small as one that computes them, and gives the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.ir.elements import condensed
from layoutsolve.ir.graph import Array

TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32)


def model(seed: int) -> onnx.ModelProto:
    """Sums, products and convolutions with constants that operators fill or repeat."""
    rng = random.Random(seed)
    shape = [1, 32, rng.choice((16, 20)), rng.choice((24, 32))]
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def vector(name: str, numbers: Sequence[int]) -> str:
        constants.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
        return name

    def filled(name: str, sizes: Sequence[int], dtype: int) -> str:
        kind, value = helper.tensor_dtype_to_np_dtype(dtype), rng.choice((0, 2))
        if rng.random() < 0.5:
            given = numpy_helper.from_array(np.array([value], kind))
            nodes.append(helper.make_node("ConstantOfShape", [vector(f"{name}.sizes", sizes)], [name], value=given))
        else:
            part = [1] * len(sizes)
            part[-1] = rng.choice((1, sizes[-1]))
            constants.append(
                numpy_helper.from_array(np.full(part, value, kind) + np.arange(part[-1]).astype(kind), f"{name}.part")
            )
            nodes.append(helper.make_node("Expand", [f"{name}.part", vector(f"{name}.sizes", sizes)], [name]))
        return name

    dtype = rng.choice(TYPES)
    data = "x"
    for step in range(rng.randint(1, 4)):
        if dtype == TensorProto.FLOAT and rng.random() < 0.5:
            kernel = filled(f"k{step}", [shape[1], shape[1], 3, 3], dtype)
            nodes.append(helper.make_node("Conv", [data, kernel], [f"h{step}"], pads=[1, 1, 1, 1]))
        else:
            other = filled(f"c{step}", rng.choice((shape, shape[1:], [shape[-1]])), dtype)
            nodes.append(helper.make_node(rng.choice(("Add", "Mul")), [data, other], [f"h{step}"]))
        data = f"h{step}"
        if rng.random() < 0.5:
            nodes.append(helper.make_node("Transpose", [data], [f"t{step}"], perm=[0, 2, 3, 1]))
            nodes.append(
                helper.make_node(
                    "Add", [f"t{step}", filled(f"d{step}", [1, 1, shape[3], shape[1]], dtype)], [f"u{step}"]
                )
            )
            nodes.append(helper.make_node("Transpose", [f"u{step}"], [f"v{step}"], perm=[0, 3, 1, 2]))
            data = f"v{step}"
    ends = [helper.make_tensor_value_info(name, dtype, shape) for name in ("x", data)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(content: bytes, level: onnxruntime.GraphOptimizationLevel, data: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    found: Array = session.run(None, {"x": data})[0]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_files_stay_small(seed: int) -> None:
    """What is written is about as small as its source, and gives the same at all levels; once more it is the same."""
    source = model(seed)
    given = source.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in given.shape.dim]
    data = np.random.default_rng(seed).integers(-3, 4, shape).astype(helper.tensor_dtype_to_np_dtype(given.elem_type))
    content = source.SerializeToString()
    found = layoutsolve.convert(content, objective="min-transpose")
    written = found.model.SerializeToString()
    assert len(written) <= 2 * len(content) + 2000
    assert not found.price.transposes
    truth = run(content, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, data)
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        np.testing.assert_allclose(run(written, level, data), truth, rtol=1e-5, atol=1e-5)
    again = layoutsolve.convert(written, objective="min-transpose")
    assert len(again.model.SerializeToString()) <= len(written) + 200


def test_parts() -> None:
    """The part of an array that is repeated, whatever its dimensions."""
    column = np.arange(3.0).reshape(3, 1)
    for data in (column, np.ones(()), np.ones((1, 1)), np.array("a", object)):
        assert np.array_equal(condensed(data), data)
    for sizes in ((3, 5), (2, 3, 5)):
        found = condensed(np.broadcast_to(column, sizes))
        assert found.shape == (*(1,) * (len(sizes) - 2), 3, 1) and np.array_equal(found.reshape(3, 1), column)
