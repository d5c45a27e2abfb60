"""What ``--quant qoperator`` is worth: how long quantised models take to load and to run, by those written as ``qdq``.

Of each model and way, at two levels of ONNX Runtime's optimiser, the time to load it and the time of a run, each by
that of ``qdq`` at the level all, on one thread, and the size of the file. All files run in turn, and only times of one
round are compared. Models of which nothing becomes a kernel on bytes are left out.

    python -m experiments.measure.loading FOLDER [--only int8]
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.timing import Runner, Session, feeds_of, ratio, rounds_of, timed, warm
from layoutsolve.verification.runtimes import Level, OnnxRuntime

WAYS: Mapping[str, Mapping[str, object]] = {
    "qdq": {},
    "qoperator": {"quant": "qoperator"},
    "qoperator, contrib": {"quant": "qoperator", "contrib": True},
}
"""The options of each way; the first is what the others are compared with."""

LEVELS: Sequence[Level] = ("all", "basic")

LOADS = 7
"""How often each file is loaded."""


@dataclass(frozen=True)
class Found:
    """A model in one way at one level: times by those of the first at the first level, and the size of the file."""

    model: str
    way: str
    level: str
    load: float
    run: float
    size: float


@dataclass(frozen=True)
class _Loading:
    """A file that is loaded again and again."""

    file: bytes
    level: Level

    def turn(self, repeats: int) -> float:
        start = time.process_time()
        for _ in range(repeats):
            OnnxRuntime(self.file, threads=1, level=self.level)
        return time.process_time() - start


def measure(model: CorpusModel) -> list[Found]:
    """A model in all ways. Raises ConversionError where it cannot be converted, VerifyError where it does not run."""
    source = model.source
    files = {
        way: layoutsolve.convert(source, **given).model.SerializeToString(deterministic=True)  # type: ignore[arg-type]
        for way, given in WAYS.items()
    }
    if len(set(files.values())) < len(files):
        return []
    places = [(way, level) for way in WAYS for level in LEVELS]
    loads = timed({place: Runner(_Loading(files[place[0]], place[1])) for place in places}, LOADS)
    sessions = {place: OnnxRuntime(files[place[0]], threads=1, level=place[1]) for place in places}
    feeds = feeds_of(sessions[places[0]])
    runners = {place: warm(Session(session, feeds, time.process_time)) for place, session in sessions.items()}
    runs = timed(runners, rounds_of(list(runners.values())))
    first = places[0]
    return [
        Found(
            model.name,
            *place,
            round(ratio(loads[place], loads[first]), 4),
            round(ratio(runs[place], runs[first]), 4),
            round(len(files[place[0]]) / len(files[first[0]]), 4),
        )
        for place in places
    ]


def summary(found: Sequence[Found]) -> str:
    """The geometric means of all ways."""
    lines = ["| way | level | load | run | file |", "|---|---|--:|--:|--:|"]
    for way in WAYS:
        for level in LEVELS:
            rows = [each for each in found if (each.way, each.level) == (way, level)]
            values = (mean([getattr(each, name) for each in rows]) for name in ("load", "run", "size"))
            lines.append(f"| {way} | {level} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return "\n".join(lines)


def main() -> None:
    """Print a row for each model, way and level, and the means."""
    options = arguments(__doc__ or "").parse_args()
    found: list[Found] = []
    print("| model | way | level | load | run | file |\n|---|---|---|--:|--:|--:|")
    for model in models(options.folder, options.only):
        try:
            rows = measure(model)
        except (layoutsolve.ConversionError, VerifyError):
            continue
        found += rows
        for each in rows:
            line = f"| {each.model} | {each.way} | {each.level} | {each.load:.2f} | {each.run:.2f} | {each.size:.2f} |"
            print(line, flush=True)
    print(f"\n{len({each.model for each in found})} models\n{summary(found)}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
