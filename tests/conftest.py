"""Where corpus tests find their models: ``--corpus FOLDER`` or the variable LAYOUTSOLVE_CORPUS. How many members of a
family are run: ``--members N``, 0 for all. And interrupts that arrive.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

MEMBERS = 24
"""How many members of a family are run where no mark says otherwise."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--corpus", type=Path, help="a folder of .tflite files to test with (default: $LAYOUTSOLVE_CORPUS)"
    )
    parser.addoption("--members", type=int, help="run at most so many of each family of tests; 0: all there are")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all but some members of each family: in a quick check, which leaves out what is slow by itself as well,
    so many of each test function as it asks for, else as its mark says.
    """
    most = config.getoption("--members")
    if most == 0:
        return
    families: dict[tuple[str, object], list[pytest.Item]] = {}
    for item in (item for item in items if most is None or item.get_closest_marker("slow") is None):
        families.setdefault((item.nodeid.partition("[")[0], _kind(item) if most is None else None), []).append(item)
    kept = {item for family in families.values() for item in members(family, most)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _kind(item: pytest.Item) -> object:
    """What members of a test function are families of their own by: the attribute of their case that its mark names."""
    mark = item.get_closest_marker("members")
    name = mark.kwargs.get("each") if mark else None
    return getattr(item.callspec.params["case"], name) if name else None  # type: ignore[attr-defined]


def members(family: list[pytest.Item], most: int | None) -> list[pytest.Item]:
    """The members of a family that are run: as many as its mark says, where 0 is all of them, and no more than is asked
    for. Of a case's own family one of each kind as well, which names tell.
    """
    mark = family[0].get_closest_marker("members")
    if mark is None:
        return spread(family, most or MEMBERS)
    count = int(mark.args[0]) or len(family)
    chosen = spread(family, min(count, most or count))
    if most or not mark.kwargs:
        return chosen
    kinds = {kind_of(item.nodeid): item for item in reversed(family)}
    return [*chosen, *kinds.values()]


def kind_of(name: str) -> str:
    """A test's name without its numbers and types, but for narrow integers: runtimes have other kernels for them."""
    return re.sub(r"(u?int|float)?\d+", "", re.sub(r"u?int(8|16)\b", "narrow", name))


def spread(family: list[pytest.Item], most: int) -> list[pytest.Item]:
    """So many members of a family at equal distances, the first among them."""
    count = min(most, len(family))
    return [family[number * len(family) // count] for number in range(count)]


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(200_000, 20, 50)  # looking for garbage takes a fifth of the time of collecting tests
    if sys.dont_write_bytecode:  # by PYTHONDONTWRITEBYTECODE; each process of a test would compile all that it imports
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    folder = config.getoption("--corpus") or os.environ.get("LAYOUTSOLVE_CORPUS")
    if folder:
        os.environ["LAYOUTSOLVE_CORPUS"] = str(folder)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def one_litert() -> Iterator[None]:
    """All verifications share LiteRT's process, which takes longer to start than to run small models."""
    from layoutsolve.verification import verify
    from layoutsolve.verification.litert import LiteRT
    from tests.truth import litert

    def shared(timeout: float) -> AbstractContextManager[LiteRT]:
        return LiteRT(timeout) if timeout < 60 else nullcontext(litert())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verify, "LiteRT", shared)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Numbers of a generator that the tests of a file share do not depend on which of them a worker has run before."""
    random = getattr(getattr(item, "module", None), "RANDOM", None)
    if random is not None:
        random.bit_generator.state = type(random.bit_generator)(0).state


def pytest_collection_finish() -> None:
    """What has been collected stays: it is nothing that the garbage collector has to look through again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def registry() -> Iterator[None]:
    """Forgets what a test registers."""
    from layoutsolve.frontend.tflite.lowering.registry import every_lowering
    from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN

    known = every_lowering()
    before = dict(known)
    yield
    known.clear()
    known.update(before)
    FOREIGN.clear()
