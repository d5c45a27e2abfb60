"""Names of tensors and nodes: different from each other, and short where they derive from others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from layoutsolve.base.digest import digest

LONGEST = 160
"""The most characters of a name that nobody has given; longer ones are cut in the middle."""

_HEAD, _DIGEST = 96, 12


@lru_cache(maxsize=4096)
def short(name: str) -> str:
    """Shorten a name that is too long; the part left out is replaced by a digest."""
    if len(name) <= LONGEST:
        return name
    told = digest(name.encode("utf-8", "surrogatepass"))[:_DIGEST]
    return f"{name[:_HEAD]}~{told}~{name[_HEAD + _DIGEST + 2 - LONGEST :]}"


def stem(name: str) -> str:
    """What names that derive from another begin with: of a fused operator, which TensorFlow Lite calls after all its
    parts with semicolons between, the first. Runtimes copy every name many times while they load a model.
    """
    return short(name.partition(";")[0] or name)


class Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def take(self, names: Iterable[str]) -> None:
        """Let names be taken that are in use."""
        self._taken.update(names)

    def unique(self, name: str) -> str:
        """The name as it is, or with the first number behind it that makes it a new one."""
        candidate = name
        if candidate in self._taken:
            number = self._numbers.get(name, 1)
            while candidate in self._taken:
                candidate, number = f"{name}_{number}", number + 1
            self._numbers[name] = number
        self._taken.add(candidate)
        return candidate

    def derived(self, name: str, label: str) -> str:
        """A new name for something that belongs to what is called ``name``."""
        return self.unique(f"{stem(name)}/{label}")
