"""Minima of real topologies, small: TensorFlow Lite models whose fewest Transposes are derived by hand.

Inputs and outputs keep the order of the source, and the target has convolutions of planes alone; what others make of it
is in ``test_minima_interleaved``. What the derivations rest on, called by these names below:

* *ends*: a 3x3 convolution reads and writes planes (C, H, W), an image at an end is (H, W, C): one Transpose lies
  between them, whatever else there is. It is enough that everything in between runs on planes.
* *turn*: weights absorb any order of channels, and a product (1x1 convolution, dense layer) reads and writes pixels and
  channels either way round: [P, K] or [K, P] to [P, M] or [M, P]. Rows P keep their own order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import layoutsolve
from tests.networks import PLANES, Network, Quantized, minimum, unet


def test_convolutions() -> None:
    """Both ends, and nothing between them."""
    net = Network()
    assert minimum(net, net.conv(net.unary("RELU", net.conv(net.input(1, 8, 8, 4), 6)), 5)) == 2


@pytest.mark.parametrize("flat", [True, False])
def test_classifier(flat: bool) -> None:
    """The input's end. The dense layer's weights take the flattened (C H W); a mean leaves no space to move."""
    net = Network()
    x = net.conv(net.conv(net.input(1, 6, 6, 3), 6, stride=2), 4)
    assert minimum(net, net.dense(net.reshape(x, 1, 36) if flat else net.mean(x, 1, 2), 10)) == 1


@pytest.mark.parametrize("transposed", [True, False])
def test_decoder(transposed: bool) -> None:
    """The output's end. The dense layer's weights write (C H W) at once."""
    net = Network()
    x = net.reshape(net.dense(net.input(1, 7), 96, "RELU"), 1, 4, 4, 6)
    x = net.upconv(x, 5) if transposed else net.conv(net.resize(x, "NEAREST_NEIGHBOR"), 5)
    assert minimum(net, net.conv(x, 3)) == 1


def squeeze(net: Network, x: int, dense: bool) -> int:
    """Squeeze and excite, its gate computed by dense layers or by 1x1 convolutions."""
    n, _, _, c = net.shapes[x]
    if dense:
        gate = net.dense(net.dense(net.mean(x, 1, 2), 4, "RELU"), c)
        gate = net.reshape(gate, n, 1, 1, c)
    else:
        gate = net.conv(net.conv(net.mean(x, 1, 2, keep=True), 4, 1, activation="RELU"), c, 1)
    return net.binary("MUL", x, net.unary("LOGISTIC", gate))


@pytest.mark.members(7)
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes", "min-latency"])
@pytest.mark.parametrize("seed", range(6))
def test_gated_convolutions_need_no_reshape(seed: int, objective: str) -> None:
    """Pointwise convolutions could be products of matrices at the same Transposes: planes as they are come first."""
    rng = np.random.default_rng(seed)
    net = Network()
    x = net.conv(net.input(1, 12, 12, 3), 8, stride=2)
    for _ in range(rng.integers(2, 6)):
        stay = x
        x = net.unary("LOGISTIC", net.conv(x, 16, 1))
        x = net.binary("MUL", x, net.unary("LOGISTIC", x))
        if rng.integers(2):
            x = net.depthwise(x, stride=1)
        if rng.integers(4):
            x = squeeze(net, x, dense=False)
        x = net.conv(x, 8, 1)
        x = net.binary("ADD", x, stay) if rng.integers(2) else x
    found = layoutsolve.convert(net.model(net.mean(x, 1, 2)).source, objective=objective, target=PLANES)
    assert found.assignment.status == "optimal"
    assert (found.price.transposes, found.price.reshapes) == (1, 0)


@pytest.mark.parametrize("dense", [True, False])
def test_mobilenet_v3(dense: bool) -> None:
    """The input's end. A gate [N, 1, 1, C] has one order only; after the mean nothing can be moved."""
    net = Network()
    x = net.unary("HARD_SWISH", net.conv(net.input(1, 16, 16, 3), 8, stride=2))
    for stride in (1, 2, 1):
        y = net.unary("HARD_SWISH", net.conv(x, 12, 1))
        y = squeeze(net, net.depthwise(y, 3, stride, activation="RELU"), dense)
        y = net.conv(y, 8, 1)
        x = net.add(x, y) if stride == 1 else y
    x = net.unary("HARD_SWISH", net.conv(net.mean(net.conv(x, 16, 1), 1, 2, keep=True), 12, 1))
    assert minimum(net, net.dense(net.reshape(x, 1, 12), 5)) == 1


