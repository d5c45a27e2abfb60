"""Models of one operator each, as the schemas of ONNX and of ONNX Runtime have them, and changes of each that break it.

For every operator set in which a schema changed: all inputs of every rank, constant or not; every attribute absent, of
each other type, at the ends of its range, and in lists of each length; every input absent, of every type and rank; too
many and too few inputs and outputs. What is not enumerated is drawn: several of these at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto, defs

CONTRIB = "com.microsoft"
NEWEST = 18
"""The operator set of ONNX beside operators of other domains."""

NUMBERS = (0, 1, -1, 2, 3, -2, 4, 7, -7, 64, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63))
LENGTHS = (0, 1, 2, 3, 4, 5, 8)
RANKS = (4, 0, 1, 2, 3, 5, 6, None)
ELEMENTS = (1, 7, 6, 9, 10, 11, 8, 2, 3, 4, 5, 12, 13, 14, 16, 17, 21, 22, 0)
TEXTS = (
    b"", b"x", b"\xff\x00", b"SAME_UPPER", b"VALID", b"NOTSET", b"constant", b"reflect", b"linear", b"nearest", b"sum",
    b"ij,jk->ik", b"...i->i...", b"->", b"i...j.", b"bidirectional", b"DCR", b"CRD", b"none", b"max", b"tanh",
)  # fmt: skip
_SIZES = (2, 3, 4, 4, 2, 3)
_KNOWN: dict[str, Any] = {
    "axes": [1], "axis": 1, "perm": [0, 2, 3, 1], "to": 1, "blocksize": 2, "equation": b"abcd,abcd->abcd", "mode": None,
    "hidden_size": 4, "kernel_shape": [2, 2], "num_scan_inputs": 1, "K": 4, "N": 4, "block_size": 16, "shape": [2, 3],
    "pooled_shape": [2, 2], "output_shape": None, "num_heads": 2, "scales": [1.0, 1.0, 2.0, 2.0], "pads": None,
}  # fmt: skip
"""Attributes as they may be, by name; None for those that are left out unless they are needed."""

Change = Callable[[ModelProto, np.random.Generator], None]


@dataclass(frozen=True)
class Case:
    """A model of one operator, made when it is asked for: of a schema, with inputs of a rank, constant or not, and
    changed. ``name`` tells the operator, its set, and what is broken.
    """

    name: str
    schema: Any
    rank: int | None = 4
    constant: bool = False
    changes: Sequence[Change] = ()
    seed: int = 0

    def model(self) -> ModelProto:
        """The model."""
        made, random = base(self.schema, self.rank, self.constant), np.random.default_rng(self.seed)
        for change in self.changes:
            change(made, random)
        return made


def schemas() -> list[Any]:
    """The schemas of ONNX's operators, in each set that changed one, and of those of ONNX Runtime's own domain."""
    found = list(defs.get_all_schemas_with_history())
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime

        found += [each for each in runtime.get_all_operator_schema() if each.domain == CONTRIB]
    except (ImportError, AttributeError):  # a build without schemas
        pass
    return sorted(found, key=lambda each: (each.domain, each.name, each.since_version))


def cases(schema: Any, drawn: int = 40) -> Iterator[Case]:
    """All models of an operator, and some drawn ones."""
    head = f"{schema.domain or 'onnx'}:{schema.name}:{schema.since_version}"
    for rank in RANKS:
        for constant in (False, True):
            yield Case(f"{head}:rank {rank}{' constant' * constant}", schema, rank, constant)
    changes = list(_changes(schema))
    yield from (Case(f"{head}:{name}", schema, changes=[change]) for name, change in changes)
    for seed in range(drawn):
        random = np.random.default_rng(seed)
        rank, constant = RANKS[int(random.integers(len(RANKS)))], bool(random.random() < 0.3)
        several = [changes[int(random.integers(len(changes)))] for _ in range(int(random.integers(1, 4)))]
        name = "+".join(name for name, _ in several)
        yield Case(f"{head}:{name}", schema, rank, constant, [change for _, change in several], seed)


# -- a valid node, as far as a schema tells ------------------------------------------------------------------------


def base(schema: Any, rank: int | None, constant: bool) -> ModelProto:
    """A model of one operator whose inputs all have a rank; all but the first are constants, or none is."""
    model = ModelProto(ir_version=10)
    model.opset_import.add(domain=schema.domain, version=schema.since_version)
    if schema.domain:
        model.opset_import.add(domain="", version=NEWEST)
    graph = model.graph
    graph.name = "case"
    node = graph.node.add(op_type=schema.name, domain=schema.domain, name="node")
    forms = list(schema.inputs)
    for number in range(min(max(schema.min_input, len(forms)), schema.max_input, 16)):
        form = forms[min(number, len(forms) - 1)] if forms else None
        name = f"x{number}"
        node.input.append(name)
        element = _element(form)
        if constant and number:
            graph.initializer.append(tensor(element, _SIZES[: rank or 1], name))
        else:
            described(graph.input.add(name=name).type, element, rank)
    for number in range(max(schema.min_output, min(len(list(schema.outputs)), schema.max_output))):
        node.output.append(f"y{number}")
        graph.output.add(name=f"y{number}")
    for name, each in schema.attributes.items():
        kind = int(getattr(each.type, "value", each.type))
        if each.required or _KNOWN.get(name) is not None:
            node.attribute.append(attribute(name, kind, _KNOWN.get(name)))
    return model


def _element(form: Any) -> int:
    """A type that an input may have."""
    texts = sorted(form.types) if form is not None else []
    for wanted, element in (("tensor(float)", 1), ("tensor(int64)", 7), ("tensor(bool)", 9), ("tensor(string)", 8)):
        if wanted in texts:
            return element
    for element, name in ((3, "int8"), (2, "uint8"), (6, "int32"), (10, "float16")):
        if f"tensor({name})" in texts:
            return element
    return 1


def described(kind: TypeProto, element: int, rank: int | None) -> None:
    """Make a type that of a tensor, of unknown rank for None."""
    kind.tensor_type.elem_type = element
    if rank is not None:
        kind.tensor_type.shape.SetInParent()
        for size in _SIZES[:rank]:
            kind.tensor_type.shape.dim.add(dim_value=size)


def tensor(element: int, dims: Sequence[int], name: str = "", number: int = 1) -> TensorProto:
    """A constant of one number."""
    made = TensorProto(name=name, data_type=element, dims=dims)
    count = int(np.prod(dims)) if len(dims) else 1
    if element == TensorProto.STRING:
        made.string_data.extend([b"x"] * count)
        return made
    widths = {1: 4, 6: 4, 12: 4, 7: 8, 11: 8, 13: 8, 14: 8, 10: 2, 16: 2, 4: 2, 5: 2}
    width = widths.get(element, 1)
    whole = {1: np.float32, 11: np.float64, 10: np.float16}.get(element)
    with np.errstate(all="ignore"):
        data = np.full(count, number, whole) if whole else np.full(count, number, np.int64)
    bits = (int(each).to_bytes(8, "little", signed=True)[:width] for each in data) if not whole else ()
    made.raw_data = data.tobytes() if whole else b"".join(bits)
    return made


def attribute(name: str, kind: int, value: Any = None) -> AttributeProto:
    """An attribute of a type; its value is a small one where none is given."""
    made = AttributeProto(name=name, type=kind)
    if kind == AttributeProto.INT:
        made.i = value if isinstance(value, int) else 1
    elif kind == AttributeProto.FLOAT:
        made.f = 1.0
    elif kind == AttributeProto.STRING:
        made.s = value if isinstance(value, bytes) else b"x"
    elif kind == AttributeProto.INTS:
        made.ints.extend(value if isinstance(value, list) else [1, 1])
    elif kind == AttributeProto.FLOATS:
        made.floats.extend(value if isinstance(value, list) else [1.0, 1.0])
    elif kind == AttributeProto.STRINGS:
        made.strings.extend([b"x", b"y"])
    elif kind == AttributeProto.TENSOR:
        made.t.CopyFrom(tensor(1, [1]))
    elif kind == AttributeProto.GRAPH:
        made.g.CopyFrom(body())
    elif kind == AttributeProto.SPARSE_TENSOR:
        made.sparse_tensor.values.CopyFrom(tensor(1, [1]))
        made.sparse_tensor.indices.CopyFrom(tensor(7, [1]))
        made.sparse_tensor.dims.extend([3])
    elif kind == AttributeProto.TYPE_PROTO:
        described(made.tp, 1, 2)
    return made


def body(inputs: int = 2, outputs: int = 2) -> GraphProto:
    """A graph within a node."""
    made = GraphProto(name="body")
    for number in range(inputs):
        made.input.add(name=f"in{number}")
    for number in range(outputs):
        read = f"in{number}" if number < inputs else "x0"
        made.node.add(op_type="Identity", input=[read], output=[f"out{number}"])
        made.output.add(name=f"out{number}")
    return made


# -- what breaks it ------------------------------------------------------------------------------------------------


def _changes(schema: Any) -> Iterator[tuple[str, Change]]:
    """All changes of an operator's node by themselves, with names."""
    for name, each in schema.attributes.items():
        kind = int(getattr(each.type, "value", each.type))
        yield f"{name} absent", _setting(name, None)
        yield f"{name} twice", _twice(name, kind)
        for other in range(15):
            if other != kind:
                yield f"{name} of type {other}", _setting(name, attribute(name, other))
        yield f"{name} without value", _setting(name, AttributeProto(name=name, type=kind))
        yield f"{name} referred", _setting(name, AttributeProto(name=name, type=kind, ref_attr_name="outer"))
        for value in _values(name, kind):
            yield f"{name} {str(value.ListFields()[-1][1])[:40]!r}", _setting(name, value)
    yield "unknown attribute", _setting("nothing", attribute("nothing", AttributeProto.INTS))
    count = max(schema.min_input, min(len(list(schema.inputs)), 16))
    for number in range(count):
        yield f"input {number} left out", _reading(number, "")
        yield f"input {number} missing", _fewer(number)
        yield f"input {number} from nowhere", _reading(number, "nowhere")
        yield f"input {number} of no type", _typed(number, None, 4)
        forms = list(schema.inputs)
        own = _element(forms[min(number, len(forms) - 1)] if forms else None)
        for rank in RANKS:
            yield f"input {number} rank {rank}", _typed(number, own, rank)
        for element in ELEMENTS:
            yield f"input {number} element {element}", _typed(number, element, 4)
        for held in ("sequence_type", "optional_type", "map_type", "sparse_tensor_type"):
            yield f"input {number} {held}", _held(number, held)
        for element in (1, 7):
            for rank in (0, 1, 2, 4):
                for value in (1, 0, -1, 1 << 31, (1 << 63) - 1) if element == 7 else (1,):
                    yield f"input {number} constant {element} {rank} {value}", _constant(number, element, rank, value)
        for size in (0, -1, 1 << 31, (1 << 63) - 1):
            yield f"input {number} size {size}", _sized(number, size)
    for more in (1, 3, 40):
        yield f"{more} inputs more", _more(more, False)
        yield f"{more} outputs more", _more(more, True)
    yield "no output", _outputs([])
    yield "no input", lambda model, random: model.graph.node[0].ClearField("input")
    yield "outputs without names", _outputs([""] * 3)


