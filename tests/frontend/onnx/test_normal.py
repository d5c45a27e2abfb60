"""Operators that are written with all that is implied: what is known of their results."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import layoutsolve
from tests.frontend.onnx.test_random import run


@pytest.mark.parametrize(
    ("operator", "weights", "group", "channels"),
    [
        ("Conv", [6, 4, 3, 3], 1, "6"),
        ("Conv", ["m", 4, 3, 3], 1, "m"),
        ("Conv", ["m", 2, 3, 3], 2, "m"),
        ("ConvTranspose", [4, 5, 3, 3], 1, "5"),
        ("ConvTranspose", [4, "m", 3, 3], 1, "m"),
        ("ConvTranspose", [4, "m", 3, 3], 2, "2*m"),
        ("ConvTranspose", [4, "m", "k", "k"], 2, "2*m"),
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


@pytest.mark.parametrize("inputs", [["x"], ["x", ""]])
@pytest.mark.parametrize(("size", "axis", "count"), [("n", 0, 2), ("n", 0, 3), (7, 0, 2), (7, -2, 3), ("n", 1, 2)])
def test_parts_without_sizes(inputs: list[str], size: int | str, axis: int, count: int) -> None:
    """Sizes of a Split are written where that of all is known, and follow at run time elsewhere."""
    names = [f"y{number}" for number in range(count)]
    node = helper.make_node("Split", inputs, names, axis=axis, num_outputs=count)
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, 4])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in names]
    graph = helper.make_graph([node], "parts", [port], results)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = layoutsolve.convert(source.SerializeToString()).model
    given = {"x": np.arange(28, dtype=np.float32).reshape(7, 4)}
    for one, other in zip(run(source, given), run(found, given), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 1, 1, 1), (2, 3, 4)])
@pytest.mark.parametrize("op", ["Add", "Div", "Mul", "Sub"])
def test_what_changes_nothing_is_left_out(op: str, shape: tuple[int, ...], side: str) -> None:
    """Zeros that are added and ones that are multiplied by, from the side where they change nothing, where they do not
    make it larger; not what may end a normalization.
    """
    unit = float(op in ("Div", "Mul"))
    larger, works = len(shape) > 2, side == "right" or op in ("Add", "Mul")
    for number, before, kept in ((unit, "Abs", not works or larger), (unit + 1, "Abs", True), (unit, "Div", None)):
        data = helper.make_tensor("c", TensorProto.FLOAT, shape, [number] * int(np.prod(shape)))
        made = "a = Div(x, d)" if before == "Div" else f"a = {before}(x)"
        model = onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 18]> g (float[n, 3, 4] x, float[n, 3, 4] d) => (float[i, j, k] y)
            {{ {made} b = {op}({"c, a" if side == "left" else "a, c"}) y = Neg(b) }}"""
        )
        if len(shape) > 2:
            model.graph.output[0].type.tensor_type.ClearField("shape")
        model.graph.initializer.append(data)
        found = layoutsolve.convert(model.SerializeToString()).model
        kinds = [node.op_type for node in found.graph.node]
        wanted = (not works or larger or int(np.prod(shape)) > 1) if kept is None else kept
        assert (op in kinds[1:]) == wanted, (number, before)
        feeds = {name: np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4) for name in "xd"}
        one, other = (
            onnxruntime.InferenceSession(each.SerializeToString()).run(None, feeds)[0] for each in (model, found)
        )
        assert np.array_equal(one, other)
