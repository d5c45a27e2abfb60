"""The one writer: everything in its place or everything as it was, whatever the names and whenever it ends."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import pytest

from layoutsolve.errors import OutputError
from layoutsolve.io import files
from layoutsolve.io.files import Output, written

Snapshot = dict[str, tuple[str, bytes]]


def output(what: str, path: Path | str, content: bytes = b"new") -> Output:
    return Output(what, str(path), lambda file: file.write(content))


def write(*outputs: Output, inputs: tuple[Path, ...] = ()) -> None:
    with written(outputs, [str(path) for path in inputs]):
        pass


def snapshot(folder: Path) -> Snapshot:
    """All that a folder holds: links, modes and contents."""
    found: Snapshot = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[os.fsencode(path.relative_to(folder)).hex()] = (stat.filemode(mode), content)
    return found


def test_new_files_have_the_mode_of_the_umask(tmp_path: Path) -> None:
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            write(output("model", tmp_path / f"{mask}"))
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o755])
def test_files_keep_their_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(mode)
    write(output("model", target))
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", mode)


def test_links_stay(tmp_path: Path) -> None:
    """What a symbolic link points to is replaced or made, wherever it is; another hard link keeps what it had."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "there").write_bytes(b"old")
    os.link(tmp_path / "far" / "there", tmp_path / "hard")
    for name in ("there", "missing"):
        link = tmp_path / f"to {name}"
        link.symlink_to(Path("far") / name)
        write(output("model", link))
        assert link.is_symlink()
        assert (tmp_path / "far" / name).read_bytes() == b"new"
    assert (tmp_path / "hard").read_bytes() == b"old"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="loop"):
        write(output("model", tmp_path / "loop"))


def ways(folder: Path, path: Path) -> Iterator[Path | str]:
    """Names for one file in a folder."""
    yield path
    yield os.path.relpath(path)
    yield f"{folder}/./{path.name}"
    yield f"{folder}/other/../{path.name}"
    (folder / "soft").symlink_to(path)
    yield folder / "soft"
    (folder / "chain").symlink_to("soft")
    yield folder / "chain"
    (folder / "here").symlink_to(".")
    yield folder / "here" / path.name
    if path.exists():
        os.link(path, folder / "hard")
        yield folder / "hard"


@pytest.mark.parametrize("exists", [True, False])
def test_no_file_twice(tmp_path: Path, exists: bool) -> None:
    """Whatever two outputs, or an input and an output, are called: if they are one file, nothing is written."""
    path = tmp_path / "a"
    (tmp_path / "other").mkdir()
    if exists:
        path.write_bytes(b"old")
    names = list(ways(tmp_path, path))
    before = snapshot(tmp_path)
    for one in names:
        for two in names:
            with pytest.raises(OutputError, match="is where the model goes; name another file for the certificate"):
                write(output("model", one), output("certificate", two))
            if exists:
                with pytest.raises(OutputError, match="is a file that is read"):
                    write(output("data", tmp_path / "b"), output("model", two), inputs=(Path(one),))
    assert snapshot(tmp_path) == before


