"""onnxruntime-web: whether files give there what they give in ONNX Runtime, and how long they take, on one thread.

    npm install --prefix experiments/web
    python -m experiments.measure.ort_web FOLDER [--targets ort-cpu ort-web] [--bytes]

Models are converted for each target. Printed is the time for each by that for the first, and how far results are from
those of ONNX Runtime. ``--bytes`` tells instead which storage of bytes is right there, and how fast.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np
import onnx

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.kernels import Node, Spec, model
from layoutsolve.measurement.timing import Runner, feeds_of, ratio, rounds_of, timed, warm
from layoutsolve.verification.runtimes import OnnxRuntime

SCRIPT = Path(__file__).with_name("web") / "run.mjs"

SIGNS = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("int8", "uint8"))


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
        if self._process.stdin is None or self._process.stdout is None:
            raise TypeError("the process has no pipes")
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise VerifyError("Node ended: run npm install --prefix experiments/web")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise VerifyError(f"onnxruntime-web: {answer['error']}")
        return answer


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
    """A quantised product whose sums saturate where pairs are added in 16 bits."""
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


def measure(web: Web, model: CorpusModel, targets: Sequence[str], folder: Path) -> dict[str, float]:
    """The time of a model for each target by that for the first, in wasm; nothing where they give the same file.

    Raises ConversionError where it cannot be converted, or does not run.
    """
    runners: dict[str, Runner[Session]] = {}
    told = []
    made = [layoutsolve.convert(model.source, target=target).model for target in targets]
    files = [each.SerializeToString(deterministic=True) for each in made]
    if len(files) > 1 and len(set(files)) == 1:
        return {}
    for target, file in zip(targets, files, strict=True):
        path = folder / f"{Path(target).stem}.onnx"
        path.write_bytes(file)
        session, native = Session(web, target, path), OnnxRuntime(path)
        feeds = feeds_of(native)
        found, expected = session.run(feeds), native.run(feeds)
        told.append(max(_off(one, other) for one, other in zip(found, expected, strict=True)))
        runners[target] = warm(session)
    times = timed(runners, rounds_of(list(runners.values())))
    ratios = {target: ratio(times[target], times[targets[0]]) for target in targets}
    pairs = zip(targets, told, strict=True)
    shown = "  ".join(f"{Path(target).stem} {ratios[target]:.2f} ({off:.0e} off)" for target, off in pairs)
    print(f"{model.name}: {1e3 * float(np.median(times[targets[0]])):.3f} ms  {shown}", flush=True)
    return ratios


def _off(found: Array, expected: Array) -> float:
    """How far a result is from that of ONNX Runtime, by its largest number."""
    if found.size == 0 or found.dtype.kind not in "fiu":
        return float(not np.array_equal(found, expected))
    largest = max(float(np.abs(expected.astype(np.float64)).max()), 1e-30)
    return float(np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()) / largest


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--targets", nargs="+", default=["ort-cpu"], metavar="TARGET", help="the first counts as 1")
    parser.add_argument("--bytes", action="store_true", help="only which storage of bytes is right")
    options = parser.parse_args(given)
    found: list[dict[str, float]] = []
    with TemporaryDirectory() as folder, Web() as web:
        if options.bytes:
            storages(web, Path(folder))
            return
        for each in models(options.folder, options.only):
            try:
                if ratios := measure(web, each, options.targets, Path(folder)):
                    found.append(ratios)
            except layoutsolve.ConversionError as error:
                print(f"{each.name}: {error}")
    for target in options.targets:
        print(f"{target}: {len(found)} models, geometric mean {mean([ratios[target] for ratios in found]):.3f}")


if __name__ == "__main__":
    main()
