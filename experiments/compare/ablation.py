"""What each stage of the solver is worth: models are solved with all of them, and with one left out at a time.

A row has the models whose value is another one without the stage, in what the first three tiers count or in Reshapes
alone, those of which less is proven in the first three tiers, those that take more or less than a fifth more time, and
the time of all by that with every stage. Seconds are the processor's: other processes do not count. Models are those of
a folder, of the zoo and of the hard networks.

    python -m experiments.compare.ablation [FOLDER] [--networks 150] [--every 12] [--hard] [--only STAGE] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from experiments.corpus import graph_of, models, write_json
from experiments.make.hard_networks import FAMILIES
from experiments.make.zoo import zoo
from layoutsolve.errors import ConversionError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.search import component_search, search
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES
from layoutsolve.solver.strategies import orders, orders_then_groupings

Patch = tuple[Any, str, Any]

RANKS = {"optimal": 2, "conditional": 1, "feasible": 0}
FIRST = 3
"""The tiers that what moves data is counted in."""

FIFTH, LEAST = 1.2, 0.05
"""How many times as long counts as slower, where that is so many seconds at least."""


def _nothing(*given: Any, **named: Any) -> None:
    """What stands for a stage that finds nothing."""


def _found(found: Any, *given: Any) -> Any:
    """What stands for a stage that betters nothing."""
    return found


STAGES: Mapping[str, Sequence[Patch]] = {
    "elimination": [(component_search, "eliminated", _nothing)],
    "improvement of several at a time": [(component_search, "improved_together", _nothing)],
    "few candidates first": [(orders, "FEW", orders.CANDIDATES)],
    "orders of some atoms": [(orders.SomeAtoms, "look", _nothing)],
    "stops": [(orders, "_with_stops", lambda candidates, found, *_: found)],
    "views as operators": [(orders_then_groupings, "_held_against_views", _found)],
    "tie by groupings": [(search, "TIE", ())],
    "steps of concatenations": [(orders_then_groupings, "settled", lambda graph, problem, rows, tiers: rows)],
}
"""What is put in place of what, to leave out a stage."""


@dataclass(frozen=True)
class Answer:
    """What a model comes to: the values of its tiers, what is proven of each, and the seconds of solving it."""

    values: Sequence[int]
    statuses: Sequence[str]
    seconds: float

    @property
    def first(self) -> Sequence[int]:
        """What data is moved."""
        return self.values[:FIRST]

    def weaker(self, other: Answer) -> bool:
        """Whether less is proven in the first tiers than of another answer."""
        pairs = zip(self.statuses[:FIRST], other.statuses[:FIRST], strict=True)
        return any(RANKS[mine] < RANKS[theirs] for mine, theirs in pairs)

    def slower(self, other: Answer) -> bool:
        """Whether it takes longer by more than a fifth."""
        return self.seconds > max(FIFTH * other.seconds, other.seconds + LEAST)


def graphs(folder: Path | None, networks: int, every: int, hard: bool) -> Iterator[tuple[str, Graph]]:
    """The graphs of all models that can be converted, with their names."""
    sources: list[tuple[str, bytes | Graph]] = [(each.name, each.source) for each in models(folder)] if folder else []
    sources += zoo(networks, every) if networks else ()
    sources += ((f"{name}:{size}", make(size)) for name, (make, sizes) in FAMILIES.items() if hard for size in sizes)
    for name, source in sources:
        try:
            yield name, graph_of(source)
        except ConversionError:
            continue


def answered(graph: Graph, objective: str, without: Sequence[Patch] = ()) -> Answer:
    """A graph's answer where something is left out."""
    with ExitStack() as stack:
        for place, name, other in without:
            stack.enter_context(patch.object(place, name, other))
        began = time.process_time()
        found = assign(graph, objective=objective)
        spent = time.process_time() - began
    return Answer([tier.value for tier in found.tiers], [tier.status for tier in found.tiers], spent)


def row(stage: str, whole: Mapping[str, Answer], found: Mapping[str, Answer]) -> str:
    """A line of the table."""
    pairs = [(found[name], whole[name]) for name in found]
    counts = (
        sum(each.first > other.first for each, other in pairs),
        sum(each.first == other.first and each.values > other.values for each, other in pairs),
        sum(each.values < other.values for each, other in pairs),
        sum(each.weaker(other) for each, other in pairs),
        sum(each.slower(other) for each, other in pairs),
        sum(other.slower(each) for each, other in pairs),
    )
    times = sum(each.seconds for each, _ in pairs) / max(sum(other.seconds for _, other in pairs), 1e-9)
    return f"| {stage} | {' | '.join(map(str, counts))} | {times:.2f} |"


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder of .tflite files")
    parser.add_argument("--networks", type=int, default=150, help="how many random networks (default: 150)")
    parser.add_argument("--every", type=int, default=12, metavar="N", help="every N-th conformance case (default: 12)")
    parser.add_argument("--hard", action="store_true", help="the hard networks as well")
    parser.add_argument("--only", action="append", choices=list(STAGES), help="one stage, instead of all")
    parser.add_argument("--objective", choices=list(OBJECTIVES), default=DEFAULT_OBJECTIVE)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all answers to FILE")
    options = parser.parse_args(given)
    known = dict(graphs(options.folder, options.networks, options.every, options.hard))
    whole = {name: answered(graph, options.objective) for name, graph in known.items()}
    print(f"{len(whole)} models, {sum(each.seconds for each in whole.values()):.1f} s")
    print("| without | more moved | more Reshapes | less | less proven | slower | faster | time |")
    print("|---|---|---|---|---|---|---|---|")
    results = {"": whole}
    for stage in options.only or STAGES:
        found = {name: answered(graph, options.objective, STAGES[stage]) for name, graph in known.items()}
        results[stage] = found
        print(row(stage, whole, found), flush=True)
    write_json(
        options.json, {stage: {name: asdict(each) for name, each in one.items()} for stage, one in results.items()}
    )


if __name__ == "__main__":
    main()
