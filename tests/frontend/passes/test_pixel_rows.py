"""Convolutions of whole pixels of rows are those of images of several channels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime

RANDOM = np.random.default_rng(0)
IMAGE = (1, 8, 10, 3)
ROWS = (1, 1, 8, 30)


def model(kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, ...]) -> onnx.ModelProto:
    """A channels-last image that is read by rows."""
    held = {"sizes": np.array(ROWS, np.int64), "w": RANDOM.normal(size=(4, 1, *kernel)).astype(np.float32)}
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["rows"]),
        helper.make_node("Conv", ["rows", "w"], ["y"], strides=strides, pads=pads, kernel_shape=kernel),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE)
    constants = [numpy_helper.from_array(data, name) for name, data in held.items()]
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


CASES = {
    "whole pixels": ((3, 9), (1, 3), (1, 3, 1, 3), True),
    "uneven padding": ((3, 9), (2, 6), (0, 0, 1, 3), True),
    "parts of pixels": ((3, 8), (1, 3), (0, 0, 0, 0), False),
    "steps of parts": ((3, 9), (1, 1), (0, 0, 0, 0), False),
    "padding of parts": ((3, 9), (1, 3), (0, 1, 0, 2), False),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_of_pixels(case: str) -> None:
    """No view is left where windows have whole pixels; results are the same in any case."""
    *made, whole = CASES[case]
    source, x = model(*made), RANDOM.normal(size=IMAGE).astype(np.float32)  # type: ignore[arg-type]
    found = layoutsolve.convert(source, to="tflite", outputs="nhwc")
    assert ("RESHAPE" not in found.operators) == whole  # type: ignore[attr-defined]
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    with LiteRT() as litert:
        (result,) = litert.run(found.content(""), [x]).results
    np.testing.assert_allclose(result, expected.transpose(0, 2, 3, 1), atol=1e-4)


@pytest.mark.parametrize("target", ["ort-cpu", "portable"])
def test_written_to_onnx(target: str) -> None:
    """Whatever the layout becomes, results are the same."""
    source, x = model((3, 9), (1, 3), (1, 3, 1, 3)), RANDOM.normal(size=IMAGE).astype(np.float32)
    found = layoutsolve.convert(source, target=target).model
    truth, result = (OnnxRuntime(each.SerializeToString(), level="none").run({"x": x})[0] for each in (source, found))
    np.testing.assert_allclose(result, truth, atol=1e-4)
