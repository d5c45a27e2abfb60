"""Holding data against a JSON schema, as far as ``plan.schema.json`` uses that language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
def plan_schema() -> Schema:
    """The schema of plans."""
    found: Schema = json.loads(Path(__file__).with_name("plan.schema.json").read_text(encoding="utf-8"))
    return found


def faults(value: Any, schema: Schema, place: str = "", whole: Schema | None = None) -> Iterator[str]:
    """What is wrong with a value, and where."""
    whole = schema if whole is None else whole
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from faults(value, whole["$defs"][name], place, whole)
        return
    at = place or "it"
    if "const" in schema and value != schema["const"]:
        yield f"{at} must be {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} must be one of {', '.join(schema['enum'])}"
    kinds = schema.get("type", list(_TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "type" in schema and not any(_is(value, kind) for kind in kinds):
        yield f"{at} must be {' or '.join(kinds)}"
        return
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} must be of the form {schema['pattern']}"
    if "minimum" in schema and _is(value, "integer") and value < schema["minimum"]:
        yield f"{at} must be at least {schema['minimum']}"
    if isinstance(value, dict):
        yield from _of_object(value, schema, place, whole)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, schema.get("items", {}), f"{place}[{number}]", whole)


def _of_object(value: Mapping[str, Any], schema: Schema, place: str, whole: Schema) -> Iterator[str]:
    prefix = f"{place}." if place else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{prefix}{name} is missing"
    known = schema.get("properties", {})
    for name, each in value.items():
        if name in known:
            yield from faults(each, known[name], f"{prefix}{name}", whole)
        elif schema.get("additionalProperties") is False:
            yield f"{prefix}{name} is no field of a plan"


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of a type; true and false are no numbers."""
    return isinstance(value, _TYPES[kind]) and (kind != "integer" or not isinstance(value, bool))
