"""The operators of a subgraph that its outputs, or the state that it leaves, depend on."""

from __future__ import annotations

from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph

_CALLING = frozenset(("CALL", "CALL_ONCE", "IF", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "WHILE"))
"""The operators that run other subgraphs, which may assign variables."""

_HANDLES = frozenset(("resource", "variant"))


def needed(subgraph: Subgraph) -> tuple[Operator, ...]:
    """The operators without dead ones: those that leave no state behind, and whose outputs nothing reads.

    Nothing of a dead operator is judged: it may have no conversion, or no kernel at all.
    """
    read = set(subgraph.outputs)
    kept: list[Operator] = []
    for operator in reversed(subgraph.operators):
        if not read.isdisjoint(operator.outputs) or _has_effects(subgraph, operator):
            kept.append(operator)
            read.update(operator.inputs)
    return tuple(reversed(kept))


def _has_effects(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether an operator may do something beside giving its outputs."""
    if not operator.outputs or operator.name in _CALLING:
        return True
    tensors = [subgraph.tensors[index] for index in (*operator.inputs, *operator.outputs) if index != -1]
    return any(tensor.is_variable or tensor.dtype in _HANDLES for tensor in tensors)
