"""What ONNX's converter of versions leaves out: operators of older sets that it would change the meaning of.

* Resize and Upsample of sets before 11 place pixels at their corners, and the nearest one is that before where images
  are enlarged, that behind where they are reduced, as ONNX Runtime has it. Later ones place pixels at their centres
  unless told otherwise.
* Hardmax of sets before 13 takes all dimensions from its axis on as one. For Softmax, which does the same, the
  converter writes that out, so that a Hardmax passes it as a Softmax.
* Pad of sets before 11 may say what it fills with where it repeats what is there. That attribute is left as it was, and
  is none of later ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import Gap, UnsupportedError
from layoutsolve.frontend.onnx.constants import of, tensors_of
from layoutsolve.ir.graph import Array
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import DOMAINS, GraphProto, ModelProto, NodeProto, TensorProto, attribute, leave_out
from layoutsolve.proto.scopes import captures, graphs_of, names_in, needed, nodes_of, rename

_SCANS, _MASKS, _RESIZE, _CENTRES, _PADS, _FLAT = 9, 10, 10, 11, 11, 13
"""The operator sets from which on Scan is what it is today, Dropout's mask is of truth values, there is Resize, its
pixels have centres, Pad is given what it fills with, and an axis is one dimension.
"""

_MARK = "layoutsolve.older."


@dataclass(frozen=True)
class Meant:
    """What a node was before: its operator, its name, and attributes that it is to have."""

    op: str
    name: str
    told: Mapping[str, str]


def check(model: ModelProto, version: int, newest: int, read: AbstractSet[str]) -> None:
    """Raise :class:`UnsupportedError` for what has no form in the ``newest`` operator set; ``read`` is all that is
    read or given in the model.
    """
    tensors = _tensors(model.graph)
    alive = needed(model.graph)
    for index, top in enumerate(model.graph.node):
        if index not in alive:
            continue
        for node in (top, *(node for inner in graphs_of(top) for node in nodes_of(inner))):
            if node.domain not in DOMAINS:
                continue
            if reason := _lost(node, version, tensors, read):
                remedy = f"export the model in {newest} or newer"
                raise UnsupportedError([Gap(0, index, node.op_type, next(iter(node.output), ""), reason, remedy)])


def parted(model: ModelProto, read: AbstractSet[str]) -> ModelProto:
    """A model whose graphs have no nodes that nothing depends on, nor masks of a Dropout that are not ``read``, and
    read what nodes around them compute from an Identity: the converter replaces results within one graph alone.
    """
    made = ModelProto()
    made.CopyFrom(model)
    for node in nodes_of(made.graph):
        if node.op_type == "Dropout" and node.domain in DOMAINS and read.isdisjoint(node.output[1:]):
            del node.output[1:]
    _part(made.graph, Names(names_in(made.graph)))
    return made


def _part(graph: GraphProto, names: Names) -> None:
    nodes = [graph.node[index] for index in sorted(needed(graph))]
    computed = {name for node in nodes for name in node.output}
    apart: dict[str, str] = {}
    for node in nodes:
        others = {name: apart.get(name) or names.unique(name) for name in captures(node) if name in computed}
        apart |= others
        for inner in graphs_of(node):
            rename(inner, others)
            _part(inner, names)
    del graph.node[:]
    for node in nodes:
        graph.node.append(node)
        for name in node.output:
            if name in apart:
                graph.node.add(op_type="Identity", input=[name], output=[apart[name]])


def stages(model: ModelProto, version: int, newest: int) -> tuple[int, ...]:
    """The operator sets to convert to, one after the other: an Upsample is a Resize first, as which it is known."""
    upsampled = any(node.op_type == "Upsample" for node in nodes_of(model.graph))
    return (_RESIZE, newest) if upsampled and version < _RESIZE else (newest,)


def disguised(model: ModelProto, version: int) -> tuple[ModelProto, Mapping[str, Meant]]:
    """A model as the converter understands it, and by the names that nodes have meanwhile what they are."""
    if not any(_is_other(node, version) for node in nodes_of(model.graph)):
        return model, {}
    made, meant = ModelProto(), dict[str, Meant]()
    made.CopyFrom(model)
    tensors = _tensors(made.graph)
    for node in nodes_of(made.graph):
        if _is_other(node, version):
            if node.op_type == "Pad":
                leave_out(node, {"value"})
                continue
            mark = f"{_MARK}{len(meant)}"
            meant[mark] = Meant(node.op_type, node.name, _corners(node, tensors) if node.op_type == "Resize" else {})
            node.name, node.op_type = mark, "Softmax" if node.op_type == "Hardmax" else node.op_type
    return made, meant


def mended(model: ModelProto, meant: Mapping[str, Meant]) -> ModelProto:
    """A converted model, changed in place, whose nodes are what they were."""
    for node in nodes_of(model.graph):
        known = meant.get(node.name)
        if known is not None:
            node.op_type, node.name = known.op, known.name
            node.attribute.extend(attribute(*each) for each in known.told.items())
    return model


def _lost(node: NodeProto, version: int, tensors: Mapping[str, TensorProto], read: AbstractSet[str]) -> str:
    """Why a node has no form in later sets; '' where it has one."""
    if node.op_type == "Scan" and version < _SCANS:
        return f"Scan of operator set {version} takes a batch, which none does from {_SCANS} on"
    if node.op_type == "Dropout" and version < _MASKS and not read.isdisjoint(node.output[1:]):
        return f"the mask of a Dropout is numbers in operator set {version}, and truth values from {_MASKS} on"
    if node.op_type == "Resize" and version < _CENTRES and _is_nearest(node):
        scales = _scales(node, tensors)
        if (scales < 1).any() and (scales > 1).any():
            return f"it enlarges along one dimension and reduces along another, in operator set {version}"
    return ""


def _is_other(node: NodeProto, version: int) -> bool:
    """Whether the converter would change what a node means."""
    if node.domain not in DOMAINS:
        return False
    if node.op_type == "Pad":
        said = {each.name: each.s for each in node.attribute}
        return version < _PADS and "value" in said and said.get("mode", b"constant") != b"constant"
    return version < {"Resize": _CENTRES, "Hardmax": _FLAT}.get(node.op_type, 0)


def _is_nearest(node: NodeProto) -> bool:
    return all(each.s == b"nearest" for each in node.attribute if each.name == "mode")


def _corners(node: NodeProto, tensors: Mapping[str, TensorProto]) -> dict[str, str]:
    """What a later Resize has to be told, by its scales where these are known."""
    told = {"coordinate_transformation_mode": "asymmetric"}
    if not _is_nearest(node):
        return told
    return {**told, "nearest_mode": "ceil" if (_scales(node, tensors) < 1).any() else "floor"}


def _scales(node: NodeProto, tensors: Mapping[str, TensorProto]) -> Array:
    """The scales of a Resize, none where they are not known."""
    tensor = tensors.get(node.input[1]) if len(node.input) > 1 else None
    data = None if tensor is None else of(tensor).data
    return np.array((), np.float32) if data is None or data.dtype.kind != "f" else data


def _tensors(graph: GraphProto) -> dict[str, TensorProto]:
    """The constants of a graph and of those within it, by name."""
    found = dict(tensors_of(graph))
    for node in nodes_of(graph):
        for inner in graphs_of(node):
            found.update(tensors_of(inner))
    return found
