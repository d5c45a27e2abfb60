"""What each form that targets ask for is worth: a model's time with it, by the time without it, in each runtime.

Forms are what the files of targets say of storage, idioms, operators of other domains and dense layers in integers, and
the passes that write operators in another way for all of them. Each is left out by itself. Both files of a model run in
turn, and only times of one round are compared. Models that a form does not change are left out. How far outputs are
from those without it is told by their largest number, without any optimisation and with the default.

    python -m experiments.measure.forms FOLDER [--only int8] [--form NAME ...]
    python -m experiments.measure.forms FOLDER --small --openvino --web --json FORMS.json --write
        writes docs/forms.md

``--add`` takes what another run has written with ``--json``, over other models or forms.
"""

from __future__ import annotations

import json
import platform
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from itertools import product
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.make.small import networks
from experiments.measure import ort_web
from experiments.measure.ort_web import Web
from experiments.measure.runtime import mean
from layoutsolve import frontend
from layoutsolve.emit import slow_int8_kernels
from layoutsolve.errors import VerifyError
from layoutsolve.io.patterns import ENDINGS
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.bench import RUNTIMES, compiled
from layoutsolve.measurement.timing import Runner, Session, Subject, clock_of, feeds_of, ratio, rounds_of, timed, warm
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import SHIPPED, SYSTEMS, shipped
from layoutsolve.solver.theory.offer import FORMS, IDIOMS, KINDS, WRITTEN
from layoutsolve.verification.refusals import require
from layoutsolve.verification.runtimes import Level, OnnxRuntime

PAGE = Path(__file__).parents[2] / "docs" / "forms.md"

ONNX_RUNTIME, OPENVINO, WEB = RUNTIMES[0], RUNTIMES[3], "onnxruntime-web"

LEVELS: Sequence[Level] = ("none", "all")

WHERE: Mapping[str, str] = {
    "storage unsigned": "int8 activations where kernels compute on them: uint8 (S8 to U8)",
    "storage weights unsigned": "int8 weights whose U8S8 sums could saturate: uint8",
    "storage weights uint8": "int8 weights whose sums cannot saturate: uint8 as well",
    "storage weights selected": "8-bit weights whose U8S8 sums could saturate: int8 with VNNI, uint8 without, selected",
    "storage weights signed": "uint8 weights: int8",
    "storage block": "images between depthwise convolutions, or that grow by a Pad: whole blocks of channels",
    "storage narrow": "narrow 8-bit images: whole blocks; between other convolutions: runs of 4 channels, 16 at least",
    "storage pixel": "narrow channels-first images, int8 weights: padded to four channels",
    "storage real": "quantized results of a product that a LeakyRelu alone reads: rounded in float arithmetic",
    "storage views": "Transpose, Reshape and MaxPool before int8 kernels: behind DequantizeLinear, in float",
    "storage float_rows": "int8 products of up to 8 rows: in float, on weights dequantized on loading",
    "storage float_pixels": "int8 depthwise Conv of 100 pixels and more: in float",
    "storage float_terms": "int8 Conv of up to 96 products a result that only such operators read: in float",
    "storage groups": "grouped Conv: several groups merged, int8 up to 32 channels, float 16",
    "dynamic": "large hybrid fully-connected layers, with `--dynamic integer`: in integers",
    "pass affine": "three and more sums and products with constants in a row, float: a product and a sum",
    "pass block_moves": "views and copies that are SpaceToDepth, DepthToSpace or the like",
    "pass pad_absorption": "Pad that only convolutions and pools read: their own padding",
    "pass dilations": "SPACE_TO_BATCH_ND around a convolution: its own dilations",
    "pass hard_activations": "decomposed hard sigmoids and swishes, float: HardSigmoid, HardSwish",
    "pass layer_norm": "decomposed layer normalization: LayerNormalization",
    "pass recurrent": "loops over recurrent cells, float: GRU, LSTM, RNN",
    "pass upsampling": "pixels repeated by views: Resize",
    "floats Conv": "int8 Conv, few channels of many pixels or small groups: in float",
    "floats AveragePool": "int8 AveragePool that is no convolution and not of whole images: in float",
    "floats Softmax": "int8 Softmax, rows of 16 and more: in float",
    "floats pieces": "int8 Add and Mul, broadcast with contiguous runs of less than 32 elements: in float",
    **{name: WRITTEN[name] for name in (f"{operator} {idiom}" for operator, idiom in IDIOMS)},
    **{name: WRITTEN[name] for name in (f"{only} {operator}" for only, operator in FORMS if only not in SYSTEMS)},
}
"""Of each form what it replaces, and what is written; of forms and idioms as they are registered."""

