"""Arithmetic on sizes: whatever is computed of symbols is what comes of their numbers, and equal sizes are equal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np
import pytest

from layoutsolve.frontend.arithmetic import Arithmetic, Meanings
from layoutsolve.frontend.shapes import LAST, Span, span_size
from layoutsolve.ir.graph import Dim, Graph, Node, Size, Value, product, symbol
from layoutsolve.ir.symbolic_sizes import Formula, Polynomial
from tests.graphs import run

NAMES = ("a", "b", "c")
A, B = symbol("a"), symbol("b")


@pytest.fixture
def sizes() -> Arithmetic:
    numbers = count()
    return Arithmetic(Meanings(lambda name: f"{name}_{next(numbers)}"), "x")


def evaluate(dim: Dim, formulas: Mapping[str, Formula], known: Mapping[str, int]) -> int:
    """A size in numbers, given those of the free symbols."""
    if isinstance(dim, int):
        return dim
    return _value(Polynomial(((dim.symbols, dim.coefficient),)), formulas, known)


def _value(polynomial: Polynomial, formulas: Mapping[str, Formula], known: Mapping[str, int]) -> int:
    total = 0
    for symbols, factor in polynomial.terms:
        for name in symbols:
            factor *= known[name] if name in known else _meaning(formulas[name], formulas, known)
        total += factor
    return total


def _meaning(formula: Formula, formulas: Mapping[str, Formula], known: Mapping[str, int]) -> int:
    operands = [_value(operand, formulas, known) for operand in formula.operands]
    if formula.op == "quotient":
        return operands[0] // operands[1]
    if formula.op == "broadcast":
        return next((operand for operand in operands if operand != 1), 1)
    if formula.op == "min":
        return min(operands)
    return max(operands) if formula.op == "max" else operands[0]


Known = dict[str, int]
Pair = tuple[Dim, list[int]]
"""A size, and what it is for several sizes of the symbols."""


def expression(sizes: Arithmetic, random: np.random.Generator, depth: int, knowns: list[Known]) -> Pair:
    """A random expression."""
    if not depth:
        name = str(random.choice(NAMES))
        number = int(random.integers(1, 9))
        return (symbol(name), [known[name] for known in knowns]) if random.random() < 0.8 else (number, [number] * 3)
    (left, lefts), (right, rights) = (expression(sizes, random, depth - 1, knowns) for _ in range(2))
    kind, number = int(random.integers(7)), int(random.integers(1, 7))
    pairs = list(zip(lefts, rights, strict=True))
    if kind == 0:
        return sizes.total((left, right)), [one + other for one, other in pairs]
    if kind == 1:
        return sizes.difference(left, right), [one - other for one, other in pairs]
    if kind == 2:
        return product((left, right)), [one * other for one, other in pairs]
    if kind == 3:
        return sizes.quotient(left, number), [one // number for one in lefts]
    if kind == 4:
        return sizes.remainder(left, number), [one % number for one in lefts]
    if kind == 5:
        return sizes.largest((left, right)), [max(pair) for pair in pairs]
    return sizes.smallest((left, right)), [min(pair) for pair in pairs]


@pytest.mark.parametrize("seed", range(60))
def test_expressions(sizes: Arithmetic, seed: int) -> None:
    """Expressions mean what they say, in Python and in the model that computes them."""
    random = np.random.default_rng(seed)
    knowns = [dict(zip(NAMES, map(int, random.integers(1, 30, 3)), strict=True)) for _ in range(3)]
    found = [expression(sizes, random, depth, knowns) for depth in (1, 2, 3, 4)]
    formulas = sizes.meanings.formulas
    for dim, values in found:
        assert [evaluate(dim, formulas, known) for known in knowns] == values
        assert not sizes.never_negative(dim) or min(values) >= 0
    graph = asking([dim for dim, _ in found], sizes)
    for number, known in enumerate(knowns):
        (vector,) = run(graph, [np.zeros([known[name] for name in NAMES], np.float32)])
        assert vector.tolist() == [values[number] for _, values in found]


def asking(dims: list[Dim], sizes: Arithmetic) -> Graph:
    """A graph that gives sizes, made of those of its input."""
    x = Value("x", "float32", tuple(map(symbol, NAMES)))
    out = Value("out", "int64", (len(dims),))
    node = Node("Sizes", (), ("out",), {"dims": tuple(dims)})
    return Graph("sizes", {"x": x, "out": out}, (node,), ("x",), ("out",), formulas=sizes.meanings.formulas)


@pytest.mark.parametrize("seed", range(40))
def test_spans(sizes: Arithmetic, seed: int) -> None:
    """A span of an axis takes as many elements as Python's slices do."""
    random = np.random.default_rng(seed)
    for _ in range(20):
        bounds = [int(bound) for bound in random.integers(-6, 7, 2)]
        step = int(random.choice([-3, -2, -1, 1, 1, 2, 3]))
        last = LAST if step > 0 else -LAST
        span = Span(bounds[0], last if random.random() < 0.4 else bounds[1], step)
        taken = span_size(A, span, sizes)
        for size in range(9):
            length = evaluate(taken, sizes.meanings.formulas, {"a": size})
            assert length == len(range(*span.python.indices(size))), f"{span} of {size}"


def test_equal_sizes_are_equal(sizes: Arithmetic) -> None:
    half = sizes.quotient(sizes.total((A, 1)), 2)
    assert sizes.quotient(sizes.total((half, 1)), 2) == sizes.quotient(sizes.total((A, 3)), 4)
    assert sizes.difference(sizes.total((A, B, 3)), sizes.total((B, 3))) == A
    assert sizes.total((product((A, B)), B)) == product((B, sizes.total((1, A))))
    assert sizes.smallest((product((2, half)), A)) == A
    assert sizes.largest((sizes.total((A, 1)), 1)) == sizes.total((A, 1))
    assert sizes.quotient(sizes.total((product((4, A)), 7)), 4) == sizes.total((A, 1))
    both = sizes.broadcast((A, B))
    assert isinstance(both, Size)
    assert sizes.broadcast((both, A)) == both


def test_sums_stay_small(sizes: Arithmetic) -> None:
    """A product of sums is not multiplied out without end."""
    size: Dim = 1
    for number in range(40):
        size = product((size, sizes.total((symbol(f"s{number}"), 1))))
    total = sizes.total((size, 1))
    assert evaluate(total, sizes.meanings.formulas, {f"s{number}": 1 for number in range(40)}) == 2**40 + 1
    assert all(len(each.terms) <= 128 for formula in sizes.meanings.formulas.values() for each in formula.operands)
