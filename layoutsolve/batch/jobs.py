"""Which models are asked for, where each goes, and what became of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from layoutsolve.base.wording import printable
from layoutsolve.errors import ModelError, OptionError
from layoutsolve.io.archives import HEAD, beside, is_archive, split
from layoutsolve.io.files import REWRITTEN, default_output
from layoutsolve.io.patterns import ARCHIVES, ENDINGS, STANDARD_INPUT, WILD, is_many
from layoutsolve.io.source import members_of

PAGES = "models"
"""The folder for reports beside the page that lists them."""


@dataclass(frozen=True)
class Job:
    """A model: its path, its name among the others, the path of what it becomes, and that of its report or None. Where
    signatures are converted apart it is one ``signature``, or '' for a model that has none.
    """

    source: str
    name: str
    output: str
    report: str | None = None
    signature: str | None = None


@dataclass(frozen=True)
class Done:
    """What became of a model: the exit code, and the report where there is one, else the error. ``fresh`` is one that
    was up to date before.
    """

    job: Job
    code: int
    report: dict[str, Any]
    error: str = ""
    fresh: bool = False

    @property
    def failed(self) -> bool:
        """Whether nothing was written."""
        return not self.report

    @property
    def reason(self) -> str:
        """The error on one line: of a list the first, and how many more there are."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        more = f" (and {len(lines) - 2} more)" if len(lines) > 2 else ""
        return printable(" ".join(lines[:2]) + more)

    def as_json(self) -> str:
        """One line for programs."""
        if self.failed:
            told = {"signature": self.job.signature} if self.job.signature else {}
            return json.dumps({"model": self.job.source, **told, "error": self.error, "code": self.code})
        return json.dumps({**self.report, "code": self.code, "up_to_date": self.fresh})


def collected(
    names: Sequence[str],
    folder: str | None,
    reports: str | None = None,
    ending: str = ".onnx",
    split: Callable[[Job], Iterable[Job]] = lambda job: [job],
) -> list[Job]:
    """The models that names of files, folders and patterns stand for, in this order, each once.

    Results go beside their sources or to a ``folder``, in which those of a folder, or of a pattern, lie as they do
    there; so do their ``reports``. What is written has an ``ending``. A model is the jobs that ``split`` makes of it.
    Raises :class:`ModelError` where a folder or a pattern has no models, :class:`OptionError` where two would become
    the same file.
    """
    jobs: dict[str, Job] = {}
    shown: dict[str, Job] = {}
    for name in names:
        for job in (each for one in _named(name, folder, reports, ending) for each in split(one)):
            _alone(jobs, job, job.output)
            if job.report is not None:
                _alone(shown, job, job.report)
    return list(jobs.values())


def _alone(jobs: dict[str, Job], job: Job, path: str) -> None:
    """Enter a job by what it writes. Raises :class:`OptionError` where another model would become the same."""
    other = jobs.setdefault(os.path.realpath(path), job)
    if os.path.realpath(other.source) != os.path.realpath(job.source):
        both = f"'{printable(other.source)}' and '{printable(job.source)}'"
        raise OptionError(f"{both} would both become '{printable(path)}': convert them apart")


def _named(name: str, folder: str | None, reports: str | None, ending: str) -> Iterator[Job]:
    if name == STANDARD_INPUT:
        raise OptionError("what comes from standard input is one model: convert it alone")
    if not name:
        raise ModelError("the name of a model is empty: give the path of a model")
    if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):  # noqa: PTH110, PTH112, PTH113
        raise OptionError(f"'{printable(name)}' is a pipe or a device, which is one model: convert it alone")
    inside = None if os.path.lexists(name) else split(Path(name))
    if not is_many(name):
        base, paths = None, [Path(name)]
    else:
        base, paths = _found(Path(name), folder) if inside is None else _in_archive(*inside)
    for path in paths:
        inner = Path(path.name) if base is None else path.relative_to(base)
        own = inner if base is None or not base.is_dir() else beside(path).relative_to(base)
        output = default_output(beside(path), ending) if folder is None else (Path(folder) / own).with_suffix(ending)
        report = None if reports is None else str((Path(reports) / PAGES / own).with_suffix(".html"))
        yield Job(str(path), str(path if base is None else inner), str(output), report)


def _in_archive(archive: Path, pattern: str) -> tuple[Path, list[Path]]:
    """An archive, and its models that fit a pattern."""
    found = [archive / name for name in members_of(str(archive)) if fnmatchcase(name, pattern)]
    if not found:
        raise ModelError(f"nothing fits '{printable(pattern)}' in '{printable(str(archive))}': give models of it")
    return archive, sorted(found)


def _models(path: Path, pattern: str, of_folder: bool) -> list[Path]:
    """A file, or the models of an archive that fit a pattern. An archive that cannot be read stands for itself, and so
    does one without a model that a pattern names.
    """
    try:
        with path.open("rb") as file:
            members = members_of(str(path)) if is_archive(file.read(HEAD)) else None
    except (OSError, ModelError):
        return [path]
    if members is None:
        return [] if pattern else [path]
    if not members:
        return [] if pattern or of_folder else [path]
    if len(members) == 1 and not pattern:
        return [path]
    return [path / name for name in members if not pattern or fnmatchcase(name, pattern)]


def _found(path: Path, folder: str | None) -> tuple[Path, list[Path]]:
    """The folder that many models have in common, and what is in it and in all folders below, or fits a pattern; the
    models of archives for these. In a folder those are models in ONNX only where there are no others, of which these
    may be the results; what lies in the ``folder`` for results is none.
    """
    results = None if folder is None or path == Path(folder) else Path(folder)
    if path.is_dir():
        base, first, last = path, [f"*{each}" for each in (ENDINGS[0], *ARCHIVES)], [f"*{ENDINGS[1]}"]
        tries = [[(os.path.join("**", each), "") for each in some] for some in (first, last)]  # noqa: PTH118
    else:
        wild = next(number for number, part in enumerate(path.parts) if any(mark in part for mark in WILD))
        base, parts = Path(*path.parts[:wild]), path.parts[wild:]
        splits = [(str(Path(*parts[:end])), "/".join(parts[end:])) for end in range(len(parts), 0, -1)]
        tries = [[each] for each in splits]
    for patterns in tries:
        found = list[Path]()
        for pattern, inner in patterns:
            files = [each for each in base.glob(pattern) if each.is_file() and not each.name.startswith(".")]
            files = [each for each in files if Path(each.stem).suffix != REWRITTEN and results not in each.parents]
            found += (model for each in files for model in _models(each, inner, path.is_dir()))
        if found:
            return base, sorted(found)
    shown = printable(str(path))
    what = f"the directory '{shown}' has no {' or '.join(ENDINGS)} file" if path.is_dir() else f"nothing fits '{shown}'"
    raise ModelError(f"{what}: give models of TensorFlow Lite or ONNX")
