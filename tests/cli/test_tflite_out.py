"""TensorFlow Lite on the command line."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import OptionError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.solver.targets.target_file import KNOWN
from tests.builder import Builder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A convolution of an image."""
    kernel = numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "kernel")
    node = helper.make_node("Conv", ["image", "kernel"], ["scores"], pads=[1, 1, 1, 1])
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size, 4, 4])
        for name, size in (("image", 3), ("scores", 2))
    ]
    graph = helper.make_graph([node], "one", ports[:1], ports[1:], [kernel])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def test_the_ending_is_the_format(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = source.with_name("out.tflite")
    assert main([str(source), "-o", str(target), "--inputs", "nhwc", "--outputs", "nhwc", "--verify"]) == 0
    told = capsys.readouterr().out
    assert "TensorFlow Lite, for litert" in told and "pass scores" in told
    assert [operator.name for operator in parse(target.read_bytes()).subgraphs[0].operators] == ["CONV_2D"]
    assert main(["info", str(target)]) == 0
    assert "--format=tflite" in capsys.readouterr().out


def test_the_name_by_default(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(source), "--format", "tflite", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    written = source.with_suffix(".tflite")
    assert (told["output"], told["format"]) == (str(written), "tflite") and written.exists()
    assert main([str(written), "--format", "tflite", "-q"]) == 0
    assert source.with_name("model.layoutsolve.tflite").read_bytes() == written.read_bytes()


def test_many(source: Path, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(source.read_bytes())
    assert main([str(tmp_path), "--format", "tflite", "-o", str(tmp_path / "results"), "-q"]) == 0
    assert sorted(each.name for each in (tmp_path / "results").glob("*.tflite")) == ["model.tflite", "other.tflite"]


@pytest.mark.parametrize(
    "option",
    [["--opset", "18"], ["--profile"], ["--quant", "float"]],
    ids=lambda each: each[0],
)
def test_what_is_about_onnx_is_refused(source: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    target = source.with_name("out.tflite")
    assert main([str(source), "-o", str(target), *option]) == 2
    assert capsys.readouterr().err.startswith(f"layoutsolve: {option[0]}: ") and not target.exists()


def turned_twice() -> bytes:
    """A model in TensorFlow Lite whose two Transposes need not be."""
    steps, shape = Builder(), (1, 4, 4, 3)
    last = steps.input("image", shape)
    for number, (name, order) in enumerate((("ABS", (0, 3, 1, 2)), ("EXP", (0, 2, 3, 1)))):
        shape = tuple(shape[axis] for axis in order)
        moved, made = (steps.tensor(f"{each}{number}", shape) for each in ("moved", "made"))
        steps.operator("TRANSPOSE", [last, steps.constant(f"order{number}", np.array(order, np.int32))], [moved])
        steps.operator(name, [moved], [made])
        last = made
    return steps.finish(last)


@pytest.mark.parametrize("ending", ["onnx", "tflite"])
def test_what_is_told_of_it(source: Path, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate that holds, a plan that gives the same bytes, a report, and the tensors within, of both sources."""
    if ending == "tflite":
        source = tmp_path / "model.tflite"
        source.write_bytes(turned_twice())
    target, again, said = (tmp_path / name for name in ("out.tflite", "again.tflite", "certificate.json"))
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    told = ["--certify", str(said), "--plan", str(plan), "--report", str(page), "--verify-tensors"]
    assert main([str(source), "-o", str(target), *told]) == 0
    printed = capsys.readouterr().out
    assert "proven minimal again" in printed and " intermediate tensor" in printed
    assert "TensorFlow Lite" in page.read_text()
    assert main([str(source), "-o", str(again), "--from-plan", str(plan)]) == 0
    assert again.read_bytes() == target.read_bytes()
    assert main([str(source), "-o", str(target), "--check", str(said)]) == 0
    target.write_bytes(target.read_bytes() + b" ")
    assert main([str(source), "-o", str(target), "--check", str(said)]) == 2
    assert "TensorFlow Lite file" in capsys.readouterr().err


@pytest.mark.parametrize("name", KNOWN)
def test_targets_of_onnx_are_refused(name: str, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the model is read; a file may extend the one that TensorFlow Lite is written for."""
    target, table = source.with_name("out.tflite"), source.with_name("mine.toml")
    table.write_text(f'name = "mine"\nextends = "{name}"\n')
    for given in (name, str(table)):
        assert main([str(source), "-o", str(target), "--target", given]) == (0 if name == "litert" else 2)
        said = capsys.readouterr().err
        assert name == "litert" or "for ONNX files, and TensorFlow Lite is written for 'litert'; leave it out" in said
    with pytest.raises(OptionError, match="target") if name != "litert" else nullcontext():
        layoutsolve.convert(source, to="tflite", target=name)


def test_what_becomes_of_operators(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the written file are counted; of a file that is kept they are its own."""
    assert main(["ops", str(source), "--format", "tflite", "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)["operators"]
    assert (kind["operator"], kind["written"]["CONV_2D"], kind["refused"]) == ("Conv", 1, "")
    assert main([str(source), "--format", "tflite", "-q", "--inputs", "nhwc", "--outputs", "nhwc"]) == 0
    assert main(["ops", str(source.with_suffix(".tflite")), "--format", "tflite", "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)["operators"]
    assert kept["written"] == {"CONV_2D": 1}


def test_what_cannot_be_written_is_listed_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reasons and remedies of the error, which a conversion gives and writes nothing."""
    names = ["x", "a", "b", "c"]
    nodes = [
        helper.make_node(op, [read], [made])
        for op, read, made in (("Relu", "x", "a"), ("Unique", "a", "b"), ("Bernoulli", "a", "c"))
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])]
    graph = helper.make_graph(nodes, "one", ports, [onnx.ValueInfoProto(name=name) for name in names[2:]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(made), path)
    assert main(["ops", str(path), "--format", "tflite", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    refused = {kind["operator"]: (kind["refused"], kind["remedy"]) for kind in told["operators"] if kind["refused"]}
    assert not told["converts"] and refused.keys() == {"Bernoulli", "Unique"}
    assert main([str(path), "--format", "tflite"]) == 2
    message = capsys.readouterr().err
    assert all(reason in message and remedy in message for reason, remedy in refused.values())
    assert not path.with_suffix(".tflite").exists()
    assert main(["ops", str(path)]) == 0


def test_options_about_onnx_are_refused_by_ops(source: Path) -> None:
    assert main(["ops", str(source), "--format", "tflite", "--quant", "float"]) == 2
