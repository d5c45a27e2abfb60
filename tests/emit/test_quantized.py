"""Quantization written out: each stored tensor has one QuantizeLinear and one DequantizeLinear at most."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import onnx
import pytest

from layoutsolve.emit import nodes_of, serialise
from layoutsolve.ir.graph import Array, Graph, Quant
from tests.graphs import GraphBuilder, computed, run

STEPS = (0.05, 0.07)


def quant(scale: float, zero: int = 3) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero], np.int8))


def network(seed: int, size: int = 12) -> Graph:
    """Sums, limits and changes of scale over tensors of bytes, each of which may be read by several."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    pool = [b.input(2, 3, dtype="int8", quant=quant(STEPS[0]))]
    for _ in range(size):
        first, second = (str(random.choice(pool[-4:])) for _ in range(2))
        op, given = [("Add", (first, second)), ("Relu", (first,)), ("Identity", (first,))][int(random.integers(3))]
        scale = quant(float(random.choice(STEPS)))
        pool.append(b.op(op, *given, shape=(2, 3), dtype="int8", quant=scale))
    return b.graph(pool[-1])


def meaning(graph: Graph, data: Array) -> Array:
    """What a network means, computed one operator after the other in numpy."""
    found = {graph.inputs[0]: data}
    for node in graph.nodes:
        reals = [graph.values[name].quant.real(found[name]) for name in node.inputs]  # type: ignore[union-attr]
        result = reals[0] + reals[1] if node.op == "Add" else np.maximum(reals[0], 0) if node.op == "Relu" else reals[0]
        scale = graph.values[node.outputs[0]].quant
        assert scale is not None
        stored = np.rint(result / scale.scale) + scale.zero_point
        found[node.outputs[0]] = np.clip(stored, -128, 127).astype(np.int8)
    return found[graph.outputs[0]]


@pytest.mark.parametrize("seed", range(20))
def test_one_of_each(seed: int) -> None:
    """O operators over T quantized tensors are O + 2T nodes at most, but for barriers, and give what they mean."""
    graph = network(seed)
    nodes = list(nodes_of(serialise(graph).graph))
    made, read = (Counter(node.input[0] for node in nodes if node.op_type == "DequantizeLinear"),
                  Counter(node.output[0] for node in nodes if node.op_type == "QuantizeLinear"))  # fmt: skip
    assert max(made.values()) == max(read.values()) == 1
    operators = sum(node.op != "Identity" for node in graph.nodes)
    barriers = sum(node.op_type == "Max" for node in nodes)
    assert len(nodes) - barriers <= operators + 2 * (len(graph.nodes) + 1)
    data = np.random.default_rng(seed).integers(-128, 128, (2, 3)).astype(np.int8)
    expected = meaning(graph, data).astype(int)
    assert np.abs(run(graph, [data])[0].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("axis", [0, 1])
def test_parameters_along_an_axis(axis: int) -> None:
    """Constants with one scale per index, which have the axis as an attribute and one parameter per index."""
    b = GraphBuilder()
    count = (4, 6)[axis]
    scales, zeros = np.linspace(0.1, 1, count, dtype=np.float32), np.arange(count, dtype=np.int8)
    weights = b.constant(np.arange(24).reshape(4, 6), "int8", Quant(scales, zeros, axis))
    graph = b.graph(b.op("Add", b.input(4, 6, dtype="int8", quant=quant(1, 0)), weights, shape=(4, 6)))
    model = serialise(graph)
    (node,) = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.attribute]
    assert [attribute.i for attribute in node.attribute] == [axis]
    expected = graph.values[weights].quant.real(np.arange(24).reshape(4, 6))  # type: ignore[union-attr]
    np.testing.assert_allclose(run(graph, [np.zeros((4, 6), np.int8)])[0], expected, rtol=1e-6)


def layers(seed: int) -> Graph:
    """Layers of bytes, one after another, some by the limits of what OpenVINO joins, with a bias of any kind."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    rows, *widths = int(random.choice([1, 8, 9])), *map(int, random.choice([1, 16, 256, 257], 4))
    name = b.input(rows, widths[0], dtype="int8", quant=quant(0.02))
    for before, after in pairwise(widths):
        scales = random.uniform(0.5, 1, after).astype(np.float32) / (before * 127)
        numbers = random.integers(-127, 128, (before, after))
        steps = Quant(scales, np.zeros(after, np.int8), 1)
        inputs = [name, b.constant(numbers, str(random.choice(["int8", "int8", "uint8"])), steps)]
        biases = [None, np.zeros(after), np.full(after, -0.25), random.uniform(-1, 1, after)]
        bias = biases[int(random.integers(4))]
        op = "Gemm" if bias is not None or random.integers(2) else "MatMul"
        inputs += [] if bias is None else [b.constant(bias.astype(np.float32), "float32")]
        name = b.op(op, *inputs, shape=(rows, after), dtype="int8", quant=quant(0.02))
    return b.graph(name)


@pytest.mark.parametrize("seed", range(24))
def test_layers_have_a_bias(seed: int) -> None:
    """Each product of few numbers by int8 weights adds a vector of numbers that differ, which changes no result."""
    graph = layers(seed)
    model = serialise(graph)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    products = [each for each in model.graph.node if each.op_type in ("Gemm", "MatMul")]
    for node, written in zip(graph.nodes, products, strict=True):
        (rows, width), weights = graph.values[node.outputs[0]].shape, graph.values[node.inputs[1]]
        few = rows <= 8 and max(width, weights.shape[0]) <= 256 and weights.dtype == "int8"
        bias = constants[written.input[2]] if len(written.input) > 2 else None
        assert not few or (bias is not None and (width == 1 or np.unique(bias).size > 1))
        assert few or (written.op_type, len(written.input)) == (node.op, len(node.inputs))
    data = np.random.default_rng(seed).integers(-128, 128, graph.values[graph.inputs[0]].shape).astype(np.int8)
    (result,) = computed(model, [data])
    for each in model.graph.initializer:
        if each.name.endswith("/bias"):
            equal = constants[each.name][-1] if each.dims[0] > 1 else 0
            each.CopyFrom(onnx.numpy_helper.from_array(np.full(each.dims[0], equal, np.float32), each.name))
    np.testing.assert_array_equal(computed(model, [data])[0], result)
