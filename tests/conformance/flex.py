"""Flex operators: what LiteRT gives for the built-in equal, or numpy for a function that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import erf
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.frontend.tflite.operators.flex.elementwise import BUILTIN, IDENTITIES, UNARY
from layoutsolve.ir.graph import Array
from tests.conformance.arrangement import any_operand
from tests.conformance.cases import Model, Operand, Table, cases, constant, declare, fed, plain, single, written
from tests.truth import litert

FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Cosh": np.cosh,
    "Erf": np.vectorize(erf),
    "Inv": np.reciprocal,
    "IsInf": np.isinf,
    "IsNan": np.isnan,
    "Reciprocal": np.reciprocal,
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "Sinh": np.sinh,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tan": np.tan,
}


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that has a length."""
    return bytes([number << 3 | 2, len(content)]) + content


def node_options(name: str, attributes: Mapping[str, bytes]) -> bytes:
    """The custom options of a Flex operator; attributes are given as the bytes of their AttrValue."""
    entries = [field(5, field(1, key.encode()) + field(2, value)) for key, value in attributes.items()]
    node = field(1, b"node") + field(2, name.encode()) + field(3, b"x") + b"".join(entries)
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.String(name)
        builder.String(node.decode())
    return bytes(builder.Finish())


@cases(*(f"CUSTOM:Flex{name}" for name in UNARY))
def functions(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    low, high = {"Acosh": (1.1, 5.0), "Inv": (0.5, 3.0), "Reciprocal": (0.5, 3.0)}.get(name, (-0.9, 0.9))
    x = table.real(2, 3, 4, low=low, high=high)
    if name.startswith("Is"):
        x.values[0, 0, :3] = np.inf, -np.inf, np.nan

    def make() -> Model:
        expected = FUNCTIONS[name](x.values).astype("bool" if name.startswith("Is") else "float32")
        output = Operand(dtype=expected.dtype.name, shape=expected.shape)
        return model(table.operator, [x], [output], node_options(name, {}), (expected,))

    table.add_model("float32", make)


def model(
    operator: str, inputs: Sequence[Operand], outputs: Sequence[Operand], options: bytes, expected: tuple[Array, ...]
) -> Model:
    """A model of a custom operator alone."""
    fed = tuple(each.values for each in inputs if not each.constant)
    return Model(written(operator, inputs, outputs, {}, options), fed, expected)


TRUE, FALSE = b"\x28\x01", b"\x28\x00"


def operands(table: Table, builtin: str) -> tuple[list[Operand], str, dict[str, Any], dict[str, bytes]]:
    """Inputs that suit a built-in operator, the type it gives, its options, and the same as attributes."""
    x, y = table.real(2, 3, 4, low=0.2, high=2), table.real(3, 1, low=0.2, high=2)
    axes, both = constant([1]), {"exclusive": TRUE, "reverse": TRUE}
    known: dict[str, tuple[list[Operand], str, dict[str, Any], dict[str, bytes]]] = {
        "ADD_N": ([x, table.real(2, 3, 4), table.real(2, 3, 4)], "float32", {}, {}),
        "BATCH_MATMUL": ([x, table.real(2, 5, 4)], "float32", {"adj_y": True}, {"adj_y": TRUE, "adj_x": FALSE}),
        "CUMSUM": ([x, constant(1)], "float32", {"exclusive": True, "reverse": True}, both),
        "DEPTH_TO_SPACE": ([table.real(1, 2, 3, 8)], "float32", {"block_size": 2}, {"block_size": b"\x18\x02"}),
        "REVERSE_V2": ([x, axes], "float32", {}, {}),
        "SCATTER_ND": ([fed([[1], [3]]), table.real(2, 3), constant([5, 3])], "float32", {}, {}),
        "SPACE_TO_DEPTH": ([table.real(1, 4, 6, 2)], "float32", {"block_size": 2}, {"block_size": b"\x18\x02"}),
        "STRIDED_SLICE": (
            [x, constant([1, 0, -1]), constant([2, 9, -5]), constant([1, 2, -1])],
            "float32",
            {"shrink_axis_mask": 1, "end_mask": 2},
            {"shrink_axis_mask": b"\x18\x01", "end_mask": b"\x18\x02"},
        ),
        "ATAN2": ([x, table.real(2, 3, 4)], "float32", {}, {}),
        "BROADCAST_TO": ([y, constant([2, 3, 4])], "float32", {}, {}),
        "CAST": ([x], "int32", {"in_data_type": "float32", "out_data_type": "int32"}, {"DstT": b"\x30\x03"}),
        "EXPAND_DIMS": ([x, axes], "float32", {}, {}),
        "FILL": ([constant([2, 3]), table.real()], "float32", {}, {}),
        "GATHER_ND": ([x, table.integers(5, 2, low=0, high=1)], "float32", {}, {}),
        "LEAKY_RELU": (
            [table.real(2, 3, 4)],
            "float32",
            {"alpha": 0.5},
            {"alpha": b"\x25" + np.float32(0.5).tobytes()},
        ),
        "LOGICAL_NOT": ([table.booleans(2, 3)], "bool", {}, {}),
        "RESHAPE": ([x, constant([4, 6])], "float32", {"new_shape": [4, 6]}, {}),
        "SELECT": ([table.booleans(2, 3, 4), x, table.real(2, 3, 4)], "float32", {}, {}),
        "SELECT_V2": ([table.booleans(3, 4), x, y], "float32", {}, {}),
        "SOFTMAX": ([x], "float32", {"beta": 1.0}, {}),
        "TILE": ([x, constant([1, 2, 3])], "float32", {}, {}),
        "TRANSPOSE": ([x, constant([2, 0, 1])], "float32", {}, {}),
    }
    if builtin in known:
        return known[builtin]
    if builtin in ("REDUCE_ALL", "REDUCE_ANY"):
        return [table.booleans(2, 3, 4), axes], "bool", {"keep_dims": True}, {"keep_dims": TRUE}
    if builtin in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        return [x, axes], "float32", {"keep_dims": False}, {"keep_dims": FALSE}
    if builtin in ("LOGICAL_AND", "LOGICAL_OR"):
        return [table.booleans(2, 3), table.booleans(2, 3)], "bool", {}, {}
    if builtin in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        return [any_operand(table, "int32", 2, 3), any_operand(table, "int32", 2, 3)], "bool", {}, {}
    if builtin in BINARY:
        return [x, y], "float32", {}, {}
    return [table.real(2, 3, 4, low=0.2)], "float32", {}, {}


BINARY = ("ADD", "SUB", "MUL", "DIV", "POW", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")


@cases(*(f"CUSTOM:Flex{name}" for name in IDENTITIES))
def identities(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    for x in (table.real(2, 3, 4), table.integers(2, 3, dtype="int64"), table.booleans(4)):
        plainly(table, x.dtype, [x], x.values, node_options(name, {"T": b"\x30\x01"}))


def plainly(table: Table, label: str, inputs: Sequence[Operand], expected: Array, options: bytes) -> None:
    """A case of one output."""
    output = Operand(dtype=expected.dtype.name, shape=expected.shape)
    table.add_model(label, lambda: model(table.operator, inputs, [output], options, (expected,)))


CHANCE = ("Multinomial", "RandomStandardNormal", "RandomUniform")
"""Those that give random numbers."""


@cases(*(f"CUSTOM:Flex{name}" for name in BUILTIN if name not in CHANCE))
def builtins(table: Table) -> None:
    name = table.operator.removeprefix("CUSTOM:Flex")
    inputs, dtype, options, attributes = operands(table, BUILTIN[name])

    def make() -> Model:
        equal = single(BUILTIN[name], inputs, [plain(dtype)], options)
        expected = litert().run(equal.source, equal.inputs).results
        output = Operand(dtype=dtype, shape=expected[0].shape)
        return model(table.operator, inputs, [output], node_options(name, {"T": b"\x30\x01", **attributes}), expected)

    table.add_model(dtype, make)
    for label, operands_, result in widened(table, name):
        plainly(table, label, operands_, result, node_options(name, {"keep_dims": FALSE}))


def widened(table: Table, name: str) -> Iterator[tuple[str, list[Operand], Array]]:
    """Cases of types and shapes that TensorFlow has beyond those of the built-in operator: inputs, and the result."""
    x = table.real(2, 3, 4)
    if name == "Transpose":
        yield "int64", [x, constant([2, 0, 1], "int64")], x.values.transpose(2, 0, 1)
    if name == "Atan2":
        for shape in ((3, 1), (4,), ()):
            y = table.real(*shape)
            yield f"broadcast-{shape}", [x, y], np.arctan2(x.values, y.values)
            yield f"broadcast-by-{shape}", [y, x], np.arctan2(y.values, x.values)
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        few = table.integers(2, 3, 4, low=0 if dtype == "uint8" else -4, high=4, dtype=dtype)
        if name in ("Square", "Relu"):
            yield (
                dtype,
                [few],
                np.square(few.values) if name == "Square" else np.maximum(few.values, few.values.dtype.type(0)),
            )
        elif name in ("Sum", "Prod"):
            reduce = np.sum if name == "Sum" else np.prod
            yield dtype, [few, constant([1])], reduce(few.values, axis=1, dtype=few.values.dtype)
        elif name == "Mean":
            total = few.values.astype(np.int64).sum(axis=1)
            yield dtype, [few, constant([1])], np.trunc(total / 3).astype(dtype)


declare("CUSTOM:FlexIsInf", "CUSTOM:FlexIsNan", unlayered="a convolution spreads what is no number")
declare("CUSTOM:FlexFill", unlayered="its inputs are constant")
