"""What is shown of a conversion on a prompt and in a notebook, and as a graph for other programs."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree

import onnx
import pytest

import layoutsolve
from layoutsolve.inspection.folding import HIDDEN, fold
from layoutsolve.inspection.graph_svg import MOST, READ, TALL, _nodes, picture
from layoutsolve.inspection.layered_drawing import STEP
from layoutsolve.solver.theory.layout import order
from tests.builder import Builder
from tests.random_models import network

NAME = "</td><script>alert('x')</script>"


def turned() -> bytes:
    """A softmax along height, whose output name is no name of HTML's."""
    builder = Builder()
    x = builder.input("image", (1, 6, 5, 4))
    y, z = builder.tensor("y", (1, 5, 4, 6)), builder.tensor(NAME, (1, 5, 4, 6))
    builder.operator("TRANSPOSE", [x, builder.constant("perm", [0, 2, 3, 1], "int32")], [y])
    builder.operator("SOFTMAX", [y], [z], {"beta": 1.0})
    return builder.finish(z)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.opened.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_short_on_a_prompt() -> None:
    found = layoutsolve.convert(network(3).source, strategy="transpose")
    for each in (found, found.assignment, found.explain()):
        assert len(repr(each)) < 500 and "\n" not in repr(each)
    assert f"transposes {found.price.transposes} " in repr(found)


def test_tables_in_a_notebook() -> None:
    found = layoutsolve.convert(turned(), inputs="nchw", outputs={NAME: "nchw"})
    shown, explained = Tags(found._repr_html_()), Tags(found.explain()._repr_html_())
    assigned = Tags(found.assignment._repr_html_())
    table = {"table", "caption", "tr", "th", "td", "div"}
    assert set(shown.opened) <= table | {"svg", "g", "line", "rect", "text"} and {"svg", "rect"} <= set(shown.opened)
    for each in (explained, assigned):
        assert set(each.opened) <= table
    assert all(str(tier.value) in each.text for tier in found.tiers for each in (shown, assigned))
    assert NAME in shown.text
    assert "Transpose" in explained.text


@pytest.mark.members(6)
@pytest.mark.parametrize("seed", range(12))
def test_pictures_of_graphs(seed: int) -> None:
    """Each operator has a box, but for what quantizes and what repeats, and no box is on another one."""
    model = layoutsolve.convert(network(seed).source).model
    found = ElementTree.fromstring(picture(model))
    boxes = [
        [float(each.get(name, "")) for name in ("x", "y", "width", "height")]
        for each in found.iter()
        if each.tag == "rect"
    ]
    labels = [each.text or "" for each in found.iter() if each.tag == "text"]
    ends = len(model.graph.input) + len(model.graph.output)
    wanted = [node.op_type for node in model.graph.node if node.op_type not in HIDDEN]
    assert len(boxes) == len(labels) <= len(wanted) + ends
    if not any(label.startswith("\u00d7") for label in labels):
        assert len(labels) == len(wanted) + ends
    for number, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, high in boxes[number + 1 :]:
            assert x + width <= left + 1 or left + wide <= x + 1 or y + height <= top or top + high <= y


def test_columns_of_pictures() -> None:
    """As many as keep a picture about so tall, each as full as the others, but for the last."""
    for count in (3, 17, 18, 31, 55, 90, 150):
        ops = [["Neg", "Abs", "Exp"][(at * at * 7 + at // 5) % 3] for at in range(count)]
        nodes = [onnx.helper.make_node(op, [f"t{at}"], [f"t{at + 1}"]) for at, op in enumerate(ops)]
        ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("t0", f"t{count}")]
        model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]))
        found = ElementTree.fromstring(picture(model))
        boxes = [each for each in found.iter() if each.tag == "rect"]
        middles = Counter(round((float(each.get("x", "")) + float(each.get("width", "")) / 2) / 9) for each in boxes)
        columns = max(round(len(boxes) * STEP / TALL), 1)
        most = -(-len(boxes) // columns)
        assert [middles[each] for each in sorted(middles)][:-1] == [most] * (columns - 1)


def test_pictures_of_any_size() -> None:
    """Of too many operators there is none, and of none either."""
    for count, kinds, drawn in ((0, 1, True), (300, 13, True), (300, 0, True), (450, 0, False), (6000, 3, False)):
        made = [["Neg", "Abs", "Exp"][(number * number * 7 + number // 5) % 3] for number in range(count)]
        ops = [["Neg", "Abs", "Exp"][number % kinds % 3] for number in range(count)] if kinds else made
        nodes = [onnx.helper.make_node(op, [f"t{at}"], [f"t{at + 1}"]) for at, op in enumerate([*ops, "Identity"])]
        ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("t0", f"t{count + 1}")]
        model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]))
        found = picture(model)
        assert bool(found) == (drawn or len(fold(_nodes(model)).shown) <= MOST < READ > count)


@pytest.mark.members(8)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("strategy", ["cpsat", "transpose"])
def test_graph_of_an_assignment(seed: int, strategy: str) -> None:
    """Each order of a variable that is read in another one than it is written in takes one Transpose."""
    assignment = layoutsolve.convert(network(seed).source, strategy=strategy).assignment
    graph = assignment.to_networkx()
    assert len(graph) == len(assignment.problem.operators)
    moved = {(key, order(facts["read"])) for _, _, key, facts in graph.edges(keys=True, data=True) if facts["moved"]}
    inside = sum(assignment.row(number).price.transposes for number in range(len(graph)))
    assert len(moved) + inside == assignment.price.transposes
