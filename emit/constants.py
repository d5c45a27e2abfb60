"""Rearranging constants while converting, which is how weights absorb layouts for free."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.graph import Array, Dim, Quant, Value
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.rule import static


def rearranged(value: Value, logical: Layout, layout: Layout, sizes: Sequence[Dim]) -> Value:
    """A constant in another layout; the parameters of a quantised axis follow it.

    Where the axis is no longer one stored dimension, or its blocks are torn apart, the constant is dequantised: ONNX
    has no other way to say it.
    """
    if layout == logical or value.data is None:
        return value
    numbers = [static(size) for size in sizes]
    data = _permuted(value.data, logical, layout, numbers)
    quant, dtype = value.quant, value.dtype
    if quant is not None and quant.axis is not None:
        quant = _follow(quant, logical, layout, numbers)
        if quant is None:
            data, dtype = _permuted(dequantised(value), logical, layout, numbers), "float32"
    return Value(value.name, dtype, data.shape, quant, data)


def dequantised(value: Value) -> Array:
    """The real numbers of a quantised constant."""
    if value.quant is None or value.data is None:
        raise TypeError(f"'{value.name}' is not a quantised constant")
    return value.quant.real(value.data)


def _permuted(data: Array, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Array:
    """Elements reordered from one layout to another; atoms are axes in between."""
    source = order(logical)
    spread = data.reshape([sizes[atom] for atom in source])
    shape = tuple(static(dim) for dim in stored_shape(layout, sizes))
    return spread.transpose([source.index(atom) for atom in order(layout)]).reshape(shape)


def _follow(quant: Quant, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Quant | None:
    """The parameters of a quantised axis in another layout, None where its atoms are spread or mixed with others."""
    atoms = logical[quant.axis or 0]
    if quant.block:
        return _follow_blocks(quant, logical, layout, sizes)
    for axis, group in enumerate(layout):
        if group and set(group) == set(atoms):
            scale = _permuted(quant.scale, (atoms,), (group,), sizes)
            zero = quant.zero_point
            return Quant(scale, _permuted(zero, (atoms,), (group,), sizes) if zero.size > 1 else zero, axis)
    return None


def _follow_blocks(quant: Quant, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Quant | None:
    """The parameters of blocks along an axis that is still one stored dimension, in the same order; else None."""
    axis = quant.axis or 0
    first, *others = logical[axis] or (-1,)
    if first == -1 or logical[axis] not in layout:
        return None
    grid = list(sizes)
    grid[first] = quant.scale.shape[axis]
    for atom in others:
        grid[atom] = 1
    scale, zero = (_permuted(each, logical, layout, grid) for each in (quant.scale, quant.zero_point))
    return Quant(scale, zero, layout.index(logical[axis]), quant.block)
