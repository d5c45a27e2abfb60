"""A target for this machine: what its ONNX Runtime is good at, measured on one thread.

Candidates run in turn and only times of one round are compared, by the processor's clock for this thread, so that
other programs matter little; where rounds disagree all the same, nothing is made of them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from layoutsolve.base.platforms import one_core
from layoutsolve.errors import MeasureError
from layoutsolve.measurement import alternatives, forms, transpose_cost
from layoutsolve.measurement.kernels import runtime_version, share_threads
from layoutsolve.solver.targets.target import Cost
from layoutsolve.solver.targets.target_file import default_target

MOST_SPREAD = 0.1
"""How far half of the rounds may be from their median, relative to it, before a measurement says nothing."""

FEATURES = (
    "avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve",
)  # fmt: skip
"""What a processor may have that kernels ask for, as Linux names it."""

AMONG_OTHERS = ("Conv", "ConvTranspose")
"""Operators whose ways cost what they make of the operators around them, which they are not measured with."""

Progress = Callable[[int, int, str], None]
"""Is told how many parts are measured, of how many, and which is next."""


@dataclass(frozen=True)
class Calibration:
    """What was measured. ``spread`` is how far half of the rounds were from their median, in the median over ways."""

    runtime: str
    ways: Sequence[alternatives.Result]
    moves: Sequence[transpose_cost.Move]
    reshape: Cost
    forms: Sequence[forms.Found]

    @property
    def spread(self) -> float:
        """Relative; 0 of nothing."""
        found = [each.spread for each in self.ways if each.ratio not in (0.0, 1.0)]
        found += [each.spread for each in self.forms if each.ratio != 1.0]
        return median(found) if found else 0.0

    def facts(self, name: str) -> dict[str, object]:
        """The content of a target's file (``docs/targets.md``)."""
        costs = transpose_cost.fits(self.moves, self.reshape)
        return {
            "name": name,
            "runtime": f"{self.runtime}; rounds differ by {self.spread:.1%}",
            "extends": "ort-cpu",
            **forms.sections(self.forms),
            **alternatives.sections(self.ways, default_target().hidden),
            "latency": transpose_cost.section(costs, self.reshape),
        }


def calibrate(progress: Progress = lambda done, count, part: None) -> Calibration:
    """Measure everything. To be called once in a process, before anything else has loaded a model.

    Raises :class:`MeasureError` where rounds differ too much.
    """
    with one_core():
        share_threads(1)
        groups = [group for group in alternatives.groups() if group.operator not in AMONG_OTHERS]
        choices = forms.choices()
        count = len(groups) + len(choices) + 1
        results: list[alternatives.Result] = []
        for index, group in enumerate(groups):
            progress(index, count, group.operator)
            results += alternatives.measured(group, 1)
        progress(len(groups), count, "Transpose")
        transposes, reshape = transpose_cost.moves(), transpose_cost.reshape()
        found: list[forms.Found] = []
        for index, (title, candidates) in enumerate(choices.items()):
            progress(len(groups) + 1 + index, count, title)
            found += forms.decided(title, candidates())
        progress(count, count, "")
    made = Calibration(described(), results, transposes, reshape, found)
    if made.spread > MOST_SPREAD:
        raise MeasureError(
            f"the machine is too busy: half of the rounds differ by more than {made.spread:.0%} from the others; end"
            " other programs and try again"
        )
    return made


def described() -> str:
    """The runtime and the processor."""
    features = _features()
    listed = f" ({' '.join(features)})" if features else ""
    return f"ONNX Runtime {runtime_version()} on {platform.machine() or 'an unknown processor'}{listed}"


def _features() -> list[str]:
    """Those of this processor, none where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    lines = (line for line in text.splitlines() if line.lower().startswith(("flags", "features")))
    known = set(next(lines, "").partition(":")[2].split())
    return [name for name in FEATURES if name in known]


def table(calibration: Calibration) -> Iterator[str]:
    """What was found, for people: each choice with its candidates, then rows that lose, then Transposes."""
    for choice in dict.fromkeys(each.choice for each in calibration.forms):
        yield f"{choice}:"
        for each in calibration.forms:
            if each.choice == choice:
                what = "wrong on this processor" if not each.right else f"{each.ratio:.2f}"
                yield f"  {'*' if each.chosen else ' '} {each.candidate.title:16s} {what}"
    verdicts = alternatives.verdicts(calibration.ways, 1)
    listed = {(each.operator, each.kind) for each in calibration.ways if each.listed}
    slow = sum(verdict.hidden > 0 for key, verdict in verdicts.items() if key in listed)
    yield f"alternatives: {len(listed)} measured, {slow} slow"
    costs = transpose_cost.fits(calibration.moves, calibration.reshape)
    yield "Transposes of float32, microseconds a megabyte: " + ", ".join(
        f"{motion} {1e6 * sizes['4'].seconds(1 << 20, _blocks(motion)):.0f}" for motion, sizes in costs.items()
    )


def _blocks(motion: str) -> int:
    """Blocks of a typical megabyte: 64 numbers each, where blocks are copied."""
    return (1 << 20) // 256 if motion == "rows" else 0
