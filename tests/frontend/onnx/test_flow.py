"""If, Loop and Scan: layouts go through them, and what they compute stays the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import ConversionError, ModelError
from layoutsolve.proto.data_movement import moves
from layoutsolve.proto.scopes import graphs_of, nodes_of
from tests.frontend.onnx.test_random import run
from tests.random_flow import random_flow

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'


def nodes(graph: GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a graph and of those within it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in nodes(model.graph))


def converted(model: onnx.ModelProto, **options: object) -> onnx.ModelProto:
    found = layoutsolve.convert(model.SerializeToString(), **options).model  # type: ignore[arg-type]
    onnx.checker.check_model(found, full_check=True)
    return found


def alike(model: onnx.ModelProto, result: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Both compute the same, however far ONNX Runtime optimises the result."""
    for optimised in (False, True):
        for one, other in zip(run(model, feeds), run(result, feeds, optimised=optimised), strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            assert np.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.members(8)
@pytest.mark.parametrize("seed", range(24))
def test_results_stay(seed: int) -> None:
    writer, source = random_flow(seed, dynamic=seed % 3 == 0)
    result = converted(source, objective=("min-executed", "min-transpose")[seed % 2])
    assert moves(result).counts <= moves(source).counts
    rounds = operators(source)["QuantizeLinear"] > 0
    feeds = [writer.feeds(), {name: -data for name, data in writer.feeds(1).items()}]
    if seed % 3 == 0:
        feeds.append({name: data[:1] for name, data in writer.feeds(2).items()})
    for each in feeds:
        for optimised in (False, True)[: 1 if rounds else 2]:  # ONNX Runtime rounds elsewhere in the source
            truth, found = run(source, each)[0], run(result, each, optimised=optimised)[0]
            assert truth.shape == found.shape
            assert np.abs(truth - found).max() <= 1e-5 * np.abs(truth).max() + 0.09 * rounds


def test_few_transposes_are_left() -> None:
    """All are in pairs but for those that are between different neighbours in branches, turns, and around them."""
    sources = [random_flow(seed)[1] for seed in range(100, 108)]
    left = sum(moves(converted(source)).transposes for source in sources)
    assert left <= 0.25 * sum(moves(source).transposes for source in sources)


def text(source: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {source}")


IMAGE = "float[2, 3, 4, 5]"

TO, FRO = "Transpose<perm = [0, 2, 3, 1]>", "Transpose<perm = [0, 3, 1, 2]>"


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_that_is_always_taken(taken: bool) -> None:
    """It stands where the If was, and its result may be one of the model."""
    model = text(
        f"""g ({IMAGE} x) => ({IMAGE} y, {IMAGE} z) {{
            yes = Constant<value = bool {{{int(taken)}}}>() a = {TO}(x)
            b, y = If(yes) <then_branch = t () => (float[2, 4, 5, 3] r, {IMAGE} s) {{ r = Relu(a) s = Neg(x) }},
                           else_branch = e () => (float[2, 4, 5, 3] r, {IMAGE} s) {{ r = Tanh(a) s = Abs(x) }}>
            z = {FRO}(b) }}"""
    )
    result = converted(model)
    assert operators(result) == Counter(["Relu", "Neg"] if taken else ["Tanh", "Abs"])
    alike(model, result, {"x": image()})


def test_what_has_no_rank_stays_in_what_is_opened() -> None:
    """As an exporter writes what may drop a dimension, which depends on sizes that nothing is known of."""
    model = text(
        f"""g (float[n, 3, 4, m] x, bool c) => (float[a, b] y) {{
            y = If(c) <then_branch = t () => (float[a, b] r) {{
                one = Constant<value_int = 1>() last = Constant<value_ints = [3]>() size = Shape<start = 3>(x)
                moved = {TO}(x) neg = Neg(moved) back = {FRO}(neg)
                test = Equal(size, one) which = Squeeze(test)
                thin = If(which) <then_branch = t2 () => (float t3) {{ t3 = Squeeze(back, last) }},
                                  else_branch = e2 () => (float e3) {{ e3 = Identity(back) }}>
                sizes = Constant<value_ints = [2, -1]>() r = Reshape(thin, sizes) }},
              else_branch = e () => (float[a, b] r) {{ flat = Constant<value_ints = [2, -1]>() r = Reshape(x, flat) }}>
            }}"""
    )
    for node in nodes(model.graph):
        for attribute in node.attribute:
            for port in attribute.g.output if attribute.g.output and attribute.g.output[0].name in ("t3", "e3") else ():
                port.type.tensor_type.ClearField("shape")
    result = converted(model)
    found = operators(result)
    assert found["Transpose"] == 0 and found["If"] == 2
    for width in (1, 5):
        for test in (False, True):
            alike(model, result, {"x": image()[:, :, :, :width].copy(), "c": np.array(test)})


def test_certificates_hold(tmp_path: Path) -> None:
    """What moves in graphs that stay as they are is no part of the price."""
    model = text(
        f"""g (float[2, 3, 4, m] x) => (float[a, b] y, float[2, 3, 4, m] z) {{
            a = {TO}(x) b = Relu(a) z = {FRO}(b)
            one = Constant<value_int = 1>() last = Constant<value_ints = [3]>() size = Shape<start = 3>(x)
            test = Equal(size, one) which = Squeeze(test)
            thin = If(which) <then_branch = t () => (float t3) {{ r = {TO}(z) s = {FRO}(r) t3 = Squeeze(s, last) }},
                              else_branch = e () => (float e3) {{ e3 = Relu(z) }}>
            flat = Constant<value_ints = [2, -1]>() y = Reshape(thin, flat) }}"""
    )
    for attribute in model.graph.node[-3].attribute:
        attribute.g.output[0].type.tensor_type.ClearField("shape")
    source, target = model.SerializeToString(), tmp_path / "model.onnx"
    found = layoutsolve.convert(source)
    assert not found.kept and found.price.transposes == 0 and operators(found.model)["Transpose"] == 2
    found.save(target)
    checked = layoutsolve.check_certificate(source, target, layoutsolve.certify(source, found))
    assert [each.tier for each in checked.tiers if not each.proven] == [("reshapes",)] and not checked.copies


def test_siblings_and_neighbours_may_have_the_same_names() -> None:
    model = text(
        f"""g ({IMAGE} x, bool c) => ({IMAGE} y, {IMAGE} z) {{
            a = {TO}(x)
            b = If(c) <then_branch = t () => (float[2, 4, 5, 3] r) <float[3] w = {{1, 2, 3}}> {{ r = Mul(a, w) }},
                       else_branch = e () => (float[2, 4, 5, 3] r) <float[3] w = {{4, 5, 6}}> {{ r = Mul(a, w) }}>
            d = If(c) <then_branch = t () => (float[2, 4, 5, 3] r) <float[3] w = {{7, 8, 9}}> {{ r = Add(b, w) }},
                       else_branch = e () => (float[2, 4, 5, 3] r) <float w = {{2.5}}> {{ r = Add(b, w) }}>
            y = {FRO}(d) w = Relu(b) z = {FRO}(w) }}"""
    )
    result = converted(model)
    assert operators(result)["Transpose"] == 0
    for test in (False, True):
        alike(model, result, {"x": image(), "c": np.array(test)})


@pytest.mark.parametrize("trips", ["", "n"])
@pytest.mark.parametrize("first", ["", "c"])
def test_loops_that_count_or_ask(trips: str, first: str) -> None:
    """What a turn is told may be used or not; what is carried may be numbers of any type."""
    limit = "less = Less(total, most) on = And(less, go)" if first or not trips else "on = Identity(go)"
    model = text(
        f"""g ({IMAGE} x, int64 n, bool c) => ({IMAGE} y, int64 turns, float[k, 2, 3, 4, 5] each) {{
            start = {TO}(x) zero = Constant<value_int = 0>() most = Constant<value_int = 5>()
            last, turns, each = Loop({trips}, {first}, start, zero) <body = l
                (int64 i, bool go, float[2, 4, 5, 3] now, int64 sum)
                => (bool on, float[2, 4, 5, 3] next, int64 total, {IMAGE} seen) {{
                real = Cast<to = 1>(i) shifted = Add(now, real) next = Tanh(shifted) seen = {FRO}(shifted)
                total = Add(sum, i) {limit} }}>
            y = {FRO}(last) }}"""
    )
    result = converted(model)
    assert operators(result)["Transpose"] == 0
    for count in (0, 1, 3):
        for test in (False, True):
            alike(model, result, {"x": image(), "n": np.array(count, np.int64), "c": np.array(test)})


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_what_is_picked_in_each_turn_needs_no_view(axis: int) -> None:
    """A number that is computed picks an entry, whose dimension is gone: as arrays of tensors are read."""
    shape = [2, 4, 5, 3]
    left = [size for at, size in enumerate(shape) if at != axis]
    model = text(
        f"""g ({IMAGE} x, int64 n) => (float{left} y) {{
            t = {TO}(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
            none = Constant<value_float = 0.0>()
            empty = Constant<value_ints = {left}>() start = Expand(none, empty)
            last, y = Loop(n, , zero, start) <body = l (int64 i, bool go, int64 at, float{left} now)
                => (bool on, int64 after, float{left} next) {{
                on = Identity(go) after = Add(at, one)
                picked = Gather<axis = {axis}>(t, at) sum = Add(now, picked) next = Tanh(sum) }}>
            }}"""
    )
    result = converted(model)
    found = moves(result)
    assert (found.reshapes, operators(result)["Squeeze"], operators(result)["Unsqueeze"]) == (0, 0, 0)
    for count in range(3):
        alike(model, result, {"x": image(), "n": np.array(count, np.int64)})


def test_what_is_rounded_in_a_branch_stays_so_around_it() -> None:
    """A tensor that a branch alone rounds is one of real numbers where it is computed."""
    model = text(
        f"""g ({IMAGE} x, bool c) => (float[2, 60] y) <float s = {{0.1}}, int8 o = {{3}}> {{
            a = {TO}(x) b = Relu(a)
            t1 = If(c) <then_branch = t () => (float r) {{
                    q = QuantizeLinear(b, s, o) d = DequantizeLinear(q, s, o) m = Neg(d) r = {FRO}(m) }},
                        else_branch = e () => (float r) {{ f = Constant<value_ints = [2, -1]>() r = Reshape(x, f) }}>
            flat = Constant<value_ints = [2, -1]>() y = Reshape(t1, flat) }}"""
    )
    for known in (False, True):
        for attribute in () if known else model.graph.node[-3].attribute:
            attribute.g.output[0].type.tensor_type.ClearField("shape")
        result = converted(model)
        for test in (False, True):
            alike(model, result, {"x": image(), "c": np.array(test)})


def test_sparse_constants_within() -> None:
    model = text(
        f"""g ({IMAGE} x, bool c) => ({IMAGE} y) {{
            a = {TO}(x)
            b = If(c) <then_branch = t () => (float[2, 4, 5, 3] r) {{ r = Mul(a, w) }},
                       else_branch = e () => (float[2, 4, 5, 3] r) {{ r = Neg(a) }}>
            y = {FRO}(b) }}"""
    )
    values, indices = np.array([2.0, 3.0], np.float32), np.array([0, 2], np.int64)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices, "indices"), [3]
    )
    model.graph.node[1].attribute[0].g.sparse_initializer.append(sparse)
    result, x = converted(model), image()
    assert operators(result)["Transpose"] == 0
    for test, truth in ((True, x * np.array([2, 0, 3], np.float32)[:, None, None]), (False, -x)):
        assert np.array_equal(run(result, {"x": x, "c": np.array(test)})[0], truth)


