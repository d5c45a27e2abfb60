"""Certificates beside models that are not what is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import onnx
import pytest

from experiments.fuzz.forgeries import Case as Certified
from experiments.fuzz.forgeries import of_rows
from layoutsolve import Assignment, Boundary, Certificate, CertificateError, check_certificate
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from tests.certification.certified import Case, case, converted


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
