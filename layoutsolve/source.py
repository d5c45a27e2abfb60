"""What a model is read from: a path, or the bytes themselves."""

from __future__ import annotations

import mmap
import os
import stat
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from layoutsolve.digest import Buffer, digest
from layoutsolve.errors import ModelError
from layoutsolve.records import dataclass
from layoutsolve.wording import brief, nearest, printable

ENDINGS = (".tflite", ".onnx")
"""How the names of models end."""

_LISTED = 10_000
"""How many files of a folder are looked at for the one that was meant."""


@dataclass(frozen=True, eq=False)
class Content:
    """A file that was read: its bytes, the name of the model in it, and the absolute path, None for bytes in memory."""

    data: Buffer
    name: str = "model"
    path: str | None = None

    @property
    def folder(self) -> Path | None:
        """Where the file is, None for bytes in memory."""
        return None if self.path is None else Path(self.path).parent

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return digest(self.data)


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Content
"""A path, or the content of a file. What was loaded once can be given again."""


def load(source: Source, argument: str = "source") -> Content:
    """The content of a source; a regular file is mapped into memory.

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
        view = memoryview(source)
    except TypeError as error:
        kind = f"{type(source).__name__} {brief(source)}"
        raise TypeError(f"{argument} must be a path, or the bytes of a model, not {kind}") from error
    if view.nbytes == 0:
        raise ModelError(f"{argument} is empty: give a model")
    return Content(view.cast("B") if view.readonly and view.c_contiguous else view.tobytes())


def _read(path: str) -> Content:
    shown = printable(path)
    if not path:
        raise ModelError("the name of the model is empty: give the path of a model")
    try:
        with Path(path).open("rb") as file:
            data = _content(file, shown)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = _beside(Path(path)) if isinstance(error, FileNotFoundError) else ""
        raise ModelError(f"cannot read '{shown}': {reason}{hint}") from error
    name = os.fsencode(Path(path).stem).decode("utf-8", "replace")
    return Content(data, name, str(Path(path).absolute()))


def _beside(path: Path) -> str:
    """A question for the file that was meant, where its folder has one of nearly that name."""
    try:
        found = [printable(each.name) for each in islice(path.parent.iterdir(), _LISTED) if each.suffix in ENDINGS]
    except OSError:
        return ""
    return nearest(path.name, found)


def _content(file: BinaryIO, shown: str) -> Buffer:
    found = os.fstat(file.fileno())
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        data = file.read()
        if data:
            return data
    elif not stat.S_ISREG(found.st_mode):
        raise ModelError(f"cannot read '{shown}': it is a device; give a model")
    elif found.st_size:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    raise ModelError(f"'{shown}' is empty: give a model")
