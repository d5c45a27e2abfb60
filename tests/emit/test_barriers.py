"""What ONNX Runtime's optimiser would break is written so that it does not: each guard, on a family of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.emit import optimization_barriers, serialise
from layoutsolve.emit.opset import LOWEST_OPSET
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.ir.graph import Quant as Parameters
from layoutsolve.solver.theory.motion import Motion, motion_of
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests import older
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


def product(b: Products, name: str, x: int, weights: Array, *more: int, **tensor: object) -> int:
    """A product of ``x`` by constant weights (out, 1, 1, in), whatever the operator wants them to be."""
    kernel = b.constant("kernel", weights[:, 0, 0] if name == "FULLY_CONNECTED" else weights, **tensor)  # type: ignore[arg-type]
    given = [x, kernel, *more]
    if name == "TRANSPOSE_CONV":
        given = [b.constant("shape", [1, 4, 5, len(weights)], "int32"), kernel, x, *more]
    options: dict[str, object] = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    if name == "CONV_2D":
        options.update(dilation_h_factor=1, dilation_w_factor=1)
    elif name == "FULLY_CONNECTED":
        options = {"keep_num_dims": True}
    return b.then(name, given, (1, 4, 5, len(weights)), b.dtype, b.quant, **options)


PRODUCTS = ("CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("between", ["", "RELU", "TRANSPOSE"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_real_weights_between_quantized_numbers(name: str, between: str, dtype: str) -> None:
    """Of weights of which one is far above the others nothing would be left in 8 bits."""
    b, quant, limits = Products(), fitted(dtype, -1, 1), np.iinfo(dtype)
    x = b.input("x", (1, 4, 5, 3), dtype, quant=quant)
    y = b.then("DEQUANTIZE", [x], (1, 4, 5, 3))
    weights = np.random.default_rng(0).uniform(-0.3, 0.3, (6, 1, 1, 3)).astype(np.float32)
    weights[0, 0, 0, 0] = 1000
    y, shape = product(b, name, y, weights, b.constant("bias", np.ones(6, np.float32))), (1, 4, 5, 6)
    if between == "RELU":
        y = b.then("RELU", [y], shape)
    elif between:
        y, shape = b.then("TRANSPOSE", [y, b.constant("order", [0, 3, 1, 2], "int32")], (1, 6, 4, 5)), (1, 6, 4, 5)
    end = b.then("QUANTIZE", [y], shape, dtype, quant)
    same(b.finish(end), np.random.default_rng(1).integers(limits.min, limits.max + 1, (1, 4, 5, 3)).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("bias", ["", "constant", "row", "input", "computed"])
def test_real_weights_beside_what_is_computed(bias: str, dtype: str) -> None:
    """ONNX Runtime leaves a product alone to which it adds what is no constant vector; all levels give the same."""
    b, random = GraphBuilder(), np.random.default_rng(0)
    quant = Parameters(np.array([0.02], np.float32), np.array([3], dtype))
    x = b.input(5, 4, dtype=dtype, quant=quant)
    weights = random.uniform(-0.3, 0.3, (4, 6)).astype(np.float32)
    weights[0, 0] = 1000
    inputs = [x, b.constant(weights)]
    if bias:
        constants = {"constant": np.ones(6), "row": np.ones((1, 6))}
        inputs.append(b.constant(constants[bias]) if bias in constants else b.input(5, 6))
    if bias == "computed":
        inputs[2] = b.op("Mul", inputs[2], b.constant(np.full((1, 6), 0.5)), shape=(5, 6))
    model = serialise(b.graph(b.op("Gemm", *inputs, shape=(5, 6), dtype=dtype, quant=quant)))
    assert ("Max" in operators(model)) == (bias in ("", "constant"))
    given = [random.integers(0, 128, (5, 4)).astype(dtype), random.normal(size=(5, 6)).astype(np.float32)]
    feeds = dict(zip((port.name for port in model.graph.input), given, strict=False))
    results = [OnnxRuntime(model.SerializeToString(), level=level).run(feeds) for level in LEVELS]
    for result in results:
        np.testing.assert_array_equal(result[0], results[0][0])


@pytest.mark.parametrize("between", ["", "RELU", "TRANSPOSE"])
@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("magnitude", [1e3, 2.0**30, 2.0**33, 2.0**38])
@pytest.mark.parametrize("name", PRODUCTS)
def test_biases_of_many_bits(name: str, magnitude: float, channels: int, between: str) -> None:
    """A bias of 64 bits, from small to far beyond 32 bits, with scales for all weights or per channel."""
    b, random = Products(), np.random.default_rng(0)
    scales = random.uniform(1e-3, 2e-3, channels).astype(np.float32)
    steps, top = scales * 2.0**-14, max(magnitude * 2e-3 * 2.0**-14, 1.0)
    b.dtype, b.quant = "int16", Quant([top / 30000], [0])
    x = b.input("x", (1, 4, 5, 3), "int16", quant=Quant([2.0**-14], [0]))
    weights = random.integers(-127, 128, (channels, 1, 1, 3)).astype(np.int8)
    zeros = [0] * channels
    bias = b.constant(
        "bias", random.choice([-1, 1], channels) * random.uniform(0.5, 1, channels) * magnitude, "int64",
        quant=Quant(steps.tolist(), zeros),
    )  # fmt: skip
    y = product(b, name, x, weights, bias, dtype="int8", quant=Quant(scales.tolist(), zeros))
    shape = (1, 4, 5, channels)
    if between == "RELU":
        y = b.then("RELU", [y], shape, "int16", b.quant)
    elif between:
        order = b.constant("order", [0, 3, 1, 2], "int32")
        y = b.then("TRANSPOSE", [y, order], (1, channels, 4, 5), "int16", b.quant)
    given = random.integers(-32768, 32768, (1, 4, 5, 3)).astype(np.int16)
    same(b.finish(y), given, steps=2)


@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("magnitude", [1e3, 2.0**30, 2.0**33, 2.0**38])
@pytest.mark.parametrize("op", ["Gemm", "Conv"])
def test_biases_of_many_bits_beside_bytes(op: str, magnitude: float, channels: int) -> None:
    """A bias of floats from small to far beyond 32 bits is added behind the product where it is too large."""
    b, random = GraphBuilder(), np.random.default_rng(0)
    scales = random.uniform(1e-3, 2e-3, channels).astype(np.float32)
    x = b.input(5, 4, *(() if op == "Gemm" else (2, 2)), dtype="uint8", quant=_step(2.0**-6))
    weights, axis = random.integers(-127, 128, (4, channels)), None if channels == 1 else 1
    if op == "Conv":
        weights, axis = weights.T.reshape(channels, 4, 1, 1), None if channels == 1 else 0
    kernel = b.constant(weights, "int8", Parameters(scales, np.zeros(channels, np.int8), axis))
    bias = b.constant((random.choice([-1, 1], channels) * magnitude * 2.0**-6 * scales).astype(np.float32))
    shape, result = (5, channels, *b.shape(x)[2:]), _step(max(magnitude * 2.0**-6 * 2e-3, 1.0) / 100)
    more = {"kernel_shape": (1, 1)} if op == "Conv" else {}
    model = serialise(b.graph(b.op(op, x, kernel, bias, shape=shape, dtype="uint8", quant=result, **more)))
    assert bool({"Add", "Sum"}.intersection(operators(model))) == (magnitude > 2.0**31)
    feeds = {"t0": random.integers(0, 256, b.shape(x)).astype(np.uint8)}
    results = [OnnxRuntime(model.SerializeToString(), level=level).run(feeds)[0].astype(int) for level in LEVELS]
    assert all(abs(each - results[0]).max() <= 1 for each in results)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_products_of_transposed_matrices_and_vectors(batch: tuple[int, ...], left: bool) -> None:
    """ONNX Runtime makes one operator of the two, which takes rows for columns."""
    b, axes = GraphBuilder(), range(len(batch))
    matrix = b.op("Transpose", b.input(*batch, 4, 5), shape=(*batch, 5, 4), perm=(*axes, len(axes) + 1, len(axes)))
    vector = b.weights(5 if left else 4)
    operands = (vector, matrix) if left else (matrix, vector)
    model = serialise(b.graph(b.op("MatMul", *operands, shape=(*batch, 4 if left else 5))))
    data = {"t0": b.random.normal(size=(*batch, 4, 5)).astype(np.float32)}
    expected, *others = (OnnxRuntime(model.SerializeToString(), level=level).run(data)[0] for level in LEVELS)
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("between", ["", "Relu", "Add", "quantized"])
@pytest.mark.parametrize("factor", ["scales", "sizes"])
def test_transposes_before_a_resize_that_names_its_axes(factor: str, between: str, dtype: str, images: int) -> None:
    """Beside a convolution of bytes, for which ONNX Runtime moves all Transposes: unguarded the model fails."""
    make, random = onnx.helper.make_node, np.random.default_rng(0)
    scale, zero, weights = np.float32(0.05), np.uint8(9), random.integers(-99, 99, (4, 4, 3, 3)).astype(np.int8)
    named = {"scale": scale, "zero": zero, "weights": weights, "none": np.int8(0), "scales": np.float32([2, 2])}
    named |= {"sizes": np.array([10, 12]), "half": np.float32([0.5])}
    quantize, real = [("QuantizeLinear", "DequantizeLinear")[at] for at in (0, 1)]
    steps = ["scale", "zero"]
    nodes = [make(quantize, ["x", *steps], ["q"]), make(real, ["q", *steps], ["r"])]
    nodes += [make(real, ["weights", "scale", "none"], ["w"]), make("Conv", ["r", "w"], ["c"], kernel_shape=[3, 3])]
    nodes += [make(quantize, ["c", *steps], ["d"]), make(real, ["d", *steps], ["y"])]
    image = "q" if dtype == "uint8" else "x"
    nodes.append(make("Transpose", [image], ["moved"], perm=[0, 2, 3, 1]))
    nodes.append(make(real, ["moved", *steps], ["last"]) if dtype == "uint8" else make("Identity", ["moved"], ["last"]))
    if between == "quantized":
        nodes += [make(quantize, ["last", *steps], ["again"]), make(real, ["again", *steps], ["given"])]
    else:
        nodes.append(make(between or "Identity", ["last", *(["half"] if between == "Add" else [])], ["given"]))
    how = ["", "scales"] if factor == "scales" else ["", "", "sizes"]
    nodes.append(make("Resize", ["given", *how], ["large"], axes=[1, 2], mode="linear"))
    nodes.append(make("Transpose", ["large"], ["z"], perm=[0, 3, 1, 2]))
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "yz"]
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [images, 4, 5, 6])
    constants = [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in named.items()]
    graph = onnx.helper.make_graph(nodes, "resized", [given], ports, constants)
    plain = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    guarded = onnx.ModelProto.FromString(plain.SerializeToString())
    optimization_barriers.guard(guarded.graph, 18, str)
    data = {"x": random.uniform(-1, 9, (images, 4, 5, 6)).astype(np.float32)}
    expected = OnnxRuntime(plain.SerializeToString(), level="none").run(data)
    for level in LEVELS:
        for found, wanted in zip(
            OnnxRuntime(guarded.SerializeToString(), level=level).run(data), expected, strict=True
        ):
            np.testing.assert_allclose(
                found, wanted, atol=0.051 if dtype == "uint8" or between == "quantized" else 1e-5
            )
    with pytest.raises(VerifyError):
        OnnxRuntime(plain.SerializeToString(), level="all").run(data)


@dataclass(frozen=True)
class Resampling:
    """A Resize behind a Transpose and an operator, in a file whose images are of some sizes, of which some are open."""

    axes: tuple[int, ...]
    mode: str
    by: str
    batch: int
    channels: int
    between: str
    attributes: Mapping[str, object]
    open: tuple[str, ...]

    @classmethod
    def random(cls, random: np.random.Generator) -> Resampling:
        """One of any axes, attributes and sizes."""

        def one(*choices: Any) -> Any:
            return choices[random.integers(len(choices))]

        part = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
        places = ({"coordinate_transformation_mode": name} for name in ("align_corners", "asymmetric"))
        aspects = ({"keep_aspect_ratio_policy": f"not_{name}"} for name in ("larger", "smaller"))
        return cls(
            one((1, 2), (1, 2), (2,), (1,), (2, 1), (-3, -2), (1, 2, 3), (0, 1), (3,), (0, 1, 2, 3), (3, 1)),
            one("nearest", "linear", "linear", "cubic"),
            one("scales", "sizes", "computed scales", "computed sizes"),
            one(1, 2, 3),
            one(1, 3, 4, 16),
            one("bytes", "quantized", "Add", "Relu", "Identity", "Softmax"),
            one({}, {}, {"antialias": 1}, part, *places, *aspects),
            one((), (), ("batch",), ("batch", "rows", "columns")),
        )

    def model(self, random: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model, beside a convolution of bytes, and what it is given."""
        make, (quantize, real), steps = onnx.helper.make_node, ("QuantizeLinear", "DequantizeLinear"), ["scale", "zero"]
        named: dict[str, Array] = {
            "scale": np.array(0.05, np.float32), "zero": np.array(9, np.uint8), "none": np.array(0, np.int8),
            "weights": random.integers(-99, 99, (4, self.channels, 3, 3)).astype(np.int8), "half": np.float32([0.5]),
        }  # fmt: skip
        nodes = [make(quantize, ["x", *steps], ["q"]), make(real, ["q", *steps], ["r"])]
        nodes += [make(real, ["weights", "scale", "none"], ["w"]), make("Conv", ["r", "w"], ["c"], kernel_shape=[3, 3])]
        nodes += [make(quantize, ["c", *steps], ["d"]), make(real, ["d", *steps], ["y"])]
        image = "q" if self.between == "bytes" else "x"
        nodes.append(make("Transpose", [image], ["moved"], perm=[0, 2, 3, 1]))
        if self.between == "quantized":
            nodes += [make(quantize, ["moved", *steps], ["again"]), make(real, ["again", *steps], ["given"])]
        elif self.between == "bytes":
            nodes.append(make(real, ["moved", *steps], ["given"]))
        else:
            nodes.append(make(self.between, ["moved", *(["half"] if self.between == "Add" else [])], ["given"]))
        sizes = (self.batch, 5, 6, self.channels)
        scales = random.choice([1, 1.5, 2, 0.5], len(self.axes)).astype(np.float32)
        wanted = [max(1, int(sizes[axis] * scale)) for axis, scale in zip(self.axes, scales, strict=True)]
        by = scales if self.by.endswith("scales") else np.array(wanted, np.int64)
        given = {"x": random.uniform(-1, 9, (self.batch, self.channels, 5, 6)).astype(np.float32)}
        (given if self.by.startswith("computed") else named)["by"] = by
        inputs = ["given", "", "by"] if by is scales else ["given", "", "", "by"]
        if "extrapolation_value" in self.attributes:
            inputs[1], named["part"] = "part", np.repeat(np.float32([0.1, 0.9]), len(self.axes))
        nodes.append(make("Resize", inputs, ["large"], axes=self.axes, mode=self.mode, **self.attributes))
        nodes.append(make("Transpose", ["large"], ["z"], perm=[0, 3, 1, 2]))
        shape = [name if name in self.open else None for name in ("batch", "channels", "rows", "columns")]
        dims = {"x": [name or size for name, size in zip(shape, given["x"].shape, strict=True)], "by": by.shape}
        code = onnx.helper.np_dtype_to_tensor_dtype
        ports = [onnx.helper.make_tensor_value_info(name, code(data.dtype), dims[name]) for name, data in given.items()]
        results = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "yz"]
        constants = [onnx.numpy_helper.from_array(data, name) for name, data in named.items()]
        graph = onnx.helper.make_graph(nodes, "resampled", ports, results, constants)
        return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)]), given


