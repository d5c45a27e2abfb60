"""Recurrent cells, from a state of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant
from tests.conformance.cases import Model, Operand, Table, cases, fitted, written

BATCH, TIME, INPUT, UNITS, PROJECTED = 2, 4, 3, 5, 4
MEMORY = 6
TANH = {"fused_activation_function": "TANH"}

HYBRID = 0.05
"""How far results are from LiteRT's where weights are 8-bit integers: it quantizes the activations as well."""


def state(*shape: int, dtype: str = "float32", quant: Quant | None = None) -> Operand:
    """A variable tensor; LiteRT starts it at zero."""
    return Operand(np.zeros(shape, dtype), dtype, quant, variable=True)


def _gates(
    table: Table,
    coupled: bool = False,
    peephole: bool = False,
    project: bool = False,
    *,
    weights: str = "float32",
    diagonal: bool = False,
    features: int = INPUT,
) -> list[Operand | None]:
    """Weights of one direction in LiteRT's order, from input-to-input to the bias of the projection."""
    out = PROJECTED if project else UNITS
    first: list[Operand | None] = [None] if coupled else []
    found: list[Operand | None] = []
    count = 3 if coupled else 4
    found += first + [_matrix(table, UNITS, features, weights) for _ in range(count)]
    recurrent = [_matrix(table, UNITS, out, weights) for _ in range(count)]
    found += first + ([table.real(UNITS).fixed for _ in range(count)] if diagonal else recurrent)
    for gate in range(3):
        found.append(_vector(table, UNITS, weights) if peephole and not (coupled and gate == 0) else None)
    found += first + [table.real(UNITS, low=-0.5, high=0.5).fixed for _ in range(count)]
    found.append(_matrix(table, out, UNITS, weights) if project else None)
    return [*found, table.real(out).fixed if project else None]


def _growing(gates: Sequence[Operand | None]) -> list[Operand | None]:
    """The same with biases that open all gates, so that cells grow in each step."""
    return [
        replace(each, data=np.full(UNITS, 6, np.float32)) if each is not None and 12 <= at < 16 else each
        for at, each in enumerate(gates)
    ]


def _matrix(table: Table, rows: int, columns: int, dtype: str = "float32") -> Operand:
    """Constant weights. The bytes of hybrid ones are signed and symmetric, whatever their type says."""
    if dtype == "float32":
        return table.real(rows, columns).fixed
    signed = table.integers(rows, columns, low=-127, high=127, dtype="int8").values
    return Operand(signed.view(dtype), dtype, Quant([1 / 127], [0]), True)


def _vector(table: Table, size: int, dtype: str) -> Operand:
    found = _matrix(table, 1, size, dtype)
    return replace(found, data=found.values[0])


def _source(table: Table, major: bool, features: int = INPUT) -> Operand:
    return table.real(TIME, BATCH, features) if major else table.real(BATCH, TIME, features)


def _states(project: bool = False) -> list[Operand]:
    return [state(BATCH, PROJECTED if project else UNITS), state(BATCH, UNITS)]


