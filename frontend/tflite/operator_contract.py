"""Whether an operator is one that its definition admits, and whether its lowering wrote what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan

from layoutsolve.errors import LoweringError, ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.operator_signatures import Definition, Ports, definition
from layoutsolve.frontend.tflite.lowering.registry import declaration
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN
from layoutsolve.frontend.tflite.lowering.writer import REAL_NUMBERS
from layoutsolve.frontend.tflite.operators.flex.elementwise import BUILTIN

_FLEX = "CUSTOM:Flex"
_HANDLE = "resource"

_STATED = {
    "ARG_MAX": (0, "output_type"),
    "ARG_MIN": (0, "output_type"),
    "SHAPE": (0, "out_type"),
    "UNIQUE": (1, "idx_out_type"),
}
"""The outputs whose type is an option as well, and its name."""

_CHOICES = {"padding": ("SAME", "VALID"), "mode": ("REFLECT", "SYMMETRIC")}
"""The options that are one of a few ways, numbered from 0, none of which a kernel takes another number for."""

_BOUNDS = ("cell_clip", "proj_clip", "min", "max")
"""The options that may be infinite: nothing is beyond them."""

_INDICES = {2: "int32", 4: "int64"}
"""Types of indices by their number in the schema."""


def definitions_of(operator: str) -> tuple[Definition, ...]:
    """What an operator may be like, TensorFlow's own included; empty where nothing is known about it.

    A custom operator whose lowering a user has registered may be another one under the same name.
    """
    if operator in FOREIGN and operator.startswith("CUSTOM:"):
        return ()
    name = operator.removeprefix(_FLEX) if operator.startswith(_FLEX) else ""
    signatures = declaration(operator).signatures or declaration(BUILTIN.get(name, operator)).signatures
    return tuple(map(definition, signatures))


def check_ports(call: Call) -> None:
    """Raise :class:`ModelError` unless the operator's inputs and outputs conform to one of its definitions."""
    given, made = call.operator.inputs, call.operator.outputs
    known = definitions_of(call.operator.name)
    fitting = [each for each in known if each.inputs.admit(len(given)) and each.outputs.admit(len(made))]
    if known and not fitting:
        _check_number(call, "inputs", [each.inputs for each in known], len(given))
        _check_number(call, "outputs", [each.outputs for each in known], len(made))
    types = _types(call, given)
    refusals: list[Exception] = []
    for each in fitting:
        try:
            _check_types(call, "input", each.inputs, given, types)
            _check_types(call, "output", each.outputs, made, types)
            break
        except (ModelError, GapError) as error:
            refusals.append(error)
    else:
        if refusals:
            raise refusals[0]
    _check_stated(call)
    _check_choices(call)
    _check_variables(call)


def check_written(call: Call) -> None:
    """Raise :class:`LoweringError` unless every output has been written; nothing is written for a handle."""
    for position, index in enumerate(call.operator.outputs):
        tensor = call.lowering.subgraph.tensors[index]
        if index not in call.lowering.bound and tensor.dtype != _HANDLE:
            raise LoweringError(f"{call.origin}: its lowering did not write output {position}, '{tensor.name}'")


def _types(call: Call, tensors: Sequence[int]) -> list[str]:
    """The types that the file states, '' for an input left out."""
    return ["" if index == -1 else call.lowering.subgraph.tensors[index].dtype for index in tensors]


def _check_number(call: Call, what: str, possible: Sequence[Ports], count: int) -> None:
    if not any(ports.admit(count) for ports in possible):
        allowed = " or ".join(dict.fromkeys(map(str, possible)))
        raise ModelError(f"{call.origin} has {count} {what} where its definition has {allowed}")


def _check_types(call: Call, what: str, ports: Ports, tensors: Sequence[int], inputs: Sequence[str]) -> None:
    for position, (index, dtype) in enumerate(zip(tensors, _types(call, tensors), strict=True)):
        port = ports.at(position)
        if not dtype:
            if port.mark not in ("~", "?"):
                raise ModelError(f"{call.origin} lacks its input {position}")
            continue
        allowed = port.types or (inputs[port.like],)
        if dtype in allowed:
            continue
        if dtype == "complex64":
            raise GapError("it computes with complex numbers", REAL_NUMBERS)
        if port.types and call.operator.name.startswith(_FLEX):
            name = call.operator.name.removeprefix(_FLEX)
            raise GapError(f"TensorFlow's {name} is not supported with {dtype} as {what} {position}", "use float32")
        name = call.lowering.subgraph.tensors[index].name
        raise ModelError(
            f"{call.origin} has {dtype} as {what} {position}, '{name}', where its definition has {', '.join(allowed)}"
        )


def _check_stated(call: Call) -> None:
    """The type of some outputs is an option as well."""
    position, key = _STATED.get(call.operator.name, (0, ""))
    stated = _INDICES.get(call.option(key, -1)) if key else None
    if stated is not None and stated != call.tensor(position).dtype:
        raise ModelError(
            f"{call.origin} declares output {position} as {call.tensor(position).dtype} and gives {stated} as its {key}"
        )


def _check_choices(call: Call) -> None:
    for key, value in call.operator.options.items():
        if isinstance(value, float) and (isnan(value) or (isinf(value) and key not in _BOUNDS)):
            raise ModelError(f"{call.origin} has the {key} {value}, with which nothing can be computed")
    for key, ways in _CHOICES.items():
        chosen = call.option(key, None)
        if isinstance(chosen, int) and not 0 <= chosen < len(ways):
            raise ModelError(f"{call.origin} has the {key} {chosen}, which is none of {', '.join(ways)}")


def _check_variables(call: Call) -> None:
    """Outputs may be variables if nothing has read those before: then they need not live on."""
    lowering = call.lowering
    for index in call.operator.outputs:
        tensor = lowering.subgraph.tensors[index]
        read = index in call.operator.inputs or (lowering.position, index) in lowering.draft.states
        if tensor.is_variable and read:
            raise GapError(f"its output '{tensor.name}' is a variable that is read before", "use ASSIGN_VARIABLE")
