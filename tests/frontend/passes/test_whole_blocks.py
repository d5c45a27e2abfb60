"""Images with whole blocks of channels between Pads and Slices: the same results, where convolutions gain by it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.passes.whole_blocks import cut
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Node, Quant
from layoutsolve.ir.storage_options import Storage
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.frontend.passes.test_widths import NEAR, SIDE, Images
from tests.graphs import assert_same, feeds
from tests.random_models import network as tflite
from tests.random_onnx import random_model

BLOCK = 16
WORTH = Storage(block=BLOCK, cuts=4)


def network(seed: int, stored: bool) -> Graph:
    """Convolutions of any channels, with what looks at channels here and there."""
    b = Images(seed, stored)
    random = np.random.default_rng(seed)
    count = int(random.choice([8, 12, 16, 20, 24, 40]))
    x = b.wide(b.input(1, SIDE, SIDE, int(random.choice([3, 12, 16])), dtype=DTYPES[stored], quant=b.quant()), count)
    known = [x]
    for _ in range(int(random.integers(2, 7))):
        x = known[-1 - int(random.integers(min(2, len(known))))]
        steps = (b.deep, b.pooled, b.raised, lambda y: b.wide(y, int(random.choice([8, 16, 20, 28]))))
        steps += (lambda y: b.grown(y, 4), lambda y: b.made("Relu", y), lambda y: joined(b, y, known))
        steps += (lambda y: spread(b, y, int(random.choice([8, 16, 20, 28]))),)
        known.append(steps[int(random.integers(len(steps)))](x))
    return b.graph(b.wide(known[-1], 5), *([known[-1]] if random.random() < 0.3 else []))


DTYPES = {False: "float32", True: "int8"}


def spread(b: Images, x: str, count: int) -> str:
    """A transposed convolution, of bytes with a step for each channel that it writes."""
    shape = (b.channels(x), count, 3, 3)
    if b.stored:
        scale = b.random.choice([0.01, 0.02], count).astype(np.float32)
        weights = b.constant(b.random.integers(-40, 40, shape), "int8", Quant(scale, np.zeros(count, np.int8), 1))
    else:
        weights = b.weights(*shape)
    return b.first(x, "ConvTranspose", count, weights, kernel_shape=(3, 3), pads=(1, 1, 1, 1))


def joined(b: Images, x: str, known: list[str]) -> str:
    """Channels behind those of another image."""
    if b.stored:
        return b.made("Concat", x, x, shape=(1, SIDE, SIDE, 2 * b.channels(x)), axis=3)
    other = known[0]
    return b.made("Concat", x, other, shape=(1, SIDE, SIDE, b.channels(x) + b.channels(other)), axis=3)


def flowing(seed: int, stored: bool) -> Graph:
    """Convolutions within branches and loops, around them, and in the body of a loop of what is around it."""
    b = Images(seed, stored)
    random = np.random.default_rng(seed)
    x = b.wide(b.input(1, SIDE, SIDE, 3, dtype=DTYPES[stored], quant=b.quant()), int(random.choice([12, 20, 24])))
    around = x

    def some(y: str) -> str:
        """As many channels as there were, in the same steps."""
        quant = b.values[y].quant
        steps = (lambda z: b.wide(z, b.channels(y)), b.deep, lambda z: b.wide(b.wide(z, 20), b.channels(y)))
        z = steps[int(random.integers(3))](y)
        if random.random() < 0.3:
            z = b.made("Concat", z, z, shape=(1, SIDE, SIDE, 2 * b.channels(z)), axis=3)
            z = b.wide(z, b.channels(y))
        b.values[z] = replace(b.values[z], quant=quant)
        return z

    for _ in range(int(random.integers(1, 4))):
        draw = int(random.integers(4))
        if draw == 0:
            condition = b.input(dtype="bool")
            x = b.branch(condition, lambda y=x: some(y), lambda y=x: some(some(y)))  # type: ignore[misc]
        elif draw == 1:
            (x,) = b.loop(2, lambda y: (some(y),), x)
        elif draw == 2:
            x, _ = b.loop(2, lambda y, z: (some(y), some(z)), x, x)
        else:
            x = some(x)
    last = b.wide(x, 40)
    return b.graph(b.wide(last, 5), *([b.wide(around, 20)] if random.random() < 0.5 else []), x)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_branches_and_loops(seed: int, stored: bool) -> None:
    graph = flowing(seed, stored)
    wider = cut(graph, WORTH, Budget())
    assert 4 * (in_blocks(wider) - in_blocks(graph)) >= cuts(wider) - cuts(graph)
    assert_same(graph, wider, feeds(graph, seed), *(() if stored else NEAR))


def test_much_is_changed_in_them() -> None:
    inside = 0
    for seed in range(40):
        graph = flowing(seed, stored=False)
        wider = cut(graph, WORTH, Budget())
        inside += any(node.region is not None and node.op in ("Pad", "Slice") for node in wider.nodes)
    assert inside > 10


def convolutions(graph: Graph) -> list[tuple[Node, tuple[int, int]]]:
    found = []
    for node in graph.nodes:
        if node.op in ("Conv", "ConvTranspose"):
            sizes = [graph.values[name].shape[1] for name in (node.inputs[0], node.outputs[0])]
            found.append((node, (int(str(sizes[0])), int(str(sizes[1])))))
    return found


def in_blocks(graph: Graph, *ops: str) -> int:
    """How many convolutions, or those of some operators, have a form in blocks."""
    found = 0
    for node, (read, written) in convolutions(graph):
        if node.op not in (ops or (node.op,)):
            continue
        few = read < BLOCK and node.op == "Conv" and node.attributes.get("group", 1) == 1
        found += not written % BLOCK and (few or not read % BLOCK)
    return found


def cuts(graph: Graph) -> int:
    return sum(node.op in ("Pad", "Slice") for node in graph.nodes)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_results_stay_what_they_are(seed: int, stored: bool) -> None:
    graph = network(seed, stored)
    wider = cut(graph, WORTH, Budget())
    assert [wider.values[name].shape for name in wider.outputs] == [graph.values[name].shape for name in graph.outputs]
    assert 4 * (in_blocks(wider) - in_blocks(graph)) >= cuts(wider) - cuts(graph)
    assert_same(graph, wider, feeds(graph, seed), *(() if stored else NEAR))


@pytest.mark.parametrize("stored", [False, True])
def test_much_is_changed(stored: bool) -> None:
    graphs = [(graph, cut(graph, WORTH, Budget())) for graph in (network(seed, stored) for seed in range(60))]
    assert 20 < sum(wider is not graph for graph, wider in graphs) < 60
    assert sum(in_blocks(wider) for _, wider in graphs) > 1.5 * sum(in_blocks(graph) for graph, _ in graphs)
    assert sum(cuts(wider) > cuts(graph) for graph, wider in graphs) > 10
    assert sum(in_blocks(wider, "ConvTranspose") - in_blocks(graph, "ConvTranspose") for graph, wider in graphs) > 5


def test_what_a_convolution_is_worth() -> None:
    """A Pad and a Slice, which two share: for one convolution that is worth three of them, not two."""
    b = Images(0, stored=False)
    x = b.made("Exp", b.input(1, SIDE, SIDE, 24))
    y = b.wide(x, 40)
    graph = b.graph(b.made("Exp", y), b.made("Concat", y, y, shape=(1, SIDE, SIDE, 80), axis=3))
    for worth, changed in ((0, False), (2, False), (3, True)):
        assert (cut(graph, Storage(block=BLOCK, cuts=worth), Budget()) is not graph) == changed
    operators = Counter(node.op for node in cut(graph, WORTH, Budget()).nodes)
    assert (operators["Pad"], operators["Slice"]) == (1, 1)


@pytest.mark.parametrize(("stored", "dtype"), [(False, "float16"), (False, "float64"), (True, "int16")])
def test_what_runtimes_do_not_pad_stays(stored: bool, dtype: str) -> None:
    for seed in range(20):
        graph = network(seed, stored)
        values = {
            name: replace(value, dtype=dtype) if value.data is None and value.dtype == DTYPES[stored] else value
            for name, value in graph.values.items()
        }
        other = replace(graph, values=values)
        assert cut(other, WORTH, Budget()) is other


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", range(10))
def test_plans_for_blocks(seed: int) -> None:
    """Networks of TensorFlow Lite and ONNX give what they gave, and their plans say what is written."""
    source = tflite(seed).source
    found = layoutsolve.convert(source, target="nchw16c")
    assert layoutsolve.verify(source, found).passed
    assert layoutsolve.plan(source, found).facts["price"]["hidden"] == found.price.hidden
    writer, model = random_model(seed)
    made = layoutsolve.convert(model.SerializeToString(), target="nchw16c").model
    (wanted,), (got,) = (
        OnnxRuntime(each.SerializeToString(), level="none").run(writer.feeds()) for each in (model, made)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
