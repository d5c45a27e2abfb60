"""One LiteRT process for the whole test session, and what is compared with it."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache

import numpy as np
from onnx import helper

import layoutsolve
from layoutsolve.emit import opset
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime


def _is_loaded(version: int) -> bool:
    """Whether the installed ONNX Runtime loads models of an operator set."""
    port = helper.make_tensor_value_info("x", 1, [1])
    graph = helper.make_graph([], "empty", [port], [port])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
    try:
        OnnxRuntime(model.SerializeToString(), level="none")
    except VerifyError:
        return False
    return True


HIGHEST_OPSET = max(filter(_is_loaded, range(opset.LOWEST_OPSET, opset.HIGHEST_OPSET + 1)))
"""The highest operator set that can be written and that the installed ONNX Runtime loads."""


@cache
def litert() -> LiteRT:
    """LiteRT as the tests share it; ended with the session."""
    runtime = LiteRT(timeout=60)
    atexit.register(runtime.close)
    return runtime


def same(
    source: bytes, given: Sequence[Array], tolerance: float = 0.0, levels: Sequence[Level] = LEVELS
) -> layoutsolve.Conversion:
    """The conversion of a model, which gives what LiteRT gives, at all of some levels."""
    found = layoutsolve.convert(source)
    truth = litert().run(source, given).results
    for level in levels:
        session = OnnxRuntime(found.model.SerializeToString(), threads=1, level=level)
        results = session.run(dict(zip([name for name, *_ in session.inputs], given, strict=True)))
        for one, other in zip(truth, results, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
    return found
