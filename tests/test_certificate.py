"""Certificates: what they claim holds, and what does not hold is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from experiments.demo import mobilenet
from layoutsolve import Certificate, CertificateError, certify, check_certificate
from layoutsolve.certificate import _seal
from layoutsolve.cli import main
from layoutsolve.solver.statement.objective import OBJECTIVES, coarse_tiers
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.target import Cost
from layoutsolve.solver.statement.target_file import shipped
from tests.builder import Builder
from tests.networks import Network

Case = tuple[bytes, bytes, Certificate]
WAYS = [
    (strategy, objective)
    for strategy in ("cpsat", "mincut")
    for objective, tiers in OBJECTIVES.items()
    if strategy == "cpsat" or (coarse_tiers(tiers) is not None and objective != "min-latency")
]
"""The strategies that prove something, with the objectives that they serve."""


def branching(joins: int) -> bytes:
    """Transposed images that are added up in two orders by turns, with an output after each: no order suits all."""
    build = Builder()
    x = build.input("image", (2, 3, 4, 5))
    perm = build.constant("perm", np.array([0, 3, 1, 2], "int32"))
    outputs = []
    for number in range(joins):
        y = build.tensor(f"abs{number}", (2, 3, 4, 5))
        build.operator("ABS", [x], [y])
        turned = build.tensor(f"turned{number}", (2, 5, 3, 4))
        build.operator("TRANSPOSE", [y, perm], [turned])
        z = build.tensor(f"exp{number}", (2, 5, 3, 4))
        build.operator("EXP", [turned], [z])
        total = build.tensor(f"sum{number}", (2, 3, 4, 5))
        build.operator("ADD", [x, y], [total])
        outputs.append(z)
        x = total
    return build.finish(*outputs, x)


def heads() -> bytes:
    """Maps with 3, 3 and 2 boxes for each pixel, joined: the first two are joined before the third."""
    net = Network()
    x, rows = net.input(1, 8, 8, 3), []
    for count in (3, 3, 2):
        x = net.conv(x, 4 * count)
        rows.append(net.reshape(x, 1, 64 * count, 4))
    return net.model(net.concat(1, *rows)).source


@cache
def converted(
    name: str, strategy: str = "cpsat", objective: str = "min-transpose"
) -> tuple[bytes, layoutsolve.Conversion]:
    sources = {"demo": mobilenet, "small": lambda: branching(2), "large": lambda: branching(12), "heads": heads}
    source = sources[name]()
    return source, layoutsolve.convert(source, strategy=strategy, objective=objective)


@cache
def case(name: str, strategy: str = "cpsat", objective: str = "min-transpose") -> Case:
    source, conversion = converted(name, strategy, objective)
    return source, conversion.content(""), certify(source, conversion)


def methods(name: str, strategy: str = "cpsat", objective: str = "min-transpose") -> list[str]:
    """What the bound of each component comes from."""
    return [part.method for part in converted(name, strategy, objective)[1].assignment.parts]


def tampered(given: Case, message: str, **changes: object) -> None:
    """A certificate with other claims is refused, also after it has been a file."""
    source, model, certificate = given
    forged = Certificate.from_json(replace(certificate, **changes).to_json())  # type: ignore[arg-type]
    with pytest.raises(CertificateError, match=message):
        check_certificate(source, model, forged)


@pytest.mark.parametrize("name", ["demo", "small", "large"])
@pytest.mark.parametrize(("strategy", "objective"), WAYS)
def test_round_trip(name: str, strategy: str, objective: str) -> None:
    """What is written is read again, holds, and adds up."""
    source, model, certificate = case(name, strategy, objective)
    assert Certificate.from_json(certificate.to_json()) == certificate
    rechecked = check_certificate(source, model, certificate)
    assert sorted((*rechecked.proven, *rechecked.recorded)) == list(range(len(certificate.components)))
    assert certificate.bound == certificate.fixed + sum(part.bound for part in certificate.components)
    assert set(methods(name, strategy, objective)) <= {"min cut"} or strategy == "cpsat"


def test_concatenation_in_steps() -> None:
    """The source is read in the same steps again."""
    source, model, certificate = case("heads")
    assert certificate.price.transposes == certificate.bound == 3
    titles = [title for title, _ in certificate.rows]
    assert titles.count("CONCATENATION#6") == 2
    check_certificate(source, model, certificate)


@pytest.mark.parametrize("few", [1, 2, 32])
def test_few_candidates_first(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs nothing is proven among few candidates, anything else among all; the check states the same."""
    monkeypatch.setattr("layoutsolve.solver.strategies.staged.FEW", few)
    for source, ends in ((mobilenet(), "free"), (mobilenet(), "keep"), (branching(6), "keep"), (heads(), "free")):
        conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
        assert conversion.report["status"] == "optimal"
        check_certificate(source, conversion.content(""), certify(source, conversion))


