"""A session takes and gives what the source does, by its names and in its order of dimensions, and remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from experiments.measure.streaming import CHUNK, HALF, RATE, WORDS, spotter, told, word
from layoutsolve.errors import SessionError
from layoutsolve.verification.metrics import distance
from tests.builder import Builder
from tests.conformance.cases import Case
from tests.conformance.test_states import CASES
from tests.random_models import network
from tests.truth import litert


@pytest.mark.members(10)
@pytest.mark.parametrize("ends", ["keep", "nchw", "free"])
@pytest.mark.parametrize("seed", range(5))
def test_ends_are_those_of_the_source(seed: int, ends: str, tmp_path: Path) -> None:
    """However inputs and outputs are stored, and wherever the model comes from."""
    made = network(seed)
    conversion = layoutsolve.convert(made.source, inputs=ends, outputs=ends, external_data=seed == 0)
    given = made.feeds(1)
    truth = litert().run(made.source, given)
    conversion.save(tmp_path / "model.onnx")
    for session in (conversion.session(threads=1), layoutsolve.Session(tmp_path / "model.onnx", threads=1)):
        found = session.run(dict(zip(session.inputs, given, strict=True)))
        assert tuple(found) == session.outputs and not session.states
        for port, name, expected in zip(truth.outputs, session.outputs, truth.results, strict=True):
            assert distance(port, [(expected, found[name])]).relative <= 0.1


@pytest.mark.parametrize("case", [case for case in CASES if "float32" in case.name], ids=lambda case: case.name)
def test_states(case: Case) -> None:
    model = case.make()
    session = layoutsolve.convert(model.source).session(threads=1)
    given = dict(zip(session.inputs, model.inputs, strict=True))
    truth = litert().steps(model.source, [model.inputs] * 3)
    for turn in range(2):
        session.reset()
        kept = []
        for run in truth:
            found = list(session.run(given).values())
            kept.append(session.states)
            assert distance(run.outputs[0], [(run.results[0], found[0])]).relative < 1e-3, turn
    session.reset(kept[1])
    np.testing.assert_array_equal(next(iter(session.run(given).values())), found[0])


WRONG: dict[str, tuple[Callable[[layoutsolve.Session], object], str]] = {
    "unknown": (
        lambda session: session.run({"audi": np.zeros((1, CHUNK))}),
        r"no input is called 'audi'.*mean 'audio'",
    ),
    "missing": (lambda session: session.run({}), "no input is given for 'audio'"),
    "shape": (
        lambda session: session.run({"audio": np.zeros(CHUNK)}),
        r"the shape \[320\], where the model has \[1, 320\]",
    ),
    "type": (
        lambda session: session.run({"audio": np.zeros((1, CHUNK), complex)}),
        "given complex128, where .* float32",
    ),
    "state": (lambda session: session.reset({"memory": np.zeros(1)}), "no state is called 'memory'.*'memory/state'"),
    "no model": (lambda session: layoutsolve.Session(b"nothing"), "ONNX Runtime refuses the model"),
    "no file": (lambda session: layoutsolve.Session("nothing.onnx"), "ONNX Runtime refuses the model"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit(name: str) -> None:
    call, message = WRONG[name]
    session = layoutsolve.convert(spotter()).session()
    with pytest.raises(SessionError, match=message):
        call(session)


def test_streaming() -> None:
    """Words are heard as they end, whatever was said before, and LiteRT hears the same."""
    random = np.random.default_rng(1)
    conversion = layoutsolve.convert(spotter())
    assert layoutsolve.verify(spotter(), conversion, tensors=True, steps=6).passed
    session = conversion.session(threads=1)
    said = [WORDS[number] for number in random.integers(0, 3, 12)]
    spoken = [each for name in said for each in (name, WORDS[0])]
    heard = list(told(session, np.concatenate([word(name, random) for name in spoken])))
    ends = [(2 * place + 1) * 2 * HALF * CHUNK / RATE for place, name in enumerate(said) if name != WORDS[0]]
    assert [name for _, name in heard] == [name for name in said if name != WORDS[0]]
    assert all(end - 0.15 < seconds <= end + 0.02 for (seconds, _), end in zip(heard, ends, strict=True))
    half = word("rising", random).reshape(2, -1)
    session.reset()
    assert not list(told(session, half[1])), "the first half is forgotten, or never was"


def accumulator(initial: float | None) -> bytes:
    """A sum over all runs of [1, 2, 3, 4], from the start that is given, or none."""
    build = Builder()
    x, before, after = (
        build.input("x", (1, 2, 3, 4)),
        build.tensor("before", (1, 2, 3, 4)),
        build.tensor("sum", (1, 2, 3, 4)),
    )
    handle = build.tensor("handle", (), "resource")
    build.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "total"})
    if initial is not None:
        build.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
        part = build.part()
        there = part.tensor("handle", (), "resource")
        part.operator("VAR_HANDLE", [], [there], {"container": "", "shared_name": "total"})
        part.operator(
            "ASSIGN_VARIABLE", [there, part.constant("value", np.full((1, 2, 3, 4), initial, np.float32))], [], {}
        )
        part.outputs()
    build.operator("READ_VARIABLE", [handle], [before], {})
    build.operator("ADD", [before, x], [after], {})
    build.operator("ASSIGN_VARIABLE", [handle, after], [], {})
    return build.finish(after)


@pytest.mark.parametrize("ends", ["keep", "nchw"])
def test_variables(ends: str) -> None:
    """They begin as the source says; where it does not, it is for the user to say."""
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    known = layoutsolve.convert(accumulator(2.0), inputs=ends, outputs=ends)
    assert layoutsolve.verify(accumulator(2.0), known, tensors=True, steps=4).passed
    session = known.session()
    for turn in range(3):
        np.testing.assert_array_equal(session.run({"x": x})["sum"], 2 + (turn + 1) * x)
    session = layoutsolve.convert(accumulator(None), inputs=ends, outputs=ends).session()
    with pytest.raises(SessionError, match=r"no state is given for 'total'; .* give it to reset\(\)"):
        session.run({"x": x})
    session.reset({"total": -x})
    for turn in range(3):
        np.testing.assert_array_equal(session.run({"x": x})["sum"], turn * x)
    np.testing.assert_array_equal(session.states["total"], 2 * x)


@pytest.mark.parametrize("numbers", ["0 3 1", "a b c d", "9 9 9 9", "0 1 1 2", "-1 0 1 2", ""])
@pytest.mark.parametrize("end", ["image", "result"])
def test_damaged_metadata(numbers: str, end: str) -> None:
    build = Builder()
    x, y = build.input("image", (1, 2, 3, 4)), build.tensor("result", (1, 2, 3, 4))
    build.operator("ABS", [x], [y])
    model = layoutsolve.convert(build.finish(y), inputs="nchw", outputs="nchw").model
    (prop,) = [each for each in model.metadata_props if each.key == f"layoutsolve.layout.{end}"]
    prop.value = numbers
    with pytest.raises(SessionError, match=f"no valid permutation of the dimensions of '{end}'"):
        layoutsolve.Session(model.SerializeToString())
