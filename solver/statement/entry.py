"""Operators of a layout problem before their rows are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from layoutsolve.records import dataclass
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.theory.layout import Layout, permutation, whole_dimensions
from layoutsolve.solver.theory.relation import Arranged, Port
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Rule


@dataclass(slots=True)
class Entry:
    """An operator in the making: it has the rows in ``fixed``, and those that its relation leads to.

    ``free`` ones, which are ends of the graph or states, take any layout that keeps the dimensions of their tensors
    whole, whose logical layouts those are. ``relations`` are its ports, ``own`` those of ways with labels of their own.
    """

    title: str
    node: int
    ports: list[int]
    inputs: int
    fixed: tuple[Row, ...] = ()
    op: str = ""
    relations: tuple[Port, ...] | None = None
    own: Mapping[int, tuple[Port, ...]] = field(default_factory=dict)
    rule: Rule | None = None
    tensors: tuple[str, ...] = ()
    free: tuple[Layout, ...] = ()
    end: str = ""

    @property
    def follows(self) -> bool:
        """Whether it can follow the layouts of what it reads."""
        return self.rule is not None and all(isinstance(form, Arranged) for form in self.rule.forms)

    def following(self, port: int, layout: Layout) -> list[Row]:
        """The row of an operator that keeps whole dimensions which has an order at a port, if there is one."""
        whole = whole_dimensions(self.free[port], layout) if self.free else None
        return [] if whole is None else [self.stored(permutation(self.free[port], whole))]

    def stored(self, axes: Sequence[int]) -> Row:
        """The row of an operator that keeps whole dimensions in a sequence of these."""
        return Row(tuple(tuple(logical[axis] for axis in axes) for logical in self.free))

    def operator(self, rows: tuple[Row, ...]) -> Operator:
        ports = tuple(self.ports)
        return Operator(self.title, self.node, ports, self.inputs, rows, self.end, self.tensors, self.follows)


Orders = Sequence[Sequence[Row]]
"""For each operator the rows that have the orders which are to be kept."""
