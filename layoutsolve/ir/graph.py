"""The reference graph: what the frontend writes, the solver reads and the emitter rewrites.

It is ONNX in everything but its serialisation: nodes carry ONNX operator names, inputs and attributes of opset 18 or
later, and could be written to a file one by one. Four things differ, each to keep a later stage simple:

* **Views.** ``Transpose`` and ``Reshape`` state how the axes of two tensors correspond. A layout-sensitive operator is
  written ``Transpose -> Conv -> Transpose``; the solver decides whether any data moves. ``Squeeze``, ``Unsqueeze`` and
  ``Flatten`` do not occur: they are written as ``Reshape``.
* **Quantization is an annotation on values**, not nodes. A value with ``quant`` is *stored* as integers of ``dtype``
  and
  *means* ``(stored - zero_point) * scale``. A node computes on real numbers, unless ``storage`` is set: then it moves
  stored integers and never looks at their meaning.
* **Sizes may be symbolic**: a dimension is an ``int`` or a :class:`Size`, a product of a number and symbols. Where a
  node needs sizes as numbers, a node ``Sizes`` without inputs gives them as a vector of its attribute ``dims``. Which
  tensors these are read from, and how they are computed, is decided when all layouts are known.
* **Control flow is flat**: the nodes of branches and loops lie among all others and say in which :class:`Region` they
  are. Five operators that ONNX does not have tie regions together: ``If(condition)`` and ``Loop(first condition, next
  condition)`` open the regions that they name. ``Join(then, else) -> result`` is one output of an If, ``Carry(initial,
  next) -> (now, last)`` one value that a Loop hands from turn to turn. ``State(initial, next) -> now`` is a value that
  lives from one run of the model to the next: an input, the output that replaces it, and what it is at first (left out
  where that is for the user to say).

Everything is immutable. Order of nodes is an order of execution, but for what :data:`LATE` lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.functions import Function
from layoutsolve.ir.symbolic_sizes import Formula

Array = npt.NDArray[Any]


@dataclass(frozen=True, order=True, slots=True)
class Size:
    """A symbolic size: ``coefficient`` times the product of ``symbols`` (sorted, with repetition, never empty)."""

    coefficient: int
    symbols: tuple[str, ...]

    def __str__(self) -> str:
        names = "*".join(self.symbols)
        return names if self.coefficient == 1 else f"{self.coefficient}*{names}"


Dim = int | Size
Shape = tuple[Dim, ...]

BYTES = ("int8", "uint8")
"""Types of one byte that most quantized numbers are of."""

NOTHING = "nothing"
"""The type of tensors that stand for something that is no data."""

PACKED = ("int4", "uint4")
"""Types of which two elements share a byte."""


def symbol(name: str) -> Size:
    """The size of a dimension known only by name."""
    return Size(1, (name,))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    coefficient = 1
    symbols: list[str] = []
    for dim in dims:
        if isinstance(dim, Size):
            coefficient *= dim.coefficient
            symbols.extend(dim.symbols)
        else:
            coefficient *= dim
    return Size(coefficient, tuple(sorted(symbols))) if symbols and coefficient else coefficient


def quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """``dividend / divisor`` where it is a size, else None."""
    top = dividend if isinstance(dividend, Size) else Size(dividend, ())
    bottom = divisor if isinstance(divisor, Size) else Size(divisor, ())
    if bottom.coefficient == 0 or top.coefficient % bottom.coefficient:
        return None
    rest = list(top.symbols)
    for name in bottom.symbols:
        if name not in rest:
            return None
        rest.remove(name)
    coefficient = top.coefficient // bottom.coefficient
    return Size(coefficient, tuple(rest)) if rest else coefficient


@dataclass(frozen=True, eq=False, slots=True)
class Quant:
    """Affine quantization: real = (stored - zero_point) * scale.

    ``scale`` (float32) and ``zero_point`` (the stored dtype, or int32) are 1-D: one element, or one per index of
    ``axis``. With a ``block`` they have the tensor's rank instead, and along ``axis`` one element per ``block`` of its.
    """

    scale: Array
    zero_point: Array
    axis: int | None = None
    block: int = 0

    def matches(self, other: Quant | None) -> bool:
        """Whether both give every stored integer the same meaning."""
        return (
            other is not None
            and (self.axis, self.block) == (other.axis, other.block)
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def real(self, data: Array) -> Array:
        """What stored integers mean, in float32."""
        scale, zero = (self.spread(each, data.ndim) for each in (self.scale, self.zero_point.astype(np.int32)))
        return np.asarray((data.astype(np.int32) - zero).astype(np.float32) * scale)

    def spread(self, parameter: Array, rank: int) -> Array:
        """One of the parameters in a shape that broadcasts to that of the tensor, which has so many dimensions: with an
        axis as many, else none.
        """
        if self.axis is None:
            return parameter.reshape(())
        if self.block:
            return np.repeat(parameter, self.block, self.axis)
        return parameter.reshape([1] * self.axis + [-1] + [1] * (rank - 1 - self.axis))


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor: ``dtype`` is the numpy name of what is stored ('float32', 'int8', 'bool', 'int64', 'string', ...).

    ``data`` holds a constant (already in the shape ``shape``; it may be a view of the model file), else it is None.
    ``foreign`` is what the source says of a value that is no tensor, or one of unknown rank: a type of ONNX as bytes,
    empty where it says nothing. Such a value has no dimensions here, and only opaque operators touch it.
    """

    name: str
    dtype: str
    shape: Shape
    quant: Quant | None = None
    data: Array | None = None
    foreign: bytes | None = None

    def __str__(self) -> str:
        return f"'{self.name}' of {self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def constant(self) -> Array:
        """The data of what is a constant. Raises TypeError where it is none."""
        if self.data is None:
            raise TypeError(f"'{self.name}' is no constant")
        return self.data

    @property
    def steps(self) -> Quant:
        """The quantization of what is quantized. Raises TypeError where it is not."""
        if self.quant is None:
            raise TypeError(f"'{self.name}' is not quantized")
        return self.quant

    @property
    def real(self) -> Array:
        """What a constant means: floats where it is quantized. Raises TypeError for what is none."""
        return self.constant if self.quant is None else self.quant.real(self.constant)

    @property
    def in_bytes(self) -> bool:
        """Whether it is stored as bytes, in steps of one size."""
        return self.dtype in BYTES and self.quant is not None and self.quant.axis is None

    @property
    def in_floats(self) -> bool:
        """Whether it is stored as the floats that it means, of 32 bits."""
        return self.dtype == "float32" and self.quant is None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the source model a node comes from: subgraph, operator index and name, as errors and explanations show
    it. ``name`` is what the source calls this very node, if it names nodes.
    """

    subgraph: int
    index: int
    operator: str
    name: str = ""

    def __str__(self) -> str:
        return (
            f"{self.operator}#{self.index}" if self.subgraph == 0 else f"{self.operator}#{self.subgraph}.{self.index}"
        )


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the graph that runs on a condition, or repeatedly: a branch of an If or the body of a Loop or Scan.

    ``role`` is the name that ONNX has for it: 'then_branch', 'else_branch', 'body'. ``parent`` is the region in which
    the operator itself stands that opens it, None for the main graph.
    """

    role: str
    parent: Region | None = None


