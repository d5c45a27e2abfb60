"""Reports: what is in them, of which models, and that names are text."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html import unescape
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from layoutsolve.base.wording import printable
from layoutsolve.cli.command_line import main
from layoutsolve.emit import nodes_of
from layoutsolve.inspection.explanation import lines_of
from layoutsolve.io.source import load
from layoutsolve.reporting.graph_view import ORDERS
from layoutsolve.reporting.sections import verified
from layoutsolve.reporting.source_view import source_side
from layoutsolve.reporting.written_view import order_of, written_side
from layoutsolve.verification.layer_accuracy import Departure, Inspection
from layoutsolve.verification.layer_table import Closeness
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import distance
from layoutsolve.verification.verdict import Verification
from tests.families import nested
from tests.random_models import network
from tests.reporting.pages import HOSTILE, chain, custom, data_of, empty, moved, reported, text_of, unmeasured


@pytest.mark.members(4)
@pytest.mark.parametrize("seed", range(24))
def test_all_that_is_written_is_drawn(seed: int) -> None:
    """Every operator of both models once; why each Transpose and Reshape is there at the one that it is told of."""
    content = load(network(seed).source)
    conversion = layoutsolve.convert(content)
    explanation = conversion.explain()
    source, numbers = source_side(content)
    written = written_side(conversion, explanation, numbers)
    operators = Counter(node.op for node in written.nodes if node.kind != "end")
    assert sum(operators.values()) == len([*nodes_of(conversion.model.graph)]) >= conversion.report["operators"]
    assert operators["Transpose"] == conversion.report["transposes"]
    told = Counter("\n".join(node.why) for node in written.nodes if node.kind in ("transpose", "reshape") and node.why)
    assert told == Counter("\n".join(lines_of([item])) for item in explanation.operators)
    for node in written.nodes:
        assert node.order in ORDERS and all(source.nodes[number].kind != "end" for number in node.comes)
        if node.name in conversion.origins:
            assert [source.nodes[number].name for number in node.comes] == [str(conversion.origins[node.name])]
    found = conversion.assignment
    slow = [each for number, each in enumerate(found.problem.operators) if found.row(number).price.hidden]
    assert bool(slow) == any(node.kind == "slow" for node in written.nodes)
    for side in (source, written):
        assert [begin for _, begin, _ in side.tabs[1:]] == [end for _, _, end in side.tabs[:-1]]
        plain = side.as_dict()
        assert json.loads(json.dumps(plain)) and len(plain["nodes"]) == len(side.nodes)  # type: ignore[arg-type]


@pytest.mark.members(8)
@pytest.mark.parametrize("seed", range(24))
def test_windows_between_transposes_are_channels_first(seed: int) -> None:
    """Where every operator has its pattern around it, what is told of a window is told by its shape alone."""
    content = load(network(seed).source)
    conversion = layoutsolve.convert(content, strategy="transpose")
    source, numbers = source_side(content)
    written = written_side(conversion, conversion.explain(), numbers)
    for node in written.nodes:
        shape = re.findall(r"\w+", written.tensors[node.gives[0]].kind.partition("[")[2]) if node.gives else []
        if node.op in ("Conv", "MaxPool", "AveragePool") and source.nodes[node.comes[0]].op.endswith("_2D"):
            turned = shape[1] != "1" and shape[2:] != ["1", "1"]
            assert node.order == ("first" if turned else "same" if len(set(shape) - {"1"}) > 1 else node.order)


def test_orders() -> None:
    image = ((), (0,), (1,), (2,))
    assert order_of(image, image) == "same" and order_of(image, ((0, 1), (2,))) == "same"
    assert order_of(image, ((), (2,), (0,), (1,))) == "first" and order_of(image, ((2, 0, 1),)) == "first"
    assert order_of(image, ((), (1,), (0,), (2,))) == "other" and order_of(((0,), ()), ((), (0,))) == "none"


def test_the_same_bytes(tmp_path: Path) -> None:
    """A report is the same again but for times, and the model is what it is without one."""
    first, second = tmp_path / "1", tmp_path / "2"
    pages = []
    for folder in (first, second):
        folder.mkdir()
        pages.append(reported(folder, network(3).source, "--verify", "--explain").read_text())
    assert unmeasured(pages[0]) == unmeasured(pages[1])
    assert (first / "a.onnx").read_bytes() == layoutsolve.convert(first / "a.tflite").content("a.onnx")


def test_in_python(tmp_path: Path) -> None:
    """The function gives what the command line writes, but for what is measured."""
    source = tmp_path / "model.tflite"
    source.write_bytes(moved())
    page = tmp_path / "page.html"
    assert main([str(source), "--inputs", "nchw", "--verify", "--report", str(page), "-q"]) == 0
    conversion = layoutsolve.convert(source, inputs="nchw")
    checked = layoutsolve.verify(source, conversion)
    text = layoutsolve.report(source, conversion, verification=checked)
    own = text_of(page.read_text()).replace("verify=True", "").split()
    assert [each for each in text_of(text).split() if "0." not in each][:40] == [
        each for each in own if "0." not in each
    ][:40]
    assert "time of a run" in layoutsolve.report(source, conversion, profile=conversion.profile())
    with pytest.raises(TypeError, match="conversion"):
        layoutsolve.report(source, source)  # type: ignore[arg-type]
    for name, wrong in product(("verification", "profile"), (3, True, "x", conversion, {})):
        with pytest.raises(TypeError, match=f"{name} must be"):
            layoutsolve.report(source, conversion, **{name: wrong})


def test_what_it_says(tmp_path: Path) -> None:
    page = reported(tmp_path, moved(), "--verify", "--profile", "--inputs", "nchw", "--quant", "qdq").read_text()
    conversion, said = layoutsolve.convert(tmp_path / "a.tflite", inputs="nchw"), text_of(page)
    rows = layoutsolve.compare(tmp_path / "a.tflite", inputs="nchw")
    for row in rows:
        assert f"{row.strategy} {row.price.transposes} + {row.price.hidden} · " in said
    for what in (
        f"Transposes {conversion.price.transposes} from {conversion.graph.figures.transposes}, proven minimal",
        "image: stored as NCHW instead of NHWC (permutation 0 3 1 2)",
        "pass scores float maximum error",
        "Share of time of each operator",
        "options --inputs nchw --verify --profile",
        "transposes + layout penalty",
        "strategy cpsat objective min-executed target ort-cpu",
    ):
        assert what in said, what
    for name in ("a.tflite", "a.onnx"):
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() in said
    (share,) = {node["share"] for node in data_of(page)["source"]["nodes"] if node["op"] == "CONV_2D"}
    assert re.fullmatch(r"CONV_2D#0 takes [\d.]+% of the time of a run", share)


def test_nothing_is_loaded(tmp_path: Path) -> None:
    """A page refers to nothing outside of itself, and allows its own programs alone."""
    page = reported(tmp_path, moved()).read_text()
    assert not re.search(r"\b(src|href)=|@import|url\(", page.replace(_library(page), ""))
    policy = unescape(page[: page.index("<title>")])
    assert "default-src 'none'" in policy and policy.count("'sha256-") == 3 and "unsafe-eval" not in policy


def _library(page: str) -> str:
    """The graph library, whose text has links to papers."""
    return max(re.findall(r"<script>(.*?)</script>", page, re.DOTALL), key=len)


@pytest.mark.members(4)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name: str, tmp_path: Path) -> None:
    """No character of a name has a meaning, in the page or in its data; and none moves what is shown."""
    page = reported(tmp_path, moved((name, f"a{name}", f"b{name}")), "--verify").read_text()
    assert page.count("<script") == 4 and page.count("</script>") == 4 and page.count("<img") == 0
    assert all(each.isprintable() or each == "\n" for each in page.replace(_library(page), ""))
    names = {tensor[0] for tensor in data_of(page)["source"]["tensors"]}
    assert printable(f"a{name}") in names
    kept = reported(tmp_path, custom(name), "--custom", "passthrough").read_text()
    for found in (page, kept):
        assert all(text.isprintable() for text in texts(data_of(found)))
    assert any(printable(name) in text for text in texts(data_of(kept)["written"]["nodes"]))


def texts(found: object) -> Iterator[str]:
    """All texts in what JSON says."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, (list, dict)):
        for each in found.values() if isinstance(found, dict) else found:
            yield from texts(each)


