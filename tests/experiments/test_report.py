"""The report is made of rows alone, and tells what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.compare.tflite_writers import Row, table
from experiments.make.collection import SMALL, Made, collection
from experiments.make.plain_networks import as_onnx, as_tflite
from experiments.onnx_shared import apart
from experiments.report import running, runtimes, tables, tools
from experiments.report.findings import MARKS, findings, with_findings
from experiments.report.originals import originals
from experiments.report.running import Work, measured, write_tables
from experiments.report.runtimes import interval
from experiments.report.tables import PLOTS, TABLES, ablation, greedy, strategies
from experiments.report.writing import read, text, write
from layoutsolve.errors import ModelError


def rows_of(values: Sequence[tuple[str, int, int, int]]) -> dict[str, pd.DataFrame]:
    """Rows of strategies: a model, the optimum, and what two heuristics leave."""
    found: list[dict[str, Any]] = []
    for model, best, push, others in values:
        for strategy, value in (("cpsat", best), ("push", push), ("propagate", others), ("transpose", others)):
            head = {"family": "f", "model": model, "objective": "min-transpose", "strategy": strategy, "operators": 30}
            sizes = dict.fromkeys(("transposes", "penalty", "bytes", "reshapes"), value)
            found.append({**head, "value": value, "bound": best, **sizes, "seconds": 0.1})
    other = [{**each, "objective": "min-executed"} for each in found]
    return {"strategies": pd.DataFrame([*found, *other])}


def test_tables_add_up() -> None:
    rows = rows_of([("a", 1, 1, 3), ("b", 0, 2, 2), ("c", 4, 4, 4)])
    of_all = strategies(rows).frame.set_index(["objective", "strategy"]).loc["min-transpose"]
    assert list(of_all["value"]) == [5, 7, 9, 9] and set(of_all["lower bound"]) == {5}
    assert list(of_all["as good as cpsat"]) == [3, 2, 1, 1]
    price = greedy(rows).frame.set_index(["objective", "strategy"]).loc["min-transpose"]
    assert list(price["most"]) == [2, 2, 2] and list(price["above the optimum"]) == ["33 %", "67 %", "67 %"]


def test_models_that_fail_are_rows() -> None:
    def refused() -> bytes:
        raise ModelError("nothing to see")

    (row,) = measured(Work("strategies", Made("f", "bad", refused)))
    assert row == {"family": "f", "model": "bad", "error": "layoutsolve.errors.ModelError: nothing to see"}
    rows = {"strategies": pd.concat([rows_of([("a", 1, 1, 3), ("b", 0, 1, 1)])["strategies"], pd.DataFrame([row])])}
    told = text(rows)
    assert "* strategies: 1 of 3 models (layoutsolve.errors.ModelError 1)" in told


def test_a_run_that_was_ended_while_it_wrote_goes_on(tmp_path: Path) -> None:
    """Wherever the files end: only models that are all there count, and no row is there twice or in part."""
    rows = [{"family": "f", "model": model, "value": value} for model in ("a", "b") for value in (1, 2)]
    costs = [{"family": "f", "model": model, "measurement": "strategies", "seconds": 0.1} for model in ("a", "b")]
    lines = [json.dumps(row) + "\n" for row in rows]
    whole = "".join(lines)
    for end in range(len(whole) + 1):
        (tmp_path / "strategies.jsonl").write_text(whole[:end])
        there = whole[:end].count("\n") // 2
        told = "".join(json.dumps(cost) + "\n" for cost in costs[:there])
        (tmp_path / "cost.jsonl").write_text(told + json.dumps(costs[0])[: end % 9])
        assert running.resumed(tmp_path) == {("strategies", model) for model in ("a", "b")[:there]}
        assert (tmp_path / "strategies.jsonl").read_text() == "".join(
            json.dumps(row) + "\n" for row in rows[: 2 * there]
        )
        assert (tmp_path / "cost.jsonl").read_text() == told


def test_measurements_have_processes_of_their_own() -> None:
    with running.client_of(None, 1) as client:
        assert client.submit(apart, int, 60.0).result() == 0


def test_the_same_rows_are_the_same_report(tmp_path: Path) -> None:
    """Measured rows of a small model, by all measurements but those of tools and originals; as files, read
    again.
    """
    model = next(each for each in collection(SMALL) if each.family == "convnext")
    works = [Work(name, model) for name in running.MEASURED if name not in ("tools", "originals")]
    for work in works:
        with (tmp_path / f"{work.measurement}.jsonl").open("w") as file:
            file.writelines(pd.Series(row).to_json() + "\n" for row in measured(work))
    write_tables(tmp_path, works)
    rows = read(tmp_path)
    lost = ablation(rows).frame
    assert (lost["value without"] >= lost["value"]).all(), "less freedom is never cheaper"
    write(tmp_path, rows)
    assert (tmp_path / "REPORT.md").read_text() == text(rows)
    assert all((tmp_path / "plots" / f"{name}.{ending}").is_file() for name in PLOTS for ending in ("svg", "png"))
    assert len(list((tmp_path / "tables").iterdir())) == len(TABLES) - 4, "not of tools, originals and cost"


def test_strategies_beside_their_originals() -> None:
    """ONNX Runtime's optimizer is there; what is nowhere is a row that says so."""
    model = next(each for each in collection(SMALL) if each.family == "plain onnx")
    rows = {row["original"]: row for row in originals(model, model.make(), {})}
    here = rows["ONNX Runtime, extended"]
    assert (here["strategy"], here["theirs"], here["ours"], here["cause"]) == ("push", 0, 0, "")
    absent = {name: row["refused"] for name, row in rows.items() if "refused" in row}
    assert set(absent.values()) <= {"absent: not installed"}
    frame = pd.DataFrame([{"family": "f", "model": "m", **row} for row in rows.values()])
    told = tables.originals({"originals": frame}).frame.set_index("original").loc["ONNX Runtime, extended"]
    assert (told["reads"], told["equal"], told["not explained"]) == (1, 1, 0)


