"""Certificates: what they claim holds, and what does not hold is refused."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from experiments.fuzz.forgeries import Case as Certified
from experiments.fuzz.forgeries import of_rows
from experiments.make.demo import mobilenet
from layoutsolve import Assignment, Boundary, Certificate, CertificateError, certify, check_certificate
from layoutsolve.certification.certificate import _seal
from layoutsolve.cli.command_line import main
from layoutsolve.frontend.tflite.lowering.options import QUANT
from layoutsolve.solver.proof.dual_bound import DualValues
from layoutsolve.solver.proof.tree import Step
from layoutsolve.solver.statement.objective import OBJECTIVES, coarse_levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import orders, projection_bound
from layoutsolve.solver.targets.target import Cost
from layoutsolve.solver.targets.target_file import shipped
from tests.builder import Builder
from tests.networks import Network, Quantized

Case = tuple[bytes, bytes, Certificate]
WAYS = [
    (strategy, objective)
    for strategy in ("cpsat", "mincut")
    for objective, tiers in OBJECTIVES.items()
    if strategy == "cpsat" or (coarse_levels(tiers) is not None and objective != "min-latency")
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


def image() -> bytes:
    """A quantized network that wants planes, and reads an image."""
    net = Quantized()
    x = net.conv(net.input(1, 12, 12, 3), 8, dilation=(2, 2), activation="RELU")
    for _ in range(2):
        x = net.conv(net.depthwise(x), 36, 1)
    return net.model(net.mean(x, 1, 2)).source


def heads() -> bytes:
    """Maps with 3, 3 and 2 boxes for each pixel, joined: the first two are joined before the third."""
    net = Network()
    x, rows = net.input(1, 8, 8, 3), []
    for count in (3, 3, 2):
        x = net.conv(x, 4 * count, dilation=(2, 2))
        rows.append(net.reshape(x, 1, 64 * count, 4))
    return net.model(net.concat(1, *rows)).source


@cache
def converted(
    name: str, strategy: str = "cpsat", objective: str = "min-transpose"
) -> tuple[bytes, layoutsolve.Conversion]:
    sources = {"image": image, "small": lambda: branching(2), "large": lambda: branching(12), "heads": heads}
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


@pytest.mark.members(12)
@pytest.mark.parametrize("name", ["image", "small", "large"])
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


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_rows_that_nothing_leads_to(first: int) -> None:
    """Where dimensions have size 1, the layouts that are recorded need not lead to the very row that was chosen."""
    for seed in range(first, first + 12):
        source, objective = lone_rows(seed), ("min-executed", "min-transpose", "min-bytes")[seed % 3]
        conversion = layoutsolve.convert(source, objective=objective)
        assert check_certificate(source, conversion.content(""), certify(source, conversion)).tiers


def test_tampered_price() -> None:
    price = case("image")[2].price
    tampered(case("image"), "the recorded alternatives cost", price=replace(price, transposes=0))
    tampered(case("image"), "the recorded alternatives cost", price=replace(price, bytes=price.bytes - 1))


def test_tampered_rows() -> None:
    """A layout that the operator cannot run in, another operator, another way, one too few, layouts of other atoms."""
    first, row, *rest = case("image")[2].rows

    def other(message: str, **changes: object) -> None:
        tampered(case("image"), message, rows=(first, replace(row, **changes), *rest))  # type: ignore[arg-type]

    other("cannot run in the layouts", layouts=(row.layouts[0][::-1], *row.layouts[1:]))
    other("cannot run in the layouts", layouts=row.layouts[:-1])
    other("cannot run in the layouts", layouts=(((7,),), *row.layouts[1:]))
    other("cannot run in the layouts", way=1)
    other("cannot run in the layouts", way=-1)
    other("operator 'else' where", title="else")
    tampered(case("image"), "operators, the certificate", rows=(first, *rest))


@pytest.mark.parametrize("name", ["small", "large"])
def test_tampered_bounds(name: str) -> None:
    bounds = case(name)[2].bounds

    def other(number: int, message: str, **changes: object) -> None:
        changed = replace(bounds[number], **changes)  # type: ignore[arg-type]
        tampered(case(name), message, bounds=(*bounds[:number], changed, *bounds[number + 1 :]))

    for number, each in enumerate(bounds):
        other(number, f"the bound of {each.bound + 1} on .* does not follow", bound=each.bound + 1)
        other(number, "the bound of -1 on .* does not follow", bound=-1)
        other(number, "bounds of other levels", tier=("copies",))
        if each.bound:
            other(number, f"the bound of {each.bound} on .* does not follow", proof=None)
    tampered(case(name), "bounds of other levels", bounds=bounds[1:])
    tampered(case(name), "do not fit|cannot run|cost", boundary=layoutsolve.Boundary("nchw", "nchw"))


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


def forged_file(given: Case, change: Callable[[onnx.ModelProto], object]) -> tuple[bytes, Certificate]:
    """Another file, and a certificate that is about it."""
    proto = onnx.load_from_string(given[1])
    change(proto)
    data = proto.SerializeToString(deterministic=True)
    return data, replace(given[2], model=hashlib.sha256(data).hexdigest())


def unconnected(proto: onnx.ModelProto) -> None:
    """Each node reads what nothing else does, so that all counts are as they were."""
    for number, node in enumerate(proto.graph.node):
        if node.op_type == "Transpose":
            continue
        for place, name in enumerate(node.input):
            if name in {each.name for each in proto.graph.initializer}:
                continue
            node.input[place] = f"loose{number}.{place}"


def zeroed(proto: onnx.ModelProto) -> None:
    for constant in proto.graph.initializer:
        constant.raw_data = bytes(len(constant.raw_data))


def renamed(proto: onnx.ModelProto) -> None:
    proto.graph.name += "x"


@pytest.mark.parametrize("name", ["image", "small", "large", "heads"])
@pytest.mark.parametrize("change", [unconnected, zeroed, renamed])
def test_file_that_computes_something_else(name: str, change: Callable[[onnx.ModelProto], None]) -> None:
    """All counts are those of the certificate, and all digests fit."""
    data, certificate = forged_file(case(name), change)
    changed = data != case(name)[1]
    assert changed or change is zeroed
    if changed:
        with pytest.raises(CertificateError, match="is not what the recorded rows are written as"):
            check_certificate(case(name)[0], data, Certificate.from_json(certificate.to_json()))


def test_file_with_other_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that writes something else than the rows cost is found by counting."""
    source, model, certificate = case("small")
    (node, *_) = [node for node in onnx.load_from_string(model).graph.node if node.op_type == "Transpose"]
    count = certificate.price.transposes

    def widen(other: onnx.ModelProto) -> None:
        for described in (*other.graph.input, *other.graph.output, *other.graph.value_info):
            described.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE

    def scatter(other: onnx.ModelProto) -> None:
        for each in other.graph.node:
            if each.name == node.name:
                each.attribute[0].ints[:] = [3, 2, 1, 0]

    changes: list[tuple[Callable[[onnx.ModelProto], object], str]] = [
        (lambda other: other.graph.node.append(node), f"has {count + 1} Transpose operators, not {count}"),
        (lambda other: other.graph.node.add(op_type="Reshape"), r"has 1 Reshape operators, not 0"),
        (lambda other: other.graph.node.add(op_type="Transpose"), "does not state the input shape"),
        (widen, f"{2 * certificate.price.bytes} bytes moved by Transposes, not"),
        (scatter, "2 units of layout penalty of Transposes, not 0"),
    ]
    for change, message in changes:
        data, forged = forged_file(case("small"), change)
        with pytest.raises(CertificateError, match="is not what the recorded rows are written as"):
            check_certificate(source, data, forged)
        monkeypatch.setattr("layoutsolve.certification.checker.content_of", lambda *_, data=data: data)
        with pytest.raises(CertificateError, match=message):
            check_certificate(source, data, forged)
        monkeypatch.undo()


