"""Each rewrite into an older operator set, over shapes and attributes, against the form in the usual one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve.emit.older_opsets import REWRITES, bring
from layoutsolve.emit.opset import LOWEST_OPSET, OLDEST_OPSET
from layoutsolve.errors import OptionError
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import Level, OnnxRuntime
from tests.conformance import families
from tests.conformance.opsets import check_set, same

Draw = Callable[[np.random.Generator], onnx.ModelProto]
SHAPE = (2, 3, 4, 5)


def model(
    op: str, shape: Any, made: Any, constants: dict[str, Any], dtype: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node that reads ``x`` and constants: in the order of their names but for the first letter, None for none."""
    outputs = made if made and isinstance(made[0], list) else [made]
    names = [name if data is not None else "" for name, data in constants.items()]
    ys = [f"y{number}" for number in range(len(outputs))]
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items() if data is not None]
    types = {"Shape": TensorProto.INT64, "GreaterOrEqual": TensorProto.BOOL, "LessOrEqual": TensorProto.BOOL}
    types |= {"QuantizeLinear": TensorProto.INT8, "DequantizeLinear": TensorProto.FLOAT}
    ports = [helper.make_tensor_value_info(y, types.get(op, dtype), each) for y, each in zip(ys, outputs, strict=True)]
    node = helper.make_node(op, ["x", *names], ys, name="node", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", dtype, shape)], ports, held)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20 if op == "GridSample" else 18)], ir_version=9
    )


def reduced(op: str) -> Draw:
    def draw(random: np.random.Generator) -> onnx.ModelProto:
        axes, keep = sorted(random.choice(4, random.integers(0, 4), replace=False).tolist()), int(random.integers(2))
        none = int(random.integers(2))
        over = axes or ([] if none else [0, 1, 2, 3])
        made = [1 if axis in over else size for axis, size in enumerate(SHAPE) if keep or axis not in over]
        given = [axis - 4 * int(random.integers(2)) for axis in axes]
        constants = {} if not axes and random.integers(2) else {"a": np.array(given, np.int64)}
        return model(op, SHAPE, made, constants, keepdims=keep, noop_with_empty_axes=none)

    return draw


def squeezed(random: np.random.Generator) -> onnx.ModelProto:
    return model("Squeeze", (1, 3, 1, 5), [3, 5], {"a": np.array([0, 2])} if random.integers(2) else {})


def unsqueezed(random: np.random.Generator) -> onnx.ModelProto:
    return model("Unsqueeze", (3, 5), [1, 3, 1, 5], {"a": np.array([0, 2 - 4 * int(random.integers(2))])})


