"""Gathering, sorting, and running sums."""

from __future__ import annotations

from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, as_stored, cast_to, ranked, store
from layoutsolve.ir.graph import Dim, Quant, Value, product


@lowers("GATHER", signature="FZBS IH -> =")
def gather(call: Call) -> None:
    """GATHER along one axis by a vector of indices; other shapes of indices are views of one."""
    x, indices = call.input(0), call.input(1)
    axis = axis_of(call.option("axis"), len(x.shape))
    batch = call.option("batch_dims")
    batch = axis_of(batch, len(indices.shape)) if batch < 0 else batch
    if batch:
        _gather_in_batches(call, axis, batch)
        return
    if len(indices.shape) == 1:
        write_gather(call, x, indices, axis, call.slot())
        return
    slot, count = call.slot(), product(indices.shape)
    flat = call.reshaped(indices, (count,), "indices")
    taken = write_gather(call, x, flat, axis, call.temporary("taken", slot.dtype, slot.quant))
    call.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), slot)


def write_gather(call: Call, x: Value, indices: Value, axis: int, slot: Slot) -> Value:
    """Write what lies at a vector of indices along an axis."""
    if x.dtype == "string" and len(x.shape) != 1:
        # ONNX Runtime 1.31 copies only the first string of each row.
        raise GapError("it gathers rows of strings", "gather from a vector of strings")
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    places = indices if indices.dtype in ("int32", "int64") else as_int64(call, indices)
    return call.write("Gather", [x, places], shape, slot, storage=moves([x], slot.dtype, slot.quant), axis=axis)


@lowers("EMBEDDING_LOOKUP", signature=("I FZB -> =1", "I Z -> F"))
def embedding_lookup(call: Call) -> None:
    """EMBEDDING_LOOKUP: rows of a table; those of a quantized one as floats, of 16 bits as well."""
    indices, x, slot = ranked(call, call.input(0), 1), call.input(1), call.slot()
    axis_of(0, len(x.shape))
    if x.quant is None or slot.quant is not None:
        write_gather(call, x, indices, 0, slot)
        return
    narrow = slot.dtype == "float16"
    rows = _real_rows(call, x, x.quant, indices, call.temporary("rows") if narrow else slot)
    if narrow:
        call.write("Cast", [rows], rows.shape, slot, real="float16", to="float16")


_GATHERED = {"int4": "int8", "uint4": "uint8"}
"""Types of which ONNX Runtime gathers nothing, and what they are widened to."""


def _real_rows(call: Call, x: Value, quant: Quant, indices: Value, slot: Slot) -> Value:
    """Write rows of a quantized table as floats. They are found first: else all of it were made floats in every run."""
    axis, shape = quant.axis, (*indices.shape, *x.shape[1:])
    if x.data is None or (axis != 0 if not quant.block and axis is not None else axis == 0):
        return write_gather(call, x, indices, 0, slot)
    dtype = _GATHERED.get(x.dtype, x.dtype)
    whole = quant if axis is None else None  # what is stored has no scales of its own, so that it stays as it is
    table = x if dtype == x.dtype and whole else call.constant(x.data, "table", dtype, whole)
    inputs = [table, indices if indices.dtype in ("int32", "int64") else as_int64(call, indices)]
    found = call.temporary("found", dtype, whole)
    rows = call.write("Gather", inputs, shape, found, real=dtype, storage=True, axis=0)
    if axis is None:
        return call.write("Identity", [rows], shape, slot)
    apart, grid = list(shape), list(quant.scale.shape) + [1] * (len(shape) - quant.scale.ndim)
    if quant.block:
        apart[axis : axis + 1] = [grid[axis], quant.block]
        grid.insert(axis + 1, 1)
    numbers = call.reshaped(cast_to(call, rows, "float32"), tuple(apart), "blocks")
    for op, parameter in (("Sub", quant.zero_point), ("Mul", quant.scale)):
        if op == "Sub" and not parameter.any():
            continue
        every = call.constant(parameter.reshape(grid), "parameters", "float32")
        size = (*indices.shape, *grid[1:])
        own = call.write("Gather", [every, inputs[1]], size, call.temporary("own"), axis=0)
        last = op == "Mul" and not quant.block
        numbers = call.write(op, [numbers, own], tuple(apart), slot if last else call.temporary("scaled"))
    return call.reshape(numbers, shape, slot) if quant.block else numbers


def _gather_in_batches(call: Call, axis: int, batch: int) -> None:
    """Leading axes shared by data and indices: GatherND has them, for the axis right behind; views bring it there."""
    x, indices, slot = call.input(0), call.input(1), call.slot()
    between, rank = axis - batch, len(x.shape)
    if between < 0 or batch > len(indices.shape):
        raise ModelError(f"{call.origin} gathers along axis {axis} with {batch} batch axes")
    rows = call.reshaped(as_int64(call, indices), (*indices.shape, 1), "rows")
    taken = indices.shape[batch:]
    if between:
        x = call.transposed(x, (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)), "axis_first")
    shape = (*x.shape[:batch], *taken, *x.shape[batch + 1 :])
    found = call.temporary("found", slot.dtype, slot.quant) if between else slot
    storage = moves([x], slot.dtype, slot.quant)
    result = call.write("GatherND", [x, rows], shape, found, storage=storage, batch_dims=batch)
    if between:
        after = batch + len(taken)
        perm = (
            *range(batch),
            *range(after, after + between),
            *range(batch, after),
            *range(after + between, len(shape)),
        )
        call.transpose(result, perm, slot)


