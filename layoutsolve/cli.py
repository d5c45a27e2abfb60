"""The command line: ``layoutsolve MODEL.tflite``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from layoutsolve.errors import ConversionError, LayoutError, OptionError, OutputError

if TYPE_CHECKING:
    from layoutsolve.api import Conversion
    from layoutsolve.certificate import Recheck
    from layoutsolve.explanation import Explanation
    from layoutsolve.solver.boundary import Choice, Ends
    from layoutsolve.verification import Verification

FAILED, DIFFERENT = 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 on success, 2 on bad input, 3 where verification fails."""
    start = time.perf_counter()
    options = _parser().parse_args(arguments)
    try:
        return _convert(options, start)
    except ConversionError as error:
        print(f"layoutsolve: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Nobody reads the summary any more; the model is written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="layoutsolve", description="Convert a TensorFlow Lite model to ONNX with the fewest Transposes, proven."
    )
    parser.add_argument("model", metavar="MODEL.tflite", help="the model to convert")
    parser.add_argument(
        "-o", dest="file", metavar="OUT.onnx", help="where to write (default: the model's name with .onnx)"
    )
    parser.add_argument(
        "--objective",
        default="min-executed",
        help="min-executed (default), min-transpose, min-bytes, min-nodes or min-latency",
        metavar="OBJECTIVE",
    )
    parser.add_argument(
        "--strategy",
        default="cpsat",
        help="cpsat (default), mincut, push, propagate or transpose",
        metavar="STRATEGY",
    )
    parser.add_argument(
        "--layout",
        action="append",
        default=[],
        metavar="NAME=SRC:DST",
        help="store a tensor in another order of dimensions, as in image=NHWC:NCHW (may be repeated)",
    )
    for end in ("inputs", "outputs"):
        parser.add_argument(
            f"--{end}", default="keep", metavar="LAYOUT", help=f"all {end}: keep (default), nchw, nhwc or free"
        )
        parser.add_argument(
            f"--{end[:-1]}",
            action="append",
            default=[],
            metavar="NAME=LAYOUT",
            help=f"one {end[:-1]}: keep, nchw, nhwc, free or SRC:DST as in NHWC:NCHW (may be repeated)",
        )
    parser.add_argument(
        "--signature", default="", metavar="NAME", help="the signature to convert (default: the main subgraph)"
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="the shape of a dynamic input, as in image=1,224,224,3 (may be repeated)",
    )
    parser.add_argument(
        "--opset", type=int, metavar="N", help="the ONNX operator set (default: the lowest that is enough)"
    )
    parser.add_argument(
        "--custom",
        default="error",
        metavar="WHAT",
        help="custom operators without a lowering: error (default), or passthrough to keep them as they are",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds that the search for layouts may take (default: 30)",
    )
    parser.add_argument(
        "--contrib", action="store_true", help="allow operators that only ONNX Runtime has, where they save a Transpose"
    )
    parser.add_argument(
        "--external-data",
        action="store_true",
        default=None,
        help="write constants to OUT.onnx.data (default: where they exceed 2 GB)",
    )
    parser.add_argument(
        "--max-size",
        type=int,
        metavar="BYTES",
        help="the most bytes of the ONNX model (default: 4 times those of the source and 16 MiB more)",
    )
    parser.add_argument("--verify", action="store_true", help="compare with LiteRT on the same input")
    parser.add_argument(
        "--explain", action="store_true", help="tell why each Transpose and Reshape is there and what would remove it"
    )
    parser.add_argument(
        "--certify", metavar="FILE.json", help="write a certificate of the price, which can be checked without a search"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a summary")
    parser.add_argument("--version", action="version", version=_version())
    return parser


def _version() -> str:
    from importlib.metadata import version

    return f"layoutsolve {version('layoutsolve')}"


def _layouts(given: Sequence[str]) -> dict[str, tuple[str, str]]:
    layouts: dict[str, tuple[str, str]] = {}
    for item in given:
        name, equals, pair = item.rpartition("=")
        source, colon, target = pair.partition(":")
        if not (name and equals and colon and source and target):
            raise LayoutError(f"layout '{item}' is not of the form NAME=SRC:DST, as in image=NHWC:NCHW")
        if layouts.setdefault(name, (source, target)) != (source, target):
            raise LayoutError(f"tensor '{name}' is given two different layouts: give it one")
    return layouts


def _shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for item in given:
        name, equals, sizes = item.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not (name and equals and shape):
            raise OptionError(f"shape '{item}' is not of the form NAME=SIZES, as in image=1,224,224,3")
        if shapes.setdefault(name, shape) != shape:
            raise OptionError(f"input '{name}' is given two different shapes: give it one")
    return shapes


def _ends(general: str, given: Sequence[str], kind: str) -> Ends:
    """The choice for all inputs (or outputs) with those for single ones."""
    choices: dict[str, Choice] = {}
    for item in given:
        name, equals, said = item.rpartition("=")
        source, colon, target = said.partition(":")
        if not (name and equals and said and bool(colon) == bool(target) and source):
            remedy = "; name the file to write with -o" if kind == "output" and not equals else ""
            raise LayoutError(
                f"{kind} '{item}' is not of the form NAME=LAYOUT, as in image=nchw or image=NHWC:NCHW{remedy}"
            )
        choice = (source, target) if colon else said
        if choices.setdefault(name, choice) != choice:
            raise LayoutError(f"{kind} '{name}' is given two different layouts: give it one")
    return {"*": general, **choices} if choices else general


def _convert(options: argparse.Namespace, start: float) -> int:
    layouts = _layouts(options.layout)
    inputs = _ends(options.inputs, options.input, "input")
    outputs = _ends(options.outputs, options.output, "output")
    output = Path(options.file) if options.file else Path(options.model).with_suffix(".onnx")
    if output.is_dir():
        raise OutputError(f"cannot write '{output}': it is a directory; name a file with -o")
    if output.exists() and Path(options.model).exists() and output.samefile(options.model):
        raise OutputError(f"'{output}' is the model that is read; name another file with -o")
    from layoutsolve.api import convert, verify

    conversion = convert(
        options.model,
        objective=options.objective,
        strategy=options.strategy,
        layouts=layouts,
        inputs=inputs,
        outputs=outputs,
        opset=options.opset,
        contrib=options.contrib,
        external_data=options.external_data,
        time_limit=options.time_limit,
        custom=options.custom,
        signature=options.signature,
        shapes=_shapes(options.shape),
        max_size=options.max_size,
    )
    rechecked = _save(options, output, conversion)
    checked = verify(options.model, conversion) if options.verify else None
    explanation = conversion.explain(options.time_limit) if options.explain else None
    done = _Done(output, conversion, rechecked, checked, explanation, time.perf_counter() - start)
    print(_json(options, done) if options.json else _summary(done))
    return DIFFERENT if checked is not None and not checked.passed else 0


@dataclass(frozen=True)
class _Done:
    """What there is to tell: the conversion, what was asked for besides, and the seconds it all took."""

    output: Path
    conversion: Conversion
    rechecked: Recheck | None
    checked: Verification | None
    explanation: Explanation | None
    spent: float


def _save(options: argparse.Namespace, output: Path, conversion: Conversion) -> Recheck | None:
    """Write the model and, where that is asked for, its certificate, which is then checked."""
    if not options.certify:
        conversion.save(output)
        return None
    from layoutsolve.certificate import certify, check_certificate

    certificate = certify(options.model, conversion)
    certificate.save(options.certify)
    conversion.save(output)
    return check_certificate(options.model, output, certificate)


def _json(options: argparse.Namespace, done: _Done) -> str:
    report = {"model": str(options.model), "output": str(done.output), **done.conversion.report}
    report["seconds"] = {**done.conversion.seconds, "total": round(done.spent, 6)}
    if done.rechecked is not None:
        report["certificate"] = {"file": options.certify, **asdict(done.rechecked)}
    if done.checked is not None:
        report["verified"] = asdict(done.checked)
    if done.explanation is not None:
        report["explanation"] = done.explanation.as_dicts()
    return json.dumps(_finite(report), allow_nan=False)


def _finite(found: object) -> object:
    """The same with null for numbers that JSON does not know: the distance of a model that computes infinities."""
    if isinstance(found, float):
        return found if isfinite(found) else None
    if isinstance(found, dict):
        return {str(key): _finite(value) for key, value in found.items()}
    return [_finite(item) for item in found] if isinstance(found, (list, tuple)) else found


def _summary(done: _Done) -> str:
    conversion, report = done.conversion, done.conversion.report
    proof = "proven minimal" if conversion.assignment.status == "optimal" else f"lower bound {conversion.bound}"
    hidden = f" and {conversion.price.hidden} hidden in kernels" if conversion.price.hidden else ""
    lines = [
        f"{done.output}: {report['operators']} operators, opset {report['opset']}, {done.spent:.2f} s",
        f"  {_counted(report['transposes'], 'Transpose')}{hidden} ({proof}), "
        f"{_counted(report['reshapes'], 'Reshape')}, {report['bytes_moved']} bytes moved",
    ]
    lines += [f"  {end}" for end in conversion.moved_ends]
    if done.rechecked is not None:
        lines.append(f"  certificate: {done.rechecked}")
    for told in (done.checked, done.explanation):
        lines += [f"  {line}" for line in str(told).splitlines()] if told is not None else []
    return "\n".join(lines)


def _counted(count: object, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
