"""Which operator sets a model is written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from layoutsolve.base.wording import brief
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Graph
from layoutsolve.proto.messages import NEWEST_OPSET, OperatorSetIdProto

LOWEST_OPSET = 18
"""The oldest operator set that is written: the one in which all Reduce operators take their axes as input."""

OLDEST_OPSET = 11
"""The oldest one that a model may be brought to (:mod:`layoutsolve.emit.older_opsets`): the one in which sizes of Pad,
Slice, Resize and Clip are inputs.
"""

HIGHEST_OPSET = min(24, NEWEST_OPSET)
"""The newest one that is written, as far as the installed onnx knows it."""

SEPARATE_INITIALIZERS = 4
"""The oldest version of the file format in which initializers are no inputs."""

_OF_OPERATOR = {"DFT": 20, "Gelu": 20}
_OF_STRINGS = {"Equal": 19}
_OF_STORAGE = {"int16": 21, "uint16": 21, "int4": 21, "uint4": 21}
_OF_BLOCKS = 21

_FORMATS = {
    11: 6,
    12: 7,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
    25: 13,
}
"""The oldest version of the file format in which an operator set may be written."""

_VERSIONS = {"ai.onnx.ml": 3}
"""The version of other domains, where it is not 1: that of opset 18's time."""


def required_opset(graph: Graph) -> int:
    """The lowest operator set, from :data:`LOWEST_OPSET` on, that carries the graph.

    Operators of a source in ONNX are as they are in its own.
    """
    plain = () if graph.imports else graph.nodes
    operators = (_OF_OPERATOR.get(node.op, LOWEST_OPSET) for node in plain if not node.domain)
    texts = (
        _OF_STRINGS.get(node.op, LOWEST_OPSET)
        for node in graph.nodes
        if any(name and graph.values[name].dtype == "string" for name in node.inputs)
    )
    stored = (
        _OF_BLOCKS if value.quant.block else _OF_STORAGE.get(value.dtype, LOWEST_OPSET)
        for value in graph.values.values()
        if value.quant
    )
    return max([LOWEST_OPSET, graph.imports.get("", 0), *operators, *texts, *stored])


def chosen_opset(graph: Graph, asked: int | None) -> int:
    """The operator set to write: the one that is asked for, else the lowest that carries the graph. For one before that
    it is the lowest, from which the model is brought to the older one.

    Raises :class:`OptionError` where ``asked`` is outside of what is written at all.
    """
    lowest = required_opset(graph)
    highest = max(HIGHEST_OPSET, graph.imports.get("", 0))
    version = lowest if asked is None else asked
    if not OLDEST_OPSET <= version <= highest:
        raise OptionError(f"opset {brief(version)} cannot carry this model: use one from {OLDEST_OPSET} to {highest}")
    return max(version, lowest)


def ir_version(version: int) -> int:
    """IR version of a model of an opset."""
    return _FORMATS.get(version, _FORMATS[max(_FORMATS)])


def imports(version: int, domains: Iterable[str], given: Mapping[str, int]) -> list[OperatorSetIdProto]:
    """What a model has to import that is written in an operator set and has operators of other domains, of which the
    source may have ``given`` versions.
    """
    versions = {**_VERSIONS, **given}
    others = [OperatorSetIdProto(domain=domain, version=versions.get(domain, 1)) for domain in sorted(set(domains))]
    return [OperatorSetIdProto(domain="", version=version), *others]
