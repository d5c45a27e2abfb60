"""Operators that LiteRT's kernels approximate are held against what is exact: right ones pass, wrong ones do not."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from experiments.verdicts import broken
from tests.builder import Builder, Quant

pytestmark = pytest.mark.usefixtures("briefly")


def products(dtype: str, seed: int) -> bytes:
    """Products over one or two axes, which LiteRT rounds after each factor."""
    random = np.random.default_rng(seed)
    largest, zero = np.iinfo(dtype).max, int(random.integers(-5, 6)) if dtype == "int8" else 0
    scale = float(random.uniform(0.5, 2)) / largest
    axes = [[1], [1, 2], [-2]][int(random.integers(3))]
    shape = (6, int(random.integers(2, 7)), int(random.integers(2, 4)))
    build = Builder()
    x = build.input("x", shape, dtype, quant=Quant([scale], [zero]))
    made = tuple(size for axis, size in enumerate(shape) if axis not in {each % 3 for each in axes})
    y = build.tensor("y", made, dtype, quant=Quant([scale * float(random.uniform(0.5, 3))], [zero]))
    build.operator("REDUCE_PROD", [x, build.constant("axes", np.array(axes, np.int32))], [y], {"keepDims": False})
    return build.finish(y)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_products(dtype: str, seed: int) -> None:
    source = products(dtype, seed)
    right = layoutsolve.convert(source)
    assert layoutsolve.verify(source, right).verdict == "pass"
    wrong = broken(right, "another reduction", seed)
    assert wrong is not None and layoutsolve.verify(source, wrong).verdict == "FAIL"
