"""Detection of ONNX models by their first fields, without parsing."""

from __future__ import annotations

_IR_VERSION, _GRAPH = 1, 7
"""The fields of a model that every one has: the version of the format, and the graph."""

_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""The fields of a model by number, and how protobuf writes them: as a number (0), or with their length before (2)."""

_LONGEST = 10
"""The most bytes of a number in protobuf."""


def is_model(data: bytes | memoryview) -> bool:
    """Whether a buffer looks like an ONNX model: it has fields that only these have, as far as that can be seen without
    parsing.
    """
    view, at, seen = memoryview(data).cast("B"), 0, set[int]()
    while at < len(view):
        tag, at = _number(view, at)
        field, kind = tag >> 3, tag & 7
        if _FIELDS.get(field) != kind:
            return False
        size, at = _number(view, at)
        if at > len(view):
            return False
        seen.add(field)
        at += size if kind == 2 else 0
        if field == _GRAPH and at > len(view):
            return _IR_VERSION in seen  # a model that is cut off
    return at == len(view) and _GRAPH in seen


def _number(view: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length and where it ends, which is behind the end where there is none."""
    value = 0
    for index, byte in enumerate(view[at : at + _LONGEST]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    return 0, len(view) + 1
