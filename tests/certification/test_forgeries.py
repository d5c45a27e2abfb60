"""Forged certificates: whatever is changed in one, or in the file that it is about, is not accepted as proven."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

import layoutsolve
from experiments.fuzz.forgeries import Case, cases, fields, forgeries, judged, kind, mutants, near, sampled, sealed
from layoutsolve import CertificateError
from layoutsolve.solver import OBJECTIVES
from tests.builder import Builder
from tests.networks import Network


def shared(count: int = 2) -> bytes:
    """Images to which the same constant is added, each in the layout that is chosen for it."""
    build = Builder()
    told = build.constant("told", np.arange(16 * 16 * 4, dtype="float32").reshape(1, 16, 16, 4))
    found = []
    for number in range(count):
        x, y = build.input(f"x{number}", (1, 16, 16, 4)), build.tensor(f"y{number}", (1, 16, 16, 4))
        build.operator("ADD", [x, told], [y], {})
        found.append(y)
    return build.finish(*found)


def boxes(counts: tuple[int, ...] = (3, 2)) -> bytes:
    """Maps with some boxes for each pixel, which are Reshaped before they are joined."""
    net = Network()
    x, rows = net.input(1, 8, 8, 3), []
    for count in counts:
        x = net.conv(x, 4 * count, dilation=(2, 2))
        rows.append(net.reshape(x, 1, 64 * count, 4))
    return net.model(net.concat(1, *rows)).source


def case(source: bytes, **options: object) -> Case:
    conversion = layoutsolve.convert(source, **options)  # type: ignore[arg-type]
    return Case(source, conversion, layoutsolve.certify(source, conversion))


@pytest.mark.members(1)
@pytest.mark.parametrize("first", range(0, 2000, 1000))
def test_whatever_is_changed(first: int) -> None:
    """No field is believed, and no change of one is more than an error."""
    random, (made, other) = Random(first), cases(2, 4, first)
    outcomes = [(name, judged(made, made.model, text)) for name, text in mutants(made, other, random, ways=1)]
    assert not [name for name, outcome in outcomes if outcome == "FALSE"]
    assert {kind(path) for path in fields(made.facts)} == {name for name, _ in outcomes}
    assert sum(outcome != "accepted" for _, outcome in outcomes) > len(outcomes) // 2 > 100


def test_changes_change() -> None:
    """Each field has changes of its own, and deep ones are among those that are sampled."""
    facts = next(cases(1)).facts
    found = sampled(facts, Random(0))
    assert {path[0] for path in found} == set(facts) and max(map(len, found)) >= 4
    assert all(any(each != fact for each in near(fact)) for fact in (True, None, 0, 7, "0 1", "", [1], {"a": 1}))


def files(made: Case, most: int = 60) -> Iterator[tuple[str, layoutsolve.Recheck | None]]:
    """What becomes of files with other rows; what is told of them, None where they are refused."""
    for data, forged in list(forgeries(made, Random(0)))[:most]:
        outcome = judged(made, data, forged, ())
        try:
            yield outcome, layoutsolve.check_certificate(made.source, data, forged)
        except CertificateError:
            yield outcome, None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_files_with_other_rows(objective: str) -> None:
    """Their Reshapes and copies are counted; nothing is proven of them that the honest file does not have."""
    told = []
    for made in (
        case(shared(), inputs="free", outputs="free", objective=objective),
        case(boxes(), objective=objective),
    ):
        found = list(files(made))
        assert found and not [outcome for outcome, _ in found if outcome == "FALSE"]
        told += [str(each) for _, each in found if each is not None and not each.proven]
    assert any("counted, not proven: copies 4096" in each for each in told)
    if objective != "min-nodes":
        assert any("counted, not proven: reshapes " in each for each in told)


def test_copies_and_reshapes_are_counted() -> None:
    """Of an honest file as well, as nothing is proven of them; where there are none, that is the least."""
    made = case(shared(), inputs={"x0": "nchw", "x1": "keep"}, outputs={"y0": "nchw", "y1": "keep"})
    assert made.honest.copies == 4096 and not made.honest.proven
    assert made.honest.lines[-1] == "counted, not proven: copies 4096"
    assert case(shared()).honest.proven and case(shared()).honest.lines[-1].endswith("reshapes 0, copies 0")
    (reshapes,) = [each for each in case(boxes()).honest.tiers if each.tier == ("reshapes",)]
    assert reshapes.value > 0 and (reshapes.bound, reshapes.counted, reshapes.proven) == (0, True, False)


def test_what_rests_on_a_tier_before_is_not_proven() -> None:
    """A bound of a later tier holds beside the recorded values of those before it, whatever these are."""
    made = case(boxes(), objective="min-transpose")
    first, *rest = made.facts["bounds"]
    assert made.honest.tiers[0].value > 0 and made.honest.tiers[0].proven
    facts = {**made.facts, "bounds": [{**first, "bound": 0, "proof": None}, *rest]}
    weaker = layoutsolve.Certificate.from_json(sealed(facts))
    found = layoutsolve.check_certificate(made.source, made.model, weaker)
    assert not any(each.proven for each in found.tiers if each.value)
