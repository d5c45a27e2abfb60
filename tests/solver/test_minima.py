"""Minima of well-known network structures, each derived by hand.

All inputs and outputs stay channels-last, as in the source model; a boundary next to a convolution costs a Transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Quant, symbol
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target_file import SHIPPED, shipped
from tests.audited import audited
from tests.graphs import GraphBuilder, feeds, run


def minimum(builder: GraphBuilder, *outputs: str, target: str = "ort-cpu") -> tuple[int, int]:
    """Transposes and Reshapes of the proven optimum, whose file is checked and compared with the reference."""
    graph = builder.graph(*outputs)
    found = assign(graph, objective="min-transpose", target=shipped(target))
    assert found.status == "optimal"
    assert found.bound == found.price.transposes
    applied = apply(found)
    model = serialise(applied)
    onnx.checker.check_model(model, full_check=True)
    audited(model, found, graph)
    data = feeds(graph)
    for expected, result in zip(run(graph, data), run(applied, data), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return found.price.transposes, found.price.reshapes


def mean(b: GraphBuilder, x: str, keep: bool = False) -> str:
    n, _, _, c = b.shape(x)
    shape = (n, 1, 1, c) if keep else (n, c)
    return b.op("ReduceMean", x, b.constant([1, 2], "int64"), shape=shape, keepdims=int(keep))


def test_conv_relu_conv() -> None:
    """One Transpose at each boundary, nothing in between."""
    b = GraphBuilder()
    assert minimum(b, b.conv(b.relu(b.conv(b.input(1, 8, 8, 4), 6, 3)), 5, 3)) == (2, 0)


@pytest.mark.parametrize("batch", [1, 2, symbol("batch")])
def test_conv_flatten_dense(batch: object) -> None:
    """The weights of the dense layer take the order (C H W): only the input's Transpose is left, and the flattening."""
    b = GraphBuilder()
    x = b.conv(b.conv(b.input(batch, 4, 4, 4), 6, 3), 6, 3)
    assert minimum(b, b.dense(b.reshape(x, batch, 96), 10)) == (1, 1)


def test_conv_mean_dense() -> None:
    """The mean's result has no space left that could be transposed."""
    b = GraphBuilder()
    assert minimum(b, b.dense(mean(b, b.conv(b.input(1, 8, 8, 4), 6, 3)), 10)) == (1, 0)


def test_squeeze_and_excite() -> None:
    """[N,1,1,C] has one order only, so the block adds nothing to the two boundaries."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 4), 6, 3)
    gate = b.reshape(mean(b, x), 1, 1, 1, 6)
    gate = b.op("Sigmoid", b.conv(gate, 6), shape=(1, 1, 1, 6))
    scaled = b.op("Mul", x, gate, shape=b.shape(x))
    assert minimum(b, b.conv(scaled, 4, 3)) == (2, 0)


def test_pointwise_convolution_turns_data() -> None:
    """A 1x1 convolution is a product, which reads pixels and channels either way round and writes them either way
    round:
    between two that are not, it takes their order; at an end it takes the end's, and saves the Transpose."""
    b = GraphBuilder()
    assert minimum(b, b.conv(b.conv(b.input(1, 8, 8, 4), 6, 3), 5))[0] == 1
    b = GraphBuilder()
    assert minimum(b, b.conv(b.relu(b.conv(b.input(1, 8, 8, 4), 6)), 5))[0] == 0
    b = GraphBuilder()
    assert minimum(b, b.conv(b.conv(b.conv(b.input(1, 8, 8, 4), 6, 3), 5), 3, 3)) == (2, 0)


