"""What metadata of a model say becomes metadata of the ONNX model, and damaged ones are left out."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.frontend.tflite.reading import metadata
from tests.builder import Builder


class Tables:
    """Writes tables of a flatbuffer, whose fields are given by number: texts, numbers, vectors, or tables."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder()

    def table(self, fields: Mapping[int, Any]) -> int:
        made = {place: self.part(part) for place, part in fields.items() if not isinstance(part, bool | int)}
        self.builder.StartObject(max(fields, default=0) + 1)
        for place, part in fields.items():
            if place in made:
                self.builder.PrependUOffsetTRelativeSlot(place, made[place], 0)
            else:
                self.builder.PrependInt8Slot(place, part, 0)
        return self.builder.EndObject()

    def part(self, part: Any) -> int:
        if isinstance(part, str):
            return self.builder.CreateString(part)
        if isinstance(part, dict):
            return self.table(part)
        if part and isinstance(part[0], float):
            self.builder.StartVector(4, len(part), 4)
            for number in reversed(part):
                self.builder.PrependFloat32(number)
            return self.builder.EndVector()
        tables = [self.table(each) for each in part]
        self.builder.StartVector(4, len(tables), 4)
        for each in reversed(tables):
            self.builder.PrependUOffsetTRelative(each)
        return self.builder.EndVector()

    def finish(self, root: Mapping[int, Any]) -> bytes:
        self.builder.Finish(self.table(root), file_identifier=b"M001")
        return bytes(self.builder.Output())


IMAGE = {
    0: "image",
    1: "What the camera sees.",
    3: {0: 2, 1: {0: 1}},
    4: [{0: 1, 1: {0: [127.5, 0.25], 1: [128.0]}}],
    5: {0: [1.0], 1: [-1.0]},
}
SCORES = {0: "scores", 6: [{0: "labels.txt", 1: "names", 2: 2}, {0: "other", 2: 0}]}
ABOUT = {0: "Classifier", 1: "Tells cats from dogs.", 2: "v2", 3: [{2: [IMAGE], 3: [SCORES]}], 4: "Them", 5: "MIT"}
TOLD = {
    "tflite.name": "Classifier",
    "tflite.description": "Tells cats from dogs.",
    "tflite.version": "v2",
    "tflite.author": "Them",
    "tflite.license": "MIT",
    "tflite.input.x.title": "image",
    "tflite.input.x.description": "What the camera sees.",
    "tflite.input.x.color_space": "RGB",
    "tflite.input.x.mean": "127.5 0.25",
    "tflite.input.x.std": "128.0",
    "tflite.input.x.max": "1.0",
    "tflite.input.x.min": "-1.0",
    "tflite.output.y.title": "scores",
    "tflite.output.y.labels": "labels.txt",
}


def source(about: bytes | None = None, inputs: Sequence[str] = ("x",)) -> bytes:
    """A model with an output 'y', with metadata if there are any."""
    builder = Builder()
    given = [builder.input(name, (1, 4)) for name in inputs]
    y = builder.tensor("y", (1, 4))
    builder.operator("ABS", given[:1], [y])
    if about is not None:
        builder.metadata("TFLITE_METADATA", about)
    return builder.finish(y, inputs=given)


def archive(files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name), content, method)
    return packed.getvalue()


def told(model: bytes) -> dict[str, str]:
    props = layoutsolve.convert(model).model.metadata_props
    return {each.key: each.value for each in props if each.key.startswith("tflite.")}


def test_what_is_said_of_a_model_and_its_ends() -> None:
    assert told(source(Tables().finish(ABOUT))) == TOLD


def test_ends_by_the_names_of_a_signature() -> None:
    builder = Builder()
    x, y = builder.input("a", (1, 4)), builder.tensor("b", (1, 4))
    builder.operator("ABS", [x], [y])
    builder.metadata("TFLITE_METADATA", Tables().finish(ABOUT))
    builder.signature({"x": x}, {"y": y}, "serve")
    assert told(builder.finish(y, inputs=[x])) == TOLD


def test_ends_that_are_not_as_many() -> None:
    """Which of them is meant cannot be told."""
    found = told(source(Tables().finish(ABOUT), inputs=("x", "z")))
    assert found == {name: text for name, text in TOLD.items() if ".input." not in name}


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


