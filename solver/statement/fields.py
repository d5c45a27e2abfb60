"""Reading the fields of a file that somebody wrote: each is checked, and what is wrong with one names it."""

from __future__ import annotations

from typing import Any, TypeVar

from layoutsolve.wording import nearest

Name = TypeVar("Name", bound=str)

MOST_HIDDEN, MOST_SECONDS, MOST_BYTES, LONGEST = 100, 1.0, 64, 200
"""The most that a file may say: transpositions that a way is worth, seconds of a part of a cost, bytes of an element,
and characters of a text.
"""


class WrongError(Exception):
    """What is wrong, and in which field of the file, '' for the whole."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field, self.reason = field, reason


def known(field: str, facts: Any, names: Any, needed: bool = False) -> None:
    """Every name is one of these; where all are needed, none is missing."""
    for name in table(field, facts):
        place = f"{field}.{name}" if field else name
        if name not in names:
            raise WrongError(place, f"there is no such field{nearest(name, names)}")
    for name in names if needed else ():
        if name not in facts:
            raise WrongError(f"{field}.{name}", "it is missing")


def table(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongError(field, "it must be an object")
    return value


def items(field: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise WrongError(field, "it must be a list")
    return value


def text(field: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise WrongError(field, f"it must be a text of 1 to {LONGEST} printable characters")
    return value


def one(field: str, value: object, known: tuple[Name, ...]) -> Name:
    said = text(field, value)
    if said not in known:
        raise WrongError(field, f"unknown '{said}': use {', '.join(known)}{nearest(said, known)}")
    return known[known.index(said)]


def count(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_HIDDEN:
        raise WrongError(field, f"it must be a whole number from 0 to {MOST_HIDDEN}")
    return value


def whole(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WrongError(field, "it must be a whole number, and not negative")
    return value


def flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongError(field, "it must be true or false")
    return value


def size(field: str, said: str) -> int:
    if said not in map(str, range(1, MOST_BYTES + 1)):
        raise WrongError(f"{field}.{said}", f"the bytes of an element must be a whole number from 1 to {MOST_BYTES}")
    return int(said)


def seconds(field: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise WrongError(field, f"it must be a number from 0 to {MOST_SECONDS:g}, in seconds")
    return float(value)
