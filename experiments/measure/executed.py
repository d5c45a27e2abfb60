"""What ONNX Runtime executes of converted models, beside what their files say: Transposes, reorders, integer kernels.

Of each model, as converted for a target: the Transposes of the file, then of the graph that ONNX Runtime's optimiser
leaves its Transposes, the reorders into blocks of channels and back, the kernels on integers, and the operators that
compute in float between quantized ones, by kind. ``--with NAME=FOLDER`` counts other converters' files as well: a file
there has the model's name and ends in ``.onnx``.

    python -m experiments.measure.executed FOLDER [--only int8] [--target ort-arm] [--level all] [--with tf2onnx=THEIRS]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

import layoutsolve
from experiments.corpus import CorpusModel, add_ways, arguments, files_of, folders, models, write_json
from layoutsolve.measurement.executed_operators import Executed, executed
from layoutsolve.solver.targets.target_file import DEFAULT_TARGET
from layoutsolve.verification.runtimes import LEVELS, optimised


@dataclass(frozen=True)
class Counted:
    """One file of a model: whose it is, what it says, and what is executed of it."""

    model: str
    way: str
    file: Executed
    run: Executed


def counted(model: CorpusModel, way: str, path: Path, level: str) -> Counted:
    """Count one file; what ONNX Runtime raises where it refuses it is not caught."""
    return Counted(model.name, way, executed(onnx.load(path)), executed(optimised(path, level)))


def line(found: Counted) -> str:
    """One file in words."""
    run = found.run
    left = ", ".join(f"{count} {kind}" for kind, count in run.floating.items())
    moves = f"Transposes {found.file.transposes} -> {run.transposes}, reorders {run.reorders}"
    return f"* {found.model}, {found.way}: {moves}, {run.integer} on integers" + (f", in float: {left}" if left else "")


def total(way: str, found: Sequence[Counted]) -> str:
    """All files of one way in words."""
    floating = sum((Counter(each.run.floating) for each in found), Counter[str]())
    integer = sum(each.run.integer for each in found)
    share = integer / max(integer + floating.total(), 1)
    kinds = ", ".join(f"{kind} {count}" for kind, count in floating.most_common())
    return (
        f"{way}, {len(found)} models: Transposes {sum(each.file.transposes for each in found)} in the files, "
        f"{sum(each.run.transposes for each in found)} executed; reorders {sum(each.run.reorders for each in found)}; "
        f"{integer} kernels on integers, {share:.1%} of what is quantized; in float: {kinds or 'nothing'}"
    )


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    add_ways(parser)
    parser.add_argument("--level", choices=LEVELS, default="all", help="how far ONNX Runtime optimises (default: all)")
    options = parser.parse_args(given)
    targets = [DEFAULT_TARGET, *(options.target or ())]
    found: list[Counted] = []
    for model in models(options.folder, options.only):
        with TemporaryDirectory() as folder:
            try:
                ways = files_of(model, targets, folders(options), Path(folder))
            except layoutsolve.ConversionError:
                continue
            for way, path in ways.items():
                try:
                    found.append(counted(model, way, path, options.level))
                except Exception as error:  # ONNX Runtime has a class of exception for each status
                    print(f"* {model.name}, {way}: {str(error).splitlines()[0][:120]}")
                else:
                    print(line(found[-1]), flush=True)
    print()
    for way in dict.fromkeys(each.way for each in found):
        print(total(way, [each for each in found if each.way == way]))
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
