"""Operators on stored integers: the same bytes as what ONNX Runtime makes of the quant pattern, at every level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from experiments.make.demo import BLOCKS, mobilenet
from layoutsolve.emit import Kernels, QuantForm, nodes_of, serialise
from layoutsolve.emit.qlinear import _FORMS
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Array, Graph, Quant
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.graphs import GraphBuilder

DOCUMENT = Path(__file__).parents[2] / "docs" / "quantized.md"

EVERY = Kernels(frozenset(("", "com.microsoft")), saturate=False)
OWN = Kernels(frozenset(("",)), saturate=False)
SEEDS = range(6)


class Bytes(GraphBuilder):
    """A graph of bytes of one type, in random steps."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dtype = ("uint8", "int8")[seed % 2]
        limits = np.iinfo(self.dtype)
        self.limits = int(limits.min), int(limits.max) + 1

    def steps(self, largest: float = 0.1) -> Quant:
        zero = (self.limits[0] + self.random.integers(64, 192, 1)).astype(self.dtype)
        return Quant(self.random.uniform(largest / 8, largest, 1).astype(np.float32), zero)

    def image(self, *shape: int) -> str:
        return self.input(*shape, dtype=self.dtype, quant=self.steps())

    def kernel(self, *shape: int, axis: int | None = None) -> str:
        """Weights, in steps of their own for each index of an axis."""
        dtype = "int8" if self.dtype == "int8" else str(self.random.choice(["int8", "uint8"]))
        count = 1 if axis is None else shape[axis]
        zero = np.full(count, 128 if dtype == "uint8" else 0, dtype)
        quant = Quant(self.random.uniform(0.001, 0.01, count).astype(np.float32), zero, axis)
        limits = np.iinfo(dtype)
        return self.constant(self.random.integers(limits.min, int(limits.max) + 1, shape), dtype, quant)

    def bias(self, x: str, weights: str, count: int) -> tuple[str, ...]:
        """A bias, or none."""
        if self.random.random() < 0.3:
            return ()
        first, second = self.values[x].quant, self.values[weights].quant
        assert first is not None and second is not None
        scale = first.scale * second.scale
        quant = Quant(scale, np.zeros(scale.size, np.int32), None if scale.size == 1 else 0)
        return (self.constant(self.random.integers(-2000, 2000, count), "int32", quant),)

    def axis(self, which: int) -> int | None:
        return which if self.random.random() < 0.6 else None

    def last(self, op: str, *inputs: str, shape: tuple[int, ...], spread: float = 0.1, **attributes: object) -> Graph:
        """The graph that ends with an operator."""
        return self.graph(self.op(op, *inputs, shape=shape, dtype=self.dtype, quant=self.steps(spread), **attributes))


