"""Operators on stored integers, in place of those on floats between DequantizeLinear and QuantizeLinear.

They are the kernels that ONNX Runtime itself makes of that pattern from its level ``extended`` on, and on the same
conditions (``qdq_selectors.cc``). Written as such they are there at every level, and give the same integers. Those that
take longer than floats are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit import selected_weights, slow_int8_kernels
from layoutsolve.emit.parameters import parameters_of
from layoutsolve.emit.writer import Kernels, Writer
from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Value
from layoutsolve.ir.saturation import SUMMING, Weights, places_of

SMALLEST, LARGEST = 1e-30, 1e30
"""Steps between which float32 holds all bits of their products and quotients."""

_CONTRIB = "com.microsoft"

_FACTORS = ("alpha", "beta")
"""What Gemm has that kernels on bytes do not multiply by."""

_MATRIX = 2


def write(writer: Writer, node: Node) -> bool:
    """Write a node as an operator on stored integers; False where there is none that may be used."""
    form, kernels, values = _FORMS.get(node.op), writer.kernels, writer.graph.values
    if form is None or kernels is None or node.storage or node.domain or form.domain not in kernels.domains:
        return False
    if not (writer.ahead | writer.mixed).isdisjoint(node.inputs) or not form.fits(writer.graph, node, kernels):
        return False
    stored, plain = list[str](), list[str]()
    for name in filter(None, node.inputs):
        quant = values[name].quant
        if quant is None or values[name].dtype not in BYTES:
            plain.append(writer.stored(name))
        else:
            stored += [writer.stored(name), *parameters_of(writer, name, quant)[0]]
    (name,) = node.outputs
    attributes = {key: value for key, value in {**node.attributes, **form.more}.items() if key not in form.without}
    inputs = form.inputs(stored, parameters_of(writer, name, values[name].steps)[0], plain)
    if node.op in SUMMING and node.inputs[1] in writer.selection.real:
        weights = values[node.inputs[1]]
        zero = weights.steps.zero_point.reshape(() if weights.steps.axis is None else -1)
        ((place, zero_place),) = places_of(form.op, form.domain)[1]
        both = [Weights(place, zero_place, weights, zero)]
        selected_weights.write_both(writer, form.op, inputs, [values[name]], attributes, form.domain, both)
    else:
        writer.node(form.op, inputs, [writer.name(name)], attributes, form.domain)
    return True


def _is_alike(graph: Graph, node: Node, _: Kernels) -> bool:
    """Whether the result and all that is read but a condition are bytes of one type, each in steps of one size."""
    names = node.inputs[1:] if node.op == "Where" else node.inputs
    values = [graph.values[name] for name in (*names, *node.outputs)]
    return all(_is_stored(value) and value.dtype == values[-1].dtype for value in values)


def _is_fast_pool(graph: Graph, node: Node, kernels: Kernels) -> bool:
    """Kernels on bytes know no dilations."""
    given, made = (slow_int8_kernels.sizes(graph, name) for name in (node.inputs[0], node.outputs[0]))
    slow = slow_int8_kernels.of_windows(given, made, node.attributes["kernel_shape"])
    return not slow and "dilations" not in node.attributes and _is_alike(graph, node, kernels)


def _is_fast_softmax(graph: Graph, node: Node, kernels: Kernels) -> bool:
    slow = slow_int8_kernels.of_rows(slow_int8_kernels.sizes(graph, node.inputs[0]), node.attributes.get("axis", -1))
    return not slow and _is_alike(graph, node, kernels)


def _is_product(graph: Graph, node: Node, kernels: Kernels) -> bool:
    """Whether bytes are multiplied by bytes, which may have steps for each result, and a bias counts in both."""
    x, weights, *bias = (graph.values[name] for name in node.inputs if name)
    y = graph.values[node.outputs[0]]
    if not (_is_stored(x) and _is_stored(weights, _results(node, weights)) and _is_stored(y) and x.dtype == y.dtype):
        return False
    if (x.dtype, weights.dtype) == ("int8", "uint8") or any(node.attributes.get(name, 1) != 1 for name in _FACTORS):
        return False
    if (x.dtype, weights.dtype) == ("uint8", "int8") and kernels.saturate and not _is_depthwise(node, weights):
        return False
    with np.errstate(all="ignore"):
        steps = x.steps.scale * weights.steps.scale
        held = are_held(steps) and are_held(steps / y.steps.scale)
    even = bool((weights.steps.zero_point == weights.steps.zero_point[0]).all())
    return held and even and all(counts_in(each, steps) for each in bias)


def _results(node: Node, weights: Value) -> int | None:
    """The dimension of weights that has an index for each result; None where several have, or kernels take none."""
    if node.op == "Conv":
        return 0
    return None if len(weights.shape) != _MATRIX else 0 if node.attributes.get("transB") else 1


def _is_stored(value: Value, axis: int | None = None) -> bool:
    """Whether a value is stored as bytes, in steps of one size or with one for each index of an ``axis``."""
    quant = value.quant
    if value.dtype not in BYTES or quant is None or quant.block or quant.axis not in (None, axis):
        return False
    return are_held(quant.scale)


def are_held(steps: Array) -> bool:
    """Whether float32 holds all bits of products and quotients of steps."""
    return bool(((steps > SMALLEST) & (steps < LARGEST)).all())


def _is_depthwise(node: Node, weights: Value) -> bool:
    """Whether a kernel adds no pairs of products."""
    return node.op == "Conv" and weights.shape[:2] == (node.attributes.get("group", 1), 1)


def counts_in(bias: Value, steps: Array) -> bool:
    """Whether a bias is what a kernel adds to its sums."""
    quant = bias.quant
    if bias.dtype != "int32" or quant is None or quant.zero_point.any():
        return False
    return np.array_equal(quant.scale, steps)


@dataclass(frozen=True)
class _Form:
    """An operator on stored integers, and whether it ``fits`` a node. ``inputs`` puts in its order what is stored, with
    parameters, the parameters of the result, and what is read as it is: a bias or a condition. It has ``more``
    attributes than the node, and is written ``without`` some.
    """

    op: str
    domain: str = _CONTRIB
    fits: Callable[[Graph, Node, Kernels], bool] = _is_alike
    inputs: Callable[[list[str], list[str], list[str]], list[str]] = lambda stored, result, plain: (
        stored + result + plain
    )
    more: Mapping[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()


_FORMS: Mapping[str, _Form] = {
    "Add": _Form("QLinearAdd"),
    "AveragePool": _Form("QLinearAveragePool", fits=_is_fast_pool),
    "Concat": _Form("QLinearConcat", inputs=lambda stored, result, _: result + stored),
    "Conv": _Form("QLinearConv", "", _is_product),
    "Gemm": _Form(
        "QGemm",
        _CONTRIB,
        _is_product,
        lambda stored, result, bias: [*stored, *(bias or [""]), *result],
        without=_FACTORS,
    ),
    "GlobalAveragePool": _Form("QLinearGlobalAveragePool"),
    "LeakyRelu": _Form("QLinearLeakyRelu"),
    "MatMul": _Form("QLinearMatMul", "", _is_product),
    "Mul": _Form("QLinearMul"),
    "Sigmoid": _Form("QLinearSigmoid"),
    "Softmax": _Form("QLinearSoftmax", fits=_is_fast_softmax, more={"opset": 13}),
    "Where": _Form("QLinearWhere", inputs=lambda stored, result, condition: condition + stored + result),
}
"""By operator the one on stored integers. QLinearConv and QLinearMatMul are ONNX's own, the others ONNX Runtime's."""
