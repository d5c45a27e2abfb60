"""TensorFlow Lite to TensorFlow Lite, directly and by way of ONNX."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from experiments.fuzz.tflite_round_trip import judged
from experiments.make import demo
from experiments.make.hard_networks import attended, heads_of, joined_heads
from layoutsolve.cli.command_line import main
from layoutsolve.emit.tflite.copies import with_states
from layoutsolve.emit.tflite.sharing import VIEWS
from layoutsolve.errors import CertificateError, OptionError, PlanError, UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from tests.builder import Builder, Quant
from tests.frontend.tflite.test_custom import POOL
from tests.networks import Network
from tests.random_models import network
from tests.truth import litert

RIGHT = ("right", "kept", "refused", "source refused")

PRODUCTS = ("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
"""Operators that may be written as each other: a convolution of one pixel is a product of matrices."""

ON_BYTES = (
    "ADD",
    "AVERAGE_POOL_2D",
    "HARD_SWISH",
    "LEAKY_RELU",
    "LOGISTIC",
    "MAX_POOL_2D",
    "MEAN",
    "MUL",
    "SUB",
    "TANH",
)
"""Operators whose kernels on bytes are written again."""


@pytest.mark.members(4)
@pytest.mark.parametrize("seed", [*range(30000, 30030), 52095, 61020])
def test_random_network(seed: int) -> None:
    _, verdicts = judged(seed)
    assert all(verdict.split("|")[0] in RIGHT for verdict in verdicts.values()), verdicts


def computing(data: bytes) -> Counter[str]:
    """The operators of a model, by name, that compute with bytes that they read; products are one."""
    found: Counter[str] = Counter()
    for subgraph in parse(data).subgraphs:
        for operator in subgraph.operators:
            read = [subgraph.tensors[index] for index in (*operator.inputs, *operator.outputs) if index >= 0]
            if any(each.dtype in ("int8", "uint8") and each.quant is not None for each in read):
                found["product" if operator.name in PRODUCTS else operator.name] += 1
    return found


@pytest.mark.parametrize(("first", "target"), [(31000, "portable"), (31030, "ort-cpu")])
def test_bytes_stay_bytes_by_way_of_onnx(first: int, target: str) -> None:
    """Of networks on bytes, products and others that have kernels on these are such again."""
    compared = 0
    for seed in range(first, first + 15):
        made = network(seed)
        if made.kind not in ("int8", "uint8"):
            continue
        try:
            between = layoutsolve.convert(made.source, target=target).model
            written = layoutsolve.convert(between, to="tflite").content("")
        except UnsupportedError:
            continue
        before, after = computing(made.source), computing(written)
        compared += 1
        lost = {name: before[name] - after[name] for name in ("product", *ON_BYTES) if before[name] > after[name]}
        assert sum(lost.values()) <= 1, (seed, lost)
    assert compared > 2


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_a_quantized_network_comes_back(target: str) -> None:
    """The same operators on the same weights, and the result within a step."""
    source = demo.mobilenet()
    found = layoutsolve.convert(layoutsolve.convert(source, target=target).model, to="tflite")
    before, after = (Counter(each.name for each in parse(data).subgraphs[0].operators) for data in (source, found.data))
    assert before - after == Counter() and sum((after - before).values()) <= 2 and found.size < 1.02 * len(source)
    image = np.random.default_rng(1).integers(-128, 128, (1, 128, 128, 3)).astype(np.int8)
    one, other = (litert().run(data, [image]).results[0].astype(int) for data in (source, found.data))
    assert np.abs(one - other).max() <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("keeps", [True, False])
def test_means_over_pixels_are_the_same_integers(dtype: str, keeps: bool) -> None:
    """LiteRT rounds a mean over height and width otherwise than others: by up to three quarters of a step."""
    random = np.random.default_rng([len(dtype), keeps])
    for _ in range(8):
        low, zero = np.iinfo(dtype).min, int(random.integers(20, 90))
        steps = [Quant((float(random.uniform(0.003, 0.02)),), (low + zero,)) for _ in range(2)]
        shape = (int(random.integers(1, 3)), *map(int, random.integers(3, 8, 2)), int(random.integers(5, 20)))
        builder = Builder()
        x = builder.input("x", shape, dtype, quant=steps[0])
        y = builder.tensor("y", (shape[0], 1, 1, shape[3]) if keeps else (shape[0], shape[3]), dtype, quant=steps[1])
        axes = builder.constant("axes", np.array([1, 2], np.int32))
        builder.operator("MEAN", [x, axes], [y], {"keep_dims": keeps})
        source = builder.finish(y)
        written = layoutsolve.convert(layoutsolve.convert(source).model, to="tflite").content("")
        data = (low + random.integers(zero - 20, zero + 60, shape)).astype(dtype)
        one, other = (litert().run(each, [data]).results[0] for each in (source, written))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_slopes_are_what_they_were(dtype: str) -> None:
    """In ONNX they are others, which give LiteRT's integers there."""
    random, same = np.random.default_rng(len(dtype)), 0
    for slope in (0.01, 0.1, 0.2, 0.3) * 4:
        low, first = np.iinfo(dtype).min, float(random.uniform(0.01, 0.05))
        steps = [Quant((scale,), (low + 100,)) for scale in (first, first * float(random.uniform(0.5, 1.0)))]
        builder = Builder()
        x = builder.input("x", (1, 8), dtype, quant=steps[0])
        y = builder.tensor("y", (1, 8), dtype, quant=steps[1])
        builder.operator("LEAKY_RELU", [x], [y], {"alpha": slope})
        between = layoutsolve.convert(builder.finish(y)).model
        (written,) = parse(layoutsolve.convert(between, to="tflite").content("")).subgraphs[0].operators
        same += bool(np.isclose(written.options["alpha"], slope, rtol=1e-6))
    assert same == 16


