"""The runtimes that models are compared in: how they are set up."""

from __future__ import annotations

import pytest

from layoutsolve.emit import serialise
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.graphs import GraphBuilder


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads(threads: int | None) -> None:
    """As many as are asked for; by default the runtime chooses."""
    b = GraphBuilder()
    source = serialise(b.graph(b.relu(b.input(2, 3)))).SerializeToString()
    runtime = OnnxRuntime(source) if threads is None else OnnxRuntime(source, threads=threads)
    assert runtime._session.get_session_options().intra_op_num_threads == (threads or 0)
