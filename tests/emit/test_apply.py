"""An assignment applied to a graph: which tensors bear the names of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.models.test_random_models import WAYS, check

EVERY_WAY = [{}, *WAYS]


def real(*shape: int) -> Array:
    """Numbers between -1 and 1."""
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def test_output_listed_twice() -> None:
    """A view of an input, so that the output has to be copied to bear its name."""
    builder = Builder()
    x, y, z = builder.input("x", (2, 3)), builder.tensor("y", (3, 2)), builder.tensor("z", (2, 3))
    builder.operator("TRANSPOSE", [x, builder.constant("order", np.array([1, 0], np.int32))], [y], {})
    builder.operator("NEG", [x], [z], {})
    check(builder.finish(y, z, y), [[real(2, 3)]], EVERY_WAY)


def test_outputs_of_one_stored_tensor() -> None:
    """Two outputs are the same tensor under two names, the second of which an operator would take."""
    builder = Builder()
    x, sum_, view = builder.input("x", (1, 3)), builder.tensor("sum", (2, 1, 3)), builder.tensor("view", (2, 1, 3))
    flat = builder.tensor("flat", (6,))
    builder.operator("PACK", [x, x], [sum_], {"values_count": 2, "axis": 0})
    builder.operator("RESHAPE", [sum_, builder.constant("six", np.array([6], np.int32))], [flat])
    builder.operator("RESHAPE", [flat, builder.constant("back", np.array([2, 1, 3], np.int32))], [view])
    check(builder.finish(view, sum_), [[real(1, 3)]], EVERY_WAY)


@pytest.mark.members(5)
@pytest.mark.parametrize(
    ("operator", "given", "shape", "made"),
    [
        ("ADD", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("ADD", (3, 4, 5, 3), (3, 1, 1, 3), (3, 4, 5, 3)),
        ("CONV_2D", (1, 4, 5, 3), (2, 3, 3, 3), (1, 4, 5, 2)),
        ("DEPTHWISE_CONV_2D", (1, 4, 5, 3), (1, 3, 3, 3), (1, 4, 5, 3)),
        ("FULLY_CONNECTED", (4, 3), (2, 3), (4, 2)),
        ("PRELU", (1, 4, 5, 3), (1, 1, 3), (1, 4, 5, 3)),
        ("PRELU", (2, 4, 5, 3), (4, 1, 3), (2, 4, 5, 3)),
    ],
)
@pytest.mark.parametrize("around", [False, True])
def test_constants_that_are_outputs_as_well(
    operator: str, given: tuple[int, ...], shape: tuple[int, ...], made: tuple[int, ...], around: bool
) -> None:
    """An operator may read a constant in another order or shape; the output is as the file has it."""
    builder = Builder()
    x, constant, y = builder.input("x", given), builder.constant("c", real(*shape)), builder.tensor("y", made)
    bias = [builder.constant("b", real(made[-1]))] if "CONV" in operator else []
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1} if "CONV" in operator else {}
    options |= {"depth_multiplier": 1} if "DEPTHWISE" in operator else {}
    builder.operator(operator, [x, constant, *bias], [y], options)
    z = builder.tensor("z", made)
    builder.operator("NEG", [y], [z])
    ends = (constant, z) if around else (z, constant)
    check(builder.finish(*ends), [[real(*given)]], EVERY_WAY)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Resize", {"": np.zeros(0), "scales": np.ones(4, np.float32)}, {}),
        ("Resize", {"": np.zeros(0), "none": np.float32([]), "sizes": np.array([1, 3, 4, 2])}, {"mode": "linear"}),
        ("SpaceToDepth", {}, {"blocksize": 1}),
        ("DepthToSpace", {}, {"blocksize": 1}),
        ("Pad", {"pads": np.zeros(8, np.int64)}, {}),
        ("Expand", {"shape": np.array([1])}, {}),
    ],
)
def test_what_does_nothing_but_dequantize(
    operator: str, inputs: dict[str, Array], attributes: dict[str, Any], read: bool
) -> None:
    """Between Transposes that vanish, at an output of numbers, and where something else reads the stored integers."""
    make, given = onnx.helper.make_node, real(1, 2, 3, 4)
    named = {**inputs, "scale": np.array(0.05, np.float32), "zero": np.array(3, np.int8)}
    named.pop("", None)
    nodes = [
        make("QuantizeLinear", ["x", "scale", "zero"], ["q"]), make("Transpose", ["q"], ["t"], perm=[0, 2, 3, 1]),
        make("DequantizeLinear", ["t", "scale", "zero"], ["r"]), make(operator, ["r", *inputs], ["s"], **attributes),
        make("Transpose", ["s"], ["y"], perm=[0, 3, 1, 2]),
    ]  # fmt: skip
    if read:
        nodes.append(make("DequantizeLinear", ["q", "scale", "zero"], ["z"]))
    port = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "idle", [port("x", onnx.TensorProto.FLOAT, given.shape)],
        [port(name, onnx.TensorProto.FLOAT, None) for name in ("yz" if read else "y")],
        [onnx.numpy_helper.from_array(data, name) for name, data in named.items()],
    )  # fmt: skip
    source = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    conversion = layoutsolve.convert(source.SerializeToString())
    for found, wanted in zip(
        OnnxRuntime(conversion.model.SerializeToString()).run({"x": given}),
        OnnxRuntime(source.SerializeToString(), level="none").run({"x": given}),
        strict=True,
    ):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
