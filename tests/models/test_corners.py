"""Small models that random ones led to: each went wrong once in a way that no larger model shows better."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant
from tests.conformance.cases import fitted
from tests.models.test_random_models import WAYS, check

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


def test_resize_to_a_size_beyond_all_memory() -> None:
    builder = Builder()
    x, y = builder.input("x", (1, 4, 4, 2)), builder.tensor("y", (1, 2**30, 4, 2))
    size = builder.constant("size", np.array([2**30, 4], np.int32))
    builder.operator("RESIZE_NEAREST_NEIGHBOR", [x, size], [y], {"half_pixel_centers": True})
    with pytest.raises(ConversionError, match="far beyond the size of the file"):
        layoutsolve.convert(builder.finish(y))
