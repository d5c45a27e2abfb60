"""Data classes that are quick to make are as the standard ones, but that nothing hinders an assignment."""

import dataclasses
import itertools
from typing import Any

import pytest

import layoutsolve
from layoutsolve.base.fast_dataclasses import dataclass as quick

FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("a", {}),
    ("b", {"compare": False}),
    ("c", {"default": 2.0, "repr": False}),
    ("d", {"default_factory": tuple}),
    ("e", {"init": False, "default": None}),
]
METHODS = {"__repr__": lambda self: "own", "__eq__": lambda self, other: True, "__hash__": lambda self: 7}
VALUES = [(1, 2.5, "x", ()), (1, 3, "x", ()), (2, 2.5, "x", ()), (1, 2.5, "y", ()), (1, 2.5, "x", (1,))]


def made(make: Any, count: int, own: tuple[str, ...], options: dict[str, bool]) -> Any:
    """A class with the first fields and some methods of its own."""
    body = {name: dataclasses.field(**facts) for name, facts in FIELDS[:count]}
    types = {name: "object" for name, _ in FIELDS[:count]}
    return make(**options)(type("Made", (), body | {name: METHODS[name] for name in own} | {"__annotations__": types}))


def said(cls: Any, count: int) -> list[object]:
    """What objects of a class say of themselves and of each other."""
    objects = [cls(*each[: min(count, 4)]) for each in VALUES]
    shown = repr if "__repr__" in vars(cls) else type
    hashed = hash if cls.__hash__ not in (None, object.__hash__) else type
    one = [(str(shown(each)), str(hashed(each)), [each == other for other in objects]) for each in objects]
    copies = [dataclasses.replace(each, **({"a": 5} if count else {})) == each for each in objects]
    return [one, copies, cls.__hash__ is None, objects[0] == 1, objects[0] != 1]


@pytest.mark.parametrize("own", [(), ("__repr__",), ("__eq__",), ("__eq__", "__hash__")])
@pytest.mark.parametrize("count", range(len(FIELDS) + 1))
def test_classes_are_as_dataclasses_makes_them(count: int, own: tuple[str, ...]) -> None:
    for options in itertools.product((False, True), repeat=4):
        asked = dict(zip(("frozen", "eq", "repr", "slots"), options, strict=True))
        both = [made(make, count, own, asked) for make in (dataclasses.dataclass, quick)]
        assert said(both[0], count) == said(both[1], count), asked
        assert hasattr(both[1], "__slots__") == asked["slots"]
        assert [each.name for each in dataclasses.fields(both[1])] == [name for name, _ in FIELDS[:count]]


def test_ordered_ones_are_those_of_dataclasses() -> None:
    cls = made(quick, 1, (), {"order": True, "frozen": True})
    assert cls(1) < cls(2) and not cls(2) < cls(2) and sorted([cls(2), cls(1)]) == [cls(1), cls(2)]


def test_what_is_exported_is_frozen() -> None:
    found = [
        each for each in (getattr(layoutsolve, name) for name in layoutsolve.__all__) if dataclasses.is_dataclass(each)
    ]
    assert len(found) > 5
    for each in found:
        assert each.__dataclass_params__.frozen
        with pytest.raises(dataclasses.FrozenInstanceError):
            object.__new__(each).__setattr__(dataclasses.fields(each)[0].name, None)
