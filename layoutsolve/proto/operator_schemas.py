"""The definition check: nodes of a model in ONNX against the schemas of their operators, before native code sees them.

The shape inference and the version converter of onnx trust what they are given: a node with more inputs than its
operator has, an attribute of another type, or an axis that no tensor has ends the process. So a model that is read is
checked by its operators' schemas (:func:`check`), and operators whose inference ends the process for a valid node
are hidden from it meanwhile (:func:`shield`, :func:`set_aside`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from layoutsolve.base.wording import brief, printable
from layoutsolve.errors import ModelError
from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    graphs_in,
    integer,
    native,
    permutation,
)

_RANK, _INT = 1 << 10, (1 << 31) - 1
"""More dimensions than a tensor has, and the largest integer that native code hands on as an ``int``."""

MOST_DIMENSIONS = 32
"""As many dimensions as an array may have, which NumPy has in all versions."""

_AXIS, _POSITIVE = (-_RANK, _RANK), (1, _INT)

_RANGES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("axis", "axes", "batch_axis", "input_axes", "scan_input_axes", "scan_output_axes"), _AXIS),
    **dict.fromkeys(("time_axis",), _AXIS),
    **dict.fromkeys(("batch_dims", "perm"), (0, _RANK)),
    **dict.fromkeys(("blocksize", "dilations", "group", "hidden_size", "kernel_shape", "num_outputs"), _POSITIVE),
    **dict.fromkeys(("num_scan_inputs", "strides"), _POSITIVE),
}
"""The least and the largest integer that an attribute may have or hold, by its name: it means the same in all operators
of ONNX's own domain.
"""

_FIELDS: Mapping[int, str] = {
    AttributeProto.TENSOR: "t",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.GRAPH: "g",
    AttributeProto.TYPE_PROTO: "tp",
}
"""The field of an attribute, by its type, that has to be there; numbers, strings and lists may be empty."""

_TYPES: Mapping[int, str] = {code: name for name, code in AttributeProto.AttributeType.items()}

REMEDY = "the file breaks the definition of the operator: repair it, or export the model again"
"""What is said behind each fault of an operator."""

_DEEPEST = 4
"""How deeply types of sequences and optional values may lie within each other."""


class Definition(NamedTuple):
    """The schema of an operator: the least and most inputs and outputs, the names of inputs, which of these cannot be
    left out, attributes by name with their types, and which of these are required.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    names: tuple[str, ...]
    single: tuple[bool, ...]
    types: Mapping[str, int]
    required: frozenset[str]
    ranges: Mapping[str, tuple[int, int]]


@lru_cache(1024)
def definition(op: str, version: int, domain: str) -> Definition | None:
    """The definition of an operator in an operator set; None where onnx knows none, or has withdrawn it."""
    try:
        schema = native.defs.get_schema(op, version, domain)
    except Exception:  # whose class is the library's own
        return None
    if schema.deprecated:
        return None
    attributes = schema.attributes
    types = {name: each.type.value for name, each in attributes.items()}
    required = frozenset(name for name, each in attributes.items() if each.required)
    optional = native.defs.OpSchema.FormalParameterOption.Optional
    single = tuple(port.option != optional for port in schema.inputs)
    names = tuple(port.name for port in schema.inputs)
    ranges = {name: _RANGES[name] for name in types if name in _RANGES and not domain}
    ends = (schema.min_input, schema.max_input), (schema.min_output, schema.max_output)
    return Definition(*ends, names, single, types, required, ranges)


def check(model: ModelProto, since: int = 0) -> None:
    """Raise :class:`ModelError` unless all nodes fit the definitions of their operators. Operators of ONNX's own domain
    that the model's operator set lacks are those of set ``since``.
    """
    local = {(each.domain, each.name) for each in model.functions}
    _Checker(versions(model.opset_import), since, local, False).graph(model.graph)
    for function in model.functions:
        _Checker(versions(function.opset_import), since, local, True).nodes(function)


