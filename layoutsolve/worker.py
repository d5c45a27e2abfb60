"""A process that converts one model after the other for :mod:`layoutsolve.batch.workers`.

A request is a line of JSON, the options of the command line; so is the answer: its exit code, what it printed, and what
it said on standard error. It ends when there are no more. Its argument is a JSON object of the versions that whoever
asks has: a process of others converts nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from layoutsolve.__main__ import alone, listen


def main() -> None:
    """Serve requests. What libraries print goes to standard error."""
    listen()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    alone()
    from layoutsolve.batch.versions import refusal, versions
    from layoutsolve.cli.command_line import attempt
    from layoutsolve.cli.conversions import run_one
    from layoutsolve.errors import FAILED

    refused = refusal("the process that converts", json.loads(sys.argv[1]), versions())
    for line in sys.stdin.buffer:
        told, said = io.StringIO(), io.StringIO()
        with redirect_stdout(told), redirect_stderr(said):
            code = FAILED if refused else attempt(argparse.Namespace(**json.loads(line)), run_one)
        error = f"layoutsolve: {refused}" if refused else said.getvalue()
        answers.write(json.dumps({"code": code, "told": told.getvalue(), "said": error}) + "\n")
        answers.flush()
