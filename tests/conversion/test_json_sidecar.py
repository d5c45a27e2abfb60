"""Plans and certificates as files: any bytes give one, or one clear error, in memory that is in proportion."""

from __future__ import annotations

import json
import tracemalloc
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve.certification import certificate
from layoutsolve.conversion import json_sidecar
from layoutsolve.conversion.json_sidecar import Document

KINDS: list[type[Document]] = [layoutsolve.Plan, layoutsolve.Certificate]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)


@cache
def text(kind: type[Document]) -> str:
    source = mobilenet()
    found = layoutsolve.convert(source, target="tvm-nhwc")
    if kind is layoutsolve.Plan:
        return layoutsolve.plan(source, found).to_json()
    return layoutsolve.certify(source, found).to_json()


def read(kind: type[Document], content: bytes, path: Path) -> bool:
    """Whether a file with some bytes is one; anything but the one error fails."""
    path.write_bytes(content)
    try:
        kind.load(path)
    except kind.error as error:
        assert (str(error).isprintable() and kind.kind in str(error)) or "cannot read" in str(error)
        return False
    return True


@kinds
def test_there_and_back(kind: type[Document], tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    found = kind.from_json(text(kind))
    found.save(path)
    assert path.read_text() == text(kind) and kind.load(path) == found


@kinds
@pytest.mark.parametrize("seed", range(4))
def test_any_bytes(kind: type[Document], seed: int, tmp_path: Path) -> None:
    random, content, path = Random(seed), text(kind).encode(), tmp_path / "it.json"
    refused = 0
    for _ in range(60):
        made, place = bytearray(content), random.randrange(len(content))
        match random.randrange(4):
            case 0:
                made[place] = random.randrange(256)
            case 1:
                del made[place : place + random.randrange(1, 40)]
            case 2:
                made[place:place] = random.choice([b"[" * 5000, b"1e999", b"-", b"9" * 5000, b"{}", b"\\ud800", b"NaN"])
            case 3:
                made = made[:place]
        refused += not read(kind, bytes(made), path)
    assert refused > 40


def leaves(fact: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all that is neither an object nor a list, of lists of the first and the last element."""
    if isinstance(fact, dict):
        return [each for key, value in fact.items() for each in leaves(value, (*place, key))]
    if isinstance(fact, list) and fact:
        return [each for key in {0, len(fact) - 1} for each in leaves(fact[key], (*place, key))]
    return [place]


@kinds
def test_any_facts(kind: type[Document], tmp_path: Path) -> None:
    """Facts of other kinds, sealed as if they were meant."""
    known = json.loads(text(kind))
    wrong = ["1e999", "-1e999", "NaN", "null", "[]", "{}", '"x"', "-1", "true", "[" * 900 + "]" * 900, "9" * 400]
    for number, place in enumerate(leaves(known)):
        facts = json.loads(text(kind))
        inner = facts
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = json.loads(wrong[number % len(wrong)])
        if kind is layoutsolve.Certificate and place != ("seal",):
            facts["seal"] = certificate._seal(facts)
        read(kind, json.dumps(facts).encode(), tmp_path / "it.json")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without an end")
@kinds
def test_large_files(kind: type[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(kind.error, match="more than 4096 bytes"):
        monkeypatch.setattr(json_sidecar, "LARGEST", 4096)
        kind.load("/dev/zero")
    monkeypatch.undo()
    for piece in ("[],", "{},", "0,", '"ab",', "1e3,"):
        content = ("[" + piece * (300_000 // len(piece)))[:-1] + "]"
        tracemalloc.start()
        assert not read(kind, content.encode(), tmp_path / "it.json")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 40 * len(content)


@kinds
@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, "null", '"x"', "\x00", "1e999"])
def test_what_is_none(kind: type[Document], content: str) -> None:
    with pytest.raises(kind.error, match=f"this is no {kind.kind}: "):
        kind.from_json(content)
