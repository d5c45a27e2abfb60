"""Random numbers are other ones in LiteRT and in ONNX: what they have in common is how they are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance.cases import Operand, constant, plain, single, written
from tests.conformance.flex import BUILTIN, CHANCE, node_options
from tests.truth import litert

SHAPE = (40, 50, 10)
COUNT = 40000
SEEDS = ({}, {"seed": 5}, {"seed": 3, "seed2": 8}, {"seed": -1})


def run(
    operator: str, inputs: list[Operand], dtype: str, options: Mapping[str, Any], turns: int = 1
) -> tuple[Array, list[Array]]:
    """What LiteRT gives, and what the converted model gives in each of some runs."""
    model = single(operator, inputs, [plain(dtype)], options)
    truth = litert().run(model.source, model.inputs).results[0]
    converted = layoutsolve.convert(model.source).model
    runtime = OnnxRuntime(converted.SerializeToString())
    feeds = {name: data for (name, _, _), data in zip(runtime.inputs, model.inputs, strict=True)}
    return truth, [runtime.run(feeds)[0] for _ in range(turns)]


@pytest.mark.parametrize("seed", SEEDS, ids=str)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("operator", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_distribution(operator: str, computed: bool, seed: Mapping[str, int]) -> None:
    shape = np.array(SHAPE, np.int32)
    truth, found = run(operator, [Operand(shape, "int32", constant=not computed)], "float32", seed, turns=2)
    for numbers in (truth, *found):
        assert (numbers.shape, numbers.dtype) == (SHAPE, np.float32)
        if operator == "RANDOM_UNIFORM":
            assert numbers.min() >= 0 and numbers.max() < 1
            np.testing.assert_allclose(np.quantile(numbers, (0.1, 0.5, 0.9)), (0.1, 0.5, 0.9), atol=0.02)
        else:
            np.testing.assert_allclose((numbers.mean(), numbers.std()), (0, 1), atol=0.03)
            np.testing.assert_allclose(np.quantile(numbers, (0.025, 0.975)), (-1.96, 1.96), atol=0.08)
    assert not np.array_equal(*found)


@pytest.mark.parametrize("seed", SEEDS, ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_multinomial(dtype: str, seed: Mapping[str, int]) -> None:
    chances = np.array([[0.1, 0.2, 0.7], [0.6, 0.4, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(chances) + np.array([[3], [-2]])
    inputs = [Operand(np.maximum(logits, -50).astype(np.float32)), constant(4000)]
    truth, found = run("MULTINOMIAL", inputs, dtype, seed)
    for drawn in (truth, *found):
        assert (drawn.shape, drawn.dtype) == ((2, 4000), dtype)
        shares = [np.bincount(row, minlength=3) / 4000 for row in drawn]
        np.testing.assert_allclose(shares, chances, atol=0.04)


@pytest.mark.parametrize("operator", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_a_seed_gives_the_same_numbers_again(operator: str) -> None:
    shape = constant([3, 4])
    first, again = (run(operator, [shape], "float32", {"seed": 7, "seed2": 1})[1][0] for _ in range(2))
    other = run(operator, [shape], "float32", {"seed": 8, "seed2": 1})[1][0]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_scalar() -> None:
    _, (found,) = run("RANDOM_UNIFORM", [constant(np.zeros(0), "int32")], "float32", {"seed": 1})
    assert found.shape == ()


def test_no_samples() -> None:
    table = Operand(np.zeros((1, 2), np.float32))
    with pytest.raises(ConversionError, match="draws no samples"):
        layoutsolve.convert(written("MULTINOMIAL", [table, constant(0)], [plain("int64")], {}))


@pytest.mark.parametrize("seed", [{}, {"seed": b"\x18\x05", "seed2": b"\x18\x07"}], ids=["any", "fixed"])
@pytest.mark.parametrize("name", CHANCE)
def test_flex(name: str, seed: Mapping[str, bytes]) -> None:
    """TensorFlow's own operators draw as the built-in ones, and the same again where the seed is fixed."""
    drawn = name == "Multinomial"
    inputs = [Operand(np.log(np.float32([[0.1, 0.2, 0.7]]))), constant(COUNT)] if drawn else [constant([COUNT])]
    dtype, shape = ("int64", (1, COUNT)) if drawn else ("float32", (COUNT,))
    (equal,) = litert().run(*_single(BUILTIN[name], inputs, dtype)).results
    output = Operand(dtype=dtype, shape=shape)
    source = written(f"CUSTOM:Flex{name}", inputs, [output], {}, node_options(name, seed))
    runtime = OnnxRuntime(layoutsolve.convert(source).model.SerializeToString())
    feeds = {port[0]: inputs[0].values for port in runtime.inputs}
    (first,), (again,) = (runtime.run(feeds) for _ in range(2))
    assert not np.array_equal(first, again)
    marks = (0.05, 0.2, 0.35, 0.65, 0.9)
    for found in (first, again):
        assert (found.shape, found.dtype) == (equal.shape, equal.dtype)
        np.testing.assert_allclose(np.quantile(found, marks), np.quantile(equal, marks), atol=0.08)
    if seed:
        fresh = OnnxRuntime(layoutsolve.convert(source).model.SerializeToString()).run(feeds)[0]
        np.testing.assert_array_equal(fresh, first)


def _single(operator: str, inputs: list[Operand], dtype: str) -> tuple[bytes, tuple[Array, ...]]:
    model = single(operator, inputs, [plain(dtype)], {})
    return model.source, model.inputs
