"""Schemas of files that users write: a reader checks a value, makes an object of it, and names the field that is wrong.

A reader is called with the path of the field, '' for the whole file, and its value as JSON or TOML has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from layoutsolve.base.wording import nearest

T = TypeVar("T")
Name = TypeVar("Name", bound=str)

Reader: TypeAlias = Callable[[str, Any], T]

LONGEST, SHOWN = 200, 20
"""The most characters of a text, and the most choices that a message lists."""


class FieldError(Exception):
    """What is wrong, and the path of the field."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field, self.reason = field, reason


def fields(
    field: str, value: Any, known: Collection[str] | None = None, needed: Collection[str] = ()
) -> dict[str, Any]:
    """Check that a value is an object of known fields, where these are given, with all that are needed."""
    if not isinstance(value, dict):
        raise FieldError(field, "it must be an object")
    for name in value:
        if known is not None and name not in known:
            others = f": use one of {', '.join(sorted(known))}" if len(known) <= SHOWN else ""
            raise FieldError(path(field, name), f"there is no such field{nearest(name, known) or others}")
    for name in needed:
        if name not in value:
            raise FieldError(path(field, name), "it is missing")
    return value


def path(field: str, name: str) -> str:
    """The path of a field within another one."""
    return f"{field}.{name}" if field else name


def text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise FieldError(field, f"it must be a text of 1 to {LONGEST} printable characters")
    return value


def flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise FieldError(field, "it must be true or false")
    return value


def whole(most: int | None = None) -> Reader[int]:
    """Reads a whole number that is not negative, and at most so much."""
    said = "a whole number, and not negative" if most is None else f"a whole number from 0 to {most}"

    def read(field: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (most is not None and value > most):
            raise FieldError(field, f"it must be {said}")
        return value

    return read


def choice(known: Collection[Name]) -> Reader[Name]:
    """Reads one of some texts."""

    def read(field: str, value: Any) -> Name:
        said = text(field, value)
        for name in known:
            if name == said:
                return name
        use = f": use {', '.join(known)}" if len(known) <= SHOWN else ""
        raise FieldError(field, f"unknown '{said}'{use}{nearest(said, known)}")

    return read


def array(item: Reader[T], some: bool = False) -> Reader[tuple[T, ...]]:
    """Reads a list, which has at least one item where it must have ``some``."""

    def read(field: str, value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise FieldError(field, "it must be a list")
        return tuple(item(field, each) for each in _filled(field, value, some))

    return read


def mapping(item: Reader[T], known: Collection[str] | None = None, some: bool = False) -> Reader[dict[str, T]]:
    """Reads an object of any fields, or of known ones, with values of one kind; at least one where it must have
    ``some``.
    """

    def read(field: str, value: Any) -> dict[str, T]:
        facts = _filled(field, fields(field, value, known), some)
        return {name: item(path(field, name), each) for name, each in facts.items()}

    return read


def _filled(field: str, value: Any, some: bool) -> Any:
    if some and not value:
        raise FieldError(field, "it is empty: leave it out, or name something")
    return value


def record(make: Callable[..., T], readers: Mapping[str, Reader[Any]], needed: Collection[str] = ()) -> Reader[T]:
    """Reads an object with a reader for each field, those that are there, and makes something of them by name."""

    def read(field: str, value: Any) -> T:
        facts = fields(field, value, readers, needed)
        return make(**{name: readers[name](path(field, name), each) for name, each in facts.items()})

    return read