def channels_first(builder: Builder) -> tuple[int, int]:
    """A convolution between Transposes, as exporters of channels-first networks write it; its input and output."""
    x = builder.input("image", (1, 3, 8, 8))
    last, kernel = builder.tensor("last", (1, 8, 8, 3)), builder.constant("kernel", np.ones((4, 3, 3, 3)), "float32")
    builder.operator("TRANSPOSE", [x, builder.constant("to_last", np.array([0, 2, 3, 1], np.int32))], [last], {})
    y, back = builder.tensor("y", (1, 8, 8, 4)), builder.tensor("back", (1, 4, 8, 8))
    bias = builder.constant("bias", np.zeros(4), "float32")
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    builder.operator("CONV_2D", [last, kernel, bias], [y], options)
    builder.operator("TRANSPOSE", [y, builder.constant("to_first", np.array([0, 3, 1, 2], np.int32))], [back], {})
    bent, again = builder.tensor("bent", (1, 4, 8, 8)), builder.tensor("again", (1, 8, 8, 4))
    builder.operator("ABS", [back], [bent], {})
    builder.operator(
        "TRANSPOSE", [bent, builder.constant("to_last_again", np.array([0, 2, 3, 1], np.int32))], [again], {}
    )
    return x, again


def test_transposes_between_operators_go() -> None:
    builder = Builder()
    _, again = channels_first(builder)
    source = builder.finish(again)
    found = layoutsolve.convert(source, to="tflite")
    assert (found.before.transposes, found.moves.transposes, found.kept) == (3, 1, "")
    assert found.report["transposes"] == 1 and found.report["format"] == "tflite"
    assert found.report["operators"] == len(parse(found.content("")).subgraphs[0].operators) == 3
    assert layoutsolve.verify(source, found).passed
    assert found.provenance.options == {"to": "tflite"} and "--format=tflite" in found.provenance.command
    moved = layoutsolve.convert(source, to="tflite", inputs={"image": ("NCHW", "NHWC")})
    assert moved.moves.transposes == 0 and layoutsolve.verify(source, moved).passed
    assert next(iter(moved.ports(inputs=True).values())) == "float32[1,8,8,3]"


def test_what_a_model_says_of_itself_stays() -> None:
    builder = Builder()
    x, again = channels_first(builder)
    builder.signature({"in": x}, {"out": again}, "main")
    source = builder.finish(again)
    found = parse(layoutsolve.convert(source, to="tflite").content(""))
    before = parse(source)
    (one,), (other,) = before.signatures, found.signatures
    assert (one.key, [*one.inputs], [*one.outputs]) == (other.key, [*other.inputs], [*other.outputs])
    names = [
        [subgraph.tensors[index].name for index in subgraph.inputs + subgraph.outputs]
        for subgraph in (before.subgraphs[0], found.subgraphs[0])
    ]
    assert names[0] == names[1] and found.description == before.description
    assert set(before.metadata) <= set(found.metadata)


