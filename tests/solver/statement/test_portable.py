"""The target ``portable``: the file is what its script makes of the others; nothing in it is faster than in those."""

from __future__ import annotations

from experiments import portable
from layoutsolve.solver.statement.kinds import entry
from layoutsolve.solver.statement.target_file import shipped


def test_file_is_merged_from_the_others() -> None:
    assert portable.FILE.read_text() == portable.text()


def test_nothing_is_better_than_in_the_worst_runtime() -> None:
    made, targets = shipped("portable"), [shipped(name) for name in (portable.BASE, *portable.OTHERS)]
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
