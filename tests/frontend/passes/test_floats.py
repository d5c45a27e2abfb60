"""Quantized activations as real numbers: the same without a rounding, saturated where integers would have been."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

import layoutsolve
from layoutsolve.errors import BudgetError
from layoutsolve.frontend.passes.float_activations import computed
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Quant, Value
from tests.builder import Builder
from tests.builder import Quant as Steps
from tests.graphs import GraphBuilder, feeds, run

SHAPE = (1, 4, 6)
KINDS = (
    "Add",
    "Mul",
    "Sub",
    "Relu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "Identity",
    "meant",
    "Transpose",
    "ReduceMax",
    "Max",
    "bound",
)
"""What stands in random graphs: 'meant' gives stored integers another meaning, 'bound' clamps stored integers."""


def quant(random: np.random.Generator, dtype: str) -> Quant:
    limits = np.iinfo(dtype)
    zero = 0 if dtype == "int16" else random.integers(limits.min, limits.max + 1)
    return Quant(np.array([random.uniform(0.005, 0.03)], np.float32), np.array([zero], dtype))


def network(seed: int, count: int | None = None) -> Graph:
    """A graph of random operators on quantized tensors, or of so many, of which the last one is an output, and one is
    as floats.
    """
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    dtype = str(random.choice(["int8", "uint8", "int16"]))
    names = [b.input(*SHAPE, dtype=dtype, quant=quant(random, dtype)) for _ in range(2)]
    for _ in range(int(random.integers(4, 12)) if count is None else count):
        kind, x = str(random.choice(KINDS)), str(random.choice(names))
        same, new = b.values[x].quant, quant(random, dtype)
        storage, attributes, shape, inputs = False, {}, SHAPE, [x]
        if kind in ("Add", "Mul", "Sub"):
            inputs.append(str(random.choice(names)))
        elif kind == "Max":
            inputs.append(b.constant(random.integers(0, 100, SHAPE), dtype, quant(random, dtype)))
        elif kind == "Clip":
            inputs += [b.constant(bound) for bound in np.sort(random.uniform(-1, 1, 2))]
        elif kind == "bound":
            kind, storage, new = "Clip", True, same
            inputs += [b.constant(bound, dtype) for bound in np.sort(random.integers(0, 100, 2))]
        elif kind == "meant":
            kind, storage = "Identity", True
        elif kind == "Transpose":
            storage, attributes, new = True, {"perm": (0, 1, 2)}, same if random.random() < 0.5 else new
        elif kind == "ReduceMax":
            attributes, storage = {"keepdims": 1, "noop_with_empty_axes": 0}, True
            inputs.append(b.constant([1], "int64"))
            new, shape = same, (1, 1, 6)
            made = b.op(kind, *inputs, shape=shape, dtype=dtype, quant=new, **attributes)
            b.nodes[-1] = replace(b.nodes[-1], storage=True)
            kind, inputs, storage, attributes, new, shape = "Add", [made, x], False, {}, quant(random, dtype), SHAPE
        names.append(b.op(kind, *inputs, shape=shape, dtype=dtype, quant=new, **attributes))
        b.nodes[-1] = replace(b.nodes[-1], storage=storage)
    real = b.op("Identity", names[-2], shape=SHAPE)
    return b.graph(names[-1], real)


def numbers(graph: Graph, seed: int) -> list[Array]:
    """Inputs over the whole range of their types."""
    random = np.random.default_rng(seed)
    dtypes = [np.dtype(graph.values[name].dtype) for name in graph.inputs]
    return [random.integers(np.iinfo(each).min, np.iinfo(each).max + 1, SHAPE).astype(each) for each in dtypes]


def expected(graph: Graph, given: list[Array]) -> list[Array]:
    """What the outputs mean, by real numbers that are clamped to what integers could mean."""
    found = {name: meant(graph.values[name], data) for name, data in zip(graph.inputs, given, strict=True)}
    for node in graph.nodes:
        shared = graph.values[node.inputs[0]].quant if node.storage else None
        for name in node.inputs:
            value = graph.values[name]
            if value.data is not None:
                found[name] = np.asarray(meant(replace(value, quant=value.quant or shared), value.data), np.float64)
        value = graph.values[node.outputs[0]]
        result = computed_alone(node, [found[name] for name in node.inputs])
        if shared is not None and value.quant is not None:
            counts = result / float(shared.scale[0]) + int(shared.zero_point[0])
            result = (counts - int(value.quant.zero_point[0])) * float(value.quant.scale[0])
        if value.quant is not None:
            limits = np.iinfo(value.dtype)
            ends = [
                (end - int(value.quant.zero_point[0])) * float(value.quant.scale[0]) for end in (limits.min, limits.max)
            ]
            result = np.clip(result, *ends)
        found[value.name] = result
    return [found[name] for name in graph.outputs]


def meant(value: Value, data: Array) -> Array:
    """Real numbers of stored ones."""
    if value.quant is None or value.dtype == "int64":
        return np.asarray(data)
    return np.asarray((data.astype(np.float64) - int(value.quant.zero_point[0])) * float(value.quant.scale[0]))


def computed_alone(node: Node, given: list[Array]) -> Array:
    x, *others = given
    functions = {
        "Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Max": np.maximum, "Clip": np.clip,
        "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: (np.tanh(x / 2) + 1) / 2, "Tanh": np.tanh,
        "Identity": np.array, "Transpose": np.array, "ReduceMax": lambda x, _: x.max(1, keepdims=True),
    }  # fmt: skip
    return np.asarray(functions[node.op](x, *others))


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_rounded_and_all_saturates(seed: int) -> None:
    graph = network(seed)
    again, given = computed(graph, Budget()), numbers(graph, seed)
    stored_last, real = run(again, given)
    truth = expected(graph, given)
    last = graph.values[graph.outputs[0]]
    scale = float(graph.values[graph.nodes[-1].inputs[0]].quant.scale[0])  # type: ignore[union-attr]
    np.testing.assert_allclose(real, truth[1], atol=0.51 * scale, rtol=1e-4)
    assert np.mean(np.abs(real - truth[1])) < 0.05 * scale, "mostly it is no rounding that tells them apart"
    np.testing.assert_allclose(meant(last, stored_last), truth[0], atol=1.01 * float(last.quant.scale[0]))  # type: ignore[union-attr]
    inside = [name for name in again.values if name not in (*again.inputs, *again.outputs)]
    assert all(again.values[name].quant is None or again.values[name].data is not None for name in inside)


def test_a_clamp_and_the_range_are_one() -> None:
    b, steps = GraphBuilder(), Quant(np.array([0.1], np.float32), np.array([-28], np.int8))
    x = b.input(1, 4, 4, 4)
    y = b.op("Conv", x, b.weights(4, 4, 1, 1), shape=(1, 4, 4, 4), dtype="int8", quant=steps)
    y = b.op("Clip", y, b.constant(-9, "int8"), b.constant(120, "int8"), shape=(1, 4, 4, 4), dtype="int8", quant=steps)
    b.nodes[-1] = replace(b.nodes[-1], storage=True)
    y = b.op("MaxPool", y, shape=(1, 4, 4, 4), dtype="int8", quant=steps, kernel_shape=(1, 1))
    graph = computed(b.graph(b.op("Identity", y, shape=(1, 4, 4, 4))), Budget())
    assert Counter(node.op for node in graph.nodes) == {"Conv": 1, "Clip": 1, "MaxPool": 1, "Identity": 1}
    (clip,) = (node for node in graph.nodes if node.op == "Clip")
    bounds = [float(graph.values[name].data) for name in clip.inputs[1:]]  # type: ignore[arg-type]
    np.testing.assert_allclose(bounds, [1.9, 14.8], rtol=1e-5)


def test_what_looks_at_integers_gets_them() -> None:
    b, steps = GraphBuilder(), Quant(np.array([0.1], np.float32), np.array([5], np.int8))
    x = b.input(3, 4)
    y = b.op("Abs", x, shape=(3, 4), dtype="int8", quant=steps)
    y = b.op("Identity", y, shape=(3, 4), dtype="int8")
    b.nodes[-1] = replace(b.nodes[-1], storage=True)
    graph = b.graph(b.op("Cast", y, shape=(3, 4), dtype="int32", to="int32"))
    again = computed(graph, Budget())
    np.testing.assert_array_equal(run(again, feeds(graph))[0], run(graph, feeds(graph))[0])


def test_graphs_of_floats_are_the_same_objects() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(3, 4)))
    assert computed(graph, Budget()) is graph


def test_constants_count() -> None:
    b, steps = GraphBuilder(), Quant(np.array([0.1], np.float32), np.array([5], np.int8))
    x = b.input(1000, dtype="int8", quant=steps)
    y = b.op("Concat", x, b.constant(np.zeros(9000), "int8", steps), shape=(10_000,), dtype="int8", quant=steps, axis=0)
    b.nodes[-1] = replace(b.nodes[-1], storage=True)
    graph, budget = b.graph(y), Budget(1000)
    budget.spend(budget.left - 1000)
    with pytest.raises(BudgetError):
        computed(graph, budget)


def test_what_is_read_several_times_is_made_once() -> None:
    """As the table of a cell that is written step by step."""
    b, steps = GraphBuilder(), Quant(np.array([0.1], np.float32), np.array([5], np.int8))
    table, ends = np.zeros(9000, np.int8), []
    for quant in (steps, Quant(np.array([0.2], np.float32), np.array([5], np.int8))):
        x = b.input(1000, dtype="int8", quant=quant)
        for _ in range(3):
            shape = (b.shape(x)[0] + 9000,)
            x = b.op("Concat", x, b.constant(table, "int8", quant), shape=shape, dtype="int8", quant=quant, axis=0)
            b.nodes[-1] = replace(b.nodes[-1], storage=True)
        ends.append(x)
    made = computed(b.graph(*ends), Budget())
    assert [value.data[0] for value in made.values.values() if value.data is not None] == [np.float32(-0.5), -1.0]


def convolution(zero: int = 3, last: int = -128) -> bytes:
    """A convolution of int8 with a clamp and a view, whose ends are stored as integers with these zero points."""
    builder, random = Builder(), np.random.default_rng(0)
    x = builder.input("x", (1, 6, 6, 8), "int8", quant=Steps([0.05], [zero]))
    weights = builder.constant("w", random.integers(-127, 128, (8, 3, 3, 8)), "int8", Steps([0.01], [0]))
    bias = builder.constant("b", random.integers(-1000, 1000, 8), "int32", Steps([0.0005], [0]))
    y = builder.tensor("y", (1, 6, 6, 8), "int8", quant=Steps([0.04], [last]))
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, "fusedActivationFunction": "RELU6"}
    options |= {"dilationHFactor": 1, "dilationWFactor": 1}
    builder.operator("CONV_2D", [x, weights, bias], [y], options)
    return builder.finish(y, inputs=[x])


def test_the_option() -> None:
    source = convolution()
    model = layoutsolve.convert(source, quant="float").model
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["QuantizeLinear"] == operators["DequantizeLinear"] == 1, "at the ends"
    floats = [list(each.dims) for each in model.graph.initializer if each.data_type == TensorProto.FLOAT]
    assert all(np.prod(dims) <= 8 for dims in floats), "weights are small"
    assert layoutsolve.verify(source, layoutsolve.convert(source, quant="float")).outputs[0].distance.maximum <= 1
    found = layoutsolve.convert(source, quant="float")
    certificate = layoutsolve.certify(source, found)
    assert layoutsolve.Certificate.from_json(certificate.to_json()).reading.quant == "float"
    layoutsolve.check_certificate(source, found.model.SerializeToString(deterministic=True), certificate)
    assert layoutsolve.convert(source).model == layoutsolve.convert(source, quant="qdq").model
