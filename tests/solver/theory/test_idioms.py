"""Idioms: what they write computes the operator, in every layout in which they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Array, Graph, Quant
from layoutsolve.solver import assign
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target, shipped
from layoutsolve.solver.theory.offer import IDIOMS
from layoutsolve.solver.theory.rule import RULES
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import graph_of
from tests.solver.theory.test_rules import random_ends, samples

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1, -1], np.float32)
"""Numbers at which a sum of two parts may differ from the part that counts."""


EXACT = EDGES[np.abs(EDGES) != np.float32(3e38)]
"""Those of them that leave the others as they are, in whatever order they are added."""

SUMMING = frozenset(("AveragePool", "Conv", "ReduceMean", "Resize"))
"""The operators whose kernels add up in another order in other layouts, idiom or not."""


def only(operator: str, *names: str) -> Target:
    """A target with these idioms of one operator, and no others."""
    return replace(default_target(), idioms={operator: names})


def with_edges(data: Array, random: np.random.Generator, edges: Array = EDGES) -> Array:
    """Data of which a third are numbers that are hard to compute with."""
    if data.dtype != np.float32:
        return data
    where = random.random(data.shape) < 1 / 3
    return np.where(where, random.choice(edges, data.shape), data).astype(np.float32)


@pytest.mark.members(190)
@pytest.mark.parametrize(("operator", "name"), sorted(IDIOMS))
@pytest.mark.parametrize("seed", range(30))
def test_idioms_compute_the_operator(operator: str, name: str, seed: int) -> None:
    graph, random = graph_of(operator, seed)
    boundary, permutations = random_ends(graph, random)
    data = feeds(graph, seed)
    if operator not in SUMMING or operator == "AveragePool":
        data = [with_edges(each, random, EXACT if operator in SUMMING else EDGES) for each in data]
    (expected,) = run(graph, data)
    wanted = expected.transpose(permutations.get(graph.outputs[0], range(expected.ndim)))
    given = zip(graph.inputs, data, strict=True)
    moved = [array.transpose(permutations.get(name, range(array.ndim))) for name, array in given]
    for assignment in samples(Statement(graph, boundary, Goal(target=only(operator, name))), random):
        found = run(apply(assignment), moved)[0]
        if operator in SUMMING:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


def leaking(seed: int, elements: int = 8192) -> Graph:
    """A LeakyRelu of every byte, with random steps, zero points and slope."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    dtype = ("int8", "uint8")[seed % 2]
    limits = np.iinfo(dtype)
    scales, slope = random.uniform(0.01, 0.03, 2).astype(np.float32), np.float32(random.uniform(0.01, 0.99))
    before, after = (
        Quant(np.array([scale]), random.integers(limits.min, limits.max + 1, 1).astype(dtype)) for scale in scales
    )
    x = b.input(elements, dtype=dtype, quant=before)
    return b.graph(b.op("LeakyRelu", x, shape=(elements,), dtype=dtype, quant=after, alpha=float(slope)))


def test_leaking_sums_are_equal() -> None:
    """Byte for byte, of every byte and at all levels; hardly ever a slope is left as it is."""
    written = 0
    for seed in range(60):
        graph = leaking(seed)
        targets = only("LeakyRelu", "sum"), only("LeakyRelu")
        applied, before = (apply(assign(graph, target=target)) for target in targets)
        if "LeakyRelu" in {node.op for node in applied.nodes}:
            continue
        written += 1
        (name,) = graph.inputs
        data = np.arange(8192).astype(graph.values[name].dtype)
        for level in LEVELS:
            first, second = (
                OnnxRuntime(serialise(each).SerializeToString(), threads=1, level=level).run({name: data})[0]
                for each in (applied, before)
            )
            np.testing.assert_array_equal(first, second)
    assert written > 40


