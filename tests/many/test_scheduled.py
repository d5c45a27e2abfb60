"""The same models through a scheduler of Dask: the same bytes, whatever becomes of its workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from layoutsolve.cli import main
from layoutsolve.errors import OptionError
from layoutsolve.many import scheduled as module
from layoutsolve.many.scheduled import scheduled
from layoutsolve.many.workers import DIED, Answer
from tests.many.test_batch import alive, written
from tests.random_models import network

distributed = pytest.importorskip("distributed", reason="it comes with layoutsolve[dask]")


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
    def answer(request: dict[str, Any], place: str) -> Answer:
        if request["model"] == "bad":
            os._exit(1)
        return Answer(0, 0, request["model"], place)

    import dask

    monkeypatch.setattr(module, "_answer", answer)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        (bad,) = scheduled([{"model": "bad"}], "local", 1)
    (good,) = scheduled([{"model": "good"}], "local", 1)
    assert good == Answer(0, 0, "good", str(folder))
    assert bad.code == DIED and bad.said.startswith("no worker of Dask could convert it")


def test_no_scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "_PATIENCE", "1s")
    assert main(["models", "-o", "out", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "argument --scheduler: 'tcp://127.0.0.1:1' does not answer" in capsys.readouterr().err
    assert main(["models", "-o", "out", "--scheduler", "nowhere://x"]) == 2
    assert "does not answer" in capsys.readouterr().err and not written(folder / "out")
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(OptionError, match=r"pip install layoutsolve\[dask\]"):
        next(scheduled([{}], "local", 1))
