"""The program where functions and files of POSIX systems are missing, as on Windows."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.make.demo import mobilenet
from layoutsolve.base.platforms import one_core, processor_clock

WITHOUT = """
import io, os, signal, sys
from pathlib import Path
for name in ("chown", "fchown", "lchown", "fchmod", "getuid", "geteuid", "sched_getaffinity", "sched_setaffinity",
             "mkfifo", "fork", "killpg", "setsid", "O_NONBLOCK"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGALRM", "setitimer", "pthread_kill"):
    if hasattr(signal, name):
        delattr(signal, name)
sys.modules["resource"] = sys.modules["fcntl"] = sys.modules["pwd"] = sys.modules["termios"] = None
stat = Path.stat
def without_devices(self, **options):
    if str(self) in ("/dev/stdout", "/proc/cpuinfo"):
        raise FileNotFoundError(2, "No such file", str(self))
    return stat(self, **options)
Path.stat = without_devices
from layoutsolve.cli.command_line import main
sys.exit(main(sys.argv[1:]))
"""


def without_posix(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A run of the program whose console has the characters of Western Europe alone."""
    environment = {"PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


def test_conversions_without_posix(tmp_path: Path) -> None:
    """Files are written, and written again over what is there, to standard output too."""
    (tmp_path / "modèle ▶.tflite").write_bytes(mobilenet())
    for more in (["--verify"], []):
        done = without_posix(tmp_path, "modèle ▶.tflite", "-o", "out.onnx", *more)
        assert (done.returncode, done.stderr) == (0, b"")
    done = without_posix(tmp_path, "modèle ▶.tflite", "-o", "-")
    assert (done.returncode, done.stdout) == (0, (tmp_path / "out.onnx").read_bytes())
    done = without_posix(tmp_path, ".", "-o", "many", "--jobs", "2")
    assert done.returncode == 0 and (tmp_path / "many" / "modèle ▶.onnx").exists()
    done = without_posix(tmp_path, "bench", "out.onnx", "modèle ▶.tflite")
    assert (done.returncode, done.stderr) == (0, b"")


def test_read_only_files_without_posix(tmp_path: Path) -> None:
    (tmp_path / "a.tflite").write_bytes(mobilenet())
    (tmp_path / "a.onnx").mkdir()
    done = without_posix(tmp_path, "a.tflite")
    assert done.returncode == 2 and done.stderr.startswith(b"layoutsolve: cannot write 'a.onnx'")


def test_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Windows go in steps that are longer than most models take."""
    assert processor_clock() is time.process_time
    monkeypatch.setattr(sys, "platform", "win32")
    assert processor_clock() is time.perf_counter
    with one_core():
        pass
