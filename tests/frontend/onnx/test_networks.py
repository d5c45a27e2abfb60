"""Networks as packages ship them and as ONNX Runtime's optimiser writes them, made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import layoutsolve
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.proto.data_movement import moves
from layoutsolve.verification.runtimes import Level, optimised
from tests.frontend.onnx.test_random import run
from tests.random_flow import random_flow
from tests.random_onnx import random_model

HIDDEN, CHANNELS = 8, 6

NUMBERS = {"zero": 0.0, "half": 0.5, "three": 3.0, "six": 6.0}


def detector(half: bool, branch: bool, opset: int) -> onnx.ModelProto:
    """A detector of speech: a spectrum by a convolution, an LSTM whose two states are picked from one tensor and joined
    again, and a dimension that a branch drops where its size is 1. Weights may be stored as half as many bytes.
    """
    random = np.random.default_rng(0)
    kept = np.float16 if half else np.float32
    fixed = {
        "basis": random.normal(size=(CHANNELS, 1, 16)).astype(kept),
        "w": random.normal(size=(1, 4 * HIDDEN, CHANNELS)).astype(np.float32),
        "r": random.normal(size=(1, 4 * HIDDEN, HIDDEN)).astype(np.float32),
        "v": random.normal(size=(1, HIDDEN, 1)).astype(np.float32),
        "first": np.array(0),
        "second": np.array(1),
        "none": np.array([0]),
        "one": np.array([1]),
        "two": np.array(2.0, np.float32),
        "single": np.array(1),
        "bounds": np.array([0, 4, 0, 4]),
    }
    lines = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[batch, n] x, float[2, batch, {HIDDEN}] state)
    => (float[steps, batch, 1] y, float[2, batch, {HIDDEN}] after) {{
        padded = Pad<mode = "reflect">(x, bounds)
        line = Unsqueeze(padded, one)
        {"basis32 = Cast<to = 1>(basis)" if half else "basis32 = Identity(basis)"}
        wave = Conv<strides = [4]>(line, basis32)
        power = Pow(wave, two)
        spectrum = Sqrt(power)
        in_turn = Transpose<perm = [2, 0, 1]>(spectrum)
        h2 = Gather<axis = 0>(state, first)
        c2 = Gather<axis = 0>(state, second)
        h = Unsqueeze(h2, none)
        c = Unsqueeze(c2, none)
        all, last, cell = LSTM<hidden_size = {HIDDEN}>(in_turn, w, r, , , h, c)
        out = Squeeze(all, one)
        shape = Shape(last)
        directions = Gather(shape, first)
        test = Equal(directions, single)
        {_picked() if branch else "h3 = Squeeze(last, none) c3 = Squeeze(cell, none)"}
        h4 = Unsqueeze(h3, none)
        c4 = Unsqueeze(c3, none)
        after = Concat<axis = 0>(h4, c4)
        y = MatMul(out, v)
    }}"""
    model: onnx.ModelProto = onnx.parser.parse_model(lines)
    model.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in fixed.items())
    return model


def _picked() -> str:
    branches = [
        f"""{x} = If(test) <then_branch = t{x} () => (float[batch, {HIDDEN}] a{x}) {{ a{x} = Squeeze({y}, none) }},
                           else_branch = e{x} () => (float[batch, {HIDDEN}] b{x})
                                         {{ b{x} = ReduceSum<keepdims = 0>({y}, none) }}>"""
        for x, y in (("h3", "last"), ("c3", "cell"))
    ]
    return "\n".join(branches)


def test_a_detector_of_speech() -> None:
    """Its results stay at every size, and what is picked, dropped and joined again takes fewer Reshapes."""
    model = detector(half=True, branch=True, opset=21)
    found = layoutsolve.convert(model.SerializeToString()).model
    before, after = moves(model), moves(found)
    assert after.transposes <= before.transposes and after.reshapes < before.reshapes
    for batch, count in ((1, 32), (3, 64), (2, 17)):
        random = np.random.default_rng(count)
        feeds = {"x": random.normal(size=(batch, count)).astype(np.float32)}
        feeds["state"] = random.normal(size=(2, batch, HIDDEN)).astype(np.float32)
        for optimise in (False, True):
            truth, result = (run(each, feeds, optimised=optimise) for each in (model, found))
            assert all(np.allclose(*pair, atol=1e-5) for pair in zip(truth, result, strict=True))
    assert layoutsolve.verify(model.SerializeToString(), layoutsolve.convert(model.SerializeToString())).passed


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(24))
def test_what_onnx_runtime_has_optimised(seed: int, tmp_path: Path) -> None:
    """With its own operators, as it writes them at each level: results stay, and nothing is added, or executed."""
    writer, source = (random_flow if seed % 3 == 0 else random_model)(seed, dynamic=seed % 2 == 0)
    path = tmp_path / "model.onnx"
    onnx.save(source, path)
    level: Level = ("basic", "extended", "all")[seed % 3]  # type: ignore[assignment]
    model = optimised(path, level)
    feeds = writer.feeds()
    try:
        truth = run(model, feeds)[0]
    except Exception:  # ONNX Runtime's own classes: of graphs within graphs it writes some that it refuses
        pytest.skip("ONNX Runtime refuses what it has written")
    found = layoutsolve.convert(model.SerializeToString()).model
    left = (executed(optimised(each.SerializeToString())).transposes for each in (found, model))
    assert moves(found).counts <= moves(model).counts or next(left) <= next(left)
    result = run(found, feeds)[0]
    steps = 0.03 if any(node.op_type == "QuantizeLinear" for node in source.graph.node) else 0
    assert np.abs(truth - result).max() <= 1e-5 * max(1, np.abs(truth).max()) + 3 * steps


