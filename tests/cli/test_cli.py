"""The command line and the Python interface, from the outside."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import layoutsolve.api
import layoutsolve.io.source
from experiments.make.demo import mobilenet
from layoutsolve.base.wording import penalty, penalty_cell
from layoutsolve.cli import console
from layoutsolve.cli.command_line import main
from layoutsolve.cli.summary import Done, as_text
from layoutsolve.inspection.printing import STAGES
from layoutsolve.proto.weight_selection import running, selects
from tests.builder import Builder
from tests.networks import PLANES, Network, Quantized


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.tflite"
    path.write_bytes(mobilenet())
    return path


def small_model(operator: str = "ABS") -> bytes:
    """One float operator over an image."""
    build = Builder()
    x = build.input("image", (1, 4, 5, 3))
    y = build.tensor("result", (1, 4, 5, 3))
    build.operator(operator, [x], [y])
    return build.finish(y)


def refused(arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one error, nothing on standard output, nothing written."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("layoutsolve: ")
    assert message in captured.err
    assert not list(folder.glob("**/*.onnx"))


def test_convert_and_verify(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.onnx"
    assert main([str(demo), "-o", str(output), "--json", "--verify"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert captured.err == ""
    assert report["status"] == "optimal"
    assert report["transposes"] == report["bound"] == 0
    assert report["tiers"][0] == {"names": ["transposes", "hidden"], "value": 0, "bound": 0, "status": "optimal"}
    assert report["verified"]["passed"]
    assert set(report["seconds"]) == {"read", "solve", "emit", "total"}
    operators = [node.op_type for node in running(onnx.load(output).graph)]
    assert operators.count("Transpose") == report["transposes"]
    assert operators.count("Reshape") == report["reshapes"]
    assert len(operators) == report["operators"]


def test_a_very_short_time_limit(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is right however little time there is."""
    output = tmp_path / "out.onnx"
    assert main([str(demo), "-o", str(output), "--time-limit", "0.01", "--json", "--verify"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verified"]["passed"]
    assert report["bound"] <= report["transposes"] + report["hidden_transposes"]
    assert report["status"] == "optimal" or report["ended"] == "seconds"
    onnx.checker.check_model(onnx.load(output), full_check=True)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_printed_and_nothing_written(
    stage: str, demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "demo.tflite"
    source.write_bytes(demo.read_bytes())
    assert main([str(source), "--print", stage]) == 0
    assert capsys.readouterr().out == layoutsolve.convert(source).text(stage) + "\n"
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--print", "layouts"], "unknown stage 'layouts': use one of graph, problem, assignment, applied"),
        (["--print", "graph", "--verify"], "it prints one stage and writes no model: leave --verify out"),
        (["--print", "graph", "-o", "out.onnx"], "leave -o out"),
    ],
)
def test_a_stage_that_cannot_be_printed(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.tflite").write_bytes(small_model())
    refused([str(tmp_path / "model.tflite"), *options], message, tmp_path, capsys)


def test_names_break_no_line_of_a_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder()
    name = "\x1b[31mred\nstatus: optimal"
    y = builder.tensor("y", (2, 3))
    builder.operator("ABS", [builder.input(name, (2, 3))], [y], {})
    (tmp_path / "odd.tflite").write_bytes(builder.finish(y))
    for stage in STAGES:
        assert main([str(tmp_path / "odd.tflite"), "--print", stage]) == 0
        assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


def test_default_output_and_summary(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(demo)]) == 0
    summary = capsys.readouterr().out
    assert "Transposes 54 -> 0 (proven minimal), Reshapes 0 -> 2, " in summary
    assert "  input image: int8[1,128,128,3]\n  output scores: int8[1,100]\n" in summary
    assert "  transposes + layout penalty 0 (optimal), transposes 0 (optimal), bytes" in summary
    model = onnx.load(demo.with_suffix(".onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [item.name for item in (*model.graph.input, *model.graph.output)] == ["image", "scores"]


@pytest.mark.parametrize("ends", ["nchw", "nhwc", "keep", "free"])
@pytest.mark.parametrize(
    ("ending", "shape", "doubted"),
    [
        (".tflite", (1, 3, 8, 8), True),
        (".tflite", (1, 1, 9, 9), True),
        (".tflite", (1, 8, 8, 3), False),
        (".tflite", (1, 3, 8, 3), False),
        (".onnx", (1, 8, 8, 3), True),
        (".onnx", (1, 3, 8, 8), False),
    ],
)
def test_images_that_may_be_in_the_other_order(
    ending: str, shape: tuple[int, ...], doubted: bool, ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyTorch's in TensorFlow Lite and tf2onnx's in ONNX may be: it is said where a choice depends on it, with the
    option that states the order, which gives what was meant.
    """
    builder = Builder()
    y = builder.tensor("y", shape)
    builder.operator("ABS", [builder.input("x", shape)], [y], {})
    path = tmp_path / "net.tflite"
    path.write_bytes(builder.finish(y))
    if ending == ".onnx":
        path = tmp_path / "net.onnx"
        layoutsolve.convert(tmp_path / "net.tflite").save(path)
    assert main([str(path), "--inputs", ends, "--dry-run"]) == 0
    told = capsys.readouterr().out
    remedy = re.search(r"'x' \[[\d,]+\] is taken for (?:NCHW|NHWC): (--input) (\S+)", told)
    assert (remedy is not None) == (doubted and ends in ("nchw", "nhwc"))
    if remedy is not None:
        assert main([str(path), *remedy.groups(), "--dry-run"]) == 0
        first = shape if ending == ".tflite" else (shape[0], shape[3], *shape[1:3])
        wanted = first if ends == "nchw" else (first[0], *first[2:], first[1])
        assert f"input x: float32[{','.join(map(str, wanted))}]" in capsys.readouterr().out


def test_convert_is_no_file(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The word that other tools begin with means the same: it is not one more model, of a batch that overwrites."""
    shown = []
    for word in ([], ["convert"]):
        assert main([*word, str(demo), "--dry-run"]) == 0
        shown.append(capsys.readouterr().out.splitlines()[1:])
    assert shown[0] == shown[1] and len(shown[0]) > 4


def test_the_summary_tells_what_is_proven_of_each_tier(demo: Path) -> None:
    conversion = layoutsolve.convert(demo, target=PLANES)
    open_ended = replace(conversion.assignment, bounds=(1, 0), ended="work")
    lines = as_text(
        Done("a.onnx", replace(conversion, assignment=open_ended), None, None, None, None, 0.5)
    ).splitlines()
    assert lines[1].startswith("  Transposes 54 -> 1, Reshapes 0 -> 1, ") and lines[1].endswith(", 49152 bytes moved")
    assert lines[2:3] == [
        "  transposes + layout penalty 1 (optimal), transposes 1 (feasible), bytes 49152 (feasible), "
        "reshapes 1 (feasible), copies 0 (feasible); the search ended by its limit on work",
    ]


@pytest.mark.parametrize(
    ("hidden", "told", "cell"),
    [(0, "", "0"), (2, " and a layout penalty of 2", "2"), (-4, ", 4 of which take no time", "4 free")],
)
def test_what_is_said_of_penalties(hidden: int, told: str, cell: str) -> None:
    assert penalty(hidden) == told and penalty_cell(hidden) == cell


def test_the_summary_tells_of_weights_that_are_selected() -> None:
    """Only where products are of bytes, and for the target that is right on every processor."""
    told = {}
    large = Quantized()
    large.largest = 128
    for net in (Network(), Quantized(), large):
        model = net.model(net.conv(net.input(1, 8, 8, 4), 8, 3)).source
        for target in ("ort-cpu", "portable"):
            conversion = layoutsolve.convert(model, target=target)
            told[net, target] = as_text(Done("a.onnx", conversion, None, None, None, None, 0.5))
    line = "  1 int8 layer would saturate on x86 without VNNI: ONNX Runtime selects uint8 weights there on loading"
    assert {key for key, text in told.items() if line in text.splitlines()} == {(large, "ort-cpu")}


def test_quant_patterns(demo: Path) -> None:
    """At most one QuantizeLinear and one DequantizeLinear per stored tensor."""
    conversion = layoutsolve.convert(demo)
    nodes = conversion.model.graph.node
    assert len(nodes) == len({node.name for node in nodes})
    assert not selects(conversion.model) or sum(node.op_type == "If" for node in nodes) == 1
    dequantized = [node.input[0] for node in nodes if node.op_type == "DequantizeLinear"]
    assert len(dequantized) == len(set(dequantized))
    moved = {node.output[0] for node in nodes if node.op_type == "Transpose"}
    assert moved <= set(dequantized)


@pytest.mark.parametrize("strategy", ["cpsat", "mincut", "push", "propagate", "transpose"])
def test_every_strategy_agrees(demo: Path, strategy: str) -> None:
    conversion = layoutsolve.convert(demo, strategy=strategy)
    assert layoutsolve.verify(demo, conversion).passed


def test_compare(demo: Path) -> None:
    rows = {row.strategy: row.price.transposes for row in layoutsolve.compare(demo)}
    assert rows["cpsat"] == rows["mincut"] == 0
    assert rows["cpsat"] < rows["push"] <= rows["propagate"] < rows["transpose"]


@pytest.mark.parametrize("ends", ["keep", "nchw", "nhwc", "free"])
def test_ends(demo: Path, ends: str) -> None:
    for target, needed in ((None, 0), (PLANES, 0 if ends in ("nchw", "free") else 1)):
        conversion = layoutsolve.convert(demo, inputs=ends, outputs=ends, target=target)
        assert conversion.price.transposes == needed
        assert layoutsolve.verify(demo, conversion).passed


def test_layout_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.tflite"
    source.write_bytes(small_model())
    assert main([str(source), "--layout", "image=NHWC:NCHW", "--layout", "result=NHWC:NCHW", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transposes"] == 0
    model = onnx.load(source.with_suffix(".onnx"))
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 4, 5]


def test_target_option(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target by name or by file; what is written in a file changes the layouts, and what is wrong in it is named."""
    output, path, record = tmp_path / "a.onnx", tmp_path / "mine.json", tmp_path / "record.json"
    for options, name in (
        ([], "ort-cpu"),
        (["--contrib"], "ort-cpu-contrib"),
        (["--target", "ort-cpu"], "ort-cpu"),
        (["--target", "ort-cpu-contrib", "--contrib"], "ort-cpu-contrib"),
    ):
        assert main([str(demo), "-o", str(output), "--json", *options]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["target"], report["hidden_transposes"]) == (name, 0)
    planes = json.loads(PLANES.read_text()) | {"name": "mine"}
    path.write_text(json.dumps({**planes, "hidden": {"Transpose": {"swap": 1}}}))
    options = ["--target", str(path), "--certify", str(record), "--explain", "--json"]
    assert main([str(demo), "-o", str(output), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["target"], report["transposes"], report["hidden_transposes"]) == ("mine", 1, 1)
    layoutsolve.check_certificate(demo, output, layoutsolve.Certificate.load(record), target=path)
    path.write_text('{"name": "mine", "extends": "ort-cpu", "hidden": {"Transpose": {"swap": -1}}}')
    assert main([str(demo), "-o", str(output), *options]) == 2
    captured = capsys.readouterr()
    assert f"layoutsolve: target '{path}': hidden.Transpose.swap: it must be a whole number" in captured.err
    assert captured.err.count("\n") == 1


def test_all_gaps_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = Builder()
    x = build.input("x", (2, 3))
    y, z = build.tensor("y", (2, 3)), build.tensor("z", (2, 3))
    build.operator("CUSTOM:Mystery", [x], [y])
    build.operator("CUSTOM:Enigma", [y], [z])
    source = tmp_path / "gaps.tflite"
    source.write_bytes(build.finish(z))
    assert main([str(source)]) == 2
    error = capsys.readouterr().err
    assert "operator 0 CUSTOM:Mystery (output 'y')" in error
    assert "operator 1 CUSTOM:Enigma (output 'z')" in error


def test_verification_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that computes something else is reported with exit code 3, and is there to be looked at."""
    source = tmp_path / "a.tflite"
    source.write_bytes(small_model())
    original = layoutsolve.api.verify

    def spoil(source: layoutsolve.io.source.Content, conversion: layoutsolve.Conversion, **chosen: Any) -> object:
        conversion.model.graph.node[0].op_type = "Neg"
        return original(source, conversion, **chosen)

    monkeypatch.setattr(layoutsolve.api, "verify", spoil)
    assert main([str(source), "--verify"]) == 3
    assert "FAIL result" in capsys.readouterr().out
    assert source.with_suffix(".onnx").exists()


def test_deterministic(demo: Path) -> None:
    first, second = (layoutsolve.convert(demo).model.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_bytes_are_accepted() -> None:
    conversion = layoutsolve.convert(small_model())
    assert conversion.price == layoutsolve.Price()


def loaded(module: str, *heavy: str) -> str:
    """Those of some packages that a fresh interpreter has when it has imported a module."""
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_is_light() -> None:
    """Neither the solver's library nor a runtime is loaded before it is needed."""
    assert loaded("layoutsolve", "ortools", "onnxruntime", "ai_edge_litert", "networkx") == "[]"


def test_a_small_model_needs_little(demo: Path) -> None:
    """Neither does its conversion load what solves large problems, or what few options ask for."""
    heavy = ("ortools", "rich", "onnxruntime", "networkx", "layoutsolve.frontend.tflite.exact")
    assert loaded(f"layoutsolve; layoutsolve.convert({str(demo)!r})", *heavy) == "[]"


def test_the_command_line_is_ready_at_once() -> None:
    """Help and bad options wait for nothing that takes time to import."""
    assert loaded("layoutsolve.cli.command_line", "numpy", "onnx", "tflite", "layoutsolve.solver") == "[]"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "quiet", "shown"), [(0.0, [], True), (60.0, [], False), (0.0, ["-q"], False)])
def test_a_long_conversion_is_shown(
    patience: float, quiet: list[str], shown: bool, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, in a line that is gone at the end."""
    monkeypatch.setattr(console, "PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    assert main([str(demo), *quiet]) == 0
    assert ("converting" in terminal.getvalue()) == shown
    assert terminal.getvalue().endswith("\r\x1b[K" if shown else "")


def test_json_knows_no_infinity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LOG of negative numbers is not a number, and the report still is JSON."""
    source = tmp_path / "log.tflite"
    source.write_bytes(small_model("LOG"))
    assert main([str(source), "--json", "--verify"]) in (0, 3)
    json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_external_data(demo: Path, tmp_path: Path) -> None:
    """The larger constants lie beside the model, and it computes the same."""
    whole, apart = tmp_path / "whole.onnx", tmp_path / "apart.onnx"
    assert main([str(demo), "-o", str(whole)]) == 0
    assert main([str(demo), "-o", str(apart), "--external-data", "--verify"]) == 0
    data = tmp_path / "apart.onnx.data"
    assert apart.stat().st_size + data.stat().st_size >= whole.stat().st_size
    assert apart.stat().st_size < whole.stat().st_size / 2
    onnx.checker.check_model(str(apart), full_check=True)
    kept, loaded = onnx.load(whole), onnx.load(apart)
    assert [tensor.raw_data for tensor in kept.graph.initializer] == [t.raw_data for t in loaded.graph.initializer]


def test_one_is_not_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is told of a model of one operator, one of anything is told as one."""
    build = Builder()
    x, y = build.input("x", (1, 4)), build.tensor("y", (1, 4))
    build.operator("NEG", [x], [y])
    path = tmp_path / "a.tflite"
    path.write_bytes(build.finish(y))
    conversion = layoutsolve.convert(path)
    plan, explanation = layoutsolve.plan(path, conversion), conversion.explain()
    told = [*map(repr, (conversion, conversion.assignment, explanation, plan)), str(plan)]
    told += [each._repr_html_() for each in (conversion, conversion.assignment, explanation)]
    for options in ([], ["--verify-tensors"], ["--jobs", "1"]):
        assert main([str(path), *options]) == 0
        told += capsys.readouterr()
    assert not re.search(r"\b1 [A-Za-z]+s\b", "\n".join(told)), told
    assert "1 operator, opset" in told[-6] and "1 intermediate tensor" in told[-4]
