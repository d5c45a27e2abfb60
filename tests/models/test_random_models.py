"""Random networks give what LiteRT gives, at a price that is proven, however they are converted; broken ones an error.

``LAYOUTSOLVE_SEEDS=2000`` tries so many of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve import Conversion
from layoutsolve.errors import ConversionError, LayoutError, StrategyError
from layoutsolve.ir.graph import Array
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import coarse_levels, ranked
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.verification.litert import Run
from layoutsolve.verification.metrics import distance
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime
from tests.audited import audited
from tests.random_models import Network, network
from tests.truth import HIGHEST_OPSET, litert

SEEDS = int(os.environ.get("LAYOUTSOLVE_SEEDS", "8"))
FIRST = int(os.environ.get("LAYOUTSOLVE_FIRST_SEED", "0"))

TOLERANCES = {"float": 2e-3, "quantized": 0.12}
"""The largest error relative to the range; that of quantized networks adds up from step to step."""

WAYS: tuple[Mapping[str, Any], ...] = (
    {"inputs": "nchw", "outputs": "nchw"},
    {"inputs": "free", "outputs": "free"},
    {"strategy": "push"},
    {"strategy": "propagate"},
    {"strategy": "transpose"},
    {"strategy": "mincut"},
    {"objective": "min-transpose"},
    {"objective": "min-bytes"},
    {"objective": "min-nodes", "time_limit": 3.0},
    {"objective": "min-latency"},
    {"inputs": "free", "objective": "min-latency"},
    {"outputs": "free", "strategy": "push"},
    {"opset": HIGHEST_OPSET},
    {"inputs": "nchw", "strategy": "propagate"},
)


def ways(seed: int) -> list[Mapping[str, Any]]:
    """The default, and a few others."""
    return [{}, *(WAYS[(seed * 3 + step) % len(WAYS)] for step in range(3))]


@pytest.mark.members(0)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_model(seed: int) -> None:
    check_network(network(seed))


@pytest.mark.members(0)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_broken_bytes(seed: int) -> None:
    """Whatever bytes are changed, inserted or missing: a model comes of it, or an error that says why not."""
    source = network(seed).source
    for turn in range(10):
        try:
            layoutsolve.convert(broken(source, np.random.default_rng([seed, turn])), time_limit=5)
        except ConversionError as error:
            assert not str(error).endswith(("None", ": "))


def broken(source: bytes, random: np.random.Generator) -> bytes:
    """The bytes with one of several defects."""
    data, place = bytearray(source), int(random.integers(len(source) - 4))
    kind, length = random.integers(6), int(random.integers(1, 9))
    if kind == 0:
        return bytes(data[:place])
    if kind == 1:
        del data[place : place + length]
    elif kind == 2:
        data[place:place] = random.bytes(length)
    elif kind == 3:
        data[place] ^= 1 << int(random.integers(8))
    else:  # a number: an index, a size, an option
        numbers = np.frombuffer(source[: len(source) // 4 * 4], "<i4")
        place = 4 * int(random.choice(np.flatnonzero((numbers >= -2) & (numbers < 3000))))
        chosen = random.choice([0, 1, -1, 2, 3, 5, 1000, 65536, 2**20, 2**31 - 1, -(2**31)])
        data[place : place + 4] = int(chosen).to_bytes(4, "little", signed=True)
    return bytes(data)


def check_network(made: Network) -> None:
    """Raise AssertionError unless a network converts well in each of its ways."""
    given = [made.feeds(batch) for batch in ((1, 3) if made.kind == "dynamic" else (1,))]
    best = check(made.source, given, ways(made.seed))
    if made.seed % 5 == 0 and best.assignment.status == "optimal":
        certificate = layoutsolve.certify(made.source, best)
        layoutsolve.check_certificate(made.source, best.model.SerializeToString(deterministic=True), certificate)
    if made.seed % 7 == 0:
        explained = Counter(item.operator for item in best.explain().operators)
        assert explained == +Counter({"Transpose": best.price.transposes, "Reshape": best.price.reshapes})


def check(source: bytes, given: Sequence[Sequence[Array]], chosen: Sequence[Mapping[str, Any]]) -> Conversion:
    """The model as it converts by default. Raise AssertionError unless it converts well in all of the chosen ways.

    ``given`` are inputs, several times. The first way is the default.
    """
    truths = [(inputs, litert().run(source, inputs)) for inputs in given]
    best: Conversion | None = None
    for way in chosen:
        try:
            conversion = layoutsolve.convert(source, **way)
        except StrategyError:
            assert way["strategy"] == "mincut"
            continue
        except LayoutError as error:
            assert "an input and an output at once" in str(error), way
            continue
        for level in LEVELS:
            _check_numbers(conversion, truths, level, way)
        best = best or conversion
        _check_price(conversion, best, way)
    assert best is not None
    return best


def _cannot_be_proven(conversion: Conversion) -> bool:
    """Whether candidates were left out, or the groupings of the best orders cost more than these orders do."""
    goal, problem = conversion.assignment.goal, conversion.assignment.problem
    orders = Statement(conversion.assignment.graph, conversion.boundary, goal).orders()
    tiers = coarse_levels(goal.levels)
    if orders.capped or problem.capped or tiers is None:
        return orders.capped or problem.capped
    return solve(orders, tiers).values < ranked(conversion.price, tiers)


def _check_price(conversion: Conversion, best: Conversion, way: Mapping[str, Any]) -> None:
    onnx.checker.check_model(conversion.model, full_check=True)
    report = conversion.report
    audited(conversion.model, conversion.assignment, conversion.graph)
    if (
        way.get("strategy", "cpsat") in ("cpsat", "mincut")
        and "time_limit" not in way
        and report["status"] != "optimal"
    ):
        assert _cannot_be_proven(conversion), f"not proven to be optimal with {way}"
    elif conversion is best:
        assert _transpositions(conversion) == report["bound"]
    if best.assignment.status == "optimal" and "inputs" not in way and "outputs" not in way:
        assert _transpositions(conversion) >= _transpositions(best), f"fewer transpositions than the optimum with {way}"
        if way.get("strategy") == "mincut":
            assert _transpositions(conversion) == _transpositions(best)


def _transpositions(conversion: Conversion) -> int:
    """What the default objective counts first."""
    return conversion.price.transposes + conversion.price.hidden


def _check_numbers(
    conversion: Conversion, truths: Sequence[tuple[Sequence[Array], Run]], level: Level, way: Mapping[str, Any]
) -> None:
    runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1, level=level)
    moved = conversion.permutations(inputs=False)
    for given, truth in truths:
        results = runtime.run(feeds(runtime, given, conversion.permutations(inputs=True)))
        for port, name, expected, stored in zip(truth.outputs, runtime.outputs, truth.results, results, strict=False):
            actual = np.transpose(stored, np.argsort(moved[name])) if name in moved else stored
            case = f"{port.name} with {dict(way)}, level '{level}'"
            assert (expected.shape, expected.dtype) == (actual.shape, actual.dtype), case
            if expected.dtype == np.float32:  # LiteRT clips to finite numbers where an operator may have an activation
                expected, actual = (np.nan_to_num(each, nan=np.nan) for each in (expected, actual))
            found = distance(port, [(expected, actual)])
            if port.dtype in ("int8", "uint8") or _stepped(truth):
                error = found.maximum / (255 if port.quantized else max(float(np.ptp(expected)), 1.0))
                assert error <= TOLERANCES["quantized"], f"{case}: {found}"
            elif port.dtype == "float32":
                assert found.relative <= TOLERANCES["float"] or found.maximum < 1e-5, f"{case}: {found}"
            else:
                assert found.maximum == 0, f"{case}: {found}"


def _stepped(truth: Run) -> bool:
    return any(port.quantized for port in truth.outputs)
