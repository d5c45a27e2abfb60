"""Sizes with which ONNX Runtime runs a model, where some have names alone.

They are tried in another process, as a kernel that divides by what it computes from sizes ends its own. This file is
run as a script there: ``python survival.py MODEL LEVEL SEED FIRST`` prints the number of each choice before it is
tried, and ends with status 0 where the last one runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from layoutsolve.errors import VerifyError
from layoutsolve.files import scratch
from layoutsolve.verification.runtimes import Level, OnnxRuntime


def surviving(model: bytes | Path, level: Level, seed: int) -> int:
    """The number of the first choice of sizes with which a model runs.

    Raises :class:`VerifyError` where there is none, with what ONNX Runtime says of the last one.
    """
    with scratch() as folder:
        path = model if isinstance(model, Path) else folder / "model.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        first, said = 0, ""
        while True:
            command = [sys.executable, __file__, str(path), level, str(seed), str(first)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            tried = [int(line) for line in done.stdout.split()]
            if tried and done.returncode == 0:
                return tried[-1]
            said = done.stderr.strip().splitlines()[-1] if done.returncode > 0 and done.stderr.strip() else said
            if done.returncode >= 0 or not tried:
                raise VerifyError(f"no data are found with which the source runs: give some (--verify-data). {said}")
            said, first = f"ONNX Runtime ended with signal {-done.returncode}", tried[-1] + 1


def main() -> None:
    """Entry point of the script."""
    from layoutsolve.verification.same import made_up, tries

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


if __name__ == "__main__":
    main()