@lowers("GATHER_ND", signature="FZBS IH -> =")
def gather_nd(call: Call) -> None:
    """GATHER_ND."""
    x, indices, slot = call.input(0), call.input(1), call.slot()
    depth = indices.shape[-1] if indices.shape else None
    if not isinstance(depth, int) or depth > len(x.shape):
        raise ModelError(f"{call.origin} has indices of the shape {list(map(str, indices.shape))}")
    shape = (*indices.shape[:-1], *x.shape[depth:])
    storage = moves([x], slot.dtype, slot.quant)
    call.write("GatherND", [x, as_int64(call, indices)], shape, slot, storage=storage)


@lowers("TOPK_V2", signature="FZ IH -> = IH")
def top_k(call: Call) -> None:
    """TOPK_V2 over the last axis: values and their positions, the latter not in int64."""
    x = call.input(0)
    if not x.shape:
        raise ModelError(f"{call.origin} takes elements of a scalar")
    k, count = _number_of_results(call, x.shape[-1])
    shape = (*x.shape[:-1], count)
    values, positions = call.slot(0), call.slot(1)
    if values.real != real_dtype(x):
        raise ModelError(f"{call.origin} reads {x.dtype} but writes {values.dtype}")
    wide = call.temporary("positions", "int64")
    attributes: dict[str, Any] = {"axis": len(x.shape) - 1, "largest": 1, "sorted": 1}
    _, found = call.write_many("TopK", [x, k], [(shape, values), (shape, wide)], **attributes)
    call.write("Cast", [found], shape, positions, real=positions.dtype, to=positions.dtype)


def _number_of_results(call: Call, size: Dim) -> tuple[Value, Dim]:
    """How many elements of an axis a TOPK_V2 takes."""
    given = call.input(1)
    if call.content(given) is None:
        return call.reshaped(as_int64(call, given), (1,), "k"), call.unknown(len(call.input(0).shape) - 1)
    (count,) = call.dims(1, "number of results")
    if isinstance(count, int) and (count < 0 or (isinstance(size, int) and count > size)):
        raise ModelError(f"{call.origin} takes {count} elements of {size}")
    return call.sizes((count,), "k"), count


@lowers("CUMSUM", signature="FZ I -> =")
def cumsum(call: Call) -> None:
    """CUMSUM."""
    x = call.input(0)
    axis = axis_of(call.integers(1, "axis")[0], len(x.shape))
    attributes: dict[str, Any] = {"exclusive": int(call.option("exclusive")), "reverse": int(call.option("reverse"))}
    call.write("CumSum", [x, call.constant(axis, "axis", "int64")], x.shape, call.slot(), **attributes)


@lowers("REVERSE_SEQUENCE", signature="FZB I -> =")
def reverse_sequence(call: Call) -> None:
    """REVERSE_SEQUENCE; lengths below 1 reverse nothing, as the length 1. ONNX has the batch first or second."""
    x, lengths, slot = call.input(0), ranked(call, call.input(1), 1), call.slot()
    along, batch, rank = call.option("seq_dim"), call.option("batch_dim"), len(x.shape)
    if not (0 <= along < rank and 0 <= batch < rank and along != batch):
        raise ModelError(f"{call.origin} reverses axis {along} by axis {batch} of {rank}")
    size, count = x.shape[batch], lengths.shape[0]
    if isinstance(size, int) and isinstance(count, int) and size != count:
        raise ModelError(f"{call.origin} has {count} lengths for {size} sequences")
    stated = call.dims(1, "lengths") if call.content(call.input(1)) is not None else ()
    steps = x.shape[along]
    if isinstance(steps, int) and any(isinstance(each, int) and each > steps for each in stated):
        raise ModelError(f"{call.origin} reverses more elements than the {steps} of axis {along}")
    one = call.constant(1, "one", "int64")
    counted = call.write("Max", [as_int64(call, lengths), one], lengths.shape, call.temporary("lengths", "int64"))
    perm = (batch, along, *(axis for axis in range(rank) if axis not in (batch, along)))
    first = call.transposed(x, perm, "batch_first", pattern=True)
    turned = call.temporary("reversed", slot.dtype, slot.quant)
    storage = moves([x], slot.dtype, slot.quant)
    result = call.write(
        "ReverseSequence", [first, counted], first.shape, turned, storage=storage, batch_axis=0, time_axis=1
    )
    call.transpose(result, tuple(perm.index(axis) for axis in range(rank)), slot, pattern=True)


_UNIQUE = {"int16": "int64", "int32": "int64", "uint8": "int64"}
"""What ONNX Runtime's Unique does not take, and what it takes instead."""


@lowers("UNIQUE", signature="FZ -> = I")
def unique(call: Call) -> None:
    """UNIQUE: the different elements in the order in which they come, and which of them each element is."""
    x, slot, positions = ranked(call, call.input(0), 1), call.slot(0), call.slot(1)
    if x.dtype not in ("float32", "int8", "int64", *_UNIQUE) or slot.dtype != x.dtype:
        raise GapError(f"it looks for different elements of {x.dtype}", "use float32, int32 or int64")
    wide = cast_to(call, as_stored(call, x), _UNIQUE.get(x.dtype, x.dtype))
    count = call.unknown(0)
    found = [call.temporary("unique", wide.dtype)]
    found += [call.temporary(label, "int64") for label in ("first", "inverse")]
    outputs = [((count,), found[0]), ((count,), found[1]), (x.shape, found[2])]
    values, _, inverse = call.write_many("Unique", [wide], outputs, sorted=0)
    store(call, values, slot)
    store(call, inverse, positions)