@pytest.mark.parametrize("seed", range(24))
def test_a_resize_behind_transposes(seed: int) -> None:
    """Of any axes, attributes and sizes: guarded as it stands, and converted, it gives the same at all levels."""
    random = np.random.default_rng(seed)
    while True:
        resampling = Resampling.random(random)
        plain, given = resampling.model(random)
        cut = resampling.mode == "cubic" and "extrapolation_value" in resampling.attributes
        if cut and older.ONNXRUNTIME < (1, 24):  # it ends the process over some
            continue
        try:
            expected = OnnxRuntime(plain.SerializeToString(), level="none").run(given)
        except VerifyError:  # of those axes no kernel interpolates
            continue
        break
    guarded = onnx.ModelProto.FromString(plain.SerializeToString())
    optimization_barriers.guard(guarded.graph, 18, str)
    for model in (guarded, layoutsolve.convert(plain.SerializeToString()).model):
        for level in LEVELS:
            for found, wanted in zip(
                OnnxRuntime(model.SerializeToString(), level=level).run(given), expected, strict=True
            ):
                np.testing.assert_allclose(found, wanted, atol=0.11, err_msg=f"{resampling} at {level}")


FAST = [each for each in permutations(range(4)) if motion_of(each)[0] in (Motion.SWAP, Motion.ROWS)]
MADE_SLOW = [
    (first, second)
    for first in FAST
    for second in FAST
    if motion_of([first[axis] for axis in second])[0] is Motion.GENERAL
]
"""Permutations by two Transposes that are fast, where the one that they come to is not."""