def recogniser(seed: int, height: str | int, transposed: bool) -> onnx.ModelProto:
    """Convolutions with an affine layer before and behind each hard swish, which are written out in one of the ways
    that converters have; their results channels-last, twice, or as they are.
    """
    random = np.random.default_rng(seed)
    fixed = {name: np.full([1] * int(random.integers(2)), size, np.float32) for name, size in NUMBERS.items()}
    lines, x, before = [], "image", 3
    for number in range(3):
        fixed[f"w{number}"] = random.normal(size=(16, before, 3, 3)).astype(np.float32)
        lines.append(f"c{number} = Conv<pads = [1, 1, 1, 1]>({x}, w{number})")
        lines.append(f"m{number} = Mul(half, c{number}) a{number} = Add(m{number}, half)")
        lines.append(f"s{number} = Add(a{number}, three) r{number} = Clip(s{number}, zero, six)")
        if seed % 2:
            lines.append(f"p{number} = Mul(a{number}, r{number}) h{number} = Div(p{number}, six)")
        else:
            lines.append(f"q{number} = Div(r{number}, six) h{number} = Mul(q{number}, a{number})")
        lines.append(f"n{number} = Mul(h{number}, half) b{number} = Add(half, n{number})")
        x, before = f"b{number}", 16
    last = "y = Transpose<perm = [0, 3, 1, 2]>(last)" if transposed else "y = Identity(last)"
    model: onnx.ModelProto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[1, 3, {height}, 8] image) => (float[{"1, 16, h, w" if transposed else "1, h, w, 16"}] y) {{
            {" ".join(lines)} last = Transpose<perm = [0, 2, 3, 1]>({x}) {last} }}"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in fixed.items())
    return model


@pytest.mark.parametrize("height", [6, "rows"])
@pytest.mark.parametrize("seed", range(6))
def test_affine_layers_and_hard_swishes(seed: int, height: str | int) -> None:
    """They are nothing but convolutions and activations in ONNX Runtime, with the same results."""
    model = recogniser(seed, height, transposed=True)
    found = layoutsolve.convert(model.SerializeToString()).model
    assert moves(found).counts == (0, 0)
    for rows in (6,) if height == 6 else (3, 6):
        feeds = {"image": np.random.default_rng(seed).normal(size=(1, 3, rows, 8)).astype(np.float32)}
        for optimise in (False, True):
            truth, result = (run(each, feeds, optimised=optimise)[0] for each in (model, found))
            assert np.abs(truth - result).max() <= 2e-6 * np.abs(truth).max()
    left = {node.op_type for node in optimised(found.SerializeToString()).graph.node}
    assert not left & {"Add", "Clip", "Div", "Mul"}


