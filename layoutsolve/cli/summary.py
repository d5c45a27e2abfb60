"""Summary of a conversion, as text and as JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.platforms import STANDARD_OUTPUT
from layoutsolve.base.wording import counted, listed, minimal, penalty, printable, sizes
from layoutsolve.emit.opset import OLDEST_OPSET
from layoutsolve.ir.graph import LOWERINGS, Dim, Size

if TYPE_CHECKING:
    from layoutsolve.certification.checker import Recheck
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.result import Conversion
    from layoutsolve.verification.verdict import Verification


COLOURS = (1, 3, 4)
"""The channels that images have."""

SHOWN = 8
"""How many inputs, and outputs, are listed that are stored as in the source."""


@dataclass(frozen=True)
class Done:
    """Results of one command: the conversion, its checks and reports, the seconds it all took, whether it is written,
    the files from behind the source that are ``extracted``, the HTML report, the inputs that a part has ``beside``
    those that it was cut at, and the operators for which lowerings are registered that the model has none of.
    """

    output: str
    conversion: Conversion
    rechecked: Recheck | None
    checked: Verification | None
    explanation: Explanation | None
    profile: Profile | None
    spent: float
    written: bool = True
    extracted: tuple[str, ...] | None = None
    report: str | None = None
    beside: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def as_json(options: argparse.Namespace, done: Done) -> str:
    """The report as one JSON object."""
    report = {"model": options.model, "output": done.output if done.written else None, **done.conversion.report}
    report["seconds"] = {**done.conversion.seconds, "total": round(done.spent, 6)}
    if done.rechecked is not None:
        report["certificate"] = {"file": options.certify, **asdict(done.rechecked)}
    if options.plan is not None:
        report["plan"] = options.plan
    if done.checked is not None:
        report["verified"] = asdict(done.checked)
    if done.explanation is not None:
        report["explanation"] = done.explanation.as_dicts()
    if done.profile is not None:
        report["profile"] = done.profile.as_dict()
    if done.extracted is not None:
        report["extracted"] = list(done.extracted)
    if done.report is not None:
        report["report"] = done.report
    if done.beside:
        report["inputs_beside"] = list(done.beside)
    if done.unused:
        report["unused_lowerings"] = list(done.unused)
    return json.dumps(_finite(report), allow_nan=False)


def check_as_json(options: argparse.Namespace, model: str, found: Recheck, spent: float) -> str:
    """What checking a certificate came to, as one JSON object."""
    report = {"model": options.model, "output": model, "certificate": options.check, "proven": found.proven}
    return json.dumps({**report, **asdict(found), "seconds": round(spent, 6)})


def check_as_text(model: str, found: Recheck, spent: float) -> str:
    """What checking a certificate came to, for people."""
    from layoutsolve.certification.checker import TRUSTED

    lines = [f"{model}: the certificate holds, {spent:.2f} s", *(f"  {line}" for line in (*found.lines, TRUSTED))]
    return "\n".join(map(printable, lines))


def _finite(found: object) -> object:
    """The same with null for numbers that JSON does not know: the distance of a model that computes infinities."""
    if isinstance(found, float):
        return found if isfinite(found) else None
    if isinstance(found, dict):
        return {str(key): _finite(value) for key, value in found.items()}
    return [_finite(item) for item in found] if isinstance(found, (list, tuple)) else found


def as_text(done: Done) -> str:
    """The summary for people, in which a name takes no line of its own."""
    conversion, report = done.conversion, done.conversion.report
    ended = f"; the search ended by its limit on {report['ended']}" if report["ended"] else ""
    unwritten = "layouts that are not written: " if _is_abandoned(conversion) else ""
    output = "standard output" if done.output == STANDARD_OUTPUT else done.output
    output += "" if done.written else " (not written)"
    lines = [
        f"{output}: {counted(report['operators'], 'operator')}, {conversion.format_told}, for {report['target']}, "
        f"{done.spent:.2f} s",
        f"  {_before_and_after(conversion)}, {counted(report['bytes_moved'], 'byte')} moved",
        f"  {unwritten}{', '.join(map(str, conversion.tiers))}{ended}",
    ]
    lines += _notes(conversion) + _requests(done)
    lines += [f"  {line}" for line in _ports(conversion)]
    if done.rechecked is not None:
        lines.append(f"  certificate: {done.rechecked}")
    for told in (done.checked, done.explanation, done.profile):
        lines += [f"  {line}" for line in str(told).splitlines()] if told is not None else []
    if done.extracted is not None:
        lines.append(f"  extracted: {', '.join(done.extracted) or 'no file is packed behind the model'}")
    if done.report is not None:
        lines.append(f"  report: {done.report}")
    return "\n".join(map(printable, lines))


def _notes(conversion: Conversion) -> list[str]:
    """What there is to say of a conversion beside its figures."""
    lines: list[str] = []
    if conversion.other_signatures:
        taken = f"the signature '{conversion.signature}'" if conversion.signature else "the main subgraph"
        others = listed(conversion.other_signatures)
        lines.append(f"  {taken}; the model has {others} as well (--signature NAME, or all)")
    if conversion.assignment.planned:
        lines.append(f"  the plan states {', '.join(map(str, conversion.assignment.planned))}: not proven again")
    if conversion.crossings is not None:
        paid = sum(each.price for each in conversion.crossings)
        lines.append(f"  {counted(len(conversion.crossings), 'crossing')} between backends, at a price of {paid}")
    if conversion.share is not None:
        lines.append(f"  {conversion.report['target']}: {conversion.share}")
    if conversion.kept:
        lines.append(f"  {conversion.kept}: the model is returned unchanged")
    lines += _doubted_images(conversion)
    lines += _opset(conversion) + _merged_batches(conversion)
    if conversion.selected:
        what = f"{counted(conversion.selected, 'int8 layer')} would saturate on x86 without VNNI"
        lines.append(f"  {what}: ONNX Runtime selects uint8 weights there on loading")
    if dropped := conversion.graph.dropped:
        many = (
            "are initializers as well: they are constants"
            if len(dropped) > 1
            else "is an initializer as well: it is a constant"
        )
        what = f"{counted(len(dropped), 'input')} of the source {many}"
        lines.append(f"  {what}, {listed(dropped)} (--initializer-inputs keep)")
    return lines


def _merged_batches(conversion: Conversion) -> list[str]:
    """Outputs in which a batch that --shape gives is no dimension of its own, as where a source reshapes to [1, -1]."""
    graph, lines = conversion.graph, list[str]()
    for name in (name for name in graph.inputs if graph.names.get(name, name) in conversion.reading.shapes):
        batch = next(iter(graph.values[name].shape), 1)
        for output in graph.outputs:
            shape = graph.values[output].shape
            if batch not in (1, *shape) and any(_is_multiple(dim, batch, shape[0] == 1) for dim in shape):
                ends = graph.names.get(output, output), graph.names.get(name, name)
                what = "{} has the batch of {} merged into another dimension by an operator of the source"
                lines.append(f"  {what.format(*ends)}: one sample at a time gives other results")
    return lines


def _is_multiple(dim: Dim, batch: Dim, alone: bool) -> bool:
    """Whether a size is a multiple of a batch; of one that is a number only where the batch is not seen elsewhere."""
    if isinstance(dim, Size) and isinstance(batch, Size):
        return {*batch.symbols} <= {*dim.symbols}
    return alone and isinstance(dim, int) and isinstance(batch, int) and dim > 1 and dim % batch == 0


def _opset(conversion: Conversion) -> list[str]:
    """Why a source in ONNX is not written in its own operator set."""
    if conversion.newer_opset is None:
        return []
    source, operator = conversion.newer_opset
    if operator:
        return [f"  opset {source} of the source is {conversion.opset}, as {operator} needs it (--opset {source})"]
    return [f"  opset {source} of the source is {conversion.opset}: none before {OLDEST_OPSET} is written"]


def _is_abandoned(conversion: Conversion) -> bool:
    """Whether layouts are priced that are not written: a source in TensorFlow Lite is returned as it is."""
    return bool(conversion.kept) and conversion.to == "tflite"


def _doubted_images(conversion: Conversion) -> list[str]:
    """Images that were taken for NHWC, as TensorFlow Lite's are, or NCHW, as ONNX's are, whose sizes are rather those
    of the other: exporters of PyTorch write the first, tf2onnx the second.
    """
    graph, lines = conversion.graph, list[str]()
    orders = ("NCHW", "NHWC") if graph.imports else ("NHWC", "NCHW")
    taken, other = (order.index("C") for order in orders)
    for kind, name, choice in conversion.boundary.choices(graph):
        public, shape = graph.names.get(name, name), graph.values[name].shape
        doubted = len(shape) == 4 and shape[other] in COLOURS and shape[taken] not in COLOURS
        if doubted and choice in ("nchw", "nhwc"):
            remedy = f"--{kind} {public}={orders[1]}:{str(choice).upper()} if it is {orders[1]}"
            lines.append(f"  '{public}' [{','.join(map(str, shape))}] is taken for {orders[0]}: {remedy}")
    return lines


def _requests(done: Done) -> list[str]:
    """What was asked for and is different with this model."""
    lines: list[str] = []
    if done.beside:
        lines.append(f"  beside --from the part needs {listed(done.beside)}: inputs of the model that it reads as well")
    if done.unused:
        lines.append(f"  --lowering: the model has no {listed(done.unused)}, for which a lowering is registered")
    if _is_abandoned(done.conversion) and LOWERINGS in done.conversion.graph.metadata:
        lines.append("  --lowering: the model has its own operators still: write ONNX to have what is registered")
    return lines


def _before_and_after(conversion: Conversion) -> str:
    """What the source, or a direct conversion of it, has of operators and bytes, and what the written model has."""
    source, left = conversion.before, conversion.moves
    hidden = "" if _is_abandoned(conversion) else penalty(conversion.price.hidden)
    proof = _proof(conversion, left.transposes)
    parts = [f"Transposes {source.transposes} -> {left.transposes}{hidden}{f' ({proof})' if proof else ''}"]
    parts.append(f"Reshapes {source.reshapes} -> {left.reshapes}")
    if conversion.graph.imports or conversion.to == "tflite":
        parts.append(f"operators {source.operators} -> {conversion.report['operators']}")
    return ", ".join([*parts, sizes(source.bytes, conversion.size)])


def _proof(conversion: Conversion, written: int) -> str:
    """What is proven of the Transposes of the written model, '' for nothing."""
    chosen = conversion.price.transposes
    if conversion.assignment.status != "optimal" or written < chosen:  # a source where others would take less time
        return ""
    claim = minimal(chosen, conversion.assignment.objective, conversion.assignment.kept)
    if written == chosen:
        return claim
    return f"{chosen} {claim}, {written - chosen} in parts that are kept as in the source"


def _ports(conversion: Conversion) -> list[str]:
    """A line for each input and output: type and shape, and how it is stored where that is not as in the source."""
    moved = {end.name: end for end in conversion.moved_ends}
    lines, said = [], set[str]()
    for what in ("input", "output"):
        ports = conversion.ports(inputs=what == "input")
        shown = [name for number, name in enumerate(ports) if number < SHOWN or name in moved]
        lines += [f"{what} {name}: {ports[name]}{f', {moved[name].stored}' if name in moved else ''}" for name in shown]
        said.update(shown)
        if len(shown) < len(ports):
            lines.append(f"{counted(len(ports) - len(shown), f'more {what}')}")
    return lines + [str(end) for end in moved.values() if end.name not in said]
