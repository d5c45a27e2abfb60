"""What a runtime is good at: which rows are slow or refused, and what layout operators cost in seconds.

A target is data, a JSON file in ``targets/`` that the scripts ``row_classes`` and ``latency`` of ``experiments``
measure. A *kind* is a short text by which a rule tells the ways to run an ONNX operator apart:

* the place of an axis among stored dimensions larger than 1: ``innermost``, ``middle``, ``outermost``;
* for reductions, runs of kept (K) and reduced (R) dimensions: ``KR``, ``RKR``; ``1RK`` is ``RK`` with a dimension of
  size 1 in front that is not among the reduced axes;
* for layer normalisation, ``operator`` or ``written out``;
* for Resize, mode, every stored dimension, resampled (R) or kept (K), and element type: ``linear KRRK, float32``;
* for convolution, pooling and the like ``channels-first``, and element type;
* for Transposes, the motion;
* for products, the form: ``NT``, ``TT``, ``MatMul``, ``swapped NN``, ``swapped MatMul of weights`` where the right
  side is constant; then the element type of the result, and ``quantised`` (all of it), ``quantised with bias``,
  ``quantised weights`` or ``partly quantised``.

What follows a comma is a fact: an entry without it holds for all kinds with it, unless a more precise one is there.
``classes`` give ways of certain sizes a kind of their own: ``swapped MatMul from large``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from math import prod
from typing import Any, Literal

from layoutsolve.graph import static_elements
from layoutsolve.solver.statement.kinds import Class, Key, Verdict, entry
from layoutsolve.solver.statement.problem import Variable
from layoutsolve.solver.theory.kind import Kind
from layoutsolve.solver.theory.layout import Layout, move
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Way

Motion = Literal["swap", "rows", "general"]
"""What a Transpose does. ``swap``: two adjacent runs of dimensions change places, the innermost dimension among them.
``rows``: the innermost dimensions stay, so that blocks are copied. ``general``: anything else.
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of an operator: a fixed part, a part per byte, and one per block that is copied whole."""

    fixed: float
    per_byte: float
    per_block: float = 0.0

    def seconds(self, size: int, blocks: int = 0) -> float:
        """The seconds for a tensor of so many bytes in so many blocks."""
        return self.fixed + self.per_byte * size + self.per_block * blocks


@dataclass(frozen=True)
class Latency:
    """Seconds on one thread. ``transpose`` is by motion and bytes per element, ``extra`` is what a slow row loses per
    byte of its operand, by operator and kind.
    """

    transpose: Mapping[tuple[Motion, int], Cost]
    reshape: Cost
    extra: Mapping[tuple[str, str], float]

    def transposition(self, shape: Sequence[int], permutation: Sequence[int], itemsize: int) -> float:
        """The seconds of a Transpose. An element size that was not measured costs as the nearest larger one."""
        motion, block = motion_of(shape, permutation)
        if motion is None:
            return self.reshape.fixed
        sizes = sorted(size for each, size in self.transpose if each == motion)
        nearest = next((size for size in sizes if size >= itemsize), sizes[-1])
        count = prod(shape)
        return self.transpose[motion, nearest].seconds(count * itemsize, count // block)


@dataclass(frozen=True)
class Target:
    """A runtime. ``hidden`` is the number of transpositions that a row of an operator and kind is worth, 0 where it is
    native; ``unsupported`` are those it refuses. ``kernels`` says what it has a kernel for that computes it as it is
    written, which is anything of which nothing is said. ``classes`` lists by operator the kinds that depend on sizes.
    """

    name: str
    hidden: Mapping[tuple[str, str], int]
    unsupported: frozenset[tuple[str, str]]
    latency: Latency
    kernels: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    classes: Mapping[str, tuple[Class, ...]] = field(default_factory=dict)

    def runs(self, operator: str, way: Way) -> bool:
        """Whether it runs an operator in a way; where that depends on the row, rows are refused one by one."""
        kind = self.named(operator, way)
        return not isinstance(kind, str) or self._judged(operator, kind).runs

    def named(self, operator: str, way: Way) -> Kind:
        """The kind of a way, that of its class where it belongs to one."""
        classes = self.classes.get(operator)
        if classes and isinstance(way.kind, str):
            name, *facts = way.kind.split(", ")
            for each in classes:
                if each.of == name and each.has(way.sizes):
                    return ", ".join((each.name, *facts))
        return way.kind

    def weigh(self, operator: str, kinds: Sequence[Kind], size: int = 0) -> Callable[[Row], Price | None] | None:
        """What prices the rows of an operator on ``size`` bytes, given the kinds of its ways; None for a row that is
        refused.

        None where all rows are free. Without a size, time is not priced.
        """
        if operator not in self.rated:
            return None
        if all(isinstance(kind, str) and self._judged(operator, kind).free for kind in kinds):
            return None
        known: dict[str, Price | None] = {}

        def price(row: Row) -> Price | None:
            kind = kinds[row.form]
            text = kind if isinstance(kind, str) else kind(row)
            if text not in known:
                known[text] = self._judged(operator, text).price(size)
            return known[text]

        return price

    def _judged(self, operator: str, kind: str) -> Verdict:
        known, key = self._verdicts, (operator, kind)
        if key not in known:
            tables = {**dict.fromkeys(self.unsupported, False), **self.kernels}
            runs = operator not in self.rated or entry(tables, operator, kind, True)
            hidden, extra = entry(self.hidden, operator, kind, 0), entry(self.latency.extra, operator, kind, 0.0)
            known[key] = Verdict(runs, hidden, extra)
        return known[key]

    @cached_property
    def _verdicts(self) -> dict[Key, Verdict]:
        """Those that were looked up."""
        return {}

    def clock(self, variable: Variable, source: Layout, target: Layout) -> int:
        """The nanoseconds of a move between two layouts of a variable, symbolic dimensions counted as 1."""
        steps = move(source, target, variable.rigid)
        spent = steps.reshapes * self.latency.reshape.fixed
        if steps.perm is not None:
            sizes = [static_elements((size,)) for size in variable.sizes]
            shape = [prod(sizes[atom] for atom in group) for group in steps.split or source]
            spent += self.latency.transposition(shape, steps.perm, max(1, variable.bytes // max(1, prod(sizes))))
        return round(spent * 1e9)

    @property
    def scatter(self) -> int:
        """The hidden transpositions of a Transpose of the motion ``general``."""
        return self.hidden.get(("Transpose", "general"), 0)

    @cached_property
    def rated(self) -> frozenset[str]:
        """The operators of which some rows are slow or refused."""
        slow = {operator for (operator, _), hidden in self.hidden.items() if hidden}
        return frozenset(slow | {operator for operator, _ in (*self.unsupported, *self.kernels)})


def motion_of(shape: Sequence[int], permutation: Sequence[int]) -> tuple[Motion | None, int]:
    """How a Transpose moves data, None where it moves nothing, and the elements that stay together.

    Dimensions of size 1 do not count, and neighbours that stay neighbours are one.
    """
    kept = [axis for axis in permutation if shape[axis] != 1]
    runs: list[list[int]] = []
    rank = {axis: place for place, axis in enumerate(sorted(kept))}
    for axis in kept:
        if runs and rank[axis] == rank[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if len(runs) < 2:
        return None, prod(shape)
    order = [run[0] for run in runs]
    last = runs[-1] if order[-1] == max(order) else []
    if last:
        return "rows", prod(shape[axis] for axis in last)
    leading = order[0] == min(order)
    return ("swap" if len(order) - leading == 2 else "general"), 1


def load(text: str) -> Target:
    """A target from the text of its file. Raises KeyError or ValueError where that is not one."""
    found: dict[str, Any] = json.loads(text)
    costs = found["latency"]
    transpose = {
        (motion, int(size)): Cost(**cost)
        for motion, sizes in costs["transpose"].items()
        for size, cost in sizes.items()
    }
    latency = Latency(transpose, Cost(**costs["reshape"]), dict(_pairs(found["extra"])))
    refused = frozenset((operator, kind) for operator, kinds in found["unsupported"].items() for kind in kinds)
    kernels, classes = dict(_pairs(found.get("kernels", {}))), found.get("classes", {})
    told = {
        operator: tuple(Class(one["of"], name, one["least"]) for name, one in kinds.items())
        for operator, kinds in classes.items()
    }
    return Target(found["name"], dict(_pairs(found["hidden"])), refused, latency, kernels, told)


def _pairs(nested: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], Any]]:
    return (((operator, kind), value) for operator, kinds in nested.items() for kind, value in kinds.items())


@lru_cache(maxsize=1)
def default_target() -> Target:
    """ONNX Runtime on the CPU, as it comes with the package."""
    return load((files("layoutsolve.solver.statement") / "targets" / "ort_cpu.json").read_text())
