"""How a model is read: which signature, and in which shapes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Size
from tests.builder import Builder


def dynamic() -> bytes:
    """A convolution and a reshape over images of any number and size."""
    builder = Builder()
    x = builder.input("image", (1, 1, 1, 3), signature=(-1, -1, -1, 3))
    weights = builder.constant("w", np.ones((4, 1, 1, 3), np.float32))
    bias = builder.constant("b", np.zeros(4, np.float32))
    y = builder.tensor("y", (1, 1, 1, 4), signature=(-1, -1, -1, 4))
    builder.operator("CONV_2D", [x, weights, bias], [y], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    builder.signature({"picture": x}, {"result": y})
    return builder.finish(y)


def two_signatures() -> bytes:
    """The main subgraph adds, the other multiplies."""
    builder = Builder()
    parts = [builder, builder.part()]
    for position, (part, operator, key) in enumerate(zip(parts, ("ADD", "MUL"), ("sum", "product"), strict=True)):
        x = part.input("x", (2, 3))
        y = part.tensor("y", (2, 3))
        part.operator(operator, [x, x], [y], {})
        part.outputs(y)
        builder.signature({"given": x}, {"made": y}, key, position)
    return builder.finish()


@pytest.mark.parametrize("name", ["image", "picture"])
def test_shape_of_a_dynamic_input(name: str) -> None:
    """By the tensor's own name or the one in the signature."""
    conversion = layoutsolve.convert(dynamic(), shapes={name: (2, 5, 7, 3)})
    assert conversion.graph.values["y"].shape == (2, 5, 7, 4)
    assert layoutsolve.verify(dynamic(), conversion).passed


def test_a_dimension_may_stay_dynamic() -> None:
    shape = layoutsolve.convert(dynamic(), shapes={"image": (-1, 5, 7, 3)}).graph.values["y"].shape
    assert isinstance(shape[0], Size)
    assert shape[1:] == (5, 7, 4)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"nothing": (1,)}, "no input is called 'nothing': those are 'picture'"),
        ({"image": (1, 5, 7)}, r"shape \[1, 5, 7\] does not fit input 'image', which has \[-1, -1, -1, 3\]"),
        ({"image": (1, 5, 7, 4)}, "does not fit"),
        ({"image": (1, 5, -2, 3)}, "a size below -1"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        layoutsolve.convert(dynamic(), shapes=shapes)


def test_signature() -> None:
    """The subgraph of the signature is converted, with the names that it gives."""
    for key, operator in (("", "Add"), ("sum", "Add"), ("product", "Mul")):
        conversion = layoutsolve.convert(two_signatures(), signature=key)
        assert [node.op for node in conversion.graph.nodes] == [operator]
        model = conversion.model.graph
        assert [model.input[0].name, model.output[0].name] == ["given", "made"]
        assert layoutsolve.verify(two_signatures(), conversion).passed
    sums = layoutsolve.convert(two_signatures(), signature="sum")
    assert not layoutsolve.verify(two_signatures(), replace(sums, reading=conversion.reading)).passed
    with pytest.raises(OptionError, match="no signature 'quotient': those are 'sum', 'product'"):
        layoutsolve.convert(two_signatures(), signature="quotient")


def test_command_line(tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path_factory.mktemp("reading")
    (folder / "dynamic.tflite").write_bytes(dynamic())
    (folder / "two.tflite").write_bytes(two_signatures())
    assert main([str(folder / "dynamic.tflite"), "--shape", "image=1,4,4,3", "--certify", str(folder / "c.json")]) == 0
    assert main([str(folder / "two.tflite"), "--signature", "product"]) == 0
    for given in ("image", "image=", "image=1,x", "=1,2"):
        assert main([str(folder / "dynamic.tflite"), "--shape", given]) == 2
        assert "not of the form NAME=SIZES" in capsys.readouterr().err


def test_all_signatures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is written to a file of its name, and the summary says which it is; options for one model are refused."""
    path = tmp_path / "two.tflite"
    path.write_bytes(two_signatures())
    assert main([str(path)]) == 0
    assert "the signature 'sum'; the model has 'product' as well" in capsys.readouterr().out
    (tmp_path / "two.onnx").unlink()
    assert main([str(path), "--signature", "all", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["signature"] for each in told] == ["sum", "product"]
    for key, operator in (("sum", "Add"), ("product", "Mul")):
        assert [node.op_type for node in onnx.load(tmp_path / f"two.{key}.onnx").graph.node] == [operator]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["two.product.onnx", "two.sum.onnx", "two.tflite"]
    for given in (["-o", "-"], ["--certify", str(tmp_path / "c.json")]):
        assert main([str(path), "--signature", "all", *given]) == 2
        assert "signature" in capsys.readouterr().err
    (tmp_path / "none.tflite").write_bytes(dynamic())
    assert main([str(tmp_path / "none.tflite"), "--signature", "all"]) in (0, 2)


def test_a_signature_may_be_called_all() -> None:
    builder = Builder()
    for position, part in enumerate((builder, builder.part())):
        x, y = part.input("x", (2, 3)), part.tensor("y", (2, 3))
        part.operator(("NEG", "ABS")[position], [x], [y])
        part.outputs(y)
        builder.signature({"x": x}, {"y": y}, ("one", "all")[position], position)
    assert [node.op for node in layoutsolve.convert(builder.finish(), signature="all").graph.nodes] == ["Abs"]