PASSES = (
    "affine.folded",
    "block_moves.recognise",
    "dilations.recognise",
    "hard_activations.recognise",
    "layer_norm.recognise",
    "pad_absorption.absorbed",
    "recurrent.recognise",
    "upsampling.recognise",
)
"""The passes that are not asked for by targets, each with its function."""

FLOATS: Mapping[str, Sequence[str]] = {
    "floats Conv": ("convolutions", "of_groups"),
    "floats AveragePool": ("of_windows",),
    "floats Softmax": ("of_rows",),
    "floats pieces": ("of_pieces",),
}
"""Operators that compute in float since their int8 kernels are slower, and the functions that recognise them."""

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """A form by its name, the targets that ask for it, what the file of the first of them says ``without`` it, and the
    ``options`` with which a conversion has it, or both have where the file tells them apart. One that is ``missing``
    is left out of reading or writing instead.
    """

    name: str
    targets: tuple[str, ...]
    without: Facts = field(default_factory=dict)
    options: Facts = field(default_factory=dict)
    missing: str = ""


def forms() -> list[Form]:
    """All forms, in the order in which targets that come with layoutsolve ask for them."""
    asked: dict[str, list[str]] = {}
    first: dict[str, tuple[Facts, Facts]] = {}
    for target in map(shipped, SHIPPED):
        for name, without, options in _asked(target):
            asked.setdefault(name, []).append(target.name)
            first.setdefault(name, (without, options))
    found = [Form(name, tuple(targets), *first[name]) for name, targets in asked.items()]
    found += (Form(f"pass {each.partition('.')[0]}", (SHIPPED[0],), missing=each) for each in PASSES)
    return [*found, *(Form(name, (SHIPPED[0],), missing=name) for name in FLOATS)]


def _asked(target: Target) -> Iterator[tuple[str, Facts, Facts]]:
    """The forms of a target: what its file would say without each, and the options of a conversion that has it."""
    storage = target.storage
    if storage.unsigned:
        yield "storage unsigned", {"storage": {"unsigned": False}}, {}
    if storage.weights != "source":
        other = "source" if storage.weights == "unsigned" else "unsigned"
        yield f"storage weights {storage.weights}", {"storage": {"weights": other}}, {}
    if storage.block:
        yield "storage block", {"storage": {"block": 0}}, {}
    if storage.narrow:
        yield "storage narrow", {"storage": {"narrow": 0}}, {}
    if storage.pixel:
        yield "storage pixel", {"storage": {"pixel": 0}}, {}
    if storage.groups:
        yield "storage groups", {"storage": {"groups": 0}}, {}
    if storage.views:
        yield "storage views", {"storage": {"views": False}}, {}
    if storage.real:
        yield "storage real", {"storage": {"real": False}}, {}
    for name in ("float_rows", "float_pixels", "float_terms"):
        if getattr(storage, name):
            yield f"storage {name}", {"storage": {name: 0}}, {}
    for operator, names in target.idioms.items():
        for name in names:
            others = [each for each in names if each != name]
            yield f"{operator} {name}", {"idioms": {operator: others}}, {}
    for name, operator in FORMS:
        if name in target.domains:
            yield f"{name} {operator}", {"domains": []}, {}
        elif name in target.has and not any((operator, kind) in target.unsupported for kind in KINDS[name, operator]):
            refused = [kind for known, kind in sorted(target.unsupported) if known == operator]
            refused += KINDS[name, operator]
            yield f"{name} {operator}", {"unsupported": {operator: refused}}, {"objective": "min-latency"}
    if target.dynamic is not None:
        yield "dynamic", {}, {"dynamic": "integer"}


@dataclass(frozen=True)
class Worth:
    """One form of one model: by runtime the time with it by the time without it, infinite where it is refused, and how
    far outputs are from those without it at each level of optimisation, None where ONNX Runtime refuses the model.
    """

    model: str
    form: str
    ratios: Mapping[str, float]
    off: tuple[float | None, ...]


@dataclass(frozen=True)
class Bench:
    """The runtimes in which forms are timed, a folder for their files, and the process of Node, if there is one."""

    runtimes: Sequence[str]
    folder: Path
    threads: int
    web: Web | None = None

    def runner(self, runtime: str, name: str, file: bytes, feeds: Mapping[str, Array]) -> Runner[Subject]:
        """A file in a runtime. Raises VerifyError where that refuses it."""
        if runtime == ONNX_RUNTIME:
            session = OnnxRuntime(file, threads=self.threads)
            return warm(Session(session, feeds, clock_of(self.threads)))
        path = self.folder / f"{name}.onnx"
        path.write_bytes(file)
        if runtime == OPENVINO:
            return compiled(str(path), self.threads, feeds).runner
        assert self.web is not None
        remote = ort_web.Session(self.web, name, path)
        remote.run(feeds)
        return warm(remote)


