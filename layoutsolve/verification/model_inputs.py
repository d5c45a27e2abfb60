"""Inputs of a converted model: their sizes, and how it stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port
from layoutsolve.verification.runtimes import Runtime, element


def as_converted(port: Port, own: tuple[str, str, Sequence[int | str]], moved: Sequence[int] | None) -> Port:
    """An input with the sizes that the ONNX model was given, which may be others than its source states."""
    stored = own[2]
    if len(stored) != len(port.signature):
        return port
    places = range(len(stored)) if moved is None else moved
    sizes = {axis: size if isinstance(size, int) else -1 for axis, size in zip(places, stored, strict=True)}
    return replace(port, signature=tuple(sizes[axis] for axis in range(len(stored))))


def sizes_of(
    port: Port,
    given: Sequence[int] | None,
    stored: Sequence[int | str],
    moved: Sequence[int] | None,
    free: tuple[int, int],
) -> tuple[int, ...]:
    """The shape of an input: as it is given, else as the ONNX model states it, else as its source does, else
    as it is ``free`` where it comes first and where it does not.

    The ONNX model may have been given other sizes than its source states, whose input is then resized. Sizes that it
    leaves open and its source states begin with these: they are larger by as much as those that are free are above 1.
    """
    if given is not None:
        return tuple(given)
    places = range(len(stored)) if moved is None else moved
    pinned = {axis: own for axis, own in zip(places, stored, strict=True) if isinstance(own, int)}
    first, other = free if len(port.signature) > 1 else free[1:] * 2
    sizes = (max(own, 1) - 1 + (other if axis else first) for axis, own in enumerate(port.signature))
    return tuple(pinned.get(axis, size) for axis, size in enumerate(sizes))


def feeds(runtime: Runtime, inputs: Sequence[Array], permutations: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    """The inputs by name as the ONNX model stores them; zeros for the state that the source model keeps inside."""
    names = [name for name, _, _ in runtime.inputs]
    given = {name: stored(data, permutations.get(name)) for name, data in zip(names, inputs, strict=False)}
    return {**given, **{name: zeros(dtype, shape) for name, dtype, shape in runtime.inputs[len(inputs) :]}}


def zeros(dtype: str, shape: Sequence[int | str | None]) -> Array:
    """Zeros for an input of an ONNX Runtime type such as ``tensor(float)``; 1 for each symbolic dimension."""
    return np.zeros([size if isinstance(size, int) else 1 for size in shape], element(dtype))


def stored(data: Array, permutation: Sequence[int] | None) -> Array:
    """An input as ONNX Runtime takes it: texts as objects, in the order of a permutation."""
    data = np.char.decode(data, "utf-8").astype(object) if data.dtype.kind == "S" else data
    return data if permutation is None else np.ascontiguousarray(np.transpose(data, permutation))