def attention(seed: int) -> bytes:
    """Layers of attention whose queries, keys and values are one product, in one of two orders of axes."""
    net, random = Network(), np.random.default_rng(seed)
    heads, width, tokens = (int(random.choice(sizes)) for sizes in ((2, 3), (2, 4), (4, 9)))
    channels, first = heads * width, bool(random.integers(2))
    x = net.input(1, channels, tokens) if first else net.input(1, tokens, channels)
    x = net.transpose(x, 0, 2, 1) if first else x
    for _ in range(int(random.integers(1, 3))):
        y = net.normalised(x) if random.integers(2) else x
        y = net.dense(joined_heads(net, attended(net, *heads_of(net, y, heads))), channels)
        x = net.add(x, y) if random.integers(2) else y
    return net.model(net.transpose(x, 0, 2, 1) if random.integers(2) else x).source


@pytest.mark.parametrize(
    ("seed", "others"),
    [(36, ("min-transpose", "min-executed")), (5, ("min-nodes", "min-nodes"))],
)
def test_transposes_that_are_traded_for_operators(seed: int, others: tuple[str, str]) -> None:
    """Where layouts with fewer Transposes take more operators of LiteRT, those of another objective are better."""
    source = attention(seed)
    timed = layoutsolve.convert(source, to="tflite")
    for objective, other in zip(("min-transpose", "min-nodes"), others, strict=True):
        found = layoutsolve.convert(source, to="tflite", objective=objective)
        assert found.assignment.objective == other and not found.kept
        assert layoutsolve.verify(source, found).passed
        if objective == "min-transpose":
            assert found.moves.transposes < timed.moves.transposes
        else:
            assert len(found.operators) <= len(timed.operators)


def test_what_cannot_be_better_stays_byte_for_byte() -> None:
    builder = Builder()
    x, y = builder.input("x", (1, 4)), builder.tensor("y", (1, 4))
    builder.operator("RELU", [x], [y], {})
    source = builder.finish(y)
    found = layoutsolve.convert(source, to="tflite")
    assert found.kept and found.content("") == source


