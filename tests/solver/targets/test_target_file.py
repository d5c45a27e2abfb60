"""Files of targets: what is one is read, and anything else is one error that names the file and the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutsolve.errors import OptionError
from layoutsolve.solver import assign
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import (
    CONTRIB_TARGET,
    DEFAULT_TARGET,
    KNOWN,
    LARGEST_FILE,
    parsed,
    read_target,
    shipped,
    target_of,
)
from tests.solver.random_graphs import random_graph

TABLE: dict[str, Any] = json.loads((files("layoutsolve.solver.targets") / "files" / "ort_cpu.json").read_text())
FIELDS = [*TABLE, "extends"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*TABLE, "extends"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def read(facts: object) -> Target:
    return parsed(json.dumps(facts).encode(), "mine.json")


def refused(facts: object) -> str:
    """What the error says after the name of the file."""
    with pytest.raises(OptionError) as caught:
        read(facts)
    told = str(caught.value)
    assert told.startswith("target 'mine.json': ")
    assert told.isprintable()
    return told.removeprefix("target 'mine.json': ")


def test_shipped_targets() -> None:
    """The second is the first with a domain more, and does not repeat its table."""
    usual, more = shipped(DEFAULT_TARGET), shipped(CONTRIB_TARGET)
    assert (usual.name, more.name) == (DEFAULT_TARGET, CONTRIB_TARGET)
    assert (usual.hidden, usual.unsupported, usual.latency) == (more.hidden, more.unsupported, more.latency)
    assert (usual.domains, more.domains) == (frozenset(), {"com.microsoft"})
    assert usual.digest != more.digest
    assert shipped(DEFAULT_TARGET) is usual


def test_a_digest_is_of_what_is_said() -> None:
    """Neither the order of fields, nor numbers that are written otherwise, nor the runtime's version matter."""
    backwards = dict(reversed(TABLE.items()))
    assert read({**backwards, "runtime": "another version"}).digest == shipped(DEFAULT_TARGET).digest
    assert read({"name": "ort-cpu", "extends": "ort-cpu"}) == shipped(DEFAULT_TARGET)
    emptied = [{field: {}} for field in ("hidden", "unsupported", "kernels", "classes", "extra")]
    for changed in ({"name": "x"}, {"domains": ["com.microsoft"]}, *emptied):
        assert read({**TABLE, **changed}).digest != shipped(DEFAULT_TARGET).digest


