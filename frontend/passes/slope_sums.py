"""LeakyRelu of int8 or uint8 that layoutsolve wrote as a sum of what is above zero and of all, in steps that make that
of what is read: the second is as much of it as the slope.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.ir.graph import Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

_NEAR = 1e-5
"""How far two steps may be apart that are the same but for how float32 rounds their shares."""

_PARTS = ("Clip", "Identity")
_LIMITS = ("x", "least", "greatest")
"""The inputs of a Clip that has all of them."""


@dataclass(frozen=True, eq=False)
class _Sum:
    """What is read, what that means, the slope below zero, and how many of its readers are parts of the sum."""

    x: Value
    quant: Quant
    slope: float
    readers: int


def recognise(graph: Graph) -> Graph:
    """The same graph with LeakyRelu in place of such sums."""
    sums = {node: found for node in graph.nodes if (found := _sum(graph, node)) is not None}
    return substituted(graph, sums, partial(_bent, graph))


def _sum(graph: Graph, node: Node) -> _Sum | None:
    if node.op != "Add" or node.domain or node.storage:
        return None
    made = [graph.producer(name) for name in node.inputs]
    clip, whole = (next((each for each in made if each is not None and each.op == op), None) for op in _PARTS)
    if clip is None or whole is None or not (clip.storage and whole.storage) or len(clip.inputs) != len(_LIMITS):
        return None
    x, above, below = (graph.values[name] for name in (clip.inputs[0], clip.outputs[0], whole.outputs[0]))
    one, other = above.quant, below.quant
    if whole.inputs[0] != x.name or clip.region is not node.region or whole.region is not node.region:
        return None
    if (
        one is None
        or other is None
        or not (above.in_bytes and below.in_bytes and graph.values[node.outputs[0]].in_bytes)
    ):
        return None
    limits = [graph.values[name].data for name in clip.inputs[1:]]
    zero, ends = one.zero_point.reshape(-1), np.iinfo(x.dtype)
    wanted = [int(zero[0]), ends.max]
    same = np.array_equal(zero, other.zero_point.reshape(-1)) and x.dtype == above.dtype == below.dtype
    if not same or [None if each is None else int(each.reshape(-1)[0]) for each in limits] != wanted:
        return None
    scale = np.asarray(one.scale + other.scale, np.float32)
    return _Sum(x, replace(one, scale=scale), float(other.scale[0] / scale[0]), 1 + (clip is not whole))


def _bent(graph: Graph, node: Node, found: _Sum, values: dict[str, Value], taken: Names) -> list[Node]:
    """A LeakyRelu; what it reads means what the parts do together, and is renamed where others read it too."""
    x, maker = found.x, graph.producer(found.x.name)
    bent = replace(node, op="LeakyRelu", inputs=(x.name,), attributes={"alpha": found.slope}, given=False)
    if x.quant is not None and np.allclose(x.quant.scale, found.quant.scale, rtol=_NEAR):
        return [bent]
    if maker is not None and maker.op == "QuantizeLinear" and graph.reads[x.name] == found.readers:
        values[x.name] = replace(x, quant=found.quant)
        return [bent]
    name = taken.derived(x.name, "whole")
    values[name] = replace(x, name=name, quant=found.quant, data=None)
    again = Node("Identity", (x.name,), (name,), {}, node.origin, storage=True, region=node.region)
    return [again, replace(bent, inputs=(name,))]
