"""Messages of a batch: progress, and the result of each model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from layoutsolve.base.wording import aligned, counted, penalty, penalty_cell, printable
from layoutsolve.batch.jobs import Done
from layoutsolve.errors import DIFFERENT, UNVERIFIED

Tell = Callable[[str], object]
Step = Callable[[Done], object]


@dataclass(frozen=True)
class Watch:
    """What is called when a model is done: as it comes, and when all before it are done as well."""

    came: Step
    done: Step


def _nothing(done: Done) -> None:
    """Say nothing."""


@contextmanager
def watch(quiet: bool, as_json: bool, count: int, tell: Tell, warn: Tell) -> Iterator[Watch]:
    """A bar on a terminal, else a line for each model, or nothing if that is asked for; objects where these are."""
    numbers = iter(range(1, count + 1))

    def line(done: Done) -> None:
        warn(f"{next(numbers)}/{count} {printable(_line(done))}")

    def told(done: Done) -> None:
        tell(done.as_json())

    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        from layoutsolve.batch.progress_bar import bar

        with bar(count) as step:
            yield Watch(step, told if as_json else _nothing)
    else:
        yield Watch(_nothing, told if as_json else _nothing if quiet else line)


def _line(done: Done) -> str:
    """One line of one model."""
    if done.failed:
        return f"{done.job.name}: failed: {done.reason}"
    if done.fresh:
        return f"{done.job.name}: up to date"
    moves = f"{counted(done.report['transposes'], 'Transpose')}{penalty(done.report['hidden_transposes'])}"
    told = f"{done.job.name}: {moves} ({done.report['status']}), {done.report['seconds']['total']:.2f} s"
    if done.code == UNVERIFIED:
        return f"{told}, not verified: {done.report['verified']['refusal']}"
    return told if done.code != DIFFERENT else f"{told}, FAIL: results differ from LiteRT's"


def table(done: Sequence[Done]) -> str:
    """A line for each model, those that failed last and with the reason, and how many there are of each."""
    good, bad = [each for each in done if not each.failed], [each for each in done if each.failed]
    rows = [("model", "status", "Transposes", "penalty", "seconds", "verified"), *map(_row, good)]
    lines = aligned(rows, (2, 3, 4)) if good else []
    lines += [f"{printable(each.job.name)}  failed: {each.reason}" for each in bad]
    counts = {
        "converted": sum(not each.fresh for each in good),
        "up to date": sum(each.fresh for each in good),
        "different from LiteRT": sum(each.code == DIFFERENT for each in good),
        "not verified": sum(each.code == UNVERIFIED for each in good),
        "failed": len(bad),
    }
    return "\n".join(
        [*lines, f"{counted(len(done), 'model')}: {', '.join(f'{n} {what}' for what, n in counts.items() if n)}"]
    )


def _row(done: Done) -> tuple[str, ...]:
    report, verified = done.report, done.report.get("verified")
    seconds = f"{report['seconds']['total']:.2f}"
    numbers = (str(report["transposes"]), penalty_cell(report["hidden_transposes"]), seconds)
    verdict = "-" if verified is None else verified["verdict"]
    return (printable(done.job.name), "up to date" if done.fresh else report["status"], *numbers, verdict)
