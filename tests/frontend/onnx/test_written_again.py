"""What a file in ONNX says of itself, and files that layoutsolve has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.proto.data_movement import moves
from tests.frontend.onnx.test_files import HEAD, ROUND, converted, operators, text
from tests.frontend.onnx.test_random import run
from tests.random_onnx import Writer, random_model


def test_what_is_told_of_the_model_is_kept() -> None:
    model = text(f"{HEAD} net (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    model.metadata_props.add(key="labels", value="cat, dog")
    model.doc_string, model.domain, model.model_version = "all about it", "org.nets", 7
    model.graph.doc_string = "a graph"
    for number, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node {number}", f"about {number}"
    result = converted(model)
    facts = {each.key: each.value for each in result.metadata_props}
    assert facts["labels"] == "cat, dog" and "layoutsolve.source.sha256" in facts
    assert (result.doc_string, result.domain, result.model_version) == ("all about it", "org.nets", 7)
    assert (result.graph.name, result.graph.doc_string) == ("net", "a graph")
    assert [(node.name, node.doc_string) for node in result.graph.node] == [("node 1", "about 1")]


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_is_of_the_model_that_is_written(seed: int) -> None:
    """Of one that stays as it is as well: its Transposes, with the bound that holds for any other."""
    _, model = random_model(seed, dynamic=seed % 2 == 0)
    found = layoutsolve.convert(model.SerializeToString())
    for tier in found.tiers:
        assert tier.bound <= tier.value == sum(getattr(found.price, name) for name in tier.names)
    if found.kept:
        assert found.price.transposes <= moves(found.model).transposes == moves(model).transposes
        assert found.report["hidden_transposes"] == found.price.hidden


@pytest.mark.members(14)
@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_of_a_model_that_was_written_is_of_that_model(seed: int) -> None:
    """A convolution that has become a product costs otherwise as that, so that fewer might be possible by now."""
    writer = Writer(seed)
    count = int(writer.random.choice([16, 24, 40]))
    x = writer.input(1, 3, 16, 16)
    x = writer.op("Conv", x, writer.weights(count, 3, 3, 3), shape=[1, count, 14, 14])
    heads = []
    for _ in range(int(writer.random.integers(1, 4))):
        y = writer.op("Conv", x, writer.weights(6, count, 1, 1), shape=[1, 6, 14, 14])
        y = writer.op("Transpose", y, shape=[1, 14, 14, 6], perm=[0, 2, 3, 1])
        heads.append(writer.op("Reshape", y, writer.constant([1, 196 * 6], "int64"), shape=[1, 196 * 6]))
    first = layoutsolve.convert(writer.model(*heads).SerializeToString())
    again = layoutsolve.convert(first.model.SerializeToString())
    assert again.model == first.model
    assert again.price.transposes == again.report["transposes"] == moves(first.model).transposes
    assert again.report["bound"] <= again.price.transposes + again.price.hidden
    assert all(tier.bound <= tier.value for tier in again.tiers)


def test_written_models_are_solved_again(tmp_path: Path) -> None:
    """What the pattern around every operator leaves in a file is found again as in the source itself."""
    from tests.random_models import network

    for each in [each for each in map(network, range(20)) if each.kind == "float32"]:
        source = each.source
        try:
            direct = layoutsolve.convert(source, objective="min-transpose")
            plain = layoutsolve.convert(source, strategy="transpose").content(tmp_path / "plain.onnx")
        except ConversionError:
            continue
        again = layoutsolve.convert(plain, objective="min-transpose")
        assert operators(again.model).count("Transpose") <= max(
            operators(direct.model).count("Transpose"), direct.price.transposes
        )


@pytest.mark.parametrize("states", [1, 2])
def test_states_are_known_again(states: int) -> None:
    """What layoutsolve writes with states is as good when it is solved again: a state takes any layout."""
    from layoutsolve.emit import apply, serialise
    from layoutsolve.solver import assign
    from tests.graphs import GraphBuilder

    builder = GraphBuilder(0)
    total = builder.conv(builder.input(1, 4, 5, 6), 6, kernel=3)
    for _ in range(states):
        now, become = builder.state(1, 4, 5, 6)
        total = builder.add(total, now)
        become(builder.relu(total))
    graph = builder.graph(builder.conv(builder.relu(total), 6, kernel=3))
    plain = serialise(apply(assign(graph, strategy="transpose")))
    assert operators(plain).count("Transpose") == 4
    result = converted(plain)
    assert operators(result).count("Transpose") == operators(serialise(apply(assign(graph)))).count("Transpose") == 2
    following = [
        {each.key: each.value for each in model.metadata_props if "state" in each.key} for model in (plain, result)
    ]
    assert following[0] == following[1] != {}
    random = np.random.default_rng(0)
    found = layoutsolve.convert(plain.SerializeToString())
    assert layoutsolve.verify(plain.SerializeToString(), found).passed
    names = [port.name for port in plain.graph.input]
    for model in (plain, result):
        assert [port.name for port in model.graph.input] == names
    feeds = {name: random.normal(size=(1, 4, 5, 6)).astype(np.float32) for name in names}
    told = {each.key: each.value for each in result.metadata_props}
    moved = dict(feeds)
    for name in names:
        if f"layoutsolve.layout.{name}" in told:
            order = [int(each) for each in told[f"layoutsolve.layout.{name}"].split()]
            moved[name] = np.ascontiguousarray(feeds[name].transpose(order))
    assert np.allclose(run(plain, feeds)[0], run(result, moved)[0], atol=1e-5)
