"""``layoutsolve diff`` counts what is in two files, whatever is in them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from experiments.make.zoo import zoo
from layoutsolve.cli.command_line import main
from layoutsolve.measurement.difference import difference, facts_of
from tests.random_onnx import random_model

SOURCES = dict(zoo(6, 700))


def written(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.members(3)
@pytest.mark.parametrize("name", SOURCES)
def test_facts_are_those_of_the_file(name: str, tmp_path: Path) -> None:
    try:
        conversion = layoutsolve.convert(SOURCES[name])
    except layoutsolve.UnsupportedError:
        return
    source = written(tmp_path, "a.tflite", SOURCES[name])
    file = written(tmp_path, "a.onnx", conversion.content("a.onnx"))
    found = difference(source, file)
    assert found.first.format == "TensorFlow Lite" and found.second.format.startswith("ONNX, opset ")
    assert found.second.bytes == Path(file).stat().st_size
    model = onnx.load(file)
    assert list(found.second.outputs) == [port.name for port in model.graph.output]
    if not any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute):
        kinds = Counter(f"{node.domain}:{node.op_type}".removeprefix(":") for node in model.graph.node)
        assert found.second.operators == kinds
        assert found.second.transposes <= kinds["Transpose"]
    assert found.second.executed is not None or found.second.refused


def test_what_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a Transpose pattern to the fewest: the operators that differ, and nothing of those alike."""
    name = next(each for each in SOURCES if each.startswith("network/"))
    files = []
    for strategy in ("transpose", "cpsat"):
        conversion = layoutsolve.convert(SOURCES[name], strategy=strategy)
        files.append(written(tmp_path, f"{strategy}.onnx", conversion.content("a.onnx")))
    assert main(["diff", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(files[0]) and lines[1].split()[0] == "Transposes" and "->" in lines[1]
    assert main(["diff", *files, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    one, other = (told[each]["operators"] for each in ("first", "second"))
    kinds = {kind for kind in {**one, **other} if one.get(kind) != other.get(kind)}
    assert told["operators"] == {kind: [one.get(kind, 0), other.get(kind, 0)] for kind in kinds}
    assert told["first"]["transposes"] > told["second"]["transposes"]
    assert main(["diff", files[0], files[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operators"] == {}


@pytest.mark.parametrize("seed", range(12))
def test_any_bytes(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken file is one error, or is told of as it stands."""
    random = np.random.default_rng(seed)
    source = random_model(seed)[1].SerializeToString() if seed % 2 else next(iter(SOURCES.values()))
    data = bytearray(source)
    for at in random.integers(len(data), size=8):
        data[at] = random.integers(256)
    name = written(tmp_path, "broken", bytes(data))
    code = main(["diff", name, name])
    told = capsys.readouterr()
    assert (code, told.err.count("\n")) in ((0, 0), (2, 1))


def test_a_model_that_no_runtime_takes(tmp_path: Path) -> None:
    """What is not known is not made up."""
    node = onnx.helper.make_node("Strange", ["x"], ["y"], domain="nobody")
    ends = [onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, ["n", 2]) for each in "xy"]
    graph = onnx.helper.make_graph([node], "strange", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("nobody", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    found = facts_of(written(tmp_path, "a.onnx", model.SerializeToString()))
    assert found.executed is None and "refuses the model" in found.refused
    assert found.operators == {"nobody:Strange": 1} and found.inputs == {"x": "float32[n,2]"}


def test_sizes_that_are_not_stated_and_functions(tmp_path: Path) -> None:
    """A size without number and name is no 0, and what a function moves is moved wherever it is called."""
    moved = onnx.helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0])
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]
    function = onnx.helper.make_function("own", "Turn", ["a"], ["b"], [moved], imports[:1])
    nodes = [onnx.helper.make_node("Turn", [one], [other], domain="own") for one, other in ("xm", "my")]
    ends = [onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [None, 2]) for each in "xy"]
    graph = onnx.helper.make_graph(nodes, "turns", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=9)
    found = facts_of(written(tmp_path, "a.onnx", model.SerializeToString()))
    assert found.inputs == {"x": "float32[?,2]"} and found.outputs == {"y": "float32[?,2]"}
    assert found.operators == {"own:Turn": 2, "Transpose": 1} and found.transposes == 2


@pytest.mark.parametrize("constant", [False, True])
def test_transposes_of_constants(constant: bool, tmp_path: Path) -> None:
    """They are operators of the file, and move nothing while it runs."""
    read = "k" if constant else "x"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3] x, float[3, 2] z) => (float[3, 2] y)
        <float[2, 3] k = {{1, 2, 3, 4, 5, 6}}> {{ a = Transpose<perm = [1, 0]>({read}) y = Add(a, z) }}"""
    )
    file = written(tmp_path, "a.onnx", model.SerializeToString())
    told = difference(file, file).as_text()
    assert ("without those of constants" in told) == constant
