"""Whatever is planned is written again from its plan, byte for byte; and nothing else is accepted as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

import layoutsolve
from layoutsolve.solver.targets.target_file import SYSTEMS
from tests.planning.thin_models import thin_model
from tests.random_models import network
from tests.random_onnx import random_model

TARGETS = (*SYSTEMS, "ort-cpu")
FORMS = [name for name in SYSTEMS if name != "onnx"]


@cache
def source(name: str) -> bytes:
    kind, number = name.split()
    seed = int(number)
    if kind == "thin":
        return thin_model(seed)
    return random_model(seed)[1].SerializeToString() if kind == "onnx" else network(seed).source


def replayed(content: bytes, target: str, **options: Any) -> bool:
    """Plan, read the plan, write by it: the same bytes, and the same plan of it. False where there is no plan."""
    own = {"target": target} if target.endswith(".toml") else {}
    made = layoutsolve.convert(content, target=target, **options)
    if made.kept:
        return False
    plan = layoutsolve.plan(content, made)
    again = layoutsolve.convert_by(content, layoutsolve.Plan.from_json(plan.to_json()), **own)
    assert again.content("model.onnx") == made.content("model.onnx"), target
    assert layoutsolve.plan(content, again).to_json() == plan.to_json(), target
    assert again.price == made.price and again.bound == 0 and again.assignment.status == "planned"
    assert [(each.names, each.value) for each in again.tiers] == [(each.names, each.value) for each in made.tiers]
    assert again.assignment.planned == made.tiers
    return True


@pytest.mark.members(1)
@pytest.mark.parametrize("block", range(4))
def test_dimensions_of_size_1(block: int) -> None:
    """Operators have the same layouts in several ways there; what is written depends on which."""
    planned = sum(
        replayed(source(f"thin {seed}"), TARGETS[(seed + each) % len(TARGETS)])
        for seed in range(20 * block, 20 * block + 10)
        for each in (0, 3)
    )
    assert planned > 7


@pytest.mark.parametrize("seed", range(6))
def test_networks(seed: int) -> None:
    for number, name in enumerate((f"onnx {seed}", f"network {seed}")):
        assert replayed(source(name), FORMS[(2 * seed + number) % len(FORMS)])


@pytest.mark.parametrize("objective", ["min-transpose", "min-bytes", "min-nodes"])
def test_objectives(objective: str) -> None:
    for seed in range(6):
        assert replayed(source(f"thin {seed}"), FORMS[seed % len(FORMS)], objective=objective)


def test_free_ends() -> None:
    for seed in range(12):
        assert replayed(source(f"thin {seed}"), FORMS[seed % len(FORMS)], inputs="free", outputs="free")


@pytest.mark.members(1)
@pytest.mark.parametrize("choose", ["true", "false"])
def test_several_backends(choose: str, tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        f'name = "two"\nextends = "onnx"\nchoose = {choose}\nbackends.dsp.crossing = 2\n'
        '[[forms]]\noperators = ["Conv"]\nbackend = "dsp"\ndata = "NHWC"\nkernel = "HWIO"\n'
        '[[forms]]\noperators = ["Conv"]\npolicy = "any"\n'
        '[[forms]]\noperators = ["Relu", "Pad", "ReduceSum"]\npolicy = "follow"\n'
    )
    names = [f"thin {seed}" for seed in range(8)] + [f"onnx {seed}" for seed in range(3)] + ["network 3", "network 4"]
    assert all(replayed(source(name), str(path)) for name in names)


@pytest.mark.parametrize("strategy", ["transpose", "propagate", "push"])
def test_strategies(strategy: str) -> None:
    """Views that a strategy leaves as operators are operators of the plan as well."""
    for seed in range(6):
        assert replayed(source(f"thin {seed}"), FORMS[seed % len(FORMS)], strategy=strategy)


def edited(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The facts of a plan with one operator told otherwise: another arrangement, form or layout."""

    def changed(number: int, change: Any) -> dict[str, Any]:
        found = deepcopy(facts)
        change(found["operators"][number])
        return found

    for number, each in enumerate(facts["operators"]):
        groups = each["arrangement"].split()
        for other in sorted({*[*permutations(groups)][:24]} - {tuple(groups)}):
            yield changed(number, lambda row, other=other: row.update(arrangement=" ".join(other)))
        for way in {0, 1, 2} - {each["way"]}:
            yield changed(number, lambda row, way=way: row.update(way=way))
        for port in each["ports"]:
            place, stored = each["ports"].index(port), port["layout"].split()
            for other in sorted({*[*permutations(stored)][:24]} - {tuple(stored)}):
                yield changed(number, lambda row, p=place, o=other: row["ports"][p].update(layout=" ".join(o)))
            for more in (["-", *stored], stored[1:]):
                yield changed(number, lambda row, p=place, o=more: row["ports"][p].update(layout=" ".join(o)))
    for view in range(4):
        yield {**facts, "views": sorted({view} ^ {*facts["views"]})}


