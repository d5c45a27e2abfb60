"""Operators that may be written in several ways, in the one that the rest of the project expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from layoutsolve.errors import Gap, UnsupportedError
from layoutsolve.frontend.onnx.draft import Call
from layoutsolve.frontend.onnx.einsum import written
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.frontend.onnx.operators.views import alias, stands_for
from layoutsolve.frontend.shapes import axis_of, broadcast, same_pads, same_passes_over
from layoutsolve.ir.graph import Array, Dim, Size, Value, product, without_omitted
from layoutsolve.proto import pool_sizes
from layoutsolve.proto.ort_kernels import moves
from layoutsolve.proto.resized_sizes import MOST, are_rounded_up, are_sizes, rounded

NEUTRAL: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "Add": (0.0, (0, 1)), "Sub": (0.0, (0,)), "Mul": (1.0, (0, 1)), "Div": (1.0, (0,)),
}  # fmt: skip
"""By operator the constant that changes nothing, and which operands it leaves as they are."""

UNITY = (0.0, 1.0)
"""The part of a dimension that is all of it."""


@lowering("Conv", "ConvTranspose", "AveragePool", "MaxPool", "LpPool")
def window(call: Call) -> bool:
    """Kernel, strides, dilations and padding in numbers, so that none is implied."""
    if not call.known(0) or any(not call.known(number) for number in range(1, len(call.inputs))):
        return False
    shape = call.value(0).shape
    rank = len(shape) - 2
    attributes = dict(call.attributes)
    kernel = call.integers("kernel_shape")
    if kernel is None and call.op in ("Conv", "ConvTranspose"):
        sizes = call.value(1).shape[2:]
        kernel = tuple(size for size in sizes if isinstance(size, int))
    if kernel is None or len(kernel) != rank or rank < 1:
        return False
    attributes["kernel_shape"] = kernel
    strides, dilations = call.integers("strides") or (1,) * rank, call.integers("dilations") or (1,) * rank
    automatic = attributes.pop("auto_pad", "NOTSET") or "NOTSET"
    if automatic.startswith("SAME") and call.op.endswith("Pool") and max(dilations) > 1:
        reason = "it has dilations, which ONNX Runtime's padding by auto_pad leaves out and ONNX's does not"
        gap = Gap(
            call.draft.graph, call.index, call.op, call.outputs[0], reason, "export the model with pads in numbers"
        )
        raise UnsupportedError([gap])
    if automatic != "NOTSET":
        pads = (
            _transposed_padding(call, automatic, kernel, strides, dilations)
            if call.op == "ConvTranspose"
            else _padding(automatic, shape[2:], kernel, strides, dilations)
        )
        if pads is None:
            return False
        attributes["pads"] = pads
        if automatic.startswith("SAME"):
            attributes.pop("ceil_mode", None)  # which that does not look at
    for name in [name for name, value in attributes.items() if not isinstance(value, (int, float, str, tuple))]:
        del attributes[name]  # an empty list
    made = _result(call, shape, kernel, strides, dilations, attributes)
    names, storage = call.operands(call.stores)
    call.draft.declare(call.outputs[0], made)
    for name in call.outputs[1:]:
        call.draft.declare(name, made)
    call.emit(call.op, names, call.outputs, attributes, storage)
    return True


def _padding(
    way: str, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...] | None:
    """The padding that is meant; None where that depends on a size that is not known."""
    if way == "VALID":
        return (0,) * (2 * len(kernel))
    found = []
    for size, extent, stride, gap in zip(sizes, kernel, strides, dilations, strict=True):
        if same_passes_over(size, (extent - 1) * gap + 1, stride):
            return None
        pads = None if isinstance(size, Size) and stride > 1 else same_pads(size, extent, stride, gap)
        if pads is None:
            return None
        found.append(pads if way == "SAME_UPPER" else pads[::-1])
    return (*(before for before, _ in found), *(after for _, after in found))


def _transposed_padding(
    call: Call, way: str, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...] | None:
    """What a transposed convolution with ``output_padding`` cuts off, where each pixel is to give one stride: inference
    takes its result for larger than runtimes do. None for others.
    """
    extra = call.integers("output_padding")
    if not way.startswith("SAME") or extra is None or call.integers("output_shape") is not None:
        return None
    totals = [
        max((size - 1) * gap + 1 + more - stride, 0)
        for size, gap, more, stride in zip(kernel, dilations, extra, strides, strict=True)
    ]
    sides = [each // 2 for each in totals], [each - each // 2 for each in totals]
    before, after = sides if way == "SAME_UPPER" else sides[::-1]
    return (*before, *after)


def _result(
    call: Call,
    shape: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    attributes: dict[str, Any],
) -> list[Dim | None]:
    """The sizes of the result, where those of the image have names."""
    known = call.draft.types.dims(call.outputs[0])
    if known is not None and None not in known:
        return list(known)
    pads, rank = attributes.get("pads", (0,) * (2 * len(kernel))), len(kernel)
    channels: Dim | None = shape[1]
    if call.op == "Conv":
        channels = call.value(1).shape[0]
    elif call.op == "ConvTranspose":
        channels = product((call.value(1).shape[1], attributes.get("group", 1)))
    found: list[Dim | None] = [shape[0], channels]
    arithmetic = call.arithmetic
    for axis in range(rank):
        reach, size = dilations[axis] * (kernel[axis] - 1) + 1, shape[2 + axis]
        around = pads[axis] + pads[axis + rank]
        if call.op == "ConvTranspose":
            more = attributes.get("output_padding", (0,) * rank)[axis]
            given = attributes.get("output_shape")
            if given is not None:
                found.append(given[axis])
            else:
                last = product((strides[axis], arithmetic.difference(size, 1)))
                found.append(arithmetic.total((last, more + reach - around)))
        else:
            if attributes.get("ceil_mode", 0):
                around = pads[axis] + pool_sizes.behind(kernel, strides, dilations, pads)[axis]
            found.append(arithmetic.window(arithmetic.total((size, around)), reach, strides[axis]))
    return found


@lowering("Split")
def split(call: Call) -> bool:
    """With its sizes as an input."""
    if not call.known(0):
        return False
    axis = call.attribute("axis", 0)
    sizes = call.dims(1)
    if sizes is None:
        if call.has(1):
            return False
        whole, count = call.value(0).shape[axis], call.attribute("num_outputs", len(call.outputs))
        if isinstance(whole, Size) or count != len(call.proto.output):
            return False
        part = -(-whole // count)
        sizes = (*([part] * (count - 1)), whole - part * (count - 1))
    if len(sizes) != len(call.proto.output) or not all(isinstance(size, int) and size >= 0 for size in sizes):
        return False
    shape, (names, storage) = list(call.value(0).shape), call.operands(call.stores)
    for name, size in zip(call.outputs, sizes, strict=False):
        if name:
            shape[axis] = size
            call.draft.declare(name, shape)
    if "" in call.outputs or len(call.outputs) < len(sizes):
        return False
    attributes = {"axis": axis + len(shape) if axis < 0 else axis}
    call.emit("Split", [names[0], call.draft.sizes(sizes, call.outputs[0])], call.outputs, attributes, storage)
    return True


@lowering("Gather")
def gather(call: Call) -> bool:
    """Along a vector of indices: a Reshape before and behind it where they are more, or one alone. What is stored is
    picked where the numbers that it means are. All that there is, picked one after the other, is another name of it;
    picked as a grid, it is a view.
    """
    if not (call.known(0) and call.known(1)):
        return False
    table, indices, draft, name = call.value(0), call.value(1), call.draft, call.outputs[0]
    if indices.data is not None and _is_all(indices.data, table.shape, call.attribute("axis", 0)):
        return alias(call, name, call.inputs[0])
    if indices.data is not None and _as_grid(call, table, indices.data):
        return True
    real, steps = draft.is_real(call.inputs[0]), table.quant is not None and table.quant.axis is not None
    steps = steps or (real and not all(moves(op, table.dtype) for op in ("Gather", "Reshape")))
    if len(indices.shape) == 1 or len(table.shape) == 1 or indices.quant is not None or table.data is not None or steps:
        return False
    axis = axis_of(call.attribute("axis", 0), len(table.shape))
    before, after, count = table.shape[:axis], table.shape[axis + 1 :], product(indices.shape)
    if indices.data is not None:
        flat = draft.constant(indices.data.reshape(-1), f"{name}/indices", indices.dtype).name
    else:
        flat = draft.add(Value(draft.names.derived(name, "indices"), indices.dtype, (count,))).name
        call.emit("Reshape", [indices.name, draft.sizes([-1], name)], [flat])
    quant = table.quant if real else draft.asked.get(name)
    storage = table.quant is not None or quant is not None
    shape, inner = (*before, *indices.shape, *after), draft.names.derived(name, "gathered")
    draft.add(Value(inner, table.dtype, (*before, count, *after), table.quant))
    call.emit("Gather", [table.name, flat], [inner], {"axis": axis}, storage)
    made = draft.add(Value(draft.names.derived(name, "stored") if real else name, table.dtype, shape, quant)).name
    call.emit("Reshape", [inner, draft.sizes(shape, name)], [made], {"allowzero": 1} if 0 in shape else {}, storage)
    if real:
        stands_for(call, made)
    return True


def _is_all(indices: Array, shape: Sequence[Dim], axis: int) -> bool:
    """Whether a vector of indices picks all that there is along an axis, in its order."""
    if indices.ndim != 1 or not shape or shape[axis_of(axis, len(shape))] != indices.size:
        return False
    return np.array_equal(indices, np.arange(indices.size))


def _as_grid(call: Call, table: Value, indices: Array) -> bool:
    """Write a Reshape and a Transpose for all that there is along an axis, in a grid of several dimensions, as an
    exporter picks blocks that do not overlap: in the order of the axis, or of another one where Transposes alone read
    it, which take this one over.
    """
    name, draft, order = call.outputs[0], call.draft, _grid_order(indices)
    stored = table.quant is not None or name in draft.asked
    if order is None or stored or table.data is not None or not table.shape:
        return False
    axis = axis_of(call.attribute("axis", 0), len(table.shape))
    if indices.size != table.shape[axis]:
        return False
    in_order = order == list(range(indices.ndim))
    if not in_order and (name in draft.outputs or draft.transposed[name] < draft.uses[name]):
        return False
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    parts = (*before, *(indices.shape[dim] for dim in order), *after)
    made = name if in_order else draft.names.derived(name, "parts")
    draft.add(Value(made, table.dtype, parts))
    call.emit("Reshape", [table.name, draft.sizes(parts, name)], [made], {"allowzero": 1} if 0 in parts else {})
    if not in_order:
        inner = [axis + order.index(dim) for dim in range(indices.ndim)]
        perm = (*range(axis), *inner, *range(axis + indices.ndim, len(parts)))
        draft.add(Value(name, table.dtype, tuple(parts[dim] for dim in perm)))
        call.emit("Transpose", [made], [name], {"perm": perm})
    return True


def _grid_order(indices: Array) -> list[int] | None:
    """The dimensions of a grid of all numbers up to their count, from that along which they grow most; None for other
    indices, and for those of one dimension.
    """
    if indices.ndim < 2 or not indices.size:
        return None
    ahead = np.eye(indices.ndim, dtype=int)
    steps = [int(indices[tuple(ahead[dim])]) if size > 1 else 0 for dim, size in enumerate(indices.shape)]
    order = sorted(range(indices.ndim), key=lambda dim: -steps[dim])
    grid = np.arange(indices.size).reshape([indices.shape[dim] for dim in order]).transpose(np.argsort(order))
    return order if np.array_equal(indices, grid) else None


@lowering("Slice")
def slice_(call: Call) -> bool:
    """With bounds of 64 bits, and sizes that follow from them."""
    if not call.known(0):
        return False
    shape = list(call.value(0).shape)
    names, storage = call.operands(call.stores)
    for number in range(1, len(call.inputs)):
        data = call.constant(number)
        if data is not None and data.dtype != np.int64:
            names[number] = call.draft.constant(data.astype(np.int64), f"{call.outputs[0]}/{number}").name
    call.draft.declare(call.outputs[0], _cut(call, shape) or _left(call, shape))
    call.emit("Slice", names, call.outputs, {}, storage)
    return True


@lowering("Pad")
def pad(call: Call) -> bool:
    """With the sizes of what is not padded, which inference forgets where axes are named; by nothing, another name."""
    inferred, pads = call.shapes()[0], call.constant(1)
    if pads is not None and not pads.any():
        return alias(call, call.outputs[0], call.inputs[0])
    if not (call.has(3) and call.known(0)) or inferred is None or pads is None:
        return False
    shape, axes = call.value(0).shape, call.dims(3)
    if axes is None or not all(isinstance(axis, int) for axis in axes) or pads.size != 2 * len(axes):
        return False
    sides = zip(axes, *pads.reshape(2, -1).tolist(), strict=True)
    padded = {axis_of(axis, len(shape)) for axis, *more in sides if isinstance(axis, int) and any(more)}
    names, storage = call.operands(call.stores)
    made = [dim if axis in padded else whole for axis, (dim, whole) in enumerate(zip(inferred, shape, strict=True))]
    call.draft.declare(call.outputs[0], made)
    call.emit("Pad", names, call.outputs, dict(call.attributes), storage)
    return True


def _left(call: Call, shape: Sequence[Dim | None]) -> Sequence[Dim | None] | None:
    """The inferred sizes behind a Slice, with those that it is known not to cut: inference forgets them all where
    bounds are computed.
    """
    inferred, axes = call.shapes()[0], _axes(call)
    if inferred is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return inferred
    cut = {axis % len(shape) for axis in axes if isinstance(axis, int)}
    return [dim if axis in cut else whole for axis, (dim, whole) in enumerate(zip(inferred, shape, strict=True))]


def _axes(call: Call) -> tuple[Dim, ...] | None:
    """The axes of a Slice, as many of the first as it has bounds where it names none; None where they are not known."""
    if call.has(3):
        return call.dims(3)
    starts = call.value(1).shape
    return tuple(range(starts[0])) if len(starts) == 1 and isinstance(starts[0], int) else None


def _cut(call: Call, shape: list[Dim]) -> list[Dim] | None:
    """The sizes behind a Slice from the beginning or to the end of dimensions that have names."""
    starts, ends = call.dims(1), call.dims(2)
    axes = _axes(call)
    steps = call.dims(4) if call.has(4) else (1,) * len(axes or ())
    if starts is None or ends is None or axes is None or steps is None or any(step != 1 for step in steps):
        return None
    found = list(shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        if not isinstance(axis, int) or not isinstance(start, int):
            return None
        size = shape[axis]
        if isinstance(end, int) and isinstance(size, Size):
            if start != 0 or end < 1 << 31:
                return None
            continue
        if isinstance(end, Size):
            if start != 0 or end != size:
                return None
            continue
        if isinstance(size, Size):
            return None
        first, last = (max(0, min(size, each + size if each < 0 else each)) for each in (start, end))
        found[axis] = max(last - first, 0)
    return found


@lowering("Expand")
def expand(call: Call) -> bool:
    """To sizes that are known."""
    wanted = call.dims(1) if call.known(0) else None
    if wanted is None or call.stores:
        return False
    shape = list(call.value(0).shape)
    rank = max(len(shape), len(wanted))
    one, other = [1] * (rank - len(shape)) + shape, [1] * (rank - len(wanted)) + list(wanted)
    made = []
    for left, right in zip(one, other, strict=True):
        if left != right and 1 not in (left, right):
            return False
        made.append(right if left == 1 else left)
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit("Expand", [names[0], call.draft.sizes(made, call.outputs[0])], call.outputs, {}, storage)
    return True


@lowering("Tile")
def tile(call: Call) -> bool:
    """A known number of times."""
    counts = call.dims(1) if call.known(0) else None
    if counts is None or len(counts) != len(call.value(0).shape) or call.stores:
        return False
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], [product(pair) for pair in zip(call.value(0).shape, counts, strict=True)])
    call.emit("Tile", [names[0], call.draft.sizes(counts, call.outputs[0])], call.outputs, {}, storage)
    return True


@lowering("Resize")
def resize(call: Call) -> bool:
    """By factors or to sizes of all dimensions, and of a known part of all of them; as it stands where the part of some
    is computed, or where only one of its sizes is kept.
    """
    by, to = (call.has(number) and not _is_empty(call, number) for number in (2, 3))
    if not call.known(0) or by is to:
        return False
    shape, attributes = call.value(0).shape, dict(call.attributes)
    places = [axis % len(shape) for axis in call.integers("axes") or range(len(shape))]
    others: list[Dim | None] = [None if axis in places else dim for axis, dim in enumerate(shape)]
    cut = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    part = call.constant(1) if cut else None
    names, storage = call.operands(call.stores)
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch" or (cut and part is None):
        call.draft.declare(call.outputs[0], others)
        call.emit("Resize", names, call.outputs, attributes, storage)
        return True
    attributes.pop("axes", None)
    if part is None:
        names[1] = ""
    elif part.size != 2 * len(places):
        return False
    elif len(places) < len(shape):
        whole = np.array([[0], [1]], part.dtype).repeat(len(shape), 1)
        whole[:, places] = part.reshape(2, -1)
        names[1] = call.draft.constant(whole.reshape(-1), f"{call.outputs[0]}/roi").name
    made = _to_sizes(call, places, names) if to else _by_factors(call, places, part, names)
    if made is None:
        return False
    call.draft.declare(call.outputs[0], made)
    call.emit("Resize", without_omitted(names), call.outputs, attributes, storage)
    return True


def _to_sizes(call: Call, places: Sequence[int], names: list[str]) -> list[Dim | None] | None:
    """The sizes that a Resize gives, of which its input names those of some axes: it gets them of all."""
    sizes = call.dims(3)
    if sizes is None or len(sizes) != len(places):
        return None
    told = dict(zip(places, sizes, strict=True))
    made = [told.get(axis, dim) for axis, dim in enumerate(call.value(0).shape)]
    names[3] = call.draft.sizes(made, call.outputs[0])
    return [*made]


def _by_factors(call: Call, places: Sequence[int], part: Array | None, names: list[str]) -> list[Dim | None] | None:
    """The same of factors, and of ``part`` of the input; None for sizes that are rounded, where the library does not
    round them otherwise than ONNX Runtime.
    """
    scales, shape = call.constant(2), call.value(0).shape
    if scales is None or scales.size != len(places):
        return None
    every = np.ones(len(shape), np.float32)
    every[places] = scales.reshape(-1)
    parts = {} if part is None else dict(zip(places, zip(*part.reshape(2, -1).tolist(), strict=True), strict=True))
    made = [
        product((dim, int(scale))) if float(scale).is_integer() and parts.get(axis, UNITY) == UNITY else None
        for axis, (dim, scale) in enumerate(zip(shape, every.tolist(), strict=True))
    ]
    fitting = part is None and ((every > 0) & (every < MOST)).all()
    if fitting and are_rounded_up(shape, every) and are_sizes(shape, every):  # by which the library has the right ones
        made = [rounded(dim, every[axis]) if isinstance(dim, int) else made[axis] for axis, dim in enumerate(shape)]
        names[2:] = ["", call.draft.sizes([dim for dim in made if dim is not None], call.outputs[0])]
        return made
    names[2] = call.draft.constant(every, f"{call.outputs[0]}/scales").name
    return made


def _is_empty(call: Call, number: int) -> bool:
    """Whether an input is a constant without elements, which stands for none."""
    found = call.constant(number)
    return found is not None and found.size == 0


@lowering("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
          "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor")  # fmt: skip
def broadcasting(call: Call) -> bool:
    """As it stands, with sizes that follow where they have names; what leaves an operand as it is, or has one alone, is
    another name of that.
    """
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)) or call.stores:
        return False
    if len(call.inputs) == 1:
        return alias(call, call.outputs[0], call.inputs[0])
    for number in range(len(call.inputs)) if call.op in NEUTRAL else ():
        if _is_left(call, number) and alias(call, call.outputs[0], call.inputs[number]):
            return True
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    if all(isinstance(dim, int) for shape in shapes for dim in shape):
        return False
    made = broadcast(shapes, call.arithmetic)
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit(call.op, names, call.outputs, call.attributes, storage)
    return True


def _is_left(call: Call, number: int) -> bool:
    """Whether an operator leaves one of two operands of floats as it is: it adds zeros, or multiplies by ones. What may
    be the end of a normalization stays, which runtimes make one kernel of.
    """
    neutral, places = NEUTRAL[call.op]
    other = call.constant(1 - number)
    if number not in places or other is None or other.dtype.kind != "f" or call.constant(number) is not None:
        return False
    shape, ends = call.value(number).shape, other.shape
    larger = any(size not in (1, dim) for size, dim in zip(ends[::-1], shape[::-1], strict=False))
    if len(ends) > len(shape) or larger or not other.size or np.any(other != neutral):
        return False
    before = call.draft.producers.get(call.value(number).name)
    return other.size == 1 or before is None or call.draft.nodes[before].op not in ("Div", "Mul", "Sub")


@lowering("Einsum")
def summed(call: Call) -> bool:
    """With the sizes of all labels, in an equation of which onnx infers the same."""
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)) or call.stores:
        return False
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    found = written(call.attribute("equation", ""), shapes, call.arithmetic)
    if found is None:
        return False
    equation, made = found
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit("Einsum", names, call.outputs, {"equation": equation}, storage)
    return True


@lowering("Concat")
def concat(call: Call) -> bool:
    """As it stands, with sizes that follow where they have names."""
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)):
        return False
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    axis = call.attribute("axis", 0)
    if len({len(shape) for shape in shapes}) > 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        return False
    axis += len(shapes[0]) if axis < 0 else 0
    made = [next((dim for dim in dims if isinstance(dim, int)), dims[0]) for dims in zip(*shapes, strict=True)]
    for at, dims in enumerate(zip(*shapes, strict=True)):
        for dim in dims if at != axis else ():
            if dim != made[at]:
                call.draft.equate(dim, made[at])
    made[axis] = call.arithmetic.total([shape[axis] for shape in shapes])
    names, storage = call.operands(call.stores)
    call.draft.declare(call.outputs[0], made)
    call.emit("Concat", names, call.outputs, {"axis": axis}, storage)
    return True


@lowering("GlobalAveragePool", "GlobalMaxPool")
def pooled(call: Call) -> bool:
    """A reduction over all pixels, which reads images in any layout."""
    if not call.known(0) or len(call.value(0).shape) < 3:
        return False
    shape, draft = call.value(0).shape, call.draft
    names, storage = call.operands(call.stores)
    axes = draft.sizes(range(2, len(shape)), f"{call.outputs[0]}/axes")
    draft.declare(call.outputs[0], [*shape[:2], *([1] * (len(shape) - 2))])
    op = "ReduceMean" if call.op == "GlobalAveragePool" else "ReduceMax"
    call.emit(op, [names[0], axes], call.outputs, {"keepdims": 1}, storage)
    return True
