"""From a checked model to the reference graph: one operator after the other, each by the lowering registered for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import layoutsolve.frontend.tflite.operators  # noqa: F401  (registers the lowerings)
from layoutsolve.base.wording import FAULT, OTHER_TYPE, listed, nearest
from layoutsolve.errors import (
    BudgetError,
    ConversionError,
    Gap,
    LoweringError,
    ModelError,
    OptionError,
    UnsupportedError,
)
from layoutsolve.frontend.passes.live_nodes import live
from layoutsolve.frontend.tflite.constant_folding import fold
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.dilated_convolution import dilated
from layoutsolve.frontend.tflite.lowering.draft import Draft, Lowering
from layoutsolve.frontend.tflite.lowering.live_operators import needed
from layoutsolve.frontend.tflite.lowering.options import Reading
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.lowering.registry import Lowered, declaration, lowering_of
from layoutsolve.frontend.tflite.lowering.unsupported import REFUSED, GapError, compiled
from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN
from layoutsolve.frontend.tflite.lowering.writer import REAL_NUMBERS
from layoutsolve.frontend.tflite.operator_contract import check_ports, check_written
from layoutsolve.frontend.tflite.operators.custom.options import pass_through
from layoutsolve.frontend.tflite.reading import metadata
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Signature, Tensor
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import are_halves
from layoutsolve.ir.graph import LOWERINGS, Dim, Graph, Node, Quant, Shape, Value

_CONTRADICTIONS = (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError)
"""What arithmetic on options and shapes that contradict each other raises."""

_REMEDIES = {
    "CUSTOM": "pass it through (--custom passthrough), register a lowering for it (--lowering), or cut the model before"
    " it (--to)"
}
_TEXT_REMEDY = (
    "cut the model behind it (at {}) and compute that with the library that it comes from, pass it through (--custom"
    " passthrough), or register a lowering for it (--lowering)"
)
_REMEDY = "express it by other operators in the source model"


Check = Callable[[Graph], object]


def lower(model: Model, name: str, reading: Reading, check: Check | None = None, budget: Budget | None = None) -> Graph:
    """The reference graph of a model's main subgraph, or of a signature's. ``check`` is given what each lowering that a
    user has registered wrote.

    Raises :class:`UnsupportedError` with all its gaps at once, :class:`OptionError` for a signature or input that the
    model does not have.
    """
    chosen = signature_of(model, reading.signature)
    budget = budget or Budget(model.size, reading.max_size)
    try:
        begin = partial(Draft, dilated(model), partial(_write, check=check), reading, budget=budget)
        return _lowered(begin, name, reading, chosen, {})
    except (GapError, BudgetError) as error:
        raise UnsupportedError([Gap(0, -1, "(model)", "", error.reason, error.remedy)]) from error
    except _CONTRADICTIONS as error:
        raise ModelError(f"the model contradicts itself: {error}") from error


def _lowered(
    begin: Callable[..., Draft], name: str, reading: Reading, chosen: Signature | None, equal: Mapping[str, str | int]
) -> Graph:
    """The reference graph where others, or numbers, stand for some symbols of inputs; operators may force more."""
    lowering = Lowering(begin(equal=equal), chosen.subgraph if chosen else 0)
    lowering.draft.signature = chosen
    names = _public_ends(lowering, chosen)
    pinned = _pinned(lowering, names, reading)
    _enter_inputs(lowering, pinned)
    try:
        lowering.draft.write(lowering)
    except ModelError as error:
        for index, shape in pinned.items():
            tensor = lowering.subgraph.tensors[index]
            stated = tensor.signature or tensor.shape
            if any(mark not in (-1, size) for mark, size in zip(stated, shape, strict=True)):
                given = f"shape {list(shape)} does not fit input '{tensor.name}', which has {list(stated)}"
                raise OptionError(f"{given}: {error}") from error
        raise
    if lowering.draft.forced:
        return _lowered(begin, name, reading, chosen, lowering.draft.equalities())
    outputs = _outputs(lowering)
    lowering.draft.close_states()
    return _graph(lowering, name, names, outputs)


def signature_of(model: Model, key: str) -> Signature | None:
    """The signature that is asked for, or the first one of the main subgraph."""
    named = [signature for signature in model.signatures if signature.key == key]
    if key and not named:
        keys = [signature.key for signature in model.signatures]
        raise OptionError(f"the model has no signature '{key}': those are {listed(keys)}{nearest(key, keys)}")
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
                if public and index in tensors and public not in taken and index not in names:
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
            known = [names.get(index, name) for index, name in own.items()]
            hint = nearest(given, [*known, *own.values()])
            raise OptionError(f"no input is called '{given}': those are {listed(known)}{hint}")
        tensor = lowering.subgraph.tensors[matching[0]]
        stated = tensor.signature or tensor.shape
        if len(shape) != len(stated):
            raise OptionError(f"shape {list(shape)} does not fit input '{given}', which has {list(stated)}")
        found[matching[0]] = shape
    return found


def _write(lowering: Lowering, check: Check | None) -> None:
    """Write all operators of a subgraph. Raises :class:`UnsupportedError` with all its gaps at once."""
    gaps: list[Gap] = []
    broken: set[int] = set()
    for operator in needed(lowering.subgraph):
        found = _write_operator(lowering, operator, broken, check)
        gaps += found
        if found or broken.intersection(operator.inputs):
            broken.update(index for index in operator.outputs if index not in lowering.bound)
    if gaps:
        raise UnsupportedError(gaps)


def _write_operator(lowering: Lowering, operator: Operator, broken: set[int], check: Check | None) -> list[Gap]:
    call = Call(lowering, operator)
    function = lowering_of(operator.name)
    if function is None and operator.name.startswith("CUSTOM:") and lowering.draft.reading.custom == "passthrough":
        function = pass_through
    try:
        if function is None:
            raise GapError(*_refusal(lowering, operator))
        if operator.unread:
            raise GapError(operator.unread, "use a layoutsolve that knows the model's version of the schema")
        if not broken.intersection(operator.inputs):
            check_ports(call)
            _check_parameters(call)
            if not fold(call):
                usual = partial(_lower, function, call, check)
                _exactly(call, usual) if lowering.draft.reading.exact else usual()
            check_written(call)
            if operator.name in FOREIGN:
                lowering.draft.foreign.add(operator.name)
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


def _exactly(call: Call, usual: Callable[[], None]) -> None:
    from layoutsolve.frontend.tflite.exact import lower_exactly  # with all that is covered, which few models ask for

    lower_exactly(call, usual)


def _lower(function: Lowered, call: Call, check: Check | None) -> None:
    """Run a lowering. Whatever goes wrong in one that a user has registered is an error that names it."""
    if call.operator.name not in FOREIGN:
        function(call)
        return
    start = len(call.draft.nodes)
    try:
        function(call)
    except (ConversionError, GapError):
        raise
    except Exception as error:  # it is code of others, which may raise anything
        name, reason = call.operator.name, f"{type(error).__name__}: {error}"
        raise LoweringError(f"{call.origin}: the lowering that is registered for '{name}' failed: {reason}") from error
    if check is not None:
        try:
            check(_part(call.draft, call.draft.nodes[start:]))
        except LoweringError as error:
            remedy = f"correct what the lowering writes that is registered for '{call.operator.name}'"
            raise LoweringError(str(error).replace(FAULT, remedy).replace(OTHER_TYPE, remedy)) from error


def _part(draft: Draft, written: Sequence[Node]) -> Graph:
    """Some nodes as a graph of their own: what they read is its inputs, what they compute its outputs."""
    nodes = tuple(replace(node, region=None) for node in written)
    made = {name: draft.values[name] for node in nodes for name in node.outputs}
    read = {name: draft.values[name] for node in nodes for name in node.inputs if name and name not in made}
    inputs = tuple(name for name, value in read.items() if value.data is None)
    return Graph("part", {**read, **made}, nodes, inputs, tuple(made))


def _refusal(lowering: Lowering, operator: Operator) -> tuple[str, str]:
    """Why an operator without a lowering is not converted, and what to do about it."""
    name, tensors = operator.name, lowering.subgraph.tensors
    known = REFUSED.get(name.removesuffix(":")) or compiled(name)
    if known is not None:
        return known
    read = [tensors[index].dtype for index in operator.inputs if index != -1]
    codes = [each.removeprefix("CUSTOM:") for each in sorted(FOREIGN)]
    others = f"; lowerings are registered for {listed(codes)}{nearest(name.removeprefix('CUSTOM:'), codes)}"
    others = others if codes else ""
    if name.startswith("CUSTOM:") and "string" in read:
        outputs = " and ".join(f"'{lowering.tensor_names[index]}'" for index in operator.outputs)
        return "no conversion for this operator, which reads text", _TEXT_REMEDY.format(outputs) + others
    return "no conversion for this operator", _REMEDIES.get(name.split(":")[0], _REMEDY) + others


def _check_parameters(call: Call) -> None:
    operator = call.operator
    known = declaration(operator.name)
    for position in (each for each in range(call.arity) if each in known.per_tensor):
        if operator.inputs[position] == -1:
            continue
        value = call.lowering.value(operator.inputs[position])
        if position == 0 and value.dtype in known.quantized and value.quant is None:
            raise GapError(f"its input of {value.dtype} has no quantization parameters", "state scale and zero point")
        _check_channels(f"input '{value.name}'", value.quant)
    for position in range(len(operator.outputs)) if known.per_tensor else ():
        _check_channels(f"output '{call.tensor(position).name}'", quant_of(call.tensor(position)))


def _check_channels(what: str, quant: Quant | None) -> None:
    if quant is not None and quant.axis is not None:
        raise GapError(f"its {what} is quantized per channel", "quantize all but weights per tensor")


def _enter_inputs(lowering: Lowering, pinned: Mapping[int, tuple[int, ...]]) -> None:
    for index in lowering.subgraph.inputs:
        tensor = lowering.subgraph.tensors[index]
        if tensor.dtype in ("resource", "variant", "int2", "complex64", "complex128"):
            raise GapError(f"input '{tensor.name}' is of type {tensor.dtype}", "give the model numeric inputs")
        shape = _input_shape(lowering, tensor, pinned.get(index, tensor.signature))
        value = Value(lowering.tensor_names[index], tensor.dtype, shape, quant_of(tensor))
        lowering.bind(index, lowering.draft.add(value))


def _input_shape(lowering: Lowering, tensor: Tensor, given: tuple[int, ...]) -> Shape:
    """Dynamic sizes get symbols, the first dimension of the first input that of a batch. Sizes of different inputs are
    different ones unless an operator forces them to be equal: the file does not say.
    """
    dims: list[Dim] = list(given or tensor.shape)
    lowering.draft.dynamic |= tuple(dims) != tensor.shape
    for axis, size in enumerate(given):
        if size == -1:
            first = axis == 0 and tensor.index == lowering.subgraph.inputs[0]
            name = "batch" if first else f"{lowering.tensor_names[tensor.index]}_{axis}"
            dims[axis] = lowering.draft.input_size(name, opened=(tensor.signature or tensor.shape)[axis] != -1)
    return tuple(dims)


def _outputs(lowering: Lowering) -> tuple[str, ...]:
    """The values of the outputs; one may be a variable that no operator reads."""
    if not lowering.subgraph.outputs:
        raise ModelError("the model has no outputs: state which tensors it is to compute")
    different = dict.fromkeys(lowering.subgraph.outputs)
    lowering.draft.budget.end(len(lowering.subgraph.outputs), len(different))
    for index in different:
        tensor = lowering.subgraph.tensors[index]
        if tensor.dtype in ("resource", "variant"):
            raise GapError(f"output '{tensor.name}' is of type {tensor.dtype}", "give the model numeric outputs")
    return tuple(lowering.value(index).name for index in lowering.subgraph.outputs)


def _graph(lowering: Lowering, name: str, names: Mapping[int, str], outputs: tuple[str, ...]) -> Graph:
    draft = lowering.draft
    inputs = tuple(lowering.value(index).name for index in dict.fromkeys(lowering.subgraph.inputs))
    if draft.complex.intersection(outputs):
        raise GapError("an output of the model holds complex numbers", REAL_NUMBERS)
    nodes = live(draft.nodes, outputs, draft.values, draft.meanings.formulas)
    used = {value for node in nodes for value in (*node.inputs, *node.outputs) if value} | set(inputs) | set(outputs)
    values = {key: value for key, value in draft.values.items() if key in used}
    public, formulas = _public_names(lowering, names), draft.meanings.formulas
    tensors = (tensor for subgraph in draft.model.subgraphs for tensor in subgraph.tensors)
    halves = any(tensor.data is not None and are_halves(tensor.data, tensor.dtype) for tensor in tensors)
    metadata = _metadata(lowering, public)
    return Graph(name, values, nodes, inputs, outputs, public, metadata, formulas, halves=halves)


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


def _metadata(lowering: Lowering, public: Mapping[str, str]) -> dict[str, str]:
    """What is told of the model beside what it computes."""
    model, subgraph = lowering.draft.model, lowering.subgraph
    told = {"layoutsolve.source": "tflite"}
    if foreign := {name: FOREIGN[name] for name in sorted(lowering.draft.foreign)}:
        told[LOWERINGS] = json.dumps(foreign, separators=(",", ":"))
    if model.description:
        told["description"] = model.description
    if len(model.signatures) > 1:
        taken = lowering.draft.signature
        told["signature"] = taken.key if taken is not None else ""
        told["signatures"] = json.dumps([each.key for each in model.signatures])
    oldest = bytes(model.metadata.get("min_runtime_version", b"")[:64])
    if version := oldest.split(b"\0")[0].decode("utf-8", "replace").strip():
        told["min_runtime_version"] = version
    if (described := model.metadata.get("TFLITE_METADATA")) is not None:
        ends = {"input": subgraph.inputs, "output": subgraph.outputs}
        values = {side: [lowering.value(index).name for index in places] for side, places in ends.items()}
        names = {side: [public.get(name, name) for name in given] for side, given in values.items()}
        told.update(metadata.facts(described, lowering.position, names))
    return {**told, **metadata.texts(model.files)}
