"""What ONNX Runtime's optimiser would break is written so that it does not: each guard, on a family of models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.emit import optimization_barriers, serialise
from layoutsolve.emit.opset import LOWEST_OPSET
from layoutsolve.ir.graph import Array
from layoutsolve.ir.graph import Quant as Parameters
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.builder import Builder, Quant
from tests.conformance.cases import Case, Model, fitted
from tests.conformance.running import judge
from tests.graphs import GraphBuilder
from tests.models.test_random_models import WAYS, check
from tests.truth import HIGHEST_OPSET

DOCUMENT = Path(__file__).parents[2] / "docs" / "runtimes.md"


def same(
    source: bytes, *given: Array, opset: int | None = None, steps: int = 1, expected: Array | None = None
) -> onnx.ModelProto:
    """The converted model, which gives what LiteRT gives, or what is expected instead, at all levels.

    Raises AssertionError where it does not.
    """
    model = Model(source, given, None if expected is None else (expected,))
    converted = layoutsolve.convert(source, opset=opset).model
    judge(Case("", "", lambda: model, steps=steps), model, converted)
    return converted


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators of a model."""
    return [node.op_type for node in model.graph.node]


class Chain(Builder):
    """A model each of whose operators gives one tensor."""

    def then(
        self, name: str, inputs: Sequence[int], shape: Sequence[int], dtype: str = "float32",
        quant: Quant | None = None, **options: object,
    ) -> int:  # fmt: skip
        """Write an operator; the index of its result."""
        result = self.tensor(f"t{len(self.subgraph.tensors)}", shape, dtype, quant=quant)
        self.operator(name, inputs, [result], options)
        return result


class Products(Chain):
    """A model with a product, which has a type and parameters of its own."""

    dtype: str = "float32"
    quant: Quant | None = None


def negative(shape: Sequence[int], dtype: str = "float32") -> Array:
    """Numbers below zero."""
    data = -1 - np.random.default_rng(0).uniform(0, 5, shape)
    return (data if dtype == "float32" else np.rint(data)).astype(dtype)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("opset", [None, HIGHEST_OPSET])
@pytest.mark.parametrize("form", ["PAD", "PADV2", "cast", "transposed", "int8", "two readers"])
def test_zeros_before_a_maximum(form: str, opset: int | None, padding: str) -> None:
    b, shape = Chain(), (1, 4, 5, 3)
    dtype = {"cast": "int32", "int8": "int8"}.get(form, "float32")
    quant = Quant([0.5], [0]) if form == "int8" else None
    x = b.input("x", (1, 3, 4, 5) if form == "transposed" else shape, dtype, quant=quant)
    given = negative((1, 3, 4, 5) if form == "transposed" else shape, dtype)
    y = b.then("TRANSPOSE", [x, b.constant("order", [0, 2, 3, 1], "int32")], shape) if form == "transposed" else x
    pads = b.constant("pads", [[0, 0], [1, 2], [2, 1], [0, 0]], "int32")
    value = [b.constant("value", 0, dtype)] if form in ("PADV2", "cast") else []
    y = b.then("PADV2" if value else "PAD", [y, pads, *value], (1, 7, 8, 3), dtype, quant)
    if form == "cast":
        y, dtype = b.then("CAST", [y], (1, 7, 8, 3)), "float32"
    window = {"padding": padding, "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 2}
    pooled = (1, 7, 8, 3) if padding == "SAME" else (1, 5, 7, 3)
    ends = [b.then("MAX_POOL_2D", [y], pooled, dtype, quant, **window)]
    if form == "two readers":
        ends.append(b.then("AVERAGE_POOL_2D", [y], pooled, dtype, quant, **window))
    same(b.finish(*ends), given, opset=opset)


@pytest.mark.parametrize("widths", [(1,), (2,), (3,), (1, 1), (1, 0, 1), (2, 1), (1, 2)])
def test_zeros_as_wide_as_what_is_averaged(widths: tuple[int, ...]) -> None:
    """By one Pad or by several."""
    b, size = Chain(), 4
    y = b.input("x", (1, 4, 4, 3))
    for width in widths:
        pads = b.constant("pads", [[0, 0], [width, width], [width, width], [0, 0]], "int32")
        size += 2 * width
        y = b.then("PAD", [y, pads], (1, size, size, 3))
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2}
    same(b.finish(b.then("AVERAGE_POOL_2D", [y], (1, size - 1, size - 1, 3), **window)), negative((1, 4, 4, 3)))


