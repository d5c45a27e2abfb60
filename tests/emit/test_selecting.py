"""Weights that are selected when a model is loaded: the same bytes in either form, on this processor and on others."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import layoutsolve
from experiments import processors
from layoutsolve.emit import nodes_of, serialise
from layoutsolve.emit.selecting import NAME, selects
from layoutsolve.frontend import read
from layoutsolve.frontend.passes import weights
from layoutsolve.graph import Graph, Quant
from layoutsolve.saturation import saturating, too_large
from tests.emit.test_qlinear import Bytes, convolution, dense, given, product
from tests.networks import Quantised

SEEDS = range(0, 24, 2)
"""Those of which :class:`Bytes` gives activations without a sign."""


def made(seed: int) -> Graph:
    """A product of bytes by weights with a sign."""
    family = (convolution, dense, product)[seed // 2 % 3]
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
    model, right = serialise(graph, select=True), serialise(weights.stored(graph, "unsigned"))
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


def test_some_saturate_and_some_do_not() -> None:
    """The family above has both, and small weights need no selection."""
    assert any(saturating(made(seed)) for seed in SEEDS)
    b = Bytes(0)
    x = b.image(1, 4, 6, 6)
    small = b.constant(
        b.random.integers(-60, 61, (8, 4, 3, 3)), "int8", Quant(np.array([0.01], "f4"), np.zeros(1, "i1"))
    )
    graph = b.last("Conv", x, small, shape=(1, 8, 4, 4), kernel_shape=[3, 3])
    assert not saturating(graph) and serialise(graph, select=True) == serialise(graph)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_pairs_that_are_too_large(size: int) -> None:
    """Two neighbours saturate exactly where their products with 255 leave 16 bits."""
    random = np.random.default_rng(size)
    for _ in range(200):
        row = random.integers(-128, 128, size).astype(np.int8)
        pairs = [(255 * int(a), 255 * int(b)) for a, b in pairwise(row)]
        expected = sum(max(a, 0) + max(b, 0) > 32767 or min(a, 0) + min(b, 0) < -32768 for a, b in pairs)
        assert too_large(row[None]) == (expected, size - 1)


def network() -> bytes:
    """Layers of bytes, one of them shared, between floats."""
    net = Quantised()
    net.largest = 128
    x = net.input(1, 8, 8, 4)
    x = net.conv(net.conv(x, 8, 3), 8, 1)
    return net.model(net.dense(net.reshape(x, 1, 512), 7)).source


def test_stored_once_and_named() -> None:
    """One node, which says what it is for, in a file as large as the plain one; its own reader gets the layers back."""
    source = network()
    found, plain = layoutsolve.convert(source), layoutsolve.convert(source, target="ort-x86-vnni")
    (node,) = (node for node in found.model.graph.node if node.op_type == "If")
    assert node.name == NAME and "this processor" in node.doc_string and len(node.output) == selects(found.model) == 3
    own, other = (
        sum(len(each.raw_data) for each in model.graph.initializer if each.data_type in (2, 3) and len(each.dims) > 1)
        for model in (found.model, plain.model)
    )
    assert own <= other * 1.02
    again = read(found.model.SerializeToString())
    assert "If" not in {each.op for each in again.nodes} and len(saturating(again)) == 3


def test_sources_in_onnx_are_healed() -> None:
    """A file that saturates is not written as it stands; one that selects is."""
    plain = layoutsolve.convert(network(), target="ort-x86-vnni").model
    del plain.metadata_props[:]
    plain.producer_name = "other"
    source = plain.SerializeToString()
    healed = layoutsolve.convert(source)
    assert selects(healed.model) == 3 and not healed.kept
    assert layoutsolve.verify(source, healed).passed
    del healed.model.metadata_props[:]
    assert layoutsolve.convert(healed.model.SerializeToString()).kept


def test_operators_on_integers_have_weights_without_a_sign() -> None:
    """They name the type of their weights, which is right on every processor."""
    model = layoutsolve.convert(network(), quant="qoperator").model
    assert not selects(model) and "QLinearConv" in {node.op_type for node in model.graph.node}


@pytest.mark.skipif(shutil.which(processors.EMULATOR) is None, reason="qemu-x86_64 is not installed")
def test_emulated_processor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a processor without VNNI the default is right; plain weights with a sign are not, so that it can be told."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.tflite").write_bytes(network())
    report = tmp_path / "report.json"
    for target, differ in (("ort-cpu", 0), ("ort-x86-vnni", 1)):
        with pytest.raises(SystemExit) as ended:
            processors.main(
                [str(tmp_path / "models"), "--processors", "Haswell", "--target", target, "--json", str(report)]
            )
        assert ended.value.code == differ and f"{differ} of 1 differ" in capsys.readouterr().out
        assert len(json.loads(report.read_text())[target]["differ"]["Haswell"]) == differ
