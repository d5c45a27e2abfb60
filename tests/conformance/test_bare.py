"""Operators whose options the file leaves out: LiteRT has zeros for them, not the defaults of the schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import read
from tests.conformance.cases import Case, Model
from tests.conformance.running import judge, truth_of
from tests.conformance.test_conformance import CASES

_MOST = 3
"""Cases tried of each operator."""


def bare(source: bytes) -> bytes | None:
    """A model without any options, None where it has none that state something."""
    model = schema.ModelT.InitFromPackedBuf(source, 0)
    stated = False
    for operator in (each for subgraph in model.subgraphs for each in subgraph.operators):
        for union in ("builtinOptions", "builtinOptions2"):
            stated |= bool(getattr(getattr(operator, union), "__dict__", None))
            setattr(operator, union, None)
            setattr(operator, union + "Type", 0)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()) if stated else None


def models() -> Iterator[tuple[Case, Model]]:
    """The first cases of each operator that LiteRT runs as they are, and that have options to leave out."""
    counts: Counter[str] = Counter()
    for case in CASES:
        if counts[case.operator] < _MOST:
            model = case.make()
            source = None if model.expected is not None else bare(model.source)
            if source is not None:
                counts[case.operator] += 1
                yield case, replace(model, source=source, truth=b"")


@pytest.mark.parametrize(("case", "model"), [pytest.param(*each, id=each[0].name) for each in models()])
def test_without_options(case: Case, model: Model) -> None:
    """What LiteRT runs without options is converted rightly, or refused: its stated shape may not fit any more."""
    try:
        truth_of(model)
    except VerifyError:
        pytest.skip("LiteRT does not run it without options")
    try:
        converted = serialise(read(model.source, "bare"))
    except ConversionError:
        return
    judge(case, model, converted)
