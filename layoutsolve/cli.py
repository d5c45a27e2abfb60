"""The command line: ``layoutsolve MODEL.tflite``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from layoutsolve.errors import ConversionError, LayoutError, OutputError

if TYPE_CHECKING:
    from layoutsolve.api import Conversion
    from layoutsolve.verify import Verification

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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="layoutsolve", description="Convert a TensorFlow Lite model to ONNX with the fewest Transposes, proven."
    )
    parser.add_argument("model", metavar="MODEL.tflite", help="the model to convert")
    parser.add_argument(
        "-o", "--output", metavar="OUT.onnx", help="where to write (default: the model's name with .onnx)"
    )
    parser.add_argument(
        "--objective",
        default="min-transpose",
        help="min-transpose (default), min-bytes or min-nodes",
        metavar="OBJECTIVE",
    )
    parser.add_argument(
        "--strategy", default="cpsat", help="cpsat (default), propagate or transpose", metavar="STRATEGY"
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
        "--opset", type=int, metavar="N", help="the ONNX operator set (default: the lowest that is enough)"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds that the search for layouts may take (default: 30)",
    )
    parser.add_argument("--verify", action="store_true", help="compare with LiteRT on the same input")
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


def _convert(options: argparse.Namespace, start: float) -> int:
    layouts = _layouts(options.layout)
    output = Path(options.output) if options.output else Path(options.model).with_suffix(".onnx")
    if output.is_dir():
        raise OutputError(f"cannot write '{output}': it is a directory; name a file with -o")
    from layoutsolve.api import convert, verify

    conversion = convert(
        options.model,
        objective=options.objective,
        strategy=options.strategy,
        layouts=layouts,
        inputs=options.inputs,
        outputs=options.outputs,
        opset=options.opset,
        time_limit=options.time_limit,
    )
    conversion.save(output)
    checked = verify(options.model, conversion) if options.verify else None
    spent = time.perf_counter() - start
    print(
        _json(options, output, conversion, checked, spent)
        if options.json
        else _summary(output, conversion, checked, spent)
    )
    return DIFFERENT if checked is not None and not checked.passed else 0


def _json(
    options: argparse.Namespace, output: Path, conversion: Conversion, checked: Verification | None, spent: float
) -> str:
    report = {"model": str(options.model), "output": str(output), **conversion.report}
    report["seconds"] = {**conversion.seconds, "total": round(spent, 6)}
    if checked is not None:
        report["verified"] = asdict(checked)
    return json.dumps(report)


def _summary(output: Path, conversion: Conversion, checked: Verification | None, spent: float) -> str:
    report = conversion.report
    proof = "proven minimal" if conversion.assignment.status == "optimal" else f"lower bound {conversion.bound}"
    lines = [
        f"{output}: {report['operators']} operators, opset {report['opset']}, {spent:.2f} s",
        f"  {_counted(report['transposes'], 'Transpose')} ({proof}), {_counted(report['reshapes'], 'Reshape')}, "
        f"{report['bytes_moved']} bytes moved",
    ]
    if checked is not None:
        lines += [f"  {line}" for line in str(checked).splitlines()]
    return "\n".join(lines)


def _counted(count: object, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
