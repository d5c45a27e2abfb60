"""What callers may give: each argument is checked here, before anything is done, in one place for all functions.

A wrong type is a :class:`TypeError`, a wrong value an :class:`OptionError`; both name the argument.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar, get_args

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import brief, nearest
from layoutsolve.conversion.choices import Format
from layoutsolve.errors import OptionError
from layoutsolve.frontend import Reading
from layoutsolve.frontend.tflite.lowering.options import CUSTOM, DYNAMIC, INITIALIZER_INPUTS, QUANT, WEIGHTS
from layoutsolve.solver import DEFAULT_OBJECTIVE, OBJECTIVES, Boundary, Goal
from layoutsolve.solver.statement.boundary import OTHERS, Choice, Ends, Pair
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import (
    CONTRIB_TARGET,
    DEFAULT_TARGET,
    KNOWN,
    TFLITE_TARGET,
    read_target,
    shipped,
    target_of,
)
from layoutsolve.solver.theory.rule import CONTRIB

T = TypeVar("T")

FORMATS = get_args(Format)
"""The formats that are written."""

_OF_ONNX: Mapping[str, object] = {
    "opset": None,
    "contrib": False,
    "external_data": None,
    "quant": "qdq",
    "dynamic": "float",
    "weights": "source",
}
"""The options that are about ONNX alone, with their defaults."""

_LARGEST = (1 << 31) - 1
"""The largest size that a dimension of a TensorFlow Lite model can have, and far above any operator set."""

_MOST = 1 << 62
"""More bytes than there are."""


_SELECTING = 18
"""The oldest operator set in which weights are selected when a model is loaded: that of BitwiseXor."""

MOST_THREADS = 1 << 10
"""More threads than gain anything on any machine; ONNX Runtime makes as many as it is told to."""

MOST_SAMPLES = 1 << 20
"""More inputs than anybody waits for, or steps on one of them."""


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
        raise OptionError(f"{name} is {brief(number)}: it must be at least {least}")
    if most is not None and number > most:
        raise OptionError(f"{name} is {brief(number)}: it must be at most {most}")
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


def target(name: str, value: object) -> Target:
    """A target by its name, or by the path of its file, or as it is."""
    if isinstance(value, Target):
        return value
    if not isinstance(value, (str, os.PathLike)):
        _wrong(name, "the name of a target, or the path of its file", value)
    return read_target(os.fsdecode(value)) if isinstance(value, os.PathLike) else target_of(value)


def path(name: str, value: object) -> str:
    """The path of a file to write."""
    if not isinstance(value, (str, os.PathLike)):
        _wrong(name, "a path", value)
    return os.fsdecode(value)


def instance(name: str, value: object, kind: type[T]) -> T:
    """An object of one of layoutsolve's own classes."""
    return value if isinstance(value, kind) else _wrong(name, f"a {kind.__name__}", value)


def function(name: str, value: object) -> Callable[..., object]:
    """Something that can be called."""
    return value if callable(value) else _wrong(name, "a function", value)


def texts(name: str, value: object) -> tuple[str, ...]:
    """A sequence of strings, which is no string itself."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray, memoryview)):
        _wrong(name, "a sequence of strings", value)
    return tuple(text(f"an item of {name}", each) for each in value)


def texts_by_name(name: str, value: object) -> dict[str, tuple[str, ...]]:
    """Such sequences by names; None is no name."""
    return _each(name, value, texts)


def arrays(name: str, value: object) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Arrays by names."""
    return {key: _array(f"{name}['{key}']", item) for key, item in _mapping(name, value).items()}


def _array(name: str, value: object) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        _wrong(name, "an array", value)


def _mapping(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        _wrong(name, "a mapping from names", value)
    return {text(f"a name in {name}", key): item for key, item in value.items()}


def _each(name: str, value: object, read: Callable[[str, object], T]) -> dict[str, T]:
    """A mapping from names, of which each value is read; None is an empty one."""
    return {key: read(f"{name}['{key}']", item) for key, item in _mapping(name, {} if value is None else value).items()}


def _pair(name: str, value: object) -> Pair:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) != 2:
        _wrong(name, "a pair of orders, as in ('NHWC', 'NCHW')", value)
    return text(name, value[0]), text(name, value[1])


