"""Operator sets: the lowest that carries a graph is written, a lower one refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from layoutsolve.emit import serialise
from layoutsolve.emit.opset import HIGHEST_OPSET, LOWEST_OPSET, OLDEST_OPSET, ir_version, required_opset
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Graph, Node, Quant, Value
from tests.graphs import GraphBuilder


def plain() -> Graph:
    b = GraphBuilder()
    return b.graph(b.relu(b.input(2, 3)))


def gelu() -> Graph:
    b = GraphBuilder()
    return b.graph(b.op("Gelu", b.input(2, 3), shape=(2, 3)))


def texts() -> Graph:
    b = GraphBuilder()
    x, y = (b.input(2, dtype="string") for _ in range(2))
    return b.graph(b.op("Equal", x, y, shape=(2,), dtype="bool"))


def shorts() -> Graph:
    b = GraphBuilder()
    quant = Quant(np.array([0.5], np.float32), np.array([0], np.int16))
    return b.graph(b.op("Relu", b.input(2, dtype="int16", quant=quant), shape=(2,), dtype="int16", quant=quant))


def blocks() -> Graph:
    b = GraphBuilder()
    scale, zero = np.full((4, 2), 0.5, np.float32), np.zeros((4, 2), np.int8)
    weights = b.constant(np.ones((4, 8)), "int8", Quant(scale, zero, 1, 4))
    return b.graph(b.op("Gemm", b.input(3, 8), weights, shape=(3, 4), transB=1))


def foreign() -> Graph:
    values = {name: Value(name, "float32", (2,)) for name in ("x", "y")}
    node = Node("Anything", ("x",), ("y",), domain="layoutsolve.custom")
    return Graph("one", values, (node,), ("x",), ("y",))


@pytest.mark.parametrize("version", range(OLDEST_OPSET, HIGHEST_OPSET + 1))
def test_version_of_the_format(version: int) -> None:
    """The oldest in which the operator set may be written, as ONNX's own table has it."""
    assert ir_version(version) == onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", version)])


@pytest.mark.parametrize(
    ("graph", "lowest"),
    [(plain(), 18), (gelu(), 20), (texts(), 19), (shorts(), 21), (blocks(), 21), (foreign(), 18)],
    ids=["plain", "gelu", "texts", "shorts", "blocks", "foreign"],
)
def test_lowest_opset(graph: Graph, lowest: int) -> None:
    """What is said to be the lowest is written by default; it carries the graph, and so does every later one."""
    assert required_opset(graph) == lowest
    assert serialise(graph) == serialise(graph, lowest)
    for version in range(OLDEST_OPSET - 1, HIGHEST_OPSET + 2):
        if (lowest if lowest > LOWEST_OPSET else OLDEST_OPSET) <= version <= HIGHEST_OPSET:
            model = serialise(graph, version)
            onnx.checker.check_model(model, full_check=True)
            assert {each.domain: each.version for each in model.opset_import}[""] == version
        else:
            outside = f"use one from {OLDEST_OPSET} to {HIGHEST_OPSET}"
            needs = f"needs opset {lowest}" if OLDEST_OPSET <= version <= HIGHEST_OPSET else outside
            with pytest.raises(OptionError, match=f"opset {version} cannot carry this model: .*{needs}"):
                serialise(graph, version)


@pytest.mark.parametrize(("domain", "version"), [("layoutsolve.custom", 1), ("com.microsoft", 1), ("ai.onnx.ml", 3)])
def test_other_domains(domain: str, version: int) -> None:
    """Each is imported once, in the version that its operators are written for."""
    graph = foreign()
    operator = {"com.microsoft": "FusedGelu", "ai.onnx.ml": "Normalizer"}.get(domain, "Anything")
    node = replace(graph.nodes[0], domain=domain, op=operator)
    again = replace(node, inputs=("y",), outputs=("z",))
    values = {**graph.values, "z": Value("z", "float32", (2,))}
    model = serialise(replace(graph, values=values, nodes=(node, again), outputs=("z",)))
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 18), (domain, version)]
