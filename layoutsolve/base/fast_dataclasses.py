"""Data classes that are quick to make: a program that converts one small model makes a hundred of them for it.

As :func:`dataclasses.dataclass`, which compiles up to six methods of a class, and here one. What is ``frozen`` has a
hash, but that it is not assigned to is checked by mypy alone. What ``layoutsolve`` exports is therefore made by
:mod:`dataclasses` itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **asked):
        """Make a class that holds data of its annotations; called with options or without."""
        return _made(cls, **asked) if cls is not None else lambda each: _made(each, **asked)


def _made(cls: type, frozen: bool = False, eq: bool = True, repr: bool = True, **asked: bool) -> type:
    if asked.get("order"):
        return dataclasses.dataclass(frozen=frozen, eq=eq, repr=repr, **asked)(cls)
    own = {name for name, method in vars(cls).items() if method is not None}
    made: Any = dataclasses.dataclass(eq=False, repr=False, **asked)(cls)
    fields = dataclasses.fields(made)
    methods: dict[str, object] = {}
    if repr:
        methods["__repr__"] = _shown([each.name for each in fields if each.repr])
    if eq:
        key = _key([each.name for each in fields if each.compare])
        methods["__eq__"] = _equal(key)
        methods["__hash__"] = (lambda self: hash(key(self))) if frozen else None
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    found: type = made
    return found


def _key(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """What is compared of a class: the values of these names."""
    if not names:
        return lambda self: ()
    found = attrgetter(*names)
    return found if len(names) > 1 else lambda self: (found(self),)


def _equal(key: Callable[[object], tuple[object, ...]]) -> Callable[[object, object], bool]:
    def equal(self: object, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _shown(names: Sequence[str]) -> Callable[[object], str]:
    def shown(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown
