"""The target that comes with the package, and what moves cost on a target."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Dim, Graph, Quant, static_elements, symbol
from layoutsolve.solver import Goal, assign
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.kind_lookup import between, entry
from layoutsolve.solver.targets.target_file import default_target, parsed, shipped
from layoutsolve.solver.theory.motion import as_layouts
from layoutsolve.solver.theory.offer import Offer, rule_of
from layoutsolve.solver.theory.rule import Rule, Site
from layoutsolve.solver.theory.variable import Variable
from tests.graphs import GraphBuilder, assert_same, feeds


def test_a_problem_is_data() -> None:
    """It can be written down and read again, and is equal then."""
    builder = GraphBuilder()
    graph = builder.graph(builder.relu(builder.transpose(builder.input(2, 3, 4), 2, 1, 0)))
    for objective in ("min-executed", "min-latency"):
        problem = Statement(graph, goal=Goal(objective)).orders()
        assert pickle.loads(pickle.dumps(problem)) == problem
        assert problem.target is default_target()


def test_default_target_is_complete() -> None:
    target = default_target()
    assert target is default_target()
    assert target.hidden["Softmax", "innermost"] == 0
    assert target.hidden["Softmax", "outermost"] == 3
    assert ("Resize", "linear KRKR, float32") in target.unsupported
    assert set(target.hidden.values()) == {0, 1, 2, 3}
    assert not target.unsupported & set(target.hidden)
    assert set(target.latency.extra) >= {key for key, hidden in target.hidden.items() if hidden}


def test_rows_are_priced_as_the_file_says() -> None:
    """Each kind by what it costs hidden, and nothing is priced of which all kinds are free."""
    target, row = default_target(), SimpleNamespace(form=0)
    for (operator, kind), count in target.hidden.items():
        if operator not in target.rated or kind.endswith("*"):
            continue
        price = target.weigh(operator, [kind])
        assert (price is None) == (count == 0 and not target.latency.extra.get((operator, kind), 0))
        found = None if price is None else price(row)  # type: ignore[arg-type]
        assert found is None or found.hidden == count


def image(*sizes: Dim, itemsize: int = 4, turns: int = 1) -> Variable:
    """A variable of which every dimension is an atom."""
    return Variable("image", sizes, turns * itemsize * static_elements(sizes), {}, turns=turns)


def spent(shape: tuple[Dim, ...], permutation: tuple[int, ...], itemsize: int = 4, turns: int = 1) -> int:
    """The nanoseconds of a Transpose of whole dimensions."""
    sizes, source, target = as_layouts(shape, permutation)
    return default_target().move_price(image(*sizes, itemsize=itemsize, turns=turns), source, target, True).nanoseconds


def _rule(graph: Graph, op: str) -> Rule:
    found = default_target()
    (node,) = [node for node in graph.nodes if node.op == op]
    return rule_of(Site(graph, node), Offer(runs=found.runs))


def _names(rule: Rule) -> list[str]:
    return [str(way.kind).split(", ")[0] for way in rule.ways]


@pytest.mark.parametrize(
    ("dtype", "quantized", "biased", "names"),
    [
        ("float32", False, True, "NT|TT|MatMul|swapped NN|swapped NT|swapped MatMul"),
        ("float32", True, True, "NT|TT|MatMul|swapped NN|swapped NT|swapped MatMul"),
        ("int8", True, False, "NT|TT|MatMul|swapped NN|swapped NT|swapped MatMul"),
        ("int8", True, True, "NT|TT|Conv"),
    ],
)
@pytest.mark.parametrize("op", ["Gemm", "Conv"])
def test_products_have_kernels(op: str, dtype: str, quantized: bool, biased: bool, names: str) -> None:
    """What ONNX Runtime computes as it is written depends on what is quantized; a 1x1 Conv is a Gemm beside itself."""
    builder, step = GraphBuilder(), np.array([0.5], np.float32)
    whole, scale = Quant(step, np.zeros(1, np.int8)), Quant(step, np.zeros(1, np.int8))
    units, image = ([], [4, 6]) if op == "Gemm" else ([1, 1], [4, 6, 3, 3])
    x = builder.input(*image, dtype=dtype, quant=whole if dtype == "int8" else None)
    weights = np.ones([5, 6, *units], np.int8)
    rest = [builder.constant(weights, "int8" if quantized else "float32", scale if quantized else None)]
    rest += [builder.constant(np.ones(5), "int32", scale) if dtype == "int8" else builder.weights(5)] * biased
    shape = [4, 5, *image[2:]]
    quant = whole if dtype == "int8" else None
    y = builder.op(op, x, *rest, shape=shape, dtype=dtype, quant=quant, **({"transB": 1} if op == "Gemm" else {}))
    found = names.split("|")
    if op == "Conv":
        found = ["channels-first", *(name for name in found if name != "Conv"), "channels-first"]
    assert _names(_rule(builder.graph(y), op)) == found


@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
@pytest.mark.parametrize("turned", [False, True])
def test_products_take_as_long_whichever_side_is_constant(op: str, turned: bool) -> None:
    """Weights that the kernel finds on the right are packed ahead; what is cheap is the same for both spellings."""
    builder = GraphBuilder()
    x, weights = builder.input(*((6, 7) if turned else (7, 6))), builder.weights(*((5, 6) if turned else (6, 5)))
    y = builder.op(op, *((weights, x) if turned else (x, weights)), shape=(5, 7) if turned else (7, 5))
    target = default_target()
    ways = _rule(builder.graph(y), op).ways
    cheap = {str(target.named(op, way)) for way in ways if not target.hidden.get((op, str(way.kind).split(", ")[0]), 0)}
    plain = ("NT", "MatMul") if not turned else ("NN", "NT") if op == "Gemm" else ("NT",)
    assert cheap == {f"{kind}, float32" for kind in plain}


@pytest.mark.parametrize("kind", ["TN", "TT", "swapped NT"])
def test_a_gemm_takes_as_long_whatever_it_was_in_the_source(kind: str) -> None:
    """A MatMul that is written as a Gemm is one where the result is read again, which then costs as much."""
    assert default_target().hidden["MatMul", kind] == default_target().hidden["Gemm", kind]


@pytest.mark.parametrize("block", [0, 3])
def test_weights_with_kernels_of_their_own(block: int) -> None:
    """ONNX Runtime rounds what a MatMul multiplies by weights of 4 bits, or by blocks of 8."""
    builder = GraphBuilder()
    scale = np.full((5, 2) if block else 1, 0.5, np.float32)
    quant = Quant(scale, np.zeros(scale.shape, np.int8), 1 if block else None, block)
    weights = builder.constant(np.ones([5, 6]), "int8", quant)
    if not block:
        builder.values[weights] = replace(builder.values[weights], dtype="int4")
    y = builder.op("Gemm", builder.input(4, 6), weights, builder.weights(5), shape=[4, 5], transB=1)
    assert _names(_rule(builder.graph(y), "Gemm")) == ["NT", "TT", "swapped NN", "swapped NT"]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
def test_integers_are_multiplied_by_matmul(dtype: str) -> None:
    builder = GraphBuilder()
    y = builder.op(
        "MatMul", builder.input(3, 4, dtype=dtype), builder.input(4, 5, dtype=dtype), shape=(3, 5), dtype=dtype
    )
    gemms = {"NT", "TN", "TT"} & set(_names(_rule(builder.graph(y), "MatMul")))
    assert len(gemms) == (3 if dtype.startswith("float") else 0)


@pytest.mark.parametrize(
    ("rows", "columns", "large"), [(96, 48, True), (95, 1, False), (96, 49, False), (200, 100, True), (96, 0, True)]
)
def test_a_large_side_is_a_class(rows: int, columns: int, large: bool) -> None:
    builder = GraphBuilder()
    y = builder.op("MatMul", builder.input(2, rows, 4), builder.input(2, 4, columns), shape=(2, rows, columns))
    kinds = [default_target().named("MatMul", way) for way in _rule(builder.graph(y), "MatMul").ways]
    assert (f"swapped MatMul{' from large' * large}, float32" in kinds) and len(kinds) == 2


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["ort-cpu", "ort-arm", "ort-web", "portable"])
def test_lines_and_volumes_are_classes(name: str, rank: int, dtype: str, stride: int) -> None:
    """Volumes are read channels-last in floats only, and without a stride at a price, which lines have as well."""
    builder, target = GraphBuilder(), shipped(name)
    quant = None if dtype == "float32" else Quant(np.array([0.5], np.float32), np.zeros(1, dtype))
    x = builder.input(1, 3, *(9,) * rank, dtype=dtype, quant=quant)
    weights, size = builder.constant(np.ones((5, 3, *(3,) * rank)), dtype, quant), 7 if stride == 1 else 4
    attributes = {"kernel_shape": (3,) * rank, "strides": (stride,) * rank}
    y = builder.op("Conv", x, weights, shape=(1, 5, *(size,) * rank), dtype=dtype, quant=quant, **attributes)
    kinds = [str(target.named("Conv", way)) for way in _rule(builder.graph(y), "Conv").ways]
    found = [kind for kind in kinds if kind.startswith("interleaved") and "result" not in kind]
    assert bool(found) == (dtype == "float32" or rank < 3)
    least = {(1, 1): ("lines", 2), (3, 1): ("volumes", 3), (3, 2): ("volumes strided", 0)}
    for kind in found:
        said, hidden = least.get((rank, stride), ("", 0))
        assert kind.startswith(f"interleaved {said}" if said else "interleaved")
        assert entry(target.hidden, "Conv", kind, 0) >= hidden


@pytest.mark.parametrize("count", [1, 12, 13, 16, 17, 49, 64, 251, 257])
@pytest.mark.parametrize("form", ["Gemm", "turned Gemm", "MatMul", "turned MatMul", "Conv"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_lines_beside_whole_panels_are_a_class(count: int, form: str, dtype: str) -> None:
    """Whichever operator multiplies few lines of floats by weights on the left, or some beside whole panels of 16."""
    builder, op = GraphBuilder(), form.split()[-1]
    quant = None if dtype == "float32" else Quant(np.array([0.5], np.float32), np.zeros(1, np.int8))
    data = {"Conv": (1, 6, count, 1)}.get(op, (6, count) if "turned" in form else (count, 6))
    result = {"Conv": (1, 5, count, 1)}.get(op, (5, count) if "turned" in form else (count, 5))
    x = builder.input(*data, dtype=dtype, quant=quant)
    held = (5, 6, 1, 1) if op == "Conv" else (5, 6) if "turned" in form else (6, 5)
    weights = builder.constant(np.ones(held), dtype, quant)
    inputs = (weights, x) if "turned" in form else (x, weights)
    graph = builder.graph(builder.op(op, *inputs, shape=result, dtype=dtype, quant=quant))
    kinds = [str(default_target().named(op, way)).split(", ")[0] for way in _rule(graph, op).ways]
    classed = [kind for kind in kinds if kind.endswith(" uneven")]
    assert bool(classed) == (dtype == "float32" and 1 <= count % 16 <= 12 and count < 256)
    assert all(default_target().hidden[op, kind] > 1 for kind in classed)


@pytest.mark.parametrize("sizes", [{}, {"rows": 3}, {"rows": 4}, {"rows": 7}, {"rows": 8}, {"columns": 5}])
def test_sizes_are_bounded_on_both_sides(sizes: dict[str, int]) -> None:
    """Of sizes that are known."""
    found = between(sizes, {"rows": 4}, {"rows": 7})
    assert found == (4 <= sizes.get("rows", 0) <= 7)


def interpolated(channels: Dim, dtype: str) -> Graph:
    """An image that is resized channels-last, and demanded channels-first: the Transpose may be before or behind."""
    builder = GraphBuilder()
    quant = None if dtype == "float32" else Quant(np.array([0.5], np.float32), np.zeros(1, dtype))
    sizes = builder.op("Sizes", shape=(4,), dtype="int64", dims=(1, 12, 12, channels))
    x = builder.input(1, 6, 6, channels, dtype=dtype, quant=quant)
    x = builder.op("Resize", x, "", "", sizes, shape=(1, 12, 12, channels), dtype=dtype, quant=quant, mode="linear")
    return builder.graph(builder.transpose(x, 0, 3, 1, 2))


@pytest.mark.parametrize(("size", "whole"), [(12, True), (18, True), (9, False), (5, False)])
def test_what_lies_in_blocks_is_enlarged_there(size: int, whole: bool) -> None:
    """Between convolutions; by other factors ONNX Runtime leaves blocks, and its kernel for channels-first is slow."""
    builder = GraphBuilder()
    x = builder.op("Relu", builder.conv(builder.input(1, 6, 6, 16), 16, 3), shape=(1, 6, 6, 16))
    sizes = builder.op("Sizes", shape=(4,), dtype="int64", dims=(1, size, size, 16))
    x = builder.op("Resize", x, "", "", sizes, shape=(1, size, size, 16), mode="linear")
    graph = builder.graph(builder.conv(x, 16, 3))
    few, fast = assign(graph, objective="min-transpose").price, assign(graph).price
    assert (few.transposes, few.hidden) == (2, 0 if whole else 3)  # the two at its ends
    assert (fast.transposes, fast.hidden) == (2 if whole else 4, 0)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_few_channels_are_resized_channels_first(dtype: str) -> None:
    """Kernels for channels-last are made for many; how many is unknown counts as that. Some way is never slow."""
    lost = []
    for channels in (*range(1, 40), symbol("channels")):
        ways = _rule(interpolated(channels, dtype), "Resize").ways
        kinds = {str(way.kind).split(",")[0]: default_target().named("Resize", way) for way in reversed(ways)}
        lost.append(
            [entry(default_target().hidden, "Resize", str(kinds[f"linear {each}"]), 0) for each in ("KKRR", "KRRK")]
        )
    first, last = zip(*lost, strict=True)
    assert list(first) == sorted(first) and list(last) == sorted(last, reverse=True)
    assert (first[0], first[-1], last[0], last[-1]) == (0, 3, 3, 0)
    assert not any(map(min, lost))


@pytest.mark.parametrize("channels", [2, 3, 5, 7, 8, 16])
def test_few_channels_take_a_transpose_at_either_end(channels: int) -> None:
    """The smaller tensor is moved where the kernel loses nothing by it."""
    found = assign(interpolated(channels, "float32"))
    assert found.status == "optimal"
    assert (found.price.transposes, found.price.hidden) == (1, 0)
    assert found.price.bytes == channels * 4 * (36 if channels < 8 else 144)


def test_the_most_precise_entry_counts() -> None:
    table = {("Op", "NT"): 1, ("Op", "NT, int8"): 2, ("Op", "NT, quantized"): 3, ("Op", "NT, int8, quantized"): 4}
    for kind, number in (("NT", 1), ("NT, float32", 1), ("NT, int8", 2), ("NT, int16, quantized", 3), ("TT", 0)):
        assert entry(table, "Op", kind, 0) == number
    assert entry(table, "Op", "NT, int8, quantized", 0) == 4
    assert entry(table, "Other", "NT", 0) == 0


def test_interpolation_keeps_to_its_kernels() -> None:
    """Whatever the type: those of other orders are refused by the operator itself."""
    for dtype in ("float32", "int8", "int16", "float16"):
        builder = GraphBuilder()
        x = builder.input(1, 4, 4, 2, dtype=dtype)
        sizes = builder.constant([1, 8, 8, 2], "int64")
        y = builder.op("Resize", x, "", "", sizes, shape=(1, 8, 8, 2), dtype=dtype, mode="linear")
        assert {*_names(_rule(builder.graph(y), "Resize"))} == {"linear KKRR", "linear KRRK"}


@pytest.mark.parametrize("ending", ["json", "toml"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"choose": True}, "choose: there are no backends"),
        ({"choose": 1}, "choose: it must be true or false"),
        ({"choose": "yes"}, "choose: it must be true or false"),
        ({"choose": None}, "choose: it must be true or false"),
    ],
)
def test_choosing_among_nothing(wrong: dict[str, Any], message: str, ending: str) -> None:
    facts = {"name": "a", "extends": "ort-cpu", **wrong}
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in facts.items())
    if ending == "toml" and "null" in lines:
        return
    with pytest.raises(OptionError, match=message):
        parsed((lines if ending == "toml" else json.dumps(facts)).encode(), f"a.{ending}")
    right = json.dumps({"name": "a", "extends": "ort-cpu", "choose": False})
    assert parsed(right.encode(), "a.json").table is None


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ('{"name": "a", "extends": "ort-cpu", "name": "b"}', "name"),
        ('{"name": "a", "extends": "ort-cpu", "hidden": {"Softmax": {"middle": 0, "middle": 1}}}', "middle"),
        ('{"name": "a", "extends": "ort-cpu", "hidden": {}, "hidden": {}}', "hidden"),
    ],
)
def test_a_field_that_is_there_twice(content: str, field: str) -> None:
    with pytest.raises(OptionError, match=f"{field}: it is there twice"):
        parsed(content.encode(), "a.json")


def dense(seed: int, stored: bool) -> Graph:
    """A dense layer without a bias, of bytes or of floats, whose rows come first before it or behind it."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    rows, features, units = (int(size) for size in random.integers(2, 9, 3))
    steps = {"dtype": "uint8", "quant": Quant(np.full(1, 0.1, np.float32), np.full(1, 9, np.uint8))} if stored else {}
    scale = Quant(np.full(1, 0.01, np.float32), np.zeros(1, np.int8))
    numbers = random.integers(-90, 90, (units, features))
    weights = b.constant(numbers, "int8", scale) if stored else b.constant(numbers)
    before = bool(seed % 2)
    x = b.transpose(b.input(features, rows, **steps), 1, 0) if before else b.input(rows, features, **steps)
    y = b.op("Gemm", x, weights, shape=(rows, units), transB=1, **steps)
    return b.graph(y if before else b.transpose(y, 1, 0))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stored", [False, True])
def test_weights_of_bytes_stay_on_the_right(seed: int, stored: bool) -> None:
    """A Transpose is less than what OpenVINO loses where they are on the left, which it computes in floats."""
    graph = dense(seed, stored)
    written = apply(assign(graph, target=shipped("openvino-x86-vnni")))
    (product,) = (node for node in written.nodes if node.op in ("Gemm", "MatMul"))
    moves = sum(node.op == "Transpose" for node in written.nodes)
    assert written.values[product.inputs[1]].data is not None or not stored
    assert not stored or moves == 1
    assert_same(written, graph, feeds(graph, seed), rtol=1e-5)
