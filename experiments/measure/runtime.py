"""How fast converted models run in ONNX Runtime under each way to choose their layouts: strategies and objectives.

The ways of one model run in turn, so that a machine whose speed changes slows all of them, and only times of one round
are compared: what is reported is the median over the rounds of a way's time by that of the default, ``min-executed``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from statistics import median

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.measurement.timing import loaded, ratio, rounds_of, timed

WAYS: Mapping[str, tuple[str, str]] = {
    "min-executed": ("cpsat", "min-executed"),
    "min-transpose": ("cpsat", "min-transpose"),
    "min-bytes": ("cpsat", "min-bytes"),
    "push": ("push", "min-executed"),
    "propagate": ("propagate", "min-executed"),
    "transpose": ("transpose", "min-executed"),
}
"""Strategy and objective of each way. The first one is the default, with which the others are compared."""

DEFAULT = "min-executed"

SLOWER = 1.05
"""From which ratio on the default counts as slower than another way; it has to be so in a second measurement too."""


@dataclass(frozen=True)
class Found:
    """One way of one model. ``same`` names the earlier way that wrote the same bytes, else it is empty.

    ``milliseconds`` of a run is a median, and ``ratio`` the median over the rounds of this way's time by the default's;
    ``again`` is that ratio in a second measurement, where there was one.
    """

    transposes: int
    hidden: int
    same: str
    milliseconds: float
    ratio: float
    again: float | None = None

    @property
    def faster(self) -> bool:
        """Whether the default is slower than this way in both measurements."""
        return self.again is not None and max(self.ratio, self.again) < 1 / SLOWER


@dataclass(frozen=True)
class Result:
    """One model: what was found by way; a way that ONNX Runtime refuses is missing."""

    model: str
    ways: Mapping[str, Found]

    @property
    def differs(self) -> bool:
        """Whether any way wrote another file than the default."""
        return any(found.same != DEFAULT for way, found in self.ways.items() if way != DEFAULT)


def measure(model: CorpusModel, threads: int, ways: Collection[str] = tuple(WAYS)) -> Result:
    """Convert a model in some ways, the default among them, and time those that differ.

    Raises ConversionError where it cannot be converted, VerifyError where the default does not run.
    """
    source = model.source
    conversions = {
        way: layoutsolve.convert(source, strategy=strategy, objective=objective)
        for way, (strategy, objective) in WAYS.items()
        if way in ways
    }
    files = {way: each.model.SerializeToString(deterministic=True) for way, each in conversions.items()}
    same = {way: next(other for other in files if files[other] == files[way]) for way in files}
    runners = loaded({way: files[way] for way in files if same[way] == way}, threads, DEFAULT)
    rounds = rounds_of(list(runners.values()))
    times = timed(runners, rounds)
    again = timed(runners, 2 * rounds) if any(_ratio(times, way) < 1 / SLOWER for way in times) else None
    found = {}
    for way in files:
        if (first := same[way]) in times:
            count, hidden = _counts(conversions[way])
            repeated = None if again is None else round(_ratio(again, first), 4)
            shown = "" if first == way else first
            ms = round(1e3 * median(times[first]), 4)
            found[way] = Found(count, hidden, shown, ms, round(_ratio(times, first), 4), repeated)
    return Result(model.name, found)


def _counts(conversion: layoutsolve.Conversion) -> tuple[int, int]:
    """Transposes in the file, and hidden ones."""
    return conversion.price.transposes, conversion.price.hidden


def _ratio(times: Mapping[str, Sequence[float]], way: str) -> float:
    return ratio(times[way], times[DEFAULT])


def uses(model: CorpusModel, operator: str) -> bool:
    """Whether a model has an operator of TensorFlow Lite. Raises ConversionError where it cannot be read."""
    found = parse(model.source)
    return any(each.name == operator for subgraph in found.subgraphs for each in subgraph.operators)


def header() -> Iterator[str]:
    """The head of the table: each way has its time by the default's, its Transposes and its hidden ones."""
    yield f"| model | {DEFAULT}, ms | (Transposes + hidden) | {' | '.join(way for way in WAYS if way != DEFAULT)} |"
    yield "|---|--:|--:|" + "--:|" * (len(WAYS) - 1)


def row(result: Result) -> str:
    """The line of one model."""
    default = result.ways[DEFAULT]
    cells = [result.model, f"{default.milliseconds:.3f}", f"{default.transposes}+{default.hidden}"]
    cells += [_cell(result.ways.get(way)) for way in WAYS if way != DEFAULT]
    return f"| {' | '.join(cells)} |"


def _cell(found: Found | None) -> str:
    if found is None:
        return "refused"
    return "=" if found.same == DEFAULT else f"{found.ratio:.2f} ({found.transposes}+{found.hidden})"


def totals(results: Sequence[Result]) -> Iterator[str]:
    """The geometric means of the ratios, over all models and over those where the ways differ."""
    for title, chosen in (("all", results), ("differing", [result for result in results if result.differs])):
        means = [mean([result.ways[way].ratio for result in chosen if way in result.ways]) for way in WAYS]
        shown = ", ".join(f"{way} {mean:.3f}" for way, mean in zip(WAYS, means, strict=True))
        yield f"geometric means, {len(chosen)} {title} models: {shown}"


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean; 1 of none."""
    return exp(sum(map(log, ratios)) / max(len(ratios), 1))


def slower(results: Sequence[Result]) -> Iterator[str]:
    """Each model and way than which the default is slower, with the times' ratios in both measurements."""
    lines = [
        f"* {result.model}: {way} takes {found.ratio:.3f} and {found.again:.3f} of the time, with {found.transposes}+"
        f"{found.hidden} transpositions against {result.ways[DEFAULT].transposes}+{result.ways[DEFAULT].hidden}"
        for result in results
        for way, found in result.ways.items()
        if found.faster
    ]
    count = sum(any(found.faster for found in result.ways.values()) for result in results)
    yield f"{DEFAULT} is slower than another way by more than {SLOWER - 1:.0%} on {count} models"
    yield from lines


def main() -> None:
    """Measure the folder that the command line names."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operator", metavar="NAME", help="only models that use this operator, as BATCH_MATMUL")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of ONNX Runtime (default: 1)")
    options = parser.parse_args()
    results: list[Result] = []
    failed: list[str] = []
    print(*header(), sep="\n", flush=True)
    for model in models(options.folder, options.only):
        try:
            if options.operator and not uses(model, options.operator):
                continue
            results.append(measure(model, options.threads))
        except (layoutsolve.ConversionError, VerifyError) as error:
            failed.append(f"* {model.name}: {str(error).splitlines()[-1].strip()}")
            continue
        print(row(results[-1]), flush=True)
    print("", *totals(results), "", *slower(results), "", f"{len(failed)} not measured", *failed, sep="\n")
    write_json(options.json, [asdict(result) for result in results])


if __name__ == "__main__":
    main()
