"""Views of bytes behind DequantizeLinear, for targets that want them there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.certification.audit import recount
from layoutsolve.emit import QuantForm, meant, nodes_of, serialise, views
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.audited import audited
from tests.graphs import GraphBuilder, assert_same, feeds
from tests.networks import Quantized

TARGET = "openvino-x86-vnni"

LEFT = ("an output", "read as stored", "other steps", "constants", "along an axis", "means", "computed")
"""In which ways views are of bytes that stay what they are."""


def viewed(seed: int, how: str = "") -> tuple[Graph, list[str]]:
    """Random views of bytes, one behind the other, that kernels read; and what the views give."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    dtype = str(random.choice(["int8", "uint8"]))

    def steps(count: int = 1, axis: int | None = None) -> Quant:
        return Quant(random.uniform(0.01, 0.1, count).astype(np.float32), random.integers(1, 9, count, dtype), axis)

    shape, quant = tuple(map(int, random.integers(2, 5, 4))), steps()
    if how == "along an axis":
        quant = steps(shape[0], 0)
    if how == "constants":
        x = b.constant(random.integers(0, 99, shape), dtype, quant)
    elif random.random() < 0.3:
        x = b.input(*shape, dtype=dtype, quant=quant)
    else:
        given = b.input(*shape, dtype=dtype, quant=steps()) if random.random() < 0.5 else b.input(*shape)
        x = b.op(str(random.choice(["Identity", "Abs"])), given, shape=shape, dtype=dtype, quant=quant)
    others = [b.op("Abs", x, shape=shape, dtype=dtype, quant=quant)] if random.random() < 0.5 else []
    made = list[str]()
    for _ in range(int(random.integers(1, 4))):
        if how == "along an axis" or random.random() < 0.5:
            kept = [0] if how == "along an axis" else []
            x = b.transpose(x, *kept, *map(int, random.permutation(range(len(kept), len(b.shape(x))))))
        else:
            x = b.reshape(x, *random.permutation(b.shape(x)))
        made.append(x)
    if how == "other steps":
        b.values[x] = type(b.values[x])(x, dtype, b.shape(x), steps())
    size = b.shape(x)
    ends = [b.op("Relu", x, shape=size, dtype=dtype, quant=steps()) for _ in range(int(random.integers(1, 3)))]
    if how == "an output":
        ends.append(x)
    if how == "read as stored":
        ends.append(b.reshape(x, int(np.prod(size))))  # type: ignore[arg-type]
    if how == "means":
        ends.append(b.op("Identity", x, shape=size))
    if how == "computed":
        y = b.transpose(x, 0, 1, 3, 2) if len(size) == 4 else x
        ends = [b.op("MatMul", x, y, shape=(*size[:-1], size[-2]), dtype=dtype, quant=steps())]
        made.append(y)
    return b.graph(*ends, *others), made


def ran(model: onnx.ModelProto, graph: Graph, seed: int) -> list[object]:
    """What ONNX Runtime computes without optimisation."""
    data = dict(zip(graph.inputs, feeds(graph, seed), strict=True))
    return OnnxRuntime(model.SerializeToString(), level="none").run(data)


