"""Flex operators on lists of tensors: what numpy gives for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Part
from tests.conformance.cases import Model, Operand, Table, cases
from tests.conformance.control import TURN, entered


class Lists:
    """Writes operators on lists of tensors into a subgraph."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def write(self, op: str, inputs: list[int], shape: tuple[int, ...] = (), dtype: str = "variant") -> int:
        """An operator, and its result: a list by default."""
        result = self.part.tensor(f"list{len(self.part.subgraph.tensors)}", shape, dtype)
        self.part.operator(f"CUSTOM:FlexTensorList{op}", inputs, [result])
        return result

    def numbers(self, *numbers: int) -> int:
        """A constant vector."""
        return self.part.constant(f"numbers{len(self.part.subgraph.tensors)}", np.array(numbers, np.int32))

    def number(self, number: int) -> int:
        """A constant."""
        return self.part.constant(f"number{len(self.part.subgraph.tensors)}", np.array(number, np.int32))

    def reserve(self, count: int, *shape: int) -> int:
        """A list of a number of elements."""
        return self.write("Reserve", [self.numbers(*shape), self.number(count)])

    def stack(self, items: int, shape: tuple[int, ...], dtype: str = "float32") -> int:
        """All elements of a list."""
        return self.write("Stack", [items, self.numbers(*shape[1:])], shape, dtype)


@cases(*(f"CUSTOM:FlexTensorList{name}" for name in ("Reserve", "SetItem", "Stack")))
def filled(table: Table) -> None:
    """Elements that are set one after the other, of which the last one counts; others are zeros."""
    for dtype, shape in (("float32", (2, 3)), ("float32", ()), ("int32", (4,))):
        for count, places in ((4, (2, 0, 2)), (1, (0, 0))):
            x = table.real(len(places), *shape) if dtype == "float32" else table.integers(9, len(places), *shape)
            label = f"{dtype}-{len(shape)}-{count}"
            table.add_model(label, lambda x=x, count=count, places=places: _filled(x, count, places))
    for count in (1, 3, 5):
        x = table.real(3, 2, 3)
        table.add_model(f"loop-{count}", lambda x=x, count=count: _in_loop(x, count))


def _filled(x: Operand, count: int, places: tuple[int, ...]) -> Model:
    builder = Builder()
    source, lists, shape = entered(builder, "x", x), Lists(builder), x.values.shape[1:]
    items, expected = lists.reserve(count, *shape), np.zeros((count, *shape), x.values.dtype)
    for number, place in enumerate(places):
        element = builder.tensor(f"element{number}", shape, x.dtype)
        builder.operator("GATHER", [source, lists.number(number)], [element], {})
        items = lists.write("SetItem", [items, lists.number(place), element])
        expected[place] = x.values[number]
    return Model(builder.finish(lists.stack(items, expected.shape, x.dtype)), (x.values,), (expected,))


def _in_loop(x: Operand, count: int) -> Model:
    """A loop of three turns over a list of some elements: one for each, less, or more."""
    builder, steps = Builder(), len(x.values)
    source, lists, shape = entered(builder, "x", x), Lists(builder), x.values.shape[1:]
    items = lists.reserve(count, *shape)
    inputs = [entered(builder, "turn", TURN), items, source]
    results = [
        builder.tensor("turns", (), "int32"),
        builder.tensor("all", (), "variant"),
        builder.tensor("same", x.values.shape),
    ]
    builder.operator("WHILE", inputs, results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})

    def more(part: Part, given: list[int]) -> list[int]:
        truth = part.tensor("truth", (), "bool")
        part.operator("LESS", [given[0], part.constant("steps", np.array(steps, np.int32))], [truth], {})
        return [truth]

    def turn(part: Part, given: list[int]) -> list[int]:
        following, element = part.tensor("next", (), "int32"), part.tensor("element", shape)
        part.operator("ADD", [given[0], part.constant("one", np.array(1, np.int32))], [following], {})
        part.operator("GATHER", [given[2], given[0]], [element], {})
        place = given[0] if count >= steps else part.constant("place", np.array(0, np.int32))
        return [following, Lists(part).write("SetItem", [given[1], place, element]), given[2]]

    for write in (more, turn):
        _subgraph(builder, write, x)
    expected = np.zeros((count, *shape), x.values.dtype)
    expected[: min(steps, count)] = x.values[-1:] if count < steps else x.values
    return Model(builder.finish(lists.stack(results[1], expected.shape)), (x.values,), (expected,))


def _subgraph(builder: Builder, write: Callable[[Part, list[int]], list[int]], x: Operand) -> None:
    """A subgraph over the number of the turn, a list and data."""
    part = builder.part()
    given = [part.input("turn", (), "int32"), part.input("items", (), "variant"), part.input("x", x.values.shape)]
    part.outputs(*write(part, given))


@cases("CUSTOM:FlexTensorListFromTensor", "CUSTOM:FlexTensorListGetItem")
def full(table: Table) -> None:
    """An element of a list that was a tensor, and all of one of which an element is another one."""
    for shape in ((3, 2, 4), (2,)):
        x = table.real(*shape)
        table.add_model(f"element-{len(shape)}", lambda x=x: _element(x, x.values[1]))
        table.add_model(f"changed-{len(shape)}", lambda x=x: _changed(x))


def _element(x: Operand, expected: Array) -> Model:
    builder = Builder()
    source, lists, shape = entered(builder, "x", x), Lists(builder), x.values.shape[1:]
    items = lists.write("FromTensor", [source, lists.numbers(*shape)])
    element = lists.write("GetItem", [items, lists.number(1), lists.numbers(*shape)], shape, "float32")
    return Model(builder.finish(element), (x.values,), (np.asarray(expected),))


def _changed(x: Operand) -> Model:
    builder = Builder()
    source, lists, shape = entered(builder, "x", x), Lists(builder), x.values.shape[1:]
    items = lists.write("FromTensor", [source, lists.numbers(*shape)])
    first = lists.write("GetItem", [items, lists.number(0), lists.numbers(*shape)], shape, "float32")
    items = lists.write("SetItem", [items, lists.number(1), first])
    expected = x.values.copy()
    expected[1] = expected[0]
    return Model(builder.finish(lists.stack(items, x.values.shape)), (x.values,), (expected,))
