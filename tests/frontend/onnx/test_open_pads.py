"""Pads of named axes leave the sizes of all others as they are, so that Transposes around them cancel out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from tests.frontend.onnx.test_flow import alike


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_open_sizes_beside_a_pad(axis: int, mode: str) -> None:
    perm, shape = (2, 1, 0), ["n", 4, "m"]
    made = list(shape)
    made[perm[axis]] = None
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("Pad", ["t", "pads", "", "axes"], ["u"], mode=mode),
        helper.make_node("Transpose", ["u"], ["y"], perm=perm),
    ]
    constants = [numpy_helper.from_array(np.array(each), name) for name, each in (("pads", [1, 2]), ("axes", [axis]))]
    ends = [helper.make_tensor_value_info(*each) for each in (("x", TensorProto.FLOAT, shape), ("y", 1, made))]
    graph = helper.make_graph(nodes, "padded", ends[:1], ends[1:], constants)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(source.SerializeToString(), objective="min-transpose")
    assert found.price.transposes == 0
    assert not found.report["kept_operators"]
    alike(source, found.model, {"x": np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)})
