"""StableHLO operators: those that a TensorFlow Lite operator does as well, and simple ones of their own.

They compute on what is stored: quantisation means nothing to LiteRT's kernels of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span, axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers, own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.bitwise import shift_left
from layoutsolve.frontend.tflite.operators.elementwise import check_divisor
from layoutsolve.frontend.tflite.operators.padding import gaps, write_dilated, write_pad
from layoutsolve.frontend.tflite.operators.scattering import kept_inside, write_update
from layoutsolve.frontend.tflite.operators.shared.common import (
    as_int64,
    as_stored,
    cast_to,
    counted,
    static,
    store,
    write_extremum,
    write_stored,
)
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Value, product

_SAME: Mapping[str, str] = {
    "STABLEHLO_ABS": "ABS",
    "STABLEHLO_CONVERT": "CAST",
    "STABLEHLO_COSINE": "COS",
    "STABLEHLO_DIVIDE": "DIV",
    "STABLEHLO_EXPONENTIAL": "EXP",
    "STABLEHLO_FLOOR": "FLOOR",
    "STABLEHLO_LOG": "LOG",
    "STABLEHLO_LOGISTIC": "LOGISTIC",
    "STABLEHLO_NEGATE": "NEG",
    "STABLEHLO_POWER": "POW",
    "STABLEHLO_RSQRT": "RSQRT",
    "STABLEHLO_SELECT": "SELECT_V2",
    "STABLEHLO_SUBTRACT": "SUB",
    "STABLEHLO_TANH": "TANH",
    "STABLEHLO_WHILE": "WHILE",
}
_COMPARISONS = (
    ("Equal", False),
    ("Equal", True),
    ("GreaterOrEqual", False),
    ("Greater", False),
    ("LessOrEqual", False),
    ("Less", False),
)
"""By the number of a direction of comparison, ONNX's operator and whether its result is negated."""

_LOGIC = {"STABLEHLO_ADD": "Or", "STABLEHLO_MAXIMUM": "Or", "STABLEHLO_MULTIPLY": "And", "STABLEHLO_MINIMUM": "And"}
_ARITHMETIC = {
    "STABLEHLO_ADD": "Add",
    "STABLEHLO_MULTIPLY": "Mul",
    "STABLEHLO_MAXIMUM": "Max",
    "STABLEHLO_MINIMUM": "Min",
}
_EXTREMES = ("STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")

_WIDER = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}
"""Types with which ONNX Runtime does not compute, and what they are widened to; cast back, sums wrap around."""

_PLAIN = ("float32", "float64", "float16", "int32", "int64", *_WIDER)
PLAIN = "convert the model to TensorFlow Lite's own operators"


def unquantised(call: Call) -> None:
    """Refuse quantised tensors, for which LiteRT has no kernel."""
    results = [call.slot(position).quant for position in range(len(call.operator.outputs))]
    if any(quant is not None for quant in (*(value.quant for value in call.inputs()), *results)):
        raise GapError("it computes on quantized tensors", PLAIN)


@lowers("STABLEHLO_ABS", "STABLEHLO_NEGATE", signature="FZ -> =")
@lowers("STABLEHLO_CONVERT", signature="FZB -> FZB")
@lowers(
    "STABLEHLO_COSINE",
    "STABLEHLO_EXPONENTIAL",
    "STABLEHLO_FLOOR",
    "STABLEHLO_LOG",
    "STABLEHLO_LOGISTIC",
    "STABLEHLO_RSQRT",
    "STABLEHLO_TANH",
    signature="F -> =",
)
@lowers("STABLEHLO_DIVIDE", "STABLEHLO_POWER", "STABLEHLO_SUBTRACT", signature="FZ = -> =")
@lowers("STABLEHLO_SELECT", signature="B FZB =1 -> =1")
@lowers("STABLEHLO_WHILE", signature="FZBSCR* -> FZBSCR*")
def same(call: Call) -> None:
    """Operators that TensorFlow Lite has under another name."""
    unquantised(call)
    name = _SAME[call.operator.name]
    if name in ("DIV", "POW", "SUB"):
        alike(call)
    own_lowering(name)(call.restated(call.operator.options if name == "WHILE" else {}, name))


