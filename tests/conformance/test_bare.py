"""Operators whose options the file leaves out: LiteRT has zeros for them, not the defaults of the schema."""

from __future__ import annotations

from typing import Any

import pytest

from layoutsolve.frontend.tflite.reading import schema
from tests.conformance.families import every_case
from tests.conformance.rewritten import check_rewritten


def without_options(model: Any) -> bool:
    """Take all options out; whether any stated something."""
    stated = False
    for operator in (each for subgraph in model.subgraphs for each in subgraph.operators):
        for union in ("builtinOptions", "builtinOptions2"):
            stated |= bool(getattr(getattr(operator, union), "__dict__", None))
            setattr(operator, union, None)
            setattr(operator, union + "Type", 0)
    return stated


_OPERATORS = sorted(
    {case.operator for case in every_case()}
    & {name for name in schema.BUILTIN_OPERATORS if schema.accessors(schema.options_class(name))}
)


@pytest.mark.parametrize("operator", _OPERATORS)
def test_without_options(operator: str) -> None:
    """The stated shape may not fit any more, which is refused."""
    check_rewritten(without_options, operator, 3)