@pytest.mark.parametrize("method", METHODS)
def test_files_behind_a_model(method: int) -> None:
    """Texts are carried over; all can be asked for."""
    files = {"labels.txt": b"Katze\nHund\n", "ids.bin": bytes(range(128, 256)), "\u00e4.txt": b"1"}
    model = source(Tables().finish(ABOUT)) + archive(files, method)
    assert layoutsolve.associated_files(model) == files
    assert told(model) == {**TOLD, "tflite.file.labels.txt": "Katze\nHund\n", "tflite.file.\u00e4.txt": "1"}
    assert layoutsolve.convert(model).model.graph == layoutsolve.convert(source(Tables().finish(ABOUT))).model.graph


@pytest.mark.parametrize("name", ["../up.txt", "/etc/passwd", "a/b.txt", "folder/", "c:d", "..", "new\nline"])
def test_names_that_lead_elsewhere(name: str) -> None:
    model = source() + archive({name: b"x", "kept.txt": b"y"})
    assert layoutsolve.associated_files(model) == {"kept.txt": b"y"}


def test_archives_that_unpack_to_much() -> None:
    """No more than the model has bytes."""
    model = source() + archive({"zeros.txt": bytes(50_000_000), "small.txt": b"y"}, zipfile.ZIP_DEFLATED)
    assert layoutsolve.associated_files(model) == {"small.txt": b"y"}


def altered(packed: bytes, signature: bytes, place: int, value: bytes) -> bytes:
    """An archive with other bytes in the first header with a signature."""
    start = packed.index(signature) + place
    return packed[:start] + value + packed[start + len(value) :]


METHOD_PLACES = ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10))
FLAG_PLACES = ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8))


