"""Every experiment runs, on a few small models: a number in the documentation is worth what can be measured again."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import onnx
import onnxruntime
import pytest
from onnx import helper

import layoutsolve
from experiments.compare.ablation import STAGES
from experiments.compare.operatorwise import check_model
from experiments.make.packaged_models import unpack
from experiments.make.zoo import write
from experiments.measure.loading import DEFAULT, ONE, PLAIN, STORED, Found, late, parts_of
from experiments.onnx_shared import FailedError, apart
from tests.networks import Network, Quantized

ROOT = Path(__file__).parents[2]

COMMANDS = {
    "compare.ablation": "{models} --networks 0 --exported 0 --every 0 --only elimination",
    "compare.agreement": "{models} --samples 1",
    "measure.batch": "{models}",
    "compare.certificates": "{models} --every 3",
    "fuzz.code_mutants": "{scratch}/reached --tests tests/ir/test_graph.py --only layoutsolve/ir/graph.py --count 2",
    "fuzz.counterexamples": "3",
    "make.demo": "{scratch}/demo.tflite",
    "instances.check": "",
    "instances.export": "{scratch} --small --only convnext --seconds 2",
    "report.__main__": "{scratch} --small --jobs 1 --only engines",
    "compare.exactness": "{models} --only network/0000",
    "measure.dynamic": "--rows 1 --most 20000",
    "compare.emulated": "{onnx} {scratch}",
    "measure.executed": "{models} --only network/00000 --target ort-arm",
    "make.exporter_networks": "{scratch}/exported --seeds 1",
    "make.figures": "{scratch}",
    "fuzz.forgeries": "--certificates 1 --ways 1 --files 2 --operators 3",
    "measure.forms": "{models} --small --form 'PRelu limits'",
    "compare.formulations": "{models} --families --only network/00000 --only ladder:50 --seconds 2",
    "fuzz.tflite_round_trip": "4",
    "fuzz.tflite_mutants": "{models} --mutants 40 --jobs 1",
    "measure.kernels": "--to {scratch}/kernels.json",
    "measure.large": "{scratch} --layers 2 --width 64",
    "measure.latency": "",
    "measure.litert_rows": "",
    "compare.levels": "{models} --trace",
    "measure.loading": "{models} --only CONV_2D-int8",
    "fuzz.onnx_mutants": "{onnx} --mutants 4",
    "measure.onnx_large": "{scratch} --layers 2 --width 64 --rounds 1",
    "compare.onnx_models": "{onnx} --time",
    "compare.older_opsets": "--part 7/900",
    "compare.onnx_nodes": "--only transpose_default",
    "compare.onnx_round": "{models} --only network/00000",
    "compare.operatorwise": "{models}",
    "measure.ort_web": "{models} --bytes",
    "fuzz.planted": "1 --only Conv --only Softmax --again",
    "fuzz.planted_models": "--seed 2 --count 6 --seconds 60 --keep {scratch}/misses",
    "fuzz.planted_standard": "--seed 0 --count 6 --seconds 60",
    "fuzz.planted_tflite": "--seed 2 --count 3 --seconds 60",
    "compare.plans": "{models} --target nchw16c --target acl",
    "measure.portable": "",
    "compare.processor_kernels": "--processors",
    "compare.processors": "{models} --only network/00000 --processors --quant qdq qoperator",
    "fuzz.quantized_networks": "--count 6 --processors",
    "compare.replay": "{scratch}/manifest.json --networks 1 --every 2000 --corpus {models}",
    "fuzz.reaching": "{scratch} --patience 0 --seconds 2",
    "measure.reports": "40",
    "compare.reshapes": "{models} --objective min-executed --json {scratch}/reshapes.json",
    "measure.row_classes": "--only LogSoftmax --threads 1",
    "measure.runtime": "{models} --only network/00000",
    "compare.saturation": "{models}",
    "measure.scale": "50 100",
    "measure.speed": "{models} --only network/00000 --target ort-cpu-contrib",
    "measure.startup": "{models} --only network/00000 --rounds 1",
    "compare.strategies": "{models}",
    "measure.streaming": "",
    "compare.targets": "{models} ort-cpu portable --only network/00000",
    "make.keras_models": "{scratch} --only GRU",
    "make.onnx_exports": "{scratch} --only test_convnext",
    "make.packaged_models": "{scratch} --packages",
    "make.torch_exports": "{scratch}",
    "compare.tflite_round": "{models} --only CONV_2D-int8",
    "compare.tflite_writers": "{onnx} --time",
    "compare.tvm_layouts": "{models} --only network/00000",
    "compare.vela": "{models} --only network/00000",
    "compare.verdicts": "{models} --faults 2 --only network/00000",
    "measure.whole": "40 80",
    "make.zoo": "{scratch}/zoo --networks 1 --every 2000",
}
"""How each experiment is run here: ``{models}`` is a folder of models, ``{scratch}`` an empty one, ``{onnx}`` one of an
ONNX model.
"""

ENDS = {"instances.check": 2}
"""What an experiment ends with, where that is not 0: it is called without what it needs."""

PREPARED = multiprocessing.get_context("forkserver")
PREPARED.set_forkserver_preload(
    ["layoutsolve.cli.command_line", "layoutsolve.solver", "onnx", "onnxruntime", "tests.truth"]
)
"""Where processes begin with what takes long to load, and nothing that is running."""

NEEDS = {
    "make.keras_models": "tensorflow",
    "make.onnx_exports": "timm",
    "make.torch_exports": "litert_torch",
    "compare.tvm_layouts": "tvm",
    "compare.vela": "ethosu",
}
"""The packages without which an experiment is left out: they are not among those for development."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small models."""
    folder = tmp_path_factory.mktemp("models")
    assert write(folder, networks=2, every=900) > 5
    return folder


