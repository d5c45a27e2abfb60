"""All families of cases; importing this module declares them."""

from __future__ import annotations

from tests.conformance import (
    activation,
    arithmetic,
    arrangement,
    audio,
    comparison,
    contraction,
    control,
    convolution,
    detection,
    elementwise,
    filling,
    flex,
    flex_arrays,
    gathering,
    lookup,
    mediapipe,
    networks,
    normalisation,
    padding,
    pooling,
    posenet,
    quantise,
    ragged,
    recurrent,
    reduction,
    resize,
    signal,
    signal_library,
    slicing,
    sorting,
    space,
    stablehlo,
    types,
    weights,
)
from tests.conformance.cases import Case, all_cases

FAMILIES = (
    activation, arithmetic, arrangement, audio, comparison, contraction, control, convolution, detection, elementwise,
    filling, flex, flex_arrays, gathering, lookup, mediapipe, networks, normalisation, padding, pooling, posenet,
    quantise, ragged, recurrent, reduction, resize, signal, signal_library, slicing, sorting, space, stablehlo, types,
    weights,
)  # fmt: skip

ELSEWHERE = dict.fromkeys(
    ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL", *(f"CUSTOM:Flex{name}" for name in flex.CHANCE)),
    "test_random.py compares how they are distributed",
)
"""Operators that have no cases here, and why."""


def every_case() -> list[Case]:
    """All cases, of all families."""
    return all_cases()
