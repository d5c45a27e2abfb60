"""Models that others made: each converts to a proven optimum that computes its reference graph, or is refused
clearly. Those of which :data:`KNOWN` tells do what is written there.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state
import pytest

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.graph import Array, Size
from tests.audited import audited

ROOT = Path(os.environ["LAYOUTSOLVE_CORPUS"]) if "LAYOUTSOLVE_CORPUS" in os.environ else None
FILES = sorted(ROOT.rglob("*.tflite")) if ROOT else []
UNSUITED = (state.RuntimeException, state.InvalidArgument)
KNOWN = {
    digest: "".join(reason)
    for digest, _, *reason in (
        line.split(" ", 2) for line in (Path(__file__).parent / "corpus.txt").read_text().splitlines()
    )
}
"""What a refusal says, '' of models that convert, by the beginning of the SHA-256 of a file."""

OPEN = {"melspectrogram.tflite": 1280}
"""What sizes that a model leaves open are for its input to be long enough, by the name of the file; else they are 1."""

LARGEST = 6_000_000
"""Bytes of the largest file that is run; conversion is tested for all."""


def random_input(value: layoutsolve.graph.Value, random: np.random.Generator, size: int) -> Array:
    """Random data, with ``size`` for what the model leaves open, but for the batch."""
    shape = [(size if axis else 1) if isinstance(dim, Size) else dim for axis, dim in enumerate(value.shape)]
    if value.dtype in ("float32", "float16"):
        return random.uniform(-1, 1, shape).astype(value.dtype)
    if value.dtype in ("int8", "uint8", "int16"):
        limits = np.iinfo(value.dtype)
        return random.integers(limits.min, limits.max, shape, endpoint=True).astype(value.dtype)
    return random.integers(0, 2, shape).astype(object if value.dtype == "string" else value.dtype)


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_model(path: Path) -> None:
    reason = KNOWN.get(hashlib.sha256(path.read_bytes()).hexdigest()[:16])
    try:
        conversion = layoutsolve.convert(path)
    except layoutsolve.ConversionError as error:
        if reason is None:
            pytest.skip(str(error).splitlines()[-1].strip()[:120])
        assert reason, f"a model that converts is refused: {error}"
        assert reason in str(error)
        return
    assert not reason, "a model that is refused converts: say so in corpus.txt"
    assert conversion.assignment.status == "optimal"
    assert conversion.price.transposes + conversion.price.hidden == conversion.bound
    audited(conversion.model, conversion.assignment, conversion.graph)
    onnx.checker.check_model(conversion.model, full_check=True)
    if path.stat().st_size <= LARGEST:
        same_as_reference(conversion, OPEN.get(path.name, 1), suited=reason is not None)


def same_as_reference(conversion: layoutsolve.Conversion, size: int, suited: bool) -> None:
    """The solved model gives what the reference graph gives, but for the order of additions.

    Where it is not known that random data are ``suited`` to the model, it may refuse them.
    """
    random = np.random.default_rng(0)
    solved, reference = session(conversion.model), session(serialise(conversion.graph))
    graph = conversion.graph
    data = {graph.names.get(name, name): random_input(graph.values[name], random, size) for name in graph.inputs}
    try:
        expected = reference.run(None, data)
    except UNSUITED as error:
        if suited:
            raise
        pytest.skip(f"random data do not suit the model: {str(error)[-80:]}")
    for truth, found, _ in zip(expected, solved.run(None, data), graph.outputs, strict=False):
        if truth.dtype.kind == "f":
            scale = float(np.abs(truth[np.isfinite(truth)]).max(initial=1e-6))
            np.testing.assert_allclose(found, truth, rtol=1e-3, atol=1e-4 * scale)
        elif truth.dtype.kind in "iu":
            assert np.abs(found.astype(np.int64) - truth.astype(np.int64)).max(initial=0) <= 1
        else:
            assert (found == truth).all()