@pytest.mark.parametrize("seed", range(30))
def test_views_are_behind(seed: int) -> None:
    """Every QuantizeLinear has its DequantizeLinear, with as many views as before; results are equal, bit for bit."""
    graph, made = viewed(seed)
    found = views.meant(graph)
    assert found == frozenset(made)
    before, after = serialise(graph), serialise(graph, quant=QuantForm(meant=found))
    counts = [Counter(node.op_type for node in nodes_of(model.graph)) for model in (before, after)]
    assert all(counts[0][name] == counts[1][name] for name in views.VIEWS)
    assert sum(counts[1].values()) <= sum(counts[0].values()) + 1
    types = {each.name: each.type.tensor_type.elem_type for each in after.graph.value_info}
    assert {types[name] for name in made} == {onnx.TensorProto.FLOAT}
    assert recount(after, meant=found) == recount(before)
    for one, other in zip(ran(before, graph, seed), ran(after, graph, seed), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("how", LEFT)
@pytest.mark.parametrize("seed", range(6))
def test_others_stay(seed: int, how: str) -> None:
    graph, made = viewed(seed, how)
    assert made[-1] not in views.meant(graph)
    if how not in ("other steps", "read as stored", "means", "an output"):
        assert not views.meant(graph)


def network(seed: int) -> layoutsolve.Source:
    """Convolutions of bytes with dense layers behind them, over images channels-last."""
    random, build = np.random.default_rng(seed), Quantized(seed)
    channels, units = (int(size) for size in random.integers(2, 9, 2))
    x = build.input(1, 6, 6, channels)
    for _ in range(int(random.integers(1, 3))):
        x = build.conv(x, channels)
    planes = build.transpose(x, 3, 0, 1, 2)
    rows, pixels = build.shapes[planes][0], int(np.prod(build.shapes[planes][1:]))
    layer = [build.reshape(planes, rows, pixels), build.weights(units, pixels), build.weights(units)]
    return build.model(build.op("FULLY_CONNECTED", layer, (rows, units))).source


@pytest.mark.parametrize("seed", range(6))
def test_what_is_certified_and_verified(tmp_path: Path, seed: int) -> None:
    """A target writes them, and a file of its own that does not gives the same results; the file still has what is
    certified, and tensors inside are found.
    """
    source, path = network(seed), tmp_path / "stored.json"
    path.write_text(json.dumps({"name": "stored", "extends": TARGET, "storage": {"views": False}}))
    found, other = (layoutsolve.convert(source, target=target) for target in (TARGET, path))
    audited(found.model, found.assignment, found.graph)
    assert layoutsolve.check_certificate(source, found.content(""), layoutsolve.certify(source, found)).tiers
    verified = layoutsolve.verify(source, found, tensors=True)
    assert verified.inspection is not None and verified.inspection.departure is None
    assert [found.report[name] for name in ("transposes", "reshapes")] == [
        other.report[name] for name in ("transposes", "reshapes")
    ]
    assert meant(found.assignment) and not meant(other.assignment)
    data = np.random.default_rng(seed).integers(-128, 128, found.graph.values[found.graph.inputs[0]].shape)
    given = {found.model.graph.input[0].name: data.astype(np.int8)}
    results = [OnnxRuntime(each.model.SerializeToString(), level="none").run(given) for each in (found, other)]
    np.testing.assert_array_equal(*(np.stack(each) for each in results))


IMAGES = ("", "batches", "floats", "two readers", "an output", "rows", "others")
"""How matrices that are transposed become images, or something else."""


def turned(seed: int, how: str) -> Graph:
    """Matrices of bytes whose columns become the channels of images."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    batch, channels, height, width = (int(size) for size in random.integers(2, 5, 4))
    steps = {"dtype": "uint8", "quant": Quant(np.full(1, 0.1, np.float32), np.full(1, 9, np.uint8))}
    given, pixels = {} if how == "floats" else steps, height * width
    if how == "batches":
        x = b.transpose(b.input(batch, pixels, channels, **given), 0, 2, 1)
    else:
        x, batch = b.transpose(b.input(pixels, channels, **given), 1, 0), 1
    shapes = {"rows": (1, channels * height, width, 1), "others": (1, 1, channels, pixels)}
    ends = [b.reshape(x, *shapes.get(how, (batch, channels, height, width)))]
    ends = [b.op("Relu", ends[0], shape=b.shape(ends[0]), **given)]
    if how == "two readers":
        ends.append(b.op("Relu", x, shape=b.shape(x), **given))
    return b.graph(*ends, *([x] if how == "an output" else []))


@pytest.mark.parametrize("how", IMAGES)
@pytest.mark.parametrize("seed", range(8))
def test_images_are_made_before_they_are_transposed(seed: int, how: str) -> None:
    """A Reshape and a Transpose change places; all bytes stay where they were, and counts what they were."""
    graph = turned(seed, how)
    found = views.as_images(graph)
    assert (found is graph) == (how not in ("", "batches"))
    if found is not graph:
        assert [node.op for node in found.nodes] == ["Reshape", "Transpose", "Relu"]
    assert recount(serialise(found)) == recount(serialise(graph))
    assert_same(found, graph, feeds(graph, seed))
