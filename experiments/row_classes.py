"""Which ways to run an operator ONNX Runtime is slow in, or refuses: every way against the fastest one.

A way's *loss* is the time that it takes longer than the fastest, in Transposes of its operand. It is slow, and counts
as a hidden transposition, where in the median over shapes the loss is at least LOSS and it takes more than RATIO times
as long (convolutions: RATIOS). From TWICE on it counts as two: such a kernel transposes its operand and its result.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
from onnx import helper

from experiments.ort_timing import Timed, loaded, paired, share_threads, write_target
from experiments.row_cases import (
    Group,
    along_axes,
    broadcasts,
    normalisations,
    reductions,
    resizes,
    transposes,
)
from experiments.row_products import batched, pointwise, products, quantised_products, regroupings
from experiments.row_windows import windows

LOSS, RATIO, TWICE = 0.5, 1.12, 1.5

RATIOS = {"Conv": 1.05, "ConvTranspose": 1.05}
"""Where other ratios are told from noise: convolutions take long."""


@dataclass(frozen=True)
class Result:
    """A way on one shape. Times are seconds, ``bytes`` those of the first input, ``refused`` says why it does not run.

    ``ratio`` and ``loss`` are medians over rounds, in which the fastest way ran as well.
    """

    operator: str
    kind: str
    shape: str
    listed: bool
    threads: int
    bytes: int
    seconds: float = 0.0
    fastest: float = 0.0
    transpose: float = 0.0
    ratio: float = 0.0
    loss: float = 0.0
    refused: str = ""


def groups() -> Iterator[Group]:
    """All that is measured."""
    sources = (
        *(along_axes, reductions, transposes, broadcasts, resizes, normalisations),
        *(products, quantised_products, batched, pointwise, regroupings, windows),
    )
    return chain.from_iterable(source() for source in sources)


def measured(group: Group, threads: int) -> list[Result]:
    """All ways of a group in turn, with the Transposes of their operands."""
    found = [loaded(variant.made) for variant in group.variants]
    running = [index for index, timed in enumerate(found) if isinstance(timed, Timed)]
    ways = [timed for timed in found if isinstance(timed, Timed)]
    moves = [Timed(group.variants[index].moved) for index in running]
    seconds = paired([*ways, *moves])
    middle = np.median(seconds, axis=0)
    best = int(np.argmin(middle[: len(ways)]))
    results = []
    for index, variant in enumerate(group.variants):
        tensor = variant.made.graph.input[0].type.tensor_type
        size = helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
        size *= int(np.prod([dim.dim_value for dim in tensor.shape.dim]))
        base = Result(group.operator, variant.kind, variant.shape, variant.listed, threads, size)
        if index not in running:
            results.append(Result(**asdict(base) | {"refused": str(found[index])}))
            continue
        place = running.index(index)
        move = place + len(ways)
        times = {
            "seconds": float(middle[place]),
            "fastest": float(middle[best]),
            "transpose": float(middle[move]),
            "ratio": float(np.median(seconds[:, place] / seconds[:, best])),
            "loss": float(np.median((seconds[:, place] - seconds[:, best]) / seconds[:, move])),
        }
        results.append(Result(**asdict(base) | times))
    return results


@dataclass(frozen=True)
class Verdict:
    """A kind over all its shapes. ``extra`` is seconds lost per byte of the operand, ``noise`` the ratio that may be
    none.
    """

    ratio: float
    loss: float
    extra: float
    refused: bool
    noise: float

    @property
    def slow(self) -> bool:
        """Whether the way counts as a hidden transposition."""
        return self.loss >= LOSS and self.ratio > self.noise

    @property
    def hidden(self) -> int:
        """How many transpositions the way counts as."""
        return int(self.slow) + int(self.slow and self.loss >= TWICE)

    def __str__(self) -> str:
        return "unsupported" if self.refused else "slow" if self.slow else "native"


def verdicts(results: Sequence[Result], threads: int) -> dict[tuple[str, str], Verdict]:
    """The verdict on each operator and kind; it is unsupported where any shape is refused."""
    kinds: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.threads == threads:
            kinds[result.operator, result.kind].append(result)
    return {
        key: Verdict(
            median(each.ratio for each in group),
            median(each.loss for each in group),
            median((each.seconds - each.fastest) / each.bytes for each in group),
            any(each.refused for each in group),
            RATIOS.get(key[0], RATIO),
        )
        for key, group in kinds.items()
    }


def sections(results: Sequence[Result]) -> dict[str, object]:
    """What a target's file says about rows, from the measurements with one thread."""
    listed = {(result.operator, result.kind) for result in results if result.listed}
    hidden: dict[str, dict[str, int]] = defaultdict(dict)
    unsupported: dict[str, list[str]] = defaultdict(list)
    extra: dict[str, dict[str, float]] = defaultdict(dict)
    for (operator, kind), verdict in verdicts(results, 1).items():
        if (operator, kind) not in listed:
            continue
        if verdict.refused:
            unsupported[operator].append(kind)
            continue
        hidden[operator][kind] = verdict.hidden
        if verdict.slow:
            extra[operator][kind] = float(f"{verdict.extra:.3g}")
    return {"hidden": hidden, "unsupported": unsupported, "extra": extra}


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
        slow = result.loss >= LOSS and result.ratio > RATIOS.get(result.operator, RATIO)
        yield f"{start} {times} | {result.transpose * 1e6:.1f} | {result.loss:.2f} | {'slow' if slow else 'native'} |"


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
