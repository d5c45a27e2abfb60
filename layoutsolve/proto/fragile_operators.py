"""Operators whose inference is not to be run: what stands in their place, or aside, where native code reads a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from layoutsolve.proto.messages import (
    DOMAINS,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    attribute,
    graphs_in,
    integer,
)
from layoutsolve.proto.scopes import nodes_of

_ML = "ai.onnx.ml"


def _cast(node: NodeProto) -> Iterator[NodeProto]:
    """EyeLike, whose inference reads the type of its input although nothing may be known of it."""
    kind = integer(node, "dtype", 0)
    op, attributes = ("Cast", [attribute("to", kind)]) if kind else ("Identity", [])
    yield NodeProto(op_type=op, input=node.input[:1], output=node.output[:1], attribute=attributes)


def _matches(node: NodeProto) -> Iterator[NodeProto]:
    """RegexFullMatch, likewise."""
    made = [attribute("to", TensorProto.BOOL)]
    yield NodeProto(op_type="Cast", input=node.input[:1], output=node.output[:1], attribute=made)


def _encoded(node: NodeProto) -> Iterator[NodeProto]:
    """LabelEncoder, likewise, where its values tell their type."""
    kinds = {each.name: _VALUES[each.name] or each.t.data_type for each in node.attribute if each.name in _VALUES}
    for kind in list(kinds.values())[:1]:
        made = [attribute("to", kind)]
        yield NodeProto(op_type="Cast", input=node.input[:1], output=node.output[:1], attribute=made)


_VALUES: Mapping[str, int] = {
    "values_floats": TensorProto.FLOAT,
    "values_int64s": TensorProto.INT64,
    "values_strings": TensorProto.STRING,
    "values_tensor": TensorProto.UNDEFINED,
}
"""The attributes that hold what a LabelEncoder gives, with its type unless they tell that themselves."""


def _attended(node: NodeProto) -> Iterator[NodeProto]:
    """Attention, whose inference takes open sizes for 0: types, and how many dimensions there are."""
    flat = any(each.name == "q_num_heads" for each in node.attribute)
    for output, number in zip(node.output, (0, 1, 2, 0), strict=False):
        given = node.input[number] if output and number < len(node.input) else ""
        if given and flat and output != node.output[0]:
            made = [attribute("equation", "abc,def->abcd")]
            yield NodeProto(op_type="Einsum", input=[given, given], output=[f"{output}/heads"], attribute=made)
            given = f"{output}/heads"
        if given:
            yield NodeProto(op_type="Tile", input=[given, given], output=[output])


def _nothing(node: NodeProto) -> Iterator[NodeProto]:
    """An operator of whose results nothing is inferred."""
    yield from ()


_FRAGILE: Mapping[tuple[str, str], Callable[[NodeProto], Iterator[NodeProto]]] = {
    ("", "Attention"): _attended,
    ("", "EyeLike"): _cast,
    ("", "RegexFullMatch"): _matches,
    (_ML, "LabelEncoder"): _encoded,
    **dict.fromkeys([(_ML, op) for op in ("DictVectorizer", "OneHotEncoder", "TreeEnsemble")], _nothing),
}
"""Operators whose inference ends the process where the type of their input is not known, or mistakes open sizes, and
what has the results of the same types, and of the same sizes where these are inferred.
"""


def is_fragile(node: NodeProto) -> bool:
    """Whether the inference of types and sizes may end the process at a valid node, or is wrong."""
    return ("" if node.domain in DOMAINS else node.domain, node.op_type) in _FRAGILE


def stand_ins(node: NodeProto) -> list[NodeProto]:
    """What stands for a fragile node while types and sizes are inferred."""
    return list(_FRAGILE["" if node.domain in DOMAINS else node.domain, node.op_type](node))


def shield(graph: GraphProto) -> None:
    """Replace, in a graph and those within it, the nodes that inference would end the process at."""
    nodes = graph.node
    if any(map(is_fragile, nodes)):
        made = [part for node in nodes for part in (stand_ins(node) if is_fragile(node) else [node])]
        kept = [NodeProto.FromString(node.SerializeToString()) for node in made]
        del nodes[:]
        nodes.extend(kept)
    for node in nodes:
        for each in node.attribute:
            for inner in graphs_in(each):
                shield(inner)


def set_aside(model: ModelProto) -> bool:
    """Move fragile nodes, in all graphs of a model, to a domain that native code knows nothing of; whether there were
    any.
    """
    domains = {f"{_ASIDE}{node.domain}" for node in nodes_of(model.graph) if is_fragile(node)}
    if domains:
        for node in nodes_of(model.graph):
            if is_fragile(node):
                node.domain = f"{_ASIDE}{node.domain}"
        for domain in sorted(domains):
            model.opset_import.add(domain=domain, version=1)
    return bool(domains)


def bring_back(model: ModelProto) -> None:
    """Undo :func:`set_aside`."""
    for node in nodes_of(model.graph):
        node.domain = node.domain.removeprefix(_ASIDE)
    kept = [each for each in model.opset_import if not each.domain.startswith(_ASIDE)]
    del model.opset_import[:]
    model.opset_import.extend(kept)


_ASIDE = "layoutsolve.fragile/"
"""What the domain of a node begins with that stands aside."""
