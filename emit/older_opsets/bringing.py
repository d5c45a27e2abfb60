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
from layoutsolve.emit.older_opsets.rewrites import CODES, REWRITES
from layoutsolve.emit.older_opsets.step import Made, Scope, Step
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Origin
from layoutsolve.proto.messages import DOMAINS, AttributeProto, ModelProto, NodeProto, leave_out, native
from layoutsolve.proto.scopes import graphs_of

_LEAVE = "leave --opset out, or cut the model before it"

_NAMES = {code: {"float32": "float", "float64": "double"}.get(name, name) for code, name in CODES.items()}
"""The names of types as schemas have them, by their codes."""


def bring(model: ModelProto, written: int, version: int, origins: dict[str, Origin]) -> None:
    """Bring a model that is ``written`` in one operator set to an older one; ``origins`` by names of nodes are kept.

    Raises :class:`OptionError` for an operator that the older one cannot express.
    """
    if model.functions:
        raise OptionError(f"opset {version} cannot carry this model: functions need opset {written}; {_LEAVE}")
    scope = Scope(model.graph, written, version, origins)
    scope.infer(model)
    _bring(scope)
    for each in model.opset_import:
        if each.domain in DOMAINS:
            each.version = version


def _bring(scope: Scope) -> None:
    """Bring all nodes of a graph to the set."""
    made: Made = []
    for node in scope.graph.node:
        for inner in graphs_of(node):
            _bring(Scope(inner, scope.written, scope.version, scope.origins, scope))
        if node.domain not in DOMAINS:
            made.append(node)
            continue
        for each in _brought(Step(scope, node)):
            _check(Step(scope, each), node)
            made.append(each)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in made]
    del scope.graph.node[:]
    scope.graph.node.extend(copies)
    scope.graph.initializer.extend(scope.held)


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
        found = rewrite[1](step)
        if found is None:
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


def _needs(step: Step, node: NodeProto, version: int, what: str) -> OptionError:
    origin = step.scope.origins.get(node.name)
    tensor = next(filter(None, node.output), "")
    place = f"{origin} is written as {node.op_type}" if origin is not None else node.op_type
    shown = printable(f"{place}{f' {what}' if what else ''} (output '{tensor}')")
    return OptionError(
        f"opset {step.version} cannot carry this model: {shown} needs opset {version}; use that, or {_LEAVE}"
    )
