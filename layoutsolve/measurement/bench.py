"""How long files take, each by the time of the first: ONNX models, and TensorFlow Lite models in LiteRT."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from layoutsolve.base.wording import aligned, brief, one_line, printable
from layoutsolve.conversion.arguments import MOST_THREADS
from layoutsolve.errors import ModelError, OptionError, VerifyError
from layoutsolve.frontend import is_onnx, is_tflite
from layoutsolve.io.source import Content, load, on_disk
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.executed_operators import Executed, executed
from layoutsolve.measurement.timing import (
    MOST,
    SIZES,
    UNSTEADY,
    Runner,
    Session,
    Subject,
    clock_of,
    feeds_of,
    ratio,
    rounds_of,
    setting,
    spread,
    timed,
    warm,
)
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.refusals import require
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime, optimised

RUNTIMES = ("ONNX Runtime", "LiteRT, XNNPACK", "LiteRT, plain", "OpenVINO")
"""What files run in."""


@dataclass(frozen=True)
class Loaded:
    """A file in a runtime, ready to be timed; ``load`` are the seconds until it was, ``feeds`` is what it is given, by
    name or by position.
    """

    file: str
    runtime: str
    load: float
    runner: Runner[Subject]
    executed: Executed | None = None
    feeds: Mapping[str, Array] | Sequence[Array] = ()


@dataclass(frozen=True)
class Refused:
    """A file that a runtime does not run, and why."""

    file: str
    runtime: str
    error: VerifyError


@dataclass(frozen=True)
class Measured:
    """A file in a runtime: milliseconds to load it and of a run (a median), the median over the rounds of its time by
    the first one's, how far rounds disagree on that, and what ONNX Runtime executes of it, None in other runtimes.
    """

    file: str
    runtime: str
    load_milliseconds: float
    milliseconds: float
    ratio: float
    spread: float
    executed: Executed | None


@dataclass(frozen=True)
class Bench:
    """All measurements, in the order in which files were named, and over how many rounds; ``refused`` is what some of
    the runtimes do not run.
    """

    rows: tuple[Measured, ...]
    rounds: int
    setting: Mapping[str, object]
    refused: tuple[Refused, ...] = ()

    @property
    def unsteady(self) -> tuple[Measured, ...]:
        """Those on whose ratio the rounds disagree too much."""
        return tuple(row for row in self.rows if row.spread > UNSTEADY)

    def as_json(self) -> str:
        """All as one JSON object."""
        rows = [{**asdict(row), "unsteady": row in self.unsteady} for row in self.rows]
        refused = [{"file": each.file, "runtime": each.runtime, "reason": str(each.error)} for each in self.refused]
        return json.dumps({"files": rows, "refused": refused, "rounds": self.rounds, **self.setting})

    def as_text(self) -> str:
        """A table, and what to doubt about it."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        head = ("file", "runtime", "load ms", "ms", "by first", "nodes", "Transposes", "reorders", "integer", "float")
        table = [head, *(_cells(row) for row in self.rows)]
        yield from aligned(table, range(2, len(head)))
        for row in self.rows:
            if row.executed is not None and row.executed.floating:
                kinds = ", ".join(f"{count} {kind}" for kind, count in row.executed.floating.items())
                yield f"{printable(row.file)}: in float between quantized operators: {printable(kinds)}"
        for each in self.refused:
            yield f"{printable(each.file)} is not measured in {each.runtime}: {printable(str(each.error))}"
        for row in self.unsteady:
            yield (
                f"{printable(row.file)} in {row.runtime}: rounds disagree by {row.spread:.0%}: "
                "measure again while the machine does nothing else"
            )


def _cells(row: Measured) -> tuple[str, ...]:
    times = (f"{row.load_milliseconds:.1f}", f"{row.milliseconds:.3f}", f"{row.ratio:.3f}")
    found = row.executed
    counts = (
        ("-",) * 5
        if found is None
        else (found.operators, found.transposes, found.reorders, found.integer, sum(found.floating.values()))
    )
    return (printable(row.file), row.runtime, *times, *map(str, counts))


def bench(
    files: Sequence[str],
    *,
    threads: int = 1,
    level: str = "all",
    openvino: bool = False,
    plain: bool = True,
    most: float = MOST,
) -> Bench:
    """Time files against the first one, each ``most`` seconds; TensorFlow Lite models also with LiteRT's ``plain``
    kernels.

    Raises :class:`OptionError` for a level or number of threads that does not exist, :class:`ModelError` for what is
    no file, :class:`VerifyError` where a runtime is missing, or none runs a file. What one of several refuses is told.
    """
    if level not in LEVELS:
        raise OptionError(f"argument --level: '{level}' is not one of {', '.join(LEVELS)}")
    if not 1 <= threads <= MOST_THREADS:
        raise OptionError(
            f"argument --threads: {brief(threads)} is no number of threads: give 1 or more, up to {MOST_THREADS}"
        )
    models = {file: _model(file) for file in files}
    if openvino and importlib.util.find_spec("openvino") is None:
        raise VerifyError("the package 'openvino' is missing; install it with: pip install openvino")
    with ExitStack() as stack:
        every = (_tried(file, models[file], threads, level, openvino, plain, stack) for file in files)
        tried = [replace(each, file=file) for file, found in zip(files, every, strict=True) for each in found]
        found = [each for each in tried if isinstance(each, Loaded)]
        runners = {place: each.runner for place, each in enumerate(found)}
        rounds = rounds_of(list(runners.values()), most)
        refused = [each for each in tried if isinstance(each, Refused)]
        return measured(found, timed(runners, rounds), setting(level, threads), refused)


