"""If, Loop and Scan as IF and WHILE, in LiteRT against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance import control, families
from tests.conformance.cases import Case
from tests.random_flow import random_flow
from tests.truth import litert

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
NUMBERS = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool")
NAMES = {"float32": "float"}


def agrees(model: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]], tolerance: float = 2e-5) -> list[str]:
    """Both formats compute the same, in plain kernels and with XNNPACK; the operators that are written."""
    source = model.SerializeToString()
    written = layoutsolve.convert(source, to="tflite").content("")
    truth = OnnxRuntime(source, level="none")
    for each in feeds:
        expected = truth.run(each)
        for delegate in (False, True):
            found = litert().run(written, [each[name] for name, _, _ in truth.inputs], delegate=delegate).results
            for one, other in zip(expected, found, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1, np.abs(one).max()))
    operators = [each for subgraph in parse(written).subgraphs for each in subgraph.operators]
    assert {each.version for each in operators if each.name == "DYNAMIC_UPDATE_SLICE"} <= {1}  # all of TensorFlow 2.17
    return [each.name for each in operators]


def text(source: str, dtype: str = "float32") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {source}".replace("TYPE", NAMES.get(dtype, dtype)))


def random(shape: Sequence[int], dtype: str) -> Array:
    values = np.random.default_rng(3).normal(size=shape) * 5
    return values > 0 if dtype == "bool" else values.astype(np.int8).astype(dtype)


@pytest.mark.parametrize("seed", range(10))
def test_random_flow(seed: int) -> None:
    writer, model = random_flow(seed)
    feeds = [writer.feeds(), {name: -data for name, data in writer.feeds(1).items()}]
    rounds = any(node.op_type == "QuantizeLinear" for node in model.graph.node) or "QuantizeLinear" in str(model)
    try:
        agrees(model, feeds, 0.09 if rounds else 2e-5)
    except UnsupportedError as error:
        assert all("other sizes" in gap.reason or "dynamic" in gap.reason for gap in error.gaps)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_branches_of_all_types(dtype: str) -> None:
    """They read what is around them, hand it on, give a constant, and one thing twice."""
    model = text(
        """g (bool c, TYPE[2, 3] x, TYPE[2, 3] z) => (TYPE[2, 3] y, TYPE[2, 3] v, TYPE[2, 3] w) {
            y, v, w = If(c)
              <then_branch = t () => (TYPE[2, 3] a, TYPE[2, 3] b, TYPE[2, 3] d)
                 { a = Identity(x) k = Constant<value_ints = [1, 0]>() b = Gather(x, k)
                   d = Identity(b) },
               else_branch = e () => (TYPE[2, 3] f, TYPE[2, 3] g, TYPE[2, 3] h)
                 { f = Identity(z) g = Identity(z) i = Constant<value = float[2, 3] {1, 0, 1, 0, 0, 1}>()
                   h = CastLike(i, x) }> }""",
        dtype,
    )
    given = {"x": random((2, 3), dtype), "z": random((3, 2), dtype).T.copy()}
    assert "IF" in agrees(model, [{"c": np.array(each), **given} for each in (False, True)])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_loops_of_all_types(dtype: str) -> None:
    """Two tensors change places in each turn, and one is collected."""
    model = text(
        """g (int64 n, TYPE[2, 3] x, TYPE[2, 3] z) => (TYPE[2, 3] v, TYPE[2, 3] w, TYPE[4, 2, 3] all) {
            none = Identity(z) t = Constant<value_int = 4>() yes = Constant<value = bool {1}>()
            a, b, all = Loop(t, yes, x, z)
              <body = l (int64 i, bool go, TYPE[2, 3] p, TYPE[2, 3] q)
                 => (bool on, TYPE[2, 3] r, TYPE[2, 3] s, TYPE[2, 3] k)
                 { on = Identity(go) r = Identity(q) s = Identity(p) k = Identity(p) }>
            v, w = Loop(n, yes, a, b)
              <body = m (int64 j, bool gone, TYPE[2, 3] pp, TYPE[2, 3] qq) => (bool ons, TYPE[2, 3] rr, TYPE[2, 3] ss)
                 { ons = Identity(gone) rr = Identity(qq) ss = Identity(pp) }> }""",
        dtype,
    )
    given = {"x": random((2, 3), dtype), "z": random((3, 2), dtype).T.copy()}
    found = agrees(model, [{"n": np.array(each), **given} for each in (0, 1, 2)])
    assert found.count("WHILE") == 2 and "DYNAMIC_UPDATE_SLICE" in found


@pytest.mark.parametrize("flow", ["branch", "loop"])
@pytest.mark.parametrize("shape", ["2,3,4", "N,3,4", "N,M,4", "N,3,K", "N,M,K"])
def test_what_passes_through_has_any_sizes(shape: str, flow: str) -> None:
    flows = {
        "branch": "y = If (c) <then_branch = t () => (a) { a = Identity(x) }, "
        "else_branch = e () => (b) { b = Neg(x) }>",
        "loop": "zero = Constant <value = int64[1] {2}> () turns = Squeeze(zero) "
        f"z, y = Loop (turns, , x, x) <body = b (int64 i, bool d, float[{shape}] p, float[{shape}] q) => (d2, p2, q2) "
        f"{{ d2 = Identity(d) p2 = Identity(p) q2 = Add(p, q) }}>",
    }
    model = text(
        f"f (float[{shape}] x) => (float[{shape}] y) {{ s = ReduceSum <keepdims = 0> (x) "
        f"o = Constant <value = float[1] {{0}}> () k = Squeeze(o) c = Greater(s, k) {flows[flow]} }}"
    )
    sizes = [[int(each) if each.isdigit() else size for each in shape.split(",")] for size in (2, 5)]
    agrees(model, [{"x": sign * random(each, "float32")} for each in sizes for sign in (1, -1)])


def test_a_loop_that_ends_by_a_condition() -> None:
    """There may be no turn at all, and the number of the turn is read."""
    model = text(
        """g (float[2, 3] x, bool first) => (float[2, 3] y, int64 turns) {
            zero = Constant<value_int = 0>()
            y, turns = Loop("", first, x, zero)
              <body = l (int64 i, bool go, float[2, 3] a, int64 last) => (bool on, float[2, 3] b, int64 now)
                 { two = Constant<value_float = 2.0>() b = Mul(a, two) now = Add(i, last) m = ReduceMax<keepdims = 0>(b)
                   limit = Constant<value_float = 40.0>() on = Less(m, limit) }> }""".replace('""', "")
    )
    feeds = [{"x": np.full((2, 3), 1.5, np.float32), "first": np.array(each)} for each in (False, True)]
    agrees(model, feeds)


@pytest.mark.parametrize("ways", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scans_from_either_end(ways: tuple[int, int]) -> None:
    model = text(
        f"""g (float[2, 3] start, float[3, 5, 2] x) => (float[2, 3] end, float[2, 5, 3] all) {{
            end, all = Scan(start, x)
              <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [{ways[0]}],
               scan_output_axes = [1], scan_output_directions = [{ways[1]}],
               body = l (float[2, 3] a, float[3, 2] b) => (float[2, 3] c, float[2, 3] d)
                 {{ t = Transpose<perm = [1, 0]>(b) s = Mul(a, start) c = Add(s, t) d = Tanh(c) }}> }}"""
    )
    given = {"start": random((2, 3), "float32") / 8, "x": random((3, 5, 2), "float32")}
    assert "GATHER" in agrees(model, [given])


CONTROL = [case for case in families.every_case() if case.operator in ("IF", "WHILE")]


@pytest.mark.parametrize("case", CONTROL[::2], ids=lambda case: case.name)
def test_control_flow_of_tflite_comes_back(case: Case) -> None:
    """By way of ONNX they are the same operators."""
    model = case.make()
    source = layoutsolve.convert(model.source, target="portable").model
    try:
        written = layoutsolve.convert(source, to="tflite").content("")
    except UnsupportedError as error:
        assert "other sizes" in str(error)
        return
    truth = litert().run(model.source, list(model.inputs)).results
    found = litert().run(written, list(model.inputs)).results
    for one, other in zip(truth, found, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=2e-5, atol=2e-5)


def test_branches_of_a_source_are_written_anew_in_other_layouts() -> None:
    """Those of the source that nothing runs any more are gone."""
    builder = control.Builder()
    condition = builder.input("c", (), "bool")
    x = builder.input("x", (1, 2, 3, 4))
    first, last = (builder.constant(f"p{n}", np.array(p, np.int32)) for n, p in enumerate(([0, 2, 3, 1], [0, 3, 1, 2])))
    moved = builder.tensor("moved", (1, 3, 4, 2))
    builder.operator("TRANSPOSE", [x, first], [moved], {})
    given = builder.tensor("given", (1, 3, 4, 2))
    builder.operator("IF", [condition, moved], [given], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    y = builder.tensor("y", (1, 2, 3, 4))
    builder.operator("TRANSPOSE", [given, last], [y], {})
    operand = control.Operand(np.zeros((1, 3, 4, 2), np.float32))
    for name in ("TANH", "NEG"):
        control.subgraph(builder, lambda part, ends, name=name: [control.unary(name, part, ends[0])], [operand])  # type: ignore[misc]
    source = builder.finish(y)
    found = layoutsolve.convert(source, to="tflite")
    assert not found.kept and sorted(found.operators) == ["IF", "NEG", "TANH"]  # type: ignore[attr-defined]
    assert len(parse(found.content("")).subgraphs) == 3
    data = random((1, 2, 3, 4), "float32")
    for taken in (False, True):
        one, other = (litert().run(each, [np.array(taken), data]).results[0] for each in (source, found.content("")))
        np.testing.assert_array_equal(one, other)


def test_what_changes_its_size_is_refused() -> None:
    model = text(
        """g (float[2, 3] x) => (float[n, 3] y) {
            t = Constant<value_int = 4>() yes = Constant<value = bool {1}>()
            y = Loop(t, yes, x) <body = l (int64 i, bool go, float[m, 3] a) => (bool on, float[k, 3] b)
                 { on = Identity(go) b = Concat<axis = 0>(a, x) }> }"""
    )
    with pytest.raises(
        UnsupportedError, match=r"operator . Loop .*what it carries has other sizes from iteration to iteration"
    ):
        layoutsolve.convert(model, to="tflite")
