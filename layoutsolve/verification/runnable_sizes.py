"""Sizes with which ONNX Runtime runs a model, where some have names alone.

They are tried in another process, as a kernel that divides by what it computes from sizes ends its own. That runs
:func:`main`, with the arguments MODEL LEVEL SEED FIRST: it prints the number of each choice before it is tried, and
ends with status 0 where the last one runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from layoutsolve.base.processes import process
from layoutsolve.errors import VerifyError
from layoutsolve.io.files import scratch
from layoutsolve.verification.runtimes import Level, OnnxRuntime, RefusedError


def surviving(model: bytes | Path, level: Level, seed: int) -> int:
    """The number of the first choice of sizes with which a model runs.

    Raises :class:`RefusedError` where there is none, with what ONNX Runtime says of the last one.
    """
    with scratch() as folder:
        path = model if isinstance(model, Path) else folder / "model.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        first, said = 0, ""
        while True:
            code, printed, errors = _tried(path, level, str(seed), str(first))
            tried = [int(line) for line in printed.split()]
            if tried and code == 0:
                return tried[-1]
            said = errors.strip().splitlines()[-1] if code > 0 and errors.strip() else said
            if code >= 0 or not tried:
                raise no_data(said)
            said, first = f"ONNX Runtime ended with signal {-code}", tried[-1] + 1


def _tried(path: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code of the process, what it printed, and its errors."""
    pipe, own = subprocess.PIPE, "layoutsolve.verification.runnable_sizes"
    with process(own, str(path), *arguments, apart=[path.parent], stdout=pipe, stderr=pipe, text=True) as running:
        printed, errors = running.communicate()
    return running.returncode, printed, errors


def no_data(said: str) -> RefusedError:
    """The error where a source does not run with what is made up, of which ONNX Runtime has ``said`` why."""
    return RefusedError(f"no data are found with which the source runs: give some (--verify-data). {said}")


def main() -> None:
    """Entry point of the process."""
    from layoutsolve.verification.onnx_source import made_up, tries

    path, level, seed, first = sys.argv[1:]
    runtime = OnnxRuntime(Path(path), level=level)  # type: ignore[arg-type]
    refused = ""
    for number, sizes in enumerate(tries(runtime.inputs)):
        if number < int(first):
            continue
        print(number, flush=True)
        try:
            runtime.run(made_up(runtime, sizes, [int(seed), 0]))
        except VerifyError as error:
            refused = str(error)
        else:
            return
    sys.exit(refused or "all choices of sizes are tried")