def split(random: np.random.Generator) -> onnx.ModelProto:
    axis = int(random.integers(1, 4))
    size = SHAPE[axis]
    if random.integers(2):
        parts = [1, size - 1]
        constants, attributes = {"p": np.array(parts)}, {}
    else:
        first = -(-size // 2)
        parts, constants, attributes = [first, size - first], {}, {"num_outputs": 2}
    made = [[part if each == axis else own for each, own in enumerate(SHAPE)] for part in parts]
    return model("Split", SHAPE, made, constants, axis=axis, **attributes)


def padded(random: np.random.Generator) -> onnx.ModelProto:
    axes = random.choice(4, 2, replace=False).tolist() if random.integers(2) else [0, 1, 2, 3]
    pads = random.integers(0, 3, 2 * len(axes)).tolist()
    made = list(SHAPE)
    for place, axis in enumerate(axes):
        made[axis] += pads[place] + pads[place + len(axes)]
    value = np.float32(2) if random.integers(2) else None
    return model("Pad", SHAPE, made, {"p": np.array(pads), "v": value, "a": np.array(axes) if len(axes) < 4 else None})


def resized(random: np.random.Generator) -> onnx.ModelProto:
    axes = [2, 3] if random.integers(2) else [0, 1, 2, 3]
    attributes = {"axes": axes} if len(axes) == 2 else {}
    attributes["mode"] = str(random.choice(["nearest", "linear"]))
    scales, sizes = np.array([1, 1, 2, 3][-len(axes) :], np.float32), np.array([2, 3, 7, 6][-len(axes) :])
    if random.integers(2):
        return model("Resize", SHAPE, [2, 3, 8, 15], {"r": None, "s": scales}, **attributes)
    return model("Resize", SHAPE, [2, 3, 7, 6], {"r": None, "s": None, "z": sizes}, **attributes)


def soft(op: str) -> Draw:
    def draw(random: np.random.Generator) -> onnx.ModelProto:
        shape = SHAPE if random.integers(2) else (2, 3, 1, 1)
        axis = 3 if op == "Hardmax" else int(random.integers(-4, 4))
        return model(op, shape, shape, {}, **({} if axis == 3 else {"axis": axis}))

    return draw


def shaped(random: np.random.Generator) -> onnx.ModelProto:
    start, end = sorted(random.integers(-4, 5, 2).tolist())
    made = len(SHAPE[start if start >= 0 else start + 4 : end if end >= 0 else end + 4])
    return model("Shape", SHAPE, [made], {}, start=start, end=end)


def reshaped(random: np.random.Generator) -> onnx.ModelProto:
    return model("Reshape", SHAPE, [6, 20], {"s": np.array([6, -1])}, allowzero=int(random.integers(2)))


def compared(op: str) -> Draw:
    return lambda random: model(op, SHAPE, SHAPE, {"b": random.integers(-1, 2, (4, 1)).astype(np.float32)})


def extreme(op: str) -> Draw:
    def draw(random: np.random.Generator) -> onnx.ModelProto:
        others = {name: random.integers(-9, 9, (5,)).astype(np.int64) for name in "bc"[: random.integers(1, 3)]}
        return model(op, SHAPE, SHAPE, others, TensorProto.INT64)

    return draw


def clipped(random: np.random.Generator) -> onnx.ModelProto:
    kind = (np.int64, np.float64, np.float32)[random.integers(3)]
    ends = {"a": kind(-2) if random.integers(2) else None, "b": kind(3)}
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return model("Clip", SHAPE, SHAPE, ends if random.integers(4) else {}, code)


def normalised(random: np.random.Generator) -> onnx.ModelProto:
    axis = int(random.integers(1, 4))
    scale, bias = (random.normal(size=SHAPE[axis:]).astype(np.float32) for _ in range(2))
    return model("LayerNormalization", SHAPE, SHAPE, {"s": scale, "b": bias if random.integers(2) else None}, axis=axis)


def quantized(op: str) -> Draw:
    def draw(random: np.random.Generator) -> onnx.ModelProto:
        shape = () if random.integers(2) else (1,)
        constants = {"s": np.full(shape, 0.5, np.float32), "z": np.full(shape, 3, np.int8)}
        dtype = TensorProto.FLOAT if op == "QuantizeLinear" else TensorProto.INT8
        return model(op, (1, 3, 4), (1, 3, 4), constants, dtype, axis=0)

    return draw


def sampled(random: np.random.Generator) -> onnx.ModelProto:
    grid = random.uniform(-1, 1, (2, 6, 7, 2)).astype(np.float32)
    return model(
        "GridSample", SHAPE, [2, 3, 6, 7], {"g": grid}, mode=str(random.choice(["linear", "nearest", "cubic"]))
    )


def aligned(random: np.random.Generator) -> onnx.ModelProto:
    boxes = {"b": np.array([[0, 0, 3, 3]], np.float32), "i": np.array([1])}
    way = "output_half_pixel" if random.integers(2) else "half_pixel"
    return model("RoiAlign", SHAPE, [1, 3, 1, 1], boxes, coordinate_transformation_mode=way)


def powered(random: np.random.Generator) -> onnx.ModelProto:
    return model("Pow", SHAPE, SHAPE, {"e": np.int64(2) if random.integers(2) else np.float32(2)})


CASES: dict[str, Draw] = {
    **{op: reduced(op) for op in REWRITES if op.startswith("Reduce")},
    **{op: soft(op) for op in ("Softmax", "LogSoftmax", "Hardmax")},
    **{op: compared(op) for op in ("GreaterOrEqual", "LessOrEqual")},
    **{op: extreme(op) for op in ("Min", "Max")},
    **{op: quantized(op) for op in ("QuantizeLinear", "DequantizeLinear")},
    **{op: (lambda random, op=op: model(op, SHAPE, SHAPE, {})) for op in ("HardSwish", "Mish")},
    "Squeeze": squeezed,
    "Unsqueeze": unsqueezed,
    "Split": split,
    "Pad": padded,
    "Resize": resized,
    "Shape": shaped,
    "Reshape": reshaped,
    "Clip": clipped,
    "LayerNormalization": normalised,
    "GridSample": sampled,
    "RoiAlign": aligned,
    "Pow": powered,
}


def test_every_rewrite_has_cases() -> None:
    assert CASES.keys() == REWRITES.keys()


@pytest.mark.members(0)
@pytest.mark.parametrize("op", CASES)
def test_rewrites(op: str) -> None:
    """In all sets, with some attributes each; at least one of these is written in every set that has the operator."""
    written = set()
    for seed in range(5):
        random = np.random.default_rng(seed)
        source = CASES[op](random)
        wanted = _run(source, np.random.default_rng(seed))
        for version in range(OLDEST_OPSET, LOWEST_OPSET):
            made = onnx.ModelProto.FromString(source.SerializeToString())
            try:
                bring(made, source.opset_import[0].version, version, {})
            except OptionError as error:
                assert op in str(error) and f"opset {version} cannot carry" in str(error)
                continue
            check_set(made, version)
            assert all(node.name.startswith("node") for node in made.graph.node)
            for one, other in zip(wanted, _run(made, np.random.default_rng(seed)), strict=True):
                same(one, other)
            written.add(version)
    assert written >= set(range(16 if op == "GridSample" else OLDEST_OPSET, LOWEST_OPSET))


def _run(source: onnx.ModelProto, random: np.random.Generator) -> list[Any]:
    port = source.graph.input[0]
    shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
    kind = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
    data = random.uniform(0.5, 3, shape) if kind.kind == "f" else random.integers(-9, 9, shape)
    return OnnxRuntime(source.SerializeToString(), level="none").run({"x": data.astype(kind)})


@pytest.mark.parametrize("version", [10, 25, 99, 0, -3])
def test_what_no_set_is(version: int) -> None:
    with pytest.raises(OptionError, match="use one from 11 to"):
        layoutsolve.convert(model("Relu", SHAPE, SHAPE, {}), opset=version)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_sources_in_onnx(opset: int) -> None:
    """Branches too; the version of the format is one that has the set."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3, 4, 5] x, bool c) => (float[2, 3, 4, 1] y)
        <int64[1] axes = {3}> { y = If(c) <then_branch = a () => (float[2, 3, 4, 1] p) { p = ReduceMean(x, axes) },
        else_branch = b () => (float[2, 3, 4, 1] q) { s = Softmax<axis = 1>(x) q = ReduceMax(s, axes) }> }"""
    )
    found = layoutsolve.convert(source, opset=opset)
    check_set(found.model, opset)
    assert found.report["opset"] == opset and found.model.ir_version <= 8
    assert layoutsolve.verify(source, found).verdict == "pass"


