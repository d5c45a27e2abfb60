"""What the lowerings of custom operators share: reading options that were written for a kernel in C++."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.reading.flexbuffer import decode
from layoutsolve.ir.graph import Dim, Shape

DOMAIN = "layoutsolve.custom"
"""The domain of operators that are passed through."""

_VIEWS = ("Transpose", "Reshape", "Identity")
"""Names that stand for views, or for nothing at all, wherever they occur in a graph."""

_OPTIONS = "custom_options"
_SAME, _VALID = 1, 2
"""Padding as kernels number it in memory; the schema starts at 0."""


def number(call: Call, options: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """An option that is a number; the default, or an error where there is none, if it is absent."""
    value = options.get(key, default)
    if not isinstance(value, (int, float)):
        raise ModelError(f"{call.origin} has no number as its option '{key}' but {value!r}")
    return float(value)


def integer(call: Call, options: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """An option that is an integer."""
    value = number(call, options, key, default)
    if not value.is_integer():
        raise ModelError(f"{call.origin} has no integer as its option '{key}' but {value}")
    return int(value)


def flag(call: Call, options: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """An option that is a truth value."""
    return bool(number(call, options, key, default))


def integers(call: Call, options: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """An option that is a vector of integers."""
    value = options.get(key)
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        raise ModelError(f"{call.origin} has no integers as its option '{key}' but {value!r}")
    return tuple(value)


def structure(call: Call, fields: str) -> dict[str, int]:
    """The leading fields of custom options that are a structure of 32-bit integers, as it lay in memory.

    ``padding`` is turned to the schema's number.
    """
    names = fields.split()
    try:
        values = struct.unpack_from(f"<{len(names)}i", call.custom_options)
    except struct.error as error:
        stated = len(call.custom_options)
        raise ModelError(f"{call.origin} has {stated} bytes of options, too few for {fields}") from error
    found = dict(zip(names, values, strict=True))
    if found["padding"] not in (_SAME, _VALID):
        raise ModelError(f"{call.origin} has the unknown padding {found['padding']}")
    return {**found, "padding": found["padding"] - _SAME}


def pass_through(call: Call) -> None:
    """Write a custom operator as a node of the domain :data:`DOMAIN`, named by its code.

    Its attributes are the options as bytes, ``custom_options``, and those that a FlexBuffer map holds by name, as far
    as ONNX has attributes of their kind. Shapes are those that the file states. It reads and writes what is stored, so
    quantized tensors are integers to it.
    """
    name = call.operator.name.removeprefix("CUSTOM:")
    if not name or name in _VIEWS:
        raise GapError(f"an operator named '{name}' cannot be passed through", "register a lowering for it")
    inputs = [call.optional(position) for position in range(call.arity)]
    slots = [call.slot(position) for position in range(len(call.operator.outputs))]
    if not slots:
        raise GapError("it has no output", "register a lowering for it")
    outputs = [(_stated(call, position), slot) for position, slot in enumerate(slots)]
    attributes = {**_attributes(call.custom_options), _OPTIONS: call.custom_options}
    call.write_many(name, inputs, outputs, storage=True, domain=DOMAIN, attributes=attributes)


def _stated(call: Call, position: int) -> Shape:
    """The shape that the file states for an output, with a symbol for each size that it leaves open."""
    tensor = call.tensor(position)
    dims: Sequence[Dim] = tensor.signature or tensor.shape
    return tuple(call.unknown(axis, position) if dim == -1 else dim for axis, dim in enumerate(dims))


def _attributes(raw: bytes) -> dict[str, Any]:
    try:
        options = decode(raw)
    except ModelError:
        return {}
    if not isinstance(options, dict):
        return {}
    found = {key: _attribute(value) for key, value in options.items() if key.isidentifier()}
    return {key: value for key, value in found.items() if value is not None}


def _attribute(value: Any) -> Any:
    """An option as an attribute of ONNX, None where there is none of its kind."""
    if isinstance(value, list):
        items = [_attribute(item) for item in value]
        kinds = {type(item) for item in items}
        return tuple(items) if len(kinds) == 1 and kinds <= {int, float, bytes} else None
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, float) else None