def test_file_with_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that stands in the file once more, in another order, is found by counting."""

    def copy(proto: onnx.ModelProto) -> None:
        largest = max(proto.graph.initializer, key=lambda constant: len(constant.raw_data))
        added = proto.graph.initializer.add(name="copy", data_type=largest.data_type, dims=[len(largest.raw_data)])
        added.raw_data = largest.raw_data[::-1]

    data, forged = forged_file(case("image"), copy)
    monkeypatch.setattr("layoutsolve.certification.checker.content_of", lambda *_: data)
    with pytest.raises(CertificateError, match="bytes of duplicated initializers, not 0"):
        check_certificate(case("image")[0], data, forged)


def worse(found: Assignment, boundary: Boundary) -> Iterator[Assignment]:
    """Assignments that cost more, each with the row of one operator changed."""
    problem = Statement(found.graph, boundary, found.goal).layouts()
    for number, operator in enumerate(problem.operators):
        for row in operator.rows:
            chosen = [row if each == number else found.row(each) for each in range(len(found.rows))]
            numbers = [
                next((at for at, known in enumerate(each.rows) if known.layouts == own.layouts), None)
                for each, own in zip(problem.operators, chosen, strict=True)
            ]
            rows = tuple(at for at in numbers if at is not None)
            if len(rows) == len(numbers):
                total = price(problem, rows)
                if ranked(total, found.goal.levels) > ranked(found.price, found.goal.levels):
                    yield replace(found, problem=problem, rows=rows, price=total)


def certified_rows(name: str, rows: Assignment) -> tuple[bytes, Certificate]:
    """The file and the certificate of other rows, which hold but for the bounds: each is said to be the price."""
    return next(of_rows(Certified(*converted(name), case(name)[2]), rows))


@pytest.mark.parametrize("name", ["small", "large"])
def test_worse_rows(name: str) -> None:
    """Rows that cost more, with their file, their price, and that as a bound: only the bounds are false."""
    conversion = converted(name)[1]
    tried = 0
    for rows in islice(worse(conversion.assignment, conversion.boundary), 6):
        data, forged = certified_rows(name, rows)
        with pytest.raises(CertificateError, match=r"the bound of .* on .* does not follow from its proof"):
            check_certificate(case(name)[0], data, Certificate.from_json(forged.to_json()))
        honest = replace(forged, bounds=tuple(replace(each, bound=0, proof=None) for each in forged.bounds))
        assert not check_certificate(case(name)[0], data, honest).proven
        tried += 1
    assert tried >= 2


def changed_proofs(proof: Step) -> Iterator[Step]:
    """The same with an offer more, one less, one of nobody, one that is negative, and in other units."""
    for place, said in proof.dual_values.layouts.items():
        for layout, amount in said.items():
            for other in (amount + 1, amount - 1, 2 * amount, -amount):
                layouts = {**proof.dual_values.layouts, place: {**said, layout: other}}
                yield replace(proof, dual_values=replace(proof.dual_values, layouts=layouts))
        yield replace(
            proof, dual_values=replace(proof.dual_values, layouts={**proof.dual_values.layouts, (10**6, 0): said})
        )
    yield replace(proof, own=proof.own + 1)
    yield replace(proof, own=0)
    yield replace(proof, own=-proof.own)
    yield replace(proof, earlier=(*proof.earlier, 1))
    yield replace(proof, dual_values=DualValues())


@pytest.mark.parametrize("name", ["image", "small", "large", "heads"])
def test_changed_multipliers(name: str) -> None:
    """Whatever multipliers are changed to, no more is accepted than what is true; most changes are refused."""
    source, model, certificate = case(name)
    first, *rest = certificate.bounds
    assert isinstance(first.proof, Step)
    refused = 0
    proofs = list(changed_proofs(first.proof))
    for proof in [*proofs[:4], *proofs[-4:]]:
        for more in (0, 1):
            forged = replace(certificate, bounds=(replace(first, proof=proof, bound=first.bound + more), *rest))
            try:
                check_certificate(source, model, forged)
            except CertificateError:
                refused += 1
            else:
                assert more == 0
    assert refused >= 8


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


@pytest.mark.members(2)
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


def test_every_field_is_read() -> None:
    """No field may be missing, and none may be of another kind."""
    facts = json.loads(case("small")[2].to_json())
    for name in facts:
        less = {key: value for key, value in facts.items() if key != name}
        with pytest.raises(CertificateError):
            Certificate.from_json(json.dumps(less))
    for name in ("boundary", "rows", "price", "bounds"):
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


EQUIVALENT = ("reading", "boundary", "charged", "unseen")
"""Facts that may be other ones, and the claim as true as before, where the model has nothing that they bear upon."""


def test_every_false_claim_is_detected() -> None:
    """With a seal that fits, what was changed is found to be false, to mean the same, to claim less, or to be proven
    in another way.
    """
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
                assert name in EQUIVALENT or replace(forged, bounds=certificate.bounds) == certificate, (name, inner)
                pairs = zip(forged.bounds, certificate.bounds, strict=True)
                assert all(mine.bound <= own.bound and mine.tier == own.tier for mine, own in pairs), inner
    assert refuted > 100


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
