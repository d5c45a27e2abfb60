"""Layouts and proofs as plain data, such as JSON holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from layoutsolve.solver.proof.tree import Branch, Leaf, Tree
from layoutsolve.solver.statement.bound import Offers, Place
from layoutsolve.solver.theory.layout import Layout, Order

What = TypeVar("What")


def layout_text(layout: Layout) -> str:
    """A layout as text: stored dimensions apart by spaces, their atoms by points, '-' for a dimension of size 1."""
    return " ".join(".".join(map(str, group)) or "-" for group in layout)


def layout_of(text: str) -> Layout:
    """What :func:`layout_text` writes."""
    return tuple(() if group == "-" else tuple(map(int, group.split("."))) for group in text.split())


def tree_facts(tree: Tree) -> dict[str, object]:
    """A proof as plain data."""
    if isinstance(tree, Branch):
        return {
            "operator": tree.operator,
            "port": tree.port,
            "layout": layout_text(tree.layout),
            "inside": tree_facts(tree.inside),
            "outside": tree_facts(tree.outside),
        }
    return {
        "unit": tree.unit,
        "earlier": list(tree.earlier),
        "layouts": _offers(tree.offers.layouts, layout_text),
        "orders": _offers(tree.offers.orders, _order_text),
    }


def tree_of(facts: Mapping[str, Any]) -> Tree:
    """What :func:`tree_facts` gives. Raises :class:`ValueError`, :class:`KeyError` or :class:`TypeError`."""
    if "operator" in facts:
        cases = (tree_of(facts[name]) for name in ("inside", "outside"))
        return Branch(int(facts["operator"]), int(facts["port"]), layout_of(facts["layout"]), *cases)
    offers = Offers(_offered(facts["layouts"], layout_of), _offered(facts["orders"], _order_of))
    return Leaf(int(facts["unit"]), tuple(map(int, facts["earlier"])), offers)


def _offers(offers: Mapping[Place, Mapping[What, int]], text: Callable[[What], str]) -> dict[str, dict[str, int]]:
    return {
        f"{number}.{port}": {text(what): amount for what, amount in sorted(said.items(), key=lambda item: str(item[0]))}
        for (number, port), said in sorted(offers.items())
    }


def _offered(facts: Mapping[str, Any], read: Callable[[str], What]) -> dict[Place, dict[What, int]]:
    return {_place(text): {read(what): int(amount) for what, amount in said.items()} for text, said in facts.items()}


def _place(text: str) -> Place:
    number, port = map(int, text.split("."))
    return number, port


def _order_text(atoms: Order) -> str:
    return " ".join(map(str, atoms))


def _order_of(text: str) -> Order:
    return tuple(map(int, text.split()))
