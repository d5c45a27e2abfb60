"""Random networks written to TensorFlow Lite, and read by LiteRT: of a source in TensorFlow Lite, and of the ONNX model
that is made of it first.

A network that is right gives what its source gives in LiteRT's reference kernels; where numbers are quantized steps, as
far as its float operators may round otherwise. One that is further off is right by its operators where each conversion
on its way is verified: a product of what is off by one step may be off by several of its own. What LiteRT's operators
do not express is refused, and counted::

    python -m experiments.fuzz.tflite_round_trip 500 [--seed 0] [--jobs 1]
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import layoutsolve
from layoutsolve.errors import ConversionError, InternalError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import LiteRT, Run
from layoutsolve.verification.metrics import kind
from layoutsolve.verification.refusals import RefusedError
from tests.random_models import Network, network

TOLERANCE = 1e-4
"""The largest error of floats, of their range, where nothing was quantized."""

STEPS = 0.03
"""The same where numbers are quantized on the way: a step of 8 bits more or less, a few times in a row."""

FEW = 2
"""How many steps of its own a quantized output may be off."""

NOISE = 1e-6
"""An error that is none."""

LARGER = 3
"""The batch that networks with an open one are run with."""


MOST = 20
"""How many reasons are printed."""

FINE = ("right", "right by operators", "refused", "kept")
"""Verdicts that are no faults."""

_REASON = re.compile(r"in LiteRT ([^;]*);")


@cache
def runner() -> LiteRT:
    """What runs models in this process."""
    return LiteRT()


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert networks and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="number of networks")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.count)
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for seed, verdicts in pool.imap(judged, seeds, chunksize=4):
            for way, verdict in verdicts.items():
                found[f"{way}: {verdict.split('|')[0]}"] += 1
                reasons.update(set(_REASON.findall(verdict)) if verdict.startswith("refused") else ())
                if verdict.split("|")[0] not in FINE:
                    print(f"{seed} {way}: {verdict}", flush=True)
    for name, count in sorted(found.items()):
        print(f"{count:6} {name}")
    for name, count in reasons.most_common(MOST):
        print(f"{count:6} refused: {name}")
    return int(any("wrong" in name or "refuses" in name for name in found))


def judged(seed: int) -> tuple[int, dict[str, str]]:
    """What became of a network, by the way that it was written."""
    made = network(seed)
    return seed, {
        "tflite": verdict(made, partial(_again, made.source)),
        "onnx": verdict(made, partial(_by_onnx, made.source)),
    }


Conversions = list[tuple[Any, layoutsolve.Conversion]]
"""Conversions one after the other, each with its source."""


def _again(source: bytes) -> Conversions:
    return [(source, layoutsolve.convert(source, to="tflite"))]


def _by_onnx(source: bytes) -> Conversions:
    between = layoutsolve.convert(source, target="portable")
    return [(source, between), (between.model, layoutsolve.convert(between.model, to="tflite"))]


def verdict(made: Network, convert: Callable[[], Conversions]) -> str:
    """What LiteRT makes of a network that was written again."""
    batches = (1, LARGER) if any(each.batch is not None for each in made.inputs) else (1,)
    source = made.source
    tensors = range(len(parse(source).subgraphs[0].tensors))  # with which LiteRT shares no memory among them
    try:
        truths = [runner().run(source, made.feeds(batch), tensors=tensors) for batch in batches]
    except RefusedError:
        return "source refused"
    try:
        way = convert()
    except InternalError as error:
        return f"wrong|{error}"
    except ConversionError as error:
        return f"refused|{error}"
    found = way[-1][1].content("")
    if found == source:
        return "kept"
    more = len(parse(found).subgraphs[0].operators) - len(parse(source).subgraphs[0].operators)
    for batch, truth in zip(batches, truths, strict=True):
        try:
            result = runner().run(found, made.feeds(batch))
        except RefusedError as error:
            return f"LiteRT refuses it|{error}"
        told = _difference(truth, result, made)
        if told and all(layoutsolve.verify(*each, tensors=True).passed for each in way):
            return f"right by operators|batch {batch}, {told}"
        if told:
            return f"wrong|batch {batch}, {told}, {more:+} operators"
    return "right"


def _difference(truth: Run, result: Run, made: Network) -> str:
    """How two results differ, '' where they agree."""
    if len(truth.results) != len(result.results):
        return f"{len(result.results)} outputs"
    rounds = made.kind not in ("float32", "dynamic")
    for number, (port, one, other) in enumerate(zip(truth.outputs, truth.results, result.results, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"output {number}: {other.dtype}{list(other.shape)} for {one.dtype}{list(one.shape)}"
        if _exact(one, other):
            continue
        error = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())
        size = float(np.ptp(one.astype(np.float64))) or 1.0
        if error <= NOISE or (
            kind(port) == "quantized" and error <= FEW * (port.scale[0] if one.dtype.kind == "f" else 1)
        ):
            continue
        if not error / size <= (STEPS if rounds or kind(port) == "quantized" else TOLERANCE):
            return f"output {number} ({kind(port)}): {error:.2g}, {error / size:.2g} of the range"
    return ""


def _exact(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


if __name__ == "__main__":
    raise SystemExit(main())
