"""Networks of TensorFlow Lite operators with random weights, built layer by layer, and the minimum that they have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import layoutsolve
from tests.audited import audited
from tests.builder import Builder, Quant
from tests.conformance.cases import Case, Model
from tests.conformance.convolution import dilated, options
from tests.conformance.running import check

TOLERANCE = 1e-4
"""The largest error of a network's output, relative to its range."""


Kernel = int | tuple[int, int]
"""The sides of a window: one for both, or height and width."""


def sides(kernel: Kernel) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def windows(size: int, side: int, stride: int, padding: str) -> int:
    """How many windows there are along a dimension."""
    return -(-(size if padding == "SAME" else size - side + 1) // stride)


class Network:
    """Every method adds an operator and returns the tensor that it gives. ``dynamic`` leaves the batch open.

    Images are [N, H, W, C], sequences [N, T, C].
    """

    def __init__(self, dynamic: bool = False) -> None:
        self.builder = Builder()
        self.random = np.random.default_rng(0)
        self.dynamic = dynamic
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.fed: list[int] = []

    def _enter(self, add: Any, shape: Sequence[int], dtype: str, open_batch: bool) -> int:
        signature = (-1, *shape[1:]) if open_batch and self.dynamic else None
        index: int = add(f"t{len(self.shapes)}", tuple(shape), dtype, signature=signature)
        self.shapes[index] = tuple(shape)
        return index

    def input(self, *shape: int) -> int:
        self.fed.append(self._enter(self.builder.input, shape, "float32", open_batch=True))
        return self.fed[-1]

    def constant(self, data: Any, dtype: str = "float32") -> int:
        index = self.builder.constant(f"t{len(self.shapes)}", np.asarray(data, dtype))
        self.shapes[index] = np.shape(data)
        return index

    def weights(self, *shape: int) -> int:
        return self.constant(self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:], initial=1.0)))

    def vector(self, *numbers: int) -> int:
        return self.constant(numbers, "int32")

    def op(self, name: str, inputs: Sequence[int], shape: Sequence[int], **chosen: Any) -> int:
        """Any operator with one output of this shape; ``chosen`` are its options."""
        output = self._enter(self.builder.tensor, shape, "float32", open_batch=True)
        self.builder.operator(name, inputs, [output], chosen)
        return output

    def integer(self, name: str, inputs: Sequence[int], shape: Sequence[int], **chosen: Any) -> int:
        """Any operator with one output of integers."""
        output = self._enter(self.builder.tensor, shape, "int32", open_batch=False)
        self.builder.operator(name, inputs, [output], chosen)
        return output

    def conv(self, x: int, channels: int, kernel: Kernel = 3, stride: int = 1, groups: int = 1, **more: Any) -> int:
        n, h, w, c = self.shapes[x]
        inputs = [x, self.weights(channels, *sides(kernel), c // groups), self.weights(channels)]
        return self._window("CONV_2D", inputs, (n, h, w, channels), kernel, stride, **more)

    def depthwise(self, x: int, kernel: int = 3, stride: int = 1, **more: Any) -> int:
        n, h, w, c = self.shapes[x]
        inputs = [x, self.weights(1, kernel, kernel, c), self.weights(c)]
        return self._window("DEPTHWISE_CONV_2D", inputs, (n, h, w, c), kernel, stride, depth_multiplier=1, **more)

    def _window(
        self, name: str, inputs: Sequence[int], shape: Sequence[int], kernel: Kernel, stride: int, **more: Any
    ) -> int:
        padding, activation = more.pop("padding", "SAME"), more.pop("activation", "NONE")
        dilation = more.pop("dilation", (1, 1))
        n, h, w, c = shape
        sizes = [windows(size, side, stride, padding) for size, side in zip((h, w), sides(kernel), strict=True)]
        chosen = options((stride, stride), padding, activation, **dilated(dilation), **more)
        return self.op(name, inputs, (n, *sizes, c), **chosen)

    def upconv(self, x: int, channels: int) -> int:
        """A transposed convolution that doubles height and width."""
        n, h, w, c = self.shapes[x]
        shape = (n, 2 * h, 2 * w, channels)
        inputs = [self.vector(*shape), self.weights(channels, 2, 2, c), x, self.weights(channels)]
        return self.op("TRANSPOSE_CONV", inputs, shape, **options((2, 2), "SAME"))

    def pool(self, x: int, kind: str = "MAX", size: int = 2, stride: int = 2, padding: str = "SAME") -> int:
        n, h, w, c = self.shapes[x]
        chosen = options((stride, stride), padding, filter_height=size, filter_width=size)
        sizes = [windows(side, size, stride, padding) for side in (h, w)]
        return self.op(f"{kind}_POOL_2D", [x], (n, *sizes, c), **chosen)

    def resize(self, x: int, kind: str = "BILINEAR") -> int:
        """Height and width doubled."""
        n, h, w, c = self.shapes[x]
        size = self.vector(2 * h, 2 * w)
        return self.op(f"RESIZE_{kind}", [x, size], (n, 2 * h, 2 * w, c), half_pixel_centers=True)

    def dense(self, x: int, units: int, activation: str = "NONE") -> int:
        *outer, features = self.shapes[x]
        inputs = [x, self.weights(units, features), self.weights(units)]
        chosen = {"keep_num_dims": len(outer) > 1, "fused_activation_function": activation}
        return self.op("FULLY_CONNECTED", inputs, (*outer, units), **chosen)

    def matmul(self, x: int, y: int, adj_y: bool = False) -> int:
        columns = self.shapes[y][-2 if adj_y else -1]
        return self.op("BATCH_MATMUL", [x, y], (*self.shapes[x][:-1], columns), adj_y=adj_y)

    def reshape(self, x: int, *shape: int) -> int:
        """With an open batch the shape is computed, as TensorFlow does it: SHAPE, STRIDED_SLICE, PACK."""
        if not self.dynamic:
            return self.op("RESHAPE", [x, self.vector(*shape)], shape, new_shape=shape)
        rank = len(self.shapes[x])
        sizes = self.integer("SHAPE", [x], (rank,), out_type="int32")
        bounds = [self.vector(number) for number in (0, 1, 1)]
        batch = self.integer("STRIDED_SLICE", [sizes, *bounds], (), shrink_axis_mask=1)
        parts = [batch, *(self.constant(size, "int32") for size in shape[1:])]
        return self.op("RESHAPE", [x, self.integer("PACK", parts, (len(shape),), values_count=len(shape))], shape)

    def transpose(self, x: int, *perm: int) -> int:
        return self.op("TRANSPOSE", [x, self.vector(*perm)], [self.shapes[x][axis] for axis in perm])

    def concat(self, axis: int, *parts: int) -> int:
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[part][axis] for part in parts)
        return self.op("CONCATENATION", parts, shape, axis=axis % len(shape))

    def split(self, x: int, count: int, axis: int) -> list[int]:
        shape = list(self.shapes[x])
        shape[axis] //= count
        parts = [self._enter(self.builder.tensor, shape, "float32", open_batch=True) for _ in range(count)]
        self.builder.operator("SPLIT", [self.constant(axis % len(shape), "int32"), x], parts, {"num_splits": count})
        return parts

    def cut(self, x: int, *cuts: tuple[int, int, int, int]) -> int:
        """STRIDED_SLICE: each cut is an axis, a start, an end and a step."""
        shape = list(self.shapes[x])
        begin, end, step = [0] * len(shape), list(shape), [1] * len(shape)
        for axis, *bounds in cuts:
            begin[axis], end[axis], step[axis] = bounds
            shape[axis] = len(range(*bounds))
        full = sum(1 << axis for axis in range(len(shape)) if all(each[0] != axis for each in cuts))
        vectors = [self.vector(*numbers) for numbers in (begin, end, step)]
        return self.op("STRIDED_SLICE", [x, *vectors], shape, begin_mask=full, end_mask=full)

    def pad(self, x: int, axis: int, before: int, after: int) -> int:
        shape = list(self.shapes[x])
        shape[axis] += before + after
        widths = [[before, after] if index == axis else [0, 0] for index in range(len(shape))]
        return self.op("PAD", [x, self.constant(widths, "int32")], shape)

    def mean(self, x: int, *axes: int, keep: bool = False) -> int:
        shape = self.shapes[x]
        kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
        return self.op("MEAN", [x, self.vector(*axes)], kept, keep_dims=keep)

    def unary(self, name: str, x: int) -> int:
        return self.op(name, [x], self.shapes[x], **({"beta": 1.0} if name == "SOFTMAX" else {}))

    def binary(self, name: str, x: int, y: int) -> int:
        return self.op(name, [x, y], np.broadcast_shapes(self.shapes[x], self.shapes[y]))

    def add(self, x: int, y: int) -> int:
        return self.binary("ADD", x, y)

    def shuffle(self, x: int, groups: int) -> int:
        """The channels (G K) as (K G)."""
        *outer, c = self.shapes[x]
        rank = len(outer)
        spread = self.transpose(self.reshape(x, *outer, groups, c // groups), *range(rank), rank + 1, rank)
        return self.reshape(spread, *outer, c)

    def normalised(self, x: int) -> int:
        """Layer normalisation over the last axis, as TensorFlow writes it out."""
        last = len(self.shapes[x]) - 1
        middle = self.mean(x, last, keep=True)
        spread = self.mean(self.binary("SQUARED_DIFFERENCE", x, middle), last, keep=True)
        inverse = self.unary("RSQRT", self.add(spread, self.constant(1e-3)))
        factor = self.binary("MUL", inverse, self.weights(self.shapes[x][last]))
        offset = self.binary("SUB", self.weights(self.shapes[x][last]), self.binary("MUL", middle, factor))
        return self.add(self.binary("MUL", x, factor), offset)

    def model(self, *outputs: int) -> Model:
        """The model and random inputs; an open batch is 2."""
        source = self.builder.finish(*outputs)
        shapes = [(2, *self.shapes[x][1:]) if self.dynamic else self.shapes[x] for x in self.fed]
        return Model(source, tuple(self.random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes))


class Quantized(Network):
    """A network of int8 or uint8 whose activations have one scale, :attr:`step`, and int8 weights below
    :attr:`largest`.
    """

    dtype = "int8"
    step = 1 / 32
    largest = 60

    @property
    def quant(self) -> Quant:
        """The parameters of all activations."""
        return Quant([float(np.float32(self.step))], [3 if self.dtype == "int8" else 131])

    def input(self, *shape: int) -> int:
        self.fed.append(self.builder.input(f"t{len(self.shapes)}", shape, self.dtype, quant=self.quant))
        self.shapes[self.fed[-1]] = shape
        return self.fed[-1]

    def weights(self, *shape: int) -> int:
        scale = np.float32(1 / 512) if len(shape) > 1 else np.float32(self.step) / 512
        data = self.random.integers(-self.largest, self.largest, shape)
        dtype = "int8" if len(shape) > 1 else "int32"
        index = self.builder.constant(f"t{len(self.shapes)}", data.astype(dtype), dtype, Quant([float(scale)], [0]))
        self.shapes[index] = shape
        return index

    def op(self, name: str, inputs: Sequence[int], shape: Sequence[int], **chosen: Any) -> int:
        quant = Quant([1 / 256], [-128]) if name == "SOFTMAX" else self.quant
        output = self.builder.tensor(f"t{len(self.shapes)}", shape, self.dtype, quant=quant)
        self.shapes[output] = tuple(shape)
        self.builder.operator(name, inputs, [output], chosen)
        return output

    def model(self, *outputs: int) -> Model:
        """The model and random inputs."""
        limits = np.iinfo(self.dtype)
        draw = partial(self.random.integers, limits.min, limits.max + 1)
        data = (draw(self.shapes[x]).astype(self.dtype) for x in self.fed)
        return Model(self.builder.finish(*outputs), tuple(data))


PLANES = Path(__file__).with_name("planes.json")
"""A target on which convolutions read and write planes alone: channels before height and width."""


def unet(net: Network, up: str = "BILINEAR", head: int = 1) -> int:
    """Images made smaller, then larger again beside what they were, and a convolution at the end."""
    x, skips = net.input(1, 16, 16, 3), []
    for channels in (4, 6):
        x = net.conv(x, channels, activation="RELU")
        skips.append(x)
        x = net.pool(x)
    x = net.conv(x, 8, activation="RELU")
    for skip in reversed(skips):
        x = net.upconv(x, 5) if up == "TRANSPOSE_CONV" else net.resize(x, up)
        x = net.conv(net.concat(3, skip, x), net.shapes[skip][3], activation="RELU")
    return net.unary("LOGISTIC", net.conv(x, 2, head))


def minimum(network: Network, *outputs: int) -> int:
    """The Transposes of the proven optimum where convolutions want planes. Where they take channels-last as well, as in
    ONNX Runtime, there are never more.
    """
    made = network.model(*outputs)
    planes = counted(made, PLANES)
    assert counted(made) <= planes
    return planes


def counted(made: Model, target: Path | None = None) -> int:
    """The Transposes of the proven optimum for a target, by default ONNX Runtime, which are those in the file; its
    results are compared with LiteRT's.
    """
    counts: list[int] = []

    def convert(source: bytes) -> onnx.ModelProto:
        conversion = layoutsolve.convert(source, objective="min-transpose", target=target)
        assert conversion.assignment.tiers[0].status == "optimal"
        assert conversion.bound == conversion.price.transposes
        audited(conversion.model, conversion.assignment, conversion.graph)
        counts.append(conversion.price.transposes)
        return conversion.model

    check(Case("NETWORK", "minimum", lambda: made, TOLERANCE), convert)
    return counts[0]
