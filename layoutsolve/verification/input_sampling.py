"""Inputs that are drawn: several distributions, and indices in the range of what they index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import TypeVar, overload

import numpy as np

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph
from layoutsolve.ir.graph import Array

T = TypeVar("T")

DISTRIBUTIONS = ("smooth", "uniform", "normal", "extreme")
"""What samples are drawn from, in turn: data of low frequency like images, noise over the whole range, noise about the
middle, and the ends of the range.
"""

WIDE = 3.0
"""How large floats are where they are normally distributed; others are in [-1, 1], but for extreme ones."""

FAR = 8.0
"""How large floats are where they are extreme: beyond where RELU6, HARD_SWISH and HARD_SIGMOID limit them."""

WHOLE = 9
"""How large integers are where they are normally distributed and nothing speaks against it; others are 0 to 3."""

FOLLOWED = {
    "RESHAPE",
    "CAST",
    "EXPAND_DIMS",
    "SQUEEZE",
    "TRANSPOSE",
    "PACK",
    "UNPACK",
    "CONCATENATION",
    "TILE",
    "SLICE",
}
FOLLOWED |= {"STRIDED_SLICE", "SPLIT", "SPLIT_V", "PAD", "PADV2", "BROADCAST_TO", "SELECT", "SELECT_V2", "MINIMUM"}
FOLLOWED |= {"QUANTIZE", "REVERSE_V2", "MAXIMUM"}
"""Operators whose results are, or may be, numbers that they read."""


@dataclass(frozen=True)
class Limits:
    """What an input may be: integers from ``low`` to ``high``, both included, or ``fixed`` numbers alone; floats over a
    range, and all of them ``different``.
    """

    low: float = -inf
    high: float = inf
    fixed: tuple[int, ...] | None = None
    different: bool = False

    def within(self, other: Limits) -> Limits:
        """What is allowed by both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Limits(low, max(low, high), self.fixed or other.fixed, self.different or other.different)


ANY = Limits()

Rule = Callable[[Subgraph, Operator], Limits]


def _static(graph: Subgraph, operator: Operator, slot: int) -> tuple[int, ...]:
    return graph.tensors[operator.inputs[slot]].shape


def _values(graph: Subgraph, operator: Operator, slot: int) -> list[int] | None:
    data = graph.tensors[operator.inputs[slot]].data if slot < len(operator.inputs) else None
    return None if data is None or data.dtype.kind not in "iu" else [int(each) for each in data.reshape(-1)]


def _gather(graph: Subgraph, operator: Operator) -> Limits:
    shape, axis = _static(graph, operator, 0), int(operator.options.get("axis", 0))
    return Limits(0, shape[axis] - 1) if -len(shape) <= axis < len(shape) else ANY


def _gather_nd(graph: Subgraph, operator: Operator) -> Limits:
    shape, indices = _static(graph, operator, 0), _static(graph, operator, 1)
    depth = indices[-1] if indices else 0
    return Limits(0, min(shape[:depth], default=1) - 1)


