"""Constants whose numbers a runtime computes when it loads a model, because no kernel on integers could read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto

import layoutsolve
from layoutsolve.emit import QuantForm, nodes_of, serialise
from layoutsolve.emit.runtime_folding import FOLDED
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.storage_options import Storage
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime, optimised
from tests.graphs import GraphBuilder, run
from tests.networks import Quantized

ACTIVATION = Quant(np.array([0.04], np.float32), np.array([3], np.int8))


def random_quant(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Quant:
    """Parameters for all elements, or along a random axis; a third of them without zero points."""
    axis = int(random.integers(len(shape))) if random.random() < 0.7 else None
    count = 1 if axis is None else shape[axis]
    zeros = np.zeros(count) if random.random() < 0.3 or dtype == "int32" else random.integers(0, 100, count)
    return Quant(random.uniform(1e-3, 1, count).astype(np.float32), zeros.astype(dtype), axis)


def combined(seed: int, dtype: str) -> tuple[Graph, str]:
    """A random constant that is added to floats, and its name."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    shape = tuple(int(size) for size in random.integers(1, 5, int(random.integers(1, 5))))
    data = random.integers(0, 100, shape) - (0 if dtype.startswith("u") else 50)
    weights = b.constant(data, dtype, random_quant(random, shape, dtype))
    return b.graph(b.op("Add", b.input(*shape), weights, shape=shape)), weights


@pytest.mark.parametrize("dtype", sorted(FOLDED))
@pytest.mark.parametrize("seed", range(12))
def test_among_floats(seed: int, dtype: str) -> None:
    """What is left to run has constants of floats alone; every number is the one that DequantizeLinear gives."""
    graph, weights = combined(seed, dtype)
    value = graph.values[weights]
    assert value.quant is not None and value.data is not None
    model = serialise(graph)
    assert not any(node.op_type == "DequantizeLinear" for node in nodes_of(model.graph))
    operators = Counter(node.op_type for node in optimised(model.SerializeToString(), "basic").graph.node)
    assert operators == {"Add": 1}
    np.testing.assert_array_equal(run(graph, [np.zeros(value.shape, np.float32)])[0], value.quant.real(value.data))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_a_constant_means(dtype: str) -> None:
    """An Identity to floats is computed on loading; one to other integers is not."""
    b = GraphBuilder()
    quant = Quant(np.array([0.1], np.float32), np.array([3], np.int8))
    table = b.constant(np.arange(24).reshape(4, 6), "int8", quant)
    made = b.op("Identity", table, shape=(4, 6), dtype=dtype, quant=ACTIVATION if dtype == "int8" else None)
    model = serialise(b.graph(b.op("Add", b.input(4, 6), made, shape=(4, 6))))
    operators = Counter(node.op_type for node in nodes_of(model.graph))
    assert operators["Cast"] == (dtype == "float32") and bool(operators["DequantizeLinear"]) == (dtype == "int8")