def test_extending_replaces_what_is_said() -> None:
    target = read(
        {
            "name": "mine",
            "extends": "ort-cpu-contrib",
            "hidden": {"Softmax": {"middle": 7}},
            "unsupported": {"Resize": ["nearest float32 KKRR"], "ArgMax": ["middle"]},
            "latency": {"reshape": {"fixed": 1}},
        }
    )
    usual = shipped(DEFAULT_TARGET)
    assert target.hidden == {**usual.hidden, ("Softmax", "middle"): 7}
    others = {key for key in usual.unsupported if key[0] not in ("Resize", "ArgMax")}
    assert target.unsupported == {("Resize", "nearest float32 KKRR"), ("ArgMax", "middle")} | others
    assert target.latency.transpose == usual.latency.transpose
    assert (target.latency.reshape.fixed, target.domains) == (1.0, {"com.microsoft"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": ""}, "name: it must be a text"),
        ({"name": None}, "name: it is missing"),
        ({"name": "a\nb"}, "name: it must be a text"),
        ({"runtime": 5}, "runtime: it must be a text"),
        ({"hiden": {}}, "hiden: there is no such field (did you mean 'hidden'?)"),
        (
            {"extends": "ort"},
            "extends: unknown target 'ort': use one of " + ", ".join(KNOWN),
        ),
        ({"extends": ["ort-cpu"]}, "extends: it must be a text"),
        ({"domains": ["ai.onnx.ml"]}, "domains: unknown 'ai.onnx.ml'"),
        ({"domains": "com.microsoft"}, "domains: it must be a list"),
        ({"hidden": {"Sofmax": {}}}, "hidden.Sofmax: there is no such field (did you mean 'Softmax'"),
        ({"hidden": {"Softmax": 2}}, "hidden.Softmax: it must be an object"),
        ({"hidden": {"Softmax": {"middle": 0.5}}}, "hidden.Softmax.middle: it must be a whole number from 0 to 100"),
        ({"hidden": {"Softmax": {"middle": True}}}, "hidden.Softmax.middle: it must be a whole number"),
        ({"hidden": {"Softmax": {"middle": -1}}}, "hidden.Softmax.middle: it must be a whole number"),
        ({"hidden": {"Softmax": {"middle": 10**400}}}, "hidden.Softmax.middle: it must be a whole number"),
        ({"hidden": {"Transpose": {"still": 1}}}, "hidden.Transpose.still: there is no such field"),
        ({"idioms": {"Relu": ["limits"]}}, "idioms.Relu: there is no such field (did you mean 'PRelu'"),
        ({"idioms": {"PRelu": "limits"}}, "idioms.PRelu: it must be a list"),
        ({"classes": {"Conv": {"x": {"most": {}}}}}, "classes.Conv.x.of: it is missing"),
        ({"classes": {"Conv": {"x": {"of": "y", "more": {}}}}}, "classes.Conv.x.more: there is no such field"),
        ({"classes": {"Conv": {"x": {"of": "y", "least": 1}}}}, "classes.Conv.x.least: it must be an object"),
        (
            {"classes": {"Conv": {"x": {"of": "y", "most": {"c": -1}}}}},
            "classes.Conv.x.most.c: it must be a whole number",
        ),
        ({"storage": {"block": -1}}, "storage.block: it must be a whole number"),
        ({"storage": {"unsigned": 1}}, "storage.unsigned: it must be true or false"),
        ({"storage": {"sign": True}}, "storage.sign: there is no such field"),
        ({"dynamic": {"scale": 1}}, "dynamic.scale: there is no such field: use one of rows, tensor"),
        (
            {"idioms": {"PRelu": ["limit"]}},
            "idioms.PRelu: unknown 'limit': use depthwise, limits, normalization (did you mean 'limits'",
        ),
        ({"unsupported": {"Resize": {}}}, "unsupported.Resize: it must be a list"),
        ({"dynamic": {"tensor": 1}}, "dynamic.rows: it is missing"),
        ({"dynamic": {"tensor": 1, "rows": -1}}, "dynamic.rows: it must be a whole number"),
        ({"dynamic": 1}, "dynamic: it must be an object"),
        ({"qoperator": 1}, "qoperator: it must be true or false"),
        ({"unsupported": {"Resize": [1]}}, "unsupported.Resize: it must be a text"),
        ({"unsupported": {"Transpose": {"swap": 1}}}, "unsupported.Transpose: no target can do without"),
        ({"extra": {"Softmax": {"middle": float("nan")}}}, "extra.Softmax.middle: it must be a number from 0 to 1"),
        ({"extra": {"Softmax": {"middle": float("inf")}}}, "extra.Softmax.middle: it must be a number"),
        ({"latency": {}}, "latency.transpose: it is missing"),
        ({"latency": {**TABLE["latency"], "transpose": {"swap": {}}}}, "latency.transpose.rows: it is missing"),
        ({"latency": {**TABLE["latency"], "reshape": {"fixd": 1}}}, "latency.reshape.fixd: there is no such field"),
        ({"latency": {**TABLE["latency"], "reshape": {"fixed": "1"}}}, "latency.reshape.fixed: it must be a number"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], message: str) -> None:
    assert refused({**TABLE, **changed}).startswith(message)


@pytest.mark.parametrize(("motion", "sizes"), [("swap", {}), ("rows", {"0": {}}), ("general", {"four": {}})])
def test_costs_are_by_the_bytes_of_an_element(motion: str, sizes: dict[str, Any]) -> None:
    transpose = {**TABLE["latency"]["transpose"], motion: sizes}
    told = refused({**TABLE, "latency": {**TABLE["latency"], "transpose": transpose}})
    assert told.startswith(f"latency.transpose.{motion}")


def test_no_field_may_be_missing() -> None:
    for name in TABLE:
        if name not in ("runtime", "storage", "idioms", "dynamic", "qoperator", "latency"):
            assert refused({key: value for key, value in TABLE.items() if key != name}) == (
                f"{name}: it is missing" + (name != "name") * ": state it, or name a target that has it in 'extends'"
            )


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"{", b"1" * 5000, b" " * (LARGEST_FILE + 1)])
def test_what_is_no_json(content: bytes) -> None:
    with pytest.raises(OptionError, match=r"^target 'mine.json': it (is no JSON|has more than)"):
        parsed(content, "mine.json")


