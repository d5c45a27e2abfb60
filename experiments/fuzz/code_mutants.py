"""Mutants of the package's code: which share of small changes at random places makes a test fail.

Places are drawn from all files of the package. A mutant is tried with the tests that execute its block, as
``experiments.fuzz.reached`` noted them: those of its own room first, one of each test function before a second one of
any, quick ones before slow ones, until one fails or their time is over.

    python -m experiments.fuzz.code_mutants REACHED --seed 0 --count 300 --json mutants.json

Where there is no such folder all tests are run first, which takes as long as they do. A mutant that survives is
equivalent, or in code that does nothing, or wants a test.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.fuzz import instrumented
from experiments.fuzz.reached import Reach, read

SECONDS = 60.0
"""Processor time of the tests that a mutant is tried with, as they took it without a mutation."""

TIMES, SLACK, WALL, LONGEST = 4.0, 30.0, 10.0, 240.0
"""So many times the processor time of its tests, and so many seconds more, are what a mutant may take before it counts
as one that does not end; so many times that by the clock, as other processes may have the processor, but no more than
so many seconds beside what its tests take.
"""

MEMORY = 8 << 30
"""The address space of a process that runs a mutant."""

PRELOADED = ("hypothesis", "onnx", "onnxruntime", "ortools.linear_solver.pywraplp", "ortools.sat.python.cp_model")
"""What most tests load."""

FILES = 12
"""How many files of tests a mutant is tried with at once: to collect them takes time as well."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.MatMult: ast.Mult,
}  # fmt: skip
_BOOLEANS: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}

Change = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """One place of a file and what is changed there: its line, the kind of change and which of that kind at the same
    place, and the block that it stands in.
    """

    path: str
    number: int
    line: int
    kind: str
    block: int


@dataclass
class Verdict:
    """What became of a mutant, and the test that failed."""

    path: str
    number: int
    line: int
    kind: str
    before: str
    after: str
    verdict: str
    test: str = ""
    tests: int = 0
    seconds: float = 0.0


# -- mutations -----------------------------------------------------------------------------------------------------


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt, str, Change]]:
    """All changes of a file: the node, the statement around it, the kind of change, and what makes it in the tree."""
    yield from _of_statements(tree.body)


def _of_statements(body: list[ast.stmt]) -> Iterator[tuple[ast.AST, ast.stmt, str, Change]]:
    for place, statement in enumerate(list(body)):
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or _is_typing(statement):
            continue
        for field, value in ast.iter_fields(statement):
            inner = value if isinstance(value, list) else [value]
            if field in ("annotation", "returns", "type_params", "decorator_list"):
                continue
            if inner and isinstance(inner[0], ast.stmt):
                yield from _of_statements(inner)
                continue
            for each in inner:
                if isinstance(each, (ast.ExceptHandler, ast.match_case)):
                    yield from _of_statements(each.body)
                elif isinstance(each, ast.AST):
                    for node, kind, change in _of_expression(each):
                        yield node, statement, kind, change
        if isinstance(statement, (ast.If, ast.While)):
            yield statement.test, statement, "condition", _setter(statement, "test", _not(statement.test))
        if _can_go(statement):
            yield statement, statement, "statement", _replacer(body, place, ast.Pass())
        if isinstance(statement, ast.Return) and not _is_none(statement.value):
            yield statement, statement, "return", _setter(statement, "value", ast.Constant(None))


