"""Loops whose number of turns is known have as many as LiteRT gives them, and lists that they fill hold the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import layoutsolve
from layoutsolve.verification.runtimes import Level
from tests.builder import Builder, Part
from tests.truth import same

ALL: tuple[Level, ...] = ("all",)

COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def counting(
    first: int, step: int, limits: tuple[int, ...], comparison: str, turned: bool, subtract: bool, more: int = 0
) -> bytes:
    """A loop over a counter, and one over the sum of all that it was, as long as comparisons with limits hold; of the
    first limit with so much ``more``.
    """
    builder, sources = Builder(), []
    for name, shape, dtype, data in (("first", (1,), "int32", [first]), ("x", (2,), "float32", None)):
        known = data is not None
        sources.append(builder.constant(name, np.array(data, dtype)) if known else builder.input(name, shape, dtype))
    results = [builder.tensor("last", (1,), "int32"), builder.tensor("total", (2,))]
    builder.operator("WHILE", sources, results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})

    condition = builder.part()
    given = [condition.input("now", (1,), "int32"), condition.input("sum", (2,))]
    truths, compared = [], given[0]
    for at, limit in enumerate(limits):
        bound = condition.constant(f"limit{at}", np.array([limit], np.int32))
        truths.append(condition.tensor(f"holds{at}", (1,), "bool"))
        if more and at == 0:
            compared = condition.tensor("compared", (1,), "int32")
            condition.operator(
                "ADD", [given[0], condition.constant("more", np.array([more], np.int32))], [compared], {}
            )
        operands = [compared if at == 0 else given[0], bound]
        condition.operator(comparison, operands[::-1] if turned else operands, [truths[-1]], {})
    while len(truths) > 1:
        both = condition.tensor(f"both{len(truths)}", (1,), "bool")
        condition.operator("LOGICAL_AND", [truths.pop(), truths.pop()], [both], {})
        truths.append(both)
    condition.outputs(*truths)

    body = builder.part()
    now, total = body.input("now", (1,), "int32"), body.input("sum", (2,))
    following, real, more = (
        body.tensor("following", (1,), "int32"),
        body.tensor("real", (1,)),
        body.tensor("more", (2,)),
    )
    by = body.constant("step", np.array([-step if subtract else step], np.int32))
    body.operator("SUB" if subtract else "ADD", [now, by], [following], {})
    body.operator("CAST", [now], [real], {})
    body.operator("ADD", [total, real], [more], {})
    body.outputs(following, more)
    return builder.finish(*results)


@pytest.mark.members(3)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_number_of_turns(comparison: str, turned: bool) -> None:
    """Upwards and downwards, by one and by more, added or subtracted, with one limit and several, from any number on;
    also where there is no turn at all.
    """
    upwards = comparison.startswith("LESS") != turned
    for number, (step, far, others) in enumerate(product((1, 3), (-2, 0, 1, 5, 6), ((), (0,), (4, -1)))):
        first = (-7, 0, 3)[number // 3 % 3]
        ends = [first + (far + other) * (1 if upwards else -1) for other in (0, *others)]
        source = counting(first, step if upwards else -step, tuple(ends), comparison, turned, number % 2 == 1)
        found = same(source, [np.array([0.5, -0.25], np.float32)], levels=ALL)
        (loop,) = (node for node in found.model.graph.node if node.op_type == "Loop")
        body = loop.attribute[0].g
        runs = bool(loop.input[0])  # else its first condition does not hold
        assert not runs or not {node.op_type for node in body.node} & {"Less", "Greater", "LessOrEqual", "And"}


def test_loops_without_an_end_are_no_counted_ones() -> None:
    """The limit lies behind the first turn, or the counter stands still: what the model says stays as it is."""
    for first, step, limit in ((0, -1, 5), (0, 0, 5)):
        found = layoutsolve.convert(counting(first, step, (limit,), "LESS", False, False))
        (loop,) = (node for node in found.model.graph.node if node.op_type == "Loop")
        assert not loop.input[0]


@pytest.mark.parametrize("room", [0, 5, 27, 40])
def test_sums_that_overflow(room: int) -> None:
    """They begin again at the least number, as LiteRT's do."""
    largest = np.iinfo(np.int32).max
    same(
        counting(-20, 10, (largest, 100), "LESS", False, False, largest - room),
        [np.array([0.5, 1], np.float32)],
        levels=ALL,
    )
    same(
        counting(20, -10, (-largest, -100), "GREATER", False, False, room - largest),
        [np.array([0.5, 1], np.float32)],
        levels=ALL,
    )