def mutations(fact: object, random: Any) -> Iterator[object]:
    """The same facts with one of them replaced by anything, at any depth."""
    yield random
    if isinstance(fact, dict):
        for key in list(fact)[:3]:
            yield from ({**fact, key: inner} for inner in mutations(fact[key], random))
    elif isinstance(fact, list):
        yield [random, *fact]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(values)
def test_any_json_is_a_target_or_one_error(anything: object) -> None:
    for facts in (*mutations(TABLE, anything), *mutations({"name": "x", "extends": "ort-cpu"}, anything)):
        try:
            target = read(facts)
        except OptionError as error:
            assert str(error).startswith("target 'mine.json': ")
            assert str(error).isprintable()
        else:
            assert len(target.digest) == 64


@pytest.mark.parametrize("said", ["", "ort", "ort_cpu", "x\ny", "json"])
def test_unknown_names_list_the_known_ones(said: str) -> None:
    with pytest.raises(
        OptionError,
        match=rf"unknown target .*: use one of {', '.join(KNOWN)}, or a FILE\.toml or \.json",
    ):
        target_of(said)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ort-cpu"
    path.write_text('{"name": "mine", "extends": "ort-cpu"}')
    assert target_of(str(path)) == target_of("./ort-cpu") == read_target("ort-cpu")
    assert target_of("ort-cpu") is shipped("ort-cpu")
    for wrong, reason in (("none.json", "No such file"), (str(tmp_path), "directory"), ("a\0.json", "null")):
        with pytest.raises(OptionError, match=f"cannot read target .*{reason}"):
            target_of(wrong)


def test_another_target_leads_to_another_layout() -> None:
    """Where swaps lose more than what moves blocks, what is found costs less than what another target leads to."""
    dear = read({"name": "dear", "extends": "ort-cpu", "hidden": {"Transpose": {"swap": 5}}})
    cheaper = 0
    for seed in range(18):
        graph = random_graph(seed, 8)
        usual, found = assign(graph), assign(graph, target=dear)
        assert (usual.goal.target, found.goal.target) == (shipped("ort-cpu"), dear)
        least, known = (
            ranked(price(replace(each.problem, target=dear), each.rows), found.goal.levels)[0]
            for each in (found, usual)
        )
        assert least <= known
        cheaper += least < known
    assert cheaper > 1


@pytest.mark.parametrize("field", ["unsupported", "kernels"])
@pytest.mark.parametrize("operator", ["Transpose", "Reshape"])
def test_views_are_never_refused(field: str, operator: str) -> None:
    """Every solution may need them."""
    refusal: object = ["operator"] if field == "unsupported" else {"operator": False}
    facts = {"name": "x", "extends": DEFAULT_TARGET, field: {operator: refusal}}
    assert refused(facts) == f"{field}.{operator}: no target can do without"


def test_a_name_is_no_domain() -> None:
    assert refused({"name": "com.microsoft", "extends": DEFAULT_TARGET}).startswith("name: ")


def test_runtimes_without_a_target() -> None:
    for name in ("ROCm", "webnn", "mnn"):
        with pytest.raises(
            OptionError, match=f"there is no target for '{name}', which was not measured: use 'portable'"
        ):
            target_of(name)
