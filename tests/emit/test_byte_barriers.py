"""What ONNX Runtime's optimiser would compute in bytes otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from layoutsolve.emit import optimization_barriers
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.emit.test_barriers import operators


def in_bytes(node: onnx.NodeProto, shape: Sequence[int], weights: Array | None = None) -> onnx.ModelProto:
    """One operator between numbers of bytes."""
    make, quantize, real = onnx.helper.make_node, "QuantizeLinear", "DequantizeLinear"
    steps, named = ["scale", "zero"], {"scale": np.float32(0.05), "zero": np.uint8(120), "small": np.float32(0.004)}
    nodes = [make(quantize, ["x", *steps], ["q"]), make(real, ["q", *steps], ["r"]), node]
    if weights is not None:
        named |= {"stored": weights, "none": weights.dtype.type(0)}
        nodes.insert(0, make(real, ["stored", "small", "none"], ["w"]))
    nodes += [make(quantize, ["result", *steps], ["again"]), make(real, ["again", *steps], ["y"])]
    info = onnx.helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in named.items()]
    graph = onnx.helper.make_graph(nodes, "bytes", [info("x", 1, shape)], [info("y", 1, None)], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return onnx.shape_inference.infer_shapes(model)


def left_in_bytes(model: onnx.ModelProto, operator: str, *shape: int) -> bool:
    """Whether ONNX Runtime takes a kernel on bytes for an operator of the guarded model, which gives what it gives
    without one.
    """
    plain = model.SerializeToString()
    optimization_barriers.guard(model.graph, 18, str)
    data = {"x": np.random.default_rng(0).uniform(-5, 5, shape).astype(np.float32)}
    (expected,) = OnnxRuntime(plain, level="none").run(data)
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), level=level).run(data)
        assert np.abs(found - expected).max() <= 0.051
    kinds = {node.op_type for node in optimised(model.SerializeToString(), "extended").graph.node}
    return not kinds.isdisjoint((f"QLinear{operator}", f"QLinearGlobal{operator}"))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    ("channels", "given", "groups", "stride", "fast"),
    [
        *((16, 16, 1, 1, True), (16, 16, 16, 1, True), (32, 32, 2, 1, True), (64, 64, 4, 1, True)),
        *((16, 32, 16, 1, False), (16, 16, 2, 1, False), (16, 16, 8, 1, False), (24, 12, 12, 1, False)),
        *((12, 36, 12, 1, False), (16, 16, 2, 2, True), (16, 16, 4, 2, False), (16, 32, 16, 2, False)),
    ],
)
def test_convolutions_by_groups(channels: int, given: int, groups: int, stride: int, fast: bool, size: int) -> None:
    """Small groups are computed in floats, all others and plain depthwise ones in bytes."""
    weights = np.random.default_rng(0).integers(-9, 9, (given, channels // groups, size, size)).astype(np.int8)
    moves = {"kernel_shape": [size, size], "strides": [stride, stride]}
    conv = onnx.helper.make_node("Conv", ["r", "w"], ["result"], group=groups, **moves)
    shape = (1, channels, 7, 6)
    assert left_in_bytes(in_bytes(conv, shape, weights), "Conv", *shape) == fast


@pytest.mark.parametrize(("shape", "axis"), [((3, 10), -1), ((2, 3, 15), 2), ((3, 16), -1), ((2, 3, 40), -1)])
def test_softmax_of_rows(shape: tuple[int, ...], axis: int) -> None:
    """Rows that are not short are computed in floats."""
    softmax = onnx.helper.make_node("Softmax", ["r"], ["result"], axis=axis)
    assert left_in_bytes(in_bytes(softmax, shape), "Softmax", *shape) == (shape[axis] < 16)


@pytest.mark.parametrize(
    ("shape", "kernel", "fast"),
    [
        *(((1, 16, 9, 9), (3, 3), False), ((2, 2, 40, 8), (2, 1), False), ((1, 16, 900), (3,), False)),
        *(((1, 16, 9, 9), (9, 9), True), ((1, 3, 9, 9), (2, 2), True), ((1, 300, 2, 2), (2, 2), True)),
    ],
)
def test_average_pools(shape: tuple[int, ...], kernel: tuple[int, ...], fast: bool) -> None:
    """Windows that are not whole images are averaged in floats, unless they are few."""
    pool = onnx.helper.make_node("AveragePool", ["r"], ["result"], kernel_shape=kernel)
    assert left_in_bytes(in_bytes(pool, shape), "AveragePool", *shape) == fast


PIECES = (
    *(((64, 64), (64, 64), 0), ((64, 64), (), 0), ((64, 64), (64,), 64), ((64, 64), (64, 1), 64), ((255, 8), (8,), 0)),
    *(((500, 10), (10,), 10), ((512, 16), (16,), 16), ((500, 10), (500, 1), 10), ((16, 40, 20), (16, 1, 20), 20)),
    *(((80, 5, 30), (30,), 30), ((40, 5, 30), (5, 30), 150), ((8, 32, 32), (8, 1, 1), 1024), ((1, 20), (400, 1), 20)),
    *(((2, 4, 1, 30, 40), (4, 1, 30, 1), 40), ((2, 1, 4, 1, 48, 12), (4, 1, 1, 12), 12), ((7, 30, 20), (7, 1, 1), 600)),
)
"""Shapes of a sum or product, of what is added or multiplied by, and how many numbers are gone over at once, 0 for
all or where there are few.
"""


@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize(("shape", "other", "piece"), PIECES)
def test_pieces(operator: str, shape: tuple[int, ...], other: tuple[int, ...], piece: int) -> None:
    """Where less than 32 numbers are gone over at once, or no 16 that are multiplied, that is done in floats."""
    node = onnx.helper.make_node(operator, ["r", "w"], ["result"])
    weights = np.random.default_rng(0).integers(0, 255, other).astype(np.uint8)
    fast = piece == 0 or piece >= 32 or (operator, piece) == ("Mul", 16)
    assert left_in_bytes(in_bytes(node, shape, weights), operator, *shape) == fast


@pytest.mark.parametrize(("channels", "side"), [(8, 24), (24, 24), (32, 24), (64, 24), (300, 4), (300, 5), (300, 6)])
@pytest.mark.parametrize("convolved", [False, True])
def test_images_lie_channels_last(channels: int, side: int, convolved: bool) -> None:
    """Beside a convolution pieces are those of its layout, else those of a channel."""
    offsets, weights = np.arange(channels).astype(np.uint8).reshape(-1, 1, 1), np.ones((channels, 4, 1, 1), np.int8)
    product = in_bytes(onnx.helper.make_node("Add", ["r", "w"], ["result"]), (1, channels, side, side), offsets)
    if convolved:
        conv = in_bytes(onnx.helper.make_node("Conv", ["r", "w"], ["result"]), (1, 4, side, side), weights)
        second = onnx.compose.add_prefix(product, "second/")
        product = onnx.shape_inference.infer_shapes(onnx.compose.merge_models(conv, second, [("y", "second/x")]))
    shape = (1, 4 if convolved else channels, side, side)
    assert left_in_bytes(product, "Add", *shape) == ((channels if convolved else side * side) >= 32)


@pytest.mark.parametrize("view", [(), (1, 5, 3), (15,)])
@pytest.mark.parametrize(("added", "halved"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("sides", [("given", "factor"), ("factor", "given"), ("given", "row"), ("given", "given")])
def test_products_that_are_scaled(sides: tuple[str, str], added: bool, halved: bool, view: tuple[int, ...]) -> None:
    """A Gemm multiplies by a number itself where nothing is added to its result, also behind a view."""
    make, info, random = onnx.helper.make_node, onnx.helper.make_tensor_value_info, np.random.default_rng(0)
    named = {"factor": np.float32(0.3), "row": np.float32([1, 2, 3]), "bias": np.float32([4, 5, 6])}
    nodes = [make("Gemm", ["a", "b", *["bias"] * added], ["given"], transB=1), make("Mul", sides, ["y"])]
    if view:
        named |= {"shape": np.array(view), "row": np.arange(view[-1], dtype=np.float32)}
        nodes[0].output[0] = "product"
        nodes.insert(1, make("Reshape", ["product", "shape"], ["given"]))
    ports = [info("a", 1, (5, 4)), info("b", 1, (3, 4))]
    constants = [onnx.numpy_helper.from_array(data, name) for name, data in named.items()]
    graph = onnx.helper.make_graph(nodes, "scaled", ports, [info("y", 1, view or (5, 3))], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    data = {"a": random.normal(size=(5, 4)).astype(np.float32), "b": random.normal(size=(3, 4)).astype(np.float32)}
    if halved:
        model.graph.node[0].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, f=0.5)
    (expected,) = OnnxRuntime(model.SerializeToString(), level="none").run(data)
    optimization_barriers.guard(model.graph, 18, str)
    kept = added or halved or "factor" not in sides
    assert operators(model) == ["Gemm", *["Reshape"] * bool(view), *["Mul"] * kept]
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), level=level).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
