"""Convolutions of few channels that take neighbouring pixels as one: results stay what they are, and so do counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Dim, Graph, Quant, Size, symbol
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.audited import audited
from tests.graphs import GraphBuilder

TARGET, OBJECTIVE = "ort-cpu", "min-latency"


def quant(scale: float, zero: int) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero], np.uint8))


def image(
    random: np.random.Generator,
    channels: int,
    width: int,
    kernel: Sequence[int],
    stride: int,
    before: int,
    produced: int = 16,
    batch: Dim = 1,
    zero: int = 0,
    after: int | None = None,
) -> Graph:
    """A convolution of a channels-last image of bytes, and one of single pixels behind it. Lines are padded ``after``
    them as well, or have as many results as fit ``stride``.
    """
    b = GraphBuilder(int(random.integers(1000)))
    after = (width // stride - 1) * stride + kernel[1] - before - width if after is None else after
    columns = (before + width + after - kernel[1]) // stride + 1
    height = 5 + kernel[0]
    x = b.input(batch, height, width, channels, dtype="uint8", quant=quant(0.02, int(random.integers(256))))
    per_channel = bool(random.integers(2))
    scales = random.uniform(0.002, 0.004, produced if per_channel else 1).astype(np.float32)
    data = random.integers(-127, 128, (produced, channels, *kernel))
    weights = b.constant(data, "int8", Quant(scales, np.full(len(scales), zero, np.int8), 0 if per_channel else None))
    inputs = [b.transpose(x, 0, 3, 1, 2), weights]
    if random.integers(2):
        steps = Quant(scales * np.float32(0.02), np.zeros(len(scales), np.int32), 0 if per_channel else None)
        inputs.append(b.constant(random.integers(-2000, 2000, produced), "int32", steps))
    rows = (height - kernel[0]) // 2 + 1
    attributes = {"kernel_shape": tuple(kernel), "strides": (2, stride), "pads": (0, before, 0, after)}
    y = b.op(
        "Conv", *inputs, shape=(batch, produced, rows, columns), dtype="uint8", quant=quant(0.04, 120), **attributes
    )
    last = Quant(np.array([0.01], np.float32), np.zeros(1, np.int8))
    mixing = b.constant(random.integers(-127, 128, (16, produced, 1, 1)), "int8", last)
    shape = (batch, 16, rows, columns)
    z = b.op("Conv", y, mixing, shape=shape, dtype="uint8", quant=quant(0.3, 100), kernel_shape=(1, 1))
    return b.graph(b.transpose(z, 0, 2, 3, 1))


def family(seed: int) -> Graph:
    """One that may be written so, with a padding that windows may lie in alone."""
    random = np.random.default_rng(seed)
    stride, size = (int(random.choice(sizes)) for sizes in ((1, 2, 4), (1, 2, 3, 4, 5, 7)))
    size = max(size, stride)
    batch = symbol("batch") if seed % 3 == 0 else int(random.integers(1, 3))
    kernel, produced = (int(random.integers(1, 5)), size), int(random.integers(stride, 16))
    channels, width = int(random.choice((1, 2, 3, 4, 5, 6, 8, 20))), int(random.choice((16, 24, 29, 30, 33)))
    before, after = map(int, random.integers(0, size + 2, 2))
    return image(random, channels, width, kernel, stride, before, produced, batch, after=after)


@pytest.mark.members(14)
@pytest.mark.parametrize("seed", sorted({*range(22)} - {20}))  # of which the plain form takes less time
def test_results_stay_what_they_are(seed: int) -> None:
    """Byte for byte, at all levels; the file has what the price says."""
    graph = family(seed)
    found = assign(graph, target=shipped(TARGET), objective=OBJECTIVE)
    grouped, plain = apply(found), apply(assign(graph, target=shipped(TARGET)))
    assert Counter(node.op for node in grouped.nodes)["Transpose"] >= 3
    model = serialise(grouped)
    audited(model, found, graph)
    (name,) = graph.inputs
    shape = [2 if isinstance(dim, Size) else dim for dim in graph.values[name].shape]
    data = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    for level in LEVELS:
        first, second = (
            OnnxRuntime(each.SerializeToString(), threads=1, level=level).run({name: data})[0]
            for each in (model, serialise(plain))
        )
        np.testing.assert_array_equal(first, second)


def test_transposes_are_not_executed() -> None:
    """ONNX Runtime's kernels lie channels last: all that are in the file are undone by its own."""
    graph = image(np.random.default_rng(0), 3, 32, (3, 3), 2, 0)
    model = serialise(apply(assign(graph, target=shipped(TARGET), objective=OBJECTIVE)))
    operators = Counter(node.op_type for node in optimised(model.SerializeToString(), "all").graph.node)
    assert operators["QLinearConv"] == 2 and not operators["Transpose"]


@pytest.mark.parametrize(
    ("channels", "width", "kernel", "stride", "before", "produced", "zero"),
    [
        (4, 32, (3, 3), 2, 0, 16, 0),  # kernels read so many at once, and give so many results
        (3, 13, (3, 3), 2, 0, 16, 0),  # short lines that are no whole groups
        (3, 30, (3, 3), 3, 0, 16, 0),  # windows begin at other places in each group
        (1, 32, (3, 3), 4, 0, 2, 0),  # few results
        (3, 32, (3, 3), 2, 0, 16, 1),  # kernels want 0 as the zero of weights
    ],
)
def test_what_stays(
    channels: int, width: int, kernel: tuple[int, int], stride: int, before: int, produced: int, zero: int
) -> None:
    graph = image(np.random.default_rng(0), channels, width, kernel, stride, before, produced, zero=zero)
    assert assign(graph, target=shipped(TARGET), objective=OBJECTIVE).price.transposes < 3


@pytest.mark.parametrize(("target", "objective"), [(TARGET, "min-executed"), ("openvino-cpu", OBJECTIVE)])
def test_asked_for_by_its_target_where_time_counts(target: str, objective: str) -> None:
    graph = image(np.random.default_rng(0), 3, 32, (3, 3), 2, 0)
    assert assign(graph, target=shipped(target), objective=objective).price.transposes <= 1
