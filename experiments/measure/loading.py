"""What ``--quant qoperator`` is worth: how long quantised models take to load and to run, by those written as ``qdq``.

Of each model and way, at two levels of ONNX Runtime's optimiser, the time to load it and the time of a run, each by
that of ``qdq`` at the level all, on one thread, and the size of the file. All files run in turn, and only times of one
round are compared. Models of which nothing becomes a kernel on bytes are left out. With a target, by the file for that
one instead: what the default takes longer to load, as with int8 weights alone that it selects none of.

    python -m experiments.measure.loading FOLDER [--only int8] [--target signed.json]
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

LOADS = 10
"""How often each file is loaded."""

SHARE, SECONDS = 1.15, 0.005
"""What the default may take to load by another target's file, or longer than it, whichever is more."""


@dataclass(frozen=True)
class Found:
    """A model in one way at one level: times by those of the first at the first level, the size of the file, and the
    least milliseconds that it takes to load.
    """

    model: str
    way: str
    level: str
    load: float
    run: float
    size: float
    milliseconds: float


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


def measure(
    model: CorpusModel, ways: Mapping[str, Mapping[str, object]] = WAYS, levels: Sequence[Level] = LEVELS
) -> list[Found]:
    """A model in all ways. Raises ConversionError where it cannot be converted, VerifyError where it does not run."""
    source = model.source
    files = {
        way: layoutsolve.convert(source, **given).model.SerializeToString(deterministic=True)  # type: ignore[arg-type]
        for way, given in ways.items()
    }
    if len(set(files.values())) < len(files):
        return []
    places = [(way, level) for way in ways for level in levels]
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
            round(1000 * min(loads[place]), 2),
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


def late(found: Sequence[Found]) -> str:
    """The models whose second file takes longer to load than it may by the first one, and the milliseconds."""
    pairs = [(one.model, one.milliseconds, two.milliseconds) for one, two in zip(found[::2], found[1::2], strict=True)]
    missed = [each for each in pairs if each[2] > max(SHARE * each[1], each[1] + 1000 * SECONDS)]
    rows = (f"* {model}: {one:.1f} ms, by default {two:.1f}, {two - one:.1f} more" for model, one, two in missed)
    return "\n".join([f"{len(missed)} of {len(pairs)} take longer than they may", *rows])


def main() -> None:
    """Print a row for each model, way and level, and the means."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--target", metavar="NAME|FILE.json", help="compare the default with this one instead")
    options = parser.parse_args()
    ways = {"the target": {"target": options.target}, "the default": {}} if options.target else WAYS
    levels = LEVELS[:1] if options.target else LEVELS
    found: list[Found] = []
    print("| model | way | level | load | run | file |\n|---|---|---|--:|--:|--:|")
    for model in models(options.folder, options.only):
        try:
            rows = measure(model, ways, levels)
        except (layoutsolve.ConversionError, VerifyError):
            continue
        found += rows
        for each in rows:
            line = f"| {each.model} | {each.way} | {each.level} | {each.load:.2f} | {each.run:.2f} | {each.size:.2f} |"
            print(line, flush=True)
    print(f"\n{len({each.model for each in found})} models\n{late(found) if options.target else summary(found)}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
