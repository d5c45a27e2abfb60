"""Networks whose sizes are known by name only: images of any number, height and width, sequences of any length.

What they are cut, padded, resized and reshaped to is computed from their own shapes, as real exports do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.builder import Builder

Sizes = dict[str, tuple[int, ...]]
"""The shapes of the inputs in one run."""

DEPTH = 4


class Dynamic:
    """A network in the making, all of whose sizes but the last of images and sequences are dynamic."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.builder = Builder()

    def chance(self, share: float = 0.5) -> bool:
        """True as often as ``share`` says."""
        return bool(self.random.random() < share)

    def pick(self, *choices: Any) -> Any:
        """One of these."""
        return choices[int(self.random.integers(len(choices)))]

    # -- tensors -------------------------------------------------------------------------------------------------

    def input(self, name: str, *signature: int) -> int:
        """An input; -1 stands for a dynamic size."""
        return self.builder.input(name, [max(size, 1) for size in signature], signature=signature)

    def op(self, name: str, inputs: Sequence[int], rank: int, dtype: str = "float32", **options: Any) -> int:
        """An operator with one output of some rank, whose sizes the file does not tell."""
        result = self.builder.tensor(name.lower(), (1,) * rank, dtype, signature=(-1,) * rank)
        self.builder.operator(name, inputs, [result], options)
        return result

    def weights(self, *shape: int) -> int:
        """A constant of small numbers."""
        return self.builder.constant("weights", self.random.normal(0, 0.4, shape).astype(np.float32))

    def vector(self, *numbers: int) -> int:
        """A constant vector."""
        return self.builder.constant("vector", np.array(numbers, np.int32))

    def number(self, value: int) -> int:
        """A constant integer."""
        return self.builder.constant("number", np.int32(value))

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size(self, x: int, axis: int, rank: int) -> int:
        """A size of a tensor, a scalar computed at run time."""
        shape = self.builder.tensor("shape", (rank,), "int32")
        self.builder.operator("SHAPE", [x], [shape], {"out_type": "int32"})
        if self.chance():
            return self.op("GATHER", [shape, self.number(axis)], 0, "int32", axis=0)
        return self.op("STRIDED_SLICE", [shape, *map(self.vector, (axis, axis + 1, 1))], 0, "int32", shrink_axis_mask=1)

    def whole(self, name: str, a: int, b: int) -> int:
        """Arithmetic on sizes."""
        return self.op(name, [a, b], 0, "int32")

    def pack(self, *sizes: int) -> int:
        """Sizes as a vector."""
        result = self.builder.tensor("packed", (len(sizes),), "int32")
        self.builder.operator("PACK", sizes, [result], {"values_count": len(sizes)})
        return result

    def reshape(self, x: int, *sizes: int) -> int:
        """A tensor reshaped to computed sizes."""
        return self.op("RESHAPE", [x, self.pack(*sizes)], len(sizes))

    # -- images --------------------------------------------------------------------------------------------------

    def conv(self, x: int, depth: int = DEPTH, kernel: int = 3, stride: int = 1, padding: str = "SAME") -> int:
        """A convolution with a RELU."""
        dilation = 2 if stride == 1 and padding == "SAME" and self.chance(0.2) else 1
        options = {"padding": padding, "stride_h": stride, "stride_w": stride, "dilation_h_factor": dilation,
                   "dilation_w_factor": dilation, "fused_activation_function": "RELU"}  # fmt: skip
        bias = self.builder.constant("bias", self.random.normal(size=depth).astype(np.float32))
        return self.op("CONV_2D", [x, self.weights(depth, kernel, kernel, DEPTH), bias], 4, **options)

    def pool(self, x: int) -> int:
        """A pooling to half the size, rounded up or down."""
        options = {
            "padding": self.pick("SAME", "VALID"),
            "stride_h": 2,
            "stride_w": 2,
            "filter_height": 2,
            "filter_width": 2,
        }
        return self.op(self.pick("MAX_POOL_2D", "AVERAGE_POOL_2D"), [x], 4, **options)

    def resized(self, x: int, height: int, width: int) -> int:
        """An image resized to computed sizes."""
        name = self.pick("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        return self.op(name, [x, self.pack(height, width)], 4, half_pixel_centers=name == "RESIZE_BILINEAR")

    def doubled(self, x: int) -> int:
        """An image resized to twice its size."""
        height, width = (self.whole("MUL", self.size(x, axis, 4), self.number(2)) for axis in (1, 2))
        return self.resized(x, height, width)

    def cropped(self, x: int, like: int) -> int:
        """The begin of an image, as large as another one is."""
        batch, height, width = (self.size(like, axis, 4) for axis in range(3))
        depth = self.number(DEPTH)
        if self.chance():
            return self.op("SLICE", [x, self.vector(0, 0, 0, 0), self.pack(batch, height, width, depth)], 4)
        bounds = [self.vector(0, 0, 0, 0), self.pack(batch, height, width, depth), self.vector(1, 1, 1, 1)]
        return self.op("STRIDED_SLICE", [x, *bounds], 4, begin_mask=15, end_mask=self.pick(8, 9))

    def padded(self, x: int, multiple: int) -> int:
        """An image with zeros behind it, so that a number divides its height and width."""
        rows = [self.vector(0, 0)]
        for axis in (1, 2):
            size = self.size(x, axis, 4)
            up = self.whole("FLOOR_DIV", self.whole("ADD", size, self.number(multiple - 1)), self.number(multiple))
            rows.append(
                self.pack(self.number(0), self.whole("SUB", self.whole("MUL", up, self.number(multiple)), size))
            )
        rows.append(self.vector(0, 0))
        pads = self.builder.tensor("pads", (4, 2), "int32")
        self.builder.operator("PACK", rows, [pads], {"values_count": 4})
        return self.op("PAD", [x, pads], 4)

    def windows(self, x: int) -> int:
        """A convolution within windows of 2 by 2 pixels, and the windows put together again."""
        x = self.padded(x, 2)
        batch, height, width = (self.size(x, axis, 4) for axis in range(3))
        two, depth = self.number(2), self.number(DEPTH)
        rows, columns = (self.whole("FLOOR_DIV", size, two) for size in (height, width))
        parts = self.reshape(x, batch, rows, two, columns, two, depth)
        parts = self.op("TRANSPOSE", [parts, self.vector(0, 1, 3, 2, 4, 5)], 6)
        count = self.whole("MUL", self.whole("MUL", batch, rows), columns)
        images = self.conv(self.reshape(parts, self.pick(count, self.number(-1)), two, two, depth))
        parts = self.reshape(images, batch, rows, columns, two, two, depth)
        parts = self.op("TRANSPOSE", [parts, self.vector(0, 1, 3, 2, 4, 5)], 6)
        return self.reshape(parts, batch, height, width, depth)

    def pixelwise(self, x: int) -> int:
        """A dense layer over all pixels of all images."""
        batch, height, width = (self.size(x, axis, 4) for axis in range(3))
        flat = self.op("RESHAPE", [x, self.vector(-1, DEPTH)], 2)
        flat = self.op("FULLY_CONNECTED", [flat, self.weights(DEPTH, DEPTH), -1], 2)
        return self.reshape(flat, batch, height, width, self.number(DEPTH))

    def hourglass(self, x: int) -> int:
        """Down, up again, cut to the size of what went in, and joined with it."""
        low = self.conv(self.pool(x) if self.chance() else self.conv(x, stride=2))
        if self.chance():
            high = self.resized(low, self.size(x, 1, 4), self.size(x, 2, 4))
        else:
            high = self.cropped(self.doubled(self.conv(self.conv(x, stride=2))), x)
        both = self.op("CONCATENATION", [x, high], 4, axis=3)
        kernel = [self.weights(DEPTH, 1, 1, 2 * DEPTH), self.weights(DEPTH)]
        return self.op("CONV_2D", [both, *kernel], 4, stride_h=1, stride_w=1)

    def added(self, x: int) -> int:
        """An image plus a mean of it."""
        mean = self.op("MEAN", [x, self.vector(*self.pick((1, 2), (0,), (3,)))], 4, keep_dims=True)
        return self.op("ADD", [x, mean], 4)

    def halves(self, x: int) -> int:
        """An image split into parts along its height, which change places."""
        x = self.padded(x, 2)
        parts = [self.builder.tensor("half", (1,) * 4, signature=(-1,) * 4) for _ in range(2)]
        self.builder.operator("SPLIT", [self.number(1), x], parts, {"num_splits": 2})
        return self.op("CONCATENATION", parts[::-1], 4, axis=1)

    def blocked(self, x: int) -> int:
        """A convolution between SPACE_TO_BATCH_ND and back."""
        x = self.padded(x, 2)
        none = self.builder.constant("none", np.zeros((2, 2), np.int32))
        y = self.conv(self.op("SPACE_TO_BATCH_ND", [x, self.vector(2, 2), none], 4))
        return self.op("BATCH_TO_SPACE_ND", [y, self.vector(2, 2), none], 4)

    def tokens_of(self, x: int) -> int:
        """An image as a sequence of pixels."""
        batch, height, width = (self.size(x, axis, 4) for axis in range(3))
        return self.reshape(x, batch, self.pick(self.whole("MUL", height, width), self.number(-1)), self.number(DEPTH))

    def boxes(self, *images: int) -> int:
        """What a detector makes of feature maps: rows of two numbers, all maps one after the other."""
        rows = []
        for image in images:
            head = self.conv(image)
            batch, height, width = (self.size(head, axis, 4) for axis in range(3))
            count = self.whole("MUL", self.whole("MUL", height, width), self.number(DEPTH // 2))
            rows.append(self.reshape(head, batch, self.pick(count, self.number(-1)), self.number(2)))
        return self.op("CONCATENATION", rows, 3, axis=1)

    # -- sequences -----------------------------------------------------------------------------------------------

    def dense(self, x: int) -> int:
        """A dense layer on every token, in one of the ways in which it is exported."""
        if self.chance():
            return self.op("FULLY_CONNECTED", [x, self.weights(DEPTH, DEPTH), -1], 3, keep_num_dims=True)
        batch, length = (self.size(x, axis, 3) for axis in range(2))
        rows = self.reshape(x, self.whole("MUL", batch, length), self.number(DEPTH))
        rows = self.op("FULLY_CONNECTED", [rows, self.weights(DEPTH, DEPTH), -1], 2)
        return self.reshape(rows, batch, length, self.number(DEPTH))

    def attention(self, x: int, bias: int | None = None) -> int:
        """Attention with two heads; ``bias`` is added to the scores."""
        batch, length = (self.size(x, axis, 3) for axis in range(2))
        heads, width = self.number(2), self.number(DEPTH // 2)
        parts = []
        for _ in range(3):
            split = self.reshape(self.dense(x), batch, length, heads, width)
            parts.append(self.op("TRANSPOSE", [split, self.vector(0, 2, 1, 3)], 4))
        scores = self.op("BATCH_MATMUL", parts[:2], 4, adj_y=True)
        if bias is not None:
            scores = self.op("ADD", [scores, bias], 4)
        result = self.op("BATCH_MATMUL", [self.op("SOFTMAX", [scores], 4, beta=1.0), parts[2]], 4)
        joined = self.op("TRANSPOSE", [result, self.vector(0, 2, 1, 3)], 4)
        return self.op("ADD", [x, self.reshape(joined, batch, length, self.number(DEPTH))], 3)

    def marked(self, x: int) -> int:
        """A sequence with a token before it, repeated for each of the batch."""
        batch, one, depth = self.size(x, 0, 3), self.number(1), self.number(DEPTH)
        token = self.weights(1, 1, DEPTH)
        if self.chance():
            first = self.op("BROADCAST_TO", [token, self.pack(batch, one, depth)], 3)
        else:
            first = self.op("TILE", [token, self.pack(batch, one, one)], 3)
        return self.op("CONCATENATION", [first, x], 3, axis=1)

    def placed(self, x: int) -> int:
        """A sequence plus an embedding of positions."""
        length = self.size(x, 1, 3)
        places = self.op("RANGE", [self.number(0), length, self.number(1)], 1, "int32")
        if self.chance():
            rows = self.op("GATHER", [self.weights(400, DEPTH), places], 2, axis=0)
        else:
            states = [self.builder.constant("state", np.float32(value)) for value in (1, 0)]
            hot = self.op("ONE_HOT", [places, length, *states], 2, axis=-1)
            rows = self.op("BATCH_MATMUL", [hot, self.first(x)], 2)
        return self.op("ADD", [x, rows], 3)

    def first(self, x: int) -> int:
        """The first sequence of a batch."""
        return self.op("STRIDED_SLICE", [x, *map(self.vector, (0, 1, 1))], 2, shrink_axis_mask=1)

    def best(self, x: int) -> int:
        """The larger half of the means of all tokens."""
        means = self.op("MEAN", [x, self.vector(2)], 2)
        count = self.whole("FLOOR_DIV", self.whole("ADD", self.size(x, 1, 3), self.number(1)), self.number(2))
        values = self.builder.tensor("values", (1, 1), signature=(-1, -1))
        places = self.builder.tensor("places", (1, 1), "int32", signature=(-1, -1))
        self.builder.operator("TOPK_V2", [means, count], [values, places], {})
        return values

    def shifted(self, x: int) -> int:
        """A sequence without its first token, or every other one, twice."""
        bounds = [self.vector(0, 1, 0), self.vector(0, 0, 0), self.vector(1, self.pick(1, 2), 1)]
        rest = self.op("STRIDED_SLICE", [x, *bounds], 3, begin_mask=5, end_mask=7)
        return self.op("CONCATENATION", [rest, rest], 3, axis=1)


IMAGE: tuple[Callable[[Dynamic, int], int], ...] = (
    Dynamic.conv,
    lambda net, x: net.conv(x, padding="VALID", kernel=2),
    lambda net, x: net.conv(x, stride=2),
    Dynamic.pool,
    Dynamic.doubled,
    Dynamic.windows,
    Dynamic.pixelwise,
    Dynamic.hourglass,
    Dynamic.added,
    Dynamic.halves,
    Dynamic.blocked,
)
SEQUENCE: tuple[Callable[[Dynamic, int], int], ...] = (
    Dynamic.dense,
    Dynamic.attention,
    Dynamic.marked,
    Dynamic.placed,
    Dynamic.shifted,
)


def image_network(seed: int) -> tuple[bytes, list[Sizes]]:
    """A network over images, and three sizes for each of its dynamic dimensions."""
    net = Dynamic(seed)
    x = net.input("x", -1, -1, -1, DEPTH)
    maps = [x]
    for _ in range(int(net.random.integers(2, 6))):
        x = net.pick(*IMAGE)(net, x)
        maps.append(x)
    outputs = [x]
    if net.chance():
        outputs.append(net.op("MEAN", [x, net.vector(1, 2)], 2))
    if net.chance():
        outputs.append(net.boxes(*maps[-2:]))
    if net.chance():
        outputs.append(net.attention(net.tokens_of(x)))
    sizes = [{"x": (batch, height, width, DEPTH)} for batch, height, width in ((1, 16, 19), (3, 13, 16), (2, 21, 11))]
    return net.builder.finish(*outputs), sizes


def sequence_network(seed: int) -> tuple[bytes, list[Sizes]]:
    """A network over sequences with a mask that is an input of its own, and three sizes for each dynamic dimension."""
    net = Dynamic(seed)
    x, mask = net.input("x", -1, -1, DEPTH), net.input("mask", -1, -1)
    batch, length = (net.size(mask, axis, 2) for axis in range(2))
    x = net.attention(x, net.reshape(mask, batch, net.number(1), net.number(1), length))
    for _ in range(int(net.random.integers(1, 5))):
        x = net.pick(*SEQUENCE)(net, x)
    outputs = [x]
    if net.chance():
        outputs.append(net.best(x))
    if net.chance():
        outputs.append(net.op("MEAN", [x, net.vector(1)], 2))
    pairs = ((1, 5), (3, 8), (2, 13))
    sizes = [{"x": (batch, length, DEPTH), "mask": (batch, length)} for batch, length in pairs]
    return net.builder.finish(*outputs), [*sizes, {"x": (3, 4, DEPTH), "mask": (1, 4)}]