def alike(call: Call) -> tuple[Value, Value]:
    """The stored numbers of both operands, which have one shape and type."""
    a, b = as_stored(call, call.input(0)), as_stored(call, call.input(1))
    if not call.agree(a.shape, b.shape) or a.dtype != b.dtype:
        raise ModelError(f"{call.origin} reads {a} and {b}, which have to be alike")
    return a, b


@lowers(*_ARITHMETIC, signature="FZB = -> =")
def arithmetic(call: Call) -> None:
    """Binary operators; of truth values the sum is the disjunction."""
    a, b = alike(call)
    write_binary(call, call.operator.name, a, b, call.slot())


def write_binary(call: Call, name: str, a: Value, b: Value, slot: Slot) -> None:
    """Write an operator of two tensors of stored numbers."""
    if a.dtype == "bool":
        call.write(_LOGIC[name], [a, b], a.shape, slot)
        return
    if a.dtype not in _PLAIN:
        raise GapError(f"it computes with {a.dtype}", "use float32 or int32")
    if name in _EXTREMES:
        _extremum(call, _ARITHMETIC[name], a, b, slot)
        return
    _widened(call, _ARITHMETIC[name], a, b, slot)


def _widened(call: Call, op: str, a: Value, b: Value, slot: Slot) -> Value:
    """Write an operator of stored numbers in a type with which ONNX Runtime computes."""
    wide = _WIDER.get(a.dtype, a.dtype)
    given = [cast_to(call, each, wide, "wide") for each in (a, b)]
    return write_stored(call, op, given, a.shape, slot, wide)


def _extremum(call: Call, op: str, a: Value, b: Value, slot: Slot) -> Value:
    """Write a Max or Min of stored numbers: those of uint32 need not be widened."""
    if a.dtype == "uint32" or a.dtype not in _WIDER:
        return write_extremum(call, op, a, b, a.shape, slot)
    return _widened(call, op, a, b, slot)


@lowers("STABLEHLO_AND", "STABLEHLO_OR", signature="FZB = -> =")
def bits(call: Call) -> None:
    """The conjunction and disjunction of truth values, or of the bits of integers."""
    a, b = alike(call)
    op = "And" if call.operator.name == "STABLEHLO_AND" else "Or"
    if a.dtype == "bool":
        call.write(op, [a, b], a.shape, call.slot())
        return
    if a.dtype.startswith("float"):
        raise GapError(f"it takes the bits of {a.dtype}", "use integers or truth values")
    write_stored(call, f"Bitwise{op}", [a, b], a.shape, call.slot(), a.dtype)


@lowers("STABLEHLO_SHIFT_LEFT", signature="FZ = -> =")
def shift(call: Call) -> None:
    """Bits moved to the left; those that leave are lost."""
    a, b = alike(call)
    shift_left(call, a, b, call.slot())


@lowers("STABLEHLO_REMAINDER", signature="FZ = -> =")
def remainder(call: Call) -> None:
    """The remainder with the sign of the dividend."""
    unquantised(call)
    a, b = alike(call)
    check_divisor(call, b)
    call.write("Mod", [a, b], a.shape, call.slot(), fmod=1)


@lowers("STABLEHLO_CBRT", signature="F -> =")
def cube_root(call: Call) -> None:
    """The cube root, with the sign of its operand."""
    unquantised(call)
    x = call.input(0)
    if not x.dtype.startswith("float"):
        raise ModelError(f"{call.origin} takes the root of {x.dtype}")
    third = [call.write("Abs", [x], x.shape, call.temporary("abs", x.dtype)), call.constant(1 / 3, "third", x.dtype)]
    root = call.write("Pow", third, x.shape, call.temporary("root", x.dtype))
    sign = call.write("Sign", [x], x.shape, call.temporary("sign", x.dtype))
    call.write("Mul", [root, sign], x.shape, call.slot())


