"""What a source in ONNX says of itself is in the result: names, texts, names of axes, sizes of outputs, versions. With
the variable LAYOUTSOLVE_ONNX, a folder, that is tested of the models in it as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, version_converter

import layoutsolve
from experiments.make.exporter_networks import FAMILIES, network
from layoutsolve.emit.older_opsets import bring
from layoutsolve.emit.opset import ir_version
from layoutsolve.errors import ConversionError, OptionError
from layoutsolve.proto.messages import opset_of
from layoutsolve.proto.scopes import nodes_of
from tests.frontend.onnx.losses import DATED, losses
from tests.random_onnx import random_model

FOLDER = os.environ.get("LAYOUTSOLVE_ONNX")
FILES = sorted(Path(FOLDER).rglob("*.onnx")) if FOLDER else []


def told(model: onnx.ModelProto) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Texts of a model and of what is in it, by kind and name."""
    graph = model.graph
    yield "model", "", model.doc_string, ()
    yield "graph", graph.name, graph.doc_string, tuple(f"{each.key}={each.value}" for each in graph.metadata_props)
    kinds = {"input": graph.input, "output": graph.output, "initializer": graph.initializer, "node": nodes_of(graph)}
    for kind, items in kinds.items():
        for each in items:
            yield kind, each.name, each.doc_string, tuple(f"{each.key}={each.value}" for each in each.metadata_props)


