"""Random models in ONNX: their results stay the same, and nothing that is counted becomes more."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.no_worse import SMALL
from layoutsolve.proto.data_movement import moves
from layoutsolve.solver.statement.objective import OBJECTIVES
from tests.random_flow import random_flow
from tests.random_onnx import Writer, add, conv, normal, pool, random_model, unary

COUNT = 60


def run(model: onnx.ModelProto, feeds: dict[str, Array], *, optimised: bool = False) -> list[Array]:
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    found: list[Array] = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    return found


@pytest.mark.members(20)
@pytest.mark.parametrize("seed", range(COUNT))
def test_results_stay(seed: int) -> None:
    writer, source = random_model(seed, dynamic=seed % 3 == 0)
    objective = ("min-executed", "min-transpose")[seed % 2]
    found = layoutsolve.convert(source.SerializeToString(), objective=objective)
    onnx.checker.check_model(found.model, full_check=True)
    ends = [[port.name for port in ports] for ports in (source.graph.input, source.graph.output)]
    assert ends == [[port.name for port in ports] for ports in (found.model.graph.input, found.model.graph.output)]
    before, after = moves(source), moves(found.model)
    own = layoutsolve.convert(source.SerializeToString(), strategy="transpose", objective=objective).price
    executed, limit = after.transposes + found.price.hidden, before.transposes + own.hidden
    less = executed < limit if after.transposes <= before.transposes else 2 * executed < limit
    bytes_each = (own.bytes - found.price.bytes) / max(after.reshapes - before.reshapes, 1)
    less |= executed == limit and after.transposes == before.transposes and bytes_each >= SMALL
    assert after.counts <= before.counts or (objective == "min-executed" and less)
    for feeds in (writer.feeds(), {name: data[:1] for name, data in writer.feeds(1).items()}):
        if seed % 3 and next(iter(feeds.values())).shape[0] == 1:
            continue  # the batch is fixed
        for optimised in (False, True):
            truth, result = (run(model, feeds, optimised=optimised)[0] for model in (source, found.model))
            steps = 0.03 if any(node.op_type == "QuantizeLinear" for node in source.graph.node) else 0
            assert np.abs(truth - result).max() <= 1e-5 * np.abs(truth).max() + 3 * steps


@pytest.mark.parametrize("seed", range(0, COUNT, 6))
def test_as_written_by_strategies(seed: int) -> None:
    writer, source = random_model(seed)
    for strategy in ("transpose", "propagate", "push"):
        found = layoutsolve.convert(source.SerializeToString(), strategy=strategy)
        truth, result = (run(model, writer.feeds())[0] for model in (source, found.model))
        assert np.allclose(truth, result, atol=1e-5)


@pytest.mark.members(6)
@pytest.mark.parametrize("seed", range(0, COUNT, 4))
@pytest.mark.parametrize("ends", ["keep", "nhwc", "free"])
def test_an_input_that_is_an_output(seed: int, ends: str) -> None:
    """It keeps its name, and is stored once."""
    writer, source = random_model(seed)
    name = writer.inputs[0]
    source.graph.output.insert(seed % 2, source.graph.input[0])
    found = layoutsolve.convert(source.SerializeToString(), inputs=ends, outputs=ends)
    assert [port.name for port in found.model.graph.output] == [port.name for port in source.graph.output]
    feeds = writer.feeds()
    order = found.permutations(inputs=True).get(name, (0, 1, 2, 3))
    assert ends != "nhwc" or order == (0, 2, 3, 1)
    results = run(found.model, {name: np.ascontiguousarray(feeds[name].transpose(order))})
    for port, truth, result in zip(source.graph.output, run(source, feeds), results, strict=True):
        moved = found.permutations(inputs=False).get(port.name)
        assert np.allclose(truth if moved is None else truth.transpose(moved), result, atol=1e-4)


@pytest.mark.parametrize("seed", range(1, COUNT, 6))
def test_channels_last_ends(seed: int) -> None:
    """Someone who has an export of PyTorch gets a model that reads images channels-last, of the same results."""
    writer, source = random_model(seed)
    name = writer.inputs[0]
    found = layoutsolve.convert(source.SerializeToString(), inputs={name: ("NCHW", "NHWC")})
    feeds = writer.feeds()
    moved = {name: np.ascontiguousarray(feeds[name].transpose(0, 2, 3, 1))}
    truth, result = run(source, feeds)[0], run(found.model, moved)[0]
    assert [dim.dim_value for dim in found.model.graph.input[0].type.tensor_type.shape.dim][-1] == feeds[name].shape[1]
    assert np.allclose(truth, result, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_images_with_channels_last_at_both_ends(seed: int) -> None:
    """A network of convolutions with a way around them has a Transpose at each end at most, and the same results."""
    writer = Writer(seed)
    first = x = writer.input(1, 3, 4, 6)
    for kind in writer.random.choice([conv, normal, pool, unary, add], 6):
        x = kind(writer, x)
    channels = [writer.shapes[each][1] for each in (first, x)]
    source = writer.model(writer.op("Concat", first, x, shape=[1, sum(channels), 4, 6], axis=1))
    found = layoutsolve.convert(source.SerializeToString(), inputs="nhwc", outputs="nhwc")
    assert [end.permutation for end in found.moved_ends] == [(0, 2, 3, 1)] * 2
    assert found.assignment.status == "optimal" and moves(found.model).transposes <= 2
    assert layoutsolve.verify(source.SerializeToString(), found).passed


@pytest.mark.members(4)
@pytest.mark.parametrize("seed", range(24))
def test_twice_changes_nothing(seed: int) -> None:
    """What has been written comes back byte for byte, whatever was asked for; with other weights as well."""
    _, source = (random_flow if seed % 2 else random_model)(seed, dynamic=seed % 3 == 0)
    objective = list(OBJECTIVES)[seed % len(OBJECTIVES)]
    once = layoutsolve.convert(source.SerializeToString(), objective=objective).content("model.onnx")
    assert layoutsolve.convert(once, objective=objective).content("model.onnx") == once
    trained = onnx.ModelProto.FromString(once)
    for each in trained.graph.initializer:
        if each.raw_data and len(each.raw_data) > 1024:
            each.raw_data = bytes(len(each.raw_data))
    again = layoutsolve.convert(trained.SerializeToString(), objective=objective).model
    assert [node.SerializeToString() for node in again.graph.node] == [
        node.SerializeToString() for node in trained.graph.node
    ]


def test_what_is_changed_after_it_was_written_is_solved() -> None:
    """A pair of Transposes that somebody adds to what was written goes again."""
    writer = Writer(0)
    x = conv(writer, writer.input(2, 3, 4, 6))
    there = writer.transpose(x, [0, 2, 3, 1])
    written = layoutsolve.convert(writer.model(writer.transpose(there, [0, 3, 1, 2])).SerializeToString()).model
    assert moves(written).transposes == 0
    last = written.graph.node[-1]
    name, last.output[0] = last.output[0], "before"
    for number, (source, perm) in enumerate([("before", [0, 2, 3, 1]), ("between", [0, 3, 1, 2])]):
        written.graph.node.add(op_type="Transpose", input=[source], output=[("between", name)[number]])
        written.graph.node[-1].attribute.append(onnx.helper.make_attribute("perm", perm))
    found = layoutsolve.convert(written.SerializeToString())
    assert not found.kept and moves(found.model).transposes == 0


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", range(24))
def test_ends_that_are_moved_cost_a_transpose_each(seed: int) -> None:
    """There are no more Transposes than in the source and one for each of these; where none is, none more at all."""
    writer, model = random_model(seed, dynamic=seed % 3 == 0)
    source, rank = model.SerializeToString(), len(writer.shapes[model.graph.output[0].name])
    feeds = writer.feeds()
    truth, before = run(model, feeds)[0], moves(model)
    last: list[tuple[str, str]] = [("NCHW", "NHWC"), ("NCHW", "WHCN"), ("NCHW", "CNWH")]
    choices: list[dict[str, Any]] = [
        {"inputs": "nhwc", "outputs": "nhwc"},
        {"inputs": "nchw", "outputs": "nchw"},
        {"inputs": "free", "outputs": "free"},
        {"inputs": {writer.inputs[0]: last[seed % 3]}},
        {"layouts": {writer.inputs[0]: last[seed % 3]}},
    ]
    objective = ("min-executed", "min-transpose")[seed % 2]
    options = choices[seed % 5]
    found = layoutsolve.convert(source, objective=objective, **options)
    assert moves(found.model).transposes <= before.transposes + len(found.moved_ends)
    if options["inputs" if "inputs" in options else "layouts"] == "nchw":
        assert not found.moved_ends and moves(found.model).counts <= before.counts
    moved, back = found.permutations(inputs=True), found.permutations(inputs=False)
    fed = {name: data.transpose(moved.get(name, range(data.ndim))).copy() for name, data in feeds.items()}
    result = run(found.model, fed)[0]
    result = result.transpose(np.argsort(next(iter(back.values()), range(rank))))
    steps = 0.03 if any(node.op_type == "QuantizeLinear" for node in model.graph.node) else 0
    assert np.abs(truth - result).max() <= 1e-5 * np.abs(truth).max() + 3 * steps
    assert layoutsolve.verify(source, found).passed
