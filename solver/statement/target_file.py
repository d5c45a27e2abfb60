"""The files of targets: those that come with the package, by name, and others. ``docs/targets.md`` has the format."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from layoutsolve.errors import OptionError
from layoutsolve.solver.statement import fields
from layoutsolve.solver.statement.kinds import Class
from layoutsolve.solver.statement.table import DEAREST, Table
from layoutsolve.solver.statement.table_file import table
from layoutsolve.solver.statement.target import DOMAINS, Cost, Latency, Target
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.offer import IDIOMS
from layoutsolve.solver.theory.rules import RULES
from layoutsolve.storage import COUNTS, FLAGS, WEIGHTS, Dynamic, Storage
from layoutsolve.wording import nearest, printable

T = TypeVar("T")

DEFAULT_TARGET, CONTRIB_TARGET = "ort-cpu", "ort-cpu-contrib"
"""ONNX Runtime on the CPU; the same with operators that only ONNX Runtime has."""

SHIPPED = (
    *(DEFAULT_TARGET, CONTRIB_TARGET, "ort-arm", "ort-web"),
    *("openvino-cpu", "openvino-x86-vnni", "portable"),
)
"""Runtimes, which are measured."""

SYSTEMS = ("onnx", "tvm-nchw", "tvm-nhwc", "nchw16c", "acl", "mace", "litert-nhwc")
"""Layout systems: ONNX itself, and such that have forms of their own, for which a plan is made."""

KNOWN = SHIPPED + SYSTEMS
"""All that come with the package."""

ALIASES = {"ort-x86-vnni": DEFAULT_TARGET}
"""Other names of targets that come with the package."""

FOLDER = Path(__file__).with_name("targets")
"""Where those are that come with the package."""

LARGEST_FILE = 1 << 20
"""The most bytes of a target's file."""

_FIELDS = (
    "name", "runtime", "extends", "domains", "storage", "idioms", "dynamic", "qoperator", "hidden", "unsupported",
    "kernels", "classes", "extra", "latency", "forms", "backends", "choose",
)  # fmt: skip
_MAY_LACK = (
    *("runtime", "extends", "domains", "storage", "idioms", "dynamic", "qoperator", "latency"),
    *("forms", "backends", "choose"),
)
_JSON, _TOML = _ENDINGS = (".json", ".toml")
_MOVING = tuple(motion.name.lower() for motion in Motion if motion)
_OPERATORS = frozenset({*RULES, "Transpose"})
_COST = ("fixed", "per_byte", "per_block")


@lru_cache(maxsize=len(KNOWN))
def shipped(name: str) -> Target:
    """A target that comes with the package."""
    return _target(_shipped(name))


def default_target() -> Target:
    """ONNX Runtime on the CPU."""
    return shipped(DEFAULT_TARGET)


def target_of(said: str) -> Target:
    """The target of a name, or of a file, whose path has a folder or ends in ``.json`` or ``.toml``.

    Raises :class:`OptionError`, which names the field of a file that is wrong.
    """
    if said in KNOWN or said in ALIASES:
        return shipped(ALIASES.get(said, said))
    if os.path.basename(said) == said and not said.endswith(_ENDINGS):  # noqa: PTH119
        hint = nearest(said, KNOWN)
        known = ", ".join(KNOWN)
        raise OptionError(f"unknown target '{printable(said)}': use one of {known}, or a FILE.toml or .json{hint}")
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
    """The target that the content of a file describes; ``said`` names the file in errors, and is TOML where it ends so,
    else JSON.

    Raises :class:`OptionError` for anything that does not.
    """
    try:
        if len(content) > LARGEST_FILE:
            raise fields.WrongError("", f"it has more than {LARGEST_FILE} bytes")
        try:
            found = _facts(content.decode(), said)
        except (ValueError, RecursionError) as error:
            raise fields.WrongError("", f"it is no {'TOML' if said.endswith(_TOML) else 'JSON'} ({error})") from error
        return _target(_completed(fields.table("", found)))
    except fields.WrongError as error:
        where = f"{error.field}: " if error.field else ""
        raise OptionError(f"target '{printable(said)}': {printable(f'{where}{error.reason}')}") from error


def _facts(content: str, said: str) -> Any:
    """What a file says, in whichever of the two syntaxes it is. Raises :class:`ValueError` for one that is neither."""
    if not said.endswith(_TOML):
        return json.loads(content, object_pairs_hook=_once)
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(content)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which TOML would not let a field be there twice either."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise fields.WrongError(name, "it is there twice")
        found[name] = value
    return found


