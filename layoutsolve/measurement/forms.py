"""In which form ONNX Runtime is right and fast on this processor: how bytes and channels are stored, and idioms.

Each choice has candidates, which say what a target's file would, and small networks written as each of them. What
computes something else when it is optimised is no candidate: sums of bytes may saturate (``docs/runtimes.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx

from layoutsolve.measurement.kernels import Array, Node, Spec, Timed, model, paired, results

WORTH = 0.95
"""Of the time of the first candidate, the most that another may take to be chosen in its place."""

STEPS = 2.0
"""How far optimised results of bytes may be off, in steps: rounding, of two operators in a row."""

CLOSE = 1e-3
"""How far those of real numbers may be off, relative to their range."""

QUIET = 40
"""Steps of a result that its numbers usually are from their zero point."""

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """One candidate form of a network, and the fields of a target's file where it is chosen."""

    title: str
    storage: Facts
    idioms: Facts
    networks: tuple[onnx.ModelProto, ...]
    apart: float = CLOSE


@dataclass(frozen=True)
class Found:
    """A candidate: its time by that of the first (0 where that was not measured), whether it is right, the spread of
    the ratio over rounds, and whether it was chosen.
    """

    choice: str
    candidate: Candidate
    ratio: float
    right: bool
    spread: float
    chosen: bool


def choices() -> dict[str, Callable[[], Sequence[Candidate]]]:
    """All choices. The first candidate of each is what ``ort-cpu`` has."""
    return {"int8": _bytes, "channels": _channels, "PRelu": _slopes}


def decided(choice: str, candidates: Sequence[Candidate]) -> list[Found]:
    """Measure candidates against the first, and choose the fastest that is right."""
    right = [all(_is_right(network, each.apart) for network in each.networks) for each in candidates]
    ratios, spreads = np.ones(len(candidates)), np.zeros(len(candidates))
    for networks in zip(*(each.networks for each in candidates), strict=True):
        seconds = paired([Timed(network) for network in networks])
        relative = seconds / seconds[:, :1]
        middle = np.median(relative, axis=0)
        ratios *= middle ** (1 / len(candidates[0].networks))
        spreads = np.maximum(spreads, np.median(np.abs(relative / middle - 1.0), axis=0))
    fit = [index for index in range(len(candidates)) if right[index]]
    best = min(fit, key=lambda index: ratios[index], default=0)
    if fit and right[0] and ratios[best] > WORTH:
        best = 0
    return [
        Found(choice, each, float(ratios[index]), right[index], float(spreads[index]), index == best)
        for index, each in enumerate(candidates)
    ]


def sections(found: Sequence[Found]) -> dict[str, object]:
    """Storage and idioms for a target's file."""
    storage: dict[str, object] = {}
    idioms: dict[str, object] = {}
    for each in found:
        if each.chosen:
            storage.update(each.candidate.storage)
            idioms.update(each.candidate.idioms)
    return {"storage": storage, "idioms": idioms}


def _is_right(network: onnx.ModelProto, apart: float) -> bool:
    """Whether ONNX Runtime's optimiser leaves the results of a network what they are."""
    (plain,), (optimised,) = (results(network, optimise=each) for each in (False, True))
    off = np.abs(plain.astype(np.float64) - optimised.astype(np.float64)).max()
    span = 1.0 if plain.dtype.kind in "iu" else max(float(np.ptp(plain)), 1e-6)
    return bool(off <= apart * span)


def _bytes() -> Sequence[Candidate]:
    """Activations and weights of bytes, each with a sign or without one."""
    stored = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("int8", "uint8")]
    ways = {"int8": "signed", "uint8": "unsigned"}
    return [
        Candidate(
            f"{activations} by {weights}",
            {"unsigned": activations == "uint8", "weights": ways[weights]},
            {},
            tuple(_quantized(each, activations, weights) for each in ("pointwise", "window", "dense")),
            STEPS,
        )
        for activations, weights in stored
    ]


