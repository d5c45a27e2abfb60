"""What is minimised: the levels of each objective, one after the other, and what a price comes to by these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target
from layoutsolve.solver.theory.offer import Offer
from layoutsolve.solver.theory.row import Price

Levels = tuple[tuple[str, ...], ...]
"""What is minimised: first the first level, then the second among its minima, and so on; a level sums fields of Price.
"""

OBJECTIVES: Mapping[str, Levels] = {
    "min-executed": (("transposes", "hidden"), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
    "min-transpose": (("transposes",), ("hidden",), ("bytes",), ("reshapes",), ("copies",)),
    "min-bytes": (("bytes",), ("transposes", "hidden"), ("transposes",), ("reshapes",), ("copies",)),
    "min-nodes": (("transposes", "reshapes"), ("hidden",), ("bytes",), ("copies",)),
    "min-latency": (("nanoseconds",), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
}

DEFAULT_OBJECTIVE = "min-executed"

TIE = ("regrouped",)
"""The level that decides among answers of equal price: nothing is claimed of it."""


def ranked(price: Price, levels: Levels) -> tuple[int, ...]:
    """Price as a tuple that compares lexicographically by the objective's levels."""
    return tuple([getattr(price, level[0]) if len(level) == 1 else _total(price, level) for level in levels])


def _total(price: Price, level: Sequence[str]) -> int:
    return sum([getattr(price, name) for name in level])


def coarse_levels(levels: Levels) -> Levels | None:
    """The levels that depend on orders alone, where only what depends on groupings too comes after them."""
    return levels[:-2] if levels[-2:] == (("reshapes",), ("copies",)) else None


def grouping(levels: Levels) -> bool:
    """Whether groupings are chosen, not orders alone."""
    return any("reshapes" in level for level in levels)


def without_groupings(levels: Levels) -> Levels:
    """Levels without what depends on groupings: Reshapes, and duplicated initializers."""
    own = (tuple(name for name in level if name not in ("reshapes", "copies")) for level in levels)
    return tuple(filter(None, own))


@dataclass(frozen=True)
class Goal:
    """What layouts are chosen for: an objective, and the runtime that the model is for."""

    objective: str = DEFAULT_OBJECTIVE
    target: Target = field(default_factory=default_target)

    @property
    def levels(self) -> Levels:
        """What is minimised. Where backends are chosen crossings count as Transposes until all is known: what is about
        Transposes alone is left out.
        """
        levels = OBJECTIVES[self.objective]
        return tuple(level for level in levels if level != ("transposes",)) if self.target.chooses else levels

    @property
    def offer(self) -> Offer:
        """What ways there are to run operators. Where time counts first those for labels that the graph cuts are left
        out, which take more of it than what they save: :attr:`Assignment.kept` says so. Where layout penalty is a level
        by itself no Transpose is taken off it.
        """
        cuts = not {"hidden", "nanoseconds"}.intersection(self.levels[0])
        return replace(self.target.offer, cuts=cuts, executed=("hidden",) not in self.levels)

    @property
    def counted(self) -> bool:
        """Whether Reshapes count before the time of Transposes, so that none is made to save some."""
        names = [name for level in self.levels for name in level if name in ("reshapes", "hidden", "nanoseconds")]
        return names[:1] == ["reshapes"]

    @property
    def timed(self) -> bool:
        """Whether rows and moves are priced in time as well."""
        return ("nanoseconds",) in self.levels
