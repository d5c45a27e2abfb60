"""Attention whose sizes have names alone: heads, and past and new keys, are as many as ONNX Runtime makes of them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import layoutsolve
from experiments.onnx_shared import session
from layoutsolve.ir.graph import Array

SEEDS, SHARES = 48, 4


def model(seed: int) -> tuple[ModelProto, dict[str, Array]]:
    """An Attention, before Reshapes to what Shape tells of its results; some sizes of inputs are open."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    batch, groups, rows, columns, deep, wide, past = (random.choice((1, 2, 3)) for _ in range(7))
    heads, flat, old = groups * random.choice((1, 1, 2)), random.random() < 0.5, random.random() < 0.5
    shapes = {
        "q": [batch, rows, heads * deep] if flat else [batch, heads, rows, deep],
        "k": [batch, columns, groups * deep] if flat else [batch, groups, columns, deep],
        "v": [batch, columns, groups * wide] if flat else [batch, groups, columns, wide],
    }
    if old:
        shapes |= {"pk": [batch, groups, past, deep], "pv": [batch, groups, past, wide]}
    named = {"q_num_heads": heads, "kv_num_heads": groups} if flat else {}
    results = ["a", "nk", "nv", "s"] if old else ["a"]
    nodes = [helper.make_node("Attention", ["q", "k", "v", *(["", "pk", "pv"] if old else [])], results, **named)]
    for name in results:
        nodes += [
            helper.make_node("Shape", [name], [f"{name}/shape"]),
            helper.make_node("ReduceProd", [f"{name}/shape"], [f"{name}/size"], keepdims=1),
            helper.make_node("Reshape", [name, f"{name}/size"], [f"{name}/flat"]),
        ]
    ports = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT, [dim if random.random() < 0.5 else f"{name}_{at}" for at, dim in enumerate(shape)]
        )
        for name, shape in shapes.items()
    ]
    ends = [helper.make_tensor_value_info(f"{name}/flat", TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph(nodes, "g", ports, ends)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return made, {name: numbers.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("share", range(SHARES))
def test_values_and_shapes(share: int) -> None:
    """Each gives what ONNX Runtime gives for the model as it is."""
    for seed in range(share, SEEDS, SHARES):
        source, feeds = model(seed)
        truth = session(source.SerializeToString(), "none").run(None, feeds)
        found = layoutsolve.convert(source.SerializeToString()).model
        for made, wanted in zip(session(found.SerializeToString(), "none").run(None, feeds), truth, strict=True):
            assert made.shape == wanted.shape, seed
            np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5, err_msg=str(seed))


HEADS = {"q_num_heads": 2, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("past", "heads", "told"),
    [([], HEADS, True), (["pk", "pv"], HEADS, True), ([], {}, False),
     ([], {"q_num_heads": 2, "kv_num_heads": 0}, False),
     (["pk"], HEADS, False), (["pk", "unknown"], HEADS, False)],
)  # fmt: skip
def test_what_states_too_little_stays(past: list[str], heads: dict[str, int], told: bool) -> None:
    """Sizes are told by those of the inputs, but without heads, with one of two past inputs, or one of which nothing is
    known: then no size is taken for another.
    """
    shapes = {"q": [1, "r", 8], "k": [1, "c", 8], "v": [1, "c", 8], "pk": [1, 2, "p", 4], "pv": [1, 2, "p", 4]}
    names = ["q", "k", "v", *past]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name)) for name in names]
    node = helper.make_node("Attention", [*names[:3], "", *past], ["y", "nk", "nv"], **heads)
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    found = layoutsolve.convert(source.SerializeToString())
    written = found.model.graph
    assert [each.op_type for each in written.node] == ["Attention"] and [*written.input] == ports
    assert ([str(size) for size in found.graph.values["y"].shape] == ["1", "r", "8"]) == told
