"""Things that have something in common."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Classes(Generic[Thing]):
    """Classes of equivalent things; what was never joined is one by itself."""

    def __init__(self) -> None:
        self._parents: dict[Thing, Thing] = {}

    def root(self, thing: Thing) -> Thing:
        """The one that stands for all of a class."""
        parents = self._parents
        while parents.setdefault(thing, thing) != thing:
            parents[thing] = parents[parents[thing]]
            thing = parents[thing]
        return thing

    def join(self, things: Sequence[Thing]) -> None:
        """Put the classes of some things together."""
        for thing in things[1:]:
            self._parents[self.root(thing)] = self.root(things[0])