@lowers("STABLEHLO_CLAMP", signature="FZ = = -> =")
def clamp(call: Call) -> None:
    """The second operand between the first and the third, which may be scalars."""
    unquantised(call)
    low, x, high = call.inputs()
    if len({low.dtype, x.dtype, high.dtype}) != 1 or any(each.shape not in ((), x.shape) for each in (low, high)):
        raise ModelError(f"{call.origin} clamps {x} to {low} and {high}")
    if x.dtype not in _PLAIN:
        raise GapError(f"it clamps {x.dtype}", "use float32 or int32")
    raised = _extremum(call, "Max", x, low, call.temporary("raised", x.dtype))
    _extremum(call, "Min", raised, high, call.slot())


@lowers("STABLEHLO_COMPARE", signature="FZB = -> B")
def compare(call: Call) -> None:
    """A comparison, by its direction."""
    unquantised(call)
    direction = call.option("comparison_direction")
    if not 0 <= direction < len(_COMPARISONS):
        raise ModelError(f"{call.origin} compares in the unknown direction {direction}")
    a, b = alike(call)
    wide = "int32" if a.dtype == "bool" else _WIDER.get(a.dtype, a.dtype)
    operands = [cast_to(call, each, wide, "wide") for each in (a, b)]
    op, negated = _COMPARISONS[direction]
    result = call.write(op, operands, a.shape, call.temporary("equal", "bool") if negated else call.slot(), real="bool")
    if negated:
        call.write("Not", [result], a.shape, call.slot())


# -- views and movements -------------------------------------------------------------------------------------------


@lowers("STABLEHLO_RESHAPE", signature="FZB -> =")
def reshape(call: Call) -> None:
    """A reshape to what the output is declared as."""
    unquantised(call)
    call.reshape(call.input(0), declared(call), call.slot())


def declared(call: Call) -> tuple[int, ...]:
    """Shape that the file states for the output, where the operator itself does not determine it."""
    tensor = call.tensor()
    if -1 in tensor.signature or call.draft.dynamic:
        raise GapError("its shape is dynamic", "convert the model with static input shapes")
    return tensor.shape


@lowers("STABLEHLO_TRANSPOSE", signature="FZB -> =")
def transpose(call: Call) -> None:
    """A permutation of axes."""
    unquantised(call)
    x, perm = call.input(0), tuple(call.option("permutation", ()))
    if sorted(perm) != list(range(len(x.shape))):
        raise ModelError(f"{call.origin} has the permutation {list(perm)} for rank {len(x.shape)}")
    call.transpose(x, perm, call.slot())


@lowers("STABLEHLO_SLICE", signature="FZB -> =")
def slice_(call: Call) -> None:
    """A slice with steps."""
    unquantised(call)
    x = call.input(0)
    starts, ends, steps = (call.option(key, ()) for key in ("start_indices", "limit_indices", "strides"))
    steps = steps or (1,) * len(x.shape)
    sizes = static(call, x.shape, "shape")
    if not len(starts) == len(ends) == len(steps) == len(sizes) or min(steps, default=1) < 1:
        raise ModelError(f"{call.origin} slices {len(starts)} axes of {len(sizes)}")
    if any(not 0 <= start <= end <= size for start, end, size in zip(starts, ends, sizes, strict=True)):
        raise ModelError(f"{call.origin} slices from {list(starts)} to {list(ends)} of {list(sizes)}")
    spans = {axis: Span(*span) for axis, span in enumerate(zip(starts, ends, steps, strict=True))}
    take(call, x, spans, call.slot())


@lowers("STABLEHLO_CONCATENATE", signature="FZB =* -> =")
def concatenate(call: Call) -> None:
    """A concatenation."""
    unquantised(call)
    parts = call.inputs()
    if not parts:
        raise ModelError(f"{call.origin} has no inputs")
    join(call, parts, axis_of(call.option("dimension"), len(parts[0].shape)), call.slot())


