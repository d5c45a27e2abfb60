"""Inputs of ONNX sources that are initializers as well: constants that are folded, or inputs as they are where
asked.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.random_onnx import random_model

FOLDED = """<ir_version: 8, opset_import: ["" : 18]> g
    (float[1, 3, 4, 5] x, float[5] k, int64[4] s) => (float[1, 3, 4, 5] z)
    <float[5] k = {1, 2, 3, 4, 5}, int64[4] s = {1, 3, 4, 5}> { a = Reshape(x, s) b = Exp(a) z = Mul(b, k) }"""


def listed(model: onnx.ModelProto, ir_version: int) -> list[str]:
    """Make initializers inputs as well; their names."""
    model.ir_version = ir_version
    for each in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    return [each.name for each in model.graph.initializer]


@pytest.mark.members(4)
@pytest.mark.parametrize("ir_version", [3, 4, 8])
@pytest.mark.parametrize("seed", range(10))
def test_random_models(seed: int, ir_version: int) -> None:
    """They are no inputs by default, compute the same, and nothing more is left than where they are not listed."""
    writer, model = random_model(seed, False)
    plain = layoutsolve.convert(model)
    names, own = listed(model, ir_version), [port.name for port in plain.model.graph.input]
    dropped = layoutsolve.convert(model)
    assert [port.name for port in dropped.model.graph.input] == own and dropped.graph.dropped == (
        tuple(names) if ir_version > 3 else ()
    )
    assert sorted(node.op_type for node in dropped.model.graph.node) == sorted(
        node.op_type for node in plain.model.graph.node
    )
    kept = layoutsolve.convert(model, initializer_inputs="keep")
    given = writer.feeds()
    wanted = OnnxRuntime(plain.model.SerializeToString(), level="none").run(given)
    for each in (dropped, kept):
        onnx.checker.check_model(each.model)
        runtime = OnnxRuntime(each.model.SerializeToString(), level="none")
        for one, other in zip(wanted, runtime.run(given), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    if ir_version > 3:
        assert {port.name for port in kept.model.graph.input} >= {*own}
        assert not kept.graph.dropped


def test_what_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "a.onnx", str(tmp_path / "b.onnx")
    onnx.save(onnx.parser.parse_model(FOLDED), source)
    assert main([str(source), "-o", out, "--verify"]) == 0
    told = capsys.readouterr().out
    assert "2 inputs of the source are initializers as well: they are constants, 'k', 's'" in told
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Exp", "Mul"]
    assert main([str(source), "-o", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped_inputs"] == ["k", "s"]
    assert main([str(source), "-o", out, "--initializer-inputs", "keep"]) == 0
    assert "as well" not in capsys.readouterr().out
    assert [port.name for port in onnx.load(out).graph.input] == ["x", "k", "s"]
    assert main(["info", out]) == 0 and "--initializer-inputs=keep" in capsys.readouterr().out


@pytest.mark.parametrize("training", [False, True])
def test_states_stay(training: bool) -> None:
    """What is replaced by what the model computes is an input, or what training changes, though it has a default."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[2] x, float[2] s, float[2] k) => (float[2] y, float[2] t)
        <float[2] s = {1, 2}, float[2] k = {3, 4}> { y = Add(x, s) t = Mul(y, k) }"""
    )
    if training:
        binding = model.training_info.add().update_binding.add()
        binding.key, binding.value = "s", "t"
    else:
        model.metadata_props.add(key="layoutsolve.state.s", value="t")
    found = layoutsolve.convert(model)
    assert found.graph.dropped == ("k",) and [port.name for port in found.model.graph.input] == ["x", "s"]


def test_not_of_tensorflow_lite() -> None:
    from tests.cli.test_streams import small

    with pytest.raises(layoutsolve.OptionError, match="initializer_inputs: that is about models in ONNX"):
        layoutsolve.convert(small(), initializer_inputs="keep")
