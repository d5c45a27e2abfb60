"""What the lowerings write with: one operator's view of the graph in the making."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError, OptionError
from layoutsolve.frontend.draft import Lowering, State
from layoutsolve.frontend.flexbuffer import decode
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.model import Operator, Subgraph, Tensor
from layoutsolve.frontend.quantisation import quant_of, transposed_quant
from layoutsolve.frontend.reader import BUILTIN_OPERATORS
from layoutsolve.graph import Array, Dim, Node, Origin, Quant, Region, Shape, Size, Value


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A value about to be written: an output of the operator (with its ``tensor``), or something in between."""

    name: str
    dtype: str
    quant: Quant | None = None
    tensor: Tensor | None = None

    @property
    def real(self) -> str:
        """The type of the numbers it means."""
        return "float32" if self.quant else self.dtype


_READS_BLOCKS = ("FULLY_CONNECTED", "EMBEDDING_LOOKUP")
"""The operators whose weights may be quantised per block."""

_DEPTH = 32
"""How deeply subgraphs may call each other."""

REAL_NUMBERS = "keep complex numbers between RFFT2D and REAL, IMAG or COMPLEX_ABS"
"""What to do about complex numbers: ONNX Runtime has no arithmetic for them."""

Lowered = Callable[["Call"], None]
REGISTRY: dict[str, Lowered] = {}


def lowers(*operators: str) -> Callable[[Lowered], Lowered]:
    """Register a function as the lowering of TFLite operators."""

    def register(function: Lowered) -> Lowered:
        REGISTRY.update(dict.fromkeys(operators, function))
        return function

    return register


def register(operator: str) -> Callable[[Lowered], Lowered]:
    """Make a function the lowering of an operator: 'CUSTOM:<code>' for a custom one, or the name of a built-in one.

    The function is given a :class:`Call`, from which it reads inputs and options, and writes ONNX operators until every
    output is written; what it cannot convert it raises as a :class:`GapError`. One that was registered before is
    replaced. Raises :class:`OptionError` where TensorFlow Lite has no operator of that name.
    """
    known = operator.removeprefix("CUSTOM:") if operator.startswith("CUSTOM:") else operator in BUILTIN_OPERATORS
    if not known:
        raise OptionError(f"'{operator}' is no operator: give 'CUSTOM:<code>', or a built-in one such as 'CONV_2D'")
    return lowers(operator)


def real_dtype(value: Value) -> str:
    """The type of the numbers a value means: float32 where it is quantised."""
    return "float32" if value.quant else value.dtype


