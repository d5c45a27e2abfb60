"""The wheel has every module of the source tree."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = {"frontend": "layoutsolve/frontend", "solver": "layoutsolve/solver", "emit": "layoutsolve/emit"}


def test_wheel_is_complete(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    expected = {f"layoutsolve/{path.name}" for path in (ROOT / "layoutsolve").glob("*.py")}
    for room, package in ROOMS.items():
        expected |= {f"{package}/{path.relative_to(ROOT / room).as_posix()}" for path in (ROOT / room).rglob("*.py")}
    assert packed == expected
