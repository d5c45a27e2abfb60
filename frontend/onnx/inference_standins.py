"""What stands in for operators whose types and sizes the library does not infer, as ONNX Runtime's own, or infers
wrongly, while those of others are inferred: operators of ONNX whose results have the same.

Most are those that ONNX Runtime's optimiser writes, and its quantizer (``docs/ContribOperators.md`` there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from layoutsolve.frontend.onnx import einsum
from layoutsolve.proto import pool_sizes
from layoutsolve.proto.messages import DOMAINS, AttributeProto, GraphProto, NodeProto, TensorProto, attribute, graphs_in
from layoutsolve.proto.scopes import nodes_of

CONTRIB = "com.microsoft"
"""The domain of these operators."""

ML = "ai.onnx.ml"
"""That of operators of classical models."""

_WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "strides")
"""The attributes that the sizes of a window's results depend on."""

_SAME = (
    "BiasGelu", "DequantizeLinear", "FastGelu", "GatedAdd", "Gelu", "Inverse", "QLinearLeakyRelu", "QLinearSigmoid",
    "QLinearSoftmax", "QuantizeLinear", "QuickGelu", "RotaryEmbedding", "SampleOp", "ScaledSiLU",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Trilu",
)  # fmt: skip
"""Operators whose results are as large as what they are given first."""

_OTHERS = {"": ("GroupNormalization",), ML: ("Imputer", "Scaler")}
"""The same of other domains."""

_TYPED = {"DequantizeLinear": 1, "MatMulIntegerToFloat": 2, "QuantizeLinear": 2}
"""The input whose type a result has, where that is not the first one."""


def substitute(graph: GraphProto) -> None:
    """Replace, in a graph and those within it, the nodes that others stand in for."""
    _without_empty_axes(graph)
    if any(map(_stand, graph.node)):
        made = [each for node in graph.node for each in (stand_ins(node) or [node])]
        kept = [NodeProto.FromString(node.SerializeToString()) for node in made]
        del graph.node[:]
        graph.node.extend(kept)
    for node in graph.node:
        for each in node.attribute:
            for inner in graphs_in(each):
                substitute(inner)


def is_misled(graph: GraphProto) -> bool:
    """Whether sizes that a file states may be those that the library infers, and others than a runtime's."""
    return any(map(_is_longer, nodes_of(graph)))


def _without_empty_axes(graph: GraphProto) -> None:
    """Let every Squeeze along no axes be one along all of size 1, as ONNX Runtime takes it; the library leaves all."""
    empty = {each.name for each in graph.initializer if not prod(each.dims)}
    for node in graph.node:
        if node.op_type == "Squeeze" and node.domain in DOMAINS and empty.intersection(node.input[1:]):
            del node.input[1:]


def stand_ins(node: NodeProto) -> list[NodeProto]:
    """Operators of ONNX whose results are called as those of another operator are; none where none are known."""
    if not node.output:
        return []
    if pool_sizes.is_ceiling(node):
        return [pool_sizes.floored(node)]
    if _is_longer(node):
        return [_node("Expand", [node.input[0], f"{node.output[0]}/sizes"], node.output[0])]  # sizes are unknown
    if node.op_type == "Einsum" and node.domain in DOMAINS:
        return list(einsum.stand_ins(node))
    if node.op_type in _OTHERS.get(node.domain, ()) and node.input:
        return list(_of_others(node))
    if node.domain != CONTRIB:
        return []
    given = {each.name: each for each in node.attribute}
    try:
        return list(_written(node, given, _is_last(node, given)))
    except LookupError:  # fewer inputs or attributes than the operator has
        return []


def _stand(node: NodeProto) -> bool:
    """Whether something may stand in for an operator."""
    domain = "" if node.domain in DOMAINS else node.domain
    others = node.op_type in _OTHERS.get(domain, ()) or (not domain and node.op_type == "Einsum")
    return domain == CONTRIB or others or pool_sizes.is_ceiling(node) or _is_longer(node)


def _is_longer(node: NodeProto) -> bool:
    """Whether the library takes the result of a transposed convolution for larger than ONNX Runtime's."""
    if node.op_type != "ConvTranspose" or node.domain not in DOMAINS:
        return False
    given = {each.name: each for each in node.attribute}
    same = "auto_pad" in given and given["auto_pad"].s.startswith(b"SAME")
    return same and "output_padding" in given and "output_shape" not in given


