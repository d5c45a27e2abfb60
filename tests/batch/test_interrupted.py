"""Runs of many models that end early, and processes that die."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from layoutsolve.base import processes
from layoutsolve.cli.command_line import main
from tests.batch.test_batch import PROGRAM, written
from tests.cli.test_streams import small, start
from tests.random_models import network

DYING = """
import os
from layoutsolve.cli import conversions
original = conversions.run_one
def dies(options):
    if "sub" in options.model:
        os.write(2, b"the last words\\n")
        os.kill(os.getpid(), 9)
    return original(options)
conversions.run_one = dies
"""

SPOILING = """
import layoutsolve.api
original = layoutsolve.api.verify
def spoil(source, conversion, **chosen):
    conversion.model.graph.node[0].op_type = "Neg"
    return original(source, conversion, **chosen)
layoutsolve.api.verify = spoil
"""


def beginning_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let processes that convert run some code first."""
    monkeypatch.setattr(processes, "_PATHS", f"{processes._PATHS}exec({code!r}); ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_dies(
    folder: Path, jobs: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one model that failed, as often as it happens."""
    beginning_with(monkeypatch, DYING)
    assert main(["models", "-o", "out", "--jobs", str(jobs)]) == 2
    *_, first, second, count = capsys.readouterr().out.splitlines()
    for line, name in ((first, "sub/a.tflite"), (second, "sub/deep/b.tflite")):
        why = "the process that converted it was ended by signal 9, as the system does it where memory runs out"
        assert line == f"{name}  failed: {why}: the last words"
    assert count == "5 models: 2 converted, 3 failed"
    assert {"a.onnx", "c d.onnx"} <= {*written(folder / "out")}


def test_different_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    beginning_with(monkeypatch, SPOILING)
    (folder / "one").mkdir()
    (folder / "one" / "m.tflite").write_bytes(small())
    for _ in range(2):  # it is never up to date
        assert main(["one", "--resume", "--verify"]) == 3
        told = capsys.readouterr().out
        assert "FAIL" in told and told.endswith("1 model: 1 converted, 1 different from LiteRT\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wait", [0.3, 1.2])
def test_interrupted(folder: Path, number: int, wait: float) -> None:
    """Nothing is left that is not whole, and no process."""
    for copy in range(40):
        (folder / "models" / f"{copy}.tflite").write_bytes(network(copy % 4).source)
    process = start("__main__.main()", "models", "-o", "out", "--jobs", "2", "-q")
    time.sleep(wait)
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode in (2, 128 + number) and (process.returncode == 2 or not error)
    for name in written(folder / "out") if (folder / "out").is_dir() else ():
        assert name.endswith(".onnx") and not name.startswith(".")
    assert not [child for child in children if alive(int(child))]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_terminal(folder: Path) -> None:
    """A bar on a terminal, with what failed above it; the table on standard output all the same."""
    here, there = pty.openpty()
    command = [*PROGRAM, "models", "-o", "out"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=there, env={**os.environ, "TERM": "xterm"})
    os.close(there)
    out = process.communicate(timeout=60)[0].decode()
    shown = b""
    while part := read(here):
        shown += part
    assert process.returncode == 2 and out.endswith("5 models: 4 converted, 1 failed\n")
    assert (
        b"bad.tflite' is neither a TensorFlow Lite nor an ONNX model" in shown
        and b"/5" in shown
        and b"\x1b[?25h" in shown
    )


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # its other end is closed
        return b""
