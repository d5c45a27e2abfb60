"""Elements picked and put by index."""

from __future__ import annotations

from itertools import product

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import Table, cases, constant, like, plain


@cases("GATHER")
def gather(table: Table) -> None:
    for dtype, axis in product(("float32", "int32", "int8", "uint8", "int16", "int64", "bool"), (0, 1, -1)):
        source = any_operand(table, dtype, 4, 5, 6)
        indices = table.integers(2, 3, low=0, high=3)
        table.add(f"{dtype}-{axis}", [source, indices], like(source), {"axis": axis})
        table.add(f"{dtype}-{axis}-constant", [source, indices.fixed], like(source), {"axis": axis})
    table.add("scalar", [table.real(4, 5), constant(2)], options={"axis": 0})
    table.add("int64-indices", [table.real(4, 5), table.integers(3, low=0, high=3, dtype="int64")], options={"axis": 1})
    batched = table.integers(4, 3, low=0, high=4)
    table.add("batched", [table.real(4, 5, 6), batched], options={"axis": 1, "batch_dims": 1})
    table.add("batched-later", [table.real(4, 2, 5), batched], options={"axis": 2, "batch_dims": 1})


@cases("GATHER_ND")
def gather_nd(table: Table) -> None:
    for dtype, depth in product(("float32", "int32", "int8", "int64"), (1, 2, 3)):
        source = any_operand(table, dtype, 4, 4, 5)
        table.add(f"{dtype}-{depth}", [source, table.integers(2, 3, depth, low=0, high=3)], like(source))


@cases("EMBEDDING_LOOKUP")
def embedding(table: Table) -> None:
    indices = table.integers(5, low=0, high=6)
    table.add("float32", [indices, table.real(7, 3).fixed])
    table.add("float32-rank3", [indices, table.real(7, 3, 2).fixed])


@cases("SCATTER_ND")
def scatter(table: Table) -> None:
    for dtype in ("float32", "int32", "int64"):
        rows = constant([[3], [0], [5]])
        table.add(f"{dtype}-rows", [rows, any_operand(table, dtype, 3, 4), constant([6, 4])], plain(dtype))
        points = constant([[3, 1], [0, 0], [5, 3]])
        table.add(f"{dtype}-points", [points, any_operand(table, dtype, 3), constant([6, 4])], plain(dtype))
    table.add("repeated", [constant([[1], [1], [0]]), table.real(3, 4), constant([3, 4])])


@cases("SPARSE_TO_DENSE")
def sparse(table: Table) -> None:
    table.add("float32", [constant([[0, 1], [2, 3]]), constant([3, 4]), table.real(2), constant(0.5, "float32")])


@cases("DYNAMIC_UPDATE_SLICE")
def update(table: Table) -> None:
    for start in ((0, 1, 2), (1, 2, 0), (5, 5, 5), (-3, 0, 1)):
        for dtype in ("float32", "int32"):
            inputs = [any_operand(table, dtype, 2, 4, 5), any_operand(table, dtype, 1, 2, 3), constant(list(start))]
            table.add(f"{dtype}-{start}", inputs, plain(dtype))


@cases("REVERSE_V2")
def reverse(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "bool"):
        for axis in (0, 2, -2):
            source = any_operand(table, dtype, 2, 3, 4)
            table.add(f"{dtype}-{axis}", [source, constant([axis])], like(source))
    table.add("float32-two", [table.real(2, 3, 4), constant([1, 2])])


@cases("REVERSE_SEQUENCE")
def reverse_sequence(table: Table) -> None:
    for along, batch in ((1, 0), (0, 1), (2, 1)):
        source = table.real(4, 5, 6)
        lengths = table.integers(source.values.shape[batch], low=1, high=4)
        table.add(f"float32-{along}-{batch}", [source, lengths], options={"seq_dim": along, "batch_dim": batch})
