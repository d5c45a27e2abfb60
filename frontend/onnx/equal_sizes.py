"""Sizes of what an operator reads that are equal wherever it runs: a number in one place is known in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from layoutsolve.frontend.onnx.draft import Call
from layoutsolve.frontend.onnx.inference_standins import CONTRIB
from layoutsolve.frontend.onnx.versions import opset_of
from layoutsolve.ir.graph import Dim, Shape

Pair = tuple[Dim, Dim]

_ENDING = frozenset(
    ("BiasGelu", "FastGelu", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
     "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
)  # fmt: skip
"""Operators whose other inputs have the last dimensions of the first, of the same sizes or of size 1."""

_CHANNELS: Mapping[str, int] = {"BatchNormalization": 1, "GroupNormalization": 21, "InstanceNormalization": 1}
"""Operators whose other inputs have one number for each channel of the first, from some operator set on."""


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


def _equal(call: Call, shapes: Sequence[Shape]) -> Iterator[Pair]:
    """Sizes of channels, and of what is contracted: they are equal whatever they are."""
    first, op = shapes[0], call.op
    second = shapes[1] if len(shapes) > 1 and len(shapes[1]) >= 2 else ()
    if len(first) < 2:
        return
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
    elif op in ("FusedGemm", "Gemm") and len(first) == len(second) == 2:
        yield first[0 if call.attribute("transA", 0) else 1], second[1 if call.attribute("transB", 0) else 0]