def test_models_are_unpacked_once(tmp_path: Path) -> None:
    """Of a wheel the models alone, by their own names, whatever folder they name, and none a second time."""
    wheel, known = tmp_path / "some-1.0-py3-none-any.whl", set[bytes]()
    with ZipFile(wheel, "w") as archive:
        for name in ("some/a.onnx", "some/b.onnx", "../up.tflite", "some/c.py", "some/empty.onnx"):
            archive.writestr(
                name, {"some/b.onnx": "one", "some/empty.onnx": ""}.get(name, "one" if "a." in name else name)
            )
    assert [path.name for path in unpack(wheel, tmp_path / "out", known)] == ["a.onnx", "up.tflite"]
    assert not unpack(wheel, tmp_path / "out", known) and len(list(tmp_path.rglob("*.*"))) == 3


def test_stages_that_are_left_out_are_there() -> None:
    """A stage that has another name by now would be left out nowhere, and the ablation end there."""
    for stage, patches in STAGES.items():
        assert all(hasattr(place, name) for place, name, _ in patches), stage


@pytest.fixture(scope="module")
def onnx_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one small ONNX model, whose Transposes are none."""
    folder = tmp_path_factory.mktemp("onnx")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 2, 3]) for name in "xy"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder / "small.onnx")
    return folder


def test_every_experiment_is_run() -> None:
    runnable = {
        ".".join(path.relative_to(ROOT / "experiments").with_suffix("").parts)
        for path in (ROOT / "experiments").rglob("*.py")
        if "__main__" in path.read_text()
    }
    assert runnable == set(COMMANDS)


@pytest.mark.members(0)
@pytest.mark.parametrize("name", COMMANDS)
def test_experiment(name: str, models: Path, onnx_models: Path, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    if name == "measure.ort_web" and not (ROOT / "experiments" / "measure" / "web" / "node_modules").is_dir():
        pytest.skip("onnxruntime-web is not installed")
    given = [each.format(models=models, onnx=onnx_models, scratch=tmp_path) for each in shlex.split(COMMANDS[name])]
    told = tmp_path.with_name(f"{tmp_path.name}.told")
    process = PREPARED.Process(target=run, args=(name, given, told))
    process.start()
    process.join(300)
    if process.is_alive():
        process.kill()
    stdout, stderr = (told.with_suffix(ending).read_text(errors="replace") for ending in (".out", ".err"))
    assert process.exitcode == ENDS.get(name, 0), stderr[-2000:] + stdout[-500:]
    assert "AttributeError" not in stdout
    assert stdout or any(tmp_path.iterdir())


def run(name: str, given: Sequence[str], told: Path) -> None:
    """Run an experiment as a program, in a process that has loaded what all of them load; what it prints is in files
    that are called as ``told``.
    """
    for number, ending in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(told.with_suffix(ending), os.O_WRONLY | os.O_CREAT), number)
    os.chdir(ROOT)
    sys.argv = [name, *given]
    runpy.run_module(f"experiments.{name}", run_name="__main__", alter_sys=True)


@pytest.mark.parametrize("channels", [3, 8, 16])
@pytest.mark.parametrize("kind", [Network, Quantized])
def test_every_operator_is_checked(kind: type[Network], channels: int) -> None:
    """Also those on bytes that are stored without a sign, and on images that could be whole blocks of channels."""
    net = kind()
    x = net.input(1, 6, 6, channels)
    y = net.depthwise(net.conv(x, channels, 1))
    checks = check_model(net.model(net.op("ADD", [x, net.conv(y, channels)], net.shapes[x])).source)
    names = sorted(operator for operator, _ in {(check.operator, check.index) for check in checks})
    assert names == ["ADD", "CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D"]
    assert not any(check.reason for check in checks)


def test_a_process_that_dies_apart_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Nor is its stack written, as pytest has it done to a stream of its own: that it may die is what it is for."""
    assert faulthandler.is_enabled()
    assert not apart(faulthandler.is_enabled, 60)
    with pytest.raises(FailedError, match="died"):
        apart(os.abort, 60)
    assert capfd.readouterr() == ("", "")


def test_what_takes_long_to_load() -> None:
    """Of two files 15 % or 5 ms more, whichever is more, is not too long."""

    def pair(one: float, two: float) -> list[Found]:
        ways = ((PLAIN, one), (DEFAULT, two))
        return [Found(f"{one} {two}", way, "all", two / one, 1, 1, spent) for way, spent in ways]

    found = [*pair(10, 14.9), *pair(10, 15.1), *pair(100, 114), *pair(100, 116)]
    told = late(found).splitlines()
    assert told[0].startswith("the default: 2 of 4")
    assert [each.split(":")[0] for each in told[1:]] == ["* 10 15.1", "* 100 116"]


def test_parts_of_loading() -> None:
    """The files that part what loading takes are those that they are said to be."""
    net = Quantized()
    net.largest = 128
    x = net.input(1, 8, 8, 4)
    file = layoutsolve.convert(net.model(net.conv(net.conv(net.conv(x, 8, 3), 8), 8)).source).model.SerializeToString()
    parts = {name: onnx.ModelProto.FromString(part) for name, part in parts_of(file).items()}
    for part, converted, selected in ((STORED, 0, 3), (ONE, 1, 1)):
        nodes = parts[part].graph.node
        assert sum(node.op_type == "BitwiseXor" for node in nodes) == converted
        assert [len(node.output) for node in nodes if node.op_type == "If"] == [selected]
        assert onnxruntime.InferenceSession(parts[part].SerializeToString()).get_outputs()
    assert not parts_of(parts[ONE].SerializeToString())
