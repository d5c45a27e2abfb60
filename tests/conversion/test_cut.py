"""A model that is cut in two computes what it computed: the part up to a tensor, then the part from there on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve import OptionError
from layoutsolve.cli.command_line import main
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.random_models import network
from tests.random_onnx import random_model
from tests.truth import litert


def inside(source: bytes) -> list[str]:
    """The tensors that a TensorFlow Lite model computes, but for its outputs, by names that only one has."""
    main = parse(source).subgraphs[0]
    names = [each.name for each in main.tensors]
    outputs = [each for operator in main.operators for each in operator.outputs if each >= 0]
    return [names[each] for each in outputs if each not in main.outputs and names.count(names[each]) == 1]


def unused(source: bytes) -> list[str]:
    """The tensors of a model's main subgraph that no operator has."""
    main = parse(source).subgraphs[0]
    used = {*main.inputs, *main.outputs}
    used.update(each for part in main.operators for each in (*part.inputs, *part.outputs, *part.intermediates))
    return [each.name for each in main.tensors if each.index not in used]


def test_a_part_has_no_weights_of_others() -> None:
    """Of a chain of layers each part has its own; what both read is in both."""
    build, random = Builder(), np.random.default_rng(0)
    x = build.input("x", (1, 64))
    shared = build.constant("shared", random.standard_normal((64, 64), np.float32))
    for number in range(8):
        own = build.constant(f"w{number}", random.standard_normal((64, 64), np.float32))
        for weights, name in ((own, f"own{number}"), (shared, f"t{number}")):
            y = build.tensor(name, (1, 64))
            build.operator("FULLY_CONNECTED", [x, weights], [y])
            x = y
    source, layer = build.finish(x), 64 * 64 * 4
    for number in range(7):
        head, tail = layoutsolve.cut(source, end=[f"t{number}"]), layoutsolve.cut(source, start=[f"t{number}"])
        for part, layers in ((head, number + 2), (tail, 8 - number)):
            assert 0 < len(part) - layers * layer < layer, (number, layers)


@pytest.mark.members(5)
@pytest.mark.parametrize("seed", range(24))
def test_tflite_is_cut_in_two(seed: int) -> None:
    made = network(seed)
    whole = litert().run(made.source, made.feeds(1)).results
    given = dict(zip((each.name for each in _ends(made.source)[0]), made.feeds(1), strict=True))
    names, random, cuts = inside(made.source), np.random.default_rng(seed), 0
    for name in random.permutation(names)[:6]:
        head = layoutsolve.cut(made.source, end=[name])
        try:
            tail = layoutsolve.cut(made.source, start=[name])
        except OptionError:  # nothing depends on it
            continue
        (middle,) = litert().run(head, [given[each.name] for each in _ends(head)[0]]).results
        known = {**given, name: middle}
        assert unused(head) == unused(tail) == []
        assert _ends(tail)[0][0].name == name and [each.name for each in _ends(head)[1]] == [name]
        parts = litert().run(tail, [known[each.name] for each in _ends(tail)[0]]).results
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(other, one)
        cuts += 1
    assert cuts or len(names) < 2


def _ends(source: bytes) -> tuple[list, list]:  # type: ignore[type-arg]
    main = parse(source).subgraphs[0]
    return [main.tensors[each] for each in main.inputs], [main.tensors[each] for each in main.outputs]


@pytest.mark.members(16)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_onnx_is_cut_in_two(seed: int, dynamic: bool) -> None:
    writer, model = random_model(seed, dynamic)
    given, random = writer.feeds(), np.random.default_rng(seed)
    whole = _run(model.SerializeToString(), given)
    inner = [name for node in model.graph.node for name in node.output if name not in whole]
    for name in random.permutation(inner)[:5]:
        head = layoutsolve.cut(model, end=[name])
        try:
            tail = layoutsolve.cut(model, start=[name])
        except OptionError:
            continue
        known = {**given, **_run(head, given)}
        for each in (head, tail):
            onnx.checker.check_model(onnx.load_from_string(each), full_check=True)
        parts = _run(tail, known)
        assert parts.keys() == whole.keys()
        for key, found in parts.items():
            np.testing.assert_array_equal(found, whole[key])
        constants = {each.name for each in onnx.load_from_string(tail).graph.initializer}
        assert constants <= {each.name for each in model.graph.initializer}


def _run(model: bytes, given: Mapping[str, Array]) -> dict[str, Array]:
    session = OnnxRuntime(model, level="none")
    results = session.run({name: given[name] for name, *_ in session.inputs})
    return dict(zip(session.outputs, results, strict=True))


