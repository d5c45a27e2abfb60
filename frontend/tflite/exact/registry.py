"""Registry of the exact lowerings of quantized operators, which are bit-exact with LiteRT."""

from __future__ import annotations

from collections.abc import Callable

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import Lowered

EXACT: dict[str, Lowered] = {}
"""The lowerings, by operator. Operators that only move what is stored need none."""


def exactly(*operators: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    """Register a function as the exact lowering of operators with quantized inputs or outputs."""

    def register(function: Callable[[Call], None]) -> Callable[[Call], None]:
        if known := sorted(EXACT.keys() & {*operators}):
            raise ValueError(f"operator {known[0]} has an exact lowering already")
        EXACT.update(dict.fromkeys(operators, function))
        return function

    return register
