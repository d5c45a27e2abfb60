"""``--lowering`` runs the files that are named, here and in workers, and ``view`` opens a page."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import onnx
import pytest

from layoutsolve.cli.command_line import main
from tests.builder import Builder

pytestmark = pytest.mark.usefixtures("registry")

CODE = """
import layoutsolve

@layoutsolve.register("CUSTOM:{name}")
def lowering(call):
    x = call.input(0)
    call.write("{op}", [x], x.shape, call.slot())
"""


def model(name: str) -> bytes:
    build = Builder()
    x, y = build.input("x", (2, 3)), build.tensor("y", (2, 3))
    build.operator(f"CUSTOM:{name}", [x], [y])
    return build.finish(y)


def test_one_model_and_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tflite").write_bytes(model("MineOne"))
    Path("own.py").write_text(CODE.format(name="MineOne", op="Tanh"))
    assert main(["a.tflite"]) == 2 and "--lowering" in capsys.readouterr().err
    assert main(["ops", "a.tflite", "--lowering", "own.py"]) == 0 and "1 Tanh" in capsys.readouterr().out
    assert main(["a.tflite", "--lowering", "own.py"]) == 0
    assert [node.op_type for node in onnx.load("a.onnx").graph.node] == ["Tanh"]
    batch = ["a.tflite", "--lowering", "own.py", "-o", "out/", "--resume"]
    assert main(batch) == 0 and [node.op_type for node in onnx.load("out/a.onnx").graph.node] == ["Tanh"]
    assert main(batch) == 0 and "up to date" in capsys.readouterr().err
    Path("own.py").write_text(CODE.format(name="MineOne", op="Sinh"))
    assert main(batch) == 0 and [node.op_type for node in onnx.load("out/a.onnx").graph.node] == ["Sinh"]
    assert main(["a.tflite", "--lowering", "own.py", "-o", "own.py"]) == 2


def test_a_source_that_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is registered is not in a TensorFlow Lite file that is no better for it, and the summary says so."""
    monkeypatch.chdir(tmp_path)
    Path("a.tflite").write_bytes(model("MineTwo"))
    Path("own.py").write_text(CODE.format(name="MineTwo", op="Tanh"))
    assert main(["a.tflite", "--lowering", "own.py", "-o", "b.tflite"]) == 0
    assert Path("b.tflite").read_bytes() == Path("a.tflite").read_bytes()
    assert "--lowering: the model has its own operators" in capsys.readouterr().out
    assert main(["a.tflite", "--lowering", "own.py", "-o", "b.onnx"]) == 0
    assert "its own operators" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1 / 0", "import", "import layoutsolve\nlayoutsolve.register('NO')", "x = 1", None])
def test_what_cannot_be_run(text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tflite").write_bytes(model("MineTwo"))
    if text is not None:
        (tmp_path / "own.py").write_text(text)
    assert main([str(tmp_path / "a.tflite"), "--lowering", str(tmp_path / "own.py")]) == 2
    assert capsys.readouterr().err.startswith("layoutsolve: ") and not (tmp_path / "a.onnx").exists()


def test_files_that_register_nothing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also beside one that does, before and behind it; a file may register the same again."""
    source, none, own = tmp_path / "a.tflite", tmp_path / "none.py", tmp_path / "own.py"
    source.write_bytes(model("MineThree"))
    none.write_text("import layoutsolve\n")
    own.write_text(CODE.format(name="MineThree", op="Tanh"))
    for files in ([own, none], [none, own], [none]):
        assert main([str(source), *(f"--lowering={each}" for each in files)]) == 2
        assert "none.py' registers no lowering: use @layoutsolve.register in it" in capsys.readouterr().err
    assert main([str(source), f"--lowering={own}", f"--lowering={own}", "-q"]) == 0


def test_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of the source and of what would be written, and nothing beside the source."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda place: not opened.append(place))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    build = Builder()
    x, y = build.input("x", (2, 3)), build.tensor("y", (2, 3))
    build.operator("ABS", [x], [y])
    (tmp_path / "a.tflite").write_bytes(build.finish(y))
    assert main(["view", str(tmp_path / "a.tflite")]) == 0
    (page,) = opened
    assert page.startswith("file://") and page.endswith("/a.html")
    assert "ABS" in Path(page.removeprefix("file://")).read_text()
    assert {each.name for each in tmp_path.iterdir()} == {"a.tflite", "temporary"}
    assert main(["view", str(tmp_path)]) == 2 and "give one" in capsys.readouterr().err
    monkeypatch.setattr(webbrowser, "open", lambda place: False)
    assert main(["view", str(tmp_path / "a.tflite"), "--report", str(tmp_path / "b.html"), "-q"]) == 0
    assert "b.html" in capsys.readouterr().err and (tmp_path / "b.html").exists()