@lowers("STABLEHLO_BROADCAST_IN_DIM", signature="FZB -> =")
def broadcast_in_dim(call: Call) -> None:
    """Axes put at given places, and everything broadcast to the shape of the output."""
    unquantised(call)
    x, places, shape = call.input(0), tuple(call.option("broadcast_dimensions", ())), declared(call)
    wrong = len(places) != len(x.shape) or len(set(places)) != len(places)
    if wrong or any(not 0 <= place < len(shape) for place in places):
        raise ModelError(f"{call.origin} puts {len(x.shape)} axes at {list(places)} of {len(shape)}")
    order = sorted(range(len(places)), key=lambda axis: places[axis])
    spread = tuple(x.shape[places.index(axis)] if axis in places else 1 for axis in range(len(shape)))
    if any(dim not in (1, size) for dim, size in zip(spread, shape, strict=True)):
        raise ModelError(f"{call.origin} broadcasts {list(map(str, x.shape))} to {list(shape)}")
    if order != list(range(len(places))):
        x = call.transposed(x, order, "sorted")
    if spread == shape:
        call.reshape(x, shape, call.slot())
        return
    grown = call.reshaped(x, spread, "spread")
    call.write("Expand", [grown, call.vector(shape, "shape")], shape, call.slot())


@lowers("STABLEHLO_IOTA", signature="-> FZ")
def iota(call: Call) -> None:
    """Numbers that count along one axis."""
    unquantised(call)
    shape, slot = declared(call), call.slot()
    axis = axis_of(call.option("iota_dimension"), len(shape))
    along = tuple(size if at == axis else 1 for at, size in enumerate(shape))
    line = call.reshaped(counted(call, shape[axis], slot.dtype, "line"), along, "along")
    call.write("Expand", [line, call.vector(shape, "shape")], shape, slot)


def _scalars(call: Call, first: int, rank: int) -> Value:
    """Scalar operands as one vector."""
    if call.arity != first + rank:
        raise ModelError(f"{call.origin} has {call.arity} inputs, it needs {first + rank}")
    scalars = [call.input(first + axis) for axis in range(rank)]
    known = [call.content(scalar) for scalar in scalars]
    numbers = [each.reshape(-1) for each in known if each is not None and each.dtype != object and each.size == 1]
    if len(numbers) == rank:
        return call.vector([int(each[0]) for each in numbers], "begin")
    parts = [call.reshaped(as_int64(call, scalar), (1,), "part") for scalar in scalars]
    return parts[0] if rank == 1 else join(call, parts, 0, call.temporary("begin", "int64"))


@lowers("STABLEHLO_DYNAMIC_SLICE", signature="FZB I* -> =")
def dynamic_slice(call: Call) -> None:
    """Slice of static size from computed indices, clamped into the tensor."""
    unquantised(call)
    x, counts = call.input(0), tuple(call.option("slice_sizes", ()))
    sizes = static(call, x.shape, "shape")
    if len(counts) != len(sizes) or any(not 0 <= count <= size for count, size in zip(counts, sizes, strict=True)):
        raise ModelError(f"{call.origin} takes {list(counts)} of {list(sizes)}")
    if not counts:
        store(call, x, call.slot())
        return
    axes = list(range(len(sizes)))
    room: list[Dim] = [size - count for size, count in zip(sizes, counts, strict=True)]
    starts = kept_inside(call, _scalars(call, 1, len(sizes)), axes, room)
    ends = call.write("Add", [starts, call.vector(counts, "counts")], (len(axes),), call.temporary("ends", "int64"))
    call.write("Slice", [x, starts, ends, call.vector(axes, "axes")], counts, call.slot())


@lowers("STABLEHLO_DYNAMIC_UPDATE_SLICE", signature="FZB = I* -> =")
def dynamic_update_slice(call: Call) -> None:
    """Replace a part of a tensor, from computed indices."""
    unquantised(call)
    x = call.input(0)
    if not x.shape:
        store(call, call.input(1), call.slot())
        return
    write_update(call, x, call.input(1), _scalars(call, 2, len(x.shape)), call.slot())


