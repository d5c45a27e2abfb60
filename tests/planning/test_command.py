"""Plans and targets on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve.cli.command_line import main
from layoutsolve.solver.targets.target_file import KNOWN, shipped


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.tflite"
    path.write_bytes(mobilenet())
    return path


def test_a_plan_is_written_and_followed(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, plan, again = (str(tmp_path / name) for name in ("a.onnx", "a.json", "b.onnx"))
    assert main([str(demo), "-o", model, "--target", "acl", "--plan", plan, "--verify", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"] == plan and told["verified"]["passed"]
    found = layoutsolve.Plan.load(plan)
    assert told["crossings"] == len(found.facts["crossings"]) > 0
    assert main([str(demo), "-o", again, "--from-plan", plan, "--verify", "-q"]) == 0
    assert Path(again).read_bytes() == Path(model).read_bytes()
    assert main([str(demo), "-o", again, "--from-plan", plan]) == 0
    told_again = capsys.readouterr().out
    assert "crossings between backends" in told_again and "proven minimal" not in told_again
    assert "the plan states transposes + layout penalty" in told_again and "not proven again" in told_again
    assert main([str(demo), "-o", again, "--from-plan", plan, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["bound"]) == ("planned", 0)
    assert report["planned"] == found.facts["tiers"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plan", "-"], "a plan is written to a file"),
        (["--plan", "a.json", "--dry-run"], "it writes no plan"),
        (["--plan", "demo.tflite"], "is a file that is read"),
        (["--plan", "out.onnx"], "is where the model goes"),
        (["--from-plan", "none.json"], "No such file"),
        (["--from-plan", "demo.tflite"], "cannot read 'demo.tflite'"),
        (["--from-plan", "a.json", "--objective", "min-bytes"], "leave --objective out"),
        (["--from-plan", "a.json", "--print", "graph"], "leave --print out"),
        (["--from-plan", "a.json", "--to", "x", "--opset", "13"], "leave --opset out"),
        (["--check", "a.json", "--plan", "b.json"], "a certificate is no plan"),
        (["--plan", "a.json", "--jobs", "2"], "it is about a single model"),
        (["--target", "acl", "--objective", "min-latency"], "has no times of Transposes"),
    ],
)
def test_what_is_refused(
    options: list[str],
    message: str,
    demo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo.tflite").write_bytes(demo.read_bytes())
    file = [] if "--jobs" in options or "--print" in options else ["-o", "out.onnx"]
    assert main(["demo.tflite", *file, *options]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["demo.tflite"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_target_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{name}: ") and all(line.startswith("  ") for line in lines[1:])
    assert any("min-latency is refused" in line for line in lines) == (not shipped(name).timed)
    assert main(["target", name, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["name"] == name and len(facts["sha256"]) == 64
    for line in facts["forms"]:
        texts = line.get("ports", {}).values()
        assert any(all(text in told for text in texts) for told in lines)


def test_a_file_and_what_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nextends = "acl"\n\n[backends.acl]\ncrossing = 7\n')
    assert main(["target", str(path)]) == 0
    told = capsys.readouterr().out
    assert "mine: extends acl, onnx" in told and "costs 7 Transposes" in told
    assert main(["target", "nhwc"]) == 2
    assert "or 'tvm-nhwc'?" in capsys.readouterr().err
