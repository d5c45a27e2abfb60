"""A node that is written: what it reads and gives, and the operators that are written for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.draft import Draft, is_computed, stated, view_options
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.meanings import nearly
from layoutsolve.ir.functions import PLAN, Recast
from layoutsolve.ir.graph import Array, Dim, Graph, Node, Quant, Size, Value
from layoutsolve.proto.messages import AttributeProto, decoded

_INFINITE = frozenset(("Div", "Log", "Pow", "Reciprocal", "Rsqrt", "Tan"))
_LIMITED = frozenset(("HardSigmoid", "LogSoftmax", "Sigmoid", "Softmax", "Softsign", "Tanh"))
"""Operators of floats that may be infinite of numbers that are none of the largest, and those that are small of all."""


@dataclass(frozen=True, eq=False)
class Call:
    """A node that is written. ``activation`` is the number of the activation that is fused into it, whose result is
    ``result`` then. With ``in_floats`` quantized tensors are read as the floats that they stand for, and results are
    quantized behind it.
    """

    draft: Draft
    node: Node
    result: str
    activation: int = 0
    in_floats: bool = False

    @property
    def graph(self) -> Graph:
        """The graph that the node is of."""
        return self.draft.graph

    @cached_property
    def op(self) -> str:
        """The operator of ONNX that the node computes, also in another form."""
        return self.graph.functions[self.node.op].op if self.node.domain == PLAN else self.node.op

    def recast(self, number: int) -> Recast | None:
        """How an input is stored in a form that ONNX does not have; None where it is as ONNX has it."""
        if self.node.domain != PLAN:
            return None
        inputs = self.graph.functions[self.node.op].inputs
        return inputs[number] if number < len(inputs) else None

    def order(self, number: int) -> tuple[int, ...]:
        """For each dimension that ONNX has of an input, the stored one."""
        recast = self.recast(number)
        if recast is None:
            return tuple(range(len(self.value(number).shape)))
        if any(len(part) != 1 for part in recast.parts):
            raise ExpressionError("it is in a form whose dimensions are in blocks")
        return tuple(part[0] for part in recast.parts)

    def has(self, number: int) -> bool:
        """Whether an input is there."""
        return number < len(self.node.inputs) and bool(self.node.inputs[number])

    def value(self, number: int) -> Value:
        """An input; in floats it has no quantization. Raises :class:`ExpressionError` where the node has none."""
        if not self.has(number):
            raise ExpressionError(f"it has no input {number}", "give it one")
        return self._seen(self.graph.values[self.node.inputs[number]])

    @property
    def output(self) -> Value:
        """The first result, behind a fused activation."""
        return self._seen(self.graph.values[self.result])

    def _seen(self, value: Value) -> Value:
        if not self.in_floats or value.quant is None:
            return value
        return replace(value, dtype="float32", quant=None, data=None if value.data is None else value.real)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        found = self.node.attributes.get(name, default)
        return decoded(found) if isinstance(found, AttributeProto) else found

    def axis(self, default: int = 0) -> int:
        """The dimension of the first input that the attribute of this name states."""
        rank = len(self.value(0).shape)
        if not rank:
            raise ExpressionError("it works along a dimension of a number", "give its input dimensions")
        return int(self.attribute("axis", default)) % rank

    def data(self, number: int) -> Array | None:
        """The elements of a constant input, None for one that is computed or left out."""
        return self.value(number).data if self.has(number) else None

    def known(self, number: int, what: str) -> Array:
        """The elements of an input that must be constant: that is ``what`` it states."""
        data = self.data(number)
        if data is None:
            raise ExpressionError(f"the input with its {what} is computed", "make it a constant")
        return data

    def sizes(self, value: Value, part: slice = slice(None)) -> tuple[int, ...]:
        """The sizes of a tensor, or those of a part of its dimensions, which must be known."""
        shape = value.shape[part]
        if any(isinstance(size, Size) for size in shape):
            raise ExpressionError(f"the size of '{value.name}' is dynamic", "fix it with --shape")
        return tuple(int(size) for size in shape if not isinstance(size, Size))

    def extents(self, shape: Sequence[Dim], free: int = 0) -> int:
        """A vector of sizes, of which those that are open are those of inputs, and as many as are ``free`` -1."""
        return self.draft.extents(tuple(shape), (*self.node.inputs, *self.graph.inputs), free)

    def count(self, axis: int, dtype: str = "int32") -> int:
        """The tensor of one size of the first input, of int32 or int64: a constant, or what it is in a run."""
        size = self.value(0).shape[axis]
        if not isinstance(size, Size):
            return self.constant(size, dtype)
        return self.step("GATHER", [self.draft.sizes_of(self.tensor(0), dtype), self.constant(axis)], [], axis=0)

    def counts(self, shape: Sequence[Dim]) -> int:
        """A vector of sizes, of which those that are open are -1: elsewhere XNNPACK wants numbers."""
        return self.constant(stated(tuple(shape))[1])

    def tensor(self, number: int) -> int:
        """The number of an input's tensor, -1 for one left out."""
        if not self.has(number):
            return -1
        name = self.node.inputs[number]
        original = self.graph.values[name]
        if not self.in_floats or original.quant is None:
            found = self.draft.value(name)
            return self._meant(found, original) if self.node.storage else found
        if original.data is not None:
            return self.draft.constant(self.value(number).constant, name)
        return self.draft.real(self.draft.value(name))

    def _meant(self, tensor: int, value: Value) -> int:
        """What is moved, with the meaning of the result: the same stored integers."""
        made = self.graph.values[self.result]
        quant = made.quant
        if value.dtype != made.dtype or quant is value.quant or (quant is not None and quant.matches(value.quant)):
            return tensor
        if value.data is not None:
            return self.draft.add(
                self.draft.names.derived(value.name, "meant"), value.dtype, value.shape, quant, value.data
            )
        again = self.temporary(value.shape, value.dtype, quant)
        return self.reshape(tensor, value.shape, again)

    def alias(self) -> bool:
        """Let the result be the first input itself; False where both are seen from outside, or are stored otherwise. A
        constant that is an output is one of its own.
        """
        before, name = self.node.inputs[0], self.result
        one, other = self.graph.values[before], self.graph.values[name]
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.data is not None:
            if name in self.graph.results and self.node.region is None and name not in self.draft.places:
                public = self.draft.public.get(name, name)
                self.draft.places[name] = self.draft.add(public, other.dtype, other.shape, other.quant, one.data)
            return name in self.draft.places
        if one.quant is not other.quant and (one.quant is None or not self._alike(one.quant, other.quant)):
            return False
        if name in self.graph.results and (before in self.graph.results or before in self.graph.inputs):
            return False
        self.draft.places[name] = place = self.draft.value(before)
        if name in self.graph.results:
            self.draft.tensors[place] = replace(self.draft.tensors[place], name=self.draft.public.get(name, name))
        return True

    def _alike(self, one: Quant, other: Quant | None) -> bool:
        """Whether integers mean the same; in a source in ONNX but for what only rounds halves."""
        return one.matches(other) or (bool(self.graph.imports) and nearly(one, other))

    def target(self, number: int = 0) -> int:
        """The number of a result's tensor, also of one that nothing reads; in floats it is quantized later."""
        if number in self._targets:
            return self._targets[number]
        name = self.result if number == 0 else self.node.outputs[number]
        original = self.graph.values[name]
        found = self.draft.value(name)
        if self.in_floats and original.quant is not None:
            real = self.temporary(original.shape)
            self._later.append((real, found))
            found = real
        self._targets[number] = found
        return found

    @cached_property
    def _targets(self) -> dict[int, int]:
        return {}

    @cached_property
    def _later(self) -> list[tuple[int, int]]:
        return []

    def close(self) -> None:
        """Quantize the results that are in floats."""
        for real, stored in self._later:
            self.draft.quantize(real, stored, self._step())

    def _step(self) -> float:
        """The largest step that a result in floats may have: that of an operand, or of their product; infinite for
        quotients and others that are infinite themselves.
        """
        if self.op in _LIMITED:
            return 0.0
        if self.op in _INFINITE and (self.op != "Div" or self.data(1) is None or not self.value(1).real.all()):
            return inf
        quants = [self.graph.values[name].quant for name in self.node.inputs if name]
        steps = [float(each.scale.max()) for each in quants if each is not None]
        return max(prod(steps), *steps, 0.0)

    def constant(self, data: Any, dtype: str = "int32") -> int:
        """A constant. Raises :class:`ExpressionError` for a number that its type does not have."""
        try:
            return self.draft.constant(np.asarray(data, np.dtype(dtype)), self.result)
        except OverflowError:
            raise ExpressionError(f"a number of it is none of {dtype}") from None

    def number(self, label: str, number: Any, dtype: str, quant: Quant | None) -> int:
        """A constant of one number, as it is stored in the steps of ``quant``."""
        name = self.draft.names.derived(self.result, label)
        return self.draft.add(name, dtype, (), quant, np.array(number, dtype))

    def temporary(self, shape: Sequence[Dim], dtype: str = "float32", quant: Quant | None = None) -> int:
        """A tensor between operators."""
        return self.draft.add(self.draft.names.derived(self.result, "step"), dtype, tuple(shape), quant)

    def as_int32(self, tensor: int, given: Value) -> int:
        """A tensor, of the shape and type of a value, as int32, of which kernels have more than of int64."""
        if given.dtype == "int32":
            return tensor
        made = self.temporary(given.shape, "int32")
        self.draft.write("CAST", [tensor], [made], {})
        return made

    def step(self, operator: str, inputs: Sequence[int], shape: Sequence[Dim], **options: Any) -> int:
        """Write an operator whose result, of the type and meaning of its first input, other operators read."""
        made = self.draft.like(inputs[0], shape)
        self.draft.write(operator, inputs, [made], options)
        return made

    def write(
        self, operator: str, inputs: Sequence[int], outputs: Sequence[int] | None = None, /, **options: Any
    ) -> None:
        """Write an operator, by default with the node's result."""
        self.draft.write(operator, inputs, [self.target()] if outputs is None else outputs, options)

    def reshape(self, tensor: int, shape: Sequence[Dim], into: int | None = None) -> int:
        """A tensor in another shape, itself where it has that already, or written ``into`` another tensor."""
        sizes, signature = stated(tuple(shape))
        before = self.draft.tensors[tensor]
        if into is None and (before.shape, before.signature) == (sizes, signature):
            return tensor
        if is_computed(signature):
            entries, options = self.extents(shape, 0 if 0 in signature else 1), dict[str, Any]()
        else:
            entries, options = self.constant(signature), view_options(signature)
        if into is None:
            return self.step("RESHAPE", [tensor, entries], shape, **options)
        self.draft.write("RESHAPE", [tensor, entries], [into], options)
        return into

    def move(self, operator: str, tensor: int, arguments: Sequence[int], shape: Sequence[Dim], **options: Any) -> int:
        """Write an operator that moves elements, whose result is of the type and meaning of what it moves."""
        return self.step(operator, [tensor, *arguments], shape, **options)
