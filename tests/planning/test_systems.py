"""What each layout system comes to on networks that its users know: conversions, crossings, weights, and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

import layoutsolve
from experiments.compare.plans import FAR, apart, planned
from experiments.make.demo import mobilenet
from layoutsolve.frontend import Model, parse
from layoutsolve.ir.graph import Array
from layoutsolve.solver.targets.target_file import SYSTEMS
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.networks import Network, Quantized, unet
from tests.planning.system_networks import blocks, image, inception, inception_v3, planes, ssd, summed
from tests.random_models import network
from tests.random_onnx import Writer

FORMS = [name for name in SYSTEMS if name != "onnx"]
NHWC = {"Conv": ["NHWC", "OHWI"]}
NCHW = {"Conv": ["NCHW", "OIHW"]}
OFFLOADED = """
name = "arm"
extends = "onnx"

[backends.acl]
crossing = 1

[[forms]]
operators = ["Conv"]
backend = "acl"
data = "NHWC"
kernel = "OHWI"
match = { kernel = ["3x3"], grouped = false }

[[forms]]
operators = ["Clip", "Relu"]
policy = "follow"
"""
"""Convolutions of nine pixels for Arm's library, and the rest for a compiler that takes planes."""


def transposes(model: onnx.ModelProto) -> int:
    """Those outside of functions."""
    return sum(node.op_type == "Transpose" for node in model.graph.node)


def run(model: onnx.ModelProto, *inputs: Array) -> list[Array]:
    """What a model gives, without any optimisation."""
    runtime = OnnxRuntime(model.SerializeToString(), level="none")
    names = [name for name, _, _ in runtime.inputs]
    return runtime.run(dict(zip(names, inputs, strict=True)))


def same(source: onnx.ModelProto, made: onnx.ModelProto, *inputs: Array) -> None:
    for one, other in zip(run(source, *inputs), run(made, *inputs), strict=True):
        assert apart(one, other) < FAR


def pixels(writer: Writer, x: str, channels: int) -> str:
    """The same of one that is channels-last, as converters write it."""
    made = planes(writer, writer.transpose(x, (0, 3, 1, 2)), channels)
    return writer.transpose(made, (0, 2, 3, 1))


def test_conv_sum_conv_sum() -> None:
    """TVM's example: 4 Transposes become one, sums go over axis 1, and once more changes nothing."""
    writer = Writer(0)
    x = writer.input(2, 10, 12, 8)
    y = summed(writer, pixels(writer, summed(writer, pixels(writer, x, 8)), 8))
    source = writer.model(y)
    made = layoutsolve.convert(source.SerializeToString(), target="onnx")
    assert (transposes(source), transposes(made.model), made.assignment.status) == (4, 1, "optimal")
    constants = {each.name: numpy_helper.to_array(each).tolist() for each in made.model.graph.initializer}
    axes = [constants[node.input[1]] for node in made.model.graph.node if node.op_type == "ReduceSum"]
    assert axes == [[1], [1]]
    same(source, made.model, image(2, 10, 12, 8))
    again = layoutsolve.convert(made.model.SerializeToString(), target="onnx")
    assert [node.op_type for node in again.model.graph.node] == [node.op_type for node in made.model.graph.node]


def convolutions() -> onnx.ModelProto:
    writer = Writer(0)
    x = planes(writer, writer.input(2, 8, 10, 12), 8)
    return writer.model(planes(writer, writer.op("Relu", x, shape=writer.shapes[x]), 8))


def test_planes_to_pixels() -> None:
    """Two conversions where the boundary is restored, none where it is free; there and back again is none."""
    source = convolutions()
    restored = layoutsolve.convert_layout(source, NHWC)
    free = layoutsolve.convert_layout(source, NHWC, inputs="free", outputs="free")
    assert [transposes(each.model) for each in (restored, free)] == [2, 0]
    assert all(each.assignment.status == "optimal" for each in (restored, free))
    assert {node.op_type for node in restored.model.graph.node if node.domain} == {"Conv_NHWC_OHWI"}
    same(source, restored.model, image(2, 8, 10, 12))
    back = layoutsolve.convert_layout(restored.model, NCHW)
    forth = layoutsolve.convert_layout(back.model, NHWC, inputs="free", outputs="free")
    assert [transposes(each.model) for each in (back, forth)] == [0, 0]
    assert [node.op_type for node in back.model.graph.node] == ["Conv", "Relu", "Conv"]
    same(source, back.model, image(2, 8, 10, 12))


