"""Time of whole conversions over the size of a model: large networks of many kinds, of floats and of int8.

Each model is made, then converted and saved. A row has its operators, seconds of each stage by the clock, of all by
the processor, microseconds of these for an operator, and the process's peak of memory. Below each kind stands the
exponent of time over size, by least squares on logarithms.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Mapping

import layoutsolve
from experiments.measure.scale import exponent
from layoutsolve.io.files import scratch
from tests.networks import Network, Quantized

CHANNELS, SIDE = 8, 16


def mobile(net: Network, operators: int) -> list[int]:
    """Separable convolutions, one behind the other."""
    x = net.input(1, SIDE, SIDE, CHANNELS)
    for _ in range(operators // 2):
        x = net.conv(net.depthwise(x, activation="RELU6"), CHANNELS, 1, activation="RELU6")
    return [x]


def residual(net: Network, operators: int) -> list[int]:
    """Blocks of two convolutions with a sum around them, and a gate on every third one."""
    x = net.input(1, SIDE, SIDE, CHANNELS)
    for block in range(3 * operators // 13):
        y = net.conv(net.conv(x, CHANNELS, 3, activation="RELU"), CHANNELS, 3)
        if block % 3 == 0:
            gate = net.unary("LOGISTIC", net.conv(net.mean(y, 1, 2, keep=True), CHANNELS, 1))
            y = net.binary("MUL", y, gate)
        x = net.add(x, y)
    return [x]


def transformer(net: Network, operators: int) -> list[int]:
    """Encoder blocks of a transformer: attention by two heads, and two dense layers."""
    x = net.input(1, SIDE, CHANNELS)
    for _ in range(operators // 36):
        y = net.normalised(x)
        parts = (net.reshape(net.dense(y, CHANNELS), 1, SIDE, 2, CHANNELS // 2) for _ in range(3))
        query, key, value = (net.transpose(part, 0, 2, 1, 3) for part in parts)
        weights = net.unary("SOFTMAX", net.matmul(query, key, adj_y=True))
        seen = net.transpose(net.matmul(weights, value), 0, 2, 1, 3)
        x = net.add(x, net.dense(net.reshape(seen, 1, SIDE, CHANNELS), CHANNELS))
        y = net.dense(net.normalised(x), 2 * CHANNELS, activation="RELU")
        x = net.add(x, net.dense(y, CHANNELS))
    return [x]


def detector(net: Network, operators: int) -> list[int]:
    """Separable convolutions, of which every other one has a head; the boxes of all heads are joined."""
    x = net.input(1, SIDE, SIDE, CHANNELS)
    boxes = []
    for _ in range(operators // 6):
        for _ in range(2):
            x = net.conv(net.depthwise(x, activation="RELU6"), CHANNELS, 1, activation="RELU6")
        boxes.append(net.reshape(net.conv(x, CHANNELS, 3), 1, SIDE * SIDE * 2, CHANNELS // 2))
    return [x, net.concat(1, *boxes)]


def shuffled(net: Network, operators: int) -> list[int]:
    """Channels in two halves, of which one is convolved; both are joined and shuffled."""
    x = net.input(1, SIDE, SIDE, CHANNELS)
    for _ in range(operators // 8):
        kept, y = net.split(x, 2, 3)
        y = net.conv(net.depthwise(net.conv(y, CHANNELS // 2, 1)), CHANNELS // 2, 1)
        x = net.shuffle(net.concat(3, kept, y), 2)
    return [x]


FAMILIES: Mapping[str, tuple[Callable[[Network, int], list[int]], type[Network]]] = {
    "mobile": (mobile, Network),
    "mobile int8": (mobile, Quantized),
    "residual": (residual, Network),
    "residual int8": (residual, Quantized),
    "transformer": (transformer, Network),
    "detector": (detector, Network),
    "detector int8": (detector, Quantized),
    "shuffled": (shuffled, Network),
}


def measured(source: bytes, operators: int) -> tuple[str, float]:
    """A row of the table, and the seconds of a whole conversion."""
    start = time.process_time()
    with scratch() as folder:
        conversion = layoutsolve.convert(source)
        conversion.save(folder / "model.onnx")
    seconds = time.process_time() - start
    stages = " | ".join(f"{conversion.seconds[stage]:.2f}" for stage in ("read", "solve", "emit"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = f"{operators} | {stages} | {seconds:.2f} | {1e6 * seconds / operators:.0f} | {peak:.0f}"
    return row, seconds


def main() -> None:
    """Measure the sizes that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[1000, 3000, 10000])
    parser.add_argument("--only", choices=list(FAMILIES), action="append", help="only this kind")
    options = parser.parse_args()
    print("| kind | operators | read s | solve s | emit s | all s | µs/operator | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.only or FAMILIES:
        family, kind = FAMILIES[name]
        sizes, spent = [], []
        for size in options.sizes:
            net = kind()
            source = net.model(*family(net, size)).source
            operators = len(net.builder.subgraph.operators)
            row, seconds = measured(source, operators)
            print(f"| {name} | {row} |", flush=True)
            sizes.append(operators)
            spent.append(seconds)
        if len(sizes) > 1:
            print(f"{name}: exponent {exponent(sizes, spent):.2f}", flush=True)


if __name__ == "__main__":
    main()
