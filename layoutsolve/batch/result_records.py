"""What is up to date: beside results lies a record of what each was made of, a line of JSON for each time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from layoutsolve.base.wording import printable
from layoutsolve.batch.jobs import Done, Job
from layoutsolve.batch.versions import versions
from layoutsolve.errors import OutputError

RECORD = ".layoutsolve.jsonl"
"""The name of the file, one in each folder of results."""

LARGEST = 1 << 28
"""The most bytes of it that are read: more are no records of a folder."""


def key(options: argparse.Namespace, given: Mapping[str, object]) -> str:
    """What results depend on beside their source: the versions that decide what is written, the options ``given``, and
    the files that they name.
    """
    named = [Path(name) for name in (options.target, options.verify_data, *options.lowering) if name]
    files = [each for path in named for each in (sorted(path.iterdir()) if path.is_dir() else [path])]
    facts = {name: value for name, value in given.items() if name not in ("json", "debug")}
    facts |= {"versions": versions(), "target": options.target, "verify_data": options.verify_data}
    return sha256(json.dumps([facts, [_digest(str(path)) for path in files]], sort_keys=True).encode()).hexdigest()


def up_to_date(jobs: Sequence[Job], asked: str) -> dict[Job, dict[str, Any]]:
    """The reports of the results that are there, and were made so of what their sources are now."""
    records = {folder: _records(folder) for folder in {Path(job.output).parent for job in jobs}}
    found = {job: records[Path(job.output).parent].get(Path(job.output).name, {}) for job in jobs}
    same = {job: each for job, each in found.items() if each and each == {**each, **_facts(job, asked)}}
    return {job: each["report"] for job, each in same.items()}


def note(done: Done, asked: str) -> None:
    """Record how a result was made."""
    path = Path(done.job.output).parent / RECORD
    line = json.dumps({**_facts(done.job, asked), "report": done.report})
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write '{printable(str(path))}': it is no file")
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise OutputError(f"cannot write '{printable(str(path))}': {error.strerror}") from error


def _records(folder: Path) -> dict[str, dict[str, Any]]:
    """The last record of each result of a folder."""
    path = folder / RECORD
    try:
        if not (path.is_file() and path.stat().st_size <= LARGEST):
            return {}
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # it was cut short, or is none
            continue
        if isinstance(record, dict) and _is_report(record.get("report")):
            found[str(record.get("output"))] = record
    return found


def _is_report(found: Any) -> bool:
    """Whether this has what is told of a result."""
    if not isinstance(found, dict) or not isinstance(found.get("seconds"), dict):
        return False
    counts = ("transposes", "hidden_transposes", "reshapes", "bytes_moved", "operators")
    numbers = (*(found.get(name) for name in counts), found["seconds"].get("total"))
    verified = found.get("verified", {"verdict": "pass"})
    passed = isinstance(verified, dict) and isinstance(verified.get("verdict"), str)
    return all(isinstance(each, (int, float)) for each in numbers) and isinstance(found.get("status"), str) and passed


def _facts(job: Job, asked: str) -> dict[str, str]:
    """What a result is told by: its own digest and those of its constants and of a report that is asked for, the
    source's, and the options'.
    """
    shown = {} if job.report is None else {"page": _digest(job.report)}
    return {
        **shown,
        "output": Path(job.output).name,
        "source": _digest(job.source),
        "options": asked,
        "digest": _digest(job.output),
        "data": _digest(f"{job.output}.data"),
    }


def _digest(path: str) -> str:
    """The digest of a file, '' where there is none."""
    found = sha256()
    try:
        if not Path(path).is_file():
            return ""
        with Path(path).open("rb") as file:
            while part := file.read(1 << 20):
                found.update(part)
    except OSError:
        return ""
    return found.hexdigest()
