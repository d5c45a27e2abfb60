"""Operators of a layout problem before their rows are known, and what these rows follow from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.theory.layout import Layout, permutation, whole_dimensions
from layoutsolve.solver.theory.relation import Arranged, Form, Port
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Rule


@dataclass(slots=True)
class Entry:
    """An operator in the making: it has the rows in ``fixed``, and those that its relation leads to.

    ``free`` ones, which are ends of the graph or states, take any layout that keeps the dimensions of their tensors
    whole, whose logical layouts those are. Both have no ``relation``.
    """

    title: str
    node: int
    ports: list[int]
    inputs: int
    fixed: tuple[Row, ...] = ()
    op: str = ""
    relation: Relation | None = None
    rule: Rule | None = None
    tensors: tuple[str, ...] = ()
    free: tuple[Layout, ...] = ()
    end: str = ""

    @property
    def follows(self) -> bool:
        """Whether it can follow the layouts of what it reads."""
        return self.rule is not None and all(isinstance(form, Arranged) for form in self.rule.forms)

    def following(self, port: int, layout: Layout) -> list[Row]:
        """The alternative of an operator that keeps whole dimensions which has an order at a port, if there is one."""
        whole = whole_dimensions(self.free[port], layout) if self.free else None
        if whole is None:
            return []
        axes = permutation(self.free[port], whole)
        return [Row(tuple(tuple(logical[axis] for axis in axes) for logical in self.free))]

    def operator(self, rows: tuple[Row, ...]) -> Operator:
        ports = tuple(self.ports)
        return Operator(self.title, self.node, ports, self.inputs, rows, self.end, self.tensors, self.follows)


@dataclass(frozen=True, slots=True)
class Relation:
    """What the alternatives of an operator follow from: its ports and forms, and the number of ports that are written.
    ``own`` are the ports of forms, by number, that have labels of their own. ``weigh`` prices a row by itself, None if
    it cannot be run; without it all rows are free. Operators with the same rows are ``alike``.
    """

    ports: tuple[Port, ...]
    forms: tuple[Form, ...]
    outputs: int
    own: Mapping[int, tuple[Port, ...]] = field(default_factory=dict)
    weigh: Callable[[Row], Price | None] | None = None
    alike: int = 0


Orders = Sequence[Sequence[Row]]
"""For each operator the rows that have the orders which are to be kept."""
