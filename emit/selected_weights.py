"""Weights of 8 bits that are selected when the model is loaded.

Kernels for x86 that multiply bytes without a sign by weights with one take the least time on processors with VNNI; on
others their sums saturate, and weights without a sign are needed. A product of constants tells which processor this is,
and one If gives all weights in the form that it wants. Runtimes fold constants and inline the branch while they load,
so that what is left is the model that would have been written for the processor. The weights are stored once, with a
sign; those without one are computed from them outside of the If, where every version of ONNX Runtime folds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from layoutsolve.emit.parameters import parameters_of
from layoutsolve.emit.writer import Writer
from layoutsolve.ir.graph import Array, Node, Quant, Value
from layoutsolve.ir.saturation import of_integers, places_of
from layoutsolve.proto.messages import GraphProto, TensorProto, TypeProto, ValueInfoProto, attribute
from layoutsolve.proto.weight_selection import NAME

_TELLS = (
    "While the model is loaded: int8 weights where this processor adds uint8 by int8 exactly (VNNI, ARM, WebAssembly), "
    "else the same as uint8, as such sums saturate (other x86)."
)
_SIGN, _TERMS = 128, 4
_RUN = 16
"""How many numbers a runtime computes at a time at least; with a scalar, singly where the last size is 1."""


def write_product(writer: Writer, node: Node) -> bool:
    """Write a product of integers whose sums may saturate in both forms, or by uint8 weights where the target
    stores all so; False for all other nodes.
    """
    found = of_integers(writer.graph, node) if writer.selects or writer.unsigned else None
    if found is None:
        return False
    made, write = writer.graph.values[node.outputs[0]], write_both if writer.selects else _write_unsigned
    write(writer, node.op, _read(writer, node), made, node.attributes, node.domain, *found)
    return True


def _read(writer: Writer, node: Node) -> list[str]:
    """What a product reads; not its weights and their zero where none of them is written."""
    places = places_of(node.op, node.domain)
    left = places[1:] if places is not None and writer.unsigned else ()
    return [writer.stored(name) if name and place not in left else "" for place, name in enumerate(node.inputs)]


def _write_unsigned(
    writer: Writer,
    op: str,
    inputs: Sequence[str],
    made: Value,
    attributes: Mapping[str, Any],
    domain: str,
    weights: Value,
    zero: Array,
) -> None:
    places = places_of(op, domain)
    assert places is not None
    given = _without_sign(writer, inputs, places, _constant(writer, _higher(weights.constant), "w"), zero)
    writer.node(op, given, [writer.name(made.name)], attributes, domain)


def _without_sign(
    writer: Writer, inputs: Sequence[str], places: tuple[int, int, int], weights: str, zero: Array
) -> list[str]:
    """The inputs of a product by ``weights`` as uint8, whose zero point is 128 above that of int8."""
    _, place, at = places
    found = [*inputs, *[""] * (at + 1 - len(inputs))]
    found[place], found[at] = weights, _constant(writer, _higher(zero), "w/zero_point")
    return found


def _constant(writer: Writer, data: Array, name: str) -> str:
    """The initializer of some bytes, one for all that are alike."""
    return writer.shared("uint8", writer.alike(data), partial(writer.taken.unique, name))


def write_both(
    writer: Writer,
    op: str,
    inputs: Sequence[str],
    made: Value,
    attributes: Mapping[str, Any],
    domain: str,
    weights: Value,
    zero: Array,
) -> None:
    """Write an integer product by int8 ``weights``, whose zero point is given, and by the same as uint8."""
    places = places_of(op, domain)
    assert places is not None
    bare = _bare(writer, inputs[places[1]], weights.constant.shape)
    given = {"int8": inputs, "uint8": _without_sign(writer, inputs, places, bare, zero)}
    branches = {}
    for dtype, names in given.items():
        branch, result = GraphProto(name=dtype), writer.taken.unique(f"{writer.name(made.name)}/{dtype}")
        with _within(writer, branch):
            writer.node(op, names, [result], attributes, domain)
        branch.output.append(writer.info(made, result))
        branches[dtype] = branch
    _select(writer, branches["int8"], branches["uint8"], [writer.name(made.name)])


def write(writer: Writer) -> None:
    """Write, before all other nodes, the selected weights and the probe of the processor."""
    selection = writer.selection
    chosen = {name: real for name, real in selection.real.items() if real}
    if not chosen and not selection.bare:
        return
    others, writer.body.nodes = writer.body.nodes, []
    _probe(writer)
    signed, unsigned = GraphProto(name="int8"), GraphProto(name="uint8")
    for name in chosen:
        value = writer.graph.values[name]
        stored, zero = writer.stored(name), value.steps.zero_point
        bare = _bare(writer, stored, value.constant.shape)
        for branch, weights, at in ((signed, stored, zero), (unsigned, bare, _higher(zero))):
            _dequantize(writer, branch, bare, weights, replace(value.steps, zero_point=at))
    for stored, (bare, shape) in selection.bare.items():
        _compute(writer, stored, bare, shape)
    if chosen:
        _select(writer, signed, unsigned, list(chosen.values()))
    writer.body.nodes += others


def _select(writer: Writer, signed: GraphProto, unsigned: GraphProto, outputs: Sequence[str]) -> None:
    branches = {"then_branch": attribute("then_branch", signed), "else_branch": attribute("else_branch", unsigned)}
    writer.node("If", [_exact(writer)], outputs, branches, name=NAME)
    if writer.body.nodes[-1].name == NAME:  # once, as a layer alone may be smaller than what is said
        writer.body.nodes[-1].doc_string = _TELLS


@contextmanager
def _within(writer: Writer, graph: GraphProto) -> Iterator[None]:
    """Write nodes to a branch."""
    body = writer.body
    around, body.nodes = body.nodes, []
    yield
    graph.node.extend(body.nodes)
    body.nodes = around


def _dequantize(writer: Writer, graph: GraphProto, near: str, stored: str, quant: Quant) -> None:
    """Add to a branch, which is called as a type, what gives the real numbers of weights that are stored as it. Names
    are derived from ``near``: those of layers are longer than all else that is written of small ones.
    """
    parameters, attributes = parameters_of(writer, near, quant, graph.name)
    result = writer.taken.derived(near, graph.name)
    with _within(writer, graph):
        writer.node("DequantizeLinear", [stored, *parameters], [result], attributes, name=graph.name)
    graph.output.append(ValueInfoProto(name=result, type=TypeProto(tensor_type={"elem_type": TensorProto.FLOAT})))


def _exact(writer: Writer) -> str:
    """The name of what tells whether this processor adds products exactly."""
    selection = writer.selection
    selection.exact = selection.exact or writer.taken.unique("probe/exact")
    return selection.exact


def _probe(writer: Writer) -> None:
    """Add the largest products, four at a time."""
    names = {title: writer.taken.unique(f"probe/{title}") for title in ("x", "weights", "right", "sum")}
    x, weights = np.full(_TERMS, 255, np.uint8), np.full(_TERMS, 127, np.int8)
    given = [writer.initializer(names["x"], "uint8", x), writer.initializer(names["weights"], "int8", weights)]
    right = writer.initializer(names["right"], "int32", np.array(_TERMS * 255 * 127, np.int32))
    writer.node("MatMulInteger", given, [names["sum"]], name="probe")
    writer.node("Equal", [names["sum"], right], [_exact(writer)], name="probe")


def _bare(writer: Writer, stored: str, shape: tuple[int, ...]) -> str:
    """The name of weights without a sign, which are computed from those with one."""
    known = writer.selection.bare
    if stored not in known:
        known[stored] = writer.taken.unique(f"w{len(known)}"), shape
    return known[stored][0]


def _compute(writer: Writer, stored: str, bare: str, shape: tuple[int, ...]) -> None:
    sizes, signs, bits = _last(shape), writer.selection.signs, writer.taken.derived(bare, "bits")
    if sizes not in signs:
        name = writer.taken.unique("probe/sign")
        signs[sizes] = writer.initializer(name, "uint8", np.full(sizes, _SIGN, np.uint8))
    writer.node("Cast", [stored], [bits], {"to": "uint8"}, name="weights")
    writer.node("BitwiseXor", [bits, signs[sizes]], [bare], name="weights")


def _higher(data: Array) -> Array:
    """Numbers without a sign, 128 higher; an array also of one, of which NumPy makes a scalar that has no place."""
    return np.asarray(data.astype(np.int16) + _SIGN, np.uint8)


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last dimensions of a shape that a runtime takes at a time; none where it takes a scalar as fast."""
    counts = range(1, len(shape) + 1)
    return () if shape[-1] > 1 else shape[-next((n for n in counts if np.prod(shape[-n:]) >= _RUN), len(shape)) :]
