"""The accuracy of each tensor: right models are near everywhere, and the tensor that a fault is in tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import layoutsolve
from layoutsolve.verification.layer_table import Closeness
from layoutsolve.verification.litert import Port
from layoutsolve.verification.tensor_statistics import Tally
from tests.builder import Builder
from tests.networks import Network, Quantized
from tests.random_models import network
from tests.random_onnx import random_model


@pytest.mark.parametrize("seed", range(6))
def test_right_models_of_tensorflow_lite(seed: int) -> None:
    source = network(seed).source
    found = layoutsolve.verify(source, layoutsolve.convert(source), tensors=True, samples=1).inspection
    assert found is not None and len(found.layers) == found.compared > 0
    for each in found.layers:
        assert each.maximum <= (3 if each.quantized else 1e-4) and each.cosine > 0.99, each
    assert len(str(found).splitlines()) == len(found.layers) + 2
    plain = layoutsolve.verify(source, layoutsolve.convert(source), samples=1).inspection
    assert plain is not None and not plain.layers


@pytest.mark.parametrize("net", [Network, Quantized])
def test_the_tensor_of_a_fault(net: type[Network]) -> None:
    """The second of three convolutions has other weights: only its own tensor is off, as each is computed from
    LiteRT's.
    """
    built = net()
    x = built.input(1, 8, 8, 4)
    for _ in range(3):
        x = built.conv(x, 8, 3)
    source = built.model(x).source
    conversion = layoutsolve.convert(source, target="portable")
    model = onnx.ModelProto()
    model.CopyFrom(conversion.model)
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    makers = {name: node for node in model.graph.node for name in node.output}
    name = convolutions[1].input[1]
    name = makers[name].input[0] if name in makers else name
    (weights,) = (each for each in model.graph.initializer if each.name == name)
    data = numpy_helper.to_array(weights)
    weights.CopyFrom(numpy_helper.from_array(np.flip(data, 0).copy(), name))
    found = layoutsolve.verify(source, replace(conversion, model=model), tensors=True, samples=1).inspection
    assert found is not None and found.departure is not None
    noises = [np.inf if each.sqnr is None else each.sqnr for each in found.layers]
    assert noises[1] < 10 and min(noises[0], *noises[2:]) > 30


@pytest.mark.parametrize("seed", range(8))
def test_sources_in_onnx(seed: int) -> None:
    """Tensors that both have are near, in the source's own order of dimensions."""
    _, model = random_model(seed)
    source = model.SerializeToString()
    found = layoutsolve.verify(source, layoutsolve.convert(source), tensors=True, samples=1)
    assert found.passed and found.inspection is not None and not found.inspection.note
    for each in found.inspection.layers:
        assert each.maximum <= 1e-4 and each.operator == model.graph.node[each.index].op_type, each


@pytest.mark.parametrize("to", ["onnx", "tflite"])
def test_integers_that_are_stored_otherwise_are_not_beyond_the_threshold(to: Literal["onnx", "tflite"]) -> None:
    """Of a quantized source in ONNX: int8 activations may become uint8."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,4,8,8] x) => (float[1,4,8,8] y)
        <float s = {0.02}, int8 z = {0}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) w = DequantizeLinear(v, s, z)
        a = Conv<pads = [1, 1, 1, 1]>(d, w) b = QuantizeLinear(a, s, z) c = DequantizeLinear(b, s, z)
        e = Conv<pads = [1, 1, 1, 1]>(c, w) f = QuantizeLinear(e, s, z) y = DequantizeLinear(f, s, z) }"""
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(1).integers(-9, 10, (4, 4, 3, 3)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "v"))
    source = model.SerializeToString()
    found = layoutsolve.verify(source, layoutsolve.convert(source, to=to), tensors=True, samples=1)
    assert found.passed and found.inspection is not None and found.inspection.layers
    assert all(each.cosine > 0.99 for each in found.inspection.layers), str(found.inspection)


def test_the_first_tensor_beyond_the_threshold_of_a_source_in_onnx() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,4,8,8] x) => (float[1,4,8,8] y)
        <float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
        a = Relu(x) b = Conv(a, w) c = Transpose<perm = [0, 2, 3, 1]>(b) d = Transpose<perm = [0, 3, 1, 2]>(c)
        e = Sigmoid(d) y = Neg(e) }"""
    source = onnx.parser.parse_model(text).SerializeToString()
    conversion = layoutsolve.convert(source)
    model = onnx.ModelProto()
    model.CopyFrom(conversion.model)
    (weights,) = (each for each in model.graph.initializer if each.name == "w")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * np.float32(1.5), "w"))
    found = layoutsolve.verify(source, replace(conversion, model=model), tensors=True)
    assert not found.passed and found.inspection is not None
    assert "first beyond the threshold is operator 1 Conv" in str(found.inspection)


def test_strings_are_compared_inside() -> None:
    builder = Builder()
    x, places = builder.input("x", (4,), "string"), builder.input("places", (6,), "int32")
    y, z, last = (builder.tensor(name, (size,), "string") for name, size in (("y", 6), ("z", 6), ("last", 3)))
    builder.operator("GATHER", [x, places], [y], {"axis": 0})
    builder.operator("RESHAPE", [y, builder.constant("shape", [6], "int32")], [z], {})
    builder.operator("GATHER", [z, builder.constant("some", [0, 2, 1], "int32")], [last], {"axis": 0})
    source = builder.finish(last)
    found = layoutsolve.verify(source, layoutsolve.convert(source), tensors=True, samples=1)
    assert found.passed and found.inspection is not None and found.inspection.compared == 3


def test_figures() -> None:
    """By hand: errors of 0.1 beside a signal of 1 are 20 dB, and what is equal is exact."""
    one = np.array([1, -1, 1, -1], np.float32)
    close = Closeness(Port("x", "float32", (), (), (), ()))
    close.add(one, one)
    assert close.layer(3, "ADD").sqnr is None
    small = Closeness(Port("x", "float32", (), (), (), ()))
    small.add(one / 100, one / 50)
    small.add(one / 100, one[::-1] / 50)
    assert small.layer(3, "ADD").cosine == pytest.approx(0)
    small.add(one / 50, one / 25)
    assert small.layer(3, "ADD").cosine == pytest.approx(4 / 6)
    close.add(one, one + np.float32(0.1) * np.sqrt(2).astype(np.float32))
    found = close.layer(3, "ADD")
    assert found.sqnr == pytest.approx(20, abs=1e-3) and found.maximum == pytest.approx(0.0707, abs=1e-3)
    close = Closeness(Port("x", "int8", (), (), (0.5,), (10,)))
    close.add(np.array([20, 0], np.int8), np.array([21, 0], np.int8))
    found = close.layer(0, "ADD")
    assert found.maximum == 1 and found.sqnr == pytest.approx(10 * np.log10(200))
    close.add(np.zeros(2, np.int8), np.zeros(3, np.int8))
    assert close.layer(0, "ADD").maximum == np.inf


def test_runs_that_agree_take_no_reason_back() -> None:
    expected, tally = np.arange(4, dtype=np.float32), Tally(Port("x", "float32", (4,), (4,), (), ()), "ABS")
    for times, wrong in ((1, False), (1.00001, False), (2, True), (1.00001, True), (1, True)):
        tally.add_floats(expected, np.float32(times) * expected, None, lambda: None)
        assert bool(tally.reason) == wrong
