"""How inputs and outputs are stored: one by one, on the command line and in Python, and told to the file's users."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verify import verify
from tests.builder import Builder

PLANES = [0, 3, 1, 2]


def two_inputs() -> bytes:
    """Two images are pooled and added."""
    build = Builder()
    images = {name: build.input(f"serving_{name}", (1, 4, 6, 3)) for name in ("image", "depth")}
    pooled = [build.tensor(f"pooled_{name}", (1, 2, 3, 3)) for name in images]
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    for source, target in zip(images.values(), pooled, strict=True):
        build.operator("MAX_POOL_2D", [source], [target], options)
    total = build.tensor("total", (1, 2, 3, 3))
    build.operator("ADD", pooled, [total], {})
    build.signature(images, {"sum": total})
    return build.finish(total)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(two_inputs())
    return path


def shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in (*model.graph.input, *model.graph.output)
    }


def facts(model: onnx.ModelProto) -> dict[str, str]:
    return {
        item.key: item.value
        for item in model.metadata_props
        if item.key.startswith(("layoutsolve.layout.", "layoutsolve.state."))
    }


def test_options(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of the signature and of the source do; the facts are in the report, in the file and in the summary."""
    options = [
        "--inputs",
        "nhwc",
        "--input",
        "image=nchw",
        "--input",
        "serving_depth=NHWC:CWHN",
        "--output",
        "sum=free",
    ]
    assert main([str(model), *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["layouts"] == {
        "image": {"permutation": PLANES, "chosen": False},
        "depth": {"permutation": [3, 2, 1, 0], "chosen": False},
        "sum": {"permutation": PLANES, "chosen": True},
    }
    assert report["transposes"] == 1
    written = onnx.load(model.with_suffix(".onnx"))
    assert shapes(written) == {"image": [1, 3, 4, 6], "depth": [3, 6, 4, 1], "sum": [1, 3, 2, 3]}
    assert facts(written) == {
        "layoutsolve.layout.image": "0 3 1 2",
        "layoutsolve.layout.depth": "3 2 1 0",
        "layoutsolve.layout.sum": "0 3 1 2",
    }
    assert main([str(model), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  input image: float32[1,3,4,6], stored as NCHW instead of NHWC (permutation 0 3 1 2)" in lines
    assert (
        "  output sum: float32[1,3,2,3], stored as NCHW instead of NHWC (permutation 0 3 1 2, chosen by the solver)"
        in lines
    )


@pytest.mark.parametrize("option", ["--input", "--layout"])
def test_orders_are_told_in_the_letters_that_they_are_given_in(
    option: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(model), option, "image=BYXC:BCYX", "--dry-run"]) == 0
    assert "stored as BCYX instead of BYXC (permutation 0 3 1 2)" in capsys.readouterr().out


def test_single_choices_go_before_general_ones(model: Path) -> None:
    assert main([str(model), "--inputs", "nchw", "--input", "depth=keep"]) == 0
    assert shapes(onnx.load(model.with_suffix(".onnx")))["depth"] == [1, 4, 6, 3]
    assert shapes(onnx.load(model.with_suffix(".onnx")))["image"] == [1, 3, 4, 6]


def test_nothing_to_tell(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layouts"] == {}
    assert facts(onnx.load(model.with_suffix(".onnx"))) == {}
    assert main([str(model)]) == 0
    assert "stored as" not in capsys.readouterr().out


def test_in_python() -> None:
    conversion = layoutsolve.convert(
        two_inputs(), inputs={"image": "nchw", "depth": ("NHWC", "CWHN")}, outputs={"sum": "free"}
    )
    assert conversion.permutations(inputs=True) == {"image": (0, 3, 1, 2), "depth": (3, 2, 1, 0)}
    assert conversion.permutations(inputs=False) == {"sum": (0, 3, 1, 2)}
    relation = Relation(conversion.permutations(inputs=True), conversion.permutations(inputs=False))
    checked = verify(two_inputs(), conversion.model, relation=relation)
    assert checked.passed
    again = layoutsolve.convert(
        two_inputs(), inputs={"depth": ("NHWC", "CWHN"), "image": "nchw"}, outputs={"sum": "free"}
    )
    assert again.model.SerializeToString(deterministic=True) == conversion.model.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "image"], "is not of the form NAME=LAYOUT"),
        (["--input", "image=NHWC:"], "is not of the form NAME=LAYOUT"),
        (["--input", "=nchw"], "is not of the form NAME=LAYOUT"),
        (["--output", "other.onnx"], "name the file to write with -o"),
        (["--input", "image=sideways"], "unknown choice"),
        (["--input", "nobody=nchw"], "no tensor is called"),
        (["--input", "sum=nchw"], "is not an input"),
        (["--output", "pooled_depth=nchw"], "is not an output but a tensor inside"),
        (["--input", "image=nchw", "--input", "image=keep"], "two different layouts"),
        (["--input", "image=nchw", "--input", "serving_image=keep"], "two layouts"),
        (["--input", "image=nchw", "--layout", "image=NHWC:NWHC"], "give it one"),
    ],
)
def test_refused(options: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(model), *options]) == 2
    assert message in capsys.readouterr().err
    assert not model.with_suffix(".onnx").exists()


def test_states_are_told() -> None:
    """Which output replaces which state, and how the state is stored where that is not as in the source."""
    build = Builder()
    image = build.input("image", (1, 4, 6, 3))
    handle, before = build.tensor("handle", (), "resource"), build.tensor("before", (1, 4, 6, 3))
    build.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "memory"})
    build.operator("READ_VARIABLE", [handle], [before])
    weights = build.constant("w", np.ones((3, 3, 3, 3), np.float32))
    bias = build.constant("b", np.zeros(3, np.float32))
    seen, after = build.tensor("seen", (1, 4, 6, 3)), build.tensor("after", (1, 4, 6, 3))
    build.operator("CONV_2D", [image, weights, bias], [seen], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    build.operator("ADD", [seen, before], [after], {})
    build.operator("ASSIGN_VARIABLE", [handle, after], [])
    model = layoutsolve.convert(build.finish(after)).model
    assert [item.name for item in model.graph.input] == ["image", "memory"]
    assert [item.name for item in model.graph.output] == ["after", "memory/next"]
    assert facts(model)["layoutsolve.state.memory"] == "memory/next"
    stored = facts(model).get("layoutsolve.layout.memory", "0 1 2 3").split()
    assert shapes(model)["memory"] == shapes(model)["memory/next"] == [[1, 4, 6, 3][int(axis)] for axis in stored]
