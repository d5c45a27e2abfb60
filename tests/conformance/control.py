"""Control flow and state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from flatbuffers import flexbuffers

from tests.builder import Builder, Part
from tests.conformance.cases import Model, Operand, Table, cases

Write = Callable[[Part, list[int]], list[int]]
"""Writes the operators of a subgraph over its inputs and returns its outputs."""

TURN = Operand(np.int32(0), "int32", constant=True)


def entered(part: Part, name: str, operand: Operand) -> int:
    """An input of a subgraph, or a constant."""
    if operand.constant:
        return part.constant(name, operand.values, operand.dtype, operand.quant)
    return part.input(name, operand.values.shape, operand.dtype, quant=operand.quant)


def model(builder: Builder, output: int, *operands: Operand) -> Model:
    """The finished model and the data for its inputs."""
    return Model(builder.finish(output), tuple(operand.values for operand in operands if not operand.constant))


def subgraph(builder: Builder, write: Write, operands: Sequence[Operand]) -> None:
    """Add a subgraph; none of its inputs is constant."""
    part = builder.part()
    given = [entered(part, f"given{at}", replace(operand, constant=False)) for at, operand in enumerate(operands)]
    part.outputs(*write(part, given))


def unary(operator: str, part: Part, source: int) -> int:
    """An operator that keeps the shape and type of its input."""
    result = same(part, source)
    part.operator(operator, [source], [result], {})
    return result


def binary(operator: str, part: Part, left: int, right: int) -> int:
    """An operator on two tensors of one shape and type."""
    result = same(part, left)
    part.operator(operator, [left, right], [result], {})
    return result


def same(part: Part, like: int) -> int:
    """A tensor of the shape, type and quantization of another."""
    tensor = part.subgraph.tensors[like]
    found = part.tensor(f"t{len(part.subgraph.tensors)}", tensor.shape)
    part.subgraph.tensors[found].type = tensor.type
    part.subgraph.tensors[found].quantization = tensor.quantization
    return found


def convolved(part: Part, source: int) -> int:
    """A 3x3 convolution that keeps the shape ``[1, H, W, C]``."""
    channels = part.subgraph.tensors[source].shape[3]
    random = np.random.default_rng(channels)
    weights = part.constant("w", random.normal(size=(channels, 3, 3, channels)).astype(np.float32) / 5)
    bias, result = part.constant("b", np.zeros(channels, np.float32)), same(part, source)
    part.operator("CONV_2D", [source, weights, bias], [result], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    return result


# -- branches ------------------------------------------------------------------------------------------------------


@cases("IF")
def branches(table: Table) -> None:
    """The condition is data or constant; branches compute, or hand on what they are given."""
    arithmetic: list[Write] = [
        lambda part, given: [binary("ADD", part, *given)],
        lambda part, given: [binary("MUL", part, *given)],
    ]
    picking: list[Write] = [lambda part, given: [given[1]], lambda part, given: [given[0]]]
    mixed: list[Write] = [arithmetic[0], picking[0]]
    for condition in (False, True):
        test = Operand(np.array(condition), "bool")
        floats = [table.real(2, 3), table.real(2, 3)]
        integers = [table.integers(2, 3), table.integers(2, 3)]
        quantized = [table.quantized("int8", 2, 3), table.quantized("int8", 2, 3)]
        images = [table.real(1, 4, 4, 3), table.real(1, 4, 4, 3)]
        vector = Operand(np.array([condition]), "bool")
        for label, first, writes, operands in (
            ("float32", test, arithmetic, floats),
            ("int32", test, arithmetic, integers),
            ("constant", test.fixed, arithmetic, floats),
            ("vector", vector, arithmetic, floats),
            ("int8", test, picking, quantized),
            ("mixed", test, mixed, floats),
            ("image", test, [_convolutions, arithmetic[1]], images),
        ):
            table.add_model(f"{label}-{condition}", partial(_branch, first, writes, operands))


def _convolutions(part: Part, given: list[int]) -> list[int]:
    return [binary("ADD", part, convolved(part, given[0]), convolved(part, given[1]))]


def _branch(condition: Operand, writes: Sequence[Write], operands: Sequence[Operand]) -> Model:
    builder = Builder()
    indices = [entered(builder, f"in{at}", operand) for at, operand in enumerate((condition, *operands))]
    out = same(builder, indices[1])
    builder.operator("IF", indices, [out], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    for write in writes:
        subgraph(builder, write, operands)
    return model(builder, out, condition, *operands)


# -- calls ---------------------------------------------------------------------------------------------------------


@cases("CALL", "STABLEHLO_COMPOSITE")
def calls(table: Table) -> None:
    """LiteRT has no kernel for CALL; a composite operator is the same to it."""
    operand = table.real(2, 3)
    table.add_model("twice", lambda: replace(_calls(table.operator, operand), truth=_composite(operand)))


def _composite(operand: Operand) -> bytes:
    return _calls("STABLEHLO_COMPOSITE", operand).source


def _calls(operator: str, operand: Operand) -> Model:
    """A subgraph of a subgraph's, called from two places."""
    key, more = "subgraph", dict[str, object]()
    if operator == "STABLEHLO_COMPOSITE":
        attributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)
        key, more = "decomposition_subgraph_index", {"name": "twice", "composite_attributes": attributes}

    def called(position: int, part: Part, source: int) -> int:
        result = same(part, source)
        part.operator(operator, [source], [result], {key: position, **more})
        return result

    builder = Builder()
    out = called(1, builder, called(1, builder, entered(builder, "x", operand)))
    subgraph(builder, lambda part, given: [called(2, part, given[0])], [operand])
    subgraph(builder, lambda part, given: [binary("ADD", part, given[0], given[0])], [operand])
    return model(builder, out, operand)


