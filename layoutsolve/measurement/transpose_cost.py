"""Cost of Transpose and Reshape in ONNX Runtime: seconds on one thread, fitted per class of permutation.

``seconds = fixed + per_byte * bytes + per_block * blocks``, fitted to relative errors. Blocks count where the
innermost dimensions stay together; elements are blocks too small to count apart. What a session with one operator costs
is taken off every time, so each operator is given the fixed cost of a Reshape, which moves nothing, on top.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod

import numpy as np

from layoutsolve.measurement.kernels import Node, Spec, Timed, model, paired, transpose
from layoutsolve.solver.targets.target import Cost
from layoutsolve.solver.theory.motion import Motion, as_layouts, motion_between

ITEM_SIZES = {"int8": 1, "float32": 4}

MOVES = (
    *(
        ((1, side, side, c), (0, 3, 1, 2))
        for side, c in ((7, 512), (14, 256), (28, 128), (56, 64), (112, 64), (224, 3))
    ),
    *(
        ((1, c, side, side), (0, 2, 3, 1))
        for side, c in ((7, 512), (14, 256), (28, 128), (56, 64), (112, 64), (224, 3))
    ),
    *(((rows, columns), (1, 0)) for rows, columns in ((197, 192), (197, 768), (1024, 1024), (16384, 21))),
    *(((4, rows, columns), (0, 2, 1)) for rows, columns in ((197, 197), (384, 64))),
    *(((1, 197, heads, size), (0, 2, 1, 3)) for heads, size in ((3, 64), (4, 48), (12, 32))),
    ((1, 384, 12, 64), (0, 2, 1, 3)),
    ((8, 7, 8, 7, 96), (0, 2, 1, 3, 4)),
    ((56, 56, 12), (1, 0, 2)),
    ((128, 128, 24), (1, 0, 2)),
    ((8, 56, 56, 16), (0, 2, 1, 3)),
    ((14, 16, 14, 16, 3), (0, 2, 1, 3, 4)),
    *(((1, c, 2, 2, side, side), (0, 1, 4, 2, 5, 3)) for c, side in ((16, 28), (16, 56), (64, 14))),
    ((8, 3136, 8), (2, 1, 0)),
    ((2, 56, 56, 32), (3, 2, 1, 0)),
    ((4, 197, 3, 64), (2, 0, 3, 1)),
    ((56, 8, 56, 8), (1, 3, 0, 2)),
)
"""Stored shapes and permutations."""

CHAIN = 32
"""Operators in a row with a Reshape after each."""


STEPS, DAMPING, NEGLIGIBLE = 200, 0.1, 1e-14
"""Of the fit: its iterations, how far one may go, and the seconds below which a part is nothing."""


@dataclass(frozen=True)
class Move:
    """A Transpose that was measured; ``block`` is the elements that stay together."""

    shape: tuple[int, ...]
    permutation: tuple[int, ...]
    itemsize: int
    motion: str
    block: int
    seconds: float

    @property
    def bytes(self) -> int:
        """The size of the tensor."""
        return prod(self.shape) * self.itemsize

    @property
    def blocks(self) -> int:
        """How many pieces are copied one by one."""
        return prod(self.shape) // self.block if self.motion == "rows" else 0


def moves() -> list[Move]:
    """All Transposes, measured on one thread."""
    found = []
    for dtype, itemsize in ITEM_SIZES.items():
        models = [Timed(transpose(Spec(shape, dtype), permutation)) for shape, permutation in MOVES]
        times = np.median(paired(models), axis=0)
        for (shape, permutation), seconds in zip(MOVES, times, strict=True):
            sizes, source, target = as_layouts(shape, permutation)
            motion, together = motion_between(source, target)
            block = prod(size for (atom,) in target[len(target) - together :] if isinstance(size := sizes[atom], int))
            found.append(Move(shape, permutation, itemsize, motion.name.lower(), block, float(seconds)))
    return found


def fitted(measured: Sequence[Move]) -> Cost:
    """Fitted cost of Transposes of one class of permutation and element size: Gauss-Newton on the logarithms, in which
    an estimate that is twice too low is as wrong as one that is twice too high. Parts are positive, being powers of e.
    """
    terms = np.array([[1.0, move.bytes, move.blocks] for move in measured])
    used = terms.any(axis=0)
    terms, seconds = terms[:, used], np.array([move.seconds for move in measured])
    logs = np.log(np.median(seconds[:, None] / np.maximum(terms, 1.0), axis=0) / terms.shape[1])
    for _ in range(STEPS):
        parts = terms * np.exp(logs)
        estimate = parts.sum(axis=1)
        jacobian = np.vstack([parts / estimate[:, None], DAMPING * np.eye(len(logs))])
        wrong = np.concatenate([np.log(seconds / estimate), np.zeros(len(logs))])
        logs += np.linalg.lstsq(jacobian, wrong, rcond=None)[0]
    values = np.zeros(3)
    values[used] = np.exp(logs)
    return Cost(*(float(f"{value:.3g}") if value > NEGLIGIBLE else 0.0 for value in values))


def reshape() -> Cost:
    """The cost of a Reshape between two operators, which moves nothing: chains with and without, on a small tensor."""
    shapes = {"flat": np.array([-1]), "square": np.array([8, 8])}
    plain, reshaped = [], []
    for index in range(CHAIN):
        last, sign = f"x{index}" if index else "x", ("Neg", "Abs")[index % 2]
        following = "y" if index == CHAIN - 1 else f"x{index + 1}"
        plain.append(Node(sign, [last], [following]))
        shape = ("flat", "square")[index % 2]
        reshaped += [Node(sign, [last], [f"z{index}"]), Node("Reshape", [f"z{index}", shape], [following])]
    spec = {"x": Spec((8, 8))}
    times = paired([Timed(model(plain, spec)), Timed(model(reshaped, spec, shapes))], rounds=15)
    return Cost(float(f"{np.median(times[:, 1] - times[:, 0]) / CHAIN:.3g}"), 0.0)


def fits(measured: Sequence[Move], between: Cost) -> dict[str, dict[str, Cost]]:
    """Cost of Transposes by class of permutation and bytes of an element; each has the fixed cost of a Reshape on
    top.
    """
    costs: dict[str, dict[str, Cost]] = defaultdict(dict)
    for motion in (each.name.lower() for each in Motion if each):
        for itemsize in ITEM_SIZES.values():
            cost = fitted([move for move in measured if (move.motion, move.itemsize) == (motion, itemsize)])
            costs[motion][str(itemsize)] = replace(cost, fixed=round(cost.fixed + between.fixed, 9))
    return costs


def section(costs: Mapping[str, Mapping[str, Cost]], between: Cost) -> dict[str, object]:
    """Times of Transposes and Reshapes for a target's file."""
    transposes = {motion: {size: asdict(cost) for size, cost in sizes.items()} for motion, sizes in costs.items()}
    return {"transpose": transposes, "reshape": asdict(between)}
