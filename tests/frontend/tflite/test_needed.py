"""Dead operators are not judged, static inputs take other sizes, and einsums of open sizes keep their shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import ConversionError, ModelError, OptionError, UnsupportedError
from layoutsolve.ir.graph import Size
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert, same


def with_dead_branch(length: int, read: bool) -> bytes:
    """RELU beside a chain of operators that have no kernel, whose end is an output of the model if it is ``read``."""
    builder = Builder()
    x, y = builder.input("x", (1, 4)), builder.tensor("y", (1, 4))
    last = x
    for at in range(length):
        dead = builder.tensor(f"dead{at}", (1, 4))
        builder.operator("CUSTOM:Unknown" if at % 2 == 0 else "NEG", [last], [dead])
        last = dead
    builder.operator("RELU", [x], [y])
    return builder.finish(*((y, last) if read else (y,)))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_dead_operators_are_not_judged(length: int) -> None:
    found = layoutsolve.convert(with_dead_branch(length, read=False))
    assert [node.op for node in found.graph.nodes] == ["Relu"]
    with pytest.raises(UnsupportedError, match="CUSTOM:Unknown"):
        layoutsolve.convert(with_dead_branch(length, read=True))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("edgetpu-custom-op", "Edge TPU compiler.*_edgetpu.tflite"),
        ("ethos-u", "Vela made for an Arm Ethos-U.*_vela.tflite"),
        ("DISPATCH_OP", "LiteRT's compiler plugin.*from before that"),
    ],
)
def test_what_compilers_wrote_is_named(code: str, message: str) -> None:
    builder = Builder()
    x, y = builder.input("x", (1, 4)), builder.tensor("y", (1, 4))
    builder.operator(f"CUSTOM:{code}", [x], [y], custom_options=b"\x01\x02")
    with pytest.raises(UnsupportedError, match=message):
        layoutsolve.convert(builder.finish(y))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_compressed_weights_are_named(dtype: str) -> None:
    builder = Builder()
    x, y = builder.input("x", (1, 8)), builder.tensor("y", (1, 4))
    weights = builder.constant("w", np.ones((4, 8), np.int8), dtype, Quant([0.1], [0]))
    builder.operator("FULLY_CONNECTED", [x, weights, -1], [y], {})
    builder.metadata("COMPRESSION_METADATA", b"\x01")
    builder.model.buffers[builder.subgraph.tensors[weights].buffer].bytes = b"\x00" * 5
    with pytest.raises(ModelError, match=r"compressed for TensorFlow Lite Micro.*from before"):
        layoutsolve.convert(builder.finish(y))


@pytest.mark.members(6)
@pytest.mark.parametrize("quant", ["qdq", "exact"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_quantize_between_equal_steps_goes(quant: str, dtype: str, steps: int) -> None:
    """However many of them follow each other."""
    if quant == "exact" and dtype == "int16":
        return  # which is refused
    builder, parameters = Builder(), Quant([0.05], [0 if dtype == "int16" else 3])
    last = builder.input("x", (2, 4), dtype, quant=parameters)
    for at in range(steps):
        made = builder.tensor(f"y{at}", (2, 4), dtype, quant=parameters)
        builder.operator("QUANTIZE", [last], [made])
        last = made
    out = builder.tensor("out", (4, 2), dtype, quant=parameters)
    builder.operator("TRANSPOSE", [last, builder.constant("perm", np.array([1, 0], np.int32))], [out], {})
    source = builder.finish(out)
    found = layoutsolve.convert(source, quant=quant)
    assert [node.op_type for node in found.model.graph.node] == ["Transpose"]
    assert layoutsolve.verify(source, found).passed


@pytest.mark.parametrize("reads", [True, False])
def test_what_leaves_a_state_is_not_dead(reads: bool) -> None:
    """A variable is assigned by an operator without outputs, and the operators that it reads are needed."""
    builder = Builder()
    x, handle = builder.input("x", (2, 3)), builder.tensor("handle", (), "resource")
    read, total, out = (builder.tensor(name, (2, 3)) for name in ("read", "total", "out"))
    builder.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "sum"})
    builder.operator("READ_VARIABLE", [handle], [read])
    builder.operator("ADD", [read, x], [total], {})
    builder.operator("ASSIGN_VARIABLE", [handle, total], [])
    builder.operator("NEG", [read if reads else x], [out])
    ops = [node.op for node in layoutsolve.convert(builder.finish(out)).graph.nodes]
    assert {"State", "Add", "Neg"} <= set(ops)


def classifier(shape: tuple[int, ...]) -> bytes:
    """A convolution of a static image, its average, and a view of it of a constant ``shape``."""
    builder, random = Builder(), np.random.default_rng(0)
    x, image, mean, out = (
        builder.input("x", (1, 6, 6, 3)),
        *(builder.tensor(name, sizes) for name, sizes in (("y", (1, 4, 4, 2)), ("mean", (1, 2)), ("out", (1, 2)))),
    )
    weights = builder.constant("w", random.normal(size=(2, 3, 3, 3)).astype(np.float32))
    bias = builder.constant("b", np.ones(2, np.float32))
    builder.operator("CONV_2D", [x, weights, bias], [image], {"padding": "VALID", "stride_h": 1, "stride_w": 1})
    builder.operator("MEAN", [image, builder.constant("axes", np.array([1, 2], np.int32))], [mean], {})
    builder.operator("RESHAPE", [mean, builder.constant("shape", np.array(shape, np.int32))], [out], {})
    return builder.finish(out)


@pytest.mark.parametrize("given", [(4, 6, 6, 3), (1, 9, 5, 3), (-1, 6, 6, 3), (-1, -1, 7, 3), (2, -1, -1, 3)])
def test_static_inputs_take_other_sizes(given: tuple[int, ...]) -> None:
    """As LiteRT's resized inputs do; what stays open is open in the ONNX model."""
    source = classifier((-1, 2))
    found = layoutsolve.convert(source, shapes={"x": given})
    assert [isinstance(dim, Size) for dim in found.graph.values["x"].shape] == [size == -1 for size in given]
    assert layoutsolve.verify(source, found).passed
    sizes = [8 if size == -1 else size for size in given]
    data = np.random.default_rng(1).normal(size=sizes).astype(np.float32)
    results = OnnxRuntime(found.model.SerializeToString(), threads=1).run({"x": data})
    np.testing.assert_allclose(results[0], litert().run(source, [data]).results[0], atol=1e-5)


