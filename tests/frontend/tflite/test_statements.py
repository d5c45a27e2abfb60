"""What a file states about tensors and options and what no kernel takes it for: refused, or read as LiteRT reads it."""

from __future__ import annotations

import itertools

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

import layoutsolve
from layoutsolve.errors import ConversionError, InternalError, ModelError, UnsupportedError
from layoutsolve.frontend.tflite.lowering.registry import declaration
from tests.builder import Builder, Quant

PER_TENSOR, PER_CHANNEL = Quant([0.1], [0]), Quant([0.1, 0.2], [0, 0], 3)
WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1}


def binary(operator: str, quants: tuple[Quant, Quant, Quant]) -> bytes:
    """An operator of two tensors of int8, and its result, with these parameters."""
    builder = Builder()
    inputs = [builder.input(f"in{at}", (1, 2, 2, 2), "int8", quant=quant) for at, quant in enumerate(quants[:2])]
    out = builder.tensor("out", (1, 2, 2, 2), "int8", quant=quants[2])
    builder.operator(operator, inputs, [out], {})
    return builder.finish(out)


def unary(operator: str, quants: tuple[Quant, Quant]) -> bytes:
    """An operator of one tensor of int8, and its result, with these parameters."""
    builder = Builder()
    x = builder.input("x", (1, 2, 2, 2), "int8", quant=quants[0])
    out = builder.tensor("out", (1, 2, 2, 2), "int8", quant=quants[1])
    builder.operator(
        operator, [x], [out], WINDOW | {"filter_height": 1, "filter_width": 1} if "POOL" in operator else {}
    )
    return builder.finish(out)


def convolution(operator: str, quants: tuple[Quant, Quant]) -> bytes:
    """A convolution of int8, or a product, with these parameters of its input and its output."""
    builder, weights = Builder(), Quant([0.5, 0.25], [0, 0], 3 if operator == "DEPTHWISE_CONV_2D" else 0)
    flat, channels = operator == "FULLY_CONNECTED", (1, 2) if operator == "DEPTHWISE_CONV_2D" else (2, 2)
    shape = (3, 2) if flat else (1, 3, 3, 2)
    quants = tuple(Quant(each.scale, each.zero_point, len(shape) - 1) for each in quants)  # type: ignore[assignment]
    x = builder.input("x", shape, "int8", quant=quants[0])
    kernel = np.ones((2, 2) if flat else (channels[0], 1, 1, channels[1]), np.int8)
    given = [x, builder.constant("w", kernel, quant=weights)]
    if operator == "TRANSPOSE_CONV":
        given = [builder.constant("sizes", np.array(shape, np.int32)), given[1], x]
    out = builder.tensor("out", shape, "int8", quant=quants[1])
    builder.operator(operator, given, [out], {} if flat else WINDOW)
    return builder.finish(out)


@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("where", range(3))
def test_scales_per_channel_of_two_tensors(operator: str, where: int) -> None:
    """Only weights have several scales: for all else LiteRT's kernels have room for one."""
    quants = [PER_TENSOR] * 3
    layoutsolve.convert(binary(operator, (quants[0], quants[1], quants[2])))
    quants[where] = PER_CHANNEL
    with pytest.raises(UnsupportedError, match="is quantized per channel"):
        layoutsolve.convert(binary(operator, (quants[0], quants[1], quants[2])))


@pytest.mark.parametrize("operator", ["ABS", "AVERAGE_POOL_2D", "EXP", "LOGISTIC", "RELU", "RELU6", "SOFTMAX", "TANH"])
@pytest.mark.parametrize("where", range(2))
def test_scales_per_channel_of_activations(operator: str, where: int) -> None:
    assert declaration(operator).quantized
    quants = [PER_TENSOR, PER_TENSOR]
    layoutsolve.convert(unary(operator, (quants[0], quants[1])))
    quants[where] = PER_CHANNEL
    with pytest.raises(UnsupportedError, match="is quantized per channel"):
        layoutsolve.convert(unary(operator, (quants[0], quants[1])))