def _is_typing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _can_go(statement: ast.stmt) -> bool:
    """Whether it does something of which the other statements do not need a name."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (ast.AugAssign, ast.Continue, ast.Break, ast.Raise, ast.Delete, ast.Assert))


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _of_expression(node: ast.AST) -> Iterator[tuple[ast.AST, str, Change]]:
    """Changes in an expression, but for what is said: texts, and what stands in them."""
    if isinstance(node, (ast.JoinedStr, ast.arg)):
        return
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield node, "comparison", _replacer(node.ops, place, _COMPARISONS[type(operator)]())
    elif isinstance(node, ast.BoolOp):
        yield node, "boolean", _setter(node, "op", _BOOLEANS[type(node.op)]())
    elif isinstance(node, ast.BinOp) and not any(_is_said(each) for each in (node.left, node.right)):
        yield node, "operator", _setter(node, "op", _OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        identity = _call_bool(node.operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(ast.UAdd(), node.operand)
        yield node, "sign", _becomes(node, identity)
    elif isinstance(node, ast.IfExp):
        yield node, "condition", _setter(node, "test", _not(node.test))
    elif isinstance(node, ast.comprehension):
        for place, test in enumerate(node.ifs):
            yield node, "condition", _replacer(node.ifs, place, _not(test))
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    for child in ast.iter_child_nodes(node):
        yield from _of_expression(child)


def _is_said(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _of_constant(node: ast.Constant) -> Iterator[tuple[ast.AST, str, Change]]:
    if isinstance(node.value, bool):
        yield node, "constant", _setter(node, "value", not node.value)
    elif isinstance(node.value, int):
        yield node, "constant", _setter(node, "value", node.value + 1)
        yield node, "constant", _setter(node, "value", node.value - 1)
    elif isinstance(node.value, float):
        yield node, "constant", _setter(node, "value", node.value * 2 + 1)


def _call_bool(operand: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), operand))


def _setter(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _replacer(items: list[Any], place: int, value: ast.AST) -> Change:
    return lambda: items.__setitem__(place, value)


def _becomes(node: ast.UnaryOp, other: ast.expr) -> Change:
    def change() -> None:
        node.op, node.operand = other.op, other.operand  # type: ignore[attr-defined]

    return change


@cache
def places(path: str) -> tuple[Place, ...]:
    """All places of a file, numbered."""
    tree = ast.parse((instrumented.ROOT / path).read_bytes())
    blocks = instrumented.Blocks(tree)
    return tuple(
        Place(path, number, getattr(node, "lineno", statement.lineno), kind, blocks.of[id(statement)])
        for number, (node, statement, kind, _) in enumerate(changes(tree))
    )


def mutated(path: str, tree: ast.Module, number: int) -> tuple[ast.Module, str, str]:
    """A file with one change, and the text of the statement before and after it."""
    for place, (_, statement, _, change) in enumerate(changes(tree)):
        if place == number:
            before = _first_line(statement)
            shown = copy.deepcopy(tree)
            change()
            after = _differing(shown, tree, before)
            return tree, before, after
    raise LookupError(path, number)


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _differing(before: ast.Module, after: ast.Module, whole: str) -> str:
    """The lines that another tree has instead."""
    old, new = (ast.unparse(ast.fix_missing_locations(each)).splitlines() for each in (before, after))
    lines = [f"{one.strip()}  ->  {other.strip()}" for one, other in zip(old, new, strict=False) if one != other]
    return lines[0] if lines else whole


def inherited(argument: str) -> None:
    """Import the package with a mutation, in this process and those that it starts."""
    path, _, number = argument.partition("#")

    def transform(given: str, tree: ast.Module) -> ast.Module:
        return mutated(path, tree, int(number))[0]

    instrumented.install(transform, only=path)


def drawn(seed: int, count: int, only: Sequence[str] = ()) -> list[Place]:
    """Places at random, of all files or of those whose paths begin so: each line is as likely as another."""
    lines: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for path in instrumented.sources():
        if not only or path.startswith(tuple(only)):
            for place in places(path):
                lines[path, place.line].append(place)
    random = np.random.default_rng(seed)
    keys = sorted(lines)
    chosen = random.choice(len(keys), min(count, len(keys)), replace=False)
    return [lines[keys[each]][int(random.integers(len(lines[keys[each]])))] for each in chosen]


# -- tests ---------------------------------------------------------------------------------------------------------


class Reaching:
    """The tests that a mutant is tried with."""

    def __init__(self, reached: dict[str, Reach]) -> None:
        self.reached = {name: reach for name, reach in reached.items() if reach.passed and name}
        self._of_file: dict[str, list[str]] = defaultdict(list)
        for name, reach in self.reached.items():
            for path, blocks in reach.blocks.items():
                if blocks > 1:
                    self._of_file[path].append(name)

    def of(self, place: Place, seconds: float) -> list[str]:
        """Tests that execute a place, the most telling first, for so many seconds of processor time. Where a place is
        executed on import, those that execute most of its file.
        """
        names = self._of_file[place.path]
        if place.block:
            names = [name for name in names if self.reached[name].blocks[place.path] >> place.block & 1]
        else:
            names = sorted(names, key=lambda name: -self.reached[name].blocks[place.path].bit_count())
        groups: dict[str, list[str]] = defaultdict(list)
        for name in names:
            groups[name.partition("[")[0]].append(name)
        for group in groups.values():
            group.sort(key=lambda name: (self.reached[name].seconds, _scattered(name)))
        order = sorted(groups, key=lambda group: (not _is_near(group, place.path), self._cost(groups[group][0])))
        return self._within([groups[group] for group in order], seconds)

    def _cost(self, name: str) -> float:
        return self.reached[name].seconds

    def _within(self, groups: list[list[str]], seconds: float) -> list[str]:
        """One test of each group, then a second one of each, as long as there is time."""
        chosen: list[str] = []
        left, turn = seconds, 0
        while left > 0 and any(len(group) > turn for group in groups):
            for group in groups:
                cost = self._cost(group[turn]) + 0.02 if len(group) > turn else left + 1
                if cost <= left:
                    chosen.append(group[turn])
                    left -= cost
            turn += 1
            left -= 0.01
        return chosen


def _scattered(name: str) -> int:
    """A number that depends on a name alone, and is another one for each."""
    return sum((place + 1) * 31 * ord(each) for place, each in enumerate(name)) % 997


def _is_near(test: str, path: str) -> bool:
    """Whether tests lie where those of a file do."""
    return test.startswith(_room(path))


@cache
def _room(path: str) -> str:
    """The folder of tests that is called as the folder of a file is, or as the one around that."""
    folder = Path(path).parent.as_posix().removeprefix("layoutsolve/")
    while not (instrumented.ROOT / "tests" / folder).is_dir():
        folder = Path(folder).parent.as_posix()
    return f"tests/{folder}/".replace("/./", "/")


# -- trying --------------------------------------------------------------------------------------------------------


def tried(place: Place, tests: Reaching, seconds: float) -> Verdict:
    """What becomes of a mutant."""
    tree = ast.parse((instrumented.ROOT / place.path).read_bytes())
    _, before, after = mutated(place.path, tree, place.number)
    names = tests.of(place, seconds)
    record = Verdict(place.path, place.number, place.line, place.kind, before.splitlines()[0], after, "not executed")
    record.tests = len(names)
    began = time.monotonic()
    for batch in _batches(names):
        expected = sum(tests.reached[name].seconds for name in batch)
        record.verdict, record.test = _outcome(place, batch, TIMES * expected + SLACK)
        if record.verdict != "survived":
            break
    record.seconds = round(time.monotonic() - began, 1)
    return record


def _batches(names: list[str]) -> Iterator[list[str]]:
    """Tests in their order, of few files at once; first a handful."""
    batch: list[str] = []
    files: set[str] = set()
    first = True
    for name in names:
        batch.append(name)
        files.add(name.partition("::")[0])
        if len(files) == (3 if first else FILES):
            yield batch
            batch, files, first = [], set(), False
    if batch:
        yield batch


def _outcome(place: Place, names: list[str], seconds: float) -> tuple[str, str]:
    """Run tests with a mutant, in a process of its own: the verdict, and the test that failed."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        process = multiprocessing.get_context("fork").Process(target=_run, args=(place, names, Path(folder), seconds))
        process.start()
        process.join(min(WALL * seconds, seconds + LONGEST))
        late = process.is_alive()
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        text = told.read_text(errors="replace") if told.exists() else ""
    if late or process.exitcode == -signal.SIGXCPU:
        return "killed", "it does not end"
    if process.exitcode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "survived", ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return "killed", failed[1] if failed else f"exit {process.exitcode}: {text[-200:]}"