def filling(first: int, by: int, count: int, listed: int, fixed: bool) -> bytes:
    """A loop that fills elements into a list: from one on, every so many."""
    builder = Builder()
    sources = [
        builder.constant("first", np.array([first], np.int32)),
        builder.constant("list", np.arange(listed * 2, dtype=np.float32).reshape(listed, 2)),
        builder.input("x", (1, 2)),
    ]
    results = [
        builder.tensor("last", (1,), "int32"),
        builder.tensor("filled", (listed, 2)),
        builder.tensor("y", (1, 2)),
    ]
    builder.operator("WHILE", sources, results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    condition = builder.part()
    now = condition.input("now", (1,), "int32")
    condition.input("so_far", (listed, 2))
    condition.input("x", (1, 2))
    holds = condition.tensor("holds", (1,), "bool")
    limit = condition.constant("limit", np.array([first + by * count], np.int32))
    condition.operator("LESS", [now, limit], [holds], {})
    condition.outputs(holds)
    _fill(builder.part(), listed, by, fixed)
    return builder.finish(*results[1:])


def _fill(part: Part, listed: int, by: int, fixed: bool) -> None:
    now, so_far, x = part.input("now", (1,), "int32"), part.input("so_far", (listed, 2)), part.input("x", (1, 2))
    following, next_ = part.tensor("following", (1,), "int32"), part.tensor("next", (1,), "int32")
    part.operator("ADD", [now, part.constant("by", np.array([by], np.int32))], [following], {})
    part.operator("ADD", [now, part.constant("one", np.ones(1, np.int32))], [next_], {})
    double = part.tensor("double", (1, 2))
    part.operator("ADD", [x, x], [double], {})

    def vector(name: str, index: int, rest: int) -> int:
        result = part.tensor(name, (2,), "int32")
        part.operator("CONCATENATION", [index, part.constant(f"{name}_rest", np.array([rest], np.int32))], [result], {})
        return result

    before, after = (part.tensor(name, (listed, 2), signature=(-1, 2)) for name in ("before", "after"))
    filled = part.tensor("filled", (listed, 2), signature=(-1, 2))
    zeros = part.constant("zeros", np.zeros(2, np.int32))
    part.operator("SLICE", [so_far, zeros, vector("size", now, -1)], [before], {})
    whole = part.constant("whole", np.full(2, -1, np.int32))
    part.operator("SLICE", [so_far, vector("begin", next_, 0), whole], [after], {})
    element = part.constant("fixed", np.array([[3, 4]], np.float32)) if fixed else x
    part.operator("CONCATENATION", [before, element, after], [filled], {"axis": 0})
    part.outputs(following, filled, double)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("listed", [1, 2, 5])
def test_lists(listed: int, fixed: bool) -> None:
    """Elements are collected where each turn fills in the next one, until the list is full."""
    for first, by, count in product((0, 1), (1, 2), (1, 2, 4, 5)):
        if first + by * (count - 1) >= listed:
            continue
        source = filling(first, by, count, listed, fixed)
        found = same(source, [np.array([[0.5, -0.25]], np.float32)], levels=ALL)
        (loop,) = (node for node in found.model.graph.node if node.op_type == "Loop")
        assert ((first, by, count) == (0, 1, listed)) == (
            "Concat" not in {node.op_type for node in loop.attribute[0].g.node}
        )


def test_a_body_has_different_inputs() -> None:
    builder, bodies = Builder(), [("LESS", (), "bool"), ("NEG", (2,), "float32")]
    ends = [builder.input(name, (2,)) for name in ("x", "y")], [builder.tensor(name, (2,)) for name in ("a", "b")]
    builder.operator("WHILE", *ends, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    for op, shape, dtype in bodies:
        part = builder.part()
        given = part.input("x", (2,))
        part.subgraph.inputs.append(given)
        result = part.tensor("result", shape or (2,), dtype)
        part.operator(op, [given, given] if op == "LESS" else [given], [result], {})
        part.outputs(*[result] * (1 if op == "LESS" else 2))
    with pytest.raises(layoutsolve.ConversionError, match="one tensor as several inputs"):
        layoutsolve.convert(builder.finish(*ends[1]))