class Call:
    """One operator being lowered."""

    def __init__(self, lowering: Lowering, operator: Operator) -> None:
        self.lowering = lowering
        self.draft = lowering.draft
        self.operator = operator
        self.origin = Origin(lowering.position, operator.index, operator.name)

    def restated(self, options: Mapping[str, Any], name: str | None = None) -> Call:
        """The same operator with other options, or under another name, for the lowering of another operator."""
        call = Call(self.lowering, replace(self.operator, name=name or self.operator.name, options=options))
        call.origin = self.origin
        return call

    # -- what the operator is given --------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of inputs, those left out included."""
        return len(self.operator.inputs)

    def option(self, key: str, default: Any = 0) -> Any:
        """An option by its name in the schema."""
        return self.operator.options.get(key, default)

    @property
    def custom_options(self) -> bytes:
        """The options of a custom operator, as they are in the file."""
        return self.operator.custom_options

    def settings(self) -> dict[str, Any]:
        """The options of a custom operator that keeps them as a FlexBuffer map, by name.

        Raises :class:`ModelError` where they are something else.
        """
        found = decode(self.operator.custom_options)
        if not isinstance(found, dict):
            raise ModelError(f"{self.origin} has custom options that are no map")
        return found

    def optional(self, position: int) -> Value | None:
        """An input, None where it is left out."""
        inputs = self.operator.inputs
        if position >= len(inputs) or inputs[position] == -1:
            return None
        value = self.lowering.value(inputs[position])
        if value.name in self.draft.complex:
            raise GapError("it computes with complex numbers", REAL_NUMBERS)
        if value.quant is not None and value.quant.block and self.operator.name not in _READS_BLOCKS:
            raise GapError(f"its input '{value.name}' is quantised per block", "quantise it per tensor or per channel")
        return value

    def input(self, position: int) -> Value:
        """An input that must be there."""
        value = self.optional(position)
        if value is None:
            raise ModelError(f"{self.origin} lacks its input {position}")
        return value

    def inputs(self) -> list[Value]:
        """All inputs, none left out."""
        return [self.input(position) for position in range(self.arity)]

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
        """The type that the file states for an input; a dequantised constant may be stored as another."""
        return self.lowering.subgraph.tensors[self.operator.inputs[position]].dtype

    def tensor(self, position: int = 0) -> Tensor:
        """The tensor of an output."""
        if position >= len(self.operator.outputs):
            raise ModelError(f"{self.origin} lacks its output {position}")
        return self.lowering.subgraph.tensors[self.operator.outputs[position]]

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

    # -- state and subgraphs ---------------------------------------------------------------------------------------

    def update(self, position: int, value: Value) -> None:
        """Leave ``value`` in the variable tensor at an input, for the next run to find."""
        tensor = self.lowering.subgraph.tensors[self.operator.inputs[position]]
        if not tensor.is_variable:
            raise ModelError(f"{self.origin} updates its input {position}, '{tensor.name}', which is no variable")
        self.assign(self.lowering.variable(tensor), value)

    def assign(self, state: State, value: Value) -> None:
        """Let a variable hold ``value``."""
        if self.lowering.region is not None:
            raise GapError("it assigns a variable in a branch or loop", "assign the variable outside of it")
        state.current = value

    def subgraph(self, position: int) -> Subgraph:
        """A subgraph that the operator names."""
        subgraphs = self.draft.model.subgraphs
        if not 0 <= position < len(subgraphs):
            raise ModelError(f"{self.origin} names subgraph {position}, but the model has {len(subgraphs)}")
        return subgraphs[position]

    def within(self, region: Region) -> Call:
        """The same operator, as it writes in another region."""
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
        for index, value in zip(inner.subgraph.inputs, inputs, strict=True):
            tensor = inner.subgraph.tensors[index]
            self.draft.dynamic |= tuple(tensor.shape) != value.shape
            inner.bind(index, self._renamed(value, Slot(inner.tensor_names[index], tensor.dtype, quant_of(tensor))))
        self.draft.write(inner)
        return [inner.value(index) for index in inner.subgraph.outputs]

    def hand_on(self, value: Value, position: int) -> None:
        """Make ``value`` the operator's output as it is stored."""
        slot = self.slot(position)
        self.lowering.bind(self.tensor(position).index, self._renamed(value, slot))

    def _renamed(self, value: Value, slot: Slot) -> Value:
        """A value for a tensor that is to hold the same stored numbers; they may mean something else there."""
        if value.dtype != slot.dtype:
            raise ModelError(f"{self.origin} hands {value.dtype} to '{slot.name}', which is declared as {slot.dtype}")
        if value.quant is slot.quant or (value.quant is not None and value.quant.matches(slot.quant)):
            return value
        return self.write("Identity", [value], value.shape, replace(slot, tensor=None), storage=True)

    # -- sizes ---------------------------------------------------------------------------------------------------

    def derive(self, key: tuple[object, ...]) -> Size:
        """The symbol of a size without a closed form (see :data:`layoutsolve.frontend.shapes.Derive`)."""
        return self.draft.symbol_for(key, f"{self._name()}_{key[0]}")

    def unknown(self, axis: int, position: int = 0) -> Size:
        """The symbol of a size that depends on data."""
        name = f"{self._name(position)}_{axis}"
        return self.draft.symbol_for(("unknown", self, position, axis), name)

    # -- writing -------------------------------------------------------------------------------------------------

    def slot(self, position: int = 0) -> Slot:
        """The slot of an output."""
        tensor = self.tensor(position)
        if tensor.dtype == "complex64":
            raise GapError("it computes complex numbers", REAL_NUMBERS)
        return Slot(self._name(position), tensor.dtype, quant_of(tensor), tensor)

    def _name(self, position: int = 0) -> str:
        return self.lowering.tensor_names[self.tensor(position).index]

    def complex_slot(self) -> Slot:
        """The slot of an output of complex numbers (see :meth:`complex_input`)."""
        tensor = self.tensor()
        if tensor.dtype != "complex64":
            raise ModelError(f"{self.origin} gives complex numbers, but its output is declared as {tensor.dtype}")
        return Slot(self._name(), "float32", None, tensor)

    def temporary(self, label: str, dtype: str = "float32", quant: Quant | None = None) -> Slot:
        """A slot for a value in between, named after the first output."""
        return Slot(self.draft.names.derived(self._name(), label), dtype, quant)

    def like(self, label: str, value: Value) -> Slot:
        """A slot for a value in between, stored as ``value`` is."""
        return self.temporary(label, value.dtype, value.quant)

    def constant(self, data: Any, label: str, dtype: str | None = None, quant: Quant | None = None) -> Value:
        """A new constant."""
        numpy = None if dtype in (None, "int4", "uint4") else np.dtype(object if dtype == "string" else dtype)
        array = np.asarray(data, numpy)
        name = self.draft.names.derived(self._name(), label)
        return self.draft.add(Value(name, dtype or array.dtype.name, tuple(array.shape), quant, array))

    def vector(self, numbers: Sequence[int], label: str) -> Value:
        """A new constant vector, int64 as ONNX wants it."""
        return self.constant(np.array(numbers, np.int64).reshape(-1), label)

    def write(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Shape,
        slot: Slot,
        *,
        real: str | None = None,
        storage: bool = False,
        pattern: bool = False,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """Write a node with one output. ``real`` is the type of the numbers it gives, by default its first input's."""
        given = next((value for value in inputs if value is not None), None)
        expected = real or (real_dtype(given) if given else slot.real)
        if not storage and slot.tensor is not None and expected != slot.real:
            raise ModelError(f"{self.origin} gives {expected}, but its output '{slot.name}' is declared as {slot.real}")
        outputs = [(tuple(shape), slot)]
        made = self.write_many(
            op, inputs, outputs, storage=storage, pattern=pattern, domain=domain, attributes=attributes
        )
        return made[0]

    def write_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[tuple[Shape, Slot]],
        *,
        storage: bool = False,
        pattern: bool = False,
        regions: tuple[Region, ...] = (),
        domain: str = "",
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[Value]:
        """Write a node with several outputs. Attributes are given by name, or as a mapping where any name may occur."""
        for _, slot in outputs:
            if slot.dtype in ("int2", "int4", "uint4"):
                raise GapError(f"it computes a tensor of {slot.dtype}", "quantise all but constants to 8 or 16 bits")
        self.draft.budget.enter(1)
        values = [self.draft.add(Value(slot.name, slot.dtype, tuple(shape), slot.quant)) for shape, slot in outputs]
        for value, (_, slot) in zip(values, outputs, strict=True):
            self._finish(value, slot)
            self.draft.note_sizes(value, self.lowering.region)
        names = tuple(value.name if value else "" for value in inputs)
        made = tuple(value.name for value in values)
        given = {**(attributes or {}), **more}
        node = Node(op, names, made, given, self.origin, storage, pattern, domain, self.lowering.region, regions)
        self.draft.nodes.append(node)
        return values

    def known(self, slot: Slot, data: Array) -> Value:
        """Write a constant."""
        value = self.draft.add(Value(slot.name, slot.dtype, tuple(data.shape), slot.quant, data))
        self._finish(value, slot)
        return value

    def _finish(self, value: Value, slot: Slot) -> None:
        if slot.tensor is None:
            return
        if slot.tensor.dtype == "complex64":
            self._check_shape(value.shape[:-1], slot.tensor)
            self.draft.complex.add(value.name)
        else:
            self._check_shape(value.shape, slot.tensor)
        self.lowering.bind(slot.tensor.index, value)

    def _check_shape(self, shape: Shape, tensor: Tensor) -> None:
        """The file states the shape as well. It is worth nothing where sizes are dynamic, where it is left empty, and
        after custom operators, of which a converter does not know what they give.
        """
        stated = tensor.shape
        if not stated or self.origin.operator.startswith("CUSTOM:") or (self.draft.dynamic and not tensor.signature):
            return
        signature = tensor.signature or stated
        if len(stated) != len(shape):
            if self.draft.dynamic:
                return
            raise ModelError(
                f"{self.origin} gives the shape {_text(shape)}, but its output '{tensor.name}' has {list(stated)}"
            )
        for dim, size, mark in zip(shape, stated, signature, strict=True):
            if isinstance(dim, int) and mark != -1 and dim != size and not self.draft.dynamic:
                raise ModelError(
                    f"{self.origin} gives the shape {_text(shape)}, but its output '{tensor.name}' has {list(stated)}"
                )

    # -- views ---------------------------------------------------------------------------------------------------

    def transpose(self, value: Value, perm: Sequence[int], slot: Slot, *, pattern: bool = False) -> Value:
        """Permute axes; a constant is permuted at once."""
        if len(perm) != len(value.shape):
            raise ModelError(f"{self.origin} permutes {len(perm)} axes of '{value.name}', which has {len(value.shape)}")
        shape = tuple(value.shape[axis] for axis in perm)
        if value.data is not None:
            return self.known(slot, value.data.transpose(perm))
        storage = self._moved(value, slot)
        return self.write("Transpose", [value], shape, slot, storage=storage, pattern=pattern, perm=tuple(perm))

    def transposed(self, value: Value, perm: Sequence[int], label: str, *, pattern: bool = False) -> Value:
        """``value`` with its axes permuted, as something in between; the axis of its quantisation goes along."""
        slot = self.temporary(label, value.dtype, transposed_quant(value.quant, perm))
        return self.transpose(value, perm, slot, pattern=pattern)

    def reshape(self, value: Value, shape: Shape, slot: Slot) -> Value:
        """Regroup axes; a constant is reshaped at once."""
        static = [dim for dim in shape if isinstance(dim, int)]
        if value.data is not None and len(static) == len(shape):
            return self.known(slot, value.data.reshape(static))
        vector, attributes = self._shape_vector(value, shape)
        return self.write("Reshape", [value, vector], shape, slot, storage=self._moved(value, slot), **attributes)

    def reshaped(self, value: Value, shape: Shape, label: str) -> Value:
        """``value`` reshaped as something in between; unchanged where it has the shape already."""
        return value if value.shape == tuple(shape) else self.reshape(value, shape, self.like(label, value))

    def _moved(self, value: Value, slot: Slot) -> bool:
        """Whether a view moves stored integers. It never changes them, whatever the two sides say they mean."""
        if value.dtype != slot.dtype:
            raise ModelError(
                f"{self.origin} reads {value.dtype}, but its output '{slot.name}' is declared as {slot.dtype}"
            )
        return value.quant is not None or slot.quant is not None

    def _shape_vector(self, value: Value, shape: Shape) -> tuple[Value, dict[str, Any]]:
        """The constant for Reshape: -1 for a single symbolic size, 0 for those that stay in place beside it."""
        if 0 in shape and all(isinstance(dim, int) for dim in shape):
            return self.vector([dim for dim in shape if isinstance(dim, int)], "shape"), {"allowzero": 1}
        symbolic = [axis for axis, dim in enumerate(shape) if isinstance(dim, Size)]
        if len(symbolic) > 1:
            kept = [axis for axis in symbolic if axis < len(value.shape) and value.shape[axis] == shape[axis]]
            moved = [axis for axis in symbolic if axis not in kept]
        else:
            kept, moved = [], symbolic
        if len(moved) > 1 or (moved and 0 in shape):
            return self.sizes(value, shape), {}
        entries = [dim if isinstance(dim, int) else 0 if axis in kept else -1 for axis, dim in enumerate(shape)]
        return self.vector(entries, "shape"), {}

    def sizes(self, source: Value, shape: Shape) -> Value:
        """A vector of sizes that has to be computed, from the shapes of ``source`` and other values."""
        parts: list[Value] = []
        for dim in shape:
            if isinstance(dim, int):
                parts.append(self.vector([dim], "size"))
            elif dim in source.shape:
                parts.append(self._measured(source, source.shape.index(dim)))
            else:
                parts.append(self._multiplied(dim))
        return self.write("Concat", parts, (len(parts),), self.temporary("shape", "int64"), axis=0)

    def _measured(self, source: Value, axis: int) -> Value:
        whole = self.write("Shape", [source], (len(source.shape),), self.temporary("sizes", "int64"), real="int64")
        place = self.vector([axis], "axis")
        return self.write("Gather", [whole, place], (1,), self.temporary("size", "int64"), axis=0)

    def _multiplied(self, size: Size) -> Value:
        """A symbolic size, from values that have its factors as dimensions."""
        factors = []
        for name in size.symbols:
            home = self.draft.home(name, self.lowering.region)
            if home is None:
                remedy = "give the model static input shapes (--shape)"
                raise GapError(f"the size {size} has to be computed at run time, and no tensor has {name}", remedy)
            factors.append(self._measured(*home))
        if size.coefficient != 1:
            factors.append(self.vector([size.coefficient], "factor"))
        return reduce(self._product, factors)

    def _product(self, left: Value, right: Value) -> Value:
        return self.write("Mul", [left, right], (1,), self.temporary("product", "int64"))


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
