"""Times of the files of some strategies and objectives in three runtimes: ONNX Runtime, OpenVINO and LiteRT."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

import onnx

import layoutsolve
from experiments.measure.runtime import DEFAULT, WAYS
from layoutsolve.emit.tflite import encode
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from layoutsolve.measurement.bench import RUNTIMES, compiled, held
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.measurement.timing import Runner, loaded, rounds_of, timed
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import optimised

TIMED = ("min-executed", "min-transpose", "push", "propagate")
"""The ways that are timed; the first one is what the others are compared with."""

MOST = 0.3
"""The most seconds that a file runs in all, of one model and runtime."""

NORMAL = 1.96
"""Standard deviations within which a normal distribution has 95 %."""

ORT, LITE, _, VINO = RUNTIMES

Files = Mapping[str, bytes]


def runtimes(source: bytes | Graph) -> list[Mapping[str, Any]]:
    """The files of some strategies and objectives in turn, by runtime: the time of each by that of the default's with
    an interval, and what is left to execute. A runtime that is not installed, or refuses the default's file, has no
    rows.
    """
    if isinstance(source, Graph):
        return []
    found = []
    for runtime in (ORT, VINO, LITE):
        made = _ways(source, "tflite" if runtime == LITE else "onnx")
        files = {way: _bytes(each) for way, each in made.items()}
        first = same({way: _plain(each) for way, each in made.items()})
        with ExitStack() as stack:
            runners = _LOADERS[runtime]({way: files[way] for way in files if first[way] == way}, stack)
            times = timed(runners, rounds_of(list(runners.values()), MOST)) if DEFAULT in runners else {}
        for way, conversion in made.items():
            if first[way] in times:
                counts = {"transposes": conversion.price.transposes, "penalty": conversion.price.hidden}
                facts = _facts(conversion) if runtime == ORT else {"executed": None, "penalised": ""}
                ratios = interval(times[first[way]], times[DEFAULT])
                found.append({"runtime": runtime, "way": way, **counts, **facts, **ratios})
    return found


def _ways(source: bytes, to: Literal["onnx", "tflite"]) -> dict[str, layoutsolve.Conversion]:
    """What each way converts a model to; those that refuse it are left out."""
    found = {}
    for way in TIMED:
        strategy, objective = WAYS[way]
        if strategy == "propagate" and not is_tflite(source):  # in ONNX there is no operator that it begins with
            continue
        with suppress(ConversionError):
            found[way] = layoutsolve.convert(source, to=to, strategy=strategy, objective=objective)  # type: ignore[arg-type]
    return found


def same(files: Files) -> Mapping[str, str]:
    """Of each way the first one that has the same file: that is what is timed, once."""
    return {way: next(other for other in files if files[other] == files[way]) for way in files}


def _plain(conversion: layoutsolve.Conversion) -> bytes:
    """The file without its metadata, which tell by which way it was made."""
    if conversion.to == "tflite":
        return encode(replace(parse(conversion.data), metadata={}), Budget())
    model = onnx.ModelProto()
    model.CopyFrom(conversion.model)
    del model.metadata_props[:]
    return bytes(model.SerializeToString(deterministic=True))


def _bytes(conversion: Any) -> bytes:
    if conversion.to == "tflite":
        return bytes(conversion.data)
    return bytes(conversion.model.SerializeToString(deterministic=True))


# -- runtimes ------------------------------------------------------------------------------------------------------


def _onnx(files: Files, _: ExitStack) -> Mapping[str, Runner[Any]]:
    return loaded(files, 1, DEFAULT) if DEFAULT in files else {}


def _openvino(files: Files, stack: ExitStack) -> Mapping[str, Runner[Any]]:
    if importlib.util.find_spec("openvino") is None:
        return {}
    found, folder = {}, Path(stack.enter_context(TemporaryDirectory()))
    for way, runner in _onnx(files, stack).items():
        path = folder / f"{way}.onnx"
        path.write_bytes(files[way])
        with suppress(VerifyError):
            found[way] = compiled(str(path), 1, runner.subject.feeds).runner
    return found


def in_litert(files: Files, stack: ExitStack) -> Mapping[str, Runner[Any]]:
    """Files in LiteRT with XNNPACK, ready to be timed, each in a process of its own; without those that it refuses."""
    found, folder = {}, Path(stack.enter_context(TemporaryDirectory()))
    for way, file in files.items():
        path = folder / f"{way}.tflite"
        path.write_bytes(file)
        with suppress(VerifyError):
            found[way] = held(str(path), LITE, 1, True, stack.enter_context(LiteRT())).runner
    return found


_LOADERS = {ORT: _onnx, VINO: _openvino, LITE: in_litert}


# -- what is told --------------------------------------------------------------------------------------------------


def _facts(conversion: layoutsolve.Conversion) -> Mapping[str, Any]:
    """The Transposes that ONNX Runtime's optimiser leaves, and the operators whose kernels are slower in the chosen
    layout.
    """
    answer = conversion.assignment
    slow = Counter(
        answer.graph.nodes[each.node].op
        for each, row in zip(answer.problem.operators, answer.rows, strict=True)
        if each.node >= 0 and each.rows[row].price.hidden
    )
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(slow.items()))
    return {"executed": executed(optimised(_bytes(conversion))).transposes, "penalised": told}


def interval(times: Sequence[float], first: Sequence[float]) -> Mapping[str, Any]:
    """The median over the rounds of the ratio of two times, with the order statistics that hold it at about 95 %: they
    ask nothing of the distribution.
    """
    ratios = sorted(max(one, 1e-9) / max(other, 1e-9) for one, other in zip(times, first, strict=True))
    place = max(0, int((len(ratios) - NORMAL * sqrt(len(ratios))) / 2))
    low, high = ratios[place], ratios[-1 - place]
    return {"ratio": round(median(ratios), 4), "low": round(low, 4), "high": round(high, 4), "rounds": len(ratios)}
