"""Recurrent operators over whole sequences."""

from __future__ import annotations

from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.rule import Dims, Rule, Site, Way, rule

T, B, K, G, H = ("t",), ("b",), ("k",), ("g",), ("h",)

_LENGTHS, _STATES = 4, {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""The input that has the length of each sequence, and those that are states."""


@rule("GRU", "LSTM", "RNN")
def recurrent(site: Site) -> Rule | None:
    """``[t, b, k]`` to ``[t, d, b, h]``: time and hidden features keep their order, the batch comes in any.

    So do the features that are read, where constant weights ``[d, g, k]`` follow. What has the batch first is not
    covered: ONNX Runtime does not run it.
    """
    if site.attribute("layout", 0):
        return None
    states = tuple(number for number in _STATES[site.node.op] if site.input(number) is not None)
    lengths = () if site.input(_LENGTHS) is None or site.constant(_LENGTHS) is not None else (_LENGTHS,)
    directions = () if site.required(1).shape[0] == 1 else ("d",)
    state: Dims = (directions, B, H)
    results: list[Dims] = [(T, directions, B, H), state, state]
    written = [dims for dims, name in zip(results, site.node.outputs, strict=False) if name]
    dims = ((T, B, K), (directions, G, K), *((B,) for _ in lengths), *(state for _ in states), *written)
    free = frozenset("k") if site.constant(1) is not None else frozenset()
    if lengths or site.input(_LENGTHS) is None:
        free |= {"b"}
    form = Placed(dims, free=free)
    solid = frozenset("tgdh" if "b" in free else "tgdhb")
    return Rule((0, 1, *lengths, *states), dims, (Way(form, site.unchanged),), solid=solid)
