"""One operator of a model in ONNX, as its lowering sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.frontend.onnx.draft import MOST_SIZES, Draft, merged_shape
from layoutsolve.ir.graph import KEPT, Array, Dim, Node, Origin, Value, without_omitted
from layoutsolve.proto.messages import DOMAINS, AttributeProto, NodeProto, graphs_in


class UnknownRankError(Exception):
    """An operator was asked for the shape of a tensor that has none as far as is known: it stays as it stands."""


class Call:
    """One operator of the file being lowered."""

    def __init__(self, draft: Draft, proto: NodeProto, index: int) -> None:
        self.draft, self.proto, self.index = draft, proto, index
        self.op, self.domain = proto.op_type, "" if proto.domain in DOMAINS else proto.domain
        self.origin = Origin(draft.graph, index, proto.op_type, proto.name)
        self.inputs, self.outputs = without_omitted(proto.input), without_omitted(proto.output)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes: numbers, texts, tuples of these and arrays; whatever else there is stays as it is."""
        return {each.name: _plain(each) for each in self.proto.attribute}

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute of whole numbers, None where it is left out or something else."""
        found = self.attributes.get(name)
        if isinstance(found, AttributeProto) and found.type == AttributeProto.INTS:
            return tuple(found.ints)
        whole = isinstance(found, tuple) and all(isinstance(each, int) for each in found)
        return tuple(found) if whole and isinstance(found, tuple) else None

    def has(self, number: int) -> bool:
        """Whether an input is given."""
        return number < len(self.inputs) and bool(self.inputs[number])

    def value(self, number: int) -> Value:
        """Input that is given. Raises :class:`UnknownRankError` where its rank is dynamic."""
        found = self.draft.value(self.inputs[number])
        if found.foreign is not None:
            raise UnknownRankError(found.name)
        return found

    def dtype(self, number: int) -> str:
        """The type of an input's elements as the operator sees them, whatever they are stored as."""
        return "float32" if self.draft.is_real(self.inputs[number]) else self.value(number).dtype

    def known(self, number: int) -> bool:
        """Whether an input is a tensor of a known number of dimensions."""
        return self.has(number) and self.draft.value(self.inputs[number]).foreign is None

    def constant(self, number: int) -> Array | None:
        """The elements of an input that is a constant of plain numbers."""
        value = self.draft.value(self.inputs[number]) if self.has(number) else None
        if value is None or value.foreign is not None or self.draft.is_real(self.inputs[number]):
            return None
        return value.data

    def content(self, number: int) -> Array | None:
        """The elements of an input of few whole numbers as far as they are known, with symbols: an array of objects."""
        found = self.constant(number)
        if found is not None:
            return found.astype(object) if found.dtype.kind in "iu" and found.size <= MOST_SIZES else None
        name = self.draft.alias.get(self.inputs[number], self.inputs[number]) if self.has(number) else ""
        return self.draft.contents.get(name)

    def dims(self, number: int) -> tuple[Dim, ...] | None:
        """An input that is a vector of sizes, None where these are not known."""
        found = self.content(number)
        return None if found is None else tuple(found.reshape(-1).tolist())

    @property
    def arithmetic(self) -> Arithmetic:
        """How sizes are computed."""
        return Arithmetic(self.draft.meanings, self.outputs[0] if self.outputs else self.op)

    # -- writing -------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        storage: bool = False,
    ) -> None:
        """Write a node of this operator's, as an opaque one where nothing is known of what it touches. All names are
        those of values of the graph.
        """
        ends = tuple(inputs), tuple(outputs)
        known = (self.draft.values.get(name) for name in (*inputs, *outputs))
        if not op.startswith(KEPT) and any(value is not None and value.foreign is not None for value in known):
            op = f"{KEPT}{op}"
        self.draft.emit(Node(op, *ends, attributes or {}, self.origin, storage, domain=self.domain, given=True))

    def plain(self, name: str) -> str:
        """The value that a tensor of the file is, as the numbers that the file's operators see."""
        return self.draft.plain(name, self.origin)

    @property
    def stores(self) -> bool:
        """Whether a result is numbers that are dequantized as they are stored."""
        return any(name in self.draft.asked for name in self.outputs)

    def operands(self, storing: bool = False) -> tuple[list[str], bool]:
        """The values of all inputs, and whether the operator moves or reads what is stored: where some of them are
        read as they are stored, or results are (``storing``).
        """
        names = [self.draft.alias.get(name, name) for name in self.inputs]
        real = [name for name in names if name in self.draft.real]
        others = (name for name in names if name and name not in self.draft.real)
        raw = [name for name in others if self.draft.value(name).quant is not None]
        if storing or (raw and not real):
            return [self.plain(name) if name in self.draft.real else self._named(name) for name in names], True
        return [self.plain(name) if name in raw else self._named(name) for name in names], False

    def _named(self, name: str) -> str:
        return self.draft.value(name).name if name else ""

    def shapes(self) -> list[tuple[Dim | None, ...] | None]:
        """The sizes of all outputs, as far as they are known; inferred anew where the model's inference has gaps."""
        known = [self.draft.types.dims(name) if name else () for name in self.outputs]
        if all(dims is not None and None not in dims for dims in known):
            return known
        names = [name for name in dict.fromkeys(self.inputs) if name]
        told, data = self.draft.told(names)
        if len(told) < len(names) or self.has_graphs:
            return known
        found = self.draft.types.of_node(self.proto, told, data)
        merged = [merged_shape(found.get(name), dims) for name, dims in zip(self.outputs, known, strict=True)]
        return [None if dims is None else tuple(dims) for dims in merged]

    @cached_property
    def has_graphs(self) -> bool:
        """Whether the operator has graphs within it."""
        return any(map(graphs_in, self.proto.attribute))


def _plain(proto: AttributeProto) -> Any:
    """What an attribute holds, itself where that is nothing that operators are known to have."""
    kind = proto.type
    if kind == AttributeProto.INT:
        return proto.i
    if kind == AttributeProto.FLOAT:
        return proto.f
    if kind == AttributeProto.INTS and proto.ints:
        return tuple(proto.ints)
    if kind == AttributeProto.FLOATS and proto.floats:
        return tuple(proto.floats)
    if kind == AttributeProto.STRING:
        try:
            return proto.s.decode()
        except UnicodeDecodeError:
            return proto
    return proto
