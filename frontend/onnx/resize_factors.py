"""Factors of a Resize by which ONNX's inference comes to the sizes that ONNX Runtime makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.onnx import constants
from layoutsolve.ir.graph import Array
from layoutsolve.proto.messages import DOMAINS, GraphProto, NodeProto, TensorProto
from layoutsolve.proto.resized_sizes import MOST, are_sizes, rounded

_FACTORS = 2
"""Which input of a Resize has the factors."""


def corrected(graph: GraphProto, sizes: Mapping[str, Sequence[int | None]]) -> bool:
    """Give every Resize of a graph that is inferred to make other sizes than it does factors of which the right ones
    are inferred; whether there was any. ``sizes`` are those that were inferred, None for one that is not known.
    """
    nodes = [node for node in graph.node if node.op_type == "Resize" and node.domain in DOMAINS and _is_plain(node)]
    given = _given(graph, {node.input[_FACTORS] for node in nodes if len(node.input) > _FACTORS}) if nodes else {}
    found = False
    for node in nodes:
        factors = given.get(node.input[_FACTORS]) if len(node.input) > _FACTORS else None
        if factors is None or any(node.input[_FACTORS + 1 :]) or not {node.input[0], node.output[0]} <= sizes.keys():
            continue
        fitting = _fitting(node, factors, sizes[node.input[0]], sizes[node.output[0]])
        if not np.array_equal(fitting, factors):
            name = f"{node.output[0]}/factors"
            graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=factors.shape, float_data=fitting)
            node.input[_FACTORS], found = name, True
    return found


def _is_plain(node: NodeProto) -> bool:
    """Whether the whole of an image is resized by factors alone, of which none is made another."""
    return not any(each.s in (b"tf_crop_and_resize", b"not_larger", b"not_smaller") for each in node.attribute)


def _given(graph: GraphProto, names: set[str]) -> dict[str, Array]:
    """The factors that are constants, by name."""
    told = {each.name: each for each in graph.initializer if each.name in names}
    for node in graph.node:
        if node.op_type == "Constant" and not names.isdisjoint(node.output):
            told |= {name: each.t for name in node.output for each in node.attribute if each.name == "value"}
    found = dict[str, Array]()
    for name, each in told.items():
        try:
            data = constants.of(each).data
        except ModelError:  # which is told where it is read
            continue
        if data is not None and data.dtype == np.float32 and ((data > 0) & (data < MOST)).all():
            found[name] = data.reshape(-1)
    return found


def _fitting(node: NodeProto, factors: Array, before: Sequence[int | None], after: Sequence[int | None]) -> Array:
    """Factors that are fit for the library: half a pixel more where it would round otherwise."""
    axes = next((list(each.ints) for each in node.attribute if each.name == "axes"), range(len(before)))
    made = factors.copy()
    if len(axes) != len(factors) or len(before) != len(after):
        return made
    sizes = [before[axis % len(before)] for axis in axes]
    for place, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        told = after[axis % len(after)]
        if size and told is not None and (wanted := rounded(size, factors[place])) != told:
            made[place] = np.float32((wanted + 0.5) / size)
    return made if are_sizes(sizes, factors) else factors
