"""Constants of strings, and tables of them, that contradict themselves."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import layoutsolve
from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.frontend.tflite.reading.strings import strings
from tests.builder import Builder, Part

Make = Callable[[Builder], int]


def tensor(raw: bytes, *shape: int) -> Tensor:
    return Tensor(0, "words", "string", shape, (), None, np.frombuffer(raw, np.uint8))


def packed(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def test_strings() -> None:
    raw = packed(3, 20, 21, 21, 25) + b"a\xff\0zz"
    assert strings(tensor(raw, 3), int).tolist() == [b"a", b"", b"\xff\0zz"]
    assert strings(tensor(packed(1, 12, 13) + b"x"), int).tolist() == b"x"
    assert strings(tensor(b"", 0), int).shape == (0,)


def test_memory_is_asked_for_before_there_are_strings() -> None:
    raw, spent = packed(3, 20, 21, 21, 25) + b"a\xff\0zz", list[int]()
    strings(tensor(raw, 3), spent.append)
    with pytest.raises(ModelError):
        strings(tensor(packed(1 << 30, 8), 1 << 30), spent.append)
    assert spent == [len(raw) + 3 * 64, 8 + (64 << 30)]


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        (b"", (1,)),
        (b"\1\0", (1,)),
        (packed(2, 16, 17, 18) + b"ab", (3,)),
        (packed(-1, 8), (1,)),
        (packed(1 << 30, 8), (1 << 30,)),
        (packed(1, 12, 99) + b"a", (1,)),
        (packed(1, 13, 12) + b"a", (1,)),
        (packed(1, 4, 12) + b"a", (1,)),
        (packed(1, -4, 12) + b"a", (1,)),
    ],
)
def test_damaged_strings(raw: bytes, shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="'words'"):
        strings(tensor(raw, *shape), int)


def handle(part: Part, number: int = 3) -> int:
    made = part.tensor("table", (1,), "resource")
    part.operator("HASHTABLE", [], [made], {"table_id": number, "key_dtype": "string", "value_dtype": "int64"})
    return made


def find(table: int, builder: Builder, default: Any = -1, key: str = "string") -> bytes:
    """A model that looks something up."""
    wanted, out = builder.input("x", (2,), key), builder.tensor("out", (2,), "int64")
    given = builder.input("default", (), "int64") if default is None else builder.constant("default", default)
    builder.operator("HASHTABLE_FIND", [table, wanted, given], [out])
    return builder.finish(out)


def filled(keys: Any = ("a", "b"), values: Sequence[int] = (1, 2)) -> tuple[int, Builder]:
    builder = Builder()
    table = handle(builder)
    given = [
        builder.input("keys", (2,), "string") if keys is None else builder.constant("keys", keys, "string"),
        builder.constant("values", values, "int64"),
    ]
    builder.operator("HASHTABLE_IMPORT", [table, *given], [])
    return table, builder


def never_filled() -> bytes:
    builder = Builder()
    return find(handle(builder), builder)


def elsewhere() -> bytes:
    builder = Builder()
    return find(builder.tensor("table", (1,), "resource"), builder)


def called(number: int) -> bytes:
    builder = Builder()
    part = builder.part()
    handle(part)
    part.outputs()
    builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": number})
    x, y = builder.input("x", (2,)), builder.tensor("y", (2,))
    builder.operator("ABS", [x], [y])
    return builder.finish(y)


def refused(operator: str) -> bytes:
    builder = Builder()
    x, y = builder.input("x", (2,), "int32"), builder.tensor("y", (2,), "int32")
    builder.operator(operator, [x], [y])
    return builder.finish(y)


def gathered() -> bytes:
    builder = Builder()
    words = builder.constant("words", [["a", "b"], ["c", "d"]], "string")
    index, out = builder.input("x", (1,), "int32"), builder.tensor("y", (1, 2), "string")
    builder.operator("GATHER", [words, index], [out], {"axis": 0})
    return builder.finish(out)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (never_filled(), "not filled before"),
        (elsewhere(), "comes from elsewhere"),
        (find(*filled(keys=None)), "computed at run time"),
        (find(*filled(values=(1, 2, 3))), "has a table from"),
        (find(*filled(), default=None), "default is computed"),
        (find(*filled(), key="int64"), "looks int64 up in a table of string"),
        (called(7), "names subgraph 7, but the model has 2"),
        (called(0), "call themselves"),
        (refused("LSH_PROJECTION"), "hashes the bytes"),
        (refused("SKIP_GRAM"), "into words"),
        (gathered(), "gathers rows of strings"),
    ],
)
def test_refused(source: bytes, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        layoutsolve.convert(source)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("called", ["before", "after", ""])
def test_tables_are_filled_by_what_is_executed(called: str, depth: int) -> None:
    """A subgraph fills no table that nothing calls, or only another such one, or that is called afterwards."""
    builder = Builder()
    if called or depth:
        builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    for number in range(1, depth + 1):
        part = builder.part()
        if called or number < depth:
            part.operator("CALL_ONCE", [], [], {"init_subgraph_index": number + 1})
        part.outputs()
    part = builder.part()
    given = [part.constant("keys", ["a", "b"], "string"), part.constant("values", [1, 2], "int64")]
    part.operator("HASHTABLE_IMPORT", [handle(part), *given], [])
    part.outputs()
    table = handle(builder)
    source = find(table, builder)
    if called == "after":
        builder.subgraph.operators.append(builder.subgraph.operators.pop(0))
        source = builder.finish(*builder.subgraph.outputs)
    if called == "before":
        layoutsolve.convert(source)
    else:
        with pytest.raises(UnsupportedError, match="not filled before"):
            layoutsolve.convert(source)


@pytest.mark.parametrize("dtype", ["resource", "variant"])
@pytest.mark.parametrize("shared", [True, False])
def test_handles_have_no_data(shared: bool, dtype: str) -> None:
    """LiteRT would write the handle over what else has the buffer."""
    table, builder = filled()
    handled = builder.subgraph.tensors[table]
    handled.type = getattr(schema.TensorType, dtype.upper())
    if shared:
        handled.buffer = builder.subgraph.tensors[builder.subgraph.operators[1].inputs[2]].buffer
    source = find(table, builder)
    if shared:
        with pytest.raises(ModelError, match=f"of {dtype} has data of its own"):
            layoutsolve.convert(source)
    elif dtype == "resource":
        layoutsolve.convert(source)
