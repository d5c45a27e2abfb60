"""Whether models compute the same on other processors: those of x86 that qemu emulates, with and without VNNI.

Quantized models are converted, and run on this processor and on emulated ones, or here in another runtime. What differs
there, on any of a few inputs, by more than two levels of optimising do on this one, on any of more inputs, is listed
with the difference by the range of the output. Files that other converters have made of the same models, NAME.onnx in a
folder or below it, are judged by their own results on this processor. Of what differs is counted what does by more
than 2 % of the range beyond that: the rest is rounding, of which another runtime has its own. ``--json`` adds to what a
file has of other runs, of which a table is printed: that of the documentation is of ``processors.json`` beside this
file.

Needs qemu-x86_64 (Debian's qemu-user).

    python -m experiments.compare.processors FOLDER [--only int8] [--processors Haswell EPYC]
        [--target ort-cpu signed.json] [--quant qdq qoperator] [--json experiments/compare/processors.json]
    python -m experiments.compare.processors FOLDER --processors --also openvino=PYTHON opencv=PYTHON
        [--target portable]
    python -m experiments.compare.processors FOLDER --only none --with tf2onnx=THEIRS
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import layoutsolve
from experiments.corpus import arguments, models, write_json
from layoutsolve.errors import VerifyError

EMULATOR = "qemu-x86_64"

PROCESSORS = ("SandyBridge", "Haswell", "EPYC", "Skylake-Server", "EPYC-Milan", "Icelake-Server")
"""Without AVX2, with it, and with AVX-512, of which the last one alone has VNNI; qemu 7.2 emulates neither."""

HERE = "this processor"
"""Beside those that are emulated: there nothing differs, but a file may not run at all."""

SLACK = 1e-4
"""What sums of floats in another order may differ by, as a share of the range of an output."""

FAR = 0.02
"""A share of the range beyond which a result is not called rounding."""

LEVELS = ("all", "extended", "basic", "none")
"""How far ONNX Runtime optimises; what is emulated runs at the first."""

INPUTS, MORE = 3, 10
"""How many inputs a model gets, and how many on this processor at each level: what rounding makes of deep networks is
chance, and few inputs do not show how large it may be.
"""

_RUNNER = Path(__file__).with_name("emulated.py")


def emulated(processor: str) -> Sequence[str]:
    """The command that runs this Python on a processor that qemu emulates.

    Raises :class:`VerifyError` where the emulator is missing.
    """
    emulator = shutil.which(EMULATOR)
    if emulator is None:
        raise VerifyError(f"{EMULATOR} is missing; install qemu-user")
    return emulator, "-cpu", processor, sys.executable, "-I"


def results(
    folder: Path,
    level: str = "all",
    python: Sequence[str] = (sys.executable, "-I"),
    seconds: float = 3600.0,
    inputs: int = 1,
) -> dict[str, list[object]]:
    """What the models in a folder give in the ONNX Runtime of a Python, for some inputs in turn, by the models'
    names.
    """
    with TemporaryDirectory() as target:
        command = [*python, str(_RUNNER), str(folder), target, level, str(inputs)]
        for _ in folder.iterdir():  # until no model ends the process any more
            if subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=seconds).returncode >= 0:
                break
        return {path.stem: _loaded(path) for path in sorted(Path(target).glob("*.npz"))}


def _loaded(path: Path) -> list[object]:
    with np.load(path) as found:
        return [found[name] for name in found.files]


@dataclass(frozen=True)
class Apart:
    """How far a result is off, and what the levels of optimising differ by, as shares of the range."""

    distance: float
    limit: float

    @property
    def far(self) -> bool:
        """Whether that is more than other rounding."""
        return self.distance > self.limit + FAR


def distance(one: Sequence[object], other: Sequence[object]) -> float:
    """The largest difference of two runs' outputs, as a share of the range that the first one has."""
    most = 0.0
    for left, right in zip(one, other, strict=True):
        a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        both = np.isfinite(a)
        if both.any():
            span = float(np.ptp(a[both])) or float(np.abs(a[both]).max()) or 1.0
            most = max(most, float(np.abs(a - b)[both].max()) / span)
    return most


def _apart(results: Sequence[Sequence[object]]) -> float:
    """The largest difference of any two of some results."""
    return max((distance(*pair) for pair in combinations(results, 2)), default=0.0)