def _ends(name: str, value: object) -> Ends:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        _wrong(name, "'keep', 'nchw', 'nhwc', 'free' or a mapping from names to those", value)
    choices = {key: _choice(f"{name}['{key}']", item) for key, item in _mapping(name, value).items()}
    if choices.get(OTHERS, "keep") == "keep":
        choices.pop(OTHERS, None)
    general = choices.get(OTHERS, "keep")
    return general if set(choices) <= {OTHERS} and isinstance(general, str) else choices


def _format(name: str, value: object) -> str:
    if isinstance(value, str) and value not in FORMATS:
        formats = " or ".join(f"'{each}'" for each in FORMATS)
        raise OptionError(
            f"{name}: a format is {formats}, not {brief(value)}; layoutsolve.cut ends a model at a tensor"
        )
    return choice(name, value, FORMATS)


def _strategy(name: str, value: object) -> str:
    from layoutsolve.solver import STRATEGIES  # with all that searches, which a certificate is checked without

    return choice(name, value, STRATEGIES)


def _choice(name: str, value: object) -> Choice:
    return value if isinstance(value, str) else _pair(name, value)


def _shape(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes, bytearray, memoryview)):
        _wrong(name, "a sequence of sizes", value)
    return tuple(whole(f"a size in {name}", size, most=_LARGEST) for size in value)


def _wrong(name: str, expected: str, value: object) -> NoReturn:
    kind = type(value).__name__
    raise TypeError(f"{name} must be {expected}, not {kind if value is None else f'{kind} {brief(value)}'}")


def _by(check: Callable[[str, Any], object]) -> Mapping[str, Callable[[str, Any], object]]:
    """What a field of the options knows about how a value for it is checked."""
    return {"check": check}


def _unless_none(check: Callable[[str, Any], object]) -> Mapping[str, Callable[[str, Any], object]]:
    return _by(lambda name, value: None if value is None else check(name, value))


