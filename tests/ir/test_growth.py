"""What grows in a model in ONNX takes memory and time in proportion to the file, or is one error: the budget is asked
before anything is computed.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import layoutsolve
from experiments.fuzz import onnx_mutants
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.onnx.listing import listed
from layoutsolve.frontend.onnx.reading import parse
from layoutsolve.proto import rank_bounds, rank_limits
from layoutsolve.proto.messages import ModelProto, native
from layoutsolve.proto.scopes import nodes_of
from tests.growing import (
    BEFORE,
    BEHIND,
    DEEP,
    FAMILIES,
    OPEN,
    PLACES,
    SHALLOW,
    SIZES,
    calls,
    channels,
    gathered,
    handed,
    reshaped,
)  # fmt: skip

_MEMORY, _SPARE_MEMORY = 20, 300 << 20
_SECONDS_PER_MEGABYTE, _SPARE_SECONDS = 10, 10

EMPTY: Mapping[str, int] = {}

_CONVERTED = """
import json, re, resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import layoutsolve
for line in sys.stdin:
    path = Path(line.strip())
    open("/proc/self/clear_refs", "w").write("5")
    start, error = time.process_time(), ""
    try:
        layoutsolve.convert(path, time_limit=5).save(path.with_suffix(".out.onnx"))
    except layoutsolve.InternalError as found:
        error = "internal: " + str(found)
    except layoutsolve.ConversionError as found:
        error = str(found)
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())
    seconds = time.process_time() - start
    print(json.dumps({"error": error, "memory": 1024 * int(peak[1]), "seconds": seconds}), flush=True)
