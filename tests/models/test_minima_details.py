"""Details that decide whether the minimum is reached, each on a TensorFlow Lite model made for it.

*Ends* and *turn* are what they are in ``test_minima_models``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.networks import Network, minimum


@pytest.mark.parametrize("operator", ["PAD", "SLICE", "STRIDED_SLICE", "SPLIT", "CONCATENATION"])
def test_touched_factor(operator: str) -> None:
    """Both ends. Rows (H W A) are cut, padded or joined by whole lines of the image: H alone is touched, and W and A
    may lie anywhere, A before the pixels as a convolution writes it."""
    net = Network()
    x = net.conv(net.input(1, 8, 8, 3), 6)
    rows = net.reshape(x, 1, 192, 2)
    if operator == "PAD":
        rows = net.pad(rows, 1, 24, 48)
    elif operator == "SLICE":
        rows = net.op("SLICE", [rows, net.vector(0, 24, 0), net.vector(1, 96, 2)], (1, 96, 2))
    elif operator == "STRIDED_SLICE":
        rows = net.cut(rows, (1, 48, 192, 1))
    elif operator == "SPLIT":
        rows = net.binary("MAXIMUM", *net.split(rows, 2, 1))
    else:
        rows = net.concat(1, rows, rows)
    count = net.shapes[rows][1]
    assert minimum(net, net.conv(net.reshape(rows, 1, count // 24, 8, 6), 3)) == 2


def test_equal_parts_of_planes() -> None:
    """None: planes in and out. Two inputs are put together as [C, 2, H, W], which is their shuffled concatenation, and
    taken apart again where the factor 2 lies."""
    net = Network()
    left, right = (net.transpose(net.input(1, 6, 4, 4), 0, 2, 3, 1) for _ in range(2))
    x = net.unary("RELU", net.shuffle(net.concat(3, left, right), 2))
    halves = net.split(net.shuffle(x, 6), 2, 3)
    assert minimum(net, *(net.transpose(each, 0, 3, 1, 2) for each in (x, *halves))) == 0


@pytest.mark.parametrize("batch", [1, 2])
def test_dense_layer_between_convolutions(batch: int) -> None:
    """Both ends. A dense layer over pixels multiplies [C, P] from the left, for each image by itself."""
    net = Network()
    x = net.reshape(net.conv(net.input(batch, 6, 6, 3), 4), batch, 36, 4)
    x = net.reshape(net.dense(net.dense(x, 5, "RELU"), 4), batch, 6, 6, 4)
    assert minimum(net, net.conv(x, 3)) == 2


@pytest.mark.parametrize("kind", ["dense", "1x1"])
def test_contraction_turns(kind: str) -> None:
    """The input's end only, or none at all: a product at an end turns."""
    for first in (True, False):
        net = Network()
        x = net.input(1, 6, 6, 3)
        x = net.conv(x, 4) if first else x
        for channels in (5, 4):
            x = net.dense(x, channels) if kind == "dense" else net.conv(x, channels, 1, activation="RELU")
        x = net.unary("SOFTMAX", x)
        assert minimum(net, x) == int(first)


@pytest.mark.parametrize("turned", [True, False])
def test_torn_block(turned: bool) -> None:
    """The input's end and one more. A convolution writes (A B H W), the rows (H W A) are padded by one, which touches
    all of them: they are gathered where their last factor lies, before B, or where their first one lies, behind it;
    whichever the output wants, the Transpose is the same one."""
    net = Network()
    x = net.pad(net.reshape(net.conv(net.input(1, 5, 5, 3), 6), 1, 75, 2), 1, 0, 1)
    assert minimum(net, net.transpose(x, 0, 2, 1) if turned else x) == 2


