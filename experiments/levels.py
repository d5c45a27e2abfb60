"""Whether ONNX Runtime gives the same results however far it optimises: every model of a folder at all four levels.

Each level is compared with 'none', which runs the model as it is written. ``--opset``, ``--strategy``, ``--objective``
and ``--contrib`` convert in another way; ``python -m experiments.levels --only TEXT FOLDER`` takes part of a folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.distance import Distance, distance, passes
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.graph import Array, Size
from layoutsolve.runtimes import LEVELS, Level, OnnxRuntime, Port
from layoutsolve.solver import DEFAULT_OBJECTIVE, STRATEGIES
from layoutsolve.verification import smooth

FLOAT, STEPPED = 1e-5, 0.02
"""How far float outputs may be apart, relative to their range: of models that are real throughout, and of others, where
another rounding of a quantised tensor becomes a step.
"""


@dataclass(frozen=True)
class Gap:
    """An output that one level computes otherwise than 'none' does, or why a level does not run at all."""

    model: str
    level: Level
    output: str
    apart: Distance | None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.model} at {self.level}: {self.output} {self.error or self.apart}"


def gaps(name: str, model: bytes, given: Mapping[str, Array]) -> list[Gap]:
    """What the levels compute otherwise than 'none' does. Raises :class:`VerifyError` where that does not run."""
    found: list[Gap] = []
    runtime = OnnxRuntime(model, threads=1, level=LEVELS[0])
    truth = runtime.run(given)
    stepped = b"QuantizeLinear" in model
    for level in LEVELS[1:]:
        try:
            results = OnnxRuntime(model, threads=1, level=level).run(given)
        except VerifyError as error:
            found.append(Gap(name, level, "", None, str(error)))
            continue
        for output, expected, actual in zip(runtime.outputs, truth, results, strict=True):
            apart, close = compared(expected, actual, stepped)
            if not close:
                found.append(Gap(name, level, output, apart))
    return found


def compared(expected: Array, actual: Array, stepped: bool) -> tuple[Distance, bool]:
    """How far apart two results are, and whether that is no more than another order of operations explains."""
    quantised = stepped and expected.dtype in (np.int8, np.uint8, np.int16)
    scale = (1.0,) if quantised else ()
    port = Port("", expected.dtype.name, expected.shape, expected.shape, scale, (0,))
    found = distance(port, [(expected, actual)])
    if quantised:
        return found, passes("quantised", found, 0)
    real = expected.dtype.kind == "f"
    return found, passes("float" if real else "exact", found, STEPPED if stepped else FLOAT)


def _given(conversion: layoutsolve.Conversion) -> dict[str, Array]:
    """Smooth input; a symbolic size is 1."""
    graph, generator = conversion.graph, np.random.default_rng(0)
    moved = conversion.permutations(inputs=True)
    given = {}
    for key in graph.inputs:
        value, name = graph.values[key], graph.names.get(key, key)
        shape = [1 if isinstance(size, Size) else size for size in value.shape]
        data = smooth(value.dtype, shape, generator)
        data = np.char.decode(data, "utf-8").astype(object) if data.dtype.kind == "S" else data
        given[name] = np.transpose(data, moved[name]) if name in moved else data
    return given


def examined(model: CorpusModel, way: Mapping[str, Any]) -> tuple[str, Sequence[Gap]]:
    """What became of one model: 'agrees', 'differs', 'refused' or 'cannot run'."""
    try:
        conversion = layoutsolve.convert(model.source, **way)
    except ConversionError:
        return "refused", ()
    try:
        found = gaps(model.name, conversion.model.SerializeToString(), _given(conversion))
    except VerifyError:
        return "cannot run", ()
    return ("differs" if found else "agrees"), found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--opset", type=int, help="the operator set of the ONNX models")
    parser.add_argument("--strategy", choices=STRATEGIES, default="cpsat")
    parser.add_argument("--objective", default=DEFAULT_OBJECTIVE)
    parser.add_argument("--contrib", action="store_true", help="operators that only ONNX Runtime has")
    options = parser.parse_args()
    way = {key: getattr(options, key) for key in ("opset", "strategy", "objective", "contrib")}
    verdicts: Counter[str] = Counter()
    different: list[Gap] = []
    for model in models(options.folder, options.only):
        verdict, found = examined(model, way)
        verdicts[verdict] += 1
        different += found
        for gap in found:
            print(gap)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    write_json(options.json, [asdict(gap) for gap in different])


if __name__ == "__main__":
    main()
