"""From a checked model to the reference graph: one operator after the other, each by the lowering registered for it."""

from __future__ import annotations

import layoutsolve.frontend.operators  # noqa: F401  (registers the lowerings)
from layoutsolve.errors import Gap, ModelError, UnsupportedError
from layoutsolve.frontend.builder import REGISTRY, Call, Lowering
from layoutsolve.frontend.dilated import dilated
from layoutsolve.frontend.fold import fold
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.model import Model, Operator, Tensor
from layoutsolve.frontend.quantisation import quant_of
from layoutsolve.graph import Dim, Graph, Node, Shape, Value, symbol

_CONTRADICTIONS = (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError)
"""What arithmetic on options and shapes that contradict each other raises."""

_REMEDIES = {
    "CUSTOM": "replace the custom operator by built-in ones, or cut the model before it",
    "VAR_HANDLE": "convert a model without variables",
    "READ_VARIABLE": "convert a model without variables",
    "ASSIGN_VARIABLE": "convert a model without variables",
    "WHILE": "unroll the loop when exporting the model",
    "IF": "export one branch only",
    "CALL_ONCE": "convert a model without variables",
}
_REMEDY = "express it by other operators in the source model"


def lower(model: Model, name: str) -> Graph:
    """The reference graph of a model's main subgraph. Raises :class:`UnsupportedError` with all its gaps at once."""
    try:
        return _lower(Lowering(dilated(model)), name)
    except GapError as error:
        raise UnsupportedError([Gap(0, -1, "(model)", "", error.reason, error.remedy)]) from error
    except _CONTRADICTIONS as error:
        raise ModelError(f"the model contradicts itself: {error}") from error


def _lower(lowering: Lowering, name: str) -> Graph:
    gaps: list[Gap] = []
    broken: set[int] = set()
    _enter_inputs(lowering)
    for operator in lowering.subgraph.operators:
        gap = _lower_operator(lowering, operator, broken)
        if gap is not None:
            gaps.append(gap)
        if gap is not None or broken.intersection(operator.inputs):
            broken.update(operator.outputs)
    if gaps:
        raise UnsupportedError(gaps)
    return _graph(lowering, name)


def _lower_operator(lowering: Lowering, operator: Operator, broken: set[int]) -> Gap | None:
    call = Call(lowering, operator)
    function = REGISTRY.get(operator.name)
    try:
        if function is None:
            kind = operator.name.split(":")[0]
            raise GapError("no conversion for this operator", _REMEDIES.get(kind, _REMEDY))
        if not broken.intersection(operator.inputs) and not fold(call):
            function(call)
    except GapError as error:
        outputs = [lowering.tensor_names[index] for index in operator.outputs]
        tensor = outputs[0] if outputs else ""
        return Gap(lowering.position, operator.index, operator.name, tensor, error.reason, error.remedy)
    except ModelError as error:
        raise error if str(call.origin) in str(error) else ModelError(f"{call.origin}: {error}") from error
    except _CONTRADICTIONS as error:
        raise ModelError(f"{call.origin} contradicts itself: {error}") from error
    return None


def _enter_inputs(lowering: Lowering) -> None:
    for index in lowering.subgraph.inputs:
        tensor = lowering.subgraph.tensors[index]
        if tensor.dtype in ("resource", "variant", "int2", "complex128"):
            raise GapError(f"input '{tensor.name}' is of type {tensor.dtype}", "give the model inputs of numbers")
        shape = _input_shape(lowering, tensor)
        value = Value(lowering.tensor_names[index], tensor.dtype, shape, quant_of(tensor))
        lowering.bind(index, lowering.add(value))


def _input_shape(lowering: Lowering, tensor: Tensor) -> Shape:
    """Dynamic sizes get symbols; all inputs share one for their first dimension, the batch."""
    dims: list[Dim] = list(tensor.shape)
    for axis, size in enumerate(tensor.signature):
        if size == -1:
            lowering.dynamic = True
            name = lowering.tensor_names[tensor.index]
            dims[axis] = (
                symbol("batch") if axis == 0 else lowering.symbol_for(("input", tensor.index, axis), f"{name}_{axis}")
            )
    return tuple(dims)


def _graph(lowering: Lowering, name: str) -> Graph:
    inputs = tuple(lowering.value(index).name for index in dict.fromkeys(lowering.subgraph.inputs))
    outputs = tuple(lowering.value(index).name for index in lowering.subgraph.outputs)
    nodes = live(lowering.nodes, outputs)
    used = {value for node in nodes for value in (*node.inputs, *node.outputs) if value} | set(inputs) | set(outputs)
    values = {key: value for key, value in lowering.values.items() if key in used}
    return Graph(name, values, nodes, inputs, outputs, _public_names(lowering), _metadata(lowering.model))


def live(nodes: list[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes on which the outputs depend."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _public_names(lowering: Lowering) -> dict[str, str]:
    """The names that the first signature of the main subgraph gives, as far as they tell its tensors apart."""
    names: dict[str, str] = {}
    for signature in lowering.model.signatures:
        if signature.subgraph == lowering.position:
            for ports, given in (
                (lowering.subgraph.inputs, signature.inputs),
                (lowering.subgraph.outputs, signature.outputs),
            ):
                for public, index in sorted(given.items()):
                    if index in ports and public not in names.values():
                        names.setdefault(lowering.value(index).name, public)
            break
    return names


def _metadata(model: Model) -> dict[str, str]:
    metadata = {"layoutsolve.source": "tflite"}
    if model.description:
        metadata["description"] = model.description
    version = model.metadata.get("min_runtime_version", b"").split(b"\0")[0].decode("utf-8", "replace").strip()
    if version:
        metadata["min_runtime_version"] = version
    return metadata
