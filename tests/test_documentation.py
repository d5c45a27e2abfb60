"""What the documentation shows is run, and its site can be built."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from experiments.demo import mobilenet
from experiments.streaming import spotter
from tests.builder import Builder

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^layoutsolve (.*)$", re.MULTILINE)
RUN = "import sys; from layoutsolve.cli import main; assert main({}) == 0"


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
    "docs/tutorial.md": {"demo.tflite": mobilenet},
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
    """Every link leads somewhere, and every function of the reference is there."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text()
    import layoutsolve

    kinds = {name for name in layoutsolve.__all__ if name not in ("Boundary",)}
    missing = {name for name in kinds if not re.search(rf'id="layoutsolve[\w.]*\.{name}"', reference)}
    assert not missing
