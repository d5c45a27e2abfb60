"""The reference graph of a model in ONNX in the making."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

import numpy as np

from layoutsolve.frontend.onnx import constants
from layoutsolve.frontend.onnx.inference import Known, Types
from layoutsolve.frontend.onnx.reading import Source
from layoutsolve.frontend.onnx.symbols import Symbols, is_size, resolved
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import PACKED, Array, Dim, Node, Origin, Quant, Region, Size, Value
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import TYPES, GraphProto, TensorProto
from layoutsolve.proto.scopes import captures, needed, numbered

MOST_SIZES = 1 << 10
"""The elements of the longest vector of sizes that is followed."""

PRODUCTS = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
"""The operators that multiply by weights, and add biases."""

FOREIGN = "uint8"
"""What stands for the type of elements of a value that is foreign."""


class Draft:
    """The reference graph of a whole model in the making.

    ``values`` are those of the graph. ``real`` names, for a tensor of real numbers in the file, the stored one that it
    means, ``alias`` the tensor that another one is. ``unknown`` are constants of types that only operators of the file
    know. ``contents`` are vectors of sizes that are computed: arrays of objects; ``shares`` such of floats.
    ``asked`` are the parameters with which tensors of whole numbers are dequantized, ``integers`` by what constants of
    whole numbers are as floats the constant, and the zero that was subtracted. ``equal`` is what symbols are
    known to be, ``forced`` tells whether more of that was found out. ``region`` is where nodes are written, of the
    graph of the file that has the number ``graph``; ``made`` has by region what was written there once for all that
    ask for it, ``copied`` are the bytes of graphs within that were.
    """

    def __init__(self, source: Source, budget: Budget, symbols: Symbols) -> None:
        self.source, self.budget = source, budget
        symbols.begin()
        self.symbols, self.equal, self.forced = symbols, dict(symbols.equal), False
        self.types = Types(source.proto, symbols)
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.real: dict[str, str] = {}
        self.alias: dict[str, str] = {}
        self.contents: dict[str, Array] = {}
        self.shares: dict[str, Array] = {}
        self.made: dict[tuple[Region | None, object], str] = {}
        self.region: Region | None = None
        self.graph = self.copied = 0
        self.numbers = numbered(source.proto.graph)
        self.asked: dict[str, Quant] = {}
        self.integers: dict[str, tuple[str, Array | None]] = {}
        self.defaults: dict[str, Value] = {}
        self.unknown: list[TensorProto] = []
        self.given: dict[str, constants.Constant] = dict(source.constants)
        graph = source.proto.graph
        ports = [name for node in graph.node for name in (*node.input, *node.output)]
        self.uses = Counter[str]()
        self._count(graph)
        self.outputs = frozenset(port.name for port in graph.output)
        self.names = Names([*ports, *self.given, *(port.name for port in (*graph.input, *graph.output))])
        self.meanings = symbols.meanings
        self.producers: dict[str, int] = {}

    @contextmanager
    def within(self, index: int, name: str, graph: GraphProto, region: Region | None) -> Iterator[None]:
        """Where the nodes of a graph are written that an attribute of a node has, given by its number and name."""
        around = self.graph, self.region
        self.graph, self.region = self.numbers[self.graph, index, name], region
        self._count(graph)
        self.uses.update(port.name for port in graph.output)
        try:
            yield
        finally:
            self.graph, self.region = around

    @cached_property
    def weighing(self) -> Counter[str]:
        """How often products read tensors of the main graph."""
        nodes = self.source.proto.graph.node
        return Counter(name for node in nodes if node.op_type in PRODUCTS for name in node.input)

    @cached_property
    def transposed(self) -> Counter[str]:
        """How often Transposes read tensors of the main graph, themselves or behind a Gather that they alone read."""
        found = Counter[str]()
        for node in reversed(self.source.proto.graph.node):
            alone = node.op_type == "Gather" and found[node.output[0]] == self.uses[node.output[0]] > 0
            if node.op_type == "Transpose" or alone:
                found[node.input[0]] += 1
        return found

    def forget(self, start: int) -> None:
        """Take back the nodes from one on."""
        self.made = {key: name for key, name in self.made.items() if self.producers.get(name, -1) < start}
        del self.nodes[start:]

    def _count(self, graph: GraphProto) -> None:
        """Count the readers of tensors, of those that results depend on."""
        for index in needed(graph):
            node = graph.node[index]
            self.uses.update(node.input)
            self.uses.update(captures(node))

    # -- values --------------------------------------------------------------------------------------------------

    def add(self, value: Value) -> Value:
        """Enter a value."""
        if value.data is not None:
            self.budget.keep(value.data)
        elif any(isinstance(dim, Size) for dim in value.shape):
            dims = enumerate(resolved(dim, self.equal) for dim in value.shape)
            shape = [dim if is_size(dim) else self.types.fresh(f"{value.name}_{axis}") for axis, dim in dims]
            value = replace(value, shape=tuple(shape))
        constants.elements(f"tensor '{value.name}'", value.shape)
        self.values[value.name] = value
        self.meanings.dimensions.update(dim for dim in value.shape if isinstance(dim, Size))
        return value

    def equate(self, one: Dim, other: Dim) -> None:
        """Note that two sizes are equal wherever the model runs at all, which a subgraph may never do."""
        if self.region is None and self.symbols.equate(one, other):
            self.forced = True

    def value(self, name: str) -> Value:
        """What a tensor of the file is: for floats that are stored in steps, what is stored."""
        name = self.alias.get(name, name)
        name = self.real.get(name, name)
        if name not in self.values:
            found = self.given.get(name)
            if found is not None and found.data is not None:
                return self.add(Value(name, found.dtype, found.data.shape, self._asked(name, found), found.data))
            if found is not None and found.proto is not None:
                self.unknown.append(found.proto)
                return self.add(Value(name, FOREIGN, (), data=np.zeros((), FOREIGN), foreign=b""))
            return self.declare(name)
        return self.values[name]

    def _asked(self, name: str, found: constants.Constant) -> Quant | None:
        quant = self.asked.get(name)
        return quant if quant is not None and found.dtype != "string" else None

    def is_real(self, name: str) -> bool:
        """Whether a tensor of the file holds what a stored one means."""
        return self.alias.get(name, name) in self.real

    def declare(self, name: str, shape: Sequence[Dim | None] | None = None, dtype: str = "") -> Value:
        """Enter a tensor of the file that is computed, of the shape that is known of it."""
        dtype = dtype or self.types.element(name)
        known = self.types.dims(name)
        merged = merged_shape(shape, known)
        if not dtype or merged is None:
            return self.add(Value(name, FOREIGN, (), foreign=self.types.raw(name)))
        dims = tuple(self.types.fresh(f"{name}_{axis}") if dim is None else dim for axis, dim in enumerate(merged))
        self.types.note(dims)
        return self.add(Value(name, dtype, dims, self.asked.get(name)))

    def constant(self, data: Array, near: str, dtype: str = "", quant: Quant | None = None) -> Value:
        """A new constant, named after a tensor."""
        return self.add(Value(self.names.unique(near), dtype or str(data.dtype), data.shape, quant, data))

    def sizes(self, dims: Sequence[Dim], near: str) -> str:
        """The name of a vector of sizes."""
        key = tuple(dims)
        made = self._made(key)
        if not made:
            numbers = [dim for dim in dims if isinstance(dim, int)]
            made = self.names.derived(near, "sizes")
            if len(numbers) == len(key):
                self.add(Value(made, "int64", (len(key),), None, np.array(numbers, np.int64)))
            else:
                self.add(Value(made, "int64", (len(key),)))
                self.emit(Node("Sizes", (), (made,), {"dims": key}))
            self.made[self.region, key] = made
        return made

    def _made(self, key: object) -> str:
        """What was written once, here or around; '' where that is to be done yet."""
        region = self.region
        while region is not None and (region, key) not in self.made:
            region = region.parent
        return self.made.get((region, key), "")

    def plain(self, name: str, origin: Origin | None = None) -> str:
        """The value that a tensor of the file is, as the numbers that the file's operators see."""
        resolved = self.alias.get(name, name)
        value = self.value(resolved)
        real = resolved in self.real
        if value.quant is None:
            return value.name
        own = self._made(resolved)
        if not own:
            own = self.made[self.region, resolved] = self.names.derived(resolved, "real" if real else "plain")
            dtype = "float32" if real else value.dtype
            if not real and value.data is not None:
                self.add(Value(own, dtype, value.shape, None, value.data))
            else:
                self.add(Value(own, dtype, value.shape))
                self.emit(Node("Identity", (value.name,), (own,), {}, origin, not real))
        return own

    def told(self, names: Sequence[str]) -> tuple[dict[str, Known], dict[str, bytes]]:
        """Types and sizes of tensors of the file, of those where these are known, and the content of small constants,
        as inference is given them.
        """
        values = {name: self.value(name) for name in names}
        known = {name: value for name, value in values.items() if value.foreign is None}
        kinds: dict[str, Known] = {
            name: ("float32" if self.is_real(name) else value.dtype, value.shape) for name, value in known.items()
        }
        small = {
            name: _small(value, name)
            for name, value in known.items()
            if value.data is not None and value.quant is None and value.data.nbytes <= constants.SMALL
        }
        return kinds, small

    def emit(self, node: Node) -> None:
        """Write a node where the draft has come to."""
        self.budget.enter(1)
        for name in node.outputs:
            self.producers[name] = len(self.nodes)
        self.nodes.append(node if self.region is None else replace(node, region=self.region))


def merged_shape(one: Sequence[Dim | None] | None, other: Sequence[Dim | None] | None) -> list[Dim | None] | None:
    """What is known of a shape from two sides: numbers first, then names."""
    if one is None or other is None or len(one) != len(other):
        found = one if one is not None else other
        return None if found is None else list(found)
    return [right if isinstance(right, int) or left is None else left for left, right in zip(one, other, strict=True)]


def _small(value: Value, name: str) -> bytes:
    """A constant as ONNX's inference is given it, without its elements where these are no sizes."""
    proto = TensorProto(
        name=name, data_type=TYPES[value.dtype], dims=[dim for dim in value.shape if isinstance(dim, int)]
    )
    if value.data is not None and value.data.dtype != object and value.dtype not in PACKED:
        proto.raw_data = np.ascontiguousarray(value.data).tobytes()
    return bytes(proto.SerializeToString())