def test_what_is_proven_again() -> None:
    """Small components by enumeration, those of two orders by a minimum cut; the demo's one Transpose is no choice."""
    assert set(methods("demo")) == {"enumeration"}
    assert case("demo")[2].fixed == case("demo")[2].bound == 1
    for name, method in (("small", "enumeration"), ("large", "cp-sat")):
        source, model, certificate = case(name)
        assert method in methods(name)
        assert check_certificate(source, model, certificate).recorded == ()


def test_without_a_minimum_cut_the_record_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where networkx is missing, a large component rests on the solver's bound, and the check says so."""
    source, model, certificate = case("large")
    monkeypatch.setitem(sys.modules, "networkx", None)
    rechecked = check_certificate(source, model, certificate)
    assert len(rechecked.recorded) == methods("large").count("cp-sat") > 0
    assert "the solver's bound" in str(rechecked)


def test_tampered_price() -> None:
    price = case("demo")[2].price
    tampered(case("demo"), "the recorded rows cost", price=replace(price, transposes=0))
    tampered(case("demo"), "the recorded rows cost", price=replace(price, bytes=price.bytes - 1))


def test_tampered_rows() -> None:
    """A layout that the operator cannot run in, another operator, one too few, and layouts of other atoms."""
    rows = case("demo")[2].rows
    title, layouts = rows[1]
    swapped = (layouts[0][::-1], *layouts[1:])
    tampered(case("demo"), "cannot run in the layouts", rows=(rows[0], (title, swapped), *rows[2:]))
    tampered(case("demo"), "cannot run in the layouts", rows=(rows[0], (title, layouts[:-1]), *rows[2:]))
    tampered(case("demo"), "cannot run in the layouts", rows=(rows[0], (title, (((7,),), *layouts[1:])), *rows[2:]))
    tampered(case("demo"), "operator 'else' where", rows=(rows[0], ("else", layouts), *rows[2:]))
    tampered(case("demo"), "operators, the certificate", rows=rows[:-1])


def test_worse_rows() -> None:
    """Rows that the operators can run in, a sum in another order, so that they do not cost what is recorded."""
    source, _, certificate = case("small")
    problem = Statement(layoutsolve.convert(source).assignment.graph).orders()
    changed = 0
    for number, operator in enumerate(problem.operators):
        title, layouts = certificate.rows[number]
        for other in [
            row.layouts for row in operator.rows if operator.title.startswith("ADD") and row.layouts != layouts
        ]:
            rows = (*certificate.rows[:number], (title, other), *certificate.rows[number + 1 :])
            tampered(case("small"), "the recorded rows cost", rows=rows)
            changed += 1
    assert changed > 0


def test_tampered_bounds() -> None:
    for name in ("small", "large"):
        certificate = case(name)[2]
        first, *rest = certificate.components
        tampered(case(name), "add up to", bound=certificate.bound + 1)
        tampered(case(name), "without a choice cost", fixed=certificate.fixed + 1)
        higher = (replace(first, bound=first.bound + 1), *rest)
        tampered(case(name), "can cost less", components=higher, bound=certificate.bound + 1)
        tampered(case(name), "is not the one", components=(replace(first, operators=("Add",)), *rest))
        tampered(case(name), "components, the certificate", components=())
        tampered(case(name), "cut off", capped=True)
        tampered(case(name), "do not fit|cannot run|cost", boundary=layoutsolve.Boundary("nchw", "nchw"))


