"""Dilated convolutions that were written as SPACE_TO_BATCH_ND, convolutions, BATCH_TO_SPACE_ND.

TensorFlow exports them so. In between every step is ``block`` steps of the image, so the convolutions get that
dilation; what the outer operators pad and crop becomes padding of the first convolution and is taken off the last's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph, Tensor

EXPLICIT_PADS = "explicit_pads"
"""An option that no file has: padding before (height, width) and after them."""

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_ELEMENTWISE = ("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "ELU", "LOGISTIC", "TANH", "HARD_SWISH", "QUANTIZE")


def dilated(model: Model) -> Model:
    """The model with the pattern replaced in its main subgraph, wherever nothing else reads what lies in between."""
    subgraph = model.subgraphs[0]
    if all(operator.name != "SPACE_TO_BATCH_ND" for operator in subgraph.operators):
        return model
    uses = Counter(index for operator in subgraph.operators for index in operator.inputs)
    uses.update(subgraph.outputs)
    readers: dict[int, list[Operator]] = {}
    for operator in subgraph.operators:
        for index in set(operator.inputs):
            readers.setdefault(index, []).append(operator)
    replaced: dict[int, Operator | None] = {}
    inner: set[int] = set()
    for start in subgraph.operators:
        if start.name == "SPACE_TO_BATCH_ND" and len(start.outputs) == 1:
            for first in readers.get(start.outputs[0], ()):
                chain = _chain(start, first, uses, readers)
                merged = _merged(subgraph.tensors, chain) if len(chain) > 2 else None
                if merged:
                    replaced[chain[-1].index] = None
                    replaced.update({each.index: each for each in merged})
                    inner.update(each.outputs[0] for each in merged[:-1])
    return replace(model, subgraphs=(_rebuilt(subgraph, replaced, inner), *model.subgraphs[1:]))


def _rebuilt(subgraph: Subgraph, replaced: dict[int, Operator | None], inner: set[int]) -> Subgraph:
    """The subgraph with operators replaced or left out; tensors in between have other shapes than the file states."""
    kept = (replaced.get(operator.index, operator) for operator in subgraph.operators)
    tensors = (replace(each, shape=(), signature=()) if each.index in inner else each for each in subgraph.tensors)
    return replace(subgraph, operators=tuple(each for each in kept if each is not None), tensors=tuple(tensors))


def _chain(start: Operator, first: Operator, uses: Counter[int], readers: dict[int, list[Operator]]) -> list[Operator]:
    """From SPACE_TO_BATCH_ND by one of its readers to BATCH_TO_SPACE_ND; empty where something else lies in between."""
    chain = [start, first]
    while chain[-1].name in _CONVOLUTIONS or (chain[-1].name in _ELEMENTWISE and len(chain) > 2):
        source, outputs = chain[-2].outputs[0], chain[-1].outputs
        if chain[-1].inputs[0] != source or len(outputs) != 1 or uses[outputs[0]] != 1 or outputs[0] not in readers:
            return []
        chain.append(readers[outputs[0]][0])
    fits = chain[-1].name == "BATCH_TO_SPACE_ND" and chain[-1].inputs[0] == chain[-2].outputs[0]
    return chain if fits else []


def _merged(tensors: Sequence[Tensor], chain: Sequence[Operator]) -> list[Operator] | None:
    """The operators between the ends, dilated; None where the ends do not fit each other."""
    before, *between, after = chain
    ends = _constants(tensors, before, after)
    convolutions = [each for each in between if each.name in _CONVOLUTIONS]
    if ends is None or not convolutions or any(_pads(tensors, each) is None for each in convolutions):
        return None
    blocks, pads, crops = ends
    first, last = convolutions[0].index, convolutions[-1].index
    merged: list[Operator] = []
    for each in between:
        inputs = (before.inputs[0], *each.inputs[1:]) if each is between[0] else each.inputs
        outputs = after.outputs if each is between[-1] else each.outputs
        options = each.options
        own = _pads(tensors, each) if each.name in _CONVOLUTIONS else None
        if own is not None:
            grown = [pad * blocks[axis % 2] for axis, pad in enumerate(own)]
            grown = [pad + more for pad, more in zip(grown, pads, strict=True)] if each.index == first else grown
            grown = [pad - less for pad, less in zip(grown, crops, strict=True)] if each.index == last else grown
            if min(grown) < 0:
                return None
            dilations = {f"dilation_{axis}_factor": options.get(f"dilation_{axis}_factor", 1) * block
                         for axis, block in zip("hw", blocks, strict=True)}  # fmt: skip
            options = {**options, **dilations, EXPLICIT_PADS: tuple(grown)}
        merged.append(replace(each, inputs=inputs, outputs=outputs, options=options))
    return merged


def _pads(tensors: Sequence[Tensor], convolution: Operator) -> list[int] | None:
    """A convolution's own padding, None where it has strides, or a kernel that cannot be read."""
    options, shape = convolution.options, tensors[convolution.inputs[1]].shape if len(convolution.inputs) > 1 else ()
    if len(shape) != 4 or (options.get("stride_h"), options.get("stride_w")) != (1, 1):
        return None
    if options.get("padding") == 1:
        return [0, 0, 0, 0]
    totals = [
        (size - 1) * options.get(f"dilation_{axis}_factor", 1) for axis, size in zip("hw", shape[1:3], strict=True)
    ]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


def _constants(
    tensors: Sequence[Tensor], before: Operator, after: Operator
) -> tuple[list[int], list[int], list[int]] | None:
    """Block sizes, padding and crops, the latter two before (height, width) and after them."""
    if len(before.inputs) != 3 or len(after.inputs) != 3 or len(after.outputs) != 1:
        return None
    vectors: list[list[int]] = []
    for index in (*before.inputs[1:], *after.inputs[1:]):
        data = tensors[index].data if index >= 0 else None
        if data is None or data.dtype.kind != "i":
            return None
        vectors.append(data.reshape(-1).tolist())
    blocks, pads, unblocks, crops = vectors
    fitting = blocks == unblocks and len(pads) == len(crops) == 2 * len(blocks) and 1 <= len(blocks) <= 2
    if not fitting or min(*blocks, 1) < 1 or min(*pads, *crops) < 0:
        return None
    for operator in (before, after):
        if not _same_meaning(tensors[operator.inputs[0]], tensors[operator.outputs[0]]):
            return None
    pads, crops = [*pads, 0, 0][:4], [*crops, 0, 0][:4]
    return [*blocks, 1][:2], [*pads[::2], *pads[1::2]], [*crops[::2], *crops[1::2]]


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    first, second = quant_of(a), quant_of(b)
    return a.dtype == b.dtype and (first.matches(second) if first else second is None)
