"""Products and sums with constants behind a convolution or a fully-connected layer, as part of its weights and bias.

Exporters fold what normalises; what is left are activations that are composed, such as a hard sigmoid. Of quantized
layers nothing changes, nor of sources in TensorFlow Lite, whose results stay what they are to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.frontend.tflite.reading.model import Operator
from layoutsolve.ir.graph import Array

CHANNELS: Mapping[str, int] = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""By layer, the dimension of its weights that has the channels of its result."""


def absorbed(draft: Draft, ends: Collection[int]) -> list[Operator]:
    """The operators of a draft, without those that a layer computes as well; inputs and outputs, its ``ends``, stay."""
    reads = Counter(index for operator in draft.operators for index in operator.inputs)
    written: dict[int, Operator] = {}
    layers: dict[int, int] = {}
    for place, operator in enumerate(draft.operators):
        host = next((layers[index] for index in operator.inputs if index in layers), None)
        made = None if host is None else _joined(draft, written[host], operator)
        if host is not None and made is not None:
            written[host] = made
            place, operator = host, made
        else:
            written[place] = operator
        result = operator.outputs[0] if operator.outputs else -1
        idle = not operator.options.get("fused_activation_function")
        if operator.name in CHANNELS and idle and reads[result] == 1 and result not in ends:
            layers[result] = place
    return [*written.values()]


def _joined(draft: Draft, layer: Operator, after: Operator) -> Operator | None:
    """A layer that computes what follows it as well; None where it cannot."""
    made = draft.tensors[layer.outputs[0]]
    others = [index for index in after.inputs if index != made.index]
    result = draft.tensors[after.outputs[0]]
    if after.name not in ("ADD", "MUL") or len(others) != 1 or result.shape != made.shape:
        return None
    constant, weights = draft.tensors[others[0]].data, draft.tensors[layer.inputs[1]].data
    bias = draft.tensors[layer.inputs[2]].data if len(layer.inputs) > 2 and layer.inputs[2] >= 0 else None
    channels = made.shape[-1] if made.shape else 1
    plain = all(draft.tensors[index].dtype == "float32" for index in (*layer.inputs[:2], made.index))
    if not plain or weights is None or constant is None or constant.dtype != np.float32:
        return None
    if constant.size not in (1, channels) or (constant.size > 1 and constant.shape[-1] != channels):
        return None
    if bias is None and len(layer.inputs) > 2 and layer.inputs[2] >= 0:
        return None
    number, axis = constant.reshape(-1), CHANNELS[layer.name]
    if weights.shape[axis] != channels:
        return None
    before: Array = np.zeros(channels, np.float32) if bias is None else bias
    if after.name == "MUL":
        shape = [channels if each == axis else 1 for each in range(weights.ndim)]
        weights = weights * np.broadcast_to(number, channels).reshape(shape)
    moved = before * number if after.name == "MUL" else before + number
    name = draft.tensors[layer.inputs[1]].name
    kernel = layer.inputs[1] if after.name == "ADD" else draft.constant(np.ascontiguousarray(weights, np.float32), name)
    added = draft.constant(np.broadcast_to(moved, channels).astype(np.float32), result.name)
    options = {**layer.options, "fused_activation_function": after.options.get("fused_activation_function", 0)}
    return replace(layer, inputs=(layer.inputs[0], kernel, added), outputs=after.outputs, options=options)