def with_texts(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with a text for everything that may have one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.ir_version, made.doc_string, made.graph.doc_string = 10, "of the model", "of the graph"
    items = [made.graph, *made.graph.input, *made.graph.output, *made.graph.initializer, *made.graph.node]
    for number, each in enumerate(items):
        each.doc_string = f"text {number}"
        each.metadata_props.add(key="number", value=str(number))
        if isinstance(each, onnx.NodeProto):
            each.name = f"node_{number}"
    return made


@pytest.mark.parametrize("seed", range(12))
def test_texts(seed: int) -> None:
    """Inputs, outputs and initializers of a name keep theirs; nodes have that of the one they come from, or none."""
    source = with_texts(random_model(seed)[1])
    conversion = layoutsolve.convert(source.SerializeToString())
    written = conversion.model
    before = {(kind, name): (text, facts) for kind, name, text, facts in told(source)}
    assert written.ir_version == 10
    for kind, name, text, facts in told(written):
        origin = conversion.origins.get(name)
        called = name if origin is None or (kind, name) in before else origin.name
        wanted = before.get((kind, called), ("", ()))
        moves = kind == "node" and not text
        assert (text, facts) == (("", ()) if moves else wanted), (kind, name)
    nodes = [text for kind, _, text, _ in told(written) if kind == "node"]
    assert not nodes or sum(map(bool, nodes)) * 2 >= len(nodes)


def in_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A model of opset 18 in another one, the next one that has its operators."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    if version > opset_of(model):
        made = version_converter.convert_version(made, version)
    while version < opset_of(made):
        try:
            bring(made, opset_of(model), version, {})
        except OptionError:
            version += 1
    made.ir_version = ir_version(opset_of(made))
    return made


def check_nothing_lost(source: onnx.ModelProto, found: layoutsolve.Conversion) -> None:
    """Nothing of a source is lost but its opset, and the IR version with it, where that is told."""
    lost = losses(source, found.model)
    told = found.newer_opset
    assert not [each for each in lost if told is None or each[0] not in DATED]
    if told is not None and not found.kept:
        assert told[0] == opset_of(source) < opset_of(found.model)
        assert told[0] < 11 or any(told[1] == node.op_type for node in nodes_of(found.model.graph))


@pytest.mark.members(14)
@pytest.mark.parametrize("seed", range(22))
def test_nothing_is_lost_in_any_opset(seed: int) -> None:
    """Operators are as they are in the source's own operator set, wherever it has them."""
    source = with_texts(in_opset(random_model(seed, dynamic=seed % 2 > 0)[1], 11 + seed % 11))
    check_nothing_lost(source, layoutsolve.convert(source.SerializeToString()))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_nothing_is_lost_of_what_exporters_write(family: object) -> None:
    source = with_texts(in_opset(network(family, 0), 17))  # type: ignore[arg-type]
    check_nothing_lost(source, layoutsolve.convert(source.SerializeToString()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_lost_of_models(path: Path) -> None:
    try:
        found = layoutsolve.convert(path)
    except ConversionError as error:
        pytest.skip(str(error).splitlines()[-1].strip()[:120])
    check_nothing_lost(onnx.load(path, load_external_data=False), found)


@pytest.mark.skipif(bool(FILES), reason=f"{len(FILES)} models are tested")
def test_models_are_given() -> None:
    pytest.skip(f"{len(FILES)} models: LAYOUTSOLVE_ONNX names no folder of any")


OLDER = """<ir_version: 7, opset_import: ["" : {}]> g (float[n, 6, 8] x) => (float[n, 6, 8] y)
    <float two = {{2}}, float tiny = {{0.00001}}> {{ m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Pow(d, two)
    v = ReduceMean<axes = [-1]>(q) e = Add(v, tiny) s = Sqrt(e) c = Div(d, s)
    r = Transpose<perm = [0, 2, 1]>(c) y = Transpose<perm = [0, 2, 1]>(r) }}"""


def test_a_newer_opset_is_told(tmp_path: Path) -> None:
    """Where a rewriting needs it: in the summary, and in what is reported."""
    source = onnx.parser.parse_model(OLDER.format(10))
    found = layoutsolve.convert(source.SerializeToString())
    facts = (found.report[key] for key in ("opset", "source_opset", "opset_needed_by"))
    assert tuple(facts) == (17, 10, "LayerNormalization")
    onnx.save(source, tmp_path / "x.onnx")
    run = subprocess.run([sys.executable, "-m", "layoutsolve", "x.onnx"], cwd=tmp_path, capture_output=True, text=True)
    assert "opset 10 of the source is 17, as LayerNormalization needs it (--opset 10)" in run.stdout
    older = layoutsolve.convert(source.SerializeToString(), opset=13)
    assert older.opset == 13 and layoutsolve.verify(source, older).verdict == "pass"


def test_a_node_that_becomes_another_keeps_its_text() -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4, 1, 1], [0.1] * 16, False)
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], "t", perm=[0, 3, 1, 2], doc_string="there"),
        helper.make_node("Conv", ["a", "w"], ["b"], "conv", doc_string="a product"),
        helper.make_node("Transpose", ["b"], ["y"], "u", perm=[0, 2, 3, 1]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8, 8, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = layoutsolve.convert(model.SerializeToString()).model
    assert [(node.op_type, node.doc_string) for node in found.graph.node] == [("MatMul", "a product")]
    assert found.ir_version == 9


def sizes(ports: object) -> list[list[int | str]]:
    return [[dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in ports]  # type: ignore[attr-defined]


@pytest.mark.parametrize("swapped", [False, True])
def test_names_of_axes(swapped: bool) -> None:
    """Two sizes that have to be equal are called as an input calls its own, not as what is found within."""
    add = "y = Add(e, x)" if swapped else "y = Add(x, e)"
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[batch, 4] x, int64[k] s) => (float[batch, 4] y)
        {{ f = Expand(x, s) g = NonZero(f) c = Cast<to = 1>(g) r = Transpose<perm = [1, 0]>(c)
        w = Constant<value = float[2, 4] {{1, 1, 1, 1, 1, 1, 1, 1}}>() e = MatMul(r, w) {add} }}"""
    found = layoutsolve.convert(onnx.parser.parse_model(text).SerializeToString()).model
    assert sizes(found.graph.input)[0] == ["batch", 4] and sizes(found.graph.output) == [["batch", 4]]


def test_sizes_of_outputs_that_nobody_infers() -> None:
    """They stay as stated, but where the output is stored otherwise than in the source."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1, 4, 8, 8] x, int64[4] s) => (float[n, 4, 8, 3] y)
        { a = Relu(x) y = Reshape(a, s) }"""
    source = onnx.parser.parse_model(text).SerializeToString()
    assert sizes(layoutsolve.convert(source).model.graph.output) == [["n", 4, 8, 3]]
    moved = layoutsolve.convert(source, outputs="nhwc").model
    assert sizes(moved.graph.output)[0] != ["n", 4, 8, 3]
    wrong = text.replace("float[n, 4, 8, 3] y", "float[7, 4, 8, 3] y").replace(
        "y = Reshape(a, s)", "b = Transpose<perm = [0, 2, 3, 1]>(a) y = Transpose<perm = [0, 3, 1, 2]>(b)"
    )
    assert sizes(layoutsolve.convert(onnx.parser.parse_model(wrong).SerializeToString()).model.graph.output) == [
        [1, 4, 8, 8]
    ]
