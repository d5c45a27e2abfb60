"""Where corpus tests find their models: ``--corpus FOLDER`` or the variable LAYOUTSOLVE_CORPUS. And interrupts that
arrive.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from layoutsolve.solver.search import alternatives
from layoutsolve.solver.strategies import staged


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--corpus", type=Path, help="a folder of .tflite files to test with (default: $LAYOUTSOLVE_CORPUS)"
    )


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--corpus") or os.environ.get("LAYOUTSOLVE_CORPUS")
    if folder:
        os.environ["LAYOUTSOLVE_CORPUS"] = str(folder)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def briefly() -> Iterator[None]:
    """How few Reshapes are needed is not looked into for long, where a test is about what a model computes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged, "NEEDED", 30_000)
        patch.setattr(staged, "WIDENED", 10_000)
        patch.setattr(alternatives, "ROWS", 1_000)
        yield