def _quantized(kind: str, activations: str, weights: str) -> onnx.ModelProto:
    """Two products in a row of bytes as loud as they can be."""
    generator = np.random.default_rng(0)
    shape = {"pointwise": (64, 64, 1, 1), "window": (32, 32, 3, 3), "dense": (256, 256)}[kind]
    given = {"pointwise": (1, 64, 28, 28), "window": (1, 32, 28, 28), "dense": (64, 256)}[kind]
    op, attributes = ("Gemm", {"transB": 1}) if kind == "dense" else ("Conv", {"pads": [shape[-1] // 2] * 4})
    zero = np.asarray(128 if activations == "uint8" else 0, activations)
    higher = 128 if weights == "uint8" else 0
    constants: dict[str, Array] = {"zero": zero, "scale0": np.asarray(0.02, np.float32)}
    nodes, size = [], 0.02 * 127
    for layer in (1, 2):
        signed = generator.choice([-127, -126, 126, 127], shape)
        size *= 127 * 0.01 * float(np.sqrt(np.prod(shape[1:])))
        constants |= {
            f"w{layer}": (signed + higher).astype(weights),
            f"ws{layer}": np.full(shape[0], 0.01, np.float32),
            f"wz{layer}": np.full(shape[0], higher, weights),
            f"scale{layer}": np.asarray(size / QUIET, np.float32),
        }
        source, result = "x" if layer == 1 else "q1", "y" if layer == 2 else "q1"
        nodes += [
            Node("DequantizeLinear", [source, f"scale{layer - 1}", "zero"], [f"r{layer}"]),
            Node("DequantizeLinear", [f"w{layer}", f"ws{layer}", f"wz{layer}"], [f"d{layer}"], {"axis": 0}),
            Node(op, [f"r{layer}", f"d{layer}"], [f"p{layer}"], attributes),
            Node("QuantizeLinear", [f"p{layer}", f"scale{layer}", "zero"], [result]),
        ]
    return model(nodes, {"x": Spec(given, activations)}, constants)


WIDTHS = ((24, 28, 32, 36, 42, 48), (28, 36, 40, 44, 56, 72))
"""Channels of the stages of residual networks that grow by a Pad of channels, as detectors of faces and hands do."""

SIDES = (32, 24)
"""The sides of their images."""


def _channels() -> Sequence[Candidate]:
    """Channels as they are, and whole blocks of them."""
    return [
        Candidate(
            f"blocks of {block}" if block else "as they are",
            {"block": block},
            {},
            tuple(
                _growing([_up(width, block) for width in widths], side)
                for widths, side in zip(WIDTHS, SIDES, strict=True)
            ),
        )
        for block in (16, 8, 0)
    ]


def _up(channels: int, block: int) -> int:
    return channels if not block else -(-channels // block) * block


def _growing(widths: Sequence[int], side: int) -> onnx.ModelProto:
    """Stages of a depthwise convolution, one of one pixel, a sum with what came before and a Relu."""
    generator = np.random.default_rng(0)
    constants: dict[str, Array] = {"first": _real(generator, widths[0], 3, 3, 3)}
    nodes = [Node("Conv", ["x", "first"], ["s0"], {"pads": [1] * 4})]
    for stage, (before, width) in enumerate(pairwise(widths)):
        current, deep, flat, total = (f"{name}{stage}" for name in ("s", "deep", "flat", "sum"))
        constants[f"a{stage}"] = _real(generator, before, 1, 3, 3)
        constants[f"b{stage}"] = _real(generator, width, before, 1, 1)
        nodes += [
            Node("Conv", [current, f"a{stage}"], [deep], {"group": before, "pads": [1] * 4}),
            Node("Conv", [deep, f"b{stage}"], [flat]),
        ]
        if width > before:
            constants[f"p{stage}"] = np.array([0, 0, 0, 0, 0, width - before, 0, 0], np.int64)
            nodes.append(Node("Pad", [current, f"p{stage}"], [f"wide{stage}"]))
            current = f"wide{stage}"
        nodes += [Node("Add", [flat, current], [total]), Node("Relu", [total], [f"s{stage + 1}"])]
    constants["last"] = _real(generator, 8, widths[-1], 1, 1)
    nodes.append(Node("Conv", [f"s{len(widths) - 1}", "last"]))
    return model(nodes, {"x": Spec((1, 3, side, side))}, constants)


def _slopes() -> Sequence[Candidate]:
    """PRelu between convolutions."""
    ways = {"normalization": ["normalization", "limits"], "limits": ["limits"], "PRelu": list[str]()}
    return [
        Candidate(title, {}, {"PRelu": names}, tuple(_sloped(title, *size) for size in ((32, 32), (64, 16))))
        for title, names in ways.items()
    ]


def _sloped(way: str, channels: int, side: int) -> onnx.ModelProto:
    generator = np.random.default_rng(0)
    slope = generator.uniform(0.1, 0.4, (channels, 1, 1)).astype(np.float32)
    constants: dict[str, Array] = {
        "a": _real(generator, channels, channels, 3, 3),
        "b": _real(generator, channels, channels, 1, 1),
    }
    nodes = [Node("Conv", ["x", "a"], ["u"], {"pads": [1] * 4})]
    if way == "PRelu":
        constants["s"] = slope
        nodes.append(Node("PRelu", ["u", "s"], ["v"]))
    elif way == "limits":
        constants |= {"s": slope, "zero": np.zeros((), np.float32)}
        nodes += [
            Node("Relu", ["u"], ["positive"]),
            Node("Min", ["u", "zero"], ["low"]),
            Node("Mul", ["low", "s"], ["scaled"]),
            Node("Add", ["positive", "scaled"], ["v"]),
        ]
    else:
        zero, one = (np.full(channels, each, np.float32) for each in (0, 1))
        constants |= {"n": -one, "s": -slope.reshape(-1), "zero": zero, "one": one}
        nodes += [
            Node("Relu", ["u"], ["positive"]),
            Node("BatchNormalization", ["u", "n", "zero", "zero", "one"], ["turned"], {"epsilon": 0.0}),
            Node("Relu", ["turned"], ["low"]),
            Node("BatchNormalization", ["low", "s", "zero", "zero", "one"], ["scaled"], {"epsilon": 0.0}),
            Node("Add", ["positive", "scaled"], ["v"]),
        ]
    return model([*nodes, Node("Conv", ["v", "b"])], {"x": Spec((1, channels, side, side))}, constants)


def _real(generator: np.random.Generator, *shape: int) -> Array:
    return np.asarray(generator.normal(size=shape) / np.sqrt(np.prod(shape[1:])), np.float32)
