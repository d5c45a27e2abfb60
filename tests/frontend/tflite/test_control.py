"""Subgraphs that contradict each other are refused; those that agree are written where they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError, ModelError, UnsupportedError
from layoutsolve.frontend import read
from tests.builder import Builder
from tests.conformance.families import every_case
from tests.conformance.tensor_lists import Lists

RANKS: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (1, 2, 3))


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


def single(builder: Builder, operator: str, **options: int) -> None:
    """A subgraph of one operator."""
    part = builder.part()
    given, result = part.input("given", (2, 3)), part.tensor("result", (2, 3))
    part.operator(operator, [given], [result], options)
    part.outputs(result)


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
    with pytest.raises(UnsupportedError, match="its subgraphs call themselves"):
        read(branching(partial(single, operator="CALL", subgraph=1)))


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

    with pytest.raises(UnsupportedError, match=r"subgraph 1 operator 0 CUSTOM:Unheard"):
        read(branching(partial(single, operator="CUSTOM:Unheard")))


def test_condition_of_many_elements() -> None:
    builder = Builder()
    inputs = [builder.input("condition", (2,), "bool"), builder.input("x", (2, 3))]
    out = builder.tensor("out", (2, 3))
    builder.operator("IF", inputs, [out], {"then_subgraph_index": 1, "else_subgraph_index": 1})
    handing_on(builder)
    with pytest.raises(ModelError, match="needs one truth value as its condition"):
        read(builder.finish(out))


def test_texts_out_of_branches() -> None:
    """One or the other, which no operator of ONNX gives: that is said."""
    builder = Builder()
    inputs = [builder.input("condition", (), "bool"), *(builder.input(name, (3,), "string") for name in "ab")]
    out = builder.tensor("out", (3,), "string")
    builder.operator("IF", inputs, [out], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    for place in range(2):
        part = builder.part()
        part.outputs([part.input(name, (3,), "string") for name in "ab"][place])
    with pytest.raises(UnsupportedError, match="it carries a string from iteration to iteration or out of a branch"):
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


def variable(
    initialised: bool,
    assigned: bool,
    first: tuple[int, ...] = (2, 3),
    told: tuple[int, ...] = (2, 3),
    given: tuple[int, ...] = (2, 3),
) -> bytes:
    """A sum of what a variable holds at ``first`` and is ``told`` to hold, and of what is ``given``."""
    builder = Builder()
    x, before = builder.input("x", given), builder.tensor("before", told)
    after = builder.tensor("after", max(told, given, key=len))
    handle = builder.tensor("handle", (), "resource")
    builder.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "v"})
    if initialised:
        builder.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
        part = builder.part()
        inner = part.tensor("handle", (), "resource")
        part.operator("VAR_HANDLE", [], [inner], {"container": "", "shared_name": "v"})
        part.operator("ASSIGN_VARIABLE", [inner, part.constant("ones", np.ones(first, np.float32))], [])
        part.outputs()
    builder.operator("READ_VARIABLE", [handle], [before])
    builder.operator("ADD", [before, x], [after], {})
    if assigned:
        builder.operator("ASSIGN_VARIABLE", [handle, after], [])
    return builder.finish(after)


@pytest.mark.parametrize("initialised", [False, True])
@pytest.mark.parametrize("first", RANKS)
@pytest.mark.parametrize("told", RANKS)
@pytest.mark.parametrize("given", RANKS)
def test_dimensions_of_a_variable(
    initialised: bool, first: tuple[int, ...], told: tuple[int, ...], given: tuple[int, ...]
) -> None:
    """It has as many in every run: what it holds first, what it is read as, and what is left in it."""
    source = variable(initialised, True, first, told, given)
    read_as = first if initialised else told
    if len(given) <= len(told) == len(read_as):
        assert layoutsolve.convert(source).model.graph.node
    else:
        with pytest.raises(ModelError):
            layoutsolve.convert(source)


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


@pytest.mark.parametrize(
    ("count", "place", "sizes", "match"),
    [
        (-5, 0, (2, 3), r"number of elements is \[-5\]"),
        ([4, 4], 0, (2, 3), r"number of elements is \[4, 4\]"),
        ([], 0, (2, 3), r"number of elements is \[\]"),
        (0, 0, (2, 3), "that a list of 0 does not have"),
        (4, 4, (2, 3), "that a list of 4 does not have"),
        (4, -1, (2, 3), "that a list of 4 does not have"),
        (4, [0, 1], (2, 3), "that a list of 4 does not have"),
        (4, [], (2, 3), "that a list of 4 does not have"),
        (4, 1, (6,), r"sets 'y' in a list of float32\[2, 3\]"),
        (4, 1, None, "no element is set"),
    ],
)
def test_lists_that_cannot_be(count: object, place: object, sizes: tuple[int, ...] | None, match: str) -> None:
    """What TensorFlow refuses when it runs is refused before."""
    builder = Builder()
    x, lists = builder.input("x", (2, 3)), Lists(builder)
    given = [lists.numbers(2, 3), builder.constant("count", np.array(count, np.int32))]
    items = lists.write("Reserve", given)
    if sizes is not None:
        y = builder.input("y", sizes)
        if sizes != (2, 3):
            items = lists.write("SetItem", [items, lists.number(0), x])
        items = lists.write("SetItem", [items, builder.constant("place", np.array(place, np.int32)), y])
    with pytest.raises(ConversionError, match=match):
        layoutsolve.convert(builder.finish(lists.stack(items, (4, 2, 3))))


def test_a_body_gives_as_much_as_is_carried() -> None:
    """Also where what is carried is a list of tensors, which the body says the elements of."""
    case = next(
        case for case in every_case() if case.operator == "CUSTOM:FlexTensorListSetItem" and "loop" in case.name
    )
    builder = Builder.reopened(case.make().source)
    body = builder.model.subgraphs[2]
    body.outputs = list(body.outputs[:1])
    with pytest.raises(ModelError, match="carries 3 tensors, but its body gives 1"):
        layoutsolve.convert(builder.finish())
