"""Reports in a real browser: what is drawn, found, chosen and told."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.make.demo import mobilenet
from layoutsolve.base.wording import printable
from layoutsolve.cli.command_line import main
from layoutsolve.reporting import report
from tests.builder import Builder
from tests.families import nested
from tests.reporting.pages import HOSTILE, chain, empty, moved, reported

playwright = pytest.importorskip("playwright.sync_api", reason="needs layoutsolve[dev]: playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a Chromium: apt install chromium")

CENTRE = """([panel, label]) => {
  const canvas = document.querySelector(`#${panel} .canvas`);
  const at = canvas._cyreg.cy.nodes().filter((node) => node.data("label") === label)[0].renderedPosition();
  const box = canvas.getBoundingClientRect();
  return [box.x + at.x, box.y + at.y];
}"""
"""Where on the screen an operator is drawn."""

FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Wait until what has changed is drawn."""

SHOWN = "(panel) => document.querySelector(`#${panel} .canvas`)._cyreg.cy.nodes().map((node) => node.data('label'))"
COLOUR = "(panel) => document.querySelector(`#${panel} .canvas`)._cyreg.cy.nodes()[0].style('color')"
CLASS = """([panel, name]) => document.querySelector(`#${panel} .canvas`)._cyreg.cy.nodes(`.${name}`).map(
  (node) => node.data("label"))"""


SEEN = """(panel) => {
  const canvas = document.querySelector(`#${panel} .canvas`);
  const cy = canvas._cyreg.cy, boxes = cy.nodes().map((node) => node.renderedBoundingBox({ includeOverlays: false }));
  const inside = (box) => box.x1 > -1 && box.y1 > -1 && box.x2 < cy.width() + 1 && box.y2 < cy.height() + 1;
  const outside = boxes.filter((box) => !inside(box));
  const both = (one, two, axis) => Math.min(one[axis + 2], two[axis + 2]) - Math.max(one[axis + 1], two[axis + 1]);
  let above = 0;
  boxes.forEach((one, at) => boxes.slice(at + 1).forEach((two) => {
    if (both(one, two, "x") > 1 && both(one, two, "y") > 1) above++;
  }));
  return [boxes.length, 12 * cy.zoom(), outside.length, above];
}"""
"""How many operators are drawn, how large letters are, and how many operators are outside, or on another one."""

WIDER = """(width) => [...document.querySelectorAll("main *")]
  .filter((each) => each.getBoundingClientRect().right > width + 1 && !each.closest(".scroll, .canvas, [hidden]"))
  .map((each) => each.outerHTML.slice(0, 90))"""
"""What reaches beyond the screen, but for what scrolls by itself."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Reports of a model with Transposes, of a large one, and of a quantized one."""
    folders = [tmp_path_factory.mktemp("page") for _ in range(3)]
    sources = (moved(), row(120, 6), mobilenet())
    return [reported(*each, "--verify", "--profile") for each in zip(folders, sources, strict=True)]


class Shown:
    """A page that is open. Whatever it loads beside itself, or says on the console, is an error."""

    def __init__(self, browser: Any, path: Path, dark: bool = False, width: int = 1400) -> None:
        self.said: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.said.append(request.url) if request.url != path.as_uri() else None)
        self.page.goto(path.as_uri())

    def ready(self) -> Shown:
        self.page.wait_for_selector("html[data-ready]", timeout=30_000)
        self.page.evaluate("document.getElementById('graphs').scrollIntoView()")
        self.page.evaluate(FRAMES)
        return self

    def details(self) -> str:
        return str(self.page.inner_text("#details"))

    def click(self, panel: str, label: str) -> str:
        self.page.mouse.click(*self.page.evaluate(CENTRE, [panel, label]))
        return self.details()

    def marked(self, panel: str, name: str) -> list[str]:
        return list(self.page.evaluate(CLASS, [panel, name]))

    def level(self, panel: str) -> int:
        return int(self.page.inner_text(f"#{panel} output.level").split()[0])

    def close(self) -> None:
        self.page.close()
        assert self.said == []


