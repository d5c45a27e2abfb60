"""How well converted models agree with LiteRT, end to end: every model of a corpus, solved, checked and run.

The truth is LiteRT's plain kernels. Models with float activations and quantised weights (dynamic range) have two: what
LiteRT computes, which rounds activations at run time, and the same model with its weights dequantised.
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
from experiments.dequantised import dequantised
from layoutsolve.distance import Distance
from layoutsolve.errors import ConversionError, UnsupportedError, VerifyError
from layoutsolve.runtimes import LiteRT, OnnxRuntime
from layoutsolve.verification import OutputComparison, Verification, smooth, verify

Verdict = Literal["agrees", "as close as XNNPACK", "hybrid", "off", "refused", "LiteRT cannot run"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "as close as XNNPACK", "hybrid", "off", "refused", "LiteRT cannot run")

SIZES = (1, 64, 4096)
"""What dynamic dimensions are tried with, until LiteRT accepts one."""

SHARE, FACTOR = 0.01, 1.1
"""How far from XNNPACK's a distance may be: its mean by this factor, and the elements beyond one step by this factor
and this share of all.
"""

ELEMENTS, MOST = 10_000, 100
"""To be compared with XNNPACK, an output needs so many elements: models run on more inputs, up to the second number."""


@dataclass(frozen=True)
class Agreement:
    """What became of one model. ``folder`` and ``dtype`` are as in the corpus, ``reason`` explains a verdict."""

    model: str
    folder: str
    dtype: str
    verdict: Verdict
    reason: str = ""
    outputs: tuple[OutputComparison, ...] = field(default=())
    float_truth: tuple[OutputComparison, ...] = field(default=())


def agreement(model: CorpusModel, samples: int) -> Agreement:
    """Convert, check, run and judge one model."""
    verdict, reason, outputs, float_truth = _judged(model, samples)
    folder, dtype = model.name.split("/")[0], str(model.record.get("dtype", ""))
    return Agreement(model.name, folder, dtype, verdict, reason, outputs, float_truth)


Outputs = tuple[OutputComparison, ...]
Judgement = tuple[Verdict, str, Outputs, Outputs]


def _judged(model: CorpusModel, samples: int) -> Judgement:
    source = model.source
    try:
        conversion = layoutsolve.convert(source)
    except ConversionError as error:
        return "refused", _refusal(error), (), ()
    try:
        onnx.checker.check_model(conversion.model, full_check=True)
        runtime = OnnxRuntime(conversion.model.SerializeToString())
    except Exception as error:  # whatever makes a converted model unusable
        return "off", f"unusable: {_line(error)}", (), ()
    if not model.runs:
        return "LiteRT cannot run", _alone(runtime), (), ()
    return _compared(source, conversion, samples)


def _compared(source: bytes, conversion: layoutsolve.Conversion, samples: int) -> Judgement:
    try:
        outputs = verified(source, conversion, samples).outputs
    except VerifyError as error:
        return "off", _line(error), (), ()
    rewritten = dequantised(source)
    if rewritten is None:
        if comparable(outputs) and (more := _needed(outputs, samples)) > samples:
            outputs = verified(source, conversion, more).outputs
        return *_verdict(outputs), outputs, ()
    float_truth = verified(rewritten, conversion, samples).outputs
    verdict, reason = _verdict(float_truth)
    return ("off" if verdict == "off" else "hybrid"), reason, outputs, float_truth


def comparable(outputs: Outputs) -> bool:
    """Whether a model is off and XNNPACK is as well, so that the two distances are to be compared."""
    return any(not output.passed and output.xnnpack and output.xnnpack.mean > 0 for output in outputs)


def _needed(outputs: Outputs, samples: int) -> int:
    """How many inputs give the smallest output that is off enough elements."""
    counts = [sum(output.distance.steps) // samples for output in outputs if not output.passed]
    fewest = max(min((count for count in counts if count), default=ELEMENTS), 1)
    return min(max(-(-ELEMENTS // fewest), samples), MOST)


def verified(source: bytes, conversion: layoutsolve.Conversion, samples: int) -> Verification:
    """Compare on smooth input; dynamic dimensions get the first size that LiteRT accepts."""
    with LiteRT() as litert:
        ports = litert.describe(source).inputs
    names = [name for name, _, _ in OnnxRuntime(conversion.model.SerializeToString()).inputs]
    dynamic = any(-1 in port.signature for port in ports)
    for size in SIZES if dynamic else SIZES[:1]:
        shapes = [[size if each < 0 else each for each in port.signature] for port in ports]
        try:
            return verify(
                source,
                conversion.model,
                samples=samples,
                shapes=dict(zip(names, shapes, strict=False)),
                input_permutations=conversion.permutations(inputs=True),
                output_permutations=conversion.permutations(inputs=False),
            )
        except VerifyError as error:
            if size == SIZES[-1] or not dynamic:
                raise
            last = error
    raise last


def _verdict(outputs: Sequence[OutputComparison]) -> tuple[Verdict, str]:
    off = [output for output in outputs if not output.passed]
    if not off:
        return "agrees", ""
    if all(as_close_as_xnnpack(output) for output in off):
        return "as close as XNNPACK", ""
    return "off", f"{len(off)} of {len(outputs)} outputs"


def as_close_as_xnnpack(output: OutputComparison) -> bool:
    """Whether an output is about as close to the plain kernels as LiteRT's own default path is.

    Integers that are not quantised count too (the classes of a segmentation, found among quantised scores).
    """
    ours, theirs = output.distance, output.xnnpack
    if theirs is None or not np.isfinite(ours.maximum):
        return False
    beyond = 1 - ours.within_one_step <= (1 - theirs.within_one_step) * FACTOR + SHARE
    return beyond and ours.mean <= theirs.mean * FACTOR


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
    return max(outputs, key=lambda output: (not output.passed, output.distance.relative))


def shown(output: OutputComparison, found: Distance | None) -> str:
    """A distance in a table: the share within one step and the mean in steps, or the relative error."""
    if found is None:
        return "-"
    if output.kind == "quantised":
        return f"{100 * found.within_one_step:.2f} % ±1, mean {found.mean:.2f}"
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
        cells[3:5] = [shown(output, output.distance), shown(output, output.xnnpack)]
    if result.float_truth:
        output = worst(result.float_truth)
        cells[5] = shown(output, output.distance)
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
        folder, dtype = model.name.split("/")[0], str(model.record.get("dtype", ""))
        return Agreement(model.name, folder, dtype, "off", f"{type(error).__name__}: {_line(error)}")


if __name__ == "__main__":
    main()
