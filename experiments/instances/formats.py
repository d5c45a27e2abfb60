"""Instances as files: JSON with all levels, and, with the first level alone, WCSP, PBQP, MPS and LP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, pairwise, product
from pathlib import Path

import highspy
import numpy as np

from experiments.instances.instance import Instance


def top(instance: Instance) -> int:
    """More than any assignment costs in the first level: what stands for a cost that is not allowed."""
    return 1 + sum(max(cost[0] for cost in variable.costs) for variable in instance.variables)


def tables(instance: Instance) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """For each two variables that exclude each other's values, these pairs."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for each in instance.never:
        found.setdefault((each.first, each.second), set()).update(product(each.values, each.others))
    for (first, second), pairs in sorted(found.items()):
        yield first, second, sorted(pairs)


def wcsp(instance: Instance) -> str:
    """The format of weighted constraint satisfaction that toulbar2 reads."""
    most = top(instance)
    sizes = [len(variable.costs) for variable in instance.variables]
    functions = []
    for number, variable in enumerate(instance.variables):
        costs = [(value, cost[0]) for value, cost in enumerate(variable.costs) if cost[0]]
        if costs:
            functions.append([f"1 {number} 0 {len(costs)}", *(f"{value} {cost}" for value, cost in costs)])
    for first, second, pairs in tables(instance):
        head = f"2 {first} {second} 0 {len(pairs)}"
        functions.append([head, *(f"{one} {other} {most}" for one, other in pairs)])
    head = f"{instance.name} {len(sizes)} {max(sizes)} {len(functions)} {most}"
    return "\n".join([head, " ".join(map(str, sizes)), *chain.from_iterable(functions), ""])


def pbqp(instance: Instance) -> str:
    """Nodes and edges of a partitioned Boolean quadratic problem: how many there are, a line of costs for each node,
    and for each edge its nodes, and a line of its matrix for each value of the first.
    """
    edges = list(tables(instance))
    lines = [f"{len(instance.variables)} {len(edges)}"]
    lines += [" ".join(str(cost[0]) for cost in variable.costs) for variable in instance.variables]
    for first, second, pairs in edges:
        gone = set(pairs)
        lines.append(f"{first} {second}")
        for value in range(len(instance.variables[first].costs)):
            others = range(len(instance.variables[second].costs))
            lines.append(" ".join("inf" if (value, other) in gone else "0" for other in others))
    return "\n".join([*lines, ""])


def program(instance: Instance) -> highspy.Highs:
    """The first level as a linear program in zeros and ones: a variable for each value."""
    model = highspy.Highs()
    model.silent()
    starts = np.cumsum([0, *(len(variable.costs) for variable in instance.variables)])
    costs = np.array([float(cost[0]) for variable in instance.variables for cost in variable.costs])
    count = int(starts[-1])
    model.addVars(count, np.zeros(count), np.ones(count))
    every = np.arange(count, dtype=np.int32)
    model.changeColsCost(count, every, costs)
    model.changeColsIntegrality(count, every, np.full(count, highspy.HighsVarType.kInteger))
    for start, end in pairwise(starts):
        model.addRow(1.0, 1.0, int(end - start), every[start:end], np.ones(end - start))
    for each in instance.never:
        places = [*(starts[each.first] + value for value in each.values)]
        places += [starts[each.second] + value for value in each.others]
        model.addRow(-highspy.kHighsInf, 1.0, len(places), np.array(places, np.int32), np.ones(len(places)))
    return model


def write(instance: Instance, folder: Path) -> None:
    """Write an instance in every format."""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.dumps(instance.document(), separators=(",", ":"))
    (folder / f"{instance.name}.json").write_text(document + "\n")
    (folder / f"{instance.name}.wcsp").write_text(wcsp(instance))
    (folder / f"{instance.name}.pbqp").write_text(pbqp(instance))
    model = program(instance)
    for ending in ("mps", "lp"):
        model.writeModel(str(folder / f"{instance.name}.{ending}"))