def measured(
    found: Sequence[Loaded],
    times: Mapping[int, Sequence[float]],
    given: Mapping[str, object],
    refused: Sequence[Refused] = (),
) -> Bench:
    """What times by place and round come to."""
    rows = tuple(
        Measured(
            each.file,
            each.runtime,
            round(1e3 * each.load, 4),
            round(1e3 * median(times[place]), 4),
            round(ratio(times[place], times[0]), 4),
            round(spread(times[place], times[0]), 4),
            each.executed,
        )
        for place, each in enumerate(found)
    )
    return Bench(rows, len(times[0]), given, tuple(refused))


def _model(file: str) -> Content:
    """The model of a file. Raises :class:`ModelError` where that is neither of TensorFlow Lite nor in ONNX."""
    content = load(file)
    if not is_tflite(content.data) and not is_onnx(content.data):
        raise ModelError(f"'{printable(file)}' is neither a TensorFlow Lite nor an ONNX model")
    return content


def _tried(
    name: str, model: Content, threads: int, level: Level, openvino: bool, plain: bool, stack: ExitStack
) -> list[Loaded | Refused]:
    """A file in all runtimes that it is for. Raises :class:`VerifyError`, with its ``name``, where none runs it."""
    file = str(stack.enter_context(on_disk(model)))
    loads: dict[str, Callable[[], Loaded]] = {RUNTIMES[0]: partial(_onnx, file, threads, level)}
    if is_tflite(model.data):
        loads = {
            runtime: partial(held, file, runtime, threads, delegate, stack.enter_context(LiteRT()))
            for delegate, runtime in ((True, RUNTIMES[1]), (False, RUNTIMES[2]))
            if delegate or plain
        }
    found = [_attempted(file, runtime, load) for runtime, load in loads.items()]
    running = next((each for each in found if isinstance(each, Loaded)), None)
    if running is None:
        (first, *_) = (each.error for each in found if isinstance(each, Refused))
        raise VerifyError(f"'{printable(name)}': {first}") from first
    if openvino:
        found.append(_attempted(file, RUNTIMES[3], partial(compiled, file, threads, running.feeds)))
    return found


def _attempted(file: str, runtime: str, load: Callable[[], Loaded]) -> Loaded | Refused:
    try:
        return load()
    except VerifyError as error:
        return Refused(file, runtime, error)


def _onnx(file: str, threads: int, level: Level) -> Loaded:
    """A file in ONNX Runtime."""
    require("onnxruntime")
    importlib.import_module("onnxruntime")  # lest it counts as loading the first file
    start = time.perf_counter()
    session = OnnxRuntime(Path(file), threads=threads, level=level)
    spent = time.perf_counter() - start
    feeds = feeds_of(session)
    runner = warm(Session(session, feeds, clock_of(threads)))
    given = {name: feeds[name] for name, _, _ in session.inputs}
    return Loaded(file, RUNTIMES[0], spent, runner, _executed(file, level), given)


def _executed(file: str, level: Level) -> Executed:
    try:
        return executed(optimised(Path(file), level))
    except Exception as error:  # ONNX Runtime has a class of exception for each status
        raise VerifyError(f"ONNX Runtime does not write what it executes: {one_line(error)}") from error


@dataclass(frozen=True)
class _Lite:
    """A model that LiteRT's process holds."""

    litert: LiteRT

    def turn(self, repeats: int) -> float:
        return self.litert.turn(repeats)


def held(file: str, runtime: str, threads: int, delegate: bool, litert: LiteRT) -> Loaded:
    """A file in LiteRT's process, with or without its ``delegate`` (XNNPACK). Raises :class:`VerifyError` where LiteRT
    refuses it.
    """
    source = Path(file).read_bytes()
    ports = litert.describe(source).inputs
    dynamic = any(size < 0 for port in ports for size in port.signature[1:])
    processor = clock_of(threads) is time.process_time
    for size in SIZES if dynamic else SIZES[:1]:
        inputs = _inputs(ports, size)
        try:
            spent = litert.hold(source, inputs, threads=threads, delegate=delegate, processor=processor)
        except VerifyError:
            if not dynamic or size == SIZES[-1]:
                raise
        else:
            break
    return Loaded(file, runtime, spent, warm(_Lite(litert)), feeds=inputs)


def _inputs(ports: Sequence[Port], size: int) -> list[Array]:
    """Smooth input by position; dynamic dimensions but the first have a size."""
    generator = np.random.default_rng(0)
    shapes = [[dim if dim >= 0 else size if axis else 1 for axis, dim in enumerate(port.signature)] for port in ports]
    return [smooth(port.dtype, shape, generator) for port, shape in zip(ports, shapes, strict=True)]


@dataclass(frozen=True)
class _Vino:
    """A model that OpenVINO has compiled."""

    request: Any
    feeds: Mapping[str, Array] | Sequence[Array]
    threads: int

    def turn(self, repeats: int) -> float:
        clock = clock_of(self.threads)
        start = clock()
        for _ in range(repeats):
            self.request.infer(self.feeds)
        return clock() - start


def compiled(file: str, threads: int, feeds: Mapping[str, Array] | Sequence[Array]) -> Loaded:
    """A file in OpenVINO. Without the hint it computes in bfloat16 where the processor can, which is another model.
    ``feeds`` are by name or by position. Raises :class:`VerifyError` where OpenVINO refuses the file.
    """
    import openvino

    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    start = time.perf_counter()
    try:
        compiled = openvino.Core().compile_model(file, "CPU", hints)
        spent = time.perf_counter() - start
        return Loaded(file, RUNTIMES[3], spent, warm(_Vino(compiled.create_infer_request(), feeds, threads)))
    except Exception as error:  # OpenVINO raises RuntimeError and its own
        raise VerifyError(f"OpenVINO refuses the model: {one_line(error)}") from error
