"""Quantized activations in steps around zero: nothing is quantized with a zero point, and all saturates."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper

import layoutsolve
from layoutsolve.frontend.passes import symmetric_activations
from layoutsolve.frontend.passes.quantized_values import range_of
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from tests.frontend.passes.test_floats import convolution, expected, meant, network, numbers
from tests.graphs import run
from tests.random_models import network as model


def zero_points(written: ModelProto) -> list[str]:
    """The operators that quantize, or dequantize, by other types than int8, or by a zero point other than 0."""
    held = {each.name: numpy_helper.to_array(each) for each in written.graph.initializer}
    found = []
    for node in written.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero = held[node.input[2]] if len(node.input) > 2 else np.zeros(1, np.uint8)
            found += [node.name] if zero.dtype != np.int8 or zero.any() else []
    return found


def _bound(graph: Graph) -> float:
    """How far the result of the one operator of a graph may be from the source's."""
    (node, *_), result = graph.nodes, graph.values[graph.outputs[0]]
    ends = [max(map(abs, range_of(graph.values[name]))) for name in node.inputs if graph.values[name].quant is not None]
    slopes = list(reversed(ends)) if node.op == "Mul" else [1.0] * len(ends)
    inputs = sum(slope * end / 127 / 2 for slope, end in zip(slopes, ends, strict=True))
    assert result.quant is not None
    return float(inputs + max(map(abs, range_of(result))) / 127 / 2 + 1.51 * result.quant.scale[0])


@pytest.mark.members(40)
@pytest.mark.parametrize("seed", range(120))
def test_one_operator(seed: int) -> None:
    """It is within half a step of each input and of its result, and saturates where the source does."""
    graph = network(seed, 1)
    again, given = symmetric_activations.computed(graph, Budget()), numbers(graph, seed)
    stored, _ = run(again, given)
    last = graph.values[graph.outputs[0]]
    np.testing.assert_allclose(meant(last, stored), expected(graph, given)[0], atol=_bound(graph))
    for name, value in again.values.items():
        if value.quant is not None and name not in (*again.inputs, *again.outputs):
            assert value.dtype == "int8" and not value.quant.zero_point.any()


@pytest.mark.members(7)
@pytest.mark.parametrize("seed", range(24))
def test_models(seed: int) -> None:
    """No zero point is left in random networks; types of inputs and outputs are the source's; the results are those of
    floats, but for rounding.
    """
    source = model(seed).source
    found = layoutsolve.convert(source, quant="symmetric", target="tensorrt")
    assert not zero_points(found.model) and found.share is not None and not found.share.asymmetric
    plain, floats = (layoutsolve.convert(source, target="onnx", quant=quant).model for quant in ("qdq", "float"))
    for one, other in ((found.model.graph.input, plain.graph.input), (found.model.graph.output, plain.graph.output)):
        assert [each.type.tensor_type.elem_type for each in one] == [each.type.tensor_type.elem_type for each in other]
    assert len(floats.graph.output) == len(found.model.graph.output)


@pytest.mark.parametrize("zeros", [(3, -128), (0, 0), (-128, 20)])
def test_a_convolution(zeros: tuple[int, int]) -> None:
    """Its kernel is between DequantizeLinear and QuantizeLinear, its bias in floats."""
    source = convolution(*zeros)
    written = layoutsolve.convert(source, quant="symmetric", target="tensorrt").model
    makers = {name: node for node in written.graph.node for name in node.output}
    (kernel,) = (node for node in written.graph.node if node.op_type == "Conv")
    assert [makers[name].op_type for name in kernel.input[:2]] == ["DequantizeLinear"] * 2
    assert kernel.input[2] not in makers and not zero_points(written)
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 8)).astype(np.int8)
    results = []
    for quant in ("symmetric", "float"):
        proto = layoutsolve.convert(source, quant=quant, target="tensorrt").model
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(None, {"x": x})[0].astype(int))
    assert np.abs(results[0] - results[1]).mean() < 4 and len(np.unique(results[0])) > 10


def test_what_is_told() -> None:
    source = convolution()
    found = layoutsolve.verify(source, layoutsolve.convert(source, quant="symmetric"))
    assert found.verdict == "not verified" and "verify --quant float" in str(found)
    assert f"{found.outputs[0].name}: {found.outputs[0].distance}" in str(found)
    with pytest.raises(layoutsolve.OptionError, match="gains nothing by symmetric ones"):
        layoutsolve.convert(source, quant="symmetric", weights="symmetric")