@pytest.mark.members(2)
@pytest.mark.parametrize("target", ["ort-cpu", "ort-arm", "portable", "openvino-x86-vnni"])
@pytest.mark.parametrize("opset", [13, 17])
def test_quantized_networks(opset: int, target: str) -> None:
    """Weights are not selected when the model is loaded, which older sets cannot express: they are stored unsigned."""
    source = mobilenet()
    found = layoutsolve.convert(source, opset=opset, target=target)
    check_set(found.model, opset)
    assert layoutsolve.verify(source, found, samples=2).verdict == "pass"
    with pytest.raises(OptionError, match=r"with a scale for each channel .* needs opset 13"):
        layoutsolve.convert(source, opset=12, target=target)


@pytest.mark.members(2)
@pytest.mark.parametrize("opset", ["11", "13", "17"])
def test_as_a_program(opset: str, tmp_path: Path) -> None:
    """A program of its own loads no more of onnx than it has to: what it needs of schemas has to be in that."""
    source = tmp_path / "a.tflite"
    source.write_bytes(mobilenet())
    command = [sys.executable, "-m", "layoutsolve", str(source), "--opset", opset, "-q"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    if opset == "11":
        assert found.returncode == 2 and "needs opset 13" in found.stderr
    else:
        assert found.returncode == 0, found.stderr
        check_set(onnx.load(tmp_path / "a.onnx"), int(opset))


@pytest.mark.members(2)
@pytest.mark.parametrize("quant", ["qdq", "qoperator", "symmetric", "float", "exact"])
@pytest.mark.parametrize("name", ["MUL-int8-RELU-fitting", "REDUCE_MAX-uint8-1-keep", "CONV_2D-uint8-tensor-RELU6"])
def test_bytes(name: str, quant: str) -> None:
    """What is written of bytes in a set is loaded, and computes the same, however far ONNX Runtime optimises."""
    case = next(case for case in families.every_case() if case.name.startswith(name))
    made = case.make()
    wanted = _given(layoutsolve.convert(made.source, quant=quant).model, made.inputs, "none")
    for opset in range(OLDEST_OPSET, LOWEST_OPSET):
        try:
            found = layoutsolve.convert(made.source, quant=quant, opset=opset).model
        except OptionError as error:
            assert f"opset {opset} cannot carry" in str(error)
            continue
        assert all(map(np.array_equal, wanted, _given(found, made.inputs, "none")))
        for one, other in zip(wanted, _given(found, made.inputs, "all"), strict=True):
            np.testing.assert_allclose(other.astype(float), one.astype(float), atol=1)


def _given(model: onnx.ModelProto, inputs: Any, level: Level) -> list[Any]:
    runtime = OnnxRuntime(model.SerializeToString(), level=level)
    return runtime.run(feeds(runtime, [*inputs], {}))


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_open_sizes(opset: int) -> None:
    """What a Resize keeps of open sizes is computed."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[n, c, 4, 5] x) => (float[n, c, 7, 6] y)
        <int64[2] sizes = {7, 6}> { y = Resize<axes = [2, 3], mode = "nearest">(x, , , sizes) }"""
    )
    made = onnx.ModelProto.FromString(source.SerializeToString())
    bring(made, 18, opset, {})
    check_set(made, opset)
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    wanted, found = (OnnxRuntime(each.SerializeToString(), level="none").run({"x": x})[0] for each in (source, made))
    same(wanted, found)
