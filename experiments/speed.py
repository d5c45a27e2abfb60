"""How fast converted models run, beside the runtime that they come from: each file in turn.

Of each model: milliseconds in ONNX Runtime as converted by default, then the time by that of LiteRT with XNNPACK and
with plain kernels, of other targets, and of other converters' files, which ``--with NAME=FOLDER`` names: a file there
has the model's name and ends in ``.onnx``. The means are the other way round: below 1 what is converted by default is
faster.

    python -m experiments.speed FOLDER [--only int8] [--target ort-x86-vnni] [--with tf2onnx=THEIRS]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.bench import Measured, bench
from layoutsolve.solver.statement.target_file import DEFAULT_TARGET

LEAST = 0.1
"""Milliseconds in LiteRT from which on a model counts in the means: below, runtimes spend their time on themselves."""

XNNPACK = "LiteRT, XNNPACK"


@dataclass(frozen=True)
class Speed:
    """One model: milliseconds of what is converted by default, and the time of every other by that. ``quantised`` is
    whether it has kernels on bytes, ``unsure`` the largest spread of a ratio.
    """

    model: str
    milliseconds: float
    ratios: Mapping[str, float]
    quantised: bool
    unsure: float


def measure(model: CorpusModel, targets: Sequence[str], others: Mapping[str, Path], threads: int) -> Speed:
    """Convert a model and time all its files.

    Raises ConversionError where it cannot be converted, VerifyError where a file does not run.
    """
    with TemporaryDirectory() as folder:
        files: dict[str, str] = {}
        source = Path(folder) / "source.tflite"
        source.write_bytes(model.source)
        for number, target in enumerate(targets):
            files[target] = str(Path(folder) / f"{number}.onnx")
            layoutsolve.convert(str(source), target=target).save(files[target])
        for name, place in others.items():
            theirs = place / f"{model.name}.onnx"
            if theirs.is_file():
                files[name] = str(theirs)
        entries = bench([*files.values(), str(source)], threads=threads).rows
    names = {path: name for name, path in files.items()}
    ratios = {names.get(each.file, each.runtime): each.ratio for each in entries[1:]}
    return Speed(
        model.name, entries[0].milliseconds, ratios, _quantised(entries[0]), max(each.spread for each in entries)
    )


def _quantised(entry: Measured) -> bool:
    return entry.executed is not None and entry.executed.integer > 0


def means(found: Sequence[Speed], title: str, chosen: Sequence[Speed]) -> str:
    """The geometric means of what is converted by the others' time, over models that take long enough."""
    names = sorted({name for each in found for name in each.ratios})
    cells = []
    for name in names:
        ratios = [
            1 / each.ratios[name]
            for each in chosen
            if name in each.ratios and each.milliseconds * each.ratios.get(XNNPACK, 1.0) >= LEAST
        ]
        cells.append(f"by {name} {mean(ratios):.2f} ({len(ratios)}, at most {max(ratios, default=1):.2f})")
    return f"{title}: {', '.join(cells)}"


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--target", action="append", metavar="NAME|FILE.json", help="another target, too")
    parser.add_argument("--with", dest="others", action="append", metavar="NAME=FOLDER", help="others' ONNX files")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the runtimes (default: 1)")
    options = parser.parse_args(given)
    others = {name: Path(folder) for name, _, folder in (each.partition("=") for each in options.others or ())}
    targets = [DEFAULT_TARGET, *(options.target or ())]
    found: list[Speed] = []
    failed: list[str] = []
    for model in models(options.folder, options.only):
        try:
            found.append(measure(model, targets, others, options.threads))
        except (layoutsolve.ConversionError, VerifyError) as error:
            failed.append(f"* {model.name}: {str(error).splitlines()[-1].strip()}")
            continue
        speed = found[-1]
        ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in speed.ratios.items())
        print(f"* {speed.model}: {speed.milliseconds:.3f} ms; {ratios}; +-{speed.unsure:.0%}", flush=True)
    print("", *failed, "", sep="\n")
    for title, chosen in (
        ("real numbers", [each for each in found if not each.quantised]),
        ("bytes", [each for each in found if each.quantised]),
    ):
        print(means(found, f"{len(chosen)} models of {title}", chosen))
    write_json(options.json, [vars(each) for each in found])


if __name__ == "__main__":
    main()
