"""The files of targets: those that come with the package, by name, and others. ``docs/targets.md`` has the format."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from layoutsolve.base.wording import nearest, printable
from layoutsolve.errors import OptionError
from layoutsolve.ir.storage_options import COUNTS, FLAGS, WEIGHTS, Dynamic, Storage
from layoutsolve.solver.targets import field_readers
from layoutsolve.solver.targets.field_readers import FieldError, Reader, array, choice, mapping, record, whole
from layoutsolve.solver.targets.form_table import ANYTHING, DEAREST, POLICIES, PORTS, Backend, Line, Match, Table
from layoutsolve.solver.targets.kind_lookup import Class, Key
from layoutsolve.solver.targets.target import DOMAINS, LAYOUTS, Cost, Latency, Provider, Target
from layoutsolve.solver.theory.letters import letters
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.offer import IDIOMS
from layoutsolve.solver.theory.rules import RULES

DEFAULT_TARGET, CONTRIB_TARGET = "ort-cpu", "ort-cpu-contrib"
"""ONNX Runtime on the CPU; the same with operators that only ONNX Runtime has."""

SHIPPED = (
    *(DEFAULT_TARGET, CONTRIB_TARGET, "ort-arm", "ort-web"),
    *("openvino-cpu", "openvino-x86-vnni", "portable"),
)
"""Runtimes, which are measured."""

SYSTEMS = ("onnx", "tvm-nchw", "tvm-nhwc", "nchw16c", "acl", "mace", "litert")
"""Layout systems: ONNX itself, and such that have forms of their own, for which a plan is made."""

COUNTED = ("coreml", "cuda", "directml", "nnapi", "qnn", "tensorrt", "webgpu")
"""Runtimes that were not measured: Transposes count, and nothing else, and which operators they run is from their own
lists.
"""

KNOWN = SHIPPED + SYSTEMS + COUNTED
"""All that come with the package."""

TFLITE_TARGET = "litert"
"""What a model in TensorFlow Lite is for."""

ALIASES = {"ort-x86-vnni": DEFAULT_TARGET, "litert-nhwc": TFLITE_TARGET}
"""Other names of targets that come with the package."""

MEANT = dict.fromkeys(("browser", "javascript", "onnxruntime-web", "wasm", "web"), "ort-web")
"""Targets by other words for them."""

UNMEASURED = ("mnn", "opencv", "rocm", "webnn")
"""Runtimes that somebody may ask for by name, and that have no target."""

FOLDER = Path(__file__).with_name("files")
"""Where those are that come with the package."""

LARGEST_FILE, MOST_LINES = 1 << 20, 1000
"""The most bytes of a target's file, and lines of its table."""

MOST_HIDDEN, MOST_SECONDS, MOST_BYTES = 100, 1.0, 64
"""The most that a file may say: transpositions that a way is worth, seconds of a part of a cost, bytes of an element.
"""

_JSON, _TOML = _ENDINGS = (".json", ".toml")


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
        hint = nearest(MEANT.get(said.casefold(), said), KNOWN)
        known = ", ".join(KNOWN)
        if said.casefold() in UNMEASURED:
            raise OptionError(f"there is no target for '{printable(said)}', which was not measured: use 'portable'")
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
    """Target from the content of a file; ``said`` names the file in errors, and is TOML where it ends so, else JSON.

    Raises :class:`OptionError` for anything that does not.
    """
    try:
        if len(content) > LARGEST_FILE:
            raise FieldError("", f"it has more than {LARGEST_FILE} bytes")
        try:
            found = _facts(content.decode(), said)
        except (ValueError, RecursionError) as error:
            raise FieldError("", f"it is no {'TOML' if said.endswith(_TOML) else 'JSON'} ({error})") from error
        return _target(_completed(field_readers.fields("", found)))
    except FieldError as error:
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
            raise FieldError(name, "it is there twice")
        found[name] = value
    return found


