"""Kernels on bytes, ``quant="qoperator"``: what ONNX Runtime at last makes of ``quant="qdq"``, at every level."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from layoutsolve.emit import Kernels, QuantForm, nodes_of, serialise
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import Reading, read
from layoutsolve.ir.graph import Array
from layoutsolve.ir.storage_options import Storage
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance import families
from tests.conformance.cases import Case, Model
from tests.conformance.networks import NETWORK
from tests.conformance.running import judge

KINDS = ("int8", "uint8", "quantized", "scales")
"""What the labels of cases have where an operator computes with bytes."""

OPERATORS = (
    "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED",
    "LEAKY_RELU", "LOGISTIC", "MUL", "SOFTMAX", NETWORK,
)  # fmt: skip
"""What there are kernels for."""

KERNELS = Kernels(frozenset(("", "com.microsoft")), saturate=False)

CASES = [
    case for case in families.every_case() if case.operator in OPERATORS and any(kind in case.label for kind in KINDS)
]


def written(source: bytes, quant: str) -> onnx.ModelProto:
    """The reference graph as it stands, written in a way."""
    graph = read(source, "case", Reading(quant=quant))
    kernels = KERNELS if quant == "qoperator" else None
    return serialise(graph, quant=QuantForm(kernels, storage=Storage(weights="selected")))


def last(model: onnx.ModelProto, case: Model) -> list[Array]:
    """What a model gives when it is optimised."""
    runtime = OnnxRuntime(model.SerializeToString(), threads=1, level="all")
    return runtime.run(feeds(runtime, case.inputs, {}))


@pytest.mark.members(126)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_qoperator(case: Case) -> None:
    """As near to LiteRT at every level as the others, and at the last one what they are."""
    model = case.make()
    try:
        pattern = written(model.source, "qdq")
    except ConversionError:
        pytest.skip("it is refused however its numbers are written")
    kernels = written(model.source, "qoperator")
    if kernels == pattern:
        pytest.skip("nothing of it is a kernel on bytes")
    judge(case, model, kernels)
    for expected, found in zip(last(pattern, model), last(kernels, model), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_kernels_are_met(operator: str) -> None:
    """Some case of each operator becomes a kernel."""
    cases = (case for case in CASES if case.operator == operator)
    models = (written(case.make().source, "qoperator") for case in cases)
    assert any(node.op_type.startswith(("QLinear", "QGemm")) for model in models for node in nodes_of(model.graph))
