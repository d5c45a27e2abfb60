"""SpaceToDepth has a mode from opset 28 on: its depth is in the order that the mode states, in both formats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.emit.tflite.test_control_flow import agrees
from tests.frontend.onnx.test_flow import alike, converted

OPSET = 28


def source(before: Sequence[int], split: Sequence[int], behind: Sequence[int]) -> onnx.ModelProto:
    """An image in another order, its blocks in the depth, and what takes that apart: a channel shuffle or its like."""
    shape = [(1, 8, 6, 4)[before.index(axis)] for axis in range(4)]
    sizes = [1, *split, 3, 2]
    return onnx.parser.parse_model(
        f'<ir_version: 13, opset_import: ["": {OPSET}]> g (float{shape} x) => (float{[sizes[at] for at in behind]} y)'
        f"<int64[6] sizes = {{{', '.join(map(str, sizes))}}}> {{"
        f"first = Transpose<perm = {list(before)}>(x) image = Relu(first)"
        f' deep = SpaceToDepth<blocksize = 2, mode = "CRD">(image) scores = Sigmoid(deep)'
        f" apart = Reshape(scores, sizes) y = Transpose<perm = {list(behind)}>(apart) }}"
    )


@pytest.mark.members(2)
@pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < OPSET or onnxruntime.__version__ < "1.32", reason="they do not know the mode"
)
@pytest.mark.parametrize(
    ("before", "split", "behind"),
    [
        ((0, 1, 2, 3), (2, 2, 8), (0, 4, 5, 2, 3, 1)),
        ((0, 3, 1, 2), (8, 2, 2), (0, 1, 4, 2, 5, 3)),
        ((0, 1, 3, 2), (2, 2, 8), (0, 4, 5, 2, 3, 1)),
    ],
)
def test_depth_is_in_the_order_of_the_mode(before: Sequence[int], split: Sequence[int], behind: Sequence[int]) -> None:
    model = source(before, split, behind)
    sizes = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(0).normal(size=sizes).astype(np.float32)}
    alike(model, converted(model), feeds)
    agrees(model, [feeds])
