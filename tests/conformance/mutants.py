"""Operators with an input or output too many or too few, or of another type: what hostile or broken files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.frontend.tflite.reading.reader import parse
from tests.builder import TYPES, Builder, encode
from tests.conformance.cases import Case

NAMES = {code: name for name, code in TYPES.items()}
PARAMETERS: Mapping[str, dict[str, Any] | None] = {
    "float32": None,
    **{dtype: {"scale": [0.05], "zeroPoint": [zero]} for dtype, zero in (("int8", 3), ("uint8", 100), ("int16", 0))},
}
"""Types of activations, and parameters for those that are quantized."""

_BYTES = {"complex64": 8, "complex128": 16, "bfloat16": 2, "resource": 4, "variant": 4}


def representatives(cases: list[Case]) -> Iterator[tuple[Case, bytes, int]]:
    """Of each operator's cases the first of each number of inputs and outputs, and the operator's place in it."""
    seen: set[tuple[str, int, int]] = set()
    for case in cases:
        if len([each for each in seen if each[0] == case.operator]) > 3:
            continue
        if case.ports is not None and (case.operator, *case.ports) in seen:
            continue
        source = case.make().source
        found = [each for each in parse(source).subgraphs[0].operators if each.name == case.operator]
        for operator in found[:1]:
            key = (case.operator, len(operator.inputs), len(operator.outputs))
            if key not in seen:
                seen.add(key)
                yield case, source, operator.index


class Mutant:
    """A model to change one operator of."""

    def __init__(self, source: bytes, place: int) -> None:
        self.builder = Builder.reopened(source)
        self.graph = self.builder.model.subgraphs[0]
        self.operator = self.graph.operators[place]
        self.operator.inputs, self.operator.outputs = list(self.operator.inputs), list(self.operator.outputs)

    def surplus_output(self) -> None:
        """Add an output like the first one."""
        outputs = self.operator.outputs
        tensor = copy(self.graph.tensors[outputs[0]]) if outputs else schema.TensorT(shape=[1], type=0)
        tensor.name, tensor.buffer = "surplus", 0
        self.graph.tensors.append(tensor)
        outputs.append(len(self.graph.tensors) - 1)
        self.graph.outputs = [*self.graph.outputs, outputs[-1]]

    def missing_output(self) -> None:
        """Leave out the last output."""
        gone = self.operator.outputs.pop()
        self.graph.outputs = [index for index in self.graph.outputs if index != gone]

    def retype(self, indices: set[int], dtype: str) -> None:
        """Declare tensors to be of another type, and give constants data of it; 16 bits have no zero point."""
        for index in indices:
            tensor = self.graph.tensors[index]
            raw = self.builder.model.buffers[tensor.buffer].bytes
            if raw:
                shape = [] if tensor.shape is None else list(tensor.shape)
                tensor.buffer = self.builder.buffer(_recast(raw, NAMES[tensor.type], dtype, shape))
            tensor.type = TYPES[dtype]
            if dtype == "int16" and tensor.quantization is not None and tensor.quantization.zeroPoint is not None:
                tensor.quantization.zeroPoint = [0] * len(tensor.quantization.zeroPoint)


def quantized(source: bytes, place: int) -> Iterator[tuple[str, bytes]]:
    """One input or output of floats or quantized numbers as each of the others, with parameters, and a label each."""
    original = Mutant(source, place)
    ports = [(f"input {at}", index) for at, index in enumerate(original.operator.inputs) if index != -1]
    ports += [(f"output {at}", index) for at, index in enumerate(original.operator.outputs)]
    for name, index in ports:
        for dtype in PARAMETERS if NAMES[original.graph.tensors[index].type] in PARAMETERS else ():
            mutant, stated = Mutant(source, place), PARAMETERS[dtype]
            if NAMES[mutant.graph.tensors[index].type] != dtype:
                mutant.retype({index}, dtype)
                mutant.graph.tensors[index].quantization = schema.QuantizationParametersT(**stated) if stated else None
                yield f"{name} of {dtype}", mutant.builder.finish()


def quantized_apart(source: bytes, place: int) -> Iterator[bytes]:
    """All inputs and outputs of one type, outputs among them, as quantized ones: the outputs by other parameters."""
    original = Mutant(source, place)
    given = [index for index in original.operator.inputs if index != -1]
    made = list(original.operator.outputs)
    for code in {original.graph.tensors[index].type for index in made}:
        ports = {index for index in (*given, *made) if original.graph.tensors[index].type == code}
        for dtype in ("int8", "uint8", "int16") if NAMES[code] in (*PARAMETERS, "int32") else ():
            mutant = Mutant(source, place)
            mutant.retype({index for index in ports if NAMES[code] != dtype}, dtype)
            for index in ports:
                scale, zero = (0.85, 14) if index in made else (0.5, 3)
                mutant.graph.tensors[index].quantization = schema.QuantizationParametersT(
                    scale=[scale], zeroPoint=[0 if dtype == "int16" else zero]
                )
            yield mutant.builder.finish()


def _recast(raw: bytes, old: str, new: str, shape: list[int]) -> bytes:
    count = int(np.prod(shape))
    try:
        data = np.frombuffer(raw, old)
    except TypeError:
        data = np.zeros(0)
    data = data if data.size == count else np.zeros(count)
    if new in _BYTES:
        return b"\0" * (_BYTES[new] * count)
    if new == "string":
        return encode(["a"] * count, new)
    with np.errstate(all="ignore"):
        return encode(np.clip(data, 0, 1) if new in ("int4", "uint4", "int2") else data, new)


def mutants(source: bytes, place: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """All changes of one operator, each with a label; a model is written where it is asked for."""

    def changed(label: str, change: Any) -> tuple[str, Callable[[], bytes]]:
        def made() -> bytes:
            mutant = Mutant(source, place)
            change(mutant)
            return mutant.builder.finish()

        return label, made

    original = Mutant(source, place)
    inputs, outputs = original.operator.inputs, original.operator.outputs
    yield changed("surplus output", Mutant.surplus_output)
    if len(outputs) > 1:
        yield changed("missing output", Mutant.missing_output)
    if inputs:
        yield changed("surplus input", lambda m: m.operator.inputs.append(max(inputs)))
        yield changed("surplus empty input", lambda m: m.operator.inputs.append(-1))
        yield changed("missing input", lambda m: m.operator.inputs.pop())
    for position, index in enumerate(inputs):
        if index != -1:
            yield changed(f"empty input {position}", lambda m, at=position: m.operator.inputs.__setitem__(at, -1))
    ports = [(f"input {at}", index) for at, index in enumerate(inputs) if index != -1]
    ports += [(f"output {at}", index) for at, index in enumerate(outputs)]
    groups = {name: {index} for name, index in ports[:8]}
    for _, index in ports:
        code = original.graph.tensors[index].type
        groups[f"every {NAMES[code]}"] = {each for _, each in ports if original.graph.tensors[each].type == code}
    for name, indices in groups.items():
        for dtype in TYPES:
            if original.graph.tensors[min(indices)].type != TYPES[dtype]:
                yield changed(f"{name} of {dtype}", lambda m, of=indices, to=dtype: m.retype(of, to))
