"""The same models through a scheduler of Dask: the same bytes, whatever becomes of its workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
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
    """Others that the worker was given together with it are converted."""

    def answer(requests: Sequence[dict[str, Any]], place: str) -> list[Answer]:
        if any(request["model"] == "bad" for request in requests):
            os._exit(1)
        return [Answer(number, 0, request["model"], place) for number, request in enumerate(requests)]

    import dask

    monkeypatch.setattr(module, "_answers", answer)
    names = ["a", "bad", *map(str, range(10))]
    assert len(next(iter(module._pieces(len(names), 1)))) > 1
    blamed_alone = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
    with dask.config.set(blamed_alone):
        found = sorted(scheduled([{"model": name} for name in names], "local", 1), key=lambda each: each.number)
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
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(OptionError, match=r"pip install 'layoutsolve\[dask\]'"):
        next(scheduled([{}], "local", 1))
