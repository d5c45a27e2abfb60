"""Sizes in files in ONNX that are computed, or follow from others, or are found by trying."""

from __future__ import annotations

import contextlib
import resource

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.proto.data_movement import moves
from tests.frontend.onnx.test_files import FLOAT, HEAD, ROUND, converted, operators, text
from tests.frontend.onnx.test_random import run
from tests.random_onnx import Writer, add, conv, normal, permuted


def test_sizes_that_are_computed_survive() -> None:
    """Two open sizes in one Reshape, which are told by data alone."""
    model = text(
        f"""{HEAD} g (float[2, c, h, w] x, int64[4] shape) => (float[a, b, d, e] z) {{
            {ROUND} r = Reshape(y, shape) s = Transpose<perm = [0, 2, 3, 1]>(r) t = Relu(s)
            z = Transpose<perm = [0, 3, 1, 2]>(t) }}"""
    )
    result = converted(model)
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)}
    feeds["shape"] = np.array([2, 6, 2, 6])
    assert np.array_equal(run(model, feeds)[0], run(result, feeds)[0]) and operators(result).count("Transpose") == 0


@pytest.mark.parametrize("bounds", ["low, high", '"", high', "low"])
@pytest.mark.parametrize("shape", ["", "[1]"])
def test_bounds_that_are_computed(bounds: str, shape: str) -> None:
    """They are single numbers, and no reason to leave data where it is."""
    given = bounds.replace('""', "")
    model = text(
        f"""{HEAD} g (float[2, 3, 4, 5] x, float{shape} l) => (float[2, 3, 4, 5] y) {{
            low = Neg(l) high = Exp(l) a = Transpose<perm = [0, 2, 3, 1]>(x) b = Clip({given})
            y = Transpose<perm = [0, 3, 1, 2]>(b) }}""".replace("Clip(", "Clip(a, ")
    )
    if shape:  # ONNX has scalars alone there
        for number, name in enumerate(("low", "high")):
            node = model.graph.node[number]
            node.output[0] = f"{name}_line"
            model.graph.node.insert(3, helper.make_node("Squeeze", [f"{name}_line"], [name]))
    found = converted(model)
    assert operators(found).count("Transpose") == 0
    x, low = np.random.default_rng(0).normal(size=(2, 3, 4, 5)), np.full((1,) if shape else (), 0.2)
    feeds = {"x": x.astype(np.float32), "l": low.astype(np.float32)}
    assert np.array_equal(run(model, feeds)[0], run(found, feeds)[0])


@pytest.mark.parametrize("shape", [(1, 2, 1, 9), (1, 9, 1, 1), (2, 1, 7, 1)])
def test_counts_that_follow_from_sizes(shape: tuple[int, ...]) -> None:
    """The largest of a line, as many as its sizes say, beside dimensions of size 1 that layouts leave out or add."""
    space = shape[1:]
    flat = int(np.prod(space))
    model = text(
        f"""{HEAD} g (float[n, {", ".join(map(str, space))}] x) => (float[n, m] y, int64[n, m] z)
        <int64[2] line = {{0, {flat}}}, int64[1] one = {{1}}, int64[1] most = {{6}}> {{
            a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b)
            flat = Reshape(c, line) all = Shape(flat) count = Gather(all, one) k = Min(count, most)
            y, z = TopK(flat, k) }}"""
    )
    found = converted(model)
    assert operators(found).count("Transpose") == 0
    feeds = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    assert all(np.array_equal(*pair) for pair in zip(run(model, feeds), run(found, feeds), strict=True))