@pytest.mark.parametrize("result", ["int8", "int16", "float32"])
@pytest.mark.parametrize("given", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Add"])
def test_beside_wide_integers(op: str, given: str, result: str) -> None:
    """No kernel multiplies numbers of 16 bits by weights, or gives them: such weights are floats from the start."""
    b, quants = GraphBuilder(), {"int16": Quant(np.array([0.001], np.float32), np.zeros(1, np.int16)), "float32": None}
    for name in ("int8", "uint8"):
        quants[name] = Quant(np.array([0.04], np.float32), np.array([3], name))
    weights = b.constant(np.arange(16).reshape(4, 4), "int8", Quant(np.array([0.1], np.float32), np.zeros(1, np.int8)))
    x = b.input(4, 4, dtype=given, quant=quants[given])
    graph = b.graph(b.op(op, x, weights, shape=(4, 4), dtype=result, quant=quants[result]))
    operators = Counter(node.op_type for node in nodes_of(serialise(graph).graph))
    assert bool(operators["Cast"]) == (op != "Add" and "int16" in (given, result))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("seed", range(3))
def test_of_transposed_convolutions(seed: int, dtype: str, bias: bool) -> None:
    """ONNX Runtime has no kernel on bytes for them: it computes on floats in any case, and no DequantizeLinear of
    weights is left to run. Nothing is rounded at any level.
    """
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    channels, produced, kernel = (int(size) for size in random.integers(1, 5, 3))
    ends = [Quant(np.array([scale], np.float32), np.array([3], dtype)) for scale in (0.04, 0.3)]
    scale = random.uniform(0.01, 0.02, produced).astype(np.float32)
    by_channel = Quant(scale, np.zeros(produced, np.int8), 1)
    weights = b.constant(random.integers(-127, 128, (channels, produced, kernel, kernel)), "int8", by_channel)
    steps = Quant(scale * np.float32(0.04), np.zeros(produced, np.int32), 0)
    rest = [b.constant(random.integers(-500, 500, produced), "int32", steps)] if bias else []
    size = 3 + kernel
    x = b.input(1, channels, 4, 4, dtype=dtype, quant=ends[0])
    y = b.op("ConvTranspose", x, weights, *rest, shape=(1, produced, size, size), dtype=dtype, quant=ends[1])
    graph = b.graph(y)
    model = serialise(graph)
    left = [node.op_type for node in optimised(model.SerializeToString(), "all").graph.node]
    assert left.count("DequantizeLinear") == 1 and "Cast" not in left
    data = random.integers(0, 100, (1, channels, 4, 4)).astype(dtype)
    for level in LEVELS:
        found = OnnxRuntime(model.SerializeToString(), threads=1, level=level).run({x: data})
        np.testing.assert_array_equal(found[0], run(graph, [data])[0])


def convolved(
    channels: int,
    given: int,
    kernel: int,
    side: int,
    *,
    groups: int = 1,
    dtype: str = "int8",
    bias: bool = False,
    behind: str = "Conv",
) -> Graph:
    """A convolution of bytes, and what reads it."""
    b = GraphBuilder()
    ends = [Quant(np.array([scale], np.float32), np.array([3], dtype)) for scale in (0.04, 0.3)]
    scale = b.random.uniform(0.01, 0.02, given).astype(np.float32)
    by_result = Quant(scale, np.zeros(given, np.int8), 0)
    steps = Quant(scale * np.float32(0.04), np.zeros(given, np.int32), 0)
    weights = b.constant(b.random.integers(-127, 128, (given, channels // groups, kernel, kernel)), "int8", by_result)
    rest = [b.constant(b.random.integers(-500, 500, given), "int32", steps)] if bias else []
    x, size = b.input(1, channels, side, side, dtype=dtype, quant=ends[0]), side - kernel + 1
    given_on = {"dtype": dtype, "quant": ends[1]}
    window = {"group": groups, "kernel_shape": (kernel, kernel), "strides": (1, 1)}
    y = b.op("Conv", x, weights, *rest, shape=(1, given, size, size), **given_on, **window)
    more = b.constant(b.random.integers(-127, 128, (16, given, 1, 1)), "int8", Quant(scale[:1], np.zeros(1, np.int8)))
    for op in behind.split():
        shape = (1, 16 if op == "Conv" else given, size, size)
        other = b.input(*shape, **given_on) if op == "Sum" else y
        operands = {"Conv": [y, more], "Add": [y, y], "Sum": [y, other]}.get(op, [y])
        attributes = {"kernel_shape": (1, 1)} if op in ("Conv", "MaxPool") else {}
        y = b.op("Add" if op == "Sum" else op, *operands, shape=shape, **given_on, **attributes)
    return b.graph(y)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("channels", "given", "groups", "side"), [(3, 16, 1, 30), (1, 8, 1, 20), (16, 32, 4, 7)])
def test_of_convolutions_that_take_longer(
    channels: int, given: int, groups: int, side: int, dtype: str, bias: bool
) -> None:
    """They are computed in floats at all levels, and ONNX Runtime does not round their weights again. Behind them it
    computes on bytes where these have no sign.
    """
    graph = convolved(channels, given, 3, side, groups=groups, dtype=dtype, bias=bias)
    model = serialise(graph)
    left = [node.op_type for node in optimised(model.SerializeToString(), "all").graph.node]
    assert left.count("QLinearConv") == 2 - left.count("Conv") == (dtype == "uint8") and "Cast" not in left
    (x,) = graph.inputs
    data = np.random.default_rng(0).integers(0, 100, graph.values[x].shape).astype(dtype)
    (expected,) = run(graph, [data])
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), threads=1, level=level).run({x: data})
        assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("channels", "given", "kernel", "side", "fast"),
    [
        *((1, 8, 3, 28, False), (3, 16, 3, 33, False), (3, 32, 3, 16, False), (2, 32, 5, 20, False)),
        *((1, 8, 3, 13, True), (3, 16, 7, 32, True), (3, 33, 3, 16, True), (4, 8, 3, 28, True)),
    ],
)
@pytest.mark.parametrize(
    "behind",
    ["Conv", "LeakyRelu Conv", "Relu Conv", "Add Conv", "Add", "LeakyRelu", "Sum Conv", "LeakyRelu MaxPool Conv", ""],
)
def test_of_convolutions_of_few_channels(
    channels: int, given: int, kernel: int, side: int, fast: bool, behind: str
) -> None:
    """Those of many pixels, with few results and weights, that only convolutions read, or an activation before them."""
    operators = Counter(
        node.op_type for node in nodes_of(serialise(convolved(channels, given, kernel, side, behind=behind)).graph)
    )
    alone = behind.endswith("Conv") and not {"Sum", "MaxPool"} & set(behind.split())
    assert operators["Cast"] == (alone and not fast)


