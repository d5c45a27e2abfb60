"""Convolutions of blocks of space become dilated ones of the image, exactly where they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend import read
from layoutsolve.frontend.passes.dilations import recognise
from layoutsolve.ir.graph import Graph, product, symbol
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.verify import verify
from tests.builder import Quant
from tests.dynamic_networks import Dynamic
from tests.graphs import GraphBuilder, assert_same, feeds

Inner = Callable[[GraphBuilder, str], str]


def divided(b: GraphBuilder, x: str, sizes: Sequence[int]) -> str:
    """An image's blocks, in the batch."""
    batch, *space = b.shape(x)
    count = len(sizes)
    parts = [(dim // size, size) for dim, size in zip(space, sizes, strict=False)]  # type: ignore[operator]
    split = b.reshape(x, batch, *(dim for pair in parts for dim in pair), *space[count:])
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    moved = b.transpose(split, *inner, 0, *outer, *range(2 * count + 1, len(b.shape(split))))
    return b.reshape(moved, product((batch, *sizes)), *(dim for dim, _ in parts), *space[count:])


def joined(b: GraphBuilder, x: str, sizes: Sequence[int], batch: Any, turned: bool = False) -> str:
    """The image that blocks in the batch are of; ``turned`` takes those along two dimensions one for the other."""
    _, *space = b.shape(x)
    count = len(sizes)
    split = b.reshape(x, *sizes, batch, *space)
    order = range(count)[::-1] if turned else range(count)
    pairs = [axis for place, own in enumerate(order) for axis in (count + 1 + place, own)]
    moved = b.transpose(split, count, *pairs, *range(2 * count + 1, len(b.shape(split))))
    whole = [product((dim, size)) for dim, size in zip(space, sizes, strict=False)]
    return b.reshape(moved, batch, *whole, *space[count:])


def conv(
    b: GraphBuilder, x: str, kernel: Sequence[int], dilation: int = 1, pad: int = 0, group: int = 1, stride: int = 1
) -> str:
    """A convolution of an image ``[n, h, w, c]``."""
    n, *space, c = b.shape(x)
    sizes = [
        (dim + 2 * pad - dilation * (size - 1) - 1) // stride + 1  # type: ignore[operator]
        for dim, size in zip(space, kernel, strict=True)
    ]
    attributes = {"pads": (pad,) * 4, "dilations": (dilation,) * 2, "strides": (1, stride), "group": group}
    if stride > 1:
        sizes[0] = space[0] + 2 * pad - dilation * (kernel[0] - 1)  # type: ignore[operator]
    weights = b.weights(4, c // group, *kernel)  # type: ignore[operator]
    return b.channels_last("Conv", x, weights, b.weights(4), shape=(n, *sizes, 4), **attributes)


def swish(b: GraphBuilder, x: str) -> str:
    return b.op("Mul", x, b.op("Sigmoid", x, shape=b.shape(x)), shape=b.shape(x))


def plus(b: GraphBuilder, x: str, *ones: int) -> str:
    """A value and a constant, which has size 1 in the dimensions ``ones`` counted from behind."""
    rank = len(b.shape(x))
    shape = [1 if axis - rank in ones else int(str(dim)) for axis, dim in enumerate(b.shape(x))]
    return b.op("Add", b.weights(*shape), x, shape=b.shape(x))


def added(b: GraphBuilder, x: str, y: str) -> str:
    return b.op("Add", x, y, shape=b.shape(x))


FOUND: dict[str, Inner] = {
    "plain": lambda b, x: conv(b, x, (3, 3)),
    "padded": lambda b, x: conv(b, x, (3, 3), pad=2),
    "dilated": lambda b, x: conv(b, x, (3, 3), dilation=2, pad=1),
    "one line": lambda b, x: conv(b, x, (1, 3)),
    "depthwise": lambda b, x: conv(b, x, (3, 3), group=4, pad=1),
    "two": lambda b, x: conv(b, b.relu(conv(b, x, (3, 3), pad=1)), (3, 3)),
    "activation first": lambda b, x: conv(b, b.relu(x), (3, 3)),
    "diamond": lambda b, x: swish(b, conv(b, x, (3, 3))),
    "bias": lambda b, x: b.op("Add", b.weights(1, 1, 4), conv(b, x, (3, 3), pad=1), shape=b.shape(x)),
    "branches": lambda b, x: added(b, conv(b, x, (3, 3), pad=1), conv(b, x, (1, 1))),
}

MISSED: dict[str, Inner] = {
    "no convolution": lambda b, x: b.relu(x),
    "steps": lambda b, x: conv(b, x, (3, 3), stride=2),
    "along space": lambda b, x: b.op("Softmax", conv(b, x, (3, 3), pad=1), shape=b.shape(x), axis=2),
    "by block": lambda b, x: plus(b, conv(b, x, (3, 3)), -1, -2, -3),
    "by place": lambda b, x: plus(b, conv(b, x, (3, 3)), -1, -4),
    "turned": lambda b, x: conv(b, b.transpose(conv(b, x, (3, 4)), 0, 2, 1, 3), (1, 1)),
    "blocks for channels": lambda b, x: b.transpose(conv(b, b.transpose(x, 3, 1, 2, 0), (1, 1)), 3, 1, 2, 0),
    "height for channels": lambda b, x: b.transpose(conv(b, b.transpose(x, 0, 2, 3, 1), (1, 1)), 0, 3, 1, 2),
    "broadcast": lambda b, x: added(b, conv(b, x, (3, 3), pad=1), conv(b, x, (5, 6))),
}


def between(inner: Inner, sizes: Sequence[int], seed: int = 0, batch: Any = 2) -> Graph:
    """A graph of what is computed of the blocks of an image."""
    b = GraphBuilder(seed)
    x = b.relu(b.input(batch, 5 * sizes[0], 6 * (sizes[1] if len(sizes) > 1 else 1), 4))
    return b.graph(joined(b, inner(b, divided(b, x, sizes)), sizes, batch))


def same(graph: Graph, other: Graph) -> None:
    assert graph.outputs == other.outputs
    assert [graph.values[name].shape for name in graph.outputs] == [other.values[name].shape for name in other.outputs]
    data = feeds(graph)
    assert_same(graph, other, data, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 3), (3, 1)])
@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str, sizes: tuple[int, ...]) -> None:
    """No blocks are left, and what is written is of the shapes that are stated."""
    for batch in (1, 2, symbol("batch")):
        graph = between(FOUND[name], sizes, batch=batch)
        found = recognise(graph)
        assert not any(node.op == "Reshape" for node in found.nodes)
        assert max(len(value.shape) for value in found.values.values()) == 4
        same(graph, found)


