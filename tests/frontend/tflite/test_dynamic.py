"""Sizes that are known by name only: arithmetic on shapes survives, and vanishes where it comes to one Reshape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

import layoutsolve
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verify import verify
from tests.builder import Builder
from tests.dynamic_networks import DEPTH, Dynamic
from tests.truth import same

Sizes = Callable[[Builder, Sequence[int]], list[int]]
"""From the scalars batch, height and width to the entries of the shape that is reshaped to."""


def multiplied(builder: Builder, left: int, right: int) -> int:
    result = builder.tensor("product", (), "int32")
    builder.operator("MUL", [left, right], [result], {})
    return result


def number(builder: Builder, value: int) -> int:
    return builder.constant("number", np.int32(value))


def reshaped(entries: Sizes, rank: int) -> bytes:
    """A convolution over images of any number and size, reshaped to what is computed from its own shape."""
    builder = Builder()
    x = builder.input("x", (1, 1, 1, 4), signature=(-1, -1, -1, 4))
    weights = np.random.default_rng(0).normal(size=(6, 3, 3, 4)).astype(np.float32)
    bias = builder.constant("b", np.zeros(6, np.float32))
    y = builder.tensor("y", (1, 1, 1, 6), signature=(-1, -1, -1, 6))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    builder.operator("CONV_2D", [x, builder.constant("w", weights), bias], [y], options)
    shape = builder.tensor("shape", (4,), "int32")
    builder.operator("SHAPE", [y], [shape], {"out_type": 2})
    scalars = []
    for axis in range(3):
        bounds = [builder.constant("bound", np.array([each], np.int32)) for each in (axis, axis + 1, 1)]
        scalars.append(builder.tensor("size", (), "int32"))
        builder.operator("STRIDED_SLICE", [shape, *bounds], [scalars[-1]], {"shrink_axis_mask": 1})
    wanted = builder.tensor("wanted", (rank,), "int32")
    builder.operator("PACK", entries(builder, scalars), [wanted], {"values_count": rank})
    result = builder.tensor("result", (1,) * rank, signature=(-1,) * rank)
    builder.operator("RESHAPE", [y, wanted], [result], {})
    return builder.finish(result)


def pixels(builder: Builder, sizes: Sequence[int]) -> list[int]:
    batch, height, width = sizes
    return [batch, multiplied(builder, height, width), number(builder, 2), number(builder, 3)]


def torn(builder: Builder, sizes: Sequence[int]) -> list[int]:
    batch, height, width = sizes
    return [multiplied(builder, height, width), multiplied(builder, batch, number(builder, 2)), number(builder, 3)]


def test_arithmetic_on_shapes_vanishes() -> None:
    conversion = layoutsolve.convert(reshaped(pixels, 4))
    assert [node.op for node in conversion.graph.nodes] == ["Transpose", "Conv", "Transpose", "Reshape"]


@pytest.mark.members(6)
@pytest.mark.parametrize(("entries", "rank"), [(pixels, 4), (torn, 3)])
@pytest.mark.parametrize("ends", ["keep", "free"])
@pytest.mark.parametrize("shape", [(1, 5, 7, 4), (3, 2, 2, 4), (2, 4, 3, 4)])
def test_any_size(entries: Sizes, rank: int, ends: str, shape: tuple[int, ...]) -> None:
    """Two sizes of one Reshape that are products are computed at run time."""
    source = reshaped(entries, rank)
    conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
    inputs, outputs = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
    assert verify(source, conversion.model, Sampling(shapes={"x": shape}), Relation(inputs, outputs)).passed


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("divisor", [2, 3])
def test_sizes_of_tensors_are_not_negative(stride: int, divisor: int) -> None:
    """Also those of windows without padding, of which that does not follow: what is rounded towards zero is a size."""
    builder, ones = Builder(), np.ones((1, 3, 1, 1), np.float32)
    x = builder.input("x", (1, 1, 4, 1), signature=(1, -1, 4, 1))
    y = builder.tensor("y", (1, 1, 4, 1), signature=(1, -1, 4, 1))
    given = [x, builder.constant("weights", ones), builder.constant("bias", np.zeros(1, np.float32))]
    builder.operator("CONV_2D", given, [y], {"padding": "VALID", "stride_h": stride, "stride_w": 1})
    shape, size, part = (builder.tensor(name, dims, "int32") for name, dims in (("s", (4,)), ("n", ()), ("d", ())))
    builder.operator("SHAPE", [y], [shape], {"out_type": 2})
    bounds = [builder.constant("bound", np.array([each], np.int32)) for each in (1, 2, 1)]
    builder.operator("STRIDED_SLICE", [shape, *bounds], [size], {"shrink_axis_mask": 1})
    builder.operator("DIV", [size, number(builder, divisor)], [part], {})
    wanted, result = builder.tensor("w", (3,), "int32"), builder.tensor("r", (1, 1, 1), signature=(1, -1, -1))
    entries = [number(builder, 1), part, number(builder, 4 * divisor)]
    builder.operator("PACK", entries, [wanted], {"values_count": 3})
    builder.operator("RESHAPE", [y, wanted], [result], {})
    source = builder.finish(result)
    conversion = layoutsolve.convert(source)
    assert [node.op for node in conversion.graph.nodes] == ["Transpose", "Conv", "Transpose", "Reshape"]
    height = stride * (2 * divisor - 1) + 3
    assert verify(source, conversion.model, Sampling(shapes={"x": (1, height, 4, 1)})).passed


def pair(operator: str, **options: int) -> bytes:
    """An operator of two inputs, each with a dynamic batch."""
    builder = Builder()
    inputs = [builder.input(name, (1, 3), signature=(-1, 3)) for name in "xy"]
    result = builder.tensor("result", (1, 3), signature=(-1, -1))
    builder.operator(operator, inputs, [result], options)
    return builder.finish(result)


def batches(source: bytes) -> list[str]:
    """What the first dimensions of the inputs are called."""
    graph = layoutsolve.convert(source).model.graph
    return [each.type.tensor_type.shape.dim[0].dim_param for each in graph.input]


def test_inputs_have_sizes_of_their_own() -> None:
    """Two inputs may be of different size, unless an operator forces them to be of one."""
    assert len(set(batches(pair("ADD")))) == 2
    assert len(set(batches(pair("CONCATENATION", axis=0)))) == 2
    assert set(batches(pair("CONCATENATION", axis=1))) == {"batch"}
    assert set(batches(pair("STABLEHLO_ADD"))) == {"batch"}


@pytest.mark.parametrize("given", ["CONCATENATION", "STABLEHLO_ADD", "CUSTOM:NumericVerify"])
def test_numbers_that_operators_force(given: str) -> None:
    """An open size that has to be a number is that number, unless a user has opened it."""
    builder = Builder()
    x, y = builder.input("x", (2, 3), "float16"), builder.input("y", (1, 1), signature=(-1, -1))
    z = builder.tensor("z", (2, 3), "float16" if given != "CUSTOM:NumericVerify" else "float32")
    if given != "CUSTOM:NumericVerify":
        builder.subgraph.tensors[y].type = builder.subgraph.tensors[x].type
    builder.operator(given, [x, y], [z], {"axis": 1} if given == "CONCATENATION" else {})
    ports = layoutsolve.convert(builder.finish(z)).model.graph.input
    dims = [each.dim_value or each.dim_param for each in ports[1].type.tensor_type.shape.dim]
    assert dims == ([2, "y_1"] if given == "CONCATENATION" else [2, 3])


@pytest.mark.parametrize("operator", ["ADD", "CONCATENATION"])
@pytest.mark.parametrize("sizes", [(1, 4), (5, 1), (3, 3)])
def test_different_batches(operator: str, sizes: tuple[int, int]) -> None:
    source = pair(operator, **({"axis": 0} if operator == "CONCATENATION" else {}))
    shapes = {name: (size, 3) for name, size in zip("xy", sizes, strict=True)}
    assert verify(source, layoutsolve.convert(source).model, Sampling(shapes=shapes)).passed


@pytest.mark.parametrize("slopes", [(3,), (4, 1, 3), (1, 5, 3)])
@pytest.mark.parametrize("ends", ["keep", "free"])
def test_slopes_tell_sizes(slopes: tuple[int, ...], ends: str) -> None:
    """LiteRT repeats no input of PRELU: what is not known of it is as large as its slopes are."""
    builder = Builder()
    x = builder.input("x", (1, 1, 1, 1), signature=(-1, -1, -1, -1))
    given = np.random.default_rng(0).uniform(-1, 1, slopes).astype(np.float32)
    y = builder.tensor("y", (1, 1, 1, 1), signature=(-1, -1, -1, -1))
    builder.operator("PRELU", [x, builder.constant("slopes", given)], [y], {})
    source = builder.finish(y)
    conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
    moved = Relation(conversion.permutations(inputs=True), conversion.permutations(inputs=False))
    assert verify(source, conversion.model, Sampling(shapes={"x": (2, 4, 5, 3)}), moved).passed


def network(build: Callable[[Dynamic, int], int]) -> bytes:
    """One operator or few over images of any number and size."""
    net = Dynamic(1)
    return net.builder.finish(build(net, net.input("x", -1, -1, -1, DEPTH)))


def convolved(net: Dynamic, x: int, **options: int) -> int:
    window = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    return net.op("CONV_2D", [x, net.weights(DEPTH, 3, 3, DEPTH), net.weights(DEPTH)], 4, **{**window, **options})


def enlarged(net: Dynamic, x: int, padding: str, kernel: int, to_skip: bool) -> int:
    """A transposed convolution, to the size that something had before, or to one more than twice the size."""
    low = convolved(net, x, stride_h=2, stride_w=2) if to_skip else x
    batch, height, width = (net.size(x, axis, 4) for axis in range(3))
    if not to_skip:
        sizes = (net.whole("MUL", size, net.number(2)) for size in (height, width))
        height, width = (net.whole("ADD", size, net.number(padding == "VALID")) for size in sizes)
    shape = net.pack(batch, height, width, net.number(DEPTH))
    inputs = [shape, net.weights(DEPTH, kernel, kernel, DEPTH), low]
    return net.op("TRANSPOSE_CONV", inputs, 4, padding=padding, stride_h=2, stride_w=2)


def mirrored(net: Dynamic, x: int) -> int:
    """Padding that is a fourth of the height."""
    quarter = net.whole("FLOOR_DIV", net.size(x, 1, 4), net.number(4))
    rows = [net.vector(0, 0), net.pack(quarter, net.number(1)), net.pack(net.number(0), quarter), net.vector(0, 0)]
    pads = net.builder.tensor("pads", (4, 2), "int32")
    net.builder.operator("PACK", rows, [pads], {"values_count": 4})
    return net.op("MIRROR_PAD", [x, pads], 4)


BUILDS: dict[str, Callable[[Dynamic, int], int]] = {
    "dilated and strided": lambda net, x: convolved(net, x, stride_h=2, dilation_w_factor=2),
    "strides above the kernel": lambda net, x: convolved(net, x, stride_h=5, stride_w=4),
    "twice, SAME": lambda net, x: enlarged(net, x, "SAME", 3, False),
    "twice, VALID": lambda net, x: enlarged(net, x, "VALID", 3, False),
    "to a skip, kernel 2": lambda net, x: enlarged(net, x, "SAME", 2, True),
    "to a skip, kernel 3": lambda net, x: enlarged(net, x, "SAME", 3, True),
    "to a skip, kernel 4": lambda net, x: enlarged(net, x, "SAME", 4, True),
    "mirrored": mirrored,
}


@pytest.mark.parametrize("name", BUILDS)
def test_sizes_decide(name: str) -> None:
    """Padding and cropping that depend on whether sizes are odd."""
    source = network(BUILDS[name])
    model = layoutsolve.convert(source).model
    for shape in ((1, 8, 9, DEPTH), (2, 11, 7, DEPTH), (3, 14, 13, DEPTH)):
        assert verify(source, model, Sampling(samples=4, shapes={"x": shape})).passed


def test_names_of_sizes_have_no_stars() -> None:
    """Three times a size of 'x' is another size than one of an input that is called '3*x'."""
    builder = Builder()
    x, other = (builder.input(name, (1, 4), signature=(1, -1)) for name in ("x", "3*x"))
    parts = [x, x, x, other]
    y = builder.tensor("y", (1, 16), signature=(1, -1))
    builder.operator("CONCATENATION", parts, [y], {"axis": 1})
    model = layoutsolve.convert(builder.finish(y)).model
    assert [port.type.tensor_type.shape.dim[1].dim_param for port in model.graph.input] == ["x_1", "3_x_1"]


@pytest.mark.parametrize("masks", list(product((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2))))
def test_slices_of_computed_bounds(masks: tuple[int, int, int]) -> None:
    """A mask takes the place of what is computed of one dimension, and a dimension that goes takes one element."""
    builder = Builder()
    x, begin, end = builder.input("x", (5, 6)), *(builder.input(name, (2,), "int32") for name in ("begin", "end"))
    left = [size for axis, size in enumerate((1, 1)) if not masks[2] >> axis & 1]
    y = builder.tensor("y", left, signature=[-1] * len(left))
    options = dict(zip(("begin_mask", "end_mask", "shrink_axis_mask"), masks, strict=True))
    builder.operator("STRIDED_SLICE", [x, begin, end, builder.constant("steps", [1, 2], "int32")], [y], options)
    source, data = builder.finish(y), np.arange(30, dtype=np.float32).reshape(5, 6)
    for first, last in (((1, 2), (4, 5)), ((-3, -4), (-1, -1)), ((4, 0), (5, 6))):
        same(source, [data, np.array(first, np.int32), np.array(last, np.int32)], levels=["none"])


def test_slices_of_computed_sizes() -> None:
    """-1 is all that is left, 0 nothing at all."""
    builder = Builder()
    x, begin, size = builder.input("x", (5, 6)), *(builder.input(name, (2,), "int32") for name in ("begin", "size"))
    y = builder.tensor("y", (1, 1), signature=[-1, -1])
    builder.operator("SLICE", [x, begin, size], [y], {})
    source, data = builder.finish(y), np.arange(30, dtype=np.float32).reshape(5, 6)
    for first, count in (((1, 2), (2, 3)), ((1, 2), (-1, 1)), ((0, 5), (0, -1)), ((4, 0), (1, 0)), ((0, 0), (-1, -1))):
        same(source, [data, np.array(first, np.int32), np.array(count, np.int32)], levels=["none"])
