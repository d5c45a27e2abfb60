"""The target ``portable``: its script makes it of others and of measurements; nothing in it is faster than in those."""

from __future__ import annotations

from itertools import product

import pytest

from experiments.portable import FILE, LAYOUTS, RUNTIMES, SIZES, measured, merged, text
from layoutsolve.solver.statement.kinds import entry
from layoutsolve.solver.statement.target_file import shipped
from layoutsolve.solver.theory.offer import IDIOMS


def test_the_file_is_what_is_made_of_measurements() -> None:
    assert FILE.read_text() == text(measured())


def test_everything_in_doubt_was_measured() -> None:
    """Idioms that some target does not want, in all runtimes; both layouts of all sizes."""
    found = measured()
    for operator, name in IDIOMS:
        wanted = [name in shipped(target).idioms.get(operator, ()) for target in RUNTIMES.values()]
        if any(wanted) and not all(wanted):
            assert set(found["idioms"][f"{operator} {name}"]) == set(RUNTIMES)
    assert {layout: {len(times) for times in found["resized"][layout].values()} for layout in LAYOUTS} == {
        layout: {len(SIZES)} for layout in LAYOUTS
    }


@pytest.mark.parametrize(("loss", "gain"), list(product((0.8, 1.1, None), (0.5, 0.95))))
def test_an_idiom_is_wanted_where_it_gains_more_than_it_loses(loss: float | None, gain: float) -> None:
    found = measured()
    times = {"ONNX Runtime": gain, "OpenVINO": 0.7, "onnxruntime-web": loss}
    wanted = merged({**found, "idioms": {**found["idioms"], "Mul depthwise": times}})["idioms"]["Mul"]
    assert ("depthwise" in wanted) == (loss is not None and loss < 1 / gain)


@pytest.mark.parametrize("slow", LAYOUTS)
def test_the_layout_that_is_slower_at_its_worst_loses(slow: str) -> None:
    found = measured()
    resized = {layout: {"ONNX Runtime": [9.0 if layout == slow else 2.0]} for layout in LAYOUTS}
    made = merged({**found, "resized": resized, "lost": 1e-9})
    for table, worth in ((made["hidden"], 2), (made["extra"], 1e-9)):
        kinds = {kind: value for kind, value in table["Resize"].items() if kind.startswith("linear ")}
        assert {value for kind, value in kinds.items() if slow in kind} <= {worth}
        assert {value for kind, value in kinds.items() if slow not in kind} == {0}


def test_nothing_is_better_than_in_the_worst_runtime() -> None:
    made, targets = shipped("portable"), [shipped(name) for name in RUNTIMES.values()]
    assert not made.domains
    for target in targets:
        assert made.unsupported >= target.unsupported
        for key, hidden in target.hidden.items():
            weighed = key[0] == "Resize" and key[1].startswith("linear ")
            assert weighed or entry(made.hidden, *key, 0) >= hidden
        for key, runs in target.kernels.items():
            assert entry(made.kernels, *key, True) <= runs
        assert all(cost.fixed <= made.latency.transpose[key].fixed for key, cost in target.latency.transpose.items())


def test_what_a_runtime_refuses_is_not_asked_for() -> None:
    assert not shipped("portable").idioms["Resize"]
