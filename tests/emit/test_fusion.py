"""What ONNX Runtime makes of the quant patterns: the graph that it really runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx

import layoutsolve
from experiments.make.demo import BLOCKS, mobilenet
from layoutsolve.emit import apply, serialise
from layoutsolve.solver import assign
from layoutsolve.verification.runtimes import optimised
from tests.graphs import GraphBuilder


def operators_run(model: onnx.ModelProto) -> Counter[str]:
    """The operators of a model after ONNX Runtime's optimisation."""
    return Counter(node.op_type for node in optimised(model.SerializeToString(), "extended").graph.node)


def test_convolutions_run_in_integers(tmp_path: Path) -> None:
    """Convolutions with their fused activations become integer kernels, and no Transpose appears.

    The first one reads the graph's input, which ONNX Runtime leaves signed: only activations between operators are made
    unsigned, as its kernels for x86 want them.
    """
    operators = operators_run(layoutsolve.convert(mobilenet()).model)
    assert operators["QLinearConv"] >= 2 * len(BLOCKS)
    assert operators["QGemm"] == 1
    assert operators["Conv"] <= 1
    assert operators["Transpose"] == 0


def test_additions_stay_apart_from_normalisation(tmp_path: Path) -> None:
    """Fused with what is added they are slower than the two by themselves."""
    b = GraphBuilder()
    x = b.add(b.input(1, 16, 32), b.input(1, 16, 32))
    y = b.op("LayerNormalization", x, b.weights(32), b.weights(32), shape=(1, 16, 32), axis=-1)
    graph = b.graph(y)
    operators = operators_run(serialise(apply(assign(graph))))
    assert operators == {"Sum": 1, "LayerNormalization": 1}
