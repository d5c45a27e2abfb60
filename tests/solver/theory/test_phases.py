"""Transposed convolutions of bytes as convolutions of all phases: results are the nearest steps, counts are kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Array, Dim, Graph, Quant, Size, symbol
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.audited import audited
from tests.graphs import GraphBuilder

TARGET, OBJECTIVE = "ort-cpu", "min-latency"
READ, WRITTEN = Quant(np.array([0.02], np.float32), np.array([97], np.uint8)), (0.31, 120)


def network(seed: int, batch: Dim, size: tuple[int, int], strides: tuple[int, int], group: int = 1) -> Graph:
    """A transposed convolution of bytes, with random sizes and padding."""
    random = np.random.default_rng(seed)
    channels, produced = group * int(random.integers(16, 20)), int(random.integers(8, 12))
    shape = tuple(int(random.choice((1, 3, 4, 5))) for _ in range(2))
    cut = [int(random.integers(0, min(size[place % 2], 3))) if shape[place % 2] > 1 else 0 for place in range(4)]
    extra = [int(random.integers(0, stride)) if random.integers(2) else 0 for stride in strides]
    made = [
        strides[axis] * (shape[axis] - 1) + size[axis] - cut[axis] - cut[axis + 2] + extra[axis] for axis in range(2)
    ]
    b = GraphBuilder(seed)
    x = b.input(batch, channels, *shape, dtype="uint8", quant=READ)
    scales = random.uniform(0.01, 0.02, produced * group if random.integers(2) else 1).astype(np.float32)
    axis = 1 if len(scales) > 1 and group == 1 else None
    scales = scales if axis else scales[:1]
    data = random.integers(-127, 128, (channels, produced, *size))
    inputs = [x, b.constant(data, "int8", Quant(scales, np.zeros(len(scales), np.int8), axis))]
    if random.integers(2):
        steps = Quant(scales * READ.scale[0], np.zeros(len(scales), np.int32), 0 if axis else None)
        inputs.append(b.constant(random.integers(-9000, 9000, produced * group), "int32", steps))
    steps = Quant(np.array(WRITTEN[:1], np.float32), np.array(WRITTEN[1:], np.uint8))
    attributes = {"kernel_shape": size, "strides": strides, "pads": tuple(cut), "output_padding": tuple(extra)}
    y = b.op(
        "ConvTranspose",
        *inputs,
        shape=(batch, produced * group, *made),
        dtype="uint8",
        quant=steps,
        group=group,
        **attributes,
    )
    return b.graph(y)


def real(graph: Graph, data: Array) -> Array:
    """What the network computes in real numbers, in steps of its result."""
    (node,) = [each for each in graph.nodes if each.op == "ConvTranspose"]
    constants = [graph.values[name] for name in node.inputs[1:]]
    x = (data.astype(np.float64) - READ.zero_point) * READ.scale

    def meant(number: int, rank: int) -> Array:
        value = constants[number]
        assert value.quant is not None and value.data is not None
        places = [1] * rank
        if value.quant.axis is not None:
            places[value.quant.axis] = -1
        return np.asarray(value.data * value.quant.scale.astype(np.float64).reshape(places))

    weights, (up, along) = meant(0, 4), node.attributes["strides"]
    above, left, *_ = node.attributes["pads"]
    made = graph.values[node.outputs[0]].shape
    full = np.zeros((len(x), weights.shape[1], 64, 64))
    for row in range(x.shape[2]):
        for column in range(x.shape[3]):
            part = np.einsum("nc,cohw->nohw", x[:, :, row, column], weights)
            full[:, :, up * row :, along * column :][:, :, : part.shape[2], : part.shape[3]] += part
    found = full[:, :, above:, left:][:, :, : made[2], : made[3]]
    bias = meant(1, 1).reshape(-1, 1, 1) if len(constants) > 1 else 0.0
    return np.asarray(np.clip((found + bias) / np.float32(WRITTEN[0]) + WRITTEN[1], 0, 255))


@pytest.mark.parametrize("seed", range(24))
def test_results_are_the_nearest_steps(seed: int) -> None:
    """At all levels; the file has what the price says."""
    random = np.random.default_rng(seed)
    strides = (int(random.integers(1, 4)), int(random.integers(1, 4)))
    size = tuple(stride + int(random.integers(0, 4)) for stride in strides)
    batch = symbol("batch") if seed % 3 == 0 else 2
    graph = network(seed, batch, (size[0], size[1]), strides)
    found = assign(graph, target=shipped(TARGET), objective=OBJECTIVE)
    written = apply(found)
    assert Counter(node.op for node in written.nodes)["ConvTranspose"] == 0
    model = serialise(written)
    audited(model, found, graph)
    shape = [2 if isinstance(dim, Size) else dim for dim in graph.values[graph.inputs[0]].shape]
    data = random.integers(0, 256, shape).astype(np.uint8)
    expected = real(graph, data)
    for level in LEVELS:
        (result,) = OnnxRuntime(model.SerializeToString(), threads=1, level=level).run({graph.inputs[0]: data})
        assert np.abs(result - expected).max() < 0.501


def test_kernels_are_on_bytes() -> None:
    """One Transpose is executed beside those around ONNX Runtime's own kernels."""
    graph = network(0, 1, (2, 2), (2, 2))
    model = serialise(apply(assign(graph, target=shipped(TARGET), objective=OBJECTIVE)))
    operators = Counter(node.op_type for node in optimised(model.SerializeToString(), "all").graph.node)
    assert operators["QLinearConv"] == 1 and operators["Transpose"] == 3


@pytest.mark.parametrize(("target", "objective"), [(TARGET, "min-executed"), ("openvino-cpu", OBJECTIVE)])
def test_asked_for_by_its_target_where_time_counts(target: str, objective: str) -> None:
    written = apply(assign(network(0, 1, (2, 2), (2, 2)), target=shipped(target), objective=objective))
    assert [node.op for node in written.nodes] == ["ConvTranspose"]


@pytest.mark.parametrize(("size", "group"), [((2, 2), 2), ((1, 2), 1)])
def test_what_stays(size: tuple[int, int], group: int) -> None:
    """Groups, and strides that are longer than a kernel."""
    written = apply(assign(network(0, 1, size, (2, 2), group=group), target=shipped(TARGET), objective=OBJECTIVE))
    assert [node.op for node in written.nodes] == ["ConvTranspose"]
