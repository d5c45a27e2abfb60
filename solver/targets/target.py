"""What a runtime is good at: which rows are slow or refused, and what layout operators cost in seconds.

A target is data: those that come with the package are JSON files in ``files/``, which the scripts ``row_classes`` and
``latency`` of ``experiments`` measure. A *kind* is a short text by which a rule tells the ways to run an ONNX operator
apart; ``docs/targets.md`` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from layoutsolve.base.digest import digest
from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, product, static_elements
from layoutsolve.ir.storage_options import PLAIN, Dynamic, Storage
from layoutsolve.solver.targets.form_table import Table
from layoutsolve.solver.targets.kind_lookup import Class, Key, between, entry
from layoutsolve.solver.theory.kind import Kind, every, possible
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.motion import Motion, motion_between, motions_between, together_between
from layoutsolve.solver.theory.move import move
from layoutsolve.solver.theory.offer import Offer
from layoutsolve.solver.theory.row import FREE, Price, Row
from layoutsolve.solver.theory.rule import CONTRIB, Way
from layoutsolve.solver.theory.variable import Variable

DOMAINS = (CONTRIB,)
"""The domains that a target may allow beside ONNX's own."""


@dataclass(frozen=True)
class Cost:
    """Seconds of an operator: a fixed part, a part per byte, and one per block that is copied whole."""

    fixed: float = 0.0
    per_byte: float = 0.0
    per_block: float = 0.0

    def seconds(self, size: int, blocks: int = 0) -> float:
        """The seconds for a tensor of so many bytes in so many blocks."""
        return self.fixed + self.per_byte * size + self.per_block * blocks


