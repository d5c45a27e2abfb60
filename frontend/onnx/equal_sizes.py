"""Sizes of what an operator reads that are equal wherever it runs: a number in one place is known in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.inference_standins import CONTRIB
from layoutsolve.ir.graph import Dim, Shape
from layoutsolve.proto.messages import opset_of

Pair = tuple[Dim, Dim]

_ENDING = frozenset(
    ("BiasGelu", "FastGelu", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
     "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
)  # fmt: skip
"""Operators whose other inputs have the last dimensions of the first, of the same sizes or of size 1."""

_CHANNELS: Mapping[str, int] = {"BatchNormalization": 1, "GroupNormalization": 21, "InstanceNormalization": 1}
"""Operators whose other inputs have one number for each channel of the first, from some operator set on."""

_DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "Attention": ("b h s d, b g t d, b g t e, -, b g u d, b g u e, b", "b s f, b t p, b t q, -, b g u d, b g u e, b"),
    "FusedConv": ("b c y x, o i k l, o, b o p q",),
    "GatedAdd": ("b k, b k, b 1", "b s k, b s k, b s 1", "b h s k, b h s k, b h s 1"),
    "MultiHeadAttention": ("b s f, b t p, b t q",),
    "RotaryEmbedding": ("b h s d, b s r, b s r, b s", "b s f, b s r, b s r, b s"),
    f"{CONTRIB}:RotaryEmbedding": ("b h s d, b s, m r, m r", "b s f, b s, m r, m r"),
}
"""The dimensions of what operators read; those of one name are equal. An input with another number of
them says nothing.
"""


def equate_sizes(call: Call) -> None:
    """Record which symbolic sizes of an operator's inputs are numbers, as they have to equal others."""
    if call.domain not in ("", CONTRIB) or not call.inputs:
        return
    shapes = [call.value(number).shape if call.known(number) else () for number in range(len(call.inputs))]
    if all(isinstance(dim, int) for shape in shapes for dim in shape):
        return
    for one, other in (*_repeated(call, shapes), *_equal(call, shapes)):
        if isinstance(one, int) != isinstance(other, int):
            call.draft.equate(one, other)


def _repeated(call: Call, shapes: Sequence[Shape]) -> Iterator[Pair]:
    """Sizes of the first input that are what another one has, a number but 1: that is not repeated along them."""
    first, op = shapes[0], call.op
    pairs: Iterable[Pair] = ()
    if op in _ENDING:
        pairs = (pair for other in shapes[1:] for pair in zip(first[::-1], other[::-1], strict=False))
    elif op in ("DequantizeLinear", "QuantizeLinear") and not call.attribute("block_size", 0):
        axis = call.attribute("axis", 1)
        if -len(first) <= axis < len(first):
            pairs = ((first[axis], other[0]) for other in shapes[1:] if len(other) == 1)
    yield from ((one, other) for one, other in pairs if isinstance(other, int) and other != 1)


def _named(call: Call, shapes: Sequence[Shape]) -> Iterator[Pair]:
    """Sizes that have one name in the list of an operator's dimensions."""
    op = f"{call.domain}:{call.op}" if f"{call.domain}:{call.op}" in _DIMENSIONS else call.op
    for text in _DIMENSIONS.get(op, ()):
        ports = [port.split() for port in text.split(",")]
        if len(ports[0]) != len(shapes[0]):
            continue
        full = [(names, shape) for names, shape in zip(ports, shapes, strict=False) if len(names) == len(shape)]
        pairs = [pair for names, shape in full for pair in zip(names, shape, strict=True)]
        known = {name: dim for name, dim in reversed(pairs) if isinstance(dim, int) and name not in ("1", "-")}
        yield from ((dim, known[name]) for name, dim in pairs if name in known)


def _equal(call: Call, shapes: Sequence[Shape]) -> Iterator[Pair]:
    """Sizes of channels, and of what is contracted: they are equal whatever they are."""
    first, op = shapes[0], call.op
    second = shapes[1] if len(shapes) > 1 and len(shapes[1]) >= 2 else ()
    if len(first) < 2:
        return
    yield from _named(call, shapes)
    if op == "ScatterElements" and len(shapes) == 3:
        yield from zip(shapes[1], shapes[2], strict=False)
    elif op == "ScatterND" and len(shapes) == 3 and second:
        yield from zip(second[:-1], shapes[2], strict=False)
        yield second[-1], len(first) + len(second) - 1 - len(shapes[2])
    if op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        yield from ((first[-1], other[-1]) for other in shapes[1:] if other)
    elif op in _CHANNELS and opset_of(call.draft.source.proto) >= _CHANNELS[op]:
        yield from ((first[1], other[0]) for other in shapes[1:] if len(other) == 1)
    elif op in ("Conv", "FusedConv") and second:
        contracted = second[1]
        if isinstance(contracted, int):
            yield first[1], contracted * call.attribute("group", 1)
    elif op == "ConvTranspose" and second:
        yield first[1], second[0]
    elif op == "MatMul" and second:
        yield first[-1], second[-2]
    elif op in ("DequantizeLinear", "QuantizeLinear") and len(first) == len(second):
        axis = call.attribute("axis", 1) % len(first)
        block = call.attribute("block_size", 0)
        for other in (shape for shape in shapes[1:] if len(shape) == len(first)):
            yield from ((first[at], other[at]) for at in range(len(first)) if at != axis)
            if block and isinstance(first[axis], int):
                yield -(-first[axis] // block), other[axis]
    elif op in ("FusedGemm", "Gemm") and len(first) == len(second) == 2:
        yield first[0 if call.attribute("transA", 0) else 1], second[1 if call.attribute("transB", 0) else 0]
