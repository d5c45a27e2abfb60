"""What tells sums in another order from mistakes: models in numbers of 64 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from experiments.compare.doubles import exact, off
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.random_onnx import random_model

MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@pytest.mark.parametrize("seed", range(8))
def test_networks(seed: int) -> None:
    """Results of 32 bits are near, and those of 64 bits are not the same numbers."""
    writer, model = random_model(seed)
    inputs = writer.feeds()
    (truth,), (found,) = exact(model, inputs), OnnxRuntime(model.SerializeToString(), level="none").run(inputs)
    assert truth.dtype == np.float64 and off(found, truth) < 2e-6
    assert off(found + np.float32(1e-3) * np.abs(found).max(), truth) > 5e-4


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(1, 2, 5, 8), (1, 2, 7, 2), (1, 2, 3, 4)])
def test_resize(how: str, mode: str, sizes: tuple[int, ...]) -> None:
    """Dimension by dimension it is what the reference does point by point."""
    attributes = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    constant = helper.make_tensor("sizes", TensorProto.INT64, [4], sizes)
    graph = helper.make_graph([node], "resize", ports[:1], ports[1:], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 4))
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    (found,) = exact(model, {"x": x})
    assert np.allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_constants_in_nodes_are_wide() -> None:
    constant = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.FLOAT, [1], [0.1]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([constant, helper.make_node("Div", ["x", "c"], ["y"])], "div", ports[:1], ports[1:])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (found,) = exact(model, {"x": np.ones(1, np.float32)})
    assert found.dtype == np.float64 and found[0] == 1 / float(np.float32(0.1))
