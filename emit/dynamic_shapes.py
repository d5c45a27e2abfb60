"""Where sizes come from: the nodes that compute at run time what ``Sizes`` asks for.

A size is read from a tensor that has it as a dimension, or computed from its meaning. Inputs are read rather than what
is computed: a tensor that nothing else reads may be fused away. What was computed once is used again wherever it can be
seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import BudgetError, ConversionError
from layoutsolve.ir.graph import INSIDE, OPENING, Dim, Graph, Node, Region, Size, Value
from layoutsolve.ir.names import Names
from layoutsolve.ir.symbolic_sizes import Formula, Polynomial

_GROWTH, _SPARE = 32, 1 << 13
"""How many operators may compute sizes for each of the graph, and how many more."""

_REMEDY = "give the model static input shapes (--shape)"


def computed(graph: Graph) -> Graph:
    """The graph with nodes of ONNX in place of every ``Sizes`` that is read.

    Raises :class:`ConversionError` for a size that no tensor in sight tells, and where sizes take far more operators
    than all else.
    """
    return _Computer(graph).result() if any(node.op == "Sizes" for node in graph.nodes) else graph


@dataclass(frozen=True)
class _Home:
    """A dimension of a tensor, which comes to be in ``region`` with the node that has the number ``time``."""

    name: str
    axis: int
    region: Region | None
    time: int


@dataclass(frozen=True)
class _Way:
    """How a symbol is computed from others: by a formula, or from a dimension of a tensor, which is divided by them and
    a number.
    """

    source: Formula | _Home
    symbols: tuple[str, ...] = ()
    coefficient: int = 1


class _Rules:
    """What symbols follow from others. None is used for what it follows from itself."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self._rules: list[tuple[str, _Way]] = []

    def know(self, name: str) -> None:
        """Note that a symbol can be computed."""
        self.known.add(name)

    def add(self, name: str, way: _Way) -> None:
        """Note a way to compute a symbol."""
        self._rules.append((name, way))

    def apply(self, ways: dict[str, _Way]) -> None:
        """Add the ways by which more symbols can be computed, formulas first."""
        lacking = [len({each for each in way.symbols if each not in self.known}) for _, way in self._rules]
        readers: dict[str, list[int]] = {}
        for number, (_, way) in enumerate(self._rules):
            for each in set(way.symbols):
                readers.setdefault(each, []).append(number)
        ready = [number for number, count in enumerate(lacking) if not count]
        queues = [deque(each for each in ready if self._is_late(each) == late) for late in (False, True)]
        while queues[0] or queues[1]:
            name, way = self._rules[(queues[0] or queues[1]).popleft()]
            if name in self.known:
                continue
            self.known.add(name)
            ways[name] = way
            for number in readers.get(name, ()):
                lacking[number] -= 1
                if not lacking[number]:
                    queues[self._is_late(number)].append(number)

    def _is_late(self, number: int) -> bool:
        """Whether a way is taken where no formula is left."""
        return isinstance(self._rules[number][1].source, _Home)


def _symbols(formula: Formula) -> tuple[str, ...]:
    """The symbols of a formula, in the order in which they are written."""
    terms = (term for operand in formula.operands for term in sorted(operand.terms, key=lambda term: term[1] < 0))
    return tuple(dict.fromkeys(name for names, _ in terms for name in names))


