"""Types and sizes of all tensors, as ONNX infers them; where sizes have names only, as they are computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from layoutsolve.base.wording import printable
from layoutsolve.frontend.onnx import inference_standins, resize_factors
from layoutsolve.frontend.onnx.constants import TYPES, Constant
from layoutsolve.frontend.onnx.symbols import Symbols
from layoutsolve.ir.graph import Dim, Size
from layoutsolve.proto import rank_limits
from layoutsolve.proto.fragile_operators import is_fragile, shield, stand_ins
from layoutsolve.proto.messages import (
    DOMAINS,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    native,
    port,
)
from layoutsolve.proto.messages import TYPES as CODES
from layoutsolve.proto.scopes import graphs_of

_INTEGERS = frozenset(("tensor(int32)", "tensor(int64)"))
"""The types of sizes, axes and indices."""

Dims = tuple[Dim | None, ...]
"""Sizes, None where nothing is known of one."""

Known = tuple[str, Sequence[Dim]]
"""The type of a tensor's elements, and its sizes."""


class Types:
    """What is known of the tensors of a model. Sizes that its inputs have by name alone are symbols."""

    def __init__(self, model: ModelProto, symbols: Symbols) -> None:
        self.symbols: dict[str, Size] = {}
        self.fresh, self.state = symbols.fresh, symbols.stated.add
        self._schemas: dict[tuple[str, str], Any] = {}
        self._whole: dict[tuple[str, str], Mapping[int, tuple[str, tuple[str, ...]]]] = {}
        self.version = model.ir_version
        self.imports = [(each.domain, each.version) for each in model.opset_import]
        named = ModelProto()
        named.CopyFrom(model)
        self.known: dict[str, TypeProto] = {}
        for info in named.graph.input:
            self._name(info)
        self._learn(named)

    def _learn(self, model: ModelProto, within: bool = False) -> None:
        """Infer what is to be known of a model, whose inputs have all their sizes; it is changed. ``within`` another
        graph sizes are not believed that follow from nothing: those of a loop may be others in the next turn. Numbers
        are followed there, as a loop asks what it is given for the next turn before its operators are written; writing
        these follows all others.
        """
        _forget(model.graph)
        numbers = not within and not inference_standins.is_misled(model.graph)
        told = {info.name: _anonymous(info.type, numbers=numbers) for info in model.graph.value_info}
        del model.graph.value_info[:]
        for info in model.graph.output:  # whose sizes may be told wrongly
            told[info.name] = _anonymous(info.type, numbers=False)
            if _is_tensor(info.type):
                info.type.tensor_type.ClearField("shape")
        stated = {dim.dim_param for info in model.graph.input for dim in info.type.tensor_type.shape.dim}
        inference_standins.substitute(model.graph)
        shield(model.graph)
        graph = self._inferred(model, within).graph
        while resize_factors.corrected(model.graph, _numbers(graph)):
            graph = self._inferred(model, within).graph
        found = {info.name: info.type for info in (*graph.output, *graph.value_info, *graph.input)}
        for name, kind in told.items():
            if name not in found or not _has_rank(found[name]):
                found[name] = kind
            elif _is_tensor(kind) and _is_tensor(found[name]):
                _complete(found[name], kind)
        for kind in found.values():
            for dim in kind.tensor_type.shape.dim if _is_tensor(kind) else ():
                if dim.dim_param not in stated:  # a name that inference made up, which may be one elsewhere
                    dim.ClearField("dim_param")
        self.known |= found

    def learn(
        self,
        graph: GraphProto,
        outer: Mapping[str, Known],
        data: Mapping[str, bytes],
        inputs: Mapping[str, Known],
    ) -> None:
        """Infer what is to be known of a graph within a model's, given types and sizes of what it reads from around it,
        the content of some of that, and its inputs.
        """
        model = ModelProto(ir_version=self.version)
        for domain, version in self.imports:
            model.opset_import.add(domain=domain, version=version)
        model.graph.CopyFrom(graph)
        del model.graph.input[:]
        model.graph.input.extend(self._port(name, known) for name, known in {**outer, **inputs}.items())
        model.graph.initializer.extend(map(TensorProto.FromString, data.values()))
        self._learn(model, within=True)

    def _port(self, name: str, known: Known) -> ValueInfoProto:
        element, dims = known
        self.note(dims)
        return port(name, CODES[element], [dim if isinstance(dim, int) else str(dim) for dim in dims])

    def _inferred(self, model: ModelProto, follow: bool) -> ModelProto:
        """What the library infers; it follows numbers as well where that is asked for, and they are few."""
        data, found = rank_limits.checked(model).SerializeToString(), model
        for numbers in (False, True)[: 1 + follow]:
            if numbers and not _are_few(found.graph):
                break
            try:
                found = ModelProto.FromString(native.shape_inference.infer_shapes(data, False, False, numbers))
            except Exception:  # of a library that knows less than the runtimes that the model is for
                break
        return found

    def _name(self, info: ValueInfoProto) -> None:
        """Give every size of an input that is no number a name of its own."""
        if not _is_tensor(info.type):
            return
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not _is_number(dim):
                given = dim.dim_param
                found = self.symbols.get(given) if given else None
                made = found or self.fresh(given or f"{info.name}_{axis}")
                if given:
                    self.state(str(made))
                self.symbols |= {given or str(made): made, str(made): made}
                dim.Clear()
                dim.dim_param = str(made)

    def element(self, name: str) -> str:
        """The type of a tensor's elements, '' where nothing is known of it, or it is no tensor."""
        kind = self.known.get(name)
        return TYPES.get(kind.tensor_type.elem_type, "") if kind is not None and _is_tensor(kind) else ""

    def dims(self, name: str) -> Dims | None:
        """The sizes of a tensor as far as they are known, None where not even their number is."""
        kind = self.known.get(name)
        return self._dims(kind) if kind is not None and _is_tensor(kind) and _has_rank(kind) else None

    def _dims(self, kind: TypeProto) -> Dims:
        return tuple(
            dim.dim_value if _is_number(dim) else self.symbols.get(dim.dim_param) for dim in kind.tensor_type.shape.dim
        )

    def raw(self, name: str) -> bytes:
        """What is known of a value that is no tensor of known rank, as bytes."""
        kind = self.known.get(name)
        return b"" if kind is None else kind.SerializeToString()

    def note(self, dims: Sequence[Dim]) -> None:
        """Remember how sizes are called, so that what follows of them is recognised."""
        for dim in dims:
            if isinstance(dim, Size):
                self.symbols.setdefault(str(dim), dim)

    def of_node(
        self,
        node: NodeProto,
        inputs: Mapping[str, Known],
        data: Mapping[str, bytes],
    ) -> dict[str, Dims]:
        """The sizes of what one node computes, by name, given types and sizes of its inputs and the content of some."""
        kinds = {name: self._port(name, known).type for name, known in inputs.items()}
        for each in stand_ins(node) if is_fragile(node) else inference_standins.stand_ins(node) or [node]:
            kinds |= self._of_one(each, kinds, data)
        found = {name: kinds[name] for name in node.output if name in kinds}
        return {name: self._dims(kind) for name, kind in found.items() if _is_tensor(kind) and _has_rank(kind)}

    def misfit(self, node: NodeProto, constants: Mapping[str, Constant]) -> str:
        """Which input of a node is of another type than the integers that it has to be by its definition, as sizes,
        axes and indices are; '' where none is known to be.
        """
        for place, (title, allowed) in self._integers(node).items():
            name = node.input[place] if place < len(node.input) else ""
            found = constants[name].dtype if name in constants else self.element(name)
            if found and found not in allowed:
                wanted = " or ".join(allowed)
                return f"has '{printable(name)}' of type {found} for its input '{title}', which is of type {wanted}"
        return ""

    def _integers(self, node: NodeProto) -> Mapping[int, tuple[str, tuple[str, ...]]]:
        """The names and types, by their numbers, of those inputs of an operator that are integers of 32 or 64 bits."""
        key = node.domain, node.op_type
        if key not in self._whole:
            schema = self.schema(node)
            ports = [] if schema is None else schema.inputs
            self._whole[key] = {
                place: (port.name, tuple(sorted(each[len("tensor(") : -1] for each in port.types)))
                for place, port in enumerate(ports)
                if port.types and port.types <= _INTEGERS
            }
        return self._whole[key]

    def schema(self, node: NodeProto) -> Any:
        """ONNX's schema of an operator in the opset that is imported; None for an unknown operator."""
        key = node.domain, node.op_type
        if key not in self._schemas:
            names = DOMAINS if node.domain in DOMAINS else (node.domain,)
            version = next((number for name, number in self.imports if name in names), 0)
            try:
                self._schemas[key] = native.defs.get_schema(node.op_type, version, names[0])
            except Exception:  # whose class is the library's own
                self._schemas[key] = None
        return self._schemas[key]

    def _of_one(
        self, node: NodeProto, kinds: Mapping[str, TypeProto], data: Mapping[str, bytes]
    ) -> dict[str, TypeProto]:
        """What one operator computes, given what it reads."""
        schema = self.schema(node)
        if schema is None:
            return {}
        rank_limits.check_node(node, kinds, data)
        try:
            read = {name: kinds[name].SerializeToString() for name in node.input if name}
            known = {name: content for name, content in data.items() if name in read}
            found = schema._infer_node_outputs(node.SerializeToString(), read, known, {}, dict(self.imports), 4)
        except Exception:  # an operator of its own, or one that inference refuses: nothing is known of it
            return {}
        return {name: TypeProto.FromString(kind) for name, kind in found.items()}


