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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from experiments.fuzz import instrumented
from experiments.fuzz.code_changes import Place, mutated, places
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
