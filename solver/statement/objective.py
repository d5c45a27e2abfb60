"""What is minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target
from layoutsolve.solver.theory.offer import Offer
from layoutsolve.solver.theory.row import Price

Tiers = tuple[tuple[str, ...], ...]
"""What is minimised: first the first tier, then the second among its minima, and so on; a tier sums fields of Price."""

OBJECTIVES: Mapping[str, Tiers] = {
    "min-executed": (("transposes", "hidden"), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
    "min-transpose": (("transposes",), ("hidden",), ("bytes",), ("reshapes",), ("copies",)),
    "min-bytes": (("bytes",), ("transposes", "hidden"), ("transposes",), ("reshapes",), ("copies",)),
    "min-nodes": (("transposes", "reshapes"), ("hidden",), ("bytes",), ("copies",)),
    "min-latency": (("nanoseconds",), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
}

DEFAULT_OBJECTIVE = "min-executed"

TIE = ("tie_break",)
"""The level that decides among answers of equal price: nothing is claimed of it."""


def ranked(price: Price, tiers: Tiers) -> tuple[int, ...]:
    """Price as a tuple that compares lexicographically by the objective's levels."""
    return tuple([getattr(price, tier[0]) if len(tier) == 1 else _total(price, tier) for tier in tiers])


def _total(price: Price, tier: Sequence[str]) -> int:
    return sum([getattr(price, name) for name in tier])


def coarse_tiers(tiers: Tiers) -> Tiers | None:
    """The levels that depend on orders alone, where only what depends on groupings too comes after them."""
    return tiers[:-2] if tiers[-2:] == (("reshapes",), ("copies",)) else None


def grouping(tiers: Tiers) -> bool:
    """Whether groupings are chosen, not orders alone."""
    return any("reshapes" in tier for tier in tiers)


def without_groupings(tiers: Tiers) -> Tiers:
    """Levels without what depends on groupings: Reshapes, and duplicated initializers."""
    own = (tuple(name for name in tier if name not in ("reshapes", "copies")) for tier in tiers)
    return tuple(filter(None, own))


@dataclass(frozen=True)
class Goal:
    """What layouts are chosen for: an objective, and the runtime that the model is for."""

    objective: str = DEFAULT_OBJECTIVE
    target: Target = field(default_factory=default_target)

    @property
    def tiers(self) -> Tiers:
        """What is minimised. Where backends are chosen crossings count as Transposes until all is known: what is about
        Transposes alone is left out.
        """
        tiers = OBJECTIVES[self.objective]
        return tuple(tier for tier in tiers if tier != ("transposes",)) if self.target.chooses else tiers

    @property
    def offer(self) -> Offer:
        """What ways there are to run operators. Where time counts first those for labels that the graph cuts are left
        out, which take more of it than what they save: :attr:`Assignment.kept` says so.
        """
        return replace(self.target.offer, cuts=not {"hidden", "nanoseconds"}.intersection(self.tiers[0]))

    @property
    def counted(self) -> bool:
        """Whether Reshapes count before the time of Transposes, so that none is made to save some."""
        names = [name for tier in self.tiers for name in tier if name in ("reshapes", "hidden", "nanoseconds")]
        return names[:1] == ["reshapes"]

    @property
    def timed(self) -> bool:
        """Whether rows and moves are priced in time as well."""
        return ("nanoseconds",) in self.tiers