@pytest.mark.parametrize("shape", [(1, -1), (-1, 2)])
@pytest.mark.parametrize("batch", [-1, 4])
def test_a_batch_that_is_merged_is_told(
    shape: tuple[int, ...], batch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tflite").write_bytes(classifier(shape))
    assert main([str(tmp_path / "x.tflite"), "--shape", f"x={batch},6,6,3", "--dry-run"]) == 0
    told = "out has the batch of x merged into another dimension" in capsys.readouterr().out
    assert told == (shape[0] == 1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((1, 6, 6), OptionError, "does not fit input 'x'"),
        ((1, 6, 6, 4), OptionError, r"shape \[1, 6, 6, 4\] does not fit input 'x', which has \[1, 6, 6, 3\]: CONV_2D"),
        ((4, 6, 6, 3), OptionError, "cannot be reshaped"),
        ((-1, 6, 6, 3), UnsupportedError, "fits one size only of an input whose size is to be open"),
    ],
)
def test_sizes_that_the_model_does_not_take(given: tuple[int, ...], error: type[ConversionError], message: str) -> None:
    with pytest.raises(error, match=message):
        layoutsolve.convert(classifier((1, 2)), shapes={"x": given})


@pytest.mark.parametrize("operator", ["PROD", "SUM", "MAX", "MIN"])
@pytest.mark.parametrize("ids", [[0, 1, 2, 2], [0, 0, 1, 2], [1, 1, 0, 2], [0, -1, 1, 1], [0, 1, 3, 3]])
@pytest.mark.parametrize("opened", [(), (0,), (0, 1)])
def test_segments_of_sizes(operator: str, ids: list[int], opened: tuple[int, ...]) -> None:
    """Einsums join dimensions by a product over segments of a shape; the result fills a tensor of that shape."""
    builder, shape = Builder(), (2, 3, 2, 2)
    x = builder.input("x", shape, signature=[-1 if axis in opened else size for axis, size in enumerate(shape)])
    sizes, joined = builder.tensor("sizes", (4,), "int32"), builder.tensor("joined", (max(ids) + 1,), "int32")
    if operator != "PROD" and len(set(ids) - {-1}) <= max(ids):
        pytest.skip("an empty segment holds a number that LiteRT takes for no size")
    out = builder.tensor("out", (1,) * (max(ids) + 1), signature=[-1] * (max(ids) + 1))
    builder.operator("SHAPE", [x], [sizes], {"out_type": "int32"})
    given = [builder.constant("ids", np.array(ids, np.int32)), builder.constant("n", np.array(max(ids) + 1, np.int32))]
    builder.operator(f"UNSORTED_SEGMENT_{operator}", [sizes, *given], [joined])
    builder.operator("FILL", [joined, builder.constant("one", np.array(1, np.float32))], [out])
    source = builder.finish(out)
    same(source, [np.ones(shape, np.float32)])
    if opened == (0, 1):
        same(source, [np.ones((5, 4, 2, 2), np.float32)])
