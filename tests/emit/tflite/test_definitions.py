"""Operators that are written as others in front of TensorFlow Lite, in LiteRT against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.onnx.definitions import DEFINITIONS
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.emit.tflite.test_operators import Case, check
from tests.truth import litert

RANDOM = np.random.default_rng(6)


def real(*shape: int) -> Array:
    """Random floats."""
    return RANDOM.uniform(-2, 2, shape).astype(np.float32)


def whole(*shape: int, dtype: str = "uint8") -> Array:
    """Random integers."""
    limits = np.iinfo(dtype)
    return RANDOM.integers(max(limits.min, -1000), min(limits.max, 1000), shape, endpoint=True).astype(dtype)


def number(each: float, dtype: str = "float32") -> Array:
    """A number."""
    return np.array(each, dtype)


SIZES, X, WAVES = np.array([2, 1, 4, 5]), real(2, 3, 7, 8), real(2, 9, 5, 1)
CASES: Mapping[str, Sequence[Case]] = {
    "AffineGrid": [
        Case(real(2, *shape), np.array([2, 3, *space]), align_corners=aligned)
        for aligned in (0, 1)
        for shape, space in (((2, 3), (4, 5)), ((3, 4), (2, 3, 4)))
    ],
    "CenterCropPad": [Case(X, np.array([2, 5, 7, 3])), Case(X, np.array([9, 4]), axes=[2, 3])],
    "Col2Im": [
        Case(real(2, 2 * 6, 9), np.array([4, 5]), np.array([2, 3])),
        Case(real(1, 3 * 4, 9), np.array([5, 5]), np.array([2, 2]), strides=[2, 2], pads=[0, 1, 1, 0]),
        Case(real(1, 4, 12), np.array([5, 5]), np.array([2, 2]), dilations=[2, 1]),
    ],
    "ConvInteger": [
        Case(whole(1, channels, 6, 7), whole(4, channels // groups, 3, 3, dtype=dtype), number(7, "uint8"), *zero,
             pads=[1, 1, 1, 1], group=groups)
        for channels, groups, dtype, zero in (
            (2, 1, "uint8", [number(120, "uint8")]), (60, 1, "uint8", []), (2, 2, "int8", [number(0, "int8")]))
    ],
    "DFT": [
        *(Case(WAVES, None, np.int64(axis), onesided=one) for axis in (1, 2) for one in (0, 1)),
        *(Case(WAVES, np.int64(length), np.int64(1)) for length in (6, 12)),
        Case(real(2, 6, 5, 2), None, np.int64(1), inverse=1), Case(real(2, 6, 5, 2), None, np.int64(2)),
    ],
    "DynamicQuantizeLinear": [Case(X, outputs=3), Case(np.abs(X), outputs=3), Case(0 * X, outputs=3)],
    "GlobalLpPool": [Case(X, p=power) for power in (1, 2, 3)],
    "LpPool": [
        Case(X, kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 1, 0], p=power) for power in (1, 2, 3)
    ] + [Case(X, kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2])],
    "MatMulInteger": [
        Case(whole(3, depth), whole(depth, 5, dtype=dtype), *zeros, fed=fed)
        for depth in (40, 600)
        for dtype, zeros in (("uint8", []), ("int8", [number(9, "uint8"), number(3, "int8")]))
        for fed in ((0,), (0, 1))
    ],
    "MeanVarianceNormalization": [Case(X), Case(X, axes=[1, 3])],
    "QLinearConv": [
        Case(whole(1, 4, 6, 7), number(0.03), number(120, "uint8"), whole(6, 4, 3, 3, dtype="int8"), scale,
             np.zeros(scale.shape, "int8"), number(2.0), number(130, "uint8"), *bias, pads=[1, 0, 1, 1])
        for scale in (number(0.02), np.linspace(0.01, 0.03, 6, dtype=np.float32))
        for bias in ([], [whole(6, dtype="int32")])
    ],
    "QLinearMatMul": [
        Case(whole(3, 8), number(0.03), number(120, "uint8"), whole(8, 5), number(0.02), number(128, "uint8"),
             number(0.5), number(130, "uint8"), fed=fed)
        for fed in ((0,), (0, 3))
    ],
    "STFT": [
        Case(real(2, 20, 1), np.int64(4), window, np.int64(8), onesided=one)
        for window in (None, real(8))
        for one in (0, 1)
    ],
    **{f"{name}Window": [Case(np.int64(9), fed=(), periodic=each) for each in (0, 1)]
       for name in ("Blackman", "Hamming", "Hann")},
}  # fmt: skip


@pytest.mark.members(0)
@pytest.mark.parametrize(
    ("operator", "number"), [(operator, number) for operator, cases in CASES.items() for number in range(len(cases))]
)
def test_operator_that_is_written_as_others(operator: str, number: int) -> None:
    """In LiteRT's plain kernels and with XNNPACK; integers of layers are at most a step apart."""
    model, given = CASES[operator][number].model(operator)
    if not operator.startswith("Q"):
        check(model, given)
        return
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        (found,) = litert().run(written, given, delegate=delegate).results
        assert np.abs(found.astype(int) - expected).max() <= 1


