"""What selects weights on other processors, as an emulator has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.compare import processors
from layoutsolve.emit import QuantForm, serialise
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.storage_options import PLAIN
from layoutsolve.proto.weight_selection import selects
from tests.emit.test_qlinear import EVERY, OWN
from tests.emit.test_selecting import SELECTED
from tests.graphs import GraphBuilder


def orders() -> Iterator[Graph]:
    """Convolutions that lie channels-first add other pairs of weights than those that lie channels-last: one of either
    has one that is too large.
    """
    for across in (False, True):
        kernel = np.zeros((8, 2, 1, 2), np.int8)
        kernel[:, 0, 0, 0], kernel[:, int(not across), 0, int(across)] = 127, 127
        b = GraphBuilder()
        steps = [Quant(np.array([each], np.float32), np.array([0], np.uint8)) for each in (0.1, 1.0)]
        weights = b.constant(kernel, "int8", Quant(np.array([0.01], np.float32), np.array([0], np.int8)))
        x = b.input(1, 2, 1, 2, dtype="uint8", quant=steps[0])
        made = b.op("Conv", x, weights, shape=(1, 8, 1, 1), dtype="uint8", quant=steps[1], kernel_shape=(1, 2))
        yield b.graph(made)


def kinds() -> Iterator[Graph]:
    """Products of each kind by large weights: of one scale or many, with no zero point, one, or many."""
    products = {
        ("Conv", 1): (16, 8, 3, 3), ("Conv", 2): (16, 4, 3, 3), ("Conv", 8): (8, 1, 3, 3),
        ("ConvTranspose", 1): (8, 16, 3, 3), ("MatMul", 1): (8, 16), ("Gemm", 1): (8, 16),
    }  # fmt: skip
    for number, ((op, groups), size) in enumerate(products.items()):
        for spread in ("no zero", "a zero", "scales", "zeros"):
            b, random, axis = GraphBuilder(), np.random.default_rng(number), int(op not in ("Conv",))
            count = size[axis] if spread in ("scales", "zeros") else 1
            zero = {"a zero": np.full(1, -9), "zeros": np.arange(count) - 3}.get(spread, np.zeros(count))
            steps = Quant(
                random.uniform(0.001, 0.002, count).astype("f4"), zero.astype("i1"), axis if count > 1 else None
            )
            kernel = random.integers(90, 128, size) * random.choice([-1, 1], (size[0], *[1] * (len(size) - 1)))
            weights = b.constant(kernel.astype(np.int8), "int8", steps)
            given, made = [Quant(np.array([each], "f4"), np.array([3], "u1")) for each in (0.02, 0.2)]
            images = len(size) > 2
            x = b.input(1, 8, *[6, 6] * images, dtype="uint8", quant=given)
            result = (1, size[axis], *([4, 4] if op == "Conv" else [8, 8] if images else []))
            attributes = {"group": groups} if images else {}
            yield b.graph(b.op(op, x, weights, shape=result, dtype="uint8", quant=made, **attributes))


def averages() -> Iterator[Graph]:
    """Averages of windows, with ties, that are computed in floats."""
    for number, ((side, pad), channels) in enumerate(product(((3, 1), (2, 0), (5, 2), (4, 1)), (8, 24))):
        ratio, dtype = 1 + number // 2 % 2, ("uint8", "int8")[number // 4]
        step = np.random.default_rng(number).uniform(0.01, 0.1)
        steps = [Quant(np.array([each], np.float32), np.array([3], dtype)) for each in (step, ratio * step)]
        b, size = GraphBuilder(), 21 + 2 * pad - side
        x = b.input(1, channels, 20, 20, dtype=dtype, quant=steps[0])
        window = {"kernel_shape": (side, side), "pads": (pad,) * 4}
        made = b.op("AveragePool", x, shape=(1, channels, size, size), dtype=dtype, quant=steps[1], **window)
        yield b.graph(made)


def convolutions() -> Iterator[Graph]:
    """Convolutions of which the sums, most of them halves of steps, are added in floats."""
    ways = product(("Conv", "ConvTranspose"), ("uint8", "int8"), (False, True), (False, True))
    for number, (op, dtype, each, biased) in enumerate(ways):
        random, b = np.random.default_rng(number), GraphBuilder()
        given, groups = (32, 8) if op == "Conv" else (24, 1)
        step = Quant(np.array([0.05], np.float32), np.array([3], dtype))
        x = b.input(1, given, 16, 16, dtype=dtype, quant=step)
        scale = random.choice([0.01, 0.02, 0.04], 16 if each else 1).astype(np.float32)
        axis = int(op == "ConvTranspose") if each else None
        kernel = random.integers(-4, 5, (16, given // groups, 3, 3) if op == "Conv" else (given, 16, 3, 3))
        weights = [b.constant(kernel.astype(np.int8), "int8", Quant(scale, np.zeros(scale.size, np.int8), axis))]
        if biased:
            added = Quant(step.scale * scale, np.zeros(scale.size, np.int32), 0 if each else None)
            weights.append(b.constant(random.integers(-99, 99, 16).astype(np.int32), "int32", added))
        result = Quant(np.array([0.05 * 0.01 * 2 * 9], np.float32), np.array([1], dtype))
        size = 14 if op == "Conv" else 18
        made = b.op(op, x, *weights, shape=(1, 16, size, size), dtype=dtype, quant=result, group=groups)
        yield b.graph(made)


@pytest.mark.skipif(shutil.which(processors.EMULATOR) is None, reason="qemu-x86_64 is not installed")
@pytest.mark.parametrize(
    ("families", "processor"), [((orders, averages, kinds), "Haswell"), ((convolutions,), "SandyBridge")]
)
def test_other_processors(families: Sequence[Callable[[], Iterator[Graph]]], processor: str, tmp_path: Path) -> None:
    """What selects weights, and what is computed in floats of what is stored, gives the same on a processor without
    VNNI; else sums saturate, and kernels on floats add in another order, or round products before. What selects nothing
    is the same there without it.
    """
    ways = {"qdq": None, "qoperator": OWN, "contrib": EVERY}
    differ = set()
    for family in families:
        for (number, graph), (way, kernels) in product(enumerate(family()), ways.items()):
            if number % 3 != [*ways].index(way) if family is kinds else way != "qdq":
                continue
            for storage in (PLAIN, SELECTED):
                name = f"{family.__name__} {number} {way} {storage.weights}"
                model = serialise(graph, quant=QuantForm(kernels, storage=storage))
                (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
            if selects(model) or family in (averages, convolutions):
                differ.add(name.replace("selected", "source"))
    found = set(processors.differences(tmp_path, [processor])[processor])
    assert found <= differ, found - differ
    assert len(found) >= len(differ) / 2, differ - found