def _of_others(node: NodeProto) -> Iterator[NodeProto]:
    """What stands in for operators of other domains."""
    if node.op_type == "Scaler":
        yield _node("Cast", node.input[:1], node.output[0], [attribute("to", TensorProto.FLOAT)])
    else:
        yield _node("Identity", node.input[:1], node.output[0])


def _is_last(node: NodeProto, given: dict[str, AttributeProto]) -> bool:
    """Whether channels come last."""
    return node.op_type == "NhwcMaxPool" or ("channels_last" in given and given["channels_last"].i != 0)


def _written(node: NodeProto, given: dict[str, AttributeProto], last: bool) -> Iterator[NodeProto]:
    op, inputs, output = node.op_type, list(node.input), node.output[0]
    if op in _SAME:
        yield _node("Identity", [inputs[0]], _before(op, output))
        if op.startswith("Skip") and len(node.output) > 3 and node.output[3]:
            yield _node("Identity", [inputs[0]], node.output[3])
    elif op == "QLinearGlobalAveragePool" and last:
        yield from _first_and_last(inputs[0], output)
    elif op in _AS:
        kind, numbers, kept = _AS[op]
        sizes = [given[name] for name in kept if name in given]
        found = [inputs[number] for number in numbers if number < len(inputs)]
        made = _node(kind, found, _before(op, output), sizes)
        yield from _channels_first(made, len(given["kernel_shape"].ints)) if last else [made]
    elif op in _FORMS:
        yield from _FORMS[op](node, given)
    if op in _TYPED:
        yield _node("CastLike", [_before(op, output), inputs[_TYPED[op]]], output)


_AS: dict[str, tuple[str, tuple[int, ...], tuple[str, ...]]] = {
    "DynamicQuantizeMatMul": ("MatMul", (0, 1), ()),
    "FusedConv": ("Conv", (0, 1, 2), _WINDOW),
    "GatherND": ("GatherND", (0, 1), ()),
    "GridSample": ("GridSample", (0, 1), ()),
    "MatMulIntegerToFloat": ("MatMul", (0, 1), ()),
    "MaxpoolWithMask": ("MaxPool", (0,), _WINDOW),
    "NhwcMaxPool": ("MaxPool", (0,), _WINDOW),
    "Pad": ("Pad", (0, 1, 2), ("mode",)),
    "QLinearAdd": ("Add", (0, 3), ()),
    "QLinearAveragePool": ("MaxPool", (0,), _WINDOW),
    "QLinearConv": ("QLinearConv", tuple(range(9)), _WINDOW),
    "QLinearGlobalAveragePool": ("GlobalMaxPool", (0,), ()),
    "QLinearMul": ("Mul", (0, 3), ()),
    "QLinearWhere": ("Where", (0, 1, 4), ()),
}
"""Operators as others of ONNX on some of their inputs, with some of their attributes."""


_INT32 = attribute("to", TensorProto.INT32)


