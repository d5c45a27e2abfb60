"""onnxruntime-web: whether files give there what LiteRT gives, and how long they take, on one thread.

    npm install --prefix experiments/measure/web
    python -m experiments.measure.ort_web FOLDER [--targets ort-cpu ort-web] [--with tf2onnx=THEIRS] [--browser]
    python -m experiments.measure.ort_web FOLDER --bytes

Models are converted for each target; a folder of others' files has NAME.onnx for each. Printed is the time of each by
that of the first of the targets, and how far results are from those of LiteRT's reference kernels, by the range of the
output; in ONNX Runtime at level none as well. A file that fails is told of with its error. Files run in Node, or in a
Chromium. ``--bytes`` tells instead which storage of bytes is right there, and how fast.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np
import onnx

from experiments.compare.processors import distance
from experiments.corpus import CorpusModel, arguments, files_of, folders, models, write_json
from experiments.measure.reports import BROWSERS
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.kernels import Node, Spec, model
from layoutsolve.measurement.timing import Runner, feeds_of, ratio, rounds_of, spread, timed, warm
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime

FOLDER = Path(__file__).with_name("web")
SCRIPT = FOLDER / "run.mjs"
_INSTALL = "npm install --prefix experiments/measure/web"

SIGNS = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("int8", "uint8"))

SLICE, WARM, LEAST = 0.02, 15, 21
"""Seconds of one turn, turns before those that count, and rounds."""

_HOST = "http://localhost/"
"""Where pages may use all that those of the web may; nothing is asked of it."""


class Web:
    """A process of Node that runs models in onnxruntime-web. A request that fails is a :class:`VerifyError`."""

    def __enter__(self) -> Web:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, **request: object) -> dict[str, Any]:
        """What it answers."""
        answer = self._answered(request)
        if "error" in answer:
            raise VerifyError(f"onnxruntime-web: {answer['error']}")
        return answer

    def settle(self, name: str) -> None:
        """Learn what a request takes by itself, with a model that is loaded."""

    def _answered(self, request: Mapping[str, object]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise TypeError("the process has no pipes")
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise VerifyError(f"Node ended: run {_INSTALL}")
        found: dict[str, Any] = json.loads(line)
        return found


class Browser(Web):
    """A Chromium that does, in WebAssembly or by another execution provider. Times are those that the processor spends
    on the page's thread, which takes Linux.
    """

    def __init__(self, provider: str = "wasm", options: Sequence[str] = ()) -> None:
        self._provider, self._options = provider, options

    def __enter__(self) -> Browser:
        from playwright.sync_api import sync_playwright

        program = next(filter(None, map(shutil.which, BROWSERS)), None)
        if program is None:
            raise VerifyError("a Chromium is missing: apt install chromium")
        self._held = ExitStack()
        chromium = self._held.enter_context(sync_playwright()).chromium
        browser = chromium.launch(executable_path=program, args=["--no-sandbox", *self._options])
        self._held.callback(browser.close)
        self._page = browser.new_page()
        self._page.set_default_timeout(0)
        self._page.route("**/*", _served)
        self._page.goto(f"{_HOST}page.html?provider={self._provider}")
        try:
            self._page.wait_for_function("window.answer", timeout=60_000)
        except Exception as error:
            raise VerifyError(f"the page does not load onnxruntime-web: run {_INSTALL}") from error
        self._thread = self._busiest(browser)
        self._idle = 0.0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def _answered(self, request: Mapping[str, object]) -> dict[str, Any]:
        start = _spent(self._thread)
        found: dict[str, Any] = self._page.evaluate("(asked) => window.answer(asked)", dict(request))
        if "turn" in request and "error" not in found:
            found["seconds"] = max(_spent(self._thread) - start - self._idle, 0.0)
        return found

    def settle(self, name: str) -> None:
        self._idle = 0.0
        self._idle = median(float(self.ask(turn=name, count=0)["seconds"]) for _ in range(20))

    def _busiest(self, browser: Any) -> int:
        """The process whose first thread computes what the page does."""
        told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        renderers = [each["id"] for each in told if each["type"] == "renderer"]
        before = {each: _spent(each) for each in renderers}
        self._page.evaluate("for (const end = performance.now() + 200; performance.now() < end; );")
        return int(max(renderers, key=lambda each: _spent(each) - before[each]))


def _spent(process: int) -> float:
    """Seconds that the processor has spent on the first thread of a process."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _served(route: Any) -> None:
    """Give a page a file beside it, or one that its path names behind /file."""
    path = route.request.url.removeprefix(_HOST).partition("?")[0]
    found = Path(path.removeprefix("file")) if path.startswith("file/") else FOLDER / path
    if found.is_file():
        route.fulfill(path=found)
    else:
        route.fulfill(status=404)


