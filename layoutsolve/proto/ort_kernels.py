"""Which operators ONNX Runtime can compute: not all that ONNX defines have a kernel for every type.

The table is that of ONNX Runtime itself (``python -m experiments.measure.kernels`` writes it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from layoutsolve.proto.messages import NEWEST_OPSET

TABLE = Path(__file__).with_name("ort_kernels.json")

_WIDENED = {"float16": "float"}
"""Types that ONNX Runtime converts to another one where it has no kernel for them."""


@cache
def missing_kernel(
    domain: str, operator: str, version: int, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[str, ...]:
    """The types for which there is no kernel; empty where there is one. ``inputs`` and ``outputs`` are names of types,
    '' for one that is left out or not known.
    """
    versions = _table().get(domain, {}).get(operator, {})
    known = [int(since) for since in versions if int(since) <= version]
    if not known:
        return ()
    found = versions[str(max(known))]
    bound = {**_bound(found["outputs"], outputs), **_bound(found["inputs"], inputs)}
    if any(_fits(bound, kernel) for kernel in found["kernels"]):
        return ()
    return tuple(dict.fromkeys(bound.values()))


def moves(operator: str, dtype: str) -> bool:
    """Whether an operator that moves elements has a kernel for those of a type, in the newest operator set."""
    name = _NAMED.get(dtype, dtype)
    return not missing_kernel("", operator, NEWEST_OPSET, (name,), (name,))


_NAMED = {"float32": "float", "float64": "double"}
"""The types whose names in definitions of operators are not numpy's."""


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    table: Mapping[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))["operators"]
    return table


def _bound(names: Sequence[str], types: Sequence[str]) -> dict[str, str]:
    """The types of a node's ports by the names that the definition gives them; the last one may repeat."""
    return {names[min(at, len(names) - 1)]: dtype for at, dtype in reversed([*enumerate(types)]) if dtype}


def _fits(bound: Mapping[str, str], kernel: Mapping[str, str]) -> bool:
    def takes(dtype: str, types: str) -> bool:
        known = types.split()
        return dtype in known or _WIDENED.get(dtype) in known

    return all(name not in bound or takes(bound[name], types) for name, types in kernel.items())
