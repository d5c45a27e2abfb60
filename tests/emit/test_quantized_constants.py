"""Parameters that are stored as integers behind a DequantizeLinear mean floats, whatever reads them in whatever layout:
what quantizes a model does so with all weights, also of operators that have no kernel on integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.truth import litert

RANDOM = np.random.default_rng(3)
SCALE, ZERO = 0.02, 2
IMAGE = (2, 4, 5, 3)
"""Of channels-last images, which are transposed in front of an operator and behind it."""

CASES: Sequence[tuple[str, Sequence[tuple[int, ...]], Mapping[str, Any]]] = (
    ("BatchNormalization", [(3,)] * 4, {}),
    ("InstanceNormalization", [(3,)] * 2, {}),
    ("GroupNormalization", [(3,)] * 2, {"num_groups": 3}),
    ("LayerNormalization", [(5,)] * 2, {"axis": 3}),
    ("RMSNormalization", [(5,)], {"axis": 3}),
    ("PRelu", [(3, 1, 1)], {}),
    ("PRelu", [(1,)], {}),
    ("Conv", [(4, 3, 3, 3), (4,)], {}),
    ("Conv", [(3, 1, 1, 1), (3,)], {"group": 3}),
    ("ConvTranspose", [(3, 4, 2, 2), (4,)], {}),
    ("MatMul", [(5, 4)], {}),
    ("Pow", [()], {}),
    ("Pow", [(3, 1, 1)], {}),
    ("Mul", [(3, 1, 1)], {}),
    ("Add", [(1,)], {}),
    ("Div", [(3, 1, 1)], {}),
    ("Max", [(3, 1, 1)], {}),
    ("Min", [()], {}),
    ("Clip", [(), ()], {}),
    ("Greater", [(3, 1, 1)], {}),
)


def model(op: str, shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any], along: int | None) -> Any:
    """The operator between Transposes; parameters are numbers from 0.2 to 2, per channel where ``along`` is 0."""
    held, nodes = list[onnx.TensorProto](), [helper.make_node("Transpose", ["x"], ["n"], perm=[0, 3, 1, 2])]
    for number, shape in enumerate(shapes):
        count = shape[0] if along is not None and shape else 1
        per = () if along is None or not shape else (count,)
        zeros = np.full(per, 0 if op in ("Conv", "ConvTranspose", "MatMul") else ZERO, np.int8)
        for name, data in (
            (f"w{number}", RANDOM.integers(12, 100, shape).astype(np.int8)),
            (f"s{number}", (np.float32(SCALE) * np.linspace(1, 1.3, count, dtype=np.float32)).reshape(per)),
            (f"z{number}", zeros),
        ):
            held.append(numpy_helper.from_array(np.asarray(data), name))
        axis = {"axis": 0} if per else {}
        nodes.append(helper.make_node("DequantizeLinear", [f"{c}{number}" for c in "wsz"], [f"d{number}"], **axis))
    names = [f"d{number}" for number in range(len(shapes))]
    if op == "Clip":  # the limits in their order
        held[0].CopyFrom(numpy_helper.from_array(np.array(-20, np.int8), "w0"))
    nodes.append(helper.make_node(op, ["n", *names], ["o"], **attributes))
    if op == "Greater":
        nodes.append(helper.make_node("Cast", ["o"], ["f"], to=1))
    nodes.append(helper.make_node("Transpose", ["f" if op == "Greater" else "o"], ["y"], perm=[0, 2, 3, 1]))
    port = helper.make_tensor_value_info("x", 1, IMAGE)
    graph = helper.make_graph(nodes, "one", [port], [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.members(0)
@pytest.mark.parametrize("along", [None, 0])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_parameters_mean_floats(number: int, along: int | None) -> None:
    source = model(*CASES[number], along)
    x = RANDOM.uniform(0.1, 1.5, IMAGE).astype(np.float32)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    found: list[Array] = [
        layoutsolve.convert(source, target=target).session().run({"x": x})["y"] for target in ("ort-cpu", "webgpu")
    ]
    written = layoutsolve.convert(source, to="tflite").content("")
    found += [litert().run(written, [x], delegate=delegate).results[0] for delegate in (False, True)]
    for each in found:
        np.testing.assert_allclose(each, expected, rtol=2e-5, atol=2e-5)
