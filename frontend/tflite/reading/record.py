"""Tables of a flatbuffer as they lie in the file, for those of which a model has thousands.

A table begins with how far before it a list of places lies, which tables alike share: for each field how far behind the
beginning of the table it is, 0 where it has its default. What is read is checked against the file's end by ``struct``
and numpy; offsets may lead anywhere inside of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from struct import Struct, unpack_from

import numpy as np
from flatbuffers.table import Table

from layoutsolve.errors import ModelError
from layoutsolve.ir.graph import Array

INT8, UINT8, INT32, UINT32, UINT64 = Struct("<b"), Struct("<B"), Struct("<i"), Struct("<I"), Struct("<Q")
"""The types of single numbers."""

BROKEN = (struct.error, IndexError, KeyError, ValueError, TypeError, OverflowError, AttributeError, AssertionError)
"""What reading a broken flatbuffer raises (UnicodeDecodeError and flatbuffers' own range errors are among them)."""

_PLACE = Struct("<H")

_ELEMENTS_PER_BYTE = 8
_SPARE_ELEMENTS = 1 << 16
_ELEMENTS_PER_INTEGER = 15
"""What an integer of Python takes beyond one element that stays in the file."""

_NOTHING = np.zeros(0, np.int32)

Places = tuple[int, ...]


class Record:
    """A table at a position of the file; fields are named by their numbers in the schema."""

    __slots__ = ("at", "data", "known", "places")

    def __init__(self, data: memoryview, at: int, known: dict[int, Places]) -> None:
        """``known`` collects the places that tables of this file share, by where they are listed."""
        self.data, self.at, self.known = data, at, known
        start = at - INT32.unpack_from(data, at)[0]
        places = known.get(start)
        if places is None:
            count = max(_PLACE.unpack_from(data, start)[0] // 2 - 2, 0)
            places = known[start] = unpack_from(f"<{count}H", data, start + 4)
        self.places = places

    def number(self, field: int, kind: Struct, default: int = 0) -> int:
        """A number."""
        at = self._at(field)
        return int(kind.unpack_from(self.data, at)[0]) if at else default

    def numbers(self, field: int, dtype: type[np.generic]) -> Array | None:
        """A vector of numbers as a view of the file; None where there is none."""
        at = self._referred(field)
        if not at:
            return None
        array: Array = np.frombuffer(self.data, dtype, UINT32.unpack_from(self.data, at)[0], at + 4)
        return array

    def positions(self, field: int) -> list[int]:
        """Where the tables of a vector are."""
        offsets = self.numbers(field, np.uint32)
        if offsets is None:
            return []
        first = self._referred(field) + 4
        found: list[int] = (first + np.arange(offsets.size) * 4 + offsets).tolist()
        return found

    def text(self, field: int) -> bytes:
        """A string, empty where there is none."""
        found = self.numbers(field, np.uint8)
        return b"" if found is None else found.tobytes()

    def record(self, field: int) -> Record | None:
        """Another table; None where there is none."""
        at = self._referred(field)
        return Record(self.data, at, self.known) if at else None

    def table(self, field: int) -> Table | None:
        """Another table, as flatbuffers reads it; None where there is none."""
        at = self._referred(field)
        return Table(self.data, at) if at else None

    def _referred(self, field: int) -> int:
        """Where what a field refers to begins, 0 where the field is left out."""
        at = self._at(field)
        return at + int(UINT32.unpack_from(self.data, at)[0]) if at else 0

    def _at(self, field: int) -> int:
        """Where a field is, 0 where it is left out."""
        place = self.places[field] if field < len(self.places) else 0
        return self.at + place if place else 0


class Reader:
    """Reads one flatbuffer, keeping count of what was read: a file can make one vector serve many owners."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.left = len(view) * _ELEMENTS_PER_BYTE + _SPARE_ELEMENTS
        places: dict[int, Places] = {}
        self.root = Record(view, UINT32.unpack_from(view, 0)[0], places)

    def spend(self, count: int) -> None:
        """Count what was read."""
        self.left -= count
        if self.left < 0:
            raise ModelError("the file is damaged: its vectors refer to more elements than it can hold")

    def records(self, owner: Record, field: int) -> Iterator[Record]:
        """The tables in a vector of tables."""
        found = owner.positions(field)
        self.spend(len(found))
        return (Record(self.view, at, owner.known) for at in found)

    def vector(self, owner: Record, field: int, dtype: type[np.generic] = np.int32) -> Array:
        """A vector of numbers of a record, as a view of the file; empty where there is none."""
        found = owner.numbers(field, dtype)
        if found is None:
            return _NOTHING
        self.spend(found.size)
        return found

    def indices(self, owner: Record, field: int) -> tuple[int, ...]:
        """A vector of 32-bit integers of a record."""
        return self.listed(self.vector(owner, field))

    def listed(self, found: Array) -> tuple[int, ...]:
        """Numbers of a vector as integers of Python."""
        self.spend(_ELEMENTS_PER_INTEGER * found.size)
        return tuple(found.tolist())

    def text(self, raw: bytes | None) -> str:
        """A string."""
        self.spend(len(raw or b""))
        return (raw or b"").decode("utf-8", "replace")