def normalised(opset: int, affine: bool, power: bool) -> onnx.ModelProto:
    """Convolutions with layer normalisations over channels, which are written out, each between Transposes of its own,
    of which those between the first and a product cancel each other.
    """
    random = np.random.default_rng(opset)
    fixed = {"two": np.array(2.0, np.float32), "epsilon": np.array(1e-5, np.float32), "last": np.array([-1])}
    axes, behind = ("<axes = [-1]>", "") if opset < 18 else ("", ", last")
    lines, x = list[str](), "image"
    for number in range(2):
        fixed[f"w{number}"] = random.normal(size=(8, 8, 3, 3)).astype(np.float32)
        fixed[f"g{number}"], fixed[f"s{number}"] = random.normal(size=(2, 8)).astype(np.float32)
        fixed[f"p{number}"] = random.normal(size=(8, 8)).astype(np.float32)
        lines += [
            f"c{number} = Conv<pads = [1, 1, 1, 1]>({x}, w{number})",
            f"t{number} = Transpose<perm = [0, 2, 3, 1]>(c{number})",
            f"m{number} = ReduceMean{axes}(t{number}{behind})",
            f"d{number} = Sub(t{number}, m{number})",
            f"q{number} = Pow(d{number}, two)" if power else f"q{number} = Mul(d{number}, d{number})",
            f"v{number} = ReduceMean{axes}(q{number}{behind})",
            f"e{number} = Add(v{number}, epsilon) r{number} = Sqrt(e{number}) n{number} = Div(d{number}, r{number})",
            f"h{number} = Mul(n{number}, g{number}) a{number} = Add(h{number}, s{number})"
            if affine
            else f"a{number} = Identity(n{number})",
            f"first{number} = Transpose<perm = [0, 3, 1, 2]>(a{number})",
            f"again{number} = Transpose<perm = [0, 2, 3, 1]>(first{number})",
            f"o{number} = MatMul(again{number}, p{number})",
            f"u{number} = Transpose<perm = [0, 3, 1, 2]>(o{number})",
        ]
        x = f"u{number}"
    model: onnx.ModelProto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[batch, 8, 6, 5] image) => (float[batch, 8, 6, 5] y) {{ {" ".join(lines)} y = Relu({x}) }}"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in fixed.items())
    return model


@pytest.mark.members(10)
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
def test_normalisations_stay_along_the_innermost_dimension(opset: int, affine: bool, power: bool) -> None:
    """They are one kernel there, in ONNX Runtime as well, and several of many Transposes' time elsewhere."""
    model = normalised(opset, affine, power)
    found = layoutsolve.convert(model.SerializeToString()).model
    assert moves(found).transposes <= 4  # of eight
    kinds = [node.op_type for node in found.graph.node]
    assert kinds.count("LayerNormalization") == 2 and not {"Sqrt", "Pow"} & set(kinds)
    for batch in (1, 2):
        feeds = {"image": np.random.default_rng(opset).normal(size=(batch, 8, 6, 5)).astype(np.float32)}
        for optimise in (False, True):
            truth, result = (run(each, feeds, optimised=optimise)[0] for each in (model, found))
            assert np.abs(truth - result).max() <= 2e-6 * np.ptp(truth)