"""


def bounded(models: Mapping[str, bytes], folder: Path, beside: Mapping[str, int] = EMPTY) -> dict[str, str]:
    """By name what is said of models that are not converted; all of them have been read within the bounds. Some read
    so many bytes ``beside``.
    """
    paths = [folder / f"{number}.onnx" for number in range(len(models))]
    for path, data in zip(paths, models.values(), strict=True):
        path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _CONVERTED],
        input="".join(f"{path}\n" for path in paths),
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    names = list(models)
    assert len(found) == len(models), (names[len(found)], done.stderr)
    for name, facts in zip(names, found, strict=True):
        size = len(models[name]) + beside.get(name, 0)
        assert not facts["error"].startswith("internal"), (name, facts["error"])
        assert facts["memory"] <= _MEMORY * size + _SPARE_MEMORY, name
        assert facts["seconds"] <= _SECONDS_PER_MEGABYTE * size / (1 << 20) + _SPARE_SECONDS, name
    return {name: facts["error"] for name, facts in zip(names, found, strict=True) if facts["error"]}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_operators(place: str, tmp_path: Path) -> None:
    """None of them is refused: what is not computed while converting is left to the runtime. A third of them is tried
    alone, and a twentieth within bodies and functions.
    """
    chosen = list(FAMILIES.items())[:: 3 if place == "plain" else 20]
    assert not bounded({name: PLACES[place](family) for name, family in chosen}, tmp_path)


@pytest.mark.members(1)
@pytest.mark.parametrize("steps", [40, 300])
def test_sizes(steps: int, tmp_path: Path) -> None:
    assert not bounded({name: make(steps) for name, make in SIZES.items()}, tmp_path)


@pytest.mark.members(14)
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_right(name: str, steps: int) -> None:
    source = SIZES[name](steps)
    made = layoutsolve.convert(source, time_limit=5).model.SerializeToString()
    random = np.random.default_rng(steps)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    before, after = (onnxruntime.InferenceSession(each, options) for each in (source, made))
    high, wide = (13, 16) if OPEN["x"] == before.get_inputs()[0].shape else (4, 4)
    sizes = {"b": 2, "h": high, "w": wide, "n": 3}
    feeds = {
        each.name: random.standard_normal([sizes.get(dim, 3) if isinstance(dim, str) else dim for dim in each.shape])
        .astype(np.float32)
        for each in before.get_inputs()
    }  # fmt: skip
    try:
        (expected,) = before.run(None, feeds)
    except Exception:  # whose class is the runtime's own: sizes that cannot be
        pytest.skip("these sizes cannot be")
    np.testing.assert_array_equal(after.run(None, feeds)[0], expected)


def test_functions(tmp_path: Path) -> None:
    models = {f"{depth} {within}": calls(within, depth) for depth in (2, 5, 20, 30) for within in (False, True)}
    models |= {f"handed {times}": handed(1 << 20, times) for times in (2, 1000)}
    refused = bounded(models, tmp_path)
    assert set(refused) == {"20 False", "20 True", "30 False", "30 True", "handed 1000"}
    assert all("its functions would become" in said for said in refused.values())


@pytest.mark.parametrize("place", PLACES)
def test_growing_dimensions(place: str, tmp_path: Path) -> None:
    """Each is refused for them, or left to the runtime; others within bodies and functions than alone."""
    first = list(PLACES).index(place)
    chosen = [("deep", *each) for each in [*DEEP.items()][first::4]]
    others = [("shallow", *each) for each in [*SHALLOW.items()][first::4]]
    models = {f"{kind} {name}": PLACES[place](family) for kind, name, family in (*chosen, *others)}
    refused = bounded(models, tmp_path)
    assert all("32" in said and name.startswith("deep") for name, said in refused.items()), refused
    assert len(refused) >= len(chosen) // 2


@pytest.mark.members(2)
@pytest.mark.parametrize("version", [7, 9, 11, 13, 17, 18])
def test_growing_dimensions_of_older_models(version: int, tmp_path: Path) -> None:
    models = {str(times): gathered(times, version) for times in (1, 4, 6, 24, 60)}
    assert set(bounded(models, tmp_path)) == {"6", "24", "60"}


@pytest.mark.members(1)
@pytest.mark.parametrize("version", [9, 11, 13, 17, 18, 20])
def test_dimensions_that_nothing_bounds(version: int, tmp_path: Path) -> None:
    """As many as there are elements of some kind: they are left to the runtime, and listed, in older sets as well."""
    models = {kind: reshaped(kind, version) for kind in ("ConstantOfShape", "Expand", "Reshape")}
    assert not bounded(models, tmp_path)
    for source in models.values():
        made = layoutsolve.convert(source).model.SerializeToString()
        assert onnx_mutants.compared(source, made).word == "right"
        assert len(listed(parse(source))) == 1


def test_what_was_hidden_comes_back() -> None:
    found = set[str]()
    for family in (family for name, family in DEEP.items() if "tiled" in name):
        model = ModelProto.FromString(PLACES["loop"](family))
        model.graph.node.add(op_type="Own", domain="own", input=[model.graph.input[0].name], output=["own"])
        model.opset_import.add(domain="own", version=1)
        aside = rank_limits.checked(model)
        found |= rank_limits.hidden(aside)
        rank_limits.bring_back(aside)
        one, other = ([(node.op_type, node.domain) for node in nodes_of(each.graph)] for each in (model, aside))
        assert one == other and list(aside.opset_import) == list(model.opset_import)
    assert found


@pytest.mark.members(1)
@pytest.mark.parametrize("count", [1 << 22, 1 << 30])
def test_channels_that_the_file_does_not_hold(count: int, tmp_path: Path) -> None:
    """What is written for blocks of channels takes no constants in proportion to a number that anybody can write down:
    these models are valid, and are converted.
    """
    pairs = [(before, behind) for before in BEFORE for behind in BEHIND]
    refused = bounded({" ".join(pair): channels(*pair, count) for pair in pairs}, tmp_path)
    assert not refused


def ranked(rank: int, count: int) -> bytes:
    """So many operators on a tensor of so many dimensions."""
    nodes = [helper.make_node("Relu", [f"t{number}"], [f"t{number + 1}"]) for number in range(count)]
    ports = [helper.make_tensor_value_info(f"t{number}", TensorProto.FLOAT, [1] * rank) for number in (0, count)]
    return bytes(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:])).SerializeToString())


@pytest.mark.parametrize("rank", [33, 1000, 20_000])
def test_dimensions(rank: int) -> None:
    """None of them is inferred, thousand times over, of a tensor that has so many."""
    with pytest.raises(ConversionError, match=f"'t0' has {rank} dimensions"):
        layoutsolve.convert(ranked(rank, 1000))


def test_as_many_dimensions_as_are_read() -> None:
    assert len(layoutsolve.convert(ranked(32, 2)).model.graph.node) == 2


def _beside(name: str, parts: list[tuple[int, int]], dtype: int = TensorProto.FLOAT) -> bytes:
    """A model that reads vectors, which are parts of a file beside it."""
    width = 4 if dtype == TensorProto.FLOAT else 1
    tensors = []
    for number, (offset, length) in enumerate(parts):
        tensor = TensorProto(
            name=f"c{number}", data_type=dtype, dims=[length // width], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    nodes = [helper.make_node("ReduceMax", [f"c{number}"], [f"m{number}"], keepdims=0) for number in range(len(parts))]
    nodes.append(helper.make_node("Max", ["x", *(f"m{number}" for number in range(len(parts)))], ["y"]))
    x, y = (helper.make_tensor_value_info(each, dtype, [1]) for each in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )


def test_parts_of_files(tmp_path: Path) -> None:
    """A file of which most is a hole takes no more than the parts that are named."""
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(9 << 30)
    with (tmp_path / "small.bin").open("wb") as file:
        file.truncate(200 << 20)
    megabyte = 1 << 20
    models = {
        "one": _beside("w.bin", [(0, 16)]),
        "far": _beside("w.bin", [(0, 16), (8 << 30, 16)]),
        "of a smaller file": _beside("small.bin", [(0, 16), (150 << 20, 16)]),
        "the same": _beside("w.bin", [(0, megabyte)] * 500),
        "the same, between numbers": _beside("w.bin", [(1, megabyte)] * 500),
        "one after the other": _beside("w.bin", [(4 * number, megabyte) for number in range(5)]),
        "between numbers": _beside("w.bin", [(4 * number + 1, megabyte) for number in range(500)]),
    }
    named = dict.fromkeys(models, megabyte)
    assert set(bounded(models, tmp_path, named)) == {"between numbers"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("offset", "-1"), ("offset", "9" * 25), ("offset", "0x10"), ("offset", "1_6"), ("offset", "0" * 5000),
     ("length", "9" * 30), ("length", "-5"), ("length", "1.0"), ("length", ""), ("location", "../w.bin"),
     ("location", "/etc/passwd"), ("location", ""), ("location", "link"), ("location", "loop"), ("location", "folder")],
)  # fmt: skip
def test_parts_that_there_are_not(field: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(64))
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    (inside / "w.bin").write_bytes(bytes(64))
    (inside / "link").symlink_to(tmp_path / "w.bin")
    (inside / "loop").symlink_to(inside / "loop")
    model = onnx.load_from_string(_beside("w.bin", [(0, 16)]))
    for entry in model.graph.initializer[0].external_data:
        entry.value = value if entry.key == field else entry.value
    (inside / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ConversionError, match="constant 'c0' is kept in the file"):
        layoutsolve.convert(inside / "m.onnx")


def test_bounds_of_dimensions() -> None:
    """Inference finds no more dimensions than are bounded, in any test that ONNX has of its operators."""
    seen, cases = 0, importlib.import_module("onnx.backend.test.case.node")
    for module in pkgutil.iter_modules(cases.__path__):
        if module.name not in ("averagepool", "lppool", "maxpool"):  # they compute results, which takes seconds
            importlib.import_module(f"{cases.__name__}.{module.name}")
    for case in cases._NodeTestCases:
        if case.model is None or case.model.functions:
            continue
        model = ModelProto.FromString(case.model.SerializeToString())
        del model.graph.value_info[:]
        for port in model.graph.output:
            port.type.Clear()
        try:
            data = native.shape_inference.infer_shapes(model.SerializeToString(), False, False, True)
        except Exception:  # of a test with a type that inference refuses
            continue
        found = ModelProto.FromString(data).graph
        bounds = rank_limits.bounded(model)
        for info in (*found.output, *found.value_info):
            if info.type.tensor_type.HasField("shape"):
                seen += 1
                assert (bounds.get(info.name) or 0) >= rank_bounds.rank_of(info.type), (case.name, info.name)
    assert seen > 5000
