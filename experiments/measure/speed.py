"""How fast converted models run, beside the runtime that they come from: each file in turn.

Of each model: milliseconds in ONNX Runtime as converted by default, then the time by that of LiteRT with XNNPACK and
with plain kernels, of other targets, and of other converters' files, which ``--with NAME=FOLDER`` names: a file there
has the model's name and ends in ``.onnx``. With ``--openvino`` OpenVINO runs all files as well, and its times are by
those on what is converted for its own target. The means are the other way round: below 1 ours is faster. One of them is
by whichever of the targets is the best for a model, and names models that take longer beyond what rounds disagree on.
With ``--products`` the time of a model's products alone is among the others: what convolutions and fully-connected
layers take in whichever of its files they take least in, by ONNX Runtime's profiler; and that of all that computes,
without conversions between types, moves and limits, which other forms of a file might do without. No file is faster
that has these kernels, whatever else is in it.

    python -m experiments.measure.speed FOLDER [--only int8] [--target NAME] [--with tf2onnx=THEIRS]
        [--openvino [TARGET]] [--seconds N] [--products]
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import layoutsolve
from experiments.corpus import CorpusModel, add_ways, arguments, files_of, folders, models, write_json
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.bench import RUNTIMES, Measured, bench
from layoutsolve.measurement.profile import kernel_times
from layoutsolve.measurement.timing import MOST, feeds_of
from layoutsolve.solver.targets.target_file import DEFAULT_TARGET
from layoutsolve.verification.runtimes import OnnxRuntime

LEAST = 0.1
"""Milliseconds in LiteRT from which on a model counts in the means: below, runtimes spend their time on themselves."""

XNNPACK, PRODUCTS, COMPUTING = "LiteRT, XNNPACK", "its products alone", "what computes alone"

_RUNS = 60
"""How often a model runs in ONNX Runtime's profiler."""

_MULTIPLYING = ("Conv", "Gemm", "MatMul")
"""What the names of kernels contain that are products: QLinearConv, FusedConv, QGemm, MatMulInteger."""

_OTHERS = frozenset((
    "Cast", "Clip", "DequantizeLinear", "Flatten", "Gather", "Identity", "Max", "Pad", "QuantizeLinear", "ReorderInput",
    "ReorderOutput", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
))  # fmt: skip
"""Kernels that convert, move or limit numbers."""


@dataclass(frozen=True)
class Speed:
    """One model: milliseconds of what is converted by default, and the time of every other by that. ``quantized`` is
    whether it has kernels on bytes, ``unsure`` the largest spread of a ratio.
    """

    model: str
    milliseconds: float
    ratios: Mapping[str, float]
    quantized: bool
    unsure: float


def measure(
    model: CorpusModel,
    targets: Sequence[str],
    others: Mapping[str, Path],
    threads: int,
    openvino: str = "",
    most: float = MOST,
    products: bool = False,
) -> Speed:
    """Convert a model and time all its files, and its ``products`` alone; others' files and the source are left out
    where they do not run.

    Raises ConversionError where it cannot be converted, VerifyError where a file of its own does not run.
    """
    with TemporaryDirectory() as folder:
        paths = files_of(model, [*targets, *filter(None, [openvino])], others, Path(folder))
        names = {str(path): name for name, path in paths.items()}
        spared = [str(model.path), *(path for path, name in names.items() if name in others)]
        entries = _entries(
            [*names, str(model.path)], spared, {"threads": threads, "openvino": bool(openvino), "most": most}
        )
        alone = [_alone(each) for each in entries if products and names.get(each.file) in targets]
    ratios = {_title(each, names.get(each.file)): each.ratio for each in entries[1:]}
    own = ratios.pop(_vino(openvino), float("nan"))  # OpenVINO may refuse it, and has no times to compare with then
    ratios = {name: ratio / own if name.startswith(_vino("")) else ratio for name, ratio in ratios.items()}
    ratios = {name: ratio for name, ratio in ratios.items() if not isnan(ratio)}
    ratios |= {name: min(each[name] for each in alone) for name in (PRODUCTS, COMPUTING) if alone}
    return Speed(
        model.name, entries[0].milliseconds, ratios, _quantized(entries[0]), max(each.spread for each in entries)
    )


