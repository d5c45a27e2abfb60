"""Operators along axes, in every arrangement of their dimensions: what ``ways`` measures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import onnx

from layoutsolve.measurement.kernels import Array, Node, Spec, model, transpose
from layoutsolve.solver.targets.target_file import default_target


@dataclass(frozen=True)
class Variant:
    """One alternative of a computation. ``moved`` is the Transpose that would convert its operand into another one's.

    ``listed`` ways are rows of the target; the others are only there to compare with.
    """

    kind: str
    shape: str
    made: onnx.ModelProto
    moved: onnx.ModelProto
    listed: bool = True


@dataclass(frozen=True)
class Group:
    """Ways to compute the same thing from the same elements."""

    operator: str
    variants: tuple[Variant, ...] = field(default=())


def variant(
    kind: str,
    nodes: Sequence[Node],
    spec: Spec,
    permutation: Sequence[int],
    constants: Mapping[str, Array],
    listed: bool = True,
) -> Variant:
    """A way with one input ``x`` and the Transpose of that input."""
    return Variant(kind, described(spec), model(nodes, {"x": spec}, constants), transpose(spec, permutation), listed)


def described(spec: Spec) -> str:
    """A shape, and the type where it is not float32."""
    return "x".join(map(str, spec.shape)) + ("" if spec.dtype == "float32" else f" {spec.dtype}")


AXIS_SIZES = (((56, 56), 64), ((28, 28), 256), ((4, 197), 197), ((128, 128), 21), ((8, 50), 384))
"""Sizes of the other dimensions, and of the axis."""


def _positions(others: tuple[int, int], axis: int) -> Iterator[tuple[str, tuple[int, ...], int, tuple[int, ...]]]:
    """Kind, shape, axis, and the permutation that brings the axis innermost (for the innermost: outermost)."""
    first, second = others
    yield "innermost", (1, first, second, axis), 3, (0, 3, 1, 2)
    yield "middle", (1, first, axis, second), 2, (0, 1, 3, 2)
    yield "outermost", (1, axis, first, second), 1, (0, 2, 3, 1)


def _along(operator: str, axis: int, size: int) -> tuple[list[Node], dict[str, Array]]:
    """An operator along an axis."""
    attributes: dict[str, Any] = {"axis": axis}
    vector = [0, 0, 0, 0]
    if operator == "CumSum":
        return [Node("CumSum", ["x", "axis"])], {"axis": np.array(axis, np.int64)}
    if operator == "TopK":
        node = Node("TopK", ["x", "k"], ["y", "indices"], attributes)
        return [node], {"k": np.array([min(5, size)], np.int64)}
    if operator == "Concat":
        return [Node("Concat", ["x", "x"], attributes=attributes)], {}
    if operator == "Split":
        halves = np.array([size // 2, size - size // 2], np.int64)
        return [Node("Split", ["x", "halves"], ["y", "z"], attributes)], {"halves": halves}
    if operator == "Slice":
        bounds = {"start": [1], "stop": [size - 1], "axes": [axis]}
        return [Node("Slice", ["x", *bounds])], {name: np.array(each, np.int64) for name, each in bounds.items()}
    if operator == "Pad":
        vector[axis] = 1
        return [Node("Pad", ["x", "pads"])], {"pads": np.array(vector * 2, np.int64)}
    if operator == "Gather":
        return [Node("Gather", ["x", "indices"], attributes=attributes)], {"indices": np.arange(size)[::-1].copy()}
    if operator == "Tile":
        vector[axis] = 1
        return [Node("Tile", ["x", "repeats"])], {"repeats": np.array(vector, np.int64) + 1}
    return [Node(operator, ["x"], attributes=attributes)], {}


ALONG = ("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK", "CumSum")
CUTTING = ("Concat", "Split", "Slice", "Pad", "Gather", "Tile")


def along_axes() -> Iterator[Group]:
    """Operators along one axis, with the axis in each place."""
    for operator in (*ALONG, *CUTTING):
        for others, size in AXIS_SIZES:
            found = []
            for kind, shape, axis, permutation in _positions(others, size):
                nodes, constants = _along(operator, axis, size)
                found.append(variant(kind, nodes, Spec(shape), permutation, constants))
            if "Softmax" in operator:
                rest, nodes = others[0] * others[1], [Node(operator, ["x"], attributes={"axis": 1})]
                found.append(variant("outermost of two", nodes, Spec((1, size, rest)), (0, 2, 1), {}, listed=False))
            yield Group(operator, tuple(found))


REDUCING = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL2")
REDUCED_SIZES = (((8, 8), (56, 56)), ((56, 56), (8, 8)), ((4, 64), (14, 14)), ((4, 197), (3, 64)), ((8, 160), (7, 7)))
"""Sizes of two kept and two reduced dimensions."""

PATTERNS = ("KKRR", "RRKK", "KRRK", "RKKR", "KRKR", "RKRK")


def merged(pattern: str) -> str:
    """A pattern with its runs merged: ``KKRR`` is KR."""
    return "".join(letter for index, letter in enumerate(pattern) if pattern[:index][-1:] != letter)


def _spread(pattern: str, kept: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    sizes = {"1": repeat(1), "K": iter(kept), "R": iter(other)}
    return tuple(next(sizes[letter]) for letter in pattern)


def _to(pattern: str, wanted: str) -> tuple[int, ...]:
    """The permutation from one pattern to another."""
    places = {letter: iter([index for index, each in enumerate(pattern) if each == letter]) for letter in "1KR"}
    return tuple(next(places[letter]) for letter in wanted)


def reductions() -> Iterator[Group]:
    """Reductions of two of four dimensions; ``1RK`` has a kept dimension of size 1 in front, as an image's batch."""
    for operator in REDUCING:
        for kept, reduced in REDUCED_SIZES:
            found = []
            for pattern in PATTERNS:
                axes = np.array([index for index, letter in enumerate(pattern) if letter == "R"], np.int64)
                spec = Spec(_spread(pattern, kept, reduced))
                wanted = "RRKK" if pattern == "KKRR" else "KKRR"
                nodes = [Node(operator, ["x", "axes"], attributes={"keepdims": 1})]
                found.append(variant(merged(pattern), nodes, spec, _to(pattern, wanted), {"axes": axes}))
            nodes, axes = [Node(operator, ["x", "axes"], attributes={"keepdims": 1})], np.array([1, 2], np.int64)
            unit = Spec((1, *reduced, *kept))
            found.append(variant("1RK", nodes, unit, (0, 3, 4, 1, 2), {"axes": axes}))
            yield Group(operator, tuple(found))


