"""Transposes and run time under min-transpose and min-executed, beside the optima that a prototype counted.

For every model of ``minima.json`` in the folder: an independent count of what the theory allows, which knows no hidden
transpositions and neither all rows nor all limits of the runtime. Times are medians of runs in turn, the ratio is the
median over the rounds of min-transpose's time by that of min-executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import layoutsolve
from experiments.compare.strategies import records
from experiments.corpus import arguments, models, write_json
from experiments.measure.runtime import DEFAULT, Found, Result, mean, measure
from layoutsolve.errors import VerifyError

VISIBLE = "min-transpose"


@dataclass(frozen=True)
class Minimum:
    """What was found of a model, beside the prototype's optimum."""

    prototype: int
    result: Result

    @property
    def visible(self) -> Found:
        """The result under min-transpose."""
        return self.result.ways[VISIBLE]

    @property
    def executed(self) -> Found:
        """The result under min-executed."""
        return self.result.ways[DEFAULT]


HEAD = f"""| model | prototype | {VISIBLE} | {DEFAULT} | ms | ms | ratio |
|---|--:|--:|--:|--:|--:|--:|"""


def row(found: Minimum) -> str:
    """The line of one model; counts are visible + hidden transpositions."""
    counts = [f"{each.transposes}+{each.hidden}" for each in (found.visible, found.executed)]
    times = [f"{each.milliseconds:.3f}" for each in (found.visible, found.executed)]
    return f"| {' | '.join([found.result.model, str(found.prototype), *counts, *times])} | {found.visible.ratio:.3f} |"


def totals(found: Sequence[Minimum]) -> Iterator[str]:
    """Sums over all models, and where the prototype's optimum is not met or undercut."""
    yield f"{len(found)} models, prototype {sum(each.prototype for each in found)}"
    for way in (VISIBLE, DEFAULT):
        ways = [each.result.ways[way] for each in found]
        visible, hidden = sum(each.transposes for each in ways), sum(each.hidden for each in ways)
        yield f"{way}: {visible} visible + {hidden} hidden, {sum(each.milliseconds for each in ways):.1f} ms"
    differing = [each.visible.ratio for each in found if each.result.differs]
    ratios = [each.visible.ratio for each in found]
    yield (
        f"time of {VISIBLE} by that of {DEFAULT}: geometric mean {mean(ratios):.3f}, "
        f"{mean(differing):.3f} on the {len(differing)} models whose files differ"
    )
    for title, sign in (("above", 1), ("below", -1)):
        apart = [each for each in found if sign * (each.visible.transposes - each.prototype) > 0]
        names = [f"{each.result.model} ({each.visible.transposes}, not {each.prototype})" for each in apart]
        yield f"{title} the prototype on {len(apart)} models{': ' if names else ''}{', '.join(names)}"


def main() -> None:
    """Measure the folder that the command line names."""
    parser = arguments((__doc__ or "").splitlines()[0])
    options = parser.parse_args()
    known = records(options.folder, "minima.json")
    found: list[Minimum] = []
    unsupported: list[str] = []
    print(HEAD, flush=True)
    for model in models(options.folder, options.only):
        if (record := known.get(f"{model.name}.tflite")) is None:
            continue
        try:
            found.append(Minimum(record["optimum"], measure(model, 1, (DEFAULT, VISIBLE))))
        except (layoutsolve.ConversionError, VerifyError) as error:
            unsupported.append(f"* {model.name}: {str(error).splitlines()[-1].strip()}")
            continue
        print(row(found[-1]), flush=True)
    print("", *totals(found), f"{len(unsupported)} unsupported", *unsupported, sep="\n")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
