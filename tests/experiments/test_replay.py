"""Manifests of what models become: the same in every process, and any change shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from experiments.compare import replay
from experiments.make.zoo import write

EVERY = 400
"""Of so many conformance cases one is converted."""


def run(target: Path, seed: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Replay a slice of the zoo in a process with its own hashes of texts."""
    command = [
        sys.executable,
        "-m",
        "experiments.compare.replay",
        str(target),
        "--every",
        str(EVERY),
        "--networks",
        "4",
    ]
    given = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run([*command, *options], env=given, capture_output=True, text=True, check=False)


def test_two_processes(tmp_path: Path) -> None:
    """The hashes of texts have no influence; what is kept are the models of the manifest."""
    first, second, kept = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "kept"
    assert run(first, 1).returncode == 0
    compared = run(second, 2, "--against", str(first), "--keep", str(kept))
    assert (compared.returncode, compared.stdout.splitlines()[-1]) == (0, "0 differ"), compared.stderr
    assert first.read_text() == second.read_text()
    digests = json.loads(first.read_text())
    converted = {name for name, digest in digests.items() if len(digest) == 64}
    assert {path.relative_to(kept).with_suffix("").as_posix() for path in kept.rglob("*.onnx")} == converted
    assert len(converted) > 10


def test_a_change_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Another model, one that is refused, one that is missing: each is a line, and the exit code says so."""
    folder = tmp_path / "corpus"
    write(folder, networks=3, every=10**9)
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    common = ["--corpus", str(folder), "--networks", "0", "--every", str(10**9)]
    assert replay.main([str(before), *common]) == 0
    assert replay.main([str(after), *common, "--against", str(before)]) == 0
    (folder / "network" / "00000.tflite").write_bytes(b"no model")
    (folder / "network" / "00001.tflite").unlink()
    convert = replay.layoutsolve.convert

    def planted(source: bytes) -> object:
        """A conversion whose files have one word more."""
        found = convert(source)
        onnx.helper.set_model_props(found.model, {"planted": "change"})
        return found

    monkeypatch.setattr(replay.layoutsolve, "convert", planted)
    capsys.readouterr()
    assert replay.main([str(after), *common, "--against", str(before)]) == 1
    *lines, last = capsys.readouterr().out.splitlines()[1:]
    shown = dict(line.split(": ") for line in lines)
    assert shown.keys() == json.loads(before.read_text()).keys()
    assert last == f"{len(shown)} differ"
    assert shown["corpus/network/00000"].endswith("-> ModelError")
    assert shown["corpus/network/00001"].endswith("-> missing")
