"""Transposes that ONNX Runtime's optimiser would make slower stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations

import numpy as np
import onnx
import pytest

from layoutsolve.emit import optimization_barriers
from layoutsolve.solver.theory.motion import Motion, motion_of
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.emit.test_barriers import operators

FAST = [each for each in permutations(range(4)) if motion_of(each)[0] in (Motion.SWAP, Motion.ROWS)]


MADE_SLOW = [
    (first, second)
    for first in FAST
    for second in FAST
    if motion_of([first[axis] for axis in second])[0] is Motion.GENERAL
]
"""Permutations by two Transposes that are fast, where the one that they come to is not."""


ALONG = ("Concat", "LogSoftmax", "Softmax")
"""Operators along an axis."""


def turned(
    operators: Sequence[str], first: Sequence[int], second: Sequence[int], shape: Sequence[int]
) -> onnx.ModelProto:
    """Two Transposes with some operators between them."""
    make, moved = onnx.helper.make_node, [shape[axis] for axis in first]
    named = {"half": np.float32(0.5), "row": np.linspace(1, 2, moved[-1], dtype=np.float32), "zero": np.uint8(9)}
    named |= {
        "start": np.array([0]),
        "stop": np.array([2]),
        "axis": np.array([1]),
        "pads": np.array([0, 0, 0, 0, 0, 1, 0, 1]),
    }
    given = {
        "Mul": ["row"],
        "Add": ["half"],
        "Slice": ["start", "stop", "axis"],
        "Pad": ["pads"],
        "ReduceMax": ["axis"],
    }
    given |= {key: ["half", "zero"] for key in ("QuantizeLinear", "DequantizeLinear")}
    nodes, names = [make("Transpose", ["x"], ["v0"], perm=first)], [f"v{at}" for at in range(len(operators) + 1)]
    for operator, (before, after) in zip(operators, pairwise(names), strict=True):
        inputs = [before, before] if operator == "Concat" else [before, *given.get(operator, [])]
        nodes.append(make(operator, inputs, [after], **({"axis": 2} if operator in ALONG else {})))
    nodes.append(make("Transpose", [names[-1]], ["y"], perm=second))
    info, constants = (
        onnx.helper.make_tensor_value_info,
        [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in named.items()],
    )
    graph = onnx.helper.make_graph(nodes, "turned", [info("x", 1, shape)], [info("y", 1, None)], constants)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return onnx.shape_inference.infer_shapes(model)


def slow(model: bytes, level: str) -> int:
    """The slow Transposes that ONNX Runtime executes."""
    graph = optimised(model, level).graph
    return sum(
        motion_of(node.attribute[0].ints)[0] is Motion.GENERAL for node in graph.node if node.op_type == "Transpose"
    )


@pytest.mark.parametrize("seed", range(40))
def test_fast_transposes_stay_two(seed: int) -> None:
    """Two Transposes that together are a slow one, with what ONNX Runtime moves Transposes through between them."""
    random = np.random.default_rng(seed)
    between = ["Relu", "Mul", "Add", "Softmax", "Slice", "Concat", "Pad", "ReduceMax", "Clip", "Sqrt", "QDQ"]
    operators = [str(each) for each in random.choice(between, 1 + seed % 3)]
    operators = [
        part for each in operators for part in (["QuantizeLinear", "DequantizeLinear"] if each == "QDQ" else [each])
    ]
    first, second = MADE_SLOW[random.integers(len(MADE_SLOW))]
    shape = random.integers(4, 12, 4).tolist()
    plain = turned(operators, first, second, shape)
    guarded = onnx.ModelProto.FromString(plain.SerializeToString())
    optimization_barriers.guard(guarded.graph, 18, str)
    data = {"x": random.uniform(0, 9, shape).astype(np.float32)}
    (expected,) = OnnxRuntime(plain.SerializeToString(), level="none").run(data)
    large = np.prod(shape) >= 1 << 10
    for level in LEVELS:
        (found,) = OnnxRuntime(guarded.SerializeToString(), level=level).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert large == (slow(guarded.SerializeToString(), level) == 0) or level == "none"
    assert slow(plain.SerializeToString(), "basic") == 1


def test_few_transposes_are_copied() -> None:
    """Only fast Transposes of many elements that are slow together: all others may as well be made one."""
    for first in permutations(range(4)):
        for second in permutations(range(4)):
            model = turned(["Relu"], first, second, (5, 6, 7, 8))
            optimization_barriers.guard(model.graph, 18, str)
            assert ("Gather" in operators(model)) == ((first, second) in MADE_SLOW)


@pytest.mark.parametrize("operators", [["Softmax"], ["Relu", "Softmax", "Mul"], ["LogSoftmax", "Softmax"]])
def test_softmax_stays_along_the_last_dimension(operators: Sequence[str]) -> None:
    """Where ONNX Runtime would move a Transpose through it to another, and that is slow; never where it is not."""
    for first in permutations(range(4)):
        shape = [8, 9, 10, 11]
        model = turned(operators, first, np.argsort(first).tolist(), shape)
        for node in model.graph.node:
            if "Softmax" in node.op_type:
                node.attribute[0].i = 3
        data = {"x": np.random.default_rng(0).uniform(0, 9, shape).astype(np.float32)}
        (expected,) = OnnxRuntime(model.SerializeToString(), level="none").run(data)
        optimization_barriers.guard(model.graph, 18, str)
        slowed = first[3] < 2
        assert ("Gather" in [node.op_type for node in model.graph.node]) == slowed
        (found,) = OnnxRuntime(model.SerializeToString()).run(data)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        run = [node for node in optimised(model.SerializeToString()).graph.node if node.op_type == "Softmax"]
        assert not slowed or all(onnx.helper.get_attribute_value(node.attribute[0]) in (-1, 3) for node in run)