def test_what_leaks_as_it_is() -> None:
    """Few numbers, halves of steps, floats, and steps that float32 hardly has stay with the operator itself."""
    b, steps = GraphBuilder(), Quant(np.array([0.5], np.float32), np.array([3], np.uint8))
    x = b.input(8192, dtype="uint8", quant=steps)
    halves = b.graph(b.op("LeakyRelu", x, shape=(8192,), dtype="uint8", quant=steps, alpha=0.5))
    b = GraphBuilder()
    floats = b.graph(b.op("LeakyRelu", b.input(8192), shape=(8192,), alpha=0.3))
    b, tiny = GraphBuilder(), replace(steps, scale=np.array([1e-40], np.float32))
    x = b.input(8192, dtype="uint8", quant=tiny)
    far = b.graph(b.op("LeakyRelu", x, shape=(8192,), dtype="uint8", quant=steps, alpha=0.3))
    for graph in (leaking(1, 8191), halves, floats, far):
        assert operators(graph, only("LeakyRelu", "sum")) == Counter({"LeakyRelu": 1})
    assert operators(leaking(1), only("LeakyRelu", "sum")) == Counter({"Clip": 1, "Identity": 1, "Add": 1})


def averaging(seed: int, channels: int = 0, **changed: object) -> Graph:
    """An average of bytes, with random sizes, steps and zero points."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    dtype = ("int8", "uint8")[seed % 2]
    limits = np.iinfo(dtype)
    before, after = (
        Quant(np.array([scale], np.float32), random.integers(limits.min, limits.max + 1, 1).astype(dtype))
        for scale in random.uniform(0.01, 0.03, 2)
    )
    channels, kernel, strides = (
        channels or int(random.integers(8, 20)),
        random.integers(1, 4, 2),
        random.integers(1, 3, 2),
    )
    counted = bool(random.integers(2)) and min(kernel) > 1
    pads = random.integers(0, 2, 4) if counted else np.zeros(4, int)
    size = [(7 + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis] + 1 for axis in range(2)]
    attributes = {"kernel_shape": tuple(kernel.tolist()), "strides": tuple(strides.tolist())}
    padded = {"pads": tuple(pads.tolist()), "count_include_pad": 1} if counted else {}
    x = b.input(2, channels, 7, 7, dtype=dtype, quant=before)
    shape = (2, channels, *map(int, size))
    return b.graph(b.op("AveragePool", x, shape=shape, dtype=dtype, quant=after, **{**attributes, **padded, **changed}))


@pytest.mark.parametrize("seed", range(40))
def test_averages_are_equal(seed: int) -> None:
    """Each as a convolution gives the nearest step, at all levels and in any row."""
    graph, random = averaging(seed), np.random.default_rng(seed)
    data = feeds(graph, seed)
    (expected,) = run(graph, data)
    for assignment in samples(Statement(graph, {}, Goal(target=only("AveragePool", "depthwise"))), random):
        applied = apply(assignment)
        assert "AveragePool" not in {node.op for node in applied.nodes}
        for level in LEVELS:
            model = serialise(applied).SerializeToString()
            (found,) = OnnxRuntime(model, threads=1, level=level).run(dict(zip(graph.inputs, data, strict=True)))
            off = np.abs(found.astype(int) - expected)
            assert off.max() <= 1 and (off != 0).mean() < 0.02


def test_averages_as_they_are() -> None:
    """Few channels, whole images, padding that does not count, sizes rounded up and floats stay with the operator."""
    target, b = only("AveragePool", "depthwise"), GraphBuilder()
    plain = {"kernel_shape": (3, 3), "strides": (1, 1), "count_include_pad": 0}
    floats = b.graph(b.op("AveragePool", b.input(2, 9, 7, 7), shape=(2, 9, 5, 5), **plain))
    whole = averaging(1, pads=(0,) * 4, **{**plain, "kernel_shape": (7, 7)})
    others = ({"pads": (1, 0, 0, 0)}, {"ceil_mode": 1}, {"auto_pad": "SAME_UPPER"})
    changed = [averaging(1, **{**plain, "pads": (0,) * 4, **each}) for each in others]
    for graph in (floats, whole, averaging(1, 7), *changed):
        assert operators(graph, target)["AveragePool"] == 1


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(("side", "convolved"), [(2, True), (7, True), (17, True), (12, False)])
def test_means_of_pixels(side: int, convolved: bool, keep: int) -> None:
    """Of images behind a convolution, which are the same means; where their pixels are left out by a Reshape."""
    b, steps = GraphBuilder(side), Quant(np.array([0.02], np.float32), np.array([3], np.uint8))
    x = b.input(2, 5, side, side, dtype="uint8", quant=steps)
    kernel = b.constant(b.random.integers(0, 99, (6, 5, 1, 1)), "uint8", steps)
    if convolved:
        x = b.op("Conv", x, kernel, shape=(2, 6, side, side), dtype="uint8", quant=steps, kernel_shape=(1, 1))
    shape = (2, int(b.shape(x)[1]), *(1, 1) * keep)  # type: ignore[arg-type]
    mean = b.op("ReduceMean", x, b.constant([2, 3], "int64"), shape=shape, keepdims=keep)
    graph = b.graph(b.op("Relu", mean, shape=shape))
    written = apply(assign(graph, target=only("ReduceMean", "pixels")))
    found = Counter(node.op for node in written.nodes)
    assert (found["GlobalAveragePool"], found["Reshape"]) == (convolved, convolved and not keep)
    data = feeds(graph, 1)
    np.testing.assert_allclose(run(written, data)[0], run(graph, data)[0], rtol=1e-5, atol=1e-6)


def activated(channels: int, slopes: Callable[[GraphBuilder], str]) -> Graph:
    """A PRelu between two convolutions that want channels first."""
    b = GraphBuilder()
    y = b.conv(b.input(1, 6, 6, 3), channels, 3)
    y = b.op("PRelu", y, slopes(b), shape=(1, 6, 6, channels))
    return b.graph(b.conv(y, 4, 3))


def operators(graph: Graph, target: Target) -> Counter[str]:
    """What a graph is written as."""
    return Counter(node.op for node in apply(assign(graph, target=target)).nodes)


def test_the_first_that_fits_is_written() -> None:
    by_channel, by_pixel = activated(16, lambda b: b.weights(1, 1, 16)), activated(16, lambda b: b.weights(6, 6, 16))
    both = only("PRelu", "normalization", "limits")
    assert operators(by_channel, both) >= Counter({"Conv": 2, "BatchNormalization": 2, "Relu": 2, "Add": 1})
    assert operators(by_pixel, both) >= Counter({"Conv": 2, "Min": 1, "Mul": 1, "Relu": 1, "Add": 1})
    assert operators(by_channel, only("PRelu", "depthwise")) >= Counter({"Conv": 3, "BatchNormalization": 1})
    for name in ("normalization", "depthwise"):
        assert operators(by_pixel, only("PRelu", name))["PRelu"] == 1
    assert operators(by_channel, only("PRelu"))["PRelu"] == 1


def test_layouts_stay_what_they_are() -> None:
    """An idiom changes nothing but how an operator is written."""
    for seed in range(12):
        graph, _ = graph_of("PRelu", seed)
        plain, other = (assign(graph, target=only("PRelu", *names)) for names in ((), ("limits",)))
        assert [plain.row(number).layouts for number in range(len(plain.rows))] == [
            other.row(number).layouts for number in range(len(other.rows))
        ]
        assert plain.price == other.price


LINES = ("Add", "Div", "Mul", "Sub")


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("operator", LINES)
@pytest.mark.parametrize("seed", range(12))
def test_numbers_are_as_long_as_lines(operator: str, seed: int, computed: bool) -> None:
    """Those of few channels that come last, where there are many pixels; bits and the order of operands stay."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    channels = int(random.choice([2, 3, 5, 64, 65, 100]))
    image = [1, *(int(random.choice([3, 12, 40])) for _ in range(2)), channels]
    first, numbers = bool(random.integers(2)), random.uniform(1, 2, (1,) * int(random.integers(3)) + (channels,))
    pair = [b.input(*image), b.input(*numbers.shape) if computed else b.constant(numbers)]
    graph = b.graph(b.op(operator, *(reversed(pair) if first else pair), shape=image))
    written = apply(assign(graph, target=only(operator, "lines")))
    (node,) = (node for node in written.nodes if node.op == operator)
    wide = written.values[node.inputs[0 if first else 1]].shape
    pixels = image[1] * image[2]
    assert (int(np.prod(wide)) > channels) == (channels <= 64 and pixels >= 64 and image[2] * channels <= 4096)
    assert int(np.prod(wide)) in {channels, *(int(np.prod(image[-count:])) for count in range(2, 5))}
    data = [with_edges(each, random) for each in feeds(graph, seed)]
    np.testing.assert_array_equal(run(written, data)[0], run(graph, data)[0])