# -- loops ---------------------------------------------------------------------------------------------------------


@cases("WHILE")
def loops(table: Table) -> None:
    """Every loop counts its turns in its first tensor."""
    for turns in (0, 1, 4):
        x, y = table.real(2, 3), table.real(2, 3)
        image = table.real(1, 4, 4, 3)
        for label, write, operands in (
            ("doubling", lambda part, given: [binary("ADD", part, given[0], given[0])], [x]),
            ("handed-on", lambda part, given: [binary("ADD", part, *given), given[1]], [x, y]),
            ("convolved", lambda part, given: [convolved(part, given[0])], [image]),
            ("integers", lambda part, given: [binary("ADD", part, given[0], given[0])], [table.integers(2, 3)]),
            ("int8", lambda part, given: [unary("RELU", part, given[0])], [table.quantized("int8", 2, 3)]),
            ("constant", lambda part, given: [binary("ADD", part, *given), given[1]], [x.fixed, y]),
            ("nested", _inner_loop, [x]),
        ):
            table.add_model(f"{label}-{turns}", partial(_loop, turns, write, operands))
    for turns in (0, 3):
        counter = Operand(np.zeros(1, np.int32), "int32")
        table.add_model(f"vector-{turns}", partial(_loop, turns, _negated, [table.real(2, 3)], counter=counter))
    for turns in (0, 1):  # in a second turn LiteRT copies one over the other
        table.add_model(f"swapped-{turns}", partial(_loop, turns, _swapped, [table.real(2, 3), table.real(2, 3)]))
    for turns in (0, 3):
        table.add_model(f"growing-{turns}", partial(_loop, turns, _grown, [table.real(2, 3)], growing=True))


@cases("STABLEHLO_WHILE")
def loops_of_another_name(table: Table) -> None:
    """LiteRT has no kernel for this one: WHILE does the same."""
    for turns in (0, 1, 4):
        x, y = table.real(2, 3), table.real(2, 3)
        table.add_model(f"adding-{turns}", partial(_renamed_loop, turns, x, y))


def _renamed_loop(turns: int, *operands: Operand) -> Model:
    def write(part: Part, given: list[int]) -> list[int]:
        return [binary("ADD", part, *given), given[1]]

    known = _loop(turns, write, operands)
    return replace(_loop(turns, write, operands, operator="STABLEHLO_WHILE"), truth=known.source)


