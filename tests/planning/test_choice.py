"""Backends that are chosen, from the source to the file: what it computes, its plan, and its certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import layoutsolve
from tests.networks import Network
from tests.random_models import network

THREE = """
name = "board"
extends = "onnx"
choose = true

[backends.gpu]
crossing = 1

[backends.npu]
crossing = 2

[backends.dsp]

[[forms]]
operators = ["Conv", "MaxPool", "AveragePool"]
backend = "npu"
data = "NHWC"
match = { grouped = false }

[[forms]]
operators = ["Conv"]
backend = "gpu"
data = "NHWC"
price = 1

[[forms]]
operators = ["Conv"]
data = "NCHW"
price = 5

[[forms]]
operators = ["MaxPool", "AveragePool"]
policy = "any"

[[forms]]
operators = ["Gemm", "MatMul"]
policy = "source"
backend = "dsp"

[[forms]]
operators = ["Add", "Mul", "Concat", "Resize"]
policy = "any"
backend = "gpu"

[[forms]]
operators = ["Add", "Mul", "Concat", "Resize"]
policy = "any"

[[forms]]
operators = ["Relu", "Clip", "Sigmoid", "Tanh"]
policy = "follow"
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The file of a target with three backends."""
    path = tmp_path / "board.toml"
    path.write_text(THREE, encoding="utf-8")
    return path


@pytest.mark.members(2)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_chosen_runs_and_is_proven(seed: int, board: Path) -> None:
    source = network(seed).source
    found = layoutsolve.convert(source, target=board)
    assert layoutsolve.verify(source, found).passed
    assert found.price.transposes + found.price.hidden == found.tiers[0].value
    plan = layoutsolve.plan(source, found)
    again = layoutsolve.convert_by(source, layoutsolve.Plan.from_json(plan.to_json()), target=board)
    assert again.content("model.onnx") == found.content("model.onnx") and again.price == found.price
    if found.tiers[0].status == "optimal" and not found.assignment.opaque_views:
        certificate, model = layoutsolve.certify(source, found), found.content("model.onnx")
        checked = layoutsolve.check_certificate(source, model, certificate, target=board)
        assert checked.tiers[0].bound == found.tiers[0].value


def test_a_certificate_knows_where_operators_run(board: Path) -> None:
    """Rows of another backend, bounds that do not follow and other crossings are refused."""
    source = network(3).source
    found = layoutsolve.convert(source, target=board)
    assert {each["backend"] for each in layoutsolve.plan(source, found).facts["operators"] if "backend" in each} > {""}
    certificate, model = layoutsolve.certify(source, found), found.content("model.onnx")
    dearer = replace(certificate.price, hidden=certificate.price.hidden + 1)
    with pytest.raises(layoutsolve.CertificateError, match="cost"):
        layoutsolve.check_certificate(source, model, replace(certificate, price=dearer), target=board)
    assert len(certificate.rows) > len(found.assignment.rows)  # markers have ends
    for number, row in [*enumerate(certificate.rows)][::3]:
        rows = (*certificate.rows[:number], replace(row, way=row.way + 1), *certificate.rows[number + 1 :])
        with pytest.raises(layoutsolve.CertificateError):
            layoutsolve.check_certificate(source, model, replace(certificate, rows=rows), target=board)
    dear = board.with_name("dear.toml")
    dear.write_text(THREE.replace("crossing = 2", "crossing = 3"), encoding="utf-8")
    with pytest.raises(layoutsolve.CertificateError, match="has changed since the certificate"):
        layoutsolve.check_certificate(source, model, certificate, target=dear)


def test_the_worked_example(tmp_path: Path) -> None:
    """The target that the documentation shows keeps what is slow elsewhere together."""
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
    (text,) = (block for block in page.split("```toml\n")[1:] if block.startswith('name = "board"'))
    path = tmp_path / "board.toml"
    path.write_text(text.split("```")[0], encoding="utf-8")
    net = Network()
    x = net.conv(net.input(1, 8, 8, 4), 4, 3)
    source = net.model(net.add(net.conv(x, 4, 3), net.conv(x, 4, 1))).source
    found = layoutsolve.convert(source, target=path)
    operators = layoutsolve.plan(source, found).facts["operators"]
    assert [each["backend"] for each in operators if each["kind"] == "operator"] == ["gpu"] * 4
    assert found.assignment.status == "optimal"
    assert (found.price.transposes, found.price.hidden) == (0, 3 + 2)  # three forms at 1, and two crossings


def test_too_many_sources(tmp_path: Path) -> None:
    """An operator that may take each of its tensors from several places has too many rows, which is said."""
    net = Network()
    x = net.input(1, 8, 8, 4)
    parts = [net.conv(x, 4, 3) for _ in range(8)]
    source = net.model(net.concat(3, *parts)).source
    path = tmp_path / "many.toml"
    backends = "".join(f"[backends.{name}]\ncrossing = 1\n" for name in "abc")
    forms = "".join(
        f'[[forms]]\noperators = ["Conv", "Concat"]\npolicy = "any"\nbackend = "{name}"\n' for name in "abc"
    )
    path.write_text(f'name = "many"\nextends = "onnx"\nchoose = true\n{backends}{forms}', encoding="utf-8")
    with pytest.raises(layoutsolve.OptionError, match="reads too many tensors that may be written in several backends"):
        layoutsolve.convert(source, target=path)
