"""Models of one operator whose tensors have quantization parameters that differ, made of the other cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from tests.builder import TYPES, Builder
from tests.conformance.cases import POLICY, REFUSED, Case, Model
from tests.truth import litert

_NAMES = {code: name for name, code in TYPES.items()}
SMALL = ("int8", "uint8", "int16")
WAYS = ("scale", "zero", "both")
"""In what parameters differ."""

BIASED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
"""Operators whose inputs' parameters are tied to each other by a bias."""

ELSEWHERE = (
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
)  # fmt: skip
"""Operators with many formats of their own, which their cases vary."""

Parameters = tuple[float, int]


@dataclass(frozen=True, eq=False)
class Variant:
    """A model whose output, or the input of that number, has other parameters than its other tensors.

    ``alike`` is the same model with one pair of parameters, those of its output; ``original`` the one before anything
    was changed, ``before`` and ``after`` the parameters that were.
    """

    end: str
    way: str
    model: Model
    alike: bytes
    original: bytes
    before: Parameters
    after: Parameters
    fed: int | None

    @property
    def label(self) -> str:
        """What tells the variants of a case apart."""
        return f"{self.end}-{self.way}"


def variants(case: Case, model: Model) -> tuple[str, Iterator[Variant]]:
    """The type of the numbers that the operator moves, and its variants: none where they are not of 8 or 16 bits."""
    nothing: tuple[str, Iterator[Variant]] = ("", iter(()))
    build = Builder.reopened(model.source)
    graph = build.subgraph
    if (
        case.operator in ELSEWHERE
        or model.truth
        or model.expected is not None
        or len(build.model.subgraphs) > 1
        or len(graph.operators) != 1
    ):
        return nothing
    operator = graph.operators[0]
    small = [index for index in (*operator.outputs, *operator.inputs) if index >= 0 and _small(graph.tensors[index])]
    if not small:
        return nothing
    scaled = [index for index in small if _scale(graph.tensors[index])]
    kind = graph.tensors[(scaled or small)[0]].type
    ends = dict.fromkeys(reversed(operator.outputs), "output")
    ends |= {index: f"input{at}" for at, index in reversed(list(enumerate(operator.inputs)))}
    moved = list(dict.fromkeys(index for index in scaled or small if graph.tensors[index].type == kind))
    groups = {
        end: [index for index in moved if ends[index] == end] for end in dict.fromkeys(map(ends.__getitem__, moved))
    }
    if len(groups) < 2:
        return nothing
    if case.operator in BIASED:
        groups = {end: group for end, group in groups.items() if end == "output"}
    elif len(groups) == 2 and "output" in groups:
        groups = {"output": groups["output"]}
    return _NAMES[kind], _variants(model, graph, moved, groups)


def _variants(model: Model, graph: Any, moved: list[int], groups: Mapping[str, list[int]]) -> Iterator[Variant]:
    """The variants of a model some of whose tensors have parameters, in groups by the end that they are at."""
    dressed = {index: parameters for index in moved for parameters in [_parameters(graph.tensors[index])]}
    original, dtype = _with(model.source, dressed), _NAMES[graph.tensors[moved[0]].type]
    for end, group in groups.items():
        fed = list(graph.inputs).index(group[0]) if group[0] in graph.inputs else None
        for way in WAYS:
            before, after = dressed[group[0]], _changed(dressed[group[0]], way, dtype)
            source = _with(original, dict.fromkeys(group, after))
            shared = after if group[0] == moved[0] else dressed[moved[0]]
            alike = _with(original, dict.fromkeys(moved, shared))
            yield Variant(end, way, Model(source, model.inputs), alike, original, before, after, fed)


def alone(case: Case, model: Model) -> Iterator[Model]:
    """The model with a zero point for the inputs of 8 bits where its operator gives none of their type."""
    build = Builder.reopened(model.source)
    graph = build.subgraph
    if case.operator in ELSEWHERE or model.truth or model.expected is not None or len(graph.operators) != 1:
        return
    (operator,) = graph.operators
    given = [index for index in dict.fromkeys(operator.inputs) if index >= 0 and _small(graph.tensors[index])]
    made = [graph.tensors[index].type for index in operator.outputs]
    for dtype in ("int8", "uint8"):
        ports = [index for index in given if graph.tensors[index].type == TYPES[dtype]]
        if ports and TYPES[dtype] not in made:
            near = np.random.default_rng(0)
            inputs = [
                near.integers(0, 7, each.shape).astype(dtype) if each.dtype == dtype else each for each in model.inputs
            ]
            yield Model(_with(model.source, dict.fromkeys(ports, (0.5, 3))), tuple(inputs))


