"""What the lowerings of custom operators share: reading options that were written for a kernel in C++."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.builder import Call

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
