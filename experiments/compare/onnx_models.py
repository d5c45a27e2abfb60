"""What is left of Transposes and Reshapes in ONNX models, by layoutsolve and by others, and whether it still computes
what the model computed.

Of each model below a folder, as it is, as ONNX Runtime's optimiser writes it at the levels basic and extended, as
others write it (``--with NAME=COMMAND`` with SOURCE and OUTPUT in it) and as layoutsolve writes it: Transposes and
Reshape-like operators (Reshape, Squeeze, Unsqueeze, Flatten) of what depends on inputs and is no arithmetic of sizes,
bytes that the Transposes move outside of branches and loops, Transposes that ONNX Runtime executes of it at the level
all, and how far its results are from those of the model as it is, at two sizes of all open dimensions: without
optimisation, and at the level all. ``--time`` times all of them in turn, by the model as it is, on one thread, at the
levels all and none, and tells of what is slower which operators ONNX Runtime executes of it and of the model as it is.
``--briefly`` leaves out all ways but layoutsolve's.

    python -m experiments.compare.onnx_models FOLDER [--only TEXT] [--with "onnxslim=onnxslim SOURCE OUTPUT"] [--time]
        [--briefly] [--feed sr=16000]
"""

from __future__ import annotations

import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import onnx

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.measure.runtime import mean
from experiments.onnx_shared import (
    NEAR,
    TRANSPOSE,
    FailedError,
    Sample,
    apart,
    distance,
    moving,
    samples,
    session,
    whole,
)
from layoutsolve.emit import nodes_of
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.measurement.timing import Session, clock_of, ratio, rounds_of, timed, warm
from layoutsolve.verification.runtimes import Level, OnnxRuntime, optimised

LEVELS: tuple[Level, Level] = ("none", "all")
ORIGINAL, OWN, AGAIN = "original", "layoutsolve", "layoutsolve again"
FAR = 1e-4
"""A distance that rounding does not explain."""

SLOWER = 1.05
"""From which time on by the original's a model counts as slower."""

Way = Callable[[Path, Path], None]
"""Writes a model, whose path is given first, in another form."""


@dataclass(frozen=True)
class Row:
    """A model in one form. ``plain`` and ``whole`` are how far its results are from the original's, at the levels none
    and all, no numbers where ONNX Runtime does not run that; ``ratio`` is its time by the original's, ``plain_ratio``
    that without optimisation, 0 where that is not measured. ``operators`` are how many there are of each kind,
    constants left out, ``run`` those that ONNX Runtime executes. ``error`` is why there is nothing.
    """

    model: str
    way: str
    transposes: int = 0
    views: int = 0
    bytes: int = 0
    executed: int = 0
    plain: float = 0.0
    whole: float = 0.0
    seconds: float = 0.0
    ratio: float = 0.0
    plain_ratio: float = 0.0
    operators: Mapping[str, int] = field(default_factory=dict)
    run: Mapping[str, int] = field(default_factory=dict)
    error: str = ""

    @property
    def kind(self) -> str:
        """How far its results are without optimisation, in a word."""
        if isnan(self.plain):
            return "not run"
        return "bits" if self.plain == 0 else "near" if self.plain <= NEAR else "further"

    @property
    def equal(self) -> str:
        """How far its results are, in words."""
        plain = f"{self.plain:.1e}" if self.kind == "further" else self.kind
        return plain if not self.whole > max(self.plain, NEAR) else f"{plain}, at all {self.whole:.1e}"

    @property
    def cost(self) -> tuple[int, int]:
        """What is compared: Transposes, then all that views."""
        return self.transposes, self.views

    def __str__(self) -> str:
        if self.error:
            return f"{self.model:50} {self.way:17} {self.error[:200]}"
        time = f"{self.ratio:.2f}" if self.ratio else "-"
        counts = (self.transposes, self.views, self.bytes, self.executed, time)
        return HEAD.format(self.model, self.way, *counts, self.equal)


HEAD = "{:50} {:17} {:>10} {:>6} {:>10} {:>8} {:>5} {}"


# -- what a model has ----------------------------------------------------------------------------------------------


def bytes_moved(model: onnx.ModelProto, sample: Sample) -> int:
    """The bytes that Transposes move, those in branches and loops left out."""
    names = {node.output[0] for node in moving(model.graph) if node.op_type == TRANSPOSE}
    names &= {name for node in model.graph.node for name in node.output}
    names -= {port.name for port in model.graph.output}
    told = onnx.ModelProto.FromString(model.SerializeToString())
    told.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names))
    results = session(told.SerializeToString(), "none").run(None, dict(sample.feeds))
    ports = [port.name for port in told.graph.output]
    kept = [node.output[0] for node in model.graph.node if node.op_type == TRANSPOSE]
    return sum(found.nbytes for name, found in zip(ports, results, strict=True) if name in kept)