def test_what_has_no_layouts_stays_as_it_is() -> None:
    """However its activations are written."""
    model = recogniser(0, 6, transposed=False)
    kept = layoutsolve.convert(model.SerializeToString()).model
    assert [node.op_type for node in kept.graph.node] == [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("weights", ["right", "left", "both"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_products_with_vectors(seed: int, first: bool, weights: str) -> None:
    """A Transpose before one is not made part of it, which kernels get wrong: results are the same at all levels."""
    random = np.random.default_rng(seed)
    batch, rows, columns, middle = (int(size) for size in random.integers(2, 6, 4))
    right = weights != "left"
    turned = "t = Transpose<perm = [0, 2, 1]>(p)" if right else "t = Identity(p)"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{batch}, {rows}, {columns}] x) => (float[n, m] y) {{
            {"p = MatMul(x, w)" if right else "p = MatMul(a, x)"} {turned} s = Add(t, c)
            {"r = MatMul(b, s)" if weights == "both" else "r = Identity(s)"}
            y = MatMul({"v, r" if first else "r, v"}) }}"""
    )
    height, width = rows if weights == "both" else middle, rows if right else columns
    shapes = {"w": (columns, middle), "a": (middle, rows), "b": (height, middle), "c": (1,)}
    shapes["v"] = (height if first else width,)
    fixed = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in fixed.items())
    found = layoutsolve.convert(model.SerializeToString()).model
    feeds = {"x": random.normal(size=(batch, rows, columns)).astype(np.float32)}
    truth = run(model, feeds, optimised=False)[0]
    for optimise in (False, True):
        np.testing.assert_allclose(run(found, feeds, optimised=optimise)[0], truth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_what_is_picked_whole_is_another_name(axis: int) -> None:
    """All of a dimension, one after the other: layouts go past it, and it is not written; in another order it stays."""
    shape, line = (2, 3, 5), (2, 3, 5)[axis]
    for indices in (np.arange(line), np.arange(line)[::-1]):
        nodes = [
            onnx.helper.make_node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
            onnx.helper.make_node("Gather", ["a", "i"], ["b"], axis=(axis % 3 + 1) % 3),
            onnx.helper.make_node("Transpose", ["b"], ["y"], perm=[1, 2, 0]),
        ]
        ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
        kept = [numpy_helper.from_array(indices.astype(np.int64).copy(), "i")]
        graph = onnx.helper.make_graph(nodes, "picked", ends[:1], ends[1:], kept)
        source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
        result = layoutsolve.convert(source.SerializeToString()).model
        assert moves(result).transposes == 0 or indices[0] != 0  # along the innermost dimension it takes longer
        assert sum(node.op_type == "Gather" for node in result.graph.node) == (indices[0] != 0)
        feeds = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
        np.testing.assert_array_equal(run(result, feeds)[0], run(source, feeds)[0])


@pytest.mark.parametrize(("tokens", "heads", "each"), [(32, 4, 16), (64, 2, 32), (48, 3, 16)])
def test_reshapes_are_worth_bytes_that_are_not_moved(tokens: int, heads: int, each: int) -> None:
    """Queries, keys and values of one product, cut behind the Transpose by heads as DeBERTa's exports do it: as many
    Transposes of parts of it and a Reshape more for each layer, of which ONNX Runtime executes fewer.
    """
    random, width = np.random.default_rng(heads), heads * each
    kept = {
        "w": random.normal(size=(width, 3 * width)).astype(np.float32) / width,
        "c": random.normal(size=(1, heads, 1, each)).astype(np.float32),
        "split": np.array([1, tokens, heads, 3 * each]),
        "flat": np.array([1, tokens, width]),
    }
    make = onnx.helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["a"]),
        make("Reshape", ["a", "split"], ["b"]),
        make("Transpose", ["b"], ["d"], perm=[0, 2, 1, 3]),
        make("Split", ["d"], ["q", "k", "v"], axis=3, num_outputs=3),
        make("Add", ["q", "c"], ["e"]),
        make("Add", ["v", "c"], ["f"]),
        make("Transpose", ["k"], ["g"], perm=[0, 1, 3, 2]),
        make("MatMul", ["e", "g"], ["h"]),
        make("Softmax", ["h"], ["i"], axis=-1),
        make("MatMul", ["i", "f"], ["j"]),
        make("Transpose", ["j"], ["l"], perm=[0, 2, 1, 3]),
        make("Reshape", ["l", "flat"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, tokens, width)) for name in ("x", "y")]
    initializers = [numpy_helper.from_array(data, name) for name, data in kept.items()]
    graph = onnx.helper.make_graph(nodes, "heads", ends[:1], ends[1:], initializers)
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(source.SerializeToString())
    left, before = (executed(optimised(model.SerializeToString())).transposes for model in (found.model, source))
    assert not found.kept
    assert left < before
    assert moves(found.model).transposes <= moves(source).transposes
    feeds = {"x": random.normal(size=(1, tokens, width)).astype(np.float32)}
    np.testing.assert_allclose(run(found.model, feeds)[0], run(source, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_blocks_that_are_picked_as_a_grid_are_views(seed: int) -> None:
    """As exporters write an unfold whose blocks do not overlap, behind a Pad by nothing: by the grid's order or across
    it, as Transposes move them. Where something else reads it across, it stays picked.
    """
    random = np.random.default_rng(seed)
    counts, blocks = random.integers(2, 5, 2).tolist(), random.integers(2, 4, 2).tolist()
    rest = ["Relu"] if seed % 2 else []
    shape, grids = (1, 3, *(count * block for count, block in zip(counts, blocks, strict=True))), []
    for axis, count, block in zip((2, 4), counts, blocks, strict=True):
        grid = np.arange(count * block).reshape(count, block)
        grids.append(grid if seed == 4 == axis else grid.T.copy())
    picked = "g" if rest else "t"
    nodes = [
        onnx.helper.make_node("Pad", ["x", "pads"], ["p"]),
        onnx.helper.make_node("Gather", ["p", "i"], ["f"], axis=2),
        onnx.helper.make_node("Gather", ["f", "j"], ["g"], axis=4),
        onnx.helper.make_node("Transpose", ["g"], ["t"], perm=[0, 1, 2, 4, 3, 5]),
        *(onnx.helper.make_node(op, [picked], ["r"]) for op in rest),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)
        for name, sizes in (("x", shape), ("t", None), ("r", None))
    ]
    kept = dict(zip(("pads", "i", "j"), (np.zeros(8, np.int64), *grids), strict=True))
    initializers = [numpy_helper.from_array(data, name) for name, data in kept.items()]
    graph = onnx.helper.make_graph(nodes, "blocks", ends[:1], ends[1 : 2 + len(rest)], initializers)
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    result = layoutsolve.convert(source.SerializeToString()).model
    kinds = [node.op_type for node in result.graph.node]
    assert kinds.count("Transpose") <= (1 if rest else 2)  # two of blocks rather than one of single elements
    assert kinds.count("Gather") == (2 if rest else 0)
    assert "Conv" not in kinds
    feeds = {"x": random.normal(size=shape).astype(np.float32)}
    for one, other in zip(run(result, feeds), run(source, feeds), strict=True):
        np.testing.assert_array_equal(one, other)