@pytest.mark.parametrize("name", MISSED)
def test_what_is_left_alone(name: str) -> None:
    graph = between(MISSED[name], (2, 2), batch=1)
    assert recognise(graph) is graph


def test_steps_where_nothing_is_divided() -> None:
    graph = between(MISSED["steps"], (2,))
    found = recognise(graph)
    assert not any(node.op == "Reshape" for node in found.nodes)
    same(graph, found)


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("batch", [1, 3, symbol("batch")])
def test_lines(batch: Any, channels: int) -> None:
    """A convolution along one dimension is one of images that are one pixel high."""
    b = GraphBuilder()
    blocks = divided(b, b.input(batch, 12, 4), (3,))
    lines = b.reshape(blocks, product((3, batch)), 1, 4, 4)
    weights = b.weights(channels, 4, 1, 3)
    lines = b.channels_last("Conv", lines, weights, shape=(product((3, batch)), 1, 4, channels), pads=(0, 1, 0, 1))
    back = b.reshape(b.relu(lines), product((3, batch)), 4, channels)
    graph = b.graph(joined(b, back, (3,), batch))
    found = recognise(graph)
    assert [node.op for node in found.nodes] == ["Reshape", "Transpose", "Conv", "Transpose", "Relu", "Reshape"]
    assert found.nodes[2].attributes["dilations"] == (1, 3)
    same(graph, found)


