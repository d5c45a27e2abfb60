"""Every row of every rule: the rewritten operator on rearranged inputs computes the original, rearranged."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Array, Dim, Graph, Shape, Size, symbol
from layoutsolve.solver import assign
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target_file import CONTRIB_TARGET, DEFAULT_TARGET, shipped
from layoutsolve.solver.theory.kind import Along, Among, Marked, Pieces, Repeats, Runs
from layoutsolve.solver.theory.node_rule import known_rule
from layoutsolve.solver.theory.offer import FORMS, rule_of
from layoutsolve.solver.theory.relation import Arranged
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, RULES, Site, operator_name
from layoutsolve.solver.theory.rules.slicing import PATTERNS
from tests.audited import audited
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import CASES, Random, graph_of
from tests.solver.siblings import own
from tests.solver.standard import RELATED

SEEDS = range(6)
FEWER = range(3)
"""Seeds of operators that are as others are."""

ROWS = 12
Permutations = dict[str, tuple[int, ...]]


def test_every_rule_has_a_case() -> None:
    assert set(RULES) == {*CASES, *RELATED}


def random_ends(graph: Graph, random: Random) -> tuple[Boundary, Permutations]:
    """A random explicit layout for every input and output."""
    layouts, permutations = {}, {}
    for name in dict.fromkeys((*graph.inputs, *graph.outputs)):
        rank = len(graph.values[name].shape)
        if rank:
            permutation = tuple(int(axis) for axis in random.permutation(rank))
            letters = string.ascii_uppercase[:rank]
            layouts[name] = (letters, "".join(letters[axis] for axis in permutation))
            permutations[name] = permutation
    return Boundary(layouts=layouts), permutations


def samples(statement: Statement, random: Random) -> list[Assignment]:
    """Assignments that between them choose every row of the operators, up to a number."""
    problem = statement.layouts()
    count = max(len(operator.rows) for operator in problem.operators)
    chosen = range(count) if count <= ROWS else sorted(random.choice(count, ROWS, replace=False).tolist())
    found = []
    for number in chosen:
        rows = tuple(number % len(operator.rows) for operator in problem.operators)
        found.append(Assignment(statement.graph, statement.rules, problem, rows, price(problem, rows), Goal(), "test"))
    return found


def size(dim: Dim) -> int:
    """A size where all that are known by name are 2, as in what graphs are fed."""
    return dim.coefficient * 2 ** len(dim.symbols) if isinstance(dim, Size) else dim


def check(
    graph: Graph, assignment: Assignment, permutations: Permutations, data: list[Array], truth: list[Array]
) -> None:
    """The file has what the price says, and computes what the reference graph computes; all that the main graph's nodes
    write is of the type and shape that are stated.
    """
    applied = apply(assignment)
    audited(serialise(applied), assignment, graph)
    stored = [
        array.transpose(permutations.get(name, range(array.ndim)))
        for name, array in zip(graph.inputs, data, strict=True)
    ]
    written = [name for node in applied.nodes for name in node.outputs if name and applied.region(name) is None]
    written = [name for name in written if name not in applied.outputs]
    results = run(replace(applied, outputs=(*applied.outputs, *written)), stored)
    for name, found in zip(written, results[len(graph.outputs) :], strict=True):
        value = applied.values[name]
        dtype = "string" if found.dtype == object else str(found.dtype)
        assert (dtype, found.shape) == (value.dtype, tuple(map(size, value.shape))), value
    for name, expected, found in zip(graph.outputs, truth, results, strict=False):
        wanted = expected.transpose(permutations.get(name, range(expected.ndim)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(applied))


@pytest.mark.members(256)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("operator", "target"),
    [
        *((name, DEFAULT_TARGET) for name in sorted(CASES)),
        *((operator, CONTRIB_TARGET) for domain, operator in sorted(FORMS) if domain == CONTRIB),
    ],
)
def test_rows(operator: str, target: str, seed: int) -> None:
    graph, random = graph_of(operator, seed)
    boundary, permutations = random_ends(graph, random)
    data = feeds(graph, seed)
    truth = run(graph, data)
    for assignment in samples(Statement(graph, boundary, Goal(target=shipped(target))), random):
        check(graph, assignment, permutations, data, truth)


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", sorted(RELATED))
def test_rows_of_siblings(operator: str) -> None:
    for seed in FEWER:
        test_rows(operator, DEFAULT_TARGET, seed)


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", ["Attention", "RotaryEmbedding"])
def test_rows_of_many_forms(operator: str) -> None:
    """Masks, heads apart or within features, keys that were there before: more of them come together."""
    for seed in range(FEWER[-1] + 1, 16):
        test_rows(operator, DEFAULT_TARGET, seed)


def test_a_mask_lies_as_what_it_masks() -> None:
    """But where it is not known whether it is repeated there."""
    for first, label in ((2, ("b",)), (1, ()), (symbol("n"), ("mb",))):
        builder = GraphBuilder()
        given = [builder.input(2, 3, length, 6) for length in (4, 5, 5)]
        y = builder.op("Attention", *given, builder.input(first, 3, 4, 5), shape=(2, 3, 4, 6))
        graph = builder.graph(y)
        mask = rule_of(Site(graph, graph.nodes[-1])).dims[3]
        assert mask == (label, ("h",), ("s",), ("t",))


@pytest.mark.members(0)
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2), (2, 3), (1, 3)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_what_is_resampled_stays_whole(mode: str, axes: tuple[int, ...]) -> None:
    """Also where it is a region alone that differs; and interpolation has a form that a kernel knows."""
    for cropped in (False, True):
        builder, shape = GraphBuilder(), [2, 4, 6, 8]
        sizes = [2 * size if axis in axes and not cropped else size for axis, size in enumerate(shape)]
        region = [0.0] * 4 + [0.5 if axis in axes else 1.0 for axis in range(4)]
        given = [builder.input(*shape), builder.constant(region), "", builder.constant(sizes, "int64")]
        how = "tf_crop_and_resize" if cropped else "half_pixel"
        y = builder.op("Resize", *given, shape=sizes, mode=mode, coordinate_transformation_mode=how)
        graph = builder.graph(y)
        rule = rule_of(Site(graph, graph.nodes[-1]))
        assert rule.solid == {f"k{axis}" for axis in axes} or rule.ways[0].kind == "as in the source"
        if mode != "nearest" and rule.solid:
            assert {str(way.kind).split()[1].rstrip(",") for way in rule.ways} <= set(PATTERNS)


def _others(shape: Shape) -> list[Shape]:
    """Shapes that contradict one: with a dimension more or less, with other sizes, in another order."""
    other = [(*shape, 5), (5, *shape), shape[:-1], (*shape[:-1], 7), (7, *shape[1:]), shape[::-1]]
    return [each for each in other if each != shape]


@pytest.mark.members(73)
@pytest.mark.parametrize("operator", sorted({*CASES, *RELATED} - {"Constant", "Element", "State"}))
def test_shapes_that_contradict_each_other(operator: str) -> None:
    """What a source says of its tensors may be wrong where inference knows nothing: a rule does not cover that."""
    tried = 0
    for seed in range(2):
        graph, random = graph_of(operator, seed)
        node = next(replace(node, given=True) for node in graph.nodes if operator_name(node) == operator)
        inputs = tuple(dict.fromkeys(name for name in node.inputs if name and graph.values[name].data is None))
        outputs = tuple(filter(None, node.outputs))
        for name in (*inputs, *outputs):
            for shape in _others(graph.values[name].shape):
                values = {**graph.values, name: replace(graph.values[name], shape=shape)}
                wrong = replace(graph, nodes=(node,), inputs=inputs, outputs=outputs, values=values)
                assert samples(Statement(wrong, random_ends(wrong, random)[0], Goal()), random)
                tried += 1
    assert tried


PARTLY = ("RMSNormalization", "Reshape")
"""Operators of which a case has forms without a rule."""


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", sorted({*CASES, *RELATED}))
def test_cases_are_covered(operator: str) -> None:
    """Every form of an operator that a case draws has a rule, and where a row may be of several ways each has a name:
    a rule that gives up a form computes the same, and costs Transposes.
    """
    graphs = [graph_of(operator, seed)[0] for seed in SEEDS]
    nodes = [(graph, node) for graph in graphs for node in graph.nodes if operator_name(node) == operator]
    found = [known_rule(Site(*each)) for each in nodes]
    ways = [way for each in found if each is not None and len(each.ways) > 1 for way in each.ways]
    assert (any if operator in PARTLY else all)(found) and nodes
    assert operator in CASES or all(way.kind for way in ways)


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", sorted(CASES))
def test_every_row_of_several_ways_has_a_kind(operator: str) -> None:
    for seed in SEEDS:
        graph, random = graph_of(operator, seed)
        statement = Statement(graph, random_ends(graph, random)[0])
        for each in statement.layouts().operators:
            rule = statement.rules.get(each.node)
            if rule is not None and len(rule.ways) > 1:
                kinds = [rule.ways[row.form].kind for row in each.rows]
                texts = [
                    kind if isinstance(kind, str) else kind(row) for kind, row in zip(kinds, each.rows, strict=True)
                ]
                assert all(texts), each.title


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", sorted(CASES))
def test_labels_that_kinds_ask_for_are_sensitive(operator: str) -> None:
    """What makes a row slow is looked for elsewhere among the dimensions: closure has to know what that is."""
    for seed in SEEDS:
        rules = Statement(graph_of(operator, seed)[0]).rules.values()
        for way in (way for rule in rules for way in rule.ways):
            if isinstance(way.form, Arranged) and isinstance(way.kind, Along | Among | Runs | Marked | Pieces):
                assert way.form.sensitive == counting(way.kind)
            else:
                assert isinstance(way.kind, str | Repeats)  # which neighbours alone look for


def counting(kind: Along | Among | Runs | Marked | Pieces) -> frozenset[str]:
    """The labels whose places a kind depends on."""
    if isinstance(kind, Along | Pieces):
        return frozenset({kind.label})
    return kind.reduced if isinstance(kind, Runs) else kind.labels


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LRN", "GridSample"])
def test_a_data_format_is_a_kind(operator: str) -> None:
    for seed in SEEDS:
        graph, _ = graph_of(operator, seed)
        (node,) = [node for node in graph.nodes if node.op == operator]
        rule = rule_of(Site(graph, node))
        assert str(rule.ways[0].kind).startswith("channels-first, ")


@pytest.mark.parametrize("operator", sorted(CASES))
def test_kinds_are_values(operator: str) -> None:
    """Two nodes that are alike have equal kinds, so that what is found for one serves the other."""
    for seed in SEEDS:
        graph, _ = graph_of(operator, seed)
        for node in graph.nodes:
            one, other = (rule_of(Site(graph, node)) for _ in range(2))
            assert [hash(way.kind) for way in one.ways] == [hash(way.kind) for way in other.ways]
            assert [way.kind for way in one.ways] == [way.kind for way in other.ways]


@pytest.mark.parametrize("operator", ["Pad", "Expand"])
def test_computed_sizes_beside_units(operator: str) -> None:
    """A computed vector gets entries for the dimensions of size 1 that a layout has beyond those of the source."""
    builder = GraphBuilder()
    x = builder.channels_last("MaxPool", builder.input(1, 2, 1, 3), shape=(1, 2, 1, 3), kernel_shape=(1, 1))
    flat = builder.reshape(x, 2, 3)
    sizes, shape = ([1, 0, 2, 1], (5, 4)) if operator == "Pad" else ([2, 3], (2, 3))
    count = len(sizes)
    zeros = builder.op(
        "Mul", builder.input(count, dtype="int64"), builder.constant(0, "int64"), shape=(count,), dtype="int64"
    )
    vector = builder.op("Add", zeros, builder.constant(sizes, "int64"), shape=(count,), dtype="int64")
    made = builder.reshape(builder.op(operator, flat, vector, shape=shape), 1, shape[0], 1, shape[1])
    y = builder.channels_last("MaxPool", made, shape=(1, shape[0], 1, shape[1]), kernel_shape=(1, 1))
    graph = builder.graph(y)
    data = feeds(graph)
    found = samples(Statement(graph), np.random.default_rng(0))
    operators = [[node.op for node in apply(assignment).nodes] for assignment in found]
    assert any("Concat" in each for each in operators)
    for assignment in found:
        check(graph, assignment, {}, data, run(graph, data))


@pytest.mark.parametrize("image", [(1, 2, 1, 3), (2, 3, 1, 1), (2, 1, 1, 3)])
def test_shape_beside_units(image: tuple[int, ...]) -> None:
    """The dimensions of size 1 that a layout has beyond those of the source are none of the sizes."""
    builder = GraphBuilder()
    x = builder.channels_last("MaxPool", builder.input(*image), shape=image, kernel_shape=(1, 1))
    graph = builder.graph(builder.op("Shape", builder.reshape(x, 2, 3), shape=(2,), dtype="int64"))
    found = samples(Statement(graph), np.random.default_rng(0))
    assert any("Gather" in [node.op for node in apply(assignment).nodes] for assignment in found)
    data = feeds(graph)
    for assignment in found:
        check(graph, assignment, {}, data, run(graph, data))


@pytest.mark.parametrize("computed", [False, True])
def test_filler_is_a_number(computed: bool) -> None:
    """What a Pad fills in has no dimensions, in whatever layout the rest is."""
    builder = GraphBuilder()
    x = builder.channels_last("MaxPool", builder.input(1, 2, 4, 3), shape=(1, 2, 4, 3), kernel_shape=(1, 1))
    sizes: Array = np.array([0, 1, 0, 0, 0, 0, 1, 2])
    pads = builder.input(8, dtype="int64") if computed else builder.constant(sizes, "int64")
    value = builder.reshape(builder.input(1))
    graph = builder.graph(builder.op("Pad", x, pads, value, shape=(1, 3, 5, 5)))
    for assignment in samples(Statement(graph), np.random.default_rng(0)):
        applied = apply(assignment)
        (node,) = [node for node in applied.nodes if node.op == "Pad"]
        assert applied.values[node.inputs[2]].shape == ()


@pytest.mark.parametrize(
    ("shape", "axes", "reduced"),
    [
        ((9, 2, 1), [1], [1, 2]),
        ((1, 1, 6, 5), [2], [0, 1, 2]),
        ((1, 6, 5), [2], [2]),
        ((6, 1, 5), [2], [1, 2]),
        ((6, 1, 5, 1), [0], [0]),
        ((1, 6, 1), [1], [0, 1, 2]),
        ((4, 5), [], []),
    ],
)
def test_dimensions_of_size_one_are_reduced_with_those_beside(
    shape: tuple[int, ...], axes: list[int], reduced: list[int]
) -> None:
    """So that runs of reduced dimensions, and of others, are as few as they can be."""
    b = GraphBuilder()
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    x = b.input(*shape)
    attributes = {"keepdims": 1, "noop_with_empty_axes": 1}
    graph = b.graph(b.op("ReduceSum", x, b.constant(axes, "int64"), shape=kept, **attributes))
    model = serialise(apply(assign(graph)))
    node = next(node for node in model.graph.node if node.op_type == "ReduceSum")
    written = next(each for each in model.graph.initializer if each.name == node.input[1])
    assert sorted(numpy_helper.to_array(written).tolist()) == reduced


@pytest.mark.parametrize("op", ["Pad", "Slice"])
def test_nothing_is_cut_off_a_scalar(op: str) -> None:
    """ONNX Runtime cuts and pads none, not even by nothing."""
    builder = GraphBuilder()
    x = builder.input(1, 1)
    given = [builder.constant(numbers, "int64") for numbers in ([[0] * 4] if op == "Pad" else [[], [], []])]
    graph = builder.graph(builder.op(op, x, *given, shape=(1, 1)))
    rule = rule_of(Site(graph, graph.nodes[0]))
    assert rule is not None
    (scalar,) = rule.rewrite(Row(((), ())), ((), ()))
    assert (scalar.op, scalar.inputs) == ("Identity", (0,))
    (whole,) = rule.rewrite(Row((((), ()), ((), ())), arrangement=((), ())), ((1, 1), (1, 1)))
    assert whole.op == op


INTEGERS: dict[str, Callable[[list[str], list[str], list[str]], list[str]]] = {
    "MatMulInteger": lambda operands, steps, zeros: [*operands, *zeros],
    "QLinearMatMul": lambda operands, steps, zeros: [
        *(operands[0], steps[0], zeros[0], operands[1], steps[1], zeros[1], steps[0], zeros[0])
    ],
    "com.microsoft:MatMulIntegerToFloat": lambda operands, steps, zeros: [*operands, *steps, *zeros],
}
"""The inputs of products of integers, by their operands, their steps and what these subtract."""


@pytest.mark.parametrize("known", [None, 0, 1])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("operator", INTEGERS)
def test_what_operands_subtract_follows_them(operator: str, batch: tuple[int, ...], known: int | None) -> None:
    """Steps and zero points change places with the operands of a product of integers, whichever of these is constant;
    so that takes no Transpose where both operands and the result come the other way round.
    """
    builder, random = GraphBuilder(), np.random.default_rng(0)
    matrices, perm = [(3, 5), (5, 4)], (*range(len(batch)), len(batch) + 1, len(batch))
    operands = []
    for side, (rows, columns) in enumerate(matrices):
        if side == known:
            operands.append(builder.constant(random.integers(0, 9, (rows, columns)), "uint8"))
        else:
            operands.append(builder.transpose(builder.input(*batch, columns, rows, dtype="uint8"), *perm))
    steps, zeros = [builder.constant(each) for each in (0.5, 0.25)], [builder.constant(at, "uint8") for at in (2, 7)]
    dtype = {"MatMulInteger": "int32", "QLinearMatMul": "uint8"}.get(operator, "float32")
    given = INTEGERS[operator](operands, steps, zeros)
    made = builder.transpose(own(builder, operator, *given, shape=(*batch, 3, 4), dtype=dtype), *perm)
    graph = builder.graph(made)
    data = feeds(graph)
    truth = run(graph, data)
    for assignment in samples(Statement(graph), np.random.default_rng(0)):
        check(graph, assignment, {}, data, truth)
    found = assign(graph, objective="min-transpose")
    check(graph, found, {}, data, truth)
    assert found.price.transposes == 0