def _alone(entry: Measured) -> Mapping[str, float]:
    """What the products of a file, and all that computes, take by the default's time. What the profiler itself takes is
    the same for each node: it is what all of them take there more than a run takes without it.
    """
    times = [(kind, median(own)) for (kind, _), own in _profiled(Path(entry.file)).items()]
    own = max(sum(time for _, time in times) - entry.milliseconds, 0.0) / max(len(times), 1)
    left = [(kind, max(time - own, 0.0)) for kind, time in times]
    share = entry.ratio / (sum(time for _, time in left) or 1.0)
    return {
        PRODUCTS: share * sum(time for kind, time in left if any(name in kind for name in _MULTIPLYING)),
        COMPUTING: share * sum(time for kind, time in left if kind not in _OTHERS),
    }


def _profiled(model: Path) -> Mapping[tuple[str, str], Sequence[float]]:
    """The milliseconds of each run by kind and name of nodes, of those that hold no others."""
    found = defaultdict[tuple[str, str], list[float]](list)
    with TemporaryDirectory() as folder:
        runtime = OnnxRuntime(model, threads=1, profile=Path(folder) / "profile")
        feeds = feeds_of(runtime)
        for _ in range(_RUNS):
            runtime.run(feeds)
        for name, kind, spent in kernel_times(json.loads(runtime.end_profiling().read_text())):
            found[kind, name].append(spent)
    return found


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


def _quantized(entry: Measured) -> bool:
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


def least(found: Sequence[Speed]) -> Iterator[str]:
    """What products alone, and all that computes, take by LiteRT's whole time, over all models and over those that take
    long enough, and in how many of these no form of the file is as fast.
    """
    known = [each for each in found if {PRODUCTS, COMPUTING, XNNPACK} <= each.ratios.keys()]
    longer = [each for each in known if each.milliseconds * each.ratios[XNNPACK] >= LEAST]
    for name in (PRODUCTS, COMPUTING):
        cells = []
        for rows in (known, longer):
            shares = [each.ratios[name] / each.ratios[XNNPACK] for each in rows]
            cells.append(f"{mean(shares):.2f} ({len(rows)}, above 1 in {sum(share > 1 for share in shares)})")
        yield f"{name} by all of {XNNPACK}: {cells[0]}, from {LEAST} ms of its time on {cells[1]}"


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
    parser.add_argument("--products", action="store_true", help="also the time of products alone")
    options = parser.parse_args(given)
    others = folders(options)
    targets = [DEFAULT_TARGET, *(options.target or ())]
    found: list[Speed] = []
    failed: list[str] = []
    for model in models(options.folder, options.only):
        try:
            given = (options.threads, options.openvino, options.seconds, options.products)
            found.append(measure(model, targets, others, *given))
        except (layoutsolve.ConversionError, VerifyError) as error:
            failed.append(f"* {model.name}: {str(error).splitlines()[-1].strip()}")
            continue
        speed = found[-1]
        ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in speed.ratios.items())
        print(f"* {speed.model}: {speed.milliseconds:.3f} ms; {ratios}; +-{speed.unsure:.0%}", flush=True)
    print("", *failed, "", sep="\n")
    for title, chosen in (
        ("real numbers", [each for each in found if not each.quantized]),
        ("bytes", [each for each in found if each.quantized]),
    ):
        print(means(found, f"{len(chosen)} models of {title}", chosen))
        if options.target and chosen:
            print(f"  {slower(chosen, options.target)}")
        if options.products and chosen:
            print(*(f"  {line}" for line in least(chosen)), sep="\n")
    print("", *table([each for each in found if each.quantized], options.target or ()), sep="\n")
    write_json(options.json, [vars(each) for each in found])


if __name__ == "__main__":
    main()
