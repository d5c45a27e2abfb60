"""Which function lowers which operator. Families that few models have are imported where one has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN, file_of
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
        "flex.tensor_lists",
        "custom.mediapipe",
        "custom.pooled_places",
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
    "STABLEHLO_": (
        "stablehlo.elementwise",
        "stablehlo.indexing",
        "stablehlo.movement",
        "stablehlo.products",
        "stablehlo.sorting",
    ),
    "SVDF": ("recurrent.svdf",),
    "UNIDIRECTIONAL_SEQUENCE_": ("recurrent.lstm", "recurrent.rnn"),
    "UNSORTED_SEGMENT_": ("scattering",),
}
"""The modules that lower nothing but operators whose names begin like this, or in one of these ways."""

INT8, INT16 = frozenset(("int8", "uint8")), frozenset(("int16",))
INT8_AND_INT16 = INT8 | INT16


@dataclass(frozen=True)
class Declaration:
    """What is known of an operator beside its lowering.

    ``signatures`` say how many inputs and outputs it has, and of which types
    (:mod:`layoutsolve.frontend.tflite.lowering.operator_signatures`); none where nothing is known. LiteRT takes a first
    input of the types ``quantized`` as quantized only: without parameters its scale is zero and its results mean
    nothing. Inputs at the positions ``per_tensor``, and then all outputs, have one scale each in LiteRT's kernels.
    """

    signatures: tuple[str, ...] = ()
    quantized: frozenset[str] = frozenset()
    per_tensor: range | tuple[int, ...] = ()


_ALL = range(1 << 30)
"""The positions of all inputs."""

_REGISTRY: dict[str, Lowered] = {}
_DECLARED: dict[str, Declaration] = {}


def lowers(
    *operators: str,
    signature: str | tuple[str, ...] = (),
    quantized: frozenset[str] = frozenset(),
    per_tensor: bool | tuple[int, ...] = False,
) -> Callable[[Lowered], Lowered]:
    """Register a function as the lowering of TFLite operators, and declare what they are (:class:`Declaration`).

    Several signatures are alternatives. ``per_tensor`` is whether all inputs have one scale each, or the positions of
    those that do; it is all where ``quantized`` is given alone.
    """
    signatures = (signature,) if isinstance(signature, str) else signature
    positions = per_tensor if isinstance(per_tensor, tuple) else _ALL if per_tensor or quantized else ()
    declared = Declaration(signatures, quantized, positions)

    def register(function: Lowered) -> Lowered:
        if known := sorted(_REGISTRY.keys() & {*operators}):
            raise ValueError(f"operator {known[0]} has a lowering already")
        _REGISTRY.update(dict.fromkeys(operators, function))
        _DECLARED.update(dict.fromkeys(operators, declared))
        return function

    return register


def declaration(operator: str) -> Declaration:
    """What is known of an operator; nothing of one that nobody lowers."""
    return _DECLARED[operator] if lowering_of(operator) is not None else Declaration()


def register(operator: str) -> Callable[[Lowered], Lowered]:
    """Register a function as the lowering of an operator: 'CUSTOM:<code>' for a custom one, or the name of a built-in
    one.

    The function is given a :class:`Call`, from which it reads inputs and options, and writes ONNX operators until every
    output is written; it raises a :class:`GapError` for what it cannot convert. It replaces an earlier registration.
    Raises :class:`OptionError` where TensorFlow Lite has no operator of that name.
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
        FOREIGN[operator] = file_of(function)
        _REGISTRY[operator] = function
        _DECLARED.setdefault(operator, Declaration())
        return function

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
