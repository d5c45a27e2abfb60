"""Custom operators: those that are refused, those that are passed through, and lowerings of a user's own."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from flatbuffers import flexbuffers

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import ModelError, OptionError, UnsupportedError
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.frontend.tflite.reading.flexbuffer import decode
from layoutsolve.frontend.tflite.reading.nodedef import node_def
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant

REGISTRY = every_lowering()

GUIDE = Path(__file__).parents[3] / "docs" / "custom_operators.md"


def custom(
    code: str = "Swish", options: bytes = b"", shapes: tuple[tuple[int, ...], ...] = ((1, 2, 3),), outputs: int = 1
) -> bytes:
    """A model of one custom operator whose outputs have the shape of its first input."""
    builder = Builder()
    inputs = [builder.input(f"x{at}", shape) for at, shape in enumerate(shapes)]
    results = [builder.tensor(f"y{at}", shapes[0]) for at in range(outputs)]
    builder.operator(f"CUSTOM:{code}", inputs, results, custom_options=options)
    return builder.finish(*results)


def packed(options: Any) -> bytes:
    return bytes(flexbuffers.Dumps(options))


def test_all_unknown_operators_are_listed() -> None:
    builder = Builder()
    x, y, z = builder.input("x", (4,)), builder.tensor("y", (4,)), builder.tensor("z", (4,))
    builder.operator("CUSTOM:One", [x], [y])
    builder.operator("CUSTOM:Two", [y], [z])
    with pytest.raises(UnsupportedError) as caught:
        layoutsolve.convert(builder.finish(z))
    assert [gap.operator for gap in caught.value.gaps] == ["CUSTOM:One", "CUSTOM:Two"]
    assert all("passthrough" in gap.remedy for gap in caught.value.gaps)


def test_operators_on_text_say_where_to_cut() -> None:
    builder = Builder()
    x = builder.input("text", (1,), "string")
    ids, splits = builder.tensor("ids", (4,), "int32"), builder.tensor("splits", (2,), "int32")
    builder.operator("CUSTOM:TFSentencepieceTokenizeOp", [x], [ids, splits])
    with pytest.raises(UnsupportedError, match=r"reads text; cut .* \(at 'ids' and 'splits'\)"):
        layoutsolve.convert(builder.finish(ids, splits))


def test_passthrough() -> None:
    options = {"depth": 3, "rate": 0.5, "mode": "fast", "sizes": [1, 2], "on": True, "mixed": [1, "a"]}
    conversion = layoutsolve.convert(custom(options=packed(options)), custom="passthrough")
    onnx.checker.check_model(conversion.model, full_check=True)
    (node,) = conversion.model.graph.node
    assert (node.domain, node.op_type) == ("layoutsolve.custom", "Swish")
    found = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert found.pop("custom_options") == packed(options)
    assert found == {"depth": 3, "rate": 0.5, "mode": b"fast", "sizes": [1, 2], "on": 1}
    assert [(each.domain, each.version) for each in conversion.model.opset_import] == [
        ("", 18),
        ("layoutsolve.custom", 1),
    ]


def test_passthrough_keeps_the_order_of_dimensions_and_integers() -> None:
    """Channels-first convolutions around it do not change what it reads."""
    builder = Builder()
    quant = Quant([0.5], [3])
    x = builder.input("x", (1, 4, 5, 2))
    weights, bias = builder.constant("w", np.ones((2, 3, 3, 2), np.float32)), builder.constant("b", np.zeros(2, "f"))
    middle, quantized = builder.tensor("middle", (1, 4, 5, 2)), builder.tensor("q", (1, 4, 5, 2), "uint8", quant=quant)
    result, last = builder.tensor("result", (1, 4, 5, 2), "uint8", quant=quant), builder.tensor("last", (1, 4, 5, 2))
    steps = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    builder.operator("CONV_2D", [x, weights, bias], [middle], steps)
    builder.operator("QUANTIZE", [middle], [quantized])
    builder.operator("CUSTOM:Conv", [quantized, -1], [result])
    builder.operator("DEQUANTIZE", [result], [last])
    conversion = layoutsolve.convert(builder.finish(last), custom="passthrough", outputs="nchw")
    node = next(node for node in conversion.model.graph.node if node.domain)
    known = {info.name: info for info in conversion.model.graph.value_info}
    for name in (node.input[0], node.output[0]):
        assert [dim.dim_value for dim in known[name].type.tensor_type.shape.dim] == [1, 4, 5, 2]
        assert known[name].type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_passthrough_with_dynamic_sizes() -> None:
    builder = Builder()
    x = builder.input("x", (1, 4), signature=(-1, 4))
    y = builder.tensor("y", (1, 2), signature=(-1, 2))
    builder.operator("CUSTOM:Some", [x], [y])
    conversion = layoutsolve.convert(builder.finish(y), custom="passthrough")
    (output,) = conversion.model.graph.output
    assert [dim.dim_param or dim.dim_value for dim in output.type.tensor_type.shape.dim] == ["y_0", 2]


def test_passthrough_is_certified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "model.tflite"
    source.write_bytes(custom())
    assert main([str(source)]) == 2
    assert "CUSTOM:Swish" in capsys.readouterr().err
    certificate = tmp_path / "certificate.json"
    assert main([str(source), "--custom", "passthrough", "--certify", str(certificate)]) == 0
    again = layoutsolve.Certificate.load(certificate)
    layoutsolve.check_certificate(source, source.with_suffix(".onnx"), again)


def test_passthrough_compares() -> None:
    assert {row.price.transposes for row in layoutsolve.compare(custom(), custom="passthrough")} == {0}


def test_attributes_that_are_no_text() -> None:
    """A NodeDef is bytes, and a FlexBuffer has it as a string all the same."""
    node = "\x12\x09LeakyRelu*\x0e\n\x05alpha\x12\x05%AAAA"
    options = packed(["LeakyRelu", node]).replace(b"%AAAA", b"%" + struct.pack("<f", 0.3))
    (relu,) = layoutsolve.convert(custom("FlexLeakyRelu", options)).model.graph.node
    assert relu.op_type == "LeakyRelu"
    assert relu.attribute[0].f == np.float32(0.3)


@pytest.mark.parametrize("name", ["", "Reshape", "Transpose", "Identity"])
def test_names_that_cannot_be_passed_through(name: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot be passed through"):
        layoutsolve.convert(custom(name), custom="passthrough")


def test_unknown_treatment() -> None:
    with pytest.raises(OptionError, match="'ignore'"):
        layoutsolve.convert(custom(), custom="ignore")


def test_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: None) -> None:
    """The example of the guide converts its operator."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "model.tflite").write_bytes(custom(options=packed({"beta": 2.0})))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(GUIDE), "exec"), {})
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(1, 2, 3)
    (found,) = OnnxRuntime((tmp_path / "model.onnx").read_bytes()).run({"x0": x})
    np.testing.assert_allclose(found, x / (1 + np.exp(-2 * x)), rtol=1e-5)


