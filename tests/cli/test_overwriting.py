"""No file is lost, whatever outputs are called."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import layoutsolve.api
import layoutsolve.io.source
from experiments.make.demo import mobilenet
from layoutsolve.cli.command_line import main
from tests.cli.test_cli import refused, small_model


@pytest.mark.parametrize("option", ["-o", "--certify"])
def test_a_target_is_not_overwritten(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tflite").write_bytes(small_model())
    table = tmp_path / "mine.json"
    table.write_text('{"name": "mine", "extends": "ort-cpu"}')
    arguments = [str(tmp_path / "a.tflite"), "--target", str(table), option, str(table)]
    refused(arguments, "is a file that is read", tmp_path, capsys)
    assert main(arguments[:-2]) == 0


def test_the_source_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.tflite"
    source.write_bytes(small_model())
    refused([str(source), "-o", str(tmp_path / "." / "a.tflite")], "is a file that is read", tmp_path, capsys)
    assert source.read_bytes() == small_model()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--certify", "a.tflite"], "is a file that is read"),
        (["--certify", "link"], "is a file that is read"),
        (["-o", "hard"], "is a file that is read"),
        (["--certify", "a.onnx"], "is where the model goes"),
        (["-o", "b.onnx", "--certify", "./b.onnx"], "is where the model goes"),
        (["-o", "b.onnx", "--certify", "b.onnx.data", "--external-data"], "is where the data goes"),
        (["-o", "x.onnx", "--external-data"], "is a file that is read"),
        (["-o", "x" * 256, "--external-data"], "too long"),
        (["-o", "x" * 252, "--external-data"], "too long"),
        (["-o", ""], "is empty"),
        (["--certify", ""], "is empty"),
        (["--certify", "no/a.json"], "does not exist"),
        (["--certify", "a.json", "--strategy", "push"], "proves nothing"),
        (["--certify", "a.json", "-o", "b.onnx", "--external-data", "--signature", "x"], "no signature"),
    ],
)
def test_no_file_is_lost(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever outputs are called, the source is as it was and no file is written for another."""
    monkeypatch.chdir(tmp_path)
    name = "x.onnx.data" if options == ["-o", "x.onnx", "--external-data"] else "a.tflite"
    Path(name).write_bytes(small_model())
    Path("link").symlink_to(name)
    Path("hard").hardlink_to(name)
    refused([name, *options], message, tmp_path, capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["hard", "link", name])
    assert Path(name).read_bytes() == small_model()


def test_the_source_is_not_overwritten_by_a_program(tmp_path: Path) -> None:
    """A conversion knows what it was read from."""
    source = tmp_path / "x.onnx.data"
    source.write_bytes(mobilenet())
    with pytest.raises(layoutsolve.OutputError, match="is a file that is read"):
        layoutsolve.convert(source).save(source)
    conversion = layoutsolve.convert(source, external_data=True)
    with pytest.raises(layoutsolve.OutputError, match="is a file that is read"):
        conversion.save(tmp_path / "x.onnx")
    assert source.read_bytes() == mobilenet()
    conversion.save(tmp_path / "y.onnx")
    conversion.save(tmp_path / "z.onnx")
    for name in "yz":
        onnx.checker.check_model(str(tmp_path / f"{name}.onnx"), full_check=True)


def test_unwritable_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.tflite"
    source.write_bytes(small_model())
    refused([str(source), "-o", str(tmp_path / "no" / "such" / "out.onnx")], "cannot write", tmp_path, capsys)
