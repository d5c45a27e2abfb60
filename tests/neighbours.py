"""Operators in a row, each of which reads what the one before it has written: what an optimiser looks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder
from tests.conformance.cases import fitted
from tests.random_models import STEPS, Step, Steps, Tensor, UnfitError

KINDS = ("float32", "int8", "uint8")
SHAPES = ((1, 6, 6, 16), (1, 5, 4, 8), (2, 4, 4, 3), (1, 8, 8, 1), (3, 5, 6), (2, 12), (1, 2, 4, 4, 3))
"""The first two have as many channels as ONNX Runtime's blocked layouts ask for."""

_TRIES = 12


def quotient(steps: Steps) -> None:
    """A number that is divided, or by which is divided: 1 more often than others, of any rank."""
    x = steps.pick(lambda x: x.dtype == "float32")
    number = np.full([1] * steps.number(0, x.rank), steps.one(1.0, 1.0, 0.3), np.float32)
    shifted, result = steps.fresh(x), steps.fresh(x)
    steps.write("ABS", [x], [shifted])
    bounded = steps.fresh(x)
    steps.write("ADD", [shifted, steps.constant(0.5, "float32")], [bounded])
    pair = [steps.constant(number, "float32"), bounded]
    steps.write("DIV", pair if steps.chance(0.7) else pair[::-1], [result])


def padded_maximum(steps: Steps) -> None:
    """Zeros around an image, or a number written out, and a maximum that may meet nothing else."""
    x = steps.pick(lambda x: x.rank == 4 and x.real)
    n, h, w, c = x.shape
    before, after = steps.number(0, 2), steps.number(0, 2)
    wide = steps.like(x, (n, h + before + after, w + after, c))
    inputs = [x, steps.constant([[0, 0], [before, after], [0, after], [0, 0]])]
    if x.quant is None and steps.chance(0.5):
        steps.write("PADV2", [*inputs, steps.constant(steps.one(0.0, 0.0, -1.0), "float32")], [wide])
    else:
        steps.write("PAD", inputs, [wide])
    result = steps.like(x, (n, wide.shape[1], wide.shape[2], c))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2}
    steps.write("MAX_POOL_2D", [wide], [result], **options)


def requantized(steps: Steps) -> None:
    """The same numbers in other steps, up to twenty times as large or small."""
    x = steps.pick(lambda x: x.quant is not None)
    result = steps.output(x.shape, x.dtype, fitted(x.dtype, *steps.one((-2, 2), (-20, 20), (0, 9), (-0.5, 1))))
    steps.write("QUANTIZE", [x], [result])


def choice_of_truths(steps: Steps) -> None:
    """A condition, turned or not, that decides between numbers, and is a value itself."""
    x = steps.pick(lambda x: x.dtype == "float32")
    truth, turned, chosen = (steps.output(x.shape, "bool") for _ in range(3))
    steps.write("GREATER", [x, steps.constant(0.1, "float32")], [truth])
    steps.write("LOGICAL_NOT", [truth], [turned])
    steps.write("SELECT_V2", [turned, turned, truth], [chosen])
    steps.write("SELECT_V2", [turned, x, steps.constant(0.5, "float32")], [steps.fresh(x)])


FOLLOWERS = (*dict.fromkeys(STEPS), quotient, padded_maximum, requantized, choice_of_truths)
"""Each kind of step once."""


class Row(Steps):
    """Steps each of which reads what the one before it has written."""

    def pick(self, fits: Callable[[Tensor], bool] = lambda x: x.real) -> Tensor:
        if not fits(self.live[-1]):
            raise UnfitError
        return self.live[-1]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A model of operators in a row, and inputs for it by name."""

    source: bytes
    operators: tuple[str, ...]
    given: Mapping[str, Array]


def neighbours(steps: Sequence[Step], kind: str, seed: int) -> Neighbours | None:
    """The model of some steps in a row; None where one cannot follow the other, as far as a few tries tell."""
    for turn in range(_TRIES):
        random = np.random.default_rng([seed, turn])
        builder = Builder()
        row = Row(builder, random, kind, builder)
        shape = row.one(*SHAPES)
        quant = None if kind == "float32" else fitted(kind, -2, 2)
        x = row.part.input("x", shape, kind, quant=quant)
        row.live.append(Tensor(x, shape, kind, quant))
        try:
            for step in steps:
                step(row)
        except UnfitError:
            continue
        limits = (-128, 128) if kind == "int8" else (0, 256)
        data = random.uniform(-2, 2, shape) if quant is None else random.integers(*limits, shape)
        names = [row.part.subgraph.tensors[index].name for index in row.part.subgraph.inputs]
        given = {name: data.astype(kind) if name == "x" else np.array(seed % 2 == 0) for name in names}
        read = {index for operator in row.part.subgraph.operators for index in operator.inputs}
        ends = [tensor.index for tensor in row.live if tensor.index not in read]
        return Neighbours(builder.finish(*ends), tuple(row.operators), given)
    return None