def _shipped(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name.replace('-', '_')}{_JSON if name in SHIPPED else _TOML}"
    return _completed(_facts(path.read_text(encoding="utf-8"), path.name))


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a file with those of the target that it extends; all that a target needs is there. What it
    ``extends`` is then a list.
    """
    field_readers.fields("", facts, _FIELDS)
    if "extends" in facts:
        base = field_readers.text("extends", facts["extends"])
        base = ALIASES.get(base, base)
        if base not in KNOWN:
            raise FieldError("extends", f"unknown target '{base}': use one of {', '.join(KNOWN)}")
        extended = _shipped(base)
        line = [base, *extended.get("extends", ())]
        facts = {**_merged(extended, facts), "name": facts.get("name"), "extends": line}
    told = {name: fact for name, fact in facts.items() if fact is not None or name not in _NULLABLE}
    try:
        return field_readers.fields("", told, _FIELDS, _NEEDED)
    except FieldError as error:
        if "extends" in facts or error.field == "name":
            raise
        raise FieldError(error.field, f"{error.reason}: state it, or name a target that has it in 'extends'") from error


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Objects are merged at any depth, anything else of ``over`` takes the place of what ``base`` has."""
    merged = dict(base)
    for key, value in over.items():
        held = merged.get(key)
        merged[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged


def _target(facts: dict[str, Any]) -> Target:
    read = {name: _FIELDS[name](name, fact) for name, fact in facts.items()}
    if read["name"] in DOMAINS:
        raise FieldError("name", f"'{read['name']}' is a domain of operators")
    refused = ((operator, kind) for operator, kinds in read["unsupported"].items() for kind in kinds)
    latency: Latency = read.get("latency", Latency())
    said = {"forms": "lines", "backends": "backends", "choose": "chooses"}
    forms = {argument: read[name] for name, argument in said.items() if name in read}
    plain = ("hidden", "kernels", "classes", "storage", "idioms", "dynamic", "qoperator", "provider", "ties")
    return Target(
        read["name"],
        unsupported=frozenset(refused),
        latency=replace(latency, extra=read["extra"]),
        domains=frozenset(read.get("domains", ())),
        names=frozenset({read["name"], *read.get("extends", ())}),
        table=_table(**forms) if read.get("choose") or "forms" in read or "backends" in read else None,
        **{name: read[name] for name in plain if name in read},
    )


T = TypeVar("T")

_COUNT = whole(MOST_HIDDEN)
_DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32")
_MOTIONS = tuple(motion.name.lower() for motion in Motion if motion)


def _seconds(field: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise FieldError(field, f"it must be a number from 0 to {MOST_SECONDS:g}, in seconds")
    return float(value)


def _costs(field: str, value: Any) -> dict[tuple[Motion, int], Cost]:
    """The costs of Transposes by motion and bytes of an element."""
    sizes = mapping(_COST, tuple(map(str, range(1, MOST_BYTES + 1))), some=True)
    costs: dict[str, dict[str, Cost]] = record(dict, dict.fromkeys(_MOTIONS, sizes), needed=_MOTIONS)(field, value)
    return {(Motion[name.upper()], int(size)): cost for name, each in costs.items() for size, cost in each.items()}


def _of_operators(item: Reader[T]) -> Reader[dict[str, T]]:
    """Reads an object whose fields are operators; kinds of Transposes are motions."""
    operators = mapping(item, frozenset({*RULES, "Transpose"}))

    def read(field: str, value: Any) -> dict[str, T]:
        facts = field_readers.fields(field, value)
        for operator in ("Transpose", "Reshape") if field in ("unsupported", "kernels") else ():
            if operator in facts:
                raise FieldError(field_readers.path(field, operator), "no target can do without")
        if "Transpose" in facts:
            field_readers.fields(field_readers.path(field, "Transpose"), facts["Transpose"], _MOTIONS)
        return operators(field, facts)

    return read


def _by_kind(item: Reader[T]) -> Reader[dict[Key, T]]:
    """Reads an object of operators, each an object of kinds."""
    operators = _of_operators(mapping(item))

    def read(field: str, value: Any) -> dict[Key, T]:
        nested = operators(field, value)
        return {(operator, kind): each for operator, kinds in nested.items() for kind, each in kinds.items()}

    return read


def _classes(field: str, value: Any) -> tuple[Class, ...]:
    given = mapping(_CLASS)(field, value)
    return tuple(
        Class(name=field_readers.text(field_readers.path(field, name), name), **facts) for name, facts in given.items()
    )


def _idioms(field: str, value: Any) -> dict[str, tuple[str, ...]]:
    names: dict[str, list[str]] = {}
    for operator, name in sorted(IDIOMS):
        names.setdefault(operator, []).append(name)
    facts = field_readers.fields(field, value, names)
    return {name: array(choice(names[name]))(field_readers.path(field, name), each) for name, each in facts.items()}


def _letters(field: str, value: Any) -> str:
    said = field_readers.text(field, value)
    try:
        letters(said)
    except ValueError as error:
        raise FieldError(field, f"'{said}' is no order of dimensions: {error}") from error
    return said


def _window(field: str, value: Any) -> tuple[int, ...]:
    """The size of a window, as in ``3x3``."""
    said = field_readers.text(field, value)
    if not re.fullmatch(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){0,2}", said):
        raise FieldError(field, f"'{said}' is no size of a window, as 3x3 is one")
    return tuple(map(int, said.split("x")))


_SIZES, _SOME_TEXTS = mapping(whole(), ("channels", "produced")), array(field_readers.text, some=True)
_MATCH: Mapping[str, Reader[Any]] = {
    "kernel": array(_window, some=True),
    "dtype": array(choice(_DTYPES), some=True),
    **dict.fromkeys(("name", "after", "before"), _SOME_TEXTS),
    **dict.fromkeys(("depthwise", "grouped"), field_readers.flag),
    **dict.fromkeys(("least", "most"), _SIZES),
}
_LINE: Mapping[str, Reader[Any]] = {
    "operators": array(choice((ANYTHING, *RULES)), some=True),
    "policy": choice(POLICIES),
    "price": _COUNT,
    "backend": field_readers.text,
    "match": record(Match, _MATCH),
    **dict.fromkeys(PORTS, _letters),
}


def _lines(field: str, value: Any) -> tuple[Line, ...]:
    """Reads the lines of a table."""
    given = array(lambda _, each: each)(field, value)
    if len(given) > MOST_LINES:
        raise FieldError(field, f"there are more than {MOST_LINES} of them")
    return tuple(_line(f"{field}[{number}]", each) for number, each in enumerate(given))


def _line(field: str, value: Any) -> Line:
    facts = record(dict[str, Any], _LINE, needed=("operators",))(field, value)
    ports = {name: facts.pop(name) for name in PORTS if name in facts}
    if facts.get("policy") == "follow" and "backend" in facts:
        raise FieldError(
            field_readers.path(field, "backend"), "what follows is in the backend of what it reads: leave it out"
        )
    if "policy" in facts and (ports or "price" in facts):
        raise FieldError(field_readers.path(field, "policy"), "a line is either a policy or a form with letters")
    if "policy" not in facts and not ports:
        raise FieldError(field, f"it has neither letters ({', '.join(PORTS)}) nor a policy")
    if "data" in ports:
        ports.setdefault("out", ports["data"])
    return Line(ports=ports, **facts)


def _table(lines: tuple[Line, ...] = (), backends: Mapping[str, Backend] | None = None, chooses: bool = False) -> Table:
    """The table of some lines and backends. Raises :class:`FieldError` where these do not fit."""
    known = backends or {}
    for number, line in enumerate(lines):
        if line.backend:
            choice(tuple(known))(f"forms[{number}].backend", line.backend)
    for name, each in known.items():
        field_readers.text(f"backends.{name}", name)
        if chooses and each.crossing > DEAREST:
            raise FieldError(f"backends.{name}.crossing", f"where backends are chosen, it is at most {DEAREST}")
    if chooses and not known:
        raise FieldError("choose", "there are no backends to choose from: name some in backends")
    return Table(lines, known, chooses)


_COST: Reader[Cost] = record(Cost, dict.fromkeys(("fixed", "per_byte", "per_block"), _seconds))
_CLASS: Reader[dict[str, Any]] = record(
    dict, {"of": field_readers.text, **dict.fromkeys(("least", "most"), mapping(whole()))}, needed=("of",)
)
_LATENCY = {"transpose": _costs, "reshape": _COST}
_DYNAMIC = dict.fromkeys(("tensor", "rows"), whole())
_STORAGE = {"weights": choice(WEIGHTS), **dict.fromkeys(FLAGS, field_readers.flag), **dict.fromkeys(COUNTS, _COUNT)}


def _names(field: str, value: Any) -> frozenset[str]:
    return frozenset(array(field_readers.text, some=True)(field, value))


_PROVIDER: Mapping[str, Reader[Any]] = {
    "source": field_readers.text,
    "layout": choice(LAYOUTS),
    "operators": _names,
    "symmetric": field_readers.flag,
}

_FIELDS: Mapping[str, Reader[Any]] = {
    "name": field_readers.text,
    "runtime": field_readers.text,
    "extends": lambda _, bases: bases,
    "domains": array(choice(DOMAINS)),
    "storage": record(Storage, _STORAGE),
    "idioms": _idioms,
    "dynamic": record(Dynamic, _DYNAMIC, needed=_DYNAMIC),
    "qoperator": field_readers.flag,
    "hidden": _by_kind(_COUNT),
    "ties": _by_kind(_COUNT),
    "unsupported": _of_operators(array(field_readers.text)),
    "kernels": _by_kind(field_readers.flag),
    "classes": _of_operators(_classes),
    "extra": _by_kind(_seconds),
    "latency": record(Latency, _LATENCY, needed=_LATENCY),
    "forms": _lines,
    "backends": mapping(record(Backend, {"crossing": _COUNT})),
    "choose": field_readers.flag,
    "provider": record(Provider, _PROVIDER, needed=("source", "layout", "operators")),
}
_NEEDED = ("name", "hidden", "unsupported", "kernels", "classes", "extra")
_NULLABLE = (*_NEEDED, "latency", "dynamic")
"""The fields that are not there where they are null."""
