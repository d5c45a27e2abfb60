"""Looking for answers that are called optimal and are not, by enumerating all orders of small random graphs.

Prints every graph whose answer is beaten, by its seed, with the price and the lower one; then for each objective and
target how many graphs were tried, called optimal and beaten, and how many were too large to enumerate. A bound above
the least price counts as beaten. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from layoutsolve.solver import OBJECTIVES, assign
from layoutsolve.solver.statement.assignment import Tier
from layoutsolve.solver.statement.objective import coarse_levels
from layoutsolve.solver.targets.target_file import SHIPPED, shipped
from tests.solver.every_grouping import lower_first
from tests.solver.every_layout import TooLargeError, cheapest
from tests.solver.mixed_graphs import mixed_graph

STAGED = tuple(name for name, tiers in OBJECTIVES.items() if coarse_levels(tiers) is not None)
"""The objectives that are proven of orders alone; of the others, and of time, the first tier is in question."""

STATUSES = ("optimal", "conditional", "feasible", "too large", "beaten")
"""What is counted."""


def hunted(seed: int, objective: str, target: str) -> tuple[str, str]:
    """The status of the answer to a random graph, and what beats it: '' if nothing does."""
    found = assign(mixed_graph(seed), objective=objective, target=shipped(target))
    first = found.tiers[0]
    try:
        if objective not in STAGED or found.goal.timed:
            return first.status, _told(first, lower_first(found, first.bound))
        best = cheapest(found)
    except TooLargeError:
        return "too large", ""
    except ValueError:  # nothing else costs as little as Transposes in a row, which are no orders
        if not found.opaque_views:
            raise
        return first.status, ""
    beaten = best.ranks[0] < found.bound or (best.beats and found.status == "optimal")
    return found.status, f"{best.known} with bound {found.bound}, by {best.ranks}" if beaten else ""


def _told(tier: Tier, least: int | None) -> str:
    """What beats a tier, '' where nothing does."""
    beaten = least is not None and least < tier.bound
    return f"{tier.value} with bound {tier.bound}, by {least}" if beaten else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's number (default 0)")
    parser.add_argument("--objective", choices=tuple(OBJECTIVES), action="append", help="one objective, instead of all")
    parser.add_argument("--target", choices=SHIPPED, action="append", help="one target, instead of all")
    options = parser.parse_args(arguments)
    beaten = 0
    for target in options.target or SHIPPED:
        for objective in options.objective or OBJECTIVES:
            counts: Counter[str] = Counter()
            for seed in range(options.seed, options.seed + options.count):
                status, lower = hunted(seed, objective, target)
                counts[status] += 1
                if lower:
                    counts["beaten"] += 1
                    print(f"graph {seed}, {objective}, {target}: {status}, {lower}", flush=True)
            beaten += counts["beaten"]
            facts = ", ".join(f"{name} {counts[name]}" for name in STATUSES)
            print(f"{objective}, {target}: {facts}", flush=True)
    return int(beaten > 0)


if __name__ == "__main__":
    sys.exit(main())
