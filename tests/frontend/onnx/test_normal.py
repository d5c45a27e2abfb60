"""Operators that are written with all that is implied: what is known of their results."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import layoutsolve


@pytest.mark.parametrize(
    ("operator", "weights", "group", "channels"),
    [
        ("Conv", [6, 4, 3, 3], 1, "6"),
        ("Conv", ["m", 4, 3, 3], 1, "m"),
        ("Conv", ["m", 2, 3, 3], 2, "m"),
        ("ConvTranspose", [4, 5, 3, 3], 1, "5"),
        ("ConvTranspose", [4, "m", 3, 3], 1, "m"),
        ("ConvTranspose", [4, "m", 3, 3], 2, "2*m"),
    ],
)
def test_channels_follow_from_weights(operator: str, weights: list[int | str], group: int, channels: str) -> None:
    """Also where they are open, and the sizes of the image are."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["image"], perm=[0, 3, 1, 2]),
        helper.make_node(operator, ["image", "w"], ["result"], group=group, kernel_shape=[3, 3]),
        helper.make_node("Transpose", ["result"], ["y"], perm=[0, 2, 3, 1]),
    ]
    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, "h", "w", 4]), ("w", weights), ("y", [None] * 4))
    )
    source = helper.make_model(helper.make_graph(nodes, "g", [x, w], [y]), opset_imports=[helper.make_opsetid("", 18)])
    graph = layoutsolve.convert(source.SerializeToString()).graph
    assert str(graph.values["result"].shape[1]) == channels
