"""The files of targets: those that come with the package, by name, and others. ``docs/targets.md`` has the format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from layoutsolve.errors import OptionError
from layoutsolve.solver.statement.kinds import Class
from layoutsolve.solver.statement.target import DOMAINS, Cost, Latency, Target
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.offer import IDIOMS
from layoutsolve.solver.theory.rules import RULES
from layoutsolve.storage import WEIGHTS, Dynamic, Storage
from layoutsolve.wording import nearest, printable

T = TypeVar("T")
Name = TypeVar("Name", bound=str)

DEFAULT_TARGET, CONTRIB_TARGET = "ort-cpu", "ort-cpu-contrib"
"""ONNX Runtime on the CPU; the same with operators that only ONNX Runtime has."""

SHIPPED = (
    *(DEFAULT_TARGET, CONTRIB_TARGET, "ort-x86-vnni", "ort-arm", "ort-web"),
    *("openvino-cpu", "openvino-x86-vnni", "portable"),
)

FOLDER = Path(__file__).with_name("targets")
"""Where those are that come with the package."""

LARGEST_FILE = 1 << 20
"""The most bytes of a target's file."""

MOST_HIDDEN, MOST_SECONDS, MOST_BYTES, LONGEST = 100, 1.0, 64, 200
"""The most that a file may say: transpositions that a way is worth, seconds of a part of a cost, bytes of an element,
and characters of a text.
"""

_FIELDS = (
    "name", "runtime", "extends", "domains", "storage", "idioms", "dynamic", "qoperator", "hidden", "unsupported",
    "kernels", "classes", "extra", "latency",
)  # fmt: skip
_MAY_LACK = ("runtime", "extends", "domains", "storage", "idioms", "dynamic", "qoperator")
_MOVING = tuple(motion.name.lower() for motion in Motion if motion)
_OPERATORS = frozenset({*RULES, "Transpose"})
_COST = ("fixed", "per_byte", "per_block")


@lru_cache(maxsize=len(SHIPPED))
def shipped(name: str) -> Target:
    """A target that comes with the package."""
    return _target(_shipped(name))


def default_target() -> Target:
    """ONNX Runtime on the CPU."""
    return shipped(DEFAULT_TARGET)


def target_of(said: str) -> Target:
    """The target of a name, or of a file, whose path has a folder or ends in ``.json``.

    Raises :class:`OptionError`, which names the field of a file that is wrong.
    """
    if said in SHIPPED:
        return shipped(said)
    if os.path.basename(said) == said and not said.endswith(".json"):  # noqa: PTH119
        hint = nearest(said, SHIPPED)
        known = ", ".join(SHIPPED)
        raise OptionError(f"unknown target '{printable(said)}': use one of {known}, or a FILE.json{hint}")
    return read_target(said)


def read_target(path: str) -> Target:
    """The target of a file. Raises :class:`OptionError`, which names the field that is wrong."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OptionError(f"cannot read target '{printable(path)}': {reason}") from error
    return parsed(content, path)


def parsed(content: bytes, said: str) -> Target:
    """The target that the content of a file describes; ``said`` names the file in errors.

    Raises :class:`OptionError` for anything that does not.
    """
    try:
        if len(content) > LARGEST_FILE:
            raise _WrongError("", f"it has more than {LARGEST_FILE} bytes")
        try:
            found = json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise _WrongError("", f"it is no JSON ({error})") from error
        return _target(_completed(_object("", found)))
    except _WrongError as error:
        where = f"{error.field}: " if error.field else ""
        raise OptionError(f"target '{printable(said)}': {printable(f'{where}{error.reason}')}") from error


class _WrongError(Exception):
    """What is wrong, and in which field of the file, '' for the whole."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field, self.reason = field, reason


