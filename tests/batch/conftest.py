"""A folder of models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_streams import small

NAMES = ("a.tflite", "sub/a.tflite", "sub/deep/b.tflite", "c d.tflite")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of four models, and one file that is none."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(NAMES):
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(small(f"image{number}"))
    (tmp_path / "models" / "bad.tflite").write_bytes(b"nothing")
    yield tmp_path
