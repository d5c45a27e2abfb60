"""Rules: what the layouts of an operator's tensors have to do with each other, and how it is written in other layouts.

A rule is stated once per ONNX operator, as one function registered with :func:`rule`. It labels the dimensions of the
operator's tensors, lists the ways in which the operator can run: each has a form
(:mod:`layoutsolve.solver.theory.relation`), a kind (:mod:`layoutsolve.solver.theory.kind`) and its own rewrite. An
operator without a rule is opaque: all its tensors keep their logical layout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from string import ascii_uppercase
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.functions import Function
from layoutsolve.ir.graph import Array, Dim, Graph, Node, Quant, Shape, Size, Value
from layoutsolve.solver.theory.kind import Kind
from layoutsolve.solver.theory.relation import Form
from layoutsolve.solver.theory.row import Row

Dims = tuple[tuple[str, ...], ...]
"""The labels of a tensor's dimensions: a dimension of several labels is their product, one of none has size 1.

A label may carry a variant after a colon: ``k:0`` and ``k:1`` are the same slot of different sizes, as the operands
of a concatenation are along its axis. A slot with variants keeps its factors together. Where one tensor has several
variants of a label, one after the other, the slot is all of those dimensions.
"""


@dataclass(frozen=True, slots=True)
class Between:
    """A tensor that one step writes and others read by its ``name``: numbers of ``dtype``, as they are stored in the
    chosen row, and what they mean where they are quantized.
    """

    name: str
    dtype: str
    shape: Shape
    quant: Quant | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """A constant input of the node, by its number, as the chosen alternative stores it, with other elements: ``how``
    makes them of those.
    """

    number: int
    how: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator to write, of ``domain``. An input is a number (that input of the node), an array, a value with data
    or a changed input (a new constant), or the name of a tensor between steps; an output is a number (that output of
    the node) or such a tensor. '' is one left out. With ``storage`` it works on what is stored, in a node that does
    not. One of the domain ``PLAN`` calls a ``function``.
    """

    op: str
    inputs: tuple[int | str | Array | Value | Changed, ...]
    outputs: tuple[int | str | Between, ...] = (0,)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    storage: bool = False
    function: Function | None = None


Rewrite = Callable[[Row, tuple[Shape, ...]], tuple[Step, ...]]
"""From a row and the stored shapes of all ports to the operators that compute the node in that row.

No step at all means that the output is the input, unchanged.
"""


Idiom = Callable[[Row, tuple[Shape, ...], Rewrite], tuple[Step, ...] | None]
"""Another way to write a node in a row, given the one of the row itself; None where it does not fit."""


