"""Networks whose sizes are known by name only agree with LiteRT at several sizes of each, in whatever way they convert.

``LAYOUTSOLVE_SEEDS=500`` tries so many of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve import Conversion
from layoutsolve.emit import apply, dynamic_shapes
from layoutsolve.emit.dynamic_shapes import computed
from layoutsolve.errors import BudgetError, StrategyError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Run
from layoutsolve.verification.metrics import distance
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.dynamic_networks import Sizes, image_network, sequence_network
from tests.models.test_random_models import WAYS
from tests.truth import litert

SEEDS = int(os.environ.get("LAYOUTSOLVE_SEEDS", "12")) // 3

TOLERANCE = 1e-3
"""The largest error relative to the range."""

Make = Callable[[int], tuple[bytes, list[Sizes]]]


@pytest.mark.members(0)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("make", [image_network, sequence_network])
def test_dynamic_network(make: Make, seed: int) -> None:
    source, sizes = make(seed)
    given = inputs(seed, sizes)
    truths = [litert().run(source, each) for each in given]
    for way in ({}, WAYS[seed % len(WAYS)], WAYS[(seed + 3) % len(WAYS)]):
        check(source, list(zip(given, truths, strict=True)), way)


def test_sizes_take_no_more_operators_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are written count, and no others."""
    for seed in range(3):
        graph = apply(layoutsolve.convert(image_network(seed)[0]).assignment)
        before = {name for node in graph.nodes for name in node.outputs if node.op != "Sizes"}
        written = [node for node in computed(graph).nodes if before.isdisjoint(node.outputs)]
        assert written
        monkeypatch.setattr(dynamic_shapes, "_GROWTH", 0)
        for spare in (len(written), len(written) - 1):
            monkeypatch.setattr(dynamic_shapes, "_SPARE", spare)
            if spare == len(written):
                computed(graph)
            else:
                with pytest.raises(BudgetError, match="far more operators"):
                    computed(graph)
        monkeypatch.undo()


@pytest.mark.parametrize("make", [image_network, sequence_network])
def test_fixed_shapes(make: Make) -> None:
    """With its sizes fixed the same network has nothing left to compute."""
    source, sizes = make(3)
    conversion = layoutsolve.convert(source, shapes=sizes[0])
    assert not {"Shape", "Range"} & {node.op_type for node in conversion.model.graph.node}
    (given,) = inputs(0, sizes[:1])
    compare(conversion, given, litert().run(source, given))


def inputs(seed: int, sizes: Sequence[Sizes]) -> list[list[Array]]:
    """Random inputs of each size."""
    random = np.random.default_rng(seed)
    return [[random.normal(size=shape).astype(np.float32) for shape in shapes.values()] for shapes in sizes]


def check(source: bytes, runs: Sequence[tuple[list[Array], Run]], way: Mapping[str, Any]) -> None:
    """Raise AssertionError unless a network converts in one way, and agrees with LiteRT at all sizes."""
    try:
        conversion = layoutsolve.convert(source, **way)
    except StrategyError:
        return
    onnx.checker.check_model(conversion.model, full_check=True)
    for given, truth in runs:
        compare(conversion, given, truth)


def compare(conversion: Conversion, given: list[Array], truth: Run) -> None:
    """Raise AssertionError unless a converted network gives what LiteRT gave."""
    runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
    moved = conversion.permutations(inputs=False)
    results = runtime.run(feeds(runtime, given, conversion.permutations(inputs=True)))
    for name, port, expected, stored in zip(runtime.outputs, truth.outputs, truth.results, results, strict=True):
        actual = np.transpose(stored, np.argsort(moved[name])) if name in moved else stored
        assert actual.shape == expected.shape
        found = distance(port, [(expected, actual)])
        assert found.relative <= TOLERANCE, f"{name} of {[each.shape for each in given]}: {found}"