def _packed_product(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    """A product with weights of K x N elements, packed in blocks."""
    output = node.output[0]
    shape, weights = f"{output}/shape", f"{output}/weights"
    yield _node("Constant", [], shape, [attribute("value_ints", [given["K"].i, given["N"].i])])
    yield _node("ConstantOfShape", [shape], weights)
    yield _node("MatMul", [node.input[0], weights], output)


def _concatenated(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    yield _node("Concat", node.input[2::3], node.output[0], [given["axis"]])


def _distances(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    yield _node("Einsum", node.input[:2], node.output[0], [attribute("equation", "mk,nk->mn")])


def _product_of_int16(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    sides = [f"{node.output[0]}/{number}" for number in range(2)]
    yield from (_node("Cast", [node.input[number]], side, [_INT32]) for number, side in enumerate(sides))
    yield _node("MatMul", sides, node.output[0])


def _hash(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    signed = "positive" in given and given["positive"].i == 0
    yield _node("Cast", node.input[:1], node.output[0], [_INT32 if signed else attribute("to", TensorProto.UINT32)])


def _attention(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    """Attention whose bias has queries, keys and values of one size."""
    if "qkv_hidden_sizes" in given:
        return
    inputs, output = node.input, node.output[0]
    parts = [f"{output}/{name}" for name in ("queries", "keys", "values")]
    axis = [attribute("axis", 0), attribute("num_outputs", 3)]
    yield NodeProto(op_type="Split", input=inputs[2:3], output=parts, attribute=axis)
    yield _node("CastLike", [inputs[0], inputs[2]], f"{output}/lines")
    yield _node("Einsum", [f"{output}/lines", parts[2]], output, [attribute("equation", "bsi,j->bsj")])


def _multi_head_attention(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    if node.input[2]:
        equation = attribute("equation", "bsi,btj->bsj")
        yield _node("Einsum", [node.input[0], node.input[2]], node.output[0], [equation])


def _embedded(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    inputs, outputs = node.input, node.output
    yield _node("Gather", [inputs[2], inputs[0]], outputs[0])
    if len(outputs) > 1 and outputs[1]:
        yield _node("Einsum", [inputs[0]], outputs[1], [attribute("equation", "bs->b")])
    if len(outputs) > 2 and outputs[2]:
        yield _node("Identity", [outputs[0]], outputs[2])


def _fused_product(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    yield _node("Einsum", node.input[:2], node.output[0], [attribute("equation", _equation(given))])


def _gemm(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    yield _node("Gemm", node.input[:2], node.output[0], _transposed(given))


def _quantized_gemm(node: NodeProto, given: dict[str, AttributeProto]) -> Iterator[NodeProto]:
    """A Gemm, of the type of the zero point of its result, or of its first operand."""
    inputs, output = node.input, node.output[0]
    yield _node("Gemm", [inputs[0], inputs[3]], _before("QGemm", output), _transposed(given))
    yield _node("CastLike", [_before("QGemm", output), inputs[8 if len(inputs) > 8 and inputs[8] else 1]], output)


def _transposed(given: dict[str, AttributeProto]) -> list[AttributeProto]:
    return [given[name] for name in ("transA", "transB") if name in given]


_FORMS: dict[str, Callable[[NodeProto, dict[str, AttributeProto]], Iterator[NodeProto]]] = {
    "Attention": _attention,
    "CDist": _distances,
    "EmbedLayerNormalization": _embedded,
    "FusedGemm": _gemm,
    "FusedMatMul": _fused_product,
    "MatMulBnb4": _packed_product,
    "MatMulInteger16": _product_of_int16,
    "MatMulNBits": _packed_product,
    "MultiHeadAttention": _multi_head_attention,
    "MurmurHash3": _hash,
    "QAttention": _attention,
    "QGemm": _quantized_gemm,
    "QLinearConcat": _concatenated,
    "TransposeMatMul": _fused_product,
}
"""Operators as several of ONNX, or by their attributes."""


def _equation(given: dict[str, AttributeProto]) -> str:
    """What FusedMatMul computes, as Einsum says it: an operand's rows come first, or its batch."""
    sides = []
    for side, (rows, columns) in (("A", "ik"), ("B", "kj")):
        turned, apart = (given.get(name, AttributeProto()).i for name in (f"trans{side}", f"transBatch{side}"))
        outer, inner = (columns, rows) if turned else (rows, columns)
        sides.append(f"{outer}...{inner}" if apart else f"...{outer}{inner}")
    return f"{','.join(sides)}->...ij"


def _channels_first(node: NodeProto, rank: int) -> Iterator[NodeProto]:
    """An operator between Transposes from and to channels-last, on images of so many dimensions beside channels."""
    first, made = f"{node.output[0]}/image", f"{node.output[0]}/result"
    yield _node("Transpose", [node.input[0]], first, [attribute("perm", [0, rank + 1, *range(1, rank + 1)])])
    yield _node(node.op_type, [first, *node.input[1:]], made, node.attribute)
    yield _node("Transpose", [made], node.output[0], [attribute("perm", [0, *range(2, rank + 2), 1])])


def _first_and_last(tensor: str, output: str) -> Iterator[NodeProto]:
    """What has the first and the last dimension of a tensor, and size 1 for all between, however many these are."""
    back, first, last = (f"{output}/{name}" for name in ("back", "first", "last"))
    axis = [attribute("axis", 1)]
    yield _node("Transpose", [tensor], back)
    for source, name in ((tensor, first), (back, f"{last}/back")):
        yield _node("GlobalMaxPool", [source], f"{name}/two")
        yield _node("ArgMax", [f"{name}/two"], name, axis)
    yield _node("Transpose", [f"{last}/back"], last)
    yield _node("Add", [first, last], f"{output}/sizes")
    yield _node("CastLike", [f"{output}/sizes", tensor], output)


def _before(op: str, output: str) -> str:
    """What a result is called before it is of its type."""
    return f"{output}/untyped" if op in _TYPED or op == "QGemm" else output


def _node(op: str, inputs: Sequence[str], output: str, attributes: Sequence[AttributeProto] = ()) -> NodeProto:
    return NodeProto(op_type=op, input=inputs, output=[output], attribute=attributes)
