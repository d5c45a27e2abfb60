"""The one writer of files: all outputs of a run are written, or none is.

Everything is written under temporary names beside its target and renamed last, in the order that is given. An existing
file keeps its mode, a symbolic link stays and what it points to is replaced. Devices, pipes and standard output are
written through, when all other content is safely on disk. Until the last file is in its place an error or an
interruption takes everything back.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.platforms import STANDARD_OUTPUT, keep_owner
from layoutsolve.base.wording import printable
from layoutsolve.errors import OutputError

Identity = tuple[object, ...]

REWRITTEN = ".layoutsolve"
"""How the name of a result ends by default whose source is in ONNX."""


@dataclass(frozen=True)
class Output:
    """A file to write: what it is in messages ('model'), its path, and what writes the content."""

    what: str
    path: str
    write: Callable[[BinaryIO], object] = lambda file: None


class Unfinished(Protocol):
    """What has to be cleared up if the program ends now. Clearing twice does no harm."""

    def clear(self) -> None: ...


_OPEN: list[Unfinished] = []


@contextmanager
def written(outputs: Sequence[Output], inputs: Sequence[str] = ()) -> Iterator[None]:
    """Write all outputs, none of which may be another one or one of the ``inputs`` (paths).

    The body runs when everything is written, but no file is in its place yet; if it raises, none will be. Raises
    :class:`OutputError`.
    """
    batch = _Batch(_targets(outputs, inputs))
    with registered(batch):
        batch.prepare()
        yield
        batch.commit()


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder."""
    from tempfile import TemporaryDirectory  # with what few conversions need

    with TemporaryDirectory() as folder, registered(_Scratch(folder)):
        yield Path(folder)


@contextmanager
def folder(path: str) -> Iterator[None]:
    """A folder to write to, made where it is missing; where the body raises, what was made is gone again.

    Raises :class:`OutputError`.
    """
    made = [each for each in (Path(path), *Path(path).parents) if not each.exists()]
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OutputError(f"cannot make the folder '{printable(path)}': {reason}") from error
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise


def check(outputs: Sequence[Output], inputs: Sequence[str] = ()) -> None:
    """Raise :class:`OutputError` early where the outputs cannot be written."""
    _targets(outputs, inputs)


def is_standard_output(path: str) -> bool:
    """Whether what is written to a path comes out of the program's standard output."""
    try:
        own = os.fstat(1)
        found = own if path == STANDARD_OUTPUT else Path(path).stat()
    except (OSError, ValueError):
        return False
    return os.path.samestat(found, own) and not _discards(found)


def is_special(path: str) -> bool:
    """Whether a path is something that exists and is no regular file, or is standard output."""
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False
    return not regular or is_standard_output(path)


def abandon() -> None:
    """Clear up everything that is unfinished: for a program that is about to end at once."""
    for unfinished in reversed(_OPEN):
        unfinished.clear()


@contextmanager
def registered(unfinished: Unfinished) -> Iterator[None]:
    """Have something cleared up when the body ends, however it does."""
    _OPEN.append(unfinished)
    try:
        yield
    finally:
        unfinished.clear()
        _OPEN.remove(unfinished)


@dataclass
class _Target:
    """Where an output goes: the path behind symbolic links, what is there, and whether that is written through.

    ``temporary`` and ``backup`` are names that were taken, ``identity`` is what the new file is told by.
    """

    output: Output
    path: Path
    present: os.stat_result | None
    through: bool
    temporary: Path | None = None
    backup: Path | None = None
    identity: Identity | None = None

    def beside(self) -> Path:
        """A new name in the same folder, short enough for every file system."""
        return self.path.with_name(f".{os.urandom(6).hex()}")

    @property
    def place(self) -> Identity:
        """What tells files apart, also those that do not exist yet."""
        if self.present is None:
            return (*_identity(self.path.parent.stat()), self.path.name)
        return (self.output.what,) if _discards(self.present) else _identity(self.present)

    def prepare(self) -> None:
        """Write the content under a temporary name."""
        self.temporary = self.beside()
        with self.temporary.open("xb") as file:
            self.identity = _identity(os.fstat(file.fileno()))
            if self.present is not None:
                keep_owner(file.fileno(), self.present)
                self.temporary.chmod(stat.S_IMODE(self.present.st_mode))
            self.output.write(file)

    def write_through(self) -> None:
        """Write the content to a device, a pipe or standard output."""
        own = self.output.path == STANDARD_OUTPUT or is_standard_output(self.output.path)
        if own and sys.stdout is not None:
            sys.stdout.flush()
        with os.fdopen(os.dup(1), "wb") if own else Path(self.output.path).open("wb") as file:
            self.output.write(file)

    def replace(self, done: Sequence[_Target]) -> None:
        """Put the new file in its place; what was there is kept as a backup. ``done`` are in their places already."""
        with suppress(FileNotFoundError):
            there = _identity(self.path.lstat())
            if any(there == other.identity for other in done):
                raise OutputError(f"cannot write '{printable(self.output.path)}': another output has the same name")
            self.backup = self.beside()
            try:
                self.backup.hardlink_to(self.path)
            except OSError:
                self.path.replace(self.backup)
        if self.temporary is not None:
            self.temporary.replace(self.path)

    def undo(self) -> None:
        """Put back what was there."""
        if self.backup is not None and os.path.lexists(self.backup):
            self.backup.replace(self.path)
        elif self.identity is not None and self.identity == _identity(self.path.lstat()):
            self.path.unlink()


