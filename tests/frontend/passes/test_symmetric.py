"""Weights whose zero is 0: exact for the channels that fit into bytes with a sign, the nearest ones for the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper

import layoutsolve
from layoutsolve.emit import nodes_of
from layoutsolve.errors import OptionError
from layoutsolve.frontend.passes.symmetric import rounded
from layoutsolve.ir.graph import Graph, Quant
from tests.builder import Builder
from tests.builder import Quant as Steps
from tests.graphs import GraphBuilder, feeds, run

COUNT = 12
"""Channels."""


def steps(random: np.random.Generator, low: float, high: float) -> Quant:
    """Activations of bytes."""
    return Quant(np.array([random.uniform(low, high)], np.float32), random.integers(90, 160, 1).astype(np.uint8))


def network(seed: int, beyond: int, deep: bool = False, by_channel: bool = False) -> tuple[Graph, str]:
    """A convolution with a bias, of whose channels so many have weights beyond 8 bits with a sign; their name."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    zeros = random.choice([60, 100, 127, 129, 150, 200], COUNT if by_channel else 1).astype(np.uint8)
    scale = random.uniform(0.002, 0.01, len(zeros)).astype(np.float32)
    spread = np.broadcast_to(zeros.astype(int)[:, None], (COUNT, 1))
    rows = random.integers(np.maximum(0, spread - 128), np.minimum(255, spread + 127) + 1, (COUNT, 9 if deep else 36))
    for channel in random.choice(COUNT, beyond, replace=False):
        rows[channel, random.integers(rows.shape[1])] = 255 if spread[channel] < 128 else 0
    shape = (COUNT, 1 if deep else 4, 3, 3)
    weights = b.constant(rows.reshape(shape), "uint8", Quant(scale, zeros, 0 if by_channel else None))
    given = steps(random, 0.01, 0.03)
    bias = b.constant(
        random.integers(-3000, 3000, COUNT), "int32",
        Quant(scale * given.scale, np.zeros(len(scale), np.int32), 0 if by_channel else None),
    )  # fmt: skip
    x = b.input(1, COUNT if deep else 4, 6, 6, dtype="uint8", quant=given)
    y = b.op(
        "Conv", x, weights, bias, shape=(1, COUNT, 4, 4), dtype="uint8", quant=steps(random, 0.1, 0.3),
        group=COUNT if deep else 1, kernel_shape=(3, 3),
    )  # fmt: skip
    return b.graph(y), weights


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_weights_that_fit_change_nothing(seed: int, deep: bool, by_channel: bool) -> None:
    graph, weights = network(seed, 0, deep, by_channel)
    again = rounded(graph)
    value, before = again.values[weights], graph.values[weights]
    assert value.dtype == "int8" and value.quant is not None and before.quant is not None
    assert not value.quant.zero_point.any() and value.quant.axis == before.quant.axis
    np.testing.assert_array_equal(value.quant.real(value.data), before.quant.real(before.data))
    np.testing.assert_array_equal(run(again, feeds(graph, seed))[0], run(graph, feeds(graph, seed))[0])


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("beyond", [1, 3, COUNT])
def test_only_channels_that_do_not_fit_are_rounded(beyond: int, deep: bool, by_channel: bool) -> None:
    """To half a step of theirs, which is at most twice as large; results of others stay what they are."""
    for seed in range(6):
        graph, weights = network(seed, beyond, deep, by_channel)
        again = rounded(graph)
        value, before = again.values[weights], graph.values[weights]
        assert value.dtype == "int8" and value.quant is not None and before.quant is not None
        assert not value.quant.zero_point.any() and value.quant.axis == 0 and len(value.quant.scale) == COUNT
        coarser = value.quant.scale / before.quant.scale
        assert np.count_nonzero(coarser > 1) == beyond and coarser.min() >= 1 and coarser.max() <= 2
        off = np.abs(value.quant.real(value.data) - before.quant.real(before.data))
        assert (off <= value.quant.scale[:, None, None, None] * (coarser > 1)[:, None, None, None] * 0.5001).all()
        expected, found = (run(each, feeds(graph, seed))[0].astype(int) for each in (graph, again))
        np.testing.assert_array_equal(found[:, coarser == 1], expected[:, coarser == 1])
        assert np.abs(found - expected).max() <= 3


def test_biases_keep_their_worth() -> None:
    graph, _ = network(1, 3)
    node = rounded(graph).nodes[0]
    before, after = graph.values[graph.nodes[0].inputs[2]], rounded(graph).values[node.inputs[2]]
    assert before.quant is not None and after.quant is not None
    steps_of = np.broadcast_to(after.quant.scale, (COUNT,))
    assert (np.abs(after.quant.real(after.data) - before.quant.real(before.data)) <= 0.5001 * steps_of).all()


def other_reader(graph: Graph, weights: str) -> Graph:
    node = graph.nodes[0]
    shape = graph.values[weights].shape
    made = replace(graph.values[weights], name="other", data=None, shape=shape)
    again = replace(node, op="Relu", inputs=(weights,), outputs=("other",), attributes={})
    return replace(graph, nodes=(*graph.nodes, again), outputs=(*graph.outputs, "other"),
                   values={**graph.values, "other": made})  # fmt: skip


