"""Metadata of a TensorFlow Lite model and of its inputs and outputs, and the files that are packed behind it.

They are a flatbuffer of a schema of its own (tflite-support, ``metadata_schema.fbs``) in a buffer of the model, and
a ZIP archive behind the model's end. Nothing of them changes what a model computes: of what is damaged or too large
nothing is told.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading.record import BROKEN, INT8, UINT8, Reader, Record

if TYPE_CHECKING:
    from zipfile import ZipInfo

PREFIX = "tflite."
"""Of the names of facts."""

IDENTIFIER = b"M001"

FILE = f"{PREFIX}file."
"""The prefix of facts that are files: their content, which is text."""

_MODEL_TEXTS = {"name": 0, "description": 1, "version": 2, "author": 4, "license": 5}
_MODEL_SUBGRAPHS = 3
_GRAPH_ENDS = {"input": 2, "output": 3}
_END_TEXTS = {"title": 0, "description": 1}
_END_CONTENT, _END_UNITS, _END_STATISTICS, _END_FILES = range(3, 7)
_KIND, _TABLE = range(2)
_FILE_NAME, _FILE_KIND = 0, 2
"""The fields of the schema's tables that are read."""

_IMAGE, _COLORS = 2, {1: "RGB", 2: "GRAYSCALE"}
_NORMALISATION = 1
_FILES = {2: "labels", 3: "value_labels", 4: "calibration", 5: "vocabulary"}
"""What a file of an end is for."""

_TAIL, _END_OF_ARCHIVE = 22 + (1 << 16), b"PK\x05\x06"
"""The most bytes that the end of a ZIP archive takes, and what it begins with."""

_LOCAL, _ENCRYPTED, _LEAST_WINDOW = 30, 1, 4096
"""The bytes of an entry's header before its name, a flag, and the smallest dictionary of LZMA."""


def facts(data: memoryview, subgraph: int, ends: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Metadata of a model, and of the inputs and outputs of a subgraph, whose 'input' and 'output' names are given.

    Numbers of several channels are separated by spaces: ``tflite.input.image.mean`` is "127.5 127.5 127.5".
    """
    if bytes(data[4:8]) != IDENTIFIER:
        return {}
    try:
        return dict(_Facts(data).told(subgraph, ends))
    except (*BROKEN, ModelError):
        return {}


class _Facts(Reader):
    def told(self, subgraph: int, ends: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
        """Names and texts."""
        yield from self._texts(self.root, _MODEL_TEXTS, PREFIX)
        graphs = list(self.records(self.root, _MODEL_SUBGRAPHS))
        for side, field in _GRAPH_ENDS.items() if subgraph < len(graphs) else ():
            described = list(self.records(graphs[subgraph], field))
            if len(described) == len(ends[side]):
                pairs = zip(ends[side], described, strict=True)
                yield from chain.from_iterable(self._end(end, f"{PREFIX}{side}.{name}.") for name, end in pairs)

    def _texts(self, owner: Record, fields: Mapping[str, int], prefix: str) -> Iterator[tuple[str, str]]:
        for name, field in fields.items():
            if text := self.text(owner.text(field)).strip():
                yield prefix + name, text

    def _end(self, end: Record, prefix: str) -> Iterator[tuple[str, str]]:
        yield from self._texts(end, _END_TEXTS, prefix)
        content = end.record(_END_CONTENT)
        image = None if content is None or content.number(_KIND, UINT8) != _IMAGE else content.record(_TABLE)
        if image is not None and (color := _COLORS.get(image.number(0, INT8))):
            yield f"{prefix}color_space", color
        for unit in self.records(end, _END_UNITS):
            if unit.number(_KIND, UINT8) == _NORMALISATION:
                yield from self._numbers(unit.record(_TABLE), ("mean", "std"), prefix)
        yield from self._numbers(end.record(_END_STATISTICS), ("max", "min"), prefix)
        for file in self.records(end, _END_FILES):
            name, what = self.text(file.text(_FILE_NAME)), _FILES.get(file.number(_FILE_KIND, INT8))
            if name and what:
                yield prefix + what, name

    def _numbers(self, owner: Record | None, names: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
        for field, name in enumerate(names if owner is not None else ()):
            found = self.vector(owner, field, np.float32) if owner is not None else np.zeros(0)
            if found.size:
                self.spend(found.size * 16)
                yield prefix + name, " ".join(map(str, found))


def packed(data: memoryview) -> dict[str, bytes]:
    """The files that are packed behind a model, by name: all in all not more than the model has bytes."""
    tail = bytes(data[-_TAIL:])
    if _END_OF_ARCHIVE not in tail:
        return {}
    import zipfile

    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(_Bytes(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, *BROKEN):
        return found
    left = unread = len(data)  # damaged entries count too: thousands may lie over each other
    for entry in entries:
        size, taken = entry.file_size, entry.compress_size
        if not is_plain(entry.filename) or not (0 <= size <= left and 0 <= taken <= unread):
            continue
        left, unread = left - size, unread - taken
        content = _unpacked(data, entry)
        if content is not None:
            found[entry.filename] = content
    return found


def _unpacked(data: memoryview, entry: ZipInfo) -> bytes | None:
    """The content of an entry of an archive, None where it is damaged, encrypted, or packed in an unknown way. Nothing
    is unpacked beyond the size that the entry says it has: a few bytes may be packed gigabytes.
    """
    import zlib

    start = entry.header_offset + _LOCAL
    lengths = data[max(start - 4, 0) : max(start, 0)]
    if len(lengths) < 4 or entry.flag_bits & _ENCRYPTED:
        return None
    name, more = struct.unpack("<HH", lengths)
    packed = data[start + name + more :][: entry.compress_size]
    try:
        content = _decompressed(packed, entry.compress_type, entry.file_size)
    except Exception:  # each way to pack has errors of its own
        return None
    return content if len(content) == entry.file_size and zlib.crc32(content) == entry.CRC else None


def _decompressed(packed: memoryview, way: int, size: int) -> bytes:
    """What is packed in some way, but not more than ``size`` bytes."""
    import zipfile

    if way == zipfile.ZIP_STORED or size == 0:
        return bytes(packed[:size])
    if way == zipfile.ZIP_DEFLATED:
        import zlib

        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size)
    if way == zipfile.ZIP_BZIP2:
        import bz2

        return bz2.BZ2Decompressor().decompress(packed, size)
    if way == zipfile.ZIP_LZMA:
        import lzma

        numbers, window = divmod(packed[4], 45), struct.unpack("<I", packed[5:9])[0]
        bits = {"pb": numbers[0], "lp": numbers[1] // 9, "lc": numbers[1] % 9}
        window = min(max(window, _LEAST_WINDOW), max(size, _LEAST_WINDOW))  # it is memory that is taken beforehand
        filters = [{"id": lzma.FILTER_LZMA1, "dict_size": window, **bits}]
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress(packed[9:], size)
    return b""


def is_plain(name: str) -> bool:
    """Whether a name is that of a file in a folder, and nothing else."""
    return name.isprintable() and name not in ("", ".", "..") and not set(name) & set('/\\:*?"<>|') and len(name) < 200


def texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Those of some files that are texts, as facts."""
    found = {}
    for name, content in files.items():
        try:
            found[FILE + name] = content.decode()
        except UnicodeDecodeError:
            continue
    return found


class _Bytes(io.RawIOBase):
    """Bytes in memory as a file, without a copy."""

    def __init__(self, data: memoryview) -> None:
        super().__init__()
        self.data, self.at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = max(0, offset + (0, self.at, len(self.data))[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        part = self.data[self.at : self.at + len(buffer)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)