# -- the ways ------------------------------------------------------------------------------------------------------


def _solve(source: Path, output: Path) -> None:
    layoutsolve.convert(str(source)).save(output)


def _optimise(level: Level, source: Path, output: Path) -> None:
    onnx.save(optimised(source, level), output)


def _command(words: Sequence[str], seconds: float, source: Path, output: Path) -> None:
    """Raises :class:`FailedError` where the command does not write the model, or TimeoutExpired."""
    filled = [{"SOURCE": str(source), "OUTPUT": str(output)}.get(word, word) for word in words]
    done = subprocess.run(filled, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode or not output.is_file():
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing is written"]
        raise FailedError("crash", said[-1][:200])


def ways_of(others: Sequence[str], seconds: float, briefly: bool = False) -> dict[str, Way]:
    """All ways by name but the original: ONNX Runtime's, those of commands, and layoutsolve; ``briefly`` the last."""
    if briefly:
        return {OWN: _solve}
    named = (each.partition("=") for each in others)
    commands = {name: partial(_command, shlex.split(command), seconds) for name, _, command in named}
    return {
        "ORT basic": partial(_optimise, "basic"),
        "ORT extended": partial(_optimise, "extended"),
        **commands,
        OWN: _solve,
    }


# -- one model -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How long a cell may take, whether times are measured, numbers of inputs by name, and whether what layoutsolve has
    written is put through it once more.
    """

    seconds: float
    timed: bool
    fixed: Mapping[str, float]
    again: bool = True


def rows(model: CorpusModel, ways: Mapping[str, Way], settings: Settings) -> list[Row]:
    """A model in all forms; the last is layoutsolve's own put through layoutsolve again."""
    try:
        given = apart(lambda: samples(model.path, settings.fixed), settings.seconds)
    except FailedError:  # ONNX Runtime does not run it
        given = []
    with TemporaryDirectory() as folder:
        paths, found = {ORIGINAL: model.path}, [_row(model, ORIGINAL, model.path, given, 0.0, settings)]
        for number, (name, way) in enumerate({**ways, **({AGAIN: _solve} if settings.again else {})}.items()):
            source, output = model.path if name != AGAIN else paths.get(OWN), Path(folder) / f"{number}.onnx"
            if source is None:
                continue
            start = perf_counter()
            try:
                apart(partial(way, source, output), settings.seconds + 1)
            except FailedError as error:
                found.append(Row(model.name, name, error=str(error)))
                continue
            found.append(_row(model, name, output, given, perf_counter() - start, settings))
            if not found[-1].error:
                paths[name] = output
        timing = settings.timed and given
        times, plain = ((_times(paths, given[0], settings, level) if timing else {}) for level in ("all", "none"))
    ratios = ({"ratio": times.get(each.way, 0.0), "plain_ratio": plain.get(each.way, 0.0)} for each in found)
    return [Row(**{**vars(each), **more}) for each, more in zip(found, ratios, strict=True)]


def _row(model: CorpusModel, way: str, path: Path, given: Sequence[Sample], seconds: float, settings: Settings) -> Row:
    def measured() -> Row:
        content = whole(onnx.load(path))
        plain, optimal = (max((_off(path, sample, level) for sample in given), default=nan) for level in LEVELS)
        kinds = [node.op_type for node in moving(content.graph)]
        every = (node.op_type for node in nodes_of(content.graph))
        transposes = kinds.count(TRANSPOSE)
        run = optimised(path) if given else onnx.ModelProto()
        return Row(
            model.name,
            way,
            transposes,
            len(kinds) - transposes,
            bytes_moved(content, given[0]) if given else 0,
            executed(run).transposes,
            plain,
            optimal,
            round(seconds, 2),
            operators=dict(sorted(Counter(kind for kind in every if kind != "Constant").items())),
            run=dict(sorted(Counter(node.op_type for node in nodes_of(run.graph)).items())),
        )

    try:
        return apart(measured, settings.seconds)
    except FailedError as error:
        return Row(model.name, way, error=f"as written: {error}")


def _off(path: Path, sample: Sample, level: Level) -> float:
    return distance(session(path, level).run(None, dict(sample.feeds)), sample.results)


def _times(paths: Mapping[str, Path], sample: Sample, settings: Settings, level: Level) -> Mapping[str, float]:
    """The time of each form by the original's at a level; nothing where that cannot be measured."""

    def measured() -> dict[str, float]:
        runners = {
            name: warm(Session(OnnxRuntime(path, threads=1, level=level), sample.feeds, clock_of(1)))
            for name, path in paths.items()
        }
        times = timed(runners, rounds_of(list(runners.values())))
        return {name: round(ratio(spent, times[ORIGINAL]), 4) for name, spent in times.items()}

    try:
        return apart(measured, settings.seconds * len(paths))
    except FailedError as error:
        print(f"no times: {error}")
        return {}


# -- all models ----------------------------------------------------------------------------------------------------


def summary(found: Sequence[Row]) -> Iterator[str]:
    """The sums of each way beside layoutsolve's over the models that both write, and what must not be."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in found:
        by_model.setdefault(row.model, {})[row.way] = row
    for way in dict.fromkeys(row.way for row in found):
        pairs = [(each[way], each[OWN]) for each in by_model.values() if way in each and OWN in each]
        both = [pair for pair in pairs if not any(row.error for row in pair)]
        sums = ", ".join(
            f"{name} {sum(getattr(row, name) for row, _ in both)} ({sum(getattr(own, name) for _, own in both)})"
            for name in ("transposes", "views", "bytes", "executed")
        )
        kinds = Counter(row.kind for row, _ in both)
        times, plain = ([getattr(row, name) for row, _ in both if row.ratio] for name in ("ratio", "plain_ratio"))
        yield (
            f"{way} (layoutsolve) on {len(both)} of {len(by_model)} models: {sums}; results {dict(kinds)}"
            + (
                f"; time by the original's {mean(times):.3f}, {mean(plain):.3f} at none"
                if all((*times, *plain)) and times
                else ""
            )
        )
    for each in by_model.values():
        yield from _faults(each)


def _faults(rows: Mapping[str, Row]) -> Iterator[str]:
    """What must not be of a model: that it fails, departs, is above another form, slower, or changes once more."""
    own, original = rows.get(OWN), rows[ORIGINAL]
    if own is None:
        return
    if own.error:
        yield f"* {own.model}: {own.error}"
        return
    if max(own.plain, own.whole) > max(FAR, 2 * original.whole):
        yield f"* {own.model}: results {own.equal}"
    for row in rows.values():
        if row.way != AGAIN and not row.error and row.cost < own.cost:
            yield f"* {own.model}: {'/'.join(map(str, own.cost))} is above {row.way}, {'/'.join(map(str, row.cost))}"
        if row.way != AGAIN and not row.error and row.executed < own.executed:
            yield f"* {own.model}: executes {own.executed} Transposes, {row.way} {row.executed}"
    if own.ratio > SLOWER:
        yield f"* {own.model}: takes {own.ratio:.2f} of the original's time, runs {_changed(own.run, original.run)}"
    if original.cost == (0, 0) and own.operators != original.operators:
        yield f"* {own.model}: nothing to do, but operators change: {_changed(own.operators, original.operators)}"
    again = rows.get(AGAIN)
    if again is not None and (again.error or again.operators != own.operators):
        yield f"* {own.model}: once more it is {again.error or again.cost}, not {own.cost}"


def _changed(own: Mapping[str, int], original: Mapping[str, int]) -> dict[str, int]:
    """How many operators of each kind there are more, or fewer."""
    changed = Counter(own)
    changed.subtract(original)
    return {kind: count for kind, count in sorted(changed.items()) if count}


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--time", action="store_true", help="time all forms in turn")
    parser.add_argument("--briefly", action="store_true", help="leave out all ways but layoutsolve's")
    parser.add_argument("--feed", action="append", default=[], metavar="NAME=NUMBER", help="what an input holds")
    parser.add_argument("--seconds", type=float, default=120.0, help="that each cell may take (default: 120)")
    parser.add_argument("--largest", type=float, default=float("inf"), metavar="MB", help="leave out larger files")
    options = parser.parse_args(given)
    fixed = {name: float(number) for name, _, number in (each.partition("=") for each in options.feed)}
    settings = Settings(options.seconds, options.time, fixed, not options.briefly)
    ways = ways_of(options.others, options.seconds, options.briefly)
    found: list[Row] = []
    print(HEAD.format("model", "way", "Transposes", "views", "bytes", "executed", "time", "results"))
    for model in models(options.folder, options.only, ".onnx"):
        if model.path.stat().st_size <= options.largest * 1e6:
            some = rows(model, ways, settings)
            found += some
            print(*some, sep="\n", flush=True)
    print("", *summary(found), sep="\n")
    write_json(options.json, [asdict(row) for row in found])


if __name__ == "__main__":
    main()
