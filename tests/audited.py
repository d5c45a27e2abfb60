"""Assignments against the files that are written of them."""

from __future__ import annotations

from functools import lru_cache

import onnx

from layoutsolve.certification.audit import copied_bytes, recount
from layoutsolve.emit import meant, serialise
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import Assignment


def audited(model: onnx.ModelProto, assignment: Assignment, graph: Graph) -> None:
    """A file has what the price of its assignment says; what kernels do inside, no file shows."""
    found, price, problem = recount(model, meant=meant(assignment)), assignment.price, assignment.problem
    rows = [assignment.row(number).price for number in range(len(problem.operators))]
    inside = sum(row.hidden for row in rows if not row.transposes)
    assert found.transposes == price.transposes
    assert found.hidden(problem.target.hidden) == price.hidden - inside
    assert found.reshapes == price.reshapes
    assert found.bytes == price.bytes
    assert copied_bytes(model, _reference(graph)) == price.copies


@lru_cache(maxsize=1)
def _reference(graph: Graph) -> onnx.ModelProto:
    """The file of a graph as it stands, which several assignments of it are compared with."""
    return serialise(graph)
