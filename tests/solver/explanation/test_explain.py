"""Explanations: every Transpose and Reshape of the file, the demands that conflict there, and what would help."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.emit import apply
from layoutsolve.inspection.explanation import Explanation, asked
from layoutsolve.ir.graph import Graph, Node, Origin
from layoutsolve.solver import OBJECTIVES, Boundary, assign
from layoutsolve.solver.explanation import remedy
from layoutsolve.solver.explanation.explain import Explained, dimensions, explain
from layoutsolve.solver.statement.assignment import Assignment
from tests.graphs import GraphBuilder
from tests.networks import Quantized

TITLES = {"Conv": "CONV_2D", "Gemm": "FULLY_CONNECTED", "Concat": "CONCATENATION"}


def titled(graph: Graph) -> Graph:
    """The graph with origins: a node between two Transposes of a pattern is one operator with them."""
    nodes: list[Node] = []
    rest, index = list(graph.nodes), 0
    while rest:
        count = 3 if rest[0].pattern else 1
        op = rest[count // 2].op
        origin = Origin(0, index, TITLES.get(op, op.upper()))
        nodes += [replace(node, origin=origin) for node in rest[:count]]
        rest, index = rest[count:], index + 1
    return replace(graph, nodes=tuple(nodes))


def explained(graph: Graph, boundary: Boundary | None = None, objective: str = "min-transpose") -> list[Explained]:
    """All that is explained, which is all that the file has."""
    given = boundary or Boundary()
    found = assign(graph, given, objective=objective)
    items = list(explain(graph, given, found))
    written = Counter(node.op for node in apply(found).nodes)
    assert Counter(item.operator for item in items) == Counter(
        {op: written[op] for op in ("Transpose", "Reshape") if written[op]}
    )
    assert sum(item.bytes for item in items) == found.price.bytes
    return items


def transposes(graph: Graph, boundary: Boundary | None = None) -> list[Explained]:
    return [item for item in explained(graph, boundary) if item.operator == "Transpose"]


def parties(item: Explained) -> tuple[str, str]:
    """The two operators that disagree."""
    assert item.gives is not None
    assert item.wants is not None
    return item.gives.operator, item.wants.operator


def helps(item: Explained) -> list[tuple[str, int]]:
    return [(" and ".join(map(asked, found.changes)), found.transposes) for found in item.remedies]


def test_conv_relu_conv() -> None:
    """One Transpose at each end, each removed by a choice for its end."""
    b = GraphBuilder()
    y = b.conv(b.relu(b.conv(b.input(1, 8, 8, 4, name="image"), 6, 3)), 5, 3)
    first, last = transposes(titled(b.graph(y)))
    assert parties(first) == ("input image", "CONV_2D#0")
    assert (first.tensor, first.after, first.before) == ("image", "input image", ("CONV_2D#0",))
    assert (first.permutation, first.bytes) == ((0, 3, 1, 2), 1024)
    assert (first.source, first.target) == (("1", "8", "8", "4"), ("1", "4", "8", "8"))
    assert (first.held, first.wanted) == ("0 1 2 3", "0 3 1 2")
    assert helps(first) == [("--input image=nchw", 1)]
    assert parties(last) == ("CONV_2D#2", f"output {y}")
    assert helps(last) == [(f"--output {y}=nchw", 1)]
    assert not (first.necessary or last.necessary)


def test_demands_are_found_behind_operators_that_follow() -> None:
    """Between the end and the convolution lie operators that take any layout."""
    b = GraphBuilder()
    x = b.input(1, 8, 8, 4, name="image")
    x = b.relu(x)
    z = b.relu(b.relu(x))
    graph = titled(b.graph(b.conv(x, 6, 3), z))
    first = transposes(graph)[0]
    assert parties(first) == ("input image", "CONV_2D#3")
    assert first.gives is not None
    assert first.wants is not None
    assert (first.after, first.before) == ("RELU#0", ("CONV_2D#3",))
    assert (first.gives.through, first.wants.through) == (("RELU#0",), ())
    assert helps(first) == [(f"--input image=nchw and --output {z}=nchw", 1)]


def test_demands_are_found_inside_loops() -> None:
    """What a loop carries goes from a softmax to a convolution in its body."""
    b = GraphBuilder()
    x = b.op("Softmax", b.input(1, 8, 8, 4, name="image"), shape=(1, 8, 8, 4), axis=3)
    (y,) = b.loop(2, lambda now: [b.conv(now, 4, 3)], x)
    items = [item for item in explained(titled(b.graph(y)), objective="min-executed") if item.operator == "Transpose"]
    assert [parties(item) for item in items] == [("SOFTMAX#0", "CONV_2D#6"), ("CONV_2D#6", f"output {y}")]
    assert items[0].wants is not None
    assert items[0].wants.through == ("CARRY#3",)


def test_shuffle_between_grouped_convolutions() -> None:
    """Both want their own group outermost: nothing at the ends helps, and both are named."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 6), 6, 3, group=2)
    x = b.transpose(b.reshape(x, 1, 8, 8, 2, 3), 0, 1, 2, 4, 3)
    y = b.conv(b.conv(b.reshape(x, 1, 8, 8, 6), 6, 3, group=6), 4, 3, group=2)
    items = transposes(titled(b.graph(y)))
    assert len(items) == 3
    (inner,) = (item for item in items if not item.remedies)
    assert inner.necessary
    assert parties(inner) == ("CONV_2D#0", "CONV_2D#5")
    assert "between CONV_2D#0 and CONV_2D#5" in str(Explanation((inner,)))
    assert "3.1" in inner.held + inner.wanted