def test_lines_that_are_cut_in_another_way() -> None:
    for shape in ((3, 1, 2, 8), (3, 2, 2, 4), (1, 3, 4, 4)):
        b = GraphBuilder()
        lines = b.reshape(divided(b, b.input(1, 12, 4), (3,)), *shape)
        lines = b.channels_last("Conv", lines, b.weights(shape[3], shape[3], 1, 1), shape=shape)
        graph = b.graph(joined(b, b.reshape(lines, 3, 4, 4), (3,), 1))
        assert recognise(graph) is graph


def test_blocks_that_are_joined_in_another_way() -> None:
    for sizes, others, batch, turned in (((2, 4), (4, 2), 1, False), ((2, 2), (2, 2), 1, True), ((4,), (2,), 2, False)):
        b = GraphBuilder()
        x = conv(b, divided(b, b.input(1, 8, 8, 4), sizes), (1, 1))
        graph = b.graph(joined(b, x, others, batch, turned))
        assert recognise(graph) is graph


@pytest.mark.parametrize("reader", ["output", "operator", "divided"])
def test_blocks_that_something_else_reads(reader: str) -> None:
    b = GraphBuilder()
    blocks = divided(b, b.input(1, 8, 8, 4), (2, 2))
    inner = conv(b, blocks, (3, 3))
    x = joined(b, b.relu(inner), (2, 2), 1)
    mean = b.constant([1, 2], "int64")
    more = {
        "output": lambda: inner,
        "operator": lambda: b.op("ReduceMean", inner, mean, shape=(4, 1, 1, 4)),
        "divided": lambda: joined(b, blocks, (2, 2), 1),
    }[reader]()
    graph = b.graph(x, more)
    assert recognise(graph) is graph


def test_blocks_of_one_pixel() -> None:
    """They are the image itself, and may stand between blocks that are larger."""
    graph = between(FOUND["padded"], (1, 1))
    assert recognise(graph) is graph
    b = GraphBuilder()
    inner = divided(b, divided(b, b.input(1, 10, 12, 4), (2, 2)), (1, 1))
    graph = b.graph(joined(b, joined(b, conv(b, inner, (3, 3)), (1, 1), 4), (2, 2), 1))
    same(graph, recognise(graph))


def test_one_after_the_other() -> None:
    """The image that one joins is divided again."""
    b = GraphBuilder()
    x = b.input(1, 12, 12, 4)
    for sizes in ((2, 2), (3, 3)):
        x = joined(b, conv(b, divided(b, x, sizes), (3, 3), pad=1), sizes, 1)
    graph = b.graph(x)
    found = recognise(graph)
    assert [node.op for node in found.nodes] == ["Transpose", "Conv", "Transpose"] * 2
    same(graph, found)


def exported(net: Dynamic, x: int, block: int, conv: Callable[[int], int], numbers: dict[str, Any], dtype: str) -> int:
    """A dilated convolution as TensorFlow exports it: padding and crops are computed from the image's own size."""
    pads, crops = [], []
    for axis in (1, 2):
        full = net.whole("ADD", net.size(x, axis, 4), net.number(2 * block))
        over = net.whole("FLOOR_MOD", full, net.number(block))
        extra = net.whole("FLOOR_MOD", net.whole("SUB", net.number(block), over), net.number(block))
        pads += [net.number(block), net.whole("ADD", net.number(block), extra)]
        crops += [net.number(0), extra]
    rows = [net.op("RESHAPE", [net.pack(*each), net.vector(2, 2)], 2, "int32") for each in (pads, crops)]

    def blocks(name: str, inputs: list[int], quant: Quant | None) -> int:
        result = net.builder.tensor(name.lower(), (1,) * 4, dtype, signature=(-1,) * 4, quant=quant)
        net.builder.operator(name, inputs, [result], {})
        return result

    inside = blocks("SPACE_TO_BATCH_ND", [x, net.vector(block, block), rows[0]], numbers.get("x"))
    return blocks("BATCH_TO_SPACE_ND", [conv(inside), net.vector(block, block), rows[1]], numbers.get("y"))


