"""``layoutsolve ops`` counts every operator and tells what becomes of it; ``--dry-run`` tells and writes nothing."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.conversion.arguments import Options
from layoutsolve.frontend import parse
from layoutsolve.inspection.operator_support import INNER, inventory
from layoutsolve.io.source import load
from layoutsolve.ir.graph import KEPT
from layoutsolve.proto.scopes import nodes_of
from layoutsolve.solver.theory.operators_without_rule import UNRULED, WRITTEN
from layoutsolve.solver.theory.rule import RULES
from tests.builder import Builder
from tests.cli.test_streams import small
from tests.random_flow import random_flow
from tests.random_models import network
from tests.random_onnx import random_model


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


def test_what_is_written_is_what_the_file_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each operator of the file is counted for one of the source at most, and only those of layouts for none."""
    (tmp_path / "a.tflite").write_bytes(small())
    assert main([str(tmp_path / "a.tflite")]) == 0
    capsys.readouterr()
    file = Counter(node.op_type for node in nodes_of(onnx.load(tmp_path / "a.onnx").graph))
    assert main(["ops", str(tmp_path / "a.tflite"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["operators"]
    told = sum((Counter(row["written"]) for row in rows), Counter[str]())
    assert told <= file and {*(file - told)} <= {"Transpose", "Reshape"}
    assert all(row["output"] for row in rows)


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


def test_every_operator_of_onnx_has_a_rule_or_is_kept_for_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """All that the installed libraries know stand in exactly one list, and nothing else does."""
    known = {(each.domain, each.name) for each in onnx.defs.get_all_schemas_with_history()}
    known |= {(each.domain, each.name) for each in get_all_operator_schema() if each.domain == "com.microsoft"}
    names = {f"{domain}:{name}" if domain else name for domain, name in known}
    every = {name for name in RULES if name not in INNER}
    assert names <= every | UNRULED.keys() | WRITTEN.keys()
    for one, other in combinations((every, UNRULED.keys(), WRITTEN.keys()), 2):
        assert not one & other
    assert main(["ops", "--onnx", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["operators"]
    assert {row["operator"] for row in told} == every | UNRULED.keys() | WRITTEN.keys()
    assert all(row["detail"] for row in told if row["treatment"] != "rule")
    assert main(["ops", "--onnx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(told) and any(line.split()[:3] == ["NonZero", "kept", "in"] for line in lines)


@pytest.mark.parametrize("arguments", [[], ["--onnx", "a.tflite"], ["--onnx", "--quant", "float"]])
def test_a_model_or_all_operators(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", *arguments]) == 2
    assert "--onnx" in capsys.readouterr().err


def kept(*operators: str) -> onnx.ModelProto:
    """Operators one after the other between Transposes that cancel out, on images, behind others that do."""
    there, back = {"perm": [0, 2, 3, 1]}, {"perm": [0, 3, 1, 2]}
    nodes = [
        onnx.helper.make_node("Transpose", ["x"], ["a"], **there),
        onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Transpose", ["b"], ["c"], **back),
        onnx.helper.make_node("Sigmoid", ["c"], ["d"]),
        onnx.helper.make_node("Transpose", ["d"], ["t"], **there),
    ]
    last = "t"
    for number, op in enumerate(operators):
        domain, _, name = op.rpartition(":")
        nodes.append(onnx.helper.make_node(name, [last], [f"y{number}"], domain=domain))
        last = f"y{number}"
    nodes.append(onnx.helper.make_node("Transpose", [last], ["z"], **back))
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3, 4, 5]) for name in "xz"]
    graph = onnx.helper.make_graph(nodes, "kept", ports[:1], ports[1:])
    sets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.acme", 1)]
    return onnx.helper.make_model(graph, opset_imports=sets, ir_version=8)


def test_what_is_proven_is_told_with_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the summary, JSON, the report and when a certificate is checked; where nothing is kept nothing is told."""
    path, out, proof = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "b.json"))
    for operators, counts, words in (
        (("RandomNormalLike",), {"RandomNormalLike": 1}, " with RandomNormalLike (1) kept as it is"),
        (("Bernoulli", "Bernoulli"), {"Bernoulli": 2}, " with Bernoulli (2) kept as they are"),
        (
            ("RandomUniformLike", "Bernoulli", "Relu"),
            {"Bernoulli": 1, "RandomUniformLike": 1},
            " with Bernoulli (1) and RandomUniformLike (1) kept as they are",
        ),
        (("Celu", "Relu"), {}, ""),
    ):
        Path(path).write_bytes(kept(*operators).SerializeToString())
        page = tmp_path / "page.html"
        options = ["--objective", "min-transpose", "--certify", proof, "--report", str(page)]
        assert main([path, "-o", out, *options]) == 0
        told = capsys.readouterr().out
        assert f"(proven minimal{words})" in told
        assert f"proven minimal{words}" in page.read_text()
        assert main([path, "-o", out, "--json", "--objective", "min-transpose"]) == 0
        assert json.loads(capsys.readouterr().out)["kept_operators"] == counts
        assert main([path, "-o", out, "--check", proof]) == 0
        assert f"proven minimal again{words}:" in capsys.readouterr().out
        assert main([path, "-o", out, "--check", proof, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kept_operators"] == counts


@pytest.mark.parametrize("operator", ["com.acme:Mine", "Bernoulli"])
def test_what_is_kept_has_the_name_of_its_domain(operator: str) -> None:
    """None of those that it has while it is converted."""
    model = kept(operator)
    found = layoutsolve.convert(model)
    assert found.report["kept_operators"] == {operator: 1}
    assert KEPT not in f"{found.report}{found.explain()}"


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_products_of_heads_are_told(seed: int, left: bool) -> None:
    """Products by a matrix that the graph splits, which products of heads compute with fewer Transposes; no others."""
    random = np.random.default_rng(seed)
    rows, depth, heads, width = (int(random.integers(2, 6)) for _ in range(4))
    made, data = [], random.standard_normal((rows, depth)).astype(np.float32)
    w = random.standard_normal((depth, heads * width)).astype(np.float32)
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    product = [make("MatMul", ["x", "w"], ["a"])]
    if left:
        product = [make("Transpose", ["x"], ["t"], perm=[1, 0]), make("MatMul", ["v", "t"], ["u"])]
        product += [make("Transpose", ["u"], ["a"], perm=[1, 0])]
    moved = [make("Reshape", ["a", "s"], ["b"]), make("Transpose", ["b"], ["y"], perm=[1, 0, 2])]
    whole = [make("MatMul", ["x", "w"], ["a"]), make("Transpose", ["a"], ["y"], perm=[1, 0])]
    batched = [make("MatMul", ["x", "h"], ["y"])]
    held = {"w": w, "v": w.T, "s": np.array([rows, heads, width]), "h": w.reshape(depth, heads, width).swapaxes(0, 1)}
    for nodes, shape in (
        ([*product, *moved], [heads, rows, width]),
        (batched, [heads, rows, width]),
        (whole, [heads * width, rows]),
    ):
        read = {name for node in nodes for name in node.input}
        weights = [onnx.numpy_helper.from_array(np.ascontiguousarray(each), name) for name, each in held.items()]
        graph = onnx.helper.make_graph(
            nodes,
            "heads",
            [info("x", 1, [rows, depth])],
            [info("y", 1, shape)],
            [each for each in weights if each.name in read],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        made.append((model, layoutsolve.convert(model.SerializeToString())))
    results = [onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": data})[0] for each, _ in made]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
    found, better, other = (conversion for _, conversion in made)
    assert better.price.transposes == 0 < found.price.transposes
    assert sum(found.assignment.kept.values()) == 1 and next(iter(found.assignment.kept)).endswith(" of heads")
    assert better.assignment.kept == other.assignment.kept == {}


@pytest.mark.parametrize(
    ("before", "after"), [((6, 4), (8, 3)), ((2, 15), (10, 3)), ((6, 4), (2, 12)), ((12,), (3, 4))]
)
def test_entangled_reshapes_are_told(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """A Reshape between Transposes that are left, whose sides have no common factors, and one whose sides have some."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    ranks = len(before) + 1, len(after) + 1
    shape, target = [5, *before], [*reversed(after), 5]
    nodes = [
        make("Transpose", ["x"], ["a"], perm=[*range(1, ranks[0]), 0]),
        make("Relu", ["a"], ["b"]),
        make("Transpose", ["b"], ["c"], perm=[ranks[0] - 1, *range(ranks[0] - 1)]),
        make("Reshape", ["c", "s"], ["d"]),
        make("Transpose", ["d"], ["y"], perm=[*range(ranks[1])][::-1]),
    ]
    held = [onnx.numpy_helper.from_array(np.array([5, *after]), "s")]
    graph = onnx.helper.make_graph(nodes, "entangled", [info("x", 1, shape)], [info("y", 1, target)], held)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
    nested = any(one % other == 0 for one, other in ((before[0], after[0]), (after[0], before[0])))
    assert found.price.transposes == 1
    assert found.assignment.kept == ({} if nested else {"entangled Reshape": 1})


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("axis", range(3))
def test_what_is_collected_goes_along_any_axis(axis: int, place: int) -> None:
    """A Scan is told along which."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph([make("Relu", ["e"], ["r"])], "body", [info("e", 1, [4, 5])], [info("r", 1, [4, 5])])
    perm = [each for each in range(3) if each != axis]
    perm.insert(place, axis)
    nodes = [
        make("Scan", ["x"], ["s"], num_scan_inputs=1, body=body, scan_output_axes=[axis], scan_output_directions=[1]),
        make("Transpose", ["s"], ["y"], perm=perm),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [3, 4, 5])], [info("y", 1, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
    assert found.price.transposes == 0 and found.assignment.kept == {}
    data = {"x": np.random.default_rng(axis).standard_normal((3, 4, 5)).astype(np.float32)}
    results = [
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, data)[0] for each in (model, found.model)
    ]
    np.testing.assert_array_equal(*results)


def test_what_a_loop_collects_is_told_of() -> None:
    """It comes in front of its elements."""
    make, info, held = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
    body = onnx.helper.make_graph(
        [make("Identity", ["c"], ["d"]), make("Gather", ["x", "i"], ["r"], axis=0)],
        "body",
        [info("i", 7, []), info("c", 9, [])],
        [info("d", 9, []), info("r", 1, [4, 5])],
    )
    nodes = [make("Loop", ["n", "go"], ["s"], body=body), make("Transpose", ["s"], ["y"], perm=[2, 1, 0])]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [info("x", 1, [3, 4, 5])],
        [info("y", 1, None)],
        [held(np.array(3), "n"), held(np.array(True), "go")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
    assert found.price.transposes == 1 and found.assignment.kept == {"Loop output": 1}