def _numbers(graph: GraphProto) -> dict[str, list[int | None]]:
    """The sizes of the tensors of a graph that a Resize reads or makes, None where one is no number."""
    names = {name for node in graph.node if node.op_type == "Resize" for name in (*node.input[:1], *node.output)}
    infos = (*graph.input, *graph.value_info, *graph.output) if names else ()
    return {
        info.name: [dim.dim_value if _is_number(dim) else None for dim in info.type.tensor_type.shape.dim]
        for info in infos
        if info.name in names and _is_tensor(info.type) and _has_rank(info.type)
    }


def _is_tensor(kind: TypeProto) -> bool:
    return bool(kind.WhichOneof("value") == "tensor_type")


def _has_rank(kind: TypeProto) -> bool:
    return not _is_tensor(kind) or kind.tensor_type.HasField("shape")


def _is_number(dim: TensorShapeProto.Dimension) -> bool:
    return bool(dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0)


def _complete(kind: TypeProto, told: TypeProto) -> None:
    """Take sizes that are not inferred from what the file says of a tensor, if that has as many dimensions."""
    dims, others = kind.tensor_type.shape.dim, told.tensor_type.shape.dim
    if len(dims) == len(others):
        for dim, other in zip(dims, others, strict=True):
            if not dim.WhichOneof("value") and _is_number(other):
                dim.dim_value = other.dim_value


