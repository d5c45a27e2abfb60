"""StableHLO products: of tensors along any of their axes, and convolutions."""

from __future__ import annotations

from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.frontend.tflite.operators.stablehlo.elementwise import PLAIN, unquantized
from layoutsolve.ir.graph import Value, product


@lowers("STABLEHLO_DOT_GENERAL", signature="FZ FZ -> FZ")
def dot_general(call: Call) -> None:
    """A product over some axes of both sides, for each index of others: a MatMul of matrices."""
    unquantized(call)
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
    unquantized(call)
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
