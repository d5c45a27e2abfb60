"""A converted model that is fed the states which it returns follows LiteRT, which keeps them inside."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance import families
from tests.conformance.cases import Case, Table, written
from tests.conformance.recurrent import BATCH, MEMORY, UNITS, byte_filters, filtered
from tests.conformance.running import compare
from tests.truth import litert

NAMES = (
    "UNIDIRECTIONAL_SEQUENCE_LSTM-float32",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-float32-coupled-peephole-projected",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-float32-clipped",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int8",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int8-projected",
    "BIDIRECTIONAL_SEQUENCE_LSTM-float32-major",
    "BIDIRECTIONAL_SEQUENCE_RNN-float32-plain",
    "LSTM-float32",
    "LSTM-float32-basic",
    "LSTM-uint8-basic",
    "RNN-float32-TANH",
    "UNIDIRECTIONAL_SEQUENCE_RNN-float32-RELU6",
    "SVDF-float32-rank2-RELU-bias",
    "SVDF-int8-rank2-bias",
)
CASES = [case for case in families.every_case() if case.name in NAMES]


def test_all_cases_exist() -> None:
    assert {case.name for case in CASES} == set(NAMES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_states(case: Case) -> None:
    model = case.make()
    runtime = OnnxRuntime(layoutsolve.convert(model.source).model.SerializeToString(), threads=1)
    given = feeds(runtime, model.inputs, {})
    for runs in (1, 2, 3):
        truth = litert().run(model.source, model.inputs, runs=runs)
        results = runtime.run(given)
        count = len(truth.results)
        for port, expected, actual in zip(truth.outputs, truth.results, results, strict=False):
            compare(case, port, expected, actual)
        after = results[count:]
        assert len(after) == len(runtime.states) and any(np.any(state) for state in after)
        given.update(zip(runtime.states, after, strict=True))


@pytest.mark.parametrize("rank", [1, 2])
def test_states_of_bytes(rank: int) -> None:
    inputs, result = byte_filters(Table("SVDF"), rank, True)
    source, word = inputs[0], inputs[4]
    assert source is not None and word is not None and word.quant is not None
    made = written("SVDF", inputs, [result], {"rank": rank})
    runtime = OnnxRuntime(layoutsolve.convert(made).model.SerializeToString(), threads=1)
    (name,) = runtime.states
    given, memory = feeds(runtime, [source.values], {}), np.zeros((BATCH, UNITS * rank, MEMORY), np.int64)
    for _ in range(MEMORY + 2):
        expected, memory = filtered(inputs, result, memory)
        output, given[name] = runtime.run(given)
        assert np.abs(output.astype(int) - expected).max() <= 1
        assert np.abs(given[name] - (memory.reshape(BATCH, -1) + word.quant.zero_point[0])).max() <= 1
