"""Which function lowers which operator. Families that few models have are imported where one has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from layoutsolve.errors import OptionError
from layoutsolve.frontend.tflite.reading.schema import BUILTIN_OPERATORS

if TYPE_CHECKING:
    from layoutsolve.frontend.tflite.lowering.builder import Call

Lowered = Callable[["Call"], None]

RARE: Mapping[str, tuple[str, ...]] = {
    "BIDIRECTIONAL_SEQUENCE_": ("recurrent.lstm", "recurrent.rnn"),
    "BITCAST": ("bitwise",),
    "BITWISE_": ("bitwise",),
    "COMPLEX_ABS": ("signal.fourier",),
    "CUSTOM:": (
        "signal.audio",
        "custom.detection",
        "flex.arrays",
        "custom.mediapipe",
        "custom.posenet",
        "custom.ragged",
        "signal.filter_bank",
        "signal.frames",
        "signal.spectrum",
    ),
    "DYNAMIC_UPDATE_SLICE": ("scattering",),
    "EMBEDDING_LOOKUP_SPARSE": ("scattering",),
    "HASHTABLE": ("lookup",),
    "IMAG": ("signal.fourier",),
    "LSTM": ("recurrent.lstm",),
    "MULTINOMIAL": ("random_numbers",),
    "NON_MAX_SUPPRESSION_": ("custom.detection",),
    "RANDOM_": ("random_numbers",),
    "REAL": ("signal.fourier",),
    "RFFT2D": ("signal.fourier",),
    "RIGHT_SHIFT": ("bitwise",),
    "RNN": ("recurrent.rnn",),
    "SCATTER_ND": ("scattering",),
    "SEGMENT_": ("scattering",),
    "SPARSE_TO_DENSE": ("scattering",),
    "STABLEHLO_": ("stablehlo.elementwise", "stablehlo.indexing", "stablehlo.sorting"),
    "SVDF": ("recurrent.svdf",),
    "UNIDIRECTIONAL_SEQUENCE_": ("recurrent.lstm", "recurrent.rnn"),
    "UNSORTED_SEGMENT_": ("scattering",),
}
"""The modules that lower nothing but operators whose names begin like this, or in one of these ways."""

FOREIGN: set[str] = set()
"""The operators whose lowering a user has registered."""

_REGISTRY: dict[str, Lowered] = {}


def lowers(*operators: str) -> Callable[[Lowered], Lowered]:
    """Register a function as the lowering of TFLite operators."""

    def register(function: Lowered) -> Lowered:
        _REGISTRY.update(dict.fromkeys(operators, function))
        return function

    return register


def register(operator: str) -> Callable[[Lowered], Lowered]:
    """Make a function the lowering of an operator: 'CUSTOM:<code>' for a custom one, or the name of a built-in one.

    The function is given a :class:`Call`, from which it reads inputs and options, and writes ONNX operators until every
    output is written; what it cannot convert it raises as a :class:`GapError`. One that was registered before is
    replaced. Raises :class:`OptionError` where TensorFlow Lite has no operator of that name.
    """
    if not isinstance(operator, str):
        raise TypeError(f"operator must be a string, not {type(operator).__name__}")
    known = operator.removeprefix("CUSTOM:") if operator.startswith("CUSTOM:") else operator in BUILTIN_OPERATORS
    if not known:
        raise OptionError(f"'{operator}' is no operator: give 'CUSTOM:<code>', or a built-in one such as 'CONV_2D'")
    _load(operator)

    def foreign(function: Lowered) -> Lowered:
        if not callable(function):
            raise TypeError(f"the lowering of '{operator}' must be a function, not {type(function).__name__}")
        FOREIGN.add(operator)
        return lowers(operator)(function)

    return foreign


def lowering_of(operator: str) -> Lowered | None:
    """The function that lowers an operator, None where there is none."""
    if operator not in _REGISTRY:
        _load(operator)
    return _REGISTRY.get(operator)


def own_lowering(operator: str) -> Lowered:
    """The function that lowers an operator that is known to have one."""
    _load(operator)
    return _REGISTRY[operator]


def every_lowering() -> dict[str, Lowered]:
    """All that is registered, by operator: the table itself."""
    for prefix in RARE:
        _load(prefix)
    return _REGISTRY


def _load(operator: str) -> None:
    for prefix, modules in RARE.items():
        if operator.startswith(prefix):
            for module in modules:
                import_module(f"layoutsolve.frontend.tflite.operators.{module}")
