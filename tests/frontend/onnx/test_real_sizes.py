"""Dynamic sizes that are computed through real numbers, as exporters of Resize do: followed where floats are exact."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.verification.runtimes import OnnxRuntime

FACTORS = (2.0, 0.5, 1.5, 0.25, 3.0, 0.875, 1.0)
INEXACT = (0.3, 1.1)
SIZES = ((1, 1), (2, 3), (7, 5), (33, 64), (255, 100))


def resized(
    step: str, factor: float, rounding: str | None, *, whole: bool = False, scales: bool = False
) -> onnx.ModelProto:
    """An image of open height and width, resized to sizes, or by scales that are their quotient, between Transposes;
    the factor is applied to all sizes where they are ``whole``.
    """
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
    ]
    if whole:
        nodes.append(helper.make_node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT))
    else:
        nodes.append(helper.make_node("Slice", ["s", "two", "four"], ["hw"]))
        nodes.append(helper.make_node("Slice", ["s", "zero", "two"], ["nc"]))
        nodes.append(helper.make_node("Cast", ["hw"], ["f"], to=onnx.TensorProto.FLOAT))
    nodes.append(helper.make_node(step, ["f", "k"], ["m"]))
    last = "m"
    if rounding is not None:
        nodes.append(helper.make_node(rounding, ["m"], ["whole"]))
        last = "whole"
    nodes.append(helper.make_node("Cast", [last], ["i"], to=onnx.TensorProto.INT64))
    sizes = "i"
    if not whole:
        nodes.append(helper.make_node("Concat", ["nc", "i"], ["sizes"], axis=0))
        sizes = "sizes"
    inputs = ["r", "", "", sizes]
    if scales:
        nodes.append(helper.make_node("Cast", [sizes], ["after"], to=onnx.TensorProto.FLOAT))
        nodes.append(helper.make_node("Cast", ["s"], ["before"], to=onnx.TensorProto.FLOAT))
        nodes.append(helper.make_node("Div", ["after", "before"], ["scales"]))
        inputs = ["r", "", "scales"]
    nodes.append(helper.make_node("Resize", inputs, ["u"], mode="nearest"))
    nodes.append(helper.make_node("Transpose", ["u"], ["y"], perm=[0, 2, 3, 1]))
    factors = np.array([1, 1, factor, factor] if whole else [factor, factor], np.float32)
    held = [numpy_helper.from_array(np.array([each]), name) for name, each in (("zero", 0), ("two", 2), ("four", 4))]
    ports = [helper.make_tensor_value_info("x", 1, ["n", "h", "w", 3]), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [*held, numpy_helper.from_array(factors, "k")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def transposes(source: onnx.ModelProto) -> int:
    """How many are left, when results are the same at all sizes at which the source computes any."""
    found = layoutsolve.convert(source)
    runtimes = [OnnxRuntime(each.SerializeToString(), level="none") for each in (source, found.model)]
    for height, width in SIZES:
        x = np.random.default_rng(height).normal(size=(2, height, width, 3)).astype(np.float32)
        try:
            (wanted,) = runtimes[0].run({"x": x})
        except layoutsolve.VerifyError:  # sizes of 0
            continue
        np.testing.assert_array_equal(runtimes[1].run({"x": x})[0], wanted)
    return sum(node.op_type == "Transpose" for node in found.model.graph.node)


@pytest.mark.parametrize("rounding", ["Floor", "Ceil", "Round", None])
@pytest.mark.parametrize("whole", [False, True])
def test_exact_factors(rounding: str | None, whole: bool) -> None:
    for factor in FACTORS:
        left = transposes(resized("Mul", factor, rounding, whole=whole))
        assert left == (2 if rounding == "Round" and factor % 1 else 0)


@pytest.mark.parametrize(("rounding", "divisor"), [*product(["Floor", "Ceil", None], [2.0, 3.0, 7.0, 1.0])])
def test_divisors(rounding: str | None, divisor: float) -> None:
    assert transposes(resized("Div", divisor, rounding)) == 0


@pytest.mark.parametrize("factor", INEXACT)
def test_factors_that_are_rounded(factor: float) -> None:
    assert transposes(resized("Mul", factor, "Floor")) == 2


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_scales_that_are_quotients_of_sizes(factor: float) -> None:
    assert transposes(resized("Mul", factor, "Floor", scales=True)) == 0
