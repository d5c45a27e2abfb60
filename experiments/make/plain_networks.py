"""Networks that every converter reads: convolutions, pools, sums, concatenations and dense layers, the same plan for
TensorFlow Lite (channels last), ONNX and PyTorch (channels first).

A plan is a list of steps, each a word, the numbers of the steps that it reads, and a size. Step 0 is an image of
:data:`SIDE` by :data:`SIDE` pixels with :data:`CHANNELS` channels. ``pixels`` lays channels of each pixel side by side,
as before attention or a dense layer, ``image`` takes that back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt, prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.networks import Network

Step = tuple[str, tuple[int, ...], int]
"""A word, the steps that it reads, and a number of channels, 0 where that does not change."""

SIDE, CHANNELS = 8, 4


class _Plan:
    """A plan in the making; ``shapes`` are height, width and channels, ``x`` the step that the next one reads."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.steps: list[Step] = [("input", (), CHANNELS)]
        self.shapes, self.x = [(SIDE, SIDE, CHANNELS)], 0

    def step(self, word: str, *reads: int, channels: int = 0) -> int:
        """Add a step, which reads the last one if nothing is named."""
        reads = reads or (self.x,)
        height, width, before = self.shapes[reads[0]]
        if word == "pool":
            height, width = height // 2, width // 2
        elif word == "resize":
            height, width = 2 * height, 2 * width
        elif word == "mean":
            height, width = 1, 1
        elif word == "concat":
            channels = sum(self.shapes[read][2] for read in reads)
        self.steps.append((word, reads, channels))
        self.shapes.append((height, width, channels or before))
        self.x = len(self.steps) - 1
        return self.x

    def residual(self) -> None:
        start = self.x
        self.step("conv", channels=self.shapes[start][2])
        self.step("relu")
        self.step("add", self.step("conv", channels=self.shapes[start][2]), start)

    def branches(self) -> None:
        start, count = self.x, int(self.random.integers(2, 4))
        self.step("concat", *[self.step("conv", start, channels=4) for _ in range(count)])

    def down(self) -> None:
        if self.shapes[self.x][0] >= SIDE // 2:
            self.step("pool")

    def up(self) -> None:
        if self.shapes[self.x][0] < SIDE:
            self.step("resize")

    def gate(self) -> None:
        start = self.x
        self.step("mean")
        self.step("conv", channels=self.shapes[start][2])
        self.step("mul", start, self.step("sigmoid"))

    def attend(self) -> None:
        self.step("softmax")

    def dense(self) -> None:
        channels = self.shapes[self.x][2]
        self.step("pixels")
        self.step("dense", channels=channels)
        self.step("relu")
        self.step("image")


def plan(seed: int) -> list[Step]:
    """A plan of two to six blocks, which ends in a convolution or in a dense layer of what is pooled."""
    made = _Plan(seed)
    made.step("conv", channels=int(made.random.choice([4, 6])))
    blocks: Sequence[Callable[[], None]] = (
        made.residual, made.branches, made.down, made.up, made.gate, made.attend, made.dense
    )  # fmt: skip
    for _ in range(int(made.random.integers(2, 7))):
        blocks[int(made.random.integers(len(blocks)))]()
    if made.random.integers(2):
        made.step("conv", channels=5)
    else:
        made.step("mean")
        made.step("pixels")
        made.step("dense", channels=5)
    return made.steps


# -- TensorFlow Lite -----------------------------------------------------------------------------------------------