def separable(b: GraphBuilder, seed: int, side: int, channels: Sequence[int]) -> Graph:
    """A convolution of bytes of one pixel, a depthwise one, another of one pixel, and a product of few rows."""
    random = np.random.default_rng(seed)
    dtype = ("int8", "uint8")[seed % 2]
    scales = iter(random.uniform(0.02, 0.3, 5).astype(np.float32))

    def steps() -> Quant:
        return Quant(np.array([next(scales)]), np.array([3], dtype))

    def weights(*shape: int) -> str:
        scale = random.uniform(0.01, 0.02, shape[0]).astype(np.float32)
        by_result = Quant(scale, np.zeros(shape[0], np.int8), 0)
        return b.constant(random.integers(-127, 128, shape), "int8", by_result)

    read, wide, last = channels
    y = b.input(1, read, side, side, dtype=dtype, quant=steps())
    image = {"dtype": dtype, "kernel_shape": (1, 1)}
    y = b.op("Conv", y, weights(wide, read, 1, 1), shape=(1, wide, side, side), quant=steps(), **image)
    if seed % 3:
        y = b.op("Relu", y, shape=b.shape(y), dtype=dtype, quant=b.values[y].quant)
    around = {"dtype": dtype, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "group": wide}
    y = b.op("Conv", y, weights(wide, 1, 3, 3), shape=(1, wide, side, side), quant=steps(), **around)
    y = b.op("Conv", y, weights(last, wide, 1, 1), shape=(1, last, side, side), quant=steps(), **image)
    rows = b.constant([last, side * side], "int64")
    y = b.op("Reshape", y, rows, shape=(last, side * side), dtype=dtype, quant=b.values[y].quant)
    return b.graph(b.op("Gemm", y, weights(5, side * side), shape=(last, 5), dtype=dtype, quant=steps(), transB=1))


WANTED = Storage(float_rows=8, float_pixels=64, float_terms=12)


@pytest.mark.parametrize(
    ("side", "channels", "floats"),
    [
        (8, (4, 12, 4), "Conv Conv Conv Gemm"),  # all that is asked for, as one reads the other
        (8, (4, 13, 4), "Conv Conv Gemm"),  # too many products before the Gemm
        (8, (13, 12, 4), "Conv Conv Gemm"),  # too many before the depthwise one
        (7, (4, 12, 4), "Conv Gemm"),  # too few pixels, which ends it
        (8, (4, 12, 9), "Conv Conv"),  # too many rows, and what those alone read
        (7, (4, 12, 9), ""),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_of_what_a_target_wants_in_floats(seed: int, side: int, channels: Sequence[int], floats: str) -> None:
    """It runs in floats at all levels, on weights that are dequantized on loading, and computes the same."""
    graph = separable(GraphBuilder(), seed, side, channels)
    model = serialise(graph, quant=QuantForm(storage=WANTED))
    operators = Counter(node.op_type for node in nodes_of(model.graph))
    assert operators["Cast"] == len(floats.split()) and not any(
        node.op_type == "Cast" for node in nodes_of(serialise(graph).graph)
    )
    left = Counter(node.op_type for node in optimised(model.SerializeToString(), "all").graph.node)
    if seed % 2 and seed % 3:  # kernels on bytes want numbers without a sign, and their Relu within the steps
        assert left["Conv"] + left["Gemm"] == len(floats.split())
    (x,) = graph.inputs
    data = np.random.default_rng(seed).integers(0, 100, graph.values[x].shape).astype(graph.values[x].dtype)
    (expected,) = run(graph, [data])
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), threads=1, level=level).run({x: data})
        assert np.abs(found.astype(int) - expected).max() <= (0 if level == "none" else 2)


def test_targets_ask_for_it() -> None:
    """A browser's target computes a depthwise convolution, what it alone reads, and a product of one row in floats, and
    the rest in integers; the portable one all in integers, and has no int8 weights.
    """
    net = Quantized()
    x = net.depthwise(net.conv(net.input(1, 16, 16, 8), 8, kernel=1))
    source = net.model(net.dense(net.conv(net.pool(net.conv(x, 16), size=16, stride=16), 16), 4)).source
    web, portable = (layoutsolve.convert(source, target=target).model for target in ("ort-web", "portable"))
    left = Counter(node.op_type for node in optimised(web.SerializeToString(), "all").graph.node)
    assert (left["QLinearConv"], left["Conv"], left["Gemm"] + left["MatMul"]) == (2, 2, 1), left
    left = Counter(node.op_type for node in optimised(portable.SerializeToString(), "all").graph.node)
    assert (left["QLinearConv"], left["Conv"]) == (4, 0), left
    weights = {node.input[0] for node in nodes_of(portable.graph) if node.op_type == "DequantizeLinear"}
    types = {each.data_type for each in portable.graph.initializer if each.name in weights and len(each.dims) > 1}
    assert types == {TensorProto.UINT8}


