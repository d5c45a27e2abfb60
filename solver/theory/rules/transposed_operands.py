"""Products of computed matrices with Transposes in front that ONNX Runtime does not execute.

At the level extended a Transpose of the rows and columns of a float operand becomes an attribute of the product, which
is a FusedMatMul then (MatmulTransposeFusion, ``matmul_transpose_fusion.cc``): so are the keys of attention read. Such
an operand is stored either way round for what it costs to store it as MatMul wants it.
"""

from __future__ import annotations

from collections.abc import Iterator

from layoutsolve.ir.graph import Graph, Node, Shape
from layoutsolve.solver.theory.offer import Offer, form
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Rule, Site, Step, Way
from layoutsolve.solver.theory.rules.contraction import K, M, N, batches, numbers
from layoutsolve.solver.theory.rules.reordered import has_unexecuted, unexecuted


@form(
    "MatMul",
    "ort-cpu",
    writes="float MatMul of computed matrices, of a source in ONNX: Transposes that ONNX Runtime takes into it",
    kinds=("transposed",),
)
def transposed(site: Site, rule: Rule) -> Iterator[Way]:
    """A product with one Transpose or two in front, of the rows and columns of an operand."""
    node, ports = site.node, (site.required(0), site.required(1), site.output())
    computed = node.given and node.region is None and all(site.constant(side) is None for side in (0, 1))
    if not computed or rule.dims[0][:-2] != rule.dims[1][:-2] or not all(each.in_floats for each in ports):
        return
    labels, facts = batches(len(site.output().shape) - 2), numbers(site)
    for sides in ((0,), (1,), (0, 1)):
        left, right = (K, M) if 0 in sides else (M, K), (N, K) if 1 in sides else (K, N)
        shapes = [site.required(side).shape for side in sides]
        placed = Placed((left, right, (M, N)), frozenset("mkn"), prefix=labels, price=unexecuted(shapes))
        yield _way(site, placed, sides, facts)


def taken_operands(graph: Graph, offer: Offer) -> int:
    """How many Transposes of a graph become a part of products as they stand, given what a target has."""
    found = 0
    for node in graph.nodes:
        if node.op == "MatMul" and has_unexecuted(graph, node, offer):
            producers = [graph.producer(name) for name in node.inputs if graph.reads[name] == 1]
            found += sum(before is not None and _turns(before) for before in producers)
    return found


def _turns(node: Node) -> bool:
    rank = len(node.attributes["perm"]) if node.op == "Transpose" else 0
    return rank > 1 and tuple(node.attributes["perm"]) == _turned(rank)


def _turned(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _way(site: Site, placed: Placed, sides: tuple[int, ...], facts: str) -> Way:
    names = {side: f"operand{side}" for side in sides}

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        made = {side: tuple(shapes[side][axis] for axis in _turned(len(shapes[side]))) for side in sides}
        return (
            *(
                Step(
                    "Transpose",
                    (side,),
                    (Between(names[side], site.required(side).dtype, made[side]),),
                    {"perm": _turned(len(made[side]))},
                )
                for side in sides
            ),
            Step("MatMul", tuple(names.get(side, side) for side in (0, 1)), (0,)),
        )

    return Way(placed, rewrite, f"transposed, {facts}")
