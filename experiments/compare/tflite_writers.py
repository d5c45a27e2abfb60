"""ONNX models written to TensorFlow Lite, by layoutsolve and by others: which LiteRT runs, which are right, what they
have of Transposes and Reshapes, and how long they take.

Each way is a command that reads SOURCE, a copy of the model, and writes OUTPUT, or a file into FOLDER; STEM is the
model's name without what is behind its last dash, as a file of another exporter has it. Its processor time and peak
memory are those of its process. What it writes is right where LiteRT's reference kernels give what ONNX Runtime gives
without optimisation, whatever order its inputs and outputs have their dimensions in. Times are those of LiteRT with
XNNPACK on one thread, in turn, by that of layoutsolve's file::

    python -m experiments.compare.tflite_writers FOLDER [--time] [--options "--inputs nhwc"]
        [--with "onnx2tf=onnx2tf -i SOURCE -o FOLDER -n"] [--jsonl ROWS] [--largest MB]

The smallest models come first. With ``--jsonl`` rows are added to a file, and models that it has are not tried again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from experiments.corpus import CorpusModel, arguments, models
from experiments.measure.runtime import mean
from experiments.onnx_shared import FailedError, Sample, apart, samples
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.bench import RUNTIMES, bench
from layoutsolve.verification.litert import LiteRT, Port

OWN = "layoutsolve"
RIGHT = 1e-3
"""The largest error by the range of an output that counts as right, where nothing is quantized."""

DEEPEST = 5
"""How many dimensions are tried in all orders."""


_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(chr(10), used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""
"""Runs a command, and tells its processor time and peak memory in kilobytes: a process of its own, as what is forked
counts the memory of its parent.
"""


@dataclass(frozen=True)
class Row:
    """A model by one way. ``seconds`` of the processor and ``megabytes`` are those of converting; ``plain`` and
    ``delegated`` how far results are by the range of the output, in LiteRT's reference kernels and with XNNPACK;
    ``ratio`` is the time in LiteRT by that of layoutsolve's file, 0 where not measured. ``error`` is why there is no
    more.
    """

    model: str
    way: str
    seconds: float = 0.0
    megabytes: float = 0.0
    operators: int = 0
    transposes: int = 0
    reshapes: int = 0
    plain: float = inf
    delegated: float = inf
    ratio: float = 0.0
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether results are right."""
        return not self.error and self.plain <= RIGHT

    def __str__(self) -> str:
        head = f"{self.model:44} {self.way:12} {self.seconds:7.2f} s {self.megabytes:6.0f} MB"
        if self.error:
            return f"{head}  {self.error[:120]}"
        time = f"{self.ratio:.2f}" if self.ratio else "-"
        counts = f"{self.operators:5} operators {self.transposes:4} T {self.reshapes:4} R"
        return f"{head} {counts}  {'right' if self.right else f'{self.plain:.1e}':8} time {time}"


# -- converting ----------------------------------------------------------------------------------------------------


def written(
    command: str, source: Path, folder: Path, seconds: float, formats: tuple[str, str] = ("onnx", "tflite")
) -> tuple[Path, float, float]:
    """The file that a command writes, of the second of two formats, with its processor time in seconds and its peak
    memory in MB. Raises :class:`FailedError` where it writes none.
    """
    copy, output, into = folder / f"source.{formats[0]}", folder / f"output.{formats[1]}", folder / "into"
    shutil.copyfile(source, copy)
    into.mkdir()
    words = {"SOURCE": str(copy), "OUTPUT": str(output), "FOLDER": str(into), "STEM": source.stem.rpartition("-")[0]}
    pattern = re.compile("|".join(words))
    given = (pattern.sub(lambda found: words[found[0]], each) for each in shlex.split(command))
    started = [sys.executable, "-I", "-c", _MEASURED, *given]
    done = subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
    )
    try:
        text, _ = done.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGKILL)
        done.communicate()
        raise FailedError("slow", f"more than {seconds:g} s") from None
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    *said, figures = lines or ["0 0"]
    files = [output] if output.is_file() else list(into.rglob(f"*.{formats[1]}"))
    found = [path for path in files if "float16" not in path.name]
    if not found:
        raise FailedError("refused" if done.returncode == 2 else "failed", (said or ["no word"])[-1][:200])
    spent, kilobytes = figures.split()
    return min(found, key=lambda path: len(path.name)), float(spent), float(kilobytes) / 1024


# -- running -------------------------------------------------------------------------------------------------------