def test_zeros_before_a_convolution_are_its_own() -> None:
    """There is no Pad to fold."""
    b = Chain()
    x = b.input("x", (1, 4, 5, 3))
    y = b.then("PAD", [x, b.constant("pads", [[0, 0], [1, 2], [2, 1], [0, 0]], "int32")], (1, 7, 8, 3))
    kernel, bias = b.constant("kernel", negative((4, 3, 3, 3))), b.constant("bias", np.zeros(4, np.float32))
    options = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": "VALID"}
    model = same(b.finish(b.then("CONV_2D", [y, kernel, bias], (1, 5, 6, 4), **options)), negative((1, 4, 5, 3)))
    assert not any(node.op_type == "Pad" for node in model.graph.node)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_reciprocals(rank: int, dtype: str) -> None:
    """1 / x * y, of numbers and of integers, with a 1 of any rank: ONNX Runtime may make one quotient of real numbers
    where the 1 adds no dimensions.
    """
    b = Chain()
    x, y = b.input("x", (2, 3), dtype), b.input("y", (2, 3), dtype)
    shape = (*(1,) * (rank - 2), 2, 3)
    z = b.then("DIV", [b.constant("one", np.ones((1,) * rank), dtype), x], shape, dtype)
    z = b.then("MUL", [z, y], shape, dtype)
    model = same(b.finish(z), negative((2, 3), dtype), np.arange(6).reshape(2, 3).astype(dtype))
    assert ("Max" in operators(model)) == (dtype == "int32" or rank > 2)


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("sizes", [("batch", "tokens"), (2, 5)])
def test_root_mean_squares_stay_one_kernel(rank: int, sizes: Sequence[int | str], tmp_path: Path) -> None:
    """Normalisation by 1 / sqrt(mean(x^2)) is one operator in ONNX Runtime, whatever the rank of its 1."""
    make, axes = onnx.helper.make_node, onnx.numpy_helper.from_array(np.int64([-1]), "axes")
    nodes = [
        make("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        make("Relu", ["turned"], ["clamped"]),
        make("Transpose", ["clamped"], ["y"], perm=[0, 2, 1]),
        make("Pow", ["y", "two"], ["square"]),
        make("ReduceMean", ["square", "axes"], ["mean"]),
        make("Add", ["mean", "epsilon"], ["sum"]),
        make("Sqrt", ["sum"], ["root"]),
        make("Div", ["one", "root"], ["reciprocal"]),
        make("Mul", ["y", "reciprocal"], ["normal"]),
        make("Mul", ["scale", "normal"], ["z"]),
    ]
    numbers = {"two": 2.0, "epsilon": 1e-5, "one": np.ones((1,) * rank), "scale": np.linspace(1, 2, 16)}
    constants = [onnx.numpy_helper.from_array(np.asarray(data, "f"), name) for name, data in numbers.items()]
    x, z = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [*sizes, 16]) for name in "xz")
    graph = onnx.helper.make_graph(nodes, "normal", [x], [z], [*constants, axes])
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    converted = layoutsolve.convert(source).model
    assert "Transpose" not in operators(converted)
    onnx.save(converted, tmp_path / "model.onnx")
    assert operators(optimised(tmp_path / "model.onnx"))[-1] == "SimplifiedLayerNormalization"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("ranges", [((-20, 20), (-2, 2)), ((-2, 2), (-20, 20)), ((-3, 9), (-9, 3))], ids=str)
