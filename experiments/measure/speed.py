"""How fast converted models run, beside the runtime that they come from: each file in turn.

Of each model: milliseconds in ONNX Runtime as converted by default, then the time by that of LiteRT with XNNPACK and
with plain kernels, of other targets, and of other converters' files, which ``--with NAME=FOLDER`` names: a file there
has the model's name and ends in ``.onnx``. With ``--openvino`` OpenVINO runs all files as well, and its times are by
those on what is converted for its own target. The means are the other way round: below 1 ours is faster. One of them is
by whichever of the targets is the best for a model, and names models that take longer beyond what rounds disagree on.

    python -m experiments.measure.speed FOLDER [--only int8] [--target NAME] [--with tf2onnx=THEIRS]
        [--openvino [TARGET]] [--seconds N] [--plot FILE.svg]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import layoutsolve
from experiments.corpus import CorpusModel, add_ways, arguments, files_of, folders, models, write_json
from experiments.make.plot import bars
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.bench import RUNTIMES, Measured, bench
from layoutsolve.measurement.timing import MOST
from layoutsolve.solver.targets.target_file import DEFAULT_TARGET

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


def measure(
    model: CorpusModel,
    targets: Sequence[str],
    others: Mapping[str, Path],
    threads: int,
    openvino: str = "",
    most: float = MOST,
) -> Speed:
    """Convert a model and time all its files; others' files and the source are left out where they do not run.

    Raises ConversionError where it cannot be converted, VerifyError where a file of its own does not run.
    """
    with TemporaryDirectory() as folder:
        paths = files_of(model, [*targets, *filter(None, [openvino])], others, Path(folder))
        names = {str(path): name for name, path in paths.items()}
        spared = [str(model.path), *(path for path, name in names.items() if name in others)]
        entries = _entries(
            [*names, str(model.path)], spared, {"threads": threads, "openvino": bool(openvino), "most": most}
        )
    ratios = {_title(each, names.get(each.file)): each.ratio for each in entries[1:]}
    own = ratios.pop(_vino(openvino), float("nan"))  # OpenVINO may refuse it, and has no times to compare with then
    ratios = {name: ratio / own if name.startswith(_vino("")) else ratio for name, ratio in ratios.items()}
    ratios = {name: ratio for name, ratio in ratios.items() if not isnan(ratio)}
    return Speed(
        model.name, entries[0].milliseconds, ratios, _quantised(entries[0]), max(each.spread for each in entries)
    )


def _entries(files: Sequence[str], others: Sequence[str], options: Mapping[str, Any]) -> Sequence[Measured]:
    """The times of all files, or of those but for ``others`` that do not run by themselves. LiteRT's reference kernels
    are left out where seconds are short: they take as long as all others.
    """
    given = {**options, "plain": options["most"] >= MOST}
    try:
        return bench(files, **given).rows
    except VerifyError:
        failing = {file for file in others if not _runs(file, given)}
        if not failing:
            raise
        return bench([file for file in files if file not in failing], **given).rows


def _runs(file: str, options: Mapping[str, Any]) -> bool:
    try:
        bench([file], **options)
    except VerifyError:
        return False
    return True


def _title(entry: Measured, name: str | None) -> str:
    """What a time is of: of ONNX files their names, of the source the runtime, and OpenVINO on either."""
    return _vino(name or "the source") if entry.runtime == RUNTIMES[3] else name or entry.runtime


def _vino(name: str) -> str:
    return f"OpenVINO on {name}"


def _quantised(entry: Measured) -> bool:
    return entry.executed is not None and entry.executed.integer > 0


def best(speed: Speed, targets: Sequence[str]) -> float:
    """What the best of some targets takes by the default."""
    return min(speed.ratios.get(name, 1.0) for name in targets)


def slower(found: Sequence[Speed], targets: Sequence[str]) -> str:
    """How long models take by the best of some targets, and those that take longer by more than 5 % and noise."""
    ratios = {each.model: (1 / best(each, targets), each.unsure) for each in found}
    longer = {name: pair for name, pair in ratios.items() if pair[0] > 1.05 + pair[1]}
    above = [f"{name} {ratio:.2f} (+-{unsure:.0%})" for name, (ratio, unsure) in longer.items()]
    value = mean([ratio for ratio, _ in ratios.values()])
    return f"by the best of {', '.join(targets)} {value:.3f} ({len(ratios)}); above 1.05: {', '.join(above) or 'none'}"


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


def table(found: Sequence[Speed], targets: Sequence[str]) -> Iterator[str]:
    """A row for each folder of models: geometric mean and largest time of what is converted by the best of the targets,
    and by each other.
    """
    others = sorted({name for each in found for name in each.ratios}.difference(targets))
    ways = ["the best target", *others] if targets else others
    yield f"| models | {' | '.join(f'by {way}' for way in ways)} |\n|---|{'--:|' * len(ways)}"
    for folder in sorted({each.model.rpartition("/")[0] for each in found}):
        rows = [each for each in found if each.model.rpartition("/")[0] == folder]
        columns = [[1 / best(each, targets) for each in rows]] if targets else []
        columns += [[1 / each.ratios[name] for each in rows if name in each.ratios] for name in others]
        cells = (f"{mean(column):.2f} ({len(column)}, at most {max(column, default=1):.2f})" for column in columns)
        yield f"| {folder}, {len(rows)} | {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    add_ways(parser)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the runtimes (default: 1)")
    parser.add_argument(
        "--openvino", nargs="?", const="openvino-cpu", default="", metavar="TARGET", help="run all in OpenVINO as well"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=MOST,
        metavar="N",
        help=f"seconds that each file runs at most (default: {MOST})",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw all ratios")
    options = parser.parse_args(given)
    others = folders(options)
    targets = [DEFAULT_TARGET, *(options.target or ())]
    found: list[Speed] = []
    failed: list[str] = []
    for model in models(options.folder, options.only):
        try:
            found.append(measure(model, targets, others, options.threads, options.openvino, options.seconds))
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
        if options.target and chosen:
            print(f"  {slower(chosen, options.target)}")
    print("", *table([each for each in found if each.quantised], options.target or ()), sep="\n")
    write_json(options.json, [vars(each) for each in found])
    if options.plot is not None:
        options.plot.write_text(
            bars("time by that of what is converted by default", {each.model: each.ratios for each in found})
        )


if __name__ == "__main__":
    main()
