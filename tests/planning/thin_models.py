"""Random models in ONNX of dimensions of size 1, where operators have the same layouts in several ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.random_onnx import Writer


def thin_model(seed: int, steps: int = 6) -> bytes:
    """A few operators on tensors of two or three dimensions above 1, and on what some of them have written before."""
    writer = Writer(seed)
    shape = [1 if writer.random.random() < 0.55 else int(writer.random.choice([2, 3, 4])) for _ in range(4)]
    written = [writer.input(*shape)]
    for _ in range(steps):
        x = written[-1 - int(writer.random.integers(min(2, len(written))))]
        kind = KINDS[int(writer.random.integers(len(KINDS)))]
        written.append(kind(writer, x))
    last = list(dict.fromkeys((written[-1], written[len(written) // 2])))
    ends = [writer.op("Identity", name, shape=writer.shapes[name]) for name in last]
    return writer.model(*ends).SerializeToString()


def axis_of(writer: Writer, x: str) -> int:
    """One of the dimensions, rather one of size 1."""
    sizes = writer.shapes[x]
    units = [axis for axis, size in enumerate(sizes) if size == 1] or [*range(len(sizes))]
    return int(writer.random.choice(units if writer.random.random() < 0.7 else range(len(sizes))))


def along(kind: str) -> Callable[[Writer, str], str]:
    """An operator along a dimension that keeps all of them."""
    return lambda writer, x: writer.op(kind, x, shape=writer.shapes[x], axis=axis_of(writer, x))


def picked(writer: Writer, x: str) -> str:
    """Entries of a dimension, among them those of one of size 1."""
    axis, shape = axis_of(writer, x), list(writer.shapes[x])
    found = writer.random.integers(0, shape[axis], size=int(writer.random.integers(1, 3)))
    shape[axis] = len(found)
    return writer.op("Gather", x, writer.constant(found, "int64"), shape=shape, axis=axis)


def reduced(writer: Writer, x: str) -> str:
    axis, shape = axis_of(writer, x), list(writer.shapes[x])
    kept = int(writer.random.integers(2)) if len(shape) > 3 else 1
    shape[axis : axis + 1] = [1] * kept
    kind = str(writer.random.choice(["ReduceSum", "ReduceMean", "ReduceMax"]))
    return writer.op(kind, x, writer.constant([axis], "int64"), shape=shape, keepdims=kept)


def normal(writer: Writer, x: str) -> str:
    shape = writer.shapes[x]
    return writer.op("LayerNormalization", x, writer.weights(shape[-1]), shape=shape, axis=len(shape) - 1)


def permuted(writer: Writer, x: str) -> str:
    return writer.transpose(x, [int(axis) for axis in writer.random.permutation(len(writer.shapes[x]))])


def reshaped(writer: Writer, x: str) -> str:
    """Dimensions of size 1 elsewhere, or neighbours as one."""
    shape = [size for size in writer.shapes[x] if size != 1]
    while len(shape) < 4 and writer.random.random() < 0.8:
        shape.insert(int(writer.random.integers(len(shape) + 1)), 1)
    shape = shape if len(shape) > 2 else [1, *shape, 1]
    return writer.op("Reshape", x, writer.constant(shape, "int64"), shape=shape)


def sliced(writer: Writer, x: str) -> str:
    axis, shape = axis_of(writer, x), list(writer.shapes[x])
    ends = [writer.constant([each], "int64") for each in (0, max(shape[axis] - 1, 1), axis)]
    shape[axis] = max(shape[axis] - 1, 1)
    return writer.op("Slice", x, *ends, shape=shape)


def padded(writer: Writer, x: str) -> str:
    axis, shape = axis_of(writer, x), list(writer.shapes[x])
    pads = np.zeros(2 * len(shape), np.int64)
    pads[axis] = 1
    shape[axis] += 1
    return writer.op("Pad", x, writer.constant(pads, "int64"), shape=shape)


def added(writer: Writer, x: str) -> str:
    other = [size if writer.random.random() < 0.5 else 1 for size in writer.shapes[x]]
    return writer.op("Add", x, writer.weights(*other), shape=writer.shapes[x])


def product(writer: Writer, x: str) -> str:
    *rest, inner = writer.shapes[x]
    count = int(writer.random.choice([1, 3]))
    return writer.op("MatMul", x, writer.weights(inner, count), shape=[*rest, count])


def conv(writer: Writer, x: str) -> str:
    if len(writer.shapes[x]) != 4:
        return product(writer, x)
    batch, channels, *space = writer.shapes[x]
    count = int(writer.random.choice([1, 4, 16]))
    return writer.op("Conv", x, writer.weights(count, channels, 1, 1), shape=[batch, count, *space])


def joined(writer: Writer, x: str) -> str:
    axis, shape = axis_of(writer, x), list(writer.shapes[x])
    other = writer.op("Tanh", x, shape=shape)
    shape[axis] *= 2
    return writer.op("Concat", x, other, shape=shape, axis=axis)


KINDS: Sequence[Callable[[Writer, str], str]] = (
    along("LogSoftmax"), along("Softmax"), picked, picked, reduced, reduced, normal, permuted, permuted, reshaped,
    reshaped, sliced, padded, added, product, product, conv, conv, joined,
)  # fmt: skip
