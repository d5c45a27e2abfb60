"""What is never written: operators on types that LiteRT has no kernel for, as when floats are mixed with integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from layoutsolve.emit.tflite import kernels
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.reading.model import Quantization, Tensor

STEPS = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), 0)
OTHERS = {
    "float32": "int8",
    "int8": "float32",
    "int16": "float32",
    "uint8": "int8",
    "int32": "float32",
    "int64": "float32",
    "bool": "int32",
}
"""By type, one that is mixed with it."""

PAIRS = ("ADD", "CONCATENATION", "EQUAL", "GREATER", "LESS", "MAXIMUM", "MINIMUM", "MUL", "PACK", "SUB", "BATCH_MATMUL")
PRODUCTS = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
FITTING = {
    "float32": ("float32", "float32"),
    "int8": ("int8", "int32"),
    "int16": ("int8", "int64"),
    "uint8": ("uint8", "int32"),
}
"""By the type of data, those of weights and of a bias."""


def refused(operator: str, read: Sequence[str], made: str, quant: Quantization | None = STEPS) -> str:
    """Why an operator on some types is not written, '' where it is."""
    kinds = [*read, made]
    tensors = [
        Tensor(place, f"t{place}", dtype, (2, 2), (2, 2), quant if dtype in ("int8", "uint8", "int16") else None, None)
        for place, dtype in enumerate(kinds)
    ]
    try:
        kernels.check(operator, range(len(read)), [len(read)], tensors)
    except ExpressionError as error:
        return error.reason
    return ""


def made_of(operator: str, dtype: str) -> str:
    return "bool" if operator in ("EQUAL", "GREATER", "LESS") else dtype


@pytest.mark.parametrize(
    ("operator", "dtype"), [(name, dtype) for name in PAIRS for dtype in OTHERS if dtype in kernels.TYPES[name]]
)
def test_operands_have_one_type(operator: str, dtype: str) -> None:
    made, other = made_of(operator, dtype), OTHERS[dtype]
    assert refused(operator, (dtype, dtype), made) == ""
    assert refused(operator, (dtype, other), made) == f"{operator} has no kernel for {dtype} with {other}"
    assert refused(operator, (dtype, dtype), other) == f"{operator} has no kernel for {dtype} with {other}"


@pytest.mark.parametrize(
    ("operator", "dtype"), [(name, dtype) for name in PRODUCTS for dtype in FITTING if dtype in kernels.TYPES[name]]
)
def test_weights_fit(operator: str, dtype: str) -> None:
    """They and what is added are of the types that a kernel takes with what they multiply."""
    places, types = PRODUCTS[operator], (dtype, *FITTING[dtype])
    read = ["int32"] * (max(places) + 1)
    for place, each in zip(places, types, strict=True):
        read[place] = each
    assert refused(operator, read, dtype) == ""
    for place in (*places[1:], len(read)):
        wrong = [*read, dtype]
        wrong[place] = OTHERS[wrong[place]]
        assert refused(operator, wrong[:-1], wrong[-1]).startswith(f"{operator} has no kernel for {dtype} with")


@pytest.mark.parametrize("operator", ["RELU", "LOGISTIC", "SOFTMAX", "HARD_SWISH", "AVERAGE_POOL_2D", "TANH"])
def test_integers_that_are_computed_with_have_a_meaning(operator: str) -> None:
    assert refused(operator, ["int8"], "int8") == ""
    assert refused(operator, ["int8"], "int8", None) == f"{operator} has no kernel for int8 without scales"
    assert refused(operator, ["float32"], "int8") == f"{operator} has no kernel for float32 with int8"


@pytest.mark.parametrize("operator", sorted(kernels.TYPES))
def test_an_unknown_type_is_refused(operator: str) -> None:
    assert "has no kernel for complex64" in refused(operator, ["complex64"] * 4, "complex64")
