"""Where results of an operator mean nothing, or several of them are right: LiteRT's are no reference there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.ir.graph import Array
from layoutsolve.verification.tensor_statistics import TIE, WIDEST_TIE

NOISE = 2.0**-20
"""The part of each float by which it is made another one, to see what rounding may make of an operator's result."""

OVERFLOW = 2.0**-6
"""How many steps one product of two steps of 16 bits may be: of the largest numbers that is 500 times the range."""

WIDE: Mapping[np.dtype[Any], float] = {np.dtype("int8"): 2.0**31, np.dtype("uint8"): 2.0**15 - 256}
"""How many steps LiteRT's products of two bytes hold: it narrows those without a sign to 16 bits."""

DIFFERENCE: Mapping[str, float] = {"int8": 2.0**19, "uint8": 2.0**19, "int16": 2.0**14}
"""How many of its steps a SUB may have in a step of its operands: its kernel shifts by a negative number beyond."""

SUM = 2.0**31 * (1 - 2.0**-10)
"""The largest sum that does not overflow 32 bits, and somewhat less, as floats are rounded."""


def undefined(
    subgraph: Subgraph,
    operator: Operator,
    truth: Mapping[int, Array],
    one: Array,
    other: Array,
    real: Callable[[], Array | None],
) -> Array | None:
    """Where numbers mean nothing: NaN that come of NaN, integers that come of floats without one, overflows,
    quotients by zero, what is never written, which of equal boxes is chosen.
    """
    if operator.name.startswith("NON_MAX_SUPPRESSION") and _ties(subgraph, operator, truth):
        return np.ones(one.shape, bool)
    if _overflows(subgraph, operator, one) or _shifts_left(subgraph, operator):
        return np.ones(one.shape, bool)
    if operator.name == "SVDF" and one.dtype == np.int8 and (before := real()) is not None:
        scales = [quant_of(subgraph.tensors[operator.inputs[slot]]) for slot in (2, 4)]
        unit = prod(float(each.scale[0]) for each in scales if each is not None)
        return np.asarray(np.abs(before) >= SUM * unit)  # LiteRT's sums overflow there
    made = quant_of(subgraph.tensors[operator.outputs[0]])
    if operator.name == "MUL" and one.dtype in WIDE and made is not None and (before := real()) is not None:
        return np.asarray(np.abs(before) >= WIDE[one.dtype] * float(made.scale[0]))
    if operator.name == "CUSTOM:TFLite_Detection_PostProcess" and one.ndim > 1 and operator.outputs[3] in truth:
        unwritten = np.zeros(one.shape, bool)  # LiteRT leaves what lies behind the detections as memory was
        unwritten[:, int(truth[operator.outputs[3]].reshape(-1)[0]) :] = True
        return unwritten
    if operator.name == "DIV" and one.dtype.kind in "iu":
        return _quotients(subgraph, operator, truth, one, real)
    read = [truth[index] for index in operator.inputs if index in truth and truth[index].dtype.kind in "fc"]
    if operator.name == "CAST" and read and one.dtype.kind in "iu" and read[0].shape == one.shape:
        limits = np.iinfo(one.dtype)
        with np.errstate(invalid="ignore"):
            return ~((read[0] > float(limits.min)) & (read[0] < float(limits.max)))
    if any(np.isnan(each).any() for each in read) and one.dtype.kind in "fc" and one.shape == other.shape:
        return np.isnan(one) | np.isnan(other)
    return None


def vanishes(operators: Sequence[Operator], truth: Mapping[int, Array], one: Array, other: Array) -> bool:
    """Whether all floats of LiteRT are 0, and others what is left of rounding what some operators read."""
    if one.dtype.kind != "f" or one.shape != other.shape or one.any():
        return False
    read = {each for operator in operators for each in operator.inputs}
    given = (truth[each] for each in read if each in truth and truth[each].dtype.kind in "fc")
    sizes = (np.abs(each).max(initial=0) for each in given)
    return bool(np.abs(other).max(initial=0) <= NOISE * max((float(each) for each in sizes), default=0.0))


def _ties(subgraph: Subgraph, operator: Operator, truth: Mapping[int, Array]) -> bool:
    """Whether boxes are equal in scores or have no area, of which LiteRT selects others."""
    known = [truth.get(index, subgraph.tensors[index].data) for index in operator.inputs[:2]]
    if any(each is None for each in known):
        return False
    boxes, scores = (np.asarray(each) for each in known)
    flat = (boxes[:, 0] == boxes[:, 2]) | (boxes[:, 1] == boxes[:, 3])
    return bool(flat.any()) or np.unique(scores).size < scores.size


def _quotients(
    subgraph: Subgraph, operator: Operator, truth: Mapping[int, Array], one: Array, real: Callable[[], Array | None]
) -> Array:
    """Where a quotient is one by zero, or less than a step, which LiteRT loses."""
    _, divided_by, made = (quant_of(subgraph.tensors[each]) for each in (*operator.inputs, *operator.outputs))
    found, before = np.zeros(one.shape, bool), real()
    if operator.inputs[1] in truth:
        found = found | (truth[operator.inputs[1]] == (0 if divided_by is None else int(divided_by.zero_point[0])))
    if made is not None and before is not None:
        found = found | (np.abs(before) < made.scale[0])
    return found


def _overflows(subgraph: Subgraph, operator: Operator, one: Array) -> bool:
    """Whether products of 16 bits overflow LiteRT's accumulators, as a scale was never calibrated."""
    if one.dtype != np.int16 or operator.name not in ("BATCH_MATMUL", "FULLY_CONNECTED", "MUL"):
        return False
    tensors = [subgraph.tensors[index] for index in (*operator.inputs[:2], operator.outputs[0])]
    quants = [quant_of(tensor) for tensor in tensors]
    if any(tensor.dtype != "int16" for tensor in tensors) or any(each is None for each in quants):
        return False
    first, second, out = (float(each.scale.max()) for each in quants if each is not None)
    return first * second / out > OVERFLOW


def _shifts_left(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether a difference of bytes has so small steps that LiteRT's is 1 whatever it is of, as its scale was never
    calibrated: all operands were equal.
    """
    if operator.name != "SUB" or (dtype := subgraph.tensors[operator.outputs[0]].dtype) not in DIFFERENCE:
        return False
    quants = [quant_of(subgraph.tensors[index]) for index in (*operator.inputs, *operator.outputs)]
    if any(each is None for each in quants):
        return False
    first, second, out = (float(each.scale.max()) for each in quants if each is not None)
    return max(first, second) >= DIFFERENCE[dtype] * out


def tie(subgraph: Subgraph, operator: Operator) -> float:
    """How near to the middle between two numbers both are right, by the multiplier of a product's kernel. A conversion
    lifts sums by as much as the kernel's two roundings lift positive ones, while these lower negative ones.
    """
    tensors = [subgraph.tensors[index] for index in (*operator.inputs[:2], operator.outputs[0]) if index >= 0]
    quants = [quant_of(tensor) for tensor in tensors]
    if len(quants) < 3 or any(each is None or each.scale.size == 0 for each in quants):
        return TIE
    first, second, out = (float(each.scale.max()) for each in quants if each is not None)
    return max(TIE, min(2 * first * second / out, WIDEST_TIE))
