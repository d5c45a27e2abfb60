"""What the lowerings write with: the ONNX operators of one TensorFlow Lite operator, in the graph in the making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import brief, nearest
from layoutsolve.errors import ConversionError, LoweringError, ModelError
from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.frontend.tflite.lowering.data_movement import MOVING, Common, common_of
from layoutsolve.frontend.tflite.lowering.draft import Lowering
from layoutsolve.frontend.tflite.lowering.quantization import quant_of, requantized, transposed_quant
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN
from layoutsolve.frontend.tflite.reading.model import Operator, Tensor
from layoutsolve.ir.graph import (
    CONTROL,
    PACKED,
    Array,
    Dim,
    Node,
    Origin,
    Quant,
    Shape,
    Size,
    Value,
    product,
    reshape_entries,
    symbol,
    without_omitted,
)
from layoutsolve.proto.messages import native

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A value about to be written: an output of the operator (with its ``tensor``), or something in between.

    ``final`` is the output itself where it means something else by what it stores than the operator does.
    """

    name: str
    dtype: str
    quant: Quant | None = None
    tensor: Tensor | None = None
    final: Slot | None = None

    @property
    def real(self) -> str:
        """The type of the numbers it means."""
        return "float32" if self.quant else self.dtype


_TAKES_STATED = frozenset(("READ_VARIABLE",))
"""The operators whose readers LiteRT prepares by the shape that the file states."""

REAL_NUMBERS = "keep complex numbers between RFFT2D and REAL, IMAG or COMPLEX_ABS"
"""What to do about complex numbers: ONNX Runtime has no arithmetic for them."""


def real_dtype(value: Value) -> str:
    """The type of the numbers a value means: float32 where it is quantized."""
    return "float32" if value.quant else value.dtype