def test_long_vectors_take_no_memory() -> None:
    """What the library infers of them by following numbers would."""
    model = text(
        f"""{HEAD} g (float[3] x) => (float[n] z) <int64[1] many = {{20000000}}, float half = {{0.5}}>
        {{ y = Reshape(x, many) z = Mul(y, half) }}"""
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(ConversionError):
        converted(model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


def test_sizes_with_which_the_runtime_ends_are_passed_over() -> None:
    """A division by a size less another number ends the process, whichever model it is in."""
    model = text(
        f"""{HEAD} g (float[n, 3, 4] x) => (float[n, 4, 3] y, int64 z)
        <int64 less = {{2}}, int64 ten = {{10}}, int64 first = {{0}}> {{
            sizes = Shape(x) count = Gather<axis = 0>(sizes, first) by = Sub(count, less) z = Div(ten, by)
            y = Transpose<perm = [0, 2, 1]>(x) }}"""
    )
    assert layoutsolve.verify(model.SerializeToString(), layoutsolve.convert(model.SerializeToString())).passed


@pytest.mark.members(1)
@pytest.mark.parametrize("size", [1, 2, 64, 512])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sizes_with_which_a_model_runs_are_found(axis: int, size: int) -> None:
    """Of dimensions without names, some of which have to be equal, and one to be a number."""
    fixed = [numpy_helper.from_array(np.array([size if at == axis else -1 for at in range(3)], np.int64), "shape")]
    ports = [helper.make_tensor_value_info(name, FLOAT, [None] * 3) for name in ("x", "state")]
    nodes = [
        helper.make_node("Add", ["x", "state"], ["sum"]),
        helper.make_node("Shape", ["sum"], ["sizes"]),
        helper.make_node("Greater", ["shape", "zero"], ["told"]),
        helper.make_node("Where", ["told", "shape", "sizes"], ["wanted"]),
        helper.make_node("Reshape", ["sum", "wanted"], ["y"]),
    ]
    fixed.append(numpy_helper.from_array(np.array(0, np.int64), "zero"))
    out = helper.make_tensor_value_info("y", FLOAT, [None] * 3)
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports, [out], fixed), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    assert layoutsolve.verify(model.SerializeToString(), layoutsolve.convert(model.SerializeToString())).passed


@pytest.mark.parametrize("seed", range(12))
def test_what_is_joined_is_as_large(seed: int) -> None:
    """A size that has a name is that of what it is joined with, as in an export of a batch with one class token."""
    writer = Writer(seed, dynamic=True)
    x = writer.input(2, 4, 3, 5)
    for kind in (conv, permuted, add, normal)[seed % 4 :]:
        x = kind(writer, x)
    shape = (1, *writer.shapes[x][1:])
    parts = [x, writer.constant(writer.random.normal(size=shape))]
    y = writer.op("Concat", *parts[:: 1 if seed % 2 else -1], shape=(1, 2 * shape[1], *shape[2:]), axis=1)
    writer.shapes |= {name: (1, *sizes[1:]) for name, sizes in writer.shapes.items()}
    y = permuted(writer, permuted(writer, y))
    model = writer.model(y)
    found = layoutsolve.convert(model.SerializeToString())
    assert moves(found.model).counts <= moves(model).counts
    feeds = {"input_0": writer.feeds()["input_0"]}
    assert feeds["input_0"].shape[0] == 1
    truth, result = (run(each, feeds)[0] for each in (model, found.model))
    assert np.allclose(truth, result, atol=1e-5)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_bounds_that_were_attributes_are_of_the_type_of_what_they_bound(opset: int, dtype: int) -> None:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    weights = numpy_helper.from_array(np.random.default_rng(opset).normal(size=(4, 4, 1, 1)).astype(kind), "w")
    ends = [helper.make_tensor_value_info(name, dtype, ["batch", 5, 6, 4]) for name in "xy"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["a"]),
        helper.make_node("Clip", ["a"], ["b"], min=0.0, max=6.0),
        helper.make_node("Clip", ["b"], ["c"], max=1.5),
        helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    result = converted(model)
    onnx.checker.check_model(result, full_check=True)
    assert operators(result).count("Transpose") == 0
    if dtype == TensorProto.FLOAT:  # ONNX Runtime has no older Clip of other types
        feeds = {"x": np.random.default_rng(0).normal(size=(2, 5, 6, 4)).astype(kind)}
        truth, found = (run(each, feeds)[0] for each in (model, result))
        np.testing.assert_allclose(truth, found, atol=1e-6)