def test_sizes_that_are_not_known_count_as_one() -> None:
    """A product of so many rows as there are at run time is one of few."""
    b = GraphBuilder()
    weights = b.constant(np.arange(16).reshape(4, 4), "int8", Quant(np.array([0.1], np.float32), np.zeros(1, np.int8)))
    x = b.input("batch", 4, dtype="int8", quant=ACTIVATION)
    graph = b.graph(b.op("MatMul", x, weights, shape=("batch", 4), dtype="int8", quant=ACTIVATION))
    for rows, casts in ((0, 0), (1, 1)):
        model = serialise(graph, quant=QuantForm(storage=Storage(float_rows=rows)))
        assert Counter(node.op_type for node in nodes_of(model.graph))["Cast"] == casts


@pytest.mark.parametrize("others", [False, True])
def test_beside_integers(others: bool) -> None:
    """A constant that is combined with quantized numbers keeps the pattern, whatever else reads it."""
    b = GraphBuilder()
    weights = b.constant(
        np.arange(24).reshape(4, 6), "int8", Quant(np.full(6, 0.1, np.float32), np.zeros(6, np.int8), 1)
    )
    x = b.input(3, 4, dtype="int8", quant=ACTIVATION)
    results = [b.op("MatMul", x, weights, shape=(3, 6))]
    if others:
        results.append(b.op("Add", b.input(4, 6), weights, shape=(4, 6)))
    operators = Counter(node.op_type for node in nodes_of(serialise(b.graph(*results)).graph))
    assert operators["DequantizeLinear"] == 2 and not operators["Cast"]


def test_blocks() -> None:
    """What is quantized per block is left to kernels that read it beside floats."""
    b = GraphBuilder()
    quant = Quant(np.full((2, 6), 0.1, np.float32), np.zeros((2, 6), np.int8), 0, 2)
    weights = b.constant(np.arange(24).reshape(4, 6), "int8", quant)
    operators = Counter(
        node.op_type
        for node in nodes_of(serialise(b.graph(b.op("MatMul", b.input(3, 4), weights, shape=(3, 6)))).graph)
    )
    assert operators == {"DequantizeLinear": 1, "MatMul": 1}


def test_tables_are_looked_up_as_they_are() -> None:
    """Few rows of a large table are needed: all of it in floats would take memory for nothing."""
    b = GraphBuilder()
    table = b.constant(np.arange(24).reshape(4, 6), "int8", Quant(np.array([0.1], np.float32), np.array([3], np.int8)))
    graph = b.graph(b.op("Gather", table, b.input(2, dtype="int64"), shape=(2, 6), axis=0))
    operators = Counter(node.op_type for node in nodes_of(serialise(graph).graph))
    assert operators == {"DequantizeLinear": 1, "Gather": 1}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize(
    ("op", "shape"),
    [("MatMul", (4, 4)), ("MatMul", (1, 4, 4)), ("MatMul", (3, 4, 4)), ("MatMul", (2, 3, 4, 4)), ("Gemm", (4, 4)),
     ("Gemm, transB", (4, 4))],
    ids=str,
)  # fmt: skip
def test_products_with_scales_along_any_axis(op: str, shape: tuple[int, ...], port: int, level: Level) -> None:
    """The kernel for bytes knows scales of a matrix's columns alone, and is taken for all: it refuses others, or takes
    rows for columns.
    """
    given, step = (Quant(np.array([scale], np.float32), np.array([128], np.uint8)) for scale in (0.04, 0.1))
    for axis in (None, *range(len(shape))):
        b, random = GraphBuilder(), np.random.default_rng(len(shape))
        count = 1 if axis is None else shape[axis]
        quant = Quant(random.uniform(0.01, 0.1, count).astype(np.float32), np.zeros(count, np.int8), axis)
        data = random.integers(-127, 128, shape).astype(np.int8)
        weights, x = b.constant(data, "int8", quant), b.input(4, 4, dtype="uint8", quant=given)
        sides = (x, weights) if port else (weights, x)
        turned = {"transB": 1} if op.endswith("transB") else {}
        graph = b.graph(b.op(op.partition(",")[0], *sides, shape=shape, dtype="uint8", quant=step, **turned))
        numbers = random.integers(0, 256, (4, 4)).astype(np.uint8)
        (found,) = OnnxRuntime(serialise(graph).SerializeToString(), level=level).run({x: numbers})
        real = given.real(numbers), quant.real(data)
        first, second = real if port else real[::-1]
        wanted = np.round(np.matmul(first, second.T if turned else second) / 0.1 + 128)
        np.testing.assert_allclose(found, np.clip(wanted, 0, 255), atol=1)
