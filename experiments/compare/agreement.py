"""How well converted models agree with LiteRT, end to end: every model of a corpus, solved, checked and run.

The truth is LiteRT's plain kernels. Models with float activations and quantized weights (dynamic range) have two: what
LiteRT computes, which rounds activations at run time, and the same model with its weights dequantized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import onnx

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError, UnsupportedError, VerifyError
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.metrics import Distance
from layoutsolve.verification.runtimes import OnnxRuntime
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verdict import TWIN, OutputComparison, Verification
from layoutsolve.verification.verify import verify

Verdict = Literal["agrees", "as close as XNNPACK", "hybrid", "off", "refused", "LiteRT cannot run"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "as close as XNNPACK", "hybrid", "off", "refused", "LiteRT cannot run")

SIZES = (1, 64, 4096)
"""What dynamic dimensions are tried with, until LiteRT accepts one."""


@dataclass(frozen=True)
class Agreement:
    """What became of one model. ``folder`` and ``dtype`` are as in the corpus, ``reason`` explains a verdict."""

    model: str
    folder: str
    dtype: str
    verdict: Verdict
    reason: str = ""
    outputs: tuple[OutputComparison, ...] = field(default=())


def agreement(model: CorpusModel, samples: int) -> Agreement:
    """Convert, check, run and judge one model."""
    verdict, reason, outputs = _judged(model, samples)
    folder, dtype = model.name.rpartition("/")[0].partition("/")[0] or ".", str(model.record.get("dtype", ""))
    return Agreement(model.name, folder, dtype, verdict, reason, outputs)


Outputs = tuple[OutputComparison, ...]
Judgement = tuple[Verdict, str, Outputs]


def _judged(model: CorpusModel, samples: int) -> Judgement:
    source = model.source
    try:
        conversion = layoutsolve.convert(source)
    except ConversionError as error:
        return "refused", _refusal(error), ()
    try:
        onnx.checker.check_model(conversion.model, full_check=True)
        runtime = OnnxRuntime(conversion.model.SerializeToString())
    except Exception as error:  # whatever makes a converted model unusable
        return "off", f"unusable: {_line(error)}", ()
    if not model.runs:
        return "LiteRT cannot run", _alone(runtime), ()
    return _compared(source, conversion, samples, runtime)


def _compared(source: bytes, conversion: layoutsolve.Conversion, samples: int, runtime: OnnxRuntime) -> Judgement:
    try:
        outputs = verified(source, conversion, samples).outputs
    except VerifyError as error:
        refused = str(error).startswith("LiteRT refuses")
        return ("LiteRT cannot run", _alone(runtime), ()) if refused else ("off", _line(error), ())
    return *_verdict(outputs), outputs


def verified(source: bytes, conversion: layoutsolve.Conversion, samples: int) -> Verification:
    """Compare on smooth input; dynamic dimensions get the first size that LiteRT accepts."""
    with LiteRT() as litert:
        ports = litert.describe(source).inputs
    names = [name for name, _, _ in OnnxRuntime(conversion.model.SerializeToString()).inputs]
    dynamic = any(-1 in port.signature for port in ports)
    relation = Relation(conversion.permutations(inputs=True), conversion.permutations(inputs=False))
    for size in SIZES if dynamic else SIZES[:1]:
        shapes = [[size if each < 0 else each for each in port.signature] for port in ports]
        try:
            sampling = Sampling(samples=samples, shapes=dict(zip(names, shapes, strict=False)))
            return verify(source, conversion.model, sampling, relation)
        except VerifyError as error:
            if size == SIZES[-1] or not dynamic:
                raise
            last = error
    raise last


def _verdict(outputs: Sequence[OutputComparison]) -> tuple[Verdict, str]:
    if failed := sum(not output.passed for output in outputs):
        return "off", f"{failed} of {len(outputs)} outputs"
    if any(output.truth == TWIN for output in outputs):
        return "hybrid", ""
    return ("agrees" if all(output.agrees for output in outputs) else "as close as XNNPACK"), ""


def _alone(runtime: OnnxRuntime) -> str:
    """Whether ONNX Runtime runs a model that LiteRT does not run."""
    generator = np.random.default_rng(0)
    types = {"tensor(float)": "float32", "tensor(double)": "float64"}
    feeds = {}
    for name, dtype, shape in runtime.inputs:
        sizes = [size if isinstance(size, int) else 1 for size in shape]
        data = smooth(types.get(dtype, dtype[7:-1]), sizes, generator)
        feeds[name] = data.astype(str).astype(object) if data.dtype.kind == "S" else data
    try:
        runtime.run(feeds)
    except VerifyError as error:
        return _line(error)
    return "ONNX Runtime runs it"


def _refusal(error: ConversionError) -> str:
    """The reason of a refusal in a few words: what is wrong with each kind of operator."""
    if isinstance(error, UnsupportedError):
        counts = Counter(f"{gap.operator}: {gap.reason}" for gap in error.gaps)
        return ", ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in counts.items())
    return _line(error)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200]


def worst(outputs: Sequence[OutputComparison]) -> OutputComparison:
    """The output that fails, or that is the furthest off."""
    return max(outputs, key=lambda output: (not output.passed, not output.agrees, output.distance.relative))


def shown(output: OutputComparison, found: Distance | None) -> str:
    """A distance in a table: the share within one step and the mean in steps, or the relative error."""
    if found is None:
        return "-"
    if output.kind == "quantized":
        return f"{100 * found.within:.2f} % ±1, mean {found.mean:.2f}"
    return f"{found.relative:.1e}"


def table(results: Sequence[Agreement]) -> Iterator[str]:
    """One line per model."""
    yield "| model | numbers | verdict | distance | XNNPACK's | float truth | why |"
    yield "|---|---|---|---|---|---|---|"
    for result in results:
        yield row(result)


def row(result: Agreement) -> str:
    """The line of one model."""
    cells = [result.model, result.dtype, result.verdict, "", "", "", result.reason.replace("|", "/")]
    if result.outputs:
        output = worst(result.outputs)
        truth = shown(output, output.distance)
        plain, twin = (truth, "") if output.rounded is None else (shown(output, output.rounded), truth)
        cells[3:6] = [plain, shown(output, output.xnnpack), twin]
    return "| " + " | ".join(cells) + " |"


def totals(results: Sequence[Agreement]) -> Iterator[str]:
    """One line per folder and kind of numbers, and one for all."""
    yield f"| folder | numbers | models | {' | '.join(VERDICTS)} |"
    yield "|---|---|" + "--:|" * (len(VERDICTS) + 1)
    groups = sorted({(result.folder, result.dtype) for result in results})
    for folder, dtype in groups:
        yield _counts(folder, dtype, [each for each in results if (each.folder, each.dtype) == (folder, dtype)])
    for folder in sorted({result.folder for result in results}):
        yield _counts(f"**{folder}**", "all", [each for each in results if each.folder == folder])
    yield _counts("**all**", "all", results)


def _counts(folder: str, dtype: str, results: Sequence[Agreement]) -> str:
    counts = Counter(result.verdict for result in results)
    cells = [folder, dtype, str(len(results)), *(str(counts[verdict] or "") for verdict in VERDICTS)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run over a corpus and print a line per model, then the totals."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, default=3, metavar="N", help="inputs per model (default: 3)")
    options = parser.parse_args()
    results: list[Agreement] = []
    print("\n".join(list(table([]))))
    for model in models(options.folder, options.only):
        results.append(_survived(model, options.samples))
        print(row(results[-1]), flush=True)
    print("", *totals(results), sep="\n")
    write_json(options.json, [asdict(result) for result in results])


def _survived(model: CorpusModel, samples: int) -> Agreement:
    try:
        return agreement(model, samples)
    except ConversionError as error:
        folder, dtype = model.name.rpartition("/")[0].partition("/")[0] or ".", str(model.record.get("dtype", ""))
        return Agreement(model.name, folder, dtype, "off", f"{type(error).__name__}: {_line(error)}")


if __name__ == "__main__":
    main()
