"""Flex operators that have no built-in equal: what TensorFlow's documentation says of them, computed by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from layoutsolve.ir.graph import Array
from tests.conformance.cases import Model, Operand, Table, cases, constant, declare, fed
from tests.conformance.flex import FALSE, TRUE, field, model, node_options

_UNPACKED = 2
"""Every so manieth list of numbers is written one number at a time, as older writers of protocol buffers do."""


def numbers(values: Sequence[int], packed: bool = True) -> bytes:
    """The bytes of an AttrValue that is a list of small integers."""
    entries = bytes(values) if packed else b"".join(bytes([3 << 3, value]) for value in values)
    return field(1, field(3, entries) if packed else entries)


def text(value: str) -> bytes:
    """The bytes of an AttrValue that is a text."""
    return field(2, value.encode())


def add(
    table: Table,
    label: str,
    inputs: Sequence[Operand],
    expected: Sequence[Array],
    attributes: Mapping[str, bytes],
    tolerance: float = 1e-5,
) -> None:
    """A case of the operator alone."""
    name = table.operator.removeprefix("CUSTOM:Flex")
    outputs = [Operand(dtype=each.dtype.name, shape=each.shape) for each in expected]

    def make() -> Model:
        return model(table.operator, inputs, outputs, node_options(name, attributes), tuple(expected))

    table.add_model(label, make, tolerance=tolerance)


def windowed(
    x: Array, kernel: Sequence[int], strides: Sequence[int], rates: Sequence[int], same: bool, fill: float
) -> Array:
    """The elements of all windows: batch, places, elements of a window, channels."""
    counts, pads = [], [(0, 0)]
    for size, window, stride, rate in zip(x.shape[1:-1], kernel, strides, rates, strict=True):
        extent = (window - 1) * rate + 1
        count = -(-size // stride) if same else (size - extent) // stride + 1
        total = max((count - 1) * stride + extent - size, 0) if same else 0
        pads.append((total // 2, total - total // 2))
        counts.append(count)
    padded = np.pad(x, [*pads, (0, 0)], constant_values=fill)
    found = np.zeros((x.shape[0], *counts, *kernel, x.shape[-1]), x.dtype)
    for place in np.ndindex(*counts):
        spans = [
            slice(at * stride, at * stride + (window - 1) * rate + 1, rate)
            for at, stride, window, rate in zip(place, strides, kernel, rates, strict=True)
        ]
        found[(slice(None), *place)] = padded[(slice(None), *spans)]
    return found.reshape(x.shape[0], *counts, -1, x.shape[-1])


GEOMETRIES = (
    ((2, 2, 2), (2, 2, 2), True), ((2, 2, 2), (2, 2, 2), False), ((3, 3, 1), (2, 1, 1), True),
    ((1, 3, 2), (1, 2, 3), False), ((3, 2, 3), (1, 1, 1), True),
)  # fmt: skip


@cases(*(f"CUSTOM:Flex{name}" for name in ("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D")))
def pools(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    rank = 3 if name.endswith("3D") else 2
    for at, (kernel, strides, same) in enumerate(GEOMETRIES):
        kernel, strides = kernel[:rank], strides[:rank]
        x = table.real(2, *(7, 6, 5)[:rank], 3)
        reduce = np.max if name.startswith("Max") else np.nanmean
        fill = -np.inf if name.startswith("Max") else np.nan
        expected = reduce(windowed(x.values, kernel, strides, (1,) * rank, same, fill), axis=-2)
        packed = at % _UNPACKED == 0
        attributes = {
            "ksize": numbers((1, *kernel, 1), packed),
            "strides": numbers((1, *strides, 1), packed),
            "padding": text("SAME" if same else "VALID"),
            "data_format": text("NDHWC" if rank == 3 else "NHWC"),
            "T": b"\x30\x01",
        }
        add(table, f"{kernel}-{strides}-{same}", [x], [expected.astype(np.float32)], attributes)


@cases("CUSTOM:FlexMaxPoolWithArgmax")
def places(table: Table) -> None:
    for at, (kernel, strides, same) in enumerate(GEOMETRIES):
        kernel, strides = kernel[:2], strides[:2]
        x = table.real(2, 7, 6, 3)
        counted = np.arange(x.values.size).reshape(x.values.shape)
        for batch in (False, True):
            count = counted if batch else counted % counted[0].size
            seen = windowed(x.values, kernel, strides, (1, 1), same, -np.inf)
            where = seen.argmax(axis=-2, keepdims=True)
            place = np.take_along_axis(windowed(count, kernel, strides, (1, 1), same, 0), where, -2)[..., 0, :]
            attributes = {
                "ksize": numbers((1, *kernel, 1)),
                "strides": numbers((1, *strides, 1)),
                "padding": text("SAME" if same else "VALID"),
                "include_batch_in_index": TRUE if batch else FALSE,
            }
            results = [seen.max(axis=-2), place.astype(np.int32 if at == 1 else np.int64)]
            add(table, f"{kernel}-{strides}-{same}-{batch}", [x], results, attributes)


@cases("CUSTOM:FlexExtractImagePatches")
def patches(table: Table) -> None:
    for kernel, strides, rates, same in (
        ((3, 3), (2, 2), (1, 1), True), ((2, 3), (1, 2), (2, 1), True), ((2, 2), (2, 2), (1, 1), False),
        ((3, 2), (1, 1), (2, 3), False), ((8, 6), (1, 1), (1, 1), False),
    ):  # fmt: skip
        for dtype in ("float32", "int32"):
            x = table.real(2, 8, 6, 3) if dtype == "float32" else table.integers(2, 8, 6, 3)
            found = windowed(x.values, kernel, strides, rates, same, 0)
            expected = found.reshape(*found.shape[:3], -1)
            attributes = {
                "ksizes": numbers((1, *kernel, 1)),
                "strides": numbers((1, *strides, 1)),
                "rates": numbers((1, *rates, 1)),
                "padding": text("SAME" if same else "VALID"),
            }
            add(table, f"{dtype}-{kernel}-{strides}-{rates}-{same}", [x], [expected], attributes)


def cubic(size: int, out: int, halves: bool, aligned: bool) -> Array:
    """The weights of the pixels of a line for each pixel of a resized one."""
    a = -0.5 if halves else -0.75
    scale = (size - 1) / (out - 1) if aligned and out > 1 else size / out
    weights = np.zeros((out, size))
    for place in range(out):
        at = (place + 0.5) * scale - 0.5 if halves else place * scale
        first = int(np.floor(at))
        for pixel in range(first - 1, first + 3):
            far = abs(round((at - first) * 1024) / 1024 - (pixel - first))
            near = (a + 2) * far**3 - (a + 3) * far**2 + 1
            wide = a * far**3 - 5 * a * far**2 + 8 * a * far - 4 * a
            if not halves or 0 <= pixel < size:
                weights[place, min(max(pixel, 0), size - 1)] += near if far <= 1 else wide
    return np.asarray(weights / weights.sum(1, keepdims=True))


@cases("CUSTOM:FlexResizeBicubic")
def bicubic(table: Table) -> None:
    stored = table.integers(1, 6, 5, 2, low=0, high=100, dtype="uint8")
    rows, columns = cubic(6, 9, True, False), cubic(5, 4, True, False)
    expected = np.einsum("ph,qw,nhwc->npqc", rows, columns, stored.values).astype(np.float32)
    add(table, "uint8", [stored, constant([9, 4])], [expected], {"half_pixel_centers": TRUE, "T": b"\x30\x04"})
    for halves, aligned in ((True, False), (False, True), (False, False)):
        for height, width in ((16, 14), (8, 21), (4, 5), (9, 10)):
            x = table.real(2, 8, 7, 3)
            rows, columns = cubic(8, height, halves, aligned), cubic(7, width, halves, aligned)
            expected = np.einsum("ph,qw,nhwc->npqc", rows, columns, x.values).astype(np.float32)
            attributes = {
                "half_pixel_centers": TRUE if halves else FALSE,
                "align_corners": TRUE if aligned else FALSE,
                "T": b"\x30\x01",
            }
            size = constant([height, width])
            add(table, f"{halves}-{aligned}-{height}x{width}", [x, size], [expected], attributes)


def _left(a: Array, b: Array) -> Array:
    return np.left_shift(a, np.clip(b, 0, 8 * a.dtype.itemsize - 1).astype(a.dtype))


def _right(a: Array, b: Array) -> Array:
    return np.right_shift(a, np.clip(b, 0, 8 * a.dtype.itemsize - 1).astype(a.dtype))


_PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LeftShift": _left,
    "RightShift": _right,
}


@cases(*(f"CUSTOM:Flex{name}" for name in _PAIRS))
def bits(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    wide = ("int64", "uint64") if name.startswith("Bitwise") else ()
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", *wide):
        low = 0 if dtype.startswith("u") else -100
        a, b = (table.integers(*shape, low=low, high=100, dtype=dtype) for shape in ((2, 3, 4), (3, 1)))
        if name.endswith("Shift"):
            b = table.integers(3, 1, low=low and -3, high=40, dtype=dtype)
        add(table, dtype, [a, b], [_PAIRS[name](a.values, b.values)], {})


@cases("CUSTOM:FlexInvert")
def inverted(table: Table) -> None:
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        x = table.integers(2, 3, 4, low=0, high=100, dtype=dtype)
        add(table, dtype, [x], [np.invert(x.values)], {})


@cases("CUSTOM:FlexMatrixDeterminant")
def determinants(table: Table) -> None:
    for shape in ((3, 3), (1, 1), (2, 4, 4), (2, 2, 3, 3)):
        x = table.real(*shape)
        add(table, str(shape), [x], [np.asarray(np.linalg.det(x.values), np.float32)], {})


@cases("CUSTOM:FlexMatrixBandPart")
def bands(table: Table) -> None:
    shapes = {"float32": (4, 5), "int64": (3, 3), "bool": (2, 4, 4), "int32": (2, 5, 3), "uint8": (3, 4)}
    for dtype, shape in shapes.items():
        x = table.real(*shape) if dtype == "float32" else fed(table.integers(*shape, low=0, high=1).values, dtype)
        rows, columns = np.indices(shape[-2:])
        for below, above in ((0, 0), (1, 2), (-1, 0), (0, -1), (-1, -1), (3, 1)):
            kept = ((below < 0) | (rows - columns <= below)) & ((above < 0) | (columns - rows <= above))
            inputs = [x, constant(below, "int64"), constant(above, "int64")]
            expected = np.where(kept, x.values, np.zeros((), x.values.dtype))
            add(table, f"{dtype}-{shape}-{below}-{above}", inputs, [expected], {})


@cases("CUSTOM:FlexEinsum")
def einsums(table: Table) -> None:
    for equation, *shapes in (
        ("abc,cd->abd", (2, 3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ab->ba", (2, 3)),
        ("abcd,aecd->acbe", (2, 3, 4, 5), (2, 6, 4, 5)), ("ab,ab->", (2, 3), (2, 3)), ("a,b,c->cab", (2,), (3,), (4,)),
        ("...a,ab->...b", (2, 3, 4), (4, 5)), ("a...,...->a...", (2, 3, 4), (3, 4)),
        ("...ij,...jk->...ki", (2, 3), (3, 4)),
    ):  # fmt: skip
        inputs = [table.real(*shape) for shape in shapes]
        expected = np.asarray(np.einsum(equation, *(each.values for each in inputs)), np.float32)
        add(table, equation.replace("->", "-to-"), inputs, [expected], {"equation": text(equation)})


@cases("CUSTOM:FlexRoll")
def rolls(table: Table) -> None:
    for shift, axes in (([1], [0]), ([-2, 5], [1, 2]), ([7, 1], [-1, -1])):
        for dtype in ("float32", "int32"):
            x = table.real(2, 3, 4) if dtype == "float32" else table.integers(2, 3, 4)
            inputs = [x, constant(shift), constant(axes)]
            add(table, f"{dtype}-{shift}-{axes}", inputs, [np.roll(x.values, shift, axes)], {})


def _where(a: Array, b: Array, zero: Array, function: Callable[[Array, Array], Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.where(zero == 0, 0, function(a, b)).astype(np.float32)


_ZEROS: Mapping[str, Callable[[Array, Array], Array]] = {
    "DivNoNan": lambda a, b: _where(a, b, b, np.divide),
    "MulNoNan": lambda a, b: _where(a, b, b, np.multiply),
    "Xdivy": lambda a, b: _where(a, b, a, np.divide),
    "Xlogy": lambda a, b: _where(a, b, a, lambda x, y: x * np.log(y)),
}


@cases(*(f"CUSTOM:Flex{name}" for name in _ZEROS))
def without_nan(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    a, b = table.real(2, 3, 4), table.real(3, 4, low=0.1, high=2)
    a.values[:, 0, :2] = 0
    b.values[0, 1:3] = 0
    if name.startswith("X"):
        b.values[0, 2] = 0.5
    if name == "MulNoNan":
        a.values[1, 0, 1] = np.inf
    expected = _ZEROS[name](a.values, b.values)
    add(table, "zeros", [a, b], [expected], {})


@cases("CUSTOM:FlexIsFinite")
def finite(table: Table) -> None:
    x = table.real(2, 3, 4)
    x.values[0, 0, :3] = np.inf, -np.inf, np.nan
    add(table, "float32", [x], [np.isfinite(x.values)], {})


@cases("CUSTOM:FlexTruncateDiv", "CUSTOM:FlexTruncateMod")
def truncated(table: Table) -> None:
    for dtype in ("int8", "int16", "int32", "int64"):
        a, b = table.integers(2, 3, 4, low=-50, high=50, dtype=dtype), table.integers(3, 1, low=1, high=7, dtype=dtype)
        b.values[0] *= -1
        quotient = np.trunc(a.values / b.values).astype(dtype)
        expected = quotient if table.operator.endswith("Div") else a.values - quotient * b.values
        add(table, dtype, [a, b], [expected], {})


declare("CUSTOM:FlexIsFinite", unlayered="a convolution spreads what is no number")
