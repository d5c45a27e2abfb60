"""The parts of an ONNX model in the making: nodes by subgraph, constants, names, descriptions of tensors."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.external import External
from layoutsolve.emit.runtime_folding import among_floats
from layoutsolve.emit.tensors import fill, half_of, stored_bytes, tensor
from layoutsolve.errors import LoweringError
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import condensed, memory
from layoutsolve.ir.graph import PACKED, Array, Dim, Graph, Origin, Region, Value
from layoutsolve.ir.names import Names, short, stem
from layoutsolve.ir.saturation import computed, saturating
from layoutsolve.ir.storage_options import PLAIN, Storage
from layoutsolve.proto.messages import (
    TYPES,
    AttributeProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    attribute,
    port,
)
from layoutsolve.proto.scopes import names_in
from layoutsolve.proto.signed_products import kept

_SPREAD, _EQUAL = 1 << 10, 4
"""The most bytes of a constant of which sizes may follow, so that it is one whatever it holds, and how many equal parts
a larger one has at least that is written as an Expand of one of them.
"""

_BYTES_PER_DIMENSION = 8
"""About what a dimension takes in the description of a tensor, and the rest of it."""


class Body:
    """The graph of one subgraph in the making. ``real`` are the values that are dequantized in it or around it."""

    def __init__(self, outer: Body | None = None) -> None:
        self.nodes: list[NodeProto] = []
        self.infos: list[ValueInfoProto] = []
        self.made: set[str] = set()
        self.real: ChainMap[str, str] = outer.real.new_child() if outer else ChainMap()


@dataclass(frozen=True)
class Kernels:
    """Which operators on stored integers may be written: those of some ``domains``, '' for ONNX's own. Where runtimes'
    sums of bytes without a sign by bytes with one ``saturate``, there are none of these.
    """

    domains: frozenset[str]
    saturate: bool


@dataclass(frozen=True)
class QuantForm:
    """How quantized operators are written. ``kernels`` are those on stored integers that may be, by default none. What
    views give that are ``meant`` is written as real numbers. By ``storage`` weights of which sums may saturate are
    selected when the model is loaded, and some layers are computed in floats.
    """

    kernels: Kernels | None = None
    meant: frozenset[str] = frozenset()
    storage: Storage = PLAIN


class Selection:
    """What is selected when a model is loaded: the names of the ``real`` numbers of weights, '' while nothing reads
    them; of what is stored with a sign those of the same without one, which are ``bare``, and their shapes; by their
    sizes the ``signs`` that make these; and the name of what tells whether the processor adds products exactly, ''
    while nothing asks.
    """

    def __init__(self, weights: Iterable[str]) -> None:
        self.real = dict.fromkeys(weights, "")
        self.bare: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.signs: dict[tuple[int, ...], str] = {}
        self.exact = ""


class Writer:
    """One model in the making. Names of new tensors derive from the stored tensor's and are made unique.

    Nodes are written to the region ``here`` and come from the operator ``origin``, which ``origins`` then tells by a
    node's name. All that is written counts in the ``budget``. Constants that lie in the same memory are written once,
    larger ones to ``external`` if that is given. What the constants ``ahead`` mean is computed on loading. ``quant`` is
    the format of quantized operators. ``known`` are the names of nodes of a source in ONNX, by operator and tensor.
    ``loading`` are the nodes that give the constants which take less as something else: float16, or one of equal parts.
    """

    def __init__(self, graph: Graph, external: External | None, budget: Budget, quant: QuantForm) -> None:
        self.graph, self.external, self.budget = graph, external, budget
        self.kernels, self.meant, storage = quant.kernels, quant.meant, quant.storage
        self.taken = Names([*graph.values, *graph.names.values()])
        self.taken.take(name for node in graph.nodes for inner in kept(node) for name in names_in(inner))
        self.public = {name: graph.names.get(name, name) for name in (*graph.outputs, *graph.inputs)}
        self.bodies: dict[Region | None, Body] = {None: Body()}
        self.here: Region | None = None
        self.origin: Origin | None = None
        self.origins: dict[str, Origin] = {}
        self.known: Mapping[tuple[str, str], str] = {}
        self.model = ModelProto(producer_name="layoutsolve")
        self.ahead = among_floats(graph, storage)
        self.loading: list[NodeProto] = []
        self.selects, self.unsigned = storage.weights == "selected", storage.weights in ("unsigned", "uint8")
        self.selection = Selection([n for n in saturating(graph) if n not in self.ahead] if self.selects else [])
        self.mixed = computed(graph) - self.ahead if self.selects or self.unsigned else set[str]()
        self._shared: dict[tuple[object, ...], tuple[str, Array]] = {}
        self._known: dict[tuple[object, ...], Array] = {}
        self._equal: dict[tuple[object, ...], str] = {}

    @property
    def body(self) -> Body:
        """The graph to which nodes are written."""
        return self.bodies[self.here]

    def name(self, name: str) -> str:
        """What a value is called in the file."""
        return self.public.get(name, name)

    def stored(self, name: str) -> str:
        """The name under which the stored tensor is found in the file."""
        value = self.graph.values[name]
        if value.foreign is not None and value.data is not None:
            return name  # which is written as it is in the source
        if value.data is None:
            return self.name(name)
        halved = self.graph.halves and value.in_floats
        return self.shared(value.dtype, value.data, lambda: name, halved, value.quant is None)

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
        name: str = "",
    ) -> None:
        """Write one node, by default under a name of its operator and output. Raises :class:`LoweringError` for an
        attribute that ONNX cannot have.
        """
        name = self.taken.unique(name) if name else self._node_name(op, outputs)
        self.budget.write(sum(map(len, (op, name, *inputs, *outputs))), "its operators")
        proto = NodeProto(op_type=op, name=name, input=inputs, output=outputs)
        if domain:
            proto.domain = domain
        for key, value in sorted((attributes or {}).items()):
            try:
                given = isinstance(value, AttributeProto)
                proto.attribute.append(value if given else attribute(key, _attribute(key, value)))
            except (KeyError, TypeError, ValueError) as error:
                raise LoweringError(f"{self.origin}: {op} has no attribute '{key}' that is {value!r:.80}") from error
        if self.origin is not None:
            self.origins[name] = self.origin
        self.body.nodes.append(proto)
        self.body.made.update(outputs)

    def _node_name(self, op: str, outputs: Sequence[str]) -> str:
        """The name of a node: that of the source where this is its operator, which is written once."""
        own = next((self.known[op, name] for name in outputs if (op, name) in self.known), "")
        if not own and self.origin is not None and self.origin.operator == op:
            own = self.origin.name
        if own and own not in self.taken:
            return self.taken.unique(own)
        return self.taken.unique(f"{op}:{stem(outputs[0]) if outputs else ''}")

    def describe(self, name: str) -> None:
        """State the type of a value that is neither an input nor an output, if it is known."""
        if name and name not in self.public and self.graph.values[name].foreign != b"":
            value = self.graph.values[name]
            self.body.infos.append(self.info(replace(value, dtype="float32") if name in self.meant else value, name))

    def info(self, value: Value, name: str) -> ValueInfoProto:
        """The description of a value under a name."""
        self.budget.write(len(name) + _BYTES_PER_DIMENSION * (len(value.shape) + 1), "its tensors")
        if value.foreign is not None:
            return ValueInfoProto(name=name, type=TypeProto.FromString(value.foreign))
        return port(name, TYPES[value.dtype], map(_dimension, value.shape))

    def initializer(self, name: str, dtype: str, data: Array) -> str:
        """Write a constant."""
        self.budget.write(len(name) + stored_bytes(dtype, data), f"the constant '{short(name)}'")
        fill(self.model.graph.initializer.add(), name, dtype, data, self.external)
        return name

    def shared(
        self, dtype: str, data: Array, name: Callable[[], str], halved: bool = False, spread: bool = False
    ) -> str:
        """The initializer that holds an array; it is written, under the name that ``name`` gives, if there is none. It
        is one of float16, and what it is cast to, where it is to be ``halved`` and can be; and one of equal parts, and
        what it is expanded to, where it may be ``spread`` and its parts lie in the same memory.
        """
        data = np.asarray(data)  # NumPy's scalars lie nowhere that lasts
        key = (dtype, *memory(data))
        if key not in self._shared:
            self._shared[key] = self._written(dtype, data, halved, spread)(name(), dtype, data), data
        return self._shared[key][0]

    def alike(self, data: Array) -> Array:
        """The first array that is equal, so that it is written once."""
        return self._known.setdefault((data.dtype.str, data.shape, data.tobytes()), data)

    def _written(self, dtype: str, data: Array, halved: bool, spread: bool) -> Callable[[str, str, Array], str]:
        """What writes a constant."""
        if spread and stored_bytes(dtype, data) > _SPREAD and dtype not in ("string", *PACKED):
            part = condensed(data)
            if _EQUAL * part.size <= data.size:
                return partial(self._expanded, part)
        half = half_of(data) if halved else None
        return self.initializer if half is None else partial(self._widened, half)

    def _widened(self, half: Array, name: str, dtype: str, data: Array) -> str:
        """Write a constant as float16."""
        source = self.initializer(self.taken.derived(name, "float16"), "float16", half)
        return self._on_loading("Cast", [source], {"to": dtype}, Value(name, dtype, data.shape))

    def _expanded(self, part: Array, name: str, dtype: str, data: Array) -> str:
        """Write a constant as one of its equal parts: so is no file much larger than a source that has it so."""
        parts = [
            self._once(dtype, part, name, "part"),
            self._once("int64", np.array(data.shape, np.int64), name, "sizes"),
        ]
        return self._on_loading("Expand", parts, {}, Value(name, dtype, data.shape))

    def _once(self, dtype: str, data: Array, near: str, title: str) -> str:
        """The initializer with some elements, called after the first that is of them."""
        key = (dtype, data.shape, data.tobytes())
        if key not in self._equal:
            self._equal[key] = self.initializer(self.taken.derived(near, title), dtype, data)
        return self._equal[key]

    def _on_loading(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any], value: Value) -> str:
        """Write what computes a constant. It stands before all else in the main graph, where branches and loops see
        what it gives; runtimes compute it once, on loading.
        """
        here, origin, self.here, self.origin = self.here, self.origin, None, None
        self.node(op, inputs, [value.name], attributes)
        self.loading.append(self.body.nodes.pop())
        self.body.infos.append(self.info(value, value.name))
        self.here, self.origin = here, origin
        return value.name


def _dimension(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _attribute(key: str, value: object) -> object:
    if key in ("to", "dtype") and isinstance(value, str):
        return TYPES[value]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, np.ndarray)):
        return list(value)
    return tensor("", str(value.dtype), value) if isinstance(value, np.ndarray) else value
