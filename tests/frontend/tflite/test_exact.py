"""``--quant exact``: random operators on bytes give what LiteRT gives, bit for bit, however far they are optimised."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend import Reading, read
from layoutsolve.frontend.tflite.exact import FLOATS
from layoutsolve.frontend.tflite.exact.registry import EXACT
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.builder import Quant
from tests.frontend.tflite.exact_models import FAMILIES, Network, kernels, unary
from tests.truth import litert

SEEDS = range(6)


NEAR_HALVES = (
    # scales of both operands and of the sum, bytes less their zero points
    ((0.0599, 0.0130, 0.0456), (10, 103)),
    ((0.0149, 0.0416, 0.0536), (84, -23)),
    ((0.0453, 0.0603, 0.0748), (-111, -45)),
    ((0.0453, 0.0603, 0.0748), (3, -19)),
    ((0.0896, 0.0602, 0.0492), (-128, 119)),
    ((0.0768, 0.0883, 0.0138), (-27, 27)),
    ((0.0856, 0.0418, 0.0500), (-42, 89)),
    ((0.0180, 0.0710, 0.0320), (-127, 18)),
)
"""Sums that LiteRT rounds to one side or the other by how it has rounded the operands: in vectors, or one by one."""

SHAPES = (
    ((5, 40), (5, 40)), ((4, 21), (21,)), ((1,), (3, 21)), ((4, 21), (4, 1)), ((3, 5), (3, 5)),
    ((2, 1, 21), (1, 3, 21)),
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["ADD", "SUB"])
def test_vectors_and_what_is_left_over(name: str, dtype: str) -> None:
    zero = 128 if dtype == "uint8" else 0
    for number, (shapes, (scales, pair)) in enumerate(product(SHAPES, NEAR_HALVES)):
        if number % 2 != (dtype == "int8"):
            continue
        net = Network(dtype, 0)
        x, y, result = (Quant([float(np.float32(scale))], [zero]) for scale in scales)
        inputs = [net.input(*shapes[0], quant=x), net.input(*shapes[1], quant=y)]
        source = net.finish(name, inputs, net.output(*np.broadcast_shapes(*shapes), quant=result))
        net.given = [np.full(shape, value + zero, dtype) for shape, value in zip(shapes, pair, strict=True)]
        model = serialise(read(source, "case", Reading(quant="exact"))).SerializeToString()
        runtime = OnnxRuntime(model, threads=1, level="none")
        (expected,), (found,) = litert().run(source, net.given).results, runtime.run(feeds(runtime, net.given, {}))
        assert np.array_equal(expected, found), (shapes, scales, pair)


@pytest.mark.members(0)
@pytest.mark.parametrize("name", sorted({*EXACT} - {*FLOATS}))
def test_results_are_equal(name: str) -> None:
    """In int8, and in turn in uint8 where LiteRT has such a kernel."""
    signed = name in ("ELU", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM")
    covered = 0
    for seed in SEEDS:
        net = Network("int8" if signed or seed % 2 else "uint8", seed)
        source = FAMILIES.get(name, unary)(net, name)
        try:
            graph = read(source, "case", Reading(quant="exact"))
        except UnsupportedError as error:
            assert "wider than" in str(error), f"seed {seed}: {error}"
            continue
        covered += 1
        (expected,) = litert().run(source, net.given).results
        for level in LEVELS:
            runtime = OnnxRuntime(serialise(graph).SerializeToString(), threads=1, level=level)
            found, *_ = runtime.run(feeds(runtime, net.given, {}))  # and the states
            places = np.argwhere(expected != found)
            assert not places.size, (
                f"seed {seed} at {level}: {len(places)} of {found.size} differ, at {places[:3].tolist()}"
            )
    assert covered > len(SEEDS) // 2


def test_steps_that_are_too_small_for_a_gate() -> None:
    """HARD_SWISH's gate of 15 bits would have to be shifted to the left, which LiteRT does not do."""
    net = Network("int8", 0)
    x, y = net.input(2, 8, quant=Quant([0.1], [0])), net.output(2, 8, quant=Quant([0.0005], [0]))
    with pytest.raises(UnsupportedError, match="its output scale is too small"):
        read(net.finish("HARD_SWISH", [x], y), "case", Reading(quant="exact"))