def _loop(
    turns: int,
    write: Write,
    operands: Sequence[Operand],
    growing: bool = False,
    operator: str = "WHILE",
    counter: Operand = TURN,
) -> Model:
    builder = Builder()
    sources = [
        entered(builder, "count", counter),
        *(entered(builder, f"in{at}", each) for at, each in enumerate(operands)),
    ]
    out = _while(builder, builder, turns, write, sources, operands, operator)[0]
    if growing:
        inside = [tensor for part in builder.model.subgraphs[1:] for tensor in part.tensors]
        for tensor in (*inside, builder.subgraph.tensors[out]):
            if len(tensor.shape) == 2:
                tensor.shapeSignature = [-1, tensor.shape[1]]
    return model(builder, out, counter, *operands)


def _while(
    builder: Builder, part: Part, turns: int, write: Write, sources: Sequence[int], operands: Sequence[Operand],
    operator: str = "WHILE",
) -> list[int]:  # fmt: skip
    """Write a loop over a counter and other tensors into a part; the last contents of the latter."""
    results = [same(part, source) for source in sources]
    start = np.zeros(part.subgraph.tensors[sources[0]].shape, np.int32)
    carried = [Operand(start, "int32"), *operands]
    position = len(builder.model.subgraphs)
    options = {"cond_subgraph_index": position, "body_subgraph_index": position + 1}
    part.operator(operator, sources, results, options)

    def more(inner: Part, given: list[int]) -> list[int]:
        below = inner.tensor("below", start.shape, "bool")
        inner.operator("LESS", [given[0], inner.constant("turns", np.full_like(start, turns))], [below], {})
        return [below]

    def turn(inner: Part, given: list[int]) -> list[int]:
        following = binary("ADD", inner, given[0], inner.constant("one", np.ones_like(start)))
        return [following, *write(inner, given[1:])]

    subgraph(builder, more, carried)
    subgraph(builder, turn, carried)
    return results[1:]


def _inner_loop(part: Part, given: list[int]) -> list[int]:
    """Two turns of a loop in each turn of a loop."""
    shape = part.subgraph.tensors[given[0]].shape
    operand = Operand(np.zeros(shape, np.float32))
    sources = [part.constant("inner", TURN.values), given[0]]
    return _while(part.owner, part, 2, lambda inner, x: [binary("ADD", inner, x[0], x[0])], sources, [operand])


def _negated(part: Part, given: list[int]) -> list[int]:
    return [unary("NEG", part, given[0])]


def _swapped(part: Part, given: list[int]) -> list[int]:
    return [given[1], given[0]]


def _grown(part: Part, given: list[int]) -> list[int]:
    """A tensor that becomes twice as long."""
    rows, columns = part.subgraph.tensors[given[0]].shape
    result = part.tensor("longer", (2 * rows, columns))
    part.operator("CONCATENATION", [given[0], given[0]], [result], {"axis": 0})
    return [result]


# -- variables -----------------------------------------------------------------------------------------------------


@cases("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
def variables(table: Table) -> None:
    """A sum that grows with every run, initialised once."""
    for label, start in (("zeros", np.zeros((2, 3))), ("numbers", np.arange(6).reshape(2, 3))):
        table.add_model(f"accumulating-{label}", partial(_accumulator, table.real(2, 3), start))


def _accumulator(operand: Operand, start: np.ndarray) -> Model:
    builder = Builder()
    source = entered(builder, "x", operand)
    initial = builder.part()
    builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    handle, before = _handle(builder), builder.tensor("before", (2, 3))
    builder.operator("READ_VARIABLE", [handle], [before], {})
    after = binary("ADD", builder, before, source)
    builder.operator("ASSIGN_VARIABLE", [handle, after], [], {})
    value = initial.constant("value", start.astype(np.float32))
    initial.operator("ASSIGN_VARIABLE", [_handle(initial), value], [], {})
    initial.outputs()
    return model(builder, after, operand)


def _handle(part: Part) -> int:
    handle = part.tensor("handle", (), "resource")
    part.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "sum"})
    return handle