def measure(model: CorpusModel, form: Form, bench: Bench) -> Worth | None:
    """Time a model with a form and without it; None where that makes no difference.

    Raises ConversionError where it cannot be converted, VerifyError where it does not run.
    """
    files = converted(model, form, bench.folder)
    if files["with"] == files["without"]:
        return None
    feeds = feeds_of(OnnxRuntime(files["with"], threads=bench.threads, level="none"))
    ratios = {}
    for runtime in bench.runtimes:
        try:
            without = bench.runner(runtime, "without", files["without"], feeds)
        except VerifyError:
            continue
        try:
            runners = {"with": bench.runner(runtime, "with", files["with"], feeds), "without": without}
        except VerifyError:
            ratios[runtime] = inf
            continue
        times = timed(runners, rounds_of(list(runners.values())))
        ratios[runtime] = round(ratio(times["with"], times["without"]), 4)
    return Worth(model.name, form.name, ratios, tuple(_off(files, level, feeds) for level in LEVELS))


def converted(model: CorpusModel, form: Form, folder: Path) -> dict[str, bytes]:
    """A model with a form and without it. Raises ConversionError where it cannot be converted."""
    source, target, other = model.source, form.targets[0], folder / "without.json"
    other.write_text(json.dumps({"name": "without", "extends": target, **form.without}))
    given = layoutsolve.convert(source, target=target, **form.options)
    with _without(form.missing):
        options = form.options if form.without else {}
        left = layoutsolve.convert(source, target=other if form.without else target, **options)
    return {name: _bare(each.model) for name, each in (("with", given), ("without", left))}


def _bare(model: onnx.ModelProto) -> bytes:
    """A model without what it says of how it was made, which names its target."""
    del model.metadata_props[:]
    return model.SerializeToString(deterministic=True)


def _without(missing: str) -> AbstractContextManager[object]:
    """Reading without a pass, or writing without what is written in floats, if one is named."""
    if missing in FLOATS:
        return patch.multiple(slow_int8_kernels, **dict.fromkeys(FLOATS[missing], lambda *_: frozenset()))
    if not missing:
        return nullcontext()
    module, function = missing.split(".")
    return patch.object(frontend, module, SimpleNamespace(**{function: lambda graph, *_: graph}))


def _off(files: Mapping[str, bytes], level: Level, feeds: Mapping[str, Array]) -> float | None:
    """The largest difference of two elements, by the largest of their output."""
    try:
        first, second = (OnnxRuntime(file, threads=1, level=level).run(feeds) for file in files.values())
    except VerifyError:
        return None
    return max((_apart(*pair) for pair in zip(first, second, strict=True)), default=0.0)


def _apart(first: Array, second: Array) -> float:
    if np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
        return 0.0
    if first.dtype.kind not in "iuf":
        return 1.0
    wide, other = first.astype(np.float64), second.astype(np.float64)
    return float(np.nanmax(np.abs(wide - other)) / max(np.nanmax(np.abs(other)), 1e-30))


def table(found: Sequence[Worth], runtimes: Sequence[str]) -> Iterator[str]:
    """A row for each form."""
    heads = ("form", "what is written", "used by", "models", *runtimes, "off, none", "off, all")
    yield f"| {' | '.join(heads)} |"
    yield f"|---|---|---|--:|{'--:|' * (len(runtimes) + len(LEVELS))}"
    for form in forms():
        own = [each for each in found if each.form == form.name]
        times = [_factor([each.ratios[name] for each in own if name in each.ratios]) for name in runtimes]
        shares = [_most([each.off[place] for each in own]) for place in range(len(LEVELS))]
        asked = "all" if form.missing else _named(form.targets)
        yield f"| {' | '.join((f'`{form.name}`', WHERE[form.name], asked, str(len(own)), *times, *shares))} |"


def _named(targets: Sequence[str]) -> str:
    """Some targets, or all but some where these are fewer."""
    others = [each for each in SHIPPED if each not in targets]
    names = ", ".join(f"`{each}`" for each in (targets if len(targets) <= len(others) else others))
    return names if len(targets) <= len(others) else f"all but {names}" if others else "all"


def _factor(ratios: Sequence[float]) -> str:
    known = [each for each in ratios if each < inf]
    said = [f"{mean(known):.2f} ({min(known):.2f} to {max(known):.2f})"] if known else []
    refused = len(ratios) - len(known)
    return ", ".join([*said, *([f"refused by {refused}"] if refused else [])]) or "-"


def _most(shares: Sequence[float | None]) -> str:
    known = [each for each in shares if each is not None]
    return f"{max(known):.0e}".replace("0e+00", "0") if known else "-"