def _values(name: str, kind: int) -> Iterator[AttributeProto]:
    if kind == AttributeProto.INT:
        yield from (AttributeProto(name=name, type=kind, i=number) for number in NUMBERS)
    elif kind == AttributeProto.INTS:
        for number in NUMBERS:
            yield from (AttributeProto(name=name, type=kind, ints=[number] * length) for length in (1, 2, 4))
        yield from (AttributeProto(name=name, type=kind, ints=range(length)) for length in LENGTHS)
    elif kind == AttributeProto.FLOAT:
        yield from (AttributeProto(name=name, type=kind, f=number) for number in (0.0, -1.0, np.inf, np.nan, 1e30))
    elif kind == AttributeProto.FLOATS:
        yield from (AttributeProto(name=name, type=kind, floats=[1.0] * length) for length in LENGTHS)
        yield AttributeProto(name=name, type=kind, floats=[np.nan, -1.0, 1e30, 0.0])
    elif kind == AttributeProto.STRING:
        yield from (AttributeProto(name=name, type=kind, s=text) for text in TEXTS)
    elif kind == AttributeProto.TENSOR:
        for element in ELEMENTS[:-1]:
            for dims in ([], [1], [0], [2, 3], [-1], [1 << 62, 0]):
                made = AttributeProto(name=name, type=kind)
                made.t.CopyFrom(tensor(element, dims if min(dims, default=0) >= 0 and max(dims, default=0) < 9 else []))
                del made.t.dims[:]
                made.t.dims.extend(dims)
                yield made
    elif kind == AttributeProto.GRAPH:
        for inputs in range(4):
            for outputs in range(4):
                made = AttributeProto(name=name, type=kind)
                made.g.CopyFrom(body(inputs, outputs))
                yield made


