"""The same models through a scheduler of Dask: the same bytes, whatever becomes of its workers."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from layoutsolve.batch import dask_scheduler as module
from layoutsolve.batch.dask_scheduler import scheduled
from layoutsolve.batch.versions import PACKAGES, Versions, versions
from layoutsolve.batch.workers import DIED, Answer, answers
from layoutsolve.cli.command_line import main
from layoutsolve.errors import OptionError
from tests.batch.test_batch import written
from tests.batch.test_interrupted import alive
from tests.random_models import network

distributed = pytest.importorskip("distributed", reason="it comes with layoutsolve[dask]")


LONE = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for number in range(4):
        (tmp_path / "models" / f"{number}.tflite").write_bytes(network(number).source)
    (tmp_path / "models" / "bad.tflite").write_bytes(b"nothing")
    return tmp_path


def test_workers_that_die(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What they were at is done by others; paths are those of this folder."""
    assert main(["models", "-o", "alone"]) == 2
    alone = capsys.readouterr().out.splitlines()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        process = cluster.workers[0].pid
        killer = Timer(0.5, lambda: os.kill(process, signal.SIGKILL))
        killer.start()
        assert main(["models", "-o", "out", "--scheduler", cluster.scheduler_address]) == 2
        killer.join()
        assert not alive(process)
    told = capsys.readouterr().out.splitlines()
    assert written(folder / "out") == written(folder / "alone") and len(written(folder / "out")) == 4
    assert [line.split()[:4] for line in told] == [line.split()[:4] for line in alone]


def test_a_model_that_no_worker_survives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that the worker was given together with it are converted."""

    def answer(requests: Sequence[dict[str, Any]], place: str, wanted: Versions) -> list[Answer]:
        if any(request["model"] == "bad" for request in requests):
            os._exit(1)
        return [Answer(number, 0, request["model"], place) for number, request in enumerate(requests)]

    import dask

    monkeypatch.setattr(module, "_answers", answer)
    names = ["a", "bad", *map(str, range(10))]
    assert len(next(iter(module._pieces(len(names), 1)))) > 1
    blamed_alone = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
    with dask.config.set(blamed_alone), distributed.LocalCluster(**LONE) as cluster:
        asked = [{"model": name} for name in names]
        found = sorted(scheduled(asked, cluster.scheduler_address, 1), key=lambda each: each.number)
    bad = found.pop(1)
    assert found == [Answer(number, 0, name, str(folder)) for number, name in enumerate(names) if name != "bad"]
    assert (bad.number, bad.code) == (1, DIED) and bad.said.startswith("no worker of Dask could convert it")


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
def test_pieces(workers: int) -> None:
    """Each model once, in their order, the last ones alone."""
    for count in (0, 1, 2, 50, 1000):
        pieces = list(module._pieces(count, workers))
        assert [number for piece in pieces for number in piece] == [*range(count)]
        assert all(len(piece) == 1 for piece in pieces[-workers:])


def test_no_scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "_PATIENCE", "1s")
    assert main(["models", "-o", "out", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "argument --scheduler: 'tcp://127.0.0.1:1' does not answer" in capsys.readouterr().err
    assert main(["models", "-o", "out", "--scheduler", "nowhere://x"]) == 2
    assert "does not answer" in capsys.readouterr().err and not written(folder / "out")
    clients = [each for each in gc.get_objects() if isinstance(each, distributed.Client)]
    assert {each.status for each in clients} == {"closed"}, "as garbage one may end where a lock is held that it needs"
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(OptionError, match=r"pip install 'layoutsolve\[dask\]'"):
        next(scheduled([{}], "local", 1))


OTHERS = {
    "layoutsolve": "import layoutsolve.version; layoutsolve.version.VERSION = '0.0.1'",
    **{name: f"import {name}; {name}.__version__ = '0.0.1'" for name in PACKAGES},
    "": "sys.modules['layoutsolve.batch.versions'] = None",
}
"""What makes a worker one of other versions, by package; the last one has a layoutsolve that does not say its own."""


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        yield cluster


@pytest.mark.members(2)
@pytest.mark.parametrize("name", OTHERS)
def test_workers_of_other_versions(name: str, folder: Path, scheduler: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused before anything is converted, with one message that names the worker and both versions."""
    code = f"import sys; {OTHERS[name]}; from distributed.cli.dask_worker import main; main()"
    address = scheduler.scheduler_address
    command = [sys.executable, "-c", code, address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with distributed.Client(address) as client:
            client.wait_for_workers(1, timeout=60)
        assert main(["models", "-o", "out", "--scheduler", address]) == 2
    finally:
        worker.kill()  # one that waits for its scheduler ends at no milder word
        worker.wait()
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 1 and not list(folder.glob("out/*.onnx"))
    assert told.err.startswith("layoutsolve: argument --scheduler: the worker tcp://127.0.0.1:")
    expected = f"{name} 0.0.1 instead of {versions().get(name)}:" if name else "does not report its versions"
    assert expected in told.err and "install" in told.err


def test_a_scheduler_without_layoutsolve(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It hands on what it reads itself: one message says so, before anything is converted."""
    code = "import sys; sys.modules['layoutsolve'] = None; from distributed.cli.dask_scheduler import main; main()"
    written = folder / "scheduler.json"
    command = [sys.executable, "-c", code, "--port", "0", "--no-dashboard", "--scheduler-file", str(written)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not written.exists() and time.monotonic() < end:
            time.sleep(0.1)
        address = json.loads(written.read_text())["address"]
        assert main(["models", "-o", "out", "--scheduler", address]) == 2
    finally:
        process.kill()
        process.wait()
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 1 and not list(folder.glob("out/*.onnx"))
    assert told.err.startswith("layoutsolve: argument --scheduler: the scheduler does not report its versions")
    assert "install layoutsolve" in told.err


def test_processes_of_other_versions(folder: Path) -> None:
    """A worker that comes later, or a package that is replaced meanwhile: each model fails with the reason."""
    for name in versions():
        wanted = {**versions(), name: "9.9"}
        found = list(answers([{"model": "models/0.tflite"}, {"model": "models/1.tflite"}], 1, wanted))
        assert [each.code for each in found] == [2, 2] and not any(each.told for each in found)
        assert all(f"{name} {versions()[name]} instead of 9.9" in each.said for each in found)
