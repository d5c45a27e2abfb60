"""Operators that tie subgraphs of a graph together: what is handed over keeps its layout, whatever that is."""

from __future__ import annotations

from functools import partial
from itertools import permutations

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.kind import Along
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import Rule, Site, Step, Way, marked, numbered, rule

MOST = 4
"""The most dimensions of an element of which all orders are looked at."""


@rule("Carry", "Join", "State")
def tie(site: Site) -> Rule:
    """Any layout, the same at all ports. A dimension may have another size at each, where a loop grows a tensor.

    A state has to keep its dimensions whole, which the statement of the problem sees to.
    """
    inputs = tuple(number for number, name in enumerate(site.node.inputs) if name)
    shapes = [site.required(number).shape for number in inputs]
    shapes += [site.graph.values[name].shape for name in site.node.outputs]
    differing = [axis for axis, dims in enumerate(zip(*shapes, strict=True)) if len(set(dims)) > 1]
    dims = tuple(marked(shape, differing, str(port)) for port, shape in enumerate(shapes))
    solid = frozenset(f"k{axis}" for axis in differing)
    return Rule(inputs, dims, (Way(Arranged(frame=len(shapes) - 1), site.unchanged),), solid=solid)


@rule("Element")
def element(site: Site) -> Rule:
    """What an iteration of a Scan is given: the axis that it goes along is a dimension by itself, anywhere."""
    axis, shape = site.attribute("axis"), site.required(0).shape
    dims, label = marked(shape, [axis], "i"), f"k{axis}"
    along = frozenset({label})

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, label)})

    form = Arranged(frame=0, alone=along, dropped=along, sensitive=along)
    return Rule((0,), (dims, dims[:axis] + dims[axis + 1 :]), (Way(form, rewrite, Along(label)),), solid=along)


@rule("Stack")
def stack(site: Site) -> Rule | None:
    """What is collected of all iterations: anywhere among the dimensions of elements by a Scan, whose axis it is.

    A Loop has it in front of elements in any order of whole dimensions, which is that of the result.
    """
    axis, inner = site.attribute("axis"), numbered(site.required(0).shape)
    turns, along = (("turns",),), frozenset({"turns"})
    dims = (inner, inner[:axis] + turns + inner[axis:])
    if site.graph.openers[site.node.regions[0]].op == "Scan":
        form = Arranged(frame=1, alone=along, gained=along, sensitive=along)
        rewrite = partial(_along, site)
        return Rule((0,), dims, (Way(form, rewrite, Along("turns")),), solid=along)
    orders = permutations(range(len(inner))) if len(inner) <= MOST else [tuple(range(len(inner)))]

    def way(order: tuple[int, ...], at: int) -> Way:
        places = tuple(inner[each] for each in order)
        return Way(
            Placed((places, places[:at] + turns + places[at:])),
            lambda row, shapes: site.same({"axis": at}),
            "whole elements",
        )

    ways = [way(tuple(range(len(inner))), axis)]
    ways += [way(order, 0) for order in orders if (list(order), 0) != (list(range(len(inner))), axis)]
    return Rule((0,), dims, tuple(ways), solid=along)


def _along(site: Site, row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
    return site.same({"axis": position(row.arrangement, "turns")})