def test_click_zoom_and_keys(browser: Any, tmp_path: Path) -> None:
    shown = Shown(browser, reported(tmp_path, moved())).ready()
    page = shown.page
    told = shown.click("written", "Transpose")
    assert "permutation 0 3 1 2" in told or "permutation 0 2 3 1" in told
    assert "stored as" in told and "CONV_2D#0" in told
    assert "CONV_2D" in shown.marked("source", "linked") and shown.marked("written", "chosen") == ["Transpose"]
    told = shown.click("source", "CONV_2D")
    assert "stride_w 1" in told and "Written as" in told
    assert "Conv" in shown.marked("written", "linked") and shown.marked("written", "chosen") == []
    page.click("#details button:has-text('Conv')")
    assert shown.details().startswith("Conv\n") and "stored channels first" in shown.details()
    page.keyboard.press("Escape")
    assert shown.details().startswith("Operators") and shown.marked("written", "chosen") == []

    page.focus("#written .canvas")
    walked = []
    for _ in range(4):
        page.keyboard.press("ArrowDown")
        walked += shown.marked("written", "chosen")
    assert walked[0] == "input" and "Conv" in walked
    page.keyboard.press("ArrowUp")
    assert shown.marked("written", "chosen") == [walked[-2]]

    before = shown.level("written")
    page.keyboard.press("+")
    assert shown.level("written") > before
    page.click("#written .out")
    page.click("#written .out")
    assert shown.level("written") < before
    x, y = page.evaluate(CENTRE, ["written", "Conv"])
    page.mouse.move(x, y)
    zoomed = shown.level("written")
    for _ in range(8):  # the first ones tell what kind of wheel it is
        page.mouse.wheel(0, -120)
        page.evaluate(FRAMES)
    assert shown.level("written") > zoomed
    middle = page.evaluate(CENTRE, ["written", "Conv"])
    page.mouse.move(x - 90, y - 90)
    page.mouse.down()
    page.mouse.move(x - 40, y - 60, steps=4)
    page.mouse.up()
    assert page.evaluate(CENTRE, ["written", "Conv"]) != middle
    page.click("#written .fit")
    assert len(page.evaluate(SHOWN, "written")) >= 6
    shown.close()


def test_search(browser: Any, tmp_path: Path) -> None:
    """Found by operator, tensor and kind; chosen by keys alone."""
    shown = Shown(browser, reported(tmp_path, chain(60))).ready()
    page = shown.page
    page.keyboard.press("/")
    page.keyboard.type("step47")
    assert page.inner_text("#found") == "2 found" and page.locator("#matches li").count() == 2
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "step47" in shown.details() and shown.details().startswith("TANH")
    assert shown.marked("written", "linked") == ["Tanh"] and page.locator("#matches").is_hidden()
    page.keyboard.press("/")
    page.keyboard.type("neg step")
    assert page.inner_text("#found") == "60 found"
    page.keyboard.press("Escape")
    assert page.input_value("#find") == "" and page.inner_text("#found") == ""
    page.keyboard.press("/")
    page.keyboard.type("no such operator")
    assert page.inner_text("#found") == "0 found" and page.locator("#matches").is_hidden()
    page.keyboard.press("Escape")
    page.click(".legend button:has-text('Transpose')")
    assert page.input_value("#find") == "kind:transpose" and page.inner_text("#found") == "0 found"
    shown.close()


def row(count: int, kinds: int) -> bytes:
    """So many operators in a row, of which so many follow each other again and again."""
    names = ("NEG", "TANH", "ABS", "EXP", "SIN", "COS", "RELU", "LOGISTIC", "SQUARE", "FLOOR", "CEIL", "ROUND", "ELU")
    chance = random.Random(count)
    builder = Builder()
    x = builder.input("image", (1, 4))
    for number in range(count):
        y = builder.tensor(f"step{number}", (1, 4))
        name = names[number % kinds] if kinds else chance.choice(names)
        builder.operator(name, [x], [y])
        x = y
    return builder.finish(x)


