"""A subgraph in the making: its tensors and its operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from layoutsolve.emit.tensors import half_of
from layoutsolve.emit.tflite import kernels
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.reading.model import Operator, Quantization, Tensor
from layoutsolve.ir.graph import Array, Dim, Graph, Quant, Shape, Size, Value, quotient
from layoutsolve.ir.names import Names

_SIZE_TYPES = {"int32": 2, "int64": 4}
"""The types of sizes, by their numbers in the schema."""

LARGEST = float(np.finfo(np.float32).max)

MOST = (1 << 31) - 1
"""The greatest number that a size or an index has."""


def stated(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape as a file states it, dynamic sizes as 1, and the signature, in which they are -1."""
    sizes = tuple(1 if isinstance(size, Size) else size for size in shape)
    return sizes, tuple(-1 if isinstance(size, Size) else size for size in shape)


def view_options(sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The options of a RESHAPE, which state eight sizes at most (``TFLITE_RESHAPE_PARAMS_MAX_DIMENSION_COUNT``): its
    input alone has more.
    """
    return {"new_shape": tuple(sizes)} if len(sizes) <= _MOST_STATED else {}


def is_computed(signature: Sequence[int]) -> bool:
    """Whether a RESHAPE cannot state such sizes, of which one alone may be -1 and none 0 beside it."""
    return -1 in signature and (signature.count(-1) > 1 or 0 in signature)


_MOST_STATED = 8
_FARTHEST, _FINE, _LIMIT = 1 << 14, 1e-7, 1 << 20
"""How many steps of a result one of what is stored anew may be, below which steps floats are limited beforehand, and to
how many of these.
"""

_LEAST = float(np.finfo(np.float32).tiny)
"""The least steps: XNNPACK ends the process at numbers below the normal ones."""

FEWEST = 1 << 10
"""The fewest weights that are stored as integers, and dequantized: LiteRT does that once."""


def restored(data: Array, value: Value) -> tuple[Array, Quant] | None:
    """The int8 numbers of floats that are those of a constant, which is quantized, in any order; None for others."""
    quant = value.quant
    if quant is None or quant.block or data.size < FEWEST or value.dtype not in _LOWER:
        return None
    count, zero = quant.scale.size, quant.zero_point.astype(np.int32) - _LOWER[value.dtype]
    if np.abs(zero).max() > _BYTE or not (quant.scale > 0).all():
        return None
    for axis in [None] if count == 1 else [axis for axis, size in enumerate(data.shape) if size == count]:
        found = Quant(quant.scale, zero.astype(np.int8), axis)
        whole = np.rint(data / found.spread(quant.scale, data.ndim)) + found.spread(zero, data.ndim)
        stored = np.clip(whole, -_BYTE - 1, _BYTE).astype(np.int8)
        if np.array_equal(found.real(stored), data):
            return stored, found
    return None


_BYTE = 127
_LOWER = {"int4": 0, "int8": 0, "uint4": 0, "uint8": 128}
"""By type how much lower the int8 numbers are that are stored for it: XNNPACK dequantizes no others before a run."""


def quantization(quant: Quant | None) -> Quantization | None:
    """Scales and zero points as a file states them."""
    if quant is None:
        return None
    if quant.block:
        raise ExpressionError("it reads weights that are quantized by blocks", "quantize them per channel")
    return Quantization(quant.scale, quant.zero_point.astype(np.int64), quant.axis or 0)


def have_equal_steps(one: Quantization | None, other: Quantization | None) -> bool:
    """Whether scales and zero points are the same; a file may leave out zero points of 0."""
    if one is None or other is None:
        return one is other
    zero, zeros = (each.zero_point if each.zero_point.size else np.zeros(each.scale.size) for each in (one, other))
    return np.array_equal(one.scale, other.scale) and np.array_equal(zero, zeros)


class Draft:
    """Tensors and operators, numbered in the order in which they are added."""

    def __init__(self, graph: Graph, names: Mapping[str, str]) -> None:
        """``origin`` is which operator of the source is written, by its graph and its number, ``origins`` has that of
        each operator. ``names`` are what inputs and outputs are called, where that is not as in the graph. ``stored``
        are constants of integers that are read as the floats that they mean, and stay integers. ``asked`` are vectors
        of sizes, which are written where they are read: most operators know them by their results.
        ``inputs`` and ``outputs`` are names of its tensors, ``subgraphs`` those that are added to the model, of which
        the first one has the number ``first``.
        """
        self.graph, self.public = graph, names
        self.inputs, self.outputs = [*graph.inputs], [*graph.outputs]
        self.subgraphs, self.first = list[Draft](), 1
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.origins: list[tuple[int, int] | None] = []
        self.origin: tuple[int, int] | None = None
        self.places: dict[str, int] = {}
        self.stored: tuple[Value, ...] = ()
        self.names = Names([*graph.values, *names.values()])
        self.asked: dict[str, Shape] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self._shapes: dict[tuple[int, str], int] = {}
        self._real: dict[int, int] = {}

    def add(self, name: str, dtype: str, shape: Shape, quant: Quant | None = None, data: Array | None = None) -> int:
        """Add a tensor under a name that nothing else has."""
        sizes, signature = stated(shape)
        if dtype == "string":
            raise ExpressionError(f"its tensor '{name}' is of text", "cut the model with --from or --to")
        if any(not 0 <= size <= MOST for size in sizes):
            raise ExpressionError(f"its tensor '{name}' has a size above {MOST}")
        small = self._small(data) if data is not None and dtype == "float32" else None
        if small is not None:  # as the source has it
            stored = self.add(self.names.derived(name, "stored"), str(small[0].dtype), shape, small[1], small[0])
            wide = self.add(name, "float32", shape)
            self.write("DEQUANTIZE", [stored], [wide], {})
            return wide
        if quant is not None and ((quant.scale > 0) & (quant.scale < _LEAST)).any():
            raise ExpressionError(f"the steps of '{name}' are smaller than kernels divide by", "quantize it anew")
        index = len(self.tensors)
        self.tensors.append(Tensor(index, name, dtype, sizes, signature, quantization(quant), data))
        return index

    def numbered(self, body: Draft) -> int:
        """The number of a subgraph that is complete."""
        self.subgraphs.append(body)
        return self.first + len(self.subgraphs) - 1

    def _small(self, data: Array) -> tuple[Array, Quant | None] | None:
        """What weights are stored as that a source has as float16, or as integers; None for those that it has so."""
        half = half_of(data) if self.graph.halves else None
        if half is not None:
            return half, None
        return next((found for value in self.stored if (found := restored(data, value)) is not None), None)

    def value(self, name: str) -> int:
        """The tensor of a value of the graph, -1 for one left out."""
        if not name:
            return -1
        if name in self.asked and name not in self.places:
            sizes, wide = self.extents(self.asked[name], self.graph.inputs), self.graph.values[name]
            self.places[name] = self.add(self.public.get(name, name), wide.dtype, wide.shape)
            self.write("CAST", [sizes], [self.places[name]], {})
        if name not in self.places:
            value = self.graph.values[name]
            public = self.public.get(name, name)
            self.places[name] = self.add(public, value.dtype, value.shape, value.quant, value.data)
        return self.places[name]

    def constant(self, data: Array, like: str = "") -> int:
        """A constant without quantization; equal small ones are one tensor."""
        array = np.asarray(data)
        key = str(array.dtype), array.shape, array.tobytes() if array.nbytes <= 1 << 10 else b""
        if key[2] and key in self._constants:
            return self._constants[key]
        found = self.add(self.names.derived(like or "constant", "constant"), str(array.dtype), array.shape, None, array)
        if key[2]:
            self._constants[key] = found
        return found

    def extents(self, shape: Shape, names: Iterable[str], free: int = 0) -> int:
        """A vector of sizes, of which those that are open are read of the tensors with some ``names``: they are that of
        one, or a multiple; as many as are ``free`` may be neither, and are -1. Raises :class:`ExpressionError` for
        others.
        """
        given, vectors = [name for name in names if name], list[int]()
        parts = [self._told(size, given) if isinstance(size, Size) else size for size in shape]
        if parts.count(None) > free:
            raise ExpressionError("the sizes that it needs are dynamic", "fix them with --shape")
        for read, run in groupby(parts, lambda part: isinstance(part, tuple)):
            if read:
                vectors += [self._extent(*part) for part in run if isinstance(part, tuple)]
            else:
                vectors.append(self.constant(np.array([-1 if part is None else part for part in run], np.int32)))
        if len(vectors) == 1:
            return vectors[0]
        made = self.add(self.names.unique("sizes"), "int32", (len(shape),))
        self.write("CONCATENATION", vectors, [made], {"axis": 0})
        return made

    def _told(self, size: Size, names: Sequence[str]) -> tuple[str, int, int] | None:
        """Which of some tensors tells an open size, in which dimension, and how many times that it is."""
        for name in names:
            for axis, each in enumerate(self.graph.values[name].shape):
                factor = quotient(size, each) if isinstance(each, Size) else None
                if isinstance(factor, int):
                    return name, axis, factor
        return None

    def _extent(self, name: str, axis: int, factor: int) -> int:
        """A vector of one open size."""
        place = self.constant(np.array([axis], np.int32))
        found = self._step("GATHER", [self.sizes_of(self.value(name)), place], {"axis": 0})
        return found if factor == 1 else self._multiple(found, factor)

    def _multiple(self, vector: int, factor: int) -> int:
        return self._step("MUL", [vector, self.constant(np.array([factor], np.int32))], {})

    def _step(self, name: str, inputs: list[int], options: Mapping[str, Any]) -> int:
        made = self.add(self.names.unique("size"), "int32", (1,))
        self.write(name, inputs, [made], options)
        return made

    def sizes_of(self, tensor: int, dtype: str = "int32") -> int:
        """The vector of a tensor's sizes, which is written once for each type, int32 or int64."""
        if (tensor, dtype) not in self._shapes:
            made = self.add(self.names.unique("sizes"), dtype, (len(self.tensors[tensor].shape),))
            self.write("SHAPE", [tensor], [made], {"out_type": _SIZE_TYPES[dtype]})
            self._shapes[tensor, dtype] = made
        return self._shapes[tensor, dtype]

    def like(self, index: int, shape: Sequence[Dim]) -> int:
        """A tensor of another shape with the type and the meaning of another one."""
        tensor = self.tensors[index]
        made = self.add(self.names.derived(tensor.name, "flat"), tensor.dtype, tuple(shape))
        self.tensors[made] = replace(self.tensors[made], quant=tensor.quant)
        return made

    def write(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: Mapping[str, Any]) -> None:
        """Add an operator. Raises :class:`ExpressionError` where LiteRT has no kernel for its types."""
        if name == "QUANTIZE":
            self.quantize(inputs[0], outputs[0])
        else:
            self._write(name, inputs, outputs, options)

    def quantize(self, tensor: int, stored: int, step: float = 0.0) -> None:
        """Store a tensor in other steps. ``step`` is the largest one of what floats are computed of."""
        self._write("QUANTIZE", [self._near(tensor, stored, step)], [stored], {})

    def _write(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: Mapping[str, Any]) -> None:
        kernels.check(name, inputs, outputs, self.tensors)
        self.append(Operator(len(self.operators), name, tuple(inputs), tuple(outputs), options))

    def _near(self, tensor: int, stored: int, step: float) -> int:
        """What is to be stored in steps, no further from zero than kernels take: they multiply integers by no more than
        shifts them out of 32 bits, and floats wrap there, where each has less than twenty bits of its own."""
        steps, before = self.tensors[stored].quant, self.tensors[tensor].quant
        if steps is None or len(steps.scale) != 1:
            return tensor
        scale = float(steps.scale[0])
        if before is not None and float(before.scale[0]) >= _FARTHEST * scale:
            tensor = self.real(tensor)
        if self.tensors[tensor].dtype != "float32" or (scale >= _FINE and step < _FARTHEST * scale):
            return tensor
        for operator, limit in (("MINIMUM", scale), ("MAXIMUM", -scale)):
            end = self.constant(np.array(np.clip(limit * _LIMIT, -LARGEST, LARGEST), np.float32))
            made = self.like(tensor, _shape(self.tensors[tensor]))
            self.write(operator, [tensor, end], [made], {})
            tensor = made
        return tensor

    def append(self, operator: Operator) -> None:
        """Add an operator as it is."""
        self.operators.append(operator)
        self.origins.append(self.origin)

    def real(self, index: int) -> int:
        """A tensor of the floats that a quantized one stands for; each is dequantized once."""
        if index not in self._real:
            tensor = self.tensors[index]
            made = self.add(self.names.derived(tensor.name, "real"), "float32", _shape(tensor))
            self.write("DEQUANTIZE", [index], [made], {})
            self._real[index] = made
        return self._real[index]


def _shape(tensor: Tensor) -> Shape:
    return tuple(
        Size(1, (f"{tensor.index}_{axis}",)) if mark == -1 else mark for axis, mark in enumerate(tensor.signature)
    )