OPENING = frozenset(("If", "Loop", "Scan"))
"""The operators that open regions."""

CONTROL = OPENING | frozenset(("Carry", "Element", "Join", "Stack", "State", "Turn"))
"""The operators that tie regions together: see :mod:`layoutsolve.emit.subgraphs`."""

CAPTURES = "captures"
"""The attribute that names what the graphs within a node read from around it."""

INSIDE: Mapping[str, int] = {"Carry": 1, "Element": 1, "Turn": 2}
"""By operator, how many of its outputs, the first ones, are values of the region that it belongs to."""

LOWERINGS = "layoutsolve.lowerings"
"""The metadata that name the file of each lowering of a user's."""

LAYOUT = "layoutsolve.layout."
"""What an entry of a model's metadata begins with that has the permutation of an input or output."""

STATE = "layoutsolve.state."
"""What an entry of a model's metadata begins with that tells by a state's input the output that replaces it."""

KEPT = "given:"
"""What the names of operators of a source in ONNX begin with that stay as they are, and are not what they are called
here: those with graphs in them are none of :data:`CONTROL`, and a Reshape whose sizes are not known is no view.
"""

LATE: Mapping[str, int] = {"Carry": 1, "Loop": 1, "State": 1}
"""By operator, the number of the input that is computed only after it: it comes from the end of a turn or run."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One ONNX operator. ``inputs`` and ``outputs`` are value names, '' for an input left out before others.

    ``attributes`` hold int, float, str, tuples of int or float, or numpy arrays. A dtype attribute (``to`` of Cast)
    is a numpy name. ``storage`` means the node moves stored integers of quantized values. ``pattern`` marks the
    Transposes that the frontend wrote around a layout-sensitive operator, to tell them from those of the source
    model. ``given`` is a node of a source in ONNX, which can always be written as it stands, with attributes that
    may be as they are in the file; the last of its inputs, as many as :data:`CAPTURES` names, are read by
    graphs within it under those names. ``domain`` is '' for ONNX's own operators. ``region`` is where the node
    runs, None for the main graph; ``regions`` are those that it opens, or that it ties to what is around them.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    storage: bool = False
    pattern: bool = False
    domain: str = ""
    region: Region | None = None
    regions: tuple[Region, ...] = ()
    given: bool = False


def without_omitted(inputs: Sequence[str]) -> tuple[str, ...]:
    """The inputs or outputs of a node without those at the end that are left out."""
    count = len(inputs)
    while count and not inputs[count - 1]:
        count -= 1
    return tuple(inputs[:count])


@dataclass(frozen=True, eq=False)
class Graph:
    """A whole model. ``values`` has an entry for every name that ``nodes``, ``inputs`` and ``outputs`` use.

    ``names`` maps a graph input or output to the name users see (its name in the signature); absent means its own.
    ``metadata`` is written to the model's metadata. ``formulas`` tell what symbols mean that are derived from others.
    ``imports`` are the operator sets that a source in ONNX is written in, by domain; empty for others. ``defaults`` are
    what its inputs are where nothing is given for them, ``told`` what it says of itself and its nodes, as a model in
    ONNX that has no more than that, but for constants that are foreign. ``figures`` are those of the
    source, of an ONNX one as :mod:`layoutsolve.proto.data_movement` counts them. ``functions`` are what nodes of the
    domain :data:`PLAN` call, by name. ``dropped`` are inputs of the source that are constants, as they are initializers
    as well. With ``halves`` the source has weights of float16, and so are constants of
    float32 written that are no more than that. ``axes`` are by tensor what its source calls sizes there, by symbol,
    where that is not the symbol's name.
    """

    name: str
    values: Mapping[str, Value]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    imports: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    told: bytes = b""
    figures: Figures = Figures()
    functions: Mapping[str, Function] = field(default_factory=dict)
    halves: bool = False
    dropped: tuple[str, ...] = ()
    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def producers(self) -> dict[str, int]:
        """The index of the node that produces each value."""
        return {output: index for index, node in enumerate(self.nodes) for output in node.outputs}

    def producer(self, name: str) -> Node | None:
        """The node that produces a value, None for what none does."""
        index = self.producers.get(name)
        return None if index is None else self.nodes[index]

    @cached_property
    def reads(self) -> Counter[str]:
        """How often nodes read each value."""
        return Counter(name for node in self.nodes for name in node.inputs)

    @cached_property
    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each value."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def openers(self) -> dict[Region, Node]:
        """The node that opens each subgraph, by subgraph."""
        return {region: node for node in self.nodes if node.op in OPENING for region in node.regions}

    @cached_property
    def results(self) -> frozenset[str]:
        """The names of the outputs."""
        return frozenset(self.outputs)

    def region(self, name: str) -> Region | None:
        """Where a value comes to be."""
        node = self.producer(name)
        if node is None:
            return None
        return node.regions[0] if name in node.outputs[: INSIDE.get(node.op, 0)] else node.region

    def constant(self, name: str) -> Array | None:
        """The data of a constant input, None where it is computed or left out."""
        return self.values[name].data if name else None


def static_elements(shape: Shape) -> int:
    """The number of elements, symbolic dimensions counted as 1."""
    return prod(dim.coefficient if isinstance(dim, Size) else dim for dim in shape)


def reshape_entries(before: Shape, after: Shape) -> list[int] | None:
    """What Reshape is given to get from one shape to another: numbers, -1 for a single size known by name, 0 for those
    that stay in place beside it. None where that is not enough, so that the sizes have to be computed.
    """
    entries = [-1 if isinstance(dim, Size) else dim for dim in after]
    if 0 in after:
        return None if -1 in entries else entries
    if entries.count(-1) > 1:
        entries = [
            0 if entry == -1 and axis < len(before) and before[axis] == after[axis] else entry
            for axis, entry in enumerate(entries)
        ]
    return None if entries.count(-1) > 1 else entries