def test_pixels_to_planes_of_a_source_of_tensorflow_lite() -> None:
    net = Network()
    x = net.input(1, 10, 12, 3)
    content = net.builder.finish(net.conv(net.unary("LOGISTIC", net.conv(x, 4)), 4))
    last, first = (layoutsolve.convert_layout(content, desired) for desired in (NHWC, NCHW))
    assert [transposes(each.model) for each in (last, first)] == [0, 2]
    assert all(layoutsolve.verify(content, each).passed for each in (last, first))


def test_a_callback_chooses_call_by_call() -> None:
    """The first in pixels, the second in planes: two conversions. Nothing is left for the next call."""
    seen: list[layoutsolve.LayoutCall] = []

    def alter(call: layoutsolve.LayoutCall) -> Sequence[str] | None:
        seen.append(call)
        return ["NHWC", "OHWI"] if call.name == "Conv/0" else None

    source = convolutions()
    made = layoutsolve.convert_layout(source, NCHW, callback=alter)
    assert [(call.operator, call.name, call.letters[:2]) for call in seen] == [
        ("Conv", "Conv/0", ("NCHW", "OIHW")),
        ("Conv", "Conv/2", ("NCHW", "OIHW")),
    ]
    assert [node.op_type for node in made.model.graph.node] == [
        "Transpose",
        "Conv_NHWC_OHWI",
        "Transpose",
        "Relu",
        "Conv",
    ] or [node.op_type for node in made.model.graph.node] == [
        "Transpose",
        "Conv_NHWC_OHWI",
        "Relu",
        "Transpose",
        "Conv",
    ]
    same(source, made.model, image(2, 8, 10, 12))
    assert transposes(layoutsolve.convert_layout(source, NCHW).model) == 0


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        ({"Convolution": ["NHWC"]}, r"desired\['Convolution'\]: no operator"),
        ({"Conv": []}, r"desired\['Conv'\]: give 1 to 3 texts"),
        ({"MaxPool": ["NHWC", "NHWC", "O"]}, r"give 1 to 2 texts"),
        ({"Conv": ["NHWc"]}, "'NHWc' is no order of dimensions"),
    ],
)
def test_what_is_not_desired(desired: Mapping[str, Any], message: str) -> None:
    with pytest.raises(layoutsolve.OptionError, match=message):
        layoutsolve.convert_layout(convolutions(), desired)


def failing(call: layoutsolve.LayoutCall) -> Sequence[str]:
    raise KeyError(call.operator)


@pytest.mark.parametrize("wrong", [3, "NHWC", b"NHWC", ["NHWC", 3], [None], {"NHWC"}, True, 1.5])
def test_what_is_no_layout(wrong: Any) -> None:
    """It is an error of the caller's, whether it is desired or what a callback returns."""
    source = convolutions()
    with pytest.raises(TypeError, match=r"desired\['Conv'\]"):
        layoutsolve.convert_layout(source, {"Conv": wrong})
    with pytest.raises(layoutsolve.OptionError, match=r"callback of 'Conv/0': .*what it returns"):
        layoutsolve.convert_layout(source, callback=lambda call: wrong)


def test_wrong_types() -> None:
    source = convolutions()
    for wrong in (3, "Conv", ["Conv"], {3: ["NHWC"]}, {"Conv": None}):
        with pytest.raises(TypeError, match="desired"):
            layoutsolve.convert_layout(source, wrong)  # type: ignore[arg-type]
    for wrong in (3, "alter", ["NHWC"], {}):
        with pytest.raises(TypeError, match="callback must be a function"):
            layoutsolve.convert_layout(source, callback=wrong)  # type: ignore[arg-type]
    with pytest.raises(layoutsolve.OptionError, match="callback of 'Conv/0': it failed: KeyError: 'Conv'"):
        layoutsolve.convert_layout(source, callback=failing)


def content(made: Any, net: Network) -> bytes:
    outputs = made(net)
    return net.builder.finish(*(outputs if isinstance(outputs, list) else [outputs]))


