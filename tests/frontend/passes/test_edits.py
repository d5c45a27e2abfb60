"""Graphs that passes rewrite, with one thing changed: whatever a pass makes of them computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.passes import (
    affine,
    block_moves,
    dilations,
    hard_activations,
    layer_norm,
    layer_scales,
    pad_absorption,
    upsampling,
)
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Value
from tests.frontend.passes import test_affine as by_affine
from tests.frontend.passes import test_block_moves as by_blocks
from tests.frontend.passes import test_borders as by_borders
from tests.frontend.passes import test_dilations as by_dilations
from tests.frontend.passes import test_gates as by_gates
from tests.frontend.passes import test_layer_norm as by_norms
from tests.frontend.passes import test_layer_scales as by_scales
from tests.frontend.passes import test_upsampling as by_pixels
from tests.graphs import computed, feeds

NEAR = 1e-3
"""How far results may be apart, of their largest element: sums in another order."""


def gated(seed: int) -> Graph:
    b = by_gates.Gates(seed)
    x = b.input(2, 5, 4)
    ramp = b.ramp(x, 3.0, 6.0)
    return b.graph(b.sides("Mul", x, b.scaled(ramp, 6.0)) if seed % 2 else b.scaled(b.sides("Mul", x, ramp), 6.0))


def blocks(seed: int) -> Graph:
    sides = [*by_blocks.EXPECTED][seed % len(by_blocks.EXPECTED)]
    return by_blocks.by_hand(sides, seed % 2 == 0, by_blocks.random_sizes(seed))


def dilated(seed: int) -> Graph:
    inner = [*by_dilations.FOUND.values()][seed % len(by_dilations.FOUND)]
    return by_dilations.between(inner, [(2,), (2, 3), (3, 1)][seed % 3], seed, 1 + seed % 2)


def normalized(seed: int) -> Graph:
    forms = by_norms.divided, by_norms.multiplied, by_norms.shift_less_mean, by_norms.negated_mean
    return forms[seed % 4](by_norms.Written((2,) if seed % 3 else (1, 2), flat=seed % 5 == 0, power=2 * (seed % 2)))


def padded(seed: int) -> Graph:
    b = by_borders.Padded(seed)
    sides = b.random.integers(0, 3, 4).tolist()
    y = b.pad(b.input(1, 3, 5, 4), (0, 0, *sides[:2], 0, 0, *sides[2:]), 0.0 if seed % 2 else None)
    turned = b.transpose(b.transpose(y, 0, 2, 3, 1), 0, 3, 1, 2, pattern=True) if seed % 3 else y
    return b.graph(b.plain(turned), *([b.plain(y, 3)] if seed % 5 == 0 else []))


def repeated(seed: int) -> Graph:
    b = by_pixels.Images(seed)
    x = b.input(2, 3, 4, 2)
    y = b.along(x, 1 + seed % 2, 2, by_pixels.KINDS[seed % 4])
    return b.graph(b.along(y, 2 - seed % 2, 3, by_pixels.KINDS[seed % 4]) if seed % 3 else y)


Pass = Callable[[Graph], Graph]

PASSES: Mapping[str, tuple[Pass, Callable[[int], Graph]]] = {
    "affine": (affine.folded, lambda seed: by_affine.row(seed, 3 + seed % 3)),
    "block moves": (block_moves.recognise, blocks),
    "dilations": (dilations.recognise, dilated),
    "hard activations": (hard_activations.recognise, gated),
    "layer norm": (layer_norm.recognise, normalized),
    "layer scales": (lambda graph: layer_scales.folded(graph, Budget()), by_scales.scaled),
    "padding": (pad_absorption.absorbed, padded),
    "upsampling": (upsampling.recognise, repeated),
}

LIKE = (("Add", "Sub", "Mul", "Div"), ("ReduceMean", "ReduceMax", "ReduceSum"), ("Relu", "Sqrt", "Neg", "Abs"))
"""Operators that take each other's place."""


def changed(node: Node, random: np.random.Generator) -> Iterator[Node]:
    """A node with another attribute, another operator, or operands the other way round."""
    for name, value in node.attributes.items():
        if isinstance(value, int):
            yield replace(node, attributes={**node.attributes, name: value + int(random.choice([-1, 1]))})
        elif isinstance(value, (tuple, list)) and value and all(isinstance(each, int) for each in value):
            place, other = random.integers(len(value), size=2).tolist()
            entries = [*value]
            entries[place] = value[other] if random.random() < 0.5 else value[place] + int(random.choice([-1, 1]))
            entries[other] = value[place] if entries[place] == value[other] else entries[other]
            yield replace(node, attributes={**node.attributes, name: tuple(entries)})
    for group in LIKE:
        if node.op in group:
            yield replace(node, op=str(random.choice(group)))
    if len(node.inputs) == 2:
        yield replace(node, inputs=node.inputs[::-1])


def numbers(value: Value, random: np.random.Generator) -> Value:
    """A constant, one of whose numbers is another one, or all."""
    data = np.array(value.data)
    place = np.unravel_index(int(random.integers(data.size)), data.shape) if random.random() < 0.7 else ...
    data[place] = data[place] + 1 if data.dtype.kind in "iu" else data[place] * random.choice([2.0, -1.0, 0.0])
    return replace(value, data=data)


def edited(graph: Graph, random: np.random.Generator) -> Graph:
    """A graph with one random change: of a node, of a constant, or of what else reads a tensor within."""
    kind = random.random()
    constants = [value for value in graph.values.values() if value.data is not None and value.data.size]
    if kind < 0.3 and constants:
        value = constants[int(random.integers(len(constants)))]
        return replace(graph, values={**graph.values, value.name: numbers(value, random)})
    place = int(random.integers(len(graph.nodes)))
    node = graph.nodes[place]
    if kind < 0.45 and node.outputs[0] not in graph.outputs:
        return replace(graph, outputs=(*graph.outputs, node.outputs[0]))
    others = [*changed(node, random)]
    if not others:
        return graph
    other = others[int(random.integers(len(others)))]
    return replace(graph, nodes=(*graph.nodes[:place], other, *graph.nodes[place + 1 :]))


def outcome(graph: Graph, data: Any) -> list[Array] | None:
    """The outputs of a graph; None where it is none that runs."""
    try:
        return computed(serialise(graph), data)[: len(graph.outputs)]
    except (ConversionError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
        return None
    except Exception as error:  # ONNX Runtime has a class of exception for each status
        assert type(error).__module__.startswith("onnxruntime")
        return None


@pytest.mark.parametrize("name", PASSES)
def test_a_graph_with_one_change_computes_the_same(name: str) -> None:
    """Of those that still run, of which some are rewritten."""
    rewriting, family = PASSES[name]
    rewritten = 0
    for seed in range(50):
        random = np.random.default_rng(seed)
        graph = edited(family(seed), random)
        data = feeds(graph, seed)
        truth = outcome(graph, data)
        if truth is None:
            continue
        found = rewriting(graph)
        rewritten += found is not graph
        if found is graph or not all(np.isfinite(each).all() for each in truth):
            continue
        again = outcome(found, data)
        assert again is not None, seed
        for expected, result in zip(truth, again, strict=True):
            assert result.shape == expected.shape and result.dtype == expected.dtype, seed
            size = float(np.abs(expected.astype(np.float64)).max(initial=0.0)) + 1e-3
            assert np.abs(result.astype(np.float64) - expected).max(initial=0.0) <= NEAR * size, seed
    assert rewritten
