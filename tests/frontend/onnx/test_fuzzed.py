"""A slice of the fuzzer of models in ONNX."""

from __future__ import annotations

import os
import signal
from functools import partial
from itertools import islice

import pytest
from onnx import ModelProto

from experiments.fuzz import onnx_mutants, onnx_schemas
from layoutsolve.frontend.onnx.inference_standins import stand_ins
from tests.random_onnx import random_model

SCHEMAS = (
    "ConvTranspose",
    "DepthToSpace",
    "Einsum",
    "Expand",
    "GatherND",
    "LayerNormalization",
    "Loop",
    "PRelu",
    "Split",
)
"""Operators whose models are all looked at, beside some of those of all others."""


def _failures(mutants: list[onnx_mutants.Mutant]) -> list[str]:
    found = onnx_mutants.steps(mutants, lambda each: onnx_mutants.converted(each.source), 20.0)
    assert len(found) == len(mutants)
    assert any(each.word == "refused" for each in found.values())
    by_number = {each.number: each for each in mutants}
    return [f"{by_number[n].name}: {v.word} {v.detail}" for n, v in found.items() if v.word in onnx_mutants.FAILURES]


@pytest.mark.members(6)
@pytest.mark.parametrize("op", SCHEMAS)
def test_models_of_one_operator(op: str) -> None:
    """Some models of every change of an operator's schema."""
    every = partial(onnx_mutants.of_schemas, only=op)
    assert not _failures(list(every(range(90), every=29)))


def test_models_of_all_operators() -> None:
    chosen = [(schema, first) for first, schema in enumerate(onnx_schemas.schemas()[::9])]
    cases = [case for schema, first in chosen for case in islice(onnx_schemas.cases(schema), first, None, 211)]
    sources = (case.model().SerializeToString() for case in cases)
    assert not _failures(
        [onnx_mutants.Mutant(n, s, c.name, "") for n, (s, c) in enumerate(zip(sources, cases, strict=True))]
    )


def test_operators_with_stand_ins_of_fewer_ends() -> None:
    """Operators that others stand in for, whose schemas onnx does not know, with every number of inputs, outputs and
    attributes.
    """
    found = list[onnx_mutants.Mutant]()
    for schema in onnx_schemas.schemas():
        whole = onnx_schemas.base(schema, 2, False)
        if not stand_ins(whole.graph.node[0]):
            continue
        for ends in ("input", "output", "attribute"):
            for left in range(len(getattr(whole.graph.node[0], ends))):
                model = ModelProto.FromString(whole.SerializeToString())
                del getattr(model.graph.node[0], ends)[left:]
                source = model.SerializeToString()
                found.append(onnx_mutants.Mutant(len(found), source, f"{schema.name} of {left}", ends))
    assert len({each.name.split()[0] for each in found}) > 30
    assert not _failures(found)


@pytest.mark.parametrize("itself", [False, True])
def test_a_file_that_ends_the_runtime_is_a_fault_where_its_source_does_not(
    itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(onnx_mutants, "compared", dies)
    if itself:
        monkeypatch.setattr(onnx_mutants, "ran", dies)
    found = onnx_mutants.examined([onnx_mutants.Mutant(7, random_model(0)[1].SerializeToString(), "", "")])
    assert found[7].word == ("converted, ONNX Runtime died" if itself else "unusable")
