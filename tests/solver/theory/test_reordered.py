"""Convolutions with Transposes beside them that ONNX Runtime does not execute: its own optimised graph has as many as
the price says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Network:
    """A network of images as exporters write it, channels first around convolutions and last around all else."""

    def __init__(self, seed: int) -> None:
        self.random, self.nodes = np.random.default_rng(seed), list[onnx.NodeProto]()
        self.constants = list[onnx.TensorProto]()

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        made = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [made], **attributes))
        return made

    def constant(self, data: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        self.constants.append(numpy_helper.from_array(data, f"constant{len(self.constants)}"))
        return self.constants[-1].name

    def conv(self, data: str, channels: int, produced: int, groups: int = 1) -> str:
        size = int(self.random.choice((1, 3)))
        weights = self.random.normal(0, 0.2, (produced, channels // groups, size, size)).astype(np.float32)
        operands = [self.constant(weights)]
        if self.random.integers(2):
            operands.append(self.constant(self.random.normal(0, 1, produced).astype(np.float32)))
        return self.op("Conv", data, *operands, group=groups, pads=[size // 2] * 4, kernel_shape=[size, size])

    def last(self, data: str) -> str:
        return self.op("Transpose", self.op("Softmax", self.op("Transpose", data, perm=LAST)), perm=FIRST)

    def model(self, channels: int, outputs: Sequence[str]) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, channels, 6, 8))
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", [image], results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(seed: int) -> onnx.ModelProto:
    """Convolutions with a softmax over channels between them."""
    network = Network(seed)
    start = channels = int(network.random.choice((3, 8, 16, 20)))
    data = "image"
    for _ in range(3):
        produced = int(network.random.choice((16, 20, 32, 64)))
        data = network.last(network.conv(data, channels, produced))
        channels = produced
        if network.random.integers(2):
            data = network.last(network.conv(data, channels, channels, channels))  # depthwise
    return network.model(start, [network.conv(data, channels, 8)])


def heads(seed: int) -> onnx.ModelProto:
    """Detection heads: maps of two sizes whose rows are joined."""
    network = Network(seed)
    large = network.op("Relu", network.conv("image", 3, 32))
    small = network.op("MaxPool", large, kernel_shape=[2, 2], strides=[2, 2])
    joined = []
    for count in (4, int(network.random.integers(2, 9))):
        maps = (network.op("Transpose", network.conv(each, 32, 2 * count), perm=LAST) for each in (large, small))
        rows = [network.op("Reshape", each, network.constant(np.array([1, -1, count]))) for each in maps]
        joined.append(network.op("Concat", *rows, axis=1))
    return network.model(3, joined)


@pytest.mark.parametrize("make", [chain, heads])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_priced_is_executed(make: Callable[[int], onnx.ModelProto], seed: int) -> None:
    """No more Transposes than the source has, in the file and once optimised, and the same results at all levels."""
    source = make(seed)
    conversion = layoutsolve.convert(source)
    own, given = (executed(optimised(each.SerializeToString())).transposes for each in (conversion.model, source))
    assert own == conversion.price.transposes + conversion.price.hidden <= given
    assert sum(node.op_type == "Transpose" for node in conversion.model.graph.node) == conversion.price.transposes
    image = {"image": np.random.default_rng(seed).normal(0, 1, (1, _channels(source), 6, 8)).astype(np.float32)}
    truth = OnnxRuntime(source.SerializeToString(), level="none").run(image)
    for level in LEVELS:
        results = OnnxRuntime(conversion.model.SerializeToString(), level=level).run(image)
        for result, expected in zip(results, truth, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-4)


def _channels(model: onnx.ModelProto) -> int:
    return model.graph.input[0].type.tensor_type.shape.dim[1].dim_value


@pytest.mark.parametrize(
    ("channels", "produced", "groups", "blocked"),
    [
        (3, 16, 1, True),
        (17, 16, 1, False),
        (20, 17, 1, True),
        (20, 20, 20, True),
        (32, 32, 2, True),
        (32, 32, 4, False),
    ],
)
def test_which_convolutions_are_in_blocks(channels: int, produced: int, groups: int, blocked: bool) -> None:
    """ONNX Runtime executes no Transpose behind those that are priced so, and one behind others."""
    network = Network(channels)
    made = network.op("Transpose", network.conv("image", channels, produced, groups), perm=LAST)
    model = network.model(channels, [made])
    assert executed(optimised(model.SerializeToString())).transposes == (not blocked)
    conversion = layoutsolve.convert(model)
    own = executed(optimised(conversion.model.SerializeToString())).transposes
    assert own <= (not blocked)
    assert own == conversion.price.transposes + conversion.price.hidden or not blocked


@pytest.mark.parametrize("objective", ["min-transpose", "min-nodes"])
def test_where_transposes_count_by_themselves(objective: layoutsolve.Objective) -> None:
    """Nothing is taken off them."""
    for seed in range(2):
        assert layoutsolve.convert(chain(seed), objective=objective).price.hidden >= 0


@pytest.mark.parametrize("target", ["ort-arm", "ort-web", "openvino-cpu", "portable"])
def test_other_runtimes_execute_them(target: str) -> None:
    """So they have no such form."""
    assert all(layoutsolve.convert(chain(seed), target=target).price.hidden >= 0 for seed in range(2))
