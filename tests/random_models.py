"""Random networks of TensorFlow Lite operators, as small as they can be and as mixed as real ones are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Part, Quant
from tests.conformance.cases import fitted

KINDS = ("float32", "float32", "dynamic", "half", "int8", "uint8", "mixed")
"""What a seed chooses from: 'half' has float16 weights, 'dynamic' an open batch, 'mixed' islands of 8-bit integers."""

LARGEST = 3000
"""The most elements that a tensor has."""

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a network: ``batch`` is the axis with the open batch, ``exact`` that only moves lead to it."""

    index: int
    shape: Shape
    dtype: str
    quant: Quant | None = None
    batch: int | None = None
    exact: bool = True

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def real(self) -> bool:
        """Whether it means real numbers."""
        return self.dtype == "float32" or self.quant is not None


class UnfitError(Exception):
    """A step finds no tensor that it can be applied to."""


Step = Callable[["Steps"], None]
STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    """Register a step; it is chosen ``weight`` times as often as others."""

    def register(function: Step) -> Step:
        STEPS.extend([function] * weight)
        return function

    return register


class Steps:
    """A subgraph in the making. Steps read tensors of ``live`` and add their results to it."""

    def __init__(self, part: Part, random: np.random.Generator, kind: str, builder: Builder, depth: int = 0) -> None:
        self.part, self.random, self.kind, self.builder, self.depth = part, random, kind, builder, depth
        self.live: list[Tensor] = []
        self.operators: list[str] = []

    # -- choosing --------------------------------------------------------------------------------------------------

    def one(self, *choices: Any) -> Any:
        """One of some things."""
        return choices[self.random.integers(len(choices))]

    def chance(self, share: float) -> bool:
        """True as often as ``share`` says."""
        return bool(self.random.random() < share)

    def number(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high`` inclusive."""
        return int(self.random.integers(low, high + 1))

    def pick(self, fits: Callable[[Tensor], bool] = lambda x: x.real) -> Tensor:
        """A live tensor that fits, most likely a recent one."""
        found = [x for x in self.live if fits(x)]
        if not found:
            raise UnfitError
        back = min(int(self.random.geometric(0.35)) - 1, len(found) - 1)
        return found[-1 - back]

    def axis(self, x: Tensor) -> int:
        """An axis that is not the open batch."""
        found = [axis for axis in range(x.rank) if axis != x.batch]
        if not found:
            raise UnfitError
        return int(self.one(*found))

    def signed(self, x: Tensor, axis: int) -> int:
        """An axis as it is or counted from the end."""
        return axis - x.rank if self.chance(0.3) else axis

    def some(self, x: Tensor) -> list[int]:
        """Some axes, at least one, that are not the open batch."""
        found = [axis for axis in range(x.rank) if axis != x.batch and self.chance(0.5)]
        return found or [self.axis(x)]

    # -- writing ---------------------------------------------------------------------------------------------------

    def name(self, prefix: str) -> str:
        """A name for the next tensor."""
        return f"{prefix}{len(self.part.subgraph.tensors)}"

    def constant(self, data: Any, dtype: str = "int32", quant: Quant | None = None) -> int:
        """A constant; sometimes one that the model computes of another one."""
        array = np.asarray(data, dtype)
        if dtype == "float32" and self.kind == "half" and array.size > 1:
            stored = self.part.constant(self.name("half"), array, "float16")
            wide = self.part.tensor(self.name("wide"), array.shape)
            self.part.operator("DEQUANTIZE", [stored], [wide], {})
            return wide
        if dtype == "float32" and array.ndim == 2 and self.chance(0.1):
            stored = self.part.constant(self.name("stored"), np.ascontiguousarray(array.T))
            turned = self.part.tensor(self.name("turned"), array.shape)
            self.part.operator("TRANSPOSE", [stored, self.constant([1, 0])], [turned], {})
            return turned
        return self.part.constant(self.name("c"), array, dtype, quant)

    def weights(self, *shape: int, fan: int = 1) -> int:
        """Real weights such that sums of ``fan`` products stay near 1."""
        return self.constant(self.random.normal(size=shape) / np.sqrt(fan), "float32")

    def output(
        self, shape: Sequence[int], dtype: str = "float32", quant: Quant | None = None, batch: int | None = None,
        exact: bool = False,
    ) -> Tensor:  # fmt: skip
        """A tensor to be written, in the model but not yet live."""
        if prod(shape) > LARGEST or len(shape) > 6 or 0 in shape:
            raise UnfitError
        signature = None if batch is None else [-1 if axis == batch else size for axis, size in enumerate(shape)]
        index = self.part.tensor(self.name("t"), tuple(shape), dtype, quant=quant, signature=signature)
        return Tensor(index, tuple(shape), dtype, quant, batch, exact)

    def write(self, name: str, inputs: Sequence[Tensor | int], outputs: Sequence[Tensor], **options: Any) -> None:
        """Write an operator; its outputs become live."""
        indices = [x.index if isinstance(x, Tensor) else x for x in inputs]
        self.part.operator(name, indices, [x.index for x in outputs], options)
        self.live += outputs
        self.operators.append(name)

    def like(self, x: Tensor, shape: Sequence[int] | None = None, batch: int | None = -1) -> Tensor:
        """An output that is stored as ``x`` is: what moves its elements gives."""
        kept = x.batch if batch == -1 else batch
        return self.output(x.shape if shape is None else shape, x.dtype, x.quant, kept, x.exact)

    def fresh(self, x: Tensor, shape: Sequence[int] | None = None, batch: int | None = -1) -> Tensor:
        """An output with parameters of its own where ``x`` is quantized: what computes gives."""
        kept = x.batch if batch == -1 else batch
        quant = x.quant and fitted(x.dtype, *self.one((-2, 2), (-4, 4), (0, 3)))
        return self.output(x.shape if shape is None else shape, x.dtype, quant, kept)

    def unit(self, x: Tensor, low: float, high: float) -> Tensor:
        """An output whose parameters LiteRT prescribes."""
        if x.quant is None:
            return self.output(x.shape, x.dtype, None, x.batch)
        symmetric = low < 0
        scale = 1 / 128 if symmetric else 1 / 256
        zero = {"int8": 0 if symmetric else -128, "uint8": 128 if symmetric else 0}[x.dtype]
        return self.output(x.shape, x.dtype, Quant([scale], [zero]), x.batch)

    def matched(self, x: Tensor, quant: Quant | None) -> Tensor:
        """``x`` with certain parameters: requantized where it has others."""
        if x.quant is None or quant is None or _alike(x.quant, quant):
            return x
        found = self.output(x.shape, x.dtype, quant, x.batch)
        self.write("QUANTIZE", [x], [found])
        return found

    def enough(self, least: int) -> None:
        """Write steps until there are so many operators."""
        failed = 0
        while len(self.operators) < least and failed < 200:
            lists = (
                self.part.subgraph.tensors, self.part.subgraph.operators, self.part.subgraph.inputs, self.live,
                self.operators, self.builder.model.subgraphs,
            )  # fmt: skip
            lengths = [len(each) for each in lists]
            try:
                self.one(*STEPS)(self)
            except UnfitError:
                failed += 1
                for each, length in zip(lists, lengths, strict=True):
                    del each[length:]


def _alike(left: Quant, right: Quant) -> bool:
    return list(left.scale) == list(right.scale) and list(left.zero_point) == list(right.zero_point)


def _image(x: Tensor) -> bool:
    return x.rank == 4 and x.real and x.batch in (None, 0)


# -- windows -------------------------------------------------------------------------------------------------------


def _window(steps: Steps, x: Tensor, kernel: Sequence[int], dilation: Sequence[int] = (1, 1)) -> tuple[Any, list[int]]:
    """Options, and the height and width that they lead to."""
    padding, strides = steps.one("SAME", "VALID", "SAME"), [steps.one(1, 1, 2), steps.one(1, 1, 2)]
    if max(dilation) > 1:
        strides = [1, 1]
    sizes = []
    for size, reach, factor, stride in zip(x.shape[1:3], kernel, dilation, strides, strict=True):
        lost = (reach - 1) * factor if padding == "VALID" else 0
        if size <= lost:
            raise UnfitError
        sizes.append(-(-(size - lost) // stride))
    options = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    return options, sizes


def _kernel(steps: Steps, x: Tensor, shape: Sequence[int], axis: int, fan: int, count: int) -> list[int]:
    """Weights and bias for a convolution or contraction of ``x``."""
    if x.quant is None:
        return [steps.weights(*shape, fan=fan), steps.weights(count)]
    if x.dtype == "uint8":
        quant = Quant([float(np.float32(2 / 255 / np.sqrt(fan)))], [steps.number(100, 150)])
        data = steps.random.integers(0, 256, shape)
    else:
        many = count if steps.chance(0.6) and axis >= 0 else 1
        scales = steps.random.uniform(0.5, 1, many) / 127 / np.sqrt(fan)
        quant = Quant([float(np.float32(scale)) for scale in scales], [0] * many, axis if many > 1 else 0)
        data = steps.random.integers(-127, 128, shape)
    scales = (np.float32(x.quant.scale[0]) * np.asarray(quant.scale, np.float32)).tolist()
    bias = np.rint(steps.random.uniform(-1, 1, count) / np.asarray(scales))
    kernel = steps.constant(data, x.dtype, quant)
    return [kernel, steps.constant(bias, "int32", Quant(scales, [0] * len(scales)))]


def _activation(steps: Steps) -> str:
    return str(steps.one("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1"))


@step(6)
def convolution(steps: Steps) -> None:
    x = steps.pick(_image)
    n, _, _, c = x.shape
    groups = steps.one(*(each for each in (1, 1, 1, 2, 3, c) if c % each == 0)) if x.quant is None else 1
    channels, kernel = groups * steps.number(1, 4), [steps.one(1, 3, 2), steps.one(1, 3, 1)]
    dilation = steps.one((1, 1), (1, 1), (2, 2), (1, 2))
    chosen, sizes = _window(steps, x, kernel, dilation)
    inputs = _kernel(steps, x, (channels, *kernel, c // groups), 0, prod(kernel) * c // groups, channels)
    chosen |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
    result = steps.fresh(x, (n, *sizes, channels))
    steps.write("CONV_2D", [x, *inputs], [result], **chosen, fused_activation_function=_activation(steps))


@step(4)
def depthwise(steps: Steps) -> None:
    x = steps.pick(_image)
    n, _, _, c = x.shape
    multiplier, kernel = steps.one(1, 1, 2), [steps.one(1, 3, 2), steps.one(3, 1)]
    dilation = steps.one((1, 1), (1, 1), (2, 2))
    chosen, sizes = _window(steps, x, kernel, dilation)
    chosen |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1], "depth_multiplier": multiplier}
    inputs = _kernel(steps, x, (1, *kernel, c * multiplier), 3, prod(kernel), c * multiplier)
    result = steps.fresh(x, (n, *sizes, c * multiplier))
    steps.write("DEPTHWISE_CONV_2D", [x, *inputs], [result], **chosen, fused_activation_function=_activation(steps))


@step()
def transposed(steps: Steps) -> None:
    x = steps.pick(lambda x: _image(x) and x.batch is None)
    n, h, w, c = x.shape
    channels, size, stride = steps.number(1, 3), steps.one(2, 3), steps.one(1, 2)
    padding = steps.one("SAME", "VALID")
    extra = max(size - stride, 0) if padding == "VALID" else 0
    shape = (n, h * stride + extra, w * stride + extra, channels)
    kernel, bias = _kernel(steps, x, (channels, size, size, c), 0, size * size * c, channels)
    inputs = [steps.constant(shape), kernel, x, *([bias] if steps.chance(0.8) else [])]
    result = steps.fresh(x, shape)
    steps.write("TRANSPOSE_CONV", inputs, [result], padding=padding, stride_h=stride, stride_w=stride)


@step()
def volume(steps: Steps) -> None:
    x = steps.pick(lambda x: x.rank == 5 and x.dtype == "float32" and x.batch in (None, 0))
    channels, kernel = steps.number(1, 3), [steps.one(1, 2), steps.one(1, 3), steps.one(1, 2)]
    result = steps.fresh(x, (*x.shape[:4], channels))
    inputs = [x, steps.weights(*kernel, x.shape[4], channels, fan=prod(kernel) * x.shape[4]), steps.weights(channels)]
    steps.write(
        "CONV_3D", inputs, [result], padding="SAME", stride_d=1, stride_h=1, stride_w=1, dilation_d_factor=1,
        dilation_h_factor=1, dilation_w_factor=1,
    )  # fmt: skip


@step(3)
def pool(steps: Steps) -> None:
    x = steps.pick(_image)
    size = [steps.number(1, 3), steps.number(1, 3)]
    chosen, sizes = _window(steps, x, size)
    kind = steps.one("MAX_POOL_2D", "AVERAGE_POOL_2D", *(["L2_POOL_2D"] if x.quant is None else []))
    if kind == "L2_POOL_2D":
        chosen["padding"], sizes = (
            "SAME",
            [-(-s // chosen[f"stride_{a}"]) for s, a in zip(x.shape[1:3], "hw", strict=True)],
        )
    result = replace(steps.like(x, (x.shape[0], *sizes, x.shape[3])), exact=False)
    steps.write(kind, [x], [result], **chosen, filter_height=size[0], filter_width=size[1],
                fused_activation_function=_activation(steps) if x.quant is None else "NONE")  # fmt: skip


@step(2)
def resize(steps: Steps) -> None:
    x = steps.pick(_image)
    sizes = [max(1, size * steps.one(1, 2, 3) // steps.one(1, 1, 2)) for size in x.shape[1:3]]
    kind = steps.one("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    corners, centres = steps.one((False, True), (False, False), (True, False))
    result = steps.like(x, (x.shape[0], *sizes, x.shape[3]))
    result = replace(result, exact=x.exact and kind != "RESIZE_BILINEAR")
    steps.write(kind, [x, steps.constant(sizes)], [result], align_corners=corners, half_pixel_centers=centres)


# -- elementwise ---------------------------------------------------------------------------------------------------


@step(5)
def unary(steps: Steps) -> None:
    x = steps.pick()
    if x.quant is not None:
        kind = steps.one("LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS", "ELU")
        if x.dtype == "uint8" and kind in ("ABS", "ELU"):
            raise UnfitError
    else:
        kind = steps.one(
            "LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS", "ELU", "GELU", "NEG", "SQUARE",
            "RELU_N1_TO_1", "SIN", "COS", "EXP",
        )  # fmt: skip
    result = {"LOGISTIC": lambda: steps.unit(x, 0, 1), "TANH": lambda: steps.unit(x, -1, 1)}.get(
        kind, lambda: steps.fresh(x)
    )()
    if kind == "EXP":
        small = steps.unit(x, -1, 1)
        steps.write("TANH", [x], [small])
        x = small
    steps.write(kind, [x], [result], **({"alpha": 0.2} if kind == "LEAKY_RELU" else {}))


@step(2)
def clamped_root(steps: Steps) -> None:
    x = steps.pick(lambda x: x.dtype == "float32")
    square, shifted, result = steps.fresh(x), steps.fresh(x), steps.fresh(x)
    steps.write("SQUARE", [x], [square])
    steps.write("ADD", [square, steps.constant(0.5, "float32")], [shifted])
    steps.write(steps.one("SQRT", "RSQRT", "LOG"), [shifted], [result])


def _operand(steps: Steps, x: Tensor) -> tuple[Tensor | int, Shape, int | None]:
    """Something that broadcasts with ``x``: a constant of any lower rank, or another tensor; the shape that results."""

    def fits(y: Tensor) -> bool:
        if y.dtype != x.dtype or not _aligned(x, y):
            return False
        try:
            return prod(np.broadcast_shapes(x.shape, y.shape)) <= LARGEST
        except ValueError:
            return False

    if steps.chance(0.6):
        y = steps.pick(fits)
        shape = np.broadcast_shapes(x.shape, y.shape)
        places = [len(shape) - each.rank + each.batch for each in (x, y) if each.batch is not None]
        return y, shape, places[0] if places else None
    rank = steps.number(0, x.rank)
    shape = tuple(1 if axis == x.batch or steps.chance(0.4) else x.shape[axis] for axis in range(x.rank - rank, x.rank))
    if x.batch is None and x.rank < 4 and steps.chance(0.05):
        shape = (2, *x.shape)
    if x.quant is not None:
        limits = np.iinfo(x.dtype)
        data = steps.random.integers(limits.min, limits.max + 1, shape)
        return steps.constant(data, x.dtype, fitted(x.dtype, -1, 1)), np.broadcast_shapes(x.shape, shape), x.batch
    return steps.weights(*shape), np.broadcast_shapes(x.shape, shape), x.batch


def _aligned(x: Tensor, y: Tensor) -> bool:
    """Whether open batches meet each other, or a dimension of size 1."""
    for one, other in ((x, y), (y, x)):
        if one.batch is None:
            continue
        place = other.rank - one.rank + one.batch
        if place < 0:
            continue
        if other.batch is not None and (other.batch != place or one.shape[one.batch] != other.shape[place]):
            return False
        if other.batch is None and other.shape[place] != 1:
            return False
    return True


@step(7)
def binary(steps: Steps) -> None:
    x = steps.pick()
    y, shape, batch = _operand(steps, x)
    kind = steps.one("ADD", "MUL", "SUB", "ADD", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
    if x.quant is not None and kind in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        kind = "ADD"
    first, second = (y, x) if steps.chance(0.4) else (x, y)
    result = steps.fresh(x, shape, batch)
    chosen = {"fused_activation_function": _activation(steps)} if kind in ("ADD", "MUL", "SUB") else {}
    steps.write(kind, [first, second], [result], **chosen)


@step(2)
def twice(steps: Steps) -> None:
    x = steps.pick()
    result = steps.fresh(x)
    steps.write(steps.one("ADD", "MUL"), [x, x], [result])


@step(2)
def choice(steps: Steps) -> None:
    """A comparison decides which of two tensors is taken."""
    x = steps.pick(lambda x: x.dtype == "float32" and x.exact)
    truth, result = steps.output(x.shape, "bool", None, x.batch), steps.like(x)
    level = (
        steps.constant(0.1, "float32")
        if steps.chance(0.5) or not x.rank
        else steps.weights(x.shape[-1] if x.batch != x.rank - 1 else 1)
    )
    steps.write(steps.one("GREATER", "LESS_EQUAL"), [x, level], [truth])
    if steps.chance(0.3):
        turned = steps.output(x.shape, "bool", None, x.batch)
        steps.write("LOGICAL_NOT", [truth], [turned])
        truth = turned
    if steps.chance(0.5):
        y: Tensor | int = steps.pick(lambda y: y.dtype == "float32" and y.shape == x.shape and y.batch == x.batch)
        exact = isinstance(y, Tensor) and y.exact
        steps.write(steps.one("SELECT", "SELECT_V2"), [truth, x, y], [replace(result, exact=exact)])
    else:
        steps.write("SELECT_V2", [truth, steps.constant(0.5, "float32"), x], [result])


@step(2)
def prelu(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 2 and x.batch in (None, 0))
    shape = tuple(size if axis == x.rank - 1 or steps.chance(0.5) else 1 for axis, size in enumerate(x.shape))[1:]
    result = steps.fresh(x)
    if x.quant is None:
        alpha = steps.weights(*shape)
    else:
        alpha = steps.constant(steps.random.integers(0, 100, shape), x.dtype, fitted(x.dtype, -1, 1))
    steps.write("PRELU", [x, alpha], [result])


# -- along axes ----------------------------------------------------------------------------------------------------


@step(2)
def softmax(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1 and x.batch != x.rank - 1)
    kind = steps.one("SOFTMAX", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
    if kind == "SOFTMAX":
        steps.write(kind, [x], [steps.unit(x, 0, 1)], beta=steps.one(1.0, 0.5))
    elif kind == "LOG_SOFTMAX" and x.quant is None:
        steps.write(kind, [x], [steps.fresh(x)])
    elif kind == "L2_NORMALIZATION":
        steps.write(kind, [x], [steps.unit(x, -1, 1)])


@step(4)
def reduction(steps: Steps) -> None:
    x = steps.pick()
    axes, keep = steps.some(x), steps.chance(0.6)
    if steps.chance(0.2) and x.rank == 4 and x.batch in (None, 0):
        axes = [1, 2]
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    batch = x.batch if x.batch is None or keep else x.batch - sum(axis < x.batch for axis in axes)
    kind = steps.one("MEAN", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    if kind == "REDUCE_PROD" and x.quant is not None:
        kind = "MEAN"
    result = steps.fresh(x, kept, batch)
    if kind in ("REDUCE_MAX", "REDUCE_MIN"):
        result = steps.like(x, kept, batch)
    numbers = [steps.signed(x, axis) for axis in axes]
    steps.random.shuffle(numbers)
    axis = steps.constant(numbers[0] if len(numbers) == 1 and steps.chance(0.3) else numbers)
    steps.write(kind, [x, axis], [result], keep_dims=keep)


@step()
def argument(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.exact and x.rank >= 1)
    axis = steps.axis(x)
    kept = [size for other, size in enumerate(x.shape) if other != axis]
    batch = x.batch if x.batch is None else x.batch - (axis < x.batch)
    dtype = steps.one("int32", "int64")
    result = steps.output(kept, dtype, None, batch)
    chosen = {"output_type": dtype}
    steps.write(steps.one("ARG_MAX", "ARG_MIN"), [x, steps.constant(steps.signed(x, axis))], [result], **chosen)


@step()
def best(steps: Steps) -> None:
    x = steps.pick(lambda x: x.dtype == "float32" and x.exact and x.rank >= 1 and x.batch != x.rank - 1)
    count = steps.number(1, x.shape[-1])
    shape = (*x.shape[:-1], count)
    results = [steps.like(x, shape), steps.output(shape, "int32", None, x.batch)]
    steps.write("TOPK_V2", [x, steps.constant(count)], results)


@step()
def running(steps: Steps) -> None:
    x = steps.pick(lambda x: x.dtype == "float32" and x.rank >= 1)
    result = steps.fresh(x)
    axis = steps.constant(steps.signed(x, steps.axis(x)))
    steps.write("CUMSUM", [x, axis], [result], exclusive=steps.chance(0.5), reverse=steps.chance(0.5))


@step()
def one_hot(steps: Steps) -> None:
    x = steps.pick(lambda x: x.dtype in ("int32", "int64") and x.rank <= 3)
    axis, depth = steps.number(-1, x.rank), steps.number(2, 4)
    place = x.rank if axis == -1 else axis
    shape = (*x.shape[:place], depth, *x.shape[place:])
    batch = x.batch if x.batch is None else x.batch + (place <= x.batch)
    result = steps.output(shape, "float32", None, batch, x.exact)
    values = [steps.constant(each, "float32") for each in (1.0, -0.5)]
    steps.write("ONE_HOT", [x, steps.constant(depth), *values], [result], axis=axis)


@step()
def cast(steps: Steps) -> None:
    x = steps.pick(lambda x: x.dtype in ("int32", "int64", "bool"))
    result = steps.output(x.shape, "float32", None, x.batch, x.exact)
    steps.write("CAST", [x], [result])


# -- moving --------------------------------------------------------------------------------------------------------


def _any(x: Tensor) -> bool:
    return x.real or x.dtype in ("int32", "int64")


@step(6)
def transpose(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and 2 <= x.rank <= 5)
    order = [int(axis) for axis in steps.random.permutation(x.rank)]
    if x.rank == 4 and steps.chance(0.5):
        order = steps.one([0, 3, 1, 2], [0, 2, 3, 1], [0, 2, 1, 3])
    batch = None if x.batch is None else order.index(x.batch)
    steps.write("TRANSPOSE", [x, steps.constant(order)], [steps.like(x, [x.shape[axis] for axis in order], batch)])


@step(6)
def reshape(steps: Steps) -> None:
    """Neighbouring dimensions are merged, then one is split."""
    x = steps.pick(lambda x: _any(x) and x.rank >= 1 and x.batch in (None, 0))
    shape = list(x.shape)
    least = 0 if x.batch is None else 1
    for _ in range(steps.number(0, 3)):
        if len(shape) > least + 1 and steps.chance(0.6):
            at = steps.number(least, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif len(shape) > least and len(shape) < 5:
            at = steps.number(least, len(shape) - 1)
            factors = [factor for factor in range(1, shape[at] + 1) if shape[at] % factor == 0]
            factor = steps.one(*factors)
            shape[at : at + 1] = [factor, shape[at] // factor]
    if x.batch is not None and len(shape) > 1 and steps.chance(0.25):
        shape[:2] = [shape[0] * shape[1]]
    stated = list(shape)
    if x.batch is not None:
        stated[0] = -1
    elif steps.chance(0.3):
        stated[steps.number(0, len(shape) - 1)] = -1
    steps.write("RESHAPE", [x, steps.constant(stated)], [steps.like(x, shape)], new_shape=stated)


@step()
def shuffle(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and 2 <= x.rank <= 4 and x.batch in (None, 0))
    *outer, c = x.shape
    groups = steps.one(*(each for each in range(1, c + 1) if c % each == 0))
    first = -1 if x.batch is not None else outer[0]
    wide = steps.like(x, (*outer, groups, c // groups))
    order = [*range(len(outer)), len(outer) + 1, len(outer)]
    steps.write("RESHAPE", [x, steps.constant([first, *wide.shape[1:]])], [wide])
    turned = steps.like(x, [wide.shape[axis] for axis in order])
    steps.write("TRANSPOSE", [wide, steps.constant(order)], [turned])
    steps.write("RESHAPE", [turned, steps.constant([first, *x.shape[1:]])], [steps.like(x)])


@step()
def pixel_shuffle(steps: Steps) -> None:
    x = steps.pick(lambda x: _image(x) and x.shape[3] % 4 == 0)
    n, h, w, c = x.shape
    first = -1 if x.batch is not None else n
    wide = steps.like(x, (n, h, w, 2, 2, c // 4))
    steps.write("RESHAPE", [x, steps.constant([first, *wide.shape[1:]])], [wide])
    order = steps.one([0, 1, 3, 2, 4, 5], [0, 1, 4, 2, 3, 5])
    turned = steps.like(x, [wide.shape[axis] for axis in order])
    steps.write("TRANSPOSE", [wide, steps.constant(order)], [turned])
    result = steps.like(x, (n, 2 * h, 2 * w, c // 4))
    steps.write("RESHAPE", [turned, steps.constant([first, *result.shape[1:]])], [result])


@step(2)
def squeeze(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and any(size == 1 and axis != x.batch for axis, size in enumerate(x.shape)))
    ones = [axis for axis, size in enumerate(x.shape) if size == 1 and axis != x.batch]
    gone = ones if steps.chance(0.3) and x.batch is None else [steps.one(*ones)]
    shape = [size for axis, size in enumerate(x.shape) if axis not in gone]
    batch = x.batch if x.batch is None else x.batch - sum(axis < x.batch for axis in gone)
    stated = [] if len(gone) == len(ones) and x.batch is None and steps.chance(0.5) else gone
    steps.write("SQUEEZE", [x], [steps.like(x, shape, batch)], squeeze_dims=[steps.signed(x, axis) for axis in stated])


@step(2)
def expand(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and x.rank <= 4)
    axis = steps.number(0, x.rank)
    batch = x.batch if x.batch is None else x.batch + (axis <= x.batch)
    result = steps.like(x, (*x.shape[:axis], 1, *x.shape[axis:]), batch)
    given = axis - x.rank - 1 if steps.chance(0.3) else axis
    steps.write("EXPAND_DIMS", [x, steps.constant(steps.one(given, [given]))], [result])


@step(2)
def pad(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and 1 <= x.rank <= 4)
    mirrored = steps.chance(0.3) and x.rank <= 4
    mode = steps.one("REFLECT", "SYMMETRIC")
    widths = [[0, 0] for _ in x.shape]
    for axis in steps.some(x):
        most = x.shape[axis] - (mode == "REFLECT") if mirrored else 3
        widths[axis] = [steps.number(0, min(most, 2)), steps.number(0, min(most, 2))]
    shape = [size + sum(width) for size, width in zip(x.shape, widths, strict=True)]
    result = steps.like(x, shape)
    dtype = steps.one("int32", "int32", "int64")
    if mirrored:
        steps.write("MIRROR_PAD", [x, steps.constant(widths, dtype)], [result], mode=mode)
    elif steps.chance(0.5) and x.quant is None:
        steps.write("PADV2", [x, steps.constant(widths, dtype), steps.constant(-1.5, "float32")], [result])
    else:
        steps.write("PAD", [x, steps.constant(widths, dtype)], [result])


@step(4)
def strided_slice(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and 1 <= x.rank <= 5)
    begin, end, stride, shape, masks = [], [], [], [], {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    batch = None
    for axis, size in enumerate(x.shape):
        low, high, by = 0, size, 1
        masked = axis == x.batch
        if masked:
            batch = len(shape)
        elif steps.chance(0.5):
            by = steps.one(1, 1, 2, -1, -2, 3)
            low, high = sorted([steps.number(0, size), steps.number(0, size)])
            if by < 0:
                low, high = high - 1, low - 1
        if masked or steps.chance(0.2):
            masks["begin_mask"] |= 1 << axis
            low = 0 if by > 0 else size - 1
        if masked or high < 0 or steps.chance(0.2):
            masks["end_mask"] |= 1 << axis
            high = size if by > 0 else -1
        if axis != x.batch and steps.chance(0.12):
            low, by = steps.number(0, size - 1), 1
            high = low + 1
            masks = {name: mask & ~(1 << axis) for name, mask in masks.items()}
            masks["shrink_axis_mask"] |= 1 << axis
        else:
            shape.append(len(range(low, high, by)))
        bounds = [low, high]
        if steps.chance(0.2) and 0 < low < size and 0 <= high < size:
            bounds = [low - size, high - size]
        if masks["begin_mask"] >> axis & 1:
            bounds[0] = steps.number(-size, size)
        if masks["end_mask"] >> axis & 1:
            bounds[1] = steps.number(-size, size)
        begin.append(bounds[0])
        end.append(bounds[1])
        stride.append(by)
    inputs = [steps.constant(numbers) for numbers in (begin, end, stride)]
    steps.write("STRIDED_SLICE", [x, *inputs], [steps.like(x, shape, batch)], **masks)


@step()
def new_axes(steps: Steps) -> None:
    """A STRIDED_SLICE that adds a dimension, perhaps with an ellipsis."""
    x = steps.pick(lambda x: x.real and 1 <= x.rank <= 3)
    front = steps.chance(0.5)
    batch = x.batch if x.batch is None else x.batch + front
    result = steps.like(x, (1, *x.shape) if front else (*x.shape, 1), batch)
    inputs = [steps.constant(numbers) for numbers in ([0, 0], [0, 0], [1, 1])]
    new, rest = (1, 2) if front else (2, 1)
    steps.write("STRIDED_SLICE", [x, *inputs], [result], new_axis_mask=new, ellipsis_mask=rest)


@step(2)
def plain_slice(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and 1 <= x.rank <= 5)
    begin, size, shape = [], [], []
    for axis, total in enumerate(x.shape):
        low, high = sorted([steps.number(0, total), steps.number(0, total)])
        if axis == x.batch or low == high or steps.chance(0.4):
            low, high = 0, total
        begin.append(low)
        size.append(-1 if high == total and (axis == x.batch or steps.chance(0.5)) else high - low)
        shape.append(high - low)
    steps.write("SLICE", [x, steps.constant(begin), steps.constant(size)], [steps.like(x, shape)])


@step(3)
def split(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1)
    axis = steps.axis(x)
    size = x.shape[axis]
    if steps.chance(0.6):
        count = steps.one(*(each for each in (1, 2, 3, 4) if size % each == 0))
        sizes = [size // count] * count
    else:
        cut = sorted(steps.number(0, size) for _ in range(steps.number(0, 2)))
        sizes = [after - before for before, after in zip([0, *cut], [*cut, size], strict=True)]
    results = [steps.like(x, [each if other == axis else s for other, s in enumerate(x.shape)]) for each in sizes]
    place = steps.constant(steps.signed(x, axis))
    if len(set(sizes)) == 1 and steps.chance(0.7):
        steps.write("SPLIT", [place, x], results, num_splits=len(sizes))
    else:
        given = list(sizes)
        if steps.chance(0.3):
            given[0] = -1
        steps.write("SPLIT_V", [x, steps.constant(given), place], results, num_splits=len(sizes))


@step(4)
def concatenation(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and x.rank >= 1)
    axis = steps.axis(x)

    def fits(y: Tensor) -> bool:
        same = (y.dtype, y.rank, y.batch) == (x.dtype, x.rank, x.batch)
        return same and all(y.shape[other] == size for other, size in enumerate(x.shape) if other != axis)

    parts: list[Tensor | int] = [x]
    total, exact = x.shape[axis], x.exact
    for _ in range(steps.number(1, 2)):
        y = steps.matched(steps.pick(fits), x.quant)
        parts.append(y)
        total, exact = total + y.shape[axis], exact and y.exact
    if x.dtype == "float32" and x.batch is None and steps.chance(0.2):
        shape = [2 if other == axis else size for other, size in enumerate(x.shape)]
        parts.insert(steps.number(0, len(parts)), steps.weights(*shape))
        total += 2
    steps.random.shuffle(parts)  # type: ignore[arg-type]
    shape = [total if other == axis else size for other, size in enumerate(x.shape)]
    result = replace(steps.like(x, shape), exact=exact)
    steps.write("CONCATENATION", parts, [result], axis=steps.signed(x, axis))


@step(2)
def pack(steps: Steps) -> None:
    x = steps.pick(lambda x: _any(x) and x.rank <= 4)
    parts = [x]
    for _ in range(steps.number(0, 2)):
        alike = lambda y: (y.dtype, y.shape, y.batch) == (x.dtype, x.shape, x.batch)  # noqa: E731
        parts.append(steps.matched(steps.pick(alike), x.quant))
    axis = steps.number(0, x.rank)
    batch = x.batch if x.batch is None else x.batch + (axis <= x.batch)
    result = steps.like(x, (*x.shape[:axis], len(parts), *x.shape[axis:]), batch)
    result = replace(result, exact=all(part.exact for part in parts))
    given = axis - x.rank - 1 if steps.chance(0.3) else axis
    steps.write("PACK", parts, [result], axis=given, values_count=len(parts))


@step(2)
def unpack(steps: Steps) -> None:
    x = steps.pick(lambda x: (x.real or x.dtype == "int32") and x.rank >= 1)
    axis = steps.axis(x)
    if x.shape[axis] > 4:
        raise UnfitError
    shape = [size for other, size in enumerate(x.shape) if other != axis]
    batch = x.batch if x.batch is None else x.batch - (axis < x.batch)
    results = [steps.like(x, shape, batch) for _ in range(x.shape[axis])]
    steps.write("UNPACK", [x], results, axis=steps.signed(x, axis), num=len(results))


@step(2)
def gather(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1)
    axis = steps.axis(x)
    indices = steps.one((), (2,), (3,), (2, 2))
    shape = (*x.shape[:axis], *indices, *x.shape[axis + 1 :])
    batch = x.batch if x.batch is None or x.batch < axis else x.batch + len(indices) - 1
    chosen = steps.constant(steps.random.integers(0, x.shape[axis], indices), steps.one("int32", "int64"))
    steps.write("GATHER", [x, chosen], [steps.like(x, shape, batch)], axis=steps.signed(x, axis))


@step()
def gather_nd(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1 and x.batch is None)
    depth, count = steps.number(1, x.rank), steps.number(1, 3)
    chosen = [[steps.number(0, x.shape[axis] - 1) for axis in range(depth)] for _ in range(count)]
    steps.write("GATHER_ND", [x, steps.constant(chosen)], [steps.like(x, (count, *x.shape[depth:]))])


@step(2)
def tile(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1)
    times = [1 if axis == x.batch else steps.one(1, 1, 2, 3) for axis in range(x.rank)]
    shape = [size * time for size, time in zip(x.shape, times, strict=True)]
    if x.batch is None and steps.chance(0.4):
        target = [steps.number(2, 3) if size == 1 and steps.chance(0.7) else size for size in x.shape]
        target = [2, *target] if steps.chance(0.3) and x.rank < 4 else target
        steps.write("BROADCAST_TO", [x, steps.constant(target)], [steps.like(x, target)])
    else:
        steps.write("TILE", [x, steps.constant(times)], [steps.like(x, shape)])


@step()
def reverse(steps: Steps) -> None:
    x = steps.pick(lambda x: x.real and x.rank >= 1)
    steps.write("REVERSE_V2", [x, steps.constant([steps.axis(x)])], [steps.like(x)])


@step(2)
def space(steps: Steps) -> None:
    x = steps.pick(_image)
    n, h, w, c = x.shape
    kind = steps.one("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
    if kind == "SPACE_TO_DEPTH" and h % 2 == w % 2 == 0:
        steps.write(kind, [x], [steps.like(x, (n, h // 2, w // 2, 4 * c))], block_size=2)
    elif kind == "DEPTH_TO_SPACE" and c % 4 == 0:
        steps.write(kind, [x], [steps.like(x, (n, 2 * h, 2 * w, c // 4))], block_size=2)
    elif kind == "SPACE_TO_BATCH_ND" and x.batch is None:
        pads = [[1, 1 + h % 2], [0, w % 2]]
        shape = (4 * n, (h + sum(pads[0])) // 2, (w + sum(pads[1])) // 2, c)
        steps.write(kind, [x, steps.constant([2, 2]), steps.constant(pads)], [steps.like(x, shape)])
    elif kind == "BATCH_TO_SPACE_ND" and x.batch is None and n % 4 == 0 and h > 1:
        crops = [[1, 0], [0, 1]]
        shape = (n // 4, 2 * h - 1, 2 * w - 1, c)
        steps.write(kind, [x, steps.constant([2, 2]), steps.constant(crops)], [steps.like(x, shape)])
    else:
        raise UnfitError


# -- contractions and blocks ---------------------------------------------------------------------------------------


@step(4)
def dense(steps: Steps) -> None:
    x = steps.pick(lambda x: x.rank >= 1 and x.real and x.batch != x.rank - 1)
    *outer, features = x.shape
    if x.batch not in (None, 0):
        raise UnfitError
    units, keep = steps.number(1, 5), steps.chance(0.6)
    inputs = _kernel(steps, x, (units, features), 0 if x.dtype == "int8" and steps.chance(0.5) else -1, features, units)
    result = steps.fresh(x, (*outer, units) if keep else (prod(outer), units))
    steps.write("FULLY_CONNECTED", [x, *inputs], [result], keep_num_dims=keep,
                fused_activation_function=_activation(steps))  # fmt: skip


@step(3)
def product(steps: Steps) -> None:
    """A matrix product of two tensors, each perhaps turned."""
    x = steps.pick(lambda x: x.dtype in ("float32", "int8") and 2 <= x.rank <= 4 and x.batch in (None, 0))
    if x.batch is not None and x.rank == 2:
        raise UnfitError

    def fits(y: Tensor) -> bool:
        return (
            (y.dtype, y.shape[:-2], y.batch) == (x.dtype, x.shape[:-2], x.batch)
            and y.rank >= 2
            and any(size in x.shape[-2:] for size in y.shape[-2:])
        )

    y = steps.pick(fits)
    shared = steps.one(*(size for size in x.shape[-2:] if size in y.shape[-2:]))
    left = steps.one(*(turn for turn in (False, True) if x.shape[-2 if turn else -1] == shared))
    right = steps.one(*(turn for turn in (False, True) if y.shape[-1 if turn else -2] == shared))
    shape = (*x.shape[:-2], x.shape[-1 if left else -2], y.shape[-2 if right else -1])
    steps.write("BATCH_MATMUL", [x, y], [steps.fresh(x, shape)], adj_x=left, adj_y=right)


@step()
def computed_weights(steps: Steps) -> None:
    """A fully connected layer or a convolution whose weights are activations."""
    x = steps.pick(lambda x: x.dtype == "float32" and x.rank >= 2 and x.batch in (None, 0))
    if x.rank == 4 and steps.chance(0.5):
        c, (h, w) = x.shape[3], x.shape[1:3]
        y = steps.pick(
            lambda y: (
                y.dtype == "float32" and y.rank == 4 and y.batch is None and y.shape[3] == c
                and y.shape[1] <= h and y.shape[2] <= w
            )
        )  # fmt: skip
        result = steps.fresh(x, (x.shape[0], h - y.shape[1] + 1, w - y.shape[2] + 1, y.shape[0]))
        chosen = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
        steps.write("CONV_2D", [x, y, steps.weights(y.shape[0])], [result], **chosen)
    else:
        features = x.shape[-1]
        y = steps.pick(lambda y: y.dtype == "float32" and y.rank == 2 and y.batch is None and y.shape[1] == features)
        result = steps.fresh(x, (*x.shape[:-1], y.shape[0]))
        steps.write("FULLY_CONNECTED", [x, y, steps.weights(y.shape[0])], [result], keep_num_dims=True)


@step(2)
def computed_shape(steps: Steps) -> None:
    """A RESHAPE as TensorFlow writes it for an open batch: SHAPE, STRIDED_SLICE, PACK."""
    x = steps.pick(lambda x: x.real and x.rank >= 3 and x.batch in (None, 0))
    n, *rest = x.shape
    shape = steps.one((n, prod(rest)), (n, rest[0], prod(rest[1:])), (n, *rest[::-1]), (n, 1, *rest))
    sizes, batch = steps.output((x.rank,), "int32"), steps.output((), "int32")
    steps.part.operator("SHAPE", [x.index], [sizes.index], {"out_type": "int32"})
    bounds = [steps.constant([each]) for each in (0, 1, 1)]
    steps.part.operator("STRIDED_SLICE", [sizes.index, *bounds], [batch.index], {"shrink_axis_mask": 1})
    parts = [batch.index, *(steps.constant(size) for size in shape[1:])]
    packed = steps.output((len(shape),), "int32")
    steps.part.operator("PACK", parts, [packed.index], {"values_count": len(shape)})
    steps.write("RESHAPE", [x, packed], [steps.like(x, shape)])


@step()
def attention(steps: Steps) -> None:
    x = steps.pick(lambda x: x.rank == 3 and x.dtype == "float32" and x.batch in (None, 0) and x.shape[2] % 2 == 0)
    n, t, c = x.shape
    first = -1 if x.batch is not None else n
    heads = []
    for _ in range(3):
        made = steps.fresh(x)
        steps.write("FULLY_CONNECTED", [x, steps.weights(c, c, fan=c), steps.weights(c)], [made], keep_num_dims=True)
        spread, turned = steps.fresh(x, (n, t, 2, c // 2)), steps.fresh(x, (n, 2, t, c // 2))
        steps.write("RESHAPE", [made, steps.constant([first, t, 2, c // 2])], [spread])
        steps.write("TRANSPOSE", [spread, steps.constant([0, 2, 1, 3])], [turned])
        heads.append(turned)
    scores, weights = steps.fresh(x, (n, 2, t, t)), steps.fresh(x, (n, 2, t, t))
    mixed, turned, result = heads[0], steps.fresh(x, (n, t, 2, c // 2)), steps.fresh(x)
    mixed = steps.fresh(x, mixed.shape)
    steps.write("BATCH_MATMUL", heads[:2], [scores], adj_y=True)
    steps.write("SOFTMAX", [scores], [weights], beta=1.0)
    steps.write("BATCH_MATMUL", [weights, heads[2]], [mixed])
    steps.write("TRANSPOSE", [mixed, steps.constant([0, 2, 1, 3])], [turned])
    steps.write("RESHAPE", [turned, steps.constant([first, t, c])], [result])


@step()
def excitation(steps: Steps) -> None:
    """Squeeze and excitation."""
    x = steps.pick(_image)
    n, _, _, c = x.shape
    keep = steps.chance(0.5)
    mean = steps.fresh(x, (n, 1, 1, c) if keep else (n, c))
    steps.write("MEAN", [x, steps.constant([1, 2])], [mean], keep_dims=keep)
    if keep:
        inner = steps.fresh(x, mean.shape)
        inputs = _kernel(steps, mean, (c, 1, 1, c), 0, c, c)
        steps.write("CONV_2D", [mean, *inputs], [inner], padding="SAME", stride_h=1, stride_w=1)
    else:
        flat = steps.fresh(x, mean.shape)
        steps.write("FULLY_CONNECTED", [mean, *_kernel(steps, mean, (c, c), -1, c, c)], [flat])
        inner = steps.like(flat, (n, 1, 1, c))
        steps.write("RESHAPE", [flat, steps.constant([-1 if x.batch is not None else n, 1, 1, c])], [inner])
    gate = steps.unit(inner, 0, 1)
    steps.write("LOGISTIC", [inner], [gate])
    steps.write("MUL", [x, gate], [steps.fresh(x)])


@step(2)
def normalised(steps: Steps) -> None:
    """A normalisation over the last axis, or over height and width, written out."""
    x = steps.pick(lambda x: x.dtype == "float32" and x.rank >= 2 and x.batch in (None, 0))
    axes = [1, 2] if x.rank == 4 and steps.chance(0.3) else [x.rank - 1]
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    middle, apart, spread, inverse = steps.fresh(x, shape), steps.fresh(x), steps.fresh(x, shape), steps.fresh(x, shape)
    raised, scaled = steps.fresh(x, shape), steps.fresh(x)
    steps.write("MEAN", [x, steps.constant(axes)], [middle], keep_dims=True)
    steps.write("SQUARED_DIFFERENCE", [x, middle], [apart])
    steps.write("MEAN", [apart, steps.constant(axes)], [spread], keep_dims=True)
    steps.write("ADD", [spread, steps.constant(0.1, "float32")], [raised])
    steps.write("RSQRT", [raised], [inverse])
    centred = steps.fresh(x)
    steps.write("SUB", [x, middle], [centred])
    steps.write("MUL", [centred, inverse], [scaled])
    steps.write("MUL", [scaled, steps.weights(x.shape[-1])], [steps.fresh(x)])


@step()
def recurrent(steps: Steps) -> None:
    x = steps.pick(lambda x: x.rank == 3 and x.dtype == "float32" and x.batch is None)
    if steps.depth:
        raise UnfitError
    major = steps.chance(0.3)
    (n, c) = (x.shape[1 if major else 0], x.shape[2])
    units = steps.number(1, 4)
    inputs: list[Tensor | int] = [x, *(steps.weights(units, c, fan=c) for _ in range(4))]
    inputs += [steps.weights(units, units, fan=units) for _ in range(4)] + [-1] * 3
    inputs += [steps.weights(units) for _ in range(4)] + [-1] * 2
    inputs += [steps.part.tensor(steps.name("state"), (n, units), variable=True) for _ in range(2)]
    result = steps.fresh(x, (*x.shape[:2], units))
    steps.write("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [result], time_major=major, fused_activation_function="TANH")


@step(2)
def island(steps: Steps) -> None:
    """From real numbers to integers or back."""
    if steps.kind != "mixed":
        raise UnfitError
    x = steps.pick()
    if x.quant is None:
        dtype = steps.one("int8", "int8", "uint8")
        result = steps.output(x.shape, dtype, fitted(dtype, -2, 2), x.batch)
        steps.write("QUANTIZE", [x], [result])
    else:
        steps.write("DEQUANTIZE", [x], [steps.output(x.shape, "float32", None, x.batch)])


# -- control flow --------------------------------------------------------------------------------------------------


def _body(steps: Steps, x: Tensor, counter: bool) -> int:
    """A subgraph that makes of ``x`` (after a counter, perhaps) one of its shape; the subgraph's number."""
    part = steps.builder.part()
    number = len(steps.builder.model.subgraphs) - 1
    inner = Steps(part, steps.random, "float32", steps.builder, steps.depth + 1)
    outputs = []
    if counter:
        turn = part.input("turn", (), "int32")
        following = part.tensor("following", (), "int32")
        part.operator("ADD", [turn, part.constant("one", np.int32(1))], [following], {})
        outputs.append(following)
    given = Tensor(part.input("given", x.shape), x.shape, "float32")
    inner.live.append(given)
    inner.enough(inner.number(1, 5))
    result = inner.pick(lambda y: y.dtype == "float32" and y.shape == x.shape)
    last = inner.fresh(result)
    inner.write("TANH", [result], [last])
    part.outputs(*outputs, last.index)
    return number


@step()
def branch(steps: Steps) -> None:
    if steps.depth or steps.kind == "dynamic":
        raise UnfitError
    x = steps.pick(lambda x: x.dtype == "float32" and x.rank >= 1)
    condition = steps.part.input(steps.name("condition"), (), "bool")
    bodies = {"then_subgraph_index": _body(steps, x, False), "else_subgraph_index": _body(steps, x, False)}
    steps.write("IF", [condition, x], [steps.fresh(x)], **bodies)


@step()
def loop(steps: Steps) -> None:
    if steps.depth or steps.kind == "dynamic":
        raise UnfitError
    x = steps.pick(lambda x: x.dtype == "float32" and x.rank >= 1)
    part = steps.builder.part()
    condition = len(steps.builder.model.subgraphs) - 1
    turn, _ = part.input("turn", (), "int32"), part.input("unused", x.shape)
    more = part.tensor("more", (), "bool")
    part.operator("LESS", [turn, part.constant("turns", np.int32(steps.number(1, 3)))], [more], {})
    part.outputs(more)
    body = _body(steps, x, True)
    last, result = steps.output((), "int32"), steps.fresh(x)
    steps.write("WHILE", [steps.constant(0), x], [last, result], cond_subgraph_index=condition,
                body_subgraph_index=body)  # fmt: skip


# -- whole models --------------------------------------------------------------------------------------------------

_SHAPES: Sequence[Shape] = ((4, 6, 4), (6, 6, 4), (5, 4, 3), (8, 4, 8), (4, 4, 1), (1, 6, 4))


@dataclass(eq=False)
class Network:
    """A random model: ``source``, and the random inputs for a batch where that is open."""

    seed: int
    kind: str
    steps: Steps
    inputs: tuple[Tensor, ...]
    outputs: tuple[int, ...]

    @property
    def source(self) -> bytes:
        """The bytes of the model."""
        return self.steps.builder.finish(*self.outputs)

    def feeds(self, batch: int = 1) -> list[Array]:
        """Random inputs by position."""
        random = np.random.default_rng([self.seed, batch])
        tensors = {x.index: x for x in self.inputs}
        found: list[Array] = []
        for index in self.steps.part.subgraph.inputs:
            x = tensors.get(index)
            if x is None:
                found.append(np.array(random.random() < 0.5))
                continue
            shape = tuple(batch * size if axis == x.batch else size for axis, size in enumerate(x.shape))
            if x.quant is None:
                found.append(random.uniform(-1, 1, shape).astype(np.float32))
            else:
                limits = np.iinfo(x.dtype)
                found.append(random.integers(limits.min, limits.max + 1, shape).astype(x.dtype))
        return found


def network(seed: int, kind: str | None = None) -> Network:
    """The network of a seed."""
    random = np.random.default_rng(seed)
    chosen = KINDS[int(random.integers(len(KINDS)))]
    kind = kind or chosen
    builder = Builder()
    steps = Steps(builder, random, kind, builder)
    batch = 1 if kind == "dynamic" else steps.one(1, 1, 2)
    inputs = [_input(steps, batch) for _ in range(steps.one(1, 1, 2, 3))]
    steps.live += inputs
    steps.enough(steps.number(2, 25))
    outputs = _outputs(steps)
    if steps.chance(0.3):
        names = {f"in_{index}": index for index in builder.subgraph.inputs}
        builder.signature(names, {f"out_{at}": index for at, index in enumerate(dict.fromkeys(outputs))})
    return Network(seed, kind, steps, tuple(inputs), tuple(outputs))


def _input(steps: Steps, batch: int) -> Tensor:
    shape = (batch, *steps.one(*_SHAPES))
    if steps.chance(0.25):
        shape = steps.one((batch, 6, 4), (batch, 8), (batch, 2, 4, 4, 3), (batch, 5, 1, 4))
    dtype = steps.kind if steps.kind in ("int8", "uint8") else "float32"
    quant = fitted(dtype, -1, 1) if dtype != "float32" else None
    open_axis = 0 if steps.kind == "dynamic" else None
    signature = (-1, *shape[1:]) if open_axis == 0 else None
    index = steps.part.input(steps.name("x"), shape, dtype, quant=quant, signature=signature)
    return Tensor(index, shape, dtype, quant, open_axis)


def _outputs(steps: Steps) -> list[int]:
    """What nothing reads, and sometimes something else: an inner tensor, an input, a constant, one output twice."""
    read = {index for operator in steps.part.subgraph.operators for index in operator.inputs}
    found = [x.index for x in steps.live if x.index not in read] or [steps.live[-1].index]
    if steps.chance(0.3):
        found.append(steps.pick(lambda x: True).index)
    if steps.chance(0.08):
        found.append(steps.part.constant("fixed", np.arange(6, dtype=np.float32).reshape(2, 3)))
    if steps.chance(0.05):
        found.append(found[0])
    return found
