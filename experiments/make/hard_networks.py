"""Families of networks that are hard to lay out, each of any size: what real ones repeat, and what only conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from layoutsolve.ir.graph import Graph
from tests.graphs import GraphBuilder
from tests.networks import Network


def attended(net: Network, q: int, k: int, v: int, bias: Sequence[int] = ()) -> int:
    """Attention over [batch, heads, tokens, width]."""
    scores = net.binary("MUL", net.matmul(q, k, adj_y=True), net.constant(0.5))
    for each in bias:
        scores = net.add(scores, each)
    return net.matmul(net.unary("SOFTMAX", scores), v)


def heads_of(net: Network, x: int, heads: int, parts: int = 3) -> list[int]:
    """Queries, keys and values, [batch, heads, tokens, width], of one dense layer, as PyTorch writes them."""
    n, t, c = net.shapes[x]
    y = net.reshape(net.dense(x, parts * c), n, t, parts, heads, c // heads)
    y = net.transpose(y, 2, 0, 3, 1, 4)
    return [net.reshape(part, n, heads, t, c // heads) for part in net.split(y, parts, 0)]


def joined_heads(net: Network, x: int) -> int:
    """[batch, heads, tokens, width] as [batch, tokens, channels]."""
    n, heads, t, width = net.shapes[x]
    return net.reshape(net.transpose(x, 0, 2, 1, 3), n, t, heads * width)


def perceptron(net: Network, x: int, factor: int = 2) -> int:
    """The second half of a transformer's layer."""
    c = net.shapes[x][-1]
    return net.add(x, net.dense(net.unary("GELU", net.dense(net.normalised(x), factor * c)), c))


def first(net: Network, x: int) -> int:
    """An image with planes first, as exports of PyTorch have them."""
    return net.transpose(x, 0, 3, 1, 2)


def last(net: Network, x: int) -> int:
    """Planes as an image with channels last."""
    return net.transpose(x, 0, 2, 3, 1)


