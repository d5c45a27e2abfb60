"""Certificates: what they claim holds, and what does not hold is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve import Certificate, CertificateError, certify, check_certificate
from layoutsolve.certification.certificate import _seal
from layoutsolve.cli.command_line import main
from layoutsolve.frontend.tflite.lowering.options import QUANT
from layoutsolve.solver.statement.objective import OBJECTIVES, coarse_levels
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import orders, projection_bound
from layoutsolve.solver.targets.target import Cost
from layoutsolve.solver.targets.target_file import shipped
from tests.certification.certified import branching, case, converted, heads, image, methods, tampered
from tests.networks import Network

WAYS = [
    (strategy, objective)
    for strategy in ("cpsat", "mincut")
    for objective, tiers in OBJECTIVES.items()
    if strategy == "cpsat" or (coarse_levels(tiers) is not None and objective != "min-latency")
]
"""The strategies that prove something, with the objectives that they serve."""


@pytest.mark.members(8)
@pytest.mark.parametrize("name", ["summed", "small", "large"])
@pytest.mark.parametrize(("strategy", "objective"), WAYS)
def test_round_trip(name: str, strategy: str, objective: str) -> None:
    """What is written is read again and holds, and every tier is proven again."""
    source, model, certificate = case(name, strategy, objective)
    assert Certificate.from_json(certificate.to_json()) == certificate
    rechecked = check_certificate(source, model, certificate)
    assert rechecked.proven
    assert [each.value for each in rechecked.tiers] == [each.bound for each in certificate.bounds]
    assert set(methods(name, strategy, objective)) <= {"min cut"} or strategy == "cpsat"


@pytest.mark.parametrize("quant", QUANT)
def test_every_way_to_write_quantized_operators(quant: str) -> None:
    """What is written is written again in the same way, for targets with and without private operators."""
    for contrib in (False, True):
        conversion = layoutsolve.convert(image(), quant=quant, contrib=contrib)
        certificate = certify(image(), conversion)
        assert check_certificate(image(), conversion.content(""), certificate).proven
        others = {way: replace(certificate.reading, quant=way) for way in ("qdq", "qoperator") if way != quant}
        for reading in others.values():
            with pytest.raises(CertificateError):
                check_certificate(image(), conversion.content(""), replace(certificate, reading=reading))


def test_concatenation_in_steps() -> None:
    """The source is read in the same steps again."""
    source, model, certificate = case("heads")
    assert certificate.price.transposes == certificate.bounds[0].bound == 3
    titles = [row.title for row in certificate.rows]
    assert titles.count("CONCATENATION#6") == 2
    check_certificate(source, model, certificate)


@pytest.mark.parametrize("few", [1, 32])
def test_few_candidates_first(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs nothing is proven among few candidates, anything else among all; the check states the same."""
    monkeypatch.setattr("layoutsolve.solver.strategies.orders.FEW", few)
    for source, ends in ((mobilenet(), "free"), (mobilenet(), "keep"), (branching(6), "keep"), (heads(), "free")):
        conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
        assert conversion.report["status"] == "optimal"
        check_certificate(source, conversion.content(""), certify(source, conversion))


def lone_rows(seed: int) -> bytes:
    """Products, softmaxes and Transposes of tensors whose dimensions have mostly size 1."""
    net, random = Network(), np.random.default_rng(seed)
    shape = [*map(int, random.choice([1, 1, 1, 3], int(random.integers(2, 5)))), 4]
    x = net.input(*shape)
    for kind in random.choice(["product", "product", "softmax", "transpose"], int(random.integers(1, 4))):
        if kind == "product":
            size, turned = int(random.choice([1, 5])), bool(random.integers(2))
            matrix = (size, shape[-1]) if turned else (shape[-1], size)
            shape = [*shape[:-1], size]
            x = net.op("BATCH_MATMUL", [x, net.weights(*[1] * (len(shape) - 2), *matrix)], shape, adjY=turned)
        elif kind == "softmax":
            x = net.op("SOFTMAX", [x], shape, beta=1.0)
        else:
            axes = [int(axis) for axis in random.permutation(len(shape))]
            shape = [shape[axis] for axis in axes]
            x = net.op("TRANSPOSE", [x, net.vector(*axes)], shape)
    return net.model(x).source


@pytest.mark.members(3)
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_rows_that_nothing_leads_to(first: int) -> None:
    """Where dimensions have size 1, the layouts that are recorded need not lead to the very row that was chosen."""
    for seed in range(first, first + 12):
        source, objective = lone_rows(seed), ("min-executed", "min-transpose", "min-bytes")[seed % 3]
        conversion = layoutsolve.convert(source, objective=objective)
        assert check_certificate(source, conversion.content(""), certify(source, conversion)).tiers


def test_lower_bounds_are_true() -> None:
    """A bound that claims less than is known is no lie, and is told from the value."""
    source, model, certificate = case("small")
    first, *rest = certificate.bounds
    rechecked = check_certificate(source, model, replace(certificate, bounds=(replace(first, bound=1), *rest)))
    assert not rechecked.proven
    assert f"resting on the search: transposes {first.bound} (at least 1)" in str(rechecked)


def test_other_files() -> None:
    source, model, certificate = case("image")
    with pytest.raises(CertificateError, match="the source is not"):
        check_certificate(source + b"\0", model, certificate)
    with pytest.raises(CertificateError, match="the ONNX file is not"):
        check_certificate(source, case("small")[1], certificate)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "other"}', '{"format": "layoutsolve certificate 13"}', "[" * 100_000]
)
def test_no_certificate(text: str) -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        Certificate.from_json(text)