def _forget(graph: GraphProto) -> None:
    """Take away what graphs within a graph say of sizes, which runtimes do not ask: it may be wrong, or be that of the
    first turn.
    """
    for node in graph.node:
        for inner in graphs_of(node):
            for info in (*inner.input, *inner.output, *inner.value_info):
                info.type.CopyFrom(_anonymous(info.type, numbers=False))
            _forget(inner)


def _anonymous(kind: TypeProto, numbers: bool = True) -> TypeProto:
    """A type without the names of a tensor's sizes, which may be told wrongly; without their ``numbers`` as well."""
    made = TypeProto()
    made.CopyFrom(kind)
    for dim in made.tensor_type.shape.dim if _is_tensor(kind) else ():
        if not numbers or not _is_number(dim):
            dim.Clear()
    return made


def _are_few(graph: GraphProto) -> bool:
    """Whether the numbers are few that inference would follow in a graph of which types are inferred, and in those
    within it: it takes each of a vector for itself, known or not, and each constant as a whole.
    """
    total, known, stack = 0, set[str](), [graph]
    while stack:
        current = stack.pop()
        kinds = {info.name: info.type for info in (*current.output, *current.value_info)}
        ports = {info.name: info.type for info in current.input}
        given = {each.name: prod(each.dims) for each in current.initializer}
        vectors = [kind.tensor_type.shape.dim for kind in (*kinds.values(), *ports.values()) if _is_tensor(kind)]
        total += sum(dims[0].dim_value for dims in vectors if len(dims) == 1) + sum(given.values())
        known |= given.keys()
        for node in current.node:
            if node.op_type in _SIZES or known.issuperset(filter(None, node.input)):
                known.update(node.output)
                sizes = [_elements(kinds.get(name)) for name in node.output if name]
                total += sum(size or 0 for size in sizes)
                if None in sizes:
                    return False
            stack += graphs_of(node)
        if total > _MOST:
            return False
    return True


def _elements(kind: TypeProto | None) -> int | None:
    """How many elements a tensor has, None where that is not known."""
    if kind is None or not _is_tensor(kind) or not _has_rank(kind):
        return None
    dims = kind.tensor_type.shape.dim
    return prod(dim.dim_value for dim in dims) if all(map(_is_number, dims)) else None


_SIZES = ("Shape", "Size")
"""Operators that tell sizes, whatever they are given."""

_MOST = 1 << 16
"""The most numbers that are followed."""
