"""Where sizes come from: the nodes that compute at run time what ``Sizes`` asks for.

A size is read from a tensor that has it as a dimension, or computed from its meaning. Inputs are read rather than what
is computed: a tensor that nothing else reads may be fused away. What was computed once is used again wherever it can be
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.errors import ConversionError
from layoutsolve.graph import INSIDE, OPENING, Dim, Graph, Node, Region, Size, Value
from layoutsolve.names import Names
from layoutsolve.records import dataclass
from layoutsolve.sizes import Formula, Polynomial


def computed(graph: Graph) -> Graph:
    """The graph with nodes of ONNX in place of every ``Sizes`` that is read.

    Raises :class:`ConversionError` for a size that no tensor in sight tells.
    """
    return _Computer(graph).result() if any(node.op == "Sizes" for node in graph.nodes) else graph


@dataclass(frozen=True)
class _Home:
    """A dimension of a tensor, which comes to be in ``region`` with the node that has the number ``time``."""

    name: str
    axis: int
    region: Region | None
    time: int


class _Computer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = dict(graph.values)
        self.nodes: list[Node] = []
        self.taken = Names(graph.values)
        self.opened: dict[Region, int] = {}
        self.given: dict[Dim, list[_Home]] = {}
        self.homes: dict[Dim, list[_Home]] = {}
        self.products: dict[str, list[Size]] = {}
        self.known: dict[object, list[_Home]] = {}
        self.constants: dict[tuple[int, ...], str] = {}
        self.node = Node("Sizes", (), ())

    def result(self) -> Graph:
        read = {name for node in self.graph.nodes for name in node.inputs} | set(self.graph.outputs)
        for name in self.graph.inputs:
            self._note(name, None, given=True)
        for node in self.graph.nodes:
            self.opened.update(dict.fromkeys(node.regions if node.op in OPENING else (), len(self.nodes)))
            if node.op != "Sizes":
                self.nodes.append(node)
                for name in filter(None, node.outputs):
                    inside = name in node.outputs[: INSIDE.get(node.op, 0)]
                    self._note(name, node.regions[0] if inside else node.region, inside or node.op == "State")
            elif read.intersection(node.outputs):
                self.node = node
                self._vector(node.attributes["dims"], node.outputs[0])
            else:
                del self.values[node.outputs[0]]
        return replace(self.graph, values=self.values, nodes=tuple(self.nodes))

    def _note(self, name: str, region: Region | None, given: bool = False) -> None:
        """Remember the sizes that a tensor tells; ``given`` ones are not computed by any node."""
        for axis, dim in enumerate(self.graph.values[name].shape):
            if isinstance(dim, Size):
                for found in (self.given, self.homes) if given else (self.homes,):
                    found.setdefault(dim, []).append(_Home(name, axis, region, len(self.nodes)))
                for symbol in dim.symbols:
                    self.products.setdefault(symbol, []).append(dim)

    def _seen(self, homes: Iterable[_Home]) -> _Home | None:
        """The first one that can be seen where sizes are asked for: from outside, if it was there before the region."""
        for home in homes:
            region, time = self.node.region, len(self.nodes)
            while region is not None and region is not home.region:
                time, region = self.opened[region], region.parent
            if region is home.region and home.time <= time:
                return home
        return None

    # -- sizes -----------------------------------------------------------------------------------------------------

    def _vector(self, dims: Sequence[Dim], name: str) -> None:
        """Write a vector of sizes; neighbours that one tensor has side by side are read at once."""
        parts: list[str] = []
        numbers: list[int] = []
        start = 0
        while start < len(dims):
            dim = dims[start]
            if not isinstance(dim, Size):
                numbers.append(dim)
                start += 1
                continue
            if numbers:
                parts.append(self._constant(numbers))
                numbers = []
            home = self._seen(self.given.get(dim, ()))
            count = 1 if home is None else self._run(home, dims[start:])
            parts.append(self._read(home, count) if home is not None and count > 1 else self._size(dim, frozenset()))
            start += count
        if numbers:
            parts.append(self._constant(numbers))
        self._write(*(("Concat", parts, {"axis": 0}) if len(parts) > 1 else ("Identity", parts, {})), name=name)

    def _run(self, home: _Home, dims: Sequence[Dim]) -> int:
        """How many of these sizes a tensor has one after the other."""
        shape = self.graph.values[home.name].shape[home.axis :]
        pairs = enumerate(zip(shape, dims, strict=False))
        return next((count for count, (one, other) in pairs if one != other), min(len(shape), len(dims)))

    def _size(self, dim: Dim, asked: frozenset[str]) -> str:
        """A vector of one size. ``asked`` are the symbols that are being looked for already."""
        found = self._found(dim, asked)
        if found is None:
            place = f"{self.node.origin}: " if self.node.origin else ""
            remedy = "give the model static input shapes (--shape)"
            raise ConversionError(f"{place}no tensor tells the size {dim}, which is needed at run time; {remedy}")
        return found()

    def _found(self, dim: Dim, asked: frozenset[str]) -> Callable[[], str] | None:
        """How to write a size, None where nothing tells it."""
        if not isinstance(dim, Size):
            return lambda: self._constant([dim])
        home = self._seen(self.given.get(dim, ()))
        if home is not None:
            return lambda: self._read(home, 1)
        if (dim.coefficient, len(dim.symbols)) != (1, 1):
            return self._polynomial(Polynomial(((dim.symbols, dim.coefficient),)), asked)
        return self._symbol(dim.symbols[0], asked)

    def _symbol(self, name: str, asked: frozenset[str]) -> Callable[[], str] | None:
        if name in asked:
            return None
        asked |= {name}
        formula = self.graph.formulas.get(name)
        home = self._seen(self.homes.get(Size(1, (name,)), ()))
        meaning = None if formula is None else self._formula(formula, asked)
        if formula is not None and meaning is not None and (home is None or self._from_inputs(formula)):
            return meaning
        if home is not None:
            return lambda: self._read(home, 1)
        return self._factor(name, asked)

    def _from_inputs(self, formula: Formula) -> bool:
        """Whether a formula can be computed from what the inputs have as dimensions."""
        return all(
            self._seen(self.given.get(Size(1, (name,)), ())) is not None
            or (name in self.graph.formulas and self._from_inputs(self.graph.formulas[name]))
            for name in formula.symbols
        )

    def _factor(self, name: str, asked: frozenset[str]) -> Callable[[], str] | None:
        """A symbol that tensors have only as part of a product."""
        for whole in self.products.get(name, ()):
            home = self._seen(self.homes.get(whole, ()))
            others = list(whole.symbols)
            others.remove(name)
            rest = self._polynomial(Polynomial(((tuple(others), whole.coefficient),)), asked)
            if home is not None and rest is not None:
                divided = home, rest
                return lambda: self._op("Div", self._read(divided[0], 1), self._positive(divided[1]()))
        return None

    def _formula(self, formula: Formula, asked: frozenset[str]) -> Callable[[], str] | None:
        operands = [self._polynomial(operand, asked) for operand in formula.operands]
        present = [operand for operand in operands if operand is not None]
        if len(present) < len(operands):
            return None
        return lambda: self._once(formula, lambda: self._apply(formula, [operand() for operand in present]))

    def _apply(self, formula: Formula, operands: list[str]) -> str:
        """Write what a formula means, given its operands."""
        first, *rest = operands
        if formula.op == "quotient":
            divisor = rest[0] if formula.operands[1].constant else self._positive(rest[0])
            return self._op("Div", self._op("Sub", first, self._op("Mod", first, divisor)), divisor)
        if formula.op == "broadcast":
            for other in rest:
                first = self._op("Where", self._op("Equal", first, self._constant([1])), other, first)
            return first
        return first if formula.op == "sum" else self._op(formula.op.capitalize(), *operands)

    def _polynomial(self, polynomial: Polynomial, asked: frozenset[str]) -> Callable[[], str] | None:
        """A sum of products."""
        factors = {name: self._found(Size(1, (name,)), asked) for name in sorted(polynomial.symbols)}
        if any(factor is None for factor in factors.values()):
            return None
        present = {name: factor for name, factor in factors.items() if factor is not None}
        return lambda: self._once(polynomial, lambda: self._sum(polynomial, present))

    def _sum(self, polynomial: Polynomial, symbols: dict[str, Callable[[], str]]) -> str:
        terms = []
        for names, factor in sorted(polynomial.terms, key=lambda term: term[1] < 0):
            parts = [symbols[name]() for name in names]
            if not parts or abs(factor) != 1:
                parts.append(self._constant([abs(factor)]))
            terms.append((factor < 0, self._folded("Mul", parts)))
        (negative, total), *others = terms or [(False, self._constant([0]))]
        if negative:
            total = self._op("Neg", total)
        for negative, term in others:
            total = self._op("Sub" if negative else "Add", total, term)
        return total

    def _positive(self, divisor: str) -> str:
        """A divisor kept from zero, which it is only where nothing is divided."""
        return self._op("Max", divisor, self._constant([1]))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _read(self, home: _Home, count: int) -> str:
        place = {"start": home.axis, "end": home.axis + count}
        return self._once((home.name, home.axis, count), lambda: self._write("Shape", [home.name], place, count))

    def _once(self, key: object, write: Callable[[], str]) -> str:
        """What was written before, if it can be seen from here."""
        home = self._seen(self.known.get(key, ()))
        if home is not None:
            return home.name
        name = write()
        self.known.setdefault(key, []).append(_Home(name, 0, self.node.region, len(self.nodes)))
        return name

    def _folded(self, op: str, parts: Sequence[str]) -> str:
        result = parts[0]
        for part in parts[1:]:
            result = self._op(op, result, part)
        return result

    def _op(self, op: str, *inputs: str) -> str:
        return self._once((op, inputs), lambda: self._write(op, inputs))

    def _write(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: dict[str, int] | None = None,
        count: int = 1,
        name: str | None = None,
    ) -> str:
        made = name or self.taken.derived(self.node.outputs[0], op.lower())
        if name is None:
            self.values[made] = Value(made, "bool" if op == "Equal" else "int64", (count,))
        origin, region = self.node.origin, self.node.region
        self.nodes.append(Node(op, tuple(inputs), (made,), attributes or {}, origin, region=region))
        return made

    def _constant(self, numbers: Sequence[int]) -> str:
        key = tuple(numbers)
        if key not in self.constants:
            name = self.taken.unique("size/" + "x".join(map(str, key)))
            self.constants[key] = name
            self.values[name] = Value(name, "int64", (len(key),), None, np.array(key, np.int64))
        return self.constants[key]