@pytest.mark.parametrize("swapped", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_partial_orders(swapped: bool, early: bool) -> None:
    """Both ends. What is broadcast, [W, C] from a dense layer, and what is reduced, the mean over height, know two of
    three dimensions; they follow the image whichever is computed and read first."""
    net = Network()
    image, line = net.input(1, 5, 4, 3), net.input(4, 3)
    other = net.dense(line, 6) if early else -1
    x = net.conv(image, 6)
    other = other if early else net.dense(line, 6)
    x = net.binary("MUL", other, x) if swapped else net.binary("MUL", x, other)
    middle = net.mean(x, 1, keep=True)
    x = net.add(middle, x) if swapped else net.add(x, middle)
    assert minimum(net, net.conv(x, 3)) == 2


@pytest.mark.parametrize("swapped", [True, False])
def test_partial_orders_alone(swapped: bool) -> None:
    """None: no tensor that is given has all of H, W and C, [C, H] and [W, C] are broadcast against each other; their
    product is stored as [W, C, H], of which the mean over W is [C, H]."""
    net = Network()
    first = net.reshape(net.transpose(net.input(5, 3), 1, 0), 3, 1, 5)
    second = net.reshape(net.input(4, 5), 1, 4, 5)
    x = net.binary("MUL", second, first) if swapped else net.binary("MUL", first, second)
    assert minimum(net, net.transpose(net.mean(x, 1), 1, 0)) == 0


def test_no_common_refinement() -> None:
    """Both ends. Six channels are shuffled as (2 3), which weights absorb, and as (3 2), which has no factors in common
    with that; so all six stay together in that reshape, before the pixels or after them."""
    net = Network()
    x = net.conv(net.input(1, 5, 5, 4), 6)
    out = net.add(net.conv(net.shuffle(x, 2), 4), net.conv(net.shuffle(x, 3), 4))
    assert minimum(net, out) == 2


@pytest.mark.parametrize("planes", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_entangled_dimensions(planes: bool, dynamic: bool) -> None:
    """Both ends, or the input's if a mean takes the pixels away. Pixels [6, 4] become [8, 3], which have no common
    factors: they stay together, before the channels or after them, and the batch stays outside."""
    net = Network(dynamic)
    x = net.reshape(net.unary("RELU", net.conv(net.input(1, 6, 4, 3), 6)), 1, 8, 3, 6)
    assert minimum(net, net.conv(x, 4) if planes else net.dense(net.mean(x, 1, 2), 4)) == 1 + planes


def test_dynamic_batch() -> None:
    """The input's end. Every shape is computed from the batch, by SHAPE, STRIDED_SLICE, PACK: a flattened batch of
    tokens is a product of two sizes like any other."""
    net = Network(dynamic=True)
    x = net.reshape(net.conv(net.input(1, 6, 6, 3), 4, stride=2), 1, 9, 4)
    x = net.add(x, net.dense(net.normalised(x), 4))
    x = net.conv(net.reshape(x, 1, 3, 3, 4), 5)
    assert minimum(net, net.dense(net.reshape(x, 1, 45), 5)) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_dilated_convolutions(count: int) -> None:
    """Both ends: convolutions between blocks of space and batch are dilated ones."""
    net = Network()
    x = net.conv(net.input(1, 8, 8, 3), 4)
    block = net.vector(2, 2)
    margin = 2 * count
    size = 4 + margin
    pads = net.constant([[margin, margin]] * 2, "int32")
    x = net.op("SPACE_TO_BATCH_ND", [x, block, pads], (4, size, size, 4))
    for number in range(count):
        x = net.depthwise(x, padding="VALID") if number else net.conv(x, 4, padding="VALID", activation="RELU")
    crops = net.constant([[0, 0]] * 2, "int32")
    x = net.op("BATCH_TO_SPACE_ND", [x, block, crops], (1, 8, 8, 4))
    assert minimum(net, net.conv(x, 3)) == 2


@pytest.mark.parametrize("transposed", [True, False])
def test_computed_weights(transposed: bool) -> None:
    """The input's end. Weights that are dequantized or transposed in the model are constants, which absorb an order and
    let a 1x1 convolution turn."""
    net = Network()
    x = net.conv(net.input(1, 6, 6, 3), 4)
    if transposed:
        kernel = net.transpose(net.weights(1, 1, 4, 5), 3, 0, 1, 2)
    else:
        half = net.constant(net.random.normal(size=(5, 1, 1, 4)), "float16")
        kernel = net.op("DEQUANTIZE", [half], (5, 1, 1, 4))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    bias = net.constant(np.ones(5))
    assert minimum(net, net.op("CONV_2D", [x, kernel, bias], (1, 6, 6, 5), **options)) == 1
