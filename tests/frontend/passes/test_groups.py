"""Convolutions of bytes by small groups: several groups as one, and the same results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.passes import groups
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.frontend.passes.stored import assert_computes_the_same
from tests.graphs import GraphBuilder, feeds, run
from tests.networks import Quantized

OTHERS: Mapping[str, Mapping[str, int]] = {
    "": {}, "one": {"count": 1}, "narrow": {"read": 3}, "wide": {"read": 17}, "prime": {"count": 7, "read": 9},
    "floats": {"read": 12}, "lines": {}, "computed": {},
}  # fmt: skip
"""What keeps groups apart or not, and the sizes that do."""

ALONE = ("one", "narrow", "wide", "prime", "floats", "lines", "computed")


def grouped(seed: int, other: str = "") -> Graph:
    """A convolution by groups."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    count, read = int(random.choice([2, 3, 4, 6, 16])), int(random.choice([8, 9, 12, 16]))
    count, read = OTHERS[other].get("count", count), OTHERS[other].get("read", read)
    given, kernel = count * int(random.integers(1, 9)), (3,) if other == "lines" else (3, 2)
    dtype, kind = (str(random.choice(["int8", "uint8"])) for _ in range(2))
    read = read // 2 if kind == "int8" and not other else read
    ends = [Quant(np.array([scale], np.float32), np.array([random.integers(0, 100)], dtype)) for scale in (0.02, 0.05)]
    on_bytes = [{} if other == "floats" else {"dtype": dtype, "quant": end} for end in ends]
    size = given if random.random() < 0.7 else 1
    zero = random.integers(0, 9, size) if kind == "uint8" else np.zeros(size, int)
    by_result = Quant(random.uniform(0.01, 0.02, size).astype(np.float32), zero.astype(kind), 0 if size > 1 else None)
    shape = (given, read, *kernel)
    stored = b.input(*shape, dtype=kind, quant=by_result) if other == "computed" else ""
    stored = stored or b.constant(random.integers(0, 40, shape), kind, by_result)
    sides = (6,) if other == "lines" else (6, 5)
    made = tuple(side - width + 1 for side, width in zip(sides, kernel, strict=True))
    x = b.input(2, count * read, *sides, **on_bytes[0])  # type: ignore[arg-type]
    y = b.op("Conv", x, stored, shape=(2, given, *made), kernel_shape=kernel, group=count, **on_bytes[1])
    return b.graph(y)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", range(12))
def test_results_stay_what_they_are(seed: int, other: str) -> None:
    """Of bytes with a sign and without one, also where these are then stored in another way."""
    graph = grouped(seed, other)
    wider = groups.joined(graph, 32, Budget())
    (node,), (before,) = wider.nodes, graph.nodes
    read = wider.values[node.inputs[1]].shape[1]
    assert (wider is graph) == (node.attributes["group"] == before.attributes["group"])
    assert groups.joined(graph, 0, Budget()) is graph and (wider is graph or other not in ALONE)
    assert wider is graph or (isinstance(read, int) and read <= 32)
    assert_computes_the_same(graph, wider, seed)


@pytest.mark.parametrize("stored", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("seed", range(8))
def test_floats_in_whole_blocks(seed: int, stored: str) -> None:
    """As many groups as are a block of channels, if they give whole blocks too."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    read, count, written = (int(random.choice(each)) for each in ((1, 2, 4, 8, 12, 16), (3, 4, 8, 16), (1, 2, 4, 8)))
    given, zero = count * written, {"float32": 0, "int8": 0, "uint8": 100}[stored]
    steps = Quant(random.uniform(0.01, 0.02, given).astype(np.float32), np.full(given, zero, stored), 0)
    numbers = random.integers(zero - 40, zero + 40, (given, read, 3, 3))
    weights = b.constant(numbers.astype(stored), stored, None if stored == "float32" else steps)
    x = b.input(1, count * read, 7, 6)
    graph = b.graph(b.op("Conv", x, weights, shape=(1, given, 5, 4), kernel_shape=(3, 3), group=count))
    (node,) = groups.joined(graph, 32, Budget()).nodes
    together = 16 // read
    whole = 1 < read < 16 and 16 % read == 0 and count % together == 0 and written * together % 16 == 0
    assert node.attributes["group"] == (count // together if whole else count)
    data = feeds(graph, seed)
    (expected,) = run(graph, data)
    np.testing.assert_allclose(run(groups.joined(graph, 32, Budget()), data)[0], expected, rtol=1e-5, atol=1e-4)


def test_as_many_as_fit() -> None:
    """Divisors of their number alone."""
    b = GraphBuilder()
    quant = Quant(np.array([0.02], np.float32), np.array([3], np.uint8))
    found = []
    for count, read in ((12, 9), (6, 8), (8, 16), (7, 8), (4, 31), (16, 10), (16, 7)):
        x = b.input(1, count * read, 3, 3, dtype="uint8", quant=quant)
        kernel = b.constant(np.ones((count, read, 1, 1)), "uint8", quant)
        y = b.op("Conv", x, kernel, shape=(1, count, 3, 3), dtype="uint8", quant=quant, group=count)
        (node,) = groups.joined(replace(b.graph(y), nodes=(b.nodes[-1],)), 32, Budget()).nodes
        found.append(node.attributes["group"])
    assert found == [4, 2, 4, 7, 4, 8, 16]


@pytest.mark.parametrize(("target", "apart"), [("ort-cpu", False), ("openvino-cpu", True)])
def test_models_are_written_so(target: str, apart: bool) -> None:
    """For targets that ask for it: fewer groups, and the same numbers at all levels."""
    net = Quantized()
    made = net.model(net.conv(net.conv(net.input(1, 8, 8, 32), 32, groups=4), 16, 1))
    model = layoutsolve.convert(made.source, target=target).model
    counts = [each.i for node in model.graph.node for each in node.attribute if each.name == "group"]
    assert counts == ([4] if apart else [1])
    (name,) = (port.name for port in model.graph.input)
    plain = layoutsolve.convert(made.source, target="openvino-cpu").model
    (expected,) = OnnxRuntime(plain.SerializeToString(), level="none").run({name: made.inputs[0]})
    for level in LEVELS:
        (found,) = OnnxRuntime(model.SerializeToString(), level=level).run({name: made.inputs[0]})
        assert np.abs(found.astype(int) - expected).max() <= 1
