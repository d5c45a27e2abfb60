"""FlexBuffers, the self-describing format in which most custom operators keep their options.

The bytes are not trusted: every offset is checked, and vectors may share their elements, so what is read in total is
bounded by a multiple of the bytes there are.
"""

from __future__ import annotations

import struct
from typing import Any

from layoutsolve.errors import ModelError

_INT, _UINT, _FLOAT, _KEY, _STRING = 1, 2, 3, 4, 5
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR, _BLOB, _BOOL, _BOOLS = 9, 10, 25, 26, 36
_TYPED = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _KEY, _BOOLS: _BOOL}
_FORMATS = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: " efd"}
_DEPTH = 32
_READS_PER_BYTE, _SPARE_READS = 8, 256


def decode(raw: bytes) -> Any:
    """What the bytes hold: None, bool, int, float, str, bytes, or a list or dict of these.

    Bytes of a string that are no UTF-8 are kept as lone surrogates.

    Raises :class:`ModelError` where they are no FlexBuffer.
    """
    try:
        return _Reader(raw).root()
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise ModelError(f"its custom options are no FlexBuffer: {type(error).__name__}: {error}") from error


class _Reader:
    """Reads one buffer, keeping count of what was read."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.left = _READS_PER_BYTE * len(raw) + _SPARE_READS

    def root(self) -> Any:
        width, packed = self.raw[-1], self.raw[-2]
        if width not in (1, 2, 4, 8):
            raise ValueError(f"a root of {width} bytes")
        return self.value(len(self.raw) - 2 - width, width, packed, 0)

    def scalar(self, kind: int, place: int, width: int) -> Any:
        if place < 0:
            raise IndexError("an offset before the start")
        code = _FORMATS[kind][width.bit_length() - 1]
        if code == " ":
            raise ValueError("a float of one byte")
        return struct.unpack_from(f"<{code}", self.raw, place)[0]

    def target(self, place: int, width: int) -> int:
        """Where an offset leads to: offsets point backwards."""
        offset: int = self.scalar(_UINT, place, width)
        if not 0 < offset <= place:
            raise IndexError("an offset that does not lead backwards into the buffer")
        return place - offset

    def size(self, place: int, width: int) -> int:
        """The number of elements, which stands before them."""
        count: int = self.scalar(_UINT, place - width, width)
        self.left -= count + 1
        if self.left < 0 or place + count > len(self.raw):
            raise IndexError("more elements than the buffer can hold")
        return count

    def text(self, place: int) -> str:
        end = self.raw.index(0, place)
        self.left -= end - place + 1
        if self.left < 0:
            raise IndexError("more text than the buffer can hold")
        return self.raw[place:end].decode("utf-8", "replace")

    def value(self, place: int, width: int, packed: int, depth: int) -> Any:
        """The value at ``place`` in ``width`` bytes; ``packed`` has its type and the width of what it points to."""
        kind, inner = packed >> 2, 1 << (packed & 3)
        self.left -= 1
        if depth > _DEPTH or self.left < 0:
            raise IndexError("values nested too deeply, or too many of them")
        if kind == 0:
            return None
        if kind in _FORMATS:
            found = self.scalar(kind, place, width)
            return bool(found) if kind == _BOOL else found
        place = self.target(place, width)
        if kind in _INDIRECT:
            return self.scalar(_INDIRECT[kind], place, inner)
        if kind == _KEY:
            return self.text(place)
        if kind in (_STRING, _BLOB):
            found = self.raw[place : place + self.size(place, inner)]
            return found if kind == _BLOB else found.decode("utf-8", "surrogateescape")
        if 16 <= kind <= 24:
            return self.elements((_INT, _UINT, _FLOAT)[(kind - 16) % 3], place, inner, (kind - 16) // 3 + 2, depth)
        if kind in _TYPED:
            return self.elements(_TYPED[kind], place, inner, self.size(place, inner), depth)
        if kind not in (_MAP, _VECTOR):
            raise ValueError(f"the unknown type {kind}")
        count = self.size(place, inner)
        types = place + count * inner
        values = [self.value(place + at * inner, inner, self.raw[types + at], depth + 1) for at in range(count)]
        if kind == _VECTOR:
            return values
        keys = self.target(place - 3 * inner, inner)
        names = self.elements(_KEY, keys, self.scalar(_UINT, place - 2 * inner, inner), count, depth)
        return dict(zip(names, values, strict=True))

    def elements(self, kind: int, place: int, width: int, count: int, depth: int) -> list[Any]:
        """The elements of a vector of one type."""
        return [self.value(place + at * width, width, kind << 2, depth + 1) for at in range(count)]
