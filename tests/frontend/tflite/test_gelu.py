"""GELU in all shapes, written so that ONNX Runtime's optimiser leaves it right."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import layoutsolve
from tests.builder import Builder


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 1), (2, 3)])
@pytest.mark.parametrize("approximate", [False, True])
def test_any_number_of_dimensions(approximate: bool, shape: tuple[int, ...], dtype: str) -> None:
    builder = Builder()
    x, y = builder.input("x", shape, dtype), builder.tensor("y", shape, dtype)
    builder.operator("GELU", [x], [y], {"approximate": approximate})
    made = layoutsolve.convert(builder.finish(y)).model.SerializeToString()
    feeds = {"x": np.random.default_rng(0).normal(size=shape).astype(dtype)}
    options, found = onnxruntime.SessionOptions(), []
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"):
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
        found += session.run(None, feeds)
    for each in found[1:]:
        assert each.shape == shape
        np.testing.assert_allclose(each, found[0], rtol=1e-2 if dtype == "float16" else 1e-4, atol=1e-5)
