"""TensorFlow's NodeDef, the protocol buffer in which a Flex operator keeps its options: its attributes and no more."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from layoutsolve.errors import ModelError

Attribute = int | float | bool | str | tuple[str, ...] | tuple[int, ...]
_NUMBER, _DOUBLE, _BYTES, _SINGLE = 0, 1, 2, 5
_NAME, _ATTRIBUTES = 2, 5
_LIST, _TEXT, _INT, _FLOAT, _BOOL = 1, 2, 3, 4, 5


def node_def(raw: bytes) -> tuple[str, dict[str, Attribute]]:
    """The operator of a NodeDef and those of its attributes that are a number, a truth value, text, texts or
    integers.

    Raises :class:`ModelError` where the bytes are none.
    """
    operator, attributes = "", {}
    try:
        for field, value in _fields(raw):
            if field == _NAME and isinstance(value, bytes):
                operator = value.decode()
            elif field == _ATTRIBUTES and isinstance(value, bytes):
                entry = dict(_fields(value))
                key, content = entry.get(1), entry.get(2)
                if isinstance(key, bytes) and isinstance(content, bytes):
                    attributes.update(
                        {key.decode(): found for found in map(_attribute, _fields(content)) if found is not None}
                    )
    except (ValueError, IndexError, struct.error) as error:
        raise ModelError(f"its custom options hold no NodeDef: {error}") from error
    return operator, attributes


def _attribute(field: tuple[int, int | bytes]) -> Attribute | None:
    number, value = field
    if isinstance(value, bytes):
        if number == _LIST:
            if numbers := tuple(map(_signed, _integers(value))):
                return numbers
            items = [item for kind, item in _fields(value) if kind == _TEXT]
            return tuple(item.decode("utf-8", "replace") for item in items if isinstance(item, bytes))
        if number == _FLOAT:
            return float(struct.unpack("<f", value)[0])
        return value.decode("utf-8", "replace") if number == _TEXT else None
    if number == _BOOL:
        return bool(value)
    return _signed(value) if number == _INT else None


def _signed(value: int) -> int:
    return (value ^ 1 << 63) - (1 << 63)


def _integers(raw: bytes) -> Iterator[int]:
    """The integers of a list, packed into runs or one by one."""
    for kind, item in _fields(raw):
        if kind != _INT:
            continue
        if isinstance(item, int):
            yield item
            continue
        place = 0
        while place < len(item):
            value, place = _varint(item, place)
            yield value


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by number; fixed numbers as their bytes."""
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        kind = key & 7
        if kind == _NUMBER:
            number, place = _varint(raw, place)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, place = _varint(raw, place)
        elif kind in (_DOUBLE, _SINGLE):
            size = 8 if kind == _DOUBLE else 4
        else:
            raise ValueError(f"the unknown wire type {kind}")
        if place + size > len(raw):
            raise IndexError("a field ends after the message")
        yield key >> 3, raw[place : place + size]
        place += size


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (raw[place] & 127) << shift
        place += 1
        if not raw[place - 1] & 128:
            return value & (1 << 64) - 1, place
    raise ValueError("a number of more than ten bytes")
