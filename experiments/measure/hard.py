"""Where the time of solving goes, over families of networks that are hard and, if asked for, a folder of models.

Every model is solved in a process of its own. A row has its operators, seconds of stating it and of searching, the
seconds and the peak of memory of all that, what is proven, and the Transposes beside those that the other strategies
leave; a star marks a price that another strategy's is below. Then follows, for families of several sizes, the exponent
of time over operators. Seconds are the processor's: other processes do not count.

    python -m experiments.measure.hard [--only swin] [--folder FOLDER] [--objective min-executed]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from experiments.corpus import graph_of, models, write_json
from experiments.make.hard_networks import FAMILIES
from experiments.measure.scale import exponent
from layoutsolve.errors import StrategyError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, STRATEGIES, Assignment, Goal, assign
from layoutsolve.solver.search import search
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.statement import Statement

STAGES = {
    "stating": ((Statement, "_state"), (Candidates, "problem"), (Candidates, "charging")),
    "search": ((search, "_search"),),
}
"""The functions that make up a stage."""


@dataclass(frozen=True)
class Measured:
    """One model: what is proven of it, its Transposes by strategy, seconds by stage and the process's peak in MB."""

    name: str
    operators: int
    seconds: float
    stages: dict[str, float]
    megabytes: float
    status: str
    ended: str
    value: int
    bound: int
    components: int
    branched: int
    transposes: int
    others: dict[str, int]
    above: list[str]


def _timed(spent: dict[str, float], stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose seconds are added to those of a stage."""

    def run(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return function(*given, **named)
        finally:
            spent[stage] += time.process_time() - began

    return run


def solved(graph: Graph, objective: str) -> tuple[Assignment, float, dict[str, float]]:
    """A graph's assignment, the seconds that it takes, and those of its stages."""
    spent = dict.fromkeys(STAGES, 0.0)
    with ExitStack() as stack:
        for stage, places in STAGES.items():
            for place, name in places:
                stack.enter_context(patch.object(place, name, _timed(spent, stage, getattr(place, name))))
        began = time.process_time()
        found = assign(graph, objective=objective)
        return found, time.process_time() - began, spent


def measure(name: str, make: Callable[[], bytes | Graph], objective: str, compare: bool) -> Measured:
    """Solve a model, and, where that is wanted, ask the other strategies as well."""
    graph = graph_of(make())
    found, seconds, spent = solved(graph, objective)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tiers, others, above = OBJECTIVES[objective], {}, []
    for strategy in STRATEGIES if compare else ():
        if strategy != "cpsat":
            try:
                other = assign(graph, objective=objective, strategy=strategy)
            except StrategyError:
                continue
            others[strategy] = other.price.transposes
            if ranked(other.price, tiers) < ranked(found.price, tiers):
                above.append(strategy)
    value = ranked(found.price, tiers)[0]
    return Measured(
        name,
        len(graph.nodes),
        seconds,
        spent,
        peak,
        found.status,
        found.ended,
        value,
        found.bound,
        found.components,
        found.branched,
        found.price.transposes,
        others,
        above,
    )


def _apart(connection: Any, work: Callable[[], Measured]) -> None:
    connection.send(work())
    connection.close()


def apart(work: Callable[[], Measured]) -> Measured | None:
    """What some work comes to in a process of its own; None where that fails."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_apart, args=(sending, work))
    process.start()
    sending.close()
    try:
        return receiving.recv()  # type: ignore[no-any-return]
    except EOFError:
        return None
    finally:
        process.join()


def row(found: Measured) -> str:
    """A line of the table."""
    stages = " | ".join(f"{found.stages[stage]:.2f}" for stage in STAGES)
    proven = found.status if not found.ended else f"{found.status} ({found.ended})"
    others = ", ".join(f"{name} {count}" for name, count in found.others.items())
    return (
        f"| {found.name} | {found.operators} | {found.components} | {found.branched} | {stages} | {found.seconds:.2f} "
        f"| {found.megabytes:.0f} | {proven} | {found.value}{'*' if found.above else ''} | {found.bound} "
        f"| {found.transposes} | {others} |"
    )


def _read(path: Path) -> bytes:
    return path.read_bytes()


def works(only: Sequence[str], folder: Path | None) -> Iterator[tuple[str, str, Callable[[], bytes | Graph]]]:
    """The family, the name and what makes it of every model whose name has one of some texts."""
    found: list[tuple[str, str, Callable[[], bytes | Graph]]] = []
    for family, (make, sizes) in FAMILIES.items():
        found += [(family, f"{family}:{size}", partial(make, size)) for size in sizes]
    for model in models(folder) if folder else ():
        found.append((model.name, model.name, partial(_read, model.path)))
    for family, name, make in found:
        if not only or any(text in name for text in only):
            yield family, name, make


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="models whose names contain TEXT")
    parser.add_argument("--folder", type=Path, help="a folder of .tflite files, measured as well")
    parser.add_argument("--objective", default=Goal().objective, choices=OBJECTIVES)
    parser.add_argument("--alone", action="store_true", help="do not ask the other strategies")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    options = parser.parse_args(arguments)
    print("| model | operators | components | Booleans | stating | search | seconds | MB | status ", end="")
    print("| price | bound | Transposes | others |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    families: dict[str, list[Measured]] = {}
    for family, name, make in works(options.only, options.folder):
        found = apart(partial(measure, name, make, options.objective, not options.alone))
        if found is None:
            print(f"| {name} | failed |", flush=True)
            continue
        families.setdefault(family, []).append(found)
        print(row(found), flush=True)
    for family, measured in families.items():
        if len(measured) > 1:
            slope = exponent([each.operators for each in measured], [each.seconds for each in measured])
            print(f"{family}: exponent of time over operators {slope:.2f}")
    write_json(options.json, [asdict(each) for measured in families.values() for each in measured])


if __name__ == "__main__":
    main()
