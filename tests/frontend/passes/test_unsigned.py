"""Activations stored without a sign: the same numbers, ends as they were, and one type around every kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.frontend.passes import weights
from layoutsolve.frontend.passes.unsigned import KERNELS, MOVING, WEIGHED, signed, stored
from layoutsolve.frontend.tflite.lowering.rounding import steps
from layoutsolve.ir.graph import Graph, Quant
from tests.graphs import GraphBuilder, run

SHAPE = (2, 4, 6, 6)
SCALES = (0.02, 0.05, 0.3)


def quant(random: np.random.Generator, axis: int | None = None, count: int = 1) -> Quant:
    scales = random.choice(SCALES, count).astype(np.float32)
    return Quant(scales, random.integers(-128, 128, count).astype(np.int8), axis)


class Bytes(GraphBuilder):
    """Operators on signed bytes, all of one shape."""

    def made(
        self,
        op: str,
        *inputs: str,
        storage: bool = False,
        keep: bool = False,
        of: Quant | None = None,
        **attributes: object,
    ) -> str:
        """An operator whose result has parameters of its own, or with ``keep`` those of its first input, or others."""
        own = of or (self.values[inputs[0]].quant if keep else quant(self.random))
        output = self.op(op, *inputs, shape=SHAPE, dtype="int8", quant=own, **attributes)
        self.nodes[-1] = replace(self.nodes[-1], storage=storage)
        return output

    def byte(self, *shape: int) -> str:
        return self.constant(self.random.integers(-128, 128, shape), "int8")

    def known(self, *shape: int) -> str:
        return self.constant(self.random.integers(-128, 128, shape), "int8", quant(self.random))


def conv(b: Bytes, x: str) -> str:
    weights = b.constant(b.random.integers(-127, 128, (4, 4, 1, 1)), "int8", quant(b.random, 0, 4))
    weights_value = b.values[weights]
    assert weights_value.quant is not None
    plain = replace(weights_value.quant, zero_point=np.zeros(4, np.int8))
    b.values[weights] = replace(weights_value, quant=plain)
    return b.made("Conv", x, weights)


def pad(b: Bytes, x: str) -> str:
    rows = b.op("Slice", x, *(b.constant([each], "int64") for each in (1, 5, 2)), shape=(2, 4, 4, 6), dtype="int8",
                quant=b.values[x].quant)  # fmt: skip
    b.nodes[-1] = replace(b.nodes[-1], storage=True)
    pads = b.constant([0, 0, 1, 0, 0, 0, 1, 0], "int64")
    return b.made("Pad", rows, pads, b.byte(), storage=True, keep=True)


def in_branch(b: Bytes, x: str) -> str:
    x = b.made("Abs", x)  # ONNX Runtime fails where a branch dequantizes what nothing has quantized
    return b.branch(
        b.input(dtype="bool"), lambda: b.made("Mul", x, b.known(), keep=True), lambda: b.made("Sigmoid", x, keep=True)
    )


def as_integers(b: Bytes, x: str) -> str:
    """What looks at the stored integers themselves."""
    wide = b.op("Cast", x, shape=SHAPE, dtype="int32", to="int32")
    b.nodes[-1] = replace(b.nodes[-1], storage=True)
    return b.made("Cast", wide, storage=True, to="int8")


def averaged(b: Bytes, x: str) -> str:
    """A mean of stored integers, whose halves are rounded away from zero."""
    numbers = b.made("Identity", x, storage=True, of=steps("int8"))
    window = {"kernel_shape": (2, 2), "pads": (0, 0, 1, 1)}
    means = b.made("AveragePool", numbers, of=steps("int8", away=True, parts=4), **window)
    return b.made("Identity", means, storage=True, of=b.values[x].quant)


LAYERS: tuple[Callable[[Bytes, str], str], ...] = (
    conv,
    pad,
    in_branch,
    as_integers,
    averaged,
    lambda b, x: b.made("Add", x, b.known(1, 4, 1, 1)),
    lambda b, x: b.made("Mul", x, b.known()),
    lambda b, x: b.made("Add", x, x),
    lambda b, x: b.made("Sigmoid", x),
    lambda b, x: b.made("Abs", x),
    lambda b, x: b.made("MaxPool", x, storage=True, keep=True, kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
    lambda b, x: b.made("Max", x, b.byte(), storage=True, keep=True),
    lambda b, x: b.made("Clip", x, b.constant(-20, "int8"), b.constant(90, "int8"), storage=True, keep=True),
    lambda b, x: b.made("Identity", x, storage=True),
    lambda b, x: b.made("Identity", x),
    lambda b, x: b.reshape(b.reshape(x, 2, 4, 36), *SHAPE),
    lambda b, x: b.transpose(x, 0, 1, 3, 2),
)


def network(seed: int) -> Graph:
    """Operators on bytes in a random order, each reading one of the last results; all ends and some results are
    given.
    """
    b = Bytes(seed)
    pool = [b.input(*SHAPE, dtype="int8", quant=quant(b.random)) for _ in range(2)]
    for _ in range(12):
        pool.append(LAYERS[b.random.integers(len(LAYERS))](b, pool[-1 - int(b.random.integers(min(3, len(pool))))]))
    return b.graph(*dict.fromkeys([pool[-1], pool[-3], pool[5]]))


@pytest.mark.parametrize("seed", range(60))
def test_same_numbers(seed: int) -> None:
    graph = network(seed)
    found = stored(graph)
    random = np.random.default_rng(seed)
    inputs = [graph.values[name] for name in graph.inputs]
    data = [random.integers(-128, 128, each.shape).astype(each.dtype) for each in inputs]
    for expected, result in zip(run(graph, data), run(found, data), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("seed", range(60))
def test_one_type_around_kernels(seed: int) -> None:
    """Around a kernel no activation has a sign, or all do; ends keep their types; nothing is done without kernels."""
    graph = network(seed)
    found = stored(graph)
    for name in (*graph.inputs, *graph.outputs):
        assert found.values[name] is graph.values[name]
    for node in found.nodes:
        if node.op in KERNELS and not node.storage:
            read = [name for port, name in enumerate(node.inputs) if port != WEIGHED.get(node.op)]
            assert len({found.values[name].dtype for name in (*read, *node.outputs)}) == 1
    if not any(node.op in KERNELS for node in graph.nodes):
        assert found is graph


def test_what_lasts_keeps_its_sign() -> None:
    """So do the kernels around it, which would store it anew in every turn; others do not."""
    b = Bytes(0)
    x, y = (b.input(*SHAPE, dtype="int8", quant=quant(b.random)) for _ in range(2))
    (last,) = b.loop(3, lambda now: [b.made("Add", now, b.made("Sigmoid", now), keep=True)], x)
    graph = b.graph(last, b.made("Sigmoid", y))
    found = stored(graph)
    outputs = {node.op: found.values[node.outputs[0]].dtype for node in found.nodes if node.op in KERNELS}
    inside = {
        node.region is not None: found.values[node.outputs[0]].dtype for node in found.nodes if node.op == "Sigmoid"
    }
    assert outputs["Add"] == "int8" and inside == {True: "int8", False: "uint8"}


def test_views_as_integers_have_no_sign_either() -> None:
    """Where a pool or a Resize looks at the integers themselves, nothing between kernels is stored anew for it."""
    b = Bytes(0)
    graph = b.graph(
        b.made("Sigmoid", averaged(b, conv(b, conv(b, b.input(*SHAPE, dtype="int8", quant=quant(b.random))))))
    )
    found = stored(graph)
    anew = [node for node in found.nodes if node.op == "Identity" and not node.storage]
    assert {*anew[0].inputs, *anew[1].outputs} == {*graph.inputs, *graph.outputs} and len(anew) == 2


def test_every_moving_operator_is_tried() -> None:
    """The others are those of conformance cases."""
    tried = {node.op for seed in range(60) for node in network(seed).nodes if node.storage}
    assert tried >= MOVING & {"Clip", "Identity", "Max", "MaxPool", "Pad", "Reshape", "Slice", "Transpose"}
    assert "Cast" in tried and "Join" in tried


@pytest.mark.parametrize("scale", [1e-38, 1e38])
def test_steps_that_cannot_be_stored_anew(scale: float) -> None:
    """Numbers of steps so small or large that a float32 does not hold them stay as they are."""
    b = GraphBuilder()
    extreme = Quant(np.array([scale], np.float32), np.array([0], np.int8))
    x = b.input(*SHAPE, dtype="int8", quant=extreme)
    graph = b.graph(b.op("Sigmoid", x, shape=SHAPE, dtype="int8", quant=extreme))
    found = stored(graph)
    assert {value.dtype for value in found.values.values()} == {"int8"}


@pytest.mark.members(30)
@pytest.mark.parametrize("seed", range(60))
def test_there_and_back(seed: int) -> None:
    """With signs again the numbers are the same, nothing without a sign is left, and weights fit what they multiply."""
    graph = network(seed)
    unsigned = stored(graph)
    found = weights.alike(signed(unsigned))
    random = np.random.default_rng(seed)
    inputs = [graph.values[name] for name in graph.inputs]
    data = [random.integers(-128, 128, each.shape).astype(each.dtype) for each in inputs]
    for expected, result in zip(run(graph, data), run(found, data), strict=True):
        np.testing.assert_array_equal(result, expected)
    used = {name for node in found.nodes for name in (*node.inputs, *node.outputs) if name}
    assert not any(found.values[name].dtype == "uint8" and found.values[name].data is None for name in used)


def test_bytes_of_one_scale_stay_without_a_sign() -> None:
    """Where ends have none, and weights have no steps for each channel, whose sign follows."""
    b = Bytes(0)
    raised = Quant(np.array([0.1], np.float32), np.array([131], np.uint8))
    x = b.input(*SHAPE, dtype="uint8", quant=raised)
    kernel = b.constant(b.random.integers(-127, 128, (4, 4, 1, 1)), "int8", quant(b.random))
    graph = b.graph(b.op("Conv", x, kernel, shape=SHAPE, dtype="uint8", quant=raised))
    found = weights.alike(signed(graph))
    assert {value.dtype for value in found.values.values()} == {"uint8"}
    assert found.values[kernel].quant is not None
    for name, value in graph.values.items():
        if value.data is not None and value.quant is not None and (now := found.values[name]).data is not None:
            assert now.quant is not None
            np.testing.assert_array_equal(value.quant.real(value.data), now.quant.real(now.data))