@cases("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequences(table: Table) -> None:
    for coupled, peephole, project in product((False, True), repeat=3):
        label = f"float32{'-coupled' * coupled}{'-peephole' * peephole}{'-projected' * project}"
        for major in (False, True):
            inputs = [_source(table, major), *_gates(table, coupled, peephole, project), *_states(project)]
            table.add(f"{label}{'-major' * major}", inputs, options={"time_major": major, **TANH})
    for coupled, peephole in product((False, True), repeat=2):
        norms = [None if coupled else table.real(UNITS).fixed, *(table.real(UNITS).fixed for _ in range(3))]
        inputs = [_source(table, False), *_gates(table, coupled, peephole), *_states(), *norms]
        table.add(f"float32-normalised{'-coupled' * coupled}{'-peephole' * peephole}", inputs, options=TANH)
    inputs = [_source(table, False), *_gates(table, project=True), *_states(True)]
    table.add("float32-clipped", inputs, options={**TANH, "cell_clip": 0.3, "proj_clip": 0.2})
    for major in (False, True):
        inputs = [_source(table, major), *_gates(table), *_states()]
        chosen = {**TANH, "cell_clip": 0.3, "time_major": major}
        table.add(f"float32-clipped-cell{'-major' * major}", inputs, options=chosen)
    inputs = [_source(table, False), *_gates(table), *_states()]
    for activation in ("RELU", "RELU6", "RELU_N1_TO_1"):
        table.add(f"float32-{activation}", inputs, options={"fused_activation_function": activation})
    table.add("float32-one-step", [table.real(BATCH, 1, INPUT), *inputs[1:]], options=TANH)
    table.add(
        "float32-one-step-clipped", [table.real(BATCH, 1, INPUT), *inputs[1:]], options={**TANH, "cell_clip": 0.1}
    )
    table.add("float32-many-steps", [table.real(BATCH, 100, INPUT), *inputs[1:]], options=TANH)
    table.add("float32-dynamic-steps", [_source(table, False).dynamic(1), *inputs[1:]], options=TANH)
    for major in (False, True):
        clipped, label = {**TANH, "cell_clip": 0.3, "time_major": major}, f"clipped{'-major' * major}"
        source = table.real(70, BATCH, INPUT) if major else table.real(BATCH, 70, INPUT)
        table.add(f"float32-many-steps-{label}", [source, *inputs[1:]], options=clipped)
        source = _source(table, major).dynamic(0 if major else 1)
        table.add(f"float32-dynamic-steps-{label}", [source, *inputs[1:]], options=clipped)
    for steps, reached, coupled, major in product((8, 16, 40), *[(False, True)] * 3):
        gates, shape = _gates(table, coupled), (steps, BATCH, INPUT) if major else (BATCH, steps, INPUT)
        label = f"float32-keras-{steps}{'-reached' * reached}{'-coupled' * coupled}{'-major' * major}"
        given = [table.real(*shape), *(_growing(gates) if reached else gates), *_states()]
        table.add(label, given, options={**TANH, "cell_clip": 10.0, "time_major": major})
    table.add("float32-diagonal", [inputs[0], *_gates(table, diagonal=True), *_states()], options=TANH)
    for dtype, asymmetric in (("int8", False), ("int8", True), ("uint8", False)):
        for coupled, project, clip in ((False, False, 0.0), (True, False, 0.0), (False, False, 0.5), (True, True, 0.0)):
            gates = _gates(table, coupled, coupled, project, weights=dtype)
            label = f"hybrid-{dtype}{'-asymmetric' * asymmetric}{'-coupled-peephole' * coupled}{'-projected' * project}"
            chosen = {**TANH, "asymmetric_quantize_inputs": asymmetric, "cell_clip": clip}
            inputs = [_source(table, False), *gates, *_states(project)]
            table.add(f"{label}{'-clipped' * bool(clip)}", inputs, options=chosen, tolerance=HYBRID)
    inputs = [table.real(BATCH, 10, INPUT), *_gates(table, project=True, weights="int8"), *_states(True)]
    table.add("hybrid-many-steps", inputs, options=TANH, tolerance=HYBRID)
    for clip in (0.0, 10.0):
        _halves(table, clip)
    _integers(table)


def _halves(table: Table, clip: float) -> None:
    """Weights of float16 that DEQUANTIZE turns to float32."""
    gates, source = _gates(table), table.real(BATCH, TIME, INPUT)

    def make() -> Model:
        builder = Builder()
        x = builder.input("x", source.values.shape)
        indices = [x, *(-1 if gate is None else _half(builder, gate) for gate in gates)]
        indices += [builder.tensor(f"state{at}", (BATCH, UNITS), variable=True) for at in range(2)]
        result = builder.tensor("y", (BATCH, TIME, UNITS))
        builder.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", indices, [result], {**TANH, "cell_clip": clip})
        return Model(builder.finish(result), (source.values,))

    table.add_model(f"float16{'-clipped' * bool(clip)}", make, tolerance=1e-4)


def _half(builder: Builder, operand: Operand) -> int:
    half = builder.constant("half", operand.values, "float16")
    full = builder.tensor("full", operand.values.shape)
    builder.operator("DEQUANTIZE", [half], [full])
    return full


def _integers(table: Table) -> None:
    """The integer kernel, 8 bits outside and 16 bits inside, with cells of several scales."""
    for coupled, peephole, project, normalised in product((False, True), repeat=4):
        if peephole and project:
            continue
        words = {"coupled": coupled, "peephole": peephole, "projected": project, "normalised": normalised}
        label = "-".join(["int8", *(word for word, chosen in words.items() if chosen)])
        chosen: dict[str, Any] = {**TANH, "cell_clip": 10.0 * (not coupled)}
        inputs, between, result = _integer_cell(table, coupled, peephole, project, normalised)
        table.add(label, inputs, result, chosen, intermediates=between)
    inputs, between, result = _integer_cell(table, project=True, bits=11)
    assert inputs[0] is not None
    inputs[0] = replace(inputs[0], data=inputs[0].values.transpose(1, 0, 2))
    clipped = {**TANH, "cell_clip": 0.3, "proj_clip": 0.4, "time_major": True}
    table.add("int8-clipped-major", inputs, result, clipped, intermediates=between)
    inputs, between, result = _integer_cell(table)
    inputs[0] = table.quantized("int8", BATCH, 70, INPUT, low=-1, high=1.5)
    table.add("int8-many-steps", inputs, result, TANH, intermediates=between)
    for bits in (8, 9, 15, 16):
        inputs, between, result = _integer_cell(table, bits=bits)
        table.add(f"int8-cell{bits}", inputs, result, TANH, intermediates=between)


def _integer_cell(
    table: Table,
    coupled: bool = False,
    peephole: bool = False,
    project: bool = False,
    normalised: bool = False,
    bits: int = 12,
) -> tuple[list[Operand | None], list[Operand], Operand]:
    """Inputs, intermediates and the output of a cell whose state has this many bits after the point."""
    source = table.quantized("int8", BATCH, TIME, INPUT, low=-1, high=1.5)
    output = fitted("int8", -1.5 if project else -1.0, 0.8)
    hidden = fitted("int8", -1.0, 0.8) if project else output
    gates = _gates(table, coupled, False, project, weights="int8")
    holes, norm = Quant([2.0**-15], [0]), Quant([2.0**-15], [0])

    def words(size: int, quant: Quant) -> Operand:
        return Operand(table.integers(size, low=-30000, high=30000, dtype="int16").values, "int16", quant, True)

    def bias(size: int, step: float) -> Operand:
        limit = int(0.5 / step)
        return Operand(table.integers(size, low=-limit, high=limit).values, "int32", Quant([step], [0]), True)

    for gate in range(4):
        if gates[11 + gate] is not None:
            gates[11 + gate] = bias(UNITS, norm.scale[0] / 1024 if normalised else source.scale / 127)
    if project:
        gates[16] = bias(PROJECTED, hidden.scale[0] / 127)
    for place in range(3):
        if peephole and not (coupled and place == 0):
            gates[8 + place] = words(UNITS, holes)
    states = [
        state(BATCH, PROJECTED if project else UNITS, dtype="int8", quant=output),
        state(BATCH, UNITS, dtype="int16", quant=Quant([2.0**-bits], [0])),
    ]
    norms: list[Operand | None] = [None] * 4
    if normalised:
        norms = [None if coupled and gate == 0 else words(UNITS, norm) for gate in range(4)]
    sums = Operand(dtype="int16", quant=Quant([2.0**-12], [0])) if normalised else Operand()
    between = [sums, sums, sums, sums, Operand(dtype="int8", quant=hidden)]
    return [source, *gates, *states, *norms], between, Operand(dtype="int8", quant=output)


@cases("LSTM")
def steps(table: Table) -> None:
    for coupled, peephole, project, clip in product((False, True), (False, True), (False, True), (0.0, 0.2)):
        label = (
            f"float32{'-coupled' * coupled}{'-peephole' * peephole}{'-projected' * project}{'-clipped' * bool(clip)}"
        )
        inputs = [table.real(BATCH, INPUT), *_gates(table, coupled, peephole, project), *_states(project)]
        table.add(label, inputs, options={**TANH, "cell_clip": clip})
    norms = [table.real(UNITS).fixed for _ in range(4)]
    table.add("float32-normalised", [table.real(BATCH, INPUT), *_gates(table), *_states(), *norms], options=TANH)
    for dtype in ("int8", "uint8"):
        inputs = [table.real(BATCH, INPUT), *_gates(table, weights=dtype), *_states()]
        table.add(f"hybrid-{dtype}", inputs, options=TANH, tolerance=HYBRID)
    for project in (False, True):
        inputs, between, result = _integer_cell(table, project=project)
        assert inputs[0] is not None
        inputs[0] = replace(inputs[0], data=inputs[0].values[:, 0])
        table.add(f"int8{'-projected' * project}", inputs, result, TANH, intermediates=between)
    basic = {**TANH, "kernel_type": "BASIC"}
    weights = [table.real(4 * UNITS, INPUT + UNITS).fixed, table.real(4 * UNITS).fixed]
    inputs = [table.real(BATCH, INPUT), state(BATCH, UNITS), *weights, state(BATCH, UNITS)]
    table.add("float32-basic", inputs, [Operand()] * 4, basic)
    _basic_bytes(table, basic)


def _basic_bytes(table: Table, basic: dict[str, Any]) -> None:
    byte, word = Quant([1 / 128], [128]), Quant([2.0**-11], [0])
    source = replace(table.integers(BATCH, INPUT, low=0, high=255, dtype="uint8"), quant=byte)
    weights = table.integers(4 * UNITS, INPUT + UNITS, low=0, high=255, dtype="uint8").fixed
    step = 0.01 / 128
    bias = table.integers(4 * UNITS, low=-5000, high=5000).fixed
    inputs = [
        source,
        state(BATCH, UNITS, dtype="uint8", quant=byte),
        replace(weights, quant=Quant([0.01], [120])),
        replace(bias, quant=Quant([step], [0])),
        state(BATCH, UNITS, dtype="int16", quant=word),
    ]
    results = [
        Operand(dtype="uint8", quant=byte),
        Operand(dtype="int16", quant=word),
        Operand(dtype="uint8", quant=byte),
        Operand(dtype="int16", quant=Quant([2.0**-12], [0])),
    ]
    table.add("uint8-basic", inputs, results, basic)


@cases("BIDIRECTIONAL_SEQUENCE_LSTM")
def both_ways(table: Table) -> None:
    for merge, major, peephole in product((False, True), repeat=3):
        label = f"float32{'-merged' * merge}{'-major' * major}{'-peephole' * peephole}"
        weights = [each for _ in range(2) for each in _gates(table, peephole=peephole)]
        _add_both_ways(table, label, weights, merge=merge, major=major)
    for project, clip in ((False, 0.3), (True, 0.0)):
        weights = [each for coupled in (True, False) for each in _gates(table, coupled=coupled, project=project)]
        label = f"float32-coupled-forward{'-projected' * project}{'-clipped' * bool(clip)}"
        _add_both_ways(table, label, weights, major=True, merge=not project, clip=clip, project=project)
    for major in (False, True):
        weights = [each for _ in range(2) for each in _gates(table)]
        extra = [_source(table, major, 2), *(table.real(UNITS, 2).fixed for _ in range(8))]
        _add_both_ways(table, f"float32-auxiliary{'-major' * major}", weights, extra, major=major)
        _add_both_ways(table, f"float32-stacked{'-major' * major}", weights, [_source(table, major)], major=major)
    for steps, reached in product((8, 40), (False, True)):
        weights = [each for at in range(2) for each in (_growing if reached and at else list)(_gates(table))]
        given = [table.real(steps, BATCH, INPUT), *weights, *_states(), *_states(), *[None] * 9]
        chosen = {"time_major": True, "cell_clip": 10.0, **TANH}
        table.add(f"float32-keras-{steps}{'-reached' * reached}", given, [Operand()] * 2, chosen)
    weights = [each for _ in range(2) for each in _gates(table)]
    chosen = {"time_major": True, "merge_outputs": True, "cell_clip": 0.3, **TANH}
    long = [table.real(70, BATCH, INPUT), *weights, *_states(), *_states(), *[None] * 9]
    table.add("float32-many-steps-clipped", long, [Operand()], chosen)
    weights = [each for _ in range(2) for each in _gates(table, weights="int8")]
    _add_both_ways(table, "hybrid", weights, major=True, merge=True, tolerance=HYBRID)
    long = [table.real(70, BATCH, INPUT), *weights, *_states(), *_states(), *[None] * 9]
    table.add("hybrid-many-steps-clipped", long, [Operand()], chosen, tolerance=HYBRID)


def _add_both_ways(
    table: Table,
    label: str,
    weights: Sequence[Operand | None],
    extra: Sequence[Operand] = (),
    *,
    merge: bool = False,
    major: bool = False,
    clip: float = 0.0,
    project: bool = False,
    tolerance: float = 1e-5,
) -> None:
    """LiteRT overruns its states where it merges with the batch first, unless the batch is 1."""
    batch = 1 if merge and not major else BATCH
    source = _source(table, major)
    source = replace(source, data=source.values[:, :batch] if major else source.values[:batch])
    states = [state(batch, PROJECTED if project and at % 2 == 0 else UNITS) for at in range(4)]
    inputs = [source, *weights, *states, *extra, *[None] * (9 - len(extra))]
    chosen = {"merge_outputs": merge, "time_major": major, "cell_clip": clip, **TANH}
    table.add(label, inputs, [Operand()] * (1 if merge else 2), chosen, tolerance=tolerance)


@cases("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def simple(table: Table) -> None:
    sequence = table.operator != "RNN"
    for activation, weights in product(("TANH", "RELU", "RELU6", "NONE"), ("float32", "int8", "uint8")):
        for major in (False, True) if sequence else (False,):
            source = _source(table, major) if sequence else table.real(BATCH, INPUT)
            cell = _simple(table, weights)
            chosen = {"fused_activation_function": activation, **({"time_major": major} if sequence else {})}
            label = f"{'hybrid-' * (weights != 'float32')}{weights}-{activation}{'-major' * major}"
            tolerance = 1e-5 if weights == "float32" else HYBRID
            table.add(label, [source, *cell], options=chosen, tolerance=tolerance)
    if sequence:
        chosen = {"fused_activation_function": "RELU6"}
        table.add("float32-many-steps-RELU6", [table.real(BATCH, 70, INPUT), *_simple(table)], options=chosen)
        table.add(
            "float32-many-steps-RELU",
            [table.real(BATCH, 70, INPUT), *_simple(table)],
            options={"fused_activation_function": "RELU"},
        )


def _simple(table: Table, weights: str = "float32") -> list[Operand]:
    """Weights, recurrent weights, bias and state of one direction; small, so that no activation lets them grow."""
    found = [_matrix(table, UNITS, INPUT, weights), _matrix(table, UNITS, UNITS, weights)]
    small = [
        replace(each, data=each.values * np.float32(0.4))
        if each.quant is None
        else replace(each, quant=Quant([0.003], [0]))
        for each in found
    ]
    return [*small, table.real(UNITS).fixed, state(BATCH, UNITS)]


@cases("BIDIRECTIONAL_SEQUENCE_RNN")
def simple_both_ways(table: Table) -> None:
    for merge, major, kind in product((False, True), (False, True), ("plain", "auxiliary", "stacked")):
        source, extra = _source(table, major), _source(table, major)
        rest: list[Operand | None] = [None, None, None] if kind == "plain" else [extra, None, None]
        if kind == "auxiliary":
            rest[1:] = [table.real(UNITS, INPUT).fixed for _ in range(2)]
        inputs = [source, *_simple(table), *_simple(table), *rest]
        chosen = {"merge_outputs": merge, "time_major": major, **TANH}
        label = f"float32-{kind}{'-merged' * merge}{'-major' * major}"
        table.add(label, inputs, [Operand()] * (1 if merge else 2), chosen)
    inputs = [_source(table, False), *_simple(table, "int8"), *_simple(table, "int8"), None, None, None]
    table.add("hybrid-int8", inputs, [Operand()] * 2, TANH, tolerance=HYBRID)


@cases("SVDF")
def decomposed(table: Table) -> None:
    for rank, activation, biased in product((1, 2), ("NONE", "RELU", "RELU6", "TANH"), (False, True)):
        filters, memory = UNITS * rank, 6
        weights = [table.real(filters, INPUT).fixed, table.real(filters, memory).fixed]
        inputs = [table.real(BATCH, INPUT), *weights, table.real(UNITS).fixed if biased else None]
        chosen = {"rank": rank, "fused_activation_function": activation}
        label = f"float32-rank{rank}-{activation}{'-bias' * biased}"
        table.add(label, [*inputs, state(BATCH, filters * memory)], options=chosen)
    inputs = [table.real(BATCH, INPUT), table.real(UNITS, INPUT).fixed, table.real(UNITS, 1).fixed, None]
    table.add("float32-memory1", [*inputs, state(BATCH, UNITS)], options={"rank": 1})
    for dtype in ("int8", "uint8"):
        cell = [_matrix(table, 2 * UNITS, INPUT, dtype), _matrix(table, 2 * UNITS, 6, dtype), table.real(UNITS).fixed]
        inputs = [table.real(BATCH, INPUT), *cell, state(BATCH, 2 * UNITS * 6)]
        table.add(f"hybrid-{dtype}", inputs, options={"rank": 2}, tolerance=HYBRID)
    for rank, biased in product((1, 2), (False, True)):
        _integer_filters(table, rank, biased)
        _byte_filters(table, rank, biased)


def _integer_filters(table: Table, rank: int, biased: bool) -> None:
    filters, memory, word = UNITS * rank, 6, Quant([0.0002], [0])
    source = table.quantized("int8", BATCH, INPUT, low=-1, high=1.5)
    time = table.integers(filters, memory, low=-30000, high=30000, dtype="int16").fixed
    step = word.scale[0] / 32768
    bias = replace(table.integers(UNITS, low=-(10**8), high=10**8).fixed, quant=Quant([step], [0]))
    inputs = [
        source,
        _matrix(table, filters, INPUT, "int8"),
        replace(time, quant=Quant([1 / 32768], [0])),
        bias if biased else None,
        state(BATCH, filters * memory, dtype="int16", quant=word),
    ]
    result = Operand(dtype="int8", quant=fitted("int8", 0.0, 2.0))
    chosen = {"rank": rank, "fused_activation_function": "RELU"}
    table.add(f"int8-rank{rank}{'-bias' * biased}", inputs, result, chosen)


def _byte_filters(table: Table, rank: int, biased: bool) -> None:
    inputs, result = byte_filters(table, rank, biased)
    source, options = inputs[0], {"rank": rank, "fused_activation_function": "RELU"}
    assert source is not None
    expected = filtered(inputs, result, np.zeros((BATCH, UNITS * rank, MEMORY), np.int64))[0]
    made = written("SVDF", inputs, [result], options)
    table.add_model(f"int8-bytes-rank{rank}{'-bias' * biased}", lambda: Model(made, (source.values,), (expected,)))


def byte_filters(table: Table, rank: int, biased: bool) -> tuple[list[Operand | None], Operand]:
    """All in 8 bits, which TensorFlow Lite Micro computes: LiteRT would read past the weights in time."""
    filters, word = UNITS * rank, Quant([0.04], [5])
    source = table.quantized("int8", BATCH, INPUT, low=-1, high=1.5)
    features, time = (_matrix(table, filters, size, "int8") for size in (INPUT, MEMORY))
    step = word.scale[0] / 127
    bias = replace(table.integers(UNITS, low=-3000, high=3000).fixed, quant=Quant([step], [0]))
    remembered = state(BATCH, filters * MEMORY, dtype="int8", quant=word)
    result = Operand(dtype="int8", quant=fitted("int8", 0.0, 4.0), shape=(BATCH, UNITS))
    return [source, features, time, bias if biased else None, remembered], result


def filtered(inputs: Sequence[Operand | None], result: Operand, before: Array) -> tuple[Array, Array]:
    """What the integer kernel gives, and what it remembers after it: ``[batch, filters, memory]``, counted from 0."""
    source, features, time, bias, word = inputs
    assert source and features and time and word and word.quant and source.quant and result.quant
    dots = (source.values.astype(np.int64) - source.quant.zero_point[0]) @ features.values.astype(np.int64).T
    zero = word.quant.zero_point[0]
    newest = np.clip(_rescaled(dots, source.scale * features.scale / word.scale) + zero, -128, 127) - zero
    after = np.concatenate([before[..., 1:], newest[..., None]], 2)
    sums = (after * time.values).reshape(*result.shape, -1).sum(2) + (0 if bias is None else bias.values)
    given = _rescaled(sums, word.scale * time.scale / result.quant.scale[0]) + result.quant.zero_point[0]
    return np.clip(given, -128, 127).astype(np.int8), after


def _rescaled(numbers: Array, scale: float) -> Array:
    """Integers times a real number, rounded to the nearest."""
    return np.floor(numbers * scale + 0.5).astype(np.int64)