def test_intervals_hold_the_median() -> None:
    found = interval([*range(1, 100), 1000], [1.0] * 100)
    assert found == {"ratio": 50.5, "low": 41, "high": 60, "rounds": 100}
    assert interval([2, 4], [1, 1]) == {"ratio": 3, "low": 2, "high": 4, "rounds": 2}


@pytest.mark.parametrize("models", ["", "exports"])
def test_the_published_report_is_what_its_rows_say(models: str) -> None:
    published = Path(__file__).parents[2] / "docs" / "research" / models
    assert (published / "REPORT.md").read_text() == text(read(published / "rows"))


def test_the_published_page_has_what_its_rows_show() -> None:
    """No number of the findings is typed by hand."""
    docs = Path(__file__).parents[2] / "docs"
    page, rows = (docs / "research.md").read_text(), read(docs / "research" / "rows")
    found = findings(rows, "research")
    assert with_findings(page, found) == page and found in page and "](research/plots/" in found
    assert with_findings(page.replace(" networks", " others"), found).count(found) == 1
    assert with_findings("no marks", found) == "no marks" and all(mark in page for mark in MARKS)
    assert findings(rows) in (docs / "research" / "REPORT.md").read_text()


def test_findings_tell_networks_from_other_graphs() -> None:
    rows = rows_of([(f"m{number}", 1, 1 + number % 2, 3) for number in range(10)])["strategies"]
    graphs = rows.assign(family="random onnx", model="graph " + rows["model"], value=rows["bound"])
    told = findings({"strategies": pd.concat([rows, graphs])})
    assert "optimal for 5 of 10 networks and for 10 of 10 other graphs" in " ".join(told.split())
    few = rows[rows["model"] < "m9"]
    assert "optimal for" not in findings({"strategies": few}), "of nine models nothing is found"


@pytest.mark.parametrize("to", ["onnx", "tflite"])
def test_files_that_differ_in_metadata_alone_are_timed_once(to: Any) -> None:
    model = next(each for each in collection(SMALL) if each.family == "plain onnx")
    source = model.make()
    assert isinstance(source, bytes)
    made = runtimes._ways(source, to)
    assert set(made) == {"min-executed", "min-transpose", "push"}, "propagate begins with nothing in ONNX"
    assert runtimes._bytes(made["min-executed"]) != runtimes._bytes(made["min-transpose"])
    first = runtimes.same({way: runtimes._plain(each) for way, each in made.items()})
    assert (first["min-transpose"], first["push"]) == ("min-executed", "push")


@pytest.mark.parametrize("family", ["convnext", "random tflite", "random onnx", "operators"])
def test_models_are_the_same_each_time(family: str) -> None:
    first, again = ([each for each in collection(SMALL) if each.family == family] for _ in range(2))
    assert [each.name for each in first] == [each.name for each in again]
    assert [each.make() for each in first[:2]] == [each.make() for each in again[:2]]


COPY = "PYTHON -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])' SOURCE OUTPUT"
NEGATED = (
    "PYTHON -c 'import sys, onnx; model = onnx.load(sys.argv[1]); end = model.graph.output[0].name; "
    "[node.output.__setitem__(0, end + chr(95)) for node in model.graph.node if end in node.output]; "
    'model.graph.node.append(onnx.helper.make_node("Neg", [end + chr(95)], [end])); '
    "onnx.save(model, sys.argv[2])' SOURCE OUTPUT"
)


def test_tools_are_judged_by_what_they_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that copies is right, one that negates wrong, one that dies or is not there has an error."""
    onnx_to = {"copies": COPY, "negates": NEGATED, "dies": "PYTHON -c 'import sys; sys.exit(3)'"}
    some = {name: tools.Tool("layoutsolve", "onnx to onnx", command) for name, command in onnx_to.items()}
    some["nowhere"] = tools.Tool("no_such_package", "onnx to onnx", COPY)
    monkeypatch.setattr(tools, "TOOLS", some)
    rows = {row["tool"]: row for row in tools.tools(as_onnx(1), {})}
    assert rows["copies"]["off"] == 0 and rows["negates"]["off"] > rows["negates"]["allowed"]
    assert rows["negates"]["operators"] == rows["copies"]["operators"] + 1
    assert "error" in rows["dies"] and rows["nowhere"]["error"] == "not installed"
    told = tables.tools({"tools": pd.DataFrame(rows.values()).assign(family="f", model="m")})
    counted = told.frame.set_index("tool")[["right", "wrong", "refused"]]
    assert counted.to_numpy().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "in this order, without what is not there"


@pytest.mark.parametrize(("made", "end"), [(as_tflite, "tflite to xml"), (as_onnx, "onnx to xml")])
def test_openvino_is_a_tool(made: Callable[[int], bytes], end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    monkeypatch.setattr(tools, "TOOLS", {name: tool for name, tool in tools.TOOLS.items() if tool.formats == end})
    own, other = tools.tools(made(1), {})
    assert max(own["off"], other["off"]) <= tools.RIGHT and own["executed"] <= other["executed"]


def test_writers_are_told_as_their_rows_have_them() -> None:
    docs = Path(__file__).parents[2] / "docs"
    rows = [Row(**json.loads(line)) for line in (docs / "research" / "writers.jsonl").read_text().splitlines()]
    assert len({row.model for row in rows}) > 100
    assert "\n".join(table(rows, "onnx2tf")) in (docs / "tflite_out.md").read_text(encoding="utf-8")
