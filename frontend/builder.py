"""What the lowerings write with: the graph in the making, and one operator's view of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.model import Model, Operator, Tensor
from layoutsolve.frontend.quantisation import quant_of, transposed_quant
from layoutsolve.frontend.sparse import dense
from layoutsolve.graph import Array, Dim, Node, Origin, Quant, Shape, Size, Value, symbol


@dataclass(frozen=True, eq=False)
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


_GROWTH = 16
_SPARE = 1 << 20
"""How many elements of constants may be computed: a multiple of the file's bytes, so that memory follows its size."""

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


def real_dtype(value: Value) -> str:
    """The type of the numbers a value means: float32 where it is quantised."""
    return "float32" if value.quant else value.dtype


class Lowering:
    """The reference graph of a subgraph in the making."""

    def __init__(self, model: Model, position: int = 0) -> None:
        self.model = model
        self.position = position
        self.subgraph = model.subgraphs[position]
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.bound: dict[int, Value] = {}
        self.contents: dict[str, Array] = {}
        self.complex: set[str] = set()
        self.dynamic = False
        self.spare = _GROWTH * model.size + _SPARE
        self._symbols: dict[tuple[object, ...], Size] = {}
        self._used_symbols = {"batch"}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self.tensor_names = [self.unique(tensor.name or f"tensor_{tensor.index}") for tensor in self.subgraph.tensors]

    def unique(self, name: str) -> str:
        """A name that nothing has yet."""
        candidate, number = name, self._numbers.get(name, 1)
        while candidate in self._taken:
            candidate, number = f"{name}_{number}", number + 1
        self._numbers[name] = number
        self._taken.add(candidate)
        return candidate

    def symbol_for(self, key: tuple[object, ...], name: str) -> Size:
        """The symbol that stands for ``key``, called ``name`` if it is new."""
        if key not in self._symbols:
            candidates = (name if number == 0 else f"{name}_{number}" for number in count())
            fresh = next(candidate for candidate in candidates if candidate not in self._used_symbols)
            self._used_symbols.add(fresh)
            self._symbols[key] = symbol(fresh)
        return self._symbols[key]

    def spend(self, elements: int) -> None:
        """Account for a constant about to be computed."""
        if elements > self.spare:
            raise GapError("its constants grow far beyond the size of the file", "store large constants in the model")
        self.spare -= elements

    def add(self, value: Value) -> Value:
        """Enter a value."""
        self.values[value.name] = value
        return value

    def bind(self, index: int, value: Value) -> None:
        """Make ``value`` what operators read as tensor ``index``."""
        self.bound[index] = value

    def value(self, index: int) -> Value:
        """What a tensor is: bound by an earlier operator, or a constant."""
        if index not in self.bound:
            self.bound[index] = self._constant_tensor(self.subgraph.tensors[index])
        return self.bound[index]

    def _constant_tensor(self, tensor: Tensor) -> Value:
        if tensor.is_variable or tensor.dtype in ("resource", "variant"):
            raise GapError(f"tensor '{tensor.name}' holds state", "convert a model without variables")
        if tensor.dtype == "string":
            raise GapError(f"tensor '{tensor.name}' is a constant of strings", "remove text processing from the model")
        if tensor.dtype in ("bfloat16", "complex64", "complex128"):
            raise GapError(f"tensor '{tensor.name}' is a constant of {tensor.dtype}", "use float32 or float16")
        if tensor.sparsity is not None:
            self.spend(prod(tensor.shape))
            data = dense(tensor)
        elif tensor.data is not None:
            data = tensor.data
        else:
            data = np.zeros(tensor.shape, tensor.dtype)
        dtype = "int8" if tensor.dtype == "int2" else tensor.dtype
        return self.add(Value(self.tensor_names[tensor.index], dtype, tuple(data.shape), quant_of(tensor), data))