def test_repeated_blocks_are_folded(browser: Any, tmp_path: Path) -> None:
    """One block stands for all of its kind, until it is asked what is behind it, or something there is searched."""
    shown = Shown(browser, reported(tmp_path, row(130, 13))).ready()
    page = shown.page
    labels = page.evaluate(SHOWN, "source")
    assert "× 9 more" in labels and len(labels) == 16
    page.click("#source .fold")
    assert len(page.evaluate(SHOWN, "source")) == 132 and page.inner_text("#source .fold") == "fold"
    page.click("#source .fold")
    assert len(page.evaluate(SHOWN, "source")) == 16
    shown.click("source", "× 9 more")
    assert len(page.evaluate(SHOWN, "source")) == 132 and shown.details().startswith("NEG")
    page.click("#source .fold")
    page.keyboard.press("/")
    page.keyboard.type("step128")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert len(page.evaluate(SHOWN, "source")) == 132 and "step128" in shown.details()
    shown.close()


def test_what_quantizes_is_folded(browser: Any, tmp_path: Path) -> None:
    shown = Shown(browser, reported(tmp_path, mobilenet())).ready()
    labels = shown.page.evaluate(SHOWN, "written")
    folded = len(labels)
    assert "Conv" in labels and not {"Q", "DQ"} & {*labels}
    shown.page.click("#written .fold")
    labels = shown.page.evaluate(SHOWN, "written")
    assert {"Q", "DQ"} <= {*labels} and len(labels) > folded
    shown.close()


@pytest.mark.parametrize("dark", [False, True])
def test_many_nodes_fit(browser: Any, tmp_path: Path, dark: bool) -> None:
    """166 that do not repeat are all in sight, in letters of 8 pixels at least, and none on another one."""
    shown = Shown(browser, reported(tmp_path, row(164, 0)), dark).ready()
    for panel in ("written", "source"):
        count, smallest, outside, above = shown.page.evaluate(SEEN, panel)
        assert count >= 100 and smallest >= 8 and outside == 0 and above == 0
    shown.close()


@pytest.mark.parametrize(("width", "dark"), [(390, False), (768, True)])
def test_narrow_screens(browser: Any, pages: list[Path], width: int, dark: bool) -> None:
    """Nothing is wider than the screen, and what is chosen is told below the graphs."""
    for path in pages:
        shown = Shown(browser, path, dark, width).ready()
        page = shown.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        lines = page.evaluate("[...document.querySelectorAll('td .whole')].map(each => each.getClientRects().length)")
        assert lines and {*lines} == {1}, "a short word is broken"
        wide = page.evaluate(WIDER, width)
        assert wide == []
        page.evaluate("document.getElementById('written').scrollIntoView()")
        label = next(each for each in page.evaluate(SHOWN, "written") if each not in ("input", "output"))
        assert shown.click("written", label)
        page.click("#written .fit")
        page.fill("#find", "input")
        assert "found" in page.inner_text("#found")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown.close()


def test_everything_is_reached_by_tab(browser: Any, tmp_path: Path) -> None:
    shown = Shown(browser, reported(tmp_path, moved())).ready()
    reached = set()
    for _ in range(40):
        shown.page.keyboard.press("Tab")
        reached.add(shown.page.evaluate("document.activeElement.id || document.activeElement.classList[0]"))
    assert {"theme", "find", "canvas", "details", "fit", "in", "out"} <= reached
    shown.close()


