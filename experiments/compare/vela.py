"""Arm's compiler for Ethos-U, vela, on quantized TensorFlow Lite models and on what layoutsolve writes of them: how
many operators it leaves on the CPU, and how long it estimates a run to take.

Each model goes through TensorFlow Lite directly, and by way of ONNX. The compiler is a program of its own
(``pip install ethos-u-vela``)::

    python -m experiments.compare.vela FOLDER [--only TEXT] [--vela PROGRAM] [--accelerator ethos-u55-256]
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import layoutsolve
from experiments.corpus import arguments, models
from experiments.measure.runtime import mean
from layoutsolve.errors import ConversionError

SOURCE = "source"
_LEFT = re.compile(r"^CPU operators = (\d+)", re.MULTILINE)
_TAKEN = re.compile(r"^NPU operators = (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """What vela makes of a file: operators on the CPU and on the accelerator, and milliseconds; or an ``error``."""

    left: int = 0
    taken: int = 0
    milliseconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        return self.error[:60] or f"{self.left:3} on the CPU, {self.taken:4} not, {self.milliseconds:8.3f} ms"


def main(said: Sequence[str] | None = None) -> int:
    """Compile, and print a line for each model and way."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--vela", default="vela", metavar="PROGRAM", help="the compiler")
    parser.add_argument("--accelerator", default="ethos-u55-256", help="what it compiles for")
    options = parser.parse_args(said)
    worse, times = list[str](), dict[str, list[float]]()
    for model in models(options.folder, options.only):
        rows = dict(compared(model.source, [options.vela, "--accelerator-config", options.accelerator]))
        for way, row in rows.items():
            print(f"{model.name:48} {way:8} {row}", flush=True)
        source = rows[SOURCE]
        for way, row in rows.items():
            if way != SOURCE and not row.error and not source.error:
                if source.milliseconds:  # 0 where it estimates nothing that it leaves on the CPU
                    times.setdefault(way, []).append(row.milliseconds / source.milliseconds)
                worse += [f"{model.name} by {way}"] if row.left > source.left else []
    for way, ratios in times.items():
        print(f"{way}: {len(ratios)} models, {mean(ratios):.2f} of the time ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"more operators on the CPU than of the source: {', '.join(worse) or 'none'}")
    return int(bool(worse))


def compared(source: bytes, command: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """By way what vela makes of a source, and of what is written of it."""
    ways: Mapping[str, Callable[[], bytes]] = {SOURCE: lambda: source, "tflite": lambda: _again(source)}
    for way, make in {**ways, "onnx": lambda: _by_onnx(source)}.items():
        try:
            yield way, compiled(make(), command)
        except ConversionError as error:
            yield way, Row(error=f"refused: {str(error).splitlines()[-1].strip()}")


def _again(source: bytes) -> bytes:
    return layoutsolve.convert(source, to="tflite").content("")


def _by_onnx(source: bytes) -> bytes:
    return _again(layoutsolve.convert(source, target="portable").model.SerializeToString())


def compiled(model: bytes, command: Sequence[str]) -> Row:
    """What vela says of a model."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.tflite")
        path.write_bytes(model)
        done = subprocess.run(
            [*command, "--output-dir", folder, str(path)], capture_output=True, text=True, check=False
        )
        tables = sorted(Path(folder).glob("*_summary_*.csv"))
        left, taken = _LEFT.search(done.stdout), _TAKEN.search(done.stdout)
        if done.returncode or left is None or taken is None or not tables:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            return Row(error=f"not compiled: {lines[-1]}")
        with tables[0].open() as file:
            (row,) = csv.DictReader(file)
        return Row(int(left[1]), int(taken[1]), float(row["inference_time"]) * 1e3)


if __name__ == "__main__":
    raise SystemExit(main())
