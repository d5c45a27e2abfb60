"""The fuzzer finds what it is there to find."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layoutsolve
from experiments import fuzz
from experiments.mutation import MUTATIONS, mutant
from layoutsolve.errors import ModelError
from tests.builder import Builder

convert = layoutsolve.convert


def chain(operator: str = "NEG") -> bytes:
    """A model of two operators."""
    builder = Builder()
    x = builder.input("x", (2, 3))
    middle, out = builder.tensor("middle", (2, 3)), builder.tensor("out", (2, 3))
    builder.operator(operator, [x], [middle])
    builder.operator("ADD", [middle, builder.constant("ones", np.ones(3, np.float32))], [out], {})
    builder.signature({"x": x}, {"out": out})
    return builder.finish(out)


def endless(source: bytes) -> layoutsolve.Conversion:
    while True:
        time.sleep(0) if source is None else None


def greedy(source: bytes) -> layoutsolve.Conversion:
    np.ones(fuzz.MEMORY // 4, np.float64)
    return convert(source)


def broken(source: bytes) -> layoutsolve.Conversion:
    raise KeyError("anything")


def refusing(source: bytes) -> layoutsolve.Conversion:
    raise ModelError("no")


def dying(source: bytes) -> layoutsolve.Conversion:
    os._exit(3)


def another(source: bytes) -> layoutsolve.Conversion:
    return convert(chain("ABS"))


@pytest.mark.parametrize(
    ("planted", "verdict"),
    [
        (convert, "agrees"),
        (refusing, "refused"),
        (broken, "traceback"),
        (dying, "died"),
        (endless, "hangs"),
        (greedy, "memory"),
        (another, "differs"),
    ],
)
def test_findings(planted: Callable[..., Any], verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chain.tflite").write_bytes(chain())
    monkeypatch.setattr(fuzz, "mutant", lambda source, seed: mutant_of_nothing(source))
    monkeypatch.setattr(fuzz, "SECONDS", 0.3)
    monkeypatch.setattr(layoutsolve, "convert", planted)
    plan = fuzz.Plan(fuzz.models_below([tmp_path], fuzz.LARGEST), 0, 3, time.monotonic() + 60)
    records = list(fuzz.run(plan, jobs=2))
    assert sorted(record.number for record in records) == [0, 1, 2]
    assert {record.verdict for record in records} == {verdict}, records


def mutant_of_nothing(source: bytes) -> Any:
    return type("Same", (), {"source": source, "mutations": ()})


def test_mutants_are_the_same_again_and_of_all_kinds() -> None:
    source = chain()
    made = [mutant(source, seed) for seed in range(400)]
    assert [mutant(source, seed) for seed in range(40)] == made[:40]
    assert len({each.source for each in made}) > 300
    counts = Counter(name for each in made for name in each.mutations)
    assert set(counts) >= set(MUTATIONS) - {"change_custom_options", "change_quantised_axis"}  # it has neither
