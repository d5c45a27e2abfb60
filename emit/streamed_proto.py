"""The bytes of a model in pieces: written at once they take several times their size in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from layoutsolve.errors import OutputError
from layoutsolve.proto.messages import ModelProto, TensorProto

MOST = (1 << 31) - (1 << 20)
"""The bytes of a graph that a message of protobuf surely holds, whatever is said of it besides."""

_LARGE = 1 << 16
"""The bytes of a constant that is not encoded as a whole, which would copy it once to learn its size and once more."""

_OF_BYTES, _MORE = 2, 128
"""A field whose content is so many bytes. Numbers are written by seven bits, with one more where others follow."""


def pieces(model: ModelProto) -> Iterator[bytes]:
    """What all together is ``model.SerializeToString(deterministic=True)``: each constant by itself.

    Raises :class:`OutputError` for more than a message can hold.
    """
    graph = model.graph
    (start, end), (nodes, ports) = _around(model, "graph"), _around(graph, "initializer")
    constants = [_constant(each) for each in graph.initializer]
    sizes = [sum(map(len, parts)) + count for parts, count in constants]
    heads = [_head(graph, "initializer", size) for size in sizes]
    size = len(nodes) + sum(map(len, heads)) + sum(sizes) + len(ports)
    if size > MOST:
        raise OutputError(f"a file of ONNX cannot hold the {size} bytes of the model: keep its constants beside it")
    yield start
    yield _head(model, "graph", size)
    yield nodes
    for head, ((before, behind), count), constant in zip(heads, constants, graph.initializer, strict=True):
        yield head
        yield before
        if count:
            yield constant.raw_data
        yield behind
    yield ports
    yield end


def _constant(constant: TensorProto) -> tuple[tuple[bytes, bytes], int]:
    """What stands around the bytes of a large constant, and how many these are; all of a smaller one, and none."""
    count = len(constant.raw_data)
    if count < _LARGE:
        return (constant.SerializeToString(deterministic=True), b""), 0
    before, behind = _around(constant, "raw_data")
    return (before + _head(constant, "raw_data", count), behind), count


def _around(message: Any, name: str) -> list[bytes]:
    """The fields before one, and those behind it: they are written by their numbers."""
    place, parts = _number(message, name), (type(message)(), type(message)())
    for field, value in message.ListFields():
        if field.number != place:
            parts[field.number > place].MergeFrom(type(message)(**{field.name: value}))
    return [part.SerializeToString(deterministic=True) for part in parts]


def _head(message: Any, name: str, size: int) -> bytes:
    """What stands before the bytes of a message in a field."""
    return _varint(_number(message, name) << 3 | _OF_BYTES) + _varint(size)


def _number(message: Any, name: str) -> int:
    number: int = message.DESCRIPTOR.fields_by_name[name].number
    return number


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= _MORE:
        found.append(number % _MORE | _MORE)
        number //= _MORE
    return bytes([*found, number])
