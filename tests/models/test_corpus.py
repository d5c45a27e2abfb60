"""Models that others made: each converts to a proven optimum that computes its reference graph, or is refused
clearly. Those of which :data:`KNOWN` tells do what is written there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state
import pytest

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.ir.graph import Array, Size
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.audited import audited
from tests.truth import litert

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

FACTORS = ("Conv", "ConvTranspose", "DequantizeLinear", "Gemm", "MatMul")
"""Operators whose inputs behind the first are factors of a sum."""

NUDGE = 2.0**-21
"""How far a factor moves, relative to itself: the rounding of a sum of some hundred products."""

PROVEN = 0.8
"""The least part of the first tier that is proven. All of it is, but of few models: in these, slow Transposes lie
between so many dimensions that not all orders on their way are looked at.
"""

LARGEST = 6_000_000
"""Bytes of the largest file that is run; conversion is tested for all."""

EXACT = 300_000
"""Bytes below which models of bytes are held against LiteRT, bit for bit."""


def random_input(value: layoutsolve.ir.graph.Value, random: np.random.Generator, size: int) -> Array:
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


@pytest.mark.members(24)
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
    value = conversion.price.transposes + conversion.price.hidden
    assert conversion.bound >= PROVEN * value
    assert conversion.bound == value or conversion.assignment.status == "feasible"
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
    results = solved.run(None, data)[: len(graph.outputs)]
    if not all(map(close, expected, results)):
        moved = [session(nudged(serialise(graph), random)).run(None, data) for _ in range(3)]
        for truth, found, *others in zip(expected, results, *moved, strict=False):
            assert close(truth, found) or rounded(truth, found, others)


def close(truth: Array, found: Array) -> bool:
    """Whether two results agree up to the order of additions in floats, or one step of integers."""
    if truth.shape != found.shape or truth.dtype != found.dtype:
        return False
    if truth.dtype.kind == "f":
        scale = float(np.abs(truth[np.isfinite(truth)]).max(initial=1e-6))
        return np.allclose(found, truth, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
    if truth.dtype.kind in "iu":
        return bool(np.abs(found.astype(np.int64) - truth.astype(np.int64)).max(initial=0) <= 1)
    return bool((found == truth).all())


def nudged(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """The model with each float factor of a product or scale some last digits larger or smaller: where values are
    rounded to integers after a sum, its results tell how far the order of additions carries.
    """
    factors = {name for node in model.graph.node if node.op_type in FACTORS for name in node.input[1:]}
    for tensor in model.graph.initializer:
        if tensor.name in factors and tensor.data_type == onnx.TensorProto.FLOAT:
            data = onnx.numpy_helper.to_array(tensor)
            data = (data * (1 + random.choice((-NUDGE, NUDGE), data.shape))).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(data, tensor.name))
    return model


def rounded(truth: Array, found: Array, others: Sequence[Array]) -> bool:
    """Whether a result is off no further than twice what ``others``, which differ by rounding, are: a few of them do
    not meet the furthest.
    """
    if truth.shape != found.shape or truth.dtype != found.dtype or truth.dtype.kind not in "fiu":
        return False
    mine, *theirs = (np.abs(each.astype(np.float64) - truth) for each in (found, *others))
    return all(measure(mine) <= 2 * max(map(measure, theirs)) for measure in (np.max, np.mean))


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_rounding_is_told_from_errors(error: float) -> None:
    """Sums in another order pass behind a quantization; a weight that is off by a hundredth does not."""
    random = np.random.default_rng(0)
    data = {"x": random.uniform(-1, 1, (512, 64)).astype(np.float32)}
    kernel = random.uniform(-1, 1, (64, 8)).astype(np.float32)

    def model(order: npt.NDArray[np.int64], kernel: npt.NDArray[np.float32]) -> onnx.ModelProto:
        made = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> made (float[512, 64] x) => (float[512, 8] y) '
            "{ a = Gather<axis = 1>(x, order) b = MatMul(a, kernel) "
            "c = QuantizeLinear(b, scale, zero) y = DequantizeLinear(c, scale, zero) }"
        )
        held = {"order": order, "kernel": kernel[order], "scale": np.float32(2e-5), "zero": np.uint16(1 << 15)}
        made.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(held[name]), name) for name in held)
        return made

    reference = model(np.arange(64), kernel)
    [truth] = session(reference).run(None, data)
    others = [session(nudged(reference, random)).run(None, data)[0] for _ in range(3)]
    kernel[7] *= 1 + error
    [found] = session(model(random.permutation(64), kernel)).run(None, data)
    assert not np.array_equal(found, truth)
    assert rounded(truth, found, others) is (error == 0)


def bytes_alone() -> list[Path]:
    """The smaller models of bytes that LiteRT runs."""
    records = json.loads((ROOT / "manifest.json").read_text()) if ROOT and FILES else []
    chosen = [each for each in records if each["dtype"] in ("int8", "uint8") and each["litert_runs"]]
    return [ROOT / each["file"] for each in chosen if ROOT and each["size"] < EXACT]


@pytest.mark.members(6)
@pytest.mark.parametrize("path", bytes_alone(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_exact_models(path: Path) -> None:
    source = path.read_bytes()
    try:
        conversion = layoutsolve.convert(source, quant="exact")
    except layoutsolve.UnsupportedError as error:
        pytest.skip(str(error).splitlines()[-1].strip()[:120])
    random = np.random.default_rng(0)
    given = [random_input(conversion.graph.values[name], random, 1) for name in conversion.graph.inputs]
    expected = litert().run(source, given).results
    for level in (LEVELS[0], LEVELS[-1]):
        runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1, level=level)
        results = runtime.run(feeds(runtime, given, {}))
        assert len(results) == len(expected) + len(runtime.following)
        for truth, result in zip(expected, results, strict=False):  # behind them are states
            assert np.array_equal(truth, result), f"{(truth != result).sum()} of {truth.size} differ at {level}"
