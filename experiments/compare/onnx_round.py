"""Whether a model that comes by way of ONNX ends as well as the TensorFlow Lite model that it was.

Each model is written as it is, with all Transposes that its operators need (the strategy 'transpose'), and what is
written is solved: its Transposes and Reshapes, beside those of the TensorFlow Lite model solved directly, and how far
results in ONNX Runtime are from each other.

    python -m experiments.compare.onnx_round FOLDER [--only TEXT] [--objective min-executed]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.onnx_shared import FailedError, apart, distance, samples, session
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES


@dataclass(frozen=True)
class Found:
    """A model: Transposes and Reshapes as written with all of them, solved directly, and solved by way of ONNX, and how
    far its results are from the first one's. ``error`` is why it does not come through.
    """

    model: str
    naive: tuple[int, int]
    direct: tuple[int, int]
    rounded: tuple[int, int] = (0, 0)
    off: float = 0.0
    proven: bool = True
    error: str = ""

    def __str__(self) -> str:
        naive, direct, rounded = ("/".join(map(str, each)) for each in (self.naive, self.direct, self.rounded))
        if self.error:
            return f"* {self.model}: {naive}, directly {direct}, by ONNX {self.error}"
        mark = "" if self.rounded <= self.direct else ", ABOVE" if self.proven else ", above, not proven"
        return f"* {self.model}: {naive}, directly {direct}, by ONNX {rounded}{mark}, results {self.off:.1e} off"


def _counts(conversion: layoutsolve.Conversion) -> tuple[int, int]:
    kinds = [node.op_type for node in layoutsolve.emit.nodes_of(conversion.model.graph)]
    return kinds.count("Transpose"), kinds.count("Reshape")


def measure(model: CorpusModel, objective: str, seconds: float) -> Found | None:
    """A model there and back, None where the TensorFlow Lite model is not converted."""
    with TemporaryDirectory() as folder:
        path, back = Path(folder) / "naive.onnx", Path(folder) / "back.onnx"

        def written() -> tuple[tuple[int, int], tuple[int, int]]:
            naive = layoutsolve.convert(model.source, strategy="transpose")
            naive.save(path)
            return _counts(naive), _counts(layoutsolve.convert(model.source, objective=objective))

        def again() -> tuple[tuple[int, int], bool]:
            made = layoutsolve.convert(str(path), objective=objective)
            made.save(back)
            return _counts(made), made.assignment.status == "optimal"

        def compared() -> float:
            found = session(back, "none")
            return max(distance(found.run(None, dict(each.feeds)), each.results) for each in samples(path, {}))

        try:
            naive, direct = apart(written, seconds)
        except FailedError:
            return None
        try:
            rounded, proven = apart(again, seconds)
            return Found(model.name, naive, direct, rounded, apart(compared, seconds), proven)
        except FailedError as error:
            return Found(model.name, naive, direct, error=str(error))


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--objective", choices=OBJECTIVES, default=DEFAULT_OBJECTIVE)
    parser.add_argument("--seconds", type=float, default=300.0, help="that each step may take (default: 300)")
    options = parser.parse_args(given)
    found: list[Found] = []
    for model in models(options.folder, options.only):
        each = measure(model, options.objective, options.seconds)
        if each is not None:
            found.append(each)
            print(each, flush=True)
    done = [each for each in found if not each.error]
    sums = [
        "/".join(str(sum(getattr(each, name)[part] for each in done)) for part in (0, 1))
        for name in ("naive", "direct", "rounded")
    ]
    print(
        f"{len(done)} of {len(found)} models: {sums[0]}, directly {sums[1]}, by ONNX {sums[2]}; "
        f"above on {sum(each.rounded > each.direct for each in done)}, "
        f"below on {sum(each.rounded < each.direct for each in done)}; "
        f"{sum(each.off == 0 for each in done)} with the same bits, "
        f"at most {max((each.off for each in done), default=0):.1e} off"
    )
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
