"""Constants beside a model: as many bytes as they have, at places that can be mapped, and the same results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from layoutsolve.emit import External, apply, place, serialise
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.random_graphs import CONTROL, random_graph


def layers() -> Graph:
    """Layers with constants of all sizes, two of which read the same."""
    b = GraphBuilder()
    x = b.conv(b.conv(b.input(1, 8, 8, 3), 5, 3), 40, 3)
    table = b.weights(64, 40)
    flat = b.reshape(x, 64, 40)
    return b.graph(b.op("Gemm", b.add(flat, table), table, shape=(64, 64), transB=1))


@pytest.mark.parametrize("graph", [layers(), *(random_graph(seed, 12, CONTROL) for seed in range(6))])
def test_constants_beside_the_model(graph: Graph, tmp_path: Path) -> None:
    applied, external = apply(assign(graph)), External()
    whole, apart = serialise(applied), place(serialise(applied, external=external), "model.data")
    with (tmp_path / "model.data").open("wb") as file:
        external.write(file)
    (tmp_path / "model.onnx").write_bytes(apart.SerializeToString())
    end = 0
    for inside, outside in zip(whole.graph.initializer, apart.graph.initializer, strict=True):
        size = len(inside.raw_data)
        assert (inside.name, inside.dims) == (outside.name, outside.dims)
        if size < 1024:
            assert inside == outside
            continue
        where = {entry.key: entry.value for entry in outside.external_data}
        offset = int(where["offset"])
        assert (where["location"], int(where["length"]), offset % 4096) == ("model.data", size, 0)
        assert not outside.raw_data and offset >= end
        assert (tmp_path / "model.data").read_bytes()[offset : offset + size] == inside.raw_data
        end = offset + size
    assert (tmp_path / "model.data").stat().st_size == end
    onnx.checker.check_model(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    given = dict(zip((port.name for port in session.get_inputs()), feeds(graph), strict=True))
    for expected, found in zip(run(graph, feeds(graph)), session.run(None, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
