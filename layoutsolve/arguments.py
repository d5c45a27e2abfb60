"""What callers may give: each argument is checked here, before anything is done, in one place for all functions.

A wrong type is a :class:`TypeError`, a wrong value an :class:`OptionError`; both name the argument.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from numbers import Integral, Real
from reprlib import repr as brief
from typing import NoReturn, TypeVar

import numpy as np

from layoutsolve.errors import OptionError
from layoutsolve.frontend import Reading
from layoutsolve.frontend.tflite.lowering.options import CUSTOM
from layoutsolve.solver import DEFAULT_OBJECTIVE, OBJECTIVES, STRATEGIES, Boundary
from layoutsolve.solver.statement.boundary import Choice, Ends, Pair
from layoutsolve.wording import nearest

T = TypeVar("T")

_LARGEST = (1 << 31) - 1
"""The largest size that a dimension of a TensorFlow Lite model can have."""


@dataclass(frozen=True)
class Options:
    """How a model is converted, as :func:`layoutsolve.convert` tells it; every field is of the stated type."""

    objective: str = DEFAULT_OBJECTIVE
    strategy: str = "cpsat"
    layouts: Mapping[str, Pair] = field(default_factory=dict)
    inputs: Ends = "keep"
    outputs: Ends = "keep"
    opset: int | None = None
    contrib: bool = False
    external_data: bool | None = None
    time_limit: float | None = None
    custom: str = "error"
    signature: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_size: int | None = None

    @property
    def boundary(self) -> Boundary:
        """What is fixed from outside."""
        return Boundary(self.inputs, self.outputs, self.layouts)

    @property
    def reading(self) -> Reading:
        """How the model is read."""
        return Reading(self.custom, self.signature, self.shapes, self.max_size)

    def said(self) -> dict[str, object]:
        """The options that are not the default, for reports."""
        default = Options()
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(default, name)}


def options(
    *,
    objective: object,
    layouts: object,
    inputs: object,
    outputs: object,
    contrib: object,
    time_limit: object,
    custom: object,
    signature: object,
    shapes: object,
    max_size: object,
    strategy: object = "cpsat",
    opset: object = None,
    external_data: object = None,
) -> Options:
    """Check all options of a conversion."""
    return Options(
        choice("objective", objective, OBJECTIVES),
        choice("strategy", strategy, STRATEGIES),
        {name: _pair(f"layouts['{name}']", pair) for name, pair in _mapping("layouts", layouts or {}).items()},
        _ends("inputs", inputs),
        _ends("outputs", outputs),
        None if opset is None else whole("opset", opset),
        flag("contrib", contrib),
        None if external_data is None else flag("external_data", external_data),
        seconds("time_limit", time_limit),
        choice("custom", custom, CUSTOM),
        text("signature", signature),
        {name: _shape(f"shapes['{name}']", shape) for name, shape in _mapping("shapes", shapes or {}).items()},
        None if max_size is None else whole("max_size", max_size, 1),
    )


def text(name: str, value: object) -> str:
    """A string."""
    return str(value) if isinstance(value, str) else _wrong(name, "a string", value)


def choice(name: str, value: object, known: Iterable[str]) -> str:
    """One of some words."""
    said, words = text(name, value), list(known)
    if said not in words:
        raise OptionError(f"unknown {name} '{said}': use one of {', '.join(words)}{nearest(said, words)}")
    return said


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that only counts as one of them."""
    return bool(value) if isinstance(value, (bool, np.bool_)) else _wrong(name, "True or False", value)


def whole(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """A whole number within limits; numpy's are as good as Python's."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        _wrong(name, "a whole number", value)
    number = int(value)
    if least is not None and number < least:
        raise OptionError(f"{name} is {number}: it must be at least {least}")
    if most is not None and number > most:
        raise OptionError(f"{name} is {number}: it must be at most {most}")
    return number


def seconds(name: str, value: object) -> float | None:
    """A positive time, or None for a limit on work."""
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool):
        _wrong(name, "a number of seconds", value)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not (isfinite(number) and number > 0):
        raise OptionError(f"{name}: a time limit of {number:g} seconds is not positive and finite")
    return number


def path(name: str, value: object) -> str:
    """The path of a file to write."""
    if not isinstance(value, (str, os.PathLike)):
        _wrong(name, "a path", value)
    return os.fsdecode(value)


def instance(name: str, value: object, kind: type[T]) -> T:
    """An object of one of layoutsolve's own classes."""
    return value if isinstance(value, kind) else _wrong(name, f"a {kind.__name__}", value)


def _mapping(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        _wrong(name, "a mapping from names", value)
    return {text(f"a name in {name}", key): item for key, item in value.items()}


def _pair(name: str, value: object) -> Pair:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) != 2:
        _wrong(name, "a pair of orders, as in ('NHWC', 'NCHW')", value)
    return text(name, value[0]), text(name, value[1])


def _ends(name: str, value: object) -> Ends:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        _wrong(name, "'keep', 'nchw', 'nhwc', 'free' or a mapping from names to those", value)
    return {key: _choice(f"{name}['{key}']", item) for key, item in _mapping(name, value).items()}


def _choice(name: str, value: object) -> Choice:
    return value if isinstance(value, str) else _pair(name, value)


def _shape(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes, bytearray, memoryview)):
        _wrong(name, "a sequence of sizes", value)
    return tuple(whole(f"a size in {name}", size, most=_LARGEST) for size in value)


def _wrong(name: str, expected: str, value: object) -> NoReturn:
    kind = type(value).__name__
    raise TypeError(f"{name} must be {expected}, not {kind if value is None else f'{kind} {brief(value)}'}")
