"""How many bytes of quantized models differ from LiteRT's plain kernels, by how operators and weights are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend.tflite.lowering.options import QUANT
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import LiteRT, Run
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime

WAYS = {**{mode: {"quant": mode} for mode in QUANT}, "symmetric weights": {"weights": "symmetric"}}
"""Options of a conversion."""

XNNPACK = "LiteRT with XNNPACK"
STEPS = ("0", "1", "2", "3+")
KINDS = ("int8", "uint8", "int")
"""What the manifest calls models of bytes."""


@dataclass(frozen=True)
class Row:
    """A model written in one way: how many numbers of all outputs are so many steps off, and its Transposes.

    ``levels`` are the levels of ONNX Runtime at which all numbers are LiteRT's. ``error`` is why there are none.
    """

    model: str
    mode: str
    steps: Mapping[str, int]
    transposes: int = 0
    levels: Sequence[str] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.model:60} {self.mode:20} {self.error}"
        counts = " ".join(f"{self.steps[name]:>9}" for name in STEPS)
        return f"{self.model:60} {self.mode:20} {counts} {self.transposes:>5}  {','.join(self.levels)}"


def histogram(truth: Run, results: Sequence[Array]) -> dict[str, int]:
    """How many numbers are so many steps off; numbers that are no steps count as 3+ where they differ."""
    found = dict.fromkeys(STEPS, 0)
    for port, expected, actual in zip(truth.outputs, truth.results, results, strict=False):
        off = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
        if expected.dtype.kind == "f":
            off = (
                np.rint(off / port.scale[0]) + ((off > 0) & (off < port.scale[0] / 2))
                if port.quantized
                else 3.0 * (off > 0)
            )
        for name, step in zip(STEPS, range(len(STEPS)), strict=True):
            found[name] += int((off >= step).sum() if name == STEPS[-1] else (off == step).sum())
    return found


def inputs_of(described: Run, seed: int) -> list[Array]:
    """Random inputs. Raises VerifyError for types that are no numbers."""
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for port in described.inputs:
        shape = [max(size, 1) for size in port.shape]
        if port.dtype == "float32":
            found.append(random.uniform(-1, 1, shape).astype(np.float32))
        elif port.dtype == "bool":
            found.append(random.integers(0, 2, shape).astype(bool))
        elif not port.dtype.startswith(("int", "uint")):
            raise VerifyError(f"there are no random inputs of type {port.dtype}")
        else:
            limits = np.iinfo(port.dtype)
            found.append(random.integers(limits.min, limits.max, shape, endpoint=True).astype(port.dtype))
    return found


def rows(model: CorpusModel, litert: LiteRT, seed: int) -> list[Row]:
    """A model in all ways."""
    source = model.source
    given = inputs_of(litert.describe(source), seed)
    truth = litert.run(source, given)
    found = []
    for mode, said in WAYS.items():
        try:
            found.append(_row(model.name, mode, layoutsolve.convert(source, **said), truth, given))
        except ConversionError as error:
            found.append(Row(model.name, mode, {}, error=str(error).replace("\n", " ")[:300]))
    found.append(Row(model.name, XNNPACK, histogram(truth, litert.run(source, given, delegate=True).results)))
    return found


def _row(name: str, mode: str, conversion: layoutsolve.Conversion, truth: Run, given: Sequence[Array]) -> Row:
    model, steps = conversion.model.SerializeToString(), dict[str, int]()
    equal = []
    for level in LEVELS:
        runtime = OnnxRuntime(model, threads=1, level=level)
        results = runtime.run(feeds(runtime, given, {}))
        steps = histogram(truth, results)
        if not sum(steps[each] for each in STEPS[1:]):
            equal.append(level)
    return Row(name, mode, steps, conversion.price.transposes, equal)


def main() -> None:
    """Print a row for each model and mode."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    options = parser.parse_args()
    found: list[Row] = []
    print(f"{'model':60} {'mode':20} {' '.join(f'{name:>9}' for name in STEPS)} transposes, levels that are equal")
    with LiteRT() as litert:
        for model in models(options.folder, options.only):
            if model.record.get("dtype", KINDS[0]) not in KINDS or not model.runs:
                continue
            try:
                found += rows(model, litert, options.seed)
            except VerifyError as error:
                found.append(Row(model.name, "", {}, error=str(error)))
            print(*found[-len(WAYS) - 1 :], sep="\n", flush=True)
    write_json(options.json, [asdict(row) for row in found])


if __name__ == "__main__":
    main()