def test_another_format_is_told() -> None:
    facts = {**json.loads(case("small")[2].to_json()), "format": "layoutsolve certificate 3"}
    with pytest.raises(CertificateError, match="its format is not 'layoutsolve certificate 13'"):
        Certificate.from_json(json.dumps({**facts, "seal": _seal(facts)}))


def test_a_target_that_was_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate holds for the table that it was written with, and says where that has become another one."""
    source, model, certificate = case("small")
    assert certificate.target == "ort-cpu"
    table = shipped("ort-cpu")
    for changed in (
        replace(table, hidden={**table.hidden, ("Transpose", "rows"): 1}),
        replace(table, latency=replace(table.latency, reshape=Cost(1e-6))),
        replace(table, unsupported=frozenset()),
        replace(table, domains=frozenset({"com.microsoft"})),
    ):
        assert changed.digest != certificate.table
        monkeypatch.setattr("layoutsolve.certification.checker.shipped", lambda _, changed=changed: changed)
        with pytest.raises(CertificateError, match="target 'ort-cpu' has changed since the certificate"):
            check_certificate(source, model, certificate)
    monkeypatch.undo()
    path = tmp_path / "mine.json"
    path.write_text('{"name": "mine", "extends": "ort-cpu", "hidden": {"Transpose": {"rows": 1}}}')
    conversion = layoutsolve.convert(source, target=path)
    own = Certificate.from_json(certify(source, conversion).to_json())
    check_certificate(source, conversion.content(""), own, target=path)
    with pytest.raises(CertificateError, match="target 'mine', which does not come with layoutsolve: give its file"):
        check_certificate(source, conversion.content(""), own)
    with pytest.raises(CertificateError, match="about target 'mine', not 'ort-cpu'"):
        check_certificate(source, conversion.content(""), own, target="ort-cpu")
    path.write_text('{"name": "mine", "extends": "ort-cpu"}')
    with pytest.raises(CertificateError, match="target 'mine' has changed since the certificate"):
        check_certificate(source, conversion.content(""), own, target=path)


@pytest.mark.members(1)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_any_target_can_be_certified(objective: str, tmp_path: Path) -> None:
    """Whatever motions lose, the optimum that is found is the one that is checked."""
    path = tmp_path / "mine.json"
    for hidden in ({"swap": 1}, {"rows": 3, "general": 1}, {"swap": 2, "rows": 2, "general": 2}, {"general": 0}):
        path.write_text(json.dumps({"name": "mine", "extends": "ort-cpu", "hidden": {"Transpose": hidden}}))
        for name in ("image", "small"):
            source = converted(name)[0]
            conversion = layoutsolve.convert(source, target=path, objective=objective)
            assert conversion.report["target"] == "mine"
            check_certificate(source, conversion.content(""), certify(source, conversion), target=path)


def test_what_is_proven_of_some_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few candidates: the bound of the orders of some atoms is proven again, in the problem that has these."""
    monkeypatch.setattr(orders, "FEW", 1)
    monkeypatch.setattr(orders, "CANDIDATES", 1)
    monkeypatch.setattr(projection_bound, "ATOMS", 2)
    source = branching(3)
    conversion = layoutsolve.convert(source, objective="min-transpose")
    found, model = conversion.assignment, conversion.content("")
    assert found.unseen and found.bound > 0
    certificate = Certificate.from_json(certify(source, conversion).to_json())
    assert certificate.unseen == found.unseen
    checked = check_certificate(source, model, certificate)
    assert [each.bound for each in checked.tiers[:1]] == [found.bound]
    assert not any(each.capped for each in checked.tiers)
    given = source, model, certificate
    tampered(given, "does not follow from its proof", unseen=tuple(sorted(statement_of(conversion).unseen(0))))


def statement_of(conversion: layoutsolve.Conversion) -> Statement:
    return Statement(conversion.assignment.graph, conversion.boundary, conversion.assignment.goal)


def test_constants_apart(tmp_path: Path) -> None:
    """The certificate is about the model with the name of its file of constants in it, and about that file."""
    source, target, record = tmp_path / "a.tflite", tmp_path / "a.onnx", tmp_path / "a.json"
    source.write_bytes(mobilenet())
    assert main([str(source), "--external-data", "--certify", str(record)]) == 0
    certificate = Certificate.load(record)
    check_certificate(source, target, certificate)
    conversion = layoutsolve.convert(source, external_data=True)
    assert certify(source, conversion, target) == certificate
    with pytest.raises(layoutsolve.OptionError, match="give its path"):
        certify(source, conversion)
    with pytest.raises(CertificateError, match="give the path"):
        check_certificate(source, target.read_bytes(), certificate)
    data = tmp_path / "a.onnx.data"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(CertificateError, match="the file of constants is not"):
        check_certificate(source, target, certificate)


def test_heuristics_prove_nothing() -> None:
    source = case("small")[0]
    with pytest.raises(CertificateError, match="proves nothing"):
        certify(source, layoutsolve.convert(source, strategy="push"))


def test_explicit_layouts_are_recorded() -> None:
    """Choices for single ends survive the file."""
    source = case("small")[0]
    conversion = layoutsolve.convert(source, inputs={"image": ("NHWC", "NCHW")}, layouts={"sum0": ("ABCD", "ADBC")})
    certificate = Certificate.from_json(certify(source, conversion).to_json())
    assert certificate.boundary == conversion.boundary
    check_certificate(source, conversion.model.SerializeToString(deterministic=True), certificate)
