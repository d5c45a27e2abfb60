"""Recurrent operators over whole sequences."""

from __future__ import annotations

from layoutsolve.solver.theory.rule import Dims, Placed, Rule, Site, Way, rule

T, B, K, G, H = ("t",), ("b",), ("k",), ("g",), ("h",)

_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""The inputs that are states."""


@rule("GRU", "LSTM", "RNN")
def recurrent(site: Site) -> Rule | None:
    """``[t, b, k]`` to ``[t, 1, b, h]``: time and hidden features keep their order, the batch comes in any.

    So do the features that are read, where constant weights ``[1, g, k]`` follow. Two directions at once are not
    covered.
    """
    if site.required(1).shape[0] != 1 or site.attribute("layout", 0) or site.input(4) is not None:
        return None
    states = tuple(number for number in _STATES[site.node.op] if site.input(number) is not None)
    state: Dims = ((), B, H)
    results: list[Dims] = [(T, (), B, H), state, state]
    written = [dims for dims, name in zip(results, site.node.outputs, strict=False) if name]
    dims = ((T, B, K), ((), G, K), *(state for _ in states), *written)
    free = frozenset("bk") if site.constant(1) is not None else frozenset("b")
    form = Placed(dims, free=free)
    return Rule((0, 1, *states), dims, (Way(form, site.unchanged),), solid=frozenset("tgh"))
