"""How far quantised models are from LiteRT's plain kernels, by the way in which their numbers are written.

For each model whose outputs come in steps: elements that are 0, 1, 2, 3 and more steps off, their mean, and the same of
LiteRT's other kernels (XNNPACK). Milliseconds are those of one run on one thread, the least of a few.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend.tflite.lowering.options import QUANTS
from layoutsolve.graph import Array
from layoutsolve.verification.distance import distance
from layoutsolve.verification.runtimes import LiteRT, OnnxRuntime, Port
from layoutsolve.verification.verify import feeds, smooth

XNNPACK = "XNNPACK"
ROUNDS = 5


@dataclass(frozen=True)
class Way:
    """One model written, or run, in one way. ``steps`` counts elements that are 0, 1, 2, 3 and more steps off."""

    model: str
    way: str
    transposes: int
    operators: int
    steps: tuple[int, ...]
    mean: float
    milliseconds: float

    def __str__(self) -> str:
        total, written = sum(self.steps) or 1, [f"{self.transposes}", f"{self.operators}"]
        shares = [f"{100 * count / total:.1f}" for count in self.steps]
        cells = [*(written if self.operators else ["", ""]), *shares, f"{self.mean:.2f}", f"{self.milliseconds:.2f}"]
        return f"| {self.model} | {self.way} | {' | '.join(cells)} |"


def ways(model: CorpusModel, litert: LiteRT, samples: int) -> Iterator[Way]:
    """A model in all ways; none where its outputs are no steps, or LiteRT does not run it."""
    source = model.source
    ports = litert.describe(source)
    stepped = [number for number, port in enumerate(ports.outputs) if port.quantised]
    if not stepped:
        return
    seeds = map(np.random.default_rng, range(samples))
    given = [[smooth(port.dtype, port.shape, random) for port in ports.inputs] for random in seeds]
    truth = [litert.run(source, each).results for each in given]
    outputs = [ports.outputs[number] for number in stepped]

    def way(name: str, found: Sequence[Sequence[Array]], written: tuple[int, int], spent: float) -> Way:
        steps, mean = _steps(outputs, *([[run[n] for n in stepped] for run in runs] for runs in (truth, found)))
        return Way(model.name, name, *written, steps, mean, 1e3 * spent)

    for quant in QUANTS:
        converted = layoutsolve.convert(source, quant=quant).model
        runtime = OnnxRuntime(converted.SerializeToString(), threads=1)
        fed = [feeds(runtime, each, {}) for each in given]
        results = [runtime.run(each) for each in fed]
        operators = [node.op_type for node in converted.graph.node]
        spent = min(_seconds(runtime, fed[0]) for _ in range(ROUNDS))
        yield way(quant, results, (operators.count("Transpose"), len(operators)), spent)
    yield way(XNNPACK, [litert.run(source, each, delegate=True).results for each in given], (0, 0), float("nan"))


def _seconds(runtime: OnnxRuntime, fed: Mapping[str, Array]) -> float:
    start = time.process_time()
    runtime.run(fed)
    return time.process_time() - start


def _steps(
    ports: Sequence[Port], truth: Sequence[Sequence[Array]], found: Sequence[Sequence[Array]]
) -> tuple[tuple[int, ...], float]:
    """How many elements of all outputs are how many steps off, and by how many in the mean."""
    counts, total = np.zeros(5, np.int64), 0.0
    for number, port in enumerate(ports):
        each = distance(port, [(a[number], b[number]) for a, b in zip(truth, found, strict=True)])
        counts += each.steps
        total += each.mean * each.count
    return tuple(counts.tolist()), total / max(int(counts.sum()), 1)


def main() -> None:
    """Print a line per model and way."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, default=2, metavar="N", help="inputs per model (default: 2)")
    options = parser.parse_args()
    found: list[Way] = []
    print("| model | way | Transposes | operators | 0 | 1 | 2 | 3 | more (% of elements) | mean steps | ms |")
    print("|---|---|" + "--:|" * 9)
    with LiteRT() as litert:
        for model in (each for each in models(options.folder, options.only) if each.runs):
            try:
                for way in ways(model, litert, options.samples):
                    found.append(way)
                    print(way, flush=True)
            except (ConversionError, VerifyError) as error:
                print(f"| {model.name} | {type(error).__name__}: {' '.join(str(error).split())[:150]} |", flush=True)
    for name in (*QUANTS, XNNPACK):
        each = [way for way in found if way.way == name]
        if each:
            exact = sum(way.steps[0] == sum(way.steps) for way in each)
            mean = sum(way.mean for way in each) / len(each)
            print(f"\n{name}: {len(each)} models, {exact} of them without a difference, {mean:.3f} steps in the mean")
    write_json(options.json, [asdict(way) for way in found])


if __name__ == "__main__":
    main()