_LITE: Mapping[str, Callable[[Network, Sequence[int], int], int]] = {
    "conv": lambda net, x, channels: net.conv(x[0], channels),
    "dense": lambda net, x, channels: net.dense(x[0], channels),
    "pool": lambda net, x, _: net.pool(x[0]),
    "resize": lambda net, x, _: net.resize(x[0], "NEAREST_NEIGHBOR"),
    "mean": lambda net, x, _: net.mean(x[0], 1, 2, keep=True),
    "add": lambda net, x, _: net.add(x[0], x[1]),
    "mul": lambda net, x, _: net.binary("MUL", x[0], x[1]),
    "concat": lambda net, x, _: net.concat(3, *x),
    "relu": lambda net, x, _: net.unary("RELU", x[0]),
    "sigmoid": lambda net, x, _: net.unary("LOGISTIC", x[0]),
    "softmax": lambda net, x, _: net.unary("SOFTMAX", x[0]),
    "pixels": lambda net, x, _: _reshaped(net, x[0], prod(net.shapes[x[0]][:-1]), net.shapes[x[0]][-1]),
    "image": lambda net, x, _: _reshaped(net, x[0], 1, *2 * [isqrt(net.shapes[x[0]][0])], net.shapes[x[0]][-1]),
}


def _reshaped(net: Network, x: int, *shape: int) -> int:
    """A Reshape that has its sizes as an option as well, as TensorFlow writes it: tf2onnx refuses others."""
    return net.op("RESHAPE", [x, net.vector(*shape)], shape, new_shape=shape)


def as_tflite(seed: int) -> bytes:
    """The network of a plan, channels last."""
    net = Network()
    found = [net.input(1, SIDE, SIDE, CHANNELS)]
    for word, reads, channels in plan(seed)[1:]:
        found.append(_LITE[word](net, [found[read] for read in reads], channels))
    return net.model(found[-1]).source


# -- ONNX ----------------------------------------------------------------------------------------------------------


class _Onnx:
    """A graph of ONNX in the making, whose images have channels first."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {"image": (1, CHANNELS, SIDE, SIDE)}

    def constant(self, data: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape).astype(np.float32) / 4)

    def op(self, kind: str, inputs: Sequence[str], shape: Sequence[int], **said: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **said))
        self.shapes[name] = tuple(shape)
        return name

    def step(self, word: str, x: Sequence[str], channels: int) -> str:
        """What a step of a plan gives."""
        shape = self.shapes[x[0]]
        n, c, h, w = shape if len(shape) == 4 else (1, shape[1], *2 * [isqrt(shape[0])])
        if word == "conv":
            read = [x[0], self.weights(channels, c, 3, 3), self.weights(channels)]
            return self.op("Conv", read, (n, channels, h, w), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        if word == "dense":
            return self.op("Gemm", [x[0], self.weights(c, channels), self.weights(channels)], (shape[0], channels))
        if word == "pool":
            return self.op("MaxPool", x, (n, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])
        if word == "resize":
            read = [x[0], "", self.constant(np.array([1, 1, 2, 2], np.float32))]
            return self.op("Resize", read, (n, c, 2 * h, 2 * w), mode="nearest")
        if word == "mean":
            return self.op("GlobalAveragePool", x, (n, c, 1, 1))
        if word == "concat":
            return self.op("Concat", x, (n, sum(self.shapes[each][1] for each in x), h, w), axis=1)
        if word == "softmax":
            return self.op("Softmax", x, shape, axis=1)
        if word == "pixels":
            last = self.op("Transpose", x, (n, h, w, c), perm=[0, 2, 3, 1])
            return self.op("Reshape", [last, self.constant([h * w, c])], (h * w, c))
        if word == "image":
            last = self.op("Reshape", [x[0], self.constant([n, h, w, c])], (n, h, w, c))
            return self.op("Transpose", [last], (n, c, h, w), perm=[0, 3, 1, 2])
        return self.op({"relu": "Relu", "sigmoid": "Sigmoid", "add": "Add", "mul": "Mul"}[word], x, shape)


def as_onnx(seed: int) -> bytes:
    """The network of a plan, channels first, as PyTorch's exporters write it."""
    made = _Onnx()
    found = ["image"]
    for word, reads, channels in plan(seed)[1:]:
        found.append(made.step(word, [found[read] for read in reads], channels))
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, made.shapes[each]) for each in (found[0], found[-1])]
    graph = helper.make_graph(made.nodes, f"plain-{seed}", ends[:1], ends[1:], made.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)
