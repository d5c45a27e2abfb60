"""Dense layers of floats by weights of bytes whose products are of integers, as in LiteRT's own kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import OptionError
from layoutsolve.frontend.tflite.operators.shared import dynamic_products
from layoutsolve.ir.graph import Array
from layoutsolve.verification.verify import verify
from tests.builder import Builder, Quant
from tests.conformance.cases import Case, Model
from tests.conformance.running import judge

SMALL = 63
"""The largest weight that has a sign in a target: two products of it by 255 do not saturate 16 bits."""


@dataclass(frozen=True)
class Dense:
    """A dense layer behind another operator, and what it is run on; some rows may be nothing but zeros."""

    source: bytes
    x: Array
    weights: int

    @property
    def model(self) -> Model:
        return Model(self.source, (self.x,))


def dense(seed: int, rows: tuple[int, ...] | None = None, asymmetric: bool | None = None) -> Dense:
    """A random layer: any shape of what it reads, any form of its weights, a bias and an activation or not."""
    random = np.random.default_rng(seed)
    lead = rows or [(1,), (5,), (1, 1), (2, 3), (3, 1, 2)][int(random.integers(5))]
    k, n = (int(size) for size in random.integers(1, 40, 2))
    keep = len(lead) > 1 and bool(random.integers(2))
    scales = [float(np.float32(scale)) for scale in random.uniform(0.01, 0.1, n if random.integers(2) else 1)]
    builder = Builder()
    x = builder.input("x", (*lead, k), signature=(-1, k) if lead == (5,) and random.integers(2) else None)
    turned = builder.tensor("turned", (*lead, k))
    builder.operator("RELU" if random.integers(2) else "TANH", [x], [turned])
    data = random.integers(-SMALL, SMALL + 1, (n, k)).astype(np.int8)
    weights = builder.tensor("w", (n, k), "int8", data=data, quant=Quant(scales, [0] * len(scales), 0))
    bias = random.uniform(-1, 1, n).astype(np.float32)
    given = [turned, weights, builder.tensor("b", (n,), data=bias)] if random.integers(2) else [turned, weights]
    shape = (*lead, n) if keep else (int(np.prod(lead)), n)
    y = builder.tensor("y", shape)
    options: dict[str, Any] = {
        "keep_num_dims": keep,
        "asymmetric_quantize_inputs": bool(random.integers(2)) if asymmetric is None else asymmetric,
        "fused_activation_function": str(random.choice(["NONE", "RELU", "RELU6"])),
    }
    builder.operator("FULLY_CONNECTED", given, [y], options)
    fed = random.uniform(-2, 2, (*lead, k)).astype(np.float32)
    fed[random.random(lead) < 0.2] = 0
    return Dense(builder.finish(y), fed, data.size)


def target(folder: Path, tensor: int, rows: int, weights: str = "unsigned") -> Path:
    """The default target with other thresholds."""
    path = folder / "mine.json"
    facts = {"name": "mine", "extends": "ort-cpu", "storage": {"weights": weights}}
    path.write_text(json.dumps({**facts, "dynamic": {"tensor": tensor, "rows": rows}}))
    return path


def integers(found: layoutsolve.Conversion) -> bool:
    """Whether a product of integers is written."""
    written = any(node.op_type == "MatMulInteger" for node in found.model.graph.node)
    assert written == bool(found.rounding)
    return written


@pytest.mark.members(14)
@pytest.mark.parametrize("seed", range(24))
def test_products_are_those_of_litert(tmp_path: Path, seed: int) -> None:
    layer, weights = dense(seed), ("unsigned", "signed")[seed % 2]
    found = layoutsolve.convert(layer.source, dynamic="integer", target=target(tmp_path, 1, 1, weights))
    assert integers(found)
    judge(Case("", "", lambda: layer.model, tolerance=2e-6), layer.model, found.model)
    assert layoutsolve.verify(layer.source, found, samples=4).passed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("rows", [(1,), (4,)])
def test_products_are_of_integers_from_a_size_on(
    tmp_path: Path, seed: int, asymmetric: bool, rows: tuple[int, ...]
) -> None:
    layer = dense(seed, rows, asymmetric)
    shared = asymmetric and rows == (1,)
    for more in (0, 1):
        least = layer.weights + more
        place = target(tmp_path, least if shared else 1 << 40, 1 << 40 if shared else least)
        assert integers(layoutsolve.convert(layer.source, dynamic="integer", target=place)) == (not more)


def test_floats_stay_floats_unless_asked() -> None:
    layer = dense(0)
    plain, said = (layoutsolve.convert(layer.source, **options) for options in ({}, {"dynamic": "float"}))
    assert not integers(plain) and plain.model == said.model


def test_a_target_that_says_nothing_is_refused() -> None:
    layer = dense(0)
    with pytest.raises(OptionError, match="target 'openvino-cpu' does not state which products are faster in integers"):
        layoutsolve.convert(layer.source, dynamic="integer", target="openvino-cpu")
    with pytest.raises(OptionError, match="unknown dynamic 'integers': use one of float, integer"):
        layoutsolve.convert(layer.source, dynamic="integers")


def test_certificates_know_of_integers(tmp_path: Path) -> None:
    layer, place = dense(0), target(tmp_path, 1, 1)
    found = layoutsolve.convert(layer.source, dynamic="integer", target=place)
    certificate = layoutsolve.Certificate.from_json(layoutsolve.certify(layer.source, found).to_json())
    assert certificate.reading == found.reading
    layoutsolve.check_certificate(layer.source, found.model.SerializeToString(), certificate, target=place)


@pytest.mark.parametrize("seed", range(2))
def test_what_stays_in_floats_is_held_against_floats(tmp_path: Path, seed: int) -> None:
    """Two layers, of which the first alone is large enough: neither LiteRT as it is nor its float twin would agree."""
    random = np.random.default_rng(seed)
    builder = Builder()
    ends, options = [builder.input("x", (3, 24))], {"asymmetric_quantize_inputs": bool(seed % 2)}
    for name, outputs in (("first", 40), ("second", 8)):
        columns = 24 if name == "first" else 40
        data = random.integers(-127, 128, (outputs, columns)).astype(np.int8)
        weights = builder.tensor(f"w_{name}", data.shape, "int8", data=data, quant=Quant([0.01], [0]))
        ends.append(builder.tensor(name, (3, outputs)))
        builder.operator("FULLY_CONNECTED", [ends[-2], weights], [ends[-1]], options)
    source = builder.finish(ends[-1])
    found = layoutsolve.convert(source, dynamic="integer", target=target(tmp_path, 24 * 40, 24 * 40))
    assert found.rounding == {(0, 0)}
    told = layoutsolve.verify(source, found)
    assert told.passed and told.outputs[0].rounded is not None
    twin = verify(source, found.model)
    assert not twin.agrees


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_integers_do_not_hold_stay_floats(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = dense(seed, (4,))
    columns = layer.x.shape[-1]
    for most in (columns, columns - 1):
        monkeypatch.setattr(dynamic_products, "_MOST_COLUMNS", most)
        found = layoutsolve.convert(layer.source, dynamic="integer", target=target(tmp_path, 1, 1))
        assert integers(found) == (most == columns)
