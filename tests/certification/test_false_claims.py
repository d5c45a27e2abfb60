"""What is changed in a certificate is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

import layoutsolve
from layoutsolve import Certificate, CertificateError, check_certificate
from layoutsolve.certification.certificate import _seal
from layoutsolve.solver.proof.dual_bound import DualValues
from layoutsolve.solver.proof.tree import Step
from tests.certification.certified import case, tampered

EQUIVALENT = ("reading", "boundary", "charged", "unseen")
"""Facts that may be other ones, and the claim as true as before, where the model has nothing that they bear upon."""


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


def test_every_false_claim_is_detected() -> None:
    """With a seal that fits, what was changed is found to be false, to mean the same, to claim less, or to be proven
    in another way.
    """
    source, model, certificate = case("small")
    facts = json.loads(certificate.to_json())
    refuted = 0
    for name in facts:
        for inner in islice(mutations(facts[name]), None, None, 2):
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
    assert refuted > 50
