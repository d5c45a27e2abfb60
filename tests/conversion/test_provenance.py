"""What a model says of how it was made is enough to make it again, with whatever options, and is the same for options
that mean the same.
"""

from __future__ import annotations

import json
import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve import CertificateError
from layoutsolve.certification.certify import certify, check_certificate
from layoutsolve.cli import parser
from layoutsolve.cli.command_line import main
from layoutsolve.cli.options import arguments_of
from layoutsolve.conversion.arguments import Options
from layoutsolve.io.source import Content
from layoutsolve.solver.targets.target_file import FOLDER
from layoutsolve.version import VERSION
from tests.builder import Builder

CHOICES: dict[str, list[Any]] = {
    "objective": ["min-executed", "min-transpose", "min-bytes", "min-nodes"],
    "strategy": ["cpsat", "push", "transpose"],
    "layouts": [{}, {"pooled of all": ("NHWC", "NCHW")}],
    "inputs": ["keep", "nchw", "free", {"*": "free", "the image": "nchw"}, {"depth": ("NHWC", "CWHN")}],
    "outputs": ["keep", "nhwc", {"sum": "nchw"}, {"*": "keep"}],
    "opset": [None, 19, 21],
    "target": [None, "ort-cpu", "ort-arm", "portable"],
    "external_data": [None, False, True],
    "quant": ["qdq", "float"],
    "custom": ["error", "passthrough"],
    "signature": ["", "serving_default"],
    "shapes": [{}, {"the image": (1, 4, 6, 3)}],
    "max_size": [None, 1 << 20],
}


def two_images() -> bytes:
    """Two images with names in two words are pooled and added."""
    build = Builder()
    images = {name: build.input(f"of {name}", (1, 4, 6, 3)) for name in ("the image", "depth")}
    pooled = [build.tensor(name, (1, 2, 3, 3)) for name in ("pooled of all", "pooled=2")]
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    for source, target in zip(images.values(), pooled, strict=True):
        build.operator("MAX_POOL_2D", [source], [target], options)
    total = build.tensor("total", (1, 2, 3, 3))
    build.operator("ADD", pooled, [total], {})
    build.signature(images, {"sum": total}, "serving_default")
    return build.finish(total)


def drawn(seed: int) -> dict[str, Any]:
    """Some options, each with a value that is often not the default."""
    chance = random.Random(seed)
    return {name: chance.choice(values) for name, values in CHOICES.items() if chance.random() < 0.5}


def content(options: dict[str, Any]) -> bytes:
    return layoutsolve.convert(two_images(), **options).content("model.onnx")


@pytest.mark.parametrize("seed", range(30))
def test_made_again(seed: int) -> None:
    """By the options that the file names, and by the command, it becomes the same bytes."""
    wanted = drawn(seed)
    made = content(wanted)
    told = layoutsolve.provenance(made)
    assert (told.version, told.source) == (VERSION, Content(two_images()).digest)
    assert content(dict(told.options)) == made
    _, model, *words = shlex.split(told.command)
    assert model == "MODEL"
    assert content(arguments_of(parser.parse(["MODEL", *words]))) == made
    assert set(told.options) <= {name for name, values in CHOICES.items() if wanted.get(name, values[0]) != values[0]}


@pytest.mark.parametrize("seed", range(8))
def test_certificates_name_the_options(seed: int) -> None:
    """They can be checked, and not with the options of others, whether or not the file names these."""
    wanted = {**drawn(seed), "strategy": "cpsat", "external_data": None}
    conversion = layoutsolve.convert(two_images(), **wanted)
    certificate, model = certify(two_images(), conversion), conversion.content("")
    assert check_certificate(two_images(), model, certificate).proven
    for other in ('{"inputs":"nhwc"}', '{"opset":7}', '{"target":"else"}', '{"objective":"min-latency"}'):
        forged = onnx.load_from_string(model)
        for entry in forged.metadata_props:
            entry.value = other if entry.key == "layoutsolve.options" else entry.value
        data = forged.SerializeToString(deterministic=True)
        lying = replace(certificate, options=other, model=Content(data).digest)
        with pytest.raises(CertificateError, match="options"):
            check_certificate(two_images(), data, lying)
        with pytest.raises(CertificateError):
            check_certificate(two_images(), model, replace(certificate, options=other))
    for text in ("", "[]", '{"objective":5}', '{"inputs":"sideways"}', "{" * 9999):
        with pytest.raises(CertificateError):
            check_certificate(two_images(), model, replace(certificate, options=text))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({}, {"inputs": {"*": "keep"}, "outputs": {}, "target": "ort-cpu", "external_data": False}),
        ({"contrib": True}, {"target": "ort-cpu-contrib"}),
        ({"inputs": "free"}, {"inputs": {"*": "free"}}),
        ({"inputs": {"a": "nchw", "b": "free"}}, {"inputs": {"b": "free", "*": "keep", "a": "nchw"}}),
        ({"shapes": {"a": (1, 2), "b": (3,)}}, {"shapes": {"b": [3], "a": [1, 2]}}),
    ],
)
def test_one_text_for_one_meaning(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert Options.of(left).text == Options.of(right).text
    assert Options.of(left).boundary == Options.of(right).boundary


def test_target_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file is named by the digest of what it says, also where it has a name that comes with layoutsolve."""
    facts = json.loads((FOLDER / "portable.json").read_text())
    for name, own in (("board", True), ("portable", False), ("ort-cpu", True)):
        path, model = tmp_path / f"{name}.json", tmp_path / f"{name}.onnx"
        path.write_text(json.dumps({**facts, "name": name}))
        conversion = layoutsolve.convert(two_images(), target=path)
        assert conversion.provenance.options == {"target": name}
        assert bool(conversion.provenance.target) == own
        certificate = certify(two_images(), conversion)
        check_certificate(two_images(), conversion.content(""), certificate, target=path)
        conversion.save(model)
        assert main(["info", str(model)]) == 0
        assert ("is a file whose fields" in capsys.readouterr().out) == own


@pytest.mark.parametrize(
    "said", ["", "[]", "5", "{", '{"layouts":5}', '{"layouts":{"a":7,"b":[1]},"inputs":null}', "[" * 9999]
)
def test_strange_options(said: str) -> None:
    """Whatever a file says is told or refused."""
    model = layoutsolve.convert(two_images()).model
    for entry in model.metadata_props:
        entry.value = said if entry.key == "layoutsolve.options" else entry.value
    try:
        assert layoutsolve.provenance(model.SerializeToString()).command.startswith("layoutsolve MODEL --")
    except layoutsolve.ModelError as error:
        assert "has no provenance in its metadata" in str(error)


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It tells what the file says; other files are refused."""
    source, model = tmp_path / "a.tflite", tmp_path / "a.onnx"
    source.write_bytes(mobilenet())
    assert main([str(source), "--input", "image=nchw", "-q"]) == 0
    assert main(["info", str(model)]) == 0
    told = capsys.readouterr().out
    assert f"made by layoutsolve {VERSION}: layoutsolve MODEL --inputs=" not in told
    assert f"made by layoutsolve {VERSION}: layoutsolve MODEL --input=image=nchw\n" in told
    assert main(["info", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["options"] == {"inputs": {"image": "nchw"}} and found["source"] in told
    plain = onnx.load(model)
    del plain.metadata_props[:]
    for path, data in ((source, source.read_bytes()), (model, plain.SerializeToString())):
        path.write_bytes(data)
        assert main(["info", str(path)]) == 2
        assert f"layoutsolve: '{path.name}' " in capsys.readouterr().err
