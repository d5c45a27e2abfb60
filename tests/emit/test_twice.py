"""What was written and is optimised again has no more operators, Transposes or Reshapes."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

import layoutsolve
from experiments.make.exporter_networks import FAMILIES, network
from layoutsolve.emit import nodes_of

SEEDS = 4


def counts(model: onnx.ModelProto) -> tuple[int, int, int]:
    found = Counter(node.op_type for node in nodes_of(model.graph))
    return found.total(), found["Transpose"], found["Reshape"]


def never_more(model: onnx.ModelProto) -> None:
    written = counts(model)
    again = counts(layoutsolve.optimize(model))
    assert all(after <= before for before, after in zip(written, again, strict=True)), (written, again)


@pytest.mark.members(11)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_of_exporters(seed: int, family: object) -> None:
    never_more(layoutsolve.optimize(network(family, 60 + seed)))  # type: ignore[arg-type]