COMPUTED = [
    (operator, place)
    for operator in ("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul")
    for place, each in enumerate(CASES[operator][-1].inputs)
    if each is not None and each.size == 1
]


@pytest.mark.members(0)
@pytest.mark.parametrize(("operator", "place"), COMPUTED)
def test_a_step_that_is_computed(operator: str, place: int) -> None:
    """Scales and zero points that the model is given count, or are refused."""
    case = CASES[operator][-1]
    model, given = Case(*case.inputs, fed=sorted({*case.fed, place}), **case.attributes).model(operator)
    try:
        written = layoutsolve.convert(model, to="tflite").content("")
    except UnsupportedError:
        return
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
    (found,) = litert().run(written, given).results
    assert np.abs(found.astype(int) - expected).max() <= operator.startswith("Q")


RUNTIME = {
    "Add": (2, {}), "AveragePool": (1, {"kernel_shape": [2, 2]}), "Concat": (2, {"axis": 1}),
    "Gemm": (2, {"transB": 1}),
    "GlobalAveragePool": (1, {}), "LeakyRelu": (1, {"alpha": 0.2}), "Mul": (2, {}), "Sigmoid": (1, {}),
    "Softmax": (1, {"axis": -1, "opset": 13}),
}  # fmt: skip


@pytest.mark.parametrize("operator", sorted(RUNTIME))
def test_operator_of_onnx_runtime_on_integers(operator: str) -> None:
    """Files that ONNX Runtime quantizes to operators on integers."""
    count, attributes = RUNTIME[operator]
    shape = (3, 6) if operator == "Gemm" else (1, 3, 4, 6)
    triples = [[f"x{each}", "s", "z"] for each in range(count)]
    names = [each for triple in triples for each in triple]
    if operator == "Gemm":
        names.append("c")
    own = ["t", "z"]
    inputs = [*own, *names] if operator == "Concat" else [*names, *own]
    name = "QGemm" if operator == "Gemm" else f"QLinear{operator}"
    node = helper.make_node(name, inputs, ["y"], domain="com.microsoft", **attributes)
    held = {"s": number(0.03), "t": number(0.04), "z": number(110, "uint8"), "c": whole(3, dtype="int32")}
    ports = [helper.make_tensor_value_info(f"x{each}", onnx.TensorProto.UINT8, shape) for each in range(count)]
    made = helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)
    constants = [numpy_helper.from_array(each, key) for key, each in held.items() if key in inputs]
    graph = helper.make_graph([node], "one", ports, [made], constants)
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model, given = helper.make_model(graph, opset_imports=sets, ir_version=9), [whole(*shape) for _ in range(count)]
    (expected,) = OnnxRuntime(model.SerializeToString(), level="none").run(dict(zip(("x0", "x1"), given, strict=False)))
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        (found,) = litert().run(written, given, delegate=delegate).results
        assert np.abs(found.astype(int) - expected).max() <= 1


