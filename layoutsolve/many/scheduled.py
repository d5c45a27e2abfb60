"""The same jobs on other machines: through a scheduler of Dask, whose workers see the same files.

Each model is converted in a process of its own there, so that no worker of Dask dies of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from layoutsolve.errors import OptionError
from layoutsolve.many.workers import DIED, Answer, answers

LOCAL = "local"
"""The scheduler that is started for this run, with as many workers as there are jobs."""

_PATIENCE = "30s"
"""How long a scheduler has to answer at first."""


def scheduled(requests: Sequence[dict[str, Any]], scheduler: str, jobs: int) -> Iterator[Answer]:
    """The answers to requests as they come. Raises :class:`OptionError` where there is no such scheduler."""
    try:
        dask: Any = import_module("distributed")  # which has no types
    except ImportError as error:
        raise OptionError(
            "argument --scheduler: the package 'distributed' is missing; install it with: pip install layoutsolve[dask]"
        ) from error
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler == LOCAL:
            address = stack.enter_context(
                dask.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
            )
        try:
            client = stack.enter_context(dask.Client(address, timeout=_PATIENCE))
        except (OSError, ValueError) as error:
            raise OptionError(f"argument --scheduler: '{scheduler}' does not answer: {error}") from error
        place = os.getcwd()  # noqa: PTH109
        numbers = {client.submit(_answer, each, place, pure=False): number for number, each in enumerate(requests)}
        for future in dask.as_completed(numbers):
            try:
                yield replace(future.result(), number=numbers[future])
            except Exception as error:  # whatever became of its worker
                yield Answer(numbers[future], DIED, "", f"no worker of Dask could convert it: {error}")


def _answer(request: dict[str, Any], place: str) -> Answer:
    """What becomes of a request on the machine of a worker, in the same folder."""
    (answer,) = answers([request], 1, place)
    return answer
