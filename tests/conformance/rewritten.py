"""Cases whose models are rewritten: what the file of each says is changed by LiteRT's own object API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import read
from layoutsolve.verification.runtimes import RefusedError
from tests.conformance.cases import Case, Model
from tests.conformance.running import judge, truth_of
from tests.conformance.test_conformance import CASES


def rewritten(change: Callable[[Any], bool], operators: Collection[str], most: int) -> list[Any]:
    """Parameters for a test: the first cases of each operator whose model ``change`` alters, which it tells."""
    return list(_rewritten(change, operators, most))


def _rewritten(change: Callable[[Any], bool], operators: Collection[str], most: int) -> Iterator[Any]:
    counts: Counter[str] = Counter()
    for case in CASES:
        if case.operator not in operators or counts[case.operator] >= most:
            continue
        try:
            model = case.make()
        except RefusedError:  # by an older LiteRT, for some that it runs to make them
            continue
        stated = schema.ModelT.InitFromPackedBuf(model.source, 0)
        if model.expected is None and change(stated):
            counts[case.operator] += 1
            builder = flatbuffers.Builder(4096)
            builder.Finish(stated.Pack(builder), b"TFL3")
            altered = replace(model, source=bytes(builder.Output()), truth=b"")
            yield pytest.param(case, altered, id=case.name)


def check_rewritten(case: Case, model: Model) -> None:
    """What LiteRT still runs is converted rightly, or refused."""
    try:
        truth_of(model)
    except VerifyError:
        pytest.skip("LiteRT does not run it any more")
    try:
        converted = serialise(read(model.source, "rewritten"))
    except ConversionError:
        return
    judge(case, model, converted)
