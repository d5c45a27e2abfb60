"""Verification tells right models from wrong ones, and says what is missing."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from layoutsolve.emit import serialise
from layoutsolve.errors import VerifyError
from layoutsolve.frontend import read
from layoutsolve.runtimes import LiteRT
from layoutsolve.verification import smooth, verify
from tests.builder import Builder, Quant
from tests.truth import litert


def addition(dtype: str = "float32", offset: float = 0.5) -> bytes:
    quant = Quant([1 / 64], [3]) if dtype != "float32" else None
    builder = Builder()
    x = builder.input("x", (1, 4, 6, 3), dtype, quant=quant, signature=(-1, 4, 6, 3))
    data = np.array([offset, 0.25, -0.5])
    stored = data if quant is None else np.rint(data * 64) + 3
    y = builder.constant("y", stored.astype(dtype), quant=quant)
    out = builder.tensor("out", (1, 4, 6, 3), dtype, quant=quant, signature=(-1, 4, 6, 3))
    builder.operator("ADD", [x, y], [out], {})
    return builder.finish(out)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_right_model_passes(dtype: str) -> None:
    source = addition(dtype)
    found = verify(source, serialise(read(source)), samples=2, seed=3, shapes={"x": (2, 4, 6, 3)})
    assert found.passed
    (output,) = found.outputs
    assert output.kind == ("float" if dtype == "float32" else "quantised")
    assert output.xnnpack is not None and output.no_further_than_xnnpack
    assert sum(output.distance.steps) == (0 if dtype == "float32" else 2 * 2 * 4 * 6 * 3)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_wrong_model_fails(dtype: str) -> None:
    found = verify(addition(dtype), serialise(read(addition(dtype, offset=0.8))))
    assert not found.passed
    assert str(found).startswith("FAIL out")


def test_permuted_boundary() -> None:
    model = serialise(read(addition()))
    model.graph.initializer[0].CopyFrom(_column(model.graph.initializer[0]))
    for port in (*model.graph.input, *model.graph.output):
        for dim, size in zip(port.type.tensor_type.shape.dim, (1, 3, 4, 6), strict=True):
            dim.dim_value = size
    found = verify(addition(), model, input_permutations={"x": (0, 3, 1, 2)}, output_permutations={"out": (0, 3, 1, 2)})
    assert found.passed


def _column(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).reshape(3, 1, 1), tensor.name)


def test_refusals_name_the_runtime() -> None:
    with pytest.raises(VerifyError, match="ONNX Runtime refuses"):
        verify(addition(), b"no model")
    with pytest.raises(VerifyError, match="LiteRT refuses"):
        verify(b"no model", serialise(read(addition())))


def test_missing_runtime_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(VerifyError, match=r"pip install layoutsolve\[verify\]"):
        verify(addition(), b"")


def test_litert_survives_what_kills_it() -> None:
    with LiteRT(timeout=0.001) as short, pytest.raises(VerifyError, match="aborted"):
        short.describe(addition())
    assert litert().describe(addition()).outputs[0].name == "out"


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16", "int32", "bool", "string"])
def test_smooth_is_seeded_and_in_range(dtype: str) -> None:
    first, second = (smooth(dtype, (2, 5, 5, 3), np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)
    if dtype == "float32":
        assert np.abs(first).max() <= 1
