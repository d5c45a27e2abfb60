"""What a whole process takes that converts one model: seconds of the clock and of the processor, and memory.

With ``--with NAME=COMMAND`` beside another converter, whose command has SOURCE and OUTPUT in it, over the models that
both convert; runs take turns. An editable installation looks for its modules in a way of its own, for which every
process pays: measure an installed wheel.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter

from experiments.corpus import arguments, models, write_json

OWN = [sys.executable, "-I", "-m", "layoutsolve", "SOURCE", "-o", "OUTPUT", "-q"]


@dataclass(frozen=True)
class Run:
    """What a process took: seconds of the clock and of the processor, the most MB of memory; whether it converted."""

    wall: float
    processor: float
    memory: float
    converted: bool


def run(command: Sequence[str], source: Path, folder: Path) -> Run:
    """Run a process that converts a model."""
    output = folder / "model.onnx"
    output.unlink(missing_ok=True)
    words = [{"SOURCE": str(source), "OUTPUT": str(output)}.get(word, word) for word in command]
    start = perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    wall, process.returncode = perf_counter() - start, status
    spent, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
    return Run(wall, spent, memory, status == 0 and output.is_file())


def measured(commands: Mapping[str, Sequence[str]], source: Path, rounds: int) -> dict[str, Run] | None:
    """The medians of rounds by name, None where one of the converters does not convert the model."""
    found: dict[str, list[Run]] = {name: [] for name in commands}
    with TemporaryDirectory() as scratch:
        for turn in range(rounds + 1):  # the first is for what is read from disk
            for name, command in commands.items():
                each = run(command, source, Path(scratch))
                if not each.converted:
                    return None
                found[name] += [each] if turn else []
    return {
        name: Run(*(median(getattr(each, part) for each in runs) for part in ("wall", "processor", "memory")), True)
        for name, runs in found.items()
    }


def main() -> None:
    """A line for each model and converter, and geometric means of the first one's share of the others."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    others = (each.partition("=") for each in options.others)
    commands = {"layoutsolve": OWN, **{name: shlex.split(command) for name, _, command in others}}
    shares: dict[str, list[Run]] = {name: [] for name in commands}
    rows = {}
    print(f"{'model':60}  {'converter':12}     ms  processor     MB")
    for model in models(options.folder, options.only):
        found = measured(commands, model.path.absolute(), options.rounds)
        if found is None:
            continue
        own, rows[model.name] = found["layoutsolve"], {name: asdict(each) for name, each in found.items()}
        for name, each in found.items():
            print(
                f"{model.name:60.60}  {name:12} {each.wall * 1e3:6.0f} {each.processor * 1e3:10.0f} {each.memory:6.0f}"
            )
            ratio = Run(own.wall / each.wall, own.processor / each.processor, own.memory / each.memory, True)
            shares[name].append(ratio)
    write_json(options.json, rows)
    for name, runs in shares.items():
        if name != "layoutsolve" and runs:
            for part in ("wall", "processor", "memory"):
                values = [getattr(each, part) for each in runs]
                below = sum(value < 1 for value in values)
                mean = exp(fmean(map(log, values)))
                print(f"layoutsolve by {name}, {part}: {mean:.2f}, below 1 on {below} of {len(values)}")


if __name__ == "__main__":
    main()
