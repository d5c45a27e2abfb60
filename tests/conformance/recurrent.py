"""Recurrent cells, from a state of zeros."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.cases import Operand, Table, cases

BATCH, TIME, INPUT, UNITS, PROJECTED = 2, 4, 3, 5, 4


def state(*shape: int) -> Operand:
    """A variable tensor; LiteRT starts it at zero."""
    return Operand(np.zeros(shape, np.float32), variable=True)


def _gates(
    table: Table, coupled: bool, peephole: bool, project: bool, bias: float = 0.5, hybrid: bool = False
) -> list[Operand | None]:
    """Weights of one direction in LiteRT's order, from input-to-input to the bias of the projection."""
    out = PROJECTED if project else UNITS
    first: list[Operand | None] = [None] if coupled else []
    weights: list[Operand | None] = []
    for width in (INPUT, out):
        count = 3 if coupled else 4
        weights += first + [_matrix(table, UNITS, width, hybrid) for _ in range(count)]
    for gate in range(3):
        weights.append(table.real(UNITS).fixed if peephole and not (coupled and gate == 0) else None)
    weights += first + [table.real(UNITS, low=-bias, high=bias).fixed for _ in range(3 if coupled else 4)]
    weights.append(_matrix(table, out, UNITS, hybrid) if project else None)
    return [*weights, table.real(out).fixed if project else None]


def _matrix(table: Table, rows: int, columns: int, hybrid: bool) -> Operand:
    if not hybrid:
        return table.real(rows, columns).fixed
    quantised = table.quantised("int8", rows, columns)
    assert quantised.quant is not None and quantised.data is not None
    symmetric = type(quantised.quant)([1 / 127], [0])
    return Operand(np.clip(quantised.data, -127, 127), "int8", symmetric, True)


@cases("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequences(table: Table) -> None:
    for coupled, peephole, project in product((False, True), repeat=3):
        label = f"float32{'-coupled' * coupled}{'-peephole' * peephole}{'-projected' * project}"
        for major in (False, True):
            source = table.real(TIME, BATCH, INPUT) if major else table.real(BATCH, TIME, INPUT)
            states = [state(BATCH, PROJECTED if project else UNITS), state(BATCH, UNITS)]
            chosen = {"time_major": major, "fused_activation_function": "TANH"}
            inputs = [source, *_gates(table, coupled, peephole, project), *states]
            table.add(f"{label}{'-major' * major}", inputs, options=chosen, tolerance=1e-4)
    states = [state(BATCH, UNITS), state(BATCH, UNITS)]
    for coupled in (False, True):
        norms = [None if coupled else table.real(UNITS).fixed, *(table.real(UNITS).fixed for _ in range(3))]
        inputs = [table.real(BATCH, TIME, INPUT), *_gates(table, coupled, False, False), *states, *norms]
        label = f"float32-normalised{'-coupled' * coupled}"
        table.add(label, inputs, options={"fused_activation_function": "TANH"}, tolerance=1e-4)
    inputs = [table.real(BATCH, TIME, INPUT), *_gates(table, False, False, True), state(BATCH, PROJECTED), states[1]]
    clipped = {"fused_activation_function": "TANH", "cell_clip": 0.3, "proj_clip": 0.2}
    table.add("float32-clipped", inputs, options=clipped, tolerance=1e-4)
    inputs = [table.real(BATCH, TIME, INPUT), *_gates(table, False, False, False), *states]
    table.add("float32-relu", inputs, options={"fused_activation_function": "RELU"}, tolerance=1e-4)
    table.add(
        "float32-one-step", [table.real(BATCH, 1, INPUT), *inputs[1:]], options={"fused_activation_function": "TANH"}
    )
    inputs = [table.real(BATCH, TIME, INPUT), *_gates(table, False, False, False, hybrid=True), *states]
    table.add("hybrid", inputs, options={"fused_activation_function": "TANH"}, tolerance=0.05)


@cases("BIDIRECTIONAL_SEQUENCE_LSTM")
def both_ways(table: Table) -> None:
    for merge, major, peephole in product((False, True), repeat=3):
        source = table.real(TIME, BATCH, INPUT) if major else table.real(BATCH, TIME, INPUT)
        weights = [each for _ in range(2) for each in _gates(table, False, peephole, False)]
        states = [state(BATCH, UNITS) for _ in range(4)]
        inputs = [source, *weights, *states, *[None] * 9]
        chosen = {"merge_outputs": merge, "time_major": major, "fused_activation_function": "TANH"}
        label = f"float32{'-merged' * merge}{'-major' * major}{'-peephole' * peephole}"
        table.add(label, inputs, [Operand()] * (1 if merge else 2), chosen, tolerance=1e-4)


@cases("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def simple(table: Table) -> None:
    sequence = table.operator != "RNN"
    for activation in ("TANH", "RELU", "NONE"):
        for major in (False, True) if sequence else (False,):
            shape = ((TIME, BATCH) if major else (BATCH, TIME)) if sequence else (BATCH,)
            weights = [table.real(UNITS, INPUT).fixed, table.real(UNITS, UNITS).fixed, table.real(UNITS).fixed]
            chosen = {"fused_activation_function": activation, **({"time_major": major} if sequence else {})}
            inputs = [table.real(*shape, INPUT), *weights, state(BATCH, UNITS)]
            table.add(f"float32-{activation}{'-major' * major}", inputs, options=chosen)


@cases("SVDF")
def decomposed(table: Table) -> None:
    for rank, activation, biased in product((1, 2), ("NONE", "RELU"), (False, True)):
        filters, memory = UNITS * rank, 6
        weights = [table.real(filters, INPUT).fixed, table.real(filters, memory).fixed]
        inputs = [table.real(BATCH, INPUT), *weights, table.real(UNITS).fixed if biased else None]
        chosen = {"rank": rank, "fused_activation_function": activation}
        label = f"float32-rank{rank}-{activation}{'-bias' * biased}"
        table.add(label, [*inputs, state(BATCH, filters * memory)], options=chosen)
