"""Many models in one run: each becomes what it does alone, whatever becomes of others and however many run at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import layoutsolve
from layoutsolve.batch import result_records
from layoutsolve.batch.jobs import collected
from layoutsolve.batch.result_records import RECORD
from layoutsolve.batch.signatures import files_of
from layoutsolve.batch.versions import versions
from layoutsolve.cli.command_line import main
from layoutsolve.errors import ModelError, OptionError
from tests.batch.conftest import NAMES
from tests.builder import Builder
from tests.cli.test_streams import LISTENING, small
from tests.random_models import network

PROGRAM = [sys.executable, "-m", "layoutsolve"]


def written(place: Path) -> dict[str, bytes]:
    """All files of a folder, but for records: hidden ones too."""
    files = (path for path in place.rglob("*") if path.is_file() and path.name != RECORD)
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def test_results_are_those_of_single_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(NAMES):
        (folder / "models" / name).write_bytes(network(number + 2).source)
    assert main(["models/", "-o", "out", "--jobs", "3"]) == 2
    told = capsys.readouterr()
    found = written(folder / "out")
    assert sorted(found) == sorted(name.replace(".tflite", ".onnx") for name in NAMES)
    for name in NAMES:
        output = name.replace(".tflite", ".onnx")
        alone = layoutsolve.convert(folder / "models" / name)
        assert found[output] == alone.content(output)
        (row,) = [line for line in told.out.splitlines() if line.startswith(f"{name} ")]
        assert f" {alone.price.transposes}  " in row and row.endswith("-")
    *_, last, count = told.out.splitlines()
    assert (
        last.startswith("bad.tflite  failed: 'bad.tflite' is neither a TensorFlow Lite nor")
        and count == "5 models: 4 converted, 1 failed"
    )
    assert [line.split(" ")[0] for line in told.err.splitlines()] == [f"{number}/5" for number in range(1, 6)]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object a line, in the order of the models; quiet runs tell nothing but what is wrong."""
    assert main(["models", "-o", "out", "--json", "--jobs", "2", "--verify"]) == 2
    told = capsys.readouterr()
    lines = [json.loads(line) for line in told.out.splitlines()]
    names = ["a.tflite", "bad.tflite", "c d.tflite", "sub/a.tflite", "sub/deep/b.tflite"]
    assert [line["model"] for line in lines] == [f"models/{name}" for name in names] and not told.err
    assert [line["code"] for line in lines] == [0, 2, 0, 0, 0] and "neither a TensorFlow Lite nor" in lines[1]["error"]
    assert all(line["verified"]["passed"] for line in lines if line["code"] == 0)
    assert main(["models/a.tflite", "models/c d.tflite", "-q", "-o", "out"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["models/a.tflite", "-q", "models/bad.tflite", "-o", "out"]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("layoutsolve: models/bad.tflite: 'bad.tflite' is neither")
    assert main(["models/a.tflite", "-q"]) == 0 and capsys.readouterr() == ("", "")


def test_patterns_and_places(folder: Path) -> None:
    """What a folder or a pattern has in common is left out of names; files alone keep their own names."""
    places = {
        ("models", "out"): ["a", "bad", "c d", "sub/a", "sub/deep/b"],
        ("models/sub/", "out"): ["a", "deep/b"],
        ("models/*/*.tflite", "out"): ["sub/a"],
        ("models/**/b.tflite", "out"): ["sub/deep/b"],
        ("models/sub/deep/b.tflite", "out"): ["b"],
    }
    for (name, out), expected in places.items():
        assert [job.output for job in collected([name], out)] == [f"{out}/{each}.onnx" for each in expected]
    assert [job.output for job in collected(["models/sub"], None)] == ["models/sub/a.onnx", "models/sub/deep/b.onnx"]
    assert len(collected(["models/a.tflite", "models/a.tflite"], "out")) == 1
    (folder / "[x].tflite").write_bytes(small())
    assert [job.output for job in collected(["[x].tflite"], None)] == ["[x].onnx"]
    with pytest.raises(ModelError, match="is empty"):
        collected(["models", ""], "out")
    for names in (["models", "models/sub"], ["models/a.tflite", "models/sub/a.tflite"]):
        with pytest.raises(OptionError, match=r"a.tflite' and 'models/sub/a.tflite' would both become 'out/a.onnx'"):
            collected(names, "out")
    for name, message in (("models/*.lite", "nothing fits"), (str(folder / "out"), "has no .tflite or .onnx file")):
        (folder / "out").mkdir(exist_ok=True)
        with pytest.raises(ModelError, match=message):
            collected([name], "out")


def test_models_in_onnx_of_a_folder(tmp_path: Path) -> None:
    """They are sources where there are none of TensorFlow Lite, whose results they may be, and results are none."""
    for name in ("a.onnx", "b.layoutsolve.onnx", "sub/c.onnx", "sub/out/d.onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = collected([str(tmp_path)], str(tmp_path / "sub" / "out"))
    assert [job.name for job in found] == ["a.onnx", "sub/c.onnx"]
    assert [Path(job.output).name for job in collected([str(tmp_path / "sub")], None)] == [
        "c.layoutsolve.onnx",
        "d.layoutsolve.onnx",
    ]
    (tmp_path / "e.tflite").write_bytes(b"")
    assert [job.name for job in collected([str(tmp_path)], None)] == ["e.tflite"]


@pytest.mark.parametrize("names", [["a.tflite", "b.onnx"], ["b.onnx", "a.tflite"]])
def test_models_of_both_kinds(names: list[str], folder: Path) -> None:
    (folder / "a.tflite").write_bytes((folder / "models/a.tflite").read_bytes())
    layoutsolve.convert(folder / "a.tflite").save(folder / "b.onnx")
    assert main([*names, "-o", "out"]) == 0
    assert sorted(each.name for each in (folder / "out").glob("*.onnx")) == ["a.onnx", "b.onnx"]


REFUSED = {
    "--certify": ["models", "--certify", "c.json"],
    "--explain": ["models", "--explain"],
    "--profile": ["models/", "--profile"],
    "--print": ["models", "--print", "graph"],
    "--jobs": ["models", "--jobs", "0"],
    "-o": ["models", "-o", "-"],
    "folder": ["models/a.tflite", "models/c d.tflite", "-o", "x.onnx"],
    "is no folder": ["models/a.tflite", "models/c d.tflite", "-o", "models/a.tflite"],
    "--report": ["models", "--report", "models/bad.tflite"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_for_one_model(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(folder)
    assert main(REFUSED[name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"layoutsolve: argument {name if name.startswith('-') else '-o'}")
    assert written(folder) == before


def test_resume(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is as it was asked for is left alone; what differs in anything is made again, and what failed is tried."""

    def again(*more: str) -> set[str]:
        main(["models", "-o", "out", "--resume", "--json", *more])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line.get("output", "bad") for line in lines if not line.get("up_to_date")}

    everything = {f"out/{name}".replace(".tflite", ".onnx") for name in NAMES}
    assert again() == again() | everything == {"bad", *everything}
    (folder / "models" / "bad.tflite").unlink()
    before = written(folder / "out")
    assert again("--jobs", "2") == set()
    (folder / "out/a.onnx").write_bytes(b"changed")
    (folder / "out/c d.onnx").unlink()
    assert again() == {"out/a.onnx", "out/c d.onnx"} and written(folder / "out") == before
    (folder / "models/a.tflite").write_bytes(small("another"))
    assert again() == {"out/a.onnx"}
    assert again("--objective", "min-bytes") == everything and again("--objective", "min-bytes") == set()
    with (folder / "out" / RECORD).open("a") as file:
        file.write('{"output": "a.onnx", "rep\n[]\n')
    assert again("--objective", "min-bytes") == set()


def signed(*keys: str) -> bytes:
    """A model with signatures, each of a subgraph of its own."""
    builder = Builder()
    for position, key in enumerate(keys):
        part = builder.part() if position else builder
        x, y = part.input("x", (2, 3)), part.tensor("y", (2, 3))
        part.operator(("NEG", "ABS", "EXP")[position], [x], [y])
        part.outputs(y)
        builder.signature({"x": x}, {"y": y}, key, position)
    return builder.finish()


def test_all_signatures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of every model is what it is alone; a model that has none becomes what it does without that."""
    models = {"sub/two": ("one", "a b"), "alike": ("a/b", "A_b"), "third": ("all", "one", "two")}
    for name, keys in models.items():
        (folder / "models" / f"{name}.tflite").write_bytes(signed(*keys))
    asked = ["models", "-o", "out", "--signature", "all", "--json", "--jobs", "1", "--report", "pages"]
    assert main(asked) == 2  # the file that is no model
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    files = {("sub/two", "one"): "sub/two.one", ("sub/two", "a b"): "sub/two.a_b", ("alike", "a/b"): "alike.0.a_b"}
    files |= {("alike", "A_b"): "alike.1.A_b", ("third", "all"): "third"}
    expected = {file: layoutsolve.convert(signed(*models[name]), signature=key) for (name, key), file in files.items()}
    found = written(folder / "out")
    assert sorted(found) == sorted([f"{file}.onnx" for file in files.values()] + [each[:-6] + "onnx" for each in NAMES])
    for file, conversion in expected.items():
        nodes = [node.op_type for node in onnx.load_from_string(found[f"{file}.onnx"]).graph.node]
        assert nodes == [node.op_type for node in conversion.model.graph.node]
        assert (folder / "pages" / "models" / f"{file}.html").exists()
    assert {(each.get("output"), each.get("signature")) for each in told} >= {
        ("out/sub/two.a_b.onnx", "a b"), ("out/third.onnx", "all")
    }  # fmt: skip
    main([*asked, "--resume"])
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each.get("up_to_date") for each in again].count(True) == len(found)


def test_files_of_signatures() -> None:
    """Each has a name of its own, of letters that every system takes, and of no more than 64 of its signature's."""
    for keys in (["one", "two"], ["a" * 64, "a" * 65, "a" * 99], ["\u00fc/:", "", "b"], ["A", "a"]):
        names = files_of("out/x.onnx", keys)
        assert len({name.casefold() for name in names}) == len(keys)
        for key, name in zip(keys, names, strict=True):
            part = name.removeprefix("out/x.").removesuffix(".onnx").split(".")[-1]
            assert len(part) == min(max(len(key), 1), 64) and not set(part) & set("/:. ")


def test_signatures_that_would_be_the_file_of_another_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.tflite").write_bytes(signed("one", "two"))
    (folder / "two.one.tflite").write_bytes(small("x"))
    assert main(["two.tflite", "two.one.tflite", "--signature", "all"]) == 2
    assert "would both become" in capsys.readouterr().err
    assert not list(folder.glob("*.onnx"))


def test_a_signature_that_cannot_be_converted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is told names it, and the others are converted."""
    builder = Builder()
    for position, operator in enumerate(("NEG", "CUSTOM:Unknown")):
        part = builder.part() if position else builder
        x, y = part.input("x", (2, 3)), part.tensor("y", (2, 3))
        part.operator(operator, [x], [y])
        part.outputs(y)
        builder.signature({"x": x}, {"y": y}, ("good", "bad")[position], position)
    (folder / "two.tflite").write_bytes(builder.finish())
    assert main(["two.tflite", "models/a.tflite", "--signature", "all", "-o", "out"]) == 2
    assert "two.tflite (bad)  failed" in capsys.readouterr().out
    assert sorted(written(folder / "out")) == ["a.onnx", "two.good.onnx"]
    main(["two.tflite", "models/a.tflite", "--signature", "all", "-o", "out", "--json"])
    errors = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["signature"] for each in errors if "error" in each] == ["bad"]


@pytest.mark.members(2)
@pytest.mark.parametrize("name", sorted(versions()))
def test_resume_with_another_version(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What packages of other versions have made is not up to date."""
    other = {**versions(), name: "0.0.1"}

    def again() -> list[bool]:
        assert main(["models/a.tflite", "models/c d.tflite", "-o", "out", "--resume", "--json"]) == 0
        return [json.loads(line)["up_to_date"] for line in capsys.readouterr().out.splitlines()]

    assert again() == [False] * 2 and again() == [True] * 2
    with monkeypatch.context() as patched:
        patched.setattr(result_records, "versions", lambda: other)
        assert again() == [False] * 2
    assert again() == [False] * 2 and again() == [True] * 2


def test_one_model_imports_nothing_of_it(folder: Path) -> None:
    code = LISTENING + (
        "from layoutsolve.cli.command_line import main\n"
        "assert main(['models/a.tflite']) == 0\n"
        "assert not [name for name in sys.modules if name.startswith(('rich', 'layoutsolve.batch'))]\n"
        "assert main(['models/a.tflite', '--jobs', '1']) == 0\n"
        "assert not [name for name in sys.modules if name.startswith('rich')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.members(4)
@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000, "null", "[]", '{"report": {}}', '{"output": "a.onnx", "report": {"status": 1}}', "\0", "{",
        '{"output": "a.onnx", "report": {"status": "x", "transposes": "1", "seconds": {"total": null}}}',
    ],
    ids=range(8),
)  # fmt: skip
def test_records_that_are_none(folder: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is made again."""
    (folder / "out").mkdir()
    (folder / "out" / RECORD).write_text(f"{line}\n")
    assert main(["models/a.tflite", "-o", "out/", "--resume"]) == 0
    assert "up to date" not in capsys.readouterr().out
    assert main(["models/a.tflite", "-o", "out/", "--resume"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_records_that_are_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out").mkdir()
    os.mkfifo(folder / "out" / RECORD)
    assert main(["models/a.tflite", "-o", "out/", "--resume"]) == 2
    assert "is no file" in capsys.readouterr().err


def test_a_pipe_is_one_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can be read once, and by nobody else: among many it is refused, instead of waiting for who writes to it."""
    os.mkfifo(tmp_path / "pipe")
    assert main([str(tmp_path / "pipe"), "-o", f"{tmp_path / 'out'}/", "--jobs", "1"]) == 2
    assert "is a pipe or a device, which is one model: convert it alone" in capsys.readouterr().err
