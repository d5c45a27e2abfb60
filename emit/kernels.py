"""Which operators ONNX Runtime can compute: not all that ONNX defines have a kernel for every type.

The table is that of ONNX Runtime itself (``python -m experiments.kernels`` writes it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx

TABLE = Path(__file__).with_name("kernels.json")

_WIDENED = {"float16": "float"}
"""Types that ONNX Runtime converts to another one where it has no kernel for them."""


@cache
def missing_kernel(
    domain: str, operator: str, version: int, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[str, ...]:
    """The types for which there is no kernel; empty where there is one. ``inputs`` and ``outputs`` are names of types,
    '' for one that is left out or not known.
    """
    schema = onnx.defs.get_schema(operator, version, domain)
    since = schema.since_version
    rows = [
        types
        for first, last, types in _table()[domain].get(operator, ())
        if first == since or (last is not None and first <= since <= last)
    ]
    bound = _bound(schema, inputs, outputs)
    if any(_fits(bound, row) for row in rows):
        return ()
    return tuple(dict.fromkeys(bound[name] for name in bound if name in {each for row in rows for each in row}))


@cache
def _table() -> Mapping[str, Mapping[str, Sequence[Any]]]:
    table: Mapping[str, Any] = json.loads(TABLE.read_text())["kernels"]
    return table


def _bound(schema: onnx.defs.OpSchema, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """The types of a node by the names that its definition gives them."""
    bound: dict[str, str] = {}
    for formal, types in ((schema.inputs, inputs), (schema.outputs, outputs)):
        for position, dtype in enumerate(types):
            port = formal[min(position, len(formal) - 1)]
            if dtype:
                bound.setdefault(port.type_str, dtype)
                bound.setdefault(port.name, dtype)
    return bound


def _fits(bound: Mapping[str, str], kernel: Mapping[str, str]) -> bool:
    def takes(dtype: str, types: str) -> bool:
        known = types.split()
        return dtype in known or _WIDENED.get(dtype) in known

    return all(name not in bound or takes(bound[name], types) for name, types in kernel.items())
