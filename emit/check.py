"""Validation of a model against ONNX's schemas and its own statements, before anything is written.

ONNX's own checker and its inference of types and shapes go over an outline of the model: all of its nodes, without the
bytes of larger constants. So every node is known to its operator set, with as many inputs and outputs, attributes and
types as its definition has, and every tensor has the type and the sizes that are declared for it. Then every operator
has to be one that ONNX Runtime has a kernel for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from layoutsolve.base.wording import FAULT, OTHER_TYPE, native_words, printable
from layoutsolve.emit.functions import kernel_of
from layoutsolve.errors import LoweringError
from layoutsolve.ir.functions import PLAN
from layoutsolve.ir.graph import Origin
from layoutsolve.proto import pool_sizes, rank_limits
from layoutsolve.proto.fragile_operators import bring_back, set_aside
from layoutsolve.proto.messages import (
    REFUSALS,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    inferred,
)
from layoutsolve.proto.operator_schemas import REMEDY as BROKEN
from layoutsolve.proto.operator_schemas import definition, versions
from layoutsolve.proto.ort_kernels import missing_kernel
from layoutsolve.proto.scopes import graphs_of, nodes_of

_SMALL = 64
"""Bytes up to which a constant stays in the outline: shapes, axes and the like, from which sizes follow."""

_SMALL_SIZES = 1024
"""The same for int64, the type of sizes."""

_INT64 = TensorProto.INT64

_DOMAINS = ("", "ai.onnx.ml", PLAN)
"""The domains whose operators ONNX defines, and that of functions, which the model itself defines."""

ELEMENTS = {
    code: {"FLOAT": "float", "DOUBLE": "double"}.get(name, name.lower()) for name, code in TensorProto.DataType.items()
}
"""The names of types of elements, as definitions of operators have them."""


def check(model: ModelProto, origins: Mapping[str, Origin], given: bool = False) -> None:
    """Raise :class:`LoweringError` unless the model is valid; ``origins`` maps names of nodes to source operators. Of a
    ``given`` ONNX source, operators that it has itself may be such that no runtime has a kernel for them.
    """
    known = {port.name for port in model.graph.input}.union(*(node.output for node in model.graph.node))
    for port in model.graph.output:
        if port.name not in known:
            raise LoweringError(f"nothing computes the output '{port.name}'")
    follow = bool(_names(model.graph)) and not _has_long_vectors(model.graph)
    made = outline_of(model)
    try:
        outline = inferred((rank_limits.checked(made) if given else made).SerializeToString(), follow)
    except REFUSALS as error:
        raise _refusal(error, made, origins, given) from error
    bring_back(outline)
    rank_limits.bring_back(outline)
    found = outline.graph
    _check_sizes(model.graph, found)
    kernels = {each.name: kernel_of(each) for each in model.functions}
    _check_kernels(found, versions(model.opset_import), kernels, origins, {}, given)


def outline_of(model: ModelProto) -> ModelProto:
    """The model with larger constants as inputs, and without nodes that ONNX does not define: their results are inputs.

    Names of sizes are left out but for the inputs', so that they are inferred.
    """
    graph = model.graph
    outline = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    made = outline.graph
    made.name = graph.name or "graph"
    made.node.extend(graph.node)
    for node in nodes_of(made):
        if pool_sizes.is_ceiling(node):
            node.CopyFrom(pool_sizes.floored(node))
    made.input.extend(graph.input)
    made.output.extend(graph.output)
    made.value_info.extend(graph.value_info)
    inputs = {port.name for port in graph.input}
    for constant in graph.initializer:
        limit = _SMALL_SIZES if constant.data_type == TensorProto.INT64 else _SMALL
        few = prod(constant.dims) <= limit  # to ask for their bytes is to copy them
        if constant.name in inputs:  # a default, from which nothing follows
            continue
        if few and len(constant.raw_data) <= limit and not constant.external_data:
            made.initializer.append(constant)
        else:
            tensor_type = made.input.add(name=constant.name).type.tensor_type
            tensor_type.elem_type = constant.data_type
            tensor_type.shape.SetInParent()
            for size in constant.dims:
                tensor_type.shape.dim.add(dim_value=size)
    set_aside(outline)
    made.input.extend(_without_foreign(made))
    if _names(graph):
        for info in (*made.output, *made.value_info):
            for dim in info.type.tensor_type.shape.dim:
                dim.ClearField("dim_param")
    return outline


def _names(graph: GraphProto) -> set[str]:
    """The names of sizes of inputs."""
    return {dim for port in graph.input for dim in _sizes(port) if isinstance(dim, str)}


def _has_long_vectors(graph: GraphProto) -> bool:
    """Whether there are long vectors of int64: inference that follows numbers follows each of theirs."""
    ports = (each.type.tensor_type for each in (*graph.input, *graph.output, *graph.value_info))
    vectors = (port.shape.dim[0].dim_value for port in ports if len(port.shape.dim) == 1 and port.elem_type == _INT64)
    return any(size > _SMALL_SIZES for size in vectors)


def _without_foreign(graph: GraphProto, inner: bool = False) -> list[ValueInfoProto]:
    """Take nodes of other domains out of the graph and of those in it; returns what they compute.

    Those stay whose results no input can stand for: it has a rank, and what an inner graph returns is computed there.
    ONNX is less strict about graphs with such nodes.
    """
    ports = (*graph.value_info, *graph.output)
    known = {port.name: port for port in ports if port.type.tensor_type.HasField("shape")}
    for port in graph.output if inner else ():
        known.pop(port.name, None)
    found: list[ValueInfoProto] = []
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.domain in _DOMAINS:
            found += (info for each in graphs_of(node) for info in _without_foreign(each, inner=True))
        elif known.keys() >= set(filter(None, node.output)):
            found += [known[name] for name in node.output if name]
            del graph.node[index]
    return found


def _refusal(error: Exception, model: ModelProto, origins: Mapping[str, Origin], given: bool) -> LoweringError:
    """The error that names the operator of which a refused node comes. Where that stands so in a source in ONNX, the
    source is at fault.
    """
    text, reason = str(error), native_words(error)
    named = max((name for name in origins if f"ame: {name}" in text), key=len, default=None)
    if named is None:
        return LoweringError(printable(f"ONNX refuses the model: {reason}; {FAULT}"))
    node = next((node for node in nodes_of(model.graph) if node.name == named), None)
    if given and node is not None and node.op_type == origins[named].operator:
        tensor = next(filter(None, node.output), "")
        fault = f"{origins[named]} (output '{tensor}') is what ONNX refuses: {_typed(reason, node, model)}; {BROKEN}"
    elif node is not None and (typed := re.fullmatch(r"\w+ typestr: .* has unsupported type: tensor\((.+)\)", reason)):
        fault = f"{origins[named]} would become {node.op_type} of {typed[1]}, which ONNX does not define: {OTHER_TYPE}"
    else:
        fault = f"{origins[named]} would become the node '{named}', which ONNX refuses: {reason}; {FAULT}"
    return LoweringError(printable(fault))


def _typed(reason: str, node: NodeProto, model: ModelProto) -> str:
    """The reason, which names the tensor where an input is of a type that the operator does not take there."""
    found = re.fullmatch(r"(\w+) typestr: .*, has unsupported type: (.+)", reason)
    known = definition(node.op_type, versions(model.opset_import).get(node.domain, 0), node.domain)
    if found is None or known is None or found[1] not in known.names[: len(node.input)]:
        return reason
    slot = known.names.index(found[1])
    return f"it reads '{node.input[slot]}', a {found[2]}, as its {found[1]}, which takes other types"


def _check_sizes(graph: GraphProto, inferred: GraphProto) -> None:
    """Raise where what is declared to be the size of an input is inferred to be another one."""
    names = _names(graph)
    if not names:
        return
    found = {info.name: _sizes(info) for info in (*inferred.value_info, *inferred.output)}
    for info in (*graph.value_info, *graph.output):
        declared = _sizes(info)
        for mine, other in zip(declared, found.get(info.name, ()), strict=False):
            if mine != other and mine in names and (other in names or isinstance(other, int)):
                raise LoweringError(f"'{info.name}' is declared to have the size {mine}, but has {other}")


def _sizes(info: ValueInfoProto) -> list[int | str | None]:
    """The dimensions of a tensor, None where they are not known."""
    dims = info.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]


def _check_kernels(
    graph: GraphProto,
    versions: Mapping[str, int],
    kernels: Mapping[str, tuple[str, str]],
    origins: Mapping[str, Origin],
    outer: Mapping[str, str],
    source: bool,
) -> None:
    """Raise where ONNX Runtime has no kernel for a node, or for the operator in the function that it calls."""
    infos = (*graph.value_info, *graph.input, *graph.output)
    types = {**outer, **{info.name: ELEMENTS.get(info.type.tensor_type.elem_type, "") for info in infos}}
    types.update((constant.name, ELEMENTS.get(constant.data_type, "")) for constant in graph.initializer)
    for node in graph.node:
        given, made = (tuple(types.get(name, "") for name in names) for names in (node.input, node.output))
        where = origins.get(node.name)
        if source and (where is None or where.operator == node.op_type):
            continue
        domain, op = kernels[node.op_type] if node.domain == PLAN else (node.domain, node.op_type)
        missing = missing_kernel(domain, op, versions.get(domain, 1), given, made)
        if missing:
            raise LoweringError(
                f"{where or 'the model'} would become {node.op_type} of {' and '.join(missing)}, for which ONNX "
                f"Runtime has no kernel: {OTHER_TYPE}"
            )
        for inner in graphs_of(node):
            _check_kernels(inner, versions, kernels, origins, types, source)