@pytest.mark.parametrize("method", METHODS)
def test_entries_that_cannot_be_read(method: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encrypted, packed otherwise than said or in an unknown way, cut short: other files are read, and the model."""
    packed = archive({"labels.txt": b"cat\ndog\n" * 99, "kept.txt": b"y"}, method)
    family = [packed]
    for each in range(100):
        for places, value in ((METHOD_PLACES, each), (FLAG_PLACES, each)):
            broken = packed
            for signature, place in places:
                broken = altered(broken, signature, place, value.to_bytes(2, "little"))
            family.append(broken)
    for place in (14, 18, 22, 26, 28):  # checksum, sizes, lengths of names
        for value in (bytes(4), b"\xff\xff\xff\x7f", b"\xff" * 4):
            family += [altered(packed, b"PK\x03\x04", place, value), altered(packed, b"PK\x01\x02", place + 2, value)]
    content = packed.index(b"labels.txt") + len("labels.txt")
    for size in range(12):
        family.append(packed[: content + size] + bytes(8) + packed[content + size + 8 :])
    for broken in family:
        found = layoutsolve.associated_files(source() + broken)
        assert found.items() <= {"labels.txt": b"cat\ndog\n" * 99, "kept.txt": b"y"}.items()
    assert {"kept.txt"} == set(layoutsolve.associated_files(source() + family[-1]))
    for number, broken in enumerate(family[:: len(family) // 5]):
        (tmp_path / f"{number}.tflite").write_bytes(source() + broken)
        assert main([str(tmp_path / f"{number}.tflite")]) == 0
        assert main(["ops", str(tmp_path / f"{number}.tflite")]) == 0
    assert "labels.txt" not in capsys.readouterr().err


@pytest.mark.parametrize("keys", [[], ["one"], ["one", "other"]])
@pytest.mark.parametrize("version", [b"", b"\0\0", b"1.14.0\0\0", b" 2.9 ", b"2.1\0left over"])
@pytest.mark.parametrize("description", ["", "Tells cats from dogs."])
def test_what_a_file_says_of_itself(description: str, version: bytes, keys: Sequence[str]) -> None:
    """Whatever of it there is, and no more: a single signature is the model."""
    build = Builder()
    x, y = build.input("x", (2,)), build.tensor("y", (2,))
    build.operator("ABS", [x], [y])
    build.model.description = description
    build.metadata("min_runtime_version", version)
    for key in keys:
        build.signature({"given": x}, {"made": y}, key)
    oldest = version.split(b"\0")[0].decode().strip()
    expected = {"description": description, "min_runtime_version": oldest}
    if len(keys) > 1:
        expected |= {"signature": keys[0], "signatures": json.dumps(keys)}
    told = {each.key: each.value for each in layoutsolve.convert(build.finish(y)).model.metadata_props}
    names = ("description", "min_runtime_version", "signature", "signatures")
    assert {name: told[name] for name in names if name in told} == {
        name: each for name, each in expected.items() if each
    }


LIMITED = """
import resource, sys, time
from layoutsolve.frontend.tflite.reading import metadata
import bz2, lzma, zipfile, zlib
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (50 << 20),) * 2)
data, start = sys.stdin.buffer.read(), time.process_time()
found = metadata.packed(memoryview(data))
print(sorted(found), time.process_time() - start < 5)
"""


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("method", METHODS[1:])
def test_archives_that_explode(method: int) -> None:
    """Neither many megabytes in an entry that says to be small, nor a dictionary of gigabytes, nor thousands of entries
    over the same bytes take memory or time.
    """
    packed = archive({"zeros.txt": bytes(65_000_000)}, method)
    size = (2_000).to_bytes(4, "little")
    small = altered(altered(packed, b"PK\x03\x04", 22, size), b"PK\x01\x02", 24, size)
    start = packed.index(b"zeros.txt") + len("zeros.txt")
    window = packed[: start + 5] + b"\xff\xff\xff\xff" + packed[start + 9 :]
    directory = small[small.index(b"PK\x01\x02") : small.index(b"PK\x05\x06")]
    end = small[small.index(b"PK\x05\x06") :]
    end = end[:8] + (20_000).to_bytes(2, "little") * 2 + (20_000 * len(directory)).to_bytes(4, "little") + end[16:]
    many = small[: small.index(b"PK\x01\x02")] + directory * 20_000 + end
    for broken in (small, window, many):
        command = [sys.executable, "-c", LIMITED]
        done = subprocess.run(command, input=source() + bytes(2_000) + broken, capture_output=True, check=True)
        assert done.stdout in (b"[] True\n", b"['zeros.txt'] True\n")


def test_files_count_for_the_largest_size() -> None:
    model = source() + archive({"labels.txt": b"x" * 5000})
    with pytest.raises(layoutsolve.ConversionError, match="its metadata"):
        layoutsolve.convert(model, max_size=4000)


@pytest.mark.parametrize("part", ["metadata", *METHODS])
def test_damage(part: str | int) -> None:
    """Whatever the bytes, the model is the same, and no more is told than there was room for."""
    about, packed = Tables().finish(ABOUT), archive({"labels.txt": b"cat\ndog\n" * 9}, part if part in METHODS else 0)
    plain, rng = layoutsolve.convert(source()).model.graph, random.Random(0)
    for _ in range(300):
        damaged = bytearray(about if part == "metadata" else packed)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        if part == "metadata":
            found = metadata.facts(memoryview(bytes(damaged)), 0, {"input": ["x"], "output": ["y"]})
            assert sum(map(len, found.values())) < 50 * len(about)
        else:
            found = metadata.texts(metadata.packed(memoryview(source() + bytes(damaged))))
            assert sum(map(len, found.values())) <= len(source()) + len(damaged)
    model = source(bytes(damaged)) if part == "metadata" else source() + bytes(damaged)
    assert layoutsolve.convert(model).model.graph == plain


def test_files_are_written_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the model or not at all."""
    (tmp_path / "m.tflite").write_bytes(source() + archive({"labels.txt": b"cat", "ids.bin": b"\xff"}))
    given, place = str(tmp_path / "m.tflite"), tmp_path / "deep" / "files"
    assert main([given, "--extract-metadata", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["extracted"] == [str(place / name) for name in ("labels.txt", "ids.bin")]
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"labels.txt": b"cat", "ids.bin": b"\xff"}
    assert main([given, "--extract-metadata", str(tmp_path / "other"), "--dry-run"]) == 0
    assert "extracted: " in (told := capsys.readouterr().out) and "labels.txt" in told
    assert main([given, "--extract-metadata", ""]) == 2
    assert main([given, "--extract-metadata", str(tmp_path / "other"), "-o", str(tmp_path / "no" / "m.onnx")]) == 2
    assert not (tmp_path / "other").exists()
    assert main([given, "--extract-metadata", given]) == 2
    assert main([given, given, "--extract-metadata", str(tmp_path), "-o", f"{tmp_path}/"]) == 2


def test_no_files_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.tflite").write_bytes(source())
    assert main([str(tmp_path / "m.tflite"), "--extract-metadata", str(tmp_path / "files")]) == 0
    assert "no file is packed behind the model" in capsys.readouterr().out
    assert not (tmp_path / "files").exists()
