"""Markers: tensors of no bytes whose order of dimensions says in which backend the tensor beside them is.

An operator reads and writes markers in the order of the backend of each of its ways. So what it costs to hand data from
one backend to another is stated as what it costs to move a marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.graph import NOTHING, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Dims, Rewrite, Rule, Site, Step, Way, unnamed

HERE, THERE = (("b/0",), ("b/1",)), (("b/1",), ("b/0",))
"""How a marker lies beside what is in the backend '', and beside what is in the one that has a name."""

SHAPE: Shape = (2, 3)
"""That of a marker."""


def without(site: Site) -> Site:
    """A node without its markers."""
    node, values = site.node, site.graph.values
    inputs, outputs = (
        tuple(name for name in names if not name or values[name].dtype != NOTHING)
        for names in (node.inputs, node.outputs)
    )
    if len(inputs) == len(node.inputs) and len(outputs) == len(node.outputs):
        return site
    return replace(site, node=replace(node, inputs=inputs, outputs=outputs))


def coupled(rule: Rule, bare: Site, site: Site) -> Rule:
    """The rule of a node with its markers, which come behind its own inputs and outputs, given that without them."""
    read = range(len(bare.node.inputs), len(site.node.inputs))
    count, written = len(rule.inputs), len(site.node.outputs) - len(bare.node.outputs)

    def grown(dims: tuple[Dims, ...], own: Dims) -> tuple[Dims, ...]:
        return (*dims[:count], *[own] * len(read), *dims[count:], *[own] * written)

    ways, total = [], len(rule.dims) + len(read) + written
    new = (*range(count, count + len(read)), *range(total - written, total))
    for way in rule.ways:
        assert isinstance(way.form, Placed)
        places = grown(way.form.places, THERE if way.backend else HERE)
        columns = {port if port < count else port + len(read) for port in way.form.columns}
        form = replace(way.form, places=places, columns=frozenset(columns.union(new)))
        ways.append(replace(way, form=form, rewrite=_knowing(way, new, total)))
    inputs, dims = (*rule.inputs, *read), grown(rule.dims, HERE)
    named, marker = rule.letters, unnamed(len(SHAPE))
    letters = (*named[:count], *[marker] * len(read), *named[count:], *[marker] * written) if named else ()
    return replace(rule, inputs=inputs, dims=dims, ways=tuple(ways), letters=letters, otherwise=None)


def _knowing(way: Way, markers: Sequence[int], total: int) -> Rewrite:
    """The rewrite of a way that knows nothing of markers, whether or not they are among the ports."""

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        own = [shape for port, shape in enumerate(shapes) if len(shapes) < total or port not in markers]
        return way.rewrite(row, tuple(own))

    return rewrite