def checked(source: bytes) -> list[layoutsolve.Conversion]:
    """For several targets: one conversion for planes at most, and none where images stay as they are."""
    made = {}
    for target in ("onnx", "tvm-nchw", "tvm-nhwc", "litert"):
        made[target] = layoutsolve.convert(source, target=target)
        assert made[target].assignment.status == "optimal"
        assert layoutsolve.verify(source, made[target]).passed
    counts = {target: transposes(found.model) for target, found in made.items()}
    assert counts == {"onnx": 1, "tvm-nchw": 1, "tvm-nhwc": 0, "litert": 0}
    return list(made.values())


def test_inception() -> None:
    checked(content(inception, Network()))


@pytest.mark.members(1)
@pytest.mark.parametrize("net", [Network, Quantized])
def test_inception_v3(net: type[Network]) -> None:
    """The same of InceptionV3, with factorised windows, branches that part again and branches of pools."""
    source = content(inception_v3, net())
    for found in checked(source):
        assert sum("Conv" in node.op_type for node in found.model.graph.node) == 94
    last = layoutsolve.convert_layout(source, {**NHWC, "MaxPool": ["NHWC"], "AveragePool": ["NHWC"]})
    assert transposes(last.model) == 0


def test_blocks_of_channels() -> None:
    """Nothing is moved inside: the first convolution writes blocks, and the result is put together at the end."""
    source = blocks()
    made = layoutsolve.convert(source.SerializeToString(), target="nchw16c")
    assert made.assignment.status == "optimal" and made.price.hidden == 0
    called = [node.op_type for node in made.model.graph.node]
    assert called.index("Conv_NCHW16c_OIHW16o") > called.index("Concat")
    assert transposes(made.model) == 1 and called[-2:] in (["Transpose", "Reshape"], ["Reshape", "Transpose"])
    assert called.count("Conv_NCHW16c_OIHW16i16o") == 3 and "MaxPool_NCHW16c" in called
    assert called[0] == "Conv_NCHW_OIHW16o_NCHW16c"
    same(source, made.model, image(2, 3, 16, 16))
    free = layoutsolve.convert(source.SerializeToString(), target="nchw16c", outputs="free")
    assert transposes(free.model) <= 1


def test_channels_that_are_no_blocks() -> None:
    writer = Writer(0)
    source = writer.model(planes(writer, writer.input(2, 3, 14, 14), 4))
    made = layoutsolve.convert(source.SerializeToString(), target="nchw16c")
    assert [node.op_type for node in made.model.graph.node] == ["Conv"]


@pytest.mark.members(1)
@pytest.mark.parametrize("target", FORMS)
def test_bytes_are_the_same(target: str) -> None:
    """Quantized networks, per channel too, give the very bytes of the model in which nothing is chosen."""
    for source in (mobilenet(), content(unet, Quantized()), content(ssd, Quantized())):
        for found in planned("network", source, [target]):
            assert (found.status, found.distance, found.wrong) == ("optimal", 0.0, "")


def arm(source: bytes, folder: Path) -> tuple[layoutsolve.Conversion, layoutsolve.Plan]:
    path = folder / "arm.toml"
    path.write_text(OFFLOADED)
    found = layoutsolve.convert(source, target=path)
    assert found.assignment.status == "optimal" and layoutsolve.verify(source, found).passed
    certificate = layoutsolve.certify(source, found)
    again = layoutsolve.check_certificate(source, found.content("model.onnx"), certificate, target=path)
    assert again.tiers[0].bound == found.price.transposes
    return found, layoutsolve.plan(source, found)


@pytest.mark.parametrize(
    ("made", "net", "conversions", "crossings"),
    [
        (inception, Network, 1, 14),
        (unet, Network, 4, 10),
        (ssd, Quantized, 0, 7),
        (None, None, 1, 2),
    ],
)
def test_offloaded_convolutions(made: Any, net: Any, conversions: int, crossings: int, tmp_path: Path) -> None:
    """Arm's library gets the bytes of weights as the file has them, and every crossing is listed."""
    source = mobilenet() if made is None else content(made, net())
    found, plan = arm(source, tmp_path)
    offloaded = {each["id"] for each in plan.facts["operators"] if each.get("backend") == "acl"}
    kernels = [each for each in plan.facts["constants"] if each["operator"] in offloaded and each["port"] == 1]
    assert kernels and all(each["unchanged"] for each in kernels)
    parsed = parse(source)
    assert isinstance(parsed, Model)
    bytes_of = {each.name: each.data.tobytes() for each in parsed.subgraphs[0].tensors if each.data is not None}
    stored = {numpy_helper.to_array(each).tobytes() for each in found.model.graph.initializer}
    assert all(bytes_of[each["source"]] in stored for each in kernels)
    assert found.crossings is not None and len(found.crossings) == len(plan.facts["crossings"])
    told = {(each["variable"], each["to"]) for each in plan.facts["crossings"]}
    operators = {each["id"]: each for each in plan.facts["operators"]}
    for each in plan.facts["crossings"]:
        assert all(operators[reader].get("backend", "") == each["to"] != each["from"] for reader in each["readers"])
    assert len(told) == len(plan.facts["crossings"])
    assert (transposes(found.model), len(told)) == (conversions, crossings)


