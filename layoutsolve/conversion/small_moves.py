"""What Transposes, concatenations and splits of a TensorFlow Lite model cost in LiteRT, which takes as long for few
elements at a time as for many.

A Transpose of tiles of a few elements takes up to eleven times as long as one of the same tensor in large ones. The
solver counts Transposes, whatever they move; what it finds is compared by this with what moves larger pieces.
``python -m experiments.measure.litert_rows`` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph

BLOCKS: Mapping[int, float] = {2: 4, 4: 2, 8: 1}
"""By the elements that stay together innermost, what a Transpose takes longer, in Transposes of as many elements."""

TILES: Mapping[int, float] = {4: 10, 8: 5, 16: 2, 32: 1}
"""The same by those between what is innermost before and behind it."""

LINES: Mapping[int, float] = {2: 2, 4: 1}
"""The same of larger tiles, by the fewer of these two."""

PIECES: Mapping[int, float] = {1: 6, 2: 3, 4: 1}
"""What a part that is joined or cut takes, by how many of its elements lie in a row."""


def cost(model: Model, whole: float = 1) -> float:
    """What is moved by a model, in elements of Transposes of large pieces, each of which counts as ``whole``; dynamic
    sizes count as 1.
    """
    return sum(_moved(graph, operator, whole) for graph in model.subgraphs for operator in graph.operators)


def _moved(graph: Subgraph, operator: Operator, whole: float) -> float:
    if operator.name == "TRANSPOSE":
        order = graph.tensors[operator.inputs[1]].data
        shape = graph.tensors[operator.inputs[0]].shape
        return 0.0 if order is None else prod(shape) * transposition(shape, [int(axis) for axis in order], whole)
    parts, axis = _parts(graph, operator)
    shapes = [graph.tensors[index].shape for index in parts]
    return sum(prod(shape) * _longer(PIECES, prod(shape[axis % len(shape) :])) for shape in shapes if shape)


def _parts(graph: Subgraph, operator: Operator) -> tuple[Sequence[int], int]:
    """The tensors that an operator joins or cuts, and along which dimension; none of any other one."""
    if operator.name == "CONCATENATION":
        return operator.inputs, int(operator.options.get("axis", 0))
    place = {"SPLIT": 0, "SPLIT_V": 2}.get(operator.name)
    axis = None if place is None else graph.tensors[operator.inputs[place]].data
    return ((), 0) if axis is None else (operator.outputs, int(axis.reshape(-1)[0]))


def transposition(shape: Sequence[int], order: Sequence[int], whole: float = 1) -> float:
    """How many Transposes of large pieces one is as long as, 0 where it moves nothing."""
    runs: list[list[int]] = []
    axes = [axis for axis in range(len(shape)) if shape[axis] != 1]
    for axis in (axis for axis in order if shape[axis] != 1):
        together = bool(runs) and axes.index(axis) == axes.index(runs[-1][-1]) + 1
        runs = [*runs[:-1], [*runs[-1], axis]] if together else [*runs, [axis]]
    if len(runs) < 2:
        return 0.0
    before, behind = max(runs), runs[-1]
    sizes = [prod(shape[axis] for axis in run) for run in (before, behind)]
    if before is behind:
        return whole + _longer(BLOCKS, sizes[0])
    return whole + (_longer(TILES, prod(sizes)) or _longer(LINES, min(sizes)))


def _longer(table: Mapping[int, float], size: int) -> float:
    return next((more for most, more in table.items() if size <= most), 0.0)
