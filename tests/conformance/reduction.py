"""Reductions, and what finds or accumulates along an axis."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.cases import (
    COMPUTED,
    REFUSED,
    STORED,
    Operand,
    Table,
    cases,
    constant,
    declare,
    fed,
    fitted,
    like,
    plain,
    result,
    stored,
)

_AXES = ((1,), (-1,), (1, 2), (-1, -3), (0, 1, 2, 3), (3,), (2, 2))


@cases("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def reductions(table: Table) -> None:
    for axes, keep in product(_AXES, (False, True)):
        label = f"{','.join(map(str, axes))}{'-keep' if keep else ''}"
        chosen = {"keep_dims": keep}
        table.add(f"float32-{label}", [table.real(2, 3, 4, 5), stored(*axes)], options=chosen)
        if table.operator == "REDUCE_PROD":
            continue
        for dtype in ("int8", "uint8", "int16"):
            source = table.quantized(dtype, 2, 3, 4, 5, low=-1, high=2)
            if table.operator in ("REDUCE_MAX", "REDUCE_MIN"):
                table.add(f"{dtype}-{label}", [source, stored(*axes)], like(source), chosen)
                continue
            span = 8.0 if table.operator == "SUM" else 1.5
            table.add(f"{dtype}-{label}", [source, stored(*axes)], result(dtype, -span, span), chosen)
            if table.operator == "MEAN":
                table.add(f"{dtype}-{label}-same", [source, stored(*axes)], like(source), chosen)


@cases("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def reductions_unusual(table: Table) -> None:
    for dtype in ("int32", "int64"):
        source = table.whole(2, 3, 4, dtype=dtype)
        table.add(f"{dtype}", [source, stored(1)], plain(dtype), {"keep_dims": False})
    table.add("float32-scalar-axis", [table.real(2, 3, 4), constant(-1)], options={"keep_dims": True})
    table.add("float32-dynamic", [table.real(2, 3, 4).dynamic(0), stored(1, 2)], options={"keep_dims": False})
    table.add("float32-rank1", [table.real(6), stored(0)], options={"keep_dims": False})
    table.add("float32-no-axes", [table.real(2, 3), Operand(np.zeros(0, np.int32), "int32", constant=True)])


@cases("MEAN")
def exact_means(table: Table) -> None:
    for dtype, span in product(("int8", "uint8"), (0.6, 0.77, 0.9)):
        source = table.quantized(dtype, 2, 3, 5, 32, low=-0.1, high=1)
        table.add(
            f"{dtype}-{span}-exact", [source, stored(1, 2)], result(dtype, -0.05, span), {"keep_dims": True}, steps=0
        )


@cases("REDUCE_ANY", "REDUCE_ALL")
def truths(table: Table) -> None:
    for axes, keep in product(((1,), (-1, 0)), (False, True)):
        source = table.booleans(2, 3, 4)
        table.add(f"{len(axes)}-{keep}", [source, stored(*axes)], plain("bool"), {"keep_dims": keep})


@cases("ARG_MAX", "ARG_MIN")
def places(table: Table) -> None:
    for axis, target in product((0, 1, -1, -2), ("int32", "int64")):
        chosen = {"output_type": target}
        table.add(f"float32-{axis}-{target}", [table.real(2, 5, 6), constant(axis)], plain(target), chosen)
    for dtype in ("int8", "uint8"):
        table.add(dtype, [table.quantized(dtype, 2, 3, 60), constant(-1)], plain("int32"), {"output_type": "int32"})
    table.add(
        "int32-ties", [table.integers(3, 4, 9, low=0, high=2), constant(2)], plain("int32"), {"output_type": "int32"}
    )
    table.add("bool-ties", [table.booleans(3, 9), constant(1)], plain("int32"), {"output_type": "int32"})


@cases("CUMSUM")
def running_sums(table: Table) -> None:
    for axis, exclusive, reverse in product((0, 1, -1), (False, True), (False, True)):
        chosen = {"exclusive": exclusive, "reverse": reverse}
        table.add(f"float32-{axis}-{exclusive}-{reverse}", [table.real(2, 3, 5), constant(axis)], options=chosen)
    for dtype in ("int32", "int64"):
        table.add(dtype, [table.integers(2, 3, 5, dtype=dtype), constant(1)], plain(dtype), {})


@cases("TOPK_V2")
def greatest(table: Table) -> None:
    for count in (1, 3, 6):
        outputs = (plain("float32"), plain("int32"))
        table.add(f"float32-{count}", [table.real(2, 3, 6), constant(count)], outputs)
    table.add("computed", [table.real(2, 3, 6), fed(4)], (plain("float32"), plain("int32")))
    table.add("int32", [table.integers(2, 9, low=-99, high=99), constant(4)], (plain("int32"), plain("int32")))
    table.add(
        "float32-ties",
        [Operand(np.array([[1, 3, 3, 2, 3]], np.float32)), constant(4)],
        (plain("float32"), plain("int32")),
    )
    for dtype in ("int8", "uint8"):
        data = table.random.permutation(100)[:20].reshape(2, 10).astype(dtype)
        source = Operand(data, dtype, fitted(dtype, -1, 1))
        table.add(dtype, [source, constant(5)], (like(source), plain("int32")))


@cases("SEGMENT_SUM", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD")
def segments(table: Table) -> None:
    ordered = table.operator == "SEGMENT_SUM"
    count = [] if ordered else [constant(4)]
    groups = stored(0, 0, 1, 2, 2) if ordered else stored(2, 0, 1, 2, 0)
    given = fed(groups.values)
    for dtype in ("float32", "int32"):
        pick = table.real if dtype == "float32" else table.integers
        table.add(dtype, [pick(5, 3), groups, *count], plain(dtype))
        table.add(f"{dtype}-computed", [pick(5, 3), given, *count], plain(dtype))
        table.add(f"{dtype}-rank1", [pick(5), groups, *count], plain(dtype))
        table.add(f"{dtype}-rank3", [pick(5, 2, 3), given, *count], plain(dtype))
    large = table.integers(5, 3, low=-(2**31), high=2**31 - 1)
    table.add("int32-overflow", [large, groups, *count], plain("int32"))
    if ordered:
        return
    negative = stored(-1, 2, -5, 2, 0)
    table.add("negative", [table.real(5, 3), negative, *count])
    table.add("negative-computed", [table.integers(5, 3), fed(negative.values), *count], plain("int32"))
    table.add("all-computed", [table.real(5, 3), given, fed([4])])
    table.add("two-axes", [table.real(2, 3, 4), constant([[0, 1, 3], [3, 3, 1]]), *count])


@cases("REDUCE_WINDOW")
def windows(table: Table) -> None:
    functions = {"ADD": 0, "MUL": 1, "MINIMUM": 99, "MAXIMUM": -99}
    geometries = (
        ((1, 2, 3), (1, 1, 1), (1, 1, 1)),
        ((2, 3, 1), (1, 2, 1), (1, 2, 1)),
        ((1, 1, 2), (2, 3, 2), (1, 1, 3)),
    )
    for (name, start), (at, geometry) in product(functions.items(), enumerate(geometries)):
        vectors = [constant(each, "int64") for each in geometry]
        for dtype in ("float32", "int32", "int64", "int16", "int8", "uint8"):
            source = table.real(3, 8, 6) if dtype == "float32" else table.whole(3, 8, 6, dtype=dtype)
            first = constant(max(start, 0) if dtype == "uint8" else start, dtype)
            table.add(f"{dtype}-{name}-{at}", [source, first, *vectors], plain(dtype), {"reduce_function": name})
            if at == 0 and name in ("ADD", "MAXIMUM"):
                given = [source, fed(first.values, dtype), *vectors]
                table.add(f"{dtype}-{name}-computed", given, plain(dtype), {"reduce_function": name})
    for name in ("ALL", "ANY"):
        inputs = [table.booleans(3, 8, 6), constant(name == "ALL", "bool"), *vectors]
        table.add(f"bool-{name}", inputs, plain("bool"), {"reduce_function": name})
    for name, start in (("MINIMUM", 2**31 + 1), ("MAXIMUM", -(2**31) - 5)):
        inputs = [table.integers(3, 8, 6, low=-9, high=9, dtype="int64"), constant(start, "int64"), *vectors]
        table.add(f"int64-{name}-far", inputs, plain("int64"), {"reduce_function": name})
    vectors = [constant(each, "int64") for each in ((9,), (1,), (1,))]
    table.add("too-wide", [table.real(4), constant(0, "float32"), *vectors], options={"reduce_function": "ADD"})


declare("REDUCE_WINDOW", "TOPK_V2", parameters=STORED)
declare("REDUCE_MAX", "REDUCE_MIN", parameters=REFUSED)
declare("MEAN", "REDUCE_PROD", "SUM", parameters=COMPUTED)