@dataclass(frozen=True, slots=True)
class Way:
    """One alternative of an operator: the form of its layouts, how the operator is then written, and its kind.

    A way stands by itself: no other way has to know of it. ``sizes`` are numbers by name that a target may have
    thresholds for. ``factors`` are labels of the rule that this way alone needs as products: for each the labels that
    it consists of, with their sizes. Where a neighbour factors it in another way, this way is not available. ``loose``
    are labels that are solid for other ways, but whose factors this one tells apart; where they have none, there is no
    such way. One that is ``swapped`` reads its first two inputs the other way round. ``texts`` are the letters of each
    port as the way stores it, where it is of a table; ``backend`` is what runs it there, '' for what runs everything
    else.
    """

    form: Form
    rewrite: Rewrite
    kind: Kind = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, Dim]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    backend: str = ""
    loose: frozenset[str] = frozenset()
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A node's relation between layouts.

    ``inputs`` are the numbers of the node's inputs that are ports; outputs always are. ``dims`` labels each port's
    dimensions, ``sizes`` gives the sizes of labels that share a dimension. ``ways`` are the alternatives, whose number
    a row has as its ``form``; the first one is demanded by the operator itself, the others are for its neighbours to
    ask for. ``solid`` labels keep their factors together in order. The first of the ``idioms`` that fits a row is
    written in place of its way. ``letters`` name the dimensions of each port, where these are a format that others may
    have in another order (:mod:`layoutsolve.solver.theory.letters`). A ``closed`` rule has no other ways than these,
    where one is not available either; where none is, the node has the rule ``otherwise``, if there is one. A node of
    which nothing is known is ``kept`` in its own layout. Where the graph splits a label among the ``cuts`` there are
    more ways, which the rule has when it is asked again with these.
    """

    inputs: tuple[int, ...]
    dims: tuple[Dims, ...]
    ways: tuple[Way, ...]
    sizes: Mapping[str, Dim] = field(default_factory=dict)
    solid: frozenset[str] = frozenset()
    idioms: tuple[Idiom, ...] = ()
    letters: tuple[str, ...] = ()
    closed: bool = False
    otherwise: Rule | None = None
    kept: bool = False
    cuts: frozenset[str] = frozenset()

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of all ways."""
        return tuple(way.form for way in self.ways)

    def rewrite(self, row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        """The operators that compute the node in a row, given the stored shapes of all ports."""
        plain = self.ways[row.form].rewrite
        found = (steps for idiom in self.idioms if (steps := idiom(row, shapes, plain)) is not None)
        return next(found, None) or plain(row, shapes)

    @property
    def composite(self) -> bool:
        """Whether some dimension is a product of labels, so that the rule needs tensors to be factored in its own
        way.
        """
        return any(len(labels) > 1 for dims in self.dims for labels in dims)


@dataclass(frozen=True, slots=True)
class Site:
    """A node with the values it reads and writes; ``tails`` gives for a dimension the size of its trailing factor.

    ``entangled`` are numbers of blocks of a Reshape (:func:`layoutsolve.solver.theory.factor.blocks`) whose two sides
    have no common factors. ``cuts`` are the sizes of the factors that the graph splits labels into, of those
    that a rule has among its ``cuts``.

    A rule may state that an operation along a dimension leaves its trailing factor alone. Which factor that should be
    is seen only when everything else is factored; then the rule is asked again with ``tails``.
    """

    graph: Graph
    node: Node
    tails: Mapping[str, int] = field(default_factory=dict)
    entangled: frozenset[int] = frozenset()
    cuts: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)

    def input(self, number: int) -> Value | None:
        """An input, None where it is left out."""
        inputs = self.node.inputs
        return self.graph.values[inputs[number]] if number < len(inputs) and inputs[number] else None

    def required(self, number: int) -> Value:
        """An input that the operator always has."""
        return self.graph.values[self.node.inputs[number]]

    def output(self, number: int = 0) -> Value:
        """An output."""
        return self.graph.values[self.node.outputs[number]]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.node.attributes.get(name, default)

    def axes(self, axes: Any, rank: int) -> list[int]:
        """Axes that an attribute names, counted from the front. Raises TypeError where they are no integers."""
        if not all(isinstance(axis, int) for axis in axes):
            raise TypeError(f"{axes!r:.80} are no axes")
        return [axis % rank for axis in axes]

    def axis(self, default: int, rank: int) -> int:
        """The axis that the node names, counted from the front. Raises TypeError where it is no integer."""
        return self.axes([self.attribute("axis", default)], rank)[0]

    def constant(self, number: int) -> Array | None:
        """The data of an input, None where it is computed or left out."""
        value = self.input(number)
        return None if value is None else value.data

    def integers(self, number: int) -> tuple[int, ...] | None:
        """A constant vector of integers."""
        data = self.constant(number)
        return None if data is None else tuple(int(item) for item in np.asarray(data).reshape(-1))

    def changeable(self, number: int) -> bool:
        """Whether the elements of an input may be changed where it is stored: it is a constant and not quantized."""
        value = self.input(number)
        return value is not None and value.data is not None and value.quant is None

    def dims(self, number: int) -> tuple[Dim, ...] | None:
        """A vector of integers or sizes that is constant or computed from nothing but sizes."""
        value = self.input(number)
        if value is None or value.data is not None:
            return self.integers(number)
        node = self.graph.producer(value.name)
        return tuple(node.attributes["dims"]) if node is not None and node.op == "Sizes" else None

    @property
    def real(self) -> str:
        """The type of the floats that the first output has or means."""
        value = self.output()
        return value.dtype if value.quant is None else "float32"

    @property
    def floating(self) -> bool:
        """Whether no tensor of the node is quantized."""
        names = [name for name in (*self.node.inputs, *self.node.outputs) if name]
        return all(self.graph.values[name].quant is None for name in names)

    def unchanged(self, row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        """The rewrite of a way in which the node stays as it is."""
        return self.same()

    def same(
        self,
        attributes: Mapping[str, Any] | None = None,
        inputs: Mapping[int, int | str | Array | Value | Changed] | None = None,
    ) -> tuple[Step, ...]:
        """The node itself, with some attributes and some inputs replaced, as a step names them."""
        replaced = inputs or {}
        count = max(len(self.node.inputs), *(number + 1 for number in replaced), 0)
        present = [replaced.get(number, "" if self.input(number) is None else number) for number in range(count)]
        outputs = tuple(number if name else "" for number, name in enumerate(self.node.outputs))
        changed = {**self.node.attributes, **(attributes or {})}
        return (Step(self.node.op, tuple(present), outputs, changed, self.node.domain),)


RuleFunction = Callable[[Site], "Rule | None"]

CONTRIB = "com.microsoft"
"""The domain of operators that only ONNX Runtime has."""

RULES: dict[str, RuleFunction] = {}


def rule(*operators: str) -> Callable[[RuleFunction], RuleFunction]:
    """Register the rule of one or more ONNX operators. A rule function returns None for a node that it does not
    cover.
    """

    def register(function: RuleFunction) -> RuleFunction:
        for operator in operators:
            if operator in RULES:
                raise ValueError(f"operator {operator} has a rule already")
            RULES[operator] = function
        return function

    return register


def operator_name(node: Node) -> str:
    """The name under which an operator is registered: ``domain:Name`` where it is of another domain than ONNX's."""
    return f"{node.domain}:{node.op}" if node.domain else node.op


def image(channels: str, rank: int) -> str:
    """The letters of an image or a kernel of so many dimensions, of which two are given; '' if there are none."""
    return f"{channels}{_SPACE[rank - 3]}" if 3 <= rank < 3 + len(_SPACE) else ""


def unnamed(rank: int) -> str:
    """Letters of a port whose dimensions have no names."""
    return ascii_uppercase[:rank]


_SPACE = ("W", "HW", "DHW")
"""The letters of space."""


def numbered(shape: Shape) -> Dims:
    """A label ``d0, d1, ...`` for each dimension that is larger than 1."""
    return tuple((f"d{axis}",) if dim != 1 else () for axis, dim in enumerate(shape))


def marked(shape: Shape, axes: Collection[int], variant: str) -> Dims:
    """Numbered dimensions, but ``k0:variant`` and so on for some axes, labelled even where their size is 1."""
    return tuple((f"k{axis}:{variant}",) if axis in axes else labels for axis, labels in enumerate(numbered(shape)))


def reordered(port: int, picks: Sequence[int | None], count: int, filler: int) -> tuple[tuple[Step, ...], int | str]:
    """Steps that pick entries of a computed vector of ``count``, ``filler`` for None; then what holds the result."""
    if list(picks) == list(range(count)):
        return (), port
    steps: tuple[Step, ...] = ()
    if None in picks:
        steps = (Step("Concat", (port, int64(filler)), (integers("filled", count + 1),), {"axis": 0}),)
    where = int64(*(count if pick is None else pick for pick in picks))
    picking = Step("Gather", ("filled" if steps else port, where), (integers("picked", len(picks)),), {"axis": 0})
    return (*steps, picking), "picked"


def sizes(dims: Sequence[Dim]) -> tuple[tuple[Step, ...], str | Array]:
    """A vector of sizes: what has to be written before, and what names it."""
    numbers = [dim for dim in dims if not isinstance(dim, Size)]
    if len(numbers) == len(dims):
        return (), int64(*numbers)
    return (Step("Sizes", (), (integers("sizes", len(dims)),), {"dims": tuple(dims)}),), "sizes"


def integers(name: str, count: int) -> Between:
    """A vector of as many sizes or indices between steps."""
    return Between(name, "int64", (count,))


def static(dim: Dim) -> int:
    """A size that is known to be a number. Raises TypeError where it is not."""
    if isinstance(dim, Size):
        raise TypeError(f"size {dim} is not a number")
    return dim


def int64(*numbers: int) -> Array:
    """A constant vector of integers, as ONNX wants axes and shapes."""
    return np.array(numbers, np.int64)
