"""Solving time over the size of a network: layered random graphs with the operator mix of real ones.

Prints a row per size: operators, what presolve leaves, the price, the time and the process's peak of memory; then the
exponent of time over size, by least squares on logarithms. Seconds are the processor's: other processes do not count.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layoutsolve.base import gc_pause
from layoutsolve.ir.graph import Graph, Node, Shape, Value
from layoutsolve.solver import assign

MIX = (
    ("conv", 0.34),
    ("depthwise", 0.12),
    ("relu", 0.16),
    ("add", 0.12),
    ("concat", 0.05),
    ("shuffle", 0.03),
    ("gate", 0.05),
    ("softmax", 0.03),
    ("transpose", 0.04),
    ("head", 0.06),
)
"""Kinds of layers with their shares, after the histograms of detection, segmentation and classification networks."""


class Network:
    """A graph in the making: ``pool`` are the activations that later layers read."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.input = self.value((1, 16, 16, 8))
        self.pool = [self.input]
        self.outputs: list[str] = []

    def value(self, shape: Sequence[int], data: np.ndarray | None = None, dtype: str = "float32") -> str:
        name = f"t{len(self.values)}"
        self.values[name] = Value(name, dtype, tuple(shape), None, data)
        return name

    def shape(self, name: str) -> Shape:
        return self.values[name].shape

    def node(
        self, op: str, inputs: Sequence[str], shape: Sequence[int], pattern: bool = False, **attributes: object
    ) -> str:
        output = self.value(shape)
        self.nodes.append(Node(op, tuple(inputs), (output,), attributes, pattern=pattern))
        return output

    def weights(self, *shape: int) -> str:
        return self.value(shape, np.broadcast_to(np.float32(0.1), shape))

    def integers(self, *numbers: int) -> str:
        return self.value((len(numbers),), np.array(numbers, np.int64), "int64")

    def pick(self) -> str:
        """One of the last activations, as a layer of a real network reads what is near."""
        return self.pool[-1 - min(int(self.random.geometric(0.5)) - 1, len(self.pool) - 1, 5)]

    def conv(self, x: str, channels: int, kernel: int, group: int = 1) -> str:
        n, h, w, c = self.shape(x)
        inner = self.node("Transpose", [x], (n, c, h, w), True, perm=(0, 3, 1, 2))  # type: ignore[list-item]
        weights = self.weights(channels, int(str(c)) // group, kernel, kernel)
        pads = [kernel // 2] * 4
        inner = self.node("Conv", [inner, weights], (n, channels, h, w), group=group, pads=pads)  # type: ignore[list-item]
        return self.node("Transpose", [inner], (n, h, w, channels), True, perm=(0, 2, 3, 1))  # type: ignore[list-item]

    def layer(self, kind: str) -> None:
        """Add a layer that reads one or two of the last activations, all of shape [1,16,16,8]."""
        x = self.pick()
        n, h, w, c = (int(str(dim)) for dim in self.shape(x))
        if kind == "conv":
            y = self.conv(x, c, int(self.random.choice([1, 3])))
        elif kind == "depthwise":
            y = self.conv(x, c, 3, group=c)
        elif kind == "relu":
            y = self.node("Relu", [x], (n, h, w, c))
        elif kind == "add":
            y = self.node("Add", [x, self.pick()], (n, h, w, c))
        elif kind == "concat":
            joined = self.node("Concat", [x, self.pick()], (n, h, w, 2 * c), axis=3)
            y = self.conv(joined, c, 1)
        elif kind == "shuffle":
            y = self.node("Reshape", [x, self.integers(n, h, w, 2, c // 2)], (n, h, w, 2, c // 2))
            y = self.node("Transpose", [y], (n, h, w, c // 2, 2), perm=(0, 1, 2, 4, 3))
            y = self.node("Reshape", [y, self.integers(n, h, w, c)], (n, h, w, c))
        elif kind == "gate":
            mean = self.node("ReduceMean", [x, self.integers(1, 2)], (n, 1, 1, c), keepdims=1)
            gate = self.node("Sigmoid", [self.conv(mean, c, 1)], (n, 1, 1, c))
            y = self.node("Mul", [x, gate], (n, h, w, c))
        elif kind == "softmax":
            y = self.node("Softmax", [x], (n, h, w, c), axis=3)
        elif kind == "transpose":
            planes = self.node("Transpose", [x], (n, c, h, w), perm=(0, 3, 1, 2))
            planes = self.node("Relu", [planes], (n, c, h, w))
            y = self.node("Transpose", [planes], (n, h, w, c), perm=(0, 2, 3, 1))
        else:
            flat = self.node("Reshape", [self.conv(x, c, 3), self.integers(n, h * w, c)], (n, h * w, c))
            self.outputs.append(flat)
            return
        self.pool.append(y)

    def graph(self) -> Graph:
        outputs = (*self.outputs, self.pool[-1])
        return Graph("scale", self.values, tuple(self.nodes), (self.input,), tuple(dict.fromkeys(outputs)))


def network(operators: int, seed: int = 0) -> Graph:
    """A network of at least so many operators of the source model, Transposes of patterns not counted."""
    made = Network(seed)
    kinds, shares = zip(*MIX, strict=True)
    while _counted(made) < operators:
        for kind in made.random.choice(
            kinds, max(1, (operators - _counted(made)) // 2), p=np.array(shares) / sum(shares)
        ):
            made.layer(str(kind))
    return made.graph()


def _counted(made: Network) -> int:
    return sum(not node.pattern for node in made.nodes)


@dataclass(frozen=True)
class Measurement:
    """One size: operators of the source model, what was searched, the result, seconds, and the process's peak in MB."""

    operators: int
    components: int
    branched: int
    transposes: int
    bound: int
    status: str
    seconds: float
    megabytes: float


def measure(operators: int, seed: int, objective: str, limit: float | None) -> Measurement:
    """Make a network and solve it, with the collector paused as in any conversion."""
    graph = network(operators, seed)
    with gc_pause.paused():
        start = time.process_time()
        found = assign(graph, objective=objective, seconds=limit)
        seconds = time.process_time() - start
    count = sum(not node.pattern for node in graph.nodes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measurement(
        count, found.components, found.branched, found.price.transposes, found.bound, found.status, seconds, peak
    )


def exponent(operators: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log operators."""
    return float(np.polyfit(np.log(operators), np.log(seconds), 1)[0])


def main() -> None:
    """Measure the sizes that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[1000, 3000, 10000, 30000, 100000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--objective", default="min-transpose")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds; counted work is the limit by default")
    options = parser.parse_args()
    print("| operators | components | Booleans | Transposes | bound | status | seconds | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    measured = []
    for size in options.sizes:
        item = measure(size, options.seed, options.objective, options.time_limit)
        measured.append(item)
        print(
            f"| {item.operators} | {item.components} | {item.branched} | {item.transposes} | {item.bound} "
            f"| {item.status} | {item.seconds:.2f} | {item.megabytes:.0f} |",
            flush=True,
        )
    if len(measured) > 1:
        slope = exponent([item.operators for item in measured], [item.seconds for item in measured])
        print(f"exponent of time over size: {slope:.2f}")


if __name__ == "__main__":
    main()
