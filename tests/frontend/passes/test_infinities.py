"""Infinite constants that are added: what LiteRT makes of them, which keeps such sums within the finite numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.builder import Builder
from tests.truth import same

ROWS, COLUMNS = 3, 4

VIEWS = ("", "RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "TILE", "SLICE")


def masked(adding: str, view: str, chosen: bool, also: bool, first: bool) -> bytes:
    """A softmax of numbers to which a mask of infinities is added, or from which it is taken; ``chosen`` at run time
    or constant, seen through a ``view``, and given as it is ``also``.
    """
    builder = Builder()
    x = builder.input("x", (ROWS, COLUMNS))
    infinite = np.float32(-np.inf if adding == "ADD" else np.inf)
    if chosen:
        kept = builder.input("kept", (ROWS, COLUMNS), "bool")
        ends = [builder.constant(name, np.array(value, np.float32)) for name, value in (("0", 0), ("inf", infinite))]
        mask = builder.tensor("mask", (ROWS, COLUMNS))
        builder.operator("SELECT_V2", [kept, *ends], [mask], {})
    else:
        data = np.zeros((ROWS, COLUMNS), np.float32)
        data[0], data[1, 2:] = infinite, infinite
        mask = builder.constant("mask", data)
    seen = mask
    if view:
        seen = _viewed(builder, mask, view)
        back = builder.tensor("back", (ROWS, COLUMNS))
        builder.operator("RESHAPE", [seen, builder.constant("sizes", np.array([ROWS, COLUMNS], np.int32))], [back], {})
        seen = back
    added, result = builder.tensor("added", (ROWS, COLUMNS)), builder.tensor("result", (ROWS, COLUMNS))
    operands = [x, seen] if first or adding == "SUB" else [seen, x]
    builder.operator(adding, operands, [added], {})
    builder.operator("SOFTMAX", [added], [result], {"beta": 1.0})
    if not also:
        return builder.finish(result)
    exponential = builder.tensor("exponential", (ROWS, COLUMNS))
    builder.operator("EXP", [mask], [exponential], {})
    return builder.finish(result, exponential)


def _viewed(builder: Builder, mask: int, view: str) -> int:
    numbers, shape = {
        "RESHAPE": ([2, 6], (2, 6)),
        "TRANSPOSE": ([1, 0], (COLUMNS, ROWS)),
        "EXPAND_DIMS": (1, (ROWS, 1, COLUMNS)),
        "TILE": ([1, 1], (ROWS, COLUMNS)),
        "SLICE": ([0, 0], (ROWS, COLUMNS)),
    }[view]
    result = builder.tensor("seen", shape)
    given = [mask, builder.constant("numbers", np.array(numbers, np.int32))]
    if view == "SLICE":
        given.append(builder.constant("counts", np.array(shape, np.int32)))
    builder.operator(view, given, [result], {})
    return result


@pytest.mark.parametrize(("adding", "view"), product(("ADD", "SUB"), VIEWS))
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("also", [False, True])
def test_a_row_that_is_masked_as_a_whole_is_as_in_litert(adding: str, view: str, chosen: bool, also: bool) -> None:
    random = np.random.default_rng(0)
    source = masked(adding, view, chosen, also, first=view == "TILE")
    x = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    for kept in [random.random((ROWS, COLUMNS)) < share for share in ((0, 0.5, 1) if chosen else (0,))]:
        found = same(source, [x, kept] if chosen else [x], 1e-6)
        clipped = any(node.op_type == "Clip" for node in found.model.graph.node)
        assert also or not clipped, "a constant that is added alone is made finite itself"


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_two_masks_one_after_the_other(joined: bool, half: bool, turned: bool) -> None:
    """Added to numbers in turn, or to each other first; one of them may be half computed, and the first sum turned
    twice before the second.
    """
    builder, shape = Builder(), (ROWS, COLUMNS)
    x, kept = builder.input("x", shape), builder.input("kept", shape, "bool")
    ends = [builder.constant(name, np.array(value, np.float32)) for name, value in (("0", 0), ("inf", -np.inf))]
    causal = np.where(np.arange(COLUMNS) > np.arange(ROWS)[:, None], -np.inf, 0).astype(np.float32)
    causal[0] = -np.inf
    masks = [builder.tensor("chosen", shape), builder.constant("causal", causal)]
    builder.operator("SELECT_V2", [kept, *ends], masks[:1], {})
    if half:
        sides = [builder.constant("left", causal[:, :2]), builder.input("right", (ROWS, 2))]
        masks[1] = builder.tensor("halves", shape)
        builder.operator("CONCATENATION", sides, [masks[1]], {"axis": 1})
    order = [masks[0], masks[1], x] if joined else [x, masks[0], masks[1]]
    first, second, result = (builder.tensor(name, shape) for name in ("first", "second", "result"))
    builder.operator("ADD", order[:2], [first], {})
    if turned:
        perm = builder.constant("perm", np.array([1, 0], np.int32))
        rows, back = builder.tensor("rows", (COLUMNS, ROWS)), builder.tensor("back", shape)
        builder.operator("TRANSPOSE", [first, perm], [rows], {})
        builder.operator("TRANSPOSE", [rows, perm], [back], {})
        first = back
    builder.operator("ADD", [first, order[2]], [second], {})
    builder.operator("SOFTMAX", [second], [result], {"beta": 1.0})
    random = np.random.default_rng(0)
    for share in (0, 0.5, 1):
        given = [random.normal(size=shape).astype(np.float32), random.random(shape) < share]
        same(builder.finish(result), [*given, np.zeros((ROWS, 2), np.float32)] if half else given, 1e-6)


@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL", "DIV"])
def test_constants_are_as_litert_computes_them(operator: str) -> None:
    builder = Builder()
    numbers = np.array([-np.inf, -3e38, -1, 1, 3e38, np.inf], np.float32)
    a, b = (builder.constant(name, each) for name, each in (("a", numbers[:, None]), ("b", numbers[None])))
    made, x, result = builder.tensor("made", (6, 6)), builder.input("x", (6, 6), "bool"), builder.tensor("r", (6, 6))
    builder.operator(operator, [a, b], [made], {})
    builder.operator("SELECT_V2", [x, made, builder.constant("none", np.zeros((6, 6), np.float32))], [result], {})
    same(builder.finish(result), [np.ones((6, 6), bool)])