def test_offloading_is_chosen(tmp_path: Path) -> None:
    """Where the rest is slow elsewhere but crossings are dear, all is handed over but for what cannot be."""
    slow = '\n[[forms]]\noperators = ["Conv"]\ndata = "NCHW"\nkernel = "OIHW"\nprice = 4\n'
    path, source = tmp_path / "arm.toml", content(unet, Network())
    kept = []
    for crossing in (1, 4, 10):
        path.write_text(
            OFFLOADED.replace("crossing = 1", f"crossing = {crossing}").replace("[back", "choose = true\n\n[back", 1)
            + slow
        )
        found = layoutsolve.convert(source, target=path)
        assert found.assignment.status == "optimal" and layoutsolve.verify(source, found).passed
        plan = layoutsolve.plan(source, found)
        again = layoutsolve.convert_by(source, plan, target=path)
        assert again.content("model.onnx") == found.content("model.onnx") and again.price == found.price
        certificate, model = layoutsolve.certify(source, found), found.content("model.onnx")
        assert layoutsolve.check_certificate(source, model, certificate, target=path).proven
        assert found.crossings is not None
        kept.append((len(found.crossings), found.price.transposes + found.price.hidden))
    assert [count for count, _ in kept] == sorted((count for count, _ in kept), reverse=True)
    assert kept[0][0] > kept[-1][0] == 0 and kept[0][1] < kept[-1][1]


@pytest.mark.members(2)
@pytest.mark.parametrize(
    ("inputs", "floats", "quantized"), [("keep", 1, 0), ("nhwc", 1, 0), ("nchw", 0, 1), ("free", 0, 0)]
)
def test_mace(inputs: str, floats: int, quantized: int) -> None:
    """Floats run in planes, bytes in pixels; inputs are given in either, or as it is best."""
    for net, wanted in ((Network(), floats), (Quantized(), quantized)):
        x = net.input(1, 16, 16, 3)
        for channels in (8, 16):
            x = net.conv(net.depthwise(net.conv(x, channels, 1, activation="RELU6"), stride=2), channels, 1)
        source = net.builder.finish(net.dense(net.mean(x, 1, 2), 5))
        found = layoutsolve.convert(source, target="mace", inputs=inputs)
        assert (transposes(found.model), found.assignment.status) == (wanted, "optimal")
        assert layoutsolve.verify(source, found).passed


@pytest.mark.members(1)
@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int) -> None:
    """Plans for all systems run, and have the Transposes that they say."""
    found = list(planned("network", network(seed).source, FORMS))
    assert len(found) == len(FORMS)
    assert not [each for each in found if each.wrong]


def test_the_worked_example(tmp_path: Path) -> None:
    """The target that the documentation makes is one, and does what is said of it."""
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
    (text,) = (block for block in page.split("```toml\n")[1:] if block.startswith('name = "npu"'))
    path = tmp_path / "npu.toml"
    path.write_text(text.split("```")[0])
    writer = Writer(0)
    x = planes(writer, planes(writer, writer.input(2, 3, 8, 8), 16), 16)
    source = writer.model(planes(writer, x, 12, kernel=1))
    made = layoutsolve.convert(source.SerializeToString(), target=path)
    called = [node.op_type for node in made.model.graph.node if "Conv" in node.op_type]
    assert called == ["Conv_NCHW_OIHW8o_NCHW8c", "Conv_NCHW8c_OIHW8i8o", "Conv"] and made.price.hidden == 1
    same(source, made.model, image(2, 3, 8, 8))
