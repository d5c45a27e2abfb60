"""Models in archives: each is found by its name, converts as it does by itself, and damage is one error."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import ConversionError, ModelError
from layoutsolve.io.archives import is_archive, models_in
from layoutsolve.io.source import load
from tests.cli.test_streams import small

MODEL = small()
OTHER = small("other")


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def litertlm(sections: list[tuple[int, bytes]]) -> bytes:
    """A file of LiteRT-LM: sections of some types, each at a multiple of 16 KiB."""
    block = 16 << 10
    places, end = [], block
    for _, content in sections:
        places.append((end, end + len(content)))
        end += -(-len(content) // block) * block
    builder = flatbuffers.Builder()
    objects = []
    for (kind, _), (first, last) in zip(sections, places, strict=True):
        builder.StartObject(4)
        builder.PrependUint64Slot(1, first, 0)
        builder.PrependUint64Slot(2, last, 0)
        builder.PrependUint8Slot(3, kind, 0)
        objects.append(builder.EndObject())
    builder.StartVector(4, len(objects), 4)
    for each in reversed(objects):
        builder.PrependUOffsetTRelative(each)
    vector = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, vector, 0)
    metadata = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, metadata, 0)
    builder.Finish(builder.EndObject())
    header = bytes(builder.Output())
    made = bytearray(end)
    made[:32] = b"LITERTLM" + struct.pack("<IIIIQ", 1, 4, 0, 0, 32 + len(header))
    made[32 : 32 + len(header)] = header
    for (_, content), (first, last) in zip(sections, places, strict=True):
        made[first:last] = content
    return bytes(made)


KINDS = {
    "stored.task": zipped({"a.tflite": MODEL, "labels.txt": b"x"}),
    "packed.zip": zipped({"folder/a.tflite": MODEL}, zipfile.ZIP_DEFLATED),
    "plain.tar": tarred({"a.tflite": MODEL}),
    "packed.tar.gz": gzip.compress(tarred({"a.tflite": MODEL, "b.txt": b""}), mtime=0),
    "a.tflite.gz": gzip.compress(MODEL, mtime=0),
    "inner.zip": zipped({"one.task": zipped({"a.tflite": MODEL})}),
    "lm.litertlm": litertlm([(4, b"tokens"), (3, MODEL)]),
}
"""Archives of one model each."""


@pytest.mark.parametrize("name", KINDS)
def test_the_only_model(name: str, tmp_path: Path) -> None:
    """From a file and from bytes, it is the very model, whatever its name is there."""
    path = tmp_path / name
    path.write_bytes(KINDS[name])
    wanted = layoutsolve.convert(MODEL).model.graph.node
    assert is_archive(KINDS[name]) and not is_archive(MODEL)
    for source in (path, KINDS[name]):
        assert bytes(load(source).data) == MODEL
        assert layoutsolve.convert(source).model.graph.node == wanted
    assert main([str(path)]) == 0
    assert [each.suffix for each in tmp_path.iterdir() if each != path] == [".onnx"]
    assert main([str(path), "--verify", "--dry-run"]) == 0
    assert main([str(path), "-o", str(path)]) == 2 and path.read_bytes() == KINDS[name]


def test_one_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hand.task"
    path.write_bytes(zipped({"hand.tflite": MODEL, "deep.task": zipped({"b": OTHER})}))
    assert main([str(path)]) == 2
    told = capsys.readouterr().err
    assert "hand.task' has 2 models" in told and "deep.task/b" in told and "hand.task/*'" in told
    assert "'hand.tflite' (" in told and main([f"{path}/"]) == 2 and "task//" not in capsys.readouterr().err
    assert main([f"{path}/hnd.tflite"]) == 2 and "did you mean 'hand.tflite'" in capsys.readouterr().err
    assert main([f"{path}/hand.tflite"]) == 0 and main([f"{path}/deep.task/b"]) == 0
    assert {each.name for each in tmp_path.glob("*.onnx")} == {"hand.hand.onnx", "hand.deep.task.b.onnx"}
    assert bytes(load(path / "deep.task" / "b").data) == OTHER
    assert main([f"{path}/hand.tflite", "-o", str(path)]) == 2 and "is a file that is read" in capsys.readouterr().err


def test_all_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hand.task"
    path.write_bytes(zipped({"a.tflite": MODEL, "b": OTHER}))
    assert main([f"{path}/*", "-o", f"{tmp_path}/out/"]) == 0
    assert {each.name for each in (tmp_path / "out").glob("*.onnx")} == {"a.onnx", "b.onnx"}
    assert main([f"{path}/*", "-o", f"{tmp_path}/out/", "--resume"]) == 0 and "up to date" in capsys.readouterr().err
    assert main([str(tmp_path), "-o", f"{tmp_path}/each/"]) == 0
    assert {each.name for each in (tmp_path / "each").rglob("*.onnx")} == {"hand.a.onnx", "hand.b.onnx"}
    assert main([f"{path}/*.onnx"]) == 2 and "nothing fits" in capsys.readouterr().err


def test_what_has_no_model(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"readme.txt": b"x"}))
    with pytest.raises(ModelError, match="has no model of TensorFlow Lite or ONNX"):
        load(path)
    path.rename(tmp_path / "a.pt")
    with pytest.raises(ModelError, match=r"export PyTorch's with torch\.onnx\.export"):
        load(tmp_path / "a.pt")
    with pytest.raises(ModelError, match="cannot read"):
        load(tmp_path / "none.zip" / "a.tflite")


def test_out_of_proportion() -> None:
    """Bytes, entries and depth are bounded before anything is unpacked."""
    deep = MODEL
    for _ in range(6):
        deep = zipped({"a.zip": deep})
    many = zipped({f"{number}.txt": b"" for number in range(10_001)})
    for archive in (gzip.compress(bytes(200 << 20)), zipped({"a": bytes(200 << 20)}, zipfile.ZIP_DEFLATED), deep, many):
        with pytest.raises(ModelError, match=r"many times its size|deep in each other"):
            models_in(archive, "a.zip")


@pytest.mark.parametrize("name", KINDS)
def test_damaged(name: str) -> None:
    """Any bytes give models or one error."""
    whole, random = KINDS[name], np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        broken = bytearray(whole[: random.integers(1, len(whole) + 1)] if random.random() < 0.3 else whole)
        for place in random.integers(0, min(len(broken), 1 << random.integers(5, 17)), random.integers(1, 4)):
            broken[place] = random.integers(0, 256)
        try:
            layoutsolve.convert(bytes(broken))
        except ConversionError:
            refused += 1
    assert 0 < refused < 150


def test_what_opens_files_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runtimes are given the model of an archive as a file; what is printed names the archive."""
    written = layoutsolve.convert(MODEL).content("")
    (tmp_path / "two.zip").write_bytes(zipped({"a.tflite": MODEL, "b.onnx": written}))
    (tmp_path / "one.gz").write_bytes(gzip.compress(MODEL))
    names = [str(tmp_path / each) for each in ("two.zip/a.tflite", "two.zip/b.onnx", "one.gz")]
    assert main(["bench", *names, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(each["file"] for each in told["files"])) == names and not told["refused"]
    assert main(["diff", names[0], names[1], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["second"]["file"], told["second"]["executed"], told["second"]["refused"]) == (names[1], 0, "")
    assert main(["ops", names[1]]) == 0
