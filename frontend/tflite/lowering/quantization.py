"""Quantization parameters: from tensors to the graph's annotations, and what storage of them allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Array, Quant, Value

_LIMITS = {"int2": (-2, 1), "int4": (-8, 7), "uint4": (0, 15)}
_LARGEST = float(np.finfo(np.float32).max)
_FOR_INFINITE = np.float32(2.0**60)
"""What stands for an infinite scale, which TensorFlow's converter writes for what is always 0: in LiteRT's kernels all
is divided by it, and the zero point is left. Products of two such scales are finite.
"""

_QUANTIZED = ("int2", "int4", "uint4", "int8", "uint8", "int16")


@cache
def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    if dtype in _LIMITS:
        return _LIMITS[dtype]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def quant_of(tensor: Tensor) -> Quant | None:
    """The annotation of a tensor. Parameters on other types than small integers mean nothing to any operator.

    Scales of zero make the numbers of a constant zeros; on what is computed they say that it is not quantized.
    """
    stated = tensor.quant
    if stated is None or tensor.dtype not in _QUANTIZED:
        return None
    if stated.kind not in ("affine", "blockwise"):
        raise GapError(f"tensor '{tensor.name}' is quantized by scales of several axes", "quantize it per channel")
    scale, zero = stated.scale.astype(np.float32), stated.zero_point
    if tensor.data is None and not scale.any():
        return None
    place = f"tensor {tensor.index} '{tensor.name}'"
    if np.isinf(scale).any() and _is_zero(tensor, scale, zero):
        scale = np.where(np.isposinf(scale), _FOR_INFINITE, scale)
    if not _within(scale, 0.0, _LARGEST):
        raise ModelError(f"{place} has a quantization scale that is negative or not finite")
    if not zero.size:
        zero = np.zeros(1, np.int64)
    if not _within(zero, *limits(tensor.dtype)):
        raise ModelError(f"{place} has a zero point outside of {tensor.dtype}")
    stored = zero.astype(
        np.int8 if tensor.dtype in ("int2", "int4") else np.uint8 if tensor.dtype == "uint4" else tensor.dtype
    )
    return _annotation(tensor, scale, stored, place)


def _is_zero(tensor: Tensor, scale: Array, zero: Array) -> bool:
    """Whether all numbers that a tensor holds are 0 if its scale is infinite: what it computes is, as divided by it."""
    return tensor.data is None or (scale.size == 1 and zero.size <= 1 and bool((tensor.data == zero.sum()).all()))


def _within(numbers: Array, low: float, high: float) -> bool:
    """Whether all numbers are in a range, which NaN is not. Mostly there is one, which needs no vector arithmetic."""
    if numbers.size == 1:
        return bool(low <= numbers.item() <= high)
    return bool(((numbers >= low) & (numbers <= high)).all())


def _annotation(tensor: Tensor, scale: Array, zero: Array, place: str) -> Quant:
    axis, block = (tensor.quant.axis, tensor.quant.block) if tensor.quant else (0, 0)
    if block:
        return _blocks(tensor.shape, axis, block, scale, zero, place)
    if scale.size == 1:
        return Quant(scale, zero[:1])
    if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] != scale.size or zero.size not in (1, scale.size):
        raise ModelError(
            f"{place} has {scale.size} scales and {zero.size} zero points along axis {axis} of {list(tensor.shape)}"
        )
    return Quant(scale, np.broadcast_to(zero, scale.shape), axis)


def _blocks(shape: tuple[int, ...], axis: int, block: int, scale: Array, zero: Array, place: str) -> Quant:
    """Parameters per block; those without a zero point share one zero."""
    grid = [size // block if at == axis else size for at, size in enumerate(shape)]
    if (
        not 0 <= axis < len(shape)
        or shape[axis] % block
        or scale.size != prod(grid)
        or zero.size not in (1, scale.size)
    ):
        raise ModelError(
            f"{place} has {scale.size} scales and {zero.size} zero points for {list(shape)} in blocks of {block}"
        )
    return Quant(scale.reshape(grid), np.broadcast_to(zero.reshape(-1 if zero.size == 1 else grid), grid), axis, block)


def transposed_quant(quant: Quant | None, perm: Sequence[int]) -> Quant | None:
    """The annotation of the same tensor with its axes permuted."""
    if quant is None or quant.axis is None:
        return quant
    axis = list(perm).index(quant.axis)
    if quant.block:
        return Quant(quant.scale.transpose(perm), quant.zero_point.transpose(perm), axis, quant.block)
    return Quant(quant.scale, quant.zero_point, axis)


def agree(one: Quant | None, other: Quant | None) -> bool:
    """Whether both give every stored integer the same meaning, or none."""
    return one is other or (one is not None and one.matches(other))


def requantized(data: Array, before: Quant, after: Quant) -> Array:
    """Stored integers that mean the same by other parameters of the whole tensor, as near as they come."""
    steps = np.rint(before.real(data) / after.scale[0]) + np.float32(after.zero_point[0])
    result: Array = np.clip(steps, *limits(data.dtype.name)).astype(data.dtype)
    return result


def moves(inputs: Iterable[Value], dtype: str, quant: Quant | None, stored: Sequence[str] = ()) -> bool:
    """Whether an operator that only moves elements can move the stored integers: all mean the same by them.

    ``stored`` lists the types whose integers ONNX's operator takes, empty for all.
    """
    if quant is None or quant.axis is not None or (stored and dtype not in stored):
        return False
    return all(value.dtype == dtype and quant.matches(value.quant) for value in inputs)
