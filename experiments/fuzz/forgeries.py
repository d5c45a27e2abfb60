"""Forged certificates: none is accepted as proven that is not what the honest file has.

Small random networks are converted and certified, each for one objective. Every field of each certificate, at any
depth, is changed in many ways: to values of other kinds, to numbers beside and far from its own, to what the same field
has in another certificate; it is left out, or given twice. The seal fits again. Then the rows of single operators are
changed to others, the file is written from them, and the certificate is about that file, with its price as a bound and
with the highest bounds that can be proven of it.

What is accepted may say proven of a tier only with the value that the honest file has in it and in all tiers before, or
with 0. Whatever else happens is an error of the certificate: no other exception is raised.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from random import Random
from typing import Any

import layoutsolve
from layoutsolve import Assignment, Certificate, CertificateError, Conversion, ConversionError
from layoutsolve.certification.certificate import Bound, CertifiedRow, _seal
from layoutsolve.certification.checker import Recheck
from layoutsolve.conversion.translation import FileOptions, content_of, emitted
from layoutsolve.solver import OBJECTIVES
from layoutsolve.solver.proof.prover import prove
from layoutsolve.solver.proof.restatement import Restated, restate
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.random_models import network

Path = tuple[str | int, ...]
"""Where a field is: keys of objects and places in lists."""

ABSENT, TWICE = object(), object()
"""Changes to a field that are no values: it is left out, or a list has it twice."""

CERTIFICATES, WAYS, LARGEST = 50, 20, 5
"""How many certificates there are, in how many ways each field is changed, and the most operators of a network."""

DEPTHS = (100, 300, 900, 5000)


@dataclass(frozen=True)
class Case:
    """A model, its conversion and what is certified of it."""

    source: bytes
    conversion: Conversion
    certificate: Certificate

    @cached_property
    def model(self) -> bytes:
        return self.conversion.content("")

    @cached_property
    def honest(self) -> Recheck:
        return layoutsolve.check_certificate(self.source, self.model, self.certificate)

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.certificate.to_json())
        return found


def cases(count: int, largest: int = LARGEST, first: int = 0) -> Iterator[Case]:
    """Certificates of small networks, whose seeds begin with ``first``, one objective after the other."""
    seed, made, objectives = first, 0, list(OBJECTIVES)
    while made < count:
        drawn = network(seed)
        seed += 1
        if len(drawn.steps.builder.subgraph.operators) > largest:
            continue
        with suppress(ConversionError):
            conversion = layoutsolve.convert(drawn.source, objective=objectives[made % len(objectives)])
            if any(ranked(conversion.price, conversion.assignment.goal.levels)):
                yield Case(drawn.source, conversion, layoutsolve.certify(drawn.source, conversion))
                made += 1


def fields(fact: object, path: Path = ()) -> Iterator[Path]:
    """Every field at any depth."""
    inner = fact.items() if isinstance(fact, dict) else enumerate(fact) if isinstance(fact, list) else ()
    if path:
        yield path
    for key, each in inner:
        yield from fields(each, (*path, key))


def kind(path: Path) -> str:
    """What a field is called, wherever in a list, or under whatever operator and layout of a proof."""
    words = ["[]" if isinstance(each, int) or each[:1].isdigit() or " " in each else each for each in path]
    return ".".join(words)


def sampled(facts: dict[str, Any], random: Random, most: int = 1) -> list[Path]:
    """Some fields of each kind."""
    kinds: dict[str, list[Path]] = {}
    for path in fields(facts):
        kinds.setdefault(kind(path), []).append(path)
    return [path for paths in kinds.values() for path in random.sample(paths, min(most, len(paths)))]


def at(facts: Any, path: Path) -> Any:
    """What a field says; None where there is no such field."""
    try:
        for each in path:
            facts = facts[each]
    except (LookupError, TypeError):
        return None
    return facts


def near(fact: object) -> list[object]:
    """Values like the field's own."""
    if isinstance(fact, bool) or fact is None:
        return [not fact, 0, 1]
    if isinstance(fact, int):
        return [fact + 1, fact - 1, -fact, 2 * fact, fact // 2, fact + 2**40, str(fact), float(fact), [fact]]
    if isinstance(fact, str):
        words = fact.split(" ")
        turned = [" ".join(words[::-1]), fact[:-1], fact[1:], fact + fact, f"{fact} ", fact.upper(), fact[::-1]]
        digits = [fact.replace(old, new) for old, new in ("01", "10", "12", "21")]
        return [*turned, *digits, [fact], {fact: fact}]
    if isinstance(fact, list):
        return [fact[:-1], fact[1:], fact[::-1], fact * 2, [*fact, None], [fact], dict(enumerate(fact))]
    assert isinstance(fact, dict)
    items = list(fact.items())
    keys = [key for key, _ in items]
    moved = dict(zip(keys, [value for _, value in items[1:] + items[:1]], strict=True))
    return [dict(items[:-1]), dict(items[1:]), moved, {**fact, "more": 0}, {**fact, "": {}}, keys, [fact], items]


FAR: list[object] = [None, True, 0, -1, 2**31, 2**63 - 1, -(2**63), 10**400, 0.5, 1e308, float("inf"), float("nan")]
FAR += ["", "x", "\u0000", "\U0001f600" * 9, "1.2 0 - : 0 : x", "9" * 5000, "[" * 999, [], {}, [[]], [None], {"": None}]


def nested(depth: int) -> dict[str, Any]:
    """A proof in so many steps."""
    found: dict[str, Any] = {"own": 0, "earlier": [], "layouts": {}, "orders": {}, "rest": None}
    for _ in range(depth):
        found = {**found, "rest": found}
    return found


def split(depth: int) -> dict[str, Any]:
    """A proof in so many cases."""
    found: dict[str, Any] = nested(0)
    for _ in range(depth):
        found = {"operator": 0, "port": 0, "layout": "0", "inside": nested(0), "outside": found}
    return found


def changes(fact: object, elsewhere: object, random: Random, ways: int) -> list[object]:
    """Changes to a field: those near to it first, then so many far ones that there are as many ``ways`` at least."""
    found = [ABSENT, TWICE, *near(fact)]
    if elsewhere is not None:
        found.append(elsewhere)
    more = [each for each in FAR if type(each) is not type(fact) or each != fact]
    return [*found, *random.sample(more, min(len(more), max(ways - len(found), 4)))]


def changed(facts: Any, path: Path, change: object) -> Any:
    """Facts with one field changed."""
    key, *rest = path
    inner = changed(facts[key], tuple(rest), change) if rest else change
    if isinstance(facts, list):
        assert isinstance(key, int)
        middle = [] if inner is ABSENT else [facts[key]] * 2 if inner is TWICE else [inner]
        return [*facts[:key], *middle, *facts[key + 1 :]]
    left = {name: fact for name, fact in facts.items() if inner is not ABSENT or name != key}
    return left if inner is ABSENT else {**left, f"{key} ": facts[key]} if inner is TWICE else {**left, key: inner}


def mutants(case: Case, other: Case, random: Random, ways: int = WAYS) -> Iterator[tuple[str, str]]:
    """Texts of certificates with one field changed whose seal fits, each with the name of the field."""
    facts, elsewhere = case.facts, other.facts
    for path in sampled(facts, random):
        for change in changes(at(facts, path), at(elsewhere, path), random, ways):
            yield kind(path), sealed(changed(facts, path, change))
    for number in range(len(facts["bounds"])):
        for depth in DEPTHS:
            for deep in (nested, split):
                with suppress(RecursionError):
                    yield "bounds.[].proof", sealed(changed(facts, ("bounds", number, "proof"), deep(depth)))


def sealed(facts: dict[str, Any]) -> str:
    """The text of a certificate with a seal that fits, unless that is what was changed."""
    with suppress(RecursionError, ValueError, TypeError):
        if "seal" in facts and len(str(facts["seal"])) == 64:
            facts = {**facts, "seal": _seal(facts)}
    return json.dumps(facts)


def judged(case: Case, model: bytes, forged: Certificate | str, values: Sequence[int] | None = None) -> str:
    """What becomes of a forged certificate: 'unread', 'refused', 'accepted', or 'FALSE' where it is said to be proven
    and is not. ``values`` are those of the honest file in the tiers; by default it is that file.
    """
    if isinstance(forged, str):
        try:
            forged = Certificate.from_json(forged)
        except CertificateError:
            return "unread"
    try:
        found = layoutsolve.check_certificate(case.source, model, forged)
    except CertificateError:
        return "refused"
    honest = {each.tier: each for each in case.honest.tiers}
    if values is None and any(each.proven and not honest[each.tier].proven for each in found.tiers):
        return "FALSE"
    own = [*(each.value for each in case.honest.tiers), case.honest.copies]
    same = True
    for each, value in zip(found.tiers, own, strict=False):
        same = same and each.value == value
        if each.proven and each.value and not same:
            return "FALSE"
    return "FALSE" if found.proven and [*(each.value for each in found.tiers), found.copies] != own else "accepted"


def forgeries(case: Case, random: Random) -> Iterator[tuple[bytes, Certificate]]:
    """Files with other rows and certificates of them, which hold but for their bounds, and such that hold."""
    conversion = case.conversion
    chosen = list(worse(conversion.assignment, case))
    random.shuffle(chosen)
    for rows in chosen:
        with suppress(CertificateError, ConversionError):
            yield from of_rows(case, rows)


def worse(found: Assignment, case: Case) -> Iterator[Assignment]:
    """Assignments that are not as good, each with the row of one operator changed, and of all that can follow it."""
    problem = Statement(found.graph, case.conversion.boundary, found.goal).layouts()
    known = [{row.layouts: number for number, row in reversed([*enumerate(each.rows)])} for each in problem.operators]
    own = [places.get(found.row(number).layouts) for number, places in enumerate(known)]
    if None in own:
        return
    for number, operator in enumerate(problem.operators):
        for at_row in range(len(operator.rows)):
            alone = [at_row if each == number else place for each, place in enumerate(own) if place is not None]
            for rows in {tuple(alone), tuple(followed(problem, alone, number))}:
                total = price(problem, rows)
                if ranked(total, found.goal.levels) > ranked(found.price, found.goal.levels):
                    yield replace(found, problem=problem, rows=rows, price=total)


def followed(problem: LayoutProblem, rows: Sequence[int], first: int) -> list[int]:
    """Rows with which neighbours of an operator need no move from it, as far as they have such, then their own ones."""
    found, waiting, fixed = list(rows), [first], {first}
    while waiting:
        number = waiting.pop()
        operator = problem.operators[number]
        for variable, layout in zip(operator.ports, operator.rows[found[number]].layouts, strict=True):
            writer = problem.writers[variable]
            for other, port in (*problem.readers[variable], *([] if writer is None else [writer])):
                places = enumerate(problem.operators[other].rows)
                fitting = [] if other in fixed else [place for place, row in places if row.layouts[port] == layout]
                if fitting:
                    found[other] = fitting[0]
                    waiting.append(other)
                    fixed.add(other)
    return found


def of_rows(case: Case, rows: Assignment) -> Iterator[tuple[bytes, Certificate]]:
    """The file of other rows, with certificates that claim its price as bounds by the honest proofs, and all that can
    be proven.
    """
    conversion, chosen = case.conversion, [rows.row(number) for number in range(len(rows.rows))]
    certificate = case.certificate
    stated = restate(
        conversion.graph,
        conversion.boundary,
        rows.goal,
        [row.layouts for row in chosen],
        certificate.charged,
        certificate.unseen,
    )
    model, external, _ = emitted(
        conversion.graph,
        conversion.boundary,
        rows,
        conversion.reading,
        conversion.provenance,
        FileOptions(certificate.opset),
    )
    data = content_of(model, external, "")
    ways = stated.ways(chosen)
    named = [
        CertifiedRow(each.title, row.layouts, way)
        for each, row, way in zip(certificate.rows, chosen, ways, strict=True)
    ]
    about = replace(certificate, model=hashlib.sha256(data).hexdigest(), rows=tuple(named), price=rows.price)
    values = ranked(rows.price, stated.claimed)
    claimed = [replace(each, bound=value) for each, value in zip(certificate.bounds, values, strict=True)]
    yield data, replace(about, bounds=tuple(claimed))
    yield data, replace(about, bounds=proven(stated, rows, values))


def proven(stated: Restated, rows: Assignment, values: Sequence[int]) -> tuple[Bound, ...]:
    """The highest bounds that are found, each with its proof."""
    found = prove(stated.questions(rows.price), values, values[0])
    return tuple(Bound(tier, *proof) for tier, proof in zip(stated.claimed, found, strict=True))


def tried(case: Case, other: Case, random: Random, ways: int, files: int) -> Counter[tuple[str, str]]:
    """What became of all that was forged of a certificate, by sort and outcome."""
    found: Counter[tuple[str, str]] = Counter()
    known: dict[str, str] = {}
    for name, text in mutants(case, other, random, ways):
        meant = _meaning(text)  # of many changes it is the same
        if meant is None or meant not in known:
            known[meant or ""] = _outcome(case, case.model, text)
        outcome = known[meant or ""]
        found["fields", outcome] += 1
        found[f"field {name}", "all"] += 1
        if outcome in ("FALSE", "RAISED"):
            print(f"{outcome}: {name}: {text[:300]}")
    for data, forged in islice(forgeries(case, random), files):
        outcome = _outcome(case, data, forged, ())
        found["files", outcome] += 1
        if outcome in ("FALSE", "RAISED"):
            print(f"{outcome}: a file with {forged.price}, where {case.certificate.price} is the honest price")
    return found


def _meaning(text: str) -> str | None:
    """What a certificate says, however it is written; None where it is none."""
    try:
        return repr(Certificate.from_json(text))
    except Exception:  # which is noticed when it is judged
        return None


def _outcome(case: Case, model: bytes, forged: Certificate | str, values: Sequence[int] | None = None) -> str:
    try:
        return judged(case, model, forged, values)
    except Exception as error:
        print(f"RAISED: {type(error).__name__}: {str(error)[:200]}")
        return "RAISED"


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certificates", type=int, default=CERTIFICATES, metavar="N", help="default: %(default)s")
    parser.add_argument("--ways", type=int, default=WAYS, metavar="N", help="changes of a field (default: %(default)s)")
    parser.add_argument("--files", type=int, default=40, metavar="N", help="files of other rows (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="default: %(default)s")
    parser.add_argument("--operators", type=int, default=LARGEST, metavar="N", help="the most (default: %(default)s)")
    options = parser.parse_args(given)
    random, found = Random(options.first), Counter[tuple[str, str]]()
    before: Case | None = None
    for case in cases(options.certificates, options.operators, options.first):
        found += tried(case, before or case, random, options.ways, options.files)
        before = case
        print(".", end="", file=sys.stderr, flush=True)
    kinds = [count for (sort, _), count in found.items() if sort.startswith("field ")]
    print(f"{options.certificates} certificates, {len(kinds)} kinds of fields, each changed {min(kinds)} times or more")
    for sort in ("fields", "files"):
        outcomes = {outcome: count for (each, outcome), count in sorted(found.items()) if each == sort}
        print(f"{sort}: {sum(outcomes.values())} forged: {', '.join(f'{n} {name}' for name, n in outcomes.items())}")


if __name__ == "__main__":
    main()
