"""Small files that ask for much: families of models by a size, in the file or beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

import numpy as np

from tests.builder import Builder, Quant


def _vector(builder: Builder, *numbers: int) -> int:
    return builder.constant("", np.array(numbers, np.int32))


def unpacked(count: int) -> bytes:
    """A vector taken apart into scalars, all of which are outputs."""
    builder = Builder()
    x, parts = builder.input("x", (count,)), [builder.tensor("", ()) for _ in range(count)]
    builder.operator("UNPACK", [x], parts, {"num": count, "axis": 0})
    return builder.finish(*parts)


def split(count: int) -> bytes:
    """A tensor taken apart, and every part read by an operator of its own."""
    builder = Builder()
    x, axis = builder.input("x", (2, 2, count)), builder.constant("axis", np.int32(2))
    parts, results = ([builder.tensor("", (2, 2, 1)) for _ in range(count)] for _ in range(2))
    builder.operator("SPLIT", [axis, x], parts, {"num_splits": count})
    for part, result in zip(parts, results, strict=True):
        builder.operator("ABS", [part], [result])
    return builder.finish(*results)


def joined(count: int) -> bytes:
    """One tensor joined with itself."""
    builder = Builder()
    x, y = builder.input("x", (1, 4, 4, 3)), builder.tensor("y", (1, 4, 4, 3 * count))
    builder.operator("CONCATENATION", [x] * count, [y], {"axis": 3})
    return builder.finish(y)


def repeated_outputs(count: int) -> bytes:
    """One tensor that is an output again and again."""
    builder = Builder()
    x, y = builder.input("x", (4,)), builder.tensor("y", (4,))
    builder.operator("ABS", [x], [y])
    return builder.finish(*[y] * count)


def joined_inputs(count: int) -> bytes:
    """Many inputs joined."""
    builder = Builder()
    given, y = (
        [builder.input(f"x{index}", (1, 2, 2, 3)) for index in range(count)],
        builder.tensor("y", (1, 2, 2, 3 * count)),
    )
    builder.operator("CONCATENATION", given, [y], {"axis": 3})
    return builder.finish(y)


def joined_in_turn(count: int) -> bytes:
    """A tensor that grows by one row from operator to operator."""
    builder = Builder()
    x = result = builder.input("x", (1, 3))
    for index in range(count):
        longer = builder.tensor("", (index + 2, 3))
        builder.operator("CONCATENATION", [result, x], [longer], {"axis": 0})
        result = longer
    return builder.finish(result)


def added(count: int) -> bytes:
    """One sum of many tensors."""
    builder = Builder()
    given, y = [builder.input(f"x{index}", (1, 2, 2, 3)) for index in range(count)], builder.tensor("y", (1, 2, 2, 3))
    builder.operator("ADD_N", given, [y], {})
    return builder.finish(y)


def readers(count: int) -> bytes:
    """Many operators that read one tensor, behind a convolution."""
    builder = Builder()
    x, inner = builder.input("x", (1, 4, 4, 3)), builder.tensor("inner", (1, 4, 4, 3))
    weights = builder.constant("weights", np.ones((3, 1, 1, 3), np.float32))
    bias = builder.constant("bias", np.zeros(3, np.float32))
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
    builder.operator("CONV_2D", [x, weights, bias], [inner], options)
    results = [builder.tensor("", (1, 4, 4, 3)) for _ in range(count)]
    for result in results:
        builder.operator("ABS", [inner], [result])
    return builder.finish(*results)


def views(count: int) -> bytes:
    """A chain of Transposes and Reshapes."""
    builder = Builder()
    result = builder.input("x", (2, 3, 4))
    for index in range(count):
        shape = (2, 4, 3) if index % 2 == 0 else (2, 3, 4)
        turned = builder.tensor("", shape)
        builder.operator("TRANSPOSE", [result, _vector(builder, 0, 2, 1)], [turned], {})
        result = turned
    return builder.finish(result)


def shared(count: int) -> bytes:
    """One buffer that as many constants have, each read by an operator of its own."""
    builder = Builder()
    result, buffer = builder.input("x", (64, 64)), builder.buffer(np.ones((64, 64), np.float32).tobytes())
    for _ in range(count):
        constant, following = builder.tensor("", (64, 64)), builder.tensor("", (64, 64))
        builder.subgraph.tensors[constant].buffer = buffer
        builder.operator("ADD", [result, constant], [following], {})
        result = following
    return builder.finish(result)


def calls(count: int) -> bytes:
    """Subgraphs, each called once."""
    builder = Builder()
    result = builder.input("x", (2, 3))
    for index in range(count):
        part = builder.part()
        given, found = part.input("given", (2, 3)), part.tensor("found", (2, 3))
        part.operator("ABS", [given], [found])
        part.outputs(found)
        following = builder.tensor("", (2, 3))
        builder.operator("CALL", [result], [following], {"subgraph": index + 1})
        result = following
    return builder.finish(result)


def signatures(count: int) -> bytes:
    """One operator that many signatures name."""
    builder = Builder()
    x, y = builder.input("x", (2, 3)), builder.tensor("y", (2, 3))
    builder.operator("ABS", [x], [y])
    for index in range(count):
        builder.signature({f"in{index}": x}, {f"out{index}": y}, f"key{index}")
    return builder.finish(y)


def rearranged(count: int) -> bytes:
    """One constant that operators want in another order each time."""
    builder = Builder()
    x = builder.input("x", (16, 16))
    constant, results = builder.constant("constant", np.ones((16, 16), np.float32)), []
    for _ in range(count):
        turned, result = builder.tensor("", (16, 16)), builder.tensor("", (16, 16))
        builder.operator("TRANSPOSE", [constant, _vector(builder, 1, 0)], [turned], {})
        builder.operator("ADD", [x, turned], [result], {})
        results.append(result)
    return builder.finish(*results)


def one_hot(depth: int) -> bytes:
    """A depth in the billions."""
    builder = Builder()
    numbers = [builder.constant("", np.int32(depth)), *(builder.constant("", np.float32(each)) for each in (1, 0))]
    y = builder.tensor("y", (), signature=())
    builder.operator("ONE_HOT", [builder.input("x", (2,), "int32"), *numbers], [y], {"axis": -1})
    return builder.finish(y)


def diagonal(count: int) -> bytes:
    """A matrix of which only the diagonal is given."""
    builder = Builder()
    y = builder.tensor("y", (count, count))
    builder.operator("MATRIX_DIAG", [builder.input("x", (count,))], [y])
    return builder.finish(y)


def doubled(count: int) -> bytes:
    """A constant that is broadcast to twice its size again and again, then read by many."""
    builder = Builder()
    result = builder.constant("", np.ones((1, 1), np.float32))
    for index in range(20):
        longer, turned = builder.tensor("", (2, 2**index)), builder.tensor("", (1, 2 ** (index + 1)))
        builder.operator("BROADCAST_TO", [result, _vector(builder, 2, 2**index)], [longer])
        builder.operator("RESHAPE", [longer, _vector(builder, 1, 2 ** (index + 1))], [turned])
        result = turned
    outputs = [builder.tensor("", (2, 2**20)) for _ in range(count)]
    for output in outputs:
        builder.operator("BROADCAST_TO", [result, _vector(builder, 2, 2**20)], [output])
    return builder.finish(*outputs)


def turned(count: int) -> bytes:
    """A constant of a megabyte in other orders, all of which are outputs."""
    builder = Builder()
    rng = np.random.default_rng(0)
    constant = builder.constant("", rng.random((8, 16, 32, 64), np.float32))
    outputs = []
    for _ in range(count):
        perm = rng.permutation(4)
        outputs.append(builder.tensor("", np.array((8, 16, 32, 64))[perm].tolist()))
        builder.operator("TRANSPOSE", [constant, _vector(builder, *perm)], [outputs[-1]], {})
    return builder.finish(*outputs)


def shared_megabyte(count: int) -> bytes:
    """A buffer of a megabyte that many constants have, each with parameters of its own, whose readers share nothing."""
    builder = Builder()
    buffer = builder.buffer(np.ones((1024, 1024), np.int8).tobytes())
    outputs = []
    for index in range(count):
        quant = Quant([0.5 + index], [index % 7])
        constant, result = builder.tensor("", (1024, 1024), "int8", quant=quant), builder.tensor("", (1024, 1024))
        builder.subgraph.tensors[constant].buffer = buffer
        real = builder.tensor("", (1024, 1024))
        builder.operator("DEQUANTIZE", [constant], [real], {})
        builder.operator("ADD", [builder.input("", (1024, 1024)), real], [result], {})
        outputs.append(result)
    return builder.finish(*outputs)


def long_names(count: int) -> bytes:
    """Names of a hundred thousand characters inside, and one that what is derived from it is named after."""
    builder = Builder()
    result = builder.input("x", (2, 3))
    for index in range(count):
        following = builder.tensor(f"{index}" * 100_000, (2, 3))
        builder.operator("GELU", [result], [following], {})
        result = following
    y = builder.tensor("y", (2, 3))
    builder.operator("ABS", [result], [y])
    return builder.finish(y)


def variable(size: int) -> bytes:
    """A variable that takes no bytes in the file."""
    builder = Builder()
    x, y = builder.input("x", (1, 8)), builder.tensor("y", (1, 8))
    constant = builder.constant("weights", np.ones((8, 8), np.float32))
    time = builder.constant("time", np.ones((8, size), np.float32))
    state = builder.tensor("state", (1, 8 * size), variable=True)
    builder.operator("SVDF", [x, constant, time, -1, state], [y], {"rank": 1})
    return builder.finish(y)


def many_rounds(count: int) -> bytes:
    """Suppressions of boxes in 256 rounds each."""
    builder = Builder()
    boxes, scores = builder.input("boxes", (10, 4)), builder.input("scores", (10,))
    numbers = [builder.constant("", np.int32(256)), *(builder.constant("", np.float32(v)) for v in (0.5, 0.1, 0.5))]
    results: list[int] = []
    for _ in range(count):
        found = [builder.tensor("", (256,), "int32"), builder.tensor("", (256,)), builder.tensor("", (), "int32")]
        builder.operator("NON_MAX_SUPPRESSION_V5", [boxes, scores, *numbers], found)
        results += found
    return builder.finish(*results)


def suppressed(count: int) -> bytes:
    """Suppressions of the same boxes in a few rounds each."""
    builder = Builder()
    boxes, scores = builder.input("boxes", (10, 4)), builder.input("scores", (10,))
    numbers = [builder.constant("", np.int32(4)), *(builder.constant("", np.float32(v)) for v in (0.5, 0.1))]
    results: list[int] = []
    for _ in range(count):
        found = [builder.tensor("", (4,), "int32"), builder.tensor("", (), "int32")]
        builder.operator("NON_MAX_SUPPRESSION_V4", [boxes, scores, *numbers], found)
        results += found
    return builder.finish(*results)


def many_orders(rank: int, count: int = 3) -> bytes:
    """Sums of a tensor of many dimensions in one order after the other."""
    builder, rng, shape = Builder(), np.random.default_rng(rank), (2,) * rank
    x = result = builder.input("x", shape)
    for _ in range(count):
        turned, total = builder.tensor("", shape), builder.tensor("", shape)
        builder.operator("TRANSPOSE", [result, _vector(builder, *rng.permutation(rank))], [turned], {})
        builder.operator("ADD", [turned, x], [total], {})
        result = total
    return builder.finish(result)


def nested(depth: int) -> bytes:
    """A branch within a branch within a branch, each of which adds once, and so does the other one."""
    builder = Builder()
    x, condition = builder.input("x", (2, 3)), builder.input("c", (), "bool")
    y = _branched(builder, condition, x, 1)
    for level in range(1, depth + 1):
        inner, outer = builder.part(), builder.part()
        parts = [(part, part.input("c", (), "bool"), part.input("x", (2, 3))) for part in (inner, outer)]
        for part, given, value in parts:
            total = part.tensor("", (2, 3))
            part.operator("ADD", [value, part.constant("", np.float32(level))], [total], {})
            deeper = part is inner and level < depth
            part.outputs(_branched(part, given, total, 2 * level + 1) if deeper else total)
    return builder.finish(y)


def _branched(part: Builder, condition: int, value: int, first: int) -> int:
    result = part.tensor("", (2, 3))
    said = {"then_subgraph_index": first, "else_subgraph_index": first + 1}
    part.operator("IF", [condition, condition, value], [result], said)
    return result


def constant_outputs(count: int) -> bytes:
    """Constants that are outputs."""
    builder = Builder()
    return builder.finish(*(builder.constant("", np.full(2, index, np.float32)) for index in range(count)))


def long_ends(count: int) -> bytes:
    """Names of a hundred thousand characters outside."""
    builder, outputs = Builder(), []
    for index in range(count):
        outputs.append(builder.tensor(f"{index}" + "y" * 100_000, (2, 3)))
        builder.operator("ABS", [builder.input(f"{index}" + "x" * 100_000, (2, 3))], [outputs[-1]])
    return builder.finish(*outputs)


def orders_of_one(count: int) -> bytes:
    """A constant that each of its readers wants in another order."""
    builder, rng, shape = Builder(), np.random.default_rng(0), (4,) * 5
    constant, x, results = builder.constant("", rng.random(shape, np.float32)), builder.input("x", shape), []
    for _ in range(count):
        turned, result = builder.tensor("", shape), builder.tensor("", shape)
        builder.operator("TRANSPOSE", [constant, _vector(builder, *rng.permutation(5))], [turned], {})
        builder.operator("ADD", [x, turned], [result], {})
        results.append(result)
    return builder.finish(*results)


def normalised(size: int) -> bytes:
    """A normalisation written out, whose scale is one number for all elements."""
    builder = Builder()
    x, axes = builder.input("x", (1, size)), _vector(builder, 1)
    one, few = builder.constant("", np.float32(2)), builder.constant("", np.float32(1e-3))

    def written(name: str, *given: int, narrow: bool = False) -> int:
        result = builder.tensor("", (1, 1 if narrow else size))
        builder.operator(name, given, [result], {"keep_dims": True} if name == "MEAN" else None)
        return result

    centred = written("SUB", x, written("MEAN", x, axes, narrow=True))
    variance = written("MEAN", written("MUL", centred, centred), axes, narrow=True)
    root = written("RSQRT", written("ADD", variance, few, narrow=True), narrow=True)
    return builder.finish(written("MUL", written("MUL", centred, root), one))


def of_rank(rank: int) -> bytes:
    """Dimensions as no kernel takes them."""
    builder = Builder()
    y = builder.tensor("y", (1,) * rank)
    builder.operator("ABS", [builder.input("x", (1,) * rank)], [y])
    return builder.finish(y)


_MOVING = ("BROADCAST_TO", "TILE", "TRANSPOSE", "RESHAPE", "GATHER", "CONCATENATION", "PACK")


def of_constants(seed: int, most: int = 1 << 28) -> bytes:
    """Operators on constants, most of which grow up to ``most`` elements, and of which several are read by several."""
    builder, rng = Builder(), np.random.default_rng(seed)
    made: list[tuple[int, tuple[int, ...]]] = []

    def written(name: str, given: list[int], shape: tuple[int, ...], options: dict[str, object] | None = None) -> None:
        result = builder.tensor("", shape)
        builder.operator(name, given, [result], options)
        made.append((result, shape))

    made.append((builder.constant("", rng.random((4, 8, 16), np.float32)), (4, 8, 16)))
    for _ in range(int(rng.integers(20, 120))):
        source, shape = made[int(rng.integers(max(0, len(made) - 6), len(made)))]
        factor = int(rng.integers(1, 5))
        if prod(shape) * factor > most:
            source, shape = made[0]
        kind = rng.choice([*_MOVING, "PAD", "SELECT_V2", "ADD"])
        if kind == "BROADCAST_TO":
            wide, flat = builder.tensor("", (1, prod(shape))), (factor, prod(shape))
            builder.operator("RESHAPE", [source, _vector(builder, 1, prod(shape))], [wide], {})
            written(kind, [wide, _vector(builder, *flat)], flat)
        elif kind == "TILE":
            written(
                kind, [source, _vector(builder, *[factor] + [1] * (len(shape) - 1))], (shape[0] * factor, *shape[1:])
            )
        elif kind == "TRANSPOSE":
            perm = rng.permutation(len(shape))
            written(kind, [source, _vector(builder, *perm)], tuple(shape[axis] for axis in perm), {})
        elif kind == "RESHAPE":
            flat = (shape[0], prod(shape[1:]))
            written(kind, [source, _vector(builder, *flat)], flat, {})
        elif kind == "GATHER":
            rows = rng.integers(0, shape[0], shape[0] * factor).astype(np.int32)
            written(kind, [source, builder.constant("", rows)], (len(rows), *shape[1:]), {"axis": 0})
        elif kind == "CONCATENATION":
            written(kind, [source] * factor, (shape[0] * factor, *shape[1:]), {"axis": 0})
        elif kind == "PACK" and len(shape) < 5:
            written(kind, [source] * factor, (factor, *shape), {"axis": 0, "values_count": factor})
        elif kind == "PAD":
            sides = rng.integers(0, 3, (len(shape), 2)).astype(np.int32)
            filler = [builder.constant("", np.float32(0.5))] if rng.integers(2) else []
            longer = tuple((np.array(shape) + sides.sum(1)).tolist())
            written("PADV2" if filler else "PAD", [source, builder.constant("", sides), *filler], longer, {})
        elif kind == "SELECT_V2":
            few, half = builder.tensor("", shape, "bool"), builder.constant("", np.float32(0.5))
            many, picks = builder.tensor("", shape, "bool"), builder.tensor("", shape, "bool")
            builder.operator("LESS", [source, half], [few], {})
            builder.operator("LOGICAL_NOT", [few], [many], {})
            builder.operator(str(rng.choice(["LOGICAL_AND", "LOGICAL_OR"])), [few, many], [picks], {})
            written(kind, [picks, source, half], shape, {})
        else:
            written("ADD", [source, source], shape, {})
    picked = rng.choice(len(made) - 1, min(len(made) - 1, 8), replace=False) + 1
    return builder.finish(*(made[index][0] for index in picked))


HEAVY: Mapping[str, Callable[[], bytes]] = {
    "one_hot": lambda: one_hot(2**28),
    "one_hot beyond int32": lambda: one_hot(2**31 - 1),
    "diagonal": lambda: diagonal(2**16),
    "doubled": lambda: doubled(200),
    "turned": lambda: turned(200),
    "shared_megabyte": lambda: shared_megabyte(200),
    "long_names": lambda: long_names(10),
    "variable": lambda: variable(2**8),
    "many_rounds": lambda: many_rounds(30),
    "normalised": lambda: normalised(2**27),
    "of_rank": lambda: of_rank(10000),
    "joined": lambda: joined(5000),
    "joined again and again": lambda: joined(1 << 18),
    "repeated_outputs": lambda: repeated_outputs(4000),
    "outputs again and again": lambda: repeated_outputs(1 << 18),
    "unpacked": lambda: unpacked(5000),
    "more unpacked": lambda: unpacked(20_000),
    "far more unpacked": lambda: unpacked(40_000),
    "split": lambda: split(3000),
    "suppressed": lambda: suppressed(256),
    "many_orders": lambda: many_orders(12),
    "many orders of high rank": lambda: many_orders(16, 6),
    "more orders of high rank": lambda: many_orders(16, 12),
    "constant_outputs": lambda: constant_outputs(4000),
    "far more constant outputs": lambda: constant_outputs(50_000),
    "long_ends": lambda: long_ends(4),
    "orders_of_one": lambda: orders_of_one(400),
    **{f"of_constants {seed}": partial(of_constants, seed) for seed in range(8)},
}
"""Files that ask for far more than they are."""

LINEAR: Mapping[str, tuple[Callable[[int], bytes], int]] = {
    "unpacked": (unpacked, 400),
    "split": (split, 400),
    "joined": (joined, 800),
    "joined_inputs": (joined_inputs, 400),
    "joined_in_turn": (joined_in_turn, 400),
    "added": (added, 400),
    "readers": (readers, 400),
    "views": (views, 800),
    "shared": (shared, 200),
    "calls": (calls, 400),
    "nested": (nested, 14),
    "signatures": (signatures, 800),
    "rearranged": (rearranged, 200),
    "suppressed": (suppressed, 40),
    "constant_outputs": (constant_outputs, 800),
    "orders_of_one": (orders_of_one, 200),
}
"""Families in which work has to grow as the size does, each with a size from which on that can be seen."""
