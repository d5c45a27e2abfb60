"""Small models that random ones led to: each went wrong once in a way that no larger model shows better."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.graph import Array
from tests.builder import Builder, Quant
from tests.conformance.cases import fitted
from tests.test_random_models import WAYS, check

EVERY_WAY = [{}, *WAYS]


def real(*shape: int) -> Array:
    """Numbers between -1 and 1."""
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axes", "left"),
    [((1, 1, 1, 1, 4), (1, 2, 3), (1, 4)), ((1, 1, 4, 1, 1), (0, 1, 2, 3), (1,)), ((2, 1, 1, 1, 1), (1, 2, 3), (2, 1))],
)
def test_reduced_dimensions_of_size_1(shape: tuple[int, ...], axes: tuple[int, ...], left: tuple[int, ...]) -> None:
    """The result has more dimensions of size 1 in every row than layouts usually may have."""
    builder = Builder()
    x, y = builder.input("x", shape), builder.tensor("y", left)
    builder.operator("MEAN", [x, builder.constant("axes", np.array(axes, np.int32))], [y], {"keep_dims": False})
    assert check(builder.finish(y), [[real(*shape)]], EVERY_WAY).price.transposes == 0


def test_output_listed_twice() -> None:
    """A view of an input, so that the output has to be copied to bear its name."""
    builder = Builder()
    x, y, z = builder.input("x", (2, 3)), builder.tensor("y", (3, 2)), builder.tensor("z", (2, 3))
    builder.operator("TRANSPOSE", [x, builder.constant("order", np.array([1, 0], np.int32))], [y], {})
    builder.operator("NEG", [x], [z], {})
    check(builder.finish(y, z, y), [[real(2, 3)]], EVERY_WAY)


def test_outputs_of_one_stored_tensor() -> None:
    """Two outputs are the same tensor under two names, the second of which an operator would take."""
    builder = Builder()
    x, sum_, view = builder.input("x", (1, 3)), builder.tensor("sum", (2, 1, 3)), builder.tensor("view", (2, 1, 3))
    flat = builder.tensor("flat", (6,))
    builder.operator("PACK", [x, x], [sum_], {"values_count": 2, "axis": 0})
    builder.operator("RESHAPE", [sum_, builder.constant("six", np.array([6], np.int32))], [flat])
    builder.operator("RESHAPE", [flat, builder.constant("back", np.array([2, 1, 3], np.int32))], [view])
    check(builder.finish(view, sum_), [[real(1, 3)]], EVERY_WAY)


def test_free_input_in_an_order_that_nothing_demands() -> None:
    """The order of dimensions that was chosen for an input is kept when groupings are decided."""
    builder = Builder()
    quant, random = Quant([1 / 64], [0]), np.random.default_rng(0)
    x, turned = (
        builder.tensor(name, shape, "int8", quant=quant)
        for name, shape in (("x", (2, 8, 4, 8)), ("turned", (8, 4, 8, 2)))
    )
    builder.subgraph.inputs.append(x)
    builder.operator("TRANSPOSE", [x, builder.constant("order", np.array([3, 2, 1, 0], np.int32))], [turned], {})
    current = x
    for at, (kernel, sizes, stride) in enumerate((((3, 1, 1, 8), (8, 4), 1), ((3, 2, 3, 1), (8, 2), 2))):
        weights = builder.constant(f"w{at}", random.integers(-9, 9, kernel).astype(np.int8), quant=Quant([1 / 64], [0]))
        bias = builder.constant(f"b{at}", np.zeros(3, np.int32), quant=Quant([1 / 4096], [0]))
        result = builder.tensor(f"y{at}", (2, *sizes, 3), "int8", quant=quant)
        options = {"padding": "SAME", "stride_h": 1, "stride_w": stride, "dilation_h_factor": 1, "dilation_w_factor": 1}
        builder.operator("CONV_2D", [current, weights, bias], [result], options)
        current = result
    data = random.integers(-128, 128, (2, 8, 4, 8)).astype(np.int8)
    check(builder.finish(turned, current), [[data]], EVERY_WAY)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_softmax_of_one_class(dtype: str) -> None:
    """ONNX Runtime's kernel for bytes overflows there."""
    builder = Builder()
    x = builder.input("x", (4, 1), dtype, quant=fitted(dtype, -4, 4))
    y = builder.tensor("y", (4, 1), dtype, quant=Quant([1 / 256], [-128 if dtype == "int8" else 0]))
    builder.operator("SOFTMAX", [x], [y], {"beta": 1.0})
    check(builder.finish(y), [[np.array([[0], [100], [7], [127]], dtype)]], EVERY_WAY)