def test_lower_bounds_are_true() -> None:
    """A bound that claims less than is known is no lie."""
    source, model, certificate = case("small")
    first, *rest = certificate.components
    weaker = replace(
        certificate, components=(replace(first, bound=first.bound - 1), *rest), bound=certificate.bound - 1
    )
    check_certificate(source, model, weaker)


def test_other_files() -> None:
    source, model, certificate = case("demo")
    with pytest.raises(CertificateError, match="the source is not"):
        check_certificate(source + b"\0", model, certificate)
    with pytest.raises(CertificateError, match="the ONNX file is not"):
        check_certificate(source, case("small")[1], certificate)


def test_file_with_other_operators() -> None:
    """A file that hashes as recorded, but does not have what the rows cost, or does not tell."""
    source, model, certificate = case("small")
    proto = onnx.load_from_string(model)
    (node, *_) = [node for node in proto.graph.node if node.op_type == "Transpose"]
    count = certificate.price.transposes

    def forged(change: Callable[[onnx.ModelProto], object]) -> bytes:
        other = onnx.load_from_string(model)
        change(other)
        return bytes(other.SerializeToString())

    def widen(other: onnx.ModelProto) -> None:
        for described in (*other.graph.input, *other.graph.output, *other.graph.value_info):
            described.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE

    def scatter(other: onnx.ModelProto) -> None:
        for each in other.graph.node:
            if each.name == node.name:
                each.attribute[0].ints[:] = [3, 2, 1, 0]

    for data, message in (
        (forged(lambda other: other.graph.node.append(node)), f"has {count + 1} Transpose operators, not {count}"),
        (forged(lambda other: other.graph.node.add(op_type="Reshape")), r"has 1 Reshape operators, not 0"),
        (forged(lambda other: other.graph.node.add(op_type="Transpose")), "does not tell the shape"),
        (forged(widen), f"{2 * certificate.price.bytes} bytes moved by Transposes, not"),
        (forged(scatter), "2 hidden transpositions of Transposes, not 0"),
        (b"\xff" * 9, "cannot be read"),
    ):
        digest = hashlib.sha256(data).hexdigest()
        with pytest.raises(CertificateError, match=message):
            check_certificate(source, data, replace(certificate, model=digest))


def test_file_with_a_copy() -> None:
    """A constant that stands in the file once more, in another order."""
    source, model, certificate = case("demo")
    proto = onnx.load_from_string(model)
    largest = max(proto.graph.initializer, key=lambda constant: len(constant.raw_data))
    copy = proto.graph.initializer.add(name="copy", data_type=largest.data_type, dims=[len(largest.raw_data)])
    copy.raw_data = largest.raw_data[::-1]
    data = proto.SerializeToString()
    with pytest.raises(CertificateError, match=f"has {len(copy.raw_data)} bytes of copied constants, not 0"):
        check_certificate(source, data, replace(certificate, model=hashlib.sha256(data).hexdigest()))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "other"}', '{"format": "layoutsolve certificate 3"}', "[" * 100_000]
)
def test_no_certificate(text: str) -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        Certificate.from_json(text)


def test_another_format_is_told() -> None:
    facts = {**json.loads(case("small")[2].to_json()), "format": "layoutsolve certificate 2"}
    with pytest.raises(CertificateError, match="its format is not 'layoutsolve certificate 3'"):
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
        monkeypatch.setattr("layoutsolve.certificate.shipped", lambda _, changed=changed: changed)
        with pytest.raises(CertificateError, match="target 'ort-cpu' was measured anew"):
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
    with pytest.raises(CertificateError, match="target 'mine' was measured anew"):
        check_certificate(source, conversion.content(""), own, target=path)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_any_target_can_be_certified(objective: str, tmp_path: Path) -> None:
    """Whatever motions lose, the optimum that is found is the one that is checked."""
    path = tmp_path / "mine.json"
    for hidden in ({"swap": 1}, {"rows": 3, "general": 1}, {"swap": 2, "rows": 2, "general": 2}, {"general": 0}):
        path.write_text(json.dumps({"name": "mine", "extends": "ort-cpu", "hidden": {"Transpose": hidden}}))
        for name in ("demo", "small"):
            source = converted(name)[0]
            conversion = layoutsolve.convert(source, target=path, objective=objective)
            assert conversion.report["target"] == "mine"
            check_certificate(source, conversion.content(""), certify(source, conversion), target=path)


