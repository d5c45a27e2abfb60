"""Elements picked and put by index."""

from __future__ import annotations

from itertools import product

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import STORED, Operand, Table, cases, constant, declare, fed, like, plain


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
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "bool"):
        rows = constant([[3], [0], [5]])
        updates = any_operand(table, dtype, 3, 4)
        table.add(f"{dtype}-rows", [rows, updates, constant([6, 4])], like(updates))
        points = fed([[3, 1], [0, 0], [5, 3]])
        updates = any_operand(table, dtype, 3)
        table.add(f"{dtype}-points", [points, updates, constant([6, 4])], like(updates))
    for dtype in ("float32", "int32", "bool"):
        inputs = [constant([[1], [1], [0], [1]]), any_operand(table, dtype, 4, 4)]
        table.add(f"{dtype}-repeated", [*inputs, constant([3, 4])], plain(dtype))
    table.add("int8-overflow", [constant([[1], [1]]), fed([100, 100], "int8"), constant([3])], plain("int8"))
    table.add("computed-shape", [constant([[1], [0]]), table.real(2, 4), fed([3, 4])])
    table.add("two-outer-axes", [fed([[[1], [0]], [[2], [1]]]), table.real(2, 2, 4), constant([3, 4])])


@cases("SPARSE_TO_DENSE")
def sparse(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "int8", "uint8"):
        values, default = any_operand(table, dtype, 2), constant(3, dtype)
        default = Operand(default.data, dtype, values.quant, constant=True)
        table.add(dtype, [constant([[0, 1], [2, 3]]), constant([3, 4]), values, default], like(values))
    line, default = any_operand(table, "float32", 3), constant(0.5, "float32")
    table.add("vector", [fed([0, 4, 2]), constant([6]), line, default])
    table.add("one-value", [fed([[0, 1], [2, 3]]), constant([3, 4]), table.real(), default])
    table.add("one-index", [fed(3), constant([6]), table.real(), default])
    table.add("int64-indices", [fed([[0, 1], [2, 3]], "int64"), constant([3, 4], "int64"), table.real(2), default])
    table.add("computed-shape", [fed([[0, 1], [2, 3]]), fed([3, 4]), table.real(2), default])
    places = fed([[0, 1], [2, 3], [1, 0]]).dynamic(0)
    table.add("open-number", [places, constant([3, 4]), table.real(3).dynamic(0), default])
    table.add("open-number-computed-shape", [places, fed([3, 4]), table.real(3).dynamic(0), default])
    table.add("open-number-one-value", [places, fed([3, 4]), table.real(), default])


@cases("DYNAMIC_UPDATE_SLICE")
def update(table: Table) -> None:
    for start in ((0, 1, 2), (1, 2, 0), (5, 5, 5), (-3, 0, 1)):
        for dtype in ("float32", "int32", "int64", "int8", "uint8", "int16", "bool"):
            source = any_operand(table, dtype, 2, 4, 5)
            part = Operand(any_operand(table, dtype, 1, 2, 3).data, dtype, source.quant)
            table.add(f"{dtype}-{start}", [source, part, constant(list(start))], like(source))
    for shape in ((2, 1, 5), (1, 4, 5), (2, 4, 1), (2, 4, 5), (2, 2, 3), (1, 2, 5), (2, 0, 5)):
        for start in ((0, 1, 2), (9, 9, 9), (-1, -1, -1)):
            inputs = [table.real(2, 4, 5), table.real(*shape)]
            table.add(f"computed-{shape}-{start[0]}", [*inputs, fed(start)])
        table.add(f"constant-{shape}", [*inputs, constant([1, 3, 1], "int64")])
    far = [2**31, -(2**31) - 1, 2**32 + 1, 2**31 - 1]
    table.add("int64-far", [table.real(3, 5, 4, 6), table.real(1, 2, 3, 2), fed(far, "int64")])
    table.add("int64-computed", [table.real(1, 8, 2, 4), table.real(1, 1, 2, 4), fed([0, 5, 0, 0], "int64")])


@cases("EMBEDDING_LOOKUP_SPARSE")
def embedding_sparse(table: Table) -> None:
    for combiner in (0, 1, 2):
        weights = table.real(4, low=0.5, high=2)
        rows = fed([[0, 0], [0, 1], [2, 0], [2, 2]])
        inputs = [fed([1, 3, 0, 1]), rows, constant([4, 3]), weights]
        table.add(f"{combiner}", [*inputs, table.real(5, 3).fixed], options={"combiner": combiner})
        table.add(f"{combiner}-rank3", [*inputs, table.real(5, 3, 2)], options={"combiner": combiner})
        deep = [fed([1, 3, 0, 1]), fed([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1]]), constant([2, 2, 2]), weights]
        table.add(f"{combiner}-deep", [*deep, table.real(5, 3)], options={"combiner": combiner})
        flat = [fed([1, 3, 0]), fed([[0], [1], [2]]), constant([3]), table.real(3, low=0.5, high=2)]
        table.add(f"{combiner}-flat", [*flat, table.real(5, 3)], options={"combiner": combiner})


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
    chosen = {"seq_dim": 1, "batch_dim": 0}
    for dtype in ("float32", "int32", "int64", "uint8", "int16"):
        source = any_operand(table, dtype, 4, 5, 2)
        table.add(f"{dtype}-edges", [source, fed([0, 1, 5, -2])], like(source), chosen)
    table.add("int64-lengths", [table.real(3, 4), fed([2, 4, 3], "int64")], options=chosen)
    table.add("constant-lengths", [table.real(3, 4, 2), constant([2, 4, 3])], options=chosen)
    table.add("rank5", [table.real(2, 3, 4, 2, 2), fed([2, 1])], options={"seq_dim": 2, "batch_dim": 3})


@cases("UNIQUE")
def unique(table: Table) -> None:
    for dtype, target in product(("float32", "int32", "int64", "int16", "int8", "uint8"), ("int32", "int64")):
        outputs = (plain(dtype), plain(target))
        table.add(f"{dtype}-{target}", [fed([3, 1, 3, 2, 1, 0, 9], dtype)], outputs, {"idx_out_type": target})


declare(
    "DYNAMIC_UPDATE_SLICE",
    "EMBEDDING_LOOKUP",
    "GATHER",
    "GATHER_ND",
    "REVERSE_SEQUENCE",
    "REVERSE_V2",
    "SCATTER_ND",
    "SPARSE_TO_DENSE",
    "UNIQUE",
    parameters=STORED,
)
