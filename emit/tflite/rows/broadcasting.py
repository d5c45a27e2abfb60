"""Operands that are broadcast: kernels take a few dimensions, so neighbours that broadcast alike are one."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.ir.graph import Dim, Shape, Size, product


def merged(shapes: Sequence[Shape], limit: int) -> list[list[Dim]] | None:
    """The shapes of operands and of their result, last, with fewer dimensions; None where they have few enough, or
    are all the same.
    """
    rank = len(shapes[-1])
    if rank <= limit or all(shape == shapes[-1] for shape in shapes):
        return None
    full = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    if any(
        isinstance(one, Size) and one != whole for shape in full for one, whole in zip(shape, full[-1], strict=True)
    ):
        raise ExpressionError("it is not known whether a dynamic size of its operands is 1", "fix it with --shape")
    groups: list[list[int]] = []
    for axis in range(rank):
        if full[-1][axis] == 1:
            continue
        if groups and all(_alike(shape, full[-1], groups[-1][-1], axis) for shape in full[:-1]):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) > limit:
        raise ExpressionError(f"its operands are broadcast along more than {limit} dimensions")
    return [[product(shape[axis] for axis in group) for group in groups] for shape in full]


def fits(shapes: Sequence[Shape], limit: int) -> bool:
    """Whether operands can be broadcast to their result, the last, within a limit of dimensions."""
    try:
        merged(shapes, limit)
    except ExpressionError:
        return False
    return True


def _alike(shape: Shape, result: Shape, one: int, other: int) -> bool:
    """Whether an operand is broadcast along both of two dimensions, or along none."""
    return (shape[one] == result[one]) == (shape[other] == result[other])


def write(
    call: Call, operator: str, inputs: Sequence[int], shapes: Sequence[Shape], into: int, limit: int, **options: object
) -> None:
    """Write an operator whose operands, of some shapes, are broadcast to that of its result, the last."""
    fewer = merged(shapes, limit)
    if fewer is None:
        call.draft.write(operator, inputs, [into], options)
        return
    read = [call.reshape(tensor, shape) for tensor, shape in zip(inputs, fewer, strict=False)]
    made = call.draft.like(into, fewer[-1])
    call.draft.write(operator, read, [made], options)
    call.reshape(made, shapes[-1], into)
