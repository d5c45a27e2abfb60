"""Plans: what they say is so, they are what their schema says, and the same model is written from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import layoutsolve
from layoutsolve.emit import nodes_of
from layoutsolve.planning.schema import faults, plan_schema
from layoutsolve.solver.targets.target_file import SYSTEMS
from tests.golden.models import MODELS
from tests.random_models import network
from tests.random_onnx import random_model

TARGETS = (*SYSTEMS, "ort-cpu")


@cache
def source(name: str) -> bytes:
    """A model by its name: one of the golden ones, a random network or a random model in ONNX."""
    if name in MODELS:
        return MODELS[name]()
    kind, seed = name.split()
    return network(int(seed)).source if kind == "network" else random_model(int(seed))[1].SerializeToString()


@cache
def planned(name: str, target: str) -> tuple[layoutsolve.Conversion, layoutsolve.Plan]:
    """A model as it is planned."""
    conversion = layoutsolve.convert(source(name), target=target)
    return conversion, layoutsolve.plan(source(name), conversion)


SOURCES = [*MODELS, "network 3", "network 7", "onnx 0", "onnx 1", "onnx 2"]
PAIRS = [(name, target) for number, name in enumerate(SOURCES) for target in TARGETS[number % 2 :: 2]]


@pytest.mark.members(8)
@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_plan_fits_its_schema(name: str, target: str) -> None:
    """Our own reading of the schema and that of others agree, and the text says all of it."""
    _, plan = planned(name, target)
    facts = json.loads(plan.to_json())
    jsonschema.validate(facts, plan_schema())
    assert not list(faults(facts, plan_schema()))
    assert layoutsolve.Plan.from_json(plan.to_json()).facts == facts == json.loads(json.dumps(plan.facts))


@pytest.mark.members(14)
@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_the_same_model_is_written_from_a_plan(name: str, target: str) -> None:
    conversion, plan = planned(name, target)
    if conversion.kept:
        pytest.skip("it is written as it stands")
    again = layoutsolve.convert_by(source(name), layoutsolve.Plan.from_json(plan.to_json()))
    assert again.content("model.onnx") == conversion.content("model.onnx")
    assert layoutsolve.plan(source(name), again).facts["operators"] == plan.facts["operators"]


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_what_a_plan_says_is_in_the_file(name: str, target: str) -> None:
    """Transposes of the file are the conversions; every tensor has the shape and the bytes that are said of it."""
    conversion, plan = planned(name, target)
    facts = plan.facts
    nodes = nodes_of(conversion.model.graph)
    own = sum(step["operator"] == "Transpose" for each in facts["operators"] for step in each.get("written", ()))
    moves = sum(each["transposes"] for each in facts["conversions"])
    assert sum(node.op_type == "Transpose" for node in nodes) == moves + own == conversion.price.transposes
    assert sum(each["bytes"] for each in facts["conversions"]) <= conversion.price.bytes
    for tensor in facts["tensors"]:
        assert len(tensor["letters"]) == len(tensor["shape"])
        if tensor["stored"]["order"] is not None:
            assert tensor["stored"]["shape"] == [tensor["shape"][axis] for axis in tensor["stored"]["order"]]
    for name_, each in ((end["tensor"], end) for end in facts["inputs"]):
        stored = next(port for port in conversion.model.graph.input if port.name == each["name"])
        shape = next(tensor["shape"] for tensor in facts["tensors"] if tensor["name"] == name_)
        sizes = [dim.dim_value or dim.dim_param for dim in stored.type.tensor_type.shape.dim]
        assert sizes == [shape[axis] for axis in each["permutation"]]


@pytest.mark.parametrize("target", SYSTEMS)
def test_constants_come_from_the_file(target: str) -> None:
    """The permutation from the file gives what is stored, and unchanged bytes are those of the file."""
    from layoutsolve.frontend import Model, parse

    for name in ("classifier", "quantized"):
        conversion, plan = planned(name, target)
        parsed = parse(source(name))
        assert isinstance(parsed, Model)
        tensors = {each.name: each.data for each in parsed.subgraphs[0].tensors if each.data is not None}
        stored = {each.name: onnx_array(each) for each in conversion.model.graph.initializer}
        told = 0
        for each in plan.facts["constants"]:
            if each["source"] is None or each["permutation"] is None:
                assert each["source"] is not None or not each["unchanged"]
                continue
            wanted = np.transpose(tensors[each["source"]], each["permutation"])
            assert list(wanted.shape) == each["stored"]["shape"]
            if each["dtype"] == str(wanted.dtype):
                assert any(np.array_equal(wanted, data) for data in stored.values())
                same = wanted.tobytes() == tensors[each["source"]].tobytes()
                assert each["unchanged"] == same
                told += 1
        assert told


def onnx_array(constant: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(constant)


def mutations(fact: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The same facts with one thing changed, wherever it is."""
    if isinstance(fact, dict):
        for key, value in fact.items():
            yield f"{place}.{key} gone", {name: each for name, each in fact.items() if name != key}
            for told, changed in mutations(value, f"{place}.{key}"):
                yield told, {**fact, key: changed}
    elif isinstance(fact, list):
        if fact:
            yield f"{place} shorter", fact[:-1]
            yield f"{place} longer", [*fact, fact[-1]]
            for told, changed in mutations(fact[0], f"{place}[0]"):
                yield told, [changed, *fact[1:]]
            for told, changed in mutations(fact[-1], f"{place}[-1]"):
                yield told, [*fact[:-1], changed]
    else:
        for other in (None, -1, True, "x", "0 1 2 3", 1.5, [], {}):
            if other != fact:
                yield f"{place} = {other!r}", other


