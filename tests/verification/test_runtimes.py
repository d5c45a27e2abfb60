"""The runtimes that models are compared in: how they are set up."""

from __future__ import annotations

import pytest

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.verification.runtimes import LiteRTModel, OnnxRuntime, runtime_of
from tests.graphs import GraphBuilder


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads(threads: int | None) -> None:
    """As many as are asked for; by default the runtime chooses."""
    b = GraphBuilder()
    source = serialise(b.graph(b.relu(b.input(2, 3)))).SerializeToString()
    runtime = OnnxRuntime(source) if threads is None else OnnxRuntime(source, threads=threads)
    assert runtime._session.get_session_options().intra_op_num_threads == (threads or 0)


def test_models_in_litert_end_their_process() -> None:
    """A verification leaves none behind: a batch of thousands would have as many."""
    b = GraphBuilder()
    source = serialise(b.graph(b.relu(b.input(2, 3)))).SerializeToString()
    model = runtime_of(layoutsolve.convert(source, to="tflite").content(""))
    assert isinstance(model, LiteRTModel)
    process = model._litert._process
    assert process is not None and process.poll() is None
    del model
    assert process.poll() is not None