def fed(ports: Sequence[Port], feeds: Mapping[str, Array], turned: bool = False) -> list[Array]:
    """The inputs by position: those of the same name, or of the same sizes in another order. What fits as it is, and
    ``turned`` to channels-last as well, is that.
    """
    left, found = dict(feeds), []
    for port in ports:
        plain = port.name.removeprefix("serving_default_").partition(":")[0]
        name = next((each for each in left if each == plain), None)
        name = name or next((each for each in left if sorted(left[each].shape) == sorted(port.shape)), None)
        if name is None:
            raise FailedError("failed", f"input '{port.name}' is none of the source's")
        data = left.pop(name)
        found.append(_turned(data, port.signature or port.shape, turned).astype(port.dtype))
    return found


def _turned(data: Array, shape: Sequence[int], turned: bool) -> Array:
    """Data as they are, channels-last, or in the first order that has a shape, of which dynamic sizes are -1."""
    own, last = tuple(range(data.ndim)), (0, *range(2, data.ndim), 1)
    orders = [*((last, own) if turned else (own, last)), *permutations(own)] if 2 < data.ndim <= DEEPEST else [own]
    for order in orders:
        sizes = [data.shape[axis] for axis in order]
        if len(sizes) == len(shape) and all(each in (-1, size) for each, size in zip(shape, sizes, strict=True)):
            return data.transpose(order)
    return data


def distance(truths: Sequence[Array], results: Sequence[Array]) -> float:
    """How far results are from those of the source by the range of each, in whatever order outputs and dimensions."""
    return max((min((_apart(truth, each) for each in results), default=inf) for truth in truths), default=0.0)


def _apart(truth: Array, result: Array) -> float:
    if truth.size != result.size:
        return inf
    orders = permutations(range(truth.ndim)) if truth.ndim <= DEEPEST else [tuple(range(truth.ndim))]
    one = truth.astype(np.float64)
    turned = [one.transpose(order) for order in orders]
    same = [each for each in turned if each.shape == result.shape] or [one.reshape(result.shape)]
    size = float(np.ptp(one)) or max(float(np.abs(one).max(initial=0)), 1e-12) if one.size else 1.0
    return min(float(np.abs(each - result.astype(np.float64)).max(initial=0)) for each in same) / size


# -- one model -----------------------------------------------------------------------------------------------------


def rows(model: CorpusModel, ways: Mapping[str, str], seconds: float, timed: bool) -> list[Row]:
    """A model by all ways."""
    sample = apart(lambda: samples(model.path, {})[0], seconds)
    found, files = [], {}
    with TemporaryDirectory() as scratch:
        for way, command in ways.items():
            folder = Path(scratch) / way
            folder.mkdir()
            try:
                files[way], spent, memory = written(command, model.path, folder, seconds)
            except FailedError as error:
                found.append(Row(model.name, way, error=str(error)))
                continue
            found.append(_judged(model.name, way, files[way], sample, spent, memory))
        runs = {row.way: files[row.way] for row in found if not row.error}
        ratios = _ratios(runs) if timed and OWN in runs else {}
    return [Row(**{**asdict(row), "ratio": ratios.get(row.way, 0.0)}) for row in found]


def _judged(model: str, way: str, path: Path, sample: Sample, spent: float, memory: float) -> Row:
    source, figures = path.read_bytes(), {"seconds": round(spent, 3), "megabytes": round(memory, 1)}
    try:
        operators = [each.name for graph in parse(source).subgraphs for each in graph.operators]
        counts = Counter(operators)
        with LiteRT() as litert:
            ports = litert.describe(source).inputs
            for turned in (False, True):
                inputs = fed(ports, sample.feeds, turned)
                far = [
                    distance(sample.results, litert.run(source, inputs, delegate=delegate).results)
                    for delegate in (False, True)
                ]
                if far[0] <= RIGHT:
                    break
    except (FailedError, ConversionError) as error:
        return Row(model, way, error=f"does not run: {error}", **figures)
    return Row(model, way, **figures, operators=len(operators), transposes=counts["TRANSPOSE"],
               reshapes=counts["RESHAPE"], plain=far[0], delegated=far[1])  # fmt: skip


def _ratios(files: Mapping[str, Path]) -> dict[str, float]:
    """The time of each file in LiteRT with XNNPACK by that of layoutsolve's."""
    order = [OWN, *(way for way in files if way != OWN)]
    measured = bench([str(files[way]) for way in order], plain=False).rows
    times = {row.file: row.ratio for row in measured if row.runtime == RUNTIMES[1]}
    return {way: times.get(str(files[way]), 0.0) for way in order}


# -- all models ----------------------------------------------------------------------------------------------------


