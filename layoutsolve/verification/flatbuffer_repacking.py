"""A TFLite file taken apart and packed again, with what lies behind the flatbuffer kept at right offsets.

Buffers and custom options may be stored behind the flatbuffer (``offset`` and ``size`` of a buffer,
``large_custom_options_offset`` of an operator), as in any model above 2 GB. These offsets count from the beginning of
the file, so packing the flatbuffer again moves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flatbuffers
import numpy as np

from layoutsolve.ir.graph import Array

ALIGNMENT = 16
"""What LiteRT aligns buffers to."""

_PLACEHOLDER = 2
"""An offset that is written while the length of the flatbuffer is unknown: 0 and 1 mean that there is nothing."""

_OUTSIDE = (("offset", "size"), ("largeCustomOptionsOffset", "largeCustomOptionsSize"))


def opened(source: bytes) -> Any:
    """The ``ModelT`` of a file."""
    from ai_edge_litert import schema_py_generated as schema

    return schema.ModelT.InitFromPackedBuf(source, 0)


def constant(data: Array) -> Any:
    """A buffer of constant data."""
    from ai_edge_litert import schema_py_generated as schema

    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
    return buffer


def packed(model: Any, source: bytes) -> bytes:
    """The file of a model that was opened from ``source``. Constants are written behind the flatbuffer, which thereby
    stays small: offsets in it have 31 bits. Metadata stay inside, where LiteRT looks for them.
    """
    parts = list(_parts(model, source))
    for owner, (offset, size), data in parts:
        if isinstance(getattr(owner, "data", None), np.ndarray):
            owner.data = None
        setattr(owner, offset, _PLACEHOLDER)
        setattr(owner, size, len(data))
    end = len(_flat(model))
    places = []
    for owner, (offset, _), data in parts:
        end = -(-end // ALIGNMENT) * ALIGNMENT
        setattr(owner, offset, end)
        places.append((end, data))
        end += len(data)
    found = bytearray(end)
    flat = _flat(model)
    found[: len(flat)] = flat
    for place, data in places:
        found[place : place + len(data)] = data
    return bytes(found)


def _flat(model: Any) -> bytes:
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _parts(model: Any, source: bytes) -> Iterator[tuple[Any, tuple[str, str], memoryview]]:
    """What is written behind the flatbuffer: its owner, the fields that say where it lies, and the data."""
    operators = [each for subgraph in model.subgraphs for each in subgraph.operators or ()]
    metadata = {entry.buffer for entry in model.metadata or ()}
    for owners, fields in zip((model.buffers or (), operators), _OUTSIDE, strict=True):
        for number, owner in enumerate(owners):
            inside = fields is not _OUTSIDE[0] or number in metadata
            held = None if inside else owner.data
            offset, size = (int(getattr(owner, name)) for name in fields)
            if held is not None and len(held):
                yield owner, fields, memoryview(np.asarray(held, np.uint8).tobytes())
            elif offset > 1:
                yield owner, fields, memoryview(source)[offset : offset + size]