@pytest.mark.parametrize("operator", LINES)
@pytest.mark.parametrize("form", ["quantized", "behind a product", "channels-first", "by pixel"])
def test_constants_that_stay_as_long_as_they_are(operator: str, form: str) -> None:
    """What a kernel on bytes takes, what a product takes as its bias, and what is not one for each last dimension."""
    b, image, numbers = GraphBuilder(), (1, 12, 10, 3), np.arange(1.0, 4)
    quant = Quant(np.array([0.1], np.float32), np.array([3], np.uint8)) if form == "quantized" else None
    x = b.input(*image, dtype="uint8" if quant else "float32", quant=quant)
    if form == "behind a product":
        x = b.op("MatMul", x, b.weights(3, 3), shape=image)
    wide = {"channels-first": (12, 1, 1), "by pixel": (10, 3)}.get(form, (3,))
    constant = b.constant(np.resize(numbers, wide), "uint8" if quant else "float32", quant)
    graph = b.graph(b.op(operator, x, constant, shape=image, dtype="uint8" if quant else "float32", quant=quant))
    written = apply(assign(graph, target=only(operator, "lines")))
    (node,) = (node for node in written.nodes if node.op == operator)
    kept = np.prod(written.values[node.inputs[1]].shape) == np.prod(wide)  # type: ignore[arg-type]
    assert kept == (form != "quantized" or operator in ("Add", "Mul"))
    data = feeds(graph, 1)
    np.testing.assert_array_equal(run(written, data)[0], run(graph, data)[0])