def model(dtype: str, block: int, depthwise: bool, activation: str) -> bytes:
    """Such a model of images of any number and size."""
    net = Dynamic(block)
    quantized = dtype != "float32"
    zero = 128 if dtype == "uint8" else 0
    quants = {"x": Quant([0.02], [zero + 3]), "y": Quant([0.05], [zero])} if quantized else {}
    x = net.builder.input("x", (1, 1, 1, 4), dtype, signature=(-1, -1, -1, 4), quant=quants.get("x"))
    kernel = net.random.normal(0, 0.4, (1, 3, 3, 4) if depthwise else (4, 3, 3, 4))
    stored = np.clip(np.round(kernel / 0.01), -127, 127) + zero
    data = (stored.astype(dtype), Quant([0.01], [zero])) if quantized else (kernel.astype(np.float32), None)
    weights = net.builder.constant("weights", data[0], quant=data[1])
    offsets = np.arange(4) * 100
    bias = net.builder.constant(
        "bias", offsets.astype(np.int32 if quantized else np.float32), quant=Quant([0.0002], [0]) if quantized else None
    )

    def conv(inside: int) -> int:
        result = net.builder.tensor("conv", (1,) * 4, dtype, signature=(-1,) * 4, quant=quants.get("y"))
        more = {"depth_multiplier": 1} if depthwise else {}
        options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": activation, **more}
        net.builder.operator(
            "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [inside, weights, bias], [result], options
        )
        return result

    return net.builder.finish(exported(net, x, block, conv, quants, dtype))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("block", "activation"), [(2, "NONE"), (3, "RELU"), (6, "RELU6")])
def test_what_tensorflow_exports(dtype: str, depthwise: bool, block: int, activation: str) -> None:
    """Padding and crops that are known at run time only stay outside; LiteRT gives the numbers."""
    source = model(dtype, block, depthwise, activation)
    (convolution,) = [node for node in read(source).nodes if node.op == "Conv"]
    assert convolution.attributes["dilations"] == (block, block)
    conversion = layoutsolve.convert(source)
    assert conversion.price.transposes == 2
    for shape in ((1, 7, 9, 4), (2, 6, 12, 4), (3, 1, 5, 4))[: 3 if dtype == "float32" else 1]:
        assert verify(source, conversion.model, Sampling(samples=4, shapes={"x": shape})).passed


def test_convolutions_along_a_line() -> None:
    """TensorFlow writes those of sequences as ones of images that are one pixel high."""
    net = Dynamic(0)
    x = net.input("x", -1, 12, 4)
    block, none = net.vector(3), net.builder.constant("none", np.zeros((1, 2), np.int32))
    blocks = net.op("SPACE_TO_BATCH_ND", [x, block, net.builder.constant("pads", np.array([[3, 3]], np.int32))], 3)
    image = net.op("EXPAND_DIMS", [blocks, net.number(1)], 4)
    bias = net.builder.constant("bias", np.ones(4, np.float32))
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": "RELU"}
    image = net.op("CONV_2D", [image, net.weights(4, 1, 3, 4), bias], 4, **options)
    lines = net.op("SQUEEZE", [image], 3, squeeze_dims=[1])
    source = net.builder.finish(net.op("BATCH_TO_SPACE_ND", [lines, block, none], 3))
    conversion = layoutsolve.convert(source)
    assert conversion.price.transposes == 1
    assert layoutsolve.verify(source, conversion).passed
    for count in (1, 3):
        assert verify(source, conversion.model, Sampling(samples=4, shapes={"x": (count, 12, 4)})).passed
