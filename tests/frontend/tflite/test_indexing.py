"""StableHLO operators that index, or reduce by a subgraph: each thing that does not fit is refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import read
from tests.builder import Builder, Part

Body = Callable[[Part, int, int], int]


def indexing(
    operator: str, given: Sequence[Any], made: Any, options: dict[str, Any], body: str | Body = "ADD", key: str = ""
) -> bytes:
    """A model of one operator; inputs and output are shapes and types. It may have a body of two numbers."""
    builder = Builder()
    inputs = [builder.input(f"in{at}", *each) for at, each in enumerate(given)]
    out = builder.tensor("out", *made)
    if key:
        part, dtype = builder.part(), given[0][1]
        a, b, result = part.input("a", (), dtype), part.input("b", (), dtype), part.tensor("result", (), dtype)
        if isinstance(body, str):
            part.operator(body, [a, b], [result], {})
            part.outputs(result)
        else:
            part.outputs(body(part, a, b))
        options = {**options, key: 1}
    builder.operator(f"STABLEHLO_{operator}", inputs, [out], options)
    return builder.finish(out)


X, START = ((4, 6), "float32"), ((), "float32")
GATHER = {"slice_sizes": [1, 6], "collapsed_slice_dims": [0], "offset_dims": [1], "start_index_map": [0],
          "index_vector_dim": 1}  # fmt: skip
SCATTER = {"inserted_window_dims": [0], "update_window_dims": [1], "scatter_dims_to_operand_dims": [0],
           "index_vector_dim": 1}  # fmt: skip
WINDOW = {"window_dimensions": [2, 1]}


def gathering(**changed: Any) -> bytes:
    return indexing("GATHER", [X, ((3, 1), "int32")], ((3, 6), "float32"), {**GATHER, **changed})


def scattering(
    updates: Any = ((3, 6), "float32"),
    made: Any = X,
    body: str | Body = "ADD",
    x: Any = X,
    **changed: Any,
) -> bytes:
    given = [x, ((3, 1), "int32"), updates]
    return indexing("SCATTER", given, made, {**SCATTER, **changed}, body, "update_computation_subgraph_index")


def sliding(x: Any = X, start: Any = START, body: str | Body = "ADD", **changed: Any) -> bytes:
    given, made = [x, start], ((3, 6), "float32")
    return indexing("REDUCE_WINDOW", given, made, {**WINDOW, **changed}, body, "body_subgraph_index")


def reducing(start: Any = START, body: str | Body = "ADD") -> bytes:
    return indexing("REDUCE", [X, start], ((6,), "float32"), {"dimensions": [0]}, body, "body_subgraph_index")


def twice(part: Part, a: int, _: int) -> int:
    made = part.tensor("made", ())
    part.operator("ADD", [a, a], [made], {})
    return made


def clamped(part: Part, a: int, b: int) -> int:
    made = part.tensor("made", ())
    part.operator("ADD", [a, b], [made], {"fused_activation_function": "RELU"})
    return made


def not_given(part: Part, a: int, b: int) -> int:
    part.operator("ADD", [a, b], [part.tensor("made", ())], {})
    return a


def test_what_fits_is_read() -> None:
    for source in (gathering(), scattering(), sliding(), reducing()):
        assert read(source).nodes


@pytest.mark.parametrize("make", [scattering, sliding, reducing])
@pytest.mark.parametrize("body", ["SUB", twice, clamped, not_given, lambda part, a, b: a])
def test_bodies_that_are_no_reduction(make: Callable[..., bytes], body: str | Body) -> None:
    with pytest.raises(UnsupportedError, match="a function of its own"):
        read(make(body=body))


def _second(_: Part, __: int, b: int) -> int:
    return b


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (gathering(slice_sizes=[1, 6, 1]), "takes parts of"),
        (gathering(slice_sizes=[2, 6]), "takes parts of"),
        (gathering(collapsed_slice_dims=[2], slice_sizes=[1, 6]), "takes parts of"),
        (gathering(slice_sizes=[1, 7]), "takes parts of"),
        (gathering(start_index_map=[2]), "indexes the axes"),
        (gathering(start_index_map=[0, 0]), "indexes the axes"),
        (gathering(collapsed_slice_dims=[0, 0]), "axes of parts"),
        (gathering(offset_dims=[1, 2]), "axes of parts"),
        (gathering(offset_dims=[1, 1], collapsed_slice_dims=[]), "axes of parts"),
        (gathering(offset_dims=[5]), "puts its parts"),
        (gathering(index_vector_dim=3), "index vectors along"),
        (scattering(updates=((3, 6), "int32")), "has int32"),
        (scattering(made=((4, 6), "int32")), "has int32"),
        (scattering(updates=((2, 6), "float32")), "into"),
        (scattering(updates=((3, 6, 1), "float32")), "into"),
        (scattering(inserted_window_dims=[7], update_window_dims=[0, 1]), "into"),
        (scattering(update_window_dims=[0, 1]), "into"),
        (sliding(start=((), "int32")), "has int32|windows, strides"),
        (sliding(body=_second), "reduces by nothing"),
        (sliding(window_dimensions=[0, 1]), "windows, strides"),
        (sliding(window_dimensions=[2]), "do not fit rank"),
        (sliding(window_strides=[1]), "do not fit rank"),
        (sliding(padding=[0, 0]), "do not fit rank"),
        (sliding(x=((), "float32"), window_dimensions=[]), "do not fit rank"),
        (reducing(start=((2,), "float32")), "reduces"),
        (reducing(start=((), "int32")), "has int32|reduces"),
        (reducing(body=_second), "reduces"),
    ],
)
def test_what_does_not_fit(source: bytes, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        read(source)


@pytest.mark.parametrize("body", ["STABLEHLO_AND", "STABLEHLO_MAXIMUM"])
def test_truth_values_are_not_combined(body: str) -> None:
    flags = ((4, 6), "bool")
    with pytest.raises(UnsupportedError, match="combines bool"):
        read(scattering(((3, 6), "bool"), flags, body, flags))
    assert read(scattering(((3, 6), "bool"), flags, _second, flags)).nodes


@pytest.mark.parametrize("columns", [6, 0])
def test_nothing_is_put_into_a_tensor(columns: int) -> None:
    """No updates, or such of no elements: the tensor is as it was."""
    x, count = ((4, columns), "float32"), 3 if not columns else 0
    given = [x, ((count, 1), "int32"), ((count, columns), "float32")]
    source = indexing("SCATTER", given, x, SCATTER, "ADD", "update_computation_subgraph_index")
    assert [node.op for node in read(source).nodes] == ["Identity"]
