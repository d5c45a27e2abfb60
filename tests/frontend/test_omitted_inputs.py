"""Inputs that a node leaves out at its end say nothing: it has the forms of a node without them."""

from __future__ import annotations

import numpy as np

import layoutsolve
from tests.builder import Builder

SIDE = 12


def test_volumes_without_a_bias_may_read_channels_last() -> None:
    """Nothing is at the place of the bias: one channel of each line's pixels, as of convolutions that have one."""
    random = np.random.default_rng(5)
    made = Builder()
    data = made.input("x", (1, 4, SIDE, SIDE, 3))
    kernel = made.constant("w", np.array(random.standard_normal((3, 3, 3, 3, 8)), np.float32))
    result = made.tensor("y", (1, 4, SIDE, SIDE, 8))
    options = {"padding": "SAME", **{f"stride_{axis}": 1 for axis in "dhw"}}
    options |= {f"dilation_{axis}_factor": 1 for axis in "dhw"}
    made.operator("CONV_3D", [data, kernel], [result], options)
    found = layoutsolve.convert(made.finish(result), objective="min-transpose", inputs="nhwc", outputs="free")
    assert found.price.transposes == 0
