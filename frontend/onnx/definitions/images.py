"""Norms, images of their columns, and grids."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from layoutsolve.frontend.onnx.definitions.definition import MOST, Definition, defines


def _power(call: Definition, name: str, exponent: float) -> str:
    if exponent == 2:
        return call.write("Mul", name, name)
    size = call.write("Abs", name)
    return size if exponent == 1 else call.write("Pow", size, call.constant(exponent))


def _root(call: Definition, name: str, exponent: float) -> bool:
    operator, given = {1: ("Identity", []), 2: ("Sqrt", [])}.get(int(exponent), ("Pow", [call.constant(1 / exponent)]))
    call.write(operator, name, *given, into=call.node.output[0])
    return True


@defines("MeanVarianceNormalization")
def _normalized(call: Definition) -> bool:
    """MeanVarianceNormalization: ONNX defines it by a difference of two means, which may be below 0."""
    given = call.attribute("axes", (0, 2, 3))
    axes = call.constant(given, "int64")
    centred = call.write("Sub", call.node.input[0], call.write("ReduceMean", call.node.input[0], axes, keepdims=1))
    variance = call.write("ReduceMean", call.write("Mul", centred, centred), axes, keepdims=1)
    deviation = call.write("Add", call.write("Sqrt", variance), call.constant(1e-9))
    call.write("Div", centred, deviation, into=call.node.output[0])
    return True


@defines("GlobalLpPool")
def _global_norm(call: Definition) -> bool:
    shape, exponent = call.shape(), call.integer("p", 2)
    if shape is None:
        return False
    axes = call.constant(range(2, len(shape)), "int64")
    return _root(call, call.write("ReduceSum", _power(call, call.node.input[0], exponent), axes, keepdims=1), exponent)


@defines("LpPool")
def _norms(call: Definition) -> bool:
    """LpPool: the root of what a convolution with ones sums up."""
    shape, exponent, given = call.shape(), call.integer("p", 2), call.own()
    if shape is None or shape[1] is None or given.pop("ceil_mode", 0):
        return False
    kernel = given["kernel_shape"]
    ones = call.constant(np.ones((shape[1], 1, *(kernel if isinstance(kernel, (tuple, list)) else ()))))
    given.pop("p", 0)
    found = call.write("Conv", _power(call, call.node.input[0], exponent), ones, **given, group=shape[1])
    return _root(call, found, exponent)


_MOST_PLACES = 1 << 20


@defines("Col2Im")
def _image(call: Definition) -> bool:
    """Col2Im: what lies on each pixel is gathered, of as many as do so of most, and added up."""
    sizes, block, shape = call.numbers(1), call.numbers(2), call.shape()
    if sizes is None or block is None or shape is None:
        return False
    rank = len(block)
    own = call.own()
    steps, dilations = (own.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = own.get("pads") or [0] * (2 * rank)
    counts = [
        (int(size) + pads[axis] + pads[axis + rank] - dilations[axis] * (int(width) - 1) - 1) // steps[axis] + 1
        for axis, (size, width) in enumerate(zip(sizes, block, strict=True))
    ]
    if prod(map(int, block)) * prod(counts) > _MOST_PLACES or prod(map(int, sizes)) > _MOST_PLACES:
        return False
    offsets, places = np.indices([*map(int, block)]).reshape(rank, -1), np.indices(counts).reshape(rank, -1)
    width = offsets.shape[1] * places.shape[1]
    lying: list[list[int]] = [[] for _ in range(int(prod(sizes)))]
    for number, (offset, place) in enumerate(product(offsets.T, places.T)):
        at = place * steps + offset * dilations - np.array(pads[:rank])
        if ((at >= 0) & (at < sizes)).all():
            lying[int(np.ravel_multi_index(at, sizes))].append(number)
    most = max(map(len, lying))
    index = [[*each, *([width] * (most - len(each)))] for each in lying]
    rows = call.write("Reshape", call.node.input[0], call.constant([0, -1, width], "int64"))
    padded = call.write("Pad", rows, call.constant([0, 0, 0, 0, 0, 1], "int64"))
    parts = call.write("Gather", padded, call.constant(index, "int64"), axis=2)
    total = call.write("ReduceSum", parts, call.constant([3], "int64"), keepdims=0)
    call.write("Reshape", total, call.constant([0, 0, *sizes], "int64"), into=call.node.output[0])
    return True


@defines("AffineGrid")
def _grid(call: Definition) -> bool:
    """AffineGrid: a product of the places of pixels, between -1 and 1, with the matrices."""
    sizes = call.numbers(1)
    if sizes is None:
        return False
    space, aligned = [int(size) for size in sizes[2:]], call.integer("align_corners", 0)
    if prod(space) > MOST or min(space) < 1:
        return False
    ends = [np.linspace(-1, 1, size) * (1 if aligned else (size - 1) / size) for size in space]
    places = np.stack([*[*np.meshgrid(*ends, indexing="ij")][::-1], np.ones(space)], -1).reshape(-1, len(space) + 1)
    turned = call.write("Transpose", call.node.input[0], perm=[0, 2, 1])
    grid = call.write("MatMul", call.constant(places), turned)
    shape = call.constant([0, *space, len(space)], "int64")
    call.write("Reshape", grid, shape, into=call.node.output[0])
    return True
