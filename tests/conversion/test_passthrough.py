"""Sources in ONNX that are written as they stand: what tells of a conversion tells of them, whatever their producer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve import Conversion, no_worse
from layoutsolve.certification.audit import recount
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


@pytest.mark.members(7)
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
    for key, value in zip(provenance.KEYS, ("3", "{}", "4", '{"to":["y"]}', "{}", "0.0", "5"), strict=True):
        source.metadata_props.add(key=key, value=value)
    data = source.SerializeToString()
    found = layoutsolve.convert(data)
    assert not found.kept and found.provenance == provenance.Provenance(VERSION, Content(data).digest, "{}")


GROWING = {
    "Tile": lambda axis, rank: [1 + 3 * (each == axis) for each in range(rank)],
    "Pad": lambda axis, rank: [7 * (each == axis) for each in range(2 * rank)],
    "Expand": lambda axis, rank: [1 + 7 * (each == axis) for each in range(rank)],
}


@pytest.mark.members(4)
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


def chain(transposes: int, reshapes: int) -> onnx.ModelProto:
    """A model of so many Transposes and Reshapes, none of which undoes another one."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 5])
    nodes, data = [helper.make_node("Relu", ["x"], ["h"])], "h"
    for number in range(transposes):
        nodes.append(helper.make_node("Transpose", [data], [f"t{number}"], perm=[1, 2, 0, 3]))
        nodes.append(helper.make_node("Softmax", [f"t{number}"], [f"s{number}"], axis=number % 4))
        data = f"s{number}"
    nodes += [
        helper.make_node("Reshape", [data if not number else f"r{number - 1}", "shape"], [f"r{number}"])
        for number in range(reshapes)
    ]
    nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], ["y"]))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = onnx.numpy_helper.from_array(np.array([4, 30]), "shape")
    graph = helper.make_graph(nodes, "g", [x], [y], [shape])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


Converted = Callable[..., Conversion]


Decide = Callable[[Conversion, Converted], Conversion]


def judged(monkeypatch: pytest.MonkeyPatch, objective: str) -> tuple[Conversion, Decide]:
    """What is made of a source with two Transposes and two Reshapes, and what is decided of any other result."""
    asked: list[Any] = []

    def record(*given: Any) -> Conversion:
        asked.extend(given)
        return asked[1]

    decide = no_worse.no_worse
    monkeypatch.setattr(no_worse, "no_worse", record)
    found = layoutsolve.convert(chain(2, 2).SerializeToString(), objective=objective)
    return found, lambda other, converted: decide(asked[0], other, converted, asked[3])


def price_of_source(objective: str) -> layoutsolve.Price:
    """What the source as it stands costs."""
    rows = layoutsolve.compare(chain(2, 2).SerializeToString(), objective=objective)
    return next(row.price for row in rows if row.strategy == "transpose")


def resulting(
    found: Conversion, price: layoutsolve.Price, transposes: int, reshapes: int, hidden: int, each: int = 1 << 20
) -> Conversion:
    """A result of so many operators, and so much that is lost in kernels, which costs what the source does else, but
    for the bytes that each Transpose moves.
    """
    counts = {"transposes": transposes, "reshapes": reshapes, "hidden": hidden, "bytes": each * transposes}
    price, written = replace(price, **counts), onnx.ModelProto()
    written.CopyFrom(found.model)
    written.graph.CopyFrom(chain(transposes, reshapes).graph)
    return replace(found, model=written, assignment=replace(found.assignment, price=price))


