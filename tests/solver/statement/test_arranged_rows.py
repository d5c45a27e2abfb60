"""In which dimensions operands are stored that are repeated."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.solver import assign
from tests.graphs import GraphBuilder, feeds, run


@pytest.mark.parametrize("stored", [(), (1,)])
@pytest.mark.parametrize("shape", [(4, 3, 1), (5, 1), (1, 6, 1, 1), (1, 1), (3, 4), (1,)])
@pytest.mark.parametrize("op", ["Add", "Div", "Mul", "Pow", "Sub"])
def test_single_numbers(op: str, shape: tuple[int, ...], stored: tuple[int, ...]) -> None:
    """A number has all dimensions beside many numbers whose last dimension is 1: ONNX Runtime would otherwise compute
    one element at a time. Elsewhere it has none.
    """
    b = GraphBuilder()
    x = b.input(*shape)
    graph = b.graph(b.op(op, x, b.constant(np.full(stored, 3, np.float32)), shape=shape))
    applied = apply(assign(graph))
    (node,) = applied.nodes
    alone = shape[-1] == 1 < max(shape)
    assert (applied.values[node.inputs[1]].shape == (1,) * len(shape)) == alone
    data = feeds(graph)
    for expected, found in zip(run(graph, data), run(applied, data), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