def test_registering_replaces(registry: None) -> None:
    @layoutsolve.register("ABS")
    def negated(call: layoutsolve.Call) -> None:
        call.write("Neg", [call.input(0)], call.input(0).shape, call.slot())

    builder = Builder()
    x, y = builder.input("x", (4,)), builder.tensor("y", (4,))
    builder.operator("ABS", [x], [y])
    assert [node.op_type for node in layoutsolve.convert(builder.finish(y)).model.graph.node] == ["Neg"]


def test_registered_gap_is_reported(registry: None) -> None:
    @layoutsolve.register("CUSTOM:Swish")
    def refused(call: layoutsolve.Call) -> None:
        raise layoutsolve.GapError("it is of no use", "do without")

    with pytest.raises(UnsupportedError, match="it is of no use; do without"):
        layoutsolve.convert(custom())


@pytest.mark.parametrize("name", ["CUSTOM:", "NOT_AN_OPERATOR", ""])
def test_registering_what_does_not_exist(name: str) -> None:
    with pytest.raises(OptionError, match="is no operator"):
        layoutsolve.register(name)


def detection(**changed: Any) -> bytes:
    options = {
        "max_detections": 3, "max_classes_per_detection": 1, "num_classes": 2, "nms_score_threshold": 0.5,
        "nms_iou_threshold": 0.5, "y_scale": 1.0, "x_scale": 1.0, "h_scale": 1.0, "w_scale": 1.0, **changed,
    }  # fmt: skip
    shapes = ((1, 4, 4), (1, 4, 3), (4, 4))
    return custom(
        "TFLite_Detection_PostProcess", packed({k: v for k, v in options.items() if v is not None}), shapes, 4
    )


