"""Conversions lie beside rows of operators that a runtime may fuse, not within, as ONNX Runtime fuses them: networks of
random weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import layoutsolve
from experiments.make.exporter_networks import FAMILIES, Net, network
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.verification.runtimes import optimised

FUSED = ("Gelu", "LayerNormalization", "QuickGelu", "SimplifiedLayerNormalization")


def fused(model: onnx.ModelProto, path: Path) -> int:
    """How many operators ONNX Runtime makes of several."""
    onnx.save(model, path)
    operators = [node.op_type for node in optimised(path).graph.node]
    return sum("Gelu" in each or each in FUSED for each in operators)


def columns(net: Net, activation: str) -> onnx.ModelProto:
    """A convolution, an activation of several operators, and a recurrent network or a product of its columns."""
    width, size = net.choose.choice([4, 6]), net.choose.choice([5, 8])
    x = net.conv(net.input("image", [1, 3, size, size]), 3, width)
    x = net.gelu(x) if activation == "gelu" else net.op("Mul", x, net.op("Sigmoid", x))
    x = net.reshape(net.transpose(x, 3, 0, 1, 2), size, 1, width * size)
    if net.choose.random() < 0.5:
        x = net.op("GRU", x, net.weights(1, 9, width * size), net.weights(1, 9, 3), hidden_size=3)
        x = net.transpose(net.op("Squeeze", x, net.integers(1)), 1, 0, 2)
        net.output(net.linear(x, 3, 4))
    else:
        net.output(net.linear(net.transpose(x, 1, 0, 2), width * size, 4))
    return net.model()


@pytest.mark.parametrize("activation", ["gelu", "silu"])
@pytest.mark.parametrize("seed", range(8))
def test_activations_stay_one_kernel(seed: int, activation: str, tmp_path: Path) -> None:
    source = columns(Net(seed), activation)
    found = layoutsolve.convert(source).model
    assert fused(source, tmp_path / "source.onnx") == 1 == fused(found, tmp_path / "model.onnx")


def models() -> Iterator[object]:
    """Networks by family and seed."""
    for family in FAMILIES:
        if family.__name__ not in ("quantized", "windows"):
            for seed in (20, 21, 22):
                yield pytest.param(family, seed, id=f"{family.__name__}-{seed}")


@pytest.mark.members(8)
@pytest.mark.parametrize(("family", "seed"), list(models()))
def test_nothing_that_is_fused_is_parted(family: object, seed: int, tmp_path: Path) -> None:
    """Of exporters' networks at least as many operators are fused as of the source."""
    assert callable(family)
    source = network(family, seed)
    found = layoutsolve.convert(source).model
    assert fused(found, tmp_path / "model.onnx") >= fused(source, tmp_path / "source.onnx")


@pytest.mark.members(2)
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-nodes", "min-latency"])
@pytest.mark.parametrize("family", [each for each in FAMILIES if each.__name__ in ("convnext", "mixer", "recurrent")])
def test_that_costs_nothing(family: object, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The price and what is proven of it are what they are without."""
    assert callable(family)
    source = network(family, 30).SerializeToString()
    found = layoutsolve.convert(source, objective=objective).assignment
    monkeypatch.setattr(Statement, "_join", lambda _: None)
    before = layoutsolve.convert(source, objective=objective).assignment
    assert (found.tiers, found.status) == (before.tiers, before.status)