@lowers("STABLEHLO_PAD", signature="FZB = -> =")
def pad(call: Call) -> None:
    """Fillers between the elements and around them; a negative padding cuts off what there is by then."""
    x, filler, slot = as_stored(call, call.input(0)), as_stored(call, call.input(1)), call.slot()
    low, high, between = (
        tuple(call.option(key, ())) for key in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if not len(low) == len(high) == len(between) == len(x.shape) or min(between, default=0) < 0:
        raise ModelError(f"{call.origin} has paddings that do not fit rank {len(x.shape)}")
    if filler.dtype != x.dtype or slot.dtype != x.dtype or product(filler.shape) != 1:
        raise ModelError(f"{call.origin} pads {x.dtype} with '{filler.name}' of {filler.dtype}")
    store(call, padded(call, x, call.reshaped(filler, (), "filler"), (low, high, between)), slot)


def padded(call: Call, x: Value, filler: Value, pads: tuple[Sequence[int], Sequence[int], Sequence[int]]) -> Value:
    """Stored numbers, padded before, after and between; negative numbers cut off."""
    low, high, between = pads
    sizes = static(call, x.shape, "shape")
    factors = [gap + 1 for gap in between]
    if gaps(sizes, factors) and 0 not in sizes:
        x = write_dilated(call, x, filler, factors, call.temporary("dilated", x.dtype))
    grown = [(max(before, 0), max(after, 0)) for before, after in zip(low, high, strict=True)]
    if any(before or after for before, after in grown):
        x = write_pad(call, x, grown, call.temporary("grown", x.dtype), filler)
    whole, spans = static(call, x.shape, "shape"), {}
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            begin, end = max(-before, 0), whole[axis] - max(-after, 0)
            if begin > end:
                raise ModelError(f"{call.origin} cuts off more than there is")
            spans[axis] = Span(begin, end)
    return take(call, x, spans, call.temporary("cut", x.dtype)) if spans else x


# -- products ------------------------------------------------------------------------------------------------------


@lowers("STABLEHLO_DOT_GENERAL", signature="FZ FZ -> FZ")
def dot_general(call: Call) -> None:
    """A product over some axes of both sides, for each index of others: a MatMul of matrices."""
    unquantised(call)
    sides = []
    for position, side in enumerate(("lhs", "rhs")):
        value = call.input(position)
        batch, contracted = (
            tuple(axis_of(axis, len(value.shape)) for axis in call.option(f"{side}_{kind}_dimensions", ()))
            for kind in ("batching", "contracting")
        )
        if len({*batch, *contracted}) != len(batch) + len(contracted):
            raise ModelError(f"{call.origin} names an axis of '{value.name}' twice")
        free = tuple(axis for axis in range(len(value.shape)) if axis not in (*batch, *contracted))
        sides.append((value, batch, free, contracted))
    (a, *left), (b, *right) = sides
    for mine, other in ((left[0], right[0]), (left[2], right[2])):
        if not call.agree(tuple(a.shape[axis] for axis in mine), tuple(b.shape[axis] for axis in other)):
            raise ModelError(f"{call.origin} multiplies {list(map(str, a.shape))} by {list(map(str, b.shape))}")
    if a.dtype != b.dtype or a.dtype not in ("float32", "float64", "float16", "int32"):
        raise GapError(f"it multiplies {a.dtype} by {b.dtype}", "use float32")
    outer = tuple(a.shape[axis] for axis in left[0])
    rows, columns = ([value.shape[axis] for axis in axes[1]] for value, axes in ((a, left), (b, right)))
    inner = product([a.shape[axis] for axis in left[2]])
    one = _matrix(call, a, (*left[0], *left[1], *left[2]), (*outer, product(rows), inner))
    two = _matrix(call, b, (*right[0], *right[2], *right[1]), (*outer, inner, product(columns)))
    shape, slot = (*outer, *rows, *columns), call.slot()
    size = (*outer, product(rows), product(columns))
    result = call.write("MatMul", [one, two], size, slot if shape == size else call.temporary("product", a.dtype))
    if shape != size:
        call.reshape(result, shape, slot)


def _matrix(call: Call, x: Value, perm: tuple[int, ...], shape: Any) -> Value:
    turned = x if perm == tuple(range(len(perm))) else call.transposed(x, perm, "turned")
    return call.reshaped(turned, shape, "matrix")


@lowers("STABLEHLO_CONVOLUTION", signature="FZ FZ -> FZ")
def convolution(call: Call) -> None:
    """A convolution with its axes in any order."""
    unquantised(call)
    x, kernel = call.inputs()
    count = len(call.option("input_spatial_dimensions", ()))
    places = _convolved_axes(call, count)
    if len(x.shape) != count + 2 or len(kernel.shape) != count + 2 or x.dtype != kernel.dtype:
        raise ModelError(f"{call.origin} convolves {x} with {kernel}")
    if x.dtype not in ("float32", "float16"):
        raise GapError(f"it convolves {x.dtype}", "use float32")
    strides, dilations, pads = _geometry(call, count)
    data = call.transposed(x, places["input"], "input_nchw", pattern=True)
    weights = call.transposed(kernel, places["kernel"], "weights", pattern=True)
    sizes, window = static(call, data.shape, "shape"), static(call, weights.shape, "filter shape")
    groups = max(call.option("feature_group_count"), 1)
    if sizes[1] != window[1] * groups or window[0] % groups or min(window) < 1:
        raise ModelError(f"{call.origin} has {sizes[1]} input channels, {groups} groups and the filter {list(window)}")
    spatial = []
    for axis in range(count):
        extent = (window[2 + axis] - 1) * dilations[axis] + 1
        room = sizes[2 + axis] + pads[2 * axis] + pads[2 * axis + 1] - extent
        if room < 0:
            raise ModelError(f"{call.origin} has a kernel of extent {extent} that does not fit")
        spatial.append(room // strides[axis] + 1)
    result = call.write(
        "Conv",
        [data, weights],
        (sizes[0], window[0], *spatial),
        call.temporary("nchw", x.dtype),
        kernel_shape=window[2:],
        strides=strides,
        dilations=dilations,
        pads=(*pads[::2], *pads[1::2]),
        group=groups,
    )
    back = tuple(places["output"].index(axis) for axis in range(count + 2))
    call.transpose(result, back, call.slot(), pattern=True)


def _convolved_axes(call: Call, count: int) -> dict[str, tuple[int, ...]]:
    """The axes of input, kernel and output in ONNX's order, of a convolution over so many spatial ones."""
    features = {
        "input": ("batch", "feature"),
        "kernel": ("output_feature", "input_feature"),
        "output": ("batch", "feature"),
    }
    places = {
        side: (
            *(call.option(f"{side}_{key}_dimension") for key in keys),
            *call.option(f"{side}_spatial_dimensions", ()),
        )
        for side, keys in features.items()
    }
    if any(sorted(axes) != list(range(count + 2)) for axes in places.values()) or count < 1:
        raise ModelError(f"{call.origin} has axes that are no permutation: {places}")
    return places


def _geometry(call: Call, count: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations of a convolution, and its paddings before and after each axis."""
    strides, dilations, base = (
        tuple(call.option(key, ())) or (1,) * count for key in ("window_strides", "rhs_dilation", "lhs_dilation")
    )
    if any(call.option("window_reversal", ())) or call.option("batch_group_count") not in (0, 1) or set(base) != {1}:
        raise GapError("it dilates its input, reverses its window or groups its batch", PLAIN)
    pads = tuple(call.option("padding", ())) or (0,) * 2 * count
    if not len(strides) == len(dilations) == count or len(pads) != 2 * count:
        raise ModelError(f"{call.origin} has strides, dilations or paddings that do not fit {count} axes")
    if min(*strides, *dilations) < 1 or min(pads) < 0:
        raise GapError("it has negative paddings", "cut the input before")
    return strides, dilations, pads
