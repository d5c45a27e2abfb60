"""A source in ONNX as it stands, which is written where nothing else gains anything, and where layoutsolve has written
it before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from layoutsolve.conversion.provenance import DIGEST, KEYS, RETURNED, WRITTEN, Provenance, of_model, outline
from layoutsolve.emit import External
from layoutsolve.emit.tensors import fill
from layoutsolve.errors import ModelError
from layoutsolve.frontend.onnx import constants
from layoutsolve.frontend.onnx.reading import drop_inputs
from layoutsolve.io.source import Content, unchanged
from layoutsolve.ir.budget import GROWTH, SPARE
from layoutsolve.proto.messages import DOMAINS, ModelProto, NodeProto, TensorProto, permutation
from layoutsolve.proto.scopes import captures, sort


def as_it_stands(source: Content, external: External | None, drop: bool = False) -> ModelProto | None:
    """ONNX source as written unchanged: initializers from external data in the model or in ``external``, nodes in
    topological order, and with ``drop`` no input that is an initializer as well; None where it would be much larger,
    as many initializers share their data.
    """
    model: ModelProto = ModelProto.FromString(source.data)
    sort(model.graph)
    if drop:
        drop_inputs(model)
    outside = [proto for proto in model.graph.initializer if proto.data_location == TensorProto.EXTERNAL]
    if outside:
        beside = constants.Beside(source.folder, outside)
        if sum(map(beside.length, outside)) > GROWTH * (len(source.data) + beside.size) + SPARE:
            return None
        for proto in outside:
            found, name = constants.of(proto, beside), proto.name
            if found.data is not None:
                proto.Clear()
                fill(proto, name, found.dtype, found.data, external)
    unchanged(source.mapped)
    return model


def fold_transposes(model: ModelProto) -> None:
    """Have what a Transpose alone reads of a model's constants in it as that gives it. Constants in other files stay as
    they are, and so do those that training changes.
    """
    graph = model.graph
    read = Counter(name for node in graph.node for name in (*node.input, *captures(node)))
    read.update(port.name for port in (*graph.input, *graph.output))
    read.update(each.tensor_name for each in graph.quantization_annotation)
    held = {each.name: each for each in graph.initializer if read[each.name] == 1 and _is_plain(each)}
    ends, left = {port.name for port in graph.output}, list[NodeProto]()
    for node in graph.node if not model.training_info else ():
        proto = held.get(node.input[0]) if node.op_type == "Transpose" and node.domain in DOMAINS else None
        found = None if proto is None or node.output[0] in ends else constants.of(proto)
        if proto is None or found is None or found.data is None:
            left.append(node)
            continue
        name = node.output[0]
        proto.Clear()
        fill(proto, name, found.dtype, found.data.transpose(permutation(node)))
        if read[name] == 1:
            held[name] = proto
    if 0 < len(left) < len(graph.node):
        copies = [NodeProto.FromString(node.SerializeToString()) for node in left]
        del graph.node[:]
        graph.node.extend(copies)


def _is_plain(proto: TensorProto) -> bool:
    """Whether a constant is of known elements that are in the file itself."""
    return proto.data_location != TensorProto.EXTERNAL and proto.data_type in constants.TYPES


def say_how(model: ModelProto, made: Provenance) -> None:
    """Add the provenance to the metadata of a source that is returned unchanged, whoever is its producer. Provenance
    that it has already stays.
    """
    try:
        of_model(model)
    except ModelError:
        told = {RETURNED: made.version, **made.metadata}
        others = [(each.key, each.value) for each in model.metadata_props if each.key not in KEYS]
        del model.metadata_props[:]
        for key, value in [*others, *sorted(told.items())]:
            model.metadata_props.add(key=key, value=value)


def written_before(model: ModelProto, ways: Collection[Provenance]) -> bool:
    """Whether a source is what layoutsolve has written before, in one of some ways, and does what it did: then it is
    the result. Other numbers may be in its weights.
    """
    facts = {entry.key: entry.value for entry in model.metadata_props}

    def alike(made: Provenance) -> bool:
        said = {key: value for key, value in made.metadata.items() if key != DIGEST}
        return model.producer_version == made.version and said == {key: facts.get(key) for key in said}

    return WRITTEN in facts and any(map(alike, ways)) and facts[WRITTEN] == outline(model)
