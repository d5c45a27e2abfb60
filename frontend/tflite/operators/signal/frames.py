"""Streams of sound, kept from run to run: tflite-micro's SignalDelay, -Framer, -Stacker and -OverlapAdd.

Outputs of frames that are not complete yet are not written there; here they have what has come so far, after zeros.
"""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.custom.options import flag, integer
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, cast_to, copy, ranked, static, store
from layoutsolve.frontend.tflite.operators.shared.fixed_point import apply, chosen, looked_up, saturated
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Value

_MOST_PARTS = 64
"""How many frames may overlap: for each of them it is added once."""


def _joined(call: Call, x: Value, kept: int, label: str) -> Value:
    """The last numbers of the runs before, as many as are kept, and those of this one; they are kept in turn."""
    *outer, length = static(call, x.shape, "input shape")
    before = call.kept(label, (*outer, kept), x.dtype)
    slot = call.like("joined", x)
    whole = call.write("Concat", [before, x], (*outer, kept + length), slot, axis=len(outer))
    call.keep(label, take(call, whole, {len(outer): Span(length, LAST)}, call.like("after", x)))
    return whole


@lowers("CUSTOM:SignalDelay", signature="H -> =")
def delay(call: Call) -> None:
    """SignalDelay: each row as it was some numbers ago."""
    x, count = call.input(0), integer(call, call.settings(), "delay_length")
    if count < 0 or not x.shape:
        raise ModelError(f"{call.origin} delays '{x.name}' of rank {len(x.shape)} by {count}")
    if count == 0:
        copy(call, x)
        return
    last = len(x.shape) - 1
    take(call, _joined(call, x, count, "delayed"), {last: Span(0, x.shape[last])}, call.slot())


