"""What one target is worth beside another: the time of each model for the second by that for the first.

Both files of a model run in turn, in ONNX Runtime and, where it is installed, in OpenVINO, on one thread. Models for
which both targets give the same nodes are left out.

    python -m experiments.compare.targets FOLDER ort-cpu portable
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.bench import bench

RUNTIMES = ("ONNX Runtime", "OpenVINO")


@dataclass(frozen=True)
class Found:
    """A model in a runtime: milliseconds for the first target, and the time for the second by that."""

    model: str
    runtime: str
    milliseconds: float
    ratio: float


def measure(model: CorpusModel, targets: Sequence[str], folder: Path) -> Iterator[Found]:
    """Time a model for both targets. Raises ConversionError where it cannot be converted or run."""
    files = {target: layoutsolve.convert(model.source, target=target) for target in targets}
    first, second = (found.model.SerializeToString(deterministic=True) for found in files.values())
    if first == second:
        return
    paths = [folder / "first.onnx", folder / "second.onnx"]
    for path, content in zip(paths, (first, second), strict=True):
        path.write_bytes(content)
    for runtime in RUNTIMES[: 1 + (importlib.util.find_spec("openvino") is not None)]:
        yield from _timed(model.name, runtime, paths)


def _timed(name: str, runtime: str, paths: Sequence[Path]) -> Iterator[Found]:
    try:
        rows = bench(list(map(str, paths)), openvino=runtime == "OpenVINO").rows
    except VerifyError as error:
        print(f"{name}: {error}")
        return
    first, second = (row for row in rows if row.runtime.startswith(runtime))
    yield Found(name, runtime, first.milliseconds, round(second.milliseconds / first.milliseconds, 4))


def summary(found: Sequence[Found]) -> Mapping[str, tuple[int, float]]:
    """Of each runtime how many models differ, and the geometric mean of their ratios."""
    ratios = {name: [each.ratio for each in found if each.runtime == name] for name in RUNTIMES}
    return {name: (len(some), mean(some)) for name, some in ratios.items() if some}


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("targets", nargs=2, metavar="TARGET", help="two targets, the first of which counts as 1")
    options = parser.parse_args(given)
    found: list[Found] = []
    with TemporaryDirectory() as folder:
        for model in models(options.folder, options.only):
            try:
                for each in measure(model, options.targets, Path(folder)):
                    print(f"{each.model}, {each.runtime}: {each.milliseconds:.3f} ms, {each.ratio:.2f}", flush=True)
                    found.append(each)
            except layoutsolve.ConversionError:
                continue
    print(f"{len({each.model for each in found})} models differ")
    for runtime, (count, ratio) in summary(found).items():
        print(f"{runtime}: {count} models, geometric mean {ratio:.3f}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
