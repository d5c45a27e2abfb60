"""The sizes of what a pool with ``ceil_mode`` makes, which ONNX infers wrongly: before opset 22 a window that would
begin in the padding behind an image is none (https://github.com/onnx/onnx/pull/5741), and with padding SAME, where a
stride gives one element each, ONNX Runtime does not look at ``ceil_mode`` at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.proto.messages import DOMAINS, AttributeProto, NodeProto, attribute

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def is_ceiling(node: NodeProto) -> bool:
    """Whether a node is such a pool."""
    if node.op_type not in _POOLS or node.domain not in DOMAINS:
        return False
    given = {each.name: each for each in node.attribute}
    return "ceil_mode" in given and given["ceil_mode"].i != 0 and "kernel_shape" in given


def floored(node: NodeProto) -> NodeProto:
    """A pool of which the same sizes are inferred, that computes something else: one without ``ceil_mode``."""
    given = {each.name: each for each in node.attribute}
    if "auto_pad" in given and given["auto_pad"].s.startswith(b"SAME"):
        return _with(node, [each for each in node.attribute if each.name != "ceil_mode"])
    kernel = given["kernel_shape"].ints
    strides, dilations, pads = (
        list(given[name].ints) if name in given and given[name].ints else [default] * len(kernel) * count
        for name, default, count in (("strides", 1, 1), ("dilations", 1, 1), ("pads", 0, 2))
    )
    if "auto_pad" in given and given["auto_pad"].s == b"VALID":
        pads = [0] * len(pads)
    kept = [each for each in node.attribute if each.name not in ("auto_pad", "ceil_mode", "pads")]
    around = attribute("pads", [*pads[: len(kernel)], *behind(kernel, strides, dilations, pads)])
    return _with(node, [*kept, around])


def _with(node: NodeProto, attributes: Sequence[AttributeProto]) -> NodeProto:
    """A node with other attributes."""
    return NodeProto(op_type=node.op_type, name=node.name, input=node.input, output=node.output, attribute=attributes)


def behind(kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]) -> list[int]:
    """The padding behind an image, along each dimension, with which as many whole windows fit as there are windows."""
    return [
        min(pad + stride - 1, (size - 1) * gap)
        for size, stride, gap, pad in zip(kernel, strides, dilations, pads[len(kernel) :], strict=False)
    ]
