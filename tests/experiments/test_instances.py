"""Instances cost what the layout problem does, whoever solves them, and a checker without layouts knows a false one."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import highspy
import pytest

from experiments.compare.formulations import Task
from experiments.instances import check, export
from experiments.instances.engines import ENGINES, solve
from experiments.instances.formats import pbqp, tables, write
from experiments.instances.instance import Statement
from tests.experiments.test_formulations import SECONDS, tasks
from tests.solver.enumeration import enumerated


def rows_of(task: Task, chance: random.Random) -> dict[int, int]:
    """Any rows of a component's operators."""
    return {number: chance.choice(list(task.domains[number])) for number in task.component.operators}


@pytest.mark.parametrize("objective", ["min-executed", "min-bytes"])
def test_an_assignment_costs_what_its_layouts_do(objective: str) -> None:
    """By all levels, whether or not it is a good one; and one without a move that is needed is none."""
    chance, broken = random.Random(0), 0
    for task in tasks(objective):
        stated = Statement(task)
        instance = stated.instance("some")
        for _ in range(4):
            rows = rows_of(task, chance)
            values = stated.assignment(rows)
            assert instance.cost(values) == task.values(rows)
            assert tuple(check.check(instance.document(), values)) == task.values(rows)
            for place in stated.orders:
                if values[place]:
                    other = [*values]
                    other[place] = 0
                    with pytest.raises(ValueError, match="at once"):
                        check.check(instance.document(), other)
                    assert instance.cost(other) is None
                    broken += 1
                    break
    assert broken > 20


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_come_to_the_least(engine: str) -> None:
    """Each proves what enumeration comes to, in the first level; the relaxation is no more than that."""
    compared = 0
    for task in tasks("min-executed"):
        instance = Statement(task).instance("some")
        best = enumerated(task.problem, list(map(list, task.domains)), task.component, task.start, task.levels)
        least = task.values({number: best[number] for number in task.component.operators})[0]
        answer = solve(engine, instance, SECONDS)
        if answer.values is None:
            assert engine.startswith("LP") and answer.bound <= least
        else:
            cost = instance.cost(answer.values)
            assert cost is not None and cost[0] == least == answer.bound
        compared += 1
    assert compared > 10


def test_files_say_the_same(tmp_path: Path) -> None:
    """HiGHS reads both linear programs, of equal optima; the matrices of the PBQP exclude the same pairs; the checker
    runs where nothing is installed.
    """
    task = max(tasks("min-executed"), key=lambda each: len(each.component.operators))
    stated = Statement(task)
    instance = stated.instance("some")
    write(instance, tmp_path)
    least = solve("HiGHS", instance, SECONDS).bound
    for ending in ("mps", "lp"):
        model = highspy.Highs()
        model.silent()
        model.readModel(str(tmp_path / f"some.{ending}"))
        model.run()
        assert round(model.getInfo().objective_function_value) == least
    assert pbqp(instance).count("inf") == sum(len(pairs) for _, _, pairs in tables(instance))
    values = stated.assignment(task.begun)
    (tmp_path / "solution.json").write_text(json.dumps(values))
    command = [sys.executable, "-I", "-S", check.__file__, str(tmp_path / "some.json"), str(tmp_path / "solution.json")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [int(each.rpartition(" ")[2]) for each in told.split(",")] == list(task.values(task.begun))


class Scip:
    """What of PySCIPOpt's Model the README calls, by HiGHS."""

    def __init__(self) -> None:
        self.model = highspy.Highs()
        self.model.silent()
        self.readProblem, self.optimize = self.model.readModel, self.model.run

    def hideOutput(self) -> None:  # noqa: N802
        pass

    def getVars(self) -> list[Path]:  # noqa: N802
        """What has a name."""
        return [Path(name) for name in self.model.getLp().col_names_]

    def getVal(self, variable: Path) -> float:  # noqa: N802
        return float(self.model.getSolution().col_value[int(variable.name[1:])])


def test_the_readme_solves_what_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its program comes to the best values that are written beside it."""
    export.main([str(tmp_path), "--small", "--only", "channels_last"])
    (program,) = re.findall(r"```python\n(.*?)```", (tmp_path / "README.md").read_text(), re.DOTALL)
    scip = ModuleType("pyscipopt")
    scip.Model = Scip  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyscipopt", scip)
    monkeypatch.setitem(sys.modules, "check", check)
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    exec(program, {})
    solved = [line.split() for line in capfd.readouterr().out.splitlines() if line.startswith("channels_last")]
    assert solved and all(value == best for _, value, best in solved)
