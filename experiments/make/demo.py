"""Writes a quantized MobileNet v1 (width 0.25, 128x128, int8 per channel) with seeded weights.

With ``--features`` it writes a small network of floats instead, whose depthwise convolution reads features
channels-last: its result has a Transpose, so that there is something to explain.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from tests.builder import Builder, Quant

BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
CLASSES = 100
RELU6 = Quant([6 / 255], [-128])
"""The range of every activation: what ReLU6 leaves, so that it needs no calibration."""


class Net:
    """The network in the making: ``tensor`` is the last activation, ``shape`` its shape."""

    def __init__(self) -> None:
        self.builder, self.random = Builder(), np.random.default_rng(0)
        self.shape = (1, 128, 128, 3)
        self.scale = 1 / 127.5
        self.tensor = self.builder.input("image", self.shape, "int8", quant=Quant([self.scale], [0]))
        self.image = self.tensor

    def constants(self, name: str, shape: tuple[int, ...], axis: int, fan_in: int) -> list[int]:
        """Weights of one scale per channel along ``axis``, and a bias."""
        weights = self.random.normal(0, np.sqrt(2 / fan_in), shape)
        others = tuple(index for index in range(len(shape)) if index != axis)
        scales = np.abs(weights).max(axis=others) / 127
        stored = np.rint(weights / np.expand_dims(scales, others)).astype(np.int8)
        channels = shape[axis]
        quant = Quant(scales.tolist(), [0] * channels, axis)
        bias = Quant((scales * self.scale).tolist(), [0] * channels)
        numbers = self.random.normal(0, 0.1, channels) / np.maximum(scales * self.scale, 1e-12)
        return [
            self.builder.constant(f"{name}/weights", stored, quant=quant),
            self.builder.constant(f"{name}/bias", np.rint(numbers).astype(np.int32), quant=bias),
        ]

    def conv(self, name: str, channels: int, kernel: int, stride: int, depthwise: bool = False) -> None:
        """A convolution with ReLU6."""
        _, height, width, before = self.shape
        shape = (1, kernel, kernel, before) if depthwise else (channels, kernel, kernel, before)
        fan_in = kernel * kernel * (1 if depthwise else before)
        constants = self.constants(name, shape, 3 if depthwise else 0, fan_in)
        self.shape = (1, -(-height // stride), -(-width // stride), channels)
        output = self.builder.tensor(f"{name}/relu6", self.shape, "int8", quant=RELU6)
        options = {"padding": "SAME", "stride_h": stride, "stride_w": stride, "fused_activation_function": "RELU6"}
        operator = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        more = {"depth_multiplier": 1} if depthwise else {}
        self.builder.operator(operator, [self.tensor, *constants], [output], {**options, **more})
        self.tensor, self.scale = output, RELU6.scale[0]

    def head(self) -> bytes:
        """Mean over space, a dense layer and softmax."""
        build, channels = self.builder, self.shape[3]
        mean = build.tensor("mean", (1, channels), "int8", quant=RELU6)
        build.operator(
            "MEAN", [self.tensor, build.constant("axes", np.array([1, 2], np.int32))], [mean], {"keep_dims": False}
        )
        constants = self.constants("logits", (CLASSES, channels), 0, channels)
        logits = build.tensor("logits", (1, CLASSES), "int8", quant=Quant([16 / 255], [0]))
        build.operator("FULLY_CONNECTED", [mean, *constants], [logits], {})
        scores = build.tensor("scores", (1, CLASSES), "int8", quant=Quant([1 / 256], [-128]))
        build.operator("SOFTMAX", [logits], [scores], {"beta": 1.0})
        build.signature({"image": self.image}, {"scores": scores})
        return build.finish(scores)


def mobilenet() -> bytes:
    """The bytes of the model, the same at every call."""
    net = Net()
    net.conv("stem", 8, 3, 2)
    for number, (channels, stride) in enumerate(BLOCKS):
        net.conv(f"block{number}/depthwise", net.shape[3], 3, stride, depthwise=True)
        net.conv(f"block{number}/pointwise", channels, 1, 1)
    return net.head()


def features() -> bytes:
    """The bytes of the small network: a depthwise convolution of features, and the mean of its results."""
    builder, random = Builder(), np.random.default_rng(0)
    read = builder.input("features", (1, 28, 28, 32))
    weights = builder.constant("weights", random.normal(0, 0.1, (1, 3, 3, 32)), "float32")
    bias = builder.constant("bias", random.normal(size=32), "float32")
    maps, scores = builder.tensor("maps", (1, 14, 14, 32)), builder.tensor("scores", (1, 32))
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "depth_multiplier": 1}
    builder.operator("DEPTHWISE_CONV_2D", [read, weights, bias], [maps], options)
    axes = builder.constant("axes", np.array([1, 2], np.int32))
    builder.operator("MEAN", [maps, axes], [scores], {"keep_dims": False})
    builder.signature({"features": read}, {"scores": scores})
    return builder.finish(scores)


def main() -> None:
    """Write the model to the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the .tflite file to write")
    parser.add_argument("--features", action="store_true", help="the small network, whose result has a Transpose")
    options = parser.parse_args()
    options.output.write_bytes(features() if options.features else mobilenet())


if __name__ == "__main__":
    main()
