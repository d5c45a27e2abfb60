"""Graphs of stored integers, whichever way these are stored."""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.passes import unsigned, weights
from layoutsolve.ir.graph import Graph
from tests.graphs import feeds, run


def assert_computes_the_same(graph: Graph, other: Graph, seed: int) -> None:
    """Another graph computes what a graph does, also where its bytes are then stored without a sign."""
    data = feeds(graph, seed)
    (expected,) = run(graph, data)
    for each in (other, unsigned.stored(other), unsigned.stored(weights.stored(other, "unsigned"))):
        np.testing.assert_array_equal(run(each, data)[0], expected)