def test_every_definition_has_a_case() -> None:
    runtime = {"QGemm" if name == "Gemm" else f"QLinear{name}" for name in RUNTIME}
    assert {name for domain, name in DEFINITIONS if domain} == runtime
    assert {name for domain, name in DEFINITIONS if not domain} <= {*CASES}


TOO_LARGE: Mapping[str, Case] = {
    "DFT": Case(real(1, 6000, 1)),
    "Col2Im": Case(real(1, 4, 4), np.array([1 << 20, 1 << 20]), np.array([2, 2])),
    "AffineGrid": Case(real(1, 2, 3), np.array([1, 1, 1 << 13, 1 << 13])),
    "MatMulInteger": Case(whole(1, 1 << 17), whole(1 << 17, 1)),
}


@pytest.mark.parametrize("operator", sorted(TOO_LARGE))
def test_what_would_be_too_large_is_refused(operator: str) -> None:
    model, _ = TOO_LARGE[operator].model(operator)
    with pytest.raises(UnsupportedError, match=f"it has no operator for {operator}"):
        layoutsolve.convert(model, to="tflite")


NORMS = (
    "MeanVarianceNormalization <axes = [1, 3]>(x)",
    "LpPool <kernel_shape = [1, 1]>(x)",
    "GroupNormalization <num_groups = 1>(x, one, one)",
)


@pytest.mark.parametrize("operator", NORMS)
def test_others_read_what_is_written_as_others(operator: str) -> None:
    """Attention is what ONNX defines it by, which the library does of tensors whose types it knows."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 23]> g (float[1, 2, 5, 4] x) => (float[1, 2, 5, 4] y)
        <float[2] one = {{1, 2}}> {{ n = {operator} y = Attention(n, n, n) }}"""
    )
    check(model, [real(1, 2, 5, 4)])


HALVES = """<ir_version: 9, opset_import: ["" : 18]> g ({0}[N, 3, 6, 6] x, bool c) => ({0}[N, K] y, {1}[N, 4, 6, 6] z)
    <float16[1] e = {{14336}}, int64[2] to = {{0, -1}}> {{
    h = Cast <to = 10>(x) a = Conv <pads = [1, 1, 1, 1]>(h, w, b) r = Relu(a)
    t = If (c) <then_branch = one () => (float16[N, 4, 6, 6] p) {{ p = Mul(r, e) }},
        else_branch = two () => (float16[N, 4, 6, 6] q) {{
        k = Constant <value = float16[1] {{13312}}>() q = Add(r, k) }}>
    z = Cast <to = {2}>(t) m = ReduceMax(t) s = Sub(t, m) u = Reshape(s, to) v = Exp(u) y = Cast <to = {3}>(v) }}"""


@pytest.mark.parametrize("ends", ["float", "float16"])
@pytest.mark.parametrize("inner", ["float", "float16"])
@pytest.mark.parametrize("taken", [True, False])
def test_models_of_float16(taken: bool, inner: str, ends: str) -> None:
    """They compute in float32, and read, store and give what they did."""
    numbers = {"float": 1, "float16": 10}
    model = onnx.parser.parse_model(HALVES.format(ends, inner, numbers[inner], numbers[ends]))
    for name, shape in (("w", (4, 3, 3, 3)), ("b", (4,))):
        model.graph.initializer.append(numpy_helper.from_array(real(*shape).astype(np.float16), name))
    x = real(2, 3, 6, 6).astype(np.float16 if ends == "float16" else np.float32)
    truth = OnnxRuntime(model.SerializeToString(), level="none").run({"x": x, "c": np.array(taken)})
    found = layoutsolve.convert(model, to="tflite")
    for delegate in (False, True):
        results = litert().run(found.content(""), [x, np.array(taken)], delegate=delegate).results
        for one, other in zip(truth, results, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other.astype(np.float32), one.astype(np.float32), rtol=5e-3, atol=5e-3)
    verified = layoutsolve.verify(model, found, samples=2)
    assert verified.passed, verified
