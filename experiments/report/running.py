"""Models measured by many processes, here or elsewhere, through Dask.

Rows are added to a file of JSON lines for each measurement as they come, so that a run that was interrupted goes on:
what a file has of a model is not measured again. At the end each is written in the order of models, as CSV.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import pandas as pd
from distributed import Client, LocalCluster, as_completed
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.make.collection import Made
from experiments.report.measurements import MEASUREMENTS, Row
from experiments.report.originals import originals
from experiments.report.tools import tools
from layoutsolve.ir.graph import Graph

MEASURED = (*MEASUREMENTS, "tools", "originals")
"""All measurements, in the order in which they are made."""


@dataclass(frozen=True)
class Work:
    """One measurement of one model; ``interpreters`` are those of tools, by package."""

    measurement: str
    model: Made
    interpreters: Mapping[str, str] = field(default_factory=dict)


COST = "cost"
"""The file of the processor's seconds that each measurement of a model took."""


def measured(work: Work) -> list[dict[str, Any]]:
    """The rows of one model; one with its ``error`` where it cannot be made, converted or measured."""
    head = {"family": work.model.family, "model": work.model.name}
    try:
        rows = _rows(work)
    except Exception as error:  # a model that fails is a row
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        return [{**head, "error": last[:200]}]
    return [{**head, **row} for row in rows] or [head]


def _rows(work: Work) -> Sequence[Row]:
    source = work.model.make()
    if work.measurement == "tools":
        return [] if isinstance(source, Graph) else tools(source, work.interpreters)
    if work.measurement == "originals":
        return originals(work.model, source, work.interpreters)
    return MEASUREMENTS[work.measurement](source)


def timed(work: Work) -> tuple[list[dict[str, Any]], float]:
    """The rows of one model, and the processor's seconds that they took, with those of processes that were started."""
    began = _spent()
    return measured(work), _spent() - began


def _spent() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def run(works: Sequence[Work], folder: Path, client: Client) -> None:
    """Measure what the files in a folder do not have yet."""
    folder.mkdir(parents=True, exist_ok=True)
    done = resumed(folder)
    left = [work for work in works if (work.measurement, work.model.name) not in done]
    futures = {client.submit(timed, work, pure=False, retries=0): work for work in left}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task("measuring", total=len(works), completed=len(works) - len(left))
        for future in as_completed(futures):
            work = futures.pop(future)
            head = {"family": work.model.family, "model": work.model.name}
            failed = [{**head, "error": str(future.exception())[:200]}], 0.0
            rows, spent = failed if future.status == "error" else future.result()
            cost = {**head, "measurement": work.measurement, "seconds": round(spent, 2)}
            with _lines(folder, work.measurement).open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            with _lines(folder, COST).open("a") as file:  # the last line of a model: what has none is made again
                file.write(json.dumps(cost) + "\n")
            progress.update(bar, advance=1, description=f"{work.measurement}: {work.model.name}"[:60])
            future.release()


def resumed(folder: Path) -> set[tuple[str, str]]:
    """What is there already, by measurement and model. Rows of models that are not all there are removed."""
    costs = list(_kept(folder, COST))
    done = {(str(cost["measurement"]), str(cost["model"])) for cost in costs}
    whole = {name: [row for row in _kept(folder, name) if (name, row["model"]) in done] for name in MEASURED}
    for name, rows in {**whole, COST: costs}.items():
        if _lines(folder, name).is_file():
            _lines(folder, name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return done


def write_tables(folder: Path, works: Sequence[Work]) -> None:
    """Write the rows of each measurement that was made as CSV, in the order of the models, and what they took."""
    places = {(work.measurement, work.model.name): number for number, work in enumerate(works)}
    for name in dict.fromkeys(work.measurement for work in works):
        rows = [row for row in _kept(folder, name) if (name, row["model"]) in places]
        rows.sort(key=lambda row: places[name, str(row["model"])])
        _write_table(folder, name, rows)
    _write_table(folder, COST, list(_kept(folder, COST)))


def _write_table(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    frame = pd.DataFrame(rows)
    for column in frame.select_dtypes("float"):
        if (frame[column].dropna() % 1 == 0).all():
            frame[column] = frame[column].astype("Int64")
    if len(frame):
        frame.to_csv(folder / f"{name}.csv", index=False)


@contextmanager
def client_of(scheduler: str | None, jobs: int) -> Iterator[Client]:
    """A client of a scheduler that runs, or of processes on this machine, each on one thread, which end with it."""
    if scheduler:
        with Client(scheduler) as client:
            yield client
        return
    dask.config.set({"distributed.worker.daemon": False})  # engines have processes of their own
    here = LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None)
    with here, Client(here) as client:
        yield client


def _lines(folder: Path, measurement: str) -> Path:
    return folder / f"{measurement}.jsonl"


def _kept(folder: Path, measurement: str) -> Iterator[Mapping[str, Any] | Row]:
    path = _lines(folder, measurement)
    for line in path.read_text().splitlines() if path.is_file() else ():
        with suppress(json.JSONDecodeError):  # the last one, of a run that was ended while it wrote
            yield json.loads(line)
