"""Layouts and proofs as plain data, such as JSON holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from layoutsolve.solver.proof.dual_bound import DualValues, Place
from layoutsolve.solver.proof.tree import Branch, Step, Tree
from layoutsolve.solver.theory.layout import Layout, Order
from layoutsolve.solver.theory.row import Arrangement, Slot

What = TypeVar("What")


def layout_text(layout: Layout) -> str:
    """A layout as text: stored dimensions apart by spaces, their atoms by points, '-' for a dimension of size 1."""
    return " ".join(".".join(map(str, group)) or "-" for group in layout)


def layout_of(text: str) -> Layout:
    """What :func:`layout_text` writes."""
    return tuple(() if group == "-" else tuple(map(int, group.split("."))) for group in text.split())


def arrangement_text(arrangement: Arrangement) -> str:
    """An arrangement of slots as text, as layouts have it of atoms."""
    return " ".join(".".join(f"{label}#{factor}" for label, factor in group) or "-" for group in arrangement)


def arrangement_of(text: str) -> Arrangement:
    """What :func:`arrangement_text` writes. Raises :class:`ValueError`."""
    return tuple(() if group == "-" else tuple(_slots(group)) for group in text.split())


_SLOT = re.compile(r"(.+?)#([0-9]{1,9})(?:\.|$)")
"""A label, which may have points in it, and the number of a factor."""


def _slots(text: str) -> Iterator[Slot]:
    place = 0
    while place < len(text):
        found = _SLOT.match(text, place)
        if found is None:
            raise ValueError(f"'{text[place:]}' is no factor of a dimension")
        yield found[1], int(found[2])
        place = found.end()


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
        "own": tree.own,
        "earlier": list(tree.earlier),
        "layouts": _dual_texts(tree.dual_values.layouts, layout_text),
        "orders": _dual_texts(tree.dual_values.orders, _order_text),
        "rest": None if tree.rest is None else tree_facts(tree.rest),
    }


def tree_of(facts: Mapping[str, Any]) -> Tree:
    """What :func:`tree_facts` gives. Raises :class:`ValueError`, :class:`KeyError` or :class:`TypeError`."""
    if "operator" in facts:
        cases = (tree_of(facts[name]) for name in ("inside", "outside"))
        return Branch(int(facts["operator"]), int(facts["port"]), layout_of(facts["layout"]), *cases)
    dual_values = DualValues(_dual_values(facts["layouts"], layout_of), _dual_values(facts["orders"], _order_of))
    rest = None if facts["rest"] is None else tree_of(facts["rest"])
    return Step(int(facts["own"]), tuple(map(int, facts["earlier"])), dual_values, rest)


def _dual_texts(
    dual_values: Mapping[Place, Mapping[What, int]], text: Callable[[What], str]
) -> dict[str, dict[str, int]]:
    return {
        f"{number}.{port}": {text(what): amount for what, amount in sorted(said.items(), key=lambda item: str(item[0]))}
        for (number, port), said in sorted(dual_values.items())
    }


def _dual_values(facts: Mapping[str, Any], read: Callable[[str], What]) -> dict[Place, dict[What, int]]:
    return {_place(text): {read(what): int(amount) for what, amount in said.items()} for text, said in facts.items()}


def _place(text: str) -> Place:
    number, port = map(int, text.split("."))
    return number, port


def _order_text(atoms: Order) -> str:
    return " ".join(map(str, atoms))


def _order_of(text: str) -> Order:
    return tuple(map(int, text.split()))
