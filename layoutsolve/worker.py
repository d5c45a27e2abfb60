"""A process that converts one model after the other for :mod:`layoutsolve.many.workers`.

A request is a line of JSON, the options of the command line; so is the answer: its exit code, what it printed, and what
it said on standard error. It ends when there are no more.
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
    from layoutsolve.cli import attempt, run_one

    for line in sys.stdin.buffer:
        told, said = io.StringIO(), io.StringIO()
        with redirect_stdout(told), redirect_stderr(said):
            code = attempt(argparse.Namespace(**json.loads(line)), run_one)
        answers.write(json.dumps({"code": code, "told": told.getvalue(), "said": said.getvalue()}) + "\n")
        answers.flush()
