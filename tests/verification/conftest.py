"""What tests of verdicts have in common."""

from __future__ import annotations

import pytest

from layoutsolve.verification import output_accuracy


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many inputs are compared as tell something, however long that takes: two verdicts are of the same inputs."""
    for name in ("SECONDS", "BRIEF"):
        monkeypatch.setattr(output_accuracy, name, 1e3)
