"""StableHLO operators that index, and those that reduce by a subgraph: gathers, scatters, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span, axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.gathering import write_gather
from layoutsolve.frontend.tflite.operators.reduction import write_pool, write_reduced, write_windows
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, as_stored, static, store, write_extremum
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.frontend.tflite.operators.stablehlo.elementwise import unquantized
from layoutsolve.frontend.tflite.operators.stablehlo.movement import padded
from layoutsolve.ir.graph import Value

_BODIES = {
    **dict.fromkeys(("ADD", "STABLEHLO_ADD"), "Add"),
    **dict.fromkeys(("MUL", "STABLEHLO_MULTIPLY"), "Mul"),
    **dict.fromkeys(("MAXIMUM", "STABLEHLO_MAXIMUM"), "Max"),
    **dict.fromkeys(("MINIMUM", "STABLEHLO_MINIMUM"), "Min"),
    **dict.fromkeys(("LOGICAL_AND", "STABLEHLO_AND"), "And"),
    **dict.fromkeys(("LOGICAL_OR", "STABLEHLO_OR"), "Or"),
}
_REDUCTIONS = {"Add": "add", "Mul": "mul", "Max": "max", "Min": "min", "": "none"}
_BODY_INPUTS = 2
_ONE_OPERATOR = "reduce by one addition, multiplication, minimum or maximum"


def _body(call: Call, position: int) -> str:
    """The ONNX operator of two numbers that a subgraph is; '' for one that gives its second input."""
    subgraph = call.subgraph(position)
    if len(subgraph.inputs) != _BODY_INPUTS:
        raise GapError("it reduces several tensors at once", _ONE_OPERATOR)
    if subgraph.outputs == subgraph.inputs[1:]:
        return ""
    for operator in subgraph.operators:
        whole = sorted(operator.inputs) == sorted(subgraph.inputs) and operator.outputs == subgraph.outputs
        if whole and operator.name in _BODIES and not operator.options.get("fused_activation_function"):
            return _BODIES[operator.name]
    raise GapError("it reduces by a function of its own", _ONE_OPERATOR)


@lowers("STABLEHLO_REDUCE_WINDOW", signature="FZB = -> =")
def reduce_window(call: Call) -> None:
    """A reduction over windows of what is padded, between its elements as well, by the number that it starts with."""
    x, start, slot = as_stored(call, call.input(0)), as_stored(call, call.input(1)), call.slot()
    rank, op = len(x.shape), _body(call, call.option("body_subgraph_index"))
    windows = tuple(call.option("window_dimensions", ()))
    strides, base, dilations = (
        tuple(call.option(key, ())) or (1,) * rank for key in ("window_strides", "base_dilations", "window_dilations")
    )
    pads = tuple(call.option("padding", ())) or (0,) * 2 * rank
    if {len(windows), len(strides), len(base), len(dilations), len(pads) // 2} != {rank} or not rank:
        raise ModelError(f"{call.origin} has windows that do not fit rank {rank}")
    if min(*windows, *strides, *base, *dilations) < 1 or start.dtype != x.dtype or not op:
        raise ModelError(f"{call.origin} has windows, strides or dilations below 1, or reduces by nothing")
    around = list(zip(pads[::2], pads[1::2], strict=True))
    if set(base) == {1} and write_pool(call, x, start, op, (windows, strides, dilations), around, slot):
        return
    static(call, x.shape, "shape")
    filler = call.reshaped(start, (), "start")
    whole = padded(call, x, filler, (pads[::2], pads[1::2], [factor - 1 for factor in base]))
    write_windows(call, whole, start, op, (windows, strides, dilations), slot)


@lowers("STABLEHLO_REDUCE", signature="FZB = -> =")
def reduce(call: Call) -> None:
    """A reduction over axes, from a number on."""
    unquantized(call)
    if call.arity != 2:
        raise GapError("it reduces several tensors at once", _ONE_OPERATOR)
    x, start = call.inputs()
    op = _body(call, call.option("body_subgraph_index"))
    axes = sorted({axis_of(axis, len(x.shape)) for axis in call.option("dimensions", ())})
    if not op or start.dtype != x.dtype or len(start.shape) != 0:
        raise ModelError(f"{call.origin} reduces {x} from {start} on")
    write_reduced(call, x, start, op, axes, call.slot())


@dataclass(frozen=True)
class Window:
    """A part of a tensor that is read or written at indices.

    ``axes`` of the tensor are indexed, the others taken whole. ``sizes`` are those of the part along all axes;
    ``places`` says for each indexed axis which column of the index vectors it is, None where the part begins at 0.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    places: tuple[int | None, ...]

    @property
    def whole(self) -> tuple[int, ...]:
        """The axes that are not indexed."""
        return tuple(axis for axis in range(len(self.sizes)) if axis not in self.axes)

    @property
    def along(self) -> tuple[int, ...]:
        """The sizes along the indexed axes."""
        return tuple(self.sizes[axis] for axis in self.axes)


