"""Measures all models by all strategies, engines and tools, and writes the report: rows, tables, plots and text.

    python -m experiments.report [OUT] [--jobs 2 | --scheduler tcp://...] [--folder MODELS ...]
        [--tool tf2onnx=/path/to/python ...] [--only strategies ...] [--full | --small] [--text]

Strategies are compared on all models, what takes longer on some of each family unless it is ``--full``: within 20
minutes on two cores. Everything is seeded. A run that was interrupted goes on where it stopped; a model that fails is a
row with its error.
``--text`` writes the text of rows that are there, as of those in ``docs/research``.
``environment.json`` has versions, processor and seeds.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.make.collection import SMALL, Sizes, collected, collection, growing
from experiments.report.running import MEASURED, Work, client_of, run, write_tables
from experiments.report.writing import read, write
from layoutsolve import emit, frontend, solver

PACKAGES = (
    "layoutsolve",
    "numpy",
    "onnx",
    "ortools",
    "onnxruntime",
    "ai-edge-litert",
    "highspy",
    "pytoulbar2",
    "openvino",
)
"""What results may depend on."""

SELECTED: Mapping[str, int] = {"ablation": 3, "engines": 3, "runtimes": 1, "tools": 1, "originals": 4}
"""How many models of each family are measured, of those measurements that take longer; with ``--full`` all are."""


def environment(sizes: Sizes) -> dict[str, object]:
    """What was run, and where."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    machine = {"model": told.get("model name", platform.processor()), "flags": told.get("flags", "")}
    return {
        "python": platform.python_version(),
        "versions": versions,
        "code": code(),
        "processor": machine,
        "sizes": asdict(sizes),
    }


def code() -> dict[str, str]:
    """A digest of the sources of each part of layoutsolve, for rows that are older than a change to be told."""
    parts = {part.__name__: Path(str(part.__file__)).parent for part in (solver, frontend, emit)}
    return {
        name: sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))).hexdigest()[:16]
        for name, folder in parts.items()
    }


def works(options: argparse.Namespace, sizes: Sizes) -> list[Work]:
    """What is measured of which model."""
    given, seen, found = dict(each.split("=", 1) for each in options.tool), Counter[str](), list[Work]()
    names = options.only or MEASURED
    for model in collected(options.folder) if options.folder else collection(sizes):
        seen[model.family] += 1
        for name in names:
            chosen = options.full or seen[model.family] <= SELECTED.get(name, seen[model.family])
            if name != "growth" and chosen:
                found.append(Work(name, model, given if name in ("tools", "originals") else {}))
    if "growth" in names and not options.small and not options.folder:
        found += [Work("growth", model) for model in growing()]
    return sorted(found, key=lambda work: MEASURED.index(work.measurement))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="experiments.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=Path("report"), help="where it is written (report/)")
    parser.add_argument("--jobs", type=int, default=2, help="processes on this machine (default: 2)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler instead, as tcp://host:8786")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="models to measure in place of ours")
    parser.add_argument(
        "--tool", action="append", default=[], metavar="PACKAGE=PYTHON", help="whose interpreter has it"
    )
    parser.add_argument("--only", action="append", choices=list(MEASURED), help="one measurement, instead of all")
    parser.add_argument("--small", action="store_true", help="a few models, to try it")
    parser.add_argument("--full", action="store_true", help="all models by everything, not a selection of each family")
    parser.add_argument("--text", action="store_true", help="only write the text of what is there")
    options = parser.parse_args(arguments)
    sizes = SMALL if options.small else Sizes()
    rows = options.out / "rows"
    if not options.text:
        todo = works(options, sizes)
        with client_of(options.scheduler, options.jobs) as client:
            run(todo, rows, client)
        write_tables(rows, todo)
        (options.out / "environment.json").write_text(json.dumps(environment(sizes), indent=1) + "\n")
    write(options.out, read(rows))
    print(options.out / "REPORT.md")


if __name__ == "__main__":
    main()
