"""Reading the table of a target: its lines of forms and policies. ``docs/targets.md`` has the format."""

from __future__ import annotations

import re
from typing import Any

from layoutsolve.solver.statement import fields
from layoutsolve.solver.statement.table import ANYTHING, POLICIES, PORTS, Backend, Line, Match, Table
from layoutsolve.solver.theory.letters import letters
from layoutsolve.solver.theory.rules import RULES

_LINE = ("operators", "policy", "price", "backend", "match", *PORTS)
_MATCH = ("kernel", "dtype", "name", "depthwise", "grouped", "least", "most", "after", "before")
_COUNTED = ("channels", "produced")
_DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32")

MOST_LINES = 1000
"""The most lines of a table."""


def table(facts: Any, backends: Any, chooses: bool) -> Table:
    """The table that a list of lines describes, and what is said of their backends, and whether these are chosen.

    Raises :class:`fields.WrongError` for what says nothing.
    """
    lines, found = fields.items("forms", facts), dict[str, Backend]()
    if len(lines) > MOST_LINES:
        raise fields.WrongError("forms", f"there are more than {MOST_LINES} of them")
    for name, each in fields.table("backends", backends).items():
        place = f"backends.{name}"
        fields.text(place, name)
        fields.known(place, each, ("crossing",))
        found[name] = Backend(fields.count(f"{place}.crossing", each.get("crossing", 0)))
    return Table(
        tuple(_line(f"forms[{number}]", each, tuple(found)) for number, each in enumerate(lines)), found, chooses
    )


def _line(field: str, value: object, backends: tuple[str, ...]) -> Line:
    facts = fields.table(field, value)
    fields.known(field, facts, _LINE)
    if "operators" not in facts:
        raise fields.WrongError(f"{field}.operators", "it is missing")
    known = (ANYTHING, *RULES)
    operators = tuple(fields.one(f"{field}.operators", each, known) for each in _some(f"{field}.operators", facts))
    ports = {name: _text(f"{field}.{name}", facts[name]) for name in PORTS if name in facts}
    policy = fields.one(f"{field}.policy", facts["policy"], POLICIES) if "policy" in facts else ""
    if policy == "follow" and "backend" in facts:
        raise fields.WrongError(f"{field}.backend", "what follows is in the backend of what it reads: leave it out")
    if policy and (ports or "price" in facts):
        raise fields.WrongError(f"{field}.policy", "a line is either a policy or a form with letters")
    if not policy and not ports:
        raise fields.WrongError(field, f"it says neither letters ({', '.join(PORTS)}) nor a policy")
    if "data" in ports and "out" not in ports:
        ports["out"] = ports["data"]
    price = fields.count(f"{field}.price", facts.get("price", 0))
    backend = fields.one(f"{field}.backend", facts["backend"], backends) if "backend" in facts else ""
    return Line(operators, ports, price, policy, _match(f"{field}.match", facts.get("match", {})), backend)


def _text(field: str, value: object) -> str:
    said = fields.text(field, value)
    try:
        letters(said)
    except ValueError as error:
        raise fields.WrongError(field, f"'{said}' says no order of dimensions: {error}") from error
    return said


def _match(field: str, value: object) -> Match:
    facts = fields.table(field, value)
    fields.known(field, facts, _MATCH)
    texts = {
        name: tuple(fields.text(f"{field}.{name}", each) for each in _some(f"{field}.{name}", facts))
        for name in ("kernel", "dtype", "name", "after", "before")
        if name in facts
    }
    for dtype in texts.get("dtype", ()):
        fields.one(f"{field}.dtype", dtype, _DTYPES)
    least, most = (_numbers(f"{field}.{name}", facts.get(name, {})) for name in ("least", "most"))
    depthwise, grouped = (
        fields.flag(f"{field}.{name}", facts[name]) if name in facts else None for name in ("depthwise", "grouped")
    )
    return Match(
        tuple(_window(f"{field}.kernel", each) for each in texts.get("kernel", ())),
        texts.get("dtype", ()),
        texts.get("name", ()),
        depthwise,
        grouped,
        least,
        most,
        texts.get("after", ()),
        texts.get("before", ()),
    )


def _some(field: str, facts: dict[str, Any]) -> list[Any]:
    """The list that a field is, which has something."""
    found = fields.items(field, facts[field.rpartition(".")[2]])
    if not found:
        raise fields.WrongError(field, "it is empty: leave it out, or name something")
    return found


def _numbers(field: str, value: object) -> dict[str, int]:
    facts = fields.table(field, value)
    fields.known(field, facts, _COUNTED)
    return {name: fields.whole(f"{field}.{name}", number) for name, number in facts.items()}


def _window(field: str, said: str) -> tuple[int, ...]:
    """The size of a window, as in ``3x3``."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){0,2}", said):
        raise fields.WrongError(field, f"'{said}' is no size of a window, as 3x3 is one")
    return tuple(map(int, said.split("x")))
