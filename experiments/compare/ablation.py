"""What each stage of the solver is worth: models are solved with all of them, and with one left out at a time.

A line of the table has the models whose value is another one without the stage, in what the first three levels count or
in what comes after them, those of which less is proven in the first three levels, those that take more or less than a
fifth more time, and the time of all by that with every stage. Seconds are the processor's: other processes do not
count. Models are those of :mod:`experiments.make.collection` and of folders (``.tflite`` and ``.onnx``). With
``--rows`` answers are kept in a file, model by model, and a run that was interrupted goes on from there.

    python -m experiments.compare.ablation [FOLDER ...] [--networks 150] [--every 12] [--exported 3] [--hard 1]
        [--only STAGE] [--rows FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from experiments.corpus import graph_of
from experiments.make.collection import Sizes, collected, collection
from layoutsolve.errors import ConversionError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.search import component_search, search
from layoutsolve.solver.search.integer_program import DualBound, limited
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import assign as strategies
from layoutsolve.solver.strategies import orders, orders_then_groupings

Patch = tuple[Any, str, Any]

RANKS = {"optimal": 2, "conditional": 1, "feasible": 0}
FIRST = 3
"""The levels that what moves data is counted in."""

FIFTH, LEAST = 1.2, 0.05
"""How many times as long counts as slower, where that is so many seconds at least."""

WHOLE = ""
"""The name of what has every stage."""


def _nothing(*given: Any, **named: Any) -> None:
    """What stands for a stage that finds nothing."""


def _found(found: Any, *given: Any) -> Any:
    """What stands for a stage that betters nothing."""
    return found


_SEARCH: Any = vars(component_search)["_Search"]


STAGES: Mapping[str, Sequence[Patch]] = {
    "elimination": [(component_search, "eliminated", _nothing)],
    "the LP relaxation": [(_SEARCH, "_relaxed", _nothing)],
    "rounding of the LP": [(_SEARCH, "_round", _nothing)],
    "reduced-cost fixing": [
        (DualBound, "restricted", lambda self, total, told=True: limited(self.program, self.level, total))
    ],
    "CP-SAT": [(_SEARCH, "_searched", lambda self, place, program, tier, proven, least: least)],
    "large neighbourhood search": [(component_search, "improved_together", _nothing)],
    "few candidates first": [(orders, "FEW", orders.CANDIDATES)],
    "projections": [(orders, "projection_bound", _nothing)],
    "intermediate orders": [(orders, "_with_intermediate_orders", lambda candidates, found, *_: found)],
    "tie-breaking": [(search, "TIE", ())],
    "ties by what may be fused": [(Statement, "_join", _nothing)],
    "views as operators": [(orders_then_groupings, "_held_against_views", _found)],
    "heuristics, of what is not proven": [(orders_then_groupings, "_best", lambda known, found: found or known[0])],
    "steps of concatenations": [(strategies, "in_steps", _found)],
    "copies of initializers": [(orders_then_groupings, "shared_rows", lambda problem, rows: tuple(rows))],
}
"""What is put in place of what, to leave out a stage."""


@dataclass(frozen=True)
class Answer:
    """What a model comes to: the values of its levels, what is proven of each, and the seconds of solving it."""

    values: Sequence[int]
    statuses: Sequence[str]
    seconds: float

    @property
    def first(self) -> Sequence[int]:
        """What data is moved."""
        return self.values[:FIRST]

    def weaker(self, other: Answer) -> bool:
        """Whether less is proven in the first levels than of another answer."""
        pairs = zip(self.statuses[:FIRST], other.statuses[:FIRST], strict=True)
        return any(RANKS[mine] < RANKS[theirs] for mine, theirs in pairs)

    def slower(self, other: Answer) -> bool:
        """Whether it takes longer by more than a fifth."""
        return self.seconds > max(FIFTH * other.seconds, other.seconds + LEAST)


def graphs(options: argparse.Namespace) -> Iterator[tuple[str, Graph]]:
    """The graphs of all models that can be converted, with their names."""
    sizes = Sizes(options.networks, options.exported, options.every, options.hard)
    for model in (*collection(sizes), *collected(options.folder)):
        try:
            yield model.name, graph_of(model.make())
        except ConversionError:
            continue


def answered(graph: Graph, objective: str, without: Iterable[Patch] = ()) -> Answer:
    """A graph's answer where something is left out."""
    with ExitStack() as stack:
        for place, name, other in without:
            stack.enter_context(patch.object(place, name, other))
        began = time.process_time()
        found = assign(graph, objective=objective)
        spent = time.process_time() - began
    return Answer([tier.value for tier in found.tiers], [tier.status for tier in found.tiers], spent)


def reached(graph: Graph, objective: str, stages: Sequence[str]) -> list[str]:
    """The stages that a graph comes to: where a function is not called, nothing changes without it."""
    called = set[str]()

    def noting(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            called.add(stage)
            return function(*given, **named)

        return noted

    with ExitStack() as stack:
        for stage in stages:
            for place, name, other in STAGES[stage]:
                if callable(other):
                    stack.enter_context(patch.object(place, name, noting(stage, getattr(place, name))))
        answered(graph, objective)
    return [stage for stage in stages if stage in called or not any(callable(each[2]) for each in STAGES[stage])]


def answers(graph: Graph, objective: str, stages: Sequence[str]) -> dict[str, Answer]:
    """A graph's answers with everything, and without each stage. What the first solve alone has to load or to look up
    for the first time does not count.
    """
    other = reached(graph, objective, stages)
    whole = answered(graph, objective)
    return {WHOLE: whole} | {
        stage: answered(graph, objective, STAGES[stage]) if stage in other else whole for stage in stages
    }


def line(stage: str, found: Sequence[Mapping[str, Answer]]) -> str:
    """A line of the table."""
    pairs = [(each[stage], each[WHOLE]) for each in found]
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


def known(path: Path | None) -> dict[str, dict[str, Answer]]:
    """The answers in a file, by model."""
    lines = path.read_text().splitlines() if path is not None and path.is_file() else []
    return {
        name: {stage: Answer(**each) for stage, each in found.items()}
        for name, found in (json.loads(each) for each in lines)
    }


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="*", help="a folder of .tflite and .onnx files")
    parser.add_argument("--networks", type=int, default=150, help="random networks of each format (default: 150)")
    parser.add_argument(
        "--every", type=int, default=12, metavar="N", help="every N-th conformance case (default: 12), 0 for none"
    )
    parser.add_argument("--exported", type=int, default=3, metavar="N", help="exporters' networks of each family (3)")
    parser.add_argument("--hard", type=int, default=0, metavar="N", help="sizes of each hard network (default: 0)")
    parser.add_argument("--only", action="append", choices=list(STAGES), help="one stage, instead of all")
    parser.add_argument("--objective", choices=list(OBJECTIVES), default=DEFAULT_OBJECTIVE)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep all answers in FILE, and go on from it")
    options = parser.parse_args(given)
    stages = options.only or list(STAGES)
    found = known(options.rows)
    for name, graph in graphs(options):
        if name in found:
            continue
        found[name] = answers(graph, options.objective, stages)
        if options.rows is not None:
            with options.rows.open("a") as file:
                file.write(json.dumps([name, {stage: asdict(each) for stage, each in found[name].items()}]) + "\n")
    print(f"{len(found)} models, {sum(each[WHOLE].seconds for each in found.values()):.1f} s")
    print("| without | more moved | more after it | less | less proven | slower | faster | time |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for stage in stages:
        print(line(stage, [each for each in found.values() if stage in each]))


if __name__ == "__main__":
    main()
