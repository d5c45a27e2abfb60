"""What a model is read from: a path, or the bytes themselves."""

from __future__ import annotations

import mmap
import os
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from layoutsolve.base.digest import Buffer, digest
from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import brief, nearest, printable
from layoutsolve.errors import ModelError
from layoutsolve.io import files
from layoutsolve.io.archives import chosen, is_archive, models_in, split
from layoutsolve.io.patterns import ENDINGS

READ = 256 << 20
"""Bytes up to which a file is read into memory, so that nothing that becomes of it matters any more: that takes a
fiftieth of what converting it does. A larger one is mapped, since its bytes would take as much memory as all else does.
"""

_ALIGNED = 64
"""Bytes at whose multiples what is read of a file begins, so that numbers lie in memory as they do in the file."""

_LISTED = 10_000
"""How many files of a folder are looked at for the one that was meant."""


@dataclass(frozen=True)
class Mapped:
    """A file that is mapped into memory: its path, and its size, time and number when that was done. Whoever changes
    it changes what was read, and whoever cuts it off ends the process that reads on.
    """

    path: str
    stamp: tuple[int, ...]

    def check(self) -> None:
        """Raise :class:`ModelError` where the file is not as it was."""
        try:
            found = _stamp(Path(self.path).stat())
        except OSError:
            found = ()
        if found != self.stamp:
            raise _changed(printable(self.path))


def unchanged(files: Iterable[Mapped]) -> None:
    """Raise :class:`ModelError` where one of some files is not as it was when it was mapped."""
    for each in files:
        each.check()


@dataclass(frozen=True, eq=False)
class Held:
    """The bytes of a file, and how it is mapped, None where it was read."""

    data: Buffer
    mapped: Mapped | None = None


Part = tuple[int, int]
"""A part of a file: from which byte on it is, and how long."""


