"""Graphs in which one thing is wrong are refused before anything is written, or are valid all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, LoweringError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.ir.graph import CONTROL, Graph, Node, Origin, Value
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.runtimes import OnnxRuntime
from tests import older
from tests.conformance import families

REGISTRY = every_lowering()

TYPES = ("float32", "float16", "int8", "int32", "int64", "bool", "string")


def sample() -> list[Graph]:
    """The reference graphs of some cases, one of every third operator."""
    found = {case.operator: case for case in families.every_case() if case.operator in REGISTRY}
    graphs = list[Graph]()
    for name in sorted(found)[::3]:
        try:
            graphs.append(read(found[name].make().source))
        except RefusedError as error:  # some are made of what LiteRT computes
            if not older.excuse(error):
                raise
    return [graph for graph in graphs if graph.nodes and not any(node.op in CONTROL for node in graph.nodes)]


def corruptions(graph: Graph, chosen: random.Random) -> Iterator[tuple[str, Graph]]:
    """The graph with one thing changed, at a place that is drawn."""
    at = chosen.randrange(len(graph.nodes))
    node = graph.nodes[at]

    def with_node(changed: Node) -> Graph:
        return replace(graph, nodes=(*graph.nodes[:at], changed, *graph.nodes[at + 1 :]))

    yield "operator", with_node(replace(node, op="Frobnicate"))
    yield "other operator", with_node(replace(node, op=chosen.choice(["Add", "Not", "Concat", "Conv", "Sign"])))
    yield "attribute", with_node(replace(node, attributes={**node.attributes, "strength": 1.0}))
    yield "surplus output", with_node(replace(node, outputs=(*node.outputs, node.outputs[0])))
    if node.inputs:
        yield "missing input", with_node(replace(node, inputs=node.inputs[1:]))
        yield "surplus input", with_node(replace(node, inputs=(*node.inputs, node.inputs[0])))
        yield "unknown input", with_node(replace(node, inputs=("nowhere", *node.inputs[1:])))
    name = chosen.choice([name for each in graph.nodes for name in each.outputs if name])
    value = graph.values[name]
    for changed in (
        replace(value, shape=(*value.shape, 2)),
        replace(value, shape=tuple(3 + size if isinstance(size, int) else size for size in value.shape)),
        replace(value, dtype=chosen.choice(TYPES), quant=None),
    ):
        yield f"declared {changed}", replace(graph, values={**graph.values, name: changed})
    yield "never computed", replace(graph, nodes=tuple(each for each in graph.nodes if each is not node))


def test_corrupted_graphs() -> None:
    chosen, refused = random.Random(0), 0
    for graph in sample():
        serialise(graph)
        for label, corrupted in corruptions(graph, chosen):
            nowhere = Value("nowhere", "float32", (1,))
            try:
                model = serialise(replace(corrupted, values={**corrupted.values, "nowhere": nowhere}))
            except ConversionError:
                refused += 1
                continue
            onnx.checker.check_model(model, full_check=True)
            assert OnnxRuntime(model.SerializeToString()), label
    assert refused > 300


def lone(op: str, dtype: str, **attributes: float) -> Graph:
    """One operator of a tensor of some type."""
    values = {name: Value(name, dtype, (2, 3)) for name in ("x", "y")}
    node = Node(op, ("x",), ("y",), attributes, Origin(0, 7, "SOME"))
    return Graph("one", values, (node,), ("x",), ("y",))


def test_errors_name_the_operator() -> None:
    with pytest.raises(LoweringError, match=r"SOME#7 would become the node 'Neg:y'.*strength"):
        serialise(lone("Neg", "float32", strength=1.0))
    with pytest.raises(
        LoweringError, match="SOME#7 would become Sqrt of bfloat16, for which ONNX Runtime has no kernel"
    ):
        serialise(lone("Sqrt", "bfloat16"))
    graph = lone("Neg", "float32")
    with pytest.raises(LoweringError, match="input 'y' of node"):
        serialise(replace(graph, nodes=(replace(graph.nodes[0], outputs=("z",)),), values={
            **graph.values, "z": Value("z", "float32", (2, 3))}))  # fmt: skip


def test_operators_of_other_domains() -> None:
    """Those that ONNX defines are checked as its own are."""
    for domain, known in (("ai.onnx.ml", True), ("layoutsolve.custom", False)):
        graph = lone("Normalizer", "float32", strength=1.0)
        graph = replace(graph, nodes=(replace(graph.nodes[0], domain=domain),))
        if known:
            with pytest.raises(LoweringError, match="strength"):
                serialise(graph)
        else:
            assert serialise(graph)


def test_large_constants_are_not_copied() -> None:
    """A constant beyond what a message can hold goes through the check, since it has no bytes there."""
    graph = lone("Neg", "float32")
    data = np.arange(1 << 20, dtype=np.float32)
    values = {"x": Value("x", "float32", data.shape, None, data), "y": Value("y", "float32", data.shape)}
    assert len(serialise(replace(graph, values=values, inputs=())).graph.initializer) == 1