class Session:
    """A file that it has loaded, with its input."""

    def __init__(self, web: Web, name: str, file: Path, level: str = "all") -> None:
        self.web, self.name = web, name
        self.said = web.ask(load=name, path=str(file), level=level)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """All outputs."""
        given = {name: _told(data) for name, data in feeds.items()}
        found = self.web.ask(run=self.name, feeds=given)["results"]
        return [_heard(found[name]) for name in self.said["outputs"]]

    def settle(self) -> None:
        """Learn what a request takes by itself."""
        self.web.settle(self.name)

    def turn(self, repeats: int) -> float:
        """Seconds of so many runs with what was fed last, by the processor's clock for the process."""
        return float(self.web.ask(turn=self.name, count=repeats)["seconds"])


def _told(data: Array) -> dict[str, object]:
    content = base64.b64encode(np.ascontiguousarray(data).tobytes()).decode()
    return {"type": data.dtype.name, "dims": list(data.shape), "data": content}


def _heard(said: Mapping[str, Any]) -> Array:
    data = np.frombuffer(base64.b64decode(said["data"]), said["type"])
    return np.asarray(data.reshape(said["dims"]))


def product(activations: str, weights: str) -> onnx.ModelProto:
    """A quantized product whose sums saturate where pairs are added in 16 bits."""
    constants: dict[str, Array] = {
        "w": np.full((256, 64), np.iinfo(weights).max, weights),
        "xs": np.array(1, np.float32),
        "xz": np.array(np.iinfo(activations).min // 2 + 64, activations),
        "wz": np.array(0 if weights == "int8" else 128, weights),
        "ys": np.array(65536.0, np.float32),
    }
    nodes = [
        Node("DequantizeLinear", ["x", "xs", "xz"], ["a"]),
        Node("DequantizeLinear", ["w", "xs", "wz"], ["b"]),
        Node("MatMul", ["a", "b"], ["p"]),
        Node("QuantizeLinear", ["p", "ys", "xz"]),
    ]
    return model(nodes, {"x": Spec((64, 256), activations)}, constants)


def storages(web: Web, folder: Path) -> None:
    """Which storage of bytes is right, and how long it takes."""
    print("activations  weights  right  time")
    runners: dict[str, Runner[Session]] = {}
    right: dict[str, str] = {}
    for activations, weights in SIGNS:
        name = f"{activations:11s}  {weights:7s}"
        made = product(activations, weights)
        path = folder / f"{activations}{weights}.onnx"
        path.write_bytes(made.SerializeToString())
        x = Spec((64, 256), activations).loud()
        try:
            session = Session(web, name, path)
            plain, found = Session(web, "plain", path, "disabled").run({"x": x})[0], session.run({"x": x})[0]
        except VerifyError as error:
            print(f"{name}  {error}")
            continue
        off = np.abs(plain.astype(int) - found.astype(int)).max()
        right[name] = "yes" if off <= 1 else f"no, {off} steps off"
        runners[name] = warm(session)
    times = timed(runners, rounds_of(list(runners.values())))
    for name, spent in times.items():
        print(f"{name}  {right[name]:5s}  {ratio(spent, times[next(iter(times))]):.2f}")


@dataclass(frozen=True)
class Found:
    """One file of a model: its time by that of the first, how far rounds disagree on that, and how far its results are
    off LiteRT's, there and in ONNX Runtime at level none.
    """

    ratio: float
    spread: float
    off: float
    native: float


def measure(
    web: Web, lite: LiteRT, model: CorpusModel, targets: Sequence[str], others: Mapping[str, Path], folder: Path
) -> dict[str, Found]:
    """What is found of each file of a model; nothing where all targets give the same, and there is no other's.

    Raises ConversionError where it cannot be converted, or does not run. What a state becomes is not compared.
    """
    files = files_of(model, targets, others, folder)
    if len(files) == len(targets) > 1 and len({path.read_bytes() for path in files.values()}) == 1:
        return {}
    runners: dict[str, Runner[Session]] = {}
    told: dict[str, tuple[float, float]] = {}
    given: list[Array] = []
    truth: Sequence[Array] = ()
    for name, path in files.items():
        try:
            native, session = OnnxRuntime(path, level="none"), Session(web, name, path)
            given = given or list(feeds_of(native).values())
            feeds = dict(zip((port for port, *_ in native.inputs), given, strict=True))
            found, plain = session.run(feeds), native.run(feeds)
        except VerifyError as error:
            if name in targets:
                raise
            print(f"{model.name}: {name}: {error}")
            continue
        truth = truth or lite.run(model.source, given).results
        told[name] = distance(truth, found[: len(truth)]), distance(truth, plain[: len(truth)])
        runners[name] = warmed(session)
    times = timed(runners, max(rounds_of(list(runners.values())), LEAST))
    first = times[targets[0]]
    result = {name: Found(ratio(spent, first), spread(spent, first), *told[name]) for name, spent in times.items()}
    shown = "  ".join(
        f"{Path(name).stem} {each.ratio:.2f} +-{each.spread / 2:.0%} (off {each.off:.1e}, {each.native:.1e})"
        for name, each in result.items()
    )
    print(f"{model.name}: {1e3 * float(np.median(first)):.3f} ms  {shown}", flush=True)
    return result


def warmed(session: Session) -> Runner[Session]:
    """A model that has run for as long as a browser takes to compile its kernels well, and how many runs are a turn."""
    first = warm(session)
    least = min(session.turn(first.repeats) for _ in range(3)) / first.repeats
    repeats = max(ceil(SLICE / max(least, 1e-7)), 1)
    for _ in range(WARM):
        session.turn(repeats)
    session.settle()
    return Runner(session, repeats)


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--targets", nargs="+", default=["ort-cpu"], metavar="TARGET", help="the first counts as 1")
    parser.add_argument("--with", dest="others", action="append", metavar="NAME=FOLDER", help="others' ONNX files")
    parser.add_argument("--bytes", action="store_true", help="only which storage of bytes is right")
    parser.add_argument("--browser", nargs="?", const="wasm", metavar="PROVIDER", help="in a Chromium, not in Node")
    options = parser.parse_args(given)
    found: dict[str, dict[str, Found]] = {}
    failed: dict[str, dict[str, str]] = {}
    with (
        TemporaryDirectory() as folder,
        Browser(options.browser) if options.browser else Web() as web,
        LiteRT() as lite,
    ):
        if options.bytes:
            storages(web, Path(folder))
            return
        for each in models(options.folder, options.only):
            try:
                if told := measure(web, lite, each, options.targets, folders(options), Path(folder)):
                    found[each.name] = told
            except Exception as error:  # of whatever, so that the other models have their rows
                failed[each.name] = {"error": f"{type(error).__name__}: {error}"}
                print(f"{each.name}: {failed[each.name]['error']}", flush=True)
    for name in [*options.targets, *folders(options)]:
        ratios = [told[name].ratio for told in found.values() if name in told]
        print(f"{name}: {len(ratios)} models, geometric mean {mean(ratios):.3f}")
    rows = {name: {way: asdict(one) for way, one in told.items()} for name, told in found.items()}
    write_json(options.json, rows | failed)


if __name__ == "__main__":
    main()
