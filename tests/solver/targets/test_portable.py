"""The target ``portable``: its script makes it of others and of measurements; nothing in it is faster than in those."""

from __future__ import annotations

from itertools import product

import pytest

from experiments.measure.portable import FILE, RUNTIMES, measured, merged, text
from layoutsolve.solver.targets.kind_lookup import entry
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.solver.theory.offer import IDIOMS


def test_the_file_is_what_is_made_of_measurements() -> None:
    assert FILE.read_text() == text(measured())


def test_everything_in_doubt_was_measured() -> None:
    """Idioms that some target does not want, in all runtimes."""
    found = measured()
    for operator, name in IDIOMS:
        wanted = [name in shipped(target).idioms.get(operator, ()) for target in RUNTIMES.values()]
        if any(wanted) and not all(wanted):
            assert set(found["idioms"][f"{operator} {name}"]) == set(RUNTIMES)


@pytest.mark.parametrize(("loss", "gain"), list(product((0.8, 1.1, None), (0.5, 0.95))))
def test_an_idiom_is_wanted_where_it_gains_more_than_it_loses(loss: float | None, gain: float) -> None:
    found = measured()
    times = {"ONNX Runtime": gain, "OpenVINO": 0.7, "onnxruntime-web": loss}
    wanted = merged({**found, "idioms": {**found["idioms"], "Mul depthwise": times}})["idioms"]["Mul"]
    assert ("depthwise" in wanted) == (loss is not None and loss < 1 / gain)


def test_nothing_is_better_than_in_the_worst_runtime() -> None:
    made, targets = shipped("portable"), [shipped(name) for name in RUNTIMES.values()]
    assert not made.domains
    for target in targets:
        assert made.unsupported >= target.unsupported
        for key, hidden in target.hidden.items():
            assert entry(made.hidden, *key, 0) >= hidden
        for key, runs in target.kernels.items():
            assert entry(made.kernels, *key, True) <= runs
        assert all(cost.fixed <= made.latency.transpose[key].fixed for key, cost in target.latency.transpose.items())
