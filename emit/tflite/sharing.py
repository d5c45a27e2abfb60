"""Operators that LiteRT computes in place, and what they would destroy.

LiteRT lets a result lie in the memory of an operand that nothing else reads (``arena_planner.cc``). Of views it looks
through one alone: where the result of such an operator is read by a view and by others, and what the view gives is
computed with in place, the others read that. A copy of the view's result keeps them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.emit.tflite.views import BETWEEN
from layoutsolve.frontend.tflite.reading.model import Operator, Tensor

VIEWS = frozenset(("BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"))
"""Operators whose result is what they read, in another shape."""

IN_PLACE = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
"""By operator that may compute in place, how many of its first operands may be where its result is."""


def separated(draft: Draft, ends: Collection[int]) -> list[Operator]:
    """The operators of a draft, with a copy before each that would destroy what others read; inputs and outputs, its
    ``ends``, share no memory.
    """
    written: list[Operator] = []
    readers: dict[int, list[int]] = {}
    for place, operator in enumerate(draft.operators):
        for index in operator.inputs:
            readers.setdefault(index, []).append(place)
    root: dict[int, int] = {}
    for place, operator in enumerate(draft.operators):
        shared = _shared(draft.tensors, operator, readers, ends)
        if shared is not None and operator.name in IN_PLACE:
            base = root.get(shared, shared)
            aliases = {index for index, own in root.items() if own == base} | {base}
            if any(later > place for index in aliases for later in readers.get(index, ())):
                operator, shared = _copied(draft, written, operator, shared), None
        if shared is not None:
            root[operator.outputs[0]] = root.get(shared, shared)
        written.append(operator)
    return written


def _shared(
    tensors: list[Tensor], operator: Operator, readers: Mapping[int, list[int]], ends: Collection[int]
) -> int | None:
    """The operand whose memory LiteRT takes for the result."""
    if operator.name not in VIEWS and operator.name not in IN_PLACE:
        return None
    result = tensors[operator.outputs[0]]
    for index in operator.inputs[: IN_PLACE.get(operator.name, 1)]:
        free = index >= 0 and index not in ends and result.index not in ends and tensors[index].data is None
        if free and (operator.name in VIEWS or _fits(tensors[index], result, readers[index])):
            return index
    return None


def _fits(tensor: Tensor, result: Tensor, readers: list[int]) -> bool:
    """Whether a result has as many bytes as what one operator alone reads."""
    return len(readers) == 1 and tensor.dtype == result.dtype and prod(tensor.shape) == prod(result.shape)


def _copied(draft: Draft, written: list[Operator], operator: Operator, shared: int) -> Operator:
    """An operator that reads a copy."""
    tensor = draft.tensors[shared]
    bounds = (np.zeros(len(tensor.shape), np.int32), np.array(tensor.signature, np.int32))
    begin, size = (draft.constant(each, tensor.name) for each in bounds)
    made = draft.like(shared, tensor.shape)
    if tensor.signature != tensor.shape:
        draft.tensors[made] = replace(draft.tensors[made], signature=tensor.signature)
    written.append(Operator(BETWEEN, "SLICE", (shared, begin, size), (made,), {}))
    return replace(operator, inputs=tuple(made if index == shared else index for index in operator.inputs))