@pytest.mark.parametrize(
    "operator", ["CONCATENATION", "EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"]
)
@pytest.mark.parametrize("where", range(2))
def test_scales_per_channel_of_what_is_compared(operator: str, where: int) -> None:
    for channels in (False, True):
        quants = [PER_CHANNEL if channels and at == where else PER_TENSOR for at in range(2)]
        builder = Builder()
        given = [builder.input(f"x{at}", (2, 2, 2, 2), "int8", quant=quant) for at, quant in enumerate(quants)]
        joined = operator == "CONCATENATION"
        form = ((4, 2, 2, 2), "int8") if joined else ((2, 2, 2, 2), "bool")
        out = builder.tensor("out", *form, quant=PER_TENSOR if joined else None)
        builder.operator(operator, given, [out], {"axis": 0} if joined else {})
        converts(builder.finish(out), not channels, "is quantized per channel", UnsupportedError)


@pytest.mark.parametrize("operator", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
@pytest.mark.parametrize("where", range(2))
def test_scales_per_channel_beside_weights(operator: str, where: int) -> None:
    quants = [PER_TENSOR, PER_TENSOR]
    layoutsolve.convert(convolution(operator, (quants[0], quants[1])))
    quants[where] = PER_CHANNEL
    with pytest.raises(UnsupportedError, match="is quantized per channel"):
        layoutsolve.convert(convolution(operator, (quants[0], quants[1])))


@pytest.mark.parametrize(
    ("operator", "key"), [("MAX_POOL_2D", "padding"), ("CONV_2D", "padding"), ("MIRROR_PAD", "mode")]
)
@pytest.mark.parametrize("number", [-1, 2, 3, 127])
def test_choices_that_there_are_not(operator: str, key: str, number: int) -> None:
    """LiteRT computes nothing, or refuses, where an option is none of its ways."""
    builder = Builder()
    x, out = builder.input("x", (1, 3, 3, 2)), builder.tensor("out", (1, 3, 3, 2))
    constants = {
        "MAX_POOL_2D": [],
        "CONV_2D": [builder.constant("w", np.ones((2, 1, 1, 2), np.float32))],
        "MIRROR_PAD": [builder.constant("pads", np.zeros((4, 2), np.int32))],
    }
    window = WINDOW | ({"filter_height": 1, "filter_width": 1} if operator == "MAX_POOL_2D" else {})
    builder.operator(operator, [x, *constants[operator]], [out], {"mode": "REFLECT"} if key == "mode" else window)
    source = builder.finish(out)
    layoutsolve.convert(source)
    model = schema.ModelT.InitFromPackedBuf(source)
    setattr(model.subgraphs[0].operators[0].builtinOptions, key, number)
    written = flatbuffers.Builder()
    written.Finish(model.Pack(written), b"TFL3")
    with pytest.raises(ModelError, match=f"has the {key} {number}, which is none of"):
        layoutsolve.convert(bytes(written.Output()))


def test_inputs_with_data_of_their_own() -> None:
    """Which of the two an operator reads depends on when LiteRT computes it."""
    builder = Builder()
    x = builder.input("x", (2, 3), data=np.ones((2, 3), np.float32))
    y = builder.tensor("y", (2, 3))
    builder.operator("NEG", [x], [y])
    with pytest.raises(ModelError, match="input tensor 0 'x' of subgraph 0 has data of its own"):
        layoutsolve.convert(builder.finish(y))


@pytest.mark.parametrize("signature", list(itertools.product((-1, 2, 7), (-1, 3, 9))))
def test_signatures_only_say_what_is_open(signature: tuple[int, ...]) -> None:
    """The sizes that are not open are those of the shape."""
    builder = Builder()
    x, y = builder.input("x", (2, 3), signature=signature), builder.tensor("y", (2, 3), signature=signature)
    builder.operator("NEG", [x], [y])
    conversion = layoutsolve.convert(builder.finish(y))
    dims = conversion.model.graph.input[0].type.tensor_type.shape.dim
    stated = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]
    assert stated == [-1 if mark == -1 else size for mark, size in zip(signature, (2, 3), strict=True)]


TYPES = ("int8", "int16", "int32", "float32")


@pytest.mark.parametrize(("left", "right", "made"), list(itertools.product(TYPES, repeat=3)))
def test_types_of_products(left: str, right: str, made: str) -> None:
    """LiteRT writes what the first input is, or sums in 32 bits, whatever type is declared for the result."""
    builder = Builder()
    quants = {"int8": Quant([0.1], [0]), "int16": Quant([0.1], [0])}
    x = builder.input("x", (2, 3), left, quant=quants.get(left))
    y = builder.input("y", (3, 2), right, quant=quants.get(right))
    out = builder.tensor("out", (2, 2), made, quant=quants.get(made))
    builder.operator("BATCH_MATMUL", [x, y], [out], {})
    sums = made == "int32" and {left, right} <= set(quants)
    if made != left and not sums:
        with pytest.raises(ConversionError, match="where its definition has"):
            layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "int32"])
