"""Which ways to run an operator ONNX Runtime is slow in, or refuses: every way against the fastest one.

Prints a table of all ways and one over shapes, with what each counts as by the rule of
``layoutsolve/measurement/alternatives.py``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from experiments.measure.latency import write_target
from layoutsolve.measurement.alternatives import Result, groups, is_slow, measured, sections, verdicts
from layoutsolve.measurement.kernels import share_threads


def table(results: Sequence[Result]) -> Iterator[str]:
    """One line per way, shape and number of threads."""
    yield "| operator | kind | shape | threads | fastest, us | this, us | ratio | Transpose, us | loss | verdict |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|---|"
    for result in results:
        start = f"| {result.operator} | {result.kind} | {result.shape} | {result.threads} |"
        if result.refused:
            yield f"{start} | | | | | refused |"
            continue
        times = f"{result.fastest * 1e6:.1f} | {result.seconds * 1e6:.1f} | {result.ratio:.2f}"
        verdict = "slow" if is_slow(result) else "native"
        yield f"{start} {times} | {result.transpose * 1e6:.1f} | {result.loss:.2f} | {verdict} |"


def summary(results: Sequence[Result]) -> Iterator[str]:
    """One line per operator and kind: medians over shapes."""
    counts = sorted({result.threads for result in results})
    found = {threads: verdicts(results, threads) for threads in counts}
    cells = " | ".join(f"ratio, {threads} threads | loss | verdict" for threads in counts)
    yield f"| operator | kind | {cells} |"
    yield "|---|---|" + "--:|--:|---|" * len(counts)
    for operator, kind in found[counts[0]]:
        each = [found[threads][operator, kind] for threads in counts]
        cells = " | ".join(f"{verdict.ratio:.2f} | {verdict.loss:.2f} | {verdict}" for verdict in each)
        yield f"| {operator} | {kind} | {cells} |"


def measure(threads: int, only: str) -> list[Result]:
    """Everything, or the operators whose name contains a text. To be called once in a process."""
    share_threads(threads)
    return [result for group in groups() if only in group.operator for result in measured(group, threads)]


def _in_process(threads: int, only: str) -> list[Result]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, threads, only).result()


def main() -> None:
    """Measure, print both tables and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", metavar="TEXT", help="only operators whose name contains TEXT")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="1, or some more (default: both 1 and 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--target", type=Path, metavar="FILE", help="update the classes of rows in a target's file")
    options = parser.parse_args()
    counts = (options.threads,) if options.threads else (1, 2)
    results = [result for threads in counts for result in _in_process(threads, options.only)]
    print(*table(results), "", *summary(results), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    if options.target:
        if options.only or 1 not in counts:
            parser.error("--target needs all operators, with one thread")
        write_target(options.target, sections(results))


if __name__ == "__main__":
    main()
