"""Broken operators are refused, or become a model that ONNX Runtime loads and that computes what LiteRT computes.

All that lack an input or output are tried, and one in four hundred others; ``LAYOUTSOLVE_SEEDS=2000`` tries all.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.frontend.tflite.operator_contract import definitions_of
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance import families
from tests.conformance.cases import Case
from tests.conformance.mutants import mutants, quantized, representatives
from tests.conformance.running import compare
from tests.truth import litert

REGISTRY = every_lowering()

SHARE = int(os.environ.get("LAYOUTSOLVE_SEEDS", "5")) / 2000
CASES = [case for case in families.every_case() if case.operator in REGISTRY and "Flex" not in case.operator]
OPERATORS = sorted({case.operator for case in CASES})

WIDER = re.compile(r"(every|input|output).* of (float16|float64|u?int(8|16|32|64)|int4|string|bool|bfloat16)")
"""Types that LiteRT has no kernel for, though the operator means the same on them: that is converted."""

LENIENT = {
    ("CONV_2D", "missing input"), ("CONV_2D", "empty input 2"), ("DEPTHWISE_CONV_2D", "missing input"),
    ("DEPTHWISE_CONV_2D", "empty input 2"), ("RESHAPE", "surplus empty input"),
    ("FULLY_CONNECTED", "input 1 of float32"), ("PACK", "missing input"), ("SPLIT", "missing output"),
}  # fmt: skip
"""What LiteRT refuses besides, and is converted all the same: old converters wrote convolutions without a bias, an
input that is left out says nothing, quantized numbers times floats mean what they say, and how many tensors an
operator joins or gives is told by these.
"""

WEIGHTS = {
    "BATCH_MATMUL": 1, "CONV_2D": 1, "CUSTOM:TFLite_Detection_PostProcess": 1, "DEPTHWISE_CONV_2D": 1,
    "EMBEDDING_LOOKUP": 1, "FULLY_CONNECTED": 1, "TRANSPOSE_CONV": 1,
}  # fmt: skip
"""The inputs that may be of other types than the rest, of which LiteRT misreads some or leaves out zero points."""

NO_KERNEL = ("unresolved custom op", "Didn't find op")
PACKED = ("int4", "uint4", "int2", "string")
"""Types that are not compared: ONNX Runtime takes no arrays of them from numpy, or LiteRT gives none."""


def test_every_operator_is_defined() -> None:
    assert [name for name in REGISTRY if not definitions_of(name)] == []


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", OPERATORS)
def test_mutants(operator: str) -> None:
    chosen = random.Random(operator)
    for case, source, place in representatives([case for case in CASES if case.operator == operator]):
        for label, made in mutants(source, place):
            if label.startswith("missing") or chosen.random() < SHARE:
                mutant = made()
                try:
                    model = serialise(read(mutant))
                except ConversionError:
                    continue
                judge(operator, label, mutant, model, case)


@pytest.mark.members(38)
@pytest.mark.parametrize("operator", OPERATORS)
def test_types_of_activations(operator: str) -> None:
    """Floats beside quantized numbers, or those of several types, where an operator has one type for them."""
    for case, source, place in representatives([case for case in CASES if case.operator == operator]):
        for label, mutant in quantized(source, place):
            if label.startswith("input") and operator in WEIGHTS and int(label[6]) == WEIGHTS[operator]:
                continue
            try:
                model = serialise(read(mutant))
            except ConversionError:
                continue
            judge(operator, label, mutant, model, case)


def judge(operator: str, label: str, source: bytes, model: onnx.ModelProto, case: Case) -> None:
    """Raise AssertionError unless a model that was converted is valid and computes what LiteRT computes."""
    onnx.checker.check_model(model, full_check=True)
    runtime = OnnxRuntime(model.SerializeToString(), threads=1)
    try:
        described = litert().describe(source)
        stated = " ".join([label, *(port.dtype for port in (*described.inputs, *described.outputs))])
        if any(dtype in stated for dtype in PACKED):
            return
        inputs = [fed(port, data) for port, data in zip(described.inputs, case.make().inputs, strict=True)]
        truth = litert().run(source, inputs)
    except VerifyError as error:
        known = WIDER.fullmatch(label) or (operator, label) in LENIENT or any(text in str(error) for text in NO_KERNEL)
        assert known, f"{label}: converted, but {error}"
        return
    results = runtime.run(feeds(runtime, inputs, {}))
    for port, expected, actual in zip(truth.outputs, truth.results, results, strict=False):
        coarse = replace(case, tolerance=1e-2, steps=16) if port.dtype in ("float16", "bfloat16", "int16") else case
        compare(coarse, port, expected, actual)


def fed(port: Port, data: Array) -> Array:
    """The data of a case, as the type that the mutant reads."""
    with np.errstate(all="ignore"):
        return np.zeros(port.shape, port.dtype) if data.dtype.kind == "S" else data.astype(port.dtype)