def _window(call: Call, shape: Sequence[int], sizes: Sequence[int], mapped: Sequence[int]) -> Window:
    """The part with these sizes; ``mapped`` are the axes that the columns of index vectors are for."""
    if len(set(mapped)) != len(mapped) or any(not 0 <= axis < len(shape) for axis in mapped):
        raise ModelError(f"{call.origin} indexes the axes {list(mapped)} of {len(shape)}")
    if any(not 0 <= part <= size for part, size in zip(sizes, shape, strict=True)):
        raise ModelError(f"{call.origin} takes parts of {list(sizes)} from {list(shape)}")
    axes = tuple(axis for axis, (part, size) in enumerate(zip(sizes, shape, strict=True)) if part != size)
    return Window(tuple(sizes), axes, tuple(mapped.index(axis) if axis in mapped else None for axis in axes))


def _vectors(call: Call, indices: Value, depth: int) -> Value:
    """Index vectors along the last axis, as int64."""
    axis, rank = call.option("index_vector_dim"), len(indices.shape)
    if not 0 <= axis <= rank:
        raise ModelError(f"{call.origin} has index vectors along axis {axis} of {rank}")
    vectors = as_int64(call, indices)
    if axis == rank:
        vectors = call.reshaped(vectors, (*indices.shape, 1), "vectors")
    elif axis != rank - 1:
        vectors = call.transposed(vectors, (*(at for at in range(rank) if at != axis), axis), "vectors")
    if vectors.shape[-1] != depth:
        raise ModelError(f"{call.origin} has index vectors of {vectors.shape[-1]} numbers for {depth} axes")
    return vectors


def _columns(call: Call, vectors: Value, window: Window) -> Value:
    """The columns of index vectors for the indexed axes, in their order; zeros where the part begins at 0."""
    outer, depth = static(call, vectors.shape, "indices")[:-1], len(window.axes)
    if window.places == tuple(range(static(call, vectors.shape, "indices")[-1])):
        return vectors
    call.draft.ask(prod(outer) + depth)
    given = [place for place in window.places if place is not None]
    parts = []
    if given:
        picked = [vectors, call.vector(given, "columns")]
        slot = call.temporary("picked", "int64")
        parts.append(call.write("Gather", picked, (*outer, len(given)), slot, axis=len(outer)))
    if len(given) < depth:
        parts.append(call.constant(np.zeros((*outer, 1)), "zeros", "int64"))
    joined = parts[0] if len(parts) == 1 else join(call, parts, len(outer), call.temporary("joined", "int64"))
    order = [given.index(place) if place is not None else len(given) for place in window.places]
    if order == list(range(len(order))):
        return joined
    shape = (*outer, depth)
    return call.write(
        "Gather", [joined, call.vector(order, "order")], shape, call.temporary("ordered", "int64"), axis=len(outer)
    )


def _spread(call: Call, columns: Value, window: Window) -> Value:
    """The indices of each element of each part along the indexed axes: [..., part..., axis]."""
    outer, along, depth = columns.shape[:-1], window.along, len(window.axes)
    if prod(along) == 1:
        return call.reshaped(columns, (*outer, *along, depth), "starts")
    call.draft.ask(prod(along) * depth)
    grid = np.stack(np.meshgrid(*map(np.arange, along), indexing="ij"), -1)
    starts = call.reshaped(columns, (*outer, *[1] * len(along), depth), "starts")
    slot = call.temporary("indices", "int64")
    return call.write("Add", [starts, call.constant(grid, "grid", "int64")], (*outer, *along, depth), slot)


def _front(call: Call, x: Value, axes: Sequence[int], label: str) -> Value:
    """A tensor with some axes in front of the others."""
    perm = (*axes, *(axis for axis in range(len(x.shape)) if axis not in axes))
    return x if perm == tuple(range(len(perm))) else call.transposed(x, perm, label)


