"""Slices whose bounds are computed: what is known of the sizes behind them, and what a layout makes of their axes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.verification.runtimes import OnnxRuntime

SIZES: tuple[int | str, ...] = (1, 1, 2, 5, "T", "S")
"""Sizes of dimensions; those with names are 1 or 4 where the model runs."""


def cut(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A Slice of a random tensor along random axes between random Transposes, and what it is run with."""
    random = np.random.default_rng(seed)
    shape = [SIZES[index] for index in random.integers(0, len(SIZES), int(random.integers(1, 5)))]
    run = [dim if isinstance(dim, int) else int(random.choice([1, 4])) for dim in shape]
    named = dict(zip(shape, run, strict=True))
    run = [named[dim] for dim in shape]
    axes = sorted(random.choice(len(shape), int(random.integers(1, len(shape) + 1)), replace=False).tolist())
    count, nodes = len(axes), []
    for before, after in (("x", "a"), ("b", "y")):
        perm = random.permutation(len(shape)).tolist() if random.random() < 0.6 else list(range(len(shape)))
        nodes.append(helper.make_node("Transpose", [before], [after], perm=perm))
        if before == "x":
            run_cut = [run[axis] for axis in perm]
    computed = [name for name in ("starts", "ends") if random.random() < 0.7] or ["ends"]
    given = {"starts": np.zeros(count, np.int64), "ends": np.array([max(1, run_cut[axis] - 1) for axis in axes])}
    stated = [axis - len(shape) if random.random() < 0.5 else axis for axis in axes]
    constants = [helper.make_tensor("axes", TensorProto.INT64, [count], stated)]
    constants += [
        helper.make_tensor(name, TensorProto.INT64, [count], given[name]) for name in given if name not in computed
    ]
    nodes.insert(1, helper.make_node("Slice", ["a", "starts", "ends", "axes"], ["b"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, [count]) for name in computed]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{axis}" for axis in range(len(shape))])]
    graph = helper.make_graph(nodes, "cut", inputs, outputs, constants)
    feeds = {"x": random.normal(size=run).astype(np.float32), **{name: given[name] for name in computed}}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), feeds


@pytest.mark.parametrize("seed", range(150))
def test_bounds_are_computed(seed: int) -> None:
    model, feeds = cut(seed)
    expected = OnnxRuntime(model.SerializeToString()).run(feeds)
    found = layoutsolve.convert(model.SerializeToString())
    assert found.price.transposes <= 2
    for one, other in zip(expected, OnnxRuntime(found.model.SerializeToString()).run(feeds), strict=True):
        np.testing.assert_array_equal(one, other)