def test_constants_deep_within_take_no_memory_for_each_level() -> None:
    """Graphs in graphs are copied with all that lies in them, so often that it stays in proportion to the file."""
    weights = numpy_helper.from_array(np.zeros((1 << 22,), np.float32), "w")
    inner = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y0"])], "g", [], [_port("y0")], [weights])
    for level in range(1, 20):
        other = helper.make_graph([helper.make_node("Neg", ["x"], [f"y{level}"])], "e", [], [_port(f"y{level}")])
        branch = helper.make_node("If", ["c"], [f"y{level}"], then_branch=inner, else_branch=other)
        other.node[0].output[0] = other.output[0].name = f"z{level}"
        inner = helper.make_graph([branch], "g", [], [_port(f"y{level}")])
    inner.input.extend([_port("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])])
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    result = converted(model)
    assert operators(result)["If"] == 19


def _port(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1 << 22])


@pytest.mark.parametrize("spoil", ["fewer", "more", "unnamed", "empty", "left out", "left out first"])
def test_nodes_that_are_none(spoil: str) -> None:
    model = text(f"g ({IMAGE} x, bool c) => ({IMAGE} y) {{ a = Add(x, x) y = Relu(a) }}")
    if spoil == "fewer":
        model.graph.node[0].input.pop()
    elif spoil == "more":
        model.graph.node[1].input.append("x")
    elif spoil == "unnamed":
        model.graph.input[1].name = ""
    elif spoil.startswith("left out"):
        model.graph.node[spoil == "left out"].input[0] = ""
    else:
        model.graph.node[0].op_type = "If"
        model.graph.node[0].input[:] = ["c"]
    with pytest.raises(ModelError, match=r"where (Add|If|Relu) has|no name|lacks|no graph|leaves out"):
        layoutsolve.convert(model.SerializeToString())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_concatenations_of_other_ranks(count: int) -> None:
    """They are none, whatever stands before them."""
    flat = "".join(f" f{number} = Flatten(x)" for number in range(count))
    names = ", ".join(f"f{number}" for number in range(count))
    source = text(f"g ({IMAGE} x) => (float[k, l, m, n] y) {{ a = Relu(x) {flat} y = Concat<axis = 3>(a, {names}) }}")
    with pytest.raises(ConversionError, match="rank"):
        layoutsolve.convert(source.SerializeToString())


def test_what_is_taken_back_leaves_nothing_behind() -> None:
    """A loop that has to stay as it stands reads real numbers stored in steps, and so does its body."""
    model = text(
        f"""g ({IMAGE} x) => ({IMAGE} y, float[k] z) <float s = {{0.1}}, int8 o = {{3}}> {{
            a = {TO}(x) q = QuantizeLinear(a, s, o) d = DequantizeLinear(q, s, o)
            n = Constant<value_int = 2>() axis = Constant<value_ints = [0]>() flat = Constant<value_ints = [-1]>()
            l = Loop(n, , d) <body = b (int64 i, bool go, float now) => (bool on, float next) {{
                on = Identity(go) more = Add(now, d) next = Unsqueeze(more, axis) }}>
            m = Loop(n, , d) <body = b (int64 j, bool go, float now) => (bool on, float next) {{
                on = Identity(go) next = Unsqueeze(now, axis) }}>
            sum = Add(l, m) z = Reshape(sum, flat) r = Neg(d) y = {FRO}(r) }}"""
    )
    for graph in (node.attribute[0].g for node in model.graph.node if node.op_type == "Loop"):
        for port in (graph.input[2], graph.output[1]):
            port.type.tensor_type.ClearField("shape")
    result = converted(model)
    assert operators(result)["Loop"] == 2
    alike(model, result, {"x": image()})


@pytest.mark.parametrize("seed", range(24))
def test_sizes_within_a_graph_that_are_told_wrongly(seed: int) -> None:
    """Runtimes do not ask for them, so that results are what they are without."""
    writer, model = random_flow(seed)
    random = np.random.default_rng(seed)
    for node in nodes_of(model.graph):
        for graph in graphs_of(node):
            for inner in graph.node:
                for name in inner.output if random.random() < 0.3 and not list(graphs_of(inner)) else ():
                    sizes = [int(size) for size in random.integers(1, 7, 4)]
                    graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes))
            for port in (*graph.input, *graph.output):
                for dim in port.type.tensor_type.shape.dim if random.random() < 0.2 else ():
                    dim.dim_value = int(random.integers(1, 7))
    feeds = writer.feeds()
    try:
        truth = run(model, feeds)[0]
    except Exception:  # ONNX Runtime's own classes: it refuses the model
        return
    result = run(layoutsolve.convert(model.SerializeToString()).model, feeds)[0]
    assert np.allclose(truth, result, atol=1e-4 * max(1, np.abs(truth).max()))