@pytest.mark.parametrize(
    ("objective", "moved"), [("min-executed", 1 << 12), ("min-executed", 4000), ("min-transpose", 1 << 12)]
)
def test_a_result_that_is_worse_in_any_count_is_not_written(
    objective: str, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transposes count first, then Reshapes, then what kernels lose; with none of them better the source stays, unless
    less is executed at no more Transposes, or less than half by ones that move much, and that is what counts.
    """
    found, decide = judged(monkeypatch, objective)
    price = price_of_source(objective)
    lost = price.hidden
    for transposes in (1, 2, 3):
        for reshapes in (1, 2, 3):
            for hidden in {lost + 1, lost, max(lost - 1, 0), -transposes}:  # all of them executed, and none of them
                other = resulting(found, price, transposes, reshapes, hidden, moved)
                asked: list[str] = []

                def converted(again: str, asked: list[str] = asked, other: Conversion = other) -> Conversion:
                    asked.append(again)
                    return other

                got, where = decide(other, converted), (transposes, reshapes, hidden)
                share = 1 if transposes <= 2 else 2
                less = objective != "min-transpose" and share * (transposes + hidden) < 2 + lost
                less &= transposes <= 2 or moved >= no_worse.SMALL
                gains = where < (2, 2, lost) or less
                assert (got is other) == gains, where
                assert bool(got.kept) == (not gains), where
                traded = not gains and (transposes, reshapes) > (2, 2) and objective != "min-transpose"
                assert asked == ["min-transpose"] * traded, where


def test_fewest_transposes_are_taken_where_time_was_gained_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not where these few are slower than the source in all."""
    found, decide = judged(monkeypatch, "min-executed")
    price = price_of_source("min-executed")
    for hidden in range(price.hidden + 4):
        few = resulting(found, price, 1, 3, hidden)
        got = decide(resulting(found, price, 4, 0, 0), lambda again, few=few: few)
        assert (got is few) == (1 + hidden <= 2 + price.hidden) and bool(got.kept) == (got is not few)


def dft(shape: Sequence[int], axis: int, onesided: bool, inverse: bool) -> onnx.ModelProto:
    constant = onnx.numpy_helper.from_array(np.array(axis), "axis")
    attributes = {"onesided": int(onesided), "inverse": int(inverse)}
    nodes = [helper.make_node("DFT", ["x", "", "axis"], ["y"], **attributes)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in (("x", shape), ("y", None))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def short(operator: str, operand: Sequence[int]) -> onnx.ModelProto:
    """An operator of two operands, of which one has dimensions of size 1, or lacks some."""
    data = {"x": [3, 4, 5], "o": operand, "y": [3, 4, 5]}
    kinds = {"Where": {"c": (TensorProto.BOOL, [1, 1])}}.get(operator, {})
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in data.items()]
    ends += [helper.make_tensor_value_info(name, *each) for name, each in kinds.items()]
    nodes = [helper.make_node(operator, [*kinds, "x", "o"], ["y"])]
    graph = helper.make_graph(nodes, "g", [ends[0], ends[1], *ends[3:]], [ends[2]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


OPERANDS = ([], [1], [5], [1, 1], [1, 5], [4, 1], [4, 5], [1, 1, 1], [1, 4, 1], [1, 1, 5], [3, 1, 1])
SOURCES = {
    **{
        f"DFT {shape} along {axis}{' onesided' * onesided}": dft(shape, axis, onesided, False)
        for shape in ([1, 4, 6, 1], [1, 1, 6, 1], [2, 4, 6, 1], [1, 6, 1])
        for axis in range(1, len(shape) - 1)
        for onesided in (False, True)
    },
    **{f"DFT back {shape}": dft(shape, 1, False, True) for shape in ([1, 4, 6, 2], [2, 6, 2])},
    **{f"{name} {shape}": short(name, shape) for name in ("Add", "Pow", "PRelu", "Where") for shape in OPERANDS},
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_told_is_in_the_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a source of one operator, which nothing is gained of: no Transpose and no Reshape is told, nor explained."""
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(SOURCES[name].SerializeToString())
    assert main([str(source), "-o", str(out), "--json", "--explain"]) == 0
    told, written = json.loads(capsys.readouterr().out), recount(onnx.load(out))
    assert (told["transposes"], told["reshapes"], told["bytes_moved"], told["bytes_copied"]) == (0, 0, 0, 0)
    assert (written.transposes, written.reshapes) == (0, 0) and told["operators"] == 1
    assert told["explanation"] == []
    tiers = {tuple(tier["names"]): tier["value"] for tier in told["tiers"]}
    assert tiers == {**dict.fromkeys(tiers, 0), ("transposes", "hidden"): told["hidden_transposes"]}


@pytest.mark.parametrize("operator", ["Add", "Pow", "Where"])
def test_operands_keep_the_dimensions_that_they_have(operator: str) -> None:
    """Behind what is gained, none of them has a Reshape: those of size 1 that it has may be all that it needs."""
    for operand in OPERANDS:
        source = short(operator, operand)
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
            helper.make_node("Transpose", ["t"], ["u"], perm=[0, 2, 1]),
            *source.graph.node,
        ]
        nodes[-1].input[-2] = "u"
        del source.graph.node[:]
        source.graph.node.extend(nodes)
        found = layoutsolve.convert(source.SerializeToString())
        assert [node.op_type for node in found.model.graph.node] == [operator], operand
        assert found.assignment.status == "optimal" and not found.price.reshapes, operand


@pytest.mark.parametrize("idle", [False, True])
def test_products_that_become_convolutions_hide_no_folding(idle: bool) -> None:
    """A Conv more for a Mul less is no reason to keep what changes nothing; alone it is none to write the model."""
    data = {
        "scale": np.linspace(0.1, 2, 16).reshape(16, 1, 1),
        "ones": np.ones((16, 1, 1)),
    }
    nodes = [
        helper.make_node("AveragePool", ["x"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sub", ["p", "x"], ["a"]),
        helper.make_node("Mul", ["scale", "a"], ["b"]),
        helper.make_node("Add", ["x", "b"], ["c"]),
        *([helper.make_node("Mul", ["c", "ones"], ["d"])] if idle else []),
        helper.make_node("Sigmoid", ["d" if idle else "c"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 16, 16]) for name in "xy"]
    constants = [onnx.numpy_helper.from_array(each.astype(np.float32), name) for name, each in data.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    found = layoutsolve.convert(source)
    kinds = [node.op_type for node in found.model.graph.node]
    assert (kinds == [node.op_type for node in nodes], bool(found.kept)) == (not idle, not idle)
    assert not idle or kinds == ["AveragePool", "Sub", "Conv", "Add", "Sigmoid"]
