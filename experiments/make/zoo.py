"""Writes a folder of small models, for experiments that take one: every conformance case, random networks, and networks
whose results nearly vanish or tie.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from layoutsolve.errors import VerifyError
from tests.conformance.families import every_case
from tests.networks import Network, Quantized
from tests.random_models import network


def zoo(networks: int, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of ``every``-th conformance case and of random networks; models without bytes are left out."""
    for number, case in enumerate(every_case()):
        if number % every == 0:
            try:
                source = case.make().source
            except VerifyError:  # this LiteRT does not run it
                continue
            yield f"{case.operator.replace(':', '_')}/{number:05}", source
    for seed in range(networks):
        yield f"network/{seed:05}", network(seed).source


def vanishing() -> Iterator[tuple[str, bytes]]:
    """Networks of floats and of bytes that give zeros, nearly zeros, what is left of large sums, and equal numbers."""
    for kind in (Network, Quantized):
        for name in ("difference", "rest", "below", "softmax", "argmax", "product"):
            net = kind()
            x = net.conv(net.input(1, 6, 6, 4), 8)
            if name == "product" and kind is Quantized:
                continue
            yield f"vanishing/{name}_{kind.__name__.lower()}", net.model(_vanishing(net, name, x)).source


def _vanishing(net: Network, name: str, x: int) -> int:
    shape = net.shapes[x]
    if name == "difference":
        return net.binary("SUB", x, x)
    if name == "product":
        return net.binary("MUL", net.binary("MUL", x, net.constant(np.full(1, 1e-20))), net.constant(np.full(1, 1e-15)))
    if name == "softmax":
        return net.unary("SOFTMAX", net.dense(net.add(x, x), 16))
    if name == "argmax":
        pooled = net.pool(net.unary("RELU", net.binary("SUB", x, x)))
        return net.integer("ARG_MAX", [pooled, net.constant(3, "int32")], net.shapes[pooled][:-1], output_type="int32")
    far = net.dense(x, 8) if name == "below" else x
    more = (
        net.binary("SUB", net.add(far, x), x) if name == "rest" else net.binary("MINIMUM", far, net.binary("SUB", x, x))
    )
    return net.op("RELU", [more], shape) if name == "below" else more


def write(folder: Path, networks: int, every: int = 1) -> int:
    """Write the models below a folder; returns how many there are."""
    count = 0
    for name, source in chain(zoo(networks, every), vanishing()):
        path = folder / f"{name}.tflite"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
        count += 1
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--networks", type=int, default=300, help="how many random networks (default: 300)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th conformance case (default: 1)")
    options = parser.parse_args(arguments)
    print(f"{options.folder}: {write(options.folder, options.networks, options.every)} models")


if __name__ == "__main__":
    main()
