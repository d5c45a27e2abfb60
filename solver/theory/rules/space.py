"""Windows over images whose spatial dimensions are stored in another order: the kernel is permuted with them.

A window that moves over ``[N, C, W, H]`` is that over ``[N, C, H, W]`` with its own dimensions in exchange: sizes,
strides, gaps and padding change places, and weights are transposed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Dims, Rewrite, Step, Way

FIRST = 2
"""The first dimension of an image that is one of its space."""

SIDES = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")
"""Attributes with a number for each dimension of space. Padding has two, at all starts, then at all ends."""

Order = tuple[int, ...]


def orders(rank: int) -> Iterator[Order]:
    """The orders of so many dimensions of space, but for their own."""
    found = permutations(range(rank))
    next(found)
    yield from found


def turned(way: Way, rank: int, ports: Collection[int]) -> Iterator[Way]:
    """A way of a fixed form with the dimensions of space in every other order, at the ports that have them."""
    if isinstance(way.form, Placed):
        for order in orders(rank):
            yield replace(way, form=stored(way.form, order, ports), rewrite=_rewrite(way.rewrite, order))


def stored(form: Placed, order: Order, ports: Collection[int]) -> Placed:
    """A fixed form with the dimensions of space in an order, at the ports that have them."""
    places = tuple(_places(dims, order) if port in ports else dims for port, dims in enumerate(form.places))
    space = (label for port in ports for place in form.places[port][FIRST:] for label in place)
    return form if places == form.places else replace(form, places=places, turned=frozenset(space))


def _places(dims: Dims, order: Order) -> Dims:
    return (*dims[:FIRST], *(dims[FIRST + axis] for axis in order))


def _rewrite(rewrite: Rewrite, order: Order) -> Rewrite:
    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        steps = rewrite(row, shapes)
        return tuple(
            replace(step, attributes={**step.attributes, **attributes(step.attributes, order)}) for step in steps
        )

    return write


def attributes(given: Mapping[str, Any], order: Order) -> dict[str, Any]:
    """Those attributes of a window that change where its dimensions of space come in another order."""
    found = {name: tuple(given[name][axis] for axis in order) for name in SIDES if given.get(name)}
    if given.get("pads"):
        found["pads"] = tuple(given["pads"][axis + end * len(order)] for end in (0, 1) for axis in order)
    return found
