"""The command ``bench``: what it counts, tells and refuses. No time is asserted."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from experiments.make import demo
from layoutsolve.cli import command_line
from layoutsolve.errors import VerifyError
from layoutsolve.measurement import timing
from layoutsolve.measurement.bench import Loaded, measured
from layoutsolve.measurement.executed_operators import Executed, executed
from layoutsolve.measurement.timing import Runner, setting


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each model runs for a tenth of the time."""
    monkeypatch.setattr(timing, "LEAST", timing.LEAST / 10)


class Never:
    """A model that is not run."""

    def turn(self, repeats: int) -> float:
        raise AssertionError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A quantized model, and what it is converted to."""
    folder = tmp_path_factory.mktemp("bench")
    source, target = folder / "demo.tflite", folder / "demo.onnx"
    source.write_bytes(demo.mobilenet())
    layoutsolve.convert(source, target="portable").save(target)
    return str(source), str(target)


def chain(kinds: list[str]) -> onnx.ModelProto:
    """A model of operators in a row, DequantizeLinear and QuantizeLinear among them."""
    nodes = [
        helper.make_node(kind, [f"t{place}", *["scale"][: kind.endswith("quantizeLinear")]], [f"t{place + 1}"])
        for place, kind in enumerate(kinds)
    ]
    scale = numpy_helper.from_array(np.float32(0.5), "scale")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("t0", f"t{len(kinds)}")]
    return helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], [scale]))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_floats_between_quantized_are_told(count: int) -> None:
    into, out_of, inner = "QuantizeLinear", "DequantizeLinear", ["Relu", "Sigmoid", "Relu"][:count]
    found = executed(chain([into, out_of, *inner, into, "Transpose", "QLinearConv", "ReorderInput", out_of]))
    assert sum(found.floating.values()) == count
    assert (found.transposes, found.reorders, found.integer) == (1, 1, 1)
    for alone in ([out_of, *inner], [*inner, into], inner):
        assert not executed(chain(alone)).floating


def test_table_and_object_say_the_same() -> None:
    facts = Executed(9, 2, 1, 4, {"Add": 3})
    found = [
        Loaded("a.onnx", "ONNX Runtime", 0.5, Runner(Never()), facts),
        Loaded("b", "LiteRT", 0.25, Runner(Never())),
    ]
    times = {0: [1.0, 2.0, 1.0, 2.0], 1: [2.0, 4.0, 2.0, 80.0]}
    told = measured(found, times, setting("all", 1))
    first, second = told.rows
    assert (first.ratio, first.spread, second.ratio, second.milliseconds) == (1, 0, 2, 3000)
    assert told.unsteady == (second,)
    report = json.loads(told.as_json())
    assert [each["ratio"] for each in report["files"]] == [1, 2]
    assert [each["unsteady"] for each in report["files"]] == [False, True]
    assert (report["rounds"], report["level"], report["threads"], report["clock"]) == (4, "all", 1, "process")
    assert report["files"][0]["executed"]["floating"] == {"Add": 3}
    assert report["files"][1]["executed"] is None
    text = told.as_text()
    assert "3 Add" in text
    assert text.count("rounds disagree") == 1
    assert len(text.splitlines()) == 5


@pytest.mark.parametrize("level", ["none", "all"])
def test_files_are_measured(
    files: tuple[str, str], level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = files
    for each, name in ((source, "source"), (target, "target")):  # what a file is its content says
        (tmp_path / name).write_bytes(Path(each).read_bytes())
    target = str(tmp_path / "target") if level == "all" else target
    source = str(tmp_path / "source") if level == "all" else source
    before = sorted(Path(source).parent.iterdir())
    assert command_line.main(["bench", target, target, source, "--json", "--level", level]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["runtime"] for each in report["files"]] == ["ONNX Runtime"] * 2 + ["LiteRT, XNNPACK", "LiteRT, plain"]
    assert report["files"][0]["ratio"] == 1
    assert all(each["milliseconds"] > 0 for each in report["files"])
    assert (report["files"][0]["executed"]["integer"] > 0) == (level == "all")
    assert sorted(Path(source).parent.iterdir()) == before


NONSENSE = '<ir_version: 8, opset_import: ["" : 18]> g (float[1] x) => (float[1] y) { y = Nonsense(x) }'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.onnx"], "cannot read 'no.onnx'"),
        (["no.tflite"], "cannot read 'no.tflite'"),
        (["text.onnx"], "'text.onnx' is neither a TensorFlow Lite nor an ONNX model"),
        (["bad.onnx"], "'bad.onnx': ONNX Runtime refuses"),
        (["bad"], "'bad': LiteRT"),
        (["bad.onnx", "--level", "most"], "not one of none, basic, extended, all"),
        *((["bad.onnx", "--threads", each], "no number of threads") for each in ("0", "1025", "3000000000", "9" * 400)),
        (["bad.onnx", "--jason"], "unrecognised argument '--jason'"),
        ([], "required"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.onnx").write_bytes(b"not a model")
    Path("bad.onnx").write_bytes(onnx.parser.parse_model(NONSENSE).SerializeToString())
    Path("bad").write_bytes(b"\x18\0\0\0TFL3" + bytes(64))
    assert command_line.main(["bench", *arguments]) == 2
    output, error = capsys.readouterr()
    assert said in error
    assert (output, error.count("\n")) == ("", 1)


def test_openvino_is_asked_for(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else find(name))
    assert command_line.main(["bench", files[1], "--openvino"]) == 2
    assert "pip install openvino" in capsys.readouterr().err


def test_what_one_runtime_refuses_is_told(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*given: object) -> Loaded:
        raise VerifyError("it is not built for this\nand says more")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr("layoutsolve.measurement.bench.compiled", refuses)
    assert command_line.main(["bench", *files, "--openvino", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["runtime"] for each in report["files"]] == ["LiteRT, XNNPACK", "LiteRT, plain", "ONNX Runtime"]
    assert [(each["file"], each["runtime"]) for each in report["refused"]] == [(file, "OpenVINO") for file in files]
    assert command_line.main(["bench", *files, "--openvino"]) == 0
    assert capsys.readouterr().out.count(" is not measured in OpenVINO: ") == len(files)


def test_file_of_that_name_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench").write_bytes(Path(files[0]).read_bytes())
    assert command_line.main(["./bench", "-o", "out.onnx", "--target", "portable"]) == 0
    assert executed(onnx.load("out.onnx")) == executed(onnx.load(files[1]))