def _run(place: Place, names: list[str], folder: Path, seconds: float) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    forget()
    argument = f"{place.path}#{place.number}"
    os.environ.update(instrumented.environment(folder, "code_mutants", argument))
    inherited(argument)
    for number in (1, 2):
        os.dup2(os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", f"--basetemp={folder}/base"]
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    status = pytest.main([*options, *(each for each in files if (instrumented.ROOT / each).exists())], [Only(names)])
    sys.stdout.flush()
    os._exit(int(status))


class Only:
    """Has pytest run these tests in this order. What the tree does not have any more is left out."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest when it has found the tests of the files."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._names if name in found]


def forget() -> None:
    """Have everything imported again that a mutation may change, and what has imported from that."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("layoutsolve", "tests")]:
        del sys.modules[name]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reached", type=Path, help="what experiments.fuzz.reached noted, or is to note")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="run these tests first, not all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="leave out so many mutants")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="files whose paths begin so")
    parser.add_argument("--place", action="append", default=[], metavar="PATH#NUMBER", help="these mutants")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time of the tests for a mutant")
    parser.add_argument("--json", type=Path, help="a file for the verdicts")
    options = parser.parse_args()
    if not options.reached.exists():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "experiments.fuzz.reached"]
        command += [f"--reached={options.reached.absolute()}", *options.tests]
        subprocess.run(command, cwd=instrumented.ROOT, check=False)
    for name in PRELOADED:
        importlib.import_module(name)
    tests = Reaching(read(options.reached))
    if options.place:
        given = [each.rpartition("#") for each in options.place]
        chosen = [places(path)[int(number)] for path, _, number in given]
    else:
        chosen = drawn(options.seed, options.count, options.only)[options.first :]
    counts: Counter[str] = Counter()
    for place in chosen:
        verdict = tried(place, tests, options.seconds)
        counts[verdict.verdict] += 1
        where = f"{place.path}:{place.line} #{place.number}"
        print(f"{verdict.verdict:12} {where}  {verdict.after}  {verdict.test}", flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