@pytest.mark.parametrize("dense", [True, False])
def test_squeeze_and_excite_between_convolutions(dense: bool) -> None:
    """Both ends: the gate adds nothing."""
    net = Network()
    assert minimum(net, net.conv(squeeze(net, net.conv(net.input(1, 8, 8, 4), 6), dense), 4)) == 2


@pytest.mark.parametrize(("last", "transposes"), [(1, 1), (2, 5)])
def test_shufflenet_v1(last: int, transposes: int) -> None:
    """The input's end. An ungrouped last 1x1 convolution reads the channels in the order in which the first one wrote
    them. If both are grouped, each wants its own group outermost, the shuffle lies between them and the depthwise
    convolution there cannot move channels: one Transpose for each unit but the first, whose first 1x1 convolution is
    ungrouped and writes the shuffled order. All else keeps the order of the source."""
    net = Network()
    x = net.pool(net.conv(net.input(1, 32, 32, 3), 8, stride=2), size=3)
    groups = 1
    for channels, units in ((16, 3), (32, 2)):
        for unit in range(units):
            y = net.shuffle(net.conv(x, 8, 1, groups=groups, activation="RELU"), 2)
            y = net.depthwise(y, stride=1 if unit else 2)
            y = net.conv(y, channels - (0 if unit else net.shapes[x][3]), 1, groups=last)
            x = net.unary("RELU", net.add(x, y) if unit else net.concat(3, net.pool(x, "AVERAGE", 3), y))
            groups = 2
    assert minimum(net, net.dense(net.mean(x, 1, 2), 5)) == transposes


@pytest.mark.parametrize("widths", [(8, 16), (12, 20)])
def test_shufflenet_v2(widths: tuple[int, int]) -> None:
    """The input's end. A concatenation of two branches can write them interleaved, as [C/2, 2], which is what the
    shuffle asks for; so the next split finds its halves in the order of the source."""
    net = Network()
    x = net.pool(net.conv(net.input(1, 32, 32, 3), 6, stride=2), size=3)
    for width in widths:
        half = width // 2
        left = net.conv(net.depthwise(x, stride=2), half, 1, activation="RELU")
        right = net.depthwise(net.conv(x, half, 1, activation="RELU"), stride=2)
        x = net.shuffle(net.concat(3, left, net.conv(right, half, 1, activation="RELU")), 2)
        for _ in range(3):
            left, right = net.split(x, 2, 3)
            right = net.depthwise(net.conv(right, half, 1, activation="RELU"))
            x = net.shuffle(net.concat(3, left, net.conv(right, half, 1, activation="RELU")), 2)
    assert minimum(net, net.dense(net.mean(net.conv(x, 16, 1), 1, 2), 5)) == 1


