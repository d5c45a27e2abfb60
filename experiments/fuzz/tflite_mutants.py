"""Mutants of the models in a folder, converted in processes with limits, and compared with LiteRT where they convert.

A mutant has to become a right model or one clear error. Whatever else happens is a finding: another exception, a
process that dies, time or memory beyond the limits, a file that is too large or that ONNX Runtime refuses, results that
LiteRT does not give. Mutants are numbered: the same number, folder and version give the same mutant again
(``--first N --mutants 1 --keep FOLDER`` writes it down).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import ortools.linear_solver.pywraplp
import ortools.sat.python.cp_model  # noqa: F401  (a process has it before its memory is limited)

import layoutsolve
from experiments.fuzz.compare import FLOAT_TOLERANCE, NOISE, Verdict, compare, described, line, traced
from experiments.fuzz.expected_failures import cause_of, facts
from experiments.fuzz.mutation import mutant
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.tflite.reading.model import port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.metrics import distance, kind, passes
from layoutsolve.verification.runtimes import OnnxRuntime

SECONDS = 30.0
"""Processor time that a mutant may take to convert: what a search may do in all takes 20 s on a slow machine."""

WALL, WAITS = 60.0, 0.5
"""Seconds after which a mutant is looked at, and processor time by then with which it counts as hanging on what it
waits for: on a machine that others use as well it may just not have had its turn.
"""

MEMORY, MEMORY_PER_BYTE = 300 << 20, 20
OUTPUT, OUTPUT_PER_BYTE = 16 << 20, 4
"""Bytes that a conversion may take, and write, beside so many for each byte of the model."""

ROOM = 2 << 30
"""The address space that a conversion may take, which ends what asks for far more at once; much of it is never used."""

LITERT_MEMORY = 2 << 30
"""Bytes that LiteRT may take to run a mutant."""

BATCH = 50
"""Mutants that share a process."""

LARGEST = 300_000
"""Bytes of the largest model that is mutated."""

FAILURES = ("traceback", "died", "hangs", "memory", "output", "unusable", "differs")
"""What must not happen. The rest is fine: 'refused', 'agrees', 'not comparable', 'LiteRT refuses', 'LiteRT dies', and
'differs unmutated', where the model differed before.
"""


@dataclass
class Record:
    """What became of a mutant."""

    number: int
    model: str
    mutations: tuple[str, ...] = ()
    verdict: str = "died"
    detail: str = ""
    stage: str = "mutate"
    facts: tuple[str, ...] = ()
    cause: str = ""


@dataclass
class Findings:
    """The verdicts counted, and the records of failures; those with a known cause are apart."""

    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[Record] = field(default_factory=list)
    explained: list[Record] = field(default_factory=list)

    @property
    def causes(self) -> Counter[str]:
        """How many failures each known cause explains."""
        return Counter(record.cause for record in self.explained)

    def add(self, record: Record) -> None:
        """Count a record; a failure with a known cause is counted by that."""
        failed = record.verdict in FAILURES
        record.cause = cause_of(record.verdict, record.detail, record.facts) if failed else ""
        self.verdicts[f"{record.verdict}, known" if record.cause else record.verdict] += 1
        if record.cause:
            self.explained.append(record)
        elif failed:
            self.failures.append(record)


# -- one mutant ----------------------------------------------------------------------------------------------------


def examine(
    source: bytes, original: bytes, record: Record, note: Callable[[str], None], to: Literal["onnx", "tflite"] = "onnx"
) -> None:
    """Convert a mutant and run it; what became of it is entered into ``record``. ``note`` is told each stage."""
    note("convert")
    conversion = _converted(source, record, to)
    if conversion is None:
        return
    written = len(conversion.model) if to == "tflite" else conversion.model.ByteSize()
    if written > OUTPUT + OUTPUT_PER_BYTE * len(source):
        record.verdict, record.detail = "output", f"{written} bytes from {len(source)}"
        return
    record.facts = facts(source)
    if to == "tflite":
        record.verdict, record.detail = _written_again(source, conversion, note)
        return
    note("load")
    try:
        runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
    except ConversionError as error:
        record.verdict, record.detail = "unusable", line(error)
        return
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + LITERT_MEMORY, resource.RLIM_INFINITY))
    try:
        found = compare(source, conversion, runtime, note)
        if found.verdict == "differs" and _differs(original, note):
            found = Verdict("differs unmutated", found.detail)
    except MemoryError:
        found = Verdict("not comparable", "its results are too large")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    record.verdict, record.detail = found.verdict, found.detail
    if found.verdict not in FAILURES:
        record.facts = ()


def _written_again(source: bytes, conversion: layoutsolve.Conversion, note: Callable[[str], None]) -> tuple[str, str]:
    """What LiteRT makes of a mutant and of what was written of it to TensorFlow Lite: a verdict and its details."""
    made, ends = conversion.content(""), parse(source).subgraphs[0].inputs
    if made == source:
        return "kept", ""
    if len(set(ends)) < len(ends):
        return "not comparable", "a tensor is an input twice"
    note("litert")
    draw = np.random.default_rng(0)
    try:
        drawn = [smooth(port.dtype, port.shape, draw) for port in described(source).inputs]
        expected = described(source, drawn)
    except Exception as error:  # LiteRT has no class of its own
        return "LiteRT refuses", line(error)
    note("load")
    moved = conversion.permutations(inputs=True)
    names = port_names(parse(made), inputs=True)
    stored = [each.transpose(moved[name]) if name in moved else each for name, each in zip(names, drawn, strict=True)]
    try:
        found = described(made, stored)
    except Exception as error:  # as above
        return "unusable", line(error)
    for port, one, other in zip(expected.outputs, expected.results, found.results, strict=True):
        off = distance(port, [(one, other)])
        if one.dtype != other.dtype or not (passes(kind(port), off, FLOAT_TOLERANCE) or off.maximum <= NOISE):
            return "differs", f"{port.name}: {off}"
    return "agrees", ""


def _differs(original: bytes, note: Callable[[str], None]) -> bool:
    """Whether the results of the model that was mutated differ as well, as those of real quantized ones may."""
    try:
        conversion = layoutsolve.convert(original)
        runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
    except ConversionError:
        return False
    return compare(original, conversion, runtime, note).verdict == "differs"


def _converted(source: bytes, record: Record, to: Literal["onnx", "tflite"]) -> layoutsolve.Conversion | None:
    """The conversion, with limits on memory and time; None where the verdict is entered already."""
    limit, before = _address_space() + ROOM, _resident(most=False)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        conversion = layoutsolve.convert(source, to=to)
        grown = _resident(most=True) - before
        if grown <= MEMORY + MEMORY_PER_BYTE * len(source):
            return conversion
        record.verdict, record.detail = "memory", f"{grown >> 20} MB more for {len(source)} bytes"
    except MemoryError as error:
        record.verdict, record.detail = "memory", traced(error)
    except ConversionError as error:
        internal = type(error).__name__ == "InternalError"
        record.verdict, record.detail = ("traceback" if internal else "refused"), line(error)
        if isinstance(error.__cause__, MemoryError):
            record.verdict = "memory"
        elif internal and error.__cause__ is not None:
            record.detail = traced(error.__cause__)
    except Exception as error:  # what is looked for
        record.verdict, record.detail = "traceback", traced(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return None


def _resident(most: bool) -> int:
    """Bytes of memory that this process has, or the most that it had since it was asked last."""
    if not most:
        Path("/proc/self/clear_refs").write_text("5")  # what it had at most begins anew
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(facts["VmHWM"].split()[0]) << 10


def _address_space() -> int:
    """Bytes of this process' address space."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