def test_bodies_read_what_is_around_them() -> None:
    """What the branches of an If read is needed, though no input of a node names it."""
    ends = {name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xabyz"}
    branches = [
        onnx.helper.make_graph([onnx.helper.make_node(op, ["a"], ["y"])], op, [], [ends["y"]]) for op in ("Neg", "Exp")
    ]
    condition = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    nodes = [
        onnx.helper.make_node("Abs", ["x"], ["a"]),
        onnx.helper.make_node("If", ["c"], ["b"], then_branch=branches[0], else_branch=branches[1]),
        onnx.helper.make_node("Tanh", ["b"], ["z"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "branches", [ends["x"], condition], [ends["z"]], value_info=[ends["a"], ends["b"]]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    head = onnx.load_from_string(layoutsolve.cut(model, end=["b"]))
    assert [node.op_type for node in head.graph.node] == ["Abs", "If"]
    tail = onnx.load_from_string(layoutsolve.cut(model, start=["a"]))
    assert [port.name for port in tail.graph.input] == ["a", "c"]
    assert [node.op_type for node in tail.graph.node] == ["If", "Tanh"]


def test_sparse_initializers_are_kept() -> None:
    """Those that a part reads, and no others."""
    values = [onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [1], [2.0]) for name in ("near", "far")]
    places = onnx.helper.make_tensor("", onnx.TensorProto.INT64, [1], [1])
    sparse = [onnx.helper.make_sparse_tensor(each, places, [2]) for each in values]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    nodes = [
        onnx.helper.make_node("Add", ["x", "near"], ["a"]),
        onnx.helper.make_node("Mul", ["a", "far"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "sparse", [x], [y], sparse_initializer=sparse)
    opset = onnx.helper.make_opsetid("", 18)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2]))
    for ends, name in (({"end": ["a"]}, "near"), ({"start": ["a"]}, "far")):
        part = onnx.load_from_string(layoutsolve.cut(model, **ends))
        assert [each.values.name for each in part.graph.sparse_initializer] == [name]


def chain() -> bytes:
    """Three operators in a row, whose middle nobody converts."""
    builder = Builder()
    x = builder.input("image", (1, 4))
    a, b, y = (builder.tensor(name, (1, 4)) for name in ("first", "second", "result"))
    builder.operator("ABS", [x], [a])
    builder.operator("CUSTOM:Nobody", [a], [b])
    builder.operator("ABS", [b], [y])
    return builder.finish(y)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to the first unsupported operator, and from behind it."""
    source = tmp_path / "model.tflite"
    source.write_bytes(chain())
    assert main([str(source), "-q"]) == 2
    for options, names in ((["--to", "first"], ("image", "first")), (["--from", "second"], ("second", "result"))):
        assert main([str(source), *options, "-q", "-o", str(tmp_path / "part.onnx")]) == 0
        graph = onnx.load(tmp_path / "part.onnx").graph
        assert (graph.input[0].name, graph.output[0].name) == names
    capsys.readouterr()
    for options, said in (
        (["--to", "fist"], "--to 'fist': the model has no such tensor (did you mean 'first'?)"),
        (["--to", "tflite"], "--to 'tflite': the model has no such tensor; the format is that of the output's name"),
        (["--from", "first", "--to", "first"], "nothing is left between a tensor and itself"),
        (["--from", "second", "--to", "first"], "--from 'second': no output depends on it"),
        (["--from", "result"], "--from 'result': nothing is computed from it: name a tensor before it"),
        (["--to", "first", "--to", "first"], "--to 'first': it is given twice"),
        (["--to", "first", "--signature", "x"], "leave out --signature"),
    ):
        assert main([str(source), *options, "-o", str(tmp_path / "other.onnx")]) == 2
        assert said in capsys.readouterr().err
    assert main([str(tmp_path), "--to", "first"]) == 2
    assert "argument --to: it is about a single model: give one" in capsys.readouterr().err
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize("given", ["Conv2d_5", "depthwise/Relu6", "Mobilenet/"])
def test_a_part_of_a_name_is_told(given: str) -> None:
    """Names of TensorFlow are paths, of which users know a part."""
    build = Builder()
    x = build.input("x", (2, 3))
    names = [f"Mobilenet/Mobilenet/Conv2d_{number}_depthwise/Relu6" for number in range(4, 7)]
    for name in names:
        y = build.tensor(name, (2, 3))
        build.operator("RELU6", [x], [y])
        x = y
    within = ", ".join(f"'{name}'" for name in names if given in name)
    with pytest.raises(OptionError, match=f": it is a part of {within}"):
        layoutsolve.cut(build.finish(x), end=[given])


def test_names_as_messages_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tensors without a name, and such of one name, are found by what errors and listings call them."""
    build = Builder()
    x = build.input("x", (2, 3))
    nameless, first, second, y = (build.tensor(name, (2, 3)) for name in ("", "same", "same", "y"))
    for op, read, made in (("ABS", x, nameless), ("NEG", nameless, first), ("TANH", first, second), ("EXP", second, y)):
        build.operator(op, [read], [made])
    source = build.finish(y)
    graph = layoutsolve.convert(source).text("graph")
    shown = [name for name in ("tensor_1", "same", "same_1") if f"{name}:" in graph]
    assert len(shown) == 3
    for end, count in zip(shown, (1, 2, 3), strict=True):
        part = layoutsolve.cut(source, end=[end])
        assert len(parse(part).subgraphs[0].operators) == count and f"output {end}:" in layoutsolve.convert(part).text(
            "graph"
        )
        if end != "same_1":
            part = layoutsolve.cut(source, start=[end])
            assert f"input {end}:" in layoutsolve.convert(part).text("graph")


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_what_is_done_with_a_part(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is compared with the part, and its certificate is checked against the part."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {
        a = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(a) s = Transpose<perm = [0, 3, 1, 2]>(r) b = Softmax(s)
        c = Transpose<perm = [0, 2, 3, 1]>(b) d = Relu(c) e = Transpose<perm = [0, 3, 1, 2]>(d) y = Neg(e) }"""
    path, written, proof = tmp_path / "a.onnx", str(tmp_path / "b.onnx"), str(tmp_path / "proof.json")
    onnx.save(onnx.parser.parse_model(text), path)
    call = [str(path), option, "b", "-o", written]
    assert main([*call, "--verify", "--verify-tensors", "--certify", proof]) == 0
    assert f"{option.removeprefix('--')} b" not in capsys.readouterr().err
    assert main([*call, "--check", proof]) == 0
    assert main([str(path), "-o", written, "--check", proof]) == 2
