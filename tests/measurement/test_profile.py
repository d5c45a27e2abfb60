"""Where the time of a model goes: what is made of a profiler's events, and small models from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layoutsolve.cli import command_line
from layoutsolve.errors import FAILED
from layoutsolve.measurement.executed_operators import Executed
from layoutsolve.measurement.profile import ADDED, INSERTED, made, place_of
from tests.networks import Network

NOTHING = Executed(0, 0, 0, 0, {})
PLACES = {"Conv:a": "CONV_2D#0", "Conv:a/b": "CONV_2D#1", "Transpose:x": ADDED}


def event(name: str, kind: str, start: int, microseconds: int) -> dict[str, Any]:
    facts = {"op_name": kind}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": microseconds, "args": facts}


def run(start: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": start, "dur": 90}


def test_times_are_those_of_a_run_but_the_first() -> None:
    events = [run(0), event("Conv:a", "Conv", 10, 5000)]
    for start in (100, 200):
        events += [
            run(start),
            event("Conv:a", "Conv", start + 1, 30),
            event("Conv:a/b_nchwc", "Conv", start + 2, 10),
            event("Transpose:x", "Transpose", start + 3, 20),
            event("ReorderOutput", "ReorderOutput", start + 4, 20),
            event("If:c", "If", start + 5, 70),
            {"cat": "Node", "name": "Conv:a_fence_before", "ts": start + 6, "dur": 8, "args": {"op_name": "Conv"}},
        ]
    found = made(events, 2, PLACES, NOTHING)
    assert found.milliseconds == 0.08
    assert [(each.what, each.milliseconds, each.nodes) for each in found.operators] == [
        ("CONV_2D#0 (Conv)", 0.03, 1),
        (f"{ADDED} (Transpose)", 0.02, 1),
        (f"{INSERTED} (ReorderOutput)", 0.02, 1),
        ("CONV_2D#1 (Conv)", 0.01, 1),
    ]
    assert [(each.what, each.share) for each in found.kinds] == [
        ("Conv", 0.5),
        ("ReorderOutput", 0.25),
        ("Transpose", 0.25),
    ]
    assert found.moving == 0.5
    assert str(found).splitlines()[0] == "0.080 ms a run on one thread, 50.0% for Transposes and reorders"


def test_nothing_takes_no_time() -> None:
    found = made([run(0)], 3, PLACES, NOTHING)
    assert (found.milliseconds, found.operators, found.moving) == (0, (), 0.0)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Conv:a", "CONV_2D#0"), ("Conv:a_nchwc", "CONV_2D#0"), ("Conv:a/b_nchwc", "CONV_2D#1"),
        ("fused Conv:a", "CONV_2D#0"), ("Transpose_token_4", INSERTED),
    ],
)  # fmt: skip
def test_fused_nodes_are_those_of_their_parts(name: str, place: str) -> None:
    assert place_of(name, PLACES) == place


def source(path: Path) -> str:
    made = Network()
    x = made.input(1, 8, 8, 4)
    y = made.dense(made.pool(made.conv(x, 8)), 3)
    path.write_bytes(made.builder.finish(y))
    return str(path)


def test_a_model_is_profiled_and_written_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = source(tmp_path / "m.tflite")
    assert command_line.main([given, "-o", str(tmp_path / "plain.onnx")]) == 0
    capsys.readouterr()
    assert command_line.main([given, "-o", str(tmp_path / "m.onnx"), "--profile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", "m.tflite", "plain.onnx"]
    named = " ".join(each["what"] for each in found["operators"])
    assert "CONV_2D#0" in named and "FULLY_CONNECTED#2" in named
    assert sum(each["share"] for each in found["operators"]) == pytest.approx(1, abs=1e-3)
    assert sum(each["milliseconds"] for each in found["kinds"]) == pytest.approx(found["milliseconds"], rel=1e-3)
    assert command_line.main([given, "-o", str(tmp_path / "m.onnx"), "--profile"]) == 0
    assert "ms a run on one thread" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--print", "graph"], ["--check", "c.json"]])
def test_what_writes_no_model_has_no_profile(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main([source(tmp_path / "m.tflite"), *options, "--profile"]) == FAILED
    assert "profile" in capsys.readouterr().err
