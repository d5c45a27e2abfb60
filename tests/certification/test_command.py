"""Certificates on the command line, and what checking one needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from layoutsolve import Boundary, Certificate, CertificateError, check_certificate
from layoutsolve.cli.command_line import main
from layoutsolve.solver.targets.target_file import shipped
from tests.certification.certified import case, methods, tampered


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, output = tmp_path / "a.tflite", tmp_path / "a.json", tmp_path / "a.onnx"
    source.write_bytes(case("large")[0])
    assert main([str(source), "--certify", str(target)]) == 0
    assert (
        "proven minimal again: transposes + layout penalty 2, transposes 2, bytes 960, reshapes 0"
        in capsys.readouterr().out
    )
    check_certificate(source, output, Certificate.load(target))
    assert main([str(source), "--certify", str(target), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["certificate"]
    assert report["file"] == str(target)
    assert [(each["tier"], each["value"], each["bound"]) for each in report["tiers"][1:3]] == [
        (["transposes"], 2, 2),
        (["bytes"], 960, 960),
    ]
    assert main([str(source), "--certify", str(target), "--strategy", "push"]) == 2
    assert "proves nothing" in capsys.readouterr().err
    assert main([str(source), "--certify", str(tmp_path)]) == 2
    with pytest.raises(CertificateError, match="cannot read"):
        Certificate.load(tmp_path / "none.json")


def test_checking_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It converts nothing: the ONNX model is read. What does not hold is an error."""
    source, record, output = tmp_path / "a.tflite", tmp_path / "a.json", tmp_path / "b.onnx"
    source.write_bytes(case("small")[0])
    assert main([str(source), "-o", str(output), "--certify", str(record)]) == 0
    capsys.readouterr()
    assert main([str(source), "-o", str(output), "--check", str(record), "--target", "ort-cpu"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{output}: the certificate holds")
    for line in (
        "the file is what its alternatives describe",
        "proven minimal again: transposes + layout penalty ",
        "trusted: reading the source",
    ):
        assert f"\n  {line}" in told
    assert main([str(source), "-o", str(output), "--check", str(record), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["proven"] is True
    assert len(report["tiers"]) == 4
    weaker = replace(
        Certificate.load(record), bounds=tuple(replace(b, bound=0) for b in Certificate.load(record).bounds)
    )
    weaker.save(record)
    assert main([str(source), "-o", str(output), "--check", str(record)]) == 0
    assert "\n  resting on the search: transposes + layout penalty 2 (at least 0), " in capsys.readouterr().out
    for options, message in (
        (["--check", str(record)], "a.onnx': No such file"),
        (["--check", str(record), "--objective", "min-bytes"], "leave --objective out"),
        (["--check", str(record), "--certify", str(record)], "leave --certify out"),
        (["--check", str(record), "-o", "-"], "give its name with -o"),
        (["--check", str(source), "-o", str(output)], "cannot read|is no certificate"),
    ):
        assert main([str(source), *options]) == 2
        assert re.search(message, capsys.readouterr().err)
    output.write_bytes(output.read_bytes() + b"\0")
    assert main([str(source), "-o", str(output), "--check", str(record)]) == 2
    assert "the ONNX file is not the one" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "a.tflite", "b.onnx"]


def test_changed_options() -> None:
    """Another objective, target or operator set, other ends, another name: the rows or the file are others then."""
    contrib = shipped("ort-cpu-contrib")
    for name in ("image", "small"):
        certificate = case(name)[2]
        tampered(case(name), "is not what the recorded rows", opset=certificate.opset + 1)
        tampered(case(name), "is not what the recorded rows", name="else")
        tampered(case(name), "has changed since the certificate", table="0" * 64)
        tampered(case(name), "about target 'else'", target="else")
        tampered(case(name), "has changed since the certificate", target=contrib.name)
        other = Boundary(inputs="free", outputs="nchw")
        tampered(case(name), "cost|cannot run|what the recorded|does not follow|options", boundary=other)
        tampered(case(name), "bounds of other levels|cannot run|options", objective="min-bytes")
        tampered(case(name), "bounds of other levels|cannot run|cost|options", objective="min-nodes")


def test_checking_needs_no_solver(tmp_path: Path) -> None:
    """Nothing that searches is loaded, let alone OR-tools."""
    source, model, certificate = case("large")
    assert "elimination" in methods("large")
    for name, data in (("a.tflite", source), ("a.onnx", model)):
        (tmp_path / name).write_bytes(data)
    certificate.save(tmp_path / "a.json")
    code = (
        "import sys; sys.modules['ortools'] = None\n"
        "from layoutsolve.certification.certificate import Certificate\n"
        "from layoutsolve.certification.checker import check\n"
        "from layoutsolve.io.source import load\n"
        "print(check(Certificate.load('a.json'), load('a.tflite'), load('a.onnx').data, None).proven)\n"
        "loaded = [name for name in sys.modules if name.startswith('layoutsolve.')]\n"
        "print([name for name in loaded if '.search' in name or '.strategies' in name or '.prover' in name])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout.split("\n"), ran.stderr) == (["True", "[]", ""], "")
