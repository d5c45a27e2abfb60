"""Mutants of cases that execute what no other test does, each with what becomes of it, and how they are found.

A line of ``reaching.txt`` is a case, a change, and the error of what is refused; what is converted is compared with
LiteRT. ``python -m experiments.fuzz.reaching`` finds them, and writes what becomes of them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, InternalError, UnsupportedError
from layoutsolve.frontend import Reading, read
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from tests.builder import encode
from tests.conformance.cases import Case
from tests.conformance.mutants import NAMES, Mutant, mutants

LINES = Path(__file__).with_name("reaching.txt")

EXACT = "exact, "
"""What begins the change of a model that is read with exact results."""

CONSTANT, OF_SIZES = "all constant", "of sizes"
"""The changes of a model that has other inputs."""

CONVERTED = "converted"
"""What becomes of a mutant that is not refused."""


class Changed(Mutant):
    """More changes: of shapes, parameters, constants and options."""

    def shape(self, index: int, change: Callable[[list[int]], list[int]]) -> None:
        """State another shape; constants are filled up or cut."""
        tensor = self.graph.tensors[index]
        before = [] if tensor.shape is None else [int(size) for size in tensor.shape]
        tensor.shape, tensor.shapeSignature = change(before), None
        raw = self.builder.model.buffers[tensor.buffer].bytes
        if raw and NAMES[tensor.type] != "string":
            data = np.frombuffer(raw, np.uint8)
            size = len(raw) * int(np.prod(tensor.shape)) // max(int(np.prod(before)), 1)
            tensor.buffer = self.builder.buffer(np.resize(data, size).tobytes())

    def dynamic(self, index: int, axis: int) -> None:
        """Open a size of a tensor."""
        tensor = self.graph.tensors[index]
        tensor.shapeSignature = list(tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature)
        tensor.shapeSignature[axis] = -1

    def computed(self, index: int) -> None:
        """Have a constant given, as an input of the model."""
        self.graph.tensors[index].buffer = 0
        self.graph.inputs = [*self.graph.inputs, index]

    def constant(self, arrays: Sequence[Array]) -> None:
        """Have what is given as constants, and no inputs."""
        for index, data in zip(self.graph.inputs, arrays, strict=True):
            tensor = self.graph.tensors[index]
            tensor.buffer = self.builder.buffer(encode(data, NAMES[tensor.type]))
        self.graph.inputs = []

    def of_sizes(self, index: int) -> None:
        """Have the numbers of a constant computed as the sizes of an input, all of which are open."""
        tensor = self.graph.tensors[index]
        sizes = np.frombuffer(self.builder.model.buffers[tensor.buffer].bytes, NAMES[tensor.type]).tolist()
        given = self.builder.input("sizes", sizes, signature=[-1 for _ in sizes])
        tensor.buffer, operators = 0, self.graph.operators
        self.builder.operator("SHAPE", [given], [index], {"out_type": NAMES[tensor.type].upper()})
        operators.insert(0, operators.pop())

    def numbers(self, index: int, change: Callable[[Any], Any]) -> None:
        """Change the numbers of a constant."""
        tensor = self.graph.tensors[index]
        dtype = NAMES[tensor.type]
        data = np.frombuffer(self.builder.model.buffers[tensor.buffer].bytes, dtype)
        with np.errstate(all="ignore"):
            tensor.buffer = self.builder.buffer(encode(np.resize(change(data), data.size), dtype))

    def parameters(self, index: int, scale: list[float], zero: list[int]) -> None:
        """Give a tensor other scales and zero points."""
        made = schema.QuantizationParametersT(scale=scale, zeroPoint=zero) if scale else None
        self.graph.tensors[index].quantization = made

    def option(self, table: str, field: str, value: object) -> None:
        """Set an option."""
        made = copy(getattr(self.operator, table))
        setattr(made, field, value)
        setattr(self.operator, table, made)


SHAPES: Mapping[str, Callable[[list[int]], list[int]]] = {
    "of one dimension more": lambda shape: [1, *shape],
    "of one dimension less": lambda shape: shape[1:],
    "without dimensions": lambda _: [],
    "one longer at the end": lambda shape: [*shape[:-1], shape[-1] + 1] if shape else [1],
    "one longer in front": lambda shape: [shape[0] + 1, *shape[1:]] if shape else [2],
    "empty": lambda shape: [*shape[:-1], 0],
    "of size 1 at the end": lambda shape: [*shape[:-1], 1],
}
NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "negative": lambda data: -1 - np.abs(data),
    "zero": np.zeros_like,
    "one": np.ones_like,
    "larger": lambda data: data + 1,
    "far larger": lambda data: data * 100 + 100,
    "backwards": lambda data: data[::-1],
}


def changes(source: bytes, place: int, given: Sequence[Array]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """All changes of one operator, each with a label; a model is written where it is asked for."""

    def changed(label: str, change: Callable[[Changed], object]) -> tuple[str, Callable[[], bytes]]:
        def made() -> bytes:
            mutant = Changed(source, place)
            change(mutant)
            return mutant.builder.finish()

        return label, made

    yield "as it is", lambda: source
    yield changed(CONSTANT, lambda m: m.constant(given))
    yield from mutants(source, place)
    original = Changed(source, place)
    inputs, outputs = original.operator.inputs, original.operator.outputs
    ports = [(f"input {at}", index) for at, index in enumerate(inputs) if index != -1]
    ports += [(f"output {at}", index) for at, index in enumerate(outputs)]
    for name, index in ports[:12]:
        tensor = original.graph.tensors[index]
        for label, shape in SHAPES.items():
            yield changed(f"{name} {label}", lambda m, of=index, to=shape: m.shape(of, to))
        for axis in range(0 if tensor.shape is None else len(tensor.shape)):
            yield changed(f"{name} open along {axis}", lambda m, of=index, at=axis: m.dynamic(of, at))
        for scale, zero in (([], []), ([0.0], [0]), ([-1.0], [0]), ([0.5], [1]), ([0.5] * 2, [0] * 2), ([0.5], [])):
            yield changed(f"{name} by {scale} {zero}", lambda m, of=index, s=scale, z=zero: m.parameters(of, s, z))
        if raw := original.builder.model.buffers[tensor.buffer].bytes:
            if NAMES[tensor.type] in ("int32", "int64") and min(np.frombuffer(raw, NAMES[tensor.type]), default=0) > 0:
                yield changed(f"{name} {OF_SIZES}", lambda m, of=index: m.of_sizes(of))
            yield changed(f"{name} computed", lambda m, of=index: m.computed(of))
            for label, numbers in NUMBERS.items() if NAMES[tensor.type] in ("int32", "int64", "float32") else ():
                yield changed(f"{name} {label}", lambda m, of=index, to=numbers: m.numbers(of, to))
    for table in ("builtinOptions", "builtinOptions2"):
        for field, value in vars(getattr(original.operator, table) or object).items():
            for other in _others(value) if not field.startswith("_") else ():
                label = f"{field} = {other}"
                yield changed(label, lambda m, t=table, f=field, to=other: m.option(t, f, to))
    if original.operator.customOptions is not None:
        yield changed("without options", lambda m: setattr(m.operator, "customOptions", None))


def _others(value: object) -> list[object]:
    """Other values of an option."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [type(value)(each) for each in (-1, 0, 1, 2, 3, 100) if each != value]
    if isinstance(value, (list, np.ndarray)):
        numbers = [int(each) for each in value]
        return [
            numbers[:-1],
            [*numbers, 1],
            [each + 1 for each in numbers],
            [-1 for _ in numbers],
            [0 for _ in numbers],
        ]
    return []


def place_of(case: Case, source: bytes) -> int:
    """The place of a case's operator in its model."""
    return next(each.index for each in parse(source).subgraphs[0].operators if each.name == case.operator)


def outcome(source: bytes, exact: bool) -> tuple[str, bytes | None]:
    """What becomes of a model: the error that it is refused with, or the converted one."""
    try:
        made = serialise(read(source, "case", Reading(quant="exact") if exact else None))
        return CONVERTED, bytes(made.SerializeToString())
    except InternalError:
        raise
    except ConversionError as error:
        text = str(error.gaps[0]) if isinstance(error, UnsupportedError) else str(error)
        return f"{type(error).__name__}: {text}".replace("\n", " / "), None
