"""StableHLO operators. LiteRT has kernels of some; what the others compute is said by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder
from tests.conformance.arithmetic import FAR
from tests.conformance.cases import STORED, Model, Operand, Table, cases, constant, declare, fed, like, plain, written
from tests.conformance.types import _operand
from tests.truth import litert

_NUMBERS = ("float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


@cases("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
def arithmetic(table: Table) -> None:
    for dtype in (*_NUMBERS, "bool", "int8q"):
        x = _operand(table, dtype, 2, 3, 4)
        y = Operand(np.asarray(_operand(table, dtype, 2, 3, 4).values), x.dtype, x.quant)
        table.add(dtype, [x, y], like(x), tolerance=1e-3 if dtype == "float16" else 1e-5)
    large = fed([120, -120, 7, 100], "int8")
    table.add("int8-overflow", [large, fed([120, -120, 7, 3], "int8")], plain("int8"))


@cases("STABLEHLO_AND")
def conjunction(table: Table) -> None:
    for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "int8q"):
        x = _operand(table, dtype, 3, 5)
        y = Operand(np.asarray(_operand(table, dtype, 3, 5).values), x.dtype, x.quant)
        table.add(dtype, [x, y], like(x))


@cases("STABLEHLO_SHIFT_LEFT")
def shifts(table: Table) -> None:
    for dtype, bits in (("int8", 8), ("int16", 16), ("int32", 32)):
        x = table.integers(4, bits, low=-100, high=100, dtype=dtype)
        counts = Operand(np.tile(np.arange(bits), (4, 1)).astype(dtype), dtype)
        table.add(dtype, [x, counts], plain(dtype))
        table.add(f"{dtype}-constant", [x, counts.fixed], plain(dtype))
        beyond = Operand(np.tile(np.arange(-8, bits - 8), (4, 1)).astype(dtype), dtype)
        if bits < 32:  # there is nothing left of fewer bits, whatever C++ does with such counts
            table.add(f"{dtype}-beyond", [x, beyond], plain(dtype))
            table.add(f"{dtype}-beyond-constant", [x, beyond.fixed], plain(dtype))


def paddings(low: Sequence[int], high: Sequence[int], between: Sequence[int]) -> dict[str, Sequence[int]]:
    """The options of a padding."""
    return {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": between}


@cases("STABLEHLO_PAD")
def pads(table: Table) -> None:
    variants = {
        "edges": ([1, 0, 2], [0, 1, 1], [0, 0, 0]),
        "between": ([0, 0, 0], [0, 0, 0], [1, 0, 2]),
        "all": ([1, 2, 0], [0, 1, 3], [2, 1, 0]),
        "cut": ([-1, 0, -2], [0, -1, -1], [0, 0, 0]),
        "cut-between": ([-1, -2, 1], [1, -3, -4], [1, 2, 1]),
        "nothing": ([0, 0, 0], [0, 0, 0], [0, 0, 0]),
    }
    for label, pads in variants.items():
        table.add(label, [table.real(3, 4, 5), Operand(np.array(0.5, np.float32))], options=paddings(*pads))
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "bool", "float16", "int8q"):
        x = _operand(table, dtype, 3, 4)
        filler = Operand(np.array(1, x.dtype), x.dtype, x.quant, True)
        table.add(f"type-{dtype}", [x, filler], like(x), paddings([1, -1], [0, 2], [1, 0]))


# -- gathers -------------------------------------------------------------------------------------------------------

_GATHERS: Mapping[str, tuple[tuple[int, ...], Any, dict[str, Any]]] = {
    # shape of the data, indices, offset dims / collapsed / map / index vector / sizes
    "rows": ((5, 4), [[1], [4], [0]], {"o": [1], "c": [0], "m": [0], "v": 1, "s": [1, 4]}),
    "rows-kept": ((5, 4), [[1], [4]], {"o": [1, 2], "c": [], "m": [0], "v": 1, "s": [1, 4]}),
    "columns": ((5, 4), [[1], [3], [0]], {"o": [0], "c": [1], "m": [1], "v": 1, "s": [5, 1]}),
    "elements": ((5, 4), [[1, 2], [4, 3]], {"o": [], "c": [0, 1], "m": [0, 1], "v": 1, "s": [1, 1]}),
    "elements-swapped": ((5, 4), [[1, 2], [3, 4]], {"o": [], "c": [0, 1], "m": [1, 0], "v": 1, "s": [1, 1]}),
    "windows": ((5, 4, 3), [[1, 2], [4, 0]], {"o": [1, 2, 3], "c": [], "m": [0, 1], "v": 1, "s": [2, 2, 3]}),
    "windows-clipped": ((5, 4), [[-3, 9], [4, 3]], {"o": [1, 2], "c": [], "m": [0, 1], "v": 1, "s": [2, 3]}),
    "part-not-indexed": ((5, 4), [[1], [2]], {"o": [1, 2], "c": [], "m": [0], "v": 1, "s": [2, 3]}),
    "batch-behind": ((5, 4, 3), [[[1, 0]], [[2, 3]]], {"o": [0, 1], "c": [1], "m": [0, 1], "v": 2, "s": [2, 1, 3]}),
    "vector-first": ((5, 4), [[1, 3, 4], [2, 0, 1]], {"o": [1], "c": [0], "m": [0, 1], "v": 0, "s": [1, 2]}),
    "whole": ((3, 4), [[0], [0]], {"o": [1, 2], "c": [], "m": [0], "v": 1, "s": [3, 4]}),
    "one": ((6, 4), [2], {"o": [0], "c": [0], "m": [0], "v": 0, "s": [1, 4]}),
}


@cases("STABLEHLO_GATHER")
def gathers(table: Table) -> None:
    for label, (shape, indices, short) in _GATHERS.items():
        options = {
            "offset_dims": short["o"], "collapsed_slice_dims": short["c"], "start_index_map": short["m"],
            "index_vector_dim": short["v"], "slice_sizes": short["s"],
        }  # fmt: skip
        batch = np.asarray(indices).ndim - (short["v"] < np.asarray(indices).ndim)
        rank = batch + len(short["o"])
        for fixed, dtype in product((False, True), ("int32", "int64")):
            where = constant(indices, dtype) if fixed else fed(indices, dtype)
            name = f"{label}-{'constant' if fixed else 'computed'}-{dtype}"
            inputs = [table.real(*shape), where]
            table.add_model(name, partial(_known_rank, table.operator, inputs, Operand(shape=(1,) * rank), options))
    x = table.real(5, 4)  # LiteRT aborts where every number is an index vector
    options = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
               "slice_sizes": [1, 4]}  # fmt: skip
    for where in (fed([1, 4, 0]), constant([1, 4, 0])):
        _add(table, "rows-no-vector", [x, where], x.values[[1, 4, 0]], options)
    rows = _GATHERS["windows"]
    options = {"offset_dims": [1, 2, 3], "collapsed_slice_dims": [], "start_index_map": [0, 1],
               "index_vector_dim": 1, "slice_sizes": [2, 2, 3]}  # fmt: skip
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "bool", "float16", "int8q"):
        x = _operand(table, dtype, *rows[0])
        output = Operand(dtype=x.dtype, quant=x.quant, shape=(1,) * 4)
        table.add_model(f"type-{dtype}", partial(_known_rank, table.operator, [x, fed(rows[1])], output, options))


def _known_rank(operator: str, inputs: Sequence[Operand], output: Operand, options: Mapping[str, Any]) -> Model:
    """LiteRT resizes the output, but has to know its rank."""
    feeds = tuple(each.values for each in inputs if not each.constant)
    draft = written(operator, inputs, [output], options)
    shape = litert().run(draft, feeds).results[0].shape
    return Model(written(operator, inputs, [_shaped(output, shape)], options), feeds)


def _shaped(output: Operand, shape: tuple[int, ...]) -> Operand:
    return Operand(dtype=output.dtype, quant=output.quant, shape=shape)


# -- subgraphs -----------------------------------------------------------------------------------------------------

_BODIES = {"add": "STABLEHLO_ADD", "mul": "STABLEHLO_MULTIPLY", "max": "STABLEHLO_MAXIMUM", "min": "STABLEHLO_MINIMUM"}


def reducing(
    operator: str, body: str, key: str, inputs: Sequence[Operand], shape: Sequence[int], options: Mapping[str, Any]
) -> bytes:
    """A model of one operator that reduces by a subgraph of one operator, '' for the second input as it is."""
    builder, first = Builder(), inputs[0]
    indices = []
    for at, each in enumerate(inputs):
        add = builder.constant if each.constant else None
        indices.append(
            add(f"in{at}", each.values, each.dtype, each.quant)
            if add
            else builder.input(f"in{at}", each.values.shape, each.dtype, quant=each.quant)
        )
    out = builder.tensor("out", shape, first.dtype, quant=first.quant)
    part = builder.part()
    a, b = part.input("a", (), first.dtype), part.input("b", (), first.dtype)
    if body:
        result = part.tensor("result", (), first.dtype)
        part.operator(body, [a, b], [result], {})
        part.outputs(result)
    else:
        part.outputs(b)
    builder.operator(operator, indices, [out], {**options, key: 1})
    return builder.finish(out)


def _reduced(
    operator: str, body: str, key: str, inputs: Sequence[Operand], shape: Sequence[int], options: Mapping[str, Any]
) -> Model:
    """LiteRT says which shape the output has, then it is written down."""
    feeds = tuple(each.values for each in inputs if not each.constant)
    draft = reducing(operator, body, key, inputs, shape, options)
    actual = litert().run(draft, feeds).results[0].shape
    return Model(reducing(operator, body, key, inputs, actual, options), feeds)


_SCATTERS: Mapping[str, tuple[tuple[int, ...], Any, tuple[int, ...], dict[str, Any]]] = {
    # shape of the data, indices, shape of the updates, update window dims / inserted / map / index vector
    "rows": ((5, 4), [[1], [4], [0]], (3, 4), {"u": [1], "i": [0], "m": [0], "v": 1}),
    "rows-no-vector": ((5, 4), [1, 4, 0], (3, 4), {"u": [1], "i": [0], "m": [0], "v": 1}),
    "columns": ((5, 4), [[1], [3]], (5, 2), {"u": [0], "i": [1], "m": [1], "v": 1}),
    "elements": ((5, 4), [[1, 2], [4, 3]], (2,), {"u": [], "i": [0, 1], "m": [0, 1], "v": 1}),
    "elements-swapped": ((5, 4), [[1, 2], [3, 4]], (2,), {"u": [], "i": [0, 1], "m": [1, 0], "v": 1}),
    "windows": ((5, 4, 3), [[0, 2], [3, 0]], (2, 2, 2, 3), {"u": [1, 2, 3], "i": [], "m": [0, 1], "v": 1}),
    "outside": ((5, 4), [[-1, 2], [4, 3], [9, 9]], (3, 2, 2), {"u": [1, 2], "i": [], "m": [0, 1], "v": 1}),
    "rows-outside": ((5, 4), [[-1], [2], [5]], (3, 4), {"u": [1], "i": [0], "m": [0], "v": 1}),
    "part-not-indexed": ((5, 4), [[1], [3]], (2, 1, 3), {"u": [1, 2], "i": [], "m": [0], "v": 1}),
    "whole-outside": ((3, 4), [[1]], (1, 3, 4), {"u": [1, 2], "i": [], "m": [0], "v": 1}),
    "window-first": ((5, 4, 3), [[1], [3]], (4, 3, 2), {"u": [0, 1], "i": [0], "m": [0], "v": 1}),
}


@cases("STABLEHLO_SCATTER")
def scatters(table: Table) -> None:
    key = "update_computation_subgraph_index"

    def add(label: str, body: str, inputs: Sequence[Operand], short: Mapping[str, Any]) -> None:
        options = {
            "update_window_dims": short["u"], "inserted_window_dims": short["i"],
            "scatter_dims_to_operand_dims": short["m"], "index_vector_dim": short["v"],
        }  # fmt: skip
        shape = inputs[0].values.shape
        table.add_model(label, partial(_reduced, table.operator, body, key, inputs, shape, options))

    for label, (shape, indices, updated, short) in _SCATTERS.items():
        for fixed, body in product((False, True), ("", "add")):
            where = constant(indices) if fixed else fed(indices)
            inputs = [table.real(*shape), where, table.real(*updated)]
            add(f"{label}-{'constant' if fixed else 'computed'}-{body}", _BODIES.get(body, ""), inputs, short)
    short = {"u": [1], "i": [0], "m": [0], "v": 1}
    for dtype, body in product(("float32", "int32", "int64", "int8", "uint8", "int8q"), _BODIES):
        x = _operand(table, dtype, 5, 4)
        updates = Operand(np.asarray(_operand(table, dtype, 4, 4).values), x.dtype, x.quant)
        add(f"{dtype}-{body}-repeated", _BODIES[body], [x, fed([[1], [1], [0], [1]], "int64"), updates], short)


_POOLS = 48
"""Windows along some axes of tensors of rank 2 to 5, as converters write poolings."""


def _add_pool(table: Table, at: int, add: Callable[..., None]) -> None:
    random = table.random
    rank = int(random.integers(2, 6))
    along = random.random(rank) < (0.8 if rank < 4 else 0.5)
    along &= np.cumsum(along) <= 3
    window = [int(random.integers(2, 4)) if here else 1 for here in along]
    stride = [int(random.integers(1, 4)) if here else 1 for here in along]
    dilation = [int(random.integers(1, 3)) if here and at % 3 == 0 else 1 for here in along]
    pads = [int(random.integers(0, size)) if at % 2 else 0 for size in window for _ in range(2)]
    shape = [int(random.integers(5, 9)) if here else int(random.integers(1, 4)) for here in along]
    more = {"window_strides": stride, "window_dilations": dilation, "padding": pads}
    body, start = (("STABLEHLO_MAXIMUM", -np.inf), ("STABLEHLO_ADD", 0.0), ("MAXIMUM", 0.25))[at % 3]
    add(f"pool-{at}", body, table.real(*shape), start, more, window)


@cases("STABLEHLO_REDUCE_WINDOW")
def windows(table: Table) -> None:
    key = "body_subgraph_index"
    variants: Mapping[str, dict[str, Sequence[int]]] = {
        "plain": {},
        "strided": {"window_strides": [1, 2, 2]},
        "padded": {"padding": [0, 0, 1, 1, 1, 0]},
        "dilated": {"window_dilations": [1, 2, 1]},
        "base": {"base_dilations": [1, 1, 2]},
        "all": {"window_strides": [1, 2, 1], "padding": [0, 1, -1, 2, 2, -1], "base_dilations": [2, 1, 3],
                "window_dilations": [1, 2, 2]},
    }  # fmt: skip

    def add(
        label: str, body: str, x: Operand, start: float, more: Mapping[str, Sequence[int]], window: Sequence[int] = ()
    ) -> None:
        inputs = [x, Operand(np.array(start, x.dtype), x.dtype, x.quant, True)]
        rank = len(x.values.shape)
        whole = {key: [1] * rank for key in ("window_strides", "base_dilations", "window_dilations")}
        options = {"window_dimensions": window or [1, 2, 3], **whole, "padding": [0] * 2 * rank, **more}
        table.add_model(label, partial(_reduced, table.operator, body, key, inputs, (1,) * rank, options))

    starts = {"add": 0.0, "mul": 1.0, "max": -100.0, "min": 100.0}
    for (label, more), body in product(variants.items(), _BODIES):
        add(f"{label}-{body}", _BODIES[body], table.real(2, 6, 7), starts[body], more)
    for dtype, body in product(("int8", "int16", "int32", "int64", "uint8"), _BODIES):
        start = max(starts[body], 0) if dtype == "uint8" else starts[body]
        add(f"{dtype}-{body}", _BODIES[body], table.whole(2, 6, 7, dtype=dtype), start, variants["padded"])
    for at in range(_POOLS):
        _add_pool(table, at, add)
    add("tensorflow-body", "MAXIMUM", table.real(2, 6, 7), -100.0, variants["padded"])
    add("start", "ADD", table.real(2, 6, 7), 2.5, variants["padded"])
    for body in ("STABLEHLO_AND", "LOGICAL_OR"):
        add(f"bool-{body}", body, table.booleans(2, 6, 7), body == "STABLEHLO_AND", {})


# -- operators without a kernel ------------------------------------------------------------------------------------


def _add(
    table: Table, label: str, inputs: Sequence[Operand], expected: Array, options: Mapping[str, Any] | None = None
) -> None:
    """A case whose truth is known."""
    output = Operand(dtype=expected.dtype.name, shape=expected.shape)

    def make() -> Model:
        source = written(table.operator, inputs, [output], options or {})
        return Model(source, tuple(each.values for each in inputs if not each.constant), (expected,))

    table.add_model(label, make)


_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "CBRT": np.cbrt,
    "COSINE": np.cos,
    "EXPONENTIAL": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "NEGATE": np.negative,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "TANH": np.tanh,
}


@cases(*(f"STABLEHLO_{name}" for name in _UNARY))
def unary(table: Table) -> None:
    name = table.operator.removeprefix("STABLEHLO_")
    low = 0.1 if name in ("LOG", "RSQRT") else -4
    x = table.real(3, 5, low=low, high=4)
    _add(table, "float32", [x], _UNARY[name](x.values).astype(np.float32))
    if name in ("ABS", "NEGATE"):
        for dtype in ("int32", "int64"):
            whole = table.integers(3, 5, dtype=dtype)
            _add(table, dtype, [whole], _UNARY[name](whole.values))


_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "DIVIDE": lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b),
    "OR": np.bitwise_or,
    "POWER": np.power,
    "REMAINDER": np.fmod,
    "SUBTRACT": np.subtract,
}


@cases(*(f"STABLEHLO_{name}" for name in _BINARY))
def binary(table: Table) -> None:
    name = table.operator.removeprefix("STABLEHLO_")
    for dtype in ("bool", "int32", "int64", "int8") if name == "OR" else ("float32", "int32"):
        positive = name == "POWER"
        if dtype == "float32":
            a, b = table.real(3, 5, low=0.1 if positive else -4, high=4), table.real(3, 5, low=0.5, high=3)
        elif dtype == "bool":
            a, b = table.booleans(3, 5), table.booleans(3, 5)
        else:
            a, b = table.integers(3, 5, dtype=dtype), table.integers(3, 5, low=1, high=4, dtype=dtype)
        _add(table, dtype, [a, b], _BINARY[name](a.values, b.values).astype(dtype))


@cases("STABLEHLO_POWER")
def powers(table: Table) -> None:
    for dtype, most in product(("int8", "int32", "int64", "uint32"), (3, 100)):
        a, b = table.whole(3, 5, dtype=dtype), table.integers(3, 5, low=0, high=most, dtype=dtype)
        _add(table, f"{dtype}-whole-{most}", [a, b.fixed], a.values**b.values)
    a = table.integers(3, 5, dtype="int32")
    _add(table, "squares", [a, Operand(np.full((3, 5), 2, np.int32), "int32").fixed], a.values**2)
    _add(table, "ones", [a, Operand(np.zeros((3, 5), np.int32), "int32").fixed], np.ones((3, 5), np.int32))


@cases("STABLEHLO_COMPARE")
def comparisons(table: Table) -> None:
    functions = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)
    for (direction, function), dtype in product(enumerate(functions), ("float32", "int32", "int64", "int8", "bool")):
        a, b = ((table.booleans(4, 5) if dtype == "bool" else _operand(table, dtype, 4, 5)) for _ in range(2))
        b = Operand(np.where(table.booleans(4, 5).values, a.values, b.values), dtype)
        expected = np.asarray(function(a.values, b.values))
        _add(table, f"{function.__name__}-{dtype}", [a, b], expected, {"comparison_direction": direction})


@cases("STABLEHLO_CLAMP")
def clamps(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "int8"):
        x = _operand(table, dtype, 3, 5)
        bounds = [Operand(np.array(bound, dtype), dtype) for bound in (-2, 3)]
        _add(table, dtype, [bounds[0], x, bounds[1]], np.clip(x.values, -2, 3).astype(dtype))
    for dtype, ends in (("int64", (-2, 2**31 + 5)), ("uint32", (2, 2**31 + 5))):
        far = np.array([each for each in FAR if np.iinfo(dtype).min <= each <= np.iinfo(dtype).max], dtype)
        bounds = [Operand(np.array(bound, dtype), dtype) for bound in ends]
        _add(table, f"{dtype}-far", [bounds[0], Operand(far, dtype), bounds[1]], np.clip(far, *ends).astype(dtype))
    x, low, high = table.real(3, 5), table.real(3, 5, low=-1, high=0), table.real(3, 5, low=0)
    _add(table, "tensors", [low, x, high], np.clip(x.values, low.values, high.values))


@cases("STABLEHLO_SELECT")
def selections(table: Table) -> None:
    for dtype in ("float32", "int32", "int8", "bool"):
        which, a, b = table.booleans(3, 5), _operand(table, dtype, 3, 5), _operand(table, dtype, 3, 5)
        _add(table, dtype, [which, a, b], np.where(which.values, a.values, b.values))
    one, a, b = Operand(np.array(True), "bool"), table.real(3, 5), table.real(3, 5)
    _add(table, "scalar", [one, a, b], a.values)


@cases("STABLEHLO_CONVERT")
def conversions(table: Table) -> None:
    numbers = ("float32", "float16", "int32", "int64", "int8", "bool")
    for source, target in product(numbers, numbers):
        if source != target:
            x = _operand(table, source, 3, 5)
            _add(table, f"{source}-{target}", [x], x.values.astype(target))


@cases("STABLEHLO_RESHAPE", "STABLEHLO_TRANSPOSE", "STABLEHLO_SLICE", "STABLEHLO_BROADCAST_IN_DIM")
def movements(table: Table) -> None:
    for dtype in ("float32", "int32", "int8", "bool"):
        x = _operand(table, dtype, 2, 3, 4)
        if table.operator == "STABLEHLO_RESHAPE":
            _add(table, dtype, [x], x.values.reshape(6, 4))
            _add(table, f"{dtype}-flat", [x], x.values.reshape(-1))
        elif table.operator == "STABLEHLO_TRANSPOSE":
            _add(table, dtype, [x], x.values.transpose(2, 0, 1), {"permutation": [2, 0, 1]})
        elif table.operator == "STABLEHLO_SLICE":
            options = {"start_indices": [0, 1, 0], "limit_indices": [2, 3, 4], "strides": [1, 1, 3]}
            _add(table, dtype, [x], x.values[0:2, 1:3, 0:4:3], options)
        else:
            row = _operand(table, dtype, 4)
            expected = np.broadcast_to(row.values[:, None], (3, 4, 2))
            _add(table, f"{dtype}-vector", [row], expected, {"broadcast_dimensions": [1]})
            grown = np.broadcast_to(x.values[:, :, None, :1], (2, 3, 5, 4))[:, :, :, :1]
            first = Operand(x.values[:, :, :1], dtype)
            wide = np.broadcast_to(grown, (2, 3, 5, 6))
            _add(table, f"{dtype}-grown", [first], wide, {"broadcast_dimensions": [0, 1, 3]})
            turned = np.broadcast_to(x.values.transpose(1, 0, 2)[:, None], (3, 1, 2, 4))
            _add(table, f"{dtype}-turned", [x], turned, {"broadcast_dimensions": [2, 0, 3]})
            scalar = _operand(table, dtype)
            scalar = Operand(np.asarray(scalar.values), scalar.dtype)
            _add(table, f"{dtype}-scalar", [scalar], np.broadcast_to(scalar.values, (2, 3)), {})


@cases("STABLEHLO_CONCATENATE")
def joins(table: Table) -> None:
    for dtype, axis in product(("float32", "int32", "int8"), (0, 1)):
        parts = [_operand(table, dtype, 2, 3), _operand(table, dtype, 2, 3)]
        expected = np.concatenate([part.values for part in parts], axis)
        _add(table, f"{dtype}-{axis}", parts, expected, {"dimension": axis})


@cases("STABLEHLO_IOTA")
def counting(table: Table) -> None:
    """Few numbers are counted while converting, many by the model."""
    for shape, dtype, axis in product(((3, 5), (70, 65)), ("float32", "int32", "int64"), (0, 1)):
        expected = np.indices(shape)[axis].astype(dtype)
        table.add_model(f"{dtype}-{axis}-{len(expected)}", partial(_counted, expected, axis))


def _counted(expected: Array, axis: int) -> Model:
    """A count is a constant: what is added to it makes the model one."""
    builder = Builder()
    name = expected.dtype.name
    x, count, out = (
        make(["x", "count", "out"][at], expected.shape, name)
        for at, make in enumerate((builder.input, builder.tensor, builder.tensor))
    )
    builder.operator("STABLEHLO_IOTA", [], [count], {"iota_dimension": axis})
    builder.operator("ADD", [x, count], [out], {})
    return Model(builder.finish(out), (np.ones_like(expected),), (expected + 1,))


@cases("STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE")
def moving_parts(table: Table) -> None:
    for dtype, fixed, (row, column) in product(
        ("float32", "int32", "int8"), (False, True), ((0, 0), (1, 2), (9, -3), (3, 1))
    ):
        x = _operand(table, dtype, 4, 6)
        starts = [constant(at) if fixed else fed(at) for at in (row, column)]
        at = min(max(row, 0), 2), min(max(column, 0), 3)
        label = f"{dtype}-{'constant' if fixed else 'computed'}-{row}-{column}"
        if table.operator == "STABLEHLO_DYNAMIC_SLICE":
            expected = x.values[at[0] : at[0] + 2, at[1] : at[1] + 3]
            _add(table, label, [x, *starts], expected, {"slice_sizes": [2, 3]})
        else:
            update, expected = _operand(table, dtype, 2, 3), x.values.copy()
            expected[at[0] : at[0] + 2, at[1] : at[1] + 3] = update.values
            _add(table, label, [x, update, *starts], expected)


@cases("STABLEHLO_DOT_GENERAL")
def products(table: Table) -> None:
    # shapes, batching and contracting axes of both sides, the same for einsum
    variants: Mapping[str, tuple[Any, ...]] = {
        "matrix": ((3, 4), (4, 5), [], [], [1], [0], "ij,jk->ik"),
        "transposed": ((4, 3), (5, 4), [], [], [0], [1], "ji,kj->ik"),
        "batched": ((2, 3, 4), (2, 4, 5), [0], [0], [2], [1], "bij,bjk->bik"),
        "heads": ((2, 3, 6, 4), (2, 5, 6, 4), [0, 2], [0, 2], [3], [3], "bihd,bjhd->bhij"),
        "two-contracted": ((2, 3, 4), (4, 3, 5), [], [], [1, 2], [1, 0], "ijk,kjl->il"),
        "outer": ((3,), (4,), [], [], [], [], "i,j->ij"),
        "vectors": ((3,), (3,), [], [], [0], [0], "i,i->"),
        "free-axes": ((2, 3, 4), (4, 5, 6), [], [], [2], [0], "ijk,klm->ijlm"),
    }
    for label, (left, right, *axes, sum_) in variants.items():
        options = {
            "lhs_batching_dimensions": axes[0], "rhs_batching_dimensions": axes[1],
            "lhs_contracting_dimensions": axes[2], "rhs_contracting_dimensions": axes[3],
        }  # fmt: skip
        a, b = table.real(*left), table.real(*right)
        expected = np.asarray(np.einsum(sum_, a.values, b.values), np.float32)
        _add(table, label, [a, b], expected, options)
        _add(table, f"{label}-constant", [a, b.fixed], expected, options)


@cases("STABLEHLO_REDUCE")
def reductions(table: Table) -> None:
    functions: Mapping[str, Any] = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}
    combined: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for dtype, axes, body in product(("float32", "int32", "int8"), ((1,), (0, 2), (0, 1, 2), ()), _BODIES):
        x = table.real(2, 3, 4, low=-1) if dtype == "float32" else table.whole(2, 3, 4, dtype=dtype)
        start = Operand(np.array(1, dtype), dtype, None, True)
        expected = np.asarray(combined[body](functions[body](x.values, axis=axes), start.values)).astype(dtype)
        source = partial(
            reducing, table.operator, _BODIES[body], "body_subgraph_index", [x, start], expected.shape,
            {"dimensions": list(axes)},
        )  # fmt: skip
        table.add_model(f"{dtype}-{axes}-{body}", partial(_expected, source, x, expected))


def _expected(source: Callable[[], bytes], x: Operand, expected: Array) -> Model:
    return Model(source(), (x.values,), (expected,))


@cases("STABLEHLO_CONVOLUTION")
def convolutions(table: Table) -> None:
    """LiteRT's own convolution says what it gives, where the axes are in its order; the others are permuted."""
    for order, kernel_order, (strides, dilations, pads), groups in product(
        ("nhwc", "nchw"), ("ohwi", "hwio"), (((1, 1), (1, 1), (1, 0, 2, 1)), ((2, 1), (1, 2), (0, 0, 0, 0))), (1, 2)
    ):
        x, kernel = table.real(2, 7, 8, 4), table.real(6, 3, 2, 4 // groups)
        label = f"{order}-{kernel_order}-s{strides[0]}{strides[1]}-g{groups}"
        make = partial(_convolved, x, kernel, order, kernel_order, strides, dilations, pads, groups)
        table.add_model(label, make)


def _convolved(
    x: Operand, kernel: Operand, order: str, kernel_order: str, strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int], groups: int,
) -> Model:  # fmt: skip
    own = {"padding": "VALID", "stride_h": strides[0], "stride_w": strides[1],
           "dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}  # fmt: skip
    offsets = Operand(np.zeros(6, np.float32), constant=True)
    around = Operand(np.pad(x.values, ((0, 0), (pads[0], pads[1]), (pads[2], pads[3]), (0, 0))))
    truth = written("CONV_2D", [around, kernel.fixed, offsets], [Operand(shape=(1,))], own)
    result = litert().run(truth, (around.values,)).results[0].transpose(["nhwc".index(axis) for axis in order])
    data = Operand(np.ascontiguousarray(x.values.transpose(["nhwc".index(axis) for axis in order])))
    weights = Operand(np.ascontiguousarray(kernel.values.transpose(["ohwi".index(axis) for axis in kernel_order])))
    options = {
        "window_strides": strides, "rhs_dilation": dilations, "lhs_dilation": [1, 1], "padding": pads,
        "window_reversal": [False, False], "feature_group_count": groups, "batch_group_count": 1,
        "kernel_input_feature_dimension": kernel_order.index("i"), "kernel_output_feature_dimension":
        kernel_order.index("o"), "kernel_spatial_dimensions": [kernel_order.index("h"), kernel_order.index("w")],
    }  # fmt: skip
    for side in ("input", "output"):
        options |= {f"{side}_batch_dimension": order.index("n"), f"{side}_feature_dimension": order.index("c"),
                    f"{side}_spatial_dimensions": [order.index("h"), order.index("w")]}  # fmt: skip
    source = written("STABLEHLO_CONVOLUTION", [data, weights.fixed], [Operand(shape=result.shape)], options)
    return Model(source, (data.values,), (result,))


declare(
    "STABLEHLO_ADD",
    "STABLEHLO_AND",
    "STABLEHLO_GATHER",
    "STABLEHLO_MULTIPLY",
    "STABLEHLO_PAD",
    "STABLEHLO_SHIFT_LEFT",
    parameters=STORED,
)
