"""The target that comes with the package, and how Transposes are told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from layoutsolve.graph import Graph, Quant
from layoutsolve.solver.statement.kinds import entry
from layoutsolve.solver.statement.target import default_target, load, motion_of
from layoutsolve.solver.theory.offer import Offer, rule_of
from layoutsolve.solver.theory.rule import Rule, Site
from tests.graphs import GraphBuilder


@pytest.mark.parametrize(
    ("shape", "permutation", "motion", "block"),
    [
        ((2, 5, 5, 3), (0, 1, 2, 3), None, 150),
        ((1, 5, 1, 3), (2, 1, 0, 3), None, 15),
        ((1, 5, 6, 3), (0, 3, 1, 2), "swap", 1),
        ((7, 5, 6, 3), (0, 2, 3, 1), "swap", 1),
        ((7, 5, 6, 3), (2, 3, 0, 1), "swap", 1),
        ((1, 5, 4, 3), (0, 2, 1, 3), "rows", 3),
        ((2, 5, 4, 3, 6), (0, 2, 1, 3, 4), "rows", 18),
        ((2, 5, 4, 1), (0, 2, 1, 3), "swap", 1),
        ((4, 5, 6), (2, 1, 0), "general", 1),
        ((2, 4, 5, 6, 7), (0, 1, 4, 2, 3), "swap", 1),
        ((2, 4, 5, 6, 7), (1, 0, 3, 2, 4), "rows", 7),
        ((2, 4, 5, 6), (1, 0, 3, 2), "general", 1),
    ],
)
def test_motion(shape: tuple[int, ...], permutation: tuple[int, ...], motion: str | None, block: int) -> None:
    assert motion_of(shape, permutation) == (motion, block)


def test_default_target_is_complete() -> None:
    target = default_target()
    assert target is default_target()
    assert target.hidden["Softmax", "innermost"] == 0
    assert target.hidden["Softmax", "outermost"] == 2
    assert ("Resize", "linear KRKR, float32") in target.unsupported
    assert set(target.hidden.values()) == {0, 1, 2}
    assert not target.unsupported & set(target.hidden)
    assert set(target.latency.extra) == {key for key, hidden in target.hidden.items() if hidden}


def _rule(graph: Graph, op: str) -> Rule:
    found = default_target()
    (node,) = [node for node in graph.nodes if node.op == op]
    return rule_of(Site(graph, node), Offer(runs=found.runs))


def _names(rule: Rule) -> list[str]:
    return [str(way.kind).split(", ")[0] for way in rule.ways]


@pytest.mark.parametrize(
    ("dtype", "quantised", "biased", "names"),
    [
        ("float32", False, True, "NT|TT|MatMul|swapped NN|swapped NT|swapped MatMul"),
        ("float32", True, True, "NT|TT|swapped NN|swapped NT"),
        ("int8", True, False, "NT|TT|MatMul|swapped NN|swapped NT|swapped MatMul"),
        ("int8", True, True, "NT|TT|Conv"),
    ],
)
@pytest.mark.parametrize("op", ["Gemm", "Conv"])
def test_products_have_kernels(op: str, dtype: str, quantised: bool, biased: bool, names: str) -> None:
    """What ONNX Runtime computes as it is written depends on what is quantised; a 1x1 Conv is a Gemm beside itself."""
    builder, step = GraphBuilder(), np.array([0.5], np.float32)
    whole, scale = Quant(step, np.zeros(1, np.int8)), Quant(step, np.zeros(1, np.int8))
    units, image = ([], [4, 6]) if op == "Gemm" else ([1, 1], [4, 6, 3, 3])
    x = builder.input(*image, dtype=dtype, quant=whole if dtype == "int8" else None)
    weights = np.ones([5, 6, *units], np.int8)
    rest = [builder.constant(weights, "int8" if quantised else "float32", scale if quantised else None)]
    rest += [builder.constant(np.ones(5), "int32", scale) if dtype == "int8" else builder.weights(5)] * biased
    shape = [4, 5, *image[2:]]
    quant = whole if dtype == "int8" else None
    y = builder.op(op, x, *rest, shape=shape, dtype=dtype, quant=quant, **({"transB": 1} if op == "Gemm" else {}))
    found = names.split("|")
    if op == "Conv":
        found = ["channels-first", *(name for name in found if name != "Conv")]
    assert _names(_rule(builder.graph(y), op)) == found


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


def test_the_most_precise_entry_counts() -> None:
    table = {("Op", "NT"): 1, ("Op", "NT, int8"): 2, ("Op", "NT, quantised"): 3, ("Op", "NT, int8, quantised"): 4}
    for kind, number in (("NT", 1), ("NT, float32", 1), ("NT, int8", 2), ("NT, int16, quantised", 3), ("TT", 0)):
        assert entry(table, "Op", kind, 0) == number
    assert entry(table, "Op", "NT, int8, quantised", 0) == 4
    assert entry(table, "Other", "NT", 0) == 0


def test_interpolation_keeps_to_its_kernels() -> None:
    """Whatever the type: those of other orders are refused by the operator itself."""
    for dtype in ("float32", "int8", "int16", "float16"):
        builder = GraphBuilder()
        x = builder.input(1, 4, 4, 2, dtype=dtype)
        sizes = builder.constant([1, 8, 8, 2], "int64")
        y = builder.op("Resize", x, "", "", sizes, shape=(1, 8, 8, 2), dtype=dtype, mode="linear")
        assert _names(_rule(builder.graph(y), "Resize")) == ["linear KKRR", "linear KRRK"]


def test_latency_orders_transposes() -> None:
    latency = default_target().latency
    swap = latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 4)
    assert latency.transposition((1, 56, 56, 64), (0, 1, 2, 3), 4) < swap
    assert swap < latency.transposition((64, 56, 56), (2, 1, 0), 4)
    assert latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 1) < swap
    assert latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 8) == pytest.approx(2 * swap, rel=0.2)


def test_an_unmeasured_element_size_costs_as_the_next_larger_one() -> None:
    costs = {"fixed": 0.0, "per_byte": 1.0}
    text = {
        "name": "t",
        "hidden": {},
        "unsupported": {"Resize": ["linear"]},
        "extra": {"Softmax": {"middle": 2.0}},
        "latency": {
            "transpose": {"swap": {"1": costs, "4": {"fixed": 5.0, "per_byte": 2.0}}},
            "reshape": {"fixed": 3.0, "per_byte": 0.0},
        },
    }
    target = load(json.dumps(text))
    assert target.latency.transposition((2, 3), (1, 0), 1) == 6
    assert target.latency.transposition((2, 3), (1, 0), 2) == 29
    assert target.latency.transposition((2, 3), (0, 1), 2) == 3
    assert target.latency.extra == {("Softmax", "middle"): 2.0}
    assert target.unsupported == {("Resize", "linear")}
