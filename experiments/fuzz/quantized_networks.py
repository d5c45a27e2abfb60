"""Random networks of bytes on other processors: of TensorFlow Lite, and of ONNX Runtime's quantizer in its three ways.

Convolutions, also depthwise, by groups and transposed, and dense layers, by weights with one scale or many and with
zero points, are converted in one of the ways that there are for bytes. They must give on a processor that qemu emulates
what they give on this one, beyond what ONNX Runtime's optimiser changes here.

    python -m experiments.fuzz.quantized_networks [--count 2200] [--first 0] [--processors Haswell SandyBridge]
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import layoutsolve
from experiments.compare.processors import differences
from tests.builder import Quant
from tests.networks import Network, Quantized

OPTIONS: Sequence[Mapping[str, Any]] = (
    {}, {"quant": "qoperator"}, {"quant": "qoperator", "contrib": True}, {"objective": "min-latency"},
)  # fmt: skip
"""How networks of bytes are converted."""

FORMATS = (QuantFormat.QDQ, QuantFormat.QOperator, None)
"""How ONNX Runtime quantizes: ahead, in two forms, or when a model runs."""

LAYERS = ("conv", "conv", "depthwise", "groups", "transposed", "dense")
"""What a network is drawn from."""

WIDE = 40
"""Inputs and results of a hybrid layer."""

INTEGERS = {"name": "integers", "extends": "ort-cpu", "dynamic": {"tensor": 1, "rows": 1}}
"""The default target, which computes hybrid layers of all sizes in integers."""


class Bytes(Quantized):
    """Each layer's weights have one scale, one for each result, or a zero point."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw, self.largest, self.dtype = draw, draw.choice([64, 100, 128]), draw.choice(["int8", "uint8"])
        self.scales = [1.0]

    def weights(self, *shape: int) -> int:
        if len(shape) == 1:
            return self._constant(shape, "int32", Quant([self.step * each for each in self.scales], [0] * shape[0]))
        axis = 3 if len(shape) == 4 and shape[0] == 1 else 0
        if self.dtype == "uint8":
            self.scales = [1 / 512]
            return self._constant(shape, "uint8", Quant(self.scales, [self.draw.choice([128, 100, 150])]))
        count = shape[axis] if self.draw.random() < 0.5 else 1
        self.scales = [self.draw.uniform(1, 4) / 1024 for _ in range(count)]
        zero = self.draw.choice([0, 0, -20, 30]) if count == 1 else 0
        return self._constant(shape, "int8", Quant(self.scales, [zero] * count, axis if count > 1 else 0))

    def _constant(self, shape: tuple[int, ...], dtype: str, quant: Quant) -> int:
        data = self.random.integers(-self.largest, self.largest, shape) + (128 if dtype == "uint8" else 0)
        index = self.builder.constant(f"t{len(self.shapes)}", data.astype(dtype), dtype, quant)
        self.shapes[index] = shape
        return index


class _Samples(CalibrationDataReader):
    """Inputs from which ranges are taken."""

    def __init__(self, model: onnx.ModelProto, seed: int) -> None:
        (port,) = model.graph.input
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        draw = np.random.default_rng(seed)
        self._left = [{port.name: draw.standard_normal(shape).astype(np.float32)} for _ in range(3)]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None


def network(seed: int, folder: Path) -> onnx.ModelProto:
    """A random network, converted: of bytes in TensorFlow Lite, hybrid there, or of floats that are then quantized."""
    draw = random.Random(seed)
    family = (_of_bytes, _quantized, _of_bytes, _quantized, _hybrid)[seed % 5]
    return family(draw, folder)


def _of_bytes(draw: random.Random, _: Path) -> onnx.ModelProto:
    return layoutsolve.convert(chain(Bytes(draw), draw), **draw.choice(OPTIONS)).model


def _hybrid(draw: random.Random, folder: Path) -> onnx.ModelProto:
    """Layers on floats by weights of bytes, which are multiplied as integers."""
    net = Network()
    x = net.input(draw.choice([1, 1, 3, 8]), WIDE)
    for _ in range(draw.randint(1, 2)):
        count = draw.choice([1, WIDE])
        quant = Quant([draw.uniform(1, 2) / 2048 for _ in range(count)], [0] * count)
        data = net.random.integers(-127, 128, (WIDE, WIDE)).astype(np.int8)
        weights = net.builder.constant(f"t{len(net.shapes)}", data, "int8", quant)
        net.shapes[weights] = data.shape
        inputs = [x, weights, *([net.weights(WIDE)] if draw.random() < 0.5 else [])]
        asymmetric = draw.random() < 0.5
        x = net.op("FULLY_CONNECTED", inputs, net.shapes[x], asymmetric_quantize_inputs=asymmetric)
    target = folder / "integers.json"
    target.write_text(json.dumps(INTEGERS))
    return layoutsolve.convert(net.model(x).source, target=target, dynamic="integer").model


def _quantized(draw: random.Random, folder: Path) -> onnx.ModelProto:
    plain = layoutsolve.convert(chain(Network(), draw), inputs="nchw", outputs="nchw").model
    made, kind = folder / "quantized.onnx", draw.choice(FORMATS)
    each, symmetric = draw.random() < 0.5, {"WeightSymmetric": draw.random() < 0.5}
    if kind is None:
        quantize_dynamic(plain, made, per_channel=each, weight_type=QuantType.QInt8, extra_options=symmetric)
    else:
        quantize_static(
            plain, made, _Samples(plain, draw.randrange(1000)), kind, per_channel=each,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, extra_options=symmetric,
        )  # fmt: skip
    return layoutsolve.convert(made).model


def chain(net: Network, draw: random.Random) -> bytes:
    """Random layers, one behind another."""
    size = draw.choice([6, 8, 9, 12])
    x = net.input(1, size, size, draw.choice([1, 3, 4, 8]))
    for _ in range(draw.randint(1, 4)):
        x = _layer(net, x, draw)
    return net.model(x).source


def _layer(net: Network, x: int, draw: random.Random) -> int:
    *_, size, channels = net.shapes[x]
    kind = draw.choice(LAYERS)
    count, side = draw.choice([4, 7, 8, 16, 17, 24, 33]), draw.choice([1, 3, 3, 5])
    if len(net.shapes[x]) == 2 or kind == "dense":
        features = int(np.prod(net.shapes[x]))
        return net.dense(net.reshape(x, 1, features), count)
    if kind == "depthwise" and channels > 1:
        return net.depthwise(x, side)
    if kind == "transposed" and size < 24:
        return net.upconv(x, count)
    groups = next((each for each in (4, 2) if kind == "groups" and channels % each == 0), 1)
    return net.conv(x, groups * count, side, groups=groups)


def main(given: Sequence[str] | None = None) -> None:
    """The command line; the exit code is 1 where a network differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2200, metavar="N", help="how many networks")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the seed of the first network")
    parser.add_argument("--processors", nargs="*", default=["Haswell", "SandyBridge"], metavar="NAME")
    options = parser.parse_args(given)
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as scratch, TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.count):
            onnx.save(network(seed, Path(scratch)), Path(folder) / f"{seed:05}.onnx")
        print(f"{options.count} networks are converted", flush=True)
        found = differences(Path(folder), options.processors)
    for processor, apart in found.items():
        print(f"{processor}: {len(apart)} of {options.count} differ")
        for name, each in sorted(apart.items()):
            print(f"  {name}: {each.distance:.2%} of the range")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
