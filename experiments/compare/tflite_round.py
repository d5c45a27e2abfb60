"""Whether a quantized TensorFlow Lite model that goes to ONNX and back has its operators again, and its integers.

Each model is converted to ONNX for a target, and what is written to TensorFlow Lite. LiteRT's reference kernels run
both on smooth inputs: how many steps outputs are apart in the mean and at most, of floats 255ths of their range. Models
that hold no stored integers between operators are left out::

    python -m experiments.compare.tflite_round FOLDER [--only TEXT] [--target ort-cpu] [--largest MB]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf

import numpy as np

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.solver.targets.target_file import DEFAULT_TARGET
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.metrics import kind
from layoutsolve.verification.refusals import RefusedError

STORED = ("int8", "uint8", "int16")
LEVELS = 255
"""The steps of a range that bytes have."""


@dataclass(frozen=True)
class Round:
    """A model there and back: operators before, by kind how many more, and how far apart its outputs are, in steps."""

    model: str
    before: int = 0
    more: dict[str, int] = field(default_factory=dict)
    mean: float = 0.0
    most: float = 0.0
    error: str = ""

    @property
    def added(self) -> int:
        """How many operators it has more."""
        return sum(self.more.values())

    def __str__(self) -> str:
        if self.error:
            return f"{self.model:56} {self.error}"
        kinds = " ".join(f"{name}{count:+}" for name, count in self.more.items()) if self.added > 0 else ""
        return (
            f"{self.model:56} {self.before:4} {self.added:+4}  {self.mean:.3f} steps, at most {self.most:.1f}  {kinds}"
        )


def operators(model: Model) -> Counter[str]:
    """How many operators of each kind a model has."""
    return Counter(each.name for graph in model.subgraphs for each in graph.operators)


def is_quantized(model: Model) -> bool:
    """Whether operators give stored integers with a scale."""
    graph = model.subgraphs[0]
    made = (graph.tensors[index] for operator in graph.operators for index in operator.outputs)
    return any(tensor.dtype in STORED and tensor.quant is not None for tensor in made)


def measure(model: CorpusModel, target: str) -> Round | None:
    """A model there and back, None where it holds no stored integers."""
    try:
        source = parse(model.source)
    except ConversionError:
        return None
    if not is_quantized(source):
        return None
    try:
        between = layoutsolve.convert(model.source, target=target).model
        found = layoutsolve.convert(between, to="tflite").content("")
    except ConversionError as error:
        return Round(model.name, error=f"refused: {str(error).splitlines()[-1].strip()[-150:]}")
    before, after = operators(source), operators(parse(found))
    more = {name: after[name] - before[name] for name in sorted({*before, *after}) if after[name] != before[name]}
    try:
        mean, most = difference(model.source, found)
    except RefusedError as error:
        return Round(model.name, sum(before.values()), more, inf, inf, f"does not run: {str(error)[:100]}")
    return Round(model.name, sum(before.values()), more, mean, most)


def difference(source: bytes, found: bytes) -> tuple[float, float]:
    """How many steps the outputs of two models are apart, in the mean and at most."""
    with LiteRT() as litert:
        generator = np.random.default_rng(0)
        inputs = [smooth(port.dtype, port.shape, generator) for port in litert.describe(source).inputs]
        truth, result = (litert.run(each, inputs) for each in (source, found))
    pairs = zip(truth.outputs, truth.results, result.results, strict=True)
    off = [_steps(port, one, other) for port, one, other in pairs]
    return max((float(each.mean()) for each in off if each.size), default=0.0), max(
        (float(each.max()) for each in off if each.size), default=0.0
    )


def _steps(port: Port, one: Array, other: Array) -> Array:
    far = np.abs(one.astype(np.float64) - other.astype(np.float64).reshape(one.shape))
    if kind(port) == "quantized" and one.dtype.kind != "f":
        return far
    span = float(np.ptp(one.astype(np.float64))) if one.size else 1.0
    return far / (span / LEVELS or 1.0)


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--target", default=DEFAULT_TARGET, help=f"what the ONNX model is for (default: {DEFAULT_TARGET})"
    )
    parser.add_argument("--largest", type=float, default=inf, metavar="MB", help="leave out larger files")
    options = parser.parse_args(given)
    found: list[Round] = []
    for model in models(options.folder, options.only):
        each = measure(model, options.target) if model.path.stat().st_size <= options.largest * 1e6 else None
        if each is not None:
            found.append(each)
            print(each, flush=True)
    done = [each for each in found if not each.error]
    kinds: Counter[str] = Counter()
    for each in done:
        kinds.update(each.more if each.added > 0 else {})
    print(
        f"{len(done)} of {len(found)} models: more operators in {sum(each.added > 0 for each in done)}, fewer in "
        f"{sum(each.added < 0 for each in done)}; {sum(each.before for each in done)} operators "
        f"{sum(each.added for each in done):+}; outputs at most 1 step apart in "
        f"{sum(each.most <= 1 for each in done)}, in the mean below one in {sum(each.mean < 1 for each in done)}"
    )
    for name, count in kinds.most_common():
        print(f"{count:+5} {name}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
