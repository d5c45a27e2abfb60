"""Projection: which atoms a problem may leave out, so that its orders are few enough to state them all.

In a problem that does not see some factors every layout is what is left of it without their atoms. What is possible in
the whole problem is possible there, at no higher price: layouts that differ in what is seen differ, and those that do
not cost nothing to move. So its least price is a lower bound. It is a good one where atoms are left out that mostly lie
next to another one that is seen, in one dimension: the two mostly go together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

Factor = int
Group = tuple[Factor, ...]
Tensor = tuple[Group, ...]
"""The factors of each dimension of a tensor."""


def unseen(tensors: Iterable[Tensor], most: int) -> frozenset[Factor]:
    """The factors to leave out so that no tensor has more than ``most`` atoms.

    One after the other: always, of those in tensors with too many, the one that is least often without a certain
    neighbour in its dimension, the rarest of equals.
    """
    counts, found = Counter(tensors), set[Factor]()
    while crowded := {
        factor for tensor in counts if sum(map(len, tensor)) > most for factor in chain.from_iterable(tensor)
    }:
        left_out = _least_alone(counts, crowded)
        found.add(left_out)
        for tensor in [each for each in counts if any(left_out in group for group in each)]:
            count = counts.pop(tensor)
            counts[tuple(tuple(factor for factor in group if factor != left_out) for group in tensor)] += count
    return frozenset(found)


def _least_alone(counts: Counter[Tensor], among: set[Factor]) -> Factor:
    from fractions import Fraction  # which few models need

    groups, occurring, beside = Counter[Group](), Counter[Factor](), Counter[tuple[Factor, Factor]]()
    for tensor, count in counts.items():
        for group in tensor:
            groups[group] += count
    for group, count in groups.items():
        for place, factor in enumerate(group):
            if factor in among:
                occurring[factor] += count
                for neighbour in {*group[max(0, place - 1) : place + 2]} - {factor}:
                    beside[factor, neighbour] += count
    together = Counter[Factor]()
    for (factor, _), count in beside.items():
        together[factor] = max(together[factor], count)
    return min(among, key=lambda each: (1 - Fraction(together[each], occurring[each]), occurring[each], each))