ALONG = ("Concat", "LogSoftmax", "Softmax")
"""Operators along an axis."""


def turned(
    operators: Sequence[str], first: Sequence[int], second: Sequence[int], shape: Sequence[int]
) -> onnx.ModelProto:
    """Two Transposes with some operators between them."""
    make, moved = onnx.helper.make_node, [shape[axis] for axis in first]
    named = {"half": np.float32(0.5), "row": np.linspace(1, 2, moved[-1], dtype=np.float32), "zero": np.uint8(9)}
    named |= {
        "start": np.array([0]),
        "stop": np.array([2]),
        "axis": np.array([1]),
        "pads": np.array([0, 0, 0, 0, 0, 1, 0, 1]),
    }
    given = {
        "Mul": ["row"],
        "Add": ["half"],
        "Slice": ["start", "stop", "axis"],
        "Pad": ["pads"],
        "ReduceMax": ["axis"],
    }
    given |= {key: ["half", "zero"] for key in ("QuantizeLinear", "DequantizeLinear")}
    nodes, names = [make("Transpose", ["x"], ["v0"], perm=first)], [f"v{at}" for at in range(len(operators) + 1)]
    for operator, (before, after) in zip(operators, pairwise(names), strict=True):
        inputs = [before, before] if operator == "Concat" else [before, *given.get(operator, [])]
        nodes.append(make(operator, inputs, [after], **({"axis": 2} if operator in ALONG else {})))
    nodes.append(make("Transpose", [names[-1]], ["y"], perm=second))
    info, constants = (
        onnx.helper.make_tensor_value_info,
        [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in named.items()],
    )
    graph = onnx.helper.make_graph(nodes, "turned", [info("x", 1, shape)], [info("y", 1, None)], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return onnx.shape_inference.infer_shapes(model)


def slow(model: bytes, level: str) -> int:
    """The slow Transposes that ONNX Runtime executes."""
    graph = optimised(model, level).graph
    return sum(
        motion_of(node.attribute[0].ints)[0] is Motion.GENERAL for node in graph.node if node.op_type == "Transpose"
    )


@pytest.mark.parametrize("seed", range(40))
def test_fast_transposes_stay_two(seed: int) -> None:
    """Two Transposes that together are a slow one, with what ONNX Runtime moves Transposes through between them."""
    random = np.random.default_rng(seed)
    between = ["Relu", "Mul", "Add", "Softmax", "Slice", "Concat", "Pad", "ReduceMax", "Clip", "Sqrt", "QDQ"]
    operators = [str(each) for each in random.choice(between, 1 + seed % 3)]
    operators = [
        part for each in operators for part in (["QuantizeLinear", "DequantizeLinear"] if each == "QDQ" else [each])
    ]
    first, second = MADE_SLOW[random.integers(len(MADE_SLOW))]
    shape = random.integers(4, 12, 4).tolist()
    plain = turned(operators, first, second, shape)
    guarded = onnx.ModelProto.FromString(plain.SerializeToString())
    optimization_barriers.guard(guarded.graph, 18, str)
    data = {"x": random.uniform(0, 9, shape).astype(np.float32)}
    (expected,) = OnnxRuntime(plain.SerializeToString(), level="none").run(data)
    large = np.prod(shape) >= 1 << 10
    for level in LEVELS:
        (found,) = OnnxRuntime(guarded.SerializeToString(), level=level).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert large == (slow(guarded.SerializeToString(), level) == 0) or level == "none"
    assert slow(plain.SerializeToString(), "basic") == 1


def test_few_transposes_are_copied() -> None:
    """Only fast Transposes of many elements that are slow together: all others may as well be made one."""
    for first in permutations(range(4)):
        for second in permutations(range(4)):
            model = turned(["Relu"], first, second, (5, 6, 7, 8))
            optimization_barriers.guard(model.graph, 18, str)
            assert ("Gather" in operators(model)) == ((first, second) in MADE_SLOW)


@pytest.mark.parametrize("operators", [["Softmax"], ["Relu", "Softmax", "Mul"], ["LogSoftmax", "Softmax"]])
def test_softmax_stays_along_the_last_dimension(operators: Sequence[str]) -> None:
    """Where ONNX Runtime would move a Transpose through it to another, and that is slow; never where it is not."""
    for first in permutations(range(4)):
        shape = [8, 9, 10, 11]
        model = turned(operators, first, np.argsort(first).tolist(), shape)
        for node in model.graph.node:
            if "Softmax" in node.op_type:
                node.attribute[0].i = 3
        data = {"x": np.random.default_rng(0).uniform(0, 9, shape).astype(np.float32)}
        (expected,) = OnnxRuntime(model.SerializeToString(), level="none").run(data)
        optimization_barriers.guard(model.graph, 18, str)
        slowed = first[3] < 2
        assert ("Gather" in [node.op_type for node in model.graph.node]) == slowed
        (found,) = OnnxRuntime(model.SerializeToString()).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        run = [node for node in optimised(model.SerializeToString()).graph.node if node.op_type == "Softmax"]
        assert not slowed or all(onnx.helper.get_attribute_value(node.attribute[0]) in (-1, 3) for node in run)


def in_bytes(node: onnx.NodeProto, shape: Sequence[int], weights: Array | None = None) -> onnx.ModelProto:
    """One operator between numbers of bytes."""
    make, quantize, real = onnx.helper.make_node, "QuantizeLinear", "DequantizeLinear"
    steps, named = ["scale", "zero"], {"scale": np.float32(0.05), "zero": np.uint8(120), "small": np.float32(0.004)}
    nodes = [make(quantize, ["x", *steps], ["q"]), make(real, ["q", *steps], ["r"]), node]
    if weights is not None:
        named |= {"stored": weights, "none": weights.dtype.type(0)}
        nodes.insert(0, make(real, ["stored", "small", "none"], ["w"]))
    nodes += [make(quantize, ["result", *steps], ["again"]), make(real, ["again", *steps], ["y"])]
    info = onnx.helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in named.items()]
    graph = onnx.helper.make_graph(nodes, "bytes", [info("x", 1, shape)], [info("y", 1, None)], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return onnx.shape_inference.infer_shapes(model)


def left_in_bytes(model: onnx.ModelProto, operator: str, *shape: int) -> bool:
    """Whether ONNX Runtime takes a kernel on bytes for an operator of the guarded model, which gives what it gives
    without one.
    """
    plain = model.SerializeToString()
    optimization_barriers.guard(model.graph, 18, str)
    data = {"x": np.random.default_rng(0).uniform(-5, 5, shape).astype(np.float32)}
    (expected,) = OnnxRuntime(plain, level="none").run(data)
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), level=level).run(data)
        assert np.abs(found - expected).max() <= 0.051
    kinds = {node.op_type for node in optimised(model.SerializeToString(), "extended").graph.node}
    return not kinds.isdisjoint((f"QLinear{operator}", f"QLinearGlobal{operator}"))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    ("channels", "given", "groups", "stride", "fast"),
    [
        *((16, 16, 1, 1, True), (16, 16, 16, 1, True), (32, 32, 2, 1, True), (64, 64, 4, 1, True)),
        *((16, 32, 16, 1, False), (16, 16, 2, 1, False), (16, 16, 8, 1, False), (24, 12, 12, 1, False)),
        *((12, 36, 12, 1, False), (16, 16, 2, 2, True), (16, 16, 4, 2, False), (16, 32, 16, 2, False)),
    ],
)
def test_convolutions_by_groups(channels: int, given: int, groups: int, stride: int, fast: bool, size: int) -> None:
    """Small groups are computed in floats, all others and plain depthwise ones in bytes."""
    weights = np.random.default_rng(0).integers(-9, 9, (given, channels // groups, size, size)).astype(np.int8)
    moves = {"kernel_shape": [size, size], "strides": [stride, stride]}
    conv = onnx.helper.make_node("Conv", ["r", "w"], ["result"], group=groups, **moves)
    shape = (1, channels, 7, 6)
    assert left_in_bytes(in_bytes(conv, shape, weights), "Conv", *shape) == fast


@pytest.mark.parametrize(("shape", "axis"), [((3, 10), -1), ((2, 3, 15), 2), ((3, 16), -1), ((2, 3, 40), -1)])
def test_softmax_of_rows(shape: tuple[int, ...], axis: int) -> None:
    """Rows that are not short are computed in floats."""
    softmax = onnx.helper.make_node("Softmax", ["r"], ["result"], axis=axis)
    assert left_in_bytes(in_bytes(softmax, shape), "Softmax", *shape) == (shape[axis] < 16)


@pytest.mark.parametrize(
    ("shape", "kernel", "fast"),
    [
        *(((1, 16, 9, 9), (3, 3), False), ((2, 2, 40, 8), (2, 1), False), ((1, 16, 900), (3,), False)),
        *(((1, 16, 9, 9), (9, 9), True), ((1, 3, 9, 9), (2, 2), True), ((1, 300, 2, 2), (2, 2), True)),
    ],
)
def test_average_pools(shape: tuple[int, ...], kernel: tuple[int, ...], fast: bool) -> None:
    """Windows that are not whole images are averaged in floats, unless they are few."""
    pool = onnx.helper.make_node("AveragePool", ["r"], ["result"], kernel_shape=kernel)
    assert left_in_bytes(in_bytes(pool, shape), "AveragePool", *shape) == fast


PIECES = (
    *(((64, 64), (64, 64), 0), ((64, 64), (), 0), ((64, 64), (64,), 64), ((64, 64), (64, 1), 64), ((255, 8), (8,), 0)),
    *(((500, 10), (10,), 10), ((512, 16), (16,), 16), ((500, 10), (500, 1), 10), ((16, 40, 20), (16, 1, 20), 20)),
    *(((80, 5, 30), (30,), 30), ((40, 5, 30), (5, 30), 150), ((8, 32, 32), (8, 1, 1), 1024), ((1, 20), (400, 1), 20)),
    *(((2, 4, 1, 30, 40), (4, 1, 30, 1), 40), ((2, 1, 4, 1, 48, 12), (4, 1, 1, 12), 12), ((7, 30, 20), (7, 1, 1), 600)),
)
"""Shapes of a sum or product, of what is added or multiplied by, and how many numbers are gone over at once, 0 for
all or where there are few.
"""


@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize(("shape", "other", "piece"), PIECES)
def test_pieces(operator: str, shape: tuple[int, ...], other: tuple[int, ...], piece: int) -> None:
    """Where less than 32 numbers are gone over at once, or no 16 that are multiplied, that is done in floats."""
    node = onnx.helper.make_node(operator, ["r", "w"], ["result"])
    weights = np.random.default_rng(0).integers(0, 255, other).astype(np.uint8)
    fast = piece == 0 or piece >= 32 or (operator, piece) == ("Mul", 16)
    assert left_in_bytes(in_bytes(node, shape, weights), operator, *shape) == fast


@pytest.mark.parametrize(("channels", "side"), [(8, 24), (24, 24), (32, 24), (64, 24), (300, 4), (300, 5), (300, 6)])
@pytest.mark.parametrize("convolved", [False, True])
def test_images_lie_channels_last(channels: int, side: int, convolved: bool) -> None:
    """Beside a convolution pieces are those of its layout, else those of a channel."""
    offsets, weights = np.arange(channels).astype(np.uint8).reshape(-1, 1, 1), np.ones((channels, 4, 1, 1), np.int8)
    product = in_bytes(onnx.helper.make_node("Add", ["r", "w"], ["result"]), (1, channels, side, side), offsets)
    if convolved:
        conv = in_bytes(onnx.helper.make_node("Conv", ["r", "w"], ["result"]), (1, 4, side, side), weights)
        second = onnx.compose.add_prefix(product, "second/")
        product = onnx.shape_inference.infer_shapes(onnx.compose.merge_models(conv, second, [("y", "second/x")]))
    shape = (1, 4 if convolved else channels, side, side)
    assert left_in_bytes(product, "Add", *shape) == ((channels if convolved else side * side) >= 32)


@pytest.mark.parametrize("view", [(), (1, 5, 3), (15,)])
@pytest.mark.parametrize(("added", "halved"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("sides", [("given", "factor"), ("factor", "given"), ("given", "row"), ("given", "given")])
def test_products_that_are_scaled(sides: tuple[str, str], added: bool, halved: bool, view: tuple[int, ...]) -> None:
    """A Gemm multiplies by a number itself where nothing is added to its result, also behind a view."""
    make, info, random = onnx.helper.make_node, onnx.helper.make_tensor_value_info, np.random.default_rng(0)
    named = {"factor": np.float32(0.3), "row": np.float32([1, 2, 3]), "bias": np.float32([4, 5, 6])}
    nodes = [make("Gemm", ["a", "b", *["bias"] * added], ["given"], transB=1), make("Mul", sides, ["y"])]
    if view:
        named |= {"shape": np.array(view), "row": np.arange(view[-1], dtype=np.float32)}
        nodes[0].output[0] = "product"
        nodes.insert(1, make("Reshape", ["product", "shape"], ["given"]))
    ports = [info("a", 1, (5, 4)), info("b", 1, (3, 4))]
    constants = [onnx.numpy_helper.from_array(data, name) for name, data in named.items()]
    graph = onnx.helper.make_graph(nodes, "scaled", ports, [info("y", 1, view or (5, 3))], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    data = {"a": random.normal(size=(5, 4)).astype(np.float32), "b": random.normal(size=(3, 4)).astype(np.float32)}
    if halved:
        model.graph.node[0].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, f=0.5)
    (expected,) = OnnxRuntime(model.SerializeToString(), level="none").run(data)
    optimization_barriers.guard(model.graph, 18, str)
    kept = added or halved or "factor" not in sides
    assert operators(model) == ["Gemm", *["Reshape"] * bool(view), *["Mul"] * kept]
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), level=level).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