# -- many ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Which mutants are tried: those of ``models`` numbered from ``first`` up to ``last``, until ``deadline``, written
    ``to`` a format.
    """

    models: Sequence[tuple[str, Path]]
    first: int
    last: int
    deadline: float
    to: Literal["onnx", "tflite"] = "onnx"

    def made(self, number: int) -> tuple[str, bytes, tuple[str, ...]]:
        """A mutant: the name of its model, its bytes and its mutations."""
        name, path = self.models[number % len(self.models)]
        found = mutant(path.read_bytes(), number)
        return name, found.source, found.mutations


def serve(plan: Plan, numbers: Sequence[int], pipe: BinaryIO) -> None:
    """Examine mutants one after the other, telling about each on a pipe: a line per stage, and a record at its end."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    for number in numbers:
        if time.monotonic() > plan.deadline:
            break
        record = Record(number, plan.models[number % len(plan.models)][0])

        def note(stage: str, record: Record = record) -> None:
            record.stage = stage
            _send(pipe, record)

        note("mutate")
        record.model, source, record.mutations = plan.made(number)
        examine(source, plan.models[number % len(plan.models)][1].read_bytes(), record, note, plan.to)
        record.stage = "done"
        _send(pipe, record)


def _send(pipe: BinaryIO, record: Record) -> None:
    pipe.write(json.dumps(asdict(record)).encode() + b"\n")
    pipe.flush()


