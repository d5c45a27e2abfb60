"""Files in ONNX that hold sizes which no memory has, or none below zero."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import layoutsolve
from experiments.fuzz import onnx_mutants
from layoutsolve.errors import LoweringError
from tests.frontend.onnx.test_hostile import alone, node, told


@pytest.mark.parametrize(
    "dims", [(1 << 62, 3, 0), (0, 1 << 63 - 1), (1 << 31, 1 << 31), (-1, 0), (1,) * 65, (1 << 60,)], ids=str
)
@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.INT4, TensorProto.STRING, TensorProto.FLOAT8E5M2])
@pytest.mark.parametrize("sparse", [False, True])
def test_constants_of_sizes_that_no_memory_holds(dims: tuple[int, ...], element: int, sparse: bool) -> None:
    model = node("Add", 18, 2)
    constant = TensorProto(name="x1", data_type=element, dims=[0] if sparse else dims, raw_data=b"")
    if sparse:
        indices = TensorProto(data_type=TensorProto.INT64, dims=[0])
        model.graph.sparse_initializer.append(onnx.SparseTensorProto(values=constant, indices=indices, dims=dims))
    else:
        model.graph.initializer.append(constant)
    assert "'x1'" in told(model)


@pytest.mark.parametrize("count", [1 << 31, 1 << 62])
def test_results_of_sizes_that_no_memory_holds(count: int) -> None:
    model = node("ConstantOfShape", 9)
    sizes = np.full(4, count, np.int64)
    model.graph.initializer.append(onnx.numpy_helper.from_array(sizes, "x0"))
    del model.graph.input[:]
    assert "tensor 'y0' has sizes that no memory holds" in told(model)


@pytest.mark.parametrize("size", [-1, -64, -(1 << 31), -(1 << 63)])
@pytest.mark.parametrize("opset", [12, 13, 18])
def test_sizes_below_zero_of_indices(size: int, opset: int) -> None:
    model = node("GatherND", opset, 2)
    kind = model.graph.input[1].type.tensor_type
    kind.elem_type, kind.shape.dim[3].dim_value = TensorProto.INT64, size
    assert alone(lambda: layoutsolve.convert(model.SerializeToString())).word == "converted"


def test_an_expansion_to_a_single_number() -> None:
    model = node("Expand", 13)
    model.graph.input[0].type.tensor_type.shape.Clear()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.node[0].input.append("s")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0, np.int64), "s"))
    with suppress(LoweringError):
        layoutsolve.convert(model.SerializeToString())


def test_sizes_below_zero_are_not_known() -> None:
    """As some exporters write them for the batch."""
    model = node("Relu", 18)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    made = layoutsolve.convert(model.SerializeToString()).model
    assert onnx_mutants.compared(model.SerializeToString(), made.SerializeToString()).word == "right"


def test_graphs_nested_as_deeply_as_they_may_be() -> None:
    """Whatever inference adds to them is still read."""

    def nested(depth: int) -> ModelProto:
        model = node("Relu", 18)
        for _ in range(depth):
            graph = model.graph
            outputs = [port.name for port in graph.output]
            branch = onnx.GraphProto(name="b", node=graph.node, output=graph.output)
            branch.output[0].type.CopyFrom(graph.input[0].type)
            made = helper.make_node(
                "If", ["c"], outputs, then_branch=branch, else_branch=branch if _ < 3 else _leaf(branch)
            )
            del graph.node[:]
            graph.node.append(made)
        model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
        return model

    def _leaf(branch: onnx.GraphProto) -> onnx.GraphProto:
        leaf = onnx.GraphProto(name="leaf", output=branch.output)
        leaf.node.add(op_type="Relu", input=["x0"], output=[leaf.output[0].name])
        return leaf

    layoutsolve.convert(nested(27).SerializeToString())
    assert "deep in each other" in told(nested(30))