def test_constants_are_not_computed_in_two_bits(dtype: str) -> None:
    builder = Builder()
    x, out = builder.constant("x", np.zeros(3, dtype)), builder.tensor("out", (3,), "int2")
    builder.operator("CAST", [x], [out])
    with pytest.raises(UnsupportedError, match="'out' is computed, or changed, in int2"):
        layoutsolve.convert(builder.finish(out))


def test_variables_are_not_of_two_bits() -> None:
    builder = Builder()
    rows, out = builder.input("rows", (3,), "int32"), builder.tensor("out", (3, 4))
    table = builder.tensor("table", (5, 4), "int2", variable=True, quant=Quant([0.1], [0]))
    builder.operator("EMBEDDING_LOOKUP", [rows, table], [out])
    with pytest.raises(UnsupportedError, match="is computed, or changed, in int2"):
        layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize("operator", ["ABS", "EXP", "LOGISTIC", "RELU", "RSQRT", "TANH"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_constants_without_parameters_are_as_little_computed_with(operator: str, dtype: str) -> None:
    builder = Builder()
    x, out = builder.constant("x", np.zeros(3, dtype)), builder.tensor("out", (3,), dtype)
    builder.operator(operator, [x], [out])
    with pytest.raises(UnsupportedError, match="has no quantization parameters"):
        layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize("position", [1, 2])
@pytest.mark.parametrize("operator", ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"])
def test_only_gates_may_be_diagonal(operator: str, position: int) -> None:
    """A vector is a diagonal matrix to LSTM; other kernels read beyond it."""
    builder, shape = Builder(), (2, 4) if operator == "RNN" else (2, 3, 4)
    x, state = builder.input("x", shape), builder.tensor("state", (2, 4), variable=True)
    matrices = [builder.constant(f"w{at}", np.ones((4, 4), np.float32)) for at in (1, 2)]
    bias = builder.constant("b", np.ones(4, np.float32))
    out = builder.tensor("out", shape)
    given = [x, *matrices, bias, state]
    layoutsolve.convert(finished(builder, operator, given, out))
    builder.subgraph.operators.clear()
    given[position] = bias
    with pytest.raises(ModelError, match=r"weights of shape \[4\], it needs \[4, 4\]"):
        layoutsolve.convert(finished(builder, operator, given, out))


def converts(source: bytes, right: bool, reason: str, error: type[ConversionError] = ModelError) -> None:
    """A model converts where it is right, and is refused for a reason where it is not."""
    if right:
        layoutsolve.convert(source)
    else:
        with pytest.raises(error, match=reason):
            layoutsolve.convert(source)


def finished(builder: Builder, operator: str, given: list[int], out: int) -> bytes:
    """The model with one operator of ReLU."""
    options = {"fused_activation_function": "RELU"}
    builder.operator(operator, given, [out], options)
    return builder.finish(out)


@pytest.mark.parametrize("operator", ["DIV", "FLOOR_DIV", "FLOOR_MOD", "STABLEHLO_DIVIDE", "STABLEHLO_REMAINDER"])
@pytest.mark.parametrize("divisor", [3, 0])
def test_integers_divided_by_zero(operator: str, divisor: int) -> None:
    builder = Builder()
    x, out = builder.input("x", (2,), "int32"), builder.tensor("out", (2,), "int32")
    builder.operator(operator, [x, builder.constant("by", np.array([2, divisor], np.int32))], [out])
    converts(builder.finish(out), divisor != 0, "divides integers by a constant that holds a zero", UnsupportedError)


@pytest.mark.parametrize("operator", ["DIV", "FLOOR_DIV", "FLOOR_MOD", "STABLEHLO_DIVIDE", "STABLEHLO_REMAINDER"])
@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("computed", ["STABLEHLO_IOTA", "CUMSUM", "BITWISE_XOR"])
def test_integers_divided_by_what_is_computed_from_constants(computed: str, first: int, operator: str) -> None:
    """A runtime that computes it beforehand finds a zero as well. Some are computed here."""
    builder = Builder()
    x = builder.input("x", (3,), "int32")
    by, more, out = (builder.tensor(name, (3,), "int32") for name in ("by", "more", "out"))
    ones, axis = builder.constant("ones", np.ones(3, np.int32)), builder.constant("axis", np.int32(0))
    others = builder.constant("others", np.array([0, 3, 2], np.int32))
    given = {"STABLEHLO_IOTA": [], "CUMSUM": [ones, axis], "BITWISE_XOR": [ones, others]}[computed]
    builder.operator(computed, given, [by])
    more_each = first - (computed != "STABLEHLO_IOTA")
    builder.operator("ADD", [by, builder.constant("first", np.full(3, more_each, np.int32))], [more])
    builder.operator(operator, [x, more], [out])
    known = computed != "BITWISE_XOR"
    reason = "by a constant that holds a zero" if known else "by what is computed from constants"
    converts(builder.finish(out), known and first > 0, f"divides integers {reason}", UnsupportedError)


@pytest.mark.parametrize("wrong", [None, 1, 2])
@pytest.mark.parametrize("shape", [(3,), (1, 2), ()])
@pytest.mark.parametrize("operator", ["SLICE", "STRIDED_SLICE"])
def test_computed_bounds_are_vectors_of_an_entry_for_each_axis(
    operator: str, shape: tuple[int, ...], wrong: int | None
) -> None:
    builder = Builder()
    x, out = builder.input("x", (4, 4)), builder.tensor("out", (), signature=None)
    bounds = [builder.input(f"in{at}", shape if at == wrong else (2,), "int32") for at in (1, 2)]
    steps = [builder.constant("steps", np.ones(2, np.int32))] if operator == "STRIDED_SLICE" else []
    builder.operator(operator, [x, *bounds, *steps], [out], {} if steps else None)
    converts(builder.finish(out), wrong is None, "slices 2 axes by" if operator == "SLICE" else "contradict each other")


@pytest.mark.parametrize("shape", [(), (1,), (2, 1), (5,)])
@pytest.mark.parametrize(
    "operator", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TILE", "PAD", "MIRROR_PAD", "BROADCAST_TO", "FILL"]
)
def test_computed_sizes_of_another_shape(operator: str, shape: tuple[int, ...]) -> None:
    """They are refused, or told apart from what the operator cannot take; nothing unexpected comes of them."""
    builder = Builder()
    x, size = builder.input("x", (1, 4, 4, 2)), builder.input("size", shape, "int32")
    scalar = builder.constant("filler", np.float32(1))
    out = builder.tensor("out", (1, 4, 4, 2))
    builder.operator(operator, [size, scalar] if operator == "FILL" else [x, size], [out])
    try:
        layoutsolve.convert(builder.finish(out))
    except ConversionError as error:
        assert not isinstance(error, InternalError), error
    else:
        assert operator in ("FILL", "BROADCAST_TO") and len(shape) == 1


@pytest.mark.parametrize(("operator", "key"), [("SOFTMAX", "beta"), ("LEAKY_RELU", "alpha")])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_options_that_are_no_numbers(operator: str, key: str, dtype: str) -> None:
    builder, quant = Builder(), None if dtype == "float32" else Quant([2.0**-8], [0 if dtype == "uint8" else -128])
    x, out = builder.input("x", (2, 3), dtype, quant=quant), builder.tensor("out", (2, 3), dtype, quant=quant)
    builder.operator(operator, [x], [out], {key: float("nan")})
    with pytest.raises(ModelError, match=f"has the {key} nan"):
        layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize("activation", ["RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("operator", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("scaled", [True, False])
def test_limits_need_a_scale(operator: str, dtype: str, activation: str, scaled: bool) -> None:
    """LiteRT clamps to what its memory happens to hold where the output has none."""
    builder, quant = Builder(), Quant([0.1], [0])
    x = builder.input("x", (1, 4, 4, 2), dtype, quant=quant)
    out = builder.tensor("out", (1, 2, 2, 2), dtype, quant=quant if scaled else None)
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    builder.operator(operator, [x], [out], {**options, "fused_activation_function": activation})
    converts(builder.finish(out), scaled, "which has no scale")


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16"])
@pytest.mark.parametrize("beta", [np.inf, -np.inf, 1e9])
def test_infinite_beta(beta: float, dtype: str) -> None:
    builder, quant = Builder(), None if dtype == "float32" else Quant([2.0**-8], [0])
    x, out = builder.input("x", (2, 3), dtype, quant=quant), builder.tensor("out", (2, 3), dtype, quant=quant)
    builder.operator("SOFTMAX", [x], [out], {"beta": beta})
    converts(builder.finish(out), bool(np.isfinite(beta)), "has the beta")


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16"])
@pytest.mark.parametrize("alpha", [np.inf, -np.inf, 0.5])
def test_infinite_alpha(alpha: float, dtype: str) -> None:
    builder, quant = Builder(), None if dtype == "float32" else Quant([2.0**-8], [0])
    x, out = builder.input("x", (2, 3), dtype, quant=quant), builder.tensor("out", (2, 3), dtype, quant=quant)
    builder.operator("LEAKY_RELU", [x], [out], {"alpha": alpha})
    converts(builder.finish(out), bool(np.isfinite(alpha)), "has the alpha")


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16"])
@pytest.mark.parametrize("operator", ["AVERAGE_POOL_2D", "CONV_2D", "L2_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(("padding", "shape", "right"), [
    ("SAME", (2, 6, 4, 3), True), ("SAME", (2, 1, 1, 3), True), ("SAME", (2, 6, 0, 3), False),
    ("SAME", (2, 0, 4, 3), False), ("VALID", (2, 2, 2, 3), True), ("VALID", (2, 1, 4, 3), False),
    ("VALID", (2, 4, 0, 3), False),
])  # fmt: skip
def test_windows_meet_pixels(padding: str, shape: tuple[int, ...], right: bool, operator: str, dtype: str) -> None:
    """ONNX Runtime fails on images without pixels."""
    if dtype != "float32" and operator in ("CONV_2D", "L2_POOL_2D"):
        return
    builder, quant = Builder(), None if dtype == "float32" else Quant([0.5], [0])
    sizes = [-(-size // 2) if padding == "SAME" else max(size // 2, 0) for size in shape[1:3]]
    x = builder.input("x", shape, dtype, quant=quant)
    out = builder.tensor("out", (shape[0], *sizes, 3), dtype, quant=quant)
    options = {"padding": padding, "stride_h": 2, "stride_w": 2}
    if operator == "CONV_2D":
        options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
        given = [
            x,
            builder.constant("w", np.ones((3, 2, 2, 3), np.float32)),
            builder.constant("b", np.ones(3, np.float32)),
        ]
    else:
        options |= {"filter_height": 2, "filter_width": 2}
        given = [x]
    builder.operator(operator, given, [out], options)
    converts(builder.finish(out), right, "does not fit into the size")


@pytest.mark.parametrize("option", ["alpha", "beta", "bias", ""])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinite_normalisation(value: float, option: str) -> None:
    builder = Builder()
    x, out = builder.input("x", (1, 2, 3, 8)), builder.tensor("out", (1, 2, 3, 8))
    options = {"radius": 1, "alpha": 1.0, "beta": 0.5, "bias": 1.0, **({option: value} if option else {})}
    builder.operator("LOCAL_RESPONSE_NORMALIZATION", [x], [out], options)
    converts(builder.finish(out), not option, f"has the {option} ")


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_pixels_are_placed_in_one_way(half: bool, aligned: bool, computed: bool) -> None:
    builder = Builder()
    x, out = builder.input("x", (1, 4, 3, 2)), builder.tensor("out", (1, 7, 9, 2))
    sizes = builder.input("sizes", (2,), "int32") if computed else builder.constant("sizes", [7, 9], "int32")
    builder.operator("RESIZE_BILINEAR", [x, sizes], [out], {"align_corners": aligned, "half_pixel_centers": half})
    converts(builder.finish(out), not (aligned and half), "aligns corners and half pixels at once")


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("stride", [1, 2, -1, -2])
@pytest.mark.parametrize("begin", [0, 2, -1])
def test_single_elements_are_taken_forwards(begin: int, stride: int, computed: bool) -> None:
    builder = Builder()
    x, out = builder.input("x", (2, 4, 3)), builder.tensor("out", (2, 3))
    end = builder.input("end", (3,), "int32") if computed else builder.constant("end", [0, 0, 0], "int32")
    bounds = [builder.constant("begin", [0, begin, 0], "int32"), end, builder.constant("by", [1, stride, 1], "int32")]
    masks = {"begin_mask": 5, "end_mask": 5, "shrink_axis_mask": 2}
    builder.operator("STRIDED_SLICE", [x, *bounds], [out], masks)
    converts(builder.finish(out), stride > 0, "takes one element of an axis, backwards")


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (-1, 3), (4, -1), (1, 2), (2, 3), (-2, 6), (5, -1), (1, 1, 2)])
def test_parts_make_up_the_whole(sizes: tuple[int, ...]) -> None:
    builder, rest = Builder(), 4 - sum(each for each in sizes if each != -1)
    counts = [rest if each == -1 else each for each in sizes]
    right = sum(counts) == 4 and min(counts) >= 0 and len(counts) == 2
    parts = [builder.tensor(f"part{at}", (2, max(each, 0))) for at, each in enumerate(counts[:2])]
    given = [builder.constant("sizes", [*sizes], "int32"), builder.constant("axis", 1, "int32")]
    builder.operator("SPLIT_V", [builder.input("x", (2, 4)), *given], parts, {"num_splits": 2})
    converts(builder.finish(*parts), right, "splits 4 elements into")


@pytest.mark.parametrize("axes", [(1, 0), (2, 0), (0, 2)])
@pytest.mark.parametrize("more", [-9, 0, 1, 100])
def test_sequences_are_reversed_as_far_as_they_reach(axes: tuple[int, int], more: int) -> None:
    builder, (along, batch), shape = Builder(), axes, (3, 4, 5)
    x, out = builder.input("x", shape), builder.tensor("out", shape)
    lengths = np.full(shape[batch], 1, np.int32)
    lengths[-1] = shape[along] + more
    options = {"seq_dim": along, "batch_dim": batch}
    builder.operator("REVERSE_SEQUENCE", [x, builder.constant("lengths", lengths)], [out], options)
    converts(builder.finish(out), more <= 0, "reverses more elements than")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("operator", ["FILL", "BROADCAST_TO"])
@pytest.mark.parametrize("count", [3, 17, 1 << 20])
def test_vectors_of_sizes_are_short(count: int, operator: str, known: bool) -> None:
    """Nothing is written for a million dimensions, not even their names."""
    builder = Builder()
    sizes = builder.constant("sizes", np.ones(count, np.int32)) if known else builder.input("sizes", (count,), "int32")
    value, out = builder.input("value", ()), builder.tensor("out", ())
    builder.operator(operator, [sizes, value] if operator == "FILL" else [value, sizes], [out])
    converts(builder.finish(out), count < 17, f"has {count} numbers as its shape")


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
@pytest.mark.parametrize("first", [True, False])
def test_what_has_no_elements_is_computed_before_it_is_read(first: bool, shape: tuple[int, ...]) -> None:
    """A tensor without elements needs no source, but where it has one it is not read before."""
    builder = Builder()
    x, between, out = builder.input("x", shape), builder.tensor("between", shape), builder.tensor("out", shape)
    operators = [("ABS", [x], [between]), ("NEG", [between], [out])]
    for operator in operators if first else reversed(operators):
        builder.operator(*operator)
    converts(builder.finish(out), first, "before anything computes it")


@pytest.mark.parametrize("shape", [(2, 0), (0, 8), (2, 0, 8), (2, 3, 0)])
@pytest.mark.parametrize("size", [4, 128])
def test_rotations_of_nothing(size: int, shape: tuple[int, ...]) -> None:
    builder = Builder()
    x, out = builder.input("x", shape), builder.tensor("out", shape)
    settings = bytes(flexbuffers.Dumps({"hadamard_size": size}))
    builder.operator("CUSTOM:aeq.hadamard_rotation", [x], [out], custom_options=settings)
    with pytest.raises(UnsupportedError, match="has no elements"):
        layoutsolve.convert(builder.finish(out))


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "bool", "string"])
def test_variables_begin_with_zeros(dtype: str, filled: bool) -> None:
    """LiteRT refuses those with data of their own as well."""
    builder = Builder()
    data = np.array(["a", "b"], object) if dtype == "string" else np.ones(2, dtype)
    x = builder.tensor("x", (2,), dtype, data=data if filled else None, variable=True)
    out = builder.tensor("out", (4,), dtype)
    builder.operator("TILE", [x, builder.constant("repeats", np.array([2], np.int32))], [out])
    source = builder.finish(out)
    if filled:
        with pytest.raises(ModelError, match="variable 0 'x' of subgraph 0 has data of its own"):
            layoutsolve.convert(source)
    elif dtype == "string":
        with pytest.raises(UnsupportedError, match="is a variable of strings"):
            layoutsolve.convert(source)
    else:
        layoutsolve.convert(source)


@pytest.mark.parametrize("begin", [-4, -2, 0, 1, 3])
@pytest.mark.parametrize("count", [-1, 0, 1, 3])
@pytest.mark.parametrize(("step", "masked"), [(1, False), (2, False), (-1, False), (1, True)])
def test_slices_by_counts_stay_inside(begin: int, count: int, step: int, masked: bool) -> None:
    """Where a slice counts from its start on, LiteRT reads or writes beyond its data if there are not as many."""
    first = begin + 3 if begin < 0 else begin
    right = step > 0 and not masked and 0 <= first <= first + count <= 3 and count >= 0
    builder = Builder()
    x, out = builder.input("x", (3,)), builder.tensor("out", (-(-count // step),) if right else ())
    bounds = [
        builder.constant(f"bound{at}", np.array([each], np.int32)) for at, each in enumerate((begin, count, step))
    ]
    builder.operator("STRIDED_SLICE", [x, *bounds], [out], {"offset": True, "end_mask": int(masked)})
    converts(builder.finish(out), right, "a strided slice")


@pytest.mark.parametrize("stated", [(2, 3), (1, 3), (3,)])
def test_variables_are_read_as_they_are(stated: tuple[int, ...]) -> None:
    """LiteRT states what follows for the shape that is declared, whatever the variable holds."""
    builder = Builder()
    x, initial = builder.input("x", (2, 3)), builder.part()
    builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    handles = [part.tensor("handle", (), "resource") for part in (builder, initial)]
    for part, handle in zip((builder, initial), handles, strict=True):
        part.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "sum"})
    initial.operator("ASSIGN_VARIABLE", [handles[1], initial.constant("value", np.ones((2, 3), np.float32))], [])
    initial.outputs()
    read, out = builder.tensor("read", stated), builder.tensor("out", (2, 3))
    builder.operator("READ_VARIABLE", [handles[0]], [read])
    builder.operator("ADD", [read, x], [out], {})
    builder.operator("ASSIGN_VARIABLE", [handles[0], out], [])
    converts(builder.finish(out), stated == (2, 3), "gives the shape")


@pytest.mark.parametrize("operator", ["CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_computed_weights_of_floats_are_signed(operator: str, dtype: str) -> None:
    """LiteRT takes bytes without sign for signed ones: constants are read so, what is computed is refused."""
    builder, image = Builder(), operator == "CONV_2D"
    shapes = ((1, 4, 4, 3), (2, 1, 1, 3), (1, 4, 4, 2)) if image else ((4, 3), (2, 3), (4, 2))
    x, out = builder.input("x", shapes[0]), builder.tensor("out", shapes[2])
    weights = builder.input("weights", shapes[1], dtype, quant=Quant([0.01], [0]))
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    builder.operator(operator, [x, weights, -1], [out], window if image else {})
    converts(builder.finish(out), dtype == "int8", "computed bytes without sign", UnsupportedError)


@pytest.mark.parametrize("zero", [0, 3])
def test_states_of_16_bits_are_symmetric(zero: int) -> None:
    builder, quants = Builder(), {"int8": Quant([0.01], [0]), "int16": Quant([0.02], [zero])}
    x = builder.input("x", (2, 5), "int8", quant=quants["int8"])
    weights = [
        builder.constant("features", np.ones((4, 5), np.int8), quant=quants["int8"]),
        builder.constant("time", np.ones((4, 3), np.int16), quant=Quant([0.02], [0])),
        builder.constant("bias", np.ones(4, np.int32), quant=Quant([0.0004], [0])),
    ]
    out = builder.tensor("out", (2, 4), "int8", quant=quants["int8"])
    state = builder.tensor("state", (2, 12), "int16", quant=quants["int16"], variable=True)
    builder.operator("SVDF", [x, *weights, state], [out], {"rank": 1, "fused_activation_function": "RELU"})
    converts(builder.finish(out), zero == 0, "has a zero point", UnsupportedError)
