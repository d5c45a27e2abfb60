"""What the documentation shows is run, and its site can be built."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.make.demo import features, mobilenet
from experiments.measure.streaming import spotter
from layoutsolve.cli import parser
from layoutsolve.cli.command_line import COMMANDS, main
from tests.builder import Builder

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^layoutsolve (.*)$", re.MULTILINE)
RUN = "import sys; from layoutsolve.cli.command_line import main; assert main({}) == 0"


def masks() -> bytes:
    """An image whose filter is a mask of it."""
    builder, rng = Builder(), np.random.default_rng(0)
    image = builder.input("image", (1, 224, 224, 3))
    weights = builder.constant("weights", rng.normal(size=(3, 3, 3, 3)), "float32")
    bias = builder.constant("bias", rng.normal(size=3), "float32")
    mask, result = builder.tensor("mask", (1, 224, 224, 3)), builder.tensor("scores", (1, 224, 224, 3))
    builder.operator("CONV_2D", [image, weights, bias], [mask], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    builder.operator("MUL", [image, mask], [result], {})
    return builder.finish(result)


def swish() -> bytes:
    """A custom operator."""
    builder = Builder()
    x, y = builder.input("x", (1, 4)), builder.tensor("y", (1, 4))
    builder.operator("CUSTOM:Swish", [x], [y])
    return builder.finish(y)


MODELS = {
    "README.md": {"model.tflite": masks},
    "docs/howto.md": {"demo.tflite": mobilenet, "spotter.tflite": spotter},
    "docs/tutorial.md": {"demo.tflite": mobilenet, "features.tflite": features},
    "docs/custom_operators.md": {"model.tflite": swish},
}
"""The models that the programs of a page begin with."""


def programs(page: str) -> list[str]:
    """What a page shows, in its order, as programs: those in Python, and commands of layoutsolve in a shell."""
    found = []
    for language, block in BLOCK.findall((ROOT / page).read_text()):
        if language == "python":
            found.append(block)
        else:
            found += [RUN.format(shlex.split(line)) for line in SHELL.findall(block)]
    return found


def test_pages_with_programs_are_known() -> None:
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")} | {"README.md"}
    shown = {page for page in pages if "```python" in (ROOT / page).read_text()}
    assert shown == set(MODELS)


def prose(page: Path) -> Iterator[str]:
    """The lines of a page but for code, tables and figures."""
    code = False
    for line in page.read_text().splitlines():
        code ^= line.lstrip().startswith("```")
        if not code and not line.startswith(("|", "!", "    ")):
            yield line


def test_the_readme_is_read_in_a_minute() -> None:
    assert (ROOT / "README.md").stat().st_size <= 10_000


def test_lines_can_be_read() -> None:
    pages = {*(ROOT / "docs").glob("*.md"), ROOT / "README.md"} - {ROOT / "docs" / "forms.md"}  # which a script writes
    assert not [f"{page.name}: {line}" for page in sorted(pages) for line in prose(page) if len(line) > 120]


@pytest.mark.parametrize("page", MODELS)
def test_programs_run(page: str, tmp_path: Path) -> None:
    for name, make in MODELS[page].items():
        (tmp_path / name).write_bytes(make())
    shown = [each for each in programs(page) if page != "README.md" or "import layoutsolve" in each]
    assert shown
    text = "\n\n".join(shown)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs layoutsolve[docs]")
def test_the_site_builds(tmp_path: Path) -> None:
    """Every link leads somewhere, every public name is in the reference, and no docstring shows its markup."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text()
    import layoutsolve

    missing = {name for name in layoutsolve.__all__ if not re.search(rf'id="layoutsolve[\w.]*\.{name}"', reference)}
    assert not missing
    assert not re.findall(r":[a-z]+:<code>[^<]*</code>", reference)