def test_what_others_read_stays() -> None:
    graph, weights = network(0, 2)
    both = other_reader(graph, weights)
    assert rounded(both).values[weights] is both.values[weights]
    ended = replace(graph, outputs=(*graph.outputs, weights))
    assert rounded(ended).values[weights] is ended.values[weights]


def test_two_convolutions_of_the_same_weights() -> None:
    """Each keeps a bias of its own."""
    graph, weights = network(3, 2)
    node, (_, _, bias) = graph.nodes[0], graph.nodes[0].inputs
    twin = replace(node, outputs=("twin",))
    result = replace(graph.values[node.outputs[0]], name="twin")
    both = replace(graph, nodes=(node, twin), outputs=(*graph.outputs, "twin"), values={**graph.values, "twin": result})
    again = rounded(both)
    assert again.values[weights].dtype == "int8" and bias not in again.values
    first, second = run(again, feeds(graph, 3))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_others_stay(dtype: str) -> None:
    """Weights whose zero is 0, and convolutions of floats."""
    graph, weights = network(0, 2)
    value, x = graph.values[weights], graph.values[graph.inputs[0]]
    if dtype == "int8":
        kept = Quant(np.array([0.01], np.float32), np.array([0], np.int8))
        changed = {weights: replace(value, dtype="int8", data=value.data.astype(np.int8), quant=kept)}
    else:
        changed = {x.name: replace(x, dtype="float32", quant=None)}
    other = replace(graph, values={**graph.values, **changed})
    assert rounded(other).values[weights] is other.values[weights]


def convolutions(seed: int) -> bytes:
    """A convolution and a depthwise one as the first quantizers wrote them."""
    builder, random = Builder(), np.random.default_rng(seed)
    x = image = builder.input("x", (1, 8, 8, 8), "uint8", quant=Steps([0.05], [120]))
    step = 0.05
    for place, (name, shape) in enumerate(
        (("CONV_2D", (16, 3, 3, 8)), ("DEPTHWISE_CONV_2D", (1, 3, 3, 16)), ("CONV_2D", (24, 1, 1, 16)))
    ):
        data = random.normal(0, 40, shape).clip(-150, 104).round() + 151
        weights = builder.constant(f"w{place}", data, "uint8", Steps([0.01], [151]))
        count = shape[3] if name.startswith("D") else shape[0]
        bias = builder.constant(f"b{place}", random.integers(-1000, 1000, count), "int32", Steps([step * 0.01], [0]))
        y = builder.tensor(f"y{place}", (1, 8, 8, count), "uint8", quant=Steps([0.1], [100]))
        options = {"padding": "SAME", "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        builder.operator(
            name, [x, weights, bias], [y], {**options, **({"depthMultiplier": 1} if name[0] == "D" else {})}
        )
        x, step = y, 0.1
    return builder.finish(x, inputs=[image])


@pytest.mark.parametrize("target", ["ort-cpu", "openvino-x86-vnni"])
@pytest.mark.parametrize("seed", range(3))
def test_the_option(target: str, seed: int) -> None:
    """Files hold weights whose zero is in the middle of their type, and stay near LiteRT; the rest is kept."""
    source = convolutions(seed)
    kept, found = (layoutsolve.convert(source, target=target, weights=way) for way in ("source", "symmetric"))
    constants = {each.name: numpy_helper.to_array(each) for each in found.model.graph.initializer}
    reads = [node.input for node in nodes_of(found.model.graph) if node.op_type == "DequantizeLinear"]
    stored = [(constants[data].dtype, constants[zero[0]]) for data, _, *zero in reads if data in constants and zero]
    weights = [(dtype, zero) for dtype, zero in stored if dtype != np.int32]
    assert len(weights) == 3 and all(dtype == np.int8 and not zero.any() for dtype, zero in weights)
    assert [node.op_type for node in found.model.graph.node] == [node.op_type for node in kept.model.graph.node]
    checked = layoutsolve.verify(source, found)  # by its outputs, as operators are not the source's
    assert checked.verdict == ("pass" if checked.outputs[0].passed else "not verified")
    assert ("verify --weights source" in str(checked)) != checked.passed
    distance = checked.outputs[0].distance
    assert distance.maximum <= 6 and distance.mean < 0.5
    certificate = layoutsolve.certify(source, found)
    assert layoutsolve.Certificate.from_json(certificate.to_json()).reading.weights == "symmetric"
    layoutsolve.check_certificate(source, found.model.SerializeToString(deterministic=True), certificate)


@pytest.mark.parametrize("quant", ["float", "exact"])
def test_ways_that_gain_nothing(quant: str) -> None:
    with pytest.raises(OptionError, match=f"weights: --quant {quant} gains nothing by symmetric ones"):
        layoutsolve.convert(convolutions(0), quant=quant, weights="symmetric")
