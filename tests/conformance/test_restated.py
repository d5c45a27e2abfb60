"""What a file states and LiteRT passes over: shapes that it computes anew, and scales without an end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from tests.conformance import families
from tests.conformance.rewritten import that_runs
from tests.conformance.running import judge, truth_of

_SMALL = {getattr(schema.TensorType, name) for name in ("INT8", "UINT8", "INT16")}
_OPERATORS = sorted({case.operator for case in families.every_case() if not case.operator.startswith("CUSTOM:")})
_MOST = 2
_DIVIDED = (
    *("ABS", "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "ELU", "EXP", "FULLY_CONNECTED", "GELU", "HARD_SWISH"),
    *("LEAKY_RELU", "LOG", "MEAN", "MUL", "PRELU", "QUANTIZE", "REDUCE_PROD", "RELU", "RELU6", "RELU_N1_TO_1", "RSQRT"),
    *("SQRT", "SUM", "TANH", "TRANSPOSE_CONV"),
)
"""The operators whose results LiteRT divides by the scale of the output."""


def _stale(model: Any) -> bool:
    """State other shapes of what the model computes than follow from its inputs."""
    subgraph = model.subgraphs[0]
    made = [subgraph.tensors[index] for operator in subgraph.operators for index in operator.outputs]
    for tensor in made:
        if tensor.shape is not None and tensor.shapeSignature is None:
            tensor.shape = [int(size) + 1 for size in tensor.shape]
    return bool(made)


def _endless(model: Any) -> bool:
    """Make the scale of each output infinite."""
    subgraph = model.subgraphs[0]
    found = False
    for index in subgraph.outputs:
        stated = subgraph.tensors[index].quantization
        if subgraph.tensors[index].type in _SMALL and stated is not None and stated.scale is not None:
            stated.scale, found = np.full(len(stated.scale), np.inf, np.float32), True
    return found


@pytest.mark.members(66)
@pytest.mark.parametrize("operator", _OPERATORS)
def test_shapes_are_computed_anew(operator: str) -> None:
    for case, model in that_runs(_stale, operator, 1):
        assert truth_of(model).results
        judge(case, model, serialise(read(model.source)))


@pytest.mark.parametrize("operator", _DIVIDED)
def test_what_is_divided_by_an_infinite_scale_is_zero(operator: str) -> None:
    for case, model in that_runs(_endless, operator, _MOST):
        judge(case, model, serialise(read(model.source)))