TRANSPOSED = ((64, 28, 56), (12, 64, 197), (32, 49, 96), (16, 128, 64))
"""Sizes of three blocks."""


def transposes() -> Iterator[Group]:
    """Three blocks in other orders: two of them change places, the last one stays whole, or nothing of that kind."""
    for shape in TRANSPOSED:
        found = []
        for kind, order in (("swap", (0, 2, 1)), ("rows", (1, 0, 2)), ("general", (2, 1, 0))):
            node = Node("Transpose", ["x"], attributes={"perm": order})
            found.append(variant(kind, [node], Spec(shape), (0, 2, 1), {}))
        yield Group("Transpose", tuple(found))


BROADCASTING = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")
CHANNELS = (
    *((8, 4096), (12, 1024), (16, 3136), (24, 3136), (32, 1024), (48, 784)),
    *((64, 784), (80, 3350), (128, 784), (192, 197), (256, 196)),
)
"""Channels and pixels."""


def broadcasts() -> Iterator[Group]:
    """A constant operand for each channel: repeated along all pixels in a row, or followed from pixel to pixel.

    Short inner loops are slow, but such operators are too small a part of a model for that to be worth a Transpose.
    """
    for operator in BROADCASTING:
        for channels, pixels in CHANNELS:
            found = []
            for shape, length in (((channels, pixels), pixels), ((pixels, channels), channels)):
                kind = f"runs of {length}"
                data = np.abs(Spec((channels,)).sample()).reshape((channels, 1) if length == pixels else (channels,))
                nodes = [Node("Abs", ["x"], ["a"]), Node(operator, ["a", "b"])] if operator == "Pow" else []
                nodes = nodes or [Node(operator, ["x", "b"])]
                found.append(variant(kind, nodes, Spec(shape), (1, 0), {"b": data}, listed=False))
            yield Group(operator, tuple(found))


RESIZED_SIZES = (((1, 64), (28, 28)), ((2, 32), (56, 56)), ((1, 256), (14, 14)))
"""Sizes of two kept dimensions (the first may be the batch) and of the two that double."""

FEW_CHANNELS = tuple(((1, channels), (64, 64)) for channels in (1, 2, 4, 6, 7))
"""The same where images are interpolated: what kernels lose depends on how many channels there are."""


def resizes() -> Iterator[Group]:
    """Two of four dimensions doubled, in each place. Interpolation skips none of the four. What copies skips those
    of size 1 if there are few dimensions, of which one more than four is measured.
    """
    for mode in ("nearest", "linear"):
        for dtype in ("float32", "uint8", "int8"):
            for kept, resized in (*RESIZED_SIZES, *(FEW_CHANNELS if mode == "linear" else ())):
                found = []
                for pattern in (*PATTERNS, "1KKRR") if mode == "nearest" else PATTERNS:
                    spec = Spec(_spread(pattern, kept, resized), dtype)
                    factors = [2 if letter == "R" else 1 for letter in pattern]
                    name = pattern if mode == "linear" else _seen(pattern, spec.shape)
                    sizes = np.array(spec.shape, np.int64) * factors
                    attributes = {"mode": mode, "coordinate_transformation_mode": "half_pixel"}
                    nodes = [Node("Resize", ["x", "", "", "sizes"], attributes=attributes)]
                    units, other = pattern[: len(pattern) - len(PATTERNS[0])], pattern[-len(PATTERNS[0]) :]
                    wanted = units + ("KRRK" if other == "KKRR" else "KKRR")
                    kind = default_target().classed("Resize", f"{mode} {name}, {dtype}", {"channels": kept[1]})
                    found.append(variant(kind, nodes, spec, _to(pattern, wanted), {"sizes": sizes}))
                yield Group("Resize", tuple(found))


