"""No process imports anything from the current folder, or from the folder of a model, whatever lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from layoutsolve.base import processes
from layoutsolve.base.processes import process
from tests.random_models import network

SCRIPT = str(Path(sys.executable).with_name("layoutsolve"))
"""The program as it is installed."""

OWN = ("layoutsolve", "sitecustomize", "usercustomize", "experiments", "tests")
RECORDED = "import os\nwith open({record!r}, 'a') as file:\n    file.write(f'{{__name__}} {{os.getpid()}}\\n')\n"


def names() -> list[str]:
    """All that a process could import by name: the standard library, what is installed, and ourselves."""
    found = {*sys.stdlib_module_names, *packages_distributions(), *OWN}
    return sorted(name for name in found if name.isidentifier())


def dynamic() -> bytes:
    """A model in ONNX with a size that has a name, which ``--verify`` tries in a process of its own."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 4, 4, 3])
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Transpose", ["image"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["planes", "weights"], ["found"]),
        helper.make_node("Transpose", ["found"], ["result"], perm=[0, 2, 3, 1]),
    ]
    weights = onnx.numpy_helper.from_array(np.ones((2, 3, 1, 1), "float32"), "weights")
    graph = helper.make_graph(nodes, "dynamic", [image], [result], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    return model.SerializeToString()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with models in it and in a folder below, both of which have a module of every name."""
    record = tmp_path / "record"
    for place in (tmp_path / "here", tmp_path / "here" / "models"):
        place.mkdir()
        for name in names():
            (place / f"{name}.py").write_text(RECORDED.format(record=str(record)))
        for number in range(2):
            (place / f"{number}.tflite").write_bytes(network(number).source)
        (place / "dynamic.onnx").write_bytes(dynamic())
    return tmp_path / "here"


def ran(command: Sequence[str], place: Path, expected: int = 0) -> str:
    """What a command prints that is started in a hostile folder, and that nothing of the folder was run."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, env=environment)
    record = place.parent / "record"
    assert not record.exists(), f"{command} has run {record.read_text()}"
    assert done.returncode == expected, done.stderr
    return done.stdout


COMMANDS = {
    "convert": ["0.tflite", "--certify", "proof.json", "--report", "page.html"],
    "verify": ["models/0.tflite", "--verify", "--explain", "--profile"],
    "dynamic": ["models/dynamic.onnx", "--verify"],
    "batch": ["0.tflite", "models/1.tflite", "-o", "out", "--jobs", "2", "--verify"],
    "scheduler": ["models", "-o", "out", "--jobs", "2", "--scheduler", "local"],
    "ops": ["ops", "models/0.tflite"],
    "target": ["target", "ort-cpu"],
    "bench": ["bench", "models/dynamic.onnx", "models/0.tflite"],
}


@pytest.mark.members(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_import_nothing_of_a_folder(name: str, hostile: Path) -> None:
    pytest.importorskip("distributed" if name == "scheduler" else "sys")
    ran([SCRIPT, *COMMANDS[name]], hostile)


def test_other_commands(hostile: Path) -> None:
    """What reads a written model, how ``python -I -m`` starts, and what a shell asks when somebody presses Tab."""
    ran([SCRIPT, "models/0.tflite", "-o", "a.onnx", "--certify", "a.json"], hostile)
    ran([SCRIPT, "models/0.tflite", "-o", "a.onnx", "--check", "a.json"], hostile)
    ran([SCRIPT, "info", "a.onnx"], hostile)
    ran([SCRIPT, "a.onnx", "-o", "b.onnx"], hostile)
    ran([sys.executable, "-I", "-m", "layoutsolve", "models", "-o", "out", "--jobs", "2"], hostile)
    shell = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": " ", "COMP_LINE": f"{SCRIPT} --ver", "COMP_POINT": "200"}
    code = "import os, subprocess, sys; os.dup2(1, 8); sys.exit(subprocess.call(sys.argv[1:], pass_fds=[8]))"
    ran([sys.executable, "-I", "-c", f"import os; os.environ.update({shell!r}); {code}", SCRIPT], hostile)


def test_a_folder_that_is_in_the_path(hostile: Path) -> None:
    """A program that imports from such folders itself has none of its processes do so."""
    code = (
        "import json, subprocess, sys\n"
        "from layoutsolve.base.processes import process\n"
        "sys.path[:0] = ['', '.', 'models', sys.argv[1], sys.argv[1] + '/models']\n"
        "child = process('layoutsolve.__main__', '--version', apart=['models'], stdout=-1, text=True)\n"
        "print(child.communicate()[0])\n"
    )
    assert ran([sys.executable, "-I", "-c", code, str(hostile)], hostile).startswith("layoutsolve ")


def test_the_path_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the entries of this one in their order, and the very layoutsolve."""
    monkeypatch.chdir(tmp_path)
    code = "import json, sys, layoutsolve; print(json.dumps([sys.path, layoutsolve.__file__])); raise SystemExit; "
    monkeypatch.setattr(processes, "_PATHS", f"{processes._PATHS}{code}")
    (tmp_path / "models").mkdir()
    (tmp_path / "other").mkdir()
    extra = [str(tmp_path), str(tmp_path / "models"), "relative", "", str(tmp_path / "other")]
    monkeypatch.setattr(sys, "path", [*extra, *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "models"]))
    with process("layoutsolve.cli.command_line", apart=["models"], stdout=subprocess.PIPE, text=True) as child:
        paths, file = json.loads(child.communicate()[0])
    assert paths[0] == str(tmp_path / "other") and not {str(tmp_path), str(tmp_path / "models"), ""} & set(paths)
    assert paths[1:] == [each for each in sys.path[5:] if os.path.isabs(each)]  # noqa: PTH117
    assert Path(file).samefile(processes.HOME / "__init__.py")
    with process(
        "layoutsolve.cli.command_line", cwd=str(tmp_path / "other"), stdout=subprocess.PIPE, text=True
    ) as child:
        assert str(tmp_path / "other") not in json.loads(child.communicate()[0])[0]


def test_the_folder_of_the_installation_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands in it imports what is installed there."""
    monkeypatch.chdir(processes.HOME.parent)
    code = "import json, sys; print(json.dumps(sys.path)); raise SystemExit; "
    monkeypatch.setattr(processes, "_PATHS", f"{processes._PATHS}{code}")
    monkeypatch.setattr(sys, "path", [str(processes.HOME.parent), *sys.path])
    with process("layoutsolve.cli.command_line", stdout=subprocess.PIPE, text=True) as child:
        assert json.loads(child.communicate()[0])[0] == str(processes.HOME.parent)


def test_every_process_is_started_by_the_helper() -> None:
    """No other file of the program starts one."""
    ways = ("subprocess.Popen(", "subprocess.run(", "subprocess.check", "multiprocessing", "os.exec", "os.spawn")
    ways = (*ways, "sys.executable", "ProcessPool", "os.system(", "os.popen(", "os.fork(")
    folders = {processes.HOME, *(each.resolve() for each in processes.HOME.iterdir() if each.is_dir())}
    for path in {path for folder in folders for path in folder.rglob("*.py")}:
        text = path.read_text()
        found = [way for way in ways if way in text]
        assert not found or path.name == "processes.py", f"{path}: {found}"