def test_two_quantizations(ranges: Sequence[tuple[float, float]], dtype: str) -> None:
    """Numbers that are rounded to other steps are rounded twice: a barrier keeps them apart, or what is added."""
    b, first, limits = Chain(), fitted(dtype, -9, 9), np.iinfo(dtype)
    outer, inner = (fitted(dtype, *each) for each in ranges)
    x = b.input("x", (40, 50), dtype, quant=first)
    y = b.then("LEAKY_RELU", [x], (40, 50), dtype, outer, alpha=0.5)
    y = b.then("QUANTIZE", [y], (40, 50), dtype, inner)
    y = b.then("LEAKY_RELU", [y], (40, 50), dtype, inner, alpha=0.5)
    given = np.random.default_rng(0).integers(limits.min, limits.max + 1, (40, 50)).astype(dtype)
    factor = max(1.0, outer.scale[0] / inner.scale[0])
    same(b.finish(y), given, steps=1 + int(np.ceil(factor)))
    assert bool({"Add", "Max"}.intersection(operators(layoutsolve.convert(b.finish(y)).model))) == (
        (outer.scale, outer.zero_point) != (inner.scale, inner.zero_point)
    )


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-12])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_limits_of_tiny_steps(dtype: str, scale: float) -> None:
    """Below zero nothing is left. LiteRT's own limits overflow there."""
    b, quant = Chain(), Quant([scale], [{"int8": -3, "uint8": 120}[dtype]])
    x = b.input("x", (16, 16), dtype, quant=quant)
    limits = np.iinfo(dtype)
    given = np.arange(limits.min, limits.max + 1).reshape(16, 16).astype(dtype)
    expected = np.maximum(given, np.asarray(quant.zero_point, dtype))
    same(b.finish(b.then("RELU6", [x], (16, 16), dtype, quant)), given, expected=expected)