def test_necessary_is_what_the_objective_proves() -> None:
    """Where Transposes and Reshapes are one sum, an answer with fewer Transposes may be as good."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 6), 6, 3, group=2)
    x = b.transpose(b.reshape(x, 1, 8, 8, 2, 3), 0, 1, 2, 4, 3)
    graph = b.graph(b.conv(b.conv(b.reshape(x, 1, 8, 8, 6), 6, 3, group=6), 4, 3, group=2))
    for objective in OBJECTIVES:
        found = assign(graph, objective=objective)
        items = [item for item in explain(graph, Boundary(), found) if item.operator == "Transpose"]
        alone = ("transposes",) in found.goal.levels
        assert any(item.necessary for item in items) == (found.status == "optimal" and alone)


def test_explicit_layout_inside() -> None:
    """A layout that the user gave is a demand, and giving it up helps."""
    b = GraphBuilder()
    y = b.conv(b.input(1, 4, 4, 3), 6, 3)
    z = b.conv(y, 2, 3)
    items = transposes(titled(b.graph(z)), Boundary("nchw", "nchw", {y: ("NHWC", "NWHC")}))
    assert [parties(item) for item in items] == [("CONV_2D#0", f"layout of {y}")]
    assert helps(items[0]) == [(f"no --layout for {y}", 0)]


def test_explicit_layout_of_an_end() -> None:
    b = GraphBuilder()
    y = b.conv(b.input(1, 4, 4, 3, name="image"), 6, 3)
    (item,) = transposes(titled(b.graph(y)), Boundary("keep", "nchw", {"image": ("NHWC", "NWHC")}))
    assert helps(item) == [("--input image=nchw instead of its --layout", 0)]


def test_ends_that_help_only_together() -> None:
    """Two outputs want the same order: to change one of them is of no use."""
    b = GraphBuilder()
    y = b.conv(b.input(1, 8, 8, 4, name="image"), 6, 3)
    z = b.relu(y)
    graph = titled(b.graph(y, z))
    assert assign(graph, Boundary("nchw", {z: "nchw"})).price.transposes == 1
    (item,) = transposes(graph, Boundary("nchw"))
    assert helps(item) == [(f"--output {y}=nchw and --output {z}=nchw", 0)]


def ssd(anchors: tuple[int, int]) -> Graph:
    b = GraphBuilder()
    first = b.conv(b.input(1, 8, 8, 4, name="image"), anchors[0] * 4, 3)
    pooled = b.channels_last("MaxPool", first, shape=(1, 4, 4, anchors[0] * 4), kernel_shape=[2, 2], strides=[2, 2])
    second = b.conv(pooled, anchors[1] * 4, 3)
    rows = (64 * anchors[0], 16 * anchors[1])
    boxes = [b.reshape(x, 1, count, 4) for x, count in zip((first, second), rows, strict=True)]
    return titled(b.graph(b.op("Concat", *boxes, shape=(1, sum(rows), 4), axis=1)))


@pytest.mark.parametrize(("anchors", "heads"), [((3, 3), 1), ((3, 2), 2)])
def test_ssd_head(anchors: tuple[int, int], heads: int) -> None:
    """The image's Transpose goes with its end; those of the head stay, since rows of boxes are one dimension."""
    image, *rest = transposes(ssd(anchors))
    assert helps(image) == [("--input image=nchw", heads)]
    assert len(rest) == heads
    assert all(item.necessary and not item.remedies for item in rest)
    assert {item.gives.kind for item in rest if item.gives} == {"operator"}


def test_concatenation_in_steps() -> None:
    """A step is called as the operator that it is a part of."""
    b = GraphBuilder()
    x, rows = b.input(1, 8, 8, 4, name="image"), []
    for count in (3, 3, 2):
        x = b.conv(x, count * 4, 3)
        rows.append(b.reshape(x, 1, 64 * count, 4))
    _, *rest = transposes(titled(b.graph(b.op("Concat", *rows, shape=(1, 512, 4), axis=1))))
    assert sorted((item.after, item.before) for item in rest) == [
        ("CONCATENATION#6", ("CONCATENATION#6",)),
        ("CONV_2D#4", ("CONCATENATION#6",)),
    ]