@pytest.mark.members(1)
@pytest.mark.parametrize("block", range(2))
def test_an_edited_plan_gives_what_it_says_or_is_refused(block: int) -> None:
    tried = accepted = 0
    for seed in range(2 * block, 2 * block + 2):
        content = source(f"thin {seed}")
        made = layoutsolve.convert(content, target=FORMS[seed % len(FORMS)])
        if made.kept:
            continue
        facts = json.loads(layoutsolve.plan(content, made).to_json())
        for each in islice(edited(facts), seed % 2, None, 2):
            tried += 1
            try:
                again = layoutsolve.convert_by(content, layoutsolve.Plan.from_json(json.dumps(each)))
            except layoutsolve.PlanError as error:
                assert str(error).isprintable()
                continue
            accepted += 1
            assert json.loads(layoutsolve.plan(content, again).to_json()) == each
            assert again.content("model.onnx") == made.content("model.onnx") or each["views"] != facts["views"]
    assert tried > 25 and accepted < tried / 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bound": 7}, "the bounds and statuses of the plan"),
        ({"tiers": []}, "the bounds and statuses of the plan"),
        ({"views": [10**6]}, "no such Transposes and Reshapes"),
        ({"views": [0]}, "operators, the plan"),
        ({"crossings": [{}]}, "is missing"),
        ({"conversions": []}, "conversions is not so"),
        ({"tensors": []}, "tensors is not so"),
        ({"opset": 99}, "opset is not so"),
        ({"version": "9.9.9"}, "written by layoutsolve 9.9.9, and this is 0"),
        ({"version": ""}, "plan again"),
        ({"objective": "min-bytes"}, "objective is not so"),
    ],
)
def test_what_is_not_so_is_named(change: dict[str, Any], message: str) -> None:
    content = source("network 3")
    made = layoutsolve.convert(content, target="tvm-nchw")
    facts = {**json.loads(layoutsolve.plan(content, made).to_json()), **change}
    assert made.price.transposes
    with pytest.raises(layoutsolve.PlanError, match=message):
        layoutsolve.convert_by(content, layoutsolve.Plan.from_json(json.dumps(facts)))


@pytest.mark.parametrize("depth", [10, 700, 900, 960, 985])
def test_facts_within_facts(depth: int) -> None:
    """What is nested as deeply as JSON may be is refused as anything else."""
    content = source("network 3")
    facts = json.loads(layoutsolve.plan(content, layoutsolve.convert(content, target="tvm-nchw")).to_json())
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    step = next(step for each in facts["operators"] for step in each.get("written", ()) if step["attributes"])
    for inner, key in (
        (facts["options"], "target"),
        (facts["options"], "other"),
        (step, "inputs"),
        (step, "attributes"),
    ):
        kept, inner[key] = inner.get(key), deep if key != "attributes" else {"strides": deep}
        with pytest.raises(layoutsolve.PlanError):
            layoutsolve.convert_by(content, layoutsolve.Plan(facts))
        inner[key] = kept
        if kept is None:
            del inner[key]


def test_what_is_proven_is_not_proven_again() -> None:
    """Bounds of a plan are told as what it says; those that cannot be are refused, others are believed."""
    content = source("network 3")
    made = layoutsolve.convert(content, target="tvm-nchw")
    facts = json.loads(layoutsolve.plan(content, made).to_json())
    again = layoutsolve.convert_by(content, layoutsolve.Plan(facts))
    assert (again.report["status"], again.report["bound"]) == ("planned", 0)
    first = facts["tiers"][0]
    assert first["status"] == "optimal" and first["bound"] == first["value"] > 0
    worse = [{**each, "bound": 0, "status": "feasible"} for each in facts["tiers"]]
    claimed = {**facts, "status": "feasible", "bound": 0, "tiers": worse}
    assert layoutsolve.convert_by(content, layoutsolve.Plan(claimed)).content("x") == made.content("x")
    for wrong in ({**claimed, "status": "optimal"}, {**claimed, "tiers": [{**first, "bound": 0}, *worse[1:]]}):
        with pytest.raises(layoutsolve.PlanError, match="the bounds and statuses of the plan"):
            layoutsolve.convert_by(content, layoutsolve.Plan(wrong))