@pytest.mark.parametrize("name", ["RELU", "RELU6", "QUANTIZE"])
@pytest.mark.parametrize("other", ["TANH", "TRANSPOSE", "again", "output", "input"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_limited_outputs(dtype: str, other: str, name: str) -> None:
    """An output that equals what it is computed from, which something else reads."""
    b, limits = Chain(), np.iinfo(dtype)
    quant = Quant([6 / 255], [int(limits.min)])
    x = b.input("x", (4, 6), dtype, quant=quant)
    y = x if other == "input" else b.then("LEAKY_RELU", [x], (4, 6), dtype, quant, alpha=0.25)
    ends = [b.then(name, [y], (4, 6), dtype, quant)]
    if other in ("TANH", "input"):
        ends.append(b.then("TANH", [y], (4, 6), dtype, Quant([1 / 128], [int(limits.min) + 128])))
    elif other == "TRANSPOSE":
        ends.append(b.then("TRANSPOSE", [y, b.constant("order", [1, 0], "int32")], (6, 4), dtype, quant))
    else:
        ends.append(y if other == "output" else b.then(name, [y], (4, 6), dtype, quant))
    given = np.random.default_rng(0).integers(limits.min, limits.max + 1, (4, 6)).astype(dtype)
    converted = same(b.finish(*ends), given)
    given_back = dtype == "uint8" or other == "input"  # other int8 is stored anew on its way out
    assert "Max" in operators(converted) or name == "QUANTIZE" or not given_back  # the newest version runs it without


def test_integers_are_multiplied_as_matrices() -> None:
    """ONNX Runtime has no Gemm of integers."""
    b = Chain()
    x = b.input("x", (4, 3), "int32")
    turned = b.then("TRANSPOSE", [x, b.constant("order", [1, 0], "int32")], (3, 4), "int32")
    y = b.then("BATCH_MATMUL", [turned, x], (3, 3), "int32")
    for strategy in ("cpsat", "push", "transpose"):
        assert "Gemm" not in operators(layoutsolve.convert(b.finish(y), strategy=strategy).model)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("shape", [(6, 8), (2, 6, 8), (2, 3, 6, 8)])
def test_sums_before_a_layer_normalisation(shape: tuple[int, ...], shared: bool) -> None:
    """ONNX Runtime's kernel for both takes several times as long: it is not chosen. It is for three dimensions alone;
    other sums stay what they are.
    """
    b = GraphBuilder()
    x, y = b.input(*shape), b.input(*shape)
    total = b.op("Add", x, y, shape=shape)
    result = b.op("LayerNormalization", total, b.weights(8), b.weights(8), shape=shape, axis=-1)
    model = serialise(b.graph(result, *([b.relu(total)] if shared else [])))
    assert "SkipLayerNormalization" not in operators(optimised(model.SerializeToString(), "all"))
    assert ("Sum" in operators(model)) == (len(shape) == 3 and not shared)


def _step(scale: float) -> Parameters:
    """Parameters of bytes."""
    return Parameters(np.array([scale], np.float32), np.array([128], np.uint8))


@pytest.mark.parametrize("truth", [False, True])
def test_dequantized_view_that_a_branch_reads(truth: bool) -> None:
    """ONNX Runtime aborts where it moves a DequantizeLinear down to an If."""
    builder = Builder()
    x, condition = builder.input("x", (2, 6), "int8", quant=fitted("int8", -1, 1)), builder.input("c", (), "bool")
    numbers, view, y = builder.tensor("numbers", (2, 6)), builder.tensor("view", (3, 4)), builder.tensor("y", (3, 4))
    builder.operator("DEQUANTIZE", [x], [numbers], {})
    builder.operator("RESHAPE", [numbers, builder.constant("shape", np.array([3, 4], np.int32))], [view])
    builder.operator("IF", [condition, view], [y], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    for operator in ("TANH", "NEG"):
        part = builder.part()
        given, result = part.input("given", (3, 4)), part.tensor("result", (3, 4))
        part.operator(operator, [given], [result])
        part.outputs(result)
    data = np.random.default_rng(0).integers(-128, 128, (2, 6)).astype(np.int8)
    check(builder.finish(y), [[data, np.array(truth)]], [{}, *WAYS])


@pytest.mark.parametrize("opset", range(LOWEST_OPSET, HIGHEST_OPSET + 1))
def test_dequantized_view_in_every_opset(opset: int) -> None:
    """From opset 21 on, ONNX Runtime refuses what it makes itself of int8 numbers that are dequantized, then viewed."""
    builder = Builder()
    x, y = builder.input("x", (2, 6), "int8", quant=fitted("int8", -1, 0.9)), builder.tensor("y", (3, 4))
    numbers, view = builder.tensor("numbers", (2, 6)), builder.tensor("view", (3, 4))
    builder.operator("DEQUANTIZE", [x], [numbers], {})
    builder.operator("RESHAPE", [numbers, builder.constant("shape", np.array([3, 4], np.int32))], [view])
    builder.operator("TANH", [view], [y])
    data = np.random.default_rng(0).integers(-128, 128, (2, 6)).astype(np.int8)
    check(builder.finish(y), [[data]], [{"opset": opset}])


@pytest.mark.parametrize("other", ["", "ABS", "MUL", "output"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_quantized_numbers_is_one_kernel(approximate: bool, dtype: str, other: str) -> None:
    """Also where something else reads the same numbers, or they are given."""
    b, steps = Gelus(dtype), {"int8": -3, "uint8": 120, "int16": 0}[dtype]
    x = b.input("x", SMALL, dtype, quant=b.quant(steps))
    y = b.unary("TANH" if dtype != "int16" else "NEG", x)
    ends = [b.unary("GELU", y, approximate=approximate)]
    if other == "MUL":
        half = b.constant("half", np.array(64 + steps, dtype), dtype, Quant([1 / 128], [steps]))
        ends.append(b.then("MUL", [y, half], SMALL, dtype, b.quant(steps)))
    ends += [b.unary(other, y)] if other == "ABS" and dtype != "int16" else []
    converted = one_model(b.finish(*ends, *([y] if other == "output" else [])), dtype)
    for level in ("extended", "all"):
        kinds = operators(optimised(converted, level))
        assert "FastGelu" in kinds if approximate else "Gelu" in kinds
        assert other != "MUL" or dtype == "int16" or "QLinearMul" in kinds


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("approximate", [(False, True), (True, False), (False, False), (True, True)])
def test_two_gelus_of_the_same_numbers(approximate: tuple[bool, bool], dtype: str) -> None:
    b = Gelus(dtype)
    y = b.unary("TANH", b.input("x", SMALL, dtype, quant=b.quant(3)), 3)
    one_model(b.finish(*(b.unary("GELU", y, 3, approximate=each) for each in approximate)), dtype)


SMALL = (1, 4, 5, 8)


class Gelus(Chain):
    """Operators on tensors of one shape and type."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype

    def quant(self, zero: int) -> Quant:
        limits = np.iinfo(self.dtype)
        return Quant([8 / (float(limits.max) - float(limits.min))], [zero])

    def unary(self, name: str, x: int, zero: int | None = None, **options: object) -> int:
        zero = {"int8": -3, "uint8": 120, "int16": 0}[self.dtype] if zero is None else zero
        return self.then(name, [x], SMALL, self.dtype, self.quant(zero), **options)


def one_model(source: bytes, dtype: str) -> bytes:
    """The converted model, which gives the same at all levels."""
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    numbers = random.integers(limits.min, limits.max, SMALL, endpoint=True).astype(dtype)
    converted: bytes = layoutsolve.convert(source).model.SerializeToString()
    before, *others = (OnnxRuntime(converted, level=level).run({"x": numbers}) for level in LEVELS)
    for after in others:
        for one, another in zip(before, after, strict=True):
            assert np.abs(one.astype(int) - another.astype(int)).max() <= 1
    return converted


def test_every_guard_is_described() -> None:
    """The table in the documentation names the transformers that there are guards against, and no other."""
    lines = DOCUMENT.read_text().partition("| transformer |")[2].partition("\n\n")[0].splitlines()[2:]
    assert {line.split(" | ")[0].removeprefix("| ") for line in lines} == {
        each.transformer for each in optimization_barriers.GUARDS
    }


def test_long_chains_are_followed_quickly() -> None:
    """Thousands of views between two quantizations, each of which is read as a real number as well."""
    make = onnx.helper.make_node
    names = [f"s{at}" for at in range(4000)]
    nodes = [make("QuantizeLinear", ["x", "scale", "zero"], [names[0]])]
    for before, after in pairwise(names):
        nodes.append(make("Transpose", [before], [after], perm=[0]))
        nodes.append(make("DequantizeLinear", [after, "scale", "zero"], [f"{after}/real"]))
        nodes.append(make("QuantizeLinear", [f"{after}/real", "other", "zero"], [f"{after}/again"]))
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("x", "y")]
    scales = [onnx.numpy_helper.from_array(np.float32(scale), name) for scale, name in ((0.1, "scale"), (0.2, "other"))]
    zero = onnx.numpy_helper.from_array(np.int8(0), "zero")
    graph = onnx.helper.make_graph(nodes, "chain", ports[:1], ports[1:], [*scales, zero])
    optimization_barriers.guard(graph, 18, str)
    assert len(graph.node) == len(nodes)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "bool"])
@pytest.mark.parametrize("shapes", [((1, 1), (1, 0)), ((2, 1), (2, 0)), ((1,), (0,)), ((1, 1), (0, 3)), ((1,), (0, 1))])
def test_expanded_to_nothing(shapes: Sequence[Sequence[int]], dtype: str) -> None:
    """A size of 1 becomes 0."""
    b, (before, after) = Chain(), shapes
    quant, inverse = (Quant([0.5], [3]) if dtype == "int8" else None), ("LOGICAL_NOT" if dtype == "bool" else "NEG")
    x = b.then(inverse, [b.input("x", before, dtype, quant=quant)], before, dtype, quant)
    y = b.then("BROADCAST_TO", [x, b.constant("shape", after, "int32")], after, dtype, quant)
    y = b.then(inverse, [y], after, dtype, quant)
    same(b.finish(y), np.ones(before, dtype), expected=np.zeros(after, dtype))


@pytest.mark.parametrize("opset", range(LOWEST_OPSET, HIGHEST_OPSET + 1))
@pytest.mark.parametrize("rows", [(4, 5), (2, 3, 4)])
def test_dequantized_rows_that_are_multiplied(rows: tuple[int, ...], opset: int) -> None:
    """ONNX Runtime makes a Gemm of MatMul and Add, and refuses its own view of the rows: int8, from opset 21 on."""
    b, random = Chain(), np.random.default_rng(0)
    x = b.input("x", (*rows, 6), "int8", quant=fitted("int8", -1, 0.9))
    weights = b.constant("weights", random.uniform(-1, 1, (6, 3)).astype(np.float32))
    y = b.then("BATCH_MATMUL", [b.then("DEQUANTIZE", [x], (*rows, 6)), weights], (*rows, 3))
    y = b.then("ADD", [y, b.constant("bias", random.uniform(-1, 1, 3).astype(np.float32))], (*rows, 3))
    data = random.integers(-128, 128, (*rows, 6)).astype(np.int8)
    check(b.finish(b.then("TANH", [y], (*rows, 3))), [[data]], [{"opset": opset}])
