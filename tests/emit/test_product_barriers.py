"""Products whose weights, biases or views ONNX Runtime's optimiser would break."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.ir.graph import Array
from layoutsolve.ir.graph import Quant as Parameters
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.builder import Quant
from tests.conformance.cases import fitted
from tests.emit.test_barriers import Products, _step, operators, same
from tests.graphs import GraphBuilder


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
