"""Options and files that are none: what is said of them, and the help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from layoutsolve.cli import parser
from layoutsolve.cli.command_line import main
from tests.cli.test_cli import refused, small_model


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, this is a text file\n" * 9, "is neither a TensorFlow Lite nor an ONNX model"),
        (bytes(range(256)) * 4, "is neither a TensorFlow Lite nor an ONNX model"),
        (small_model()[:200], "layoutsolve: "),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer; fetch the file itself"),
        (b"\n<!DOCTYPE html><html></html>", "it is a web page; download the file itself"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file, as Keras writes; convert it with tf.lite.TFLiteConverter"),
        (b"\x80\x02}q\x00" + bytes(99), "a pickle, as PyTorch writes; export the model"),
        (b"\x18\0\0\0ORTM" + bytes(99), "ORT format; give the ONNX model"),
    ],
)
def test_bad_files(content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "bad.tflite"
    source.write_bytes(content)
    refused([str(source)], message, tmp_path, capsys)


def test_missing_file_and_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([str(tmp_path / "missing.tflite")], "No such file", tmp_path, capsys)
    (tmp_path / "folder.tflite").mkdir()
    refused([str(tmp_path / "folder.tflite")], "directory", tmp_path, capsys)
    refused(
        [str(tmp_path / "folder.tflit")], "No such file or directory (did you mean 'folder.tflite'?)", tmp_path, capsys
    )


def test_words_near_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command is not read as the name of a model; a file of that name is."""
    refused(
        ["banch", "x.onnx"],
        "'banch' is no command, and no file has that name (did you mean 'bench'?)",
        tmp_path,
        capsys,
    )
    for word in ("verify", "report", "check"):
        said = f"'{word}' is no command, and no file has that name: that is an option, --{word}"
        refused([word, "x.tflite", "x.onnx"], said, tmp_path, capsys)
    refused(["model"], "cannot read 'model'", tmp_path, capsys)


@pytest.mark.parametrize("written", ["y.onnx", "y.tflite"])
def test_a_check_names_the_written_model(written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"argument --check: the written model is named with -o: layoutsolve x.tflite -o {written} --check"
    refused(["x.tflite", written, "--check", "c.json"], said, tmp_path, capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "speed"], "unknown objective"),
        (["--strategy", "luck"], "unknown strategy"),
        (
            ["--target", "luck"],
            "unknown target 'luck': use one of ort-cpu, ort-cpu-contrib, ort-arm, ort-web, ",
        ),
        (["--target", "no.json"], "cannot read target 'no.json': No such file"),
        (["--target", "ort-cpu", "--contrib"], "contrib: target 'ort-cpu' does not allow"),
        (["--inputs", "sideways"], "unknown choice"),
        (["--layout", "image"], "NAME=SRC:DST"),
        (["--format", "tflit"], "--format: a format is 'onnx' or 'tflite', not 'tflit'"),
        (["--format", "tflite", "-o", "x.onnx"], "argument --format: the ending of -o is that of onnx"),
        (["--format", "onnx", "-o", "x.tflite"], "argument --format: the ending of -o is that of tflite"),
        (["--layout", "nobody=NHWC:NCHW"], "no tensor is called"),
        (["--layout", "image=NHWC:NCHW", "--layout", "image=NHWC:NWHC"], "two different layouts"),
        (["--opset", "10"], "opset 10"),
        (["--time-limit", "-1"], "time limit"),
        (["-o", "."], "directory"),
    ],
)
def test_bad_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.tflite"
    source.write_bytes(small_model())
    refused([str(source), *options], message, tmp_path, capsys)


def test_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is used most, and all of it when that is asked for."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = {}
    for option in ("-h", "--help", "--help-all"):
        with pytest.raises(SystemExit) as ended:
            main([option])
        assert ended.value.code == 0
        shown[option] = capsys.readouterr().out
    assert shown["-h"] == shown["--help"] and len(shown["--help"].splitlines()) <= 42
    assert "--help-all" in shown["--help"] and "--verify-tensors" not in shown["--help"]
    options = {name for action in parser._parser()._actions for name in action.option_strings}
    assert options <= set(re.findall(r"(?<![\w-])--?[a-z-]+", shown["--help-all"]))


COMPLETED = {
    "layoutsolve --obj": ["--objective "],
    "layoutsolve b": ["b.tflite", "bench"],
    "layoutsolve x.tflite --objective min-t": ["min-transpose "],
    "layoutsolve x.tflite --target portab": ["portable "],
    "layoutsolve bench --op": ["--openvino "],
    "layoutsolve bench x.onnx --level ext": ["extended "],
    "layoutsolve ops --weights sy": ["symmetric "],
}


@pytest.mark.members(2)
@pytest.mark.parametrize("line", COMPLETED)
def test_completion(line: str, tmp_path: Path) -> None:
    """What a shell is told, in the way in which argcomplete's function for Bash asks."""
    pytest.importorskip("argcomplete", reason="needs layoutsolve[completion]")
    (tmp_path / "b.tflite").touch()
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    asked |= {"COMP_TYPE": "9", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "told")}
    command = [sys.executable, "-m", "layoutsolve"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **asked}, capture_output=True, check=True)
    assert sorted((tmp_path / "told").read_text().splitlines()) == COMPLETED[line]
