"""S8 to U8: int8 activations stored as uint8, with zero points that are 128 higher, or the other way round.

ONNX Runtime's kernels for x86 multiply activations without a sign by weights with one. It makes such a model of others
by itself, but where a clamp, a view or another operator lies between two kernels it does not, and the operators around
it are left to floats. Weights keep their sign, and so do the ends of a graph, its states, and what operators look at
as integers; where a kernel meets those, numbers are stored anew, which changes none of them.

LiteRT's kernels multiply signed by signed: only those have weights with steps for each channel. Models
some of whose products want such get signs, and so do those some of whose activations have one, or go into operators
that have kernels for these alone: no kernel reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from layoutsolve.base.disjoint_sets import Classes
from layoutsolve.ir.graph import CONTROL, Array, Graph, Node, Quant, Region, Value
from layoutsolve.ir.names import Names

KERNELS = frozenset(
    (
        "Add", "AveragePool", "Concat", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool", "LeakyRelu", "MatMul",
        "Mul", "ReduceMean", "Sigmoid", "Softmax", "Where",
    )
)  # fmt: skip
"""The operators that ONNX Runtime has kernels for which compute on bytes; all of their operands have one type."""

WEIGHED: Mapping[str, int] = dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), 1)
"""Of operators with weights, the number of the input that may be weights, which have a type of their own."""

MOVING = frozenset(
    (
        "Clip", "Concat", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Max",
        "MaxPool", "Min", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "ReverseSequence", "Slice",
        "SpaceToDepth", "Split", "Tile", "Transpose", "Where",
    )
)  # fmt: skip
"""The operators on stored integers that give the same ones, 128 higher, where all that they are given is."""

WANTING = frozenset(("Abs", "Elu", "Exp", "Gelu", "Neg", "Sqrt", "Sub"))
"""The operators that LiteRT's kernels compute on bytes with a sign alone; a Sqrt as a part of an inverse root, a Sub of
a squared difference.
"""

LASTING = frozenset(("Carry", "State"))
"""The operators whose values go from turn to turn, or from run to run. Kernels around them would store theirs anew each
time; such a network is left as it is.
"""

FILLED = 3
"""The inputs of a Pad that says what it fills in."""

HALF = 128
"""What every stored integer is higher by."""

LIFTED = 1 - 2.0**-16
"""Steps from here to 1, without a zero point, round halves away from zero. A kernel that averages would lose that
beside another zero point.
"""

SMALLEST, LARGEST = 1e-30, 1e30
"""Steps between which a float32 holds every stored integer times the step, to be stored anew."""


def stored(graph: Graph) -> Graph:
    """The same graph with activations of 8 bits stored unsigned where kernels compute on them."""
    return _Unsigned(graph).result()


def signed(graph: Graph) -> Graph:
    """The same graph with uint8 activations stored as int8 where anything in it wants that."""
    return _Signed(graph).result()


class _Unsigned:
    """The ``classes`` of values that operators on stored integers give one type to, the ``networks`` that kernels make
    of them, and what becomes of each: those of one type are stored as another one, ``by`` so much higher.
    """

    source, target, by = "int8", "uint8", HALF

    def __init__(self, graph: Graph) -> None:
        self.graph, self.values = graph, dict(graph.values)
        self.taken = Names(graph.values)
        self.classes, self.networks = Classes[str](), Classes[str]()
        self.copies: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.read: dict[tuple[str, Region | None], str] = {}
        kept, used, lasting = set[str](), set[str](), set[str]()
        for node in graph.nodes:
            stored_bytes = [name for name in (*node.inputs, *node.outputs) if name and self._is_byte(name)]
            if self._stores(node):
                self.classes.join(stored_bytes)
                self.networks.join(stored_bytes)
                if node.op not in MOVING or node.domain or (node.op == "Pad" and len(node.inputs) < FILLED):
                    (lasting if node.op in LASTING else kept).update(stored_bytes)
            elif self._computes(node):
                used.update(stored_bytes)
                self.networks.join([name for name in stored_bytes if graph.values[name].data is None])
        kept.update({*graph.inputs} & {*graph.outputs})
        averages = [node.outputs[0] for node in graph.nodes if node.op == "AveragePool"]
        kept.update(name for name in averages if self._is_byte(name) and _lifted(graph.values[name].quant))
        computed = (name for name, value in graph.values.items() if value.data is None and value.dtype == self.source)
        kept.update(name for name in computed if not self._may_change(name))
        recurrent = set(map(self.networks.root, lasting))
        kept.update(name for name in used if self.networks.root(name) in recurrent)
        self.changing = set(map(self.classes.root, self._wanted(used))) - set(map(self.classes.root, kept))

    def _computes(self, node: Node) -> bool:
        """Whether a node has operands of one type."""
        return node.op in KERNELS

    def _wanted(self, used: set[str]) -> set[str]:
        """Those of the values that are computed with that are to be stored as the other type."""
        return used

    def _stores(self, node: Node) -> bool:
        """Whether a node computes on what is stored."""
        return node.storage

    def _may_change(self, name: str) -> bool:
        """Whether nothing would see that a value is stored otherwise."""
        return self._is_activation(name)

    def _is_byte(self, name: str) -> bool:
        return self.graph.values[name].dtype == self.source

    def _is_activation(self, name: str) -> bool:
        """Whether a value is computed, or given, in steps of one size."""
        value = self.graph.values[name]
        quant = value.quant if value.dtype == self.source and value.data is None else None
        if quant is None or quant.axis is not None:
            return False
        return SMALLEST < float(quant.scale.max()) < LARGEST

    def _changes(self, name: str) -> bool:
        """Whether a value is stored as the other type, or what takes its place where it is an end of the graph."""
        return self._is_byte(name) and self.graph.values[name].data is None and self.classes.root(name) in self.changing

    def result(self) -> Graph:
        if not self.changing:
            return self.graph
        ends = {*self.graph.inputs, *self.graph.outputs}
        for name, value in self.graph.values.items():
            if self._changes(name):
                if name in ends:
                    self.copies[name] = self._new(self._raised(value), name)
                else:
                    self.values[name] = self._raised(value)
        nodes = [self._anew(name, self.copies[name]) for name in self.graph.inputs if name in self.copies]
        for node in self.graph.nodes:
            nodes += self._node(node)
        outputs = dict.fromkeys(self.graph.outputs)
        nodes += [self._anew(self.copies[name], name) for name in outputs if name in self.copies]
        return replace(self.graph, values=self.values, nodes=tuple(nodes))

    def _node(self, node: Node) -> Iterator[Node]:
        """A node with its operands in one type, and what stores anew what it reads and writes."""
        changed = any(self._changes(name) for name in (*node.inputs, *node.outputs) if name)
        if not changed or not (self._stores(node) or self._computes(node)):
            yield replace(node, inputs=self._renamed(node.inputs), outputs=self._renamed(node.outputs))
            return
        before, after = list[Node](), list[Node]()
        inputs = [self._operand(node, port, name, before) for port, name in enumerate(node.inputs)]
        outputs = [self._result(node, name, after) for name in node.outputs]
        yield from before
        yield replace(node, inputs=tuple(inputs), outputs=tuple(outputs))
        yield from after

    def _operand(self, node: Node, port: int, name: str, before: list[Node]) -> str:
        """What a node reads in place of a value; what stores that anew goes before it."""
        if not self._stays(name):
            return self.copies.get(name, name)
        if self.graph.values[name].data is not None:
            weights = port <= WEIGHED.get(node.op, -1) and not node.storage  # on either side of a product
            return self._weights(name) if weights else self._constant(name)
        if not self._is_activation(name):
            return name
        place = name, node.region
        if place not in self.read:
            self.read[place] = self._new(self._raised(self.graph.values[name]), name)
            before.append(self._anew(name, self.read[place], node))
        return self.read[place]

    def _result(self, node: Node, name: str, after: list[Node]) -> str:
        """What a node writes in place of a value; what stores that anew goes behind it."""
        if not self._stays(name) or not self._is_activation(name):
            return self.copies.get(name, name)
        made = self._new(self._raised(self.graph.values[name]), name)
        after.append(self._anew(made, name, node))
        return made

    def _stays(self, name: str) -> bool:
        """Whether a value of bytes keeps its type."""
        return bool(name) and self._is_byte(name) and not self._changes(name)

    def _renamed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.copies.get(name, name) for name in names)

    def _weights(self, name: str) -> str:
        """Weights, which keep their sign."""
        return name

    def _constant(self, name: str) -> str:
        """A constant whose stored integers are 128 higher; one of several steps stays as it is."""
        value = self.graph.values[name]
        return name if value.quant is not None and value.quant.axis is not None else self._raised_once(name)

    def _raised_once(self, name: str) -> str:
        if name not in self.written:
            self.written[name] = self._new(self._raised(self.graph.values[name]), name)
        return self.written[name]

    def _raised(self, value: Value) -> Value:
        """A value of the one type as one of the other."""
        quant, data = value.quant, value.data
        if quant is not None:
            one = quant.zero_point.size == 1
            zero = _zero(int(quant.zero_point[0]), self.by, self.target) if one else self._higher(quant.zero_point)
            quant = Quant(quant.scale, zero, quant.axis, quant.block)
        return replace(value, dtype=self.target, quant=quant, data=None if data is None else self._higher(data))

    def _higher(self, numbers: Array) -> Array:
        return shifted(numbers, self.by, self.target)

    def _new(self, value: Value, name: str) -> str:
        unique = self.taken.derived(name, "unsigned")
        self.values[unique] = replace(value, name=unique)
        return unique

    @staticmethod
    def _anew(source: str, target: str, beside: Node | None = None) -> Node:
        """Store a value with other parameters, ``beside`` a node."""
        node = Node("Identity", (source,), (target,))
        return node if beside is None else replace(node, region=beside.region, origin=beside.origin)


def _lifted(quant: Quant | None) -> bool:
    """Whether halves are rounded away from zero by less than a zero point leaves of it."""
    return quant is not None and not quant.zero_point.any() and LIFTED < float(quant.scale.max()) < 1


@lru_cache(maxsize=256)
def _zero(number: int, by: int, dtype: str) -> Array:
    """A zero point that is higher, in one place of memory, so that it is written once."""
    return shifted(np.array([number], np.int16), by, dtype)


def shifted(numbers: Array, by: int, dtype: str) -> Array:
    """Stored integers of 8 bits with ``by`` added, in another type that holds them."""
    return np.asarray(numbers.astype(np.int16) + by, dtype)  # of no dimensions the sum is no array


class _Signed(_Unsigned):
    """The other way round: of graphs with operators that bytes without a sign have no kernel for."""

    source, target, by = "uint8", "int8", -HALF

    def _stores(self, node: Node) -> bool:
        bytes_only = (self.graph.values[name] for name in (*node.inputs, *node.outputs) if name and self._is_byte(name))
        return node.storage or (
            node.op in MOVING and not node.domain and all(each.quant is None for each in bytes_only)
        )

    @cached_property
    def _seen(self) -> frozenset[str]:
        """What others than operators that move stored integers read or write."""
        nodes = (node for node in self.graph.nodes if not self._stores(node))
        names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
        return frozenset(names.union(self.graph.inputs, self.graph.outputs))

    def _may_change(self, name: str) -> bool:
        return self._is_activation(name) or (self.graph.values[name].quant is None and name not in self._seen)

    def _computes(self, node: Node) -> bool:
        return node.op not in CONTROL and node.op != "Identity"

    def _wanted(self, used: set[str]) -> set[str]:
        nodes = [node for node in self.graph.nodes if not (node.storage or node.domain)]
        products = any(self._wants(node) for node in nodes if node.op in WEIGHED)
        inner = any(self._is_with_sign(node) for node in nodes if node.op in WANTING)
        outer = any(self._is_signed(value) for value in self.graph.values.values())
        return used if products or inner or outer else set()

    def _is_signed(self, value: Value) -> bool:
        """Whether a value is computed, or given, in steps that have a sign."""
        stored_so = value.dtype == self.target and value.data is None
        return stored_so and value.quant is not None and value.quant.axis is None

    def _is_with_sign(self, node: Node) -> bool:
        """Whether LiteRT has a kernel for a node, or for what it is a part of, on bytes with a sign alone."""
        whole = node.op != "Sub" or self.graph.values[node.outputs[0]].quant is None
        return whole and self._is_activation(node.inputs[0])

    def _wants(self, node: Node) -> bool:
        """Whether a product of bytes has weights with steps for each channel, or computed ones."""
        one, other = (self.graph.values[name] for name in node.inputs[:2])
        data, weights = (other, one) if one.data is not None and node.op in ("Gemm", "MatMul") else (one, other)
        if not self._is_activation(data.name):
            return False
        if weights.data is None or weights.quant is None:
            return self._is_activation(weights.name)
        middle = 0 if weights.dtype == self.target else HALF
        return (
            weights.quant.axis is not None
            and not weights.quant.block
            and bool((weights.quant.zero_point == middle).all())
        )

    def _has_middle(self, weights: Value) -> bool:
        """Whether bytes without a sign mean 0 where those with one do."""
        quant = weights.quant
        return weights.dtype == self.source and quant is not None and bool((quant.zero_point == HALF).all())

    def _weights(self, name: str) -> str:
        """Weights with a sign, where kernels have them: around 0."""
        return self._raised_once(name) if self._has_middle(self.graph.values[name]) else name
