"""An assignment applied to a graph: which tensors bear the names of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.graph import Array
from tests.builder import Builder
from tests.test_random_models import WAYS, check

EVERY_WAY = [{}, *WAYS]


def real(*shape: int) -> Array:
    """Numbers between -1 and 1."""
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def test_output_listed_twice() -> None:
    """A view of an input, so that the output has to be copied to bear its name."""
    builder = Builder()
    x, y, z = builder.input("x", (2, 3)), builder.tensor("y", (3, 2)), builder.tensor("z", (2, 3))
    builder.operator("TRANSPOSE", [x, builder.constant("order", np.array([1, 0], np.int32))], [y], {})
    builder.operator("NEG", [x], [z], {})
    check(builder.finish(y, z, y), [[real(2, 3)]], EVERY_WAY)


def test_outputs_of_one_stored_tensor() -> None:
    """Two outputs are the same tensor under two names, the second of which an operator would take."""
    builder = Builder()
    x, sum_, view = builder.input("x", (1, 3)), builder.tensor("sum", (2, 1, 3)), builder.tensor("view", (2, 1, 3))
    flat = builder.tensor("flat", (6,))
    builder.operator("PACK", [x, x], [sum_], {"values_count": 2, "axis": 0})
    builder.operator("RESHAPE", [sum_, builder.constant("six", np.array([6], np.int32))], [flat])
    builder.operator("RESHAPE", [flat, builder.constant("back", np.array([2, 1, 3], np.int32))], [view])
    check(builder.finish(view, sum_), [[real(1, 3)]], EVERY_WAY)


@pytest.mark.parametrize(
    ("operator", "given", "shape", "made"),
    [
        ("ADD", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("ADD", (3, 4, 5, 3), (3, 1, 1, 3), (3, 4, 5, 3)),
        ("CONV_2D", (1, 4, 5, 3), (2, 3, 3, 3), (1, 4, 5, 2)),
        ("DEPTHWISE_CONV_2D", (1, 4, 5, 3), (1, 3, 3, 3), (1, 4, 5, 3)),
        ("FULLY_CONNECTED", (4, 3), (2, 3), (4, 2)),
        ("PRELU", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("PRELU", (2, 4, 5, 3), (4, 1, 3), (2, 4, 5, 3)),
    ],
)
@pytest.mark.parametrize("around", [False, True])
def test_constants_that_are_outputs_as_well(
    operator: str, given: tuple[int, ...], shape: tuple[int, ...], made: tuple[int, ...], around: bool
) -> None:
    """An operator may read a constant in another order or shape; the output is as the file has it."""
    builder = Builder()
    x, constant, y = builder.input("x", given), builder.constant("c", real(*shape)), builder.tensor("y", made)
    bias = [builder.constant("b", real(made[-1]))] if "CONV" in operator else []
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1} if "CONV" in operator else {}
    options |= {"depth_multiplier": 1} if "DEPTHWISE" in operator else {}
    builder.operator(operator, [x, constant, *bias], [y], options)
    z = builder.tensor("z", made)
    builder.operator("NEG", [y], [z])
    ends = (constant, z) if around else (z, constant)
    check(builder.finish(*ends), [[real(*given)]], EVERY_WAY)
