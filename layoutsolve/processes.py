"""Processes that import what this one does, wherever they are started."""

from __future__ import annotations

import json
import sys

_PATHS = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
"""What a process does first."""


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs ``main`` of a module."""
    return [sys.executable, "-c", f"{_PATHS}from {module} import main; main()", json.dumps(sys.path), *arguments]
