"""Kinds that depend on sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.solver.theory.kind import SHORT, Along, Pieces, cutting, repeating, sized
from layoutsolve.solver.theory.layout import Layout, order
from tests.graphs import GraphBuilder


def cut(seed: int, operator: str) -> tuple[Graph, list[int], int]:
    """Parts that are joined, or cut off, beside Transposes; their sizes along the axis, and the axis."""
    generator, builder = np.random.default_rng(seed), GraphBuilder()
    axis, shape = int(generator.integers(3)), [int(size) for size in generator.choice([2, 3, 4, 6], 3)]
    parts = [int(size) for size in generator.choice([1, 2, 4, 12], int(generator.integers(2, 4)))]
    shapes = [[*shape[:axis], size, *shape[axis + 1 :]] for size in (*parts, sum(parts))]

    def given(sizes: Sequence[int]) -> str:
        perm = [int(place) for place in generator.permutation(3)]
        return builder.transpose(builder.input(*(sizes[place] for place in perm)), *np.argsort(perm).tolist())

    if operator == "Concat":
        made = [builder.op("Concat", *map(given, shapes[:-1]), shape=shapes[-1], axis=axis)]
    else:
        made = builder.many("Split", given(shapes[-1]), builder.constant(parts, "int64"), shapes=shapes[:-1], axis=axis)
    return builder.graph(*(builder.transpose(each, *generator.permutation(3).tolist()) for each in made)), parts, axis


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("operator", ["Concat", "Split"])
def test_pieces_are_runs_of_one_part(operator: str, seed: int) -> None:
    """As the numbers of parts lie in memory where the whole is stored as a row says."""
    graph, parts, axis = cut(seed, operator)
    target = shipped("litert")
    problem = assign(graph, objective="min-executed", target=target).problem
    (joining,) = [each for each in problem.operators if each.node >= 0 and graph.nodes[each.node].op == operator]
    (node,) = [node for node in graph.nodes if node.op == operator]
    first, place, name = (0, len(parts), node.outputs[0]) if operator == "Concat" else (1, 0, node.inputs[0])
    variable = problem.variables[joining.ports[place]]
    sizes = [problem.variables[port].sizes for port in joining.ports]
    kind = sized(cutting("k", "float32", first, parts), sizes)
    numbers = np.arange(len(parts)).repeat(parts).reshape([-1 if at == axis else 1 for at in range(3)])
    whole = np.broadcast_to(numbers, graph.values[name].shape)  # type: ignore[arg-type]
    for row in joining.rows:
        stored = laid_out(whole, variable.readings[name], row.layouts[place], variable.sizes)  # type: ignore[arg-type]
        run = stored.size / (1 + np.count_nonzero(np.diff(stored)))
        few = next((most for most in SHORT if run <= most), None) if isinstance(kind, Pieces) else None
        assert isinstance(kind, Pieces) or run > SHORT[-1]
        expected = Along("k")(row) if few is None else f"pieces of {few}, float32"
        assert not isinstance(kind, str) and kind(row) == expected
        assert row.price.hidden == target.hidden.get((operator, expected.split(",")[0]), 0)


def repeated(seed: int) -> Graph:
    """A product of two tensors, each repeated along some dimensions of the other, beside Transposes."""
    generator, builder = np.random.default_rng(seed), GraphBuilder()
    shape = [int(size) for size in generator.choice([1, 2, 3, 4, 6, 9], 4)]
    operands = []
    for _ in range(2):
        sizes = [size if generator.random() < 0.6 else 1 for size in shape][int(generator.integers(2)) :]
        perm = [int(place) for place in generator.permutation(len(sizes))]
        operands.append(builder.transpose(builder.input(*(sizes[at] for at in perm)), *np.argsort(perm).tolist()))
    stored = np.broadcast_shapes(*(builder.values[name].shape for name in operands))  # type: ignore[arg-type]
    made = builder.op("Mul", *operands, shape=stored)
    return builder.graph(builder.transpose(made, *generator.permutation(len(stored)).tolist()))


@pytest.mark.parametrize("seed", range(40))
def test_repeats_are_runs_in_which_operands_are_the_same_or_go_on(seed: int) -> None:
    """As the numbers of operands are read where the result is stored as a row says."""
    graph, target = repeated(seed), shipped("litert")
    problem = assign(graph, objective="min-executed", target=target).problem
    (product,) = [each for each in problem.operators if each.node >= 0 and graph.nodes[each.node].op == "Mul"]
    node = graph.nodes[product.node]
    variables = [problem.variables[port] for port in product.ports]
    told = repeating([graph.values[name].shape for name in node.inputs], graph.values[node.outputs[0]].shape, "float32")
    for row in product.rows:
        streams = []
        for name, layout, variable in zip(node.inputs, row.layouts, variables, strict=False):
            shape: tuple[int, ...] = graph.values[name].shape  # type: ignore[assignment]
            own = np.arange(np.prod(shape, dtype=int)).reshape(shape)
            own = np.argsort(laid_out(own, variable.readings[name], layout, variable.sizes)).reshape(shape)  # type: ignore[arg-type]
            whole = np.broadcast_to(own, graph.values[node.outputs[0]].shape)  # type: ignore[arg-type]
            readings, sizes = variables[-1].readings[node.outputs[0]], variables[-1].sizes
            streams.append(np.diff(laid_out(whole, readings, row.layouts[-1], sizes)))  # type: ignore[arg-type]
        run = 1 + min(int(np.argmin([*(steps == steps[:1]), False])) for steps in streams)
        few = next((most for most in SHORT if run <= most), None) if run <= len(streams[0]) else None
        kind = None if few is None or not told else f"repeats of {few}"
        assert (row.price.hidden, row.price.regrouped) == (0, target.ties.get(("Mul", kind), 0))


def laid_out(data: np.ndarray, logical: Layout, wanted: Layout, sizes: Sequence[int]) -> np.ndarray:  # type: ignore[type-arg]
    """The elements of a tensor in memory, given its own layout and the one that it is stored in."""
    atoms = order(logical)
    return (
        data.reshape([sizes[atom] for atom in atoms]).transpose([atoms.index(atom) for atom in order(wanted)]).ravel()
    )
