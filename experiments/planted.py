"""Planted optima: graphs that need a known number of Transposes, hidden by random equivalences, solved again.

For each case of an operator and each seed the graph behind its disguise is converted; what it is written as runs in
ONNX Runtime beside the planted one. Prints every graph that is left with more than were planted, or that computes
something else, by operator and seed, then for each outcome how many there were: as planted, feasible (above by one,
and not called optimal), entangled (above, with Reshapes whose blocks have no common factors, which stay together),
open (above, with states, which may have any order of whole dimensions and are called feasible), again (a second run on
the result finds less in any tier) and above. The exit status is 1 if there is any of the last two, or a wrong result.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.graph import Array
from layoutsolve.solver import OBJECTIVES
from tests.graphs import feeds, run
from tests.solver.cases import CASES
from tests.solver.planted import Planted, planted
from tests.solver.siblings import RELATED

OUTCOMES = ("as planted", "feasible", "entangled", "open", "not run", "again", "above", "wrong")
"""What is counted; the last three are faults."""


def outcome(made: Planted, seed: int, objective: str, twice: bool) -> tuple[str, str]:
    """What becomes of a hidden graph, and what is to be told of it."""
    data = feeds(made.base, seed)
    try:
        truth, hidden = run(made.base, data), run(made.hidden, data)
    except Exception as error:  # what the runtime refuses is no case
        return "not run", str(error)[:160]
    if not _close(truth, hidden):
        return "wrong", "the disguise"
    found = layoutsolve.convert(serialise(made.hidden).SerializeToString(), objective=objective)
    if not _close(truth, _computed(found.model, data)):
        return "wrong", "the conversion"
    first, most = found.assignment.tiers[0], made.transposes
    if objective != "min-transpose":
        most = (
            layoutsolve.convert(serialise(made.base).SerializeToString(), objective=objective).assignment.tiers[0].value
        )
    if twice:
        again = layoutsolve.convert(found.model.SerializeToString(), objective=objective).assignment.tiers
        pairs = [(tier.value, other.value) for tier, other in zip(found.assignment.tiers, again, strict=False)]
        changed = next(((one, other) for one, other in pairs if one != other), (0, 0))
        if changed[1] < changed[0]:
            return "again", f"{changed[0]} and then {changed[1]}"
    if first.value <= most:
        return "as planted", ""
    told = f"{first.value} for {most}, {first.status}: {', '.join(made.disguise)}"
    nodes = found.assignment.graph.nodes
    if any(nodes[number].op == "Reshape" for number in found.assignment.rules):
        return "entangled", told
    if any(node.op == "State" for node in nodes) and first.status == "feasible":
        return "open", told
    return ("feasible" if first.status == "feasible" and first.value == most + 1 else "above"), told


def _computed(model: ModelProto, data: Sequence[Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return list(session.run(None, dict(zip(names, data, strict=False))))


def _close(truth: Sequence[Array], found: Sequence[Array]) -> bool:
    pairs = zip(truth, found, strict=False)
    return all(np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True) for one, other in pairs)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="seeds for each operator")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--only", action="append", metavar="OPERATOR")
    parser.add_argument("--objective", choices=sorted(OBJECTIVES), default="min-transpose")
    parser.add_argument("--again", action="store_true", help="convert what was written once more")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.count):
        for operator in options.only or sorted({**CASES, **RELATED}):
            what, told = outcome(planted(operator, seed), seed, options.objective, options.again)
            counts[what] += 1
            if told and what not in ("entangled", "not run"):
                print(f"{operator} {seed}: {what}, {told}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]))
    return int(any(counts[name] for name in OUTCOMES[-3:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
