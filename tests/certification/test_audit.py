"""The recount of a file: each of its numbers against models in which they are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from layoutsolve.certification.audit import COMPARED, TURNS, Recount, copied_bytes, recount

checked = settings(max_examples=100, deadline=None, derandomize=True)
Dims = Sequence[int | str]


def transposing(shape: Dims, perm: Sequence[int], element: int = TensorProto.FLOAT) -> onnx.GraphProto:
    """A graph of one Transpose."""
    after = [shape[axis] for axis in perm]
    ports = [helper.make_tensor_value_info(name, element, dims) for name, dims in (("x", shape), ("y", after))]
    return helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], "graph", ports[:1], ports[1:])


def counted(graph: onnx.GraphProto) -> Recount:
    return recount(helper.make_model(graph))


def motions(shape: Sequence[int], perm: Sequence[int]) -> dict[str, int]:
    """What a Transpose does, by the elements as they come to lie: they stay, or blocks of them do, or those of two
    dimensions change places, or none of it. One of size 1 is in the way as others are, but where it stays in front
    or at the end.
    """
    if sorted(larger := [axis for axis in perm if shape[axis] > 1]) == larger:
        return {}
    shape, perm = list(shape), list(perm)
    while shape[-1] == 1 and perm[-1] == len(shape) - 1:
        shape, perm = shape[:-1], perm[:-1]
    shape = [size if size > 1 else 2 for size in shape]
    count = prod(shape)
    elements = np.arange(count)
    found = elements.reshape(shape).transpose(perm).reshape(-1)
    if found[1] == 1:
        return {"rows": 1}
    cuts = ((outer, inner) for outer in range(1, count + 1) for inner in range(1, count + 1))
    swap = any(
        np.array_equal(elements.reshape(outer, -1, inner).swapaxes(1, 2).reshape(-1), found)
        for outer, inner in cuts
        if count % (outer * inner) == 0
    )
    return {"swap" if swap else "general": 1}


@checked
@given(st.permutations([2, 3, 5, 7, 1, 1]).map(lambda sizes: sizes[:5]), st.permutations(range(5)))
def test_motions(shape: list[int], perm: list[int]) -> None:
    """By what becomes of the elements in memory. Where sizes are known by name only what has size 1 is in no way."""
    found = counted(transposing(shape, perm))
    assert found == Recount(1, motions(shape, perm), 0, 4 * prod(shape))
    named = [f"n{size}" if size > 1 else 1 for size in shape]
    larger = [axis for axis, size in enumerate(shape) if size > 1]
    without = motions([shape[axis] for axis in larger], [larger.index(axis) for axis in perm if axis in larger])
    assert counted(transposing(named, perm)) == Recount(1, without, 0, 4)


@pytest.mark.parametrize(
    ("element", "size"),
    [(TensorProto.FLOAT, 24), (TensorProto.INT8, 6), (TensorProto.INT4, 3), (TensorProto.STRING, 48)],
)
@pytest.mark.parametrize(("shape", "factor"), [((2, 3), 1), ((2, 3, "n"), 1), (("2*n*m", 3), 1), (("3*n", "m", 4), 2)])
def test_bytes(element: int, size: int, shape: Dims, factor: int) -> None:
    """Numbers count, names do not; four bits are half a byte."""
    perm = [1, 0, *range(2, len(shape))]
    assert counted(transposing(shape, perm, element)).bytes == size * factor


def within(graph: onnx.GraphProto, operator: str) -> onnx.GraphProto:
    """A graph with an operator of which another graph is the body, or both branches."""
    roles = ["then_branch", "else_branch"] if operator == "If" else ["body"]
    node = helper.make_node(operator, [], ["z"], **dict.fromkeys(roles, graph))
    return helper.make_graph([node], "around", [], [])


@checked
@given(st.lists(st.sampled_from(["If", "Loop"]), max_size=4))
def test_turns(around: list[str]) -> None:
    """What a loop does counts several times in bytes, and once as an operator; both branches count."""
    graph = transposing((2, 3), (1, 0))
    for operator in around:
        graph = within(graph, operator)
    branches = 2 ** around.count("If")
    assert counted(graph) == Recount(branches, {"swap": branches}, 0, 24 * branches * TURNS ** around.count("Loop"))


@pytest.mark.parametrize("operator", ["Reshape", "Flatten", "Squeeze", "Unsqueeze"])
def test_views(operator: str) -> None:
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])] * 3, "graph", [], [])
    assert counted(graph) == Recount(0, {}, 3, 0)


@pytest.mark.parametrize("side", ["input", "output"])
def test_one_side_is_enough(side: str) -> None:
    graph = transposing((2, 3, 5), (2, 1, 0))
    whole = counted(graph)
    del getattr(graph, side)[:]
    assert counted(graph) == whole == Recount(1, {"general": 1}, 0, 120)


def test_what_is_not_told() -> None:
    """A file that does not describe what it moves is refused."""
    graph = transposing((2, 3), (1, 0))
    del graph.input[:], graph.output[:]
    bare = helper.make_graph([onnx.NodeProto(op_type="Transpose")], "graph", [], [])
    other = transposing((2, 3), (1, 0))
    other.node[0].attribute[0].ints[:] = [0, 2]
    strange = transposing((2, 3), (1, 0))
    strange.input[0].type.tensor_type.elem_type = 99
    for each, message in ((graph, "input shape"), (bare, "input shape"), (other, "orders"), (strange, "unknown type")):
        with pytest.raises(ValueError, match=message):
            counted(each)


def storing(constants: Sequence[np.ndarray]) -> onnx.ModelProto:
    made = [numpy_helper.from_array(np.ascontiguousarray(each), f"c{place}") for place, each in enumerate(constants)]
    return helper.make_model(helper.make_graph([], "graph", [], [], made))


@checked
@given(
    st.lists(st.tuples(st.sampled_from(["float32", "int8", "bool"]), st.integers(0, 3), st.booleans()), max_size=5),
    st.integers(0, 10**6),
)
def test_copies(constants: list[tuple[str, int, bool]], seed: int) -> None:
    """Constants in other orders and shapes are copies, large ones; the source's own equal ones are none."""
    random = np.random.default_rng(seed)
    source, written, expected = [], [], 0
    for dtype, copies, large in constants:
        shape = (8, 16, 12) if large else (8, 4)
        data = random.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        source += [data, data]
        written += [data.transpose(random.permutation(data.ndim)) for _ in range(copies)] + [data.reshape(-1)] * 2
        expected += copies * data.nbytes if data.nbytes >= COMPARED else 0
    assert copied_bytes(storing(written), storing(source)) == expected
    assert copied_bytes(storing(written), storing([])) == 0


