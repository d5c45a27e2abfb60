"""The table of ONNX Runtime's kernels is that of the newest version."""

from __future__ import annotations

import json

import onnxruntime
import pytest

from experiments.measure.kernels import _versions
from layoutsolve.proto.ort_kernels import TABLE


def test_table_of_kernels() -> None:
    table = json.loads(TABLE.read_text())
    if table["onnxruntime"] != onnxruntime.__version__:
        pytest.skip("the table is of another ONNX Runtime")
    for name in ("Add", "Clip", "DequantizeLinear", "Max", "OneHot", "Where"):
        assert table["operators"][""][name] == _versions(name, "")
