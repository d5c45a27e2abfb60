"""Random networks of bytes on other processors: of TensorFlow Lite, and of ONNX Runtime's quantiser in its three ways.

Each is converted in one of the ways that there are for bytes, and must give on a processor that qemu emulates what it
gives on this one, beyond what ONNX Runtime's optimiser changes here.

    python -m experiments.fuzz.quantised_networks [--count 2200] [--first 0] [--processors Haswell SandyBridge]
"""

from __future__ import annotations

import argparse
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
from tests.networks import Network, Quantised

OPTIONS: Sequence[Mapping[str, Any]] = (
    {}, {"quant": "qoperator"}, {"quant": "qoperator", "contrib": True}, {"objective": "min-latency"},
)  # fmt: skip
"""How networks of TensorFlow Lite are converted."""

FORMATS = (QuantFormat.QDQ, QuantFormat.QOperator, None)
"""How ONNX Runtime quantises: ahead, in two forms, or when a model runs."""


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
    """A random chain of convolutions, converted: of bytes in TensorFlow Lite, or of floats that are then quantised."""
    draw = random.Random(seed)
    net = Network() if seed % 2 else Quantised()
    if isinstance(net, Quantised):
        net.largest = draw.choice([64, 100, 128])
    size = draw.choice([6, 8, 9, 12])
    x = net.input(1, size, size, draw.choice([1, 3, 4, 8]))
    for _ in range(draw.randint(1, 4)):
        x = net.conv(x, draw.choice([4, 7, 8, 16, 17, 24, 33]), draw.choice([1, 3, 3, 5]))
    source = net.model(x).source
    if not seed % 2:
        return layoutsolve.convert(source, **draw.choice(OPTIONS)).model
    plain, made = layoutsolve.convert(source, inputs="nchw", outputs="nchw").model, folder / "quantised.onnx"
    kind, signed = draw.choice(FORMATS), QuantType.QInt8
    if kind is None:
        quantize_dynamic(plain, made, weight_type=signed)
    else:
        quantize_static(plain, made, _Samples(plain, seed), kind, activation_type=QuantType.QUInt8, weight_type=signed,
                        per_channel=draw.random() < 0.5)  # fmt: skip
    return layoutsolve.convert(made).model


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