def test_sums_of_too_many_terms() -> None:
    """Their parts are no longer below the integers that a float32 counts."""
    for count, exact in ((70_000, False), (700, True)):
        net = Network("int8", 0)
        x, y = net.input(1, count, quant=Quant([0.1], [0])), net.output(1, 1, quant=Quant([0.5], [0]))
        full = np.full((1, count), 127, np.int8)
        source = net.finish("FULLY_CONNECTED", [x, net.builder.constant("w", full, quant=Quant([0.1], [0]))], y)
        if exact:
            assert read(source, "case", Reading(quant="exact")).nodes
            continue
        with pytest.raises(UnsupportedError, match="its sums have too many terms to be exact"):
            read(source, "case", Reading(quant="exact"))


def test_exponentials_are_rounded_once() -> None:
    """LiteRT's come from the platform's C library, which rounds a few in a thousand otherwise at most."""
    net, count = Network("int8", 0), 100_000
    source = net.finish("EXP", [net.builder.input("x", (count,))], net.builder.tensor("y", (count,)))
    net.given.append(net.random.uniform(-20, 20, count).astype(np.float32))
    (expected,) = litert().run(source, net.given).results
    model = serialise(read(source, "case", Reading(quant="exact"))).SerializeToString()
    for level in LEVELS:
        runtime = OnnxRuntime(model, threads=1, level=level)
        (found,) = runtime.run(feeds(runtime, net.given, {}))
        assert (found != expected).mean() < 0.004
        assert np.array_equal(found, np.exp(net.given[0].astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_groups_round_their_own_way(groups: int) -> None:
    """Scales that are powers of two put many results on halves."""
    for seed in SEEDS:
        net = Network("int8", seed)
        step, dilation = net.quant(), net.choice(1, 2)
        x = net.input(1, 9, 9, 8, quant=step)
        weights, bias = kernels(net, step, (8, 2, 2, 8 // groups), 0, 8)
        y = net.output(1, 9 - dilation, 9 - dilation, 8, quant=net.quant(0.05, 2.0))
        window = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
        dilations = {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
        source = net.finish("CONV_2D", [x, weights, bias], y, **window, **dilations)
        model = serialise(read(source, "case", Reading(quant="exact"))).SerializeToString()
        runtime = OnnxRuntime(model, threads=1, level="all")
        (expected,), (found,) = litert().run(source, net.given).results, runtime.run(feeds(runtime, net.given, {}))
        assert np.array_equal(expected, found), seed


def test_all_that_is_not_covered_is_listed() -> None:
    """Also behind an operator that is not covered, and where other types are the reason."""
    net = Network("int8", 0)
    quant, wide = net.quant(), Quant([0.001], [0])
    first, second, third = (net.builder.tensor(name, (2, 8), "int8", quant=quant) for name in ("a", "b", "c"))
    y = net.builder.tensor("y", (2, 8), "int16", quant=wide)
    net.builder.operator("EXP", [net.input(2, 8, quant=quant)], [first], {})
    net.builder.operator("RELU", [first], [second], {})
    net.builder.operator("SQUARED_DIFFERENCE", [second, first], [third], {})
    source = net.finish("QUANTIZE", [third], y)
    with pytest.raises(UnsupportedError) as raised:
        read(source, "case", Reading(quant="exact"))
    assert [gap.operator for gap in raised.value.gaps] == ["EXP", "SQUARED_DIFFERENCE", "QUANTIZE"]
    assert all("--quant qdq" in gap.remedy for gap in raised.value.gaps)
    assert read(source).nodes
