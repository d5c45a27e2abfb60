"""The structure of reference graphs."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import Reading, read
from layoutsolve.ir.graph import Graph, Size
from layoutsolve.ir.storage_options import PLAIN
from tests.builder import Builder, Quant
from tests.frontend.tflite.small_models import convolution


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_convolution_stands_between_transposes() -> None:
    graph = read(convolution())
    assert operators(graph) == ["Transpose", "Conv", "Clip", "Transpose", "Reshape"]
    before, conv, _, after, _ = graph.nodes
    assert before.pattern and after.pattern
    assert conv.attributes["pads"] == (0, 0, 1, 1)
    assert graph.values[conv.inputs[1]].shape == (4, 3, 3, 3)
    assert str(conv.origin) == "CONV_2D#0"
    assert graph.values["features"].shape == (1, 3, 3, 4)


@pytest.mark.parametrize(("along", "batch"), list(permutations(range(3), 2)))
def test_sequences_are_reversed_between_transposes(along: int, batch: int) -> None:
    builder, shape = Builder(), (2, 3, 4)
    x, y = builder.input("x", shape), builder.tensor("y", shape)
    options = {"seq_dim": along, "batch_dim": batch}
    builder.operator("REVERSE_SEQUENCE", [x, builder.constant("n", [1] * shape[batch], "int32")], [y], options)
    turns = [node for node in read(builder.finish(y)).nodes if node.op == "Transpose"]
    assert len(turns) in (0, 2) and all(node.pattern for node in turns)


def test_groups() -> None:
    builder = Builder()
    x, y = builder.tensor("t0", (1, 4, 4, 6)), builder.tensor("t1", (1, 4, 4, 4))
    weights = builder.constant("t2", np.ones((4, 1, 1, 3)), "float32")
    builder.operator("CONV_2D", [x, weights], [y], {"stride_h": 1, "stride_w": 1})
    assert read(builder.finish(y, inputs=[x])).nodes[1].attributes["group"] == 2


def quantized_conv(zero: int) -> Graph:
    builder = Builder()
    x = builder.tensor("t0", (1, 4, 4, 2), "int8", quant=Quant([0.5], [0], 0))
    weights = builder.constant("t1", np.ones((1, 3, 3, 4)), "int8", quant=Quant([0.25, 0.5, 1, 2], [0] * 4, 3))
    bias = builder.constant("t2", np.arange(4), "int32")
    y = builder.tensor("t3", (1, 4, 4, 4), "int8", quant=Quant([6 / 255], [zero], 0))
    options: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 2, "fused_activation_function": 3}
    builder.operator("DEPTHWISE_CONV_2D", [x, weights, bias], [y], options)
    return read(builder.finish(y, inputs=[x]), reading=Reading(storage=PLAIN))


def test_quantization_of_weights_and_bias() -> None:
    graph = quantized_conv(-128)
    before, conv, after = graph.nodes
    assert before.storage and after.storage and not conv.storage
    weights, bias = (graph.values[name] for name in conv.inputs[1:])
    assert weights.shape == (4, 1, 3, 3) and weights.quant is not None and weights.quant.axis == 0
    assert bias.quant is not None and bias.quant.scale.tolist() == [0.125, 0.25, 0.5, 1.0]


def test_fused_activation_stays_where_the_range_is_wider() -> None:
    """On stored integers, so that the convolution gives bytes."""
    graph = quantized_conv(0)
    conv, clip = graph.nodes[1:3]
    low, high = (graph.values[name].data for name in clip.inputs[1:])
    assert (clip.op, clip.storage) == ("Clip", True)
    assert low is not None and high is not None
    assert (low, high) == (0, 127)  # the upper end of the range is below 6
    for name in (*conv.outputs, *clip.outputs):
        assert graph.values[name].quant is not None


def test_half_precision_weights_fold() -> None:
    builder = Builder()
    x, y = builder.tensor("t0", (2, 4)), builder.tensor("t1", (2, 3))
    half = builder.constant("t2", np.ones((3, 4)), "float16")
    weights = builder.tensor("t3", (3, 4))
    builder.operator("DEQUANTIZE", [half], [weights])
    builder.operator("FULLY_CONNECTED", [x, weights, -1], [y])
    graph = read(builder.finish(y, inputs=[x]))
    assert operators(graph) == ["Gemm"]
    assert graph.values[graph.nodes[0].inputs[1]].dtype == "float32"


def test_computed_shape_resolves() -> None:
    """SHAPE, STRIDED_SLICE, PACK and RESHAPE with a dynamic batch are one Reshape."""
    builder = Builder()
    x = builder.tensor("t0", (1, 4, 6), signature=[-1, 4, 6])
    shape, batch = builder.tensor("t1", (3,), "int32"), builder.tensor("t2", (), "int32")
    bounds = [builder.constant("t3", [number], "int32") for number in (0, 1, 1)]
    size = builder.constant("t4", 24, "int32")
    target = builder.tensor("t5", (2,), "int32")
    y = builder.tensor("t6", (1, 24), signature=[-1, 24])
    builder.operator("SHAPE", [x], [shape], {"out_type": 2})
    builder.operator("STRIDED_SLICE", [shape, *bounds], [batch], {"shrink_axis_mask": 1})
    builder.operator("PACK", [batch, size], [target], {"values_count": 2})
    builder.operator("RESHAPE", [x, target], [y])
    graph = read(builder.finish(y, inputs=[x]))
    assert operators(graph) == ["Reshape"]
    assert graph.constant(graph.nodes[0].inputs[1]).tolist() == [-1, 24]  # type: ignore[union-attr]
    assert graph.values[graph.outputs[0]].shape == (Size(1, ("batch",)), 24)


def test_space_to_batch_becomes_dilation() -> None:
    builder = Builder()
    x, y = builder.tensor("t0", (1, 8, 8, 3)), builder.tensor("t1", (1, 8, 8, 4))
    block = builder.constant("t2", [2, 2], "int32")
    pads, crops = builder.constant("t3", [[2, 2], [2, 2]], "int32"), builder.constant("t4", [[0, 0], [0, 0]], "int32")
    small, result = builder.tensor("t5", (4, 6, 6, 3)), builder.tensor("t6", (4, 4, 4, 4))
    weights = builder.constant("t7", np.ones((4, 3, 3, 3)), "float32")
    builder.operator("SPACE_TO_BATCH_ND", [x, block, pads], [small])
    builder.operator("CONV_2D", [small, weights], [result], {"stride_h": 1, "stride_w": 1, "padding": 1})
    builder.operator("BATCH_TO_SPACE_ND", [result, block, crops], [y])
    graph = read(builder.finish(y, inputs=[x]))
    assert operators(graph) == ["Transpose", "Conv", "Transpose"]
    assert graph.nodes[1].attributes["dilations"] == (2, 2)
    assert graph.nodes[1].attributes["pads"] == (2, 2, 2, 2)


def test_pad_fills_with_the_zero_point() -> None:
    builder = Builder()
    x = builder.tensor("t0", (2, 2), "uint8", quant=Quant([0.5], [7], 0))
    y = builder.tensor("t1", (4, 2), "uint8", quant=Quant([0.5], [7], 0))
    pads = builder.constant("t2", [[1, 1], [0, 0]], "int32")
    builder.operator("PAD", [x, pads], [y])
    graph = read(builder.finish(y, inputs=[x]))
    (node,) = graph.nodes
    assert node.storage
    assert graph.constant(node.inputs[2]) == 7


def test_names_are_unique() -> None:
    builder = Builder()
    x, y, z = (builder.tensor(name, (4,)) for name in ("same", "same", ""))
    builder.operator("ABS", [x], [y])
    builder.operator("NEG", [y], [z])
    graph = read(builder.finish(z, inputs=[x]))
    assert graph.inputs == ("same",)
    assert graph.outputs == ("tensor_2",)
    assert [node.outputs[0] for node in graph.nodes] == ["same_1", "tensor_2"]


def test_all_gaps_at_once() -> None:
    builder = Builder()
    x, y, z = (builder.tensor("t0", (4,)) for _ in range(3))
    builder.operator("SKIP_GRAM", [x], [y])
    builder.operator("CONCAT_EMBEDDINGS", [y], [z])
    with pytest.raises(UnsupportedError) as caught:
        read(builder.finish(z, inputs=[x]))
    assert [gap.operator for gap in caught.value.gaps] == ["SKIP_GRAM", "CONCAT_EMBEDDINGS"]
    assert all(gap.remedy for gap in caught.value.gaps)


def test_constants_cannot_grow_without_bound() -> None:
    """Doubling a constant again and again stops being folded, and stays operators."""
    builder = Builder()
    doubled = builder.constant("t0", np.ones(4), "float32")
    for _ in range(36):
        following = builder.tensor("t1", ())
        builder.operator("CONCATENATION", [doubled, doubled], [following], {"axis": 0})
        doubled = following
    graph = read(builder.finish(doubled, inputs=[]))
    assert len(graph.nodes) > 10
    assert sum(value.data.size for value in graph.values.values() if value.data is not None) < 1 << 23


def test_padding_of_another_rank_is_refused() -> None:
    """Found by mutating models: rows of (before, after) that are computed, but not one per dimension."""
    builder = Builder()
    x, y = builder.tensor("t0", (1, 4, 4, 2)), builder.tensor("t1", (1, 4, 4, 2))
    rows = builder.tensor("t2", (1, 2, 2, 2), "int32")
    builder.operator("PAD", [x, rows], [y])
    with pytest.raises(ModelError, match="pads rank 4"):
        read(builder.finish(y, inputs=[x, rows]))


def test_convolution_of_no_channels_is_refused() -> None:
    """Found by mutating models."""
    builder = Builder()
    x, y = builder.tensor("t0", (1, 4, 4, 0)), builder.tensor("t1", (1, 4, 4, 3))
    weights, bias = (
        builder.constant("t2", np.ones((3, 1, 1, 2)), "float32"),
        builder.constant("t3", np.ones(3), "float32"),
    )
    builder.operator("CONV_2D", [x, weights, bias], [y], {"stride_h": 1, "stride_w": 1})
    with pytest.raises(ModelError, match="0 input channels"):
        read(builder.finish(y, inputs=[x]))


def test_gaps_of_one_kind_are_one_line() -> None:
    """How many there are of each, and the first of them; each is told of by itself to programs."""
    builder = Builder()
    tensors = [builder.tensor(f"t{number}", (4,)) for number in range(7)]
    kinds = ("SKIP_GRAM", "CUSTOM:Unheard", "CONCAT_EMBEDDINGS", "CUSTOM:Unheard", "SKIP_GRAM", "CUSTOM:Unheard")
    for number, kind in enumerate(kinds):
        builder.operator(kind, [tensors[number]], [tensors[number + 1]])
    with pytest.raises(UnsupportedError) as caught:
        read(builder.finish(tensors[-1], inputs=[tensors[0]]))
    assert [gap.operator for gap in caught.value.gaps] == list(kinds)
    head, *lines = str(caught.value).splitlines()
    assert head == "6 operators cannot be converted:"
    assert [line.split("(")[0] for line in lines] == [
        "  2 SKIP_GRAM          first operator 0 SKIP_GRAM ",
        "  3 CUSTOM:Unheard     first operator 1 CUSTOM:Unheard ",
        "  1 CONCAT_EMBEDDINGS  operator 2 CONCAT_EMBEDDINGS ",
    ]
    for gap, line in zip(caught.value.gaps, lines, strict=False):
        assert line.endswith(f"(output '{gap.tensor}'): {gap.reason}; {gap.remedy}")
