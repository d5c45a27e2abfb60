"""What is computed ahead is what ONNX Runtime computes, to the last bit, or is left to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.onnx import constant_kernels
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array
from tests.frontend.onnx.test_random import run

REAL = np.array([[1.5, -2.25, 0.0], [3.0, np.inf, -0.5]], np.float32)
OTHER = np.array([[1.5, 2.0, -1.0]], np.float32)
WHOLE = np.array([[7, -3, 5], [-8, 2, 1]], np.int64)
SMALL = np.array([[2, -2, 3]], np.int64)
BITS, MASK = np.array([[True, False, True]]), np.array([[False], [True]])
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def line(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


Case = tuple[Sequence[Array], Mapping[str, object]]

COMPARED = [([REAL, OTHER], {}), ([WHOLE, SMALL], {})]
REDUCED = [([WHOLE], {}), ([WHOLE], {"keepdims": 0}), ([WHOLE.astype(np.int32)], {})]

CASES: Mapping[str, Sequence[Case]] = {
    **dict.fromkeys(("Add", "Sub", "Mul"), COMPARED),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), COMPARED),
    **{key: [([BITS, MASK], {})] for key in ("And", "Or", "Xor")},
    **{key: [([REAL, OTHER, REAL], {}), ([WHOLE, SMALL], {}), ([WHOLE], {})] for key in ("Max", "Min")},
    **{key: [([REAL], {}), ([WHOLE], {})] for key in ("Abs", "Neg", "Sign")},
    **{key: [([REAL], {}), ([REAL - 3], {})] for key in ("Ceil", "Floor", "Round")},
    **{key: [*REDUCED, ([WHOLE, line(1)], {}), ([WHOLE, line(-2, 1)], {})] for key in ("ReduceMax", "ReduceMin")},
    **{key: [*REDUCED, ([WHOLE, line(0)], {"keepdims": 0})] for key in ("ReduceProd", "ReduceSum")},
    "Cast": [([REAL[:, :1]], {"to": 11}), ([WHOLE], {"to": 1}), ([WHOLE], {"to": 9}), ([WHOLE], {"to": 3}),
             *(([OTHER * 1.9], {"to": to}) for to in (3, 5, 6, 7)), ([-OTHER.astype(float) / 3], {"to": 7}),
             ([abs(OTHER) * 120], {"to": 2})],
    "Concat": [([REAL, OTHER], {"axis": 0}), ([WHOLE, WHOLE], {"axis": -1})],
    "ConstantOfShape": [([line(2, 3)], {"value": numpy_helper.from_array(line(7))}), ([line(4)], {})],
    "CumSum": [([WHOLE, line(1)[0]], {}), ([WHOLE, line(-2)[0]], {"reverse": 1}), ([WHOLE, line(1)], {"exclusive": 1})],
    "Div": [([REAL, OTHER], {}), ([WHOLE, SMALL], {})],
    "Expand": [([OTHER, line(2, 3)], {}), ([SMALL, line(4, 1, 1)], {})],
    "Flatten": [([CUBE], {"axis": axis}) for axis in (0, 1, -1, 3)],
    "Gather": [([CUBE, line(1, -1)], {"axis": 2}), ([CUBE, line(0)[0]], {})],
    "GatherElements": [([WHOLE, np.array([[1, 0, -1]])], {"axis": 0}), ([REAL, np.array([[2], [-1]])], {"axis": -1})],
    "GatherND": [([CUBE, np.array([[1, 2], [-1, 0]])], {}), ([CUBE, np.array([[[1]]])], {})],
    "Identity": [([REAL], {})],
    "IsNaN": [([np.array([np.nan, 1, np.inf], np.float32)], {})],
    "MatMulInteger": [([np.array([255, 3, 0], np.uint8), np.array([128, 127, 5], np.uint8)], {})],
    "Mod": [([WHOLE, SMALL], {}), ([WHOLE, SMALL], {"fmod": 1})],
    "Not": [([BITS], {})],
    "Pad": [([REAL, line(1, 0, 0, 2)], {}), ([WHOLE, line(0, 1, 1, 1), line(5)[0]], {}),
            ([REAL, line(0, 1, 0, 1)], {"mode": "edge"}), ([REAL, line(0, -1, 0, 0)], {})],
    "Pow": [([line(2, 3, -4).astype(np.float32), np.float32([0, 1, 3])], {}),
            ([np.float32([0, 0.25, 196]), np.array(0.5)], {}), ([WHOLE, line(2)], {})],
    "Range": [([line(start)[0], line(stop)[0], line(step)[0]], {}) for start, stop, step in ((0, 5, 2), (3, -4, -3))],
    "Reshape": [([CUBE, line(-1, 3)], {}), ([CUBE, line(0, 12)], {}), ([CUBE[:0], line(0, 5)], {"allowzero": 1})],
    "ScatterElements": [([WHOLE, np.array([[1, 0, -1]]), SMALL], {}),
                        ([REAL, np.array([[2], [-3]]), OTHER[:, :2].T.copy()], {"axis": 1}),
                        ([WHOLE, np.array([[1, 0, 1]]), SMALL], {"reduction": "add"})],
    "ScatterND": [([CUBE, np.array([[1, 2], [-2, 0]]), CUBE[0, 1:]], {}),
                  ([WHOLE, np.array([[1]]), SMALL], {"reduction": "add"})],
    "Slice": [([CUBE, line(1, -1), line(9, -9), line(1, 2), line(1, -2)], {}), ([CUBE, line(1), line(2)], {})],
    "Split": [([CUBE], {"axis": 1, "num_outputs": 2}), ([CUBE, line(1, 2)], {"axis": 1})],
    "Sqrt": [([abs(REAL)], {})],
    "Squeeze": [([OTHER, line(0)], {}), ([OTHER], {})],
    "Tile": [([WHOLE, line(2, 1)], {})],
    "Transpose": [([CUBE], {"perm": [2, 0, 1]}), ([CUBE], {})],
    "Trilu": [([CUBE], {}), ([CUBE, line(1)[0]], {"upper": 0}), ([REAL, line(-1)[0]], {})],
    "Unsqueeze": [([CUBE, line(1, -1)], {})],
    "Where": [([MASK, REAL, OTHER], {})],
}  # fmt: skip

LEFT = {"exclusive", "fmod", "mode", "reduction"}
"""Attributes with which an operator is left to the runtime."""


def test_all_are_covered() -> None:
    assert set(CASES) == set(constant_kernels.KERNELS)


def of_constants(op: str, inputs: Sequence[Array], attributes: Mapping[str, object]) -> onnx.ModelProto:
    """A model of an operator whose inputs are constants."""
    constants = [numpy_helper.from_array(np.array(data, order="C"), f"c{at}") for at, data in enumerate(inputs)]
    results = ["y", "z"][: 1 + (op == "Split")]
    node = helper.make_node(op, [each.name for each in constants], results, **attributes)
    ports = [helper.make_empty_tensor_value_info(name) for name in results]
    other = helper.make_node("Softplus", ["x"], ["n"])
    x, n = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xn")
    graph = helper.make_graph([node, other], "g", [x], [*ports, n], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


@pytest.mark.members(0)
@pytest.mark.parametrize("op", sorted(CASES))
def test_results_are_those_of_the_runtime(op: str) -> None:
    for inputs, attributes in CASES[op]:
        model = of_constants(op, inputs, attributes)
        found = layoutsolve.convert(model.SerializeToString(), opset=18).model
        feeds = {"x": np.ones(1, np.float32)}
        for truth, computed in zip(run(model, feeds), run(found, feeds), strict=True):
            assert truth.dtype == computed.dtype and truth.shape == computed.shape
            assert truth.tobytes() == computed.tobytes()
        left = bool(LEFT & attributes.keys()) or (op == "Pad" and (inputs[1] < 0).any())
        assert (op in [each.op_type for each in found.graph.node]) == (left or op == "Identity"), attributes


@pytest.mark.parametrize("op", sorted(CASES))
def test_no_result_is_larger_than_what_is_asked_for(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, folds, afforded = list[int](), Budget.folds, Budget.would_afford

    def ask(budget: Budget, size: int) -> bool:
        asked.append(size)
        return afforded(budget, size)

    def enter(budget: Budget, results: Sequence[Array]) -> bool:
        assert sum(each.nbytes for each in results) <= asked[-1]
        return folds(budget, results)

    monkeypatch.setattr(Budget, "would_afford", ask)
    monkeypatch.setattr(Budget, "folds", enter)
    for inputs, attributes in CASES[op]:
        layoutsolve.convert(of_constants(op, inputs, attributes).SerializeToString(), opset=18)
    assert asked
