"""What cannot be compared is neither right nor wrong; indices that are drawn are in range."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification import onnx_source
from layoutsolve.verification.input_sampling import DISTRIBUTIONS, Limits, drawn, limits
from layoutsolve.verification.output_accuracy import MOST
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.undefined_results import undefined
from tests.builder import Builder


def gathering(shift: int = 0, rows: int = 2) -> bytes:
    """Rows of a table by indices that are given, and moved by a number."""
    build = Builder()
    index = build.input("index", (5,), "int32")
    table = build.constant("table", np.arange(rows * 3, dtype=np.float32).reshape(rows, 3))
    y = build.tensor("y", (5, 3))
    place = index
    if shift:
        place = build.tensor("place", (5,), "int32")
        build.operator("ADD", [index, build.constant("shift", np.array([shift], np.int32))], [place], {})
    build.operator("GATHER", [table, place], [y], {"axis": 0})
    return build.finish(y)


def test_what_litert_refuses_is_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is written, the verdict says why, and the exit code is its own: alone, as JSON, and among others."""
    for name, source in (("bad", gathering(shift=1000)), ("good", gathering())):
        (tmp_path / f"{name}.tflite").write_bytes(source)
    bad, output = tmp_path / "bad.tflite", tmp_path / "bad.onnx"
    found = layoutsolve.verify(bad, layoutsolve.convert(bad))
    assert (found.verdict, found.passed, found.agrees, found.code) == ("not verified", False, False, 4)
    assert main([str(bad), "--verify"]) == 4 and output.exists()
    assert "not verified: LiteRT refuses this model: " in capsys.readouterr().out
    assert main([str(bad), "--verify", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)["verified"]
    assert told["verdict"] == "not verified" and told["refusal"].startswith("LiteRT refuses")
    assert main([str(tmp_path), "--verify", "-o", str(tmp_path / "out")]) == 4
    table = capsys.readouterr().out
    assert "2 models: 2 converted, 1 not verified" in table and (tmp_path / "out" / "bad.onnx").exists()
    page = tmp_path / "page.html"
    assert main([str(bad), "--verify", "--report", str(page)]) == 4
    assert "not verified: LiteRT refuses" in page.read_text()


def test_a_result_that_does_not_run_is_wrong() -> None:
    source = gathering()
    conversion = layoutsolve.convert(source)
    node = next(each for each in conversion.model.graph.node if each.op_type == "Gather")
    node.op_type = "NoSuchOperator"
    found = layoutsolve.verify(source, conversion)
    assert found.verdict == "FAIL" and "ONNX Runtime refuses" in str(found) and found.code == 3


def indexed(name: str) -> bytes:
    """An operator that reads an index, whose range is small."""
    build = Builder()
    data = build.constant("data", np.arange(12, dtype=np.float32).reshape(3, 4))
    floats = build.input("floats", (3, 4))
    if name == "EMBEDDING_LOOKUP":
        index, y = build.input("index", (5,), "int32"), build.tensor("y", (5, 4))
        build.operator(name, [index, data], [y])
    elif name == "GATHER_ND":
        index, y = build.input("index", (5, 2), "int32"), build.tensor("y", (5,))
        build.operator(name, [data, index], [y])
    elif name == "SLICE":
        index, y = build.input("index", (2,), "int32"), build.tensor("y", (2, 4))
        build.operator(name, [data, index, build.constant("size", np.array([2, 4], np.int32))], [y])
    elif name == "RESHAPE":
        index, y = build.input("index", (2,), "int32"), build.tensor("y", (3, 4), signature=(-1, -1))
        build.operator(name, [data, index], [y])
    else:
        index, y = build.input("index", (5,), "int32"), build.tensor("y", (5, 4))
        wide, narrow = build.tensor("wide", (1, 5), "int32"), build.tensor("narrow", (5,), "int32")
        for read, made, shape in ((index, wide, [1, 5]), (wide, narrow, [5])):
            size = build.constant(f"size{made}", np.array(shape, np.int32))
            build.operator("RESHAPE", [read, size], [made], {"newShape": shape})
        build.operator("GATHER", [data, narrow], [y], {"axis": 0})
    z = build.tensor("z", (3, 4))
    build.operator("NEG", [floats], [z])
    return build.finish(y, z)


@pytest.mark.parametrize("name", ["EMBEDDING_LOOKUP", "GATHER_ND", "SLICE", "GATHER behind RESHAPE"])
def test_indices_are_in_range(name: str) -> None:
    source = indexed(name)
    found = layoutsolve.verify(source, layoutsolve.convert(source))
    assert found.passed and found.distributions == DISTRIBUTIONS and found.samples == MOST


def test_limits_of_inputs() -> None:
    (index,) = limits(parse(gathering(rows=700)))
    assert index == Limits(0, 699)
    several = np.concatenate([drawn("int64", (50,), np.random.default_rng(k), k, index) for k in range(4)])
    assert several.min() >= 0 and 3 < several.max() <= 699


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 4), (0, 2)])
@pytest.mark.parametrize("sample", range(len(DISTRIBUTIONS)))
def test_what_is_drawn(dtype: str, shape: tuple[int, ...], sample: int) -> None:
    found = drawn(dtype, shape, np.random.default_rng(0), sample, Limits())
    assert isinstance(found, np.ndarray) and found.dtype == dtype and found.shape == shape
    np.testing.assert_array_equal(found, drawn(dtype, shape, np.random.default_rng(0), sample, Limits()))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_shifts_are_within_the_width(dtype: str) -> None:
    build = Builder()
    y = build.tensor("y", (4, 16), dtype)
    build.operator("STABLEHLO_SHIFT_LEFT", [build.input(name, (4, 16), dtype) for name in ("a", "b")], [y])
    source = build.finish(y)
    found = layoutsolve.verify(source, layoutsolve.convert(source))
    assert found.verdict == "pass" or "LiteRT refuses" in found.refusal, found


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_sources_with_random_numbers(op: str) -> None:
    """A source that gives other numbers each time is no reference for a result that gives others."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] x) => (float[4, 3, 2] y, float[2, 3, 4] z) {{
        p = Sigmoid(x) r = {op}(p) t = Transpose<perm = [2, 1, 0]>(r) y = Neg(t) z = Relu(x) }}"""
    source, other = (onnx.parser.parse_model(each).SerializeToString() for each in (text, text.replace("Neg", "Exp")))
    with pytest.raises(RefusedError, match="another 'y' each time") as raised:
        onnx_source.verify(source, other)
    assert not raised.value.result


