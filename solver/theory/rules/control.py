"""Operators that tie regions of a graph together: what is handed over keeps its layout, whatever that is."""

from __future__ import annotations

from layoutsolve.solver.theory.rule import Arranged, Rule, Site, Way, marked, rule


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
