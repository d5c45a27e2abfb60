"""What keeps ONNX Runtime's optimiser from breaking a model, or from making it slower.

Each :class:`Guard` knows one of its transformers: the nodes that it would treat wrongly, and how to write them so that
it leaves them alone. Mostly that is a barrier, a node that it neither moves through nor removes. ``docs/runtimes.md``
tells of each which versions are concerned and what the guard costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.guards import floats, quantized
from layoutsolve.emit.guards.rewrites import (
    add_behind,
    copy_input,
    copy_matrix,
    cut_to_nothing,
    name_axes,
    put_barrier,
    scale_itself,
    take_all,
    take_images,
    write_sum,
)
from layoutsolve.emit.guards.scope import Fresh, Scope, widened
from layoutsolve.proto.messages import DOMAINS, GraphProto, NodeProto, TensorProto
from layoutsolve.proto.scopes import graphs_of


@dataclass(frozen=True)
class Guard:
    """How the nodes of some operators are kept from a transformer.

    ``concerned`` gives the readers between which and the node it would act wrongly, ``rewrite`` changes the two.
    """

    transformer: str
    operators: tuple[str, ...]
    concerned: Callable[[Scope, NodeProto], Sequence[NodeProto]]
    rewrite: Callable[[Scope, NodeProto, Sequence[NodeProto]], None]


_WEIGHED = ("Conv", "ConvTranspose", "Gemm")
"""The operators whose weights and biases are quantized where what they read and give is."""

GUARDS = (
    Guard("QDQPropagationTransformer", ("DequantizeLinear",), quantized.moved_too_far, put_barrier),
    Guard("QDQPropagationTransformer", ("Add",), quantized.to_viewed_product, write_sum),
    Guard("DoubleQDQPairsRemover", ("DequantizeLinear",), quantized.requantized, put_barrier),
    Guard("GeluFusion", ("DequantizeLinear",), quantized.gated_by_itself, put_barrier),
    Guard("QDQFinalCleanupTransformer", ("DequantizeLinear",), quantized.given_back, put_barrier),
    Guard("QDQSelectorActionTransformer", tuple(quantized.IS_SLOWER), quantized.slower_in_bytes, put_barrier),
    Guard("ClipQuantFusion", ("Clip",), quantized.in_tiny_steps, put_barrier),
    Guard("DivMulFusion", ("Div",), floats.of_reciprocals, put_barrier),
    Guard("PadFusion", ("Pad",), floats.pooled, name_axes),
    Guard("WeightBiasQuantization", _WEIGHED, quantized.of_real_weights, copy_input),
    Guard("WeightBiasQuantization", _WEIGHED, quantized.of_large_bias, add_behind),
    Guard("WeightBiasQuantization", ("Add",), quantized.to_product, write_sum),
    Guard("TransposeOptimizer", ("Transpose",), floats.made_slower, take_all),
    Guard("TransposeOptimizer", ("LogSoftmax", "Softmax"), floats.turned_back, take_images),
    Guard("SkipLayerNormFusion", ("Add",), floats.normalised, write_sum),
    Guard("MatMulScaleFusion", ("Gemm",), floats.scaled, scale_itself),
    Guard("MatmulTransposeFusion", ("MatMul",), floats.of_vectors, copy_matrix),
    Guard("NhwcTransformer", ("Resize",), floats.reached_by_transposes, take_images),
    Guard("ExpandElimination", ("Expand",), floats.emptied, cut_to_nothing),
)
"""All guards, by the transformers of ONNX Runtime that they are against."""

_BY_OPERATOR = {
    operator: [each for each in GUARDS if operator in each.operators]
    for operator in {operator for each in GUARDS for operator in each.operators}
}


def guard(graph: GraphProto, version: int, fresh: Fresh) -> None:
    """Write all parts of a model of operator set ``version`` that an optimiser would break in another way."""
    _guard(graph, version, {}, fresh)


def _guard(graph: GraphProto, version: int, around: Mapping[str, TensorProto], fresh: Fresh) -> None:
    constants = {**around, **{item.name: item for item in graph.initializer}}
    constants.update(widened(graph, constants))
    nodes = list(graph.node)  # kept, so that each stays the same object: what is behind them goes by that
    for node in nodes:
        for inner in graphs_of(node):
            _guard(inner, version, constants, fresh)
    scope = Scope(graph, version, constants, fresh)
    for node in nodes:
        own = node.domain in DOMAINS and node.input and node.output
        for each in _BY_OPERATOR.get(node.op_type, ()) if own else ():
            if concerned := each.concerned(scope, node):
                each.rewrite(scope, node, concerned)
    if scope.ahead or scope.behind or scope.gone:
        beside = ((*scope.ahead.get(id(node), ()), node, scope.behind.get(id(node))) for node in nodes)
        ordered = [each for placed in beside for each in placed if each is not None and id(each) not in scope.gone]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in ordered]
        del graph.node[:]
        graph.node.extend(copies)
