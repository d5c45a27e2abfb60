"""A target that is measured: what is made of measurements, and one small measurement from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

from layoutsolve.cli import command_line
from layoutsolve.errors import FAILED, MeasureError
from layoutsolve.measurement import calibrate, channels_last_convolutions, forms
from layoutsolve.measurement.alternatives import Result, Verdict, groups, sections, steady, verdicts
from layoutsolve.measurement.channels_last_convolutions import NUMBERS, READING
from layoutsolve.measurement.kernels import results
from layoutsolve.measurement.transpose_cost import Move
from layoutsolve.solver.targets.target import Cost
from layoutsolve.solver.targets.target_file import default_target, parsed

FEW = """
import sys
from layoutsolve.cli.command_line import main
from layoutsolve.measurement import alternatives, calibrate, forms, kernels
groups = alternatives.groups
alternatives.groups = lambda: (group for group in groups() if group.operator == "LogSoftmax")
calibrate.MOST_SPREAD = {most}
forms.choices = forms.choices if {most} else dict
sys.exit(main(["calibrate", "-o", {path!r}, *{more!r}]) or 9 * (not kernels._shared))
"""
"""A calibration that takes seconds, since it measures one operator's ways, with threads that models share."""


def test_alternatives_of_an_operator_are_models_that_compute_as_much() -> None:
    """All that is measured, by the types and shapes that ONNX infers."""
    for group in groups():
        sizes = set()
        for variant in group.variants:
            inferred = onnx.shape_inference.infer_shapes(variant.made, strict_mode=True, data_prop=True)
            sizes.add(prod(dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim))
            for node in variant.moved.graph.node:
                perm = list(node.attribute[0].ints)
                assert node.op_type == "Transpose" and perm != sorted(perm), "what it is compared with moves data"
        assert len(sizes) == 1 and min(sizes) > 0, group