class Folder:
    """The folder of a model, in whose other files constants may be. Of each of these no more is read than is asked
    for; where that is much, the file is mapped from the first byte of it to the last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: dict[Path, list[tuple[int, Held]]] = {}

    def hold(self, path: Path, parts: Iterable[Part]) -> None:
        """Read what covers some parts of a file. Raises :class:`OSError`, and :class:`ModelError` where the file ends
        before, or changes while it is read.
        """
        covered = joined(parts)
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            if sum(length for _, length in covered) > READ:
                last = covered[-1]
                start = covered[0][0] // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
                room = mmap.mmap(file.fileno(), sum(last) - start, access=mmap.ACCESS_READ, offset=start)
                self._held[path] = [(start, Held(memoryview(room), Mapped(str(path), _stamp(before))))]
                return
            held = []
            for offset, length in covered:
                start = offset // _ALIGNED * _ALIGNED
                file.seek(start)
                held.append((start, Held(memoryview(file.read(offset + length - start)))))
            ends = (start + len(each.data) for start, each in held)
            if _stamp(os.fstat(file.fileno())) != _stamp(before) or list(ends) != [sum(part) for part in covered]:
                raise _changed(printable(str(path)))
        self._held[path] = held

    def read(self, path: Path, part: Part) -> Buffer:
        """The bytes of a part of a file that is held."""
        offset, length = part
        held = self._held[path]
        start, found = held[bisect_right(held, offset, key=lambda each: each[0]) - 1]
        return memoryview(found.data)[offset - start : offset - start + length]

    @property
    def mapped(self) -> tuple[Mapped, ...]:
        """The files that are mapped."""
        every = (each for held in self._held.values() for _, each in held)
        return tuple(each.mapped for each in every if each.mapped is not None)


def joined(parts: Iterable[Part]) -> list[Part]:
    """Fewest parts that cover some, in order; adjacent parts on one page of memory are joined."""
    found: list[Part] = []
    for offset, length in sorted(parts):
        if found and offset <= sum(found[-1]) + _ALIGNED:
            first = found[-1][0]
            found[-1] = first, max(sum(found[-1]), offset + length) - first
        else:
            found.append((offset, length))
    return found


@dataclass(frozen=True)
class Cut:
    """How a part was cut out of a model: the tensors that it was asked to begin and to end with, the SHA-256 of the
    whole, and the inputs of the model that the part needs beside those that it begins with.
    """

    start: tuple[str, ...]
    end: tuple[str, ...]
    whole: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Content:
    """A file that was read: its bytes, the name of the model in it, the absolute path, None for bytes in memory, and
    how it is mapped, None where it is not. What was read from an ``archive`` has its path instead. ``cut`` is how it
    was cut out of the file, None for the whole.
    """

    data: Buffer
    name: str = "model"
    path: str | None = None
    own: Mapped | None = None
    archive: str | None = None
    cut: Cut | None = None

    @property
    def file(self) -> str | None:
        """The file that it was read from, which may be an archive; None for bytes in memory."""
        return self.path or self.archive

    @cached_property
    def folder(self) -> Folder | None:
        """Where the file is, None for bytes in memory."""
        return None if self.path is None else Folder(Path(self.path).parent)

    @property
    def called(self) -> str:
        """What messages call it: by the name of its file, if it has one."""
        return "the model" if self.path is None else f"'{printable(Path(self.path).name)}'"

    @property
    def mapped(self) -> tuple[Mapped, ...]:
        """All files that are mapped, those beside the model as well."""
        beside = () if self.folder is None else self.folder.mapped
        return beside if self.own is None else (self.own, *beside)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return digest(self.data)

    @property
    def whole(self) -> str:
        """The SHA-256 of the model that it is, or that it was cut out of."""
        return self.digest if self.cut is None else self.cut.whole


class OnnxModel(Protocol):
    """What ``onnx.ModelProto`` and ``onnx_ir.Model`` have in common."""

    ir_version: int


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Content | OnnxModel
"""A path, the content of a file, or a model in memory: ``onnx.ModelProto`` or ``onnx_ir.Model``. What was loaded once
can be given again.
"""


def load(source: Source, argument: str = "source") -> Content:
    """The content of a source; a regular file of more than :data:`READ` bytes is mapped into memory.

    Raises :class:`TypeError`, which names the argument, for anything that is no source, and :class:`ModelError` for a
    file that cannot be read.
    """
    if isinstance(source, Content):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _read(os.fsdecode(source))
    if hasattr(source, "read") and not isinstance(source, mmap.mmap):
        raise TypeError(f"{argument} is an open file: give its path, or what its read() returns")
    try:
        view = memoryview(_serialized(source, argument))
    except TypeError as error:
        kind = f"{type(source).__name__} {brief(source)}"
        raise TypeError(f"{argument} must be a path, the bytes of a model, or an ONNX model, not {kind}") from error
    if view.nbytes == 0:
        raise ModelError(f"{argument} is empty: give a model")
    content = Content(view.cast("B") if view.readonly and view.c_contiguous else view.tobytes())
    return _member(content, "", argument) if is_archive(content.data) else content


@contextmanager
def on_disk(content: Content) -> Iterator[Path]:
    """The file of a model, for programs that open it themselves: a temporary one where it is in an archive or in
    memory.
    """
    if content.path is not None and content.cut is None:
        yield Path(content.path)
        return
    with files.scratch() as folder:
        path = folder / "model"
        path.write_bytes(content.data)
        yield path


def _serialized(source: object, argument: str) -> Any:
    """The bytes of a model in memory; anything else is given back."""
    whole = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    if whole == "onnx_ir.Model":
        source = import_module("onnx_ir").to_proto(source)
        whole = "onnx.ModelProto"
    if whole != "onnx.ModelProto":
        return source
    try:
        return source.SerializeToString()  # type: ignore[attr-defined]
    except ValueError as error:  # of protobuf, beyond two gigabytes
        raise ModelError(
            f"{argument} does not fit into one message: save it with external data, and give its path"
        ) from error


def _read(path: str) -> Content:
    if not path:
        raise ModelError("the name of the model is empty: give the path of a model")
    if not os.path.lexists(path) and (inside := split(Path(path))) is not None:
        archive, member = inside
        whole = str(archive)
        held = _opened(whole)
        if is_archive(held.data):
            return _member(Content(held.data, path=str(archive.absolute()), own=held.mapped), member, whole)
    held = _opened(path)
    content = Content(held.data, _stem(path), str(Path(path).absolute()), held.mapped)
    return _member(content, "", path) if is_archive(held.data) else content


def _opened(path: str) -> Held:
    try:
        with Path(path).open("rb") as file:
            return _content(file, path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = _beside(Path(path)) if isinstance(error, FileNotFoundError) else ""
        raise ModelError(f"cannot read '{printable(path)}': {reason}{hint}") from error


def members_of(path: str) -> list[str]:
    """The names of the models of an archive, none for another file. Raises :class:`ModelError` as reading it does."""
    held = _opened(path)
    return [*models_in(held.data, path)] if is_archive(held.data) else []


def _stem(path: str) -> str:
    return os.fsencode(Path(path).stem).decode("utf-8", "replace")


def _member(content: Content, member: str, path: str) -> Content:
    """A model of an archive."""
    name, data = chosen(models_in(content.data, path), member, path)
    return Content(data, _stem(name), None, content.own, content.path)


def _beside(path: Path) -> str:
    """A question for the file that was meant, where its folder has one of nearly that name."""
    try:
        found = [printable(each.name) for each in islice(path.parent.iterdir(), _LISTED) if each.suffix in ENDINGS]
    except OSError:
        return ""
    return nearest(path.name, found)


def _content(file: BinaryIO, path: str) -> Held:
    found, shown = os.fstat(file.fileno()), printable(path)
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        held = Held(file.read())
    elif stat.S_ISREG(found.st_mode):
        held = _held(file, str(Path(path).absolute()))
    else:
        raise ModelError(f"cannot read '{shown}': it is a device; give a model")
    if not len(held.data):
        raise ModelError(f"'{shown}' is empty: give a model")
    return held


def _held(file: BinaryIO, path: str) -> Held:
    """The bytes of a regular file. Raises :class:`ModelError` where it changes while it is read."""
    found = os.fstat(file.fileno())
    if found.st_size > READ:
        return Held(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), Mapped(path, _stamp(found)))
    data = file.read()
    if len(data) != found.st_size or _stamp(os.fstat(file.fileno())) != _stamp(found):
        raise _changed(printable(path))
    return Held(memoryview(data))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """What is another one when a file has been written to, or has been put in the place of one."""
    return found.st_size, found.st_mtime_ns, found.st_ino


def _changed(shown: str) -> ModelError:
    return ModelError(f"'{shown}' has changed since it was read: convert it again")
