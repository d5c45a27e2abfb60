"""What is nearly one number is compared by its size, and what limits inputs is compared beyond its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import FLOAT_TOLERANCE, distance, kind, passes

HEAD = '<ir_version: 9, opset_import: ["" : 18]>'
ONE = {
    "softmax": "s = Softmax<axis = 1>(t) y = ReduceSum<keepdims = 0>(s, axes)",
    "logarithm": "l = LogSoftmax<axis = 1>(t) s = Exp(l) y = ReduceSum<keepdims = 1>(s, axes)",
    "circle": "s = Sin(t) c = Cos(t) a = Mul(s, s) b = Mul(c, c) y = Add(a, b)",
}
"""What is 1 whatever it reads, but for roundings."""


def port(dtype: str) -> Port:
    return Port("y", dtype, (), (), (), ())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_roundings_of_one_number_pass_and_faults_do_not(dtype: str, size: float) -> None:
    random, unit = np.random.default_rng(0), float(np.spacing(np.dtype(dtype).type(size)))
    for count in (0, 1, 20):  # how many of 100 the source has rounded the other way
        truth = np.full(100, size, dtype)
        truth[:count] += unit
        for off, right in ((random.integers(0, 2, 100) * unit, True), (np.full(100, 0.02 * size), False)):
            found = distance(port(dtype), [(truth, (size + off).astype(dtype))])
            assert passes(kind(port(dtype)), found, 1e-3 if dtype == "float16" else FLOAT_TOLERANCE) == right


@pytest.mark.parametrize("to", ["onnx", "tflite"])
@pytest.mark.parametrize("name", ONE)
def test_what_is_always_one_passes(name: str, to: str) -> None:
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[2, 5, 6, 4] x) => (float[a, b, c, d] y) <int64[1] axes = {{1}}>"
        f"{{ t = Transpose<perm = [0, 3, 1, 2]>(x) {ONE[name]} }}"
    )
    if name == "softmax":
        del model.graph.output[0].type.tensor_type.shape.dim[0]
    found = layoutsolve.verify(model, layoutsolve.convert(model, to=to))  # type: ignore[arg-type]
    assert found.verdict == "pass", str(found)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        *((f"y = Clip(x, low{n}, high{n})", f"y = Clip(x, low{n}, high{n}1)") for n in (1, 3, 6)),
        ("y = HardSwish(x)", "a = Mul(x, third) b = Add(a, half) c = Relu(b) y = Mul(x, c)"),
        ("y = HardSigmoid<alpha = 0.2>(x)", "a = Mul(x, fifth) b = Add(a, half) y = Relu(b)"),
    ],
)
def test_limits_of_inputs_are_passed(right: str, wrong: str) -> None:
    numbers = {f"{name}{n}": sign * n for n in (1, 3, 6) for name, sign in (("low", -1), ("high", 1))}
    numbers |= {f"high{n}1": n * 1.02 for n in (1, 3, 6)} | {"third": 1 / 6, "fifth": 0.2, "half": 0.5}
    constants = ", ".join(f"float {name} = {{{number:.9f}}}" for name, number in numbers.items())
    one, other = (
        onnx.parser.parse_model(f"{HEAD} g (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) <{constants}> {{ {each} }}")
        for each in (right, wrong)
    )
    found = layoutsolve.convert(one)
    assert layoutsolve.verify(one, found).verdict == "pass"
    assert layoutsolve.verify(one, replace(found, model=other)).verdict == "FAIL"
