"""What models are run on to be compared: data of one's own, signatures, states that last from run to run."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification import input_files, output_accuracy
from layoutsolve.verification.flatbuffer_repacking import packed
from layoutsolve.verification.runtimes import following_of
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from tests.builder import Builder, Quant
from tests.conformance.test_states import CASES
from tests.networks import Network
from tests.random_models import network
from tests.truth import litert


def two_inputs() -> bytes:
    """A sum of floats and an image of bytes."""
    builder, quant = Builder(), Quant([1 / 64], [3])
    x = builder.input("x", (1, 4, 6, 3), signature=(-1, 4, 6, 3))
    image = builder.input("image", (1, 4, 6, 3), "uint8", quant=quant)
    real, out = builder.tensor("real", (1, 4, 6, 3)), builder.tensor("out", (1, 4, 6, 3), signature=(-1, 4, 6, 3))
    builder.operator("DEQUANTIZE", [image], [real], {})
    builder.operator("ADD", [x, real], [out], {})
    builder.signature({"left": x, "right": image}, {"sum": out})
    return builder.finish(out)


def arrays(*front: int) -> dict[str, Array]:
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (*front, 1, 4, 6, 3)).astype(np.uint8)
    return {"left": random.normal(size=(*front, 1, 4, 6, 3)).astype(np.float32), "image": image}


def test_data(tmp_path: Path) -> None:
    """As a mapping, as a file, as a folder; each name is the one of the ONNX model or of the source."""
    source = two_inputs()
    conversion = layoutsolve.convert(source, inputs="nchw")
    np.savez(tmp_path / "one.npz", **arrays())  # type: ignore[arg-type]
    np.savez(tmp_path / "three.npz", **arrays(3))  # type: ignore[arg-type]
    for data, count in ((arrays(), 1), (arrays(2), 2), (tmp_path / "three.npz", 3), (tmp_path, 4)):
        found = layoutsolve.verify(source, conversion, data=data, tensors=True)
        assert found.passed and found.samples == count and found.steps == 1
        assert found.outputs[0].distance.count == count * 4 * 6 * 3
    wide = {**arrays(), "left": np.ones((2, 4, 6, 3))}
    assert layoutsolve.verify(source, conversion, data=wide).outputs[0].distance.count == 2 * 4 * 6 * 3


WRONG: dict[str, tuple[Mapping[str, Array], str]] = {
    "unknown": ({**arrays(), "imag": np.zeros(1)}, r"no input is called 'imag': .* \(did you mean 'image'\?\)"),
    "missing": ({"left": arrays()["left"]}, "nothing for the inputs 'right'"),
    "shape": (
        {**arrays(), "image": np.zeros((1, 3, 4, 6), np.uint8)},
        r"have the shape \[1, 3, 4, 6\], where .* \[1, 4,",
    ),
    "type": ({**arrays(), "image": np.zeros((1, 4, 6, 3))}, "of type float64, where the source has uint8"),
    "text": ({**arrays(), "image": np.full((1, 4, 6, 3), "a")}, "of type <U1, where the source has uint8"),
    "none": (arrays(0), "no samples"),
    "range": ({**arrays(), "image": np.full((1, 4, 6, 3), 256)}, "of type int64, where the source has uint8"),
    "counts": ({**arrays(2), "left": arrays(3)["left"]}, "2 and 3 samples"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_do_not_fit(name: str) -> None:
    data, message = WRONG[name]
    with pytest.raises(VerifyError, match=message):
        layoutsolve.verify(two_inputs(), layoutsolve.convert(two_inputs()), data=data)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (0, 3, 4)])
def test_nothing_to_compare(shape: tuple[int, ...]) -> None:
    """A batch of none is no pass."""
    build = Builder()
    x, y = build.input("x", (1, 4), signature=(-1, 4)), build.tensor("y", (1, 4), signature=(-1, 4))
    build.operator("NEG", [x], [y])
    source = build.finish(y)
    conversion = layoutsolve.convert(source)
    assert layoutsolve.verify(source, conversion, data={"x": np.ones((2, 4), np.float32)}).passed
    with pytest.raises(VerifyError, match=r"nothing to compare|no samples"):
        layoutsolve.verify(source, conversion, data={"x": np.ones(shape, np.float32)})


@pytest.mark.parametrize("tensors", [False, True])
def test_inputs_are_drawn_one_sample_at_a_time(tensors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of them are in memory than are run on, and what is drawn does not depend on how many are."""
    build = Builder()
    x, y = build.input("x", (1, 4)), build.tensor("y", (1, 4))
    build.operator("NEG", [x], [y])
    source, alive, most = build.finish(y), set[int](), 0
    conversion, drawing = layoutsolve.convert(source), output_accuracy.drawn

    class Counted(np.ndarray):
        """An array that says when it is gone."""

        def __del__(self) -> None:
            alive.discard(id(self))

    def drawn(*given: Any) -> Any:
        nonlocal most
        found = drawing(*given).view(Counted)
        alive.add(id(found))
        most = max(most, len(alive))
        return found

    expected = layoutsolve.verify(source, conversion, samples=20, tensors=tensors)
    monkeypatch.setattr(output_accuracy, "drawn", drawn)
    assert str(layoutsolve.verify(source, conversion, samples=20, tensors=tensors)) == str(expected)
    assert 1 <= most <= 3


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is written where it can be compared, and only there."""
    source, output = tmp_path / "model.tflite", tmp_path / "out.onnx"
    source.write_bytes(two_inputs())
    (tmp_path / "data").mkdir()
    call = [str(source), "-o", str(output)]
    for data, message in (
        (tmp_path / "data", "has no .npz and no .npy file"),
        (source, "no .npz"),
        ("none", "cannot read"),
    ):
        assert main([*call, "--verify-data", str(data)]) == 2
        assert message in capsys.readouterr().err and not output.exists()
    assert main([*call, "--verify-samples", "0"]) == 2 and "at least 1" in capsys.readouterr().err
    assert main([*call, "--verify-samples", "2", "--verify-data", "x"]) == 2 and not output.exists()
    np.savez(tmp_path / "data" / "a.npz", **arrays())  # type: ignore[arg-type]
    assert main([*call, "--verify-data", str(tmp_path / "data"), "--verify-tensors"]) == 0
    told = capsys.readouterr().out
    assert "pass sum (float): maximum error 0 of the range (threshold 0.0001)" in told
    assert "pass 2 intermediate tensors" in told


@pytest.mark.parametrize("package", ["onnxruntime", "ai_edge_litert"])
def test_nothing_is_written_where_a_runtime_is_missing(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else original(name))
    (tmp_path / "model.tflite").write_bytes(two_inputs())
    assert main([str(tmp_path / "model.tflite"), "--verify"]) == 2
    assert (
        f"'{package}' is missing; install the runtimes with: pip install 'layoutsolve[verify]'"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "model.onnx").exists()


def as_signature(source: bytes) -> bytes:
    """The model with its main subgraph in the last place, where a signature finds it."""
    last = len(schema.ModelT.InitFromPackedBuf(source, 0).subgraphs) - 1
    model = schema.ModelT.InitFromPackedBuf(exchanged(source, last), 0)
    moved, places = model.subgraphs[last], ("inputs", "outputs")
    ends = {
        place: [
            schema.TensorMapT(f"{place}{number}".encode(), index) for number, index in enumerate(getattr(moved, place))
        ]
        for place in places
    }
    model.signatureDefs = [schema.SignatureDefT(**ends, signatureKey=b"last", subgraphIndex=last)]
    return packed(model, exchanged(source, last))


@cache
def with_subgraphs() -> list[int]:
    """Seeds of networks that have branches or loops."""
    return [seed for seed in range(60) if len(schema.ModelT.InitFromPackedBuf(network(seed).source, 0).subgraphs) > 1]


@pytest.mark.parametrize("number", range(2))
def test_signatures(number: int) -> None:
    """A subgraph that a signature names is compared as a main one is, with the branches and loops in it."""
    made = network(with_subgraphs()[number])
    source = as_signature(made.source)
    given = made.feeds(1)
    again = exchanged(source, subgraph_of(source, "last"))
    for one, other in zip(litert().run(made.source, given).results, litert().run(again, given).results, strict=True):
        np.testing.assert_array_equal(one, other)
    found = layoutsolve.verify(source, layoutsolve.convert(source, signature="last"), tensors=True)
    assert found.passed and found.inspection is not None and found.inspection.compared


@pytest.mark.members(2)
@pytest.mark.parametrize("case", [case for case in CASES if "LSTM-float32" in case.name], ids=lambda case: case.name)
def test_states(case: object) -> None:
    """What a run leaves is compared, and so is what later runs make of it."""
    source = case.make().source  # type: ignore[attr-defined]
    conversion = layoutsolve.convert(source)
    found = layoutsolve.verify(source, conversion, tensors=True, samples=2)
    assert found.passed and (found.samples, found.steps) == (2, 3)
    made = onnx.ModelProto()
    made.CopyFrom(conversion.model)
    (first, *_) = following_of({prop.key: prop.value for prop in made.metadata_props}).values()
    for node in made.graph.node:
        if first in node.output:
            node.op_type = "Neg"
    broken = replace(conversion, model=made)
    assert not any(layoutsolve.verify(source, broken, steps=steps).passed for steps in (1, None))


def saved(tmp_path: Path, kind: str) -> Path:
    """A file that is not what its name says."""
    path = tmp_path / ("data.npy" if kind in ("fifo", "claim") else "data.npz")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "claim":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 1000), }".ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    elif kind == "bomb":
        np.savez_compressed(path, image=np.zeros((1 << 27,), np.uint8))
    else:
        np.savez(path, image=np.zeros(8, np.uint8))
        data = bytearray(path.read_bytes())
        for mark, place, bits in ((b"PK\x03\x04", 6, 1), (b"PK\x01\x02", 8, 1)) if kind == "encrypted" else ():
            data[data.index(mark) + place] |= bits
        for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)) if kind == "method" else ():
            data[data.index(mark) + place] = 77
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("fifo", "is no file"),
        ("claim", "numeric arrays"),
        ("bomb", "unpack to more than"),
        ("encrypted", "numeric arrays"),
        ("method", "numeric arrays"),
    ],
)
def test_files_of_data_that_are_none(kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match=message):
        layoutsolve.verify(two_inputs(), layoutsolve.convert(two_inputs()), data=saved(tmp_path, kind))


def test_numbers_beyond_a_type_are_infinite() -> None:
    builder = Builder()
    x, y = builder.input("x", (2,)), builder.tensor("y", (2,))
    builder.operator("ABS", [x], [y])
    source = builder.finish(y)
    found = layoutsolve.verify(source, layoutsolve.convert(source), data={"x": np.array([1e300, -1.0])})
    assert found.passed


@pytest.mark.parametrize("size", [4, -1])
@pytest.mark.parametrize("moved", [False, True])
def test_data_of_another_size_than_the_source_states(size: int, moved: bool) -> None:
    """A batch that the conversion was given is what the data have to fit."""
    net = Network()
    source = net.model(net.conv(net.input(1, 6, 6, 2), 4, 3)).source
    name = parse(source).subgraphs[0].tensors[parse(source).subgraphs[0].inputs[0]].name
    inputs = "nchw" if moved else "keep"
    conversion = layoutsolve.convert(source, shapes={name: (size, 6, 6, 2)}, inputs=inputs)
    data = np.random.default_rng(0).normal(size=(4, 6, 6, 2)).astype(np.float32)
    found = layoutsolve.verify(source, conversion, data={name: data})
    assert found.passed and found.samples == 1
    if size > 0:
        with pytest.raises(VerifyError, match="where the source has"):
            layoutsolve.verify(source, conversion, data={name: data[:3]})


def test_an_archive_that_unpacks_to_as_much_as_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its arrays together, to the byte."""
    path = tmp_path / "data.npz"
    np.savez(path, first=np.zeros(8, np.uint8), second=np.zeros(3, np.float32))
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr(input_files, "_TIMES", 0)
    monkeypatch.setattr(input_files, "_SPARE", size)
    assert [sorted(each) for each in input_files.read(str(path))] == [["first", "second"]]
    monkeypatch.setattr(input_files, "_SPARE", size - 1)
    with pytest.raises(VerifyError, match="its arrays unpack to more than"):
        input_files.read(str(path))
