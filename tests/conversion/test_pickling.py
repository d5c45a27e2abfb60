"""What goes from one process to another: it is there what it was here."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import TypeVar

import pytest

import layoutsolve
from layoutsolve import Gap
from layoutsolve.inspection.printing import STAGES
from tests.golden.models import MODELS
from tests.planning.test_choice import THREE
from tests.random_models import network
from tests.random_onnx import Writer

T = TypeVar("T")


def sent(value: T) -> T:
    found: T = pickle.loads(pickle.dumps(value))
    return found


def check(source: bytes, conversion: layoutsolve.Conversion, other: layoutsolve.Conversion, tmp_path: Path) -> None:
    """Two conversions are the same in all that can be asked of them."""
    assert (other.report, other.provenance, other.tiers) == (conversion.report, conversion.provenance, conversion.tiers)
    assert (other.permutations(True), other.crossings) == (conversion.permutations(True), conversion.crossings)
    assert [other.text(stage) for stage in STAGES] == [conversion.text(stage) for stage in STAGES]
    for each, name in ((conversion, "a"), (other, "b")):
        (tmp_path / name).mkdir()
        each.save(tmp_path / name / "model.onnx")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert str(other.explain()) == str(conversion.explain())
    if not conversion.kept:
        assert layoutsolve.plan(source, other) == layoutsolve.plan(source, conversion)
    assert layoutsolve.verify(source, other).passed
    assert set(other.session().outputs) == set(conversion.session().outputs)


@pytest.mark.members(3)
@pytest.mark.parametrize("name", MODELS)
def test_conversions(name: str, tmp_path: Path) -> None:
    source = MODELS[name]()
    conversion = layoutsolve.convert(source, external_data=True)
    check(source, conversion, sent(conversion), tmp_path)


@pytest.mark.parametrize("strategy", ["mincut", "push", "propagate", "transpose"])
def test_strategies(strategy: str, tmp_path: Path) -> None:
    source = MODELS["classifier"]()
    conversion = layoutsolve.convert(source, strategy=strategy)
    check(source, conversion, copy.deepcopy(conversion), tmp_path)


@pytest.mark.members(1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("boarded", [False, True])
def test_targets(boarded: bool, seed: int, tmp_path: Path) -> None:
    """Rules that were chosen with backends are found again as well, as are those of forms in blocks."""
    path = tmp_path / "board.toml"
    path.write_text(THREE, encoding="utf-8")
    source = network(seed).source
    conversion = layoutsolve.convert(source, target=path if boarded else "nchw16c")
    check(source, conversion, sent(sent(conversion)), tmp_path)


def test_sources_in_onnx(tmp_path: Path) -> None:
    writer = Writer(0)
    x = writer.transpose(writer.transpose(writer.input(1, 4, 5, 6), (0, 2, 3, 1)), (0, 3, 1, 2))
    source = writer.model(writer.op("Conv", x, writer.weights(8, 4, 3, 3), shape=[1, 8, 3, 4])).SerializeToString()
    conversion = layoutsolve.convert(source)
    check(source, conversion, sent(conversion), tmp_path)


def test_what_is_told_of_conversions() -> None:
    source = MODELS["classifier"]()
    conversion = layoutsolve.convert(source)
    for told in (
        conversion.price,
        conversion.tiers,
        conversion.assignment,
        conversion.provenance,
        layoutsolve.certify(source, conversion),
        layoutsolve.plan(source, conversion),
        layoutsolve.verify(source, conversion, tensors=True),
        layoutsolve.compare(source),
        conversion.explain(),
        conversion.profile(),
    ):
        assert sent(told) == told and str(sent(told)) == str(told)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes(method: str, tmp_path: Path) -> None:
    paths = []
    for name in ("classifier", "branches"):
        paths.append(tmp_path / f"{name}.tflite")
        paths[-1].write_bytes(MODELS[name]())
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(layoutsolve.convert, paths)
    assert [each.content("") for each in found] == [layoutsolve.convert(each).content("") for each in paths]


GAPS = [Gap(0, 3, "SKIP_GRAM", "words", "it splits", "split"), Gap(1, 4, "CUSTOM", "x", "unknown", "register it")]
SPECIAL = [
    layoutsolve.BudgetError("too much", "raise it"),
    layoutsolve.GapError("it is unknown", "leave it out"),
    layoutsolve.InternalError("fault", stage="read", origin="CONV_2D#3"),
    layoutsolve.UnsupportedError(GAPS),
]
ERRORS = [
    kind
    for kind in (getattr(layoutsolve, name) for name in layoutsolve.__all__)
    if isinstance(kind, type) and issubclass(kind, Exception)
]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind: type[Exception]) -> None:
    """Each says the same, and has the same attributes."""
    error = next((each for each in SPECIAL if type(each) is kind), None) or kind("what is wrong")
    other = sent(error)
    assert type(other) is kind and str(other) == str(error) and vars(other) == vars(error)
