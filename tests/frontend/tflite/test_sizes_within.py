"""Sizes that are needed within branches and loops, and those that only data decide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Part
from tests.truth import litert

ANY = (-1, -1, 4)
"""The shape of what is handed into branches and loops."""


def tensor(part: Part, name: str, dtype: str = "float32") -> int:
    return part.tensor(name, (1, 1, 4), dtype, signature=ANY)


def crossed(part: Part, x: int) -> int:
    """A tensor whose first axes are exchanged, merged, and then split as if they never were."""
    shape = part.tensor("shape", (3,), "int32")
    part.operator("SHAPE", [x], [shape], {"out_type": "int32"})
    turned, active, result = tensor(part, "turned"), part.tensor("active", (1, 4), signature=(-1, 4)), tensor(part, "r")
    flat = part.tensor("flat", (1, 4), signature=(-1, 4))
    part.operator("TRANSPOSE", [x, part.constant("perm", np.array([1, 0, 2], np.int32))], [turned], {})
    part.operator("RESHAPE", [turned, part.constant("rows", np.array([-1, 4], np.int32))], [flat], {})
    part.operator("TANH", [flat], [active])
    part.operator("RESHAPE", [active, shape], [result], {})
    return result


def branches() -> bytes:
    """Both branches reshape, and so does what comes after them."""
    builder = Builder()
    inputs = [builder.input("chosen", (), "bool"), builder.input("x", (1, 1, 4), signature=ANY)]
    for negative in (False, True):
        part = builder.part()
        result = crossed(part, part.input("x", (1, 1, 4), signature=ANY))
        if negative:
            before, result = result, tensor(part, "negative")
            part.operator("NEG", [before], [result])
        part.outputs(result)
    joined = tensor(builder, "joined")
    builder.operator("IF", inputs, [joined], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    return builder.finish(crossed(builder, joined))


def turns(growing: bool) -> bytes:
    """A loop whose body reshapes; with ``growing`` an axis is longer after each turn."""
    builder = Builder()
    inputs = [builder.input("turn", (), "int32"), builder.input("x", (1, 1, 4), signature=ANY)]
    ports = []
    for _ in range(2):
        part = builder.part()
        ports.append((part, part.input("turn", (), "int32"), part.input("x", (1, 1, 4), signature=ANY)))
    (part, turn, _), (body, number, x) = ports
    below = part.tensor("below", (), "bool")
    part.operator("LESS", [turn, part.constant("limit", np.int32(3))], [below])
    part.outputs(below)
    following, result = body.tensor("following", (), "int32"), crossed(body, x)
    body.operator("ADD", [number, body.constant("one", np.int32(1))], [following], {})
    if growing:
        part_of, result = result, tensor(body, "longer")
        body.operator("CONCATENATION", [part_of, x], [result], {"axis": 1})
    body.outputs(following, result)
    last, left = builder.tensor("last", (), "int32"), tensor(builder, "left")
    builder.operator("WHILE", inputs, [last, left], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    return builder.finish(crossed(builder, left))


MODELS: dict[str, Callable[[], bytes]] = {
    "branches": branches,
    "loop": lambda: turns(False),
    "growing": lambda: turns(True),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("ends", ["keep", "free"])
def test_sizes_in_regions(name: str, ends: str) -> None:
    random = np.random.default_rng(0)
    source = MODELS[name]()
    given = [
        [np.array(bool(first)) if name == "branches" else np.array(first, np.int32),
         random.normal(size=(*sizes, 4)).astype(np.float32)]
        for first, sizes in ((0, (1, 5)), (1, (3, 2)), (2, (2, 7)))
    ]  # fmt: skip
    agree(source, given, ends)


@pytest.mark.parametrize("count", [4, 7, 12])
def test_size_that_data_decide(count: int) -> None:
    """Nothing but the shape of a tensor is read: it is computed all the same."""
    builder = Builder()
    x = builder.input("x", (1,), signature=(-1,))
    mask, places = builder.tensor("mask", (1,), "bool", signature=(-1,)), builder.tensor("places", (1, 1), "int64")
    builder.operator("GREATER", [x, builder.constant("zero", np.float32(0))], [mask], {})
    builder.operator("WHERE", [mask], [places], {})
    shape, filled = builder.tensor("shape", (2,), "int32"), builder.tensor("filled", (1, 1), signature=(-1, -1))
    builder.operator("SHAPE", [places], [shape], {"out_type": "int32"})
    builder.operator("FILL", [shape, builder.constant("three", np.float32(3))], [filled], {})
    data = np.arange(count, dtype=np.float32) - count // 3
    agree(builder.finish(filled), [[data]], "keep")


def agree(source: bytes, given: list[list[Array]], ends: str) -> None:
    """Raise AssertionError unless the converted model gives what LiteRT gives."""
    conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
    runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
    moved = conversion.permutations(inputs=False)
    for data in given:
        results = runtime.run(feeds(runtime, data, conversion.permutations(inputs=True)))
        for name, expected, stored in zip(runtime.outputs, litert().run(source, data).results, results, strict=True):
            actual = np.transpose(stored, np.argsort(moved[name])) if name in moved else stored
            np.testing.assert_allclose(actual, expected, atol=1e-5)