class Writer:
    """Writes ONNX operators for one TensorFlow Lite operator, into slots; what the file states of them is checked."""

    def __init__(self, lowering: Lowering, operator: Operator) -> None:
        self.lowering = lowering
        self.draft = lowering.draft
        self.operator = operator
        self.origin = Origin(lowering.position, operator.index, operator.name)

    @property
    def foreign(self) -> bool:
        """Whether the lowering is one that a user has registered."""
        return self.operator.name in FOREIGN

    def wrong(self, reason: str) -> ConversionError:
        """The error for what does not go together: of a user's lowering it is the fault, else the model's."""
        return (LoweringError if self.foreign else ModelError)(f"{self.origin} {reason}")

    def tensor(self, position: int = 0) -> Tensor:
        """The tensor of an output."""
        self._check_position(position, "output")
        if position >= len(self.operator.outputs):
            raise self.wrong(f"lacks its output {position}")
        return self.lowering.subgraph.tensors[self.operator.outputs[position]]

    def _check_position(self, position: int, what: str) -> None:
        """Raise :class:`LoweringError` where a user's lowering counts from the end, which is not meant."""
        if self.foreign and position < 0:
            raise self.wrong(f"has no {what} {position}")

    def is_fixed(self, value: Value) -> bool:
        """Whether a value is a constant, or computed from constants alone: a runtime may compute it beforehand."""
        return value.data is not None or value.name in self.draft.fixed

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def arithmetic(self) -> Arithmetic:
        """How sizes are computed, those known by name only as well."""
        return Arithmetic(self.draft.meanings, self._name())

    def agree(self, one: Shape, other: Shape) -> bool:
        """Whether two shapes can be the same, as the operator needs them to be. Sizes of inputs are then one."""
        for pair in zip(one, other, strict=False):
            self.draft.equate(*pair)
        differing = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
        return len(one) == len(other) and all(any(isinstance(dim, Size) for dim in pair) for pair in differing)

    def fresh(self, label: str) -> Size:
        """A new symbol, for a size that depends on data."""
        return symbol(self.draft.fresh_symbol(f"{self._name()}_{label}"))

    def unknown(self, axis: int, position: int = 0) -> Size:
        """The symbol of a size that depends on data."""
        name = f"{self._name(position)}_{axis}"
        return self.draft.symbol_for(("unknown", self, position, axis), name)

    # -- parameters that differ ----------------------------------------------------------------------------------------

    @cached_property
    def _common(self) -> Common | None:
        """The parameters in which the operator sees all that it moves, as in the table of ``data_movement.py``."""
        indices = self.operator.inputs
        if not self.operator.outputs or self.operator.name not in MOVING:
            return None
        inputs = [None if index == -1 else self.lowering.value(index) for index in indices]
        return common_of(self.operator.name, inputs, self.tensor())

    def _recast(self, value: Value, slot: Slot, storage: bool) -> Value:
        """What a value stores, or else means, with other parameters; that of a constant is known."""
        if storage and value.data is not None:
            return self.known(slot, value.data)
        if value.data is not None and value.quant is not None and slot.quant is not None:
            return self.known(slot, requantized(value.data, value.quant, slot.quant))
        return self.write("Identity", [value], value.shape, slot, storage=storage)

    # -- writing -------------------------------------------------------------------------------------------------------

    def slot(self, position: int = 0) -> Slot:
        """Destination of an output; writing to it finishes the output."""
        tensor = self.tensor(position)
        if tensor.dtype == "complex64":
            raise GapError("it computes complex numbers", REAL_NUMBERS)
        slot = Slot(self._name(position), tensor.dtype, quant_of(tensor), tensor)
        common = self._common
        if common is None or not common.gives(slot.dtype, slot.quant, position):
            return slot
        return replace(slot, name=self.draft.names.derived(slot.name, "moved"), quant=common.quant, final=slot)

    def _name(self, position: int = 0) -> str:
        return self.lowering.tensor_names[self.tensor(position).index]

    def complex_slot(self) -> Slot:
        """The slot of an output of complex numbers (see :meth:`complex_input`)."""
        return Slot(self._name(), "float32", None, self.tensor())

    def temporary(self, label: str, dtype: str = "float32", quant: Quant | None = None) -> Slot:
        """Destination of an intermediate value, named after the first output."""
        return Slot(self.draft.names.derived(self._name(), label), dtype, quant)

    def like(self, label: str, value: Value) -> Slot:
        """A slot for a value in between, stored as ``value`` is."""
        return self.temporary(label, value.dtype, value.quant)

    def constant(self, data: npt.ArrayLike, label: str, dtype: str | None = None, quant: Quant | None = None) -> Value:
        """New constant, to be used as an input of :meth:`write`."""
        numpy = None if dtype in (None, *PACKED) else np.dtype(object if dtype == "string" else dtype)
        array = np.asarray(data, numpy)
        name = self.draft.names.derived(self._name(), label)
        return self.draft.add(Value(name, dtype or array.dtype.name, tuple(array.shape), quant, array))

    def vector(self, numbers: Sequence[int], label: str) -> Value:
        """New constant vector of int64, as ONNX wants shapes and axes."""
        if self.foreign and np.asarray(numbers).dtype.kind not in "iu" and len(numbers):
            raise self.wrong(f"makes a vector of {brief(numbers)}, which are no whole numbers")
        return self.constant(np.array(numbers, np.int64).reshape(-1), label)

    def sizes(self, dims: Sequence[Dim], label: str) -> Value:
        """A vector of sizes, int64 as ONNX wants it: constant, or to be computed where one is known by name only."""
        numbers = [dim for dim in dims if not isinstance(dim, Size)]
        if len(numbers) == len(dims):
            return self.vector(numbers, label)
        slot = self.temporary(label, "int64")
        vector = self.write("Sizes", [], (len(dims),), slot, real="int64", dims=tuple(dims))
        content = np.empty(len(dims), object)
        content[:] = dims
        self.draft.contents[vector.name] = content
        return vector

    def write(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Shape,
        slot: Slot,
        *,
        real: str | None = None,
        storage: bool = False,
        **attributes: object,
    ) -> Value:
        """Write an ONNX operator with one output, and return that. ``real`` is its element type, by default that of its
        first input; a ``domain`` among the attributes is the operator's.
        """
        node = Node(op, (), (), attributes, storage=storage, domain=str(attributes.pop("domain", "")))
        self._check_operator(op, node.domain)
        given = next((value for value in inputs if value is not None), None)
        expected = real or (real_dtype(given) if given else slot.real)
        if not storage and slot.tensor is not None and expected != slot.real:
            raise self.wrong(f"gives {expected}, but its output '{slot.name}' is declared as {slot.real}")
        return self.write_node(node, inputs, [(tuple(shape), slot)])[0]

    def write_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[tuple[Shape, Slot]],
        *,
        storage: bool = False,
        domain: str = "",
        attributes: Mapping[str, object] | None = None,
        **more: object,
    ) -> list[Value]:
        """Write an ONNX operator with several outputs, and return these.

        Attributes are given by name, or as a mapping where any name may occur.
        """
        stated = {**(attributes or {}), **more}
        return self.write_node(Node(op, (), (), stated, storage=storage, domain=domain), inputs, outputs)

    def write_node(
        self, node: Node, inputs: Sequence[Value | None], outputs: Sequence[tuple[Shape, Slot]]
    ) -> list[Value]:
        """Write a node of which inputs, outputs, origin and subgraph are not decided yet, and return its outputs."""
        op = node.op
        self._check_operator(op, node.domain)
        for _, slot in outputs:
            if slot.dtype in ("int2", *PACKED):
                raise GapError(f"it computes a tensor of {slot.dtype}", "quantize all but constants to 8 or 16 bits")
        self.draft.budget.enter(1)
        self._check_known(op, inputs)
        self._check_sizes(op, outputs)
        values = [self._enter(Value(slot.name, slot.dtype, tuple(shape), slot.quant)) for shape, slot in outputs]
        names = without_omitted([value.name if value else "" for value in inputs])
        made = tuple(value.name for value in values)
        self.draft.nodes.append(
            replace(node, inputs=names, outputs=made, origin=self.origin, region=self.lowering.region)
        )
        read = [value for value in inputs if value is not None]
        if read and not node.regions and all(map(self.is_fixed, read)):
            self.draft.fixed.update(made)
        for value, (_, slot) in zip(values, outputs, strict=True):
            self._finish(value, slot)
        return values

    def known(self, slot: Slot, data: Array) -> Value:
        """Write a constant."""
        value = self._enter(Value(slot.name, slot.dtype, tuple(data.shape), slot.quant, data))
        self._finish(value, slot)
        return value

    def _check_operator(self, op: str, domain: str) -> None:
        """Whoever registers a lowering may write what is no operator: everything else that is wrong follows from it."""
        if not self.foreign or domain or op in (*CONTROL, "Sizes") or native.defs.has_schema(op):
            return
        hint = nearest(op, {each.name for each in native.defs.get_all_schemas() if not each.domain})
        raise LoweringError(
            f"{self.origin}: its lowering writes '{op}', which is no operator of ONNX{hint}: correct the name, or give"
            " its domain"
        )

    def _check_known(self, op: str, inputs: Sequence[Value | None]) -> None:
        """Whoever registers a lowering may keep values of another model."""
        for value in inputs if self.operator.name in FOREIGN else ():
            if value is not None and self.draft.values.get(value.name) is not value:
                raise LoweringError(f"{self.origin} reads '{value.name}' for its {op}, which is no value of this model")

    def _check_sizes(self, op: str, outputs: Sequence[tuple[Shape, Slot]]) -> None:
        """Whoever registers a lowering may state what no dimension can be."""
        for shape, slot in outputs if self.foreign else ():
            numbers = [dim for dim in shape if not isinstance(dim, Size)]
            if any(isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or dim < 0 for dim in numbers):
                raise LoweringError(
                    f"{self.origin}: its lowering states the shape {_text(shape)} for '{slot.name}', the result of its"
                    f" {op}: sizes are whole numbers, or those of a value"
                )

    def _enter(self, value: Value) -> Value:
        """Add a value that is written here, and nowhere else."""
        if value.name in self.draft.written:
            raise LoweringError(f"{self.origin} writes '{value.name}' twice")
        self.draft.written.add(value.name)
        return self.draft.add(value)

    def _finish(self, value: Value, slot: Slot) -> None:
        if slot.tensor is None:
            return
        if slot.final is not None:
            self._recast(value, slot.final, self._common is None or self._common.keeps(slot.final.quant))
            return
        if slot.tensor.dtype == "complex64":
            self._check_shape(value.shape[:-1], slot.tensor)
            self.draft.complex.add(value.name)
        else:
            self._check_shape(value.shape, slot.tensor)
        self.lowering.bind(slot.tensor.index, value)

    def _check_shape(self, shape: Shape, tensor: Tensor) -> None:
        """The file states the shape as well. LiteRT computes it anew before it runs, so where another one is stated (as
        after an edit of the inputs' shapes) what the file states is stale from here on. That is an error only of the
        operators whose kernels take the shape as it is stated.
        """
        stated = tensor.shape
        if self.draft.dynamic or not stated or self.origin.operator.startswith("CUSTOM:"):
            return
        marks = zip(shape, tensor.signature or stated, strict=False)
        if len(stated) == len(shape) and all(mark == -1 or isinstance(dim, Size) or dim == mark for dim, mark in marks):
            return
        if self.origin.operator in _TAKES_STATED:
            raise self.wrong(f"gives the shape {_text(shape)}, but its output '{tensor.name}' has {list(stated)}")
        self.draft.dynamic = True

    # -- views ---------------------------------------------------------------------------------------------------------

    def transpose(self, value: Value, perm: Sequence[int], slot: Slot, *, pattern: bool = False) -> Value:
        """Permute axes: a view, of which the solver decides whether data move; a constant is permuted at once."""
        if len(perm) != len(value.shape):
            raise self.wrong(f"permutes {len(perm)} axes of '{value.name}', which has {len(value.shape)}")
        shape = tuple(value.shape[axis] for axis in perm)
        if value.data is not None:
            return self.known(slot, value.data.transpose(perm))
        attributes = {"perm": tuple(perm)}
        node = Node("Transpose", (), (), attributes, storage=self._moved(value, slot), pattern=pattern)
        return self.write_node(node, [value], [(shape, slot)])[0]

    def transposed(self, value: Value, perm: Sequence[int], label: str, *, pattern: bool = False) -> Value:
        """``value`` with its axes permuted, as something in between; the axis of its quantization goes along."""
        slot = self.temporary(label, value.dtype, transposed_quant(value.quant, perm))
        return self.transpose(value, perm, slot, pattern=pattern)

    def reshape(self, value: Value, shape: Shape, slot: Slot) -> Value:
        """Regroup axes: a view, which moves no data; a constant is reshaped at once."""
        before, after = product(value.shape), product(shape)
        if before != after and isinstance(before, int) and isinstance(after, int):
            raise self.wrong(f"reshapes '{value.name}' from {_text(value.shape)} to {_text(shape)}")
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
            raise self.wrong(f"reads {value.dtype}, but its output '{slot.name}' is declared as {slot.dtype}")
        return value.quant is not None or slot.quant is not None

    def _shape_vector(self, value: Value, shape: Shape) -> tuple[Value, dict[str, Any]]:
        """The shape input of a Reshape, and the attribute that tells what its zeros mean."""
        entries = reshape_entries(value.shape, shape)
        if entries is None:
            return self.sizes(shape, "shape"), {"allowzero": 1}
        return self.vector(entries, "shape"), {"allowzero": 1} if 0 in shape else {}


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
