"""Strategies over a corpus: Transposes, bytes moved and time of each, beside what is known of other converters.

Prints a Markdown table, one row per model, and the totals. ``peers.json`` (Transposes that other converters leave) and
``minima.json`` (counts of an independent prototype) are used where the folder has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json

STRATEGIES = ("cpsat", "mincut", "push", "propagate", "transpose")


@dataclass(frozen=True)
class Result:
    """What the strategies make of one model; one that cannot solve it has no row.

    ``peer`` is the fewest Transposes that another converter leaves.
    """

    model: str
    rows: Mapping[str, layoutsolve.Comparison]
    peer: int | None
    prototype: int | None

    @property
    def best(self) -> layoutsolve.Comparison:
        return self.rows["cpsat"]

    def transposes(self, strategy: str) -> int | None:
        """How many Transposes a strategy leaves, None where it cannot solve the model."""
        return self.rows[strategy].price.transposes if strategy in self.rows else None


def peer_minimum(record: Mapping[str, Any]) -> int | None:
    """The fewest Transposes that tf2onnx, with or without ONNX Runtime's optimiser, or OpenVINO leave."""
    tf2onnx, openvino = record.get("tf2onnx", {}), record.get("openvino", {})
    optimised = tf2onnx.get("transposes_after_onnxruntime") or {}
    counts = [tf2onnx.get("transposes"), optimised.get("ext"), openvino.get("transposes")]
    return min((count for count in counts if count is not None), default=None)


def records(folder: Path, name: str) -> Mapping[str, Any]:
    """A table of the folder by model, empty where there is none."""
    path = folder / name
    return json.loads(path.read_text()) if path.is_file() else {}


def measure(model: CorpusModel, peers: Mapping[str, Any], minima: Mapping[str, Any], objective: str) -> Result:
    """Run every strategy on one model. Raises ConversionError where it cannot be converted."""
    rows = {row.strategy: row for row in layoutsolve.compare(model.source, objective=objective)}
    file = f"{model.name}.tflite"
    return Result(model.name, rows, peer_minimum(peers.get(file, {})), minima.get(file, {}).get("optimum"))


def table(results: Sequence[Result]) -> str:
    """The Markdown table."""
    lines = [
        f"| model | {' | '.join(STRATEGIES)} | bound | status | others' best | prototype | MB moved | solve s |",
        f"|---|{'---|' * len(STRATEGIES)}---|---|---|---|---|---|",
    ]
    for result in results:
        counts = " | ".join(_shown(result.transposes(name)) for name in STRATEGIES)
        best = result.best
        lines.append(
            f"| {result.model} | {counts} | {best.bound} | {best.status} | "
            f"{_shown(result.peer)} | {_shown(result.prototype)} | {best.price.bytes / 1e6:.2f} | {best.seconds:.2f} |"
        )
    return "\n".join(lines)


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def totals(results: Sequence[Result]) -> list[str]:
    """Sums over all models, and over those that others are known for."""
    lines = [f"{len(results)} models, {sum(result.best.status == 'optimal' for result in results)} proven optimal"]
    for name in STRATEGIES:
        prices = [result.rows[name].price for result in results if name in result.rows]
        moved = sum(price.bytes for price in prices) / 1e6
        reshapes = sum(price.reshapes for price in prices)
        lines.append(
            f"{name}: {sum(price.transposes for price in prices)} Transposes, {reshapes} Reshapes, {moved:.1f} MB "
            f"on {len(prices)} models"
        )
    cuttable = [result for result in results if "mincut" in result.rows]
    agreeing = sum(result.transposes("mincut") == result.transposes("cpsat") for result in cuttable)
    lines.append(f"mincut applies to {len(cuttable)} models and agrees with cpsat on {agreeing}")
    for title, attribute in (("others' best", "peer"), ("prototype", "prototype")):
        known = [result for result in results if getattr(result, attribute) is not None]
        ours = sum(result.best.price.transposes for result in known)
        theirs = sum(getattr(result, attribute) for result in known)
        above = [result.model for result in known if result.best.price.transposes > getattr(result, attribute)]
        lines.append(
            f"{title}: {theirs} on {len(known)} models, cpsat {ours} there; above it on {len(above)} {above or ''}"
        )
    for name in ("push", "propagate"):
        above = [result.model for result in results if _above(result, name, "transpose")]
        lines.append(f"{name} worse than transpose on {len(above)} {above or ''}")
    lines.append(f"slowest solve: {max((result.best.seconds, result.model) for result in results)}")
    return lines


def _above(result: Result, strategy: str, other: str) -> bool:
    return result.rows[strategy].price.transposes > result.rows[other].price.transposes


def main() -> None:
    """Measure the folder that the command line names."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--objective", default="min-transpose")
    options = parser.parse_args()
    peers, minima = records(options.folder, "peers.json"), records(options.folder, "minima.json")
    results: list[Result] = []
    refused: list[str] = []
    for model in models(options.folder, options.only):
        try:
            results.append(measure(model, peers, minima, options.objective))
        except layoutsolve.ConversionError as error:
            refused.append(f"{model.name}: {str(error).splitlines()[-1].strip()}")
    print(table(results), "", *totals(results), f"{len(refused)} not converted:", *refused, sep="\n")
    write_json(
        options.json,
        [
            {"model": result.model, "peer": result.peer, "prototype": result.prototype}
            | {
                name: {**asdict(row.price), "status": row.status, "seconds": row.seconds}
                for name, row in result.rows.items()
            }
            for result in results
        ],
    )


if __name__ == "__main__":
    main()
