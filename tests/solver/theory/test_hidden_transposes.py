"""Transposes around an operator that has a rule are found to be needless: whatever layouts a rule offers, an operator
written in one of them, between Transposes from and to another one, is written without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from layoutsolve.emit import apply
from layoutsolve.ir.graph import CONTROL, Array, Graph, Node
from layoutsolve.solver import assign
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.rule import operator_name
from tests.graphs import feeds, run
from tests.solver.cases import CASES, graph_of
from tests.solver.standard import RELATED

SEEDS, ROWS = range(3), 6
LETTERS = "ABCDEFGHIJKL"
OPERATORS = sorted({*CASES, *RELATED} - CONTROL - {"Reshape"})


MERGED = frozenset(("Conv", "ConvTranspose", "LRN", "ReverseSequence", "Slice"))
"""Operators that are written on other dimensions where some of theirs are merged, and do not come back from there."""


def alone(operator: str, seed: int) -> Graph:
    """An operator between the ends of a graph."""
    graph, _ = graph_of(operator, seed)
    (node,) = [node for node in graph.nodes if operator_name(node) == operator][:1]
    names = [name for name in dict.fromkeys((*node.inputs, *node.outputs)) if name]
    inputs = tuple(name for name in names if name not in node.outputs and graph.values[name].data is None)
    outputs = tuple(name for name in node.outputs if name)
    values = {name: graph.values[name] for name in names}
    return Graph("alone", values, (node,), inputs, outputs, imports=graph.imports)


def permuted(layout: Layout, logical: Layout) -> tuple[int, ...] | None:
    """The order of whole dimensions that a layout is; None where it is something else."""
    if sorted(layout) != sorted(logical):
        return None
    left, found = list(enumerate(logical)), []
    for group in layout:
        at = next(item for item in left if item[1] == group)
        left.remove(at)
        found.append(at[0])
    return tuple(found)


def stored(found: Assignment, name: str) -> tuple[int, ...]:
    """The order of dimensions in which an end of the graph is stored."""
    problem = found.problem
    for number, operator in enumerate(problem.operators):
        if operator.end == name:
            (variable,), (layout,) = operator.ports, found.row(number).layouts
            order = permuted(layout, problem.variables[variable].readings[name])
            assert order is not None
            return order
    raise AssertionError(f"{name} is no end")


def between(graph: Graph, inner: Graph, orders: Mapping[str, tuple[int, ...]]) -> Graph:
    """A graph whose ends are stored in some orders, between Transposes from and to those of another graph."""
    values, nodes = dict(inner.values), list[Node]()
    moved = [name for name in (*graph.inputs, *graph.outputs) if orders[name]]
    for name in filter(moved.__contains__, graph.inputs):
        values[f"{name}/end"] = replace(graph.values[name], name=f"{name}/end")
        nodes.append(Node("Transpose", (f"{name}/end",), (name,), {"perm": orders[name]}))
    nodes += inner.nodes
    for name in filter(moved.__contains__, graph.outputs):
        back = tuple(orders[name].index(axis) for axis in range(len(orders[name])))
        values[f"{name}/end"] = replace(graph.values[name], name=f"{name}/end")
        nodes.append(Node("Transpose", (name,), (f"{name}/end",), {"perm": back}))
    ends = [
        tuple(f"{name}/end" if name in moved else name for name in names) for names in (graph.inputs, graph.outputs)
    ]
    return replace(inner, values=values, nodes=tuple(nodes), inputs=ends[0], outputs=ends[1])


def hidden(operator: str, seed: int) -> Iterator[tuple[Graph, Graph]]:
    """An operator, and the same in another layout between Transposes: for each end one that it may have there."""
    graph, random = alone(operator, seed), np.random.default_rng(seed)
    names = [name for name in dict.fromkeys((*graph.inputs, *graph.outputs)) if len(graph.values[name].shape) > 1]
    for name in names:
        rank = len(graph.values[name].shape)
        perm = [int(axis) for axis in random.permutation(rank)]
        if perm == sorted(perm) or random.random() < 0.4:
            perm = [*range(rank - 2), rank - 1, rank - 2]
        letters = LETTERS[:rank]
        pair = (letters, "".join(letters[axis] for axis in perm))
        boundary = Boundary(inputs="free", outputs="free", layouts={name: pair})
        found = assign(graph, boundary, objective="min-transpose")
        if found.price.transposes or (found.price.reshapes and operator in MERGED):
            continue
        inner = apply(found)
        if any(operator_name(node) == operator for node in inner.nodes):
            orders = {each: stored(found, each) for each in (*graph.inputs, *graph.outputs)}
            yield graph, between(graph, inner, orders)


def computed(graph: Graph, data: Sequence[Array]) -> list[Array] | None:
    """What a graph computes; None where random numbers are nothing that its operator takes."""
    try:
        return run(graph, data)
    except (Fail, InvalidArgument, RuntimeException):
        return None


def close(made: Array, expected: Array) -> None:
    if expected.dtype == object:
        assert made.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.members(71)
@pytest.mark.parametrize("operator", OPERATORS)
def test_needless_transposes_are_found(operator: str) -> None:
    for seed in SEEDS:
        for graph, around in hidden(operator, seed):
            found = assign(around, objective="min-transpose")
            assert (found.price.transposes, found.status) == (0, "optimal"), around
            data = feeds(graph, seed)
            truth = computed(graph, data)
            if truth is not None:
                for expected, made in zip(truth, run(apply(found), data), strict=True):
                    close(made, expected)


def test_most_operators_have_other_layouts() -> None:
    """What has dimensions in fixed places, or is written as other operators elsewhere, is no test of the above."""
    others = [operator for operator in OPERATORS if any(any(hidden(operator, seed)) for seed in SEEDS)]
    assert len(others) >= 0.85 * len(OPERATORS)
