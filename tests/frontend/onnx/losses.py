"""What a model in ONNX says of itself beside what it computes, and what of that another one that computes the same does
not say: texts, names, names of axes, versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

from layoutsolve.proto.messages import DOMAINS
from layoutsolve.proto.scopes import nodes_of
from layoutsolve.proto.weight_selection import running

DATED = frozenset(("opset", "IR version"))
"""Kinds of losses that a rewriting may need, and a summary tells."""


def losses(source: onnx.ModelProto, written: onnx.ModelProto) -> list[tuple[str, str, str]]:
    """What a written model lacks of its source: kind, where, and what it is now."""
    return [*_of_model(source, written), *_of_tensors(source, written), *_of_nodes(source, written)]


def facts(item: object) -> dict[str, str]:
    """The metadata of a model, a graph, a tensor or a node."""
    return {each.key: each.value for each in item.metadata_props}  # type: ignore[attr-defined]


def axes(port: onnx.ValueInfoProto) -> list[tuple[int | str, str]] | None:
    """Sizes or names of the dimensions of a tensor, with what they denote; None where its rank is open."""
    kind = port.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [(dim.dim_param or dim.dim_value, dim.denotation) for dim in kind.shape.dim]


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The operator sets that a model imports."""
    return {"" if each.domain in DOMAINS else each.domain: each.version for each in model.opset_import}


def _of_model(source: onnx.ModelProto, written: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    used = {"" if node.domain in DOMAINS else node.domain for node in nodes_of(written.graph)}
    found = opsets(written)
    for domain, version in opsets(source).items():
        if domain in used and found.get(domain) != version:
            yield "opset", f"{domain} {version}", str(found.get(domain))
    if source.ir_version != written.ir_version:
        yield "IR version", str(source.ir_version), str(written.ir_version)
    for name in ("doc_string", "domain", "model_version"):
        if getattr(source, name) != getattr(written, name):
            yield "text", name, str(getattr(written, name))
    for name in ("name", "doc_string"):
        if getattr(source.graph, name) != getattr(written.graph, name):
            yield "text", f"graph {name}", str(getattr(written.graph, name))
    for title, one, other in (("model", source, written), ("graph", source.graph, written.graph)):
        if not facts(one).items() <= facts(other).items():
            yield "metadata", title, str(facts(other))


def _of_tensors(source: onnx.ModelProto, written: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    one, other = source.graph, written.graph
    dropped = {each.name for each in one.initializer}
    for kind in ("input", "output"):
        names = [port.name for port in getattr(one, kind) if port.name not in dropped]
        found = [port.name for port in getattr(other, kind) if port.name not in dropped]
        if names != found:
            yield "name", kind, str(found)
    ports = {port.name: port for port in (*other.value_info, *other.input, *other.output)}
    for port in (*one.input, *one.output, *one.value_info):
        made = ports.get(port.name)
        if made is None or port.name in dropped:
            continue
        if _lost_axes(port, made):
            yield "axes", f"{port.name} {axes(port)}", str(axes(made))
        yield from _of_texts("tensor", port, made)
        if port.type.denotation != made.type.denotation:
            yield "text", f"denotation of {port.name}", made.type.denotation
    constants = {each.name: each for each in other.initializer}
    for each in one.initializer:
        if each.name in constants:
            yield from _of_texts("initializer", each, constants[each.name])


def _lost_axes(port: onnx.ValueInfoProto, made: onnx.ValueInfoProto) -> bool:
    """Whether a tensor's axes are called otherwise than before, in whatever order and shape they are stored. What had
    no name may have one, and a name may be a size that is known by now, or a multiple of others.
    """
    before, after = axes(port), axes(made)
    if before is None or after is None:
        return before is not None and after is None
    sizes = [sorted(size for size, _ in each if isinstance(size, int) and size > 0) for each in (before, after)]
    if len(before) != len(after) or sizes[0] != sizes[1]:
        return False
    names = [Counter((size, told) for size, told in each if isinstance(size, str)) for each in (before, after)]
    lost = names[0] - names[1]
    made_up = names[1] - names[0]
    return bool(lost) and not all(size[:1].isdecimal() for size, _ in made_up)


def _of_nodes(source: onnx.ModelProto, written: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    """Nodes that give the same tensor by the same operator are the same node."""
    found = {(node.op_type, name): node for node in running(written.graph) for name in node.output if name}
    for node in running(source.graph):
        made = next((found[node.op_type, name] for name in node.output if (node.op_type, name) in found), None)
        if made is None:
            continue
        if node.name and node.name != made.name:
            yield "name", f"node {node.op_type} {node.name}", made.name
        yield from _of_texts("node", node, made)


def _of_texts(kind: str, one: object, other: object) -> Iterator[tuple[str, str, str]]:
    if one.doc_string and one.doc_string != other.doc_string:  # type: ignore[attr-defined]
        yield "text", f"{kind} {one.name}", other.doc_string  # type: ignore[attr-defined]
    if not facts(one).items() <= facts(other).items():
        yield "metadata", f"{kind} {one.name}", str(facts(other))  # type: ignore[attr-defined]
