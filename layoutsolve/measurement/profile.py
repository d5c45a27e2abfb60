"""Where a converted model's time goes: by operator of the source, and by what ONNX Runtime executes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

from layoutsolve.base.wording import one_line
from layoutsolve.emit import nodes_of
from layoutsolve.errors import VerifyError
from layoutsolve.io import files
from layoutsolve.ir.graph import Origin
from layoutsolve.measurement.executed_operators import REORDERS, Executed, executed
from layoutsolve.measurement.timing import LEAST, feeds_of
from layoutsolve.verification.runtimes import OnnxRuntime, optimised

FEWEST, MOST = 3, 200
"""Runs that are measured, after one that is not."""

CONTAINERS = ("If", "Loop", "Scan")
"""Operators whose time is that of what is in them, which is told by itself."""

MOVING = ("Transpose", *REORDERS)
"""What only moves data."""

ADDED, INSERTED = "layouts, graph inputs and outputs", "made by ONNX Runtime"
"""Where a node comes from that belongs to no operator: it was written for what lies around them, or was not written."""

SHOWN = 12
"""Lines of each kind that people are shown."""

_SUFFIX = "_kernel_time"


@dataclass(frozen=True)
class Spent:
    """Time of one operator or kind of node: milliseconds of a run, the share of all, and the number of nodes."""

    what: str
    milliseconds: float
    share: float
    nodes: int


@dataclass(frozen=True)
class Profile:
    """Profile of one inference in ONNX Runtime on one thread, in milliseconds, the slowest first.

    Times are listed by source operator, with the nodes that are executed for each in brackets, and by kind of node.
    ``moving`` is the share of Transposes and reorders, 0 to 1.
    """

    runs: int
    milliseconds: float
    operators: tuple[Spent, ...]
    kinds: tuple[Spent, ...]
    moving: float
    executed: Executed

    def as_dict(self) -> dict[str, object]:
        """Profile as plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.milliseconds:.3f} ms a run on one thread, {self.moving:.1%} for Transposes and reorders"
        for title, found in (("operators", self.operators), ("kinds", self.kinds)):
            yield f"{title}:"
            for each in found[:SHOWN]:
                yield f"  {each.share:6.1%} {each.milliseconds:9.4f} ms  {each.what}"
            if len(found) > SHOWN:
                rest = found[SHOWN:]
                yield f"  {sum(each.share for each in rest):6.1%} in {len(rest)} others"
        if self.executed.floating:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.executed.floating.items())
            yield f"in float between quantized operators: {kinds}"


def profile(model: Path, origins: Mapping[str, Origin]) -> Profile:
    """Run a model in ONNX Runtime's own profiler, with smooth inputs. ``origins`` maps names of nodes to source
    operators.

    Raises :class:`VerifyError` where ONNX Runtime is missing, refuses the model or fails to run it.
    """
    with files.scratch() as folder:
        runtime = OnnxRuntime(model, threads=1, profile=folder / "profile")
        feeds = feeds_of(runtime)
        first = _run_times(json.loads(runtime.end_profiling().read_text(encoding="utf-8")))
        runs = min(max(FEWEST, ceil(LEAST / max(min(first, default=1.0), 1e-6))), MOST)
        runtime = OnnxRuntime(model, threads=1, profile=folder / "profile")
        for _ in range(runs + 1):
            runtime.run(feeds)
        events = json.loads(runtime.end_profiling().read_text(encoding="utf-8"))
    return made(events, runs, _places(model, origins), _executed(model))


def _places(model: Path, origins: Mapping[str, Origin]) -> dict[str, str]:
    """By the names of nodes that were written, and of their results, the operator that they come from: ONNX Runtime
    names what it makes of a node after either.
    """
    import onnx

    nodes = list(nodes_of(onnx.load(model, load_external_data=False).graph))
    return {name: str(origins.get(node.name, ADDED)) for node in nodes for name in (node.name, *node.output) if name}


def _executed(model: Path) -> Executed:
    try:
        return executed(optimised(model))
    except Exception as error:  # ONNX Runtime has a class of exception for each status
        raise VerifyError(f"ONNX Runtime does not write what it executes: {one_line(error)}") from error


def _run_times(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """The seconds of each run."""
    return [1e-6 * each["dur"] for each in events if each["name"] == "model_run"]


def kernel_times(events: Sequence[Mapping[str, Any]], begin: float = 0) -> Iterator[tuple[str, str, float]]:
    """What each kernel took in each run from a time in microseconds on, by the profiler's events: the node, its kind,
    and milliseconds. Operators that hold others are left out.
    """
    for each in events:
        name, kind = each["name"], each.get("args", {}).get("op_name", "")
        if each.get("cat") == "Node" and name.endswith(_SUFFIX) and each["ts"] >= begin and kind not in CONTAINERS:
            yield name.removesuffix(_SUFFIX), kind, 1e-3 * each["dur"]


def made(events: Sequence[Mapping[str, Any]], runs: int, places: Mapping[str, str], found: Executed) -> Profile:
    """Profile from the profiler's events, of so many runs behind the first; ``places`` maps nodes to where they come
    from.
    """
    begin = min((each["ts"] + each["dur"] for each in events if each["name"] == "model_run"), default=0)
    times: dict[tuple[str, str], float] = defaultdict(float)
    for name, kind, spent in kernel_times(events, begin):
        times[name, kind] += spent / runs
    total = sum(times.values())
    operators: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    kinds: dict[str, list[float]] = defaultdict(list)
    nodes: dict[str, int] = defaultdict(int)
    for (name, kind), spent in times.items():
        origin = place_of(name, places)
        operators[origin][kind] += spent
        nodes[origin] += 1
        kinds[kind].append(spent)
    return Profile(
        runs,
        round(total, 6),
        _ranked(
            (f"{origin} ({', '.join(own)})", sum(own.values()), nodes[origin]) for origin, own in operators.items()
        ),
        _ranked((kind, sum(own), len(own)) for kind, own in kinds.items()),
        round(sum(sum(kinds.get(kind, ())) for kind in MOVING) / total, 6) if total else 0.0,
        found,
    )


def _ranked(found: Iterator[tuple[str, float, int]]) -> tuple[Spent, ...]:
    """The most time first, names decide between equals."""
    told = list(found)
    total = sum(spent for _, spent, _ in told) or 1.0
    ranked = sorted(told, key=lambda each: (-each[1], each[0]))
    return tuple(Spent(what, round(spent, 6), round(spent / total, 6), count) for what, spent, count in ranked)


def place_of(name: str, places: Mapping[str, str]) -> str:
    """Where a node comes from: of its own name, or of the longest that ONNX Runtime has made it of."""
    if name in places:
        return places[name]
    known = max((each for each in places if each in name), key=len, default=None)
    return INSERTED if known is None else places[known]
