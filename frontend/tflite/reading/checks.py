"""Checks of a subgraph as read: every index exists, every tensor has one source, and is there before it is read."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph


def check_subgraph(position: int, subgraph: Subgraph) -> None:
    """Raise :class:`ModelError` unless the operators can be executed in the order they are in."""
    place = f"subgraph {position}"
    _check_indices(f"the inputs of {place}", subgraph.inputs, subgraph)
    _check_indices(f"the outputs of {place}", subgraph.outputs, subgraph)
    for index in subgraph.inputs:
        if subgraph.tensors[index].data is not None:
            raise ModelError(f"input tensor {index} '{subgraph.tensors[index].name}' of {place} has data of its own")
    inputs = frozenset(subgraph.inputs)
    available = set(inputs)
    computed = frozenset(index for operator in subgraph.operators for index in operator.outputs)
    for tensor in subgraph.tensors:
        if tensor.is_variable and (tensor.data is not None or tensor.external):
            raise ModelError(f"variable {tensor.index} '{tensor.name}' of {place} has data of its own")
        empty = prod(tensor.shape) == 0 and -1 not in tensor.signature and tensor.index not in computed
        held = tensor.data is not None or tensor.external or tensor.is_variable
        if held or tensor.dtype in ("resource", "variant") or empty:
            available.add(tensor.index)
    produced: set[int] = set()
    for operator in subgraph.operators:
        _check_operator(place, operator, subgraph, inputs, available, produced)
    for index in subgraph.outputs:
        if index not in available:
            raise ModelError(f"output tensor {index} '{subgraph.tensors[index].name}' of {place} is never computed")


def _check_operator(
    place: str,
    operator: Operator,
    subgraph: Subgraph,
    inputs: frozenset[int],
    available: set[int],
    produced: set[int],
) -> None:
    where = f"operator {operator.index} {operator.name} of {place}"
    _check_indices(f"the inputs of {where}", (index for index in operator.inputs if index != -1), subgraph)
    _check_indices(f"the outputs of {where}", operator.outputs, subgraph)
    _check_indices(
        f"the intermediates of {where}", (index for index in operator.intermediates if index != -1), subgraph
    )
    for index in operator.inputs:
        if index != -1 and index not in available:
            raise ModelError(
                f"{where} reads tensor {index} '{subgraph.tensors[index].name}' before anything computes it"
            )
    for index in operator.outputs:
        tensor = subgraph.tensors[index]
        if index in produced or index in inputs:
            raise ModelError(f"{where} computes tensor {index} '{tensor.name}', which has a source already")
        if tensor.data is not None:
            raise ModelError(f"{where} computes tensor {index} '{tensor.name}', which is constant")
        produced.add(index)
        available.add(index)


def _check_indices(what: str, indices: Iterable[int], subgraph: Subgraph) -> None:
    count = len(subgraph.tensors)
    for index in indices:
        if not 0 <= index < count:
            raise ModelError(f"{what} name tensor {index}, but there are {count} tensors")
