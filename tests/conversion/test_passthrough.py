"""Sources in ONNX that are written as they stand: what tells of a conversion tells of them, whatever their producer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.conversion import provenance
from layoutsolve.io.source import Content
from layoutsolve.version import VERSION
from tests.frontend.onnx.test_flow import alike

METADATA = {
    "none": {},
    "foreign": {"author": "somebody", "layoutsolve": "is no key of ours"},
    "partial": {provenance.DIGEST: "0" * 64, provenance.TARGET: "1" * 64},
    "strange": {provenance.OPTIONS: "[", provenance.RETURNED: "7"},
    "written": {provenance.WRITTEN: "2" * 64, provenance.OPTIONS: "5"},
    "empty": {provenance.RETURNED: "", provenance.OPTIONS: ""},
}
PRODUCERS = ("", "pytorch", "layoutsolve")


def model(kind: str, ir: int = 10, opset: int = 18) -> onnx.ModelProto:
    """A model that nothing is gained of: an operator, a function, branches, weights, nothing at all."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None if kind == "function" else [1, 2, 3, 4])
    imports, weights, functions = [helper.make_opsetid("", opset)], [], []
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    if kind == "function":
        own = [helper.make_node("Relu", ["a"], ["b"])]
        imports.append(helper.make_opsetid("own", 1))
        functions = [helper.make_function("own", "Mine", ["a"], ["b"], own, imports[:1])]
        nodes = [helper.make_node("Mine", ["x"], ["y"], domain="own")]
    elif kind == "weights":
        weights = [onnx.numpy_helper.from_array(np.ones((1, 2, 3, 4), "float32"), "w")]
        nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    elif kind == "branches":
        ways = [
            helper.make_graph(
                [helper.make_node(name, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)]
            )
            for name in ("Relu", "Abs")
        ]
        given = onnx.numpy_helper.from_array(np.ones((), bool), "given")
        condition = helper.make_tensor_value_info("given", TensorProto.BOOL, [])
        nodes = [helper.make_node("If", ["given"], ["y"], then_branch=ways[0], else_branch=ways[1])]
        graph = helper.make_graph(nodes, "g", [x, condition], [y], [given] if ir > 3 else [])
        return helper.make_model(graph, opset_imports=imports, ir_version=ir)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir)


