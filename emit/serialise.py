"""Writing a graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from layoutsolve.emit import qdq, selected_weights
from layoutsolve.emit.check import check
from layoutsolve.emit.dynamic_shapes import computed
from layoutsolve.emit.external import External
from layoutsolve.emit.functions import functions_of
from layoutsolve.emit.opset import OLDEST_OPSET, SEPARATE_INITIALIZERS, chosen_opset, imports, ir_version
from layoutsolve.emit.optimization_barriers import guard
from layoutsolve.emit.subgraphs import Regions
from layoutsolve.emit.writer import QuantForm, Writer
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import CONTROL, LAYOUT, STATE, Graph, Origin
from layoutsolve.proto.messages import DOMAINS, GraphProto, ModelProto, ValueInfoProto, native, opset_of
from layoutsolve.proto.scopes import graphs_of, nodes_of

QDQ = QuantForm()
"""Quantized operators are float operators between QuantizeLinear and DequantizeLinear."""


def serialise(
    graph: Graph,
    opset: int | None = None,
    external: External | None = None,
    budget: Budget | None = None,
    origins: dict[str, Origin] | None = None,
    quant: QuantForm = QDQ,
) -> ModelProto:
    """The ONNX model of a graph; its larger constants are left to ``external`` if that is given.

    All that is written counts in the ``budget``. Constants that lie in the same memory are written once. ``origins``
    are filled with where each node comes from, by its name. ``quant`` is how quantized operators are written.

    ``opset`` defaults to the lowest one that carries the graph. Raises :class:`OptionError` where it cannot express an
    operator of the graph, or is outside of what is written at all.
    """
    version = chosen_opset(graph, opset)
    writer = Writer(computed(graph), external, budget or Budget(), quant)
    told = ModelProto.FromString(graph.told) if graph.told else None
    if told is not None:
        writer.known = {(node.op_type, name): node.name for node in told.graph.node for name in node.output if name}
    model, written = _model(writer, version, told), writer.origins
    if opset is not None and opset < version:
        from layoutsolve.emit.older_opsets import bring  # which few ask for

        bring(model, version, opset, written)
        model.ir_version = ir_version(opset)
    elif told is not None and opset is None:
        _keep_versions(model, version, told, written)
    del writer  # the parts that the model is a copy of
    if not _unknown(model, graph):
        check(model, written, bool(graph.imports))
    if told is not None:
        _declare(model, told)
        _call_axes(model.graph, graph.axes)
        _denote(model, told)
    _leave_names_out(model.graph)
    if origins is not None:
        origins.update(written)
    return model


def _model(writer: Writer, version: int, source: ModelProto | None) -> ModelProto:
    """The model with all nodes of the writer's graph, and what a ``source`` in ONNX says of itself."""
    graph, regions = writer.graph, Regions(writer)
    for node in graph.nodes:
        writer.here, writer.origin = node.region, node.origin
        if node.op in CONTROL:
            regions.note(node)
        else:
            qdq.write(writer, node)
    writer.origin = None
    regions.close()
    writer.here = None
    selected_weights.write(writer)
    states = [node for node in graph.nodes if node.op == "State"]
    names = [*graph.inputs, *(node.outputs[0] for node in states)]
    inputs = [writer.info(graph.values[name], writer.name(name)) for name in names]
    for name, default in graph.defaults.items():
        writer.initializer(name, default.dtype, default.constant)
    outputs, following = _outputs(writer), [regions.next_state(node) for node in states]
    model, body = writer.model, writer.body
    model.ir_version, made = ir_version(version), model.graph
    made.name = graph.name
    made.node.extend([*writer.loading, *body.nodes])
    made.input.extend(inputs)
    made.output.extend(outputs + following)
    made.value_info.extend(body.infos)
    guard(made, version, writer.taken.unique)
    model.opset_import.extend(imports(version, _domains(made), graph.imports))
    model.functions.extend(functions_of(nodes_of(made), graph.functions, model.opset_import))
    replaced = {
        f"{STATE}{writer.name(node.outputs[0])}": after.name for node, after in zip(states, following, strict=True)
    }
    told = dict(sorted({**graph.metadata, **replaced}.items()))
    writer.budget.write(sum(len(part.encode()) for pair in told.items() for part in pair), "its metadata")
    for key, value in told.items():
        model.metadata_props.add(key=key, value=value)
    if source is not None:
        _tell(model, source, writer.origins)
    return model


def _tell(model: ModelProto, source: ModelProto, origins: Mapping[str, Origin]) -> None:
    """Let a model tell of itself what its source in ONNX does: texts about it, its tensors and its nodes, how it is
    trained, and the version of its format where that is higher.
    """
    for name in ("doc_string", "domain", "model_version"):
        setattr(model, name, getattr(source, name))
    model.ir_version = max(model.ir_version, source.ir_version)
    model.training_info.extend(source.training_info)
    model.graph.initializer.extend(source.graph.initializer)
    model.graph.doc_string = source.graph.doc_string
    model.graph.metadata_props.extend(source.graph.metadata_props)
    tensors, nodes = ({each.name: each for each in told} for told in (source.graph.value_info, source.graph.node))
    for each in (*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer):
        _text(each, tensors.get(each.name))
    for node in nodes_of(model.graph):
        found = nodes.get(node.name) or nodes.get(origins[node.name].name if node.name in origins else "")
        if found is not None and (node.name == found.name or node.op_type not in ("Transpose", "Reshape")):
            _text(node, found)


