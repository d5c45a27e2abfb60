"""The operators of ONNX that are not written as they stand, and how each is written instead."""

from __future__ import annotations

from collections.abc import Callable

from layoutsolve.frontend.onnx.call import Call

Lowered = Callable[[Call], bool]
"""Writes an operator; False where it is to be written as it stands."""

LOWERINGS: dict[str, Lowered] = {}


def lowering(*operators: str) -> Callable[[Lowered], Lowered]:
    """Register how operators are written."""

    def register(function: Lowered) -> Lowered:
        for name in operators:
            if name in LOWERINGS:
                raise ValueError(f"operator {name} has a lowering already")
            LOWERINGS[name] = function
        return function

    return register
