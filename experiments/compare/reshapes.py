"""Reshapes over a corpus: what each objective comes to, how many tiers of Reshapes are proven, and what solving takes.

A row of the table has the models, the sums of Transposes, hidden ones, Reshapes and bytes, the models whose Reshapes
are proven over all orders that cost as little, those of which they are for the chosen orders alone, and the processor's
seconds of solving. With ``--against`` a file that ``--json`` has written before, every model whose price differs
follows.

    python -m experiments.compare.reshapes FOLDER --json now.json [--against then.json]
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import read
from layoutsolve.solver import OBJECTIVES, assign


@dataclass(frozen=True)
class Result:
    """One model under one objective: what it costs, the status of its Reshapes, and seconds of solving.

    ``status`` is '' for an objective without a tier of Reshapes alone.
    """

    model: str
    objective: str
    transposes: int
    hidden: int
    reshapes: int
    bytes: int
    nanoseconds: int
    status: str
    seconds: float

    @property
    def price(self) -> tuple[int, ...]:
        """What is compared."""
        return self.transposes, self.hidden, self.reshapes, self.bytes, self.nanoseconds


def measure(model: CorpusModel, objective: str) -> Result:
    """Solve a model. Raises ConversionError where it cannot be converted."""
    graph = read(model.source, model.name)
    began = time.process_time()
    found = assign(graph, objective=objective)
    seconds = time.process_time() - began
    price, tiers = found.price, found.tiers
    status = next((tier.status for tier in tiers if tier.names == ("reshapes",)), "")
    return Result(
        model.name,
        objective,
        price.transposes,
        price.hidden,
        price.reshapes,
        price.bytes,
        price.nanoseconds,
        status,
        seconds,
    )


def row(objective: str, results: Sequence[Result]) -> str:
    """A row of the table."""
    statuses = Counter(each.status for each in results)
    sums = " | ".join(
        str(sum(getattr(each, name) for each in results)) for name in ("transposes", "hidden", "reshapes", "bytes")
    )
    return (
        f"| {objective} | {len(results)} | {sums} | {statuses['optimal']} | {statuses['conditional']} "
        f"| {sum(each.seconds for each in results):.1f} |"
    )


def differences(results: Sequence[Result], against: Path) -> list[str]:
    """A line for each model that costs something else than it did."""
    known = {(each["model"], each["objective"]): Result(**each) for each in json.loads(against.read_text())}
    lines = []
    for each in results:
        other = known.get((each.model, each.objective))
        if other is not None and other.price != each.price:
            lines.append(f"{each.objective} {each.model}: {other.price} to {each.price}")
    return lines


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--objective", choices=list(OBJECTIVES), help="one objective (default: all)")
    parser.add_argument("--against", type=Path, metavar="FILE", help="numbers to compare with")
    options = parser.parse_args(given)
    found: list[Result] = []
    print("| objective | models | Transposes | layout penalty | Reshapes | bytes | proven | conditional | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for objective in [options.objective] if options.objective else OBJECTIVES:
        results = []
        for model in models(options.folder, options.only):
            try:
                results.append(measure(model, objective))
            except ConversionError:
                continue
        found += results
        print(row(objective, results), flush=True)
    if options.against is not None:
        print(*differences(found, options.against), sep="\n")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
