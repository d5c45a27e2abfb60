"""Which blocks of the package each test executes, and the processor time that it takes: a plugin of pytest.

    python -m pytest -n 2 -p experiments.fuzz.reached --reached=FOLDER

``experiments.fuzz.code_mutants`` takes the tests of a mutant from there.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from experiments.fuzz import instrumented

FOLDER = "LAYOUTSOLVE_REACHED"


@dataclass
class Reach:
    """What a test executes: the blocks of each file, as bits; its processor time in seconds; whether it passed."""

    seconds: float = 0.0
    passed: bool = True
    blocks: dict[str, int] = field(default_factory=dict)


def read(folder: Path) -> dict[str, Reach]:
    """What each test executes, by its name."""
    found: dict[str, Reach] = defaultdict(Reach)
    for path in sorted(folder.glob("*.json")):
        known: list[tuple[str, int]] = []
        for text in path.read_text().splitlines():
            line = json.loads(text)
            if "new" in line:
                known.append((line["new"][0], int(line["new"][1], 16)))
                continue
            reach = found[line["id"]]
            given = line["reached"]  # numbers of sets that are known, or the sets of a process by itself
            own = given.items() if isinstance(given, dict) else ()
            blocks = {path: int(bits, 16) for path, bits in own} or dict(known[each] for each in given)
            reach.blocks = instrumented.merged(reach.blocks, blocks)
            reach.seconds += line.get("seconds", 0.0)
            reach.passed &= line.get("passed", True)
    return dict(found)


class Noting:
    """Writes a line for each test, and one for each set of blocks of a file that is new."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"tests-{os.getpid()}.json").open("w")
        self._known: dict[tuple[str, str], int] = {}
        self._passed = True

    def _number(self, item: tuple[str, str]) -> int:
        if item not in self._known:
            self._known[item] = len(self._known)
            self._file.write(json.dumps({"new": item}) + "\n")
        return self._known[item]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        instrumented.taken()
        self._passed = True
        before = sum(os.times()[:4])
        result = yield
        seconds = sum(os.times()[:4]) - before
        reached = [self._number(each) for each in instrumented.taken().items()]
        line = {"id": item.nodeid, "seconds": round(seconds, 2), "passed": self._passed, "reached": reached}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed &= not report.failed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached", type=Path, help="a folder for what each test executes of the package")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any ``conftest.py`` imports the package."""
    if _folder(early_config.known_args_namespace) is not None:
        instrumented.probe()


def _folder(options: argparse.Namespace) -> Path | None:
    folder = options.reached or os.environ.get(FOLDER)
    return None if folder is None else Path(folder).resolve()


def pytest_configure(config: pytest.Config) -> None:
    folder = _folder(config.option)
    if folder is None:
        return
    if config.rootpath != instrumented.ROOT:  # a folder that is no part of an option moves it, and tests' names with it
        raise pytest.UsageError("write --reached=FOLDER, with the sign of equality")
    folder.mkdir(parents=True, exist_ok=True)
    if FOLDER not in os.environ:
        os.environ[FOLDER] = str(folder)
        os.environ.update(instrumented.environment(folder, "instrumented", str(folder)))
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Noting(folder))
