"""What cannot be converted is refused, with a reason that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError, LoweringError, ModelError, UnsupportedError
from layoutsolve.frontend import read
from tests.builder import Builder, Quant
from tests.conformance.flex import node_options

Given = tuple[Sequence[int], str] | Any
"""An input's shape and type; anything else is a constant."""


def one(
    operator: str, given: Sequence[Given], made: tuple[Sequence[int], str], options: Mapping[str, Any] | None = None
) -> bytes:
    """A model of one operator."""
    builder = Builder()
    inputs = [
        builder.input(f"in{at}", *each) if isinstance(each, tuple) else builder.constant(f"in{at}", each, "int32")
        for at, each in enumerate(given)
    ]
    out = builder.tensor("out", *made)
    builder.operator(operator, inputs, [out], options)
    return builder.finish(out)


def stablehlo(operator: str, shapes: Sequence[Sequence[int]], **options: Any) -> bytes:
    """A model of one StableHLO operator of floats, whose output is stated to have four elements."""
    given = [(shape, "float32") for shape in shapes]
    return one(f"STABLEHLO_{operator}", given, ((4,), "float32"), options)


def scattered(body: str, indices: Sequence[Sequence[int]]) -> bytes:
    """Rows put into a tensor, combined with what is there by an operator of numbers, '' for none."""
    builder = Builder()
    x, updates = builder.input("x", (4, 2)), builder.input("updates", (2, 2))
    where, out = builder.constant("where", indices, "int32"), builder.tensor("out", (4, 2))
    part = builder.part()
    a, b, result = part.input("a", ()), part.input("b", ()), part.tensor("result", ())
    if body:
        part.operator(body, [a, b], [result])
    part.outputs(result if body else b)
    options = {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
               "index_vector_dim": 1, "update_computation_subgraph_index": 1}  # fmt: skip
    builder.operator("STABLEHLO_SCATTER", [x, where, updates], [out], options)
    return builder.finish(out)


def spectrum(reader: str, dtype: str) -> bytes:
    """A Fourier transform, then an operator that reads its complex numbers twice."""
    builder = Builder()
    x, lengths = builder.input("x", (2, 8)), builder.constant("lengths", [2, 8], "int32")
    middle, out = builder.tensor("middle", (2, 5), "complex64"), builder.tensor("out", (2, 5), dtype)
    builder.operator("RFFT2D", [x, lengths], [middle])
    builder.operator(reader, [middle] * (1 if reader == "COMPLEX_ABS" else 2), [out])
    return builder.finish(out)


def slopes_of_16_bits() -> bytes:
    """A PRELU of 16 bits throughout."""
    builder, quant = Builder(), Quant([0.01], [0])
    x, out = builder.input("x", (2, 4), "int16", quant=quant), builder.tensor("out", (2, 4), "int16", quant=quant)
    builder.operator("PRELU", [x, builder.constant("slope", [1, 2, 3, 4], "int16", quant)], [out])
    return builder.finish(out)


