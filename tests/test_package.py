"""The wheel has every module of the source tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = {
    "layoutsolve/verification": "layoutsolve/verification",
    "frontend": "layoutsolve/frontend",
    "solver": "layoutsolve/solver",
    "emit": "layoutsolve/emit",
}


def test_wheel_is_complete(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".py", ".json"))}
    expected = {f"layoutsolve/{path.name}" for path in (ROOT / "layoutsolve").glob("*.py")}
    for room, package in ROOMS.items():
        expected |= {f"{package}/{path.relative_to(ROOT / room).as_posix()}" for path in (ROOT / room).rglob("*.py")}
    expected |= {f"layoutsolve/solver/statement/targets/{name}.json" for name in ("ort_cpu", "ort_cpu_contrib")}
    expected.add("layoutsolve/emit/kernels.json")
    assert packed == expected
