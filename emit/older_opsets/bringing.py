"""Models in operator sets before the one that all is written in: for compilers of devices that ask for such.

A model is written in :data:`layoutsolve.emit.opset.LOWEST_OPSET` or a later set, then node by node brought to the one
that is asked for: what did not change since stays, attributes that have their default are left out, and what is
expressed in another way there has a rewrite (:mod:`layoutsolve.emit.older_opsets.rewrites`). A node fits a set where
its schema has its inputs, attributes and types; ``onnx.defs`` knows the schemas of all sets. What changed in meaning
alone has a rewrite as well. Anything else is an error that names the operator, and the oldest set that has it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from layoutsolve.base.wording import printable
from layoutsolve.emit.check import outline_of
from layoutsolve.emit.older_opsets.rewrites import CODES, REWRITES, SLOWER
from layoutsolve.emit.older_opsets.step import Made, Scope, Step
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Origin
from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    leave_out,
    native,
    opset_of,
)
from layoutsolve.proto.scopes import captures, graphs_of

_LEAVE = "leave --opset out, or cut the model before it"

_NAMES = {code: {"float32": "float", "float64": "double"}.get(name, name) for code, name in CODES.items()}
"""The names of types as schemas have them, by their codes."""


class OpsetError(OptionError):
    """An operator that an operator set cannot express: the oldest ``version`` that has it, and ``what`` it is."""

    def __init__(self, message: str, version: int, what: str) -> None:
        super().__init__(message)
        self.version, self.what = version, what


def bring(model: ModelProto, written: int, version: int, origins: dict[str, Origin], *, alike: bool = False) -> None:
    """Bring a model that is ``written`` in one operator set to an older one; ``origins`` by names of nodes are kept.
    Where operators are to be ``alike``, none of :data:`SLOWER` is written as several others.

    Raises :class:`OpsetError` for an operator that the older one cannot express, with the model as it was.
    """
    if model.functions:
        told = f"opset {version} cannot carry this model: functions need opset {written}; {_LEAVE}"
        raise OpsetError(told, written, "functions")
    scope = Scope(model.graph, written, version, dict(origins), alike=alike)
    scope.infer(model)
    _replace(scope, _brought_nodes(scope))
    origins.update(scope.origins)
    for each in model.opset_import:
        if each.domain in DOMAINS:
            each.version = version


def keep(model: ModelProto, written: int, version: int, origins: dict[str, Origin]) -> None:
    """Bring a model that is ``written`` in one operator set to the oldest one, from a ``version`` on, that has its
    operators as they are or in another form of the same speed.
    """
    while version < written:
        try:
            bring(model, written, version, origins, alike=True)
        except OpsetError as error:
            version = max(version + 1, error.version)
        else:
            return


def needed(model: ModelProto, version: int) -> str:
    """What of a model needs a newer operator set than one, '' for nothing."""
    try:
        bring(outline_of(model), opset_of(model), version, {}, alike=True)
    except OpsetError as error:
        return error.what
    return ""


def _brought_nodes(scope: Scope) -> Made:
    """The nodes of a graph in the set; those of graphs within them are replaced there."""
    made: Made = []
    for source in scope.graph.node:
        node = NodeProto.FromString(source.SerializeToString())
        for inner in graphs_of(node):
            within = Scope(inner, scope.written, scope.version, scope.origins, scope)
            _replace(within, _brought_nodes(within))
        if node.domain not in DOMAINS:
            made.append(node)
            continue
        for each in _brought(Step(scope, node)):
            _check(Step(scope, each), source)
            made.append(each)
    return made


def _replace(scope: Scope, made: Made) -> None:
    """Have a graph of other nodes, with their constants, and without those that only its former ones have read."""
    graph, before = scope.graph, _read(scope.graph)
    del graph.node[:]
    graph.node.extend(made)
    unread = before - _read(graph)
    for index in reversed([index for index, each in enumerate(graph.initializer) if each.name in unread]):
        del graph.initializer[index]
    graph.initializer.extend(scope.held)


def _read(graph: GraphProto) -> set[str]:
    """The tensors that a graph reads or gives."""
    names = {name for node in graph.node for name in (*node.input, *captures(node))}
    return names | {port.name for port in (*graph.input, *graph.output)}


@cache
def _schema(op: str, version: int) -> Any:
    """The schema of an operator in a set, None where it has none there."""
    try:
        found = native.defs.get_schema(op, version, "")
    except Exception:  # whose class is the library's own
        return None
    return None if found.deprecated else found


def _brought(step: Step) -> Made:
    """The nodes that stand for one in the set: itself, where nothing has changed."""
    node = step.node
    rewrite = REWRITES.get(node.op_type)
    if rewrite is not None and step.version < rewrite[0]:
        before = NodeProto.FromString(node.SerializeToString())
        op, found = node.op_type, rewrite[1](step)
        if found is None or (step.scope.alike and op in SLOWER and len(found) > 1):
            raise _needs(step, before, max(rewrite[0], _since(step, before)), rewrite[2])
        return found
    return [node]


def _check(step: Step, source: NodeProto) -> None:
    """Raise :class:`OptionError` unless a node fits the set; attributes with their defaults are left out."""
    node, version = step.node, step.version
    older, newer = _schema(node.op_type, version), _schema(node.op_type, step.scope.written)
    if newer is not None and older is not None and newer.since_version == older.since_version:
        return
    if older is None:
        raise _needs(step, source, _since(step, node), "")
    known = {} if newer is None else newer.attributes
    for each in [each for each in node.attribute if each.name not in older.attributes]:
        if each.name not in known or not _is_default(each, AttributeProto.FromString(known[each.name]._default_value)):
            raise _needs(step, source, _since(step, node), f"with its {each.name}")
        leave_out(node, (each.name,))
    while len(node.input) > older.max_input and not node.input[-1]:
        del node.input[-1]
    if not older.min_input <= len(node.input) <= older.max_input or len(node.output) > older.max_output:
        raise _needs(step, source, _since(step, node), "with its inputs and outputs")
    for given, ports in ((node.input, older.inputs), (node.output, older.outputs)):
        for position, name in enumerate(given):
            port = ports[min(position, len(ports) - 1)]
            dtype = _NAMES.get(step.type(name), "")
            if name and dtype and f"tensor({dtype})" not in port.types:
                raise _needs(step, source, _since(step, node), f"of {dtype}")


def _is_default(given: Any, default: Any) -> bool:
    """Whether an attribute is what it is where it is left out."""
    if not default.name:  # which has none: an empty list, or 0, says as much
        return not (given.ints or given.floats or given.strings or given.s or given.i or given.f or given.HasField("t"))
    kinds = ("i", "f", "s", "ints", "floats", "strings")
    return all(getattr(given, kind) == getattr(default, kind) for kind in kinds)


def _since(step: Step, node: NodeProto) -> int:
    """The oldest set behind the one that is asked for in which an operator is as it is written."""
    for version in range(step.version + 1, step.scope.written):
        if _schema(node.op_type, version) is None:
            continue
        copy = NodeProto.FromString(node.SerializeToString())
        again = Step(step.scope, copy)
        again.version = version
        try:
            _check(again, copy)
        except OptionError:
            continue
        return version
    return step.scope.written


def _needs(step: Step, node: NodeProto, version: int, what: str) -> OpsetError:
    origin = step.scope.origins.get(node.name)
    tensor = next(filter(None, node.output), "")
    place = f"{origin} is written as {node.op_type}" if origin is not None else node.op_type
    shown = printable(f"{place}{f' {what}' if what else ''} (output '{tensor}')")
    told = f"opset {step.version} cannot carry this model: {shown} needs opset {version}; use that, or {_LEAVE}"
    return OpsetError(told, version, node.op_type)
