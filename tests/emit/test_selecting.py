"""Weights that are selected when a model is loaded: the same bytes in either form, on this processor and on others."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import layoutsolve
from experiments.compare import processors
from layoutsolve.emit import QuantForm, nodes_of, serialise
from layoutsolve.emit.writer import Kernels
from layoutsolve.frontend import read
from layoutsolve.frontend.passes import weights
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.saturation import saturating, too_large
from layoutsolve.ir.storage_options import Storage
from layoutsolve.measurement.executed_operators import INTEGER
from layoutsolve.measurement.timing import feeds_of
from layoutsolve.proto.weight_selection import NAME, running, selects
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.emit.test_qlinear import Bytes, convolution, dense, given
from tests.emit.test_qlinear import product as matrices
from tests.networks import Quantized

SEEDS = range(0, 24, 2)
"""Those of which :class:`Bytes` gives activations without a sign."""

SELECTED = Storage(weights="selected")


def made(seed: int) -> Graph:
    """A product of bytes by weights with a sign."""
    family = (convolution, dense, matrices)[seed // 2 % 3]
    return weights.stored(family(Bytes(seed)), "signed")


def loaded(model: onnx.ModelProto, folder: Path) -> tuple[onnxruntime.InferenceSession, onnx.ModelProto]:
    """A model in ONNX Runtime, and what that has made of it."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, onnx.load(folder / "optimised.onnx")