def test_concatenations_of_unknown_rank() -> None:
    """One of another one, along an axis that is counted from behind: they stay as they stand."""
    model = text(
        f"""g ({IMAGE} x, int64[k] s) => (float[l] y) {{
        a = Transpose<perm = [0, 2, 3, 1]>(x) b = Transpose<perm = [0, 3, 1, 2]>(a)
        r = Reshape(b, s) c = Concat<axis = -1>(r, r) d = Concat<axis = -1>(c, r) e = Concat<axis = -1>(d, c)
        flat = Constant<value_ints = [-1]>() y = Reshape(e, flat) }}"""
    )
    result = converted(model)
    alike(model, result, {"x": image(), "s": np.array([3, 8, 5], np.int64)})
    assert operators(result)["Concat"] == 3


@pytest.mark.parametrize("within", ["y = Reshape(x, s)", "r = Reshape(x, s) y = Sigmoid(r)", "y = Squeeze(x, s)"])
@pytest.mark.parametrize("stated", ["float[a, b]", "float[2, n]", "float[a, b, c]"])
def test_an_output_of_an_opened_branch_keeps_its_stated_type(within: str, stated: str) -> None:
    """The rank is known to nobody but to who wrote the file; an output without a type is no valid model."""
    source = text(
        f"g ({IMAGE} x, int64[count] s) => ({IMAGE} w, {stated} z)"
        f"{{ u = {TO}(x) v = Sigmoid(u) w = {FRO}(v) c = Constant<value_int: int = 1>() taken = Cast<to = 9>(c)"
        f" z = If(taken)<then_branch = t () => (y) {{ {within} }}, else_branch = e () => (x2) {{ x2 = Neg(x) }}> }}"
    )
    result = converted(source)
    assert not operators(result)["If"]
    assert result.graph.output[1].type == source.graph.output[1].type