@pytest.mark.parametrize("up", ["TRANSPOSE_CONV", "BILINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize(("head", "transposes"), [(3, 2), (1, 1)])
def test_unet(up: str, head: int, transposes: int) -> None:
    """Both ends: pools, concatenations and resizing run on planes. A 1x1 convolution at the end turns."""
    net = Network()
    assert minimum(net, unet(net, up, head)) == transposes


SSD = [
    ((3, 3, 3), 3, 3),
    ((3, 3, 3), 1, 1),
    ((2, 3, 3), 3, 5),
    ((3, 3, 2), 1, 1),
    ((3, 2, 3), 3, 7),
    ((1, 1, 3, 3), 3, 5),
    ((2, 1, 1), 3, 5),
    ((2, 3, 3, 3, 6, 6), 3, 5),
]


@pytest.mark.parametrize(("anchors", "head", "transposes"), SSD)
def test_ssd(anchors: Sequence[int], head: int, transposes: int) -> None:
    """The input's end. Maps [N, H, W, A*B] become [N, H*W*A, B] and are joined, for boxes and for classes.

    A 3x3 head writes (A, B) together and before the pixels, the output has the pixels between them: no map gets there
    without a Transpose. Neighbours with the same A are joined as [A, B, H*W], so one Transpose serves all of them; with
    different A the joined factor is (H*W*A), so there is one for each run of equal A. A map of one pixel, as the fifth
    and sixth are, needs none, since weights take any order of (A, B). A 1x1 head turns.
    """
    net = Network()
    x = net.conv(net.input(1, 32, 32, 3), 6, stride=2, activation="RELU")
    rows: dict[int, list[int]] = {4: [], 7: []}
    for count in anchors:
        x = net.conv(x, 6, stride=2, activation="RELU")
        _, h, w, _ = net.shapes[x]
        for width, found in rows.items():
            found.append(net.reshape(net.conv(x, count * width, head), 1, h * w * count, width))
    boxes, classes = (net.concat(1, *found) for found in rows.values())
    assert minimum(net, boxes, net.unary("LOGISTIC", classes)) == transposes


@pytest.mark.parametrize(
    ("anchors", "head", "transposes"), [((2, 3, 3), 3, 5), ((3, 3, 2, 2), 3, 5), ((3, 3, 2), 1, 1)]
)
def test_ssd_quantized(anchors: Sequence[int], head: int, transposes: int) -> None:
    """As above in int8."""
    net = Quantized()
    x = net.conv(net.input(1, 16, 16, 3), 6, stride=2, activation="RELU")
    rows: dict[int, list[int]] = {4: [], 7: []}
    for count in anchors:
        x = net.conv(x, 6, activation="RELU")
        for width, found in rows.items():
            found.append(net.reshape(net.conv(x, count * width, head), 1, 64 * count, width))
    assert minimum(net, *(net.concat(1, *found) for found in rows.values())) == transposes


def pyramid(net: Network) -> Iterator[tuple[int, int, int]]:
    """Three maps of an image, each half as large as the one before, with height and width."""
    x = net.conv(net.input(1, 32, 32, 3), 6, stride=2, activation="RELU")
    for _ in range(3):
        x = net.conv(x, 6, stride=2, activation="RELU")
        _, h, w, _ = net.shapes[x]
        yield x, h, w


@pytest.mark.parametrize("head", [1, 3])
def test_yolo_v5(head: int) -> None:
    """The input's end and one more: the output is (A, pixels, outputs), a head writes A and outputs together, whichever
    way round, and all between keeps the order. One is enough for all levels: heads write (outputs, A, pixels), where
    (A, pixels) can be joined over the levels, and the result is transposed."""
    net = Network()
    levels = []
    for x, h, w in pyramid(net):
        y = net.reshape(net.conv(x, 3 * 9, head), 1, h * w, 3, 9)
        y = net.unary("LOGISTIC", net.transpose(y, 0, 2, 1, 3))
        grid = net.constant(net.random.normal(size=(1, 1, h * w, 2)))
        xy = net.add(net.binary("MUL", net.cut(y, (3, 0, 2, 1)), net.constant(2.0)), grid)
        wh = net.binary("MUL", net.cut(y, (3, 2, 4, 1)), net.constant(2.0))
        wh = net.binary("MUL", net.binary("MUL", wh, wh), net.constant(net.random.normal(size=(1, 3, 1, 2))))
        levels.append(net.reshape(net.concat(3, xy, wh, net.cut(y, (3, 4, 9, 1))), 1, 3 * h * w, 9))
    assert minimum(net, net.concat(1, *levels)) == 2


@pytest.mark.parametrize(("head", "first", "transposes"), [(3, True, 1), (3, False, 2), (1, True, 1), (1, False, 1)])
def test_yolo_v8(head: int, first: bool, transposes: int) -> None:
    """The input's end. Heads write channels before pixels, joined over pixels; the softmax over 16 distances stays
    where it is, and their expectation is a 1x1 convolution, [4, 16, P] to [4, P]. So an output (C, P) is free, one
    that is (P, C) costs a Transpose unless 1x1 heads turn."""
    net = Network()
    levels = []
    for x, h, w in pyramid(net):
        y = net.transpose(net.concat(3, net.conv(x, 64, head), net.conv(x, 5, head)), 0, 3, 1, 2)
        levels.append(net.reshape(y, 1, 69, h * w))
    joined = net.concat(2, *levels)
    count = net.shapes[joined][2]
    spread = net.reshape(net.cut(joined, (1, 0, 64, 1)), 1, 4, 16, count)
    spread = net.unary("SOFTMAX", net.transpose(spread, 0, 1, 3, 2))
    sides = net.reshape(net.conv(spread, 1, 1), 1, 4, count)
    centre = net.constant(net.random.normal(size=(1, 2, count)))
    start = net.binary("SUB", centre, net.cut(sides, (1, 0, 2, 1)))
    stop = net.add(centre, net.cut(sides, (1, 2, 4, 1)))
    middle = net.binary("MUL", net.add(start, stop), net.constant(0.5))
    boxes = net.concat(1, middle, net.binary("SUB", stop, start))
    boxes = net.binary("MUL", boxes, net.constant(net.random.normal(size=(1, 1, count))))
    out = net.concat(1, boxes, net.unary("LOGISTIC", net.cut(joined, (1, 64, 69, 1))))
    assert minimum(net, out if first else net.transpose(out, 0, 2, 1)) == transposes


def wrapped(net: Network, x: int, channels: int) -> int:
    """A convolution of planes, as converters of PyTorch models write it."""
    return net.transpose(net.conv(net.transpose(x, 0, 2, 3, 1), channels, activation="RELU"), 0, 3, 1, 2)


def test_pytorch_export() -> None:
    """Planes in, planes out: Transposes around convolutions say what is the case already. A channel shuffle is absorbed
    by the weights around it, a pixel shuffle written by hand is one operator on planes."""
    net = Network()
    x = wrapped(net, net.input(1, 3, 8, 8), 8)
    x = net.transpose(net.reshape(x, 1, 2, 4, 8, 8), 0, 2, 1, 3, 4)
    x = wrapped(net, net.reshape(x, 1, 8, 8, 8), 12)
    x = net.transpose(net.reshape(x, 1, 3, 2, 2, 8, 8), 0, 1, 4, 2, 5, 3)
    x = net.reshape(x, 1, 3, 16, 16)
    assert minimum(net, net.add(wrapped(net, x, 3), x)) == 0


def test_pytorch_classifier() -> None:
    """Planes in, and a flattening of planes, as the weights have it."""
    net = Network()
    assert minimum(net, net.dense(net.reshape(wrapped(net, net.input(1, 3, 6, 6), 4), 1, 144), 5)) == 0


def test_pixel_shuffle_by_hand() -> None:
    """Both ends: between convolutions it is one operator on planes."""
    net = Network()
    x = net.reshape(net.conv(net.input(1, 4, 4, 3), 12), 1, 4, 4, 2, 2, 3)
    x = net.reshape(net.transpose(x, 0, 1, 3, 2, 4, 5), 1, 8, 8, 3)
    assert minimum(net, net.conv(x, 4)) == 2


@pytest.mark.parametrize(("operand", "transposes"), [("constant", 2), ("dense", 2), ("input", 3)])
def test_broadcast_of_low_rank(operand: str, transposes: int) -> None:
    """Both ends of A[2, 3, 4, 5]. B[4, 5] is added in planes as [5, 4]: a constant is rearranged, a dense layer turns,
    an input of the graph is transposed."""
    net = Network()
    x = net.conv(net.input(2, 3, 4, 5), 5)
    if operand == "dense":
        other = net.dense(net.input(4, 6), 5)
    else:
        other = net.weights(4, 5) if operand == "constant" else net.input(4, 5)
    assert minimum(net, net.conv(net.add(x, other), 3)) == transposes


def attention(net: Network, q: int, k: int, v: int, bias: Sequence[int] = ()) -> int:
    """Attention over [batch, heads, T, width], joined to [batch, T, heads*width]."""
    scores = net.binary("MUL", net.matmul(q, k, adj_y=True), net.constant(0.5))
    for each in bias:
        scores = net.add(scores, each)
    mixed = net.transpose(net.matmul(net.unary("SOFTMAX", scores), v), 0, 2, 1, 3)
    n, t, heads, width = net.shapes[mixed]
    return net.reshape(mixed, n, t, heads * width)


def perceptron(net: Network, x: int) -> int:
    """The second half of a transformer's layer."""
    d = net.shapes[x][-1]
    return net.add(x, net.dense(net.unary("GELU", net.dense(net.normalised(x), 2 * d)), d))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_vision_transformer(layers: int, dynamic: bool) -> None:
    """The input's end, and one more, or where the batch is open one for each layer. A product of q and k reads one with
    the width innermost and one with the tokens innermost, both below their heads and the batch. Dense layers
    write [(heads width), (batch tokens)] or, head by head, [heads, (batch tokens), width], of which only the
    second has the batch before its own dimensions: so one of q and k is transposed, unless there is one image
    alone.
    """
    net = Network(dynamic)
    image = net.conv(net.input(1, 12, 12, 3), 8, 4, 4, padding="VALID")
    x = net.reshape(image, 1, 9, 8)
    if not dynamic:
        x = net.concat(1, net.weights(1, 1, 8), x)
    tokens = net.shapes[x][1]
    x = net.add(x, net.constant(net.random.normal(size=(1, tokens, 8))))
    for _ in range(layers):
        y = net.normalised(x)
        q, k, v = (net.transpose(net.reshape(net.dense(y, 8), 1, tokens, 2, 4), 0, 2, 1, 3) for _ in range(3))
        x = perceptron(net, net.add(x, net.dense(attention(net, q, k, v), 8)))
    x = net.normalised(x)
    x = net.mean(x, 1) if dynamic else net.reshape(net.cut(x, (1, 0, 1, 1)), 1, 8)
    assert minimum(net, net.dense(x, 5)) == (1 + layers if dynamic else 2)


WINDOW, SHIFT = 4, 2


def rolled(net: Network, x: int, shift: int) -> int:
    """The image rolled along height and width."""
    for axis in (1, 2):
        size = net.shapes[x][axis]
        cut = shift % size
        x = net.concat(axis, net.cut(x, (axis, cut, size, 1)), net.cut(x, (axis, 0, cut, 1)))
    return x


def swin_block(net: Network, x: int, shift: int) -> int:
    """A layer of attention within windows: qkv in one dense layer, a relative bias, and a mask where it is shifted."""
    _, h, w, c = net.shapes[x]
    rows, columns, tokens = h // WINDOW, w // WINDOW, WINDOW * WINDOW
    y = net.normalised(x)
    y = rolled(net, y, shift) if shift else y
    y = net.transpose(net.reshape(y, 1, rows, WINDOW, columns, WINDOW, c), 0, 1, 3, 2, 4, 5)
    y = net.dense(net.reshape(y, rows * columns, tokens, c), 3 * c)
    y = net.transpose(net.reshape(y, rows * columns, tokens, 3, 2, c // 2), 2, 0, 3, 1, 4)
    parts = (net.reshape(part, rows * columns, 2, tokens, c // 2) for part in net.split(y, 3, 0))
    bias = [net.constant(net.random.normal(size=(2, tokens, tokens)))]
    if shift:
        bias.append(net.constant(np.where(net.random.random((rows * columns, 1, tokens, tokens)) < 0.3, -9.0, 0.0)))
    y = net.dense(attention(net, *parts, bias=bias), c)
    y = net.transpose(net.reshape(y, 1, rows, columns, WINDOW, WINDOW, c), 0, 1, 3, 2, 4, 5)
    y = net.reshape(y, 1, h, w, c)
    y = rolled(net, y, -shift) if shift else y
    return perceptron(net, net.add(x, y))


def test_swin() -> None:
    """Five: the input's end, three for the block on several windows, one for the block on a single window.

    Products of q and k read (windows, heads, width, T) or (.., T, width), a window's tokens T together. Planes and
    rolling have the rows of windows beside the rows within them, and dense layers keep the order of pixels: a Transpose
    lies between any of those and the products, on either side, and one of q and k is turned besides. So there are two
    before the products of the block on several windows, and one between these and rolling back. After that come planes,
    where the last block has one window and turns only k; patches are merged by slices and a concatenation in any
    order. Five is enough: [windows, C, T] is an order in which all dense layers of a block run.
    """
    net = Network()
    x = net.normalised(net.conv(net.input(1, 16, 16, 3), 8, 2, 2, padding="VALID"))
    x = swin_block(net, x, SHIFT)
    corners = [net.cut(x, (1, row, 8, 2), (2, column, 8, 2)) for column in (0, 1) for row in (0, 1)]
    x = net.dense(net.normalised(net.concat(3, *corners)), 16)
    x = net.normalised(swin_block(net, x, 0))
    assert minimum(net, net.dense(net.mean(x, 1, 2), 5)) == 5
