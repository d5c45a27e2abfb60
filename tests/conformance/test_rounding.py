"""Operators that give the integers that LiteRT gives, for all values that they can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.rounding import lift
from layoutsolve.ir.graph import Array
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert

BYTES = ("int8", "uint8")
FACTORS = (0.0314159, 0.1314159, 0.25, 0.3141592, 0.4998765, 0.5, 0.7182818, 1.0, 1.9142135)
"""Scales of the input in steps of the output; below a half LiteRT rounds twice, by 1/4 and 1/2 there are halves.

Simple fractions of other scales, such as 7/10, would meet halves up to the last bits of the scales.
"""


def every(dtype: str) -> Array:
    """All numbers of 8 bits, a thousand of 16."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, int(limits.max) + 1, 1 if dtype != "int16" else 67).astype(dtype)


def zeros(dtype: str) -> tuple[int, ...]:
    """Zero points: both ends and one between them."""
    limits = np.iinfo(dtype)
    return (0,) if dtype == "int16" else (int(limits.min), int(limits.min) + 100, int(limits.max))


def parameters(dtype: str) -> Iterator[tuple[Quant, Quant]]:
    """Parameters of an input and an output."""
    for factor in FACTORS if dtype != "int16" else [each for each in FACTORS if each * 4 % 1 or each == 1]:
        for zero in zeros(dtype):
            for other in zeros(dtype):
                yield Quant([0.02], [zero]), Quant([0.02 / factor], [other])


def differences(
    operator: str,
    data: Array,
    quants: tuple[Quant, Quant],
    shape: Sequence[int],
    options: Mapping[str, Any] | None = None,
    constants: Sequence[Array] = (),
) -> Array:
    """What ONNX Runtime gives at all levels of optimisation less what LiteRT gives, in steps, per level."""
    builder, dtype = Builder(), data.dtype.name
    x = builder.input("x", data.shape, dtype, quant=quants[0])
    more = [builder.constant(f"c{number}", constant) for number, constant in enumerate(constants)]
    y = builder.tensor("y", shape, dtype, quant=quants[1])
    builder.operator(operator, [x, *more], [y], options)
    source = builder.finish(y)
    (truth,) = litert().run(source, [data]).results
    model = serialise(read(source)).SerializeToString()
    found = [OnnxRuntime(model, threads=1, level=level).run({"x": data})[0] for level in LEVELS]
    return np.stack(found).astype(np.int64) - truth.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Given:
    """A constant operand."""

    data: Array
    quant: Quant


def differing(operator: str, inputs: Sequence[Array], quants: Sequence[Quant], constant: Given | None = None) -> Array:
    """What :func:`differences` gives, for operands that are broadcast; the last parameters are those of the output."""
    builder, dtype = Builder(), inputs[0].dtype.name
    feeds = {f"x{number}": data for number, data in enumerate(inputs)}
    given = [
        builder.input(name, feeds[name].shape, dtype, quant=quant) for name, quant in zip(feeds, quants, strict=False)
    ]
    shapes = [data.shape for data in inputs]
    if constant is not None:
        given.append(builder.constant("constant", constant.data, quant=constant.quant))
        shapes.append(constant.data.shape)
    y = builder.tensor("y", np.broadcast_shapes(*shapes), dtype, quant=quants[-1])
    builder.operator(operator, given, [y], {})
    source = builder.finish(y)
    (truth,) = litert().run(source, inputs).results
    model = serialise(read(source)).SerializeToString()
    found = [OnnxRuntime(model, threads=1, level=level).run(feeds)[0] for level in LEVELS]
    return np.stack(found).astype(np.int64) - truth.astype(np.int64)


