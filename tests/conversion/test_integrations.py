"""Passes for other tools, against the tools themselves, and the files to copy."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import onnx
import pytest

from layoutsolve.cli import parser
from tests.conversion.test_objects import there_and_back

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_a_pass_of_olive(tmp_path: Path) -> None:
    """By itself and in a workflow, whose model is the converted one."""
    pytest.importorskip("olive")
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict
    from olive.workflows import run

    from layoutsolve.integrations.olive_pass import LayoutPass

    source = tmp_path / "source.onnx"
    onnx.save(there_and_back(("Relu",)), source)
    layout = create_pass_from_dict(LayoutPass, {"objective": "min-transpose"}, disable_search=True)
    done = layout.run(ONNXModelHandler(str(source)), str(tmp_path / "result"))
    assert [node.op_type for node in onnx.load(done.model_path).graph.node] == ["Relu", "Add"]
    package = tmp_path / "package.json"
    package.write_text(json.dumps({"passes": {"LayoutPass": {"module_path": f"{LayoutPass.__module__}.LayoutPass"}}}))
    workflow = {
        "input_model": {"type": "OnnxModel", "model_path": str(source)},
        "passes": {"layout": {"type": "LayoutPass", "objective": "min-transpose"}},
        "output_dir": str(tmp_path / "out"),
        "cache_dir": str(tmp_path / "cache"),
    }
    run(workflow, package_config=str(package))
    (written,) = (tmp_path / "out").rglob("*.onnx")
    assert [node.op_type for node in onnx.load(written).graph.node] == ["Relu", "Add"]


def test_recipes_name_options_that_there_are() -> None:
    commands = [
        line
        for name in ("github-workflow.yml", "pre-commit-config.yaml")
        for line in re.findall(r"(?:run|entry): layoutsolve (.*)", (RECIPES / name).read_text())
    ]
    assert len(commands) == 2
    for each in commands:
        models = [] if "models/" in each else ["a.tflite"]
        assert parser.parse([*each.split(), *models]).models


def test_the_recipe_of_conda_has_the_requirements() -> None:
    """All that an installation by pip brings, at the same least versions, by conda's names."""
    project = tomllib.loads((RECIPES.parents[1] / "pyproject.toml").read_text())["project"]
    recipe = (RECIPES / "conda-meta.yaml").read_text()
    names = {"ortools": "ortools-python", "flatbuffers": "python-flatbuffers"}
    for each in project["dependencies"]:
        name, least = re.match(r"([a-z]+)>=([\d.]+)", each).groups()  # type: ignore[union-attr]
        assert f"    - {names.get(name, name)} >={least}\n" in recipe
    assert f"summary: {project['description']}" in recipe and f"license: {project['license']}" in recipe