def resizes_in_blocks() -> Iterator[Group]:
    """Images that a convolution wrote, doubled by interpolation: as they lie, and channels-last."""
    turned, back = {"perm": [0, 2, 3, 1]}, {"perm": [0, 3, 1, 2]}
    attributes = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    for channels, side in ((16, 32), (24, 32), (64, 28), (128, 14)):
        weights = {"w": Spec((channels, channels, 1, 1)).sample() / channels}
        here, last = (1, channels, 2 * side, 2 * side), (1, 2 * side, 2 * side, channels)
        convolved = Node("Conv", ["x", "w"], ["c"])
        stays = [convolved, Node("Resize", ["c", "", "", "sizes"], attributes=attributes)]
        moved = [
            convolved,
            Node("Transpose", ["c"], ["t"], attributes=turned),
            Node("Resize", ["t", "", "", "sizes"], ["r"], attributes=attributes),
            Node("Transpose", ["r"], attributes=back),
        ]
        spec, permutation = Spec((1, channels, side, side)), (0, 2, 3, 1)
        kinds = (("linear KKRR in blocks, float32", stays, here, True), ("moved", moved, last, False))
        found = [
            variant(kind, nodes, spec, permutation, {**weights, "sizes": np.array(sizes, np.int64)}, listed=listed)
            for kind, nodes, sizes, listed in kinds
        ]
        yield Group("Resize", tuple(found))


def _seen(pattern: str, shape: Sequence[int]) -> str:
    """A pattern as what copies sees it: runs of kept dimensions above 1 in one, or ``many``."""
    larger = "".join(letter for letter, size in zip(pattern, shape, strict=True) if letter == "R" or size > 1)
    return re.sub("K+", "K", larger) if len(pattern) == len(PATTERNS[0]) else "many"


def normalisations() -> Iterator[Group]:
    """Layer normalisation as an operator and written out in several ways, over the innermost and the outermost axis."""
    for rows, size in ((17, 48), (197, 192), (50, 384), (3136, 64)):
        found = []
        for kind, shape, axis in (("innermost", (1, rows, size), 2), ("outermost", (1, size, rows), 1)):
            scale = Spec((size,) if axis == 2 else (size, 1)).sample()
            constants = {"axes": np.array([axis], np.int64), "scale": scale, "shift": scale + 1}
            constants |= {"eps": np.array(1e-5, np.float32), "two": np.array(2, np.float32)}
            for name, nodes in (("pow-div", _torch()), ("rsqrt", _keras())):
                found.append(variant(f"{name} {kind}", nodes, Spec(shape), (0, 2, 1), constants, listed=False))
            if axis == 2:
                fused = [Node("LayerNormalization", ["x", "scale", "shift"], attributes={"axis": 2, "epsilon": 1e-5})]
                found.append(variant("operator", fused, Spec(shape), (0, 2, 1), constants))
            else:
                found.append(variant("written out", _written_out(), Spec(shape), (0, 2, 1), constants))
        yield Group("LayerNormalization", tuple(found))


def _statistics(square: Sequence[Node]) -> list[Node]:
    mean = Node("ReduceMean", ["x", "axes"], ["mean"], {"keepdims": 1})
    variance = Node("ReduceMean", ["square", "axes"], ["variance"], {"keepdims": 1})
    return [
        mean,
        Node("Sub", ["x", "mean"], ["d"]),
        *square,
        variance,
        Node("Add", ["variance", "eps"], ["v"]),
        Node("Sqrt", ["v"], ["root"]),
    ]


def _written_out() -> list[Node]:
    """As the rule of the operator writes it."""
    return [
        *_statistics([Node("Mul", ["d", "d"], ["square"])]),
        Node("Div", ["d", "root"], ["n"]),
        Node("Mul", ["n", "scale"], ["s"]),
        Node("Add", ["s", "shift"]),
    ]


def _torch() -> list[Node]:
    """Mean, Sub, Pow, Mean, Add, Sqrt, Div, Mul, Add."""
    return [
        *_statistics([Node("Pow", ["d", "two"], ["square"])]),
        Node("Div", ["d", "root"], ["n"]),
        Node("Mul", ["n", "scale"], ["s"]),
        Node("Add", ["s", "shift"]),
    ]


def _keras() -> list[Node]:
    """As Keras folds it: ``x * k + (shift - mean * k)`` with ``k = scale / root``."""
    return [
        *_statistics([Node("Mul", ["d", "d"], ["square"])]),
        Node("Reciprocal", ["root"], ["inverse"]),
        Node("Mul", ["inverse", "scale"], ["k"]),
        Node("Mul", ["x", "k"], ["xk"]),
        Node("Mul", ["mean", "k"], ["mk"]),
        Node("Sub", ["shift", "mk"], ["rest"]),
        Node("Add", ["xk", "rest"]),
    ]