class _Batch:
    """The outputs of one run."""

    def __init__(self, targets: Sequence[_Target]) -> None:
        self.targets = targets
        self.committed = False

    def prepare(self) -> None:
        for through in (False, True):
            for target in self.targets:
                if target.through is through:
                    with _failing(target.output.path):
                        (target.write_through if through else target.prepare)()

    def commit(self) -> None:
        files = [target for target in self.targets if not target.through]
        for number, target in enumerate(files):
            with _failing(target.output.path):
                target.replace(files[:number])
        self.committed = True

    def clear(self) -> None:
        for target in reversed(self.targets):
            if not self.committed:
                try:
                    target.undo()
                except FileNotFoundError:
                    pass
                except OSError:
                    target.backup = None  # the only copy of what was there: it stays
            for name in (target.temporary, target.backup):
                if name is not None:
                    with suppress(OSError):
                        name.unlink()
            target.identity = None


@dataclass(frozen=True)
class _Scratch:
    folder: str

    def clear(self) -> None:
        from shutil import rmtree  # which was loaded to make the folder

        rmtree(self.folder, ignore_errors=True)


def default_output(source: Path, ending: str = ".onnx") -> Path:
    """Where a model is written by default: beside its source, which it never overwrites."""
    return source.with_suffix(f"{REWRITTEN}{ending}" if source.suffix == ending else ending)


def _targets(outputs: Sequence[Output], inputs: Sequence[str]) -> list[_Target]:
    """Resolve all paths and compare them."""
    taken: dict[Identity, str] = {}
    for path in inputs:
        with suppress(OSError):
            taken[_identity(Path(path).stat())] = "a file that is read"
    targets = []
    for output in outputs:
        with _failing(output.path):
            target = _target(output)
            place = target.place
        if place in taken:
            raise OutputError(f"'{printable(output.path)}' is {taken[place]}; name another file for the {output.what}")
        taken[place] = f"where the {output.what} goes"
        targets.append(target)
    return targets


def _target(output: Output) -> _Target:
    given = output.path
    if not given:
        raise OutputError(f"the name of the file for the {output.what} is empty: name a file")
    path = Path(given)
    try:
        present = os.fstat(1) if given == STANDARD_OUTPUT else path.stat()
    except FileNotFoundError:
        present = None
    except ValueError as error:  # a null character, or one that the file system's encoding has not
        raise OutputError(f"'{printable(given)}' is no name of a file: {error}") from error
    if given.endswith(os.sep) or (present is not None and stat.S_ISDIR(present.st_mode)):
        raise OutputError(f"cannot write '{printable(given)}': it is a directory; name a file for the {output.what}")
    if present is not None and (not stat.S_ISREG(present.st_mode) or is_standard_output(given)):
        return _Target(output, path, present, through=True)
    path = path.resolve()
    path.parent.stat()
    for name, mode in ((path.parent, os.W_OK | os.X_OK), (path if present else path.parent, os.W_OK)):
        if not os.access(name, mode):
            raise PermissionError(errno.EACCES, f"no permission to write to '{printable(str(name))}'")
    return _Target(output, path, present, through=False)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _discards(found: os.stat_result) -> bool:
    """Whether a file is the null device, which takes everything from everybody."""
    return stat.S_ISCHR(found.st_mode) and os.path.samestat(found, Path(os.devnull).stat())


@contextmanager
def _failing(path: str) -> Iterator[None]:
    """Say which file it is that could not be written."""
    try:
        yield
    except OSError as error:
        parent = Path(path).parent
        lacking = isinstance(error, FileNotFoundError) and not parent.exists()
        reason = f"the folder '{printable(str(parent))}' does not exist" if lacking else error.strerror or error
        raise OutputError(f"cannot write '{printable(path)}': {reason}") from error
