"""Constant folding of floats: exporters write the standardisation of weights as operators on them.

XNNPACK computes no convolution whose weights are computed. Bits may differ from those of a runtime that computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.frontend.tflite.reading.model import Operator
from layoutsolve.ir.graph import Array

_COMPUTED: Mapping[str, Callable[..., Array]] = {
    "ADD": np.add,
    "DIV": np.divide,
    "MUL": np.multiply,
    "NEG": np.negative,
    "RSQRT": lambda data: 1 / np.sqrt(data),
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "SQUARED_DIFFERENCE": lambda one, other: np.square(one - other),
    "SUB": np.subtract,
}
_MOST = 1 << 22
"""The most elements of a result."""


def folded(draft: Draft, ends: frozenset[int]) -> list[Operator]:
    """The operators of a draft without those whose results are known; graph inputs and outputs, the ``ends``, stay."""
    kept = list[Operator]()
    for operator in draft.operators:
        data = None if set(operator.outputs) & ends else _result(draft, operator)
        if data is None:
            kept.append(operator)
            continue
        (index,) = operator.outputs
        draft.tensors[index] = replace(draft.tensors[index], data=data)
    return kept


def _result(draft: Draft, operator: Operator) -> Array | None:
    """What an operator gives, None where that is not known beforehand."""
    if operator.options.get("fused_activation_function") or len(operator.outputs) != 1:
        return None
    read = [draft.tensors[index] for index in operator.inputs if index >= 0]
    made = draft.tensors[operator.outputs[0]]
    given = [tensor.data for tensor in read if tensor.data is not None]
    plain = made.dtype == "float32" and made.quant is None and made.signature == made.shape
    if not plain or len(given) != len(read) or not read or read[0].dtype != "float32":
        return None
    if int(np.prod(made.shape)) > _MOST or read[0].quant is not None:
        return None
    with np.errstate(all="ignore"):
        found = _of(operator, given, made.shape)
    return None if found is None else np.ascontiguousarray(found, np.float32).reshape(made.shape)


def _of(operator: Operator, given: list[Array], shape: tuple[int, ...]) -> Array | None:
    if operator.name == "RESHAPE":
        return given[0].reshape(shape)
    if operator.name == "TRANSPOSE":
        return given[0].transpose([int(axis) for axis in given[1]])
    if operator.name == "MEAN":
        axes = tuple(int(axis) for axis in given[1].reshape(-1))
        means: Array = given[0].mean(axes, np.float64)
        return means
    computed = _COMPUTED.get(operator.name)
    real = [each.astype(np.float64) for each in given]
    if computed is None:
        return None
    found: Array = computed(*real)
    return found