def differences(
    folder: Path, processors: Sequence[str], others: Sequence[str] = ()
) -> Mapping[str, Mapping[str, Apart]]:
    """By processor and model what is off beyond what two levels of optimising differ by on this processor; infinitely
    where a model that runs here does not run there, or does not run here. Also of ``others``, runtimes on this
    processor with the path of a Python that has them: ``openvino=PYTHON``.
    """
    levels = [results(folder, level, inputs=MORE) for level in LEVELS]
    here = levels[0]
    limits = {name: SLACK + _apart([level[name] for level in levels if name in level]) for name in here}
    runs = {processor: partial(results, folder, "all", emulated(processor)) for processor in processors}
    for name, _, python in (each.partition("=") for each in others):
        runs[name] = partial(results, folder, name, (python, "-I"))
    lost = {path.stem for path in folder.glob("*.onnx")} - here.keys()
    found = {HERE: dict.fromkeys(lost, Apart(float("inf"), SLACK))}
    for processor, run in runs.items():
        there = run(inputs=INPUTS)
        apart = {name: distance(here[name][: len(own)], own) for name, own in there.items() if name in here}
        apart |= dict.fromkeys(here.keys() - there.keys(), float("inf"))
        found[processor] = {name: Apart(value, limits[name]) for name, value in apart.items() if value > limits[name]}
    return found


def _tell(title: str, differing: Mapping[str, Apart], count: int) -> None:
    far = sum(each.far for each in differing.values())
    print(f"* {title}: {len(differing)} of {count} differ, {far} by more than {FAR:.0%} of the range beyond levels")
    for name, each in sorted(differing.items()):
        print(f"  {name}: {each.distance:.2%} of the range, levels {each.limit:.2%}", flush=True)


def table(told: Mapping[str, Mapping[str, Any]]) -> str:
    """Of each run how many models differ on each processor, and how many of these by more than :data:`FAR`."""
    head = ["files", "models", *PROCESSORS]
    rows = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    for name, run in told.items():
        found = [run["differ"].get(processor) for processor in PROCESSORS]
        cells = ("-" if each is None else _cell([Apart(**one) for one in each.values()]) for each in found)
        rows.append(f"| {name} | {run['models']} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(differing: Sequence[Apart]) -> str:
    return f"{len(differing)} ({sum(each.far for each in differing)})" if differing else "0"


def _converted(options: Namespace, target: str, quant: str, folder: Path) -> None:
    """Write the models as a target and a format have them, NAME.onnx."""
    for model in models(options.folder, options.only):
        try:
            found = layoutsolve.convert(model.source, target=target, quant=quant, dynamic=options.dynamic)
        except layoutsolve.ConversionError as error:
            print(f"{model.name}: {error}")
            continue
        found.save(folder / f"{model.name.replace('/', '__')}.onnx")


def _folders(options: Namespace, root: Path) -> Iterator[tuple[str, Path, bool]]:
    """Folders of files by the names of their runs, and whether others have made them."""
    named = [peer.split("=", 1) for peer in options.peers]
    for number, (name, theirs) in enumerate(named):
        (folder := root / f"peer-{number}").mkdir()
        for path in Path(theirs).rglob("*.onnx"):
            (folder / path.relative_to(theirs).as_posix().replace("/", "__")).symlink_to(path.resolve())
        yield name, folder, True
    for target, quant in product(options.target, options.quant):
        (folder := root / f"{Path(target).stem}-{quant}").mkdir()
        _converted(options, target, quant, folder)
        if any(folder.iterdir()):
            yield f"{options.folder.name}, {target}, {quant}", folder, False


def main(given: Sequence[str] | None = None) -> None:
    """The command line; the exit code is 1 where a converted model differs, or does not run."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--processors", nargs="*", default=PROCESSORS, metavar="NAME")
    parser.add_argument("--target", nargs="+", default=["ort-cpu"], metavar="NAME")
    parser.add_argument("--quant", nargs="+", default=["qdq"], metavar="NAME", help="as of the command line")
    parser.add_argument("--with", dest="peers", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--dynamic", choices=("float", "integer"), default="float", help="as of the command line")
    parser.add_argument(
        "--also", nargs="+", default=[], metavar="RUNTIME=PYTHON", help="openvino or opencv, which this Python has"
    )
    options = parser.parse_args(given)
    told: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    wrong = False
    with TemporaryDirectory() as root:
        for name, folder, others in _folders(options, Path(root)):
            apart = differences(folder, options.processors, options.also)
            count = len(list(folder.glob("*.onnx")))
            print(f"{name}: {count} models", flush=True)
            for processor, differing in apart.items():
                _tell(f"{name} on {processor}", differing, count)
            wrong |= not others and any(apart.values())
            differ = {
                processor: {each: asdict(one) for each, one in found.items()} for processor, found in apart.items()
            }
            before = told.get(name, {"models": 0, "differ": {}})["differ"]
            told[name] = {"models": count - len(apart[HERE]), "differ": {**before, **differ}}
            write_json(options.json, told)
    print(table(told))
    sys.exit(wrong)


if __name__ == "__main__":
    main()