def _keep_versions(model: ModelProto, version: int, source: ModelProto, origins: dict[str, Origin]) -> None:
    """Bring a model to the operator set and the version of the format of a source in ONNX, or the next ones that have
    its operators.
    """
    own = opset_of(source)
    if own < version:
        from layoutsolve.emit.older_opsets import keep  # which sources of newer sets do not need

        keep(model, version, max(own, OLDEST_OPSET), origins)
    if opset_of(model) == own and not model.functions:
        model.ir_version = max(source.ir_version, SEPARATE_INITIALIZERS)
    elif opset_of(model) < version:
        model.ir_version = max(source.ir_version, ir_version(opset_of(model)))


def _declare(model: ModelProto, source: ModelProto) -> None:
    """State sizes of outputs that are open, and types of those of which nothing is known, as a source in ONNX does,
    which may state what nobody can infer.
    """
    types = {port.name: port.type for port in source.graph.output}
    kinds = {name: kind.tensor_type.shape.dim for name, kind in types.items()}
    for port in model.graph.output:
        if not port.type.WhichOneof("value") and port.name in types:
            port.type.CopyFrom(types[port.name])
    given = {dim.dim_param for port in model.graph.input for dim in port.type.tensor_type.shape.dim}
    moved = _moved(model)
    for port in (port for port in model.graph.output if port.name not in moved):
        own, stated = port.type.tensor_type.shape.dim, kinds.get(port.name, ())
        numbers = [(dim.dim_value, other.dim_value) for dim, other in zip(own, stated, strict=False)]
        if len(own) != len(stated) or any(0 < one != other > 0 for one, other in numbers):
            continue  # which is stated wrongly
        for dim, other in zip(own, stated, strict=True):
            if not dim.dim_value and dim.dim_param not in given and other.WhichOneof("value") is not None:
                dim.CopyFrom(other)


def _denote(model: ModelProto, source: ModelProto) -> None:
    """Say what inputs and outputs, and their dimensions, denote, as a source in ONNX does."""
    told = {port.name: port.type for port in (*source.graph.input, *source.graph.output)}
    moved = _moved(model)
    for port in (port for port in (*model.graph.input, *model.graph.output) if port.name in told):
        stated = told[port.name]
        if stated.denotation:
            port.type.denotation = stated.denotation
        denoted = any(dim.denotation for dim in stated.tensor_type.shape.dim)
        if denoted and port.name not in moved:
            for dim, other in zip(port.type.tensor_type.shape.dim, stated.tensor_type.shape.dim, strict=False):
                dim.denotation = other.denotation


def _moved(model: ModelProto) -> set[str]:
    """The inputs and outputs that are stored otherwise than in the source."""
    return {each.key.removeprefix(LAYOUT) for each in model.metadata_props if each.key.startswith(LAYOUT)}


def _call_axes(graph: GraphProto, axes: Mapping[str, Mapping[str, str]]) -> None:
    """Call sizes of tensors as the source does there, which may have several names for one."""
    for port in (*graph.input, *graph.output, *graph.value_info):
        for dim in port.type.tensor_type.shape.dim if port.name in axes else ():
            if dim.dim_param in axes[port.name]:
                dim.dim_param = axes[port.name][dim.dim_param]


def _leave_names_out(graph: GraphProto) -> None:
    """Leave names of sizes out of what is said of tensors between inputs and outputs, but for products by a number:
    where sizes have one name ONNX Runtime shares memory, and asks for some of it anew in every run.
    """
    for info in graph.value_info:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param and "*" not in dim.dim_param:
                dim.ClearField("dim_param")
    for node in graph.node:
        for each in graphs_of(node):
            _leave_names_out(each)


def _text(written: Any, source: Any) -> None:
    """Give a tensor or a node the texts that another has, None for nothing."""
    if source is not None and not written.doc_string:
        written.doc_string = source.doc_string
        written.metadata_props.extend(source.metadata_props)


_UNCHECKED = ("MeanVarianceNormalization",)
"""Operators whose definition ONNX refuses itself: as a function, its body has no default for an attribute."""


def _unknown(model: ModelProto, graph: Graph) -> bool:
    """Whether a source in ONNX has what ONNX itself knows nothing of, so that it could not check the model."""
    if not graph.imports:
        return False
    own = {node.op_type for node in nodes_of(model.graph) if node.domain in DOMAINS}
    foreign = any(value.foreign is not None for value in graph.values.values())
    return foreign or not own.isdisjoint(_UNCHECKED) or not all(map(native.defs.has_schema, own))


def _domains(graph: GraphProto) -> set[str]:
    """The domains of other operators than ONNX's own."""
    return {node.domain for node in nodes_of(graph)}.difference(DOMAINS)


def _outputs(writer: Writer) -> list[ValueInfoProto]:
    """The outputs; one that is a constant, an input, or listed twice is copied, since each needs a name of its own. An
    input that a source in ONNX has as an output stays both.
    """
    graph = writer.graph
    produced = {name for node in graph.nodes if node.op != "State" for name in node.outputs}
    seen: set[str] = set()
    infos = []
    for name in graph.outputs:
        public = graph.names.get(name, name)
        source = writer.stored(name)
        kept = bool(graph.imports) and name in graph.inputs and public == source
        if name in seen or (name not in produced and not kept):
            public = writer.taken.unique(public) if public == source or public in seen else public
            writer.node("Identity", [source], [public])
        seen.add(name)
        infos.append(writer.info(graph.values[name], public))
    return infos