def _rows(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(0, max(_static(graph, operator, 1)[:1], default=1) - 1)


def _depth(graph: Subgraph, operator: Operator) -> Limits:
    depth = _values(graph, operator, 1)
    return Limits(0, max(depth[0] - 1, 0)) if depth else Limits(0, 3)


def _begin(graph: Subgraph, operator: Operator) -> Limits:
    shape, size = _static(graph, operator, 0), _values(graph, operator, 2)
    if not size or len(size) != len(shape):
        return Limits(0, 0)
    return Limits(0, max(min(own - max(each, 0) for own, each in zip(shape, size, strict=True)), 0))


def _axis(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(0, max(len(_static(graph, operator, 0)) - 1, 0))


def _lengths(graph: Subgraph, operator: Operator) -> Limits:
    shape, axis = _static(graph, operator, 0), int(operator.options.get("seq_dim", 0))
    return Limits(1, shape[axis]) if axis < len(shape) else Limits(0, 1)


def _most(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(1, max(_static(graph, operator, 0)[-1:], default=1))


def _mirrored(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(0, max(min(_static(graph, operator, 0), default=1) - 1, 0))


def _order(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(fixed=tuple(range(len(_static(graph, operator, 0)))))


def _shape(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(fixed=graph.tensors[operator.outputs[0]].shape)


def _segments(graph: Subgraph, operator: Operator) -> Limits:
    count = _values(graph, operator, 2)
    return Limits(0, max(count[0] - 1, 0)) if count else Limits(0, 0)


def _scattered(graph: Subgraph, operator: Operator) -> Limits:
    shape, indices = _values(graph, operator, 2), _static(graph, operator, 0)
    depth = indices[-1] if indices else 0
    return Limits(0, max(min(shape[:depth], default=1) - 1, 0)) if shape else Limits(0, 0)


def _above(slot: int, least: int) -> Rule:
    def rule(graph: Subgraph, operator: Operator) -> Limits:
        quant = quant_of(graph.tensors[operator.inputs[slot]])
        return Limits(least + (0 if quant is None else int(quant.zero_point[0])))

    return rule


def _bags(graph: Subgraph, operator: Operator) -> Limits:
    return _places(_static(graph, operator, 1), _values(graph, operator, 2))


def _spread_out(graph: Subgraph, operator: Operator) -> Limits:
    shape = _values(graph, operator, 1) or list(graph.tensors[operator.outputs[0]].shape)
    return _places(_static(graph, operator, 0), shape)


def _places(indices: tuple[int, ...], shape: list[int] | None) -> Limits:
    """Places in a tensor, in order and all different, spread over it."""
    count, whole = (indices or (1,))[0], int(np.prod(shape or [0]))
    if not shape or not 0 < count <= whole < 2**31:
        return Limits(0, 0)
    found = np.unravel_index(np.arange(count, dtype=np.int64) * whole // count, shape)
    return Limits(fixed=tuple(np.stack(found, -1).reshape(-1).tolist()))


def _sized(graph: Subgraph, operator: Operator) -> Limits:
    shape = graph.tensors[operator.outputs[0]].shape
    return Limits(fixed=shape) if _values(graph, operator, 1) is None and min(shape, default=1) > 0 else Limits(1, 1)


def _bits(graph: Subgraph, operator: Operator) -> Limits:
    return Limits(0, 8 * np.dtype(graph.tensors[operator.inputs[0]].dtype).itemsize - 1)


def _filled(graph: Subgraph, operator: Operator) -> Limits:
    """Padding with which images are made of whole blocks."""
    count = max(_static(graph, operator, 2)[:1], default=0)
    sizes, block = _static(graph, operator, 0)[1 : 1 + count], _values(graph, operator, 1) or [1] * count
    ends = [(0, -size % each if each else 0) for size, each in zip(sizes, block, strict=False)]
    return Limits(fixed=tuple(int(each) for pair in ends for each in pair))


RULES: Mapping[tuple[str, int], Rule] = {
    ("GATHER", 1): _gather,
    ("GATHER_ND", 1): _gather_nd,
    ("EMBEDDING_LOOKUP", 0): _rows,
    ("EMBEDDING_LOOKUP_SPARSE", 0): lambda graph, operator: Limits(0, max(_static(graph, operator, 4)[0] - 1, 0)),
    ("EMBEDDING_LOOKUP_SPARSE", 1): _bags,
    ("HASHTABLE_LOOKUP", 0): _rows,
    ("ONE_HOT", 0): _depth,
    ("SLICE", 1): _begin,
    ("DYNAMIC_UPDATE_SLICE", 2): lambda graph, operator: Limits(0, max(_static(graph, operator, 0), default=1)),
    ("ARG_MAX", 1): _axis,
    ("ARG_MIN", 1): _axis,
    ("EXPAND_DIMS", 1): _axis,
    ("CUMSUM", 1): _axis,
    ("SPLIT", 0): lambda graph, operator: Limits(0, max(len(_static(graph, operator, 1)) - 1, 0)),
    ("REVERSE_V2", 1): _axis,
    ("REVERSE_SEQUENCE", 1): _lengths,
    ("TOPK_V2", 1): _most,
    ("TRANSPOSE", 1): _order,
    ("RESHAPE", 1): _shape,
    ("BROADCAST_TO", 1): _shape,
    ("FILL", 0): _shape,
    ("TRANSPOSE_CONV", 0): _shape,
    ("RESIZE_BILINEAR", 1): lambda graph, operator: Limits(1, 8),
    ("RESIZE_NEAREST_NEIGHBOR", 1): lambda graph, operator: Limits(1, 8),
    ("DIV", 1): _above(1, 1),
    ("FLOOR_DIV", 1): _above(1, 1),
    ("FLOOR_MOD", 1): _above(1, 1),
    ("LOG", 0): _above(0, 1),
    ("SQRT", 0): _above(0, 0),
    ("RSQRT", 0): _above(0, 1),
    ("STABLEHLO_SHIFT_LEFT", 1): _bits,
    ("PAD", 1): lambda graph, operator: Limits(0, 3),
    ("PADV2", 1): lambda graph, operator: Limits(0, 3),
    ("MIRROR_PAD", 1): _mirrored,
    ("RANGE", 0): lambda graph, operator: Limits(0, 1),
    ("RANGE", 1): lambda graph, operator: Limits(2, 9),
    ("RANGE", 2): lambda graph, operator: Limits(1, 3),
    ("UNSORTED_SEGMENT_SUM", 1): _segments,
    ("UNSORTED_SEGMENT_PROD", 1): _segments,
    ("UNSORTED_SEGMENT_MAX", 1): _segments,
    ("UNSORTED_SEGMENT_MIN", 1): _segments,
    ("SCATTER_ND", 0): _scattered,
    ("SCATTER_ND", 2): _shape,
    ("SEGMENT_SUM", 1): lambda graph, operator: Limits(fixed=tuple(np.arange(*_static(graph, operator, 1)) // 2)),
    ("SPARSE_TO_DENSE", 0): _spread_out,
    ("SPARSE_TO_DENSE", 1): _shape,
    ("SLICE", 2): _sized,
    ("SPACE_TO_BATCH_ND", 1): lambda graph, operator: Limits(1, 1),
    ("SPACE_TO_BATCH_ND", 2): _filled,
    ("BATCH_TO_SPACE_ND", 1): lambda graph, operator: Limits(1, 1),
    ("BATCH_TO_SPACE_ND", 2): lambda graph, operator: Limits(0, 0),
}
"""What an operator wants of one of its inputs, by its name and the input's position."""


def _quantized(graph: Subgraph, operator: Operator) -> Limits:
    made = graph.tensors[operator.outputs[0]]
    quant = quant_of(made)
    if quant is None or quant.scale.size != 1:
        return ANY
    ends, scale = np.iinfo(made.dtype), float(quant.scale[0])
    low, high = ((int(end) - int(quant.zero_point[0])) * scale for end in (ends.min, ends.max))
    return Limits(low, high) if np.isfinite([low, high]).all() and 0 < high - low < 1e6 else ANY


FLOATS: Mapping[tuple[str, int], Rule] = {
    ("QUANTIZE", 0): _quantized,
    ("LOG", 0): lambda graph, operator: Limits(2**-10, 2),
    ("SQRT", 0): lambda graph, operator: Limits(0, 2),
    ("RSQRT", 0): lambda graph, operator: Limits(2**-10, 2),
    ("RANGE", 0): lambda graph, operator: Limits(-1, 0),
    ("RANGE", 1): lambda graph, operator: Limits(1, 2),
    ("RANGE", 2): lambda graph, operator: Limits(0.25, 0.5),
    ("CUSTOM:TFLite_Detection_PostProcess", 0): lambda graph, operator: Limits(-1, 1, different=True),
    ("CUSTOM:TFLite_Detection_PostProcess", 1): lambda graph, operator: Limits(0, 1, different=True),
    **{
        (f"NON_MAX_SUPPRESSION_V{version}", slot): lambda graph, operator: Limits(0, 1, different=True)
        for version in (4, 5)
        for slot in (0, 1)
    },
}
"""The same of floats: the range that is quantized at once, where an operator is defined, and what must not tie."""


def limits(model: Model) -> list[Limits]:
    """What each input of a model may be, by what reads it: directly, or moved by other operators."""
    graph = model.subgraphs[0]
    readers: dict[int, list[tuple[Operator, int]]] = {}
    for operator in graph.operators:
        for slot, index in enumerate(operator.inputs):
            readers.setdefault(index, []).append((operator, slot))
    return [_of(model, readers, index) for index in graph.inputs]


def _of(model: Model, readers: Mapping[int, Sequence[tuple[Operator, int]]], start: int) -> Limits:
    found, waiting, seen, graph = ANY, [start], {start}, model.subgraphs[0]
    floats = graph.tensors[start].dtype.startswith("float")
    while waiting:
        for operator, slot in readers.get(waiting.pop(), ()):
            if (rule := (FLOATS if floats else RULES).get((operator.name, slot))) is not None:
                found = found.within(rule(graph, operator))
            elif not floats and operator.name in FOLLOWED:
                new = [index for index in operator.outputs if index not in seen]
                seen.update(new)
                waiting += new
    return found


class Samples(Sequence[T]):
    """So many samples, each of which is made anew when it is asked for."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._numbers, self._make = range(count), make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        found = self._numbers[index]
        return self._make(found) if isinstance(found, int) else [*map(self._make, found)]


def drawn(dtype: str, shape: Sequence[int], generator: np.random.Generator, sample: int, allowed: Limits) -> Array:
    """Elements of one input in a sample, whose number selects one of :data:`DISTRIBUTIONS`."""
    return np.asarray(_drawn(dtype, shape, generator, sample, allowed))


def _drawn(dtype: str, shape: Sequence[int], generator: np.random.Generator, sample: int, allowed: Limits) -> Array:
    how = "uniform" if allowed.different else DISTRIBUTIONS[sample % len(DISTRIBUTIONS)]
    if dtype in ("bool", "string"):
        return smooth(dtype, shape, generator)
    if allowed.fixed is not None and len(allowed.fixed) == int(np.prod(shape)):
        return np.array(allowed.fixed, dtype).reshape(tuple(shape))
    if dtype in ("int32", "int64", "uint32", "uint64"):
        if how == "normal" and dtype.startswith("int") and allowed.high == inf:
            allowed = allowed.within(Limits(-WHOLE, WHOLE))
        low, high = (0 if allowed.low == -inf else allowed.low), (3 if allowed.high == inf else allowed.high)
        if how == "extreme":
            return np.asarray(generator.choice(np.array([low, high], np.int64), tuple(shape))).astype(dtype)
        found = generator.integers(int(low), int(min(high, 2**31 - 1)) + 1, tuple(shape))
        return np.asarray(found).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        bounded = allowed.within(Limits(ends.min, ends.max))
        return np.rint(_spread(how, dtype, shape, generator, bounded)).astype(dtype)
    wide = {"normal": Limits(-WIDE, WIDE), "extreme": Limits(-FAR, FAR)}.get(how, Limits(-1, 1))
    bounded = allowed if np.isfinite([allowed.low, allowed.high]).all() else wide
    found = _spread(how, "float32", shape, generator, bounded)
    if dtype.startswith("complex"):
        return np.asarray(found + 1j * _spread(how, "float32", shape, generator, bounded)).astype(dtype)
    return found.astype(dtype)


def _spread(how: str, dtype: str, shape: Sequence[int], generator: np.random.Generator, allowed: Limits) -> Array:
    """Real numbers of one distribution over a range."""
    low, high = allowed.low, allowed.high
    if how == "smooth":
        wave = smooth("float32", shape, generator).astype(np.float64)
        return np.asarray((wave + 1) / 2 * (high - low) + low)
    if how == "uniform":
        return np.asarray(generator.uniform(low, high, tuple(shape)))
    if how == "normal":
        middle, width = (low + high) / 2, (high - low) / 2
        found = generator.normal(middle, width / 3, tuple(shape))
        return np.asarray(np.clip(found, low, high))
    ends = np.array([low, (low + high) / 2, high])
    return np.asarray(generator.choice(ends, tuple(shape), p=[0.4, 0.2, 0.4]))


def smooth(dtype: str, shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Image-like data of low frequency: floats in [-1, 1], 8 and 16 bit integers over their range, others small."""
    if dtype == "bool":
        return np.asarray(generator.integers(0, 2, shape)).astype(bool)
    if dtype == "string":
        return np.array([b"a", b"b c"])[generator.integers(0, 2, shape)]
    if dtype in ("int32", "int64", "uint32", "uint64"):
        return np.asarray(generator.integers(0, 4, shape)).astype(dtype)
    waves = [_waves(shape, generator) for _ in range(3)]
    wave = reduce(np.add, waves) / 3 + generator.uniform(-0.05, 0.05, shape)
    wave = np.clip(wave / max(float(np.abs(wave).max(initial=0)), 1e-6), -1, 1)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        wave = np.rint((wave + 1) / 2 * (int(limits.max) - int(limits.min)) + int(limits.min))
    return np.asarray(wave).astype(dtype)


def _waves(shape: Sequence[int], generator: np.random.Generator) -> Array:
    """The outer product of one slow wave along each axis."""
    result = np.ones(tuple(shape))
    for axis, size in enumerate(shape):
        phase = generator.uniform(0, 2 * np.pi) + generator.uniform(0.5, 3) * np.linspace(0, np.pi, size)
        result = result * np.cos(phase).reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return result