@lowers("STABLEHLO_GATHER", signature="FZB I -> =")
def gather(call: Call) -> None:
    """Gather slices of a tensor at index vectors, clamped into the tensor."""
    x, slot = as_stored(call, call.input(0)), call.slot()
    sizes, collapsed, offsets, mapped = (
        tuple(call.option(key, ())) for key in ("slice_sizes", "collapsed_slice_dims", "offset_dims", "start_index_map")
    )
    shape = static(call, x.shape, "shape")
    if len(sizes) != len(shape) or any(not 0 <= axis < len(sizes) or sizes[axis] != 1 for axis in collapsed):
        raise ModelError(f"{call.origin} takes parts of {list(sizes)} from {list(shape)}")
    window = _window(call, shape, sizes, mapped)
    vectors = _vectors(call, call.input(1), len(mapped))
    outer = static(call, vectors.shape, "indices")[:-1]
    kept = [axis for axis in range(len(sizes)) if axis not in collapsed]
    rank = len(outer) + len(kept)
    if len(set(collapsed)) != len(collapsed) or len(offsets) != len(kept) or len(set(offsets)) != len(offsets):
        raise ModelError(f"{call.origin} has {len(kept)} axes of parts for {list(offsets)}")
    if any(not 0 <= axis < rank for axis in offsets):
        raise ModelError(f"{call.origin} puts its parts at {list(offsets)} of {rank}")
    parts = _parts(call, x, vectors, window)
    order = [*window.axes, *window.whole]
    named = call.reshaped(parts, (*outer, *(sizes[axis] for axis in order if axis in kept)), "parts")
    placed = [axis for axis in order if axis in kept]
    batch = iter(range(len(outer)))
    ahead = {place: len(outer) + placed.index(axis) for place, axis in zip(sorted(offsets), kept, strict=True)}
    perm = [ahead[at] if at in ahead else next(batch) for at in range(rank)]
    turned = named if perm == list(range(rank)) else call.transposed(named, perm, "placed")
    store(call, turned, slot)


def _parts(call: Call, x: Value, vectors: Value, window: Window) -> Value:
    """The parts at index vectors: [..., along the indexed axes..., along the others...]."""
    shape = static(call, x.shape, "shape")
    outer = static(call, vectors.shape, "indices")[:-1]
    rest = tuple(shape[axis] for axis in window.whole)
    if not window.axes:
        grown = (*outer, *rest)
        given = [x, call.vector(grown, "shape")]
        return call.write("Expand", given, grown, call.temporary("repeated", x.dtype))
    most = [shape[axis] - window.sizes[axis] for axis in window.axes]
    columns = _columns(call, vectors, window)
    if columns.data is not None:
        call.draft.ask(columns.data.size)
        columns = call.constant(np.clip(columns.data, 0, most), "kept", "int64")
    else:
        for op, bound in (("Max", [0]), ("Min", most)):
            limit = call.vector(bound, "bound")
            columns = write_extremum(call, op, columns, limit, columns.shape, call.temporary("kept", "int64"))
    if len(window.axes) == 1 and window.along == (1,):
        flat = call.reshaped(columns, (prod(outer),), "flat")
        taken = write_gather(call, x, flat, window.axes[0], call.temporary("taken", x.dtype))
        first = _front(call, taken, window.axes, "first")
        return call.reshaped(first, (*outer, 1, *rest), "taken")
    front = _front(call, x, window.axes, "front")
    return call.write(
        "GatherND",
        [front, _spread(call, columns, window)],
        (*outer, *window.along, *rest),
        call.temporary("parts", x.dtype),
    )