def test_reshapes_have_demands_too() -> None:
    b = GraphBuilder()
    x = b.conv(b.input(2, 4, 4, 4), 6, 3)
    items = explained(titled(b.graph(b.dense(b.reshape(x, 2, 96), 10))))
    (item,) = (item for item in items if item.operator == "Reshape")
    assert parties(item) == ("CONV_2D#0", "FULLY_CONNECTED#2")
    assert (item.bytes, item.permutation, item.remedies) == (0, None, ())
    assert (item.held, item.wanted) == ("0 3 1 2", "0 3*1*2")


def test_nothing_to_explain() -> None:
    b = GraphBuilder()
    assert explained(b.graph(b.relu(b.input(2, 3)))) == []
    assert str(Explanation(())) == "no Transpose and no Reshape is left"


@pytest.mark.parametrize("strategy", ["transpose", "propagate"])
def test_heuristics_prove_nothing(strategy: str) -> None:
    """What a heuristic leaves is explained as well; where the solver needs less, that is the remedy."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 4), 6, 3)
    x = b.transpose(b.relu(b.transpose(x, 0, 2, 1, 3)), 0, 2, 1, 3)
    graph = titled(b.graph(b.conv(x, 5, 3)))
    found = assign(graph, strategy=strategy)
    items = explain(graph, Boundary(), found)
    written = Counter(node.op for node in apply(found).nodes)
    assert sum(item.operator == "Transpose" for item in items) == written["Transpose"] > 2
    assert not any(item.necessary for item in items)
    moved = [item for item in items if item.held]
    assert all(helps(item) == [("--strategy cpsat", 2)] for item in items)
    assert all("within the ONNX form of" in str(Explanation((item,))) for item in items if item not in moved)


def test_few_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ends there are, a model is solved again eight times at most, and what was not tried is not said."""
    b = GraphBuilder()
    graph = titled(b.graph(*(b.conv(b.input(1, 4, 4, 3), 5, 3) for _ in range(6))))
    found = assign(graph)
    solves = []

    def counted(*arguments: object, **options: object) -> Assignment:
        solves.append(options)
        return assign(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(remedy, "assign", counted)
    items = explain(graph, Boundary(), found)
    assert len(items) == 12
    assert len(solves) == remedy.SOLVES
    assert sum(bool(item.remedies) for item in items) == remedy.SOLVES - 1
    assert not any(item.necessary for item in items)


def test_dimensions() -> None:
    logical = ((), (0,), (1,), (2, 3))
    assert dimensions(logical, ((), (2, 3), (0,), (1,))) == "0 3 1 2"
    assert dimensions(logical, ((), (3, 2), (0,), (1,))) == "- 3.1*3.0 1 2"
    assert dimensions(logical, ((2,), (3, 0, 1))) == "3.0 3.1*1*2"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = Quantized()
    x = net.conv(net.input(1, 8, 8, 3), 8, dilation=(2, 2), activation="RELU")
    x = net.conv(net.depthwise(x), 8, 1)
    path = tmp_path_factory.mktemp("demo") / "demo.tflite"
    path.write_bytes(net.model(net.mean(x, 1, 2)).source)
    return path


def test_demo(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quantized network: the image is moved as int8, and to take it channels-first would avoid that."""
    explanation = layoutsolve.convert(demo).explain()
    item, mean = explanation.operators
    assert (mean.operator, parties(mean)[0]) == ("Reshape", "MEAN#3")
    assert parties(item) == ("input t0", "CONV_2D#0")
    assert item.bytes == 8 * 8 * 3
    assert helps(item) == [("--input t0=nchw", 0)]
    assert main([str(demo), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "  Transpose [1, 8, 8, 3] to [1, 3, 8, 8], permutation 0 3 1 2, 192 bytes\n" in out
    assert "with --input t0=nchw: 0 Transposes in all" in out


def test_demo_as_json(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(demo), "--explain", "--json"]) == 0
    item, _ = json.loads(capsys.readouterr().out)["explanation"]
    assert (item["operator"], item["permutation"]) == ("Transpose", [0, 3, 1, 2])
    assert item["gives"]["kind"] == "input"
    assert item["remedies"] == [
        {"changes": [{"kind": "input", "tensor": "t0", "choice": "nchw", "instead": False}], "transposes": 0}
    ]
    assert main([str(demo), "--json"]) == 0
    assert "explanation" not in json.loads(capsys.readouterr().out)


def test_the_remedy_is_true(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line takes the advice as it is printed."""
    item, _ = layoutsolve.convert(demo).explain().operators
    assert main([str(demo), *asked(item.remedies[0].changes[0]).split(), "--explain", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["transposes"], [each["operator"] for each in report["explanation"]]) == (0, ["Reshape"])
