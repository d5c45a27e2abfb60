"""Explicit layouts: stored as asked, computing the same, refused where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.errors import LayoutError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import Assignment, Boundary, assign
from layoutsolve.solver.statement.boundary import Ends
from tests.graphs import GraphBuilder, feeds, run


def convert(graph: Graph, boundary: Boundary, stored: Mapping[str, tuple[int, ...]]) -> tuple[Graph, Assignment]:
    """Assign and apply; the result must compute the reference with inputs and outputs stored as ``stored`` says."""
    found = assign(graph, boundary)
    applied = apply(found)
    data = feeds(graph)
    moved = [x.transpose(stored.get(name, range(x.ndim))) for name, x in zip(graph.inputs, data, strict=True)]
    results = run(applied, moved)
    for name, expected, result in zip(graph.outputs, run(graph, data), results, strict=True):
        np.testing.assert_allclose(
            result, expected.transpose(stored.get(name, range(expected.ndim))), rtol=1e-4, atol=1e-5
        )
    return applied, found


def test_add_only() -> None:
    """Nothing in the graph has a format of its own: the asked layout spreads, and nothing moves."""
    b = GraphBuilder()
    x, y = b.input(2, 3, 4, 5), b.input(2, 3, 4, 5)
    z = b.add(b.add(x, y), b.weights(5))
    nchw = dict.fromkeys((x, y, z), ("NHWC", "NCHW"))
    applied, found = convert(b.graph(z), Boundary(layouts=nchw), dict.fromkeys((x, y, z), (0, 3, 1, 2)))
    assert (found.price.transposes, found.price.reshapes) == (0, 0)
    assert applied.values[z].shape == (2, 5, 3, 4)


def test_layouts_of_any_rank() -> None:
    b = GraphBuilder()
    x = b.input(1, 2, 3, 4, 5)
    y = b.relu(x)
    boundary = Boundary(layouts={x: ("NHWDC", "NDCHW"), y: ("NHWDC", "CHWDN")})
    _, found = convert(b.graph(y), boundary, {x: (0, 3, 4, 1, 2), y: (4, 1, 2, 3, 0)})
    assert found.price.transposes == 1


def test_reshape_then_concat() -> None:
    """``{graph} -> A -> Reshape -> B; (B, C) -> Concat -> D``: asking for B and C in one order joins them in it."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 4, 4, 3), 6, 3)
    flat = b.reshape(x, 1, 16, 6)
    c = b.input(1, 8, 6)
    d = b.op("Concat", flat, c, shape=(1, 24, 6), axis=1)
    boundary = Boundary(layouts={flat: ("NWC", "NCW"), c: ("NWC", "NCW"), d: ("NWC", "NCW")})
    applied, found = convert(b.graph(d), boundary, {c: (0, 2, 1), d: (0, 2, 1)})
    assert found.price.transposes == 1
    assert applied.values[flat].shape == (1, 6, 16)


@pytest.mark.parametrize("constant", [True, False])
def test_broadcast(constant: bool) -> None:
    """A[2,3,4,5] is stored as [2,5,3,4]; B[4,5] follows at no price if it is constant, for a Transpose if it is
    given.
    """
    b = GraphBuilder()
    x = b.input(2, 3, 4, 5)
    y = b.weights(4, 5) if constant else b.input(4, 5)
    z = b.op("Add", x, y, shape=(2, 3, 4, 5))
    boundary = Boundary(layouts={x: ("NHWC", "NCHW"), z: ("NHWC", "NCHW")})
    _, found = convert(b.graph(z), boundary, {x: (0, 3, 1, 2), z: (0, 3, 1, 2)})
    assert found.price.transposes == (0 if constant else 1)


def test_inner_tensor() -> None:
    """The tensor of that name is in the file in the asked layout, whatever it costs."""
    b = GraphBuilder()
    y = b.conv(b.input(1, 4, 4, 3), 6, 3)
    z = b.conv(y, 2, 3)
    applied, found = convert(b.graph(z), Boundary(layouts={y: ("NHWC", "NWHC")}), {})
    assert applied.values[y].shape == (1, 4, 4, 6)
    assert found.price.transposes == 3


@pytest.mark.parametrize(
    ("inputs", "outputs", "transposes"),
    [("nchw", "keep", 1), ("nchw", "nchw", 0), ("free", "free", 0), ("nhwc", "nhwc", 2)],
)
def test_ends(inputs: str, outputs: str, transposes: int) -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 3)
    y = b.conv(x, 6, 3)
    planes = (0, 3, 1, 2)
    stored = {name: planes for name, choice in ((x, inputs), (y, outputs)) if choice in ("nchw", "free")}
    _, found = convert(b.graph(y), Boundary(inputs, outputs), stored)
    assert found.price.transposes == transposes


def two_inputs() -> Graph:
    """``left`` and ``right`` are convolved and added; ``sum`` is the result."""
    b = GraphBuilder()
    left, right = b.input(1, 4, 4, 3, name="left"), b.input(1, 4, 4, 2, name="right")
    total = b.add(b.conv(left, 6, 3), b.conv(right, 6, 3))
    graph = b.graph(total)
    return Graph(graph.name, graph.values, graph.nodes, graph.inputs, graph.outputs, {"right": "depth", total: "sum"})


PLANES = (0, 3, 1, 2)