@lowers("STABLEHLO_SCATTER", signature="FZB I = -> =")
def scatter(call: Call) -> None:
    """Scatter slices into a tensor at index vectors, or combine them with its elements. Those out of bounds are
    lost.
    """
    x, updates, slot = as_stored(call, call.input(0)), as_stored(call, call.input(2)), call.slot()
    inserted, inner, mapped = (
        tuple(call.option(key, ()))
        for key in ("inserted_window_dims", "update_window_dims", "scatter_dims_to_operand_dims")
    )
    op = _body(call, call.option("update_computation_subgraph_index"))
    if op not in _REDUCTIONS or (op and x.dtype == "bool"):
        raise GapError(f"it combines {x.dtype} by {op}", _ONE_OPERATOR)
    shape, put = static(call, x.shape, "shape"), static(call, updates.shape, "updates")
    vectors = _vectors(call, call.input(1), len(mapped))
    outer = static(call, vectors.shape, "indices")[:-1]
    windowed = [axis for axis in range(len(shape)) if axis not in inserted]
    scattered = [axis for axis in range(len(put)) if axis not in inner]
    fits = len(windowed) == len(inner) == len({*inner}.intersection(range(len(put))))
    if not fits or tuple(put[axis] for axis in scattered) != outer or not {*inserted} <= {*range(len(shape))}:
        raise ModelError(f"{call.origin} puts {list(put)} into {list(shape)} at {list(outer)} places")
    part = dict(zip(windowed, (put[axis] for axis in sorted(inner)), strict=True))
    window = _scattered(call, shape, [part.get(axis, 1) for axis in range(len(shape))], mapped)
    if 0 in put:
        store(call, x, slot)
        return
    order = [axis for axis in (*window.axes, *window.whole) if axis in windowed]
    turned = (*scattered, *(sorted(inner)[windowed.index(axis)] for axis in order))
    rest = tuple(shape[axis] for axis in window.whole)
    sent = updates if turned == tuple(range(len(put))) else call.transposed(updates, turned, "turned")
    sent = call.reshaped(sent, (*outer, *window.along, *rest), "updates")
    if not window.axes:
        raise GapError("its indices have no elements", "put the update in place in the source model")
    front = _front(call, x, window.axes, "front")
    indices = _spread(call, _columns(call, vectors, window), window)
    result = _put(call, front, indices, sent, [shape[axis] for axis in window.axes], _REDUCTIONS[op])
    back = [(*window.axes, *window.whole).index(axis) for axis in range(len(shape))]
    store(call, result if back == sorted(back) else call.transposed(result, back, "back"), slot)


def _scattered(call: Call, shape: Sequence[int], sizes: Sequence[int], mapped: Sequence[int]) -> Window:
    """The windows that are written: along all axes of indices, as a part as large as its axis may lie outside too."""
    window = _window(call, shape, sizes, mapped)
    if {*mapped} <= {*window.axes}:
        return window
    axes = tuple(sorted({*window.axes, *mapped}))
    return Window(window.sizes, axes, tuple(mapped.index(axis) if axis in mapped else None for axis in axes))


def _put(call: Call, x: Value, indices: Value, updates: Value, bounds: Sequence[int], reduction: str) -> Value:
    """A ScatterND that loses what lies outside: the indexed axes are made one, behind which is a row to lose it in."""
    depth = len(bounds)
    if indices.data is not None:
        known = indices.data.reshape(-1, depth)
        inside = ((known >= 0) & (known < bounds)).all(1)
        if reduction == "none" and len(np.unique(known[inside], axis=0)) < inside.sum():
            raise GapError("it puts several values into one place", "leave out repeated indices")
        if inside.all():
            slot = call.temporary("scattered", x.dtype)
            return call.write("ScatterND", [x, indices, updates], x.shape, slot, reduction=reduction)
    shape, count, rest = indices.shape[:-1], prod(bounds), static(call, x.shape, "shape")[depth:]
    strides = [prod(bounds[axis + 1 :]) for axis in range(depth)]

    def outside(op: str, limit: Sequence[int]) -> Value:
        given = [indices, call.vector(limit, "limit")]
        found = call.write(op, given, indices.shape, call.temporary("beyond", "bool"), real="bool")
        return call.write("Cast", [found], indices.shape, call.temporary("ones", "int64"), real="int64", to="int64")

    wrong = [outside("Less", [0]), outside("GreaterOrEqual", bounds)]
    both = call.write("Add", wrong, indices.shape, call.temporary("both", "int64"))
    axes = call.vector([len(shape)], "axes")
    faults = call.write("ReduceSum", [both, axes], (*shape, 1), call.temporary("faults", "int64"), keepdims=1)
    weighted = call.write(
        "Mul", [indices, call.vector(strides, "strides")], indices.shape, call.temporary("weighted", "int64")
    )
    line = call.write("ReduceSum", [weighted, axes], (*shape, 1), call.temporary("line", "int64"), keepdims=1)
    given = [faults, call.constant(0, "zero", "int64")]
    lost = call.write("Greater", given, (*shape, 1), call.temporary("lost", "bool"), real="bool")
    chosen = [lost, call.constant(count, "row", "int64"), line]
    places = call.write("Where", chosen, (*shape, 1), call.temporary("places", "int64"), real="int64")
    flat = call.reshaped(x, (count, *rest), "rows")
    spare = take(call, flat, {0: Span(0, 1)}, call.temporary("spare", x.dtype))
    longer = join(call, [flat, spare], 0, call.temporary("longer", x.dtype))
    slot = call.temporary("scattered", x.dtype)
    result = call.write("ScatterND", [longer, places, updates], longer.shape, slot, reduction=reduction)
    kept: Slot = call.temporary("inside", x.dtype)
    return call.reshaped(take(call, result, {0: Span(0, count)}, kept), x.shape, "result")