class Child:
    """A process that examines a batch of mutants. When one ends it, the rest is left for another."""

    def __init__(self, plan: Plan, numbers: Sequence[int]) -> None:
        self.left = list(numbers)
        self.current: Record | None = None
        self.since, self.used = time.monotonic(), 0.0
        self.unread = b""
        source, target = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(source)
            with os.fdopen(target, "wb") as pipe, suppress(BrokenPipeError):
                serve(plan, numbers, pipe)
            os._exit(0)
        os.close(target)
        self.pipe = source

    def read(self) -> Iterator[Record]:
        """The records of mutants that are done, as far as they have arrived. Raises EOFError at the end."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for text in lines:
            stated = json.loads(text)
            record = Record(**{**stated, "mutations": tuple(stated["mutations"]), "facts": tuple(stated["facts"])})
            self.current, self.since, self.used = record, time.monotonic(), self._taken()
            if record.stage == "done":
                self.left.remove(record.number)
                self.current = None
                yield record
        if not data:
            raise EOFError

    def _taken(self) -> float:
        """The processor time that the process has taken."""
        facts = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, facts[11:13])) / os.sysconf("SC_CLK_TCK")

    def end_if_it_hangs(self) -> None:
        """End the process where its mutant has had its time, or waits for something."""
        if time.monotonic() - self.since > WALL:
            taken = self._taken() - self.used
            if WAITS < taken < SECONDS:
                self.since += WALL
            else:
                os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> Record | None:
        """Reap the process; the record of the mutant that ended it, if one did."""
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        record = self.current
        if record is None:
            return None
        self.left.remove(record.number)
        name = signal.Signals(status & 127).name if status & 127 else f"exit {status >> 8}"
        slow = status & 127 in (signal.SIGPROF, signal.SIGKILL)
        record.detail = f"{name} in {record.stage}"
        record.verdict = "hangs" if slow else "died"
        if record.stage == "litert":
            record.verdict = "LiteRT dies"
        elif slow and record.stage == "run":  # a loop of many turns: its results are what could be wrong
            record.verdict = "not comparable"
        return record


def run(plan: Plan, jobs: int) -> Iterator[Record]:
    """Examine mutants in ``jobs`` processes at a time."""
    batches = iter(range(plan.first, plan.last, BATCH))
    waiting: list[list[int]] = []
    children: dict[int, Child] = {}
    selector = selectors.DefaultSelector()

    def start() -> bool:
        numbers = waiting.pop() if waiting else None
        if numbers is None:
            begin = next(batches, None)
            if begin is None or time.monotonic() > plan.deadline:
                return False
            numbers = list(range(begin, min(begin + BATCH, plan.last)))
        child = Child(plan, numbers)
        children[child.pipe] = child
        selector.register(child.pipe, selectors.EVENT_READ)
        return True

    while len(children) < jobs and start():
        pass
    while children:
        for key, _ in selector.select(timeout=1.0):
            child = children[key.fd]
            try:
                yield from child.read()
            except EOFError:
                selector.unregister(child.pipe)
                del children[child.pipe]
                record = child.ended()
                if record is not None:
                    yield record
                    if child.left:
                        waiting.append(child.left)
                start()
        for child in children.values():
            child.end_if_it_hangs()


def models_below(folders: Sequence[Path], largest: int) -> list[tuple[str, Path]]:
    """The models below some folders that are not too large, in the order of their names."""
    return [
        (path.relative_to(folder).as_posix(), path)
        for folder in folders
        for path in sorted(folder.rglob("*.tflite"))
        if path.stat().st_size <= largest
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 1 where there are fatal failures without a known cause."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders", type=Path, nargs="+", help="folders with .tflite files (experiments.make.zoo writes one)"
    )
    parser.add_argument("--mutants", type=int, default=1_000_000_000, metavar="N", help="how many (default: no limit)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first one (default: 0)")
    parser.add_argument("--seconds", type=float, default=180.0, metavar="S", help="for how long (default: 180)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: all cores)"
    )
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="BYTES", help="leave larger models out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the mutants that fail to FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write verdicts and failures to FILE")
    parser.add_argument("--to", choices=("onnx", "tflite"), default="onnx", help="what is written (default: onnx)")
    parser.add_argument(
        "--fatal",
        nargs="+",
        choices=FAILURES,
        default=FAILURES,
        metavar="VERDICT",
        help=f"the failures without a known cause that make the exit code 1 (default: {', '.join(FAILURES)})",
    )
    options = parser.parse_args(arguments)
    found = models_below(options.folders, options.largest)
    if not found:
        parser.error("there are no .tflite files in these folders")
    deadline = time.monotonic() + options.seconds
    plan = Plan(found, options.first, options.first + options.mutants, deadline, options.to)
    findings = Findings()
    for count, record in enumerate(run(plan, options.jobs), 1):
        findings.add(record)
        if record.verdict in FAILURES and not record.cause:
            print(_told(record), flush=True)
            if options.keep:
                _keep(options.keep, plan, record)
        if count % 1000 == 0:
            print(f"{count} mutants: {_counted(findings.verdicts)}", file=sys.stderr, flush=True)
    print(f"{findings.verdicts.total()} mutants of {len(found)} models: {_counted(findings.verdicts)}")
    for cause, count in findings.causes.most_common():
        print(f"  {count} with a known cause: {cause}")
    if options.json:
        told: dict[str, Any] = {"verdicts": findings.verdicts, "causes": findings.causes}
        for kind in ("failures", "explained"):
            told[kind] = [asdict(each) for each in getattr(findings, kind)]
        options.json.write_text(json.dumps(told, indent=1))
    return int(any(record.verdict in options.fatal for record in findings.failures))


def _counted(verdicts: Counter[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _told(record: Record) -> str:
    changed = "+".join(record.mutations)
    return f"{record.verdict}: mutant {record.number} of {record.model} ({changed}): {record.detail}"


def _keep(folder: Path, plan: Plan, record: Record) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record.verdict}-{record.number}.tflite").write_bytes(plan.made(record.number)[1])


def _without_caches() -> None:
    """Start again with an allocator that keeps no small blocks aside: it fills all that it hands out."""
    if "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"
        os.execv(sys.executable, [sys.executable, "-m", "experiments.fuzz.tflite_mutants", *sys.argv[1:]])


if __name__ == "__main__":
    _without_caches()
    sys.exit(main())
