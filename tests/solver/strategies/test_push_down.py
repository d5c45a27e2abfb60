"""Pushing Transposes as ONNX Runtime does: what it finds, and where it stops."""

from __future__ import annotations

from layoutsolve.solver import Assignment, assign
from tests.graphs import GraphBuilder


def pushed(builder: GraphBuilder, *outputs: str) -> Assignment:
    """What the strategy makes of a graph, whose proven minimum it cannot be below."""
    graph = builder.graph(*outputs)
    found = assign(graph, strategy="push", objective="min-transpose")
    assert (found.strategy, found.bound) == ("push", 0)
    assert found.status == ("feasible" if any(tier.value for tier in found.tiers) else "optimal")
    assert found.price.transposes >= assign(graph, objective="min-transpose").bound
    return found


def image(builder: GraphBuilder) -> str:
    """A convolution's result, behind the Transpose from channels-first."""
    return builder.conv(builder.input(1, 8, 8, 4), 6, 3)


def test_between_convolutions() -> None:
    """Two Transposes meet and are gone."""
    b = GraphBuilder()
    assert pushed(b, b.conv(b.relu(b.relu(image(b))), 4, 3)).price.transposes == 2


def test_source_transposes_meet_too() -> None:
    b = GraphBuilder()
    x = b.transpose(b.relu(b.transpose(b.input(2, 3, 4), 2, 0, 1)), 1, 2, 0)
    assert pushed(b, x).price.transposes == 0


def test_join() -> None:
    """Both inputs of a sum are transposed: both Transposes go for one behind it, which meets that of a convolution."""
    b = GraphBuilder()
    x = image(b)
    assert pushed(b, b.conv(b.add(x, b.conv(x, 6, 3)), 4, 3)).price.transposes == 2


def test_swish() -> None:
    """The Transpose in front of both readers of a tensor can go: both let it pass, one after the other."""
    b = GraphBuilder()
    x = image(b)
    gate = b.op("Sigmoid", x, shape=b.shape(x))
    assert pushed(b, b.conv(b.op("Mul", x, gate, shape=b.shape(x)), 4, 3)).price.transposes == 2


def test_no_gain_no_push() -> None:
    """A Transpose that would meet no other stays where it is; its number would be the same behind the operator."""
    b = GraphBuilder()
    x = image(b)
    y = b.relu(x)
    found = pushed(b, y)
    (relu,) = (number for number, operator in enumerate(found.problem.operators) if "Relu" in operator.title)
    source, target = (found.problem.variables[variable] for variable in found.problem.operators[relu].ports)
    assert found.row(relu).layouts == (source.readings[x], target.readings[y])
    assert found.price.transposes == 2


def test_half_transposed_join() -> None:
    """One input of a sum is transposed, the other is not: either way there is one Transpose, so nothing moves."""
    b = GraphBuilder()
    x = b.conv(b.add(image(b), b.relu(b.input(1, 8, 8, 6))), 4, 3)
    assert pushed(b, x).price.transposes == 4
    assert assign(b.graph(x)).price.transposes == 3


def test_reshapes_stop() -> None:
    """A flattening stops a Transpose that the solver sees through; added and dropped unit dimensions do not stop it."""
    b = GraphBuilder()
    assert pushed(b, b.dense(b.reshape(image(b), 1, 384), 10)).price.transposes == 2
    b = GraphBuilder()
    x = b.reshape(b.relu(b.reshape(image(b), 8, 1, 8, 6)), 1, 8, 8, 6)
    assert pushed(b, b.conv(x, 4, 3)).price.transposes == 2


def test_fixed_formats_stop() -> None:
    """A dense layer takes rows only, so a Transpose in front of it stays."""
    b = GraphBuilder()
    x = b.transpose(b.input(5, 3), 1, 0)
    assert pushed(b, b.transpose(b.dense(x, 4), 1, 0)).price.transposes == 2