def test_convolutions_keep_the_size_of_images() -> None:
    """But for their stride: they are padded on both sides alike."""
    found = [group for group in channels_last_convolutions.windows() if group.operator == "Conv"]
    for (side, _, channels, _, stride), group in zip(READING, found[:: len(NUMBERS)], strict=False):
        for variant in group.variants:
            inferred = onnx.shape_inference.infer_shapes(variant.made, strict_mode=True, data_prop=True)
            sizes = [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim]
            assert prod(sizes) == channels * (-(-side // stride)) ** 2


def result(operator: str, kind: str, ratio: float, loss: float, **facts: object) -> Result:
    base = Result(operator, kind, "8x8", True, 1, 256, 1e-5 * ratio, 1e-5, 2e-6, ratio, loss, 0.01)
    return replace(base, **facts)  # type: ignore[arg-type]


def test_verdicts_are_medians_over_shapes() -> None:
    """Of each operator and kind, of what was run with so many threads."""
    shapes = [
        result("Softmax", "middle", ratio, loss, seconds=1e-5 + extra * size, bytes=size, threads=2)
        for ratio, loss, extra, size in ((1.0, 0.5, 3e-9, 64), (2.0, 0.1, 1e-9, 512), (9.0, 0.9, 2e-9, 4096))
    ]
    other = [result("Softmax", "middle", 5.0, 5.0), result("Softmax", "last", 5.0, 5.0, threads=2, refused="why")]
    found = verdicts([*shapes, *other], 2)
    middle = found["Softmax", "middle"]
    assert (middle.ratio, middle.loss, middle.refused) == (2.0, 0.5, False)
    assert middle.extra == pytest.approx(2e-9)
    assert found["Softmax", "last"].refused and found.keys() == {("Softmax", "middle"), ("Softmax", "last")}


def move(motion: str, itemsize: int, size: int) -> Move:
    return Move((size, 8), (1, 0), itemsize, motion, 8, 1e-6 + 1e-9 * size * itemsize)


def made(ways: Sequence[Result] = (), found: Sequence[forms.Found] = ()) -> calibrate.Calibration:
    """A calibration whose Transposes cost a microsecond, and a nanosecond more for each number."""
    moves = [
        move(motion, itemsize, size)
        for motion in ("rows", "swap", "general")
        for itemsize in (1, 4)
        for size in (64, 4096, 65536)
    ]
    return calibrate.Calibration("ONNX Runtime", ways, moves, Cost(1e-6, 0.0), found)


def candidate(title: str, **storage: object) -> forms.Candidate:
    return forms.Candidate(title, storage, {}, ())


def test_what_is_written_is_a_target() -> None:
    found = [
        forms.Found("int8", candidate("first", unsigned=True), 1.0, False, 0.0, False),
        forms.Found("int8", candidate("second", unsigned=False, weights="signed"), 1.2, True, 0.01, True),
        forms.Found("PRelu", replace(candidate("limits"), idioms={"PRelu": ["limits"]}), 1.0, True, 0.0, True),
    ]
    ways = [result("LogSoftmax", "middle", 1.0, 0.0), result("CumSum", "outermost", 3.0, 2.5)]
    lines = list(calibrate.table(made(ways, found)))
    titles = [line[4:20].strip() if line.startswith(" ") else line for line in lines[:5]]
    assert titles == ["int8:", "first", "second", "PRelu:", "limits"]
    target = parsed(json.dumps(made(ways, found).facts("mine")).encode(), "mine.json")
    assert (target.name, target.storage.unsigned, target.storage.weights) == ("mine", False, "signed")
    assert target.idioms["PRelu"] == ("limits",)
    assert target.storage.block == default_target().storage.block
    assert target.hidden["LogSoftmax", "middle"] == 0
    assert target.hidden["CumSum", "outermost"] == 2
    assert target.hidden["Softmax", "middle"] == default_target().hidden["Softmax", "middle"]
    assert all(cost.fixed > 0 for cost in target.latency.transpose.values())


@pytest.mark.parametrize(
    ("ratio", "loss", "before", "after"),
    [
        (1.0, 0.0, 2, 0), (1.05, 3.0, 1, 0), (1.2, 3.0, 0, 0), (1.2, 3.0, 2, 2), (1.4, 0.7, 0, 0), (1.4, 1.2, 0, 1),
        (1.4, 1.6, 0, 2), (1.4, 1.6, None, 2), (1.2, 0.7, None, 1), (1.05, 0.7, None, 0), (1.4, 9.0, 2, 2),
        (1.6, 7.0, 2, 2), (1.6, 9.0, 2, 3),
    ],
)  # fmt: skip
def test_a_price_changes_where_that_is_clear(ratio: float, loss: float, before: int | None, after: int) -> None:
    assert steady(Verdict("Softmax", ratio, loss, 0.0, False), before) == after
    assert steady(Verdict("Transpose", ratio, loss, 0.0, False), before) == min(2, after)


def test_what_is_refused_is_unsupported() -> None:
    said = sections([result("Resize", "linear RKRK, float32", 0.0, 0.0, refused="no")])
    assert said["unsupported"] == {"Resize": ["linear RKRK, float32"]}
    assert said["hidden"] == {}


def chosen(
    monkeypatch: pytest.MonkeyPatch, seconds: Sequence[float], right: Sequence[bool]
) -> tuple[str, Sequence[forms.Found]]:
    """Which of the candidates 0, 1, 2 ... is chosen that take so long and are right or not."""
    network = onnx.ModelProto()
    candidates = [forms.Candidate(str(index), {}, {}, (network,)) for index in range(len(seconds))]
    verdicts = iter(right)
    monkeypatch.setattr(forms, "_is_right", lambda network, apart: next(verdicts))
    monkeypatch.setattr(forms, "Timed", lambda network: network)
    monkeypatch.setattr(forms, "paired", lambda models: np.tile(seconds, (3, 1)))
    found = forms.decided("choice", candidates)
    (title,) = [each.candidate.title for each in found if each.chosen]
    return title, found


@pytest.mark.parametrize(
    ("seconds", "right", "expected"),
    [
        ((1.0, 0.5, 0.7), (True, True, True), "1"),
        ((1.0, 0.5, 0.7), (True, False, True), "2"),
        ((1.0, 0.97, 1.2), (True, True, True), "0"),
        ((1.0, 3.0, 2.0), (False, True, True), "2"),
        ((1.0, 0.97, 1.2), (False, True, True), "1"),
    ],
)
def test_the_fastest_that_is_right_is_chosen(
    monkeypatch: pytest.MonkeyPatch, seconds: Sequence[float], right: Sequence[bool], expected: str
) -> None:
    assert chosen(monkeypatch, seconds, right)[0] == expected


def test_candidates_compute_the_same() -> None:
    """Without optimisation: bytes in whatever storage, and PRelu in whatever idiom."""
    for candidates in (forms.choices()["int8"](), forms.choices()["PRelu"]()):
        for networks in zip(*(each.networks for each in candidates), strict=True):
            first, *others = (results(network, optimise=False)[0] for network in networks)
            (port,) = networks[0].graph.input
            assert first.shape[2:] == tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim)[2:]
            for other in others:
                lower = np.subtract(first, 128.0) if first.dtype == np.uint8 else first
                lowered = np.subtract(other, 128.0) if other.dtype == np.uint8 else other
                np.testing.assert_allclose(lowered, lower, atol=1e-4)
            assert np.ptp(first.astype(float)) > (50 if first.dtype == np.uint8 else 1)


def test_bytes_without_a_sign_are_right_here() -> None:
    first = forms.choices()["int8"]()[0]
    assert first.storage == {"unsigned": True, "weights": "unsigned"}
    for network in first.networks:
        plain, optimised = (results(network, optimise=each)[0].astype(int) for each in (False, True))
        assert np.abs(plain - optimised).max() <= forms.STEPS


def test_rounds_that_differ_are_the_spread() -> None:
    ways = [result("CumSum", "outermost", 3.0, 2.5, spread=spread) for spread in (0.01, 0.02, 0.4)]
    assert made(ways).spread == 0.02
    assert made().spread == 0.0


def run(path: Path, most: float = 1e9, more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    code = FEW.format(most=most, path=str(path), more=list(more))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_measurement(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "int8:"
    assert done.stdout.splitlines()[-1] == f"wrote {path}"
    target = parsed(path.read_bytes(), str(path))
    assert target.name == "mine"
    assert ("LogSoftmax", "middle") in target.hidden
    assert [each.name for each in tmp_path.iterdir()] == ["mine.json"]


def test_a_busy_machine_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path / "mine.json", most=0.0)
    assert done.returncode == FAILED
    assert done.stderr.startswith("layoutsolve: the machine is too busy: half of the rounds differ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o"),
        (["-o", "mine.toml"], "argument -o: a target's name ends in .json: 'mine.toml' does not"),
        (["-o", "mine.json", "--quick"], "unrecognised argument '--quick'"),
        (["-o", "/nowhere/mine.json"], "cannot write '/nowhere/mine.json'"),
    ],
)
def test_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["calibrate", *arguments]) == FAILED
    assert message in capsys.readouterr().err


def test_too_much_spread_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate.alternatives, "groups", list)
    monkeypatch.setattr(calibrate, "share_threads", lambda count: None)
    monkeypatch.setattr(calibrate.transpose_cost, "moves", list)
    monkeypatch.setattr(calibrate.transpose_cost, "reshape", lambda: Cost(1e-6, 0.0))
    found = forms.Found("int8", candidate("first"), 1.5, True, 0.5, True)
    monkeypatch.setattr(calibrate.forms, "choices", lambda: {"int8": list})
    monkeypatch.setattr(calibrate.forms, "decided", lambda title, candidates: [found])
    with pytest.raises(MeasureError, match="more than 50%"):
        calibrate.calibrate()
