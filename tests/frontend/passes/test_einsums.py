"""Einsum as products of matrices: any equation of known sizes, as numpy computes it."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.passes.einsums import products
from layoutsolve.ir.graph import Graph
from tests.graphs import GraphBuilder, feeds, run

LABELS = "abcdef"


def equation(seed: int) -> tuple[str, dict[str, int]]:
    """A random equation of one to three operands, without a label twice in one, and the sizes of labels."""
    choose = random.Random(seed)
    sizes = {label: choose.randint(1, 4) for label in LABELS}
    terms = ["".join(choose.sample(LABELS, choose.randint(1, 4))) for _ in range(choose.choice((1, 2, 2, 2, 3)))]
    known = sorted({*"".join(terms)})
    return f"{','.join(terms)}->{''.join(choose.sample(known, choose.randint(0, min(4, len(known)))))}", sizes


def graph_of(text: str, sizes: dict[str, int]) -> Graph:
    builder = GraphBuilder()
    operands, result = text.split("->")
    names = [builder.input(*(sizes[label] for label in term)) for term in operands.split(",")]
    return builder.graph(builder.op("Einsum", *names, shape=tuple(sizes[label] for label in result), equation=text))


@pytest.mark.members(30)
@pytest.mark.parametrize("seed", range(60))
def test_equations(seed: int) -> None:
    text, sizes = equation(seed)
    graph = graph_of(text, sizes)
    again = products(graph)
    assert all(node.op != "Einsum" for node in again.nodes)
    given = feeds(graph)
    np.testing.assert_allclose(run(again, given)[0], np.einsum(text, *given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", ["aa->a", "ab,bc->aac"])
def test_what_stays(text: str) -> None:
    """A label twice in one term is a diagonal."""
    graph = graph_of(text, dict.fromkeys(LABELS, 3))
    assert [node.op for node in products(graph).nodes] == ["Einsum"]


def test_attention() -> None:
    """Products of heads are BATCH_MATMUL, without a Transpose where their layouts follow."""
    ports = [("x", (2, 5, 3, 4)), ("w", (2, 6, 3, 4)), ("y", (2, 3, 5, 6))]
    x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports)
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation="bqhd,bkhd->bhqk")
    model = helper.make_model(helper.make_graph([node], "g", [x, w], [y]), ir_version=8)
    found = layoutsolve.convert(model, to="tflite")
    assert layoutsolve.verify(model, found).passed
    assert found.price.transposes == 2


def test_terms_of_other_ranks_are_refused() -> None:
    """As runtimes do it, not by an error of ours."""
    source = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x, float[3] z) => (float[3] y)'
        '{ y = Einsum<equation = ",i->i">(x, z) }'
    )
    with pytest.raises(UnsupportedError):
        layoutsolve.convert(source, to="tflite")