@pytest.mark.members(6)
@pytest.mark.parametrize("dtype", [*BYTES, "int16"])
@pytest.mark.parametrize("operator", ["RELU", "RELU6", "ABS", "QUANTIZE"])
def test_rescaling(operator: str, dtype: str) -> None:
    """Every number, by every pair of parameters; halves of 16-bit numbers that QUANTIZE rescales are left aside."""
    if (operator, dtype) in (("ABS", "uint8"), ("QUANTIZE", "int16")):
        pytest.skip("LiteRT has no such kernel, or rounds away from zero")
    data = every(dtype).reshape(1, -1)
    for quants in islice(parameters(dtype), 0, None, 2):
        assert np.abs(differences(operator, data, quants, data.shape)).mean() <= (dtype == "int16") * 5e-3, quants


@pytest.mark.members(18)
@pytest.mark.parametrize("dtype", [*BYTES, "int16"])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("window", [(2, 2), (2, 3), (3, 3), (4, 1), (4, 8), (7, 8)])
def test_average_pool(window: tuple[int, int], padding: str, dtype: str) -> None:
    """Averages of all sums of a few numbers, halves among them."""
    data = np.random.default_rng(0).choice(every(dtype), (1, 23, 24, 16))
    data[..., :8] = np.clip(data[..., :8], *(np.array([-3, 4]) + (0 if dtype != "uint8" else 100)))
    options = dict(zip(("filterHeight", "filterWidth"), window, strict=True))
    kept = [(size - each + 1) if padding == "VALID" else size for size, each in zip((23, 24), window, strict=True)]
    for zero in zeros(dtype):
        quant = Quant([0.02], [zero])
        more = {"strideH": 1, "strideW": 1, "padding": padding}
        found = differences("AVERAGE_POOL_2D", data, (quant, quant), (1, *kept, 16), {**options, **more})
        assert not found.any(), zero


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("factor", [2, 4])
def test_resize_bilinear(factor: int, half: bool, dtype: str) -> None:
    """Factors whose positions are exact."""
    data = np.random.default_rng(0).choice(every(dtype), (1, 12, 9, 8))
    sizes = np.array([12 * factor, 9 * factor], np.int32)
    for zero in zeros(dtype):
        quant = Quant([0.02], [zero])
        shape = (1, *sizes.tolist(), 8)
        found = differences("RESIZE_BILINEAR", data, (quant, quant), shape, {"halfPixelCenters": half}, [sizes])
        assert not found.any(), zero


