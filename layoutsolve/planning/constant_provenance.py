"""Where constants come from: which tensor of the source file has their bytes, and in which order it stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend import Model, parse
from layoutsolve.io.source import Content
from layoutsolve.ir.graph import Array, Dim, Value
from layoutsolve.solver.theory.layout import Layout, Order, grouped, order


@dataclass(frozen=True)
class Stored:
    """A tensor of the source file that has the elements of a constant: in which order it stores their atoms, and in
    which dimensions, None where these do not factor so. ``data`` are its elements as they are stored.
    """

    tensor: str
    order: Order
    dims: Layout | None
    data: Array


class Origins:
    """The constants of a source. Of a file of TensorFlow Lite those are found that are views of it, of one in ONNX
    those that have their names.
    """

    def __init__(self, content: Content) -> None:
        parsed = parse(content.data, content.folder, content.called)
        self.file = np.frombuffer(content.data, np.uint8)
        self.start = _address(self.file)
        self.names, self.places = set[str](), dict[int, tuple[str, tuple[int, ...]]]()
        if isinstance(parsed, Model):
            self.places = dict(_tensors(parsed, self.start, self.start + self.file.size))
        else:
            self.names = {each.name for each in parsed.original.graph.initializer}

    def of(self, value: Value, logical: Layout, sizes: Sequence[Dim]) -> Stored | None:
        """The tensor of the file that has the elements of a constant, None where they were made in some way."""
        data = value.data
        if data is None or data.size == 0 or value.dtype == "string":
            return None
        if value.name in self.names:
            return Stored(value.name, order(logical), logical, np.ascontiguousarray(data).reshape(-1))
        found, lying = self.places.get(_address(data)), _lying(data, logical, sizes)
        if found is None or lying is None:
            return None
        name, shape = found
        place = _address(data) - self.start
        stored = self.file[place : place + data.nbytes]
        if stored.size != data.nbytes:
            return None
        return Stored(name, lying, _cut(lying, sizes, shape), stored.view(data.dtype))


def _address(data: Array) -> int:
    """Where the elements of an array begin in memory."""
    address: int = data.__array_interface__["data"][0]
    return address


def _tensors(model: Model, start: int, end: int) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
    """The constants that lie in the file, by their addresses."""
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.data is not None and tensor.sparsity is None and start <= _address(tensor.data) < end:
                yield _address(tensor.data), (tensor.name, tensor.shape)


def _lying(data: Array, logical: Layout, sizes: Sequence[Dim]) -> Order | None:
    """The atoms of an array in the order in which they lie in memory; None where there are gaps between elements."""
    strides: dict[int, int] = {}
    for group, stride in zip(logical, data.strides, strict=True):
        for atom in reversed(group):
            strides[atom] = stride
            stride *= int(str(sizes[atom]))
    found = tuple(sorted(strides, key=lambda atom: -strides[atom]))
    expected = data.itemsize
    for atom in reversed(found):
        if strides[atom] != expected:
            return None
        expected *= int(str(sizes[atom]))
    return found


def _cut(lying: Order, sizes: Sequence[Dim], shape: Sequence[int]) -> Layout | None:
    """The dimensions of a tensor of the file in atoms; None where these are no whole dimensions together."""
    rest, counts = list(lying), []
    for dim in shape:
        count, size = 0, 1
        while size < dim and rest:
            size *= int(str(sizes[rest.pop(0)]))
            count += 1
        if size != dim:
            return None
        counts.append(count)
    return grouped(lying, counts)
