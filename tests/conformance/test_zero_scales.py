"""Constants with scales of zero, all of them or some: their numbers are zeros, whatever is stored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.frontend import read
from tests.builder import Builder, Quant
from tests.conformance.rewritten import check_rewritten

_SMALL = {getattr(schema.TensorType, name) for name in ("INT2", "INT4", "INT8", "UINT8")}
_MOST = 6
_MULTIPLYING = (
    *("BATCH_MATMUL", "CONV_2D", "DENSIFY", "DEPTHWISE_CONV_2D", "EMBEDDING_LOOKUP", "FULLY_CONNECTED", "LSTM", "MUL"),
    *("RNN", "SVDF", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_RNN"),
)
"""The operators that LiteRT runs with such constants: others want scales above zero, or never look at them."""


def _constants(model: Any) -> Iterator[Any]:
    for subgraph in model.subgraphs:
        made = {index for operator in subgraph.operators for index in operator.outputs} | set(subgraph.inputs)
        for index, tensor in enumerate(subgraph.tensors):
            if index not in made and tensor.quantization is not None and not tensor.isVariable:
                yield subgraph, tensor


def silenced(model: Any, every: int) -> bool:
    """Set every so manieth scale of each constant to zero, those of biases as well; whether there are any."""
    found = False
    for subgraph, tensor in _constants(model):
        stated = tensor.quantization
        if stated.details is not None:
            buffer = model.buffers[subgraph.tensors[stated.details.scales].buffer]
            scales = np.array(buffer.data, np.uint8).view(np.float16).copy()
            scales[::every] = 0
            buffer.data, found = scales.view(np.uint8), True
        elif stated.scale is not None and len(stated.scale) >= every:
            stated.scale = np.array(stated.scale, np.float32)
            stated.scale[::every] = 0
            found |= tensor.type in _SMALL
    return found


@pytest.mark.members(12)
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("operator", _MULTIPLYING)
def test_scales_are_zero(operator: str, every: int) -> None:
    check_rewritten(partial(silenced, every=every), operator, _MOST)


@pytest.mark.parametrize("quant", [Quant([0.0], [0]), Quant([0.0] * 3, [0] * 3), Quant([0.0, 0.5, 0.0], [0, 0, 0])])
def test_weights_are_annotated(quant: Quant) -> None:
    """They are not taken for integers without parameters, which would be refused."""
    builder = Builder()
    x, out = builder.input("x", (2, 4)), builder.tensor("out", (2, 3))
    weights = builder.constant("weights", np.ones((3, 4)), "int8", quant)
    builder.operator("FULLY_CONNECTED", [x, weights, -1], [out], {})
    found = read(builder.finish(out)).values["weights"]
    assert found.quant is not None
    assert found.data is not None
    assert (found.quant.real(found.data) == np.ones((3, 4)) * np.reshape(quant.scale, (-1, 1))).all()
