"""Control flow and state."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.builder import Builder, Part
from tests.conformance.cases import Model, Operand, Table, cases


@cases("IF")
def branches(table: Table) -> None:
    for condition in (False, True):
        table.add_model(f"float32-{condition}", partial(_branch, condition, table.real(2, 3), table.real(2, 3)))


def _branch(condition: bool, first: Operand, second: Operand) -> Model:
    builder = Builder()
    inputs = [builder.input("condition", (), "bool"), builder.input("x", (2, 3)), builder.input("y", (2, 3))]
    out = builder.tensor("out", (2, 3))
    builder.operator("IF", inputs, [out], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    for operator in ("ADD", "MUL"):
        part = builder.part()
        operands = [part.input("a", (2, 3)), part.input("b", (2, 3))]
        result = part.tensor("c", (2, 3))
        part.operator(operator, operands, [result], {})
        part.outputs(result)
    return model(builder, out, Operand(np.array(condition)), first, second)


def model(builder: Builder, output: int, *inputs: Operand) -> Model:
    """The finished model and its data."""
    return Model(builder.finish(output), tuple(operand.values for operand in inputs))


@cases("WHILE")
def loops(table: Table) -> None:
    for turns in (0, 1, 4):
        table.add_model(f"counted-{turns}", partial(_loop, turns, table.real(2, 3)))


def _loop(turns: int, operand: Operand) -> Model:
    builder = Builder()
    start = builder.constant("start", np.int32(0))
    source = builder.input("x", (2, 3))
    results = [builder.tensor("count", (), "int32"), builder.tensor("out", (2, 3))]
    builder.operator("WHILE", [start, source], results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    condition, body = builder.part(), builder.part()
    count, _ = _carried(condition)
    below = condition.tensor("below", (), "bool")
    condition.operator("LESS", [count, condition.constant("turns", np.int32(turns))], [below], {})
    condition.outputs(below)
    count, value = _carried(body)
    following = [body.tensor("next", (), "int32"), body.tensor("doubled", (2, 3))]
    body.operator("ADD", [count, body.constant("one", np.int32(1))], [following[0]], {})
    body.operator("ADD", [value, value], [following[1]], {})
    body.outputs(*following)
    return model(builder, results[1], operand)


def _carried(part: Part) -> tuple[int, int]:
    return part.input("count", (), "int32"), part.input("value", (2, 3))


@cases("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
def variables(table: Table) -> None:
    table.add_model("accumulating", partial(_accumulator, table.real(2, 3)))


def _accumulator(operand: Operand) -> Model:
    """A sum that grows with every run, initialised with zeros once."""
    builder = Builder()
    source = builder.input("x", (2, 3))
    initial = builder.part()
    builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    handle, before, after = _handle(builder), builder.tensor("before", (2, 3)), builder.tensor("after", (2, 3))
    builder.operator("READ_VARIABLE", [handle], [before], {})
    builder.operator("ADD", [before, source], [after], {})
    builder.operator("ASSIGN_VARIABLE", [handle, after], [], {})
    zeros = initial.constant("zeros", np.zeros((2, 3), np.float32))
    initial.operator("ASSIGN_VARIABLE", [_handle(initial), zeros], [], {})
    initial.outputs()
    return model(builder, after, operand)


def _handle(part: Part) -> int:
    handle = part.tensor("handle", (), "resource")
    part.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "sum"})
    return handle
