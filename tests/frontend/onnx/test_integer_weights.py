"""Weights that a model computes of integers, by Cast, Sub and Mul: the same annotation that DequantizeLinear gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from layoutsolve.frontend.onnx.lower import lower
from layoutsolve.frontend.onnx.reading import parse
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph

SHAPE = (6, 4, 3, 3)


def model(stored: Array, zero: Array | None, scale: Array, others: Sequence[onnx.NodeProto] = ()) -> onnx.ModelProto:
    """A convolution of floats by weights that are computed of integers."""
    held = {"stored": stored, "scale": scale.astype(np.float32)}
    nodes = [helper.make_node("Cast", ["stored"], ["wide"], to=onnx.TensorProto.FLOAT)]
    if zero is not None:
        held["zero"] = zero.astype(np.float32)
        nodes.append(helper.make_node("Sub", ["wide", "zero"], ["centred"]))
    nodes.append(helper.make_node("Mul", [nodes[-1].output[0], "scale"], ["weights"]))
    nodes += [helper.make_node("Conv", ["x", "weights"], ["y"]), *others]
    outputs = [onnx.ValueInfoProto(name="y"), *(onnx.ValueInfoProto(name=each.output[0]) for each in others)]
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", 1, (1, SHAPE[1], 8, 8))],
        outputs,
        [numpy_helper.from_array(each, name) for name, each in held.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def lowered(made: onnx.ModelProto) -> Graph:
    data = made.SerializeToString()
    return lower(parse(data), "model", {}, Budget(len(data)))


def weights_of(graph: Graph) -> tuple[str, Array]:
    """The type of a convolution's weights, and what they mean."""
    (node,) = (node for node in graph.nodes if node.op == "Conv")
    value = graph.values[node.inputs[1]]
    assert value.data is not None
    return value.dtype, value.data if value.quant is None else value.quant.real(value.data)


@pytest.mark.members(34)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
def test_integers_stay(seed: int, dtype: str) -> None:
    """They mean what the operators compute, to the last bit."""
    random = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    stored = random.integers(limits.min, limits.max, SHAPE, endpoint=True).astype(dtype)
    axis = [None, 0, 1][int(random.integers(3))]
    sizes = [size if place == axis else 1 for place, size in enumerate(SHAPE)] if axis is not None else []
    scale = random.uniform(0.001, 0.1, sizes)
    zero = None if dtype == "int32" or seed % 2 else random.integers(limits.min, limits.max, sizes, endpoint=True)
    found, real = weights_of(lowered(model(stored, zero, np.asarray(scale))))
    assert found == dtype
    centred = stored.astype(np.float32) - (np.float32(0) if zero is None else np.asarray(zero, np.float32))
    np.testing.assert_array_equal(real, centred * np.asarray(scale, np.float32))


@pytest.mark.parametrize(
    "case",
    [
        (np.zeros((), np.float32) + 0.5, np.float32(0.1)),
        (None, np.full(SHAPE, 0.1)),
        (None, np.float32(-0.1)),
        (np.float32(300), np.float32(0.1)),
        (np.zeros((6, 1, 1, 1)), np.float32(0.1)),
    ],
    ids=["no whole zero", "a scale for each", "negative", "a zero that is no byte", "other zeros than scales"],
)
def test_what_no_parameters_express_is_computed(case: tuple[Array | None, Array]) -> None:
    zero, scale = case
    stored = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(np.uint8)
    found, real = weights_of(lowered(model(stored, zero, np.asarray(scale))))
    assert found == "float32"
    centred = stored.astype(np.float32) - (np.float32(0) if zero is None else zero.astype(np.float32))
    np.testing.assert_array_equal(real, centred * np.asarray(scale, np.float32))


def test_what_others_read_is_computed() -> None:
    stored = np.ones(SHAPE, np.int8)
    other = helper.make_node("Relu", ["weights"], ["z"])
    assert weights_of(lowered(model(stored, None, np.asarray(0.5), [other])))[0] == "float32"