def _small(tensor: Any) -> bool:
    """Whether a tensor is of few bits, and not quantized per channel or block."""
    found = tensor.quantization
    scales = 0 if found is None or found.scale is None else len(found.scale)
    return _NAMES[tensor.type] in SMALL and scales < 2 and (found is None or found.details is None)


def _scale(tensor: Any) -> float:
    """The scale of a tensor, 0 where it has none."""
    found = tensor.quantization
    return 0.0 if found is None or found.scale is None or not len(found.scale) else float(found.scale[0])


def _parameters(tensor: Any) -> Parameters:
    """Those of a tensor, or some for a plain one."""
    if not _scale(tensor):
        return 0.5, 0 if _NAMES[tensor.type] == "int16" else 3
    return _scale(tensor), int(tensor.quantization.zeroPoint[0])


def _changed(before: Parameters, way: str, dtype: str) -> Parameters:
    scale, zero = before
    if way != "zero":
        scale = float(np.float32(scale * 1.7))
    if way != "scale":
        zero += 11 if zero + 11 <= np.iinfo(dtype).max else -11
    return scale, zero


def _with(source: bytes, parameters: Mapping[int, Parameters]) -> bytes:
    """A model with the parameters of some tensors replaced."""
    build = Builder.reopened(source)
    for index, (scale, zero) in parameters.items():
        build.subgraph.tensors[index].quantization = schema.QuantizationParametersT(scale=[scale], zeroPoint=[zero])
    return build.finish(*build.subgraph.outputs)


@cache
def _results(variant: Variant) -> tuple[Array, ...]:
    """What LiteRT makes of it."""
    return litert().run(variant.model.source, variant.model.inputs).results


@cache
def done(variant: Variant) -> str:
    """What LiteRT does: 'refused', 'stored' where it looks at no parameters but the output's, or 'computed'."""
    try:
        results = _results(variant)
        alike = litert().run(variant.alike, variant.model.inputs).results
    except VerifyError:
        return "refused"
    return "stored" if all(map(np.array_equal, results, alike)) else "computed"


# -- what is known ---------------------------------------------------------------------------------------------------


def policy(operator: str, dtype: str, end: str) -> str:
    """What is to be expected of an operator."""
    stated = POLICY[operator]
    return stated if isinstance(stated, str) else stated.get(dtype) or stated[end]


@cache
def expected(variant: Variant) -> tuple[Array, ...]:
    """The outputs in LiteRT; where it wants equal parameters, those that keep the meaning of the numbers.

    Raises :class:`VerifyError` where there is nothing to compare with.
    """
    if done(variant) != REFUSED:
        return _results(variant)
    inputs = list(variant.model.inputs)
    if variant.end != "output":
        if variant.fed is None:
            raise VerifyError("a constant was changed")
        inputs[variant.fed] = _requantized(inputs[variant.fed], variant.after, variant.before)
    results = litert().run(variant.original, inputs).results
    if variant.end != "output":
        return results
    return tuple(_requantized(result, variant.before, variant.after) for result in results)


def fixed(model: Model) -> Model:
    """The same with all inputs of few bits as constants."""
    build = Builder.reopened(model.source)
    left = []
    for index, data in zip(build.subgraph.inputs, model.inputs, strict=True):
        if _NAMES[build.subgraph.tensors[index].type] in SMALL:
            build.subgraph.tensors[index].buffer = build.buffer(data.tobytes())
        else:
            left.append((index, data))
    build.subgraph.inputs = [index for index, _ in left]
    return Model(build.finish(*build.subgraph.outputs), tuple(data for _, data in left))


def _requantized(data: Array, before: Parameters, after: Parameters) -> Array:
    """Other stored integers of the same meaning, as near as they come."""
    real = (data.astype(np.float32) - np.float32(before[1])) * np.float32(before[0])
    limits = np.iinfo(data.dtype)
    return np.clip(np.rint(real / np.float32(after[0])) + after[1], limits.min, limits.max).astype(data.dtype)