def test_names_that_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without capitals the second name turns out to be the first one's when that is in its place."""
    original = Path.replace

    def without_capitals(path: Path, target: Path) -> Path:
        return original(path, target.with_name(target.name.lower()))

    def status(path: Path) -> os.stat_result:
        return os.lstat(path.with_name(path.name.lower()))

    monkeypatch.setattr(Path, "replace", without_capitals)
    monkeypatch.setattr(Path, "lstat", status)
    with pytest.raises(OutputError, match="another output has the same name"):
        write(output("certificate", tmp_path / "a.json"), output("model", tmp_path / "A.JSON"))
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("name", ["x" * 255, "\udcff\udc80", "two\nlines", " ", "-", "é" * 127, "\x1b[31m"])
def test_names(tmp_path: Path, name: str) -> None:
    """Every name that the file system takes is taken; a message about it is one line."""
    write(output("model", tmp_path / name))
    write(output("model", tmp_path / name, b"newer"))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"newer"]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).mkdir()
    with pytest.raises(OutputError) as caught:
        write(output("model", tmp_path / "d" / name))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        ("x" * 256, "too long"),
        ("a\0b", "null"),
        ("\ud800", "no name of a file"),
        (".", "directory"),
        ("new/", "directory"),
        ("no/where", "the folder 'no' does not exist"),
        ("file/below", "Not a directory"),
    ],
)
def test_impossible_names(tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    before = snapshot(tmp_path)
    with pytest.raises(OutputError, match=message) as caught:
        write(output("data", "data"), output("model", name))
    assert str(caught.value).isprintable()
    assert snapshot(tmp_path) == before


def test_pipes_and_devices_are_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write(output("model", pipe, b"x" * 100_000), output("data", os.devnull), output("certificate", os.devnull))
    reader.join(10)
    assert received == [b"x" * 100_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    with pytest.raises(OutputError, match="is where the model goes"):
        write(output("model", pipe), output("certificate", pipe))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device(tmp_path: Path) -> None:
    """Nothing else is written either, in whichever order."""
    for outputs in (
        (output("model", tmp_path / "a"), output("certificate", "/dev/full")),
        (output("model", "/dev/full"), output("certificate", tmp_path / "a")),
    ):
        with pytest.raises(OutputError, match="'/dev/full': No space left"):
            write(*outputs)
    assert snapshot(tmp_path) == {}


def test_a_limit_on_sizes(tmp_path: Path) -> None:
    """A file that becomes too large, as on a disk that becomes full."""
    (tmp_path / "c").write_bytes(b"old")
    before = snapshot(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OutputError, match="/b': File too large"):
            write(output("data", tmp_path / "a"), output("model", tmp_path / "b", b"x" * 20_000), output("c", "c"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert snapshot(tmp_path) == before


def test_permissions(tmp_path: Path) -> None:
    """A folder that takes no new file and a file that is to be read only are left alone."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (tmp_path / "fixed").write_bytes(b"old")
    (folder / "old").write_bytes(b"old")
    for path, mode in ((tmp_path, 0o777), (tmp_path / "fixed", 0o444), (folder / "old", 0o666), (folder, 0o555)):
        path.chmod(mode)
    before = snapshot(tmp_path)
    code = """
import os, sys
os.chdir(sys.argv[1])
from layoutsolve.io.files import Output, written
from layoutsolve.errors import OutputError
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
for name in ("closed/new", "closed/old", "fixed"):
    try:
        with written([Output("data", "data", lambda file: file.write(b"x")), Output("model", name)]):
            pass
    except OutputError as error:
        print(error)
"""
    for parent in tmp_path.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert run.stdout.count("no permission to write") == 3, run
    assert snapshot(tmp_path) == before


def scene(folder: Path) -> tuple[Output, ...]:
    """A file that is there, one that is not, one behind a link."""
    (folder / "old").write_bytes(b"old")
    (folder / "behind").write_bytes(b"old as well")
    (folder / "link").symlink_to("behind")
    return output("data", folder / "old"), output("certificate", folder / "new"), output("model", folder / "link")


Tracer = Callable[[FrameType, str, object], object]


@contextmanager
def at_line(number: int, act: Callable[[], None], functions: tuple[str, ...] = ()) -> Iterator[list[int]]:
    """Do something before the so-manieth line that the writer runs, in any function or in some."""
    count = [0]

    def trace(frame: FrameType, event: str, argument: object) -> Tracer | None:
        if frame.f_code.co_filename != files.__file__ or (functions and frame.f_code.co_name not in functions):
            return None
        if event == "line":
            count[0] += 1
            if count[0] == number:
                sys.settrace(None)
                act()
        return trace  # type: ignore[return-value]

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        yield count
    finally:
        sys.settrace(before)


class Ended(BaseException):
    """The program is over."""


def test_the_program_may_end_anywhere(tmp_path: Path) -> None:
    """Before whichever line a signal comes: once the unfinished is cleared, all files are new or none is."""
    seen: set[bool] = set()
    for number in range(1, 10_000):
        folder = tmp_path / str(number)
        folder.mkdir()
        outputs = scene(folder)
        before = snapshot(folder)
        found: list[Snapshot] = []

        def end(folder: Path = folder, found: list[Snapshot] = found) -> None:
            files.abandon()
            found.append(snapshot(folder))
            raise Ended

        with suppress(Ended), at_line(number, end):
            write(*outputs)
        if not found:
            break
        new = {path: content for path, (_, content) in found[0].items()}
        finished = found[0] != before
        seen.add(finished)
        if finished:
            assert sorted(new.values()) == [b"behind", b"new", b"new", b"new"], number
        files._OPEN.clear()
    assert seen == {False, True}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(errno.EIO, "Input/output error")])
def test_writing_may_fail_anywhere(tmp_path: Path, error: BaseException) -> None:
    """Whichever step fails, nothing has changed."""
    steps = ("prepare", "write_through", "replace", "commit")
    for number in range(1, 10_000):
        folder = tmp_path / str(number)
        folder.mkdir()
        outputs = scene(folder)
        before = snapshot(folder)

        def fail() -> None:
            raise error

        try:
            with at_line(number, fail, steps) as count:
                write(*outputs)
        except (KeyboardInterrupt, MemoryError, OutputError, OSError):
            assert snapshot(folder) == before, number
        if count[0] < number:
            assert snapshot(folder) != before
            break
    assert 20 < number < 10_000


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups are made by renaming then."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    outputs = scene(tmp_path)
    before = snapshot(tmp_path)
    original = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if target.name == "behind" and path.name.startswith(".") and path.read_bytes() == b"new":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return original(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OutputError, match="busy"):
            write(*outputs)
    assert snapshot(tmp_path) == before
    write(*outputs)
    assert (tmp_path / "behind").read_bytes() == (tmp_path / "new").read_bytes() == b"new"
    assert len(snapshot(tmp_path)) == 4


def test_what_the_body_raises_takes_everything_back(tmp_path: Path) -> None:
    outputs = scene(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(ZeroDivisionError), written(outputs):
        raise ZeroDivisionError
    assert snapshot(tmp_path) == before


def test_large_content(tmp_path: Path) -> None:
    """Content that comes in pieces."""

    def pieces(file: BinaryIO) -> None:
        for number in range(100):
            file.write(bytes([number]) * 10_000)

    write(Output("model", str(tmp_path / "a"), pieces))
    assert (tmp_path / "a").stat().st_size == 1_000_000
