"""Images of few channels that lie channels-first: one channel more for kernels on bytes, and the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import layoutsolve
from layoutsolve.emit import nodes_of
from layoutsolve.frontend.passes import pixels
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.builder import Quant as Parameters
from tests.frontend.passes.stored import assert_computes_the_same
from tests.graphs import GraphBuilder, assert_same, feeds

SIDES, KERNEL = (9, 8), (3, 3)
FIRST, LAST = (0, 2, 3, 1), (0, 3, 1, 2)
OTHERS = ("", "wide", "few results", "zero point", "channels-last", "floats", "groups", "large kernel", "few places")
"""What keeps an image as it is, and nothing that does."""
BEFORE = ("turned", "convolved")
"""What lies channels-last before an image is quantized."""


def image(seed: int, other: str) -> Graph:
    """A convolution of an image channels-first, perhaps behind Transposes that undo each other."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    channels, results = int(random.integers(1, 4)), int(random.choice([16, 21]))
    channels, results = (5 if other == "wide" else channels), (12 if other == "few results" else results)
    group = channels if other == "groups" else 1
    results = 15 * group if group > 1 else results
    dtype = str(random.choice(["int8", "uint8"]))
    quant = Quant(np.array([0.02], np.float32), np.array([random.integers(0, 100)], dtype))
    given = {} if other == "floats" else {"dtype": dtype, "quant": quant}
    sides = (3, 5) if other == "few places" else SIDES
    last, floats = other in ("channels-last", "turned"), {} if other in BEFORE else given
    x = b.input(2, *((*sides, channels) if last else (channels, *sides)), **floats)  # type: ignore[arg-type]
    for perm in (LAST,) if last else (FIRST, LAST) if random.random() < 0.6 else ():
        x = b.transpose(x, *perm)
    shape = (2, channels, *sides)
    if other == "convolved":
        x = b.op("Conv", x, b.weights(channels, channels, 1, 1), shape=shape, kernel_shape=(1, 1))
    if other in BEFORE:
        x = b.op("Mul", x, b.weights(channels, 1, 1), shape=shape)
        x = b.op("Clip", x, shape=shape, **given)  # type: ignore[arg-type]
    zero = np.full(results, 3 if other == "zero point" else 0, np.int8)
    scale = Quant(random.uniform(0.01, 0.02, results).astype(np.float32), zero, 0)
    window = (7, 7) if other == "large kernel" else KERNEL
    kernel = b.constant(random.integers(-40, 40, (results, channels // group, *window)), "int8", scale)
    pads = tuple(side // 2 for side in (*window, *window))
    y = b.op("Conv", x, kernel, shape=(2, results, *sides), kernel_shape=window, pads=pads, group=group, **given)
    return b.graph(y)


@pytest.mark.parametrize("other", (*OTHERS, *BEFORE))
@pytest.mark.parametrize("seed", range(8))
def test_results_stay_what_they_are(seed: int, other: str) -> None:
    """Of bytes with a sign and without one, also where these are then stored in another way."""
    graph = image(seed, other)
    wider = pixels.filled(graph, 4, Budget())
    stays = {"groups": graph.values[graph.inputs[0]].shape[1] > 1}.get(other, bool(other))
    assert (wider is graph) == stays and pixels.filled(graph, 0, Budget()) is graph
    assert_computes_the_same(graph, wider, seed)


def test_two_readers_and_an_output() -> None:
    """Each convolution has an image of its own; others read what there was."""
    graph = image(1, "")
    (node,) = (each for each in graph.nodes if each.op == "Conv")
    values = {**graph.values, "more": replace(graph.values[node.outputs[0]], name="more")}
    both = replace(graph, values=values, nodes=(*graph.nodes, replace(node, outputs=("more",))))
    both = replace(both, outputs=(*graph.outputs, "more", node.inputs[0]))
    wider, data = pixels.filled(both, 4, Budget()), feeds(graph, 1)
    assert [each.op for each in wider.nodes].count("Pad") == 2
    assert_same(both, wider, data)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_models_are_written_so(order: str) -> None:
    """For the target that asks for it, where inputs are kept: as many Transposes, and the same numbers."""
    b, step = Builder(), Parameters([0.02], [3])
    x, image_ = b.input("x", (1, 3, 20, 20), "int8", quant=step), b.tensor("image", (1, 20, 20, 3), "int8", quant=step)
    b.operator("TRANSPOSE", [x, b.constant("order", [0, 2, 3, 1], "int32")], [image_])
    random = np.random.default_rng(0)
    kernel = b.constant("w", random.integers(-99, 99, (16, 3, 3, 3)), "int8", Parameters([0.01], [0]))
    bias = b.constant("b", random.integers(-99, 99, 16), "int32", Parameters([0.0002], [0]))
    y = b.tensor("y", (1, 10, 10, 16), "int8", quant=Parameters([0.5], [-20]))
    options = {"stride_h": 2, "stride_w": 2, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": "SAME"}
    b.operator("CONV_2D", [image_, kernel, bias], [y], options)
    source = b.finish(y)
    layouts = {} if order == "NCHW" else {"x": ("NCHW", order)}
    plain, wider = (layoutsolve.convert(source, target=name, layouts=layouts) for name in ("ort-web", "ort-cpu"))
    padded = [any(node.op_type == "Pad" for node in nodes_of(each.model.graph)) for each in (plain, wider)]
    assert padded == [False, order == "NCHW"]
    assert wider.price.transposes == plain.price.transposes
    shape = (1, 3, 20, 20) if order == "NCHW" else (1, 20, 20, 3)
    data = random.integers(-128, 128, shape).astype(np.int8)
    for level in ("none", "basic"):
        runtimes = (OnnxRuntime(each.model.SerializeToString(), level=level) for each in (plain, wider))
        expected, found = (each.run({"x": data})[0] for each in runtimes)
        np.testing.assert_array_equal(found, expected)