def _shipped(name: str) -> dict[str, Any]:
    return _completed(json.loads((FOLDER / f"{name.replace('-', '_')}.json").read_text()))


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a file with those of the target that it extends; all that a target needs is there. What it
    ``extends`` is then a list.
    """
    _known("", facts, _FIELDS)
    if "extends" in facts:
        base = _text("extends", facts["extends"])
        if base not in SHIPPED:
            raise _WrongError("extends", f"unknown target '{base}': use one of {', '.join(SHIPPED)}")
        extended = _shipped(base)
        line = [base, *extended.get("extends", ())]
        facts = {**_merged(extended, facts), "name": facts.get("name"), "extends": line}
    for field in _FIELDS:
        if facts.get(field) is None and field not in _MAY_LACK:
            raise _WrongError(field, "it is missing")
    return facts


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Objects are merged at any depth, anything else of ``over`` takes the place of what ``base`` has."""
    merged = dict(base)
    for key, value in over.items():
        held = merged.get(key)
        merged[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged


def _target(facts: dict[str, Any]) -> Target:
    name = _text("name", facts["name"])
    if name in DOMAINS:
        raise _WrongError("name", f"'{name}' is a domain of operators")
    _text("runtime", facts.get("runtime", "any"))
    refused = _of_operators("unsupported", facts["unsupported"], _kinds)
    domains = [_one("domains", domain, DOMAINS) for domain in _list("domains", facts.get("domains", []))]
    return Target(
        name,
        _by_kind("hidden", facts["hidden"], _count),
        frozenset((operator, kind) for operator, kinds in refused.items() for kind in kinds),
        _latency(_object("latency", facts["latency"]), _by_kind("extra", facts["extra"], _seconds)),
        frozenset(domains),
        _by_kind("kernels", facts["kernels"], _flag),
        _of_operators("classes", facts["classes"], _classes),
        frozenset({name, *facts.get("extends", ())}),
        _storage(_object("storage", facts.get("storage", {}))),
        _idioms(_object("idioms", facts.get("idioms", {}))),
        _dynamic(facts.get("dynamic")),
        _flag("qoperator", facts.get("qoperator", True)),
    )


def _storage(facts: dict[str, Any]) -> Storage:
    _known("storage", facts, ("unsigned", "weights", "block", "narrow", "pixel", "real"))
    weights = _one("storage.weights", facts.get("weights", "source"), WEIGHTS)
    unsigned, real = (_flag(f"storage.{name}", facts.get(name, False)) for name in ("unsigned", "real"))
    block, narrow, pixel = (_count(f"storage.{name}", facts.get(name, 0)) for name in ("block", "narrow", "pixel"))
    return Storage(unsigned, weights, block, narrow, pixel, real)


def _dynamic(facts: Any) -> Dynamic | None:
    if facts is None:
        return None
    _known("dynamic", facts, ("tensor", "rows"), needed=True)
    return Dynamic(*(_whole(f"dynamic.{steps}", facts[steps]) for steps in ("tensor", "rows")))


def _idioms(facts: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    names: dict[str, list[str]] = {}
    for operator, name in sorted(IDIOMS):
        names.setdefault(operator, []).append(name)
    _known("idioms", facts, names)
    return {
        operator: tuple(
            _one(f"idioms.{operator}", each, tuple(names[operator])) for each in _list(f"idioms.{operator}", value)
        )
        for operator, value in facts.items()
    }


def _latency(facts: dict[str, Any], extra: Mapping[tuple[str, str], float]) -> Latency:
    _known("latency", facts, ("transpose", "reshape"), needed=True)
    motions = _object("latency.transpose", facts["transpose"])
    _known("latency.transpose", motions, _MOVING, needed=True)
    costs: dict[tuple[Motion, int], Cost] = {}
    for name, sizes in motions.items():
        field = f"latency.transpose.{name}"
        for size, cost in _object(field, sizes).items():
            costs[Motion[name.upper()], _size(field, size)] = _cost(f"{field}.{size}", cost)
        if not sizes:
            raise _WrongError(field, "it has no costs: give those of one element size at least")
    return Latency(costs, _cost("latency.reshape", facts["reshape"]), extra)


def _cost(field: str, value: object) -> Cost:
    facts = _object(field, value)
    _known(field, facts, _COST)
    return Cost(**{part: _seconds(f"{field}.{part}", facts.get(part, 0.0)) for part in _COST})


def _by_kind(field: str, value: object, read: Callable[[str, object], T]) -> dict[tuple[str, str], T]:
    nested = _of_operators(
        field,
        value,
        lambda place, kinds: {kind: read(f"{place}.{kind}", item) for kind, item in _object(place, kinds).items()},
    )
    return {(operator, kind): item for operator, kinds in nested.items() for kind, item in kinds.items()}


def _of_operators(field: str, value: object, read: Callable[[str, object], T]) -> dict[str, T]:
    facts = _object(field, value)
    _known(field, facts, _OPERATORS)
    for operator in ("Transpose", "Reshape") if field in ("unsupported", "kernels") else ():
        if operator in facts:
            raise _WrongError(f"{field}.{operator}", "no target can do without")
    if "Transpose" in facts:
        _known(f"{field}.Transpose", facts["Transpose"], _MOVING)
    return {operator: read(f"{field}.{operator}", item) for operator, item in facts.items()}


def _kinds(field: str, value: object) -> list[str]:
    return [_text(field, kind) for kind in _list(field, value)]


def _classes(field: str, value: object) -> tuple[Class, ...]:
    found = []
    for name, facts in _object(field, value).items():
        place = f"{field}.{name}"
        _known(place, facts, ("of", "least", "most"))
        least, most = (_sizes(f"{place}.{bound}", facts.get(bound, {})) for bound in ("least", "most"))
        found.append(Class(_text(f"{place}.of", facts.get("of")), _text(place, name), least, most))
    return tuple(found)


def _sizes(field: str, value: object) -> dict[str, int]:
    return {size: _whole(f"{field}.{size}", number) for size, number in _object(field, value).items()}


def _known(field: str, facts: Any, names: Any, needed: bool = False) -> None:
    """Every name is one of these; where all are needed, none is missing."""
    for name in _object(field, facts):
        place = f"{field}.{name}" if field else name
        if name not in names:
            raise _WrongError(place, f"there is no such field{nearest(name, names)}")
    for name in names if needed else ():
        if name not in facts:
            raise _WrongError(f"{field}.{name}", "it is missing")


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(field, "it must be an object")
    return value


def _list(field: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongError(field, "it must be a list")
    return value


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise _WrongError(field, f"it must be a text of 1 to {LONGEST} printable characters")
    return value


def _one(field: str, value: object, known: tuple[Name, ...]) -> Name:
    said = _text(field, value)
    if said not in known:
        raise _WrongError(field, f"unknown '{said}': use {', '.join(known)}{nearest(said, known)}")
    return known[known.index(said)]


def _count(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_HIDDEN:
        raise _WrongError(field, f"it must be a whole number from 0 to {MOST_HIDDEN}")
    return value


def _whole(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _WrongError(field, "it must be a whole number, and not negative")
    return value


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongError(field, "it must be true or false")
    return value


def _size(field: str, said: str) -> int:
    if said not in map(str, range(1, MOST_BYTES + 1)):
        raise _WrongError(f"{field}.{said}", f"the bytes of an element must be a whole number from 1 to {MOST_BYTES}")
    return int(said)


def _seconds(field: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise _WrongError(field, f"it must be a number from 0 to {MOST_SECONDS:g}, in seconds")
    return float(value)
