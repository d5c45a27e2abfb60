"""Simple recurrent networks: h' = activation(W x + R h + b)."""

from __future__ import annotations

from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.recurrent.sequence import (
    Auxiliary,
    Walk,
    activated,
    auxiliary,
    fused,
    merge,
    real,
    ways,
)
from layoutsolve.frontend.tflite.operators.recurrent.weights import Matrix, beside, matrix, vector
from layoutsolve.frontend.tflite.operators.shared.common import ranked, static
from layoutsolve.ir.graph import Array, Value


@lowers("RNN", signature="P PN =1 P P -> P")
def rnn(call: Call) -> None:
    """RNN: one step."""
    x = ranked(call, call.input(0), 2)
    _direction(Walk.over(call, x), x, None, 1, call.slot())


@lowers("UNIDIRECTIONAL_SEQUENCE_RNN", signature="P PN =1 P P -> P")
def unidirectional(call: Call) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    x = ranked(call, call.input(0), 3)
    _direction(Walk.over(call, x, time_major=bool(call.option("time_major"))), x, None, 1, call.slot())


@lowers("BIDIRECTIONAL_SEQUENCE_RNN", signature="P PN =1 P P =1 =1 P P P~ =1~ =1~ -> P P?")
def bidirectional(call: Call) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN; an auxiliary input without weights is what the way back reads.

    With the batch first, though, LiteRT's way back reads the first input whatever else there is.
    """
    x = ranked(call, call.input(0), 3)
    major, extra = bool(call.option("time_major")), call.optional(9)
    weighted = extra is not None and call.optional(10) is not None
    if weighted and major and extra is not None and extra.shape[-1] != x.shape[-1]:
        raise GapError("LiteRT misreads its auxiliary input, which comes with time first", "put the batch first")
    walk, slots = Walk.over(call, x, time_major=major), ways(call)
    back, (ahead, behind) = auxiliary(call, x, 9, (10, 11), weighted=weighted)
    forward = _direction(walk, x, ahead, 1, slots[0])
    backward = _direction(walk.reverse, back if major else x, behind, 5, slots[1])
    merge(call, forward, backward)


def _direction(walk: Walk, x: Value, aux: Auxiliary | None, base: int, slot: Slot) -> Value:
    """One direction, whose weights, recurrent weights, bias and state are the inputs from ``base`` on."""
    call, code = walk.call, int(walk.call.option("fused_activation_function"))
    features, units = static(call, (x.shape[-1], call.input(base).shape[0]), "number of features")
    if min(features, units) < 1:
        raise ModelError(f"{call.origin} has {features} features and {units} units")
    weights = matrix(call, base, units, features)
    if aux is not None:
        weights = beside(weights, matrix(call, aux.position, units, aux.features))
        x = aux.joined(call, real(call, x))
    recurrent, bias = matrix(call, base + 1, units, units), vector(call, base + 2, units)
    state = walk.state(base + 3, units)
    write = _fused if fused(code) and walk.axis is not None else _unrolled
    result, after = write(walk, real(call, x), (weights, recurrent), bias, real(call, state), slot)
    walk.leave(base + 3, after)
    return result


def _fused(
    walk: Walk, x: Value, weights: tuple[Matrix, Matrix], bias: Array, state: Value, slot: Slot
) -> tuple[Value, Value]:
    """ONNX's RNN over all steps."""
    call = walk.call
    both = [part.direction(call, label) for part, label in zip(weights, ("weights", "recurrent"), strict=True)]
    given = [*both, call.constant([[*bias, *[0.0] * bias.size]], "bias", "float32")]
    name = fused(int(call.option("fused_activation_function")))
    linear: dict[str, Any] = {"activation_alpha": (1.0,), "activation_beta": (0.0,)} if name == "Affine" else {}
    result, (after,) = walk.fused("RNN", x, given, (state,), slot, activations=(name,), **linear)
    return result, after


def _unrolled(
    walk: Walk, x: Value, weights: tuple[Matrix, Matrix], bias: Array, state: Value, slot: Slot
) -> tuple[Value, Value]:
    """Step by step."""
    call, code = walk.call, int(walk.call.option("fused_activation_function"))
    rows, shape = walk.rows(x), state.shape
    given = [rows, weights[0].columns(call, "weights"), call.constant(bias, "bias", "float32")]
    inputs = call.write("Gemm", given, (rows.shape[0], bias.size), call.temporary("inputs"))
    recurrent = weights[1].factor(call, "recurrent")

    def step(call: Call, given: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
        total = call.write("Gemm", [states[0], recurrent, given], shape, call.temporary("sum"))
        return (activated(call, code, total, call.temporary("h")),)

    result, (after,) = walk.through(inputs, (state,), step, slot)
    return result, after