@pytest.mark.parametrize("pooled", [False, True])
def test_figures_of_what_stays_are_those_of_the_file(
    pooled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not those of layouts that are not written: a source without Transposes moves nothing."""
    builder = Builder()
    x, order = builder.input("x", (1, 4, 4, 8)), builder.constant("order", np.array([0, 3, 1, 2], np.int32))
    y = builder.tensor("y", (1, 2, 2, 8) if pooled else (1, 8, 4, 4))
    if pooled:
        builder.operator(
            "CUSTOM:MaxPoolingWithArgmax2D", [x], [y, builder.tensor("where", (1, 2, 2, 8))], custom_options=POOL
        )
    else:
        builder.operator("TRANSPOSE", [x, order], [y])
    path = tmp_path / "a.tflite"
    path.write_bytes(builder.finish(y))
    found = layoutsolve.convert(path, to="tflite")
    assert found.kept and found.report["bytes_moved"] == found.bytes_moved == (0 if pooled else 512)
    assert main([str(path), "-o", str(tmp_path / "b.tflite")]) == 0
    told = capsys.readouterr().out
    assert f"{found.bytes_moved} bytes moved\n  layouts that are not written: " in told


def test_memory_that_litert_shares_is_not_destroyed() -> None:
    """A product in place of what a view gives is not in the memory of what others read behind it."""
    builder = Builder()
    x = builder.input("x", (2, 8))
    shapes = {name: builder.tensor(name, shape) for name, shape in (("a", (2, 8)), ("b", (2, 8)), ("view", (4, 4)))}
    scaled, back, y = builder.tensor("scaled", (4, 4)), builder.tensor("back", (2, 8)), builder.tensor("y", (2, 8))
    two = builder.constant("two", np.float32(2), "float32")
    builder.operator("ADD", [x, two], [shapes["a"]], {})
    builder.operator("MUL", [shapes["a"], two], [shapes["b"]], {})
    builder.operator("RESHAPE", [shapes["b"], builder.constant("to", np.array([4, 4], np.int32))], [shapes["view"]], {})
    builder.operator("MUL", [shapes["view"], builder.constant("row", np.arange(4), "float32")], [scaled], {})
    builder.operator("RESHAPE", [scaled, builder.constant("from", np.array([2, 8], np.int32))], [back], {})
    builder.operator("MAXIMUM", [shapes["b"], back], [y], {})
    source = builder.finish(y)
    data = np.arange(16, dtype=np.float32).reshape(2, 8)
    twice = (data + 2) * 2
    expected = np.maximum(twice, (twice.reshape(4, 4) * np.arange(4)).reshape(2, 8))
    written = layoutsolve.convert(layoutsolve.convert(source, target="portable").model, to="tflite").content("")
    np.testing.assert_allclose(litert().run(written, [data]).results[0], expected)
    assert VIEWS


@pytest.mark.parametrize("option", [{"opset": 18}, {"quant": "float"}, {"contrib": True}, {"weights": "symmetric"}])
def test_options_about_onnx_are_refused(option: dict[str, object]) -> None:
    builder = Builder()
    _, again = channels_first(builder)
    with pytest.raises(OptionError, match=next(iter(option))):
        layoutsolve.convert(builder.finish(again), to="tflite", **option)  # type: ignore[arg-type]


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    builder = Builder()
    _, again = channels_first(builder)
    source = builder.finish(again)
    path = tmp_path / "model.tflite"
    path.write_bytes(source)
    one, other = (layoutsolve.convert(each, to="tflite").content("") for each in (source, path))
    assert one == other


def rows_before(builder: Builder, shape: tuple[int, ...]) -> tuple[int, int]:
    """An input, and what is behind it and two Transposes, which cancel out, in some shape."""
    image = builder.input("image", (1, 3, 4, 2))
    last, bent, back = (
        builder.tensor(name, sizes)
        for name, sizes in (("last", (1, 4, 2, 3)), ("bent", (1, 4, 2, 3)), ("back", (1, 3, 4, 2)))
    )
    builder.operator("TRANSPOSE", [image, builder.constant("to", np.array([0, 2, 3, 1], np.int32))], [last], {})
    builder.operator("ABS", [last], [bent], {})
    builder.operator("TRANSPOSE", [bent, builder.constant("from", np.array([0, 3, 1, 2], np.int32))], [back], {})
    rows = builder.tensor("rows", shape)
    builder.operator("RESHAPE", [back, builder.constant("sizes", np.array(shape, np.int32))], [rows], {})
    return image, rows


def with_state(shared: bool) -> bytes:
    """A cell with a variable, behind Transposes that are not needed; with ``shared`` two have the same one."""
    builder, random = Builder(), np.random.default_rng(3)
    _, rows = rows_before(builder, (1, 24))
    state, made = builder.tensor("state", (1, 5), variable=True), -1
    for number in range(2 if shared else 1):
        weights = [
            builder.constant(f"{name}{number}", random.normal(size=shape) / 4, "float32")
            for name, shape in (("inputs", (5, 24)), ("recurrent", (5, 5)), ("bias", (5,)))
        ]
        made = builder.tensor(f"made{number}", (1, 5))
        builder.operator("RNN", [rows, *weights, state], [made], {"fused_activation_function": 4})
    return builder.finish(made)


@pytest.mark.parametrize("shared", [False, True])
def test_variables_stay(shared: bool) -> None:
    """Operators with states are written again, which they carry from run to run as those of the source do; where the
    states of one are another's as well, the model stays as it is.
    """
    source = with_state(shared)
    found = layoutsolve.convert(source, to="tflite")
    if not shared:
        assert (found.kept, found.moves.transposes, found.operators.count("RNN")) == ("", 0, 1)
    assert with_states(found.graph, ()) == frozenset()  # what nothing that is copied reads is not copied either
    random = np.random.default_rng(4)
    steps = [[random.normal(size=(1, 3, 4, 2)).astype(np.float32)] for _ in range(4)]
    for one, other in zip(litert().steps(source, steps), litert().steps(found.data, steps), strict=True):
        np.testing.assert_array_equal(one.results[0], other.results[0])


def test_a_variable_that_nothing_writes_is_zeros() -> None:
    """An operator that reads one has no constant there."""
    builder = Builder()
    x, order = builder.input("x", (4, 3)), builder.constant("order", np.array([1, 0], np.int32))
    turned, y, back = (builder.tensor(name, shape) for name, shape in (("t", (3, 4)), ("y", (3, 4)), ("b", (4, 3))))
    builder.operator("TRANSPOSE", [x, order], [turned], {})
    builder.operator("ADD", [turned, builder.tensor("state", (3, 4), variable=True)], [y], {})
    builder.operator("TRANSPOSE", [y, order], [back], {})
    found, data = layoutsolve.convert(builder.finish(back), to="tflite"), np.ones((4, 3), np.float32)
    assert found.moves.transposes == 0
    np.testing.assert_array_equal(litert().run(found.content(""), [data]).results[0], data)


def test_an_operator_that_cannot_be_laid_out_otherwise_keeps_its_layout() -> None:
    """LiteRT's kernel of MEAN on bytes rounds otherwise along other axes; Transposes elsewhere go all the same."""
    steps, quant = Builder(), Quant((0.05,), (3,))
    image, turned = (1, 6, 6, 4), (1, 4, 6, 6)
    x = steps.input("x", image, "int8", quant=quant)
    first, back = (
        steps.constant(name, np.array(order, np.int32)) for name, order in (("f", (0, 3, 1, 2)), ("b", (0, 2, 3, 1)))
    )
    made = {
        name: steps.tensor(name, shape, "int8", quant=quant)
        for name, shape in (("t", turned), ("r", turned), ("y", image), ("m", (1, 4)), ("e", image))
    }
    steps.operator("TRANSPOSE", [x, first], [made["t"]])
    steps.operator("RELU", [made["t"]], [made["r"]])
    steps.operator("TRANSPOSE", [made["r"], back], [made["y"]])
    steps.operator("RELU6", [made["y"]], [made["e"]])
    axes = steps.constant("axes", np.array([2, 3], np.int32))
    steps.operator("MEAN", [made["r"], axes], [made["m"]], {"keep_dims": False})
    source = steps.finish(made["e"], made["m"])
    found = layoutsolve.convert(source, to="tflite")
    assert (found.kept, found.moves.transposes) == ("", 1)
    given = [np.random.default_rng(2).integers(-128, 128, image).astype(np.int8)]
    for one, other in zip(*(litert().run(each, given).results for each in (source, found.content(""))), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(CertificateError, match="keep their layouts"):
        layoutsolve.certify(source, found)
    with pytest.raises(PlanError, match="keep their layouts"):
        layoutsolve.plan(source, found)


@pytest.mark.parametrize("kind", ["ADD", "MAXIMUM", "SQUARED_DIFFERENCE", "SUB"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_constants_of_an_operator_lie_as_it_does(kind: str, dtype: str) -> None:
    """Between Transposes that go, it is the same operator on the same numbers in another order."""
    builder, random = Builder(), np.random.default_rng(0)
    quant = Quant((0.05,), (3,)) if dtype == "int8" else None
    data = random.integers(-50, 50, (1, 3, 4, 5)).astype(dtype)
    ends = {"x": (1, 4, 5, 3), "first": (1, 3, 4, 5), "made": (1, 3, 4, 5), "y": (1, 4, 5, 3)}
    x = builder.input("x", ends["x"], dtype, quant=quant)
    first, made, y = (builder.tensor(name, ends[name], dtype, quant=quant) for name in ("first", "made", "y"))
    there, back = (builder.constant(f"to{each}", np.array(each, np.int32)) for each in ((0, 3, 1, 2), (0, 2, 3, 1)))
    builder.operator("TRANSPOSE", [x, there], [first])
    builder.operator(kind, [first, builder.constant("held", data, dtype, quant)], [made])
    builder.operator("TRANSPOSE", [made, back], [y])
    source = builder.finish(y)
    written = layoutsolve.convert(source, to="tflite").content("")
    assert [each.name for each in parse(written).subgraphs[0].operators] == [kind]
    given = random.integers(-90, 90, ends["x"]).astype(dtype)
    one, other = (litert().run(each, [given]).results[0] for each in (source, written))
    np.testing.assert_array_equal(one, other)