@pytest.mark.parametrize("name", ["classifier"])
def test_any_plan_gives_a_right_model_or_one_error(name: str) -> None:
    """What is changed in a plan is refused, or changes nothing of what is computed."""
    conversion, plan = planned(name, "tvm-nhwc")
    content = conversion.content("model.onnx")
    refused = 0
    for number, (told, facts) in enumerate(mutations(plan.facts)):
        try:
            read = layoutsolve.Plan.from_json(json.dumps(facts))
        except layoutsolve.PlanError as error:
            assert str(error).isprintable(), told
            refused += 1
            continue
        if number % 6:
            continue
        try:
            made = layoutsolve.convert_by(source(name), read)
        except layoutsolve.PlanError as error:
            assert str(error).isprintable(), told
            refused += 1
        else:
            assert len(made.content("model.onnx")) <= len(content) + 200, told
            assert layoutsolve.verify(source(name), made).passed, told
    assert refused > 100


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": "layoutsolve plan 0"}, "format must be 'layoutsolve plan 1'"),
        ({"status": "best"}, "status must be one of optimal, feasible"),
        ({"bound": True}, "bound must be integer"),
        ({"bound": -1}, "bound must be at least 0"),
        ({"source": {"name": "x", "sha256": "0"}}, "source.sha256 must be of the form"),
        ({"operators": [{}]}, r"operators\[0\].id is missing"),
        ({"more": 1}, "more is no field of a plan"),
    ],
)
def test_what_is_wrong_is_named(changed: Mapping[str, Any], message: str) -> None:
    _, plan = planned("classifier", "tvm-nhwc")
    with pytest.raises(layoutsolve.PlanError, match=f"this is no plan: {message}"):
        layoutsolve.Plan.from_json(json.dumps({**plan.facts, **changed}))


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "null", '"x"'])
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(layoutsolve.PlanError, match="this is no plan"):
        layoutsolve.Plan.from_json(text)


def test_a_plan_is_of_one_source_and_one_target(tmp_path: Path) -> None:
    conversion, plan = planned("classifier", "tvm-nhwc")
    other = source("quantized")
    with pytest.raises(layoutsolve.PlanError, match="another source"):
        layoutsolve.convert_by(other, plan)
    with pytest.raises(layoutsolve.PlanError, match="not the one that was converted"):
        layoutsolve.plan(other, conversion)
    with pytest.raises(layoutsolve.PlanError, match="for target 'tvm-nhwc', not 'mace'"):
        layoutsolve.convert_by(source("classifier"), plan, target="mace")
    path = tmp_path / "mine.toml"
    path.write_text('name = "tvm-nhwc"\nextends = "onnx"\n')
    with pytest.raises(layoutsolve.PlanError, match="has changed since"):
        layoutsolve.convert_by(source("classifier"), plan, target=path)
    path.write_text('name = "mine"\nextends = "tvm-nhwc"\n')
    mine = layoutsolve.convert(source("classifier"), target=path)
    own = layoutsolve.plan(source("classifier"), mine)
    with pytest.raises(layoutsolve.PlanError, match="does not come with layoutsolve"):
        layoutsolve.convert_by(source("classifier"), own)
    again = layoutsolve.convert_by(source("classifier"), own, target=path)
    assert again.content("model.onnx") == mine.content("model.onnx")


def test_files(tmp_path: Path) -> None:
    _, plan = planned("classifier", "tvm-nhwc")
    path = tmp_path / "plan.json"
    plan.save(path)
    assert layoutsolve.Plan.load(path).facts == plan.facts
    assert "tvm-nhwc" in repr(plan) and "optimal" in repr(plan)
    with pytest.raises(layoutsolve.PlanError, match=r"cannot read .*No such file"):
        layoutsolve.Plan.load(tmp_path / "none.json")
