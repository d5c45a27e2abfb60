"""MediaPipe's custom operators. LiteRT's package has no kernels for them: what is expected follows MediaPipe's."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import atan, atan2, cos, floor, sin
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.builder import Builder
from tests.conformance.cases import Model, Operand, Table, cases, constant

SAME, VALID = 1, 2
Outputs = tuple[Array, ...]


def add(
    table: Table, label: str, inputs: Sequence[Operand], options: bytes, kernel: Callable[..., Outputs], **more: Any
) -> None:
    """Add a case of the operator alone, whose outputs are what ``kernel`` makes of the inputs."""

    def make() -> Model:
        expected = kernel(*(each.values for each in inputs), **more)
        builder = Builder()
        indices = [
            builder.constant(f"in{at}", each.values, each.dtype)
            if each.constant
            else builder.input(f"in{at}", each.values.shape, each.dtype)
            for at, each in enumerate(inputs)
        ]
        results = [builder.tensor(f"out{at}", each.shape, each.dtype.name) for at, each in enumerate(expected)]
        builder.operator(table.operator, indices, results, custom_options=options)
        fed = tuple(each.values for each in inputs if not each.constant)
        return Model(builder.finish(*results), fed, expected)

    table.add_model(label, make)


def pool_options(padding: int, stride: tuple[int, int], window: tuple[int, int], activation: int = 0) -> bytes:
    """TfLitePoolParams as it lies in memory."""
    return struct.pack("<6i", padding, stride[1], stride[0], window[1], window[0], activation) + b"\xff" * 8


@cases("CUSTOM:Convolution2DTransposeBias")
def transposed_convolutions(table: Table) -> None:
    for padding, stride, window in product((SAME, VALID), ((2, 2), (1, 2), (3, 1)), ((3, 3), (2, 4), (1, 1))):
        for fixed in (True, False):
            weights, bias = table.real(5, *window, 3), table.real(5)
            inputs = [table.real(2, 4, 5, 3), *([weights.fixed, bias.fixed] if fixed else [weights, bias])]
            label = f"{padding}-{stride}-{window}-{'constant' if fixed else 'computed'}"
            options = struct.pack("<3i", padding, stride[1], stride[0])
            add(table, label, inputs, options, transposed_convolution, same=padding == SAME, stride=stride)


def transposed_convolution(x: Array, weights: Array, bias: Array, same: bool, stride: tuple[int, int]) -> Outputs:
    batch, *sizes, _ = x.shape
    channels, *window, _ = weights.shape
    cut = [max(0, k - (n - 1) % s - 1) if same else 0 for n, k, s in zip(sizes, window, stride, strict=True)]
    whole = [s * (n - 1) + k for n, k, s in zip(sizes, window, stride, strict=True)]
    full = np.zeros((batch, *whole, channels), np.float32)
    for row, column in product(*map(range, sizes)):
        top, left = row * stride[0], column * stride[1]
        spread = np.einsum("bi,ohwi->bhwo", x[:, row, column], weights)
        full[:, top : top + window[0], left : left + window[1]] += spread
    top, left = cut[0] // 2, cut[1] // 2
    return (full[:, top : top + whole[0] - cut[0], left : left + whole[1] - cut[1]] + bias,)


@cases("CUSTOM:MaxPoolingWithArgmax2D")
def pools(table: Table) -> None:
    for padding, stride, window in product((SAME, VALID), ((2, 2), (1, 2), (3, 3)), ((2, 2), (3, 2), (1, 1))):
        x, options = table.real(2, 6, 7, 3), pool_options(padding, stride, window)
        more: Mapping[str, Any] = {"same": padding == SAME, "stride": stride, "window": window}
        add(table, f"{padding}-{stride}-{window}", [x], options, pool, **more)
    tied = table.integers(1, 6, 6, 2, low=0, high=1, dtype="float32")
    settled: Mapping[str, Any] = {"same": False, "stride": (2, 2), "window": (2, 2)}
    add(table, "ties", [Operand(tied.values)], pool_options(VALID, (2, 2), (2, 2)), pool, **settled)
    options = pool_options(VALID, (2, 2), (2, 2), activation=1)
    add(table, "relu", [table.real(1, 6, 6, 2, low=-4)], options, pool, **settled, low=0)


def pool(x: Array, same: bool, stride: tuple[int, int], window: tuple[int, int], low: float = -np.inf) -> Outputs:
    batch, *sizes, channels = x.shape
    counts = [-(-n // s) if same else (n - k + s) // s for n, k, s in zip(sizes, window, stride, strict=True)]
    pads = [max(0, (c - 1) * s + k - n) // 2 for c, s, k, n in zip(counts, stride, window, sizes, strict=True)]
    best = np.full((batch, *counts, channels), np.finfo(np.float32).min, np.float32)
    places = np.zeros(best.shape, np.float32)
    for row, column, down, right in product(*map(range, counts), *map(range, window)):
        y, x_ = row * stride[0] - pads[0] + down, column * stride[1] - pads[1] + right
        if 0 <= y < sizes[0] and 0 <= x_ < sizes[1]:
            better = x[:, y, x_] > best[:, row, column]
            best[:, row, column][better] = x[:, y, x_][better]
            places[:, row, column][better] = down * window[1] + right
    return np.maximum(best, low).astype(np.float32), (places + np.float32(0.1)).astype(np.float32)


@cases("CUSTOM:MaxUnpooling2D")
def unpools(table: Table) -> None:
    for window in ((2, 2), (3, 2), (1, 3)):
        places = table.integers(2, 4, 5, 3, low=0, high=window[0] * window[1] - 1).values.astype(np.float32) + 0.1
        inputs = [table.real(2, 4, 5, 3), Operand(places.astype(np.float32))]
        add(table, f"window-{window}", inputs, pool_options(VALID, window, window), unpool, window=window)
    images(table)


def unpool(x: Array, places: Array, window: tuple[int, int]) -> Outputs:
    batch, height, width, channels = x.shape
    result = np.zeros((batch, height * window[0], width * window[1], channels), np.float32)
    for at in np.ndindex(*x.shape):
        place = int(places[at])
        row, column = at[1] * window[0] + place // window[1], at[2] * window[1] + place % window[1]
        result[at[0], row, column, at[3]] = x[at]
    return (result,)


@cases("CUSTOM:LiteRtMaxUnpooling2D")
def images(table: Table) -> None:
    for padding, stride, window in ((SAME, (2, 2), (2, 2)), (VALID, (2, 3), (2, 2)), (SAME, (2, 1), (3, 3))):
        sizes = [n * s if padding == SAME else (n - 1) * s + k for n, s, k in zip((2, 4), stride, window, strict=True)]
        total = sizes[0] * sizes[1] * 2
        places = np.stack([table.random.permutation(total)[:16].reshape(2, 4, 2) for _ in range(2)]).astype(np.int32)
        inputs, options = [table.real(2, 2, 4, 2), Operand(places, "int32")], pool_options(padding, stride, window)
        add(table, f"image-{padding}-{stride}-{window}", inputs, options, unpool_image, sizes=sizes)


def unpool_image(x: Array, places: Array, sizes: Sequence[int]) -> Outputs:
    result = np.zeros((len(x), *sizes, x.shape[3]), np.float32)
    for image, numbers, indices in zip(result, x, places, strict=True):
        image.reshape(-1)[indices.reshape(-1)] = numbers.reshape(-1)
    return (result,)


@cases("CUSTOM:Landmarks2TransformMatrix")
def matrices(table: Table) -> None:
    landmarks = Operand(table.random.uniform(20, 170, (1, 12, 3)).astype(np.float32))
    for label, target, ends in (("level", 0.0, (1, 4)), ("turned", 0.7, (4, 1)), ("nowhere", 0.4, (3, 3))):
        options = {
            "subset_idxs": [0, 2, 5, 7, 11], "left_rotation_idx": ends[0], "right_rotation_idx": ends[1],
            "target_rotation_radians": target, "output_height": 24, "output_width": 32, "scale_x": 1.5, "scale_y": 1.2,
        }  # fmt: skip
        add(table, f"second-{label}", [landmarks], bytes(flexbuffers.Dumps(options)), second_matrix, stated=options)
    flat = Operand(landmarks.values.reshape(1, 1, 1, 36))
    for ends in ((1, 4), (4, 1)):
        options = {
            "subset": [0, 2, 5, 7, 11, 3], "left_rotation_idx": ends[0], "right_rotation_idx": ends[1],
            "dimensions": 3, "landmarks_range": 192, "bbox_size_multiplier": 1.3,
            "input_hw": [96, 48], "output_hw": [24, 32],
        }  # fmt: skip
        add(table, f"first-{ends}", [flat], bytes(flexbuffers.Dumps(options)), first_matrix, stated=options)


def rotation(angle: float) -> Array:
    return np.array([[cos(angle), -sin(angle), 0], [sin(angle), cos(angle), 0], [0, 0, 1]])


def box(points: Array, angle: float) -> tuple[Array, Array]:
    """The size and the centre of the box around points after a rotation, the latter turned back."""
    turned = points @ rotation(angle)[:2, :2].T
    high, low = turned.max(0), turned.min(0)
    return high - low, rotation(-angle)[:2, :2] @ ((high + low) / 2)


def second_matrix(landmarks: Array, stated: Mapping[str, Any]) -> Outputs:
    points = landmarks[0, :, :2].astype(np.float64)
    along = points[stated["right_rotation_idx"]] - points[stated["left_rotation_idx"]]
    angle = stated["target_rotation_radians"] - atan2(along[1], along[0])
    size, centre = box(points[stated["subset_idxs"]], angle)
    wanted = np.array([stated["output_width"], stated["output_height"]])
    shift, scale, back = np.eye(4), np.eye(4), np.eye(4)
    shift[:2, 3], back[:2, 3] = centre, -wanted / 2
    scale[0, 0], scale[1, 1] = np.array([stated["scale_x"], stated["scale_y"]]) * size / wanted
    turn = np.eye(4)
    turn[:3, :3] = rotation(-angle)
    return ((shift @ turn @ scale @ back)[None].astype(np.float32),)


def first_matrix(landmarks: Array, stated: Mapping[str, Any]) -> Outputs:
    points = landmarks.reshape(-1, 3)[:, :2].astype(np.float64)
    along = points[stated["right_rotation_idx"]] - points[stated["left_rotation_idx"]]
    angle = -atan(along[1] / along[0])
    size, centre = box(points[stated["subset"]], angle)
    extent = stated["landmarks_range"]
    turn, scale = rotation(-angle), np.eye(3)
    turn[:2, 2] = centre / extent * 2 - 1
    scale[0, 0], scale[1, 1] = size * stated["bbox_size_multiplier"] / extent
    (rows, columns), (height, width) = stated["output_hw"], stated["input_hw"]
    relative = np.array([[2 / (columns - 1), 0, -1], [0, 2 / (rows - 1), -1], [0, 0, 1]])
    absolute = np.array([[(width - 1) / 2, 0, (width - 1) / 2], [0, (height - 1) / 2, (height - 1) / 2], [0, 0, 1]])
    whole = absolute @ turn @ scale @ relative
    result = np.zeros((4, 4), np.float32)
    result[:2, :2], result[:2, 3], result[2, 2], result[3, 3] = whole[:2, :2], whole[:2, 2], 1, 1
    return (result[None],)


def matrix(table: Table) -> Array:
    """A transformation that turns, scales and moves a little."""
    result = np.eye(4, dtype=np.float32)
    result[:2, :2] += table.random.uniform(-0.2, 0.2, (2, 2))
    result[:2, 3] = table.random.uniform(-1, 1, 2)
    return result[None]


@cases("CUSTOM:TransformLandmarks")
def transformed(table: Table) -> None:
    for fixed in (True, False):
        by = constant(matrix(table), "float32") if fixed else Operand(matrix(table))
        for each, count in ((2, 9), (3, 6)):
            add(table, f"second-{each}-{fixed}", [table.real(1, count, each), by], b"", transform, each=each)
            first = table.real(1, 1, 1, each * count)
            options = bytes(flexbuffers.Dumps({"dimensions": each, "scale": 1.5}))
            add(table, f"first-{each}-{fixed}", [first, by], options, transform, each=each, scale=1.5)


def transform(landmarks: Array, by: Array, each: int, scale: float = 1.0) -> Outputs:
    rows = landmarks.reshape(-1, each).copy()
    rows[:, :2] = rows[:, :2] @ by[0, :2, :2].T + by[0, :2, 3] * np.float32(scale)
    return (rows.reshape(landmarks.shape),)


@cases("CUSTOM:TransformTensorBilinear", "CUSTOM:TransformTensor")
def tensors(table: Table) -> None:
    new = table.operator == "CUSTOM:TransformTensorBilinear"
    for size, shape in (((6, 7), (1, 5, 8, 3)), ((4, 4), (1, 1, 6, 2)), ((8, 16), (1, 16, 8, 4))):
        options: dict[str, Any] = {"mode": "bilinear", "output_size": list(size)}
        if new:
            options = {"output_height": size[0], "output_width": size[1]}
        inputs = [table.real(*shape), Operand(matrix(table))]
        add(table, f"{size}-{shape}", inputs, bytes(flexbuffers.Dumps(options)), sample, size=size, new=new)
    inputs = [table.real(1, 5, 5, 2), Operand(np.eye(4, dtype=np.float32)[None])]
    add(table, "identity", inputs, bytes(flexbuffers.Dumps(options)), sample, size=size, new=new)


def sample(image: Array, by: Array, size: tuple[int, int], new: bool) -> Outputs:
    _, height, width, channels = image.shape
    rows = by[0, :2].astype(np.float32).copy()
    if new:
        rows[:, 3] += rows[:, 0] * np.float32(0.5) + rows[:, 1] * np.float32(0.5) - np.float32(0.5)
    padded = np.zeros((height + 1, width + 1, channels), np.float32)
    padded[:height, :width] = image[0]
    result = np.zeros((1, *size, channels), np.float32)
    for row, column in product(*map(range, size)):
        x, y = rows @ np.array([column, row, 0, 1], np.float32)
        if 0 <= x <= width - 1 and 0 <= y <= height - 1:
            left, top = floor(x), floor(y)
            right, low = x - left, y - top
            upper = (1 - right) * padded[top, left] + right * padded[top, left + 1]
            lower = (1 - right) * padded[top + 1, left] + right * padded[top + 1, left + 1]
            result[0, row, column] = low * lower + (1 - low) * upper
    return (result,)
