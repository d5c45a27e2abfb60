"""Models in older operator sets, as models in an operator set that is written."""

from __future__ import annotations

from collections.abc import Container

from layoutsolve.base.wording import native_words
from layoutsolve.errors import Gap, ModelError, UnsupportedError
from layoutsolve.frontend.onnx.old_opsets import check, disguised, mended, parted, stages
from layoutsolve.proto import rank_limits
from layoutsolve.proto.fragile_operators import bring_back, is_fragile, set_aside
from layoutsolve.proto.messages import DOMAINS, NEWEST_OPSET, ModelProto, native, opset_of
from layoutsolve.proto.operator_schemas import is_still
from layoutsolve.proto.scopes import nodes_of, read_in

LOWEST, OLDEST = 18, 7
"""The operator set that older ones are converted to, and the oldest that can be."""

_EARLY, _ASIDE = {"LayerNormalization": 17}, "layoutsolve.aside"
"""Operators that ONNX Runtime's optimiser writes into operator sets before the one that they are of, where the library
finds nothing to convert; and the domain that they are in meanwhile.
"""


def converted(model: ModelProto) -> ModelProto:
    """A model in an operator set from :data:`LOWEST` on. Raises :class:`UnsupportedError` where that is impossible."""
    version = opset_of(model)
    if version > NEWEST_OPSET:
        raise ModelError(
            f"the model is in operator set {version}, the installed onnx knows those up to {NEWEST_OPSET}: install a"
            f" newer onnx"
        )
    used = any(node.domain in DOMAINS for node in model.graph.node)
    if version >= LOWEST or not used:
        if not used and version < LOWEST:
            _import(model)
        return model
    if version < OLDEST:
        raise ModelError(f"the model is in operator set {version}: export it in {OLDEST} or newer")
    model = _spelled(model)
    read = read_in(model.graph)
    check(model, version, LOWEST, read)
    given, model = model, rank_limits.checked(model)
    if not all(is_still(op, "", version, LOWEST) for op in rank_limits.hidden(model)):
        rank_limits.check(given)  # which raises
    made = _brought(parted(model, read), version)
    del made.metadata_props[:]
    made.metadata_props.extend(model.metadata_props)
    return made


def _brought(model: ModelProto, version: int) -> ModelProto:
    """A model in the operator set :data:`LOWEST`, as the library converts it from an older version."""
    from onnx import version_converter

    early = {name for name, since in _EARLY.items() if version < since}
    early |= {node.op_type for node in model.graph.node if not node.domain and not native.defs.has_schema(node.op_type)}
    made = _moved(model, early, "", _ASIDE)
    if any(map(is_fragile, nodes_of(model.graph))):
        made = ModelProto.FromString(made.SerializeToString())
        set_aside(made)
    try:
        for stage in stages(model, version, LOWEST):
            disguise, meant = disguised(made, opset_of(made))
            made = mended(version_converter.convert_version(disguise, stage), meant)
        bring_back(made)
        made = _moved(made, early, _ASIDE, "")
        rank_limits.bring_back(made)
    except Exception as error:  # whatever the library raises for what it cannot convert
        reason = f"it cannot be converted from operator set {version} to {LOWEST}: {native_words(error)}"
        raise UnsupportedError([Gap(0, -1, "(model)", "", reason, f"export the model in {LOWEST} or newer")]) from error
    return made


def _spelled(model: ModelProto) -> ModelProto:
    """A model in which ONNX's own domain has one of its names, the empty one; itself where that is so."""
    if not any(each.domain == DOMAINS[1] for each in (*nodes_of(model.graph), *model.opset_import)):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for node in nodes_of(made.graph):
        node.domain = "" if node.domain == DOMAINS[1] else node.domain
    imports = [each for each in model.opset_import if each.domain not in DOMAINS]
    del made.opset_import[:]
    made.opset_import.add(domain="", version=opset_of(model))
    made.opset_import.extend(imports)
    return made


def _moved(model: ModelProto, operators: Container[str], before: str, after: str) -> ModelProto:
    """A model with some operators in another domain; itself where it has none of these."""
    if not any(node.domain == before and node.op_type in operators for node in model.graph.node):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        if node.domain == before and node.op_type in operators:
            node.domain = after
    imports = [each for each in made.opset_import if each.domain != _ASIDE]
    del made.opset_import[:]
    made.opset_import.extend(imports)
    if after == _ASIDE:
        made.opset_import.add(domain=_ASIDE, version=1)
    return made


def _import(model: ModelProto) -> None:
    others = [each for each in model.opset_import if each.domain not in DOMAINS]
    del model.opset_import[:]
    model.opset_import.add(domain="", version=LOWEST)
    model.opset_import.extend(others)
