"""Quantized sources in ONNX beside what is written of them to TensorFlow Lite: roundings that what normalises makes
many steps of, and faults that are no rounding.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.emit import stored
from layoutsolve.ir.graph import Array
from layoutsolve.verification import onnx_source
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verdict import Verification

SCALES = {"x": 0.02, "w": 0.01, "y": 0.02, "n": 0.03}


def network(normal: str, weights: Array) -> onnx.ModelProto:
    """A layer whose results are alike to some steps, and what makes their differences large."""
    held = [numpy_helper.from_array(weights.astype(np.int8), "w"), numpy_helper.from_array(np.int8(0), "zero")]
    held += [numpy_helper.from_array(np.float32(each), f"s{name}") for name, each in SCALES.items()]
    held += [numpy_helper.from_array(np.full(6, each, np.float32), name) for name, each in (("one", 1), ("nought", 0))]
    more = {"axis": -1} if normal == "LayerNormalization" else {}

    def rounded(name: str, scale: str) -> list[onnx.NodeProto]:
        steps = [f"s{scale}", "zero"]
        return [
            helper.make_node("QuantizeLinear", [name, *steps], [f"{name}q"]),
            helper.make_node("DequantizeLinear", [f"{name}q", *steps], [f"{name}d"]),
        ]

    nodes = [
        *rounded("x", "x"),
        helper.make_node("DequantizeLinear", ["w", "sw", "zero"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["m"]),
        *rounded("m", "y"),
        helper.make_node(normal, ["md", "one", "nought"], ["n"], **more),
        *rounded("n", "n"),
    ]
    shape = (1, 6, 40)
    ports = [helper.make_tensor_value_info("x", 1, shape)]
    graph = helper.make_graph(nodes, "one", ports, [onnx.ValueInfoProto(name="nd")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def in_floats(normal: str, weights: Array) -> onnx.ModelProto:
    """The same in floats."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[1, 6, 40] x) => (float[1, 6, 6] n)
        <float[40, 6] w = {{{", ".join(map(str, weights.reshape(-1).tolist()))}}}, float[6] one = {{1, 1, 1, 1, 1, 1}},
        float[6] nought = {{0, 0, 0, 0, 0, 0}}> {{ m = MatMul(x, w) n = {normal} <epsilon = 1e-30>(m, one, nought) }}"""
    )
    return onnx.shape_inference.infer_shapes(model)


def verified(source: onnx.ModelProto, written: onnx.ModelProto, *, rounds: bool = True) -> Verification:
    """A source beside what is written of a model."""
    made = layoutsolve.convert(written, to="tflite")
    inside = made.assignment.graph.values, stored(made.assignment)
    return onnx_source.verify(
        source.SerializeToString(), made.content(""), relation=Relation(inside=inside), rounds=rounds
    )


@pytest.mark.members(1)
@pytest.mark.parametrize("normal", ["LayerNormalization", "InstanceNormalization"])
def test_roundings_that_become_many_steps(normal: str) -> None:
    """Each operator is right by itself, so the whole is; with other weights the layer is named that is off."""
    random = np.random.default_rng(4)
    weights = np.repeat(random.integers(-100, 100, (40, 1)), 6, 1) + random.integers(-1, 2, (40, 6))
    source = network(normal, weights)
    found = verified(source, source)
    assert found.passed and not found.agrees, str(found)
    other = weights.copy()
    other[::3] += 20
    departure = verified(source, network(normal, other)).inspection
    assert departure is not None and departure.departure is not None
    assert departure.departure.operator == "MatMul"


@pytest.mark.members(4)
@pytest.mark.parametrize("apart, fault", [(1e-6, 0), (1e-5, 0), (1e-3, 0), (1e-5, 1e-5), (1e-3, 1e-4), (0.1, 1e-2)])
def test_last_bits_that_become_large(apart: float, fault: float) -> None:
    """Sums that are alike to some bits are normalized: what is left of these bits is noise as far as the source itself
    has it, and more is a fault, also where the layer by itself is nearly right.
    """
    random = np.random.default_rng(4)
    weights = np.repeat(random.uniform(-1, 1, (40, 1)), 6, 1) + random.uniform(-apart, apart, (40, 6))
    source = in_floats("LayerNormalization", weights)
    other = weights * (1 + fault * random.uniform(-1, 1, weights.shape))
    found = verified(source, in_floats("LayerNormalization", other), rounds=False)
    assert found.passed == (fault == 0), str(found)
    assert not found.agrees
