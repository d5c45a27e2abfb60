"""Networks for layout systems, as their users know them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from layoutsolve.ir.graph import Array
from tests.networks import Network, Quantized
from tests.random_onnx import Writer


def image(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def summed(writer: Writer, x: str) -> str:
    axes = writer.constant([3], "int64")
    return writer.op("ReduceSum", x, axes, shape=(*writer.shapes[x][:3], 1), keepdims=1)


def inception(net: Network) -> int:
    """A stem, blocks of four branches, and a classifier."""
    x = net.conv(net.input(1, 32, 32, 3), 8, stride=2, activation="RELU")
    x = net.pool(net.conv(x, 8, activation="RELU"))
    for _ in range(3):
        one = net.conv(x, 4, 1, activation="RELU")
        three = net.conv(net.conv(x, 4, 1, activation="RELU"), 6, activation="RELU")
        five = net.conv(net.conv(net.conv(x, 2, 1, activation="RELU"), 3), 3, activation="RELU")
        pooled = net.conv(x, 3, 1, activation="RELU")
        x = net.concat(3, one, three, five, pooled)
    return net.dense(net.mean(x, 1, 2), 5)


def inception_v3(net: Network, size: int = 299, share: int = 8) -> int:
    """All 94 convolutions of InceptionV3 as Keras has it, each of a part of its channels."""
    valid: dict[str, Any] = {"padding": "VALID"}

    def conv(x: int, channels: int, kernel: int | tuple[int, int], stride: int = 1, **more: Any) -> int:
        return net.conv(x, max(channels // share, 1), kernel, stride, activation="RELU", **more)

    def row(x: int, *steps: tuple[int, int | tuple[int, int]]) -> int:
        for channels, kernel in steps:
            x = conv(x, channels, kernel)
        return x

    def mean(x: int, channels: int) -> int:
        return conv(net.pool(x, "AVERAGE", 3, 1), channels, 1)

    x = conv(conv(conv(net.input(1, size, size, 3), 32, 3, 2, **valid), 32, 3, **valid), 64, 3)
    x = net.pool(x, "MAX", 3, 2, "VALID")
    x = net.pool(conv(conv(x, 80, 1, **valid), 192, 3, **valid), "MAX", 3, 2, "VALID")
    for pooled in (32, 64, 64):
        parts = row(x, (64, 1)), row(x, (48, 1), (64, 5)), row(x, (64, 1), (96, 3), (96, 3)), mean(x, pooled)
        x = net.concat(3, *parts)
    narrow = conv(row(x, (64, 1), (96, 3)), 96, 3, 2, **valid)
    x = net.concat(3, conv(x, 384, 3, 2, **valid), narrow, net.pool(x, "MAX", 3, 2, "VALID"))
    for inner in (128, 160, 160, 192):  # windows of seven pixels, in rows and columns apart
        seven = row(x, (inner, 1), (inner, (1, 7)), (192, (7, 1)))
        twice = row(x, (inner, 1), (inner, (7, 1)), (inner, (1, 7)), (inner, (7, 1)), (192, (1, 7)))
        x = net.concat(3, row(x, (192, 1)), seven, twice, mean(x, 192))
    first = conv(row(x, (192, 1)), 320, 3, 2, **valid)
    second = conv(row(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, 2, **valid)
    x = net.concat(3, first, second, net.pool(x, "MAX", 3, 2, "VALID"))
    for _ in range(2):  # branches that part again
        three, double = row(x, (384, 1)), row(x, (448, 1), (384, 3))
        parts_of = [net.concat(3, conv(each, 384, (1, 3)), conv(each, 384, (3, 1))) for each in (three, double)]
        x = net.concat(3, row(x, (320, 1)), *parts_of, mean(x, 192))
    scores = net.dense(net.mean(x, 1, 2), 1000)
    return scores if isinstance(net, Quantized) else net.unary("SOFTMAX", scores)


def ssd(net: Network) -> list[int]:
    x = net.conv(net.input(1, 32, 32, 3), 6, stride=2, activation="RELU")
    rows: dict[int, list[int]] = {4: [], 7: []}
    for _ in range(3):
        x = net.conv(x, 6, stride=2, activation="RELU")
        _, h, w, _ = net.shapes[x]
        for width, found in rows.items():
            found.append(net.reshape(net.conv(x, 3 * width, 3), 1, h * w * 3, width))
    return [net.concat(1, *found) for found in rows.values()]


def blocks() -> onnx.ModelProto:
    """Convolutions of blocks of 16 channels but for the first, a pool, branches that are joined, a depthwise one."""
    writer = Writer(0)
    x = planes(writer, writer.input(2, 3, 16, 16), 32)
    x = planes(writer, writer.op("Relu", x, shape=writer.shapes[x]), 64)
    x = writer.op("MaxPool", x, shape=(2, 64, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    branches = [planes(writer, x, channels) for channels in (48, 32)]
    x = writer.op("Concat", *branches, shape=(2, 80, 8, 8), axis=1)
    return writer.model(planes(writer, x, 80, group=80))


def planes(writer: Writer, x: str, channels: int, kernel: int = 3, group: int = 1) -> str:
    """A convolution of a channels-first image that keeps its size."""
    n, c, h, w = writer.shapes[x]
    weights = writer.weights(channels, c // group, kernel, kernel)
    pads = [kernel // 2] * 4
    return writer.op("Conv", x, weights, shape=(n, channels, h, w), pads=pads, group=group)