def told(source: bytes, place: Path) -> None:
    """All that tells of a conversion does so of one that is written as it stands, in a program and on command lines."""
    conversion = layoutsolve.convert(source)
    assert conversion.kept
    again = layoutsolve.provenance(conversion.content(""))
    assert conversion.provenance == again and again.version == VERSION
    assert again.source == Content(source).digest and again.options == {}
    assert layoutsolve.convert(source, **again.options).content("") == conversion.content("")
    assert "layoutsolve report" in layoutsolve.report(source, conversion)
    assert str(conversion.explain()) and conversion.report and repr(conversion) and conversion._repr_html_()
    given, written, page = place / "m.onnx", place / "out.onnx", place / "r.html"
    given.write_bytes(source)
    assert main([str(given), "-o", str(written), "--report", str(page), "--explain"]) == 0
    assert main(["info", str(written)]) == 0
    twice = layoutsolve.convert(written)  # which says the same as before
    assert twice.kept and twice.provenance == again and twice.content("") == written.read_bytes()
    known = {each.key for each in onnx.load_from_string(source).metadata_props} - set(provenance.KEYS)
    assert known <= {each.key for each in onnx.load(written).metadata_props}
    for refused in (layoutsolve.certify, layoutsolve.plan):
        with pytest.raises(layoutsolve.ConversionError, match="returned unchanged"):
            refused(source, conversion)


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", METADATA)
def test_whatever_the_metadata_say(
    name: str, producer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = model("relu")
    source.producer_name, source.producer_version = producer, "0.0" if producer else ""
    for key, value in METADATA[name].items():
        source.metadata_props.add(key=key, value=value)
    told(source.SerializeToString(), tmp_path)
    assert f"made by layoutsolve {VERSION}: layoutsolve MODEL" in capsys.readouterr().out


@pytest.mark.parametrize("ir", [3, 4, 7, 8, 10, 11])
@pytest.mark.parametrize("kind", ["relu", "weights", "function", "branches"])
def test_whatever_the_version(kind: str, ir: int, tmp_path: Path) -> None:
    if (kind == "function" and ir < 8) or (kind == "weights" and ir < 4):
        pytest.skip("ONNX has this from a later version on")
    told(model(kind, ir, 18 if ir > 7 else 13 if ir > 3 else 8).SerializeToString(), tmp_path)


def test_what_was_made_otherwise_is_not_told_on(tmp_path: Path) -> None:
    """A model of a source that was written as it stands, or for a target of one's own, says how it was made itself."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4, 5]) for name in "xy")
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[0, 3, 1, 2]),
    ]
    source = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    source.ir_version = 10
    for key, value in zip(provenance.KEYS, ("3", "{}", "4", "0.0", "5"), strict=True):
        source.metadata_props.add(key=key, value=value)
    data = source.SerializeToString()
    found = layoutsolve.convert(data)
    assert not found.kept and found.provenance == provenance.Provenance(VERSION, Content(data).digest, "{}")


GROWING = {
    "Tile": lambda axis, rank: [1 + 3 * (each == axis) for each in range(rank)],
    "Pad": lambda axis, rank: [7 * (each == axis) for each in range(2 * rank)],
    "Expand": lambda axis, rank: [1 + 7 * (each == axis) for each in range(rank)],
}


@pytest.mark.parametrize("objective", ["min-bytes", "min-transpose"])
@pytest.mark.parametrize("operator", [*GROWING, "Slice"])
def test_as_many_transposes_may_move_fewer_bytes(operator: str, objective: str) -> None:
    """A Transpose on the larger side of an operator goes to the smaller one, though there are no fewer."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        rank = int(random.integers(2, 5))
        shape = [int(size) for size in random.permutation([3, 4, 5, 6])[:rank]]
        axis, perm = int(random.integers(rank)), list(map(int, np.roll(range(rank), 1)))
        if operator not in GROWING:
            rank, shape, perm = rank + 2, [*shape, 7, 8], [*range(rank + 1, -1, -1)]
        if operator == "Expand":
            shape[axis], perm = 1, [rank - 1, *range(1, rank - 1), 0] if axis in (0, rank - 1) else perm
            rank, shape, perm = rank + 2, [*shape, 7, 8], [*perm, rank + 1, rank]
        bounds = [np.array([each]) for each in (0, 2, axis)]
        given = [np.array(GROWING[operator](axis, rank))] if operator in GROWING else bounds
        held = [onnx.numpy_helper.from_array(each.astype(np.int64), f"c{at}") for at, each in enumerate(given)]
        own = helper.make_node(operator, ["a", *(each.name for each in held)], ["b"])
        transposed = helper.make_node("Transpose", ["a"], ["b"], perm=perm)
        nodes = [own, transposed] if operator in GROWING else [transposed, own]
        nodes = [helper.make_node("Relu", ["x"], ["t0"]), *nodes, helper.make_node("Tanh", ["t2"], ["y"])]
        for at, node in enumerate(nodes[1:3]):
            node.input[0], node.output[0] = f"t{at}", f"t{at + 1}"
        ends = [helper.make_tensor_value_info(*each) for each in (("x", 1, shape), ("y", 1, [None] * rank))]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
        source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        typed = onnx.shape_inference.infer_shapes(source, data_prop=True)
        source.graph.output[0].CopyFrom(typed.graph.output[0])
        sizes = {
            each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in typed.graph.value_info
        }
        found = layoutsolve.convert(source.SerializeToString(), objective=objective)
        assert found.price.bytes == 4 * min(np.prod(shape), np.prod(sizes["t2"])), (operator, seed)
        assert found.price.transposes == 1 and not found.kept


@pytest.mark.parametrize("seed", range(20))
def test_transposes_of_constants_are_none_of_its_operators(seed: int) -> None:
    """Where a source is written as it stands no Transpose is left that alone reads a constant, or one in a row of
    these; what others read as well, or an output is, stays. The same is computed.
    """
    rng = np.random.default_rng(seed)
    shape = [int(each) for each in rng.integers(2, 5, 4)]
    nodes, weights, kinds = [], [], [int(each) for each in rng.integers(0, 4, 3)]
    outputs, data = [helper.make_tensor_value_info("y", 1, shape)], "x"
    for number, kind in enumerate(kinds):
        first, second = (tuple(map(int, rng.permutation(4))) for _ in range(2))
        stored = [shape[second.index(axis)] for axis in range(4)]
        stored = [stored[first.index(axis)] for axis in range(4)]
        slope = rng.uniform(-1, 1, stored).astype("float32")
        weights.append(onnx.numpy_helper.from_array(slope, f"w{number}"))
        nodes += [
            helper.make_node("Transpose", [f"w{number}"], [f"a{number}"], perm=first),
            helper.make_node("Transpose", [f"a{number}"], [f"b{number}"], perm=second),
            helper.make_node("PRelu", [data, f"b{number}"], [f"h{number}"]),
        ]
        data = f"h{number}"
        if kind == 1:  # another reader
            nodes.append(helper.make_node("Relu", [f"w{number}"], [f"z{number}"]))
            outputs.append(helper.make_tensor_value_info(f"z{number}", 1, stored))
        elif kind == 2:  # an output
            outputs.append(helper.make_tensor_value_info(f"b{number}", 1, shape))
    nodes.append(helper.make_node("Identity", [data], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, shape)], outputs, weights)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = layoutsolve.convert(source.SerializeToString())
    assert found.kept
    left = sum(node.op_type == "Transpose" for node in found.model.graph.node)
    assert left == sum({0: 0, 1: 2, 2: 1, 3: 0}[kind] for kind in kinds)
    given = {"x": rng.uniform(-1, 1, shape).astype("float32")}
    alike(source, found.model, given)
    again = layoutsolve.convert(found.model.SerializeToString())
    assert again.model.graph.node == found.model.graph.node