def convolution(b: Bytes) -> Graph:
    groups, channels, read = [(1, 5, 6), (2, 4, 9), (6, 6, 1)][int(b.random.integers(3))]
    side, stride, dilation = (int(b.random.integers(low, high)) for low, high in ((1, 4), (1, 3), (1, 3)))
    x, weights = b.image(1, groups * read, 9, 8), b.kernel(channels, read, side, side, axis=b.axis(0))
    wide, pad = dilation * (side - 1), int(b.random.integers(0, side))
    height, width = ((size + 2 * pad - wide - 1) // stride + 1 for size in (9, 8))
    given = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
    shape = (1, channels, height, width)
    return b.last("Conv", x, weights, *b.bias(x, weights, channels), shape=shape, spread=0.4, group=groups, **given)


def dense(b: Bytes) -> Graph:
    turned = int(b.random.integers(2))
    x = b.image(3, 16)
    weights = b.kernel(*((7, 16) if turned else (16, 7)), axis=b.axis(1 - turned))
    return b.last("Gemm", x, weights, *b.bias(x, weights, 7), shape=(3, 7), spread=0.4, transB=turned)


def product(b: Bytes) -> Graph:
    if b.random.random() < 0.5:
        return b.last("MatMul", b.image(2, 3, 16), b.kernel(16, 7, axis=b.axis(1)), shape=(2, 3, 7), spread=0.4)
    return b.last("MatMul", b.image(2, 3, 16), b.image(2, 16, 7), shape=(2, 3, 7), spread=2.0)


def combined(b: Bytes) -> Graph:
    shape = [(2, 3, 5), (3, 1), (5,), ()][int(b.random.integers(4))]
    other = b.constant(b.random.integers(*b.limits, shape), b.dtype, b.steps()) if len(shape) < 3 else b.image(*shape)
    return b.last(str(b.random.choice(["Add", "Mul"])), b.image(2, 3, 5), other, shape=(2, 3, 5))


def joined(b: Bytes) -> Graph:
    parts = [b.image(2, int(b.random.integers(1, 5)), 4) for _ in range(int(b.random.integers(1, 4)))]
    return b.last("Concat", *parts, shape=(2, sum(int(b.shape(part)[1]) for part in parts), 4), axis=1)  # type: ignore[arg-type]


def chosen(b: Bytes) -> Graph:
    return b.last("Where", b.input(2, 3, 5, dtype="bool"), b.image(2, 3, 5), b.image(5), shape=(2, 3, 5))


def pooled(b: Bytes) -> Graph:
    if b.random.random() < 0.4:
        return b.last("GlobalAveragePool", b.image(2, 5, 6, 7), shape=(2, 5, 1, 1))
    pad = int(b.random.integers(2))
    shape = (2, 3, 4 + 2 * pad, 5 + 2 * pad)
    return b.last("AveragePool", b.image(2, 3, 6, 7), shape=shape, kernel_shape=[3, 3], pads=[pad] * 4)


def activated(b: Bytes) -> Graph:
    op, given = [("LeakyRelu", {"alpha": 0.3}), ("Sigmoid", {}), ("Softmax", {"axis": -1})][int(b.random.integers(3))]
    return b.last(op, b.image(2, 3, 15), shape=(2, 3, 15), spread=1 / 64, **given)


FAMILIES: tuple[Callable[[Bytes], Graph], ...] = (
    convolution, dense, product, combined, joined, chosen, pooled, activated,
)  # fmt: skip


def given(graph: Graph, seed: int) -> dict[str, Array]:
    """Stored numbers over their whole range."""
    random = np.random.default_rng(seed)
    feeds = {}
    for name in graph.inputs:
        value = graph.values[name]
        limits = np.iinfo(value.dtype) if value.dtype != "bool" else None
        low, high = (int(limits.min), int(limits.max) + 1) if limits else (0, 2)
        feeds[name] = random.integers(low, high, value.shape).astype(value.dtype)
    return feeds


def kinds(graph: Graph, kernels: Kernels | None) -> list[str]:
    return [node.op_type for node in nodes_of(serialise(graph, quant=QuantForm(kernels)).graph)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_those_of_the_quant_pattern(family: Callable[[Bytes], Graph], seed: int) -> None:
    """One operator, which gives at every level what the pattern gives at the level at which it is made the same."""
    graph = family(Bytes(seed))
    pattern, written = serialise(graph).SerializeToString(), serialise(graph, quant=QuantForm(EVERY))
    assert [node.op_type[:7] for node in written.graph.node] in (["QLinear"], ["QGemm"])
    feeds = given(graph, seed)
    (expected,) = OnnxRuntime(pattern, threads=1, level="all").run(feeds)
    assert len(np.unique(expected)) > 1
    for level in LEVELS:
        (found,) = OnnxRuntime(written.SerializeToString(), threads=1, level=level).run(feeds)
        np.testing.assert_array_equal(found, expected, level)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_is_allowed(family: Callable[[Bytes], Graph], seed: int) -> None:
    """Without ONNX Runtime's domain only ONNX's own operators, and a model that imports nothing else."""
    graph = family(Bytes(seed))
    model = serialise(graph, quant=QuantForm(OWN))
    assert {each.domain for each in model.opset_import} == {""}
    assert ("DequantizeLinear" in kinds(graph, OWN)) == (family not in (convolution, product))
    assert kinds(graph, None) == kinds(graph, Kernels(frozenset(), saturate=False))


Change = Callable[[Graph], Graph]


def changed(graph: Graph, place: int, **changes: object) -> Graph:
    """The graph with another value at an input of its operator, or as the result for -1."""
    node = graph.nodes[0]
    name = (*node.inputs, *node.outputs)[place]
    value = graph.values[name]
    quant = replace(value.quant, **changes.pop("quant")) if "quant" in changes else value.quant  # type: ignore[arg-type]
    return replace(graph, values={**graph.values, name: replace(value, quant=quant, **changes)})  # type: ignore[arg-type]


def example(channels: int = 20, groups: int = 1, dtype: str = "int8") -> Graph:
    """A convolution of bytes without a sign by weights of a type, with a bias."""
    b = Bytes(0)
    x, data = b.image(1, 20, 5, 5), b.random.integers(0, 100, (channels, 20 // groups, 3, 3))
    quant = Quant(np.linspace(0.01, 0.02, channels, dtype=np.float32), np.zeros(channels, dtype), 0)
    weights = b.constant(data, dtype, quant)
    first = b.values[x].quant
    assert first is not None
    scales = Quant(first.scale * quant.scale, np.zeros(channels, np.int32), 0)
    bias = b.constant(np.arange(channels), "int32", scales)
    return b.last("Conv", x, weights, bias, shape=(1, channels, 3, 3), group=groups)


UNFIT: dict[str, Graph] = {
    "another type": changed(example(), -1, dtype="int8", quant={"zero_point": np.array([0], np.int8)}),
    "two bytes": changed(example(), -1, dtype="uint16", quant={"zero_point": np.array([0], np.uint16)}),
    "real numbers": replace(
        example(), values={**example().values, "t3": replace(example().values["t3"], dtype="float32", quant=None)}
    ),
    "a bias in other steps": changed(example(), 2, quant={"scale": np.full(20, 0.5, np.float32)}),
    "several zero points": changed(example(), 1, quant={"zero_point": np.arange(20, dtype=np.int8)}),
    "weights without a sign": changed(
        changed(example(dtype="uint8"), -1, dtype="int8", quant={"zero_point": np.array([0], np.int8)}),
        0,
        dtype="int8",
        quant={"zero_point": np.array([3], np.int8)},
    ),
    "steps of zero": changed(example(), 1, quant={"scale": np.zeros(20, np.float32)}),
    "steps too small": changed(example(), 0, quant={"scale": np.array([1e-31], np.float32)}),
}


SLOW: dict[str, Callable[[Bytes], Graph]] = {
    "small groups": lambda b: b.last("Conv", b.image(1, 16, 9, 9), b.kernel(16, 8, 1, 1), shape=(1, 16, 9, 9), group=2),
    "long rows": lambda b: b.last("Softmax", b.image(2, 3, 16), shape=(2, 3, 16), spread=1 / 64, axis=-1),
    "windows": lambda b: b.last("AveragePool", b.image(2, 8, 6, 6), shape=(2, 8, 4, 4), kernel_shape=[3, 3]),
}


@pytest.mark.parametrize("case", SLOW)
def test_what_takes_longer_stays(case: str) -> None:
    graph = SLOW[case](Bytes(0))
    assert kinds(graph, EVERY) == kinds(graph, None)


@pytest.mark.parametrize("case", UNFIT)
def test_what_no_kernel_computes_stays(case: str) -> None:
    assert kinds(example(), EVERY) == ["QLinearConv"]
    assert kinds(UNFIT[case], EVERY) == kinds(UNFIT[case], None)


@pytest.mark.parametrize(("target", "private"), [("ort-cpu", False), ("ort-cpu-contrib", True), ("ort-web", False)])
def test_networks(target: str, private: bool) -> None:
    """A network whose convolutions are kernels at every level, but for the first that takes longer as such, and all of
    it where private operators are allowed. The web computes depthwise ones in float.
    """
    model = layoutsolve.convert(mobilenet(), quant="qoperator", target=target).model
    pattern = layoutsolve.convert(mobilenet(), target=target).model
    kept = [each for each in model.graph.node if each.op_type != "If"]
    branches = [each.attribute[0].g.node for each in model.graph.node if each.op_type == "If"]
    layers = Counter(each.op_type for each in (*kept, *chain.from_iterable(branches)))
    assert layers["QLinearConv"] == 2 * len(BLOCKS) if target != "ort-web" else layers["QLinearConv"] > len(BLOCKS)
    assert {each.domain for each in model.opset_import} == {"", *(["com.microsoft"] if private else [])}
    feeds = {"image": np.random.default_rng(0).integers(-128, 128, (1, 128, 128, 3)).astype(np.int8)}
    found = [
        OnnxRuntime(each.SerializeToString(), threads=1, level=level).run(feeds)[0]
        for each, level in [(pattern, "all"), *((model, level) for level in LEVELS)]
    ]
    for each in found[1:] if private else found[-1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("target", ["openvino-cpu", "openvino-x86-vnni", "portable"])
def test_targets_that_do_not_run_them(target: str) -> None:
    with pytest.raises(OptionError, match=f"target '{target}' does not run int8 operators"):
        layoutsolve.convert(mobilenet(), quant="qoperator", target=target)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("groups", [1, 2, 20])
def test_saturating_sums(groups: int, dtype: str, saturate: bool) -> None:
    """Where sums of uint8 by int8 saturate there are none, but for kernels that add no pairs of products."""
    written = kinds(example(groups=groups, dtype=dtype), replace(EVERY, saturate=saturate))
    assert (written == ["QLinearConv"]) == (not saturate or dtype == "uint8" or groups == 20)


def test_every_kernel_is_described() -> None:
    """Beside the operator that it computes, with the domain that it needs."""
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    for operator, form in _FORMS.items():
        (row,) = (line for line in rows if form.op in line.replace("|", ",").replace(",", " ").split())
        assert operator in row.split("|")[1].replace(",", " ").split()
        assert ("ONNX's own" in row) == (form.domain == "")