def test_changed_constants_are_no_copies() -> None:
    """One element less of a kind and one more of another is another constant."""
    data = np.random.default_rng(0).integers(-9, 9, 4096).astype("int8")
    changed = data.copy()
    changed[7] += 1
    assert copied_bytes(storing([data, changed]), storing([data])) == 0
    assert copied_bytes(storing([data, changed, data[::-1]]), storing([data])) == data.nbytes


@pytest.mark.parametrize(("to", "factor"), [(TensorProto.FLOAT, 2), (TensorProto.DOUBLE, 1), (None, 1)])
def test_halves_count_as_they_are_loaded(to: int | None, factor: int) -> None:
    """What is cast to float32, whatever other attributes the Cast has; a constant of another type is what it is."""
    data = np.arange(1024, dtype=np.float16)
    written, source = storing([data, data.reshape(4, -1), data.astype("int8")]), storing([data, data.astype("int8")])
    for each in (written, source):
        names = [constant.name for constant in each.graph.initializer]
        more = {} if to is None else {"saturate": 0, "to": to}
        each.graph.node.extend(helper.make_node("Cast", [name], [f"{name}/wide"], **more) for name in names)
    assert copied_bytes(written, source) == factor * data.nbytes


def test_texts() -> None:
    """A text counts eight bytes, as a pointer takes."""
    texts = np.array([f"t{number}" for number in range(200)], object)
    assert copied_bytes(storing([texts, texts[::-1]]), storing([texts])) == 8 * 200
