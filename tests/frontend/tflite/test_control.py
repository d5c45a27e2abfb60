"""Subgraphs that contradict each other are refused; those that agree are written where they run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from layoutsolve.errors import ConversionError, ModelError, UnsupportedError
from layoutsolve.frontend import read
from tests.builder import Builder


def branching(second: Callable[[Builder], None], count: int = 1) -> bytes:
    """An IF over one tensor, with the same subgraph as both branches."""
    builder = Builder()
    inputs = [builder.input("condition", (), "bool"), builder.input("x", (2, 3))]
    outputs = [builder.tensor(f"out{number}", (2, 3)) for number in range(count)]
    builder.operator("IF", inputs, outputs, {"then_subgraph_index": 1, "else_subgraph_index": 1})
    second(builder)
    return builder.finish(*outputs)


def handing_on(builder: Builder, shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> None:
    part = builder.part()
    part.outputs(part.input("given", shape, dtype))


def test_missing_subgraph() -> None:
    with pytest.raises(ModelError, match=r"IF#0 names subgraph 1, but the model has 1"):
        read(branching(lambda builder: None))


def test_type_of_an_input() -> None:
    with pytest.raises(ModelError, match="hands float32 to 'given', which is declared as int32"):
        read(branching(lambda builder: handing_on(builder, dtype="int32")))


def test_number_of_outputs() -> None:
    with pytest.raises(ModelError, match="differ in the number of their outputs"):
        read(branching(handing_on, count=2))


def test_number_of_inputs() -> None:
    def two(builder: Builder) -> None:
        part = builder.part()
        part.input("a", (2, 3))
        part.outputs(part.input("b", (2, 3)))

    with pytest.raises(ModelError, match="gives 1 inputs to subgraph 1, which has another number"):
        read(branching(two))


def test_recursion() -> None:
    def endless(builder: Builder) -> None:
        part = builder.part()
        given, result = part.input("given", (2, 3)), part.tensor("result", (2, 3))
        part.operator("CALL", [given], [result], {"subgraph": 1})
        part.outputs(result)

    with pytest.raises(UnsupportedError, match="its subgraphs call themselves"):
        read(branching(endless))


def test_growth_beyond_the_file() -> None:
    """Each of 24 subgraphs calls the next one twice: 16 million operators from a file of a few kilobytes."""

    def doubling(builder: Builder) -> None:
        for position in range(2, 26):
            part = builder.part()
            value = part.input("given", (2, 3))
            for name in ("once", "twice"):
                result = part.tensor(name, (2, 3))
                part.operator("CALL", [value], [result], {"subgraph": position})
                value = result
            part.outputs(value)
        handing_on(builder)

    with pytest.raises(UnsupportedError, match="its operators grow far beyond the size of the file"):
        read(branching(doubling))


def test_gaps_of_subgraphs_are_listed() -> None:
    """All at once, with the number of the subgraph."""

    def unknown(builder: Builder) -> None:
        part = builder.part()
        given, result = part.input("given", (2, 3)), part.tensor("result", (2, 3))
        part.operator("CUSTOM:Unheard", [given], [result])
        part.outputs(result)

    with pytest.raises(UnsupportedError, match=r"subgraph 1 operator 0 CUSTOM:Unheard"):
        read(branching(unknown))


def test_condition_of_many_elements() -> None:
    builder = Builder()
    inputs = [builder.input("condition", (2,), "bool"), builder.input("x", (2, 3))]
    out = builder.tensor("out", (2, 3))
    builder.operator("IF", inputs, [out], {"then_subgraph_index": 1, "else_subgraph_index": 1})
    handing_on(builder)
    with pytest.raises(ModelError, match="needs one truth value as its condition"):
        read(builder.finish(out))


def test_assignment_in_a_branch() -> None:
    """The variable would hold one thing or another afterwards."""

    def assigning(builder: Builder) -> None:
        part = builder.part()
        given, handle = part.input("given", (2, 3)), part.tensor("handle", (), "resource")
        part.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "v"})
        part.operator("ASSIGN_VARIABLE", [handle, given], [])
        part.outputs(given)

    with pytest.raises(UnsupportedError, match="assigns a variable in a branch or loop"):
        read(branching(assigning))


def variable(initialised: bool, assigned: bool) -> bytes:
    builder = Builder()
    x, before, after = builder.input("x", (2, 3)), builder.tensor("before", (2, 3)), builder.tensor("after", (2, 3))
    handle = builder.tensor("handle", (), "resource")
    builder.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "v"})
    if initialised:
        builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
        part = builder.part()
        inner = part.tensor("handle", (), "resource")
        part.operator("VAR_HANDLE", [], [inner], {"container": "", "shared_name": "v"})
        part.operator("ASSIGN_VARIABLE", [inner, part.constant("ones", np.ones((2, 3), np.float32))], [])
        part.outputs()
    builder.operator("READ_VARIABLE", [handle], [before])
    builder.operator("ADD", [before, x], [after], {})
    if assigned:
        builder.operator("ASSIGN_VARIABLE", [handle, after], [])
    return builder.finish(after)


def test_variable_that_is_never_assigned_is_a_constant() -> None:
    graph = read(variable(initialised=True, assigned=False))
    assert [node.op for node in graph.nodes] == ["Add"]
    assert graph.constant(graph.nodes[0].inputs[0]).tolist() == np.ones((2, 3)).tolist()  # type: ignore[union-attr]


def test_variable_without_a_beginning_is_for_the_user_to_begin() -> None:
    state = read(variable(initialised=False, assigned=True)).nodes[0]
    assert (state.op, state.inputs[0]) == ("State", "")


def test_any_cut_of_the_file_is_refused_or_right() -> None:
    """A file with subgraphs, cut or with any one of its bytes changed, gives a model or one clear error."""
    data = bytearray(variable(initialised=True, assigned=True))
    for place in range(0, len(data), 3):
        broken = bytearray(data)
        broken[place] ^= 0x41
        try:
            read(bytes(broken))
        except ConversionError:
            continue
