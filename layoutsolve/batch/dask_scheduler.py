"""The same jobs on other machines: through a scheduler of Dask, whose workers see the same files.

Models are converted in processes beside the workers of Dask, so that none of these dies of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from layoutsolve.base.wording import one_line
from layoutsolve.batch.versions import Versions, refusal, versions
from layoutsolve.batch.workers import DIED, Answer, answers
from layoutsolve.errors import OptionError
from layoutsolve.version import VERSION

LOCAL = "local"
"""The scheduler that is started for this run, with as many workers as there are jobs."""

_TOGETHER = 16
"""The most models that a worker is given at a time."""

_PATIENCE = "30s"
"""How long a scheduler has to answer at first."""


def scheduled(requests: Sequence[dict[str, Any]], scheduler: str, jobs: int) -> Iterator[Answer]:
    """The answers to requests as they come. Raises :class:`OptionError` where there is no such scheduler."""
    try:
        dask: Any = import_module("distributed")  # which has no types
    except ImportError as error:
        raise OptionError(
            "argument --scheduler: the package 'distributed' is missing; "
            "install it with: pip install 'layoutsolve[dask]'"
        ) from error
    with _client(dask, scheduler, jobs) as client:
        place, wanted = os.getcwd(), versions()  # noqa: PTH109
        _check_versions(client, wanted)

        def submitted(piece: Sequence[int]) -> Any:
            return client.submit(_answers, [requests[number] for number in piece], place, wanted, pure=False)

        pieces = _pieces(len(requests), sum(client.nthreads().values()) or 1)
        waiting = {submitted(piece): piece for piece in pieces}
        coming = dask.as_completed(waiting)
        for future in coming:
            piece = waiting[future]
            try:
                found: list[Answer] = future.result()
            except Exception as error:  # whatever became of its worker
                if len(piece) == 1:
                    yield Answer(piece[0], DIED, "", f"no worker of Dask could convert it: {error}")
                    continue
                alone = {submitted((number,)): (number,) for number in piece}  # one of them may be the reason
                waiting.update(alone)
                coming.update(alone)
            else:
                yield from (replace(each, number=piece[each.number]) for each in found)


@contextmanager
def _client(dask: Any, scheduler: str, jobs: int) -> Iterator[Any]:
    """The client of a scheduler, which is started where it is to be a local one."""
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler == LOCAL:
            address = stack.enter_context(  # workers are threads: processes of Dask import from the current folder
                dask.LocalCluster(n_workers=jobs, threads_per_worker=1, processes=False, dashboard_address=None)
            )
        client = dask.Client.__new__(dask.Client)
        # also one that does not start is closed: as garbage it may end where a lock is held that it needs
        stack.callback(client.close)
        try:
            client.__init__(address, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise OptionError(f"argument --scheduler: '{scheduler}' does not answer: {error}") from error
        yield client


def _pieces(count: int, workers: int) -> Iterator[Sequence[int]]:
    """The numbers of requests, some at a time: it takes as long to start a process as to convert a small model. They
    become ever fewer, so that all workers end at about the same time.
    """
    start = 0
    while start < count:
        end = start + min(_TOGETHER, max(1, (count - start) // (4 * workers)))
        yield range(start, end)
        start = end


def _check_versions(client: Any, wanted: Versions) -> None:
    """Raise :class:`OptionError` where a worker has other versions, or the scheduler cannot read what it hands on. A
    worker that comes later converts nothing.
    """
    try:
        client.run_on_scheduler(versions)
    except Exception as error:  # whatever it lacks
        who = "argument --scheduler: the scheduler"
        raise OptionError(f"{who} {_silent(error)}, and it deserializes tasks") from error
    for worker, found in client.run(versions, on_error="return").items():
        who = f"argument --scheduler: the worker {worker}"
        if isinstance(found, BaseException):
            raise OptionError(f"{who} {_silent(found)}")
        if refused := refusal(who, wanted, found):
            raise OptionError(refused)


def _silent(error: BaseException) -> str:
    """What is told of a process without versions."""
    told = f"{type(error).__name__}: {one_line(error)}"
    return f"does not report its versions ({told}): install layoutsolve {VERSION} there"


def _answers(requests: Sequence[dict[str, Any]], place: str, wanted: Versions) -> list[Answer]:
    """What becomes of requests on the machine of a worker, in the same folder."""
    return list(answers(requests, 1, wanted, place))
