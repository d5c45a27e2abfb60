"""Eight small models, one for each family of what a layout problem is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.builder import Builder, Part
from tests.conformance.control import binary, convolved, same
from tests.networks import Network, Quantized

IMAGE = (1, 4, 4, 3)


class _Named(Network):
    """A network whose tensors are named by what computes them."""

    def op(self, name: str, inputs: Sequence[int], shape: Sequence[int], **chosen: Any) -> int:
        index = super().op(name, inputs, shape, **chosen)
        self.builder.subgraph.tensors[index].name = f"{name.lower()}{index}"
        return index


class _NamedQuantized(_Named, Quantized):
    """The same in int8."""


def classifier() -> bytes:
    """An image, a depthwise convolution, a mean over its pixels, and a dense layer."""
    net = _Named()
    x = net.depthwise(net.input(1, 8, 8, 3), stride=2, activation="RELU")
    return net.builder.finish(net.dense(net.mean(x, 1, 2), 2))


def quantized() -> bytes:
    """Two convolutions of int8 and what goes round one of them."""
    net = _NamedQuantized()
    x = net.conv(net.input(1, 4, 4, 3), 4)
    return net.builder.finish(net.op("ADD", [x, net.conv(x, 4)], net.shapes[x]))


def attention() -> bytes:
    """Two heads of attention over a sequence."""
    net = _Named()
    x = net.input(1, 5, 8)
    q, k, v = (net.transpose(net.reshape(net.dense(x, 8), 1, 5, 2, 4), 0, 2, 1, 3) for _ in range(3))
    weights = net.unary("SOFTMAX", net.matmul(q, k, adj_y=True))
    mixed = net.transpose(net.matmul(weights, v), 0, 2, 1, 3)
    return net.builder.finish(net.dense(net.reshape(mixed, 1, 5, 8), 8))


def detector() -> bytes:
    """Three maps of boxes with 2, 3 and 3 anchors, joined: two of them in a step before."""
    net = _Named()
    x = net.input(1, 4, 4, 3)
    rows = []
    for anchors in (2, 3, 3):
        x = net.conv(x, 3, activation="RELU")
        rows.append(net.reshape(net.conv(x, 4 * anchors), 1, 16 * anchors, 4))
    return net.builder.finish(net.concat(1, *rows))


def pixels() -> bytes:
    """Channels that become pixels, written as Reshape, Transpose, Reshape between two convolutions."""
    net = _Named()
    x = net.reshape(net.conv(net.input(1, 4, 4, 3), 12), 1, 4, 4, 2, 2, 3)
    x = net.reshape(net.transpose(x, 0, 1, 3, 2, 4, 5), 1, 8, 8, 3)
    return net.builder.finish(net.conv(x, 4))


def batches() -> bytes:
    """An open batch, of which a shape is computed."""
    net = _Named(dynamic=True)
    x = net.conv(net.input(1, 4, 4, 3), 2)
    return net.builder.finish(net.dense(net.reshape(x, 1, 32), 3))


def branches() -> bytes:
    """A convolution in one branch, a sum in the other."""

    def convolving(part: Part, image: int) -> int:
        return convolved(part, image)

    def adding(part: Part, image: int) -> int:
        return binary("ADD", part, image, image)

    builder = Builder()
    condition, image = builder.input("condition", (), "bool"), builder.input("image", IMAGE)
    first = convolved(builder, image)
    out = same(builder, first)
    builder.operator("IF", [condition, first], [out], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    for write in (convolving, adding):
        part = builder.part()
        part.outputs(write(part, part.input("given", IMAGE)))
    return builder.finish(out)


def loop() -> bytes:
    """Three turns of a convolution."""
    builder = Builder()
    count, image = builder.input("count", (), "int32"), builder.input("image", IMAGE)
    results = [builder.tensor("last", (), "int32"), builder.tensor("out", IMAGE)]
    builder.operator("WHILE", [count, image], results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    condition, body = builder.part(), builder.part()
    turn, _ = condition.input("turn", (), "int32"), condition.input("now", IMAGE)
    below = condition.tensor("below", (), "bool")
    condition.operator("LESS", [turn, condition.constant("turns", np.int32(3))], [below], {})
    condition.outputs(below)
    turn, now = body.input("turn", (), "int32"), body.input("now", IMAGE)
    body.outputs(binary("ADD", body, turn, body.constant("one", np.int32(1))), convolved(body, now))
    return builder.finish(results[1])


MODELS: Mapping[str, Callable[[], bytes]] = {
    each.__name__: each for each in (classifier, quantized, attention, detector, pixels, batches, branches, loop)
}
