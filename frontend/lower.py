"""From a checked model to the reference graph: one operator after the other, each by the lowering registered for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import layoutsolve.frontend.operators  # noqa: F401  (registers the lowerings)
from layoutsolve.budget import Budget
from layoutsolve.errors import BudgetError, Gap, ModelError, OptionError, UnsupportedError
from layoutsolve.frontend.builder import REAL_NUMBERS, REGISTRY, Call
from layoutsolve.frontend.dilated import dilated
from layoutsolve.frontend.draft import Draft, Lowering
from layoutsolve.frontend.fold import fold
from layoutsolve.frontend.gaps import REFUSED, GapError
from layoutsolve.frontend.model import Model, Operator, Signature, Tensor
from layoutsolve.frontend.operators.custom import pass_through
from layoutsolve.frontend.options import Reading
from layoutsolve.frontend.quantisation import quant_of
from layoutsolve.graph import Dim, Graph, Node, Shape, Value, symbol

_CONTRADICTIONS = (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError)
"""What arithmetic on options and shapes that contradict each other raises."""

_BYTES = frozenset({"int8", "uint8"})
_SCALED = {
    **dict.fromkeys(("ABS", "ADD", "MUL", "SUB"), _BYTES),
    **dict.fromkeys(
        (
            "AVERAGE_POOL_2D", "BATCH_MATMUL", "DIV", "ELU", "EXP", "GELU", "HARD_SWISH", "L2_NORMALIZATION",
            "LEAKY_RELU", "LOG", "LOGISTIC", "LOG_SOFTMAX", "MEAN", "PRELU", "REDUCE_PROD", "RELU", "RELU6",
            "RELU_0_TO_1", "RELU_N1_TO_1", "RESIZE_BILINEAR", "RSQRT", "SOFTMAX", "SQRT", "SQUARED_DIFFERENCE", "SUM",
            "TANH",
        ),
        _BYTES | {"int16"},
    ),
    "MAX_POOL_2D": frozenset({"int16"}),
}  # fmt: skip
"""What LiteRT takes as quantised only: without parameters, its scale is zero and its results mean nothing."""

_REMEDIES = {"CUSTOM": "pass it through (--custom passthrough), register a lowering for it, or cut the model before it"}
_REMEDY = "express it by other operators in the source model"


def lower(model: Model, name: str, reading: Reading, budget: Budget | None = None) -> Graph:
    """The reference graph of a model's main subgraph, or of a signature's.

    Raises :class:`UnsupportedError` with all its gaps at once, :class:`OptionError` for a signature or input that the
    model does not have.
    """
    chosen = _signature(model, reading.signature)
    budget = budget or Budget(model.size, reading.max_size)
    try:
        lowering = Lowering(Draft(dilated(model), _write, reading.custom, budget), chosen.subgraph if chosen else 0)
        names = _public_ends(lowering, chosen)
        _enter_inputs(lowering, _pinned(lowering, names, reading))
        _write(lowering)
        lowering.draft.close_states()
        return _graph(lowering, name, names)
    except (GapError, BudgetError) as error:
        raise UnsupportedError([Gap(0, -1, "(model)", "", error.reason, error.remedy)]) from error
    except _CONTRADICTIONS as error:
        raise ModelError(f"the model contradicts itself: {error}") from error


def _signature(model: Model, key: str) -> Signature | None:
    """The signature that is asked for, or the first one of the main subgraph."""
    named = [signature for signature in model.signatures if signature.key == key]
    if key and not named:
        known = ", ".join(f"'{signature.key}'" for signature in model.signatures) or "none"
        raise OptionError(f"the model has no signature '{key}': those are {known}")
    return next(iter(named if key else (each for each in model.signatures if each.subgraph == 0)), None)


def _public_ends(lowering: Lowering, signature: Signature | None) -> dict[int, str]:
    """The names that a signature gives to inputs and outputs, by tensor, as far as they tell tensors apart."""
    names: dict[int, str] = {}
    if signature is not None:
        subgraph = lowering.subgraph
        taken: set[str] = set()
        for ports, given in ((subgraph.inputs, signature.inputs), (subgraph.outputs, signature.outputs)):
            tensors = frozenset(ports)
            for public, index in sorted(given.items()):
                if index in tensors and public not in taken and index not in names:
                    names[index] = public
                    taken.add(public)
    return names


def _pinned(lowering: Lowering, names: Mapping[int, str], reading: Reading) -> dict[int, tuple[int, ...]]:
    """The shapes that are given for inputs, by tensor; a name is the tensor's own or the one in the signature."""
    found: dict[int, tuple[int, ...]] = {}
    own = {index: lowering.subgraph.tensors[index].name for index in lowering.subgraph.inputs}
    for given, shape in reading.shapes.items():
        matching = [index for index in own if given in (names.get(index), own[index])]
        if not matching:
            known = ", ".join(f"'{names.get(index, name)}'" for index, name in own.items())
            raise OptionError(f"no input is called '{given}': those are {known}")
        tensor = lowering.subgraph.tensors[matching[0]]
        stated = tensor.signature or tensor.shape
        if len(shape) != len(stated) or any(mark not in (-1, size) for mark, size in zip(stated, shape, strict=True)):
            raise OptionError(f"shape {list(shape)} does not fit input '{given}', which has {list(stated)}")
        found[matching[0]] = shape
    return found


def _write(lowering: Lowering) -> None:
    """Write all operators of a subgraph. Raises :class:`UnsupportedError` with all its gaps at once."""
    gaps: list[Gap] = []
    broken: set[int] = set()
    for operator in lowering.subgraph.operators:
        found = _write_operator(lowering, operator, broken)
        gaps += found
        if found or broken.intersection(operator.inputs):
            broken.update(operator.outputs)
    if gaps:
        raise UnsupportedError(gaps)