def forced(model: onnx.ModelProto, exact: bool) -> onnx.ModelProto:
    """The model on a processor that adds products exactly, or that saturates."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for each in changed.graph.initializer:
        if each.name == "probe/weights" and exact:  # products of which none is too large
            each.CopyFrom(numpy_helper.from_array(np.ones(4, np.int8), each.name))
        if each.name == "probe/right":
            each.CopyFrom(numpy_helper.from_array(np.array(255 * 4 if exact else -1, np.int32), each.name))
    return changed


@pytest.mark.parametrize("seed", SEEDS)
def test_either_form(seed: int, tmp_path: Path) -> None:
    """Every branch gives what weights without a sign give, and is gone once the model is loaded."""
    graph = made(seed)
    model, right = serialise(graph, quant=QuantForm(storage=SELECTED)), serialise(weights.stored(graph, "unsigned"))
    onnx.checker.check_model(model, full_check=True)
    assert selects(model) == len(saturating(graph))
    feeds = given(graph, seed)
    expected = loaded(right, tmp_path)[0].run(None, feeds)
    for changed, dtype in ((model, None), (forced(model, True), np.int8), (forced(model, False), np.uint8)):
        session, optimised = loaded(changed, tmp_path)
        operators = Counter(node.op_type for node in nodes_of(optimised.graph))
        assert not {"If", "MatMulInteger", "BitwiseXor"} & set(operators) or not selects(model)
        if dtype is not np.int8:  # with a sign sums saturate on some processors
            assert all(map(np.array_equal, session.run(None, feeds), expected))
        stored = {numpy_helper.to_array(each).dtype.type for each in optimised.graph.initializer if len(each.dims) > 1}
        assert dtype is None or not selects(model) or dtype in stored


@pytest.mark.parametrize("kernels", [None, Kernels(frozenset([""]), False)])
def test_zero_points_of_layers(kernels: Kernels | None, tmp_path: Path) -> None:
    """Weights need not be symmetric: each layer has its own zero point in either form."""
    b = Bytes(0)
    x, size = b.image(4, 16), 16
    for _ in range(12):
        zero = b.random.integers(-60, 60, 1).astype(np.int8)
        quant = Quant(b.random.uniform(0.001, 0.01, 1).astype(np.float32), zero)
        matrix = b.constant(b.random.integers(-128, 128, (size, 16)), "int8", quant)
        x = b.op("MatMul", x, matrix, shape=(4, 16), dtype=b.dtype, quant=b.steps(1.0))
    graph = b.graph(x)
    model = serialise(graph, quant=QuantForm(kernels, storage=SELECTED))
    assert selects(model) == 12
    feeds, right = given(graph, 0), serialise(weights.stored(graph, "unsigned"), quant=QuantForm(kernels))
    expected = loaded(right, tmp_path)[0].run(None, feeds)
    for exact in (True, False):
        assert all(map(np.array_equal, loaded(forced(model, exact), tmp_path)[0].run(None, feeds), expected))


def test_some_saturate_and_some_do_not() -> None:
    """The family above has both, and small weights need no selection."""
    assert any(saturating(made(seed)) for seed in SEEDS)
    b = Bytes(0)
    x = b.image(1, 4, 6, 6)
    small = b.constant(
        b.random.integers(-60, 61, (8, 4, 3, 3)), "int8", Quant(np.array([0.01], "f4"), np.zeros(1, "i1"))
    )
    graph = b.last("Conv", x, small, shape=(1, 8, 4, 4), kernel_shape=[3, 3])
    assert not saturating(graph) and serialise(graph, quant=QuantForm(storage=SELECTED)) == serialise(graph)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_pairs_that_are_too_large(size: int) -> None:
    """Two neighbours saturate exactly where their products with 255 leave 16 bits."""
    random = np.random.default_rng(size)
    for _ in range(200):
        row = random.integers(-128, 128, size).astype(np.int8)
        pairs = [(255 * int(a), 255 * int(b)) for a, b in pairwise(row)]
        expected = sum(max(a, 0) + max(b, 0) > 32767 or min(a, 0) + min(b, 0) < -32768 for a, b in pairs)
        assert too_large(row[None]) == (expected, size - 1)


@pytest.fixture
def signed(tmp_path: Path) -> str:
    """The file of a target whose weights have a sign on all processors."""
    path = tmp_path / "signed.json"
    path.write_text('{"name": "signed", "extends": "ort-cpu", "storage": {"weights": "signed"}}')
    return str(path)


def network() -> bytes:
    """Layers of bytes, one of them shared, between floats."""
    net = Quantized()
    net.largest = 128
    x = net.input(1, 8, 8, 4)
    x = net.conv(net.conv(x, 8, 3), 8, 1)
    return net.model(net.dense(net.reshape(x, 1, 512), 7)).source


def test_stored_once_and_named(signed: str) -> None:
    """One node, which says what it is for, in a file as large as the plain one; its own reader gets the layers back."""
    source = network()
    found, plain = layoutsolve.convert(source), layoutsolve.convert(source, target=signed)
    (node,) = (node for node in found.model.graph.node if node.op_type == "If")
    assert node.name == NAME and "this processor" in node.doc_string and len(node.output) == selects(found.model) == 3
    own, other = (
        sum(len(each.raw_data) for each in model.graph.initializer if each.data_type in (2, 3) and len(each.dims) > 1)
        for model in (found.model, plain.model)
    )
    assert own <= other * 1.02
    again = read(found.model.SerializeToString())
    assert "If" not in {each.op for each in again.nodes} and len(saturating(again)) == 3


@pytest.mark.parametrize("length", [4, 120])
def test_bytes_of_a_layer(length: int, signed: str) -> None:
    """Few are written for it, whatever its tensors are called, and few once."""
    sizes = []
    for layers in (1, 2, 6):
        net = Quantized()
        net.largest = 128
        x = net.input(1, 8, 8, 8)
        for _ in range(layers):
            x = net.conv(x, 8, 3)
        for tensor in net.builder.subgraph.tensors:
            tensor.name = tensor.name.ljust(length, "_")
        source = net.model(x).source
        found, plain = (layoutsolve.convert(source, **options) for options in ({}, {"target": signed}))
        assert selects(found.model) == layers
        sizes.append(found.model.ByteSize() - plain.model.ByteSize())
    assert sizes[0] <= 700 and sizes[2] - sizes[1] <= 4 * 220, sizes


@pytest.mark.parametrize("options", [{}, {"quant": "qoperator"}, {"quant": "qoperator", "contrib": True}])
def test_operators_that_run_are_counted(options: dict[str, Any], tmp_path: Path) -> None:
    """Those of one branch, and none of what selects it: as many as in a file with plain weights, of either kind."""
    counts = set()
    for stored in ("selected", "signed", "unsigned"):
        target, base = tmp_path / f"{stored}.json", "ort-cpu-contrib" if "contrib" in options else "ort-cpu"
        storage = {"weights": stored}
        target.write_text(json.dumps({"name": stored, "extends": base, "storage": storage}))
        found = layoutsolve.convert(network(), target=str(target), quant=options.get("quant", "qdq"))
        assert bool(selects(found.model)) == (stored == "selected")
        counts.add(found.report["operators"])
        assert found.report["operators"] == len([*running(found.model.graph)])
    assert len(counts) == 1


def test_sources_in_onnx_are_healed(signed: str) -> None:
    """A file that saturates is not written as it stands; one that selects is."""
    plain = layoutsolve.convert(network(), target=signed).model
    del plain.metadata_props[:]
    plain.producer_name = "other"
    source = plain.SerializeToString()
    healed = layoutsolve.convert(source)
    assert selects(healed.model) == 3 and not healed.kept
    assert layoutsolve.verify(source, healed).passed
    del healed.model.metadata_props[:]
    assert layoutsolve.convert(healed.model.SerializeToString()).kept


def integers(quant: QuantFormat | None, folder: Path) -> bytes:
    """A convolution and a dense layer, as ONNX Runtime quantizes them: when they run where no ``quant`` is given."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal(shape, np.float32) for shape in ((8, 3, 3, 3), (512, 10))]
    constants = [numpy_helper.from_array(each, name) for each, name in zip(weights, ("kernel", "matrix"), strict=True)]
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "matrix"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    made = folder / "quantized.onnx"
    if quant is None:
        quantize_dynamic(model, made, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8)
    else:
        quantize_static(model, made, _Samples(), quant, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return made.read_bytes()


class _Samples(CalibrationDataReader):
    """Inputs from which ranges are taken."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self._left = [{"x": random.standard_normal((1, 3, 8, 8), np.float32)} for _ in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


@pytest.mark.parametrize("quant", [QuantFormat.QDQ, QuantFormat.QOperator, None])
def test_sources_of_other_quantizers_are_healed(quant: QuantFormat | None, tmp_path: Path) -> None:
    """In whichever way they say that they are of bytes; what is left of a model that is loaded is its source."""
    source = integers(quant, tmp_path)
    healed = layoutsolve.convert(source)
    assert selects(healed.model) == (1 if quant is None else 2)
    feeds = {"x": np.random.default_rng(2).standard_normal((1, 3, 8, 8), np.float32)}
    made = healed.model.SerializeToString()
    for level, exact in product(LEVELS, (False, True)):
        model = forced(healed.model, exact).SerializeToString()
        (expected,), (found,) = (OnnxRuntime(each, level=level).run(feeds) for each in (source, model))
        np.testing.assert_array_equal(found, expected)
    before, after = (Counter(node.op_type for node in optimised(each, "all").graph.node) for each in (source, made))
    kernels = {name: count for name, count in before.items() if name in INTEGER or name.startswith("QLinear")}
    assert kernels and kernels.items() <= after.items() and not after["If"]
    again = read(made)
    assert "If" not in {each.op for each in again.nodes}


@pytest.mark.parametrize("target", ["ort-cpu", "portable", "openvino-cpu", "ort-web"])
def test_no_source_stands_that_saturates(target: str, tmp_path: Path) -> None:
    """Also where nothing else gains, and what is written has no weights to select: they have no sign for the target, or
    the layer is computed in floats, as convolutions by small groups are.
    """
    b, random = Bytes(0), np.random.default_rng(0)
    x = b.image(1, 8, 6, 6)
    weights = b.constant(
        random.integers(90, 128, (28, 2, 1, 1)), "int8", Quant(np.array([0.01], "f4"), np.zeros(1, "i1"))
    )
    graph = b.last("Conv", x, weights, shape=(1, 28, 6, 6), group=4)
    ways = (QuantFormat.QDQ, QuantFormat.QOperator, None)
    for source in (*(integers(way, tmp_path) for way in ways), serialise(graph).SerializeToString()):
        assert read(source).figures.saturating
        found = layoutsolve.convert(source, target=target)
        left = read(found.model.SerializeToString()).figures.saturating
        assert not found.kept and bool(left) == bool(selects(found.model))
        before, after = (OnnxRuntime(each, level="none") for each in (source, found.model.SerializeToString()))
        feeds = feeds_of(before)
        assert all(map(np.array_equal, before.run(feeds), after.run(feeds)))
        signed = layoutsolve.convert(source, target="ort-arm")
        assert signed.kept and read(signed.model.SerializeToString()).figures.saturating


@pytest.mark.parametrize("options", [{"quant": "qoperator"}, {"quant": "qoperator", "contrib": True}])
def test_operators_on_integers_are_selected(options: dict[str, Any]) -> None:
    """They name the type of their weights: each is there in both forms."""
    source = network()
    found = layoutsolve.convert(source, **options)
    assert selects(found.model) == 3
    ways = [node for node in found.model.graph.node if node.op_type == "If"]
    assert len(ways) == 3 and all(node.name.startswith(NAME) for node in ways)
    assert [node.name for node in ways if node.doc_string] == [NAME]
    assert layoutsolve.verify(source, found).passed
    without_a_sign = layoutsolve.convert(source, target="ort-web", quant="qoperator").model.SerializeToString()
    (x,) = found.model.graph.input
    feeds = {x.name: np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)}
    for level, exact in product(LEVELS, (False, True)):
        made = forced(found.model, exact).SerializeToString()
        (expected,), (got,) = (OnnxRuntime(each, level=level).run(feeds) for each in (without_a_sign, made))
        np.testing.assert_array_equal(got, expected)


@pytest.mark.skipif(shutil.which(processors.EMULATOR) is None, reason="qemu-x86_64 is not installed")
def test_emulated_processor(tmp_path: Path, signed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On a processor without VNNI plain weights with a sign are wrong, and that is told."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.tflite").write_bytes(network())
    report = tmp_path / "report.json"
    given = ["--processors", "Haswell", "--quant", "qoperator", "--json", str(report)]
    with pytest.raises(SystemExit) as ended:
        processors.main([str(tmp_path / "models"), *given, "--target", signed])
    told = capsys.readouterr().out
    name = f"models, {signed}, qoperator"
    assert ended.value.code == 1 and f"{name} on Haswell: 1 of 1 differ" in told
    assert len(json.loads(report.read_text())[name]["differ"]["Haswell"]) == 1 and f"| {name} | 1 | - | 1 (1) |" in told


@pytest.mark.parametrize("names", [["x", "w", "s", "s"], ["x", "w", "s", "s", "", "", "b"], ["x", "w", "s", "s", "z"]])
def test_zeros_may_be_left_out(names: list[str]) -> None:
    """At the end of the inputs, or between others: they are 0, and 128 for weights without a sign."""
    random = np.random.default_rng(0)
    held = {
        "w": random.integers(-127, 128, (16, 8)).astype(np.int8),
        "s": np.float32(0.1),
        "b": np.ones(8, np.float32),
        "z": np.uint8(3),
    }
    constants = [numpy_helper.from_array(np.asarray(held[name]), name) for name in dict.fromkeys(names) if name in held]
    node = helper.make_node("MatMulIntegerToFloat", names, ["y"], domain="com.microsoft")
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [4, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y], constants)
    source = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    found = layoutsolve.convert(source).model
    assert selects(found) == 1
    feeds = {"x": random.integers(0, 256, (4, 16)).astype(np.uint8)}
    for exact in (False, True):
        model = forced(found, exact).SerializeToString()
        (expected,), (got,) = (OnnxRuntime(each, level="none").run(feeds) for each in (source, model))
        np.testing.assert_allclose(got, expected, rtol=1e-6)
