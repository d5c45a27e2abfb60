"""Rows of different lengths. LiteRT's package has no kernel for them: what is expected follows that of its text models,
which gives rows room for one value at least, and TensorFlow's, which does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.conformance.cases import Model, Operand, Table, cases, constant, declare, written
from tests.conformance.flex import field, node_options


@cases("CUSTOM:RaggedTensorToTensor", "CUSTOM:FlexRaggedTensorToTensor")
def filled(table: Table) -> None:
    once, twice = [[0, 2, 2, 5, 9]], [[0, 2, 2, 5], [0, 3, 3, 4, 8, 8]]
    for dtype in ("float32", "int32", "int64"):
        _add(table, f"{dtype}", once, -1, dtype=dtype)
    _add(table, "int32-splits", once, -1, kind="int32")
    _add(table, "all-stated", once, [6, 3])
    _add(table, "fewer-rows", once, [2, -1])
    _add(table, "wide", once, [-1, 7])
    _add(table, "inner", once, [-1, -1, 3], inner=(3,))
    _add(table, "twice", twice, -1)
    _add(table, "twice-stated", twice, [4, 2, 2])
    _add(table, "twice-inner", twice, [-1, 2, -1, 2, 2], inner=(2, 2))
    _add(table, "all-empty", [[0, 0, 0]], -1)
    _add(table, "no-rows", [[0]], -1)
    _add(table, "no-rows-stated", [[0]], [3, 2])
    _add(table, "dynamic", once, -1, dynamic=True)
    _add(table, "dynamic-twice", twice, -1, dynamic=True)


def _add(
    table: Table,
    label: str,
    splits: list[list[int]],
    stated: int | list[int],
    *,
    dtype: str = "float32",
    kind: str = "int64",
    inner: tuple[int, ...] = (),
    dynamic: bool = False,
) -> None:
    data = table.integers(splits[-1][-1], *inner, low=1, high=99, dtype=dtype)
    parts = [Operand(np.array(part, kind), kind) for part in splits]
    if dynamic:
        data, parts = data.dynamic(0), [part.dynamic(0) for part in parts]
    inputs = [constant(stated, kind), data, Operand(np.array(-7, dtype), dtype), *parts]
    flex = table.operator.startswith("CUSTOM:Flex")

    def make() -> Model:
        sizes = list(np.broadcast_to(np.int64(stated), len(splits) + 1 + len(inner)))
        expected = dense(data.values, splits, sizes, least=0 if flex else 1)
        kinds = ["ROW_SPLITS"] * len(splits)
        options = bytes(flexbuffers.Dumps({"row_partition_types": kinds}))
        if flex:
            listed = field(1, b"".join(field(2, each.encode()) for each in kinds))
            options = node_options("RaggedTensorToTensor", {"row_partition_types": listed})
        output = Operand(dtype=dtype, shape=(1,) * expected.ndim, signature=(-1,) * expected.ndim)
        source = written(table.operator, inputs, [output], {}, options)
        return Model(source, tuple(each.values for each in inputs if not each.constant), (expected,))

    table.add_model(label, make)


def dense(values: Array, splits: Sequence[Sequence[int]], sizes: Sequence[int], least: int) -> Array:
    """The tensor, row by row."""
    depth = len(splits)
    room = [len(splits[0]) - 1 if sizes[0] < 0 else sizes[0]]
    for part, size in zip(splits, sizes[1:], strict=False):
        room.append(max([least, *np.diff(part)]) if size < 0 and len(part) > 1 else max(size, 0))
    result = np.full((*room, *values.shape[1:]), -7, values.dtype)
    for place in np.ndindex(*room):
        at, inside = place[0], place[0] < len(splits[0]) - 1
        for part, column in zip(splits, place[1:], strict=True):
            inside = inside and column < part[at + 1] - part[at]
            at = part[at] + column if inside else 0
        if inside:
            result[place] = values[at]
    assert result.ndim == depth + values.ndim
    return result


declare(
    "CUSTOM:RaggedTensorToTensor",
    "CUSTOM:FlexRaggedTensorToTensor",
    unlayered="it is given rows one after the other, and the sizes of what it gives depend on data",
)
