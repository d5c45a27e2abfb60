"""Every operator of every model on LiteRT's own intermediate tensors, as ``--verify`` judges it: how far each is off.

Errors do not pile up along the network, so what is off here is wrong in how that operator is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.emit import stored
from layoutsolve.errors import ConversionError
from layoutsolve.verification.layer_accuracy import Compared
from layoutsolve.verification.metrics import Kind, kind
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verify import verify


@dataclass(frozen=True)
class Check:
    """One output of one operator, or of several that are written as one: by how much it is off at most, in LSB or as a
    share of its range, and why that is too much, '' where it is not.
    """

    operator: str
    index: int
    tensor: str
    kind: Kind
    farthest: float
    reason: str


def check_model(source: bytes) -> list[Check]:
    """Check all operators of a model's main subgraph of which the conversion has the results."""
    conversion = layoutsolve.convert(source)
    found: list[Compared] = []
    inside = conversion.assignment.graph.values, stored(conversion.assignment)
    relation = Relation(inside=inside, rounding=conversion.rounding)
    verify(source, conversion.model, relation=relation, thorough=True, told=found.extend)
    return [
        Check(each.operator.name, each.operator.index, port.name, kind(port), each.tally.farthest, each.tally.verdict())
        for each in found
        for port in [each.tally.port]
    ]


def summary(checks: Sequence[Check]) -> str:
    """Operators checked, those that are off, the worst float and the worst quantized one."""
    parts = [f"{len(checks):4d} checked", f"{sum(bool(check.reason) for check in checks):3d} off"]
    for compared, unit in (("float", "of its range"), ("quantized", "LSB")):
        chosen = [check for check in checks if check.kind == compared and check.farthest]
        if chosen:
            worst = max(chosen, key=lambda check: check.farthest)
            parts.append(f"{compared} at most {worst.farthest:.2g} {unit} ({worst.operator}#{worst.index})")
    return ", ".join(parts)


def operator_table(results: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """One line per kind of operator."""
    by_operator: defaultdict[str, list[Check]] = defaultdict(list)
    for checks in results.values():
        for check in checks:
            by_operator[check.operator].append(check)
    for operator, checks in sorted(by_operator.items()):
        yield f"{operator:32s} {summary(checks)}"


def off(results: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """One line per operator that is off."""
    for model, checks in results.items():
        for check in checks:
            if check.reason:
                yield f"{model}: {check.operator}#{check.index} '{check.tensor[-60:]}' {check.reason}"


def main() -> None:
    """Run over a corpus and print a line per model, a line per operator that is off, and a table per kind."""
    options = arguments(__doc__.splitlines()[0] if __doc__ else "").parse_args()
    results: dict[str, list[Check]] = {}
    errors: dict[str, str] = {}
    for model in models(options.folder, options.only):
        _measure(model, results, errors)
    print("\noff:", *off(results), sep="\n  ")
    print("\nper operator:", *operator_table(results), sep="\n  ")
    print(f"\n{len(results)} models checked, {len(errors)} not")
    write_json(
        options.json,
        {"errors": errors, "models": {name: [asdict(each) for each in checks] for name, checks in results.items()}},
    )


def _measure(model: CorpusModel, results: dict[str, list[Check]], errors: dict[str, str]) -> None:
    try:
        results[model.name] = check_model(model.source)
        print(f"{model.name:60s} {summary(results[model.name])}", flush=True)
    except ConversionError as error:
        errors[model.name] = f"{type(error).__name__}: {error}"
        print(f"{model.name:60s} {errors[model.name][:300]}", flush=True)


if __name__ == "__main__":
    main()