def test_what_runs_neither_before_nor_after_says_nothing_of_the_result() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "nobody" : 1]> g (float[2, 3] x) => (float[2, 3] y) '
        "{ y = nobody.Nothing(x) }"
    )
    with pytest.raises(RefusedError) as raised:
        onnx_source.verify(model.SerializeToString(), model.SerializeToString())
    assert not raised.value.result


def test_sizes_with_which_litert_gives_no_numbers() -> None:
    """A product of rows that are longer than the data has no rows in LiteRT, and their mean is none."""
    build = Builder()
    x = build.input("x", (1, 1), signature=(1, -1))
    rows, y = build.tensor("rows", (1, 3), signature=(-1, 3)), build.tensor("y", (3,))
    weights = build.constant("weights", np.ones((3, 10_000), np.float32))
    build.operator("FULLY_CONNECTED", [x, weights, -1], [rows], {})
    build.operator("MEAN", [rows, build.constant("axis", np.array([0], np.int32))], [y], {"keep_dims": False})
    source = build.finish(y)
    found = layoutsolve.verify(source, layoutsolve.convert(source))
    assert found.verdict == "not verified" and "no numbers" in found.refusal
    known = {"x": np.ones((1, 1, 20_000), np.float32)}
    assert layoutsolve.verify(source, layoutsolve.convert(source), data=known).verdict == "pass"


@pytest.mark.parametrize("known", ["given", "constant", "unknown"])
def test_of_equal_boxes_any_may_be_chosen(known: str) -> None:
    """Those of one score, and those without an area; of boxes that nobody knows nothing is said."""
    apart = np.array([[0, 0, 1, 1], [0, 2, 1, 3], [2, 0, 3, 1]], np.float32)
    flat = [np.where((np.arange(3) == 1)[:, None], np.float32(row), apart) for row in ([0, 2, 0, 3], [0, 2, 1, 2])]
    different, equal = np.array([0.5, 0.7, 0.6], np.float32), np.array([0.5, 0.7, 0.5], np.float32)
    ways = [(apart, different, False), (apart, equal, True), *((boxes, different, True) for boxes in flat)]
    for boxes, scores, tied in ways:
        builder = Builder()
        constant = {name: each for name, each in (("b", boxes), ("s", scores)) if known == "constant"}
        ends = [builder.constant(*each) for each in constant.items()]
        ends = ends or [builder.input(name, each.shape) for name, each in (("b", boxes), ("s", scores))]
        given = (np.int32(2), np.float32(0.5), np.float32(0))
        limits = [builder.constant(f"limit{number}", each) for number, each in enumerate(given)]
        made = [builder.tensor("chosen", (2,), "int32"), builder.tensor("count", (), "int32")]
        builder.operator("NON_MAX_SUPPRESSION_V4", [*ends, *limits], made)
        subgraph = parse(builder.finish(*made)).subgraphs[0]
        truth = dict(zip(ends, (boxes, scores), strict=True)) if known == "given" else {}
        chosen = np.zeros(2, np.int32), np.ones(2, np.int32)
        found = undefined(subgraph, subgraph.operators[0], truth, *chosen, lambda: None)
        assert (found is not None and found.all()) == (tied and known != "unknown")
