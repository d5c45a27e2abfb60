"""The reference graph of a whole model in the making, and of one subgraph in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import ModelError
from layoutsolve.frontend.arithmetic import Meanings
from layoutsolve.frontend.tflite.lowering.options import Reading
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Signature, Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.sparse import dense
from layoutsolve.frontend.tflite.reading.strings import strings
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Dim, Node, Region, Size, Value, static_elements, symbol
from layoutsolve.ir.names import Names, short

_WIDEST = 8
"""The bytes of the widest numbers that are computed."""

_MOST_ELEMENTS = 1 << 40
"""Elements of one tensor. What tensors cost is added up in 64 bits."""


@dataclass(eq=False)
class State:
    """A variable: what its first reader finds, what readers find now, and how it is known to begin, if it is."""

    name: str
    first: Value | None = None
    current: Value | None = None
    initial: Value | None = None


class Draft:
    """The reference graph of a whole model in the making.

    ``reading`` says what becomes of custom operators without a lowering, and how quantized ones are written.
    ``reserved`` has the number of elements of each list of tensors of which nothing else is known, and ``elements``
    what is set in one, by their names.
    """

    def __init__(
        self,
        model: Model,
        write: Callable[[Lowering], None],
        reading: Reading | None = None,
        equal: Mapping[str, str | int] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """``write`` writes all operators of a subgraph. ``equal`` has what stands for some symbols of inputs, a
        symbol or a number; ``budget`` is by default what the model's size allows.
        """
        self.equal = dict(equal or {})
        self.forced: dict[str, str | int] = {}
        self.input_symbols: set[str] = set()
        self.opened: set[str] = set()
        self.signature: Signature | None = None
        self.model, self.write = model, write
        self.reading = reading or Reading()
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.written: set[str] = set()
        self.foreign: set[str] = set()
        self.contents: dict[str, Array] = {}
        self.complex: set[str] = set()
        self.fixed: set[str] = set()
        self.dynamic = False
        self.budget = budget or Budget(model.size)
        operators = [operator for each in model.subgraphs for operator in each.operators]
        ports = sum(len(operator.inputs) + len(operator.outputs) for operator in operators)
        self.budget.open(len(operators) + sum(len(each.tensors) for each in model.subgraphs), ports)
        self.handles: dict[str, tuple[str, str]] = {}
        self.reserved: dict[str, Value] = {}
        self.elements: dict[str, Value] = {}
        self.tables: dict[int, tuple[Subgraph, Operator]] = {}
        self.states: dict[Hashable, State] = {}
        self._constants: dict[tuple[int, int], Value] = {}
        self._symbols: dict[tuple[object, ...], Size] = {}
        self._used_symbols = Names()
        self.meanings = Meanings(partial(_fresh, self._used_symbols))  # not of a method: that would be a cycle
        self.names = Names()

    def symbol_for(self, key: tuple[object, ...], name: str) -> Size:
        """The symbol that stands for ``key``, called ``name`` if it is new."""
        if key not in self._symbols:
            self._symbols[key] = symbol(self.fresh_symbol(name))
        return self._symbols[key]

    def input_size(self, name: str, *, opened: bool = False) -> Dim:
        """The symbol of a dimension of an input, or the number that operators force it to be; ``opened`` where the file
        states a number, which the symbol stands for.
        """
        found = self.fresh_symbol(name)
        self.input_symbols.add(found)
        stands = self.equal.get(found, found)
        if isinstance(stands, int):
            return stands
        size = symbol(stands)
        if opened:
            self.opened.update(size.symbols)
        return size

    def equate(self, one: Dim, other: Dim) -> None:
        """Record that an operator forces two sizes to be equal, which may determine sizes of inputs: another one
        stands for them, or a number. What users have made dynamic stays dynamic: the operator decides if that can be.
        """
        symbols = [dim.symbols[0] for dim in (one, other) if isinstance(dim, Size) and dim == symbol(dim.symbols[0])]
        if not symbols or not self.input_symbols.issuperset(symbols):
            return
        numbers = {dim for dim in (one, other) if isinstance(dim, int)}
        if len(symbols) + len(numbers) < 2 or (numbers and self.opened.intersection(symbols)):
            return
        forced = {self._representative(name) for name in symbols} | numbers
        names = sorted(each for each in forced if isinstance(each, str))
        numbers = {each for each in forced if isinstance(each, int)}
        stands = min(numbers) if numbers else names[0]
        self.forced.update((name, stands) for name in names if name != stands)

    def _representative(self, name: str | int) -> str | int:
        while isinstance(name, str) and name in self.forced:
            name = self.forced[name]
        return name

    def equalities(self) -> dict[str, str | int]:
        """All symbols of inputs that others, or numbers, stand for, as far as is known."""
        found = {name: self._representative(self.equal.get(name, name)) for name in self.input_symbols}
        return {name: stands for name, stands in found.items() if name != stands}

    def fresh_symbol(self, name: str) -> str:
        """A symbol that nothing has yet, called ``name`` if that is free."""
        return _fresh(self._used_symbols, name)

    def ask(self, elements: int) -> None:
        """Make sure that a constant of so many elements may be computed, before it is."""
        self.budget.ask(_WIDEST * elements)

    def add(self, value: Value) -> Value:
        """Enter a value; every constant that is made comes here.

        Raises :class:`GapError` where it is larger than anything that has a place in memory, or of a type that ONNX
        does not have.
        """
        if value.dtype == "int2":
            raise GapError(f"'{value.name}' is computed, or changed, in int2", "quantize it to 8 or 16 bits")
        if value.data is not None:
            self.budget.keep(value.data)
        elif static_elements(value.shape) > _MOST_ELEMENTS:
            shape = ", ".join(map(str, value.shape))
            raise GapError(f"'{value.name}' has the shape [{shape}], too much for any memory", "use smaller tensors")
        self.values[value.name] = value
        self.meanings.dimensions.update(dim for dim in value.shape if isinstance(dim, Size))
        return value

    def constant(self, position: int, tensor: Tensor, name: str) -> Value:
        """The constant that a tensor of a subgraph is, entered once however often the subgraph is written."""
        key = (position, tensor.index)
        if key not in self._constants:
            self._constants[key] = self.add(self._constant(tensor, name))
        return self._constants[key]

    def _constant(self, tensor: Tensor, name: str) -> Value:
        if tensor.external:
            place = f"the external buffer {tensor.external}, outside of the file"
            raise GapError(f"tensor '{tensor.name}' has its data in {place}", "write the model with all data inside")
        if tensor.dtype in ("resource", "variant"):
            raise GapError(f"tensor '{tensor.name}' is of type {tensor.dtype}", "replace what makes it")
        if tensor.dtype in ("bfloat16", "complex64", "complex128"):
            raise GapError(f"tensor '{tensor.name}' is a constant of {tensor.dtype}", "use float32 or float16")
        if tensor.sparsity is not None:
            self.ask(prod(tensor.shape))
            data = dense(tensor)
        elif tensor.dtype == "string":
            data = strings(tensor, self.budget.spend)
        elif tensor.data is not None:
            data = tensor.data
        else:
            data = np.zeros(tensor.shape, tensor.dtype)
        dtype = "int8" if tensor.dtype == "int2" else tensor.dtype
        return Value(name, dtype, tuple(data.shape), quant_of(tensor), data)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self, key: Hashable, name: str) -> State:
        """The variable that ``key`` stands for; if it is new it gets ``name``, which nothing else may have."""
        if key not in self.states:
            self.states[key] = State(name)
        return self.states[key]

    def read_state(self, state: State, like: Value) -> Value:
        """What a variable holds; ``like`` has the type and shape that its first reader expects."""
        if state.current is None:
            state.first = state.current = self.add(replace(like, name=state.name))
        return state.current

    def close_states(self) -> None:
        """Write the variables that are read before they are assigned; one that is never assigned is a constant."""
        found: list[Node] = []
        for state in self.states.values():
            if state.first is None or state.current is None:
                continue
            initial = state.initial
            if state.current is state.first and initial is not None:
                self.values[state.first.name] = replace(state.first, data=initial.data)
            else:
                self._check_ranks(state, *([state.current] if initial is None else [initial, state.current]))
                names = (initial.name if initial else "", state.current.name)
                found.append(Node("State", names, (state.first.name,), storage=True))
        self.nodes[:0] = reversed(found)

    def _check_ranks(self, state: State, *values: Value) -> None:
        """Raise :class:`ModelError` where a variable holds more or fewer dimensions than where it is read first."""
        for value in values:
            if state.first is not None and len(value.shape) != len(state.first.shape):
                raise ModelError(
                    f"the variable '{state.first.name}' has {len(state.first.shape)} dimensions where it is read, and "
                    f"{len(value.shape)} in '{value.name}', which it holds in another run: give it one number of them"
                )


class Lowering:
    """A subgraph being written into a draft: what its tensors are there, and in which subgraph it lies."""

    def __init__(self, draft: Draft, position: int = 0, outer: Lowering | None = None, region: Region | None = None):
        self.draft = draft
        self.position = position
        self.outer = outer
        self.region = region
        self.subgraph = draft.model.subgraphs[position]
        draft.budget.enter(len(self.subgraph.operators) + len(self.subgraph.tensors))
        self.bound: dict[int, Value] = {}
        self.initialising: bool = outer is not None and outer.initialising
        public = frozenset() if outer else frozenset((*self.subgraph.inputs, *self.subgraph.outputs))
        self.tensor_names = [
            draft.names.unique(name if tensor.index in public else short(name))
            for tensor in self.subgraph.tensors
            for name in (tensor.name or f"tensor_{tensor.index}",)
        ]

    @property
    def callers(self) -> list[int]:
        """The subgraphs from which this one is called, the nearest first."""
        return [] if self.outer is None else [self.outer.position, *self.outer.callers]

    def bind(self, index: int, value: Value) -> None:
        """Make ``value`` what operators read as tensor ``index``."""
        self.bound[index] = value

    def value(self, index: int) -> Value:
        """What a tensor is: bound by an earlier operator, a variable's present content, or a constant."""
        tensor, name = self.subgraph.tensors[index], self.tensor_names[index]
        if index not in self.bound and tensor.is_variable:
            like = Value(name, tensor.dtype, tensor.shape, quant_of(tensor))
            return self.draft.read_state(self.variable(tensor), like)
        if index not in self.bound:
            self.bound[index] = self.draft.constant(self.position, tensor, name)
        return self.bound[index]

    def begun(self, index: int) -> Value | None:
        """What a variable begins with that no operator has written yet; None for other tensors."""
        tensor = self.subgraph.tensors[index]
        return self.variable(tensor).initial if tensor.is_variable and index not in self.bound else None

    def variable(self, tensor: Tensor) -> State:
        """The state that a tensor declared as variable stands for: its zero at first, then whatever was left in it."""
        state = self.draft.state((self.position, tensor.index), self.tensor_names[tensor.index])
        if state.initial is None:
            if tensor.dtype == "string":
                raise GapError(f"tensor '{tensor.name}' is a variable of strings", "make it a constant or an input")
            self.draft.ask(prod(tensor.shape))
            zero = tensor.quant.zero_point[0] if tensor.dtype == "int8" and tensor.quant else 0
            data = np.full(tensor.shape, zero, tensor.dtype)
            name = self.draft.names.derived(self.tensor_names[tensor.index], "initial")
            state.initial = self.draft.add(Value(name, tensor.dtype, tensor.shape, quant_of(tensor), data))
        return state


def tensor_names(model: Model, position: int = 0) -> list[str]:
    """What the tensors of a subgraph are called in the reference graph, and in messages."""
    return Lowering(Draft(model, lambda lowering: None, budget=Budget()), position).tensor_names


def _fresh(symbols: Names, name: str) -> str:
    """A new symbol. A product of symbols is written with stars, so none has one of its own."""
    return symbols.unique(short(name.replace("*", "_")))
