"""A model of several signatures, of which each is converted to a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from layoutsolve.batch.jobs import Job
from layoutsolve.frontend import Model, parse
from layoutsolve.io.source import Content, load

ALL = "all"
"""What ``--signature`` is given for all of them; a signature of that name is itself."""

_LONGEST = 64
"""The characters of a signature that the name of a file has."""


def keys_of(source: Content) -> list[str]:
    """The names of a model's signatures; :data:`ALL` alone where that is one of them."""
    model = parse(source.data, source.folder, source.called)
    keys = [signature.key for signature in model.signatures] if isinstance(model, Model) else []
    return [ALL] if ALL in keys else keys


def files_of(file: str, keys: Sequence[str]) -> list[str]:
    """The files that signatures become in place of one: each has a signature before its ending."""
    path = Path(file)
    names = [path.with_name(f"{path.stem}.{_in_a_name(key)}{path.suffix}") for key in keys]
    if len({str(name).casefold() for name in names}) < len(names):
        names = [path.with_name(f"{path.stem}.{at}.{_in_a_name(key)}{path.suffix}") for at, key in enumerate(keys)]
    return [str(name) for name in names]


def each_signature(job: Job) -> list[Job]:
    """The jobs that a model is with a file for each signature. One without signatures is what it is without that, and
    so is one that cannot be read, which the process that is to convert it tells.
    """
    try:
        keys = keys_of(load(job.source))
    except Exception:  # whatever is wrong with one model is no reason for others to fail
        keys = []
    if keys in ([], [ALL]):
        return [replace(job, signature=key) for key in keys or [""]]
    outputs = files_of(job.output, keys)
    reports = [None] * len(keys) if job.report is None else files_of(job.report, keys)
    return [
        replace(job, name=f"{job.name} ({key})", output=output, report=report, signature=key)
        for key, output, report in zip(keys, outputs, reports, strict=True)
    ]


def _in_a_name(key: str) -> str:
    """A signature as a part of a file's name."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in key)[:_LONGEST] or "_"