def _setting(name: str, value: AttributeProto | None) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        node = model.graph.node[0]
        kept = [each for each in node.attribute if each.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, value] if value is not None else kept)

    return change


def _twice(name: str, kind: int) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        model.graph.node[0].attribute.extend([attribute(name, kind), attribute(name, kind)])

    return change


def _reading(number: int, name: str) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        node = model.graph.node[0]
        if number < len(node.input):
            node.input[number] = name

    return change


def _fewer(number: int) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        del model.graph.node[0].input[number:]

    return change


def _more(count: int, outputs: bool) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        node = model.graph.node[0]
        for number in range(count):
            if outputs:
                node.output.append(f"more{number}")
                model.graph.output.add(name=f"more{number}")
            else:
                node.input.append(node.input[-1] if node.input else "x0")

    return change


def _outputs(names: Sequence[str]) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        model.graph.node[0].output[:] = names

    return change


def _port(model: ModelProto, number: int) -> Any:
    """The description of an input that is given while the model runs, made anew."""
    graph, name = model.graph, f"x{number}"
    for described_ports in (graph.initializer, graph.input):
        kept = [each for each in described_ports if each.name != name]
        del described_ports[:]
        described_ports.extend(kept)
    return graph.input.add(name=name)


def _typed(number: int, element: int | None, rank: int | None) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        port = _port(model, number)
        if element is not None:
            described(port.type, element, rank)

    return change


def _held(number: int, held: str) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        port = _port(model, number)
        getattr(port.type, held).SetInParent()
        if held in ("sequence_type", "optional_type") and random.random() < 0.7:
            described(getattr(port.type, held).elem_type, 1, 2)

    return change


def _constant(number: int, element: int, rank: int, value: int) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        _port(model, number)
        model.graph.input.pop()
        model.graph.initializer.append(tensor(element, _SIZES[:rank], f"x{number}", value))

    return change


def _sized(number: int, size: int) -> Change:
    def change(model: ModelProto, random: np.random.Generator) -> None:
        for port in model.graph.input:
            if port.name == f"x{number}":
                for dim in port.type.tensor_type.shape.dim:
                    dim.dim_value = size

    return change
