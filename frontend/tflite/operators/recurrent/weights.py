"""The weights of recurrent operators: constant matrices and vectors, as floats or as integers with their scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.ir.graph import Array, Dim, Quant, Value


@dataclass(frozen=True, eq=False)
class Matrix:
    """A constant matrix: floats, or int8 with a scale and a zero point for each row."""

    data: Array
    scale: Array | None = None
    zero: Array | None = None

    @property
    def real(self) -> Array:
        """The numbers it means."""
        if self.scale is None or self.zero is None:
            return self.data
        return Quant(self.scale, self.zero, 0).real(self.data)

    @property
    def negated(self) -> Matrix:
        """The matrix times -1; as floats where int8 has no room for it."""
        if self.scale is None or (self.zero is not None and self.zero.any()) or (self.data == -128).any():
            return Matrix(-self.real)
        return Matrix(-self.data, self.scale, self.zero)

    def rows(self, start: int, stop: int) -> Matrix:
        """Some of its rows."""
        if self.scale is None or self.zero is None:
            return Matrix(self.data[start:stop])
        return Matrix(self.data[start:stop], self.scale[start:stop], self.zero[start:stop])

    def columns(self, call: Call, label: str) -> Value:
        """Its transpose as a constant, for products with rows of data."""
        return self._written(call, self.data.T, label, 1)

    def factor(self, call: Call, label: str) -> Value:
        """Its transpose as floats, for a product in every step: integers are dequantized before the first one."""
        found = self.columns(call, label)
        if found.quant is None:
            return found
        return call.write("Identity", [found], found.shape, call.temporary(f"{label}_real"))

    def direction(self, call: Call, label: str) -> Value:
        """The constant with an axis for the direction in front, as ONNX's recurrent operators take it."""
        return self._written(call, self.data[None], label, 1)

    def _written(self, call: Call, data: Array, label: str, axis: int) -> Value:
        if self.scale is None or self.zero is None:
            return call.constant(data, label, "float32")
        return call.constant(data, label, "int8", Quant(self.scale, self.zero, axis))


def matrix(call: Call, position: int, rows: Dim, columns: Dim, *, diagonal: bool = False) -> Matrix:
    """An input that is a constant matrix of this shape; a vector may stand for a ``diagonal`` one."""
    value, data = _weights(call, position)
    if diagonal and data.ndim == 1 and rows == columns == data.size:
        call.draft.ask(data.size**2)
        return Matrix(np.diag(_real(value, data)))
    if data.shape != (rows, columns):
        raise ModelError(f"{call.origin} has weights of shape {list(data.shape)}, it needs [{rows}, {columns}]")
    quant = value.quant
    if quant is None or value.dtype not in ("int8", "uint8") or quant.axis not in (None, 0):
        return Matrix(_real(value, data))
    count = len(data)
    scale = np.broadcast_to(quant.scale, (count,))
    if call.declared(position) == "float32":
        if value.dtype == "uint8":
            return Matrix(_real(value, data))
        return Matrix(data, scale, np.broadcast_to(quant.zero_point, (count,)))
    if quant.axis is not None:
        raise ModelError(f"{call.origin} has weights with a scale for each row, LiteRT takes one")
    return Matrix(data.view(np.int8), scale, np.zeros(count, np.int8))


def vector(call: Call, position: int, size: Dim) -> Array:
    """An input that is a constant vector of this size, as the floats that it means."""
    value, data = _weights(call, position)
    if data.shape != (size,):
        raise ModelError(f"{call.origin} has a vector of shape {list(data.shape)}, it needs [{size}]")
    if value.dtype == "uint8" and value.quant is not None and call.declared(position) != "float32":
        return _symmetric(value.quant).real(data.view(np.int8))
    return _real(value, data)


def _symmetric(quant: Quant) -> Quant:
    """The parameters as LiteRT takes those of hybrid weights: their bytes are signed and have no zero point."""
    return Quant(quant.scale, np.zeros(quant.zero_point.shape, np.int8), quant.axis)


def integers(call: Call, position: int, size: Dim, scale: Array | float) -> Array:
    """An input that is a constant vector of int32 that count in steps of ``scale``, as floats."""
    value, data = _weights(call, position)
    if data.shape != (size,) or value.dtype != "int32":
        raise ModelError(f"{call.origin} has a bias of {value.dtype}{list(data.shape)}, it needs int32[{size}]")
    return (data.astype(np.float64) * scale).astype(np.float32)


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Matrices one below the other; int8 only where all are."""
    scales = [part.scale for part in parts if part.scale is not None]
    zeros = [part.zero for part in parts if part.zero is not None]
    if len(scales) != len(parts) or len(zeros) != len(parts):
        return Matrix(np.concatenate([part.real for part in parts]))
    return Matrix(np.concatenate([part.data for part in parts]), np.concatenate(scales), np.concatenate(zeros))


def beside(left: Matrix, right: Matrix) -> Matrix:
    """Two matrices side by side; int8 only where both count in the same steps."""
    if left.scale is not None and right.scale is not None and left.zero is not None and right.zero is not None:
        same = np.array_equal(left.scale, right.scale) and np.array_equal(left.zero, right.zero)
        if same:
            return Matrix(np.concatenate([left.data, right.data], 1), left.scale, left.zero)
    return Matrix(np.concatenate([left.real, right.real], 1))


def _weights(call: Call, position: int) -> tuple[Value, Array]:
    """A constant input and its data."""
    value = call.input(position)
    if value.data is None:
        raise GapError("its weights are computed at run time", "make the weights constant")
    return value, value.data


def _real(value: Value, data: Array) -> Array:
    """The numbers that the data of a constant mean."""
    if value.quant is not None:
        return value.quant.real(data)
    if not value.dtype.startswith("float"):
        raise ModelError(f"'{value.name}' holds {value.dtype} without quantization parameters, it needs float32")
    return data.astype(np.float32)
