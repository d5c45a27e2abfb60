"""What each form that a target asks for is worth: a model's time in ONNX Runtime without it, by the time with it.

Both files of a model run in turn, and only times of one round are compared. Models that a form does not change are left
out. ``different`` are the elements of the outputs that differ, without any optimisation and with the default.

    python -m experiments.forms FOLDER [--only int8]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.graph import Array
from layoutsolve.measurement.timing import loaded, ratio, rounds_of, timed
from layoutsolve.solver.statement.target_file import DEFAULT_TARGET
from layoutsolve.verification.runtimes import OnnxRuntime

FORMS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "unsigned": (DEFAULT_TARGET, {"storage": {"unsigned": False, "weights": "source"}}),
    "block": (DEFAULT_TARGET, {"storage": {"block": 0}}),
    "PRelu": (DEFAULT_TARGET, {"idioms": {"PRelu": []}}),
    "Pad": (DEFAULT_TARGET, {"idioms": {"Pad": []}}),
    "Max, Min": (DEFAULT_TARGET, {"idioms": {"Max": [], "Min": []}}),
    "signed weights": ("ort-x86-vnni", {"storage": {"weights": "unsigned"}}),
}
"""Of each form a target that asks for it, and what leaves it out there."""

LEVELS = ("none", "all")


@dataclass(frozen=True)
class Worth:
    """One form of one model: milliseconds with it, the time without it by that, and the share of elements that differ
    at each level of optimisation.
    """

    model: str
    form: str
    milliseconds: float
    ratio: float
    different: tuple[float, ...]


def measure(model: CorpusModel, form: str, without: Path, threads: int) -> Worth | None:
    """Time a model with a form and without it; None where that makes no difference.

    Raises ConversionError where it cannot be converted, VerifyError where it does not run.
    """
    source = model.source
    files = {
        name: layoutsolve.convert(source, target=chosen).model.SerializeToString(deterministic=True)
        for name, chosen in (("with", FORMS[form][0]), ("without", str(without)))
    }
    if files["with"] == files["without"]:
        return None
    runners = loaded(files, threads, "with")
    times = timed(runners, rounds_of(list(runners.values())))
    feeds = runners["with"].subject.feeds
    given = [
        [OnnxRuntime(file, threads=threads, level=level).run(feeds) for file in files.values()] for level in LEVELS
    ]
    different = tuple(_different(*pair) for pair in given)
    return Worth(
        model.name,
        form,
        round(1e3 * median(times["with"]), 4),
        round(ratio(times["without"], times["with"]), 4),
        different,
    )


def _different(first: Sequence[Array], second: Sequence[Array]) -> float:
    """The share of elements that are not equal."""
    unequal = sum(int((a != b).sum()) for a, b in zip(first, second, strict=True))
    return round(unequal / max(1, sum(np.size(each) for each in first)), 6)


def summary(form: str, found: Sequence[Worth]) -> str:
    """A row on one form: the geometric mean of the time without it, and the largest share of elements that differ."""
    ratios = [each.ratio for each in found] or [1.0]
    shares = [max((each.different[place] for each in found), default=0.0) for place in range(len(LEVELS))]
    cells = f"{mean(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} | " + " | ".join(
        f"{each:.2%}" for each in shares
    )
    return f"| {form} | {len(found)} | {cells} |"


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of ONNX Runtime (default: 1)")
    options = parser.parse_args(given)
    found: list[Worth] = []
    print(
        "| model | form | ms | without it | different, none | different, all |", "|---|---|--:|--:|--:|--:|", sep="\n"
    )
    with TemporaryDirectory() as folder:
        for form, (target, left_out) in FORMS.items():
            without = Path(folder) / f"{form}.json"
            without.write_text(json.dumps({"name": f"no-{form}", "extends": target, **left_out}))
            for model in models(options.folder, options.only):
                try:
                    worth = measure(model, form, without, options.threads)
                except (layoutsolve.ConversionError, VerifyError):
                    continue
                if worth is not None:
                    found.append(worth)
                    shares = " | ".join(f"{share:.2%}" for share in worth.different)
                    print(
                        f"| {worth.model} | {form} | {worth.milliseconds:.3f} | {worth.ratio:.2f} | {shares} |",
                        flush=True,
                    )
    print(
        "\n| form | models | without it | least | most | different, none | different, all |",
        "|---|--:|--:|--:|--:|--:|--:|",
        sep="\n",
    )
    for form in FORMS:
        print(summary(form, [each for each in found if each.form == form]))
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