@dataclass(frozen=True)
class Options:
    """Options of a conversion, as :func:`layoutsolve.convert` takes them; every field is of the stated type.

    ``target`` is None where none was named.
    """

    objective: str = field(default=DEFAULT_OBJECTIVE, metadata=_by(partial(choice, known=OBJECTIVES)))
    strategy: str = field(default="cpsat", metadata=_by(_strategy))
    to: str = field(default="onnx", metadata=_by(_format))
    layouts: Mapping[str, Pair] = field(default_factory=dict, metadata=_by(partial(_each, read=_pair)))
    inputs: Ends = field(default="keep", metadata=_by(_ends))
    outputs: Ends = field(default="keep", metadata=_by(_ends))
    opset: int | None = field(default=None, metadata=_unless_none(partial(whole, most=_LARGEST)))
    target: Target | None = field(default=None, metadata=_unless_none(target))
    contrib: bool = field(default=False, metadata=_by(flag))
    external_data: bool | None = field(default=None, metadata=_unless_none(flag))
    time_limit: float | None = field(default=None, metadata=_unless_none(seconds))
    custom: str = field(default="error", metadata=_by(partial(choice, known=CUSTOM)))
    quant: str = field(default="qdq", metadata=_by(partial(choice, known=QUANT)))
    dynamic: str = field(default="float", metadata=_by(partial(choice, known=DYNAMIC)))
    weights: str = field(default="source", metadata=_by(partial(choice, known=WEIGHTS)))
    initializer_inputs: str = field(default="drop", metadata=_by(partial(choice, known=INITIALIZER_INPUTS)))
    signature: str = field(default="", metadata=_by(text))
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, metadata=_by(partial(_each, read=_shape)))
    max_size: int | None = field(default=None, metadata=_unless_none(partial(whole, least=1, most=_MOST)))

    def __post_init__(self) -> None:
        if self.to != "onnx":
            self._check_format()
        if self.contrib and self.target is not None and CONTRIB not in self.target.domains:
            allowing = f"target '{self.target.name}' does not allow operators of {CONTRIB}"
            raise OptionError(f"contrib: {allowing}; leave it or the target out")
        if self.quant == "qoperator" and not self.goal.target.qoperator:
            running = f"target '{self.goal.target.name}' does not run int8 operators such as QLinearConv correctly"
            raise OptionError(f"quant: {running}; use qdq, or another target")
        if self.goal.timed and not self.goal.target.timed:
            telling = f"target '{self.goal.target.name}' has no times of Transposes"
            raise OptionError(f"objective: {telling}; give it a field 'latency', or use another objective")
        if self.dynamic == "integer" and self.goal.target.dynamic is None:
            knowing = f"target '{self.goal.target.name}' does not state which products are faster in integers"
            raise OptionError(f"dynamic: {knowing}; give it a field 'dynamic', or use float")

    def _check_format(self) -> None:
        """Raise :class:`OptionError` for what means nothing for a model that is written in TensorFlow Lite."""
        for name, default in _OF_ONNX.items():
            if getattr(self, name) != default:
                raise OptionError(f"{name}: that is about ONNX, and TensorFlow Lite is written; leave it out")
        if TFLITE_TARGET not in self.goal.target.names:
            told = f"'{self.goal.target.name}' is for ONNX files, and TensorFlow Lite is written for '{TFLITE_TARGET}'"
            raise OptionError(f"target: {told}; leave it out")

    def check_onnx(self) -> None:
        """Raise :class:`OptionError` for what means nothing for a model in ONNX."""
        default = Options()
        for name in ("custom", "quant", "dynamic", "weights", "signature"):
            if getattr(self, name) != getattr(default, name):
                about = "that is about models of TensorFlow Lite, and this one is in ONNX"
                raise OptionError(f"{name}: {about}; leave it out")

    def check_tflite(self) -> None:
        """Raise :class:`OptionError` for what means nothing for a model of TensorFlow Lite."""
        if self.initializer_inputs != "drop":
            about = "that is about models in ONNX, and this one is of TensorFlow Lite"
            raise OptionError(f"initializer_inputs: {about}; leave it out")

    @classmethod
    def of(cls, given: Mapping[str, Any], **known: Any) -> Options:
        """Check all options of a conversion among what a function was given, by the names of its arguments; others are
        ``known``.
        """
        checks = {each.name: each.metadata["check"] for each in fields(cls)}
        return cls(**{name: check(name, given[name]) for name, check in checks.items() if name in given}, **known)

    @classmethod
    def parsed(cls, text: str, target: Target) -> Options:
        """Options parsed from a :attr:`text`, for the target that it names."""
        return cls.of({name: value for name, value in json.loads(text).items() if name != "target"}, target=target)

    @property
    def text(self) -> str:
        """What decides what is written and is not the default, as JSON: always the same for options that mean the same.

        A target is there by its name.
        """
        target = self.goal.target
        spelled = ("contrib", "target")
        said = {name: value for name, value in self.said().items() if name not in spelled and value is not False}
        said |= {} if target.name == self.usual and not self.own_target else {"target": target.name}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))

    @property
    def own_target(self) -> str:
        """The digest of a target that does not come with layoutsolve, '' for one that does."""
        target = self.goal.target
        return "" if target.name in KNOWN and target == shipped(target.name) else target.digest

    @property
    def goal(self) -> Goal:
        """What layouts are chosen for."""
        return Goal(self.objective, self.target or shipped(CONTRIB_TARGET if self.contrib else self.usual))

    @property
    def usual(self) -> str:
        """The target where none is named."""
        return TFLITE_TARGET if self.to == "tflite" else DEFAULT_TARGET

    @property
    def boundary(self) -> Boundary:
        """What is fixed from outside."""
        return Boundary(self.inputs, self.outputs, self.layouts)

    @property
    def reading(self) -> Reading:
        """How the model is read."""
        target, asked = self.goal.target, (self.custom, self.signature, self.shapes, self.max_size)
        dynamic = target.dynamic if self.dynamic == "integer" else None
        moved = self.inputs != "keep" or self.layouts  # images may then come channels-last
        storage = replace(target.storage, pixel=0) if moved else target.storage
        if self.opset is not None and self.opset < _SELECTING and storage.weights == "selected":
            storage = replace(storage, weights="unsigned")  # which is right on all processors as well
        return Reading(*asked, storage, self.quant, dynamic, self.weights, self.initializer_inputs)

    def said(self) -> dict[str, object]:
        """The options that are not the default, for reports."""
        default, values = Options(), {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.name if isinstance(value, Target) else value
            for name, value in values.items()
            if value != getattr(default, name)
        }


NAMES = frozenset(each.name for each in fields(Options))
"""What options are called, with which messages about one of them begin."""