def test_summaries_are_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first ones that a reader meets, but for seconds."""
    monkeypatch.chdir(tmp_path)
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/tutorial.md", "docs/output.md")]
    for name, made, shown in (("demo", mobilenet(), pages), ("features", features(), pages[2:])):
        Path(f"{name}.tflite").write_bytes(made)
        assert main([f"{name}.tflite", *(["--explain"] if name == "features" else [])]) == 0
        first, *rest = capsys.readouterr().out.splitlines()
        told = [first.rpartition(",")[0], *(rest if name == "features" else rest[:2])]
        assert not [line for line in told for each in shown if line not in each]


def test_the_command_line_is_described() -> None:
    """Every option of every command, and every command."""
    page = (ROOT / "docs" / "cli.md").read_text()
    commands = page[page.index("## Other commands") :]
    said = [action for action in parser.completed("")._actions if action.help != argparse.SUPPRESS]
    options = {name for action in said for name in action.option_strings}
    assert len(options) > 40
    assert {name for name in options if not re.search(rf"`{name}[ `]", page)} == set()
    for command in COMMANDS:
        assert f"`layoutsolve {command} " in commands
        (own,) = (
            each.choices[command]
            for each in parser.completed(command)._actions
            if isinstance(each, argparse._SubParsersAction)
        )
        names = {name for action in own._actions for name in action.option_strings if name not in ("-h", "--help")}
        names -= options if command in ("convert", "view") else set()  # which the page has above
        assert {name for name in names if not re.search(rf"`{name}[ `]|calibrate {name} ", commands)} == set()


NAMED = {
    "layouts": 1,
    "kept_operators": 1,
    "inputs": 1,
    "outputs": 1,
    "written": 1,
    "floating": 1,
    "options": 1,
    "backends": 1,
    "idioms": 1,
    "hidden": 2,
    "kernels": 2,
}
"""The keys of JSON whose value has names for keys, of tensors and operators, and how deep these go."""


def keys(fact: Any, named: int = 0) -> Iterator[str]:
    """All keys of what JSON has, but for names."""
    if isinstance(fact, dict):
        for key, value in fact.items():
            if not named and key.isidentifier():
                yield key
            yield from keys(value, named - 1 if named else NAMED.get(key, 0))
    elif isinstance(fact, list):
        for each in fact:
            yield from keys(each, named)


def test_what_json_says_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every key that commands print, and that certificates have."""
    monkeypatch.chdir(tmp_path)
    for name, made in {"demo": mobilenet(), "features": features(), "bad": b"no model"}.items():
        Path(f"{name}.tflite").write_bytes(made)
    telling = ["--verify-tensors", "--explain", "--profile", "--certify", "proof.json", "--plan", "plan.json"]
    commands = [
        ["demo.tflite", *telling, "--report", "page.html", "--extract-metadata", "files"],
        ["features.tflite", "--explain", "--inputs", "free", "--outputs", "nchw"],
        ["features.tflite", "--explain", "--verify", "-o", "plain.onnx"],
        ["features.tflite", "--target", "npu.toml", "-o", "npu.onnx"],
        ["demo.tflite", "--check", "proof.json"],
        ["demo.tflite", "--from-plan", "plan.json", "-o", "planned.onnx"],
        ["demo.tflite", "bad.tflite", "-o", "many/"],
        ["ops", "demo.tflite"],
        ["info", "features.onnx"],
        ["bench", "demo.onnx", "features.tflite"],
        ["target", "ort-cpu"],
        ["target", "npu.toml"],
    ]
    Path("npu.toml").write_text(
        'name = "npu"\nextends = "onnx"\n[backends.npu]\ncrossing = 1\n[[forms]]\noperators = ["Conv"]\n'
        'backend = "npu"\ndata = "NHWC"\nkernel = "OHWI"\nprice = 1\nmatch = { kernel = ["3x3"], depthwise = true }\n'
        '[[forms]]\noperators = ["Conv"]\npolicy = "any"\n'
    )
    found: set[str] = set()
    for command in commands:
        code = main([*command, "--json"])
        told = capsys.readouterr().out.splitlines()
        assert code == (2 if "bad.tflite" in command else 0) and told
        found |= {key for line in told for key in keys(json.loads(line))}
    found |= set(keys(json.loads(Path("proof.json").read_text())))
    assert {"remedies", "departure", "crossings", "planned", "up_to_date", "crossing", "proof"} <= found
    page = (ROOT / "docs" / "json.md").read_text()
    assert {key for key in found if not re.search(rf"`{key}`", page)} == set()
