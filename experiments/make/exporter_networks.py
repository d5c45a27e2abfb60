"""Random networks as exporters write them in ONNX: of families that lose time where a rewriting takes a fusion of ONNX
Runtime away, or adds a Transpose that was none.

Seeded, small, with random weights: convolutional networks with attention, decoders with RMSNorm or LayerNorm and a KV
cache, squeeze-and-excitation, ConvNeXt, windows, mixers, channel shuffles, heads of detectors, recurrent networks,
networks channels-last as TensorFlow's are, and 8-bit ones between QuantizeLinear and DequantizeLinear. The other
experiments measure the folder::

    python -m experiments.make.exporter_networks FOLDER [--seeds 8]
    python -m experiments.compare.onnx_models FOLDER --time --briefly
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Size = int | str


class Net:
    """A network that is written node by node; ``shape`` has the sizes of each value."""

    def __init__(self, seed: int) -> None:
        self.rng, self.choose = np.random.default_rng(seed), random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def name(self, text: str = "v") -> str:
        """A name that is not taken."""
        return f"{text}_{len(self.nodes)}_{len(self.constants)}"

    def input(self, name: str, shape: Sequence[Size], kind: int = TensorProto.FLOAT) -> str:
        """A graph input."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, kind: int = TensorProto.FLOAT) -> None:
        """A graph output, of sizes that are left to shape inference."""
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def constant(self, data: Any, text: str = "c") -> str:
        """An initializer."""
        name = self.name(text)
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def integers(self, *numbers: int) -> str:
        """An initializer of integers."""
        return self.constant(np.array(numbers, np.int64))

    def weights(self, *shape: int) -> str:
        """Random weights, by which values stay of their size."""
        fan = max(1, int(np.prod(shape[1:] if len(shape) > 2 else shape[:1])))
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32), "w")

    def number(self, value: float) -> str:
        """A number."""
        return self.constant(np.float32(value))

    def op(self, operator: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        """A node; the name of what it gives, or several."""
        names = [f"{self.name(operator)}_{each}" for each in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if count == 1 else names

    def reshape(self, x: str, *shape: int) -> str:
        """A Reshape to fixed sizes."""
        return str(self.op("Reshape", x, self.integers(*shape)))

    def transpose(self, x: str, *perm: int) -> str:
        """A Transpose."""
        return str(self.op("Transpose", x, perm=perm))

    def conv(self, x: str, given: int, made: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        """A convolution with its bias, as many pixels as before by its stride."""
        weights, pad = self.weights(made, given // groups, kernel, kernel), kernel // 2
        bias = self.constant(self.rng.standard_normal(made).astype(np.float32))
        options: dict[str, Any] = {"kernel_shape": [kernel] * 2, "pads": [pad] * 4, "strides": [stride] * 2}
        return str(self.op("Conv", x, weights, bias, group=groups, **options))

    def linear(self, x: str, given: int, made: int, *, bias: bool = True) -> str:
        """A product with weights, and what is added, in either order."""
        y = self.op("MatMul", x, self.weights(given, made))
        added = self.constant(self.rng.standard_normal(made).astype(np.float32))
        both = (added, y) if self.choose.random() < 0.7 else (y, added)
        return str(self.op("Add", *both) if bias else y)

    def activation(self, x: str) -> str:
        """One of those that exporters write as one or several operators."""
        kind = self.choose.choice(["Relu", "Sigmoid", "silu", "gelu", "Clip", "hardswish"])
        if kind == "silu":
            return str(self.op("Mul", x, self.op("Sigmoid", x)))
        if kind == "gelu":
            return self.gelu(x)
        if kind == "Clip":
            return str(self.op("Clip", x, self.number(0), self.number(6)))
        return str(self.op("HardSwish" if kind == "hardswish" else kind, x))

    def gelu(self, x: str) -> str:
        """GELU by Erf."""
        y = self.op("Add", self.op("Erf", self.op("Div", x, self.number(2**0.5))), self.number(1))
        return str(self.op("Mul", self.op("Mul", x, y), self.number(0.5)))

    def normal(self, x: str, width: int, axis: int = -1, style: str = "") -> str:
        """Layer normalisation, RMSNorm with a reciprocal or a quotient, or either written out."""
        style = style or self.choose.choice(["operator", "written", "rms", "rms quotient"])
        scale, axes = self.constant(self.rng.uniform(0.5, 1.5, width).astype(np.float32)), [axis]
        bias = self.constant(self.rng.standard_normal(width).astype(np.float32))
        if style == "operator":
            return str(self.op("LayerNormalization", x, scale, bias, axis=axis, epsilon=1e-5))
        mean = self.integers(*axes)
        if style == "written":
            x = self.op("Sub", x, self.op("ReduceMean", x, mean))
        square = self.op("Pow", x, self.number(2))
        deviation = self.op("Sqrt", self.op("Add", self.op("ReduceMean", square, mean), self.number(1e-5)))
        if style == "rms":
            y = self.op("Mul", x, self.op("Div", self.number(1), deviation))
        else:
            y = self.op("Div", x, deviation)
        y = self.op("Mul", y, scale) if style == "written" else self.op("Mul", scale, y)
        return str(self.op("Add", y, bias) if style == "written" else y)

    def model(self) -> onnx.ModelProto:
        """The model, its shapes inferred."""
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True)
        del inferred.graph.value_info[:]
        return inferred


def heads(net: Net, q: str, k: str, v: str, tokens: Size, width: int, count: int, cache: bool = False) -> str:
    """Attention by several heads of matrices (batch, tokens, width), as PyTorch's exporters write it."""
    each, rows = width // count, -1 if isinstance(tokens, str) else tokens
    turned = [net.transpose(net.reshape(x, 0, rows, count, each), 0, 2, 1, 3) for x in (q, v)]
    key = net.reshape(k, 0, rows, count, each)
    if cache:
        key = net.transpose(key, 0, 2, 1, 3)
        number = len(net.outputs)
        for slot, value in enumerate((key, turned[1])):
            past = net.input(f"past_{number + slot}", [1, count, "past", each])
            joined = net.op("Concat", past, value, axis=2)
            net.output(joined)
            turned[1], key = (joined, key) if slot else (turned[1], joined)
        key = net.transpose(key, 0, 1, 3, 2)
    elif net.choose.random() < 0.5:
        key = net.transpose(key, 0, 2, 3, 1)
    else:
        key = net.transpose(net.transpose(key, 0, 2, 1, 3), 0, 1, 3, 2)
    scale = each**-0.5
    kind = net.choose.choice(["div", "mul", "both"])
    if kind == "both":
        part = net.number(scale**0.5)
        scores = net.op("MatMul", net.op("Mul", turned[0], part), net.op("Mul", key, part))
    elif kind == "mul":
        scores = net.op("Mul", net.op("MatMul", turned[0], key), net.number(scale))
    else:
        scores = net.op("Div", net.op("MatMul", turned[0], key), net.number(1 / scale))
    found = net.op("MatMul", net.op("Softmax", scores, axis=-1), turned[1])
    return net.reshape(net.transpose(found, 0, 2, 1, 3), 0, rows, width)


def self_attention(net: Net, x: str, tokens: Size, width: int, cache: bool = False) -> str:
    """The projections, heads, and what is added."""
    count = net.choose.choice([2, 4])
    q, k, v = (net.linear(x, width, width, bias=not cache or net.choose.random() < 0.5) for _ in range(3))
    return net.linear(heads(net, q, k, v, tokens, width, count, cache), width, width)


def start(net: Net) -> tuple[str, int, int]:
    """An image and some convolutions; the value, its channels and its size."""
    size, width = net.choose.choice([16, 24, 32]), net.choose.choice([8, 16, 24, 32])
    x = net.activation(net.conv(net.input("image", [1, 3, size, size]), 3, width, stride=2))
    if net.choose.random() < 0.6:
        x = net.activation(net.conv(x, width, width))
    return x, width, size // 2


def classified(net: Net, x: str, width: int, style: str = "") -> None:
    """Means of all pixels and a product, as one of the exporters writes it."""
    style = style or net.choose.choice(["flatten", "mean", "reshape"])
    if style == "mean":
        x = net.op("ReduceMean", x, net.integers(2, 3), keepdims=0)
    else:
        x = net.op("GlobalAveragePool", x)
        x = net.op("Flatten", x, axis=1) if style == "flatten" else net.reshape(x, -1, width)
    net.output(net.op("Gemm", x, net.weights(10, width), net.weights(10), transB=1))


def attention_in_convolutions(net: Net) -> None:
    """Tokens of an image's pixels between convolutions; by heads, or of one head as in a non-local block."""
    x, width, size = start(net)
    if net.choose.random() < 0.4:
        half = width // 2
        q, k, v = (net.reshape(net.conv(x, width, half, 1), 1, half, size * size) for _ in range(3))
        scores = net.op("Softmax", net.op("MatMul", net.transpose(q, 0, 2, 1), k), axis=-1)
        y = net.op("MatMul", v, net.transpose(scores, 0, 2, 1))
        x = net.op("Add", x, net.conv(net.reshape(y, 1, half, size, size), half, width, 1))
    else:
        t = net.transpose(net.reshape(x, 1, width, size * size), 0, 2, 1)
        y = net.normal(t, width, style=net.choose.choice(["operator", "written"])) if net.choose.random() < 0.6 else t
        t = net.op("Add", t, self_attention(net, y, size * size, width))
        if net.choose.random() < 0.5:
            y = net.linear(net.activation(net.linear(t, width, 2 * width)), 2 * width, width)
            t = net.op("Add", t, y)
        x = net.reshape(net.transpose(t, 0, 2, 1), 1, width, size, size)
    if net.choose.random() < 0.6:
        x = net.activation(net.conv(x, width, width))
    classified(net, x, width)


def decoder(net: Net) -> None:
    """A decoder with a KV cache and open numbers of tokens, or an encoder of fixed ones."""
    width, cache = net.choose.choice([32, 64]), net.choose.random() < 0.6
    tokens: Size = "tokens" if cache or net.choose.random() < 0.5 else 24
    x = net.input("embedded", [1, tokens, width])
    style = net.choose.choice(["operator", "written", "rms", "rms quotient"])
    for _ in range(2):
        x = net.op("Add", x, self_attention(net, net.normal(x, width, style=style), tokens, width, cache))
        y = net.normal(x, width, style=style)
        if net.choose.random() < 0.5:
            gate, up = (net.linear(y, width, 2 * width, bias=False) for _ in range(2))
            y = net.op("Mul", net.op("Mul", gate, net.op("Sigmoid", gate)), up)
        else:
            y = net.gelu(net.linear(y, width, 2 * width))
        x = net.op("Add", x, net.linear(y, 2 * width, width))
    net.output(net.linear(net.normal(x, width, style=style), width, 50, bias=False))


def squeezed(net: Net) -> None:
    """Squeeze-and-excitation, by convolutions or by products."""
    x, width, _ = start(net)
    for _ in range(2):
        y = net.activation(net.conv(x, width, width, groups=width if net.choose.random() < 0.5 else 1))
        less = max(4, width // 4)
        pooled = net.op("GlobalAveragePool", y)
        if net.choose.random() < 0.5:
            pooled = net.op("ReduceMean", y, net.integers(2, 3), keepdims=1)
        if net.choose.random() < 0.5:
            s = net.conv(net.op("Relu", net.conv(pooled, width, less, 1)), less, width, 1)
        else:
            s = net.reshape(pooled, 1, width)
            s = net.reshape(net.linear(net.op("Relu", net.linear(s, width, less)), less, width), 1, width, 1, 1)
        y = net.op("Mul", y, net.op(net.choose.choice(["Sigmoid", "HardSigmoid"]), s))
        x = net.op("Add", x, net.conv(y, width, width, 1))
    classified(net, x, width)


def convnext(net: Net) -> None:
    """Blocks of a depthwise convolution and products channels-last."""
    x, width, _ = start(net)
    for _ in range(net.choose.choice([1, 2])):
        y = net.transpose(net.conv(x, width, width, 7, groups=width), 0, 2, 3, 1)
        y = net.normal(y, width, style=net.choose.choice(["operator", "written"]))
        y = net.linear(net.gelu(net.linear(y, width, 4 * width)), 4 * width, width)
        y = net.op("Mul", net.constant(net.rng.uniform(0.1, 1, width).astype(np.float32)), y)
        x = net.op("Add", x, net.transpose(y, 0, 3, 1, 2))
    classified(net, x, width)


def windows(net: Net) -> None:
    """Attention within windows of an image that lies channels-last."""
    size, width, side = net.choose.choice([8, 16]), net.choose.choice([16, 32]), 4
    x = net.conv(net.input("image", [1, 3, 2 * size, 2 * size]), 3, width, 2, 2)
    net.nodes[-1].attribute.remove(next(each for each in net.nodes[-1].attribute if each.name == "pads"))
    x, count = net.transpose(net.reshape(x, 1, width, size * size), 0, 2, 1), size // side
    for _ in range(net.choose.choice([1, 2])):
        y = net.reshape(net.normal(x, width, style="operator"), 1, count, side, count, side, width)
        y = net.reshape(net.transpose(y, 0, 1, 3, 2, 4, 5), -1, side * side, width)
        y = self_attention(net, y, side * side, width)
        y = net.transpose(net.reshape(y, 1, count, count, side, side, width), 0, 1, 3, 2, 4, 5)
        x = net.op("Add", x, net.reshape(y, 1, size * size, width))
        y = net.gelu(net.linear(net.normal(x, width, style="operator"), width, 2 * width))
        x = net.op("Add", x, net.linear(y, 2 * width, width))
    net.output(net.linear(net.op("ReduceMean", x, net.integers(1), keepdims=0), width, 10))


def mixer(net: Net) -> None:
    """Products over channels, then over pixels."""
    size, width = net.choose.choice([4, 8]), net.choose.choice([16, 32])
    pixels = size * size
    x = net.activation(net.conv(net.input("image", [1, 3, 2 * size, 2 * size]), 3, width, 3, 2))
    x = net.transpose(net.reshape(x, 1, width, pixels), 0, 2, 1)
    for _ in range(2):
        y = net.transpose(net.normal(x, width, style="operator"), 0, 2, 1)
        y = net.transpose(net.linear(net.gelu(net.linear(y, pixels, 2 * pixels)), 2 * pixels, pixels), 0, 2, 1)
        x = net.op("Add", x, y)
        y = net.linear(net.activation(net.linear(x, width, 2 * width)), 2 * width, width)
        x = net.op("Add", x, y)
    net.output(net.linear(net.op("ReduceMean", x, net.integers(1), keepdims=0), width, 10))


def shuffled(net: Net) -> None:
    """Channels in groups that are shuffled."""
    x, width, size = start(net)
    for _ in range(2):
        halves = net.op("Split", x, count=2, axis=1, num_outputs=2)
        y = net.conv(
            net.activation(net.conv(halves[1], width // 2, width // 2, 1)), width // 2, width // 2, groups=width // 2
        )
        x = net.op("Concat", halves[0], y, axis=1)
        x = net.transpose(net.reshape(x, 1, 2, width // 2, size, size), 0, 2, 1, 3, 4)
        x = net.reshape(x, 1, width, size, size)
    classified(net, x, width)


def detector(net: Net) -> None:
    """Heads whose boxes and scores are joined."""
    x, width, size = start(net)
    boxes, scores = [], []
    for scale in range(2):
        if scale:
            x, size = net.activation(net.conv(x, width, width, stride=2)), size // 2
        b, s = net.conv(x, width, 8), net.conv(x, width, 12)
        boxes.append(net.reshape(net.transpose(b, 0, 2, 3, 1), 1, size * size * 2, 4))
        scores.append(net.reshape(net.transpose(s, 0, 2, 3, 1), 1, size * size * 2, 6))
    net.output(net.op("Concat", *boxes, axis=1))
    net.output(net.op(*net.choose.choice([("Sigmoid",), ("Identity",)]), net.op("Concat", *scores, axis=1)))


def recurrent(net: Net) -> None:
    """Convolutions, then a recurrent network of columns."""
    x, width, size = start(net)
    given, hidden = width * size, 24
    x = net.reshape(net.transpose(x, 3, 0, 1, 2), size, 1, given)
    if net.choose.random() < 0.5:
        y = net.op("GRU", x, net.weights(1, 3 * hidden, given), net.weights(1, 3 * hidden, hidden), hidden_size=hidden)
    else:
        y = net.op("LSTM", x, net.weights(1, 4 * hidden, given), net.weights(1, 4 * hidden, hidden), hidden_size=hidden)
    y = net.op("Squeeze", y, net.integers(1))
    y = net.linear(net.transpose(y, 1, 0, 2), hidden, 20)
    net.output(net.op("LogSoftmax", y, axis=2) if net.choose.random() < 0.5 else y)


def channels_last(net: Net) -> None:
    """As tf2onnx writes networks: Transposes at the ends and around what is not moved through."""
    size, width = net.choose.choice([16, 24]), net.choose.choice([8, 16, 24])
    x = net.transpose(net.input("image", [1, size, size, 3]), 0, 3, 1, 2)
    x = net.activation(net.conv(x, 3, width))
    for _ in range(net.choose.choice([1, 2, 3])):
        kind = net.choose.choice(["Softmax", "ReduceMax", "ReduceMean", "Resize", "Concat", "Pad", "gate", "ArgMax"])
        if kind in ("Softmax", "LogSoftmax"):
            x = net.op(kind, x, axis=1)
        elif kind == "gate":
            most = net.op("ReduceMax", x, net.integers(1), keepdims=1)
            mean = net.op("ReduceMean", x, net.integers(1), keepdims=1)
            x = net.op("Mul", x, net.op("Sigmoid", net.conv(net.op("Concat", most, mean, axis=1), 2, 1, 7)))
        elif kind in ("ReduceMax", "ReduceMean"):
            pooled = net.op(kind, x, net.integers(2, 3), keepdims=1)
            x = net.op("Mul", x, net.op("Sigmoid", net.conv(pooled, width, width, 1)))
        elif kind == "Resize":
            x = net.op("Resize", x, "", net.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
            x = net.conv(x, width, width, stride=2)
        elif kind == "Concat":
            x = net.conv(net.op("Concat", x, net.activation(net.conv(x, width, width)), axis=1), 2 * width, width, 1)
        elif kind == "Pad":
            x = net.op("Pad", x, net.integers(0, 0, 1, 1, 0, 0, 0, 0))
            x = net.op("MaxPool", x, kernel_shape=[2, 2])
        else:
            best = net.op("ArgMax", net.transpose(x, 0, 2, 3, 1), axis=3, keepdims=0)
            net.output(best, TensorProto.INT64)
        if net.choose.random() < 0.5:
            y = net.transpose(x, 0, 2, 3, 1)
            y = net.op("Add", y, net.constant(net.rng.standard_normal(width).astype(np.float32)))
            x = net.transpose(net.activation(y), 0, 3, 1, 2)
        x = net.conv(x, width, width)
    x = net.transpose(x, 0, 2, 3, 1)
    net.output(net.op("Softmax", x, axis=-1) if net.choose.random() < 0.5 else x)


def quantized(net: Net) -> None:
    """8-bit convolutions between QuantizeLinear and DequantizeLinear, with squeeze-and-excitation or a product."""
    size, width = net.choose.choice([16, 32]), net.choose.choice([8, 16, 32])
    signed = net.choose.random() < 0.5

    def pair(x: str) -> str:
        clamped = net.nodes and net.nodes[-1].op_type in ("Relu", "Sigmoid")
        zero = net.constant(np.int8(-128 if clamped else 3) if signed else np.uint8(0 if clamped else 128))
        scale = net.number(net.rng.uniform(0.02, 0.05))
        return str(net.op("DequantizeLinear", net.op("QuantizeLinear", x, scale, zero), scale, zero))

    def weights(*shape: int, axis: int = 0) -> str:
        data = net.constant(net.rng.integers(-127, 128, shape).astype(np.int8))
        scale = net.constant(np.full(shape[axis], 0.3 / np.sqrt(np.prod(shape)), np.float32))
        return str(net.op("DequantizeLinear", data, scale, net.constant(np.zeros(shape[axis], np.int8)), axis=axis))

    def conv(x: str, given: int, made: int, kernel: int = 3, groups: int = 1) -> str:
        pad = [kernel // 2] * 4
        return str(net.op("Conv", x, weights(made, given // groups, kernel, kernel), pads=pad, group=groups))

    last = net.choose.random() < 0.5
    x = net.input("image", [1, size, size, 3] if last else [1, 3, size, size])
    x = pair(net.transpose(x, 0, 3, 1, 2) if last else x)
    x = pair(net.op("Relu", conv(x, 3, width)))
    for _ in range(net.choose.choice([1, 2])):
        y = pair(net.op("Relu", conv(x, width, width, 3, net.choose.choice([1, width]))))
        if net.choose.random() < 0.6:
            s = pair(net.op("GlobalAveragePool", y))
            if net.choose.random() < 0.5:
                s = pair(net.op("Relu", conv(s, width, 8, 1)))
                s = pair(net.op("Sigmoid", pair(conv(s, 8, width, 1))))
            else:
                s = net.op("MatMul", net.reshape(s, 1, width), weights(width, width, axis=1))
                s = pair(net.reshape(net.op("Sigmoid", pair(s)), 1, width, 1, 1))
            y = pair(net.op("Mul", y, s))
        x = pair(net.op("Add", x, pair(conv(y, width, width, 1))))
    if net.choose.random() < 0.5:
        x = net.reshape(pair(net.op("GlobalAveragePool", x)), 1, width)
        net.output(pair(net.op("MatMul", x, weights(width, 10, axis=1))))
    else:
        net.output(net.transpose(x, 0, 2, 3, 1) if last else x)


FAMILIES: tuple[Callable[[Net], None], ...] = (
    attention_in_convolutions, decoder, squeezed, convnext, windows, mixer, shuffled, detector, recurrent,
    channels_last, quantized,
)  # fmt: skip


def network(family: Callable[[Net], None], seed: int) -> onnx.ModelProto:
    """One network of a family."""
    net = Net(seed)
    family(net)
    return net.model()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the networks are written")
    parser.add_argument("--seeds", type=int, default=8, help="networks of each family (default: 8)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        for seed in range(options.seeds):
            onnx.save(network(family, seed), options.folder / f"{family.__name__}_{seed:02d}.onnx")


if __name__ == "__main__":
    main()
