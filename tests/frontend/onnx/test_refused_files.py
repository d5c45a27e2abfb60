"""Files in ONNX that are wrong, and options that are for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError, ModelError, OptionError
from layoutsolve.frontend.onnx.detection import is_model
from layoutsolve.ir.graph import OPENING
from tests.frontend.onnx.test_files import HEAD, ROUND, converted, same, text
from tests.random_onnx import random_model


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda model: model.graph.node.pop(), ModelError),
        (lambda model: model.graph.node[0].input.__setitem__(0, "nobody"), ModelError),
        (lambda model: model.graph.node[1].output.__setitem__(0, "a"), ModelError),
        (lambda model: model.opset_import[0].__setattr__("version", 4), ModelError),
        (lambda model: model.opset_import[0].__setattr__("version", 999), ModelError),
        (lambda model: model.graph.ClearField("output"), ModelError),
        (lambda model: model.graph.input[0].__setattr__("name", ""), ModelError),
        *((lambda model, op=op: model.graph.node[1].__setattr__("op_type", op), ModelError) for op in OPENING),
    ],
)
def test_wrong_models(spoil: Callable[[onnx.ModelProto], object], error: type[ConversionError]) -> None:
    model = text(f"{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    spoil(model)
    with pytest.raises(error):
        converted(model)


@pytest.mark.parametrize("kind", [0, 99, -1])
def test_casts_to_no_type(kind: int) -> None:
    model = text(
        f"""{HEAD} g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {{ b = Cast<to = 1>(x) y = Relu(b)
        t = Transpose<perm = [1, 0]>(x) u = Relu(t) z = Transpose<perm = [1, 0]>(u) }}"""
    )
    model.graph.node[0].attribute[0].i = kind
    with pytest.raises(ConversionError):
        layoutsolve.convert(model.SerializeToString())


def test_a_constant_of_no_known_form_is_left_to_the_runtime() -> None:
    model = text(
        f"{HEAD} g (float[2, 3] x) => (float[2, 3] y) {{ c = Constant<value = float[1] {{2.0}}>() y = Mul(x, c) }}"
    )
    model.graph.node[0].attribute[0].name = "strength"  # ONNX Runtime reads the first attribute
    same(model, converted(model), (2, 3))


def test_options_that_are_for_tflite_are_refused() -> None:
    model = text(f"{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    for options in ({"quant": "exact"}, {"quant": "float"}, {"signature": "main"}, {"weights": "symmetric"}):
        with pytest.raises(OptionError):
            converted(model, **options)


@pytest.mark.parametrize("seed", range(40))
def test_broken_bytes_give_a_model_or_an_error(seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(random_model(seed % 8)[1].SerializeToString())
    for _ in range(int(random.integers(1, 6))):
        place = int(random.integers(len(data)))
        if seed % 4 == 0:
            del data[place:]
        else:
            data[place % max(len(data), 1)] = int(random.integers(256))
        if not data:
            break
    try:
        layoutsolve.convert(bytes(data) or b"\0")
    except ConversionError as error:
        assert not isinstance(error, layoutsolve.InternalError)


def test_detection() -> None:
    data = random_model(0)[1].SerializeToString()
    assert is_model(data) and not is_model(b"") and not is_model(b"\x18\0\0\0TFL3") and not is_model(b"PK\3\4")
    assert is_model(data[: len(data) // 2])  # cut off: an error of its own
    with pytest.raises(ModelError):
        layoutsolve.convert(data[: len(data) // 2])


def test_the_source_is_never_overwritten_by_default(tmp_path: Path) -> None:
    from layoutsolve.cli.command_line import main

    path = tmp_path / "net.onnx"
    path.write_bytes(random_model(0)[1].SerializeToString())
    before = path.read_bytes()
    assert main([str(path), "-q"]) == 0
    assert path.read_bytes() == before and (tmp_path / "net.layoutsolve.onnx").is_file()
    assert main([str(path), "-q", "-o", str(path)]) == 2 and path.read_bytes() == before
    assert main([str(path), "-q", "--verify", "-o", str(tmp_path / "other.onnx")]) == 0
