"""Which alternatives of an operator ONNX Runtime is slow in, or refuses: every way against the fastest one.

A way's *loss* is the time that it takes longer than the fastest, in Transposes of its operand. It is slow, and counts
as a hidden transposition, where in the median over shapes the loss is at least LOSS and it takes more than RATIO times
as long (convolutions: RATIOS). From TWICE on it counts as two: such a kernel transposes its operand and its result.
From THRICE on, and where it takes LONG times as long, it counts as three: more than a Transpose before it and one
behind it, by which it is avoided. A Transpose itself is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import median

import numpy as np
from onnx import helper

from layoutsolve.measurement.axis_operators import (
    Group,
    along_axes,
    broadcasts,
    normalisations,
    reductions,
    resizes,
    resizes_in_blocks,
    transposes,
)
from layoutsolve.measurement.channels_last_convolutions import windows
from layoutsolve.measurement.contractions import batched, by_head, pointwise, products, quantized_products, regroupings
from layoutsolve.measurement.kernels import Timed, loaded, paired

LOSS, RATIO, TWICE = 0.5, 1.12, 1.5
THRICE, LONG = 8.0, 1.5

RATIOS = {"Conv": 1.05, "ConvTranspose": 1.05}
"""Where other ratios are told from noise: convolutions take long."""


@dataclass(frozen=True)
class Result:
    """Measurement of one alternative on one shape. Times are seconds, ``bytes`` those of the first input, ``refused``
    is the reason why it does not run.

    ``ratio`` and ``loss`` are medians over rounds, in which the fastest way ran as well; ``spread`` is how far half of
    the rounds are from that ratio, relative to it.
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
    spread: float = 0.0
    refused: str = ""


def groups() -> Iterator[Group]:
    """All that is measured."""
    sources = (
        *(along_axes, reductions, transposes, broadcasts, resizes, resizes_in_blocks, normalisations),
        *(products, quantized_products, batched, by_head, pointwise, regroupings, windows),
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
        ratios = seconds[:, place] / seconds[:, best]
        ratio = float(np.median(ratios))
        times = {
            "seconds": float(middle[place]),
            "fastest": float(middle[best]),
            "transpose": float(middle[move]),
            "ratio": ratio,
            "spread": float(np.median(np.abs(ratios / ratio - 1.0))),
            "loss": float(np.median((seconds[:, place] - seconds[:, best]) / seconds[:, move])),
        }
        results.append(Result(**asdict(base) | times))
    return results


def is_slow(found: Result | Verdict) -> bool:
    """Whether a way loses much, on the shape that it was measured on or over all of them."""
    return found.loss >= LOSS and found.ratio > RATIOS.get(found.operator, RATIO)


@dataclass(frozen=True)
class Verdict:
    """A kind of an operator over all its shapes. ``extra`` is seconds lost per byte of the operand."""

    operator: str
    ratio: float
    loss: float
    extra: float
    refused: bool

    @property
    def slow(self) -> bool:
        """Whether the way counts as a layout penalty."""
        return is_slow(self)

    @property
    def hidden(self) -> int:
        """How many transpositions the way counts as."""
        if not self.slow or self.loss < TWICE:
            return int(self.slow)
        return 3 if self.operator != "Transpose" and self.loss >= THRICE and self.ratio >= LONG else 2

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
            key[0],
            median(each.ratio for each in group),
            median(each.loss for each in group),
            median((each.seconds - each.fastest) / each.bytes for each in group),
            any(each.refused for each in group),
        )
        for key, group in kinds.items()
    }


SURE, SURELY_SLOW, SURELY_FAST = 1.0, 1.3, 1.06
"""The loss and the ratio from which a way surely loses, and the ratio up to which it surely loses nothing."""


def steady(verdict: Verdict, before: int | None) -> int:
    """How many transpositions a way counts as where it counted as some ``before``: that changes only where it is clear,
    as orders that cost the same by a table may take twice as long among other operators.
    """
    sure = verdict.ratio <= SURELY_FAST or (verdict.ratio >= SURELY_SLOW and verdict.loss >= SURE)
    return verdict.hidden if before is None or sure else before


def sections(results: Sequence[Result], before: Mapping[tuple[str, str], int] | None = None) -> dict[str, object]:
    """Layout penalties for a target's file, from the measurements with one thread, where another target has counted
    each as so many transpositions ``before``.
    """
    known = before or {}
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
        hidden[operator][kind] = steady(verdict, known.get((operator, kind)))
        if verdict.slow:
            extra[operator][kind] = float(f"{verdict.extra:.3g}")
    return {"hidden": hidden, "unsupported": unsupported, "extra": extra}