@pytest.mark.parametrize("truth", [False, True])
def test_dequantised_view_that_a_branch_reads(truth: bool) -> None:
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
    check(builder.finish(y), [[data, np.array(truth)]], EVERY_WAY)


@pytest.mark.parametrize("opset", range(18, 25))
def test_dequantised_view_in_every_opset(opset: int) -> None:
    """From opset 21 on, ONNX Runtime refuses what it makes itself of int8 numbers that are dequantised, then viewed."""
    builder = Builder()
    x, y = builder.input("x", (2, 6), "int8", quant=fitted("int8", -1, 0.9)), builder.tensor("y", (3, 4))
    numbers, view = builder.tensor("numbers", (2, 6)), builder.tensor("view", (3, 4))
    builder.operator("DEQUANTIZE", [x], [numbers], {})
    builder.operator("RESHAPE", [numbers, builder.constant("shape", np.array([3, 4], np.int32))], [view])
    builder.operator("TANH", [view], [y])
    data = np.random.default_rng(0).integers(-128, 128, (2, 6)).astype(np.int8)
    check(builder.finish(y), [[data]], [{"opset": opset}])


def test_resize_to_a_size_beyond_all_memory() -> None:
    builder = Builder()
    x, y = builder.input("x", (1, 4, 4, 2)), builder.tensor("y", (1, 2**30, 4, 2))
    size = builder.constant("size", np.array([2**30, 4], np.int32))
    builder.operator("RESIZE_NEAREST_NEIGHBOR", [x, size], [y], {"half_pixel_centers": True})
    with pytest.raises(ConversionError, match="far beyond the size of the file"):
        layoutsolve.convert(builder.finish(y))


@pytest.mark.parametrize(
    ("operator", "given", "shape", "made"),
    [
        ("ADD", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("ADD", (3, 4, 5, 3), (3, 1, 1, 3), (3, 4, 5, 3)),
        ("CONV_2D", (1, 4, 5, 3), (2, 3, 3, 3), (1, 4, 5, 2)),
        ("DEPTHWISE_CONV_2D", (1, 4, 5, 3), (1, 3, 3, 3), (1, 4, 5, 3)),
        ("FULLY_CONNECTED", (4, 3), (2, 3), (4, 2)),
        ("PRELU", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("PRELU", (2, 4, 5, 3), (4, 1, 3), (2, 4, 5, 3)),
    ],
)
@pytest.mark.parametrize("around", [False, True])
def test_constants_that_are_outputs_as_well(
    operator: str, given: tuple[int, ...], shape: tuple[int, ...], made: tuple[int, ...], around: bool
) -> None:
    """An operator may read a constant in another order or shape; the output is as the file has it."""
    builder = Builder()
    x, constant, y = builder.input("x", given), builder.constant("c", real(*shape)), builder.tensor("y", made)
    bias = [builder.constant("b", real(made[-1]))] if "CONV" in operator else []
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1} if "CONV" in operator else {}
    options |= {"depth_multiplier": 1} if "DEPTHWISE" in operator else {}
    builder.operator(operator, [x, constant, *bias], [y], options)
    z = builder.tensor("z", made)
    builder.operator("NEG", [y], [z])
    ends = (constant, z) if around else (z, constant)
    check(builder.finish(*ends), [[real(*given)]], EVERY_WAY)
