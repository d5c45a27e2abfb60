"""Sources that somebody writes to while they are converted: the result is of what was read, or there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve import ConversionError, ModelError
from layoutsolve.cli.command_line import main
from layoutsolve.io import source
from tests.builder import Builder
from tests.random_onnx import Writer

CHANGED = "has changed since it was read: convert it again"


def network(path: Path) -> Path:
    """A dense layer whose weights are written as they lie in the source."""
    build = Builder()
    x, y = build.input("x", (4, 64)), build.tensor("y", (4, 32))
    weights = build.constant("w", np.arange(32 * 64, dtype=np.float32).reshape(32, 64))
    build.operator("FULLY_CONNECTED", [x, weights], [y])
    path.write_bytes(build.finish(y))
    return path


def cut(path: Path) -> None:
    os.truncate(path, 0)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\1" * 512)


def removed(path: Path) -> None:
    path.unlink()


WAYS = [cut, overwritten, removed]


def changing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Have a change made between reading a source and searching for its layouts."""
    assign = layoutsolve.api.assign

    def late(*given: object, **options: object) -> object:
        change()
        return assign(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(layoutsolve.api, "assign", late)


@pytest.mark.parametrize("change", WAYS)
@pytest.mark.parametrize("apart", [False, True])
def test_what_was_read_is_converted(
    change: Callable[[Path], None], apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = network(tmp_path / "a.tflite")
    expected, again = tmp_path / "expected.onnx", tmp_path / "again" / "expected.onnx"
    again.parent.mkdir()
    layoutsolve.convert(path, external_data=apart).save(expected)
    changing(monkeypatch, lambda: change(path))
    conversion = layoutsolve.convert(path, external_data=apart)
    conversion.save(again)
    conversion.session()
    for each in expected.parent.glob("expected.onnx*"):
        assert each.read_bytes() == (again.parent / each.name).read_bytes()


@pytest.mark.parametrize("change", WAYS)
def test_a_mapped_source_that_changes(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, whenever it is changed, and nothing is written."""
    monkeypatch.setattr(source, "READ", 0)
    path, target = network(tmp_path / "a.tflite"), tmp_path / "a.onnx"
    conversion = layoutsolve.convert(path, external_data=True)
    conversion.save(target)
    kept = {each: each.read_bytes() for each in tmp_path.glob("a.onnx*")}
    certificate = layoutsolve.certify(path, conversion, target)
    assert layoutsolve.check_certificate(path, target, certificate)
    change(path)
    for call in (lambda: conversion.save(target), conversion.session, conversion.profile):
        with pytest.raises(ModelError, match=CHANGED):
            call()
    with pytest.raises(ConversionError):
        layoutsolve.certify(path, conversion, target)
    assert {each: each.read_bytes() for each in tmp_path.glob("a.onnx*")} == kept


def test_a_mapped_source_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source, "READ", 0)
    path, target = network(tmp_path / "a.tflite"), tmp_path / "a.onnx"
    changing(monkeypatch, lambda: overwritten(path))
    assert main([str(path), "-o", str(target)]) == 2
    assert f"'{path}' {CHANGED}" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("read", [0, source.READ])
def test_constants_of_a_source_in_onnx(read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beside it is read, or mapped, as it is itself; its files are told by name."""
    monkeypatch.setattr(source, "READ", read)
    writer = Writer(0)
    y = writer.op("MatMul", writer.input(1, 8, 64), writer.constant(np.ones((64, 64))), shape=[1, 8, 64])
    path, weights, target = tmp_path / "a.onnx", tmp_path / "weights.bin", tmp_path / "out.onnx"
    onnx.save(writer.model(y), path, save_as_external_data=True, location=weights.name, size_threshold=0)
    conversion = layoutsolve.convert(path, external_data=True)
    conversion.save(target)
    kept = Path(f"{target}.data").read_bytes()
    overwritten(weights)
    if read:
        conversion.save(target)
    else:
        with pytest.raises(ModelError, match=CHANGED) as raised:
            conversion.save(target)
        assert str(weights) in str(raised.value)
    assert Path(f"{target}.data").read_bytes() == kept


def test_a_source_that_is_cut_off_ends_no_process(tmp_path: Path) -> None:
    """Reading on behind the end of a mapped file is a signal, not an exception."""
    path = network(tmp_path / "a.tflite")
    text = "import sys, os, layoutsolve; c = layoutsolve.convert(sys.argv[1], external_data=True);"
    text += "os.truncate(sys.argv[1], 0); c.save(sys.argv[1] + '.onnx'); print('saved')"
    done = subprocess.run([sys.executable, "-c", text, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "saved\n"