@pytest.mark.parametrize("integers", [True, False])
def test_quantized_dense_on_planes(integers: bool) -> None:
    """Planes in and out, [C, P]: quantized weights multiply them from the left, or as a 1x1 convolution where the data
    are quantized as well. Nothing is moved."""
    b = GraphBuilder()
    step, zero = np.array([0.5], np.float32), np.zeros(1, np.int8)
    quant = Quant(step, zero) if integers else None
    dtype = "int8" if integers else "float32"
    x = b.transpose(b.reshape(b.input(1, 4, 16, dtype=dtype, quant=quant), 4, 16), 1, 0)
    weights = b.constant(b.random.integers(-9, 9, (5, 4)), "int8", Quant(step, zero))
    x = b.op("Gemm", x, weights, shape=(16, 5), dtype=dtype, quant=quant, transB=1)
    assert minimum(b, b.reshape(b.transpose(x, 1, 0), 1, 5, 16))[0] == 0


def shuffle(b: GraphBuilder, x: str, groups: int) -> str:
    n, h, w, c = (int(str(dim)) for dim in b.shape(x))
    spread = b.transpose(b.reshape(x, n, h, w, groups, c // groups), 0, 1, 2, 4, 3)
    return b.reshape(spread, n, h, w, c)


@pytest.mark.parametrize(("last_groups", "transposes"), [(1, 1), (2, 3)])
def test_shufflenet_v1(last_groups: int, transposes: int) -> None:
    """The shuffle after a grouped convolution is an order of (G K) that the depthwise and the last convolution's
    weights absorb. If the last one is ungrouped it is a product that writes channels-last itself: only the input is
    moved. If it is grouped both want their own group outermost, and one Transpose is left beside those of the ends.
    """
    b = GraphBuilder()
    x = shuffle(b, b.conv(b.input(1, 8, 8, 6), 6, group=2), 2)
    x = b.conv(x, 6, 3, group=6)
    assert minimum(b, b.conv(x, 4, group=last_groups))[0] == transposes


def test_shufflenet_v2() -> None:
    """Splitting channels in two and joining two branches is a factor of the channels: the shuffle between units moves
    nothing; only the input's Transpose is left of the network."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 3), 8, 3)
    for _ in range(2):
        left, right = b.many("Split", x, b.constant([4, 4], "int64"), shapes=[(1, 8, 8, 4)] * 2, axis=3)
        right = b.conv(b.conv(b.conv(right, 4), 4, 3, group=4), 4)
        x = shuffle(b, b.op("Concat", left, right, shape=(1, 8, 8, 8), axis=3), 2)
    assert minimum(b, b.dense(mean(b, b.conv(x, 8)), 5))[0] == 1


def test_unet() -> None:
    """Concatenation and resizing follow the channels."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 3), 4, 3)
    down = b.channels_last("MaxPool", x, shape=(1, 4, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
    down = b.conv(down, 6, 3)
    up = b.op("Resize", down, "", "", b.constant([1, 8, 8, 6], "int64"), shape=(1, 8, 8, 6), mode="linear")
    joined = b.op("Concat", x, up, shape=(1, 8, 8, 10), axis=3)
    assert minimum(b, b.conv(joined, 3, 3)) == (2, 0)


def ssd(anchors: tuple[int, int]) -> int:
    b = GraphBuilder()
    first = b.conv(b.input(1, 8, 8, 4), anchors[0] * 4, 3)
    pooled = b.channels_last("MaxPool", first, shape=(1, 4, 4, anchors[0] * 4), kernel_shape=[2, 2], strides=[2, 2])
    second = b.conv(pooled, anchors[1] * 4, 3)
    rows = (64 * anchors[0], 16 * anchors[1])
    boxes = [b.reshape(x, 1, count, 4) for x, count in zip((first, second), rows, strict=True)]
    return minimum(b, b.op("Concat", *boxes, shape=(1, sum(rows), 4), axis=1))[0]


def test_ssd_head() -> None:
    """Maps [N,H,W,A*4] become [N,H*W*A,4] and are joined. With equal A they are joined as [N,A,4,HW] and transposed
    once;
    with different A the joined factor is the whole (H W A), and each map is transposed by itself."""
    assert ssd((3, 3)) == 2
    assert ssd((3, 2)) == 3


def test_broadcast_of_low_rank() -> None:
    """A[2,3,4,5] is stored NCHW; a constant B[4,5] is rearranged, a computed one is as well if its producer can."""
    b = GraphBuilder()
    x = b.conv(b.input(2, 3, 4, 5), 5, 3)
    assert minimum(b, b.conv(b.op("Add", x, b.weights(4, 5), shape=(2, 3, 4, 5)), 3, 3))[0] == 2
    b = GraphBuilder()
    x, y = b.conv(b.input(2, 3, 4, 5), 5, 3), b.dense(b.input(4, 6), 5)
    assert minimum(b, b.conv(b.op("Add", x, y, shape=(2, 3, 4, 5)), 3, 3)) == (2, 1)


def test_channels_first_export() -> None:
    """Enters and leaves channels-first with every convolution wrapped in Transposes: all of them are views."""
    b = GraphBuilder()
    x = b.input(1, 3, 8, 8)
    for _ in range(3):
        x = b.relu(b.transpose(b.conv(b.transpose(x, 0, 2, 3, 1), 6, 3), 0, 3, 1, 2))
    assert minimum(b, x) == (0, 0)


@pytest.mark.parametrize("operator", [True, False])
def test_depth_to_space(operator: bool) -> None:
    """As an operator it runs on planes: only the boundaries are left. By hand it is one Transpose more."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 4, 4, 3), 8, 3)
    if operator:
        x = b.channels_last("DepthToSpace", x, shape=(1, 8, 8, 2), blocksize=2, mode="DCR")
    else:
        x = b.transpose(b.reshape(x, 1, 4, 4, 2, 2, 2), 0, 1, 3, 2, 4, 5)
        x = b.reshape(x, 1, 8, 8, 2)
    assert minimum(b, b.conv(x, 4, 3))[0] == (2 if operator else 3)


def attention(b: GraphBuilder, x: str, heads: int) -> str:
    """Multi-head self-attention over [T, D] with a residual connection."""
    t, d = (int(str(dim)) for dim in b.shape(x))
    each = d // heads

    def split(y: str, *perm: int) -> str:
        return b.transpose(b.reshape(b.dense(y, d), t, heads, each), *perm)

    scores = b.op("MatMul", split(x, 1, 0, 2), split(x, 1, 2, 0), shape=(heads, t, t))
    weights = b.op("Softmax", scores, shape=(heads, t, t), axis=2)
    mixed = b.op("MatMul", weights, split(x, 1, 0, 2), shape=(heads, t, each))
    merged = b.reshape(b.transpose(mixed, 1, 0, 2), t, d)
    return b.add(x, b.dense(merged, d))


@pytest.mark.parametrize("target", SHIPPED)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_transformer(layers: int, target: str) -> None:
    """Weights give q, k and v as [heads, width, T] or, by a product for each head, as [heads, T, width], without moving
    anything, and the one that reads all heads sums what each gives; the pattern has four Transposes. The ends, [T, D],
    meet weights, which read and write either order: they are free."""
    b = GraphBuilder()
    x = b.dense(b.input(6, 8), 8)
    for _ in range(layers):
        x = attention(b, x, 2)
    assert minimum(b, b.dense(x, 8), target=target)[0] == 0


@pytest.mark.parametrize(("batch", "minima"), [(1, (2, 2)), (2, (2, 2)), (symbol("batch"), (4, 2))])
def test_reversed_lines_between_convolutions(batch: Any, minima: tuple[int, int]) -> None:
    """Channels first, what lies before the time axis is one dimension with the batch, and each line has the length of
    its image. How often a length is repeated has to be known. Else four Transposes are fast where the lines lie in an
    order that no convolution asks for, with what surrounds them in one dimension.
    """
    b = GraphBuilder()
    x = b.transpose(b.conv(b.input(batch, 4, 5, 6), 6, 3), 0, 2, 1, 3, pattern=True)
    lengths = b.input(batch, dtype="int64")
    x = b.op("ReverseSequence", x, lengths, shape=(batch, 5, 4, 6), batch_axis=0, time_axis=1)
    x = b.conv(b.transpose(x, 0, 2, 1, 3, pattern=True), 3, 3)
    assert minimum(b, x) == minima
