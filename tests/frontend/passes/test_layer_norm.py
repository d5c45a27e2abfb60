"""Layer normalisation is recognised however it is written, and only where it is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.frontend.passes.layer_norm import recognise
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.graphs import GraphBuilder, assert_same, feeds

SHAPE = (2, 5, 6)


class Written:
    """The operators that all forms begin with: mean, squares and root. ``flat`` means drop the reduced dimensions,
    ``power`` that squares are powers.
    """

    def __init__(
        self, axes: tuple[int, ...] = (2,), others: tuple[int, ...] = (), flat: bool = False, power: float = 0
    ) -> None:
        self.b = GraphBuilder()
        self.axes, self.flat = axes, flat
        self.kept = tuple(1 if axis in axes else size for axis, size in enumerate(SHAPE))
        self.x = self.b.input(*SHAPE)
        self.m = self.mean(self.x, axes)
        self.d = self.op("Sub", self.x, self.wide(self.m))
        raised = self.op("Pow", self.d, self.b.constant(power)) if power else self.op("Mul", self.d, self.d)
        variance = self.mean(raised, others or axes)
        shifted = self.op("Add", variance, self.b.constant(1e-3))
        self.root = self.op("Sqrt", shifted)
        self.r = self.op("Reciprocal", self.root)
        sizes = [SHAPE[axis] if axis in axes else 1 for axis in range(min(axes), len(SHAPE))]
        self.scale, self.shift = self.b.constant(self.b.random.normal(size=sizes)), self.b.weights(*sizes)

    def mean(self, x: str, axes: tuple[int, ...]) -> str:
        shape = [1 if axis in axes else size for axis, size in enumerate(SHAPE) if not (self.flat and axis in axes)]
        return self.b.op(
            "ReduceMean", x, self.b.constant(list(axes), "int64"), shape=shape, keepdims=int(not self.flat)
        )

    def wide(self, x: str) -> str:
        """A mean that kept its dimensions."""
        return self.b.reshape(x, *self.kept) if self.flat else x

    def op(self, op: str, *inputs: str) -> str:
        shape = np.broadcast_shapes(*(tuple(int(str(dim)) for dim in self.b.shape(name)) for name in inputs))
        return self.b.op(op, *inputs, shape=shape)

    def finished(self, *names: str) -> Graph:
        return self.b.graph(*names)


def divided(w: Written) -> Graph:
    return w.finished(w.op("Add", w.op("Mul", w.op("Div", w.d, w.wide(w.root)), w.scale), w.shift))


def multiplied(w: Written) -> Graph:
    return w.finished(w.op("Add", w.op("Mul", w.op("Mul", w.d, w.wide(w.r)), w.scale), w.shift))


def shift_less_mean(w: Written) -> Graph:
    k = w.op("Mul", w.wide(w.r), w.scale)
    return w.finished(w.op("Add", w.op("Mul", w.x, k), w.op("Sub", w.shift, w.op("Mul", w.wide(w.m), k))))


def negated_mean(w: Written) -> Graph:
    k = w.op("Mul", w.scale, w.wide(w.r))
    rest = w.op("Add", w.op("Mul", w.wide(w.op("Neg", w.m)), k), w.shift)
    return w.finished(w.op("Add", w.op("Mul", w.x, k), rest))


def zero_less_mean(w: Written) -> Graph:
    rest = w.op("Sub", w.b.constant(0.0), w.op("Mul", w.r, w.m))
    return w.finished(w.op("Add", w.op("Mul", w.x, w.wide(w.r)), w.wide(rest)))


FORMS = [divided, multiplied, shift_less_mean, negated_mean, zero_less_mean]


def alike(graph: Graph, other: Graph) -> None:
    data = feeds(graph)
    assert_same(graph, other, data, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("power", [0, 2])
@pytest.mark.parametrize("axes", [(2,), (1, 2), (0, 1, 2)])
def test_forms(form: Callable[[Written], Graph], axes: tuple[int, ...], power: float, flat: bool) -> None:
    graph = form(Written(axes, flat=flat, power=power))
    found = recognise(graph)
    assert [node.op for node in found.nodes] == ["LayerNormalization"]
    alike(graph, found)
    for objective in ("min-executed", "min-transpose"):
        alike(graph, apply(assign(found, objective=objective)))


def test_what_several_read() -> None:
    """A normalisation that is scaled for one reader and not for the other is computed once."""
    w = Written()
    normal = w.op("Mul", w.d, w.r)
    graph = w.finished(w.op("Mul", normal, w.scale), w.op("Add", normal, w.shift))
    found = recognise(graph)
    assert [node.op for node in found.nodes] == ["LayerNormalization", "Mul", "Add"]
    alike(graph, found)


def test_position_embedding_stays() -> None:
    w = Written()
    graph = w.finished(w.op("Add", w.op("Mul", w.d, w.r), w.b.constant(w.b.random.normal(size=SHAPE))))
    found = recognise(graph)
    assert [node.op for node in found.nodes] == ["LayerNormalization", "Add"]
    alike(graph, found)


def _other_axes() -> Graph:
    return divided(Written((2,), (1, 2)))


def _outer_axis() -> Graph:
    return divided(Written((1,)))


def _scaled_differently() -> Graph:
    w = Written()
    return w.finished(w.op("Sub", w.op("Mul", w.op("Mul", w.x, w.r), w.scale), w.op("Mul", w.m, w.r)))


def _not_centred() -> Graph:
    w = Written()
    return w.finished(w.op("Mul", w.x, w.r))


def _cubed() -> Graph:
    return divided(Written(power=3))


@pytest.mark.parametrize("make", [_cubed, _other_axes, _outer_axis, _scaled_differently, _not_centred])
def test_misses(make: Callable[[], Graph]) -> None:
    graph = make()
    assert recognise(graph) is graph
