"""Products of computed matrices in all layouts, in floats and int8: BATCH_MATMUL reads either operand transposed."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert

M, K, N = 3, 4, 5
BATCHES = (((), ()), ((2,), (2,)), ((2,), (1,)), ((2, 3), (3,)), ((2, 3), ()), ((), (2,)))
"""The batch dimensions of both operands."""

SCALE, ZERO = 0.05, 3

Batches = tuple[tuple[int, ...], tuple[int, ...]]


def turned(rank: int) -> list[int]:
    """The order of axes with the last two swapped."""
    return [*range(rank - 2), rank - 1, rank - 2]


def model(
    batches: tuple[tuple[int, ...], tuple[int, ...]], stored: tuple[bool, ...], quantized: bool
) -> onnx.ModelProto:
    """A MatMul whose operands are transposed before, and its result behind, where ``stored`` says so."""
    nodes, held, names = list[onnx.NodeProto](), list[onnx.TensorProto](), ["x", "z"]
    shapes = [[*batches[0], K, M] if stored[0] else [*batches[0], M, K]]
    shapes.append([*batches[1], N, K] if stored[1] else [*batches[1], K, N])
    if quantized:
        held.append(numpy_helper.from_array(np.array(SCALE, np.float32), "s"))
        held.append(numpy_helper.from_array(np.array(ZERO, np.int8), "o"))

    def rounded(name: str) -> str:
        if not quantized:
            return name
        nodes.append(helper.make_node("QuantizeLinear", [name, "s", "o"], [f"{name}/q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}/q", "s", "o"], [f"{name}/d"]))
        return f"{name}/d"

    for number, name in enumerate(names):
        names[number] = rounded(name)
        if stored[number]:
            nodes.append(
                helper.make_node("Transpose", [names[number]], [f"{name}/t"], perm=turned(len(shapes[number])))
            )
            names[number] = f"{name}/t"
    nodes.append(helper.make_node("MatMul", names, ["made"]))
    last = rounded("made")
    if stored[2]:
        rank = max(len(shape) for shape in shapes)
        nodes.append(helper.make_node("Transpose", [last], ["y"], perm=turned(rank)))
        last = "y"
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip("xz", shapes, strict=True)]
    graph = helper.make_graph(nodes, "one", ports, [onnx.ValueInfoProto(name=last)], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("quantized", [False, True], ids=["float", "int8"])
def test_products_of_transposed_matrices(quantized: bool) -> None:
    """No Transpose is left, and reference kernels and XNNPACK give what ONNX Runtime does, or the step beside it."""
    random = np.random.default_rng(4)
    for batches, stored in product(BATCHES, product((False, True), repeat=3)):
        source = model(batches, stored, quantized)
        shapes = [[each.dim_value for each in port.type.tensor_type.shape.dim] for port in source.graph.input]
        given = [(random.integers(-60, 60, shape) * SCALE).astype(np.float32) for shape in shapes]
        (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run(dict(zip("xz", given, strict=True)))
        found = layoutsolve.convert(source, to="tflite")
        names = [operator.name for operator in parse(found.content("")).subgraphs[0].operators]
        assert "TRANSPOSE" not in names and names.count("DEQUANTIZE") == quantized, (batches, stored, names)
        for delegate in (False, True):
            (made,) = litert().run(found.content(""), given, delegate=delegate).results
            assert made.shape == expected.shape
            np.testing.assert_allclose(made, expected, rtol=1e-5, atol=SCALE * 1.01 if quantized else 1e-5)


def test_int8_products_by_constants_stay_on_int8() -> None:
    """By way of ONNX, where their result is transposed as well: a product with the weights on the left is one of floats
    in LiteRT.
    """
    steps, quant = Builder(), Quant((0.05,), (3,))
    x = steps.input("x", (8, 6), "int8", quant=quant)
    order = steps.constant("order", np.array([1, 0], np.int32))
    weights = steps.constant("w", np.arange(-24, 24).reshape(6, 8), "int8", quant=Quant((0.1,), (0,)))
    turned, made = (steps.tensor(name, (6, size), "int8", quant=quant) for name, size in (("t", 8), ("m", 6)))
    last = steps.tensor("y", (6, 6), "int8", quant=quant)
    steps.operator("TRANSPOSE", [x, order], [turned])
    steps.operator("FULLY_CONNECTED", [turned, weights, -1], [made])
    steps.operator("TRANSPOSE", [made, order], [last])
    between = layoutsolve.convert(steps.finish(last)).model
    written = parse(layoutsolve.convert(between, to="tflite").content("")).subgraphs[0]
    (product,) = [each for each in written.operators if each.name in ("FULLY_CONNECTED", "BATCH_MATMUL")]
    assert product.name == "FULLY_CONNECTED" and written.tensors[product.outputs[0]].dtype == "int8"


@pytest.mark.parametrize("rows", [3, 17])
def test_layers_stay_layers(rows: int) -> None:
    """Between Transposes too: a product by weights on the left is BATCH_MATMUL and ADD, which take longer, unless
    the fewest Transposes are asked for.
    """
    random = np.random.default_rng(rows)
    weights, added = random.normal(size=(4, 6)).astype(np.float32), random.normal(size=6).astype(np.float32)
    held = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(added, "b")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Gemm", ["t", "w", "b"], ["g"]),
        helper.make_node("Transpose", ["g"], ["y"], perm=[1, 0]),
    ]
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (4, rows)), ("y", (6, rows)))]
    graph = helper.make_graph(nodes, "one", ports[:1], ports[1:], held)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert names == ["TRANSPOSE", "FULLY_CONNECTED", "TRANSPOSE"]
    written = layoutsolve.convert(source, to="tflite", objective="min-transpose").content("")
    assert "TRANSPOSE" not in [operator.name for operator in parse(written).subgraphs[0].operators]


def test_layers_give_the_dimensions_of_what_they_read() -> None:
    """A Gemm of a flat matrix between views has none where its result has the same rows."""
    held = [numpy_helper.from_array(np.ones((4, 6), np.float32), "w")]
    held += [numpy_helper.from_array(np.array(each, np.int64), f"s{len(each)}") for each in ([30, 4], [2, 3, 5, 6])]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "s2"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["g"]),
        helper.make_node("Reshape", ["g", "s4"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, (2, 3, 5, size)) for name, size in (("x", 4), ("y", 6)))
    graph = helper.make_graph(nodes, "one", [x], [y], held)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert names == ["RELU", "FULLY_CONNECTED", "LOGISTIC"]
    given = [np.random.default_rng(1).normal(size=(2, 3, 5, 4)).astype(np.float32)]
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": given[0]})
    for delegate in (False, True):
        np.testing.assert_allclose(litert().run(written, given, delegate=delegate).results[0], expected, rtol=1e-5)


def test_a_vector_is_the_bias_of_a_layer_on_bytes() -> None:
    """Of a product that is quantized behind the sum, so that neither is computed in floats."""
    source = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[2, 3, 4] x) => (float[2, 3, 2] y)
        <float s = {0.5}, int8 o = {3}, int8 z = {0}, int8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] b = {0.5, -2}> {
            a = QuantizeLinear(x, s, o) c = DequantizeLinear(a, s, o) k = DequantizeLinear(w, s, z) m = MatMul(c, k)
            n = Add(m, b) q = QuantizeLinear(n, s, o) y = DequantizeLinear(q, s, o) }"""
    )
    written = layoutsolve.convert(source.SerializeToString(), to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert names == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    x = np.random.default_rng(0).uniform(-4, 4, (2, 3, 4)).astype(np.float32)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    np.testing.assert_allclose(litert().run(written, [x]).results[0], expected, atol=0.51)


@pytest.mark.parametrize("forwards", [True, False])
def test_what_is_moved_means_what_it_is_moved_from_or_to(forwards: bool) -> None:
    """Bytes of ONNX that are moved have no scale there; LiteRT has one in each tensor."""
    text = "{ a = QuantizeLinear(x, s, o) b = Gather<axis = 1>(a, order) y = Concat<axis = 0>(b, b) }"
    ports = "(float[3, 4] x) => (int8[6, 2] y)"
    if not forwards:
        text = "{ a = Gather<axis = 1>(x, order) b = Concat<axis = 0>(a, a) y = DequantizeLinear(b, s, o) }"
        ports = "(int8[3, 4] x) => (float[6, 2] y)"
    source = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g {ports}
        <float s = {{0.5}}, int8 o = {{3}}, int64[2] order = {{2, 0}}> {text}"""
    )
    written = parse(layoutsolve.convert(source.SerializeToString(), to="tflite").content("")).subgraphs[0]
    names = ["GATHER", "CONCATENATION"]
    wanted = ["QUANTIZE", *names] if forwards else [*names, "DEQUANTIZE"]
    assert [operator.name for operator in written.operators] == wanted
    moved = [tensor.quant for tensor in written.tensors if tensor.dtype == "int8"]
    assert len(moved) == 3 and all(each is not None and each.scale.tolist() == [0.5] for each in moved)


@pytest.mark.parametrize("steps", [2, 5])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
def test_layers_of_int16_have_two_dimensions(dtype: str, steps: int) -> None:
    """A layer of each part of a sequence. TensorFlow's kernels up to 2.17 compute one element of int16 results of more
    dimensions, so that a row is not read where it lies in the sequence.
    """
    random, builder = np.random.default_rng(steps), Builder()
    known = None if dtype == "float32" else Quant([SCALE], [0])
    weights: tuple[object, ...] = (random.normal(size=(6, 8)).astype(np.float32),)
    if known:
        weights = (random.integers(-90, 90, (6, 8)).astype(np.int8), "int8", Quant([0.01], [0]))
    kernel = builder.constant("kernel", *weights)  # type: ignore[arg-type]
    x = builder.input("x", (1, steps, 8), dtype, quant=known)
    sequence = builder.tensor("sequence", (steps, 1, 8), dtype, quant=known)
    builder.operator("RESHAPE", [x, builder.constant("shape", np.array([steps, 1, 8], np.int32))], [sequence])
    parts = [builder.tensor(f"part{each}", (1, 8), dtype, quant=known) for each in range(steps)]
    builder.operator("UNPACK", [sequence], parts, {"num": steps, "axis": 0})
    made = [builder.tensor(f"made{each}", (1, 6), dtype, quant=known) for each in range(steps)]
    for part, each in zip(parts, made, strict=True):
        builder.operator("FULLY_CONNECTED", [part, kernel, -1], [each], {})
    packed = builder.tensor("packed", (steps, 1, 6), dtype, quant=known)
    builder.operator("PACK", made, [packed], {"axis": 0, "values_count": steps})
    result = builder.tensor("result", (1, steps, 6), dtype, quant=known)
    builder.operator("TRANSPOSE", [packed, builder.constant("order", np.array([1, 0, 2], np.int32))], [result])
    source = builder.finish(result)
    written = layoutsolve.convert(source, to="tflite").content("")
    (subgraph,) = parse(written).subgraphs
    layers = [each for each in subgraph.operators if each.name == "FULLY_CONNECTED"]
    ranks = {len(subgraph.tensors[each.outputs[0]].shape) for each in layers}
    assert len(layers) == steps and (dtype != "int16" or ranks == {2})
    assert len(subgraph.operators) <= 4 + steps
    data = random.normal(size=(1, steps, 8)).astype(np.float32)
    given = [data if known is None else (data * 30).astype(dtype)]
    for one, other in zip(litert().run(source, given).results, litert().run(written, given).results, strict=True):
        assert np.abs(one.astype(np.float64) - other).max() <= (1e-5 if known is None else 1)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int8", "uint8")])
def test_int8_products_are_those_of_kernels(types: tuple[str, str], axis: int | None) -> None:
    """Of one scale or of one for each column, in types that a kernel multiplies; of others it is one of floats."""
    random, (data, stored) = np.random.default_rng(0), types
    scales = random.uniform(0.01, 0.02, 1 if axis is None else (6, 5)[axis]).astype(np.float32)
    held = [
        numpy_helper.from_array(random.integers(0, 100, (6, 5)).astype(stored), "w"),
        numpy_helper.from_array(scales if axis is not None else scales[0], "scales"),
        numpy_helper.from_array(np.zeros_like(scales if axis is not None else scales[0], stored), "zeros"),
        numpy_helper.from_array(np.float32(0.05), "step"),
        numpy_helper.from_array(np.array(0, data), "zero"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "scales", "zeros"], ["v"], axis=axis or 0),
        helper.make_node("MatMul", ["d", "v"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "step", "zero"], ["o"]),
        helper.make_node("DequantizeLinear", ["o", "step", "zero"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (4, 6)), ("y", (4, 5)))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    given = (random.integers(0, 9, (4, 6)) * np.float32(0.05)).astype(np.float32)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": given})
    written = layoutsolve.convert(source, to="tflite").content("")
    part = parse(written).subgraphs[0]
    kinds = {
        part.tensors[each.outputs[0]].dtype
        for each in part.operators
        if each.name in ("FULLY_CONNECTED", "BATCH_MATMUL")
    }
    axes = {("int8", "int8"): (None, 1), ("uint8", "uint8"): (None,), ("uint8", "int8"): (None, 1)}.get(types, ())
    assert (kinds == {"float32"}) == (axis not in axes)
    np.testing.assert_allclose(litert().run(written, [given]).results[0], expected, atol=0.0501)
