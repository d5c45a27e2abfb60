"""Strings, and tables from them to numbers and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Part
from tests.conformance.cases import STORED, Model, Operand, Table, cases, constant, declare, like, plain

WORDS = np.array(["a", "bb", "", "häß", "a b", "0"], object)
NUMBERS = np.array([5, -3, 0, 1 << 40, 7, 5], np.int64)


def words(table: Table, *shape: int) -> Operand:
    """Some of the words."""
    chosen = table.random.choice([word.encode() for word in WORDS], shape)
    return Operand(np.asarray(chosen, "S"), "string")


@cases("EQUAL", "NOT_EQUAL")
def compared(table: Table) -> None:
    table.add("string", [words(table, 3, 4), words(table, 3, 4)], plain("bool"))
    table.add("string-constant", [words(table, 3, 4), constant("bb", "string")], plain("bool"))


@cases("GATHER", "GATHER_ND", "FILL", "TILE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "SLICE", "STRIDED_SLICE")
def moved(table: Table) -> None:
    square, row = words(table, 3, 4), words(table, 1, 6)
    inputs: dict[str, tuple[list[Operand], dict[str, Any]]] = {
        "GATHER": ([words(table, 6), table.integers(2, 3, low=0, high=5)], {"axis": 0}),
        "GATHER_ND": ([square, constant([[2], [0]])], {}),
        "FILL": ([constant([2, 3]), constant("bb", "string")], {}),
        "TILE": ([square, constant([2, 1])], {}),
        "RESHAPE": ([square, constant([2, 6])], {"new_shape": [2, 6]}),
        "EXPAND_DIMS": ([square, constant(1)], {}),
        "SQUEEZE": ([row], {"squeeze_dims": [0]}),
        "SLICE": ([square, constant([0, 1]), constant([2, 3])], {}),
        "STRIDED_SLICE": ([square, constant([0, 1]), constant([3, 4]), constant([2, 1])], {}),
    }
    given, options = inputs[table.operator]
    table.add("string", given, plain("string"), options)
    if not given[0].constant:
        table.add("string-constant", [given[0].fixed, *given[1:]], plain("string"), options)


@cases("HASHTABLE", "HASHTABLE_IMPORT", "HASHTABLE_FIND", "HASHTABLE_SIZE", "CALL_ONCE")
def tables(table: Table) -> None:
    texts, numbers = words(table, 2, 5), table.integers(7, low=0, high=7, dtype="int64")
    if table.operator in ("HASHTABLE_FIND", "HASHTABLE_IMPORT"):
        table.add_model("to-number", partial(looked_up, texts, WORDS, NUMBERS, -1))
        table.add_model("to-string", partial(looked_up, numbers, NUMBERS, WORDS, "?"))
        table.add_model("empty", partial(looked_up, texts, WORDS[:0], NUMBERS[:0], 4))
        table.add_model("filled-by-graph", partial(looked_up, texts, WORDS, NUMBERS, -1, called=False))
    table.add_model("size", partial(counted, WORDS, NUMBERS))
    table.add_model("size-repeated", partial(counted, NUMBERS, WORDS))


def opened(part: Part, keys: Array) -> int:
    """The handle of the table."""
    kinds = ("string", "int64") if keys.dtype == object else ("int64", "string")
    handle = part.tensor("table", (1,), "resource")
    part.operator("HASHTABLE", [], [handle], {"table_id": 3, "key_dtype": kinds[0], "value_dtype": kinds[1]})
    return handle


def filled(part: Part, keys: Array, values: Array) -> int:
    """A table with its content."""
    handle = opened(part, keys)
    given = [
        part.constant(name, data, "string" if data.dtype == object else "int64")
        for name, data in (("keys", keys), ("values", values))
    ]
    part.operator("HASHTABLE_IMPORT", [handle, *given], [])
    return handle


def once(builder: Builder, keys: Array, values: Array) -> int:
    """The table, filled by a subgraph."""
    initial = builder.part()
    builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    filled(initial, keys, values)
    initial.outputs()
    return opened(builder, keys)


def looked_up(wanted: Operand, keys: Array, values: Array, default: Any, called: bool = True) -> Model:
    builder = Builder()
    x = builder.input("x", wanted.values.shape, wanted.dtype)
    handle = once(builder, keys, values) if called else filled(builder, keys, values)
    kind = "string" if values.dtype == object else "int64"
    out = builder.tensor("out", wanted.values.shape, kind)
    builder.operator("HASHTABLE_FIND", [handle, x, builder.constant("default", default, kind)], [out])
    return Model(builder.finish(out), (wanted.values,))


def counted(keys: Array, values: Array) -> Model:
    builder = Builder()
    handle, out = once(builder, keys, values), builder.tensor("out", (1,), "int64")
    builder.operator("HASHTABLE_SIZE", [handle], [out])
    return Model(builder.finish(out), ())


@cases("HASHTABLE_LOOKUP")
def rows(table: Table) -> None:
    wanted, keys = table.integers(8, low=-1, high=9), constant([0, 2, 3, 7])
    for dtype, values in (
        ("float32", table.real(4)),
        ("float32", table.real(4, 3)),
        ("int32", table.integers(4, 2, 2)),
        ("int8", table.quantized("int8", 4, 3)),
        ("uint8", table.quantized("uint8", 4, 3)),
        ("string", words(table, 4)),
    ):
        for given in (values, values.fixed):
            label = f"{dtype}-{values.values.ndim}d-{'constant' if given.constant else 'computed'}"
            table.add(label, [wanted, keys, given], [like(values), plain("uint8")])


declare("HASHTABLE_LOOKUP", "SLICE", "STRIDED_SLICE", parameters=STORED)
declare("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", unlayered="tables of strings")
