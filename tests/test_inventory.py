"""``layoutsolve ops`` counts every operator and tells what becomes of it; ``--dry-run`` tells and writes nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import layoutsolve
from layoutsolve.arguments import Options
from layoutsolve.cli import main
from layoutsolve.frontend import parse
from layoutsolve.graph import KEPT
from layoutsolve.inventory import inventory
from layoutsolve.scopes import nodes_of
from layoutsolve.source import load
from tests.builder import Builder
from tests.random_flow import random_flow
from tests.random_models import network
from tests.random_onnx import random_model
from tests.test_streams import small


@pytest.mark.parametrize("seed", range(8))
def test_every_operator_is_counted(seed: int) -> None:
    """In branches and loops too; what they become is what the graph has, but for what a layout may spare."""
    source = network(seed).source
    found = inventory(load(source), Options().reading)
    counts: Counter[str] = Counter()
    for kind in found.kinds:
        counts[kind.operator] += kind.count
    assert counts == Counter(operator.name for subgraph in parse(source).subgraphs for operator in subgraph.operators)
    nodes = layoutsolve.convert(source).graph.nodes
    written = {(node.origin.operator, node.op) for node in nodes if node.origin is not None and not node.pattern}
    assert {(kind.operator, op) for kind in found.kinds for op in kind.becomes} == written
    assert found.converts and len(str(found).splitlines()) == len(found.kinds) + 1


@pytest.mark.parametrize("seed", range(12))
def test_every_operator_of_a_model_in_onnx_is_counted(seed: int) -> None:
    """In branches and loops too, and what becomes of them is what the graph has."""
    _, model = (random_flow if seed % 2 else random_model)(seed, dynamic=seed % 3 == 0)
    source = model.SerializeToString()
    found = inventory(load(source), Options().reading)
    counts = Counter[str]()
    for kind in found.kinds:
        counts[kind.operator] += kind.count
        assert kind.operator in ("If", "Loop", "Scan") or "?" not in kind.types
    assert counts == Counter(node.op_type for node in nodes_of(model.graph))
    nodes = layoutsolve.convert(source).graph.nodes
    written = {(node.origin.operator, node.op.removeprefix(KEPT)) for node in nodes if node.origin is not None}
    assert {(kind.operator, op) for kind in found.kinds for op in kind.becomes} == written
    assert found.converts


def test_what_is_about_tensorflow_lite_is_refused_for_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(random_model(0)[1].SerializeToString())
    for option in (
        ["--quant", "float"],
        ["--signature", "main"],
        ["--custom", "passthrough"],
        ["--dynamic", "integer"],
    ):
        assert main(["ops", str(path), *option]) == 2
        assert "about models of TensorFlow Lite" in capsys.readouterr().err
    assert main(["ops", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["converts"]


def unknown() -> bytes:
    """Two custom operators that nobody knows, of different types, among others."""
    build = Builder()
    x, text = build.input("x", (2, 3)), build.input("text", (1,), "string")
    ends = [build.tensor(f"y{number}", (2, 3)) for number in range(4)]
    build.operator("ABS", [x], [ends[0]])
    build.operator("CUSTOM:Mine", [ends[0]], [ends[1]])
    build.operator("CUSTOM:Mine", [ends[1]], [ends[2]])
    build.operator("CUSTOM:Mine", [text], [ends[3]])
    return build.finish(ends[2], ends[3])


def test_what_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(unknown())
    assert main(["ops", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    rows = [(row["operator"], row["types"], row["count"], row["first"]) for row in told["operators"]]
    assert rows == [
        ("ABS", "float32 -> float32", 1, "0"),
        ("CUSTOM:Mine", "float32 -> float32", 2, "1"),
        ("CUSTOM:Mine", "string -> float32", 1, "3"),
    ]
    assert not told["converts"] and all("register a lowering" in row["remedy"] for row in told["operators"][1:])
    assert main(["ops", str(path)]) == 2 and "NOT CONVERTED: no conversion for this operator" in capsys.readouterr().out
    assert main(["ops", str(path), "--custom", "passthrough"]) == 0 and "Mine" in capsys.readouterr().out
    assert main(["ops", str(path), "--signature", "none"]) == 2
    assert "no signature 'none'" in capsys.readouterr().err


def test_dry_run_of_what_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It fails as the run would that it stands for, and writes as little."""
    path = tmp_path / "a.tflite"
    path.write_bytes(small())
    for output in (path, tmp_path / "none" / "a.onnx", tmp_path):
        told = []
        for more in ([], ["--dry-run"]):
            assert main([str(path), "-o", str(output), *more]) == 2
            told.append(capsys.readouterr())
        assert told[0] == told[1] and told[0].err
    assert sorted(tmp_path.iterdir()) == [path]
    assert main([str(path), "-o", str(tmp_path / "b.onnx"), "--external-data", "--dry-run"]) == 0
    assert sorted(tmp_path.iterdir()) == [path]


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All is told and nothing is written, of one model and of many."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.tflite").write_bytes(small())
    path, out = str(tmp_path / "a.tflite"), tmp_path / "out"
    assert main([path, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'a.onnx'} (not written): 1 operator,")
    assert main([path, "--dry-run", "--json", "--verify"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"] is None and told["transposes"] == 0 and told["verified"]["passed"]
    assert main([str(tmp_path), "-o", str(out), "--dry-run"]) == 0
    assert "2 models: 2 converted" in capsys.readouterr().out
    assert main([path, "--dry-run", "--certify", "c.json"]) == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.tflite", "b.tflite"]