class Call:
    """One operator being lowered."""

    def __init__(self, lowering: Lowering, operator: Operator) -> None:
        self.lowering = lowering
        self.operator = operator
        self.origin = Origin(lowering.position, operator.index, operator.name)

    # -- what the operator is given --------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of inputs, those left out included."""
        return len(self.operator.inputs)

    def option(self, key: str, default: Any = 0) -> Any:
        """An option by its name in the schema."""
        return self.operator.options.get(key, default)

    def optional(self, position: int) -> Value | None:
        """An input, None where it is left out."""
        inputs = self.operator.inputs
        if position >= len(inputs) or inputs[position] == -1:
            return None
        value = self.lowering.value(inputs[position])
        if value.name in self.lowering.complex:
            raise GapError("it computes with complex numbers", REAL_NUMBERS)
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
        return any(value is not None and value.name in self.lowering.complex for value in bound)

    def complex_input(self, position: int) -> Value:
        """An input of complex numbers: float32 with a last dimension of two, the real and the imaginary part."""
        index = self.operator.inputs[position] if position < len(self.operator.inputs) else -1
        if index == -1 or self.lowering.value(index).name not in self.lowering.complex:
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
        return self.lowering.contents.get(value.name)

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

    # -- sizes ---------------------------------------------------------------------------------------------------

    def derive(self, key: tuple[object, ...]) -> Size:
        """The symbol of a size without a closed form (see :data:`layoutsolve.frontend.shapes.Derive`)."""
        return self.lowering.symbol_for(key, f"{self._name()}_{key[0]}")

    def unknown(self, axis: int, position: int = 0) -> Size:
        """The symbol of a size that depends on data."""
        name = f"{self._name(position)}_{axis}"
        return self.lowering.symbol_for(("unknown", self.origin.index, position, axis), name)

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
        return Slot(self.lowering.unique(f"{self._name()}/{label}"), dtype, quant)

    def like(self, label: str, value: Value) -> Slot:
        """A slot for a value in between, stored as ``value`` is."""
        return self.temporary(label, value.dtype, value.quant)

    def constant(self, data: Any, label: str, dtype: str | None = None, quant: Quant | None = None) -> Value:
        """A new constant."""
        array = np.asarray(data) if dtype in (None, "int4", "uint4") else np.asarray(data, np.dtype(dtype))
        name = self.lowering.unique(f"{self._name()}/{label}")
        return self.lowering.add(Value(name, dtype or array.dtype.name, tuple(array.shape), quant, array))

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
        **attributes: Any,
    ) -> Value:
        """Write a node with one output. ``real`` is the type of the numbers it gives, by default its first input's."""
        given = next((value for value in inputs if value is not None), None)
        expected = real or (real_dtype(given) if given else slot.real)
        if not storage and slot.tensor is not None and expected != slot.real:
            raise ModelError(f"{self.origin} gives {expected}, but its output '{slot.name}' is declared as {slot.real}")
        return self.write_many(op, inputs, [(tuple(shape), slot)], storage=storage, pattern=pattern, **attributes)[0]

    def write_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[tuple[Shape, Slot]],
        *,
        storage: bool = False,
        pattern: bool = False,
        **attributes: Any,
    ) -> list[Value]:
        """Write a node with several outputs."""
        values = [self.lowering.add(Value(slot.name, slot.dtype, tuple(shape), slot.quant)) for shape, slot in outputs]
        for value, (_, slot) in zip(values, outputs, strict=True):
            self._finish(value, slot)
        names = tuple(value.name if value else "" for value in inputs)
        made = tuple(value.name for value in values)
        self.lowering.nodes.append(Node(op, names, made, attributes, self.origin, storage, pattern))
        return values

    def known(self, slot: Slot, data: Array) -> Value:
        """Write a constant."""
        value = self.lowering.add(Value(slot.name, slot.dtype, tuple(data.shape), slot.quant, data))
        self._finish(value, slot)
        return value

    def _finish(self, value: Value, slot: Slot) -> None:
        if slot.tensor is None:
            return
        if slot.tensor.dtype == "complex64":
            self._check_shape(value.shape[:-1], slot.tensor)
            self.lowering.complex.add(value.name)
        else:
            self._check_shape(value.shape, slot.tensor)
        self.lowering.bind(slot.tensor.index, value)

    def _check_shape(self, shape: Shape, tensor: Tensor) -> None:
        """The file states the shape as well; it is worth nothing where sizes are dynamic, or where it is left empty."""
        stated = tensor.shape
        if not stated or (self.lowering.dynamic and not tensor.signature):
            return
        signature = tensor.signature or stated
        if len(stated) != len(shape):
            if self.lowering.dynamic:
                return
            raise ModelError(
                f"{self.origin} gives the shape {_text(shape)}, but its output '{tensor.name}' has {list(stated)}"
            )
        for dim, size, mark in zip(shape, stated, signature, strict=True):
            if isinstance(dim, int) and mark != -1 and dim != size and not self.lowering.dynamic:
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
        """A vector of sizes that has to be computed, each symbolic one taken from the same size of ``source``."""
        whole = self.write("Shape", [source], (len(source.shape),), self.temporary("sizes", "int64"), real="int64")
        parts: list[Value] = []
        for dim in shape:
            if isinstance(dim, int):
                parts.append(self.vector([dim], "size"))
            elif dim in source.shape:
                index = self.vector([source.shape.index(dim)], "axis")
                parts.append(self.write("Gather", [whole, index], (1,), self.temporary("size", "int64"), axis=0))
            else:
                raise GapError(f"the size {dim} has to be computed at run time", "give the model static input shapes")
        return self.write("Concat", parts, (len(parts),), self.temporary("shape", "int64"), axis=0)


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
