"""Targets of runtimes that were not measured: what their own lists of operators say, and nothing of time."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import layoutsolve
from layoutsolve.cli.command_line import main
from layoutsolve.errors import OptionError
from layoutsolve.solver.targets.target_file import COUNTED, shipped
from tests.conversion.test_provenance import two_images
from tests.random_models import network

KNOWN = {each.name for each in onnx.defs.get_all_schemas() if not each.domain}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_known(name: str) -> None:
    """Operators that ONNX has, a source, no price but that of Transposes, and no times."""
    target = shipped(name)
    assert target.provider is not None and target.provider.operators <= KNOWN and target.provider.source
    assert len(target.provider.operators) > 40 and "Conv" in target.provider.operators
    assert not any(target.hidden.values()) and not target.timed and target.table is None
    with pytest.raises(OptionError, match="no times"):
        layoutsolve.convert(two_images(), target=name, objective="min-latency")


@pytest.mark.members(9)
@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("seed", range(6))
def test_shares(name: str, seed: int) -> None:
    """They are what a look at the written file says; prices are those of Transposes alone."""
    source = network(seed).source
    found = layoutsolve.convert(source, target=name)
    share, provider = found.share, shipped(name).provider
    assert share is not None and provider is not None
    runs = [node.op_type in provider.operators and not node.domain for node in found.model.graph.node]
    assert (share.operators, sum(share.cpu.values())) == (sum(runs), len(runs) - sum(runs))
    makers = {out: own for node, own in zip(found.model.graph.node, runs, strict=True) for out in node.output}
    crossing = {
        each
        for node, own in zip(found.model.graph.node, runs, strict=True)
        for each in node.input
        if makers.get(each, own) != own
    }
    assert share.crossings >= len(crossing) and (share.crossings == 0) >= (not share.cpu)
    assert found.price == layoutsolve.convert(source, target="onnx").price


def test_what_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.tflite"
    source.write_bytes(two_images())
    assert main([str(source), "--target", "webgpu", "--dry-run"]) == 0
    assert "webgpu: counted only, not measured: it lists" in capsys.readouterr().out
    assert main([str(source), "--target", "webgpu", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provider"]["layout"] == "NHWC"
    assert main([str(source), "--dry-run", "--json"]) == 0
    assert "provider" not in json.loads(capsys.readouterr().out)
    assert main(["target", "qnn"]) == 0 and "counted only" in capsys.readouterr().out


@pytest.mark.parametrize("zero", [0, 3])
def test_zero_points(zero: int) -> None:
    """TensorRT takes none but 0; a model without quantization has none."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]> g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y)
        <float s = {{0.5}}, int8 z = {{{zero}}}> {{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
        t = Transpose<perm = [0, 2, 3, 1]>(d) r = Relu(t) y = Transpose<perm = [0, 3, 1, 2]>(r) }}"""
    )
    share = layoutsolve.convert(model, target="tensorrt").share
    assert share is not None and (share.asymmetric > 0) == (zero != 0)
    assert ("zero points, which it refuses" in str(share)) == (zero != 0)
    other = layoutsolve.convert(model, target="webgpu").share
    assert other is not None and not other.asymmetric
