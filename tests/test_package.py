"""The wheel has every module of the source tree, and the package every name that type checkers are told of."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import layoutsolve
from layoutsolve import errors
from layoutsolve.solver.targets.target_file import KNOWN, SHIPPED

ROOT = Path(__file__).parent.parent
STAGES = ("frontend", "solver", "emit")


def test_no_file_is_a_link() -> None:
    """Archives and Windows have no symbolic links: they become text files, and imports fail."""
    rooms = ("layoutsolve", *STAGES, "tests", "experiments", "docs")
    assert not [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_symlink()]


def test_wheel_is_complete(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {
        name
        for name in names
        if name.endswith((".py", ".json", ".toml")) or ("/assets/" in name and ".dist-info/" not in name)
    }
    expected = {path.relative_to(ROOT).as_posix() for path in (ROOT / "layoutsolve").rglob("*.py")}
    for stage in STAGES:
        paths = (ROOT / stage).rglob("*.py")
        expected |= {f"layoutsolve/{path.relative_to(ROOT).as_posix()}" for path in paths}
    targets = [f"{name.replace('-', '_')}.{'json' if name in SHIPPED else 'toml'}" for name in KNOWN]
    expected |= {f"layoutsolve/solver/targets/files/{name}" for name in targets}
    expected |= {"layoutsolve/proto/ort_kernels.json", "layoutsolve/planning/plan.schema.json"}
    assets = ("cytoscape.LICENSE", "cytoscape.min.js", "index.js", "report.css", "report.js", "theme.js")
    expected |= {f"layoutsolve/reporting/assets/{name}" for name in assets}
    assert packed == expected
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "THIRD_PARTY.md", "cytoscape.LICENSE"}


def test_names_are_what_type_checkers_are_told() -> None:
    """Each name that is imported for them alone is public, and there when it is asked for."""
    tree = ast.parse(Path(layoutsolve.__file__).read_text())
    told = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module]
    homes = {
        name.name: node.module for node in told for name in node.names if str(node.module).startswith("layoutsolve.")
    }
    assert sorted(homes) == layoutsolve.__all__
    for name, module in homes.items():
        assert getattr(layoutsolve, name) is getattr(import_module(str(module)), name)
    assert {*layoutsolve.__all__} <= {*dir(layoutsolve)}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        layoutsolve.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_is_public() -> None:
    refusals = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and each.__module__ == errors.__name__ and not name.startswith("_")
    }
    assert refusals <= {*layoutsolve.__all__}


def test_the_oldest_dependencies_are_what_is_tried() -> None:
    """What pip is told for the job with the oldest ones, against what the package asks for."""
    lines = (ROOT / "tests" / "lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    project = (ROOT / "pyproject.toml").read_text()
    asked = dict(re.findall(r'"([\w-]+)>=([\d.]+)(?:;[^"]*)?"', project))
    for name, version in pinned.items():
        assert f"{version}.".startswith(f"{asked[name]}."), name
    needed = project[project.index("dependencies = [") : project.index("]", project.index("dependencies = ["))]
    assert set(re.findall(r'"([\w-]+)>=', needed)) <= set(pinned)


def annotations() -> Iterator[tuple[str, str]]:
    """What is said of the types of all that is public, by where it is said."""
    for name in layoutsolve.__all__:
        found = getattr(layoutsolve, name)
        kinds = found.__mro__[::-1] if inspect.isclass(found) else (found,)
        inherited = {key: each for kind in kinds for key, each in vars(kind).items() if not key.startswith("_")}
        members = {"": found, **inherited}
        if inspect.isclass(found):
            members["__init__"] = found.__init__
            yield from ((f"{name}.{key}", str(said)) for key, said in inspect.get_annotations(found).items())
        for key, member in members.items():
            plain = (
                getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
            )
            if inspect.isfunction(plain):
                yield from ((f"{name}.{key}", str(said)) for said in inspect.get_annotations(plain).values())


def test_types_of_what_is_public_say_something() -> None:
    told = list(annotations())
    assert len(told) > 200
    assert not {place for place, said in told if re.search(r"\bAny\b", said)}
