"""Planted optima: graphs that need a known number of Transposes, hidden by random equivalences, solved again.

For each case of an operator and each seed the graph behind its disguise is converted; what it is written as runs in
ONNX Runtime beside the planted one. Prints every graph that is left with more than were planted, or that computes
something else, by operator and seed, then for each outcome how many there were: as planted, feasible (above by one,
and not called optimal), kept (above, and called minimal with operators that are named as kept in their own layout, as
Reshapes are whose blocks have no common factors), again (a second run on the result betters a proven tier) and above.
The exit status is 1 if there is any of the last two, or a wrong result.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.ir.graph import Array
from layoutsolve.solver import OBJECTIVES
from tests.graphs import computed, feeds, run
from tests.solver.cases import CASES
from tests.solver.converted_again import improved
from tests.solver.planted import Planted, planted
from tests.solver.standard import RELATED

OUTCOMES = ("as planted", "feasible", "kept", "not run", "again", "above", "wrong")
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
    if not _close(truth, computed(found.model, data)):
        return "wrong", "the conversion"
    first, most = found.assignment.tiers[0], made.transposes
    if objective != "min-transpose":
        most = (
            layoutsolve.convert(serialise(made.base).SerializeToString(), objective=objective).assignment.tiers[0].value
        )
    if twice and (less := improved(found)) is not None:
        return "again", "stated {}, as it stands {}, and then {}".format(*less)
    if first.value <= most:
        return "as planted", ""
    kept = dict(found.assignment.kept)
    told = f"{first.value} for {most}, {first.status}, kept {kept}: {', '.join(made.disguise)}"
    if first.status == "optimal":
        return ("kept" if kept else "above"), told
    return ("feasible" if first.value == most + 1 else "above"), told


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
            if told:
                print(f"{operator} {seed}: {what}, {told}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]))
    return int(any(counts[name] for name in OUTCOMES[-3:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
