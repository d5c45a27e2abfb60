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
from experiments.fuzz import compare, tflite_mutants
from experiments.fuzz.expected_failures import KNOWN, Known
from experiments.fuzz.mutation import MUTATIONS, Mutant, mutant
from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.litert import Port
from layoutsolve.verification.runtimes import OnnxRuntime
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


def endless(source: bytes, to: str) -> layoutsolve.Conversion:
    while True:
        time.sleep(0) if source is None else None


def greedy(source: bytes, to: str) -> layoutsolve.Conversion:
    np.ones(tflite_mutants.MEMORY // 4 + (20 << 18), np.float32)
    return convert(source)


def broken(source: bytes, to: str) -> layoutsolve.Conversion:
    raise KeyError("anything")


def refusing(source: bytes, to: str) -> layoutsolve.Conversion:
    raise ModelError("no")


def dying(source: bytes, to: str) -> layoutsolve.Conversion:
    os._exit(3)


def another(source: bytes, to: str = "onnx") -> layoutsolve.Conversion:
    return convert(chain("ABS"))


@pytest.mark.members(4)
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
    (tmp_path / "chain.tflite").write_bytes(chain("ABS"))
    monkeypatch.setattr(tflite_mutants, "mutant", lambda source, seed: Mutant(chain(), ()))
    monkeypatch.setattr(tflite_mutants, "SECONDS", 1.0)
    monkeypatch.setattr(layoutsolve, "convert", planted)
    plan = tflite_mutants.Plan(
        tflite_mutants.models_below([tmp_path], tflite_mutants.LARGEST), 0, 3, time.monotonic() + 600
    )
    records = list(tflite_mutants.run(plan, jobs=2))
    assert sorted(record.number for record in records) == [0, 1, 2]
    assert {record.verdict for record in records} == {verdict}, records


def test_models_that_differ_before_they_are_mutated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layoutsolve, "convert", another)
    record = tflite_mutants.Record(0, "chain")
    tflite_mutants.examine(chain(), chain("SQRT"), record, lambda stage: None)
    assert record.verdict == "differs unmutated"


def test_undefined_elements_are_not_compared() -> None:
    """LiteRT's two runs gave other numbers there; where all numbers depend on such, nothing can be said."""
    port = Port("x", "float32", (3,), (3,), (), ())
    wanted, found = np.array([1, 2, 3], np.float32), np.array([1, 5, 3], np.float32)
    model = parse(chain())
    for defined, differs in ([True, True, True], True), ([True, False, True], False), ([False, True, False], True):
        answers = compare.Answers((port,), (wanted,), (np.array(defined),))
        assert bool(compare._first_difference(model, answers, [found])) is differs
    assert compare._same(np.array([1.0, np.nan, 2]), np.array([1.0, np.nan, 3])).tolist() == [True, True, False]


def test_results_may_be_as_far_off_as_rounding_moves_them() -> None:
    """1 / sqrt(x) of differences that cancel out, but no more than that, and no whole numbers."""
    ports = (Port("x", "float32", (2,), (2,), (), ()),)
    whole = (Port("x", "int32", (2,), (2,), (), ()),)
    wanted, moved, defined = np.array([1, 500], np.float32), np.array([1, 510], np.float32), (np.ones(2, bool),)
    for described, found, passes in (ports, [1, 505], True), (ports, [1, 515], False), (whole, [1, 505], False):
        plain, nudged = (compare.Answers(described, (each,), defined) for each in (wanted, moved))
        assert compare._as_rounded(plain, [nudged], [np.array(found, np.float32)]) is passes
    assert not compare._as_rounded(plain, [], [wanted])
    assert compare._nudged([np.ones(3, np.int32)]) == []
    assert all(0 < abs(each[0] - 1) < 1e-4 for (each,) in compare._nudged([np.ones(3, np.float32)]))


def test_open_sizes_are_tried_as_stated_and_larger() -> None:
    builder = Builder()
    inputs = [builder.input(name, (4, 3), signature=(-1, 3)) for name in ("x", "y")]
    out = builder.tensor("out", (4, 3), signature=(-1, 3))
    builder.operator("ADD", inputs, [out], {})
    source = builder.finish(out)
    runtime = OnnxRuntime(convert(source).model.SerializeToString(), threads=1)
    ports = [Port(name, "float32", (4, 3), (-1, 3), (), ()) for name in ("x", "y")]
    assert list(compare._sizes(ports, runtime)) == [[[size, 3], [size, 3]] for size in (4, 5, 9)]
    verdict = compare.compare(source, convert(source), runtime, lambda stage: None)
    assert verdict.verdict == "agrees"


def test_known_causes_may_need_two_facts() -> None:
    known = Known("", "differs", "^ADD ", also="^LOG ")
    assert known.explains("differs", "max inf", ["ADD int8", "LOG int8"])
    assert not known.explains("differs", "max inf", ["ADD int8"])
    assert not known.explains("differs", "max inf; ONNX Runtime's optimiser ...", ["ADD int8", "LOG int8"])
    assert Known("", "differs", "^ADD ", optimised=True).explains("differs", "the optimiser", ["ADD int8"])


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.cause[:30])
def test_known_causes_explain_only_what_they_name(known: Known) -> None:
    """None holds for every failure of its verdict."""
    assert known.fact
    assert not known.explains(known.verdict, "", [])
    assert not known.explains(known.verdict, "out: float: max 1", ["ADD float32 float32 -> float32 () "])
    assert not known.explains("traceback", known.detail, [known.fact])


def test_mutants_are_the_same_again_and_of_all_kinds() -> None:
    source = chain()
    made = [mutant(source, seed) for seed in range(400)]
    assert [mutant(source, seed) for seed in range(40)] == made[:40]
    assert len({each.source for each in made}) > 300
    counts = Counter(name for each in made for name in each.mutations)
    absent = {"change_custom_options", "change_custom_setting", "change_quantized_axis", "change_sparsity"}
    assert set(counts) >= set(MUTATIONS) - absent - {"rearrange_constant"}  # it has nothing that these change
