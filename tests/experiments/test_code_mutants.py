"""Mutants of code: what is changed, which tests reach it, and that the file stays as it is."""

from __future__ import annotations

import ast

import pytest

from experiments.fuzz import code_mutants, instrumented
from experiments.fuzz.code_changes import changes, mutated, places
from experiments.fuzz.code_mutants import Reaching, drawn
from experiments.fuzz.reached import Reach

SOURCE = '''
from math import pi
def chosen(a: int, b=2):
    """A text with 1 in it."""
    if a < b and not -a == 3:
        raise ValueError(f"{a + 1} is wrong")
    for each in (a, b):
        if each is None:
            continue
        b += each * 0.5
    return b if a else "a" + "b"
'''


def every_change() -> list[str]:
    """The lines that differ in each mutant of the source above."""
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    found = []
    for number in range(len(list(changes(ast.parse(SOURCE))))):
        tree = ast.parse(SOURCE)
        for place, (*_, change) in enumerate(changes(tree)):
            if place == number:
                change()
                break
        made = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
        assert len(made) == len(plain) or "pass" in "".join(made)
        found += [other.strip() for one, other in zip(plain, made, strict=True) if one != other]
    return found


def test_what_is_changed() -> None:
    """Each operator, comparison, condition, number and result, each statement that can go; no texts and no types."""
    assert sorted(every_change()) == sorted([
        "def chosen(a: int, b=3):",
        "def chosen(a: int, b=1):",
        "if a < b or not -a == 3:",
        "if a <= b and (not -a == 3):",
        "if a < b and (not not -a == 3):",
        "if a < b and (not -a != 3):",
        "if a < b and (not +a == 3):",
        "if a < b and (not -a == 4):",
        "if a < b and (not -a == 2):",
        "if not (a < b and (not -a == 3)):",
        "pass",
        "if each is not None:",
        "if not each is None:",
        "pass",
        "b += each + 0.5",
        "b += each * 2.0",
        "pass",
        "return b if not a else 'a' + 'b'",
        "return None",
    ])  # fmt: skip


def test_every_place_of_the_package_can_be_changed() -> None:
    """Of a few files each, and what becomes of them is Python, and something else."""
    for place in drawn(0, 24, ["solver/s", "emit/guards"]):
        source = (instrumented.ROOT / place.path).read_bytes()
        made, before, after = mutated(place.path, ast.parse(source), place.number)
        compile(ast.fix_missing_locations(made), place.path, "exec")
        assert before and "  ->  " in after
        assert places(place.path)[place.number] == place


def test_blocks_that_are_executed_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On import the first alone; then those of the function, on each of its ways."""
    monkeypatch.setattr(instrumented, "REACHED", {})
    tree = instrumented.probed("a.py", ast.parse(SOURCE))
    names = {"__reached__": instrumented.REACHED}
    exec(compile(ast.fix_missing_locations(tree), "a.py", "exec"), names)
    assert instrumented.taken() == {"a.py": "1"}
    assert names["chosen"](2, 2) == 4.0  # type: ignore[operator]
    noted = int(instrumented.taken()["a.py"], 16)
    assert noted & 1 == 0 and noted.bit_count() == 5
    with pytest.raises(ValueError, match="is wrong"):
        names["chosen"](1, 2)  # type: ignore[operator]
    assert int(instrumented.taken()["a.py"], 16).bit_count() == 2
    assert instrumented.taken() == {}


def test_blocks_are_the_same_for_probes_and_for_mutants() -> None:
    """A place is in the block whose number its probe notes."""
    tree = ast.parse(SOURCE)
    blocks = instrumented.Blocks(tree)
    function = tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    condition, loop, last = function.body[1:]
    assert isinstance(condition, ast.If) and isinstance(loop, ast.For)
    numbers = [blocks.of[id(each)] for each in (function.body[0], condition, condition.body[0], loop, last)]
    assert numbers[0] == numbers[1] > 0 and len(set(numbers)) == 4
    assert blocks.of[id(function)] == 0


def test_quick_tests_of_the_same_room_come_first() -> None:
    """One of each test function before a second one of any, within the time; none that failed or does not reach it."""
    place = next(each for each in places("solver/limit.py") if each.block)
    reached = {place.path: 1 << place.block}
    tests = Reaching({
        "tests/emit/test_a.py::test_a": Reach(0.1, True, reached),
        "tests/solver/test_a.py::test_slow": Reach(40, True, reached),
        "tests/solver/test_a.py::test_a[1]": Reach(2, True, reached),
        "tests/solver/test_a.py::test_a[2]": Reach(1, True, reached),
        "tests/solver/test_a.py::test_failed": Reach(1, False, reached),
        "tests/solver/test_a.py::test_other": Reach(1, True, {place.path: 2 << place.block}),
    })  # fmt: skip
    names = ["tests/solver/test_a.py::test_a[2]", "tests/emit/test_a.py::test_a", "tests/solver/test_a.py::test_a[1]"]
    assert tests.of(place, 10) == names
    assert tests.of(place, 60)[1] == "tests/solver/test_a.py::test_slow"
    assert code_mutants.SECONDS > 10
