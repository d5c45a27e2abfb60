"""The scope of a proof: operators that an answer keeps in their own layout, which it is relative to.

Those whose tensors have one order alone make no difference. Where Transposes are left, products of heads are among
them: by a matrix whose rows or columns the graph splits. A product for each head would give or take these in front of
what else there is. No rule writes it of weights that are quantized or that are split into many factors; where time
counts as Transposes do, one product is kept for what several take longer. So are Reshapes that cut what they read and
what they give into blocks without common factors, which stay together; and what a Loop collects, which it stacks in
front.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from layoutsolve.ir.graph import KEPT, Graph, Node
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.rule import Rule, operator_name

MOVES = frozenset(("Reshape", "Transpose"))
"""Operators that are counted where they stay what they are."""

PRODUCTS, HEADS = frozenset(("MatMul", "Gemm")), " of heads"
"""Products by weights, and what those of several heads are called behind their name."""

ENTANGLED, COLLECTED = "entangled Reshape", "Loop output"
"""What a Reshape is called whose blocks have no common factors, and what a Loop collects of its turns."""


def kept_operators(
    graph: Graph, problem: LayoutProblem, rules: Mapping[int, Rule], opaque_views: Collection[int], transposes: int
) -> dict[str, int]:
    """How many operators of each name are kept in their own layout, the most frequent first, where so many Transposes
    are left; ``rules`` are those of the nodes, ``opaque_views`` the views that were stated as operators.
    """
    counts = Counter[str]()
    for node in (graph.nodes[number] for number, rule in rules.items() if rule.kept):
        movable = any(_has_orders(graph, name) for name in (*node.inputs, *node.outputs))
        if node.op.removeprefix(KEPT) not in MOVES and movable:
            counts[operator_name(replace(node, op=node.op.removeprefix(KEPT)))] += 1
    if transposes:
        stated = [(number, graph.nodes[number], rule) for number, rule in rules.items()]
        counts.update(COLLECTED for _, node, rule in stated if _collects(graph, node, rule))
        reshapes = (rule for number, node, rule in stated if node.op == "Reshape" and number not in opaque_views)
        counts.update(ENTANGLED for rule in reshapes if rule.solid)  # blocks that have no common factors
        products = (each for each in problem.operators if each.node >= 0 and graph.nodes[each.node].op in PRODUCTS)
        counts.update(f"{graph.nodes[each.node].op}{HEADS}" for each in products if _splits(problem, rules, each))
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _collects(graph: Graph, node: Node, rule: Rule) -> bool:
    """Whether a node is what a Loop collects, which comes in front."""
    placed = node.op == "Stack" and any(isinstance(form, Placed) for form in rule.forms)
    return placed and _has_orders(graph, node.outputs[0])


def _splits(problem: LayoutProblem, rules: Mapping[int, Rule], product: Operator) -> bool:
    """Whether the graph splits rows or columns of the weights of a product, and products of heads are not among its
    ways.
    """
    if product.node in rules and any(way.factors for way in rules[product.node].ways):
        return False
    weights = [problem.variables[each] for each in product.ports[: product.inputs]]
    layouts = [layout for each in weights if each.constant for layout in each.readings.values() if len(layout) == 2]
    return any(len(group) > 1 for layout in layouts for group in layout)


def _has_orders(graph: Graph, name: str) -> bool:
    """Whether a tensor that is computed has more than one order of dimensions, as far as is known."""
    value = graph.values[name] if name else None
    if value is None or value.data is not None:
        return False
    return value.foreign is not None or sum(dim != 1 for dim in value.shape) > 1