def page(lines: Sequence[str], count: int, runtimes: Sequence[str], threads: int) -> str:
    """The page of forms."""
    given = "".join(_OPTIONS[name] for name in runtimes)
    command = f"python -m experiments.measure.forms FOLDER --small{given} --write"
    threading = f"{threads} thread{'s' * (threads > 1)}"
    return _PAGE.format(command, count, measured_on(runtimes), threading, "\n".join(lines))


_PAGE = """# Forms

Operator rewrites per target, and their speed-up: the time with a form by the time without it, in the geometric mean
over the models that it changes (minimum to maximum). It is left out of the first target that uses it. The last two
columns are the largest error of outputs against those without it, relative to their largest element, at the levels none
and all of ONNX Runtime's graph optimizations; quantized outputs differ there by rounding, which accumulates along a
network. `-` was not measured. [`runtimes.md`](runtimes.md#operator-rewrites) describes the forms.

`{}` has measured {} models, small networks among them, on {}, {}.

{}
"""

_OPTIONS = {ONNX_RUNTIME: "", OPENVINO: " --openvino", WEB: " --web"}

_PACKAGES = {ONNX_RUNTIME: "onnxruntime", OPENVINO: "openvino"}

_FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimd", "i8mm")


def measured_on(runtimes: Sequence[str]) -> str:
    """The day, the versions of runtimes, and the processor."""
    versions = ", ".join(f"{name} {_version(name)}" for name in runtimes)
    return f"{date.today().isoformat()}: {versions}, {processor()}"


def _version(runtime: str) -> str:
    if runtime in _PACKAGES:
        return version(_PACKAGES[runtime])
    facts = json.loads((ort_web.SCRIPT.parent / "package.json").read_text())
    return str(facts["dependencies"][runtime])


def processor() -> str:
    """What the processor calls itself, and what it has of what matters here."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    facts = {name.strip(): said.strip() for name, _, said in (line.partition(":") for line in lines)}
    flags = facts.get("flags", facts.get("Features", "")).split()
    name = facts.get("model name", platform.machine())
    return f"{name} ({', '.join(each for each in _FEATURES if each in flags) or 'no features known'})"


def read(file: Path) -> Mapping[str, Any]:
    """What a run has written with ``--json``: the names of its models, and what each form of them is worth."""
    found: Mapping[str, Any] = json.loads(file.read_text())
    return found


def runtimes_of(options: Namespace) -> list[str]:
    """The runtimes that are asked for. Raises VerifyError where OpenVINO is and is missing."""
    if options.openvino:
        require("openvino")
    return [ONNX_RUNTIME, *([OPENVINO] if options.openvino else []), *([WEB] if options.web else [])]


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--form", action="append", metavar="NAME", help="only this form (may be repeated)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the runtimes (default: 1)")
    parser.add_argument("--small", action="store_true", help="and the networks of experiments/make/small.py")
    parser.add_argument("--openvino", action="store_true", help="run all in OpenVINO as well")
    parser.add_argument("--web", action="store_true", help="and in onnxruntime-web (experiments/measure/ort_web.py)")
    parser.add_argument("--add", action="append", type=Path, default=[], metavar="FORMS.json", help="of another run")
    parser.add_argument("--write", action="store_true", help="write docs/forms.md")
    options = parser.parse_args(given)
    runtimes = runtimes_of(options)
    chosen = [form for form in forms() if form.name in (options.form or WHERE)]
    every, found = [each for kind in ENDINGS for each in models(options.folder, options.only, kind)], list[Worth]()
    measured = [*product(every, chosen)]
    with TemporaryDirectory() as folder, Web() if options.web else nullcontext() as web:
        bench = Bench(runtimes, Path(folder), options.threads, web)
        if options.small:
            measured += [(model, form) for form in chosen for model in networks(form.name, Path(folder))]
        for model, form in measured:
            try:
                worth = measure(model, form, bench)
            except (layoutsolve.ConversionError, VerifyError):
                continue
            if worth is not None:
                found.append(worth)
                ratios = ", ".join(f"{name} {each:.2f}" for name, each in worth.ratios.items())
                print(f"{model.name}, {form.name}: {ratios}; {worth.off}", flush=True)
    names = {model.name for model, _ in measured}
    for each in map(read, options.add):
        names.update(each["models"])
        found += (Worth(**facts) for facts in each["worth"])
    lines = list(table(found, runtimes))
    print("", *lines, sep="\n")
    if options.write:
        PAGE.write_text(page(lines, len(names), runtimes, options.threads))
    write_json(options.json, {"models": sorted(names), "worth": [asdict(each) for each in found]})


if __name__ == "__main__":
    main()
