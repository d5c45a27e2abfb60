"""Where corpus tests find their models: ``--corpus FOLDER`` or the variable LAYOUTSOLVE_CORPUS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--corpus", type=Path, help="a folder of .tflite files to test with (default: $LAYOUTSOLVE_CORPUS)"
    )


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--corpus") or os.environ.get("LAYOUTSOLVE_CORPUS")
    if folder:
        os.environ["LAYOUTSOLVE_CORPUS"] = str(folder)