@pytest.mark.parametrize(
    ("inputs", "outputs", "stored", "transposes"),
    [
        ("keep", "keep", {}, 3),
        ({"left": "nchw"}, "keep", {"left": PLANES}, 2),
        ({"depth": "free"}, "keep", {"right": PLANES}, 2),
        ({"*": "nchw", "right": "nhwc"}, "keep", {"left": PLANES}, 2),
        ({"left": ("NHWC", "CWHN"), "right": "nchw"}, {"sum": "nchw"}, {"left": (3, 2, 1, 0), "right": PLANES}, 1),
        ({"*": "free"}, {"*": "free"}, {"left": PLANES, "right": PLANES}, 0),
    ],
)
def test_each_end_for_itself(inputs: Ends, outputs: Ends, stored: dict[str, tuple[int, ...]], transposes: int) -> None:
    graph = two_inputs()
    if outputs != "keep":
        stored = {**stored, graph.outputs[0]: PLANES}
    _, found = convert(graph, Boundary(inputs, outputs), stored)
    assert found.price.transposes == transposes


def test_a_choice_that_agrees_with_the_layout() -> None:
    boundary = Boundary({"left": "nchw"}, layouts={"left": ("NHWC", "NCHW")})
    _, found = convert(two_inputs(), boundary, {"left": PLANES})
    assert found.price.transposes == 2


@pytest.mark.parametrize(
    ("boundary", "message"),
    [
        (Boundary({"nobody": "nchw"}), "no tensor is called 'nobody'"),
        (Boundary({"sum": "nchw"}), "'sum' is not an input: those are 'left', 'depth'"),
        (Boundary(outputs={"left": "nchw"}), "'left' is not an output: those are 'sum'"),
        (Boundary({"t2": "nchw"}), "'t2' is not an input but a tensor inside"),
        (Boundary({"left": "sideways"}), "unknown choice of layout 'sideways'"),
        (Boundary({"*": "sideways"}), "unknown choice of layout 'sideways'"),
        (Boundary({"*": ("NHWC", "NCHW")}), "a pair of orders fits one tensor"),
        (Boundary({"left": ("NHW", "NWH")}), "rank 4"),
        (Boundary({"right": "nchw", "depth": "keep"}), "two layouts"),
        (Boundary({"left": "nchw"}, layouts={"left": ("NHWC", "NWHC")}), "'left' is chosen as 'nchw'"),
        (Boundary({"left": "free"}, layouts={"left": ("NHWC", "NCHW")}), "'left' is chosen as 'free'"),
        (Boundary({"left": "keep"}, layouts={"left": ("NHWC", "NCHW")}), "'left' is chosen as 'keep'"),
        (Boundary(outputs={"sum": "nchw"}, layouts={"sum": ("NHWC", "NWHC")}), "'sum' is chosen as 'nchw'"),
    ],
)
def test_refused_choices(boundary: Boundary, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        assign(two_inputs(), boundary)


@pytest.mark.parametrize(
    ("inputs", "outputs", "transposes"), [("nchw", "nchw", 0), ("free", "free", 0), ("free", "keep", 1)]
)
def test_an_input_that_is_an_output(inputs: str, outputs: str, transposes: int) -> None:
    """It is stored once: where one of its two choices is free, the other decides."""
    b = GraphBuilder()
    x = b.input(1, 4, 4, 3)
    y = b.conv(x, 6, 3)
    planes = PLANES if outputs != "keep" else (0, 1, 2, 3)
    _, found = convert(b.graph(y, x), Boundary(inputs, {"*": outputs, y: "nchw"}), {x: planes, y: PLANES})
    assert found.price.transposes == transposes


def test_an_input_that_is_an_output_with_two_choices() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 3)
    with pytest.raises(LayoutError, match="an input and an output at once"):
        assign(b.graph(b.relu(x), x), Boundary("nchw", "keep"))


def test_freed() -> None:
    """What is freed loses its choice and its explicit layout; all else stays as it was asked for."""
    graph = two_inputs()
    total = graph.outputs[0]
    boundary = Boundary({"depth": "nchw"}, "nchw", {"left": ("NHWC", "NWHC")})
    fixed = boundary.freed(graph, ["left"], [], []).fixed(graph)
    assert fixed.inputs == {"left": None, "right": PLANES}
    assert fixed.outputs == {total: PLANES}
    fixed = Boundary({"depth": "nchw"}, "nchw").freed(graph, ["right"], [total], []).fixed(graph)
    assert fixed.inputs == {"left": (0, 1, 2, 3), "right": None}
    assert fixed.outputs == {total: None}


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nobody": ("NC", "CN")}, "no tensor is called 'nobody'"),
        ({"x": ("NHW", "NWH")}, "rank 4"),
        ({"x": ("NHWC", "NHWW")}, "same letters"),
        ({"x": ("NHHC", "NHHC")}, "each once"),
        ({"weights": ("OI", "IO")}, "constant"),
        ({"x": ("NHWC", "NCHW"), "image": ("NHWC", "NWHC")}, "two layouts"),
    ],
)
def test_refused(layouts: dict[str, tuple[str, str]], message: str) -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 3, name="x")
    b.values["weights"] = b.values[b.weights(3, 3)]
    graph = b.graph(b.relu(x))
    graph = Graph(graph.name, graph.values, graph.nodes, graph.inputs, graph.outputs, {"x": "image"})
    with pytest.raises(LayoutError, match=message):
        assign(graph, Boundary(layouts=layouts))


def test_unknown_choice() -> None:
    b = GraphBuilder()
    with pytest.raises(LayoutError, match="unknown choice"):
        assign(b.graph(b.relu(b.input(2))), Boundary(inputs="sideways"))
