"""An input with a default is no constant: whatever is given in its place, results are those of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.ir.graph import Array
from tests.frontend.onnx.test_random import run

SHAPE = (2, 4, 6, 8)

Case = tuple[Mapping[int, tuple[object, object]], Mapping[int, object], Mapping[str, object]]
"""Inputs with a default and what is given instead, other constants, and attributes."""


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def real(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def weights(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


NONE = real()

CASES: Mapping[str, Sequence[Case]] = {
    "Add": [({1: (weights(8), weights(8, seed=1))}, {}, {})],
    "BatchNormalization": [
        (
            {at: (abs(weights(4, seed=at)), abs(weights(4, seed=at + 9)))},
            {n: abs(weights(4)) for n in range(1, 5) if n != at},
            {},
        )
        for at in range(1, 5)
    ],
    "Clip": [
        ({1: (np.float32(-1), np.float32(0.5))}, {2: np.float32(0.7)}, {}),
        ({2: (np.float32(6), np.float32(-0.5))}, {1: np.float32(-1)}, {}),
    ],
    "Conv": [
        ({1: (weights(3, 4, 3, 3), weights(3, 4, 3, 3, seed=1))}, {2: weights(3)}, {}),
        ({2: (weights(3), weights(3, seed=1))}, {1: weights(3, 4, 1, 1)}, {}),
    ],
    "CumSum": [({1: (np.int64(1), np.int64(2))}, {}, {})],
    "Expand": [
        ({1: (whole(2, 4, 6, 8), whole(3, 2, 4, 6, 8)[1:])}, {}, {}),
        ({1: (whole(1, 1, 1, 1), whole(2, 1, 6, 1))}, {}, {}),
    ],
    "Gather": [
        ({1: (whole(0, 1, 2, 3), whole(3, 1, 0, 2))}, {}, {"axis": 1}),
        ({1: (np.int64(1), np.int64(3))}, {}, {"axis": 1}),
        ({1: (whole(0, 1), whole(1, 0))}, {}, {}),
    ],
    "GatherElements": [({1: (np.zeros((2, 4, 6, 8), np.int64), np.ones((2, 4, 6, 8), np.int64))}, {}, {"axis": 2})],
    "GatherND": [({1: (whole(0, 1)[None], whole(1, 3)[None])}, {}, {})],
    "LayerNormalization": [
        ({1: (weights(8), weights(8, seed=1))}, {2: weights(8)}, {}),
        ({2: (weights(8), weights(8, seed=1))}, {1: weights(8)}, {}),
    ],
    "MatMul": [({1: (weights(8, 3), weights(8, 3, seed=1))}, {}, {})],
    "Mul": [({1: (real(1), real(3))}, {}, {}), ({1: (weights(4, 1, 1), weights(4, 1, 1, seed=2))}, {}, {})],
    "PRelu": [({1: (weights(4, 1, 1), weights(4, 1, 1, seed=2))}, {}, {})],
    "Pad": [
        ({1: (whole(0, 0, 1, 1, 0, 0, 1, 1), whole(0, 1, 0, 1, 0, 1, 2, 1))}, {}, {}),
        ({2: (np.float32(0), np.float32(3))}, {1: whole(0, 0, 1, 1, 0, 0, 1, 1)}, {}),
    ],
    "Pow": [({1: (np.float32(2), np.float32(3))}, {}, {})],
    "QuantizeLinear": [
        ({1: (np.float32(0.1), np.float32(0.03))}, {2: np.int8(0)}, {}),
        ({2: (np.int8(0), np.int8(3))}, {1: np.float32(0.05)}, {}),
    ],
    "ReduceMean": [({1: (whole(2, 3), whole(1, 2))}, {}, {}), ({1: (whole(1), whole(3))}, {}, {"keepdims": 0})],
    "ReduceSum": [({1: (whole(2, 3), whole(1))}, {}, {}), ({1: (whole(), whole(1))}, {}, {"noop_with_empty_axes": 1})],
    "Reshape": [
        ({1: (whole(2, 4, 48), whole(2, 48, 4))}, {}, {}),
        ({1: (whole(2, 4, 6, 8), whole(2, 8, 6, 4))}, {}, {}),
        ({1: (whole(0, -1), whole(-1, 4))}, {}, {}),
    ],
    "Resize": [
        ({2: (real(1, 1, 2, 2), real(1, 1, 3, 1))}, {1: NONE}, {"mode": "nearest"}),
        ({3: (whole(2, 4, 12, 8), whole(2, 4, 5, 16))}, {1: NONE, 2: NONE}, {"mode": "linear"}),
    ],
    "ScatterND": [({1: (whole(0)[None], whole(1)[None])}, {2: weights(1, 4, 6, 8)}, {})],
    "Slice": [
        ({1: (whole(0), whole(1))}, {2: whole(4), 3: whole(1)}, {}),
        ({2: (whole(9), whole(2))}, {1: whole(0), 3: whole(1)}, {}),
        ({3: (whole(1), whole(2))}, {1: whole(0), 2: whole(3)}, {}),
        ({4: (whole(1), whole(2))}, {1: whole(0), 2: whole(3), 3: whole(1)}, {}),
    ],
    "Split": [({1: (whole(1, 3), whole(2, 2))}, {}, {"axis": 1})],
    "Squeeze": [({1: (whole(0), whole(2))}, {}, {})],
    "Tile": [({1: (whole(1, 1, 2, 1), whole(1, 2, 1, 1))}, {}, {})],
    "TopK": [({1: (whole(3), whole(2))}, {}, {"axis": 1})],
    "Trilu": [({1: (np.int64(0), np.int64(1))}, {}, {})],
    "Unsqueeze": [({1: (whole(0), whole(3))}, {}, {})],
    "Where": [
        ({0: (weights(8) > 0, weights(8) < 0.5)}, {2: weights(8)}, {}),
        ({2: (weights(8), weights(8, seed=2))}, {0: weights(8) > 0}, {}),
    ],
    "ConstantOfShape": [({0: (whole(2, 4, 6, 8), whole(2, 4, 1, 8))}, {}, {})],
    "Range": [
        ({1: (np.int64(8), np.int64(1))}, {0: np.int64(0), 2: np.int64(1)}, {}),
        ({2: (np.int64(1), np.int64(8))}, {0: np.int64(0), 1: np.int64(8)}, {}),
    ],
    "OneHot": [({1: (np.int64(8), np.int64(8))}, {0: whole(0, 3), 2: whole(0, 1)}, {})],
    "Identity": [({0: (weights(8), weights(8, seed=4))}, {}, {})],
    "Neg": [({0: (weights(8), weights(1, seed=4))}, {}, {})],
}
"""Beside what is computed, which is the first input where no case gives that."""

ENDLESS = ("Reshape", "Squeeze", "Unsqueeze", "Gather", "GatherND", "ReduceMean", "Split", "TopK", "OneHot", "Range")
"""Operators behind which there is nothing more: their results are of other ranks."""


def model(op: str, case: Case, *, told: bool) -> onnx.ModelProto:
    """The operator between two Transposes, before it a pair that undoes itself. How large inputs with a default are may
    be ``told``.
    """
    defaults, fixed, attributes = case
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
    ]
    nodes.append(helper.make_node("Relu", ["b"], ["c"]))
    names = {int(op == "Where"): "c", **{at: f"p{at}" for at in (*defaults, *fixed)}}
    if op == "Squeeze":
        nodes.append(helper.make_node("Slice", ["c", "from", "to", "both"], ["d"]))
        names[0] = "d"
    nodes.append(
        helper.make_node(
            op,
            [names.get(at, "") for at in range(max(names) + 1)],
            ["y", "z"][: 1 + (op in ("Split", "TopK"))],
            **attributes,
        )
    )
    last = "y"
    if op in ("ConstantOfShape", "Identity", "Neg", "Range"):
        kind = {"Range": TensorProto.FLOAT}.get(op)
        nodes += [helper.make_node("Cast", ["y"], ["k"], to=kind)] if kind else []
        nodes.append(helper.make_node("Add", ["c", "k" if kind else "y"], ["sum"]))
        last = "sum"
    if op not in ENDLESS or op == "Range":
        nodes.append(helper.make_node("Transpose", [last], ["out"], perm=[0, 2, 3, 1]))
        last = "out"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    constants = [numpy_helper.from_array(np.asarray(data), f"p{at}") for at, data in fixed.items()]
    for bound, numbers in (("from", (0, 0)), ("to", (1, 1)), ("both", (0, 2))):
        constants.append(numpy_helper.from_array(whole(*numbers), bound))
    for at, (default, other) in defaults.items():
        one = np.asarray(default)
        constants.append(numpy_helper.from_array(one, f"p{at}"))
        shape = one.shape if (told or op == "Resize") and one.shape == np.shape(other) else [None] * one.ndim
        ports.append(helper.make_tensor_value_info(f"p{at}", helper.np_dtype_to_tensor_dtype(one.dtype), shape))
    outputs = [
        helper.make_empty_tensor_value_info(name) for name in ((last, "z") if op in ("Split", "TopK") else (last,))
    ]
    graph = helper.make_graph(nodes, "g", ports, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    types = {
        port.name: port.type.tensor_type.elem_type for port in onnx.shape_inference.infer_shapes(made).graph.output
    }
    for port in made.graph.output:
        port.CopyFrom(helper.make_tensor_value_info(port.name, types[port.name], None))
    return made


@pytest.mark.parametrize("op", sorted(CASES))
@pytest.mark.parametrize("told", [True, False])
def test_what_is_given_counts(op: str, told: bool) -> None:
    data = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    for case in CASES[op]:
        source = model(op, case, told=told)
        found = layoutsolve.convert(source.SerializeToString(), initializer_inputs="keep").model
        if all(port.type.tensor_type.HasField("shape") for port in found.graph.output):
            onnx.checker.check_model(found, full_check=True)
        assert [port.name for port in found.graph.input] == [port.name for port in source.graph.input]
        given = [{}, *({f"p{at}": np.asarray(pair[which])} for at, pair in case[0].items() for which in (0, 1))]
        for feeds in given:
            truth = run(source, {"x": data, **feeds})
            for optimised in (False, True):
                for one, other in zip(truth, run(found, {"x": data, **feeds}, optimised=optimised), strict=True):
                    assert one.shape == other.shape, (op, case, feeds)
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
