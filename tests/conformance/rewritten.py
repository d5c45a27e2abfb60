"""Cases whose models are rewritten: what the file of each says is changed by LiteRT's own object API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import read
from layoutsolve.verification.refusals import RefusedError
from tests.conformance.cases import Case, Model
from tests.conformance.running import judge, truth_of
from tests.conformance.test_conformance import CASES

Change = Callable[[Any], bool]
"""Changes a model, and tells whether there was anything to change."""

NONE = "the operator has no such case that LiteRT runs"


def rewritten(change: Change, operator: str, most: int) -> Iterator[tuple[Case, Model]]:
    """The first cases of an operator whose model ``change`` alters, which it tells."""
    count = 0
    for case in CASES:
        if case.operator != operator or count >= most:
            continue
        try:
            model = case.make()
        except RefusedError:  # by an older LiteRT, for some that it runs to make them
            continue
        stated = schema.ModelT.InitFromPackedBuf(model.source, 0)
        if model.expected is None and change(stated):
            count += 1
            builder = flatbuffers.Builder(4096)
            builder.Finish(stated.Pack(builder), b"TFL3")
            yield case, replace(model, source=bytes(builder.Output()), truth=b"")


def that_runs(change: Change, operator: str, most: int) -> Iterator[tuple[Case, Model]]:
    """Those of them that LiteRT still runs. A test of an operator that has none is skipped."""
    found = 0
    for case, model in rewritten(change, operator, most):
        try:
            truth_of(model)
        except VerifyError:
            continue
        found += 1
        yield case, model
    if not found:
        pytest.skip(NONE)


def check_rewritten(change: Change, operator: str, most: int) -> None:
    """What LiteRT still runs is converted rightly, or refused."""
    for case, model in that_runs(change, operator, most):
        try:
            converted = serialise(read(model.source, "rewritten"))
        except ConversionError:
            continue
        judge(case, model, converted)
