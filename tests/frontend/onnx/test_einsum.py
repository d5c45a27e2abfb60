"""Einsums whose operands are repeated along dimensions of size 1, with ellipses and open sizes, among Transposes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import layoutsolve
from experiments.onnx_shared import session
from layoutsolve.errors import ModelError
from layoutsolve.ir.graph import Array

SEEDS, SHARES = 240, 8

ELLIPSIS = "..."


def _equation(random: Random) -> tuple[str, list[list[int]], int]:
    """An equation, the sizes of its operands, of which some are 1 where others are not, and the rank of its result."""
    size = {letter: random.choice((1, 2, 3, 4)) for letter in "abcd"}
    around = [random.choice((1, 2, 3)) for _ in range(random.choice((1, 2)))] if random.random() < 0.4 else []
    terms, shapes = [], []
    for number in range(random.choice((1, 2, 2, 2, 3))):
        labels = random.sample("abcd", random.randint(1, 3))
        shape = [size[letter] if random.random() < 0.85 else 1 for letter in labels]
        if around and (not number or random.random() < 0.8):
            at = random.randint(0, len(labels))
            shape[at:at] = [dim if random.random() < 0.8 else 1 for dim in around]
            labels.insert(at, ELLIPSIS)
        terms.append("".join(labels))
        shapes.append(shape)
    used = "".join(terms).replace(".", "")
    labels = random.sample(sorted({*used}), random.randint(0, len({*used})))
    if around:
        labels.insert(random.randint(0, len(labels)), ELLIPSIS)
    result = f"->{''.join(labels)}"
    if random.random() < 0.1:
        labels = [*([ELLIPSIS] if around else []), *(letter for letter in used if used.count(letter) == 1)]
        result = ""
    return random.choice((",", " , ")).join(terms) + result, shapes, len(labels) + (len(around) - 1 if around else 0)


def model(seed: int) -> tuple[ModelProto, dict[str, Array]]:
    """A random Einsum behind and before Transposes, some sizes of whose inputs are open, and what it is given."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    equation, shapes, rank = _equation(random)
    nodes, ports, feeds = [], [], {}
    for number, shape in enumerate(shapes):
        name, perm = f"x{number}", random.sample(range(len(shape)), len(shape))
        given = [shape[perm.index(axis)] for axis in range(len(shape))]
        feeds[name] = numbers.integers(-3, 4, given).astype(np.float32)
        stated = [dim if random.random() < 0.6 else f"{name}_{axis}" for axis, dim in enumerate(given)]
        ports.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, stated))
        nodes.append(helper.make_node("Transpose", [name], [f"t{number}"], perm=perm))
    nodes.append(helper.make_node("Einsum", [node.output[0] for node in nodes], ["e"], equation=equation))
    perm = random.sample(range(rank), rank)
    nodes.append(
        helper.make_node("Transpose", ["e"], ["y"], perm=perm) if rank else helper.make_node("Abs", ["e"], ["y"])
    )
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), feeds


@pytest.mark.members(4)
@pytest.mark.parametrize("share", range(SHARES))
def test_values_and_shapes(share: int) -> None:
    """Each gives what ONNX Runtime gives for the model as it is, and every Transpose is absorbed."""
    for seed in range(share, SEEDS, SHARES):
        source, feeds = model(seed)
        (truth,) = session(source.SerializeToString(), "none").run(None, feeds)
        found = layoutsolve.convert(source.SerializeToString(), objective="min-transpose")
        for level in ("none", "all"):
            (made,) = session(found.model.SerializeToString(), level).run(None, feeds)
            assert made.shape == truth.shape, seed
            assert np.array_equal(made, truth), seed
        assert "Transpose" not in {node.op_type for node in found.model.graph.node}, seed


def test_within_a_branch() -> None:
    """An Einsum in a branch, along an open size that is 1, and a Transpose of what comes out of the If."""
    branches = {}
    for name, op in (("then_branch", "Identity"), ("else_branch", "Neg")):
        nodes = [
            helper.make_node("Einsum", ["x", "b", "x2"], [f"{name}/e"], equation="ac,b,a->ca"),
            helper.make_node(op, [f"{name}/e"], [f"{name}/r"]),
        ]
        branches[name] = helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}/r", 1, None)])
    nodes = [
        helper.make_node("If", ["q"], ["r"], **branches),
        helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0]),
    ]
    shapes: dict[str, list[int | str | None]] = {"x": ["n", 3], "b": [2], "x2": [4]}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    ports.append(helper.make_tensor_value_info("q", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    found = layoutsolve.convert(source).model.SerializeToString()
    feeds = {"x": np.ones((1, 3), np.float32), "b": np.ones(2, np.float32), "x2": np.arange(4, dtype=np.float32)}
    for branch in (True, False):
        given = {**feeds, "q": np.array(branch)}
        (truth,), (made,) = (session(each, "none").run(None, given) for each in (source, found))
        assert made.shape == truth.shape == (4, 3)
        assert np.array_equal(made, truth)


@pytest.mark.parametrize(("equation", "shapes"), [("ab,b->a", ([2, 3], [4])), ("...a,...->...a", ([2, 3], [3]))])
def test_sizes_that_contradict_each_other(equation: str, shapes: tuple[list[int], ...]) -> None:
    """A label of two sizes of which none is 1 is refused, also where it is summed over."""
    ports = [helper.make_tensor_value_info(f"x{at}", TensorProto.FLOAT, shape) for at, shape in enumerate(shapes)]
    node = helper.make_node("Einsum", [port.name for port in ports], ["y"], equation=equation)
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    with pytest.raises(ModelError, match="broadcast"):
        layoutsolve.convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
