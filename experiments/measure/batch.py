"""A folder of models in one command against a loop of single ones: the time of each, and whether the bytes are equal.

Runs of both kinds take turns. The times are of the clock, from the start of the program to its end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from experiments.corpus import arguments
from layoutsolve.batch.jobs import Job, collected
from layoutsolve.batch.result_records import RECORD

PROGRAM = [sys.executable, "-I", "-m", "layoutsolve"]


def loop(jobs: list[Job]) -> None:
    """A process for each model."""
    for job in jobs:
        Path(job.output).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*PROGRAM, job.source, "-o", job.output], capture_output=True, check=False)


def together(folder: Path, place: Path, *more: str) -> None:
    """All models in one command."""
    command = [*PROGRAM, f"{folder}", "-o", f"{place}", *more, "-q"]
    subprocess.run(command, capture_output=True, check=False)


def files(place: Path) -> dict[str, bytes]:
    """What was written."""
    found = (path for path in place.rglob("*") if path.is_file() and path.name != RECORD)
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


def main() -> None:
    """Print seconds, and how many files are the same in all ways."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--dask", action="store_true", help="through a local scheduler of Dask, too")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    with TemporaryDirectory() as scratch:
        ways: dict[str, Callable[[Path], None]] = {
            "a loop of single calls": lambda place: loop(collected([str(options.folder)], str(place))),
            "one command, 1 job": lambda place: together(options.folder, place),
            "one command, 2 jobs": lambda place: together(options.folder, place, "--jobs", "2"),
        }
        if options.dask:
            more = ("--scheduler", "local", "--jobs", "2")
            ways["through Dask, 2 workers"] = lambda place: together(options.folder, place, *more)
        for turn in range(options.rounds):
            found = {}
            for name, run in ways.items():
                place = Path(scratch) / f"{turn} {name}"
                start = perf_counter()
                run(place)
                seconds.setdefault(name, []).append(perf_counter() - start)
                found[name] = files(place)
            first = found["a loop of single calls"]
            same = sum(all(each.get(name) == data for each in found.values()) for name, data in first.items())
            print(f"{same} of {len(first)} files are the same bytes in all ways", flush=True)
    for name, spent in seconds.items():
        print(f"{median(spent):8.1f} s  {name}")


if __name__ == "__main__":
    main()