@lowers("CUSTOM:SignalFramer", signature="H -> = B")
def framer(call: Call) -> None:
    """SignalFramer: frames that overlap, one for each step of numbers; and whether all of them are complete.

    Without zeros to begin with, the first frame waits for so many steps that it is in them, and takes the oldest part.
    """
    x, options = call.input(0), call.settings()
    size, step = integer(call, options, "frame_size"), integer(call, options, "frame_step")
    prefill = flag(call, options, "prefill")
    *outer, length = static(call, x.shape, "input shape")
    if step < 1 or size < 1 or length % step or not length or (prefill and size < step):
        raise ModelError(f"{call.origin} cuts {length} numbers into frames of {size}, {step} apart")
    waiting = 0 if prefill else -(-size // step) - 1
    kept = size - step if prefill else waiting * step
    whole = _joined(call, x, kept, "frames") if kept else x
    call.draft.ask(length // step * size)
    places = call.constant(np.arange(0, length, step)[:, None] + np.arange(size), "places", "int64")
    store(call, looked_up(call, whole, places, "cut", axis=len(outer)), call.slot(0))
    if not waiting:
        call.known(call.slot(1), np.array(True))
        return
    missing = call.kept("missing", (), "int64", waiting)
    store(call, apply(call, "LessOrEqual", missing, 0, "complete", "bool"), call.slot(1))
    # A number that would run out below is stopped at 0.
    less = apply(call, "Sub", missing, length // step, "less")
    call.keep("missing", chosen(call, apply(call, "Greater", less, 0, "more", "bool"), less, 0, "missing"))


@lowers("CUSTOM:SignalStacker", signature="H -> = B")
def stacker(call: Call) -> None:
    """SignalStacker: a frame with those around it, and whether it is complete; the first stands for those before it."""
    x, options = ranked(call, call.input(0), 1), call.settings()
    (given,) = static(call, x.shape, "length")
    channels = integer(call, options, "num_channels")
    left, right = (integer(call, options, f"stacker_{side}_context") for side in ("left", "right"))
    step, frames = integer(call, options, "stacker_step"), left + right + 1
    if not 0 < channels <= given or min(left, right) < 0 or not 1 <= step <= frames:
        raise ModelError(f"{call.origin} stacks {frames} frames of {channels} in steps of {step}, from {given} numbers")
    x = take(call, x, {0: Span(0, channels)}, call.like("frame", x)) if channels < given else x
    count = call.kept("count", (), "int64", -1)
    first = apply(call, "Less", count, 0, "first", "bool")
    whole = _stacked(call, x, first, channels, frames - 1)
    store(call, whole, call.slot(0))
    following = apply(call, "Add", count, 1, "next")
    grown = chosen(call, first, call.constant(left + 1, "begin", "int64"), following, "grown")
    valid = apply(call, "GreaterOrEqual", grown, frames, "valid", "bool")
    call.keep("count", chosen(call, valid, apply(call, "Sub", grown, step, "consumed"), grown, "count"))
    store(call, valid, call.slot(1))


def _stacked(call: Call, x: Value, first: Value, channels: int, others: int) -> Value:
    """The frames before and this one, as a vector; before the first one, it stands for them."""
    if not others:
        return x
    before = as_int64(call, call.kept("stacked", (others * channels,), "int16"), "before")
    repeated = looked_up(call, as_int64(call, x, "wide"), call.vector(list(range(channels)) * others, "again"), "again")
    past = cast_to(call, chosen(call, first, repeated, before, "past"), "int16", "past")
    size = (others + 1) * channels
    whole = call.write("Concat", [past, x], (size,), call.like("whole", x), axis=0)
    call.keep("stacked", take(call, whole, {0: Span(channels, LAST)}, call.like("after", x)))
    return whole


@lowers("CUSTOM:SignalOverlapAdd", signature="HP -> =")
def overlap_add(call: Call) -> None:
    """SignalOverlapAdd: frames that overlap added up, integers saturated after each addition in order of time.

    A frame is cut into parts of one step: the last parts of all are added first, each to the block where it lies.
    """
    x, step = call.input(0), integer(call, call.settings(), "frame_step")
    if len(x.shape) < 2:
        raise ModelError(f"{call.origin} adds up '{x.name}' of rank {len(x.shape)}")
    *outer, frames, size = static(call, x.shape, "input shape")
    if not 1 <= step <= size:
        raise ModelError(f"{call.origin} adds up frames of {size}, {step} apart")
    parts = -(-size // step)
    if parts > _MOST_PARTS:
        raise GapError(f"{parts} of its frames overlap", f"use frames of at most {_MOST_PARTS} steps")
    wide = as_int64(call, x, "wide") if x.dtype == "int16" else x
    if parts * step > size:
        wide = _extended(call, wide, (0, parts * step - size), len(outer) + 1)
    cut = call.reshaped(wide, (*outer, frames, parts, step), "cut")
    total = _added(call, cut, parts) if parts > 1 else call.reshaped(cut, (*outer, frames, step), "single")
    store(call, call.reshaped(cast_to(call, total, x.dtype), (*outer, frames * step), "joined"), call.slot())


def _extended(call: Call, x: Value, zeros: tuple[int, int], axis: int) -> Value:
    """Zeros before and after along an axis."""
    shape = list(x.shape)
    values = []
    for count in zeros:
        shape[axis] = count
        call.draft.ask(prod(static(call, shape, "shape")))
        values.append(call.constant(np.zeros(shape), "zeros", x.dtype) if count else None)
    given = [value for value in (values[0], x, values[1]) if value is not None]
    shape[axis] = call.arithmetic.total((x.shape[axis], *zeros))
    return call.write("Concat", given, tuple(shape), call.temporary("extended", x.dtype), axis=axis)


def _added(call: Call, cut: Value, parts: int) -> Value:
    """The blocks that are complete, [..., frames, step], of parts [..., frames, parts, step]; the others are kept."""
    *outer, frames, _, step = static(call, cut.shape, "input shape")
    axis, dtype = len(outer), call.input(0).dtype
    total = call.kept("overlap", (*outer, parts - 1, step), dtype)
    total = _extended(call, cast_to(call, total, cut.dtype, "before"), (0, frames), axis)
    for part in reversed(range(parts)):
        one = take(call, cut, {axis + 1: Span(part, part + 1)}, call.temporary("part", cut.dtype))
        one = call.reshaped(one, (*outer, frames, step), "one")
        total = apply(call, "Add", total, _extended(call, one, (part, parts - 1 - part), axis), "added")
        total = saturated(call, total, dtype, "clamped") if dtype == "int16" else total
    rest = take(call, total, {axis: Span(frames, LAST)}, call.temporary("rest", cut.dtype))
    call.keep("overlap", cast_to(call, rest, dtype, "after"))
    return take(call, total, {axis: Span(0, frames)}, call.temporary("complete", cut.dtype))