def summary(found: Sequence[Row]) -> Iterator[str]:
    """What each way comes to, and where another one is better than layoutsolve."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in found:
        by_model.setdefault(row.model, {})[row.way] = row
    for way in dict.fromkeys(row.way for row in found):
        each = [rows[way] for rows in by_model.values() if way in rows]
        both = [(rows[way], rows[OWN]) for rows in by_model.values() if _are_right(rows, way)]
        times = [row.ratio for row, _ in both if row.ratio]
        sums = ", ".join(
            f"{name} {sum(getattr(row, name) for row, _ in both)} ({sum(getattr(own, name) for _, own in both)})"
            for name in ("transposes", "reshapes", "operators")
        )
        spent = [row.seconds / own.seconds for row, own in both if own.seconds]
        yield (
            f"{way}: {sum(row.right for row in each)} of {len(each)} right, {sum(bool(row.error) for row in each)} not "
            f"written or not run; on {len(both)} that both have right (layoutsolve): {sums}; processor time "
            f"{mean(spent) if spent else 0:.2f} of layoutsolve's; time in LiteRT {mean(times) if times else 0:.3f}"
        )
    for name, each in by_model.items():
        own = each.get(OWN)
        for row in each.values():
            if own is not None and row.right and own.right and row.transposes < own.transposes:
                yield f"* {name}: {own.transposes} TRANSPOSE, {row.way} {row.transposes}"
            if own is not None and row.right and own.right and 0 < row.ratio < 1 / 1.05:
                yield f"* {name}: {1 / row.ratio:.2f} of the time of {row.way}"
        if own is not None and not own.right:
            yield f"* {name}: {own.error or f'{own.plain:.1e} of the range'}"


def table(found: Sequence[Row], way: str) -> Iterator[str]:
    """Another way beside layoutsolve as a table in Markdown."""
    own, other = ({row.model: row for row in found if row.way == each} for each in (OWN, way))
    both = [(own[model], row) for model, row in other.items() if model in own and row.right and own[model].right]
    times = [row.ratio for _, row in both if row.ratio]
    spent = [row.seconds / mine.seconds for mine, row in both if mine.seconds]
    yield f"| of {len(other)} models | {OWN} | {way} |"
    yield "|---|--:|--:|"
    yield f"| right | {sum(own[model].right for model in other)} | {sum(row.right for row in other.values())} |"
    for name in ("transposes", "reshapes", "operators"):
        sums = [sum(getattr(pair[place], name) for pair in both) for place in range(2)]
        yield f"| {name}, of {len(both)} that both have right | {sums[0]:,} | {sums[1]:,} |"
    yield f"| processor time of converting, mean of ratios | 1 | {mean(spent):.1f} |"
    yield f"| time in LiteRT with XNNPACK, mean of ratios ({len(times)}) | 1 | {mean(times):.2f} |"


def _are_right(rows: Mapping[str, Row], way: str) -> bool:
    return way in rows and OWN in rows and rows[way].right and rows[OWN].right


def _size(model: CorpusModel) -> int:
    return model.path.stat().st_size


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--options", default="", metavar="WORDS", help="of layoutsolve's own command")
    parser.add_argument("--time", action="store_true", help="time all files in turn")
    parser.add_argument("--seconds", type=float, default=300.0, help="that each command may take (default: 300)")
    parser.add_argument("--largest", type=float, default=inf, metavar="MB", help="leave out larger files")
    parser.add_argument("--jsonl", type=Path, metavar="ROWS", help="add rows to a file, and go on where it ends")
    options = parser.parse_args(given)
    ways = {OWN: f"{shlex.quote(sys.executable)} -I -m layoutsolve SOURCE -o OUTPUT {options.options}"}
    ways |= {name: command for name, _, command in (each.partition("=") for each in options.others)}
    kept = options.jsonl.read_text().splitlines() if options.jsonl and options.jsonl.exists() else []
    found = [Row(**json.loads(line)) for line in kept]
    known = {row.model for row in found}
    for model in sorted(models(options.folder, options.only, ".onnx"), key=_size):
        if model.name in known or _size(model) > options.largest * 1e6:
            continue
        try:
            some = rows(model, ways, options.seconds, options.time)
        except FailedError as error:
            print(f"{model.name}: ONNX Runtime does not run it: {error}")
            continue
        print(*some, sep="\n", flush=True)
        found += some
        if options.jsonl:
            with options.jsonl.open("a") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in some)
    print("", *summary(found), sep="\n")
    for way in dict.fromkeys(row.way for row in found if row.way != OWN):
        print("", *table(found, way), sep="\n")


if __name__ == "__main__":
    main()
