"""Constant folding agrees with ONNX Runtime bit for bit on the edge values of every type, or is left to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.onnx import constant_kernels
from layoutsolve.ir.graph import Array
from tests.frontend.onnx.test_random import run

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")

_BINARY = (
    "Add", "And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mul", "Or", "Sub", "Xor",
)  # fmt: skip

Case = tuple[Sequence[Array], Mapping[str, object]]


def edges(dtype: str) -> Array:
    """The values of a type at which arithmetic wraps, saturates, rounds or is undefined."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        signed = [-128, -7, -3, -2, -1] if info.min else []
        found = [info.min, info.min + 1, *signed, 0, 1, 2, 3, 5, 7, 100, info.max // 2, info.max - 1, info.max]
        return np.array(sorted(set(found)), dtype)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    info = ml_dtypes.finfo(kind)
    halves = [0.5, 1.5, 2.5, 3.5, 0.1, 1 / 3, 1.0, 2.0, 3.0, 7.0, 255.5, 2049.0, 1e-3]
    finite = [0.0, *halves, float(info.max), float(info.tiny), float(info.smallest_subnormal)]
    numbers = [*finite, *(-each for each in finite), np.inf, -np.inf, np.nan]
    return np.array(numbers, np.float64).astype(kind)


def pairs(dtype: str, *, divides: bool = False) -> tuple[Array, Array]:
    """All pairs of edge values; for division without those that end the process of the runtime."""
    one, other = (np.array(each) for each in zip(*product(edges(dtype), repeat=2), strict=True))
    if divides and dtype in INTEGERS:
        kept = (other != 0) & ~((one == np.iinfo(dtype).min) & (other + np.array(1, dtype) == 0))
        one, other = one[kept], other[kept]
    return one, other


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def cases(op: str, dtype: str) -> Iterator[Case]:
    """What an operator is asked to compute of the edge values of a type."""
    data = edges(dtype)
    grid = np.resize(data, (3, len(data)))
    if op in _BINARY:
        yield pairs(dtype), {}
        if op in ("Max", "Min"):
            yield [data, data[::-1], np.roll(data, 1)], {}
    elif op in ("Div", "Mod"):
        for fmod in (0, 1) if op == "Mod" else (0,):
            yield pairs(dtype, divides=True), {"fmod": 1} if fmod else {}
    elif op in ("Abs", "Ceil", "Floor", "Identity", "IsNaN", "Neg", "Not", "Round", "Sign", "Sqrt"):
        yield [data], {}
    elif op == "Pow":
        if dtype in ("int32", "int64", "float32", "float64"):
            bases = [*data, *np.array([4, 9, 16, 196, 2500]).astype(data.dtype)]
            for base, power in product(bases, (0, 0.5, 1, 2, 3, 8)):
                yield [np.array(base), np.array(power, np.float32)], {}
    elif op == "Cast":
        yield from (([data], {"to": to}) for to in (*range(1, 8), *range(9, 14), 16))
        if dtype in ("float32", "float64"):
            small = data[np.abs(data) < 100]
            yield from (([part], {"to": to}) for part in (small, np.abs(small)) for to in (2, 3, 5, 6, 7, 12, 13))
    elif op in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"):
        for keepdims, noop in product((0, 1), repeat=2):
            attributes = {"keepdims": keepdims, "noop_with_empty_axes": noop}
            yield from (([grid, axes], attributes) for axes in (whole(0), whole(-1), whole(0, 1), whole()))
            yield [grid], attributes
        yield [np.array(data[0])], {}
        yield [grid[:0], whole(0)], {}
    elif op == "MatMulInteger":
        if dtype == "uint8":  # others saturate on some processors
            yield [data, data[::-1]], {}
    elif op == "CumSum":
        for axis, reverse in product((0, -1), (0, 1)):
            yield [grid, np.array(axis)], {"reverse": reverse}
    elif op == "Range":
        for start, limit, delta in ((0, 7, 2), (7, 0, 2), (0, 100, 33), (3, 3, 1), (1, 2, 100), (5, 0, -2), (0, 5, -1)):
            if delta > 0 or not dtype.startswith("u"):
                yield [np.array(each).astype(data.dtype) for each in (start, limit, delta)], {}
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            yield [np.array(each).astype(dtype) for each in (info.max - 3, info.max, 2)], {}
            if info.min:
                yield [np.array(each).astype(dtype) for each in (info.min + 3, info.min, -2)], {}
    elif op == "Where":
        test = np.resize([True, False, False], data.shape)
        yield [test, data, data[::-1]], {}
        yield [test[:, None], data[None], data[0]], {}
    elif op == "Trilu":
        for upper, offset in product((0, 1), (-100, -1, 0, 1, 100)):
            yield [grid, np.array(offset)], {"upper": upper}
        yield [np.stack([grid, grid]), np.array(1)], {}
    elif op == "Slice":
        most = np.iinfo(np.int64)
        for start, end, step in product(
            (0, -1, 2, -100, 100, most.min, most.max), (0, -1, 2, most.max, most.min), (1, 2, -1)
        ):
            yield [grid, whole(start), whole(end), whole(1), whole(step)], {}
        yield [grid, whole(0, 1), whole(1, 2)], {}
    elif op in ("Tile", "Expand", "Reshape", "ConstantOfShape"):
        yield from _resized(op, data, grid)
    elif op in ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"):
        yield from _picked(op, grid)
    elif op == "Pad":
        yield [grid, whole(1, 0, 2, 3)], {}
        yield [grid, whole(1, 0, 2, 3), np.array(data[-1])], {}
        yield [grid, whole(-1, 0, 0, 1)], {}
    elif op == "Split":
        yield from (([grid], {"axis": axis, "num_outputs": 2}) for axis in (0, 1, -1))
        yield [grid, whole(0, 3)], {"axis": 0}
    elif op == "Concat":
        yield from (([grid, grid[:, ::-1]], {"axis": axis}) for axis in (0, 1, -1, -2))
        yield [grid[:0], grid], {"axis": 0}
    elif op == "Transpose":
        yield from (([grid], attributes) for attributes in ({}, {"perm": [1, 0]}, {"perm": [0, 1]}))
    elif op == "Flatten":
        yield from (([grid], {"axis": axis}) for axis in (-2, -1, 0, 1, 2))
    elif op in ("Squeeze", "Unsqueeze"):
        axes = (whole(0), whole(-1), whole(0, -1))
        yield from (([grid[None, ..., None] if op == "Squeeze" else grid, each], {}) for each in axes)


def _resized(op: str, data: Array, grid: Array) -> Iterator[Case]:
    if op == "ConstantOfShape":
        for value, shape in product(data, (whole(), whole(0), whole(2, 1))):
            yield [shape], {"value": numpy_helper.from_array(np.array([value]))}
        return
    wanted = {
        "Tile": [whole(1, 2), whole(0, 1), whole(2, 2)],
        "Expand": [whole(1), whole(3, 1), whole(2, 1, 1), whole(2, 3, len(data)), whole(0, 1, 1)],
        "Reshape": [whole(-1), whole(0, -1), whole(3, 1, -1), whole(-1, 1, 0)],
    }
    yield from (([grid, each], {}) for each in wanted[op])
    if op == "Expand":
        yield [np.array(data[0]), whole(2, 0)], {}


def _picked(op: str, grid: Array) -> Iterator[Case]:
    last = grid.shape[1] - 1
    if op == "Gather":
        for indices, axis in product((whole(0), np.array(-1), whole(0, -3, 2), whole()), (0, 1, -1)):
            yield [grid, indices], {"axis": axis}
    elif op == "GatherElements":
        yield from (([grid, whole(0, -1, 2)[None]], {"axis": axis}) for axis in (0, -2))
        yield [grid, whole(last, -1, 0)[:, None]], {"axis": 1}
        yield [grid, whole(last, -1, 0).astype(np.int32)[:, None]], {"axis": -1}
    elif op == "GatherND":
        yield from (([grid, each], {}) for each in (whole(-1)[None], whole(0, -1)[None], whole(2, last)))
        yield [grid, whole(0, 1, -1)[:, None]], {"batch_dims": 1}
    elif op == "ScatterND":
        yield [grid, whole(0, -1)[:, None], grid[:2, ::-1].copy()], {}
        yield [grid, whole(1, 1)[:, None], grid[:2, ::-1].copy()], {}
        yield [grid, whole(0, 0, 2, 2).reshape(2, 2), grid[0, :2]], {}
    else:
        yield from (([grid, whole(0, -1, 1)[None], grid[1:2, :3]], {"axis": axis}) for axis in (0, -1))
        yield [grid, whole(0, 0, 0)[None], grid[1:2, :3]], {"axis": 1}


def node_of(op: str, inputs: Sequence[Array], attributes: Mapping[str, object], prefix: str) -> onnx.GraphProto:
    """One operator on constants."""
    constants = [numpy_helper.from_array(np.array(data, order="C"), f"{prefix}c{at}") for at, data in enumerate(inputs)]
    results = [f"{prefix}{name}" for name in ("yz" if op == "Split" else "y")]
    node = helper.make_node(op, [each.name for each in constants], results, **attributes)
    ports = [helper.make_empty_tensor_value_info(name) for name in results]
    return helper.make_graph([node], "g", [], ports, constants)


def model_of(graphs: Sequence[onnx.GraphProto]) -> onnx.ModelProto:
    """A model of all these; its only input leads elsewhere."""
    x, n = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xn")
    made = helper.make_graph([helper.make_node("Softplus", ["x"], ["n"])], "g", [x], [n])
    for graph in graphs:
        made.node.extend(graph.node)
        made.output.extend(graph.output)
        made.initializer.extend(graph.initializer)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def same(one: Array, other: Array) -> bool:
    """Whether two results are the same to the last bit, whatever the bits of what is no number."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "fV":
        numbers = [each.astype(np.float64) for each in (one, other)]
        absent = [np.isnan(each) for each in numbers]
        signs = [np.signbit(each) for each in numbers]
        return all(
            np.array_equal(left[~absent[0]], right[~absent[0]]) for left, right in (numbers, signs)
        ) and np.array_equal(*absent)
    return one.tobytes() == other.tobytes()


FEEDS = {"x": np.ones(1, np.float32)}


@pytest.mark.members(20)
@pytest.mark.parametrize("op", sorted(constant_kernels.KERNELS))
def test_edges(op: str) -> None:
    """Whatever ONNX Runtime computes of constants is what the written model gives."""
    graphs, truths = [], []
    for dtype in ("bool", *INTEGERS, *FLOATS):
        for number, (inputs, attributes) in enumerate(cases(op, dtype)):
            graph = node_of(op, inputs, attributes, f"{dtype}_{number}_")
            try:
                found = run(model_of([graph]), FEEDS)[1:]
            except Exception:  # for which it has no kernel, or which it refuses
                continue
            graphs.append(graph)
            truths.append((inputs, attributes, found))
    assert graphs
    written = layoutsolve.convert(model_of(graphs).SerializeToString(), opset=18).model
    results = run(written, FEEDS)[1:]
    wrong = []
    for graph, (inputs, attributes, truth) in zip(graphs, truths, strict=True):
        found, results = results[: len(truth)], results[len(truth) :]
        if not all(map(same, truth, found)):
            wrong.append((graph.node[0].output[0], [each.tolist() for each in inputs if each.size < 10], attributes))
    assert not wrong, wrong
