"""Sparse constants, expanded: compressed dimensions and blocks become a plain array."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading.model import SparseDimension, Tensor
from layoutsolve.ir.graph import Array

_LARGEST_EXPANSION = 256


def dense(tensor: Tensor) -> Array:
    """The elements of a sparse constant in place. Raises :class:`ModelError` where its parts contradict each other."""
    place = f"sparse tensor {tensor.index} '{tensor.name}'"
    sparsity, stored, rank = tensor.sparsity, tensor.data, len(tensor.shape)
    if sparsity is None or stored is None:
        raise ModelError(f"{place} has no data")
    order, block_map = sparsity.order, sparsity.block_map
    levels = rank + len(block_map)
    if (
        sorted(order) != list(range(levels))
        or len(sparsity.dimensions) != levels
        or any(axis >= rank for axis in block_map)
    ):
        raise ModelError(f"{place} has a traversal order that does not fit its shape")
    if any(not axis >= 0 for axis in block_map) or sorted(order[:rank]) != list(range(rank)):
        raise ModelError(f"{place} has blocks outside of its dimensions")
    if prod(tensor.shape) > _LARGEST_EXPANSION * (stored.size + 1024):
        raise ModelError(f"{place} states {list(tensor.shape)} elements, far more than the {stored.size} it stores")
    coordinates = _coordinates(sparsity.dimensions, stored.size, place)
    index = _element_index(tensor.shape, order, block_map, sparsity.dimensions, coordinates, place)
    result = np.zeros(tensor.shape, stored.dtype)
    result[index] = stored
    return result


def _coordinates(dimensions: tuple[SparseDimension, ...], stored: int, place: str) -> list[Array]:
    """For each level the coordinate of every stored element. Each level refines the positions of the one before."""
    coordinates: list[Array] = []
    count = 1
    for level in dimensions:
        if level.dense:
            if level.size < 0 or count * level.size > stored:
                raise ModelError(f"{place} describes more elements than it stores")
            parents = np.repeat(np.arange(count), level.size)
            own = np.tile(np.arange(level.size), count)
        else:
            parents, own = _compressed(level, count, place)
        coordinates = [earlier[parents] for earlier in coordinates] + [own]
        count = own.size
        if count > stored:
            raise ModelError(f"{place} describes more elements than it stores")
    if count != stored:
        raise ModelError(f"{place} describes {count} elements but stores {stored}")
    return coordinates


def _compressed(level: SparseDimension, count: int, place: str) -> tuple[Array, Array]:
    segments, indices = level.segments, level.indices
    if segments is None or indices is None or segments.size != count + 1:
        raise ModelError(f"{place} lacks the segments of a compressed dimension")
    lengths: Array = np.diff(segments.astype(np.int64))
    if segments[0] != 0 or (lengths < 0).any() or segments[-1] != indices.size:
        raise ModelError(f"{place} has segments that do not cover its indices")
    return np.repeat(np.arange(count), lengths), indices.astype(np.int64)


def _element_index(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    block_map: tuple[int, ...],
    dimensions: tuple[SparseDimension, ...],
    coordinates: list[Array],
    place: str,
) -> tuple[Array, ...]:
    """The position of every stored element in the full tensor: outer coordinate times block size plus inner one."""
    rank = len(shape)
    index = [np.zeros(0, np.int64)] * rank
    for level in range(rank):
        index[order[level]] = coordinates[level]
    for level in range(rank, len(order)):
        axis = block_map[order[level] - rank]
        index[axis] = index[axis] * dimensions[level].size + coordinates[level]
    for axis, size in enumerate(shape):
        if index[axis].size and (index[axis].min() < 0 or index[axis].max() >= size):
            raise ModelError(f"{place} has an element outside of its shape")
    return tuple(index)