def versions(imports: Sequence[OperatorSetIdProto]) -> dict[str, int]:
    """Operator sets by domain; ONNX's own is called ''. The first import of a domain counts."""
    found: dict[str, int] = {}
    for each in imports:
        found.setdefault("" if each.domain in DOMAINS else each.domain, each.version)
    return {"": 1, **found}


def is_still(op: str, domain: str, one: int, other: int) -> bool:
    """Whether an operator is the same in two operator sets, but for types and for what may be left out."""
    if definition(op, one, domain) is None or definition(op, other, domain) is None:
        return False
    earlier, later = (native.defs.get_schema(op, version, domain) for version in sorted((one, other)))
    kept = all(
        name in later.attributes and _default(later.attributes[name]) == _default(each)
        for name, each in earlier.attributes.items()
    )
    return kept and all(one.name == two.name for one, two in zip(earlier.inputs, later.inputs, strict=False))


def _default(known: Any) -> tuple[int, bytes]:
    """The type of an attribute, and its default."""
    return known.type.value, bytes(known._default_value)  # of which the program's own part of onnx has no other form


class _Checker:
    """What checks the nodes of graphs in the same operator sets, ``within`` a function or not. The functions that the
    model defines are ``local``.
    """

    def __init__(self, versions: Mapping[str, int], since: int, local: set[tuple[str, str]], within: bool) -> None:
        self.versions, self.since, self.local, self.within = versions, since, local, within
        self.known: dict[tuple[str, str], Definition | None] = {}

    def graph(self, graph: GraphProto) -> None:
        """Check a graph and those within it."""
        for port in (*graph.input, *graph.output, *graph.value_info):
            kind, depth = port.type, 0
            while (held := kind.WhichOneof("value")) not in (None, "tensor_type") and depth <= _DEEPEST:
                if held not in ("sequence_type", "optional_type"):
                    break
                kind, depth = getattr(kind, held).elem_type, depth + 1
            if depth > _DEEPEST:
                raise ModelError(f"the type of '{printable(port.name)}' is nested more than {_DEEPEST} deep; {REMEDY}")
        self.nodes(graph)

    def nodes(self, graph: GraphProto | FunctionProto) -> None:
        """Check the nodes of a graph or a function, and the graphs within them."""
        for index, node in enumerate(graph.node):
            key = node.domain, node.op_type
            if key not in self.known:
                self.known[key] = self._definition(*key)
            found = self.known[key]
            reason = _reason(node, found, self.within) if found is not None else ""
            if reason:
                tensor = next(iter(node.output), "")
                raise ModelError(printable(f"operator {index} {node.op_type} (output '{tensor}') {reason}; {REMEDY}"))
            for each in node.attribute:
                for inner in graphs_in(each):
                    self.graph(inner)

    def _definition(self, domain: str, op: str) -> Definition | None:
        if (domain, op) in self.local:
            return None
        domain = "" if domain in DOMAINS else domain
        version = self.versions.get(domain, 0)
        if not 0 < version <= _INT:
            return None
        found = definition(op, version, domain)
        return found if found is not None or domain or version >= self.since else definition(op, self.since, domain)


def _reason(node: NodeProto, known: Definition, within: bool) -> str:
    """Why a node does not fit its definition, '' where it does; attributes may be a function's ``within`` one."""
    for what, names, (least, most) in (("input", node.input, known.inputs), ("output", node.output, known.outputs)):
        count = len(names)
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} or more" if count < least else f"{most} at most"
            return f"has {count} {what}{'s' if count != 1 else ''}, where {node.op_type} has {wanted}"
    if "" in node.input:
        for place, name in enumerate(node.input):
            if not name and known.single and known.single[min(place, len(known.single) - 1)]:
                return f"leaves out its input '{known.names[min(place, len(known.names) - 1)]}', which it needs"
    given = set()
    for each in node.attribute:
        name = each.name
        if name in given:
            return f"has the attribute '{name}' twice"
        given.add(name)
        if each.ref_attr_name and not within:
            return f"has the attribute '{name}' of a function, in which it is not"
        wanted_type = known.types.get(name)
        if wanted_type is not None and (told := _misfit(each, wanted_type, known.ranges.get(name))):
            return told
    if not known.required <= given:
        return f"lacks the attribute '{min(known.required - given)}', which it needs"
    rule = _RULES.get(node.op_type)
    return rule(node) if rule is not None and node.domain in DOMAINS else ""


