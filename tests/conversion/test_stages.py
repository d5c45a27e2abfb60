"""An exception that nobody expected, in every stage: one error, one line, no file, and the cause for who asks."""

from __future__ import annotations

import copy
import errno
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import layoutsolve
from layoutsolve import Conversion, ConversionError, InternalError
from layoutsolve.base.out_of_memory import is_short
from layoutsolve.cli.command_line import main
from layoutsolve.conversion.stages import Stages
from layoutsolve.errors import Gap
from tests.networks import Network

ERRORS = (
    KeyError("x"),
    AttributeError("no such thing\non two lines"),
    AssertionError(),
    RuntimeError("broken"),
    OSError(5, "Input/output error"),
    ZeroDivisionError("division by zero"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    StopIteration(),
    MemoryError(),
    RecursionError("maximum recursion depth exceeded"),
)
FAULTS = [
    ("layoutsolve.conversion.translation", "parse", "read"),
    ("layoutsolve.conversion.translation", "lowered", "lower"),
    ("layoutsolve.frontend.tflite.lower", "fold", "lower"),
    ("layoutsolve.solver.strategies.assign", "in_steps", "solve"),
    ("layoutsolve.solver.strategies.orders_then_groupings", "solve", "solve"),
    ("layoutsolve.solver.statement.statement.Statement", "candidates", "solve"),
    ("layoutsolve.conversion.translation", "apply", "emit"),
    ("layoutsolve.emit.apply._Applier", "_operator", "emit"),
    ("layoutsolve.conversion.translation", "serialise", "emit"),
    ("layoutsolve.result", "saved", "write"),
    ("layoutsolve.certification.certify", "restate", "certify"),
    ("layoutsolve.accuracy", "verify", "verify"),
    ("layoutsolve.solver.explanation.explain", "explain", "explain"),
    ("layoutsolve.cli.summary", "as_text", "write"),
]


@pytest.fixture(scope="module")
def source() -> bytes:
    net = Network()
    return net.model(net.conv(net.input(1, 8, 8, 3), 4)).source


def break_at(monkeypatch: pytest.MonkeyPatch, home: str, name: str, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error.with_traceback(None)

    try:
        owner: Any = importlib.import_module(home)
    except ModuleNotFoundError:
        module, _, owner = home.rpartition(".")
        owner = getattr(importlib.import_module(module), owner)
    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize(("home", "name", "stage"), FAULTS)
def test_every_stage(
    source: bytes,
    home: str,
    name: str,
    stage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 70, one line that says where it was and what to report; nothing is written."""
    path = tmp_path / "a.tflite"
    path.write_bytes(source)
    (tmp_path / "a.onnx").write_bytes(b"old")
    arguments = [str(path), "--certify", str(tmp_path / "a.json"), "--verify", "--explain", "--objective=min-bytes"]
    for error in ERRORS:
        if stage == "lower" and name == "fold" and isinstance(error, (ValueError, ZeroDivisionError)):
            continue  # what options that contradict each other bring about: a ModelError
        if stage == "write" and isinstance(error, OSError):
            continue  # the file cannot be written
        with monkeypatch.context() as patch:
            break_at(patch, home, name, error)
            assert main(arguments) == 70, error
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert f"in stage '{stage}'" in captured.err
        assert type(error).__name__ in captured.err
        assert "Traceback" not in captured.err
        if not isinstance(error, MemoryError):
            assert "please report it with layoutsolve 0." in captured.err
        if stage in ("read", "lower", "solve", "emit"):
            told = f", model sha256 {sha256(source).hexdigest()[:16]}, objective='min-bytes'"
            assert isinstance(error, MemoryError) or told in captured.err
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a.onnx", "a.tflite"]
        assert (tmp_path / "a.onnx").read_bytes() == b"old"


CALLS: list[tuple[str, str, Callable[[bytes, Conversion, Path], object]]] = [
    ("layoutsolve.api", "assign", lambda source, conversion, path: layoutsolve.convert(source)),
    ("layoutsolve.api", "assign", lambda source, conversion, path: layoutsolve.compare(source)),
    ("layoutsolve.accuracy", "_compared", lambda source, conversion, path: layoutsolve.verify(source, conversion)),
    ("layoutsolve.solver.explanation.explain", "explain", lambda source, conversion, path: conversion.explain()),
    ("layoutsolve.result", "saved", lambda source, conversion, path: conversion.save(path)),
    (
        "layoutsolve.certification.certify",
        "restate",
        lambda source, conversion, path: layoutsolve.certify(source, conversion),
    ),
]


@pytest.mark.parametrize(("home", "name", "call"), CALLS)
def test_every_function(
    source: bytes,
    home: str,
    name: str,
    call: Callable[[bytes, Conversion, Path], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The original exception is the cause; what ends a program passes."""
    conversion = layoutsolve.convert(source)
    for error in ERRORS:
        with monkeypatch.context() as patch:
            break_at(patch, home, name, error)
            with pytest.raises(InternalError) as caught:
                call(source, conversion, tmp_path / "a.onnx")
        assert caught.value.__cause__ is error
        assert isinstance(caught.value, ConversionError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.stage) == (str(caught.value), caught.value.stage)
    for ending in (KeyboardInterrupt(), SystemExit(5)):
        with monkeypatch.context() as patch:
            break_at(patch, home, name, ending)
            with pytest.raises(type(ending)):
                call(source, conversion, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_the_operator_is_named(source: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the frontend by the call that is lowered, in the emitter by the operator that is written."""
    for home, name in (("layoutsolve.frontend.tflite.lower", "fold"), ("layoutsolve.emit.apply._Applier", "_steps")):
        with monkeypatch.context() as patch:
            break_at(patch, home, name, KeyError("x"))
            with pytest.raises(InternalError, match="at CONV_2D#0: KeyError: 'x'") as caught:
                layoutsolve.convert(source)
        assert caught.value.origin == "CONV_2D#0"


def test_the_traceback_is_for_who_asks(
    source: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(source)
    break_at(monkeypatch, "layoutsolve.conversion.translation", "apply", KeyError("x"))
    assert main([str(path), "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("LAYOUTSOLVE_DEBUG", "1")
    assert main([str(path)]) == 70
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("LAYOUTSOLVE_DEBUG", "0")
    assert main([str(path)]) == 70
    assert "Traceback" not in capsys.readouterr().err


def test_interrupted(source: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(source)
    for home, name, _ in FAULTS[:11]:
        with monkeypatch.context() as patch:
            break_at(patch, home, name, KeyboardInterrupt())
            assert main([str(path), "--certify", str(tmp_path / "a.json")]) == 130
        assert [each.name for each in tmp_path.iterdir()] == ["a.tflite"]


@pytest.mark.parametrize(
    "error",
    [
        layoutsolve.UnsupportedError([Gap(0, 3, "SKIP_GRAM", "t", "ONNX has nothing for it", "leave it out")]),
        layoutsolve.BudgetError("the model would have 9 GB", "raise --max-size"),
        layoutsolve.ModelError("not a TensorFlow Lite model"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copied", "sent"])
def test_errors_pass_between_processes(error: ConversionError, again: Callable[[object], ConversionError]) -> None:
    found = again(error)
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("kilobytes", [30_000, 60_000, 80_000, 95_000, 100_000, 110_000, 120_000, 135_000, 2_000_000])
def test_little_memory(kilobytes: int, source: bytes, tmp_path: Path) -> None:
    """Whatever fails for want of it, it is one line, and an exit code that says so; nothing is written."""
    path = tmp_path / "a.tflite"
    path.write_bytes(source)
    command = f"ulimit -v {kilobytes}; exec '{sys.executable}' -m layoutsolve '{path}' -q"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        assert kilobytes > 120_000 and (tmp_path / "a.onnx").exists()
        return
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (70, "", 1)
    assert kilobytes < 2_000_000 and done.stderr.startswith("layoutsolve: the memory does not suffice")
    assert sorted(tmp_path.iterdir()) == [path]


def test_forms_of_want_of_memory() -> None:
    """It is known as what it is where a library says it otherwise, or where it led to another error."""
    mapped = "libx.so: failed to map segment from shared object"
    led = ImportError("numpy is not installed rightly")
    led.__cause__ = ImportError(mapped)
    for error in (MemoryError(), ImportError(mapped), OSError(errno.ENOMEM, "Cannot allocate memory"), led):
        assert is_short(error)
        with pytest.raises(InternalError, match="the memory does not suffice in stage 'x'"), Stages()("x"):
            raise error
    assert not any(map(is_short, (ImportError("no module 'x'"), OSError(errno.EIO, "error"), ValueError(mapped))))


def test_what_fails_outside_of_all_stages() -> None:
    """It is one line as well, as is a second error on the way to tell the first."""
    for name in ("command_line.main", "stages._origin"):
        code = "from layoutsolve import __main__\nfrom layoutsolve.cli import command_line, conversions\n"
        code += f"from layoutsolve.conversion import stages\ndef fail(*_): raise KeyError('x')\n{name} = fail\n"
        code += "import sys; sys.argv = ['layoutsolve', 'a.tflite']\n"
        code += "if 'origin' in '" + name + "': conversions.arguments_of = fail\n__main__.main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (70, 1)
        assert done.stderr.startswith("layoutsolve: unexpected error: KeyError: 'x'; please report it")
