"""Transforms of signals: products with matrices that are known."""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.onnx.definitions.definition import MOST, Definition, defines
from layoutsolve.ir.graph import Array


def _waves(read: int, count: int, length: int, parts: int, sign: float) -> Array:
    """The matrix of a transform of so many numbers, each of one part or two, to ``count`` of two parts."""
    angles = sign * 2 * np.pi * (np.outer(np.arange(read), np.arange(count)) % length) / length
    whole = np.zeros((read, parts, count, 2))
    used = np.arange(read) < length
    whole[used, 0] = np.stack([np.cos(angles), np.sin(angles)], -1)[used]
    if parts > 1:
        whole[used, 1] = np.stack([-np.sin(angles), np.cos(angles)], -1)[used]
    return whole.reshape(read * parts, count * 2)


@defines("DFT")
def _transform(call: Definition) -> bool:
    """DFT: a product with the matrix of waves, along the last dimension but one."""
    shape, lengths, given = call.shape(), call.numbers(1), call.numbers(2)
    if shape is None or shape[-1] not in (1, 2) or (call.has(1) and lengths is None) or (call.has(2) and given is None):
        return False
    rank = len(shape)
    axis = (int(given.reshape(())) if given is not None else call.integer("axis", -2)) % rank
    read, inverse = shape[axis], bool(call.integer("inverse", 0))
    length = read if lengths is None else int(lengths.reshape(()))
    half = bool(call.integer("onesided", 0))
    if half and inverse and lengths is None and read is not None:
        length = 2 * (read - 1)
    if read is None or length is None or (half and inverse and shape[-1] != 2):
        return False
    parts, count = int(shape[-1] or 1), length // 2 + 1 if half and not inverse else length
    if parts * read * count > MOST:
        return False
    order = [*(each for each in range(rank - 1) if each != axis), axis, rank - 1]
    waves, made = _waves(read, count, length, parts, 1.0 if inverse else -1.0) / (length if inverse else 1), 2
    if half and inverse:  # of real numbers, whose other half is the same, turned around
        twice = np.where((np.arange(read) > 0) & (2 * np.arange(read) != length), 2, 1) * (
            np.arange(read) <= length // 2
        )
        waves, made = (waves.reshape(read, -1) * twice[:, None]).reshape(2 * read, count, 2)[..., 0], 1
    last = call.write("Transpose", call.node.input[0], perm=order)
    last = call.write("Reshape", last, call.constant([*([0] * (rank - 2)), read * parts], "int64"))
    last = call.write("MatMul", last, call.constant(waves))
    last = call.write("Reshape", last, call.constant([*([0] * (rank - 2)), count, made], "int64"))
    call.write("Transpose", last, perm=np.argsort(order).tolist(), into=call.node.output[0])
    return True


@defines("STFT")
def _frames(call: Definition) -> bool:
    """STFT of real signals: frames are gathered, weighted, and transformed."""
    shape, step, window, given = call.shape(), call.numbers(1), call.numbers(2), call.numbers(3)
    if shape is None or step is None or shape[1] is None or shape[-1] == 2 or (given is None and window is None):
        return False
    length = int(given.reshape(())) if given is not None else len(window if window is not None else ())
    starts = np.arange(0, shape[1] - length + 1, int(step.reshape(())))
    count = length // 2 + 1 if call.integer("onesided", 1) else length
    if length * max(count, len(starts)) > MOST:
        return False
    flat = call.write("Reshape", call.node.input[0], call.constant([0, -1], "int64"))
    frames = call.write("Gather", flat, call.constant(starts[:, None] + np.arange(length), "int64"), axis=1)
    last = call.write("Mul", frames, call.node.input[2]) if call.has(2) else frames
    last = call.write("MatMul", last, call.constant(_waves(length, count, length, 1, -1.0)))
    call.write("Reshape", last, call.constant([0, 0, count, 2], "int64"), into=call.node.output[0])
    return True