@pytest.mark.members(4)
@pytest.mark.parametrize("dtype", [*BYTES, "int16"])
@pytest.mark.parametrize("axes", [(1,), (3,), (1, 3), (1, 2)])
def test_mean(axes: tuple[int, ...], dtype: str) -> None:
    """Means over any axes. Halves of numbers of both signs are off below zero, by counts that are a power of two."""
    generator = np.random.default_rng(0)
    shape = (1, 7, 12, 16)
    keep = axes != (1, 2)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
    for quants in parameters(dtype):
        data = generator.choice(every(dtype), shape)
        data[:, :, :6] = np.clip(data[:, :, :6], *(np.array([-3, 4]) + (0 if dtype != "uint8" else 100)))
        constants = [np.array(axes, np.int32)]
        found = differences("MEAN", data, quants, kept, {"keepDims": keep}, constants)
        between = quants[0].zero_point[0] == zeros(dtype)[len(zeros(dtype)) // 2]
        assert np.abs(found).mean() <= (0.06 if between else 5e-3), quants


@pytest.mark.members(3)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 5)])
def test_mean_of_images(size: tuple[int, int], dtype: str) -> None:
    """Means over height and width that stay images, by the kernel that rounds the zero point's part on its own."""
    generator = np.random.default_rng(0)
    shape, axes = (2, *size, 16), np.array([1, 2], np.int32)
    for quants in islice(parameters(dtype), 0, None, 2):
        data = generator.choice(every(dtype), shape)
        found = differences("MEAN", data, quants, (2, 1, 1, 16), {"keepDims": True}, [axes])
        assert np.abs(found).mean() <= 5e-3, quants


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_square_root(dtype: str) -> None:
    """Roots of all numbers that have one are rounded down; those of 16 bits are a little off where they are whole."""
    generator = np.random.default_rng(0)
    for zero, other in product(zeros(dtype)[:2], zeros(dtype)):
        data = every(dtype)[every(dtype) >= zero].reshape(1, -1)
        scale, result = generator.uniform(0.001, 0.1), generator.uniform(0.9, 1.5)
        most = np.sqrt((np.iinfo(dtype).max - zero) * scale)
        quants = Quant([scale], [zero]), Quant([result * most / (np.iinfo(dtype).max + 1)], [other])
        found = np.abs(differences("SQRT", data, quants, data.shape))
        assert found.max() <= 1 and found.mean() <= (0 if dtype == "int8" else 0.02), quants


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("operator", ["ADD", "SUB"])
@pytest.mark.parametrize("scales", [(2, 1, 2), (1, 2, 4), (1, 1, 8), (3, 6, 12), (1, 4, 2)])
def test_sums_of_halves(scales: tuple[int, ...], operator: str, dtype: str) -> None:
    """All pairs of numbers, and all with a constant, by scales that are fractions of each other."""
    generator, numbers = np.random.default_rng(0), every(dtype)
    pairs = [each.reshape(1, -1).copy() for each in np.meshgrid(numbers, numbers)]
    for _ in range(3):
        quants = [Quant([0.0127 * scale], [int(generator.choice(numbers))]) for scale in scales]
        assert not differing(operator, pairs, quants).any(), quants
        constant = np.append(generator.choice(numbers, 2), quants[1].zero_point).astype(dtype).reshape(3, 1)
        given = Given(constant, quants[1])
        assert not differing(operator, [numbers.reshape(1, -1)], [quants[0], quants[2]], given).any(), (
            quants,
            constant,
        )


@pytest.mark.members(12)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.9])
def test_leaky_relu(alpha: float, dtype: str) -> None:
    """All numbers, by steps that are the same or not: halves are exact, the slope has most of the second rounding."""
    generator, data = np.random.default_rng(0), every(dtype).reshape(1, -1)
    for zero, factor in product(zeros(dtype), (1.0, *generator.uniform(0.8, 2, 3))):
        quants = Quant([0.02], [zero]), Quant([0.02 / factor], [zero])
        found = np.abs(differences("LEAKY_RELU", data, quants, data.shape, {"alpha": alpha}))
        halves = factor == 1 and alpha in (0.25, 0.5)
        assert found.max() <= 1 and found.mean() <= (0 if halves else 0.6 * lift(alpha * factor)), (zero, factor)


@pytest.mark.parametrize("dtype", BYTES)
def test_prelu(dtype: str) -> None:
    """All numbers by slopes of their own for each channel."""
    generator = np.random.default_rng(0)
    data = np.repeat(every(dtype), 32).reshape(1, 256, 1, 32)
    for zero in zeros(dtype):
        slopes = Given(generator.choice(every(dtype), (1, 1, 32)), Quant([0.0039], [zero]))
        quants = [Quant([0.02], [zero]), Quant([0.02 / generator.uniform(0.8, 2)], [zero])]
        found = differing("PRELU", [data], quants, slopes)
        assert np.abs(found).max(initial=0) <= 1 and np.abs(found).mean() <= 1e-3, zero


@pytest.mark.parametrize("dtype", BYTES)
def test_constant_factors(dtype: str) -> None:
    """All numbers by one constant or another: the scale of the constant has most of the second rounding."""
    generator, found, lifts = np.random.default_rng(0), [], []
    for _ in range(30):
        zero, other, third = (int(each) for each in generator.choice(every(dtype), 3))
        constant = generator.choice(every(dtype), (1, 1))
        most = max(abs(int(constant.item()) - other), 1)
        scale = 0.02 * 0.01 * most * generator.uniform(0.6, 2)
        quants = [Quant([0.02], [zero]), Quant([scale], [third])]
        given = Given(constant, Quant([0.01], [other]))
        found.append(np.abs(differing("MUL", [every(dtype).reshape(1, -1)], quants, given)))
        lifts.append(lift(0.02 * 0.01 / scale))
    assert np.max(found) <= 1 and np.mean(found) <= 0.5 * np.mean(lifts)


