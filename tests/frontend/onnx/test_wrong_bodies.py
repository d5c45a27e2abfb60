"""Graphs in If, Loop and Scan that do not fit: one error, or they stay as they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import ConversionError, ModelError
from tests.frontend.onnx.test_flow import FRO, IMAGE, TO, alike, converted, image, text
from tests.frontend.onnx.test_random import run


def _spoil_reading(body: GraphProto) -> None:
    body.node[0].input[0] = "nothing"


def _spoil_writing(body: GraphProto) -> None:
    body.node[1].output[0] = body.node[0].output[0]


def _spoil_result(body: GraphProto) -> None:
    body.output[1].name = "nothing"


@pytest.mark.parametrize("spoil", [_spoil_reading, _spoil_writing, _spoil_result])
def test_wrong_bodies(spoil: Callable[[GraphProto], None]) -> None:
    model = _loop()
    spoil(model.graph.node[1].attribute[0].g)
    with pytest.raises(ModelError, match=r"nothing|there already"):
        converted(model)


def test_bodies_that_do_not_fit_give_one_error_or_stay() -> None:
    """What ONNX Runtime refuses to load may come back as it is, and no other way."""
    for field in ("input", "output", "node"):
        model = _loop()
        getattr(model.graph.node[1].attribute[0].g, field).pop()
        try:
            found = layoutsolve.convert(model.SerializeToString()).model
        except ConversionError:
            continue
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            run(found, {"x": image()})


def _loop() -> onnx.ModelProto:
    return text(
        f"""g ({IMAGE} x) => ({IMAGE} y) {{
            n = Constant<value_int = 3>()
            y = Loop(n, , x) <body = l (int64 i, bool go, {IMAGE} now) => (bool on, {IMAGE} next) {{
                a = Relu(now) next = Tanh(a) on = Identity(go) }}> }}"""
    )


def test_what_stays_as_it_stands_is_not_called_minimal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Transpose of a tensor whose number of dimensions is not known is no choice."""
    model = text(
        f"""g ({IMAGE} x, int64[k] s) => (float[2, 60] y) {{
            r = Reshape(x, s) t = Transpose(r) u = Transpose(t) f = Constant<value_ints = [2, -1]>() v = Reshape(u, f)
            a = {TO}(x) b = Relu(a) c = {FRO}(b) d = Reshape(c, f) y = Add(v, d) }}"""
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert main([str(path)]) == 0
    assert "Transposes 4 -> 2 (0 proven minimal, 2 in parts that are kept as in the source)" in capsys.readouterr().out
    alike(model, onnx.load(tmp_path / "model.layoutsolve.onnx"), {"x": image(), "s": np.array([3, 8, 5], np.int64)})
