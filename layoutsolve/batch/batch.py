"""Converting many models, beside each other, none of which depends on others."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from layoutsolve.base.wording import printable
from layoutsolve.batch.jobs import Done, Job, collected
from layoutsolve.batch.messages import Tell, Watch, table, watch
from layoutsolve.batch.result_records import key, note, up_to_date
from layoutsolve.batch.signatures import ALL, each_signature
from layoutsolve.batch.versions import versions
from layoutsolve.batch.workers import DIED, Answer, answers
from layoutsolve.errors import DIFFERENT, FAILED, UNVERIFIED, OptionError
from layoutsolve.io.patterns import ENDINGS, format_of, is_many


def batch(options: argparse.Namespace, given: Mapping[str, object], tell: Tell, warn: Tell) -> int:
    """Convert all models that are asked for; the exit code of the worst.

    ``given`` are the options that are not the default, by name. ``tell`` prints results, ``warn`` prints progress, and
    errors where results are not printed.
    """
    _check(options)
    split = {"split": each_signature} if options.signature == ALL else {}
    ending = f".{format_of(options.format, None)}"
    jobs, asked = collected(options.models, options.file, options.report, ending, **split), key(options, given)
    fresh = up_to_date(jobs, asked) if options.resume else {}
    with watch(options.quiet, options.json, len(jobs), tell, warn) as watching:
        done = list(_ordered(options, jobs, fresh, asked, watching, warn))
    if options.report is not None:
        _list(done, options, given)
    if options.quiet and not options.json:
        for each in (each for each in done if each.failed):
            warn(f"layoutsolve: {printable(each.job.name)}: {each.reason}")
    elif not options.json:
        tell(table(done))
    return max((each.code for each in done), key=(0, UNVERIFIED, DIFFERENT, FAILED).index)


def _list(done: Sequence[Done], options: argparse.Namespace, given: Mapping[str, object]) -> None:
    """Write the page that lists all models."""
    from layoutsolve.batch.index_page import index
    from layoutsolve.io.files import Output, folder, written

    text = index(done, given, options.report).encode()
    path = str(Path(options.report) / "index.html")
    with folder(options.report), written([Output("report", path, lambda file: file.write(text))]):
        pass


def _check(options: argparse.Namespace) -> None:
    """Raise :class:`OptionError` for options that are for one model."""
    telling = {"--certify": options.certify, "--check": options.check, "--print": options.stage}
    telling |= {"--plan": options.plan, "--from-plan": options.by_plan}
    telling |= {"--explain": options.explain, "--profile": options.profile, "--extract-metadata": options.extract}
    telling |= {"--from": options.cut_from, "--to": options.cut_to}
    many = {"--resume": options.resume, "--jobs": options.jobs is not None, "--scheduler": options.scheduler}
    one = len(options.models) == 1 and not is_many(options.model)
    batch = next((name for name, value in many.items() if value), "") if one else ""
    for name in (name for name, value in telling.items() if value):
        alone = f"leave one of it and {batch} out" if batch else "give one"
        raise OptionError(f"argument {name}: it is about a single model: {alone}")
    if options.file is not None and (options.file == "-" or options.file.endswith(ENDINGS)):
        if batch:
            raise OptionError(
                f"argument {batch}: it makes a batch, of one model here, which is written to a folder: name that with"
                f" -o, or leave {batch} out"
            )
        raise OptionError("argument -o: many models are written to a folder: give its name")
    for name, path in (("-o", options.file), ("--report", options.report)):
        if path and os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112
            shown = printable(path)
            raise OptionError(f"argument {name}: '{shown}' is there and is no folder, which many models need: name one")
    if options.report is not None and (not options.report or options.report.endswith(".html")):
        raise OptionError("argument --report: reports of many models are written to a folder: give its name")
    if options.jobs is not None and options.jobs < 1:
        raise OptionError(f"argument --jobs: {options.jobs} models at a time are too few: give 1 or more")


def _ordered(
    options: argparse.Namespace,
    jobs: Sequence[Job],
    fresh: Mapping[Job, dict[str, Any]],
    asked: str,
    watching: Watch,
    warn: Tell,
) -> Iterator[Done]:
    """What becomes of each, in the order of the jobs, in whatever order they end."""
    done = {job: Done(job, 0, report, fresh=True) for job, report in fresh.items()}
    written = {job: [path for path in (None if options.dry_run else job.output, job.report) if path] for job in jobs}
    done |= {job: each for job in jobs if job not in done and (each := _unwritable(job, written[job])) is not None}
    for each in done.values():
        watching.came(each)
    waiting = [job for job in jobs if job not in done]
    requests = [{**vars(options), **_single(job)} for job in waiting]
    coming = _answers(requests, options.scheduler, options.jobs or 1)
    for job in jobs:
        while job not in done:
            answer = next(coming)
            each = _outcome(waiting[answer.number], answer, warn)
            if each.code == 0 and not options.dry_run:
                note(each, asked)
            done[each.job] = each
            watching.came(each)
        watching.done(done[job])
        yield done[job]


def _answers(requests: Sequence[dict[str, Any]], scheduler: str | None, jobs: int) -> Iterator[Answer]:
    """What becomes of requests, on this machine or where a scheduler says."""
    if scheduler is None or not requests:
        return answers(requests, jobs, versions())
    from layoutsolve.batch.dask_scheduler import scheduled

    return scheduled(requests, scheduler, jobs)


def _single(job: Job) -> dict[str, object]:
    """What the options of one model say otherwise."""
    named = {"model": job.source, "models": [job.source], "file": job.output, "report": job.report}
    told = {} if job.signature is None else {"signature": job.signature}
    return {**named, **told, "json": True, "folder_made": True}


def _unwritable(job: Job, paths: Sequence[str]) -> Done | None:
    """Make the folders of what is written; what failed where that is impossible."""
    for path in paths:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return Done(job, FAILED, {}, f"cannot write '{printable(path)}': {error.strerror}")
    return None


def _outcome(job: Job, answer: Answer, warn: Tell) -> Done:
    """What an answer means; a traceback that is asked for is printed."""
    if answer.code in (0, UNVERIFIED, DIFFERENT):
        return Done(job, answer.code, json.loads(answer.told))
    if answer.code == DIED:
        return Done(job, FAILED, {}, answer.said)
    trace, _, error = f"\n{answer.said}".rpartition("\nlayoutsolve: ")
    if trace.strip():
        warn(trace.strip())
    return Done(job, FAILED, {}, error.strip())