def _shipped(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name.replace('-', '_')}{_TOML if name in SYSTEMS else _JSON}"
    return _completed(_facts(path.read_text(encoding="utf-8"), path.name))


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a file with those of the target that it extends; all that a target needs is there. What it
    ``extends`` is then a list.
    """
    fields.known("", facts, _FIELDS)
    if "extends" in facts:
        base = fields.text("extends", facts["extends"])
        base = ALIASES.get(base, base)
        if base not in KNOWN:
            raise fields.WrongError("extends", f"unknown target '{base}': use one of {', '.join(KNOWN)}")
        extended = _shipped(base)
        line = [base, *extended.get("extends", ())]
        facts = {**_merged(extended, facts), "name": facts.get("name"), "extends": line}
    for field in _FIELDS:
        if facts.get(field) is None and field not in _MAY_LACK:
            raise fields.WrongError(field, "it is missing")
    return facts


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Objects are merged at any depth, anything else of ``over`` takes the place of what ``base`` has."""
    merged = dict(base)
    for key, value in over.items():
        held = merged.get(key)
        merged[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged


def _target(facts: dict[str, Any]) -> Target:
    name = fields.text("name", facts["name"])
    if name in DOMAINS:
        raise fields.WrongError("name", f"'{name}' is a domain of operators")
    fields.text("runtime", facts.get("runtime", "any"))
    refused = _of_operators("unsupported", facts["unsupported"], _kinds)
    domains = [fields.one("domains", domain, DOMAINS) for domain in fields.items("domains", facts.get("domains", []))]
    return Target(
        name,
        _by_kind("hidden", facts["hidden"], fields.count),
        frozenset((operator, kind) for operator, kinds in refused.items() for kind in kinds),
        _latency(facts.get("latency"), _by_kind("extra", facts["extra"], fields.seconds)),
        frozenset(domains),
        _by_kind("kernels", facts["kernels"], fields.flag),
        _of_operators("classes", facts["classes"], _classes),
        frozenset({name, *facts.get("extends", ())}),
        _storage(fields.table("storage", facts.get("storage", {}))),
        _idioms(fields.table("idioms", facts.get("idioms", {}))),
        _dynamic(facts.get("dynamic")),
        fields.flag("qoperator", facts.get("qoperator", True)),
        _table(facts),
    )


def _table(facts: dict[str, Any]) -> Table | None:
    chooses = fields.flag("choose", facts.get("choose", False))
    if not chooses and "forms" not in facts and "backends" not in facts:
        return None
    found = table(facts.get("forms", []), facts.get("backends", {}), chooses)
    if chooses and not found.backends:
        raise fields.WrongError("choose", "there are no backends to choose from: name some in backends")
    for name, each in found.backends.items() if chooses else ():
        if each.crossing > DEAREST:
            raise fields.WrongError(f"backends.{name}.crossing", f"where backends are chosen, it is at most {DEAREST}")
    return found


def _storage(facts: dict[str, Any]) -> Storage:
    fields.known("storage", facts, ("weights", *FLAGS, *COUNTS))
    weights = fields.one("storage.weights", facts.get("weights", "source"), WEIGHTS)
    found: dict[str, Any] = {name: fields.flag(f"storage.{name}", facts.get(name, False)) for name in FLAGS}
    found |= {name: fields.count(f"storage.{name}", facts.get(name, 0)) for name in COUNTS}
    return Storage(weights=weights, **found)


def _dynamic(facts: Any) -> Dynamic | None:
    if facts is None:
        return None
    fields.known("dynamic", facts, ("tensor", "rows"), needed=True)
    return Dynamic(*(fields.whole(f"dynamic.{steps}", facts[steps]) for steps in ("tensor", "rows")))


def _idioms(facts: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    names: dict[str, list[str]] = {}
    for operator, name in sorted(IDIOMS):
        names.setdefault(operator, []).append(name)
    fields.known("idioms", facts, names)
    return {
        operator: tuple(
            fields.one(f"idioms.{operator}", each, tuple(names[operator]))
            for each in fields.items(f"idioms.{operator}", value)
        )
        for operator, value in facts.items()
    }


def _latency(facts: Any, extra: Mapping[tuple[str, str], float]) -> Latency:
    """The times of a target, none where it tells none."""
    if facts is None:
        return Latency(extra=extra)
    fields.known("latency", facts, ("transpose", "reshape"), needed=True)
    motions = fields.table("latency.transpose", facts["transpose"])
    fields.known("latency.transpose", motions, _MOVING, needed=True)
    costs: dict[tuple[Motion, int], Cost] = {}
    for name, sizes in motions.items():
        field = f"latency.transpose.{name}"
        for size, cost in fields.table(field, sizes).items():
            costs[Motion[name.upper()], fields.size(field, size)] = _cost(f"{field}.{size}", cost)
        if not sizes:
            raise fields.WrongError(field, "it has no costs: give those of one element size at least")
    return Latency(costs, _cost("latency.reshape", facts["reshape"]), extra)


def _cost(field: str, value: object) -> Cost:
    facts = fields.table(field, value)
    fields.known(field, facts, _COST)
    return Cost(**{part: fields.seconds(f"{field}.{part}", facts.get(part, 0.0)) for part in _COST})


def _by_kind(field: str, value: object, read: Callable[[str, object], T]) -> dict[tuple[str, str], T]:
    nested = _of_operators(
        field,
        value,
        lambda place, kinds: {kind: read(f"{place}.{kind}", item) for kind, item in fields.table(place, kinds).items()},
    )
    return {(operator, kind): item for operator, kinds in nested.items() for kind, item in kinds.items()}


def _of_operators(field: str, value: object, read: Callable[[str, object], T]) -> dict[str, T]:
    facts = fields.table(field, value)
    fields.known(field, facts, _OPERATORS)
    for operator in ("Transpose", "Reshape") if field in ("unsupported", "kernels") else ():
        if operator in facts:
            raise fields.WrongError(f"{field}.{operator}", "no target can do without")
    if "Transpose" in facts:
        fields.known(f"{field}.Transpose", facts["Transpose"], _MOVING)
    return {operator: read(f"{field}.{operator}", item) for operator, item in facts.items()}


def _kinds(field: str, value: object) -> list[str]:
    return [fields.text(field, kind) for kind in fields.items(field, value)]


def _classes(field: str, value: object) -> tuple[Class, ...]:
    found = []
    for name, facts in fields.table(field, value).items():
        place = f"{field}.{name}"
        fields.known(place, facts, ("of", "least", "most"))
        least, most = (_sizes(f"{place}.{bound}", facts.get(bound, {})) for bound in ("least", "most"))
        found.append(Class(fields.text(f"{place}.of", facts.get("of")), fields.text(place, name), least, most))
    return tuple(found)


def _sizes(field: str, value: object) -> dict[str, int]:
    return {size: fields.whole(f"{field}.{size}", number) for size, number in fields.table(field, value).items()}