@pytest.mark.parametrize("factor", [0.13, 0.15, 0.26, 0.3, 0.33])
def test_convolution(factor: float) -> None:
    """The second rounding of sums goes into biases, which are whole: most of it, and never more than there was."""
    data = every("int8").reshape(1, 16, 16, 1)
    builder = Builder()
    x = builder.input("x", data.shape, "int8", quant=Quant([0.02], [-7]))
    weights = builder.constant("w", np.array([1, -1], np.int8).reshape(2, 1, 1, 1), quant=Quant([0.01] * 2, [0] * 2))
    bias = builder.constant("b", np.array([3, 5], np.int32), quant=Quant([0.0002] * 2, [0] * 2))
    y = builder.tensor("y", (1, 16, 16, 2), "int8", quant=Quant([0.0002 / factor], [4]))
    options = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    builder.operator("CONV_2D", [x, weights, bias], [y], options)
    source = builder.finish(y)
    (truth,) = litert().run(source, [data]).results
    (found,) = OnnxRuntime(serialise(read(source)).SerializeToString(), threads=1).run({"x": data})
    difference = found.astype(int) - truth
    assert np.abs(difference).max() <= 1 and np.abs(difference).mean() < factor / 3


@pytest.mark.parametrize("bits", range(9, 16))
@pytest.mark.parametrize("coupled", [False, True])
def test_integer_cells(coupled: bool, bits: int) -> None:
    """Cells of 16 bits, from a state of zeros on: all gates and states are those of LiteRT's approximations.

    The steps of inputs times weights are no less than half of those of their sums, which else are rounded twice.
    """
    generator, units, features = np.random.default_rng(bits), 24, 20
    builder, first = Builder(), int(coupled)
    byte, hidden = Quant([0.02], [-7]), Quant([1 / 128], [3])

    def matrix(columns: int) -> int:
        data = generator.integers(-127, 128, (units, columns)).astype(np.int8)
        return builder.constant("weights", data, quant=Quant([0.0173], [0]))

    def gates(make: Callable[[], int], count: int = 4) -> list[int]:
        return [-1] * first + [make() for _ in range(first, count)]

    x = builder.input("x", (3, 4, features), "int8", quant=byte)
    biases = gates(
        lambda: builder.constant(
            "bias", generator.integers(-3000, 3000, units).astype(np.int32), quant=Quant([0.000346], [0])
        )
    )
    states = [
        builder.tensor("hidden", (3, units), "int8", quant=hidden, variable=True),
        builder.tensor("cell", (3, units), "int16", quant=Quant([2.0**-bits], [0]), variable=True),
    ]
    given = [x, *gates(lambda: matrix(features)), *gates(lambda: matrix(units)), *[-1] * 3, *biases, -1, -1, *states]
    between = [builder.tensor("between", (0,)) for _ in range(4)]
    between.append(builder.tensor("given", (0,), "int8", quant=hidden))
    y = builder.tensor("y", (3, 4, units), "int8", quant=hidden)
    options = {"fusedActivationFunction": "TANH", "cellClip": 0.0, "projClip": 0.0}
    builder.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [*given, *[-1] * 4], [y], options, intermediates=between)
    source = builder.finish(y)
    data = generator.choice(every("int8"), (3, 4, features))
    (truth,) = litert().run(source, [data]).results
    runtime = OnnxRuntime(serialise(read(source)).SerializeToString(), threads=1)
    found = runtime.run(feeds(runtime, [data], {}))[0]
    assert np.abs(found.astype(int) - truth).max() <= 1 and (found != truth).mean() <= 2e-3
