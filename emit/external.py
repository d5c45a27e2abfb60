"""Constants in a file beside the model: a protobuf message holds no more than two gigabytes."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from layoutsolve.ir.elements import memory
from layoutsolve.ir.graph import Array, Graph
from layoutsolve.proto.messages import ModelProto, TensorProto

LIMIT = (1 << 31) - (1 << 27)
"""Bytes of constants beyond which a model has to keep them outside; what is left is for everything else."""

_SMALLEST = 1024
_ALIGNMENT = 4096
"""So that the constants can be mapped into memory."""


def constant_bytes(graph: Graph) -> int:
    """The bytes of all constants of a graph; what lies in the same memory is written once."""
    found = {memory(value.data): value.data.nbytes for value in graph.values.values() if value.data is not None}
    return sum(found.values())


class External:
    """The constants that are kept outside, and where in the file each of them lies; ``size`` is that of the file."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Array]] = []
        self.size = 0

    def take(self, proto: TensorProto, data: Array) -> bool:
        """Keep the data of a tensor outside; False where it is so small that it had better stay inside."""
        if data.nbytes < _SMALLEST:
            return False
        self.size += -self.size % _ALIGNMENT
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", ""), ("offset", self.size), ("length", data.nbytes)):
            proto.external_data.add(key=key, value=str(value))
        self._parts.append((self.size, data))
        self.size += data.nbytes
        return True

    def write(self, file: BinaryIO) -> None:
        """Write the constants, one at a time."""
        end = 0
        for offset, data in self._parts:
            file.write(b"\0" * (offset - end))
            file.write(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
            end = offset + data.nbytes


def place(model: ModelProto, location: str) -> ModelProto:
    """A copy of a model that knows the name of the file, beside it, that its constants are in."""
    placed = ModelProto()
    placed.CopyFrom(model)
    for proto in placed.graph.initializer:
        for entry in proto.external_data:
            if entry.key == "location":
                entry.value = location
    return placed