def table_without_values(*more: int) -> bytes:
    """A table that is filled with keys alone."""
    builder = Builder()
    x, out = builder.input("x", (2,), "int64"), builder.tensor("out", (2,), "string")
    table = builder.tensor("table", (1,), "resource")
    builder.operator("HASHTABLE", [], [table], {"table_id": 3, "key_dtype": "int64", "value_dtype": "string"})
    builder.operator("HASHTABLE_IMPORT", [table, builder.constant("keys", [1, 2], "int64"), *more], [])
    builder.operator("HASHTABLE_FIND", [table, x, builder.constant("default", "?", "string")], [out])
    return builder.finish(out)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (slopes_of_16_bits(), "its slope is of 16 bits, of which LiteRT reads 8"),
        (one("RFFT2D", [((2, 8), "float32"), [2, 8]], ((2, 5), "complex64")), "output of the model holds complex"),
        (one("RFFT2D", [((2, 6), "float32"), [2, 6]], ((2, 4), "complex64")), "powers of two"),
        (one("COMPLEX_ABS", [((2, 5), "complex64")], ((2, 5), "float32")), "is of type complex64"),
        (spectrum("MUL", "complex64"), "computes with complex numbers"),
        (spectrum("SUB", "float32"), "computes with complex numbers"),
        (scattered("SUB", [[0], [1]]), "a function of its own"),
        (scattered("", [[1], [1]]), "several values into one place"),
        (stablehlo("CONVOLUTION", [(1, 4, 4, 2), (2, 3, 3, 2)], input_spatial_dimensions=[1, 2],
                   input_feature_dimension=3, kernel_spatial_dimensions=[1, 2], kernel_input_feature_dimension=3,
                   output_spatial_dimensions=[1, 2], output_feature_dimension=3, lhs_dilation=[2, 1]),
         "dilates its input"),
        (one("STABLEHLO_RNG_BIT_GENERATOR", [((2,), "uint64")], ((4,), "uint32")), "random bits"),
        (one("STABLEHLO_SHIFT_LEFT", [((4,), "int64")] * 2, ((4,), "int64")), "moves the bits of int64"),
        (one("STABLEHLO_AND", [((4,), "float32")] * 2, ((4,), "float32")), "takes the bits of float32"),
        (one("RELU", [((4,), "int8")], ((4,), "int8")), "no quantization parameters"),
        (one("BITCAST", [((4,), "float32")], ((4,), "int32")), "reads the bits of float32"),
        (one("ATAN2", [((4,), "float64")] * 2, ((4,), "float64")), "angles of float64"),
        *((one(f"CUSTOM:Flex{name}", [((4,), "float64")] * 2, ((4,), "float64")), "it computes on float64")
          for name in ("DivNoNan", "Xlogy")),
        *((one(f"CUSTOM:Flex{name}", [((4,), dtype)], ((4,), dtype)), f"{name} is not supported with {dtype}")
          for name in ("Reciprocal", "Erf", "Rint", "Selu") for dtype in ("int16", "int64")),
        *((one("FULLY_CONNECTED", [(shape, "float32"), ((3, columns), "float32")], ((1, 3), "float32")), "whole number")
          for shape, columns in (((1, 6), 4), ((3,), 4), ((3, 3), 2), ((2, 5, 2), 8))),
        (one("ABS", [((2**31 - 1, 2**31 - 1, 4), "float32")], ((1,), "float32")), "too much for any memory"),
        (one("MATRIX_DIAG", [((4,), "bool")], ((4, 4), "bool")), "diagonal of bool"),
        (
            one("SPARSE_TO_DENSE", [[[1], [1]], [4], ((2,), "float32"), ((), "float32")], ((4,), "float32")),
            "several values into one place",
        ),
        (one("FAKE_QUANT", [((4,), "float32")], ((4,), "float32"), {"max": 1.0, "num_bits": 8, "narrow_range": True}),
         "narrow range"),
    ],
)  # fmt: skip
def test_gaps(source: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as caught:
        read(source)
    assert all(gap.remedy for gap in caught.value.gaps)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", ["Pow", "Exp", "Log", "Rsqrt", "Elu", "BatchMatMul"])
def test_types_that_onnx_does_not_define_are_named(name: str, dtype: str) -> None:
    """TensorFlow computes with more types, so the model is not at fault."""
    builder = Builder()
    inputs = [builder.input(each, (2, 2), dtype) for each in ("x", "y")[: 2 if name in ("Pow", "BatchMatMul") else 1]]
    out = builder.tensor("out", (2, 2), dtype)
    builder.operator(f"CUSTOM:Flex{name}", inputs, [out], custom_options=node_options(name, {}))
    with pytest.raises(
        LoweringError, match=rf"^CUSTOM:Flex{name}#0 would become \w+ of {dtype}, which ONNX does not define"
    ):
        layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize(("size", "fits"), [(6, False), (8, True), (None, True)])
def test_rows_of_an_open_batch(size: int | None, fits: bool) -> None:
    """An open batch is of whole rows where each of its elements is; with more open sizes it may be."""
    builder = Builder()
    x = builder.input("x", (1, size or 4), signature=(-1, size or -1))
    out = builder.tensor("out", (1, 3), signature=(-1, 3))
    builder.operator("FULLY_CONNECTED", [x, builder.constant("w", np.ones((3, 4), np.float32))], [out], {})
    if fits:
        read(builder.finish(out))
    else:
        with pytest.raises(UnsupportedError, match="6\\*batch elements is no whole number of rows of 4"):
            read(builder.finish(out))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (spectrum("COMPLEX_ABS", "int32"), "has int32 as output 0"),
        (one("REAL", [((4,), "float32")], ((4,), "float32")), "has float32 as input 0"),
        (one("ATAN2", [((4,), "float32"), ((1,), "float32")], ((4,), "float32")), "have to be alike"),
        (one("SEGMENT_SUM", [((3, 2), "float32"), [0, 2, 2]], ((3, 2), "float32")), "do not follow each other"),
        (one("UNSORTED_SEGMENT_SUM", [((2, 2), "float32"), [0, 2], 2], ((2, 2), "float32")), "has 2 segments"),
        (
            one("REVERSE_SEQUENCE", [((3, 2), "float32"), [1, 1]], ((3, 2), "float32"), {"seq_dim": 1}),
            "2 lengths for 3",
        ),
        (one("DILATE", [((3,), "float32"), [0], ((), "float32")], ((3,), "float32")), "dilates rank 1"),
        (one("BITCAST", [((3,), "int8")], ((), "int32")), "makes one element of 4"),
        (one("SELECT", [((3,), "float32")] * 3, ((3,), "float32")), "has float32 as input 0"),
        (one("CONCATENATION", [((2, 3), "float32"), ((2, 4), "float32")], ((4, 3), "float32")), "do not fit"),
        (
            one("CONCATENATION", [((2, 3), "float32"), ((2, 3), "int32")], ((4, 3), "float32")),
            "joins float32 and",
        ),
        (stablehlo("PAD", [(3,), ()], edge_padding_low=[1, 1]), "do not fit rank 1"),
        (stablehlo("PAD", [(3,), ()], edge_padding_low=[-9], edge_padding_high=[0], interior_padding=[0]), "cuts off"),
        (stablehlo("TRANSPOSE", [(2, 3)], permutation=[0, 0]), "the permutation"),
        (stablehlo("SLICE", [(4,)], start_indices=[3], limit_indices=[5], strides=[1]), "slices from"),
        (stablehlo("BROADCAST_IN_DIM", [(4,)], broadcast_dimensions=[7]), "puts 1 axes"),
        (one("STABLEHLO_DYNAMIC_SLICE", [((4,), "float32"), 0], ((4,), "float32"), {"slice_sizes": [9]}), "takes"),
        (stablehlo("REDUCE", [(4,), ()], body_subgraph_index=5, dimensions=[0]), "names subgraph 5"),
        (stablehlo("ADD", [(4,), (3,)]), "have to be alike"),
        (one("STABLEHLO_COMPARE", [((4,), "float32")] * 2, ((4,), "bool"), {"comparison_direction": 9}), "unknown dir"),
        (
            stablehlo("DOT_GENERAL", [(2, 3), (4, 5)], lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]),
            "multiplies",
        ),
        (
            stablehlo(
                "CONVOLUTION",
                [(1, 4, 4, 2), (3, 3, 2, 2)],
                input_spatial_dimensions=[1, 2],
                kernel_spatial_dimensions=[1, 1],
                output_spatial_dimensions=[1, 2],
            ),
            "no permutation",
        ),
        (
            one(
                "STABLEHLO_GATHER",
                [((4, 4), "float32"), [[1]]],
                ((1, 4), "float32"),
                {"offset_dims": [1], "collapsed_slice_dims": [0], "index_vector_dim": 1, "slice_sizes": [9, 4]},
            ),
            "takes parts",
        ),
        (one("DYNAMIC_UPDATE_SLICE", [((2,), "float32"), ((3,), "float32"), [0]], ((2,), "float32")), "puts"),
        (scattered("", [[0, 1], [1, 0]]), "index vectors of 2 numbers for 1 axes"),
        (table_without_values(), "HASHTABLE_IMPORT#1 has 2 inputs where its definition has 3"),
        (table_without_values(-1), "HASHTABLE_IMPORT#1 lacks its input 2"),
    ],
)
def test_contradictions(source: bytes, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        read(source)


def test_windows_that_never_end() -> None:
    """Found by mutating models: a window of more elements than the file could ever need."""
    builder = Builder()
    x, out = builder.input("x", (4,)), builder.tensor("out", (0,))
    rest = [builder.constant(f"c{at}", [each], "int64") for at, each in enumerate((1 << 40, 1, 1))]
    start = builder.constant("start", 0.0, "float32")
    builder.operator("REDUCE_WINDOW", [x, start, *rest], [out], {"reduce_function": "ADD"})
    with pytest.raises(ConversionError, match="grow"):
        read(builder.finish(out))


def test_a_bias_of_a_product_of_int16_by_int16() -> None:
    """LiteRT runs such a model, and reads the bias as another type."""
    builder, quant = Builder(), Quant([0.01], [0])
    x, weights, out = (
        builder.input("x", (4, 6), "int16", quant=quant),
        builder.input("weights", (5, 6), "int16", quant=quant),
        builder.tensor("out", (4, 5), "int16", quant=quant),
    )
    bias = builder.constant("bias", np.zeros(5, np.int64), quant=Quant([0.0001], [0]))
    builder.operator("FULLY_CONNECTED", [x, weights, bias], [out])
    with pytest.raises(UnsupportedError, match="misreads the bias"):
        read(builder.finish(out))


@pytest.mark.parametrize("operator", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_variables_that_begin_as_zeros_divide_nothing(operator: str) -> None:
    builder = Builder()
    x, y = builder.input("x", (3,), "int32"), builder.tensor("y", (3,), "int32", variable=True)
    z = builder.tensor("z", (3,), "int32")
    builder.operator(operator, [x, y], [z], {})
    with pytest.raises(UnsupportedError, match="divides integers by a variable, which begins as zeros"):
        read(builder.finish(z))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_parameters_that_mean_nothing(dtype: str) -> None:
    """Zero points beside those that the type has, and scales that are no positive numbers."""
    limits = np.iinfo(dtype)
    for zero, scale, reason in (
        (limits.min - 1, 0.1, f"a zero point outside of {dtype}"),
        (limits.max + 1, 0.1, f"a zero point outside of {dtype}"),
        (0, -0.1, "a quantization scale that is negative or not finite"),
        (0, float("nan"), "a quantization scale that is negative or not finite"),
    ):
        build = Builder()
        x = build.input("x", (1, 4), dtype, quant=Quant([0.1], [0]))
        y = build.tensor("y", (1, 4), dtype, quant=Quant([scale], [zero]))
        build.operator("RELU", [x], [y])
        with pytest.raises(ModelError, match=f"'y' has {reason}"):
            layoutsolve.convert(build.finish(y))