def test_branches_and_empty_models(tmp_path: Path) -> None:
    page = data_of(reported(tmp_path, nested(3)).read_text())
    assert len(page["written"]["tabs"]) > 2 and len(page["source"]["tabs"]) > 2
    for side in ("written", "source"):
        opened = {tab for node in page[side]["nodes"] for tab in node.get("opens", ())}
        assert opened == set(range(1, len(page[side]["tabs"]))), side
    nothing = data_of(reported(tmp_path, empty()).read_text())
    assert [node["kind"] for node in nothing["source"]["nodes"]] == ["end", "end"]


def test_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run writes the report alone, a model that is refused none; JSON names it."""
    model, page = tmp_path / "a.tflite", tmp_path / "r.html"
    model.write_bytes(moved())
    assert main([str(model), "--report", str(page), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(page) and told["output"] is None and "explanation" not in told
    assert "(not written)" in text_of(page.read_text()) and not model.with_suffix(".onnx").exists()
    page.unlink()
    model.write_bytes(b"none")
    assert main([str(model), "--report", str(page)]) == 2 and not page.exists()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--report", "-"], "argument --report: a report is written to a file"),
        (["--report", "a.onnx"], "is where the report goes; name another file for the model"),
        (["--report", "a.tflite"], "is a file that is read; name another file for the report"),
        (["--report", "r.html", "--check", "c.json"], "argument --check: it converts nothing that could be shown"),
        (["--report", "r.html", "--print", "graph"], "leave --report out"),
        (["--report", ""], "the name of the file for the report is empty"),
        (["--report", "r.html", "--jobs", "1"], "reports of many models are written to a folder"),
    ],
)
def test_what_is_refused(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tflite").write_bytes(moved())
    assert main(["a.tflite", *options]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.tflite"]


def test_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A page for each model and one that lists them, links to those that are there, and says why others failed."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.tflite", "index.tflite", "sub/b #1%.tflite"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chain(3))
    (tmp_path / "in/bad.tflite").write_bytes(b"none")
    run = ["in", "-o", "out", "--report", "out/report", "--json", "--resume"]
    assert main(run) == 2
    capsys.readouterr()
    folder = tmp_path / "out/report"
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    assert pages == ["index.html", "models/a.html", "models/index.html", "models/sub/b #1%.html"]
    listed = (folder / "index.html").read_text()
    assert re.findall(r'href="([^"]*)"', listed) == [
        "models/a.html",
        "models/index.html",
        "models/sub/b%20%231%25.html",
    ]
    assert "neither a TensorFlow Lite nor an ONNX model" in text_of(listed)
    alone = data_of(reported(tmp_path, chain(3)).read_text())
    assert all(data_of((folder / page).read_text()) == alone for page in pages[1:])
    (folder / "models/a.html").write_text("changed")
    assert main(run) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("up_to_date") for line in lines] == [False, None, True, True]
    assert unmeasured((folder / "index.html").read_text()) == unmeasured(listed)
    assert "<main>" in (folder / "models/a.html").read_text()


def test_nothing_is_imported_unasked(tmp_path: Path) -> None:
    """Whoever asks for no report does not wait for what makes one."""
    (tmp_path / "a.tflite").write_bytes(moved())
    code = "import sys; from layoutsolve.cli.command_line import main; main(['a.tflite', '-q']); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "layoutsolve.api" in done.stdout
    assert "layoutsolve.reporting" not in done.stdout and "layoutsolve.inspection.explanation" not in done.stdout


@pytest.mark.parametrize("options", [["--external-data"], ["--quant", "float"], ["--strategy", "transpose"]])
def test_other_ways(tmp_path: Path, options: list[str]) -> None:
    """Constants apart are a file of their own; what other strategies leave is drawn as well."""
    page = reported(tmp_path, network(3).source, *options).read_text()
    files = [path for path in tmp_path.iterdir() if path.suffix != ".html"]
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() in text_of(page) for path in files)
    assert len(files) == (3 if "--external-data" in options else 2)


def test_lines_of_a_comparison_are_paragraphs() -> None:
    """None is written as an escape, and the noise of tensors is shown where the comparison failed."""
    port = Port("t", "float32", (), (), (), ())
    off = distance(port, [(np.zeros(3, np.float32), np.ones(3, np.float32))])
    closeness = Closeness(port)
    closeness.add(np.ones(3, np.float32), np.zeros(3, np.float32))
    departure = Departure(0, "ABS", "t", "float", off, "it is off")
    inspection = Inspection(1, departure, layers=(closeness.layer(0, "ABS"),))
    for found in (Verification((), 0, 1, inspection=inspection), Verification((), 0, 1, refusal="one\ntwo")):
        page = verified(found)
        assert "\\n" not in page and page.count("<p") == 2
        assert ("<details open>" in page) == (not found.refusal)