@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize("seed", range(12))
def test_numbers_of_bytes_are_long_runs(operator: str, seed: int) -> None:
    """Those of each channel as images lie in ONNX Runtime: behind a convolution channels-last; results stay."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    steps = Quant(np.array([0.1], np.float32), np.array([3], np.uint8))
    image = [int(random.choice(sizes)) for sizes in ([1, 2], [3, 16, 255, 300], [3, 12], [2, 9])]
    convolved, first = random.random() < 0.7, bool(random.integers(2))
    x = b.input(*image, dtype="uint8", quant=steps)
    if convolved:
        kernel = b.constant(random.integers(0, 6, (image[1], image[1], 1, 1)), "uint8", steps)
        x = b.op("Conv", x, kernel, shape=image, dtype="uint8", quant=steps, kernel_shape=(1, 1))
    pair = [x, b.constant(random.integers(0, 256, (image[1], 1, 1)), "uint8", steps)]
    y = b.op(operator, *(reversed(pair) if first else pair), shape=image, dtype="uint8", quant=steps)
    graph = b.graph(y)
    written = apply(assign(graph, target=only(operator, "repeated")))
    (node,) = (node for node in written.nodes if node.op == operator)
    wide = np.prod(written.values[node.inputs[0 if first else 1]].shape)  # type: ignore[arg-type]
    runs = np.cumprod([image[axis] for axis in (1, 3, 2, 0)])
    assert wide == next((run for run in runs if run >= 256), runs[-1]) if convolved else wide == image[1]
    data = feeds(graph, seed)
    np.testing.assert_array_equal(run(written, data)[0], run(graph, data)[0])


def test_idioms_are_of_operators_with_rules() -> None:
    assert IDIOMS and {operator for operator, _ in IDIOMS} <= set(RULES)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize(
    ("shape", "result", "named"),
    [
        ((1, 4, 5, 3), (1, 8, 10, 3), True),
        ((1, 4, 5, 32), (1, 8, 5, 32), True),
        ((1, 4, 5, 32), (1, 4, 10, 32), True),
        ((1, 4, 5, 3), (1, 8, 5, 3), False),
        ((2, 4, 5, 3), (2, 8, 10, 3), False),
    ],
)
def test_axes_of_single_images_are_named(shape: Sequence[int], result: Sequence[int], named: bool, mode: str) -> None:
    """Of such that lie channels-last, where that is faster; sizes are those of these axes."""
    b, factors = GraphBuilder(), np.divide(result, shape)
    for number, vector in enumerate((b.constant(factors), b.constant(result, "int64"))):
        x, empty = b.input(*shape), "" if number else vector
        b.op("Resize", x, "", empty, *([vector] if number else []), shape=result, mode=mode)
    graph = b.graph(*(node.outputs[0] for node in b.nodes))
    plain, other = (apply(assign(graph, target=only("Resize", *names))) for names in ((), ("axes",)))
    for node in other.nodes:
        assert node.attributes.get("axes") == ((1, 2) if named else None)
    data = feeds(graph, 0)
    for found, wanted in zip(run(other, data), run(plain, data), strict=True):
        np.testing.assert_array_equal(found, wanted)


SAMPLED = ("", "two", "three")
"""How many convolutions of one pixel read an image of bytes; otherwise they stride as they are."""


def striding(seed: int, how: str) -> Graph:
    """Convolutions of one pixel that stride over an image of bytes, channels-last, and perhaps what else reads it."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    space, channels = int(random.integers(1, 3)), int(random.integers(2, 6))
    dtype = ("int8", "uint8")[seed % 2]

    def steps() -> Quant:
        return Quant(random.uniform(0.01, 0.05, 1).astype(np.float32), random.integers(1, 9, 1).astype(dtype))

    def conv(x: str, kernel: int, strides: Sequence[int], pads: int = 0) -> str:
        count, quant = int(random.integers(1, 6)), None if how == "floats" else steps()
        scale = Quant(np.full(1, 0.01, np.float32), np.zeros(1, np.int8))
        numbers = random.integers(-90, 90, (count, channels, *[kernel] * space))
        weights = b.constant(numbers, "int8", scale) if quant else b.constant(numbers)
        added = Quant(given.scale * scale.scale, np.zeros(1, np.int32)) if given else None
        bias = b.constant(random.integers(-90, 90, count), "int32" if given else "float32", added)
        inner = b.transpose(x, 0, space + 1, *range(1, space + 1), pattern=True)
        sides = zip(b.shape(x)[1:-1], strides, strict=True)
        sizes = [(int(side) + 2 * pads - kernel) // step + 1 for side, step in sides]
        chosen = {"strides": tuple(strides), "pads": (pads,) * (2 * space), "quant": quant}
        shape, held = (1, count, *sizes), dtype if quant else "float32"
        y = b.op("Conv", inner, weights, bias, shape=shape, dtype=held, **chosen)
        return b.transpose(y, 0, *range(2, space + 2), 1, pattern=True)

    shape = (1, *map(int, random.integers(4, 9, space)), channels)
    given = None if how == "floats" else steps()
    x = b.input(*shape, dtype=dtype if given else "float32", quant=given)
    strides = [int(random.integers(1, 4)) for _ in range(space - 1)] + [int(random.integers(2, 4))]
    ends = [conv(x, 1, strides, int(how == "padded")) for _ in range(1 + SAMPLED.index(how) if how in SAMPLED else 1)]
    if how == "three by three":
        ends.append(conv(x, 3, strides))
    if how == "other strides":
        ends.append(conv(x, 1, [1] * space))
    if how == "an output":
        ends.append(b.op("Relu", x, shape=shape, dtype=dtype, quant=steps()))
    return b.graph(*ends)


@pytest.mark.parametrize("how", [*SAMPLED, "floats", "padded", "three by three", "other strides", "an output"])
@pytest.mark.parametrize("seed", range(12))
def test_pixels_are_taken_out_first(seed: int, how: str) -> None:
    """A MaxPool of one pixel strides where nothing reads other pixels; all bytes stay what they are, at every level."""
    graph = striding(seed, how)
    target = replace(shipped("openvino-x86-vnni"), idioms={})
    written, before = (
        apply(assign(graph, target=each)) for each in (replace(target, idioms={"Conv": ("sampled",)}), target)
    )
    pools = [node.attributes for node in written.nodes if node.op == "MaxPool"]
    assert len(pools) == (len(graph.outputs) if how in SAMPLED else 0)
    assert all(set(each["kernel_shape"]) == {1} for each in pools)
    data = feeds(graph, seed)
    for found, expected in zip(run(written, data), run(before, data), strict=True):
        np.testing.assert_array_equal(found, expected)
