"""Writes the layout problems of models as instances, with the best solutions that are known.

    python -m experiments.instances.export OUT [--small] [--folder MODELS ...] [--only FAMILY] [--seconds 20]

A file for each format (``.json``, ``.wcsp``, ``.pbqp``, ``.mps``, ``.lp``) of every component with many combinations
of alternatives, those that are alike once; ``solutions/`` has the values of the best answer that is known, and
``index.csv`` its cost and what is proven. ``check.py`` checks a solution and needs nothing else.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.compare.formulations import tasks
from experiments.corpus import graph_of
from experiments.instances import check
from experiments.instances.formats import write
from experiments.instances.instance import Instance, Statement
from experiments.make.collection import SMALL, Sizes, collected, collection
from layoutsolve.errors import ConversionError
from layoutsolve.solver import Goal
from layoutsolve.solver.limit import DETERMINISTIC_SECOND, Limit
from layoutsolve.solver.search.component_search import solve_component


@dataclass(frozen=True)
class Known:
    """An instance, the best assignment that is known, and the bounds of its levels."""

    instance: Instance
    values: Sequence[int]
    bounds: Sequence[int]


def known(stated: Statement, instance: Instance, seconds: float) -> Known:
    """Solve a component that is stated."""
    task = stated.task
    limit = Limit(int(seconds * DETERMINISTIC_SECOND))
    found = solve_component(task.problem, task.domains, task.component, list(task.start), task.levels, limit)
    return Known(instance, stated.assignment(found.rows or task.begun), found.bounds)


def instances(sizes: Sizes, folders: Sequence[Path], only: str, seconds: float) -> Iterator[Known]:
    """The instances of all models; those that are alike once."""
    seen = set[str]()
    for model in (*collection(sizes), *collected(folders)):
        if only not in model.family:
            continue
        try:
            found = tasks(graph_of(model.make()), Goal())
        except ConversionError:
            continue
        for number, task in enumerate(found):
            stated = Statement(task)
            instance = stated.instance(f"{model.name}-{number}")
            key = json.dumps({**instance.document(), "name": ""})
            if key not in seen:
                seen.add(key)
                yield known(stated, instance, seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where they are written")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="a folder of .tflite and .onnx files")
    parser.add_argument("--only", default="", metavar="TEXT", help="families that have it in their names")
    parser.add_argument("--small", action="store_true", help="a few models, to try it")
    parser.add_argument("--seconds", type=float, default=20.0, help="of work for each (default: 20)")
    options = parser.parse_args(arguments)
    (options.out / "solutions").mkdir(parents=True, exist_ok=True)
    count = 0
    with (options.out / "index.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["instance", "variables", "values", "pairs", "levels", "best", "bounds", "proven"])
        for each in instances(SMALL if options.small else Sizes(), options.folder, options.only, options.seconds):
            instance, cost = each.instance, each.instance.cost(each.values)
            assert cost is not None, "an answer is an assignment"
            write(instance, options.out)
            (options.out / "solutions" / f"{instance.name}.json").write_text(f"{list(each.values)}\n")
            shown = [" ".join(map(str, numbers)) for numbers in (cost, each.bounds)]
            sizes = (len(instance.variables), instance.values, len(instance.never), "; ".join(instance.levels))
            rows.writerow([instance.name, *sizes, *shown, cost == tuple(each.bounds)])
            count += 1
    for name in (check.__file__, Path(__file__).with_name("README.md")):
        shutil.copy(name, options.out)
    print(f"{options.out}: {count} instances")


if __name__ == "__main__":
    main()