def _write_operator(lowering: Lowering, operator: Operator, broken: set[int]) -> list[Gap]:
    call = Call(lowering, operator)
    function = REGISTRY.get(operator.name)
    if function is None and operator.name.startswith("CUSTOM:") and lowering.draft.custom == "passthrough":
        function = pass_through
    try:
        if function is None:
            raise GapError(*_refusal(operator.name))
        if not broken.intersection(operator.inputs) and not fold(call):
            _check_parameters(call)
            function(call)
    except (GapError, BudgetError) as error:
        outputs = [lowering.tensor_names[index] for index in operator.outputs]
        tensor = outputs[0] if outputs else ""
        return [Gap(lowering.position, operator.index, operator.name, tensor, error.reason, error.remedy)]
    except UnsupportedError as error:
        return list(error.gaps)
    except ModelError as error:
        raise error if str(call.origin) in str(error) else ModelError(f"{call.origin}: {error}") from error
    except _CONTRADICTIONS as error:
        raise ModelError(f"{call.origin} contradicts itself: {error}") from error
    return []


def _refusal(name: str) -> tuple[str, str]:
    """Why an operator without a lowering is not converted, and what to do about it."""
    return REFUSED.get(name.removesuffix(":")) or (
        "no conversion for this operator",
        _REMEDIES.get(name.split(":")[0], _REMEDY),
    )


def _check_parameters(call: Call) -> None:
    scaled = _SCALED.get(call.operator.name, frozenset())
    if not scaled:
        return
    for index in call.operator.inputs[:1]:
        value = call.lowering.value(index)
        if value.dtype in scaled and value.quant is None:
            raise GapError(f"its input of {value.dtype} has no quantisation parameters", "state scale and zero point")


def _enter_inputs(lowering: Lowering, pinned: Mapping[int, tuple[int, ...]]) -> None:
    for index in lowering.subgraph.inputs:
        tensor = lowering.subgraph.tensors[index]
        if tensor.dtype in ("resource", "variant", "int2", "complex64", "complex128"):
            raise GapError(f"input '{tensor.name}' is of type {tensor.dtype}", "give the model inputs of numbers")
        shape = _input_shape(lowering, tensor, pinned.get(index, tensor.signature))
        value = Value(lowering.tensor_names[index], tensor.dtype, shape, quant_of(tensor))
        lowering.bind(index, lowering.draft.add(value))
        lowering.draft.note_sizes(value, None)


def _input_shape(lowering: Lowering, tensor: Tensor, given: tuple[int, ...]) -> Shape:
    """Dynamic sizes get symbols; all inputs share one for their first dimension, the batch."""
    dims: list[Dim] = list(given or tensor.shape)
    lowering.draft.dynamic |= tuple(dims) != tensor.shape
    for axis, size in enumerate(given):
        if size == -1:
            key, name = ("input", tensor.index, axis), f"{lowering.tensor_names[tensor.index]}_{axis}"
            dims[axis] = symbol("batch") if axis == 0 else lowering.draft.symbol_for(key, name)
    return tuple(dims)


def _graph(lowering: Lowering, name: str, names: Mapping[int, str]) -> Graph:
    draft = lowering.draft
    inputs = tuple(lowering.value(index).name for index in dict.fromkeys(lowering.subgraph.inputs))
    outputs = tuple(lowering.value(index).name for index in lowering.subgraph.outputs)
    if draft.complex.intersection(outputs):
        raise GapError("an output of the model holds complex numbers", REAL_NUMBERS)
    nodes = live(draft.nodes, outputs)
    used = {value for node in nodes for value in (*node.inputs, *node.outputs) if value} | set(inputs) | set(outputs)
    values = {key: value for key, value in draft.values.items() if key in used}
    return Graph(name, values, nodes, inputs, outputs, _public_names(lowering, names), _metadata(draft.model))


def live(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """The nodes on which the outputs and the states depend, with the If or Loop that each of them is in."""
    producers = {output: node for node in nodes for output in node.outputs}
    owners = {region: node for node in nodes if node.op in ("If", "Loop") for region in node.regions}
    kept: set[Node] = set()
    stack = [producers[name] for name in outputs if name in producers] + [node for node in nodes if node.op == "State"]
    while stack:
        node = stack.pop()
        if node in kept:
            continue
        kept.add(node)
        stack += [producers[name] for name in node.inputs if name in producers]
        stack += [owners[region] for region in (node.region, *node.regions) if region is not None]
    return tuple(node for node in nodes if node in kept)


def _public_names(lowering: Lowering, given: Mapping[int, str]) -> dict[str, str]:
    """The names of inputs and outputs that are not those of their values."""
    names: dict[str, str] = {}
    for index, public in given.items():
        names.setdefault(lowering.value(index).name, public)
    inputs, taken = frozenset(lowering.subgraph.inputs), set(names.values())
    for index in lowering.subgraph.outputs:
        name, own = lowering.value(index).name, lowering.tensor_names[index]
        if index not in inputs and name != own and own not in taken and name not in names:
            names[name] = own
            taken.add(own)
    return names


def _metadata(model: Model) -> dict[str, str]:
    metadata = {"layoutsolve.source": "tflite"}
    if model.description:
        metadata["description"] = model.description
    version = model.metadata.get("min_runtime_version", b"").split(b"\0")[0].decode("utf-8", "replace").strip()
    if version:
        metadata["min_runtime_version"] = version
    return metadata