def _misfit(given: AttributeProto, wanted: int, bounds: tuple[int, int] | None) -> str:
    """What is wrong with an attribute, '' for nothing."""
    if given.type != wanted:
        found = _TYPES.get(given.type, str(given.type))
        return f"has the attribute '{given.name}' of type {found}, which is of type {_TYPES.get(wanted, wanted)}"
    if given.ref_attr_name:
        return ""
    field = _FIELDS.get(wanted)
    if field is not None and not given.HasField(field):
        return f"has the attribute '{given.name}' without its value"
    if bounds is not None:
        least, most = bounds
        for number in given.ints if wanted == AttributeProto.INTS else (given.i,):
            if not least <= number <= most:
                return f"has {number} in its attribute '{given.name}', where {least} to {most} are possible"
    return ""


# -- what a schema does not tell -----------------------------------------------------------------------------------


_TERM = re.compile(r"[A-Za-z ]*(\.\.\.)?[A-Za-z ]*")
"""The labels of one operand of Einsum, or of its result."""


def _split(node: NodeProto) -> str:
    """As many results as there are outputs."""
    count = integer(node, "num_outputs", len(node.output))
    referred = any(each.ref_attr_name for each in node.attribute)
    return (
        "" if count == len(node.output) or referred else f"has {len(node.output)} outputs, and num_outputs is {count}"
    )


def _einsum(node: NodeProto) -> str:
    """Labels of all operands, and of the result if there is an arrow."""
    found = next((each for each in node.attribute if each.name == "equation"), None)
    if found is None or found.ref_attr_name:
        return ""
    text = found.s.decode("latin-1")
    operands, _, result = text.partition("->")
    terms = operands.split(",")
    fits = all(_TERM.fullmatch(term) for term in (*terms, result))
    return "" if fits and len(terms) == len(node.input) else f"has the equation {text!r} for {len(node.input)} inputs"


def _flow(node: NodeProto) -> str:
    """Graphs that are given as many values as the operator has for them, and give as many as it hands on."""
    for each in node.attribute:
        for graph in graphs_in(each):
            given, made = len(graph.input), len(graph.output)
            if node.op_type == "If":
                wanted, least = [0], len(node.output)
            elif node.op_type == "Loop":
                carried = len(node.input[2:])
                wanted, least = [2 + carried], 1 + max(carried, len(node.output))
            else:
                carried = len(node.input) - integer(node, "num_scan_inputs", 1)
                wanted, least = [len(node.input), len(node.input) - 1], max(carried - 1, len(node.output))
            if given not in wanted:
                return f"has {given} inputs in its graph '{each.name}', which is given {wanted[0]}"
            if made < least:
                return f"has {made} outputs in its graph '{each.name}', of which it returns {least}"
    return ""


def _transpose(node: NodeProto) -> str:
    """Each dimension once, however many there are."""
    perm = permutation(node) or ()
    return "" if sorted(perm) == list(range(len(perm))) else f"has the perm {brief(perm)}"


def _constant(node: NodeProto) -> str:
    """One value."""
    count = len(node.attribute)
    return "" if count == 1 else f"has {count} attributes, where a Constant has its value alone"


_RULES: Mapping[str, Callable[[NodeProto], str]] = {
    "Constant": _constant,
    "Einsum": _einsum,
    "If": _flow,
    "Loop": _flow,
    "Scan": _flow,
    "Split": _split,
    "Transpose": _transpose,
}
"""What operators ask for beyond their schemas, where native code trusts that it is so."""
