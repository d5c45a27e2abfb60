"""What ONNX's converter of versions leaves out: operators of older sets that it would change the meaning of.

* Resize and Upsample of sets before 11 place pixels at their corners, and the nearest one is that before where images
  are enlarged, that behind where they are reduced, as ONNX Runtime has it. Later ones place pixels at their centres
  unless told otherwise.
* Hardmax of sets before 13 takes all dimensions from its axis on as one. For Softmax, which does the same, the
  converter writes that out, so that a Hardmax passes it as a Softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np

from layoutsolve.errors import Gap, ModelError, UnsupportedError
from layoutsolve.frontend.onnx.constants import of
from layoutsolve.graph import Array
from layoutsolve.protos import DOMAINS, GraphProto, ModelProto, NodeProto, attribute, graphs_in, native
from layoutsolve.records import dataclass

_RESIZE, _CENTRES, _FLAT = 10, 11, 13
"""The operator sets from which on there is Resize, its pixels have centres, and an axis is one dimension."""

_MARK = "layoutsolve.older."


@dataclass(frozen=True)
class Meant:
    """What a node was before: its operator, its name, and attributes that it is to have."""

    op: str
    name: str
    told: Mapping[str, str]


def check_attributes(model: ModelProto, version: int) -> None:
    """Raise :class:`ModelError` where an attribute is no number, text or tensor as its operator has it: the converter
    reads it unseen, and ends the process.
    """
    for graph in _graphs(model.graph):
        for node in graph.node:
            if node.domain not in DOMAINS or not native.defs.has_schema(node.op_type):
                continue
            with suppress(native.defs.SchemaError):
                known = native.defs.get_schema(node.op_type, version, "").attributes
                for each in node.attribute:
                    if each.name in known and each.type != known[each.name].type.value:
                        wanted = known[each.name].type.name
                        raise ModelError(f"attribute '{each.name}' of a {node.op_type} is no {wanted}")


def stages(model: ModelProto, version: int, newest: int) -> tuple[int, ...]:
    """The operator sets to convert to, one after the other: an Upsample is a Resize first, as which it is known."""
    upsampled = any(node.op_type == "Upsample" for graph in _graphs(model.graph) for node in graph.node)
    return (_RESIZE, newest) if upsampled and version < _RESIZE else (newest,)


def disguised(model: ModelProto, version: int) -> tuple[ModelProto, Mapping[str, Meant]]:
    """A model as the converter understands it, and by the names that nodes have meanwhile what they are.

    Raises :class:`UnsupportedError` for what has no form in later sets.
    """
    if not any(_is_other(node, version) for graph in _graphs(model.graph) for node in graph.node):
        return model, {}
    made, meant = ModelProto(), dict[str, Meant]()
    made.CopyFrom(model)
    for graph in _graphs(made.graph):
        for number, node in enumerate(graph.node):
            if _is_other(node, version):
                mark = f"{_MARK}{len(meant)}"
                told = _corners(number, node, graph) if node.op_type == "Resize" else {}
                meant[mark] = Meant(node.op_type, node.name, told)
                node.name, node.op_type = mark, "Softmax" if node.op_type == "Hardmax" else node.op_type
    return made, meant


def mended(model: ModelProto, meant: Mapping[str, Meant]) -> ModelProto:
    """A converted model, changed in place, whose nodes are what they were."""
    for graph in _graphs(model.graph):
        for node in graph.node:
            known = meant.get(node.name)
            if known is not None:
                node.op_type, node.name = known.op, known.name
                node.attribute.extend(attribute(*each) for each in known.told.items())
    return model


def _is_other(node: NodeProto, version: int) -> bool:
    """Whether the converter would change what a node means."""
    if node.domain not in DOMAINS:
        return False
    return version < {"Resize": _CENTRES, "Hardmax": _FLAT}.get(node.op_type, 0)


def _corners(number: int, node: NodeProto, graph: GraphProto) -> dict[str, str]:
    """What a later Resize has to be told, by its scales where these are known."""
    told = {"coordinate_transformation_mode": "asymmetric"}
    if any(each.name == "mode" and each.s != b"nearest" for each in node.attribute):
        return told
    scales = _scales(node, graph)
    reduced = bool((scales < 1).any())
    if reduced and (scales > 1).any():
        reason = "it enlarges along one dimension and reduces along another, in an operator set before 11"
        raise _unsupported(number, node, reason, f"export the model in {_CENTRES} or newer")
    return {**told, "nearest_mode": "ceil" if reduced else "floor"}


def _unsupported(number: int, node: NodeProto, reason: str, remedy: str) -> UnsupportedError:
    return UnsupportedError([Gap(0, number, node.op_type, node.output[0], reason, remedy)])


def _scales(node: NodeProto, graph: GraphProto) -> Array:
    """The scales of a node, none where they are not known."""
    told = next((each.floats for each in node.attribute if each.name == "scales"), None)
    if told is not None or len(node.input) < 2:
        return np.array(told or (), np.float32)
    name = node.input[1]
    tensors = [each for each in graph.initializer if each.name == name]
    tensors += [
        attribute.t
        for each in graph.node
        if each.op_type == "Constant" and name in each.output
        for attribute in each.attribute
        if attribute.name == "value"
    ]
    data = of(tensors[0]).data if tensors else None
    return np.array((), np.float32) if data is None or data.dtype.kind != "f" else data


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    stack = [graph]
    while stack:
        current = stack.pop()
        yield current
        stack += [inner for node in current.node for each in node.attribute for inner in graphs_in(each)]
