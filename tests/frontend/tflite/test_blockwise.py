"""Weights quantized per block: what the file has to say, how they are written, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from layoutsolve.api import convert
from layoutsolve.emit import serialise
from layoutsolve.errors import ModelError, OptionError, UnsupportedError
from layoutsolve.frontend import read
from tests.builder import Builder, Quant

WEIGHTS = np.arange(4 * 64, dtype=np.int64).reshape(4, 64) % 15 - 7
SCALES = [0.25 * (1 + at) for at in range(8)]


def dense(operator: str = "FULLY_CONNECTED", zeros: bool = False, **details: Any) -> bytes:
    """A model of one operator whose weights are quantized in blocks of 32; ``details`` replace what the file says."""
    builder = Builder()
    x = builder.input("x", (2, 64))
    quant = Quant(SCALES, [1] * 8 if zeros else [], 1, 32)
    weights = builder.constant("weights", WEIGHTS, "int4", quant)
    stated = builder.subgraph.tensors[weights].quantization.details
    for key, value in details.items():
        setattr(stated, key, value)
    out = builder.tensor("out", (2, 4))
    builder.operator(operator, [x, weights, -1][: 2 + (operator == "FULLY_CONNECTED")], [out])
    return builder.finish(out)


def dequantize(model: onnx.ModelProto) -> onnx.NodeProto:
    (node,) = (node for node in model.graph.node if node.op_type == "DequantizeLinear")
    return node


@pytest.mark.parametrize("zeros", [False, True])
def test_blocks_stay_blocks(zeros: bool) -> None:
    model = convert(dense(zeros=zeros)).model
    node = dequantize(model)
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    stored = {each.name: each for each in model.graph.initializer}
    assert attributes == {"axis": 1, "block_size": 32}
    assert len(node.input) == 2 + zeros
    assert stored[node.input[0]].data_type == TensorProto.INT4
    assert len(stored[node.input[0]].raw_data) == WEIGHTS.size // 2
    assert numpy_helper.to_array(stored[node.input[1]]).tolist() == np.reshape(SCALES, (4, 2)).tolist()


def test_blocks_of_an_image() -> None:
    """What is contracted keeps its order: a Transpose is cheaper than weights in floats."""
    builder = Builder()
    x, pooled = builder.input("x", (2, 4, 4, 4)), builder.tensor("pooled", (2, 4, 4, 4))
    window = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2}
    builder.operator("AVERAGE_POOL_2D", [x], [pooled], window)
    weights = builder.constant("weights", WEIGHTS, "int4", Quant(SCALES, [], 1, 32))
    out = builder.tensor("out", (2, 4))
    builder.operator("FULLY_CONNECTED", [pooled, weights, -1], [out])
    model = convert(builder.finish(out)).model
    assert dequantize(model).attribute
    assert TensorProto.INT4 in {each.data_type for each in model.graph.initializer}


def test_opset() -> None:
    assert [each.version for each in convert(dense()).model.opset_import] == [21]
    with pytest.raises(OptionError, match="needs opset 21"):
        serialise(read(dense()), opset=20)


def test_shape_of_a_block() -> None:
    node = dequantize(convert(dense(blockShape=[1, 32], blockSize=0)).model)
    assert {attribute.name: attribute.i for attribute in node.attribute} == {"axis": 1, "block_size": 32}


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"scales": 99}, "tensor 99, which holds none"),
        ({"scales": -1}, "tensor -1, which holds none"),
        ({"scales": 0}, "tensor 0, which holds none"),
        ({"zeroPoints": 99}, "tensor 99, which holds none"),
        ({"zeroPoints": 1}, "tensor 1, which holds none"),
        ({"blockSize": 0}, "blocks of 0"),
        ({"blockSize": -32}, "blocks of 0"),
        ({"blockSize": 24}, "8 scales and 1 zero points"),
        ({"blockSize": 16}, "8 scales and 1 zero points"),
        ({"blockShape": [1, 1, 32]}, "along axis 2"),
    ],
)
def test_contradictions(details: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        read(dense(**details))


def test_blocks_of_two_axes() -> None:
    with pytest.raises(UnsupportedError, match="scales of several axes"):
        read(dense(blockShape=[2, 16]))


def test_other_operators() -> None:
    with pytest.raises(UnsupportedError, match="quantized per block"):
        read(dense("BATCH_MATMUL"))


def test_computed_small_integers() -> None:
    builder = Builder()
    table = builder.constant("table", WEIGHTS, "int4", Quant([0.5], [0]))
    rows, out = builder.input("rows", (2,), "int32"), builder.tensor("out", (2, 64), "int4", quant=Quant([0.5], [0]))
    builder.operator("EMBEDDING_LOOKUP", [rows, table], [out])
    with pytest.raises(UnsupportedError, match="computes a tensor of int4"):
        read(builder.finish(out))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@pytest.mark.parametrize("block", [0, 32])
def test_blocks_of_computed_weights(block: int, dtype: str) -> None:
    builder = Builder()
    quant = Quant(SCALES, [], 1, block) if block else Quant([0.25], [0])
    x, weights = builder.input("x", (2, 64)), builder.input("weights", (4, 64), dtype, quant=quant)
    out = builder.tensor("out", (2, 4))
    builder.operator("FULLY_CONNECTED", [x, weights, -1], [out])
    if block:
        with pytest.raises(UnsupportedError, match="scales per block and are computed"):
            convert(builder.finish(out))
    elif dtype == "int8":
        convert(builder.finish(out))