class _Computer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = dict(graph.values)
        self.nodes: list[Node] = []
        self.taken = Names(graph.values)
        self.opened: dict[Region, int] = {}
        self.given: dict[Dim, list[_Home]] = {}
        self.homes: dict[Dim, list[_Home]] = {}
        self.products: dict[str, dict[Size, None]] = {}
        self.inputs: dict[tuple[Region | None, str], bool] = {}
        self.known: dict[object, list[_Home]] = {}
        self.constants: dict[tuple[int, ...], str] = {}
        self.room = _GROWTH * len(graph.nodes) + _SPARE
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
                    self.products.setdefault(symbol, {})[dim] = None

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
            parts.append(self._read(home, count) if home is not None and count > 1 else self._size(dim))
            start += count
        if numbers:
            parts.append(self._constant(numbers))
        self._write(*(("Concat", parts, {"axis": 0}) if len(parts) > 1 else ("Identity", parts, {})), name=name)

    def _run(self, home: _Home, dims: Sequence[Dim]) -> int:
        """How many of these sizes a tensor has one after the other."""
        shape = self.graph.values[home.name].shape[home.axis :]
        pairs = enumerate(zip(shape, dims, strict=False))
        return next((count for count, (one, other) in pairs if one != other), min(len(shape), len(dims)))

    def _size(self, dim: Size) -> str:
        """A vector of one size."""
        home = self._seen(self.given.get(dim, ()))
        if home is not None:
            return self._read(home, 1)
        ways = self._ways(dim.symbols)
        if ways is None:
            place = f"{self.node.origin}: " if self.node.origin else ""
            raise ConversionError(
                f"{place}no tensor has the dynamic size {dim}, which is needed at run time; {_REMEDY}"
            )
        self._compute(dim.symbols, ways)
        return self._polynomial(Polynomial(((dim.symbols, dim.coefficient),)))

    def _ways(self, names: Iterable[str]) -> dict[str, _Way] | None:
        """How to compute some symbols, and those that they are computed from, which are not written yet; None where
        nothing tells them. Inputs tell first, then formulas that follow from these, other tensors, other formulas, and
        tensors that have a symbol only as part of a product.
        """
        ways: dict[str, _Way] = {}
        rules, stack, seen = _Rules(), list(names), set[str]()
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            formula, dim = self.graph.formulas.get(name), Size(1, (name,))
            home = self._seen(self.given.get(dim, ()))
            if self._written(name):
                rules.know(name)
            elif home is None and formula is not None and self._from_inputs(name):
                ways[name] = _Way(formula, _symbols(formula))
                stack += ways[name].symbols
                rules.know(name)
            elif (home := home or self._seen(self.homes.get(dim, ()))) is not None:
                ways[name] = _Way(home)
                rules.know(name)
            else:
                for way in self._unsure(name, formula):
                    rules.add(name, way)
                    stack += way.symbols
        rules.apply(ways)
        return ways if rules.known.issuperset(names) else None

    def _unsure(self, name: str, formula: Formula | None) -> Iterator[_Way]:
        """How a symbol may be computed that no tensor has by itself."""
        if formula is not None:
            yield _Way(formula, _symbols(formula))
        for whole in self.products.get(name, ()):
            home = self._seen(self.homes.get(whole, ()))
            others = list(whole.symbols)
            others.remove(name)
            if home is not None and name not in others:
                yield _Way(home, tuple(others), whole.coefficient)

    def _from_inputs(self, name: str) -> bool:
        """Whether a symbol can be computed from what the inputs have as dimensions."""
        region, stack = self.node.region, [name]
        while stack:
            current = stack[-1]
            formula = self.graph.formulas.get(current)
            if (region, current) not in self.inputs:
                given = self._seen(self.given.get(Size(1, (current,)), ())) is not None
                self.inputs[region, current] = given
                stack += () if given or formula is None else formula.symbols
                continue
            stack.pop()
            if not self.inputs[region, current] and formula is not None:
                self.inputs[region, current] = all(self.inputs.get((region, each), False) for each in formula.symbols)
        return self.inputs[region, name]

    def _compute(self, names: Iterable[str], ways: Mapping[str, _Way]) -> None:
        """Write what tells symbols, after what these are computed from."""
        stack = [name for name in names if name in ways]
        while stack:
            name = stack[-1]
            missing = [each for each in ways[name].symbols if not self._written(each)]
            stack += reversed(missing)
            if not missing:
                stack.pop()
                self._once(name, partial(self._told, ways[name]))

    def _written(self, name: str) -> str:
        """The vector of a symbol that is written already, '' where none can be seen."""
        home = self._seen(self.known.get(name, ()))
        return "" if home is None else home.name

    def _told(self, way: _Way) -> str:
        """Write a symbol, given what it is computed from."""
        source = way.source
        if isinstance(source, Formula):
            return self._once(source, lambda: self._apply(source, [*map(self._polynomial, source.operands)]))
        size = self._read(source, 1)
        if not way.symbols and way.coefficient == 1:
            return size
        return self._op("Div", size, self._positive(self._polynomial(Polynomial(((way.symbols, way.coefficient),)))))

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

    def _polynomial(self, polynomial: Polynomial) -> str:
        """A sum of products of symbols that are written."""
        return self._once(polynomial, lambda: self._sum(polynomial))

    def _sum(self, polynomial: Polynomial) -> str:
        terms = []
        for names, factor in sorted(polynomial.terms, key=lambda term: term[1] < 0):
            parts = [*map(self._written, names)]
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
        self.room -= 1
        if self.room < 0:
            raise BudgetError("the sizes that it computes take far more operators than it has", _REMEDY)
        self.nodes.append(Node(op, tuple(inputs), (made,), attributes or {}, origin, region=region))
        return made

    def _constant(self, numbers: Sequence[int]) -> str:
        key = tuple(numbers)
        if key not in self.constants:
            name = self.taken.unique("size/" + "x".join(map(str, key)))
            self.constants[key] = name
            self.values[name] = Value(name, "int64", (len(key),), None, np.array(key, np.int64))
        return self.constants[key]
