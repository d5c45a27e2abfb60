"""The graphs of a model in ONNX as its file states them, for people: which operators there are, on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.onnx.constants import TYPES
from layoutsolve.frontend.onnx.reading import Source
from layoutsolve.proto import rank_limits
from layoutsolve.proto.fragile_operators import bring_back, set_aside
from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    graphs_in,
    native,
)
from layoutsolve.proto.scopes import numbered

UNKNOWN = "?"
"""The type of what nothing is known about."""


@dataclass(frozen=True)
class ListedTensor:
    """A tensor: the type of its elements, its sizes as text, '' where nothing is known of them, and whether it is a
    constant.
    """

    name: str
    dtype: str
    shape: str
    constant: bool = False


@dataclass(frozen=True)
class ListedNode:
    """An operator, with the domain before its name where that is not ONNX's; ``opens`` are the numbers of the graphs in
    it.
    """

    index: int
    op: str
    name: str
    inputs: tuple[ListedTensor, ...]
    outputs: tuple[ListedTensor, ...]
    facts: tuple[str, ...] = ()
    opens: tuple[int, ...] = ()


@dataclass(frozen=True)
class ListedGraph:
    """A graph. The first one of a model is its main one, whose functions are written out."""

    title: str
    inputs: tuple[ListedTensor, ...]
    outputs: tuple[ListedTensor, ...]
    nodes: tuple[ListedNode, ...] = field(default=())


def listed(source: Source) -> list[ListedGraph]:
    """All graphs of a model, in the order of the numbers that :func:`layoutsolve.proto.scopes.numbered` gives them."""
    places = numbered(source.proto.graph)
    known = {
        name: ListedTensor(name, each.dtype or UNKNOWN, "" if each.data is None else _joined(each.data.shape), True)
        for name, each in source.constants.items()
    }
    found: dict[int, ListedGraph] = {}
    for number, title, graph, around in _graphs(inferred(source.proto).graph, "", 0, known, places):
        found[number] = _listed(number, title or graph.name or "graph", graph, around, places)
    return [found[number] for number in sorted(found)]


Places = Mapping[tuple[int, int, str], int]
"""The numbers of graphs, by those of the graph and the node that they are in, and the name of the attribute."""


def inferred(model: ModelProto) -> ModelProto:
    """The model with what ONNX knows of all its tensors."""
    outline = ModelProto()
    outline.CopyFrom(model)
    set_aside(outline)
    outline = rank_limits.checked(outline)
    try:
        inferred = native.shape_inference.infer_shapes(outline.SerializeToString(), False, False, False)
    except Exception:  # of a library that knows less than the runtimes that the model is for
        return model
    made: ModelProto = ModelProto.FromString(inferred)
    bring_back(made)
    rank_limits.bring_back(made)
    return made


def _graphs(
    graph: GraphProto, title: str, number: int, around: Mapping[str, ListedTensor], places: Places
) -> Iterator[tuple[int, str, GraphProto, Mapping[str, ListedTensor]]]:
    """All graphs with their numbers, and the tensors that each sees."""
    seen = {**around, **{each.name: each for each in _own(graph)}}
    yield number, title, graph, seen
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            for inner in graphs_in(attribute)[:1]:
                called = f"{attribute.name} of {node.op_type}#{index}"
                yield from _graphs(inner, called, places[number, index, attribute.name], seen, places)


def _own(graph: GraphProto) -> Iterator[ListedTensor]:
    for port in (*graph.value_info, *graph.output, *graph.input):
        yield described(port.name, port.type)
    for each in graph.initializer:
        yield ListedTensor(each.name, TYPES.get(each.data_type, UNKNOWN), _joined(each.dims), True)


def described(name: str, kind: TypeProto) -> ListedTensor:
    """Tensor of a name, by its type in the file; another kind of value has that in place of an element type."""
    if kind.WhichOneof("value") != "tensor_type":
        return ListedTensor(name, (kind.WhichOneof("value") or UNKNOWN).removesuffix("_type"), "")
    tensor = kind.tensor_type
    dims = [
        dim.dim_value if dim.WhichOneof("value") == "dim_value" else dim.dim_param or UNKNOWN
        for dim in tensor.shape.dim
    ]
    return ListedTensor(name, TYPES.get(tensor.elem_type, UNKNOWN), _joined(dims) if tensor.HasField("shape") else "")


def _joined(dims: object) -> str:
    return f"[{','.join(map(str, dims))}]"  # type: ignore[call-overload]


def _listed(
    number: int, title: str, graph: GraphProto, seen: Mapping[str, ListedTensor], places: Places
) -> ListedGraph:
    def tensors(names: object) -> tuple[ListedTensor, ...]:
        return tuple(seen.get(name) or ListedTensor(name, UNKNOWN, "") for name in names if name)  # type: ignore[attr-defined]

    nodes = [
        ListedNode(
            index,
            _called(node),
            node.name,
            tensors(node.input),
            tensors(node.output),
            tuple(f"{each.name} {text}" for each in node.attribute if (text := _said(each))),
            tuple(places[number, index, each.name] for each in node.attribute if graphs_in(each)),
        )
        for index, node in enumerate(graph.node)
    ]
    ports = [port.name for port in graph.input if number or not seen[port.name].constant]
    return ListedGraph(title, tensors(ports), tensors(port.name for port in graph.output), tuple(nodes))


def _called(node: NodeProto) -> str:
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def _said(attribute: AttributeProto) -> str:
    """What an attribute holds, if it is brief."""
    kind = attribute.type
    if kind == AttributeProto.INT:
        return str(attribute.i)
    if kind == AttributeProto.FLOAT:
        return f"{attribute.f:g}"
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.INTS:
        return str(list(attribute.ints))
    if kind == AttributeProto.FLOATS:
        return str([round(each, 6) for each in attribute.floats])
    return ""
