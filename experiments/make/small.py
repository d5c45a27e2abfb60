"""Small networks that show forms which few models have: layers of convolutions or products, with what is rewritten
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np

from experiments.corpus import CorpusModel
from experiments.measure.dynamic import layer
from tests.networks import Network, Quantized
from tests.recurrent_loops import Network as Looped

LAYERS = 3


def swished(channels: int, side: int) -> bytes:
    """A hard swish in each layer, written out."""
    net = Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.conv(x, channels, 1)
        x = net.depthwise(net.op("MUL", [x, _gate(net, x)], net.shapes[x]))
    return net.model(x).source


def affine(channels: int, side: int) -> bytes:
    """One number that is multiplied by and one that is added, before and behind the activation of each layer."""
    net = Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        for make in (partial(net.conv, channels=channels, kernel=1), net.depthwise):
            x = _affine(net, make(x))
            x = _affine(net, net.op("HARD_SWISH", [x], net.shapes[x]))
    return net.model(x).source


def _affine(net: Network, x: int) -> int:
    for operator in ("MUL", "ADD"):
        x = net.op(operator, [x, net.constant(net.random.uniform(0.5, 1.5, 1))], net.shapes[x])
    return x


def dense(channels: int, side: int) -> bytes:
    """Layers that read all before them behind a normalisation that is written out."""
    net = Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        y = x
        for operator in ("SUB", "MUL", "MUL", "ADD"):
            y = net.op(operator, [y, net.constant(net.random.uniform(0.5, 1.5, net.shapes[x][-1]))], net.shapes[x])
        x = net.concat(3, x, net.conv(net.conv(net.unary("RELU", y), channels, 1, activation="RELU"), 16))
    return net.model(x).source


def gated(channels: int, side: int) -> bytes:
    """Channels that are weighed by hard sigmoids of their means, written out."""
    net = Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.depthwise(net.conv(x, channels, 1, activation="RELU"))
        weight = _gate(net, net.conv(net.mean(x, 1, 2, keep=True), channels, 1))
        x = net.op("MUL", [x, weight], net.shapes[x])
    return net.model(x).source


def _gate(net: Network, x: int) -> int:
    ramp = net.op("ADD", [x, net.constant([3.0])], net.shapes[x], fusedActivationFunction=3)
    return net.op("MUL", [ramp, net.constant([1 / 6])], net.shapes[x])


def sloped(channels: int, side: int) -> bytes:
    """A PRELU in each layer, with one slope for all channels, of numbers whose signs follow no pattern: ONNX Runtime's
    kernel branches on them.
    """
    net = Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.add(net.conv(x, channels, 1), net.constant(net.random.normal(size=net.shapes[x])))
        x = net.depthwise(net.op("PRELU", [x, net.constant(np.full((1, 1, 1), 0.25))], net.shapes[x]))
    return net.model(x).source


def leaking(channels: int, side: int) -> bytes:
    """Layers of bytes, with a LEAKY_RELU behind each."""
    net = Quantized()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.op("LEAKY_RELU", [net.conv(net.depthwise(x), channels, 1)], net.shapes[x], alpha=0.2)
    return net.model(x).source


def averaged(padding: str, channels: int, side: int) -> bytes:
    """Layers of bytes, with an average pool behind each."""
    net = Quantized()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.conv(net.pool(x, "AVERAGE", 3, 1, padding), channels, 1)
    return net.model(x).source


def grouped(kind: str, channels: int, side: int) -> bytes:
    """Layers of bytes or floats by groups of eight channels."""
    net = Quantized() if kind == "bytes" else Network()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.conv(net.conv(x, channels, groups=channels // 8), channels, 1)
    return net.model(x).source


def weighed(channels: int, side: int) -> bytes:
    """Layers of bytes whose channels are weighed by their means."""
    net = Quantized()
    x = net.input(1, side, side, channels)
    for _ in range(LAYERS):
        x = net.depthwise(net.conv(x, channels, 1))
        x = net.binary("MUL", x, net.conv(net.mean(x, 1, 2, keep=True), channels, 1))
    return net.model(x).source


def scored(channels: int, length: int) -> bytes:
    """Layers of bytes that weigh vectors by the softmax of their products."""
    net = Quantized()
    x = net.input(1, length, channels)
    for _ in range(LAYERS):
        x = net.matmul(net.unary("SOFTMAX", net.matmul(x, x, adj_y=True)), x)
    return net.model(x).source


def narrow(channels: int, side: int) -> bytes:
    """Few channels of bytes, between layers of single channels and of single pixels."""
    net = Quantized()
    x = net.conv(net.input(1, 2 * side, 2 * side, 3), channels, stride=2)
    for _ in range(LAYERS):
        x = net.conv(net.depthwise(x), channels, 1)
    return net.model(net.conv(x, 16, 1)).source


def sighted(channels: int, side: int) -> bytes:
    """A layer of bytes that reads an image of few channels."""
    net = Quantized()
    return net.model(net.conv(net.conv(net.input(1, side, side, channels), 32, stride=2), 16, 1)).source


def slender(channels: int, side: int) -> bytes:
    """Layers of bytes with few results."""
    net = Quantized()
    x = net.input(1, side, side, 16)
    for _ in range(LAYERS):
        x = net.conv(x, channels)
    return net.model(net.conv(x, 16, 1)).source


def enlarged(channels: int, side: int) -> bytes:
    """A transposed convolution of bytes between two others."""
    net = Quantized()
    x = net.conv(net.input(1, side, side, 16), channels, 1)
    return net.model(net.conv(net.upconv(x, channels // 2), 16, 1)).source


def photographed(channels: int, side: int) -> bytes:
    """A layer of bytes behind an image that comes channels-first."""
    net = Quantized()
    x = net.transpose(net.input(1, channels, side, side), 0, 2, 3, 1)
    return net.model(net.conv(net.conv(x, 32, stride=2), 16, 1)).source


def shuffled(channels: int, side: int) -> bytes:
    """Blocks of depth that are moved to space by views and a copy."""
    net = Network()
    x = net.input(1, side, side, channels)
    y = net.reshape(net.conv(x, 4 * channels), 1, side, side, 2, 2, channels)
    y = net.transpose(y, 0, 1, 3, 2, 4, 5)
    return net.model(net.conv(net.reshape(y, 1, 2 * side, 2 * side, channels), 8)).source


def looped(op: str, steps: int, units: int) -> bytes:
    """A recurrent network whose steps are the turns of a loop."""
    return Looped(op, 0, sizes=(1, steps, units, units)).model()[0]


def normalised(operator: str, channels: int, side: int) -> bytes:
    """An image whose channels are shifted or scaled before the first layer."""
    net = Network()
    x = net.input(1, side, side, channels)
    x = net.op(operator, [x, net.constant(net.random.uniform(1, 2, channels))], net.shapes[x])
    return net.model(net.conv(x, 16, stride=2)).source


PHOTOS = ((3, 224), (3, 96), (12, 56))
"""Channels, height and width of images that come from elsewhere."""

IMAGES = ((32, 56), (64, 28), (48, 14))
"""Channels, height and width."""

FAMILIES: Mapping[str, tuple[tuple[Callable[..., bytes], tuple[tuple[str | int, ...], ...]], ...]] = {
    **{
        f"{name} lines": ((normalised, tuple((name.upper(), *size) for size in PHOTOS)),)
        for name in ("Add", "Div", "Mul", "Sub")
    },
    "Add folded": ((affine, IMAGES),),
    "Mul folded": ((affine, IMAGES),),
    "Mul depthwise": ((affine, IMAGES),),
    "LeakyRelu sum": ((leaking, IMAGES),),
    "AveragePool depthwise": ((averaged, tuple(("VALID", *size) for size in IMAGES)),),
    "floats AveragePool": ((averaged, tuple(("SAME", *size) for size in IMAGES)),),
    "storage groups": ((grouped, tuple((kind, *size) for kind in ("bytes", "floats") for size in IMAGES)),),
    "floats Conv": ((sighted, ((1, 96), (3, 96), (3, 224))),),
    "floats Softmax": ((scored, ((64, 16), (64, 64), (32, 196))),),
    "ReduceMean pixels": ((weighed, ((32, 56), (96, 28), (24, 96))),),
    "floats pieces": ((weighed, ((8, 56), (16, 56), (24, 28))),),
    "PRelu limits": ((sloped, IMAGES),),
    "ort-cpu Conv": ((sighted, ((1, 96), (3, 96), (3, 97), (3, 224))), (slender, ((2, 48), (8, 48), (12, 31)))),
    "ort-cpu ConvTranspose": ((enlarged, ((32, 24), (64, 15), (256, 8))),),
    "storage narrow": ((narrow, ((2, 96), (4, 48), (6, 24))),),
    "storage pixel": ((photographed, ((1, 96), (3, 96), (3, 224))),),
    "dynamic": ((layer, ((1, 512, 512, True), (1, 1024, 1024, True), (64, 1024, 1024, False))),),
    "pass affine": ((dense, IMAGES),),
    "pass block_moves": ((shuffled, IMAGES),),
    "pass recurrent": (
        (looped, (("GRU", 32, 32), ("GRU", 100, 64), ("LSTM", 32, 64), ("LSTM", 100, 128), ("RNN", 50, 32))),
    ),
    "pass gates": ((swished, IMAGES), (gated, IMAGES)),
}
"""By form how its networks are made, and of which sizes."""


def networks(form: str, folder: Path) -> list[CorpusModel]:
    """The networks that show a form, in files below a folder."""
    found = []
    for make, sizes in FAMILIES.get(form, ()):
        for size, source in zip(sizes, starmap(make, sizes), strict=True):
            name = f"{make.__name__}-{'-'.join(map(str, size))}"
            path = folder / f"{name}.tflite"
            path.write_bytes(source)
            found.append(CorpusModel(f"small/{name}", path, {}))
    return found
