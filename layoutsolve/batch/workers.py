"""Processes that convert models beside each other. One that dies has failed at one model, and is started again."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, BinaryIO, cast

from layoutsolve.base.processes import process
from layoutsolve.base.wording import printable
from layoutsolve.batch.versions import Versions
from layoutsolve.io.files import registered

DIED = -1
"""The exit code of a process that died."""

_PATIENCE = 5.0
"""The seconds that processes have to clear up when they are told to end."""

_LONGEST = 300
"""The characters that are shown of the last words of a process that died."""


@dataclass(frozen=True)
class Answer:
    """Result of a request to a worker: its number, the exit code, standard output and standard error."""

    number: int
    code: int
    told: str
    said: str


def answers(
    requests: Sequence[dict[str, Any]], jobs: int, wanted: Versions, place: str | None = None
) -> Iterator[Answer]:
    """The answers to requests as they come, from processes in this folder or in another ``place``. A process without
    the versions that are ``wanted`` converts nothing. What is under way when that is left is ended, and leaves nothing
    behind.
    """
    workers = _Workers(requests, wanted, place)
    with registered(workers):
        workers.start(min(jobs, len(requests)))
        for _ in requests:
            yield workers.done.get()


@dataclass(eq=False)
class _Workers:
    """The processes, each with a thread that waits for it."""

    requests: Sequence[dict[str, Any]]
    wanted: Versions
    place: str | None
    waiting: SimpleQueue[int] = field(default_factory=SimpleQueue)
    done: SimpleQueue[Answer] = field(default_factory=SimpleQueue)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ended: bool = False

    def start(self, jobs: int) -> None:
        for number in range(len(self.requests)):
            self.waiting.put(number)
        for _ in range(jobs):
            Thread(target=self._serve, daemon=True).start()

    def clear(self) -> None:
        """End all processes: each takes back what it has not finished. It comes from a signal, or twice."""
        self.ended = True
        running = list(self.running)
        for each in running:
            with suppress(OSError):
                each.terminate()
        end = perf_counter() + _PATIENCE
        for each in running:
            try:
                each.wait(max(end - perf_counter(), 0.01))
            except subprocess.TimeoutExpired:
                each.kill()

    def _serve(self) -> None:
        """Have one process convert, another one after it has died."""
        with tempfile.TemporaryFile() as log:
            running = None
            with suppress(Empty):
                while not self.ended:
                    number = self.waiting.get_nowait()
                    try:
                        running = running or self._process(log)
                        reply = _asked(running, self.requests[number])
                        failed = "" if reply else _last_words(running, log)
                    except Exception as error:  # whatever it is, somebody waits for an answer
                        reply, failed = None, f"no process could convert it: {error}"
                    self.done.put(Answer(number, **reply) if reply else Answer(number, DIED, "", failed))
                    running = running if reply else None
            if running is not None:
                _pipes(running)[0].close()

    def _process(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        pipe, wanted = subprocess.PIPE, json.dumps(dict(self.wanted))
        models = {os.path.dirname(os.path.join(self.place or "", each["model"])) for each in self.requests}  # noqa: PTH118, PTH120
        started: subprocess.Popen[bytes] = process(
            "layoutsolve.worker", wanted, apart=models, cwd=self.place, stdin=pipe, stdout=pipe, stderr=log
        )
        self.running.append(started)
        if self.ended:
            started.terminate()
        return started


def _pipes(process: subprocess.Popen[bytes]) -> tuple[BinaryIO, BinaryIO]:
    """Where a process reads requests, and writes replies."""
    return cast("tuple[BinaryIO, BinaryIO]", (process.stdin, process.stdout))


def _asked(process: subprocess.Popen[bytes], request: dict[str, Any]) -> dict[str, Any] | None:
    """What a process answers, None where it dies of it."""
    requests, replies = _pipes(process)
    try:
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
    except OSError:
        return None
    reply = replies.readline()
    return dict(json.loads(reply)) if reply.endswith(b"\n") else None


def _last_words(process: subprocess.Popen[bytes], log: BinaryIO) -> str:
    """How a process died, and the last line that it has left."""
    with suppress(OSError):
        _pipes(process)[0].close()
    code = process.wait()
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    often = ", as the system does it where memory runs out" if code == -9 else ""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    log.seek(0)
    log.truncate()
    last = f": {printable(lines[-1][:_LONGEST])}" if lines else ""
    return f"the process that converted it was ended {how}{often}{last}"