@pytest.mark.parametrize("dark", [False, True])
def test_dark_and_light(browser: Any, tmp_path: Path, dark: bool) -> None:
    """What the system prefers, then what the switch says, in the page and in the graphs."""
    shown = Shown(browser, reported(tmp_path, moved()), dark).ready()

    def brightness() -> list[int]:
        ground = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        texts = (ground, shown.page.evaluate(COLOUR, "written"))
        return [sum(int(part) for part in text.strip("rgb()").split(",")[:3]) for text in texts]

    ground, ink = brightness()
    assert (ground < ink) is dark
    shown.page.click(".theme")
    assert brightness()[0] > brightness()[1] if dark else brightness()[0] < brightness()[1]
    shown.page.click(".theme")
    assert brightness() == [ground, ink]
    shown.close()


def test_hostile_names(browser: Any, tmp_path: Path) -> None:
    for number in range(0, len(HOSTILE), 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        image, inner, scores = (*HOSTILE[number : number + 3], "x", "y")[:3]
        shown = Shown(browser, reported(folder, moved((image, inner, scores)), "--verify")).ready()
        told = shown.click("source", "CONV_2D")
        assert printable(image) in told and printable(inner) in told and "\u202e" not in shown.page.content()
        assert shown.page.evaluate("window.broken") is None
        assert shown.page.evaluate("[...document.images].length") == 0
        shown.close()


def test_branches_are_tabs(browser: Any, tmp_path: Path) -> None:
    shown = Shown(browser, reported(tmp_path, nested(2))).ready()
    assert "If" in shown.page.evaluate(SHOWN, "written")
    assert "then_branch of" in shown.click("written", "If")
    shown.page.click("#details button:has-text('then_branch of')")
    assert {"Add", "If"} <= set(shown.page.evaluate(SHOWN, "written"))
    shown.page.select_option("#written select", "0")
    assert shown.click("source", "IF").startswith("IF\n\nIF#0")
    assert shown.marked("written", "linked") == ["If"]
    shown.close()


def test_models_of_any_size(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all, and more than is drawn at a time: the rest is a step away, and found by search."""
    shown = Shown(browser, reported(tmp_path, empty())).ready()
    assert shown.page.evaluate(SHOWN, "source") == ["input", "output"]
    shown.close()
    monkeypatch.setattr(report, "PART", 50)
    shown = Shown(browser, reported(tmp_path, chain(70))).ready()
    page = shown.page
    assert page.inner_text("#written .parts output") == "1–50 of 72"
    assert len(page.evaluate(SHOWN, "written")) == 50
    page.click("#written .after")
    assert page.inner_text("#written .parts output") == "51–72 of 72"
    assert page.locator("#written .after").is_disabled()
    page.keyboard.press("/")
    page.keyboard.type("step16 neg")
    page.keyboard.press("Enter")
    assert page.inner_text("#written .parts output") == "1–50 of 72"
    shown.close()


def test_index(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table sorts by numbers, with what failed last; links lead to reports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name, count in (("a", 9), ("b", 30), ("c", 4)):
        (tmp_path / f"in/{name}.tflite").write_bytes(chain(count))
    (tmp_path / "in/bad.tflite").write_bytes(b"none")
    assert main(["in", "-q", "-o", "out", "--report", "report"]) == 2
    shown = Shown(browser, tmp_path / "report/index.html")
    page = shown.page

    def names() -> list[str]:
        return [text.removesuffix(".tflite") for text in page.locator("td.name").all_inner_texts()]

    page.click("th button:has-text('operators')")
    assert names() == ["c", "a", "b", "bad"]
    page.click("th button:has-text('operators')")
    assert names() == ["b", "a", "c", "bad"]
    page.click("th button:has-text('model')")
    assert names() == ["a", "b", "bad", "c"]
    assert "neither a TensorFlow Lite nor an ONNX model" in page.inner_text("tr:has-text('bad')")
    shown.said.clear()
    page.click("a:has-text('b.tflite')")
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("h1") == "b"
    page.close()
