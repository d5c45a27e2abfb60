"""Models within archives: MediaPipe's ``.task`` (a zip), ``.litertlm``, ``.zip``, ``.tar`` and ``.gz``, one in another.

Nothing is written to a disk. A member is named as a path, the archive's first: ``hand.task/hand_detector.tflite``.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from layoutsolve.base.digest import Buffer
from layoutsolve.base.wording import counted, nearest, printable
from layoutsolve.errors import ModelError
from layoutsolve.io.patterns import ENDINGS

_ZIP, _GZIP, _LITERTLM = b"PK\x03\x04", b"\x1f\x8b", b"LITERTLM"
_TAR, _TAR_AT = b"ustar", 257
_TFLITE, _TFLITE_AT = b"TFL3", 4

HEAD = _TAR_AT + len(_TAR)
"""How many of the first bytes tell whether a file is an archive."""

_DEEPEST, _MOST = 4, 10_000
"""How deeply archives may lie within each other, and how many entries of one are looked at."""

_RATIO, _ROOM = 10, 64 << 20
"""What is unpacked may have so many times the bytes of the archive, and so many more."""

_SHOWN = 8

_TORCH = "export PyTorch's with torch.onnx.export or litert-torch first"
_EXPORTS = {
    ".keras": "convert Keras's with tf.lite.TFLiteConverter first",
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".pt2": _TORCH,
}
"""What to do about archives in which frameworks keep models of their own, by the endings of their names."""

_TFLITE_SECTION = 3
"""The number of TFLiteModel in ``AnySectionDataType`` (LiteRT-LM's ``litertlm_header_schema.fbs``)."""


def is_archive(data: Buffer) -> bool:
    """Whether some bytes begin as an archive does."""
    head = bytes(memoryview(data)[:HEAD])
    if head[_TFLITE_AT : _TFLITE_AT + len(_TFLITE)] == _TFLITE:
        return False
    return head.startswith((_ZIP, _GZIP, _LITERTLM)) or head[_TAR_AT:] == _TAR


def models_in(data: Buffer, path: str) -> dict[str, Buffer]:
    """The models of an archive by name, those of archives within it as ``inner.task/model.tflite``.

    Raises :class:`ModelError` where it is damaged, or what is in it is out of proportion.
    """
    room, found = _Room(_RATIO * len(memoryview(data)) + _ROOM), dict[str, Buffer]()
    try:
        for name, content in _unpacked(data, room, 0, Path(path).stem):
            found.setdefault(name, content)
    except ModelError:
        raise
    except Exception as error:  # of zipfile, tarfile, zlib and struct, which have no common one
        reason = printable(str(error) or type(error).__name__)
        raise ModelError(f"'{printable(path)}' is damaged: as an archive it cannot be unpacked ({reason})") from error
    return found


def chosen(found: dict[str, Buffer], member: str, path: str) -> tuple[str, Buffer]:
    """The model of an archive that is asked for by name, '' for the only one.

    Raises :class:`ModelError`, which lists the models, where that is none.
    """
    shown = printable(path)
    if not found:
        remedy = _EXPORTS.get(Path(path).suffix.lower(), "give one that has")
        raise ModelError(f"'{shown}' has no model of TensorFlow Lite or ONNX: {remedy}")
    if not member and len(found) == 1:
        return next(iter(found.items()))
    if member in found:
        return member, found[member]
    names = [f"'{printable(name)}' ({counted(len(memoryview(data)), 'byte')})" for name, data in found.items()]
    models = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if member:
        raise ModelError(f"'{shown}' has no '{printable(member)}'{nearest(member, found)}: it has {models}")
    shown = shown.rstrip("/")
    one = f"{shown}/{printable(next(iter(found)))}"
    raise ModelError(f"'{shown}' has {len(found)} models: {models}; name one, as in '{one}', or all, as '{shown}/*'")


def split(path: Path) -> tuple[Path, str] | None:
    """The archive that a path leads into, and the name in it; None where no part of the path is a file."""
    for parent in path.parents:
        if parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return None


def beside(path: Path) -> Path:
    """The name that a model of an archive would have beside it: ``hand.hand_detector.tflite``; that of the only one is
    the archive's own.
    """
    if (inside := split(path)) is not None:
        archive, member = inside
        name = f"{archive.stem}.{member.replace('/', '.')}"
        return archive.with_name(name if name.endswith(ENDINGS) else f"{name}{ENDINGS[0]}")
    return path.with_suffix("") if path.suffix == ".gz" else path


class _Room:
    """How many bytes may still be unpacked, and how many entries looked at."""

    def __init__(self, left: int) -> None:
        self.left, self.entries = left, _MOST

    def read(self, file: BinaryIO) -> bytes:
        """All of a file. Raises :class:`ModelError` where that is more."""
        data = file.read(self.left + 1)
        self.take(len(data))
        return data

    def take(self, count: int) -> None:
        """Count one entry of so many bytes."""
        self.left, self.entries = self.left - count, self.entries - 1
        if self.left < 0 or self.entries < 0:
            raise ModelError("the archive unpacks to many times its size: unpack it, and give the model")


def _unpacked(data: Buffer, room: _Room, depth: int, stem: str) -> Iterator[tuple[str, Buffer]]:
    if depth > _DEEPEST:
        raise ModelError(f"archives lie more than {_DEEPEST} deep in each other: unpack them, and give the model")
    for name, content in _members(data, room, stem):
        if is_archive(content):
            for inner, model in _unpacked(content, room, depth + 1, PurePosixPath(name).stem):
                yield (inner if name == "" else f"{name}/{inner}"), model
        elif _is_model(name, content):
            yield name or stem, content


def _is_model(name: str, content: Buffer) -> bool:
    identifier = bytes(memoryview(content)[_TFLITE_AT : _TFLITE_AT + len(_TFLITE)])
    return identifier == _TFLITE or name.endswith(ENDINGS)


def _members(data: Buffer, room: _Room, stem: str) -> Iterator[tuple[str, Buffer]]:
    """The files of an archive, not those of archives within it. The one of a gzip has no name of its own."""
    head = bytes(memoryview(data)[: len(_LITERTLM)])
    if head.startswith(_ZIP):
        yield from _of_zip(data, room)
    elif head.startswith(_GZIP):
        yield ("" if PurePosixPath(stem).suffix == ".tar" else stem), _decompressed(data, room)
    elif head == _LITERTLM:
        yield from _of_litertlm(data)
    else:
        import tarfile  # like zipfile, of which models that are no archives need nothing

        with tarfile.open(fileobj=_opened(data), mode="r:") as tar:
            for entry in tar:
                room.take(0)
                if entry.isreg() and (file := tar.extractfile(entry)) is not None:
                    yield entry.name, room.read(file)  # type: ignore[arg-type]


def _opened(data: Buffer) -> BinaryIO:
    return io.BufferedReader(_View(memoryview(data)))


class _View(io.RawIOBase):
    """A file of bytes that are in memory, or mapped, which are not copied."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._at, len(self._view))[whence]
        if start + offset < 0:
            raise ValueError("seek before the start")
        self._at = start + offset
        return self._at

    def readinto(self, into: Any) -> int:
        found = self._view[self._at : self._at + len(into)]
        into[: len(found)] = found
        self._at += len(found)
        return len(found)


def _of_zip(data: Buffer, room: _Room) -> Iterator[tuple[str, Buffer]]:
    """What is stored without compression, as MediaPipe does it, is not copied."""
    import zipfile

    view = memoryview(data)
    with zipfile.ZipFile(_opened(data)) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                room.take(0)
                continue
            if entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1:
                name, extra = struct.unpack_from("<HH", view, entry.header_offset + 26)
                start = entry.header_offset + 30 + name + extra
                room.take(entry.file_size)
                yield entry.filename, view[start : start + entry.file_size]
            else:
                with archive.open(entry) as file:
                    yield entry.filename, room.read(file)  # type: ignore[arg-type]


def _decompressed(data: Buffer, room: _Room) -> bytes:
    gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
    found = gzip.decompress(data, room.left + 1)
    room.take(len(found))
    if not gzip.eof:
        raise ModelError("the archive ends within its data: it is damaged")
    return found


def _of_litertlm(data: Buffer) -> Iterator[tuple[str, Buffer]]:
    """The TFLiteModel sections of a LiteRT-LM file, by number: behind the magic and three numbers of its version is
    where the header ends, which is a flatbuffer from byte 32 on.
    """
    from flatbuffers import number_types as types
    from flatbuffers.table import Table

    view = memoryview(data)
    (end,) = struct.unpack_from("<Q", view, 24)
    header = bytes(view[32 : min(end, len(view))])

    def inner(table: Table, slot: int) -> Table | None:
        offset = table.Offset(4 + 2 * slot)
        return Table(header, table.Indirect(table.Pos + offset)) if offset else None

    sections = inner(Table(header, struct.unpack_from("<I", header)[0]), 1)
    offset = sections.Offset(4) if sections is not None else 0
    if sections is None or not offset:
        return
    for number in range(min(sections.VectorLen(offset), _MOST)):
        section = Table(header, sections.Indirect(sections.Vector(offset) + 4 * number))
        first, last, kind = (
            section.Get(kind, section.Pos + place) if (place := section.Offset(slot)) else 0
            for slot, kind in ((6, types.Uint64Flags), (8, types.Uint64Flags), (10, types.Uint8Flags))
        )
        if kind == _TFLITE_SECTION and first < last <= len(view):
            yield f"section_{number}.tflite", view[first:last]
