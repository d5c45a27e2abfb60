"""Constants of a graph in the making, and rearranging them, which is how weights absorb layouts for free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import memory
from layoutsolve.ir.graph import Array, Dim, Quant, Shape, Value
from layoutsolve.ir.names import Names
from layoutsolve.solver.statement.duplicated_initializers import Stored, stored
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.rule import static
from layoutsolve.solver.theory.variable import Variable


class Constants:
    """The constants among the ``values`` of a graph in the making, each once for every way in which it is stored.

    ``source`` are the values of the graph that it is made from. All constants count in the ``budget``.
    """

    def __init__(self, source: Mapping[str, Value], values: dict[str, Value], taken: Names, budget: Budget) -> None:
        self.source, self.values, self.taken, self.budget = source, values, taken, budget
        self._entered: dict[tuple[str, Stored | None], str] = {}
        self._arrays: dict[tuple[object, ...], Array] = {}
        self._new: dict[tuple[str, Shape, bytes], str] = {}

    def original(self, name: str) -> str:
        """The name of a constant of the source as it is stored there."""
        return self._enter(name, None, self.source[name])

    def arranged(self, name: str, variable: Variable, layout: Layout) -> str:
        """The name of a constant in the layout of one port; ports that want the same one share it."""
        way = stored(variable, layout)
        known = self._entered.get((name, way))
        if known is not None:
            return known
        source = self.source[name]
        value = rearranged(source, variable.readings[name], layout, variable.sizes)
        if value.data is source.data:
            return self._entered.setdefault((name, way), self.original(name))
        if value.data is not None and source.data is not None and value.dtype == source.dtype:
            # Constants that lie in the same memory also share what is made of it.
            value = replace(value, data=self._arrays.setdefault((memory(source.data), way), value.data))
        return self._enter(name, way, value)

    def new(self, data: Array, near: str) -> str:
        """The name of a constant that the source does not have; equal ones are one, called after the first ``near``."""
        key = (str(data.dtype), data.shape, data.tobytes())
        if key not in self._new:
            name = self.taken.derived(near, "x".join(map(str, data.shape)) or "scalar")
            self._new[key] = self._keep(name, Value(name, str(data.dtype), data.shape, None, data))
        return self._new[key]

    def given(self, value: Value) -> str:
        """The name of a constant that is made of one of the source."""
        name = self.taken.derived(value.name, "x".join(map(str, value.shape)))
        return self._keep(name, replace(value, name=name))

    def _enter(self, name: str, way: Stored | None, value: Value) -> str:
        """Enter a constant as it is stored in some way, None for the source's; the first keeps its name."""
        if (name, way) not in self._entered:
            unique = self.taken.unique(name) if name in self.values else name
            self._entered[name, way] = self._keep(unique, replace(value, name=unique))
        return self._entered[name, way]

    def _keep(self, name: str, value: Value) -> str:
        if value.data is not None:
            self.budget.keep(value.data)
        self.values[name] = value
        return name


def rearranged(value: Value, logical: Layout, layout: Layout, sizes: Sequence[Dim]) -> Value:
    """A constant in another layout; the parameters of a quantized axis follow it.

    Where the axis is no longer one stored dimension, or its blocks are torn apart, the constant is dequantized: ONNX
    has no other way to say it.
    """
    if layout == logical or value.data is None:
        return value
    numbers = [static(size) for size in sizes]
    data = _permuted(value.data, logical, layout, numbers)
    quant, dtype = value.quant, value.dtype
    if quant is not None and quant.axis is not None:
        quant = _follow(quant, logical, layout, numbers)
        if quant is None:
            data, dtype = _permuted(value.real, logical, layout, numbers), "float32"
    return Value(value.name, dtype, data.shape, quant, data)


def _permuted(data: Array, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Array:
    """Elements reordered from one layout to another; atoms are axes in between."""
    source = order(logical)
    spread = data.reshape([sizes[atom] for atom in source])
    shape = tuple(static(dim) for dim in stored_shape(layout, sizes))
    return spread.transpose([source.index(atom) for atom in order(layout)]).reshape(shape)


def _follow(quant: Quant, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Quant | None:
    """The parameters of a quantized axis in another layout, None where its atoms are spread or mixed with others."""
    atoms = logical[quant.axis or 0]
    if quant.block:
        return _follow_blocks(quant, logical, layout, sizes)
    for axis, group in enumerate(layout):
        if group and set(group) == set(atoms):
            scale = _permuted(quant.scale, (atoms,), (group,), sizes)
            zero = quant.zero_point
            return Quant(scale, _permuted(zero, (atoms,), (group,), sizes) if zero.size > 1 else zero, axis)
    return None


def _follow_blocks(quant: Quant, logical: Layout, layout: Layout, sizes: Sequence[int]) -> Quant | None:
    """The parameters of blocks along an axis that is still one stored dimension, in the same order; else None."""
    axis = quant.axis or 0
    first, *others = logical[axis] or (-1,)
    if first == -1 or logical[axis] not in layout:
        return None
    grid = list(sizes)
    grid[first] = quant.scale.shape[axis]
    for atom in others:
        grid[atom] = 1
    scale, zero = (_permuted(each, logical, layout, grid) for each in (quant.scale, quant.zero_point))
    return Quant(scale, zero, layout.index(logical[axis]), quant.block)