def windows(net: Network, x: int, size: int) -> int:
    """An image in windows, [windows, tokens, channels]."""
    n, h, w, c = net.shapes[x]
    y = net.reshape(x, n, h // size, size, w // size, size, c)
    return net.reshape(net.transpose(y, 0, 1, 3, 2, 4, 5), n * h * w // size**2, size * size, c)


def unwindowed(net: Network, x: int, shape: Sequence[int], size: int) -> int:
    """Windows as the image that they are of."""
    n, h, w, _ = shape
    c = net.shapes[x][-1]
    y = net.reshape(x, n, h // size, w // size, size, size, c)
    return net.reshape(net.transpose(y, 0, 1, 3, 2, 4, 5), n, h, w, c)


def rolled(net: Network, x: int, shift: int) -> int:
    """An image rolled along height and width."""
    for axis in (1, 2):
        size = net.shapes[x][axis]
        x = net.concat(axis, net.cut(x, (axis, shift % size, size, 1)), net.cut(x, (axis, 0, shift % size, 1)))
    return x


def swin_block(net: Network, x: int, size: int, shift: int) -> int:
    """Attention in windows, which may be shifted, and two dense layers."""
    shape = net.shapes[x]
    tokens, c = size * size, shape[-1]
    y = net.normalised(x)
    y = rolled(net, y, shift) if shift else y
    y = windows(net, y, size)
    bias = [net.constant(net.random.normal(size=(2, tokens, tokens)))]
    if shift:
        bias.append(net.constant(np.zeros((net.shapes[y][0], 1, tokens, tokens))))
    y = joined_heads(net, attended(net, *heads_of(net, y, 2), bias=bias))
    y = unwindowed(net, net.dense(y, c), shape, size)
    y = rolled(net, y, -shift) if shift else y
    return perceptron(net, net.add(x, y))


def swin(blocks: int) -> bytes:
    """Windows of attention, every other time shifted, patches merged in between, from an image with planes first."""
    net = Network()
    x = net.conv(last(net, net.input(1, 3, 32, 32)), 8, 2, 2, padding="VALID")
    x = net.normalised(x)
    for number in range(blocks):
        x = swin_block(net, x, 4, 2 * (number % 2))
        if number + 1 in (blocks // 4, blocks // 2):
            _, h, w, c = net.shapes[x]
            corners = [net.cut(x, (1, row, h, 2), (2, column, w, 2)) for column in (0, 1) for row in (0, 1)]
            x = net.dense(net.normalised(net.concat(3, *corners)), 2 * c)
    x = first(net, net.normalised(x))
    return net.model(net.dense(net.mean(x, 2, 3), 5)).source


def attention(layers: int) -> bytes:
    """A transformer on patches of an image."""
    net = Network()
    x = net.conv(last(net, net.input(1, 3, 12, 12)), 8, 4, 4, padding="VALID")
    x = net.transpose(net.reshape(first(net, x), 1, 8, 9), 0, 2, 1)
    for _ in range(layers):
        y = joined_heads(net, attended(net, *heads_of(net, net.normalised(x), 2)))
        x = perceptron(net, net.add(x, net.dense(y, 8)))
    return net.model(net.dense(net.mean(net.normalised(x), 1), 5)).source


def windowed(layers: int) -> bytes:
    """Attention in padded windows, every third time over the whole image, with biases of places, as in SAM."""
    net = Network()
    x = net.conv(last(net, net.input(1, 3, 24, 24)), 8, 4, 4, padding="VALID")
    for number in range(layers):
        _, h, w, c = net.shapes[x]
        y = net.normalised(x)
        size = 6
        if number % 3 != 2:
            size = 4
            y = net.pad(net.pad(y, 1, 0, -h % size), 2, 0, -w % size)
        padded = net.shapes[y]
        y = windows(net, y, size)
        q, k, v = heads_of(net, y, 2)
        n, heads, t, width = net.shapes[q]
        square = net.reshape(q, n * heads, size, size, width)
        down = net.binary("MUL", square, net.constant(np.ones((size, 1, width))))
        scores = net.add(
            net.reshape(net.matmul(q, k, adj_y=True), n * heads, size, size, size, size),
            net.reshape(net.mean(down, 3, keep=True), n * heads, size, size, 1, 1),
        )
        mixed = net.matmul(net.reshape(net.unary("SOFTMAX", net.reshape(scores, n, heads, t, t)), n, heads, t, t), v)
        y = unwindowed(net, net.dense(joined_heads(net, mixed), c), padded, size)
        if padded[1] > h:
            y = net.cut(net.cut(y, (1, 0, h, 1)), (2, 0, w, 1))
        x = perceptron(net, net.add(x, y))
    x = net.conv(net.normalised(net.conv(x, 6, 1)), 6)
    return net.model(first(net, x)).source


def maxvit(blocks: int) -> bytes:
    """Inverted bottlenecks, attention in windows and attention in grids, in turn."""
    net = Network()
    x = net.conv(last(net, net.input(1, 3, 32, 32)), 8, stride=2)
    size = 4
    for _ in range(blocks):
        y = net.unary("GELU", net.conv(x, 16, 1))
        y = net.unary("GELU", net.depthwise(y))
        gate = net.conv(net.unary("RELU", net.conv(net.mean(y, 1, 2, keep=True), 4, 1)), 16, 1)
        x = net.add(x, net.conv(net.binary("MUL", y, net.unary("LOGISTIC", gate)), 8, 1))
        for grid in (False, True):
            x = _maxvit_attention(net, x, size, grid)
    x = net.dense(net.normalised(net.mean(first(net, x), 2, 3)), 8)
    return net.model(net.dense(x, 5)).source


def _maxvit_attention(net: Network, x: int, size: int, grid: bool) -> int:
    """Attention within windows, or among the places that windows have in common, and two dense layers."""
    n, h, w, c = net.shapes[x]
    rows = h // size
    if grid:
        y = net.reshape(x, n, size, rows, size, rows, c)
        y = net.transpose(y, 0, 2, 4, 1, 3, 5)
    else:
        y = net.transpose(net.reshape(x, n, rows, size, rows, size, c), 0, 1, 3, 2, 4, 5)
    y = net.reshape(y, n * rows * rows, size * size, c)
    bias = [net.constant(net.random.normal(size=(2, size * size, size * size)))]
    mixed = joined_heads(net, attended(net, *heads_of(net, net.normalised(y), 2), bias=bias))
    y = perceptron(net, net.add(y, net.dense(mixed, c)))
    y = net.reshape(y, n, rows, rows, size, size, c)
    perm = (0, 3, 1, 4, 2, 5) if grid else (0, 1, 3, 2, 4, 5)
    return net.reshape(net.transpose(y, *perm), n, h, w, c)


def hiera(blocks: int) -> bytes:
    """Attention within units of a mask, whose queries are pooled where the image becomes smaller."""
    net = Network()
    x = net.conv(last(net, net.input(1, 3, 64, 64)), 8, 4, 4, padding="VALID")
    for axis in (4, 2):  # windows of windows, so that units are outermost
        x = _unrolled(net, x, axis)
    tokens, c = 256, 8
    x = net.reshape(x, 1, tokens, c)
    units = 16
    for number in range(blocks):
        pooled = number in (blocks // 3, 2 * blocks // 3) and units < tokens
        y = net.normalised(x)
        stay = x
        if pooled:
            stay = net.op(
                "REDUCE_MAX",
                [net.reshape(net.dense(y, 2 * c), 1, 4, tokens // 4, 2 * c), net.vector(1)],
                (1, tokens // 4, 2 * c),
            )
        width = 2 * c if pooled else c
        q = net.transpose(
            net.reshape(net.dense(y, 3 * width), 1, tokens // units, units, 3, 2, width // 2), 3, 0, 4, 2, 1, 5
        )
        q, k, v = (net.reshape(part, 1, 2, units, tokens // units, width // 2) for part in net.split(q, 3, 0))
        if pooled:
            split = net.reshape(q, 1, 2, units, 4, tokens // units // 4, width // 2)
            q = net.op("REDUCE_MAX", [split, net.vector(3)], (1, 2, units, tokens // units // 4, width // 2))
            tokens, c = tokens // 4, width
        mixed = net.matmul(net.unary("SOFTMAX", net.matmul(q, k, adj_y=True)), v)
        y = net.reshape(net.transpose(mixed, 0, 3, 2, 1, 4), 1, tokens, c)
        x = perceptron(net, net.add(stay, net.dense(y, c)))
    return net.model(net.dense(net.normalised(net.mean(x, 1)), 5)).source


def _unrolled(net: Network, x: int, parts: int) -> int:
    """Parts of height and width moved in front of the rest, and into the batch."""
    n, h, w, c = net.shapes[x]
    y = net.transpose(net.reshape(x, n, h // parts, parts, w // parts, parts, c), 0, 2, 4, 1, 3, 5)
    return net.reshape(y, n * parts * parts, h // parts, w // parts, c)


def shufflenet(units: int) -> bytes:
    """Units of ShuffleNet v2 with planes first around every convolution, as litert-torch writes them."""
    net = Network()
    x = first(net, net.conv(last(net, net.input(1, 3, 32, 32)), 16, stride=2))
    for _ in range(units):
        _, c, h, w = net.shapes[x]
        kept, changed = net.split(x, 2, 1)
        for step in range(3):
            changed = last(net, changed)
            changed = net.depthwise(changed) if step == 1 else net.unary("RELU", net.conv(changed, c // 2, 1))
            changed = first(net, changed)
        y = net.reshape(net.concat(1, kept, changed), 1, 2, c // 2, h, w)
        x = net.reshape(net.transpose(y, 0, 2, 1, 3, 4), 1, c, h, w)
    return net.model(net.dense(net.mean(x, 2, 3), 5)).source


def densenet(layers: int) -> bytes:
    """Every layer reads all that are before it, joined."""
    net = Network()
    x = net.conv(net.input(1, 8, 8, 3), 4)
    parts = [x]
    for number in range(layers):
        joined = net.concat(3, *parts) if len(parts) > 1 else x
        parts.append(net.conv(net.unary("RELU", net.conv(joined, 4, 1)), 2))
        if number % 24 == 23:
            parts = [net.conv(net.concat(3, *parts), 4, 1)]
    return net.model(net.concat(3, *parts)).source


def residual(blocks: int) -> bytes:
    """Residual blocks whose other branch is turned: sums of what wants to be stored in different orders."""
    net = Network()
    x = net.conv(net.input(1, 8, 8, 4), 4)
    for number in range(blocks):
        y = net.conv(net.unary("RELU", x), 4)
        perm = ((0, 2, 1, 3), (0, 1, 2, 3))[number % 2]
        z = net.unary("SOFTMAX", net.transpose(x, *perm))
        x = net.add(net.add(x, y), z)
    return net.model(x).source


def unet(levels: int) -> bytes:
    """A denoiser: residual blocks with normalised groups, attention on every level, and joined skips on the way up."""
    net = Network()
    noise = last(net, net.input(1, 4, 32, 32))
    step = net.dense(net.input(1, 8), 8)
    text = net.input(1, 5, 8)
    x, skips = net.conv(noise, 8), []
    for level in range(levels):
        for _ in range(2):
            x = _spatial(net, _resblock(net, x, step, 8), text)
            skips.append(x)
        if level < 3 and level + 1 < levels:
            x = net.conv(x, 8, stride=2)
    x = _resblock(net, _spatial(net, _resblock(net, x, step, 8), text), step, 8)
    for level in reversed(range(levels)):
        for _ in range(2):
            x = _spatial(net, _resblock(net, net.concat(3, x, skips.pop()), step, 8), text)
        if level and level <= 3:
            x = net.conv(net.resize(x, "NEAREST_NEIGHBOR"), 8)
    x = net.conv(_swish(net, _grouped(net, x)), 4)
    return net.model(first(net, x)).source


def _swish(net: Network, x: int) -> int:
    return net.binary("MUL", x, net.unary("LOGISTIC", x))


def _grouped(net: Network, x: int, groups: int = 2) -> int:
    """Normalisation of groups of channels, written out on planes as PyTorch's exports have it."""
    n, h, w, c = net.shapes[x]
    y = net.reshape(first(net, x), n, groups, c // groups * h * w)
    middle = net.mean(y, 2, keep=True)
    off = net.binary("SUB", y, middle)
    spread = net.mean(net.binary("MUL", off, off), 2, keep=True)
    y = net.binary("MUL", off, net.unary("RSQRT", net.add(spread, net.constant(1e-3))))
    y = net.binary("MUL", net.reshape(y, n, c, h, w), net.weights(1, c, 1, 1))
    return last(net, net.add(y, net.weights(1, c, 1, 1)))


def _resblock(net: Network, x: int, step: int, channels: int) -> int:
    y = net.conv(_swish(net, _grouped(net, x)), channels)
    y = net.add(y, net.reshape(net.dense(_swish(net, step), channels), 1, 1, 1, channels))
    y = net.conv(_swish(net, _grouped(net, y)), channels)
    return net.add(net.conv(x, channels, 1) if net.shapes[x][-1] != channels else x, y)


def _spatial(net: Network, x: int, text: int) -> int:
    """A transformer's layer over the pixels, which attend to each other and to a text."""
    n, h, w, c = net.shapes[x]
    y = net.conv(_grouped(net, x), c, 1)
    y = net.reshape(y, n, h * w, c)
    for other in (None, text):
        z = net.normalised(y)
        source = z if other is None else other
        q, k, v = (_headed(net, net.dense(each, c), 2) for each in (z, source, source))
        y = net.add(y, net.dense(joined_heads(net, attended(net, q, k, v)), c))
    y = perceptron(net, y)
    return net.add(x, net.conv(net.reshape(y, n, h, w, c), c, 1))


def _headed(net: Network, x: int, heads: int) -> int:
    n, t, c = net.shapes[x]
    return net.transpose(net.reshape(x, n, t, heads, c // heads), 0, 2, 1, 3)


_TURNS = ((1, 0, 2), (0, 2, 1), (2, 1, 0))


def grid(operators: int) -> Graph:
    """A grid of sums of tensors and their transposes: every cell demands other orders than its neighbours."""
    b = GraphBuilder()
    size = max(2, round((operators / 3) ** (1 / 2) / 2))
    steps = max(1, round(operators / 3 / size**2))
    rows = [[b.input(3, 3, 3) for _ in range(size)] for _ in range(size)]
    for step in range(steps):
        for i in range(size):
            for j in range(size):
                other = b.transpose(rows[i][(j + 1) % size], *_TURNS[(i + j + step) % 3])
                below = b.transpose(rows[(i + 1) % size][j], *_TURNS[(i * j + step) % 3])
                rows[i][j] = b.relu(b.add(b.add(rows[i][j], other), below))
    return b.graph(*(name for row in rows for name in row))


def ladder(operators: int) -> Graph:
    """Two rails of sums, each of which reads the other one turned."""
    b = GraphBuilder()
    left, right = b.input(3, 4, 5), b.input(3, 4, 5)
    perms = ((1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0))
    for step in range(operators // 4):
        perm = perms[step % 4]
        shape = [b.shape(left)[axis] for axis in perm]
        left = b.relu(b.transpose(left, *perm))
        right = b.add(b.transpose(right, *perm), b.constant(np.ones(shape)))
        axis = step % 3
        left, right = b.add(left, b.op("Softmax", right, shape=shape, axis=axis)), b.relu(right)
    return b.graph(left, right)


FAMILIES: Mapping[str, tuple[Callable[[int], bytes | Graph], tuple[int, ...]]] = {
    "swin": (swin, (2, 8, 24)),
    "attention": (attention, (12, 100)),
    "windowed": (windowed, (3, 12)),
    "maxvit": (maxvit, (2, 8)),
    "hiera": (hiera, (6, 24)),
    "shufflenet": (shufflenet, (16, 64)),
    "densenet": (densenet, (60, 300)),
    "residual": (residual, (20, 100)),
    "unet": (unet, (1, 4)),
    "grid": (grid, (100, 300, 1000)),
    "ladder": (ladder, (100, 1000)),
}
"""Every family and the sizes in which it is measured."""
