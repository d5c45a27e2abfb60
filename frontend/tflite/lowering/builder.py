"""What the lowerings are given: one operator's view of the model, with what it writes in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import prod
from typing import TypeVar, overload

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.draft import Lowering, State
from layoutsolve.frontend.tflite.lowering.quantization import agree, quant_of
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import REAL_NUMBERS, Slot, Writer
from layoutsolve.frontend.tflite.reading.flexbuffer import decode
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.ir.graph import Array, Dim, Region, Shape, Size, Value

T = TypeVar("T")

_READS_BLOCKS = ("FULLY_CONNECTED", "EMBEDDING_LOOKUP")
"""The operators whose weights may be quantized per block."""

_DEPTH = 32
"""How deeply subgraphs may call each other."""


class Call(Writer):
    """One TensorFlow Lite operator that a lowering reads, with the methods that write ONNX operators
    (docs/custom_operators.md).
    """

    def __init__(self, lowering: Lowering, operator: Operator) -> None:
        super().__init__(lowering, operator)
        self._taken: dict[int, Value] = {}

    def restated(self, options: Mapping[str, object], name: str | None = None) -> Call:
        """The same operator with other options, or under another name, for the lowering of another operator."""
        call = Call(self.lowering, replace(self.operator, name=name or self.operator.name, options=options))
        call.origin = self.origin
        return call

    # -- what the operator is given ------------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """Number of inputs, omitted optional ones included."""
        return len(self.operator.inputs)

    @overload
    def option(self, key: str) -> int: ...

    @overload
    def option(self, key: str, default: tuple[()]) -> Sequence[int]: ...

    @overload
    def option(self, key: str, default: T) -> T: ...

    def option(self, key: str, default: object = 0) -> object:
        """An option by its name in the schema, of the type of the default."""
        return self.operator.options.get(key, default)

    @property
    def custom_options(self) -> bytes:
        """Options of a custom operator: the bytes in the file."""
        return self.operator.custom_options

    def settings(self) -> dict[str, object]:
        """Options of a custom operator from its FlexBuffer map, by name; empty where it has none.

        Raises :class:`ModelError` where they are something else.
        """
        found = decode(self.operator.custom_options) if self.operator.custom_options else {}
        if not isinstance(found, dict):
            raise ModelError(f"{self.origin} has custom options that are no map")
        return found

    def optional(self, position: int) -> Value | None:
        """Optional input, None where it is omitted."""
        self._check_position(position, "input")
        inputs = self.operator.inputs
        if position >= len(inputs) or inputs[position] == -1:
            return None
        value = self.lowering.value(inputs[position])
        if value.name in self.draft.complex:
            raise GapError("it computes with complex numbers", REAL_NUMBERS)
        if value.quant is not None and value.quant.block and self.operator.name not in _READS_BLOCKS:
            raise GapError(f"its input '{value.name}' is quantized per block", "quantize it per tensor or per channel")
        return self._brought(value, position)

    def input(self, position: int) -> Value:
        """Required input."""
        value = self.optional(position)
        if value is None:
            raise self.wrong(f"lacks its input {position}")
        return value

    def inputs(self) -> list[Value]:
        """All inputs, none left out."""
        return [self.input(position) for position in range(self.arity)]

    def _brought(self, value: Value, position: int) -> Value:
        """An input as the operator is to see it."""
        common = self._common
        if common is None or not common.brings(value, position):
            return value
        if position not in self._taken:
            slot = self.temporary("taken", value.dtype, common.quant)
            self._taken[position] = self._recast(value, slot, common.keeps(value.quant))
        return self._taken[position]

    @property
    def reads_complex(self) -> bool:
        """Whether an input holds complex numbers."""
        bound = (self.lowering.bound.get(index) for index in self.operator.inputs)
        return any(value is not None and value.name in self.draft.complex for value in bound)

    def complex_input(self, position: int) -> Value:
        """An input of complex numbers: float32 with a last dimension of two, the real and the imaginary part."""
        index = self.operator.inputs[position] if position < len(self.operator.inputs) else -1
        if index == -1 or self.lowering.value(index).name not in self.draft.complex:
            raise ModelError(f"{self.origin} reads complex numbers, which its input {position} does not hold")
        return self.lowering.value(index)

    def viewed(self) -> tuple[Value, Shape, Slot]:
        """For views: the first input, its dimensions beyond those in TFLite (complex numbers have one) and the slot."""
        if self.operator.inputs and self.lowering.bound.get(self.operator.inputs[0]) is not None and self.reads_complex:
            return self.complex_input(0), (2,), self.complex_slot()
        return self.input(0), (), self.slot()

    def declared(self, position: int) -> str:
        """The type that the file states for an input; a dequantized constant may be stored as another."""
        return self.lowering.subgraph.tensors[self.operator.inputs[position]].dtype

    def content(self, value: Value) -> Array | None:
        """The elements of a value where they are known, as far as symbols go: an array of objects; else None."""
        if value.data is not None:
            return value.data
        return self.draft.contents.get(value.name)

    def dims(self, position: int, what: str) -> tuple[Dim, ...]:
        """An input that is a vector of sizes, possibly symbolic."""
        known = self.content(self.input(position))
        if known is None:
            raise GapError(f"its {what} is computed at run time", f"make the {what} constant in the source model")
        return tuple(dim if isinstance(dim, Size) else int(dim) for dim in known.reshape(-1).tolist())

    def integers(self, position: int, what: str) -> tuple[int, ...]:
        """An input that is a constant vector of integers."""
        dims = self.dims(position, what)
        numbers = tuple(dim for dim in dims if isinstance(dim, int))
        if len(numbers) != len(dims):
            raise GapError(f"its {what} depends on a dynamic size", f"make the {what} constant in the source model")
        return numbers

    # -- state ---------------------------------------------------------------------------------------------------------

    def update(self, position: int, value: Value) -> None:
        """Leave ``value`` in the variable tensor at an input, for the next run to find."""
        tensor = self.lowering.subgraph.tensors[self.operator.inputs[position]]
        if not tensor.is_variable:
            raise ModelError(f"{self.origin} updates its input {position}, '{tensor.name}', which is no variable")
        if self.operator.inputs.count(tensor.index) > 1:
            raise ModelError(f"{self.origin} has the variable '{tensor.name}' as several of its states")
        self.assign(self.lowering.variable(tensor), value)

    def assign(self, state: State, value: Value) -> None:
        """Let a variable hold ``value``."""
        if self.lowering.region is not None:
            raise GapError("it assigns a variable in a branch or loop", "assign the variable outside of it")
        state.current = value

    def kept(self, label: str, shape: Sequence[int], dtype: str, first: int = 0) -> Value:
        """What the operator itself keeps from run to run (see :meth:`keep`): full of ``first`` to begin with."""
        state = self._own_state(label)
        if state.initial is None:
            self.draft.ask(prod(shape))
            state.initial = self.constant(np.full(shape, first, dtype), f"{label}/initial")
        return self.draft.read_state(state, replace(state.initial, data=None))

    def keep(self, label: str, value: Value) -> None:
        """Leave ``value`` for the next run to find with :meth:`kept`."""
        self.assign(self._own_state(label), value)

    def _own_state(self, label: str) -> State:
        key = (self.origin, label)
        name = "" if key in self.draft.states else self.draft.names.derived(self._name(), label)
        return self.draft.state(key, name)

    # -- subgraphs -----------------------------------------------------------------------------------------------------

    def subgraph(self, position: int) -> Subgraph:
        """A subgraph that the operator names."""
        subgraphs = self.draft.model.subgraphs
        if not 0 <= position < len(subgraphs):
            raise ModelError(f"{self.origin} names subgraph {position}, but the model has {len(subgraphs)}")
        return subgraphs[position]

    def within(self, region: Region) -> Call:
        """The same operator, as it writes in another subgraph."""
        inner = copy(self)
        inner.lowering = copy(self.lowering)
        inner.lowering.region = region
        return inner

    def inline(
        self, position: int, inputs: Sequence[Value], region: Region | None = None, initialising: bool = False
    ) -> list[Value]:
        """Write a subgraph with its inputs given, in ``region`` or where this operator is; returns its outputs."""
        self.subgraph(position)
        inner = Lowering(self.draft, position, self.lowering, region or self.lowering.region)
        inner.initialising |= initialising
        if len(inner.callers) > _DEPTH or position in inner.callers:
            raise GapError("its subgraphs call themselves, or too deeply", "unroll the recursion in the source model")
        if len(inner.subgraph.inputs) != len(inputs):
            raise ModelError(
                f"{self.origin} gives {len(inputs)} inputs to subgraph {position}, which has another number"
            )
        if len({*inner.subgraph.inputs}) != len(inputs):
            raise ModelError(f"{self.origin} runs subgraph {position}, which has one tensor as several inputs")
        for index, value in zip(inner.subgraph.inputs, inputs, strict=True):
            tensor = inner.subgraph.tensors[index]
            self.draft.dynamic |= tuple(tensor.shape) != value.shape
            inner.bind(index, self._renamed(value, Slot(inner.tensor_names[index], tensor.dtype, quant_of(tensor))))
        self.draft.write(inner)
        return [inner.value(index) for index in inner.subgraph.outputs]

    def hand_on(self, value: Value, position: int) -> None:
        """Make ``value`` the operator's output as it is stored."""
        slot, tensor = self.slot(position), self.tensor(position)
        self._check_shape(value.shape, tensor)
        self.lowering.bind(tensor.index, self._renamed(value, slot))

    def _renamed(self, value: Value, slot: Slot) -> Value:
        """A value for a tensor that is to hold the same stored numbers; they may mean something else there. A list of
        tensors that is full is a tensor itself.
        """
        if slot.dtype == "variant":
            return value
        if value.dtype != slot.dtype:
            raise ModelError(f"{self.origin} hands {value.dtype} to '{slot.name}', which is declared as {slot.dtype}")
        if agree(value.quant, slot.quant):
            return value
        return self.write("Identity", [value], value.shape, replace(slot, tensor=None), storage=True)