@dataclass(frozen=True)
class Latency:
    """Latency table: seconds on one thread. ``transpose`` is by class of permutation and bytes per element, ``extra``
    is the loss of a slow alternative per byte of its operand, by operator and kind.
    """

    transpose: Mapping[tuple[Motion, int], Cost] = field(default_factory=dict)
    reshape: Cost = field(default_factory=Cost)
    extra: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def transposition(self, motion: Motion, elements: int, block: int, itemsize: int) -> float:
        """The seconds of a Transpose of so many elements, of which ``block`` stay together, each of so many bytes.

        An element size that was not measured costs as the nearest larger one.
        """
        sizes = sorted(size for each, size in self.transpose if each == motion)
        nearest = next((size for size in sizes if size >= itemsize), sizes[-1])
        return self.transpose[motion, nearest].seconds(elements * itemsize, elements // block)


@dataclass(frozen=True)
class Provider:
    """An execution provider of which it is known which ``operators`` of ONNX it runs, and in which ``layout`` of
    images, by the ``source`` that says so; all others run on the CPU. Nothing is known of times. One that is
    ``symmetric`` takes no zero points but 0.
    """

    source: str
    layout: str
    operators: frozenset[str]
    symmetric: bool = False


LAYOUTS = ("NCHW", "NHWC")
"""The layouts of images that providers compute in."""


@dataclass(frozen=True)
class Target:
    """A runtime. ``hidden`` is the number of transpositions that an alternative of an operator and kind is worth, 0
    where it is native, ``ties`` what decides between such of equal price; ``unsupported`` are those it refuses.
    ``kernels`` says what it has a kernel for that computes it as it is written, which is anything of which nothing is
    said. ``classes`` lists by operator the kinds that depend on sizes. ``domains`` are those whose operators may be
    used beside ONNX's own, ``names`` its own name and those of the targets that it extends. It stores numbers by its
    ``storage``. ``idioms`` are by operator the names of what takes its place, the best first. ``dynamic`` says which
    products are faster where floats are rounded to integers at run time, None where none are known to be. ``qoperator``
    is whether it runs ONNX's operators on bytes as ONNX has them. One of which nothing else is known prices Transposes
    alone. Its ``table`` has forms in place of those of ONNX. A ``provider`` is what it is where it was not measured.
    """

    name: str
    hidden: Mapping[Key, int] = field(default_factory=dict)
    unsupported: frozenset[Key] = frozenset()
    latency: Latency = field(default_factory=Latency)
    domains: frozenset[str] = frozenset()
    kernels: Mapping[Key, bool] = field(default_factory=dict)
    classes: Mapping[str, tuple[Class, ...]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    storage: Storage = PLAIN
    idioms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dynamic: Dynamic | None = None
    qoperator: bool = True
    table: Table | None = None
    provider: Provider | None = None
    ties: Mapping[Key, int] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Whether a Transpose costs the same whatever it moves."""
        lost = {self.lost[motion] for motion in Motion if motion is not Motion.STILL}
        return len(lost) == 1 and not self.latency.transpose

    @property
    def chooses(self) -> bool:
        """Whether it is decided with layouts which of its backends runs an operator."""
        return self.table is not None and self.table.chooses

    @property
    def offer(self) -> Offer:
        """What ways there are to run operators."""
        forms = None if self.table is None else self.table.rule
        return Offer(self.has, self.runs, self.idioms, forms, self.chooses)

    @property
    def timed(self) -> bool:
        """Whether it has the time of a Transpose."""
        return bool(self.latency.transpose)

    @property
    def has(self) -> frozenset[str]:
        """The names under which forms of its own are registered."""
        return frozenset({self.name}) | self.names | self.domains

    def runs(self, operator: str, way: Way) -> bool:
        """Whether it runs an operator in a way; where that depends on the row, rows are refused one by one."""
        kind = self.named(operator, way)
        return not isinstance(kind, str) or self._lost_by(operator, kind) is not None

    def named(self, operator: str, way: Way) -> Kind:
        """The kind of a way, that of its class where it belongs to one."""
        return self.classed(operator, way.kind, way.sizes) if isinstance(way.kind, str) else way.kind

    def classed(self, operator: str, kind: str, sizes: Mapping[str, int]) -> str:
        """A kind, or that of the class which has its sizes."""
        classes = self.classes.get(operator)
        name, comma, facts = kind.partition(", ") if classes else (kind, "", "")
        for each in classes or ():
            if each.of == name and between(sizes, each.least, each.most):
                return f"{each.name}{comma}{facts}"
        return kind

    def weigh(
        self, operator: str, kinds: Sequence[Kind], size: int = 0, seen: bool = True
    ) -> Callable[[Row], Price | None] | None:
        """What prices the alternatives of an operator on ``size`` bytes, given the kinds of its ways; None for a row
        that is refused.

        None where all rows are free. Without a size, time is not priced. Where not all atoms are ``seen`` a row costs
        the least that any may cost which shows these.
        """
        if operator not in self.rated:
            return None
        texts = [every(kind) for kind in kinds]
        if all(each and all(self._lost_by(operator, text) == (0, 0, 0) for text in each) for each in texts):
            return None

        @cache
        def of_kind(text: str) -> Price | None:
            lost = self._lost_by(operator, text)
            if lost is None:
                return None
            return Price(hidden=lost[0], nanoseconds=round(lost[1] * size * 1e9), regrouped=lost[2])

        def price(row: Row) -> Price | None:
            kind = kinds[row.form]
            return of_kind(kind if isinstance(kind, str) else kind(row))

        def least(row: Row) -> Price | None:
            texts = possible(kinds[row.form], row)
            if texts is None:
                return FREE
            prices = [found for text in texts if (found := of_kind(text)) is not None]
            hidden, spent = ([getattr(each, name) for each in prices] for name in ("hidden", "nanoseconds"))
            return Price(hidden=min(hidden), nanoseconds=min(spent)) if prices else None

        return price if seen else least

    def _lost_by(self, operator: str, kind: str) -> tuple[int, float, int] | None:
        """The hidden transpositions of a kind, seconds lost per byte, and what decides where prices are equal; None for
        one that is refused.
        """
        known, key = self._lost, (operator, kind)
        if key not in known:
            runs = operator not in self.rated or entry(self._runnable, operator, kind, True)
            extra, tie = entry(self.latency.extra, operator, kind, 0.0), entry(self.ties, operator, kind, 0)
            known[key] = (entry(self.hidden, operator, kind, 0), extra, tie) if runs else None
        return known[key]

    @cached_property
    def _runnable(self) -> Mapping[Key, bool]:
        """Whether it runs a kind, as far as something is said of it."""
        return {**dict.fromkeys(self.unsupported, False), **self.kernels}

    @cached_property
    def _lost(self) -> dict[Key, tuple[int, float, int] | None]:
        """Those that were looked up."""
        return {}

    def move_price(self, variable: Variable, source: Layout, target: Layout, timed: bool = False) -> Price:
        """What moving a variable from one layout to another costs, in time as well where that counts (``timed``)."""
        steps = move(source, target, variable.rigid)
        if steps.perm is None:
            return self.reshape_price(steps.reshapes, variable.turns, timed)
        return self.transpose_price(variable, source, target, steps.hindered, steps.reshapes, timed)

    def transpose_price(
        self, variable: Variable, source: Layout, target: Layout, hindered: bool, reshapes: int, timed: bool
    ) -> Price:
        """What a Transpose of a variable costs, with so many Reshapes beside it."""
        slow = hindered and not variable.unhindered
        motion, together = (Motion.GENERAL, 0) if slow else motion_between(source, target)
        spent = self._nanoseconds(variable, motion, _block(variable, target, together), reshapes) if timed else 0
        return Price(1, self.lost[motion], reshapes, variable.bytes, spent)

    def reshape_price(self, count: int, turns: int = 1, timed: bool = False) -> Price:
        """What so many Reshapes cost, each of which runs so often."""
        spent = turns * count * round(self.latency.reshape.fixed * 1e9) if timed else 0
        return Price(reshapes=count, nanoseconds=spent) if count else FREE

    def _nanoseconds(self, variable: Variable, motion: Motion, block: int, reshapes: int = 0) -> int:
        """The time of a Transpose of blocks of so many elements and the Reshapes beside it, symbolic dimensions counted
        as 1.
        """
        elements = static_elements(variable.sizes)
        itemsize = max(1, variable.bytes // max(1, elements * variable.turns))
        spent = self.latency.transposition(motion, elements, block, itemsize)
        return variable.turns * (round(spent * 1e9) + reshapes * round(self.latency.reshape.fixed * 1e9))

    def losses(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> list[bytes]:
        """For each source the layout penalties of a move to each of the targets, a byte each: those of
        :meth:`move_price`, for many moves of one variable between layouts of different orders.
        """
        if not any(self.lost):
            return [bytes(len(targets))] * len(sources)
        return [motions.translate(self.lost) for motions in motions_between(sources, targets)]

    def times(self, variable: Variable, sources: Sequence[Layout], targets: Sequence[Layout]) -> Array:
        """For each source the nanoseconds of a Transpose of a variable to each of the targets, 0 to those of the same
        order; without those of Reshapes beside it.
        """
        motions, together = (
            np.frombuffer(b"".join(between(sources, targets)), np.uint8).reshape(len(sources), len(targets))
            for between in (motions_between, together_between)
        )
        spent = np.zeros(motions.shape, np.int64)
        for column, target in enumerate(targets):
            ways = np.stack([motions[:, column], together[:, column]])
            for motion, count in set(zip(*ways.tolist(), strict=True)):
                if motion != Motion.STILL:
                    alike, block = (ways == [[motion], [count]]).all(0), _block(variable, target, count)
                    spent[alike, column] = self._nanoseconds(variable, Motion(motion), block)
        return spent

    @cached_property
    def lost(self) -> bytes:
        """Layout penalty of a Transpose, by class of permutation; padded to a table of all bytes."""
        known = bytes(self.hidden.get(("Transpose", motion.name.lower()), 0) for motion in Motion)
        return known.ljust(256, b"\0")

    @cached_property
    def least_lost(self) -> int:
        """The layout penalties that any Transpose has."""
        return min(self.lost[motion] for motion in Motion if motion is not Motion.STILL)

    def least_price(self, variable: Variable, timed: bool = False) -> Price:
        """The least that a Transpose of a variable may cost, whatever the two layouts are."""
        spent = 0
        if timed:
            apart = static_elements((product(sorted(static_elements((size,)) for size in variable.sizes)[:2]),))
            rows = max(1, static_elements(variable.sizes) // max(1, apart))
            ways = [(Motion.SWAP, 1), (Motion.ROWS, rows), (Motion.GENERAL, 1)][: 3 if len(variable.sizes) > 2 else 1]
            spent = min(self._nanoseconds(variable, *way) for way in ways)
        return Price(1, self.least_lost, 0, variable.bytes, spent)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all fields of the target, in whatever order a file has them."""
        return digest(json.dumps(_plain(asdict(self)), sort_keys=True).encode())

    @cached_property
    def rated(self) -> frozenset[str]:
        """The operators of which some rows are slow or refused."""
        slow = {operator for table in (self.hidden, self.ties) for (operator, _), lost in table.items() if lost}
        return frozenset(slow | {operator for operator, _ in self._runnable})


def _block(variable: Variable, target: Layout, together: int) -> int:
    """The elements of so many atoms that stay together innermost."""
    return max(1, static_elements(tuple(variable.sizes[atom] for atom in order(target)[::-1][:together])))


def _plain(said: Any) -> Any:
    """What JSON can hold of data, in one order."""
    if isinstance(said, Mapping):
        return {str(key): _plain(each) for key, each in said.items()}
    if isinstance(said, frozenset):
        return sorted(map(str, said))
    return list(map(_plain, said)) if isinstance(said, (tuple, list)) else said