def test_every_field_is_read() -> None:
    """No field may be missing, and none may be of another kind."""
    facts = json.loads(case("small")[2].to_json())
    for name in facts:
        less = {key: value for key, value in facts.items() if key != name}
        with pytest.raises(CertificateError):
            Certificate.from_json(json.dumps(less))
    for name in ("boundary", "rows", "price", "components", "bound"):
        with pytest.raises(CertificateError):
            Certificate.from_json(json.dumps({**facts, name: "x"}))


def mutations(fact: object) -> Iterator[object]:
    """The same facts with one of them changed, at any depth, missing, or one too many."""
    if isinstance(fact, dict):
        yield {**fact, "surplus": 0}
        for key, inner in fact.items():
            yield {other: fact[other] for other in fact if other != key}
            yield from ({**fact, key: changed} for changed in mutations(inner))
    elif isinstance(fact, list):
        yield [*fact, 0]
        for place, inner in enumerate(fact):
            yield [*fact[:place], *fact[place + 1 :]]
            yield from ([*fact[:place], changed, *fact[place + 1 :]] for changed in mutations(inner))
    elif isinstance(fact, bool) or fact is None:
        yield from (not fact, 1, "x")
    elif isinstance(fact, int):
        yield from (fact + 1, fact - 1, -fact if fact else None, float(fact), str(fact))
    else:
        yield from (f"{fact} ", str(fact)[1:] if fact else "x", None, 0)


def test_every_alteration_is_detected() -> None:
    """Whatever is changed in the text of a certificate, it is none any more; the order of its fields is no matter."""
    facts = json.loads(case("small")[2].to_json())
    assert Certificate.from_json(json.dumps(dict(reversed(facts.items())))) == case("small")[2]
    altered = list(mutations(facts))
    assert len(altered) > 200
    for changed in altered:
        with pytest.raises(CertificateError, match="no certificate"):
            Certificate.from_json(json.dumps(changed))


EQUIVALENT = ("reading", "boundary")
"""Facts that may be other ones, and the claim as true as before, where the model has nothing that they bear upon."""


def test_every_false_claim_is_detected() -> None:
    """With a seal that fits, what was changed is found to be false, to mean the same, or to claim less."""
    source, model, certificate = case("small")
    facts = json.loads(certificate.to_json())
    refuted = 0
    for name in facts:
        for inner in mutations(facts[name]):
            changed = {**facts, name: inner}
            changed["seal"] = _seal(changed)
            try:
                forged = Certificate.from_json(json.dumps(changed))
                check_certificate(source, model, forged)
            except CertificateError:
                refuted += 1
            else:
                assert forged == certificate or name in EQUIVALENT, (name, inner)
    assert refuted > 100


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


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, output = tmp_path / "a.tflite", tmp_path / "a.json", tmp_path / "a.onnx"
    source.write_bytes(case("large")[0])
    assert main([str(source), "--certify", str(target)]) == 0
    assert "certificate: the bound is proven again without a search" in capsys.readouterr().out
    check_certificate(source, output, Certificate.load(target))
    assert main([str(source), "--certify", str(target), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["certificate"]
    assert (report["file"], report["recorded"]) == (str(target), [])
    assert main([str(source), "--certify", str(target), "--strategy", "push"]) == 2
    assert "proves nothing" in capsys.readouterr().err
    assert main([str(source), "--certify", str(tmp_path)]) == 2
    with pytest.raises(CertificateError, match="cannot read"):
        Certificate.load(tmp_path / "none.json")


def test_checking_needs_no_solver(tmp_path: Path) -> None:
    """OR-tools is neither needed nor loaded."""
    source, model, certificate = case("large")
    assert "cp-sat" in methods("large")
    for name, data in (("a.tflite", source), ("a.onnx", model)):
        (tmp_path / name).write_bytes(data)
    certificate.save(tmp_path / "a.json")
    code = (
        "import sys; sys.modules['ortools'] = None; import layoutsolve; "
        "layoutsolve.check_certificate('a.tflite', 'a.onnx', layoutsolve.Certificate.load('a.json')); print('holds')"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("holds", "")
