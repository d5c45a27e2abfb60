"""LeakyRelu of bytes comes back of the sum that layoutsolve writes it as."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime

RANDOM = np.random.default_rng(0)
SHAPE = (1, 4, 48, 48)
STEP = 0.021


def model(slope: float, dtype: str, zero: int, both: bool) -> onnx.ModelProto:
    """The sum, and its operand by itself too where ``both`` are outputs."""
    ends = "float[1, 4, 48, 48] y, float[1, 4, 48, 48] d" if both else "float[1, 4, 48, 48] y"
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[1, 4, 48, 48] x) => ({ends})
        <float s = {{{STEP}}}, float t = {{0.0173}}, {dtype} o = {{{zero}}}, float a = {{{STEP * (1 - slope)}}},
         float b = {{{STEP * slope}}}, {dtype} most = {{{np.iinfo(dtype).max}}}> {{
            q = QuantizeLinear(x, s, o) d = DequantizeLinear(q, s, o)
            above = Clip(q, o, most) above_d = DequantizeLinear(above, a, o)
            all = Identity(q) all_d = DequantizeLinear(all, b, o)
            sum = Add(above_d, all_d) lq = QuantizeLinear(sum, t, o) y = DequantizeLinear(lq, t, o) }}"""
    )


@pytest.mark.members(8)
@pytest.mark.parametrize(("dtype", "zero"), [("int8", 3), ("uint8", 140)])
@pytest.mark.parametrize("slope", [0.1, 0.2, 0.013])
@pytest.mark.parametrize("both", [False, True])
def test_it_comes_back(slope: float, dtype: str, zero: int, both: bool) -> None:
    """As one operator within a step, whatever else reads its operand."""
    source = model(slope, dtype, zero, both)
    found = layoutsolve.convert(source, to="tflite").content("")
    names = [each.name for each in parse(found).subgraphs[0].operators]
    assert names.count("LEAKY_RELU") == 1 and not {"MAXIMUM", "MINIMUM", "ADD"} & {*names}
    x = (RANDOM.integers(-120, 120, SHAPE) * np.float32(STEP)).astype(np.float32)
    expected = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    with LiteRT() as litert:
        results = litert.run(found, [x]).results
    for one, other in zip(expected, results, strict=True):
        assert np.abs(one - other).max() <= 0.0174
        assert (np.abs(one - other) > 0.001).mean() < 0.06