def poses(shapes: Sequence[Sequence[int]] = (), **changed: Any) -> bytes:
    options = {"max_detections": 3, "score_threshold": 0.5, "stride": 16, "nms_radius": 10.0, **changed}
    sizes = [tuple(shape) for shape in shapes] or [(1, 4, 5, count) for count in (17, 34, 64)]
    return custom("PosenetDecoderOp", packed(options), sizes, len(sizes) + 1)


def ragged(
    shape: Any = -1, kinds: Sequence[str] = ("ROW_SPLITS",), default: Sequence[int] = (), computed: bool = False
) -> bytes:
    """A RaggedTensorToTensor of rows of numbers."""
    builder = Builder()
    shape = np.asarray(shape, np.int64)
    inputs = [builder.input("s", shape.shape, "int64") if computed else builder.constant("s", shape, "int64")]
    inputs += [builder.input("x", (9,)), builder.input("d", tuple(default)), builder.input("p", (4,), "int64")]
    y = builder.tensor("y", (3, 3))
    options = packed({"row_partition_types": list(kinds)})
    builder.operator("CUSTOM:RaggedTensorToTensor", inputs, [y], custom_options=options)
    return builder.finish(y)


POOL = struct.pack("<6i", 2, 2, 2, 2, 2, 0)
STILL = struct.pack("<6i", 2, 0, 0, 2, 2, 0)
REFUSED = {
    "no-options": (
        custom("TFLite_Detection_PostProcess", b"", ((1, 4, 4), (1, 4, 3), (4, 4)), 4),
        "no number as its option 'max_detections'",
    ),
    "no-map": (custom("TFLite_Detection_PostProcess", packed([1]), ((1, 4, 4), (1, 4, 3), (4, 4)), 4), "no map"),
    "missing-option": (detection(max_detections=None), "'max_detections'"),
    "no-scale": (detection(x_scale=0.0), "no kernel accepts"),
    "text-for-number": (detection(num_classes="a"), "'num_classes'"),
    "fraction-for-integer": (detection(num_classes=1.5), "no integer"),
    "overlap": (detection(nms_iou_threshold=1.5), "no kernel accepts"),
    "classes": (detection(num_classes=9), "3 scores for 9 classes"),
    "computed-anchors": (detection(), "anchors are computed at run time"),
    "short-pool": (custom("MaxPoolingWithArgmax2D", b"\1\0", ((1, 4, 4, 2),), 2), "2 bytes of options"),
    "no-padding": (custom("MaxPoolingWithArgmax2D", bytes(24), ((1, 4, 4, 2),), 2), "unknown padding 0"),
    "pool-rank": (custom("MaxPoolingWithArgmax2D", POOL, ((1, 4, 4),), 2), "rank 4"),
    "pool-stride": (custom("MaxPoolingWithArgmax2D", STILL, ((1, 4, 4, 2),), 2), "below 1"),
    "unpool-shapes": (custom("MaxUnpooling2D", POOL, ((1, 4, 4, 2), (1, 4, 4, 3))), "puts"),
    "unpool-overlap": (custom("MaxUnpooling2D", struct.pack("<6i", 2, 1, 1, 2, 2, 0), ((1, 4, 4, 2),) * 2), "overlap"),
    "unpool-huge": (custom("MaxUnpooling2D", struct.pack("<6i", 2, *[1 << 20] * 4, 0), ((1, 4, 4, 2),) * 2), "grow"),
    "bias": (custom("Convolution2DTransposeBias", POOL, ((1, 4, 4, 2), (3, 2, 2, 2), (2,))), "convolves"),
    "landmarks": (
        custom("Landmarks2TransformMatrix", packed({
            "subset_idxs": [0, 9], "left_rotation_idx": 0, "right_rotation_idx": 1, "target_rotation_radians": 0.0,
            "output_height": 2, "output_width": 2, "scale_x": 1.0, "scale_y": 1.0,
        }), ((1, 5, 3),)), "does not have"),
    "matrix": (custom("TransformLandmarks", b"", ((1, 5, 3), (1, 3, 3))), "matrix of 4 by 4"),
    "sampling": (custom("TransformTensor", packed({"mode": "nearest"}), ((1, 5, 5, 3), (1, 4, 4))), "bilinearly"),
    "sampling-size": (custom("TransformTensor", packed({"output_size": [3]}), ((1, 5, 5, 3), (1, 4, 4))), "1 numbers"),
    "poses-none": (poses(max_detections=0), "no kernel accepts"),
    "poses-stride": (poses(stride=0), "no kernel accepts"),
    "poses-score": (poses(score_threshold=float("nan")), "no kernel accepts"),
    "poses-many": (poses(max_detections=5000), "detects up to 5000 poses"),
    "poses-shapes": (poses([(1, 4, 5, 17), (1, 4, 5, 34), (1, 4, 5, 32)]), "decodes"),
    "poses-masks": (poses([(1, 9, 9, 17), (1, 9, 9, 34), (1, 9, 9, 64), (1, 9, 9, 34)]), "decodes"),
    "poses-large": (poses([(1, 900, 900, 17), (1, 900, 900, 34), (1, 900, 900, 64)]), "900 by 900 cells"),
    "ragged-kind": (ragged(kinds=["VALUE_ROWIDS"]), "partition them by ROW_SPLITS"),
    "ragged-kinds": (ragged(kinds=[]), "1 partitions of the kinds"),
    "ragged-default": (ragged(default=[9]), "no single number"),
    "ragged-rank": (ragged([2, 3, 4]), "3 dimensions for 1 partitions"),
    "ragged-computed": (ragged([2, 3], computed=True), "shape is computed at run time"),
    "flex-pair": (custom("FlexAbs", packed({"a": 1})), "no pair"),
    "flex-name": (custom("FlexAbs", packed(["Abs", "\x12\x03Neg"])), "the operator 'Neg'"),
    "flex-bytes": (custom("FlexAbs", packed(["Abs", "\x12\x7f"])), "no NodeDef"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, message = REFUSED[case]
    with pytest.raises((ModelError, UnsupportedError), match=message):
        layoutsolve.convert(source)


def test_damaged_flexbuffers_are_errors() -> None:
    whole = packed({"a": [1, 2, 3], "b": {"c": "text", "d": [1.5, "x"]}, "e": b"blob"})
    random = np.random.default_rng(0)
    for _ in range(3000):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] = random.integers(0, 256)
        for read in (decode, node_def):
            try:
                read(bytes(damaged))
            except ModelError:
                continue
    for size in range(len(whole)):
        with pytest.raises(ModelError):
            decode(whole[:size] + b"\xff\xff")


def test_shared_vectors_do_not_grow() -> None:
    """Each vector holds the one before it twice: few bytes, endless content."""
    raw, before = bytearray([1, 5, 1 << 2]), 1
    for _ in range(30):
        start = len(raw) + 1
        raw += bytes([2, start - before, start + 1 - before, 10 << 2, 10 << 2])
        before = start
    raw += bytes([len(raw) - before, 10 << 2, 1])
    with pytest.raises(ModelError, match="too many"):
        decode(bytes(raw))


def number(value: int) -> bytes:
    """A whole number as protocol buffers have it: seven bits in a byte, negative ones as 64 bits."""
    value &= (1 << 64) - 1
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def part(place: int, content: bytes) -> bytes:
    """A field that has a length."""
    return number(place << 3 | 2) + number(len(content)) + content


def test_options_of_any_size_are_read() -> None:
    """Numbers and texts of one byte and of many, alone and in lists, packed or one by one."""
    sizes = [0, 1, 127, 128, 300, 1 << 14, 1 << 31, (1 << 63) - 1]
    integers = (*sizes, *(-each for each in sizes[1:]))
    runs = b"".join(map(number, integers)), b"".join(number(3 << 3) + number(each) for each in integers)
    contents: dict[str, tuple[bytes, object]] = {
        **{f"number {each}": (number(3 << 3) + number(each), each) for each in integers},
        **{f"text {size}": (part(2, b"a" * size), "a" * size) for size in (1, 127, 128, 20_000)},
        "packed": (part(1, part(3, runs[0])), integers),
        "one by one": (part(1, runs[1]), integers),
        "texts": (part(1, part(2, b"a" * 200) + part(2, b"b")), ("a" * 200, "b")),
    }
    written = [part(5, part(1, key.encode()) + part(2, content)) for key, (content, _) in contents.items()]
    operator, attributes = node_def(part(1, b"node") + part(2, b"Operator") + b"".join(written))
    assert (operator, attributes) == ("Operator", {key: value for key, (_, value) in contents.items()})
